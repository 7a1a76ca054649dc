"""With numbers, the library's `fit` trains as that of lesson 08 does; with a config, as it says."""

import random
from copy import deepcopy
from dataclasses import asdict

import pandas as pd
import pytest
import torch
from fit_tools import fit
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.base.core import set_seed
from former_nb.data.text import IGNORE
from former_nb.training import training
from former_nb.training.callbacks import Callback
from former_nb.training.fitting import LessonConfig
from former_nb.training.training_config import TrainingConfig

V = 7  # tokens


class Two(nn.Module):
    "Reads two inputs, of which one shifts the other."

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(V, 8)
        self.net = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, V))

    def forward(self, tokens, hint=None):  # (B, T), (B, T)
        x = self.table(tokens)
        return self.net(x if hint is None else x + 0.5 * self.table(hint))


def model():
    set_seed(0)
    return Two()


def batches(n, seed, inputs):
    "Batches of rows of several lengths, which count differently many targets."
    rng = random.Random(seed)
    made = []
    for _ in range(n):
        T = rng.randint(2, 6)
        tokens = torch.tensor([[rng.randrange(V) for _ in range(T)] for _ in range(5)])
        targets = (tokens + 1) % V
        targets[0, 1:] = IGNORE
        made.append(((tokens, tokens.flip(1)) if inputs == "two" else tokens, targets))
    rng.shuffle(made)
    return made


@pytest.mark.parametrize("inputs", ["one", "two"])
@pytest.mark.parametrize("held_out", [True, False], ids=["with valid", "without valid"])
@pytest.mark.parametrize("numbers", [{}, {"epochs": 7, "lr": 0.05, "weight_decay": 0.5}])
def test_with_numbers_it_is_the_loop_of_the_lesson(inputs, held_out, numbers):
    train, valid = batches(9, 0, inputs), batches(3, 1, inputs)
    sets = [train, valid] if held_out else [train]
    mine, theirs = model(), model()
    history = training.fit(mine, *sets, **numbers)
    table = fit(theirs, *sets, **numbers)
    assert_close(theirs.state_dict(), mine.state_dict(), rtol=1e-4, atol=1e-5)
    epochs = numbers.get("epochs", 10)
    assert table["epoch"].tolist() == [*range(1, epochs + 1)]
    assert table["train"].tolist() == pytest.approx(history["train"], rel=1e-4)
    if held_out:
        assert table["valid"].tolist() == pytest.approx(history["valid"], rel=1e-4)
        assert training.evaluate(theirs, valid) == pytest.approx(min(history["valid"]), rel=1e-4)
    else:
        assert table["valid"].isna().all() and history["valid"] == []


def test_numbers_may_stand_in_the_order_of_the_lesson():
    train = batches(4, 0, "one")
    mine, theirs = model(), model()
    training.fit(mine, train, None, 2, 0.02, 0.3)
    fit(theirs, train, None, 2, 0.02, 0.3)
    assert_close(theirs.state_dict(), mine.state_dict(), rtol=1e-4, atol=1e-5)


def test_the_weights_that_did_best_are_kept_as_in_the_lesson():
    train, valid = batches(5, 0, "one"), batches(2, 1, "one")
    hopeless = [(inputs, torch.zeros_like(targets)) for inputs, targets in valid]
    mine, theirs = model(), model()
    history = training.fit(mine, train, hopeless, epochs=4, lr=0.05)
    fit(theirs, train, hopeless, epochs=4, lr=0.05)
    assert history["valid"].index(min(history["valid"])) == 0  # each epoch makes it worse
    assert_close(theirs.state_dict(), mine.state_dict(), rtol=1e-4, atol=1e-5)


def test_a_config_stands_in_the_place_of_the_numbers_or_has_its_name():
    train, config = batches(4, 0, "one"), TrainingConfig(epochs=2, lr=0.02)
    runs = [model() for _ in range(3)]
    fit(runs[0], train, None, config)
    fit(runs[1], train, config=config)
    fit(runs[2], train, epochs=config)
    for other in runs[1:]:
        assert_close(other.state_dict(), runs[0].state_dict(), rtol=0, atol=0)
    by_numbers = model()
    fit(by_numbers, train, epochs=2, lr=0.02)
    assert not torch.equal(by_numbers.table.weight, runs[0].table.weight)  # which has Muon


class Stop(Callback):
    "Ends a run after so many steps, as Ctrl-C does."

    def __init__(self, step):
        self.step = step

    def on_step_end(self, run):
        if run.step == self.step:
            raise KeyboardInterrupt


@pytest.mark.parametrize("step", [3, 8, 10])
def test_a_run_by_numbers_goes_on_bit_for_bit(tmp_path, step):
    train, valid = batches(5, 0, "two"), batches(2, 1, "two")
    straight, stopped, resumed = model(), model(), model()
    numbers = {"epochs": 3, "lr": 0.02}
    expected = fit(straight, train, valid, **numbers)
    keep = {"folder": tmp_path, "resume": True}
    with pytest.raises(KeyboardInterrupt):
        fit(stopped, train, valid, **numbers, callbacks=[Stop(step)], **keep)
    nn.init.zeros_(resumed.table.weight)  # what it had before doesn't count
    table = fit(resumed, train, valid, **numbers, **keep)
    assert_close(resumed.state_dict(), straight.state_dict(), rtol=0, atol=0)
    columns = ["step", "train", "valid", "lr"]
    pd.testing.assert_frame_equal(table[columns], expected[columns], check_exact=True)


def test_its_checkpoint_is_not_that_of_a_config_with_the_same_numbers(tmp_path):
    train = batches(5, 0, "one")
    keep = {"folder": tmp_path, "resume": True}
    fit(model(), train, epochs=2, **keep)
    config = TrainingConfig(epochs=2, muon_lr=None, precision="no")
    with pytest.raises(ValueError, match="^folder: .*optimizer="):
        fit(model(), train, config=config, **keep)


def test_its_recipe_can_be_written_down_and_read():
    recipe = LessonConfig(epochs=3)
    assert LessonConfig(**asdict(recipe)) == recipe
    assert deepcopy(recipe) == recipe != TrainingConfig(epochs=3)


CONFIG = TrainingConfig(epochs=1)
DATA = batches(2, 0, "one")
test_what_it_refuses_is_named = every_row(
    [
        ("no epochs", lambda: fit(model(), DATA, None, 0), ValueError, "epochs", "0"),
        ("None", lambda: fit(model(), DATA, None, None), TypeError, "epochs", "None"),
        ("half an epoch", lambda: fit(model(), DATA, epochs=0.5), TypeError, "epochs", "0.5"),
        ("settings in a dict", lambda: fit(model(), DATA, epochs={}), TypeError, "epochs"),
        ("no rate", lambda: fit(model(), DATA, lr=0), ValueError, "lr", "0"),
        ("decay", lambda: fit(model(), DATA, weight_decay=-1), ValueError, "weight_decay", "-1"),
        ("no config", lambda: fit(model(), DATA, config=3), TypeError, "config", "int"),
        ("both", lambda: fit(model(), DATA, None, CONFIG, lr=0.1), ValueError, "lr", "0.1"),
        ("epochs", lambda: fit(model(), DATA, epochs=3, config=CONFIG), ValueError, "epochs", "3"),
        ("two", lambda: fit(model(), DATA, None, CONFIG, config=CONFIG), ValueError, "config"),
    ]
)
