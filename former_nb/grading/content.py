"""The right file, with the mistakes that people make, from the annotated modules of `exercises`.

    scores = q @ k.mT / math.sqrt(q.shape[-1])
    #? a hint, whose last line ends in a full stop or a question mark.
    #! what to say of a mistake, and why
    #~ scores = q @ k.mT

`#~` stands in place of the line above the entry (`#~3` of three lines, `#~0` of none), and `#|`
goes on with it. An empty `#~` deletes the line. `#~ old -> new` edits the whole definition. One
entry may hold several. The formatter writes `# ~`, which is read as well.

A module of `exercises` holds a page: what the page adds to the file, its exercises, and what both
are asked. The first part is left out where a page adds nothing.
"""

import ast
import functools
import inspect
import linecache
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from .ask import EXERCISES, Exercise

FOLDER = Path(__file__).parents[1] / "exercises"
SECTION = re.compile(r"^# -+ (exercises|questions)$", re.M)  # above the first, it is the file's
MARK = re.compile(r"\s*# ?([?!|~])(\d*) ?(.*)")
HEADER = '''\
"""The Transformer as the course derives it."""

import json
import math
from collections import Counter
from itertools import pairwise
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
'''


class Mistake(NamedTuple):
    "Changes of a right definition, and what is said of them."

    sentence: str
    places: tuple  # (first line, lines replaced, new lines)
    swaps: tuple  # (old, new), all over the definition


class Definition(NamedTuple):
    "A function or class of the right file."

    name: str
    lesson: str  # whose module it is in
    lines: tuple  # of its source
    hints: tuple
    mistakes: tuple

    def source(self, *mistakes):
        "The right source, or what mistakes make of it. `ValueError` if one does not fit."
        lines = list(self.lines)
        places = sorted((p for m in mistakes for p in m.places), reverse=True)
        for (at, n, _), (after, _, _) in zip(places[1:], places):
            if at + n > after:
                raise ValueError(f"{self.name}: two mistakes in one line")
        for at, n, new in places:
            lines[at : at + n] = new
        text = "\n".join(lines) + "\n"
        for old, new in (swap for m in mistakes for swap in m.swaps):
            if old not in text:
                raise ValueError(f"{self.name}: {old!r} is not there")
            text = text.replace(old, new)
        return text


# ---------------------------------------------------------------- reading annotations


class _Reader:
    "Reads the lines of a definition, one after the other."

    def __init__(self):
        self.plain, self.hints, self.found = [], [], []
        self.before = ""  # the kind of the line before
        self.indent = ""  # of the line that an entry replaces

    def read(self, line):
        mark = MARK.fullmatch(line)
        if mark is None:
            self.plain.append(line)
            self.before = ""
            return
        kind, n, rest = mark.groups()
        {"?": self.hint, "!": self.sentence, "|": self.more, "~": self.change}[kind](n, rest)
        self.before = kind

    def hint(self, n, rest):
        goes_on = self.before == "?" and not self.hints[-1].endswith((".", "?"))
        if goes_on:
            self.hints[-1] += " " + rest
        else:
            self.hints.append(rest)

    def sentence(self, n, rest):
        if self.before == "!":
            self.found[-1][0] += " " + rest
        else:
            self.found.append([rest, [], []])

    def change(self, n, rest):
        if " -> " in rest and not n:
            self.found[-1][2].append(tuple(rest.split(" -> ")))
            return
        n = int(n or 1)
        above = self.plain[len(self.plain) - max(n, 1)]
        self.indent = above[: len(above) - len(above.lstrip())]
        new = [self.indent + rest] if rest else []
        self.found[-1][1].append((len(self.plain) - n, n, new))

    def more(self, n, rest):
        self.found[-1][1][-1][2].append(self.indent + rest)

    def mistakes(self):
        for sentence, places, swaps in self.found:
            yield Mistake(
                sentence, tuple((at, n, tuple(new)) for at, n, new in places), tuple(swaps)
            )


def read_definition(name, lesson, text):
    "A definition from its annotated lines."
    reader = _Reader()
    for line in text.split("\n"):
        reader.read(line)
    return Definition(
        name, lesson, tuple(reader.plain), tuple(reader.hints), tuple(reader.mistakes())
    )


# ---------------------------------------------------------------- the modules


def lessons():
    "The lessons that have a module, in order."
    return [path.stem.removeprefix("lesson_") for path in sorted(FOLDER.glob("lesson_*.py"))]


def _sections(module):
    "The parts of a module: the file's, which has no name, 'exercises' and 'questions'."
    text = (FOLDER / f"{module}.py").read_text(encoding="utf-8")
    first, *others = SECTION.split(text)
    return {"": first} | dict(zip(others[::2], others[1::2]))


