"""`check` tells you that an answer is right, or which mistake it looks like.

The judge of an exercise is found by its number and told apart from what all judges share
(`base/exercises.py`). Where a judge can't name the mistake, `check` looks for one small edit of
your own lines that makes them right, and says where it is (`builds/your_answer.py`). What judges
whole files is imported when it is asked for, so that a page doesn't wait for it.
"""

import linecache
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch

from ..base.exercises import (
    COMPARED,
    EXERCISES,
    UNNAMED,
    Exercise,
    MistakeError,
    as_number,
    clean_message,
    unnamed,
    usual_mistake,
)
from ..grading import check as grading_check
from ..grading import content

__all__ = ["find_exercise", "check", "begin_file", "keep", "hint"]


def find_exercise(
    number: str,  # such as '03.2'
) -> Exercise:
    "The exercise called `number`. Raises `ValueError` if there is none."
    if number not in EXERCISES:
        page = str(number).partition(".")[0]
        module = f"checks.{page}"
        if page.isdigit():
            module = f"checks.lesson_{page}"
        elif page in ("A", "B", "C"):
            module = f"builds.build_{page.lower()}"
        try:
            import_module(f"former_nb.{module}")
        except ModuleNotFoundError:
            pass
    if number not in EXERCISES:
        raise ValueError(f"number: expected an exercise such as '03.2', got {number!r}")
    return EXERCISES[number]


def has_right_answer(number):
    try:
        return bool(content.find_exercise(number))
    except ValueError:
        return False


def _blame(error, answer):
    "What an answer raised, the usual mistake behind it, and in which of its lines."
    message = clean_message(error)
    if isinstance(error, TypeError) and not callable(answer) and message.endswith("not callable"):
        came = type(answer).__name__
        return f"expected a function, got {came}; pass the function itself, not what it returns"
    sentence = f"your code raised {type(error).__name__}: {message}".rstrip(".: ")
    usual = usual_mistake(error)
    if usual:
        sentence = f"{usual}; {sentence}"
    file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    code = linecache.getline(file, lines[-1]).strip() if lines else ""
    return f"{sentence}, in line {lines[-1]} of your cell, `{code}`" if code else sentence


def _with_place(problem, number, chosen, answer):
    "The problem, and the line where one small edit makes the answer right, if there is one."
    from ..builds.your_answer import find_mistake, right_answer

    raised = "your code raised" in problem  # that names the line already
    alike = None if raised else right_answer(str(number))
    place = find_mistake(chosen.judge, answer, chosen.right, alike=alike)
    if place is None:
        return problem
    return str(place) if "the numbers differ" in problem else f"{problem}; {place}"


def check(
    number: str,  # such as '03.2', or 'A' for a build; or a file of yours, 'mine.py'
    answer: Any = ...,  # a function or a value, as the exercise says; for build A your file's name
) -> bool:  # whether the answer is right; of a file, whether all is right that is written
    """Judge an answer: print that it is right, or what it looks like and how to get a hint.

    `check("mine.py")` judges a whole file, definition by definition.

    An answer that raises is judged like any other wrong one: with a sentence and the line of your
    code, not a page of traceback.
    """
    if answer is ... and str(number).endswith(".py"):
        from ..grading.your_file import show_file

        return show_file(number)
    if has_right_answer(number):
        return grading_check.check(number, answer)
    chosen = find_exercise(number)
    UNNAMED.clear()
    COMPARED.clear()
    with torch.device("cpu"):  # what judge and answer make, whatever the page computes on
        try:
            problem = chosen.judge(as_number(answer))
        except MistakeError as error:
            problem = str(error)
        except (Exception, SystemExit) as error:  # noqa: BLE001, an answer may raise anything
            problem = unnamed(_blame(error, answer))
        if problem and any(said in problem for said in UNNAMED):
            problem = _with_place(problem, number, chosen, answer)
    if problem is None:
        print(f"{number} is right.")
        return True
    ending = "" if problem.endswith((".", "?", "!")) else "."
    print(f"{number}, not yet: {problem}{ending}")
    if chosen.hints:
        print(f'hint("{number}") shows the first of {len(chosen.hints)} hints.')
    return False


def begin_file(
    file: str = "mine.py",  # where it is written
) -> None:
    "Write a file of your own to begin with, in lesson 02. One that is there stays as it is."
    from ..grading import your_file

    your_file.begin_file(file)


def keep(
    answer: Callable,  # a function or class that you wrote, in a cell or in a file
    file: str | None = None,  # where it goes; FORMER_NB_MINE or 'mine.py' if left out
) -> bool:  # whether it is in the file now
    """Write an answer at the end of your file, and say what `check` says about it there.

    What the file defines already stays as it is; only a definition of three dots is filled in.
    """
    from ..grading import keeping

    return keeping.keep(answer, file)


def hint(
    number: str,  # such as '03.2'
    step: int = 1,  # 1 is the gentlest
) -> None:
    "Print one hint of an exercise and say how many there are."
    if has_right_answer(number):
        return grading_check.hint(number, step)
    hints = find_exercise(number).hints
    if not 1 <= step <= len(hints):
        raise ValueError(f"step: expected a hint of {number}, 1 to {len(hints)}, got {step}")
    print(f"Hint {step} of {len(hints)}: {hints[step - 1]}")
    if step < len(hints):
        print(f'hint("{number}", {step + 1}) shows the next.')
