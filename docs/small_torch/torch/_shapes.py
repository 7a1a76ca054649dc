"""Shapes and strides: where in a flat list the numbers of a tensor are."""

from math import prod


class Size(tuple):
    """The shape of a tensor."""

    def numel(self):
        """How many numbers a tensor of this shape has."""
        return prod(self)

    def __repr__(self):
        return f"torch.Size({list(self)})"


def contiguous_strides(shape):
    """How far apart neighbours on each axis are if the numbers lie in order."""
    strides = []
    step = 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)


def places(shape, strides, start=0):
    """Where the numbers of a tensor are in its list, in order."""
    positions = [start]
    for size, stride in zip(shape, strides):
        positions = [place + i * stride for place in positions for i in range(size)]
    return positions


def axis_number(dim, ndim, extra=0):
    """An axis as a number from 0 on; a negative one counts from the end."""
    last = max(ndim + extra, 1) - 1
    if not isinstance(dim, int):
        raise TypeError(f"argument 'dim' must be int, not {type(dim).__name__}")
    if not -last - 1 <= dim <= last:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-last - 1}, {last}], "
            f"but got {dim})"
        )
    return dim % (last + 1)


def axis_numbers(dims, ndim):
    """Axes as numbers from 0 on; None stands for all of them."""
    if dims is None:
        return list(range(ndim))
    if isinstance(dims, int):
        dims = [dims]
    return [axis_number(dim, ndim) for dim in dims]


def broadcast(a, b):
    """The shape that two shapes make together."""
    ndim = max(len(a), len(b))
    long_a = (1,) * (ndim - len(a)) + tuple(a)
    long_b = (1,) * (ndim - len(b)) + tuple(b)
    shape = []
    for axis in reversed(range(ndim)):  # PyTorch names the last axis that does not fit
        m, n = long_a[axis], long_b[axis]
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) "
                f"at non-singleton dimension {axis}"
            )
        shape.append(n if m == 1 else m)
    return Size(shape[::-1])


def filled_in(shape, n):
    """A shape of n numbers in which -1 stands for the size that is left."""
    shape = list(shape)
    fits = prod(shape) == n
    if shape.count(-1) == 1:
        rest = prod(size for size in shape if size != -1)
        fits = n % rest == 0 if rest else n == 0
        if fits:
            shape[shape.index(-1)] = n // rest if rest else 0
    if not fits:
        raise RuntimeError(f"shape '{shape}' is invalid for input of size {n}")
    return Size(shape)


def as_sizes(sizes):
    """Sizes given one by one, or as one tuple."""
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    return tuple(int(size) for size in sizes)


def needs(name, argument, value):
    """Refuse a call without an argument, in PyTorch's words."""
    if value is None:
        raise TypeError(f'{name}() missing 1 required positional arguments: "{argument}"')
