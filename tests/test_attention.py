"""The parity wall: the lesson's attention, written out, fused, a float64 reference and PyTorch's
own layer give one answer, on axes that all differ."""

import copy
import gc
import shutil
import sys
import weakref
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from attention_tools import Placed, with_weights, written
from refusals import refuses
from thorough import some, weekly
from torch import nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from former_nb.attention import dot_product
from former_nb.attention.angle_tables import Rotary
from former_nb.attention.flash import block_attention
from former_nb.attention.fused import attention, attention_weights, merge_masks
from former_nb.attention.masks import causal_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import ALiBi, RelativeBias
from former_nb.attention.torch_layers import mha_from_torch, mha_to_torch
from former_nb.base.core import eval_mode
from former_nb.decoding.caches import LayerCache, SlidingWindow
from former_nb.inspection.recording import Recorder, record_attention
from former_nb.models.build import build_block
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import CrossAttention
from former_nb.models.modern_decoder import GroupedQueryAttention
from former_nb.models.savable import LanguageModel

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
def test_all_paths_equal_float64_forward_and_backward(shape, kind, heads):
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
    same(written(q, k, v, **how), expected, inputs)
    assert_close(attention_weights(q, k, **how), expected_weights.float(), **NEAR)
    if bias is None:  # the lesson's takes True and False
        same(dot_product.attention(q, k, v, **how), expected, inputs)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_stays_near_float64_and_a_query_with_nothing_gives_zeros(dtype):
    near = {torch.float64: 1e-12, torch.float32: 1e-5, torch.float16: 1e-2}.get(dtype, 6e-2)
    inputs = leaves((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 13), dtype=dtype)
    mask = some_mask(2, 3, 5, 7)
    shut = torch.zeros(2, 3, 5, 7, dtype=dtype).masked_fill(~mask, float("-inf"))
    for both in (mask, shut, merge_masks(mask, shut)):
        for out in (attention(*inputs, both), written(*inputs, both)):
            assert out.dtype == dtype and not out[0, :, 0].any()
            assert not grads(out, inputs)[0][0, :, 0].any()
            same(out, reference(*inputs, mask)[0], inputs, atol=near, rtol=near)


# ---- F.scaled_dot_product_attention


def bf16_inputs(T=7, dtype=torch.bfloat16):
    "Queries, keys and values with gradients, as layers under autocast give them."
    return [numbers(2, 4, T, 16, seed=seed).to(dtype).requires_grad_() for seed in (1, 2, 3)]


def kernel_types(run):
    "In which types the kernels of attention compute that `run` calls."
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if "attention" in function.__name__:
                seen.append(args[0].dtype)
            return function(*args, **(kwargs or {}))

    with Watch():
        run()
    return set(seen)


OPTIONS = {
    "all": {},
    "causal": dict(is_causal=True),
    "mask": dict(mask=numbers(2, 1, 7, 7) > 0),
    "bias": dict(mask=numbers(2, 4, 7, 7).bfloat16(), is_causal=True),
    "scale": dict(scale=0.3),
}


