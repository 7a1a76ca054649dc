"""A tensor: a flat list of numbers, a shape, and strides that say where each number is.

`transpose`, slices and `expand` share the list and change the strides, as in PyTorch, so what is
written into one is seen in the other.
"""

from math import prod

from ._arithmetic import IN_PLACE, Arithmetic
from ._axes import Axes
from ._indices import Indices
from ._products import Products
from ._random import default_generator
from ._reductions import Reductions
from ._shapes import Size, as_sizes, axis_number, broadcast, contiguous_strides, places
from ._show import show
from ._tape import Node, backward, overwritten, write_down
from ._types import (
    bfloat16,
    bool_,
    convert,
    float16,
    float32,
    float64,
    int32,
    int64,
    promote_types,
    result_type,
)

TYPES = (bool_, int32, int64, float16, bfloat16, float32, float64)
LARGEST = 5_000_000  # numbers in a tensor; more would take minutes here
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


def is_number(value):
    """Whether this is a number of Python."""
    return isinstance(value, bool | int | float)


class Tensor(Arithmetic, Reductions, Axes, Products, Indices):
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
        self.shown = None  # the tensor that a view shows a part of
        self.node = None  # on the tape; see `_tape.py`
        self.version = 0  # how often its numbers were written over

    @property
    def base(self):
        """The tensor that a view shows a part of; any other is its own."""
        return self if self.shown is None else self.shown

    @property
    def _version(self):
        """How often the numbers were written over, through any view of them."""
        return self.base.version

    @property
    def requires_grad(self):
        """Whether gradients are wanted."""
        return self.base.node is not None

    @requires_grad.setter
    def requires_grad(self, wanted):
        if not self.is_leaf:
            if wanted:
                return
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if wanted and self.dtype.kind < 2:
            raise RuntimeError(
                "only Tensors of floating point and complex dtype can require gradients"
            )
        self.shown = None  # a leaf is its own base, even if it shares numbers
        self.node = Node("AccumulateGrad", leaf=self) if wanted else None

    @property
    def is_leaf(self):
        """Whether the tape begins here, or this is not on it."""
        node = self.base.node
        return node is None or node.leaf is self

    @property
    def grad_fn(self):
        """Where this comes from on the tape; None for a leaf."""
        return None if self.is_leaf else self.base.node

    @property
    def data(self):
        """The same numbers without gradients."""
        return self.detach()

    @data.setter
    def data(self, other):
        self.numbers = other.numbers
        self.shape = other.shape
        self.dtype = other.dtype
        self.strides = other.strides
        self.offset = other.offset

    def is_whole(self):
        """Whether this shows all numbers of its list, in order."""
        return len(self.numbers) == self.numel() and self.is_contiguous()

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
        view.shown = self.base
        return view

    def made(self, values, shape=None, dtype=None):
        """A new tensor of these values, rounded to its type."""
        dtype = dtype or self.dtype
        shape = self.shape if shape is None else shape
        return Tensor(convert(values, dtype), shape, dtype)

    def write(self, values, source=None):
        """Write values into this tensor, in order; `source` is the tensor that they come from."""
        overwritten(self, source)
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
        return self.write(result.flat(), result)

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
        return all(n == 1 or a == b for n, a, b in zip(self.shape, self.strides, in_order))

    def is_floating_point(self):
        """Whether these are floating point numbers."""
        return self.dtype.is_floating_point

    def is_complex(self):
        """Never; complex numbers are left out."""
        return False

    def is_inference(self):
        """Never; `inference_mode` is `no_grad` here."""
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
        return self.cast(dtype)

    def cast(self, dtype):
        """The same numbers in another type."""
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
        return Tensor(self.numbers, self.shape, self.dtype, self.strides, self.offset)

    def contiguous(self):
        """The numbers in order."""
        return self if self.is_contiguous() else self.clone()

    def requires_grad_(self, requires_grad=True):
        """Note whether gradients are wanted."""
        self.requires_grad = requires_grad
        return self

    def retain_grad(self):
        """Keep the gradient of a result, too."""
        node = self.base.node
        if node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        node.kept_by = self

    backward = backward

    def copy_(self, other):
        """Write another tensor's numbers into this one."""
        other = as_tensor(other)
        return self.write(other.expand(self.shape).flat(), other)

    def fill_(self, value):
        """Write one number everywhere."""
        return self.write([as_tensor(value).item()] * self.numel())

    def zero_(self):
        """Write zeros."""
        return self.fill_(0)

    def new_zeros(self, *sizes, dtype=None, device=None):
        """Zeros of the same type."""
        shape = as_sizes(sizes)
        return self.made([0] * prod(shape), shape, dtype)

    new_empty = new_zeros

    def new_ones(self, *sizes, dtype=None, device=None):
        """Ones of the same type."""
        return self.new_zeros(*sizes, dtype=dtype).fill_(1)

    def new_full(self, size, fill_value, dtype=None, device=None):
        """One number everywhere, of the same type."""
        return self.new_zeros(*size, dtype=dtype).fill_(fill_value)

    def new_tensor(self, values):
        """Values of the same type."""
        return as_tensor(values).to(self.dtype)

    # -------------------------------------------------------- random numbers

    def normal_(self, mean=0.0, std=1.0, generator=None):
        """Write normal random numbers."""
        source = generator or default_generator
        drawn = source.normal_numbers(self.numel(), self.dtype is float64)
        return self.write([mean + std * number for number in drawn])

    def uniform_(self, low=0.0, high=1.0, generator=None):
        """Write random numbers from a range."""
        source = generator or default_generator
        double = self.dtype is float64
        return self.write(
            [low + (high - low) * source.uniform(double) for _ in range(self.numel())]
        )

    def multinomial(self, num_samples, replacement=False, generator=None):
        """Places drawn by their weights, for each row; which ones PyTorch draws otherwise."""
        if self.dtype.kind < 2:
            title = self.dtype.title
            raise RuntimeError(
                f"multinomial only supports floating-point dtypes for input, got: {title}"
            )
        if self.ndim not in (1, 2):
            raise RuntimeError("prob_dist must be 1 or 2 dim")
        if not replacement and num_samples > self.shape[-1]:
            raise RuntimeError(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement"
            )
        if not bool(((self >= 0) & self.isfinite()).all()):
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if not bool((self.sum(-1) > 0).all()):
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
        rounds = num_samples if replacement else 1
        drawn = []
        for _ in range(rounds):  # the first of clocks that ring at these rates, or the first few
            clocks = self.detach().double() * 0
            times = -(-clocks.uniform_(0, 1, generator)).log1p()
            first = (times / self.detach()).argsort(-1)
            drawn.append(first.narrow(-1, 0, 1 if replacement else num_samples))
        shape = (*self.shape[:-1], num_samples)
        rows = zip(*(part.reshape(-1, part.shape[-1]).tolist() for part in drawn))
        return Tensor([place for row in rows for part in row for place in part], shape, int64)


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
    result = a.made([x if true else y for true, x, y in parts], shape, dtype)

    def back(g):
        return g.masked_fill(~condition, 0.0), g.masked_fill(condition, 0.0)

    return write_down(result, "WhereBackward0", [a, b], back, [condition])


