"""What judges say about wrong answers: no two mistakes look alike, and a number gets a sentence.

The mistakes of each exercise are tried one by one in `nbs/solutions`, beside its judge.
"""

import contextlib
import importlib
import io
import itertools
import linecache
import math
import pkgutil
import re
import time
from collections import Counter
from fractions import Fraction
from inspect import signature
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from former_nb import checks
from former_nb.attention.fused import attention
from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.base import exercises
from former_nb.base.exercises import EXERCISES, as_number, diagnose, diagnose_each
from former_nb.builds import your_answer
from former_nb.checks.exercises import check
from former_nb.checks.lesson_06 import judge_06_2

JUDGES = [
    importlib.import_module(f"former_nb.checks.{m.name}")
    for m in pkgutil.iter_modules(checks.__path__)
]
ODD = -12345.678  # right nowhere
VALUES = [ODD, *([ODD] * n for n in range(1, 9))]
RESULTS = [*VALUES, 0.5, [0.5, 0.5], "x", {}, torch.full((2, 3), ODD), torch.full((4,), ODD)]


def sentences(number):
    "All that the judge of an exercise says to odd answers, and the tables of mistakes it compares."
    said, tables = [], []

    def spy(answer, right, mistakes=None, places=None):
        tables.append({"": torch.as_tensor(right)} | (mistakes or {}))
        return diagnose(answer, right, mistakes, places)

    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()):
        patch.setattr(exercises, "diagnose", spy)
        for module in JUDGES:
            if hasattr(module, "diagnose"):
                patch.setattr(module, "diagnose", spy)
        for answer in [*VALUES, *((lambda *_, r=r, **__: r) for r in RESULTS)]:
            with contextlib.suppress(Exception):  # it is no answer of the right kind
                said.append(EXERCISES[number].judge(answer))
    return said, tables


NBS = Path(__file__).resolve().parent.parent / "nbs"


@pytest.mark.parametrize("number", sorted(n for n in EXERCISES if n[0] not in "ABC"))
def test_the_page_that_a_judge_names_asks_its_exercise_and_the_solutions_answer_it(number):
    module = importlib.import_module(EXERCISES[number].judge.__module__)
    page = re.search(r"on the page (\w+)", module.__doc__)[1]
    folder = NBS if (NBS / f"{page}.ipynb").exists() else NBS / "deeper"
    for path in (folder / f"{page}.ipynb", NBS / "solutions" / f"{page}.ipynb"):
        assert f'check(\\"{number}\\"' in path.read_text(encoding="utf-8"), path.name


@pytest.mark.parametrize("number", sorted(EXERCISES))
def test_no_two_mistakes_of_an_exercise_give_the_same(number):
    same = lambda a, b: exercises.same_numbers(*(torch.as_tensor(t).detach().cpu() for t in (a, b)))
    for table in sentences(number)[1]:
        wrong = [(said, t) for said, t in table.items() if said]
        for (one, a), (other, b) in itertools.combinations(wrong, 2):
            assert not same(a, b), (one, other)


@pytest.mark.parametrize("number", sorted(EXERCISES))
def test_a_number_is_never_answered_by_a_difference(number):
    said, tables = sentences(number)
    assert all(s is None or isinstance(s, str) for s in said)
    few = all(t[""].ndim == 0 or (t[""].ndim == 1 and len(t[""]) < 10) for t in tables)
    assert not few or not any("differ by up to" in s for s in said if s), said


def test_what_is_left_out_of_a_block_is_never_called_by_the_name_of_another_part():
    d, d_ff, parts = 12, 40, ("attention", "feed-forward network", "norms")
    attention = [d * d] * 4 + [d] * 4
    ff = [d * d_ff, d_ff, d_ff * d, d]
    norms = [d] * 4
    right = tuple(map(sum, (attention, ff, norms)))
    assert judge_06_2(right) is None
    for i, (part, terms) in enumerate(zip(parts, (attention, ff, norms))):
        for n in range(1, len(terms) + 1):
            for left_out in set(itertools.combinations(terms, n)):
                answer = [*right]
                answer[i] -= sum(left_out)
                assert judge_06_2(answer).startswith(f"{part}: ")


