"""Files that are whole or absent: every bit flipped, every length cut, full disks, locked folders,
and processes killed while they write."""

import json
import os
import re
import sys
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
from file_tools import Small, nothing_changes, same
from process_tools import Fork, succeeds
from refusals import refuses
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import former_nb
from former_nb.base.checkpoints import CHECKPOINT, atomic_write, read_checkpoint, write_checkpoint
from former_nb.base.results import make_once

POSIX = pytest.mark.skipif(os.name != "posix", reason="needs POSIX")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
NAN = float("nan")

DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()
DTYPES = [getattr(torch, name) for name in (*DTYPES, "float8_e4m3fn", "float8_e5m2")]
SHAPES = [(), (1,), (3,), (0,), (0, 4), (2, 0), (2, 3), (2, 1, 3)]


def tensor(shape, dtype, seed=0):
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * 3
    if dtype == torch.bool:
        return numbers > 0
    return (numbers if dtype.is_floating_point else numbers.abs()).to(dtype)


def varied():
    "Tensors of every kind, 0.5 KiB in all."
    layer = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))
    return {
        "model.weight": layer,
        "model.tied": layer,
        "transposed": layer.T,
        "strided": torch.arange(10)[::3],
        "expanded": torch.ones(1, 2).expand(3, 2),
        "scalar": torch.tensor(2.5),
        "empty": torch.zeros(0, 5),
        "yes": torch.tensor([True, False, True]),
        "small": torch.arange(-2, 3, dtype=torch.int8),
        "half": torch.randn(5).bfloat16(),
        "ąžuolas": torch.tensor([NAN, -0.0, float("inf")]),
        "parameter": nn.Parameter(torch.ones(2)),
    }


FACTS = {
    "step": 7,
    "text": 'ąž "quoted" \\ \n\x1f 🙂 \ud800',
    "nested": [1, 2.5, None, True, {"": []}],
    "tiny": 5e-324,
    "third": 1 / 3,
}


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(tmp_path / "run", varied(), FACTS)
    return tmp_path / "run"


def refused(folder, *words):
    with pytest.raises(ValueError) as raised:
        read_checkpoint(folder)
    said = str(raised.value)
    assert said.startswith("folder: ") and str(folder) in said, said
    assert all(word in said for word in words), said
    return said


# ---------------------------------------------------------------- what is written comes back


def test_everything_comes_back_bit_for_bit(folder):
    tensors, metadata = read_checkpoint(folder)
    wanted = {name: t.detach() for name, t in varied().items()}
    assert same(tensors, wanted | {"half": tensors["half"]})
    assert metadata == FACTS and [file.name for file in folder.iterdir()] == [CHECKPOINT]
    assert not any(t.requires_grad for t in tensors.values())
    # they are the reader's own, and share nothing with the file or each other
    tensors["model.weight"].zero_()
    assert tensors["model.tied"].any() and read_checkpoint(folder)[0]["model.weight"].any()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_and_shape(tmp_path, dtype):
    tensors = {str(shape): tensor(shape, dtype, i) for i, shape in enumerate(SHAPES)}
    write_checkpoint(tmp_path, tensors, {})
    assert same(read_checkpoint(tmp_path)[0], tensors)


def test_a_result_is_made_once_for_each_of_its_settings(tmp_path):
    asked = []

    def once(name="a b", **settings):
        def make():
            asked.append(settings)
            return {"w": tensor((2,), torch.float32, 1)}, settings

        return make_once(tmp_path, name, settings, make)

    first, again = once(lr=0.1, sizes=[1, {"d": 2}]), once(sizes=[1, {"d": 2}], lr=0.1)
    assert again[1] == first[1] and same(again[0], first[0]) and len(asked) == 1
    once(lr=0.1, sizes=[1, {"d": 3}]), once(lr=1, sizes=[1, {"d": 2}]), once(lr=0.1)
    for name in ("a-b", "../a/b\0", "ą" * 300, ""):
        once(name=name, lr=0.1)
    assert len(asked) == 8 and len(list(tmp_path.iterdir())) == 8  # and nothing beside the folder


def test_a_result_that_was_not_finished_is_made_again(tmp_path):
    def fails():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        make_once(tmp_path, "a", {}, fails)
    assert not list(tmp_path.iterdir())
    make_once(tmp_path, "a", {}, lambda: ({}, {"n": 1}))
    [file] = tmp_path.rglob(CHECKPOINT)
    file.write_bytes(file.read_bytes()[:-1])
    assert make_once(tmp_path, "a", {}, lambda: ({}, {"n": 2})) == ({}, {"n": 2})
    assert make_once(tmp_path, "a", {}, fails) == ({}, {"n": 2})


