"""Parts that only weights that were trained elsewhere ask for: another GELU, rotary positions that
are stretched, a norm on the embeddings.
"""

import math
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.angle_tables import Rotary
from ..attention.relative_positions import ScaledRotary
from ..base.guards import check_that

__all__ = [
    "gelu_tanh",
    "scale_frequencies",
    "make_rotary",
    "EmbedNorm",
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
