"""How many wrong answers that no judge was made with are named, and that nothing right is refused.

`wrong_answers.txt` has the answers. The shares are floors: a judge or an edit that is lost shows.
"""

import ast
import re

import pytest
import torch
from wrong_answers import answers, verdict

from former_nb.base.source import parse
from former_nb.builds import right_answers, search, your_answer
from former_nb.checks.exercises import find_exercise

PARTS = {  # of the wrong answers: the share that has to be named
    "shown": 0.98,  # the judges were improved on these
    "kept back": 0.98,
    "harder": 0.97,
    "fourth": 0.80,  # and on these never
}


def part(answer):
    "Which part a wrong answer belongs to."
    if answer.section:
        return ["harder", "fourth"][answer.section - 1]
    return "shown" if answer.place % 2 else "kept back"


@pytest.mark.parametrize("answer", [a for a in answers() if a.kind == "right"], ids=str)
def test_an_unusual_right_answer_is_right(answer):
    right, _, said = verdict(answer)
    assert right, said


@pytest.mark.parametrize("name", PARTS)
def test_a_mistake_that_no_judge_was_made_with_is_named(name, monkeypatch):
    monkeypatch.setattr(your_answer, "SECONDS", 60.0)  # so that no machine is too slow for it
    wrong = [a for a in answers() if a.kind == "wrong" and part(a) == name]
    assert len(wrong) >= 40
    vague = []
    for answer in wrong:
        right, named, said = verdict(answer)
        assert not right, answer
        if not named:
            vague.append(f"{answer}: {said}")
    assert len(vague) <= (1 - PARTS[name]) * len(wrong), "\n".join(vague)


NUMBERS = sorted({answer.number for answer in answers()})


@pytest.mark.parametrize("number", NUMBERS)
def test_what_the_search_takes_for_right_is_right(number):
    name = "answer_" + number.replace(".", "_")
    assert find_exercise(number).judge(getattr(right_answers, name)) is None
    assert your_answer.right_answer(number).name == name


def test_each_right_answer_belongs_to_an_exercise_and_others_have_none():
    names = [name for name in vars(right_answers) if name.startswith("answer_")]
    assert sorted(names) == ["answer_" + number.replace(".", "_") for number in NUMBERS]
    assert your_answer.right_answer("01.2") is None and your_answer.right_answer("A") is None


RIGHT = """
def right(x, w):
    scores = x @ x.mT
    weights = scores.softmax(-1)
    return weights @ x @ w
"""


def place(source, right=RIGHT):
    "What the search says of an answer that agrees with the right one or not on one input."

    def value(tree):
        space = {"torch": torch}
        exec(compile(ast.fix_missing_locations(ast.Module([tree], [])), "<test>", "exec"), space)
        draw = torch.Generator().manual_seed(0)
        x, w = (torch.randn(2, 3, 3, generator=draw, dtype=torch.float64) for _ in range(2))
        return space[tree.name](x, w)

    wanted = value(parse(right).body[0])

    def is_right(tree):
        try:
            given = value(tree)
        except Exception:
            return False
        if not isinstance(given, torch.Tensor) or given.dtype != wanted.dtype:
            return False
        return given.shape == wanted.shape and torch.allclose(given, wanted)

    tree = parse(source).body[0]
    before = ast.dump(tree)
    found = search.place_by_right(tree, source.splitlines(), parse(right).body[0], is_right)
    assert ast.dump(tree) == before
    return found and str(found)


def test_a_line_that_computes_something_else_is_named_though_the_names_are_others():
    source = """
def answer(text, matrix):
    s = torch.einsum("bid,bjd->bij", text, text)
    p = s.square() / s.square().sum(2, keepdim=True) + s.mean(2, keepdim=True) * 0.1
    return torch.bmm(torch.bmm(p, text), matrix)
"""
    said = place(source)
    assert re.fullmatch(r"line 4, .*: `p` gets wrong values there, and the rest is right", said)


def test_two_small_mistakes_are_named_together():
    source = """
def answer(x, w):
    weights = (x @ x.mT).softmax(1)
    return weights @ w @ x
"""
    said = place(source)
    assert said.endswith(("makes it right", "and the rest is right")), said


def test_a_result_that_is_wrong_as_a_whole_has_no_place():
    assert place("def answer(x, w):\n    return torch.eye(3) * 7 + torch.ones(3, 3)\n") is None
    assert place("def answer(x):\n    return x\n") is None  # with fewer arguments


def test_two_lines_belong_inside_a_loop():
    right = """
def right(x, w):
    for _ in range(3):
        w = w + 1
        x = x * w
        x = x - w.mean()
    return x
"""
    source = """
def answer(x, w):
    for _ in range(3):
        w = w + 1
    x = x * w
    x = x - w.mean()
    return x
"""
    said = place(source, right)
    assert said.endswith("this line and the next would be right inside the loop"), said


def test_an_edit_is_taken_out_where_nobody_asks_for_the_next():
    tree = parse(RIGHT).body[0]
    before = ast.dump(tree)
    edits = search.small_edits(tree)
    next(edits)
    assert ast.dump(tree) != before
    edits.close()
    assert ast.dump(tree) == before