@pytest.mark.parametrize(
    ("answer", "right", "said"),
    [
        (5, 4, "got 5, which is too large"),
        (3.9, 4, "got 3.9, which is too small"),
        (-4, 4, "its sign is turned"),
        (0.25, 4, "1 divided by the right number"),
        (400, 4, "percent"),
        ("five", 4, "the text 'five'"),
        ("1/0", 4, "the text '1/0'"),
        ([1, 2, 9], [1, 2, 3], "2 of 3 are right, and number 3 is 9, which is too large"),
        ((1, "5/2", 3), [1, 2, 3], "2 of 3 are right, and number 2 is 2.5, which is too large"),
        (float("nan"), 4, "NaN"),
    ],
)
def test_a_number_that_no_judge_foresaw_gets_a_sentence(answer, right, said):
    assert said in diagnose(answer, torch.tensor(right, dtype=torch.double))


@pytest.mark.parametrize("answer", ["1/5", " 0.2 ", Fraction(1, 5), 0.2, torch.tensor(0.2)])
def test_fractions_are_numbers(answer, capsys):
    assert check("01.2", answer)
    assert as_number(("1/2", [Fraction(1, 4)], "AAA")) == (0.5, [0.25], "AAA")
    assert not check("01.2", "a fifth")
    assert "the text 'a fifth'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (torch.ones(2, 3).cumsum(0).T, "rows and columns are exchanged"),
        (torch.ones(2, 3).cumsum(0)[None], "with an axis of size 1 too many"),
        (torch.ones(2, 3).cumsum(0).flatten(), "but their axes are not"),
        (torch.zeros(3, 3), "expected shape (2, 3), got (3, 3)"),
    ],
)
def test_a_wrong_shape_says_what_became_of_the_axes(answer, said):
    right = torch.ones(2, 3).cumsum(0)
    assert said in diagnose(answer, right)
    assert "1 missing" in diagnose(right, right[None])
    assert "in another place" in diagnose(right[None], right[:, None])
    assert "2 numbers are asked for, not 3" in diagnose([1, 2, 3], torch.ones(2))
    assert diagnose(torch.tensor([True, False]), torch.tensor([False, True])).startswith("True and")


def test_wrong_numbers_in_a_part_of_an_axis_are_told_by_it():
    right = torch.arange(60.0).reshape(3, 4, 5) ** 2
    wrong = right.clone()
    wrong[:, 1] += torch.arange(15.0).reshape(3, 5) + 1
    said = diagnose(wrong, right)
    assert "45 of 60 are right" in said and "all wrong ones have index 1 on axis 1" in said
    assert "axis" not in diagnose(right**2 + 1, right)


@pytest.fixture
def judged_by(monkeypatch):
    "List a judge as an exercise, which is taken off again."

    def judged_by(judge):
        monkeypatch.setitem(EXERCISES, "00.0", None)
        return exercises.exercise("00.0")(judge)

    return judged_by


def doubled_in_place(x):
    x *= 2
    return x


def sorted_in_place(row):
    row.sort()
    return row


def test_an_answer_that_changes_what_it_is_given_is_refused_whatever_its_judge_asks(judged_by):
    x = torch.ones(2, 3)
    judge = judged_by(lambda answer: diagnose(answer(x.clone()), 2 * x, {"as it was": x}))
    assert judge(lambda x: 2 * x) is None and judge(lambda x: x) == "as it was"
    assert judge(doubled_in_place) == (
        "your function changes its argument number 1 in place; make a new tensor instead"
    )
    judge = judged_by(lambda answer: None if answer([2, 1]) == [1, 2] else "the order")
    assert judge(sorted) is None and judge(lambda row: sorted(row)) is None
    assert judge(sorted_in_place).endswith("number 1 in place; make a new list instead")
    assert judge(lambda row: row) == "the order"


NOTHING = "your function returned nothing; end it with `return` and the result"
DOTS = "the three dots are still there; put your lines in their place"
WITHOUT_RETURN = ["07.1", "10.3", "16.4", "attention_maps.6", "batches.3", "fine_tuning.2"]
WITHOUT_RETURN += ["fine_tuning.3", "leaks.2", "long_texts.3", "optimization.2"]
WITHOUT_RETURN += ["relative_positions.3", "translation_ablations.3", "your_attention.2"]
VALUES_LEFT_OPEN = ["11.2", "batches.1", "optimization.1", "relative_positions.1"]
VALUES_LEFT_OPEN += ["relative_positions.4", "sampling.1"]


@pytest.mark.parametrize("number", WITHOUT_RETURN)
def test_a_function_that_returns_nothing_is_told_so(number):
    assert EXERCISES[number].judge(lambda *_, **__: None) == NOTHING
    assert EXERCISES[number].judge(lambda *_, **__: ...) == DOTS


