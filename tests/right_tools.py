"""The right file of a reader, as text and as a module."""

import functools
import linecache
from pathlib import Path
from types import ModuleType

RIGHT_FILE = Path("/work/wt/spec/mine.py")


def right_source():
    "The text of the right file."
    return RIGHT_FILE.read_text(encoding="utf-8")


@functools.cache
def right_module():
    "The right file as a module."
    module = ModuleType("right_file")
    source, name = right_source(), "<the right file>"
    linecache.cache[name] = len(source), None, source.splitlines(True), name
    exec(compile(source, name, "exec"), vars(module))
    return module
