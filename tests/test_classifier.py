"""`classifier` keeps its word: padding changes nothing, long and odd texts get a defined answer, one bad row costs itself only, and what is held out shares no neighbour with what is learned."""

import gzip
import json
import math
import random
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from fit_tools import fit
from bad_input_table import cases, judge, public_names
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from former_nb import classifier as module
from former_nb.batches import make_batches
from former_nb.config import TransformerConfig
from former_nb.classifier import (
    LONGEST_TEXT,
    POOLS,
    Classifier,
    classification_report,
    collate_labels,
    gradient_times_input,
    label_names,
    label_rows,
    oversample,
    pool_tokens,
    predict,
    read_labeled_csv,
    truncate,
    windows,
)
from former_nb.checkpoints import load_model, save_model
from former_nb.core import set_seed
from former_nb.optimization import token_loss
from former_nb.text import BOS, EOS, PAD, CharTokenizer, pad_rows
from former_nb.tokenization import SubwordTokenizer
from former_nb.runs import TrainingConfig
from former_nb.training import exact_match

CONFIG = TransformerConfig(vocab_size=40, max_len=16, d_model=12, n_heads=3, n_layers=2, d_ff=20)
LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz .,!")  # 34 tokens
QUIET = dict(device="cpu", progress=False)


def model(n_classes=3, seed=0, config=CONFIG, **kwargs):
    "Untrained, with a head that is not zero, in eval mode."
    set_seed(seed)
    made = Classifier(config, n_classes, **kwargs)
    torch.nn.init.normal_(made.head.weight)
    if made.pairs is not None:
        torch.nn.init.normal_(made.pairs.weight)
    return made.eval()


def small(**kwargs):
    return model(2, config=replace(CONFIG, vocab_size=LETTERS.vocab_size), **kwargs)


def tokens(lengths, seed=0, T=None):
    g = torch.Generator().manual_seed(seed)
    rows = [torch.randint(4, 40, (n,), generator=g) for n in lengths]
    padded = pad_rows(rows)
    return padded if T is None else torch.nn.functional.pad(padded, (0, T - padded.shape[1]))


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("positions", ["learned", "sinusoidal", "rotary", "alibi", "relative"])
def test_padding_changes_nothing(pool, positions):
    "Alone, or padded to any length beside longer texts: the same logits, and no gradient for the pad's vector."
    m = model(pool=pool, config=replace(CONFIG, positions=positions), n_bigrams=50)
    batch = tokens([3, 9, 1, 16])
    logits = m(batch)
    for row, n, wanted in zip(batch, (3, 9, 1, 16), logits):
        assert_close(m(row[None, :n])[0], wanted, rtol=1e-4, atol=1e-5)
    assert_close(m(tokens([3, 9, 1], T=16)), m(tokens([3, 9, 1])), rtol=1e-4, atol=1e-5)
    m.zero_grad()
    m(tokens([3, 9])).square().sum().backward()
    assert not m.embed.weight.grad[PAD].any()
    assert m.embed.weight.grad.any()


@pytest.mark.parametrize("pool", POOLS)
def test_rows_without_tokens_and_batches_without_rows(pool):
    m = model(pool=pool)
    mixed = torch.cat([tokens([5]), torch.zeros(1, 5, dtype=torch.int64)])
    logits = m(mixed)
    assert_close(logits[1], m.head.bias)
    assert_close(logits[:1], m(mixed[:1]))
    logits.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in m.parameters() if p.grad is not None)
    assert_close(m(torch.zeros(2, 0, dtype=torch.int64)), m.head.bias.expand(2, 3))
    for T in (0, 4):
        assert m(torch.zeros(0, T, dtype=torch.int64)).shape == (0, 3)
    assert [tuple(t.shape) for t in collate_labels([])] == [(0, 0), (0,)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=4), st.sampled_from(POOLS), st.integers(0, 5)
)
def test_pools_against_a_loop(lengths, pool, more):
    T = max(lengths) + more
    x = torch.randn(len(lengths), T, 3, generator=torch.Generator().manual_seed(sum(lengths)))
    x[torch.arange(T) >= torch.tensor(lengths)[:, None]] = (
        math.nan
    )  # what stands at a pad must not matter
    real = torch.arange(T) < torch.tensor(lengths)[:, None]
    ways = {"mean": lambda v: v.mean(0), "max": lambda v: v.amax(0), "first": lambda v: v[0]}
    wanted = [ways[pool](row[:n]) if n else torch.zeros(3) for row, n in zip(x, lengths)]
    assert_close(pool_tokens(x, real, pool), torch.stack(wanted))


