"""What someone meets in the first minutes: texts without an option, models that ship, a word while
one waits, new names only, and nothing that was read gets at the terminal."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
from itertools import count, islice
from pathlib import Path

import pytest
import typer
from cli_tools import POSIX, SMALL, contents, done, former, refused
from process_tools import OFFLINE

from former_nb import cli
from former_nb.commands import folders, generate, terminal, train
from former_nb.data.data_sets import load_names
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding import caches
from former_nb.decoding.sampling import Sampling
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks import TASKS
from former_nb.tasks.base import choose

CPU = ["--device", "cpu"]
SIZES = ["--rows", 250, "--length", 5, "--symbols", 8, *SMALL]
LIST = [a + b for a in ("jo", "mi", "au", "ra") for b in ("nas", "da", "rė", "tas", "va")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    "A run that learned names from a file of one's own."
    folder = tmp_path_factory.mktemp("own")
    (folder / "list").write_text("\n".join(LIST), encoding="utf-8")
    words = ["--file", folder / "list", "--out", folder / "run", "--epochs", 1, *SMALL]
    done("train", "names", *words)
    return folder / "run"


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    "A classifier that knows some letters only, with weights made by chance."
    folder, tokenizer = tmp_path_factory.mktemp("classifier"), CharTokenizer("abcdefghij ")
    config = TransformerConfig(tokenizer.vocab_size, 16, d_model=8, n_heads=2, n_layers=1)
    save_model(folder, Classifier.from_config(config, 2), tokenizer, ["bad", "good"])
    return folder


# ---- what is given


def test_each_command_takes_its_texts_without_an_option(run):
    write = ["generate", "--model", run, "--seed", 0, "--n", 3]
    jo, mi = done(*write, "Jo"), done(*write, "Mi")
    assert jo == done(*write, "-", stdin=b"Jo\n")
    assert jo.splitlines()[0].startswith("Jo") and done(*write, "Jo", "Mi") == jo + mi
    refused(former(*write, ""), "prompt: ")


def test_a_classifier_has_to_be_trained_first_and_plays_go_on():
    refused(former("classify", "a film"), "model: ", "former-nb train imdb")
    words = ["generate", "--model", "shakespeare", "--n", 1, "--max-new-tokens", 8, "--seed", 0]
    assert done(*words, "ROMEO:").startswith("ROMEO:") and done(*words).strip()


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


def test_the_same_folder_twice_is_no_contradiction(run, monkeypatch):
    before = contents(run)["model.safetensors"]
    monkeypatch.chdir(run.parent)
    for out in (run, "run", "./run/"):
        assert "Going on" in done("train", "names", "--resume", run, "--out", out, *CPU)
    assert contents(run)["model.safetensors"] == before
    refused(former("train", "names", "--resume", run, "--out", "other"), "out, resume: ")


# ---- before PyTorch is there

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


class Terminal(io.StringIO):
    "Takes what is written, and says that someone looks at it."

    def isatty(self):
        return True


@pytest.mark.parametrize("words", ["generate", "translate eins", "view Jonas"])
def test_who_waits_at_a_terminal_is_told_for_what(monkeypatch, words):
    before = []

    def load(*_):
        before.append(sys.stderr.getvalue())
        raise ValueError("enough")

    monkeypatch.setattr("former_nb.saving.saving.load_model", load)
    monkeypatch.setattr(sys, "argv", ["former-nb", *words.split()])
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        with pytest.raises(SystemExit):
            cli.main()
        shown = "Loading the model …" if stream.isatty() else ""
        assert before.pop() == shown
        gone = f"{shown}\r{' ' * len(shown)}\r" if shown else ""
        assert stream.getvalue() == f"{gone}Error: enough\n"


def test_the_first_lines_do_not_wait_for_a_thousand():
    sizes = [len(some) for some in islice(terminal.growing(count(), 1000), 6)]
    assert sizes == [1, 8, 64, 512, 1000, 1000]
    read = []
    lines = (read.append(i) or i for i in range(5))
    assert next(terminal.growing(lines, 1000)) == [0] and read == [0]
    assert list(terminal.growing([], 9)) == [] and list(terminal.growing(range(3), 1)) == [
        [0],
        [1],
        [2],
    ]


@pytest.mark.parametrize("n", [1, 3, 30])
def test_what_was_read_before_an_error_is_answered(classifier, tmp_path, n):
    file = tmp_path / "broken.txt"
    file.write_text("eins\n" * n + "zw\0ei\n", encoding="utf-8")
    for words in (["translate", "--num-beams", 1], ["classify", "--model", classifier]):
        result = former(*words, "--file", file, *CPU)
        assert result.returncode == 2 and f"line {n + 1}" in result.stderr
        assert result.stdout.count("\n") == n


# ---- what is written


def test_new_names_and_none_twice():
    write = ["generate", "Jo", "--seed", 0, *CPU]
    result, everything = former(*write, "--n", 60), done(*write, "--n", 400, "--all").splitlines()
    names, known = result.stdout.splitlines(), {name.lower() for name in load_names()[0]}
    assert len(set(names)) == 60 and not known & {name.lower() for name in names}
    fresh = [name for name in dict.fromkeys(everything) if name.lower() not in known]
    assert names == fresh[:60] and len(fresh) < len(set(everything)) < len(everything) == 400
    assert "in the list of names" in result.stderr and "--all" in result.stderr
    assert "repeated" in result.stderr and result.stderr.count("\n") == 1
    assert former(*write, "--n", 60, "--all").stderr == ""


def test_what_a_model_has_learned_is_asked_of_its_run(run, tmp_path):
    tokenizer = load_model(run).tokenizer
    assert generate.known_names(run, tokenizer) == set(LIST)
    assert generate.known_names(tmp_path, tokenizer) == set()  # nobody knows
    done("train", "copy", *SIZES, "--steps", 2, "--out", tmp_path / "toy")
    assert generate.known_names(tmp_path / "toy", tokenizer) == set()  # an answer may be known


def test_a_list_that_is_gone_is_mentioned(run, tmp_path):
    lost = tmp_path / "lost"
    lost.mkdir()
    for name, content in contents(run).items():
        (lost / name).write_bytes(content)
    found = json.loads((run / "run.json").read_text(encoding="utf-8"))
    found["settings"]["file"] = str(tmp_path / "gone")
    (lost / "run.json").write_text(json.dumps(found), encoding="utf-8")
    result = former("generate", "--model", lost, "--n", 3, "--seed", 0)
    assert result.returncode == 0 and len(set(result.stdout.splitlines())) == 3
    assert "Note: " in result.stderr and "gone" in result.stderr


def test_where_nothing_new_is_left_it_ends(run):
    write = ["generate", "--model", run, "--n", 5]
    result = former(*write, "--temperature", 0)
    assert result.returncode == 0 and result.stdout.count("\n") == 1
    assert "only 1 of 5" in result.stderr and "--all" in result.stderr
    assert len(done(*write, "--temperature", 0, "--all").splitlines()) == 5
    few = former(*write, "--max-new-tokens", 0, "jo")  # the prompt, and nothing more
    assert few.returncode == 0 and few.stdout == "Jo\n" and "100 repeated" in few.stderr


def test_many_texts_are_drawn_a_few_at_a_time(run, monkeypatch):
    trained, tokenizer, _ = load_model(run)
    sizes, draw = [], caches.write_texts

    def counted(model, texts, *words, **how):
        sizes.append(len(texts))
        return draw(model, texts, *words, **how)

    monkeypatch.setattr(caches, "write_texts", counted)
    sampling = Sampling(seed=3)
    drawn = list(islice(generate.draw_texts(10**30, trained, tokenizer, "", 4, sampling), 6000))
    assert sizes[:3] == [16, 64, 256] and max(sizes) * 4 <= generate.TOKENS and len(sizes) < 10
    for i in (0, 20, 5000):  # each as if it were drawn alone
        how = Sampling(seed=3 + i)
        text, _ = draw(trained, "", 4, how, tokenizer=tokenizer)
        assert text.capitalize() == drawn[i].text
    wide = generate.draw_texts(10**30, trained, tokenizer, "", 10**6, sampling)
    next(wide)
    assert sizes[-1] == 1


def begun(*words, **how):
    "A command whose output is being read."
    code = "from former_nb.cli import main; main()"
    if os.name == "posix":
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + code
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | OFFLINE) | how
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], **how)


@POSIX
def test_without_end_until_someone_has_read_enough_or_stops_it(run):
    process = begun("generate", "--model", run, "--n", 10**30, "--all")
    assert all(process.stdout.readline() for _ in range(100))
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(timeout=60) == 0
    process = begun("generate", "--model", run, "--n", 10**30, "--stream")
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said == b"Stopped.\n"


def test_a_number_beyond_all_bounds_gets_one_sentence(capsys):
    @terminal.one_sentence
    def too_large():
        return 2.0**10_000

    with pytest.raises(typer.Exit) as stop:
        too_large()
    assert stop.value.exit_code == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: a number is too large: ") and "(" not in said
    refused(former("translate", "--length-penalty", "100000", "eins", *CPU))


# ---- what was read, on a terminal and elsewhere

ODD = "\x1b]0;PWN\x07abc\u202ecba\u200f\x9b2J"


@pytest.mark.parametrize("command", ["classify", "translate"])
def test_no_note_lets_control_characters_through(classifier, command):
    words = ["--model", classifier] if command == "classify" else ["--num-beams", 1]
    result = former(command, *words, *CPU, stdin=f"{ODD}\n".encode())
    assert result.returncode == 0 and "\\x1b" in result.stderr and "\\u202e" in result.stderr
    assert result.stderr.isascii() and result.stderr.replace("\n", "").isprintable()
    if command == "classify":
        assert ODD in result.stdout  # a pipe gets what was read


@pytest.mark.parametrize("odd", [ODD, "bell\x07", "\u2066bidi\u2069"])
def test_no_error_and_no_text_lets_them_through_to_a_terminal(monkeypatch, odd):
    @terminal.one_sentence
    def fail():
        raise ValueError(f"file: {odd}")

    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(typer.Exit):
        fail()
    terminal.echo(f"čia\t{odd}")
    monkeypatch.setattr(sys, "stdout", pipe := io.StringIO())
    terminal.echo(odd)
    for shown in (out.getvalue(), err.getvalue()):
        assert shown.replace("\n", "").replace("\t", "").isprintable() and "\\" in shown
    assert out.getvalue().startswith("čia\t") and pipe.getvalue() == f"{odd}\n"


def test_what_is_not_utf_8_is_named_with_its_line(classifier, tmp_path):
    text = b"abc\nab\xffc\n"
    for words in (["classify", "--model", classifier], ["translate"]):
        result = former(*words, *CPU, stdin=text)
        [note] = result.stderr.splitlines()
        assert result.returncode == 0 and " 2, " in note and "surrogate" not in note
        assert "byte 0xff, which UTF-8 cannot decode, at character 3" in note
    (tmp_path / "names").write_bytes(b"jonas\nmi\xffda\n" * 9)
    words = ["--file", tmp_path / "names", "--out", tmp_path / "out"]
    refused(former("train", "names", *words), "byte 0xff in position 2 of line 2", "decoded")


def test_a_full_disk_is_named(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "on a full disk"
    monkeypatch.setattr(train, "write_report", full)
    words = ["train", "copy", *SIZES, "--steps", 2, "--out", out]
    refused(former(*words), "out: ", str(out), "No space left")
    monkeypatch.setattr(Path, "write_text", full)
    refused(former("view", "Jonas", "--out", tmp_path / "a.html", *CPU), "out: ", "a.html")


@POSIX
def test_a_full_disk_behind_standard_output_is_named(run):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no such device")
    with open("/dev/full", "w") as full:
        process = begun("generate", "--model", run, stdout=full)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 2 and said.startswith(b"Error: standard output: ")
    assert said.count(b"\n") == 1
