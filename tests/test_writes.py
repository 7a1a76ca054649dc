"""A disk that is full at the n-th request: what was there stays, or what is new is there whole.

`ROWS` has all that writes files: in words, and a function that writes the first or the second state
of something into a folder. Each writes the second over the first, for each n, while the n-th
request to the disk fails. Then the folder holds one of both states, no rest of the attempt, and the
error names the place. Once the disk has room again, the next attempt succeeds.
"""

import builtins
import errno
import hashlib
import io
import os
import re
from contextlib import redirect_stdout

import pandas as pd
import pytest
import torch
from safetensors import SafetensorError
from safetensors import torch as safetensors

from former_nb import load_model, save_model
from former_nb.base.checkpoints import atomic_write, write_checkpoint, write_file
from former_nb.commands.folders import claim_folder
from former_nb.commands.train import write_report
from former_nb.data.data_sets import Source, fetch
from former_nb.data.tokenization import SubwordTokenizer
from former_nb.grading import keeping
from former_nb.grading.classes import check_class
from former_nb.inspection.viewer import view
from former_nb.saving.hugging_face import to_hugging_face
from former_nb.tasks import TASKS
from former_nb.tasks.pairs import keep_state

FULL = OSError(errno.ENOSPC, "No space left on device")


class Disk:
    "A disk that refuses one request, counted from 1; 0 refuses none."

    def __init__(self):
        self.refused = 0
        self.asked = 0

    def ask(self, error=FULL):
        self.asked += 1
        if self.asked == self.refused:
            raise error

    def asking(self, function):
        "The same function, which needs the disk."

        def asks(*args, **kwargs):
            self.ask()
            return function(*args, **kwargs)

        return asks

    def saving(self, function):
        "How safetensors write a file by themselves: half of it is there when the disk is full."

        def asks(tensors, file, *args, **kwargs):
            with io.FileIO(file, "w") as begun:
                begun.write(b"half")
            self.ask(SafetensorError("I/O error: No space left on device (os error 28)"))
            return function(tensors, file, *args, **kwargs)

        return asks

    def opening(self, real):
        "`open`, whose files ask for each block that they write."
        disk = self

        class Asking(io.FileIO):
            def write(self, data):
                disk.ask()
                return super().write(data)

        def opened(file, mode="r", buffering=-1, *args, **kwargs):
            if not set(mode) & set("wax+"):
                return real(file, mode, buffering, *args, **kwargs)
            disk.ask()
            opener = kwargs.pop("opener", None)
            raw = Asking(file, mode.replace("b", "").replace("t", ""), opener=opener)
            writer = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            if "b" in mode:
                return writer
            names = ("encoding", "errors", "newline")
            options = dict(zip(names, args)) | kwargs
            return io.TextIOWrapper(writer, **{name: options.get(name) for name in names})

        return opened


@pytest.fixture
def disk(monkeypatch):
    disk = Disk()
    for name in ("fsync", "mkdir"):  # a name takes no room
        monkeypatch.setattr(os, name, disk.asking(getattr(os, name)))
    opened = disk.opening(open)
    monkeypatch.setattr(builtins, "open", opened)
    monkeypatch.setattr(io, "open", opened)
    monkeypatch.setattr(safetensors, "serialize_file", disk.saving(safetensors.serialize_file))
    return disk


# ---------------------------------------------------------------- what writes


def model(second):
    "The model that ships, and the same with other weights."
    loaded = load_model("names")
    if second:
        with torch.no_grad():
            next(loaded.model.parameters()).add_(1)
    return loaded


MODELS = model(False), model(True)
TOKENIZERS = [
    SubwordTokenizer.train([text], 300) for text in ("low lower lowest " * 2, "on and on")
]
PAGES = [view(MODELS[0].model, name, MODELS[0].tokenizer) for name in ("Jo", "Ja")]
STATES = [{"weight": torch.full((3,), float(value))} for value in (0, 1)]
TASK = TASKS["copy"]()
HISTORY = pd.DataFrame({"step": [1, 2], "train": [2.0, 1.0], "valid": [2.0, 1.5]})


