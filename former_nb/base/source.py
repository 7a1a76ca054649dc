"""Python files of users: where a reader's own is, and a sentence for one that Python can't read."""

import ast
import os
from pathlib import Path
from threading import Lock

__all__ = ["your_path", "parse", "parse_source", "name_line"]

_PARSING = Lock()


def your_path() -> Path | None:
    "The reader's file, if there is one and it isn't switched off."
    named = os.environ.get("FORMER_NB_MINE", "mine.py").strip()
    if named.lower() in ("", "off"):
        return None
    path = Path(named).expanduser().resolve()
    asked_for = "FORMER_NB_MINE" in os.environ
    return path if asked_for or path.is_file() else None


def parse(
    text: str,  # of a Python file
) -> ast.Module:
    "`ast.parse` for threads: two at once may end in a SystemError (CPython's issue 106905)."
    with _PARSING:
        return ast.parse(text)


def parse_source(
    path: Path,  # of a file in UTF-8
) -> ast.Module:
    "The syntax tree of a Python file. `ValueError`, a sentence, for one that Python can't read."
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
    return tree


def name_line(
    path: Path,
    text: str,  # what is in the file
    line: int,  # from 1
) -> str:
    "A line of a file, as sentences name it."
    lines = text.splitlines()
    code = lines[line - 1].strip() if line <= len(lines) else ""
    return f"line {line} of {path.name}" + (f", `{code}`" if code else "")
