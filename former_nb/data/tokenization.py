"""Tokenizers that can be saved, tokenizers from elsewhere, and a file that can be trusted.

Lesson 07 derives `CharTokenizer` and `encode_texts`. Here both can do what a program needs besides:
a `CharTokenizer` prepares its texts and is saved, and `encode_texts` lets each tokenizer begin and
end a text in its own way.

Byte pair encoding learns which pieces of words are frequent
([Sennrich et al. 2016](https://arxiv.org/abs/1508.07909)), as lesson 15 does by hand. Below the
letters `SubwordTokenizer` knows all 256 bytes, so no text is unknown. Training and encoding are
left to Hugging Face's library `tokenizers`, which does both in Rust.

Models from Hugging Face come with tokenizers of their own, and `HuggingFaceTokenizer` gives such a
one our methods. Special tokens have any numbers there, and most programs read `<|endoftext|>` in a
user's text as the end of the text
([tokenizers, issue 1347](https://github.com/huggingface/tokenizers/issues/1347)). Ours reads
thirteen characters.

What is saved is JSON, and nothing in it is run. `load_tokenizer` refuses a file that is broken, or
that says more than `save` writes.
"""

import json
import re
from collections import abc
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
from tokenizers.trainers import BpeTrainer

from ..base.files import check_path, read_json, reading
from ..base.guards import check_int, check_that, check_type
from . import text as lesson
from .tokens import (
    BOS,
    EOS,
    KINDS,
    SPECIALS,
    TextTokenizer,
    TokenizerPair,
    check_alphabet,
    check_texts,
    normalise,
)

__all__ = [
    "CharTokenizer",
    "encode_texts",
    "SubwordTokenizer",
    "HuggingFaceTokenizer",
    "load_tokenizer",
]


# ---- characters


class CharTokenizer(TextTokenizer, lesson.CharTokenizer):
    "Lesson 07's tokenizer, which also prepares texts, names unknown characters and can be saved."

    kind = "char"  # what its file says, see `load_tokenizer`
    alphabet: str
    vocab_size: int

    def __init__(
        self,
        alphabet: str,  # the characters known, in the order of their numbers
        lowercase: bool = False,  # fold capitals before encoding
        strip_html: bool = False,  # `<br />` becomes a line end before encoding
    ):
        TextTokenizer.__init__(self, lowercase, strip_html)
        check_alphabet(alphabet, self.normalise)
        lesson.CharTokenizer.__init__(self, alphabet)

    @classmethod
    def train(
        cls,
        texts: list[str],  # the training texts, and no others
        lowercase: bool = False,  # fold capitals, here and in `encode`
        strip_html: bool = False,  # `<br />` becomes a line end, here and in `encode`
    ) -> "CharTokenizer":
        "A tokenizer that knows every character of `texts`."
        prepared = [normalise(text, lowercase, strip_html) for text in check_texts(texts)]
        known = lesson.CharTokenizer.train(prepared)
        return cls(known.alphabet, lowercase, strip_html)

    def unknown(self, text: str) -> str:
        "The characters of `text` that the tokenizer does not know, each once."
        return "".join(dict.fromkeys(c for c in self.normalise(text) if c not in self.number))

    def encode(
        self,
        text: str,
    ) -> list[int]:  # one number per character; `UNK` for one that is not known
        "Numbers for the characters of `text`, without <bos> and <eos>."
        return lesson.CharTokenizer.encode(self, self.normalise(text))

    def decode(
        self,
        tokens: list[int],  # each below `vocab_size`
    ) -> str:  # special tokens leave no trace
        "The text that `tokens` spell."
        return "".join(self.alphabet[i] for i in self.pieces(tokens))

    def to_dict(self) -> dict[str, Any]:
        "All that `from_dict` needs, fit for JSON."
        return super().to_dict() | {"alphabet": self.alphabet}


def encode_texts(
    texts: list[str],
    tokenizer: TextTokenizer,  # or any object with such an `encode`
) -> list[list[int]]:  # each begins and ends as the tokenizer's texts do
    "Numbers for each text, with its beginning and its end marked: BOS and EOS, or its own tokens."
    before = getattr(tokenizer, "before", (BOS,))
    after = getattr(tokenizer, "after", (EOS,))
    return [[*before, *tokenizer.encode(text), *after] for text in check_texts(texts)]


# ---- pieces of words


def _number_pieces(merges):
    "Piece -> its number; the 256 bytes come first. `ValueError` for what no bytes can make."
    pieces = sorted(ByteLevel.alphabet())
    pieces += [a + b for a, b in merges if a and b]
    numbers = {piece: i for i, piece in enumerate(dict.fromkeys(pieces))}
    strange = [(a, b) for a, b in merges if a not in numbers or b not in numbers]
    check_that(not strange, "merges", "pairs of single bytes or of what other pairs make", strange)
    return numbers


