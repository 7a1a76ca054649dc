"""What judges an answer in the page: it runs what the reader typed, then the lesson's own judge.

The site's build puts this file into one archive with the small PyTorch, the course's modules and
its judges. The page hands over its code cells with each answer.
"""

import ast
import builtins
import io
import json
import linecache
import symtable
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import not_here

YOURS = "<your answer>"  # what tracebacks call the reader's lines
LONGEST = 20_000  # characters of output that are shown
ABSENT = ("matplotlib", "torch.utils", "pandas")  # imports that no exercise needs
not_here.install()
STANDARD = {  # what an answer may import besides
    "abc", "collections", "contextlib", "copy", "dataclasses", "enum", "fractions", "functools",
    "itertools", "math", "operator", "random", "re", "statistics", "string", "time", "typing",
}  # fmt: skip
COURSE = {"torch", "einops", "former_nb"}


class Limited(io.StringIO):
    """Output that stops growing after `LONGEST` characters."""

    cut = False

    def write(self, text):
        room = LONGEST - self.tell()
        self.cut = self.cut or len(text) > room
        super().write(text[: max(0, room)])
        return len(text)

    def forget(self):
        """Begin anew."""
        self.seek(0)
        self.truncate()
        self.cut = False


@cache
def is_here(module):
    """Whether a module can be imported in the page."""
    if module.startswith(ABSENT):
        return False
    if module in sys.modules:
        return True
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package that it would be in
        return False


def modules_of(node):
    """The modules that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def without_absent(source):
    """A cell without imports of what is not here."""
    from former_nb.yours import HOME

    tree = ast.parse(source)
    statements = []
    for node in tree.body:
        if modules_of(node) == ["former_nb.yours"]:  # names of modules that may be absent
            node.names = [a for a in node.names if is_here(f"former_nb.{HOME.get(a.name)}")]
            if not node.names:
                continue
        if all(map(is_here, modules_of(node))):
            statements.append(node)
    tree.body = statements
    return tree


@cache
def not_imported(source):
    """The names that a cell imports from modules that are not here: name -> module."""
    missing = {}
    for node in ast.parse(source).body:
        for module in modules_of(node):
            if not is_here(module):
                for alias in node.names:
                    missing[alias.asname or alias.name.partition(".")[0]] = module
    return missing


def tables(table):
    """A table of names and those of the functions in it."""
    yield table
    for child in table.get_children():
        yield from tables(child)


def defined_names(source):
    """The names that code binds at its top level."""
    symbols = symtable.symtable(source, YOURS, "exec").get_symbols()
    return {s.get_name() for s in symbols if s.is_assigned() or s.is_imported()}


def free_names(source):
    """The names that code reads and neither binds itself nor finds in Python."""
    names = set()
    for table in tables(symtable.symtable(source, YOURS, "exec")):
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (top or symbol.is_global()):
                names.add(symbol.get_name())
    return names - defined_names(source) - set(dir(builtins))


def imported_modules(tree):
    """The modules that code imports, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.partition(".")[0], node.lineno
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.partition(".")[0], node.lineno


class Kept:
    """What the modules that an answer may reach were like before it ran.

    An answer may write into them, as `torch.Tensor.softmax = ...` does. Neither its own judge nor
    the answers after it shall see that.
    """

    def __init__(self):
        self.modules, self.attributes, self.contents = {}, [], []
        if Path(sys.modules["torch"].__file__).parents[1] != Path(__file__).parent:
            return  # PyTorch itself, in a test of this file
        for name, module in list(sys.modules.items()):
            root = name.partition(".")[0]
            if root not in COURSE | STANDARD | {"builtins"}:
                continue
            self.modules[name] = module
            self.attributes.append((module, dict(vars(module))))
            for value in vars(module).values() if root in COURSE else ():
                if isinstance(value, type) and value.__module__ == name:
                    self.attributes.append((value, dict(vars(value))))
                elif isinstance(value, dict | list) and value is not vars(builtins):
                    self.contents.append((value, value.copy()))

    def changed(self):
        """The name of something in torch or in the course that is not what it was, or nothing."""
        for owner, before in self.attributes:
            home = getattr(owner, "__module__", owner.__name__)
            if home.partition(".")[0] in COURSE:
                for name, value in vars(owner).items():
                    if before.get(name) is not value and not isinstance(value, ModuleType):
                        return f"{owner.__name__}.{name}"
        return ""

    def restore(self):
        """Make all of it what it was; what came since is imported anew."""
        for name in list(sys.modules) if self.modules else ():
            if name not in self.modules and name.partition(".")[0] in COURSE:
                del sys.modules[name]
        for owner, before in self.attributes:
            for name in [name for name in vars(owner) if name not in before]:
                delattr(owner, name)
            for name, value in before.items():
                if vars(owner).get(name, self) is not value:
                    setattr(owner, name, value)
        for container, before in self.contents:
            container.clear()
            (container.update if isinstance(container, dict) else container.extend)(before)


def usual_names():
    """What nearly every file with PyTorch imports: an answer may use it before its page does."""
    import math

    import torch

    return {"math": math, "torch": torch, "nn": torch.nn, "F": torch.nn.functional}


class CannotRunError(Exception):
    """An answer that is not judged; the message says why."""


def cells_before(cells, number):
    """The code cells of a page before the one that asks for this exercise, or all of them."""
    before = []
    for cell in cells:
        if cell.get("exercise") == number:
            break
        if "source" in cell:
            before.append(cell)
    return before


