"""What the pages use of `torch.testing`."""

from ._tensor import Tensor, as_tensor
from ._types import float64

TOLERANCES = {"float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def assert_close(actual, expected, rtol=None, atol=None, check_dtype=True, msg=None):
    """Raise `AssertionError` unless two tensors agree in shape, type and numbers."""
    if not isinstance(actual, Tensor):
        actual, check_dtype = as_tensor(actual), False
    if not isinstance(expected, Tensor):
        expected, check_dtype = as_tensor(expected), False
    if actual.shape != expected.shape:
        raise AssertionError(
            f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}."
        )
    if check_dtype and actual.dtype is not expected.dtype:
        raise AssertionError(
            f"The values for attribute 'dtype' do not match: {actual.dtype} != {expected.dtype}."
        )
    default = TOLERANCES.get(actual.dtype.name, (0.0, 0.0))
    rtol = default[0] if rtol is None else rtol
    atol = default[1] if atol is None else atol
    actual, expected = actual.to(float64), expected.to(float64)
    close = actual.isclose(expected, rtol, atol)
    if not close.all():
        wrong = close.numel() - int(close.sum())
        furthest = (actual - expected).abs().max().item()
        raise AssertionError(
            "Tensor-likes are not close!\n\n"
            f"Mismatched elements: {wrong} / {close.numel()} ({wrong / close.numel():.1%})\n"
            f"Greatest absolute difference: {furthest}"
        )
