"""The parity wall: written out, fused, a float64 reference and PyTorch's own layer give one
answer, on axes that all differ."""

import copy
import gc
import shutil
import sys
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing import assert_close

from former_nb.attention import attention
from former_nb.block import Block
from former_nb.caches import LayerCache
from former_nb.config import TransformerConfig
from former_nb.core import eval_mode
from former_nb.equivalent_forms import multi_head_folded, multi_head_token_by_token
from former_nb.generator import LanguageModel
from former_nb.guards import merge_masks
from former_nb.mask_formats import to_torch_mha
from former_nb.mask_patterns import document_mask, sliding_window_mask
from former_nb.masks import causal_mask, combine_masks, padding_mask
from former_nb.multi_head import (
    TORCH_NAMES,
    MultiHeadAttention,
    SeparateHeads,
    WideMultiHeadAttention,
    mha_from_torch,
    mha_to_torch,
)
from former_nb.recording import record_attention
from former_nb.relative_positions import ALiBi, RelativeBias, Rotary

SHAPES = [  # B, h, T, S, d_k, d_v
    (2, 3, 5, 7, 11, 13),  # fewer queries than keys
    (2, 4, 6, 3, 8, 5),  # more queries than keys
    (3, 2, 1, 6, 4, 5),  # one query
    (3, 2, 6, 1, 4, 5),  # one key
    (2, 3, 7, 7, 5, 11),  # as many queries as keys
    (1, 1, 1, 1, 1, 1),
]
NEAR = dict(atol=1e-5, rtol=1e-5)


