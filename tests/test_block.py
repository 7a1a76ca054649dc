"""The block and the stack (lessons 06 and 06b): PyTorch's layers number by number, gradients by finite differences, compiled and exported graphs, JSON, bad input.

At the end, one training step each of random models. 60 of them run with the other tests. A longer run, with new models each time:

  FORMER_NB_CASES=10000 OMP_NUM_THREADS=1 pytest tests/test_block.py -k random_models
"""

import importlib
import json
import os
from copy import deepcopy
from dataclasses import asdict, fields, replace
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from bad_input_table import cases, judge, public_names
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from bad_input_table import (
    BAD_NUMBERS,
    INF,
    NAN,
    i,
    n,
    nan_only_at,
    shape,
    spoilt,
    whole_numbers,
    words,
    yes,
)
from torch import nn
from torch.func import functional_call
from torch.testing import assert_close

from former_nb.block import Block, FeedForward, Stack
from former_nb.config import (
    ACTIVATIONS,
    NORMS,
    POSITIONS,
    TransformerConfig,
    init_weights,
    swiglu,
)
from former_nb.leaks import assert_no_leak
from former_nb.masks import causal_mask, combine_masks, padding_mask
from former_nb.stack import block_from_torch

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 60))
NEAR = dict(atol=1e-5, rtol=1e-5)
KINDS = {"encoder": nn.TransformerEncoderLayer, "decoder": nn.TransformerDecoderLayer}
CONFIG = TransformerConfig(
    vocab_size=11, max_len=9, d_model=12, n_heads=3, n_layers=2, d_ff=20, dropout=0.0
)


# ---- PyTorch's layers


def their_layer(kind, dropout=0.0, **kwargs):
    "A layer with biases, gains and shifts that are not zeros and ones, and without dropout of attention weights."
    torch.manual_seed(0)
    theirs = KINDS[kind](12, 3, 20, dropout=dropout, batch_first=True, **kwargs)
    for name, p in theirs.named_parameters():
        if p.ndim == 1:
            nn.init.normal_(p, float("norm" in name and "weight" in name), 0.3)
    theirs.self_attn.dropout = 0.0
    if kind == "decoder":
        theirs.multihead_attn.dropout = 0.0
    return theirs


def masks_for(names, B, T, S):
    "What ours and theirs are given: the same masks, in the convention of each."
    ours, theirs = [], {}
    if "causal" in names:
        ours.append(causal_mask(T))
        theirs["mask"] = ~causal_mask(T)[0, 0]
    if "padding" in names:
        real = torch.arange(T) < torch.tensor([T, T - 2, 1][:B])[:, None]  # (B, T)
        ours.append(real[:, None, None])
        theirs["key_padding_mask"] = ~real
    memory = (
        torch.arange(S) < torch.tensor([S - 3, S, 1][:B])[:, None]
        if "memory padding" in names
        else None
    )
    return combine_masks(*ours), theirs, memory


def our_run(ours, x, memory, mask, memory_real):
    if ours.cross is None:
        return ours(x, mask)
    return ours(
        x,
        mask,
        memory=memory,
        memory_mask=None if memory_real is None else memory_real[:, None, None],
    )


def their_run(theirs, x, memory, masks, memory_real):
    if isinstance(theirs, nn.TransformerEncoderLayer):
        return theirs(x, **{f"src_{name}": mask for name, mask in masks.items()})
    masks = {f"tgt_{name}": mask for name, mask in masks.items()}
    return theirs(
        x, memory, **masks, memory_key_padding_mask=None if memory_real is None else ~memory_real
    )


def under_our_names(theirs):
    "Their gradients, in the order of our parameters: what copies weights copies gradients too."
    moved = deepcopy(theirs)
    for p, q in zip(moved.parameters(), theirs.parameters(), strict=True):
        p.data = q.grad
    return list(block_from_torch(moved).parameters())


