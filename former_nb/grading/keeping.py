"""`keep(answer)`: an answer of a notebook goes into the reader's file.

The source is what Python holds of the cell or file where the answer was written. The file is
written whole, beside the old one, and then takes its place.
"""

import ast
import builtins
import io
import os
import re
import shutil
import symtable
import sysconfig
import tempfile
from pathlib import Path
from types import FunctionType

from ..base.files import check_path
from ..base.source import functions_of, read_source, written_at, your_path
from .ask import STEPS
from .errors import MistakeError
from .files import is_open
from .your_file import EXAMPLE, START, show_file

__all__ = ["keep"]

STEP_OF = {  # exercises that are a step of the file -> its name there
    "my_merge": "merge",
    "my_bpe": "train_bpe",
}
HEAD = START.partition("\n\n# 02")[0]  # of a new file: its imports


# ---------------------------------------------------------------- the answer


def source_of(answer):
    "The lines of a function or class. `MistakeError` where Python has none that stand alone."
    if not isinstance(answer, (FunctionType, type)):
        raise MistakeError(f"expected a function or class of yours, got {type(answer).__name__}")
    name = answer.__name__
    if answer.__module__.partition(".")[0] == "former_nb":
        raise MistakeError(f"{name} is the course's; keep what you wrote yourself")
    if name == "<lambda>":
        raise MistakeError("a lambda has no name in a file; write it with `def`")
    functions = functions_of(answer)
    if not functions:
        raise MistakeError("the class has no function of its own, so Python doesn't know its lines")
    libraries = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))
    if functions[0].__code__.co_filename.startswith(libraries):
        raise MistakeError(f"{name} is a library's; keep what you wrote yourself")
    found = written_at(answer)
    if found is None or found.node.col_offset:
        raise MistakeError(f"Python has no source of {name} at the left edge of a cell or file")
    return "".join(found.lines[found.first - 1 : found.end]).rstrip() + "\n"


def _missing(source, there):
    "Names that a definition uses and neither Python nor the file has."
    used: set[str] = set()
    todo = [symtable.symtable(source, "answer", "exec")]
    while todo:
        table = todo.pop()
        top = table.get_type() == "module"
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or top):
                used.add(symbol.get_name())
        todo += table.get_children()
    return sorted(used - there - set(dir(builtins)))


# ---------------------------------------------------------------- the file


def _bound(tree):
    "The names that stand at the top of a file -> the node, of definitions."
    found: dict = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(a.asname or a.name).partition(".")[0]: None for a in node.names}
        else:
            stored = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
            found |= {n.id: None for n in stored if isinstance(n.ctx, ast.Store)}
    return found


def _with(text, tree, name, source):
    "The file's text with a definition in it. Raises `MistakeError` if it has one that is written."
    there = _bound(tree)
    if name not in there:
        program = [n for n in tree.body if isinstance(n, ast.If) and "__main__" in ast.unparse(n)]
        lines = io.StringIO(text).readlines()  # as Python counts them
        at = program[-1].lineno - 1 if program else len(lines)
        before, after = "".join(lines[:at]).rstrip(), "".join(lines[at:])
        return f"{before}\n\n\n{source}" + (f"\n\n{after}" if after else "")
    node = there[name]
    if node is None or not is_open(node):
        raise MistakeError(f"{name} is in the file already and was left as it is")
    lines = io.StringIO(text).readlines()  # as Python counts them
    return "".join(lines[: node.lineno - 1]) + source + "".join(lines[node.end_lineno :])


def _write(path, text):
    "Write a file whole or not at all, its permissions as they were."
    handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "w", encoding="utf-8", newline="") as new:
            new.write(text)
        if path.exists():
            shutil.copymode(path, part)
        else:
            os.chmod(part, 0o644)
        os.replace(part, path)
    except BaseException:
        os.unlink(part)
        raise


def _put(answer, path):
    "Write an answer into the file. The name that it has there, and names that are missing there."
    source = source_of(answer)
    name = STEP_OF.get(answer.__name__, answer.__name__)
    source = re.sub(rf"\b{answer.__name__}\b", name, source)
    text = HEAD
    if path.exists():
        try:
            read_source(path)
        except ValueError as error:
            raise MistakeError(f"{error}; mend that first") from None
        text = path.read_bytes().decode("utf-8")  # with its ends of lines
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    windows = "\r\n" in text
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    tree = ast.parse(text)
    new = _with(text, tree, name, source)
    there = set(_bound(ast.parse(new)))
    _write(path, mark + (new.replace("\n", "\r\n") if windows else new))
    return name, _missing(source, there)


def keep(answer, file=None) -> bool:
    "As `former_nb.keep`."
    path = check_path("file", file) if file else your_path() or Path(EXAMPLE)
    path = path.resolve()
    try:
        name, missing = _put(answer, path)
    except MistakeError as error:
        print(f"Not kept: {error}.")
        return False
    except OSError as error:
        print(f"Not kept: {path.name} can't be written: {error.strerror or error}.")
        return False
    print(f"{name} is in {path.name}.")
    if missing:
        print(f"It uses {', '.join(missing)}, which the file doesn't have yet.")
    step = STEPS.get(name)
    if step is None:
        print("It's no step of the file, so check doesn't ask about it.")
    else:
        show_file(path, step.lesson)
    return True
