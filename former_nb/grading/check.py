"""`check` tells you that an answer is right, or which mistake it looks like.

The right answer to an exercise stands, with the ways to get it wrong, in a module of `exercises`.
An answer is compared with it on fixed and on random inputs. A mistake that is known there gets its
sentence; of another the line is told where one small edit makes the answer right.
"""

import contextlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any

import torch

from ..base.source import written_at
from .answer import Answer
from .apart import last_of
from .ask import Exercise
from .compare import loosened
from .content import definition, find_exercise
from .grade import LIMIT, SEARCH, Verdict, verdicts
from .known import named_place
from .limits import one_thread
from .words import NOTHING, of_value

__all__ = ["check", "hint", "solution", "begin_file", "keep"]

OPEN = "the three dots are still there; put your lines in their place"


def check(
    number: str,  # such as '03.2'; or a file of yours, 'mine.py'; or 'project'
    answer: Any = ...,  # a function, a class or a value, as the exercise says; or a report
) -> bool:  # whether the answer is right; of a file, whether all is right that is written
    """Judge an answer: print that it is right, or what it looks like and how to get a hint.

    `check("mine.py")` judges a whole file, definition by definition.

    An answer that raises is judged like any other wrong one: with a sentence and the line of your
    code, not a page of traceback.
    """
    if answer is ... and str(number).endswith(".py"):
        from .your_file import show_file

        return show_file(number)
    if number == "project":
        from .report import show_report

        return show_report(answer)
    exercise = find_exercise(number)
    with torch.device("cpu"), one_thread():  # whatever the page computes on
        verdict = verdict_on(exercise, answer)
    if verdict.kind == "right":
        print(f"{number} is right.")
        return True
    ending = "" if verdict.said.endswith((".", "?", "!")) else "."
    print(f"{number}, not yet: {verdict.said}{ending}")
    if hints := definition(number).hints:
        some = f"the first of {len(hints)} hints" if len(hints) > 1 else "a hint"
        print(f'hint("{number}") shows {some}.')
    return False


def verdict_on(
    exercise: Exercise,
    answer: Any,
) -> Verdict:
    "What is said of an answer to an exercise."
    if answer is ...:
        return Verdict("open", OPEN)
    if exercise.is_value:
        return verdict_on_value(exercise, answer)
    if not callable(answer):
        said = f"expected a function, got {type(answer).__name__}"
        return Verdict("unfit", f"{said}; pass the function itself, not what it returns")
    asked = as_answer(answer)
    if exercise.files:  # an edit could remove what is not the answer's
        asked.node = None
    first = next(verdicts(exercise.number, asked))
    if first.kind in ("right", "unfit", "endless") or first.said == NOTHING:
        return first
    seconds = LIMIT + SEARCH + 10
    return Verdict(*(last_of(lambda: verdicts(exercise.number, asked), seconds) or first))


def verdict_on_value(exercise, value):
    "What is said of a number, or of several."
    if isinstance(value, FunctionType):
        return Verdict("unfit", "expected a value, got a function; call it")
    value = as_asked(exercise, value)
    answer = Answer(lambda: value, None, [], "", {}, {})
    verdict = list(verdicts(exercise.number, answer))[-1]
    if verdict.kind in ("right", "named"):
        return verdict
    given, right = loosened(value), loosened(exercise.made())
    if said := named_place(exercise.number, given, right):
        return Verdict("named", said)
    return Verdict("numbers", of_value(given, right, exercise.parts, exercise.near))


def as_asked(exercise, value):
    "A value as the exercise has it: 0.2 may come as '0.2' or [0.2]."
    if exercise.read and isinstance(value, str):
        return exercise.read(value)
    if isinstance(loosened(exercise.made()), float):
        found = loosened(value)
        if isinstance(found, tuple) and len(found) == 1:
            return found[0]
        if isinstance(found, str):
            with contextlib.suppress(ValueError):
                return float(found)
    return value


def as_answer(made):
    "A function or class as what is judged, with its source if Python has it."
    found = written_at(made)
    if found is None or found.first < found.node.lineno:  # a decorator may do anything
        return Answer(made, None, [], "", {}, {})
    function = found.function
    space = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            space[name] = cell.cell_contents
        except ValueError:  # still empty
            continue
    return Answer(made, found.node, found.lines, function.__code__.co_filename, space, {})


def hint(
    number: str,  # such as '03.2'
    step: int = 1,  # 1 is the gentlest
) -> None:
    "Print one hint of an exercise and say how many there are."
    find_exercise(number)
    hints = definition(number).hints
    if not 1 <= step <= len(hints):
        raise ValueError(f"step: expected a hint of {number}, 1 to {len(hints)}, got {step}")
    print(f"Hint {step} of {len(hints)}: {hints[step - 1]}")
    if step < len(hints):
        print(f'hint("{number}", {step + 1}) shows the next.')


def solution(
    number: str,  # such as '03.2'
) -> Any:  # the right function, or the value
    "Show the right answer to an exercise, and return it."
    exercise = find_exercise(number)
    source = definition(number).source().rstrip()
    notebook = sys.modules.get("IPython")
    if notebook and notebook.get_ipython():
        notebook.display.display(
            {"text/markdown": f"```python\n{source}\n```", "text/plain": source}, raw=True
        )
    else:
        print(source)
    return exercise.made() if exercise.is_value else exercise.made


def begin_file(
    file: str = "mine.py",  # where it is written
) -> None:
    "Write a file of your own to begin with, in lesson 02. One that is there stays as it is."
    from . import your_file

    your_file.begin_file(file)


def keep(
    answer: Callable,  # a function or class that you wrote, in a cell or in a file
    file: str | None = None,  # where it goes; FORMER_NB_MINE or 'mine.py' if left out
) -> bool:  # whether it is in the file now
    """Write an answer at the end of your file, and say what `check` says about it there.

    What the file defines already stays as it is; only a definition of three dots is filled in.
    """
    from . import keeping

    return keeping.keep(answer, file)
