"""What the tables of bad input share. A table holds, under each public name, rows of (what is wrong, a call, what is wanted).

Wanted is a kind of error, how its sentence begins, and what it says that came; or a function that judges a defined result.
"""

import inspect

import pytest


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