def test_first_means_the_first_token_that_is_real():
    x, real = torch.randn(1, 4, 2), torch.tensor([[False, False, True, True]])
    assert_close(pool_tokens(x, real, "first"), x[:, 2])


def test_a_new_model_finds_all_classes_equally_likely():
    set_seed(0)
    assert_close(
        token_loss(Classifier(CONFIG, 5)(tokens([4, 7])), torch.tensor([0, 3])),
        torch.tensor(math.log(5)),
    )


def test_dropout_only_in_training():
    m = model(embed_dropout=0.5)
    batch = tokens([5, 8])
    assert torch.equal(m(batch), m(batch))
    m.train()
    assert not torch.equal(m(batch), m(batch))


def test_pairs_see_the_order_of_neighbours():
    "Without places, blocks or pairs the order cannot matter; with pairs it does, for neighbours."
    bare = replace(CONFIG, positions="alibi")
    m = model(config=bare, n_bigrams=1000)
    ab, ba = torch.tensor([[BOS, 10, 11, EOS]]), torch.tensor([[BOS, 11, 10, EOS]])
    assert not torch.allclose(m.embed_tokens(ab).sum(1), m.embed_tokens(ba).sum(1))
    assert_close(
        model(config=bare).embed_tokens(ab).sum(1), model(config=bare).embed_tokens(ba).sum(1)
    )
    assert torch.equal(
        m.embed_tokens(ab.int()), m.embed_tokens(ab)
    )  # no overflow where tokens are int32


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 60), st.integers(1, 20))
def test_windows_and_cuts(n, limit):
    row = list(range(n))
    parts = windows(row, limit)
    assert sorted({i for part in parts for i in part}) == row and len(parts) == max(
        1, math.ceil(n / limit)
    )
    assert all(
        len(part) == min(n, limit) and part == list(range(part[0], part[0] + len(part)))
        for part in parts
        if part
    )
    for how in ("head", "head_tail"):
        cut = truncate(row, limit, how)
        assert (
            len(cut) == min(n, limit)
            and cut == sorted(set(cut))
            and (n <= limit or limit < 3 or cut[0] == 0)
        )
    assert n <= limit or truncate(row, limit)[-1] == row[-1]


def test_tokens_are_left_out_in_training_only_and_repeatably():
    rows = [(list(range(4, 104)), 1), (list(range(4, 24)), 0)]
    plain, labels = collate_labels(rows, max_len=30)
    assert tuple(plain.shape) == (2, 30) and labels.tolist() == [1, 0] and plain[0, -1] == 103
    assert torch.equal(collate_labels(rows, max_len=30)[0], plain)
    set_seed(1)
    some, _ = collate_labels(rows, word_dropout=0.3)
    set_seed(1)
    assert torch.equal(some, collate_labels(rows, word_dropout=0.3)[0])
    kept = some[0][some[0] != PAD].tolist()
    assert 50 < len(kept) < 90 and kept == sorted(kept)
    assert (
        collate_labels(rows, word_dropout=0.999)[0].shape[0] == 2
    )  # a row may lose all its tokens


