"""`former-nb generate`: texts that a model writes, new ones and none twice."""

from collections import Counter
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..base.files import SHIPPED
from ..decoding import caches
from ..decoding.prompts import Context
from ..tasks.names import Names
from .folders import restore
from .terminal import echo, remark

TOKENS = 16_384  # of the texts that are written side by side, at most
PATIENCE = 100  # texts in a row that bring nothing new, until there is nothing new


class Drawn(NamedTuple):
    "A text, and why it ends."

    text: str
    reason: str | None  # as in `Stream`
    context: Context


class Endings:
    "How many of the texts that were written the context has ended."

    def __init__(self):
        self.written = 0
        self.n_cut = 0
        self.context = None

    def add(self, reason: str | None, context: Context) -> None:
        "Count a text."
        self.written += 1
        self.n_cut += reason == "context"
        self.context = context

    def tell(self) -> None:
        "Say on standard error if there are any."
        if self.n_cut:
            remark(f"Note: {self.context.note(self.n_cut, self.written, as_option)}")


def as_option(name: str) -> str:
    "An argument as the command line spells it."
    return f"--{name.replace('_', '-')}"


def draw_texts(
    n: int,  # so many are needed
    model,  # a `LanguageModel`
    tokenizer,  # its own
    prompt: str,  # how each text begins
    max_new_tokens: int | None,  # of a text, at most
    sampling,  # a `Sampling`; text i is drawn with its seed + i
    **kwargs,  # as for `generate`
):  # an iterator without end, of `Drawn`
    "Draw texts side by side: at most 16 at first, then more."
    longest = model.config.max_len if max_new_tokens is None else max_new_tokens
    limit = max(1, TOKENS // max(1, longest))  # rows at once
    rows = min(n, 16, limit)
    drawn = 0
    while True:
        draw = seeded(sampling, drawn)
        begun = [prompt] * rows
        how = dict(tokenizer=tokenizer, **kwargs)
        texts, stream = caches.write_texts(model, begun, max_new_tokens, draw, **how)
        for text, reason in zip(texts, stream.reasons):
            text = text.capitalize() if tokenizer.lowercase else text
            yield Drawn(text, reason, stream.context)
        drawn += rows
        rows = min(4 * rows, max(16, n - drawn), limit)


def seeded(sampling, i: int):
    "The same `Sampling` for text number i: with its own seed, if there is one."
    return sampling if sampling.seed is None else replace(sampling, seed=sampling.seed + i)


def known_names(
    folder: Path,  # of a model
    tokenizer,  # its own
) -> set[str]:  # normalised; empty for a model of other texts
    "The names that a model of names was made with, where they can still be read."
    task = Names()
    if folder != SHIPPED / "names":
        try:
            task = restore(folder, "model", "names", Names)
        except ValueError:
            return set()
    try:
        parts, _ = task.read_parts()
    except (OSError, ValueError, TypeError) as error:
        remark(f"Note: names that the model was made with may be among these: {error}")
        return set()
    return {tokenizer.normalise(name) for name in chain.from_iterable(parts)}


def write_new(
    n: int,
    texts,  # an iterator without end, from `draw_texts`
    tokenizer,
    known: set[str],  # texts that are not new, normalised
    sampling,
    endings: Endings,  # counts what is written
) -> None:
    "Write n of the drawn texts, none that is known and none twice, and say what was left out."
    likeliest = sampling.temperature == 0 or sampling.top_k == 1  # there is one such text
    patience = 1 if likeliest else PATIENCE
    written = 0
    in_vain = 0  # texts in a row that brought nothing new
    seen = set()  # the texts written
    left_out = Counter()  # how many for each reason
    for text, why, context in texts:
        key = tokenizer.normalise(text)
        if key in known and not likeliest:
            reason = "in the list of names"
        elif key in seen:
            reason = "repeated"
        else:
            reason = "" if key.strip() else "empty"
        if reason:
            left_out[reason] += 1
            in_vain += 1
        else:
            echo(text)
            endings.add(why, context)
            written += 1
            in_vain = 0
            seen.add(key)
        if written == n or in_vain == patience:
            break
    few = f"only {written} of {n:,}, for nothing else was new; " if written < n else ""
    if left_out:
        listed = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items())
        remark(f"Note: {few}left out {listed}; --all shows them")


def write_streams(n, model, tokenizer, prompt, max_new_tokens, sampling, endings, **kwargs) -> None:
    "Write n texts, each token as soon as it is drawn; arguments as above."
    for i in range(n):
        draw = seeded(sampling, i)
        how = dict(tokenizer=tokenizer, **kwargs)
        pieces = caches.stream(model, prompt, max_new_tokens, draw, **how)
        for piece in chain([prompt], pieces):
            echo(piece, nl=False)  # flushes
        echo("")
        endings.add(pieces.reason, pieces.context)
