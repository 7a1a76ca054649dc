"""What holds for generators whatever the rows: counters that sum to one, models that do not look
ahead, windows that lose no token, and what bad input gets.

The cases that hypothesis draws are always the same ones. A longer run, with new cases each time:

  FORMER_NB_CASES=20000 pytest tests/test_language_model.py
"""

import math
import os
import pickle
import random
from collections import Counter

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fit_tools import fit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusals import every_row, refuses
from torch.testing import assert_close

from former_nb.data.batches import make_batches
from former_nb.data.data_sets import python_prose, split
from former_nb.data.long_text_data import load_long_text, long_text_data
from former_nb.data.long_texts import TextWindows, bits_per_character, text_windows
from former_nb.data.text import BOS, EOS, IGNORE, UNK
from former_nb.data.tokenization import (
    CharTokenizer,
    encode_texts,
)
from former_nb.inspection.leaks import assert_no_leak, noise_leak
from former_nb.inspection.ngrams import NGram, best_share, mix_nats
from former_nb.inspection.viewer import plot_heads, view
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks.names import name_losses
from former_nb.training.losses import evaluate, token_loss, total_loss
from former_nb.training.training_config import TrainingConfig

LONG = "FORMER_NB_CASES" in os.environ
many = settings(
    max_examples=int(os.environ.get("FORMER_NB_CASES", 25)),
    deadline=None,
    database=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)
NAN = float("nan")


def small(vocab_size=10, max_len=8, **more):
    "A model of a few thousand weights."
    sizes = dict(d_model=16, n_heads=2, n_layers=2, d_ff=24, dropout=0.0) | more
    torch.manual_seed(0)
    return LanguageModel.from_config(TransformerConfig(vocab_size, max_len, **sizes))


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


# ---- windows


def read(windows):
    "All inputs and all targets of an epoch, (N, T) each, and the sizes of the batches."
    batches = list(windows)
    assert len(batches) == len(windows)
    return *map(torch.cat, zip(*batches)), [len(x) for x, _ in batches]


@many
@given(st.integers(1, 90), st.integers(1, 20), st.integers(1, 9), st.data())
def test_each_token_is_judged_once(n, length, batch_size, data):
    length = min(length, n)
    context = data.draw(st.integers(0, length - 1))
    ids = torch.arange(10, 10 + n)
    x, y, sizes = read(text_windows(ids, length, batch_size, context=context))
    real = y != IGNORE
    assert_close(y[real], ids)  # in order, each once
    assert set(sizes[:-1]) <= {batch_size} and sizes[-1] <= batch_size
    before = real.nonzero()[:, 1]  # inputs in the window before the last
    assert (before >= (y[real] - 10).clamp(max=context)).all()
    assert_close(x[real], torch.cat([torch.tensor([BOS]), ids[:-1]]))
    assert real.any(-1).all()  # no window for nothing


@many
@given(
    st.integers(1, 90),
    st.integers(1, 20),
    st.integers(1, 9),
    st.integers(0, 2**70),
    st.integers(0, 2**40),
)
def test_windows_to_learn_from(n, length, batch_size, seed, epoch):
    length = min(length, n)
    ids = torch.arange(10, 10 + n)
    windows = text_windows(ids, length, batch_size, shuffle=True, seed=seed)
    windows.set_epoch(epoch)
    x, y, sizes = read(windows)
    assert y.unique().numel() == y.numel() > n - 2 * length and ((y >= 10) & (y < 10 + n)).all()
    assert (y[:, 1:] == y[:, :-1] + 1).all() and (x[:, 1:] == y[:, :-1]).all()
    begins = torch.zeros(len(x), dtype=torch.bool)
    begins[[sum(sizes[:i]) for i in range(len(sizes))]] = True
    assert_close(x[:, 0], torch.where(begins | (y[:, 0] == 10), BOS, y[:, 0] - 1))
    assert windows.epoch == epoch + 1
    windows.set_epoch(epoch)
    assert_close(read(windows)[:2], (x, y), rtol=0, atol=0)


