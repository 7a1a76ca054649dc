"""The input of every loop that writes: rows of tokens, tokens that end a row or are never written,
and the context, which is how far a text may go.

A batch of prompts is a tensor, a list of rows that may differ in length, or text. Loops read lists.
`in_batches` is for all who ask about many rows at once.
"""

import sys
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from numbers import Integral
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from torch import nn

from ..base.core import eval_mode
from ..base.guards import LARGEST, check_ids, check_int, check_tensor, check_that, check_type
from ..data.text import PAD, pad_rows
from ..data.tokens import SPECIALS, TextTokenizer, check_rows, check_tokenizer
from ..models.build import sizes_of
from ..models.choices import POSITIONS
from ..models.layers import Embedding, Stack

__all__ = [
    "Context",
    "find_context",
    "warn_of_cut",
    "check_writing",
    "check_translating",
    "check_cache",
    "check_fresh",
    "sizes_to_write",
    "has_text",
    "as_rows",
    "check_prompts",
    "append_columns",
    "stop_tokens",
    "upload",
    "in_batches",
]

UNKNOWN = SimpleNamespace(vocab_size=2**24, n_layers=0, max_len=2**63, positions="learned")
GO_ON = {  # what lets a text go on that the context has ended
    "window": "window=…",
    "narrower": "a window within the context",
    "max_new_tokens": "max_new_tokens=…",
}
IN_CACHE = GO_ON | {"window": "KVCache(n_layers, window=…)"}  # where there is no other window


class Context(NamedTuple):
    "How many tokens of a text a model reads, and what lets a text go on that ends there."

    reads: int  # tokens that it can read
    size: int  # where a text ends; less where nobody says how many tokens are wanted
    go_on: tuple[str, ...]  # keys of `GO_ON`

    def room(
        self,
        length: int,  # of a prompt, in tokens
        max_new_tokens: int | None,  # that are wanted
    ) -> int:  # that can be written: the last token of a text is never read
        "How many tokens a prompt gets."
        room = max(0, self.size + 1 - length)
        return room if max_new_tokens is None else min(room, max_new_tokens)

    def note(
        self,
        n: int,  # texts that end here
        of: int,  # how many there are
        go_on: dict[str, str] | None = None,  # what there is, and its name; as in `GO_ON`
    ) -> str:
        "A sentence about the cut, and what helps."
        which = "the text" if of == 1 else f"{n:,} of {of:,} texts"
        ended = f"the context of {self.size:,} tokens ended {which}"
        words = GO_ON if go_on is None else go_on
        if not self.go_on or not words.keys() >= set(self.go_on):  # nothing helps
            return ended
        several = len(self.go_on) > 1
        names = " and ".join(words[key] for key in self.go_on)
        return f"{ended}; {names} {'go' if several else 'goes'} on"


def find_context(
    sizes,  # of a model, as `sizes_to_write` gives them
    max_new_tokens: int | None,  # that are wanted; None for as many as the model has learned
    cache=None,  # that the model reads with
    window: int | None = None,  # the same, where each layer has this one
) -> Context:
    "How far a text may go: `POSITIONS` says what each kind of positions allows."
    if window is not None:
        check_int("window", window)
    layers = cache if isinstance(cache, list) else []
    widest = widest_window(layers) if window is None else window
    beyond = POSITIONS[sizes.positions].beyond
    within = widest is not None and widest <= sizes.max_len  # a wider one hides nothing
    is_open = beyond == "always" or (beyond == "window" and within)
    reads = LARGEST if is_open else sizes.max_len
    go_on = []
    if beyond == "window" and not within:
        go_on.append("window" if widest is None else "narrower")
    if max_new_tokens is None and beyond != "never":
        go_on.append("max_new_tokens")
    size = min(reads, sizes.max_len) if max_new_tokens is None else reads
    return Context(reads, size, tuple(go_on))


