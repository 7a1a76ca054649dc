"""New tensors, and functions of several tensors."""

import math
from math import prod

from ._numbers import divide
from ._random import default_generator
from ._shapes import as_sizes, axis_number, broadcast
from ._tape import no_grad, write_down
from ._tensor import Tensor, as_tensor, check_size, tensor
from ._types import convert, float32, int64, promote_types, result_type


def full(size, fill_value, dtype=None, device=None, requires_grad=False):
    """One number everywhere."""
    size = as_sizes([size])
    check_size(size)
    if min(size, default=0) < 0:
        raise RuntimeError("zeros: Dimension size must be non-negative.")
    value = as_tensor(fill_value, dtype)
    result = Tensor([value.item()] * prod(size), size, value.dtype)
    result.requires_grad = requires_grad
    return result


def zeros(*size, dtype=None, device=None, requires_grad=False):
    """Zeros."""
    return full(as_sizes(size), 0, dtype or float32, requires_grad=requires_grad)


def ones(*size, dtype=None, device=None, requires_grad=False):
    """Ones."""
    return full(as_sizes(size), 1, dtype or float32, requires_grad=requires_grad)


empty = zeros


def zeros_like(input, dtype=None, device=None):
    """Zeros in the shape of another tensor."""
    return zeros(input.shape, dtype=dtype or input.dtype)


def ones_like(input, dtype=None, device=None):
    """Ones in the shape of another tensor."""
    return ones(input.shape, dtype=dtype or input.dtype)


def full_like(input, fill_value, dtype=None, device=None):
    """One number in the shape of another tensor."""
    return full(input.shape, fill_value, dtype or input.dtype)


empty_like = zeros_like


def arange(start, end=None, step=1, dtype=None, device=None):
    """Numbers from `start` to before `end`."""
    if end is None:
        start, end = 0, start
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    n = max(0, math.ceil((end - start) / step))
    values = [start + i * step for i in range(n)]
    return Tensor(
        convert(values, dtype or result_type(start, end, step)),
        (n,),
        dtype or result_type(start, end, step),
    )


def linspace(start, end, steps, dtype=None, device=None):
    """Numbers from `start` to `end`, all as far apart."""
    values = [start + (end - start) * divide(i, max(steps - 1, 1)) for i in range(steps)]
    return tensor(values, dtype or float32)


def eye(n, m=None, dtype=None, device=None):
    """Ones on the diagonal, zeros elsewhere."""
    result = zeros(n, n if m is None else m, dtype=dtype)
    result.diagonal().fill_(1)
    return result


def randn(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Normal random numbers."""
    result = zeros(*size, dtype=dtype).normal_(generator=generator)
    result.requires_grad = requires_grad
    return result


def rand(*size, generator=None, dtype=None, device=None, requires_grad=False):
    """Random numbers from 0 to 1."""
    result = zeros(*size, dtype=dtype).uniform_(generator=generator)
    result.requires_grad = requires_grad
    return result


def randn_like(input, dtype=None, device=None):
    """Normal random numbers in the shape of another tensor."""
    return randn(input.shape, dtype=dtype or input.dtype)


def rand_like(input, dtype=None, device=None):
    """Random numbers from 0 to 1 in the shape of another tensor."""
    return rand(input.shape, dtype=dtype or input.dtype)


def randperm(n, generator=None, device=None):
    """The numbers from 0 to n - 1 in a random order."""
    source = generator or default_generator
    values = list(range(n))
    for i in range(n - 1):
        other = i + source.integer(0, n - i)
        values[i], values[other] = values[other], values[i]
    return Tensor(values, (n,), int64)


def randint(low, high, size=None, generator=None, dtype=int64, device=None):
    """Random whole numbers from `low` to `high` - 1."""
    if size is None:
        low, high, size = 0, low, high
    source = generator or default_generator
    values = [source.integer(low, high) for _ in range(prod(size))]
    return Tensor(convert(values, dtype), size, dtype)


# ---------------------------------------------------------------- several tensors


def check_list(name, tensors):
    """Refuse what is no list of tensors, in PyTorch's words."""
    if not isinstance(tensors, tuple | list):
        came = type(tensors).__name__
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not {came}"
        )
    for i, t in enumerate(tensors):
        if not isinstance(t, Tensor):
            came = type(t).__name__
            raise TypeError(f"expected Tensor as element {i} in argument 0, but got {came}")


