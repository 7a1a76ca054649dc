"""Masks beyond the causal one, which the page deeper/04_mask_patterns derives."""

from functools import partial

import torch

from ..base.guards import check_int, check_tensor
from .fused import attention, merge_masks
from .masks import causal_mask

__all__ = [
    "sliding_window_mask",
    "masked_attention",
    "prefix_mask",
    "document_mask",
]


def sliding_window_mask(
    T: int,  # number of queries, 0 or more
    window: int,  # how many keys a query may attend to, its own included; 1 or more
    S: int | None = None,  # number of keys, 0 or more; T if left out
    device: torch.device | str | None = None,
) -> torch.Tensor:  # (1, 1, T, S), boolean, True = may attend
    "Each query may attend to its own position and the `window` - 1 before it."
    check_int("window", window)
    S = T if S is None else S
    past = causal_mask(T, S, device)  # (1, 1, T, S)
    return past & ~past.tril(S - T - window)  # what is past, but not too long past


def masked_attention(
    extra: torch.Tensor,  # True = may attend, or numbers to add; as for `attention`
    attend=attention,  # what is called with both masks
):  # a function that is called as `attention`
    "What a whole model attends by, so that each of its layers is under one more mask."
    return partial(_attend_masked, attend, extra)


def _attend_masked(attend, extra, q, k, v, mask=None, is_causal=False):
    return attend(q, k, v, merge_masks(mask, extra), is_causal)


def prefix_mask(
    T: int,  # number of queries and of keys, 0 or more
    prefix: int | torch.Tensor,  # positions open to every query, one number or (B,) integers
    device: torch.device | str | None = None,  # that of `prefix` if left out
) -> torch.Tensor:  # (1, 1, T, T) or (B, 1, T, T), boolean, True = may attend
    "Every query may attend to the first `prefix` positions, and to those up to its own."
    if isinstance(prefix, torch.Tensor):
        check_tensor("prefix", prefix, "B", int)
        device = prefix.device if device is None else device
    else:
        check_int("prefix", prefix, least=0)
    past = causal_mask(T, device=device)  # (1, 1, T, T)
    open_to_all = torch.as_tensor(prefix, device=device).reshape(-1, 1, 1, 1)  # (B, 1, 1, 1)
    return past | (torch.arange(T, device=device) < open_to_all)  # (B, 1, T, T)


def document_mask(
    documents: torch.Tensor,  # (B, T) integers, equal within a document, different across
) -> torch.Tensor:  # (B, 1, T, T), boolean, True = may attend
    "Every query may attend to the keys of its own document."
    check_tensor("documents", documents, "B T", int)
    return (documents[:, :, None] == documents[:, None, :])[:, None]  # (B, 1, T, T)
