"""Judges of the exercises on the page 04_mask_patterns, and the mistakes that they know."""

import math

import torch

from ..attention.masks import causal_mask, combine_masks, padding_mask
from ..base.exercises import diagnose, diagnose_formula, exercise


@exercise(
    "mask_patterns.1",
    "How far back does one layer reach? The query's own position is one of the four",
    "Each layer adds the same number of positions",
)
def judge_mask_patterns_1(answer):
    "Judge how far six layers with a window of four reach back."
    mistakes = {
        "a window of 4 holds the query itself, so it reaches 3 back": 24,
        "that is one layer; the next one reaches further through the words it attends to": 3,
        "that counts the output's own position too; how far back lies the earliest?": 19,
        "the layers add up, they do not multiply": 3**6,
        "five steps between six layers? The first layer attends to inputs, so six": 15,
    }
    return diagnose(answer, 18, mistakes)


def _odd_windows(back, stride, window):
    "What each mistake about the window and the future gives: sentence -> (T, T)."
    past, near, far = back >= 0, back < window, back % stride == 0
    return {
        "your window holds one key too many; the query itself is one of its keys": (
            past & ((back <= window) | far)
        ),
        "your window holds one key too few; the query itself is one of its keys": (
            past & ((back < window - 1) | far)
        ),
        "your strides reach into the future too; i - j is a multiple there as well": (
            past & near | far
        ),
        "your window reaches into the future too": near & (back > -window) | past & far,
        "the future is not hidden": near & (back > -window) | far,
        "the future is not hidden; i - j is negative there": near | far,
    }


def _odd_steps(back, stride, window):
    "What each mistake about the steps gives: sentence -> (T, T)."
    past, near, j = back >= 0, back < window, torch.arange(back.shape[1])
    first_only, from_edge = back == stride, (back - window + 1) % stride == 0
    return {
        "you count steps from the start of the text; they are counted back from the query": (
            past & (near | (j % stride == 0))
        ),
        "you count steps from the end of the window; they are counted back from the query": (
            past & (near | from_edge)
        ),
        "you allowed only the first of the steps; all multiples of stride may be attended to": (
            past & (near | first_only)
        ),
    }


def _strided(back, stride, window):
    "The right answer, and what each mistake about the whole gives: sentence -> (T, T)."
    past, near, far = back >= 0, back < window, back % stride == 0
    right = past & (near | far)
    return right, _odd_windows(back, stride, window) | _odd_steps(back, stride, window) | {
        "rows and columns are swapped; row i is query i": right.T,
        "your mask is the wrong way round; True means may attend": ~right,
        "you left out the diagonal; a query may attend to itself": right & (back > 0),
        "that is the window alone; the keys `stride` positions apart are missing": past & near,
        "that is the stride alone; the window is missing": past & far,
        "a key needs one of the two reasons, not both: | instead of &": past & near & far,
    }


@exercise(
    "mask_patterns.2",
    "How far key j lies behind query i is i - j. Both conditions are about that number",
    "The near past: 0 <= i - j < window. The far past: i - j >= 0, and stride divides it",
    "`(back >= 0) & ((back < window) | (back % stride == 0))`, and two axes in front",
)
def judge_mask_patterns_2(answer):
    "Judge a strided mask of eleven words."
    back = torch.arange(11)[:, None] - torch.arange(11)  # (T, T), how far key j lies behind i
    right, mistakes = _strided(back, 4, 3)
    given = answer(11, 4, 3)
    if not isinstance(given, torch.Tensor) or given.dtype != torch.bool:
        return f"expected a boolean tensor, got {getattr(given, 'dtype', type(given).__name__)}"
    wrong = {sentence: table[None, None] for sentence, table in mistakes.items()}
    problem = diagnose(given, right[None, None], wrong)
    if problem is None and not torch.equal(answer(5, 2, 1)[0, 0], _strided(back, 2, 1)[0][:5, :5]):
        problem = "right for T = 11, stride = 4, window = 3, but not for 5, 2 and 1"
    return problem


@exercise(
    "mask_patterns.3",
    "How many keys may query i attend to, early in the text and later?",
    "The first w rows hold 1, 2, …, w ones, the others w each. What does a w above T change?",
)
def judge_mask_patterns_3(answer):
    "Judge the number of ones in a sliding window mask."
    cases = [(11, 4), (7, 1), (9, 9)]

    problem = diagnose_formula(
        answer,
        "T, w",
        cases,
        "w * T - w * (w - 1) / 2",
        {
            "w * T": "the first rows hold fewer than w ones",
            "T * (T + 1) / 2": "that is the causal mask; a window holds at most w keys",
            "w * (T - w)": "the first w rows are missing",
            "w * (T - w) + w * (w - 1) / 2": "the first w rows hold w(w + 1)/2 ones, because the "
            "query itself counts",
            "T * T - w * T + w * (w - 1) / 2": "those are the masked entries; count the ones",
        },
    )
    if problem is None and answer(5, 8) != 15:
        problem = f"right for w <= T, but T = 5 and w = 8 should give 15, got {answer(5, 8)}"
    return problem


