"""Paths and files of your own and of others, read strictly; a sentence names file and place.

Whatever path a user gives goes through `check_path`, and whatever text through one reader: UTF-8,
packed by gzip or not, from a file or from standard input. A line ends at a line feed, with or
without a carriage return before it, and nowhere else. So all that count lines count alike.

A published file is known by its digits. A file that you bring can be empty, cut short, in another
encoding, or no text at all: `read_text` and `read_names` refuse what a model would silently train
on. An odd control character, such as U+0085 in many reviews from the web, is a character like any
other. Only NUL says that a file is no text.

A folder with a model in it may be anybody's, and what it holds can be made to do harm: a link to a
device that never ends, a pipe that never begins. So all that is
read from one goes through `read_bytes` and `read_json`, which look before they open. A file must be
a regular one of a size in reason, JSON must be an object, and keys that we do not know are refused.
"""

import codecs
import gzip
import io
import json
import os
import re
import stat
import unicodedata
import warnings
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import former_nb

__all__ = [
    "check_path",
    "check_folder",
    "SHIPPED",
    "find_model",
    "text_blocks",
    "text_lines",
    "read_text",
    "read_whole",
    "read_names",
    "open_regular",
    "read_bytes",
    "parse_json",
    "read_json",
    "check_keys",
    "reading",
    "write_new",
]


NO_BEGINNING = {  # of a path that does not exist: what it looks like -> what was expected
    r"~": "the home of a user there is",
    r"[A-Za-z][\w+.-]+:/": "a path on this machine, no address",
}
NO_NAME = {  # of its parts that do not exist
    r".*\${\w+}|(.*[/\\])?\$\w+([/\\]|$)": "a path without variables, which only a shell expands",
    r"(.*[/\\])?\s|.*\s([/\\]|$)": "names without spaces at their ends",
    r".*[\x00-\x1f\x7f]": "names of visible characters",
    r".*[\ud800-\udfff]": "names in UTF-8",
}


def check_path(
    name: str,  # what the error calls it
    value,  # what came
) -> Path:
    """`value` as a path in which `~`, or `~user`, became a home. Every path that a user gives
    comes through here: an argument, an option, a setting, an environment variable.

    We expand `~` as pandas does, because a shell does so at the beginning of a word only. We do
    not expand `$HOME`, as neither pandas nor pathlib do. So that no folder of that name is made,
    we refuse it, and what else is hardly meant as a name: an address, spaces at the ends, control
    characters. What exists under such a name is accepted. Raises `TypeError` or `ValueError`.
    """
    text = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(text, str) or not text:
        raise TypeError(f"{name}: expected a path, got {value!r:.200}")
    path = Path(os.path.expanduser(text))
    try:
        os.lstat(path)
        return path
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:  # a closed folder, a long name, NUL, half a character
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{name}: expected a path, got {text!r:.200}: {reason}") from None
    above = next((part for part in path.parents if os.path.lexists(part)), Path())
    for slips, looked_at in ((NO_BEGINNING, path), (NO_NAME, path.relative_to(above))):
        for slip, expected in slips.items():
            if re.match(slip, str(looked_at), re.DOTALL):
                raise ValueError(f"{name}: expected {expected}, got {text!r:.200}")
    return path


SHIPPED = Path(former_nb.__file__).with_name("models")  # models that ship, a folder each
OF_MODEL = ("config.json", "model.safetensors", "run.json")  # one of them is in each model's folder


def find_model(
    name: str | Path,  # a folder, or the name of a model that ships
) -> Path:  # its folder
    """Where a model is. A folder wins over a model that ships under that name if it holds a model
    or a run; if it holds neither, a warning says which is meant. Raises `ValueError` for none."""
    folder = check_path("model", name)
    shipped = sorted(file.parent.name for file in SHIPPED.glob("*/config.json"))
    ships = str(name) in shipped
    if folder.is_dir():
        path = not ships or isinstance(name, Path)  # as './names' is, and 'names' may not be
        if path or any(os.path.exists(folder / file) for file in OF_MODEL):
            return folder
        note = f"this is the model {name!r} that ships, because the folder {name!r} holds none"
        warnings.warn(f"model: {note}", stacklevel=3)
    if not ships:
        expected = f"a folder, or a model that ships ({', '.join(shipped)})"
        hub = f'; one on the hub: from_hugging_face({str(name)!r}, revision="main")'
        raise ValueError(f"model: expected {expected}{hub}, got {str(folder)!r}")
    return SHIPPED / name


BLOCK = 2**20  # bytes that are read at a time


STRANGERS = {  # how a file begins that holds no text -> what it is
    rb"\xff\xfe\0\0|\0\0\xfe\xff": "UTF-32; save it as UTF-8",
    rb"\xff\xfe|\xfe\xff": "UTF-16; save it as UTF-8",
    rb"PK(\x03\x04|\x05\x06)": "a zip archive, as xlsx and docx are; unpack it, or save it as text",
    rb"\xfd7zXZ\0": "a file packed by xz; unpack it, or pack it by gzip",
    rb"[\x22-\x28]\xb5\x2f\xfd": "a file packed by zstd; unpack it, or pack it by gzip",
    rb"BZh[1-9](1AY&SY|\x17rE8P\x90)": "a file packed by bzip2; unpack it, or pack it by gzip",
    rb"\x04\x22\x4d\x18": "a file packed by lz4; unpack it, or pack it by gzip",
    rb"7z\xbc\xaf|Rar!\x1a|\x1f\x9d": "an archive; unpack it",
    rb".{257}ustar": "a tar archive; unpack it",
    rb"PAR1[\0-\x1f]": "a parquet file; save it as CSV",
    rb"ARROW1\0": "an arrow file; save it as CSV",
    rb"\xd0\xcf\x11\xe0": "a file of an old Office; save it as text",
    rb"%PDF-": "a PDF; save its text",
}
FIRST = 262  # bytes that say which of them a file is


