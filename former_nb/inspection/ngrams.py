"""How often did each token follow the last few? A rival for every language model.

The language models of lesson 10 and of long texts are compared with a model that counts. It looks
at the last `order - 1` tokens and asks how often each token came after them.
"""

from collections import Counter, defaultdict
from math import log
from statistics import fmean

from ..base.guards import check_int, check_that
from ..base.ranges import PORTION

SMALLEST = 1e-300  # a probability of 0 costs 691 nats

__all__ = [
    "NGram",
    "mix_nats",
    "best_share",
]


def _check_rows(rows):
    "Raise `ValueError` unless there are rows of two tokens or more."
    fits = isinstance(rows, (list, tuple)) and len(rows) > 0
    fits = fits and all(isinstance(row, (list, tuple)) and len(row) > 1 for row in rows)
    check_that(fits, "rows", "lists of at least two tokens", rows)


def _mean_nats(probabilities):
    "The mean surprise; a probability of 0 is possible without a discount."
    return fmean(-log(max(p, SMALLEST)) for p in probabilities)


class NGram:
    r"""Interpolated Kneser–Ney over the last `order - 1` tokens (Chen and Goodman 1999).

    If one unseen pair had probability zero, so would its whole text. So every count gives something
    away, a discount $D$, and shorter contexts receive it. Shorter contexts do not count how *often*
    a token came but after how many *different* tokens.

    For a context $c$ let $N(c\,t)$ be the count of token $t$ after it, with the new count for
    shorter contexts. Let $N(c)$ be the sum of these counts and $U(c)$ the number of different
    tokens that follow $c$. If $c'$ is $c$ without its oldest token, then

    $P(t \mid c) = \max(N(c\,t) - D, 0) / N(c) + P(t \mid c') \cdot D \cdot U(c) / N(c)$

    The shortest context shares what it loses evenly among the $V$ tokens that can follow. Nothing
    is zero, and the sum is one, because the shorter context receives what the counts lose.

    Kneser and Ney (1995),
    [Improved backing-off for m-gram language modeling](https://doi.org/10.1109/ICASSP.1995.479394);
    Chen and Goodman (1999),
    [An Empirical Study of Smoothing Techniques](https://doi.org/10.1006/csla.1999.0128).
    """

    def __init__(
        self,
        rows: list[list[int]],  # training sequences, each from BOS on
        order: int,  # 2 is the bigram
        vocab_size: int,  # tokens that can follow
        discount: float = 0.75,  # taken from each count and given to shorter contexts
    ):
        check_int("order", order)
        check_int("vocab_size", vocab_size)
        PORTION.check("discount", discount)
        _check_rows(rows)
        self.order = order
        self.vocab_size = vocab_size
        self.discount = discount
        self.counts = [defaultdict(Counter) for _ in range(order)]  # by length of context
        for row in rows:
            for i in range(1, len(row)):
                self.count(row[i], self.context(row, i))

    def count(self, token: int, context: tuple[int, ...]) -> None:
        "Count once for the whole context; a shorter one counts only what is new to the longer."
        for n in range(self.order - 1, -1, -1):
            counter = self.counts[n][context[len(context) - n :]]
            counter[token] += 1
            if counter[token] > 1:
                break

    def context(
        self,
        row: list[int],  # starts with BOS
        i: int,  # 1 to len(row)
    ) -> tuple[int, ...]:  # order - 1 tokens
        "The tokens before position `i`, the first token repeated if there are fewer."
        return tuple(row[max(j, 0)] for j in range(i - self.order + 1, i))

    def probability(
        self,
        token: int,
        context: tuple[int, ...],  # the tokens before it, of which the last order - 1 are used
    ) -> float:
        "How likely `token` is after `context`."
        p = 1 / self.vocab_size
        for n in range(min(len(context) + 1, self.order)):
            counter = self.counts[n].get(context[len(context) - n :])
            if counter:
                left = max(counter[token] - self.discount, 0)
                given = self.discount * len(counter)
                p = (left + given * p) / counter.total()
        return p

    def probabilities(
        self,
        rows: list[list[int]],  # sequences from BOS on
    ) -> list[float]:  # of each token but the first of each row
        "How likely the tokens are. Raises `ValueError` if there are none."
        _check_rows(rows)
        found = []
        for row in rows:
            for i in range(1, len(row)):
                found.append(self.probability(row[i], self.context(row, i)))
        return found

    def nats(
        self,
        rows: list[list[int]],  # sequences from BOS on
    ) -> float:  # nats per token, all but BOS counted
        "The mean surprise of the model at `rows`. Raises `ValueError` if there are none."
        return _mean_nats(self.probabilities(rows))


def mix_nats(
    first: list[float],  # the probability that a model gives to each token of a text
    second: list[float],  # the same of another model
    share: float,  # of the first model, 0 to 1
) -> float:  # nats per token
    "The mean surprise of a mixture, which adds the probabilities of two models in shares."
    check_that(len(first) == len(second) > 0, "second", f"{len(first)} numbers", len(second))
    PORTION.check("share", share)
    return _mean_nats(share * p + (1 - share) * q for p, q in zip(first, second))


def best_share(
    first: list[float],  # as for `mix_nats`, on a text to choose by
    second: list[float],
) -> float:  # one of 0, .05, .1, …, 1
    "The share of the first model with which the mixture is surprised least."
    shares = [i / 20 for i in range(21)]
    return min(shares, key=lambda share: mix_nats(first, second, share))
