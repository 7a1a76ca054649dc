"""Spellings of one letter are one spelling, and each kind of tokenizer enters itself."""

import subprocess
import sys
import unicodedata

from hypothesis import given
from hypothesis import strategies as st
from refusals import every_row

from former_nb.data.tokenization import (
    CharTokenizer,
)
from former_nb.data.tokens import normalise

HALF = "\ud800"  # half of a surrogate pair: in Python a string, in Unicode nothing
HALVES = (ValueError, "text", "half a surrogate pair")


@given(text=st.text(), lowercase=st.booleans())
def test_a_normal_spelling_stays_as_it_is(text, lowercase):
    once = normalise(text, lowercase)
    assert normalise(once, lowercase) == once
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(text)


def test_a_letter_of_two_code_points_is_the_letter_of_one():
    one, two = "adel\u0117", "adele\u0307"
    assert one != two and normalise(two) == one == normalise("ADELE\u0307", lowercase=True)
    broken = "Good.<br /><br />Very good."
    assert normalise(broken) == broken
    assert normalise(broken, strip_html=True) == "Good.\n\nVery good."


def test_letters_are_composed_after_their_capitals_are_folded():
    assert normalise("H\u0331", lowercase=True) == "\u1e96"  # only the small letter has a code
    assert normalise("T\u0308J\u030c", lowercase=True) == "\u1e97\u01f0"
    assert CharTokenizer("\u1e96", lowercase=True).unknown("H\u0331") == ""


def test_so_does_every_character_of_unicode():
    every = map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)])
    changed = [c for c in every if c.lower() != c or not unicodedata.is_normalized("NFC", c)]
    for lowercase in (False, True):  # a character that is not its own normal spelling is refused
        kept = {part for c in changed for part in normalise(c, lowercase)}
        CharTokenizer("".join(sorted(kept)), lowercase=lowercase)


HEIRS = """
from former_nb.data import tokens
assert tokens.KINDS == {}
from former_nb.data import text
assert tokens.KINDS == {}
from former_nb.data import tokenization
assert list(tokens.KINDS) == ["char", "subword", "hugging_face"]
assert tokens.KINDS["char"] is tokenization.CharTokenizer
class Lengths(tokens.TextTokenizer):
    kind = "lengths"
assert tokens.KINDS["lengths"] is Lengths
"""


def test_each_kind_enters_itself_and_the_base_class_knows_none():
    subprocess.run([sys.executable, "-c", HEIRS], check=True)


TABLE = {
    "normalise": [
        ("half", lambda: normalise("on" + HALF + "a"), *HALVES),
        ("a pair", lambda: normalise("\U0001f642"), lambda text: text == "🙂"),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
