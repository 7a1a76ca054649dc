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
from former_nb.builds.values import NOTE, Notes, first_leaving
from former_nb.checks.exercises import find_exercise

PARTS = {  # of the wrong answers: the share that has to be named
    "shown": 0.98,  # the judges were improved on these
    "kept back": 0.98,
    "harder": 0.97,
    "fourth": 0.95,
    "fifth": 0.97,
    "fresh": 0.95,  # and on these never
    "another class": 0.97,  # nor on these
}


def part(answer):
    "Which part a wrong answer belongs to."
    if answer.section:
        return ["harder", "fourth", "fifth", "fresh", "another class"][answer.section - 1]
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


REVIEWED = {  # what a review found wrong about a judge, and what it says now
    "02.1 wrong: divided by half of d_k": "you divided by d_k / 2",
    "02.1 wrong: divided by the width of the values": "you divided by d_v",
    "03.1 wrong: divided by half of d_k": "you divided by d_k / 2",
    "03.3 wrong: an array of zeros": "your numbers are all 0",
    "06.3 wrong: x is changed in place": "your function changes its argument number 2 in place",
    "07.1 wrong: the targets stay a list": "expected two tensors, got list for the targets",
    "08.1 wrong: the last loss alone is returned": "one loss came back; append",
    "08.1 wrong: the mean of the losses is returned": "one loss came back; append",
    "08.4 wrong: tensors are the keys, and the shares are right": "a tensor is a key of its own",
    "09.1 wrong: divided by 0, in float64": "a row of padding alone gives NaN",
    "09.3 wrong: not divided by the sum, in float64": "the rows do not sum to one",
    "10.3 wrong: nothing is returned": "your function returned nothing; end it with `return`",
    "11.1 wrong: divided by half of d_k": "you divided by d_k / 2",
    "11.1 wrong: the first step gives back its query": "at the first step the newest token meets",
    "13.1 wrong: divided by half of d_k": "you divided by d_k / 2",
    "15.2 wrong: pieces with their counts": "the counts came along",
    "16.1 wrong: the runs themselves": "those are the runs; return how many there are",
    "16.1 wrong: a set of runs, and a number": "those are the runs; return how many there are",
    "16.2 wrong: divided by 3": "'w' is divided by 3; there may be any number of states",
    "16.2 wrong: the counts of all states are kept": "`count` holds a whole number; keep that of",
    "16.2 wrong: the count has become an int": "`count` is int; keep the tensor of the first",
    "16.4 wrong: nothing is returned": "your function returned nothing; end it with `return`",
}


@pytest.mark.parametrize("name", REVIEWED)
def test_what_a_review_found_is_named(name):
    (answer,) = [answer for answer in answers() if str(answer) == name]
    right, _, said = verdict(answer)
    assert not right and REVIEWED[name] in said, said


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


def leaving(source, right=RIGHT):
    "Where the values of an answer leave those of the right one, on one input."
    draw = torch.Generator().manual_seed(0)
    inputs = [torch.randn(2, 3, 3, generator=draw, dtype=torch.float64) for _ in range(2)]

    def notes_of(tree):
        notes = []
        noted = Notes(tree, notes)
        space = {"torch": torch, NOTE: noted.note}
        module = ast.fix_missing_locations(ast.Module([noted.tree], []))
        exec(compile(module, "<test>", "exec"), space)
        space[tree.name](*inputs)
        return notes

    tree, right = (parse(text).body[0] for text in (source, right))
    before = ast.dump(tree)
    found = first_leaving(tree, notes_of(tree), notes_of(right))
    assert ast.dump(tree) == before
    return found and str(found.place(source.splitlines()))


def test_the_line_whose_values_are_others_is_told_though_the_names_are_others():
    source = """
def answer(text, matrix):
    s = torch.einsum("bid,bjd->bij", text, text)
    p = s.square() / s.square().sum(2, keepdim=True)
    return torch.bmm(torch.bmm(p, text), matrix)
"""
    assert re.fullmatch(r"line 4, .*`s.square\(\) / .*` doesn't; look there.*", leaving(source))


def test_a_right_line_of_another_way_is_not_told():
    source = """
def answer(x, w):
    rows = []
    for one, matrix in zip(x, w):
        e = (one @ one.T).exp()
        rows.append(e / e.sum(1, keepdim=True) @ one @ matrix)
    y = torch.stack(rows)
    return y {}
"""
    assert leaving(source.format("")) is None
    assert re.fullmatch(r"line 8, .*`y \* 2` doesn't; look there", leaving(source.format("* 2")))


def test_a_step_of_the_right_answer_and_a_part_of_its_result_are_told_apart():
    step = "def answer(x, w):\n    s = x @ x.mT\n    return s\n"
    assert leaving(step).endswith("`s` is no more than a step of the right answer, or a part of it")
    part = """
def answer(x, w):
    for i in range(3):
        y = (x[:, i] @ x.mT).softmax(-1) @ x @ w
    return y
""".replace("x[:, i]", "x[:, i : i + 1]")
    assert leaving(part).endswith("`y` is a part of the right result, and the rest is missing")


def test_heads_that_are_cut_wrongly_are_no_other_form_of_the_right_ones():
    right = "def right(x, w):\n    y = x.mT.reshape(-1)\n    return y * 2\n"
    wrong = "def answer(x, w):\n    y = x.reshape(-1)\n    return y * 2\n"
    assert leaving(wrong, right) is not None


def test_a_whole_result_alone_has_no_place():
    assert leaving("def answer(x, w):\n    return torch.eye(3) * 7 + torch.ones(3, 3)\n") is None


def first_place(source, right):
    "What the search for an edit says of a function of two numbers."

    def value(tree):
        space = {}
        exec(compile(ast.fix_missing_locations(ast.Module([tree], [])), "<test>", "exec"), space)
        return space[tree.name](2.5, 3.5)

    wanted = value(parse(right).body[0])

    def is_right(tree):
        try:
            return value(tree) == wanted
        except Exception:
            return False

    return str(search.place_in(parse(source).body[0], source.splitlines(), None, is_right))


def test_two_lines_belong_inside_a_loop():
    right = """
def right(x, w):
    for _ in range(3):
        w = w + 1
        x = x * w
        x = x - w / 7
    return x
"""
    source = """
def answer(x, w):
    for _ in range(3):
        w = w + 1
    x = x * w
    x = x - w / 7
    return x
"""
    said = first_place(source, right)
    assert said.endswith("this line and the next would be right inside the loop"), said


def test_an_edit_is_taken_out_where_nobody_asks_for_the_next():
    tree = parse(RIGHT).body[0]
    before = ast.dump(tree)
    edits = search.small_edits(tree)
    next(edits)
    assert ast.dump(tree) != before
    edits.close()
    assert ast.dump(tree) == before
