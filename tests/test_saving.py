"""Models in folders, with their tokenizers and labels: every kind comes back as it was, and what
isn't whole or doesn't belong together is refused in one sentence."""

import importlib
import json
import os
import pickle
import subprocess
import sys
from copy import deepcopy

import pytest
import torch
from cli_tools import former, refused
from hugging_face_tools import GPT2, NONE, bytes_bpe, change_config, with_tokenizer
from refusals import refuses
from safetensors.torch import load_file
from torch import nn

from former_nb.base.checkpoints import write_tensors
from former_nb.base.core import tied_names
from former_nb.data.tokenization import CharTokenizer
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.bert import BertClassifier
from former_nb.models.bigrams import BigramClassifier, WideClassifier
from former_nb.models.build import language_model_parts
from former_nb.models.config import TransformerConfig
from former_nb.models.pretrained import MODEL_CLASSES
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.saving.saving import _hash, load_model, save_model

transformers = pytest.importorskip("transformers")
CONFIG, WEIGHTS = "config.json", "model.safetensors"


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


def test_a_spoilt_folder_of_theirs_is_one_sentence_on_the_command_line(theirs):
    os.truncate(theirs / CONFIG, 100)
    refused(former("generate", "--model", theirs), "Error: model: ", CONFIG, "expected JSON")


# ---- a model and what belongs to it


@pytest.fixture
def kept(tmp_path):
    "A classifier with its tokenizer and labels in a folder."
    tokenizer = CharTokenizer("abc")
    config = TransformerConfig(tokenizer.vocab_size, 8, 8, 2, 1, d_ff=8, dropout=0.0)
    model = Classifier.from_config(config, 2)
    save_model(tmp_path / "m", model, tokenizer, ["bad", "gut ü"])
    return tmp_path / "m", model, tokenizer


def test_what_belongs_together_comes_back_together(kept):
    folder, model, tokenizer = kept
    loaded = load_model(folder)
    assert type(loaded.model) is type(model) and not loaded.model.training
    assert loaded.labels == ["bad", "gut ü"] and loaded.tokenizer.alphabet == tokenizer.alphabet
    for name, t in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], t)
    before = (folder / "model.safetensors").read_bytes()
    save_model(folder, model, tokenizer, ["bad", "gut ü"])
    assert (folder / "model.safetensors").read_bytes() == before  # same model, same bytes


CHANGES = {
    "tokenizer.json": lambda raw: raw.replace(b"abc", b"acb"),
    "labels.json": lambda raw: raw.replace(b"bad", b"sad"),
    "config.json": lambda raw: raw.replace(b'"n_heads": 2', b'"n_heads": 4'),
    "model.safetensors": lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
}


@pytest.mark.parametrize(("file", "change"), CHANGES.items(), ids=CHANGES)
def test_what_does_not_belong_together_is_noticed(kept, file, change):
    path = kept[0] / file
    raw = path.read_bytes()
    assert change(raw) != raw
    path.write_bytes(change(raw))
    with pytest.raises(ValueError, match=f"^model: .*{file}"):
        load_model(kept[0])
    path.unlink()
    with pytest.raises(ValueError, match=f"^model: .*{file}"):
        load_model(kept[0])


def test_a_folder_that_is_missing_never_asks_the_hub(monkeypatch):
    module = importlib.import_module("former_nb.models.pretrained")
    monkeypatch.setattr(module, "hf_hub_download", lambda *_, **__: pytest.fail("asked the hub"))
    refuses(lambda: load_model("no/such"), ValueError, "model", "'no/such'")


def test_a_shipped_model_is_found_by_its_name_and_a_folder_of_that_name_wins(kept, monkeypatch):
    monkeypatch.chdir(kept[0].parent)
    shipped = load_model("names").model
    assert {p.dtype for p in shipped.parameters()} == {
        torch.float32
    } and shipped.config.n_layers == 3
    kept[0].rename("names")
    assert load_model("names").labels == ["bad", "gut ü"]


