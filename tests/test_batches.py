"""What holds for batches whatever the rows: each row once, no budget exceeded, one order for one
seed and epoch, and what bad input gets.

The cases that hypothesis draws are always the same ones. A longer run, with new cases each time:

  FORMER_NB_CASES=20000 pytest tests/test_batches.py
"""

import copy
import hashlib
import pickle
from collections import Counter
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import every_row
from thorough import drawn
from torch.testing import assert_close
from torch.utils.data import DataLoader

from former_nb.data import batches
from former_nb.data.batches import BatchOrder, make_batches
from former_nb.data.text import BOS, EOS, IGNORE, PAD, collate, pad_rows

many = drawn(40)
NAN = float("nan")

# ---- the order

lengths_ = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@st.composite
def orders(draw, **fixed):
    "The lengths of some rows, and the other arguments of an order over them."
    lengths = draw(lengths_)
    if draw(st.booleans()):
        limit = {"batch_size": draw(st.integers(1, 70))}
    else:
        limit = {"max_tokens": max(1, max(lengths)) + draw(st.integers(0, 90))}
    flags = {name: draw(st.booleans()) for name in ("shuffle", "by_length")}
    return lengths, limit | flags | {"seed": draw(st.integers(0, 2**70))} | fixed


epochs_ = st.lists(st.integers(0, 2**40), min_size=1, max_size=4)


def at(order, epoch):
    "The batches of one epoch."
    order.set_epoch(epoch)
    return list(order)


@many
@given(orders(), epochs_)
def test_each_row_once_in_every_epoch_and_always_as_many_batches(case, epochs):
    lengths, how = case
    order = BatchOrder(lengths, **how)
    for epoch in epochs:
        found = at(order, epoch)
        assert sorted(i for batch in found for i in batch) == list(range(len(lengths)))
        other = BatchOrder(lengths, **how | {"shuffle": not how["shuffle"]})
        assert len(found) == len(order) == len(other) and all(found)


@many
@given(orders(), epochs_)
def test_no_limit_is_exceeded_and_no_room_is_wasted(case, epochs):
    lengths, how = case
    order, B, most = BatchOrder(lengths, **how), how.get("batch_size"), how.get("max_tokens")
    longest = lambda batch: max(lengths[i] for i in batch)
    shortest = lambda batch: min(lengths[i] for i in batch)
    by_size = lambda batch: (shortest(batch), longest(batch), -len(batch))
    for epoch in epochs:
        found = at(order, epoch)
        if B:
            sizes = sorted(map(len, found), reverse=True)
            assert sizes[:-1] == [B] * (len(found) - 1) and max(sizes) <= B
        else:
            assert all(len(batch) * longest(batch) <= most for batch in found)
            for batch, after in pairwise(sorted(found, key=by_size)):
                assert (len(batch) + 1) * shortest(after) > most


@many
@given(orders(by_length=True), epochs_)
def test_by_length_neighbours_are_neighbours_in_length(case, epochs):
    lengths, how = case
    for epoch in epochs:
        found = at(BatchOrder(lengths, **how), epoch)
        sizes = [[lengths[i] for i in batch] for batch in found]
        spans = sorted((min(n), max(n)) for n in sizes)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))


@many
@given(orders(), epochs_)
def test_seed_and_epoch_alone_decide(case, epochs):
    lengths, how = case
    one, other = BatchOrder(lengths, **how), BatchOrder(lengths, **how)
    first = [at(one, epoch) for epoch in epochs]
    torch.manual_seed(sum(lengths))  # numbers that others draw
    again = [at(other, epoch) for epoch in reversed(epochs)][::-1]
    assert first == again
    if not how["shuffle"]:
        assert all(found == first[0] for found in first)
        read = [lengths[i] for batch in first[0] for i in batch]
        assert read == (sorted(lengths) if how["by_length"] or "max_tokens" in how else lengths)


@many
@given(orders(), st.integers(1, 4))
def test_without_set_epoch_the_next_one_follows(case, epochs):
    lengths, how = case
    alone, told = BatchOrder(lengths, **how), BatchOrder(lengths, **how)
    for epoch in range(epochs):
        iter(alone), iter(alone)  # asked for and not read, as a DataLoader with workers does
        assert list(alone) == at(told, epoch)
    next(iter(alone))  # begun and left
    assert list(alone) == at(told, epochs + 1)


