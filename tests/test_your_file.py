"""`check("mine.py")`: a reader's file in a process of its own, and what is said of it; files that
don't end, print or are no files; the command line. tests/test_grading.py tests what is asked."""

import contextlib
import csv
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from cli_tools import former
from grading_tools import judged
from thorough import some, weekly

from former_nb.grading import classes, grade, passed, process
from former_nb.grading.ask import STEPS
from former_nb.grading.check import check
from former_nb.grading.content import HEADER, definitions, right_source
from former_nb.grading.files import NOT_WRITTEN
from former_nb.grading.your_file import NAMES, START, Verdict, judge_file, say_verdicts
from former_nb.ladder.staircase import ladder_path

RIGHT = right_source()
ANOTHER = Path(__file__).with_name("another_right_file.py")
ALL = len(NAMES)


def until(lesson):
    "The right file up to a lesson."
    number = f"{int(lesson) + 1:02}"
    first = next(name for name in NAMES if STEPS[name].lesson >= number)
    return re.split(rf"^(?:def|class) {STEPS[first].definition}\b", RIGHT, flags=re.M)[0]


# A right file of a few steps, since the whole one takes 20 seconds of the processor.
STEPS_OF_FEW = ["padding_mask", "CharTokenizer", "pad_rows", "collate", "greedy", "merge"]
CONSTANTS = "PAD, BOS, EOS, UNK = range(4)\nIGNORE = -100\n"
FEW = "\n\n".join([HEADER + CONSTANTS, *(definitions()[name].source() for name in STEPS_OF_FEW)])


def problems(file):
    "What is said of each step of a file that is written."
    return {v.name: v.problem for v in judge_file(file) if v.written}


def test_a_file_whose_attention_is_wrong_is_told_so_once(tmp_path):
    "Whatever uses attention is judged with the right one."
    slips = {
        "allowed.tril(S - T)": "allowed.tril(S - T - 1)",
        "    return attention_weights(q, k, mask, is_causal) @ repeat": "    raise ValueError",
    }
    for number, (old, new) in enumerate(some(slips.items(), 2)):
        file = tmp_path / f"mine{number}.py"
        right = until("06")
        source = right.replace(f"{old}_kv(v, q)" if "repeat" in old else old, new)
        assert source != right
        file.write_text(source, encoding="utf-8")
        verdicts = judge_file(file)
        wrong = [v.name for v in verdicts if v.wrong]
        assert wrong and all(name.startswith("attention") for name in wrong), wrong
        assert all(STEPS[v.name].definition in wrong[0] for v in verdicts if v.waits)


def test_looking_for_a_mistake_changes_nothing_for_the_next_definition(tmp_path):
    "Edits that are tried run in the process of the file: none may assign to `torch.ones`."
    file = tmp_path / "mine.py"
    text = START.replace(
        "    ...  # mask and is_causal do nothing until lesson 04",
        "    scores = q @ k.mT / math.sqrt(k.shape[-1])\n    return scores.softmax(dim=-2)",
    )
    text = text.replace("    ...", "    return attention_weights(q, k) @ v")
    file.write_text(text, encoding="utf-8")
    found = problems(file)
    assert "the softmax runs over the queries" in found["attention_weights"]
    assert found["attention"] is None


def test_a_file_that_is_half_written(tmp_path, capsys):
    file = tmp_path / "mine.py"
    half = until("06").replace("self.ff(self.norm_ff(x))", "self.ff(x)")
    file.write_text(half.replace("def make_block", "def later"), encoding="utf-8-sig")
    assert check(str(file)) is False
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Checking mine.py …"
    assert lines[1] == "02  right: attention_weights, attention"
    block = next(line for line in lines if line.startswith("    Block: "))
    assert "the network lacks its norm" in block and ", in line 96, `return" in block
    assert f"    {NOT_WRITTEN}: make_block" in lines
    assert f"13 to 16  {NOT_WRITTEN}" in lines
    assert lines[-1] == f"15 of {ALL} steps are right. Next: mend Block."


