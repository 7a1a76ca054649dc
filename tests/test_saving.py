"""Folders of models that aren't whole, in our format and in Hugging Face's: each is refused in one
sentence."""

import json
import os

import pytest
import torch
from cli_tools import former, refused
from refusals import refuses
from safetensors.torch import load_file, save_file
from test_pretrained import DECODERS, GPT2, NONE, bytes_bpe, change_config, make, with_tokenizer

from former_nb.base.checkpoints import write_tensors
from former_nb.data.tokenization import CharTokenizer
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.hugging_face import from_hugging_face
from former_nb.saving.saving import _hash, load_model, save_model

transformers = pytest.importorskip("transformers")
POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has neither these pipes nor devices")
CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"


@pytest.fixture
def own(tmp_path):
    "A model of ours in a folder, with files that nobody forged."
    tokenizer = CharTokenizer("abc")
    config = TransformerConfig(tokenizer.vocab_size, 8, 8, 2, 1, d_ff=8)
    save_model(tmp_path / "own", LanguageModel.from_config(config), tokenizer)
    load_model(tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def theirs(tmp_path):
    "A GPT-2 in a folder as Hugging Face writes it."
    sizes = GPT2 | dict(vocab_size=300)
    config = transformers.GPT2Config(**sizes, **NONE)
    with_tokenizer(tmp_path / "theirs", "GPT2LMHeadModel", config, bytes_bpe())
    load_model(tmp_path / "theirs")
    return tmp_path / "theirs"


def tie(folder, change=dict):
    "Write the weights again, with sums that are right for what the folder holds now."
    sums = {file.name: _hash(file) for file in folder.glob("*.json")}
    write_tensors(folder / WEIGHTS, change(load_file(folder / WEIGHTS)), json.dumps(sums))


def config(**changes):
    def spoil(folder):
        change_config(folder, **changes)
        tie(folder)

    return spoil


def no_tensor(tensors):
    return {name: t for name, t in tensors.items() if name != "stack.norm.weight"}


TIED = ("embed.tokens.weight", "head.weight")


def with_both(factor):
    "A tensor for each name of one weight, the second times a factor."

    def change(tensors):
        [t] = [tensors[name] for name in TIED if name in tensors]
        return tensors | {TIED[0]: t, TIED[1]: factor * t}

    return change


SPOILT = {
    "a key that is not known": (config(n_wings=2), ["'n_wings'", "n_heads", "n_layers"]),
    "a size that is a word": (config(n_layers="two"), ["n_layers", "'two'"]),
    "a tensor too few": (lambda f: tie(f, change=no_tensor), ["also stack.norm.weight"]),
    "a tensor too many": (
        lambda f: tie(f, change=lambda t: t | {"more": torch.ones(1)}),
        ["only tensors of this model", "'more'"],
    ),
    "a tensor of another shape": (
        lambda f: tie(f, change=lambda t: t | {"stack.norm.weight": torch.ones(1, 8)}),
        ["stack.norm.weight", "(8,)", "(1, 8)"],
    ),
    "whole numbers": (
        lambda f: tie(f, change=lambda t: t | {"stack.norm.weight": torch.ones(8).int()}),
        ["stack.norm.weight", "torch.int32"],
    ),
    "no configuration": (lambda f: (f / CONFIG).unlink(), [CONFIG, "No such file"]),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), [WEIGHTS, "No such file"]),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_spoilt_folder_is_one_sentence(own, case):
    spoil, words = SPOILT[case]
    spoil(own)
    with pytest.raises(ValueError, match="^model: ") as error:
        load_model(own)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_weight_that_is_there_twice_is_read(own):
    before = load_model(own).model.state_dict()
    tie(own, change=with_both(1.0))
    model = load_model(own).model
    assert model.head.weight is model.embed.tokens.weight
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())


def test_weights_of_half_precision_are_read(own):
    model = load_model(own).model
    tie(own, change=lambda tensors: {n: t.half() for n, t in tensors.items()})
    for name, t in load_model(own).model.state_dict().items():
        assert torch.equal(t, model.state_dict()[name].half().float())


# ---- Hugging Face's folders


def change_tensor(folder, name, dtype):
    tensors = load_file(folder / WEIGHTS)
    tensors[name] = tensors[name].to(dtype)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def test_a_spoilt_folder_of_theirs_is_one_sentence_on_the_command_line(theirs):
    os.truncate(theirs / CONFIG, 100)
    refused(former("generate", "--model", theirs), "Error: model: ", CONFIG, "expected JSON")


def test_each_part_of_a_joined_tensor_is_looked_at(tmp_path):
    make(*DECODERS["llama"]).save_pretrained(tmp_path)
    change_tensor(tmp_path, "model.layers.1.self_attn.k_proj.weight", torch.int8)
    refuses(lambda: from_hugging_face(tmp_path), ValueError, "source", "int8")


# ---- a folder that is not there


@pytest.mark.parametrize("name", ["runs/typo", "./typo", "/no/such/folder", "typo", "../a/b"])
def test_a_folder_that_is_not_there_is_no_name_on_the_hub(name, monkeypatch):
    ask = lambda *args, **kwargs: pytest.fail("asked the hub")
    monkeypatch.setattr("former_nb.models.pretrained.hf_hub_download", ask)
    refuses(lambda: LanguageModel.from_pretrained(name), ValueError, "model")
