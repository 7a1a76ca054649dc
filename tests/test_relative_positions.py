"""Positions inside attention: tables by loops, and what becomes of them when a model moves."""

import pytest
import torch
from attention_tools import EVEN, FIRST, Placed, heads_with_places, numbers, rotary
from refusals import counts, every_row, n, shape
from torch import nn
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import (
    ALiBi,
    DistanceBias,
    RelativeBias,
    ScaledRotary,
    alibi_slopes,
    rotate_interleaved,
)

SCHEMES = {
    "rotary": lambda: Rotary(4),
    "alibi": lambda: ALiBi(3),
    "relative": lambda: RelativeBias(3, 2),
}


def layer_with(name):
    torch.manual_seed(0)
    layer = Placed(MultiHeadAttention(12, 3), SCHEMES[name]())
    for table in layer.positions.parameters():
        nn.init.normal_(table)
    return layer.requires_grad_(False)


@pytest.mark.parametrize("max_distance", [1, 2, 4, 9])
@pytest.mark.parametrize("start", [0, 3])
def test_a_relative_bias_clips_distances_at_max_distance_and_not_before(max_distance, start):
    positions, T = RelativeBias(2, max_distance), 5
    nn.init.normal_(positions.table)
    bias = positions.bias(T, start + T)
    assert bias.shape == (1, 2, T, start + T)
    for query in range(start, start + T):
        for key in range(start + T):
            column = max(0, min(key - query + max_distance, 2 * max_distance))
            assert_close(bias[0, :, query - start, key], positions.table[:, column])


@pytest.mark.parametrize("n_heads", [1, 2, 3, 8, 12, 16])
def test_alibi_takes_slope_times_distance(n_heads):
    bias, slopes = ALiBi(n_heads).bias(4, 6), alibi_slopes(n_heads)
    power = 1 << (n_heads.bit_length() - 1)
    wanted = [2 ** (-8 * (i + 1) / power) for i in range(power)]
    wanted += [2 ** (-8 * (i + 0.5) / power) for i in range(n_heads - power)]
    assert_close(slopes, torch.tensor(wanted))
    for query in range(4):
        for key in range(6):
            assert_close(bias[0, :, query, key], -slopes * abs(key - query - 2))


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("way", ["given memory", "given tensors", "loaded"])
def test_a_layer_built_without_memory_computes_what_it_should(name, way):
    right, x = layer_with(name), numbers(2, 5, 12)
    with torch.device("cpu" if way == "loaded" else "meta"):
        layer = Placed(MultiHeadAttention(12, 3), SCHEMES[name]()).requires_grad_(False)
    if way == "given memory":
        layer.to_empty(device="cpu")
    layer.load_state_dict(right.state_dict(), assign=way == "given tensors")
    assert torch.equal(layer(x), right(x))


@pytest.mark.parametrize("name", SCHEMES)
def test_a_half_precision_layer_keeps_its_angles_and_slopes(name):
    layer, x = layer_with(name).bfloat16(), numbers(2, 5, 12).bfloat16()
    assert layer(x).dtype == torch.bfloat16
    assert_close(layer(x).float(), layer_with(name)(x.float()), atol=0.03, rtol=0.03)


def test_a_bias_asks_no_device_where_nothing_is_kept():
    "The positions of a training on a GPU would have to be waited for."
    q, k, v = numbers(3, 2, 3, 5, 4)
    far, near = torch.arange(7, 12), torch.arange(5)
    assert torch.equal(ALiBi(3)(attention, far)(q, k, v), ALiBi(3)(attention, near)(q, k, v))


def distance_bias(layer):
    four = [n(2, 4, 5, 4)] * 3
    gap = ValueError, "positions"
    return [
        *heads_with_places(layer),
        ("heads", lambda: layer(attention, FIRST)(*four), ValueError, "q", "(2, 4"),
        ("a gap", lambda: layer(attention, torch.tensor([0, 1, 2, 4, 5])), *gap, "4"),
        ("not in order", lambda: layer(attention, torch.tensor([0, 2, 1, 3, 4])), *gap, "2, 1"),
        ("T = 0 after others", lambda: layer.bias(0, 4), shape(1, 3, 0, 4)),
        ("S = 0", lambda: layer.bias(0, 0), shape(1, 3, 0, 0)),
    ]


def half(frequency):
    return frequency / 2


class Counting(DistanceBias):
    def by_distance(self, distance):
        return distance.expand(self.n_heads, *distance.shape)


TABLE = {
    "rotate_interleaved": [
        ("T = 0", lambda: rotate_interleaved(n(2, 0, 4), n(0, 2), n(0, 2)), shape(2, 0, 4)),
    ],
    "ScaledRotary": [
        *rotary(ScaledRotary(4, 1e4, half)),
        ("an odd width of heads", lambda: ScaledRotary(5, 1e4, half), *EVEN),
    ],
    "DistanceBias": distance_bias(Counting(3)),
    "alibi_slopes": counts("n_heads", alibi_slopes),
    "ALiBi": distance_bias(ALiBi(3)),
    "RelativeBias": [
        *counts("max_distance", lambda value: RelativeBias(3, value)),
        *distance_bias(RelativeBias(3, 4)),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