def several(folder, second):
    with atomic_write(folder / "several") as temporary:
        for name in "abc":
            (temporary / name).write_text(f"{name} {second}")


def report(folder, second):
    write_report(folder / "run", "copy", TASK, HISTORY, {"seed": int(second)})


def claim(folder, second):
    if not second:
        write_checkpoint(folder / "run", STATES[0], {"progress": {"step": 3}})
    claim_folder(folder / "run", f"run{int(second)}", TASK, overwrite=True)
    if not second:
        write_checkpoint(folder / "run", STATES[0], {"progress": {"step": 3}})


def kept_states(folder, second):
    (folder / "run").mkdir(exist_ok=True)
    keep_state(folder / "run", STATES[:second], STATES[second], 1)


def scores(folder, second):
    file = folder / "mine.py"
    if not second:
        file.write_bytes(b"def broken(:\n")
    check_class([file] * (1 + second), folder / "scores.csv", lambda line: None)


CONTENT = b"to be or not"
PLAY = Source("plays/a.txt", "https://example.org/a.txt", hashlib.sha256(CONTENT).hexdigest())


def download(folder, second):
    if second:
        fetch(PLAY)


class Downloader:
    "Of pooch, without a network."

    def __init__(self, **_):
        pass

    def __call__(self, url, file, pooch):
        with open(file, "wb") as out:
            out.write(CONTENT)


def answer():
    return 1


def keep(folder, second):
    "An answer goes into a file in which it is open."
    if not second:
        (folder / "mine.py").write_bytes(b"def answer():\n    ...\n")
        return
    with redirect_stdout(io.StringIO()) as said:
        kept = keeping.keep(answer, folder / "mine.py")
    if not kept:
        raise OSError(f"{folder}: {said.getvalue()}")


ROWS = {
    "several files": several,
    "a text": lambda folder, second: write_file("file", folder / "a.txt", f"text {second}"),
    "a page": lambda folder, second: PAGES[second].save(folder / "a.html"),
    "a checkpoint": lambda folder, second: write_checkpoint(folder, STATES[second], {"n": 1}),
    "a model": lambda folder, second: save_model(folder / "m", *MODELS[second]),
    "a model alone": lambda folder, second: MODELS[second].model.save_pretrained(folder / "m"),
    "Hugging Face": lambda folder, second: to_hugging_face(MODELS[second].model, folder / "m"),
    "a tokenizer": lambda folder, second: TOKENIZERS[second].save(folder / "t"),
    "a report": report,
    "a folder of a run": claim,
    "weights to be averaged": kept_states,
    "scores of a class": scores,
    "a download": download,
    "an answer that is kept": keep,
}


def contents(folder):
    "What is in all files, by their names; locks are none."
    files = [file for file in folder.rglob("*") if file.is_file() and file.suffix != ".lock"]
    found = {str(file.relative_to(folder)): file.read_bytes() for file in files}
    told = rb'"mtime_ns": \d+|' + re.escape(bytes(folder))  # what differs each time
    return {name: re.sub(told, b"", content) for name, content in found.items()}


@pytest.mark.parametrize("write", ROWS.values(), ids=ROWS.keys())
def test_a_disk_that_is_full_at_any_moment(write, disk, tmp_path, monkeypatch):
    import pooch

    monkeypatch.setattr(pooch, "HTTPDownloader", Downloader)
    monkeypatch.setattr(keeping, "show_file", lambda *_: True)

    def begun(name):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.setattr(pooch, "os_cache", lambda _: folder)
        write(folder, False)
        return folder, contents(folder)

    folder, old = begun("whole")
    write(folder, True)
    new = contents(folder)
    assert new != old
    for n in range(1, 1000):
        folder, _ = begun(str(n))
        disk.asked, disk.refused = 0, n
        said = ""
        try:
            write(folder, True)
        except OSError as error:
            said = str(error)
        reached, disk.refused = disk.asked >= n, 0
        if not reached:
            break
        assert contents(folder) in ([old, new] if said else [new]), (n, said)
        assert not said or folder.name in said, f"{n}: {said}"
        assert not said or "No space left" in said, said
        if said and n < 5:
            write(folder, True)
            assert contents(folder) == new, n
    assert not reached and n > 2
