"""Data of one's own: files that come split, names for classes, and a trained model that is judged
on a file that came later."""

import json
from pathlib import Path

import pytest
from cli_tools import SMALL, done, former, refused, write_table, write_tables

from former_nb.base.files import read_json
from former_nb.data.toy_data import number_pairs
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks.names import Names
from former_nb.tasks.pairs import Translate

TINY = ["--steps", 2, *SMALL]
NAMES = "0=bearish, 1=bullish, 2=neutral"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def tweets(tables, tmp_path_factory):
    "A classifier with a test file and names for its classes; what its training said."
    out = tmp_path_factory.mktemp("runs") / "tweets"
    files = ["--csv", tables["train"], "--test", tables["test"], "--classes", NAMES]
    return out, done("train", "classify", *files, "--out", out, *TINY)


# ---- files that come split


def test_a_part_that_chose_the_weights_is_not_called_held_out(tables, tmp_path):
    files = ["--csv", tables["train"], "--valid", tables["valid"]]
    said = done("train", "classify", *files, "--out", tmp_path / "m", *TINY)
    assert "on 30 texts of the validation part, which also chose the weights" in said
    assert "held-out" not in said and "NB-SVM" in said


def test_pairs_and_names_come_split_too(tmp_path):
    pairs = number_pairs()
    files = {}
    for part, n in {"train": 60, "test": 7}.items():
        for i, side in enumerate(("src", "tgt")):
            files[part, side] = tmp_path / f"{part}.{side}"
            lines = [pair[i] for pair in pairs[part][:n]]
            files[part, side].write_text("\n".join(lines), encoding="utf-8")
    given = {side: str(files["train", side]) for side in ("src", "tgt")}
    held_out = {f"test_{side}": str(files["test", side]) for side in ("src", "tgt")}
    parts, source = Translate(**given, **held_out).read_parts()
    assert [len(part) for part in parts] == [57, 3, 7] and "held out from test.src" in source
    assert parts[-1] == pairs["test"][:7]
    with pytest.raises(ValueError, match="^test_src, test_tgt: expected both or neither"):
        Translate(**given, test_src=held_out["test_src"]).read_parts()
    for name, first in {"mine": "a", "others": "b"}.items():
        names = [first + last for last in "abcdefghijklmnopqrst"] + ["bc"]
        (tmp_path / name).write_text("\n".join(names))
    parts, source = Names(file=str(tmp_path / "mine"), test=str(tmp_path / "others")).read_parts()
    assert [len(part) for part in parts] == [19, 2, 20]
    assert source.endswith("held out from others, 1 of them also in the training data")


def test_a_text_is_judged_on_one_of_its_own_and_on_a_later_one(tmp_path):
    for name, text in {"one": "ab, cd. " * 60, "two": "cd, ab. " * 20, "three": "ab! " * 9}.items():
        (tmp_path / name).write_text(text)
    files = ["--file", tmp_path / "one", "--test", tmp_path / "two", "--length", 8]
    said = done("train", "text", *files, "--out", tmp_path / "m", *TINY)
    assert "held out: two, 160 characters: 456 to learn from, 24 to choose by, 160 held out" in said
    assert "per character, test part" in said
    evaluate = ["evaluate", "--model", tmp_path / "m", "--device", "cpu"]
    assert said.split("test part")[1] == done(*evaluate).split("test part")[1]
    assert "three, 36 characters, 9 of them unknown" in done(
        *evaluate, "--file", tmp_path / "three"
    )
    (tmp_path / "three").write_text("ab")
    refused(former(*evaluate, "--file", tmp_path / "three"), "file: expected at least 8 tokens")


# ---- names for classes


def test_classes_have_their_names_wherever_a_label_is_shown(tweets):
    out, said = tweets
    _, _, labels = load_model(out)
    assert labels == ["bearish", "bullish", "neutral"]
    assert all(name in said for name in labels) and "labels bearish, bullish, neutral" in said
    assert set(read_json("report", out / "training.json")["by_label"]) == set(labels)
    answer = done("classify", "--model", out, "firm 3 falls", "--device", "cpu")
    assert answer.split("\t")[0] in labels


def test_names_come_from_a_file_of_settings(tables, tmp_path):
    (tmp_path / "a.toml").write_text(f'csv = {json.dumps(tables["train"])}\nclasses = "{NAMES}"\n')
    said = done("train", "classify", "--config", tmp_path / "a.toml", "--dry-run")
    assert f'classes = "{NAMES}"' in said and "labels bearish, bullish, neutral" in said


WRONG = {
    "0=a, 1=b": "for each label of train.csv (0, 1, 2)",
    "0=a, 1=b, 2=c, 3=d": "for each label of train.csv (0, 1, 2) and for no other",
    "0=a, 1=b, 2.0=c": "(0, 1, 2)",
    "a, b, c": "such as '0=bearish",
    "0=a, 1=a, 2=b": "a name of its own",
    "0=a, 0=b, 1=c, 2=d": "a name of its own",
    "0=a, 1=, 2=b": "a name of its own",
    "0=a, 1=b, 2=c,": "a name of its own",
}


@pytest.mark.parametrize("classes", WRONG)
def test_names_that_do_not_fit_the_labels_are_refused(tables, classes):
    result = former("train", "classify", "--csv", tables["train"], "--classes", classes, *TINY)
    refused(result, "classes: expected ", WRONG[classes], f"got {classes!r}")


def test_a_label_that_was_not_learned_is_named_with_its_row(tables, tweets, tmp_path):
    odd = write_table(tmp_path / "odd.csv", 6, 9, {"0": "a", "5": "b"})
    for name in ("test", "valid"):
        result = former("train", "classify", "--csv", tables["train"], f"--{name}", odd, *TINY)
        refused(result, f"{name}: expected labels that were learned (0, 1, 2), got '5' in row 2")
    result = former("evaluate", "--model", tweets[0], "--csv", odd)
    refused(result, "csv: expected labels that were learned", "neutral", "'5' in row 2 of odd.csv")


