"""Exercises: each entry of a right answer names itself, the pages ask them, and odd answers get a
sentence. `test_grading.py` tests the grader over the reader's file, `test_wrong_answers.py` over
what strangers wrote."""

import json
import linecache
import math
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from refusals import refuses
from thorough import some
from torch.nn.functional import cross_entropy

from former_nb.attention.fused import attention
from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.grading import apart, ask, check, content, known, prove
from former_nb.grading.ask import EXERCISES, Call
from former_nb.grading.errors import clean_message

NBS = Path(__file__).resolve().parent.parent / "nbs"
prove.load()
NUMBERS = sorted(EXERCISES)


def code_of(path):
    "The code of a notebook, and its prose."
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


PAGES = {
    folder: "\n".join(code_of(path) for path in NBS.glob(f"{folder}*.ipynb"))
    for folder in ("", "deeper/", "solutions/")
}


@pytest.mark.parametrize("number", NUMBERS)
def test_each_entry_names_itself_and_the_right_answer_is_right(number):
    assert [*prove.faults_of(number)] == []
    exercise = EXERCISES[number]
    right = exercise.made() if exercise.is_value else exercise.made
    assert check.verdict_on(exercise, right).kind == "right"


def test_the_recipe_for_an_exercise_shows_a_real_one():
    root = NBS.parent
    [shown] = re.findall(
        r"```python\n(@exercise.+?)```", (root / "CONTRIBUTING.md").read_text("utf-8"), re.S
    )
    module = root / "former_nb" / "exercises" / "packing.py"
    assert shown in module.read_text(encoding="utf-8")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_page_asks_it_under_the_name_of_the_right_answer_and_another_answers_it(number):
    lesson = PAGES[""] + PAGES["deeper/"]
    assert f'check("{number}", ' in lesson
    own = EXERCISES[number].made.__module__.endswith(content.module_of(number))
    if own and EXERCISES[number].made.__name__ in content.answers(content.module_of(number)):
        name = r'[\[("\w]' if EXERCISES[number].is_value else EXERCISES[number].made.__name__
        assert re.search(rf'check\("{re.escape(number)}", {name}', lesson)
    solved = PAGES["solutions/"]
    assert f'solution("{number}")' in solved or f'check("{number}", ' in solved


@pytest.mark.parametrize("number", NUMBERS)
def test_an_answer_that_is_none_gets_a_sentence(number, capsys):
    nothing = [None, -12345.678, "x", [], lambda *_, **__: None, lambda: 1]
    nothing = [..., *some(nothing, 3, NUMBERS.index(number) % 3)]
    for answer in nothing:
        assert check.check(number, answer) is False
    printed = capsys.readouterr().out
    assert printed.count(f"{number}, not yet: ") == len(nothing) and "Traceback" not in printed
    assert "the three dots are still there" in printed


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("answer", ["1/5", " 0.2 ", Fraction(1, 5), 0.2, [0.2], torch.tensor(0.2)])
def test_fractions_are_numbers(answer, capsys):
    assert check.check("01.2", answer)
    assert not check.check("01.2", "a fifth")
    assert "expected a number, got 'a fifth'" in capsys.readouterr().out


@pytest.mark.parametrize("number", [torch.tensor, np.float32, str, float])
def test_numbers_of_any_type_are_four_numbers(number, capsys):
    right = EXERCISES["13.3"].made()
    given = [number(x) for x in right]
    assert check.check("13.3", given if number is not str else right)
    assert not check.check("13.3", [number(1.04), 0, 0])


# ---------------------------------------------------------------- functions


def forget():
    for cached in (content.edited, known.calls, known.right_seen):
        cached.cache_clear()


@pytest.fixture
def asked_by(monkeypatch):
    "An exercise of a test: its right answer and its calls."

    def asked_by(right, *inputs):
        wrong = content.Definition("right", "00", ("def right(*inputs):", "    ..."), (), ())
        calls = [Call(f"input {i}", given) for i, given in enumerate(inputs)]
        step = ask.Step("", "00.0", "00.0", lambda draw: calls, (), False)
        monkeypatch.setitem(ask.EXERCISES, "00.0", ask.Exercise("00.0", right, (), 1e-5))
        monkeypatch.setitem(ask.ASKED, "00.0", step)
        monkeypatch.setattr(content, "answers", lambda module: {right.__name__: wrong})
        forget()
        monkeypatch.setattr(content, "space_of", lambda key: {"right": right})
        return ask.EXERCISES["00.0"]

    yield asked_by
    for cached in (
        content.edited,
        *(check.verdicts.__globals__[n] for n in ("calls", "right_seen")),
    ):
        cached.cache_clear()


