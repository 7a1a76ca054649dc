"""What stops a command gets one sentence, and nothing that was read gets at the terminal."""

import errno
import io
import os
import subprocess
import sys
from itertools import count, islice
from pathlib import Path

import pytest
import typer
from cli_tools import CPU, ODD, POSIX, SIZES, TINY, begun, former, refused
from process_tools import OFFLINE

from former_nb import cli
from former_nb.commands import terminal, train


@POSIX
def test_a_reader_that_stops_early_is_no_error(names_model):
    code = "from former_nb.cli import main; main()"
    command = [sys.executable, "-c", code, "generate", "--model", names_model, "--n", "5000"]
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


def test_what_does_not_fit_gets_one_sentence(monkeypatch, names_command, tmp_path):
    def fails(error):
        def step(*_, **__):
            raise error

        monkeypatch.setattr("former_nb.training.fitting.train_step", step)
        return former(*names_command, "--out", tmp_path / "out", "--overwrite", *TINY)

    for error in (MemoryError(), RuntimeError("can't allocate memory: you tried 4 bytes.")):
        refused(fails(error), "not enough memory", "--dry-run")
    monkeypatch.setattr("former_nb.decoding.caches.write_texts", lambda *_, **__: bytes(2**62))
    refused(former("generate"), "not enough memory", "shorter")  # it has no --dry-run
    assert "ZeroDivisionError" in fails(ZeroDivisionError()).stderr  # a mistake of ours stays one
    broken = RuntimeError("CUDA error: an illegal memory access was encountered")
    assert "illegal memory access" in fails(broken).stderr  # nor is this a lack of memory


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


def test_what_is_not_utf_8_is_named_with_its_line(letters_classifier, tmp_path):
    text = b"abc\nab\xffc\n"
    for words in (["classify", "--model", letters_classifier], ["translate"]):
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
def test_a_full_disk_behind_standard_output_is_named(own_run):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no such device")
    with open("/dev/full", "w") as full:
        process = begun("generate", "--model", own_run, stdout=full)
        _, said = process.communicate(timeout=300)
    assert process.returncode == 2 and said.startswith(b"Error: standard output: ")
    assert said.count(b"\n") == 1
