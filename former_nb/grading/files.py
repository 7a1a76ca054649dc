"""A reader's file, step by step.

What a definition uses is read from its source. Of the course's definitions that it uses, those that
aren't right are replaced by the right ones before it is judged, so that each fault is told once and
lesson 03 is judged before 04 is written.

A file may say what it calls the course's definitions and weights:

    NAMES = {"attention": "scaled_dot_product_attention", "MultiHeadAttention.w_q": "q_proj"}
"""

import ast
import contextlib
import warnings

from ..base.source import parse
from .answer import Answer
from .ask import STEPS
from .content import definitions, load_questions, right_module
from .grade import verdicts
from .search import names_of
from .words import raised

NOT_WRITTEN = "not written yet"
load_questions()


def _place(name):
    "By lesson, then as in the right file."
    return STEPS[name].lesson, list(definitions()).index(STEPS[name].definition)


STEP_NAMES = sorted(STEPS, key=_place)


# ---------------------------------------------------------------- what a file defines


def is_open(
    node: ast.AST,  # of a function or class
) -> bool:
    "Whether there is nothing in a definition but three dots, and words about it."
    lines = [part.value for part in node.body if isinstance(part, ast.Expr)]
    constant = all(isinstance(value, ast.Constant) for value in lines)
    return constant and len(lines) == len(node.body) and lines[-1].value is ...


def bound_by(node):
    "The names that a statement at the top of a file defines."
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and is_stored(n)}
    return set()


def is_stored(node):
    return isinstance(node.ctx, ast.Store)


def is_definition(node):
    return isinstance(node, (ast.FunctionDef, ast.ClassDef))


def defined_names(
    source: str,
) -> set[str]:  # of functions, classes, variables and imports, at the top of a file
    "What a file defines. A definition of three dots is still open, and isn't counted."
    names = set()
    for node in parse(source).body:
        if not (is_definition(node) and is_open(node)):
            names |= bound_by(node)
    return names


def names_in(tree):
    "The file's table of names, as far as it is about the course's definitions."
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "NAMES":
            with contextlib.suppress(ValueError, AttributeError):
                return of_course(ast.literal_eval(node.value))
    return {}


def of_course(table):
    "A table of names, as far as it is about the course's definitions."
    ours = {key: name for key, name in table.items() if isinstance(name, str)}
    return {key: name for key, name in ours.items() if key.partition(".")[0] in definitions()}


class File:
    "What is known of a reader's file without running it."

    def __init__(
        self,
        source: str,
        path: str = "mine.py",  # what tracebacks call it
        names: dict[str, str] | None = None,  # the course's -> the file's, beside its own table
    ):
        self.path = path
        self.tree = parse(source)
        self.lines = source.splitlines()
        self.names = names_in(self.tree) | of_course(names or {})
        self.written = defined_names(source)
        self.nodes = {node.name: node for node in self.tree.body if is_definition(node)}

    def own(self, key):
        "What the file calls a definition."
        return self.names.get(key, key)

    def uses(self, key):
        "The course's definitions that one reads, by its source, and those that they read."
        found, left = set(), [key]
        while left:
            node = self.nodes.get(self.own(left.pop()))
            inside = names_of(node) if node else set()
            new = {other for other in definitions() if self.own(other) in inside} - found - {key}
            found |= new
            left += new
        return found

    def space_with(self, stand_ins):
        "The names of the file after it was run with right definitions in place of these."
        names = {self.own(key): getattr(right_module(), key) for key in stand_ins}
        space = {"__name__": "readers_file"} | names
        body = [node for node in self.tree.body if not bound_by(node) & names.keys()]
        exec(compile(ast.Module(body, []), self.path, "exec"), space)
        return space

    def answer(self, key, space):
        own = self.own(key)
        return Answer(space[own], self.nodes.get(own), self.lines, self.path, space, self.names)

    def bases(self, key):
        "The names of the classes that a class builds on."
        node = self.nodes.get(self.own(key))
        return {getattr(base, "id", "") for base in getattr(node, "bases", [])}


# ---------------------------------------------------------------- one step


def said_of(file, name, stand_ins, answer):
    "None if a step is right, or sentences, each better than the one before."
    bases = [other for other in stand_ins if file.own(other) in file.bases(STEPS[name].definition)]
    for verdict in verdicts(name, answer):
        if verdict.kind == "right":
            yield None
        elif bases:
            yield f"waits for {bases[0]}"
        else:
            yield NOT_WRITTEN if verdict.kind == "open" else verdict.said


def judge_here(file, name, stand_ins, space):
    """None if a step of a file is right, else a sentence, where the file runs in this process.

    `space` has the names of the file after it was run as it is.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of edits that make no sense, and the file's own
        if stand_ins:
            try:
                space = file.space_with(stand_ins)
            except Exception as error:  # noqa: BLE001, a reader's file may raise anything
                return raised(error, Answer(None, None, file.lines, file.path, {}, {}))
        answer = file.answer(STEPS[name].definition, space)
        return list(said_of(file, name, stand_ins, answer))[-1]


# ---------------------------------------------------------------- the whole file


class Judging:
    "What is said of each step of a file, asked for after the steps of all that it uses."

    def __init__(
        self,
        file: File,
        ask,  # (step, what stands in) -> None or a sentence
    ):
        self.file = file
        self.ask = ask
        self.found = {}  # step -> None or a sentence

    def of(self, name):
        if name not in self.found:
            self.found[name] = NOT_WRITTEN  # for definitions that use each other
            self.found[name] = self.judge(name)
        return self.found[name]

    def judge(self, name):
        lesson, key = STEPS[name].lesson, STEPS[name].definition
        if self.file.own(key) not in self.file.written:
            return NOT_WRITTEN
        for other in self.steps(key, lesson):
            if other == name:
                break
            if self.of(other) is not None:
                return NOT_WRITTEN if self.of(other) == NOT_WRITTEN else f"waits for {other}"
        return self.ask(name, sorted(k for k in self.file.uses(key) if self.is_wrong(k, lesson)))

    def steps(self, key, lesson):
        "The steps of a definition up to a lesson, in their order."
        return [n for n in STEP_NAMES if STEPS[n].definition == key and STEPS[n].lesson <= lesson]

    def is_wrong(self, key, lesson):
        return any(self.of(name) is not None for name in self.steps(key, lesson))

    def all(self):
        "What is said of all steps, in their order."
        return {name: self.of(name) for name in STEP_NAMES}
