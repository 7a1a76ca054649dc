"""The input of every loop that writes: rows of tokens, tokens that end a row or are never written.

A batch of prompts is a tensor, a list of rows that may differ in length, or text. Loops read lists.
"""

from collections.abc import Iterable
from numbers import Integral
from types import SimpleNamespace
from typing import Any

import torch

from ..base.guards import check_int, check_tensor, check_that, check_type
from ..data.text import PAD, SPECIALS
from ..data.tokens import TextTokenizer, check_rows, check_tokenizer
from ..models.block import Stack
from ..models.build import sizes_of
from ..models.config import TransformerConfig

__all__ = [
    "check_writing",
    "check_cache",
    "check_fresh",
    "sizes_to_write",
    "has_text",
    "as_rows",
    "check_prompts",
    "prompt_rows",
    "append_columns",
    "stop_tokens",
    "upload",
]

BY_DISTANCE = ("alibi", "relative")  # positions of models that read texts of any length
UNKNOWN = SimpleNamespace(vocab_size=2**24, n_layers=0, max_len=2**63, positions="learned")


def check_writing(
    model,  # what came; a function of tokens, `attend` and `positions`
    prompts,  # (B, T) integers
    max_new_tokens,  # a whole number, 0 or more
    pick,  # a function of logits
    cache,  # a list of functions that are called as `attention`, one for each layer; or None
) -> None:
    "Raise `TypeError` or `ValueError` for the first of these that a loop could not use."
    check_that(callable(model), "model", "a model or a function", model, TypeError)
    _refuse_text(prompts)
    check_tensor("prompts", prompts, "B T", int)
    check_that(prompts.numel() > 0, "prompts", "at least one token", tuple(prompts.shape))
    check_int("max_new_tokens", max_new_tokens, 0)
    check_that(callable(pick), "pick", "a function of logits", pick, TypeError)
    check_cache(cache)
    config = getattr(model, "config", None)
    endless: tuple[str, ...] = BY_DISTANCE
    if has_windows(cache):
        endless = (*BY_DISTANCE, "rotary")  # no query sees a key beyond the window
    if isinstance(config, TransformerConfig) and config.positions not in endless:
        most = config.max_len + 1 - prompts.shape[1]  # the last token is never read
        wanted = f"at most {most} behind {prompts.shape[1]} tokens, as max_len = {config.max_len}"
        check_that(max_new_tokens <= max(most, 0), "max_new_tokens", wanted, max_new_tokens)


def check_cache(
    cache,  # what came
) -> None:
    "Raise for what is neither None nor a list of layers that have read nothing."
    keeps = cache is None or isinstance(cache, list) and cache and all(map(callable, cache))
    wanted = "None, or a cache such as `KVCache(n_layers)`"
    check_that(bool(keeps), "cache", wanted, cache, TypeError)
    check_fresh(cache)


def has_windows(cache):
    "Whether there is a cache, and each of its layers sees only the last few keys."
    return bool(cache) and all(getattr(layer, "window", None) for layer in cache)


def check_fresh(
    cache,  # a list of layers, an object, or None
) -> None:
    "Raise `ValueError` for a cache that has read something already, as it holds another text."
    layers = cache if isinstance(cache, list) else [cache]
    used = max((getattr(layer, "length", 0) for layer in layers), default=0)
    check_that(used == 0, "cache", "one that has read nothing yet", f"one with {used} tokens")


def sizes_to_write(
    model,  # what came
) -> Any:  # as `sizes_of`; without layers for a function of yours, of which nothing is known
    "What a loop asks of a model. `TypeError` for what can't be called, or does not write on."
    check_that(callable(model), "model", "a model or a function", model, TypeError)
    config = getattr(model, "config", None)
    stack = getattr(model, "decoder", getattr(model, "stack", None))
    if not hasattr(config, "positions") and not isinstance(stack, Stack):
        return UNKNOWN
    for part, function in (("tgt_embed", "translate"), ("n_classes", "predict")):
        expected = f"a language model; for this one there is `former_nb.{function}`"
        check_that(not hasattr(model, part), "model", expected, type(model).__name__, TypeError)
    return sizes_of(model)


def has_text(
    prompts,  # of any kind
) -> bool:
    "Whether this is a text, or a list with a text in it."
    several = isinstance(prompts, (list, tuple))
    return isinstance(prompts, str) or several and any(isinstance(p, str) for p in prompts)


def _refuse_text(prompts):
    "Raise `TypeError` for text where tokens belong, and say what takes text."
    wanted = "tokens; `former_nb.generate` takes a text and its `tokenizer`"
    check_that(not has_text(prompts), "prompts", wanted, prompts, TypeError)