def test_it_learns_and_a_resumed_run_ends_alike(tmp_path):
    "`fit` seeds what leaves tokens out: a run that was cut goes on byte for byte."
    pairs = [("good film " * (i % 3 + 1), 1) for i in range(30)] + [
        ("bad film " * (i % 3 + 1), 0) for i in range(30)
    ]
    rows = label_rows([t for t, _ in pairs], [str(y) for _, y in pairs], LETTERS, ["0", "1"])
    batches = lambda: make_batches(
        rows,
        10,
        shuffle=True,
        by_length=True,
        collate=partial(collate_labels, max_len=16, word_dropout=0.1),
        length=lambda r: min(16, len(r[0])),
    )
    valid = make_batches(rows, 30, collate=partial(collate_labels, max_len=16))
    runs = []
    for name, until in (("whole", None), ("cut", 7)):
        m = small(embed_dropout=0.1)
        if until:

            class Stop(Exception): ...

            seen = []

            def look(model, seen=seen):
                seen.append(1)

            broken = batches()
            original = broken.collate_fn
            count = iter(range(10**6))

            def collate_until(some):
                if (
                    next(count) == until + 2
                ):  # one batch is read to check it, one to tell data sets apart
                    raise KeyboardInterrupt
                return original(some)

            broken.collate_fn = collate_until
            with pytest.raises(KeyboardInterrupt):
                fit(
                    m,
                    broken,
                    valid,
                    TrainingConfig(epochs=4, lr=1e-2),
                    folder=tmp_path / name,
                    save_every=1,
                    **QUIET,
                )
            m = small(embed_dropout=0.1)
        fit(
            m,
            batches(),
            valid,
            TrainingConfig(epochs=4, lr=1e-2),
            folder=tmp_path / name,
            resume=bool(until),
            **QUIET,
        )
        runs.append(m)
    assert exact_match(runs[0], valid) > 0.7  # a guess has half
    assert all(
        torch.equal(a, b)
        for a, b in zip(runs[0].state_dict().values(), runs[1].state_dict().values())
    )


def test_predict_gives_each_text_its_own_answer():
    m = small()
    texts = ["good", "", "a long text " * 30, None, "  ", "b\ud800", math.nan, "čekija", 7, "good"]
    found = predict(m, LETTERS, texts, ["bad", "good"])
    assert list(found.columns) == ["label", "p(bad)", "p(good)", "note"] and len(found) == len(
        texts
    )
    read = [0, 1, 2, 4, 7, 9]
    p = found[["p(bad)", "p(good)"]].to_numpy()
    assert np.isfinite(p[read]).all() and np.isnan(np.delete(p, read, axis=0)).all()
    np.testing.assert_allclose(p[read].sum(-1), 1, rtol=1e-5)
    assert (
        found["label"][read].isin(["bad", "good"]).all() and found["label"].drop(read).isna().all()
    )
    notes = found["note"]
    assert (
        notes[0] == notes[2] == ""
        and notes[1] == notes[4] == "empty text"
        and notes[7] == "unknown characters: č"
    )
    assert (
        "got NoneType" in notes[3]
        and "half a surrogate" in notes[5]
        and "got float" in notes[6]
        and "got int" in notes[8]
    )
    alone = pd.concat(
        [predict(m, LETTERS, [text], ["bad", "good"]) for text in texts], ignore_index=True
    )
    pd.testing.assert_frame_equal(alone, found, rtol=1e-4)
    pd.testing.assert_frame_equal(
        found[:1], predict(m, LETTERS, ["good"], ["bad", "good"]), rtol=1e-4
    )


