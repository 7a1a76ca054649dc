"""Tokenizers: every text comes back, no text spells a special token, training and files can be relied on, bad input gets one clear sentence."""

import json
import os
import pickle
import random
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import torch
from bad_input_table import cases, judge, public_names
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer

from former_nb import text as module
from former_nb.text import BOS, EOS, PAD, SPECIALS, UNK, CharTokenizer, encode_texts
from former_nb.tokenization import SubwordTokenizer, TextTokenizer, load_tokenizer, normalise

HALF = "\ud800"  # half of a surrogate pair: in Python a string, in Unicode nothing
PROSE = [
    "the others gather there, and other mothers then bother",
    "Žydrūnė žiūri į žydrą ežerą",
    "a\tb\n\n  def f(x): return x  # 語 🙂",
    "aaaaaaaaaaaaa 1234567",
]
SUBWORDS, FOLDED, BYTES = (
    SubwordTokenizer.train(PROSE, 400),
    SubwordTokenizer.train(PROSE, 400, lowercase=True),
    SubwordTokenizer([]),
)
MARKED = st.lists(
    st.one_of(
        st.text(max_size=8),
        st.sampled_from(
            [*SPECIALS, "<s>", "</s>", "<|endoftext|>", "İ", "ΑΣ", "\u212b", "e\u0307", "\0"]
        ),
    )
).map("".join)


# ---- there and back


@pytest.mark.parametrize(
    "tokenizer", [SUBWORDS, FOLDED, BYTES], ids=["subwords", "folded", "bytes"]
)
@settings(deadline=None)
@given(text=MARKED)
def test_every_text_comes_back_from_subwords_and_none_spells_a_special_token(tokenizer, text):
    ids = tokenizer.encode(text)
    assert (
        tokenizer.decode(ids) == normalise(text, tokenizer.lowercase)
        and tokenizer.unknown(text) == ""
    )
    assert all(len(SPECIALS) <= i < tokenizer.vocab_size for i in ids)


@settings(deadline=None)
@given(text=MARKED.filter(bool), lowercase=st.booleans())
def test_every_text_of_known_characters_comes_back(text, lowercase):
    tokenizer = CharTokenizer.train([text], lowercase)
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == normalise(text, lowercase) and tokenizer.unknown(text) == ""
    assert all(len(SPECIALS) <= i < tokenizer.vocab_size for i in ids)


@settings(deadline=None)
@given(text=MARKED, known=st.text(min_size=1))
def test_what_a_char_tokenizer_does_not_know_is_unk_and_nothing_else(text, known):
    tokenizer = CharTokenizer.train([known])
    ids, spelling = tokenizer.encode(text), normalise(text)
    assert len(ids) == len(spelling) and not {PAD, BOS, EOS} & set(ids)
    assert [i == UNK for i in ids] == [c in tokenizer.unknown(text) for c in spelling]
    assert tokenizer.decode(ids) == "".join(c for c in spelling if c not in tokenizer.unknown(text))


@settings(deadline=None)
@given(
    text=MARKED,
    merges=st.lists(st.tuples(st.sampled_from("abcĠĊ"), st.sampled_from("abcĠÄ")), max_size=12),
)
def test_every_list_of_merges_is_a_tokenizer_that_loses_nothing(text, merges):
    tokenizer = SubwordTokenizer(merges)
    assert tokenizer.decode(tokenizer.encode(text)) == normalise(text)


@given(text=st.text(), lowercase=st.booleans())
def test_a_normal_spelling_stays_as_it_is(text, lowercase):
    once = normalise(text, lowercase)
    assert normalise(once, lowercase) == once and normalise(
        unicodedata.normalize("NFD", text)
    ) == normalise(text)


def test_so_does_every_character_of_unicode():
    every = map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)])
    changed = [c for c in every if c.lower() != c or not unicodedata.is_normalized("NFC", c)]
    for lowercase in (False, True):
        kept = {part for c in changed for part in normalise(c, lowercase)}
        CharTokenizer(
            "".join(sorted(kept)), lowercase
        )  # refuses a character that is not its own normal spelling


