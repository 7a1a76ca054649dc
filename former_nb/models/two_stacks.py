"""Beams about one source, and PyTorch's weights in our two stacks."""

from copy import deepcopy
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.fused import attention
from ..attention.torch_layers import mha_from_torch
from ..base.guards import check_type
from .encoder_decoder import DecoderBlock
from .layers import Block, FeedForward, Stack
from .parts import CrossAttention, Decoder
from .post_norm import PostNormBlock, PostNormDecoderBlock

__all__ = ["attend_beams", "transformer_from_torch"]


def attend_beams(
    q: torch.Tensor,  # (B * n, h, T, d_k), n neighbouring rows for each source
    k: torch.Tensor,  # (B, h, S, d_k)
    v: torch.Tensor,  # (B, h, S, d_v)
    mask: torch.Tensor | None = None,  # (B, 1, 1, S)
    is_causal: bool = False,  # as in `attention`
) -> torch.Tensor:  # (B * n, h, T, d_v)
    "`attention` over a memory that several texts share: they are further queries of one source."
    n = len(q) // max(1, len(k))
    if n <= 1:
        return attention(q, k, v, mask, is_causal)
    T = q.shape[2]
    together = q.unflatten(0, (-1, n)).transpose(1, 2).flatten(2, 3)  # (B, h, n * T, d_k)
    y = attention(together, k, v, mask, is_causal)  # (B, h, n * T, d_v)
    return y.unflatten(2, (n, T)).transpose(1, 2).flatten(0, 1)


NAMES = {
    "ff.w_in": "linear1",
    "ff.w_out": "linear2",
    "norm_attention": "norm1",
    "norm_ff": "norm2",
}
CROSS_NAMES = NAMES | {"norm_cross": "norm2", "norm_ff": "norm3"}


def block_from_torch(
    theirs: nn.TransformerEncoderLayer | nn.TransformerDecoderLayer,  # batch_first=True
) -> Block:  # the same function
    """Our block with the weights of PyTorch's layer. Raises `ValueError` for one that ours cannot
    be. In training, theirs drops weights of attention, too; ours drops what each part writes."""
    if not isinstance(theirs, (nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)):
        kinds = "nn.TransformerEncoderLayer or nn.TransformerDecoderLayer"
        raise TypeError(f"theirs: expected {kinds}, got {type(theirs).__name__}")
    cross = isinstance(theirs, nn.TransformerDecoderLayer)
    functions = (F.relu, F.gelu)
    dropouts = {part.p for part in theirs.children() if isinstance(part, nn.Dropout)}
    usual = theirs.linear1.bias is not None and theirs.norm1.eps == 1e-5 and len(dropouts) == 1
    if theirs.activation not in functions or not usual:
        expected = "ReLU or GELU, biases, layer_norm_eps=1e-5, one dropout everywhere"
        activation = getattr(theirs.activation, "__name__", theirs.activation)
        came = f"{activation}, {theirs.linear1}, {theirs.norm1}, dropouts {sorted(dropouts)}"
        raise ValueError(f"theirs: expected {expected}, got {came}")
    d_model = theirs.self_attn.embed_dim
    dropout = theirs.dropout1.p
    ff = FeedForward(d_model, theirs.linear1.out_features, dropout, theirs.activation)
    attention = mha_from_torch(theirs.self_attn)
    parts: list[nn.Module] = [attention, ff]
    kind: Any = Block if theirs.norm_first else PostNormBlock
    if isinstance(theirs, nn.TransformerDecoderLayer):
        parts.insert(1, mha_from_torch(theirs.multihead_attn, CrossAttention))
        kind = DecoderBlock if theirs.norm_first else PostNormDecoderBlock
    norms = [nn.LayerNorm(d_model) for _ in parts]
    ours = kind(*parts, *norms, dropout).to(theirs.linear1.weight)
    for mine, other in (CROSS_NAMES if cross else NAMES).items():
        ours.get_submodule(mine).load_state_dict(theirs.get_submodule(other).state_dict())
    return ours.train(theirs.training)


def transformer_from_torch(
    theirs: nn.Transformer,  # with batch_first=True and what `block_from_torch` asks of its layers
) -> tuple[Stack, Decoder]:  # encoder and decoder, the same functions
    "Our two stacks with the weights of PyTorch's. Its norms after the last block stay."
    check_type("theirs", theirs, nn.Transformer)
    check_type("theirs", theirs.encoder, nn.TransformerEncoder)
    check_type("theirs", theirs.decoder, nn.TransformerDecoder)
    stacks: list[Any] = []
    for kind, part in [(Stack, theirs.encoder), (Decoder, theirs.decoder)]:
        blocks = [block_from_torch(layer) for layer in part.layers]
        stack = kind(blocks, deepcopy(part.norm))
        stacks.append(stack.train(theirs.training))
    return tuple(stacks)