def test_epochs_and_seeds_differ_and_reach_every_place():
    ids, order = torch.arange(10, 75), lambda windows: tuple(read(windows)[1][:, 0].tolist())
    windows = text_windows(ids, 8, 4, shuffle=True)
    orders = [order(windows) for _ in range(100)]
    assert len(set(orders)) > 95 and set().union(*orders) == set(range(10, 66))
    assert len({order(text_windows(ids, 8, 4, shuffle=True, seed=s)) for s in range(20)}) == 20


def test_reading_changes_no_random_numbers():
    torch.manual_seed(3)
    random.seed(3)
    want = torch.rand(3), random.random()
    torch.manual_seed(3)
    random.seed(3)
    read(text_windows(torch.arange(10, 75), 8, 4, shuffle=True))
    assert torch.equal(torch.rand(3), want[0]) and random.random() == want[1]


@pytest.mark.parametrize("shuffle", [False, True])
def test_windows_are_the_same_where_tensors_are_made_on_a_device(shuffle):
    read_all = lambda: read(text_windows(list(range(10, 75)), 8, 4, shuffle=shuffle))
    expected = read_all()[:2]
    with torch.device("meta"):
        found = read_all()[:2]
    assert_close(found, expected, rtol=0, atol=0)


def test_all_kinds_of_rows_are_one(tmp_path):
    ids = [random.Random(0).randrange(4, 200) for _ in range(50)]
    want = read(text_windows(ids, 7, 3, shuffle=True))[:2]
    np.array(ids, np.uint16).tofile(tmp_path / "ids")
    mapped, row = np.memmap(tmp_path / "ids", np.uint16, "r"), torch.tensor(ids, dtype=torch.int16)
    for kind in (tuple(ids), np.array(ids), mapped, row, torch.tensor(ids, dtype=torch.uint8)):
        x, y, _ = read(text_windows(kind, 7, 3, shuffle=True))
        assert x.dtype == y.dtype == torch.int64
        assert_close((x, y), want)
    for kind, shared in ((mapped, mapped), (row, row.numpy())):  # nothing is copied
        assert np.shares_memory(text_windows(kind, 7).ids, shared)
    assert_close(read(pickle.loads(pickle.dumps(text_windows(row, 7, 3, shuffle=True))))[:2], want)


IDS = list(range(4, 24))
test_windows_say_what_is_wrong = every_row(
    [
        ("too few", lambda: text_windows(IDS, 21), ValueError, "ids", "20"),
        ("a word", lambda: text_windows("abc", 3), ValueError, "ids"),
        ("rows", lambda: text_windows([IDS, IDS], 3), ValueError, "ids"),
        ("fractions", lambda: text_windows(torch.rand(4), 2), ValueError, "ids"),
        ("booleans", lambda: text_windows(torch.ones(4).bool(), 2), ValueError, "ids"),
        ("no length", lambda: text_windows(IDS, 0), ValueError, "length", "0"),
        ("no batch", lambda: text_windows(IDS, 4, 0), ValueError, "batch_size", "0"),
        ("yes", lambda: text_windows(IDS, 4, shuffle="yes"), TypeError, "shuffle"),
        ("context", lambda: text_windows(IDS, 4, context=4), ValueError, "context", "4"),
        ("both", lambda: text_windows(IDS, 4, shuffle=True, context=1), ValueError, "context", "1"),
    ]
)


def test_a_run_on_windows_is_resumed_bit_for_bit(tmp_path):
    ids = torch.randint(4, 10, (400,), generator=torch.Generator().manual_seed(0))
    windows = lambda: (text_windows(ids, 8, 8, shuffle=True), text_windows(ids[:80], 8, 8))
    config = TrainingConfig(steps=15, lr=1e-2, eval_every=5)  # three epochs
    whole, again = small(dropout=0.1), small(dropout=0.1)
    fit(whole, *windows(), config)

    class Stop(Exception):
        pass

    class Breaks(TextWindows):
        left = 3

        def batch(self, starts):
            if self.epoch > 1 and self.left == 0:
                raise Stop
            self.left -= self.epoch > 1
            return super().batch(starts)

    train, valid = windows()
    broken = Breaks(train.ids, 8, 8, True, 0, 0)
    with pytest.raises(Stop):
        fit(small(dropout=0.1), broken, valid, config, folder=tmp_path)
    fit(again, *windows(), config, folder=tmp_path, resume=True)
    for a, b in zip(whole.parameters(), again.parameters()):
        assert torch.equal(a, b)


