"""Merges are those of the library, and every text comes back."""

import os
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import every_row
from tokenizers.decoders import ByteLevel

from former_nb.data.subwords import apply_bpe, count_words, cut_words, merge, train_bpe
from former_nb.data.tokenization import SubwordTokenizer

PLAYS = Path(os.environ.get("FORMER_NB_DATA") or "none", "tinyshakespeare", "input.txt")


def test_the_merges_of_the_help_pages_are_the_librarys():
    pages = [topics[name] for name in sorted(topics)[:20]]
    merges = train_bpe(count_words(pages), 500)
    fast = SubwordTokenizer.train(pages, 4 + 256 + 500)
    assert merges == fast.merges and len(merges) == 500
    for text in (*pages[:3], "Žydrūnė\n\n  🙂 it's '''x''' 12345 é́"):
        text = fast.normalise(text)
        pieces = apply_bpe(text, merges)
        assert pieces == [fast.backend.id_to_token(i - 4) for i in fast.encode(text)]


@pytest.mark.real_data
@pytest.mark.skipif(not PLAYS.is_file(), reason="FORMER_NB_DATA has no tinyshakespeare")
def test_five_hundred_merges_of_the_plays_are_the_librarys():
    text = PLAYS.read_text(encoding="utf-8")
    assert train_bpe(count_words([text]), 500) == SubwordTokenizer.train([text], 760).merges


@settings(deadline=None, max_examples=30)
@given(st.lists(st.text("ab é", max_size=30), min_size=1, max_size=6), st.integers(0, 30))
def test_any_few_texts_give_the_librarys_merges(texts, n):
    "Short texts are full of ties."
    if any(texts):
        ours = train_bpe(count_words(texts), n)
        assert ours == SubwordTokenizer.train(texts, 260 + n).merges


@settings(deadline=None)
@given(st.text(), st.lists(st.tuples(*[st.sampled_from("abĠcÃ©")] * 2), max_size=9))
def test_every_text_comes_back_whatever_its_bytes(text, merges):
    pieces = apply_bpe(text, merges)
    assert "".join(pieces) == "".join(cut_words(text))
    assert ByteLevel().decode(pieces) == text


def test_every_byte_comes_back():
    text = "".join(map(chr, [*range(0x800), 0x2028, 0xFFFD, 0x10FFFF]))
    assert ByteLevel().decode(apply_bpe(text, train_bpe(count_words([text * 2]), 50))) == text


def test_a_piece_is_used_once_and_nothing_is_changed():
    row = list("aaaab")
    assert merge(row, ("a", "a")) == ["aa", "aa", "b"] and row == list("aaaab")
    assert merge([], ("a", "a")) == [] and merge(["ab", "a"], ("a", "b")) == ["ab", "a"]


def test_training_stops_where_no_pair_occurs_twice():
    for texts, n in [(["abcd"], 9), ([], 9), (["abab"], 0)]:
        assert train_bpe(count_words(texts), n) == []


def test_words_may_be_of_any_letters_and_ties_go_to_the_older_pieces():
    words = Counter({"žab": 2, "ab": 1, "cd": 3})
    assert train_bpe(words, 9) == [("a", "b"), ("c", "d"), ("ž", "ab")]


WORDS = {
    "count_words": [("one text", lambda: count_words("one text"), TypeError, "texts", "one text")],
    "train_bpe": [
        ("texts", lambda: train_bpe(["one text"], 9), TypeError, "words", "list"),
        ("merges", lambda: train_bpe(Counter(), -1), ValueError, "n_merges", "-1"),
        ("half a merge", lambda: train_bpe(Counter(), 0.5), TypeError, "n_merges", "0.5"),
    ],
}
test_bad_words_get_one_clear_sentence = every_row(WORDS)
