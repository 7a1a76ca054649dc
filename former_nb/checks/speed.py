"""Judges of the exercises on the page 08_long_runs, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_formula, exercise


@exercise(
    "speed.1",
    "Which two products are there, and how large? Which four tensors go in or come out?",
    "A product of (n, d) and (d, S) takes 2 n S d operations; the second product takes as many. "
    "q and y have n rows, k and v have S.",
)
def judge_speed_1(answer):
    for n, S, d, size in ((3, 11, 5, 4), (1, 64, 16, 2), (128, 128, 64, 4)):
        flops, n_bytes = 4 * n * S * d, size * 2 * d * (n + S)
        pair = lambda a, b: torch.tensor([float(a), float(b)])
        found = answer(n, S, d, size)
        if isinstance(found, (tuple, list)) and len(found) == 2 and None not in found:
            found = pair(*found)
        problem = diagnose(
            found,
            [flops, n_bytes],
            {
                "each number of a product takes a multiplication and an addition": [
                    flops / 2,
                    n_bytes,
                ],
                "the fused form neither writes nor reads the n * S scores": [
                    flops,
                    n_bytes + size * n * S,
                ],
                "y is written too": [flops, n_bytes - size * n * d],
                "those are numbers; each has `size` bytes": [flops, n_bytes / size],
                "q and y have n rows, and k and v have S": [flops, size * 4 * n * d],
                "first the operations, then the bytes": [n_bytes, flops],
            },
        )
        if problem:
            return problem


@exercise(
    "speed.2",
    "How many operations and how many bytes does one weight take at one step?",
    "2 B operations and `size` bytes: where is 2 B / size at least flops / bandwidth?",
)
def judge_speed_2(answer):
    return diagnose_formula(
        answer,
        "flops, bandwidth, size",
        [(990e12, 3.35e12, 2), (1e11, 1.3e10, 4), (7e12, 9e11, 1)],
        "ceil(size * flops / bandwidth / 2)",
        {
            "size * flops / bandwidth / 2": "texts are whole: round up",
            "floor(size * flops / bandwidth / 2)": "with one text fewer it still waits for memory: "
            "round up",
            "ceil(size * flops / bandwidth)": "a multiplication and an addition are two operations",
            "ceil(flops / bandwidth / 2)": "a weight has `size` bytes",
            "ceil(flops / bandwidth)": "that is the ridge, in operations per byte",
            "ceil(flops / bandwidth / 2 / size)": "more bytes for each weight need a larger batch",
        },
    )


@exercise(
    "speed.3",
    "Let the step take 1 second. How long do its two parts take with the new kernel?",
    "1 - s seconds stay, s seconds become s / r. Times as fast is old time over new time.",
)
def judge_speed_3(answer):
    for s, r in ((0.2, 4.0), (0.55, 1.5), (0.9, 30.0)):
        pair = lambda a, b: torch.tensor([a, b])
        now, most = 1 / (1 - s + s / r), 1 / (1 - s)
        found = answer(s, r)
        if isinstance(found, (tuple, list)) and len(found) == 2 and None not in found:
            found = pair(*map(float, found))
        problem = diagnose(
            found,
            [now, most],
            {
                "that is the new time; times as fast is its inverse": [1 / now, 1 / most],
                "the rest of the step, 1 - s, takes as long as before": [r / s, most],
                "r times as fast takes s / r seconds, not s * r": [1 / (1 - s + s * r), most],
                "that would be so if all of the step were attention": [r, most],
                "without attention 1 - s of the step is left": [now, 1 / s],
                "first now, then at most": [most, now],
            },
        )
        if problem:
            return problem
