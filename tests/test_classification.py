"""`labels`: long and odd texts get a defined answer, one bad row costs itself only, a table is read
or refused in one sentence."""

import gzip
import math
import random
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import every_row
from test_classifier import CONFIG, LETTERS, model
from torch.testing import assert_close

from former_nb.base.core import set_seed
from former_nb.data.tokenization import CharTokenizer, SubwordTokenizer
from former_nb.data.tokens import BOS, EOS, KINDS, PAD
from former_nb.decoding.classification import (
    classification_report,
    collate_labels,
    label_batches,
    label_names,
    label_rows,
    oversample,
    predict,
    read_labeled_csv,
    truncate,
    windows,
)
from former_nb.models.bigrams import BigramEmbedding


def small(**kwargs):
    return model(2, config=replace(CONFIG, vocab_size=LETTERS.vocab_size), **kwargs)


def test_texts_get_the_numbers_of_their_classes():
    names = label_names(["good", "bad", "good"])
    rows = label_rows(["fun", "no fun"], ["good", "bad"], LETTERS, names)
    assert names == ["bad", "good"] and [label for _, label in rows] == [1, 0]
    assert rows[0][0] == [BOS, *LETTERS.encode("fun"), EOS]


def test_a_row_is_cut_in_the_middle_or_into_windows_that_overlap():
    row = list(range(10, 20))
    assert truncate(row, 6) == [10, 11, 16, 17, 18, 19]
    assert windows(row, 4) == [[10, 11, 12, 13], [13, 14, 15, 16], [16, 17, 18, 19]]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 60), st.integers(1, 20))
def test_windows_and_cuts(n, limit):
    row = list(range(n))
    parts = windows(row, limit)
    assert sorted({i for part in parts for i in part}) == row
    assert len(parts) == max(1, math.ceil(n / limit))
    for part in filter(None, parts):
        assert len(part) == min(n, limit) and part == list(range(part[0], part[0] + len(part)))
    cut = truncate(row, limit)
    assert len(cut) == min(n, limit) and cut == sorted(set(cut))
    assert n <= limit or limit < 3 or cut[0] == 0
    assert n <= limit or cut[-1] == row[-1]


def test_tokens_are_left_out_before_the_cut_and_repeatably():
    rows = [(list(range(4, 104)), 1), (list(range(4, 24)), 0)]
    plain, labels = collate_labels(rows, max_len=30)
    assert tuple(plain.shape) == (2, 30) and labels.tolist() == [1, 0] and plain[0, -1] == 103
    draws = []
    for _ in range(2):
        set_seed(1)
        draws.append(collate_labels(rows, word_dropout=0.3)[0])
    assert torch.equal(*draws)
    kept = draws[0][0][draws[0][0] != PAD].tolist()
    assert 50 < len(kept) < 90 and kept == sorted(kept)
    assert collate_labels(rows, max_len=60, word_dropout=0.3)[0].shape[1] == 60
    assert len(collate_labels(rows, word_dropout=0.999)[0]) == 2  # a row may lose all its tokens
    assert [tuple(t.shape) for t in collate_labels([])] == [(0, 0), (0,)]


def test_batches_are_cut_and_of_similar_length():
    rows = [([5] * n, n % 2) for n in range(1, 41)]
    found = list(label_batches(rows, 10, max_len=20))
    assert max(t.shape[1] for t, _ in found) == 20 and sum(len(labels) for _, labels in found) == 40
    assert sum((t == PAD).sum().item() for t, _ in found) < 150  # 600 in the worst order
    rows = [([5] * 9, i) for i in range(40)]
    batches = [label_batches(rows, 2, shuffle=True, seed=seed) for seed in (0, 0, 1)]
    orders = [torch.cat([labels for _, labels in some]) for some in batches]
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[0], orders[2])


def test_predict_gives_each_text_its_own_answer():
    m, names = small(), ["bad", "good"]
    texts = ["good", "", "a long text " * 30, None, "  ", "b\ud800", math.nan, "čekija", 7, "good"]
    found = predict(m, LETTERS, texts, names)
    assert list(found.columns) == ["label", "p(bad)", "p(good)", "note"] and len(found) == 10
    read = [0, 1, 2, 4, 7, 9]
    p = found[["p(bad)", "p(good)"]].to_numpy()
    assert np.isfinite(p[read]).all() and np.isnan(np.delete(p, read, axis=0)).all()
    np.testing.assert_allclose(p[read].sum(-1), 1, rtol=1e-5)
    assert found["label"][read].isin(names).all() and found["label"].drop(read).isna().all()
    notes = ["", "empty text", "", "NoneType", "empty text", "surrogate", "float", "č", "int", ""]
    assert all(part in note for part, note in zip(notes, found["note"]))
    assert not any(found["note"][[0, 2, 9]])
    alone = [predict(m, LETTERS, [text], names) for text in texts]
    pd.testing.assert_frame_equal(pd.concat(alone, ignore_index=True), found, rtol=1e-4)


