"""Operations along the axes of a tensor."""

import math
import operator
from collections import namedtuple
from math import prod

from . import _numbers as numbers
from . import _tensor
from ._shapes import as_sizes, axis_number, axis_numbers, contiguous_strides, needs, places
from ._types import bool_, int64

Result = namedtuple("Result", ["values", "indices"])


class Reductions:
    """What a tensor does with the numbers along an axis."""

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

    def nanmean(self, dim=None, keepdim=False):
        """The mean of what is no NaN."""
        kept = ~self.isnan()
        return self.masked_fill(~kept, 0.0).sum(dim, keepdim) / kept.sum(dim, keepdim)

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

    def all(self, dim=None, keepdim=False, axis=None):
        """Whether all numbers are True, or not 0."""
        return self.reduced(all, axis if dim is None else dim, keepdim, bool_)

    def any(self, dim=None, keepdim=False, axis=None):
        """Whether any number is True, or not 0."""
        return self.reduced(any, axis if dim is None else dim, keepdim, bool_)

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
        if isinstance(dim, _tensor.Tensor):
            return self.maximum(dim)
        if dim is None:
            return self.amax()
        return self.reached(self.amax, self.argmax, dim, keepdim)

    def reached(self, value, place, dim, keepdim):
        """The values along an axis and where they are; a gradient goes to that place alone."""
        indices = place(dim, True)
        values = self.gather(dim, indices) if self.requires_grad else value(dim, True)
        if keepdim:
            return Result(values, indices)
        return Result(values.squeeze(dim), indices.squeeze(dim))

    def min(self, dim=None, keepdim=False):
        """The smallest number; along an axis also where it is. Of two tensors the smaller ones."""
        if isinstance(dim, _tensor.Tensor):
            return self.minimum(dim)
        if dim is None:
            return self.amin()
        return self.reached(self.amin, self.argmin, dim, keepdim)

    def median(self, dim=None, keepdim=False):
        """The lower one of the numbers in the middle."""

        def middle(row):
            return sorted(row)[(len(row) - 1) // 2]

        def value(dim, keepdim):
            return self.reduced(middle, dim, keepdim)

        def place(dim, keepdim):
            return self.reduced(lambda row: row.index(middle(row)), dim, keepdim, int64)

        if dim is None:
            return self.flatten().median(0).values
        return self.reached(value, place, dim, keepdim)

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

    def diff(self, dim=-1, prepend=None):
        """What each number adds to the one before it."""
        from ._make import cat  # which needs this module

        t = self if prepend is None else cat([prepend, self], dim)
        n = t.size(dim) - 1
        return t.narrow(dim, 1, n) - t.narrow(dim, 0, n)

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


def running(row, function):
    """The first number, the first two joined, the first three, ..."""
    joined = []
    for value in row:
        joined.append(function(joined[-1], value) if joined else value)
    return joined
