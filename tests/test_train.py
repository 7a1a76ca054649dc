"""`former-nb train` as a user meets it: real files, bad input, a run that is killed and goes on."""

import json
import math
import re
import shutil
import signal
from pathlib import Path

import pandas as pd
import pytest
import torch
from cli_tools import (
    CPU,
    MODEL,
    POSIX,
    SMALL,
    TINY,
    contents,
    done,
    former,
    no_option,
    process,
    refused,
)
from process_tools import succeeds
from thorough import some

from former_nb.commands import train
from former_nb.data.batches import make_batches
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import collate_answers
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier
from former_nb.saving.saving import load_model
from former_nb.tasks import TASKS, Data, Task
from former_nb.tasks.base import list_settings
from former_nb.training.costs import training_cost
from former_nb.training.losses import exact_match
from former_nb.training.training_config import TrainingConfig


def test_training_writes_a_whole_folder(names_model):
    more = {"attention.png", "history.csv", "training.json", "run.json", "README.md"}
    assert {file.name for file in names_model.iterdir()} == {
        *MODEL,
        *more,
        "checkpoint.safetensors",
    }
    loaded, tokenizer, _ = load_model(names_model)
    assert loaded.config.vocab_size == tokenizer.vocab_size


def test_same_seed_same_model_and_same_names(names_model, names_command, tmp_path):
    done(*names_command, "--out", tmp_path / "twin", *TINY)
    twin, first = contents(tmp_path / "twin"), contents(names_model)
    assert twin["model.safetensors"] == first["model.safetensors"]
    write = ["generate", "--model", names_model, "A", "--n", 10, "--seed"]
    first, second, other = (done(*write, seed) for seed in (0, 0, 1))
    assert first == second != other and len(first.splitlines()) == 10
    assert all(name.startswith("A") for name in first.splitlines())


TOO_LARGE = ("names", "n_layers"), ("copy", "length"), ("copy", "rows"), ("text", "length")


def test_numbers_without_bounds_are_refused_at_once(names_model, own_files):
    for odd in ("nan", "1e300", "-1"):
        no_option(former("generate", "--model", names_model, "--temperature", odd), "--temperature")
    huge = 1_000_000_000
    for task, name in TOO_LARGE:
        with pytest.raises(ValueError, match=f"{name}\\b.*: expected|{name} ="):
            start(task, own_files[task] | {name: huge}, dry=True)


def start(task, given, out=None, dry=False):
    train.start(task, TASKS[task], given, out, dry=dry, device="cpu")