@weekly
def test_a_right_file_in_a_notebook(capsys):
    assert check(str(ANOTHER)) is True
    assert capsys.readouterr().out.endswith(f"All {ALL} steps are right. The file is yours.\n")


ODD = {
    "no Python": ("def f(:\n", "Python cannot read line 1 of mine.py"),
    "ours": ("from former_nb import attention\n", "imports former_nb; write it yourself"),
    "it ends Python": ("import sys\nsys.exit(3)\n", "SystemExit"),
}
ODD_ONES = {  # in one file
    "a number": ("attention_weights = 3\n", "expected a function, got int"),
    "other arguments": (
        "def greedy(x, y):\n    return x\n",
        "greedy() missing 1 required positional argument: 'y'",
    ),
    "a name too few": (
        "import torch\nfrom torch import nn\nclass FeedForward(nn.Module):\n"
        "    def __init__(self, d_model, d_ff):\n        super().__init__()\n"
        "        self.first = nn.Linear(d_model, d_ff)\n"
        "    def forward(self, x):\n        return x\n",
        "there is no weight called w_in.weight, of shape (10, 6); yours has first.weight",
    ),
    "it changes what it is given": (
        "def merge(row, pair):\n    row.clear()\n    return row\n",
        "an argument is changed in place",
    ),
    "nothing comes back": ("def padding_mask(tokens, pad=0):\n    pass\n", "nothing is returned"),
}
ODD["odd definitions"] = (
    "\n\n".join(one for one, _ in ODD_ONES.values()),
    [words for _, words in ODD_ONES.values()],
)


