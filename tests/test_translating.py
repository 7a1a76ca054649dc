"""A translator keeps the order, loses no line to another, and says what it could not read."""

import gzip
import random

import pytest
import torch
from refusals import every_row
from translation_tools import PAIRS, TOKENIZER, translator

from former_nb.base.core import set_seed
from former_nb.data.text import pad_rows
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.decoding.number_words import greedy_decode
from former_nb.decoding.translating import read_pairs, split_text, stream_translations, translate
from former_nb.inspection.translation import pair_rows
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.config import TransformerConfig
from former_nb.saving.saving import load_model, save_model


@pytest.fixture(scope="module")
def fixed():
    """Untrained, with weights so large that its sentences differ and end, and in double precision,
    so that no rounding decides between two words."""
    set_seed(3)
    sizes = dict(d_model=32, n_heads=4, n_layers=1, d_ff=48, positions="rotary")
    model = BartEncoderDecoder(TransformerConfig(TOKENIZER.vocab_size, 60, **sizes), tied=False)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.4)
    return model.double().eval()


def test_the_order_is_kept_and_neighbours_do_not_matter(fixed, monkeypatch):
    monkeypatch.setattr("former_nb.decoding.translating.MAX_TOKENS", 200)
    sentences = [a for a, _ in random.Random(0).sample(PAIRS, 12)]
    for num_beams in (1, 3):
        together = translate(fixed, TOKENIZER, sentences, num_beams)
        assert [t.source for t in together] == sentences
        for sentence, found in zip(sentences, together):
            [alone] = translate(fixed, TOKENIZER, [sentence], num_beams)
            assert alone.text == found.text and alone.score == pytest.approx(found.score, abs=1e-4)


def test_one_beam_is_greedy(fixed):
    sentences = [a for a, _ in PAIRS[:12]]
    greedy = greedy_decode(fixed, pad_rows(encode_texts(sentences, TOKENIZER)), 60)
    found = [t.text for t in translate(fixed, TOKENIZER, sentences, 1)]
    assert found == [TOKENIZER.decode(row) for row in greedy]


def test_a_translation_says_why_it_ends(fixed):
    sources = [a for a, _ in PAIRS[:4]]
    few = translate(fixed, TOKENIZER, sources, 1, max_new_tokens=3)
    assert {t.reason for t in few} <= {"stop", "length"} and all(len(t) <= 3 for t in few)
    lines = stream_translations(fixed, TOKENIZER, [*sources, ""], 1)
    reasons = [t.reason for t in lines]
    assert "context" in reasons and reasons[-1] is None
    with pytest.warns(UserWarning, match=f"context of 60 tokens ended {reasons.count('context')}"):
        translate(fixed, TOKENIZER, sources, 1)


def test_what_is_odd_costs_its_own_line_only(fixed):
    good = PAIRS[7][0]
    lines = [good, "", "   ", 5, "\ud800", "ein" * 300, good, "日本語", good]
    found = translate(fixed, TOKENIZER, lines, 2)
    assert len(found) == len(lines) and found[0] == found[6] == found[8]
    assert [bool(t.text) for t in found[:3]] == [True, False, False] and not found[1].note
    assert "text: expected" in found[3].note and "surrogate" in found[4].note
    assert found[3].text == found[4].text == ""
    assert "pieces" in found[5].note and found[5].text
    assert "does not know: '日本語'" in found[7].note and "<unk>" not in found[7].text


def test_a_stream_is_read_as_it_is_needed(fixed):
    read = []

    def lines():
        for i in range(1_000_000):
            read.append(i)
            yield PAIRS[i % 400][0]

    stream = stream_translations(fixed, TOKENIZER, lines(), 1, ahead=4)
    first = [next(stream) for _ in range(6)]
    assert len(read) == 8 and [t.source for t in first] == [PAIRS[i][0] for i in range(6)]


