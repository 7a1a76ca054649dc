"""Judges of the exercises on the page 11_sampling, and the mistakes that they know."""

import math

import torch

from ..base.exercises import diagnose, exercise


@exercise(
    "sampling.1",
    "Sort, and for top-p ask of each token how much mass stands "
    "*before* it. For min-p, a factor of what?",
    "Before the tokens stand 0, 0.5, 0.7, 0.8, 0.9 and 0.96. Min-p "
    "compares with 0.1 times the largest, 0.05.",
)
def judge_sampling_1(answer):
    if isinstance(answer, (int, float)) or len(answer) != 3:
        return "expected three numbers: for top-k, top-p and min-p"
    got, right, heights = (
        [float(x) for x in answer],
        [4, 3, 5],
        "min-p is a factor of the largest probability, 0.1 · 0.5, not a probability",
    )
    if got == [6 - n for n in right]:
        return "these are the tokens that are cut, not those left"
    mistakes = (
        {},
        {
            2: "the third token brings the mass from 0.7 to 0.8, past 0.75; it "
            "stays, since 0.7 stood before it",
            4: "before the fourth token stand 0.8, past 0.75",
        },
        {4: heights, 2: heights, 6: "0.04, the last, is below 0.1 · 0.5"},
    )
    for name, number, wanted, known in zip(("top-k", "top-p", "min-p"), got, right, mistakes):
        if number != wanted:
            other = "not so many; each filter judges all six tokens, whatever the others do"
            return f"{name}: {known.get(number, other)}"


@exercise(
    "sampling.2",
    "`tokens` is a table of column numbers for `logits`, row by row. Which "
    "tensor method writes at such places?",
    "`logits.scatter(1, tokens, float('-inf'))`: without the underscore, so that "
    "the logits you were given stay as they are.",
)
def judge_sampling_2(answer):
    logits = torch.tensor(
        [[0.5, -1.0, 2.0, 0.1, 3.0, -0.3], [1.0, 0.2, -2.0, 0.7, 0.3, 1.5]]
    )  # (B, vocab_size)
    tokens = torch.tensor([[1, 4, 4], [1, 0, 3]])  # (B, T)
    given, inf = logits.clone(), float("-inf")
    result = answer(given, tokens.clone())
    if isinstance(result, torch.Tensor) and result.isnan().any():
        return (
            "some are NaN: 0 times infinity is no number; write -∞ at the "
            "places instead of adding or multiplying"
        )
    if isinstance(result, torch.Tensor) and -math.inf < result.min() < -100:
        return (
            "a large negative number only makes a token unlikely; the "
            "logit of what is ruled out is -∞"
        )
    problem = diagnose(
        result,
        logits.scatter(1, tokens, inf),
        {
            "you ruled out the tokens of all rows in every "
            "row; each row has its own": logits.index_fill(1, tokens.unique(), inf),
            "a logit of 0 is not forbidden, it may even be the largest; the "
            "probability must be 0, the logit -∞": logits.scatter(1, tokens, 0.0),
            "you ruled out the last token only": logits.scatter(1, tokens[:, -1:], inf),
            "you ruled out the first token only": logits.scatter(1, tokens[:, :1], inf),
            "you kept the tokens that the row holds and ruled out the others": torch.full_like(
                logits, inf
            ).scatter(1, tokens, logits.gather(1, tokens)),
            "return logits, not probabilities": logits.scatter(1, tokens, inf).softmax(-1),
            "the logits came back as they were": logits,
        },
    )
    if problem is None and not torch.equal(given, logits):
        return (
            "the answer is right, but you changed the logits you were given; "
            "`scatter` returns a copy, `scatter_` does not"
        )
    return problem


@exercise(
    "sampling.3",
    "Divide the two probabilities. What happens to the sum over all tokens?",
    "exp((z₁ - z₂) / τ) = odds; take the logarithm of both sides.",
)
def judge_sampling_3(answer):
    for logits, odds in (
        (torch.tensor([0.2, 1.7, -1.0, 0.9]), 3.0),
        (torch.tensor([-4.0, -0.5, -2.5]), 1.25),
    ):
        z, p = logits.topk(2).values.double(), logits.double().softmax(-1).topk(2).values
        gap, ratio = z[0] - z[1], p[0] / p[1]
        right = (gap / math.log(odds)).float()
        problem = diagnose(
            answer(logits.clone(), odds),
            right,
            {
                "this is 1/τ; a higher temperature makes the odds smaller": math.log(odds) / gap,
                "odds are an exponential of logits; take their logarithm": gap / odds,
                "multiply out: exp(gap / τ) = odds, and τ stands below": gap * math.log(odds),
                "a temperature is positive: the likeliest first": -gap / math.log(odds),
                "the natural logarithm, as in the softmax; yours has base 2": gap / math.log2(odds),
                "the natural logarithm, as in the softmax; yours has base 10": (
                    gap / math.log10(odds)
                ),
                "you took the difference of probabilities; the formula needs that of logits": (
                    (p[0] - p[1]) / math.log(odds)
                ),
                "logits are not probabilities: their quotient means nothing": (
                    (z[0] / z[1]).abs().log() / math.log(odds)
                ),
                "you compared the likeliest with the least likely; the "
                "second likeliest was asked for": (logits.max() - logits.min()) / math.log(odds),
                "the tokens are not sorted: look for the two largest logits": (
                    (logits[0] - logits[1]) / math.log(odds)
                ),
                "you compared odds at temperature 1 without taking logarithms": ratio / odds,
            },
        )
        if problem:
            return problem
