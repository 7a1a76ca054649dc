"""Arithmetic on single numbers, with infinity and NaN where Python would raise."""

import math
from operator import mul

inf, nan = math.inf, math.nan

try:
    sum_of_products = math.sumprod  # Python 3.12
except AttributeError:

    def sum_of_products(a, b):
        """The dot product of two lists."""
        return sum(map(mul, a, b))


def guarded(function):
    """`function`, with NaN for a number that it is not defined at and infinity if it overflows."""

    def safe(x):
        try:
            return function(x)
        except OverflowError:
            return inf
        except ValueError:
            return nan

    return safe


exp = guarded(math.exp)
expm1 = guarded(math.expm1)
sin, cos, tan = guarded(math.sin), guarded(math.cos), guarded(math.tan)


@guarded
def sqrt(x):
    """The square root."""
    return math.sqrt(x)


@guarded
def log(x):
    """The natural logarithm."""
    return -inf if x == 0 else math.log(x)


@guarded
def log1p(x):
    """The natural logarithm of 1 + x."""
    return -inf if x == -1 else math.log1p(x)


def sigmoid(x):
    """1 / (1 + exp(-x))."""
    return 1 / (1 + exp(-x))


def normal_share(x):
    """The share of a normal distribution below x."""
    return (1 + math.erf(x / math.sqrt(2))) / 2


def gelu(x, approximate="none"):
    """x times the share of a normal distribution below it, or nearly so."""
    if approximate == "none":
        return x * normal_share(x)
    return x / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def sign(x):
    """-1, 0 or 1."""
    return (x > 0) - (x < 0)


def divide(a, b):
    """a / b."""
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return nan
    return math.copysign(inf, a) * math.copysign(1, b)


def floor_divide(a, b):
    """a / b, rounded down."""
    if b != 0:
        return a // b
    if isinstance(a, int) and isinstance(b, int):
        raise RuntimeError("ZeroDivisionError")
    return divide(a, b)


def remainder(a, b):
    """What a // b leaves, with the sign of b."""
    if b != 0:
        return a % b
    if isinstance(a, int) and isinstance(b, int):
        raise RuntimeError("ZeroDivisionError")
    return nan


def power(a, b):
    """a to the power of b."""
    if isinstance(a, int) and isinstance(b, int) and b < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    try:
        result = a**b
    except ZeroDivisionError:
        return inf
    except OverflowError:
        return inf
    return nan if isinstance(result, complex) else result


def largest(values):
    """The largest number; NaN if there is one."""
    return nan if any(value != value for value in values) else max(values)


def smallest(values):
    """The smallest number; NaN if there is one."""
    return nan if any(value != value for value in values) else min(values)


def softmax(values):
    """Exponentials of numbers, divided by their sum."""
    top = largest(values) if values else 0.0
    if top in (inf, -inf) or top != top:
        return [nan] * len(values)
    exponentials = [math.exp(value - top) for value in values]
    total = sum(exponentials)
    return [e / total for e in exponentials]
