"""Folders of runs: what is in the way, was stopped, is damaged or has no model yet."""

import json
import shutil

import pytest
from cli_tools import CPU, MODEL, SMALL, TINY, contents, done, former, refused

from former_nb.commands import folders
from former_nb.tasks import TASKS
from former_nb.tasks.base import choose
from former_nb.training.resuming import lock_folder


def test_folders_that_are_no_models_are_refused(names_model, tmp_path):
    refused(former("generate", "--model", tmp_path / "nowhere"), "model", "nowhere")
    for half in MODEL:
        shutil.copytree(names_model, tmp_path / half)
        (tmp_path / half / half).write_bytes((names_model / half).read_bytes()[:100])
        refused(former("generate", "--model", tmp_path / half), "model: ", half)
        (tmp_path / half / half).unlink()
        refused(former("generate", "--model", tmp_path / half), "model: ", half)


def test_places_that_cannot_hold_a_model_are_refused(
    names_model, names_command, own_files, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    file, before = own_files["names"]["file"], contents(names_model)
    for out in (names_model, file, "", "a" * 300, f"{file}/deeper"):
        refused(former(*names_command, "--out", out, *TINY), "out: ")
    assert contents(names_model) == before and not list(tmp_path.iterdir())


def test_two_runs_in_one_folder_are_refused(names_model, names_command, tmp_path):
    shutil.copytree(names_model, tmp_path / "run")
    lock = lock_folder(tmp_path / "run")  # as while another run trains there
    before = contents(tmp_path / "run")
    refused(former(*names_command, "--out", tmp_path / "run", "--overwrite", *TINY), "another run")
    refused(former("train", "names", "--resume", tmp_path / "run"), "another run")
    assert contents(tmp_path / "run") == before
    lock.release()


def test_a_run_that_was_stopped_is_not_begun_anew_without_a_word(
    names_model, names_command, tmp_path
):
    stopped = shutil.copytree(names_model, tmp_path / "stopped")
    (stopped / "model.safetensors").unlink()  # before its first evaluation
    before = contents(stopped)
    words = ("out: ", "stopped at step", "--resume", "--overwrite")
    refused(former(*names_command, "--out", stopped, *TINY), *words)
    assert contents(stopped) == before
    (stopped / "checkpoint.safetensors").write_bytes(b"no checkpoint")
    refused(former(*names_command, "--out", stopped, *TINY), "checkpoint.safetensors", "not whole")
    done(*names_command, "--out", stopped, "--overwrite", *TINY)
    ended = shutil.copytree(names_model, tmp_path / "ended")
    (ended / "checkpoint.safetensors").unlink()
    refused(former("train", "names", "--resume", ended), "resume: ", "no checkpoint.safetensors")
    assert contents(ended)["model.safetensors"] == contents(names_model)["model.safetensors"]


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
def test_a_damaged_run_is_refused(names_model, tmp_path, name, change, word):
    shutil.copytree(names_model, tmp_path / "run")
    file = tmp_path / "run" / name
    file.write_bytes(change(file.read_bytes())) if change else file.unlink()
    before = contents(tmp_path / "run")
    refused(former("train", "names", "--resume", tmp_path / "run"), word)
    assert contents(tmp_path / "run") == before


def test_a_run_that_has_no_model_yet_says_how_to_go_on(tmp_path):
    out = tmp_path / "my run"
    words = dict(zip(("rows", "length", "symbols", "d_model", "steps"), (250, 5, 8, 16, 2)))
    task = choose(TASKS["copy"], "copy", words)
    folders.claim_folder(out, "copy", task, False)  # what a run does first
    on = f"former-nb train copy --resume '{out}'"
    for command in ("generate", "classify x", "translate x", "view x", "evaluate"):
        refused(former(*command.split(), "--model", out), "model: ", "did not end", on)
    assert "Going on" in done("train", "copy", "--resume", out, *CPU)
    done("generate", "--model", out, "--n", 1)


def test_a_run_of_an_earlier_version_on_a_text_goes_on(tmp_path):
    (tmp_path / "long.txt").write_text("one, two, three, four, five. " * 40)
    out = tmp_path / "run"
    words = ["train", "text", "--file", tmp_path / "long.txt", "--length", 8, "--steps", 2]
    done(*words, "--out", out, *SMALL, *CPU)
    note = json.loads((out / "run.json").read_text())
    note["settings"]["cache"] = True  # which an earlier version had
    (out / "run.json").write_text(json.dumps(note))
    assert "Going on" in done("train", "text", "--resume", out, *CPU)
    note["settings"].pop("length")
    (out / "run.json").write_text(json.dumps(note))
    refused(former("train", "text", "--resume", out), "lacks the setting length")
