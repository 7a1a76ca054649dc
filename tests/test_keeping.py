"""`keep` writes an answer into the reader's file, and never half of it or over what is there."""

import linecache
import math
import os
from itertools import count
from pathlib import Path

import pytest
import torch
from grading_tools import alone
from torch import nn

from former_nb import keep
from former_nb.grading.content import right_module
from former_nb.grading.your_file import begin_file
from former_nb.models.layers import Block


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return alone(tmp_path, monkeypatch)


number = count()


def cell(source, **names):
    "What a cell defines, its source where Python looks for it."
    name = f"<cell {next(number)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"__name__": "__main__", "torch": torch, "nn": nn, **names}
    exec(compile(source, name, "exec"), space)
    return space


MERGE = """x = 1


def my_merge(row, pair):
    "Join pieces."
    merged = []
    for piece in row:
        if merged and (merged[-1], piece) == pair:
            merged[-1] = merged[-1] + piece
        else:
            merged.append(piece)
    return merged
"""


def quiet(monkeypatch):
    asked = []
    monkeypatch.setattr("former_nb.grading.keeping.show_file", lambda *what: asked.append(what))
    return asked


def test_an_answer_goes_into_a_new_file_under_the_name_of_its_step(capsys, monkeypatch, here):
    asked = quiet(monkeypatch)
    assert keep(cell(MERGE)["my_merge"])
    text = Path("mine.py").read_text()
    assert text.startswith('"""The Transformer, as I derived it."""\n\nimport json\n')
    assert text.endswith(MERGE.partition("\n\n\n")[2].replace("my_merge", "merge"))
    assert asked == [(here / "mine.py", "15")]
    assert capsys.readouterr().out == "merge is in mine.py.\n"
    assert right_module().merge([*"aba"], ("a", "b")) == cell(text)["merge"]([*"aba"], ("a", "b"))


def test_what_is_there_stays_and_an_open_definition_is_filled(capsys, monkeypatch):
    quiet(monkeypatch)
    begin_file("mine.py")
    source = "def attention(q, k, v, mask=None, is_causal=False):\n    return v + shift\n"
    assert keep(cell(source)["attention"])
    text = Path("mine.py").read_text()
    assert text.count("def attention(") == 1 and source in text and "def attention_weights" in text
    assert "It uses shift, which the file doesn't have yet." in capsys.readouterr().out
    assert not keep(cell(source.replace("v + ", "q + "))["attention"])
    assert Path("mine.py").read_text() == text
    assert "attention is in the file already and was left as it is" in capsys.readouterr().out


def test_a_class_goes_before_the_program_of_another_file_and_ends_of_lines_stay(monkeypatch):
    asked = quiet(monkeypatch)
    program = 'if __name__ == "__main__":\r\n    print(1)\r\n'
    Path("own.py").write_bytes(b"\xef\xbb\xbfimport torch\r\n\r\n\r\n" + program.encode())
    source = (
        "class Mine(nn.Module):\n    def forward(self, x):\n        return super().forward(x)\n"
    )
    assert keep(cell(source)["Mine"], "own.py")
    data = Path("own.py").read_bytes().decode()
    assert data.startswith("\ufeffimport torch\r\n") and data.endswith(program)
    assert source.replace("\n", "\r\n") in data and data.count("\n") == data.count("\r\n")
    assert asked == []  # it's no step


@pytest.mark.parametrize(
    "answer, sentence",
    [
        (3, "expected a function or class of yours, got int"),
        (math.sin, "got builtin_function_or_method"),
        (nn.Linear, "Linear is a library's"),
        (Block, "Block is the course's"),
        (cell("f = lambda x: x")["f"], "a lambda has no name"),
        (cell("def f():\n    def g():\n        return 1\n    return g")["f"](), "no source of g"),
        (cell("exec('def f(): return 1')")["f"], "no source of f"),
        (cell("class Empty:\n    pass")["Empty"], "no function of its own"),
    ],
    ids=range(8),
)
def test_what_has_no_source_of_its_own_is_refused(answer, sentence, capsys):
    assert not keep(answer)
    said = capsys.readouterr().out
    assert said.startswith("Not kept: ") and sentence in said and said.count("\n") == 1
    assert not Path("mine.py").exists()


@pytest.mark.parametrize(
    "source",
    [
        "@dataclass\nclass Mine:\n    d: int\n\n    def width(self):\n        return self.d\n",
        "@no_grad()\ndef Mine(x):\n    return x\n",
    ],
    ids=["dataclass", "wrapped"],
)
def test_what_is_decorated_is_kept_with_its_decorators(source, monkeypatch):
    quiet(monkeypatch)
    head = "from dataclasses import dataclass\nfrom torch import no_grad\n"
    assert keep(cell(head + source)["Mine"])
    assert source in Path("mine.py").read_text()


def test_a_file_that_python_cannot_read_is_left(capsys):
    Path("mine.py").write_text("x = = 1\n")
    assert not keep(cell(MERGE)["my_merge"])
    assert "mend that first" in capsys.readouterr().out
    assert Path("mine.py").read_text() == "x = = 1\n"


def test_half_of_a_file_is_never_written(monkeypatch):
    begin_file("mine.py")
    before = Path("mine.py").read_text()

    def fail(*paths):
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", fail)
    assert not keep(cell(MERGE)["my_merge"])
    assert Path("mine.py").read_text() == before
    assert [path.name for path in Path().iterdir()] == ["mine.py"]