def test_predict_averages_windows():
    m = small()
    text = "".join(random.Random(0).choices("abc ", k=50))
    row = [BOS, *LETTERS.encode(text), EOS]
    parts = torch.tensor(windows(row, 16))
    wanted = m(parts).softmax(-1).mean(0)
    got = torch.tensor(predict(m, LETTERS, [text])[["p(0)", "p(1)"]].to_numpy()[0])
    assert_close(got, wanted.detach(), rtol=1e-4, atol=1e-5)
    for how in ("head", "head_tail"):
        cut = m(torch.tensor([truncate(row, 16, how)])).softmax(-1)[0]
        assert_close(
            torch.tensor(predict(m, LETTERS, [text], how=how)[["p(0)", "p(1)"]].to_numpy()[0]),
            cut.detach(),
            rtol=1e-4,
            atol=1e-5,
        )


def test_predict_leaves_the_model_as_it_was():
    m = small(embed_dropout=0.5).train()
    assert np.ptp(predict(m, LETTERS, ["good"] * 3)["p(0)"].to_numpy()) < 1e-6 and m.training
    empty = predict(m, LETTERS, [], ["no", "yes"])
    assert list(empty.columns) == ["label", "p(no)", "p(yes)", "note"] and len(empty) == 0


def test_ten_megabytes_in_one_cell(tmp_path, monkeypatch):
    text, read = "good film, " * 1_000_000, []
    for name in ("encode", "unknown"):
        plain = getattr(CharTokenizer, name)
        monkeypatch.setattr(
            CharTokenizer,
            name,
            lambda self, some, plain=plain: read.append(len(some)) or plain(self, some),
        )
    found = predict(small(), LETTERS, ["good", text, "bad"])
    assert LONGEST_TEXT <= max(read) <= LONGEST_TEXT + 1  # with a space between the two ends
    assert found["label"].notna().all() and found["note"].tolist()[::2] == ["", ""]
    assert (
        found["note"][1]
        == f"only the first and the last {LONGEST_TEXT // 2:,} of {len(text):,} characters were read"
    )
    file = tmp_path / "long.csv"
    file.write_text(f'text,label\n"{text}",yes\nshort,no\n', encoding="utf-8")
    texts, labels = read_labeled_csv(file)
    assert [len(t) for t in texts] == [len(text), 5] and labels == ["yes", "no"]


def test_saved_and_loaded_whole(tmp_path):
    m = small(pool="max", embed_dropout=0.25, n_bigrams=20)
    folder = tmp_path / "mine"
    save_model(folder, m, LETTERS, ["bad", "gut ü"])
    loaded, tokenizer, labels = load_model(folder)
    assert (
        labels == ["bad", "gut ü"]
        and tokenizer.to_dict() == LETTERS.to_dict()
        and not loaded.training
    )
    assert (loaded.config, loaded.n_classes, loaded.pool, loaded.n_bigrams, loaded.dropout.p) == (
        m.config,
        2,
        "max",
        20,
        0.25,
    )
    batch = tokens([4, 9]) % LETTERS.vocab_size
    assert torch.equal(loaded(batch), m(batch))
    assert not list(folder.glob("*.bin")) and not list(folder.glob("*.pt"))
    (folder / "README.md").write_text("mine")
    save_model(folder, m, LETTERS, ["bad", "gut ü"])
    assert (folder / "README.md").read_text() == "mine"
    bare = Classifier(CONFIG, 4)  # a folder from save_pretrained alone is a model, too
    bare.save_pretrained(tmp_path / "bare")
    assert Classifier.from_pretrained(tmp_path / "bare").n_classes == 4


@pytest.mark.parametrize(
    "damage, said",
    [
        (lambda f: (f / "labels.json").unlink(), "labels.json"),
        (lambda f: (f / "labels.json").write_text('["b", "a"]'), "labels.json"),
        (lambda f: (f / "tokenizer.json").unlink(), "tokenizer.json"),
        (lambda f: CharTokenizer(LETTERS.alphabet[::-1]).save(f), "tokenizer.json"),
        (lambda f: (f / "model.safetensors").unlink(), "model.safetensors"),
        (
            lambda f: (f / "config.json").write_text(
                json.dumps(json.loads((f / "config.json").read_text()) | {"n_classes": 3})
            ),
            "config.json",
        ),
    ],
)
def test_a_damaged_folder_gets_one_sentence(tmp_path, damage, said):
    save_model(tmp_path / "m", small(), LETTERS, ["a", "b"])
    damage(tmp_path / "m")
    with pytest.raises(ValueError) as raised:
        load_model(tmp_path / "m")
    assert said in str(raised.value) and "\n" not in str(raised.value)


