"""Judges of the exercises on the page 04_flash, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, diagnose_formula, edited, exercise


def by_blocks(scores, values, size):
    "The softmax of one row, block by block."
    largest = scores.new_tensor(float("-inf"))
    total = 0.0
    y = 0.0
    for s, v in zip(scores.split(size), values.split(size)):
        new = torch.maximum(largest, s.max())
        factor = (largest - new).exp()
        powers = (s - new).exp()
        total = factor * total + powers.sum()
        y = factor * y + powers @ v
        largest = new
    return y / total


ROW_MISTAKES = edited(
    by_blocks,
    {
        "factor * total -> total": "the old sum is not rescaled: it was counted from the old "
        "maximum",
        "factor * y -> y": "the old values are not rescaled: they were weighted from the old "
        "maximum",
        "factor * total -> total; factor * y -> y": "neither the old sum nor the old values are "
        "rescaled when the maximum moves",
        "torch.maximum(largest, s.max()) -> s.max(); factor * total -> total; factor * y -> y": ""
        "you took the maximum of the block only; compare it with the one so far",
        "(largest - new).exp() -> (new - largest).exp() if total else 0.0": "your factor is "
        "upside down: it is e^(old maximum - new maximum), at most 1",
        "powers @ v -> powers @ v / total; y / total -> y": "you divided in each block; divide "
        "once, after the last",
        "y / total -> y": "the division by the sum is missing",
    },
)


def _separate(scores, values, size):
    "The mean of what each block gives by itself."
    parts = [by_blocks(s, v, len(s)) for s, v in zip(scores.split(size), values.split(size))]
    return torch.stack(parts).mean(dim=0)


@exercise(
    "flash.1",
    "Start from the loop over keys on the page; `scores.split(size)` gives the blocks",
    "New maximum: the larger of the old one and the block's. Factor: e^(old - new), for the sum "
    "and for the weighted values",
    "`total = factor * total + powers.sum()` and `y = factor * y + powers @ v_block`; divide last",
)
def judge_flash_1(answer):
    "Judge the softmax of one row by blocks, for ordinary and for large scores."
    make = torch.Generator("cpu").manual_seed(0)
    values = torch.randn(7, 3, generator=make)
    for scores in (
        [1.0, 0.5, 3.0, 2.0, 0.0, -1.0, 3.5],
        [100.0, 90.0, 99.0, 120.0, 60.0, 119.0, 0.0],
    ):
        scores = torch.tensor(scores)
        right = scores.softmax(dim=0) @ values
        wrong = {said: mistake(scores, values, 2) for said, mistake in ROW_MISTAKES.items()}
        wrong["each block got a softmax of its own, and their mean is not the whole"] = _separate(
            scores, values, 2
        )
        wrong["the last block is shorter, and you left it out"] = by_blocks(
            scores[:6], values[:6], 2
        )
        got = call_answer(answer, scores, values, 2)
        if scores[0] > 50 and isinstance(got, torch.Tensor) and not got.isfinite().all():
            return "right for small scores, but e^100 overflows: subtract the largest so far"
        if problem := diagnose(got, right, wrong):
            return problem
    scores, values = torch.tensor([-200.0, -201.0]), values[:2]
    return diagnose(
        call_answer(answer, scores, values, 1),
        scores.softmax(dim=0) @ values,
        {
            "the maximum must not start at 0: all scores may be far below it": torch.full(
                (3,), float("nan")
            )
        },
    )


@exercise(
    "flash.2",
    "At which key does the last query stand? At which key the last query of each block?",
    "The blocks of queries end at keys 799, 899 and 999",
)
def judge_flash_2(answer):
    "Judge how many tiles 300 queries and 1,000 keys have under a causal mask."
    mistakes = {
        "that is every tile; those above the diagonal are skipped": 30,
        "you aligned the mask at the top left; the last query stands at the last key": 6,
        "the tile in which a block's last query stands is computed too": 24,
        "that counts pairs, not tiles": 100 * 100 * 27,
        "the skipped tiles are those above the diagonal; count the others": 3,
    }
    return diagnose(answer, 27, mistakes)


@exercise(
    "flash.3",
    "What crosses once, and what once for each block of queries? How many blocks are there?",
    "4 bytes · (q and y once, k and v for each of ⌈T / size⌉ blocks), each T · d numbers",
)
def judge_flash_3(answer):
    "Judge the bytes that a fused kernel moves."
    return diagnose_formula(
        answer,
        "T, d, size",
        [(1000, 64, 128), (96, 8, 32), (50, 16, 64)],
        "8 * T * d * (1 + blocks(T, size))",
        {
            "16 * T * d": "keys and values are read again for each block of queries",
            "2 * T * d * (1 + blocks(T, size))": "in bytes: a number of float32 takes four",
            "4 * T * d * (1 + 2 * blocks(T, size))": "queries and outputs both cross, once each",
            "8 * T * d * blocks(T, size)": "the queries and the outputs cross too",
            "4 * T * d * (2 + blocks(T, size))": "keys and values both are read",
            "4 * T * d * (1 + 3 * blocks(T, size))": "a block of queries is read once, not once "
            "for each block of keys",
            "4 * (2 * T * d + 2 * blocks(T, size) * size * d)": "each block reads all T keys, "
            "not `size` of them",
            "8 * T * d * (1 + T)": "a query does not read the keys for itself; its whole block "
            "shares them",
            "8 * T * d * (1 + T // size)": "the last block may be shorter, but it reads all keys: "
            "round T / size up",
            "8 * T * d * (1 + T / size)": "blocks are whole: round T / size up",
        },
        blocks=lambda T, size: -(-T // size),
    )
