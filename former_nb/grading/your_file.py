"""A reader's file, from attention to BLEU.

`check("mine.py")` says for each definition whether it is right, what is wrong and in which line,
or that it isn't written yet.

What each definition is asked, and the mistakes that are told by name, stand in `exercises`, a
module for each lesson. Parts that a step is given, such as the attention
of a block, are those of the right file, and what a definition uses is replaced by the right one
where the reader's isn't right. So one wrong definition is told once.
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import NamedTuple

from ..base.files import check_path
from .ask import STEPS
from .errors import MistakeError
from .files import NOT_WRITTEN, STEP_NAMES, File, Judging, said_of
from .limits import one_thread
from .lookalikes import lookalikes
from .observe import EndedError
from .passed import note_passed
from .process import Running
from .reading import ReadFile, own_path, read_file

__all__ = [
    "EXAMPLE",
    "NAMES",
    "Verdict",
    "begin_file",
    "judge_file",
    "judge_read",
    "verdicts_of",
    "say_verdicts",
    "is_right_so_far",
    "show_file",
]

EXAMPLE = "mine.py"  # how the pages call the file


NAMES = STEP_NAMES


START = '''"""The Transformer, as I derived it."""

import json
import math
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


# 02 · attention


def attention_weights(q, k, mask=None, is_causal=False):  # (..., T, d_k), (..., S, d_k)
    ...  # mask and is_causal do nothing until lesson 04


def attention(q, k, v, mask=None, is_causal=False):
    ...
'''


def begin_file(
    file: str | os.PathLike = EXAMPLE,  # where it is written
) -> None:
    "Write a file to begin with, its first two definitions open. One that is there stays."
    from ..base.checkpoints import write_file  # not in the page of the site, which begins its own

    path = check_path("file", file)
    if path.exists():
        print(f"{path} is there already and was left as it is.")
    else:
        write_file("file", path, START)
        print(f"{path} is there, with two definitions for you to write.")


class Verdict(NamedTuple):
    "What was found about one definition."

    lesson: str  # that derives it, such as '06'
    name: str
    problem: str | None  # None if it is right, else a sentence

    @property
    def written(self) -> bool:
        return self.problem != NOT_WRITTEN

    @property
    def waits(self) -> bool:
        "Whether it wasn't judged: one that it calls is not right, or a page lacks what it needs."
        return bool(self.problem) and self.problem.startswith(("waits for", "not run"))

    @property
    def wrong(self) -> bool:
        "Whether it was judged and has to be mended."
        return self.problem is not None and self.written and not self.waits


def judge_file(
    file: str | os.PathLike,  # a reader's file
    walls: Sequence[str] = (),  # as `sandbox` gives them
) -> list[Verdict]:  # one for each step, in the order of the file
    """Judge a file that runs in a process of its own.

    Raises `MistakeError` with a sentence if there is no such file or if it can't be imported.
    """
    return judge_read(read_file(file), walls)


def judge_read(
    read: ReadFile,
    walls: Sequence[str] = (),  # as `sandbox` gives them
) -> list[Verdict]:  # one for each step, in the order of the file
    "Judge what was in a file, as `judge_file`."
    file = File(read.source, str(read.path), read.names)
    with Running(read, walls) as running, one_thread():
        return verdicts_of(file, partial(_judge_step, running, file))


def _judge_step(running, file, name, stand_ins):
    "None if a step is right, else a sentence, the best that was found before anything ended."
    best = None
    try:
        answer, problem = running.answer(file, STEPS[name].definition, stand_ins)
        if problem:
            return problem
        for best in said_of(file, name, stand_ins, answer):  # noqa: B007, the last one says most
            continue
    except (EndedError, ValueError) as error:
        return best or str(error)
    return best


def verdicts_of(
    file: File,
    ask: Callable,  # (step, definitions to replace by the right ones) -> None or a sentence
) -> list[Verdict]:  # one for each step, in the order of the file
    "Judge a file by asking about one step after the other."
    found = Judging(file, ask).all()
    return [Verdict(STEPS[name].lesson, name, problem) for name, problem in found.items()]


def is_right_so_far(
    verdicts: list[Verdict],
) -> bool:
    "Whether something is written, and all that is written is right."
    right = any(verdict.problem is None for verdict in verdicts)
    return right and not any(verdict.wrong for verdict in verdicts)


def _kind(verdict):
    if verdict.problem is None:
        return "right"
    return NOT_WRITTEN if not verdict.written else verdict.name


def say_verdicts(
    verdicts: list[Verdict],
    lesson: str | None = None,  # only of this one
) -> list[str]:  # lines to print
    "A line for each lesson and kind of verdict, and what is next."
    shown = [verdict for verdict in verdicts if lesson in (None, verdict.lesson)]
    lines = []
    before = ""
    for (number, kind), group in groupby(shown, key=lambda v: (v.lesson, _kind(v))):
        some = list(group)
        names = ", ".join(verdict.name for verdict in some)
        head = number if number != before else "  "
        before = number
        if kind in ("right", NOT_WRITTEN):
            lines.append(f"{head}  {kind}: {names}")
        else:
            lines.append(f"{head}  {names}: {some[0].problem}")
    lines = _without_open_lessons(lines, shown)
    right = sum(verdict.problem is None for verdict in shown)
    wrong = [verdict for verdict in shown if verdict.wrong]
    open_ = [v for v in shown if not v.written]
    lines.append("")
    if wrong:
        lines.append(f"{right} of {len(shown)} steps are right. Next: mend {wrong[0].name}.")
    elif open_:
        nxt = f"{open_[0].name}, of lesson {open_[0].lesson}"
        lines.append(f"{right} of {len(shown)} steps are right. Next: write {nxt}.")
    elif right < len(shown):  # some weren't run
        lines.append(f"{right} of {len(shown)} steps are right.")
    else:
        whole = f"All {len(shown)} steps are right. The file is yours."
        lines.append(f"All steps of lesson {lesson} are right." if lesson else whole)
    return lines


def _without_open_lessons(lines, shown):
    "The last lessons of which nothing is written, in one line."
    written = [v.lesson for v in shown if v.written]
    last = max(written, default="")
    behind = sorted({v.lesson for v in shown if v.lesson > last})
    if len(behind) < 2:
        return lines
    first = next(i for i, line in enumerate(lines) if line.startswith(behind[0]))
    return [*lines[:first], f"{behind[0]} to {behind[-1]}  {NOT_WRITTEN}"]


def say_lookalikes(
    read: ReadFile,
    verdicts: list[Verdict],
) -> list[str]:  # lines to print
    "Of a file whose definitions have other names: which look like which of the course's."
    found = lookalikes(File(read.source, str(read.path), read.names))
    known = {STEPS[v.name].definition for v in verdicts if v.written}
    if len(found) <= len(known):  # a file of this course, and helpers
        return []
    lines = ["", "Under names of their own, some look like definitions of the course:"]
    lines += [f"    {name} like {key}" for key, name in found.items()]
    table = ", ".join(f'"{key}": "{name}"' for key, name in found.items())
    return [*lines, "If they are, write this into the file, or give it by --names:"] + [
        f"    NAMES = {{{table}}}"
    ]


def show_file(
    file: str | os.PathLike,  # a reader's file
    lesson: str | None = None,  # only of this one
    say: Callable = partial(print, flush=True),  # with a line of text
    unread: str = "Not yet",  # begins the sentence about a file that can't be judged
    walls: Sequence[str] = (),  # as `sandbox` gives them
    names: dict[str, str] | None = None,  # the course's -> the file's
) -> bool:  # whether all that is written is right
    "Judge a file, say what was found, and note what is right for `former_nb.yours`."
    try:
        say(f"Checking {own_path(file).name} …")
        read = read_file(file, names)
        verdicts = judge_read(read, walls)
    except MistakeError as error:
        say(f"{unread}: {error}.")
        return False
    for line in [*say_verdicts(verdicts, lesson), *say_lookalikes(read, verdicts)]:
        say(line)
    try:
        note_passed(read.source, [v.name for v in verdicts if v.problem is None])
    except OSError as error:
        say(f"Later pages won't know what is right, since it can't be noted: {error}.")
    return is_right_so_far([v for v in verdicts if lesson in (None, v.lesson)])
