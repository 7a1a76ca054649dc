"""A reader's file before anything runs: it is read once, and that text is judged."""

import ast
import os
import traceback
from pathlib import Path
from typing import NamedTuple

from ..base.files import check_path
from ..base.source import name_line, read_source
from .errors import MistakeError, clean_message

__all__ = ["ReadFile", "read_file", "own_path", "blame_line"]

REFUSED = "former_nb"  # the package that a file may not import
HIDDEN_DOORS = ("exec", "eval", "__import__", "import_module")  # to a package that goes unseen


class ReadFile(NamedTuple):
    "A file that Python can read."

    path: Path
    source: str
    names: dict[str, str] = {}  # the course's -> the file's


def own_path(file):
    "Where a reader's file is. Raises `MistakeError` for what is no path."
    if not isinstance(file, (str, os.PathLike)):
        got = type(file).__name__
        raise MistakeError(f"expected the name of your file, such as 'mine.py', got {got}")
    try:
        return check_path("file", file)
    except (TypeError, ValueError) as error:
        raise MistakeError(str(error)) from None


def read_file(
    file: str | os.PathLike,  # a reader's file
    names: dict[str, str] | None = None,  # the course's -> the file's
) -> ReadFile:
    "A file that Python can read. Raises `MistakeError` with a sentence for another."
    path = own_path(file)
    try:
        source, tree = read_source(path)
    except FileNotFoundError:
        sentence = f"there is no file {path.name} here; save yours beside this notebook, or give"
        raise MistakeError(f"{sentence} its whole path") from None
    except ValueError as error:
        raise MistakeError(str(error)) from None
    for line, said in refused_imports(tree):
        raise MistakeError(f"line {line} of {path.name} {said}")
    return ReadFile(path.resolve(), source, names or {})


def refused_imports(tree):
    "(line, what it does) where a file takes this package, or may hide that."
    for node in ast.walk(tree):
        for name in imported_names(node):
            if name.partition(".")[0] == REFUSED:
                yield node.lineno, f"imports {REFUSED}; write it yourself"
            elif name in HIDDEN_DOORS or name == "sys.modules":
                yield node.lineno, f"uses {name}; write plain imports and plain lines"


def imported_names(node):
    "The packages that a node of a file imports, and the doors that it uses."
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        aliases = [alias.name for alias in node.names]
        names = [node.module or "", *(name for name in aliases if name in HIDDEN_DOORS)]
        return [*names, "sys.modules"] if node.module == "sys" and "modules" in aliases else names
    if isinstance(node, ast.Name) and node.id in HIDDEN_DOORS:
        return [node.id]
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name) and ast.unparse(node) == "sys.modules":
            return ["sys.modules"]
        return [node.attr] if node.attr in ("__import__", "import_module") else []
    return []


def blame_line(
    error: BaseException,  # what a reader's code raised
    path: Path,  # of that code
    source: str,  # what was in the file
) -> str:
    "What was raised, and in which line of the reader's file."
    sentence = f"your code raised {type(error).__name__}: {clean_message(error)}".rstrip(".: ")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f"{sentence}, in {name_line(path, source, lines[-1])}" if lines else sentence
