"""Judges of the exercises on the page 16_interpretability, and the mistakes that they know."""

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment

from ..base.exercises import diagnose, diagnose_formula, exercise


@exercise(
    "attention_maps.1",
    "A head is off if its output is zero. What does the softmax make of zeros?",
    "Equal scores give even weights, whatever their size.",
    "Zero values, zero weights and zero columns of W_o give zero. Zero queries and scores give "
    "the mean of the values.",
)
def judge_attention_maps_1(answer):
    "Five booleans."
    return diagnose(
        answer,
        [True, True, False, False, True],
        places=(
            "(a): whatever the head gives is multiplied by zeros",
            "(b): a mean of zero values is zero",
            "(c): zero queries give zero scores, and the softmax makes even weights of them",
            "(d): the softmax makes even weights of zero scores",
            "(e): a sum of values with weights zero is zero",
        ),
    )


def _losses(table):
    "A loss that is known for each set of heads."
    return lambda heads: table[frozenset(heads)]


@exercise(
    "attention_maps.2",
    "An effect is a loss without something less the loss with everything, `loss([])`.",
    "The effect of both, less the effect of a, less the effect of b. How often is `loss([])` "
    "left in the sum?",
    "`loss([a, b]) - loss([a]) - loss([b]) + loss([])`.",
)
def judge_attention_maps_2(answer):
    "A function of a loss and two heads."
    a, b = ("self", 1, 2), ("self", 2, 1)
    for whole, one, other, both in ((0.5, 0.75, 0.6, 2.0), (1.0, 1.2, 1.7, 1.4)):
        sets = ((), (a,), (b,), (a, b))
        loss = _losses({frozenset(s): x for s, x in zip(sets, (whole, one, other, both))})
        problem = diagnose(
            answer(loss, a, b),
            both - one - other + whole,
            {
                "those are losses, not effects: `loss([])` is still in them": both - one - other,
                "that is the effect of both together": both - whole,
                "the effects are taken from `loss([])`, so the sign is turned round": (
                    one + other - both - whole
                ),
                "each effect takes away `loss([])` once, so it is added once, not taken": (
                    both - one - other - whole
                ),
                "both effects are taken from the loss, not from the effect of both": (
                    both - one - other + 2 * whole
                ),
            },
        )
        if problem:
            return problem


@exercise(
    "attention_maps.3",
    "Entropy is the sum of −p log₂ p over all keys. How many keys have which weight?",
    "Each of the n others has the weight (1 − a)/n, and together they count n times.",
    "−a log₂ a − (1 − a) log₂((1 − a)/n).",
)
def judge_attention_maps_3(answer):
    "A function of a weight and a number."
    right = "-a * log2(a) - (1 - a) * log2((1 - a) / n)"
    return diagnose_formula(
        answer,
        "a, n",
        [(0.5, 8), (0.9, 3)],
        right,
        {
            f"({right}) * log(2)": "those are nats; a bit is the logarithm to base 2",
            "-a * log2(a) - (1 - a) / n * log2((1 - a) / n)": "that counts one of the n others",
            "-a * log2(a) - (1 - a) * log2(1 - a)": "that is the entropy of two keys; the rest is "
            "spread over n",
            "-(1 - a) * log2((1 - a) / n)": "the rest alone; the first key counts too",
            f"-({right})": "entropy is positive: a logarithm of a weight is not",
            "log2(n + 1)": "all n + 1 keys alike have that",
        },
    )


@exercise(
    "attention_maps.4",
    "Follow where a word can go. The target never enters the encoder. The source "
    "enters the decoder by cross-attention only.",
    "In a decoder's layer its own attention comes first, cross-attention second. What has "
    "layer 1 seen of the source, when its own attention is computed?",
    "Weights are made of queries and keys. Those of layer 2 are made of what layer 1 gave out.",
)
def judge_attention_maps_4(answer):
    "Five booleans."
    return diagnose(
        answer,
        [False, False, True, False, True],
        places=(
            "(a): the encoder reads the source and nothing else",
            "(b): the decoder's own attention is causal, so earlier "
            "rows have not seen the last word",
            "(c): the encoder has no causal mask, so its first word looks at the last, too",
            "(d): in layer 1 the decoder's own attention comes before "
            "cross-attention, and has seen nothing of the source",
            "(e): what layer 2 attends to has been through the "
            "cross-attention of layer 1, and holds the source",
        ),
    )


