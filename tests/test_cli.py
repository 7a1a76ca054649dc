"""Commands, their help and what is judged before PyTorch is imported."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tools import TINY, contents, done, former, no_option, refused
from process_tools import OFFLINE

from former_nb.tasks import TASKS


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


def test_a_model_is_measured_again_on_what_its_run_held_out(names_model, names_command, tmp_path):
    before = contents(names_model)
    said = done("evaluate", "--model", names_model, "--device", "cpu")
    report = json.loads(before["training.json"])
    for name, nats in report["held_out_nats_per_character"].items():
        assert f"{nats:.3f}  {name}" in said
    after = contents(names_model)
    del before["attention.png"], after["attention.png"]
    assert after == before
    refused(former("evaluate", "--model", tmp_path), "model", "run.json")
    moved = shutil.copytree(names_model, tmp_path / "moved")
    (moved / "training.json").write_text(json.dumps(report | {"data": "others"}))
    refused(former("evaluate", "--model", moved), "data", "others")


def test_a_model_is_not_measured_on_data_that_have_changed(own_files, tmp_path):
    file = tmp_path / "names"
    text = Path(own_files["names"]["file"]).read_text(encoding="utf-8")
    file.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    done("train", "names", "--file", file, "--out", out, *TINY)
    file.write_text(f"{text}Ona\n", encoding="utf-8")
    refused(former("evaluate", "--model", out), "data: ", "as in training")
    first, *rest = text.splitlines()
    same_number = "\n".join([f"{first}+", *rest])  # as many names, and a new character
    file.write_text(same_number, encoding="utf-8")
    refused(former("evaluate", "--model", out), "data: ", "another tokenizer")


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


def test_each_command_takes_its_texts_without_an_option(own_run):
    write = ["generate", "--model", own_run, "--seed", 0, "--n", 3]
    jo, mi = done(*write, "Jo"), done(*write, "Mi")
    assert jo == done(*write, "-", stdin=b"Jo\n")
    assert jo.splitlines()[0].startswith("Jo") and done(*write, "Jo", "Mi") == jo + mi
    refused(former(*write, ""), "prompt: ")


def test_a_classifier_has_to_be_trained_first_and_plays_go_on():
    refused(former("classify", "a film"), "model: ", "former-nb train imdb")
    words = ["generate", "--model", "shakespeare", "--n", 1, "--max-new-tokens", 8, "--seed", 0]
    assert done(*words, "ROMEO:").startswith("ROMEO:") and done(*words).strip()


NO_TORCH = """
import json, sys
sys.modules["torch"] = None  # who imports it fails
from former_nb.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["former-nb", *words]
    try:
        main()
    except SystemExit as end:
        print(end.code, flush=True)
"""
ON_A_TERMINAL = (
    """
import sys
sys.stderr.isatty = lambda: True
"""
    + NO_TORCH
)
EARLY = {  # what is judged without it
    "generate --model nowhere": "model: expected",
    "classify --model nowhere x": "model: expected",
    "translate --model nowhere x": "model: expected",
    "view --model nowhere x": "model: expected",
    "evaluate --model nowhere": "model: expected",
    "evaluate": "model: expected the folder of a run",
    "evaluate --model names": "README.md says how good 'names' is",
    "classify x": "model: expected a folder",
    "generate --temperature -1": "'--temperature'",
    "generate --top-p 2": "'--top-p'",
    "generate --min-p 2": "'--min-p'",
    "generate --top-k 0": "'--top-k'",
    "translate --file nowhere": "file: 'nowhere'",
    "translate --num-beams 0 x": "'--num-beams'",
    "generate": "torch",  # the model is there: now it is needed
}


def test_folders_and_options_are_judged_before_pytorch_is_imported(tmp_path):
    words = json.dumps([line.split() for line in EARLY])
    how = dict(cwd=tmp_path, env=os.environ | OFFLINE, capture_output=True, text=True)
    result = subprocess.run([sys.executable, "-c", NO_TORCH, words], **how)
    said = [line for line in result.stderr.splitlines() if line.startswith("Error: ")]
    assert result.stdout.split() == ["2"] * len(EARLY) and len(said) == len(EARLY), result.stderr
    for (line, wanted), sentence in zip(EARLY.items(), said):
        assert wanted in sentence, (line, sentence)


SLOW = [  # commands that need PyTorch
    "generate Jo",
    "translate eins",
    "classify --model names x",
    "view Jonas",
    "train names",
]


def test_a_terminal_is_told_what_is_loaded_before_pytorch_is_and_a_log_is_not(tmp_path):
    words = json.dumps([line.split() for line in SLOW])
    how = dict(cwd=tmp_path, env=os.environ | OFFLINE, capture_output=True, text=True)
    for before, loading in ((ON_A_TERMINAL, len(SLOW)), (NO_TORCH, 0)):
        result = subprocess.run([sys.executable, "-c", before, words], **how)
        assert result.stdout.split() == ["2"] * len(SLOW), result.stderr
        assert result.stderr.count("Loading ") == loading, result.stderr
        assert result.stderr.count("Error: import of torch halted") == len(SLOW), result.stderr
