"""Files of your own and of others, read strictly, with a sentence that names file and place.

A published file is known by its digits. A file that you bring can be empty, cut short, in another
encoding, or no text at all: `read_text` and `read_names` refuse what a model would silently train
on. An odd control character, such as U+0085 in many reviews from the web, is a character like any
other. Only NUL says that a file is no text.

A folder with a model in it may be anybody's, and what it holds can be made to do harm: a link to a
device that never ends, a pipe that never begins, brackets nested a million times. So all that is
read from one goes through `read_bytes` and `read_json`, which look before they open. A file must be
a regular one of a size in reason, JSON must be an object that is not deep, and keys that we do not
know are refused.
"""

import codecs
import gzip
import json
import os
import stat
import unicodedata
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import former_nb

__all__ = [
    "check_path",
    "SHIPPED",
    "find_model",
    "text_blocks",
    "read_text",
    "read_names",
    "open_regular",
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
    "`value` as a path. Raises `TypeError` for what is none."
    if not isinstance(value, (str, os.PathLike)) or not str(value):
        raise TypeError(f"{name}: expected a path, got {value!r}")
    return Path(value)


SHIPPED = Path(former_nb.__file__).with_name("models")  # models that ship, a folder each


def find_model(
    name: str | Path,  # a folder, or the name of a model that ships
) -> Path:  # its folder
    "Where a model is; a folder that is there wins. Raises `ValueError` where there is none."
    folder = check_path("model", name)
    if folder.is_dir():
        return folder
    shipped = sorted(file.parent.name for file in SHIPPED.glob("*/config.json"))
    if str(name) not in shipped:
        expected = f"a folder, or a model that ships ({', '.join(shipped)})"
        hub = f'; one on the hub: from_hugging_face({str(name)!r}, revision="main")'
        raise ValueError(f"model: expected {expected}{hub}, got {str(folder)!r}")
    return SHIPPED / name


BLOCK = 2**20  # bytes that are read at a time


def _read_blocks(path):
    "The bytes of a file, unpacked where gzip has packed them."
    try:
        with open(path, "rb") as opened:
            packed = opened.peek(2)[:2] == b"\x1f\x8b"
            source = gzip.GzipFile(fileobj=opened) if packed else opened
            while block := source.read(BLOCK):
                yield block
    except (OSError, EOFError, zlib.error, ValueError) as error:  # NUL in a name is a ValueError
        raise ValueError(f"file: expected UTF-8 text in {str(path)!r}: {error}") from None


def _decode_blocks(blocks, file):
    "The characters of blocks of UTF-8. `ValueError`, with line and position, for what is none."
    line = 1  # in which a block begins
    position = 0  # bytes of this line before the block
    rest = b""  # of a character that the end of a block cuts
    beginning = True
    for block in chain(blocks, [b""]):
        raw = rest + block
        if beginning and block and len(raw) < len(codecs.BOM_UTF8):
            rest = raw
            continue
        if beginning:
            raw = raw.removeprefix(codecs.BOM_UTF8)
            beginning = False
        try:
            text, n = codecs.utf_8_decode(raw, "strict", not block)
        except UnicodeDecodeError as error:
            *before, last = raw[: error.start].split(b"\n")
            if not before:
                last = b" " * position + last
            place = f"in position {len(last)} of line {line + len(before)}"
            reason = f"byte 0x{raw[error.start]:x} {place} cannot be decoded"
            raise ValueError(f"file: expected UTF-8 text in {str(file)!r}: {reason}") from None
        before, nul, _ = text.partition("\0")
        if nul:
            number = line + before.count("\n")
            raise ValueError(f"file: {str(file)!r}: expected text, got NUL in line {number}")
        yield text
        rest = raw[n:]
        line += text.count("\n")
        newline = raw.rfind(b"\n", 0, n)
        position = n - newline - 1 if newline >= 0 else position + n


def _is_joined(text, i):
    "Whether the character before may be another one because of this one."
    if text[i] == "\n":
        return text[i - 1] == "\r"
    return unicodedata.category(text[i])[0] == "M" or 0x1160 <= ord(text[i]) <= 0x11FF  # Hangul


def text_blocks(
    file: str | Path,  # UTF-8, also compressed with gzip
) -> Iterator[str]:  # in Unicode's form NFC, lines ended by a line feed
    """The text in a file of any size, in blocks of about a megabyte.

    Joined they are what `read_text` gives, and they raise what it raises. A block ends where the
    character after it joins with none before it.
    """
    path = check_path("file", file)
    held = ""
    empty = True
    for text in _decode_blocks(_read_blocks(path), file):
        text = held + text
        end = max(0, len(text) - 1)
        while end > 0 and _is_joined(text, end):
            end -= 1
        held = text[end:]
        block = unicodedata.normalize("NFC", text[:end].replace("\r\n", "\n"))
        if block:
            empty = empty and block.isspace()
            yield block
    if empty and not held.strip():
        raise ValueError(f"file: {str(file)!r}: expected text, got an empty file")
    yield unicodedata.normalize("NFC", held.replace("\r\n", "\n"))


def read_text(
    file: str | Path,  # UTF-8, also compressed with gzip
) -> str:  # in Unicode's form NFC, lines ended by a line feed
    "The text in a file. `ValueError`, naming it, where it is empty, broken, binary or not UTF-8."
    return "".join(text_blocks(file))


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


MOST = 2**26  # bytes of a file of JSON
DEEPEST = 32  # lists and objects within each other


def _open_at_once(path, flags):
    "A file's number, without waiting for somebody who writes into a pipe."
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


@contextmanager
def open_regular(
    name: str,  # what the error calls it
    file: str | Path,
    most: int = MOST,  # bytes
) -> Iterator[tuple[BinaryIO, int]]:  # the open file and how many bytes it has
    "Open a regular file. Raises `ValueError`, before it reads, for what is none or is too large."
    path = check_path(name, file)
    try:
        with open(path, "rb", opener=_open_at_once) as opened:
            facts = os.fstat(opened.fileno())  # of what was opened, whatever has its name now
            if not stat.S_ISREG(facts.st_mode):
                raise ValueError("it is no regular file")
            if facts.st_size > most:
                raise ValueError(f"it has {facts.st_size:,} bytes, more than {most:,}")
            yield opened, facts.st_size
    except (OSError, ValueError) as error:  # NUL in a name is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"{name}: expected a file that can be read, got {str(file)!r}: {reason}"
        ) from None


