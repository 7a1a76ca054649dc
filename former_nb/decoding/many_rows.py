"""Many rows at once: those of similar length share a batch, and each gets its answer."""

from collections.abc import Callable
from functools import partial

import torch
from torch import nn

from ..base.core import eval_mode
from ..data.batches import make_batches
from ..data.text import PAD, pad_rows

__all__ = ["in_batches"]


def _row_length(numbered_row):
    return len(numbered_row[1])


def _collate_numbered(rows, pad):
    "Rows as a rectangle, and their numbers."
    return pad_rows([row for _, row in rows], pad), [number for number, _ in rows]


@torch.no_grad()
def in_batches(
    model: nn.Module,
    rows: list[list[int]],  # of any lengths
    answer: Callable,  # (B, T) integers on the model's device -> something for each row
    max_tokens: int,  # in one batch; a row that is longer has its own
    pad: int = PAD,  # fills the short rows
) -> list:  # what `answer` gives for each row, in their order
    "Ask in eval mode, rows of similar length together."
    if not rows:
        return []
    batches = make_batches(
        list(enumerate(rows)),
        max_tokens=max(max_tokens, *map(len, rows)),
        collate=partial(_collate_numbered, pad=pad),
        length=_row_length,
    )
    answers: list = [None] * len(rows)
    device = next(model.parameters()).device
    with eval_mode(model):
        for tokens, numbers in batches:
            sent = tokens.to(device, non_blocking=True)
            for number, found in zip(numbers, answer(sent)):
                answers[number] = found
    return answers
