"""Toy texts are different, right and repeatable, and only their answers are targets."""

import string

import pytest
from refusals import every_row

from former_nb.data.text import EOS, IGNORE
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import TOYS, collate_answers, toy_texts


@pytest.mark.parametrize("task", TOYS)
@pytest.mark.parametrize(("n", "symbols", "length"), [(5, 3, 4), (200, 11, 10), (64, 2, 7)])
def test_toy_texts_are_different_right_and_repeatable(task, n, symbols, length):
    texts, again, other = (toy_texts(task, n, symbols, length, seed=seed) for seed in (4, 4, 5))
    assert len(set(texts)) == len(texts) == n and texts == again != other
    solve = dict(copy=str, reverse=lambda q: q[::-1], sort=lambda q: "".join(sorted(q)))[task]
    for question, answer in (text.split("=") for text in texts):
        assert len(question) == length and answer == solve(question)
        assert set(question) <= set(string.ascii_lowercase[:symbols])


def test_more_texts_begin_with_the_same_ones():
    assert toy_texts("sort", 90)[:30] == toy_texts("sort", 30)


def test_only_the_answer_and_its_end_are_targets():
    tokenizer, no = CharTokenizer("=abc"), IGNORE
    _, targets = collate_answers(tokenizer.encode("=")[0])(
        encode_texts(["ab=ba", "c=c"], tokenizer)
    )
    [a], [b], [c] = map(tokenizer.encode, "abc")
    assert targets.tolist() == [[no, no, no, b, a, EOS], [no, no, c, EOS, no, no]]


test_bad_input_is_named = every_row(
    [
        ("letters", lambda: toy_texts("copy", 5, 27), ValueError, "symbols, length"),
        ("n", lambda: toy_texts("copy", 0), ValueError, "n"),
    ]
)
