"""The command line as a user meets it: separate processes, real files, bad input, a run that is killed."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback
from contextlib import redirect_stderr, redirect_stdout

import pandas as pd
import pytest
import torch

from former_nb.batches import make_batches
from former_nb.cli import main
from former_nb.toy_data import NAMES
from former_nb.checkpoints import load_model
from former_nb.text import encode_texts
from former_nb.toy_data import collate_answers
from former_nb.training import exact_match

TINY = ["--epochs", "1", "--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--device", "cpu"]
OFFLINE = {**os.environ, "OMP_NUM_THREADS": "1", "FORMER_NB_DATA": ""}


def process(*words, **options):
    "The command in a process of its own."
    command = [sys.executable, "-c", "from former_nb.cli import main; main()", *map(str, words)]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", env=OFFLINE, timeout=300, **options
    )


def former(*words):
    "The command in this process, which has imported torch already; with one thread, as in `OFFLINE`."
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["former-nb", *map(str, words)])
        patch.setenv("FORMER_NB_DATA", "")
        try:
            code = main() or 0
        except SystemExit as end:
            code = end.code or 0
        except Exception:  # a user would see a traceback
            traceback.print_exc()
            code = 1
    torch.set_num_threads(threads)
    said = []
    for stream in (out, err):
        stream.seek(0)
        said.append(stream.read())
    return subprocess.CompletedProcess(words, code, *said)


def refused(result, *words):
    "Exit code 2 and one sentence that holds `words`."
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    said = [
        line for line in result.stderr.splitlines() if line.strip() and "step/s" not in line
    ]  # no progress bar
    assert len(said) == 1, result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture(scope="session")
def own_names(tmp_path_factory):
    file = tmp_path_factory.mktemp("names") / "own.txt"
    file.write_text("\n".join(NAMES[:60]), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def model(tmp_path_factory, own_names):
    out = tmp_path_factory.mktemp("trained") / "model"
    result = process("train", "names", "--out", out, "--file", own_names, *TINY)
    assert result.returncode == 0, result.stderr
    return out


def test_training_writes_a_whole_folder(model):
    wanted = {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "attention.png",
        "history.csv",
        "training.json",
        "run.json",
        "checkpoint.safetensors",
    }
    assert wanted <= {file.name for file in model.iterdir()}
    assert not [file for file in model.iterdir() if file.name.startswith(".")]
    loaded, tokenizer, _ = load_model(model)
    assert loaded.config.vocab_size == tokenizer.vocab_size


def test_same_seed_same_model_and_same_names(model, own_names, tmp_path):
    assert (
        former("train", "names", "--out", tmp_path / "twin", "--file", own_names, *TINY).returncode
        == 0
    )
    assert (tmp_path / "twin" / "model.safetensors").read_bytes() == (
        model / "model.safetensors"
    ).read_bytes()
    first, second, other = (
        former("generate", "--model", model, "--prompt", "A", "--n", 10, "--seed", seed).stdout
        for seed in (0, 0, 1)
    )
    assert first == second != other
    assert len(first.splitlines()) == 10 and all(
        name.startswith("A") for name in first.splitlines()
    )


@pytest.mark.parametrize(
    "options, words",
    [
        (["--prompt", "ж"], ["prompt", "ж"]),
        (["--prompt", ""], ["prompt"]),
        (["--prompt", "a" * 500], ["prompt"]),
        (["--temperature", "-1"], ["temperature", "-1"]),
        (["--top-k", "0"], ["top_k", "0"]),
        (["--temperature", "nan"], ["temperature", "nan"]),
    ],
)
def test_generate_refuses(model, options, words):
    refused(former("generate", "--model", model, *options), *words)


def test_generate_refuses_folders_that_are_not_models(model, tmp_path):
    refused(process("generate", "--model", tmp_path / "nowhere"), "model", "nowhere")
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(former("generate", "--model", empty), "model", "config.json")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_generate_refuses_half_a_file(model, tmp_path, name):
    half = tmp_path / "half"
    half.mkdir()
    for file in ("config.json", "model.safetensors", "tokenizer.json"):
        content = (model / file).read_bytes()
        (half / file).write_bytes(content[: len(content) // 2] if file == name else content)
    refused(former("generate", "--model", half), "half")


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", ["empty file"]),
        (b"\xff\xfe\x00bad", ["UTF-8"]),
        (b"Jonas\n", ["at least 10", "got 1"]),
    ],
)
def test_training_refuses_bad_names(tmp_path, content, words):
    file, out = tmp_path / "names.txt", tmp_path / "out"
    file.write_bytes(content)
    refused(former("train", "names", "--out", out, "--file", file, *TINY), "file", *words)
    assert not out.exists()


@pytest.mark.parametrize(
    "options, words", [(["--lr", "nan"], ["lr", "nan"]), (["--lr", "1e30"], ["lr", "1e+30"])]
)
def test_a_failed_run_leaves_the_old_model_and_no_new_one(
    model, own_names, tmp_path, options, words
):
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(model, old)
    refused(
        former("train", "names", "--out", old, "--overwrite", "--file", own_names, *TINY, *options),
        *words,
    )
    for name in ("model.safetensors", "config.json", "tokenizer.json", "training.json"):
        assert (old / name).read_bytes() == (model / name).read_bytes()
    refused(former("train", "names", "--out", new, "--file", own_names, *TINY, *options), *words)
    assert not (new / "model.safetensors").exists()


def test_a_model_of_another_size_takes_the_place_of_the_old_one(model, own_names, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(model, out)
    (out / "README.md").write_text("my notes", encoding="utf-8")
    result = former(
        "train", "names", "--out", out, "--overwrite", "--file", own_names, *TINY, "--d-model", "24"
    )
    assert result.returncode == 0, result.stderr
    assert load_model(out)[0].config.d_model == 24
    assert (out / "README.md").read_text(encoding="utf-8") == "my notes"


def test_names_of_one_letter_are_names(tmp_path):
    file = tmp_path / "letters.txt"
    file.write_text("\n".join("abcdefghijklmnopqrstuvwxyz"), encoding="utf-8")
    result = former("train", "names", "--out", tmp_path / "out", "--file", file, *TINY)
    assert result.returncode == 0, result.stderr
    assert "training.json" in {file.name for file in (tmp_path / "out").iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_reader_that_stops_early_is_no_error(model):
    command = [
        sys.executable,
        "-c",
        "from former_nb.cli import main; main()",
        "generate",
        "--model",
        model,
        "--n",
        "5000",
    ]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=OFFLINE)
    run.stdout.readline()
    run.stdout.close()
    assert run.stderr.read() == b"" and run.wait(timeout=60) == 0


def test_training_refuses_bad_sizes_and_places(model, own_names, tmp_path):
    out = tmp_path / "out"
    refused(
        former("train", "names", "--out", out, "--file", own_names, "--d-model", "30"),
        "d_model",
        "30",
    )
    refused(
        former("train", "names", "--out", out, "--file", own_names, "--dropout", "1"), "dropout"
    )
    assert not out.exists()
    before = (model / "model.safetensors").read_bytes()
    refused(
        former("train", "names", "--out", model, "--file", own_names, *TINY), "out", "--overwrite"
    )
    refused(
        former("train", "names", "--out", own_names, "--file", own_names, *TINY), "out", "is a file"
    )
    refused(process("train", "names", "--out", "", "--file", own_names, *TINY, cwd=tmp_path), "out")
    refused(
        former("train", "names", "--out", tmp_path / ("a" * 300), "--file", own_names, *TINY),
        "out: ",
        "name too long",
    )
    refused(
        former("train", "names", "--out", own_names / "deeper", "--file", own_names, *TINY),
        "out: ",
        "cannot be written",
    )
    assert not list(tmp_path.iterdir())
    assert (model / "model.safetensors").read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT] if os.name != "nt" else [])
def test_a_stopped_run_leaves_the_last_good_checkpoint(own_names, tmp_path, stop):
    out = tmp_path / "model"
    options = [
        "--epochs",
        "100000",
        "--d-model",
        "16",
        "--n-layers",
        "1",
        "--lr",
        "1e-5",
        "--device",
        "cpu",
    ]
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored where tests run in the background
    command = [
        sys.executable,
        "-c",
        heed + "from former_nb.cli import main; main()",
        "train",
        "names",
        "--out",
        out,
        "--file",
        own_names,
    ]
    run = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=OFFLINE,
    )
    deadline = time.monotonic() + 120
    while not (out / "model.safetensors").exists():
        assert run.poll() is None and time.monotonic() < deadline, "no checkpoint was written"
        time.sleep(0.05)
    time.sleep(0.5)  # into the middle of something: each epoch writes a checkpoint
    run.send_signal(stop)
    errors = run.communicate(timeout=60)[1]
    if stop == signal.SIGINT:
        assert run.returncode == 130 and "Traceback" not in errors
    result = former("generate", "--model", out, "--n", 2, "--seed", 0)
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 2


def test_settings_come_from_the_task_a_file_and_the_command_line(own_names, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("epochs = 1\nd_model = 16\nn_heads = 2\nn_layers = 2\nclip = 0.5\n")
    result = former(
        "train",
        "names",
        "--config",
        file,
        "--out",
        tmp_path / "out",
        "--file",
        own_names,
        "--n-layers",
        1,
        "--device",
        "cpu",
    )
    assert result.returncode == 0, result.stderr
    settings = json.loads((tmp_path / "out" / "run.json").read_text())["settings"]
    assert [
        settings[name] for name in ("epochs", "d_model", "n_layers", "max_grad_norm", "lr", "d_ff")
    ] == [1, 16, 1, 0.5, 0.01, 64]
    assert load_model(tmp_path / "out")[0].config.n_layers == 1


@pytest.mark.parametrize(
    "content, words",
    [
        ("clipp = 1", ["clipp", "did you mean clip?"]),
        ("lr = = 1", ["config", "not TOML"]),
        ('lr = "fast"', ["lr", "'fast'"]),
        ("epochs = 1.5", ["epochs", "1.5"]),
        ("batch_size = 0", ["batch_size", "0"]),
        ("vocab_size = 9", ["vocab_size"]),
        ("lr = nan", ["lr", "nan"]),
        ("dropout = true", ["dropout", "True"]),
        ("[model]\nd_model = 3", ["model"]),
        ("symbols = 5", ["symbols", "names"]),
        ("file = 3", ["file"]),
        ("seed = -1", ["seed"]),
        ("seed = 99999999999", ["seed: expected 0 to 4294967295, got 99999999999"]),
        ("muon_lr = false", ["muon_lr", "False"]),
        ("minutes = 2026-01-01", ["minutes", "2026"]),
        ('positions = ["rotary"]', ["positions", "rotary"]),
        ('compile = "yes"', ["compile", "'yes'"]),
        ("steps = 0", ["steps", "0"]),
        ("lr = 1" + "0" * 400, ["lr: expected a number above 0"]),
        ("lr = 1\nlr = 2", ["config", "not TOML"]),
    ],
)
def test_bad_settings_in_a_file_are_refused(tmp_path, own_names, content, words):
    file, out = tmp_path / "bad.toml", tmp_path / "out"
    file.write_text(content)
    refused(former("train", "names", "--config", file, "--out", out, *TINY[2:]), *words)
    assert not out.exists()


def test_a_settings_file_that_is_missing_or_not_text_is_refused(tmp_path):
    refused(
        former("train", "names", "--config", tmp_path / "none.toml", "--out", tmp_path / "out"),
        "config",
        "none.toml",
    )
    (tmp_path / "odd.toml").write_bytes(b"\xff\xfe")
    refused(
        former("train", "names", "--config", tmp_path / "odd.toml", "--out", tmp_path / "out"),
        "config",
        "odd.toml",
    )


def test_a_settings_file_may_be_empty_or_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "empty.toml").touch()
    usual = former("train", "reverse", "--dry-run").stdout
    assert (
        usual
        and former("train", "reverse", "--config", tmp_path / "empty.toml", "--dry-run").stdout
        == usual
    )
    (tmp_path / "windows.toml").write_bytes(b"\xef\xbb\xbfrows = 2000\r\nlr = 0.5\r\n")
    result = former("train", "reverse", "--config", tmp_path / "windows.toml", "--dry-run")
    assert (
        result.returncode == 0
        and "rows = 2000\n" in result.stdout
        and "lr = 0.5\n" in result.stdout
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes."),
    ],
)
def test_a_model_that_does_not_fit_gets_one_sentence(monkeypatch, own_names, tmp_path, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr("former_nb.runs.train_step", full)
    refused(
        former("train", "names", "--out", tmp_path / "out", "--file", own_names, *TINY),
        "not enough memory",
        "--dry-run",
    )
    monkeypatch.setattr("former_nb.runs.train_step", lambda *_, **__: 1 / 0)
    assert (
        "ZeroDivisionError"
        in former("train", "names", "--out", tmp_path / "other", "--file", own_names, *TINY).stderr
    )  # a mistake of ours stays one


def test_a_seed_that_is_too_large_leaves_the_run_that_is_there(model, own_names, tmp_path):
    old = tmp_path / "old"
    shutil.copytree(model, old)
    (tmp_path / "seed.toml").write_text("seed = 99999999999\n")
    refused(
        former(
            "train",
            "names",
            "--out",
            old,
            "--overwrite",
            "--config",
            tmp_path / "seed.toml",
            "--file",
            own_names,
            *TINY,
        ),
        "seed",
    )
    assert all((old / file.name).read_bytes() == file.read_bytes() for file in model.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_full_disk_gets_one_sentence_and_leaves_nothing_half_written(own_names, tmp_path):
    heed = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)); "
    words = ["train", "names", "--out", tmp_path / "out", "--file", own_names, *TINY]
    command = [
        sys.executable,
        "-c",
        heed + "from former_nb.cli import main; main()",
        *map(str, words),
    ]
    refused(
        subprocess.run(command, capture_output=True, encoding="utf-8", env=OFFLINE, timeout=300),
        "no checkpoint could be written",
    )
    assert not [file for file in (tmp_path / "out").iterdir() if file.name.startswith(".")]
    load_model(tmp_path / "out")  # its files were small enough, and are whole


STOPPED = """
import os, signal
from former_nb import runs
from former_nb.cli import main

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background
steps, make_step = [], runs.train_step

