"""Tasks: a file of one's own by the command line, and settings that say what the configurations
say."""

import ast
import json
import os
import subprocess
import sys
from configparser import ConfigParser
from dataclasses import fields
from pathlib import Path

import pytest
from cli_tools import contents, done, former, refused
from process_tools import OFFLINE

from former_nb.base.files import read_json
from former_nb.base.ranges import TRAINING, Range
from former_nb.cli import OWN_DATA, OWN_TASK, run_options, setting_options
from former_nb.models.choices import MODEL
from former_nb.models.config import RARE, TransformerConfig
from former_nb.tasks import TASKS, Task, find_task
from former_nb.tasks.base import RUN_OPTIONS, choose, comments, list_settings
from former_nb.tasks.toy import Copy
from former_nb.training.training_config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
ADDITION = """
from dataclasses import dataclass
from former_nb.models.savable import LanguageModel
from former_nb.tasks import Task, text_data
from former_nb.data.tokenization import CharTokenizer
from former_nb.training.losses import evaluate

@dataclass(frozen=True)
class Addition(Task):
    "Add two numbers."

    limit: int = 20  # of each number

    def load_data(self):
        if self.limit < 10:
            raise ValueError(f"limit: expected 10 or more, got {self.limit}")
        sums = [f"{a}+{b}={a + b}" for a in range(self.limit) for b in range(self.limit)]
        parts = [sums[40:], sums[:20], sums[20:40]]
        return text_data("sums", parts, CharTokenizer("+0123456789="), 16, self.seed)

    def make_model(self, data):
        return LanguageModel.from_config(self.model_config(data))

    def report(self, model, data, folder, say):
        loss = evaluate(model, data.valid)
        say(f"Nats per digit: {loss:.3f}")
        return {"nats": loss}
"""
TINY = "--d-model 16 --n-heads 2 --n-layers 1 --device cpu".split()


@pytest.fixture
def addition(tmp_path):
    file = tmp_path / "addition.py"
    file.write_text(ADDITION, encoding="utf-8")
    return file


def test_a_file_is_a_task_with_help_settings_a_run_and_a_card(addition, tmp_path):
    said = done("train", addition, "--help")
    assert "Add two numbers." in said and "--limit" in said
    assert "of each number; a whole number [20]" in one_line(said)
    out = tmp_path / "out"
    train = ["train", addition, "--limit", 15, *TINY]
    dry = done(*train, "--steps", 5, "--dry-run")
    assert "limit = 15\n" in dry and "# data: sums: 185 to learn from, 20 to choose by" in dry
    (tmp_path / "dry.toml").write_text(dry, encoding="utf-8")
    assert done("train", addition, "--config", tmp_path / "dry.toml", "--dry-run") == dry
    assert "Nats per digit" in done(*train, "--steps", 5, "--out", out)
    card = (out / "README.md").read_text(encoding="utf-8")
    assert "# addition\n" in card and "`former-nb train addition.py`" in card
    assert "- nats: " in card and str(tmp_path) not in card
    assert read_json("run", out / "run.json")["settings"]["limit"] == 15
    assert "Nats per digit" in done("evaluate", "--model", out, "--task", addition)
    result = former("evaluate", "--model", out)  # no folder makes us run a file
    refused(result, "task: expected the file 'addition.py'")
    assert done("generate", "1+", "--model", out, "--n", 1, "--all").startswith("1+")


def test_a_run_of_a_file_goes_on(addition, tmp_path):
    train = ["train", addition, *TINY, "--steps", 6, "--eval-every", 3, "--out"]
    done(*train, tmp_path / "whole")
    cut = tmp_path / "cut"
    broken = ADDITION.replace("        loss = ", "        raise KeyboardInterrupt\n        loss = ")
    addition.write_text(broken, encoding="utf-8")
    assert former(*train, cut).returncode == 130
    addition.write_text(ADDITION, encoding="utf-8")
    assert "Going on" in done("train", addition, "--resume", cut, "--device", "cpu")
    weights = [contents(tmp_path / name)["model.safetensors"] for name in ("whole", "cut")]
    assert weights[0] == weights[1]
    refused(former("train", "copy", "--resume", cut), "resume: ", "addition.py", "'copy'")
    refused(former("train", addition, "--resume", cut, "--limit", 12), "limit: ", "20", "12")
    addition.write_text(ADDITION.replace("a + b}", "a + b + 1}"), encoding="utf-8")
    refused(former("train", addition, "--resume", cut), "another run: rows of train=")


