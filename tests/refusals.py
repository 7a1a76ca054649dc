"""How a bad argument is refused, and what the tables of bad input share.

A refusal is one line: the name of the argument, what was expected, and what came, or why a file
could not be read. No other words are pinned. A row of a table says what is wrong, makes the call,
and goes on with what `refuses` takes (a kind of error, the name of the argument, and where it
matters a piece of what came) or with a function that judges a defined result.
"""

import re

import pytest
import torch


def refuses(call, kind, argument, *came):
    "The call raises; an empty name stands for a sentence that PyTorch or Python says by itself."
    with pytest.raises(kind) as raised:
        call()
    message = str(raised.value.args[0])
    if argument:
        form = rf"{re.escape(argument)}: (.+: )?expected .+?(, got |: )(.+)"
        sentence = re.fullmatch(form, message)
        assert sentence, f"{message!r} is not of the form {form!r}"
        message = sentence[3]
    assert all(piece in message for piece in came), raised.value


def every_row(table):
    "A test for each row of a table, which may be a list, or lists under public names."
    groups = table.items() if isinstance(table, dict) else [("", table)]
    rows = [
        pytest.param(call, wanted, id=f"{name}: {what}" if name else what)
        for name, group in groups
        for what, call, *wanted in group
    ]

    @pytest.mark.parametrize(("call", "wanted"), rows)
    def test(call, wanted):
        if len(wanted) == 1:
            assert wanted[0](call())
        else:
            refuses(call, *wanted)

    return test


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


def fine(result):
    "Nothing is said."
    return result is None


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
    return [
        (f"{name} is {least - 1}", lambda: call(least - 1), ValueError, name, str(least - 1)),
        (f"{name} is a word", lambda: call("2"), TypeError, name, "'2'"),
    ]


def words(call, width=12, name="x"):
    "What every layer that takes (B, T, d_model) refuses: `check_tensor` is tested by itself."
    return [
        (f"{name} of rank 2", lambda: call(n(5, width)), ValueError, name, f"(5, {width})"),
        (f"{name} of another width", lambda: call(n(2, 5, width - 1)), ValueError, name, "(2, 5"),
    ]
