"""Translate any lines, in any number, in their order, and none is lost to another.

Lesson 16 trains a translator and calls `translate`. This module is what lies between a line of text
and the search.

A line can be anything. If it is empty, so is its translation. If it is too long, it is cut between
sentences where that is enough, else between words, else anywhere, and its pieces are translated one
by one. What is no text at all, or half a character, gets no translation and a note that says why.

Lines are read and sorted by length, some at a time, so that batches are full and memory is not.
They come out in their old order. A document of a million lines can be piped through.
"""

import math
import re
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path

import torch

from ..attention.masks import padding_mask
from ..base.files import read_text
from ..base.guards import check_int, check_that, check_type
from ..data.tokenization import encode_texts
from ..data.tokens import PAD, TextTokenizer, both_sides
from ..models.bart import BartEncoderDecoder
from ..models.build import sizes_of
from ..models.parts import attend_beams, project_memory
from ..models.pretrained import check_pair, check_vocabulary
from ..models.savable import EncoderDecoder
from .beam_search import beam_search, length_score
from .caches import KVCache
from .fast_copy import faster
from .many_rows import in_batches
from .prompts import find_context, stop_tokens, warn_of_cut

__all__ = [
    "Translation",
    "stream_translations",
    "translate",
    "read_pairs",
]


# ---- one batch


def _pad_token(model):
    "What fills the sources of a model."
    return model.pad if isinstance(model, BartEncoderDecoder) else PAD


def _search(model, src, reader, start, room, num_beams, **options):
    """The best text of each row of `src`, special tokens included, and its score.

    The keys and values of the memory are computed once for each source. While several texts about
    one source grow, they stay neighbours in the batch, and `attend_beams` takes them for further
    queries of that source. So nothing has to be repeated for each beam.
    """
    mask = padding_mask(src, _pad_token(model))
    memory = project_memory(model.decoder, model.encode(src), attend_beams)

    def step(tokens, cache, positions):
        n = len(tokens) // len(src)  # texts about each source
        if not isinstance(memory, torch.Tensor) or n == 1:
            return reader.decode(tokens, memory, mask, cache, positions)
        repeated = memory.repeat_interleave(n, 0), mask.repeat_interleave(n, 0)
        return reader.decode(tokens, *repeated, cache, positions)

    begin = torch.tensor([list(start)] * len(src), device=src.device)
    cache = KVCache(sizes_of(model).n_layers)
    found = beam_search(step, begin, num_beams, room, cache=cache, **options)
    return [best for [best] in found]


# ---- one line

CUTS = [  # where a text may be cut, and what joins its parts again
    (r"(?<=[.!?…])\s+", " "),
    (r"\s+", " "),
    (r"(?<=.)(?=.)", ""),
]


def split_text(
    text: str,
    tokenizer: TextTokenizer,
    limit: int,  # tokens of a piece, at most
) -> list[str]:  # pieces without the space between them; none if the text is empty
    "Cut a text that is too long: between sentences if that is enough, then words, then anywhere."
    check_type("text", text, str)

    def fits(piece):
        return len(tokenizer.encode(piece)) <= limit

    pieces = [text.strip()]
    for boundary, gap in CUTS:
        shorter: list[str] = []
        for piece in pieces:
            shorter += [piece] if fits(piece) else _join(re.split(boundary, piece), gap, fits)
        pieces = shorter
    return [piece for piece in pieces if piece]


def _join(parts, gap, fits):
    "Neighbouring parts joined as long as they fit."
    pieces = parts[:1]
    for part in parts[1:]:
        longer = pieces[-1] + gap + part
        if fits(longer):
            pieces[-1] = longer
        else:
            pieces.append(part)
    return pieces


class Translation(str):
    """The text that was made of a sentence: a string that also says where it comes from.

    It prints, joins and compares as its text, as in `translation == "twenty-one"`.
    """

    source: str
    text: str  # the same as a plain string
    score: float
    note: str
    reason: str | None

    def __new__(
        cls,
        source: str,
        text: str,  # empty if the source is, or could not be read
        score: float,  # as of `length_score`; NaN without a translation
        note: str = "",  # why there is no translation, or what of the source was lost
        reason: str | None = None,  # why it ends, as in `Stream`; None without a translation
    ):
        self = super().__new__(cls, text)
        self.source = source
        self.text = text
        self.score = score
        self.note = note
        self.reason = reason
        return self

    def __getnewargs__(self):  # for pickle and copy
        return self.source, self.text, self.score, self.note, self.reason

    def __repr__(self):
        fields = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"Translation({fields})"


def _encode_line(line, tokenizer, limit):
    "Pieces of a line as rows of tokens, and a note."
    try:
        unknown = tokenizer.unknown(line)
        pieces = split_text(line, tokenizer, limit)
    except (TypeError, ValueError) as error:
        return [], f"not translated: {error}"
    notes = []
    if unknown:
        notes.append(f"characters that the model does not know: {unknown!r:.80}")
    if len(pieces) > 1:
        notes.append(f"too long, so translated in {len(pieces)} pieces")
    return encode_texts(pieces, tokenizer), "; ".join(notes)


# ---- many lines

MAX_TOKENS = 4096  # in one batch, each counted once for every beam
REASONS = ("stop", "length", "context")  # of the pieces of a line, the last of these counts


