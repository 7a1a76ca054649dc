"""BLEU and chrF with their signatures, and how sure a difference is.

Lesson 16 counts BLEU by hand. These functions take translations as they are printed and let
`sacrebleu` cut them, so that others can compare.

- Post (2018), [A Call for Clarity in Reporting BLEU Scores](https://aclanthology.org/W18-6319/).
- Popović (2015), [chrF](https://aclanthology.org/W15-3049/).
- Koehn (2004), [Statistical Significance Tests for Machine Translation Evaluation](https://aclanthology.org/W04-3250/).
"""

import numpy as np
import pandas as pd

from ..base.core import from_extra
from ..base.guards import check_int, check_that
from ..data.tokens import check_texts
from .translation import bleu_counts, bleu_from_counts

__all__ = [
    "score_translations",
    "compare_translations",
]


def _check_parallel(**texts):
    "Raise `TypeError` or `ValueError` unless all are lists of as many strings, one or more."
    for name, column in texts.items():
        strings = all(isinstance(text, str) for text in check_texts(column, any_kind=True))
        check_that(strings, name, "a list of strings", column, TypeError)
    sizes = [len(column) for column in texts.values()]
    whole = len(set(sizes)) == 1 and sizes[0] > 0
    check_that(whole, ", ".join(texts), "as many of each, one or more", sizes)


def score_translations(
    hypotheses: list[str],  # as they would be printed
    references: list[str],  # one for each
) -> pd.DataFrame:  # rows BLEU, BLEU lower-cased and chrF; columns score, 0 to 100, and signature
    """How close translations are to human ones, by sacreBLEU (Post 2018).

    In the signature, *13a* is the usual way to cut and *exp* the usual smoothing.
    """
    with from_extra("bleu", "sacrebleu"):
        from sacrebleu.metrics import BLEU, CHRF

    _check_parallel(hypotheses=hypotheses, references=references)
    metrics = {"BLEU": BLEU(), "BLEU, lower-cased": BLEU(lowercase=True), "chrF": CHRF()}
    rows = {
        name: (metric.corpus_score(hypotheses, [references]).score, str(metric.get_signature()))
        for name, metric in metrics.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index", columns=["score", "signature"])


def compare_translations(
    first: list[str],  # translations by one system, as they would be printed
    second: list[str],  # by another, of the same sentences
    references: list[str],  # one for each
    n: int = 1000,  # samples
    seed: int = 0,
) -> dict[str, float]:  # first, second, difference; low and high hold 95 % of it; chance of none
    """BLEU of two systems, and how sure their difference is: paired bootstrap, cased, cut by 13a.

    The held-out sentences are a sample, and another sample would give other scores. Paired
    bootstrap (Koehn 2004) draws as many sentences again, with replacement, a thousand times, and
    scores both systems on what was drawn. Both are asked about the *same* sentences, so most of the
    luck cancels. `chance` is the share of samples in which the better system is not ahead.
    """
    with from_extra("bleu", "sacrebleu"):
        from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    _check_parallel(first=first, second=second, references=references)
    check_int("n", n)
    tokenizer = Tokenizer13a()

    def cut(texts):
        return [tokenizer(text.rstrip()).split() for text in texts]

    right = cut(references)
    first_counts = [bleu_counts(words, other) for words, other in zip(cut(first), right)]
    second_counts = [bleu_counts(words, other) for words, other in zip(cut(second), right)]
    counts = np.array([first_counts, second_counts])  # (2, N, 10)
    a, b = bleu_from_counts(counts.sum(1)).tolist()
    share = np.full(len(right), 1 / len(right))
    times = np.random.default_rng(seed).multinomial(len(right), share, size=n)  # (n, N)
    drawn = np.diff(bleu_from_counts(times @ counts), axis=0)[0]  # (n,)
    low, high = np.percentile(drawn, [2.5, 97.5]).tolist()
    behind = drawn <= 0 if b > a else drawn >= 0
    return {
        "first": a,
        "second": b,
        "difference": b - a,
        "low": low,
        "high": high,
        "chance": float(behind.mean()),
    }
