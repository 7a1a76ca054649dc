"""`attention` by PyTorch's fused kernel: what the library calls, and the lessons derive.

It gives what `attention` of lesson 04 and 12 gives, takes masks of numbers and a `scale` as well,
and keeps no table of weights.
"""

from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from ..base.guards import check_attention
from .dot_product import repeat_kv

__all__ = [
    "attention",
    "attention_weights",
    "masked_softmax",
    "merge_masks",
    "full_mask",
]


def attention(
    q: torch.Tensor,  # (B, T, d_k), or (B, h, T, d_k) with heads
    k: torch.Tensor,  # (B, S, d_k) or (B, g, S, d_k), g divides h
    v: torch.Tensor,  # (B, S, d_v) or (B, g, S, d_v)
    mask: torch.Tensor | None = None,  # boolean or numbers to add; (T, S) or as many axes as q
    is_causal: bool = False,  # query i may attend to key j only if j <= i + S - T
    scale: float | None = None,  # factor of the scores; 1 / √d_k if left out
) -> torch.Tensor:  # (B, T, d_v) or (B, h, T, d_v)
    "`attention_weights(q, k) @ v` by PyTorch's fused kernel (Vaswani et al. 2017, equation 1)."
    check_attention(q, k, v, mask, scale)
    k, v = repeat_kv(k, q), repeat_kv(v, q)
    if mask is not None or q.shape[-2] != k.shape[-2]:  # the kernel would align it at the top left
        mask = full_mask(q, k, mask, is_causal)
        is_causal = False
    with masked_kernels(mask):  # zeros where nothing is allowed
        return F.scaled_dot_product_attention(q, k, v, mask, 0.0, is_causal, scale=scale)


def attention_weights(
    q: torch.Tensor,  # (B, T, d_k), or (B, h, T, d_k) with heads
    k: torch.Tensor,  # (B, S, d_k) or (B, g, S, d_k), g divides h
    mask: torch.Tensor | None = None,  # boolean or numbers to add; (T, S) or as many axes as q
    is_causal: bool = False,  # query i may attend to key j only if j <= i + S - T
    scale: float | None = None,  # factor of the scores; 1 / √d_k if left out
) -> torch.Tensor:  # (B, T, S) or (B, h, T, S)
    "How much each query attends to each key, the first half of `attention`."
    check_attention(q, k, k, mask, scale)
    k = repeat_kv(k, q)
    mask = full_mask(q, k, mask, is_causal)
    q_scaled = q / q.shape[-1] ** 0.5 if scale is None else q * scale
    scores = q_scaled @ k.mT  # (..., T, S)
    weights = scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)
    return weights.to(q.dtype)


def masked_softmax(
    scores: torch.Tensor,  # (..., T, S)
    mask: torch.Tensor,  # True = may attend, or numbers to add
) -> torch.Tensor:  # (..., T, S); a row sums to 1, or to 0 if nothing is allowed
    "Softmax over the keys that `mask` allows."
    if mask.dtype == torch.bool:
        scores = scores.masked_fill(~mask, float("-inf"))
    else:  # in float32 at least, since a sum in float16 could overflow
        scores = scores + mask.to(torch.promote_types(mask.dtype, torch.float32))
    empty = (scores == float("-inf")).all(dim=-1, keepdim=True)  # (..., T, 1)
    return scores.masked_fill(empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)


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
