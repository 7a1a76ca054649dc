"""`fit` keeps its word: what is reported is held out, a run that was stopped or killed goes on byte
for byte, cutting a batch changes nothing, bad input gets one sentence.

`FORMER_NB_KILLS=20` runs the test with `kill -9` for longer.
"""

import json
import math
import os
import random
import signal
import string
from dataclasses import asdict, replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from fit_tools import fit
from process_tools import succeeds
from refusals import every_row, refuses
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    WeightedRandomSampler,
)

from former_nb.base import checkpoints
from former_nb.base.checkpoints import CHECKPOINT, read_checkpoint, write_checkpoint
from former_nb.base.core import set_seed
from former_nb.data.batches import make_batches
from former_nb.data.text import EOS, IGNORE
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import TOYS, collate_answers, toy_texts
from former_nb.training import training_run
from former_nb.training.callbacks import Callback
from former_nb.training.losses import batch_loss, evaluate, exact_match, token_loss
from former_nb.training.resuming import Checkpoint, lock_folder
from former_nb.training.runs import seed_for
from former_nb.training.training_config import TrainingConfig
from former_nb.training.training_run import Run

NAN, INF = math.nan, math.inf
V = 7  # tokens
ROWS = [[1 + (i + j * j) % (V - 1) for j in range(3 + i % 3)] for i in range(40)]
VALID = [(torch.tensor([[1, 2, 3], [4, 5, 6]]), torch.tensor([[2, 3, 4], [5, 6, IGNORE]]))]
QUIET = dict(device="cpu", progress=False)


def model(seed=0, dropout=0.2):
    "Looks at one token at a time; enough for AdamW, Muon and dropout to have work."
    set_seed(seed)
    return nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, 8), nn.Dropout(dropout), nn.Linear(8, V))


def batches(n=5):
    "`n` batches of 8 rows, in a new order each epoch."
    return make_batches(ROWS[: 8 * n], 8, shuffle=True)


def run(config, m=None, train=None, valid=VALID, **kwargs):
    m = model() if m is None else m
    return m, fit(m, batches() if train is None else train, valid, config, **{**QUIET, **kwargs})


def weights(m):
    return {name: t.clone() for name, t in m.state_dict().items()}


def same(one, other):
    "Byte for byte."
    states = [m if isinstance(m, dict) else m.state_dict() for m in (one, other)]
    one, other = ({name: t.numpy().tobytes() for name, t in state.items()} for state in states)
    return one == other


def same_history(one, other):
    one, other = one.drop(columns="seconds"), other.drop(columns="seconds")
    pd.testing.assert_frame_equal(one, other, check_exact=True)
    return True


def alike(one, other):
    "Two runs, each a model and its history, that ended the same, byte for byte."
    return same(one[0], other[0]) and same_history(one[1], other[1])


def files(folder):
    "What a run leaves in its folder."
    return sorted(file.name for file in folder.iterdir())


class Stop(Exception):
    "Stands for whatever ends a run from outside."


def stop_at_call(m, n, error=Stop, part=1):
    "Let the model raise in the middle of the `n`-th step."
    calls = iter(range(1, 10**9))

    def hook(*_):
        if m.training and next(calls) == n:
            raise error

    (m[part] if isinstance(part, int) else m.get_submodule(part)).register_forward_hook(hook)
    return m


def stopped_and_resumed(config, folder, at, train=batches, valid=VALID, made=None):
    """A run that is stopped in the middle of step `at`, and goes on with another model, another
    loader and other random numbers."""
    made, part = (model, 1) if made is None else (made, "embed")
    how = dict(folder=folder)
    with pytest.raises(Stop):
        run(config, stop_at_call(made(0), at, part=part), train(), valid, **how)
    set_seed(4321)
    return run(config, made(99), train(), valid, **how, resume=True)


# ---- settings


def test_ten_epochs_where_nothing_else_ends_the_run():
    assert TrainingConfig().epochs == 10 and TrainingConfig(epochs=2, minutes=1).epochs == 2
    assert TrainingConfig(steps=3).epochs is TrainingConfig(minutes=1.0).epochs is None


def test_settings_come_back_from_json_also_where_numpy_made_them():
    plain = dict(epochs=3, lr=0.5, max_grad_norm=1.0, seed=2**40, minutes=2.0)
    odd = dict(epochs=np.int64(3), lr=np.float32(0.5), max_grad_norm=1, minutes=np.float64(2))
    config = TrainingConfig(**plain | odd)
    assert TrainingConfig(**json.loads(json.dumps(asdict(config)))) == config
    assert config == TrainingConfig(**plain)
    assert {type(value) for value in asdict(config).values()} <= {int, float, str, bool, type(None)}


# ---- steps, epochs and looks


@pytest.mark.parametrize(
    ("given", "looks"),
    [
        (dict(epochs=2), [(5, 1), (10, 2)]),
        (dict(steps=3), [(3, 0)]),
        (dict(steps=12), [(5, 1), (10, 2), (12, 2)]),
        (dict(steps=12, epochs=1), [(5, 1), (10, 2), (12, 2)]),
        (dict(epochs=2, eval_every=4), [(4, 0), (8, 1), (10, 2)]),
        (dict(epochs=1, eval_every=100), [(5, 1)]),
        (dict(steps=2, eval_every=1), [(1, 0), (2, 0)]),
    ],
)
def test_when_the_validation_data_is_looked_at(given, looks):
    m, history = run(TrainingConfig(**given))
    assert list(history) == ["step", "epoch", "train", "valid", "lr", "seconds"]
    assert list(zip(history["step"], history["epoch"])) == looks
    assert history["seconds"].is_monotonic_increasing and np.isfinite(history).all(axis=None)
    assert math.isclose(evaluate(m, VALID), history["valid"].min(), rel_tol=1e-6)


