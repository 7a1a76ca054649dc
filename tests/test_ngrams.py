"""Counters of n-grams: they sum to one whatever the rows, and cost what the formula says.

The cases that hypothesis draws are always the same ones. A longer run, with new cases each time:

  FORMER_NB_CASES=20000 pytest tests/test_ngrams.py
"""

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from model_tools import small
from refusals import every_row
from thorough import drawn

from former_nb.data.batches import make_batches
from former_nb.data.data_sets import python_prose, split
from former_nb.data.text import BOS
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.inspection.ngrams import NGram, best_share, mix_nats
from former_nb.tasks.names import name_losses
from former_nb.training.losses import evaluate

many = drawn(25)
NAN = float("nan")
V = 5  # tokens 0 to 4, of which 0 begins each row and never follows
rows_ = st.lists(
    st.lists(st.integers(1, V - 1), min_size=1, max_size=12).map(lambda row: [0, *row]),
    min_size=1,
    max_size=8,
)


def kneser_ney(rows, token, context, order, vocab_size, D):
    "The formula of the lesson, from the rows alone and slowly."
    padded = [[row[0]] * (order - 1) + row for row in rows]
    grams = [tuple(row[i - order + 1 : i + 1]) for row in padded for i in range(order, len(row))]
    p = 1 / vocab_size
    for n in range(1, order + 1):
        ways = Counter(g[1:] for g in {g[order - n - 1 :] for g in grams})
        pairs = Counter(grams) if n == order else ways
        before = tuple(context[len(context) - n + 1 :])
        after = {g[-1]: count for g, count in pairs.items() if g[:-1] == before}
        if after:
            total = sum(after.values())
            p = max(after.get(token, 0) - D, 0) / total + D * len(after) / total * p
    return p


@many
@given(
    rows_,
    st.integers(1, 4),
    st.lists(st.integers(0, V - 1), min_size=3, max_size=3),
    st.sampled_from([0.0, 0.5, 0.75, 1.0]),
)
def test_counters_are_the_formula(rows, order, context, D):
    counter, before = NGram(rows, order, V - 1, D), context[len(context) - order + 1 :]
    for token in range(1, V):
        wanted = kneser_ney(rows, token, before, order, V - 1, D)
        assert counter.probability(token, tuple(context)) == pytest.approx(wanted, abs=1e-12)


@many
@given(rows_, rows_, st.integers(1, 6), st.lists(st.integers(0, V - 1), max_size=7))
def test_what_can_follow_sums_to_one_and_nats_are_the_mean_surprise(
    learned, judged, order, context
):
    counter = NGram(learned, order, V - 1)
    p = [counter.probability(token, tuple(context)) for token in range(1, V)]
    assert sum(p) == pytest.approx(1)
    places = [(row, i) for row in judged for i in range(1, len(row))]
    each = [-math.log(counter.probability(row[i], counter.context(row, i))) for row, i in places]
    assert counter.nats(judged) == pytest.approx(sum(each) / len(each))


def test_a_longer_context_helps_where_there_is_one():
    text = python_prose()[:12_000]
    tokenizer = CharTokenizer.train([text])
    learn, judge = ([[BOS, *tokenizer.encode(part)]] for part in split(text, seed=None))
    nats = [NGram(learn, n, tokenizer.vocab_size - 4).nats(judge) for n in (1, 2, 3)]
    assert nats == sorted(nats, reverse=True) and nats[0] - nats[-1] > 0.5


@many
@given(st.lists(st.tuples(st.floats(1e-6, 1), st.floats(1e-6, 1)), min_size=1, max_size=20))
def test_a_mixture_of_two_models_is_between_their_probabilities(pairs):
    first, second = zip(*pairs)
    alone = [mix_nats(first, second, share) for share in (1.0, 0.0)]
    for cost, probabilities in zip(alone, (first, second)):
        assert cost == pytest.approx(-math.log(math.prod(probabilities)) / len(pairs))
    share = best_share(first, second)
    assert mix_nats(first, second, share) <= min(alone)
    for p, q in pairs:
        mixed = math.exp(-mix_nats([p], [q], share))
        assert min(p, q) <= mixed * (1 + 1e-12) and mixed <= max(p, q) * (1 + 1e-12)


def test_a_mixture_says_what_is_wrong():
    with pytest.raises(ValueError, match="second: expected 2 numbers, got 1"):
        mix_nats([0.5, 0.5], [0.5], 0.5)
    with pytest.raises(ValueError, match="share: .*1.5"):
        mix_nats([0.5], [0.5], 1.5)
    assert 690 < mix_nats([0.0], [0.0], 0.5) < 692


def test_without_a_discount_a_text_that_was_never_seen_has_a_cost():
    assert 690 < NGram([[0, 1, 2]], 2, 3, discount=0).nats([[0, 3]]) < 692


def test_the_report_on_names_costs_what_evaluate_says():
    tokenizer = CharTokenizer.train(["abc"])
    parts = [["ab", "abc", "cab"], ["bca", "ab"], ["cba", "b", "abca"]]
    model = small(tokenizer.vocab_size)
    nats = name_losses(model, tokenizer, parts)
    rows = encode_texts(parts[2], tokenizer)
    assert nats["transformer"] == pytest.approx(evaluate(model, make_batches(rows, 2)), rel=1e-5)
    counts = NGram(encode_texts(parts[0], tokenizer), 6, tokenizer.vocab_size - 3)
    assert nats["Kneser–Ney 6-gram"] == pytest.approx(counts.nats(rows))
    assert list(nats)[-1].startswith("mixture, ")


ROWS = [[0, 1, 2]]
test_counters_say_what_is_wrong = every_row(
    [
        ("no order", lambda: NGram(ROWS, 0, 3), ValueError, "order", "0"),
        ("no tokens", lambda: NGram(ROWS, 2, 0), ValueError, "vocab_size", "0"),
        ("NaN", lambda: NGram(ROWS, 2, 3, NAN), ValueError, "discount", "nan"),
        ("no rows", lambda: NGram([], 2, 3), ValueError, "rows", "[]"),
        ("one token", lambda: NGram([[0]], 2, 3), ValueError, "rows", "[[0]]"),
        ("a word", lambda: NGram(["abc"], 2, 3), ValueError, "rows", "abc"),
        ("no rows to judge", lambda: NGram(ROWS, 2, 3).nats([]), ValueError, "rows", "[]"),
    ]
)