@pytest.mark.parametrize(
    "tokenizer", [SUBWORDS, CharTokenizer.train(PROSE)], ids=["subwords", "characters"]
)
def test_texts_at_the_edges(tokenizer):
    assert tokenizer.encode("") == [] and tokenizer.decode([]) == ""
    assert tokenizer.decode([PAD, BOS, *tokenizer.encode("other"), EOS, UNK, -100]) == "other"
    long = "mother " * 100_000 + "a" * 300_000  # one word of 300,000 letters at its end
    assert tokenizer.decode(tokenizer.encode(long)) == long
    assert (
        tokenizer.decode(torch.tensor(tokenizer.encode("there")))
        == "there"
        == tokenizer.decode(np.array(tokenizer.encode("there")))
    )


def test_NUL_and_other_control_characters_are_characters():
    odd = "a\0b\x1b\x7f\x85\u2028\ufeff\U0010ffff"
    assert SUBWORDS.decode(SUBWORDS.encode(odd)) == odd
    assert CharTokenizer.train([odd]).decode(CharTokenizer.train([odd]).encode(odd)) == odd


def test_bytes_that_are_no_text_do_not_stop_decoding():
    for i in range(len(SPECIALS), SUBWORDS.vocab_size):
        assert SUBWORDS.decode([i])
    assert SUBWORDS.decode(SUBWORDS.encode("ė")[:1] + SUBWORDS.encode("a")) in ("\ufffda", "ėa")


def test_texts_get_both_ends_and_only_there():
    rows = encode_texts(iter(["the", "</s><eos>", ""]), SUBWORDS)
    assert (
        [row[0] for row in rows] == [BOS] * 3
        and [row[-1] for row in rows] == [EOS] * 3
        and rows[2] == [BOS, EOS]
    )
    assert min(i for row in rows for i in row[1:-1]) >= len(SPECIALS)


# ---- training