LONGEST_WORD = 256  # bytes; training takes the square of a word's length
MAY_BE_LONG = re.compile(r"\S{60}|\s{60}")  # a word may be, at four bytes a letter


class SubwordTokenizer(TextTokenizer):
    """Byte-level BPE from Hugging Face `tokenizers`. Every text is known; none spells a special
    token."""

    kind = "subword"

    def __init__(
        self,
        merges: list[tuple[str, str]],  # in the order learned; bytes as in `ByteLevel.alphabet()`
        lowercase: bool = False,  # fold capitals before encoding
        strip_html: bool = False,  # `<br />` becomes a line end before encoding
    ):
        super().__init__(lowercase, strip_html)
        self.merges = [(a, b) for a, b in merges]
        self.backend = Tokenizer(BPE(_number_pieces(self.merges), self.merges))
        self.backend.pre_tokenizer = ByteLevel(add_prefix_space=False)
        self.backend.decoder = ByteLevelDecoder()

    @classmethod
    def train(
        cls,
        texts: list[str],  # the training texts, and no others
        vocab_size: int = 1000,  # special tokens, bytes and merges; fewer where pairs run out
        lowercase: bool = False,  # fold capitals, here and in `encode`
        strip_html: bool = False,  # `<br />` becomes a line end, here and in `encode`
    ) -> "SubwordTokenizer":
        "Learn the frequent pieces of `texts` (Sennrich et al. 2016)."
        check_int("vocab_size", vocab_size, len(SPECIALS) + 256)
        bytes_alone = cls([], lowercase, strip_html)
        texts = [bytes_alone.normalise(text) for text in check_texts(texts)]
        check_that(any(texts), "texts", "at least one character", texts)
        most = 256 + sum(len(text.encode()) for text in texts)  # a merge saves a byte or more
        trainer = BpeTrainer(
            vocab_size=min(vocab_size - len(SPECIALS), most),
            min_frequency=2,
            initial_alphabet=ByteLevel.alphabet(),
            show_progress=False,
        )
        learner = bytes_alone.backend
        if any(map(MAY_BE_LONG.search, texts)):  # DNA, base64, Chinese: no merge needs it whole
            cut = Split(Regex(f"[\\s\\S]{{1,{LONGEST_WORD}}}"), "isolated")
            learner.pre_tokenizer = Sequence([learner.pre_tokenizer, cut])
        learner.train_from_iterator(texts, trainer)
        learned = json.loads(learner.to_str())
        return cls(learned["model"]["merges"], lowercase, strip_html)

    @property
    def vocab_size(self) -> int:
        "How many different tokens there are, the special ones included."
        return len(SPECIALS) + self.backend.get_vocab_size()

    def encode(
        self,
        text: str,
    ) -> list[int]:  # one number per piece
        "Numbers for the pieces of `text`, without <bos> and <eos>."
        return [i + len(SPECIALS) for i in self.backend.encode(self.normalise(text)).ids]

    def decode(
        self,
        tokens: list[int],  # each below `vocab_size`
    ) -> str:  # special tokens leave no trace; bytes that are no UTF-8 become U+FFFD
        "The text that `tokens` spell."
        return self.backend.decode(self.pieces(tokens))

    def to_dict(self) -> dict[str, Any]:
        "All that `from_dict` needs, fit for JSON."
        return super().to_dict() | {"merges": [f"{a} {b}" for a, b in self.merges]}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> TextTokenizer:
        "The tokenizer that `to_dict` described."
        return super().from_dict(saved | {"merges": [pair.split(" ") for pair in saved["merges"]]})


# ---- tokenizers from elsewhere


def tokens_around(
    tokenizer: Tokenizer,
) -> tuple[list[int], list[int]]:
    """The tokens that a tokenizer of the library puts before and after every text.

    Their kinds of template differ, and several can follow each other. So we do not read them, but
    encode the letter a without and with them, and look for the first result in the second.
    """
    letter = tokenizer.encode("a", add_special_tokens=False).ids
    whole = tokenizer.encode("a").ids
    if letter:
        for start in range(len(whole)):
            end = start + len(letter)
            if whole[start:end] == letter:
                return whole[:start], whole[end:]
    expected = "tokens for the letter a, with others around them"
    raise ValueError(f"tokenizer: expected {expected}, got {whole!r:.200}")


