"""`fit` keeps its word: what is reported is held out, the best weights come back, cutting a batch
changes nothing, and bad input gets one sentence.
"""

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fit_tools import (
    HOPELESS,
    INF,
    NAN,
    VALID,
    Clock,
    Stop,
    V,
    alike,
    batches,
    fit,
    model,
    run,
    same,
    stop_at_call,
    stopped_and_resumed,
    weights,
)
from refusals import every_row, refuses
from torch import nn

from former_nb.base.checkpoints import CHECKPOINT, read_checkpoint
from former_nb.base.core import set_seed
from former_nb.data.text import IGNORE
from former_nb.training import training_run
from former_nb.training.callbacks import Callback
from former_nb.training.losses import batch_loss, evaluate, exact_match, token_loss
from former_nb.training.runs import seed_for
from former_nb.training.training_config import TrainingConfig
from former_nb.training.training_run import Run

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


def test_each_part_is_in_the_mode_that_it_was_in_and_training_has_dropout():
    m = model().eval()
    m[1].train()
    seen = []
    m[2].register_forward_hook(lambda part, *_: seen.append(part.training))
    run(TrainingConfig(steps=2), m)
    assert [part.training for part in m] == [False, True, False, False] and not m.training
    assert seen[:2] == [True, True] and seen[2:] == [False]


def test_each_process_draws_its_own_dropout(monkeypatch):
    drawn = []
    monkeypatch.setattr(training_run, "reseed", lambda seed, kind="cpu": drawn.append(seed))
    for rank in (0, 1):
        one = Run(model(), batches(), VALID, TrainingConfig(epochs=1), batch_loss, device="cpu")
        one.accelerator = SimpleNamespace(process_index=rank, num_processes=2)
        one.begin_step(next(iter(batches())))
    assert drawn == [seed_for(0, "step", 0, 0), seed_for(0, "step", 0, 1)] and drawn[0] != drawn[1]


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


# ---- bad input

CONFIG = TrainingConfig(epochs=1)
X, Y = VALID[0]


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
]
test_bad_input_is_named = every_row(BAD)
