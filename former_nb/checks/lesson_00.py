"""Judges of the exercises on the page 00_pytorch, and the mistakes that they know."""

import math

import torch
from torch import nn

from ..base.exercises import call_answer, diagnose, diagnose_each, exercise, explain_error

_PICKS = ("x[3]", "x[:, 0]", "x[1:4]", "x[:, None]")
_SHAPES = ((4,), (5,), (3, 4), (5, 1, 4))
_SLIPS = (  # for each of them, a wrong shape -> what to say
    {
        (5,): "x[3] is the row of one person, with a number for each fruit",
        (1, 4): "a number in the brackets takes its axis away; x[3:4] would keep it",
        (5, 4): "that is all of x; x[3] is one row of it",
        (): "that is one number, as of x[3, 0]",
    },
    {
        (4,): "the colon keeps the people, and 0 picks a fruit",
        (5, 1): "a number in the brackets takes its axis away; x[:, 0:1] would keep it",
        (1, 5): "a picked column is no row; it has one axis, the people",
    },
    {
        (4, 4): "1:4 ends before 4, so it is the rows 1, 2 and 3",
        (2, 4): "1:4 begins with row 1, so it is the rows 1, 2 and 3",
        (3,): "a range keeps its axis, and the axis of the fruit stays too",
        (5, 3): "the first place in the brackets is the first axis, the people",
        (1, 4): "1:4 is a range of rows; (1, 4) would be a place",
    },
    {
        (5, 4, 1): "`None` makes the new axis where it is written, after the people",
        (1, 5, 4): "`None` makes the new axis where it is written; x[None] has it in front",
        (5, 4): "`None` makes a new axis, of size 1",
        (5,): "`None` picks nothing; it makes a new axis, of size 1",
        (5, 1): "the axis of the fruit is still there, behind the new one",
    },
)


@exercise(
    "00.1",
    "A number takes its axis away, a range keeps it, and `None` makes one of size 1.",
    "x has the shape (5, 4). What is left if you pick one person? What if you pick one fruit?",
)
def judge_00_1(answer):
    "Four shapes."
    if answer is ...:
        return "the three dots are still there; put your four shapes in their place"
    if not isinstance(answer, (tuple, list)):
        return f"expected a list of four shapes, got {type(answer).__name__}"
    if len(answer) != len(_PICKS):
        return f"expected a list of four shapes, got {len(answer)}"
    for pick, given, right, slips in zip(_PICKS, answer, _SHAPES, _SLIPS):
        if given is ...:
            return f"{pick}: the three dots are still there"
        if isinstance(given, (int, float)):
            return f"{pick}: a shape is a tuple, such as (7,) with its comma; got {given:g}"
        if not isinstance(given, (tuple, list)):
            return f"{pick}: expected a shape such as (7, 2), got {type(given).__name__}"
        given = tuple(given)
        if given != right:
            said = slips.get(given)
            return f"{pick}: {said or f'({len(right)} axes are left) got {given}'}"


@exercise(
    "00.2",
    "`x.mean(dim=1)` has a number for each row, the shape (5,). Does it fit beside (5, 4)?",
    "With `keepdim=True` the mean keeps its axis, (5, 1), and fits each number of its row.",
)
def judge_00_2(answer):
    "A function that takes the mean of each row from this row; rows and columns may be as many."
    cases = [
        torch.tensor([[1.0, 2, 9, 0], [4, 4, 1, 3]]),
        torch.tensor([[1.0, 2, 9], [4, 4, 1], [0, 7, 5]]),
    ]
    square = cases[1]
    row, column = square.mean(1, keepdim=True), square.mean(0, keepdim=True)
    mistakes = {
        "the mean runs down the columns; take that of each row, dim=1": square - column,
        "the means of the rows are a row themselves, (3,), and were taken from the columns; keep "
        "their axis with `keepdim=True`": square - row.mT,
        "that is the mean of all numbers; each row has its own": square - square.mean(),
        "you took the sum of each row away, not its mean": square - 3 * row,
        "the sign is turned: the mean is taken from the numbers": row - square,
        "the mean was added": square + row,
        "you divided by the mean; take it away": square / row,
        "those are the means; take them from x": row,
        "those are the means alone; take them from x": row[:, 0],
        "you took the largest number of each row away, not the mean": (
            square - square.amax(1, keepdim=True)
        ),
        "that is x itself": square,
    }
    try:
        said = diagnose(call_answer(answer, square), square - row, mistakes)
        if said:
            return said
        given = call_answer(answer, cases[0])
    except RuntimeError as error:
        return explain_error(
            error,
            {
                "must match the size": "one mean for each row has the shape (2,), and x here is "
                "(2, 4); `keepdim=True` makes it (2, 1), which fits"
            },
        )
    wide = cases[0]
    divided = "you divided by 3; a row has four numbers here, and its mean is their sum by 4"
    mistakes = {divided: wide - wide.sum(1, keepdim=True) / 3}
    return diagnose(given, wide - wide.mean(1, keepdim=True), mistakes)