def written(folder, content):
    file = folder / "posts.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


@pytest.mark.parametrize(
    "content",
    [
        'text,label\nnice,pos\n"a, b\nc",neg\n',
        '\ufefftext,label\r\nnice,pos\r\n"a, b\r\nc",neg\r\n',
        'id,label , text\n1,pos,nice\n\n2, neg ,"a, b\nc"',
        gzip.compress('text,label\nnice,pos\n"a, b\nc",neg\n'.encode()),
    ],
)
def test_tables_that_can_be_read(tmp_path, content):
    assert read_labeled_csv(written(tmp_path, content)) == (["nice", "a, b\nc"], ["pos", "neg"])


@pytest.mark.parametrize(
    "content, said",
    [
        ("texts,label\na,b\n", "expected one column 'text', got 'texts', 'label'"),
        ("text,text,label\na,b,c\n", "expected one column 'text', got 'text', 'text', 'label'"),
        ("text;label\na;b\n", "expected one column 'text', got 'text;label'"),
        ("text,label\n", "expected rows below the heading, got none"),
        (
            "text,label\na,x\nb, \n",
            "row 2 (line 3): expected a label in column 'label', got nothing",
        ),
        (
            'text,label\na,x\n"b\nc",y\nd, e,x\n',
            "row 3 (line 5): expected 2 columns, got 3; a text with a comma stands in quotes",
        ),
        ("text,label\na\n", "row 1 (line 2): expected 2 columns, got 1"),
        ('text,label\n"a,x\nb,y\n', "is not CSV"),
        ("", "expected text, got an empty file"),
        ("text,label\nné,x\n".encode("latin-1"), "is not UTF-8 text: byte 12 is 0xe9"),
        ("text,label\na\x00b,x\n", "line 2: expected text, got the character NUL"),
    ],
)
def test_tables_that_cannot(tmp_path, content, said):
    import csv

    before = csv.field_size_limit()
    file = written(tmp_path, content)
    with pytest.raises(ValueError) as raised:
        read_labeled_csv(file)
    assert (
        said in str(raised.value)
        and str(file) in str(raised.value)
        and "\n" not in str(raised.value)
    )
    assert csv.field_size_limit() == before


def test_balance_and_report():
    rows = [([i], 0) for i in range(7)] + [([i], 1) for i in range(3)] + [([9], 2)]
    even = oversample(rows)
    assert even[: len(rows)] == rows and [sum(y == k for _, y in even) for k in range(3)] == [
        7,
        7,
        7,
    ]
    assert {n for row, y in even for n in row if y == 1} == {0, 1, 2} and oversample(rows) == even
    assert oversample(rows[:7]) == rows[:7] and oversample([]) == []
    found = classification_report(["a", "a", "a", "b", "new"], ["a", "b", "a", None, "a"])
    assert found.index.tolist() == ["a", "b", "new"] and found["texts"].tolist() == [3, 1, 1]
    assert found.loc["a", ["precision", "recall", "f1"]].tolist() == pytest.approx(
        [2 / 3, 2 / 3, 2 / 3]
    )
    assert (
        found.loc["b"].tolist() == [1, 0, 0, 0]
        and math.isnan(found.loc["new", "precision"])
        and found.loc["new", "f1"] == 0
    )
    assert list(classification_report([], []).columns) == ["texts", "precision", "recall", "f1"]


