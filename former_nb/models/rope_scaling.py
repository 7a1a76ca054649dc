"""Rotary positions that are stretched, so that a model reads longer texts than it learned from."""

import math
from functools import partial
from typing import Any

import torch

from ..attention.angle_tables import Rotary
from ..attention.relative_positions import ScaledRotary
from ..base.guards import check_that

__all__ = ["scale_frequencies", "make_rotary"]


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
