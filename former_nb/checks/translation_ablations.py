"""Judges of the exercises on the page 08_claims, and the mistakes that they know."""

import math
import random

import numpy as np
import torch

from ..base.exercises import diagnose, exercise
from ..inspection.translation import bleu_counts, bleu_from_counts


@exercise(
    "translation_ablations.1",
    "Two kinds of luck that know nothing of each other: their variances "
    "add up, not their standard errors.",
    "The mean of k seeds has the variance 0.6² / k; the sentences 0.4², whatever k is, "
    "and less only where there are more sentences.",
    "(a) √(0.6²/4 + 0.4²), (b) √(0.6²/400 + 0.4²), (c) √(0.6²/4 + "
    "0.4²/100), (d) √(0.6²/16 + 0.4²/4).",
)
def judge_translation_ablations_1(answer):
    "Four numbers."
    tries = [(4, 1), (400, 1), (4, 100), (16, 4)]  # seeds, times as many sentences
    near = lambda numbers: torch.tensor([round(float(x), 2) for x in numbers])
    of = lambda rule: near(rule(0.6, k, 0.4, n) for k, n in tries)
    return diagnose(
        near(answer) if hasattr(answer, "__len__") else answer,
        of(lambda a, k, b, n: math.sqrt(a**2 / k + b**2 / n)),
        {
            "standard errors do not add up; their squares do": of(
                lambda a, k, b, n: a / math.sqrt(k) + b / math.sqrt(n)
            ),
            "those are variances: the root is missing": of(lambda a, k, b, n: a**2 / k + b**2 / n),
            "more seeds do not make the sentences more: they are the "
            "same for all, and their luck stays": of(
                lambda a, k, b, n: math.sqrt(a**2 / k + b**2 / n / k)
            ),
            "more sentences do not help against the luck of the seeds": of(
                lambda a, k, b, n: math.sqrt(a**2 / k / n + b**2 / n)
            ),
            "each kind of luck has its own remedy: seeds do not help against that of the "
            "sentences, nor sentences against that of the seeds": of(
                lambda a, k, b, n: math.sqrt((a**2 + b**2) / k / n)
            ),
            "a mean of k has the standard error s/√k, not s/k": of(
                lambda a, k, b, n: math.sqrt((a / k) ** 2 + (b / n) ** 2)
            ),
            "0.6 is the spread of single seeds; that of their mean is smaller": of(
                lambda a, k, b, n: math.sqrt(a**2 + b**2 / n)
            ),
            "the luck of the sentences is left out": of(lambda a, k, b, n: a / math.sqrt(k)),
            "the larger of the two is not both": of(
                lambda a, k, b, n: max(a / math.sqrt(k), b / math.sqrt(n))
            ),
        },
    )


def _two_systems(n, seed=0):
    "Counts (2, n, 10) of two systems that lose words, the second fewer."
    rng, words = random.Random(seed), "a man Two dogs run in the park .".split()
    right = [rng.choices(words, k=rng.randint(4, 12)) for _ in range(n)]
    return np.array(
        [
            [bleu_counts([word for word in text if rng.random() > share], text) for text in right]
            for share in (0.2, 0.15)
        ]
    )