@pytest.mark.parametrize("number", VALUES_LEFT_OPEN)
def test_a_value_that_is_still_open_is_told_so(number):
    assert EXERCISES[number].judge(None) == NOTHING and EXERCISES[number].judge(...) == DOTS


def test_a_judge_has_words_of_its_own_for_an_answer_that_is_open(judged_by):
    judge = judged_by(lambda answer: "returned nothing; return y" if answer() is None else None)
    assert judge(lambda: None) == "returned nothing; return y" and judge(lambda: 1) is None
    judge = judged_by(lambda answer: None if answer == 2 else f"expected 2, got {answer}")
    assert judge(None) == "expected 2, got None" and judge(...) == DOTS

    at_work = exercises.exercise("00.0", returns=False)  # asked for is what it does
    assert at_work(lambda answer: answer() or "no file")(lambda: None) == "no file"

    def of_a_file(answer):
        raise exercises.MistakeError("expected a file, got NoneType")

    with pytest.raises(exercises.MistakeError):
        judged_by(of_a_file)(None)
    with pytest.raises(TypeError, match="not callable"):  # `check` says: expected a function
        judged_by(lambda answer: answer(1))(None)
    with pytest.raises(ZeroDivisionError):
        judged_by(lambda answer: answer(1))(lambda x: x / 0)


def test_a_mean_is_not_the_sum_divided_by_three():
    said = EXERCISES["00.2"].judge(lambda x: x - x.sum(1, keepdim=True) / 3)
    assert said.startswith("you divided by 3; a row has four numbers here")


@pytest.mark.parametrize("number", [torch.tensor, np.float32, str, float])
def test_numbers_of_any_type_are_four_numbers(number, capsys):
    assert check("13.3", [number(1.04), 0, 0, number(2.08)])
    assert not check("13.3", [number(1.04), 0, 0, None])
    assert "expected four numbers" in capsys.readouterr().out


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_capped_attention_may_have_another_type_and_divides_by_the_root(dtype):
    def capped(divisor):
        def answer(q, k, v, mask, is_causal, softcap):
            scores = (q @ k.mT).to(dtype) / divisor(q.shape[-1])
            if is_causal:
                mask = torch.ones(5, 5, dtype=torch.bool).tril()
            scores = softcap * torch.tanh(scores / softcap)
            return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v.to(dtype)

        return answer

    judge = EXERCISES["your_attention.2"].judge
    assert judge(capped(lambda d_k: d_k**0.5)) is None
    assert judge(capped(lambda d_k: d_k / 2)) is not None


def test_weights_are_there_to_be_changed(judged_by):
    weight = torch.nn.Parameter(torch.ones(2))
    judge = judged_by(lambda answer: "no" if answer(weight) else None)
    assert judge(lambda weight: weight.data.zero_().any()) is None and not weight.any()


def test_a_function_is_still_known_by_its_name_and_its_arguments(judged_by):
    judge = judged_by(lambda answer: ", ".join([answer.__name__, *signature(answer).parameters]))
    assert judge(doubled_in_place) == "doubled_in_place, x"


def test_rows_of_ids_are_whole_numbers():
    ids = torch.tensor([[1, 5, 2], [1, 2, 0]])
    assert diagnose(ids, ids) is None and diagnose(ids.int(), ids) is None
    assert diagnose(ids.tolist(), ids) is None
    assert "they are torch.float32; ids are whole, torch.int64" in diagnose(ids.float(), ids)
    assert diagnose(torch.tensor([48.0, 3.0]), torch.tensor([48, 3])) is None  # a few numbers
    assert diagnose(ids.double(), ids.double()) is None


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
    assert exercises.clean_message(ValueError(message)) == said


def test_an_error_that_cannot_say_what_it_is_is_named_by_its_kind(capsys, monkeypatch):
    class Silent(Exception):
        def __str__(self):
            raise ValueError("\x1b")

    def answer():
        raise Silent

    monkeypatch.setitem(EXERCISES, "00.0", exercises.Exercise(lambda answer: answer(), ()))
    assert not check("00.0", answer)
    assert "your code raised Silent: (its message cannot be shown)" in capsys.readouterr().out


