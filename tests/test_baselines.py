"""The rivals of the deep dive on baselines are what they say: a bag knows no order but that of
neighbours, and NB-SVM is what its paper writes down."""

import random
from functools import partial

import numpy as np
import pytest
from refusals import every_row

from former_nb.models.baselines import nb_svm


def by_the_paper(train, test, alpha=1.0):
    """Wang and Manning 2012, section 2, by loops over words and pairs: r = log (p/|p|) / (q/|q|),
    features r ∘ f, a linear SVM."""
    from sklearn.svm import LinearSVC

    def parts(text):
        words = text.split()
        return {*words, *map(" ".join, zip(words, words[1:]))}

    known = sorted(set().union(*(parts(text) for text, _ in train)))
    f = lambda pairs: np.array(
        [[float(word in parts(text)) for word in known] for text, _ in pairs]
    )
    y = np.array([label for _, label in train])
    first, last = sorted(set(y))
    p, q = alpha + f(train)[y == last].sum(0), alpha + f(train)[y == first].sum(0)
    r = np.log((p / np.abs(p).sum()) / (q / np.abs(q).sum()))
    said = LinearSVC(C=0.03).fit(r * f(train), y).predict(r * f(test))
    return float((said == [label for _, label in test]).mean())


@pytest.fixture
def solved(monkeypatch):
    """The solver goes on to the optimum, of which there is one: where it stops by default hangs on
    chance and on the order of the texts."""
    svm = pytest.importorskip("sklearn.svm")
    monkeypatch.setattr(
        svm, "LinearSVC", partial(svm.LinearSVC, tol=1e-8, max_iter=100_000, random_state=0)
    )


@pytest.mark.parametrize("seed", range(3))
def test_nb_svm_is_the_papers(seed, solved):
    rng, words = random.Random(seed), "a b c d e f g h".split()
    shares = {"x": rng.choices(range(1, 9), k=8), "y": rng.choices(range(1, 9), k=8)}
    text = lambda label: " ".join(rng.choices(words, shares[label], k=6))
    pairs = [(text(label), label) for label in rng.choices("xy", k=260)]
    assert nb_svm(pairs[:160], pairs[160:]) == by_the_paper(pairs[:160], pairs[160:])


def test_nb_svm_learns_the_order_of_neighbours_and_any_number_of_labels():
    rng = random.Random(0)
    colours = {"red": "warm", "orange": "warm", "blue": "cold", "grey": "dull", "brown": "dull"}
    make = lambda n: [
        (f"the {rng.choice('abc')} is {c} {rng.random():.4f}", colours[c])
        for c in rng.choices(list(colours), k=n)
    ]
    assert nb_svm(make(200), make(100)) == 1
    turned = [(f"{i} not good", "bad") for i in range(99)] + [
        (f"{i} good not", "good") for i in range(99)
    ]
    assert nb_svm(turned, turned[::7]) == 1


def test_nb_svm_does_not_care_for_the_order_of_texts(solved):
    rng = random.Random(1)
    text = lambda: " ".join(rng.choices("abcdef", k=5))
    pairs = [(text(), rng.choice("xy")) for _ in range(300)]
    assert nb_svm(pairs[:200], pairs[200:]) == nb_svm(rng.sample(pairs[:200], 200), pairs[200:])


XY = [("a b", "x"), ("c d", "y")] * 3
TABLE = {
    "nb_svm": [
        ("one label", lambda: nb_svm(XY[:1] * 2, XY), ValueError, "train", "'x'"),
        ("nothing to learn from", lambda: nb_svm([], XY), ValueError, "train", "[]"),
        ("an unseen label", lambda: nb_svm(XY, [("a b", "z"), ("a b", "x")]), lambda p: p == 0.5),
        ("no words", lambda: nb_svm(XY, [("", "x"), ("c d", "y")]), lambda p: p in (0.5, 1.0)),
    ],
    "log_count_ratio": [],  # of arrays as they are
}


test_bad_input = every_row(TABLE)
