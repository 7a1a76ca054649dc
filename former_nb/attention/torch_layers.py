"""Our attention layer with the weights of PyTorch's, and back."""

import torch
from torch import nn

from ..base.guards import check_that, check_type
from .multi_head import MultiHeadAttention

__all__ = ["mha_from_torch", "mha_to_torch"]


@torch.no_grad()
def mha_from_torch(
    theirs: nn.MultiheadAttention,  # with batch_first=True and keys and values as wide as queries
    kind: type[MultiHeadAttention] = MultiHeadAttention,  # or a class with the same parameters
) -> MultiHeadAttention:  # the same function
    """Our layer with the weights of `theirs`. Its dropout stays behind: ours drops no weights.
    Raises `ValueError` if ours cannot be the same."""
    check_type("theirs", theirs, nn.MultiheadAttention)
    d_model = theirs.embed_dim
    came = {
        "batch_first": theirs.batch_first,
        "kdim": theirs.kdim,
        "vdim": theirs.vdim,
        "add_bias_kv": theirs.bias_k is not None,
        "add_zero_attn": theirs.add_zero_attn,
    }
    fits = list(came.values()) == [True, d_model, d_model, False, False]
    wanted = f"nn.MultiheadAttention with batch_first=True, its keys and values {d_model} wide"
    check_that(fits, "theirs", wanted, came)
    has_bias = theirs.in_proj_bias is not None
    ours = kind(theirs.embed_dim, theirs.num_heads, bias=has_bias).to(theirs.in_proj_weight)
    inputs = [ours.w_q, ours.w_k, ours.w_v]
    for layer, weight in zip(inputs, theirs.in_proj_weight.chunk(3)):
        layer.weight.copy_(weight)
    ours.w_o.weight.copy_(theirs.out_proj.weight)
    if has_bias:
        for layer, bias in zip(inputs, theirs.in_proj_bias.chunk(3)):
            layer.bias.copy_(bias)
        ours.w_o.bias.copy_(theirs.out_proj.bias)
    return ours.train(theirs.training)


@torch.no_grad()
def mha_to_torch(
    ours: MultiHeadAttention,
    dropout: float = 0.0,  # of the weights, in training only
) -> nn.MultiheadAttention:  # the same function, batch_first=True
    "`nn.MultiheadAttention` with the weights of `ours`. Raises `ValueError` if it cannot be."
    check_type("ours", ours, MultiHeadAttention)
    inputs = [ours.w_q, ours.w_k, ours.w_v]
    d_model = ours.w_q.in_features
    widths = [layer.out_features for layer in inputs]
    wide = f"heads of queries, of keys and of values that are {d_model} wide together"
    check_that(widths == [d_model] * 3, "ours", wide, widths)
    has_bias = ours.w_q.bias is not None
    theirs = nn.MultiheadAttention(
        d_model, d_model // ours.d_k, dropout, has_bias, batch_first=True
    ).to(ours.w_q.weight)
    theirs.in_proj_weight.copy_(torch.cat([layer.weight for layer in inputs]))
    theirs.out_proj.weight.copy_(ours.w_o.weight)
    if has_bias:
        theirs.in_proj_bias.copy_(torch.cat([layer.bias for layer in inputs]))
        theirs.out_proj.bias.copy_(ours.w_o.bias)
    return theirs.train(ours.training)
