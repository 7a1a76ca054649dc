"""A long text as data: its parts, its letters and the type of its tokens, and texts by name."""

import random

import torch
from refusals import refuses
from test_long_texts import read
from torch.testing import assert_close

from former_nb.data.long_text_data import load_long_text, long_text_data
from former_nb.data.long_texts import text_windows
from former_nb.data.text import UNK


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
