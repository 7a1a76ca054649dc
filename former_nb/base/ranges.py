"""What a number may be, in one form for arguments, settings and options.

Nothing here needs PyTorch, so the command line refuses a setting before it has loaded.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple, get_args

__all__ = ["check_that", "check_choice", "Range", "check_fields"]


def check_that(
    fits: bool,  # whether the argument is what it should be
    name: str,  # what the error calls it
    wanted: str,  # what it should be, in words
    value,  # what came
    error: type[Exception] = ValueError,  # of which kind
) -> None:
    "Raise `error`, with the sentence that all guards share, unless the argument fits."
    if not fits:
        came = " ".join(f"{value!r:.200}".split())  # a tensor takes several lines
        raise error(f"{name}: expected {wanted}, got {came}")


class Range(NamedTuple):
    "Which numbers are accepted, in words and as a test. NaN, infinity and booleans never are."

    words: str
    fits: Callable[[Any], bool]
    whole: bool = False

    def check(
        self,
        name: str,  # what the error calls it
        value,  # what came
        error: type[Exception] = TypeError,  # for what is no such number
    ) -> None:
        "Raise `error` unless `value` is a number of this kind, `ValueError` outside the range."
        kind = Integral if self.whole else Real
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        check_that(is_number, name, self.words, value, error)
        finite = self.whole or abs(value) <= 1e300  # a whole number can be too large for a float
        check_that(finite and self.fits(value), name, self.words, value)


WHOLE = Range("a whole number", lambda x: True, whole=True)
ZERO_OR_MORE = Range("a whole number of 0 or more", lambda x: x >= 0, whole=True)
ONE_OR_MORE = Range("a whole number of 1 or more", lambda x: x >= 1, whole=True)
NUMBER = Range("a number", lambda x: True)
NOT_BELOW_0 = Range("a number of 0 or more", lambda x: x >= 0)
ABOVE_0 = Range("a number above 0", lambda x: x > 0)
SHARE = Range("a number from 0 to below 1", lambda x: 0 <= x < 1)


def check_choice(
    name: str,  # what the error calls it
    value,  # what came
    choices: Collection,
) -> None:
    "Raise `ValueError` unless `value` is one of the choices and of their type."
    fits = any(type(value) is type(choice) and value == choice for choice in choices)
    check_that(fits, name, f"one of {list(choices)}", value)


def check_fields(
    settings,  # a dataclass
    rules: Mapping[str, Range | Collection],  # field -> its range, or its choices
) -> None:
    "Raise `ValueError` unless each of these fields fits, or is None where its type says so."
    types = {field.name: field.type for field in fields(settings)}
    for name, rule in rules.items():
        value = getattr(settings, name)
        if value is None and NoneType in get_args(types[name]):
            continue
        if isinstance(rule, Range):
            rule.check(name, value, ValueError)
        else:
            check_choice(name, value, rule)
