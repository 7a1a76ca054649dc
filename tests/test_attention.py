"""Every road to attention gives one answer: loops, written out, fused, and PyTorch's own layer, on axes that all differ."""
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from former_nb.attention import attention
from former_nb.block import TransformerConfig
from former_nb.generator import LanguageModel
from former_nb.masks import causal_mask, combine_masks, padding_mask
from former_nb.multi_head import MultiHeadAttention, mha_from_torch
from former_nb.self_attention import self_attention, self_attention_bmm, self_attention_einsum, self_attention_loops

SHAPES = [(2, 3, 5, 7, 11), (1, 1, 1, 1, 1), (3, 2, 1, 6, 4), (2, 4, 6, 3, 8)]  # B, h, T, S, d_k


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def some_mask(B, h, T, S, seed=0):
    "A random mask whose first query, in the first row of the batch, may attend to nothing."
    mask = torch.rand(B, h, T, S, generator=torch.Generator().manual_seed(seed)) > 0.4
    mask[0, :, 0] = False
    return mask


def test_the_loops_of_lesson_01_equal_the_attention_of_lesson_02():
    x = numbers(2, 5, 3)
    loops = self_attention_loops(x)[0]
    for other in (self_attention_bmm(x)[0], self_attention_einsum(x)[0], self_attention(x)):
        assert_close(other, loops, atol=1e-5, rtol=0)
    q = x * x.shape[-1] ** 0.5  # lesson 01 does not divide by √d_k
    assert_close(attention(q, x, x), loops, atol=1e-5, rtol=0)
    assert_close(attention(q, x, x, need_weights=True)[0], loops, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["no mask", "mask", "causal", "mask and causal"])
@pytest.mark.parametrize("shape", SHAPES)
def test_both_paths_agree_forward_and_backward(shape, kind):
    B, h, T, S, d = shape
    mask = some_mask(B, h, T, S) if "mask" in kind and kind != "no mask" else None
    inputs = [numbers(B, h, n, d, seed=i).requires_grad_() for i, n in enumerate((T, S, S))]
    fused = attention(*inputs, mask, is_causal="causal" in kind)
    written, weights = attention(*inputs, mask, is_causal="causal" in kind, need_weights=True)
    assert_close(fused, written, atol=1e-5, rtol=0)
    sums = weights.sum(-1)
    assert (torch.isclose(sums, torch.ones(())) | (sums == 0)).all()
    for a, b in zip(*(torch.autograd.grad(out.square().sum(), inputs) for out in (fused, written))):
        assert a.isfinite().all()
        assert_close(a, b, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_query_with_nothing_to_attend_to_gives_zeros_on_both_paths(dtype):
    inputs = [numbers(2, 3, n, 8, seed=i).to(dtype).requires_grad_() for i, n in enumerate((5, 7, 7))]
    mask = some_mask(2, 3, 5, 7)
    for out in (attention(*inputs, mask), attention(*inputs, mask, need_weights=True)[0]):
        assert not out[0, :, 0].any()
        grads = torch.autograd.grad(out.float().square().sum(), inputs)
        assert all(g.isfinite().all() for g in grads) and not grads[0][0, :, 0].any()


@pytest.mark.parametrize("heads", [1, 2, 6])
def test_copied_weights_equal_torchs_layer(heads):
    theirs = nn.MultiheadAttention(12, heads, batch_first=True).eval()
    ours, x, memory = mha_from_torch(theirs), numbers(3, 5, 12), numbers(3, 7, 12, seed=1)
    lengths = torch.tensor([7, 4, 2])
    keep = torch.arange(7) < lengths[:, None]  # (B, S)
    assert_close(ours(x), theirs(x, x, x)[0], atol=1e-5, rtol=0)
    expected = theirs(x, memory, memory, key_padding_mask=~keep)[0]
    assert_close(ours(x, memory, mask=keep[:, None, None]), expected, atol=1e-5, rtol=0)
    future = ~causal_mask(5)[0, 0]
    assert_close(ours(x, is_causal=True), theirs(x, x, x, attn_mask=future)[0], atol=1e-5, rtol=0)


@pytest.mark.parametrize("positions", ["learned", "sinusoidal"])
def test_earlier_logits_do_not_move_when_later_tokens_change(positions):
    model = LanguageModel(TransformerConfig(vocab_size=13, max_len=9, d_model=12, n_heads=3, positions=positions)).eval()
    tokens = torch.randint(13, (2, 9), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[:, 5:] = (changed[:, 5:] + 1) % 13
    before, after = model(tokens), model(changed)
    assert torch.equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] != after[:, 5:]).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6), st.integers(0, 99))
def test_no_mask_of_any_shape_makes_a_nan(B, T, S, seed):
    tokens = torch.randint(0, 3, (B, S), generator=torch.Generator().manual_seed(seed))  # 0 is padding
    mask = combine_masks(causal_mask(T, S), padding_mask(tokens))
    q, k, v = (numbers(B, 2, n, 4, seed=seed + n) for n in (T, S, S))
    out, weights = attention(q, k, v, mask, need_weights=True)
    assert out.isfinite().all() and not weights.masked_fill(mask, 0).any()
    assert_close(attention(q, k, v, mask), out, atol=1e-5, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 3), st.integers(2, 6), st.integers(0, 99))
def test_permuting_words_permutes_outputs(B, T, seed):
    layer, x = MultiHeadAttention(8, 2), numbers(B, T, 8, seed=seed)
    order = torch.randperm(T, generator=torch.Generator().manual_seed(seed))
    assert_close(layer(x[:, order]), layer(x)[:, order], atol=1e-5, rtol=0)


def test_dropout_is_off_in_eval():
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), numbers(2, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_the_fused_path_is_torchs_kernel():
    q, k, v = (numbers(2, 3, 5, 8, seed=i) for i in range(3))
    assert torch.equal(attention(q, k, v, is_causal=True), F.scaled_dot_product_attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("need_weights", [False, True])
def test_the_layer_compiles_without_graph_breaks(need_weights):
    layer, x = MultiHeadAttention(8, 2), numbers(2, 5, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_close(compiled(x, is_causal=True, need_weights=need_weights), layer(x, is_causal=True, need_weights=need_weights))


def test_the_layer_exports_for_any_batch_and_length():
    layer = MultiHeadAttention(8, 2).eval()
    sizes = {0: torch.export.Dim("B", min=2, max=64), 1: torch.export.Dim("T", min=2, max=512)}
    program = torch.export.export(layer, (numbers(3, 5, 8),), dynamic_shapes={"x": sizes})
    x = numbers(4, 7, 8)
    assert_close(program.module()(x), layer(x))