def read_cells(page):
    """The code cells of a page."""
    path = Path(__file__).with_name("pages") / f"{page}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def judge_in_page(page, number, expression, source):
    """What `judge` gives, as JSON, for an exercise of a page."""
    return json.dumps(judge(read_cells(page), number, expression, source))


def page_names(cells, needed):
    """The names that a page has before the exercise: its imports, and what the answer asks for.

    The cells run in their order up to the last one that defines a name that is needed. Of the
    others only the imports run.
    """
    names = {"__name__": "__main__"}
    made, missing = set(), {}  # by a cell that runs; by one that does not: name -> why
    last = -1
    for i, cell in enumerate(cells):
        for name, module in not_imported(cell["source"]).items():
            missing[name] = f"`{name}` comes from `{module}`, which is not in the page"
        imported, own = bound(cell["source"])
        made |= imported
        defined = needed & own
        if "not_run" in cell:
            for name in defined:
                missing[name] = (
                    f"`{name}` comes from a cell that does not run in the page, because "
                    f"{cell['not_run']}"
                )
        elif defined:
            made |= defined
            last = i
    for name in sorted(needed & missing.keys() - made):
        raise CannotRunError(f"{missing[name]}; do this in the notebook, or without it")
    for i, cell in enumerate(cells):
        whole = i <= last and "not_run" not in cell
        tree = without_absent(cell["source"]) if whole else parted(cell["source"])[0]
        if tree.body:
            exec(compile(tree, f"<cell {cell['id']}>", "exec"), names)
    return names


@cache
def bound(source):
    """The names that a cell imports, and those that its other statements bind."""
    imports, rest = parted(source)
    return defined_names(ast.unparse(imports)), defined_names(ast.unparse(rest))


@cache
def parted(source):
    """The imports of a cell that can be had here, and its other statements."""
    imports, rest = without_absent(source), without_absent(source)
    imports.body = [node for node in imports.body if modules_of(node)]
    rest.body = [node for node in rest.body if not modules_of(node)]
    return imports, rest


def raised(error):
    """What an error of the answer says, and in which line."""
    message = str(error).partition("\n")[0]
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == YOURS]
    if isinstance(error, SyntaxError) and error.filename == YOURS:
        lines, message = [error.lineno or 1], error.msg
    sentence = f"{type(error).__name__}: {message}".rstrip(": ")
    if not lines:
        return sentence
    code = linecache.getline(YOURS, lines[-1]).strip()
    return f"line {lines[-1]}, `{code}`: {sentence}" if code else f"line {lines[-1]}: {sentence}"


def run_answer(cells, number, expression, source, output):
    """Run what a reader typed. Gives what the exercise's judge says of it."""
    from former_nb.grading.content import find_exercise

    tree = ast.parse(source, YOURS)
    for module, line in imported_modules(tree):
        if module not in COURSE | STANDARD:
            raise CannotRunError(
                f"line {line}: `{module}` is not here; the check in the page knows Python, torch "
                "and this course"
            )
    names = page_names(cells_before(cells, number), free_names(source))
    for name, module in usual_names().items():
        names.setdefault(name, module)
    output.forget()  # what the page's own cells print
    find_exercise(number)  # its judge is imported before an answer can change what it imports
    kept = Kept()
    try:
        exec(compile(tree, YOURS, "exec"), names)
        answer = handed_over(expression, names)
        kept.restore()
        return verdict(number, answer)
    finally:
        kept.restore()


def handed_over(expression, names):
    """What the exercise hands to `check`."""
    for name in free_names(expression):
        if name not in names:
            raise CannotRunError(f"`{name}` is missing; the exercise asks for this name")
    answer = eval(expression, names)
    if isinstance(answer, tuple | list) and any(part is ... for part in answer):
        raise CannotRunError("the three dots are still there; put your numbers in their place")
    return answer


def verdict(number, answer):
    """What the exercise's judge says: whether the answer is right, a sentence, and the hints."""
    from former_nb.grading import check, content

    content.find_exercise(number)
    hints, printed = list(content.definition(number).hints), []
    check.print = printed.append  # what `check` prints, apart from what the answer prints
    try:
        right = check.check(number, answer)
    except BaseException as error:  # nobody interrupts a page: the answer raised it
        sentence = f"{number}, not yet: {raised(error)}."
        return {"right": False, "sentence": sentence, "hints": hints}
    finally:
        del check.print
    return {"right": right, "sentence": printed[0], "hints": hints}


def judge(cells, number, expression, source):
    """Judge what a reader typed: whether it is right, what to say, and what it printed.

    `cells` are those of the page, `expression` is what the exercise hands to `check`, such as the
    name of a function.
    """
    source = source.expandtabs(4)
    linecache.cache[YOURS] = (len(source), None, source.splitlines(True), YOURS)
    output = Limited()
    with redirect_stdout(output), redirect_stderr(output):
        try:
            outcome = run_answer(cells, number, expression, source, output)
        except CannotRunError as error:
            outcome = {"right": False, "sentence": str(error), "hints": []}
        except BaseException as error:  # SystemExit and KeyboardInterrupt, too
            outcome = {"right": False, "sentence": raised(error), "hints": []}
    outcome["sentence"] = outcome["sentence"].replace(" of your cell", " of your answer")
    return outcome | {"output": output.getvalue(), "cut": output.cut}
