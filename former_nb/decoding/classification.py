"""What a classifier is fed, and what it answers: rows, batches, windows, predictions, reports.

Lesson 09 uses this module, and derives none of it.

A class is a number for the model and a name for us. `label_names` gives the names their order, and
`label_rows` makes of each text its tokens and the number of its label. A text can be longer than a
model reads. `truncate` cuts its middle out, because critics sum up at the end. `windows` divides it
into pieces of one length that overlap, and `predict` averages the probabilities of all of them.
"""

import csv
import io
import math
import random
import warnings
from collections import Counter
from functools import partial
from operator import index
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader

from ..base.files import read_text
from ..base.guards import check_choice, check_int, check_share, check_that
from ..data.batches import make_batches
from ..data.text import pad_rows
from ..data.tokenization import encode_texts
from ..data.tokens import TextTokenizer, check_texts
from ..models.pretrained import check_pair
from .many_rows import in_batches

__all__ = [
    "label_names",
    "label_rows",
    "truncate",
    "collate_labels",
    "label_batches",
    "predict",
    "read_labeled_csv",
    "oversample",
    "classification_report",
]


# ---- rows and batches


def label_names(
    labels: list[str],  # of the training texts
) -> list[str]:  # each once, sorted; its index is its number
    "The classes there are. Raises `ValueError` for fewer than two: nothing could be learned."
    names = sorted(set(check_texts(labels, name="labels")))
    check_that(len(names) > 1, "labels", "at least two different strings", names)
    return names


def label_rows(
    texts: list[str],
    labels: list[str],  # as many
    tokenizer: TextTokenizer,
    names: list[str],  # from `label_names`
) -> list[tuple[list[int], int]]:  # rows for `collate_labels`
    "Tokens and class numbers. Raises `ValueError` for a label that is none of `names`."
    rows = encode_texts(texts, tokenizer)
    numbers = {name: i for i, name in enumerate(check_texts(names, name="names"))}
    labels = check_texts(labels, name="labels")
    check_that(len(labels) == len(rows), "labels", f"one for each of {len(rows)} texts", labels)
    for i, label in enumerate(labels, start=1):
        check_that(label in numbers, f"labels: row {i}", f"one of {names}", label)
    return [(row, numbers[label]) for row, label in zip(rows, labels)]


def truncate(
    row: list[int],
    max_len: int,  # tokens that may stay: a third from the beginning, the rest from the end
) -> list[int]:  # at most `max_len` tokens
    "Cut a row that is too long."
    check_int("max_len", max_len)
    if len(row) <= max_len:
        return row
    head = max_len // 3
    tail = max_len - head
    return [*row[:head], *row[len(row) - tail :]]


