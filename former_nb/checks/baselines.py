"""Judges of the exercises on the page 09_baselines, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, exercise


@exercise(
    "baselines.1",
    "Write down the vector that the head reads: a sum over something, divided by something.",
    "A sum does not know the order of its parts. What happens to sum and "
    "count when every word comes twice?",
    "Pads are in neither sum nor count.",
)
def judge_baselines_1(answer):
    "Four booleans."
    return diagnose(
        answer,
        [True, True, False, True],
        {
            "that would be a sum in place of a mean: every word twice leaves a mean as it is": [
                True,
                False,
                False,
                False,
            ],
            "that would be true of a model with positions": [False, False, False, True],
        },
        places=(
            "a mean does not know the order of its parts, and without pairs nothing else does",
            "every word twice doubles the sum and the count: the mean stays",
            "one word twice gives it a larger share of the mean",
            "pads have no part in the mean, however many",
        ),
    )


def _log_ratio(counts, good, alpha):
    "The right answer."
    p, q = counts[good].double().sum(0) + alpha, counts[~good].double().sum(0) + alpha  # (V,)
    return (p / p.sum()).log() - (q / q.sum()).log()


@exercise(
    "baselines.2",
    "For each label: how many of its texts have each word, and `alpha` "
    "more. That is one number per word.",
    "Divide each of the two by its sum over the words, so that they are comparable.",
    "`(p / p.sum()).log() - (q / q.sum()).log()`.",
)
def judge_baselines_2(answer):
    "The log-ratios of NB-SVM, for two values of alpha."
    g = torch.Generator().manual_seed(1)
    counts, good = torch.rand(9, 5, generator=g) < 0.4, torch.arange(9) < 3
    for alpha in (1.0, 0.25):
        p, q = counts[good].double().sum(0), counts[~good].double().sum(0)
        right, bare = _log_ratio(counts, good, alpha), ((p + alpha) / (q + alpha)).log()
        problem = diagnose(
            answer(counts.clone(), good.clone(), alpha),
            right,
            {
                "that is bad against good: the good ones stand above": -right,
                "`alpha` is not used; with one it would be right": _log_ratio(counts, good, 1.0),
                "the two are not divided by their sums over the words: there "
                "are more bad texts than good ones": bare,
                "that is the difference of the shares: take their logarithms first": (
                    (p + alpha) / (p + alpha).sum() - (q + alpha) / (q + alpha).sum()
                ),
                "each is divided by the number of its texts, not by its sum over the words": (
                    ((p + alpha) / good.sum()).log() - ((q + alpha) / (~good).sum()).log()
                ),
                "the logarithm is missing": right.exp(),
                "`alpha` is added after the division by the sum; a count gets it": (
                    (p / p.sum() + alpha).log() - (q / q.sum() + alpha).log()
                ),
                "the sum gets `alpha` once for each word, as the counts do": (
                    ((p + alpha) / (p.sum() + alpha)).log()
                    - ((q + alpha) / (q.sum() + alpha)).log()
                ),
                "the sums were taken before `alpha` was added, so the shares do not sum to one": (
                    ((p + alpha) / p.sum()).log() - ((q + alpha) / q.sum()).log()
                ),
                "without `alpha` a word that one side never has gives an infinite ratio": (
                    (p / p.sum()).log() - (q / q.sum()).log()
                ),
                "the logarithm to base 2: the lesson takes the natural one": (
                    right / torch.tensor(2.0).log()
                ),
            },
        )
        if problem:
            return problem


@exercise(
    "baselines.3",
    "For each text the difference is 1, 0 or −1. The difference of "
    "the accuracies is the mean of these.",
    "The standard error of a mean is the standard deviation of its parts, divided by √N.",
    "With b and c the shares of texts that only the first and only the second "
    "has right: √((b + c − (b − c)²) / N).",
)
def judge_baselines_3(answer):
    "A function of who is right where."
    g = torch.Generator().manual_seed(0)
    for N in (2000, 5000):  # where N − 1 is as good as N
        hard = torch.rand(N, generator=g)
        first, second = (hard + 0.3 * torch.rand(N, generator=g) < 0.95 for _ in range(2))
        second &= torch.rand(N, generator=g) < 0.9
        d = first.double() - second.double()
        a, b = first.double().mean(), second.double().mean()
        right = (d.square().mean() - d.mean() ** 2).div(N).sqrt()
        problem = diagnose(
            answer(first.clone(), second.clone()),
            right,
            {
                "that holds for two models scored on different texts; here most "
                "texts are right or wrong for both": (a * (1 - a) / N + b * (1 - b) / N).sqrt(),
                "that is the standard deviation of one text's difference: divide by √N": d.std(
                    unbiased=False
                ),
                "that is the standard deviation of one text's difference: divide it by √N": d.std(),
                "that is the variance of one text's difference: "
                "divide by N, then take the root": d.var(unbiased=False),
                "that is the error of how often they disagree; a text that "
                "only the second has right counts −1": d.abs().std(unbiased=False) / N**0.5,
                "the two errors are added: that bounds the difference's error, but "
                "most texts are right or wrong for both": (
                    ((a * (1 - a)).sqrt() + (b * (1 - b)).sqrt()) / N**0.5
                ),
                "divide by √N, not by N": d.std(unbiased=False) / N,
                "that is the variance: take the root": right.square(),
                "that is the difference of the accuracies, not its error": d.mean(),
                "that is the error of the first accuracy alone": (a * (1 - a) / N).sqrt(),
                "that is the error of the second accuracy alone": (b * (1 - b) / N).sqrt(),
                "nearly: the mean difference is not taken off before squaring": d.square()
                .mean()
                .div(N)
                .sqrt(),
            },
        )
        if problem:
            return problem
