"""Rows as rectangles: what `pad_rows` and `collate` make of rows of any kind."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from refusals import every_row
from thorough import drawn
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close

from former_nb.data.batches import make_batches
from former_nb.data.text import BOS, EOS, IGNORE, PAD, collate, pad_rows

many = drawn(40)
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
    assert padded.dtype == torch.int64
    assert padded.shape == (len(rows), max(map(len, rows), default=0))
    if rows:
        each = [torch.tensor(row, dtype=torch.int64) for row in rows]
        assert_close(padded, pad_sequence(each, batch_first=True, padding_value=value))


@many
@given(sentences_)
def test_collate_shifts_by_one_and_pads_with_nothing_that_counts(rows):
    inputs, targets = collate(rows)
    assert inputs.shape == targets.shape == (len(rows), max(map(len, rows)) - 1)
    assert inputs.dtype == targets.dtype == torch.int64
    assert_close(inputs == PAD, targets == IGNORE)
    for row, i, t in zip(rows, inputs.tolist(), targets.tolist()):
        n = len(row) - 1
        assert i[:n] + t[n - 1 : n] == row == row[:1] + t[:n]


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
def test_rows_of_any_kind(kind):
    rows = [[BOS, 7, EOS], [BOS, EOS], [BOS, 9, 8, 7, EOS]]
    before = [kind(row) for row in rows]
    assert_close(collate(before), collate(rows))
    assert_close(pad_rows(before, 3), pad_rows(rows, 3))
    assert [list(map(int, row)) for row in before] == rows
    assert_close(list(make_batches(before, max_tokens=6)), list(make_batches(rows, max_tokens=6)))


def test_an_empty_batch_and_empty_rows():
    assert pad_rows([]).shape == (0, 0) and pad_rows([[], []]).shape == (2, 0)
    assert pad_rows([[], [7]]).tolist() == [[PAD], [7]]
    inputs, targets = collate([[BOS], [BOS, 5, EOS]])
    assert inputs.tolist() == [[PAD, PAD], [BOS, 5]]
    assert targets.tolist() == [[IGNORE, IGNORE], [5, EOS]]


NUMBERS = ((TypeError, ValueError, RuntimeError), "")
TABLE = {
    "pad_rows": [
        *((f"{x}", lambda x=x: pad_rows(x), *NUMBERS) for x in ([[1.5]], [[True]], ["ona"], [1])),
        ("an iterator", lambda: pad_rows(iter([[1]])), TypeError, "rows", "iterator"),
        ("a value", lambda: pad_rows([[1]], 0.5), TypeError, "value", "0.5"),
        (
            "NumPy's numbers",
            lambda: pad_rows([list(np.arange(2))]),
            lambda t: t.tolist() == [[0, 1]],
        ),
    ],
    "collate": [(str(x), lambda x=x: collate(x), *NUMBERS) for x in (["ona"], [1], [[0.5, 1.5]])],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
