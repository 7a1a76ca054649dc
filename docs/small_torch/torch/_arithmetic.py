"""Operations on tensors, number by number."""

import math
import operator

from . import _numbers as numbers
from . import _tensor
from ._shapes import broadcast
from ._types import bool_, convert, float32, result_type


class Arithmetic:
    """What a tensor does with each of its numbers."""

    def each(self, function, dtype=None):
        """A function of each number."""
        return self.made(map(function, self.flat()), dtype=dtype)

    def with_other(self, other, function, dtype=None, swap=False):
        """A function of each number and its partner in `other`, which is broadcast."""
        if not isinstance(other, _tensor.Tensor) and not _tensor.is_number(other):
            return NotImplemented
        together = result_type(self, other)
        if isinstance(other, _tensor.Tensor):
            shape = broadcast(self.shape, other.shape)
            a = self.expand(shape).flat()
            b = other.expand(shape).flat()
        else:
            shape = self.shape
            a = self.flat()
            b = convert([other], together) * self.numel()
        values = map(function, b, a) if swap else map(function, a, b)
        return self.made(values, shape, dtype or together)

    def compared(self, other, function):
        """A comparison with each partner."""
        return self.with_other(other, function, bool_)

    def __add__(self, other):
        return self.with_other(other, operator.add)

    __radd__ = __add__

    def minus(self, other, swap=False):
        """A difference; truths have none."""
        both = [self.dtype, getattr(other, "dtype", None)]
        if both == [bool_, bool_]:
            raise RuntimeError(
                "Subtraction, the `-` operator, with two bool tensors is not supported. "
                "Use the `^` or `logical_xor()` operator instead."
            )
        if bool_ in both or isinstance(other, bool):
            raise RuntimeError(
                "Subtraction, the `-` operator, with a bool tensor is not supported. If you are "
                "trying to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return self.with_other(other, operator.sub, swap=swap)

    def __sub__(self, other):
        return self.minus(other)

    def __rsub__(self, other):
        return self.minus(other, swap=True)

    def __mul__(self, other):
        return self.with_other(other, operator.mul)

    __rmul__ = __mul__

    def ratio(self, other, function, swap=False, dtype=None):
        """A quotient."""
        return self.with_other(other, function, dtype, swap=swap)

    def quotient_type(self, other):
        """Floating point numbers, whatever is divided."""
        if not isinstance(other, _tensor.Tensor) and not _tensor.is_number(other):
            return None
        together = result_type(self, other)
        return float32 if together.kind < 2 else together

    def __truediv__(self, other):
        return self.ratio(other, numbers.divide, dtype=self.quotient_type(other))

    def __rtruediv__(self, other):
        return self.ratio(other, numbers.divide, swap=True, dtype=self.quotient_type(other))

    def __floordiv__(self, other):
        return self.ratio(other, numbers.floor_divide)

    def __rfloordiv__(self, other):
        return self.ratio(other, numbers.floor_divide, swap=True)

    def __mod__(self, other):
        return self.ratio(other, numbers.remainder)

    def __rmod__(self, other):
        return self.ratio(other, numbers.remainder, swap=True)

    def __pow__(self, other):
        return self.with_other(other, numbers.power)

    def __rpow__(self, other):
        return self.with_other(other, numbers.power, swap=True)

    def __neg__(self):
        if self.dtype is bool_:
            raise RuntimeError(
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying "
                "to invert a mask, use the `~` or `logical_not()` operator instead."
            )
        return self.each(operator.neg)

    def __pos__(self):
        return self

    def __abs__(self):
        return self.each(abs)

    abs = __abs__

    def __lt__(self, other):
        return self.compared(other, operator.lt)

    def __le__(self, other):
        return self.compared(other, operator.le)

    def __gt__(self, other):
        return self.compared(other, operator.gt)

    def __ge__(self, other):
        return self.compared(other, operator.ge)

    def __eq__(self, other):
        return self.compared(other, operator.eq)

    def __ne__(self, other):
        return self.compared(other, operator.ne)

    def joined(self, other, function, name):
        """`&`, `|` or `^` of truths or whole numbers."""
        if _tensor.is_number(other) or isinstance(other, _tensor.Tensor):
            together = result_type(self, other)
            if together.kind == 2:
                raise NotImplementedError(
                    f"\"bitwise_{name}_cpu\" not implemented for '{together.title}'"
                )
        return self.with_other(other, function)

    def __and__(self, other):
        return self.joined(other, operator.and_, "and")

    def __or__(self, other):
        return self.joined(other, operator.or_, "or")

    def __xor__(self, other):
        return self.joined(other, operator.xor, "xor")

    __rand__ = __and__
    __ror__ = __or__
    __rxor__ = __xor__

    def __invert__(self):
        if self.dtype.kind == 2:
            raise TypeError(
                "~ (operator.invert) is only implemented on integer and Boolean-type tensors"
            )
        return self.each(operator.not_ if self.dtype is bool_ else operator.invert)

    def pow(self, exponent):
        """The power of each number."""
        return self**exponent

    def floating(self, function):
        """A function whose values are floating point numbers."""
        return self.each(function, self.dtype if self.dtype.kind == 2 else float32)

    def round(self, decimals=0):
        """Rounded numbers."""
        return self.each(lambda x: round(x, decimals) if math.isfinite(x) else x)

    def isclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Where two numbers agree."""
        if self.dtype is not other.dtype:
            raise RuntimeError(f"{self.dtype.title} did not match {other.dtype.title}")

        def close(a, b):
            if a != a or b != b:
                return equal_nan and a != a and b != b
            return a == b or (math.isfinite(b) and abs(a - b) <= atol + rtol * abs(b))

        return self.with_other(other, close, bool_)

    def allclose(self, other, rtol=1e-5, atol=1e-8, equal_nan=False):
        """Whether all numbers agree."""
        return bool(self.isclose(other, rtol, atol, equal_nan).all())

    def equal(self, other):
        """Whether shapes and all numbers are the same."""
        return self.shape == other.shape and self.flat() == other.flat()

    def clamp(self, min=None, max=None):
        """Numbers outside the range, moved to its ends."""
        result = self
        if min is not None:
            result = result.maximum(result.alike(min))
        if max is not None:
            result = result.minimum(result.alike(max))
        return result

    def alike(self, value):
        """A number as a tensor of this type; a tensor as it is."""
        return _tensor.as_tensor(value, self.dtype) if _tensor.is_number(value) else value

    clip = clamp

    def nan_to_num(self, nan=0.0, posinf=None, neginf=None):
        """Other numbers for NaN and infinity."""
        largest = 3.4028234663852886e38 if self.dtype is float32 else 1.7976931348623157e308
        high = largest if posinf is None else posinf
        low = -largest if neginf is None else neginf

        def finite(x):
            if x != x:
                return nan
            return x if math.isfinite(x) else high if x > 0 else low

        return self.each(finite)

    def xlogy(self, other):
        """Each number times the logarithm of its partner; 0 where the number is 0."""
        product = self * other.log()
        return product.masked_fill((self == 0) & ~other.isnan(), 0.0)

    def _gelu(self, approximate="none"):
        """Each number times the share of a normal distribution below it."""
        return self.floating(lambda x: numbers.gelu(x, approximate))

    def _silu(self):
        """Each number times its sigmoid."""
        return self.floating(lambda x: x * numbers.sigmoid(x))

    def maximum(self, other):
        """The larger of two numbers."""
        return self.with_other(other, lambda a, b: numbers.largest((a, b)))

    def minimum(self, other):
        """The smaller of two numbers."""
        return self.with_other(other, lambda a, b: numbers.smallest((a, b)))

    def masked_fill(self, mask, value):
        """One number where the mask is True."""
        if mask.dtype is not bool_:
            raise RuntimeError(
                "masked_fill_ only supports boolean masks, but got mask with dtype "
                f"{mask.dtype.c_name}"
            )
        value = value.item() if isinstance(value, _tensor.Tensor) else value
        shape = broadcast(mask.shape, self.shape)
        pairs = zip(mask.expand(shape).flat(), self.expand(shape).flat())
        return self.made([value if hidden else number for hidden, number in pairs], shape)

    def where(self, condition, other):
        """These numbers where the condition is True, else the others."""
        return _tensor.where(condition, self, other)


FLOATING = {  # a method for each number -> what it computes, in floating point numbers
    "exp": numbers.exp,
    "expm1": numbers.expm1,
    "log": numbers.log,
    "log1p": numbers.log1p,
    "log2": lambda x: numbers.log(x) / math.log(2),
    "log10": lambda x: numbers.log(x) / math.log(10),
    "sqrt": numbers.sqrt,
    "rsqrt": lambda x: numbers.divide(1, numbers.sqrt(x)),
    "reciprocal": lambda x: numbers.divide(1, x),
    "sin": numbers.sin,
    "cos": numbers.cos,
    "tan": numbers.tan,
    "tanh": math.tanh,
    "atan": math.atan,
    "sigmoid": numbers.sigmoid,
    "erf": math.erf,
    "deg2rad": math.radians,
    "rad2deg": math.degrees,
}
KEEPING = {  # the same for those that keep the type
    "square": lambda x: x * x,
    "relu": lambda x: max(x, 0),
    "sign": numbers.sign,
    "floor": lambda x: math.floor(x) if math.isfinite(x) else x,
    "ceil": lambda x: math.ceil(x) if math.isfinite(x) else x,
}
ASKING = {"isfinite": math.isfinite, "isnan": math.isnan, "isinf": math.isinf}
ASKING["logical_not"] = operator.not_
SYNONYMS = {
    "add": "__add__",
    "sub": "__sub__",
    "subtract": "__sub__",
    "mul": "__mul__",
    "multiply": "__mul__",
    "div": "__truediv__",
    "divide": "__truediv__",
    "true_divide": "__truediv__",
    "floor_divide": "__floordiv__",
    "remainder": "__mod__",
    "neg": "__neg__",
    "eq": "__eq__",
    "ne": "__ne__",
    "lt": "__lt__",
    "le": "__le__",
    "gt": "__gt__",
    "ge": "__ge__",
    "bitwise_and": "__and__",
    "bitwise_or": "__or__",
    "bitwise_not": "__invert__",
    "logical_and": "__and__",
    "logical_or": "__or__",
    "logical_xor": "__xor__",
}
for name, function in FLOATING.items():
    setattr(Arithmetic, name, lambda self, function=function: self.floating(function))
for name, function in KEEPING.items():
    setattr(Arithmetic, name, lambda self, function=function: self.each(function))
for name, function in ASKING.items():
    setattr(Arithmetic, name, lambda self, function=function: self.each(function, bool_))
for name, special in SYNONYMS.items():
    setattr(Arithmetic, name, getattr(Arithmetic, special))

IN_PLACE = {*FLOATING, *KEEPING, *SYNONYMS, "abs", "pow", "clamp", "masked_fill", "softmax"}
IN_PLACE |= {"cumsum", "tril", "triu", "scatter", "round"}
for name in "add sub mul truediv floordiv mod pow and or xor".split():

    def in_place(self, other, special=f"__{name}__"):
        result = getattr(self, special)(other)
        return result if result is NotImplemented else self.become(result)

    setattr(Arithmetic, f"__i{name}__", in_place)
