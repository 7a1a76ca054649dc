"""The command line as a user meets it: real files, bad input, a run that is killed and goes on."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from cli_tools import POSIX, SMALL, contents, done, former, no_option, process, refused
from process_tools import OFFLINE, succeeds
from thorough import some

from former_nb.commands import train
from former_nb.data.batches import make_batches
from former_nb.data.data_sets import load_names
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import collate_answers, number_pairs
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier
from former_nb.saving.saving import load_model
from former_nb.tasks import TASKS, Data, Task
from former_nb.tasks.base import list_settings
from former_nb.training.costs import training_cost
from former_nb.training.losses import exact_match
from former_nb.training.resuming import lock_folder
from former_nb.training.training_config import TrainingConfig

TINY = ["--epochs", "1", *SMALL]
MODEL = ("config.json", "model.safetensors", "tokenizer.json")


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    "For each task with files of one's own, the settings that name them."
    folder, pairs = tmp_path_factory.mktemp("own"), number_pairs()["train"][:60]
    usual = set("aeiosnlrtdmgvkjubpėyz")  # letters that every part has, so that none gets a note
    texts = {
        "names": "\n".join(name for name in load_names()[0][::50] if usual.issuperset(name)),
        "long": "one, two, three, four, five. " * 40,
    }
    texts["csv"] = "text,label\n" + "\n".join(f"firm {i},{'up' * (i % 2 + 1)}" for i in range(40))
    texts |= {"de": "\n".join(a for a, _ in pairs), "en": "\n".join(b for _, b in pairs)}
    for name, text in texts.items():
        (folder / name).write_text(text + "\n", encoding="utf-8")
    where = {name: str(folder / name) for name in texts}
    return {
        "copy": {"rows": 100},
        "names": {"file": where["names"]},
        "text": {"file": where["long"], "length": 8},
        "classify": {"csv": where["csv"]},
        "translate": {"src": where["de"], "tgt": where["en"]},
    }


@pytest.fixture(scope="module")
def names(own):
    return ["train", "names", "--file", own["names"]["file"]]


@pytest.fixture(scope="module")
def model(tmp_path_factory, names):
    out = tmp_path_factory.mktemp("trained") / "model"
    done(*names, "--out", out, *TINY)
    return out


def test_training_writes_a_whole_folder(model):
    more = {"attention.png", "history.csv", "training.json", "run.json", "README.md"}
    assert {file.name for file in model.iterdir()} == {*MODEL, *more, "checkpoint.safetensors"}
    loaded, tokenizer, _ = load_model(model)
    assert loaded.config.vocab_size == tokenizer.vocab_size


def test_same_seed_same_model_and_same_names(model, names, tmp_path):
    done(*names, "--out", tmp_path / "twin", *TINY)
    twin, first = contents(tmp_path / "twin"), contents(model)
    assert twin["model.safetensors"] == first["model.safetensors"]
    write = ["generate", "--model", model, "A", "--n", 10, "--seed"]
    first, second, other = (done(*write, seed) for seed in (0, 0, 1))
    assert first == second != other and len(first.splitlines()) == 10
    assert all(name.startswith("A") for name in first.splitlines())


@pytest.mark.parametrize(
    "options, word",
    [
        (["ж"], "ж"),
        ([""], "prompt"),
        (["a" * 500], "prompt"),
        (["--top-p", "0"], "top_p"),
    ],
)
def test_generate_refuses(model, options, word):
    for stream in ([], ["--stream"]):
        refused(former("generate", "--model", model, *options, *stream), word)


TOO_LARGE = ("names", "n_layers"), ("copy", "length"), ("copy", "rows"), ("text", "length")


def test_numbers_without_bounds_are_refused_at_once(model, own):
    for odd in ("nan", "1e300", "-1"):
        no_option(former("generate", "--model", model, "--temperature", odd), "--temperature")
    huge = 1_000_000_000
    for task, name in TOO_LARGE:
        with pytest.raises(ValueError, match=f"{name}\\b.*: expected|{name} ="):
            start(task, own[task] | {name: huge}, dry=True)


def start(task, given, out=None, dry=False):
    train.start(task, TASKS[task], given, out, dry=dry, device="cpu")


def test_a_run_without_a_folder_goes_into_one_of_its_task(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(train, "run_task", lambda name, task, out, *_, **__: asked.append(out))
    for out in (None, tmp_path):
        start("copy", {"rows": 100}, out)
    assert asked == [Path("runs", "copy"), tmp_path]


@pytest.mark.parametrize("task", ["names", "classify"])
def test_each_setting_is_checked_before_anything_is_written(own, tmp_path, monkeypatch, task):
    out = tmp_path / "out"
    monkeypatch.setattr(train, "claim_folder", lambda *_: pytest.fail("this was accepted"))
    for name, setting in list_settings(TASKS[task]).items():
        numbers = {} if hasattr(Task, name) else {int: [-1, 1.5], float: [-1, math.nan]}
        for odd in ([1], *numbers.get(setting.kind, ())):
            with pytest.raises((TypeError, ValueError), match=rf"\b{name}\b"):
                start(task, own[task] | {name: odd}, out)
    assert not out.exists()


def test_folders_that_are_no_models_are_refused(model, tmp_path):
    refused(former("generate", "--model", tmp_path / "nowhere"), "model", "nowhere")
    for half in MODEL:
        shutil.copytree(model, tmp_path / half)
        (tmp_path / half / half).write_bytes((model / half).read_bytes()[:100])
        refused(former("generate", "--model", tmp_path / half), "model: ", half)
        (tmp_path / half / half).unlink()
        refused(former("generate", "--model", tmp_path / half), "model: ", half)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe\x00bad", b"Jonas\n"])
def test_training_refuses_bad_names(tmp_path, content):
    file, out = tmp_path / "names.txt", tmp_path / "out"
    file.write_bytes(content)
    refused(former("train", "names", "--out", out, "--file", file, *TINY), "file: ", "names.txt")
    assert not out.exists()


@pytest.mark.parametrize("rate", ["nan", "1e30"])
def test_a_failed_run_leaves_the_old_model_and_no_new_one(model, names, tmp_path, rate):
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(model, old)
    refused(former(*names, "--out", old, "--overwrite", *TINY, "--lr", rate), "lr")
    assert all(contents(old)[name] == contents(model)[name] for name in (*MODEL, "training.json"))
    refused(former(*names, "--out", new, *TINY, "--lr", rate), "lr")
    assert not (new / "model.safetensors").exists()


def test_a_model_of_another_size_takes_the_place_of_the_old_one(model, names, tmp_path):
    shutil.copytree(model, tmp_path / "out")
    (tmp_path / "out" / "README.md").write_text("my notes", encoding="utf-8")
    done(*names, "--out", tmp_path / "out", "--overwrite", *TINY, "--d-model", "24")
    assert load_model(tmp_path / "out")[0].config.d_model == 24
    assert (tmp_path / "out" / "README.md").read_text(encoding="utf-8") == "my notes"


def test_names_of_one_letter_are_names(tmp_path):
    pairs = [a + b for a in "abcdef" for b in "abcdef"]  # so that each letter is learned
    (tmp_path / "letters").write_text("\n".join([*"abcdef", *pairs]), encoding="utf-8")
    done("train", "names", "--out", tmp_path / "out", "--file", tmp_path / "letters", *TINY)


@POSIX
def test_a_reader_that_stops_early_is_no_error(model):
    code = "from former_nb.cli import main; main()"
    command = [sys.executable, "-c", code, "generate", "--model", model, "--n", "5000"]
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | OFFLINE)
    run = subprocess.Popen(command, **how)
    run.stdout.readline()
    run.stdout.close()
    assert run.stderr.read() == b"" and run.wait(timeout=60) == 0


@POSIX
def test_a_training_that_nobody_reads_says_that_it_stops(tmp_path):
    read, write = os.pipe()
    os.close(read)
    code = "from former_nb.cli import main; main()"
    command = [sys.executable, "-c", code, "train", "copy", "--out", tmp_path / "out", *TINY]
    run = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, env=os.environ | OFFLINE)
    os.close(write)
    said = run.stderr.decode().splitlines()[-1]
    assert run.returncode == 1 and said.startswith("Stopped, because standard output was closed.")


def test_places_that_cannot_hold_a_model_are_refused(model, names, own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, before = own["names"]["file"], contents(model)
    for out in (model, file, "", "a" * 300, f"{file}/deeper"):
        refused(former(*names, "--out", out, *TINY), "out: ")
    assert contents(model) == before and not list(tmp_path.iterdir())


def test_two_runs_in_one_folder_are_refused(model, names, tmp_path):
    shutil.copytree(model, tmp_path / "run")
    lock = lock_folder(tmp_path / "run")  # as while another run trains there
    before = contents(tmp_path / "run")
    refused(former(*names, "--out", tmp_path / "run", "--overwrite", *TINY), "another run")
    refused(former("train", "names", "--resume", tmp_path / "run"), "another run")
    assert contents(tmp_path / "run") == before
    lock.release()


def test_a_run_that_was_stopped_is_not_begun_anew_without_a_word(model, names, tmp_path):
    stopped = shutil.copytree(model, tmp_path / "stopped")
    (stopped / "model.safetensors").unlink()  # before its first evaluation
    before = contents(stopped)
    words = ("out: ", "stopped at step", "--resume", "--overwrite")
    refused(former(*names, "--out", stopped, *TINY), *words)
    assert contents(stopped) == before
    (stopped / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    refused(former(*names, "--out", stopped, *TINY), "checkpoint.safetensors", "not whole")
    done(*names, "--out", stopped, "--overwrite", *TINY)
    ended = shutil.copytree(model, tmp_path / "ended")
    (ended / "checkpoint.safetensors").unlink()
    refused(former("train", "names", "--resume", ended), "resume: ", "no checkpoint.safetensors")
    assert contents(ended)["model.safetensors"] == contents(model)["model.safetensors"]


def test_settings_come_from_the_task_a_file_and_the_command_line(names, tmp_path):
    file, out = tmp_path / "mine.toml", tmp_path / "out"
    file.write_text("epochs = 1\nd_model = 16\nn_heads = 2\nn_layers = 2\nmax_grad_norm = 0.5\n")
    done(*names, "--config", file, "--out", out, "--n-layers", 1, "--device", "cpu")
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


def test_what_does_not_fit_gets_one_sentence(monkeypatch, names, tmp_path):
    def fails(error):
        def step(*_, **__):
            raise error

        monkeypatch.setattr("former_nb.training.fitting.train_step", step)
        return former(*names, "--out", tmp_path / "out", "--overwrite", *TINY)

    for error in (MemoryError(), RuntimeError("can't allocate memory: you tried 4 bytes.")):
        refused(fails(error), "not enough memory", "--dry-run")
    monkeypatch.setattr("former_nb.decoding.caches.write_texts", lambda *_, **__: bytes(2**62))
    refused(former("generate"), "not enough memory", "shorter")  # it has no --dry-run
    assert "ZeroDivisionError" in fails(ZeroDivisionError()).stderr  # a mistake of ours stays one
    broken = RuntimeError("CUDA error: an illegal memory access was encountered")
    assert "illegal memory access" in fails(broken).stderr  # nor is this a lack of memory


def test_what_is_refused_leaves_the_run_that_is_there(model, names, tmp_path):
    shutil.copytree(model, tmp_path / "old")
    again = [*names, "--out", tmp_path / "old", "--overwrite", *TINY]
    refused(former(*again, "--seed", "99999999999"), "seed")
    assert contents(tmp_path / "old") == contents(model)


@POSIX
def test_a_full_disk_gets_one_sentence_and_leaves_nothing_half_written(names, tmp_path):
    limit = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limit += "resource.setrlimit(resource.RLIMIT_FSIZE, (26_000, 26_000))"
    refused(process(*names, "--out", tmp_path / "out", *TINY, before=limit), "checkpoint")
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


def forget(content):
    run = json.loads(content)
    del run["settings"]["patience"]
    return json.dumps(run).encode()


@pytest.mark.parametrize(
    "name, change, word",
    [
        ("checkpoint.safetensors", lambda b: b[: len(b) // 2], "checkpoint.safetensors"),
        ("run.json", lambda b: b[:50], "run.json"),
        ("run.json", lambda b: b"[" * 100_000, "run.json"),
        ("run.json", lambda b: b"[]", "run.json"),
        ("run.json", forget, "patience"),
        ("run.json", None, "run.json"),
    ],
)
def test_a_damaged_run_is_refused(model, tmp_path, name, change, word):
    shutil.copytree(model, tmp_path / "run")
    file = tmp_path / "run" / name
    file.write_bytes(change(file.read_bytes())) if change else file.unlink()
    before = contents(tmp_path / "run")
    refused(former("train", "names", "--resume", tmp_path / "run"), word)
    assert contents(tmp_path / "run") == before


def test_a_dry_run_prints_settings_that_can_be_read_again_and_what_they_cost(own, tmp_path):
    strange = tmp_path / "vardai 😀.txt"
    shutil.copy(own["names"]["file"], strange)
    sizes = ["--d-model", 1024, "--n-layers", 8, "--n-heads", 16, "--muon-lr", 0]
    found = done("train", "names", *sizes, "--file", strange, "--dry-run")
    assert all(word in found for word in ("parameters", "FLOP", "memory"))
    (tmp_path / "printed.toml").write_text(found, encoding="utf-8")
    assert done("train", "names", "--config", tmp_path / "printed.toml", "--dry-run") == found
    assert {file.name for file in tmp_path.iterdir()} == {"printed.toml", strange.name}


@pytest.mark.parametrize("task", some(TASKS, 2))
def test_a_dry_run_of_each_task_says_what_a_run_needs(own, task, monkeypatch):
    def no_network(source):
        raise OSError("there is none")

    monkeypatch.setattr("former_nb.data.data_sets.fetch", no_network)
    options = [part for k, v in own.get(task, {}).items() for part in (f"--{k}", v)]
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


def test_training_says_how_many_threads_it_takes(names, tmp_path):
    said = done(*names, "--out", tmp_path / "one", *TINY)
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


def test_help_has_an_example_and_a_task_shows_its_own_settings():
    assert "Example: former-nb" in done("generate", "--help") == done("generate", "-h")
    assert set(TASKS) <= set(done("train", "--help").split())
    shown = {task: done("train", task, "--help") for task in ("names", "classify")}
    assert all(f"Example: former-nb train {task}" in text for task, text in shown.items())
    assert "--csv" in shown["classify"] and "--file" in shown["names"]
    assert "--csv" not in shown["names"] and "--file" not in shown["classify"]
    no_option(former("train", "names", "--csv", "a.csv", "--dry-run"), "--csv")
    no_option(former("train", "imbd", "--dry-run"), "imbd")
    assert former("classify").returncode == former("train").returncode == 2
    refused(former("train", "names", "--out", "a", "--resume", "b"), "out, resume: ")


def test_a_model_is_measured_again_on_what_its_run_held_out(model, names, tmp_path):
    before = contents(model)
    said = done("evaluate", "--model", model, "--device", "cpu")
    report = json.loads(before["training.json"])
    for name, nats in report["held_out_nats_per_character"].items():
        assert f"{nats:.3f}  {name}" in said
    after = contents(model)
    del before["attention.png"], after["attention.png"]
    assert after == before
    refused(former("evaluate", "--model", tmp_path), "model", "run.json")
    moved = shutil.copytree(model, tmp_path / "moved")
    (moved / "training.json").write_text(json.dumps(report | {"data": "others"}))
    refused(former("evaluate", "--model", moved), "data", "others")


def test_a_model_is_not_measured_on_data_that_have_changed(own, tmp_path):
    file = tmp_path / "names"
    text = Path(own["names"]["file"]).read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    done("train", "names", "--file", file, "--out", out, *TINY)
    file.write_text(f"{text}Ona\n", encoding="utf-8")
    refused(former("evaluate", "--model", out), "data: ", "as in training")
    first, *rest = text.splitlines()
    same_number = "\n".join([f"{first}+", *rest])  # as many names, and a new character
    file.write_text(same_number, encoding="utf-8")
    refused(former("evaluate", "--model", out), "data: ", "another tokenizer")


def test_a_classifier_that_was_hardly_judged_says_so(own, tmp_path):
    out = tmp_path / "model"
    said = done("train", "classify", "--csv", own["classify"]["csv"], "--out", out, *TINY)
    result = former("classify", "--model", out, "firm 3")
    for text in (said, result.stderr):
        assert "Note: this classifier was judged on 4 texts" in text
    assert result.stdout.endswith("\tfirm 3\n")


@pytest.mark.parametrize(
    "words, known",
    [
        ("former-nb tr", "train"),
        ("former-nb train na", "names"),
        ("former-nb train copy --d-m", "--d-model"),
    ],
)
def test_a_shell_completes_commands_tasks_and_options(words, known):
    where = str(len(words.split()) - 1)
    asked = dict(_FORMER_NB_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=where)
    command = [
        sys.executable,
        "-c",
        "import sys; from former_nb.cli import main; sys.argv = ['former-nb']; main()",
    ]
    result = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True)
    assert known in result.stdout.split(), result.stderr
