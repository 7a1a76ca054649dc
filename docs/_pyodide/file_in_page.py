"""What judges a reader's file in the page: the same steps as `check("mine.py")`, in this process.

Its time is measured by the page, which ends the worker if a step doesn't end.
"""

import ast
import json
import linecache
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from pathlib import Path

from in_page import Kept, Limited
from torch._tensor import ABSENT

ELSEWHERE = {  # steps that need more than the page has
    "load_llama": "not run in the page, which has no safetensors; `former-nb check mine.py` does",
}
judged = {}  # step -> the lines that it was right with


def judge_file_in_page(source, lesson, tell):
    """What is said of a file, as JSON: lines, what the steps found, how many are right.

    `tell` is called before each step with its number, the number of all and its name.
    """
    from former_nb.grading import your_file
    from former_nb.grading.ask import STEPS
    from former_nb.grading.errors import MistakeError

    kept = Kept()
    output = Limited()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            file, space = loaded(source)
            if changed := kept.changed():
                said = f"your file replaces {changed}, which the tests need as it is"
                raise MistakeError(f"{file.path} cannot be imported: {said}")
            run = partial(run_step, file, space, source, tell)
            verdicts = your_file.verdicts_of(file, run)
        except MistakeError as error:
            return json.dumps({"problem": f"Not yet: {error}."})
        finally:
            kept.restore()
    right = sum(verdict.problem is None for verdict in verdicts)
    lines = your_file.say_verdicts(verdicts)
    judged_now = [v for v in verdicts if v.written and not v.waits]
    ready = [v for v in verdicts if v.lesson <= lesson]
    return json.dumps(
        {
            "lines": lines,
            "found": [{"name": STEPS[v.name].definition, "problem": v.problem} for v in judged_now],
            "right": right,
            "all": len(verdicts),
            "good": your_file.is_right_so_far(verdicts) and all(not v.wrong for v in ready),
        }
    )


def loaded(source):
    """The file, and its names after it was run. `MistakeError` if it can't be imported."""
    from former_nb.grading import reading, your_file
    from former_nb.grading.errors import MistakeError
    from former_nb.grading.files import File

    path = your_file.EXAMPLE
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, path).write_text(source, encoding="utf-8")
        reading.read_file(Path(folder, path))
    linecache.cache[path] = (len(source), None, source.splitlines(True), path)
    file = File(source, path)
    try:
        return file, file.space_with(())
    except BaseException as error:  # a reader's code may raise anything
        said = reading.blame_line(error, Path(path), source)
        raise MistakeError(f"{path} cannot be imported: {said}") from None


def run_step(file, space, source, tell, name, stand_ins):
    """What is wrong with one step. What was right stays so until a line that it reaches changes."""
    from former_nb.grading.ask import STEPS
    from former_nb.grading.files import STEP_NAMES, judge_here

    if name in ELSEWHERE:
        return ELSEWHERE[name]
    reached = source_of(STEPS[name].definition, parts_of(source)), tuple(stand_ins)
    if judged.get(name) == reached:
        return None
    tell(STEP_NAMES.index(name) + 1, len(STEP_NAMES), name)
    problem = judge_here(file, name, stand_ins, space)
    if problem is None:
        judged[name] = reached
    elif ABSENT in problem:
        what = problem.partition(f"; {ABSENT}")[0].rpartition(": ")[2].removesuffix(" here")
        return f"not run in the page: {what}; `former-nb check mine.py` does"
    return problem


@cache
def parts_of(source):
    """The statements at the top of a file, by the name that each defines; '' for all others.

    Each is its own lines and the names that they read.
    """
    parts = {"": ("", set())}
    for node in ast.parse(source).body:
        name = getattr(node, "name", "")
        lines = ast.get_source_segment(source, node) or ""
        lines += "".join(map(ast.unparse, getattr(node, "decorator_list", [])))
        read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        before = parts.get(name, ("", set()))
        parts[name] = (before[0] + lines, before[1] | read)
    return parts


def source_of(name, parts):
    """The lines of a definition and of all that it reaches."""
    reached, todo = {""}, [name, *parts[""][1]]
    while todo:
        part = todo.pop()
        if part in parts and part not in reached:
            reached.add(part)
            todo += parts[part][1]
    return "\n".join(parts[part][0] for part in sorted(reached))
