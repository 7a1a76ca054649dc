"""German names, reviews, number words and questions: small data for lessons, commands and tests.

Nothing is downloaded, and every machine gets the same rows.
"""

import itertools
import random
import string
from collections.abc import Callable
from pathlib import Path

from ..base.files import read_names
from ..base.guards import check_choice, check_int, check_ints, check_that
from .text import IGNORE, collate

__all__ = [
    "GERMAN_NAMES",
    "small_reviews",
    "german_number",
    "english_number",
    "number_pairs",
    "SEPARATOR",
    "toy_texts",
    "collate_answers",
]


# German given names, for a model that knows the Lithuanian ones: none of them is in that list, and
# none has a letter that Lithuanian names lack, so *Walter* is not here
GERMAN_NAMES = read_names(Path(__file__).parent / "names" / "german.csv")


_THINGS = ["the film", "the plot", "this story", "her acting", "the ending", "that music"]
_THINGS += ["the first half", "the camera work"]
_AFFIRM = ["was", "is", "is certainly"]
_DENY = ["was not", "is never", "was anything but"]
_GOOD = "good great moving clever funny beautiful".split()
_BAD = "bad boring awful dull clumsy weak".split()
_FRAMES = ["{}.", "i must say {}.", "{}, my friends told me.", "we all felt that {}."]


def _label(verb, word):
    "1 for praise: a good word affirmed, or a bad one denied."
    return int((verb in _AFFIRM) == (word in _GOOD))


def _frame(clauses, label):
    "Each clause in each frame, as a film has several reviews."
    return [(frame.format(clause), label) for clause in clauses for frame in _FRAMES]


def small_reviews() -> dict[str, list[tuple[str, int]]]:  # 'train', 'test': text, label (1 = good)
    """Generated sentences, sorted by label, four in a row with the same clause; none in two parts.

    The label of a sentence follows from its words. *Good* stands in both kinds, because *not* turns
    it round. Of *was good*, *was not good*, *was bad* and *was not bad*, no sum over words gets all
    four right, and so a model has to attend.
    """
    parts: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    for label in (0, 1):
        clauses = [
            f"{thing} {verb} {word}"
            for thing, verb, word in itertools.product(_THINGS, _AFFIRM + _DENY, _GOOD + _BAD)
            if _label(verb, word) == label
        ]
        random.Random(label).shuffle(clauses)
        cut = len(clauses) * 4 // 5
        parts["train"] += _frame(clauses[:cut], label)
        parts["test"] += _frame(clauses[cut:], label)
    return parts


_GERMAN_ONES = """null ein zwei drei vier fünf sechs sieben acht neun zehn elf zwölf dreizehn
vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn""".split()
_GERMAN_TENS = "- - zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()
_ENGLISH_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen
fourteen fifteen sixteen seventeen eighteen nineteen""".split()
_ENGLISH_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()


def _check_number(n):
    "Raise unless `n` is a whole number that there are words for."
    check_int("n", n, 0)
    check_that(n <= 999_999, "n", "0 to 999,999", n)


def _german(n, end):
    "`end`: is this the end of the number? Only there one is eins."
    if n < 20:
        return "eins" if n == 1 and end else _GERMAN_ONES[n]
    if n < 100:
        tens = _GERMAN_TENS[n // 10]
        return f"{_GERMAN_ONES[n % 10]}und{tens}" if n % 10 else tens
    unit, word = (100, "hundert") if n < 1000 else (1000, "tausend")
    rest = _german(n % unit, end) if n % unit else ""
    return _german(n // unit, False) + word + rest


def _english(n):
    "The words of `n`, with hyphens and *and*."
    if n < 20:
        return _ENGLISH_ONES[n]
    if n < 100:
        tens = _ENGLISH_TENS[n // 10]
        return f"{tens}-{_ENGLISH_ONES[n % 10]}" if n % 10 else tens
    unit, word = (100, "hundred") if n < 1000 else (1000, "thousand")
    whole = f"{_english(n // unit)} {word}"
    if n % unit == 0:
        return whole
    link = "and " if n % unit < 100 else ""
    return f"{whole} {link}{_english(n % unit)}"


def german_number(
    n: int,  # 0 to 999,999
) -> str:
    """`n` in German words, the ones before the tens, written as one: 21 is einundzwanzig.

    So the order changes in translation, and no word can be looked up.
    """
    _check_number(n)
    return _german(n, True)


def english_number(
    n: int,  # 0 to 999,999
) -> str:
    "`n` in English words: 21 is twenty-one, 305 is three hundred and five."
    _check_number(n)
    return _english(n)


def _spell(numbers):
    "German and English words of each number."
    return [(german_number(n), english_number(n)) for n in numbers]


def number_pairs() -> dict[str, list[tuple[str, str]]]:  # 'train', 'valid', 'test': German, English
    "Numbers below a million, all below a hundred in 'train'; no number is in two parts."
    drawn = random.Random(0).sample(range(100, 1_000_000), 9_900)
    return {
        "train": _spell([*range(100), *drawn[1000:]]),
        "valid": _spell(drawn[:500]),
        "test": _spell(drawn[500:1000]),
    }


TOYS = {"copy": lambda s: s, "reverse": lambda s: s[::-1], "sort": lambda s: "".join(sorted(s))}
SEPARATOR = "="  # between question and answer


def toy_texts(
    task: str,  # 'copy', 'reverse' or 'sort'
    n: int,  # how many
    symbols: int = 11,  # different letters, up to 26
    length: int = 10,  # letters per question
    seed: int = 0,
) -> list[str]:  # such as 'cab=bac', no two alike
    """Random questions with answers. Raises `ValueError` unless `2 * n` different questions exist.

    A question is a row of letters, and the answer is the same letters copied, reversed or sorted.
    An answer is right or wrong, and it cannot be found without looking at other positions.
    """
    check_choice("task", task, TOYS)
    check_ints(n=n, symbols=symbols, length=length)
    fits = symbols <= 26 and length <= 1000 and symbols**length >= 2 * n
    expected = f"up to 26, up to 1,000, and {2 * n:,} different questions or more"
    check_that(fits, "symbols, length", expected, (symbols, length))
    rng = random.Random(f"{task} {seed}")
    letters = string.ascii_lowercase[:symbols]
    texts: dict[str, str] = {}  # by question, so that no two are alike
    while len(texts) < n:
        question = "".join(rng.choices(letters, k=length))
        texts[question] = f"{question}{SEPARATOR}{TOYS[task](question)}"
    return list(texts.values())


def collate_answers(
    separator: int,  # the token after which the answer begins
) -> Callable:  # a function as `collate`
    "A `collate` that leaves the questions, which are random, out of the targets."
    check_int("separator", separator, 0)

    def collate_some(rows):
        inputs, targets = collate(rows)  # (B, T)
        asking = (inputs == separator).cumsum(-1) == 0  # (B, T), before the separator
        missing = int(asking.all(-1).sum())
        if missing:
            expected = f"the separator, token {separator}, in each row"
            raise ValueError(f"rows: expected {expected}, got {missing} without")
        return inputs, targets.masked_fill(asking, IGNORE)

    return collate_some
