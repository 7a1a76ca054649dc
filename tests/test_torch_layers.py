"""Weights of PyTorch's layer in ours and back: equal numbers and equal gradients."""

import pytest
import torch
from attention_tools import NEAR, grads, leaves, numbers, same, some_mask, written
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.attention.masks import causal_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.torch_layers import mha_from_torch, mha_to_torch
from former_nb.inspection.recording import Recorder
from former_nb.models.encoder_decoder import CrossAttention
from former_nb.models.modern_decoder import GroupedQueryAttention


def their_layer(heads, bias, dropout=0.0):
    """torch's layer; its biases start at zero, where a wrong bias would not show, so they are drawn
    too."""
    theirs = nn.MultiheadAttention(12, heads, dropout=dropout, bias=bias, batch_first=True)
    with torch.no_grad():
        for i, p in enumerate(theirs.parameters()):
            p.copy_(numbers(*p.shape, seed=50 + i) / 12**0.5)
    return theirs


def same_weights(out, expected, ours, theirs):
    "Equal gradients for every weight: theirs has those of queries, keys and values in one tensor."
    for name in ("weight", "bias") if ours.w_q.bias is not None else ("weight",):
        inputs = [getattr(layer, name) for layer in (ours.w_q, ours.w_k, ours.w_v)]
        together = torch.cat(grads(out, inputs))
        assert_close(together, *grads(expected, [getattr(theirs, f"in_proj_{name}")]), **NEAR)
        last = grads(out, [getattr(ours.w_o, name)])
        assert_close(last, grads(expected, [getattr(theirs.out_proj, name)]), **NEAR)


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("call", ["self", "cross", "attn_mask", "key_padding_mask", "both"])
def test_copied_weights_equal_torchs_layer(call, heads, bias, direction):
    theirs = their_layer(heads, bias)
    ours = mha_from_torch(theirs, MultiHeadAttention if call == "self" else CrossAttention)
    theirs = mha_to_torch(ours) if direction == "to torch" else theirs
    B, T, S = (3, 5, 5) if call == "self" else (3, 5, 7)
    x, memory = leaves((B, T, 12), (B, S, 12))
    source = x if call == "self" else memory
    mask, how = None, {}
    if call in ("attn_mask", "both"):  # theirs: per query and key, and per head of each row
        mask = some_mask(B, heads, T, S, empty=False)
        how["attn_mask"] = ~mask.flatten(0, 1)
    if call in ("key_padding_mask", "both"):
        keep = torch.arange(S) < torch.tensor([S, 4, 2])[:, None]  # (B, S)
        how["key_padding_mask"] = ~keep
        mask = keep[:, None, None] if mask is None else mask & keep[:, None, None]
    args = (x,) if call == "self" else (x, memory)
    expected, expected_weights = theirs(x, source, source, average_attn_weights=False, **how)
    fused = theirs(x, source, source, need_weights=False, **how)[0]
    weights = []
    out = ours(*args, mask=mask, attend=Recorder(weights.append))
    assert_close(weights, [expected_weights], **NEAR)
    for found in (out, ours(*args, attend=written, mask=mask), ours(*args, mask=mask)):
        for wanted in (expected, fused):
            same(found, wanted, list(args))
            same_weights(found, wanted, ours, theirs)


def test_torchs_fast_path_and_causal_hint_give_the_same():
    theirs, x = their_layer(2, True).eval(), numbers(3, 5, 12)
    ours, future = mha_from_torch(theirs), ~causal_mask(5)[0, 0]
    with torch.no_grad():  # the fast path runs in eval mode without gradients only
        assert_close(ours(x), theirs(x, x, x, need_weights=False)[0], **NEAR)
        expected = theirs(x, x, x, attn_mask=future, is_causal=True, need_weights=False)[0]
        assert_close(ours(x, is_causal=True), expected, **NEAR)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_converting_there_and_back_changes_nothing(bias):
    theirs = their_layer(3, bias, dropout=0.25).eval()
    back = mha_to_torch(mha_from_torch(theirs), dropout=0.25)
    assert (back.num_heads, back.dropout, back.training, back.batch_first) == (3, 0.25, False, True)
    assert theirs.state_dict().keys() == back.state_dict().keys()
    assert all(torch.equal(t, back.state_dict()[name]) for name, t in theirs.state_dict().items())
    ours = mha_from_torch(theirs.double().train())
    assert ours.training and ours.w_q.weight.dtype == torch.float64
    ours.w_q.weight.data.zero_()
    assert theirs.in_proj_weight.any()  # a copy, not a view


# ---- bad input

LAYER = MultiHeadAttention(12, 3)
GROUPED = GroupedQueryAttention(12, 6, 2)


def theirs(**kwargs):
    return nn.MultiheadAttention(12, 3, **{"batch_first": True} | kwargs)


TABLE = {
    "mha_from_torch": [
        *(
            (str(how), lambda how=how: mha_from_torch(theirs(**how)), ValueError, "theirs")
            for how in (dict(batch_first=False), dict(kdim=8))
        ),
        ("bias_kv", lambda: mha_from_torch(theirs(add_bias_kv=True)), ValueError, "theirs"),
        ("zeros", lambda: mha_from_torch(theirs(add_zero_attn=True)), ValueError, "theirs"),
        ("our own layer", lambda: mha_from_torch(LAYER), TypeError, "theirs"),
    ],
    "mha_to_torch": [
        ("grouped heads", lambda: mha_to_torch(GROUPED), ValueError, "ours"),
        ("wide", lambda: mha_to_torch(GroupedQueryAttention(12, 3, d_k=5)), ValueError, "ours"),
        ("torch's layer", lambda: mha_to_torch(theirs()), TypeError, "ours"),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