def test_the_rate_of_the_history_is_that_of_the_schedule():
    _, history = run(TrainingConfig(steps=10, lr=0.5, warmup=0.2, eval_every=1, muon_lr=0.1))
    assert history["lr"][:3].tolist() == [0.25, 0.5, 0.5] and history["lr"].iloc[-1] < 0.02
    root = TrainingConfig(steps=10, lr=0.5, warmup=0.2, eval_every=1, schedule="inverse_sqrt")
    assert math.isclose(run(root)[1]["lr"].iloc[-1], 0.5 * math.sqrt(2 / 10))


def test_the_train_loss_is_the_mean_over_targets_of_what_was_paid_smoothing_included():
    frozen = dict(lr=1e-30, muon_lr=1e-30, weight_decay=0.0, epochs=1)
    for smoothing in (0.0, 0.3):
        config = TrainingConfig(**frozen, label_smoothing=smoothing)
        m, history = run(config, model(dropout=0.0))
        nats = sum(token_loss(m(x), y, "sum", smoothing).item() for x, y in batches())
        count = sum((y != IGNORE).sum().item() for _, y in batches())
        assert math.isclose(history["train"].item(), nats / count, rel_tol=1e-5)
        valid = evaluate(m, VALID)  # without smoothing
        assert math.isclose(history["valid"].item(), valid, rel_tol=1e-6)


class Clock:
    "Each look at it takes a second."

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


def test_a_rate_by_the_clock_rises_and_falls_whatever_the_number_of_steps():
    hurried = TrainingConfig(minutes=1.0)
    rates = {seconds: hurried.rate(500, math.inf, seconds) for seconds in (0.0, 3.0, 30.0, 60.0)}
    assert 0 < rates[0.0] < 0.5 and rates[3.0] == pytest.approx(1) and rates[60.0] < 0.01
    assert 0.5 < rates[30.0] < 0.6
    assert hurried.rate(500, 500, 3.0) < 0.01  # whichever is lower


def test_minutes_end_the_run_with_a_rate_near_zero(monkeypatch):
    monkeypatch.setattr(training_run, "time", Clock())
    _, history = run(TrainingConfig(minutes=2, lr=1.0, eval_every=5))
    assert 120 <= history["seconds"].iloc[-1] < 130
    assert history["lr"].iloc[-1] < 1e-3 < history["lr"].iloc[0]
    assert history["lr"][2:].is_monotonic_decreasing
    _, both = run(TrainingConfig(minutes=2, steps=7))
    assert both["step"].iloc[-1] == 7
    _, short = run(TrainingConfig(minutes=0.01))
    assert short["step"].tolist() == [1]


def test_minutes_count_on_after_an_interruption(monkeypatch, tmp_path):
    monkeypatch.setattr(training_run, "time", Clock())
    config = TrainingConfig(minutes=2, lr=1.0, eval_every=5)
    _, straight = run(config, folder=tmp_path / "straight")
    _, history = stopped_and_resumed(config, tmp_path / "stopped", at=40)
    assert 120 <= history["seconds"].iloc[-1] < 130 and history["lr"].iloc[-1] < 1e-3
    assert abs(history["step"].iloc[-1] - straight["step"].iloc[-1]) < 10


class SlowBatches(list):
    "Batches of which the first takes half a minute to come."

    def __init__(self, batches, clock):
        super().__init__(batches)
        self.clock = clock

    def __iter__(self):
        self.clock.now += 30
        return super().__iter__()