MASKS = [
    (),
    ("causal",),
    ("padding",),
    ("causal", "padding"),
    ("memory padding",),
    ("causal", "padding", "memory padding"),
]
WALL = [
    pytest.param(
        *case,
        id="-".join(
            [
                case[0],
                "pre" if case[1] else "post",
                case[2],
                "+".join(case[3]) or "no mask",
                case[4],
            ]
        ),
    )
    for case in product(
        KINDS, (True, False), ("relu", "gelu"), MASKS, ("train", "train with dropout", "eval")
    )
    if case[0] == "decoder" or "memory padding" not in case[3]
]


@pytest.mark.parametrize(("kind", "norm_first", "activation", "masks", "mode"), WALL)
def test_the_block_is_pytorchs_layer(kind, norm_first, activation, masks, mode):
    theirs = their_layer(
        kind, 0.0 if mode == "train" else 0.3, activation=activation, norm_first=norm_first
    ).train(mode != "eval")
    ours = block_from_torch(theirs)
    assert ours.training == theirs.training and ours.norm_first == norm_first
    B, T, S = (
        1 if mode == "train with dropout" else 3,
        5,
        7,
    )  # for more sentences their layer draws in the order T, B, d_model
    mask, their_masks, memory_real = masks_for(masks, B, T, S)
    runs = (ours, our_run, mask), (theirs, their_run, their_masks)
    results = []
    for layer, run, given_masks in runs:
        inputs = [n(B, T, 12).requires_grad_(), n(B, S, 12, seed=1).requires_grad_()]
        torch.manual_seed(3)
        out = run(layer, *inputs, given_masks, memory_real)
        (out * n(B, T, 12, seed=2)).sum().backward()
        results.append((out, [t.grad for t in inputs]))
    (mine, my_inputs), (yours, your_inputs) = results
    assert_close(mine, yours, **NEAR)
    assert_close(
        my_inputs[: 1 + (kind == "decoder")], your_inputs[: 1 + (kind == "decoder")], **NEAR
    )
    assert_close([p.grad for p in ours.parameters()], under_our_names(theirs), **NEAR)
    if mode == "train with dropout":
        assert not torch.allclose(
            mine, our_run(ours, n(B, T, 12), n(B, S, 12, seed=1), mask, memory_real)
        )


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_block_is_the_fast_path_of_pytorchs_encoder(norm_first, activation):
    theirs = their_layer("encoder", 0.3, activation=activation, norm_first=norm_first).eval()
    ours, x = block_from_torch(theirs), n(3, 5, 12)
    mask, their_masks, _ = masks_for(("padding",), 3, 5, 7)
    real = mask[:, 0, 0]
    with torch.inference_mode():
        mine, yours = ours(x, mask), theirs(x, src_key_padding_mask=their_masks["key_padding_mask"])
    assert_close(mine[real], yours[real], **NEAR)  # what stands at padding is left open


def test_a_causal_flag_is_the_causal_mask():
    for kind in KINDS:
        theirs = their_layer(kind, norm_first=True)
        ours, memory = (
            block_from_torch(theirs),
            {"memory": n(2, 7, 12)} if kind == "decoder" else {},
        )
        assert_close(
            ours(n(2, 5, 12), is_causal=True, **memory),
            ours(n(2, 5, 12), causal_mask(5), **memory),
            **NEAR,
        )


def test_the_weights_keep_their_type():
    ours = block_from_torch(their_layer("decoder").double())
    assert {p.dtype for p in ours.parameters()} == {torch.float64}
    assert ours(n(2, 5, 12).double(), memory=n(2, 7, 12).double()).dtype == torch.float64


# ---- gradients by finite differences

VARIANTS = list(product((True, False), NORMS, ACTIVATIONS, (False, True)))
NAMES = [
    f"{'pre' if first else 'post'}-{norm}-{activation}{'-cross' if cross else ''}"
    for first, norm, activation, cross in VARIANTS
]


def variant(norm_first, norm, activation, **more):
    return replace(CONFIG, norm_first=norm_first, norm=norm, activation=activation, **more)