def _make_translation(line, note, pieces, tokenizer, ending):
    "A `Translation` from the row and the score that the search has found for each piece."
    if not pieces:
        return Translation(line, "", math.nan, note)
    reason = max(ending(row) for row, _ in pieces)
    text = " ".join(tokenizer.decode(row) for row, _ in pieces)
    score = sum(score for _, score in pieces) / len(pieces)
    return Translation(line, text, score, note, REASONS[reason])


def _translate(model, tokenizer, lines, search, max_tokens, ending):
    "A `Translation` for each of a few lines, in their order."
    limit = model.config.max_len - 2
    encoded = [_encode_line(line, tokenizer.source, limit) for line in lines]
    rows = [row for pieces, _ in encoded for row in pieces]
    results = iter(in_batches(model, rows, search, max_tokens, _pad_token(model)))
    for line, (pieces, note) in zip(lines, encoded):
        found = list(islice(results, len(pieces)))
        yield _make_translation(line, note, found, tokenizer.target, ending)


def stream_translations(
    model: EncoderDecoder,
    tokenizer: TextTokenizer | tuple,  # of both sides, or (source, target) of two vocabularies
    lines: Iterable[str],  # read as they are needed
    num_beams: int = 5,  # as for `beam_search`; 1 is greedy
    *,
    length_penalty: float = 1.0,  # as for `length_score`
    max_new_tokens: int | None = None,  # of a translation, at most; None for all of `max_len`
    ahead: int = 100,  # lines that are read and sorted by length at a time
) -> Iterator[Translation]:  # one for each line, in their order
    """Translate in bounded memory. A line that cannot be read costs itself only.

    The `reason` of a translation says why it ends, as those of `stream` do.
    """
    check_type("model", model, EncoderDecoder)
    check_pair(model, tokenizer)
    check_vocabulary(model.config, tokenizer, model.tgt_config)
    pair = both_sides(tokenizer)
    check_int("num_beams", num_beams)
    check_int("ahead", ahead)
    check_lines("lines", lines)
    lines = iter(lines)
    length_score(0.0, 1, length_penalty)  # raises for a bad one
    if max_new_tokens is not None:
        check_int("max_new_tokens", max_new_tokens)
    start = pair.target.start
    context = find_context(sizes_of(model), max_new_tokens)
    room = context.room(len(start), max_new_tokens)
    ends, _ = stop_tokens(pair.target.stops["eos_token_ids"], (), model.tgt_config.vocab_size)

    def ending(row):  # a number of `REASONS`
        if row[-1] in ends:
            return 0
        return 1 if room == max_new_tokens else 2

    search = partial(
        _search,
        model,
        reader=faster(model, room),
        start=start,
        room=room,
        num_beams=num_beams,
        length_penalty=length_penalty,
        **pair.target.stops,
    )
    batch = MAX_TOKENS // num_beams
    return (
        translation
        for chunk in iter(lambda: list(islice(lines, ahead)), [])
        for translation in _translate(model, pair, chunk, search, batch, ending)
    )


def translate(
    model: EncoderDecoder,
    tokenizer: TextTokenizer | tuple,  # as for `stream_translations`
    sentences: Iterable[str],
    num_beams: int = 5,  # as for `beam_search`; 1 is greedy
    *,
    length_penalty: float = 1.0,  # this and all others as for `stream_translations`
    max_new_tokens: int | None = None,
) -> list[Translation]:  # one for each sentence, in their order
    """Translate a list of sentences. Raises as `stream_translations`, and warns as `generate`.

    A `Translation` is a string that has a `score`, a `note` and its `source`, too:

        found = translate(model, tokenizer, ["einundzwanzig", "zwei"])
        found[0] == "twenty-one"
        right = sum(a == b for a, b in zip(found, ["twenty-one", "two"]))
    """
    check_lines("sentences", sentences)
    lines = stream_translations(
        model,
        tokenizer,
        sentences,
        num_beams,
        length_penalty=length_penalty,
        max_new_tokens=max_new_tokens,
        ahead=1000,  # nobody waits for the first of a list
    )
    found = list(lines)
    context = find_context(sizes_of(model), max_new_tokens)
    if "window" in context.go_on:  # of which there is none here
        context = context._replace(go_on=())
    n_cut = sum(translation.reason == "context" for translation in found)
    warn_of_cut(context, n_cut, len(found))
    return found


def check_lines(name, lines):
    "Raise `TypeError` for a single text, or for what is no several."
    several = isinstance(lines, Iterable) and not isinstance(lines, (str, bytes))
    check_that(several, name, "several strings", lines, TypeError)


# ---- parallel text


def read_pairs(
    src: str | Path,  # UTF-8, one sentence per line, also compressed with gzip
    tgt: str | Path,  # its translation, line by line
) -> list[tuple[str, str]]:
    "Parallel text from two files. Raises `ValueError` unless both have as many lines."
    sources = _read_lines(src)
    targets = _read_lines(tgt)
    same = len(sources) == len(targets)
    check_that(same, "tgt", f"as many lines as in src, {len(sources)}", len(targets))
    return list(zip(sources, targets))


def _read_lines(file):
    lines = read_text(file).removesuffix("\n").split("\n")
    return [line.strip() for line in lines]
