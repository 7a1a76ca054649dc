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

from former_nb.attention import angle_tables
from former_nb.attention import positions as lesson
from former_nb.attention.angle_tables import Rotary, rotary_frequencies, rotary_table
from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import LearnedPositions, sinusoid_table
from former_nb.attention.relative_positions import ALiBi, RelativeBias, alibi_slopes
from former_nb.attention.torch_layers import mha_to_torch
from former_nb.models.build import build_positions
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

SCHEMES = {
    "rotary": lambda: Rotary(4),
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
    assert_close(layer(x).float(), layer_with(name)(x.float()), atol=0.03, rtol=0.03)


def test_rotary_turns_each_pair_from_its_first_feature_to_its_second():
    "At position 1 the pair (1, 0) becomes (cos, sin) of its angle, here of 1 and of 1 / 10."
    first, second = [0, 1], [2, 3]
    x = torch.zeros(1, 1, 2, 4)
    x[..., first] = 1.0
    rotary, angle = Rotary(4, base=100.0), torch.tensor([1.0, 0.1])

    def see(q, k, v, mask, is_causal):  # what attention is called with
        for turned in (q, k, rotary.turn(x, torch.arange(2))):
            assert_close(turned[0, 0, 0], x[0, 0, 0])
            assert_close(turned[0, 0, 1, first], angle.cos())
            assert_close(turned[0, 0, 1, second], angle.sin())
        return v

    assert rotary(see, torch.arange(2))(x, x, x) is x  # values are not turned


@pytest.mark.parametrize("d_k", [2, 6])
def test_the_angles_are_those_of_the_formula_to_the_last_digit_of_float32(d_k):
    table = rotary_table(torch.arange(700), rotary_frequencies(d_k, 500.0))
    assert table.dtype == torch.float32 and table.shape == (2, 700, d_k // 2)
    rows = Rotary(d_k, 500.0).rows(torch.arange(700), table.device)
    assert torch.equal(torch.stack(rows), table)
    for position in (0, 1, 57, 699):
        for i in range(d_k // 2):
            angle = position / 500 ** (2 * i / d_k)
            assert_close(table[0, position, i].item(), math.cos(angle), rtol=0, atol=1e-7)
            assert_close(table[1, position, i].item(), math.sin(angle), rtol=0, atol=1e-7)


def test_tokens_are_where_positions_say():
    rotary, q = Rotary(4), numbers(1, 1, 9, 4)

    def see(q, k, v, mask, is_causal):
        return torch.cat([q, k], dim=1)

    whole = rotary(see, torch.arange(9))(q, q, q)
    rows = [q[:, :, at] for at in AT]
    for at, row in zip(AT, rows):
        assert torch.equal(rotary(see, at)(row, row, None), whole[:, :, at])
    together = rotary(see, torch.stack(AT))(*[torch.cat(rows)] * 2, None)  # positions (B, T)
    assert torch.equal(together, torch.cat([whole[:, :, at] for at in AT]))


AT = [torch.tensor([3, 0, 8]), torch.tensor([6, 7, 8])]  # rows that lie end to end; a cache's


LAST = angle_tables.LONGEST - 1


@pytest.mark.parametrize("device", ["cpu", "elsewhere", "compiled"])
@pytest.mark.parametrize("start", [0, 3, 250, 300, 5000, LAST, 10**7])
def test_any_position_has_the_angles_of_the_formula(start, device, monkeypatch):
    "From a table that grows, or computed where nobody looks at positions, or where it would end."
    if device == "elsewhere":  # where one would have to wait for them
        monkeypatch.setattr(Rotary, "_look_up", Rotary._compute)
    if device == "compiled":
        monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    rotary, here = Rotary(6), torch.device("cpu")
    for positions in (torch.arange(start, start + 4), torch.tensor([start, start + 9, start + 1])):
        want = rotary_table(positions, rotary_frequencies(6))
        for _ in range(2):  # the second time it may have kept them
            assert_close(torch.stack(rotary.rows(positions, here)), want, rtol=0, atol=0)
    assert rotary._table is None or rotary._table.shape[1] <= angle_tables.LONGEST


def test_positions_that_change_in_place_are_looked_up_again():
    rotary, t, at = Rotary(4), numbers(1, 1, 3, 4), torch.arange(3)
    before = rotary.turn(t, at)
    at += 2
    assert torch.equal(rotary.turn(t, at), Rotary(4).turn(t, torch.arange(2, 5)))
    with torch.inference_mode():
        at = torch.arange(3)
        assert torch.equal(rotary.turn(t, at), before)
        at += 2
        assert torch.equal(rotary.turn(t, at), Rotary(4).turn(t, torch.arange(2, 5)))
    t.requires_grad_()
    rotary.turn(t, torch.arange(3)).sum().backward()  # a table of an inference serves a training


def test_positions_have_to_be_given_and_are_not_below_0():
    rotary, t = Rotary(4), numbers(1, 1, 15, 4)
    for part in (rotary, ALiBi(1), lesson.Rotary(4)):
        refuses(lambda part=part: part(attention, None), TypeError, "positions", "None")
    refuses(lambda: rotary.turn(t, torch.arange(14)), ValueError, "positions", "14")
    refuses(lambda: rotary.turn(t, torch.arange(-1, 14)), ValueError, "positions", "-1")


def test_the_table_is_that_of_the_lesson():
    q, k, v = numbers(3, 2, 4, 7, 6)
    for at in (torch.arange(7), torch.arange(30, 37), torch.tensor([0, 5, 5, 2, 9, 300, 1])):
        ours, lessons = (kind(6, 500.0)(attention, at) for kind in (Rotary, lesson.Rotary))
        assert torch.equal(ours(q, k, v, None, True), lessons(q, k, v, None, True))


def test_a_bias_asks_no_device_where_nothing_is_kept():
    "The positions of a training on a GPU would have to be waited for."
    q, k, v = numbers(3, 2, 3, 5, 4)
    far, near = torch.arange(7, 12), torch.arange(5)
    assert torch.equal(ALiBi(3)(attention, far)(q, k, v), ALiBi(3)(attention, near)(q, k, v))


def test_the_layers_of_a_model_share_one_rotary_table():
    c = TransformerConfig(7, 64, 12, 2, 3, 8, positions="rotary", rope_scaling=SLOW)
    model = LanguageModel.from_config(c)
    with torch.device("meta"):
        loaded = LanguageModel.from_config(c)
    loaded.load_state_dict(model.state_dict(), assign=True)
    twin = copy.deepcopy(model).double()  # still float32
    for m in (model, loaded, twin):
        assert [part for part in m.modules() if isinstance(part, Rotary)] == [m.stack.rotary]
        assert torch.equal(rows_of(m.stack.rotary), first_rows(c))
        assert not any("table" in name for name in m.state_dict())
    others = [c, replace(c, rope_base=9.0), replace(c, rope_scaling=None)]
    assert len({tuple(rows[0, 5].tolist()) for rows in map(first_rows, others)}) == 3


SLOW = {"rope_type": "linear", "factor": 2.0}


def first_rows(config):
    return rows_of(build_positions(config, "attention"))


def rows_of(rotary):
    return torch.stack(rotary.rows(torch.arange(64), torch.device("cpu")))


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

    x = learned(embed(tokens), torch.arange(T))
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