MISTAKES = {
    "len(5)": "TypeError: object of type 'int' has no len()",
    "a, b = [1]": "ValueError: not enough values to unpack",
    "LanguageModel.from_config(5)": "Error: ",
    "import former_nb.nowhere": "ModuleNotFoundError",
    "self.limits": "AttributeError",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_of_who_writes_a_task_shows_where_it_is(addition, tmp_path, line):
    text = ADDITION.replace("        if self.limit", f"        {line}\n        if self.limit", 1)
    addition.write_text(text, encoding="utf-8")
    result = former("train", addition, "--out", tmp_path / "out", *TINY)
    assert result.returncode == 1 and "Traceback" in result.stderr
    assert MISTAKES[line] in result.stderr and 'addition.py", line 1' in result.stderr
    assert not (tmp_path / "out").exists()


def test_what_is_wrong_with_the_settings_of_a_file_is_one_sentence(addition, tmp_path):
    refused(former("train", addition, "--limit", 5, "--dry-run"), "limit: expected 10 or more")
    config = tmp_path / "a.toml"
    for value in ("true", "1.5", '"many"', "[1]"):
        config.write_text(f"limit = {value}\n")
        words = ["train", addition, "--config", config, "--dry-run"]
        refused(former(*words), "limit: expected a whole number, got ")
    refused(former("train", addition, "--d-model", 15, "--dry-run"), "d_model: ")
    refused(former("train", tmp_path / "none.py", "--dry-run"), "task: ", "none.py", "names")
    addition.write_text("x = 1\n")
    refused(former("train", addition, "--help"), "task: expected one dataclass", "none")
    addition.write_text(ADDITION.replace("def report", "def reports"), encoding="utf-8")
    refused(former("train", addition, "--help"), "Addition lacks report")
    for line, words in {
        "limit: list[int] = ()": ("limit: expected an int, float, str or bool", "list[int]"),
        "limit: complex = 20": ("limit: expected an int, float, str or bool", "complex"),
        "out: int = 20": ("task: expected another name for a setting", "'out'"),
    }.items():
        addition.write_text(ADDITION.replace("limit: int = 20", line), encoding="utf-8")
        refused(former("train", addition, "--help"), *words)
    addition.write_text(ADDITION.replace("@dataclass(frozen=True)\n", ""), encoding="utf-8")
    refused(former("train", addition, "--help"), "task: expected one dataclass", "Addition")


@pytest.mark.parametrize("found", ["None", '{"nats": data}', "[loss]"])
def test_a_report_that_is_no_dict_for_json_is_named(addition, tmp_path, found):
    text = ADDITION.replace('return {"nats": loss}', f"return {found}")
    addition.write_text(text, encoding="utf-8")
    words = ["train", addition, "--steps", 2, "--out", tmp_path / "out", *TINY]
    refused(former(*words), "report: expected ")


UNREADABLE = {
    b"x = (\n": "Python cannot read line 1 of odd.py, `x = (`: ",
    b'x = "\0"\n': "odd.py: source code string cannot contain null bytes",
    'x = "\u00e9"\n'.encode("latin-1"): "odd.py is no text in UTF-8",
}


@pytest.mark.parametrize("content", UNREADABLE, ids=["syntax", "null", "latin"])
def test_a_file_that_python_cannot_read_gets_a_sentence(tmp_path, content):
    file = tmp_path / "odd.py"
    file.write_bytes(content)
    for words in (["--help"], ["--dry-run"]):
        refused(former("train", file, *words), "task: ", UNREADABLE[content])
    file.write_bytes(b"\xef\xbb\xbf" + ADDITION.encode())  # as some editors begin a file
    assert "Add two numbers." in done("train", file, "--help")


def test_new_writes_a_task_that_trains_and_never_over_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "former-nb train my_vowels.py" in done("new", "my_vowels")
    written = (tmp_path / "my_vowels.py").read_text(encoding="utf-8")
    assert "class MyVowels(Task):" in written and "Example" not in written
    assert len(written.splitlines()) < 60
    said = done("train", "my_vowels.py", "--help")
    assert (
        "Put the vowels back into a name." in said
        and "names per step; a whole number [32]" in one_line(said)
    )
    assert "Right: " in done("train", "my_vowels.py", *TINY, "--steps", 2)
    assert done("translate", "jns", "--model", "runs/my_vowels", "--device", "cpu").count("\n") == 1
    again = former("new", "my_vowels.py")
    refused(again, "name: expected a new one", "my_vowels.py is there already")
    assert (tmp_path / "my_vowels.py").read_text(encoding="utf-8") == written


@pytest.mark.parametrize(
    "name",
    ["Vowels", "a.b", "../a", "my-task", "", "class", "names", "torch", "data", "none"],
)
def test_new_refuses_a_name_that_its_file_cannot_have(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    refused(former("new", name), "name: expected ")
    assert not list(tmp_path.iterdir())


def test_the_page_types_what_new_writes():
    file = ROOT / "former_nb" / "commands" / "example_pairs.py"
    written = file.read_text(encoding="utf-8").replace("class Example(", "class Vowels(")
    page = read_json("page", ROOT / "nbs" / "deeper" / "16_own_task.ipynb")
    typed = ["".join(cell["source"]) for cell in page["cells"] if cell["cell_type"] == "code"]
    cells = [ast.parse(cell) for cell in typed if "%pip" not in cell]
    there = {ast.dump(node) for tree in cells for node in tree.body}
    for node in ast.parse(written).body[1:]:  # after the docstring
        assert ast.dump(node) in there, ast.unparse(node)


def test_who_looks_for_help_is_led_to_a_task_of_their_own():
    said = " ".join(done("train", "--help").split())
    assert "former-nb new NAME writes NAME.py, which former-nb train NAME.py learns" in said
    settings = ConfigParser(delimiters=["="], interpolation=None)
    settings.read(ROOT / "settings.ini", encoding="utf-8")
    site = "{doc_host}{doc_baseurl}".format(**settings["DEFAULT"])
    for address in (OWN_TASK, OWN_DATA):
        folder, _, page = address.removesuffix(".html").rpartition("/")
        assert f"{site}/deeper" == folder and address in said.split()
        assert (ROOT / "nbs" / "deeper" / f"{page}.ipynb").is_file()


def test_each_task_has_the_settings_of_the_configurations_with_their_words():
    common = list_settings(Task)
    types = {field.name: field.type for field in fields(Task)}
    for config in (TransformerConfig, TrainingConfig):
        said = comments(config)
        for field in fields(config):
            if field.name in {"vocab_size", "max_len", "rope_scaling", *RARE}:  # never offered
                assert field.name not in common
                continue
            setting = common.pop(field.name)
            assert types[field.name] == field.type or field.name == "d_ff"
            if field.name != "d_ff":
                assert (setting.default, setting.help) == (field.default, said[field.name])
    assert not common and Copy().training_config().epochs == 1


def test_a_run_ends_as_was_asked_for_and_widths_follow():
    assert choose(Copy, "copy", {}).epochs == 1
    task = choose(Copy, "copy", {"steps": 100, "muon_lr": 0})
    assert (task.epochs, task.steps, task.muon_lr, task.d_ff) == (None, 100, None, 128)
    assert choose(TASKS["imdb"], "imdb", {}).d_ff == 256
    assert choose(TASKS["imdb"], "imdb", {"d_model": 16}).d_ff == 64
    assert choose(TASKS["imdb"], "imdb", {"d_model": 16, "d_ff": 5}).d_ff == 5
    with pytest.raises(ValueError, match="simbols: not a setting of 'copy'; did you mean symbols?"):
        choose(Copy, "copy", {"simbols": 3})
    assert list(TASKS)[:4] == ["names", "copy", "reverse", "sort"]
    with pytest.raises(ValueError, match="task: there is no file 'nowhere'; the tasks are names,"):
        find_task("nowhere")


def test_a_setting_that_this_version_does_not_know_is_named(tmp_path):
    out = tmp_path / "out"
    done("train", "copy", "--rows", 100, "--steps", 1, *TINY, "--out", out)
    run = read_json("run", out / "run.json")
    run["settings"]["flavour"] = 3
    (out / "run.json").write_text(json.dumps(run), encoding="utf-8")
    refused(former("train", "copy", "--resume", out), "resume: ", "'flavour'", "'copy'")


HELP = """
import json, sys
sys.modules["torch"] = sys.modules["numpy"] = None  # who imports them fails
from former_nb.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["former-nb", "train", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


def test_help_does_not_wait_for_pytorch():
    words = json.dumps([["--help"], *([task, "--help"] for task in TASKS)])
    how = dict(env=os.environ | OFFLINE, capture_output=True, text=True)
    result = subprocess.run([sys.executable, "-c", HELP, words], **how)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("width of the residual stream") == len(TASKS)


def one_line(text):
    return " ".join(text.replace("-\n", "-").split())


@pytest.mark.parametrize("task", TASKS)
def test_help_says_of_each_setting_what_it_may_be(task):
    "By the table that its guard asks; a flag of true and false says it by its name."
    shown, settings = setting_options(TASKS[task]), list_settings(TASKS[task])
    for name, setting in settings.items():
        rule = TASKS[task].rules.get(name)
        help = shown[name][0].__metadata__[0].help
        if setting.kind in (int, float):
            assert isinstance(rule, Range), f"{task}: {name} has no range"
            assert rule.words in help, name
        elif isinstance(rule, tuple) and setting.kind is str:
            assert f"one of {', '.join(rule)}" in help, name
    common = {name for name in MODEL | TRAINING if name in settings}
    assert common == {field.name for field in fields(Task)}


def test_no_setting_is_called_as_what_each_run_has():
    assert set(run_options("copy")) == RUN_OPTIONS


def test_help_prints_the_ranges():
    said = one_line(done("train", "classify", "--help"))
    assert "peak rate of AdamW; a number above 0 [0.005]" in said
    assert "set to 0 in training; a number from 0 to below 1 [0.0]" in said
    assert "one of learned, sinusoidal, rotary, alibi, relative" in said
    assert "subwords; a whole number of 260 or more [4000]" in said


@pytest.mark.parametrize(
    "task, name, wrong",
    [
        ("copy", "symbols", 27),
        ("copy", "rows", 1_000_001),
        ("names", "batch_size", 0),
        ("shakespeare", "length", 1.5),
        ("multi30k", "average", True),
    ],
)
def test_a_setting_of_a_task_is_refused_by_its_range(task, name, wrong):
    kind = TASKS[task]
    with pytest.raises(
        ValueError, match=f"^{name}: expected {kind.rules[name].words}, got {wrong}"
    ):
        kind(**{name: wrong}).check_own()
