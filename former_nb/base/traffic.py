"""Bytes and operations, counted while they happen, and the FLOPs of attention."""

from math import prod

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

__all__ = [
    "attention_flops",
    "Traffic",
]


def attention_flops(
    q: torch.Size,  # (B, h, T, d_k)
    k: torch.Size,  # (B, h, S, d_k)
    v: torch.Size,  # (B, h, S, d_v)
    *args,  # what else a kernel takes
    **kwargs,
) -> int:  # multiplications and additions
    "The FLOPs of the scores and of the sums of values, as PyTorch's `FlopCounterMode` asks."
    return 2 * q[:-1].numel() * k[-2] * (q[-1] + v[-1])


def _memory(tensor):
    "Bytes behind a tensor; an axis that was expanded (stride 0) repeats what is there."
    sizes = zip(tensor.shape, tensor.stride())
    return tensor.element_size() * prod(n for n, stride in sizes if stride or n == 0)


class Traffic(TorchDispatchMode):
    """Within `with`, add up the bytes that operations read and write, as if no cache kept any.

    A view moves nothing and is no operation here.
    """

    def __init__(self):
        super().__init__()
        self.n_bytes = 0
        self.operations = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if not (func.is_view or func is torch.ops.aten._unsafe_view.default):
            leaves = tree_leaves((args, kwargs, out))
            self.n_bytes += sum(_memory(t) for t in leaves if isinstance(t, torch.Tensor))
            self.operations += 1
        return out
