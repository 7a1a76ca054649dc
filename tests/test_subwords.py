"""BLEU from ten counts is sacreBLEU's, for any texts; the bootstrap says what resampling by hand says."""

import random

import numpy as np
import pytest
import sacrebleu
from bad_input_table import cases, judge, public_names
from sacrebleu.metrics import BLEU

from former_nb import subwords as module
from former_nb.subwords import (
    bleu_counts,
    bleu_from_counts,
    compare_translations,
    score_translations,
)

WORDS = "a man Two dogs run in the park .".split()


def texts(seed, n=50, least=0, most=12):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(least, most))) for _ in range(n)]


def summed(said, right):
    return np.sum([bleu_counts(a.split(), b.split()) for a, b in zip(said, right)], axis=0)


@pytest.mark.parametrize("seed", range(100))
def test_it_is_sacrebleus_for_any_corpus(seed):
    rng = random.Random(seed)
    n, most = rng.choice([1, 2, 5, 40]), rng.choice([1, 3, 5, 12])
    said, right = texts(seed, n, 0, most), texts(seed + 1000, n, 1, most)
    assert bleu_from_counts(summed(said, right)) == pytest.approx(
        BLEU(tokenize="none").corpus_score(said, [right]).score, abs=1e-9
    )


def test_many_corpora_at_once():
    counts = np.stack([summed(texts(i), texts(i + 1)) for i in range(5)])
    assert np.allclose(bleu_from_counts(counts), [bleu_from_counts(row) for row in counts])
    assert bleu_from_counts(counts.reshape(5, 1, 10)).shape == (5, 1)


def test_scores_are_sacrebleus():
    said, right = texts(0, least=3), texts(1, least=3)
    table = score_translations(said, right)
    assert table["score"]["BLEU"] == sacrebleu.corpus_bleu(said, [right]).score
    assert (
        table["score"]["BLEU, lower-cased"]
        == sacrebleu.corpus_bleu(said, [right], lowercase=True).score
    )
    assert table["score"]["chrF"] == sacrebleu.corpus_chrf(said, [right]).score
    assert (
        "tok:13a" in table["signature"]["BLEU"]
        and "case:lc" in table["signature"]["BLEU, lower-cased"]
    )


def test_the_comparison_has_the_scores_and_a_fair_interval():
    right = texts(0, 300, 6)
    drop = lambda share, seed: [
        " ".join(
            word
            for word in text.split()
            if (random.Random(f"{seed} {text}").random(), rng.random())[1] > share
        )
        for text in right
    ]
    rng = random.Random(1)
    first, second = drop(0.3, 1), drop(0.1, 2)
    found = compare_translations(first, second, right, n=400)
    assert found["first"] == pytest.approx(sacrebleu.corpus_bleu(first, [right]).score, abs=1e-9)
    assert found["second"] == pytest.approx(sacrebleu.corpus_bleu(second, [right]).score, abs=1e-9)
    assert found["low"] < found["difference"] < found["high"] and found["chance"] == 0
    turned = compare_translations(second, first, right, n=400)
    assert turned["difference"] == -found["difference"] and turned["low"] == pytest.approx(
        -found["high"]
    )
    same = compare_translations(first, first, right)
    assert same["difference"] == same["low"] == same["high"] == 0 and same["chance"] == 1
    assert compare_translations(first, second, right, n=50) == compare_translations(
        first, second, right, n=50
    )


def test_the_interval_is_that_of_sentences_drawn_one_by_one():
    right, said, other = texts(0, 60, 5), texts(1, 60, 5), texts(2, 60, 5)
    rng, drawn = random.Random(0), []
    for _ in range(300):
        some = rng.choices(range(60), k=60)
        score = lambda texts: (
            sacrebleu.corpus_bleu([texts[i] for i in some], [[right[i] for i in some]]).score
        )
        drawn.append(score(other) - score(said))
    found = compare_translations(said, other, right, n=2000)
    assert np.allclose(
        [found["low"], found["high"]], np.percentile(drawn, [2.5, 97.5]), atol=0.35 * np.std(drawn)
    )


TABLE = {
    "bleu_counts": [
        (
            "a string",
            lambda: bleu_counts("a b", ["a"]),
            (TypeError, "hypothesis: expected a list of words", "'a b'"),
        ),
        (
            "numbers",
            lambda: bleu_counts(["a"], [1]),
            (TypeError, "reference: expected a list of words", "[1]"),
        ),
        (
            "nothing said",
            lambda: bleu_counts([], ["a"]),
            lambda counts: counts.tolist() == [0] * 9 + [1],
        ),
    ],
    "bleu_from_counts": [
        (
            "other shape",
            lambda: bleu_from_counts(np.zeros((2, 8))),
            (ValueError, "counts: expected (..., 10)", "(2, 8)"),
        ),
        ("nothing", lambda: bleu_from_counts(np.zeros(10)), lambda score: score == 0),
    ],
    "compare_translations": [
        (
            "fewer",
            lambda: compare_translations(["a"], ["a"], ["a", "b"]),
            (ValueError, "first, second, references: expected as many", "1, 1, 2"),
        ),
        (
            "one string",
            lambda: compare_translations(["a"], "a", ["a"]),
            (TypeError, "second: expected a list of strings", "'a'"),
        ),
        (
            "no samples",
            lambda: compare_translations(["a"], ["a"], ["a"], n=0),
            (ValueError, "n: expected a whole number of 1 or more", "0"),
        ),
    ],
    "score_translations": [
        (
            "none",
            lambda: score_translations([], []),
            (ValueError, "hypotheses, references: expected as many", "0, 0"),
        ),
        (
            "fewer",
            lambda: score_translations(["a", "b"], ["a"]),
            (ValueError, "hypotheses, references: expected as many", "2, 1"),
        ),
        (
            "numbers",
            lambda: score_translations([1], ["a"]),
            (TypeError, "hypotheses: expected a list of strings", "[1]"),
        ),
    ],
}


@pytest.mark.parametrize("call, wanted", cases(TABLE))
def test_bad_input(call, wanted):
    judge(call, wanted)


def test_every_public_name_is_in_the_table():
    assert public_names(module) == set(TABLE)
