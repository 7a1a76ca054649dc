"The exercises of the deep dive on sampling."

import math

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "sampling.1",
    parts=(
        "top-k: it keeps the k likeliest of all six tokens, whatever the others do",
        "top-p: a token stays as long as less than 0.75 stands before it",
        "min-p: it is a factor of the largest probability, 0.1 · 0.5, not a probability",
    ),
)
def tokens_left():
    # ? Sort, and for top-p ask of each token how much mass stands *before* it. For min-p, a factor of
    # ? what?
    # ? Before the tokens stand 0, 0.5, 0.7, 0.8, 0.9 and 0.96. Min-p compares with 0.1 times the
    # ? largest, 0.05.
    return 4, 3, 5  # by top-k, by top-p, by min-p
    #! these are the tokens that are cut, not those left
    # ~ return 2, 3, 1
    #! top-p: the third token brings the mass from 0.7 to 0.8, past 0.75; it stays, since 0.7 stood
    #! before it
    # ~ return 4, 2, 5
    #! top-p: before the fourth token stand 0.8, past 0.75
    # ~ return 4, 4, 5
    #! min-p: 0.04, the last, is below 0.1 · 0.5
    # ~ return 4, 3, 6
    #! each filter judges all six tokens, not those that the one before has left
    # ~ return 4, 3, 3


@exercise("sampling.2")
def no_repeats(logits, tokens):
    # ? `tokens` is a table of column numbers for `logits`, row by row. Which tensor method writes at
    # ? such places?
    # ? `logits.scatter(1, tokens, float('-inf'))`: without the underscore, so that the logits you were
    # ? given stay as they are.
    return logits.scatter(1, tokens, float("-inf"))  # (B, vocab_size)
    #! the answer is right, but you changed the logits you were given; `scatter` returns a copy,
    #! `scatter_` does not
    # ~ return logits.scatter_(1, tokens, float("-inf"))
    #! you ruled out the tokens of all rows in every row; each row has its own
    # ~ return logits.index_fill(1, tokens.flatten(), float("-inf"))
    #! a logit of 0 is not forbidden, it may even be the largest; the probability must be 0, the logit
    #! -∞
    # ~ return logits.scatter(1, tokens, 0.0)
    #! a large negative number only makes a token unlikely; the logit of what is ruled out is -∞
    # ~ return logits.scatter(1, tokens, -1e9)
    #! you ruled out the last token only
    # ~ return logits.scatter(1, tokens[:, -1:], float("-inf"))
    #! you ruled out the first token only
    # ~ return logits.scatter(1, tokens[:, :1], float("-inf"))
    #! you kept the tokens that the row holds and ruled out the others
    # ~ return torch.full_like(logits, float("-inf")).scatter(1, tokens, logits.gather(1, tokens))
    #! return logits, not probabilities
    # ~ return logits.scatter(1, tokens, float("-inf")).softmax(dim=-1)
    #! the logits came back as they were; `scatter` returns new ones, so return these
    # ~ return logits
    #! 0 times infinity is no number, so some are NaN; write -∞ at the places instead of adding or
    #! multiplying
    # ~ return logits - torch.zeros_like(logits).scatter(1, tokens, 1.0) * math.inf


@exercise("sampling.3", near=1e-4)
def temperature_for(logits, odds):
    # ? Divide the two probabilities. What happens to the sum over all tokens?
    # ? exp((z₁ - z₂) / τ) = odds; take the logarithm of both sides.
    first, second = logits.topk(2).values
    #! the tokens are not sorted: look for the two largest logits
    # ~ first, second = logits[:2]
    #! you compared the likeliest with the least likely; the second likeliest was asked for
    # ~ first, second = logits.max(), logits.min()
    #! you took the difference of probabilities; the formula needs that of logits
    # ~ first, second = logits.softmax(dim=-1).topk(2).values
    return (first - second) / math.log(odds)
    #! this is 1/τ; a higher temperature makes the odds smaller
    # ~ return math.log(odds) / (first - second)
    #! odds are an exponential of logits; take their logarithm
    # ~ return (first - second) / odds
    #! multiply out: exp(gap / τ) = odds, and τ stands below
    # ~ return (first - second) * math.log(odds)
    #! a temperature is positive: the likeliest first
    # ~ return (second - first) / math.log(odds)
    #! the natural logarithm, as in the softmax; yours has base 2
    # ~ return (first - second) / math.log2(odds)
    #! logits are not probabilities: their quotient means nothing
    # ~ return abs(first / second).log() / math.log(odds)
    #! you compared odds at temperature 1 without taking logarithms
    # ~ return (first - second).exp() / odds


# ---------------------------------------------------------------- questions


@question("sampling", "sampling.2")
def ask_no_repeats(draw):
    def call(logits, tokens):
        what = f"logits {tuple(logits.shape)}, tokens {tuple(tokens.shape)}"
        return Call(what, (logits, tokens))

    logits = [[0.5, -1.0, 2.0, 0.1, 3.0, -0.3], [1.0, 0.2, -2.0, 0.7, 0.3, 1.5]]
    yield call(torch.tensor(logits), torch.tensor([[1, 4, 4], [1, 0, 3]]))
    yield call(draw.numbers(1, 7), torch.tensor([[0, 6]]))
    yield call(draw.numbers(3, 5), torch.tensor([[2], [2], [4]]))
    yield call(draw.numbers(2, 4), draw.tokens(2, 9, low=0, high=4))
    yield call(draw.numbers(2, 8, scale=100.0) - 500, draw.tokens(2, 3, low=0, high=8))
    yield call(torch.tensor([[-torch.inf, 1.0, 2.0, -torch.inf]]), torch.tensor([[0, 2]]))
    yield call(draw.numbers(4, 3), torch.tensor([[0, 1, 2], [0, 0, 0], [1, 1, 2], [2, 2, 2]]))
    for _ in draw.rounds:
        B, V, T = draw.size(2, 4), draw.size(10, 14), draw.size(5, 8)
        yield call(draw.numbers(B, V), draw.tokens(B, T, low=0, high=V))


@question("sampling", "sampling.3")
def ask_temperature_for(draw):
    yield Call("four logits, odds = 3", (torch.tensor([0.2, 1.7, -1.0, 0.9]), 3.0))
    yield Call("three logits, odds = 1.25", (torch.tensor([-4.0, -0.5, -2.5]), 1.25))
    yield Call("two logits, odds = 2", (torch.tensor([1.0, 4.0]), 2))
    yield Call("large logits, odds = 100", (torch.tensor([60.0, 3.0, 50.0, -20.0, 49.0]), 100.0))
    for i in range(3 * len(draw.rounds)):
        n, odds = draw.size(3, 9), draw.size(11, 90) / 10
        logits = draw.numbers(n, scale=0.3)
        first = draw.size(0, n - 1)
        logits[first] = logits.max() + 0.5 + i / 3
        yield Call(f"{n} logits, odds = {odds}", (logits, odds))
