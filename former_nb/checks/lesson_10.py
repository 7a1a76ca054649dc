"""Judges of the exercises on the page 10_generator, and the mistakes that they know."""

from math import log

import torch
import torch.nn.functional as F

from ..base.exercises import diagnose, exercise, explain_error
from ..data.text import IGNORE


@exercise(
    "10.1",
    "The probability of a name is a product over its positions; what is its logarithm?",
    "`F.cross_entropy(..., reduction='none')` gives one number per target, and 0 where the "
    "target is IGNORE.",
)
def judge_10_1(answer):
    generator = torch.Generator().manual_seed(0)
    B, T, V = 3, 5, 7
    logits, targets = (
        torch.randn(B, T, V, generator=generator),
        torch.randint(1, V, (B, T), generator=generator),
    )
    for row, length in enumerate((5, 2, 3)):
        targets[row, length:] = IGNORE
    real, known = targets != IGNORE, targets.clamp(min=0)  # (B, T)
    each = -logits.log_softmax(-1).gather(-1, known[..., None])[..., 0]  # (B, T)
    right = (each * real).sum(-1)
    over_time = -logits.log_softmax(1).gather(-1, known[..., None])[..., 0]  # (B, T)
    raw = -logits.gather(-1, known[..., None])[..., 0]  # (B, T)
    once = logits.softmax(-1)
    again = -once.log_softmax(-1).gather(-1, known[..., None])[..., 0]
    given_p = once.gather(-1, known[..., None])[..., 0] * real
    try:
        given = answer(logits, targets)
    except (RuntimeError, IndexError) as error:
        return explain_error(
            error,
            {
                "for dimension 0": "`logits[targets]` picks rows of the batch; `gather` along the "
                "last axis picks the target's logit at each position",
                "index -100": "IGNORE, -100, is no token; clamp the targets and leave their places "
                "out of the sum, or let `F.cross_entropy` do it",
                "Expected target size": "`F.cross_entropy` looks for the classes on axis 1; give "
                "it `logits.mT`, (B, V, T)",
                "same number of dimensions": "`gather` wants an index of three axes, "
                "`targets[..., None]`",
            },
        )
    if isinstance(given, torch.Tensor) and given.shape == (B * T,):
        return "one number for each position came back; make it (B, T) again and sum over T"
    return diagnose(
        given,
        right,
        {
            "you took the mean of each name; a product of probabilities becomes a sum": (
                right / real.sum(-1)
            ),
            "you divided by T, pads included; the positions of a name are added up": right / T,
            "pads are counted; IGNORE marks them": each.sum(-1),
            "the softmax runs over time; the tokens are the last axis": (over_time * real).sum(-1),
            "that is the cost of the likeliest tokens; take that of the targets": (
                -logits.log_softmax(-1).amax(-1) * real
            ).sum(-1),
            "the sign is wrong: nats are -ln P, and positive": -right,
            "the softmax is missing: logits are no logarithms of probabilities yet": (
                raw * real
            ).sum(-1),
            "you summed over the names; keep the batch axis and sum over the positions": (
                each * real
            ).sum(0),
            "one number for the whole batch; each name needs its own": right.sum(),
            "that is the mean over the batch; each name needs its own number, the sum over "
            "its positions": right.sum() / real.sum(),
            "that is P; the surprise is -ln P": (-right).exp(),
            "those are bits; nats are natural logarithms": right / log(2),
            "the sum over the positions is missing": each * real,
            "the softmax is taken twice; `cross_entropy` and `log_softmax` take logits": (
                again * real
            ).sum(-1),
            "that is the perplexity of each name; the nats are asked for": (
                right / real.sum(-1)
            ).exp(),
            "those are probabilities, added; add their logarithms, with a minus": given_p.sum(-1),
            "those are probabilities, added, with a minus; add their logarithms": -given_p.sum(-1),
            "the logarithm comes before the sum; probabilities of a row multiply": (
                -given_p.sum(-1).log()
            ),
            "those are logarithms to base 10; nats are natural logarithms": right / log(10),
            "that is the mean of the names; each name needs its own number": right.mean(),
        },
    )


