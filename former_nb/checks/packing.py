"""Judges of the exercises on the page 07_batches, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_formula, exercise


@exercise(
    "packing.1",
    "How many positions has the padded batch, and how many of them hold a token?",
    "A row of n tokens has n · n scores, a padded one T · T.",
    "Rows of one length share a call.",
)
def judge_packing_1(answer):
    "Two shares and a number of calls."
    right = torch.tensor([0.5, 170 / 256, 3.0])
    return diagnose(
        answer,
        right,
        {
            "the shares are those that remain; subtract them from one": [0.5, 86 / 256, 3.0],
            "a row has n · n scores, so more than half of them are saved": [0.5, 0.5, 3.0],
            "rows of one length share a call": [0.5, 170 / 256, 4.0],
            "one call cannot serve rows of different length": [0.5, 170 / 256, 1.0],
        },
    )


@exercise(
    "packing.2",
    "What are the positions of one row of n tokens?",
    "`torch.arange(n)` for each row, joined by `torch.cat`.",
)
def judge_packing_2(answer):
    "A function of a list of lengths that returns a tensor (N,)."
    lengths = [3, 1, 4, 2]
    right = torch.cat([torch.arange(n) for n in lengths])
    rows = torch.arange(4).repeat_interleave(torch.tensor(lengths))
    return diagnose(
        answer(list(lengths)),
        right,
        {
            "the positions go on from row to row; each row begins at 0": torch.arange(10),
            "positions count from 0": right + 1,
            "that is the number of the row of each token": rows,
        },
    )


@exercise(
    "packing.3",
    "What do all B · T positions cost in the stack, and what in the output matrix?",
    "Only the second cost changes: from B · T positions to the sum of the lengths.",
)
def judge_packing_3(answer):
    "A function of lengths, T, a and b that returns a share."
    cases = [([3, 5, 2], 5, 4.0, 2.0), ([4, 4], 4, 1.0, 1.0), ([1, 6], 8, 3.0, 9.0)]
    pads = lambda n, T: 1 - sum(n) / (len(n) * T)
    return diagnose_formula(
        answer,
        "n, T, a, b",
        cases,
        "pads(n, T) * b / (a + b)",
        {
            "pads(n, T)": "the stack goes on to run over all positions",
            "1 - pads(n, T) * b / (a + b)": "that is what remains; subtract it from one",
            "pads(n, T) * b / a": "divide by the cost of stack and output matrix together",
            "pads(n, max(n)) * b / (a + b)": "the padded batch has T columns, also if no row "
            "fills them",
        },
        pads=pads,
    )