@many
@given(orders(), st.integers(0, 5), st.integers(0, 70))
def test_an_epoch_is_resumed_in_the_middle(case, epoch, done):
    lengths, how = case
    order = BatchOrder(lengths, **how)
    whole = at(order, epoch)
    again = BatchOrder(lengths, **how)
    again.set_epoch(epoch)
    assert whole[done:] == list(islice(again, done, None))


@many
@given(orders(), st.integers(0, 5))
def test_copies_read_on_alike(case, epoch):
    lengths, how = case
    order = BatchOrder(lengths, **how)
    order.set_epoch(epoch)
    for c in (pickle.loads(pickle.dumps(order)), copy.deepcopy(order)):
        assert list(c) == at(order, epoch) and c.epoch == epoch + 1 and len(c) == len(order)


@pytest.mark.parametrize(
    "kind", [tuple, np.array, torch.tensor, lambda n: np.array(n, dtype=np.uint8), iter]
)
def test_lengths_of_any_kind(kind):
    lengths = [3, 5, 4, 3, 9]
    how = dict(max_tokens=np.int64(12), shuffle=True, seed=np.int32(3))
    order = BatchOrder(kind(lengths), **how)
    assert order.batches() == BatchOrder(lengths, max_tokens=12, shuffle=True, seed=3).batches()
    assert {type(n) for n in order.lengths} == {int}


def test_seeds_and_epochs_have_orders_of_their_own():
    order = lambda seed, epoch: str(at(BatchOrder([1] * 30, 7, shuffle=True, seed=seed), epoch))
    assert len({order(seed, epoch) for seed in range(12) for epoch in range(12)}) == 144


def test_every_order_is_as_likely_as_any_other():
    """Four rows of one length and two of another, over 4,800 epochs: 24 orders of the four, each
    some 200 times (within five standard deviations)."""
    lengths, orders_of_four = [2, 5, 2, 2, 5, 2], Counter()
    order = BatchOrder(lengths, 2, shuffle=True, by_length=True)
    first_pair = Counter()
    for _ in range(4800):
        found = list(order)
        four = sorted((batch for batch in found if lengths[batch[0]] == 2), key=found.index)
        orders_of_four[tuple(i for batch in four for i in batch)] += 1
        first_pair[lengths[found[0][0]]] += 1
    assert len(orders_of_four) == 24 and all(abs(n - 200) < 70 for n in orders_of_four.values())
    # the batch of long rows comes first in every third epoch
    assert abs(first_pair[5] - 1600) < 165


def test_the_order_is_the_same_in_every_process_and_on_every_machine():
    lengths = [i * 7 % 11 for i in range(500)]
    order = at(BatchOrder(lengths, max_tokens=40, shuffle=True, seed=5), 3)
    # with another number, runs would be resumed in another order
    assert hashlib.sha256(str(order).encode()).hexdigest()[:16] == "03cb501bd7436713"
    assert at(BatchOrder([1] * 10, 4, shuffle=True), 0) == [[0, 9, 8, 1], [7, 6, 3, 2], [4, 5]]


# ---- the loader

ROWS = [[BOS, *range(4, 4 + n), EOS] for n in (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5)]


@many
@given(
    st.lists(st.lists(st.integers(4, 9), min_size=2, max_size=9), min_size=1, max_size=30),
    st.integers(9, 40),
    st.booleans(),
    st.integers(0, 99),
)
def test_the_loader_gives_each_row_once_within_the_budget(rows, max_tokens, shuffle, seed):
    loader = make_batches(rows, max_tokens=max_tokens, shuffle=shuffle, seed=seed)
    found, n = Counter(), 0
    for inputs, targets in loader:
        assert inputs.numel() + len(inputs) <= max_tokens  # a row has one token more than places
        read = zip([i[i != PAD] for i in inputs], [t[t != IGNORE][-1].item() for t in targets])
        found.update(tuple([*i.tolist(), t]) for i, t in read)
        n += 1
    assert found == Counter(map(tuple, rows)) and n == len(loader)


