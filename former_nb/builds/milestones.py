"The reader's file at work: the pages after lessons 06, 11, 12, 14 and 16 run it."

import os
from pathlib import Path
from types import ModuleType

from ..base.exercises import MistakeError
from . import right_file
from .process import load_file
from .your_file import EXAMPLE, judge_file

__all__ = ["load_mine"]

LESSONS = [f"{n:02}" for n in range(2, 17)]


def load_mine(
    until: str,  # the last lesson whose part is needed, such as '06'
    file: str | os.PathLike = EXAMPLE,  # the reader's file
) -> ModuleType:  # the file as a module, or the course's own file
    """Load the reader's file if all of it is right up to a lesson, else the course's own.

    One line says which of the two it is, and why.
    """
    if until not in LESSONS:
        raise ValueError(f"until: expected a lesson from '02' to '16', got {until!r}")
    path = Path(file)
    if not path.exists():
        print(f"There is no {path.name} here, so this page runs the course's own file.")
        return right_file
    problem = _problem(path, until)
    if problem is None:
        print(f"This page runs your {path.name}, which is right up to lesson {until}.")
        return load_file(path)
    print(f"{path.name} isn't right up to lesson {until} yet. {problem}")
    print("So this page runs the course's own file.")
    return right_file


def _problem(path, until):
    "A sentence about the first step that isn't right, or None."
    try:
        verdicts = judge_file(path)
    except MistakeError as error:
        return f"{error}."
    for verdict in verdicts:
        if verdict.lesson <= until and verdict.problem is not None:
            return f"{verdict.name}: {verdict.problem}."
    return None