def cat(tensors, dim=0, axis=None):
    """Tensors side by side on an axis that they have."""
    check_list("cat", tensors)
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    place = axis_number(dim if axis is None else axis, first.ndim)
    kind = first.dtype
    for i, t in enumerate(tensors):
        kind = promote_types(kind, t.dtype)
        if t.ndim != first.ndim:
            raise RuntimeError(
                f"Tensors must have same number of dimensions: got {first.ndim} and {t.ndim}"
            )
        for a, (expected, came) in enumerate(zip(first.shape, t.shape)):
            if a != place and expected != came:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {place}. Expected size "
                    f"{expected} but got size {came} for tensor number {i} in the list."
                )
    shape = list(first.shape)
    shape[place] = sum(t.shape[place] for t in tensors)
    result = zeros(shape, dtype=kind)
    sizes = [t.shape[place] for t in tensors]
    start = 0
    with no_grad():
        for t, size in zip(tensors, sizes):
            result.narrow(place, start, size).copy_(t)
            start += size
    return write_down(result, "CatBackward0", tensors, lambda g: g.split(sizes, place))


concat = concatenate = cat


def stack(tensors, dim=0):
    """Tensors of one shape, on a new axis."""
    check_list("stack", tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise RuntimeError(
                "stack expects each tensor to be equal size, but got "
                f"{list(tensors[0].shape)} at entry 0 and {list(t.shape)} at entry {i}"
            )
    return cat([t.unsqueeze(dim) for t in tensors], dim)


def vstack(tensors):
    """Rows below each other."""
    return cat([t if t.ndim > 1 else t[None] for t in tensors])


def hstack(tensors):
    """Columns beside each other."""
    return cat(tensors, 0 if tensors[0].ndim < 2 else 1)


def block_diag(*tensors):
    """Matrices on the diagonal of a large one."""
    blocks = [t.reshape(1, -1) if t.ndim < 2 else t for t in tensors]
    result = zeros(sum(b.shape[0] for b in blocks), sum(b.shape[1] for b in blocks))
    row = column = 0
    for block in blocks:
        result[row : row + block.shape[0], column : column + block.shape[1]] = block
        row += block.shape[0]
        column += block.shape[1]
    return result


def broadcast_tensors(*tensors):
    """Tensors in the shape that they make together."""
    shape = ()
    for t in tensors:
        shape = broadcast(shape, t.shape)
    return tuple(t.expand(shape) for t in tensors)


DOTS = "αβγδεζηθ"  # letters for the axes that `...` stands for, the last axis first


def without_dots(terms, operands):
    """Terms with a letter for each axis that `...` stands for, and all of these letters."""
    most, spelled = "", []
    for term, operand in zip(terms, operands):
        letters = DOTS[: max(0, operand.ndim - len(term) + 3)][::-1] if "..." in term else ""
        spelled.append(term.replace("...", letters))
        most = max(most, letters, key=len)
    return spelled, most


def einsum(equation, *operands):
    """Products summed over the letters that the result lacks."""
    if len(operands) == 1 and isinstance(operands[0], list | tuple):
        operands = operands[0]
    left, arrow, output = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(
            "einsum(): the number of subscripts in the equation does not match the number of "
            "operands"
        )
    terms, dots = without_dots(terms, operands)
    if not arrow:
        once = set(left) - set(",.")
        output = "..." + "".join(sorted(letter for letter in once if left.count(letter) == 1))
    output = output.replace("...", dots)
    sizes = {}
    for i, (term, operand) in enumerate(zip(terms, operands)):
        if len(term) != operand.ndim:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({len(term)}) does not match "
                f"the number of dimensions ({operand.ndim}) for operand {i} and no ellipsis was "
                "given"
            )
        for letter, size in zip(term, operand.shape):
            if 1 in (size, sizes.get(letter)):  # an axis of size 1 fits all
                sizes[letter] = max(size, sizes.get(letter, 1))
            elif sizes.setdefault(letter, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {letter} has size {size} for operand {i} which does not "
                    f"broadcast with previously seen size {sizes[letter]}"
                )
    for letter in output:
        if letter not in sizes:
            raise RuntimeError(
                f"einsum(): output subscript {letter} does not appear in the equation for any "
                "input operand"
            )
    summed = [letter for letter in sizes if letter not in output]
    letters = [*output, *summed]
    product = None
    for term, operand in zip(terms, operands):
        strides = dict.fromkeys(letters, 0)
        for letter, size, stride in zip(term, operand.shape, operand.strides):
            strides[letter] += stride if size == sizes[letter] else 0
        shape = [sizes[letter] for letter in letters]
        spread = operand.view_with(shape, [strides[letter] for letter in letters])
        product = spread if product is None else product * spread
    if not summed:
        return product.clone()
    return product.sum(list(range(len(output), len(letters))))


def cdist(a, b):
    """The distance of each row of `a` from each row of `b`."""
    return (a[..., :, None, :] - b[..., None, :, :]).norm(dim=-1)


def outer(a, b):
    """Each number of a vector times each of another one."""
    return a.outer(b)


def meshgrid(*tensors, indexing="ij"):
    """Tables that say in which row and in which column one is."""
    rows, columns = tensors
    shape = (len(rows), len(columns))
    return rows[:, None].expand(shape), columns.expand(shape)


def broadcast_to(input, shape):
    """As large as asked for, without a copy."""
    return input.expand(shape)
