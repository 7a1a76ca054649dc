"""Layers of many heads: with a cache, with positions, with shared keys; compiled, exported, and
called with what is wrong."""

import copy
import gc
import shutil
import sys
import weakref

import pytest
import torch
import torch.nn.functional as F
from attention_tools import (
    NEAR,
    Placed,
    layer_edges,
    numbers,
    same,
    some_mask,
    with_weights,
    written,
)
from refusals import counts, every_row, n, refuses, words, yes
from thorough import some, weekly
from torch import nn
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import ALiBi, RelativeBias
from former_nb.base.core import eval_mode
from former_nb.decoding.caches import LayerCache
from former_nb.inspection.recording import Recorder, record_attention
from former_nb.models.build import build_block
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import CrossAttention
from former_nb.models.modern_decoder import GroupedQueryAttention


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


def test_a_layer_with_a_bias_at_its_output_alone():
    layer = MultiHeadAttention(12, 3, bias=False)
    x = numbers(2, 5, 12)
    plain = layer(x)
    weight = layer.w_o.weight
    layer.w_o = nn.Linear(12, 12)
    layer.w_o.weight = weight
    assert [name for name in layer.state_dict() if "bias" in name] == ["w_o.bias"]
    assert_close(layer(x), plain + layer.w_o.bias)


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
        for size in chunks:
            here = slice(start, start + size)
            at = torch.arange(start, start + size)
            start += size
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


# ---- bad input

X = n(2, 5, 12)
LAYER = MultiHeadAttention(12, 3)
TURNED = Placed(LAYER, Rotary(4))
BIASED = Placed(LAYER, ALiBi(3))


def cached(layer, x, batch):
    cache = LayerCache()
    layer(n(batch, 2, 12), attend=cache)
    return layer(x, attend=cache)


TABLE = {
    "MultiHeadAttention": [
        *words(LAYER),
        *layer_edges(LAYER),
        *layer_edges(TURNED),
        (
            "another shape",
            lambda: LAYER(X, attend=lambda q, k, v, *rest: v[..., 1:]),
            ValueError,
            "attend",
        ),
        ("no output", lambda: LAYER(X, attend=lambda *qkv: None), TypeError, "attend", "NoneType"),
        ("an option", lambda: LAYER(X, need_weights=True), TypeError, "", "need_weights"),
        ("mask", lambda: LAYER(X, mask=yes(2, 5, 5)), ValueError, "mask", "(2, 5, 5)"),
        (
            "a mask read two ways",
            lambda: BIASED(n(5, 5, 12), mask=yes(5, 5)),
            ValueError,
            "mask",
            "(5, 5)",
        ),
        (
            "a cache of another batch",
            lambda: cached(LAYER, X, 3),
            ValueError,
            "tokens",
            "2",
        ),
        ("heads", lambda: MultiHeadAttention(12, 5), ValueError, "d_model", "12"),
        *counts("n_heads", lambda value: MultiHeadAttention(12, value)),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
