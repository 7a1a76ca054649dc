"""`former-nb check`: one file, a file that is watched, or those of a class."""

import csv
import io
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..base.checkpoints import write_file
from ..base.files import read_json
from ..base.guards import check_choice
from .ask import STEPS
from .errors import clean_message
from .files import NOT_WRITTEN, of_course
from .reading import read_file
from .your_file import NAMES, Verdict, is_right_so_far, judge_read, show_file

__all__ = ["check_one", "check_class", "watch_file", "read_names"]


def _lesson(step):
    "A lesson as two digits, or None."
    if step is None:
        return None
    lesson = str(step).zfill(2)
    check_choice("step", lesson, sorted({STEPS[name].lesson for name in NAMES}))
    return lesson


def check_one(
    file: Path,
    step: str | None,  # a lesson, such as '06', to be shown alone
    say: Callable,  # with a line of text
    walls: Sequence[str] = (),  # as `sandbox` gives them
    names: dict[str, str] | None = None,  # the course's -> the file's
) -> bool:  # whether all is right that is written
    "Judge a file and say what was found."
    return show_file(file, _lesson(step), say, unread=str(file), walls=walls, names=names)


def read_names(
    file: Path | None,
) -> dict[str, str]:  # the course's names -> a file's
    'A table of names in JSON, such as {"attention": "scaled_dot_product_attention"}.'
    if file is None:
        return {}
    table = read_json("names", file)
    if of_course(table) != table:
        raise ValueError(f"names: {file}: expected the course's names and yours, got {table!r:.80}")
    return table


def watch_file(
    file: Path,
    step: str | None,  # as for `check_one`
    say: Callable,  # as for `check_one`
    pause: float = 0.5,  # seconds between two looks at the file
) -> None:
    "Judge a file each time it was saved, until Ctrl-C."
    seen = None
    while True:
        try:
            now = file.stat().st_mtime_ns
        except OSError:
            now = None
        if now != seen:
            seen = now
            check_one(file, step, say)
            say("Save the file to check it again; Ctrl-C ends.")
        time.sleep(pause)


def _read(file, names):
    "What is in a file, or the sentence that says why it can't be judged."
    try:
        return read_file(file, names)
    except Exception as error:  # noqa: BLE001, one bad file costs itself
        return clean_message(error)


def _judge(read, walls):
    "The verdicts about a file, or the sentence that says why there are none."
    try:
        return read if isinstance(read, str) else judge_read(read, walls)
    except Exception as error:  # noqa: BLE001
        return clean_message(error) or type(error).__name__


def _row(file, found):
    "A file's line of the table."
    if isinstance(found, str):
        return [file, 0, *["not judged"] * len(NAMES), found]
    words = []
    for verdict in found:
        words.append("right" if verdict.problem is None else _word(verdict))
    open_ = [verdict for verdict in found if verdict.problem is not None]
    wrong = [verdict for verdict in open_ if verdict.wrong]
    first = (wrong or open_ or [Verdict("", "", "")])[0]
    remark = f"{first.name}: {first.problem}" if first.name else ""
    return [file, words.count("right"), *words, remark]


def _word(verdict):
    if not verdict.written:
        return NOT_WRITTEN
    return "waits" if verdict.waits else "wrong"


def check_class(
    files: list[Path],
    table: Path | None,  # a CSV file that is written
    say: Callable,  # as for `check_one`
    walls: Sequence[str] = (),  # as for `check_one`
    names: dict[str, str] | None = None,  # as for `check_one`
) -> bool:  # whether in each file all is right that is written
    """Judge several files, some at a time, and say a line about each. A bad file costs itself.

    All are read before one of them runs. The table is written anew when a file's line is known.
    """
    rows: list[list] = []
    fine = True
    workers = max(1, min(len(files), os.cpu_count() or 1))
    called = [clean_message(file) for file in files]  # nothing that moves the cursor
    width = max(map(len, called))
    read = [_read(file, names) for file in files]
    with ThreadPoolExecutor(workers) as pool:
        for name, found in zip(called, pool.map(lambda one: _judge(one, walls), read)):
            row = _row(name, found)
            rows.append(row)
            fine = fine and not isinstance(found, str) and is_right_so_far(found)
            say(f"{name:{width}}  {row[1]:2} of {len(NAMES)} right  {row[-1]}".rstrip())
            if table is not None:
                write_table(table, rows)
    if table is not None:
        say(f"{table} has a line for each file and a column for each definition.")
    return fine


def write_table(table, rows):
    text = io.StringIO(newline="")
    csv.writer(text).writerows([["file", "right", *NAMES, "first to mend"], *rows])
    write_file("csv", table, text.getvalue())