@pytest.mark.parametrize("kind", OPTIONS)
def test_in_bf16_autocast_on_a_cpu_short_rows_attend_in_float32(kind):
    "Values and gradients are those of float32, rounded once; what calls PyTorch itself stays bf16."
    options = OPTIONS[kind]
    inputs = bf16_inputs()
    g = numbers(2, 4, 7, 16, seed=4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        y = attention(*inputs, **options)
        assert F.scaled_dot_product_attention(*inputs).dtype == torch.bfloat16
    assert y.dtype == torch.bfloat16
    gradients = torch.autograd.grad(y, inputs, g)
    exact = [t.detach().float().requires_grad_() for t in inputs]
    theirs = attention(*exact, **options)
    assert y.equal(theirs.bfloat16())
    for ours, true in zip(gradients, torch.autograd.grad(theirs, exact, g.float())):
        assert ours.equal(true.bfloat16())


def test_bf16_autocast_takes_float32_where_it_is_faster_and_nowhere_else(monkeypatch):
    "Not without gradients, in float64, in float16, for long rows, compiled, or outside autocast."

    def types(inputs, to=torch.bfloat16, enabled=True, grad=True):
        def run():
            with torch.autocast("cpu", to, enabled=enabled), torch.set_grad_enabled(grad):
                y = attention(*inputs)
            if grad:
                y.sum().backward()

        return kernel_types(run)

    short = bf16_inputs()
    for amx, longest in ((True, 12_288 // 16), (False, 511)):
        monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda amx=amx: amx)
        assert types(bf16_inputs(longest)) == {torch.float32}
        assert types(bf16_inputs(longest + 1)) == {torch.bfloat16}
    assert types(short, grad=False) == types(short, enabled=False) == {torch.bfloat16}
    assert types(bf16_inputs(dtype=torch.float32)) == {torch.float32}  # as rotary positions are
    assert types(bf16_inputs(dtype=torch.float64)) == {torch.float64}
    assert types(bf16_inputs(dtype=torch.float32), to=torch.float16) == {torch.float16}


def test_a_model_compiles_without_graph_breaks_under_bf16_autocast():
    torch._dynamo.reset()
    model = LanguageModel.from_config(TransformerConfig(7, 8, 16, 2, 1, dropout=0.0))
    tokens = torch.randint(7, (2, 8))
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    with torch.autocast("cpu", torch.bfloat16):
        assert_close(compiled(tokens), model(tokens), atol=0.02, rtol=0.02)


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
    elif kind == "scale":
        how = theirs = dict(scale=0.3)
    expected = F.scaled_dot_product_attention(inputs[0], k, v, **theirs)
    same(attention(q, k, v, **how), expected, inputs)
    same(written(q, k, v, **how), expected, inputs)


def test_a_scale_is_a_factor_on_the_queries():
    q, k, v = (numbers(2, 4, 6, 8, seed=i) for i in range(3))
    factor = 0.3 * 8**0.5  # the usual scale is 1 / √8
    around = {
        "fused": attention,
        "written": written,
        "tiles": partial(block_attention, is_causal=True),
        "a recorder": Recorder(lambda weights: None),
    }
    for name, attend in around.items():
        expected = attend(factor * q, k, v)
        assert_close(attend(q, k, v, scale=0.3), expected, msg=lambda m, n=name: f"{n}: {m}")
        assert not torch.allclose(attend(q, k, v), expected, atol=1e-3), name
    scaled = partial(attention, scale=0.3)  # within whatever is around it
    for make in (LayerCache, partial(SlidingWindow, 3)):
        assert_close(make(attend=scaled)(q, k, v), make()(factor * q, k, v))


def test_a_layer_with_a_bias_at_its_output_alone():
    layer = MultiHeadAttention(12, 3, bias=False)
    x = numbers(2, 5, 12)
    plain = layer(x)
    weight = layer.w_o.weight
    layer.w_o = nn.Linear(12, 12)
    layer.w_o.weight = weight
    assert [name for name in layer.state_dict() if "bias" in name] == ["w_o.bias"]
    assert_close(layer(x), plain + layer.w_o.bias)


def test_the_fused_path_is_torchs_kernel():
    q, k, v = (numbers(2, 3, 5, 8, seed=i) for i in range(3))
    for how in ({}, dict(is_causal=True)):
        theirs = F.scaled_dot_product_attention(q, k, v, **how)
        assert torch.equal(attention(q, k, v, **how), theirs)


# ---- nn.MultiheadAttention


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


TOKENS = torch.tensor([[4, 2, 6, 3, 5], [7, 1, 0, 0, 0]])


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


# ---- positions, grouped heads and the cache


def scheme(name, heads=4, d_k=6):
    return {
        "none": lambda: None,
        "rotary": lambda: Rotary(d_k),
        "alibi": lambda: ALiBi(heads),
        "relative": lambda: RelativeBias(heads, 3),
    }[name]()


def layer_with(name, n_kv_heads=4, d_k=None):
    torch.manual_seed(0)
    layer = Placed(GroupedQueryAttention(24, 4, n_kv_heads, d_k), scheme(name))
    if name == "relative":
        layer.positions.table.data.normal_()  # it starts at zero, where nothing would show
    return layer


SCHEMES = ["none", "rotary", "alibi", "relative"]


@pytest.mark.parametrize("chunks", [(1,) * 7, (3, 1, 2, 1), (7,)], ids=str)
@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
@pytest.mark.parametrize("name", SCHEMES)
def test_with_a_cache_the_pieces_equal_the_whole(name, n_kv_heads, chunks):
    layer, x = layer_with(name, n_kv_heads), numbers(2, 7, 24)
    whole, weights = with_weights(layer, x, is_causal=True)
    # a single query stands at the end: there the hint changes nothing
    for causal in (True, False) if len(chunks) == 7 else (True,):
        kept = []
        fused, recorded, start = LayerCache(), LayerCache(attend=Recorder(kept.append, written)), 0
        for n in chunks:
            here = slice(start, start + n)
            at = torch.arange(start, start + n)
            start += n
            got = layer(x[:, here], attend=fused, positions=at, is_causal=causal)
            again = layer(x[:, here], attend=recorded, positions=at, is_causal=causal)
            assert_close([got, again], [whole[:, here]] * 2, **NEAR)
            assert_close(kept[-1], weights[:, :, here, :start], **NEAR)
            assert fused.length == start and fused.k.shape[1] == n_kv_heads


@pytest.mark.parametrize("name", ["alibi", "relative"])
def test_a_bias_given_and_the_bias_of_positions_add_up(name):
    layer, x = layer_with(name, 2), numbers(2, 7, 24).requires_grad_()
    given = numbers(1, 4, 7, 7, seed=3).masked_fill(some_mask(1, 4, 7, 7), float("-inf"))
    plain = layer_with("none", 2)
    plain.layer.load_state_dict(layer.layer.state_dict())
    both = given + layer.positions.bias(7, 7)
    same(layer(x, mask=given), plain(x, mask=both), [x])
    ours, theirs = with_weights(layer, x, mask=given), with_weights(plain, x, mask=both)
    assert_close(ours, theirs, **NEAR)


@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_grouped_heads_equal_the_layer_with_its_keys_and_values_repeated(n_kv_heads):
    torch.manual_seed(0)
    grouped, x = GroupedQueryAttention(24, 4, n_kv_heads), numbers(2, 5, 24).requires_grad_()
    full = MultiHeadAttention(24, 4)
    state = grouped.state_dict()
    for name in ("w_k.weight", "w_k.bias", "w_v.weight", "w_v.bias"):
        heads = state[name].unflatten(0, (-1, 6)).repeat_interleave(4 // n_kv_heads, dim=0)
        state[name] = heads.flatten(0, 1)
    full.load_state_dict(state)
    for mask in (None, some_mask(2, 4, 5, 5)):
        out, weights = with_weights(full, x, mask=mask)
        same(grouped(x, mask=mask), out, [x])
        ours, our_weights = with_weights(grouped, x, mask=mask)
        same(ours, out, [x])
        assert_close(our_weights, weights, **NEAR)


# ---- dropout, and nothing kept


def test_dropout_is_off_in_eval_and_the_weights_recorded_are_those_before_it():
    config = TransformerConfig(7, 9, 8, 2, dropout=0.5)
    block, x = build_block(config), numbers(2, 5, 8)
    assert not torch.equal(block(x), block(x))
    (first, weights), (second, again) = with_weights(block, x), with_weights(block, x)
    assert torch.equal(weights, again) and not torch.equal(first, second)
    assert_close(weights.sum(-1), torch.ones(2, 2, 5))
    with eval_mode(block):
        assert torch.equal(block(x), block(x))
        assert_close(with_weights(block, x)[1], weights)


@pytest.mark.parametrize("name", ["rotary", "relative"])
@pytest.mark.parametrize("attend", [attention, written])
def test_nothing_is_kept_after_a_forward_pass(attend, name):
    layer, x = layer_with(name), numbers(2, 5, 24)
    held, kept = {m: set(m.__dict__) for m in layer.modules()}, []

    class Saved:
        def __init__(self, tensor):
            self.tensor = tensor.detach()  # an output that its own node holds would never go away
            kept.append(weakref.ref(self))

    with torch.autograd.graph.saved_tensors_hooks(Saved, lambda saved: saved.tensor):
        result = layer(x, attend=attend, is_causal=True)
    watched = [weakref.ref(result)]
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
    "alibi": (dict(name="alibi"), dict(is_causal=True)),
    "relative, mask": (dict(name="relative"), dict(mask=True)),
}


def way(case, B=3, T=5):
    "A layer, its inputs, and how to call it."
    make, call = WAYS[case]
    layer = layer_with(make.get("name", "none"), **{k: v for k, v in make.items() if k != "name"})
    if "memory" in call:
        layer = CrossAttention(24, 4)
    call, S = dict(call), call["memory"][1] if "memory" in call else T
    if "memory" in call:
        call["memory"] = numbers(B, S, 24, seed=1)
    if "mask" in call:
        bias = call["mask"] == "bias"
        call["mask"] = numbers(B, 4, T, S, seed=2) if bias else some_mask(B, 1, T, S)
    return layer, numbers(B, T, 24), call


@pytest.mark.parametrize("case", some(WAYS, 2))
def test_the_layer_compiles_without_graph_breaks(case):
    torch._dynamo.reset()
    layer, x, call = way(case)
    compiled, runs = torch.compile(layer, fullgraph=True, backend="aot_eager"), []
    for run in (compiled, layer):
        torch.manual_seed(1)
        runs.append(run(x.requires_grad_(), **call))
    same(*runs, [x, *layer.parameters()])


@pytest.mark.parametrize("name", ["rotary", "relative"])
@torch.no_grad()
def test_one_compiled_graph_serves_every_batch_and_length(name):
    torch._dynamo.reset()
    layer = layer_with(name)
    compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
    compiled(numbers(4, 5, 24), is_causal=True)  # PyTorch takes equal sizes for one; d_k / 2 is 3
    with torch.compiler.set_stance("fail_on_recompile"):
        for B, T in ((2, 7), (4, 6), (3, 31)):
            x = numbers(B, T, 24)
            assert_close(compiled(x, is_causal=True), layer(x, is_causal=True), **NEAR)


@pytest.mark.skipif(
    sys.platform != "linux" or not (shutil.which("g++") or shutil.which("clang++")),
    reason="needs a C++ compiler",
)
@weekly
def test_inductor_gives_the_same():
    torch._dynamo.reset()
    layer, x = layer_with("rotary", 2), numbers(2, 7, 24).requires_grad_()
    compiled = torch.compile(layer, fullgraph=True)
    inputs = [x, *layer.parameters()]
    same(compiled(x, is_causal=True), layer(x, is_causal=True), inputs)


class Named(nn.Module):
    "A layer whose options have names, as `torch.export` wants them."

    def __init__(self, layer, **options):
        super().__init__()
        self.layer, self.options = layer, options

    def forward(self, x, memory=None, mask=None):
        inputs = (x,) if memory is None else (x, memory)
        return self.layer(*inputs, mask=mask, **self.options)


@pytest.mark.parametrize("case", some(WAYS, 2, 1))
def test_the_layer_exports_for_any_batch_and_length(case):
    layer, x, call = way(case)
    tensors = {name: call.pop(name) for name in ("memory", "mask") if name in call}
    layer = Named(layer, **call).eval()
    B, T, S = (torch.export.Dim(name, min=2, max=30) for name in "BTS")
    sizes = {"x": {0: B, 1: T}}
    sizes |= {"memory": {0: B, 1: S}} if "memory" in tensors else {}
    keys = S if "memory" in tensors else T
    sizes |= {"mask": {0: B, 2: T, 3: keys}} if "mask" in tensors else {}
    program = torch.export.export(layer, (x,), tensors, dynamic_shapes=sizes).module()
    _, x, call = way(case, B=4, T=9)
    tensors = {name: call[name] for name in tensors}
    assert_close(program(x, **tensors), layer(x, **tensors), **NEAR)


@pytest.mark.parametrize("lowest", [-1e9, torch.finfo(torch.float16).min, -float("inf")])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_biases_at_the_edge_of_the_type_mean_the_same_on_both_paths(dtype, lowest):
    q, k, v = (numbers(2, 2, n, 4, seed=i).to(dtype) for i, n in enumerate((3, 5, 5)))
    bias = numbers(1, 2, 3, 5, seed=3)
    bias[:, 1, 0], bias[..., 1:, 2] = lowest, lowest  # a whole row of one head, and a column
    fused, by_hand = attention(8 * q, -k, v, bias), written(8 * q, -k, v, bias)
    assert by_hand.isfinite().all()
    assert_close(fused, by_hand, atol=2e-2 if dtype != torch.float32 else 1e-5, rtol=2e-2)


def test_one_compiled_function_serves_any_number_of_axes_and_heads():
    torch._dynamo.reset()
    compiled = torch.compile(attention, fullgraph=True, backend="aot_eager")
    for heads in ((), (2,), (4,), (6,), (3,)):
        q, k, v = (numbers(2, *heads, 5, 4, seed=i) for i in range(3))
        assert_close(compiled(q, k, v, is_causal=True), attention(q, k, v, is_causal=True))


# ---- wide heads, a function of one's own, and vmap


@pytest.mark.parametrize("kind", ["all", "mask", "per head", "causal", "bias", "mask, causal"])
def test_the_layer_equals_its_heads_one_by_one(kind):
    torch.manual_seed(0)
    layer, x = GroupedQueryAttention(12, 3, d_k=12), numbers(2, 5, 12).requires_grad_()
    mask = {
        "mask": some_mask(2, 1, 5, 5),
        "per head": some_mask(1, 3, 5, 5),
        "bias": numbers(2, 3, 5, 5, seed=7),
        "mask, causal": some_mask(5, 5, empty=False),
    }.get(kind)
    is_causal, total = "causal" in kind, layer.w_o.bias
    for i, rows in enumerate(torch.arange(36).split(12)):
        q, k, v = (
            F.linear(x, w.weight[rows], w.bias[rows]) for w in (layer.w_q, layer.w_k, layer.w_v)
        )
        own = mask
        if mask is not None and mask.ndim == 4:
            own = mask.expand(-1, 3, -1, -1)[:, i]
        total = total + attention(q, k, v, own, is_causal) @ layer.w_o.weight[:, rows].T
    same(layer(x, mask=mask, is_causal=is_causal), total, [x, *layer.parameters()])


def test_wide_heads_work_inside_a_block():
    torch.manual_seed(0)
    block = build_block(
        TransformerConfig(vocab_size=7, max_len=9, d_model=12, n_heads=3, d_k=12)
    ).eval()
    x = numbers(2, 5, 12)
    whole, cache = block(x, is_causal=True), LayerCache()
    pieces = [block(x[:, i : i + 1], attend=cache, is_causal=True) for i in range(5)]
    assert_close(torch.cat(pieces, dim=1), whole, **NEAR)


@pytest.mark.parametrize("kind", [MultiHeadAttention, CrossAttention])
def test_an_attend_that_gives_another_shape_is_named(kind):
    x = numbers(2, 5, 12)
    inputs = (x, x) if kind is CrossAttention else (x,)
    for attend, error, came in [
        (lambda q, k, v, *rest: v[..., :2], ValueError, "(2, 3, 5, 2)"),
        (lambda q, k, v, *rest: (v, q), TypeError, "tuple"),
        (lambda q, k, v, *rest: None, TypeError, "NoneType"),
    ]:
        refuses(lambda: kind(12, 3)(*inputs, attend=attend), error, "attend", came)


@pytest.mark.parametrize("attend", [attention, written])
@pytest.mark.parametrize("kind", ["all", "mask", "causal", "bias"])
def test_vmap_over_attention_equals_a_loop(kind, attend):
    q, k, v = (numbers(4, 2, 3, 5, 6, seed=i) for i in range(3))  # four problems at once
    mask = {"mask": some_mask(4, 2, 3, 5, 5), "bias": numbers(4, 2, 3, 5, 5, seed=7)}.get(kind)

    def one(q, k, v, mask):
        return attend(q, k, v, mask, is_causal=kind == "causal")

    masks = [None] * 4 if mask is None else mask
    in_dims = (0, 0, 0, None if mask is None else 0)
    looped = torch.stack([one(*four) for four in zip(q, k, v, masks)])
    assert_close(torch.func.vmap(one, in_dims=in_dims)(q, k, v, mask), looped, **NEAR)


def test_vmap_over_the_weights_of_a_language_model_equals_a_loop():
    config = TransformerConfig(vocab_size=13, max_len=9, d_model=12, n_heads=3)
    torch.manual_seed(0)
    models = [LanguageModel.from_config(config).eval() for _ in range(3)]
    tokens = torch.randint(13, (2, 7), generator=torch.Generator().manual_seed(0))
    params, buffers = torch.func.stack_module_state(models)
    call = lambda p, b: torch.func.functional_call(models[0], (p, b), (tokens,))
    together = torch.func.vmap(call)(params, buffers)
    assert_close(together, torch.stack([model(tokens) for model in models]), **NEAR)
    each = torch.func.vmap(lambda row: models[0](row[None])[0])(tokens)
    assert_close(each, models[0](tokens), **NEAR)