def test_reading_takes_nothing_from_the_numbers_of_others():
    states = lambda: (
        torch.get_rng_state().tolist(),
        batches.random.getstate(),
        np.random.get_state()[1].tolist(),
    )
    before, loader = states(), make_batches(ROWS, 3, shuffle=True)
    first = list(loader)
    assert states() == before
    torch.manual_seed(1)
    loader.batch_sampler.set_epoch(0)
    assert_close(list(loader), first)


def test_workers_read_the_same_epochs():
    made = lambda: make_batches(ROWS, max_tokens=20, shuffle=True, seed=4)
    alone, how = made(), dict(collate_fn=collate, num_workers=2, persistent_workers=True)
    shared = DataLoader(ROWS, batch_sampler=made().batch_sampler, **how)
    assert len(alone) == len(shared)
    alone.batch_sampler.set_epoch(3), shared.batch_sampler.set_epoch(3)
    for _ in range(2):  # the second time without saying which
        assert_close(list(shared), list(alone))
    assert alone.batch_sampler.epoch == shared.batch_sampler.epoch == 5


class Lazy:
    "A data set that makes its rows when asked; a loop over it would not find an end."

    def __len__(self):
        return 6

    def __getitem__(self, i):
        assert i < 6, "a row that is not there"
        return [BOS, *[4] * i, EOS]


def test_rows_that_are_made_when_asked():
    assert [len(inputs) for inputs, _ in make_batches(Lazy(), max_tokens=10)] == [2, 2, 1, 1]


def test_pairs_with_a_length_and_a_collate_of_their_own():
    sizes = ((1, 3), (4, 1), (2, 2), (5, 5))
    pairs = [([BOS, *[5] * n, EOS], [BOS, *[6] * m, EOS]) for n, m in sizes]
    both = lambda rows: (pad_rows([a for a, _ in rows]), *collate([b for _, b in rows]))
    how = dict(collate=both, length=lambda pair: max(map(len, pair)))
    loader = make_batches(pairs, max_tokens=14, shuffle=True, **how)
    seen = [(source.shape, inputs.shape) for source, inputs, _ in loader]
    assert sum(s[0] for s, _ in seen) == 4
    assert all(s.numel() <= 14 and t.numel() <= 14 for s, t in seen)


# ---- bad input

LENGTHS, LIMITS = [len(row) for row in ROWS], "batch_size, max_tokens"


def of_an_order(call):
    return [
        ("one limit", lambda: call(batch_size=2, max_tokens=90), ValueError, LIMITS, "2 and 90"),
        ("no limit", lambda: call(), ValueError, LIMITS, "None and None"),
        ("no rows in a batch", lambda: call(batch_size=0), ValueError, "batch_size", "0"),
        ("half a row", lambda: call(batch_size=2.5), TypeError, "batch_size", "2.5"),
        ("too few tokens", lambda: call(max_tokens=3), ValueError, "lengths"),
        ("seed", lambda: call(batch_size=2, seed=-1), ValueError, "seed", "-1"),
        ("shuffle", lambda: call(batch_size=2, shuffle=7), ValueError, "shuffle", "7"),
        ("by_length", lambda: call(batch_size=2, by_length="yes"), ValueError, "by_length", "yes"),
    ]


TABLE = {
    "BatchOrder": [
        *of_an_order(partial(BatchOrder, LENGTHS)),
        ("no lengths", lambda: BatchOrder([], 2), ValueError, "lengths", "[]"),
        ("a negative length", lambda: BatchOrder([-1, 2], 2), ValueError, "lengths", "-1"),
        ("a number", lambda: BatchOrder(5, 2), TypeError, ""),
        ("epoch", lambda: BatchOrder(LENGTHS, 3).set_epoch(-1), ValueError, "epoch", "-1"),
    ],
    "make_batches": [
        *of_an_order(partial(make_batches, ROWS)),
        ("no rows", lambda: make_batches([], 2), ValueError, "rows", "[]"),
        ("rows read once", lambda: make_batches(iter(ROWS), 2), TypeError, "rows"),
        ("numbers", lambda: make_batches([1, 2], 2), TypeError, ""),
        ("no function", lambda: make_batches(ROWS, 2, collate=0), TypeError, "collate", "int"),
    ],
}
test_bad_input = every_row(TABLE)
