"""Classifiers that see pairs of neighbours, and the wide part that counts them."""

import math
from functools import partial

import torch
from refusals import every_row
from test_classifier import CONFIG, model, tokens
from torch.testing import assert_close

from former_nb.data.tokens import BOS, EOS, PAD
from former_nb.models.baselines import log_count_ratio
from former_nb.models.bigrams import PACE, BigramClassifier, WideClassifier, number_pairs


def test_pairs_see_the_order_of_neighbours():
    ab, ba = torch.tensor([[BOS, 10, 11, EOS]]), torch.tensor([[BOS, 11, 10, EOS]])
    at = torch.arange(4)
    paired = partial(model(n_bigrams=1000).embed, positions=at)
    bare = partial(model().embed, positions=at)
    assert not torch.allclose(paired(ab).sum(1), paired(ba).sum(1))
    assert_close(bare(ab).sum(1), bare(ba).sum(1))
    assert torch.equal(paired(ab.int()), paired(ab))  # no overflow where tokens are int32


def test_without_vectors_for_pairs_it_is_a_classifier():
    plain, none = model(seed=3), model(n_bigrams=0)
    none.load_state_dict(plain.state_dict())
    assert torch.equal(none(tokens([3, 9])), plain(tokens([3, 9])))


def test_new_vectors_of_pairs_change_nothing_until_they_are_trained():
    plain, paired = model(seed=3), BigramClassifier(CONFIG, 3, n_bigrams=50).eval()
    assert not paired.embed.bigrams.weight.any()
    paired.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(paired(tokens([3, 9])), plain(tokens([3, 9])))


def test_the_wide_part_adds_each_token_and_pair_once():
    wide = model(n_features=70)
    deep = BigramClassifier(CONFIG, 3).eval()
    own = ("trust", "ratio")
    deep.load_state_dict({k: v for k, v in wide.state_dict().items() if k not in own})
    text = torch.tensor([[5, 6, 5, 6, 7, 5, 6]])
    pairs = number_pairs(text, 70)[0].tolist()
    assert pairs[1] == pairs[3] == pairs[6] != pairs[2]
    features = sorted({5, 6, 7, *pairs})
    counted = (PACE * wide.trust[features, None] * wide.ratio[features]).sum(dim=0)
    assert_close(wide(text), deep(text) + counted / math.sqrt(len(features)))
    wide(text)[0, 0].backward()
    assert wide.trust.grad.nonzero().flatten().tolist() == features


def test_a_wide_part_without_ratios_changes_nothing():
    plain = model(seed=3)
    wide = WideClassifier(CONFIG, 3).eval()
    wide.load_state_dict(plain.state_dict(), strict=False)
    assert torch.equal(wide(tokens([3, 9])), plain(tokens([3, 9])))
    empty = torch.zeros(2, 4, dtype=torch.int64)
    assert_close(model(n_features=70)(empty), model(n_features=70).head.bias.expand(2, 3))


def test_ratios_are_those_of_nb_svm():
    wide = model(2, n_features=70)
    several = tokens([3, 9, 5, 16, 1, 16, 12, 12])
    rows = [(row[row != PAD].tolist(), i % 2) for i, row in enumerate(several)]
    wide.count_features(rows)
    counts = torch.zeros(len(rows), 70)
    for i, (row, _) in enumerate(rows):
        numbers, once = wide.features(torch.tensor([row]))
        counts[i, numbers[once]] = 1
    alone = counts.sum(dim=0) == 1
    assert alone.any() and not alone.all()
    counts[:, alone] = 0
    good = torch.tensor([label for _, label in rows]) == 1
    ratio = torch.tensor(log_count_ratio(counts.numpy(), good.numpy()))
    for label, expected in ((1, ratio), (0, -ratio)):
        assert_close(wide.ratio[:, label], expected, atol=1e-6, rtol=1e-5, check_dtype=False)


def test_a_feature_speaks_for_the_class_that_has_it():
    wide = model(3, n_features=7000)
    rows = [([4 + label, 9, 5 + label], label) for label in (0, 1, 2) for _ in range(4)]
    wide.count_features(rows)
    for row, label in rows:
        numbers, once = wide.features(torch.tensor([row]))
        assert wide.ratio[numbers[once]].sum(dim=0).argmax() == label
    assert wide.ratio[9].std() < 1e-6  # all have it, and it speaks for none


def test_a_wide_model_without_memory_counts_nothing():
    with torch.device("meta"):
        wide = WideClassifier(CONFIG, 2, n_features=10**9)
    wide.count_features([([5, 6], 0)])
    assert wide.ratio.is_meta


def test_pairs_of_frequent_tokens_are_spread():
    pairs = torch.cartesian_prod(torch.arange(4, 204), torch.arange(4, 204))
    numbers = number_pairs(pairs, 50_000)[:, 1].bincount()
    before = number_pairs(pairs, 50_000, spread=False)[:, 1].bincount()
    assert numbers.max() <= 8 < 50 < before.max()  # of 40,000 pairs
    for spread in (True, False):
        vectors = number_pairs(pairs, 50_000, spread)
        assert 0 <= vectors.min() and vectors.max() < 50_000


BAD = [
    ("pairs", lambda: BigramClassifier(CONFIG, 2, n_bigrams=-1), ValueError, "n_bigrams"),
    ("rows", lambda: WideClassifier(CONFIG, 2, n_features=0), ValueError, "n_features"),
]
test_bad_input_is_named = every_row(BAD)