def test_a_run_without_a_folder_goes_into_one_of_its_task(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(train, "run_task", lambda name, task, out, *_, **__: asked.append(out))
    for out in (None, tmp_path):
        start("copy", {"rows": 100}, out)
    assert asked == [Path("runs", "copy"), tmp_path]


@pytest.mark.parametrize("task", ["names", "classify"])
def test_each_setting_is_checked_before_anything_is_written(own_files, tmp_path, monkeypatch, task):
    out = tmp_path / "out"
    monkeypatch.setattr(train, "claim_folder", lambda *_: pytest.fail("this was accepted"))
    for name, setting in list_settings(TASKS[task]).items():
        numbers = {} if hasattr(Task, name) else {int: [-1, 1.5], float: [-1, math.nan]}
        for odd in ([1], *numbers.get(setting.kind, ())):
            with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
                start(task, own_files[task] | {name: odd}, out)
    assert not out.exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00bad", b"Jonas\n"])
def test_training_refuses_bad_names(tmp_path, content):
    file, out = tmp_path / "names.txt", tmp_path / "out"
    file.write_bytes(content)
    refused(former("train", "names", "--out", out, "--file", file, *TINY), "file: ", "names.txt")
    assert not out.exists()


@pytest.mark.parametrize("rate", ["nan", "1e30"])
def test_a_failed_run_leaves_the_old_model_and_no_new_one(
    names_model, names_command, tmp_path, rate
):
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(names_model, old)
    refused(former(*names_command, "--out", old, "--overwrite", *TINY, "--lr", rate), "lr")
    assert all(
        contents(old)[name] == contents(names_model)[name] for name in (*MODEL, "training.json")
    )
    refused(former(*names_command, "--out", new, *TINY, "--lr", rate), "lr")
    assert not (new / "model.safetensors").exists()


def test_a_model_of_another_size_takes_the_place_of_the_old_one(
    names_model, names_command, tmp_path
):
    shutil.copytree(names_model, tmp_path / "out")
    (tmp_path / "out" / "README.md").write_text("my notes", encoding="utf-8")
    done(*names_command, "--out", tmp_path / "out", "--overwrite", *TINY, "--d-model", "24")
    assert load_model(tmp_path / "out")[0].config.d_model == 24
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "my notes"


def test_names_of_one_letter_are_names(tmp_path):
    pairs = [a + b for a in "abcdef" for b in "abcdef"]  # so that each letter is learned
    (tmp_path / "letters").write_text("\n".join([*"abcdef", *pairs]), encoding="utf-8")
    done("train", "names", "--out", tmp_path / "out", "--file", tmp_path / "letters", *TINY)


def test_settings_come_from_the_task_a_file_and_the_command_line(names_command, tmp_path):
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text("epochs = 1\nd_model = 16\nn_heads = 2\nn_layers = 2\nmax_grad_norm = 0.5\n")
    done(*names_command, "--config", file, "--out", out, "--n-layers", 1, "--device", "cpu")
    settings = json.loads((out / "run.json").read_text(encoding="utf-8"))["settings"]
    found = [settings[k] for k in "epochs d_model n_layers max_grad_norm lr d_ff".split()]
    assert found == [1, 16, 1, 0.5, 0.01, 64] and load_model(out)[0].config.n_layers == 1


@pytest.mark.parametrize(
    "content, words",
    [
        ("max_grad_nrm = 1", ["max_grad_nrm", "max_grad_norm"]),
        ("lr = = 1", ["config"]),
        ("lr = " + "[" * 100_000, ["config"]),
        ("[model]\nd_model = 3", ["model"]),
        ("symbols = 5", ["symbols", "names"]),
        ("seed = 99999999999", ["seed"]),
        ("muon_lr = false", ["muon_lr"]),
        ("minutes = 2026-01-01", ["minutes"]),
        ("lr = 1" + "0" * 400, ["lr"]),
        ("d_model = 30", ["d_model"]),
        ('file = "a\\u0000b"', ["file"]),
        (b"\xff\xfe", ["config"]),
        (None, ["config"]),
    ],
)
def test_bad_settings_in_a_file_are_refused(tmp_path, content, words):
    file, out = tmp_path / "bad.toml", tmp_path / "out"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(former("train", "names", "--config", file, "--out", out), *words)
    assert not out.exists()


def test_a_settings_file_may_be_empty_or_begin_with_a_byte_order_mark(tmp_path):
    file, dry = tmp_path / "windows.toml", ["train", "copy", *SHORT, "--dry-run"]
    file.touch()
    assert done(*dry, "--config", file) == done(*dry)
    file.write_bytes(b"\xef\xbb\xbfbatch_size = 77\r\nlr = 0.5\r\n")
    found = done(*dry, "--config", file)
    assert "batch_size = 77\n" in found and "lr = 0.5\n" in found


def test_what_is_refused_leaves_the_run_that_is_there(names_model, names_command, tmp_path):
    shutil.copytree(names_model, tmp_path / "old")
    again = [*names_command, "--out", tmp_path / "old", "--overwrite", *TINY]
    refused(former(*again, "--seed", "99999999999"), "seed")
    assert contents(tmp_path / "old") == contents(names_model)


@POSIX
def test_a_full_disk_gets_one_sentence_and_leaves_nothing_half_written(names_command, tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (26_000, 26_000))"
    refused(process(*names_command, "--out", tmp_path / "out", *TINY, before=limit), "checkpoint")
    assert not [file for file in (tmp_path / "out").iterdir() if file.name.startswith(".")]
    load_model(tmp_path / "out")  # its files were small enough, and are whole


STOPPED = """
import os, signal
from former_nb.training import fitting

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in background
steps, make_step = [], fitting.train_step

def train_step(*words, **how):
    steps.append(1)
    if len(steps) == 33:  # past the first evaluation, at step 20
        os.kill(os.getpid(), {stop})
    return make_step(*words, **how)

fitting.train_step = train_step
"""  # stops in the middle of a step, however fast it is
SHORT = ["--rows", 250, "--length", 5, "--symbols", 8, "--eval-every", 20, *SMALL]


COPY = ["train", "copy", *SHORT, "--dropout", 0.1, "--steps", 60, "--out"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "whole"
    done(*COPY, out)
    return contents(out)


@POSIX
@pytest.mark.parametrize("stop", ["SIGKILL", "SIGINT"])
def test_a_stopped_run_is_resumed_to_the_same_model(whole, tmp_path, stop):
    cut = tmp_path / "cut"
    number = int(getattr(signal, stop))
    run = process(*COPY, cut, before=STOPPED.format(stop=number))
    assert run.returncode == (-number if stop == "SIGKILL" else 128 + number), run.stderr
    assert stop == "SIGKILL" or b"--resume" in run.stderr
    assert b"Traceback" not in run.stderr
    done("generate", "--model", cut, "--n", 1)
    refused(former(*COPY, cut), "out", "--overwrite")
    refused(former("train", "sort", "--resume", cut), "resume", "'copy'", "'sort'")
    refused(former("train", "copy", "--resume", cut, "--lr", "0.5"), "lr", "0.5")
    assert "Going on" in done("train", "copy", "--resume", cut, "--device", "cpu")
    assert contents(cut)["model.safetensors"] == whole["model.safetensors"]
    assert contents(cut).keys() == whole.keys()
    again = done("train", "copy", "--resume", cut, "--device", "cpu")  # nothing is left to do
    assert "60 steps" in again


def test_a_dry_run_prints_settings_that_can_be_read_again_and_what_they_cost(own_files, tmp_path):
    strange = tmp_path / "vardai 😀.txt"
    shutil.copy(own_files["names"]["file"], strange)
    sizes = ["--d-model", 1024, "--n-layers", 8, "--n-heads", 16, "--muon-lr", 0]
    found = done("train", "names", *sizes, "--file", strange, "--dry-run")
    assert all(word in found for word in ("parameters", "FLOP", "memory"))
    (tmp_path / "printed.toml").write_text(found, encoding="utf-8")
    assert done("train", "names", "--config", tmp_path / "printed.toml", "--dry-run") == found
    assert {file.name for file in tmp_path.iterdir()} == {"printed.toml", strange.name}


@pytest.mark.parametrize("task", some(TASKS, 2))
def test_a_dry_run_of_each_task_says_what_a_run_needs(own_files, task, monkeypatch):
    def no_network(source):
        raise OSError("there is none")

    monkeypatch.setattr("former_nb.data.data_sets.fetch", no_network)
    options = [part for k, v in own_files.get(task, {}).items() for part in (f"--{k}", v)]
    said = done("train", task, *options, *SMALL, "--dry-run")
    found = re.search(r"# ([\d,]+) parameters; a step: (\S+ \w*)FLOP forward and backward", said)
    assert found and int(found[1].replace(",", "")) > 1000 and float(found[2].split()[0]) > 0
    assert re.search(r"# memory: [\d.]+ [kMG]B at most \(weights", said)


def test_a_dry_run_counts_the_widest_batch(capsys, monkeypatch):
    config = TransformerConfig(50, 64, 16, 2, 1, 32)
    narrow, wide = ((torch.ones(8, T, dtype=torch.long), torch.zeros(8).long()) for T in (5, 40))
    monkeypatch.setattr(train, "toml_lines", lambda settings: [])

    class Two(Task):
        load_data = lambda self: Data("ours", [], [narrow, wide], [], CharTokenizer("ab"), 64)
        make_model = lambda self, data: Classifier.from_config(config, 2)
        report = None

    train.dry_run(Two(steps=2, pad=None))
    plan = TrainingConfig(steps=2, pad=None)
    cost = str(training_cost(Classifier.from_config(config, 2), wide, plan)).splitlines()
    assert capsys.readouterr().out.splitlines()[-2:] == [f"# {line}" for line in cost]


def test_several_processes_train_one_model(tmp_path):
    copy = ["train", "copy", *SHORT, "--steps", 20, "--lr", "1e-3", "--muon-lr", 0, "--out"]
    launch = ["--nproc-per-node", 2, "-m", "former_nb.cli", *copy, tmp_path / "two"]
    said = succeeds("from torch.distributed.run import main\nmain()", *launch)
    assert said.count("held-out questions") == 1  # the first process does the talking
    done(*copy, tmp_path / "one")
    histories = [pd.read_csv(tmp_path / name / "history.csv") for name in ("one", "two")]
    one, two = (history.drop(columns="seconds") for history in histories)
    pd.testing.assert_frame_equal(one, two, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    "parameters, variable, cores, wanted",
    [
        (100_000, None, 16, 2),
        (100_000, None, 2, 1),  # one core stays free
        (100_000, None, 1, 1),
        (5_000_000, None, 16, 16),
        (100_000, "OMP_NUM_THREADS", 7, 7),
        (100_000, "MKL_NUM_THREADS", 7, 7),
    ],
)
def test_a_small_model_takes_few_threads(monkeypatch, parameters, variable, cores, wanted):
    threads = [cores]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[-1])
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.setenv(name, "7") if name == variable else monkeypatch.delenv(name, False)
    assert train.choose_threads(parameters) == threads[-1] == wanted


def test_training_says_how_many_threads_it_takes(names_command, tmp_path):
    said = done(*names_command, "--out", tmp_path / "one", *TINY)
    assert "parameters on cpu with 1 thread, " in said


def test_what_is_judged_is_what_is_written(tmp_path):
    sizes = ["--rows", 500, "--length", 5, "--symbols", 9, "--steps", 20, *SMALL]
    done("train", "reverse", "--out", tmp_path, *sizes)
    write = ["generate", "--model", tmp_path, "--temperature", 0, "--n", 1]
    answer = done(*write, "badce=")
    trained, tokenizer, _ = load_model(tmp_path)
    row = encode_texts(["badce=ecdab"], tokenizer)
    collate = collate_answers(tokenizer.encode("=")[0])
    right = exact_match(trained, make_batches(row, 1, collate=collate))
    assert answer.startswith("badce=") and (answer == "badce=ecdab\n") == bool(right)


def test_the_same_folder_twice_is_no_contradiction(own_run, monkeypatch):
    before = contents(own_run)["model.safetensors"]
    monkeypatch.chdir(own_run.parent)
    for out in (own_run, "run", "./run/"):
        assert "Going on" in done("train", "names", "--resume", own_run, "--out", out, *CPU)
    assert contents(own_run)["model.safetensors"] == before
    refused(former("train", "names", "--resume", own_run, "--out", "other"), "out, resume: ")