def test_minutes_count_from_the_first_second(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(training_run, "time", clock)
    _, history = run(TrainingConfig(minutes=2, steps=1), train=SlowBatches(batches(), clock))
    assert 60 <= history["seconds"].item() < 70  # a look at the data, and the first step


# ---- who chooses

HOPELESS = [(VALID[0][0], torch.zeros_like(VALID[0][1]))]  # token 0, which training never shows


def test_the_best_weights_on_valid_come_back_and_on_best_sees_them():
    seen = []
    config, keep = TrainingConfig(epochs=4, lr=0.05), lambda m: seen.append(weights(m))
    m, history = run(config, valid=HOPELESS, on_best=keep)
    assert history["valid"].idxmin() == 0 < len(history) - 1 and len(seen) == 1
    assert same(m, seen[0])
    assert math.isclose(evaluate(m, HOPELESS), history["valid"][0], rel_tol=1e-6)


@pytest.mark.parametrize("at", [7, 18])
def test_patience_and_what_it_waits_for_survive_an_interruption(tmp_path, at):
    config = TrainingConfig(epochs=20, lr=0.05, patience=3)
    straight = run(config, valid=HOPELESS)
    assert len(straight[1]) == 4 and straight[1]["valid"].idxmin() == 0
    assert alike(stopped_and_resumed(config, tmp_path, at, valid=HOPELESS), straight)


def test_the_first_of_several_equal_looks_is_the_best():
    nothing_to_learn = lambda m, batch: 0 * batch_loss(m, batch)
    seen, config = [], TrainingConfig(epochs=3, weight_decay=0.0)
    _, history = run(config, loss=nothing_to_learn, on_best=seen.append)
    assert history["valid"].nunique() == 1 and len(history) == 3 and len(seen) == 1


@pytest.mark.parametrize("name", ["ours", "shuffled without one", "shuffled with a generator"])
def test_each_epoch_has_an_order_of_its_own(name):
    read, m, train = [], model(), LOADERS[name]()
    keep = lambda _, given: read.append(given[0].tolist()) if m.training else None
    m[0].register_forward_pre_hook(keep)
    run(TrainingConfig(epochs=3), m, train)
    n = len(train)
    one, two, three = (read[i : i + n] for i in range(0, 3 * n, n))
    assert len(read) == 3 * n and one != two != three


def test_each_part_is_in_the_mode_that_it_was_in_and_training_has_dropout():
    m = model().eval()
    m[1].train()
    seen = []
    m[2].register_forward_hook(lambda part, *_: seen.append(part.training))
    run(TrainingConfig(steps=2), m)
    assert [part.training for part in m] == [False, True, False, False] and not m.training
    assert seen[:2] == [True, True] and seen[2:] == [False]


# ---- stop and go on


def noisy(rows):
    "Draws from all three generators when a batch is read."
    draw = lambda: (random.randrange(1, V), np.random.randint(1, V), torch.randint(1, V, ()).item())
    inputs = torch.tensor([[*draw(), row[0]] for row in rows])
    return inputs, inputs.roll(1, 1)


def plain(rows):
    inputs = torch.tensor([row[:3] for row in rows])
    return [inputs, inputs.roll(1, 1)]  # a list, as torch's own collate makes


def loader(collate=plain, rows=ROWS, **how):
    "A loader of PyTorch's own, shuffled unless a sampler or other rows are given."
    if "batch_sampler" not in how:
        how = dict(batch_size=8, shuffle="sampler" not in how and rows is ROWS) | how
    return DataLoader(rows, collate_fn=collate, **how)


G = torch.Generator
LOADERS = {
    "a list": lambda: [noisy_once(i) for i in range(5)],
    "ours": batches,
    "ours, by length": lambda: make_batches(ROWS, 8, shuffle=True, by_length=True),
    "shuffled with a generator": lambda: loader(generator=G().manual_seed(random.randrange(99))),
    "shuffled without one": loader,
    "a sampler with a generator": lambda: loader(
        sampler=WeightedRandomSampler([1.0] * 40, 40, generator=G())
    ),
    "a batch sampler": lambda: loader(
        batch_sampler=BatchSampler(RandomSampler(ROWS, generator=G()), 8, False)
    ),
    "noise in collate": lambda: loader(noisy),
}
if os.name == "posix":
    LOADERS["two workers"] = lambda: loader(noisy, num_workers=2, multiprocessing_context="fork")


def noisy_once(i):
    t = torch.randint(1, V, (4, 3), generator=torch.Generator().manual_seed(i))
    return t, t.roll(1, 1)


@pytest.mark.filterwarnings("ignore:This process")  # forks of processes with threads
@pytest.mark.parametrize("name", LOADERS)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, name):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=4)
    straight = run(config, train=LOADERS[name]())
    assert alike(stopped_and_resumed(config, tmp_path, at=9, train=LOADERS[name]), straight)
    assert straight[1]["train"].nunique() == 4


def test_it_does_not_matter_where_a_run_was_stopped(tmp_path):
    config = dict(epochs=3, lr=0.05, muon_lr=0.1, label_smoothing=0.1)
    config = TrainingConfig(**config, gradient_accumulation_steps=3)
    straight = run(config)
    for at in (1, 5, 6, 14):
        assert alike(stopped_and_resumed(config, tmp_path / str(at), at), straight)


def test_a_run_can_be_stopped_again_and_again(tmp_path):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=1)
    for start in range(15):
        m = stop_at_call(model(seed=start), 2)
        try:
            run(config, m, folder=tmp_path, resume=True)
        except Stop:
            assert read_checkpoint(tmp_path)[1]["progress"]["step"] == start + 1
    assert alike(run(config, model(seed=77), folder=tmp_path, resume=True), run(config))


def test_a_finished_run_returns_at_once(tmp_path):
    config = TrainingConfig(epochs=3, lr=0.05)
    straight, expected = run(config, valid=HOPELESS, folder=tmp_path)
    before, never = (tmp_path / CHECKPOINT).read_bytes(), model(seed=5)
    never.register_forward_hook(lambda *_: pytest.fail("the model was called"))
    how = dict(folder=tmp_path, resume=True, on_best=lambda m: pytest.fail("nothing is better"))
    again, history = run(config, never, valid=HOPELESS, **how)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    assert same(again, straight) and (tmp_path / CHECKPOINT).read_bytes() == before


def test_ctrl_c_leaves_the_best_weights_in_the_model_and_a_checkpoint(tmp_path):
    config, best = TrainingConfig(epochs=9, lr=0.05), []
    m, keep = stop_at_call(model(), 18, KeyboardInterrupt), lambda m: best.append(weights(m))
    with pytest.raises(KeyboardInterrupt):
        run(config, m, valid=HOPELESS, folder=tmp_path, on_best=keep)
    assert same(m, best[-1]) and read_checkpoint(tmp_path)[1]["progress"]["step"] == 15
    resumed = run(config, model(seed=3), valid=HOPELESS, folder=tmp_path, resume=True)
    assert alike(resumed, run(config, valid=HOPELESS))


def test_what_was_drawn_before_changes_nothing_but_the_seed_does():
    config, noise = TrainingConfig(epochs=2, lr=0.05), LOADERS["noise in collate"]
    first, m = run(config, train=noise()), model()
    set_seed(1234), torch.rand(99)
    assert alike(run(config, m, train=noise()), first)
    assert not same(first[0], run(replace(config, seed=1), train=noise())[0])


def test_a_place_has_its_own_seed():
    places = [("step", 0, 0), ("step", 0), ("step",), ("step", 1, 0), ("step", 0, 1)]
    places += [("read", 0, 0), ("order", 0), ()]
    seeds = {seed_for(seed, *place) for seed in (0, 1, 2**32) for place in places}
    assert len(seeds) == 3 * len(places) and all(0 <= seed < 2**32 for seed in seeds)
    assert seed_for(0, "step", 7, 2) == 3374389233