def test_more_context_costs_less():
    "A copy of the token three places back can be known only where there are three places."
    row = torch.tensor([4, 7, 5]).repeat(400)

    class Copies(torch.nn.Linear):  # where there is no token to copy, a guess among ten
        def forward(self, x):
            known = 20 * F.one_hot(x, 10).float().roll(2, dims=1)
            return torch.cat([torch.zeros_like(known[:, :3]), known[:, 3:]], dim=1)

    judge = lambda context: evaluate(Copies(1, 1), text_windows(row, 8, 64, context=context))
    assert judge(0) == pytest.approx(math.log(10) * 3 / 8, abs=1e-3)
    assert judge(4) == pytest.approx(math.log(10) * 3 / 1200, abs=1e-3)


# ---- long texts


def rows_in_one(text):
    "The tokens of all parts of a text, and the numbers of its tokenizer."
    data = long_text_data(text, 4)
    return torch.cat(data.rows), data.tokenizer


def test_data_of_a_long_text():
    letters = lambda seed, n: "".join(random.Random(seed).choices("abcd ", k=n))
    text = letters(0, 900) + "ž" * 9 + letters(1, 91)
    data = long_text_data(text, length=16, batch_size=4, seed=5)
    assert data.tokenizer.alphabet == " abcd" and [len(row) for row in data.rows] == [900, 100]
    assert (data.rows[1] == UNK).sum() == 9  # not seen in training, so not known, but counted
    again = text_windows(data.rows[0], 16, 4, shuffle=True, seed=5)
    assert_close(read(data.train)[1], read(again)[1])

    refuses(lambda: long_text_data(text), ValueError, "ids")
    refuses(lambda: long_text_data([text] * 90, 4), TypeError, "text", "list")
    refuses(lambda: long_text_data(text, 16, shares=(0.5, 0.1)), ValueError, "shares", "(0.5, 0.1)")


def test_long_texts_are_encoded_in_the_smallest_type():
    parts = (0x4E00, 20_000), (0xAC00, 11_000), (0x3400, 6_000)
    wide = "".join(chr(first + i) for first, n in parts for i in range(n))
    for text, kind in (("abc" * 500, torch.int16), (wide + wide[:5_000], torch.int32)):
        ids, tokenizer = rows_in_one(text)
        assert ids.dtype == kind and ids.tolist() == tokenizer.encode(text)
        assert tokenizer.alphabet == "".join(sorted(set(text)))


def test_another_spelling_is_read_as_the_first():
    text = "z\u0307e\u0307 " * 200  # each letter in two code points
    data = long_text_data(text, 4)
    assert data.tokenizer.alphabet == " \u0117\u017c" and [len(r) for r in data.rows] == [540, 60]
    refuses(lambda: long_text_data("a\ud800" * 99, 4), ValueError, "text", "surrogate")


def test_texts_by_name(tmp_path, monkeypatch):
    file = tmp_path / "mine.txt"
    file.write_text("to be or not to be\r\n" * 100, encoding="utf-8")
    wanted = "to be or not to be\n" * 100, "mine.txt, 1,900 characters", (0.9, 0.05, 0.05)
    assert tuple(load_long_text(file)) == tuple(load_long_text(str(file))) == wanted
    refuses(lambda: load_long_text(tmp_path / "no.txt"), ValueError, "file", "No such file")
    refuses(lambda: load_long_text(3), TypeError, "file", "3")
    monkeypatch.setenv("FORMER_NB_DATA", str(tmp_path))
    refuses(lambda: load_long_text("shakespeare"), ValueError, "FORMER_NB_DATA", "No such file")


def test_bits():
    assert bits_per_character(math.log(2)) == pytest.approx(1)
    assert bits_per_character(math.log(16), tokens=4, characters=8) == pytest.approx(2)
    refuses(lambda: bits_per_character(1.0, characters=0), ValueError, "characters", "0")