@exercise(
    "mask_patterns.4",
    "In nn.MultiheadAttention True means may not. Which pairs does the triangle then "
    "leave, and which keys does the other mask leave?",
    "A pair needs both: the key lies after the query, and the key is padding",
)
def judge_mask_patterns_4(answer):
    "Judge how many weights are above zero under two masks the wrong way round."
    return diagnose(
        answer,
        7,
        {
            "that is what was meant; in nn.MultiheadAttention True means may not": 12,
            "you turned round one mask of the two; in "
            "nn.MultiheadAttention True means may not in both": 3,
            "you counted one of the two masks alone": 10,
            "a pair must be left open by both masks, not by one of them": 13,
            "you counted the blocked pairs": 18,
            "the diagonal is blocked too, it is True in the triangle": 9,
        },
    )


@exercise(
    "mask_patterns.5",
    "Build the combined mask first, then find its empty rows with `any` over the keys",
    "A query attends to itself on the diagonal: `torch.eye(T, dtype=torch.bool)`",
    "`mask | (empty & eye)`, with `empty` of shape (B, 1, T, 1)",
)
def judge_mask_patterns_5(answer):
    "Judge a mask without empty rows, for pads on the left, everywhere and on the right."
    tokens = torch.tensor([[9, 9, 4, 5], [9, 9, 9, 9], [1, 2, 9, 9]])
    both = combine_masks(causal_mask(4), padding_mask(tokens, 9))  # (3, 1, 4, 4)
    empty, eye = ~both.any(dim=-1, keepdim=True), torch.eye(4, dtype=torch.bool)
    right = both | empty & eye
    given = answer(tokens, 9)
    if not isinstance(given, torch.Tensor) or given.dtype != torch.bool:
        return f"expected a boolean tensor, got {getattr(given, 'dtype', type(given).__name__)}"
    return diagnose(
        given,
        right,
        {
            "your empty rows are still empty": both,
            "you opened the diagonal for every query; only those "
            "with nothing to attend to need it": both | eye,
            "your empty rows may attend to everything, the future and the padding included": (
                both | empty
            ),
            "your empty rows may attend to the padding before them; the "
            "exercise allows each itself only": both | empty & causal_mask(4),
            "your mask is the wrong way round; True means may attend": ~right,
            "you compared with 0; use the argument pad": combine_masks(
                causal_mask(4), padding_mask(tokens, 0)
            ),
        },
    )


@exercise(
    "mask_patterns.6",
    "Equal scores may all be set to 0. What is e to the score, for an "
    "allowed key and for a forbidden one?",
    "The share is n times e^-c, divided by the sum over all keys, m + n times e^-c",
    "For c = 1e9, e^-c is 0 as a float, and with m = 0 the fraction is 0/0. A softmax "
    "subtracts the largest score first: let torch take it",
)
def judge_mask_patterns_6(answer):
    "Judge the share of weight that a finite mask lets through."
    low, high = math.exp(-1.5), math.exp(1.5)
    mistakes = {
        "not divided by the sum over all keys": 2 * low,
        "that is the share of one forbidden key; there are n of them": low / (3 + 2 * low),
        "that is the share without a mask; -c is missing": 2 / 5,
        "you added c to the forbidden scores; the mask subtracts it": 2 * high / (3 + 2 * high),
        "that is the share of the allowed keys": 3 / (3 + 2 * low),
        "in the sum over all keys the forbidden scores are lowered too": 2 * low / 5,
        "that is forbidden against allowed; the share is forbidden against all": 2 * low / 3,
        "m and n are swapped": 3 * low / (2 + 3 * low),
    }
    problem = diagnose(answer(3, 2, 1.5), 2 * low / (3 + 2 * low), mistakes)
    for args, share in (((0, 4, 1.0), 1.0), ((3, 2, 1e9), 0.0), ((0, 4, 1e9), 1.0)):
        if problem is not None:
            break
        try:
            given = float(answer(*args))
        except ArithmeticError as error:
            given = type(error).__name__
        if given != share and not (isinstance(given, float) and abs(given - share) < 1e-5):
            problem = (
                f"right for m = 3, n = 2, c = 1.5, but for {args} expected {share:g}, got {given}"
            )
    return problem