def test_each_process_draws_its_own_dropout(monkeypatch):
    drawn = []
    monkeypatch.setattr(training_run, "reseed", lambda seed, kind="cpu": drawn.append(seed))
    for rank in (0, 1):
        one = Run(model(), batches(), VALID, TrainingConfig(epochs=1), batch_loss, device="cpu")
        one.accelerator = SimpleNamespace(process_index=rank, num_processes=2)
        one.begin_step(next(iter(batches())))
    assert drawn == [seed_for(0, "step", 0, 0), seed_for(0, "step", 0, 1)] and drawn[0] != drawn[1]


@pytest.mark.parametrize("part", ["train", "valid"])
@pytest.mark.parametrize("kind", [list, loader])
def test_data_that_differ_in_one_number_of_their_last_row_are_other_data(tmp_path, part, kind):
    def made(last):
        rows = [*ROWS[:-1], [*ROWS[-1][:2], last]]
        return loader(rows=rows) if kind is loader else list(loader(rows=rows))

    config, kept = TrainingConfig(steps=2), dict(folder=tmp_path, resume=True)
    first = run(config, **{part: made(3)}, **kept)
    assert alike(run(config, model(seed=5), **{part: made(3)}, **kept), first)
    with pytest.raises(ValueError, match=f"is of another run: rows of {part}='"):
        run(config, model(seed=5), **{part: made(4)}, **kept)


OTHERS = {
    "lr=0.05, not 0.06": dict(config=dict(lr=0.06)),
    "seed=0, not 1": dict(config=dict(seed=1)),
    "epochs=3, not 4, ": dict(config=dict(epochs=4, patience=2)),
    "patience=None, not 2": dict(config=dict(epochs=4, patience=2)),
    "1.bias='(8,) torch.float32 by AdamW', not None": dict(
        model=lambda: nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V, bias=False))
    ),
    "0.weight='(7, 8) torch.float32 by AdamW', not '(7, 8) torch.float64 by AdamW'": dict(
        model=lambda: model().double()
    ),
    "batches of train=5, not 4": dict(train=lambda: batches(4)),
    "rows of train=": dict(train=LOADERS["noise in collate"], valid=HOPELESS),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(TrainingConfig(epochs=3, lr=0.05), folder=folder)
    return folder


@pytest.mark.parametrize(("said", "other"), OTHERS.items(), ids=OTHERS)
def test_another_run_is_refused_and_what_differs_is_named(finished, said, other):
    config = replace(TrainingConfig(epochs=3, lr=0.05), **other.get("config", {}))
    before = (finished / CHECKPOINT).read_bytes()
    train, valid = other.get("train", batches)(), other.get("valid", VALID)
    with pytest.raises(ValueError, match="^folder: the checkpoint in ") as error:
        run(config, other.get("model", model)(), train, valid, folder=finished, resume=True)
    assert said in str(error.value) and (finished / CHECKPOINT).read_bytes() == before


def part_frozen(*frozen):
    m = model()
    for k in frozen:
        m[k].weight.requires_grad_(False)
    return m


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((), (1,), "by Muon', not '(8, 8) torch.float32'"),
        ((0,), (), "0.weight='(7, 8) torch.float32', not '(7, 8) torch.float32 by AdamW'"),
    ],
)
def test_a_run_does_not_go_on_with_other_weights_frozen(tmp_path, before, now, said):
    config = TrainingConfig(epochs=3, lr=0.05)
    with pytest.raises(Stop):
        run(config, stop_at_call(part_frozen(*before), 9), folder=tmp_path)
    refused = "^folder: the checkpoint in .* is of another run: "
    with pytest.raises(ValueError, match=refused) as error:
        run(config, part_frozen(*now), folder=tmp_path, resume=True)
    assert str(error.value).endswith(said)
    resumed = run(config, part_frozen(*before), folder=tmp_path, resume=True)
    assert alike(resumed, run(config, part_frozen(*before)))


class Branches(nn.Module):
    "Two layers of one size, made in either order."

    def __init__(self, order, seed=0):
        super().__init__()
        set_seed(seed)
        layers = {name: nn.Linear(8, 8) for name in "ab"}
        self.embed, self.out = nn.Embedding(V, 8), nn.Linear(8, V)
        for name in order:
            setattr(self, name, layers[name])

    def forward(self, x):
        return self.out(self.b(self.a(self.embed(x)).relu()))


def test_what_an_optimizer_remembers_goes_to_the_weight_of_that_name(tmp_path):
    # clipping sums in the order of the weights
    config = TrainingConfig(epochs=3, lr=0.05, muon_lr=None, max_grad_norm=1e6)
    straight, _ = run(config, Branches("ab"))
    made = lambda seed: Branches("ba" if seed else "ab", seed)
    resumed, _ = stopped_and_resumed(config, tmp_path, 9, made=made)
    assert same({name: resumed.state_dict()[name] for name in straight.state_dict()}, straight)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    write_checkpoint(tmp_path, {"weights": torch.ones(2)}, {"something": "else"})
    with pytest.raises(ValueError, match="^folder: the checkpoint in .* is of another run"):
        run(TrainingConfig(epochs=1), folder=tmp_path, resume=True)


def test_a_second_run_is_refused_while_the_first_lives(tmp_path):
    config, tried = TrainingConfig(epochs=2), []

    def second(_):
        with pytest.raises(ValueError, match="^folder: another run is training in"):
            run(config, folder=tmp_path, resume=True)
        tried.append(1)

    first = run(config, folder=tmp_path, on_best=second)
    again = run(config, model(seed=3), folder=tmp_path, resume=True)  # now it may
    assert tried and alike(again, first)
    with pytest.raises(Stop):  # a run that ends in an error lets go, too
        run(config, stop_at_call(model(), 2), folder=tmp_path / "b")
    lock_folder(tmp_path / "b").release()


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_disk_that_fills_up_keeps_the_checkpoint_from_before(tmp_path):
    import resource

    config = TrainingConfig(epochs=3, lr=0.05, eval_every=1)
    full = resource.getrlimit(resource.RLIMIT_FSIZE)
    heed = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, full[1]))
    m, calls = model(), iter(range(99))
    m.register_forward_hook(lambda *_: limit() if next(calls) == 8 else None)
    said = "^folder: no checkpoint could be written .* and the one before stays: "
    try:
        with pytest.raises(OSError, match=said):
            run(config, m, folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, full)
        signal.signal(signal.SIGXFSZ, heed)
    assert files(tmp_path) == [CHECKPOINT]
    assert alike(run(config, model(seed=9), folder=tmp_path, resume=True), run(config))