@exercise(
    "10.2",
    "Which of the eight targets can be known from what comes before them?",
    "The first of a pair costs ln 10, the second nothing. The loss is a mean.",
)
def judge_10_2(answer):
    right = log(10) / 2
    surprise = lambda again: (
        -again * log(again) - (1 - again) * log((1 - again) / 9)
    )  # the same letter, or one of nine others
    mistakes = {
        "no letter helps to predict another, but the second of a pair is known": log(10),
        "the first of each pair is new and cannot be known": 0.0,
        "that is the whole row; the loss is a mean over its eight targets": 4 * log(10),
        "that is in bits; the loss is in nats": right / log(2),
        "`<bos>` is an input and never a target; a row has eight targets": 4 * log(10) / 9,
        "the first letter follows `<bos>` and counts, so four targets of eight are new": (
            3 * log(10) / 8
        ),
        "the first letter is a target too, so there are eight of them": 3 * log(10) / 7,
        "that is the best that a counter of pairs can do; a model that reads the whole "
        "beginning knows which of a pair comes next": (log(10) + 7 * surprise(43 / 70)) / 8,
        "it comes again half of the time, but the position tells a model when": surprise(0.55),
        "a letter of ten costs ln 10, which is not divided by ten again": log(10) / 10,
        "the second of a pair is known; it isn't one of the nine others": (log(10) + log(9)) / 2,
        "that is a logarithm to base 10; nats are natural logarithms": 0.5,
        "that is 1 divided by the letters; a letter of ten costs ln 10": 0.1,
        "a letter comes twice, but there are ten letters, not twenty": log(20),
        "there are ten letters, not twenty, and the second of a pair is known": log(20) / 2,
        "`<bos>` is never drawn; a new letter is one of ten": log(11) / 2,
        "a row has no end, so four of its eight targets are new, not five of nine": 5 * log(10) / 9,
        "all eight targets are added; half of them are known, and the loss is a mean": 8 * log(10),
        "half of the targets are new, not a quarter": log(10) / 4,
        "a model knows from the position whether a letter comes again; a new one costs ln 10": log(
            2
        ),
        "a pair costs ln 10 once, for its first letter; the second is known": 2 * log(10),
        "four targets are new, the first letter of each pair; the end is no target": (
            5 * log(10) / 8
        ),
        "only the second of a pair is known, and that of all four pairs": 7 * log(10) / 8,
        "that is in bits, and the second of a pair is known": log(10) / log(2),
        "that is the perplexity; the loss is its logarithm": 10**0.5,
    }
    if isinstance(answer, (int, float)):  # two decimals are enough
        answer = next(
            (known for known in (right, *mistakes.values()) if abs(answer - known) < 0.005), answer
        )
    return diagnose(answer, right, mistakes)


@exercise(
    "10.3",
    "Take one row and one token. Its column of logits becomes T shares that sum to one.",
    "If the token is at n positions, each of them gets at best 1/n.",
    "n ln n for each row and token, averaged over B·V.",
)
def judge_10_3(answer):
    targets, V = torch.tensor([[0, 1, 0, 0, 2], [3, 3, 1, 1, 4], [5, 2, 1, 5, 4]]), 7
    B, T = targets.shape
    counts = F.one_hot(targets, V).sum(dim=1).double()  # (B, V)
    each = torch.special.xlogy(counts, counts)  # n ln n
    right = each.sum() / (B * V)
    together = counts.sum(dim=0)
    given = answer(targets, V)
    if bool(torch.as_tensor(given).isnan().any()):
        return "0 · ln 0 is NaN; a token that is nowhere in a row costs 0, as `torch.xlogy` knows"
    shares = counts / T
    hot = F.one_hot(targets, V).double()
    return diagnose(
        given,
        right,
        {
            "those are the rows and tokens one by one; the loss is their mean": each,
            "that is each row's own mean; the loss is the mean over all rows, too": each.mean(
                dim=1
            ),
            "you divided by the tokens that are there; torch divides by all B·V": (
                each.sum() / (counts > 0).sum()
            ),
            "that is in bits; the loss is in nats": right / log(2),
            "that is the entropy of a row's tokens, the least loss of a softmax over the "
            "vocabulary; here it runs over time": (-torch.xlogy(shares, shares)).sum(1).mean(),
            "that is a softmax over T with all logits alike; the best logits share a token's "
            "places": log(T),
            "that is a softmax over the vocabulary with all logits alike; here it runs over "
            "time": log(V),
            "logits may grow without bound; yours are the targets themselves, zeros and ones": (
                F.cross_entropy(hot, hot)
            ),
            "a token that stands twice in one row cannot have two shares of one": 0.0,
            "you averaged over the B·T targets; torch divides "
            "by the B·V rows and tokens": each.sum() / (B * T),
            "you divided by all B·T·V numbers; the class axis, here time, is not averaged "
            "over": each.sum() / (B * T * V),
            "you summed; the loss is a mean over B·V": each.sum(),
            "the mean over the rows is missing": each.sum() / V,
            "the mean over the vocabulary is missing": each.sum() / B,
            "each of the n positions costs ln n, so a token costs n ln n": (
                counts.clamp(min=1).log().sum() / (B * V)
            ),
            "you counted over the whole batch; the "
            "softmax runs within each row": torch.special.xlogy(together, together).sum() / (B * V),
            "that is the start, with all logits zero": T * log(T) / V,
        },
    )
