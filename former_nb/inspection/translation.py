"""What a translator is trained on and scored with, beside what lesson 16 derives.

`pair_rows` makes rows of tokens from pairs of texts, `average_weights` a model of several states,
and the counts are those of BLEU, sentence by sentence, so that samples of sentences can be scored
without counting again.
"""

from collections import Counter

import numpy as np
import torch

from ..base.guards import check_int
from ..data.tokens import TextTokenizer, check_texts, check_tokenizer

__all__ = ["pair_rows", "count_runs", "bleu_counts", "bleu_from_counts", "average_weights"]


def pair_rows(
    pairs: list[tuple[str, str]],  # source and target
    tokenizer: TextTokenizer,  # of both
    max_len: int,  # the model's
) -> list[tuple[list[int], list[int]]]:  # rows for `collate_pairs`
    "Tokens of both sides, without pairs that have an empty side or are too long for the model."
    check_int("max_len", max_len)
    check_tokenizer(tokenizer)
    rows = []
    for pair in pairs:
        source, target = [tokenizer.encode(text) for text in pair]
        src = [*tokenizer.before, *source, *tokenizer.after]
        tgt = [*tokenizer.start, *target, *tokenizer.after]  # its last token is never read
        if source and target and len(src) <= max_len and len(tgt) <= max_len + 1:
            rows.append((src, tgt))
    if not rows:
        raise ValueError(f"pairs: expected one with sides of 1 to {max_len - 2} tokens, got none")
    return rows


def count_runs(
    words: list[str],
    n: int,  # the length of a run, 1 or more
) -> Counter:  # run, a tuple of n words -> how often it occurs
    "Count the n-grams of a text."
    runs = Counter()
    for i in range(len(words) - n + 1):
        runs[tuple(words[i : i + n])] += 1
    return runs


def bleu_counts(
    hypothesis: list[str],  # words of a translation
    reference: list[str],  # words of the one to compare with
) -> np.ndarray:  # (10,), for n = 1 to 4 the shared runs and all runs, then both lengths
    "All that BLEU needs to know of a sentence. Counts of several sentences are added."
    hypothesis = check_texts(hypothesis)
    reference = check_texts(reference)
    counts = []
    for n in [1, 2, 3, 4]:
        runs = count_runs(hypothesis, n)
        shared = runs & count_runs(reference, n)
        counts += [shared.total(), runs.total()]
    return np.array([*counts, len(hypothesis), len(reference)])


def bleu_from_counts(
    counts: np.ndarray,  # (..., 10), sums of `bleu_counts`
) -> np.ndarray:  # (...), 0 to 100
    "BLEU (Papineni et al. 2002). Nothing shared counts half a match, then a quarter, and so on."
    counts = np.asarray(counts, dtype=float)
    shared = counts[..., 0:8:2]  # (..., 4), for n = 1 to 4
    runs = counts[..., 1:8:2]  # (..., 4)
    c = counts[..., 8]  # (...), the length of the translations
    r = counts[..., 9]  # (...), the length of the references
    zero = shared == 0
    smoothed = np.where(zero, 0.5 ** np.cumsum(zero, axis=-1), shared)
    log_precision = np.log(smoothed / np.maximum(runs, 1))
    log_penalty = np.minimum(0, 1 - r / np.maximum(c, 1))
    bleu = 100 * np.exp(log_precision.mean(axis=-1) + log_penalty)
    possible = (runs > 0).all(axis=-1) & ~zero.all(axis=-1)
    return np.where(possible, bleu, 0.0)


def average_weights(
    states: list[dict[str, torch.Tensor]],  # state dicts of one model at different times
) -> dict[str, torch.Tensor]:
    "The mean of each weight (Vaswani et al. 2017, section 6.1)."
    shapes = []
    for state in states:
        shapes.append({name: weight.shape for name, weight in state.items()})
    if not states or any(shape != shapes[0] for shape in shapes):
        raise ValueError(f"states: expected weights of one model, got {len(states)} states")
    mean = {}
    for name, weight in states[0].items():
        if weight.is_floating_point():
            weight = torch.stack([state[name] for state in states]).mean(dim=0)
        mean[name] = weight
    return mean
