"""One configuration for every model: all sizes and choices in one place, checked when they are made
and saved beside the weights.

The sizes of a model must fit together, and a saved model must be built again years later. So they
are in one frozen object. It knows words only. What they stand for is in `models/choices.py`, and
`models/build.py` makes parts of them.
"""

from dataclasses import dataclass

import torch

from ..base.guards import check_heads, check_that
from ..base.ranges import ZERO_OR_MORE, Range, check_fields
from .choices import ACTIVATIONS, MODEL, POSITIONS
from .rope_scaling import scale_frequencies

__all__ = [
    "BIASES",
    "SIZES",
    "TransformerConfig",
]

BIASES = {  # which linear layers of a block have none
    "all": (),
    "attention": ("ff.w_gate", "ff.w_in", "ff.w_out"),
    "qkv": ("ff.w_gate", "ff.w_in", "ff.w_out", "w_o"),  # Qwen's
    "none": ("ff.w_gate", "ff.w_in", "ff.w_out", "w_o", "w_q", "w_k", "w_v"),
}
RARE = {  # field -> which numbers it may be, or which words
    "bias": BIASES,
    "norm_eps": Range("a number above 0 and below 1", lambda x: 0 < x < 1),
    "rope_base": Range("a number above 1", lambda x: x > 1),
    "tied_head": (True, False),
    "embed_norm": (True, False),
    "logits_bias": (True, False),
    "pad_token_id": ZERO_OR_MORE,
}
SIZES = ("vocab_size", "max_len", "d_model", "n_heads", "n_layers", "d_ff")


@dataclass(frozen=True)
class TransformerConfig:
    "The sizes and choices that a model is built from. Checked when made, saved as JSON."

    vocab_size: int  # number of different tokens
    max_len: int  # longest sequence, in tokens
    d_model: int = 64  # width of the residual stream
    n_heads: int = 4  # heads per layer; divides d_model
    n_layers: int = 3  # blocks
    d_ff: int = 256  # units between the two layers of the feed-forward network
    dropout: float = 0.1  # share of numbers that are set to 0 in training
    positions: str = "learned"  # how attention knows the order
    n_kv_heads: int | None = None  # heads of keys and values; divides n_heads; by default equal
    activation: str = "gelu"  # between the layers of the feed-forward network
    norm: str = "layer"  # LayerNorm, or RMSNorm for 'rms'
    norm_first: bool = True  # pre-norm, or post-norm
    d_k: int | None = None  # width of a head; by default d_model / n_heads

    # What only weights from elsewhere ask for. The command line offers none of it.
    bias: str = "all"  # or 'attention', 'qkv', 'none': linear layers that have one
    norm_eps: float = 1e-5  # added under the root of a norm
    rope_base: float = 10_000.0  # as for `Rotary`
    rope_scaling: dict | None = None  # as for `scale_frequencies`
    tied_head: bool = True  # a generator's embeddings give its logits, too
    embed_norm: bool = False  # a norm on embeddings with their positions, as BART
    logits_bias: bool = False  # a number for each token on a translator's logits
    pad_token_id: int = 0  # PAD of a translator, a hole in its source

    def __post_init__(self):
        check_fields(self, MODEL, error=TypeError)
        check_fields(self, RARE)
        fits = self.pad_token_id < self.vocab_size
        check_that(fits, "pad_token_id", f"a token below {self.vocab_size}", self.pad_token_id)
        if self.rope_scaling is not None:
            scale_frequencies(torch.ones(1), self.rope_scaling)  # refuses what it cannot be
        check_heads(self.d_model, self.n_heads, self.n_kv_heads, self.d_k)
        if POSITIONS[self.positions].pairs and self.head_width % 2:
            wanted = f"heads of an even width for {self.positions}"
            raise ValueError(f"d_model: expected {wanted}, got {self.head_width}")

    @property
    def n_parameters(self) -> int:
        "About how many numbers a stack of these blocks has, with its embeddings and positions."
        n_kv_heads = self.n_kv_heads or self.n_heads
        heads = 2 * (self.n_heads + n_kv_heads) * self.head_width
        matrices = 3 if ACTIVATIONS[self.activation].gated else 2  # of the feed-forward network
        block = self.d_model * (heads + matrices * self.d_ff)
        tables = 1 if self.tied_head else 2
        embeddings = tables * self.vocab_size * self.d_model
        positions = 0
        if POSITIONS[self.positions].where == "input":  # a row for each
            positions = self.max_len * self.d_model
        return self.n_layers * block + embeddings + positions

    @property
    def head_width(self) -> int:
        "The width of a head's queries, keys and values."
        return self.d_k or self.d_model // self.n_heads
