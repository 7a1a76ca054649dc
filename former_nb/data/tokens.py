"""What all tokenizers share: one spelling, the special tokens, and the base class.

A tokenizer turns text into the numbers that a model is given. Lesson 07 derives one for characters,
`CharTokenizer`; `former_nb.data.tokenization` has those for pieces of words. This module is below
both and knows neither: a kind of tokenizer inherits from `TextTokenizer`, and so enters itself in
`KINDS`, where `load_tokenizer` finds it.

Four special tokens come first. `PAD` fills short rows, `BOS` begins a text, `EOS` ends it, and
`UNK` replaces what is not known. Text never spells them, because what a text contains is not
compared with their names.

Unicode has two spellings of many letters: ė is one code point, or an e and a dot above it.
`normalise` chooses the first
([form NFC, Whistler (ed.)](https://www.unicode.org/reports/tr15/)). It can fold capitals, and turn
the `<br />` of reviews from the web into the line end that it means. A tokenizer prepares text
when it is used exactly as it did when it was trained, so these choices are part of it: `encode`
applies them, and `save` writes them down.
"""

import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import index
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from ..base.files import check_path, reading
from ..base.guards import check_int, check_tensor, check_that, check_type

__all__ = [
    "PAD",
    "BOS",
    "EOS",
    "UNK",
    "SPECIALS",
    "KINDS",
    "normalise",
    "check_texts",
    "check_references",
    "check_alphabet",
    "lengths_of",
    "long_row",
    "check_rows",
    "check_token_rows",
    "TextTokenizer",
    "check_tokenizer",
    "TokenizerPair",
    "both_sides",
]

PAD, BOS, EOS, UNK = range(4)
SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")
KINDS: dict[str, type["TextTokenizer"]] = {}  # the "type" in tokenizer.json -> its class


def normalise(
    text: str,
    lowercase: bool = False,  # fold capitals
    strip_html: bool = False,  # `<br />`, HTML's line break, becomes a line end
) -> str:
    "One spelling (NFC). `ValueError` for half a surrogate pair, which is no character."
    check_type("text", text, str)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = ord(text[error.start])
        came = f"half a surrogate pair, 0x{half:x}"
        if 0xDC80 <= half <= 0xDCFF:  # where Python read what is not UTF-8
            came = f"byte 0x{half - 0xDC00:x}, which UTF-8 cannot decode"
        place = f"at character {error.start + 1}"
        raise ValueError(f"text: expected characters, got {came}, {place}") from None
    if strip_html:
        text = re.sub(r"<br\s*/?>", "\n", text, flags=re.IGNORECASE)
    if lowercase:
        text = text.lower()
    return unicodedata.normalize("NFC", text)


def check_texts(
    texts: Iterable[str],  # of any kind
    *,
    name: str = "texts",  # what an error calls them
    any_kind: bool = False,  # leave what is no string to the caller
) -> list[str]:
    "`texts` as a list. `TypeError` for one string, which Python takes for a list of letters."
    several = isinstance(texts, Iterable) and not isinstance(texts, (str, bytes))
    check_that(several, name, "a list of strings", texts, TypeError)
    given = list(texts)
    for i, text in enumerate(given, start=1):
        known = any_kind or isinstance(text, str)
        check_that(known, f"{name}: row {i}", "a string", text, TypeError)
    return given


def check_references(
    texts: list[list[str]],  # the words of each
    references: list[list[str]],  # the words of what each is compared with
) -> None:
    "`TypeError` or `ValueError` unless these are lists of lists, a reference for each text."
    for name, rows in (("texts", texts), ("references", references)):
        several = isinstance(rows, (list, tuple))
        cut = several and all(isinstance(row, (list, tuple)) for row in rows)
        check_that(cut, name, "a list of lists of words", rows, TypeError)
    same = len(texts) == len(references)
    check_that(same, "references", f"as many as texts, {len(texts)}", len(references))


def check_alphabet(
    alphabet: str,
    prepare: Callable[[str], str],  # what a text goes through before it is looked up
) -> None:
    "`ValueError` unless all characters differ and `prepare` leaves each as it is."
    fits = isinstance(alphabet, str) and 0 < len(alphabet) == len(set(alphabet))
    check_that(fits, "alphabet", "different characters, at least one", alphabet)
    changed = [c for c in alphabet if prepare(c) != c]
    check_that(not changed, "alphabet", "characters that `normalise` leaves as they are", changed)


