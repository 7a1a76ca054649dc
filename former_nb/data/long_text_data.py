"""A text file or a known text, cut into parts, turned into tokens and windows.

A text becomes tokens a block at a time, and they go into one row that was made beforehand. So a
gigabyte of letters costs two gigabytes of memory, two bytes a token, and its file is never held
whole (`TextFile`). Where the row would take more than half of the memory that is free, it is a file
in the cache of former_nb, written once, summed and mapped: windows are read from it, and the memory
stays as it is, however long the text.
"""

import hashlib
import shutil
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import psutil
import torch

from ..base.checkpoints import atomic_write
from ..base.files import check_path, read_text, text_blocks
from ..base.guards import check_that, check_type
from .data_sets import load_enwik8, load_shakespeare, split
from .long_texts import TextWindows, text_windows
from .text import SPECIALS, CharTokenizer
from .tokenization import SubwordTokenizer
from .tokens import UNK, TextTokenizer, normalise

__all__ = [
    "long_text_data",
    "load_long_text",
]

BLOCK = 2**20  # characters or bytes that are encoded at a time
FREE_SHARE = 0.5  # of the free memory that tokens may take before they go to disk
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
    "A file of text that is read in blocks, as often as needed, and never held whole."

    def __init__(
        self,
        file: str | Path,  # UTF-8, also compressed with gzip
    ):
        """Read all of it once. Raises `ValueError`, naming the file, for what is no text.

        A file whose tokens fit neither memory nor disk is refused before it is read.
        """
        self.file = check_path("file", file)
        if self.file.is_file():
            fewest = self.file.stat().st_size // 4  # a character has four bytes at most
            _fits_memory("file", fewest * 2)
        self.first, self.length = _first_positions(self.blocks())

    def __len__(self) -> int:
        "Characters."
        return self.length

    def blocks(self) -> Iterator[str]:  # joined they are what `read_text` gives
        "The text from its beginning."
        return text_blocks(self.file)


# ---- tokens


def encode_bytes(
    content: bytes,  # text or not
) -> torch.Tensor:  # (N,) int16: the tokens of `SubwordTokenizer([])`
    """One number per byte, above the four special tokens.

    Texts with a large alphabet are read as bytes. A subword tokenizer that has learned no pairs
    gives the same numbers, so it is saved and loaded like any other. A list of 100 million Python
    numbers would take 800 MB; with two bytes for each token, 200 MB are enough.
    """
    check_type("content", content, (bytes, bytearray))
    row = torch.empty(len(content), dtype=torch.int16)
    _fill(row, _byte_tokens(_cut_blocks(content)))
    return row


def _byte_tokens(blocks):
    "Tokens of blocks of bytes, as arrays."
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


def _check_total(arrays, n):
    "The arrays. `ValueError` unless they hold n tokens, as a file may change while it is read."
    total = 0
    for array in arrays:
        total += len(array)
        if total > n:
            break
        yield array
    check_that(total == n, "file", f"{n:,} characters, as before", "another number")


def _fill(row, arrays):
    "Write arrays into a row, one behind the other."
    i = 0
    for array in arrays:
        row[i : i + len(array)] = torch.from_numpy(array)
        i += len(array)


def _cache() -> Path:
    "The folder for tokens on disk, in the cache that also keeps downloads."
    import pooch

    folder = Path(pooch.os_cache("former_nb"), "tokens")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _fits_memory(name, needed):
    "Whether tokens of so many bytes may stay in memory. `ValueError` if no disk has room, either."
    memory = psutil.virtual_memory().available
    if needed <= FREE_SHARE * memory:
        return True
    free = shutil.disk_usage(_cache()).free
    free += sum(file.stat().st_size for file in _cache().glob("*.bin"))  # perhaps of this text
    gigabytes = f"{memory * FREE_SHARE / 1e9:,.1f} GB of memory or {free / 1e9:,.1f} GB of disk"
    expected = f"a text whose tokens fit {gigabytes} in {str(_cache())!r}"
    check_that(needed <= free, name, expected, f"{needed / 1e9:,.1f} GB or more")
    return False


def _digest(blocks, tokenizer):
    "Digits that tell texts and the numbers of their characters apart."
    seen = hashlib.sha256(repr(tokenizer.to_dict()).encode())
    for block in blocks:
        seen.update(block if isinstance(block, bytes) else block.encode())
    return seen.hexdigest()[:16]


def _sum(blocks):
    "The SHA-256 of blocks of bytes."
    seen = hashlib.sha256()
    for block in blocks:
        seen.update(block)
    return seen.hexdigest()


