"""What is judged: an answer in this process, or one of a file that runs in another.

The grader asks an answer for what is seen of a call, and never holds what the reader made. So it
doesn't matter to it where that runs.
"""

import ast
import contextlib
import inspect
import io
import time
import types
from typing import Any, NamedTuple

from . import trace
from .ask import step
from .content import edited
from .data import Raised, plain
from .errors import clean_message
from .known import calls
from .limits import TimeUpError, limited
from .observe import Seen, UnfitError, calm, observe
from .words import line_of, raised

METHODS = ("__init__", "forward", "__call__")  # of a class, that a reader may have written


EMPTY = inspect.Parameter.empty


class Parameter(NamedTuple):
    name: str
    default: Any  # as data; `EMPTY` where there is none
    by_place: bool  # whether it may be given without its name


class Shape(NamedTuple):
    "What an answer is, without running it."

    kind: str  # 'class', 'function' or the name of another type
    methods: dict  # '' or the name of a method -> its parameters


def functions_of(made):
    "(method, function) of what a reader may call: itself, or of a class how it is made and run."
    for method in METHODS if isinstance(made, type) else ("",):
        function = inspect.unwrap(getattr(made, method, None) if method else made)
        if isinstance(function, types.FunctionType):
            yield method, function


def shape_of(made):
    "The `Shape` of a function or class."
    kind = "class" if isinstance(made, type) else "function"
    if not callable(made):
        return Shape(type(made).__name__, {})
    methods = {}
    for method, function in functions_of(made):
        some = inspect.signature(function).parameters.values()
        methods[method] = [as_parameter(p) for p in some]
    return Shape(kind, methods)


def as_parameter(p):
    default = EMPTY if p.default is EMPTY else plain(p.default)
    return Parameter(p.name, default, p.kind is not p.KEYWORD_ONLY)


def set_defaults(made, space, wanted):
    "Give functions other defaults, method -> {name: value}; what is inherited stays."
    for method, function in functions_of(made):
        if function.__globals__ is not space or not wanted.get(method):
            continue
        own = inspect.signature(function).parameters.values()
        given = [p for p in own if p.default is not p.empty and p.kind is not p.KEYWORD_ONLY]
        new = wanted[method]
        function.__defaults__ = tuple(new.get(p.name, p.default) for p in given)


class Answer:
    "An answer that runs in this process."

    def __init__(
        self,
        made,  # the object
        node: ast.AST | None,  # its definition, where Python has it
        lines: list,  # of the whole file or cell
        path: str,  # what tracebacks call the file
        space: dict,  # the names that it sees
        names: dict,  # the course's names -> the reader's
    ):
        self.made, self.node, self.lines, self.path = made, node, lines, path
        self.space, self.names = space, names

    def spent(self):
        "Seconds of the processor that the answer and its grader have taken."
        return time.process_time()

    def shape(self):
        return shape_of(self.made)

    def set_defaults(self, wanted):
        set_defaults(self.made, self.space, wanted)

    def seen(self, name, i, seconds, deep=True, without_dropout=False):
        "What is seen of call i of a step. What was raised comes as `Raised`."
        seen = self.observed(self.made, name, i, seconds, deep, without_dropout)
        slopes = seen.slopes
        if "" in slopes:
            slopes = {"": self.as_data(slopes[""])}
        error = seen.error if seen.error is None else self.as_data(seen.error)
        return seen._replace(error=error, slopes=slopes)

    def seen_edited(self, tree, name, i, seconds, deep=True):
        "What is seen of an edited answer."
        return self.observed(self.remade(tree), name, i, seconds, deep)

    def observed(self, made, name, i, seconds, deep, without_dropout=False):
        right = edited(step(name).definition)
        quiet = contextlib.redirect_stdout(io.StringIO())
        calmed = calm() if without_dropout else contextlib.nullcontext()
        try:
            with limited(seconds), quiet, calmed:
                return observe(calls(name)[i], made, right, self.names, deep)
        except (TimeUpError, SystemExit) as error:
            return Seen({}, {}, error)

    def as_data(self, error):
        "What was raised, as data; what the grader itself raises as it is."
        if isinstance(error, TimeUpError):
            error.line = line_of(error, self)
        if isinstance(error, (TimeUpError, UnfitError)):
            return error
        kind = type(error).__name__
        message = clean_message(error, 1000)
        return Raised(kind, message, raised(error, self), line_of(error, self))

    def remade(self, tree, **more):
        "The answer with another tree."
        space = self.space | more
        module = ast.fix_missing_locations(ast.Module([tree], []))
        exec(compile(module, self.path, "exec"), space)
        return space[tree.targets[0].id if isinstance(tree, ast.Assign) else tree.name]

    def notes(self, name, i, seconds):
        "What its expressions give in call i: (number of the expression, value); None if it fails."
        notes = trace.Notes(self.node)
        try:
            made = self.remade(notes.tree, **{trace.NOTE: notes.note})
        except Exception:  # noqa: BLE001
            return None
        seen = self.observed(made, name, i, seconds, False)
        return None if isinstance(seen.error, TimeUpError) else notes.seen
