"""The door: what comes from outside, and the right answer. Each row is a promise.

A row has three parts: what comes, in words; a function that does what a user does with it, in an
empty folder; and the right answer. The answer is a value, a function that judges the result,
`Refused` for a sentence that names the argument, or `Noted` for a result with a note beside it.
Rows of the command line end in `Said` (exit status 0), or in `Refused` (exit status 2).
"""

import subprocess
import warnings
from functools import partial
from typing import Any, NamedTuple

import pytest
from cli_tools import former  # noqa: F401
from cli_tools import refused as refused_by_command
from refusals import refuses

from former_nb.tasks.labels import Classify


class Refused(NamedTuple):
    "One sentence that names the argument and holds these pieces."

    argument: str
    pieces: tuple = ()


class Noted(NamedTuple):
    "A result as `right` says, and a note that holds these pieces."

    right: Any
    pieces: tuple


class Said(NamedTuple):
    "A command that succeeds and writes these pieces."

    pieces: tuple


PATHS: list = []  # that a user gives: arguments, options, settings
TEXTS: list = []  # encodings, line ends, compression
TABLES: list = []  # CSV: quotes, headings, separators, labels


def _split(test, classes="", part="test"):
    "What a classifier of two labels learns from, given the rows of another file."

    def call(folder):
        for name, rows in {"train": ["good,1", "bad,0"] * 9, "other": test}.items():
            rows = [f"{i} {row}" if name == "train" else row for i, row in enumerate(rows)]
            (folder / f"{name}.csv").write_text("\n".join(["text,label", *rows]) + "\n")
        files = {part: str(folder / "other.csv")}
        task = Classify(csv=str(folder / "train.csv"), classes=classes, **files)
        parts, source = task.read_parts()
        return [label for _, label in parts[-1]], source.partition("csv, ")[2]

    return call


TABLES += [
    (
        "a test file that was in no way learned from",
        _split(["new,1"]),
        (["1"], "those held out from other.csv"),
    ),
    (
        "a test file with a text that was learned from",
        _split(["new,1", "0 GOOD,1"]),
        (["1", "1"], "those held out from other.csv, 1 of them also in the training data"),
    ),
    (
        "a test file of one label",
        _split(["new,0", "other,0"]),
        (["0", "0"], "those held out from other.csv"),
    ),
    (
        "a test file with a label that nobody learned",
        _split(["new,1", "newer,2"]),
        Refused("test", ("'2' in row 2 of other.csv",)),
    ),
    (
        "a validation file with a label that nobody learned",
        _split(["new,yes"], part="valid"),
        Refused("valid", ("'yes' in row 1 of other.csv",)),
    ),
    (
        "a test file that has the labels by their names",
        _split(["new,up", "newer,0"], "0=down, 1=up"),
        (["up", "down"], "those held out from other.csv"),
    ),
    ("a name for one label of two", _split(["new,1"], "1=up"), Refused("classes", ("'1=up'",))),
    ("one name for two labels", _split(["new,1"], "0=a, 1=a"), Refused("classes", ("'0=a, 1=a'",))),
    ("names without labels", _split(["new,1"], "down, up"), Refused("classes", ("'down, up'",))),
]
MODELS: list = []  # config.json, generation_config.json and tokenizers of other programs
BATCHES: list = []  # what `fit`, `evaluate` and the layers are given
WRITING: list = []  # prompts and contexts: what a text that ends says
LONG: list = []  # work that would take a very long time


def judge(result, right):
    "Whether a result is right."
    if isinstance(right, Said):
        assert result.returncode == 0, result.stderr
        said = result.stdout + result.stderr
        assert all(piece in said for piece in right.pieces), said
    elif callable(right):
        assert right(result)
    else:
        assert result == right


TABLE = {
    "paths": PATHS,
    "texts": TEXTS,
    "tables": TABLES,
    "models": MODELS,
    "batches": BATCHES,
    "writing": WRITING,
    "long": LONG,
}
ROWS = [
    pytest.param(call, right, id=f"{kind}: {what}")
    for kind, rows in TABLE.items()
    for what, call, right in rows
]


@pytest.mark.parametrize(("call", "right"), ROWS)
def test_what_comes_gets_the_right_answer(call, right, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if isinstance(right, Refused):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                result = call(tmp_path)
            except Exception as error:
                kinds = (TypeError, ValueError)
                refuses(partial(_raise, error), kinds, right.argument, *right.pieces)
                return
        assert isinstance(result, subprocess.CompletedProcess), f"accepted: {result!r}"
        refused_by_command(result, right.argument, *right.pieces)
    elif isinstance(right, Noted):
        with pytest.warns(UserWarning) as notes:
            result = call(tmp_path)
        said = "\n".join(str(note.message) for note in notes)
        assert all(piece in said for piece in right.pieces), said
        judge(result, right.right)
    else:
        judge(call(tmp_path), right)


def _raise(error):
    raise error
