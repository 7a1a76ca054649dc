"""What `precision="auto"` means on a CPU: it goes by the CPU, the steps and how a run ends."""

import json
from dataclasses import replace

import pytest
import torch
from cli_tools import SMALL, done
from fit_tools import Clock, fit
from torch import nn

from former_nb.base.checkpoints import read_checkpoint
from former_nb.base.core import set_seed
from former_nb.training import precision, training_run
from former_nb.training.callbacks import Callback
from former_nb.training.muon import cpu_has_bf16
from former_nb.training.precision import choose_precision
from former_nb.training.training_config import TrainingConfig

V = 7
TOKENS = torch.arange(48).view(4, 12) % V
BATCHES = [(TOKENS + i, TOKENS.roll(-1, 1) + i) for i in range(5)]
BATCHES = [(inputs % V, targets % V) for inputs, targets in BATCHES]
TIMED = TrainingConfig(minutes=1, steps=8, lr=0.01, eval_every=4, seed=3)


@pytest.fixture(autouse=True)
def large_enough(monkeypatch):
    "A CPU that has bf16, and steps that are not too small for it."
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: True)
    monkeypatch.setattr(precision, "SMALL", 0)


def model():
    set_seed(0)
    layers = nn.Embedding(V, 8), nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, V)
    return nn.Sequential(*layers)


def trained(monkeypatch, config, **options):
    monkeypatch.setattr(training_run, "time", Clock())
    m = model()
    history = fit(m, BATCHES, BATCHES[:1], config, **options)
    return [t.clone() for t in m.state_dict().values()], history["valid"].tolist()


def same(one, other):
    return one[1] == other[1] and all(a.equal(b) for a, b in zip(one[0], other[0]))


FLOAT32 = {
    "no units": TIMED,
    "ends by steps": replace(TIMED, minutes=None),
    "ends by epochs": TrainingConfig(epochs=3),
    "small": TIMED,
}


@pytest.mark.parametrize("case", FLOAT32)
def test_what_stays_in_float32(case, monkeypatch):
    if case == "no units":
        monkeypatch.setattr(precision, "cpu_has_bf16", lambda: False)
    if case == "small":
        monkeypatch.setattr(precision, "SMALL", 1e9)
    assert choose_precision(model(), BATCHES[0], FLOAT32[case]) == "no"


def test_auto_is_bf16_for_a_run_by_the_clock(monkeypatch):
    forced = {name: trained(monkeypatch, replace(TIMED, precision=name)) for name in ("no", "bf16")}
    assert not same(forced["no"], forced["bf16"])
    assert same(trained(monkeypatch, TIMED), forced["bf16"])
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: False)
    assert same(trained(monkeypatch, TIMED), forced["no"])


class StopAt(Callback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        self.precision = run.precision
        if run.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("units", [True, False])
def test_a_run_goes_on_in_the_precision_that_it_began_with(units, monkeypatch, tmp_path):
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: units)
    with pytest.raises(KeyboardInterrupt):
        trained(monkeypatch, TIMED, folder=tmp_path, callbacks=[StopAt(5)])
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: not units)  # as on another machine
    later = StopAt(99)
    trained(monkeypatch, TIMED, folder=tmp_path, resume=True, callbacks=[later])
    kept = read_checkpoint(tmp_path)[1]["progress"]["precision"]
    assert later.precision == kept == {True: "bf16", False: "no"}[units]


def test_a_cpu_of_which_pytorch_tells_nothing_has_no_bf16(monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not cpu_has_bf16()
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    assert cpu_has_bf16()


def test_the_command_says_it_once_and_writes_it_down(tmp_path):
    words = ["train", "reverse", *SMALL, "--steps", "2", "--minutes", "1"]
    said = done(*words, "--out", tmp_path / "auto")
    assert said.count("Computing in bf16") == 1
    assert json.loads((tmp_path / "auto/training.json").read_text())["precision"] == "bf16"
    said = done(*words, "--out", tmp_path / "named", "--precision", "no")
    assert "Computing in" not in said
    assert json.loads((tmp_path / "named/training.json").read_text())["precision"] == "float32"
