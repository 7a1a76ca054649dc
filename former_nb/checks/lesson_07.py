"""Judges of the exercises on the page 07_text, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_each, diagnose_formula, exercise, unnamed
from ..data.text import BOS, EOS, IGNORE, collate, pad_rows

_ROWS = [[BOS, 7, 5, EOS], [BOS, 9, EOS], [BOS, 6, 8, 4, 5, 7, EOS]]


def _mistakes(rows):
    "What likely slips would return, by what to say about them."
    first, rest = [row[:-1] for row in rows], [row[1:] for row in rows]
    inputs, targets = collate(rows)
    left = [[IGNORE] * (6 - len(row)) + row for row in rest]
    whole = [row + [IGNORE] * (7 - len(row)) for row in rows]
    return {
        "inputs come first, then targets; yours are the other way round": (targets, inputs),
        "targets are shifted by one: leave out the first token, not the last": (
            inputs,
            pad_rows(first, IGNORE),
        ),
        "the inputs leave out the last token of each row, <eos>": (pad_rows(rows), targets),
        "the two fillings are exchanged: inputs get PAD, and targets -100": (
            pad_rows(first, IGNORE),
            pad_rows(rest),
        ),
        "pad after the shift, and fill the targets with -100, not with PAD": (
            pad_rows(rows)[:, :-1],
            pad_rows(rows)[:, 1:],
        ),
        "the end of a text is a target too; only pads are left out": (
            inputs,
            targets.masked_fill(targets == EOS, IGNORE),
        ),
        "targets are the inputs shifted by one: leave out the first token": (inputs, inputs),
        "inputs and targets are exchanged": (pad_rows(rest), pad_rows(first, IGNORE)),
        "a pad is no target: fill the targets with -100": (inputs, pad_rows(rest)),
        "fill the inputs with 0, which is PAD; -100 has no vector": (
            pad_rows(first, IGNORE),
            targets,
        ),
        "fill on the right": (pad_rows([[0] * (6 - len(r)) + r for r in first]), pad_rows(left)),
        "pad after the shift: leave out the last token of each row, not the last column": (
            pad_rows(rows)[:, :-1],
            targets,
        ),
        "T is one less than the longest row": (pad_rows(rows), pad_rows(whole)),
    }


@exercise(
    "07.1",
    "For one row, the inputs are `row[:-1]` and the targets `row[1:]`. Both have the same length.",
    "Begin with `torch.full((B, T), 0)` and `torch.full((B, T), -100)`, and write each row in.",
    "`inputs[i, : len(row) - 1] = torch.tensor(row[:-1])`",
)
def judge_07_1(answer):
    "A function of rows that returns inputs and targets."
    given = answer([list(row) for row in _ROWS])
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        return f"expected inputs and targets, two tensors, got {type(given).__name__}"
    for name, part in zip(("inputs", "targets"), given):
        if not isinstance(part, torch.Tensor):
            came = f"got {type(part).__name__} for the {name}"
            return f"expected two tensors, {came}; `torch.tensor` makes one"
    right, device = collate(_ROWS), given[0].device
    for said, wrong in _mistakes(_ROWS).items():
        if all(g.shape == w.shape and g.equal(w.to(g.device)) for g, w in zip(given, wrong)):
            return said
    if all(part.ndim == 2 and part.shape[1] == min(map(len, _ROWS)) - 1 for part in given):
        return "the rows are cut to the shortest one; fill the shorter ones up instead"
    for name, part, wanted in zip(("inputs", "targets"), given, right):
        if part.ndim == 2 and part.shape[1] == wanted.shape[1] + 1:
            return unnamed(
                f"{name}: T is one less than the longest row, and yours is as long as it"
            )
        if said := diagnose(part, wanted.to(device)):
            return f"{name}: {said}"


@exercise(
    "07.2",
    "How many tokens has *aleksandra* with its two marks? How many of them are inputs?",
    "A name has a target for each letter, and one for its end.",
)
def judge_07_2(answer):
    "Two numbers: the width, and how many targets count."
    problem = diagnose(
        answer,
        [11, 26],
        {
            "<bos> and <eos> are two tokens, of which one is an input": [10, 22],
            "the end of a name is a target too": [11, 22],
            "the inputs leave out <eos>, so the batch is one narrower": [12, 26],
            "that counts both marks; <bos> is no target": [12, 30],
            "<bos> is no target": [11, 30],
            "pads are no targets": [11, 44],
            "first the width, then the targets": [26, 11],
        },
    )
    if problem is None or not problem.startswith("the numbers differ"):
        return problem
    return diagnose_each(
        answer,
        {"the width": 11, "the targets": 26},
        [
            {
                10: "*aleksandra* has 10 letters, and <bos> is an input too",
                12: "*aleksandra* has 12 tokens with both marks, and <eos> is no input",
                4: "that is how many names there are; the longest row gives the width",
                44: "that is how many places the batch has; its width is one row's",
                26: "that is how many targets count",
                22: "that is all letters; the longest row alone gives the width",
            },
            {
                18: "that is how many pads there are; count the others",
                22: "the end of a name is a target too",
                30: "<bos> is no target",
                23: "the end of each of the four names is a target, not one end in all",
                44: "pads are no targets",
                48: "pads are no targets, and neither is <bos>",
                40: "pads are no targets; each name has one for each letter and for its end",
                4: "those are the ends alone; each letter is a target too",
                11: "those are the targets of the longest name; add those of the others",
            },
        ],
    )


@exercise(
    "07.3",
    "What is the sum of the losses over all positions? Which positions does it come from?",
    "There are B · T positions with T = max(lengths) - 1. How many of them have a real target?",
)
def judge_07_3(answer):
    "A function of a mean and of lengths that returns a number."
    cases = [(1.5, [4, 3, 7]), (0.8, [9, 5, 5, 12])]
    share = lambda n, cut=1: len(n) * (max(n) - cut) / sum(k - cut for k in n)
    return diagnose_formula(
        answer,
        "mean, n",
        cases,
        "mean * share(n)",
        {
            "mean * share(n, 0)": "a row of n tokens has n - 1 targets",
            "mean / share(n)": "the other way round: fewer targets share the same sum",
            "mean * len(n) * (max(n) - 1)": "that is the sum; divide by the number of real targets",
            "mean * (max(n) - 1) / sum(k - 1 for k in n)": "the columns are max(lengths) - 1, but "
            "there are B rows of them",
            "mean * len(n) * (max(n) - 1) / sum(n)": "the lengths hold both marks, so a row of n "
            "tokens has n - 1 targets, not n",
            "mean * len(n) * max(n) / sum(k - 1 for k in n)": "T is max(lengths) - 1, since the "
            "inputs leave out <eos>",
            "mean * len(n) * (max(n) - 1) / sum(k - 2 for k in n)": "the end is a target too: a "
            "row of n tokens has n - 1 targets, not n - 2",
            "mean * share(n, 2)": "the end is a target too, in T and in each row",
            "mean / sum(k - 1 for k in n)": "the mean is over B · T places; multiply by them first",
            "mean * (len(n) * max(n) - 1) / sum(k - 1 for k in n)": "the 1 is missing in each "
            "row, not once: T is max(lengths) - 1",
            "mean * len(n) * (max(n) - 1) / (sum(n) - 1)": "each row has one target fewer than "
            "tokens, not all rows together",
            "mean * sum((max(n) - 1) / (k - 1) for k in n) / len(n)": "each target counts alike; "
            "add up the targets of all rows, then divide",
            "mean * (1 - 1 / share(n))": "that is the share of the pads; their loss is 0, and the "
            "sum stays",
            "mean * (2 - 1 / share(n))": "the sum stays, so divide by the share of real targets; "
            "you added that of pads",
            "mean / sum(n)": "the mean is over B · T places; multiply by them, and a row of n "
            "tokens has n - 1 targets",
            "mean * sum(n) / sum(k - 1 for k in n)": "the mean is over B · T places; multiply by "
            "them, not by the tokens",
            "mean * (max(n) - 1)": "that is the mean sum of a row; divide by the targets that are "
            "real",
            "mean": "that is the mean you began with",
        },
        share=share,
    )
