"""What holds for batches whatever the rows: each row once, no budget exceeded, one order for one
seed and epoch, and what bad input gets.

The cases that hypothesis draws are always the same ones. A longer run, with new cases each time:

  FORMER_NB_CASES=20000 pytest tests/test_batches.py
"""

import copy
import os
import pickle
import subprocess
import sys
import warnings
from collections import Counter
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from bad_input_table import judge, public_names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close
from torch.utils.data import DataLoader

from former_nb import batches
from former_nb.batches import BatchOrder, make_batches
from former_nb.text import BOS, EOS, IGNORE, PAD, collate, pad_rows

LONG = "FORMER_NB_CASES" in os.environ
many = settings(
    max_examples=int(os.environ.get("FORMER_NB_CASES", 100)),
    deadline=None,
    database=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)
NAN = float("nan")

# ---- the order

lengths_ = st.lists(st.integers(0, 30), min_size=1, max_size=60)


@st.composite
def orders(draw, **fixed):
    "The lengths of some rows, and the other arguments of an order over them."
    lengths = draw(lengths_)
    limit = (
        {"batch_size": draw(st.integers(1, 70))}
        if draw(st.booleans())
        else {"max_tokens": max(1, max(lengths)) + draw(st.integers(0, 90))}
    )
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
        assert len(found) == len(order) == len(
            BatchOrder(lengths, **how | {"shuffle": not how["shuffle"]})
        ) and all(found)


@many
@given(orders(), epochs_)
def test_no_limit_is_exceeded_and_no_room_is_wasted(case, epochs):
    lengths, how = case
    order, B, most = BatchOrder(lengths, **how), how.get("batch_size"), how.get("max_tokens")
    longest = lambda batch: max(lengths[i] for i in batch)
    for epoch in epochs:
        found = at(order, epoch)
        if B:
            assert (
                sorted(map(len, found), reverse=True)[:-1] == [B] * (len(found) - 1)
                and max(map(len, found)) <= B
            )
        else:
            assert all(len(batch) * longest(batch) <= most for batch in found)
            shortest = lambda batch: min(lengths[i] for i in batch)
            for batch, after in pairwise(
                sorted(found, key=lambda batch: (shortest(batch), longest(batch), -len(batch)))
            ):
                assert (len(batch) + 1) * shortest(after) > most


@many
@given(orders(by_length=True), epochs_)
def test_by_length_neighbours_are_neighbours_in_length(case, epochs):
    lengths, how = case
    for epoch in epochs:
        spans = sorted(
            (min(n), max(n))
            for n in (
                [lengths[i] for i in batch] for batch in at(BatchOrder(lengths, **how), epoch)
            )
        )
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
        lengths_read = [lengths[i] for batch in first[0] for i in batch]
        assert lengths_read == (
            sorted(lengths) if how["by_length"] or "max_tokens" in how else lengths
        )


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
    copies = [pickle.loads(pickle.dumps(order)), copy.deepcopy(order)]
    assert all(
        list(c) == at(order, epoch) and c.epoch == epoch + 1 and len(c) == len(order)
        for c in copies
    )


@pytest.mark.parametrize(
    "kind", [tuple, np.array, torch.tensor, lambda n: np.array(n, dtype=np.uint8), iter]
)
def test_lengths_of_any_kind(kind):
    lengths = [3, 5, 4, 3, 9]
    how = dict(max_tokens=np.int64(12), shuffle=True, seed=np.int32(3))
    order = BatchOrder(kind(lengths), **how)
    assert order.batches() == BatchOrder(lengths, max_tokens=12, shuffle=True, seed=3).batches()
    assert {type(n) for n in order.lengths} == {int}


def test_lengths_are_copied():
    lengths = [3, 5, 4]
    order = BatchOrder(lengths, max_tokens=5)
    lengths.append(2)
    assert list(order) == [[0], [2], [1]]


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
    assert (
        abs(first_pair[5] - 1600) < 165
    )  # the batch of long rows comes first in every third epoch


DIGEST = """
import hashlib
from former_nb.batches import BatchOrder
order = BatchOrder([i * 7 % 11 for i in range(500)], max_tokens=40, shuffle=True, seed=5)
order.set_epoch(3)
digest = hashlib.sha256(str(list(order)).encode()).hexdigest()[:16]
"""