def tensor(data, dtype=None, device=None, requires_grad=False):
    """A tensor of nested lists of numbers, or of one number."""
    result = as_tensor(data, dtype).clone()
    result.requires_grad = requires_grad
    return result


def as_tensor(data, dtype=None, device=None):
    """A tensor as it is, or a tensor of nested lists."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    if isinstance(data, str) and dtype is None:
        raise TypeError("new(): invalid data type 'str'")
    values, shape = [], []
    flatten_lists(data, 0, values, shape, dtype)
    if dtype is None:
        dtype = float32 if not values else None
        for value in values:
            kind = value.dtype if isinstance(value, Tensor) else result_type(value)
            dtype = kind if dtype is None else promote_types(dtype, kind)
    values = [value.item() if isinstance(value, Tensor) else value for value in values]
    return Tensor(convert(values, dtype), shape, dtype)


def flatten_lists(data, depth, values, shape, dtype=None):
    """Collect the numbers of nested lists in `values` and their sizes in `shape`.

    PyTorch names what is no number in other words where a type is asked for.
    """
    if isinstance(data, list | tuple | range):
        if len(shape) == depth:
            shape.append(len(data))
        if len(data) != shape[depth]:
            raise ValueError(
                f"expected sequence of length {shape[depth]} at dim {depth} (got {len(data)})"
            )
        for part in data:
            flatten_lists(part, depth + 1, values, shape, dtype)
        return
    if isinstance(data, Tensor) and data.numel() != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    if dtype is not None and isinstance(data, str):
        raise TypeError("new(): invalid data type 'str'")
    if dtype is not None and not isinstance(data, Tensor) and not is_number(data):
        raise TypeError(f"must be real number, not {type(data).__name__}")
    if isinstance(data, str):
        raise ValueError(f"too many dimensions '{type(data).__name__}'")
    if not isinstance(data, Tensor) and not is_number(data):
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if len(shape) != depth:
        raise ValueError(f"expected sequence of length {shape[depth]} at dim {depth} (got 0)")
    values.append(data)
