"""`former_nb.yours`: names from the reader's file where check has passed them. Every page that
takes names from it runs twice and prints the same."""

import ast
import inspect
import json
import os
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from grading_tools import alone
from thorough import THOROUGH, some
from torch import nn

from former_nb import check, fit, generate, record_attention, yours
from former_nb.attention.positions import LearnedPositions
from former_nb.base.source import load_file
from former_nb.data.text import collate
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding.caches import KVCache
from former_nb.grading import passed
from former_nb.grading.content import right_module, right_source
from former_nb.grading.your_file import NAMES
from former_nb.models.layers import Embedding, Stack
from former_nb.models.savable import LanguageModel
from former_nb.training.training_config import TrainingConfig

ROOT = Path(__file__).resolve().parents[1]
RIGHT = right_source()
COURSE = {}
for name, module in yours.HOME.items():
    if find_spec(f"former_nb.{module}") is not None:
        COURSE[name] = getattr(import_module(f"former_nb.{module}"), name, None)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    return alone(tmp_path, monkeypatch)


def save(source, steps=None, file="mine.py"):
    "A file, noted as passed in all of its steps or in these."
    Path(file).write_text(source, encoding="utf-8")
    passed.note_passed(source, list(passed.digests(source)) if steps is None else steps)


def first_lessons():
    "The right file up to lesson 03, its attention without masks."
    source = RIGHT.partition("class LearnedPositions")[0]
    begin, end = source.index("    if is_causal:"), source.index("    empty =")
    return source[:begin] + source[end:]


# ---------------------------------------------------------------- which names


