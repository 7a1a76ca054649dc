"""A mistake is an edit of a right file, so what it computes is written nowhere a second time.

The mistakes of a build are data, in a TOML file beside this module: a sentence, and below it what
is replaced = by what.
"""

import functools
import sys
from pathlib import Path
from types import ModuleType

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["load_source", "edited_file", "read_mistakes"]


def load_source(
    source: str,
    name: str,  # of the module
) -> ModuleType:
    "Source as a module of its own, that nobody can import."
    module = ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


@functools.lru_cache(500)
def edited_file(
    file: Path,
    edits: tuple[tuple[str, str], ...] = (),  # (old, new), one after the other
) -> ModuleType:
    "The module that a right file becomes. `ValueError` unless each old text stands there once."
    source = file.read_text(encoding="utf-8")
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{file.name}: expected {old!r} once")
        source = source.replace(old, new)
    return load_source(source, file.stem)


def read_mistakes(
    name: str,  # of a TOML file of this folder
) -> dict[str, dict[str, tuple[tuple[str, str], ...]]]:  # table -> sentence -> edits (old, new)
    "The mistakes of a file, in its order."
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    tables = {}
    for table, mistakes in tomllib.loads(text).items():
        tables[table] = {sentence: tuple(edits.items()) for sentence, edits in mistakes.items()}
    return tables
