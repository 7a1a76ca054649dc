"""Files that are whole or absent, and that say when a bit of them was changed.

A checkpoint is one safetensors file. Its header is JSON and may carry text, so it carries all that
is no tensor, a version, and the SHA-256 of everything. One file is of one moment, and there is
nothing in it to run, as there is in a pickle. The hash protects against accidents only, because a
person who rewrites the file can also compute its digits.
"""

import hashlib
import json
import math
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors

from .files import check_path, open_regular, parse_json
from .guards import check_that, check_type

__all__ = [
    "CHECKPOINT",
    "atomic_write",
    "write_file",
    "checksum",
    "as_json",
    "write_tensors",
    "write_checkpoint",
    "read_tensor",
    "read_safetensors",
    "read_tensors",
    "read_checkpoint",
    "stopped_at",
]

CHECKPOINT = "checkpoint.safetensors"
VERSION = "2"  # of what is written below


def _sync(path):
    "Ask the disk to keep a file, or the names in a folder, where the system can be asked."
    with suppress(OSError if os.path.isdir(path) else ()):
        handle = os.open(path, os.O_RDONLY if os.path.isdir(path) else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def atomic_write(
    folder: str | Path,  # made where it is missing
    name: str = "folder",  # what the error calls it
    place: Path | None = None,  # that the error names; the folder if left out
) -> Iterator[Path]:  # a temporary folder to write files into
    """Files written into the temporary folder appear in `folder` whole, by one rename each.

    Raises `OSError`, naming the place, where one can't be written. Then all are as before.
    """
    folder = check_path(name, folder)
    temporary = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".writing-", dir=folder))
        yield temporary
        umask = os.umask(0)  # it can only be read by setting it
        os.umask(umask)
        mode = 0o666 & ~umask
        files = sorted(temporary.iterdir())
        for file in files:
            if stat.S_IMODE(file.stat().st_mode) != mode:  # some writers let only the owner read
                file.chmod(mode)
            _sync(file)
        for file in files:
            os.replace(file, folder / file.name)
        _sync(folder)
    except (OSError, SafetensorError) as error:  # the second, too, is what a full disk says
        first: BaseException = error
        while isinstance(first.__cause__, (OSError, SafetensorError)):  # one within the other
            first = first.__cause__
        reason = getattr(first, "strerror", None) or first
        raise OSError(f"{name}: {str(place or folder)!r} cannot be written: {reason}") from first
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def write_file(
    name: str,  # what the error calls it
    file: str | Path,
    text: str,
) -> Path:  # the same file
    "Write a text, whole or not at all; a pipe or a device is written as it is. Raises `OSError`."
    path = check_path(name, file)
    target = Path(os.path.realpath(path))  # of a link, so that the link stays
    if target.is_dir():
        raise IsADirectoryError(f"{name}: expected a file, got the folder {str(path)!r}")
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8", newline="\n")
        return path
    with atomic_write(target.parent, name, path) as temporary:
        (temporary / target.name).write_text(text, encoding="utf-8", newline="\n")
    return path


def checksum(
    tensors: dict[str, torch.Tensor],  # on the CPU
    metadata: str = "",  # JSON
) -> str:  # 64 hexadecimal digits
    "The SHA-256 of all that a checkpoint holds: names, types, shapes, bytes and metadata."
    seen = hashlib.sha256(json.dumps([VERSION, metadata]).encode())
    for name, t in sorted(tensors.items()):
        seen.update(json.dumps([name, str(t.dtype), t.shape]).encode())
        seen.update(t.contiguous().flatten().view(torch.uint8).numpy().data)
    return seen.hexdigest()


def as_json(
    name: str,  # what the error calls it
    metadata: dict,
) -> str:
    "A dict as text. Raises for what would come back changed, such as tuples or NaN."
    text = json.dumps(metadata)
    if not isinstance(metadata, dict) or json.loads(text) != metadata:
        raise ValueError(f"{name}: expected a dict that JSON keeps as it is, got {metadata!r:.200}")
    return text


def write_tensors(
    file: str | Path,
    tensors: dict[str, torch.Tensor],  # on the CPU
    metadata: str,  # JSON
) -> None:
    "One safetensors file that carries metadata and the checksum of both."
    about = {"format": "pt", "version": VERSION, "metadata": metadata}
    about["sha256"] = checksum(tensors, metadata)
    raw = safetensors.save(tensors, metadata=about)
    size = int.from_bytes(raw[:8], "little")  # of the header, whose order is left to chance
    header = json.loads(raw[8 : 8 + size])
    header = json.dumps(header, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    with open(file, "wb") as out:
        out.write(len(header).to_bytes(8, "little") + header)
        out.write(memoryview(raw)[8 + size :])


def write_checkpoint(
    folder: str | Path,  # made where it is missing
    tensors: dict[str, torch.Tensor],
    metadata: dict,  # all the rest, fit for JSON
) -> None:
    "Write one file, whole or not at all. Raises `OSError` where that fails; the one before stays."
    text = as_json("metadata", metadata)
    tensors = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in tensors.items()}
    try:
        with atomic_write(folder) as temporary:
            write_tensors(temporary / CHECKPOINT, tensors, text)
    except OSError as error:
        where = f"folder: no checkpoint could be written to {str(folder)!r}"
        raise OSError(f"{where}, and the one before stays: {error.__cause__}") from error.__cause__


