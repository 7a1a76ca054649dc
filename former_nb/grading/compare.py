"Whether two values agree, to rounding."

import math
from fractions import Fraction

import torch

from .errors import clean_message


def same(a, b, near=1e-5):
    "Whether what an answer gave agrees with what the right one gave."
    if isinstance(a, BaseException) or isinstance(b, BaseException):
        return kind_of(a) == kind_of(b) and clean_message(a, 1000) == clean_message(b, 1000)
    if isinstance(b, float) and isinstance(a, torch.Tensor) and a.ndim == 0:
        a = a.item()
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return same_tensors(a.detach(), b.detach(), near)
    if isinstance(a, float) or isinstance(b, float):
        return same_floats(a, b, near)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(x, y, near) for x, y in zip(a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key], near) for key in a)
    return type(a) is type(b) and bool(a == b)


def kind_of(error):
    "The name of the type of what was raised; of anything else that of its own."
    return getattr(error, "kind", type(error).__name__)


def same_tensors(a, b, near):
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.equal(b):
        return True
    if not a.is_floating_point():
        return False
    if a.dtype == torch.float64 and near < 1e-4:
        near = min(near, 1e-9)
    largest = b.nan_to_num(0, 0, 0).abs().max().item() if b.numel() else 0.0
    bounds = dict(rtol=10 * near, atol=near * max(1.0, largest))
    return torch.allclose(a, b, **bounds, equal_nan=True)


def same_floats(a, b, near):
    if any(isinstance(x, bool) or not isinstance(x, (int, float)) for x in (a, b)):
        return False
    both_nan = a != a and b != b
    return both_nan or math.isclose(a, b, rel_tol=near, abs_tol=near / 10)


def agree(seen, right, near=1e-5):
    "Whether all that was seen of two answers agrees, gradients included."
    return like(seen, right, near) and same(seen.slopes, right.slopes, 10 * near)


def like(seen, right, near=1e-5):
    "Whether the values of two answers agree, or their errors."
    if seen.error or right.error:
        return same(seen.error, right.error)
    return same(seen.values, right.values, near)


# ---------------------------------------------------------------- answers to exercises


def loosened(value):
    """A result without what an exercise doesn't ask for: whether numbers are whole, and whether
    they stand in a tensor, a list or an array.

    A single number becomes a float, as does a fraction in quotes, numbers in a row become a tuple,
    tables of them a tensor.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        return value.float() if value.ndim > 1 else loosened(value.tolist())
    if isinstance(value, str):
        return fraction(value)
    if isinstance(value, (bool, int, float, Fraction)):
        return float(value)
    if type(value).__module__ == "numpy":
        return loosened(torch.as_tensor(value))
    if isinstance(value, (list, tuple)):
        return loosened_row([loosened(part) for part in value])
    return {key: loosened(part) for key, part in value.items()} if type(value) is dict else value


def loosened_row(parts):
    "A tensor where all parts are rows of as many numbers or tensors of one shape; else a tuple."
    first = parts[0] if parts else None
    if isinstance(first, torch.Tensor):
        if all(isinstance(part, torch.Tensor) and part.shape == first.shape for part in parts):
            return torch.stack(parts)
    if isinstance(first, tuple) and all(is_row(part) and len(part) == len(first) for part in parts):
        return torch.tensor(parts)
    return tuple(parts)


def is_row(value):
    return isinstance(value, tuple) and all(isinstance(part, float) for part in value)


def as_rows(value):
    "A tensor as a tuple of its rows; other values as they are."
    if not isinstance(value, torch.Tensor) or not value.ndim:
        return value
    return tuple(loosened(row) for row in value)


def fraction(text):
    "The number that a text such as '1/5' means; other texts as they are."
    try:
        return float(Fraction(text)) if "/" in text else text
    except (ValueError, ZeroDivisionError):
        return text
