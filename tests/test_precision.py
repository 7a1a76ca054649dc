"""What `precision="auto"` means on a CPU. The clock is put in by the tests, so none decides."""

import json
from dataclasses import replace

import pytest
import torch
from cli_tools import SMALL, done
from fit_tools import fit
from torch import nn

from former_nb.base.checkpoints import read_checkpoint, write_checkpoint
from former_nb.base.core import set_seed
from former_nb.training import precision, training_run
from former_nb.training.callbacks import Callback
from former_nb.training.losses import batch_loss
from former_nb.training.precision import choose_precision, compare_steps, cpu_has_bf16
from former_nb.training.training_config import TrainingConfig

V = 7
TOKENS = torch.arange(48).view(4, 12) % V
BATCHES = [(TOKENS + i, TOKENS.roll(-1, 1) + i) for i in range(5)]
BATCHES = [(inputs % V, targets % V) for inputs, targets in BATCHES]
TIMED = TrainingConfig(minutes=1, steps=8, lr=0.01, eval_every=4, seed=3)
LOSSES = {"no": batch_loss, "bf16": batch_loss}


class Clock:
    "Each look at it takes a second, so a run by the clock is the same each time."

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


class Stop(Exception):
    "Ends a run from outside."


@pytest.fixture(autouse=True)
def large_enough(monkeypatch):
    "A CPU that has bf16, steps that are not too small for it, and no test of a notebook."
    monkeypatch.delenv("IN_TEST", raising=False)
    monkeypatch.setattr(precision, "cpu_has_bf16", lambda: True)
    monkeypatch.setattr(precision, "SMALL", 0)


def model():
    set_seed(0)
    layers = nn.Embedding(V, 8), nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, V)
    return nn.Sequential(*layers)


def measured(monkeypatch, ratio):
    "Let the comparison be made, and say this in place of the clock."
    times = {"no": 1.0, "bf16": ratio}
    kinds = iter(["no", "bf16"] * 1000)

    def seconds(run, device):
        run()
        return times[next(kinds)]

    monkeypatch.setattr(precision, "seconds", seconds)


def not_measured(monkeypatch):
    def fail(*_):
        raise AssertionError("it was measured")

    monkeypatch.setattr(precision, "compare_steps", fail)


def trained(monkeypatch, config, **options):
    monkeypatch.setattr(training_run, "time", Clock())
    m = model()
    history = fit(m, BATCHES, BATCHES[:1], config, **options)
    return [t.clone() for t in m.state_dict().values()], history["valid"].tolist()


def same(one, other):
    return one[1] == other[1] and all(a.equal(b) for a, b in zip(one[0], other[0]))


UNMEASURED = {
    "no units": (TIMED, 1, "no units"),
    "ends by steps": (replace(TIMED, minutes=None), 1, "the same each time"),
    "ends by epochs": (TrainingConfig(epochs=3), 1, "the same each time"),
    "short": (replace(TIMED, minutes=0.5), 1, "short"),
    "under test": (TIMED, 1, "short"),
    "processes": (TIMED, 2, "several processes"),
    "compiled": (replace(TIMED, compile=True), 1, "compiled"),
    "small": (TIMED, 1, "small"),
}


@pytest.mark.parametrize("case", UNMEASURED)
def test_what_is_never_measured_is_float32_and_says_why(case, monkeypatch):
    config, processes, reason = UNMEASURED[case]
    not_measured(monkeypatch)
    if case == "no units":
        monkeypatch.setattr(precision, "cpu_has_bf16", lambda: False)
    if case == "under test":
        monkeypatch.setenv("IN_TEST", "1")
    if case == "small":
        monkeypatch.setattr(precision, "SMALL", 1e9)
    name, why = choose_precision(model(), BATCHES[0], config, LOSSES, processes)
    assert name == "no" and why.startswith("float32: ") and reason in why and "\n" not in why


@pytest.mark.parametrize("ratio, name", [(0.71, "bf16"), (0.94, "bf16"), (0.97, "no"), (1.5, "no")])
def test_bf16_is_taken_where_it_is_faster_than_chance_explains(ratio, name, monkeypatch):
    measured(monkeypatch, ratio)
    chosen, why = choose_precision(model(), BATCHES[0], TIMED, LOSSES)
    kind = {"no": "float32", "bf16": "bf16"}[name]
    assert chosen == name and why.startswith(f"{kind}: ") and f"{ratio:.2f} times" in why


def test_a_loss_that_fails_in_bf16_stays_in_float32():
    def broken(model, batch):
        raise RuntimeError("'nll' not implemented for 'BFloat16'\nand more lines")

    name, why = choose_precision(model(), BATCHES[0], TIMED, {"no": batch_loss, "bf16": broken})
    assert name == "no" and "not implemented" in why and "\n" not in why


