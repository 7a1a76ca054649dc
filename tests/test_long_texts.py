"""Windows of a long text lose no token, and a run on them is resumed."""

import math
import pickle
import random

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fit_tools import fit
from hypothesis import given
from hypothesis import strategies as st
from model_tools import small
from refusals import every_row, refuses
from thorough import drawn
from torch.testing import assert_close

from former_nb.data.long_texts import TextWindows, bits_per_character, text_windows
from former_nb.data.text import BOS, IGNORE
from former_nb.training.losses import evaluate
from former_nb.training.training_config import TrainingConfig

many = drawn(25)


def read(windows):
    "All inputs and all targets of an epoch, (N, T) each, and the sizes of the batches."
    batches = list(windows)
    assert len(batches) == len(windows)
    return *map(torch.cat, zip(*batches)), [len(x) for x, _ in batches]


@many
@given(st.integers(1, 90), st.integers(1, 20), st.integers(1, 9), st.data())
def test_each_token_is_judged_once(n, length, batch_size, data):
    length = min(length, n)
    context = data.draw(st.integers(0, length - 1))
    ids = torch.arange(10, 10 + n)
    x, y, sizes = read(text_windows(ids, length, batch_size, context=context))
    real = y != IGNORE
    assert_close(y[real], ids)  # in order, each once
    assert set(sizes[:-1]) <= {batch_size} and sizes[-1] <= batch_size
    before = real.nonzero()[:, 1]  # inputs in the window before the last
    assert (before >= (y[real] - 10).clamp(max=context)).all()
    assert_close(x[real], torch.cat([torch.tensor([BOS]), ids[:-1]]))
    assert real.any(-1).all()  # no window for nothing


@many
@given(
    st.integers(1, 90),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 2**70),
    st.integers(0, 2**40),
)
def test_windows_to_learn_from(n, length, batch_size, seed, epoch):
    length = min(length, n)
    ids = torch.arange(10, 10 + n)
    windows = text_windows(ids, length, batch_size, shuffle=True, seed=seed)
    windows.set_epoch(epoch)
    x, y, sizes = read(windows)
    assert y.unique().numel() == y.numel() > n - 2 * length and ((y >= 10) & (y < 10 + n)).all()
    assert (y[:, 1:] == y[:, :-1] + 1).all() and (x[:, 1:] == y[:, :-1]).all()
    begins = torch.zeros(len(x), dtype=torch.bool)
    begins[[sum(sizes[:i]) for i in range(len(sizes))]] = True
    assert_close(x[:, 0], torch.where(begins | (y[:, 0] == 10), BOS, y[:, 0] - 1))
    assert windows.epoch == epoch + 1
    windows.set_epoch(epoch)
    assert_close(read(windows)[:2], (x, y), rtol=0, atol=0)


def test_epochs_and_seeds_differ_and_reach_every_place():
    ids, order = torch.arange(10, 75), lambda windows: tuple(read(windows)[1][:, 0].tolist())
    windows = text_windows(ids, 8, 4, shuffle=True)
    orders = [order(windows) for _ in range(100)]
    assert len(set(orders)) > 95 and set().union(*orders) == set(range(10, 66))
    assert len({order(text_windows(ids, 8, 4, shuffle=True, seed=s)) for s in range(20)}) == 20


def test_reading_changes_no_random_numbers():
    torch.manual_seed(3)
    random.seed(3)
    want = torch.rand(3), random.random()
    torch.manual_seed(3)
    random.seed(3)
    read(text_windows(torch.arange(10, 75), 8, 4, shuffle=True))
    assert torch.equal(torch.rand(3), want[0]) and random.random() == want[1]


@pytest.mark.parametrize("shuffle", [False, True])
def test_windows_are_the_same_where_tensors_are_made_on_a_device(shuffle):
    read_all = lambda: read(text_windows(list(range(10, 75)), 8, 4, shuffle=shuffle))
    expected = read_all()[:2]
    with torch.device("meta"):
        found = read_all()[:2]
    assert_close(found, expected, rtol=0, atol=0)


