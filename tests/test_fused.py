"""The parity wall: the lesson's attention, written out, fused, a float64 reference and PyTorch's
own layer give one answer, on axes that all differ."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from attention_tools import NEAR, grads, leaves, numbers, same, some_mask, written
from refusals import INF, NAN, every_row, fine, n, nan_only_at, shape, spoilt, yes, zeros
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from former_nb.attention import dot_product
from former_nb.attention.dot_product import AttentionHead, attention_loops
from former_nb.attention.flash import block_attention
from former_nb.attention.fused import (
    attention,
    attention_weights,
    full_mask,
    masked_softmax,
    merge_masks,
)
from former_nb.attention.masks import causal_mask
from former_nb.decoding.caches import LayerCache, SlidingWindow
from former_nb.inspection.recording import Recorder
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

SHAPES = [  # B, h, T, S, d_k, d_v
    (2, 3, 5, 7, 11, 13),  # fewer queries than keys
    (2, 4, 6, 3, 8, 5),  # more queries than keys
    (3, 2, 1, 6, 4, 5),  # one query
    (3, 2, 6, 1, 4, 5),  # one key
    (2, 3, 7, 7, 5, 11),  # as many queries as keys
    (1, 1, 1, 1, 1, 1),
]


def qkv(shape):
    B, h, T, S, d_k, d_v = shape
    return leaves((B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v))


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


def test_the_fused_path_is_torchs_kernel():
    q, k, v = (numbers(2, 3, 5, 8, seed=i) for i in range(3))
    for how in ({}, dict(is_causal=True)):
        theirs = F.scaled_dot_product_attention(q, k, v, **how)
        assert torch.equal(attention(q, k, v, **how), theirs)


# ---- compile and export


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


# ---- bad input

Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 4, seed=2)
X = n(2, 5, 12)
HEAD = AttentionHead(12, 4)


def attention_edges(f):
    "Sizes of zero, and masks that allow nothing; `f` gives the output."
    none, empty = (n(2, 3, 0, 8), n(2, 3, 0, 4)), n(2, 3, 0, 8)
    two_keys = lambda: f(Q, K[:, :, :2], V[:, :, :2], is_causal=True)
    return [
        ("T = 0", lambda: f(empty, K, V), shape(2, 3, 0, 4)),
        ("S = 0", lambda: f(Q, *none), zeros(2, 3, 5, 4)),
        ("S = 0 and a mask", lambda: f(Q, *none, yes(2, 1, 5, 0)), zeros(2, 3, 5, 4)),
        ("S = 0 and a bias", lambda: f(Q, *none, n(1, 3, 5, 0)), zeros(2, 3, 5, 4)),
        ("S = 0, causal", lambda: f(Q, *none, is_causal=True), zeros(2, 3, 5, 4)),
        ("T = S = 0, causal", lambda: f(empty, *none, is_causal=True), shape(2, 3, 0, 4)),
        ("B = 0 and a mask", lambda: f(Q[:0], K[:0], V[:0], yes(5, 7)), shape(0, 3, 5, 4)),
        ("d_v = 0", lambda: f(Q, K, n(2, 3, 7, 0)), shape(2, 3, 5, 0)),
        ("nothing allowed", lambda: f(Q, K, V, ~yes(2, 1, 5, 7)), zeros(2, 3, 5, 4)),
        ("a bias that forbids all", lambda: f(Q, K, V, n(5, 7) - INF), zeros(2, 3, 5, 4)),
        ("more queries than keys", lambda: two_keys()[:, :, :3], zeros(2, 3, 3, 4)),
        ("NaN in a query", lambda: f(spoilt(Q, 0, 1, 2), K, V), nan_only_at(0, 1, 2)),
    ]


TABLE = {
    "attention_loops": [
        ("S = 7", lambda: attention_loops(Q[0, 0], K[0, 0], V[0, 0]), shape(5, 4)),
    ],
    "masked_softmax": [
        ("T = 0", lambda: masked_softmax(n(2, 0, 7), yes(0, 7)), shape(2, 0, 7)),
        ("S = 0", lambda: masked_softmax(n(2, 5, 0), yes(5, 0)), shape(2, 5, 0)),
        ("nothing allowed", lambda: masked_softmax(n(5, 7), ~yes(7)), zeros(5, 7)),
        ("all at -inf", lambda: masked_softmax(n(5, 7), n(5, 7) - INF), zeros(5, 7)),
    ],
    "merge_masks": [
        ("nothing", lambda: merge_masks(None, None), lambda mask: mask is None),
        ("one", lambda: merge_masks(None, yes(5)), lambda mask: bool(mask.all())),
        ("rules", lambda: merge_masks(yes(5), ~yes(1)), lambda mask: not mask.any()),
        ("biases", lambda: merge_masks(n(5), -n(1, 5)), zeros(1, 5)),
        ("both", lambda: merge_masks(n(5), ~yes(1)), lambda mask: bool(mask.isneginf().all())),
        ("turned", lambda: merge_masks(~yes(1), n(5)), lambda mask: bool(mask.isneginf().all())),
    ],
    "full_mask": [
        ("nothing", lambda: full_mask(Q, K, None, False), fine),
        ("one query", lambda: full_mask(Q[:, :, :1], K, None, True), fine),
        ("half", lambda: full_mask(Q.half(), K, n(5, 7), True).dtype, lambda t: t == torch.half),
    ],
    "attention": [
        ("q of rank 2", lambda: attention(n(5, 8), K, V), ValueError, "q"),
        ("scale", lambda: attention(Q, K, V, scale="2"), TypeError, "scale"),
        ("scale NaN", lambda: attention(Q, K, V, scale=NAN), ValueError, "scale", "nan"),
        *attention_edges(attention),
        *attention_edges(written),
    ],
    "attention_weights": [
        ("q of rank 2", lambda: attention_weights(n(5, 8), K), ValueError, "q"),
        ("k", lambda: attention_weights(Q, n(4, 3, 7, 8)), ValueError, "k", "(4, 3"),
        ("mask", lambda: attention_weights(Q, K, yes(7, 5)), ValueError, "mask"),
        ("scale", lambda: attention_weights(Q, K, scale=True), TypeError, "scale"),
        ("T = 0", lambda: attention_weights(Q[:, :, :0], K), shape(2, 3, 0, 7)),
        ("S = 0", lambda: attention_weights(Q, K[:, :, :0]), shape(2, 3, 5, 0)),
        ("nothing allowed", lambda: attention_weights(Q, K, ~yes(2, 1, 5, 7)), zeros(2, 3, 5, 7)),
    ],
    "AttentionHead": [
        ("T = 0", lambda: HEAD(n(2, 0, 12)), shape(2, 0, 4)),
        ("B = 0", lambda: HEAD(n(0, 5, 12)), shape(0, 5, 4)),
        ("wider values", lambda: AttentionHead(12, 4, 6)(X), shape(2, 5, 6)),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