def test_attribution_sums_to_the_logit_where_the_model_is_linear():
    "Mean pool, no blocks, no bias: gradient times input is exact."
    m = model(2, n_bigrams=30, config=replace(CONFIG, positions="alibi"))
    m.stack = torch.nn.Module()
    m.stack.forward = lambda x, mask: x
    batch = tokens([4, 9])
    logits, scores = m(batch), gradient_times_input(m, batch, 1)
    assert_close(
        scores.sum(-1),
        (logits - m.head.bias)[:, 1] - (logits - m.head.bias)[:, 0],
        rtol=1e-4,
        atol=1e-5,
    )
    assert not scores[0, 4:].any()
    three = model(3)
    assert_close(
        sum(gradient_times_input(three, batch, k) for k in range(3)),
        torch.zeros(2, 9),
        rtol=0,
        atol=1e-4,
    )
    assert all(p.grad is None for p in three.parameters())


M, T = small(), LETTERS
BAD = {
    "pool_tokens": [
        (
            "an unknown pool",
            lambda: pool_tokens(torch.zeros(1, 2, 3), torch.ones(1, 2, dtype=torch.bool), "sum"),
            (ValueError, "pool: expected one of", "'sum'"),
        ),
        (
            "numbers as mask",
            lambda: pool_tokens(torch.zeros(1, 2, 3), torch.ones(1, 2)),
            (ValueError, "real: expected booleans", "torch.float32"),
        ),
        (
            "a mask of another shape",
            lambda: pool_tokens(torch.zeros(1, 2, 3), torch.ones(2, 1, dtype=torch.bool)),
            (ValueError, "real: expected booleans of shape (1, 2)", "(2, 1)"),
        ),
    ],
    "Classifier": [
        (
            "a dict",
            lambda: Classifier({}, 2),
            (TypeError, "config: expected a TransformerConfig", "dict"),
        ),
        (
            "one class",
            lambda: Classifier(CONFIG, 1),
            (ValueError, "n_classes: expected a whole number of 2 or more", "1"),
        ),
        ("half a class", lambda: Classifier(CONFIG, 2.5), (TypeError, "n_classes:", "2.5")),
        (
            "a pool",
            lambda: Classifier(CONFIG, 2, "cls"),
            (ValueError, "pool: expected one of ['mean', 'max', 'first']", "'cls'"),
        ),
        (
            "all dropped",
            lambda: Classifier(CONFIG, 2, embed_dropout=1.0),
            (ValueError, "embed_dropout: expected a number", "1.0"),
        ),
        (
            "fewer pairs than none",
            lambda: Classifier(CONFIG, 2, n_bigrams=-1),
            (ValueError, "n_bigrams:", "-1"),
        ),
        (
            "one row",
            lambda: M(torch.tensor([5, 6])),
            (ValueError, "tokens: expected integers of shape (B, T)", "(2,)"),
        ),
        (
            "fractions",
            lambda: M(torch.zeros(1, 2)),
            (TypeError, "tokens: expected a tensor of integers", "float32"),
        ),
        (
            "too long",
            lambda: M(torch.full((1, 17), 5)),
            (ValueError, "x: expected at most max_len = 16", "17"),
        ),
    ],
    "truncate": [
        ("no room", lambda: truncate([1], 0), (ValueError, "max_len:", "0")),
        ("a way", lambda: truncate([1], 1, "tail"), (ValueError, "how: expected one of", "'tail'")),
    ],
    "windows": [("no room", lambda: windows([1], 0), (ValueError, "max_len:", "0"))],
    "collate_labels": [
        (
            "fractions",
            lambda: collate_labels([([1.5], 0)]),
            (TypeError, "rows: expected lists of whole numbers", "float32"),
        ),
        ("no room", lambda: collate_labels([([1], 0)], max_len=0), (ValueError, "max_len:", "0")),
        (
            "all left out",
            lambda: collate_labels([([1], 0)], word_dropout=1.0),
            (ValueError, "word_dropout: expected a number", "1.0"),
        ),
        (
            "a label that is no number",
            lambda: collate_labels([([1], "good")]),
            (TypeError, "rows: expected labels that are whole numbers", "'good'"),
        ),
    ],
    "label_names": [
        (
            "one class",
            lambda: label_names(["a", "a"]),
            (ValueError, "labels: expected at least two different ones", "only 'a'"),
        ),
        (
            "none",
            lambda: label_names([]),
            (ValueError, "labels: expected at least two different ones", "none"),
        ),
        (
            "a string",
            lambda: label_names("ab"),
            (TypeError, "labels: expected a list of strings", "str"),
        ),
        ("numbers", lambda: label_names([1, "a"]), (TypeError, "labels: expected strings", "1")),
    ],
    "label_rows": [
        (
            "unseen",
            lambda: label_rows(["a", "b"], ["x", "z"], T, ["x", "y"]),
            (ValueError, "labels: row 2 has 'z', which is none of", "'x', 'y'"),
        ),
        (
            "too few",
            lambda: label_rows(["a", "b"], ["x"], T, ["x", "y"]),
            (ValueError, "labels: expected one for each of the 2 texts", "1"),
        ),
        (
            "a text that is none",
            lambda: label_rows([None], ["x"], T, ["x", "y"]),
            (TypeError, "text: expected a string", "NoneType"),
        ),
    ],
    "predict": [
        (
            "a string",
            lambda: predict(M, T, "good"),
            (TypeError, "texts: expected a list of strings", "str"),
        ),
        (
            "too few names",
            lambda: predict(M, T, ["good"], ["a"]),
            (ValueError, "labels: expected 2 different names", "['a']"),
        ),
        (
            "a way",
            lambda: predict(M, T, ["good"], how="tail"),
            (ValueError, "how: expected one of", "'tail'"),
        ),
        (
            "another tokenizer",
            lambda: predict(M, CharTokenizer("ab"), ["a"]),
            (ValueError, "tokenizer: expected the model's, of 34 tokens", "6"),
        ),
        (
            "no model",
            lambda: predict(None, T, ["a"]),
            (TypeError, "model: expected a Classifier", "NoneType"),
        ),
    ],
    "read_labeled_csv": [
        (
            "nothing there",
            lambda: read_labeled_csv("no such"),
            (ValueError, "file: 'no such' cannot be read", "No such file"),
        ),
        ("no path", lambda: read_labeled_csv(3), (TypeError, "file: expected a path", "int")),
    ],
    "oversample": [("a seed", lambda: oversample([], -1), (ValueError, "seed:", "-1"))],
    "classification_report": [
        (
            "too few",
            lambda: classification_report(["a"], []),
            (ValueError, "said: expected 1 answers", "0"),
        ),
    ],
    "gradient_times_input": [
        (
            "a class too many",
            lambda: gradient_times_input(M, torch.tensor([[5]]), 2),
            (ValueError, "target: expected a class below 2", "2"),
        ),
        (
            "no class",
            lambda: gradient_times_input(M, torch.tensor([[5]]), -1),
            (ValueError, "target:", "-1"),
        ),
        (
            "empty batch",
            lambda: gradient_times_input(M, torch.zeros(0, 4, dtype=torch.int64), 1),
            lambda found: found.shape == (0, 4),
        ),
    ],
}


@pytest.mark.parametrize("call, wanted", cases(BAD))
def test_bad_input(call, wanted):
    judge(call, wanted)


def test_the_table_has_all():
    assert public_names(module) == set(BAD)


def test_subwords_know_every_text():
    tokenizer = SubwordTokenizer.train(["good film"] * 5, 300)
    m = model(2, config=replace(CONFIG, vocab_size=tokenizer.vocab_size))
    found = predict(m, tokenizer, ["Привет 🎬", "\x00\x07", "e\u0301" * 20])
    assert found["label"].notna().all() and not found["note"].any()