@pytest.mark.parametrize("at", [2, 3, 5])
def test_ctrl_c_while_a_checkpoint_is_written(tmp_path, monkeypatch, at):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=2)
    replace_file, calls = os.replace, iter(range(1, 99))

    def interrupted(*names):
        if next(calls) == at:
            raise KeyboardInterrupt
        replace_file(*names)

    monkeypatch.setattr(checkpoints.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config, folder=tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == [CHECKPOINT]
    assert alike(run(config, model(seed=9), folder=tmp_path, resume=True), run(config))


class Normed(nn.Module):
    "Batch-norm: buffers that training changes."

    def __init__(self, seed=0):
        super().__init__()
        set_seed(seed)
        self.embed, self.norm, self.out = nn.Embedding(V, 8), nn.BatchNorm1d(8), nn.Linear(8, V)

    def forward(self, x):
        return self.out(self.norm(self.embed(x).transpose(1, 2)).transpose(1, 2))


def test_buffers_are_saved_and_chosen_with_the_weights(tmp_path):
    config, stopped = TrainingConfig(epochs=3, lr=0.05), stop_at_call(Normed(), 9, part="norm")
    with pytest.raises(Stop):
        run(config, stopped, valid=HOPELESS, folder=tmp_path)
    assert stopped.norm.num_batches_tracked == 5  # as at the best look
    resumed = run(config, Normed(seed=5), valid=HOPELESS, folder=tmp_path, resume=True)
    assert alike(resumed, run(config, Normed(), valid=HOPELESS))


def test_a_folder_with_a_checkpoint_is_not_overwritten(tmp_path):
    config = TrainingConfig(epochs=1)
    run(config, folder=tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match="continue it with resume=True, or choose another folder"):
        run(config, folder=tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    (tmp_path / CHECKPOINT).write_bytes(before[:-1])
    with pytest.raises(ValueError, match="^folder: .* is not whole: "):
        run(config, folder=tmp_path, resume=True)


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    (tmp_path / ".writing-abc").mkdir()
    (tmp_path / ".writing-abc" / CHECKPOINT).touch()
    run(TrainingConfig(epochs=1), folder=tmp_path)
    assert files(tmp_path) == [CHECKPOINT]


def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path):
    (tmp_path / "file").touch()
    m = model()
    m.register_forward_hook(lambda *_: pytest.fail("the model was called"))
    with pytest.raises(OSError, match="^folder: .* cannot be written"):
        run(TrainingConfig(epochs=1), m, folder=tmp_path / "file")


# ---- what is broken is neither reported nor saved


class Breaks(nn.Module):
    "Its gradient, and if asked its loss, is NaN at one step."

    def __init__(self, at, loss):
        super().__init__()
        self.inner, self.at, self.loss, self.calls = model(dropout=0.0), at, loss, 0

    def forward(self, x):
        self.calls += self.training
        logits = self.inner(x)
        if self.training and self.calls == self.at:
            if self.loss:
                return logits * NAN
            logits.register_hook(lambda gradient: gradient * NAN)
        return logits


@pytest.mark.parametrize("at", [8, 10])
@pytest.mark.parametrize("loss", [True, False])
def test_a_run_that_turns_into_nan_stops_and_keeps_what_was_good(tmp_path, at, loss):
    config, best, m = TrainingConfig(epochs=4, lr=0.05), [], Breaks(at, loss)
    how = dict(folder=tmp_path, on_best=lambda m: best.append(weights(m)))
    with pytest.raises(ValueError, match="^lr: the loss is no longer .* after step 10 "):
        run(config, m, **how)
    tensors, metadata = read_checkpoint(tmp_path)
    [looked] = metadata["progress"]["history"]
    assert metadata["progress"]["step"] == 5 and all(map(math.isfinite, looked.values()))
    assert all(t.isfinite().all() for t in [*tensors.values(), *m.state_dict().values()])
    assert same(m, best[-1])


def test_a_broken_start_writes_nothing(tmp_path):
    m = model()
    nn.init.constant_(m[1].weight, INF)
    with pytest.raises(ValueError, match="^lr: the loss is no longer a number after step 0"):
        run(TrainingConfig(epochs=1), m, folder=tmp_path)
    assert not (tmp_path / CHECKPOINT).exists()


def test_an_infinite_buffer_is_not_broken(tmp_path):
    m = model()
    m.register_buffer("mask", torch.tensor([0.0, -INF]))
    run(TrainingConfig(epochs=1), m, folder=tmp_path)
    assert read_checkpoint(tmp_path)[0]["model.mask"].tolist() == [0.0, -INF]


# ---- one curve


def test_the_curve_is_the_same_however_a_batch_is_cut():
    config = TrainingConfig(epochs=2, lr=0.05, muon_lr=None, eval_every=1)
    whole, expected = run(config, model(dropout=0.0).double())
    config = replace(config, gradient_accumulation_steps=3)
    cut, history = run(config, model(dropout=0.0).double())
    assert np.allclose(history[["train", "valid"]], expected[["train", "valid"]], rtol=1e-9, atol=0)
    torch.testing.assert_close(cut.state_dict(), whole.state_dict(), rtol=0, atol=1e-6)


def test_settings_of_accelerate_in_the_environment_change_nothing(monkeypatch):
    from accelerate.state import AcceleratorState, GradientState

    config = TrainingConfig(epochs=1, lr=0.05, eval_every=1)
    expected = run(config)
    for name, value in (
        ("MIXED_PRECISION", "bf16"),
        ("GRADIENT_ACCUMULATION_STEPS", "4"),
        ("DYNAMO_BACKEND", "NO"),
    ):
        monkeypatch.setenv(f"ACCELERATE_{name}", value)
    AcceleratorState._reset_state(True), GradientState._reset_state()
    try:
        assert alike(run(config), expected)
    finally:
        AcceleratorState._reset_state(True), GradientState._reset_state()


def test_bf16_is_close_and_leaves_float32_weights(tmp_path):
    config = TrainingConfig(epochs=3, lr=0.05, precision="bf16")
    m, history = run(config)
    _, full = run(replace(config, precision="no"))
    assert {t.dtype for t in m.state_dict().values()} == {torch.float32}
    assert 0 < (history["valid"] - full["valid"]).abs().max() < 0.05
    assert alike(stopped_and_resumed(config, tmp_path, at=9), (m, history))


def test_a_compiled_model_trains_saves_and_resumes_as_itself(tmp_path, monkeypatch):
    compiled, made = torch.compile, []

    def eager(m):
        made.append(compiled(m, backend="eager"))
        return made[-1]

    monkeypatch.setattr(torch, "compile", eager)
    config = TrainingConfig(epochs=2, lr=0.05, eval_every=3)
    whole = run(replace(config, compile=True))
    assert len(made) == 1 and alike(whole, run(config))
    folder = dict(folder=tmp_path)
    with pytest.raises(Stop):
        run(replace(config, compile=True), **folder, on_best=lambda m: (_ for _ in ()).throw(Stop))
    assert alike(run(replace(config, compile=True), model(seed=9), **folder, resume=True), whole)
    assert not any("_orig_mod" in name for name in read_checkpoint(tmp_path)[0])


# ---- models and batches of all kinds


class Pair(nn.Module):
    "Two inputs, and a class for each row."

    def __init__(self, classes=3):
        super().__init__()
        self.embed, self.out = nn.Embedding(V, 8), nn.Linear(8, classes)

    def forward(self, x, mask):
        return self.out((self.embed(x) * mask[..., None]).mean(1))  # (B, classes)


def classes(n=4, first=0):
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(1, V, (n, 6, 5), generator=generator)
    return [((part, part > 1), (part.sum(-1) + first) % 3) for part in x]


@pytest.mark.parametrize(("kind", "parts"), [(tuple, 1), (list, 4)])
def test_several_inputs_and_one_target_per_row(kind, parts):
    set_seed(0)
    data = [(kind(x), y) for x, y in classes()]
    config = TrainingConfig(epochs=10, lr=0.05, gradient_accumulation_steps=parts)
    m, history = run(config, Pair(), data, data[:2])
    assert history["train"].iloc[-1] < history["train"].iloc[0]
    right = sum((m(*x).argmax(-1) == y).sum().item() for x, y in data)
    assert exact_match(m, data) == right / 24


def test_smoothing_refuses_targets_that_it_would_leave_out():
    data, smooth = classes(), TrainingConfig(epochs=1, label_smoothing=0.1)
    assert any((y == 0).any() for _, y in data)
    padded = [(x, y.masked_fill(y == IGNORE, 0)) for x, y in batches()]
    for m, train in ((Pair(), data), (model(), padded)):
        refuses(lambda: run(smooth, m, train, train), ValueError, "pad")
    run(replace(smooth, pad=None), Pair(), data, data)
    run(TrainingConfig(epochs=1), Pair(), data, data)


class Tied(nn.Module):
    """The embedding, read backwards, gives the logits; as one tensor, or as a layer that holds the
    same tensor."""

    def __init__(self, layer):
        super().__init__()
        self.embed = nn.Embedding(V, 8)
        self.head = nn.Linear(8, V, bias=False) if layer else None
        if layer:
            self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed(x)
        return x @ self.embed.weight.T if self.head is None else self.head(x)


@pytest.mark.parametrize("layer", [True, False])
def test_tied_weights_stay_tied_and_resume(tmp_path, layer):
    config = TrainingConfig(epochs=2, lr=0.05)
    made = lambda seed: (set_seed(seed), Tied(layer))[1]
    straight, expected = run(config, made(0))
    assert expected["train"].iloc[-1] < expected["train"].iloc[0]
    if layer:
        assert straight.head.weight is straight.embed.weight
    resumed = stopped_and_resumed(config, tmp_path, 8, made=made)
    assert alike(resumed, (straight, expected))


def test_frozen_weights_stay_as_they_are(tmp_path):
    m = model()
    m[0].requires_grad_(False), m[1].requires_grad_(False)
    before = weights(m)
    run(TrainingConfig(epochs=2, lr=0.05), m, folder=tmp_path)
    for name, t in m.state_dict().items():
        assert torch.equal(before[name], t) == name.startswith(("0.", "1."))


def test_a_batch_without_targets_is_no_mistake_but_valid_without_any_is():
    nothing = (VALID[0][0], torch.full_like(VALID[0][1], IGNORE))
    _, history = run(TrainingConfig(epochs=1), train=[nothing, *VALID])
    assert np.isfinite(history).all(axis=None)
    refuses(lambda: run(TrainingConfig(epochs=1), valid=[nothing]), ValueError, "valid")


class Claims:
    "Says that it has more batches than it has."

    def __len__(self):
        return 7

    def __iter__(self):
        return iter(batches())


def test_a_length_that_is_too_long_is_noticed_and_one_that_is_too_short_ends_the_epoch():
    refuses(lambda: run(TrainingConfig(epochs=2), train=Claims()), ValueError, "train", "5")

    class Fewer(Claims):
        def __len__(self):
            return 3

    _, history = run(TrainingConfig(epochs=2), train=Fewer())
    assert history["step"].tolist() == [3, 6]


# ---- a loss of one's own


def distillation(m, batch):
    "How far a model is from a larger one, as a mean over the targets that count."
    inputs, targets = batch
    with torch.no_grad():
        taught = model(seed=5, dropout=0.0)(inputs).softmax(-1)
    surprise = -(taught * m(inputs).log_softmax(-1)).sum(-1)
    counts = targets != IGNORE
    return (surprise * counts).sum() / counts.sum().clamp(min=1)


def test_a_loss_of_ones_own_is_what_a_run_makes_small():
    m, plan = model(dropout=0.0), TrainingConfig(epochs=4, lr=0.05)
    _, history = run(plan, m, loss=distillation)
    assert history["train"].is_monotonic_decreasing
    taught = [distillation(m, batch).item() for batch in batches()]
    untaught = [distillation(run(plan)[0].eval(), batch).item() for batch in batches()]
    assert max(taught) < min(untaught)
    assert history["valid"].min() == pytest.approx(evaluate(m, VALID), rel=1e-6)  # as ever


def test_a_loss_of_ones_own_may_be_cut_and_rounded_too():
    plan = TrainingConfig(epochs=2, lr=0.05, muon_lr=None)
    whole, history = run(plan, model(dropout=0.0), loss=distillation)
    cut = replace(plan, gradient_accumulation_steps=3)
    parts, again = run(cut, model(dropout=0.0), loss=distillation)
    torch.testing.assert_close(parts.state_dict(), whole.state_dict(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        again["train"].tolist(), history["train"].tolist(), rtol=1e-5, atol=0
    )
    _, rough = run(replace(plan, precision="bf16"), model(dropout=0.0), loss=distillation)
    near = abs(rough["train"] - history["train"]).max()
    assert 0 < near < 0.02


NO_LOSSES = {
    "a number": lambda m, batch: 3.0,
    "nothing": lambda m, batch: None,
    "a number per token": lambda m, batch: m(batch[0]).logsumexp(-1),
    "no gradient": lambda m, batch: batch_loss(m, batch).detach(),
}


@pytest.mark.parametrize("loss", NO_LOSSES.values(), ids=NO_LOSSES)
def test_what_is_no_loss_is_refused_and_leaves_the_model_as_it_was(loss):
    m = model()
    before = weights(m)
    refuses(lambda: run(TrainingConfig(epochs=1), m, loss=loss), TypeError, "loss")
    assert same(m, before)


def test_a_loss_of_ones_own_is_smoothed_only_if_it_can_be():
    smooth = TrainingConfig(epochs=1, label_smoothing=0.1)
    refuses(lambda: run(smooth, loss=distillation), ValueError, "label_smoothing")
    takes_it = lambda m, batch, **kwargs: batch_loss(m, batch, **kwargs)
    assert alike(run(smooth, loss=takes_it), run(smooth))


# ---- what is shown


def test_callbacks_see_every_moment_and_the_end_also_after_an_error():
    seen = []

    class Moments(Callback):
        def __getattribute__(self, name):
            if name.startswith("on_"):
                return lambda run: seen.append((name, run.step))
            return super().__getattribute__(name)

    run(TrainingConfig(epochs=1, eval_every=3), callbacks=[Moments()])
    steps = [("on_step_end", 1), ("on_step_end", 2), ("on_evaluate", 3), ("on_step_end", 3)]
    last = [("on_step_end", 4), ("on_evaluate", 5), ("on_step_end", 5), ("on_end", 5)]
    assert seen == [("on_start", 0), *steps, *last]
    seen.clear()
    with pytest.raises(Stop):
        run(TrainingConfig(epochs=1), stop_at_call(model(), 2), callbacks=[Moments()])
    assert seen == [("on_start", 0), ("on_step_end", 1), ("on_end", 1)]


@pytest.mark.parametrize("progress", [True, False])
def test_the_bar_counts_steps_and_shows_both_losses(capsys, progress):
    run(TrainingConfig(epochs=2), progress=progress)
    shown = capsys.readouterr().err
    assert all(word in shown for word in ("10/10", "train=", "valid=")) if progress else not shown


# ---- toy tasks


@pytest.mark.parametrize("task", TOYS)
@pytest.mark.parametrize(("n", "symbols", "length"), [(5, 3, 4), (200, 11, 10), (64, 2, 7)])
def test_toy_texts_are_different_right_and_repeatable(task, n, symbols, length):
    texts, again, other = (toy_texts(task, n, symbols, length, seed=seed) for seed in (4, 4, 5))
    assert len(set(texts)) == len(texts) == n and texts == again != other
    solve = dict(copy=str, reverse=lambda q: q[::-1], sort=lambda q: "".join(sorted(q)))[task]
    for question, answer in (text.split("=") for text in texts):
        assert len(question) == length and answer == solve(question)
        assert set(question) <= set(string.ascii_lowercase[:symbols])


def test_more_texts_begin_with_the_same_ones():
    assert toy_texts("sort", 90)[:30] == toy_texts("sort", 30)


def test_only_the_answer_and_its_end_are_targets():
    tokenizer, no = CharTokenizer("=abc"), IGNORE
    _, targets = collate_answers(tokenizer.encode("=")[0])(
        encode_texts(["ab=ba", "c=c"], tokenizer)
    )
    [a], [b], [c] = map(tokenizer.encode, "abc")
    assert targets.tolist() == [[no, no, no, b, a, EOS], [no, no, c, EOS, no, no]]


def test_rows_without_a_target_do_not_count():
    fixed = nn.Linear(1, 1)  # a parameter that says where to compute
    fixed.forward = lambda x: nn.functional.one_hot(x, 4).float()  # says what it hears
    said, empty = torch.tensor([[1, 2], [3, 1], [2, 2]]), torch.full((1, 2), IGNORE)
    targets = torch.tensor([[1, 2], [3, 3], [IGNORE, 2]])
    assert exact_match(fixed, [(said, targets), (said[:1], empty)]) == 2 / 3
    assert exact_match(fixed, [(said[:, 0], targets[:, 1])]) == 2 / 3


# ---- bad input

CONFIG = TrainingConfig(epochs=1)
X, Y = VALID[0]


BAD_SETTINGS = {
    ("epochs", "steps", "gradient_accumulation_steps", "eval_every", "patience"): (0, 2.5),
    ("lr", "muon_lr", "minutes", "max_grad_norm"): (0, NAN, INF),
    ("weight_decay", "warmup", "label_smoothing"): (-0.1, NAN, None),
    ("warmup", "label_smoothing"): (1,),
    ("seed", "pad"): (-1, 0.5),
    ("schedule", "precision", "compile"): ("linear", None),
}


def test_a_setting_that_cannot_be_is_named():
    for names, values in BAD_SETTINGS.items():
        for name, value in ((name, value) for name in names for value in values):
            refuses(lambda: TrainingConfig(**{name: value}), (ValueError, TypeError), name)


class Empty:
    "Says that it has two batches, and has none."

    def __len__(self):
        return 2

    def __iter__(self):
        return iter([])


def test_batches_have_a_length():
    refuses(lambda: fit(model(), iter(VALID), VALID, CONFIG), TypeError, "train")


BAD = [
    ("nothing to train", lambda: fit(nn.Identity(), VALID, VALID, CONFIG), TypeError, "model"),
    ("no function", lambda: fit(model(), VALID, VALID, CONFIG, loss=3.0), TypeError, "loss"),
    ("empty train", lambda: fit(model(), [], VALID, CONFIG), TypeError, "train"),
    ("empty valid", lambda: fit(model(), VALID, [], CONFIG), TypeError, "valid"),
    ("fewer than claimed", lambda: fit(model(), Empty(), VALID, CONFIG), ValueError, "train"),
    ("no settings", lambda: fit(model(), VALID, VALID, "10"), TypeError, "epochs"),
    ("device", lambda: fit(model(), VALID, VALID, CONFIG, device="gpu"), ValueError, "device"),
    ("other shape", lambda: fit(model(), [(X, Y[:, :2])], VALID, CONFIG), ValueError, "targets"),
    ("folder", lambda: Checkpoint(""), TypeError, "folder"),
    ("nothing counts", lambda: exact_match(model(), []), ValueError, "batches"),
    ("letters", lambda: toy_texts("copy", 5, 27), ValueError, "symbols, length"),
    ("n", lambda: toy_texts("copy", 0), ValueError, "n"),
]
test_bad_input_is_named = every_row(BAD)


def test_a_refused_checkpoint_makes_no_folder(tmp_path):
    refuses(lambda: Checkpoint(tmp_path / "x", resume="no"), ValueError, "resume")
    assert not any(tmp_path.iterdir())


# ---- kill -9

KILLS = int(os.environ.get("FORMER_NB_KILLS", 6))
KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
from torch import nn
from former_nb.data.batches import make_batches
from former_nb.base.checkpoints import CHECKPOINT, read_checkpoint
from former_nb.base.core import set_seed
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig
from former_nb.training.fitting import fit

folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
rng = random.Random(int.from_bytes(os.urandom(4), "big"))
ROWS = [[random.Random(i).randrange(1, 9) for _ in range(3 + i % 4)] for i in range(104)]
CONFIG = TrainingConfig(epochs=12, lr=0.01, eval_every=10)

def attempt(where, seed=0):
    set_seed(seed)
    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 32), nn.Dropout(0.3), nn.Linear(32, 9))
    callbacks = [] if where is None else [Checkpoint(where, True)]
    how = dict(device="cpu", progress=False, callbacks=callbacks)
    train, valid = make_batches(ROWS[:96], 8, shuffle=True), make_batches(ROWS[96:], 8)
    history = fit(model, train, valid, CONFIG, **how).drop(columns="seconds")
    return {name: t.numpy().tobytes() for name, t in model.state_dict().items()}, history