@exercise(
    "translation_ablations.2",
    "BLEU is computed from the summed counts of all sentences: for each sample "
    "there are two such sums, one for each system.",
    "`np.where(swap[:, :, None], counts[1], counts[0])` is what the first system has after "
    "the exchange, (n, N, 10). The second has the rest.",
    "With booleans as numbers: `swap @ counts[1] + ~swap @ counts[0]` are the sums of the "
    "first, (n, 10); `swap @ counts[0] + ~swap @ counts[1]` of the second.",
)
def judge_translation_ablations_2(answer):
    "A function of counts and booleans."
    counts = _two_systems(9)
    swap = np.random.default_rng(0).random((8, 9)) < 0.5
    swap[0] = False
    a, b = (
        np.where(swap[:, :, None], counts[1], counts[0]),
        np.where(swap[:, :, None], counts[0], counts[1]),
    )  # (n, N, 10)
    score = lambda sums: torch.tensor(bleu_from_counts(sums))
    right = score(b.sum(1)) - score(a.sum(1))
    return diagnose(
        np.asarray(answer(counts.copy(), swap.copy()), dtype=float),
        right,
        {
            "second less first, and exchanged where `swap` is True: one "
            "of the two is the other way round": -right,
            "the mean over sentences was taken; BLEU adds up the counts first": (
                score(b) - score(a)
            ).mean(1),
            "only the first system changes: what it gives away must go to the second": (
                score(counts[1].sum(0)) - score(a.sum(1))
            ),
            "only the second system changes: what it gives away must go to the first": (
                score(b.sum(1)) - score(counts[0].sum(0))
            ),
            "the difference has a sign: how often it is large in either "
            "direction is counted afterwards": right.abs(),
            "nothing is exchanged: all samples give the measured difference": (
                score(counts[1].sum(0)) - score(counts[0].sum(0))
            ).expand(8),
            "that is one number: each sample has a difference of its own": right.mean(),
            "the sentences that are not exchanged are left out; they stay where they were": (
                score(swap @ counts[0]) - score(swap @ counts[1])
            ),
        },
    )


def _student(p, df):
    "The number that Student's t with `df` degrees of freedom is below with probability p > 0.5."
    x = np.linspace(0, 100, 20_001)
    density = (
        (1 + x**2 / df) ** (-(df + 1) / 2)
        * math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2))
        / math.sqrt(df * math.pi)
    )
    below = 0.5 + np.cumsum((density[1:] + density[:-1]) / 2) * 0.005
    return float(np.interp(p, below, x[1:]))


def _seeds(difference, spread, factor=lambda k: _student(0.975, k - 1), root=math.sqrt, least=2):
    "The least k with which the factor times the standard error is below the difference."
    return next(k for k in range(least, 1000) if factor(k) * spread / root(k) < difference)


@exercise(
    "translation_ablations.3",
    "Half the width with k seeds is t · spread / √k, where t is the factor for k − 1 degrees "
    "of freedom. It falls twice: t gets smaller, √k larger.",
    "There is no formula that can be solved for k, since t depends on k: try 2, 3, 4, …",
    "`next(k for k in range(2, 10_000) if scipy.stats.t.ppf(0.975, k - "
    "1) * spread / k**0.5 < difference)`.",
)
def judge_translation_ablations_3(answer):
    "A function of two numbers of points."
    tries = [(1.0, 0.5), (0.5, 0.6), (0.4, 0.9), (2.0, 0.3)]
    of = lambda *rule, **how: torch.tensor(
        [_seeds(*points, *rule, **how) for points in tries]
    ).double()
    right = of()
    return diagnose(
        [float(answer(*points)) for points in tries],
        right,
        {
            "1.96 is the factor where the spread is known; it is guessed from "
            "the same k seeds, and t pays for that": of(lambda k: 1.959964),
            "1.96 squared times the variance, rounded up, takes the spread for known; t "
            "with k − 1 degrees of freedom is larger": torch.tensor(
                [math.ceil((1.959964 * s / d) ** 2) for d, s in tries]
            ).double(),
            "k differences leave k − 1 degrees of freedom: one is spent on their mean": of(
                lambda k: _student(0.975, k)
            ),
            "the interval has two ends: of the 5 % outside, half lies beyond "
            "each, so the factor is that of 0.975": of(lambda k: _student(0.95, k - 1)),
            "the standard error of a mean falls with √k, not with k": of(root=lambda k: k),
            "the whole width was taken; *half* of it should be below the difference": torch.tensor(
                [_seeds(d / 2, s) for d, s in tries]
            ).double(),
            "that many are one too few: the width is not yet below": right - 1,
            "that many are one more than needed": right + 1,
            "the first number is the difference, the second the spread": torch.tensor(
                [_seeds(s, d) for d, s in tries]
            ).double(),
        },
    )