TYPES = {  # as safetensors calls them
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "U16": torch.uint16,
    "U32": torch.uint32,
    "U64": torch.uint64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "C64": torch.complex64,
}


def _read_tensor(opened, name, about, start, size):
    "The tensor that a header describes, from byte `start` to at most `size`, and where it ends."
    kind = TYPES.get(about["dtype"])
    shape = about["shape"]
    check_that(kind is not None, name, f"a type among {', '.join(TYPES)}", about["dtype"])
    counts = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
    check_that(counts, name, "a shape of whole numbers", shape)
    end = start + math.prod(shape) * torch.empty(0, dtype=kind).element_size()
    check_that(about["data_offsets"] == [start, end], name, f"bytes {start} to {end}", about)
    check_that(end <= size, name, f"at most {size} bytes", end)
    raw = torch.empty(end - start, dtype=torch.uint8)
    opened.readinto(raw.numpy().data)
    return raw.view(kind).view(shape), end


def read_header(
    name: str,  # what errors call it
    opened,  # a file of safetensors, at its first byte
    file: str | Path,  # where it is
) -> tuple[dict, int]:  # name -> what is said of the tensor, and where the first one begins
    "What the header of an open file says."
    length = int.from_bytes(opened.read(8), "little")
    text = opened.read(min(length, 2**26))  # a longer one is cut, and then no JSON
    return parse_json(name, text, file), 8 + length


def read_tensor(
    name: str,  # what errors call the file
    file: str | Path,  # safetensors
    key: str,  # the tensor's name
) -> torch.Tensor:  # on the CPU
    "One tensor of a file, in memory of its own. Raises `ValueError` or `KeyError` for none."
    with open_regular(name, file, sys.maxsize) as (opened, size):
        header, begin = read_header("header", opened, file)
        start = header[key]["data_offsets"][0]
        opened.seek(begin + start)
        tensor, _ = _read_tensor(opened, key, header[key], start, size - begin)
        return tensor


def read_safetensors(
    name: str,  # what errors call it
    file: str | Path,
    most: int,  # bytes
) -> tuple[dict[str, torch.Tensor], dict]:  # tensors on the CPU, and what the header says besides
    """All tensors of a file, each read into memory of its own, once.

    So a model takes its file's size while it is read, and no more, its weights can be trained, and
    whoever writes the file anew does not change them. Raises `ValueError` unless the tensors of the
    header are what follows it, one behind the other, without a gap.
    """
    tensors = {}
    with open_regular(name, file, most) as (opened, size):
        header, begin = read_header("header", opened, file)
        metadata = header.pop("__metadata__", {})
        check_type("__metadata__", metadata, dict)
        size -= begin
        start = 0
        for key, about in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            tensors[key], start = _read_tensor(opened, key, about, start, size)
        check_that(start == size, name, f"{start} bytes of tensors", size)
    return tensors, metadata


def read_tensors(
    name: str,  # what errors call it
    file: Path,
    most: int | None = None,  # bytes; None accepts what this machine's memory holds
) -> tuple[dict[str, torch.Tensor], dict]:  # tensors on the CPU, and metadata
    "What `write_tensors` wrote. Raises `ValueError` unless all of it is as it was written."
    most = psutil.virtual_memory().total if most is None else most
    try:
        tensors, about = read_safetensors(name, file, most)
        metadata = about.get("metadata", "")
        whole = {"format": "pt", "version": VERSION, "metadata": metadata}
        whole["sha256"] = checksum(tensors, metadata)
    except Exception as error:
        raise ValueError(f"{name}: {str(file)!r} is not whole: {error}") from None
    for key in whole | about:
        if about.get(key) != whole.get(key):
            raise ValueError(f"{name}: {str(file)!r} is not as it was written, see its {key}")
    return tensors, parse_json(name, metadata, file)


def read_checkpoint(
    folder: str | Path,
) -> tuple[dict[str, torch.Tensor], dict]:  # tensors on the CPU, and metadata, as they were written
    "Read the checkpoint of a folder. Raises `ValueError` where a single bit of it was changed."
    return read_tensors("folder", check_path("folder", folder) / CHECKPOINT)


def stopped_at(
    folder: str | Path,
) -> int:  # steps; 0 where there is no checkpoint
    "How far the run in a folder came. Reads a few bytes. Raises `ValueError` if they say nothing."
    file = check_path("folder", folder) / CHECKPOINT
    if not file.exists():
        return 0
    try:
        with open_regular("folder", file, sys.maxsize) as (opened, _):
            header, _ = read_header("folder", opened, file)
        metadata = parse_json("folder", header["__metadata__"]["metadata"], file)
        return int(metadata["progress"]["step"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"folder: {str(file)!r} is not whole: {error}") from None
