"""The axes of a tensor: moved, cut, joined and repeated."""

from math import prod

from . import _tensor
from ._shapes import as_sizes, axis_number, axis_numbers, contiguous_strides, filled_in, needs
from ._types import bool_, int64


class Axes:
    """What a tensor does with its axes."""

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
            return self.clone().view_with(shape, contiguous_strides(shape))
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
        rows = self.shape[first]
        columns = self.shape[second]
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
        return _tensor.where(_tensor.Tensor(mask, (rows, columns), bool_), self, self.new_zeros(()))

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
        n = self.shape[axis]
        sizes = split_size_or_sections
        if isinstance(sizes, int):
            step = sizes
            sizes = [min(step, n - start) for start in range(0, max(n, 1), step)]
        parts = []
        start = 0
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
        places = [i for i, n in enumerate(times) for _ in range(n)]
        return self.index_select(dim, _tensor.as_tensor(places, int64))
