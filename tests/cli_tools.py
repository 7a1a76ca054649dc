"""The command line for the tests of several files: in this process, or in one of its own."""

import io
import os
import subprocess
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch
from process_tools import OFFLINE, fork

from former_nb.cli import main

CPU = ["--device", "cpu"]
SMALL = "--d-model 16 --n-heads 2 --n-layers 1 --device cpu".split()
TINY = ["--epochs", "1", *SMALL]
SIZES = ["--rows", 250, "--length", 5, "--symbols", 8, *SMALL]
MODEL = ("config.json", "model.safetensors", "tokenizer.json")
LIST = [a + b for a in ("jo", "mi", "au", "ra") for b in ("nas", "da", "rė", "tas", "va")]
ODD = "\x1b]0;PWN\x07abc\u202ecba\u200f\x9b2J"  # what no terminal may get
POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows has neither these signals nor limits")


def process(*words, before="", stdin=b""):
    "The command in a process of its own, which runs the Python of `before` first."
    return fork(before + "\nfrom former_nb.cli import main\nmain()", *words, stdin=stdin)


def begun(*words, **how):
    "A command whose output is being read."
    code = "from former_nb.cli import main; main()"
    if os.name == "posix":
        code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); " + code
    how = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | OFFLINE) | how
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], **how)


def _stream(content=b""):
    return io.TextIOWrapper(io.BufferedRandom(io.BytesIO(content)), encoding="utf-8")


def former(*words, stdin=b""):
    "The command in this process, which has imported torch already; `stdin=None` is a closed one."
    threads, (out, err) = torch.get_num_threads(), (_stream(), _stream())
    torch.set_num_threads(1)  # as in `OFFLINE`
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.setattr(sys, "argv", ["former-nb", *map(str, words)])
        patch.setattr(sys, "stdin", None if stdin is None else _stream(stdin))
        patch.setenv("FORMER_NB_DATA", "")
        try:
            code = main() or 0
        except SystemExit as end:
            code = end.code or 0
        except Exception:  # a user would see a traceback
            traceback.print_exc()
            code = 1
        finally:
            torch.set_num_threads(threads)
    said = [stream.seek(0) or stream.read() for stream in (out, err)]
    return subprocess.CompletedProcess(words, code, *said)


def done(*words, **options):
    "What the command says, which must succeed."
    result = former(*words, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def refused(result, *words):
    "Exit code 2 and one sentence that holds `words`."
    said = result.stderr if isinstance(result.stderr, str) else result.stderr.decode()
    assert result.returncode == 2 and "Traceback" not in said, said
    bar = lambda line: any(
        word in line for word in ("step/s", "s/step", "first step")
    )  # of progress
    lines = [line for line in said.splitlines() if line.strip() and not bar(line)]
    assert len(lines) == 1 and all(word in said for word in words), said


def no_option(result, *words):
    "Exit code 2 and a hint of how to use the command that holds `words`."
    assert result.returncode == 2 and "Traceback" not in result.stderr, result.stderr
    assert all(word in result.stderr for word in words), result.stderr


def contents(folder):
    "Name and bytes of each file of a folder."
    return {file.name: file.read_bytes() for file in folder.iterdir()}


WORDS = {"0": "falls", "1": "rises", "2": "waits"}


def write_table(file, n, start=0, labels=WORDS):
    "A table of n texts, none of which is in a table with another start."
    kinds = list(labels)
    rows = [f"firm {i} {labels[kinds[i % len(kinds)]]},{kinds[i % len(kinds)]}" for i in range(n)]
    rows = [f"{start} {row}" for row in rows]
    file.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return str(file)


def write_tables(folder):
    "Tables of four sizes, in none of which is a text of another, by their names."
    sizes = {"train": 120, "valid": 30, "test": 45, "later": 60}
    return {
        name: write_table(folder / f"{name}.csv", n, i) for i, (name, n) in enumerate(sizes.items())
    }
