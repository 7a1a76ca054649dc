"""`former-nb new`: a file with a task of one's own, ready to be trained and then changed."""

import ast
import os
import re
import sys
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path

from ..base.checkpoints import write_file
from ..tasks import TASKS

EXAMPLE = Path(__file__).with_name("example_pairs.py")


def check_name(name: str, folder: Path, example: str) -> str:
    "The name of a new task, without '.py'. Raises `ValueError` for one that its file can't have."
    stem = name.removesuffix(".py")
    if not re.fullmatch("[a-z][a-z0-9_]*", stem) or iskeyword(stem):
        expected = "small letters, digits and _, a letter first, such as 'vowels'"
        raise ValueError(f"name: expected {expected}, got {name!r:.80}")
    if stem in TASKS:
        raise ValueError(f"name: expected a new one, got {stem!r}, a task of the package")
    if os.path.lexists(folder / f"{stem}.py"):
        left = "is there already and was left as it is"
        raise ValueError(f"name: expected a new one, got {stem!r}; {stem}.py {left}")
    if stem in sys.stdlib_module_names or find_spec(stem):
        hidden = f"{stem}.py would hide the Python module {stem!r}"
        raise ValueError(f"name: expected one that no module has, got {stem!r}; {hidden}")
    kind = class_name(stem)
    if iskeyword(kind) or kind in imported_names(example):
        raise ValueError(f"name: expected another one, got {stem!r}; {kind} has a meaning already")
    return stem


def imported_names(example: str) -> set[str]:
    "What an example imports, and what a class must not hide."
    tree = ast.parse(example)
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports for alias in node.names}


def class_name(stem: str) -> str:
    "'my_task' becomes 'MyTask'."
    return "".join(word.capitalize() for word in stem.split("_"))


def write_task(
    name: str,  # of the task and of its file
    folder: Path,
) -> Path:  # the file, which was not there before
    "Write the example as a task of this name. Raises `ValueError` for a bad name or a file there."
    text = EXAMPLE.read_text(encoding="utf-8")
    stem = check_name(name, folder, text)
    file = folder / f"{stem}.py"
    text = text.replace("class Example(", f"class {class_name(stem)}(")
    write_file("name", file, text)
    return file
