"A whole file of the reader's, or one answer to an exercise, each verdict in a process of its own."

import ast
import contextlib
import io
import json
import os
import signal
import sys
import time
import traceback
import warnings

from .ask import STEPS
from .content import definitions, right_module
from .grade import LIMIT, SEARCH, Answer, Verdict, verdicts
from .search import names_of
from .words import FILE, raised


def names_in(tree):
    "The reader's table of names, as far as it is about the course's definitions."
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "NAMES":
            with contextlib.suppress(ValueError):
                table = ast.literal_eval(node.value)
                return {k: v for k, v in table.items() if k.split(".")[0] in definitions()}
    return {}


class File:
    "A reader's file. Each definition is judged with right ones in place of those that it calls and that are wrong."

    def __init__(self, source):
        self.tree, self.lines = ast.parse(source), source.splitlines()
        self.names = names_in(self.tree)
        self.nodes = {
            n.name: n for n in self.tree.body if isinstance(n, (ast.FunctionDef, ast.ClassDef))
        }
        self.found = {}

    def node(self, key):
        return self.nodes.get(self.names.get(key, key))

    def uses(self, key):
        "The course's definitions that one calls, by its source, and those that they call."
        found, left = set(), [key]
        while left:
            node = self.node(left.pop())
            inside = names_of(node) if node else set()
            new = {k for k in definitions() if self.names.get(k, k) in inside} - found - {key}
            found |= new
            left += new
        return found

    def is_wrong(self, key):
        steps = [s.name for s in STEPS.values() if s.key == key]
        return any(self.verdict(name).kind != "right" for name in steps)

    def verdict(self, name):
        key = STEPS[name].key
        if name not in self.found:
            self.found[name] = Verdict(
                "open", "not written yet"
            )  # for definitions that call each other
            if self.node(key) is not None and not is_open(self.node(key)):
                wrong = {other for other in self.uses(key) if self.is_wrong(other)}
                self.found[name] = in_child(lambda: self.judge(name, wrong))
        return self.found[name]

    def answer(self, key, wrong):
        own = self.names.get(key, key)
        space = {
            "__name__": "answer",
            **{self.names.get(k, k): v for k, v in vars(right_module()).items() if k in wrong},
        }
        stand_ins = {self.names.get(k, k) for k in wrong}
        body = [n for n in self.tree.body if getattr(n, "name", None) not in stand_ins]
        exec(compile(ast.Module(body, []), FILE, "exec"), space)
        return Answer(space[own], self.node(key), self.lines, space, self.names)

    def judge(self, name, wrong):
        key = STEPS[name].key
        try:
            answer = self.answer(key, wrong)
        except Exception as error:  # noqa: BLE001
            yield Verdict("error", raised(error, self.lines))
            return
        bases = {getattr(base, "id", "") for base in getattr(self.node(key), "bases", [])}
        for verdict in verdicts(name, answer):
            for other in wrong:
                if verdict.kind != "right" and self.names.get(other, other) in bases:
                    verdict = Verdict("waits", f"waits for {other}, which it builds on")
            yield verdict


def is_open(node):
    body = [
        n
        for n in node.body
        if not (isinstance(n, ast.Expr) and isinstance(getattr(n, "value", None), ast.Constant))
    ]
    return not body


def last_of(found):
    kept = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kept in found:
            pass
    return kept


def in_child(judge):
    "The last verdict of a copy of this process, whatever becomes of it."
    if not hasattr(os, "fork"):
        return last_of(judge())
    import resource
    import select

    come, go = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        try:
            os.close(come)
            seconds = int(LIMIT * 2 + SEARCH * 2 + 10)
            resource.setrlimit(resource.RLIMIT_CPU, (seconds + int(time.process_time()),) * 2)
            resource.setrlimit(resource.RLIMIT_DATA, (8 * 2**30,) * 2)
            sys.stdout = io.StringIO()
            warnings.simplefilter("ignore")
            for verdict in judge():
                os.write(go, json.dumps(verdict).encode() + b"\n")
        except BaseException as error:  # noqa: B036
            with contextlib.suppress(OSError):
                os.write(
                    go,
                    json.dumps(
                        ["crash", "".join(traceback.format_exception(error))[-900:]]
                    ).encode()
                    + b"\n",
                )
        finally:
            os._exit(0)
    os.close(go)
    text, end = b"", time.monotonic() + 300
    while select.select([come], [], [], max(0, end - time.monotonic()))[0] and (
        part := os.read(come, 65536)
    ):
        text += part
    os.close(come)
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    lines = [line for line in text.split(b"\n") if line]
    return (
        Verdict(*json.loads(lines[-1]))
        if lines
        else Verdict("endless", "your code ended Python, or did not end")
    )


def grade_file(source, only=None):
    "A verdict for each step of a reader's file."
    try:
        file = File(source)
    except SyntaxError as error:
        return {name: Verdict("error", f"line {error.lineno}: {error.msg}") for name in STEPS}
    return {
        name: file.verdict(name)
        for name in sorted(STEPS, key=lambda n: STEPS[n].lesson)
        if (name in only if only else not name[0].isdigit())
    }


def grade_answer(number, source, space):
    "A verdict on an answer to an exercise: the source of one function, and the names that it sees."
    tree = ast.parse(source)
    node = [n for n in tree.body if isinstance(n, ast.FunctionDef)][-1]
    own = dict(space)

    def judge():
        try:
            exec(compile(tree, FILE, "exec"), own)
        except Exception as error:  # noqa: BLE001
            yield Verdict("error", raised(error, source.splitlines()))
            return
        yield from verdicts(number, Answer(own[node.name], node, source.splitlines(), own, {}))

    return in_child(judge)
