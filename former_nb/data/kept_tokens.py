"""Tokens of a long text in a file of the cache: the text is read once, and mapped from then on.

A file of text is known by its path, its size and when it was last changed, so nothing of it is read
where its tokens are there. They are whole or absent (`atomic_write`). Beside them are the SHA-256
sums of their parts, and when they were written. Tokens that were touched since are summed again,
and written again where the sums differ. What belongs to an earlier state of the text is removed.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil
import torch
from filelock import FileLock

from ..base.checkpoints import atomic_write
from ..base.files import check_path, read_json
from ..base.guards import check_that

__all__ = [
    "fits_memory",
    "text_name",
    "keep_facts",
    "recall_facts",
    "one_at_a_time",
    "map_tokens",
]

BLOCK = 2**20  # bytes that are read at a time
FREE_SHARE = 0.5  # of the free memory that tokens may take


def _place():
    import pooch

    return check_path("cache", pooch.os_cache("former_nb")) / "tokens"


def cache_folder() -> Path:
    "The folder for tokens on disk, in the cache that also keeps downloads; made if it is missing."
    _place().mkdir(parents=True, exist_ok=True)
    return _place()


def fits_memory(
    name: str,  # what the error calls the text
    needed: int,  # bytes
) -> bool:
    "Whether tokens of so many bytes may stay in memory. `ValueError` if no disk has room, either."
    memory = psutil.virtual_memory().available
    if needed <= FREE_SHARE * memory:
        return True
    folder = cache_folder()
    free = shutil.disk_usage(folder).free
    free += sum(file.stat().st_size for file in folder.glob("*.bin"))  # perhaps of this text
    gigabytes = f"{memory * FREE_SHARE / 1e9:,.1f} GB of memory or {free / 1e9:,.1f} GB of disk"
    expected = f"a text whose tokens fit {gigabytes} in {str(folder)!r}"
    check_that(needed <= free, name, expected, f"{needed / 1e9:,.1f} GB or more")
    return False


# ---- what is known of a file of text


def text_name(
    file: Path,
) -> str:  # two times 16 hexadecimal digits: of its path, and of the state that it is in
    "A name for a file as it is now. It changes when the file does."
    facts = file.stat()
    state = f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
    digits = [hashlib.sha256(text.encode()).hexdigest() for text in (str(file.resolve()), state)]
    return "-".join(each[:16] for each in digits)


def keep_facts(
    name: str,  # from `text_name`
    first: dict[str, int],  # where each character comes first
    length: int,  # characters
) -> None:
    "Write down what reading a text has found. A warning where that cannot be written."
    try:
        with atomic_write(cache_folder()) as temporary:
            (temporary / f"{name}.json").write_text(json.dumps({"length": length, "first": first}))
        _forget_older(name)
    except OSError as error:
        why = error.strerror or error
        warnings.warn(f"text: it is read again next time: {why}", stacklevel=4)


def recall_facts(
    name: str,  # from `text_name`
) -> tuple[dict[str, int], int] | None:  # as for `keep_facts`; None where nothing is known
    "What an earlier run has found in the text."
    try:
        facts = read_json("text", cache_folder() / f"{name}.json")
        first, length = facts["first"], facts["length"]
        known = type(length) is int and all(type(i) is int for i in first.values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return (first, length) if known else None


def _forget_older(name):
    "Remove what was kept of earlier states of the same file."
    path, state = name.split("-")[:2]
    for file in cache_folder().glob(f"{path}-*"):
        if not file.name.startswith(f"{path}-{state}"):
            with suppress(OSError):  # Windows keeps a file that is open
                file.unlink()


@contextmanager
def one_at_a_time(
    name: str,  # of what is written
) -> Iterator[None]:
    "Within `with`, other processes that would write the same wait, if the folder is writable."
    with ExitStack() as held:
        with suppress(OSError):
            held.enter_context(FileLock(cache_folder() / f"{name}.lock"))
        yield


# ---- tokens


def _part_sums(file, ends, kind):
    "The SHA-256 of each part of a row in a file: its type, its shape, its bytes."
    sums = []
    start = 0
    with open(file, "rb") as content:
        for end in ends:
            seen = hashlib.sha256(f"{kind} {(end - start,)} ".encode())
            left = (end - start) * kind.itemsize
            while block := content.read(min(BLOCK, left)):
                seen.update(block)
                left -= len(block)
            sums.append(seen.hexdigest())
            start = end
    return sums


def _recall_sums(file, ends, kind):
    "The sums of the parts of a row in a file; None unless it is what was written there."
    try:
        facts = file.stat()
        note = read_json("text", file.with_suffix(".json"))
        sums, written = note["sums"], note["mtime_ns"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if facts.st_size != ends[-1] * kind.itemsize:
        return None
    if facts.st_mtime_ns != written and _part_sums(file, ends, kind) != sums:
        return None
    return sums


def _write_tokens(file, arrays, ends, kind):
    "Write a row and its sums, which are returned."
    needed, free = ends[-1] * kind.itemsize, shutil.disk_usage(file.parent).free
    if needed > free:
        raise OSError(f"it has {free / 1e9:,.1f} GB left, and {needed / 1e9:,.1f} GB are needed")
    with atomic_write(file.parent) as temporary:
        with open(temporary / file.name, "wb") as out:
            for array in arrays:
                out.write(array.data)
        sums = _part_sums(temporary / file.name, ends, kind)
        note = {"sums": sums, "mtime_ns": (temporary / file.name).stat().st_mtime_ns}
        (temporary / file.name).with_suffix(".json").write_text(json.dumps(note))
    size = f"{needed / 1e9:,.1f} GB of tokens are in {str(file)!r} and read from there"
    warnings.warn(f"text: its {size}; delete them when no run needs them", stacklevel=6)
    return sums


def map_tokens(
    make_arrays: Callable[[], Iterable[np.ndarray]],  # the tokens from the first, in arrays
    name: str,  # of the text, its tokenizer and its parts
    ends: list[int],  # of the parts, the last is how many tokens there are
    kind: torch.dtype,
) -> tuple[torch.Tensor, list[str]]:  # all tokens, (N,), and the SHA-256 of each part
    """The tokens that are kept under a name, written first unless they are there, and whole.

    What is written into the row stays in this process. A warning says where a new file is. Raises
    `OSError` where it cannot be written.
    """
    try:
        file = cache_folder() / f"{name}.bin"
        with one_at_a_time(name):
            sums = _recall_sums(file, ends, kind)
            if sums is None:
                if file.exists():
                    changed = f"{str(file)!r} is not what was written there, so it is written again"
                    warnings.warn(f"text: {changed}", stacklevel=5)
                sums = _write_tokens(file, make_arrays(), ends, kind)
        return torch.from_file(str(file), shared=False, size=ends[-1], dtype=kind), sums
    except OSError as error:
        first = error.__cause__ if isinstance(error.__cause__, OSError) else error
        where = f"text: its tokens could not be written to {str(_place())!r}"
        raise OSError(f"{where}: {first.strerror or first}") from error
