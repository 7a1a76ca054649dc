"""One configuration for every model: all sizes and choices in one place, checked when they are made
and saved beside the weights.

The sizes of a model must fit together, and a saved model must be built again years later. So they
are in one frozen object. What its names mean is derived in the lessons on attention, positions and
the block, and in the deep dives on relative positions and on norms. What only weights from
elsewhere ask for is in an heir, `HubConfig`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.multi_head import MultiHeadAttention
from ..attention.positions import LearnedPositions, Rotary, SinusoidalPositions
from ..attention.relative_positions import ALiBi, RelativeBias
from ..base.core import Settings, refuse_change
from ..base.guards import check_choice, check_heads, check_int, check_share
from .modern_decoder import GroupedQueryAttention

__all__ = [
    "swiglu",
    "ACTIVATIONS",
    "NORMS",
    "POSITIONS",
    "BIASES",
    "SIZES",
    "CHOICES",
    "TransformerConfig",
    "init_weights",
]


def swiglu(
    x: torch.Tensor,  # (..., 2 * d_ff), first the gates, then what passes through them
) -> torch.Tensor:  # (..., d_ff)
    "SiLU(a) · b, where a and b are the halves of x (Shazeer 2020)."
    gate, value = x.chunk(2, dim=-1)
    return F.silu(gate) * value


# the function, and how many inputs each of its outputs takes
ACTIVATIONS: dict[str, tuple[Callable, int]] = {
    "relu": (F.relu, 1),
    "gelu": (F.gelu, 1),
    "gelu_tanh": (partial(F.gelu, approximate="tanh"), 1),  # GPT-2's
    "silu": (F.silu, 1),  # Marian's
    "swiglu": (swiglu, 2),
}
NORMS: dict[str, Callable[..., nn.Module]] = {
    "layer": partial(nn.LayerNorm, eps=1e-5),
    "rms": partial(nn.RMSNorm, eps=1e-5),
}
POSITIONS = {  # where they act, and how they are built from a configuration
    "learned": ("input", lambda c: LearnedPositions(c.max_len, c.d_model)),
    "sinusoidal": ("input", lambda c: SinusoidalPositions(c.max_len, c.d_model)),
    "rotary": ("attention", lambda c: c.build_rotary()),
    "alibi": ("attention", lambda c: ALiBi(c.n_heads)),
    "relative": ("attention", lambda c: RelativeBias(c.n_heads)),
}
BIASES = {  # which linear layers of a block have none
    "all": (),
    "attention": ("ff.w_in", "ff.w_out"),
    "qkv": ("ff.w_in", "ff.w_out", "w_o"),  # Qwen's
    "none": ("ff.w_in", "ff.w_out", "w_o", "w_q", "w_k", "w_v"),
}
SIZES = ("vocab_size", "max_len", "d_model", "n_heads", "n_layers", "d_ff")
CHOICES = {
    "positions": POSITIONS,
    "activation": ACTIVATIONS,
    "norm": NORMS,
    "norm_first": (True, False),
}


@dataclass(frozen=True)
class TransformerConfig(Settings):
    "The sizes and choices that a model is built from. Checked when made, saved as JSON."

    vocab_size: int  # number of different tokens
    max_len: int  # longest sequence, in tokens
    d_model: int = 64  # width of the residual stream
    n_heads: int = 4  # heads per layer; divides d_model
    n_layers: int = 3  # blocks
    d_ff: int = 256  # units between the two layers of the feed-forward network
    dropout: float = 0.1  # 0 <= dropout < 1
    positions: str = "learned"  # or 'sinusoidal', 'rotary', 'alibi', 'relative'
    n_kv_heads: int | None = None  # heads of keys and values; divides n_heads, None is n_heads
    activation: str = "gelu"  # or 'relu', 'swiglu'
    norm: str = "layer"  # LayerNorm, or 'rms' for RMSNorm
    norm_first: bool = True  # pre-norm, or post-norm

    # No fields here: what our own models have. `HubConfig` can choose otherwise.
    d_k = None  # type: int | None
    bias = "all"
    tied_head = True
    pad_token_id = 0

    def __post_init__(self):
        for name in SIZES:
            check_int(name, getattr(self, name))
        check_share("dropout", self.dropout)
        check_heads(self.d_model, self.n_heads, self.n_kv_heads, self.d_k)
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.positions == "rotary" and self.head_width % 2:
            d_k = self.head_width
            raise ValueError(f"d_model: expected heads of an even width for rotary, got {d_k}")

    @property
    def n_parameters(self) -> int:
        "About how many numbers a stack of these blocks has, with its embeddings and positions."
        n_kv_heads = self.n_kv_heads or self.n_heads
        heads = 2 * (self.n_heads + n_kv_heads) * self.head_width
        inputs = ACTIVATIONS[self.activation][1]
        block = self.d_model * (heads + (inputs + 1) * self.d_ff)
        tables = 1 if self.tied_head else 2
        embeddings = tables * self.vocab_size * self.d_model
        positions = self.max_len * self.d_model
        if self.positions == "rotary":  # all layers share a table of angles
            positions = self.max_len * self.head_width
        return self.n_layers * block + embeddings + positions

    @property
    def head_width(self) -> int:
        "The width of a head's queries, keys and values."
        return self.d_k or self.d_model // self.n_heads

    @property
    def embed_scale(self) -> float:
        "What a translator's embeddings are multiplied by."
        return self.d_model**0.5

    def build_rotary(self) -> Rotary:
        "Rotary positions of this width and length."
        return Rotary(self.head_width, self.max_len)

    def build_positions(
        self,
        where: str,  # 'input', added to the embeddings, or 'attention', inside every layer
    ) -> nn.Module | None:  # None if the positions of this configuration act elsewhere
        "The position scheme that acts at this place."
        place, build = POSITIONS[self.positions]
        return build(self) if place == where else None

    def build_attention(self) -> MultiHeadAttention:
        "The layer of attention that a block has."
        if self.n_kv_heads is None and self.d_k is None:
            return MultiHeadAttention(self.d_model, self.n_heads)
        return GroupedQueryAttention(self.d_model, self.n_heads, self.n_kv_heads, self.d_k)

    def build_norm(self) -> nn.Module:
        "A norm of the kind and width that this configuration names."
        return NORMS[self.norm](self.d_model)


TransformerConfig.__setattr__ = refuse_change  # type: ignore[method-assign, assignment]


def init_weights(
    model: nn.Module,  # changed in place
    n_layers: int,  # blocks in the stack
    bias: str = "all",  # which linear layers keep a bias, a key of `BIASES`
) -> None:
    """Normal(0, 0.02), zeros for biases; layers that write to the stream smaller (GPT-2).

    They start smaller by 1 / √n, where n is their number in the whole stack, so that the stream
    starts with the same size at any depth. The deep dive on deep stacks derives the factor and
    measures what it is worth. Linear layers of which `bias` says that they have none lose it here.
    """
    names = [name for name, _ in model.named_modules()]
    writes = 2  # layers of a block that write to the stream
    if any(name.endswith("cross.w_o") for name in names):
        writes = 3
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            std = 0.02
            if name.endswith(("w_o", "ff.w_out")):
                std = 0.02 / (writes * n_layers) ** 0.5
            nn.init.normal_(module.weight, std=std)
            if name.endswith(BIASES[bias]):
                module.register_parameter("bias", None)
            start = getattr(module, "bias", None)
            if start is not None:
                nn.init.zeros_(start)
