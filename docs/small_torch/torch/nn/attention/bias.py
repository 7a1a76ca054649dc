"""Masks that PyTorch knows by name."""

from ..._tensor import Tensor
from ..._types import bool_


def causal_lower_right(T, S):
    """Query i may attend to key j only if j <= i + S - T."""
    past = [j <= i + S - T for i in range(T) for j in range(S)]
    return Tensor(past, (T, S), bool_)