def as_rows(
    prompts: torch.Tensor | list | str,  # (B, T) integers, rows of any lengths, one text or several
    tokenizer: TextTokenizer | None = None,  # reads text
) -> list[list[int]]:
    "Prompts as lists of integers. `TypeError` or `ValueError` for what is no batch of them."
    if tokenizer is not None:
        check_tokenizer(tokenizer)
    if isinstance(prompts, torch.Tensor):
        check_tensor("prompts", prompts, "B T", int)
        return prompts.tolist()  # one wait for all rows
    if isinstance(prompts, str) and tokenizer is not None:
        return [encode_prompt(tokenizer, prompts, "prompts")]
    if has_text(prompts) and tokenizer is not None:
        return _encode_texts(prompts, tokenizer)
    _refuse_text(prompts)
    try:
        return [row.tolist() for row in check_rows(prompts)]
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"prompts: expected rows of integers, got {prompts!r:.80}") from None


def _encode_texts(texts, tokenizer):
    "A row for each text; one that comes a thousand times is read once."
    rows: dict[str, list[int]] = {}
    for i, text in enumerate(texts):
        check_type(f"prompts[{i}]", text, str)
        if text not in rows:
            rows[text] = encode_prompt(tokenizer, text, f"prompts[{i}]")
    return [rows[text] for text in texts]


def check_prompts(
    rows: list[list[int]],  # as `as_rows` gives them
    vocab_size: int,
    limit: int,  # the most tokens that the model reads
    never: Iterable[int] = (PAD,),  # tokens that no row has; of these PAD counts
) -> None:
    "Raise `ValueError` for a row that the model could not read, before it is run."
    least = PAD + 1 if PAD in never else 0  # in another vocabulary 0 may be a word
    for i, row in enumerate(rows or [[]]):
        if not 1 <= len(row) <= limit or not all(least <= t < vocab_size for t in row):
            raise ValueError(
                f"prompts[{i}]: expected 1 to {limit} tokens from {least} to {vocab_size - 1}, "
                f"without padding, got {len(row)}: {row!r:.60}"
            )


def prompt_rows(
    prompts: torch.Tensor | list[list[int]],  # as for `as_rows`
    vocab_size: int,
    limit: int,  # as for `check_prompts`
    never: Iterable[int] = (PAD,),  # as for `check_prompts`
) -> list[list[int]]:
    "As `as_rows`, and checked."
    rows = as_rows(prompts)
    check_prompts(rows, vocab_size, limit, never)
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
    suppress_tokens: Iterable[int] | None,  # tokens that are never taken
    vocab_size: int,
    tokenizer: TextTokenizer | None = None,  # says what None stands for, which else is nothing
) -> tuple[set[int], list[int]]:  # the first as a set; the second without what no logit stands for
    "Both in one form. Raises `ValueError` for what is no token."
    check_int("vocab_size", vocab_size)
    stops = {} if tokenizer is None else TextTokenizer.stops | tokenizer.stops
    if eos_token_ids is None:
        eos_token_ids = stops.get("eos_token_ids")
    if suppress_tokens is None:
        suppress_tokens = stops.get("suppress_tokens")
    vocabulary = range(max(vocab_size, len(SPECIALS)))
    ends = _token_set("eos_token_ids", eos_token_ids, vocabulary)
    never = _token_set("suppress_tokens", suppress_tokens, vocabulary)
    return ends, sorted(t for t in never if t < vocab_size)


def _token_set(name, given, vocabulary):
    "None, one token or several as a set. Raises `ValueError` for what is no token."
    if given is None:
        return set()
    several = isinstance(given, Iterable) and getattr(given, "ndim", 1) > 0
    tokens = list(given) if several else [given]
    for token in tokens:
        whole = isinstance(token, Integral) and not isinstance(token, bool)
        check_that(whole and token in vocabulary, name, f"tokens below {len(vocabulary)}", [token])
    return set(tokens)


def encode_prompt(
    tokenizer: TextTokenizer,
    prompt: str,
    name: str = "prompt",  # of the argument that an error names
) -> list[int]:  # BOS, if the tokenizer has one, and the tokens of the prompt
    "A text as a row of tokens. Raises `ValueError` for letters that the model has never seen."
    check_tokenizer(tokenizer)
    check_type(name, prompt, str)
    unknown = tokenizer.unknown(prompt)
    if unknown:
        known = f"characters that the model has seen, {tokenizer.alphabet!r}"
        raise ValueError(f"{name}: expected {known}, got {unknown!r}")
    return [*tokenizer.before, *tokenizer.encode(prompt)] or [*tokenizer.after]


def upload(
    numbers: list,  # of numbers, or of lists as long as each other
    device: torch.device,
) -> torch.Tensor:  # there
    "A tensor for the next step of a loop. The host does not wait until the device has it."
    return torch.tensor(numbers, device="cpu").to(device, non_blocking=True)
