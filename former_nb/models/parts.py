"""Parts that compute what those of the lessons compute, and more: embeddings on another scale or
with a norm, another GELU, a fused norm, a memory that is projected once.

`models/build.py` makes models of them. A model that is made of the lessons' own parts computes the
same, so no lesson shows these.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.fused import attention
from ..base.guards import check_attended, check_seam, check_tensor, check_that
from . import encoder_decoder
from .layers import Embedding
from .modern_decoder import RMSNorm

__all__ = [
    "ScaledEmbedding",
    "EmbedNorm",
    "gelu_tanh",
    "FusedRMSNorm",
    "ReadMemory",
    "attend_beams",
    "CrossAttention",
    "Decoder",
    "project_memory",
]


class ScaledEmbedding(Embedding):
    "`Embedding` whose vectors begin at another size and are multiplied by a number."

    def __init__(
        self,
        vocab_size: int,  # as for `Embedding`, and so the next three
        d_model: int,
        position_embedding: nn.Module | None = None,
        dropout: float = 0.0,
        std: float = 0.02,  # of the vectors at the start
        scale: float = 1.0,  # the vectors are multiplied by it
    ):
        super().__init__(vocab_size, d_model, position_embedding, dropout)
        nn.init.normal_(self.tokens.weight, std=std)
        self.scale = scale

    def forward(
        self,
        tokens: torch.Tensor,  # (B, T) integers
        positions: torch.Tensor | None = None,  # (T,) or (B, T); for `position_embedding`
    ) -> torch.Tensor:  # (B, T, d_model)
        x = self.tokens(tokens) * self.scale
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return self.dropout(x)


class EmbedNorm(nn.Module):
    "A norm on embeddings and their positions, before the first block (Lewis et al. 2020, BART)."

    def __init__(
        self,
        position_embedding: nn.Module | None,  # called with x and positions
        norm: nn.Module,
    ):
        super().__init__()
        self.position_embedding = position_embedding
        self.norm = norm

    def forward(
        self,
        x: torch.Tensor,  # (B, T, d_model)
        positions: torch.Tensor | None = None,  # (T,) or (B, T); for `position_embedding`
    ) -> torch.Tensor:  # (B, T, d_model)
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return self.norm(x)


def gelu_tanh(
    x: torch.Tensor,  # of any shape
) -> torch.Tensor:  # the same shape
    "The activation GELU by way of a hyperbolic tangent, as GPT-2 computes it."
    return F.gelu(x, approximate="tanh")


class FusedRMSNorm(RMSNorm):
    "`RMSNorm` by PyTorch's kernel, which reads each vector once."

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # both (..., d_model)
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


class ReadMemory(NamedTuple):
    "A memory, and the function by which a decoder's blocks attend to it."

    memory: Any  # (B, S, d_model), or keys and values as `CrossAttention.project` gives them
    attend: Callable  # (q, k, v, mask, is_causal) -> y


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


class CrossAttention(encoder_decoder.CrossAttention):
    "The lesson's cross-attention, which also takes a projected memory, or a `ReadMemory`."

    def project(
        self,
        memory: torch.Tensor,  # (B, S, d_model)
    ) -> tuple[torch.Tensor, torch.Tensor]:  # k and v, each (B, h, S, d_k)
        "Keys and values of a memory, to be given in its place when it is read many times."
        return self.split(self.w_k(memory)), self.split(self.w_v(memory))

    def forward(
        self,
        x: torch.Tensor,  # (B, T, d_model), gives the queries
        memory: torch.Tensor | tuple,  # (B, S, d_model), what `project` gave, or a `ReadMemory`
        mask: torch.Tensor | None = None,  # as in `attention`
        is_causal: bool = False,  # as in `attention`
        attend: Callable = attention,  # as for `MultiHeadAttention`
    ) -> torch.Tensor:  # (B, T, d_model)
        "Read the memory with all heads at once."
        if isinstance(memory, ReadMemory):
            memory, attend = memory
        if isinstance(memory, torch.Tensor):
            return super().forward(x, memory, mask, is_causal, attend)
        check_tensor("x", x, "B T d_model", d_model=self.w_q.in_features)
        check_that(isinstance(memory, tuple), "memory", "a tensor", memory, TypeError)
        check_seam(mask, attend)
        k, v = memory
        q = self.split(self.w_q(x))  # (B, h, T, d_k)
        y = attend(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        check_attended(y, q)
        return self.w_o(self.merge(y))  # (B, T, d_model)


class Decoder(encoder_decoder.Decoder):
    "The lesson's decoder, which also takes a memory that was projected before."

    def project(
        self,
        memory: torch.Tensor,  # (B, S, d_model)
        attend: Callable = attention,  # by which the blocks read it
    ) -> list[ReadMemory]:  # for each block, of k and v, (B, h, S, d_k)
        "Keys and values of the memory, to be given in its place when it is read many times."
        layers: Any = [block.cross for block in self.blocks]
        return [ReadMemory(layer.project(memory), attend) for layer in layers]

    def forward(
        self,
        x: torch.Tensor,  # (B, T, d_model)
        memory: Any,  # (B, S, d_model), what `project` gave, or a `ReadMemory`
        memory_mask: torch.Tensor | None = None,  # True = may attend to that token of memory
        attend: Callable | list = attention,  # as for `Stack`
        positions: torch.Tensor | None = None,  # of the target, as for `Stack`
    ) -> torch.Tensor:  # (B, T, d_model)
        "Run the blocks in order."
        if not isinstance(memory, list):
            return super().forward(x, memory, memory_mask, attend, positions)
        n = len(self.blocks)
        check_that(len(memory) == n, "memory", f"keys and values for {n} blocks", len(memory))
        attends = self.attend_by_block(attend, positions)
        for block, read, attend_here in zip(self.blocks, memory, attends):
            x = block(x, read, memory_mask, attend_here)
        return self.norm(x)


def project_memory(
    decoder: Any,  # a `Decoder` of the lesson or of this module
    memory: torch.Tensor,  # (B, S, d_model)
    attend: Callable = attention,  # by which the blocks read it
) -> Any:  # as `Decoder.project` gives it, or the memory itself
    "Keys and values for each block, where all blocks can take them in place of the memory."
    layers = [getattr(block, "cross", None) for block in decoder.blocks]
    if all(isinstance(layer, CrossAttention) for layer in layers):
        return decoder.project(memory, attend)
    return memory