def test_predict_averages_windows_or_truncates():
    m, text = small(), "".join(random.Random(0).choices("abc ", k=50))
    row = [BOS, *LETTERS.encode(text), EOS]
    wanted = {"head_tail": m(torch.tensor([truncate(row, 16)])).softmax(-1)[0]}
    wanted["windows"] = m(torch.tensor(windows(row, 16))).softmax(-1).mean(0)
    for strategy, p in wanted.items():
        found = predict(m, LETTERS, [text], strategy=strategy)[["p(0)", "p(1)"]].to_numpy()[0]
        assert_close(torch.tensor(found), p.detach(), rtol=1e-4, atol=1e-5)


def test_predict_leaves_the_model_as_it_was():
    m = small(embed_dropout=0.5).train()
    assert np.ptp(predict(m, LETTERS, ["good"] * 3)["p(0)"].to_numpy()) < 1e-6 and m.training
    empty = predict(m, LETTERS, [], ["no", "yes"])
    assert list(empty.columns) == ["label", "p(no)", "p(yes)", "note"] and len(empty) == 0


def test_a_long_cell_of_a_table(tmp_path):
    text = "word " * 30_000
    file = tmp_path / "long.csv"
    file.write_text(f'text,label\n"{text}",yes\nshort,no\n', encoding="utf-8")
    texts, labels = read_labeled_csv(file)
    assert [len(t) for t in texts] == [len(text), 5] and labels == ["yes", "no"]


def test_subwords_know_every_text():
    tokenizer = SubwordTokenizer.train(["good film"] * 5, 300)
    m = model(2, config=replace(CONFIG, vocab_size=tokenizer.vocab_size))
    found = predict(m, tokenizer, ["Привет 🎬", "\x00\x07", "e\u0301" * 20])
    assert found["label"].notna().all() and not found["note"].any()


def written(folder, content):
    file = folder / "posts.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


TABLE = 'text,label\nnice,pos\n"a, b\nc",neg\n'


@pytest.mark.parametrize(
    "content",
    [
        TABLE,
        "\ufeff" + TABLE.replace("\n", "\r\n"),
        'id,label , text\n1,pos,nice\n\n2, neg ,"a, b\nc"',
        gzip.compress(TABLE.encode(), mtime=0),
    ],
)
def test_tables_that_can_be_read(tmp_path, content):
    assert read_labeled_csv(written(tmp_path, content)) == (["nice", "a, b\nc"], ["pos", "neg"])


def test_a_table_of_words_that_pandas_takes_for_nothing(tmp_path):
    file = written(tmp_path, "text,label\nNA,null\n1,0\n")
    assert read_labeled_csv(file) == (["NA", "1"], ["null", "0"])


def test_a_cell_with_nothing_in_it_is_a_text(tmp_path):
    long = "a" * 200_000
    file = written(tmp_path, f'label,text\r\nx,\r\n \r\ny,""\r\nx,"{long}\r\nb"\r\n')
    texts, labels = read_labeled_csv(file)
    assert texts == ["", "", f"{long}\nb"] and labels == ["x", "y", "x"]


@pytest.mark.parametrize(
    "content, why",
    [
        ("texts,label\na,b\n", "expected one column 'text', got ['texts', 'label']"),
        ("text,text,label\na,b,c\n", "expected one column 'text'"),
        ("text;label\na;b\n", "expected one column 'text', got ['text;label']"),
        ("text,label\n", "expected rows below the heading"),
        ("text,label\na,x\nb, \n", "row 2"),
        ('text,label\na,x\n"b\nc",y\nd, e,x\n', "2 cells in row 3 (line 5)"),
        ("text,label\na\n", "row 1"),
        ("label,text\nx,a\ny\n", "expected at least 2 cells in row 2 (line 3), got ['y']"),
        ("label,id,text\nx,1,a\n\ny,2,\nx,3\n", "at least 3 cells in row 3"),
        ('text,label\n"a,x\nb,y\n', "is not CSV"),
        ("", "empty file"),
        ("text,label\nné,x\n".encode("latin-1"), "UTF-8"),
        ("text,label\na\x00b,x\n", "NUL in line 2"),
    ],
)
def test_tables_that_cannot(tmp_path, content, why):
    file = written(tmp_path, content)
    with pytest.raises(ValueError) as raised:
        read_labeled_csv(file)
    message = str(raised.value)
    assert why in message and str(file) in message and "\n" not in message


