"""The table of words: each has a part, and one more is a class and a line."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from former_nb import TrainingConfig, fit, generate, load_model, save_model
from former_nb.attention.positions import SinusoidalPositions
from former_nb.attention.relative_positions import DistanceBias
from former_nb.data.batches import make_batches
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.decoding.fast_copy import faster
from former_nb.decoding.prompts import find_context
from former_nb.models.build import build_network, build_norm, build_positions
from former_nb.models.choices import ACTIVATIONS, MODEL, NORMS, POSITIONS, Activation, Scheme
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

WORDS = {"positions": POSITIONS, "activation": ACTIVATIONS, "norm": NORMS}


class Kerple(DistanceBias):
    "Takes r₁ log(1 + r₂ · distance) from each score, both trained (Chi et al. 2022)."

    def __init__(self, n_heads):
        super().__init__(n_heads)
        self.r = nn.Parameter(torch.ones(2, n_heads))

    def by_distance(self, distance):
        r1, r2 = self.r.view(2, -1, *[1] * distance.ndim)
        return -r1 * torch.log1p(r2 * distance.abs())


KERPLE = Scheme("attention", "always", Kerple, "n_heads")


def config_of(**choices):
    sizes = dict(vocab_size=20, max_len=16, d_model=12, n_heads=2, n_layers=2, d_ff=16)
    return TransformerConfig(**sizes | dict(dropout=0.0) | choices)


@pytest.mark.parametrize("setting", WORDS)
def test_each_word_makes_a_model(setting):
    assert MODEL[setting] is WORDS[setting]
    tokens = torch.randint(4, 20, (2, 5))
    for word in WORDS[setting]:
        model = LanguageModel.from_config(config_of(**{setting: word}))
        assert model(tokens).isfinite().all()


def test_how_far_each_kind_of_positions_goes():
    far = {name: POSITIONS[name].beyond for name in ("learned", "rotary", "alibi", "relative")}
    assert list(far.values()) == ["never", "window", "always", "always"]


def test_a_kind_of_positions_is_a_class_and_a_line(monkeypatch, tmp_path):
    "It trains, is saved, loaded, and writes texts of any length, also by a fast copy."
    monkeypatch.setitem(POSITIONS, "kerple", KERPLE)
    names = ["anna", "otto", "hannah", "bob"] * 8
    tokenizer = CharTokenizer.train(names)
    rows = encode_texts(names, tokenizer)
    torch.manual_seed(0)
    config = config_of(vocab_size=tokenizer.vocab_size, positions="kerple")
    model = LanguageModel.from_config(config)
    before = model.stack.rotary.r.detach().clone()
    fit(model, make_batches(rows, 8), None, TrainingConfig(epochs=2), progress=False)
    assert (model.stack.rotary.r != before).all()

    save_model(tmp_path / "m", model, tokenizer)
    loaded, read, _ = load_model(tmp_path / "m")
    assert loaded.config == config and type(loaded.stack.rotary) is Kerple
    how = dict(max_new_tokens=30, eos_token_ids=(), tokenizer=tokenizer)
    written = generate(model.eval(), "a", **how)
    assert generate(loaded, "a", **how | dict(tokenizer=read)) == written
    assert find_context(config, 30).reads > 10**9  # the line says that it reads any length
    assert faster(loaded, 30) is not loaded


def test_one_that_is_added_is_a_line_too(monkeypatch):
    class Twice(SinusoidalPositions):
        def forward(self, x, positions):
            return super().forward(super().forward(x, positions), positions)

    monkeypatch.setitem(POSITIONS, "twice", Scheme("input", "never", Twice, "max_len d_model"))
    config = config_of(positions="twice")
    assert type(build_positions(config, "input")) is Twice
    assert build_positions(config, "attention") is None
    assert LanguageModel.from_config(config)(torch.randint(4, 20, (2, 5))).isfinite().all()


def test_an_activation_and_a_norm_are_lines_too(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "tanh", Activation("torch.tanh"))
    monkeypatch.setitem(NORMS, "none", lambda d_model, eps: nn.Identity())
    config = config_of(activation="tanh", norm="none")
    assert build_network(12, 16, activation="tanh").activation is torch.tanh
    assert type(build_norm(config)) is nn.Identity
    assert LanguageModel.from_config(config)(torch.randint(4, 20, (2, 5))).isfinite().all()


def test_the_command_line_knows_a_new_word_and_does_not_wait_for_pytorch():
    program = """
import sys
from former_nb.base.ranges import in_words
from former_nb.models.choices import MODEL, POSITIONS, Scheme
POSITIONS["kerple"] = Scheme("attention", "always", "mine.Kerple", "n_heads")
from former_nb.tasks.base import Task
print(in_words(Task.rules["positions"]), "torch" in sys.modules)
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.endswith(", kerple False\n"), said
