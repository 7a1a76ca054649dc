"""`former-nb classify` and `translate`: an answer to each text, in order."""

from itertools import chain
from pathlib import Path

from ..base.core import keep_memory
from ..decoding.classification import predict
from ..decoding.prompts import find_context
from ..decoding.translating import stream_translations
from ..models.build import sizes_of
from ..tasks.labels import few_texts
from .folders import read_report
from .terminal import echo, growing, note_odd, remark


def classify_texts(
    lines,  # an iterator over texts
    block: int,  # texts at a time
    model,
    tokenizer,
    labels: list[str],
) -> None:
    "Print label, probability and text, with tabs between. An odd text gets neither, and a note."
    n = 0
    for texts in growing(lines, block):
        table = predict(model, tokenizer, texts, labels)
        best = table[[f"p({name})" for name in labels]].max(axis=1)
        for text, label, p, note in zip(texts, table["label"], best, table["note"]):
            n += 1
            probability = ""
            if isinstance(label, str):
                probability = f"{p:.3f}"
            else:
                label = ""
                note = note or "it was not classified"
            echo("\t".join(one_line(part) for part in (label, probability, text)))
            note_odd(n, "text", text, note)
    if not n:
        raise ValueError("texts: expected at least one, got none")


def one_line(text: str) -> str:
    "A text without line breaks and tabs."
    return " ".join(text.splitlines()).replace("\t", " ")


def note_few(folder: Path) -> None:
    "Say on standard error if a classifier was tested on too few texts to be sure how good it is."
    try:
        judged = sum(row["texts"] for row in read_report(folder)["by_label"].values())
    except (KeyError, TypeError, AttributeError):
        return  # nobody knows on how many
    note = few_texts(judged)
    if note:
        remark(f"Note: {note}")


def translate_lines(
    lines,  # an iterator over texts
    block: int,  # lines at a time
    model,
    tokenizer,
    num_beams: int,
    length_penalty: float,  # as for `stream_translations`
) -> None:
    "Print a translation of each line. A line that cannot be read gives an empty one, and a note."
    keep_memory()
    search = dict(length_penalty=length_penalty, ahead=block)
    translations = (
        stream_translations(model, tokenizer, texts, num_beams, **search)
        for texts in growing(lines, block)
    )
    n_cut = n = 0
    for n, line in enumerate(chain.from_iterable(translations), start=1):
        echo(" ".join(line.text.splitlines()))
        note_odd(n, "line", line.source, line.note)
        n_cut += line.reason == "context"
    if n_cut:
        context = find_context(sizes_of(model), None)._replace(go_on=())  # the command has neither
        remark(f"Note: {context.note(n_cut, n)}")