def warn_of_cut(
    context: Context,
    n: int,  # this and all others as for `Context.note`
    of: int,
    go_on: dict[str, str] | None = None,
) -> None:
    "Warn of texts that the context has ended, if there are any, at the line that asked for them."
    if n == 0:
        return
    level = 1
    frame: Any = sys._getframe()
    while frame and frame.f_globals.get("__name__", "").split(".")[0] in ("former_nb", "torch"):
        frame = frame.f_back
        level += 1
    warnings.warn(context.note(n, of, go_on), stacklevel=level)


def check_writing(
    model,  # what came; a function of tokens, `attend` and `positions`
    prompts,  # (B, T) integers
    max_new_tokens,  # a whole number, 0 or more
    pick,  # a function of logits
    cache,  # a list of functions that are called as `attention`, one for each layer; or None
) -> None:
    "Raise `TypeError` or `ValueError` for the first of these that the loop of lesson 11 can't use."
    sizes = sizes_to_write(model)
    _refuse_text(prompts)
    check_tensor("prompts", prompts, "B T", int)
    check_that(prompts.numel() > 0, "prompts", "at least one token", tuple(prompts.shape))
    check_int("max_new_tokens", max_new_tokens, 0)
    check_that(callable(pick), "pick", "a function of logits", pick, TypeError)
    check_cache(cache)
    counted = cache is not None or hasattr(getattr(model, "stack", None), "blocks")
    expected = "a list with one for each layer, since the model has no `stack.blocks`"
    check_that(counted, "cache", expected, cache)
    reads = find_context(sizes, max_new_tokens, cache).reads
    T = prompts.shape[1]
    check_that(T <= reads, "prompts", f"at most {reads} tokens, the context of the model", T)
    most = reads + 1 - T  # the last token is never read
    expected = f"at most {most} after {T} tokens, as the model reads {reads}"
    check_that(max_new_tokens <= most, "max_new_tokens", expected, max_new_tokens)


def check_translating(
    model,  # what came; an encoder and a decoder
    src,  # (B, S) integers
    max_new_tokens,  # a whole number, 0 or more
    rows=None,  # how many sources there may be; None for any number
) -> None:
    "Raise `TypeError` or `ValueError` for the first of these that a loop can't translate with."
    has_both = all(callable(getattr(model, name, None)) for name in ("encode", "decode"))
    expected = "a model with `encode` and `decode`, such as an `EncoderDecoder`"
    check_that(has_both, "model", expected, type(model).__name__, TypeError)
    check_tensor("src", src, "B S", int)
    if rows is not None:
        check_that(len(src) == rows, "src", f"{rows} source, (1, S)", tuple(src.shape))
    check_int("max_new_tokens", max_new_tokens, 0 if rows is None else 1)
    if not _says_its_sizes(model):  # a model of the reader's own
        return
    pad = getattr(model, "pad", PAD)  # BART's special tokens have other numbers
    check_that(pad == PAD, "model", "one whose padding is 0; `translate` takes any", pad)
    check_ids("src", src, model.src_embed.tokens.num_embeddings)
    reads = find_context(sizes_of(model), max_new_tokens).reads
    expected = f"at most {reads}, as the model reads {reads} tokens"
    check_that(max_new_tokens <= reads, "max_new_tokens", expected, max_new_tokens)


def check_cache(
    cache,  # what came
) -> None:
    "Raise for what is neither None nor a list of layers that have read nothing."
    keeps = cache is None or isinstance(cache, list) and cache and all(map(callable, cache))
    wanted = "None, or a cache such as `KVCache(n_layers)`"
    check_that(bool(keeps), "cache", wanted, cache, TypeError)
    check_fresh(cache)


def widest_window(layers):
    "How many keys a layer sees at most; None if one sees all, or there are none."
    windows = [getattr(layer, "window", None) for layer in layers]
    return None if None in windows else max(windows, default=None)


