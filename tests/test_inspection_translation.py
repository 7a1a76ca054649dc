"""Pairs become rows that a model can learn from, and weights have a mean."""

import torch
from refusals import every_row
from translation_tools import PAIRS, TOKENIZER, translator

from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.inspection.translation import average_weights, pair_rows


def test_the_mean_of_weights():
    states = [translator(seed).state_dict() for seed in range(3)]
    mean = average_weights(states)
    for name, t in mean.items():
        wanted = sum(s[name] for s in states) / 3 if t.is_floating_point() else states[0][name]
        torch.testing.assert_close(t, wanted)
    translator().load_state_dict(mean)


def test_what_just_fits_the_model_is_learned_from():
    a = encode_texts(["eins", "sechs"], TOKENIZER)  # 6 and 7 tokens
    pairs = [("eins", "sechs"), ("sechs", "sechs"), ("eins", "sieben")]
    assert pair_rows(pairs, TOKENIZER, 6) == [(a[0], a[1])]  # the last token is never read


def test_a_target_begins_as_the_decoder_of_its_model_does():
    tokenizer = CharTokenizer("ab")
    tokenizer.before, tokenizer.start = (), (0,)  # as Marian's
    a, b = 4, 5
    found = pair_rows([("a", "b"), ("ab", "bab"), ("", "a"), ("a", "")], tokenizer, 4)
    assert found == [([a, 2], [0, b, 2]), ([a, b, 2], [0, b, a, b, 2])]


TWO = [translator().state_dict(), translator(d_ff=50).state_dict()]

BAD = [
    ("no states", lambda: average_weights([]), ValueError, "states"),
    ("two models", lambda: average_weights(TWO), ValueError, "states"),
    ("nothing fits", lambda: pair_rows([("eins", "")], TOKENIZER, 20), ValueError, "pairs"),
    ("max_len", lambda: pair_rows(PAIRS, TOKENIZER, 0), ValueError, "max_len"),
]
test_bad_input_is_named = every_row(BAD)