def test_what_cannot_be_a_pair_is_refused(kept, tmp_path):
    _, model, tokenizer = kept
    for kind, name, args in [
        (ValueError, "model", (nn.Linear(2, 2), tokenizer, None)),
        (TypeError, "tokenizer", (model, "abc", ["a", "b"])),
        (ValueError, "tokenizer", (model, CharTokenizer("ab"), ["a", "b"])),
        (ValueError, "labels", (model, tokenizer, ["a", "a"])),
        (ValueError, "labels", (model, tokenizer, ["a"])),
        (ValueError, "labels", (model, tokenizer, [1, 2])),
        (TypeError, "labels", (model, tokenizer, None)),
    ]:
        refuses(lambda: save_model(tmp_path / "never", *args), kind, name)
    assert not (tmp_path / "never").exists()


# ---- every kind of model


LETTERS = CharTokenizer("abcd")  # 8 tokens


SMALL = TransformerConfig(LETTERS.vocab_size, 9, 8, 2, 1, d_ff=8, dropout=0.0)


ROTARY = TransformerConfig(
    8, 9, 8, 4, 1, d_ff=8, dropout=0.0, positions="rotary", n_kv_heads=2, norm="rms", bias="none"
)


APART = TransformerConfig(8, 9, 8, 2, 1, d_ff=8, tied_head=False, positions="alibi")


WIDER = TransformerConfig(11, 7, 8, 4, 2, d_ff=8, positions="sinusoidal")


BART = TransformerConfig(
    8, 9, 8, 2, 1, d_ff=8, norm_first=False, embed_norm=True, logits_bias=True, pad_token_id=3
)


MODELS = {
    "generator": lambda: LanguageModel.from_config(SMALL),
    "generator, shared heads": lambda: LanguageModel.from_config(ROTARY),
    "generator, two matrices": lambda: LanguageModel.from_config(config=APART),
    "classifier": lambda: Classifier.from_config(SMALL, 2, embed_dropout=0.25),
    "classifier, pairs": lambda: BigramClassifier(SMALL, n_classes=2, n_bigrams=5),
    "classifier, wide": lambda: WideClassifier(SMALL, 2, n_bigrams=5, n_features=7),
    "classifier, BERT": lambda: BertClassifier(SMALL, 2, n_segments=3),
    "translator": lambda: EncoderDecoder.from_config(SMALL),
    "translator, two vocabularies": lambda: EncoderDecoder.from_config(SMALL, WIDER),
    "translator, BART": lambda: BartEncoderDecoder(BART),
    "translator, three matrices": lambda: BartEncoderDecoder(BART, tied=False),
}


def made(name):
    "An untrained model whose numbers are all random, in eval mode."
    torch.manual_seed(3)
    model = MODELS[name]().eval()
    for weight in model.parameters():
        nn.init.normal_(weight)
    return model


def tokenizer_of(model):
    "One for each vocabulary."
    two = getattr(model, "tgt_config", None) is WIDER
    return (LETTERS, CharTokenizer("abcdefg")) if two else LETTERS


def logits_of(model):
    tokens = torch.tensor([[4, 5, 6, 2], [7, 4, 0, 0]])
    return model(tokens, tokens[:, :2]) if isinstance(model, EncoderDecoder) else model(tokens)


def equal(a, b):
    "The same class, settings, numbers and shared matrices."
    settings = lambda model: (type(model), model.config, model.init_args, tied_names(model))
    return settings(a) == settings(b) and torch.equal(logits_of(a), logits_of(b))


def test_each_kind_that_is_saved_is_tested():
    ours = {kind for kind in MODEL_CLASSES.values() if kind.__module__.startswith("former_nb.")}
    assert {type(make()) for make in MODELS.values()} == ours
    tied = {name for name in MODELS if tied_names(made(name))}
    apart = {"generator, two matrices", "translator, three matrices"}
    assert tied == {n for n in MODELS if n.startswith(("generator", "translator"))} - apart


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_is_saved_and_comes_back(name, tmp_path):
    model = made(name)
    labels = ["bad", "good"] if isinstance(model, Classifier) else None
    save_model(tmp_path / "m", model, tokenizer_of(model), labels)
    assert equal(load_model(tmp_path / "m").model, model)
    stored = sum(t.numel() for t in load_file(tmp_path / "m" / "model.safetensors").values())
    once = {t.data_ptr(): t.numel() for t in model.state_dict().values()}
    assert stored == sum(once.values())  # a shared matrix once
    model.save_pretrained(tmp_path / "bare")
    assert equal(type(model).from_pretrained(tmp_path / "bare"), model)