def test_each_of_a_few_numbers_has_mistakes_of_its_own():
    right, mistakes = {"a": 1.0, "b": 36.8}, [{2: "twice"}, {0.37: "a share"}]
    judge = lambda answer: diagnose_each(answer, right, mistakes, 0.05)
    assert judge((1, 36.8)) is None and judge(torch.tensor([1, 36.79])) is None
    assert judge([2, 0.37]) == "a: twice" and judge(["1", "0.368"]) == "b: a share"
    assert judge([1, 40]) == "b: got 40, which is too large"
    assert judge([1]) == "expected 2 numbers, (a, b), got 1"
    assert judge("1, 2") == "expected 2 numbers, (a, b), got the text '1, 2'"
    assert "the text 'x'" in judge([1, "x"])


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
def test_an_error_names_the_usual_mistake_and_what_was_raised(wrong, said, capsys, monkeypatch):
    judge = lambda answer: answer(torch.ones(3, 3))
    monkeypatch.setitem(EXERCISES, "00.0", exercises.Exercise(judge, ()))
    assert not check("00.0", wrong)
    printed = capsys.readouterr().out
    assert said in printed and "your code raised" in printed


# ---------------------------------------------------------------- mistakes that nobody foresaw

NOT_FORESEEN = [  # an exercise, a wrong answer, the line of the mistake and the piece of it
    (
        "01.1",
        """
        def answer(x):
            scores = torch.bmm(x, x.transpose(1, 2))
            weights = F.log_softmax(scores, dim=-1)
            return torch.bmm(weights, x)
        """,
        "line 3, ",
        "`F.log_softmax`",
    ),
    (
        "01.3",
        """
        def answer(x):
            itself = torch.eye(x.shape[1], dtype=torch.bool)
            return (x @ x.mT).masked_fill(itself, float("inf")).softmax(-1)
        """,
        "line 3, ",
        "`float('inf')`",
    ),
    (
        "02.3",
        """
        def answer(weights, v, g):
            d = g @ v.T
            return weights * d - (weights * d).sum(-1, keepdim=True)
        """,
        "line 3, ",
        "`weights * d - (weights * d).sum(-1, keepdim=True)`",
    ),
    (
        "03.1",
        """
        def answer(x, w_q, w_k, w_v, w_o, n_heads):
            q, k, v = x @ w_q, x @ w_k, x @ w_k
            split = lambda t: t.unflatten(-1, (n_heads, -1)).transpose(1, 2)
            y = attention(split(q), split(k), split(v))
            return y.transpose(1, 2).flatten(2) @ w_o
        """,
        "line 2, ",
        "the second `w_k`",
    ),
    (
        "04.3",
        """
        def answer(mask, n_layers):
            m = r = mask.double()
            for _ in range(n_layers - 1):
                r = r @ m.T
            return r > 0
        """,
        "line 4, ",
        "`m.T`",
    ),
    (
        "05.5",
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
        "line 4, ",
        "`2 * i`",
    ),
    (
        "06.1",
        """
        def answer(x, attention, ff, norm_attention, norm_ff):
            x = x + attention(norm_attention(x))
            return ff(norm_ff(x)) * x
        """,
        "line 3, ",
        "`ff(norm_ff(x)) * x`",
    ),
    (
        "08.3",
        """
        def answer(p, n_rows, n_models):
            total = at_most = 0
            for k in range(n_rows):
                at_most += math.comb(n_rows, k) * p**k * (1 - p) ** (n_rows - k)
                total += 1 - (1 - at_most) ** n_models
            return total / n_rows
        """,
        "line 5, ",
        "`1 - at_most`",
    ),
    (
        "09.3",
        """
        def answer(q, shares):
            world = q**shares
            return world / world.sum(-1, keepdim=True)
        """,
        "line 2, ",
        "`q ** shares`",
    ),
    (
        "11.1",
        """
        def answer(q, k, v, cache):
            if cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
            return attention(q, k, v) + v[:, :, -1:]
        """,
        "line 6, ",
        "`attention(q, k, v) + v[:, :, -1:]`",
    ),
    (
        "13.2",
        """
        def answer(src, tgt):
            own = ~causal_mask(tgt.shape[1])
            return padding_mask(src), own & padding_mask(tgt), padding_mask(src)
        """,
        "line 2, ",
        "`~causal_mask(tgt.shape[1])`",
    ),
    (
        "16.1",
        """
        def answer(hypothesis, reference, n):
            runs = lambda t: Counter(tuple(t[i : i + n]) for i in range(len(t) - n + 1))
            ours, theirs = runs(hypothesis), runs(reference)
            return (ours | theirs).total(), ours.total()
        """,
        "line 4, ",
        "`ours | theirs`",
    ),
]


