"""The input of every loop that writes: rows of tokens, tokens that end a row or are never written.

A batch of prompts is a tensor, or a list of rows that may differ in length. Loops read lists.
"""

from collections.abc import Iterable
from numbers import Integral

import torch

from .guards import check_int, check_tensor, check_that, check_type
from .text import PAD, SPECIALS
from .tokens import TextTokenizer, check_rows

__all__ = [
    "as_rows",
    "prompt_rows",
    "append_columns",
    "stop_tokens",
    "encode_prompt",
    "upload",
]


def as_rows(
    prompts: torch.Tensor | list[list[int]],  # (B, T) integers, or rows of any lengths
) -> list[list[int]]:
    "Prompts as lists of integers. `TypeError` or `ValueError` for what is no batch of them."
    if isinstance(prompts, torch.Tensor):
        check_tensor("prompts", prompts, "B T", int)
        return prompts.tolist()  # one wait for all rows
    try:
        return [row.tolist() for row in check_rows(prompts)]
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"prompts: expected rows of integers, got {prompts!r:.80}") from None


def prompt_rows(
    prompts: torch.Tensor | list[list[int]],  # as for `as_rows`
    vocab_size: int,
    limit: int,  # the most tokens that the model reads
    never: Iterable[int] = (PAD,),  # tokens that no row has; of these PAD counts
) -> list[list[int]]:
    "As `as_rows`. Raises `ValueError` for a row that the model could not read, before it is run."
    rows = as_rows(prompts)
    least = PAD + 1 if PAD in never else 0  # in another vocabulary 0 may be a word
    for i, row in enumerate(rows or [[]]):
        if not 1 <= len(row) <= limit or not all(least <= t < vocab_size for t in row):
            raise ValueError(
                f"prompts[{i}]: expected 1 to {limit} tokens from {least} to {vocab_size - 1}, "
                f"without padding, got {len(row)}: {row!r:.60}"
            )
    return rows


def append_columns(
    rows: list[list[int]],  # prompts
    columns: list[list[int | None]],  # from the shortest prompt on, a token for each row
) -> list[list[int]]:
    "Each prompt and what `columns` have after it, without the None that follow its end."
    shortest = min(map(len, rows))
    written = []
    for i, row in enumerate(rows):
        tokens = [column[i] for column in columns[len(row) - shortest :]]
        written.append(row + [token for token in tokens if token is not None])
    return written


def stop_tokens(
    eos_token_ids: int | Iterable[int] | None,  # a row that takes one is finished
    suppress_tokens: Iterable[int],  # tokens that are never taken
    vocab_size: int,
) -> tuple[set[int], list[int]]:  # the first as a set; the second without what no logit stands for
    "Both in one form. Raises `ValueError` for what is no token."
    check_int("vocab_size", vocab_size)
    known = range(max(vocab_size, len(SPECIALS)))
    ends = _token_set("eos_token_ids", eos_token_ids, known)
    never = _token_set("suppress_tokens", suppress_tokens, known)
    return ends, sorted(t for t in never if t < vocab_size)


def _token_set(name, given, known):
    "None, one token or several as a set. Raises `ValueError` for what is no token."
    if given is None:
        return set()
    several = isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0
    tokens = list(given) if several else [given]
    whole = lambda t: isinstance(t, Integral) and not isinstance(t, bool)
    odd = [t for t in tokens if not whole(t) or t not in known]
    check_that(not odd, name, f"tokens below {len(known)}", odd)
    return set(tokens)


def encode_prompt(
    tokenizer: TextTokenizer,
    prompt: str,
) -> list[int]:  # BOS, if the tokenizer has one, and the tokens of the prompt
    "A text as a row of tokens. Raises `ValueError` for letters that the model has never seen."
    check_type("tokenizer", tokenizer, TextTokenizer)
    check_type("prompt", prompt, str)
    unknown = tokenizer.unknown(prompt)
    if unknown:
        raise ValueError(
            f"prompt: the model has never seen {unknown!r}; it knows {tokenizer.alphabet!r}"
        )
    return [*tokenizer.before, *tokenizer.encode(prompt)] or [*tokenizer.after]


def upload(
    numbers: list,  # of numbers, or of lists as long as each other
    device: torch.device,
) -> torch.Tensor:  # there
    "A tensor for the next step of a loop. The host does not wait until the device has it."
    return torch.tensor(numbers, device="cpu").to(device, non_blocking=True)
