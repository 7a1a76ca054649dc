"""A small part of PyTorch in plain Python, for exercises that are checked in the browser.

It holds what those pages, their judges and likely answers use, and speaks as PyTorch does where
something does not fit. There are gradients, but none of gradients; there is no other device, and no
complex numbers. Where a page of the course runs on a machine, it uses PyTorch itself.
"""

from math import inf, nan, pi

from . import _random as random
from . import linalg
from ._arithmetic import ASKING, FLOATING, KEEPING, SYNONYMS
from ._make import (
    arange,
    block_diag,
    broadcast_tensors,
    broadcast_to,
    cat,
    cdist,
    concat,
    concatenate,
    einsum,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    hstack,
    linspace,
    meshgrid,
    ones,
    ones_like,
    outer,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    randperm,
    stack,
    vstack,
    zeros,
    zeros_like,
)
from ._random import Generator, manual_seed
from ._rules import has_rule, install
from ._shapes import Size
from ._tape import enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled
from ._tensor import (
    Tensor,
    absent,
    as_tensor,
    device,
    tensor,
    where,
)
from ._types import (
    EPSILON,
    bfloat16,
    dtype,
    float16,
    float32,
    float64,
    int32,
    int64,
    promote_types,
    result_type,
)
from ._types import bool_ as bool

__version__ = "2.13.0"
double, float, int, long, half = float64, float32, int32, int64, float16


class SymInt:
    """A size that `torch.export` leaves open; there is none here."""


class cuda:
    """No graphics card."""

    @staticmethod
    def is_available():
        return False


class backends:
    """Other places to compute on; there are none here."""

    mps = cuda


class compiler:
    """Nothing is compiled."""

    @staticmethod
    def is_compiling():
        return False


def get_default_device():
    """The CPU."""
    return device("cpu")


def set_default_device(name):
    """The CPU stays where everything is."""


def set_printoptions(**options):
    """Numbers are printed as ever."""


def is_autocast_enabled(kind="cpu"):
    """Whether products are computed in another type; here never."""
    return False


def is_tensor(value):
    """Whether this is a tensor."""
    return isinstance(value, Tensor)


def finfo(kind=float32):
    """The range of a type of floating point numbers."""
    largest = 3.4028234663852886e38 if kind is float32 else 1.7976931348623157e308
    smallest = 1.1754943508222875e-38 if kind is float32 else 2.2250738585072014e-308

    class Range:
        eps, max, min = EPSILON[kind], largest, -largest
        tiny = smallest_normal = smallest

    return Range


# ---------------------------------------------------------------- methods as functions

METHODS = """
abs all allclose amax amin any argmax argmin argsort bmm chunk clamp clip clone count_nonzero
cumprod cumsum diag diag_embed diagonal diff dot equal flatten flip gather index_select isclose
log_softmax logsumexp masked_fill matmul max maximum mean median min minimum mm moveaxis movedim
multinomial mv narrow nonzero norm numel permute pow prod ravel repeat_interleave reshape roll
round scatter select softmax sort split squeeze std sum swapaxes swapdims t take_along_dim tile
topk transpose tril triu unbind unflatten unique unsqueeze var nan_to_num xlogy
""".split()


def as_function(name):
    """A method of tensors as a function whose first argument is the tensor."""
    method = getattr(Tensor, name)

    def function(input, *args, **options):
        options.pop("out", None)
        if not isinstance(input, Tensor):
            came = type(input).__name__
            raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {came}")
        result = method(input, *args, **options)
        if result is NotImplemented:
            came = type(args[0]).__name__
            raise TypeError(f"{name}(): argument 'other' (position 2) must be Tensor, not {came}")
        return result

    function.__name__ = name
    function.__doc__ = method.__doc__
    return function


install()
for name in [*METHODS, *FLOATING, *KEEPING, *ASKING, *SYNONYMS]:
    globals()[name] = as_function(name)
del name

from . import autograd, nn, optim, special, testing  # noqa: E402, they need what is above

__getattr__ = absent("torch")