@pytest.mark.parametrize("source, words", ODD.values(), ids=ODD)
def test_an_odd_file_gets_a_sentence(source, words, tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(source, encoding="utf-8")
    assert check(str(file)) is False
    out, err = capsys.readouterr()
    for piece in [words] if isinstance(words, str) else words:
        assert piece in out and "Traceback" not in out + err


def test_a_step_that_prints_never_ends_or_ends_python_costs_no_other_step(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "LIMIT", 2.0)
    file = tmp_path / "mine.py"
    text = FEW.replace("    return logits.argmax(dim=-1)", "    while True:\n        pass", 1)
    ends = "    return (tokens != pad)"
    assert ends in text and "while True" in text
    text = text.replace(ends, f"    import os\n\n    os._exit(3)\n{ends}", 1)
    file.write_text("print('x' * 10_000)\n" + text, encoding="utf-8")
    found = problems(file)
    assert "this does not end: after 2 seconds of the processor" in found.pop("greedy")
    assert found.pop("padding_mask") == "your file ended Python here, with code 3"
    assert found == dict.fromkeys(set(STEPS_OF_FEW) - {"greedy", "padding_mask"})


HOSTILE = {  # what a file of a class does -> what is said of it
    "it writes into itself": (
        "open(__FILE__, 'w').write('def (')",
        "are right",
    ),
    "it writes over the others": (
        "import glob, os\nfor n in glob.glob(os.path.dirname(__FILE__) + '/*.py'):\n"
        "    open(n, 'w').write('def (')",
        "are right",
    ),
    "it shows what the teacher's account knows": (
        "import os\nraise ValueError(os.environ.get('TOKEN', 'nothing'))",
        "your code raised ValueError: nothing",
    ),
    "it ends its process": ("import os\nos._exit(3)", "your file ended Python here, with code 3"),
    "it writes as the process does": (
        "import os\nfor n in range(3, 30):\n"
        "    try:\n        os.write(n, b'[0, null]\\n')\n    except OSError:\n        pass",
        "",
    ),
}


def test_a_hostile_file_costs_itself_and_not_the_class(tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "secret")
    few = FEW.split("def greedy")[0]
    sources = {}
    for number, (line, _) in enumerate(HOSTILE.values()):
        path = str(tmp_path / f"bad{number}.py")
        sources[f"bad{number}"] = f"{line.replace('__FILE__', repr(path))}\n\n{few}"
    sources["eve"] = few
    for name, source in sources.items():
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
    table = tmp_path / "scores.csv"
    files = [tmp_path / f"{name}.py" for name in sources]
    done = former("check", *files, "--csv", table)
    head, *rows = csv.reader(table.read_text(encoding="utf-8").splitlines())
    right = {Path(row[0]).stem: (row[1], row[-1]) for row in rows}
    n = str(len(STEPS_OF_FEW) - 2)
    assert right["eve"][0] == n, done.stdout
    assert "secret" not in done.stdout and "Traceback" not in done.stderr
    for number, (what, (_, words)) in enumerate(HOSTILE.items()):
        bad = right[f"bad{number}"]
        assert bad[0] == n if words == "are right" else words in bad[1], what


def test_what_is_no_file_costs_one_row(tmp_path):
    deep, bytes_, good = (tmp_path / f"{name}.py" for name in ("deep", "b", "good"))
    deep.write_text("(" * 5000, encoding="utf-8")
    bytes_.write_bytes(b"\xff\xfe\xfa")
    good.write_text(FEW.split("class CharTokenizer")[0], encoding="utf-8")
    done = former("check", deep, bytes_, good, tmp_path / "none.py")
    lines = done.stdout.splitlines()
    assert len(lines) == 4 and not done.stderr, done.stdout + done.stderr
    assert "no text in UTF-8" in lines[1]
    assert " 1 of " in lines[2] and "there is no file none.py" in lines[3]


def test_a_sandbox_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    file = tmp_path / "mine.py"
    file.write_text(FEW, encoding="utf-8")
    done = former("check", file, "--sandbox")
    assert done.returncode == 2 and "sandbox: needs the program bwrap" in done.stderr


def test_a_process_that_does_not_start_is_tried_again(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(FEW, encoding="utf-8")
    begun = []

    class Once(process._Child):
        def start(self):
            begun.append(self)
            if len(begun) == 1:
                raise RuntimeError("it did not start")
            super().start()

    monkeypatch.setattr(process, "_Child", Once)
    assert problems(file) == dict.fromkeys(STEPS_OF_FEW)
    assert len(begun) == 2 and begun[0].process.returncode is not None

    class Never(process._Child):
        def start(self):
            raise RuntimeError("it did not start")

    monkeypatch.setattr(process, "_Child", Never)
    done = former("check", file, file)  # each costs itself
    assert done.returncode == 1 and done.stdout.count("it did not start") == 2, done.stderr


def test_a_class_in_one_table(tmp_path):
    files = [tmp_path / f"{name}.py" for name in ("ada", "bob", "eve")]
    program = '\n\nif __name__ == "__main__":\n    raise SystemExit("it is run as a program")\n'
    files[0].write_text(FEW + program, encoding="utf-8")
    files[1].write_text(FEW.replace("tokens != pad", "tokens == pad", 1), encoding="utf-8")
    files[2].write_text("def f(:\n", encoding="utf-8")
    table = tmp_path / "scores.csv"
    done = former("check", *files, "--csv", table)
    assert done.returncode == 1 and not done.stderr, done.stderr
    assert table.exists(), done.stdout
    head, *rows = csv.reader(table.read_text(encoding="utf-8").splitlines())
    assert head == ["file", "right", *NAMES, "first to mend"]
    by_name = {Path(row[0]).stem: dict(zip(head, row)) for row in rows}
    assert by_name["ada"]["right"] == str(len(STEPS_OF_FEW)) and by_name["ada"]["greedy"] == "right"
    assert by_name["bob"]["padding_mask"] == "wrong" and by_name["bob"]["collate"] == "right"
    assert "True means that a token may be attended to" in by_name["bob"]["first to mend"]
    assert (
        by_name["eve"]["right"] == "0" and "cannot read line 1" in by_name["eve"]["first to mend"]
    )


def test_a_file_to_begin_with_is_open_and_never_written_over(tmp_path):
    file = tmp_path / "mine.py"
    done = former("check", file, "--begin")
    assert done.returncode == 1 and f"02 to 16  {NOT_WRITTEN}" in done.stdout
    assert "Next: write attention_weights, of lesson 02." in done.stdout
    file.write_text(FEW, encoding="utf-8")
    done = former("check", file, "--begin")
    assert done.returncode == 0 and "left as it is" in done.stdout
    assert file.read_text(encoding="utf-8") == FEW
    assert "without masks" not in done.stdout


UTF8 = os.environ | {"PYTHONUTF8": "1"}
NBS = Path(__file__).parents[1] / "nbs"
PAGES = sorted(NBS.glob("[01][0-9]_*.ipynb"))
LESSONS = [page for page in PAGES if page.stem >= "02"]
MILESTONE = PAGES[0].with_name("milestone_llama.ipynb")  # asks for the last step of lesson 12
NEXT = {"collate_pairs": "14"}  # a step that is written with the lesson after its own


@pytest.mark.parametrize("page", [*LESSONS, MILESTONE], ids=lambda page: page.stem)
def test_a_lesson_shows_what_check_prints_and_names_what_it_asks_for(page):
    lesson = "12" if page == MILESTONE else page.stem[:2]
    cells = nbformat.read(page, 4).cells
    [begin] = [n for n, cell in enumerate(cells) if "## Into your file" in cell.source]
    ends = ("## Recap", "## Your file reads it")
    [end] = [n for n, cell in enumerate(cells) if cell.source.startswith(ends)]
    text = "\n".join(cell.source for cell in cells[begin:end])
    verdicts = []
    for name in NAMES:
        is_right = NEXT.get(name, STEPS[name].lesson) <= lesson
        if name == "load_llama" and lesson == "12":
            is_right = page == MILESTONE
        problem = None if is_right else NOT_WRITTEN
        verdicts.append(Verdict(STEPS[name].lesson, name, problem))
    shown = re.search(r"```text\n(.*?)```", text, re.S)[1].splitlines()
    assert shown == ["Checking mine.py …", *say_verdicts(verdicts)]
    assert 'check("mine.py")' in text
    asked = [name for name in NAMES if lesson in (STEPS[name].lesson, NEXT.get(name))]
    for name in ["load_llama"] if page == MILESTONE else asked:
        assert f"`{STEPS[name].definition}(" in text, name


def test_the_page_about_the_file_shows_what_is_printed(tmp_path, monkeypatch):
    "Its commands run in their order, on a file with the definitions that it shows before them."
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORMER_NB_MINE", raising=False)
    monkeypatch.setattr(passed, "_folder", lambda: tmp_path / "passed")
    cells = nbformat.read(NBS / "your_file.ipynb", 4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    assert f"{len(definitions())} definitions make {ALL} steps" in text
    blocks = re.findall(r"```(\w+)\n(.*?)```", text, re.S)
    asked = [n for n, (kind, _) in enumerate(blocks) if kind == "sh"]
    assert len(asked) == 2
    for n in asked:
        if n and blocks[n - 1][0] == "python":
            start = Path("mine.py").read_text(encoding="utf-8").partition("\ndef ")[0]
            Path("mine.py").write_text(f"{start}\n{blocks[n - 1][1]}", encoding="utf-8")
        assert former(*blocks[n][1].split()[1:]).stdout == blocks[n + 1][1]
    mended = Path("mine.py").read_text(encoding="utf-8").replace("dim=-2", "dim=-1")
    Path("mine.py").write_text(mended, encoding="utf-8")
    last = former("check", "mine.py", "--step", "02").stdout.splitlines()[-1]
    assert f"`{last}`" in text
    imports = next(n for n, (_, block) in enumerate(blocks) if "former_nb.yours" in block)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(blocks[imports][1], {})
    assert out.getvalue() == blocks[imports + 1][1]
    Path("mine.py").write_text(mended.replace("dim=-1", "-1"), encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec("from former_nb.yours import attention", {})
    assert f"`{out.getvalue().strip()}`" in text


def test_the_file_becomes_a_program_with_what_a_deep_dive_gives(tmp_path):
    cells = nbformat.read(NBS / "deeper" / "16_own_data.ipynb", 4).cells
    [text] = [cell.source for cell in cells if "## Your file as a program" in cell.source]
    program = re.search(r"```python\n(.*?)```", text, re.S)[1]
    assert program.count("2000") == 2 and len(program.splitlines()) < 33
    program = program.replace("2000", "4").replace("// 50", "* 10").replace("// 1000", "// 100")
    file = tmp_path / "mine.py"
    file.write_text(f"{RIGHT}\n\n{program}", encoding="utf-8")
    (tmp_path / "text.txt").write_text("to be or not\n\n  to be\n" * 32, encoding="utf-8")
    command = [sys.executable, "-W", "error", "mine.py", "text.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env=UTF8)
    assert done.returncode == 0, done.stderr.decode()
    shown = done.stdout.decode().replace("\r\n", "\n").rpartition("\r")[2].splitlines()
    assert shown[0] == "█" * 40 + " step 4 of about 4" and len(shown) == 9


def test_lesson_02_asks_for_no_masks_and_lesson_04_does():
    lines = "(q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)", "attention_weights(q, k) @ v"
    text = START
    for line in lines:
        text = text.replace("    ...", f"    return {line}", 1)
    without = text.replace(", mask=None, is_causal=False", "")
    for source in (text, without):
        found = judged(source)
        assert found["attention_weights"] is found["attention"] is None
        assert found["attention_weights with masks"] == NOT_WRITTEN
        assert found["attention with masks"] == NOT_WRITTEN


@pytest.mark.parametrize("off", ["", "off", "OFF"])
def test_the_ladder_is_kept_beside_the_file_unless_that_is_switched_off(off, tmp_path, monkeypatch):
    monkeypatch.delenv("IN_TEST", raising=False)
    monkeypatch.setenv("FORMER_NB_MINE", str(tmp_path / "mine.py"))
    assert ladder_path() == tmp_path / "ladder.csv"
    monkeypatch.setenv("FORMER_NB_MINE", off)
    assert ladder_path() is None


def test_one_lesson_alone_and_a_lesson_that_is_none(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(until("06"), encoding="utf-8")
    done = former("check", file, "--step", "6")
    assert done.returncode == 0 and "FeedForward, Block, make_block, Stack" in done.stdout
    assert "attention_weights" not in done.stdout
    wrong = former("check", file, "--step", "99")
    assert wrong.returncode == 2 and "step: expected one of" in wrong.stderr


def test_watch_checks_again_when_the_file_was_saved(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text("", encoding="utf-8")
    looks = []

    def wait(seconds):
        looks.append(seconds)
        if len(looks) == 2:  # the first look found nothing new
            file.write_text("def greedy(logits):\n    return logits.argmax(dim=-1)\n", "utf-8")
        if len(looks) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(classes, "time", SimpleNamespace(sleep=wait))
    said = former("check", file, "--watch").stdout
    first, second, rest = said.split("Save the file to check it again; Ctrl-C ends.\n")
    assert f"0 of {ALL} steps are right" in first and f"1 of {ALL} steps are right" in second
    assert not rest


def test_an_edit_that_never_ends_is_not_the_readers_fault(tmp_path):
    "A loop by `while` has many edits that leave its counter where it is."
    slip = """def merge(row, pair):
    merged = []
    i = 0
    while i < len(row):
        if i + 1 < len(row) and (row[i], row[i + 1]) == pair:
            merged.append(row[i] + row[i + 1])
            i += 1
        else:
            merged.append(row[i])
            i += 1
    return merged
"""
    file = tmp_path / "mine.py"
    file.write_text(slip, encoding="utf-8")
    [verdict] = [v for v in judge_file(file) if v.name == "merge"]
    assert "does not end" not in verdict.problem and "two pieces" in verdict.problem