def typed(source, name="<typed>"):
    "The function that a cell defines, as a notebook knows it."
    source = dedent(source).strip() + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = dict(torch=torch, F=torch.nn.functional, math=math, Counter=Counter)
    names |= dict(attention=attention, causal_mask=causal_mask, padding_mask=padding_mask)
    names["__name__"] = "__main__"
    exec(compile(source, name, "exec"), names)
    return names["answer"]


def doubled_in_place(x):
    x *= 2
    return x


def test_an_answer_that_changes_what_it_is_given_is_refused(asked_by):
    exercise = asked_by(lambda x: 2 * x, (torch.ones(2, 3),), ([2, 1],))
    assert check.verdict_on(exercise, lambda x: 2 * x).kind == "right"
    found = check.verdict_on(exercise, doubled_in_place)
    assert "an argument is changed in place; make a new one instead" in found.said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x: x[0] + torch.ones(7), "two shapes don't fit"),
        (lambda x: x if x > 0 else -x, "ask a whole tensor for one truth"),
        (lambda x: (x > 0) & x, "join booleans"),
        (lambda x: (x > 0) @ (x > 0), "can't be multiplied as matrices"),
        (lambda x: torch.log(2.0), "for that there is `math`"),
        (lambda x: torch.mean([x, x]), "`torch.stack` makes one"),
        (lambda x: x.cumsum(), "say `dim=`"),
        (lambda x: x[x], "use `.long()`"),
        (lambda x: torch.tensor([[1, 2], [1]]), "the rows have different lengths"),
        (lambda x: torch.cat([x, x[0]]), "an axis more than the other"),
        (lambda x: (2 * x).backward(), "doesn't lead back to the weights"),
        (lambda x: x.long().mean(), "whole numbers have no mean"),
        (lambda x: {}["k"], "the dictionary has no such key yet"),
        (lambda x: [1][2], "past the end of the list"),
        (lambda x: {[1]: 2}, "make a tuple of it"),
        (
            lambda x: cross_entropy(x, torch.tensor([0, 1, -100]), ignore_index=0),
            "`ignore_index` is already",
        ),
    ],
)
def test_an_error_names_the_usual_mistake_and_what_was_raised(wrong, said, asked_by):
    exercise = asked_by(lambda x: x + 1, (torch.ones(3, 3),))
    found = check.verdict_on(exercise, wrong).said
    assert said in found and "your code raised" in found


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("plain, with an umlaut: ä", "plain, with an umlaut: ä"),
        ("first\nsecond", "first"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("\ud800", r"\ud800"),
        ("x" * 1000, "x" * 300 + "…"),
    ],
)
def test_a_message_is_one_line_that_can_be_printed(message, said):
    assert clean_message(ValueError(message)) == said


def test_an_error_that_cannot_say_what_it_is_is_named_by_its_kind(asked_by):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("\x1b")

    def answer(x):
        raise Silent

    found = check.verdict_on(asked_by(lambda x: x, (1,)), answer).said
    assert "your code raised Silent: (its message cannot be shown)" in found


# ---------------------------------------------------------------- mistakes that nobody foresaw