def test_the_median_of_five_comparisons_counts_and_one_is_enough_for_slow_steps(monkeypatch):
    times = iter([1.0, 0.5, 1.0, 9.0, 1.0, 0.7, 1.0, 0.6, 1.0, 0.8])
    calls = []

    def counted(model, batch):
        calls.append(model)
        return batch_loss(model, batch)

    monkeypatch.setattr(precision, "seconds", lambda run, device: run() or next(times))
    m = model()
    before = [p.clone() for p in m.parameters()]
    losses = {"no": counted, "bf16": counted}
    assert compare_steps(m, BATCHES[0], losses, limit=1000.0) == 0.7
    assert len(calls) == 2 + 2 * 5 and m not in calls
    assert all(p.grad is None and p.equal(q) for p, q in zip(m.parameters(), before))
    times = iter([1.0, 0.4])
    assert compare_steps(m, BATCHES[0], losses, limit=0.0) == 0.4


def test_to_measure_changes_no_weight_and_forced_precisions_are_not_measured(monkeypatch):
    with monkeypatch.context() as patch:
        not_measured(patch)
        forced = {name: trained(patch, replace(TIMED, precision=name)) for name in ("no", "bf16")}
    assert not same(forced["no"], forced["bf16"])
    measured(monkeypatch, 1.0)
    assert same(trained(monkeypatch, TIMED), forced["no"])
    measured(monkeypatch, 0.5)
    assert same(trained(monkeypatch, TIMED), forced["bf16"])


class StopAt(Callback):
    def on_step_end(self, run):
        if run.step == 5:
            raise Stop


@pytest.mark.parametrize("ratio, name", [(0.5, "bf16"), (1.0, "no")])
def test_a_run_goes_on_in_the_precision_that_it_began_with(ratio, name, monkeypatch, tmp_path):
    measured(monkeypatch, ratio)
    seen = []

    class See(Callback):
        def on_step_end(self, run):
            seen.append(run.precision)

    with pytest.raises(Stop):
        trained(monkeypatch, TIMED, folder=tmp_path, save_every=1, callbacks=[See(), StopAt()])
    not_measured(monkeypatch)  # a second measurement could choose otherwise
    trained(monkeypatch, TIMED, folder=tmp_path, resume=True, callbacks=[See()])
    assert set(seen) == {name} and len(seen) > 5
    assert read_checkpoint(tmp_path)[1]["progress"]["precision"] == name


def test_a_checkpoint_of_an_earlier_version_goes_on_as_it_did(monkeypatch, tmp_path):
    "In float32 on a CPU, which is what 'auto' was, and without a measurement."
    measured(monkeypatch, 0.5)
    with pytest.raises(Stop):
        trained(monkeypatch, TIMED, folder=tmp_path, save_every=1, callbacks=[StopAt()])
    tensors, metadata = read_checkpoint(tmp_path)
    del metadata["progress"]["precision"]
    write_checkpoint(tmp_path, tensors, metadata)
    not_measured(monkeypatch)
    seen = []

    class See(Callback):
        def on_step_end(self, run):
            seen.append(run.precision)

    trained(monkeypatch, TIMED, folder=tmp_path, resume=True, callbacks=[See()])
    assert set(seen) == {"auto"}


def test_a_cpu_of_which_pytorch_tells_nothing_has_no_bf16(monkeypatch):
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.delattr(torch.cpu, name, raising=False)
    assert not cpu_has_bf16()
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True, raising=False)
    assert cpu_has_bf16()


def test_the_command_says_it_once_and_writes_it_down(monkeypatch, tmp_path):
    measured(monkeypatch, 0.71)
    words = ["train", "reverse", *SMALL, "--steps", "2", "--minutes", "1"]
    said = done(*words, "--out", tmp_path / "auto")
    line = "bf16: forward and backward in bf16 take 0.71 times as long as in float32"
    assert said.count("Computing in") == said.count(line) == 1
    assert json.loads((tmp_path / "auto/training.json").read_text())["precision"] == line
    assert line in (tmp_path / "auto/README.md").read_text()
    not_measured(monkeypatch)
    said = done("train", "reverse", "--resume", tmp_path / "auto")
    assert said.count(line) == 1  # as it began
    assert json.loads((tmp_path / "auto/training.json").read_text())["precision"] == line
    said = done(*words, "--out", tmp_path / "named", "--precision", "no")
    assert "Computing in" not in said
    assert json.loads((tmp_path / "named/training.json").read_text())["precision"] == "float32"