class HuggingFaceTokenizer(TextTokenizer):
    "A tokenizer of Hugging Face's `tokenizers`. No text spells one of its special tokens."

    kind = "hugging_face"

    def __init__(
        self,
        backend: dict[str, Any],  # what their tokenizer.json holds
        vocab_size: int,  # of the model, which may have room for more tokens
        eos_token_ids: abc.Sequence[int],  # tokens that end a text
        start: abc.Sequence[int] = (),  # tokens that a translation begins with
        suppress_tokens: abc.Sequence[int] = (),  # tokens that are never written
    ):
        super().__init__()
        self.saved = backend
        self.vocab_size = vocab_size
        self.ends = list(eos_token_ids)
        self.more = {}  # what `save` writes besides
        if start or suppress_tokens:
            self.more = {"start": list(start), "suppress_tokens": list(suppress_tokens)}
        self.stops = {"eos_token_ids": self.ends, "suppress_tokens": tuple(suppress_tokens)}
        self.backend = Tokenizer.from_str(json.dumps(backend))
        self.backend.no_padding()
        self.backend.no_truncation()
        self.backend.encode_special_tokens = True  # in a text they are characters as all others
        tokens = {*self.backend.get_vocab().values(), *self.ends, *start, *suppress_tokens}
        outside = [token for token in tokens if not 0 <= token < vocab_size]
        check_that(not outside, "tokenizer", f"tokens below {vocab_size}", outside)
        self.before, after = tokens_around(self.backend)
        self.after = after or self.ends[:1]
        self.start = tuple(start or self.before)
        self._name_special_tokens(backend["model"])

    def _name_special_tokens(self, model):
        "Special tokens by number, and those that no text may spell: all but the unknown one."
        added = self.backend.get_added_tokens_decoder()
        self.names = {i: token.content for i, token in added.items() if token.special}
        unknown = self.backend.token_to_id(str(model.get("unk_token")))
        self.special = self.names.keys() - {unknown, model.get("unk_id")}

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,  # with tokenizer.json
        *args: Any,  # vocab_size and what follows it, as for the constructor
        **kwargs: Any,
    ) -> "HuggingFaceTokenizer":
        "Read JSON, no pickle. Raises `ValueError` for a tokenizer that does not fit."
        folder = check_path("folder", folder)
        file = folder / "tokenizer.json"
        again = "AutoTokenizer.from_pretrained(folder).save_pretrained(folder) of transformers"
        wanted = f"tokenizer.json, which {again} makes of the files of an older folder"
        check_that(file.exists(), "tokenizer", wanted, str(folder))
        with reading("tokenizer", f"one of Hugging Face's for the model in {str(folder)!r}"):
            return cls(read_json(file.name, file), *args, **kwargs)

    def encode(
        self,
        text: str,
    ) -> list[int]:  # without what `before` and `after` add
        "Numbers for the pieces of `text`. Raises `ValueError` if one would be a special token."
        check_type("text", text, str)
        return self._checked(self.backend.encode(text, add_special_tokens=False).ids)

    def _checked(self, ids):
        "The same numbers. Raises `ValueError` where one is a special token."
        forged = [self.backend.id_to_token(i) for i in ids if i in self.special]
        check_that(not forged, "text", "no special token", forged)
        return ids

    def decode(
        self,
        tokens: list[int],  # each below `vocab_size`; negative ones leave no trace
    ) -> str:  # special tokens leave no trace
        "The text that `tokens` spell."
        self.pieces(tokens)  # refuses what is no token
        return self.backend.decode([int(i) for i in tokens if i >= 0])

    def to_dict(self) -> dict[str, Any]:
        "All that `from_dict` needs, fit for JSON."
        return {
            "type": self.kind,
            "backend": self.saved,
            "vocab_size": self.vocab_size,
            "eos_token_ids": self.ends,
            **self.more,
        }


# ---- a file that can be trusted


def load_tokenizer(
    folder: str | Path,
) -> TextTokenizer | TokenizerPair:  # of the kind that was saved there
    """Read `tokenizer.json` from `folder`. `ValueError` where it is not what `save` writes.

    A kind of your own is known once the module that defines it was imported.
    """
    folder = check_path("folder", folder)
    with reading("folder", f"a readable tokenizer.json in {str(folder)!r}"):
        saved = read_json("tokenizer.json", folder / "tokenizer.json")
        kinds: dict[str, Any] = {**KINDS, "pair": TokenizerPair}
        expected = f"one of {list(kinds)}, or one of your own whose module was imported before"
        check_that(str(saved.get("type")) in kinds, "type", expected, saved.get("type"))
        tokenizer = kinds[saved["type"]].from_dict(saved)
        check_that(tokenizer.to_dict() == saved, "tokenizer.json", "what save writes", saved)
        return tokenizer
