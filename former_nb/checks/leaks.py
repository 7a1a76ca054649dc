"""Judges of the exercises on the page 04_mask_patterns, and the mistakes that they know."""

import torch

from ..attention.masks import causal_mask
from ..base.exercises import diagnose, diagnose_formula, exercise
from ..inspection.leaks import LeakError, assert_no_leak


@exercise(
    "leaks.1",
    "The pieces have 3, 3 and 1 words. What lies ahead of a word, but in its own piece?",
    "In a piece of n words there are n (n - 1) / 2 pairs of an output and a later word",
)
def judge_leaks_1(answer):
    "Judge the number of forbidden pairs in pieces of three words."
    return diagnose(
        answer,
        12,
        {
            "that is one sample; the call counts both": 6,
            "those are all pairs with a later word; later pieces are not in the cache yet": 42,
            "you took the last piece for a full one; it has one word": 18,
            "you counted pairs with an earlier word too; the causal mask allows those": 24,
            "you counted each word's next one only; in a piece of three the first has two ahead": 8,
        },
    )


def _running_means(x):
    "The right answer to leaks.2, and what its likely mistakes give: sentence -> (B, T, d)."
    count = torch.arange(1, x.shape[1] + 1)[:, None]  # (T, 1)
    so_far = x.cumsum(dim=1) / count  # (B, T, d)
    before = (x.cumsum(dim=1) - x) / (count - 1).clamp(min=1)
    features = x.cumsum(dim=-1) / torch.arange(1, x.shape[2] + 1)
    onwards = x.flip(1).cumsum(1).flip(1) / count.flip(0)
    return x - so_far, {
        "you returned the mean; take it from x": so_far,
        "that is the mean of the words before; the word itself counts too": x - before,
        "you divided by T everywhere; at position i there are i + 1 words so far": (
            x - x.cumsum(dim=1) / x.shape[1]
        ),
        "that takes the sum of the words so far; divide by how many they are": x - x.cumsum(dim=1),
        "the running mean goes over the features; it should go over the words": x - features,
        "the mean runs over the batch, so the samples mix": x - x.mean(dim=0, keepdim=True),
        "the mean runs over the features; it should run over the words": (
            x - x.mean(dim=-1, keepdim=True)
        ),
        "the mean is taken over the words from here on; turn it round": x - onwards,
    }


@exercise(
    "leaks.2",
    "The sum of the words up to each position is a running sum: `x.cumsum(dim=1)`",
    "The first word's mean is over one word, the second's over two: divide by 1, 2, …, T",
    "`x - x.cumsum(dim=1) / torch.arange(1, T + 1)[:, None]`",
)
def judge_leaks_2(answer):
    "Judge a mean over the words so far."
    x = torch.randn(2, 5, 3, generator=torch.Generator("cpu").manual_seed(0))
    right, mistakes = _running_means(x.clone())
    kept = x.clone()
    problem = diagnose(answer(x), right, mistakes)
    if problem is None and not torch.equal(x, kept):
        return "right, but x was changed in place"
    if problem is not None and problem not in mistakes and "shape" not in problem:
        try:  # the first output is x - x, whatever x is
            assert_no_leak(answer, kept, causal_mask(5), must_depend=False)
        except LeakError as error:
            return str(error)
    return problem


@exercise(
    "leaks.3",
    "With which probability does one draw hold the first id at its position, and with which both?",
    "With which probability do all draws miss?",
)
def judge_leaks_3(answer):
    "Judge the probability that a joint leak of two ids is found."
    cases = [(3, 2), (10, 16), (2, 5)]

    return diagnose_formula(
        answer,
        "V, n",
        cases,
        "1 - (1 - 1 / V**2) ** n",
        {
            "(1 - 1 / V**2) ** n": "that is the probability that all draws miss",
            "1 - (1 - 1 / V) ** n": "both ids must be there, so one draw holds them with 1/V²",
            "n / V**2": "the draws do not add up: two of them may both hold the ids",
            "(1 - (1 - 1 / V) ** n) ** 2": "those are two chances for one id; both must be in the "
            "same draw",
            "V ** (-2 * n)": "that is the chance that every draw holds them",
            "1 - (1 - 2 / V**2) ** n": "either order would do for one id; here each position has "
            "its own",
        },
    )


@exercise(
    "leaks.4",
    "Position i must predict token i + 1. For which i does that token stand in the same piece?",
    "A position that attends to its target can reach 0, any other "
    "ln(vocab_size) at best. Count the others",
    "The last token of each piece must guess, and the model reads length - 1 tokens, so "
    "there are ceil((length - 1) / size) pieces",
)
def judge_leaks_4(answer):
    "Judge the least loss on noise of a model that reads in pieces."
    cases = [(10, 13, 2), (10, 13, 1), (6, 11, 4), (7, 9, 20)]

    return diagnose_formula(
        answer,
        "V, n, s",
        cases,
        "log(V) * -(-(n - 1) // s) / (n - 1)",
        {
            "log(V) / s": "that holds where the pieces fill the text exactly; the last piece may "
            "be shorter",
            "log(V) * ((n - 1) // s) / (n - 1)": "the last position must guess too: its target is "
            "not among the inputs",
            "log(V) * -(-n // s) / n": "there are length - 1 predictions, and the model reads "
            "length - 1 tokens",
            "log(V) * -(-(n - 1) // s) / n": "you divided by length; there are length - 1 "
            "predictions",
            "log2(V) * -(-(n - 1) // s) / (n - 1)": "those are bits; a loss in nats takes the "
            "natural logarithm",
            "log(V) * (1 + (-(n - 1) // s) / (n - 1))": "you counted the positions that attend to "
            "their target; they cost nothing",
            "log(V)": "that is the floor without a leak",
            "log(V) * -(-(n - 1) // s)": "that is the sum over the positions; return nats per "
            "prediction",
        },
    )
