"""The data that are made here: reviews of a known structure, numbers in words, and toy texts."""

import random
import string

import pytest
from refusals import every_row

from former_nb.data.text import EOS, IGNORE
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import (
    TOYS,
    collate_answers,
    english_number,
    german_number,
    number_pairs,
    small_reviews,
    toy_texts,
)


def test_the_generated_reviews_have_the_structure_of_the_real_ones():
    parts = small_reviews()
    assert parts == small_reviews()
    assert (len(parts["train"]), len(parts["test"])) == (1840, 464)
    clauses = {}
    for part, rows in parts.items():
        labels = [y for _, y in rows]
        assert labels == sorted(labels) and sum(labels) * 2 == len(rows)
        frames = [rows[i : i + 4] for i in range(0, len(rows), 4)]
        clauses[part] = {four[0][0].rstrip(".") for four in frames}
        # neighbours share the clause
        assert all(four[0][0].rstrip(".") in text for four in frames for text, _ in four)
        for text, label in rows:
            good = any(word in text for word in "good great moving clever funny beautiful".split())
            turned = any(w in text for w in (" was not ", " is never ", " was anything but "))
            assert label == (good != turned)
    assert not clauses["train"] & clauses["test"] and len(clauses["train"]) == 460


def from_german(words):
    "The number that German words spell, read by another road: the largest unit first."
    if "tausend" in words:
        high, _, low = words.partition("tausend")
        return 1000 * from_german(high) + from_german(low)
    if "hundert" in words:
        high, _, low = words.partition("hundert")
        return 100 * from_german(high) + from_german(low)
    units = "ein zwei drei vier f\u00fcnf sechs sieben acht neun zehn elf zw\u00f6lf".split()
    small = {"": 0, "null": 0, "eins": 1, "sechzehn": 16, "siebzehn": 17}
    small |= {word: n for n, word in enumerate(units, start=1)}
    small |= {word + "zehn": 10 + n for word, n in small.items() if n in (3, 4, 5, 8, 9)}
    some = "zwanzig drei\u00dfig vierzig f\u00fcnfzig sechzig siebzig achtzig neunzig".split()
    tens = {word: 10 * n for n, word in enumerate(some, start=2)}
    ones, und, ten = words.rpartition("und")
    return small[words] if words in small else tens[ten] + small[ones]


def from_english(words):
    "The number that English words spell."
    values = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
    values += " fifteen sixteen seventeen eighteen nineteen"
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()
    values = {word: n for n, word in enumerate(values.split())}
    values |= {word: 10 * n for n, word in enumerate(tens, start=2)}
    total = group = 0
    for word in words.replace(" and ", " ").replace("-", " ").split():
        if word == "thousand":
            total, group = 1000 * group, 0
        else:
            group = 100 * group if word == "hundred" else group + values[word]
    return total + group


def test_number_words_are_read_back():
    numbers = [*range(1200), 999_999, *random.Random(1).sample(range(1_000_000), 500)]
    for n in numbers:
        assert from_german(german_number(n)) == from_english(english_number(n)) == n


def test_no_number_is_in_two_parts():
    parts = number_pairs()
    assert parts == number_pairs()
    assert [len(parts[name]) for name in ("train", "valid", "test")] == [9000, 500, 500]
    numbers = {part: {from_german(german) for german, _ in rows} for part, rows in parts.items()}
    for part, rows in parts.items():
        assert {from_english(english) for _, english in rows} == numbers[part]
    assert len(set.union(*numbers.values())) == 10_000 and set(range(100)) <= numbers["train"]


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


BAD = [
    ("letters", lambda: toy_texts("copy", 5, 27), ValueError, "symbols, length"),
    ("n", lambda: toy_texts("copy", 0), ValueError, "n"),
    ("below zero", lambda: german_number(-1), ValueError, "n"),
    ("too large", lambda: english_number(1_000_000), ValueError, "n"),
    ("no task", lambda: toy_texts("turn", 3), ValueError, "task"),
    ("few texts", lambda: toy_texts("sort", 99, 2, 3), ValueError, "symbols, length"),
    ("no separator", lambda: collate_answers(9)([[1, 5, 2]]), ValueError, "rows"),
]
test_bad_input_is_named = every_row(BAD)
