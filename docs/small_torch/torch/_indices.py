"""Square brackets behind a tensor."""

from math import prod

from . import _tensor
from ._shapes import Size, axis_number, broadcast, places
from ._tape import overwritten, taken
from ._types import bool_, convert


class Indices:
    """What an index picks from a tensor, and what is written there."""

    def pick(self, index):
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
        before = rest[:cut]
        after = rest[cut:]
        before_sizes = [view.shape[axis] for axis in before]
        after_sizes = [view.shape[axis] for axis in after]
        starts = places(before_sizes, [view.strides[axis] for axis in before], view.offset)
        ends = places(after_sizes, [view.strides[axis] for axis in after])
        every = [start + step + end for start in starts for step in steps for end in ends]
        return None, every, Size([*before_sizes, *shape, *after_sizes])

    def __getitem__(self, index):
        view, every, shape = self.pick(index)
        if view is not None:
            return view
        return taken(self.base, every, shape)

    def __setitem__(self, index, value):
        view, every, shape = self.pick(index)
        value = _tensor.as_tensor(value)
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
        overwritten(self, value, every, shape)
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
        every = []
        for start, i in zip(places(index.shape, strides, self.offset), index.flat()):
            if not 0 <= i < self.shape[axis]:
                raise RuntimeError(
                    f"index {i} is out of bounds for dimension {axis} with size {self.shape[axis]}"
                )
            every.append(start + i * step)
        return taken(self.base, every, index.shape)

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
        values = _tensor.as_tensor(src, self.dtype).expand(index.shape).flat()
        for start, i, value in zip(places(index.shape, strides), index.flat(), values):
            result.numbers[start + i * result.strides[axis]] = value
        return result


def take_slices(t, index):
    """The view that whole numbers, slices and None of an index make, and what tensors are left.

    Those are pairs: an axis of the view, and a tensor of whole numbers.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    lists = (list, tuple, range)
    parts = [_tensor.tensor(part) if isinstance(part, lists) else part for part in parts]
    used = sum(part.ndim if is_mask(part) else 1 for part in parts if part not in (None, ...))
    if used > t.ndim:
        raise IndexError(f"too many indices for tensor of dimension {t.ndim}")
    if not any(part is ... for part in parts):
        parts.append(...)
    shape = []
    strides = []
    picked = []  # an axis of the view, and the tensor that picks from it
    offset = t.offset
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
        size = t.shape[axis]
        stride = t.strides[axis]
        if isinstance(part, slice):
            start, stop, step = part.indices(size)
            if step < 1:
                raise ValueError("step must be greater than zero")
            shape.append(max(0, -(-(stop - start) // step)))
            strides.append(stride * step)
            offset += start * stride
        elif isinstance(part, _tensor.Tensor) and part.ndim:
            if part.dtype.kind != 1:
                raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
            picked.append((len(shape), part))
            shape.append(size)
            strides.append(stride)
        elif isinstance(part, int) or isinstance(part, _tensor.Tensor) and part.dtype.kind == 1:
            i = int(part)
            if not -size <= i < size:
                raise IndexError(
                    f"index {i} is out of bounds for dimension {axis} with size {size}"
                )
            offset += i % size * stride
        elif isinstance(part, _tensor.Tensor):
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
    return isinstance(part, _tensor.Tensor) and part.dtype is bool_ and part.ndim > 0
