"""One configuration for every model: all sizes and choices in one place, checked when they are made
and saved beside the weights.

The sizes of a model must fit together, and a saved model must be built again years later. So they
are in one frozen object. It knows words only. What they stand for is in `models/choices.py`, and
`models/build.py` makes parts of them.
What only weights from elsewhere ask for is in an heir, `HubConfig`.
"""

from dataclasses import dataclass

from ..base.core import Settings, refuse_change
from ..base.guards import check_heads, check_int
from ..base.ranges import check_fields
from .choices import ACTIVATIONS, MODEL, POSITIONS

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
SIZES = ("vocab_size", "max_len", "d_model", "n_heads", "n_layers", "d_ff")


@dataclass(frozen=True)
class TransformerConfig(Settings):
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

    # No fields here: what our own models have. `HubConfig` can choose otherwise.
    bias = "all"
    norm_eps = 1e-5
    rope_base = 10_000.0
    rope_scaling = None  # type: dict | None
    tied_head = True
    embed_norm = False
    pad_token_id = 0

    def __post_init__(self):
        check_fields(self, MODEL, error=TypeError)
        for name in SIZES:
            check_int(name, getattr(self, name))  # and none too large for PyTorch
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


TransformerConfig.__setattr__ = refuse_change  # type: ignore[method-assign, assignment]
