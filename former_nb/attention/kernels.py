"""What `attention` asks of PyTorch: one mask made of many, heads that share keys, and the kernels
that are right and fast on each device."""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

__all__ = [
    "merge_masks",
    "repeat_kv",
    "full_mask",
    "masked_kernels",
]


def merge_masks(
    a: torch.Tensor | None,  # boolean or floating point; None allows everything
    b: torch.Tensor | None,  # the same, broadcastable with a
) -> torch.Tensor | None:  # boolean if both are, else floating point
    "One mask for two: a pair may meet if both allow it, and biases add up."
    if a is None or b is None:
        return b if a is None else a
    if a.dtype == torch.bool:
        return a & b if b.dtype == torch.bool else b.masked_fill(~a, float("-inf"))
    return a.masked_fill(~b, float("-inf")) if b.dtype == torch.bool else a + b


def repeat_kv(
    t: torch.Tensor,  # keys or values, (B, g, S, d)
    q: torch.Tensor,  # (B, h, T, d_k); h is a multiple of g
) -> torch.Tensor:  # (B, h, S, d)
    "Keys or values for each head of `q`, where several heads share them; else `t` as it is."
    if t.ndim != 4 or q.ndim != 4 or t.shape[1] == 0 or t.shape[1] == q.shape[1]:
        return t
    shared = q.shape[1] // t.shape[1]  # heads of queries that share one of keys and values
    return t.repeat_interleave(shared, dim=1) if shared > 1 else t


def full_mask(
    q: torch.Tensor,  # (..., T, d_k)
    k: torch.Tensor,  # (..., S, d_k)
    mask: torch.Tensor | None,  # boolean or floating point; (T, S) or as many axes as q
    is_causal: bool,  # query i may attend to key j only if j <= i + S - T
) -> torch.Tensor | None:  # the mask with that rule in it, numbers in the type of q
    """The one mask that `attention` lays over its scores. None allows everything.

    Several rules can hold at once, such as padding, the past only, and a bias for the distance, and
    the kernels take a single mask.
    """
    T, S = q.shape[-2], k.shape[-2]
    if is_causal and T > 1:  # a single query stands last and may attend to every key
        past = torch.ones(T, S, dtype=torch.bool, device=q.device).tril(S - T)  # (T, S)
        mask = merge_masks(mask, past)
    return mask.to(q.dtype) if mask is not None and mask.is_floating_point() else mask


class ShortRowsInFloat32(TorchFunctionMode):
    """Within `with`, `F.scaled_dot_product_attention` computes short rows in float32.

    For bf16 autocast on a CPU. Its fused kernel takes longer backwards in bf16 than in float32
    where rows are short: 5.6 times as long at 64 tokens on a CPU without AMX. What comes out is
    rounded to bf16, as by the kernel.
    """

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is not F.scaled_dot_product_attention or not is_short(args[0]):
            return function(*args, **kwargs)
        q, k, v, mask, *rest = args  # as `attention` calls it
        if mask is not None and mask.is_floating_point():
            mask = mask.float()
        with torch.autocast("cpu", enabled=False):  # it would cast all of them back
            y = function(q.float(), k.float(), v.float(), mask, *rest, **kwargs)
        return y.to(torch.bfloat16)


def is_short(
    q: torch.Tensor,  # (..., T, d_k), under bf16 autocast on a CPU
) -> bool:
    """Whether forward and backward of the fused kernel take longer in bf16 than in float32.

    Measured in turns with AMX, which multiplies in bf16 the faster the wider a head is. Float32
    took .29 to .89 of the time with a width of 32 at 32 to 384 tokens, .63 and .81 with one of 64
    at 128 and 191, but 1.05 to 1.24 at 192 to 256.
    """
    if q.dtype == torch.float64:  # which autocast leaves alone
        return False
    T, d_k = q.shape[-2:]
    if torch.cpu._is_amx_tile_supported():
        return T * d_k <= 12_288
    return T < 512


def masked_kernels(
    mask: torch.Tensor | None,  # of `F.scaled_dot_product_attention`
):  # a context
    """Within `with`, the kernels of `F.scaled_dot_product_attention` that are right and fast.

    They give zeros to a query that may attend to nothing, with one exception. On recent GPUs
    PyTorch prefers the kernel of cuDNN in half precision, and that one gives another row there: on
    an H100 with PyTorch 2.11, a batch whose first text was all padding was off by 83 to 88 % of its
    norm, and the gradient of the queries was NaN at 64 tokens. So a mask on a GPU keeps to the
    other kernels. They are as fast up to some hundred tokens, and take three times as long at
    2,048.

    Who trains in bf16 autocast on a CPU gets `ShortRowsInFloat32`.
    """
    if mask is not None and mask.is_cuda:
        return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    if torch.is_autocast_enabled("cpu") and torch.is_grad_enabled():
        if torch.get_autocast_dtype("cpu") == torch.bfloat16 and not torch.compiler.is_compiling():
            return ShortRowsInFloat32()
    return nullcontext()
