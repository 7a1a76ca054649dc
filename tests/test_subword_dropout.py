"""Words cut in other ways than usual: without dropout as usual, with it still the same text."""

import pytest

from former_nb.data.subword_dropout import CUTS, SubwordDropout
from former_nb.data.text import encode_texts
from former_nb.data.tokenization import SubwordTokenizer
from former_nb.data.tokens import BOS, EOS
from former_nb.tasks.pairs import COPIES, cut_differently

TEXTS = ["Zwei Hunde spielen im Schnee.", "Ein Hund springt über den Zaun.", "Hunde im Zaun? Ä!"]


@pytest.fixture(scope="module")
def tokenizer():
    return SubwordTokenizer.train(TEXTS * 3, 330)


def test_without_dropout_texts_are_cut_as_usual(tokenizer):
    assert SubwordDropout(tokenizer, 0.0).encode_texts(TEXTS) == encode_texts(TEXTS, tokenizer)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.99])
def test_other_cuts_spell_the_same_text(tokenizer, dropout):
    cutter = SubwordDropout(tokenizer, dropout)
    usual = encode_texts(TEXTS, tokenizer)
    lengths = []
    for _ in range(5):
        for text, row, short in zip(TEXTS, cutter.encode_texts(TEXTS), usual):
            assert row[0] == BOS and row[-1] == EOS
            assert tokenizer.decode(row[1:-1]) == text
            assert len(row) >= len(short) - 1  # a merge that is left out can let a longer one in
            lengths.append(len(row) - len(short))
    assert max(lengths) > 0


def test_nearly_all_merges_left_out_leaves_bytes(tokenizer):
    rows = SubwordDropout(tokenizer, 1 - 1e-9).encode_texts(TEXTS)
    assert [len(row) - 2 for row in rows] == [len(text.encode()) for text in TEXTS]


def test_a_seed_repeats_the_cuts_and_another_one_does_not(tokenizer):
    def cuts(seed):
        cutter = SubwordDropout(tokenizer, 0.3, seed)
        return [cutter.encode_texts(TEXTS) for _ in range(4)]

    assert cuts(1) == cuts(1) != cuts(2)
    assert cuts(1)[0] != cuts(1)[1]  # another time, another cut


def test_a_word_has_as_many_cuts_as_it_says(tokenizer):
    cutter = SubwordDropout(tokenizer, 0.5)
    assert len(cutter.cuts("ĠHunde")) == CUTS
    assert len(set(map(tuple, cutter.cuts("ĠHunde")))) > 1


def test_what_it_cannot_be_made_of(tokenizer):
    with pytest.raises(ValueError, match="dropout: .*got 1"):
        SubwordDropout(tokenizer, 1.0)
    with pytest.raises(ValueError, match="seed: .*got -1"):
        SubwordDropout(tokenizer, 0.1, -1)
    with pytest.raises(TypeError, match="texts: expected a list"):
        SubwordDropout(tokenizer, 0.1).encode_texts("Hund")


def test_each_pair_comes_several_times_unless_it_is_too_long(tokenizer):
    pairs = [(TEXTS[0], TEXTS[1]), (TEXTS[2], ""), (TEXTS[1], TEXTS[2])]
    rows = cut_differently(pairs, tokenizer, 100, 0.3, seed=0)
    assert len(rows) == 2 * COPIES  # one has no translation
    for source, target in rows:
        spelled = tokenizer.decode(source[1:-1]), tokenizer.decode(target[1:-1])
        assert spelled in pairs
    longest = len(encode_texts([TEXTS[1]], tokenizer)[0])
    for source, target in cut_differently(pairs, tokenizer, longest, 0.3, seed=0):
        assert len(source) <= longest and len(target) <= longest + 1
