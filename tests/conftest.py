"""What holds for all tests."""

import re

import pytest


def pytest_collection_modifyitems(items):
    "Refuse names that differ from process to process, as an object's address does."
    for item in items:
        if re.search(r" at 0x[0-9a-f]+", item.nodeid):
            raise pytest.UsageError(f"{item.nodeid}: a test's name may not hold an address")


# ---- for the command line; PyTorch is imported where it is needed


@pytest.fixture(scope="module")
def own_files(tmp_path_factory):
    "For each task with files of one's own, the settings that name them."
    from former_nb.data.data_sets import load_names
    from former_nb.data.toy_data import number_pairs

    folder, pairs = tmp_path_factory.mktemp("own"), number_pairs()["train"][:60]
    usual = set("aeiosnlrtdmgvkjubpėyz")  # letters that every part has, so that none gets a note
    texts = {
        "names": "\n".join(name for name in load_names()[0][::50] if usual.issuperset(name)),
        "long": "one, two, three, four, five. " * 40,
    }
    texts["csv"] = "text,label\n" + "\n".join(f"firm {i},{'up' * (i % 2 + 1)}" for i in range(40))
    texts |= {"de": "\n".join(a for a, _ in pairs), "en": "\n".join(b for _, b in pairs)}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    where = {name: str(folder / name) for name in texts}
    return {
        "copy": {"rows": 100},
        "names": {"file": where["names"]},
        "text": {"file": where["long"], "length": 8},
        "classify": {"csv": where["csv"]},
        "translate": {"src": where["de"], "tgt": where["en"]},
    }


@pytest.fixture(scope="module")
def names_command(own_files):
    "Words that train on a file of names."
    return ["train", "names", "--file", own_files["names"]["file"]]


@pytest.fixture(scope="module")
def names_model(tmp_path_factory, names_command):
    "What a run on names has left in its folder."
    from cli_tools import TINY, done

    out = tmp_path_factory.mktemp("trained") / "model"
    done(*names_command, "--out", out, *TINY)
    return out


@pytest.fixture(scope="module")
def own_run(tmp_path_factory):
    "A run that learned names from a file of one's own."
    from cli_tools import LIST, SMALL, done

    folder = tmp_path_factory.mktemp("own")
    (folder / "list").write_text("\n".join(LIST), encoding="utf-8")
    words = ["--file", folder / "list", "--out", folder / "run", "--epochs", 1, *SMALL]
    done("train", "names", *words)
    return folder / "run"


@pytest.fixture(scope="module")
def letters_classifier(tmp_path_factory):
    "A classifier that knows some letters only, with weights made by chance."
    from former_nb.data.tokenization import CharTokenizer
    from former_nb.models.config import TransformerConfig
    from former_nb.models.savable import Classifier
    from former_nb.saving.saving import save_model

    folder, tokenizer = tmp_path_factory.mktemp("classifier"), CharTokenizer("abcdefghij ")
    config = TransformerConfig(tokenizer.vocab_size, 16, d_model=8, n_heads=2, n_layers=1)
    save_model(folder, Classifier.from_config(config, 2), tokenizer, ["bad", "good"])
    return folder