def by_library(texts, size):
    backend = Tokenizer(BPE())
    backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
    backend.train_from_iterator(
        texts,
        BpeTrainer(
            vocab_size=size,
            min_frequency=2,
            initial_alphabet=ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    return backend


@settings(deadline=None)
@given(
    texts=st.lists(st.text("ab ", max_size=40), min_size=1, max_size=8).filter(any),
    size=st.integers(256, 300),
)
def test_training_gives_the_librarys_pieces_four_numbers_later(texts, size):
    tokenizer, backend = (
        SubwordTokenizer.train(texts, size + len(SPECIALS)),
        by_library(texts, size),
    )
    assert tokenizer.backend.get_vocab() == backend.get_vocab()
    for text in texts:
        assert tokenizer.encode(text) == [i + len(SPECIALS) for i in backend.encode(text).ids]


TRAIN = """
import hashlib, json, random, sys
from former_nb.tokenization import SubwordTokenizer
random.seed(3)
texts = [" ".join("".join(random.choices("abcdeė", k=random.randint(1, 4))) for _ in range(30)) for _ in range(200)]  # full of ties
print(json.dumps(SubwordTokenizer.train(texts, 900).to_dict()))
"""


def test_training_gives_the_same_tokenizer_again_in_another_process_and_on_one_thread():
    runs = [
        {"PYTHONHASHSEED": "1"},
        {"PYTHONHASHSEED": "2", "RAYON_NUM_THREADS": "1"},
        {"TOKENIZERS_PARALLELISM": "false"},
    ]
    metadata = [
        subprocess.run(
            [sys.executable, "-c", TRAIN],
            env=os.environ | env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for env in runs
    ]
    assert len(set(metadata)) == 1 and len(json.loads(metadata[0])["merges"]) > 300


def test_training_does_not_depend_on_the_order_of_the_texts():
    texts = [
        " ".join(random.Random(i).choices("the there other mother hen ėė žė".split(), k=9))
        for i in range(50)
    ]
    one = SubwordTokenizer.train(texts, 300)
    assert (
        one.to_dict()
        == SubwordTokenizer.train(texts[::-1], 300).to_dict()
        == SubwordTokenizer.train(iter(texts), 300).to_dict()
    )
    assert CharTokenizer.train(texts).to_dict() == CharTokenizer.train(texts[::-1]).to_dict()


def test_the_size_is_kept_or_the_pairs_run_out():
    assert (
        SubwordTokenizer.train(PROSE, 260).merges == []
        and SubwordTokenizer.train(PROSE, 270).vocab_size == 270
    )
    assert SubwordTokenizer.train(["abcd"], 400).vocab_size == 260  # no pair occurs twice
    assert (
        SubwordTokenizer.train(["ab ab"], 10**30).vocab_size == 261
    )  # more than fits in memory, or in a number of Rust's


# ---- files


@pytest.fixture(params=["char", "subword", "bytes"])
def saved(request, tmp_path):
    tokenizer = {
        "char": CharTokenizer.train(PROSE, lowercase=True),
        "subword": SUBWORDS,
        "bytes": BYTES,
    }[request.param]
    tokenizer.save(tmp_path / "new" / "folder")
    return tokenizer, tmp_path / "new" / "folder"


@settings(deadline=None)
@given(text=MARKED)
def test_a_char_tokenizer_of_any_alphabet_is_the_same_when_read_back(tmp_path_factory, text):
    tokenizer, folder = CharTokenizer.train([text + "a"]), tmp_path_factory.mktemp("t")
    tokenizer.save(folder)
    assert load_tokenizer(folder).to_dict() == tokenizer.to_dict()


def test_a_saved_tokenizer_is_the_same_when_read_back(saved):
    tokenizer, folder = saved
    for again in (
        load_tokenizer(folder),
        load_tokenizer(str(folder)),
        pickle.loads(pickle.dumps(tokenizer)),
    ):
        assert (
            type(again) is type(tokenizer)
            and again.to_dict() == tokenizer.to_dict()
            and again.vocab_size == tokenizer.vocab_size
        )
        assert [again.encode(text) for text in PROSE] == [tokenizer.encode(text) for text in PROSE]
    again.save(folder)  # over the old one
    assert load_tokenizer(folder).to_dict() == tokenizer.to_dict()


def refused(folder, says=""):
    with pytest.raises(
        ValueError, match="^folder: expected a readable tokenizer.json in"
    ) as raised:
        load_tokenizer(folder)
    assert says in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_cut_anywhere_is_refused(saved):
    _, folder = saved
    whole = (folder / "tokenizer.json").read_bytes()
    for n in [*range(0, 60), *range(60, len(whole) - 1, 97), len(whole) - 1]:
        (folder / "tokenizer.json").write_bytes(whole[:n])
        refused(folder)


def test_what_is_missing_or_no_file_is_refused(tmp_path):
    refused(tmp_path, "FileNotFoundError")
    refused(tmp_path / "none", "FileNotFoundError")
    for folder in (None, 3, "a\0b"):
        refused(folder)
    (tmp_path / "tokenizer.json").mkdir()
    refused(tmp_path)


CHAR, SUBWORD = (
    {"type": "char", "alphabet": "ab", "lowercase": False},
    {"type": "subword", "merges": ["a b", "ab c"], "lowercase": False},
)
BAD_FILES = {
    "another type": CHAR | {"type": "bpe"},
    "no type": {"alphabet": "ab", "lowercase": False},
    "a type that is a list": CHAR | {"type": []},
    "no alphabet": {"type": "char", "lowercase": False},
    "an empty alphabet": CHAR | {"alphabet": ""},
    "a letter twice": CHAR | {"alphabet": "aba"},
    "an alphabet that is a list": CHAR | {"alphabet": ["a", "b"]},
    "a special token in the alphabet": CHAR | {"alphabet": ["<pad>", "a"]},
    "half a surrogate pair": CHAR | {"alphabet": "a" + HALF},
    "a capital that is folded": CHAR | {"alphabet": "aB", "lowercase": True},
    "a character in another spelling": CHAR | {"alphabet": "\u212b"},
    "lowercase that is a number": CHAR | {"lowercase": 0},
    "lowercase that is a word": SUBWORD | {"lowercase": "false"},
    "lowercase that is null": SUBWORD | {"lowercase": None},
    "no lowercase": {"type": "subword", "merges": []},
    "no merges": {"type": "subword", "lowercase": False},
    "merges that are a word": SUBWORD | {"merges": "a b"},
    "merges that are numbers": SUBWORD | {"merges": [1, 2]},
    "merges that are lists": SUBWORD | {"merges": [["a", "b"]]},
    "a merge of one": SUBWORD | {"merges": ["ab"]},
    "a merge of three": SUBWORD | {"merges": ["a b c"]},
    "a merge with nothing": SUBWORD | {"merges": ["a "]},
    "a merge of nothing": SUBWORD | {"merges": [" "]},
    "a merge of what nothing makes": SUBWORD | {"merges": ["a b", "abc d"]},
    "a merge of what is no byte": SUBWORD | {"merges": ["a 語"]},
    "a merge of a special token": SUBWORD | {"merges": ["</s> a"]},
    "a merge of half a surrogate pair": SUBWORD | {"merges": ["a " + HALF]},
    "added tokens": SUBWORD | {"added_tokens": [{"id": 2, "content": "</s>", "special": True}]},
    "added tokens beside characters": CHAR | {"added_tokens": []},
    "the library's own format": json.loads(by_library(PROSE, 300).to_str()),
    "the library's own format inside": {
        "type": "subword",
        "lowercase": False,
        "tokenizer": json.loads(by_library(PROSE, 300).to_str()),
    },
    "a list": [CHAR],
    "a number": 3,
    "null": None,
    "a string": "char",
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_a_file_that_save_would_not_write_is_refused(tmp_path, what):
    (tmp_path / "tokenizer.json").write_text(json.dumps(BAD_FILES[what]), encoding="utf-8")
    refused(tmp_path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0", b"\xff\xfe{}", b"{", b"NaN", b"[" * 100_000, "\ufeff{}".encode()],
    ids=repr,
)
def test_a_file_that_is_no_json_is_refused(tmp_path, content):
    (tmp_path / "tokenizer.json").write_bytes(content)
    refused(tmp_path)


def test_good_files_are_read(tmp_path):
    for metadata in (CHAR, SUBWORD):
        (tmp_path / "tokenizer.json").write_text(json.dumps(metadata), encoding="utf-8")
        assert load_tokenizer(tmp_path).to_dict() == metadata


@settings(deadline=None)
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
        assert str(error).startswith("folder: expected a readable tokenizer.json")
    else:
        assert all(
            tokenizer.decode(tokenizer.encode(text)) == normalise(text, tokenizer.lowercase)
            for text in [*PROSE, *SPECIALS]
        )


# ---- bad input


def not_texts(call):
    "What everything that takes a list of texts refuses."
    return [
        (
            "one string",
            lambda: call("ona"),
            (TypeError, "texts: expected a list of strings", "got str"),
        ),
        (
            "bytes",
            lambda: call(b"ona"),
            (TypeError, "texts: expected a list of strings", "got bytes"),
        ),
        (
            "None",
            lambda: call(None),
            (TypeError, "texts: expected a list of strings", "got NoneType"),
        ),
        ("a number", lambda: call(3), (TypeError, "texts: expected a list of strings", "got int")),
        ("numbers", lambda: call(["ona", 3]), (TypeError, "text: expected a string", "got int")),
        (
            "texts of bytes",
            lambda: call([b"ona"]),
            (TypeError, "text: expected a string", "got bytes"),
        ),
        (
            "lists of texts",
            lambda: call([["ona"]]),
            (TypeError, "text: expected a string", "got list"),
        ),
        (
            "half a surrogate pair",
            lambda: call(["ona", "x" + HALF]),
            (ValueError, "text: expected characters", "at place 1"),
        ),
    ]


def trained(kind):
    return [
        *not_texts(kind.train),
        (
            "no texts",
            lambda: kind.train([]),
            (ValueError, "texts: expected at least one character", "none"),
        ),
        (
            "empty texts",
            lambda: kind.train(["", ""]),
            (ValueError, "texts: expected at least one character", "none"),
        ),
        (
            "lowercase that is a number",
            lambda: kind.train(["ona"], lowercase=1),
            (TypeError, "lowercase: expected True or False", "got 1"),
        ),
        (
            "lowercase that is None",
            lambda: kind.train(["ona"], lowercase=None),
            (TypeError, "lowercase: expected True or False", "got None"),
        ),
    ]


def used(tokenizer):
    encode, decode, size = tokenizer.encode, tokenizer.decode, tokenizer.vocab_size
    rows = [
        (f"{what} to {name}", lambda method=getattr(tokenizer, name), bad=bad: method(bad), wanted)
        for name in ("encode", "unknown", "normalise")
        for what, bad, wanted in [
            ("bytes", b"ona", (TypeError, "text: expected a string", "got bytes")),
            ("None", None, (TypeError, "text: expected a string", "got NoneType")),
            ("a list", ["ona"], (TypeError, "text: expected a string", "got list")),
            (
                "half a surrogate pair",
                "on" + HALF,
                (ValueError, "text: expected characters", "place 2"),
            ),
        ]
    ]
    return rows + [
        ("a string of NumPy", lambda: decode(encode(np.str_("ona"))), lambda back: back == "ona"),
        (
            "a number that is no token",
            lambda: decode([4, size]),
            (ValueError, "ids: expected numbers below vocab_size", f"got {size}"),
        ),
        (
            "a number too large for Rust",
            lambda: decode([2**70]),
            (ValueError, "ids: expected numbers below vocab_size", str(2**70)),
        ),
        (
            "a fraction",
            lambda: decode([4.5]),
            (TypeError, "ids: expected one row of whole numbers", "4.5"),
        ),
        (
            "a string as ids",
            lambda: decode("45"),
            (TypeError, "ids: expected one row of whole numbers", "'45'"),
        ),
        ("one id", lambda: decode(5), (TypeError, "ids: expected one row of whole numbers", "5")),
        (
            "None as ids",
            lambda: decode(None),
            (TypeError, "ids: expected one row of whole numbers", "None"),
        ),
        (
            "a tensor of numbers",
            lambda: decode(torch.tensor([4.0])),
            (TypeError, "ids: expected one row of whole numbers", "4."),
        ),
        (
            "a tensor of rows",
            lambda: decode(torch.tensor([[4]])),
            (TypeError, "ids: expected one row of whole numbers", "[[4]]"),
        ),
        (
            "a tensor of one number",
            lambda: decode(torch.tensor(4)),
            (TypeError, "ids: expected one row of whole numbers", "4"),
        ),
        (
            "specials alone",
            lambda: decode([PAD, BOS, EOS, UNK, -1, -100, -(2**70)]),
            lambda back: back == "",
        ),
    ]


TABLE = {
    "normalise": [
        ("bytes", lambda: normalise(b"ona"), (TypeError, "text: expected a string", "got bytes")),
        ("None", lambda: normalise(None), (TypeError, "text: expected a string", "got NoneType")),
        (
            "half a surrogate pair",
            lambda: normalise("on" + HALF + "a"),
            (ValueError, "text: expected characters, got half a surrogate pair", "place 2"),
        ),
        (
            "halves in the wrong order",
            lambda: normalise("\ude42\ud83d"),
            (ValueError, "text: expected characters", "place 0"),
        ),
        ("nothing", lambda: normalise(""), lambda text: text == ""),
        ("a pair", lambda: normalise("\U0001f642"), lambda text: text == "🙂"),
    ],
    "TextTokenizer": [
        (
            "lowercase that is a number",
            lambda: TextTokenizer(1),
            (TypeError, "lowercase: expected True or False", "got 1"),
        )
    ],
    "CharTokenizer": [
        *trained(CharTokenizer),
        *used(CharTokenizer("aon")),
        (
            "no alphabet",
            lambda: CharTokenizer(""),
            (ValueError, "alphabet: expected different characters", "''"),
        ),
        (
            "None",
            lambda: CharTokenizer(None),
            (ValueError, "alphabet: expected different characters", "None"),
        ),
        (
            "a list",
            lambda: CharTokenizer(["a"]),
            (ValueError, "alphabet: expected different characters", "['a']"),
        ),
        (
            "a letter twice",
            lambda: CharTokenizer("aba"),
            (ValueError, "alphabet: expected different characters", "'aba'"),
        ),
        (
            "a capital that is folded",
            lambda: CharTokenizer("aB", True),
            (ValueError, "alphabet: expected characters that `normalise` leaves", "'B'"),
        ),
        (
            "another spelling",
            lambda: CharTokenizer("a\u212b"),
            (ValueError, "alphabet: expected characters that `normalise` leaves", "\u212b"),
        ),
        (
            "half a surrogate pair",
            lambda: CharTokenizer("a" + HALF),
            (ValueError, "text: expected characters", "surrogate"),
        ),
    ],
    "SubwordTokenizer": [
        *trained(SubwordTokenizer),
        *used(SUBWORDS),
        *(
            (
                f"vocab_size is {bad}",
                lambda bad=bad: SubwordTokenizer.train(["ona"], bad),
                ((TypeError, ValueError), "vocab_size: expected", str(bad)),
            )
            for bad in (0, -5, 259, 300.0, True, None, "300")
        ),
        (
            "merges that are None",
            lambda: SubwordTokenizer(None),
            (TypeError, "merges: expected pairs of strings", "None"),
        ),
        (
            "a backend of the library",
            lambda: SubwordTokenizer(by_library(PROSE, 300)),
            (TypeError, "merges: expected pairs of strings", "Tokenizer"),
        ),
        (
            "merges that are numbers",
            lambda: SubwordTokenizer([(1, 2)]),
            ((TypeError, ValueError), "merges: expected pairs", "(1, 2)"),
        ),
        (
            "merges of three",
            lambda: SubwordTokenizer([("a", "b", "c")]),
            (TypeError, "merges: expected pairs of strings", "'c'"),
        ),
        (
            "merges of what nothing makes",
            lambda: SubwordTokenizer([("ab", "c")]),
            (ValueError, "merges: expected pairs of single bytes", "('ab', 'c')"),
        ),
        (
            "merges of nothing",
            lambda: SubwordTokenizer([("", "")]),
            (ValueError, "merges: expected pairs of single bytes", "('', '')"),
        ),
        (
            "lowercase that is a number",
            lambda: SubwordTokenizer([], 0),
            (TypeError, "lowercase: expected True or False", "got 0"),
        ),
        (
            "merges from an iterator",
            lambda: SubwordTokenizer(iter([("a", "b")])),
            lambda tokenizer: tokenizer.vocab_size == 261,
        ),
    ],
    "load_tokenizer": [
        (
            "None",
            lambda: load_tokenizer(None),
            (ValueError, "folder: expected a readable tokenizer.json", "None"),
        )
    ],
    "encode_texts": [
        *not_texts(lambda texts: encode_texts(texts, SUBWORDS)),
        ("no texts", lambda: encode_texts([], SUBWORDS), lambda rows: rows == []),
        (
            "no tokenizer",
            lambda: encode_texts(["ona"], None),
            (TypeError, "tokenizer: expected", "NoneType"),
        ),
    ],
}


@pytest.mark.parametrize(("call", "wanted"), cases(TABLE))
def test_bad_input_gets_one_clear_sentence_or_a_defined_result(call, wanted):
    judge(call, wanted)


def test_every_public_name_has_its_rows():
    assert public_names(module) == TABLE.keys() and all(TABLE.values())
