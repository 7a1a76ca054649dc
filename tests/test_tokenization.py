"""Tokenizers: every text comes back, no text spells a special token, training and files can be
relied on, bad input gets one clear sentence."""

import json
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import every_row, refuses
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

from former_nb.data import text as lesson
from former_nb.data.text import BOS, EOS, PAD, UNK
from former_nb.data.tokenization import (
    CharTokenizer,
    HuggingFaceTokenizer,
    SubwordTokenizer,
    encode_texts,
    load_tokenizer,
)
from former_nb.data.tokens import SPECIALS, normalise

HALF = "\ud800"  # half of a surrogate pair: in Python a string, in Unicode nothing
PROSE = [
    "the others gather there, and other mothers then bother",
    "Žydrūnė žiūri į žydrą ežerą",
    "a\tb\n\n  def f(x): return x  # 語 🙂",
    "aaaaaaaaaaaaa 1234567",
]
SUBWORDS, BYTES = SubwordTokenizer.train(PROSE, 400), SubwordTokenizer([])
FOLDED = SubwordTokenizer.train(PROSE, 400, lowercase=True)
ODD = [*SPECIALS, "<s>", "</s>", "<|endoftext|>", "İ", "ΑΣ", "\u212b", "e\u0307", "\0"]
MARKED = st.lists(st.one_of(st.text(max_size=8), st.sampled_from(ODD))).map("".join)
some = settings(deadline=None, max_examples=50)


# ---- there and back


@pytest.mark.parametrize(
    "tokenizer", [SUBWORDS, FOLDED, BYTES], ids=["subwords", "folded", "bytes"]
)
@some
@given(text=MARKED)
def test_every_text_comes_back_from_subwords_and_none_spells_a_special_token(tokenizer, text):
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text, tokenizer.lowercase)
    assert tokenizer.unknown(text) == ""
    assert all(len(SPECIALS) <= i < tokenizer.vocab_size for i in ids)


@some
@given(text=MARKED.filter(bool), lowercase=st.booleans())
def test_every_text_of_known_characters_comes_back(text, lowercase):
    tokenizer = CharTokenizer.train([text], lowercase=lowercase)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text, lowercase) and tokenizer.unknown(text) == ""
    assert all(len(SPECIALS) <= i < tokenizer.vocab_size for i in ids)


@some
@given(text=MARKED, known=st.text(min_size=1))
def test_what_a_char_tokenizer_does_not_know_is_unk_and_nothing_else(text, known):
    tokenizer = CharTokenizer.train([known])
    ids, spelling = tokenizer.encode(text), normalise(text)
    assert len(ids) == len(spelling) and not {PAD, BOS, EOS} & set(ids)
    assert [i == UNK for i in ids] == [c in tokenizer.unknown(text) for c in spelling]
    assert tokenizer.decode(ids) == "".join(c for c in spelling if c not in tokenizer.unknown(text))


PAIR = st.tuples(st.sampled_from("abcĠĊ"), st.sampled_from("abcĠÄ"))


@some
@given(text=MARKED, merges=st.lists(PAIR, max_size=12))
def test_every_list_of_merges_is_a_tokenizer_that_loses_nothing(text, merges):
    tokenizer = SubwordTokenizer(merges)
    assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)


@pytest.mark.parametrize(
    "tokenizer", [SUBWORDS, CharTokenizer.train(PROSE)], ids=["subwords", "characters"]
)
def test_texts_at_the_edges(tokenizer):
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
    assert tokenizer.decode([PAD, BOS, *tokenizer.encode("other"), EOS, UNK, -100]) == "other"
    long = "mother " * 30_000 + "a" * 100_000  # one word of 100,000 letters at its end
    assert tokenizer.decode(tokenizer.encode(long)) == long
    for kind in (torch.tensor, np.array):
        assert tokenizer.decode(kind(tokenizer.encode("there"))) == "there"


def test_NUL_and_other_control_characters_are_characters():
    odd = "a\0b\x1b\x7f\x85\u2028\ufeff\U0010ffff"
    for tokenizer in (SUBWORDS, CharTokenizer.train([odd])):
        assert tokenizer.decode(tokenizer.encode(odd)) == odd