@pytest.mark.parametrize("name", MODELS)
def test_copies_know_what_they_were_made_from(name, tmp_path):
    model = made(name)
    for copied in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert equal(copied, model)
        with torch.no_grad():
            copied.head.weight.mul_(2)
        assert not equal(copied, model)
        copied.save_pretrained(tmp_path)
        assert equal(type(model).from_pretrained(tmp_path), copied)


def test_what_a_model_is_not_made_from_is_refused_as_ever():
    with pytest.raises(TypeError, match="got an unexpected .*'tied'"):
        EncoderDecoder.from_config(SMALL, tied=False)
    with pytest.raises(TypeError, match="missing a required argument: 'n_classes'"):
        Classifier.from_config(SMALL)


# ---- what loading costs


LOADED = """
import re, sys
from pathlib import Path
import torch
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

_, folder, way = sys.argv
load_model("names")
torch.manual_seed(0)
before = peak()
model = load_model(folder).model if way == "load" else LanguageModel.from_pretrained(folder)
size = sum(4 * p.numel() for p in model.parameters())
assert peak() - before < 2.1 * size, (peak() - before) / size
assert "torch._dynamo" not in sys.modules
drawn = torch.rand(1)
torch.manual_seed(0)
assert drawn == torch.rand(1)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only there a process knows its peak")
def test_loading_draws_no_numbers_and_takes_twice_the_size_of_the_file(tmp_path):
    "In a process that has imported nothing before, and must not import the compiler."
    tokenizer = CharTokenizer("abc")
    config = TransformerConfig(tokenizer.vocab_size, 64, 768, 12, 6, d_ff=3072)
    save_model(tmp_path, LanguageModel.from_config(config), tokenizer)
    for way in ("load", "bare"):
        words = [sys.executable, "-c", LOADED, tmp_path, way]
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_a_model_that_was_read_can_be_trained_and_its_file_stays(tmp_path):
    tokenizer = CharTokenizer("abcdefgh")
    config = TransformerConfig(12, 8, 8, 2, 1, d_ff=8, positions="sinusoidal")
    model = LanguageModel.from_config(config).eval()
    save_model(tmp_path, model, tokenizer)
    raw = (tmp_path / "model.safetensors").read_bytes()
    loaded = load_model(tmp_path).model
    assert equal(loaded, model) and all(p.requires_grad for p in loaded.parameters())
    optimizer = torch.optim.AdamW(loaded.parameters(), lr=0.1)
    loaded.train()(torch.tensor([[1, 4, 5]])).sum().backward()
    optimizer.step()
    assert not equal(loaded.eval(), model) and (tmp_path / "model.safetensors").read_bytes() == raw
    save_model(tmp_path, loaded, tokenizer)  # over the file that it was read from
    again = load_model(tmp_path).model
    assert equal(again, loaded)
    for p in again.parameters():  # a weight that is pickled brings no other with it
        assert p.untyped_storage().nbytes() == p.nbytes


class Fourier(LanguageModel):
    "A model that makes more than weights when it is made."

    def __init__(self, config: TransformerConfig):
        super().__init__(**language_model_parts(config))
        self.config = config
        fixed = torch.empty(3).normal_(generator=torch.Generator().manual_seed(1))
        self.register_buffer("fixed", fixed, persistent=False)
        self.register_buffer("ones", torch.nn.init.ones_(torch.empty(3)), persistent=False)
        self.scale = torch.nn.Parameter(torch.nn.init.normal_(torch.empty(2), std=3.0))
        self.alias = [self.scale]  # which no list of modules knows


def test_what_is_no_weight_is_computed_as_ever(tmp_path):
    model = Fourier(TransformerConfig(12, 8, 8, 2, 1, d_ff=8)).eval()
    model.save_pretrained(tmp_path)
    again = Fourier.from_pretrained(tmp_path)
    assert equal(again, model) and again.alias[0] is again.scale
    assert torch.equal(again.fixed, model.fixed) and torch.equal(again.ones, torch.ones(3))
    MODEL_CLASSES.pop("Fourier")
