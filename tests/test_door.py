"""The door: what comes from outside, and the right answer. Each row is a promise.

A row has three parts: what comes, in words; a function that does what a user does with it, in an
empty folder; and the right answer. The answer is a value, a function that judges the result,
`Refused` for a sentence that names the argument, or `Noted` for a result with a note beside it.
Rows of the command line end in `Said` (exit status 0), or in `Refused` (exit status 2).
"""

import subprocess
import warnings

import pytest
from cli_tools import refused as refused_by_command
from door_batches import BATCHES
from door_files import LONG, PATHS, TABLES, TEXTS
from door_models import MODELS
from door_splits import SPLITS
from door_tools import Noted, Refused, judge
from door_writing import WRITING
from refusals import refuses

TABLE = {
    "paths": PATHS,
    "texts": TEXTS,
    "tables": TABLES,
    "splits": SPLITS,
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
            except (TypeError, ValueError) as error:
                refuses(raising(error), type(error), right.argument, *right.pieces)
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


def raising(error):
    "A call that raises this error."

    def call():
        raise error

    return call
