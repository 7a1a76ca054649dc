"""Models in folders and on the hub: they come back as they were, or a sentence says what is
missing."""

import shutil
from types import SimpleNamespace
from unittest.mock import patch

import pytest
import torch
from file_tools import Small, nothing_changes, same
from refusals import refuses
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close

from former_nb.models.config import TransformerConfig
from former_nb.models.pretrained import MODEL_CLASSES, Pretrained
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model, save_model


@pytest.fixture(params=[False, True], ids=["apart", "tied"])
def saved(request, tmp_path):
    torch.manual_seed(0)
    model = Small(3, tied=request.param)
    model.save_pretrained(tmp_path / "small")
    return model, tmp_path / "small"


def test_a_model_comes_back_in_eval_mode(saved):
    model, folder = saved
    kept = ["README.md", "config.json", "model.safetensors"]
    again = Small.from_pretrained(str(folder))
    assert sorted(file.name for file in folder.iterdir()) == kept
    assert same(again.state_dict(), model.state_dict()) and model.training
    assert not again.training and not again.dropout.training
    assert (again.head.weight is again.embed.weight) == (model.head.weight is model.embed.weight)


def test_saving_again_replaces_the_weights_and_keeps_the_readme(saved):
    model, folder = saved
    (folder / "README.md").write_text("mine"), (folder / "other.txt").write_text("mine too")
    with torch.no_grad():
        model.embed.weight.fill_(7.0)
    model.save_pretrained(folder)
    assert Small.from_pretrained(folder).embed.weight.eq(7).all()
    assert (folder / "README.md").read_text() == "mine" and (folder / "other.txt").exists()


def test_saving_that_fails_changes_nothing(saved):
    model, folder = saved
    with torch.no_grad():
        model.embed.weight.fill_(7.0)
    for call in ("os.fsync", "pathlib.Path.write_text", "tempfile.mkdtemp"):
        full = patch(call, side_effect=OSError(28, "No space left on device"))
        with nothing_changes(folder), full, pytest.raises(OSError):
            model.save_pretrained(folder)


def broken(folder, *came):
    refuses(lambda: Small.from_pretrained(folder), ValueError, "model", *came)


def test_what_is_missing_or_not_whole_is_named(saved, tmp_path):
    folder = saved[1]
    config, weights = folder / "config.json", folder / "model.safetensors"
    raw, text = weights.read_bytes(), config.read_text()
    for cut in range(0, len(raw), 9):
        weights.write_bytes(raw[:cut])
        broken(folder)
    weights.unlink(), broken(folder, "model.safetensors", "No such file")
    torch.save(saved[0].state_dict(), folder / "pytorch_model.bin")  # a pickle is no substitute
    broken(folder, "model.safetensors", "No such file")
    weights.write_bytes(raw)
    for bad in ("", "{", "[]", "null", "{}", '{"width": 4}', '{"width": "x"}', '{"wdth": 3}'):
        config.write_text(bad)
        broken(folder)
    config.unlink(), broken(folder, "config.json", "No such file")
    weights.unlink(), broken(folder, "config.json", "No such file")
    broken(tmp_path / "no such folder", "no such folder")
    config.write_text(text), weights.write_bytes(raw), Small.from_pretrained(folder)


def test_weights_that_are_not_all_there(saved):
    model, folder = saved
    state = {name: t.clone() for name, t in model.state_dict().items()}
    few = {"embed.weight": state["embed.weight"]}
    for bad in (few, state | {"more": torch.ones(1)}, state | {"embed.weight": torch.ones(5, 4)}):
        if model.head.weight is model.embed.weight and "head.weight" not in bad:
            continue  # one of two tied weights is enough
        save_file(bad, folder / "model.safetensors")
        broken(folder)


def test_the_hub_is_asked_for_safetensors_only(saved):
    asked = []

    def download(repo, name, **more):
        asked.append(name)
        return str(saved[1] / name)

    with patch("former_nb.models.pretrained.hf_hub_download", download):
        again = Small.from_pretrained("someone/small", revision="main")
    assert same(again.state_dict(), saved[0].state_dict())
    assert asked == ["config.json", "model.safetensors"]


@pytest.mark.parametrize("name", ["runs/typo", "./typo", "/no/such/folder", "typo", "../a/b"])
def test_a_folder_that_is_not_there_is_no_name_on_the_hub(name, monkeypatch):
    ask = lambda *args, **kwargs: pytest.fail("asked the hub")
    monkeypatch.setattr("former_nb.models.pretrained.hf_hub_download", ask)
    refuses(lambda: LanguageModel.from_pretrained(name), ValueError, "model")


class FakeHub:
    "A hub in a folder."

    def __init__(self, folder, **kwargs):
        self.folder = folder

    def create_repo(self, repo_id, **kwargs):
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(self, repo_id, folder_path, **kwargs):
        shutil.copytree(folder_path, self.folder / repo_id)

    def download(self, repo_id, filename, **kwargs):
        assert (self.folder / repo_id / filename).is_file()
        return str(self.folder / repo_id / filename)


def test_a_model_is_pushed_to_the_hub_with_a_card_and_comes_back(tmp_path, monkeypatch):
    hub = FakeHub(tmp_path)
    monkeypatch.setattr("huggingface_hub.hub_mixin.HfApi", lambda **kwargs: hub)
    monkeypatch.setattr("former_nb.models.pretrained.hf_hub_download", hub.download)
    model = LanguageModel.from_config(TransformerConfig(37, 20, 24, 3, 2, d_ff=40)).eval()
    tokens = torch.tensor([[7, 3, 9, 4, 8, 5, 11], [6, 2, 7, 1, 0, 0, 0]])
    model.push_to_hub("you/names")
    files = {file.name for file in (tmp_path / "you" / "names").iterdir()}
    assert files == {"README.md", "config.json", "model.safetensors"}
    back = LanguageModel.from_pretrained("you/names", revision="main")
    assert back.config == model.config
    assert_close(back(tokens), model(tokens), rtol=0, atol=0)
    refuses(
        lambda: LanguageModel.from_pretrained("you/others", revision="main"),
        ValueError,
        "model",
        "'you/others'",
    )


# ---- classes enter themselves


def test_a_class_enters_itself_and_a_name_of_the_package_stays_the_packages(tmp_path):
    before = dict(MODEL_CLASSES)
    try:

        class Doubled(LanguageModel):
            pass

        class Classifier(nn.Module, Pretrained):  # as somebody types it on a page
            pass

        assert MODEL_CLASSES["Doubled"] is Doubled
        assert MODEL_CLASSES["Classifier"] is before["Classifier"] is not Classifier
        tokenizer = load_model("names").tokenizer
        config = TransformerConfig(tokenizer.vocab_size, 8, 8, 2, 1, d_ff=8)
        save_model(tmp_path, Doubled.from_config(config), tokenizer)
        assert type(load_model(tmp_path).model) is Doubled
    finally:
        MODEL_CLASSES.clear()
        MODEL_CLASSES.update(before)
    refuses(lambda: load_model(tmp_path), ValueError, "model", "'Doubled'")  # it needs its class


def test_a_model_without_a_configuration_is_no_pair(tmp_path):
    before = dict(MODEL_CLASSES)
    try:

        class Bare(nn.Module, Pretrained):
            pass

        tokenizer = load_model("names").tokenizer
        refuses(lambda: save_model(tmp_path / "never", Bare(), tokenizer), ValueError, "model")
    finally:
        MODEL_CLASSES.clear()
        MODEL_CLASSES.update(before)