def test_balance_and_report():
    rows = [([i], 0) for i in range(7)] + [([i], 1) for i in range(3)] + [([9], 2)]
    even = oversample(rows)
    assert even[: len(rows)] == rows and [sum(y == k for _, y in even) for k in range(3)] == [7] * 3
    assert {n for row, y in even for n in row if y == 1} == {0, 1, 2} and oversample(rows) == even
    assert oversample(rows[:7]) == rows[:7] and oversample([]) == []
    found = classification_report(["a", "a", "a", "b", "new"], ["a", "b", "a", None, "a"])
    assert found.index.tolist() == ["a", "b", "new"] and found["texts"].tolist() == [3, 1, 1]
    assert found.loc["a"].tolist() == pytest.approx([3, 2 / 3, 2 / 3, 2 / 3])
    assert found.loc["b"].tolist() == [1, 0, 0, 0] and found.loc["new", "f1"] == 0
    assert math.isnan(found.loc["new", "precision"])
    assert list(classification_report([], []).columns) == ["texts", "precision", "recall", "f1"]


M, T, XY = small(), LETTERS, ["x", "y"]
BAD = [
    ("no room", lambda: truncate([1], 0), ValueError, "max_len"),
    ("a way", lambda: predict(M, T, ["a"], strategy="tail"), ValueError, "strategy"),
    ("no window", lambda: windows([1], 0), ValueError, "max_len"),
    ("fractions", lambda: collate_labels([([1.5], 0)]), TypeError, "rows"),
    ("a word", lambda: collate_labels([([1], "good")]), TypeError, ""),
    ("all out", lambda: label_batches([([1], 0)], 1, word_dropout=1.0), ValueError, "word_dropout"),
    ("below zero", lambda: BigramEmbedding(CONFIG, -1), ValueError, "n_bigrams"),
    ("one class", lambda: label_names(["a", "a"]), ValueError, "labels"),
    ("no class", lambda: label_names([]), ValueError, "labels"),
    ("a string", lambda: label_names("ab"), TypeError, ""),
    ("numbers", lambda: label_names([1, 2]), TypeError, "labels"),
    ("unseen", lambda: label_rows(["a", "b"], ["x", "z"], T, XY), ValueError, "labels"),
    ("too few", lambda: label_rows(["a", "b"], ["x"], T, XY), ValueError, ""),
    ("one text", lambda: predict(M, T, "good"), TypeError, "texts"),
    ("few names", lambda: predict(M, T, ["good"], ["a"]), ValueError, "labels"),
    ("tokenizer", lambda: predict(M, CharTokenizer("ab"), ["a"]), ValueError, "tokenizer"),
    ("no classes", lambda: predict(torch.nn.Linear(2, 2), T, ["a"]), ValueError, "model"),
    ("no model", lambda: predict(None, T, ["a"]), ValueError, "model"),
    ("nothing there", lambda: read_labeled_csv("no such"), ValueError, "file"),
    ("fewer said", lambda: classification_report(["a"], []), ValueError, ""),
]
test_bad_input_is_named = every_row(BAD)


def test_a_text_that_spells_a_special_token_costs_its_own_row_only():
    "A tokenizer may refuse one of several texts."

    class Strict(CharTokenizer):
        kind = "strict"

        def encode(self, text):
            if "!" in text:
                raise ValueError(f"text: expected no special token, got {text!r}")
            return super().encode(text)

    KINDS.pop("strict")
    strict = Strict(LETTERS.alphabet)
    texts = ["good", "bad!", "", None, "a film"]
    found = predict(small(), strict, texts)
    plain = predict(small(), LETTERS, texts)
    assert found["label"].isna().tolist() == [False, True, False, True, False]
    assert "special token" in found["note"][1] and found["note"][2] == "empty text"
    pd.testing.assert_frame_equal(found.drop(index=1), plain.drop(index=1))
