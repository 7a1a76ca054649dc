"""Paths and files of your own and of others, read strictly; a sentence names file and place.

Whatever path a user gives goes through `check_path`, and whatever text through one reader: UTF-8,
from a file, packed by gzip or not, or from standard input. A line ends at a line feed, with or
without a carriage return before it, and nowhere else. So all that count lines count alike.

A published file is known by its digits. A file that you bring can be empty, cut short, in another
encoding, or no text at all: `read_text` and `read_names` refuse what a model would silently train
on. An odd control character, such as U+0085 in many reviews from the web, is a character like any
other. Only NUL says that a file is no text.

A folder with a model in it may be anybody's. What is read from one is safetensors and JSON, which
must be an object, and keys that we do not know are refused.
"""

import codecs
import gzip
import json
import os
import unicodedata
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import former_nb

__all__ = [
    "check_path",
    "SHIPPED",
    "find_model",
    "text_lines",
    "read_whole",
    "read_text",
    "read_names",
    "read_bytes",
    "parse_json",
    "read_json",
    "check_keys",
    "reading",
]


def check_path(
    name: str,  # what the error calls it
    value,  # what came
) -> Path:
    """`value` as a path in which `~`, or `~user`, became a home, as in a shell.

    Every path that a user gives comes through here: an argument, an option, a setting, an
    environment variable. Raises `TypeError` for what is none.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text:
        raise TypeError(f"{name}: expected a path, got {value!r:.200}")
    return Path(os.path.expanduser(text))


SHIPPED = Path(former_nb.__file__).with_name("models")  # models that ship, a folder each
OF_MODEL = ("config.json", "model.safetensors", "run.json")  # one of them is in each model's folder


def find_model(
    name: str | Path,  # a folder, or the name of a model that ships
) -> Path:  # its folder
    """Where a model is. A folder that holds a model or a run wins over a model that ships under
    that name. Raises `ValueError` where there is neither."""
    folder = check_path("model", name)
    shipped = sorted(file.parent.name for file in SHIPPED.glob("*/config.json"))
    if str(name) in shipped and not any((folder / file).exists() for file in OF_MODEL):
        return SHIPPED / name
    if not folder.is_dir():
        expected = f"a folder, or a model that ships ({', '.join(shipped)})"
        hub = f'; one on the hub: from_hugging_face({str(name)!r}, revision="main")'
        raise ValueError(f"model: expected {expected}{hub}, got {str(folder)!r}")
    return folder


STRANGERS: dict = {  # how a file begins that is often taken for text -> what it is
    (b"\xff\xfe", b"\xfe\xff"): "UTF-16; save it as UTF-8",
    b"PK\x03\x04": "a zip archive, as xlsx and docx are; unpack it, or save it as text",
}


def _without_mark(raw):
    "The first bytes of a text, without the mark of UTF-8. `ValueError` for what holds no text."
    for begin, what in STRANGERS.items():
        if raw.startswith(begin):
            raise ValueError(f"it is {what}")
    return raw.removeprefix(codecs.BOM_UTF8)


@contextmanager
def _open_text(name, file):
    """The bytes of a text; a file is unpacked if gzip has packed it. Within `with`, every error is
    a `ValueError` that names it."""
    where = file if isinstance(file, Path) else "standard input"
    try:
        with open(file, "rb") if where is file else nullcontext(file) as opened:
            packed = where is file and opened.peek(2)[:2] == b"\x1f\x8b"
            yield gzip.GzipFile(fileobj=opened) if packed else opened
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{name}: expected UTF-8 text in {str(where)!r}: {reason}") from None


def text_lines(
    file: str | Path | BinaryIO,  # UTF-8, also compressed with gzip; an open one is standard input
) -> Iterator[str]:  # without their ends
    """Line after line, as soon as they come. A line ends at LF or CRLF, and nowhere else.

    What is not UTF-8 comes as half characters, so that a bad line costs itself. Raises `ValueError`
    for what is no text.
    """
    path = check_path("file", file) if isinstance(file, (str, Path)) else file
    with _open_text("file", path) as opened:
        for number, raw in enumerate(opened, start=1):
            line = _without_mark(raw) if number == 1 else raw
            if b"\0" in line:
                raise ValueError(f"it has NUL in line {number}")
            yield line.decode(errors="surrogateescape").replace("\r\n", "\n").removesuffix("\n")


def read_whole(
    name: str,  # what the error calls it
    file: str | Path,  # UTF-8, also compressed with gzip
) -> str:  # as it is written, without a mark of its encoding; may be empty
    """The text in a file. `ValueError`, with line and position, where it is broken, binary or not
    UTF-8."""
    with _open_text(name, check_path(name, file)) as opened:
        raw = _without_mark(opened.read())
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            *before, last = raw[: error.start].split(b"\n")
            place = f"in position {len(last)} of line {1 + len(before)}"
            reason = f"byte 0x{raw[error.start]:x} {place} cannot be decoded"
            raise ValueError(reason) from None
        before, nul, _ = text.partition("\0")
        if nul:
            raise ValueError(f"it has NUL in line {1 + before.count(chr(10))}")
        return text


def read_text(
    file: str | Path,  # UTF-8, also compressed with gzip
) -> str:  # in Unicode's form NFC, lines ended by a line feed
    "What `read_whole` gives of data. `ValueError`, too, for an empty file."
    text = unicodedata.normalize("NFC", read_whole("file", file).replace("\r\n", "\n"))
    if not text or text.isspace():
        raise ValueError(f"file: {str(file)!r}: expected text, got an empty file")
    return text


LONGEST = 100  # characters: a longer line is not a name


def read_names(
    file: str | Path,  # UTF-8, one name per line; a first line that says "name" is a heading
) -> list[str]:  # in the file's order, each once
    "The names in a file. `ValueError`, naming the file, unless there are ten and all is text."
    lines = [line.strip() for line in read_text(file).split("\n")]
    for i, line in enumerate(lines, start=1):
        if len(line) > LONGEST or "\t" in line:
            raise ValueError(
                f"file: {str(file)!r}, line {i}: expected one name of at most {LONGEST} "
                f"characters, without tabs, got {line!r:.50}"
            )
    names = [name for name in dict.fromkeys(lines) if name]
    if names[:1] == ["name"]:
        names = names[1:]
    if len(names) < 10:
        expected = "at least 10 different names"
        raise ValueError(f"file: {str(file)!r}: expected {expected}, got {len(names)}")
    return names


def read_bytes(
    name: str,  # what the error calls it
    file: str | Path,
) -> bytes:
    "All of a file. Raises `ValueError` for one that can't be read."
    try:
        return check_path(name, file).read_bytes()
    except OSError as error:
        reason = error.strerror or error
        raise ValueError(
            f"{name}: expected a file that can be read, got {str(file)!r}: {reason}"
        ) from None


def parse_json(
    name: str,  # what the error calls it
    text: str | bytes,  # UTF-8
    where: str | Path,  # it was read
    kind: type = dict,  # or list
) -> Any:  # of that kind
    "Parse JSON. Raises `ValueError` unless it is an object or a list."
    try:
        value = json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: expected JSON in {str(where)!r}: {error}") from None
    if not isinstance(value, kind):
        expected = "a JSON object" if kind is dict else "a JSON list"
        raise ValueError(f"{name}: expected {expected} in {str(where)!r}, got {value!r:.100}")
    return value


def read_json(
    name: str,  # what the error calls it
    file: str | Path,
    kind: type = dict,  # or list
) -> Any:  # of that kind
    "Parse a JSON file. Raises `ValueError` as `read_bytes` and `parse_json` do."
    return parse_json(name, read_bytes(name, file), file, kind)


def check_keys(
    name: str,  # what the error calls it
    values: dict,
    names: Collection[str],  # that `values` may have
) -> None:
    "Raise `ValueError` for a key of another name."
    for key in values:
        if key not in names:
            raise ValueError(f"{name}: expected only {', '.join(names)}, got {key!r:.100}")


@contextmanager
def reading(
    name: str,  # what the error calls it
    expected: str,  # what it should be, in words
) -> Iterator[None]:
    "Within `with`, every error becomes a `ValueError` of one sentence."
    try:
        yield
    except Exception as error:
        message = " ".join(str(error).split())[:1000]
        if not message.startswith(f"{name}: "):
            ours = isinstance(error, ValueError) or ": expected " in message
            kind = "" if ours else f"{type(error).__name__}: "
            message = f"{name}: expected {expected}: {kind}{message}"
        raise ValueError(message) from None