def lengths_of(
    rows,  # a sequence of rows, or a data set of them
    length: Callable,  # how many tokens a row has
) -> list[int]:
    "The length of each row. `TypeError` for rows that can't be counted, `ValueError` for none."
    columns = isinstance(rows, Mapping) or hasattr(rows, "columns")
    counted = hasattr(rows, "__len__") and hasattr(rows, "__getitem__") and not columns
    wanted = "a list of rows, or a data set that counts them"
    check_that(counted, "rows", wanted, type(rows).__name__ if columns else rows, TypeError)
    check_that(len(rows) > 0, "rows", "at least one row", rows)
    lengths = []
    for i in range(len(rows)):
        row = rows[i]
        known = length is not len or hasattr(row, "__len__") and getattr(row, "ndim", 1) > 0
        check_that(known, f"rows: row {i + 1}", "a row of tokens", row, TypeError)
        lengths.append(length(row))
    return lengths


def long_row(
    ids,  # a list, a tensor or a NumPy array, mapped or not
    least: int,  # tokens
) -> np.ndarray:  # (N,)
    "One long row of tokens. `ValueError` for another shape, other numbers, or fewer of them."
    row: Any = None
    with suppress(ValueError):  # of rows of different lengths
        row = ids.cpu().numpy() if isinstance(ids, torch.Tensor) else np.asarray(ids)
    fits = row is not None and row.ndim == 1 and len(row) >= least and row.dtype.kind in "iu"
    wanted = f"one row of {least} whole numbers or more, as `tokenizer.encode(text)` gives"
    came = "rows of different lengths" if row is None else (row.dtype, row.shape)
    check_that(fits, "ids", wanted, came)
    return row


def _no_rows(rows):
    "The error for what are no rows of whole numbers, with what to do about the first."
    how = ""
    first = next(iter(rows), None) if isinstance(rows, Iterable) else None
    if isinstance(first, str):
        how = ", as `encode_texts` makes them of texts"
    elif isinstance(first, Mapping):
        how = ", as row['input_ids'] of a dictionary may be"
    elif isinstance(first, (tuple, list)) and any(type(part) is not int for part in first):
        how = (
            " without targets, which `collate` makes by shifting them (`label_batches` takes "
            "labels, and `collate=collate_pairs` translations)"
        )
    return TypeError(f"rows: expected rows of whole numbers{how}, got {rows!r:.80}")


def check_rows(
    rows: Iterable,  # lists, arrays or tensors of different lengths
    value: int = PAD,  # what fills the short ones
) -> list[torch.Tensor]:
    "Each row as a tensor of whole numbers, unchanged where it is one. Raises for other rows."
    check_int("value", value, least=None)
    try:
        tensors = [row if isinstance(row, torch.Tensor) else torch.tensor(row) for row in rows]
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise _no_rows(rows) from None
    for row in tensors:
        if row.ndim != 1:
            raise _no_rows(rows)
        check_tensor("rows", row if row.numel() else row.long(), "T", int)
    return tensors


def _is_whole(row):
    "Whether a row surely is one of whole numbers. Takes little time."
    if type(row) is list:
        with suppress(TypeError):  # of what is no number
            return not row or type(row[0]) is type(sum(row)) is int
    if isinstance(row, torch.Tensor):
        return row.ndim == 1 and row.dtype == torch.int64
    return isinstance(row, np.ndarray) and row.ndim == 1 and row.dtype.kind in "iu"


def check_token_rows(
    rows: Sequence,  # of lists, arrays or tensors of different lengths
    value: int = PAD,  # what fills the short ones
) -> None:
    "Raise unless each row is one of whole numbers, and all can be counted."
    check_that(hasattr(rows, "__len__"), "rows", "a list of rows", rows, TypeError)
    check_int("value", value, least=None)
    if not all(map(_is_whole, rows)):
        check_rows(rows)  # looks again, and says what is wrong