def test_it_is_an_ordinary_safetensors_file(folder):
    assert same(load_file(folder / CHECKPOINT), read_checkpoint(folder)[0])
    with safe_open(folder / CHECKPOINT, "pt") as f:
        about = f.metadata()
    assert about["format"] == "pt" and json.loads(about["metadata"]) == FACTS
    assert re.fullmatch("[0-9a-f]{64}", about["sha256"])


@POSIX
@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_others_may_read_what_the_umask_lets_them(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_checkpoint(tmp_path, varied(), {})
        Small(3).save_pretrained(tmp_path)
        modes = {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert len(modes) == 4 and set(modes.values()) == {0o666 & ~umask}


# ---------------------------------------------------------------- damage


def test_every_single_bit_counts(tmp_path):
    "All of them, of header, names, facts, hash and numbers."
    tensors = {"é": torch.randn(2), "yes": torch.tensor([True])}
    write_checkpoint(tmp_path, tensors, {"step": 10, "text": "ą\x1f"})
    file = tmp_path / CHECKPOINT
    raw = file.read_bytes()
    for place in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        refused(tmp_path)


def test_every_length_but_the_right_one(folder):
    file = folder / CHECKPOINT
    raw = file.read_bytes()
    for length in sorted({*range(20), *range(0, len(raw), 7), len(raw) - 1}):
        file.write_bytes(raw[:length])
        refused(folder, "not whole")
    for more in (b"\0", b" ", raw):
        file.write_bytes(raw + more)
        refused(folder, "not whole")


def rewrite(folder, change):
    "The same file, after `change(tensors, about)`; the hash stays what it was."
    with safe_open(folder / CHECKPOINT, "pt") as f:
        about, tensors = f.metadata(), {name: f.get_tensor(name).clone() for name in f.keys()}
    change(tensors, about)
    save_file(tensors, folder / CHECKPOINT, metadata=about or None)


def tamper(tensors=None, **about):
    "A change that puts these tensors or these facts in the place of others."

    def change(t, a):
        t.update({} if tensors is None else tensors(t))
        a.update({name: how(a) for name, how in about.items()})

    return change


TAMPER = {
    "metadata": tamper(metadata=lambda a: a["metadata"].replace('"step": 7', '"step": 8')),
    "facts, same meaning": tamper(metadata=lambda a: a["metadata"] + " "),
    "no facts": lambda t, about: about.pop("metadata"),
    "no hash": lambda t, about: about.pop("sha256"),
    "a hash in capitals": tamper(sha256=lambda a: a["sha256"].upper()),
    "one fact more in the header": tamper(more=lambda a: "x"),
    "another format": tamper(format=lambda a: "np"),
    "a name": tamper(lambda t: {"other": t.pop("scalar")}),
    "a tensor gone": lambda t, about: t.pop("empty"),
    "a tensor more": tamper(lambda t: {"more": torch.zeros(0)}),
    "a shape": tamper(lambda t: {"model.weight": t["model.weight"].reshape(3, 2)}),
    "a type": tamper(lambda t: {"model.weight": t["model.weight"].view(torch.int32)}),
    "the sign of a zero": tamper(lambda t: {"ąžuolas": t["ąžuolas"].abs()}),
}


@pytest.mark.parametrize("change", TAMPER.values(), ids=TAMPER)
def test_what_is_changed_by_hand_is_refused(folder, change):
    rewrite(folder, lambda tensors, about: None)
    assert read_checkpoint(folder)[1] == FACTS
    rewrite(folder, change)
    refused(folder, "is not as it was written")


@pytest.mark.parametrize(
    "change",
    [
        lambda t, about: about.update(version="99"),
        lambda t, about: about.pop("version"),
        lambda t, about: about.clear(),
    ],
)
def test_another_version_and_another_file(folder, change):
    rewrite(folder, change)
    refused(folder, "is not as it was written")


def test_no_pickle_is_ever_opened(folder):
    torch.save({"a": torch.ones(1)}, folder / CHECKPOINT)
    never = dict(side_effect=AssertionError)
    with (
        patch("pickle.loads", **never),
        patch("pickle.load", **never),
        patch("torch.load", **never),
    ):
        refused(folder, "not whole")
    loads = r"torch\.load\b|torch\.save\b|allow_pickle=True"
    loads += r"|^\s*(import|from) (pickle|dill|joblib|shelve|marshal)\b"
    for file in Path(former_nb.__file__).parent.rglob("*.py"):
        assert not re.search(loads, file.read_text(encoding="utf-8"), re.M), file


def test_nothing_there(tmp_path):
    refused(tmp_path, "checkpoint.safetensors")
    refused(tmp_path / "missing", "checkpoint.safetensors")
    (tmp_path / CHECKPOINT).mkdir()
    refused(tmp_path, "checkpoint.safetensors")


# ---------------------------------------------------------------- full disks, locked folders


def fails(folder, tensors=None):
    said = "^folder: no checkpoint could be written to .*, and the one before stays: "
    with pytest.raises(OSError, match=said):
        write_checkpoint(folder, tensors or varied(), {"step": 8})


LIMITED = """
import resource, sys, torch
from former_nb.base.checkpoints import read_checkpoint, write_checkpoint
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
folder = sys.argv[1]
config = TransformerConfig(vocab_size=50, max_len=8, d_model=64, n_heads=2, n_layers=1, d_ff=64)
model = LanguageModel.from_config(config)
model.save_pretrained(folder)
write_checkpoint(folder, {"a": torch.ones(10)}, {"step": 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # no file may be longer
for size in (10**5, 10**6):
    try:
        write_checkpoint(folder, {"a": torch.ones(size)}, {"step": 2})
    except OSError as error:
        assert str(error).startswith("folder: no checkpoint could be written"), error
    else:
        raise SystemExit("a file was written that could not be")
try:
    model.save_pretrained(folder)
except OSError as error:
    assert "save_directory" in str(error), error
else:
    raise SystemExit("a model was written that could not be")
assert read_checkpoint(folder)[1] == {"step": 1}
LanguageModel.from_pretrained(folder)
"""


@POSIX
def test_no_room_for_a_file(tmp_path):
    succeeds(LIMITED, tmp_path / "run")
    kept = {"README.md", CHECKPOINT, "config.json", "model.safetensors"}
    assert {file.name for file in (tmp_path / "run").iterdir()} == kept


@pytest.mark.parametrize(
    "call",
    ["os.fsync", "os.replace", "tempfile.mkdtemp", "former_nb.base.checkpoints.write_tensors"],
)
def test_whatever_the_system_refuses(folder, call):
    with nothing_changes(folder), patch(call, side_effect=OSError(28, "No space left on device")):
        fails(folder)
    assert read_checkpoint(folder)[1] == FACTS


def test_a_file_where_a_folder_should_be(tmp_path):
    (tmp_path / "file").write_text("mine")
    with nothing_changes(tmp_path):
        fails(tmp_path / "file"), fails(tmp_path / "file" / "run")
        with pytest.raises(OSError):
            Small(3).save_pretrained(tmp_path / "file")


# ---------------------------------------------------------------- processes that are killed

FORKING = """
import os, random, signal, sys, time, torch
from former_nb.base import checkpoints
from former_nb.base.checkpoints import read_checkpoint, write_checkpoint

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def killed(work, after=None):  # in a copy of this process; `after` so many seconds
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(1)
    if after is not None:
        time.sleep(after)
        os.kill(child, signal.SIGKILL)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
"""

ANY_MOMENT = (
    FORKING
    + """
folder, rng, step, kills, kills_within = sys.argv[1], random.Random(0), 0, 0, 0

def write(step):
    tensors = {"weight": torch.full((300, 500), float(step)), "more": torch.arange(step % 1000)}
    write_checkpoint(folder, tensors, {"step": step})

def write_on(step):
    while True:
        step += 1
        write(step)

def die_after(n):  # writes
    for k in range(1, n + 1):
        write(k)
    die()

begin = time.perf_counter()
killed(lambda: die_after(5))
step, some = 5, time.perf_counter() - begin  # as long as a process and five writes take here
while kills < 12 or step <= 10 or kills_within <= 2:  # a busy machine needs more than 12
    kills += 1
    assert kills < 500, (step, kills_within)
    killed(lambda: write_on(step), after=some * rng.random())
    some *= 1 if step > 5 else 1.2  # nothing was written yet: give the next one longer
    left = [name for name in os.listdir(folder) if name.startswith(".writing-")]
    kills_within += len(left) > kills_within
    tensors, facts = read_checkpoint(folder)
    assert facts["step"] >= step and tensors["weight"].eq(facts["step"]).all()
    step = facts["step"]
    assert len(tensors["more"]) == step % 1000
"""
)


@POSIX
def test_a_kill_at_any_moment_leaves_a_whole_file(tmp_path):
    """A dozen processes or more that write all the time, each killed at a random moment; a reader
    looks on meanwhile."""
    write_checkpoint(tmp_path, {"weight": torch.zeros(1)}, {"step": 0})
    work, seen = Fork(ANY_MOMENT, tmp_path), [0]
    while work.poll() is None:
        tensors, metadata = read_checkpoint(tmp_path)
        assert metadata["step"] >= seen[-1] and tensors["weight"].eq(metadata["step"]).all()
        seen.append(metadata["step"])
    done = work.wait()
    assert done.returncode == 0, done.stderr
    assert read_checkpoint(tmp_path)[1]["step"] > 10
    names = [file.name for file in tmp_path.iterdir()]
    assert all(name == CHECKPOINT or name.startswith(".writing-") for name in names)


# ---------------------------------------------------------------- staged


def test_staged_files_appear_together_or_not_at_all(tmp_path):
    folder = tmp_path / "new" / "deep"
    with atomic_write(folder) as inside:
        (inside / "a").write_text("1"), (inside / "b").write_text("1")
        assert inside.name.startswith(".writing-")
        assert [p.name for p in folder.iterdir()] == [inside.name]
    assert sorted(p.name for p in folder.iterdir()) == ["a", "b"]
    for error in (RuntimeError, KeyboardInterrupt, SystemExit):
        with nothing_changes(folder), pytest.raises(error):
            with atomic_write(folder) as inside:
                (inside / "a").write_text("2")
                raise error
    full = patch("os.fsync", side_effect=[None, OSError(28, "full")])
    with nothing_changes(folder), full, pytest.raises(OSError), atomic_write(folder) as inside:
        # the second file does not reach the disk: neither is renamed
        (inside / "a").write_text("3"), (inside / "b").write_text("3")
    with nothing_changes(folder), atomic_write(folder):
        pass  # nothing to write


@POSIX
def test_a_file_is_flushed_before_it_gets_its_name(tmp_path):
    events, fsync, replace = [], os.fsync, os.replace
    with (
        patch("os.fsync", lambda f: (events.append("flush"), fsync(f))[1]),
        patch("os.replace", lambda a, b: (events.append("rename"), replace(a, b))[1]),
    ):
        with atomic_write(tmp_path) as inside:
            (inside / "a").write_text("1"), (inside / "b").write_text("1")
    assert events == ["flush", "flush", "rename", "rename", "flush"]  # the last is the folder's


# ---------------------------------------------------------------- bad input


LOOP = {}
LOOP["a"] = LOOP
BAD = {
    "a number": ({"a": 1.0}, {}, AttributeError),
    "a sparse tensor": ({"a": torch.eye(3).to_sparse()}, {}, RuntimeError),
    "a tensor without numbers": ({"a": torch.ones(3, device="meta")}, {}, NotImplementedError),
    "a type that the format lacks": ({"a": torch.ones(2, dtype=torch.complex128)}, {}, KeyError),
    "a name that is a number": ({1: torch.ones(1)}, {}, TypeError),
    "facts in a list": ({}, [1], ValueError),
    "facts with a tuple": ({}, {"a": (1, 2)}, ValueError),
    "facts with NaN": ({}, {"a": NAN}, ValueError),
    "facts with a number for a name": ({}, {1: "a"}, ValueError),
    "facts with a tensor": ({}, {"a": torch.ones(1)}, TypeError),
    "facts that hold themselves": ({}, LOOP, ValueError),
}


@pytest.mark.parametrize(("tensors", "metadata", "kind"), BAD.values(), ids=BAD)
def test_what_cannot_be_written_is_refused_before_anything_is(tmp_path, tensors, metadata, kind):
    with pytest.raises(kind):
        write_checkpoint(tmp_path / "run", tensors, metadata)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_what_is_no_path_or_no_settings():
    for bad in (None, 3, ""):
        refuses(lambda: write_checkpoint(bad, {}, {}), TypeError, "folder")
        refuses(lambda: read_checkpoint(bad), TypeError, "folder")
        refuses(lambda: Small(3).save_pretrained(bad), TypeError, "save_directory")
    for bad, kind in (([1], ValueError), ({"lr": NAN}, ValueError), ({"a": Path()}, TypeError)):
        with pytest.raises(kind):
            make_once("x", "a", bad, lambda: ({}, {}))