def check_fresh(
    cache,  # a list of layers, an object, or None
) -> None:
    "Raise `ValueError` for a cache that has read something already, as it holds another text."
    layers = cache if isinstance(cache, list) else [cache]
    used = max(map(_tokens_in, layers), default=0)
    check_that(used == 0, "cache", "one that has read nothing yet", f"one with {used} tokens")


def _tokens_in(layer):
    "How many tokens a layer of a cache has read; 0 where nothing says so."
    if hasattr(layer, "length"):
        return layer.length
    keys = getattr(layer, "k", None)  # of lesson 11's `LayerCache`, None at first
    return keys.shape[-2] if isinstance(keys, torch.Tensor) else 0


def sizes_to_write(
    model,  # what came
) -> Any:  # as `sizes_of`; without layers for a function of yours
    "What a loop asks of a model. `TypeError` for what can't be called, or does not write on."
    can = callable(model) and not isinstance(model, type)
    check_that(can, "model", "a model or a function", model, TypeError)
    if not _says_its_sizes(model):
        return UNKNOWN
    for part, function in (("tgt_embed", "translate"), ("n_classes", "predict")):
        expected = f"a language model; for this one there is `former_nb.{function}`"
        check_that(not hasattr(model, part), "model", expected, type(model).__name__, TypeError)
    return sizes_of(model)


def _says_its_sizes(model):
    "Whether this has a configuration, or parts that we know."
    embed = getattr(model, "tgt_embed", getattr(model, "embed", None))
    stack = getattr(model, "decoder", getattr(model, "stack", None))
    is_ours = isinstance(embed, Embedding) and isinstance(stack, Stack)
    return is_ours or hasattr(getattr(model, "config", None), "positions")


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
    "Prompts as lists of integers. `TypeError` or `ValueError` if they aren't a batch."
    if tokenizer is not None:
        check_tokenizer(tokenizer)
    if isinstance(prompts, torch.Tensor):
        check_tensor("prompts", prompts, "B T", int)
        return prompts.tolist()  # one wait for all rows
    if isinstance(prompts, str) and tokenizer is not None:
        return [encode_prompt(tokenizer, prompts, "prompts")]
    if has_text(prompts) and tokenizer is not None:
        return [encode_prompt(tokenizer, p, f"prompts[{i}]") for i, p in enumerate(prompts)]
    _refuse_text(prompts)
    try:
        return [row.tolist() for row in check_rows(prompts)]
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"prompts: expected rows of integers, got {prompts!r:.80}") from None


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
    never = {t for t in never if t < vocab_size}
    check_that(len(never) < vocab_size, "suppress_tokens", "fewer than all tokens", vocab_size)
    return ends, sorted(never)


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


def _row_length(numbered_row):
    return len(numbered_row[1])


def _collate_numbered(rows, pad):
    "Rows as a rectangle, and their numbers."
    return pad_rows([row for _, row in rows], pad), [number for number, _ in rows]


@torch.no_grad()
def in_batches(
    model: nn.Module,
    rows: list[list[int]],  # of any lengths
    answer: Callable,  # (B, T) integers on the model's device -> something for each row
    max_tokens: int,  # in one batch; a row that is longer has its own
    pad: int = PAD,  # fills the short rows
) -> list:  # what `answer` gives for each row, in their order
    "Ask in eval mode, rows of similar length together."
    if not rows:
        return []
    from ..data.batches import make_batches  # here, since the Python of a page has none

    batches = make_batches(
        list(enumerate(rows)),
        max_tokens=max(max_tokens, *map(len, rows)),
        collate=partial(_collate_numbered, pad=pad),
        length=_row_length,
    )
    answers: list = [None] * len(rows)
    device = next(model.parameters()).device
    with eval_mode(model):
        for tokens, numbers in batches:
            sent = tokens.to(device, non_blocking=True)
            for number, found in zip(numbers, answer(sent)):
                answers[number] = found
    return answers
