"""What only weights that were trained elsewhere ask of a configuration: norms with another epsilon,
layers without a bias, rotary positions that are stretched, a head of its own.

The command line offers none of this, and no lesson needs it. A file has all fields, whoever wrote
it; `make_config` gives the lessons' `TransformerConfig` where it says all that there is to say.
"""

import math
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.angle_tables import Rotary
from ..attention.relative_positions import ScaledRotary
from ..base.core import refuse_change
from ..base.guards import check_that
from ..base.ranges import ZERO_OR_MORE, Range, check_fields
from .config import BIASES, TransformerConfig

__all__ = [
    "gelu_tanh",
    "scale_frequencies",
    "make_rotary",
    "EmbedNorm",
    "HubConfig",
    "as_hub_config",
    "make_config",
]


def gelu_tanh(
    x: torch.Tensor,  # of any shape
) -> torch.Tensor:  # the same shape
    "The activation GELU by way of a hyperbolic tangent, as GPT-2 computes it."
    return F.gelu(x, approximate="tanh")


SCALINGS = {  # kind -> the numbers that it needs
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
}


def scale_frequencies(
    frequency: torch.Tensor,  # (d_k / 2,), angle per position of each pair
    scaling: dict,  # 'rope_type', and the numbers above 0 that SCALINGS names for it
) -> torch.Tensor:  # (d_k / 2,)
    """Slow the pairs of rotary positions, so that a model reads longer texts.

    Llama 3 (2024) was trained on 8,192 tokens and then taught to read sixteen times as many. Its
    pairs that turn slowly, by less than a circle in the old length, turn more slowly still, those
    that turn fast stay as they were, and between the two a straight line decides (`llama3`). Chen
    et al. (2023) slow all pairs alike (`linear`). The names are those of Hugging Face's
    `rope_parameters`.
    """
    covered = isinstance(scaling, dict) and scaling.get("rope_type") in SCALINGS
    check_that(covered, "rope_scaling", f"a dict with a 'rope_type' of {list(SCALINGS)}", scaling)
    names = SCALINGS[scaling["rope_type"]]
    numbers: list[Any] = [scaling.get(name) for name in names]
    fits = scaling.keys() == {"rope_type", *names}
    fits = fits and all(type(n) in (int, float) and 0 < n < math.inf for n in numbers)
    if fits and len(numbers) > 1:
        fits = numbers[1] < numbers[2]
    check_that(fits, "rope_scaling", f"numbers above 0, in this order, for {names}", scaling)
    if scaling["rope_type"] == "linear":
        return frequency / numbers[0]
    factor, low, high, length = numbers
    circles = length * frequency / (2 * math.pi)  # of each pair in the old length
    as_before = ((circles - low) / (high - low)).clamp(0, 1)  # 0 below `low`, 1 above `high`
    return frequency * (as_before + (1 - as_before) / factor)


def make_rotary(
    d_k: int,  # width of a head, even
    base: float,  # as for `Rotary`
    scaling: dict | None = None,  # as for `scale_frequencies`
) -> Rotary:
    "Rotary positions, stretched if there is a scaling."
    if scaling is None:
        return Rotary(d_k, base)
    return ScaledRotary(d_k, base, partial(scale_frequencies, scaling=scaling))


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


RULES = {  # field -> which numbers it may be, or which words
    "bias": BIASES,
    "norm_eps": Range("a number above 0 and below 1", lambda x: 0 < x < 1),
    "rope_base": Range("a number above 1", lambda x: x > 1),
    "tied_head": (True, False),
    "embed_norm": (True, False),
    "logits_bias": (True, False),
    "pad_token_id": ZERO_OR_MORE,
}


@dataclass(frozen=True)
class HubConfig(TransformerConfig):
    "A `TransformerConfig` with the rare choices of weights from elsewhere."

    bias: str = "all"  # or 'attention', 'qkv', 'none': linear layers that have one
    norm_eps: float = 1e-5  # added under the root of a norm
    rope_base: float = 10_000.0  # as for `Rotary`
    rope_scaling: dict | None = None  # as for `scale_frequencies`
    tied_head: bool = True  # a generator's embeddings give its logits, too
    embed_norm: bool = False  # a norm on embeddings with their positions, as BART
    logits_bias: bool = False  # a number for each token on a translator's logits
    pad_token_id: int = 0  # PAD of a translator, a hole in its source

    def __post_init__(self):
        super().__post_init__()
        check_fields(self, RULES)
        fits = self.pad_token_id < self.vocab_size
        check_that(fits, "pad_token_id", f"a token below {self.vocab_size}", self.pad_token_id)
        if self.rope_scaling is not None:
            scale_frequencies(torch.ones(1), self.rope_scaling)  # refuses what it cannot be


HubConfig.__setattr__ = refuse_change  # type: ignore[method-assign, assignment]


def as_hub_config(
    config: TransformerConfig,
) -> HubConfig:
    "The same choices, with a value for every field."
    if isinstance(config, HubConfig):
        return config
    return HubConfig(**asdict(config))


def make_config(
    values: dict,  # fields of `HubConfig`
) -> TransformerConfig:
    "A configuration of the lessons where all rare choices are the usual ones, else a `HubConfig`."
    config = HubConfig(**values)
    lessons = [field.name for field in fields(TransformerConfig)]
    for field in fields(HubConfig):
        if field.name not in lessons and getattr(config, field.name) != field.default:
            return config
    return TransformerConfig(**{name: getattr(config, name) for name in lessons})