def _read_blocks(file):
    "The bytes of a file from its beginning."
    with open(file, "rb") as content:
        while block := content.read(BLOCK):
            yield block


def _written_blocks(arrays, out):
    "The bytes of arrays, each written to a file on its way."
    for array in arrays:
        out.write(array.data)
        yield array.data


def _is_whole(file, sums, size):
    "Whether a file is what was written: its size, and its sum in the file beside it."
    if file.stat().st_size != size or not sums.is_file():
        return False
    return sums.read_bytes() == _sum(_read_blocks(file)).encode()


def _map_tokens(arrays, digest, n, kind):
    "A row of n tokens in a file of the cache, which is written unless it is there, and whole."
    file = _cache() / f"{digest}.bin"
    sums = file.with_suffix(".sha256")
    size = n * kind.itemsize
    there = file.is_file()
    whole = there and _is_whole(file, sums, size)
    if there and not whole:
        changed = f"text: {str(file)!r} is not what was written there, so it is written again"
        warnings.warn(changed, stacklevel=4)
    if not whole:
        try:
            with atomic_write(file.parent) as temporary:
                with open(temporary / file.name, "wb") as out:
                    digits = _sum(_written_blocks(arrays, out))
                (temporary / sums.name).write_text(digits)
        except OSError as error:
            where = f"text: its tokens could not be written to {str(file.parent)!r}"
            raise OSError(f"{where}: {error.strerror}") from error
    message = f"text: its {size / 1e9:,.1f} GB of tokens are in {str(file)!r} and read from there"
    warnings.warn(f"{message}; delete them when no run needs them", stacklevel=4)
    return torch.from_file(str(file), shared=False, size=n, dtype=kind)


@dataclass
class LongTextData:
    "What a model of one long text learns from, chooses by and is judged on."

    tokenizer: TextTokenizer
    rows: list[torch.Tensor]  # the parts as tokens: train, validation and, where there is one, test
    train: TextWindows  # new windows in each epoch
    valid: TextWindows  # the validation part, at most `max_valid_tokens` of it

    def held_out(
        self,
        context: int = 0,  # as for `text_windows`
    ) -> TextWindows:
        "All of the last part, each token once: test or, where there is none, validation."
        return text_windows(self.rows[-1], self.train.length, 128, context=context)


def _blocks(text):
    "A text from its beginning, whatever it is."
    return text.blocks() if isinstance(text, TextFile) else _cut_blocks(text)


def _alphabet(text, n):
    "The characters among the first n of a text, sorted."
    if isinstance(text, TextFile):
        first = text.first
    else:
        first, _ = _first_positions(_cut_blocks(text))
    return "".join(sorted(character for character, i in first.items() if i < n))


def _encode(text, tokenizer, parts):
    "The tokens of each part: of one row, in memory or, where it is too long, in a file."
    kind = torch.int16 if tokenizer.vocab_size < 2**15 else torch.int32
    n = parts[-1].stop
    if isinstance(text, bytes):
        arrays = _byte_tokens(_blocks(text))
    else:
        arrays = _char_tokens(_blocks(text), tokenizer)
    arrays = _check_total(arrays, n)
    name = "file" if isinstance(text, TextFile) else "text"
    if _fits_memory(name, n * kind.itemsize):
        row = torch.empty(n, dtype=kind)
        _fill(row, arrays)
    else:
        row = _map_tokens(arrays, _digest(_blocks(text), tokenizer), n, kind)
    return [row[part.start : part.stop] for part in parts]


def long_text_data(
    text: str | bytes | TextFile,  # characters, or bytes to be read as such
    length: int = 128,  # targets per window
    batch_size: int = 16,  # windows per batch
    seed: int = 0,  # of the windows to learn from
    shares: tuple[float, ...] = (0.9, 0.1),  # as for `split`
    max_valid_tokens: int = 250_000,  # of the validation part, to choose the weights by
) -> LongTextData:
    """Cut, encode and window a text. The alphabet is that of the part to learn from.

    Tokens that would take more than half of the free memory are written to disk and mapped, and a
    warning says where. Raises `ValueError` where no disk has room, either.
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
        tokenizer = CharTokenizer(_alphabet(text, len(parts[0])))
        rows = _encode(text, tokenizer, parts)
    for row in rows:
        text_windows(row, length)  # raises `ValueError` for a part that is shorter than a window
    train = text_windows(rows[0], length, batch_size, shuffle=True, seed=seed)
    valid = text_windows(rows[1][:max_valid_tokens], length, 128)
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
