"""An answer to an exercise whose mistake its judge cannot name: where one small edit mends it.

The edits are made in the reader's own source, as for a file of theirs, and the judge of the
exercise is asked about each. An edited answer may do anything: it gets a number of steps of Python,
its lists and tensors a number of elements, and on Linux all of it happens in a copy of this
process, which is ended when the time is over.
"""

import ast
import contextlib
import copy
import functools
import io
import json
import os
import sys
import time
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import torch

from ..base.exercises import COMPARED, as_number
from ..base.source import functions_of, parse, written_at
from .search import Place, RunawayError, place_in, traced
from .values import NOTE, PART, Notes, first_leaving

__all__ = ["find_mistake", "right_answer"]

EDITS = 1500  # that are tried; a number, so that a verdict is the same twice
SECONDS = 3.0  # of the processor, after which the search ends
ENOUGH = 1.0  # of them where it is known already in which line values leave the right ones
PATIENCE = 3  # times as long it may take by the clock, on a machine that is busy
STEPS = 150_000  # of Python that an edited answer may take, all its calls by the judge together
LARGEST = 1_000_000  # elements of what an edited answer may keep
MEMORY = 8 * 2**30  # bytes of data that the copy of the process may have
SEEDS = (0, 1000, 2000)  # added to those of the judge; an edit must be right for all of them
EDITED = "<edited answer>"  # what Python calls the edited source


# ---------------------------------------------------------------- the edited source


def _defined(tree, function):
    "The function or class that an edited tree defines, among the names that the answer saw."
    space = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):  # still empty
            space[name] = cell.cell_contents
    module = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(module, EDITED, "exec"), space)
    name = tree.targets[0].id if isinstance(tree, ast.Assign) else tree.name
    return space[name]


# ---------------------------------------------------------------- bounds


@contextlib.contextmanager
def _bounded(of_reader):
    "Raise `RunawayError` in what a reader's module runs, edited or not, when it takes too long."
    left = [STEPS]

    def count(frame, event, _):
        if event == "opcode":
            left[0] -= 1
        if event == "line":
            for value in frame.f_locals.values():
                if _elements(value) > LARGEST:
                    left[0] = 0
        if left[0] <= 0:
            raise RunawayError
        return count

    def begin(frame, event, _):
        if frame.f_code.co_filename == EDITED or frame.f_globals.get("__name__") == of_reader:
            frame.f_trace_opcodes = True
            return count(frame, event, _) or count
        return None

    with traced(begin):
        yield


def _elements(value):
    if isinstance(value, torch.Tensor):
        return value.numel()
    if isinstance(value, int):
        return value.bit_length()
    return len(value) if isinstance(value, (str, list, tuple, dict, set, range)) else 0


def _short_range(*ends):
    "A range that ends soon, since C may go through it, where nobody counts."
    made = range(*ends)
    if len(made) > LARGEST:
        raise RunawayError
    return made


# ---------------------------------------------------------------- the search


def same(given, right):
    "Whether a result agrees with the right one, as `diagnose` sees it."
    given = torch.as_tensor(as_number(given)).detach()
    near = dict(rtol=1e-4, atol=1e-5, equal_nan=True)
    return given.shape == right.shape and torch.allclose(given.double(), right.double(), **near)


@contextlib.contextmanager
def _other_seeds(more):
    "Whoever seeds PyTorch gets other numbers, so that no edit is right by luck."
    seed, generator = torch.manual_seed, torch.Generator

    class Generator(generator):
        def manual_seed(self, number):
            return super().manual_seed(number + more)

    torch.manual_seed = lambda number: seed(number + more)
    torch.Generator = Generator
    try:
        yield
    finally:
        torch.manual_seed, torch.Generator = seed, generator


class Call(NamedTuple):
    "One call of an answer by its judge."

    inputs: tuple  # copies, as they were before
    own: tuple  # the same, as the answer got them
    options: dict
    result: Any


def _calls(judge, answer):
    "The calls by which a judge finds out that an answer is wrong. An answer that raises ends them."
    calls = []

    @functools.wraps(answer)
    def noted(*inputs, **options):
        call = Call(copy.deepcopy(inputs), inputs, options, None)
        calls.append(call)
        result = answer(*inputs, **options)
        calls[-1] = call._replace(result=result)
        return result

    COMPARED.clear()
    with contextlib.suppress(Exception, SystemExit):
        judge(noted)
    return calls


def _first_comparison(calls):
    """What an edited answer must give the judge first of all, as a function of it.

    A judge computes what each mistake would give, and that takes most of its time.
    """
    for given, right in COMPARED[:1]:
        for call in calls:
            parts = call.result if isinstance(call.result, tuple) else (call.result,)
            for place, part in enumerate(parts):
                if part is given:
                    return functools.partial(_agrees, call, place, right)
    return callable  # as each of them is


def _agrees(call, place, right, answer):
    "Whether an answer gives, for these inputs, what is right; of several results one is compared."
    result = answer(*copy.deepcopy(call.inputs), **call.options)
    return same(result[place] if isinstance(call.result, tuple) else result, right)


