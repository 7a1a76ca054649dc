"What everybody repeats: choices of a translator, and two kinds of luck."

import math
import random

import numpy as np
import torch
from scipy import stats

from ..grading.ask import Call, exercise, question
from ..inspection.translation import bleu_counts, bleu_from_counts

# ---------------------------------------------------------------- exercises


@exercise(
    "translation_ablations.1",
    parts=(
        "(a) is wrong; the squares of both standard errors add up, that of the seeds divided by 4",
        "(b) is wrong; what do 400 seeds leave of their own luck, and what of the sentences'?",
        "(c) is wrong; a hundred times as many sentences leave a tenth of their luck, and that of the seeds stays",
        "(d) is wrong; 16 seeds leave a quarter of their luck, four times as many sentences half of theirs",
    ),
    near=0.01,  # two digits
)
def errors_of_both_kinds_of_luck():
    # ? Two kinds of luck that know nothing of each other: their variances add up, not their
    # ? standard errors.
    # ? The mean of k seeds has the variance 0.6² / k; the sentences 0.4², whatever k is, and less
    # ? only where there are more sentences.
    # ? (a) √(0.6²/4 + 0.4²), (b) √(0.6²/400 + 0.4²), (c) √(0.6²/4 + 0.4²/100), (d) √(0.6²/16 +
    # ? 0.4²/4).
    more = [(4, 1), (400, 1), (4, 100), (16, 4)]  # seeds, times as many sentences
    return [math.sqrt(0.6**2 / k + 0.4**2 / n) for k, n in more]
    #! standard errors do not add up; their squares do
    # ~ return [0.6 / math.sqrt(k) + 0.4 / math.sqrt(n) for k, n in more]
    #! those are variances: the root is missing
    # ~ return [0.6**2 / k + 0.4**2 / n for k, n in more]
    #! more seeds do not make the sentences more: they are the same for all, and their luck stays
    # ~ return [math.sqrt(0.6**2 / k + 0.4**2 / n / k) for k, n in more]
    #! more sentences do not help against the luck of the seeds
    # ~ return [math.sqrt(0.6**2 / k / n + 0.4**2 / n) for k, n in more]
    #! each kind of luck has its own remedy: seeds do not help against that of the sentences, nor
    #! sentences against that of the seeds
    # ~ return [math.sqrt((0.6**2 + 0.4**2) / k / n) for k, n in more]
    #! a mean of k has the standard error s/√k, not s/k
    # ~ return [math.sqrt((0.6 / k) ** 2 + (0.4 / n) ** 2) for k, n in more]
    #! 0.6 is the spread of single seeds; that of their mean is smaller
    # ~ return [math.sqrt(0.6**2 + 0.4**2 / n) for k, n in more]
    #! the luck of the sentences is left out
    # ~ return [0.6 / math.sqrt(k) for k, n in more]
    #! the larger of the two is not both
    # ~ return [max(0.6 / math.sqrt(k), 0.4 / math.sqrt(n)) for k, n in more]


@exercise("translation_ablations.2")
def exchanged(counts, swap):
    # ? BLEU is computed from the summed counts of all sentences: for each sample there are two such
    # ? sums, one for each system.
    # ? `np.where(swap[:, :, None], counts[1], counts[0])` is what the first system has after the
    # ? exchange, (n, N, 10). The second has the rest.
    # ? With booleans as numbers: `swap @ counts[1] + ~swap @ counts[0]` are the sums of the first,
    # ? (n, 10); `swap @ counts[0] + ~swap @ counts[1]` of the second.
    first = swap @ counts[1] + ~swap @ counts[0]  # (n, 10)
    #! only the second system changes: what it gives away must go to the first
    # ~ first = counts[0].sum(0)
    #! nothing is exchanged: all samples give the measured difference
    # ~ first = counts[0].sum(0) + 0 * (swap @ counts[0])
    # ~ second = swap @ counts[0] + ~swap @ counts[1] -> second = counts[1].sum(0)
    #! second less first, and exchanged where `swap` is True: one of the two is the other way round
    # ~ first = swap @ counts[0] + ~swap @ counts[1]
    # ~ second = swap @ counts[0] + ~swap @ counts[1] -> second = swap @ counts[1] + ~swap @ counts[0]
    #! the sentences that are not exchanged are left out; they stay where they were
    # ~ first = swap @ counts[1]
    # ~ second = swap @ counts[0] + ~swap @ counts[1] -> second = swap @ counts[0]
    second = swap @ counts[0] + ~swap @ counts[1]  # (n, 10)
    #! only the first system changes: what it gives away must go to the second
    # ~ second = counts[1].sum(0)
    return bleu_from_counts(second) - bleu_from_counts(first)
    #! the mean over sentences was taken; BLEU adds up the counts first
    # ~ a = bleu_from_counts(np.where(swap[:, :, None], counts[1], counts[0]))
    # | b = bleu_from_counts(np.where(swap[:, :, None], counts[0], counts[1]))
    # | return (b - a).mean(1)
    #! the difference has a sign: how often it is large in either direction is counted afterwards
    # ~ return abs(bleu_from_counts(second) - bleu_from_counts(first))
    #! that is one number: each sample has a difference of its own
    # ~ return (bleu_from_counts(second) - bleu_from_counts(first)).mean()