def train_step(*words, **how):
    steps.append(1)
    if len(steps) == {step}:
        os.kill(os.getpid(), {stop})
    return make_step(*words, **how)

runs.train_step = train_step
main()
"""  # the command, which stops itself in the middle of one of its steps, however fast it is
TOY = [
    "--length",
    "5",
    "--symbols",
    "8",
    "--d-model",
    "16",
    "--n-heads",
    "2",
    "--n-layers",
    "1",
    "--device",
    "cpu",
]


def toy_file(folder):
    (folder / "toy.toml").write_text("rows = 250\ndropout = 0.1\neval_every = 20\n")
    return ["--config", folder / "toy.toml", *TOY]


def test_a_toy_task_is_learned_judged_and_used(tmp_path):
    (tmp_path / "toy.toml").write_text("rows = 5000\n")
    options = [
        "--config",
        tmp_path / "toy.toml",
        "--length",
        "5",
        "--symbols",
        "9",
        "--device",
        "cpu",
    ]
    result = former("train", "reverse", "--out", tmp_path / "out", *options)
    assert result.returncode == 0, result.stderr
    assert (
        json.loads((tmp_path / "out" / "training.json").read_text())["held_out_exact_match"] > 0.5
    )  # all of them as a rule; chance has one in 59,049
    answer = former(
        "generate", "--model", tmp_path / "out", "--prompt", "badce=", "--temperature", 0, "--n", 1
    ).stdout
    trained, tokenizer, _ = load_model(tmp_path / "out")
    batches = make_batches(
        encode_texts(["badce=ecdab"], tokenizer),
        1,
        collate=collate_answers(tokenizer.encode("=")[0]),
    )
    assert answer.startswith("badce=") and answer.count("\n") == 1
    assert (answer == "badce=ecdab\n") == bool(
        exact_match(trained, batches)
    )  # what is judged is what is written


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT] if os.name != "nt" else [])
def test_a_stopped_run_is_resumed_to_the_same_model(tmp_path, stop):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    options = [*toy_file(tmp_path), "--steps", "160"]
    assert former("train", "copy", "--out", whole, *options).returncode == 0
    command = [
        sys.executable,
        "-c",
        STOPPED.format(step=33, stop=int(stop)),
        "train",
        "copy",
    ]  # past the first look, at step 20
    run = subprocess.run(
        [*command, "--out", cut, "--save-every", "1", *map(str, options)],
        capture_output=True,
        encoding="utf-8",
        env=OFFLINE,
        timeout=300,
    )
    assert run.returncode == (130 if stop == signal.SIGINT else -signal.SIGKILL), run.stderr
    assert (cut / "model.safetensors").exists()
    refused(former("train", "copy", "--out", cut, *options), "out", "--overwrite")
    refused(former("train", "sort", "--resume", cut), "resume", "'copy'", "'sort'")
    refused(former("train", "copy", "--resume", cut, "--lr", "0.5"), "lr", "0.5")
    result = former("train", "copy", "--resume", cut, "--device", "cpu")
    assert result.returncode == 0 and "Going on" in result.stdout, result.stderr
    assert (cut / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert not [file for file in cut.iterdir() if file.name.startswith(".")]
    again = former("train", "copy", "--resume", cut, "--device", "cpu")  # nothing is left to do
    assert again.returncode == 0 and "160 steps" in again.stdout


@pytest.mark.parametrize("damage", ["half", "changed", "no run.json"])
def test_a_damaged_run_is_refused(model, tmp_path, damage):
    folder = tmp_path / "run"
    shutil.copytree(model, folder)
    file = folder / ("run.json" if damage == "no run.json" else "checkpoint.safetensors")
    content = bytearray(file.read_bytes())
    if damage == "half":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "changed":
        content[-100] ^= 1
        file.write_bytes(content)
    else:
        file.unlink()
    before = (folder / "model.safetensors").read_bytes()
    refused(
        former("train", "names", "--resume", folder),
        "run" if damage == "no run.json" else "checkpoint.safetensors",
    )
    assert (folder / "model.safetensors").read_bytes() == before


def test_dry_run_prints_settings_that_can_be_read_again_and_what_they_cost(tmp_path):
    result = former(
        "train", "names", "--d-model", 1024, "--n-layers", 24, "--n-heads", 16, "--dry-run"
    )
    assert result.returncode == 0, result.stderr
    for word in ("parameters", "FLOP", "memory"):
        assert word in result.stdout
    file = tmp_path / "printed.toml"
    file.write_text(result.stdout, encoding="utf-8")
    assert former("train", "names", "--config", file, "--dry-run").stdout == result.stdout
    assert not [name for name in os.listdir(tmp_path) if name != "printed.toml"]


def test_several_processes_train_one_model(tmp_path):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "-m",
        "former_nb.cli",
    ]
    words = [
        "train",
        "copy",
        "--out",
        tmp_path / "two",
        *toy_file(tmp_path),
        "--steps",
        "40",
        "--lr",
        "1e-3",
        "--muon-lr",
        "0",
        "--dropout",
        "0",
    ]
    result = subprocess.run(
        [*command, *map(str, words)],
        capture_output=True,
        encoding="utf-8",
        env=OFFLINE,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("held-out questions") == 1  # the first process does the talking
    one = [
        "train",
        "copy",
        "--out",
        tmp_path / "one",
        *toy_file(tmp_path),
        "--steps",
        "40",
        "--lr",
        "1e-3",
        "--muon-lr",
        "0",
        "--dropout",
        "0",
    ]
    assert former(*one).returncode == 0
    first, second = (pd.read_csv(tmp_path / name / "history.csv") for name in ("one", "two"))
    pd.testing.assert_frame_equal(
        first.drop(columns="seconds"), second.drop(columns="seconds"), rtol=0, atol=1e-5
    )


def test_curves_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard")
    result = former(
        "train",
        "copy",
        "--out",
        tmp_path / "out",
        *toy_file(tmp_path),
        "--steps",
        "20",
        "--tensorboard",
    )
    assert result.returncode == 0, result.stderr
    assert list((tmp_path / "out").rglob("events.out.tfevents.*"))


def test_help_has_an_example():
    for words in (["train"], ["generate"]):
        result = former(*words, "--help")
        assert result.returncode == 0 and "Example: former-nb" in result.stdout
    assert former("generate").returncode == 2
