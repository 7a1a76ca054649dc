"""The pages that run the reader's file: whose file they take, and what they say about it."""

import nbformat
import pytest
from course_tools import tool

from former_nb.grading.content import right_module, right_source
from former_nb.yours import load_mine

HALF = right_source().partition("\nPAD, BOS")[0]  # lessons 02 to 06
right_file = right_module()
order = tool("order")
PAGES = [*order.MILESTONES.values()]


@pytest.fixture
def save(tmp_path, monkeypatch):
    "Write a file that is the reader's."
    file = tmp_path / "mine.py"
    monkeypatch.setenv("FORMER_NB_MINE", str(file))

    def write(source):
        file.write_text(source, encoding="utf-8")
        return file

    return write


def lines_of(capsys):
    return capsys.readouterr().out.splitlines()


def test_without_a_file_a_page_runs_the_courses_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORMER_NB_MINE", raising=False)
    assert load_mine("06") is right_file
    assert lines_of(capsys) == [
        "There is no mine.py here, so this page runs the course's own file."
    ]


def test_a_file_that_is_right_so_far_is_run(save, capsys):
    file = save(HALF)
    mine = load_mine("06")
    assert mine.__file__ == str(file) and mine.Stack is not right_file.Stack
    assert lines_of(capsys) == ["This page runs your mine.py, which is right up to lesson 06."]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("self.ff(self.norm_ff(x))", "self.ff(self.norm_attention(x))", "Block: "),
        ("class Stack", "class Pile", "Stack: not written yet"),
        ("import torch\n", "import torch\nimport former_nb\n", "line "),
        ("class Stack", "class ", "line "),
    ],
)
def test_a_file_with_something_to_mend_waits_and_the_page_says_what(old, new, words, save, capsys):
    assert old in HALF
    save(HALF.replace(old, new))
    assert load_mine("06") is right_file
    first, second = lines_of(capsys)
    assert first.startswith("mine.py isn't right up to lesson 06 yet. ") and words in first
    assert second == "So this page runs the course's own file."


def test_what_a_page_needs_may_not_be_open(save, capsys):
    save(HALF)
    assert load_mine("07") is right_file
    assert "CharTokenizer: not written yet." in capsys.readouterr().out


def test_a_further_task_may_be_left_out(save, capsys):
    before, begin, rest = right_source().partition("\nclass Classifier")
    own, end, after = rest.partition("\nclass LanguageModel")
    assert begin and end and "\nclass " not in own and "\ndef " not in own
    file = save(before + end + after)
    assert load_mine("11").__file__ == str(file)
    assert lines_of(capsys) == ["This page runs your mine.py, which is right up to lesson 11."]


@pytest.mark.parametrize("lesson", ["6", "01", "17", 6])
def test_a_lesson_that_is_none_is_refused(lesson):
    with pytest.raises(ValueError, match="until: expected a lesson from '02' to '16', got "):
        load_mine(lesson)


@pytest.mark.parametrize("page", PAGES)
def test_each_milestone_runs_the_file_up_to_its_lesson(page):
    nb = nbformat.read(order.ROOT / f"nbs/{page}.ipynb", 4)
    [cell] = [cell for cell in nb.cells if "load_mine(" in cell.source]
    lesson = next(lesson for lesson, name in order.MILESTONES.items() if name == page)
    assert cell.source.startswith(f'mine = load_mine("{lesson[:2]}")')
    assert "the course's own file" in cell.outputs[0].text
