"""What the tables of `test_door` share: the right answers that are no plain values."""

from typing import Any, NamedTuple


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
