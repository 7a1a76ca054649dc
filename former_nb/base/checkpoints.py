"""Files that are whole or absent, and that say when a bit of them was changed.

A checkpoint is one safetensors file. Its header is JSON and may carry text, so it carries all that
is no tensor, a version, and the SHA-256 of everything. One file is of one moment, and there is
nothing in it to run, as there is in a pickle. The hash protects against accidents only, because a
person who rewrites the file can also compute its digits.
"""

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors

from .files import check_path, parse_json, read_bytes

__all__ = [
    "CHECKPOINT",
    "atomic_write",
    "write_file",
    "checksum",
    "as_json",
    "write_tensors",
    "write_checkpoint",
    "read_safetensors",
    "read_tensors",
    "read_checkpoint",
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
    "Write a text, whole or not at all. Raises `OSError`."
    path = check_path(name, file)
    if path.is_dir():
        raise IsADirectoryError(f"{name}: expected a file, got the folder {str(path)!r}")
    with atomic_write(path.parent, name, path) as temporary:
        (temporary / path.name).write_text(text, encoding="utf-8", newline="\n")
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


def read_safetensors(
    name: str,  # what errors call it
    file: str | Path,
) -> tuple[dict[str, torch.Tensor], dict]:  # tensors on the CPU, and metadata
    "What a file holds. It is opened once, as `safe_open` doesn't, and may be replaced meanwhile."
    raw = read_bytes(name, file)
    tensors = safetensors.load(raw)
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    return tensors, header.get("__metadata__", {})


def read_tensors(
    name: str,  # what errors call it
    file: Path,
) -> tuple[dict[str, torch.Tensor], dict]:  # tensors on the CPU, and metadata
    "What `write_tensors` wrote. Raises `ValueError` unless all of it is as it was written."
    try:
        tensors, about = read_safetensors(name, file)
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
