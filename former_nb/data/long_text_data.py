"""A text file or a known text, cut into parts, turned into tokens and windows.

A text becomes tokens a block at a time, and they go into one row, two bytes a token. A large file
is never held whole (`TextFile`), and neither is its row: it is a file without a name in the cache
of former_nb, from which windows are read, and which is gone when the process ends.
"""

import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import torch

from ..base.files import check_path, read_text, text_blocks
from ..base.guards import check_that, check_type
from .data_sets import PARTS, cache_folder, check_unseen, load_enwik8, load_shakespeare, split
from .long_texts import TextWindows, text_windows
from .tokenization import CharTokenizer, SubwordTokenizer
from .tokens import SPECIALS, UNK, TextTokenizer, normalise

__all__ = [
    "long_text_data",
    "load_long_text",
]

BLOCK = 2**20  # characters or bytes that are encoded at a time
LOOKED_AT = 5_000_000  # characters of a part that are compared with those that were learned
CHOSEN_BY = 250_000  # tokens of the validation part that choose the weights
LARGE_FILE = 2**26  # bytes of a file that is no longer held as one string
CODE_POINTS = 0x110000  # that Unicode has

# the bytes that `SubwordTokenizer` begins with
_FIRST = [*range(33, 127), *range(161, 173), *range(174, 256)]
_ORDER = [*_FIRST, *(byte for byte in range(256) if byte not in _FIRST)]
_BYTE_TOKENS = np.array([_ORDER.index(byte) + len(SPECIALS) for byte in range(256)], np.int16)


# ---- blocks of a text


def _codes(text):
    "The numbers of characters, (N,) uint32."
    try:
        return np.frombuffer(text.encode("utf-32-le"), "<u4")
    except UnicodeEncodeError:
        normalise(text)  # raises, with the place
        raise


def _cut_blocks(text):
    "A string or bytes in blocks."
    return (text[i : i + BLOCK] for i in range(0, len(text), BLOCK))


def _first_positions(blocks):
    "Where each character of a text comes first, and how many characters the text has."
    first: dict[str, int] = {}
    seen = np.zeros(CODE_POINTS, bool)
    n = 0
    for block in blocks:
        here = np.zeros(CODE_POINTS, bool)
        here[_codes(block)] = True
        for code in (here & ~seen).nonzero()[0]:
            first[chr(code)] = n + block.index(chr(code))
        seen |= here
        n += len(block)
    return first, n


class TextFile:
    "A file of text that is read in blocks, once to look at it and once for its tokens."

    def __init__(
        self,
        file: str | Path,  # UTF-8, also compressed with gzip
    ):
        "Read all of it once. Raises `ValueError`, naming the file, for what is no text."
        self.file = check_path("file", file)
        found = _first_positions(self.blocks())
        self.first: dict[str, int] = found[0]  # where each character comes first
        self.length: int = found[1]  # characters

    def __len__(self) -> int:
        "Characters."
        return self.length

    def blocks(self) -> Iterator[str]:  # joined they are what `read_text` gives
        "The text from its beginning."
        return text_blocks(self.file)


# ---- tokens


def _byte_tokens(blocks):
    "Tokens of blocks of bytes, as arrays: those of `SubwordTokenizer([])`, two bytes each."
    for block in blocks:
        yield _BYTE_TOKENS[np.frombuffer(block, np.uint8)]


def _char_tokens(blocks, tokenizer):
    "Tokens of blocks of text, as arrays of the smallest type that holds them."
    kind = np.int16 if tokenizer.vocab_size < 2**15 else np.int32
    table = np.full(CODE_POINTS, UNK, kind)
    for character, number in tokenizer.number.items():
        table[ord(character)] = number
    for block in blocks:
        yield table[_codes(block)]


def _on_disk(arrays, n):
    "A row of n tokens in a file without a name, which is gone when the process ends."
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as file:
            total = 0
            for array in arrays:
                file.write(array.data)
                total += len(array)
            file.flush()
            check_that(total == n, "file", f"{n:,} characters, as before", f"{total:,}")
            return np.memmap(file, array.dtype, mode="c")
    except OSError as error:
        expected = f"room for its tokens in {str(folder)!r}"
        raise OSError(f"file: expected {expected}: {error.strerror or error}") from error