def numbers(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def leaves(*shapes, dtype=torch.float32):
    return [numbers(*shape, seed=i).to(dtype).requires_grad_() for i, shape in enumerate(shapes)]


def qkv(shape):
    B, h, T, S, d_k, d_v = shape
    return leaves((B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v))


def some_mask(*shape, empty=True, seed=0):
    """A random mask; where `empty`, the first query in the first row of the batch may attend to
    nothing."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) > 0.4
    if empty:
        mask[0, ..., 0, :] = False
        return mask
    return mask | (torch.arange(shape[-1]) == 0)


def reference(q, k, v, mask=None, bias=None):
    "Attention in float64, from the formula alone: exponentials, divided by their sum."
    q, k, v = (t.double() for t in (q, k, v))
    scores = torch.einsum("...td,...sd->...ts", q, k) / q.shape[-1] ** 0.5
    scores = scores if bias is None else scores + bias.double()
    exp = (scores - scores.detach().amax(-1, keepdim=True)).exp()
    exp = exp if mask is None else exp * mask
    total = exp.sum(-1, keepdim=True)
    weights = exp / (total + (total == 0))  # 0 / 1 where nothing may be attended to
    return weights @ v, weights


def grads(out, inputs):
    "Gradients for a random direction of the output, so that no error cancels another."
    direction = numbers(*out.shape, seed=99).to(out.dtype)
    return torch.autograd.grad((out * direction).sum(), inputs, retain_graph=True)


def same(ours, theirs, inputs, their_inputs=None, **tolerance):
    "Equal forward, and equal gradients for every input."
    tolerance = tolerance or NEAR
    assert_close(ours, theirs, check_dtype=False, **tolerance)
    for a, b in zip(grads(ours, inputs), grads(theirs, their_inputs or inputs), strict=True):
        assert a.isfinite().all()
        assert_close(a, b, check_dtype=False, **tolerance)


# ---- both paths and float64


@pytest.mark.parametrize("heads", [True, False], ids=["heads", "no heads"])
@pytest.mark.parametrize("kind", ["", "mask", "causal", "bias", "bias, mask, causal"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_both_paths_equal_float64_forward_and_backward(shape, kind, heads):
    B, h, T, S, d_k, d_v = shape
    q, k, v = qkv(shape)
    mask = some_mask(B, h, T, S) if "mask" in kind else None
    bias = numbers(B, h, T, S, seed=7).requires_grad_() if "bias" in kind else None
    if not heads:
        q, k, v = (t[:, 0].detach().requires_grad_() for t in (q, k, v))
        mask = None if mask is None else mask[:, 0]
        bias = None if bias is None else bias[:, 0].detach().requires_grad_()
    causal = torch.ones(T, S).tril(S - T).bool() if "causal" in kind else torch.ones(T, S).bool()
    expected, expected_weights = reference(q, k, v, causal if mask is None else mask & causal, bias)
    inputs = [q, k, v] if bias is None else [q, k, v, bias]
    how = dict(mask=merge_masks(mask, bias), is_causal="causal" in kind)
    same(attention(q, k, v, **how), expected, inputs)
    out, weights = attention(q, k, v, **how, need_weights=True)
    same(out, expected, inputs)
    assert_close(weights, expected_weights.float(), **NEAR)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_stays_near_float64_and_a_query_with_nothing_gives_zeros(dtype):
    near = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2}.get(dtype, 6e-2)
    inputs = leaves((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 13), dtype=dtype)
    mask = some_mask(2, 3, 5, 7)
    shut = torch.zeros(2, 3, 5, 7, dtype=dtype).masked_fill(~mask, float("-inf"))
    for both in (mask, shut, merge_masks(mask, shut)):
        for out in (attention(*inputs, both), attention(*inputs, both, need_weights=True)[0]):
            assert out.dtype == dtype and not out[0, :, 0].any()
            assert not grads(out, inputs)[0][0, :, 0].any()
            same(out, reference(*inputs, mask)[0], inputs, atol=near, rtol=near)


# ---- F.scaled_dot_product_attention


@pytest.mark.parametrize("kind", ["all", "mask", "causal", "bias", "scale"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_scaled_dot_product_attention(shape, kind):
    B, h, T, S, d_k, d_v = shape
    inputs = q, k, v = qkv(shape)
    how, theirs = {}, {}
    if kind == "mask":
        how = dict(mask=some_mask(B, h, T, S, empty=False))
        theirs = dict(attn_mask=how["mask"])
    elif kind == "causal":  # torch aligns at the top left: only T == S can be asked with is_causal
        how = dict(is_causal=True)
        theirs = how if T == S else dict(attn_mask=causal_mask(T, S)[0, 0])
        if T > S:  # rows without keys: torch's answer is zeros as well
            assert not F.scaled_dot_product_attention(q, k, v, **theirs)[:, :, : T - S].any()
    elif kind == "bias":
        how = dict(mask=numbers(B, h, T, S, seed=7).requires_grad_())
        theirs = dict(attn_mask=how["mask"])
        inputs = [*inputs, how["mask"]]
    elif kind == "scale":  # ours is always 1 / √d_k: another scale is one factor on the queries
        theirs = dict(scale=0.3)
        q = q * (0.3 * d_k**0.5)
    expected = F.scaled_dot_product_attention(inputs[0], k, v, **theirs)
    same(attention(q, k, v, **how), expected, inputs)
    same(attention(q, k, v, **how, need_weights=True)[0], expected, inputs)


def test_the_fused_path_is_torchs_kernel():
    q, k, v = (numbers(2, 3, 5, 8, seed=i) for i in range(3))
    for how in ({}, dict(is_causal=True)):
        theirs = F.scaled_dot_product_attention(q, k, v, **how)
        assert torch.equal(attention(q, k, v, **how), theirs)


@pytest.mark.parametrize(("heads", "bias"), [(1, True), (3, False), (6, True)])
def test_heads_in_the_batch_and_token_by_token_equal_the_layer(heads, bias):
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(12, heads, bias=bias), numbers(2, 5, 12).requires_grad_()
    inputs = [x, *layer.parameters()]
    same(multi_head_folded(layer, x), layer(x), inputs)
    same(multi_head_token_by_token(layer, x), layer(x, is_causal=True), inputs)


# ---- nn.MultiheadAttention


def their_layer(heads, bias, dropout=0.0):
    """torch's layer; its biases start at zero, where a wrong bias would not show, so they are drawn
    too."""
    theirs = nn.MultiheadAttention(12, heads, dropout=dropout, bias=bias, batch_first=True)
    with torch.no_grad():
        for i, p in enumerate(theirs.parameters()):
            p.copy_(numbers(*p.shape, seed=50 + i) / 12**0.5)
    return theirs


@pytest.mark.parametrize("direction", ["from torch", "to torch"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("heads", [1, 2, 6])
@pytest.mark.parametrize("call", ["self", "cross", "attn_mask", "key_padding_mask", "both"])
def test_copied_weights_equal_torchs_layer(call, heads, bias, direction):
    theirs = their_layer(heads, bias)
    ours = mha_from_torch(theirs)
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
    own = sorted(ours.named_parameters(), key=lambda item: TORCH_NAMES[item[0]])
    inputs = [*args, *(p for _, p in own)]
    their_inputs = [*args, *(p for _, p in sorted(theirs.named_parameters()))]
    expected, expected_weights = theirs(x, source, source, average_attn_weights=False, **how)
    out, weights = ours(*args, mask=mask, need_weights=True)
    assert_close(weights, expected_weights, **NEAR)
    same(out, expected, inputs, their_inputs)
    same(ours(*args, mask=mask), expected, inputs, their_inputs)
    fused = theirs(x, source, source, need_weights=False, **how)[0]
    same(ours(*args, mask=mask), fused, inputs, their_inputs)


def test_torchs_fast_path_and_causal_hint_give_the_same():
    theirs, x = their_layer(2, True).eval(), numbers(3, 5, 12)
    ours, future = mha_from_torch(theirs), ~causal_mask(5)[0, 0]
    with torch.no_grad():  # the fast path runs in eval mode without gradients only
        assert_close(ours(x), theirs(x, x, x, need_weights=False)[0], **NEAR)
        expected = theirs(x, x, x, attn_mask=future, is_causal=True, need_weights=False)[0]
        assert_close(ours(x, is_causal=True), expected, **NEAR)


TOKENS = torch.tensor([[4, 2, 6, 3, 5], [7, 1, 0, 0, 0]])
CONVERTED = {
    "causal": causal_mask(5),
    "window": sliding_window_mask(5, 2),
    "padding and causal": combine_masks(padding_mask(TOKENS), causal_mask(5)),
    "documents": document_mask(TOKENS // 4),
    "per head": some_mask(2, 3, 5, 5, empty=False),
}


@pytest.mark.parametrize("kind", CONVERTED)
def test_a_converted_mask_means_the_same_to_torchs_layer(kind):
    theirs, x = their_layer(3, True), numbers(2, 5, 12).requires_grad_()
    expected = theirs(x, x, x, **to_torch_mha(CONVERTED[kind], (2, 3, 5, 5)))[0]
    same(mha_from_torch(theirs)(x, mask=CONVERTED[kind]), expected, [x])


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_converting_there_and_back_changes_nothing(bias):
    theirs = their_layer(3, bias, dropout=0.25).eval()
    back = mha_to_torch(mha_from_torch(theirs))
    assert (back.num_heads, back.dropout, back.training, back.batch_first) == (3, 0.25, False, True)
    assert theirs.state_dict().keys() == back.state_dict().keys()
    assert all(torch.equal(t, back.state_dict()[name]) for name, t in theirs.state_dict().items())
    ours = mha_from_torch(theirs.double().train())
    assert ours.training and ours.qkv.weight.dtype == torch.float64 and ours.dropout == 0.25
    ours.qkv.weight.data.zero_()
    assert theirs.in_proj_weight.any()  # a copy, not a view


# ---- positions, grouped heads and the cache


def scheme(name, heads=4, d_k=6):
    return {
        "none": lambda: None,
        "rotary": lambda: Rotary(d_k, 32),
        "rotary interleaved": lambda: Rotary(d_k, 32, layout="interleaved"),
        "alibi": lambda: ALiBi(heads),
        "relative": lambda: RelativeBias(heads, 3),
    }[name]()


def layer_with(name, n_kv_heads=4, **kwargs):
    torch.manual_seed(0)
    layer = MultiHeadAttention(24, 4, n_kv_heads=n_kv_heads, positions=scheme(name), **kwargs)
    if name == "relative":
        layer.positions.table.data.normal_()  # it starts at zero, where nothing would show
    return layer


SCHEMES = ["none", "rotary", "rotary interleaved", "alibi", "relative"]


@pytest.mark.parametrize("chunks", [(1,) * 7, (3, 1, 2, 1), (7,)], ids=str)
@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("name", SCHEMES)
def test_with_a_cache_the_pieces_equal_the_whole(name, n_kv_heads, chunks):
    layer, x = layer_with(name, n_kv_heads), numbers(2, 7, 24)
    whole, weights = layer(x, is_causal=True, need_weights=True)
    # a single query stands at the end: there the hint changes nothing
    for causal in (True, False) if len(chunks) == 7 else (True,):
        fused, written, start = LayerCache(), LayerCache(), 0
        for n in chunks:
            here = slice(start, start + n)
            start += n
            got = layer(x[:, here], is_causal=causal, cache=fused)
            again, w = layer(x[:, here], is_causal=causal, cache=written, need_weights=True)
            assert_close([got, again], [whole[:, here]] * 2, **NEAR)
            assert_close(w, weights[:, :, here, :start], **NEAR)
            assert fused.length == start and fused.k.shape[1] == n_kv_heads


@pytest.mark.parametrize("name", ["alibi", "relative"])
def test_a_bias_given_and_the_bias_of_positions_add_up(name):
    layer, x = layer_with(name, 2), numbers(2, 7, 24).requires_grad_()
    given = numbers(1, 4, 7, 7, seed=3).masked_fill(some_mask(1, 4, 7, 7), float("-inf"))
    plain = layer_with("none", 2)
    plain.load_state_dict({n: t for n, t in layer.state_dict().items() if "positions" not in n})
    q = torch.zeros(2, 4, 7, 6)
    both = given + layer.positions(q, q)[2]
    same(layer(x, mask=given), plain(x, mask=both), [x])
    assert_close(
        layer(x, mask=given, need_weights=True)[1],
        plain(x, mask=both, need_weights=True)[1],
        **NEAR,
    )


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_grouped_heads_equal_the_layer_with_its_keys_and_values_repeated(n_kv_heads):
    grouped, x = layer_with("none", n_kv_heads), numbers(2, 5, 24).requires_grad_()
    full = MultiHeadAttention(24, 4)
    for name in ("weight", "bias"):
        rows = getattr(grouped.qkv, name).detach().split([24, 6 * n_kv_heads, 6 * n_kv_heads])
        q, *kv = (t.unflatten(0, (-1, 6)) for t in rows)
        kv = [t.repeat_interleave(4 // n_kv_heads, dim=0) for t in kv]
        getattr(full.qkv, name).data = torch.cat([q, *kv]).flatten(0, 1)
    full.out.load_state_dict(grouped.out.state_dict())
    for memory in (None, numbers(2, 7, 24, seed=1).requires_grad_()):
        inputs = [x] if memory is None else [x, memory]
        out, weights = full(x, memory, need_weights=True)
        same(grouped(x, memory), out, inputs)
        ours, our_weights = grouped(x, memory, need_weights=True)
        same(ours, out, inputs)
        assert_close(our_weights, weights, **NEAR)


# ---- dropout, and nothing kept


def test_dropout_is_off_in_eval_and_the_weights_returned_are_those_before_it():
    layer, x = MultiHeadAttention(8, 2, dropout=0.5), numbers(2, 5, 8)
    assert not torch.equal(layer(x), layer(x))
    (first, weights), (second, again) = layer(x, need_weights=True), layer(x, need_weights=True)
    assert torch.equal(weights, again) and not torch.equal(first, second)
    assert_close(weights.sum(-1), torch.ones(2, 2, 5))
    with eval_mode(layer):
        assert torch.equal(layer(x), layer(x))
        assert_close(layer(x, need_weights=True)[1], weights)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "written out"])
def test_dropout_keeps_the_mean(need_weights):
    torch.manual_seed(0)
    q, k, v = (numbers(1, 1, 3, 4, seed=i).expand(20_000, 1, 3, 4) for i in range(3))
    out = attention(q, k, v, dropout=0.3, need_weights=need_weights)
    out = out[0] if need_weights else out
    assert_close(out.mean(0), attention(q[:1], k[:1], v[:1])[0], atol=0.03, rtol=0)
    assert (out == 0).all(-1).any()  # all three weights dropped: about 0.3 ** 3 of the rows


@pytest.mark.parametrize("name", ["rotary", "relative"])
@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "written out"])
def test_nothing_is_kept_after_a_forward_pass(need_weights, name):
    layer, x = layer_with(name, dropout=0.1), numbers(2, 5, 24)
    held, kept = {m: set(m.__dict__) for m in layer.modules()}, []

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # an output that its own node holds would never go away
            kept.append(weakref.ref(self))

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        result = layer(x, is_causal=True, need_weights=need_weights)
    watched = [weakref.ref(t) for t in (result if need_weights else [result])]
    assert kept and all(ref() is not None for ref in kept)  # the graph lives as long as the result
    copy.deepcopy(layer)  # a layer that held a part of a graph could not be copied
    assert held == {m: set(m.__dict__) for m in layer.modules()}
    assert not any(t.grad_fn for t in (*layer.parameters(), *layer.buffers()))
    del result
    gc.collect()
    assert not any(ref() is not None for ref in (*kept, *watched))


def test_recording_leaves_no_hook_and_no_graph_behind():
    layer, x = layer_with("rotary"), numbers(2, 5, 24)
    plain = layer(x)
    with record_attention(layer) as weights:
        recorded = layer(x)
    assert isinstance(recorded, torch.Tensor)
    assert_close(recorded, plain, **NEAR)
    assert all(not w.requires_grad for w in weights.values()) and list(weights)
    assert not layer._forward_hooks and not layer._forward_pre_hooks
    assert torch.equal(layer(x), plain)


# ---- compile and export

WAYS = {
    "cross, mask": ({}, dict(memory=(3, 7, 24), mask=True)),
    "bias, wide": (dict(d_k=24), dict(mask="bias", is_causal=True)),
    "rotary, grouped": (dict(name="rotary", n_kv_heads=2), dict(is_causal=True)),
    "alibi": (dict(name="alibi"), dict(is_causal=True, need_weights=True)),
    "relative, mask": (dict(name="relative"), dict(mask=True)),
    "dropout": (dict(dropout=0.2), dict(is_causal=True, need_weights=True)),
}


def way(case, B=3, T=5):
    "A layer, its inputs, and how to call it."
    make, call = WAYS[case]
    layer = layer_with(make.get("name", "none"), **{k: v for k, v in make.items() if k != "name"})
    call, S = dict(call), call["memory"][1] if "memory" in call else T
    if "memory" in call:
        call["memory"] = numbers(B, S, 24, seed=1)
    if "mask" in call:
        bias = call["mask"] == "bias"
        call["mask"] = numbers(B, 4, T, S, seed=2) if bias else some_mask(B, 1, T, S)
    return layer, numbers(B, T, 24), call


@pytest.mark.parametrize("case", WAYS)
def test_the_layer_compiles_without_graph_breaks(case):
    torch._dynamo.reset()
    layer, x, call = way(case)
    compiled, runs = torch.compile(layer, fullgraph=True, backend="aot_eager"), []
    for run in (compiled, layer):
        torch.manual_seed(1)
        runs.append(run(x.requires_grad_(), **call))
    if "need_weights" in call:
        assert_close(runs[0][1], runs[1][1], **NEAR)
        runs = [out for out, _ in runs]
    same(*runs, [x, *layer.parameters()])


@pytest.mark.parametrize("name", ["rotary", "relative"])
@torch.no_grad()
def test_one_compiled_graph_serves_every_batch_and_length(name):
    torch._dynamo.reset()
    layer = layer_with(name)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    compiled(numbers(3, 5, 24), is_causal=True)
    with torch.compiler.set_stance("fail_on_recompile"):
        for B, T in ((2, 7), (4, 6), (3, 31)):
            x = numbers(B, T, 24)
            assert_close(compiled(x, is_causal=True), layer(x, is_causal=True), **NEAR)


@pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("g++") or shutil.which("clang++")),
    reason="needs a C++ compiler",
)
def test_inductor_gives_the_same():
    torch._dynamo.reset()
    layer, x = layer_with("rotary", 2), numbers(2, 7, 24).requires_grad_()
    compiled = torch.compile(layer, fullgraph=True)
    inputs = [x, *layer.parameters()]
    same(compiled(x, is_causal=True), layer(x, is_causal=True), inputs)


@pytest.mark.parametrize("case", [case for case in WAYS if case != "dropout"])
def test_the_layer_exports_for_any_batch_and_length(case):
    layer, x, call = way(case)
    layer.eval()
    B, T, S = (torch.export.Dim(name, min=2, max=30) for name in "BTS")
    sizes = {name: None for name in call} | {"x": {0: B, 1: T}}
    sizes |= {"memory": {0: B, 1: S}} if "memory" in call else {}
    sizes |= {"mask": {0: B, 2: T, 3: S if "memory" in call else T}} if "mask" in call else {}
    program = torch.export.export(layer, (x,), call, dynamic_shapes=sizes).module()
    _, x, call = way(case, B=4, T=9)
    assert_close(program(x, **call), layer(x, **call), **NEAR)


@pytest.mark.parametrize("lowest", [-1e9, torch.finfo(torch.float16).min, -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_biases_at_the_edge_of_the_type_mean_the_same_on_both_paths(dtype, lowest):
    q, k, v = (numbers(2, 2, n, 4, seed=i).to(dtype) for i, n in enumerate((3, 5, 5)))
    bias = numbers(1, 2, 3, 5, seed=3)
    bias[:, 1, 0], bias[..., 1:, 2] = lowest, lowest  # a whole row of one head, and a column
    fused, written = (attention(8 * q, -k, v, bias, need_weights=w) for w in (False, True))
    assert written[0].isfinite().all()
    assert_close(fused, written[0], atol=2e-2 if dtype != torch.float32 else 1e-5, rtol=2e-2)


def test_one_compiled_function_serves_any_number_of_axes_and_heads():
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for heads in ((), (2,), (4,), (6,), (3,)):
        q, k, v = (numbers(2, *heads, 5, 4, seed=i) for i in range(3))
        assert_close(compiled(q, k, v, is_causal=True), attention(q, k, v, is_causal=True))


# ---- separate and wide heads, and vmap


@pytest.mark.parametrize("kind", ["all", "mask", "per head", "causal", "bias", "mask, causal"])
def test_separate_heads_equal_the_layer_and_wide_heads_are_such_a_layer(kind):
    torch.manual_seed(0)
    loop, layer = SeparateHeads(12, 3, 12), WideMultiHeadAttention(12, 3)
    rows = [[getattr(head, name) for head in loop.heads] for name in ("w_q", "w_k", "w_v")]
    with torch.no_grad():
        layer.qkv.weight.copy_(torch.cat([w.weight for part in rows for w in part]))
        layer.qkv.bias.copy_(torch.cat([w.bias for part in rows for w in part]))
        layer.out.load_state_dict(loop.out.state_dict())
    x = numbers(2, 5, 12).requires_grad_()
    mask = {
        "mask": some_mask(2, 1, 5, 5),
        "per head": some_mask(1, 3, 5, 5),
        "bias": numbers(2, 3, 5, 5, seed=7),
        "mask, causal": some_mask(5, 5, empty=False),
    }.get(kind)
    how = dict(mask=mask, is_causal="causal" in kind)
    same(loop(x, **how), layer(x, **how), [x])
    weights = [part(x, **how, need_weights=True)[1] for part in (loop, layer)]
    assert weights[0].shape == (2, 3, 5, 5)
    assert_close(*weights, **NEAR)


def test_wide_heads_work_inside_a_block():
    torch.manual_seed(0)
    block = Block(TransformerConfig(vocab_size=7, max_len=9, d_model=12, n_heads=3)).eval()
    block.attention, x = WideMultiHeadAttention(12, 3), numbers(2, 5, 12)
    whole, cache = block(x, is_causal=True), LayerCache()
    pieces = [block(x[:, i : i + 1], is_causal=True, cache=cache) for i in range(5)]
    assert_close(torch.cat(pieces, dim=1), whole, **NEAR)


@pytest.mark.parametrize("need_weights", [False, True], ids=["fused", "written out"])
@pytest.mark.parametrize("kind", ["all", "mask", "causal", "bias"])
def test_vmap_over_attention_equals_a_loop(kind, need_weights):
    q, k, v = (numbers(4, 2, 3, 5, 6, seed=i) for i in range(3))  # four problems at once
    mask = {"mask": some_mask(4, 2, 3, 5, 5), "bias": numbers(4, 2, 3, 5, 5, seed=7)}.get(kind)

    def one(q, k, v, mask):
        out = attention(q, k, v, mask, is_causal=kind == "causal", need_weights=need_weights)
        return out[0] if need_weights else out

    masks = [None] * 4 if mask is None else mask
    in_dims = (0, 0, 0, None if mask is None else 0)
    looped = torch.stack([one(*four) for four in zip(q, k, v, masks)])
    assert_close(torch.func.vmap(one, in_dims=in_dims)(q, k, v, mask), looped, **NEAR)


def test_vmap_over_the_weights_of_a_language_model_equals_a_loop():
    config = TransformerConfig(vocab_size=13, max_len=9, d_model=12, n_heads=3)
    torch.manual_seed(0)
    models = [LanguageModel(config).eval() for _ in range(3)]
    tokens = torch.randint(13, (2, 7), generator=torch.Generator().manual_seed(0))
    params, buffers = torch.func.stack_module_state(models)
    call = lambda p, b: torch.func.functional_call(models[0], (p, b), (tokens,))
    together = torch.func.vmap(call)(params, buffers)
    assert_close(together, torch.stack([model(tokens) for model in models]), **NEAR)
    each = torch.func.vmap(lambda row: models[0](row[None])[0])(tokens)
    assert_close(each, models[0](tokens), **NEAR)
