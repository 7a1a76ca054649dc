"""The rivals of the deep dive on baselines are what they say: a bag knows no order but that of
neighbours, and NB-SVM is what its paper writes down."""

import random
from functools import partial

import numpy as np
import pytest
import torch
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.base.core import set_seed
from former_nb.data.text import PAD, pad_rows
from former_nb.models.baselines import BagOfEmbeddings, nb_svm
from former_nb.models.config import TransformerConfig

CONFIG = TransformerConfig(vocab_size=40, max_len=16, d_model=12, n_heads=3, n_layers=2, d_ff=20)


def bag(seed=0, **kwargs):
    "Untrained, with no weight at zero, in eval mode."
    set_seed(seed)
    made = BagOfEmbeddings(CONFIG, 3, **kwargs)
    for weight in made.parameters():
        nn.init.normal_(weight)
    return made.eval()


def rows(lengths, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(4, 40, (n,), generator=g).tolist() for n in lengths]


@pytest.mark.parametrize("n_bigrams", [0, 50])
def test_padding_changes_nothing(n_bigrams):
    model, some = bag(n_bigrams=n_bigrams), rows([1, 5, 9])
    logits = model(pad_rows(some))
    for row, own in zip(some, logits):
        assert_close(model(torch.tensor([row]))[0], own)
    longer = nn.functional.pad(pad_rows(some), (0, 30))  # it has no table of places to run out of
    assert_close(model(longer), logits)
    assert_close(model(torch.full((1, 4), PAD))[0], model.head.bias)


def test_a_bag_knows_no_order_and_a_bag_of_pairs_that_of_neighbours():
    [row] = rows([12])
    mixed = torch.tensor([random.Random(i).sample(row, 12) for i in range(20)])
    assert_close(bag()(mixed), bag()(torch.tensor([row])).expand(20, -1))
    assert bag(n_bigrams=50)(mixed).std(0).min() > 1e-3


def test_it_is_torchs_embedding_bag():
    model, some = bag(), pad_rows(rows([3, 8, 1]))
    theirs = nn.EmbeddingBag.from_pretrained(
        model.embed.tokens.weight, mode="mean", padding_idx=PAD
    )
    assert_close(model(some), model.head(theirs(some)))


def test_it_has_the_parameters_of_a_bag_and_all_of_them_learn():
    model = BagOfEmbeddings(CONFIG, 3, n_bigrams=50)
    assert sum(p.numel() for p in model.parameters()) == 40 * 12 + 50 * 12 + 12 * 3 + 3
    nn.init.normal_(model.head.weight)
    model(pad_rows(rows([4, 7]))).square().sum().backward()
    assert all(p.grad is not None and p.grad.any() for p in model.parameters())


def test_saved_and_loaded_it_says_the_same(tmp_path):
    model, some = bag(n_bigrams=50), pad_rows(rows([4, 7]))
    model.save_pretrained(tmp_path)
    assert torch.equal(BagOfEmbeddings.from_pretrained(tmp_path).eval()(some), model(some))


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


EMPTY, NONE = torch.zeros(0, 3, dtype=torch.long), torch.zeros(2, 0, dtype=torch.long)
LONG, XY = torch.full((1, 99), 5), [("a b", "x"), ("c d", "y")] * 3
TABLE = {
    "BagOfEmbeddings": [
        ("one class", lambda: BagOfEmbeddings(CONFIG, 1), ValueError, "n_classes", "1"),
        ("one axis", lambda: bag()(torch.tensor([5, 6])), ValueError, "tokens", "(2,)"),
        ("an empty batch", lambda: bag()(EMPTY), lambda logits: logits.shape == (0, 3)),
        ("texts of nothing", lambda: bag()(NONE), lambda logits: logits.isfinite().all()),
        ("longer than the model", lambda: bag()(LONG), lambda logits: logits.isfinite().all()),
    ],
    "nb_svm": [
        ("one label", lambda: nb_svm(XY[:1] * 2, XY), ValueError, "train", "'x'"),
        ("nothing to learn from", lambda: nb_svm([], XY), ValueError, "train", "[]"),
        ("an unseen label", lambda: nb_svm(XY, [("a b", "z"), ("a b", "x")]), lambda p: p == 0.5),
        ("no words", lambda: nb_svm(XY, [("", "x"), ("c d", "y")]), lambda p: p in (0.5, 1.0)),
    ],
    "log_count_ratio": [],  # of arrays as they are
}


test_bad_input = every_row(TABLE)