@dataclass
class LongTextData:
    "What a model of one long text learns from, chooses by and is judged on."

    tokenizer: TextTokenizer
    rows: list[torch.Tensor]  # the parts as tokens: train, validation and, where there is one, test
    train: TextWindows  # new windows in each epoch
    valid: TextWindows  # the validation part, at most `CHOSEN_BY` tokens of it


def _blocks(text):
    "A text from its beginning, whatever it is."
    return text.blocks() if isinstance(text, TextFile) else _cut_blocks(text)


def _first(text):
    "Where each character of a text comes first."
    if isinstance(text, TextFile):
        return text.first
    return _first_positions(_cut_blocks(text))[0]


def _compare(name, rows, parts, first):
    "`check_unseen` for the beginning of each part of a text."
    for words, row, part in zip(PARTS[1:], rows[1:], parts[1:]):
        seen = row[:LOOKED_AT]
        share = int((seen == UNK).sum()) / len(seen)
        new = [c for c, i in first.items() if part.start <= i < part.stop]
        check_unseen(name, words, share, "".join(sorted(new))[:10], refuse=True)


def _encode(text, tokenizer, parts):
    "The tokens of each part, which are of one row."
    if isinstance(text, bytes):
        arrays = _byte_tokens(_blocks(text))
    else:
        arrays = _char_tokens(_blocks(text), tokenizer)
    if isinstance(text, TextFile):
        row = _on_disk(arrays, len(text))
    else:
        row = np.concatenate(list(arrays))
    return [torch.from_numpy(row[part.start : part.stop]) for part in parts]


def long_text_data(
    text: str | bytes | TextFile,  # characters, or bytes to be read as such
    length: int = 128,  # targets per window
    batch_size: int = 16,  # windows per batch
    seed: int = 0,  # of the windows to learn from
    shares: tuple[float, ...] = (0.9, 0.1),  # as for `split`
) -> LongTextData:
    """Cut, encode and window a text. The alphabet is that of the part to learn from.

    Tokens of a `TextFile` are on disk while the process lasts. `OSError` where it is full.
    """
    check_type("text", text, (str, bytes, TextFile))
    parts = split(range(len(text)), shares, seed=None)
    tokenizer: TextTokenizer
    if isinstance(text, bytes):
        tokenizer = SubwordTokenizer([])
        rows = _encode(text, tokenizer, parts)
    else:
        if isinstance(text, str) and not unicodedata.is_normalized("NFC", text):
            normal = [normalise(text[part.start : part.stop]) for part in parts]
            text = "".join(normal)
            ends = [0, *accumulate(map(len, normal))]
            parts = [range(a, b) for a, b in zip(ends, ends[1:])]
        first = _first(text)
        alphabet = sorted(character for character, i in first.items() if i < len(parts[0]))
        tokenizer = CharTokenizer("".join(alphabet))
        rows = _encode(text, tokenizer, parts)
        _compare("file" if isinstance(text, TextFile) else "text", rows, parts, first)
    for row in rows:
        text_windows(row, length)  # raises `ValueError` for a part that is shorter than a window
    train = text_windows(rows[0], length, batch_size, shuffle=True, seed=seed)
    valid = text_windows(rows[1][:CHOSEN_BY], length, 128)
    train.dataset = rows[0]  # as a `DataLoader` has it: a checkpoint knows them
    valid.dataset = rows[1]
    return LongTextData(tokenizer, rows, train, valid)


LONG_TEXTS: dict = {  # what loads a text, and how it is usually cut
    "shakespeare": (load_shakespeare, (0.9, 0.1)),
    "enwik8": (load_enwik8, (0.9, 0.05, 0.05)),
}


def load_long_text(
    name: str | Path,  # 'shakespeare', 'enwik8', or a file of UTF-8 text
) -> tuple[str | bytes | TextFile, str, tuple[float, ...]]:  # text, its origin, shares of its parts
    """A long text by its name. Raises `ValueError`, naming the file, where it cannot be read.

    A file of more than 64 MiB is a `TextFile`, which is read in blocks; a smaller one is a string.
    """
    if name in LONG_TEXTS:
        load, shares = LONG_TEXTS[name]
        text, origin = load()
        return text, origin, shares
    path = check_path("file", name)
    large = path.is_file() and path.stat().st_size > LARGE_FILE
    text = TextFile(path) if large else read_text(path)
    return text, f"{Path(name).name}, {len(text):,} characters", (0.9, 0.05, 0.05)