def test_bytes_that_are_no_text_do_not_stop_decoding():
    for i in range(len(SPECIALS), SUBWORDS.vocab_size):
        assert SUBWORDS.decode([i])
    assert SUBWORDS.decode(SUBWORDS.encode("ė")[:1] + SUBWORDS.encode("a")) in ("\ufffda", "ėa")


def test_texts_get_both_ends_and_only_there():
    rows = encode_texts(iter(["the", "</s><eos>", ""]), SUBWORDS)
    assert all(row[0] == BOS and row[-1] == EOS for row in rows) and rows[2] == [BOS, EOS]
    assert min(i for row in rows for i in row[1:-1]) >= len(SPECIALS)


class Alone:
    "A tokenizer of the reader's own, which inherits nothing."

    vocab_size = 7

    def encode(self, text):
        return [4 + "abc".index(letter) for letter in text]

    def decode(self, tokens):
        return "".join("abc"[i - 4] for i in tokens if i >= 4)


class Sides(Alone):
    before, after = (), (6, 6)


def test_a_tokenizer_of_ones_own_needs_three_members_and_may_say_how_texts_begin_and_end():
    assert encode_texts(["ab", ""], Alone()) == [[BOS, 4, 5, EOS], [BOS, EOS]]
    assert encode_texts(["ab", ""], Sides()) == [[4, 5, 6, 6], [6, 6]]
    assert encode_texts(["abc"], lesson.CharTokenizer("abc")) == [[BOS, 4, 5, 6, EOS]]


@given(texts=st.lists(st.text("ab c1", min_size=1), min_size=1))
def test_where_nothing_is_to_be_prepared_both_char_tokenizers_are_the_same(texts):
    ours, theirs = CharTokenizer.train(texts), lesson.CharTokenizer.train(texts)
    assert ours.alphabet == theirs.alphabet and ours.vocab_size == theirs.vocab_size
    rows = encode_texts(texts, ours)
    assert rows == lesson.encode_texts(texts, theirs) == lesson.encode_texts(texts, ours)
    assert [ours.decode(tokens=row) for row in rows] == [theirs.decode(tokens=row) for row in rows]


def test_text_is_prepared_at_use_as_in_training(tmp_path):
    texts = ["Good.<br /><br />Very good.", "<BR>Bad, <br/> very bad."]
    for kind in (CharTokenizer, SubwordTokenizer):
        tokenizer = kind.train(texts, strip_html=True, lowercase=True)
        tokenizer.save(tmp_path)
        for some in (tokenizer, load_tokenizer(tmp_path)):
            assert some.encode("bad<br />GOOD") == some.encode("bad\ngood") and some.strip_html
            assert some.decode(some.encode(texts[1])) == "\nbad, \n very bad."
        assert "<" not in json.dumps(tokenizer.to_dict())
        plain = kind.train(texts)
        assert plain.decode(plain.encode(texts[0])) == texts[0]


# ---- kinds of tokenizers


def template(single, **special):
    "A tokenizer of Hugging Face's library for the letters, with special tokens around a text."
    pieces = [*special, *"<end>a"]
    made = Tokenizer(BPE({piece: i for i, piece in enumerate(dict.fromkeys(pieces))}, []))
    made.add_special_tokens(list(special))
    if single:
        named = [(name, i) for i, name in enumerate(special)]
        made.post_processor = TemplateProcessing(single=single, special_tokens=named)
    return made


@pytest.mark.parametrize(
    "single, before, after",
    [
        (None, [], [7]),  # what ends a text is taken from the model
        ("[S] $A", [0], [7]),
        ("[S] $A [E]", [0], [1]),
        ("[S] [E] $A [S] [E]", [0, 1], [0, 1]),
    ],
)
def test_what_a_tokenizer_from_elsewhere_puts_around_a_text_is_found(single, before, after):
    backend = json.loads(template(single, **{"[S]": 0, "[E]": 1}).to_str())
    tokenizer = HuggingFaceTokenizer(backend, 20, [7])
    assert (list(tokenizer.before), list(tokenizer.after)) == (before, after)
    assert tokenizer.encode("aa") == 2 * tokenizer.encode("a")


