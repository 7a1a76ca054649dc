"""A tensor: a flat list of numbers, a shape, and strides that say where each number is.

`transpose`, slices and `expand` share the list and change the strides, as in PyTorch, so what is
written into one is seen in the other.
"""

import math
import operator
from collections import namedtuple
from math import prod

from . import _numbers as numbers
from ._shapes import (
    Size,
    as_sizes,
    axis_number,
    axis_numbers,
    broadcast,
    contiguous_strides,
    filled_in,
    places,
)
from ._show import show
from ._types import (
    bool_,
    convert,
    float32,
    float64,
    int32,
    int64,
    promote_types,
    result_type,
)

LARGEST = 5_000_000  # numbers in a tensor; more would take minutes here
Result = namedtuple("Result", ["values", "indices"])
ABSENT = "the PyTorch of this page is a small part of it; the notebook has all"


def absent(module):
    """A `__getattr__` for a module, which says what is missing."""

    def __getattr__(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(f"module '{module}' has no attribute '{name}' here; {ABSENT}")

    return __getattr__


class device:
    """Where a tensor is: always on the CPU. `with torch.device("cpu"):` is allowed, too."""

    def __init__(self, name="cpu", index=None):
        self.type = str(name).partition(":")[0]
        self.index = index
        if self.type != "cpu":
            raise RuntimeError(f"there is no {self.type} in this page, only the CPU")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False

    def __eq__(self, other):
        return str(self) == str(other)

    def __hash__(self):
        return hash(self.type)

    def __str__(self):
        return self.type

    def __repr__(self):
        return f"device(type='{self.type}')"


CPU = device()


def check_size(shape):
    """Refuse a tensor that this page could not hold."""
    if prod(shape) > LARGEST:
        raise RuntimeError(f"a tensor of {prod(shape):,} numbers is too large for this page")


def needs(name, argument, value):
    """Refuse a call without an argument, in PyTorch's words."""
    if value is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')


def is_number(value):
    """Whether this is a number of Python."""
    return isinstance(value, bool | int | float)


class Tensor:
    """Numbers of one type on any number of axes."""

    device = CPU
    is_cuda = is_meta = is_sparse = False
    grad = None

    def __init__(self, numbers, shape, dtype, strides=None, offset=0):
        check_size(shape)
        self.numbers = numbers  # a list, perhaps shared with other tensors
        self.shape = Size(shape)
        self.dtype = dtype
        self.strides = contiguous_strides(self.shape) if strides is None else tuple(strides)
        self.offset = offset
        self.requires_grad = False

    # -------------------------------------------------------- numbers

    def places(self):
        """Where in the list the numbers are, in order."""
        return places(self.shape, self.strides, self.offset)

    def flat(self):
        """The numbers in order."""
        if self.is_contiguous():
            return self.numbers[self.offset : self.offset + self.numel()]
        return [self.numbers[place] for place in self.places()]

    def view_with(self, shape, strides, offset=None):
        """A tensor that shares the list of this one."""
        offset = self.offset if offset is None else offset
        view = Tensor(self.numbers, shape, self.dtype, strides, offset)
        view.requires_grad = self.requires_grad
        return view

    def made(self, values, shape=None, dtype=None):
        """A new tensor of these values, rounded to its type."""
        dtype = dtype or self.dtype
        shape = self.shape if shape is None else shape
        return Tensor(convert(values, dtype), shape, dtype)

    def write(self, values):
        """Write values into this tensor, in order."""
        for place, value in zip(self.places(), convert(values, self.dtype)):
            self.numbers[place] = value
        return self

    def become(self, result):
        """Write the result of an operation into this tensor, as `+=` does."""
        if result.shape != self.shape:
            raise RuntimeError(
                f"output with shape {list(self.shape)} doesn't match the broadcast shape "
                f"{list(result.shape)}"
            )
        if result.dtype.kind > self.dtype.kind:
            raise RuntimeError(
                f"result type {result.dtype.title} can't be cast to the desired output type "
                f"{self.dtype.title}"
            )
        return self.write(result.flat())

    def item(self):
        """The only number, as Python's."""
        if self.numel() != 1:
            raise RuntimeError(
                f"a Tensor with {self.numel()} elements cannot be converted to Scalar"
            )
        return self.flat()[0]

    def tolist(self):
        """Nested lists; a number where there is no axis."""
        if not self.shape:
            return self.item()
        values = self.flat()
        for size in reversed(self.shape[1:]):
            count = len(values) // size if size else prod(self.shape[:-1])
            values = [values[i * size : (i + 1) * size] for i in range(count)]
        return values

    def numel(self):
        """How many numbers there are."""
        return prod(self.shape)

    def size(self, dim=None):
        """The shape, or the size of an axis."""
        return self.shape if dim is None else self.shape[axis_number(dim, self.ndim)]

    @property
    def ndim(self):
        """How many axes there are."""
        return len(self.shape)

    def dim(self):
        """How many axes there are."""
        return self.ndim

    @property
    def nbytes(self):
        """How much memory PyTorch would need."""
        return self.numel() * self.dtype.width // 8

    def stride(self, dim=None):
        """How far apart neighbours on each axis are."""
        return self.strides if dim is None else self.strides[dim]

    def is_contiguous(self):
        """Whether the numbers lie in order."""
        in_order = contiguous_strides(self.shape)
        return all(
            n == 1 or step == wanted for n, step, wanted in zip(self.shape, self.strides, in_order)
        )

    def is_floating_point(self):
        """Whether these are floating point numbers."""
        return self.dtype.is_floating_point

    def is_complex(self):
        """Never; complex numbers are left out."""
        return False

    def __len__(self):
        if not self.shape:
            raise TypeError("len() of a 0-d tensor")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter([self[i] for i in range(len(self))])

    def __bool__(self):
        if self.numel() != 1:
            raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
        return bool(self.item())

    def only(self):
        """The only number, for `float` and `int`."""
        if self.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return self.item()

    def __float__(self):
        return float(self.only())

    def __int__(self):
        return int(self.only())

    def __index__(self):
        if self.dtype.kind != 1 or self.numel() != 1:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return self.item()

    def __format__(self, form):
        if self.shape:
            if form:
                raise TypeError("unsupported format string passed to Tensor.__format__")
            return str(self)
        return format(self.item(), form)

    def __repr__(self):
        return show(self)

    def __hash__(self):
        return id(self)

    def __contains__(self, value):
        return bool((self == value).any())

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name.endswith("_") and name[:-1] in IN_PLACE:
            operation = getattr(self, name[:-1])
            return lambda *args, **options: self.become(operation(*args, **options))
        raise AttributeError(f"'Tensor' object has no attribute '{name}' here; {ABSENT}")

    # -------------------------------------------------------- types and copies

    def to(self, *targets, dtype=None, device=None, copy=False, non_blocking=False):
        """The same numbers in another type; a device or a tensor may be named, too."""
        for target in targets:
            if isinstance(target, Tensor):
                dtype = target.dtype
            elif target in TYPES:
                dtype = target
        if dtype is None or dtype is self.dtype:
            return self.clone() if copy else self
        return self.made(self.flat(), dtype=dtype)

    def type(self, dtype):
        """The same numbers in another type."""
        return self.to(dtype)

    def type_as(self, other):
        """The same numbers in the type of another tensor."""
        return self.to(other.dtype)

    def float(self):
        """As float32."""
        return self.to(float32)

    def double(self):
        """As float64."""
        return self.to(float64)

    def long(self):
        """As int64."""
        return self.to(int64)

    def int(self):
        """As int32."""
        return self.to(int32)

    def bool(self):
        """True where a number is not 0."""
        return self.to(bool_)

    def cpu(self):
        """The tensor itself; it is on the CPU."""
        return self

    def clone(self):
        """A copy with numbers of its own."""
        return self.made(self.flat())

    def detach(self):
        """The same numbers without gradients."""
        view = self.view_with(self.shape, self.strides)
        view.requires_grad = False
        return view

    def contiguous(self):
        """The numbers in order."""
        return self if self.is_contiguous() else self.clone()

    def requires_grad_(self, requires_grad=True):
        """Note whether gradients are wanted; none are computed here."""
        self.requires_grad = requires_grad
        return self

    def backward(self, *args, **options):
        """Not here."""
        raise NotImplementedError(f"there are no gradients here; {ABSENT}")

    def copy_(self, other):
        """Write another tensor's numbers into this one."""
        return self.write(as_tensor(other).expand(self.shape).flat())

    def fill_(self, value):
        """Write one number everywhere."""
        return self.write([as_tensor(value).item()] * self.numel())

    def zero_(self):
        """Write zeros."""
        return self.fill_(0)

    def new_zeros(self, *sizes):
        """Zeros of the same type."""
        shape = as_sizes(sizes)
        return self.made([0] * prod(shape), shape)

    def new_ones(self, *sizes):
        """Ones of the same type."""
        return self.new_zeros(*sizes).fill_(1)

    def new_full(self, shape, value):
        """One number everywhere, of the same type."""
        return self.new_zeros(*shape).fill_(value)

    def new_tensor(self, values):
        """Values of the same type."""
        return as_tensor(values).to(self.dtype)

    # -------------------------------------------------------- number by number

    def each(self, function, dtype=None):
        """A function of each number."""
        return self.made(map(function, self.flat()), dtype=dtype)

    def with_other(self, other, function, dtype=None, swap=False):
        """A function of each number and its partner in `other`, which is broadcast."""
        if not isinstance(other, Tensor) and not is_number(other):
            return NotImplemented
        together = result_type(self, other)
        if isinstance(other, Tensor):
            shape = broadcast(self.shape, other.shape)
            a, b = self.expand(shape).flat(), other.expand(shape).flat()
        else:
            shape = self.shape
            a, b = self.flat(), convert([other], together) * self.numel()
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
        found = result_type(self, other) if isinstance(other, Tensor) or is_number(other) else None
        return float32 if found is not None and found.kind < 2 else found

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
        if is_number(other) or isinstance(other, Tensor):
            found = result_type(self, other)
            if found.kind == 2:
                raise NotImplementedError(
                    f"\"bitwise_{name}_cpu\" not implemented for '{found.title}'"
                )
        return self.with_other(other, function)

    def __and__(self, other):
        return self.joined(other, operator.and_, "and")

    def __or__(self, other):
        return self.joined(other, operator.or_, "or")

    def __xor__(self, other):
        return self.joined(other, operator.xor, "xor")

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

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
            result = result.maximum(as_tensor(min, result.dtype if is_number(min) else None))
        if max is not None:
            result = result.minimum(as_tensor(max, result.dtype if is_number(max) else None))
        return result

    clip = clamp

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
        value = value.item() if isinstance(value, Tensor) else value
        shape = broadcast(self.shape, mask.shape)
        pairs = zip(mask.expand(shape).flat(), self.expand(shape).flat())
        return self.made([value if hidden else number for hidden, number in pairs], shape)

    def where(self, condition, other):
        """These numbers where the condition is True, else the others."""
        return where(condition, self, other)

    # -------------------------------------------------------- along axes

    def rows(self, dims):
        """The numbers along these axes, a list for each place on the others; and those sizes."""
        rest = [axis for axis in range(self.ndim) if axis not in dims]
        moved = self.permute(rest + list(dims))
        n = prod(self.shape[axis] for axis in dims)
        sizes = [self.shape[axis] for axis in rest]
        values = moved.flat()
        return [values[i * n : (i + 1) * n] for i in range(prod(sizes))], sizes

    def reduced(self, function, dim, keepdim, dtype=None):
        """One number for all along some axes."""
        dims = axis_numbers(dim, self.ndim) if self.ndim else []
        rows, sizes = self.rows(dims)
        if keepdim:
            sizes = [1 if axis in dims else size for axis, size in enumerate(self.shape)]
        return self.made([function(row) for row in rows], sizes, dtype)

    def along(self, function, dim, dtype=None):
        """A function of the numbers along one axis, which gives as many."""
        axis = axis_number(dim, self.ndim)
        if not self.ndim:
            return self.made(function(self.flat()), dtype=dtype)
        rows, sizes = self.rows([axis])
        values = [value for row in rows for value in function(row)]
        length = len(values) // len(rows) if rows else self.shape[axis]
        return self.made(values, [*sizes, length], dtype).movedim(-1, axis)

    def sum(self, dim=None, keepdim=False, dtype=None, axis=None):
        """The sum."""
        dim = axis if dim is None else dim
        kind = int64 if self.dtype.kind < 2 else self.dtype
        return self.reduced(sum, dim, keepdim, dtype or kind)

    def prod(self, dim=None, keepdim=False):
        """The product."""
        return self.reduced(prod, dim, keepdim, int64 if self.dtype.kind < 2 else self.dtype)

    def mean(self, dim=None, keepdim=False, axis=None):
        """The mean."""
        if self.dtype.kind < 2:
            raise RuntimeError(
                "mean(): could not infer output dtype. Input dtype must be either a floating "
                f"point or complex dtype. Got: {self.dtype.title}"
            )
        dim = axis if dim is None else dim
        return self.reduced(lambda row: numbers.divide(sum(row), len(row)), dim, keepdim)

    def var(self, dim=None, correction=1, keepdim=False, unbiased=True):
        """The variance."""

        def variance(row):
            mean = numbers.divide(sum(row), len(row))
            return numbers.divide(sum((x - mean) ** 2 for x in row), len(row) - missing)

        missing = correction if unbiased else 0
        return self.reduced(variance, dim, keepdim)

    def std(self, dim=None, correction=1, keepdim=False, unbiased=True):
        """The standard deviation."""
        return self.var(dim, correction, keepdim, unbiased).sqrt()

    def norm(self, p=2, dim=None, keepdim=False):
        """The length of a vector."""
        return self.reduced(lambda row: math.sqrt(sum(x * x for x in row)), dim, keepdim)

    def logsumexp(self, dim, keepdim=False):
        """The logarithm of the sum of exponentials."""

        def one(row):
            top = numbers.largest(row)
            if not math.isfinite(top):
                return top
            return top + math.log(sum(math.exp(x - top) for x in row))

        return self.reduced(one, dim, keepdim)

    def all(self, dim=None, keepdim=False):
        """Whether all numbers are True, or not 0."""
        return self.reduced(all, dim, keepdim, bool_)

    def any(self, dim=None, keepdim=False):
        """Whether any number is True, or not 0."""
        return self.reduced(any, dim, keepdim, bool_)

    def count_nonzero(self, dim=None):
        """How many numbers are not 0."""
        return (self != 0).sum(dim)

    def amax(self, dim=None, keepdim=False):
        """The largest number."""
        return self.reduced(numbers.largest, dim, keepdim)

    def amin(self, dim=None, keepdim=False):
        """The smallest number."""
        return self.reduced(numbers.smallest, dim, keepdim)

    def argmax(self, dim=None, keepdim=False):
        """Where the largest number is."""
        return self.reduced(lambda row: row.index(max(row)), dim, keepdim, int64)

    def argmin(self, dim=None, keepdim=False):
        """Where the smallest number is."""
        return self.reduced(lambda row: row.index(min(row)), dim, keepdim, int64)

    def max(self, dim=None, keepdim=False):
        """The largest number; along an axis also where it is. Of two tensors the larger ones."""
        if isinstance(dim, Tensor):
            return self.maximum(dim)
        if dim is None:
            return self.amax()
        return Result(self.amax(dim, keepdim), self.argmax(dim, keepdim))

    def min(self, dim=None, keepdim=False):
        """The smallest number; along an axis also where it is. Of two tensors the smaller ones."""
        if isinstance(dim, Tensor):
            return self.minimum(dim)
        if dim is None:
            return self.amin()
        return Result(self.amin(dim, keepdim), self.argmin(dim, keepdim))

    def median(self, dim=None, keepdim=False):
        """The lower one of the numbers in the middle."""

        def middle(row):
            return sorted(row)[(len(row) - 1) // 2]

        values = self.reduced(middle, dim, keepdim)
        if dim is None:
            return values
        return Result(values, self.reduced(lambda row: row.index(middle(row)), dim, keepdim, int64))

    def softmax(self, dim=None, dtype=None):
        """Shares of 1 along an axis."""
        needs("softmax", "dim", dim)
        source = self if dtype is None else self.to(dtype)
        if source.dtype.kind < 2:
            kernel = "softmax_lastdim_kernel_impl"
            raise NotImplementedError(f"\"{kernel}\" not implemented for '{source.dtype.title}'")
        return source.along(numbers.softmax, dim)

    def log_softmax(self, dim=None):
        """The logarithms of a softmax."""
        needs("log_softmax", "dim", dim)
        return self - self.logsumexp(dim, keepdim=True)

    def cumsum(self, dim=None):
        """Sums up to each place."""
        needs("cumsum", "dim", dim)
        kind = int64 if self.dtype.kind < 2 else self.dtype
        return self.along(lambda row: running(row, operator.add), dim, kind)

    def cumprod(self, dim=None):
        """Products up to each place."""
        needs("cumprod", "dim", dim)
        kind = int64 if self.dtype.kind < 2 else self.dtype
        return self.along(lambda row: running(row, operator.mul), dim, kind)

    def sort(self, dim=-1, descending=False, stable=False):
        """The numbers in order, and where they were."""
        order = self.argsort(dim, descending)
        return Result(self.gather(dim, order) if self.ndim else self, order)

    def argsort(self, dim=-1, descending=False, stable=False):
        """Where the numbers are that would be in order."""

        def order(row):
            return sorted(range(len(row)), key=row.__getitem__, reverse=descending)

        return self.along(order, dim, int64)

    def topk(self, k, dim=-1):
        """The k largest numbers, and where they were."""
        order = self.argsort(dim, descending=True).narrow(dim, 0, k)
        return Result(self.gather(dim, order), order)

    def flip(self, *dims):
        """The numbers along these axes in turned order."""
        result = self
        for axis in axis_numbers(as_sizes(dims), self.ndim):
            result = result.along(lambda row: row[::-1], axis)
        return result

    def roll(self, shifts, dims):
        """The numbers along an axis, moved on in a circle."""

        def moved(row):
            return [row[(i - shifts) % len(row)] for i in range(len(row))]

        return self.along(moved, dims)

    def unique(self, dim=None):
        """The numbers that occur, in order; with `dim=0` the rows."""
        if dim is None:
            values = sorted(set(self.flat()))
            return self.made(values, [len(values)])
        rows = sorted({tuple(row.flat()) for row in self.unbind(dim)})
        return self.made([value for row in rows for value in row], [len(rows), *self.shape[1:]])

    def diff(self, dim=-1):
        """What each number adds to the one before it."""
        return self.along(lambda row: [b - a for a, b in zip(row, row[1:])], dim)

    def nonzero(self, as_tuple=False):
        """Where the numbers are not 0: a row of indices for each."""
        every = places(self.shape, contiguous_strides(self.shape))
        rows = []
        for place, value in zip(every, self.flat()):
            if value:
                strides = contiguous_strides(self.shape)
                rows.append([place // step % n for step, n in zip(strides, self.shape)])
        values = [index for row in rows for index in row]
        table = self.made(values, [len(rows), self.ndim], int64)
        return tuple(table.unbind(1)) if as_tuple else table

    # -------------------------------------------------------- axes

    def permute(self, *dims):
        """The axes in another order."""
        dims = as_sizes(dims)
        if len(dims) != self.ndim:
            raise RuntimeError(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the "
                "length of the desired ordering of dimensions i.e. input.dim() = "
                f"{self.ndim} is not equal to len(dims) = {len(dims)}"
            )
        axes = axis_numbers(dims, self.ndim)
        if len(set(axes)) < len(axes):
            raise RuntimeError("permute(): duplicate dims are not allowed.")
        return self.view_with([self.shape[a] for a in axes], [self.strides[a] for a in axes])

    def transpose(self, dim0=None, dim1=None):
        """Two axes exchanged."""
        needs("transpose", "dim0", dim0)
        needs("transpose", "dim1", dim1)
        axes = list(range(self.ndim))
        first = axis_number(dim0, self.ndim)
        second = axis_number(dim1, self.ndim)
        if axes:
            axes[first], axes[second] = axes[second], axes[first]
        return self.permute(axes)

    swapaxes = swapdims = transpose

    def movedim(self, source, destination):
        """One axis moved to another place."""
        axes = list(range(self.ndim))
        axis = axes.pop(axis_number(source, self.ndim))
        axes.insert(axis_number(destination, self.ndim), axis)
        return self.permute(axes)

    moveaxis = movedim

    @property
    def T(self):
        """The axes turned round."""
        return self.permute(list(range(self.ndim))[::-1])

    @property
    def mT(self):
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise RuntimeError(
                "tensor.mT is only supported on matrices or batches of matrices. "
                f"Got {self.ndim}-D tensor."
            )
        return self.transpose(-2, -1)

    def t(self):
        """The two axes of a matrix exchanged."""
        if self.ndim > 2:
            raise RuntimeError(
                f"t() expects a tensor with <= 2 dimensions, but self is {self.ndim}D"
            )
        return self.T

    def expand(self, *sizes):
        """Axes of size 1 as long as asked for, without a copy; -1 keeps a size."""
        target = list(as_sizes(sizes))
        new = len(target) - self.ndim
        if new < 0:
            raise RuntimeError(
                f"expand(torch.{self.dtype.title}Tensor{{{list(self.shape)}}}, size={target}): the "
                f"number of sizes provided ({len(target)}) must be greater or equal to the number "
                f"of dimensions in the tensor ({self.ndim})"
            )
        strides = [0] * new
        for axis, (size, stride) in enumerate(zip(self.shape, self.strides), start=new):
            if target[axis] == -1:
                target[axis] = size
            if size != target[axis] and size != 1:
                raise RuntimeError(
                    f"The expanded size of the tensor ({target[axis]}) must match the existing "
                    f"size ({size}) at non-singleton dimension {axis}.  Target sizes: {target}.  "
                    f"Tensor sizes: {list(self.shape)}"
                )
            strides.append(stride if size == target[axis] else 0)
        return self.view_with(target, strides)

    def expand_as(self, other):
        """As large as another tensor, without a copy."""
        return self.expand(other.shape)

    def broadcast_to(self, shape):
        """As large as asked for, without a copy."""
        return self.expand(shape)

    def reshape(self, *sizes):
        """The numbers in the same order, on other axes."""
        shape = filled_in(as_sizes(sizes), self.numel())
        strides = self.strides_for(shape)
        if strides is None:
            return self.made(self.flat(), shape)
        return self.view_with(shape, strides)

    def view(self, *sizes):
        """As `reshape`, but never a copy."""
        shape = filled_in(as_sizes(sizes), self.numel())
        strides = self.strides_for(shape)
        if strides is None:
            raise RuntimeError(
                "view size is not compatible with input tensor's size and stride (at least one "
                "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
            )
        return self.view_with(shape, strides)

    def strides_for(self, shape):
        """Strides that show the same numbers in this shape; None if there are none."""
        if self.is_contiguous() or not self.numel():
            return contiguous_strides(shape)
        old = [(n, step) for n, step in zip(self.shape, self.strides) if n != 1]
        strides = []
        size, step = 1, 1  # of the block of old axes that is cut up, from the last one on
        for n in reversed(shape):
            if n == 1:
                strides.insert(0, step)
                continue
            if size == 1:
                size, step = old.pop()
                while old and old[-1][1] == step * size:  # the axis before it goes on in step
                    size *= old.pop()[0]
            if size % n:
                return None
            strides.insert(0, step)
            size //= n
            step *= n
        return strides

    def view_as(self, other):
        """In the shape of another tensor."""
        return self.view(other.shape)

    def reshape_as(self, other):
        """In the shape of another tensor."""
        return self.reshape(other.shape)

    def flatten(self, start_dim=0, end_dim=-1):
        """Some axes as one."""
        first = axis_number(start_dim, self.ndim)
        last = axis_number(end_dim, self.ndim)
        middle = prod(self.shape[first : last + 1])
        return self.reshape(*self.shape[:first], middle, *self.shape[last + 1 :])

    def ravel(self):
        """All axes as one."""
        return self.flatten()

    def unflatten(self, dim, sizes):
        """One axis as several."""
        axis = axis_number(dim, self.ndim)
        try:
            inner = filled_in(sizes, self.shape[axis])
        except RuntimeError:
            raise RuntimeError(
                f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim "
                f"{axis} ({self.shape[axis]}) in the input tensor"
            ) from None
        strides = [step * self.strides[axis] for step in contiguous_strides(inner)]
        return self.view_with(
            [*self.shape[:axis], *inner, *self.shape[axis + 1 :]],
            [*self.strides[:axis], *strides, *self.strides[axis + 1 :]],
        )

    def squeeze(self, dim=None):
        """Without axes of size 1."""
        dims = axis_numbers(dim, self.ndim)
        keep = [a for a in range(self.ndim) if a not in dims or self.shape[a] != 1]
        return self.view_with([self.shape[a] for a in keep], [self.strides[a] for a in keep])

    def unsqueeze(self, dim=None):
        """With one more axis of size 1."""
        needs("unsqueeze", "dim", dim)
        axis = axis_number(dim, self.ndim, extra=1)
        return self[(slice(None),) * axis + (None,)]

    def diagonal(self, offset=0, dim1=0, dim2=1):
        """The diagonal of two axes, as the last axis."""
        first = axis_number(dim1, self.ndim)
        second = axis_number(dim2, self.ndim)
        if first == second:
            raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
        rest = [axis for axis in range(self.ndim) if axis not in (first, second)]
        rows, columns = self.shape[first], self.shape[second]
        length = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
        start = self.strides[second] * offset if offset >= 0 else -self.strides[first] * offset
        return self.view_with(
            [self.shape[axis] for axis in rest] + [length],
            [self.strides[axis] for axis in rest] + [self.strides[first] + self.strides[second]],
            self.offset + start,
        )

    def diag(self, diagonal=0):
        """The diagonal of a matrix, or a matrix with this diagonal."""
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        n = len(self) + abs(diagonal)
        matrix = self.new_zeros(n, n)
        matrix.diagonal(diagonal).copy_(self)
        return matrix

    def diag_embed(self):
        """Matrices with these rows as their diagonals."""
        matrices = self.new_zeros(*self.shape, self.shape[-1])
        matrices.diagonal(dim1=-2, dim2=-1).copy_(self)
        return matrices

    def fill_diagonal_(self, value):
        """Write a number on the diagonal of all axes together."""
        if self.ndim < 2:
            raise RuntimeError("dimensions must larger than 1")
        if self.ndim > 2 and len(set(self.shape)) > 1:
            raise RuntimeError("all dimensions of input must be of equal length")
        for i in range(min(self.shape)):
            self[(i,) * self.ndim] = value
        return self

    def triangle(self, name, fits):
        """The numbers of the last two axes whose column minus row fits, zeros elsewhere."""
        if self.ndim < 2:
            raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions")
        rows, columns = self.shape[-2:]
        mask = [fits(j - i) for i in range(rows) for j in range(columns)]
        return where(Tensor(mask, (rows, columns), bool_), self, self.new_zeros(()))

    def tril(self, diagonal=0):
        """Zeros above a diagonal."""
        return self.triangle("tril", lambda distance: distance <= diagonal)

    def triu(self, diagonal=0):
        """Zeros below a diagonal."""
        return self.triangle("triu", lambda distance: distance >= diagonal)

    def narrow(self, dim, start, length):
        """A part of one axis."""
        axis = axis_number(dim, self.ndim)
        return self[(slice(None),) * axis + (slice(start, start + length),)]

    def select(self, dim, index):
        """One place of an axis."""
        return self[(slice(None),) * axis_number(dim, self.ndim) + (index,)]

    def split(self, split_size_or_sections, dim=0):
        """Parts of one axis, each so long; or of these lengths."""
        axis = axis_number(dim, self.ndim)
        n, sizes = self.shape[axis], split_size_or_sections
        if isinstance(sizes, int):
            step = sizes
            sizes = [min(step, n - start) for start in range(0, max(n, 1), step)]
        parts, start = [], 0
        for size in sizes:
            parts.append(self.narrow(axis, start, size))
            start += size
        return tuple(parts)

    def chunk(self, chunks, dim=0):
        """One axis in so many parts."""
        n = self.shape[axis_number(dim, self.ndim)]
        return self.split(max(1, -(-n // chunks)), dim)

    def unbind(self, dim=0):
        """The places of one axis, one by one."""
        axis = axis_number(dim, self.ndim)
        return tuple(self.select(axis, i) for i in range(self.shape[axis]))

    def repeat(self, *sizes):
        """Copies side by side."""
        sizes = as_sizes(sizes)
        if len(sizes) < self.ndim:
            raise RuntimeError(
                "Number of dimensions of repeat dims can not be smaller than number of "
                "dimensions of tensor"
            )
        shape = (1,) * (len(sizes) - self.ndim) + self.shape
        apart = [part for size, n in zip(sizes, shape) for part in (size, n)]
        single = self.reshape([part for n in shape for part in (1, n)])
        return single.expand(apart).reshape([size * n for size, n in zip(sizes, shape)])

    tile = repeat

    def repeat_interleave(self, repeats, dim=None):
        """Each place several times."""
        if dim is None:
            return self.flatten().repeat_interleave(repeats, 0)
        times = [repeats] * self.size(dim) if isinstance(repeats, int) else repeats.tolist()
        return self.along(lambda row: [x for x, n in zip(row, times) for _ in range(n)], dim)

    # -------------------------------------------------------- products

    def __matmul__(self, other):
        if not isinstance(other, Tensor):
            return NotImplemented
        a, b = self, other
        if not a.ndim or not b.ndim:
            raise RuntimeError(
                f"both arguments to matmul need to be at least 1D, but they are {a.ndim}D and "
                f"{b.ndim}D"
            )
        check_product_types(a, b)
        if a.ndim == b.ndim == 1:
            if len(a) != len(b):
                raise RuntimeError(
                    f"inconsistent tensor size, expected tensor [{len(a)}] and src [{len(b)}] to "
                    f"have the same number of elements, but got {len(a)} and {len(b)} elements "
                    "respectively"
                )
            return a.made([numbers.sum_of_products(a.flat(), b.flat())], ())
        if a.ndim == 1:
            return (a[None] @ b)[..., 0, :]
        if b.ndim == 1:
            if a.shape[-1] != len(b):
                rows = prod(a.shape[:-1])
                raise RuntimeError(
                    f"size mismatch, got input ({rows}), mat ({rows}x{a.shape[-1]}), vec ({len(b)})"
                )
            return (a @ b[:, None])[..., 0]
        if b.ndim == 2 and a.shape[-1] != b.shape[0]:
            rows = prod(a.shape[:-1])
            raise RuntimeError(
                f"mat1 and mat2 shapes cannot be multiplied ({rows}x{a.shape[-1]} and "
                f"{b.shape[0]}x{b.shape[1]})"
            )
        batch = broadcast(a.shape[:-2], b.shape[:-2])
        a = a.expand(*batch, *a.shape[-2:])
        b = b.expand(*batch, *b.shape[-2:])
        if a.shape[-1] != b.shape[-2]:
            raise RuntimeError(
                "Expected size for first two dimensions of batch2 tensor to be: "
                f"[{prod(batch)}, {a.shape[-1]}] but got: [{prod(batch)}, {b.shape[-2]}]."
            )
        rows, inner = a.shape[-2:]
        columns = b.shape[-1]
        numbers_a, numbers_b = a.flat(), b.mT.flat()
        multiply = numbers.sum_of_products
        values = []
        for i in range(prod(batch)):
            first, second = i * rows * inner, i * columns * inner
            b_columns = [
                numbers_b[second + j * inner : second + (j + 1) * inner] for j in range(columns)
            ]
            for r in range(rows):
                row = numbers_a[first + r * inner : first + (r + 1) * inner]
                values += [multiply(row, column) for column in b_columns]
        return self.made(values, (*batch, rows, columns))

    def matmul(self, other):
        """The matrix product."""
        if not isinstance(other, Tensor):
            came = type(other).__name__
            raise TypeError(f"matmul(): argument 'other' (position 2) must be Tensor, not {came}")
        return self @ other

    def mm(self, mat2):
        """The product of two matrices."""
        for name, t in (("self", self), ("mat2", mat2)):
            if t.ndim != 2:
                raise RuntimeError(f"{name} must be a matrix")
        return self @ mat2

    def bmm(self, mat2):
        """The products of two batches of matrices."""
        for name, t in (("batch1", self), ("batch2", mat2)):
            if t.ndim != 3:
                raise RuntimeError(f"{name} must be a 3D tensor")
        if self.shape[0] != mat2.shape[0] or self.shape[2] != mat2.shape[1]:
            raise RuntimeError(
                "Expected size for first two dimensions of batch2 tensor to be: "
                f"[{self.shape[0]}, {self.shape[2]}] but got: [{mat2.shape[0]}, {mat2.shape[1]}]."
            )
        return self @ mat2

    def mv(self, vec):
        """A matrix times a vector."""
        return self @ vec

    def dot(self, other):
        """The dot product of two vectors."""
        if self.ndim != 1 or other.ndim != 1:
            raise RuntimeError(
                f"1D tensors expected, but got {self.ndim}D and {other.ndim}D tensors"
            )
        return self @ other

    def outer(self, other):
        """Each number times each of another vector's."""
        return self[:, None] * other

    # -------------------------------------------------------- indices

    def found(self, index):
        """What an index picks: places in the list, and the shape of the result.

        Without a tensor among the indices also the view that shows it.
        """
        view, picked = take_slices(self, index)
        if not picked:
            return view, None, view.shape
        axes = [axis for axis, _ in picked]
        shape = Size()
        for _, t in picked:
            try:
                shape = broadcast(shape, t.shape)
            except RuntimeError:
                shapes = ", ".join(str(list(t.shape)) for _, t in picked)
                raise IndexError(
                    "shape mismatch: indexing tensors could not be broadcast together with "
                    f"shapes {shapes}"
                ) from None
        steps = [0] * prod(shape)
        for axis, t in picked:
            size, stride = view.shape[axis], view.strides[axis]
            for i, number in enumerate(t.expand(shape).flat()):
                if not -size <= number < size:
                    raise IndexError(
                        f"index {number} is out of bounds for dimension {axis} with size {size}"
                    )
                steps[i] += number % size * stride
        side_by_side = axes == list(range(axes[0], axes[0] + len(axes)))
        cut = axes[0] if side_by_side else 0
        rest = [axis for axis in range(view.ndim) if axis not in axes]
        before, after = rest[:cut], rest[cut:]
        before_sizes = [view.shape[axis] for axis in before]
        after_sizes = [view.shape[axis] for axis in after]
        starts = places(before_sizes, [view.strides[axis] for axis in before], view.offset)
        ends = places(after_sizes, [view.strides[axis] for axis in after])
        every = [start + step + end for start in starts for step in steps for end in ends]
        return None, every, Size([*before_sizes, *shape, *after_sizes])

    def __getitem__(self, index):
        view, every, shape = self.found(index)
        if view is not None:
            return view
        return self.made([self.numbers[place] for place in every], shape)

    def __setitem__(self, index, value):
        view, every, shape = self.found(index)
        value = as_tensor(value)
        while value.ndim > len(shape) and value.shape[0] == 1:
            value = value[0]
        if view is not None:
            view.copy_(value)
            return
        try:
            values = value.expand(shape).flat()
        except RuntimeError:
            raise RuntimeError(
                f"shape mismatch: value tensor of shape {list(value.shape)} cannot be broadcast "
                f"to indexing result of shape {list(shape)}"
            ) from None
        for place, number in zip(every, convert(values, self.dtype)):
            self.numbers[place] = number

    def gather(self, dim, index):
        """The numbers along an axis that `index` names."""
        if index.ndim != self.ndim:
            raise RuntimeError(
                "Index tensor must have the same number of dimensions as input tensor"
            )
        axis = axis_number(dim, self.ndim)
        step = self.strides[axis]
        strides = [0 if a == axis else stride for a, stride in enumerate(self.strides)]
        values = []
        for start, i in zip(places(index.shape, strides, self.offset), index.flat()):
            if not 0 <= i < self.shape[axis]:
                raise RuntimeError(
                    f"index {i} is out of bounds for dimension {axis} with size {self.shape[axis]}"
                )
            values.append(self.numbers[start + i * step])
        return self.made(values, index.shape)

    def take_along_dim(self, indices, dim):
        """The numbers along an axis that `indices` name."""
        return self.gather(dim, indices)

    def index_select(self, dim, index):
        """Some places of an axis."""
        return self[(slice(None),) * axis_number(dim, self.ndim) + (index,)]

    def scatter(self, dim, index, src):
        """A copy with `src` written where `index` says."""
        axis = axis_number(dim, self.ndim)
        result = self.clone()
        strides = [0 if a == axis else stride for a, stride in enumerate(result.strides)]
        values = as_tensor(src, self.dtype).expand(index.shape).flat()
        for start, i, value in zip(places(index.shape, strides), index.flat(), values):
            result.numbers[start + i * result.strides[axis]] = value
        return result

    # -------------------------------------------------------- random numbers in place

    def normal_(self, mean=0.0, std=1.0, generator=None):
        """Write normal random numbers."""
        from ._random import default_generator

        source = generator or default_generator
        drawn = source.normal_numbers(self.numel(), self.dtype is float64)
        return self.write([mean + std * number for number in drawn])

    def uniform_(self, low=0.0, high=1.0, generator=None):
        """Write random numbers from a range."""
        from ._random import default_generator

        source = generator or default_generator
        double = self.dtype is float64
        return self.write(
            [low + (high - low) * source.uniform(double) for _ in range(self.numel())]
        )


def take_slices(t, index):
    """The view that whole numbers, slices and None of an index make, and what tensors are left.

    Those are pairs: an axis of the view, and a tensor of whole numbers.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    parts = [tensor(part) if isinstance(part, list | tuple | range) else part for part in parts]
    used = sum(part.ndim if is_mask(part) else 1 for part in parts if part not in (None, ...))
    if used > t.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim}")
    if not any(part is ... for part in parts):
        parts.append(...)
    shape, strides, offset, picked = [], [], t.offset, []
    axis = 0
    for part in parts:
        if part is None:
            shape.append(1)
            strides.append(0)
            continue
        if part is ...:
            length = t.ndim - used
            shape += t.shape[axis : axis + length]
            strides += t.strides[axis : axis + length]
            axis += length
            continue
        if is_mask(part):
            expected = t.shape[axis : axis + part.ndim]
            if part.shape != expected:
                raise IndexError(
                    f"The shape of the mask {list(part.shape)} at index 0 does not match the "
                    f"shape of the indexed tensor {list(t.shape)} at index 0"
                )
            for number in part.nonzero(as_tuple=True):
                picked.append((len(shape), number))
                shape.append(t.shape[axis])
                strides.append(t.strides[axis])
                axis += 1
            continue
        size, stride = t.shape[axis], t.strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            if step < 1:
                raise ValueError("step must be greater than zero")
            shape.append(max(0, -(-(stop - start) // step)))
            strides.append(stride * step)
            offset += start * stride
        elif isinstance(part, Tensor) and part.ndim:
            if part.dtype.kind != 1:
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            picked.append((len(shape), part))
            shape.append(size)
            strides.append(stride)
        elif isinstance(part, int) or isinstance(part, Tensor) and part.dtype.kind == 1:
            i = int(part)
            if not -size <= i < size:
                raise IndexError(
                    f"index {i} is out of bounds for dimension {axis} with size {size}"
                )
            offset += i % size * stride
        elif isinstance(part, Tensor):
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        elif isinstance(part, str):
            raise TypeError("new(): invalid data type 'str'")
        else:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables "
                f"are valid indices (got {type(part).__name__})"
            )
        axis += 1
    return t.view_with(shape, strides, offset), picked


def is_mask(part):
    """Whether an index is a tensor of truths."""
    return isinstance(part, Tensor) and part.dtype is bool_ and part.ndim > 0


def check_product_types(a, b):
    """Refuse a matrix product of two types, or of truths, in PyTorch's words."""
    flat = a.ndim <= 2 and b.ndim <= 2 or b.ndim <= 2
    if a.dtype is b.dtype is bool_:
        name = "dot" if a.ndim == b.ndim == 1 else "addmm_impl_cpu_" if flat else "bmm"
        raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")
    if a.dtype is b.dtype:
        return
    if a.ndim == b.ndim == 1:
        raise RuntimeError(
            "dot : expected both vectors to have same dtype, but found "
            f"{a.dtype.title} and {b.dtype.title}"
        )
    if flat:
        raise RuntimeError(
            "expected m1 and m2 to have the same dtype, but got: "
            f"{a.dtype.c_name} != {b.dtype.c_name}"
        )
    raise RuntimeError(f"expected scalar type {a.dtype.title} but found {b.dtype.title}")


def running(row, function):
    """The first number, the first two joined, the first three, ..."""
    joined = []
    for value in row:
        joined.append(function(joined[-1], value) if joined else value)
    return joined


def where(condition, a=None, b=None):
    """Numbers of `a` where the condition is True, else of `b`."""
    if a is None:
        return condition.nonzero(as_tuple=True)
    for part in (a, b):
        if not isinstance(part, Tensor) and not is_number(part):
            came = ", ".join(type(part).__name__ for part in (condition, a, b))
            raise TypeError(
                f"where() received an invalid combination of arguments - got ({came}), but "
                "expected one of:"
            )
    dtype = result_type(a, b)
    a, b = as_tensor(a), as_tensor(b)
    shape = broadcast(broadcast(condition.shape, a.shape), b.shape)
    parts = zip(*(t.expand(shape).flat() for t in (condition, a, b)))
    return a.made([x if true else y for true, x, y in parts], shape, dtype)


def tensor(data, dtype=None, device=None, requires_grad=False):
    """A tensor of nested lists of numbers, or of one number."""
    result = as_tensor(data, dtype).clone()
    result.requires_grad = requires_grad
    return result


def as_tensor(data, dtype=None, device=None):
    """A tensor as it is, or a tensor of nested lists."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    values, shape = [], []
    flatten_lists(data, 0, values, shape)
    if dtype is None:
        dtype = float32 if not values else None
        for value in values:
            kind = value.dtype if isinstance(value, Tensor) else result_type(value)
            dtype = kind if dtype is None else promote_types(dtype, kind)
    values = [value.item() if isinstance(value, Tensor) else value for value in values]
    return Tensor(convert(values, dtype), shape, dtype)


def flatten_lists(data, depth, values, shape):
    """Collect the numbers of nested lists in `values` and their sizes in `shape`."""
    if isinstance(data, list | tuple | range):
        if len(shape) == depth:
            shape.append(len(data))
        if len(data) != shape[depth]:
            raise ValueError(
                f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})"
            )
        for part in data:
            flatten_lists(part, depth + 1, values, shape)
        return
    if isinstance(data, Tensor) and data.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if isinstance(data, str):
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    if not isinstance(data, Tensor) and not is_number(data):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if len(shape) != depth:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got 0)")
    values.append(data)


TYPES = (bool_, int32, int64, float32, float64)
FLOATING = {  # a method for each number -> what it computes, in floating point numbers
    "exp": numbers.exp,
    "log": numbers.log,
    "sqrt": numbers.sqrt,
    "rsqrt": lambda x: numbers.divide(1, numbers.sqrt(x)),
    "reciprocal": lambda x: numbers.divide(1, x),
    "sin": numbers.sin,
    "cos": numbers.cos,
    "tan": numbers.tan,
    "tanh": math.tanh,
    "atan": math.atan,
    "sigmoid": numbers.sigmoid,
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
    setattr(Tensor, name, lambda self, function=function: self.floating(function))
for name, function in KEEPING.items():
    setattr(Tensor, name, lambda self, function=function: self.each(function))
for name, function in ASKING.items():
    setattr(Tensor, name, lambda self, function=function: self.each(function, bool_))
for name, special in SYNONYMS.items():
    setattr(Tensor, name, getattr(Tensor, special))

IN_PLACE = {*FLOATING, *KEEPING, *SYNONYMS, "abs", "pow", "clamp", "masked_fill", "softmax"}
IN_PLACE |= {"cumsum", "tril", "triu", "scatter", "round"}
for name in "add sub mul truediv floordiv mod pow and or xor".split():
    operation = getattr(Tensor, f"__{name}__")

    def in_place(self, other, operation=operation):
        result = operation(self, other)
        return result if result is NotImplemented else self.become(result)

    setattr(Tensor, f"__i{name}__", in_place)