expected = attempt(None)
start = time.perf_counter()
attempt(folder / "timed")
duration = time.perf_counter() - start
signals, runs, begun = [], [folder / "0"], lambda run: (run / CHECKPOINT).exists()
while len(signals) < wanted:
    pid = os.fork()
    if not pid:
        try:
            attempt(runs[-1], seed=rng.randrange(99) if begun(runs[-1]) else 0)
        finally:
            os._exit(sys.exc_info()[0] is not None)
    early = len(signals) % 4 == 1
    time.sleep(rng.uniform(0, 0.02 if early else 2 * duration / wanted))
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not os.WIFSIGNALED(status):  # it had ended by itself: well, or with an error
        assert os.WEXITSTATUS(status) == 0, "a run that went on has failed"
        runs.append(folder / str(len(runs)))
        continue
    signals.append(-os.WTERMSIG(status))
    if begun(runs[-1]):
        read_checkpoint(runs[-1])
ends = [attempt(run, seed=7 if begun(run) else 0) for run in runs]
print(json.dumps({
    "signals": signals,
    "same weights": all(weights == expected[0] for weights, _ in ends),
    "same history": all(history.equals(expected[1]) for _, history in ends),
    "left over": [str(path) for path in folder.glob("*/.writing-*")],
}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path):
    """The script forks a run, kills it at a random moment, reads its checkpoint, and lets the next
    one go on."""
    found = json.loads(succeeds(KILLED, tmp_path, KILLS).splitlines()[-1])
    assert found["signals"] == [-signal.SIGKILL] * KILLS and found["left over"] == []
    assert found["same weights"] and found["same history"]
