"""Python files of users: where a reader's own is, what it holds as a module, and where in a file or
cell an answer was written. A file that Python can't read gets a sentence.
"""

import ast
import inspect
import linecache
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Lock
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from .files import check_path

__all__ = [
    "mine_path",
    "your_path",
    "parse",
    "read_source",
    "name_line",
    "load_file",
    "Written",
    "functions_of",
    "written_at",
]

_PARSING = Lock()


def mine_path() -> Path | None:
    "Where the reader's file is, or would be; None where it is switched off."
    named = os.environ.get("FORMER_NB_MINE", "mine.py").strip()
    return None if named.lower() in ("", "off") else check_path("FORMER_NB_MINE", named)


def your_path() -> Path | None:
    "The reader's file, if there is one and it isn't switched off."
    named = mine_path()
    if named is None:
        return None
    path = Path(os.path.realpath(named))
    asked_for = "FORMER_NB_MINE" in os.environ
    return path if asked_for or path.is_file() else None


def parse(
    text: str,  # of a Python file
) -> ast.Module:
    "`ast.parse` for threads: two at once may end in a SystemError (CPython's issue 106905)."
    with _PARSING:
        return ast.parse(text)


def read_source(
    path: Path,  # of a file in UTF-8
) -> tuple[str, ast.Module]:
    """A Python file, read once: its text and its syntax tree.

    `ValueError`, a sentence, for one that Python can't read.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise
    except UnicodeDecodeError:
        raise ValueError(f"{path.name} is no text in UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{path.name} cannot be read: {reason}") from None
    try:
        tree = parse(text)
        compile(text, str(path), "exec")
    except SyntaxError as error:
        place = name_line(path, text, error.lineno) if error.lineno else path.name
        raise ValueError(f"Python cannot read {place}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"Python cannot read {path.name}: {error}") from None
    return text, tree


def name_line(
    path: Path,
    text: str,  # what is in the file
    line: int,  # from 1
) -> str:
    "A line of a file, as sentences name it."
    lines = text.split("\n")
    code = lines[line - 1].strip() if line <= len(lines) else ""
    return f"line {line} of {path.name}" + (f", `{code}`" if code else "")


# ---------------------------------------------------------------- a file as a module


def load_file(
    path: Path,  # of a file that `read_source` accepts
    name: str = "readers_file",  # of the module, under which pickle and `inspect` look it up
    source: str | None = None,  # what is in the file, if it was read already
) -> ModuleType:
    "The file as a module. Whatever it raises goes through, and then leaves no module behind."
    if source is None:
        source = path.read_text(encoding="utf-8-sig")
    spec = spec_from_file_location(name, path)
    if spec is None:
        raise ValueError(f"path: expected a Python file, got {path.name!r}")
    module = module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        if before is not None:
            sys.modules[name] = before
        raise
    return module


# ---------------------------------------------------------------- where an answer was written


class Written(NamedTuple):
    "Where a function or class was written."

    node: ast.FunctionDef | ast.ClassDef | ast.Assign  # its definition; of a lambda, the assignment
    lines: list[str]  # of its whole cell or file
    function: FunctionType  # whose code says so: itself, or one of a class

    @property
    def first(self) -> int:
        "The number, from 1, of its first line, which may be a decorator's."
        decorators = getattr(self.node, "decorator_list", [])
        return min([self.node.lineno, *(part.lineno for part in decorators)])

    @property
    def end(self) -> int:
        "The number of its last line."
        return self.node.end_lineno or self.node.lineno

    def holds(self) -> bool:
        "Whether the code of the function stands in these lines."
        return self.first <= self.function.__code__.co_firstlineno <= self.end


def functions_of(
    answer: Any,  # what a reader handed in
) -> list[FunctionType]:
    "The functions whose code can say where an answer comes from: itself, or those of a class."
    answer = inspect.unwrap(answer) if callable(answer) else answer
    parts = list(vars(answer).values()) if isinstance(answer, type) else [answer]
    return [part for part in parts if isinstance(part, FunctionType)]


def written_at(
    answer: Any,  # what a reader handed in
) -> Written | None:
    """Where Python has the source of a function or class.

    `None` where it has none, as of a number, a method or what `exec` made.
    """
    for function in functions_of(answer):
        lines = linecache.getlines(function.__code__.co_filename, function.__globals__)
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:  # a cell with a line for IPython alone
            continue
        name = getattr(answer, "__name__", "")
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found = Written(node, lines, function)
                if node.name == name and found.holds():
                    return found
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
                starts = node.value.lineno == function.__code__.co_firstlineno
                if name == "<lambda>" and starts and isinstance(node.targets[0], ast.Name):
                    return Written(node, lines, function)
    return None