def test_the_order_is_the_same_in_every_process_and_on_every_machine():
    here, other = {}, os.environ | {"PYTHONHASHSEED": "12345"}
    exec(DIGEST, here)
    there = subprocess.run(
        [sys.executable, "-c", DIGEST + "print(digest)"],
        env=other,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert (
        here["digest"] == there == "03cb501bd7436713"
    )  # with another number, runs would be resumed in another order
    assert at(BatchOrder([1] * 10, 4, shuffle=True), 0) == [[0, 9, 8, 1], [7, 6, 3, 2], [4, 5]]


# ---- rows as rectangles

rows_ = st.lists(st.lists(st.integers(-(2**40), 2**40), max_size=9), max_size=7)
sentences_ = st.lists(st.lists(st.integers(1, 50), min_size=2, max_size=9), min_size=1, max_size=7)
KINDS = {
    "lists": list,
    "tuples": tuple,
    "arrays": lambda row: np.array(row, dtype=np.int64),
    "short arrays": lambda row: np.array(row, dtype=np.uint16),
    "tensors": lambda row: torch.tensor(row, dtype=torch.int64),
    "small tensors": lambda row: torch.tensor(row, dtype=torch.int32),
    "lists of numbers of NumPy": lambda row: [np.int64(t) for t in row],
}


@many
@given(rows_, st.integers(-200, 200))
def test_pad_rows_is_torchs_pad_sequence(rows, value):
    padded = pad_rows(rows, value)
    assert padded.dtype == torch.int64 and padded.shape == (
        len(rows),
        max(map(len, rows), default=0),
    )
    if rows:
        assert_close(
            padded,
            pad_sequence(
                [torch.tensor(row, dtype=torch.int64) for row in rows],
                batch_first=True,
                padding_value=value,
            ),
        )


@many
@given(sentences_)
def test_collate_shifts_by_one_and_pads_with_nothing_that_counts(rows):
    inputs, targets = collate(rows)
    assert inputs.shape == targets.shape == (len(rows), max(map(len, rows)) - 1)
    assert (
        inputs.dtype == targets.dtype == torch.int64
        and not inputs.requires_grad
        and not targets.requires_grad
    )
    assert_close(inputs == PAD, targets == IGNORE)
    for row, i, t in zip(rows, inputs, targets):
        assert (
            [*i.tolist()[: len(row) - 1], t[len(row) - 2].item()]
            == row
            == [row[0], *t.tolist()[: len(row) - 1]]
        )


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_rows_of_any_kind(kind):
    rows = [[BOS, 7, EOS], [BOS, EOS], [BOS, 9, 8, 7, EOS]]
    before = [kind(row) for row in rows]
    assert_close(collate(before), collate(rows))
    assert_close(pad_rows(before, 3), pad_rows(rows, 3))
    assert [list(map(int, row)) for row in before] == rows
    assert_close(list(make_batches(before, max_tokens=6)), list(make_batches(rows, max_tokens=6)))


def test_rows_that_cannot_be_written_to_raise_no_warning():
    row = np.array([BOS, 5, EOS])
    row.setflags(write=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        inputs, _ = collate([row, row])
    inputs[0, 0] = 99  # and the batch does not share its memory
    assert row[0] == BOS


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
        found.update(
            tuple([*i.tolist(), t])
            for i, t in zip(
                [i[i != PAD] for i in inputs], [t[t != IGNORE][-1].item() for t in targets]
            )
        )
        n += 1
    assert found == Counter(map(tuple, rows)) and n == len(loader)


def test_reading_takes_nothing_from_the_numbers_of_others():
    before, python, numpy = (
        torch.get_rng_state(),
        batches.random.getstate(),
        np.random.get_state()[1].copy(),
    )
    loader = make_batches(ROWS, 3, shuffle=True)
    first = list(loader)
    assert (
        torch.equal(torch.get_rng_state(), before)
        and batches.random.getstate() == python
        and (np.random.get_state()[1] == numpy).all()
    )
    torch.manual_seed(1)
    loader.batch_sampler.set_epoch(0)
    assert_close(list(loader), first)


@pytest.mark.parametrize("persistent", [False, True])
def test_workers_read_the_same_epochs(persistent):
    alone = make_batches(ROWS, max_tokens=20, shuffle=True, seed=4)
    shared = DataLoader(
        ROWS,
        batch_sampler=make_batches(ROWS, max_tokens=20, shuffle=True, seed=4).batch_sampler,
        collate_fn=collate,
        num_workers=2,
        persistent_workers=persistent,
    )
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
    pairs = [
        ([BOS, *[5] * n, EOS], [BOS, *[6] * m, EOS]) for n, m in ((1, 3), (4, 1), (2, 2), (5, 5))
    ]
    both = lambda rows: (pad_rows([a for a, _ in rows]), *collate([b for _, b in rows]))
    loader = make_batches(
        pairs, max_tokens=14, shuffle=True, collate=both, length=lambda pair: max(map(len, pair))
    )
    seen = [(source.shape, inputs.shape) for source, inputs, _ in loader]
    assert sum(s[0] for s, _ in seen) == 4 and all(
        s.numel() <= 14 and t.numel() <= 14 for s, t in seen
    )


def test_the_same_arguments_by_place():
    order = make_batches(ROWS, 4, True, 7).batch_sampler
    assert (order.batch_size, order.shuffle, order.seed, order.by_length) == (4, True, 7, False)


# ---- bad input: the rows of pad_rows and collate stand in test_text

ONE = (ValueError, "batch_size, max_tokens: expected one of them")
LENGTHS = [len(row) for row in ROWS]
ORDER = BatchOrder(LENGTHS, 3)


def flag(name, value):
    return (ValueError, f"{name}: expected one of [True, False]", repr(value))


def whole(name, value):
    return ((TypeError, ValueError), f"{name}: expected", repr(value))


def order_rows(call):
    "What `BatchOrder` and `make_batches` both refuse."
    return [
        *((lambda x=x: call(batch_size=x), whole("batch_size", x)) for x in (0, 2.0, True, "3")),
        *((lambda x=x: call(max_tokens=x), whole("max_tokens", x)) for x in (0, NAN)),
        *((lambda x=x: call(batch_size=2, seed=x), whole("seed", x)) for x in (-1, None)),
        (lambda: call(batch_size=2, shuffle=7), flag("shuffle", 7)),
        (lambda: call(batch_size=2, by_length="yes"), flag("by_length", "yes")),
        (lambda: call(batch_size=2, max_tokens=90), (*ONE, "2 and 90")),
        (lambda: call(), (*ONE, "None and None")),
        (lambda: call(max_tokens=3), (ValueError, "lengths: expected some, up to 3", "got 11")),
    ]


EMPTY = (ValueError, "lengths: expected some", "got none")
TABLE = {
    "BatchOrder": [
        *order_rows(lambda **kwargs: BatchOrder(LENGTHS, **kwargs)),
        *((lambda x=x: ORDER.set_epoch(x), whole("epoch", x)) for x in (-1, 0.5, None)),
        (lambda: BatchOrder([], 2), EMPTY),
        (lambda: BatchOrder(np.array([]), 2), EMPTY),
        (lambda: BatchOrder(5, 2), (TypeError, "", "int")),
        (lambda: BatchOrder(torch.tensor(5), 2), (TypeError, "", "int")),
    ],
    "make_batches": [
        *order_rows(lambda **kwargs: make_batches(ROWS, **kwargs)),
        (lambda: make_batches([], 2), EMPTY),
        (lambda: make_batches(iter(ROWS), 2), (TypeError, "", "iterator")),
        (lambda: make_batches([1, 2], 2), (TypeError, "", "'int'")),
        (lambda: make_batches(ROWS, 2, 7), flag("shuffle", 7)),
        (
            lambda: make_batches(ROWS, 2, collate=0),
            (TypeError, "collate: expected Callable", "int"),
        ),
        (lambda: make_batches(ROWS, 2, length=3), (TypeError, "", "int")),
    ],
}


@pytest.mark.parametrize("call, wanted", [row for rows in TABLE.values() for row in rows])
def test_bad_input_is_named(call, wanted):
    judge(call, wanted)


def test_every_public_function_has_its_rows():
    assert public_names(batches) == set(TABLE)