def read_bytes(
    name: str,  # what the error calls it
    file: str | Path,
    most: int = MOST,  # bytes
) -> bytes:
    "All of a regular file. Raises `ValueError` as `open_regular` does."
    with open_regular(name, file, most) as (opened, size):
        return opened.read(size)


def _depth(value):
    "How many lists and objects of JSON lie within each other."
    depth = 0
    level = [value]
    while True:
        level = [part for part in level if isinstance(part, (dict, list))]
        if not level:
            return depth
        depth += 1
        inside = []
        for part in level:
            inside.extend(part.values() if isinstance(part, dict) else part)
        level = inside


def parse_json(
    name: str,  # what the error calls it
    text: str | bytes,  # UTF-8
    where: str | Path,  # it was read
    kind: type = dict,  # or list
) -> Any:  # of that kind
    "What JSON says. Raises `ValueError` unless it is an object, or a list, of a depth in reason."
    try:
        value = json.loads(text if isinstance(text, str) else text.decode("utf-8-sig"))
        depth = _depth(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{name}: expected JSON in {str(where)!r}: {error}") from None
    if not isinstance(value, kind) or depth > DEEPEST:
        expected = f"a JSON {'object' if kind is dict else 'list'} at most {DEEPEST} deep"
        raise ValueError(f"{name}: expected {expected} in {str(where)!r}, got {value!r:.100}")
    return value


def read_json(
    name: str,  # what the error calls it
    file: str | Path,
    kind: type = dict,  # or list
) -> Any:  # of that kind
    "What a file of JSON says. Raises `ValueError` as `read_bytes` and `parse_json` do."
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
    "Whatever goes wrong within `with` is a `ValueError` of one sentence."
    try:
        yield
    except Exception as error:
        message = " ".join(str(error).split())[:1000]
        if not message.startswith(f"{name}: "):
            kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
            message = f"{name}: expected {expected}: {kind}{message}"
        raise ValueError(message) from None