def test_each_definition_of_the_file_is_offered_and_nothing_else():
    definitions = [node.name for node in ast.parse(RIGHT).body if hasattr(node, "name")]
    assert sorted(yours.HOME) == sorted(definitions) and len(definitions) == 45
    assert {*dir(yours)} == {*definitions, *yours.CONSTANTS, "load_mine"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(yours, "nothing")  # noqa: B009


def test_without_a_file_all_is_the_courses_and_nothing_is_said(capsys, monkeypatch):
    from former_nb.yours import Block, attention

    assert (Block, attention) == (COURSE["Block"], COURSE["attention"])
    save(RIGHT)
    for off in ("", "off", "OFF"):
        monkeypatch.setenv("FORMER_NB_MINE", off)
        from former_nb.yours import Block

        assert Block is COURSE["Block"]
    assert capsys.readouterr().out == ""


def test_one_line_for_an_import_says_which_is_whose(capsys):
    source = RIGHT.replace("self.dropout(self.activation", "(self.activation").partition(
        "def rotate("
    )[0]
    save(RIGHT)
    Path("mine.py").write_text(source)
    from former_nb.yours import (
        Block,
        FeedForward,
        RMSNorm,
        attention,
    )

    assert capsys.readouterr().out == (
        "Block, attention: yours, from mine.py; RMSNorm: from the course; FeedForward: from the "
        "course until check passes your FeedForward as it stands\n"
    )
    assert Block is not COURSE["Block"] and attention is not COURSE["attention"]
    assert (FeedForward, RMSNorm) == (COURSE["FeedForward"], COURSE["RMSNorm"])
    assert inspect.getsource(attention) in source


def test_constants_are_the_courses_and_nothing_is_said_of_them(capsys):
    save(RIGHT)
    from former_nb.yours import BOS, EOS, IGNORE, PAD, UNK, pad_rows

    assert [PAD, BOS, EOS, UNK, IGNORE] == [0, 1, 2, 3, -100]
    assert pad_rows is not COURSE["pad_rows"]
    assert capsys.readouterr().out == "pad_rows: yours, from mine.py\n"
    from former_nb.yours import PAD

    assert capsys.readouterr().out == "" and PAD == 0


def test_a_copy_of_the_file_is_passed_too_and_another_path_is_followed(capsys, monkeypatch):
    save(RIGHT)
    Path("copy.py").write_text("# a comment\n" + RIGHT)
    monkeypatch.setenv("FORMER_NB_MINE", "copy.py")
    from former_nb.yours import Stack

    assert Stack is not COURSE["Stack"]
    assert capsys.readouterr().out == "Stack: yours, from copy.py\n"


@pytest.mark.parametrize(
    "old, new, is_passed",
    [
        ("    scores = q @", "    # a comment\n    scores = q @", True),
        ("PAD, BOS, EOS, UNK = range(4)", "PAD, BOS, EOS, UNK = 1, 0, 2, 3", True),  # unused there
        ("def attention(", "def attention_(", False),  # `attend=attention`
        ("self.w_o(self.merge", "self.w_o(0 + self.merge", False),
        ("    scores = q @", "    scores = 2 * q @", False),  # used by what it uses
        ("import math\n", "import cmath as math\n", False),
        (
            "\nclass Learned",
            "\nnn.Linear = nn.Identity\n\nclass Learned",
            False,
        ),  # may change anything
        (
            "\nclass Learned",
            "\ndef attention(q, k, v, mask=None, is_causal=False):\n    return v\nclass Learned",
            False,
        ),
        ("\nclass Learned", "\nif True:\n    attention = max\nclass Learned", False),
    ],
)
def test_a_name_is_passed_with_all_that_it_uses(old, new, is_passed):
    save(RIGHT)
    changed = RIGHT.replace(old, new, 1)
    assert changed != RIGHT
    waits = passed.first_open(changed)
    assert (waits["MultiHeadAttention"] is None) == is_passed


def test_attention_is_the_readers_before_it_can_mask_and_nothing_else_is(capsys):
    source = first_lessons()
    save(source, ["repeat_kv", "attention_weights", "attention", "MultiHeadAttention"])
    from former_nb.yours import MultiHeadAttention, attention, attention_weights

    assert capsys.readouterr().out == (
        "attention without masks, attention_weights without masks: yours, from mine.py; "
        "MultiHeadAttention: from the course until check passes your MultiHeadAttention with masks "
        "as it stands\n"
    )
    q = torch.randn(2, 3, 4)
    assert MultiHeadAttention is COURSE["MultiHeadAttention"]
    assert attention.__wrapped__.__module__ == "former_nb_mine"
    for rules in [(), (None, False), (None, True), (torch.ones(3, 3).tril().bool(),)]:
        torch.testing.assert_close(attention(q, q, q, *rules), COURSE["attention"](q, q, q, *rules))
        wanted = COURSE["attention_weights"](q, q, *rules)
        torch.testing.assert_close(attention_weights(q, q, *rules), wanted)


def test_attention_that_hands_masks_on_is_the_readers_before_its_weights_can_mask(capsys):
    save(first_lessons(), ["repeat_kv", "attention_weights", "attention", "attention with masks"])
    from former_nb.yours import attention

    assert capsys.readouterr().out == "attention without masks: yours, from mine.py\n"
    q = torch.randn(2, 3, 4)
    for rules in [(), (None, True)]:
        torch.testing.assert_close(attention(q, q, q, *rules), COURSE["attention"](q, q, q, *rules))


def test_only_what_comes_in_lesson_12_waits_for_heads_that_share_keys(capsys):
    lines = inspect.getsource(right_module().repeat_kv).splitlines()
    source = RIGHT.replace("\n".join(lines[1:]), "    return t")
    save(source, [name for name in passed.digests(source) if "with shared heads" not in name])
    from former_nb.yours import Block, GroupedQueryAttention, attention, attention_weights

    assert capsys.readouterr().out == (
        "Block, attention without shared heads, attention_weights without shared heads: yours, "
        "from mine.py; GroupedQueryAttention: from the course until check passes your "
        "attention_weights with shared heads as it stands\n"
    )
    assert GroupedQueryAttention is COURSE["GroupedQueryAttention"]
    assert Block is not COURSE["Block"] and attention.__wrapped__.__module__ == "former_nb_mine"
    q, shared = torch.randn(2, 6, 5, 4), torch.randn(2, 3, 5, 4)
    for k in (q, shared, q[:, 0]):
        some = q if k.ndim == 4 else q[:, 0]
        for rules in [(), (None, True), (torch.ones(5, 5).tril().bool(),)]:
            wanted = COURSE["attention"](some, k, k, *rules)
            torch.testing.assert_close(attention(some, k, k, *rules), wanted)
            wanted = COURSE["attention_weights"](some, k, *rules)
            torch.testing.assert_close(attention_weights(some, k, *rules), wanted)
    scaled = COURSE["attention"](q, q, q, scale=0.3)
    torch.testing.assert_close(attention(q, q, q, scale=0.3), scaled)


# ---------------------------------------------------------------- when it is run


def test_a_file_is_run_only_after_something_passed_once_and_again_when_it_changed():
    tail = '\nwith open("runs", "a") as out:\n    out.write("x")\n'
    Path("mine.py").write_text(RIGHT + tail)
    from former_nb.yours import Block

    assert Block is COURSE["Block"] and not Path("runs").exists()
    save(RIGHT + tail)
    from former_nb.yours import Block, Stack

    mine = Block
    from former_nb.yours import Block

    assert Path("runs").read_text() == "x" and Block is mine
    save(RIGHT + tail + "\n# changed\n")
    from former_nb.yours import Block

    assert Path("runs").read_text() == "xx" and Block is not mine and Stack is not None


@pytest.mark.parametrize(
    "source, sentence",
    [
        (RIGHT + "\nx = = 3\n", "Python cannot read line"),
        (
            RIGHT + "\nraise SystemExit(3)\n",
            "mine.py can't be imported: your code raised SystemExit",
        ),
        (RIGHT + "\nimport not_there\n", "No module named 'not_there', in line"),
    ],
)
def test_a_file_that_cannot_be_imported_is_told_in_one_line(source, sentence, capsys):
    try:
        save(source)
    except SyntaxError:
        pass
    from former_nb.yours import Block, Stack

    said = capsys.readouterr().out
    assert (Block, Stack) == (COURSE["Block"], COURSE["Stack"])
    assert said.startswith("Block, Stack: from the course. ") and sentence in said
    assert said.count("\n") == 1


def test_a_file_that_is_named_and_absent_is_told(capsys, monkeypatch):
    monkeypatch.setenv("FORMER_NB_MINE", "other.py")
    from former_nb.yours import Block

    assert Block is COURSE["Block"] and "other.py, which isn't there" in capsys.readouterr().out


def test_check_notes_what_is_right(capsys):
    Path("mine.py").write_text(RIGHT.partition("def padding_mask")[0])
    assert passed.first_open(Path("mine.py").read_text())["attention"] == "attention"
    assert check("mine.py")
    waits = passed.first_open(Path("mine.py").read_text())
    wanted = ["repeat_kv", "attention_weights", "attention", "MultiHeadAttention"]
    assert waits == dict.fromkeys(wanted)


def test_where_nothing_can_be_noted_check_says_so(capsys, monkeypatch, here):
    (here / "passed").write_text("a file in its place")
    monkeypatch.setattr("former_nb.grading.your_file.judge_read", lambda read, walls: [])
    Path("mine.py").write_text("x = 1\n")
    check("mine.py")
    assert "Later pages won't know what is right" in capsys.readouterr().out


# ---------------------------------------------------------------- the reader's parts in the library


def test_parts_of_the_file_train_write_and_are_recorded_in_a_model_of_the_library():
    save(RIGHT)
    from former_nb.yours import attention, make_block

    torch.manual_seed(0)
    tokenizer = CharTokenizer("abc")
    embed = Embedding(tokenizer.vocab_size, 8, LearnedPositions(12, 8))
    blocks = [make_block(8, 2, 12) for _ in range(2)]
    assert type(blocks[0]).__module__ == "former_nb_mine"
    model = LanguageModel(embed, Stack(blocks, nn.LayerNorm(8)))
    batch = collate([[1, 4, 5, 6, 2], [1, 4, 2]])
    history = fit(model, [batch], None, TrainingConfig(steps=2, lr=1e-3), progress=False)
    assert len(history) >= 1
    for cache in (None, KVCache(2), KVCache(2, attend=attention)):
        assert generate(model, batch[0], 3, cache=cache).shape == (2, 7)
    with record_attention(model) as maps, torch.no_grad():
        model(batch[0], attention)
    shapes = [tuple(weights.shape) for weights in maps.values()]
    assert shapes == [(2, 2, 4, 4)] * 2


# ---------------------------------------------------------------- a file that raises


def test_a_file_that_raises_leaves_the_module_that_was_there():
    path = Path("mine.py")
    path.write_text("x = 1\n")
    module = load_file(path, "a_readers_file")
    assert sys.modules["a_readers_file"] is module and module.x == 1
    path.write_text("x = 2\n1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        load_file(path, "a_readers_file")
    assert sys.modules["a_readers_file"] is module
    with pytest.raises(ZeroDivisionError):
        load_file(path, "another_file")
    assert "another_file" not in sys.modules
    del sys.modules["a_readers_file"]


# ---------------------------------------------------------------- the pages, both ways


def taken():
    "Page of the path -> the names that each of its statements takes from `former_nb.yours`."
    found = {}
    for path in sorted((ROOT / "nbs").glob("[01]?_*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and "from former_nb.yours" in source:
                for node in ast.parse(source).body:
                    if getattr(node, "module", "") == "former_nb.yours":
                        names = [alias.name for alias in node.names]
                        found.setdefault(path.stem, []).append(names)
    return found


def drawing_cells(page):
    """The cells under *The number* that train by `fit`.

    A reader's loop and the course's draw the order of batches and dropout each in its own way.
    """
    cells = json.loads((ROOT / "nbs" / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    headings = [n for n, cell in enumerate(cells) if "## The number\n" in cell["source"]]
    below = cells[headings[0] :] if headings else []
    return {cell["id"] for cell in below if re.search(r"\bfit\(", "".join(cell["source"]))}


def test_no_exported_cell_takes_from_the_file():
    for path in (ROOT / "former_nb").rglob("*.py"):
        head = path.read_text(encoding="utf-8")
        assert "yours import" not in head or "AUTOGENERATED" not in head[:400], path.name
    assert len(taken()) >= 12


SECONDS = re.compile(r"\b\d+(?:\.\d+)? s\b")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def agree(ours, theirs):
    "Whether two texts are the same but for times, last digits of decimals, and tiny numbers."
    ours, theirs = (SECONDS.sub("# s", text) for text in (ours, theirs))
    if NUMBER.sub("#", ours) != NUMBER.sub("#", theirs):
        return False
    for a, b in zip(NUMBER.findall(ours), NUMBER.findall(theirs)):
        decimals = len(a.partition("e")[0].partition(".")[2])
        unit = 1.01 * 10.0**-decimals if "." in a and "e" not in a else 0.0
        x, y = float(a), float(b)
        if a != b and abs(x - y) > unit and not (abs(x) < 1e-5 and abs(y) < 1e-5):
            return False
    return True


TRAIN_LONG = ["08_training", "10_generator", "16_translation"]  # half of the seconds of all


def test_every_page_prints_the_same_without_a_file_and_on_a_right_one(here):
    "A third of them, in turns with two right files; with FORMER_NB_THOROUGH all, each on both."
    save(RIGHT)
    assert len(list((here / "passed").iterdir())) == len(NAMES)
    other = (ROOT / "tests" / "another_right_file.py").read_text(encoding="utf-8")
    save(other, list(NAMES), "other.py")
    pages = taken()
    assert {*TRAIN_LONG} < {*pages}
    names = some([page for page in pages if THOROUGH or page not in TRAIN_LONG], 3)
    on = {"off": names, "mine.py": some(names, 2), "other.py": some(names, 2, 1)}
    runs = []
    for mine, chosen in on.items():
        command = [sys.executable, "-W", "ignore", str(ROOT / "tests" / "printing_pages.py")]
        env = os.environ | {"FORMER_NB_MINE": mine, "IN_TEST": "1", "FORMER_NB_DEVICE": "cpu"}
        env |= {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"}
        if mine != "off":
            env["FORMER_NB_MINE"] = str(here / mine)
        command += [str(here / "passed"), *chosen]
        runs.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE))
    without, *with_files = (json.loads(run.communicate()[0]) for run in runs)
    for file, found in zip(("mine.py", "other.py"), with_files):
        for page in found:
            lines = [f"{', '.join(names)}: yours, from {file}\n" for names in pages[page]]
            drawing = drawing_cells(page)
            said = [text for text, _ in found[page].values() if text in lines]
            assert said == lines, page
            for key, (text, _) in without[page].items():
                there = found[page][key][0]
                assert "raised " not in text + there, (page, key, text, there)
                if key not in drawing:
                    assert agree(text, "" if there in lines else there), (page, key, text, there)