def _statements(text):
    "(node, its annotated text) of a part of a module, imports and docstring left out."
    lines = text.split("\n")
    nodes = ast.parse(text).body
    starts = [
        min([n.lineno, *(d.lineno for d in getattr(n, "decorator_list", []))]) - 1 for n in nodes
    ]
    for node, start, end in zip(nodes, starts, [*starts[1:], len(lines)]):
        imports = isinstance(node, (ast.Import, ast.ImportFrom))
        words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not imports and not words:
            yield node, "\n".join(lines[start:end]).rstrip()


@functools.cache
def definitions():
    "All definitions of the right file by name, in its order."
    found = {}
    for lesson in lessons():
        for node, text in _statements(_sections(f"lesson_{lesson}")[""]):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found[node.name] = read_definition(node.name, lesson, text)
    return found


@functools.cache
def answers(module):
    "The right answers to the exercises of a module, by the name of the function."
    found = {}
    for node, text in _statements(_sections(module).get("exercises", "")):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
        if decorators and decorators[0].startswith("exercise("):
            plain = text.split("\n")[node.lineno - node.decorator_list[0].lineno :]
            found[node.name] = read_definition(node.name, module, "\n".join(plain))
    return found


def module_of(number):
    "The name of the module of an exercise. `ValueError` if there is none."
    page = str(number).partition(".")[0]
    module = f"lesson_{page}" if page.isdigit() else page
    if not (FOLDER / f"{module}.py").is_file():
        raise ValueError(f"number: expected an exercise such as '03.2', got {number!r}")
    return module


def find_exercise(number) -> Exercise:
    "An exercise by its number. `ValueError` if there is none."
    import_module(f"{__package__.rpartition('.')[0]}.exercises.{module_of(number)}")
    if number not in EXERCISES:
        raise ValueError(f"number: expected an exercise such as '03.2', got {number!r}")
    return EXERCISES[number]


def definition(key) -> Definition:
    "What is known of a definition of the file, or of the right answer to an exercise."
    if key in EXERCISES:
        name = EXERCISES[key].made.__name__
        return answers(module_of(key)).get(name) or definitions()[name]
    return definitions()[key]


def space_of(key):
    "The names that a right definition sees."
    if key in EXERCISES and EXERCISES[key].made.__name__ in answers(module_of(key)):
        return vars(sys.modules[EXERCISES[key].made.__module__])
    return vars(right_module())


@functools.cache
def right_source() -> str:
    "The right file: the definitions of all lessons, without annotations."
    parts = [HEADER]
    for lesson in lessons():
        for node, text in _statements(_sections(f"lesson_{lesson}")[""]):
            plain = "\n".join(line for line in text.split("\n") if not MARK.fullmatch(line))
            block = isinstance(node, (ast.FunctionDef, ast.ClassDef))
            parts.append("\n" * (2 if block else 1) + plain.rstrip() + "\n")
    return "".join(parts)


@functools.cache
def right_module() -> ModuleType:
    """The right file as a module. Its layers also take None for `attend`, which means attention.

    A reader's layer may hand on what is left out, and right ones that it is given understand it.
    """
    module = ModuleType("right_file")
    _run(right_source(), "<the right file>", module.__dict__)
    for part in vars(module).values():
        own = vars(part).get("forward") if isinstance(part, type) else None
        if own and "attend" in inspect.signature(own).parameters:
            part.forward = _without_none(own)
    return module


def _without_none(forward):
    "A method that reads `attend=None` as an `attend` that is left out."
    signature = inspect.signature(forward)
    place = list(signature.parameters).index("attend")

    @functools.wraps(forward)
    def called(*args, **options):
        if (args[place] if len(args) > place else options.get("attend", ...)) is not None:
            return forward(*args, **options)
        given = signature.bind(*args, **options).arguments  # each by its name
        del given["attend"]
        return forward(**given)

    return called


def _run(source, name, space):
    "Run source, whose lines tracebacks and `inspect` then find."
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), space)


@functools.cache
def edited(name, mistakes=()):
    "What a definition becomes with mistakes in it. `ValueError` if they do not fit."
    right = definition(name)
    if not mistakes:
        return space_of(name)[right.name]
    source = right.source(*mistakes)
    space = dict(space_of(name))
    try:
        _run(source, f"<wrong {name} {hash(source)}>", space)
    except SyntaxError as error:
        raise ValueError(f"{name}: {error}") from error
    return space[right.name]


@functools.cache
def load_questions():
    "Import what is asked, which fills `ask.STEPS`."
    for lesson in lessons():
        import_module(f"{__package__.rpartition('.')[0]}.exercises.lesson_{lesson}")