@exercise("translation_ablations.3")
def seeds_needed(difference, spread):
    # ? Half the width with k seeds is t · spread / √k, where t is the factor for k − 1 degrees of
    # ? freedom. It falls twice: t gets smaller, √k larger.
    # ? There is no formula that can be solved for k, since t depends on k: try 2, 3, 4 and so on.
    # ? `next(k for k in range(2, 10_000) if scipy.stats.t.ppf(0.975, k - 1) * spread / k**0.5 <
    # ? difference)`.
    for k in range(2, 10_000):
        factor = stats.t.ppf(0.975, k - 1)
        #! 1.96 is the factor where the spread is known; it is guessed from the same k seeds, and t
        #! pays for that
        # ~ factor = stats.norm.ppf(0.975)
        #! 1.96 squared times the variance, rounded up, takes the spread for known; t with k − 1
        #! degrees of freedom is larger
        # ~ return math.ceil((1.96 * spread / difference) ** 2)
        #! k differences leave k − 1 degrees of freedom: one is spent on their mean
        # ~ factor = stats.t.ppf(0.975, k)
        #! the interval has two ends: of the 5 % outside, half lies beyond each, so the factor is
        #! that of 0.975
        # ~ factor = stats.t.ppf(0.95, k - 1)
        if factor * spread / k**0.5 < difference:
            #! the standard error of a mean falls with √k, not with k
            # ~ if factor * spread / k < difference:
            #! the whole width was taken; *half* of it should be below the difference
            # ~ if 2 * factor * spread / k**0.5 < difference:
            #! the first number is the difference, the second the spread
            # ~ if factor * difference / k**0.5 < spread:
            return k
            #! that many are one too few: the width is not yet below
            # ~ return k - 1
            #! that many are one more than needed
            # ~ return k + 1


# ---------------------------------------------------------------- questions


def two_systems(draw, n):
    "Counts (2, n, 10) of two systems that lose words, the second fewer."
    chance = random.Random(draw.size(0, 10**6))
    words = "a man Two dogs run in the park .".split()
    right = [chance.choices(words, k=chance.randint(4, 12)) for _ in range(n)]
    lose = lambda text, share: [word for word in text if chance.random() > share]  # noqa: E731
    return np.array(
        [[bleu_counts(lose(text, share), text) for text in right] for share in (0.2, 0.15)]
    )


def after(answer, args, result):
    "Arrays are compared as tensors."
    return {"`counts` after the call": torch.tensor(args[0])}


@question("translation_ablations", "translation_ablations.2")
def ask_exchanged(draw):
    for n, N in [(8, 9), (1, 5), (20, 12), (5, 30), (4, 1)]:
        counts, swap = two_systems(draw, N), draw.mask(n, N).numpy()
        yield Call(f"n = {n}, N = {N}", (counts, swap), look=after)
    for what, swap in [("nothing", np.zeros((3, 30), bool)), ("all", np.ones((3, 30), bool))]:
        yield Call(f"{what} is exchanged", (two_systems(draw, 30), swap), look=after)


@question("translation_ablations", "translation_ablations.3")
def ask_seeds_needed(draw):
    cases = [(1.0, 0.5), (0.5, 0.6), (0.4, 0.9), (2.0, 0.3), (9.0, 0.3), (1.0, 0.9), (0.1, 0.7)]
    cases += [(draw.size(2, 20) / 10, draw.size(2, 20) / 10) for _ in draw.rounds]
    for difference, spread in cases:
        yield Call(f"difference {difference}, spread {spread}", (difference, spread))
