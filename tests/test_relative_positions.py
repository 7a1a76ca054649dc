"""Positions inside attention: tables by loops, and what becomes of them when a model moves."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from attention_tools import Placed
from refusals import refuses
from torch import nn
from torch.testing import assert_close

from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import (
    LearnedPositions,
    Rotary,
    rotary_frequencies,
    rotary_table,
    sinusoid_table,
)
from former_nb.attention.relative_positions import ALiBi, RelativeBias, alibi_slopes
from former_nb.attention.torch_layers import mha_to_torch
from former_nb.models.build import build_positions
from former_nb.models.hub_config import HubConfig
from former_nb.models.savable import LanguageModel

SCHEMES = {
    "rotary": lambda: Rotary(4, 9),
    "alibi": lambda: ALiBi(3),
    "relative": lambda: RelativeBias(3, 2),
}


def numbers(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def layer_with(name):
    torch.manual_seed(0)
    layer = Placed(MultiHeadAttention(12, 3), SCHEMES[name]())
    for table in layer.positions.parameters():
        nn.init.normal_(table)
    return layer.requires_grad_(False)


@pytest.mark.parametrize("d_model", [6, 7])
def test_the_sinusoids_are_those_of_the_formula_to_the_last_digit_of_float32(d_model):
    table = sinusoid_table(700, d_model)
    assert table.dtype == torch.float32 and table.shape == (700, d_model)
    for position in (0, 1, 2, 57, 699):
        for j in range(d_model):
            angle = position / 10000 ** ((j - j % 2) / d_model)
            want = math.cos(angle) if j % 2 else math.sin(angle)
            assert_close(table[position, j].item(), want, rtol=0, atol=1e-7)


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
    if "table" in dict(layer.positions.named_buffers()):
        assert torch.equal(layer.positions.table, SCHEMES[name]().table)
    assert_close(layer(x).float(), layer_with(name)(x.float()), atol=0.03, rtol=0.03)


def test_rotary_turns_each_pair_from_its_first_feature_to_its_second():
    "At position 1 the pair (1, 0) becomes (cos, sin) of its angle, here of 1 and of 1 / 10."
    first, second = [0, 1], [2, 3]
    x = torch.zeros(1, 1, 2, 4)
    x[..., first] = 1.0
    rotary, angle = Rotary(4, 9, base=100.0), torch.tensor([1.0, 0.1])

    def see(q, k, v, mask, is_causal):  # what attention is called with
        for turned in (q, k, rotary.turn(x)):
            assert_close(turned[0, 0, 0], x[0, 0, 0])
            assert_close(turned[0, 0, 1, first], angle.cos())
            assert_close(turned[0, 0, 1, second], angle.sin())
        return v

    assert rotary(see, x, x, x) is x  # values are not turned


@pytest.mark.parametrize("d_k", [2, 6])
def test_the_angles_are_those_of_the_formula_to_the_last_digit_of_float32(d_k):
    table = rotary_table(torch.arange(700), rotary_frequencies(d_k, 500.0))
    assert table.dtype == torch.float32 and table.shape == (2, 700, d_k // 2)
    assert torch.equal(Rotary(d_k, 700, 500.0).table, table)
    for position in (0, 1, 57, 699):
        for i in range(d_k // 2):
            angle = position / 500 ** (2 * i / d_k)
            assert_close(table[0, position, i].item(), math.cos(angle), rtol=0, atol=1e-7)
            assert_close(table[1, position, i].item(), math.sin(angle), rtol=0, atol=1e-7)


def test_tokens_are_where_positions_say():
    rotary, q = Rotary(4, 9), numbers(1, 1, 9, 4)

    def see(q, k, v, mask, is_causal):
        return torch.cat([q, k], dim=1)

    whole = rotary(see, q, q, q)
    rows = [q[:, :, at] for at in AT]
    for at, row in zip(AT, rows):
        assert torch.equal(rotary(see, row, row, None, positions=at), whole[:, :, at])
    together = rotary(see, *[torch.cat(rows)] * 2, None, positions=torch.stack(AT))  # (B, T)
    assert torch.equal(together, torch.cat([whole[:, :, at] for at in AT]))


AT = [torch.tensor([3, 0, 8]), torch.tensor([6, 7, 8])]  # rows that lie end to end; a cache's


def test_beyond_the_table_only_positions_that_are_named_go_on():
    rotary, longer, t = Rotary(4, 9), Rotary(4, 30), numbers(1, 1, 15, 4)
    refuses(lambda: rotary.turn(t), ValueError, "q", "15")
    refuses(lambda: rotary.turn(t, torch.arange(14)), ValueError, "positions", "14")
    refuses(lambda: rotary.turn(t, torch.arange(-1, 14)), ValueError, "positions", "-1")
    far = torch.arange(12, 27)
    assert torch.equal(rotary.turn(t, far), longer.turn(t, far))


def test_the_layers_of_a_model_share_one_rotary_table():
    c = HubConfig(7, 64, 12, 2, 3, 8, positions="rotary", rope_scaling=SLOW)
    model = LanguageModel.from_config(c)
    with torch.device("meta"):
        loaded = LanguageModel.from_config(c)
    loaded.load_state_dict(model.state_dict(), assign=True)
    twin = copy.deepcopy(model).double()  # still float32
    for m in (model, loaded, twin):
        assert [part for part in m.modules() if isinstance(part, Rotary)] == [m.stack.rotary]
        assert torch.equal(m.stack.rotary.table, first_table(c))
        assert not any("table" in name for name in m.state_dict())
    others = [c, replace(c, max_len=32), replace(c, rope_base=9.0), replace(c, rope_scaling=None)]
    assert len({tuple(t.shape) + tuple(t[0, 5].tolist()) for t in map(first_table, others)}) == 4


SLOW = {"rope_type": "linear", "factor": 2.0}


def first_table(config):
    return build_positions(config, "attention").table


def test_a_model_with_learned_positions_is_pytorchs_and_only_read_rows_have_a_gradient():
    torch.manual_seed(0)
    B, T, d, V, rows = 3, 5, 8, 11, 12
    embed, head, norm = nn.Embedding(V, d), nn.Linear(d, V), nn.LayerNorm(d)
    learned, layer = LearnedPositions(rows, d), MultiHeadAttention(d, 2)
    position, theirs = nn.Embedding(rows, d), mha_to_torch(layer)
    with torch.no_grad():
        position.weight.copy_(learned.table)
    tokens = torch.randint(V, (B, T))
    future = torch.ones(T, T, dtype=torch.bool).triu(1)  # True = may not

    x = learned(embed(tokens))
    ours = head(x + layer(norm(x), is_causal=True))
    x = embed(tokens) + position(torch.arange(T))
    h = norm(x)
    expected = head(x + theirs(h, h, h, attn_mask=future, need_weights=False)[0])
    assert_close(ours, expected, rtol=1e-4, atol=1e-4)
    for logits in (ours, expected):
        F.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
    inputs = torch.cat([part.weight.grad for part in (layer.w_q, layer.w_k, layer.w_v)])
    assert_close(inputs, theirs.in_proj_weight.grad, rtol=1e-3, atol=1e-6)
    assert_close(learned.table.grad, position.weight.grad, rtol=1e-3, atol=1e-6)
    assert learned.table.grad.any(dim=1).tolist() == [True] * T + [False] * (rows - T)
