"""Masks in the formats of PyTorch: what each means, what goes wrong on the way, and what becomes of
a row with nothing to attend to."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import create_mask
from torch.testing import assert_close

from former_nb.attention.fused import attention, attention_weights
from former_nb.attention.mask_formats import (
    from_additive,
    from_attention_mask,
    from_torch_mha,
    to_additive,
    to_attention_mask,
    to_torch_mha,
)
from former_nb.attention.mask_patterns import document_mask, prefix_mask, sliding_window_mask
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.attention.torch_layers import mha_from_torch

TOKENS = torch.tensor([[1, 2, 3, 4, 5], [7, 8, 0, 0, 0], [1, 7, 3, 0, 0]])  # 0 is padding
DOCUMENTS = torch.tensor([[1, 1, 1, 2, 2], [1, 1, 2, 2, 2], [1, 2, 2, 3, 3]])
TRIANGLE = causal_mask(5)[0, 0]  # (T, S)
MASKS = {
    "causal": causal_mask(5),
    "window 2": sliding_window_mask(5, 2),
    "prefix": prefix_mask(5, torch.tensor([2, 0, 3])),
    "documents": document_mask(DOCUMENTS),
    "padding": padding_mask(TOKENS),
    "causal and padding": combine_masks(causal_mask(5), padding_mask(TOKENS)),
    "one per head": torch.cat([causal_mask(5), sliding_window_mask(5, 2)], dim=1),
}
SHAPE = (3, 2, 5, 5)  # (B, h, T, S)


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return nn.MultiheadAttention(8, 2, batch_first=True)


@pytest.fixture
def x():
    return torch.randn(3, 5, 8, generator=torch.Generator().manual_seed(1))  # (B, T, d_model)


def trained(run, x):
    "The output, and the gradient that training would send back."
    x = x.clone().requires_grad_()
    out = run(x)
    return out, torch.autograd.grad(out.square().sum(), x)[0]


def test_one_triangle_has_two_meanings_in_pytorch(layer, x):
    by_layer = layer(x, x, x, attn_mask=TRIANGLE)[1]  # (B, T, S)
    identity = torch.eye(5).expand(3, 5, 5)
    by_function = F.scaled_dot_product_attention(x, x, identity, attn_mask=TRIANGLE)
    assert (by_function * ~TRIANGLE).eq(0).all()
    future = (by_layer * ~TRIANGLE).sum(dim=-1)
    assert_close(future, torch.tensor([1, 1, 1, 1, torch.nan]).expand(3, 5), equal_nan=True)


def test_numbers_that_are_added_mean_the_same_forward_and_backward():
    q, added = torch.randn(3, 2, 5, 4), to_additive(TRIANGLE)
    assert added[0].tolist() == [0.0] + 4 * [-math.inf] and from_additive(added).equal(TRIANGLE)
    expected = trained(lambda q: F.scaled_dot_product_attention(q, q, q, attn_mask=added), q)
    assert_close(trained(lambda q: attention(q, q, q, TRIANGLE), q), expected)
    assert_close(trained(lambda q: attention(q, q, q, added), q), expected)


def test_two_lowest_numbers_overflow_in_half_precision():
    lowest = torch.full((4,), torch.finfo(torch.float16).min, dtype=torch.float16)
    assert lowest.softmax(dim=0).eq(0.25).all()
    assert (lowest + lowest).softmax(dim=0).isnan().all()


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_means_the_same_to_pytorchs_layer_and_comes_back(name, layer, x):
    mask, ours = MASKS[name], mha_from_torch(layer)
    theirs = to_torch_mha(mask, SHAPE)
    expected = trained(lambda x: layer(x, x, x, **theirs)[0], x)
    assert_close(trained(lambda x: ours(x, mask=mask), x), expected)
    assert from_torch_mha(**theirs, n_heads=2).expand(SHAPE).equal(mask.expand(SHAPE))
    assert list(theirs) == ["key_padding_mask" if name == "padding" else "attn_mask"]
    shapes = {"causal": (5, 5), "window 2": (5, 5), "padding": (3, 5)}
    assert theirs.popitem()[1].shape == shapes.get(name, (6, 5, 5))
    assert from_attention_mask(to_attention_mask(mask)).equal(mask)


def test_pytorchs_layer_trusts_its_hint_where_no_weights_are_asked_for(layer, x):
    ours, nothing = mha_from_torch(layer), torch.zeros(5, 5, dtype=torch.bool)  # blocks nothing
    how = dict(attn_mask=nothing, is_causal=True)
    by_mask = layer(x, x, x, **how, need_weights=True)[0]
    by_hint = layer(x, x, x, **how, need_weights=False)[0]
    assert_close(by_mask, ours(x))
    assert_close(by_hint, ours(x, is_causal=True))
    assert (by_mask - by_hint).abs().max() > 0.5


def test_ones_and_zeros_turn_round_in_one_way_of_three(layer, x):
    ones = to_attention_mask(padding_mask(TOKENS))  # (B, S) integers, as from a tokenizer

    def weights(blocked):
        return layer(x, x, x, key_padding_mask=blocked)[1][1, 0]  # of "dogs" in "dogs ran – – –"

    assert_close(weights(ones.bool())[2:].sum(), torch.tensor(1.0))  # all of it on padding
    assert weights((~ones).bool()).isnan().all()
    assert_close(weights(~ones.bool())[:2].sum(), torch.tensor(1.0))
    right = to_torch_mha(from_attention_mask(ones), SHAPE)["key_padding_mask"]
    assert right.equal(~ones.bool())


def test_a_mask_of_full_shape_is_a_rule_of_flex_attention():
    for mask in MASKS.values():
        whole = mask.expand(SHAPE)
        assert create_mask(lambda b, h, i, j, m=whole: m[b, h, i, j], *SHAPE, device="cpu").equal(
            whole
        )


LOWEST = torch.finfo(torch.float32).min
NOWHERE = torch.zeros(1, 1, 4, 4, dtype=torch.bool)


def by_hand(low):
    return lambda q, layer: (q @ q.mT).masked_fill(~NOWHERE, low).softmax(dim=-1) @ q


def by_function(mask):
    return lambda q, layer: F.scaled_dot_product_attention(q, q, q, mask)


def by_layer(need_weights):
    how = dict(key_padding_mask=torch.ones(1, 4, dtype=torch.bool), need_weights=need_weights)

    def way(q, layer):
        x = q[0]  # the fast path wants one tensor for all three
        return layer(x, x, x, **how)[0]

    return way


WAYS = {
    "softmax, -inf": (by_hand(-math.inf), "NaN"),
    "softmax, -1e9": (by_hand(-1e9), "mean"),
    "softmax, lowest number": (by_hand(LOWEST), "mean"),
    "SDPA, boolean": (by_function(NOWHERE), "zeros"),
    "SDPA, -inf added": (by_function(to_additive(NOWHERE)), "zeros"),
    "SDPA, lowest added": (by_function(torch.full((4, 4), LOWEST)), "mean"),
    "MHA, with weights": (by_layer(True), "NaN"),
    "MHA, without": (by_layer(False), "zeros"),
    "MHA, without, no gradients": (by_layer(False), "zeros"),
    "MHA, fast path": (by_layer(False), "NaN"),
    "attention_weights": (lambda q, layer: attention_weights(q, q, NOWHERE) @ q, "zeros"),
    "attention": (lambda q, layer: attention(q, q, q, NOWHERE), "zeros"),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_a_row_with_nothing_to_attend_to_becomes(name, layer):
    way, verdict = WAYS[name]
    layer.train("fast path" not in name)
    q = torch.randn(1, 1, 4, 8)
    with torch.set_grad_enabled("no gradients" not in name and "fast path" not in name):
        out = way(q, layer)
    if verdict == "mean":
        assert_close(out, q.mean(dim=2, keepdim=True).expand_as(out))
    else:
        assert out.isnan().all() if verdict == "NaN" else out.eq(0).all()


def test_no_mask_hides_a_value_that_is_nan():
    x = torch.randn(1, 1, 4, 6)
    real = padding_mask(torch.tensor([[1, 7, 3, 0]]))  # (1, 1, 1, 4)
    spoilt = x.masked_fill(~real.mT, torch.nan)
    assert attention(x, x, spoilt, real).isnan().all()
    cleared = spoilt.masked_fill(~real.mT, 0.0)
    assert_close(attention(x, x, cleared, real), attention(x, x, x, real))