NOT_FORESEEN = {  # an exercise -> a wrong answer, the line of the mistake and the piece of it
    "01.1": (
        """
        def answer(x):
            scores = torch.bmm(x, x.transpose(1, 2))
            weights = F.log_softmax(scores, dim=-1)
            return torch.bmm(weights, x)
        """,
        "line 3, `weights = F.log_softmax(scores, dim=-1)`",
    ),
    "04.3": (
        """
        def answer(mask, n_layers):
            m = r = mask.double()
            for _ in range(n_layers - 1):
                r = r @ m.T
            return r > 0
        """,
        "line 4, `r = r @ m.T`",
    ),
    "05.5": (
        """
        def answer(s, d_model):
            turn = torch.zeros(d_model, d_model)
            for i in range(0, d_model, 2):
                a = torch.tensor(s / 10000 ** (2 * i / d_model))
                turn[i, i] = turn[i + 1, i + 1] = a.cos()
                turn[i, i + 1] = a.sin()
                turn[i + 1, i] = -a.sin()
            return turn
        """,
        "line 4, `a = torch.tensor(s / 10000 ** (2 * i / d_model))`",
    ),
    "11.1": (
        """
        def answer(q, k, v, cache):
            if cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
            return attention(q, k, v) + v[:, :, -1:]
        """,
        "line 6, `return attention(q, k, v) + v[:, :, -1:]`",
    ),
}


@pytest.mark.parametrize("number", NOT_FORESEEN)
def test_a_mistake_that_nobody_foresaw_is_found_in_its_line(number):
    source, where = NOT_FORESEEN[number]
    exercise = content.find_exercise(number)
    found = [check.verdict_on(exercise, typed(source)).said for _ in range(2)]
    assert where in found[0] and found[0] == found[1]


def test_what_the_search_does_to_a_readers_data_is_gone_with_it(asked_by):
    names = {"kept": []}
    source = "def answer(x):\n    kept.append(1)\n    return x - 1\n"
    linecache.cache["<kept>"] = (len(source), None, source.splitlines(True), "<kept>")
    exec(compile(source, "<kept>", "exec"), names)
    exercise = asked_by(lambda x: x + 1, (2.0,), (3.5,), (torch.ones(2),))
    assert check.verdict_on(exercise, names["answer"]).kind != "right"
    assert len(names["kept"]) <= 12  # the calls alone, and none of the search


def test_a_search_that_hangs_in_c_is_ended(monkeypatch):
    def found():
        yield "known"
        while True:
            sum(range(10**9))

    assert apart.last_of(found, 0.5) == "known"


def test_a_search_in_this_process_finds_the_same_and_leaves_the_generator(monkeypatch):
    said = []
    for platform in ("linux", "emscripten"):
        monkeypatch.setattr(apart.sys, "platform", platform)
        state = torch.random.get_rng_state()
        source = NOT_FORESEEN["04.3"][0]
        said.append(check.verdict_on(content.find_exercise("04.3"), typed(source)).said)
        assert torch.equal(state, torch.random.get_rng_state())
    assert said[0] == said[1]


def test_an_endless_answer_is_ended_in_its_line(asked_by, monkeypatch):
    monkeypatch.setattr("former_nb.grading.grade.LIMIT", 0.5)
    answer = typed("def answer(x):\n    while True:\n        x = x + 1\n")
    found = check.verdict_on(asked_by(lambda x: x, (1,)), answer)
    assert found.kind == "endless" and "in line " in found.said


def test_an_answer_without_a_source_is_compared_and_not_searched(asked_by):
    exercise = asked_by(lambda x: x + 1, (torch.ones(3),))
    assert check.verdict_on(exercise, torch.exp).kind == "numbers"
    names = {}
    exec("def answer(x): return x", names)
    assert check.verdict_on(exercise, names["answer"]).kind == "numbers"


def test_hints_come_one_by_one_and_an_unknown_number_is_refused(capsys):
    assert not check.check("04.2", 0)
    assert 'hint("04.2") shows the first of 2 hints' in capsys.readouterr().out
    check.hint("04.2")
    assert capsys.readouterr().out.endswith('\nhint("04.2", 2) shows the next.\n')
    check.hint("04.2", 2)
    assert capsys.readouterr().out.startswith("Hint 2 of 2: ")
    refuses(lambda: check.hint("04.2", 3), ValueError, "step", "3")
    for number in ("99.9", "04.99", "none", "../x.1"):
        refuses(lambda: check.check(number, 1), ValueError, "number", repr(number))


def test_a_solution_is_the_right_answer_and_shows_its_lines(capsys):
    assert check.solution("03.1") is EXERCISES["03.1"].made
    assert capsys.readouterr().out.startswith("def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):")
    assert check.solution("03.2") == (1, 1, 2)