@exercise(
    "00.3",
    "In `a @ b`, the last axis of a and the first of b are added up. Which axis is the fruit in "
    "each of yours?",
    "`by_shop.mT` is (4, 2).",
    "return x @ by_shop.mT",
)
def judge_00_3(answer):
    "A function of baskets (B, n) and prices (m, n) that returns costs (B, m)."
    generator = torch.Generator("cpu").manual_seed(0)
    x = torch.randint(0, 5, (5, 4), generator=generator).float()
    prices = torch.tensor([[0.5, 0.8, 0.2, 0.6], [0.6, 0.7, 0.3, 0.4]])
    right = x @ prices.mT
    mistakes = {
        "`reshape` reads the prices row by row into other places; `.mT` exchanges the axes": (
            x @ prices.reshape(4, 2)
        ),
        "rows and columns are exchanged: expected a row for each person, (5, 2)": right.mT,
        "those are the costs of all people together": right.sum(0),
        "those are the costs in both shops together": right.sum(1),
        "those are the costs of each fruit; add them up": x[:, None] * prices,
        "that is the mean over the fruit; add them up": right / 4,
    }
    try:
        return diagnose(call_answer(answer, x, prices), right, mistakes)
    except RuntimeError as error:
        return explain_error(
            error,
            {
                "shapes cannot be multiplied": "the last axis of the first table and the first "
                "of the second must be the fruit, (5, 4) and (4, 2); `.mT` exchanges the axes",
                "must match the size": "`*` multiplies number by number, and (5, 4) doesn't fit "
                "(2, 4); for sums of products there is `@`",
            },
        )


@exercise(
    "00.4",
    "e to the 0 is 1, and e to the ln 2 is 2.",
    "The three exponentials are 1, 1 and 2. Each weight is its share of their sum.",
)
def judge_00_4(answer):
    "Three weights: the softmax of 0, 0 and ln 2."
    e = math.log(2)
    return diagnose(
        answer,
        [0.25, 0.25, 0.5],
        {
            "a score of 0 gets a weight, too, since e to the 0 is 1": [0, 0, 1],
            "those are the exponentials; divide them by their sum": [1, 1, 2],
            "those are the scores": [0, 0, e],
            "equal scores have equal weights, but the third score is larger": [1 / 3] * 3,
            "you used powers of 2; the softmax takes powers of e": [
                1 / (2 + 2**e),
                1 / (2 + 2**e),
                2**e / (2 + 2**e),
            ],
            "the third has twice the weight of each other, and all three sum to 1": [0.5, 0.5, 1],
            "the other way round: the larger score has the larger weight": [0.4, 0.4, 0.2],
        },
    )


@exercise(
    "00.5",
    "The derivative of v² is 2v, and that of 4v is 4.",
    "Nothing has set `v.grad` back before the second `backward`.",
)
def judge_00_5(answer):
    "Two numbers: a gradient, and the same after a second `backward`."
    return diagnose_each(
        answer,
        {"first": 14.0, "second": 28.0},
        [
            {
                45: "that is y itself; the gradient says how it changes",
                10: "that is the derivative of v²; 4v has one, too",
                9: "the derivative of v² is 2v, here 10, and not v",
                30: "the derivative of 4v is 4, not 4v",
                24: "the derivative of 4v is 4, and 2v is 10",
                6: "that is 2 + 4; v² changes by 2v, and v is 5",
                29: "the derivative of v² is 2v, not v²",
                28: "that is what you see after the second `backward`",
            },
            {
                14: "`backward` adds to what `grad` holds, and nobody has set it back",
                0: "nothing sets `grad` back but you",
                196: "the second gradient is added, not multiplied",
                2: "that is the second derivative; here the same backward pass runs twice",
                42: "there were two backward passes, not three",
            },
        ],
    )