def _unpacked(opened, live):
    "The bytes of an open file, unpacked where gzip has packed them."
    source = opened if hasattr(opened, "peek") else io.BufferedReader(opened)
    begin = source.peek(2)[:2]
    if not begin:  # a second look would wait for a second Ctrl-D
        return
    if begin == b"\x1f\x8b":
        source = gzip.GzipFile(fileobj=source)
    read = source.read1 if live else source.read  # which waits until there is a whole block
    while block := read(BLOCK):
        yield block


def _read_blocks(name, file, live=False):
    "The bytes of a file, or of an open one, in blocks. `ValueError` for what is no text at once."
    where = file if isinstance(file, (str, Path)) else "standard input"
    try:
        with open(file, "rb") if where is file else nullcontext(file) as opened:
            first = True
            for block in _unpacked(opened, live):
                for begin, what in STRANGERS.items() if first else ():
                    if re.match(begin, block[:FIRST], re.DOTALL):
                        raise ValueError(f"it is {what}")
                first = False
                yield block
    except (OSError, EOFError, zlib.error, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(f"{name}: expected UTF-8 text in {str(where)!r}: {reason}") from None


def _decode_blocks(name, blocks, file, errors="strict"):
    "The characters of blocks of UTF-8. `ValueError`, with line and position, for what is none."
    line = 1  # in which a block begins
    position = 0  # bytes of this line before the block
    rest = b""  # of a character that the end of a block cuts
    beginning = True
    for block in chain(blocks, [b""]):
        raw = rest + block
        if beginning and block and codecs.BOM_UTF8.startswith(raw):
            rest = raw
            continue
        if beginning:
            raw = raw.removeprefix(codecs.BOM_UTF8)
            beginning = False
        try:
            text, n = codecs.utf_8_decode(raw, errors, not block)
        except UnicodeDecodeError as error:
            *before, last = raw[: error.start].split(b"\n")
            if not before:
                last = b" " * position + last
            place = f"in position {len(last)} of line {line + len(before)}"
            reason = f"byte 0x{raw[error.start]:x} {place} cannot be decoded"
            raise ValueError(f"{name}: expected UTF-8 text in {str(file)!r}: {reason}") from None
        before, nul, _ = text.partition("\0")
        if nul:
            yield before[: before.rfind("\n") + 1]
            number = line + before.count("\n")
            raise ValueError(f"{name}: {str(file)!r}: expected text, got NUL in line {number}")
        yield text
        rest = raw[n:]
        line += text.count("\n")
        newline = raw.rfind(b"\n", 0, n)
        position = n - newline - 1 if newline >= 0 else position + n


def text_lines(
    file: str | Path | BinaryIO,  # UTF-8, also compressed with gzip; an open one is standard input
) -> Iterator[str]:  # without their ends
    """Line after line, as soon as they come. A line ends at LF or CRLF, and nowhere else.

    What is not UTF-8 comes as half characters, so that a bad line costs itself. Raises `ValueError`
    for what is no text.
    """
    path = check_path("file", file) if isinstance(file, (str, Path)) else file
    where = path if isinstance(path, Path) else "standard input"
    held: list[str] = []  # of a line whose end has not come
    blocks = _read_blocks("file", path, live=True)
    for text in _decode_blocks("file", blocks, where, "surrogateescape"):
        *lines, rest = text.split("\n")
        for line in lines:
            yield "".join([*held, line]).removesuffix("\r")
            held.clear()
        if rest:
            held.append(rest)
    if held:
        yield "".join(held)


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
    for text in _decode_blocks("file", _read_blocks("file", path), file):
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


def read_whole(
    name: str,  # what the error calls it
    file: str | Path,  # UTF-8, also compressed with gzip
) -> str:  # as it is written, without a mark of its encoding; may be empty
    "The text in a file that is no data, such as settings. `ValueError` as `read_text` otherwise."
    path = check_path(name, file)
    return "".join(_decode_blocks(name, _read_blocks(name, path), file))


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


@contextmanager
def open_regular(
    name: str,  # what the error calls it
    file: str | Path,
    most: int = MOST,  # bytes
) -> Iterator[tuple[BinaryIO, int]]:  # the open file and how many bytes it has
    "Open a regular file. Raises `ValueError`, before it reads, for what is none or is too large."
    path = check_path(name, file)
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ValueError("it is no regular file")
        with open(path, "rb") as opened:
            size = os.fstat(opened.fileno()).st_size  # of what was opened
            if size > most:
                raise ValueError(f"it has {size:,} bytes, more than {most:,}")
            yield opened, size
    except (OSError, ValueError) as error:
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


def write_new(
    file: Path,
    text: str,
) -> None:
    "Write a file that is not there yet. Raises `OSError`, and then leaves nothing behind."
    try:
        with open(file, "xb") as new:
            new.write(text.encode())
    except FileExistsError:
        raise
    except OSError as error:
        with suppress(OSError):
            os.unlink(file)
        raise OSError(f"{str(file)!r} cannot be written: {error.strerror or error}") from None


def check_folder(
    name: str,  # what the error calls it
    folder,  # what came
) -> None:
    "Raise `ValueError` unless this is a folder that is there."
    there = check_path(name, folder)
    if not there.is_dir():
        raise ValueError(f"{name}: expected a folder that is there, got {str(folder)!r}")
