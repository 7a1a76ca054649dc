"""The command line as a user meets it: separate processes, real files, bad input, a run that is killed."""
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from former_nb.generator import load_generator
from former_nb.data_sets import NAMES

TINY = ["--epochs", "1", "--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--device", "cpu"]
OFFLINE = {**os.environ, "OMP_NUM_THREADS": "1", "FORMER_NB_DATA": ""}


def former(*words, **options):
    command = [sys.executable, "-c", "from former_nb.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, encoding="utf-8", env=OFFLINE, timeout=300, **options)


def refused(result, *words):
    "Exit code 2 and one sentence that holds `words`."
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    said = [line for line in result.stderr.splitlines() if line.strip() and "step/s]" not in line]  # no progress bar
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
    result = former("train", "names", "--out", out, "--file", own_names, *TINY)
    assert result.returncode == 0, result.stderr
    return out


def test_training_writes_a_whole_folder(model):
    wanted = {"config.json", "model.safetensors", "tokenizer.json", "attention.png", "history.csv", "training.json"}
    assert wanted <= {file.name for file in model.iterdir()}
    assert not [file for file in model.iterdir() if file.name.startswith(".")]
    loaded, tokenizer = load_generator(model)
    assert loaded.config.vocab_size == tokenizer.vocab_size


def test_same_seed_same_model_and_same_names(model, own_names, tmp_path):
    assert former("train", "names", "--out", tmp_path / "twin", "--file", own_names, *TINY).returncode == 0
    assert (tmp_path / "twin" / "model.safetensors").read_bytes() == (model / "model.safetensors").read_bytes()
    first, second, other = (
        former("generate", "--model", model, "--prompt", "A", "--n", 10, "--seed", seed).stdout for seed in (0, 0, 1)
    )
    assert first == second != other
    assert len(first.splitlines()) == 10 and all(name.startswith("A") for name in first.splitlines())


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
    refused(former("generate", "--model", tmp_path / "nowhere"), "model", "nowhere")
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
    [(b"", ["at least 10"]), (b"\xff\xfe\x00bad", ["UTF-8"]), (b"Jonas\n", ["at least 10", "got 1"])],
)
def test_training_refuses_bad_names(tmp_path, content, words):
    file, out = tmp_path / "names.txt", tmp_path / "out"
    file.write_bytes(content)
    refused(former("train", "names", "--out", out, "--file", file, *TINY), "file", *words)
    assert not out.exists()


@pytest.mark.parametrize("options, words", [(["--lr", "nan"], ["lr", "nan"]), (["--lr", "1e30"], ["lr", "1e+30"])])
def test_a_failed_run_leaves_the_old_model_and_nothing_new(model, own_names, tmp_path, options, words):
    old, new = tmp_path / "old", tmp_path / "new"
    shutil.copytree(model, old)
    refused(former("train", "names", "--out", old, "--overwrite", "--file", own_names, *TINY, *options), *words)
    assert {file.name: file.read_bytes() for file in old.iterdir()} == {file.name: file.read_bytes() for file in model.iterdir()}
    refused(former("train", "names", "--out", new, "--file", own_names, *TINY, *options), *words)
    assert not list(new.iterdir())


def test_a_model_of_another_size_takes_the_place_of_the_old_one(model, own_names, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(model, out)
    (out / "README.md").write_text("my notes", encoding="utf-8")
    result = former("train", "names", "--out", out, "--overwrite", "--file", own_names, *TINY, "--d-model", "24")
    assert result.returncode == 0, result.stderr
    assert load_generator(out)[0].config.d_model == 24
    assert (out / "README.md").read_text(encoding="utf-8") == "my notes"


def test_names_of_one_letter_are_names(tmp_path):
    file = tmp_path / "letters.txt"
    file.write_text("\n".join("abcdefghijklmnopqrstuvwxyz"), encoding="utf-8")
    result = former("train", "names", "--out", tmp_path / "out", "--file", file, *TINY)
    assert result.returncode == 0, result.stderr
    assert "training.json" in {file.name for file in (tmp_path / "out").iterdir()}


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX shell")
def test_a_reader_that_stops_early_is_no_error(model):
    command = [sys.executable, "-c", "from former_nb.cli import main; main()", "generate", "--model", model, "--n", "5000"]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=OFFLINE)
    run.stdout.readline()
    run.stdout.close()
    assert run.stderr.read() == b"" and run.wait(timeout=60) == 0


def test_training_refuses_bad_sizes_and_places(model, own_names, tmp_path):
    out = tmp_path / "out"
    refused(former("train", "names", "--out", out, "--file", own_names, "--d-model", "30"), "d_model", "30")
    refused(former("train", "names", "--out", out, "--file", own_names, "--dropout", "1"), "dropout")
    assert not out.exists()
    before = (model / "model.safetensors").read_bytes()
    refused(former("train", "names", "--out", model, "--file", own_names, *TINY), "out", "--overwrite")
    refused(former("train", "names", "--out", own_names, "--file", own_names, *TINY), "out", "is a file")
    refused(former("train", "names", "--out", "", "--file", own_names, *TINY, cwd=tmp_path), "out")
    assert not list(tmp_path.iterdir())
    assert (model / "model.safetensors").read_bytes() == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT] if os.name != "nt" else [])
def test_a_stopped_run_leaves_the_last_good_checkpoint(own_names, tmp_path, stop):
    out = tmp_path / "model"
    options = ["--epochs", "100000", "--d-model", "16", "--n-layers", "1", "--lr", "1e-5", "--device", "cpu"]
    heed = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # ignored where tests run in the background
    command = [sys.executable, "-c", heed + "from former_nb.cli import main; main()", "train", "names", "--out", out, "--file", own_names]
    run = subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", env=OFFLINE)
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


def test_help_has_an_example():
    for words in (["train", "names"], ["generate"]):
        result = former(*words, "--help")
        assert result.returncode == 0 and "Example: former-nb" in result.stdout
    assert former("generate").returncode == 2