def test_pieces_fit_and_nothing_is_lost():
    for seed in range(20):
        rng = random.Random(seed)
        word = lambda: "".join(rng.choices("abcä", k=rng.choice([1, 3, 9, 40])))
        words = [word() + rng.choice(["", "", ".", "!"]) for _ in range(30)]
        text, limit = " ".join(words), rng.randint(1, 60)
        tokenizer = CharTokenizer.train([text])
        pieces = split_text(text, tokenizer, limit)
        assert all(0 < len(tokenizer.encode(piece)) <= limit for piece in pieces)
        assert "".join("".join(pieces).split()) == "".join(text.split())
        assert limit < len(text) or pieces == [text]


def test_sentences_are_cut_at_their_ends_where_that_is_enough():
    text = "Das ist eins. Das ist zwei! Ist das drei? Das ist vier."
    tokenizer = CharTokenizer.train([text])
    halves = ["Das ist eins. Das ist zwei!", "Ist das drei? Das ist vier."]
    assert split_text(text, tokenizer, 30) == halves
    pieces = split_text("aaa bbb cccccc", CharTokenizer.train(["abc "]), 4)
    assert pieces == ["aaa", "bbb", "cccc", "cc"]
    assert split_text("", tokenizer, 4) == split_text("  ", tokenizer, 4) == []


def test_saved_and_loaded_it_translates_alike(fixed, tmp_path):
    save_model(tmp_path / "m", fixed, TOKENIZER)
    (tmp_path / "m" / "README.md").write_text("mine")
    save_model(tmp_path / "m", fixed, TOKENIZER)
    assert (tmp_path / "m" / "README.md").read_text() == "mine"
    model, tokenizer, _ = load_model(tmp_path / "m")
    some = [a for a, _ in PAIRS[:3]]
    assert translate(model.double(), tokenizer, some) == translate(fixed, TOKENIZER, some)
    (tmp_path / "m" / "tokenizer.json").unlink()
    with pytest.raises(ValueError, match="tokenizer"):
        load_model(tmp_path / "m")


def test_files_become_pairs(tmp_path):
    (tmp_path / "a").write_text("eins\nzwei \n\n", encoding="utf-8")
    with gzip.open(tmp_path / "b.gz", "wt", encoding="utf-8") as file:
        file.write("one\n two\nthree\n")
    pairs = [("eins", "one"), ("zwei", "two"), ("", "three")]
    assert read_pairs(tmp_path / "a", tmp_path / "b.gz") == pairs
    rows = pair_rows([("eins", "one"), ("", "three"), ("zwei", "x" * 99)], TOKENIZER, 20)
    assert rows == list(zip(encode_texts(["eins"], TOKENIZER), encode_texts(["one"], TOKENIZER)))


OTHER = CharTokenizer("ab")
SAY = lambda *args, **how: translate(translator(), TOKENIZER, *args, **how)
STREAM = lambda lines: stream_translations(translator(), TOKENIZER, lines)

BAD = [
    ("no file", lambda: read_pairs("/nowhere/a", "/nowhere/b"), ValueError, "file"),
    ("a single text", lambda: STREAM("eins"), TypeError, "lines"),
    ("no beams", lambda: SAY(["eins"], 0), ValueError, "num_beams"),
    ("below zero", lambda: SAY(["eins"], length_penalty=-1), ValueError, "length_penalty"),
    ("other", lambda: translate(translator(), OTHER, ["a"]), ValueError, "tokenizer"),
    ("none", lambda: translate(translator(), None, ["a"]), TypeError, "tokenizer"),
]
test_bad_input_is_named = every_row(BAD)


def test_what_is_defined_at_the_edge():
    [found] = SAY(["eins"], 100)  # more beams than tokens
    assert found.text and len(SAY(["eins", "zwei"], 3)) == 2
    assert split_text("", TOKENIZER, 3) == list(STREAM([])) == []


def test_texts_do_not_depend_on_how_many_lines_are_read_at_a_time(fixed):
    sources = [PAIRS[i][0] for i in range(200)]
    texts = [t.text for t in translate(fixed, TOKENIZER, sources, 1)]
    for ahead in (1, 7, 1000):
        stream = stream_translations(fixed, TOKENIZER, sources, 1, ahead=ahead)
        assert [t.text for t in stream] == texts
