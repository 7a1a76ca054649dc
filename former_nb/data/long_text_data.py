"""A text file or a known text, cut into parts, turned into tokens and windows.

Each part is one row of tokens, two bytes each.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from ..base.files import check_path, read_text
from ..base.guards import check_type
from .data_sets import compare_parts, load_shakespeare, split
from .long_texts import TextWindows, text_windows
from .tokenization import CharTokenizer
from .tokens import UNK, TextTokenizer, normalise

__all__ = [
    "long_text_data",
    "load_long_text",
]

CHOSEN_BY = 250_000  # tokens of the validation part that choose the weights


def _char_tokens(text, tokenizer):
    "The tokens of a text, in the smallest type that holds them: a list would take 36 bytes each."
    kind = np.int16 if tokenizer.vocab_size < 2**15 else np.int32
    numbers = (tokenizer.number.get(character, UNK) for character in text)
    return torch.from_numpy(np.fromiter(numbers, kind, len(text)))


@dataclass
class LongTextData:
    "What a model of one long text learns from, chooses by and is judged on."

    tokenizer: TextTokenizer
    rows: list[torch.Tensor]  # the parts as tokens: train, validation and, where there is one, test
    train: TextWindows  # new windows in each epoch
    valid: TextWindows  # the validation part, at most `CHOSEN_BY` tokens of it


def long_text_data(
    text: str,
    length: int = 128,  # targets per window
    batch_size: int = 16,  # windows per batch
    seed: int = 0,  # of the windows to learn from
    shares: tuple[float, ...] = (0.9, 0.1),  # as for `split`
) -> LongTextData:
    "Cut, encode and window a text. The alphabet is that of the part to learn from."
    check_type("text", text, str)
    parts = [normalise(part) for part in split(text, shares, seed=None)]
    compare_parts("text", [[part] for part in parts], refuse=True)
    tokenizer = CharTokenizer.train(parts[:1])
    rows = [_char_tokens(part, tokenizer) for part in parts]
    for row in rows:
        text_windows(row, length)  # raises `ValueError` for a part that is shorter than a window
    train = text_windows(rows[0], length, batch_size, shuffle=True, seed=seed)
    valid = text_windows(rows[1][:CHOSEN_BY], length, 128)
    train.dataset = rows[0]  # as a `DataLoader` has it: a checkpoint knows them
    valid.dataset = rows[1]
    return LongTextData(tokenizer, rows, train, valid)


def load_long_text(
    name: str | Path,  # 'shakespeare', or a file of UTF-8 text
) -> tuple[str, str, tuple[float, ...]]:  # text, its origin, shares of its parts
    "A long text by its name. Raises `ValueError`, naming the file, where it cannot be read."
    if name == "shakespeare":
        return *load_shakespeare(), (0.9, 0.1)
    text = read_text(check_path("file", name))
    return text, f"{Path(name).name}, {len(text):,} characters", (0.9, 0.05, 0.05)
