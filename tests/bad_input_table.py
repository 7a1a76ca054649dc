"""What the tables of bad input share. A table holds, under each public name, rows of (what is
wrong, a call, what is wanted).

Wanted is a kind of error, how its one sentence begins ("" where PyTorch's or Python's own says it),
and, if it matters, what it says that came; or a function that judges a defined result.
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
    kind, start, *came = wanted
    with pytest.raises(kind) as raised:
        call()
    message = str(raised.value)
    assert message.startswith(start) and not (start and "\n" in message), message
    assert all(words in message for words in came), message


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
        nan = (result[0] if isinstance(result, tuple) else result).isnan()
        return bool(nan[where].all()) and nan.sum() == nan[where].numel()

    return check


def counts(name, call, least=1):
    "What an argument that counts something refuses: `check_int` is tested by itself."
    low = (f"{name} is {least - 1}", lambda: call(least - 1), (ValueError, f"{name}: expected"))
    return [low, (f"{name} is a word", lambda: call("2"), (TypeError, f"{name}: expected"))]


def words(call, width=12, name="x"):
    "What every layer that takes (B, T, d_model) refuses: `check_tensor` is tested by itself."
    wanted = ValueError, f"{name}: expected"
    return [
        (f"{name} of rank 2", lambda: call(n(5, width)), wanted),
        (f"{name} of another width", lambda: call(n(2, 5, width - 1)), wanted),
    ]
