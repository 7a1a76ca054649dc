"""BLEU and chrF are sacreBLEU's for any texts, and a comparison has a fair interval."""

import random

import numpy as np
import pytest
import sacrebleu
from refusals import every_row
from sacrebleu.metrics import BLEU

from former_nb.decoding.translation import bleu
from former_nb.inspection.scores import compare_translations, score_translations
from former_nb.inspection.translation import bleu_counts, bleu_from_counts

WORDS = "a man Two dogs run in the park .".split()


def texts(seed, n=50, least=0, most=12):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(least, most))) for _ in range(n)]


def summed(said, right):
    return np.sum([bleu_counts(a.split(), b.split()) for a, b in zip(said, right)], axis=0)


@pytest.mark.parametrize("seed", range(15))
def test_it_is_sacrebleus_for_any_corpus(seed):
    rng = random.Random(seed)
    n, most = rng.choice([1, 2, 5, 40]), rng.choice([1, 3, 5, 12])
    said, right = texts(seed, n, 0, most), texts(seed + 1000, n, 1, most)
    theirs = BLEU(tokenize="none").corpus_score(said, [right]).score
    assert bleu_from_counts(summed(said, right)) == pytest.approx(theirs, abs=1e-9)


@pytest.mark.parametrize("seed", range(15))
def test_that_of_lesson_16_is_sacrebleus_without_smoothing(seed):
    rng = random.Random(seed)
    n, most = rng.choice([1, 2, 5, 40]), rng.choice([1, 3, 5, 12])
    said, right = texts(seed, n, 0, most), texts(seed + 1000, n, 1, most)
    if seed % 3 == 0:  # most words are right, so that longer runs are shared
        change = lambda w: rng.choice(WORDS) if rng.random() < 0.2 else w
        said = [" ".join(map(change, text.split())) for text in right]
    plain = BLEU(tokenize="none", smooth_method="none")
    ours = bleu([text.split() for text in said], [text.split() for text in right])
    assert ours == pytest.approx(plain.corpus_score(said, [right]).score, abs=1e-9)


def test_runs_of_other_lengths_and_nothing_at_all():
    said, right = ["a b c d".split()], ["a b x d".split()]
    assert bleu(said, right) == 0 and bleu(said, right, 2) == pytest.approx(50.0)
    assert bleu(said, right, 1) == pytest.approx(75.0) and bleu(right, right) == 100
    assert bleu([], []) == bleu([[]], [["a"]]) == 0


def test_many_corpora_at_once():
    counts = np.stack([summed(texts(i), texts(i + 1)) for i in range(5)])
    assert np.allclose(bleu_from_counts(counts), [bleu_from_counts(row) for row in counts])
    assert bleu_from_counts(counts.reshape(5, 1, 10)).shape == (5, 1)
    assert bleu_counts([], ["a"]).tolist() == [0] * 9 + [1] and bleu_from_counts(np.zeros(10)) == 0


def test_scores_are_sacrebleus():
    said, right = texts(0, least=3), texts(1, least=3)
    table = score_translations(said, right)
    lower = sacrebleu.corpus_bleu(said, [right], lowercase=True).score
    wanted = [sacrebleu.corpus_bleu(said, [right]).score, lower]
    assert table["score"].tolist() == [*wanted, sacrebleu.corpus_chrf(said, [right]).score]
    assert "tok:13a" in table["signature"]["BLEU"]
    assert "case:lc" in table["signature"]["BLEU, lower-cased"]


def test_the_comparison_has_the_scores_and_a_fair_interval():
    right, rng = texts(0, 300, 6), random.Random(1)
    drop = lambda share: [" ".join(w for w in t.split() if rng.random() > share) for t in right]
    first, second = drop(0.3), drop(0.1)
    found = compare_translations(first, second, right, n=200)
    for name, said in (("first", first), ("second", second)):
        assert found[name] == pytest.approx(sacrebleu.corpus_bleu(said, [right]).score, abs=1e-9)
    assert found["low"] < found["difference"] < found["high"] and found["chance"] == 0
    turned = compare_translations(second, first, right, n=200)
    assert turned["difference"] == -found["difference"]
    assert turned["low"] == pytest.approx(-found["high"])
    same = compare_translations(first, first, right)
    assert same["difference"] == same["low"] == same["high"] == 0 and same["chance"] == 1
    assert found == compare_translations(first, second, right, n=200)


# ---- bad input

A = ["a"]
TABLE = {
    "bleu": [
        ("strings", lambda: bleu(["a b"], ["a b"]), TypeError, "texts", "a b"),
        ("other sentences", lambda: bleu([["a"]], []), ValueError, "references", "0"),
        ("no runs", lambda: bleu([["a"]], [["a"]], 0), ValueError, "longest", "0"),
    ],
    "bleu_counts": [("a string", lambda: bleu_counts("a b", A), TypeError, "texts")],
    "compare_translations": [
        (
            "fewer",
            lambda: compare_translations(A, A, A * 2),
            ValueError,
            "first, second, references",
        ),
        ("no samples", lambda: compare_translations(A, A, A, n=0), ValueError, "n"),
    ],
    "score_translations": [
        ("none", lambda: score_translations([], []), ValueError, "hypotheses, references"),
        ("numbers", lambda: score_translations([1], A), TypeError, "hypotheses"),
    ],
}


test_bad_input = every_row(TABLE)