@exercise(
    "00.6",
    "Let u = 2w − 6. The loss is u², and u grows twice as fast as w.",
    "The gradient is 2 · u · 2, with u = −4. A step goes against it.",
)
def judge_00_6(answer):
    "The number after one step."
    return diagnose(
        answer,
        2.6,
        {
            "a step goes against the gradient; yours goes with it": -0.6,
            "the gradient has two factors of 2, one of the square and one in front of w; yours has "
            "only one": 1.8,
            "the gradient is 2 · u · 2 with u = 2w − 6; yours is u alone": 1.4,
            "that is the gradient; the step is 0.1 of it": -16.0,
            "that is the step; take it from w": -1.6,
            "that is the length of the step; w was 1 before": 1.6,
            "the gradient was taken whole; the rate, 0.1, makes the step a tenth of it": 17.0,
            "that is where the loss is 0; one step doesn't reach it": 3.0,
            "that is where the walk began": 1.0,
            "that is the loss before the step": 16.0,
        },
    )


_TILL = "`prices` holds a row of four prices for each shop, so it is nn.Linear(4, 2, bias=False)"


def _linear_of(till):
    "The layer called `prices`, or a sentence."
    layer = getattr(till, "prices", None)
    if layer is None:
        names = [name.partition(".")[0] for name, _ in till.named_parameters()]
        found = f"; yours is called {names[0]}" if names else ""
        return None, f"there is no layer `self.prices`{found}"
    if not isinstance(layer, nn.Linear):
        return None, f"`self.prices` is {type(layer).__name__}; expected nn.Linear"
    shape = tuple(layer.weight.shape)
    if shape == (4, 2):
        return None, "nn.Linear(2, 4) reads two numbers and gives four; yours reads four"
    if shape != (2, 4):
        return None, f"{_TILL}; the weight of yours is {shape}"
    if layer.bias is not None:
        return None, f"an empty basket costs nothing: {_TILL}"
    return layer, None


@exercise(
    "00.7",
    "`self.prices(x)` is (B, 2), the costs in both shops. Which axis has the shops?",
    "`amin(dim=1)` is the smallest along an axis.",
    "self.prices = nn.Linear(4, 2, bias=False) in `__init__`, and in `forward` "
    "return self.prices(x).amin(dim=1)",
)
def judge_00_7(answer):
    "A class: a module with prices of two shops, which returns the smaller cost of each basket."
    if answer is ... or answer is None:
        return "the three dots are still there; put your class in their place"
    if isinstance(answer, nn.Module):
        return "hand in the class itself, without the brackets that make a module of it"
    if not isinstance(answer, type) or not issubclass(answer, nn.Module):
        return f"expected a class that is an nn.Module, got {getattr(answer, '__name__', answer)!r}"
    if not any("forward" in vars(kind) for kind in answer.__mro__ if kind is not nn.Module):
        return "the class has no `forward`, or it is spelled otherwise; calling a module calls it"
    try:
        till = answer()
    except AttributeError as error:
        sentence = "`super().__init__()` comes first in `__init__`; it makes room for the layers"
        return explain_error(error, {"before Module.__init__() call": sentence})
    layer, said = _linear_of(till)
    if said:
        return said
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[0.5, 0.8, 0.2, 0.6], [0.6, 0.7, 0.3, 0.4]]))
    x = torch.tensor([[2.0, 0, 1, 0], [0, 3, 0, 1], [1, 0, 2, 1]])
    costs = layer(x)
    mistakes = {
        "those are the costs in both shops; return the smaller one of each basket": costs,
        "`amin` ran over the baskets; the shops are axis 1": costs.amin(0),
        "that is the smallest cost of all baskets; return one for each": costs.min(),
        "that is the larger cost of each basket": costs.amax(1),
        "those are both costs together": costs.sum(1),
        "that is the mean of both costs": costs.mean(1),
        "that says which shop is cheaper; return what it costs": costs.argmin(1),
        "that is the first shop alone": costs[:, 0],
        "that is the second shop alone": costs[:, 1],
    }
    given = till(x)
    if isinstance(given, tuple):
        return "`min(dim=1)` gives the values and where they are; take `.values`, or `amin`"
    if given is None:
        return "`forward` returned nothing; end it with `return` and the costs (B,)"
    return diagnose(given, costs.amin(1), mistakes)