def _in_turn(weights, order):
    "For one row after another, in some order, the best place that is left."
    places, left = torch.zeros(len(weights), dtype=torch.long), weights.clone()
    for row in order:
        places[row] = left[row].argmax()
        left[:, places[row]] = -1
    return places


def _largest_first(weights):
    "The largest weight that is left fixes its row and its place."
    places, left = torch.zeros(len(weights), dtype=torch.long), weights.clone()
    for _ in range(len(weights)):
        row, place = divmod(left.argmax().item(), left.shape[1])
        places[row] = place
        left[row], left[:, place] = -1, -1
    return places


@exercise(
    "attention_maps.5",
    "Whoever chooses first takes the place that another needs more. "
    "What counts is the sum over all rows.",
    "`scipy.optimize.linear_sum_assignment(weights, maximize=True)` gives "
    "rows and columns of the best assignment.",
    "`rows, places = linear_sum_assignment(weights.numpy(), maximize=True)`; with T ≤ S the "
    "rows come in order, and the places are the answer.",
)
def judge_attention_maps_5(answer):
    "A function of weights."
    for seed, shape in ((5, (6, 7)), (11, (5, 9))):
        weights = (
            1.5 * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
        ).softmax(-1)
        best = lambda maximize: torch.tensor(
            linear_sum_assignment(weights.numpy(), maximize=maximize)[1]
        )
        given = answer(weights.clone())
        problem = diagnose(
            torch.as_tensor(given) if isinstance(given, (list, tuple, np.ndarray)) else given,
            best(True),
            {
                "each row has its best place there, and some place is used twice": weights.argmax(
                    -1
                ),
                "the first rows choose first there; another choice has a larger sum": _in_turn(
                    weights, range(len(weights))
                ),
                "the last rows choose first there; another choice has a larger sum": _in_turn(
                    weights, reversed(range(len(weights)))
                ),
                "the largest weight is taken first there, and others pay for "
                "it; another choice has a larger sum": _largest_first(weights),
                "that has the *smallest* sum: `linear_sum_assignment` asks for "
                "costs, unless told `maximize=True`": best(False),
                "that asks for each source token which row looks "
                "at it most; the other axis": weights.argmax(0),
                "those are rows and places; the places alone are the answer": torch.stack(
                    [torch.arange(len(weights)), best(True)]
                ),
                "those are weights; asked for are places": weights.gather(1, best(True)[:, None])[
                    :, 0
                ],
            },
        )
        if problem:
            return problem


@exercise(
    "attention_maps.6",
    "In the encoder each row sees S places: the same one has 1/S. And the "
    "one before? The first row has none.",
    "In the decoder row i, counted from 1, sees i places, so each has 1/i. The "
    "mean over the rows of 1, 1/2, 1/3, …, 1/T?",
    "1/S, (S − 1)/S², H/T and (H − 1)/T, with H = 1 + 1/2 + … + 1/T.",
)
def judge_attention_maps_6(answer):
    "A function of two lengths."
    for S, T in ((5, 8), (12, 3)):
        K, H = (sum(1 / i for i in range(1, n + 1)) for n in (S, T))
        same, before = 1 / S, (S - 1) / S**2
        problem = diagnose(
            [float(x) for x in answer(S, T)],
            [same, before, H / T, (H - 1) / T],
            {
                "the decoder's rows do not see all T places: row i sees i": [
                    same,
                    before,
                    1 / T,
                    (T - 1) / T**2,
                ],
                "the first row of the encoder has no place before it": [
                    same,
                    same,
                    H / T,
                    (H - 1) / T,
                ],
                "the first row of the decoder has no place before it": [same, before, H / T, H / T],
                "the first row, of the encoder and of the decoder, has no place before it": [
                    same,
                    same,
                    H / T,
                    H / T,
                ],
                "the mean of 1/i is not 1 by the mean of i": [
                    same,
                    before,
                    2 / (T + 1),
                    2 * (T - 1) / T / (T + 1),
                ],
                "those are sums over the rows; asked for is their mean": [1, (S - 1) / S, H, H - 1],
                "the mean is over all rows, also over the first, which has nothing before it": [
                    same,
                    same,
                    H / T,
                    (H - 1) / (T - 1),
                ],
                "the same place first, then the one before": [before, same, (H - 1) / T, H / T],
                "the encoder first, then the decoder": [H / T, (H - 1) / T, same, before],
                "the encoder has no causal mask: each row sees all S places": [
                    K / S,
                    (K - 1) / S,
                    H / T,
                    (H - 1) / T,
                ],
            },
        )
        if problem:
            return problem
