"""Folders that aren't whole or were edited, in our format and in Hugging Face's: each is refused in
one sentence."""

import json
import os

import pytest
import torch
from cli_tools import former, refused
from refusals import refuses
from safetensors.torch import load_file, save_file
from test_pretrained import DECODERS, GPT2, NONE, bytes_bpe, change_config, make, with_tokenizer
from test_pretrained_translators import PAIRS

from former_nb.base.checkpoints import write_tensors
from former_nb.data.tokenization import CharTokenizer
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import EncoderDecoder, LanguageModel
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


def text(name, content):
    def spoil(folder):
        (folder / name).write_text(content)
        tie(folder)

    return spoil


def cast(dtype):
    def change(tensors):
        name = "stack.norm.weight"
        return tensors | {name: tensors[name].to(dtype)}

    return lambda folder: tie(folder, change=change)


def no_tensor(tensors):
    return {name: t for name, t in tensors.items() if name != "stack.norm.weight"}


TIED = ("embed.tokens.weight", "head.weight")


def with_both(factor):
    "A tensor for each name of one weight, the second times a factor."

    def change(tensors):
        [t] = [tensors[name] for name in TIED if name in tensors]
        return tensors | {TIED[0]: t, TIED[1]: factor * t}

    return change


FORGED = {
    "no architecture": (config(architectures="absent"), ["architectures", "None"]),
    "an architecture of ours that is none": (config(architectures=["Evil"]), ["'Evil'"]),
    "labels that are an object": (text("labels.json", "{}"), ["labels.json", "a JSON list"]),
    "labels of a model without": (text("labels.json", '["a"]'), ["labels"]),
    "a key that is not known": (config(n_wings=2), ["'n_wings'", "n_heads", "n_layers"]),
    "a configuration that is a list": (text(CONFIG, "[]"), [CONFIG, "a JSON object"]),
    "no sizes": (text(CONFIG, '{"architectures": ["LanguageModel"]}'), ["vocab_size"]),
    "a size that is a word": (config(n_layers="two"), ["n_layers", "'two'"]),
    "a vocabulary of gigabytes": (config(vocab_size=10**8), ["100000000 tokens"]),
    "whole numbers": (cast(torch.int32), ["stack.norm.weight", "torch.int32"]),
    "a tensor too few": (lambda f: tie(f, change=no_tensor), ["also stack.norm.weight"]),
    "a tensor too many": (
        lambda f: tie(f, change=lambda t: t | {"more": torch.ones(1)}),
        ["only tensors of this model", "'more'"],
    ),
    "a tensor of another shape": (
        lambda f: tie(f, change=lambda t: t | {"stack.norm.weight": torch.ones(1, 8)}),
        ["stack.norm.weight", "(8,)", "(1, 8)"],
    ),
    "no configuration": (lambda f: (f / CONFIG).unlink(), [CONFIG, "No such file"]),
    "no weights": (lambda f: (f / WEIGHTS).unlink(), [WEIGHTS, "No such file"]),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_forged_folder_is_one_sentence(own, case):
    spoil, words = FORGED[case]
    spoil(own)
    with pytest.raises(ValueError, match="^model: ") as error:
        load_model(own)
    assert all(word in str(error.value) for word in words), str(error.value)
    refused(former("generate", "--model", own), "Error: model: ", *words)


def test_a_second_configuration_is_read_as_strictly_as_the_first(tmp_path):
    sizes = dict(max_len=8, d_model=8, n_heads=2, n_layers=1, d_ff=8)
    pair = [TransformerConfig(n, **sizes) for n in (7, 8)]
    EncoderDecoder.from_config(pair[0], tgt_config=pair[1]).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / CONFIG).read_text())
    assert EncoderDecoder.from_pretrained(tmp_path).tgt_config == pair[1]
    change_config(tmp_path, tgt_config=saved["tgt_config"] | {"n_wings": 2})
    call = lambda: EncoderDecoder.from_pretrained(tmp_path)
    refuses(call, ValueError, "model", "'n_wings'")


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


def test_links_to_files_are_read_as_the_cache_of_the_hub_has_them(own, tmp_path):
    (tmp_path / "linked").mkdir()
    for file in own.iterdir():
        (tmp_path / "linked" / file.name).symlink_to(file)
    load_model(tmp_path / "linked")


# ---- Hugging Face's folders


def change_tensor(folder, name, dtype):
    tensors = load_file(folder / WEIGHTS)
    tensors[name] = tensors[name].to(dtype)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


FOLDERS = {
    "half a configuration": (
        lambda f: os.truncate(f / CONFIG, 100),
        [CONFIG, "expected JSON"],
    ),
    "labels that are a list": (lambda f: change_config(f, id2label=["a", "b"]), None),
    "whole numbers": (
        lambda f: change_tensor(f, "transformer.ln_f.weight", torch.int32),
        ["floating-point numbers in transformer.ln_f.weight", "int32"],
    ),
}


@pytest.mark.parametrize("case", FOLDERS)
def test_a_spoilt_folder_of_theirs_is_one_sentence(theirs, case):
    spoil, words = FOLDERS[case]
    spoil(theirs)
    if words is None:  # what a generator has no use for
        load_model(theirs)
    else:
        refused(former("generate", "--model", theirs), "Error: model: ", *words)


def test_each_part_of_a_joined_tensor_is_looked_at(tmp_path):
    make(*DECODERS["llama"]).save_pretrained(tmp_path)
    change_tensor(tmp_path, "model.layers.1.self_attn.k_proj.weight", torch.int8)
    refuses(lambda: from_hugging_face(tmp_path), ValueError, "source", "int8")


def test_a_translator_without_its_start_is_one_sentence(tmp_path):
    make(*PAIRS["bart"]).save_pretrained(tmp_path)
    change_config(tmp_path, decoder_start_token_id=["a"])
    bytes_bpe().save(str(tmp_path / TOKENIZER))
    refused(former("translate", "--model", tmp_path, "a"), "Error: model: ", "tokenizer")


# ---- a folder that is not there


@pytest.mark.parametrize("name", ["runs/typo", "./typo", "/no/such/folder", "typo", "../a/b"])
def test_a_folder_that_is_not_there_is_no_name_on_the_hub(name, monkeypatch):
    ask = lambda *args, **kwargs: pytest.fail("asked the hub")
    monkeypatch.setattr("former_nb.models.pretrained.hf_hub_download", ask)
    refuses(lambda: LanguageModel.from_pretrained(name), ValueError, "model")
