"""Positions that are added to the input, and positions that are refused."""

import math

import pytest
import torch
import torch.nn.functional as F
from attention_tools import FIRST, numbers, places
from refusals import counts, every_row, n, nan_only_at, refuses, shape, spoilt, words
from torch import nn
from torch.testing import assert_close

from former_nb.attention import positions as lesson
from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import (
    LearnedPositions,
    SinusoidalPositions,
    rotate,
    sinusoid_table,
)
from former_nb.attention.relative_positions import ALiBi
from former_nb.attention.torch_layers import mha_to_torch


@pytest.mark.parametrize("d_model", [6, 7])
def test_the_sinusoids_are_those_of_the_formula_to_the_last_digit_of_float32(d_model):
    table = sinusoid_table(700, d_model)
    assert table.dtype == torch.float32 and table.shape == (700, d_model)
    for position in (0, 1, 2, 57, 699):
        for j in range(d_model):
            angle = position / 10000 ** ((j - j % 2) / d_model)
            want = math.cos(angle) if j % 2 else math.sin(angle)
            assert_close(table[position, j].item(), want, rtol=0, atol=1e-7)


def test_positions_have_to_be_given_and_are_not_below_0():
    rotary, t = Rotary(4), numbers(1, 1, 15, 4)
    for part in (rotary, ALiBi(1), lesson.Rotary(4)):
        refuses(lambda part=part: part(attention, None), TypeError, "positions", "None")
    refuses(lambda: rotary.turn(t, torch.arange(14)), ValueError, "positions", "14")
    refuses(lambda: rotary.turn(t, torch.arange(-1, 14)), ValueError, "positions", "-1")


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


X = n(2, 5, 12)


def positions(kind):
    table = kind(9, 12)
    return [
        *counts("max_len", lambda value: kind(value, 12)),
        *words(lambda x: table(x, FIRST)),
        *places(lambda value: table(X, value)),
        ("no positions", lambda: table(X, None), TypeError, "positions", "None"),
        ("too many", lambda: table(n(2, 10, 12), torch.arange(10)), ValueError, "positions", "9"),
        ("too late", lambda: table(X, torch.arange(5, 10)), ValueError, "positions", "9"),
        ("T = 0", lambda: table(n(2, 0, 12), torch.arange(0)), shape(2, 0, 12)),
        ("B = 0", lambda: table(n(0, 5, 12), FIRST), shape(0, 5, 12)),
        ("NaN in one word", lambda: table(spoilt(X, 1, 2), FIRST), nan_only_at(1, 2)),
    ]


TABLE = {
    "LearnedPositions": positions(LearnedPositions),
    "SinusoidalPositions": positions(SinusoidalPositions),
    "sinusoid_table": [("an odd width", lambda: sinusoid_table(9, 7), shape(9, 7))],
    "rotate": [("T = 0", lambda: rotate(n(2, 3, 0, 4), n(0, 2), n(0, 2)), shape(2, 3, 0, 4))],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