@pytest.mark.parametrize(("norm_first", "norm", "activation", "cross"), VARIANTS, ids=NAMES)
def test_gradients_are_those_of_finite_differences(norm_first, norm, activation, cross):
    torch.manual_seed(0)
    block = Block(
        variant(norm_first, norm, activation, d_model=4, n_heads=2, d_ff=2), cross
    ).double()
    weights = dict(block.named_parameters())
    inputs = [
        torch.randn(1, T, 4, dtype=torch.float64, requires_grad=True)
        for T in ((2, 3) if cross else (2,))
    ]

    def run(*values):
        memory = {"memory": values[1]} if cross else {}
        return functional_call(
            block,
            dict(zip(weights, values[len(inputs) :], strict=True)),
            (values[0],),
            {"is_causal": True, **memory},
        )

    assert torch.autograd.gradcheck(run, (*inputs, *weights.values()))


# ---- half precision, compiled and exported


@pytest.mark.parametrize(("norm_first", "norm", "activation", "cross"), VARIANTS, ids=NAMES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_finite_and_near(dtype, norm_first, norm, activation, cross):
    torch.manual_seed(0)
    block, x = Block(variant(norm_first, norm, activation), cross), 10 * n(2, 5, 12)
    memory = {"memory": n(2, 7, 12)} if cross else {}
    wanted = block(x, is_causal=True, **memory)
    out = block.to(dtype)(
        x.to(dtype), is_causal=True, **{name: t.to(dtype) for name, t in memory.items()}
    )
    out.float().square().mean().backward()
    assert (
        out.dtype == dtype
        and out.isfinite().all()
        and all(p.grad.isfinite().all() for p in block.parameters())
    )
    assert_close(out.float(), wanted, atol=0.15, rtol=0.05)


GRAPHS = {
    "pre-layer-gelu-rotary": (dict(positions="rotary"), False),
    "post-rms-swiglu-alibi-grouped-cross": (
        dict(norm_first=False, norm="rms", activation="swiglu", positions="alibi", n_kv_heads=1),
        True,
    ),
    "post-layer-relu-relative": (
        dict(norm_first=False, activation="relu", positions="relative"),
        False,
    ),
}


@pytest.mark.parametrize(("how", "cross"), GRAPHS.values(), ids=list(GRAPHS))
def test_one_graph_when_compiled(how, cross):
    torch._dynamo.reset()
    torch.manual_seed(0)
    stack = Stack(replace(CONFIG, n_layers=1, **how), cross)
    memory = (
        dict(
            memory=n(2, 7, 12), memory_mask=padding_mask(torch.tensor([[1] * 7, [1] * 4 + [0] * 3]))
        )
        if cross
        else {}
    )
    compiled, results = torch.compile(stack, fullgraph=True, backend="aot_eager"), []
    for run in (stack, compiled):
        out = run(n(2, 5, 12), is_causal=True, **memory)
        results.append((out, torch.autograd.grad(out.square().sum(), list(stack.parameters()))))
    assert_close(*results, **NEAR)


def test_an_exported_stack_takes_other_lengths():
    torch.manual_seed(0)
    stack = Stack(
        replace(CONFIG, n_layers=1, norm="rms", activation="swiglu", positions="rotary"), cross=True
    ).eval()
    B, T, S = (torch.export.Dim(name, min=2, max=9) for name in "BTS")
    dynamic = dict(x={0: B, 1: T}, is_causal=None, memory={0: B, 1: S})
    program = torch.export.export(
        stack, (n(2, 5, 12),), dict(is_causal=True, memory=n(2, 7, 12)), dynamic_shapes=dynamic
    )
    for b, t, s in ((2, 5, 7), (3, 8, 4), (4, 2, 9)):
        given_ = dict(is_causal=True, memory=n(b, s, 12))
        assert_close(program.module()(n(b, t, 12), **given_), stack(n(b, t, 12), **given_), **NEAR)


# ---- who sees whom


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi", "relative"])
def test_a_decoder_sees_no_word_to_come_and_no_padding_of_the_source(norm_first, positions):
    torch.manual_seed(0)
    stack, real = (
        Stack(replace(CONFIG, norm_first=norm_first, positions=positions), cross=True),
        padding_mask(torch.tensor([[1, 1, 1], [1, 1, 0]])),
    )
    run = lambda x, memory: stack(x, is_causal=True, memory=memory, memory_mask=real)
    assert_no_leak(lambda x: run(x, n(2, 3, 12)), n(2, 4, 12), causal_mask(4))
    assert_no_leak(lambda memory: run(n(2, 4, 12), memory), n(2, 3, 12), real)


# ---- the configuration as JSON


@st.composite
def configs(draw):
    g, ratio, half = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    h, whole = g * ratio, st.integers(1, 40)
    return TransformerConfig(
        vocab_size=draw(whole),
        max_len=draw(whole),
        d_model=2 * half * h,
        n_heads=h,
        n_layers=draw(whole),
        d_ff=draw(whole),
        dropout=draw(st.sampled_from([0, 0.0, 0.1, 0.99]) | st.floats(0, 1, exclude_max=True)),
        positions=draw(st.sampled_from(list(POSITIONS))),
        n_kv_heads=draw(st.sampled_from([None, g])),
        activation=draw(st.sampled_from(list(ACTIVATIONS))),
        norm=draw(st.sampled_from(list(NORMS))),
        norm_first=draw(st.booleans()),
    )


JSON = settings(max_examples=100, deadline=None, database=None, derandomize=True)
WRONG = [None, True, 0, -1, 2.5, "3", "", [], {}, [4], NAN, INF, "Learned"]
FINE = {
    "n_kv_heads": [None],
    "dropout": [0],
    "norm_first": [True],
}  # of the wrong values, those that a field may have


@JSON
@given(configs())
def test_a_configuration_comes_back_from_json(config):
    text = config.to_json()
    back = TransformerConfig.from_json(text)
    assert back == config and {type(v) for v in asdict(back).values()} == {
        type(v) for v in asdict(config).values()
    }
    assert back.to_json() == text and set(json.loads(text)) == {
        field.name for field in fields(TransformerConfig)
    }


@JSON
@given(configs(), st.data())
def test_what_is_no_configuration_is_refused(config, data):
    text = config.to_json()
    values = json.loads(text)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(ValueError, match="^text: expected JSON, got"):
        TransformerConfig.from_json(cut)
    name = data.draw(st.sampled_from(list(values)))
    wrong = data.draw(
        st.sampled_from(
            [value for value in WRONG if not any(value is fine for fine in FINE.get(name, []))]
        )
    )
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        TransformerConfig.from_json(json.dumps(values | {name: wrong}))
    with pytest.raises(ValueError, match=f"^{name}: expected"):
        replace(config, **{name: wrong})
    with pytest.raises(ValueError, match="^text: expected settings of TransformerConfig"):
        TransformerConfig.from_json(json.dumps(values | {name + "_": 1}))
    needed = data.draw(st.sampled_from(["vocab_size", "max_len"]))
    with pytest.raises(ValueError, match=f"^text: expected all settings .*{needed}"):
        TransformerConfig.from_json(json.dumps({k: v for k, v in values.items() if k != needed}))
    assert (
        TransformerConfig.from_json(
            json.dumps({k: values[k] for k in ("vocab_size", "max_len")})
        ).d_model
        == 64
    )  # the others have defaults


# ---- bad input: rows as in test_bad_input.py

BLOCK, DECODER, POST, STACK = (
    Block(CONFIG),
    Block(CONFIG, cross=True),
    Block(replace(CONFIG, norm_first=False)),
    Stack(CONFIG),
)
X, MEMORY = n(2, 5, 12), n(2, 7, 12)


def with_memory(x):
    return DECODER(x, memory=n(len(x), 7, 12) if isinstance(x, torch.Tensor) else MEMORY)


def layer(call, itself):
    "What a block and a stack say to their input; `itself` builds one from a configuration and `cross`."
    return [
        *words(call),
        ("None", lambda: call(None), (TypeError, "x: expected", "NoneType")),
        ("a list", lambda: call([[1.0] * 12]), (TypeError, "x: expected", "list")),
        ("T = 0", lambda: call(n(2, 0, 12)), shape(2, 0, 12)),
        ("B = 0", lambda: call(n(0, 5, 12)), shape(0, 5, 12)),
        ("NaN in one sentence", lambda: call(spoilt(X, 1, 2)), nan_only_at(1)),
        (
            "no cross-attention, and a memory",
            lambda: itself(CONFIG)(X, memory=MEMORY),
            (ValueError, "memory: expected None", "cross=False"),
        ),
        (
            "no cross-attention, and a mask for it",
            lambda: itself(CONFIG)(X, memory_mask=yes(5, 7)),
            (ValueError, "memory_mask: expected None", "cross=False"),
        ),
        (
            "cross-attention, and no memory",
            lambda: itself(CONFIG, True)(X),
            (ValueError, "memory: expected (B, S, d_model)", "got None"),
        ),
        *words(lambda memory: itself(CONFIG, True)(X, memory=memory), start="memory: expected"),
        (
            "memory of another batch",
            lambda: itself(CONFIG, True)(X, memory=n(4, 7, 12)),
            (ValueError, "memory: expected", "B = 2"),
        ),
        ("S = 0", lambda: itself(CONFIG, True)(X, memory=n(2, 0, 12)), shape(2, 5, 12)),
        (
            "memory and positions",
            lambda: itself(replace(CONFIG, positions="rotary"), True)(X, memory=MEMORY),
            shape(2, 5, 12),
        ),
        (
            "mask of integers",
            lambda: call(X, i(5, 5)),
            (TypeError, "mask: expected a boolean tensor", "torch.int64"),
        ),
        (
            "mask that does not fit",
            lambda: call(X, yes(4, 5)),
            (ValueError, "mask: expected", "(4, 5)"),
        ),
        ("mask that allows nothing", lambda: call(X, ~yes(5, 5)), shape(2, 5, 12)),
        (
            "memory mask that does not fit",
            lambda: itself(CONFIG, True)(X, memory=MEMORY, memory_mask=yes(5, 5)),
            (ValueError, "mask: expected", "(5, 5)"),
        ),
        (
            "cross is a tensor",
            lambda: itself(CONFIG, X),
            (TypeError, "cross: expected True or False", "Tensor"),
        ),
        (
            "beyond the positions",
            lambda: itself(replace(CONFIG, positions="rotary"))(n(2, 10, 12)),
            (ValueError, "q: expected at most", "got 10"),
        ),
    ]


def dropouts(call):
    return [
        (
            f"dropout of {bad!r}",
            lambda bad=bad: call(bad),
            (ValueError, "dropout: expected", repr(bad)),
        )
        for bad in (-0.1, 1.0, 1, 1.5, NAN, True, "0.1", None)
    ]


def sizes(name):
    return [
        (
            f"{name} is {what}",
            lambda value=value: replace(CONFIG, **{name: value}),
            (ValueError, f"{name}: expected", repr(value)),
        )
        for what, value in [*BAD_NUMBERS, ("None", None), ("text", "3")]
    ]


def names(name, call):
    bad = (None, "", "Learned", 0, ["relu"], {})
    return [
        (
            f"{name} is {value!r}",
            lambda value=value: call(value),
            (ValueError, f"{name}: expected one of", repr(value)),
        )
        for value in bad
    ]


def layer_of(**kwargs):
    return KINDS[kwargs.pop("kind", "encoder")](12, 3, 20, **dict(batch_first=True) | kwargs)


def changed(part, **values):
    "A layer of PyTorch's whose part was changed after it was built."
    theirs = layer_of()
    for name, value in values.items():
        setattr(theirs.get_submodule(part), name, value)
    return theirs


def refusals(kind):
    return [
        (
            f"a {kind}, not batch first",
            lambda: block_from_torch(layer_of(kind=kind, batch_first=False)),
            (ValueError, "theirs: expected", "batch_first=True"),
        ),
        (
            f"a {kind} without biases",
            lambda: block_from_torch(layer_of(kind=kind, bias=False)),
            (ValueError, "theirs: expected", "biases"),
        ),
        (
            f"a {kind} with another eps",
            lambda: block_from_torch(layer_of(kind=kind, layer_norm_eps=1e-6)),
            (ValueError, "theirs: expected", "layer_norm_eps=1e-5"),
        ),
        (
            f"a {kind} with another bend",
            lambda: block_from_torch(layer_of(kind=kind, activation=F.silu)),
            (ValueError, "theirs: expected", "F.gelu"),
        ),
        (
            f"a {kind} with a bend of its own",
            lambda: block_from_torch(
                layer_of(kind=kind, activation=lambda x: F.gelu(x, approximate="tanh"))
            ),
            (ValueError, "theirs: expected", "F.gelu"),
        ),
    ]


TABLE = {
    "swiglu": [
        ("an odd width", lambda: swiglu(n(2, 3)), (ValueError, "x: expected", "(2, 3)")),
        ("no axes", lambda: swiglu(torch.tensor(1.0)), (ValueError, "x: expected", "()")),
        ("integers", lambda: swiglu(i(2, 4)), (ValueError, "x: expected", "torch.int64")),
        ("booleans", lambda: swiglu(yes(2, 4)), (ValueError, "x: expected", "torch.bool")),
        ("None", lambda: swiglu(None), (ValueError, "x: expected", "NoneType")),
        ("width 0", lambda: swiglu(n(2, 0)), shape(2, 0)),
        ("one axis", lambda: swiglu(n(6)), shape(3)),
        (
            "a gate far below 0",
            lambda: swiglu(torch.tensor([-1e30, 5.0])),
            lambda out: out.item() == 0,
        ),
        ("NaN in one row", lambda: swiglu(spoilt(n(3, 4), 1)), nan_only_at(1)),
    ],
    "FeedForward": [
        *words(FeedForward(12, 20)),
        *words(FeedForward(12, 20, activation="swiglu")),
        ("None", lambda: FeedForward(12, 20)(None), (TypeError, "x: expected", "NoneType")),
        ("T = 0", lambda: FeedForward(12, 20)(n(2, 0, 12)), shape(2, 0, 12)),
        ("B = 0", lambda: FeedForward(12, 20)(n(0, 5, 12)), shape(0, 5, 12)),
        ("NaN in one word", lambda: FeedForward(12, 20)(spoilt(X, 1, 2)), nan_only_at(1, 2)),
        *whole_numbers("d_model", lambda value: FeedForward(value, 20)),
        *whole_numbers("d_ff", lambda value: FeedForward(12, value)),
        *dropouts(lambda value: FeedForward(12, 20, value)),
        *names("activation", lambda value: FeedForward(12, 20, activation=value)),
    ],
    "TransformerConfig": [
        *(
            row
            for name in ("vocab_size", "max_len", "d_model", "n_heads", "n_layers", "d_ff")
            for row in sizes(name)
        ),
        (
            "a width that heads do not divide",
            lambda: replace(CONFIG, n_heads=5),
            (ValueError, "d_model: expected a multiple of n_heads = 5", "got 12"),
        ),
        (
            "an odd width of heads for rotary positions",
            lambda: replace(CONFIG, n_heads=4, positions="rotary"),
            (ValueError, "d_model: expected", "got 3"),
        ),
        *(
            (
                f"n_kv_heads is {bad!r}",
                lambda bad=bad: replace(CONFIG, n_kv_heads=bad),
                (ValueError, "n_kv_heads: expected a divisor", repr(bad)),
            )
            for bad in (0, 2, -1, 1.0, True, "1")
        ),
        *(
            (
                f"norm_first is {bad!r}",
                lambda bad=bad: replace(CONFIG, norm_first=bad),
                (ValueError, "norm_first: expected True or False", repr(bad)),
            )
            for bad in (0, 1, None, "pre")
        ),
        *dropouts(lambda value: replace(CONFIG, dropout=value)),
        *(
            row
            for name in ("positions", "activation", "norm")
            for row in names(name, lambda value, name=name: replace(CONFIG, **{name: value}))
        ),
        *names("where", CONFIG.build_positions),
        (
            "positions of the input",
            lambda: CONFIG.build_positions("attention"),
            lambda module: module is None,
        ),
        (
            "positions inside attention",
            lambda: replace(CONFIG, positions="alibi").build_positions("input"),
            lambda module: module is None,
        ),
        (
            "a later change",
            lambda: setattr(CONFIG, "d_model", 24),
            (AttributeError, "cannot assign to field", "d_model"),
        ),
        (
            "text that is none",
            lambda: TransformerConfig.from_json(None),
            (ValueError, "text: expected JSON", "None"),
        ),
        (
            "no text",
            lambda: TransformerConfig.from_json(""),
            (ValueError, "text: expected JSON", "''"),
        ),
        (
            "a list",
            lambda: TransformerConfig.from_json("[11, 9]"),
            (ValueError, "text: expected settings of TransformerConfig", "[11, 9]"),
        ),
        (
            "nothing in it",
            lambda: TransformerConfig.from_json("{}"),
            (ValueError, "text: expected all settings", "vocab_size"),
        ),
        (
            "NaN",
            lambda: TransformerConfig.from_json('{"vocab_size": 11, "max_len": 9, "dropout": NaN}'),
            (ValueError, "dropout: expected", "nan"),
        ),
    ],
    "Block": [
        *layer(BLOCK, Block),
        *words(POST),
        *words(with_memory),
        (
            "no configuration",
            lambda: Block(asdict(CONFIG)),
            (TypeError, "config: expected a TransformerConfig", "dict"),
        ),
        (
            "a width for a configuration",
            lambda: Block(12),
            (TypeError, "config: expected a TransformerConfig", "int"),
        ),
    ],
    "block_from_torch": [
        *refusals("encoder"),
        *refusals("decoder"),
        (
            "another eps in one norm",
            lambda: block_from_torch(changed("norm1", eps=1e-3)),
            (ValueError, "theirs: expected", "layer_norm_eps=1e-5"),
        ),
        (
            "another dropout in one place",
            lambda: block_from_torch(changed("dropout", p=0.5)),
            (ValueError, "theirs: expected one dropout", "[0.1, 0.5]"),
        ),
        (
            "a bend as a module",
            lambda: block_from_torch(layer_of(activation=nn.GELU("tanh"))),
            (ValueError, "theirs: expected", "F.gelu"),
        ),
        (
            "their attention",
            lambda: block_from_torch(nn.MultiheadAttention(12, 3, batch_first=True)),
            (TypeError, "theirs: expected", "MultiheadAttention"),
        ),
        (
            "their encoder",
            lambda: block_from_torch(
                nn.TransformerEncoder(layer_of(), 2, enable_nested_tensor=False)
            ),
            (TypeError, "theirs: expected", "TransformerEncoder"),
        ),
        (
            "our own block",
            lambda: block_from_torch(BLOCK),
            (TypeError, "theirs: expected", "Block"),
        ),
        ("None", lambda: block_from_torch(None), (TypeError, "theirs: expected", "NoneType")),
    ],
    "init_weights": [
        (
            "a model without layers",
            lambda: init_weights(nn.LayerNorm(3), 2),
            lambda result: result is None,
        ),
        (
            "a layer without a bias",
            lambda: init_weights(nn.Linear(3, 4, bias=False), 2),
            lambda result: result is None,
        ),
    ],
    "Stack": [
        *layer(STACK, Stack),
        (
            "post-norm of another width",
            lambda: Stack(replace(CONFIG, norm_first=False))(n(2, 5, 11)),
            (ValueError, "x: expected", "(2, 5, 11)"),
        ),
    ],
}


@pytest.mark.parametrize(("call", "wanted"), cases(TABLE))
def test_bad_input_gets_one_clear_sentence_or_a_defined_result(call, wanted):
    judge(call, wanted)


def test_every_public_name_has_its_rows():
    modules = [importlib.import_module(f"former_nb.{name}") for name in ("block", "stack")]
    assert public_names(*modules) == TABLE.keys() and all(TABLE.values())


def test_a_layer_after_an_error_works_as_before():
    before = DECODER(X, memory=MEMORY)
    for bad in (
        lambda: DECODER(X),
        lambda: DECODER(X[0], memory=MEMORY),
        lambda: DECODER(X, memory=MEMORY[:1]),
    ):
        with pytest.raises(ValueError):
            bad()
    assert torch.equal(DECODER(X, memory=MEMORY), before)


# ---- random models, one training step each


class Model(nn.Module):
    "Embedding, positions, stack, logits: as the lessons build it."

    def __init__(self, config, cross):
        super().__init__()
        self.embed, self.positions = (
            nn.Embedding(config.vocab_size, config.d_model),
            config.build_positions("input"),
        )
        self.stack, self.logits = Stack(config, cross), nn.Linear(config.d_model, config.vocab_size)

    def forward(self, tokens, source, mask, is_causal, memory_mask):
        places = self.positions or nn.Identity()
        given_ = (
            {}
            if source is None
            else dict(memory=places(self.embed(source)), memory_mask=memory_mask)
        )
        return self.logits(self.stack(places(self.embed(tokens)), mask, is_causal, **given_))


MASK_KINDS = ["none", "causal", "padding", "causal and padding", "nothing for some"]
RAN = []


@settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize=not LONG,
    suppress_health_check=list(HealthCheck),
)
@given(
    configs(),
    st.booleans(),
    st.sampled_from(MASK_KINDS),
    st.integers(1, 3),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([torch.float32, torch.bfloat16]),
    st.integers(1, 3),
    st.integers(0, 2**40),
)
def test_a_training_step_of_random_models_is_finite(
    config, cross, kind, B, T, S, dtype, n_layers, seed
):
    torch.manual_seed(seed)
    config = replace(
        config,
        max_len=12,
        n_layers=n_layers,
        vocab_size=config.vocab_size + 1,
        dropout=min(config.dropout, 0.5),
    )
    model = Model(config, cross).to(dtype)
    tokens, source = (
        torch.randint(config.vocab_size, (B, T)),
        torch.randint(config.vocab_size, (B, S)) if cross else None,
    )
    mask = None
    if "padding" in kind:
        mask = padding_mask(tokens)  # whole rows of padding as well
    if kind == "nothing for some":
        mask = (torch.rand(B, 1, T, T) > 0.3) & (torch.rand(B, 1, T, 1) > 0.3)
    memory_mask = padding_mask(source) if cross and kind != "none" else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for step in range(2):  # the second shows that the updated weights still work
        out = model(tokens, source, mask, "causal" in kind, memory_mask)
        assert out.shape == (B, T, config.vocab_size) and out.dtype == dtype
        loss = F.cross_entropy(out.flatten(0, 1), tokens.flatten())
        assert loss.isfinite()
        if step == 0:
            loss.backward()
            assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
            assert sum(p.grad is not None for p in model.stack.parameters()) == len(
                list(model.stack.parameters())
            )
            optimizer.step()
            assert all(p.isfinite().all() for p in model.parameters())
    RAN.append(1)


def test_as_many_random_models_ran_as_were_asked_for(capsys):
    if not RAN:
        pytest.skip("no random models were run")
    with capsys.disabled():
        print(f" {len(RAN):,} random models, one training step each, no NaN ", end="")
    assert len(RAN) >= CASES