def test_all_kinds_of_rows_are_one(tmp_path):
    ids = [random.Random(0).randrange(4, 200) for _ in range(50)]
    want = read(text_windows(ids, 7, 3, shuffle=True))[:2]
    np.array(ids, np.uint16).tofile(tmp_path / "ids")
    mapped, row = np.memmap(tmp_path / "ids", np.uint16, "r"), torch.tensor(ids, dtype=torch.int16)
    for kind in (tuple(ids), np.array(ids), mapped, row, torch.tensor(ids, dtype=torch.uint8)):
        x, y, _ = read(text_windows(kind, 7, 3, shuffle=True))
        assert x.dtype == y.dtype == torch.int64
        assert_close((x, y), want)
    for kind, shared in ((mapped, mapped), (row, row.numpy())):  # nothing is copied
        assert np.shares_memory(text_windows(kind, 7).ids, shared)
    assert_close(read(pickle.loads(pickle.dumps(text_windows(row, 7, 3, shuffle=True))))[:2], want)


IDS = list(range(4, 24))
test_windows_say_what_is_wrong = every_row(
    [
        ("too few", lambda: text_windows(IDS, 21), ValueError, "ids", "20"),
        ("a word", lambda: text_windows("abc", 3), ValueError, "ids"),
        ("rows", lambda: text_windows([IDS, IDS], 3), ValueError, "ids"),
        ("fractions", lambda: text_windows(torch.rand(4), 2), ValueError, "ids"),
        ("booleans", lambda: text_windows(torch.ones(4).bool(), 2), ValueError, "ids"),
        ("no length", lambda: text_windows(IDS, 0), ValueError, "length", "0"),
        ("no batch", lambda: text_windows(IDS, 4, 0), ValueError, "batch_size", "0"),
        ("yes", lambda: text_windows(IDS, 4, shuffle="yes"), TypeError, "shuffle"),
        ("context", lambda: text_windows(IDS, 4, context=4), ValueError, "context", "4"),
        ("both", lambda: text_windows(IDS, 4, shuffle=True, context=1), ValueError, "context", "1"),
    ]
)


def test_a_run_on_windows_is_resumed_bit_for_bit(tmp_path):
    ids = torch.randint(4, 10, (400,), generator=torch.Generator().manual_seed(0))
    windows = lambda: (text_windows(ids, 8, 8, shuffle=True), text_windows(ids[:80], 8, 8))
    config = TrainingConfig(steps=15, lr=1e-2, eval_every=5)  # three epochs
    whole, again = small(dropout=0.1), small(dropout=0.1)
    fit(whole, *windows(), config)

    class Stop(Exception):
        pass

    class Breaks(TextWindows):
        left = 3

        def batch(self, starts):
            if self.epoch > 1 and self.left == 0:
                raise Stop
            self.left -= self.epoch > 1
            return super().batch(starts)

    train, valid = windows()
    broken = Breaks(train.ids, 8, 8, True, 0, 0)
    with pytest.raises(Stop):
        fit(small(dropout=0.1), broken, valid, config, folder=tmp_path)
    fit(again, *windows(), config, folder=tmp_path, resume=True)
    for a, b in zip(whole.parameters(), again.parameters()):
        assert torch.equal(a, b)


def test_more_context_costs_less():
    "A copy of the token three places back can be known only where there are three places."
    row = torch.tensor([4, 7, 5]).repeat(400)

    class Copies(torch.nn.Linear):  # where there is no token to copy, a guess among ten
        def forward(self, x):
            known = 20 * F.one_hot(x, 10).float().roll(2, dims=1)
            return torch.cat([torch.zeros_like(known[:, :3]), known[:, 3:]], dim=1)

    judge = lambda context: evaluate(Copies(1, 1), text_windows(row, 8, 64, context=context))
    assert judge(0) == pytest.approx(math.log(10) * 3 / 8, abs=1e-3)
    assert judge(4) == pytest.approx(math.log(10) * 3 / 1200, abs=1e-3)


def test_bits():
    assert bits_per_character(math.log(2)) == pytest.approx(1)
    assert bits_per_character(math.log(16), tokens=4, characters=8) == pytest.approx(2)
    refuses(lambda: bits_per_character(1.0, characters=0), ValueError, "characters", "0")
