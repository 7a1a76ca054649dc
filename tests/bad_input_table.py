"""What the tables of bad input share. A table holds, under each public name, rows of (what is
wrong, a call, what is wanted).

Wanted is a kind of error, how its sentence begins, and what it says that came; or a function that
judges a defined result.
"""

import inspect

import pytest
import torch


def cases(table):
    return [
        pytest.param(call, wanted, id=f"{name}: {what}")
        for name, rows in table.items()
        for what, call, wanted in rows
    ]


def judge(call, wanted):
    if callable(wanted):
        assert wanted(call())
        return
    kind, start, came = wanted
    with pytest.raises(kind) as raised:
        call()
    message = str(raised.value)
    assert message.startswith(start) and came in message and "\n" not in message, message


def public_names(*modules):
    "What can be called with something wrong: functions and classes that the modules export."
    found = [(name, getattr(module, name)) for module in modules for name in module.__all__]
    return {name for name, thing in found if inspect.isroutine(thing) or inspect.isclass(thing)}


NAN, INF = float("nan"), float("inf")


def n(*shape, seed=0, dtype=torch.float32):
    "Numbers."
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def i(*shape):
    "Integers."
    return torch.zeros(*shape, dtype=torch.int64)


def yes(*shape):
    "A mask that allows everything."
    return torch.ones(*shape, dtype=torch.bool)


def spoilt(t, *where):
    "The tensor with NaN at a place."
    t = t.clone()
    t[where] = NAN
    return t


def shape(*wanted):
    "The result has this shape and is finite."
    return lambda result: result.shape == wanted and bool(result.isfinite().all())


def shapes(*wanted):
    return lambda result: (
        [t.shape for t in result] == [torch.Size(w) for w in wanted]
        and all(t.isfinite().all() for t in result)
    )


def zeros(*wanted):
    return lambda result: result.shape == wanted and not result.any()


def nan_only_at(*where):
    "NaN there, numbers everywhere else."

    def check(result):
        result = result[0] if isinstance(result, tuple) else result
        return (
            bool(result[where].isnan().all()) and int(result.isnan().sum()) == result[where].numel()
        )

    return check


BAD_NUMBERS = [
    ("0", 0),
    ("negative", -2),
    ("a float", 2.0),
    ("a fraction", 1.5),
    ("a boolean", True),
]


def whole_numbers(name, call, least=1, none=True):
    "What every argument that counts something refuses; None where it has no meaning of its own."
    bad = [
        (what, value)
        for what, value in BAD_NUMBERS
        if not (least == 0 and value == 0 and what == "0")
    ] + ([("None", None)] if none else [])
    return [
        (
            f"{name} is {what}",
            lambda value=value: call(value),
            ((TypeError, ValueError), f"{name}: expected", str(value)),
        )
        for what, value in bad
    ]


def words(call, width=12, start="x: expected"):
    "What every layer that takes (B, T, d_model) refuses."
    return [
        ("rank 2", lambda: call(n(5, width)), (ValueError, start, f"(5, {width})")),
        ("rank 4", lambda: call(n(2, 3, 5, width)), (ValueError, start, f"(2, 3, 5, {width})")),
        (
            "another width",
            lambda: call(n(2, 5, width - 1)),
            (ValueError, start, f"(2, 5, {width - 1})"),
        ),
        ("integers", lambda: call(i(2, 5, width)), ((TypeError, ValueError), start, "torch.int64")),
    ]