def test_a_tokenizer_that_knows_no_letter_a_is_refused():
    backend = json.loads(Tokenizer(BPE({"b": 0}, [])).to_str())
    refuses(lambda: HuggingFaceTokenizer(backend, 20, [7]), ValueError, "tokenizer")


def test_their_reading_ends_with_a_token_where_ours_spells_it():
    theirs = template(None, **{"<end>": 0})
    ours = HuggingFaceTokenizer(json.loads(theirs.to_str()), 9, [0])
    assert theirs.encode("a<end>").ids[-1] == 0 and 0 not in ours.encode("a<end>")
    assert len(ours.encode("a<end>")) == 6


# ---- training


def by_library(texts, size):
    backend, alphabet = Tokenizer(BPE()), ByteLevel.alphabet()
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    how = dict(vocab_size=size, min_frequency=2, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(texts, BpeTrainer(**how))
    return backend


@settings(deadline=None)
@given(
    st.lists(st.text("ab ", max_size=40), min_size=1, max_size=8).filter(any), st.integers(256, 300)
)
def test_training_gives_the_librarys_pieces_four_numbers_later(texts, size):
    tokenizer = SubwordTokenizer.train(texts, size + len(SPECIALS))
    backend = by_library(texts, size)
    assert tokenizer.backend.get_vocab() == backend.get_vocab()
    for text in texts:
        assert tokenizer.encode(text) == [i + len(SPECIALS) for i in backend.encode(text).ids]


TRAIN = """
import json, random
from former_nb.data.tokenization import SubwordTokenizer
random.seed(3)  # few letters: full of ties
word = lambda: "".join(random.choices("abcdeė", k=random.randint(1, 4)))
texts = [" ".join(word() for _ in range(30)) for _ in range(200)]
found = SubwordTokenizer.train(texts, 900).to_dict()
"""


def test_training_gives_the_same_tokenizer_again_in_another_process_and_on_one_thread():
    here, other = {}, {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "1"}
    exec(TRAIN, here)
    command = [sys.executable, "-c", TRAIN + "print(json.dumps(found))"]
    there = subprocess.run(command, env=os.environ | other, stdout=subprocess.PIPE, check=True)
    assert json.loads(there.stdout) == here["found"] and len(here["found"]["merges"]) > 300


def test_training_does_not_depend_on_the_order_of_the_texts():
    words = "the there other mother hen ėė žė".split()
    texts = [" ".join(random.Random(i).choices(words, k=9)) for i in range(50)]
    for train in (lambda some: SubwordTokenizer.train(some, 300), CharTokenizer.train):
        one = train(texts).to_dict()
        assert one == train(texts[::-1]).to_dict() == train(iter(texts)).to_dict()


def test_the_size_is_kept_or_the_pairs_run_out():
    assert SubwordTokenizer.train(PROSE, 260).merges == []
    assert SubwordTokenizer.train(PROSE, 270).vocab_size == 270
    assert SubwordTokenizer.train(["abcd"], 400).vocab_size == 260  # no pair occurs twice
    # more than fits in memory, or in a number of Rust's
    assert SubwordTokenizer.train(["ab ab"], 10**30).vocab_size == 261


# ---- files


@pytest.fixture(params=["char", "subword", "bytes"])
def saved(request, tmp_path):
    tokenizer, folder = {"subword": SUBWORDS, "bytes": BYTES}.get(request.param), tmp_path / "a/b"
    tokenizer = tokenizer or CharTokenizer.train(PROSE, lowercase=True)
    tokenizer.save(folder)
    return tokenizer, folder


@some
@given(text=MARKED)
def test_a_char_tokenizer_of_any_alphabet_is_the_same_when_read_back(tmp_path_factory, text):
    tokenizer, folder = CharTokenizer.train([text + "a"]), tmp_path_factory.mktemp("t")
    tokenizer.save(folder)
    assert load_tokenizer(folder).to_dict() == tokenizer.to_dict()


def test_a_saved_tokenizer_is_the_same_when_read_back(saved):
    tokenizer, folder = saved
    pickled = pickle.loads(pickle.dumps(tokenizer))
    for again in (load_tokenizer(folder), load_tokenizer(str(folder)), pickled):
        assert type(again) is type(tokenizer) and again.to_dict() == tokenizer.to_dict()
        assert [again.encode(text) for text in PROSE] == [tokenizer.encode(text) for text in PROSE]
    again.save(folder)  # over the old one
    assert load_tokenizer(folder).to_dict() == tokenizer.to_dict()


def refused(folder, *came):
    refuses(lambda: load_tokenizer(folder), ValueError, "folder", *came)


def test_a_file_cut_anywhere_is_refused(saved):
    _, folder = saved
    whole = (folder / "tokenizer.json").read_bytes()
    for n in [*range(0, 60), *range(60, len(whole) - 1, 97), len(whole) - 1]:
        (folder / "tokenizer.json").write_bytes(whole[:n])
        refused(folder)


def test_what_is_missing_or_no_file_is_refused(tmp_path):
    refused(tmp_path, "No such file")
    refused(tmp_path / "none", "No such file")
    refused("a\0b")
    for folder in (None, 3):
        refuses(lambda folder=folder: load_tokenizer(folder), TypeError, "folder")
    (tmp_path / "tokenizer.json").mkdir()
    refused(tmp_path)


FLAGS = {"lowercase": False, "strip_html": False}
CHAR = {"type": "char", **FLAGS, "alphabet": "ab"}
SUBWORD = {"type": "subword", **FLAGS, "merges": ["a b", "ab c"]}
BAD_FILES = {
    "another type": CHAR | {"type": "bpe"},
    "no type": FLAGS | {"alphabet": "ab"},
    "a type that is a list": CHAR | {"type": []},
    "no alphabet": FLAGS | {"type": "char"},
    "a letter twice": CHAR | {"alphabet": "aba"},
    "an alphabet that is a list": CHAR | {"alphabet": ["a", "b"]},
    "half a surrogate pair": CHAR | {"alphabet": "a" + HALF},
    "a capital that is folded": CHAR | {"alphabet": "aB", "lowercase": True},
    "a character in another spelling": CHAR | {"alphabet": "\u212b"},
    "lowercase that is a number": CHAR | {"lowercase": 0},
    "lowercase that is a word": SUBWORD | {"lowercase": "false"},
    "no lowercase": {"type": "subword", "merges": [], "strip_html": False},
    "strip_html that is a number": CHAR | {"strip_html": 1},
    "no merges": FLAGS | {"type": "subword"},
    "merges that are a word": SUBWORD | {"merges": "a b"},
    "merges that are lists": SUBWORD | {"merges": [["a", "b"]]},
    "a merge of three": SUBWORD | {"merges": ["a b c"]},
    "a merge with nothing": SUBWORD | {"merges": ["a "]},
    "a merge of what nothing makes": SUBWORD | {"merges": ["a b", "abc d"]},
    "a merge of what is no byte": SUBWORD | {"merges": ["a 語"]},
    "a merge of a special token": SUBWORD | {"merges": ["</s> a"]},
    "added tokens": SUBWORD | {"added_tokens": [{"id": 2, "content": "</s>", "special": True}]},
    "the library's own format": json.loads(by_library(PROSE, 300).to_str()),
    "a list": [CHAR],
    "null": None,
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_save_would_not_write_is_refused(tmp_path, what):
    (tmp_path / "tokenizer.json").write_text(json.dumps(BAD_FILES[what]), encoding="utf-8")
    refused(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\xff\xfe{}", b"NaN", b"[" * 100_000, "\ufeff{}".encode()],
    ids=repr,
)
def test_a_file_that_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    refused(tmp_path)


def test_good_files_are_read(tmp_path):
    for metadata in (CHAR, SUBWORD):
        (tmp_path / "tokenizer.json").write_text(json.dumps(metadata), encoding="utf-8")
        assert load_tokenizer(tmp_path).to_dict() == metadata


@some
@given(spoil=st.data())
def test_a_spoilt_file_is_refused_or_gives_a_tokenizer_that_loses_nothing(tmp_path_factory, spoil):
    folder = tmp_path_factory.mktemp("t")
    SUBWORDS.save(folder)
    raw = bytearray((folder / "tokenizer.json").read_bytes())
    for _ in range(spoil.draw(st.integers(1, 3))):
        raw[spoil.draw(st.integers(0, len(raw) - 1))] = spoil.draw(st.integers(0, 255))
    (folder / "tokenizer.json").write_bytes(bytes(raw))
    try:
        tokenizer = load_tokenizer(folder)
    except ValueError as error:
        assert str(error).startswith("folder: expected ")
    else:
        assert all(
            tokenizer.decode(tokenizer.encode(text)) == normalise(text, tokenizer.lowercase)
            for text in [*PROSE, *SPECIALS]
        )


# ---- bad input

TEXTS, TEXT = (TypeError, "texts"), (TypeError, "text")
HALVES = (ValueError, "text", "half a surrogate pair")
ALPHABET, PAIRS = (ValueError, "alphabet"), ((TypeError, ValueError), "")


def used(tokenizer):
    "What every tokenizer refuses."
    decode, size = tokenizer.decode, tokenizer.vocab_size
    bad = (4.5, [4.5], "45", None, torch.tensor([4.0]), torch.tensor([[4]]))
    specials = [PAD, BOS, EOS, UNK, -1, -(2**70)]
    return [
        ("encode a list", lambda: tokenizer.encode(["ona"]), *TEXT),
        ("encode half", lambda: tokenizer.encode("on" + HALF), *HALVES),
        ("unknown of bytes", lambda: tokenizer.unknown(b"ona"), *TEXT),
        ("normalise bytes", lambda: tokenizer.normalise(b"ona"), *TEXT),
        ("no token", lambda: decode([4, size]), ValueError, "tokens", str(size)),
        ("too large for Rust", lambda: decode([2**70]), ValueError, "tokens", str(2**70)),
        *((f"tokens {x!r}", lambda x=x: decode(x), TypeError, "") for x in bad),
        ("specials", lambda: decode(specials), lambda back: back == ""),
    ]


def trained(kind, none):
    return [
        ("one string", lambda: kind.train("ona"), *TEXTS),
        ("numbers", lambda: kind.train(["ona", 3]), *TEXTS),
        ("half", lambda: kind.train(["ona", "xx" + HALF]), *HALVES),
        ("no texts", lambda: kind.train([]), *none),
        ("empty texts", lambda: kind.train(["", ""]), *none),
        ("lowercase 1", lambda: kind.train(["ona"], lowercase=1), TypeError, "lowercase"),
    ]


FROM_ITERATOR = lambda: SubwordTokenizer(iter([("a", "b")]))
TABLE = {
    "CharTokenizer": [
        *trained(CharTokenizer, ALPHABET),
        *used(CharTokenizer("aon")),
        ("None", lambda: CharTokenizer(None), *ALPHABET),
        ("a letter twice", lambda: CharTokenizer("aba"), *ALPHABET),
        ("a capital", lambda: CharTokenizer("aB", lowercase=True), *ALPHABET),
        ("strip_html", lambda: CharTokenizer("a", strip_html="no"), TypeError, "strip_html"),
    ],
    "SubwordTokenizer": [
        *trained(SubwordTokenizer, (ValueError, "texts")),
        *used(SUBWORDS),
        ("size", lambda: SubwordTokenizer.train(["ona"], 259), ValueError, "vocab_size", "259"),
        ("None", lambda: SubwordTokenizer(None), *PAIRS),
        ("three", lambda: SubwordTokenizer([("a", "b", "c")]), *PAIRS),
        (
            "of nothing",
            lambda: SubwordTokenizer([("ab", "c")]),
            ValueError,
            "merges",
            "('ab', 'c')",
        ),
        ("an iterator", FROM_ITERATOR, lambda t: t.vocab_size == 261),
    ],
    "load_tokenizer": [("None", lambda: load_tokenizer(None), TypeError, "folder")],
    "encode_texts": [
        ("a string", lambda: encode_texts("ona", SUBWORDS), *TEXTS),
        ("none", lambda: encode_texts([], SUBWORDS), lambda rows: rows == []),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