# ---- a file that came later


def test_a_classifier_is_judged_on_a_later_table(tables, tweets, tmp_path):
    out, said = tweets
    evaluate = ["evaluate", "--model", out, "--device", "cpu"]
    assert said.split("Accuracy")[1] == done(*evaluate).split("Accuracy")[1]
    before = read_json("report", out / "training.json")
    later = done(*evaluate, "--csv", tables["later"])
    assert later.startswith("60 texts from later.csv, on cpu\n")
    assert "Accuracy on 60 held-out texts" in later and "NB-SVM" in later
    assert read_json("report", out / "training.json") == before
    own = done(*evaluate, "--csv", tables["test"])
    assert own.split("Accuracy")[1] == said.split("Accuracy")[1]
    learned = done(*evaluate, "--csv", tables["train"])
    assert learned.startswith("120 texts from train.csv, 120 of them also in the training data")
    other = tmp_path / "other.csv"
    other.write_text("tweet,mood\nfirm 1 falls,bearish\nfirm 2 rises,1\n")
    named = done(*evaluate, "--csv", other, "--text", "tweet", "--label", "mood")
    assert named.startswith("2 texts from other.csv") and "judged on 2 texts" in named


def test_without_its_training_data_a_model_has_no_rival(tables, tmp_path):
    file = tmp_path / "train.csv"
    file.write_bytes(Path(tables["train"]).read_bytes())
    out = tmp_path / "m"
    done("train", "classify", "--csv", file, "--out", out, *TINY)
    evaluate = ["evaluate", "--model", out, "--device", "cpu"]
    for change in (lambda: write_table(file, 99), file.unlink):
        change()
        result = former(*evaluate, "--csv", tables["later"])
        assert result.returncode == 0, result.stderr
        assert "Note: without the data of the training there is no rival: " in result.stderr
        assert "commonest label" in result.stdout and "NB-SVM" not in result.stdout
        assert former(*evaluate).returncode == 2


def test_a_model_that_no_run_made_is_judged_too(tables, tweets, tmp_path):
    save_model(tmp_path / "m", *load_model(tweets[0]))
    result = former("evaluate", "--model", tmp_path / "m", "--csv", tables["later"])
    refused(result, "csv: expected labels that were learned (bearish, bullish, neutral), got '0'")
    named = tmp_path / "named.csv"
    rows = ["text,label", *[f"firm {i} {x},{x}" for i in range(50) for x in ("bullish", "bearish")]]
    named.write_text("\n".join(rows))
    result = former("evaluate", "--model", tmp_path / "m", "--csv", named)
    assert result.stdout.startswith("100 texts from named.csv, on cpu\nAccuracy on 100")
    assert "Note: without the data of the training there is no rival: " in result.stderr
    refused(former("evaluate", "--model", tmp_path / "m"), "model: expected the folder of a run")
    result = former("evaluate", "--model", tmp_path / "m", "--src", named, "--tgt", named)
    refused(result, "src: expected --csv for a run of 'classify'")


def test_translators_and_models_of_names_are_judged_on_later_files(tmp_path):
    pairs = number_pairs()["train"]
    for name, rows in {"a": pairs[:60], "b": pairs[60:66]}.items():
        (tmp_path / f"{name}.de").write_text("\n".join(x for x, _ in rows), encoding="utf-8")
        (tmp_path / f"{name}.en").write_text("\n".join(y for _, y in rows), encoding="utf-8")
    files = ["--src", tmp_path / "a.de", "--tgt", tmp_path / "a.en", "--longest", 40]
    done("train", "translate", *files, "--out", tmp_path / "t", *TINY)
    later = ["--src", tmp_path / "b.de", "--tgt", tmp_path / "b.en"]
    evaluate = ["evaluate", "--device", "cpu", "--model"]
    said = done(*evaluate, tmp_path / "t", *later)
    assert said.startswith("6 pairs from b.de, on cpu\n") and "On 6 held-out sentences" in said
    (tmp_path / "a.de").unlink()
    result = former(*evaluate, tmp_path / "t", *later)
    assert "no rival" in result.stderr and "BLEU, greedy" in result.stdout
    (tmp_path / "names").write_text("\n".join([*map("jo{}".format, "abcdefghijk"), "x" * 40]))
    done("train", "names", "--out", tmp_path / "n", *TINY)
    said = done(*evaluate, tmp_path / "n", "--file", tmp_path / "names")
    assert "12 names from names, 1 left out, of more than " in said and "Kneser–Ney" in said


@pytest.mark.parametrize(
    "words, wanted",
    [
        ("--model TWEETS --file x", "file: expected --csv for a run of 'classify', got --file"),
        ("--model TWEETS --src x --tgt x", "src: expected --csv for a run of 'classify'"),
        ("--model TWEETS --text tweet", "csv: expected --csv for a run of 'classify', got --text"),
        ("--model TWEETS --csv nowhere.csv", "file: "),
    ],
)
def test_a_file_of_another_kind_is_refused(tweets, words, wanted):
    words = words.replace("TWEETS", str(tweets[0])).split()
    refused(former("evaluate", *words), wanted)


def test_a_task_that_makes_its_data_is_judged_on_no_file(tmp_path):
    done("train", "copy", "--rows", 100, "--out", tmp_path / "m", *TINY)
    result = former("evaluate", "--model", tmp_path / "m", "--file", "x")
    refused(result, "file: expected no other data for a run of 'copy', got --file")
