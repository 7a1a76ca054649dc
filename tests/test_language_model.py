"""What holds for generators whatever the rows: counters that sum to one, models that do not look
ahead, and what bad input gets.

The cases that hypothesis draws are always the same ones. A longer run, with new cases each time:

  FORMER_NB_CASES=20000 pytest tests/test_language_model.py
"""

import math
from collections import Counter

import pytest
import torch
from attention_tools import NEAR
from hypothesis import given
from hypothesis import strategies as st
from model_tools import small
from refusals import every_row, refuses
from thorough import drawn
from torch.testing import assert_close

from former_nb.data.batches import make_batches
from former_nb.data.data_sets import python_prose, split
from former_nb.data.text import BOS, EOS
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.inspection.leaks import assert_no_leak, noise_leak
from former_nb.inspection.ngrams import NGram, best_share, mix_nats
from former_nb.inspection.viewer import plot_heads, view
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks.names import name_losses
from former_nb.training.losses import evaluate, token_loss, total_loss

many = drawn(25)
NAN = float("nan")


# ---- counting

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


# ---- the model


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize(
    "kind", [{}, {"norm": "rms", "n_kv_heads": 1, "norm_first": False}], ids=["plain", "mixed"]
)
def test_no_logit_looks_ahead(positions, kind):
    model = small(positions=positions, n_layers=1, **kind)
    tokens = torch.randint(10, (2, 6), generator=torch.Generator().manual_seed(0))
    past = torch.ones(6, 6, dtype=torch.bool).tril()
    assert_no_leak(model, tokens, past, vocab_size=10, draws=2)
    whole = model(tokens)
    for i in range(6):
        assert_close(model(tokens[:, : i + 1])[:, i], whole[:, i])
    assert_close(model(tokens.int()), whole, rtol=0, atol=0)


def test_the_table_is_used_both_ways_and_stored_once():
    model = small()
    assert sum(p.numel() for p in model.parameters() if p.shape[0] == 10) == 10 * 16
    tokens = torch.tensor([[1, 2, 3]])
    model(tokens)[..., 7].sum().backward()  # token 7 is not read, only scored
    grads = model.embed.tokens.weight.grad.abs().sum(-1)
    assert grads[7] > 0 and (grads[1:4] > 0).all() and not grads[[0, 4, 5, 6, 8, 9]].any()
    start = token_loss(model(tokens), tokens + 4).item()
    assert start == pytest.approx(math.log(10), abs=0.1)  # knows nothing at the start


def test_noise_stays_noise():
    loss = lambda m, t: token_loss(m(t[:, :-1]), t[:, 1:])
    how = dict(length=9, first_id=4, steps=100)
    assert not noise_leak(small(14, 9, n_layers=1), loss, 10, **how).leaks


def test_a_batch_costs_what_its_rows_cost():
    model, rows = small(), [[BOS, 4, 5, 6, EOS], [BOS, 7, EOS], [BOS, 8, 9, 4, 5, 6, 7, EOS]]
    alone = [total_loss(model, make_batches([row], 1)).tolist() for row in rows]
    nats, count = total_loss(model, make_batches(rows, 3)).tolist()
    assert count == sum(n for _, n in alone) == sum(len(row) - 1 for row in rows)
    assert nats == pytest.approx(sum(nats for nats, _ in alone), rel=1e-5)


def test_vmap_over_the_weights_of_a_language_model_equals_a_loop():
    config = TransformerConfig(vocab_size=13, max_len=9, d_model=12, n_heads=3)
    torch.manual_seed(0)
    models = [LanguageModel.from_config(config).eval() for _ in range(3)]
    tokens = torch.randint(13, (2, 7), generator=torch.Generator().manual_seed(0))
    params, buffers = torch.func.stack_module_state(models)
    call = lambda p, b: torch.func.functional_call(models[0], (p, b), (tokens,))
    together = torch.func.vmap(call)(params, buffers)
    assert_close(together, torch.stack([model(tokens) for model in models]), **NEAR)
    each = torch.func.vmap(lambda row: models[0](row[None])[0])(tokens)
    assert_close(each, models[0](tokens), **NEAR)


def test_models_say_what_is_wrong(tmp_path):
    model, tokenizer = small(7), CharTokenizer("abc")
    for call, *refusal in [
        (lambda: LanguageModel.from_config({"vocab_size": 7}), TypeError, "config", "dict"),
        (lambda: model(torch.tensor([1, 2])), ValueError, "tokens", "(2,)"),
        (lambda: model(torch.tensor([[1, 7]])), ValueError, "tokens", "7"),
        (lambda: model(torch.zeros(1, 9, dtype=torch.long)), ValueError, "max_len"),
        (lambda: save_model(tmp_path, model, CharTokenizer("ab")), ValueError, "tokenizer"),
        (lambda: save_model(tmp_path, model, "abc"), TypeError, "tokenizer", "str"),
        (lambda: save_model(tmp_path, torch.nn.Linear(2, 2), tokenizer), ValueError, "model"),
        (lambda: load_model(tmp_path / "no"), ValueError, "model", "no"),
    ]:
        refuses(call, *refusal)
    assert not list(tmp_path.iterdir())  # nothing was written
    save_model(tmp_path, model, tokenizer)
    again, letters, _ = load_model(tmp_path)
    assert letters.to_dict() == tokenizer.to_dict()
    assert torch.equal(again(torch.tensor([[1, 4]])), model(torch.tensor([[1, 4]])))
    assert len(plot_heads(view(model, "cab", tokenizer)).axes) == 4