def typed(source, name="<typed>"):
    "The function that a cell defines, as a notebook knows it."
    source = dedent(source).strip() + "\n"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names = dict(torch=torch, F=torch.nn.functional, math=math, Counter=Counter)
    names |= dict(attention=attention, causal_mask=causal_mask, padding_mask=padding_mask)
    names["__name__"] = "__main__"
    exec(compile(source, name, "exec"), names)
    return names["answer"]


@pytest.mark.parametrize(
    "number, source, where, piece", NOT_FORESEEN, ids=[row[0] for row in NOT_FORESEEN]
)
def test_a_mistake_that_no_judge_foresaw_is_found_in_its_line(
    number, source, where, piece, capsys, monkeypatch
):
    monkeypatch.setattr(your_answer, "SECONDS", 60.0)  # so that no machine is too slow for it
    monkeypatch.setattr(your_answer, "ENOUGH", 60.0)
    said = []
    for _ in range(2):
        assert not check(number, typed(source))
        said.append(capsys.readouterr().out)
    assert where in said[0] and f"{piece} is wrong there" in said[0], said[0]
    assert said[0] == said[1]


RUNAWAYS = {
    "a loop without an end": "while True:\n        pass",
    "a loop in C": "sum(range(10**12))",
    "a list that doubles": "row = [1]\n    while True:\n        row = row + row",
    "a tensor that doubles": "x = torch.ones(1)\n    while True:\n        x = torch.cat([x, x])",
    "a number without an end": "n = 2\n    for _ in range(60):\n        n = n * n",
    "a recursion": "return answer(x)",
}


@pytest.mark.parametrize("name", RUNAWAYS)
def test_an_edited_answer_that_runs_away_is_stopped(name):
    answer = typed(f"def answer(x):\n    {RUNAWAYS[name]}\n    return x\n")
    with pytest.raises((your_answer.RunawayError, RecursionError)):
        with your_answer._bounded("__main__"):
            answer.__globals__["range"] = your_answer._short_range
            answer(1)


def test_a_search_that_hangs_in_c_is_ended_by_the_clock(judged_by):
    wait = lambda answer: "wrong" if answer(torch.ones(3)) is None else time.sleep(3600)
    judge = judged_by(wait)
    begin = time.monotonic()
    place = your_answer.find_mistake(judge, typed("def answer(x):\n    x\n    return None\n"))
    assert place is None and time.monotonic() - begin < 60


def test_an_answer_without_a_source_is_not_searched(judged_by):
    judge = judged_by(lambda answer: diagnose(answer(torch.ones(2)), torch.zeros(2)))
    assert your_answer.find_mistake(judge, torch.exp) is None
    assert your_answer.find_mistake(judge, 3.0) is None
    names = {}
    exec("def answer(x): return x", names)
    assert your_answer.find_mistake(judge, names["answer"]) is None


def test_a_search_without_a_process_of_its_own_finds_the_same(judged_by, monkeypatch, capsys):
    x = torch.randn(3, 4)
    judged_by(lambda answer: diagnose(answer(x), x - 2 * x.mean()))
    answer = typed("def answer(x):\n    print('noise')\n    return x + 2 * x.mean()\n")
    said = []
    for fork in (True, False):
        if not fork:
            monkeypatch.setattr(your_answer.sys, "platform", "emscripten")
        state = torch.random.get_rng_state()
        assert not check("00.0", answer)
        assert torch.equal(state, torch.random.get_rng_state())
        said.append(capsys.readouterr().out.replace("noise\n", ""))
    assert said[0] == said[1] and "line 3, `return x + 2 * x.mean()`" in said[0]


def test_an_edit_that_is_right_by_luck_is_not_told(judged_by):
    def judge(answer):
        torch.manual_seed(0)
        a, b = torch.randn(2)
        return diagnose(answer(a, b), torch.maximum(a, b))

    judge = judged_by(judge)
    a, b = torch.manual_seed(0) and torch.randn(2)
    wrong, lucky = ("b", "a") if a > b else ("a", "b")
    assert judge(typed(f"def answer(a, b):\n    return {lucky}\n")) is None
    answer = typed(f"def answer(a, b):\n    return {wrong}\n")
    assert your_answer.find_mistake(judge, answer, seeds=(0,)) is not None
    assert your_answer.find_mistake(judge, answer) is None