@functools.lru_cache(1)
def _right_answers():
    "The right answers of the lessons as trees, by the name of their functions."
    source = Path(__file__).with_name("right_answers.py").read_text(encoding="utf-8")
    return {n.name: n for n in parse(source).body if isinstance(n, ast.FunctionDef)}


def right_answer(
    number: str,  # of an exercise, such as '03.1'
) -> ast.FunctionDef | None:  # None where the right answer is no function
    "The right answer to an exercise of the lessons."
    return _right_answers().get("answer_" + number.replace(".", "_"))


def _leaving(calls, source, right):
    "Where the values of an answer leave those of the right one, for the first input that shows it."
    from . import right_answers

    def noting(definition, function, notes):
        noted = Notes(definition, notes)
        defined = _defined(noted.tree, function)
        defined.__globals__[NOTE] = noted.note
        return defined

    ours, theirs = [], []
    right_one = noting(right, getattr(right_answers, right.name), ours)
    steps = noting(_right_answers()["attention_in_steps"], right_answers.attention_in_steps, ours)
    right_one.__globals__["attention"] = steps
    answer = noting(source.node, source.function, theirs)
    kept = {}  # dictionaries in which an answer keeps something from call to call
    for call in calls:
        inputs = copy.deepcopy(call.inputs)
        for i, own in enumerate(call.own):
            if type(own) is dict:
                inputs = (*inputs[:i], kept.setdefault(id(own), inputs[i]), *inputs[i + 1 :])
        runs = ((right_one, ours, inputs), (answer, theirs, copy.deepcopy(call.inputs)))
        for function, notes, arguments in runs:
            notes.clear()
            torch.manual_seed(0)
            with contextlib.suppress(Exception, RunawayError, SystemExit):
                with _bounded(source.function.__globals__.get("__name__")):
                    function(*arguments, **call.options)
        if found := first_leaving(source.node, theirs, ours):
            return found
    return None


def _search(judge, answer, source, right, seeds, most, seconds, alike):
    "Places that can be told of an answer. The last one says most."
    tree, lines, function = source
    of_reader = function.__globals__.get("__name__")
    calls = _calls(judge, answer) if isinstance(answer, FunctionType) else []
    may_be_right = _first_comparison(calls)

    def is_right(edited):
        COMPARED.clear()
        try:
            answer = _defined(edited, function)
            for part in functions_of(answer)[:1]:
                part.__globals__["range"] = _short_range
            with _bounded(of_reader):
                if not may_be_right(answer):
                    return False
            for more in seeds:
                with _other_seeds(more), _bounded(of_reader):
                    if judge(answer) is not None:
                        return False
            return True
        except (Exception, RunawayError, SystemExit):  # noqa: BLE001, most edits make no sense
            return False

    leaving = None
    first = None  # the line whose edits come first
    if alike is not None and isinstance(tree, ast.FunctionDef):
        with contextlib.suppress(Exception, RunawayError, SystemExit):
            leaving = _leaving(calls, source, alike)
    if leaving:
        yield leaving.place(lines)
        if leaving.how == PART:  # an edit would be right by chance
            return
        if not leaving.unsure:
            seconds = min(seconds, ENOUGH)
            first = leaving.line
    place = place_in(tree, lines, right, is_right, most, seconds, first)
    if place:
        yield place


def find_mistake(
    judge: Any,  # of the exercise: answer -> None if it is right
    answer: Any,  # a wrong one
    right: Any = None,  # the right one, where the exercise has it
    seeds: tuple[int, ...] = SEEDS,  # added to those of the judge
    most: int = EDITS,
    seconds: float | None = None,  # of the processor; `SECONDS` if left out
    alike: ast.AST | None = None,  # a right answer, for what no small edit mends
) -> Place | None:  # None without a source, or if no small edit was found in time
    "Name the line of an answer, and the piece of it, where one small edit makes it right."
    source = written_at(answer)
    if source is None or source.first < source.node.lineno:  # a decorator may do anything
        return None
    seconds = seconds or SECONDS
    known = written_at(right)
    options = (judge, answer, source, known and known.node, seeds, most, seconds, alike)
    if hasattr(os, "fork") and sys.platform == "linux":
        return _in_a_copy(seconds, *options)
    with torch.random.fork_rng(devices=[]):
        places = list(_quietly(*options))
    return places[-1] if places else None


def _quietly(*options):
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield from _search(*options)


def _in_a_copy(seconds, *options):
    "Search in a copy of this process, and end it when the time is over."
    import select  # which a browser is without
    import signal

    come, go = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of threads, which the copy is without
        child = os.fork()
    if not child:
        try:
            os.close(come)
            _limit_memory()
            torch.set_num_threads(1)
            for place in _quietly(*options):
                os.write(go, json.dumps(place).encode() + b"\n")
        finally:
            os._exit(0)
    os.close(go)
    try:
        end = time.monotonic() + PATIENCE * seconds
        places = []
        while select.select([come], [], [], max(end - time.monotonic(), 0))[0]:
            said = os.read(come, 65536)
            if not said:
                break
            places += [Place(*json.loads(line)) for line in said.splitlines()]
        return places[-1] if places else None
    finally:
        os.close(come)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _limit_memory():
    import resource  # not on Windows

    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
