"""Bytes and operations, counted while they happen, and the FLOPs of attention."""

from contextlib import nullcontext
from math import prod
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode

__all__ = [
    "ATTENTION_KERNELS",
    "count_flops",
    "short_number",
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


def _attention_backward_flops(grad, q, k, v, *args, **kwargs):
    products = 3 * q[-1] + 2 * v[-1]  # the scores once more, and four products
    return 2 * q[:-1].numel() * k[-2] * products


def _attention_kernels():
    "Operation -> what counts its FLOPs."
    aten = torch.ops.aten
    counted = {
        "flash_attention_for_cpu": attention_flops,
        "flash_attention_for_cpu_backward": _attention_backward_flops,
        "attention_math_for_mps": attention_flops,
    }
    kernels = {}
    for name, count in counted.items():
        if hasattr(aten, f"_scaled_dot_product_{name}"):  # each version of PyTorch has its own
            kernels[getattr(aten, f"_scaled_dot_product_{name}")] = count
    return kernels


ATTENTION_KERNELS: dict = _attention_kernels()  # PyTorch counts those of CUDA itself


def count_flops() -> FlopCounterMode:  # a context; `get_total_flops()` says how many so far
    "PyTorch's counter without its record of modules, which keeps what backward computes again."
    counter: Any = FlopCounterMode(display=False, custom_mapping=ATTENTION_KERNELS)
    counter.mod_tracker = nullcontext()
    counter.mod_tracker.parents = {"Global"}
    return counter


def short_number(
    n: float,
    unit: str = "",  # such as 'B' for bytes
) -> str:  # such as '1.23 kB'
    "A number with three digits and a prefix."
    prefixes = ["", "k", "M", "G", "T", "P"]
    power = 0
    while n >= 1000 and power < len(prefixes) - 1:
        n = n / 1000
        power += 1
    decimals = max(0, 3 - len(str(int(n))))
    return f"{n:.{decimals}f} {prefixes[power]}{unit}"


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
