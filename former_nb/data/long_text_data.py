"""A text file or a known text, cut into parts, turned into tokens and windows."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..base.files import read_text
from ..base.guards import check_type
from .data_sets import load_enwik8, load_shakespeare, split
from .long_texts import TextWindows, text_windows
from .text import SPECIALS, CharTokenizer
from .tokenization import SubwordTokenizer
from .tokens import TextTokenizer

__all__ = [
    "encode_bytes",
    "LongTextData",
    "long_text_data",
    "LONG_TEXTS",
    "load_long_text",
]


# the bytes that `SubwordTokenizer` begins with
_FIRST = [*range(33, 127), *range(161, 173), *range(174, 256)]
_ORDER = [*_FIRST, *(byte for byte in range(256) if byte not in _FIRST)]
_RANK = bytes(map(_ORDER.index, range(256)))


def encode_bytes(
    content: bytes,  # text or not
) -> torch.Tensor:  # (N,) int16: the tokens of `SubwordTokenizer([])`
    """One number per byte, above the four special tokens.

    Texts with a large alphabet are read as bytes. A subword tokenizer that has learned no pairs
    gives the same numbers, so it is saved and loaded like any other. A list of 100 million Python
    numbers would take 800 MB; with two bytes for each token, 200 MB are enough.
    """
    check_type("content", content, (bytes, bytearray))
    ranks = np.frombuffer(content.translate(_RANK), np.uint8)
    return torch.from_numpy(ranks.astype(np.int16) + len(SPECIALS))


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


def _encode(text, tokenizer, block=1 << 20):
    "The tokens of a text that may be long, as small numbers."
    starts = range(0, len(text), block)
    blocks = [
        torch.tensor(tokenizer.encode(text[i : i + block]), dtype=torch.int32) for i in starts
    ]
    return torch.cat(blocks).to(torch.int16 if tokenizer.vocab_size < 2**15 else torch.int32)


def long_text_data(
    text: str | bytes,  # characters, or bytes to be read as such
    length: int = 128,  # targets per window
    batch_size: int = 16,  # windows per batch
    seed: int = 0,  # of the windows to learn from
    shares: tuple[float, ...] = (0.9, 0.1),  # as for `split`
    max_valid_tokens: int = 250_000,  # of the validation part, to choose the weights by
) -> LongTextData:
    "Cut, encode and window a text. The alphabet is that of the part to learn from."
    parts = split(text, shares, seed=None)
    tokenizer: TextTokenizer
    if isinstance(text, bytes):
        tokenizer = SubwordTokenizer([])
        rows = [encode_bytes(part) for part in parts]
    else:
        tokenizer = CharTokenizer.train(parts[:1])
        rows = [_encode(part, tokenizer) for part in parts]
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
) -> tuple[str | bytes, str, tuple[float, ...]]:  # text, where it comes from, shares of its parts
    "A long text by its name. Raises `ValueError`, naming the file, where it cannot be read."
    if name in LONG_TEXTS:
        load, shares = LONG_TEXTS[name]
        text, origin = load()
        return text, origin, shares
    text = read_text(name)
    return text, f"{Path(name).name}, {len(text):,} characters", (0.9, 0.05, 0.05)