class TextTokenizer(ABC):
    "The base of our tokenizers. A subclass has `encode`, `decode`, `vocab_size` and `to_dict`."

    kind = ""  # what tokenizer.json calls it
    alphabet: Any  # the characters that it knows, for an error to name
    vocab_size: int  # how many different tokens there are, the special ones included
    before: Sequence[int] = (BOS,)  # what a text begins with
    after: Sequence[int] = (EOS,)  # what it ends with
    start: Sequence[int] = (BOS,)  # what a translation begins with
    names: dict[int, str] = dict(enumerate(SPECIALS))  # of the special tokens
    stops: dict[str, Any] = {"eos_token_ids": EOS, "suppress_tokens": (PAD, BOS, UNK)}  # `stream`'s

    def __init_subclass__(cls):
        if "kind" not in vars(cls):  # an heir is of another kind
            cls.kind = cls.__name__
        KINDS[cls.kind] = cls

    def __init__(
        self,
        lowercase: bool = False,  # fold capitals before encoding
        strip_html: bool = False,  # `<br />` becomes a line end before encoding
    ):
        check_type("lowercase", lowercase, bool)
        check_type("strip_html", strip_html, bool)
        self.lowercase = lowercase
        self.strip_html = strip_html

    @abstractmethod
    def encode(
        self,
        text: str,
    ) -> list[int]:  # without what `before` and `after` add
        "Numbers for `text`."

    @abstractmethod
    def decode(
        self,
        tokens: list[int],  # each below `vocab_size`
    ) -> str:  # special tokens leave no trace
        "The text that `tokens` spell."

    def normalise(self, text: str) -> str:
        "`text` as it is looked up, prepared as in training."
        return normalise(text, self.lowercase, self.strip_html)

    def unknown(self, text: str) -> str:
        "What it cannot encode: nothing, unless a subclass says otherwise."
        self.normalise(text)  # refuses what is no text
        return ""

    def pieces(
        self,
        tokens: list[int],  # each below `vocab_size`; negative and special ones leave no trace
    ) -> list[int]:  # counted from the first token that is not special
        "The tokens among `tokens` that spell text."
        if isinstance(tokens, torch.Tensor):
            tokens = tokens.tolist()
        try:
            numbers = [index(i) for i in tokens]
        except TypeError:
            wanted = "one row of whole numbers"
            raise TypeError(f"tokens: expected {wanted}, got {tokens!r:.80}") from None
        largest = max(numbers, default=0)
        expected = f"numbers below vocab_size = {self.vocab_size}"
        check_that(largest < self.vocab_size, "tokens", expected, largest)
        return [i - len(SPECIALS) for i in numbers if i >= len(SPECIALS)]

    def to_dict(self) -> dict[str, Any]:
        "All that `from_dict` needs, fit for JSON."
        return {"type": self.kind, "lowercase": self.lowercase, "strip_html": self.strip_html}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "TextTokenizer":
        "The tokenizer that `to_dict` described."
        return cls(**{name: value for name, value in saved.items() if name != "type"})

    def save(self, folder: str | Path) -> None:
        "Write `tokenizer.json` into `folder`, which is made where it is missing."
        _write(self, folder)


def _write(tokenizer, folder):
    "A tokenizer, or a pair, as a file. Raises now what `from_dict` would raise when it is read."
    from ..base.checkpoints import write_file  # not in the page of the site, which saves nothing

    saved = tokenizer.to_dict()
    kind = type(tokenizer)
    with reading("tokenizer", f"a {kind.__name__} whose `to_dict` says what `from_dict` needs"):
        kind.from_dict(saved)
    text = json.dumps(saved, ensure_ascii=False, indent=2)
    write_file("folder", check_path("folder", folder) / "tokenizer.json", text)


def check_tokenizer(
    tokenizer,  # what came
) -> None:
    "Raise `TypeError` unless it is a `TextTokenizer`."
    wanted = "a `TextTokenizer` of former_nb.data, or one of your own that inherits from it"
    fits = isinstance(tokenizer, TextTokenizer)
    check_that(fits, "tokenizer", wanted, type(tokenizer).__name__, TypeError)


class TokenizerPair(NamedTuple):
    "The tokenizers of a translator that has a vocabulary for each side."

    source: TextTokenizer
    target: TextTokenizer

    def to_dict(self) -> dict[str, Any]:
        "All that `from_dict` needs, fit for JSON."
        return {"type": "pair", "source": self.source.to_dict(), "target": self.target.to_dict()}

    @classmethod
    def from_dict(cls, saved: dict[str, Any]) -> "TokenizerPair":
        "The pair that `to_dict` described."
        sides = []
        for name in cls._fields:
            kind = saved[name]["type"]
            check_that(kind in KINDS, "type", f"one of {list(KINDS)}", kind)
            sides.append(KINDS[kind].from_dict(saved[name]))
        return both_sides(tuple(sides))

    def save(self, folder: str | Path) -> None:
        "Write both into one `tokenizer.json`, as a tokenizer alone writes itself."
        _write(self, folder)


def both_sides(
    tokenizer: TextTokenizer | tuple,  # of both sides, or (source, target)
) -> TokenizerPair:
    "The tokenizers of a translator's source and target. `TypeError` for anything else."
    pair = tokenizer if isinstance(tokenizer, (tuple, list)) else (tokenizer, tokenizer)
    check_that(len(pair) == 2, "tokenizer", "one, or a pair (source, target)", len(pair))
    for side in pair:
        check_tokenizer(side)
    return TokenizerPair(*pair)