def windows(
    row: list[int],
    max_len: int,  # tokens of a window
) -> list[list[int]]:  # as few as possible, evenly spread; each token is in one or more
    "Cut a row that is too long into pieces of one length that overlap."
    check_int("max_len", max_len)
    n = math.ceil(len(row) / max_len)
    if n <= 1:
        return [row]
    last = len(row) - max_len  # where the last window begins
    starts = [last * i // (n - 1) for i in range(n)]
    return [row[start : start + max_len] for start in starts]


def _drop_tokens(row, probability):
    "A row without some of its tokens."
    stays = torch.rand(len(row), device="cpu") >= probability
    return [token for token, stay in zip(row, stays.tolist()) if stay]


def collate_labels(
    rows: list[tuple[list[int], int]],  # tokens and the number of the class
    max_len: int | None = None,  # cut longer rows as `truncate` does
    word_dropout: float = 0.0,  # probability that a token is left out; for training
) -> tuple[torch.Tensor, torch.Tensor]:  # tokens (B, T), padded with PAD, and labels (B,)
    """A batch of texts with their labels. Tokens are left out before a row is cut, so that over the
    epochs all of a long text comes up."""
    check_share("word_dropout", word_dropout)
    try:
        labels = torch.tensor([index(label) for _, label in rows], dtype=torch.int64)
    except (TypeError, ValueError):
        wanted = "pairs of tokens and the number of a class, as `label_rows` makes them"
        raise TypeError(f"rows: expected {wanted}, got {rows!r:.80}") from None
    texts = [row for row, _ in rows]
    if word_dropout:
        texts = [_drop_tokens(row, word_dropout) for row in texts]
    if max_len is not None:
        texts = [truncate(row, max_len) for row in texts]
    return pad_rows(texts), labels


def label_batches(
    rows: list[tuple[list[int], int]],  # tokens and the number of the class
    batch_size: int,  # rows per batch
    max_len: int | None = None,  # cut longer rows as `truncate` does
    shuffle: bool = False,  # in a new order each epoch
    seed: int = 0,  # of the order
    word_dropout: float = 0.0,  # probability that a token is left out; for training
) -> DataLoader:  # of batches, each of rows of similar length
    """Batches as `collate_labels` makes them.

    Rows come together whose lengths will be similar once tokens are left out. By their lengths
    before, rows of 400 and of 800 tokens would both count as cut to 400, and a fifth of the
    positions would be padding.
    """
    collate = partial(collate_labels, max_len=max_len, word_dropout=word_dropout)
    collate(rows[:1])  # refuses bad settings before anything is trained

    def length(row):
        left = round((1 - word_dropout) * len(row[0]))
        return min(max_len, left) if max_len else left

    return make_batches(
        rows, batch_size, shuffle, seed, by_length=True, collate=collate, length=length
    )


# ---- predictions

MAX_TOKENS = 16_384  # per batch


def _encode(text, tokenizer):
    "The tokens of a text, None where it is none, and a note of what is odd."
    try:
        unknown = tokenizer.unknown(text)
        row = [*tokenizer.before, *tokenizer.encode(text), *tokenizer.after]
    except (TypeError, ValueError) as error:
        return None, str(error)
    if not text.strip():
        return row, "empty text"
    return row, f"unknown characters: {unknown[:20]!r}" if unknown else ""


def _average(model, pieces, n):
    "Probabilities (n, n_classes) of n texts from those of their pieces; NaN without a piece."
    total = torch.zeros(n, model.n_classes + 1, device="cpu")  # the last column counts pieces

    def probabilities(tokens):
        p = model(tokens).float().softmax(dim=-1)  # (B, n_classes)
        return nn.functional.pad(p, (0, 1), value=1.0)

    found = in_batches(model, [row for row, _ in pieces], probabilities, MAX_TOKENS)
    if found:
        numbers = torch.tensor([number for _, number in pieces], device="cpu")
        total.index_add_(0, numbers, torch.stack(found).cpu())  # the one wait
    return total[:, :-1] / total[:, -1:]


def predict(
    model: Any,  # a `Classifier`, or a model with its `config` and `n_classes`
    tokenizer: TextTokenizer,
    texts: list[str],  # of any length; what is no text gets no label
    labels: list[str] | None = None,  # the names of the classes; their numbers if left out
    strategy: str = "windows",  # for a text too long for the model; or 'head_tail', as `truncate`
) -> pd.DataFrame:  # a row per text: label, p(name) for each class, and a note
    "Labels and probabilities. A text that cannot be read costs its own row only: no label, NaN."
    if labels is None:
        several = hasattr(model, "n_classes")
        check_that(several, "model", "one with `n_classes`", type(model).__name__)
        labels = [str(i) for i in range(model.n_classes)]
    check_pair(model, tokenizer, labels)
    check_choice("strategy", strategy, ("windows", "head_tail"))
    limit = model.config.max_len
    notes = []
    pieces = []  # each is its tokens and the number of its text
    for i, text in enumerate(check_texts(texts, any_kind=True)):
        row, note = _encode(text, tokenizer)
        notes.append(note)
        if row is not None:
            cut = windows(row, limit) if strategy == "windows" else [truncate(row, limit)]
            pieces += [(piece, i) for piece in cut]
    p = _average(model, pieces, len(notes))  # (n, n_classes)
    best = [None if row.isnan().any() else labels[row.argmax()] for row in p]
    columns = {"label": pd.Series(best, dtype=object)}
    for k, name in enumerate(labels):
        columns[f"p({name})"] = p[:, k].numpy()
    columns["note"] = pd.Series(notes, dtype=object)
    return pd.DataFrame(columns)


# ---- a table of your own


SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def read_labeled_csv(
    file: str | Path,  # CSV in UTF-8 with a heading, also compressed with gzip
    text: str = "text",  # the column that holds the texts
    label: str = "label",  # the column that holds the labels
) -> tuple[list[str], list[str]]:  # texts and labels, in the file's order
    """Two columns of a table. Raises `ValueError`, naming the file and the row, for what is wrong.

    A warning names what is allowed but looks wrong: text behind a closing quote, labels that differ
    by capitals or spaces only.
    """
    where = f"file: {str(file)!r}"
    check_that(text != label, "label", f"another column than that of the texts, {text!r}", label)
    content = read_text(file)
    (_, heading), *rows = _read_rows(content, where)
    heading = [name.strip() for name in heading]
    for name in (text, label):
        if heading.count(name) != 1:
            hint = _why_no_column(heading, content)
            raise ValueError(f"{where}: expected one column {name!r}, got {heading!r:.300}; {hint}")
    check_that(len(rows) > 0, where, "rows below the heading", None)
    t, k = heading.index(text), heading.index(label)
    for i, (line, row) in enumerate(rows, start=1):
        place = f"row {i} (line {line})"
        if len(row) <= max(t, k):
            least = max(t, k) + 1
            raise ValueError(f"{where}: expected at least {least} cells in {place}, got {row}")
        if len(row) > len(heading) and any(map(str.strip, row[len(heading) :])):
            expected = f"{len(heading)} cells in {place}, where a text with a comma is in quotes"
            raise ValueError(f"{where}: expected {expected}, got {row}")
        if not row[k].strip():
            raise ValueError(f"{where}: expected a label in {place}, column {label!r}, got {row}")
    for note in [*_odd_quotes(content), *_odd_labels(rows, k)]:
        warnings.warn(f"{where}: {note}", stacklevel=2)
    return [row[t] for _, row in rows], [row[k].strip() for _, row in rows]


def _parse(content, strict=False):
    "Each row of CSV with the line that it begins in; None where a strict reader stops."
    reader = csv.reader(io.StringIO(content.replace("\r", " ")), strict=strict)
    longest = csv.field_size_limit(len(content) + 1)
    try:
        line = 1
        for row in reader:
            yield line, row
            line = reader.line_num + 1
    except csv.Error:
        yield line, None
    finally:
        csv.field_size_limit(longest)


def _read_rows(content, where):
    "The rows in which something stands. `ValueError` for a quote that is never closed."
    end = "\ue000"
    *rows, (line, last) = _parse(f"{content}\n{end}")
    if last != [end]:  # it is inside of a text
        closed = f"a closing quote for the one in the row that begins in line {line}"
        raise ValueError(f"{where} is not CSV: expected {closed}, got the end of the file")
    rows = [(line, row) for line, row in rows if any(cell.strip() for cell in row)]
    check_that(len(rows) > 0, where, "a heading, and rows below it", "empty rows")
    return rows


def _why_no_column(heading, content):
    "What is likely wrong with a table that has no column of a name, or two."
    if content.lstrip()[:1] in ("{", "["):
        return "it looks like JSON, and CSV is read"
    if "\r" in content and "\n" not in content:
        return "its lines end with a carriage return alone; save it with line feeds"
    for separator, name in SEPARATORS.items():
        if len(heading) == 1 and separator in heading[0]:
            return f"its columns are separated by {name}; save it with commas"
    return "the first row holds the names of the columns, and `text` and `label` choose others"


def _odd_quotes(content):
    "A note on a quote that isn't doubled, or is alone."
    *_, (line, stopped) = _parse(content, strict=True)
    if stopped is None:
        odd = f"in the row that begins in line {line}, text stands behind a closing quote"
        yield f"{odd}; a quote inside of a text is doubled"


def _odd_labels(rows, k):
    "Notes on labels of which only capitals and spaces differ."
    alike = {}
    for raw in sorted({row[k] for _, row in rows}):
        alike.setdefault(" ".join(raw.casefold().split()), []).append(raw)
    for raw in alike.values():
        names = sorted({name.strip() for name in raw})
        if len(names) > 1:
            yield f"the labels {names} differ by capitals or spaces only, and are different classes"
        elif len(raw) > 1:
            yield f"the labels {raw} differ by spaces at their ends only, and are one class"


def oversample(
    rows: list[tuple[list[int], int]],  # tokens and class numbers
    seed: int = 0,
) -> list[tuple[list[int], int]]:  # each row once or more, and as many of each class
    """Repeat rows of rarer classes until all classes are equally frequent. For training only.

    A model that never answers with a rare class loses little accuracy. After oversampling its
    probabilities hold for a world of equally frequent classes (exercise 09.3).
    """
    rng = random.Random(int(seed))
    count = Counter(label for _, label in rows)
    largest = max(count.values(), default=0)
    more = []
    for label in sorted(count):
        same = [row for row in rows if row[1] == label]
        missing = largest - count[label]
        more += same * (missing // len(same))
        more += rng.sample(same, missing % len(same))
    return [*rows, *more]


def classification_report(
    labels: list[str],  # the right ones
    predicted: list[str],  # those of `predict`; None is wrong for every class
) -> pd.DataFrame:  # a row per class: how many texts, precision, recall, f1
    "Per class; precision is NaN if it was never predicted, recall if it was never right."
    labels = list(labels)
    predicted = list(predicted)
    expected = f"one for each of {len(labels)} labels"
    check_that(len(predicted) == len(labels), "predicted", expected, predicted)
    pairs = list(zip(labels, predicted))
    names = sorted({name for name in [*labels, *predicted] if isinstance(name, str)})
    rows = {}
    for name in names:
        right = pairs.count((name, name))
        n_texts = labels.count(name)
        n_predicted = predicted.count(name)
        precision = right / n_predicted if n_predicted else math.nan
        recall = right / n_texts if n_texts else math.nan
        f1 = 2 * right / (n_texts + n_predicted)
        rows[name] = [n_texts, precision, recall, f1]
    columns = ["texts", "precision", "recall", "f1"]
    return pd.DataFrame.from_dict(rows, "index", columns=columns).rename_axis("class")
