"""Products of matrices."""

from math import prod

from . import _numbers as numbers
from . import _tensor
from ._shapes import broadcast
from ._types import bool_


class Products:
    """What a tensor does with another one, row by column."""

    def __matmul__(self, other):
        if not isinstance(other, _tensor.Tensor):
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
            return (a[None] @ b[:, None])[0, 0]
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
        return a.product(b)

    def product(self, other):
        """The products of two matrices, or of two batches of them."""
        a, b = self, other
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
        if not isinstance(other, _tensor.Tensor):
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
