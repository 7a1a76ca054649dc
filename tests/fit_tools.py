"""What the tests of several files ask of `fit` and of interrupted runs."""

import math
import os
import random

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, WeightedRandomSampler

from former_nb.base.core import set_seed
from former_nb.data.batches import make_batches
from former_nb.data.text import IGNORE
from former_nb.training import fitting
from former_nb.training.callbacks import SaveBest
from former_nb.training.resuming import Checkpoint


def fit(*args, folder=None, resume=False, on_best=None, callbacks=(), **kwargs):
    "The library's `fit` with the callbacks that keep a run in a folder and its best model."
    joined = [*callbacks]
    if folder is not None:
        joined.append(Checkpoint(folder, resume))
    if on_best is not None:
        joined.append(SaveBest(on_best))
    kwargs = {"device": "cpu", "progress": False, **kwargs}
    return fitting.fit(*args, callbacks=joined, **kwargs)


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


class Clock:
    "Each look at it takes a second, so a run by the clock is the same each time."

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        self.now += 1.0
        return self.now


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


HOPELESS = [(VALID[0][0], torch.zeros_like(VALID[0][1]))]  # token 0, which training never shows


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
