"""What every public function of lessons 01 to 05 says to bad input: one sentence that names the argument, or a result that is defined.

A row of the table: what is wrong, the call, and either an error (its type, how its message starts, what else it says) or a check of the result.
"""

import importlib

import numpy as np
import pytest
import torch
from bad_input_table import cases, judge, public_names
from torch import nn

from former_nb.attention import (
    AttentionHead,
    attention,
    attention_explicit,
    attention_loops,
    check_attention_inputs,
    check_mask,
)
from former_nb.attention import masked_softmax
from former_nb.core import check_int
from former_nb.leaks import (
    LeakError,
    allowed_pairs,
    assert_no_leak,
    assert_no_noise_leak,
    edit_influence,
    gradient_influence,
    noise_leak,
)
from former_nb.leaks import NoiseTest
from former_nb.mask_formats import (
    from_additive,
    from_hugging_face,
    from_torch_mha,
    to_additive,
    to_hugging_face,
    to_torch_mha,
)
from former_nb.masks import (
    causal_mask,
    combine_masks,
    document_mask,
    padding_mask,
    prefix_mask,
    sliding_window_mask,
)
from former_nb.multi_head import (
    MultiHeadAttention,
    NarrowMultiHeadAttention,
    SeparateHeads,
    WideMultiHeadAttention,
)
from former_nb.multi_head import mha_from_torch, mha_to_torch, project_heads, record_attention
from former_nb.equivalent_forms import (
    Cost,
    GrowingCache,
    count_cost,
    multi_head_folded,
    multi_head_token_by_token,
)
from former_nb.positions import LearnedPositions, Positions, SinusoidalPositions, sinusoid_table
from former_nb.relative_positions import (
    ALiBi,
    DistanceBias,
    RelativeBias,
    Rotary,
    alibi_slopes,
    rotary_layout,
    rotary_table,
    rotate,
)
from former_nb.self_attention import (
    self_attention,
)

MODULES = [
    "attention",
    "multi_head",
    "equivalent_forms",
    "masks",
    "mask_formats",
    "leaks",
    "positions",
    "relative_positions",
]
NAN, INF = float("nan"), float("inf")


def n(*shape, seed=0, dtype=torch.float32):
    "Numbers."
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def i(*shape):
    "Integers."
    return torch.zeros(*shape, dtype=torch.int64)


def yes(*shape):
    "A mask that allows everything."
    return torch.ones(*shape, dtype=torch.bool)


def spoilt(t, *where):
    "The tensor with NaN at a place."
    t = t.clone()
    t[where] = NAN
    return t


def shape(*wanted):
    "The result has this shape and is finite."
    return lambda result: result.shape == wanted and bool(result.isfinite().all())


def shapes(*wanted):
    return lambda result: (
        [t.shape for t in result] == [torch.Size(w) for w in wanted]
        and all(t.isfinite().all() for t in result)
    )


def zeros(*wanted):
    return lambda result: result.shape == wanted and not result.any()


def nan_only_at(*where):
    "NaN there, numbers everywhere else."

    def check(result):
        result = result[0] if isinstance(result, tuple) else result
        return (
            bool(result[where].isnan().all()) and int(result.isnan().sum()) == result[where].numel()
        )

    return check


# ---- 02

Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 4, seed=2)


def attention_shapes(f):
    "Shapes that do not fit together, for every function of q, k and v."
    return [
        (
            "keys of another width",
            lambda: f(Q, n(2, 3, 7, 9), V),
            (ValueError, "k: expected", "got 9"),
        ),
        (
            "d_k = 0",
            lambda: f(n(2, 3, 5, 0), n(2, 3, 7, 0), V),
            (ValueError, "q: expected", "got 0"),
        ),
        (
            "another batch",
            lambda: f(Q, n(4, 3, 7, 8), n(4, 3, 7, 4)),
            (ValueError, "k, v: expected", "(4, 3)"),
        ),
        (
            "another batch of values",
            lambda: f(Q, K, n(4, 3, 7, 4)),
            (ValueError, "k, v: expected", "(4, 3)"),
        ),
        (
            "more values than keys",
            lambda: f(Q, K, n(2, 3, 6, 4)),
            (ValueError, "v: expected", "got 6"),
        ),
    ]


def attention_inputs(f, result=lambda r: r[0] if isinstance(r, tuple) else r):
    "What is wrong for everything that takes q, k, v and a mask; `result` takes the output out of what it returns."
    run = lambda *args, **kwargs: result(f(*args, **kwargs))
    return [
        (
            "q of rank 2",
            lambda: run(n(5, 8), K, V),
            (ValueError, "q, k, v: expected", "got 2, 4 and 4"),
        ),
        (
            "q of rank 5",
            lambda: run(Q[None], K, V),
            (ValueError, "q, k, v: expected", "got 5, 4 and 4"),
        ),
        (
            "all of rank 2",
            lambda: run(n(5, 8), n(7, 8), n(7, 4)),
            (ValueError, "q, k, v: expected", "got 2, 2 and 2"),
        ),
        (
            "integers",
            lambda: run(i(2, 3, 5, 8), i(2, 3, 7, 8), i(2, 3, 7, 4)),
            (TypeError, "q, k, v: expected", "torch.int64"),
        ),
        (
            "two precisions",
            lambda: run(Q, K.double(), V),
            (TypeError, "q, k, v: expected", "torch.float64"),
        ),
        *attention_shapes(run),
        (
            "heads that do not divide",
            lambda: run(n(2, 3, 5, 8), n(2, 2, 7, 8), n(2, 2, 7, 4)),
            (ValueError, "k, v: expected", "got 2 and 2"),
        ),
        (
            "other heads of values",
            lambda: run(Q, K, n(2, 1, 7, 4)),
            (ValueError, "k, v: expected", "got 3 and 1"),
        ),
        (
            "no heads of keys",
            lambda: run(Q, n(2, 0, 7, 8), n(2, 0, 7, 4)),
            (ValueError, "k, v: expected", "got 0 and 0"),
        ),
        (
            "mask of numbers",
            lambda: run(Q, K, V, n(2, 1, 5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.float32"),
        ),
        (
            "mask of integers",
            lambda: run(Q, K, V, i(2, 1, 5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.int64"),
        ),
        (
            "mask turned round",
            lambda: run(Q, K, V, yes(2, 1, 7, 5)),
            (ValueError, "mask: expected", "(2, 1, 7, 5)"),
        ),
        (
            "mask of three axes",
            lambda: run(Q, K, V, yes(2, 5, 7)),
            (ValueError, "mask: expected", "(2, 5, 7)"),
        ),
        (
            "mask of another batch",
            lambda: run(Q, K, V, yes(4, 1, 5, 7)),
            (ValueError, "mask: expected", "(4, 1, 5, 7)"),
        ),
        (
            "mask read two ways",
            lambda: run(n(5, 3, 5, 8), n(5, 3, 5, 8), n(5, 3, 5, 4), yes(5, 5)),
            (ValueError, "mask: shape (5, 5)", "give it 4 axes"),
        ),
        (
            "mask of nested lists",
            lambda: run(Q, K, V, [[True] * 7] * 5),
            (TypeError, "mask: expected a boolean tensor", "list"),
        ),
        (
            "bias of integers",
            lambda: run(Q, K, V, attn_bias=i(1, 3, 5, 7)),
            (ValueError, "attn_bias: expected", "torch.int64"),
        ),
        (
            "bias of booleans",
            lambda: run(Q, K, V, attn_bias=yes(1, 3, 5, 7)),
            (ValueError, "attn_bias: expected", "torch.bool"),
        ),
        (
            "bias of two axes",
            lambda: run(Q, K, V, attn_bias=n(5, 7)),
            (ValueError, "attn_bias: expected", "(5, 7)"),
        ),
        (
            "bias that does not fit",
            lambda: run(Q, K, V, attn_bias=n(1, 3, 7, 5)),
            (ValueError, "attn_bias: expected", "(1, 3, 7, 5)"),
        ),
        *(
            (
                f"dropout of {bad}",
                lambda bad=bad: run(Q, K, V, dropout=bad),
                (ValueError, "dropout: expected", str(bad)),
            )
            for bad in (-0.1, 1.0, 1.5, NAN)
        ),
    ]


def attention_edges(f):
    "Sizes of zero, and NaN, for both paths of attention; `f` gives the output."
    hide = yes(1, 1, 5, 7).clone()
    hide[..., 1:, 6] = False  # only the first query sees the last key
    return [
        ("T = 0", lambda: f(n(2, 3, 0, 8), K, V), shape(2, 3, 0, 4)),
        ("S = 0", lambda: f(Q, n(2, 3, 0, 8), n(2, 3, 0, 4)), zeros(2, 3, 5, 4)),
        (
            "S = 0 and a mask",
            lambda: f(Q, n(2, 3, 0, 8), n(2, 3, 0, 4), yes(2, 1, 5, 0)),
            zeros(2, 3, 5, 4),
        ),
        (
            "S = 0 and a bias",
            lambda: f(Q, n(2, 3, 0, 8), n(2, 3, 0, 4), attn_bias=n(1, 3, 5, 0)),
            zeros(2, 3, 5, 4),
        ),
        ("T = S = 0", lambda: f(n(2, 3, 0, 8), n(2, 3, 0, 8), n(2, 3, 0, 4)), shape(2, 3, 0, 4)),
        ("T = 0 and a mask", lambda: f(n(2, 3, 0, 8), K, V, yes(2, 1, 0, 7)), shape(2, 3, 0, 4)),
        ("B = 0", lambda: f(Q[:0], K[:0], V[:0]), shape(0, 3, 5, 4)),
        ("B = 0 and a mask", lambda: f(Q[:0], K[:0], V[:0], yes(5, 7)), shape(0, 3, 5, 4)),
        ("d_v = 0", lambda: f(Q, K, n(2, 3, 7, 0)), shape(2, 3, 5, 0)),
        ("a mask that allows nothing", lambda: f(Q, K, V, ~yes(2, 1, 5, 7)), zeros(2, 3, 5, 4)),
        (
            "a bias that allows nothing",
            lambda: f(Q, K, V, attn_bias=torch.full((1, 1, 5, 7), -INF)),
            zeros(2, 3, 5, 4),
        ),
        ("NaN in a query", lambda: f(spoilt(Q, 0, 1, 2), K, V), nan_only_at(0, 1, 2)),
        ("NaN in a key", lambda: f(Q, spoilt(K, 0, 1, 2), V), nan_only_at(0, 1)),
        (
            "NaN in a bias",
            lambda: f(Q, K, V, attn_bias=spoilt(n(2, 3, 5, 7), 0, 1, 2, 3)),
            nan_only_at(0, 1, 2),
        ),
    ], [
        (
            "NaN in a key that one query sees",
            lambda: f(Q, spoilt(K, 0, 1, 6), V, hide),
            nan_only_at(0, 1, 0),
        ),
        (
            "NaN in a value that one query sees",
            lambda: f(Q, K, spoilt(V, 0, 1, 6), hide),
            nan_only_at(0, 1, 0),
        ),
        (
            "NaN in a value that a bias hides",
            lambda: f(
                Q, K, spoilt(V, 0, 1, 6), attn_bias=torch.zeros(hide.shape).masked_fill(~hide, -INF)
            ),
            nan_only_at(0, 1, 0),
        ),
        (
            "infinity in a value that one query sees",
            lambda: f(Q, K, V.masked_fill((torch.arange(7) == 6)[:, None], INF), hide),
            nan_only_at(slice(None), slice(None), 0),
        ),
        (
            "infinity in a value that all queries see",
            lambda: f(Q, K, V.masked_fill((torch.arange(7) == 0)[:, None], INF), hide),
            nan_only_at(),
        ),
        ("T = 0, causal", lambda: f(n(2, 3, 0, 8), K, V, is_causal=True), shape(2, 3, 0, 4)),
        (
            "S = 0, causal",
            lambda: f(Q, n(2, 3, 0, 8), n(2, 3, 0, 4), is_causal=True),
            zeros(2, 3, 5, 4),
        ),
        (
            "T = S = 0, causal",
            lambda: f(n(2, 3, 0, 8), n(2, 3, 0, 8), n(2, 3, 0, 4), is_causal=True),
            shape(2, 3, 0, 4),
        ),
        (
            "more queries than keys, causal",
            lambda: f(Q, K[:, :, :2], V[:, :, :2], is_causal=True)[:, :, :3],
            zeros(2, 3, 3, 4),
        ),
    ]


def fused(*args, **kwargs):
    return attention(*args, **kwargs)


def written(*args, **kwargs):
    return attention(*args, **kwargs, need_weights=True)[0]


def explicit(*args, **kwargs):
    return attention_explicit(*args, **kwargs)[0]


BAD_NUMBERS = [
    ("0", 0),
    ("negative", -2),
    ("a float", 2.0),
    ("a fraction", 1.5),
    ("a boolean", True),
]


def whole_numbers(name, call, least=1, none=True):
    "What every argument that counts something refuses; None where it has no meaning of its own."
    bad = [
        (what, value)
        for what, value in BAD_NUMBERS
        if not (least == 0 and value == 0 and what == "0")
    ] + ([("None", None)] if none else [])
    return [
        (
            f"{name} is {what}",
            lambda value=value: call(value),
            ((TypeError, ValueError), f"{name}: expected", str(value)),
        )
        for what, value in bad
    ]


X = n(2, 5, 12)


def words(call, width=12, start="x: expected"):
    "What every layer that takes (B, T, d_model) refuses."
    return [
        ("rank 2", lambda: call(n(5, width)), (ValueError, start, f"(5, {width})")),
        ("rank 4", lambda: call(n(2, 3, 5, width)), (ValueError, start, f"(2, 3, 5, {width})")),
        (
            "another width",
            lambda: call(n(2, 5, width - 1)),
            (ValueError, start, f"(2, 5, {width - 1})"),
        ),
        ("integers", lambda: call(i(2, 5, width)), ((TypeError, ValueError), start, "torch.int64")),
    ]


def layer_edges(call, width=12):
    "Sizes of zero and NaN for a layer (B, T, d_model) -> (B, T, d_model) whose words see one another."
    return [
        ("T = 0", lambda: call(n(2, 0, width)), shape(2, 0, width)),
        ("B = 0", lambda: call(n(0, 5, width)), shape(0, 5, width)),
        ("NaN in one sentence", lambda: call(spoilt(n(2, 5, width), 1, 2)), nan_only_at(1)),
    ]


def masks_of_a_layer(call):
    "`call(mask)` runs a layer on x (2, 5, 12)."
    return [
        (
            "mask of numbers",
            lambda: call(n(5, 5)),
            (TypeError, "mask: expected a boolean tensor", "torch.float32"),
        ),
        (
            "mask that does not fit",
            lambda: call(yes(4, 5)),
            (ValueError, "mask: expected", "(4, 5)"),
        ),
        (
            "mask that allows nothing",
            lambda: call(~yes(5, 5)),
            lambda out: torch.equal(out[:, 0], out[:, 3]),
        ),  # the biases alone
    ]


def heads(kind):
    make = lambda **how: kind(**(dict(d_model=12, n_heads=3) | how))
    return [
        *whole_numbers("n_heads", lambda value: make(n_heads=value)),
        *whole_numbers("d_model", lambda value: make(d_model=value)),
    ]


def separate_heads(kind):
    layer = kind(12, 3)
    return [*words(layer), *layer_edges(layer), *masks_of_a_layer(lambda mask: layer(X, mask))]


LAYER = MultiHeadAttention(12, 3)
GROUPED = MultiHeadAttention(12, 6, n_kv_heads=2)
TURNED = MultiHeadAttention(12, 3, positions=Rotary(4, 6))
HEAD = AttentionHead(12, 4)


def cached(layer, x, batch):
    cache = GrowingCache()
    layer(n(batch, 2, 12), cache=cache)
    return layer(x, cache=cache)


# ---- 04


def mask_lengths(call):
    "`call(T, S)` builds a mask of four axes."
    return [
        *whole_numbers("T", lambda value: call(value, 3), least=0),
        *whole_numbers("S", lambda value: call(3, value), least=0, none=False),
        ("T = 0", lambda: call(0, 3), shape(1, 1, 0, 3)),
        ("S = 0", lambda: call(3, 0), shape(1, 1, 3, 0)),
        ("T = S = 0", lambda: call(0, 0), shape(1, 1, 0, 0)),
    ]


def tokens_of(call, name, empty, none):
    "`call(tokens)` builds a mask from (B, S) integers."
    start = f"{name}: expected"
    return [
        ("rank 1", lambda: call(i(5)), (ValueError, start, "(5,)")),
        ("rank 3", lambda: call(i(2, 5, 3)), (ValueError, start, "(2, 5, 3)")),
        ("numbers", lambda: call(n(2, 5)), ((TypeError, ValueError), start, "torch.float32")),
        ("booleans", lambda: call(yes(2, 5)), ((TypeError, ValueError), start, "torch.bool")),
        ("a list", lambda: call([[1, 2]]), ((TypeError, ValueError), start, "list")),
        ("None", lambda: call(None), ((TypeError, ValueError), start, "NoneType")),
        ("no tokens", lambda: call(i(2, 0)), empty),
        ("B = 0", lambda: call(i(0, 5)), none),
    ]


def booleans_of(call, name="mask"):
    start = f"{name}: expected a boolean tensor"
    return [
        ("numbers", lambda: call(n(2, 1, 5, 7)), (TypeError, start, "torch.float32")),
        ("integers", lambda: call(i(2, 1, 5, 7)), (TypeError, start, "torch.int64")),
        ("None", lambda: call(None), (TypeError, start, "NoneType")),
        ("a list", lambda: call([[True]]), (TypeError, start, "list")),
    ]


CAUSAL = causal_mask(4)


def causal_model(x):
    return attention(x, x, x, CAUSAL[0, 0])


def leak_inputs(call):
    return [
        ("rank 1", lambda: call(causal_model, n(4)), (ValueError, "inputs: expected", "(4,)")),
        (
            "booleans",
            lambda: call(causal_model, yes(2, 4, 3)),
            (TypeError, "inputs: expected", "torch.bool"),
        ),
        (
            "no model",
            lambda: call(None, n(2, 4, 3)),
            (TypeError, "model: expected", "got NoneType"),
        ),
        (
            "tokens of rank 3",
            lambda: call(causal_model, i(2, 4, 3)),
            (ValueError, "inputs: expected token ids", "(2, 4, 3)"),
        ),
        (
            "complex numbers",
            lambda: call(causal_model, n(2, 4, 3).to(torch.complex64)),
            (TypeError, "inputs: expected", "torch.complex64"),
        ),
        ("a list", lambda: call(causal_model, [1, 2]), (TypeError, "inputs: expected", "list")),
        (
            "T = 0",
            lambda: call(causal_model, n(2, 0, 3)),
            (ValueError, "inputs: expected", "(2, 0, 3)"),
        ),
        (
            "B = 0",
            lambda: call(causal_model, n(0, 4, 3)),
            (ValueError, "inputs: expected", "(0, 4, 3)"),
        ),
        (
            "NaN inputs",
            lambda: call(causal_model, spoilt(n(2, 4, 3), 1, 3)),
            (ValueError, "inputs: expected finite numbers", "got NaN"),
        ),
        (
            "a model that gives NaN",
            lambda: call(lambda x: spoilt(x, 1, 3), n(2, 4, 3)),
            (ValueError, "model: expected finite outputs", "got NaN"),
        ),
        (
            "a model that returns text",
            lambda: call(lambda x: "text", n(2, 4, 3)),
            (TypeError, "model: expected", "got str"),
        ),
        (
            "a model that returns nothing",
            lambda: call(lambda x: None, n(2, 4, 3)),
            (TypeError, "model: expected", "got NoneType"),
        ),
        (
            "a model that drops the batch",
            lambda: call(lambda x: x.sum(0), n(2, 4, 3)),
            (ValueError, "model: expected", "got (4, 3)"),
        ),
        (
            "a model that returns one number",
            lambda: call(lambda x: x.sum(), n(2, 4, 3)),
            (ValueError, "model: expected", "got ()"),
        ),
    ]


ALLOWED = [
    ("numbers", (TypeError, "allowed: expected a boolean tensor", "torch.float32"), n(4, 4)),
    ("None", (TypeError, "allowed: expected a boolean tensor", "NoneType"), None),
    ("another length", (ValueError, "allowed: expected", "(5, 4)"), yes(5, 4)),
    ("another batch", (ValueError, "allowed: expected", "(3, 4, 4)"), yes(3, 4, 4)),
    ("a mask per head", (ValueError, "allowed: expected", "(2, 3, 4, 4)"), yes(2, 3, 4, 4)),
    ("one axis", (ValueError, "allowed: expected", "(4,)"), yes(4)),
]


class Guess(nn.Module):
    "Guesses the next token from the last one."

    def __init__(self, scale=1.0):
        super().__init__()
        self.table, self.scale = nn.Parameter(torch.zeros(7, 7)), scale

    def forward(self, tokens):
        return self.table[tokens] * self.scale


def guess_loss(model, tokens):
    return nn.functional.cross_entropy(model(tokens[:, :-1]).mT, tokens[:, 1:])


def noise(call):
    run = lambda model=None, loss=guess_loss, vocab_size=7, **how: call(
        Guess() if model is None else model, loss, vocab_size, **(dict(steps=2, batch=4) | how)
    )
    return [
        *whole_numbers("vocab_size", lambda value: run(vocab_size=value)),
        ("one token", lambda: run(vocab_size=1), (ValueError, "vocab_size: expected", "got 1")),
        *whole_numbers("steps", lambda value: run(steps=value), least=0),
        *whole_numbers("batch", lambda value: run(batch=value)),
        *whole_numbers("length", lambda value: run(length=value)),
        ("nothing to train", lambda: run(nn.ReLU()), (ValueError, "model: expected", "got none")),
        ("NaN", lambda: run(Guess(NAN)), (ValueError, "loss_fn: expected", "got nan")),
    ]


# ---- 05


def positions(kind):
    table = kind(9, 12) if kind is not Positions else None
    rows = [
        *whole_numbers("max_len", lambda value: kind(value, 12)),
        *whole_numbers("d_model", lambda value: kind(9, value)),
    ]
    return (
        rows
        if table is None
        else rows
        + [
            *words(table),
            *whole_numbers("start", lambda value: table(X, value), least=0),
            (
                "more tokens than places",
                lambda: table(n(2, 10, 12)),
                (ValueError, "x: expected at most", "got 10"),
            ),
            (
                "a start too late",
                lambda: table(X, 5),
                (ValueError, "x: expected at most", "got 10"),
            ),
            ("T = 0", lambda: table(n(2, 0, 12)), shape(2, 0, 12)),
            ("T = 0 at the end", lambda: table(n(2, 0, 12), 9), shape(2, 0, 12)),
            ("B = 0", lambda: table(n(0, 5, 12)), shape(0, 5, 12)),
            ("NaN in one word", lambda: table(spoilt(X, 1, 2)), nan_only_at(1, 2)),
        ]
    )


def heads_with_places(make, d_k=4, trained=False):
    "Rotary and distance biases: called with q, k and start; the layer has three heads."
    layer = make()
    q = n(2, 3, 5, d_k)
    rows = [
        ("q of rank 3", lambda: layer(q[0], q), (ValueError, "q: expected", f"(3, 5, {d_k})")),
        ("k of rank 3", lambda: layer(q, q[0]), (ValueError, "k: expected", f"(3, 5, {d_k})")),
        (
            "integers",
            lambda: layer(q.long(), q.long()),
            ((TypeError, ValueError), "q: expected", "torch.int64"),
        ),
        (
            "another batch",
            lambda: layer(q, n(4, 3, 5, d_k)),
            (ValueError, "k: expected", f"(4, 3, 5, {d_k})"),
        ),
        (
            "more keys than queries",
            lambda: layer(q, n(2, 3, 6, d_k)),
            (ValueError, "k: expected", f"(2, 3, 6, {d_k})"),
        ),
        (
            "another width of keys",
            lambda: layer(q, n(2, 3, 5, d_k + 2)),
            (ValueError, "k: expected", f"(2, 3, 5, {d_k + 2})"),
        ),
        *whole_numbers("start", lambda value: layer(q, q, value), least=0),
        ("T = 0", lambda: layer(q[:, :, :0], q[:, :, :0])[0], shape(2, 3, 0, d_k)),
        ("B = 0", lambda: layer(q[:0], q[:0])[0], shape(0, 3, 5, d_k)),
        ("NaN in one word", lambda: layer(spoilt(q, 1, 2, 3), q), nan_only_at(1, 2, 3)),
    ]
    return rows


def distance_bias(make):
    layer, q = make(), n(2, 3, 5, 4)
    return heads_with_places(make) + [
        (
            "another number of heads",
            lambda: layer(n(2, 4, 5, 4), n(2, 4, 5, 4)),
            (ValueError, "q: expected n_heads = 3", "got 4"),
        ),
        ("T = 0 after others", lambda: layer(q[:, :, :0], q[:, :, :0], 4)[2], shape(1, 3, 0, 4)),
        ("B = 0 has a bias", lambda: layer(q[:0], q[:0])[2], shape(1, 3, 5, 5)),
        ("grouped keys", lambda: layer(q, q[:, :1])[2], shape(1, 3, 5, 5)),
    ]


class Counting(DistanceBias):
    def by_distance(self, distance):
        return distance.expand(self.n_heads, *distance.shape)


cos, sin = rotary_table(5, 4)

edges, more_edges = zip(*map(attention_edges, (fused, written)))

TABLE = {
    "attention_loops": [
        (
            "integers",
            lambda: attention_loops(i(2, 5, 8), i(2, 7, 8), i(2, 7, 4)),
            (TypeError, "q, k, v: expected", "torch.int64"),
        ),
        (
            "rank 1",
            lambda: attention_loops(n(8), n(7, 8), n(7, 4)),
            (ValueError, "q, k, v: expected", "(8,)"),
        ),
        *attention_shapes(attention_loops),
        ("T = 0", lambda: attention_loops(n(2, 0, 8), n(2, 7, 8), n(2, 7, 4)), shape(2, 0, 4)),
        ("S = 0", lambda: attention_loops(n(2, 5, 8), n(2, 0, 8), n(2, 0, 4)), zeros(2, 5, 4)),
        ("B = 0", lambda: attention_loops(n(0, 5, 8), n(0, 7, 8), n(0, 7, 4)), shape(0, 5, 4)),
        ("NaN in a query", lambda: attention_loops(spoilt(Q, 0, 1, 2), K, V), nan_only_at(0, 1, 2)),
        ("NaN in a key", lambda: attention_loops(Q, spoilt(K, 0, 1, 2), V), nan_only_at(0, 1)),
    ],
    "masked_softmax": [
        (
            "integers",
            lambda: masked_softmax(i(5, 7), yes(5, 7)),
            ((TypeError, ValueError), "scores: expected", "torch.int64"),
        ),
        (
            "mask of numbers",
            lambda: masked_softmax(n(5, 7), n(5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.float32"),
        ),
        (
            "mask of integers",
            lambda: masked_softmax(n(5, 7), i(5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.int64"),
        ),
        (
            "mask that does not fit",
            lambda: masked_softmax(n(5, 7), yes(7, 5)),
            (ValueError, "mask: expected", "(7, 5)"),
        ),
        ("T = 0", lambda: masked_softmax(n(2, 0, 7), yes(0, 7)), shape(2, 0, 7)),
        ("S = 0", lambda: masked_softmax(n(2, 5, 0), yes(5, 0)), shape(2, 5, 0)),
        ("nothing allowed", lambda: masked_softmax(n(5, 7), ~yes(7)), zeros(5, 7)),
        (
            "NaN in one row",
            lambda: masked_softmax(spoilt(n(5, 7), 2, 3), yes(5, 7)),
            nan_only_at(2),
        ),
        (
            "NaN where the mask forbids",
            lambda: masked_softmax(spoilt(n(5, 7), 2, 3), torch.arange(7) != 3),
            shape(5, 7),
        ),
    ],
    "attention_explicit": [
        (
            "integers",
            lambda: explicit(i(2, 5, 8), i(2, 7, 8), i(2, 7, 4)),
            (TypeError, "q, k, v: expected", "torch.int64"),
        ),
        (
            "rank 1",
            lambda: explicit(n(8), n(7, 8), n(7, 4)),
            (ValueError, "q, k, v: expected", "(8,)"),
        ),
        *attention_shapes(explicit),
        (
            "bias that does not fit",
            lambda: explicit(Q, K, V, attn_bias=n(1, 3, 7, 5)),
            (ValueError, "attn_bias: expected", "(1, 3, 7, 5)"),
        ),
        (
            "mask of numbers",
            lambda: explicit(Q, K, V, n(2, 1, 5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.float32"),
        ),
        (
            "mask that does not fit",
            lambda: explicit(Q, K, V, yes(2, 1, 7, 5)),
            (ValueError, "mask: expected", "(2, 1, 7, 5)"),
        ),
        *attention_edges(explicit)[0],
    ],
    "check_mask": [
        (
            "numbers",
            lambda: check_mask(n(5, 7), (2, 3, 5, 7)),
            (TypeError, "mask: expected a boolean tensor", "torch.float32"),
        ),
        (
            "three axes of four",
            lambda: check_mask(yes(2, 5, 7), (2, 3, 5, 7)),
            (ValueError, "mask: expected", "(2, 5, 7)"),
        ),
        (
            "four axes of three",
            lambda: check_mask(yes(2, 3, 5, 7), (2, 5, 7)),
            (ValueError, "mask: expected", "(2, 3, 5, 7)"),
        ),
        (
            "turned round",
            lambda: check_mask(yes(7, 5), (2, 3, 5, 7)),
            (ValueError, "mask: expected", "(7, 5)"),
        ),
        (
            "a shape of two axes",
            lambda: check_mask(yes(5, 7), (5, 7)),
            (ValueError, "shape: expected", "(5, 7)"),
        ),
        (
            "two ways",
            lambda: check_mask(yes(2, 7), (2, 3, 2, 7)),
            (ValueError, "mask: shape (2, 7)", "B = T = 2"),
        ),
        (
            "a list",
            lambda: check_mask([[True] * 7] * 5, (2, 3, 5, 7)),
            (TypeError, "mask: expected a boolean tensor", "list"),
        ),
        ("S = 0", lambda: check_mask(yes(5, 0), (2, 3, 5, 0)), lambda result: result is None),
    ],
    "check_attention_inputs": attention_inputs(check_attention_inputs)
    + [
        (
            "S = 0",
            lambda: check_attention_inputs(Q, K[:, :, :0], V[:, :, :0]),
            lambda result: result is None,
        ),
        ("NaN", lambda: check_attention_inputs(spoilt(Q, 0), K, V), lambda result: result is None),
    ],
    "attention": [
        *attention_inputs(attention),
        *edges[0],
        *edges[1],
        *more_edges[0],
        *more_edges[1],
        (
            "NaN in a query that sees nothing",
            lambda: attention(spoilt(Q, 0, 1, 2), K, V, ~yes(5, 7)),
            zeros(2, 3, 5, 4),
        ),
    ],
    "AttentionHead": [
        *words(HEAD),
        *masks_of_a_layer(lambda mask: HEAD(X, mask)),
        ("T = 0", lambda: HEAD(n(2, 0, 12)), shape(2, 0, 4)),
        ("B = 0", lambda: HEAD(n(0, 5, 12)), shape(0, 5, 4)),
        ("NaN in one sentence", lambda: HEAD(spoilt(X, 1, 2)), nan_only_at(1)),
        *whole_numbers("d_model", lambda value: AttentionHead(value, 4)),
        *whole_numbers("d_k", lambda value: AttentionHead(12, value)),
        *whole_numbers("d_v", lambda value: AttentionHead(12, 4, value), none=False),
    ],
    "SeparateHeads": [
        *separate_heads(lambda d_model, n_heads: SeparateHeads(d_model, n_heads, 5)),
        *whole_numbers("n_heads", lambda value: SeparateHeads(12, value, 5)),
        *whole_numbers("d_model", lambda value: SeparateHeads(value, 3, 5)),
        *whole_numbers("d_k", lambda value: SeparateHeads(12, 3, value)),
    ],
    "WideMultiHeadAttention": separate_heads(WideMultiHeadAttention)
    + heads(WideMultiHeadAttention),
    "NarrowMultiHeadAttention": separate_heads(NarrowMultiHeadAttention)
    + heads(NarrowMultiHeadAttention)
    + [
        (
            "a width that heads do not divide",
            lambda: NarrowMultiHeadAttention(12, 5),
            (ValueError, "d_model: expected a multiple", "got 12"),
        ),
    ],
    "project_heads": [
        *words(lambda x: project_heads(LAYER.qkv, 3, x)),
        *words(lambda memory: project_heads(LAYER.qkv, 3, X, memory), start="memory: expected"),
        (
            "memory of another batch",
            lambda: project_heads(LAYER.qkv, 3, X, n(4, 7, 12)),
            (ValueError, "memory: expected", "got 4"),
        ),
        (
            "heads that do not divide",
            lambda: project_heads(LAYER.qkv, 5, X),
            (ValueError, "d_model: expected", "got 12"),
        ),
        (
            "other heads than the weights have",
            lambda: project_heads(LAYER.qkv, 3, X, n_kv_heads=1),
            (ValueError, "qkv: expected", "got 36"),
        ),
        *whole_numbers("n_heads", lambda value: project_heads(LAYER.qkv, value, X)),
        *whole_numbers(
            "n_kv_heads", lambda value: project_heads(LAYER.qkv, 3, X, n_kv_heads=value), none=False
        ),
        (
            "T = 0",
            lambda: project_heads(LAYER.qkv, 3, n(2, 0, 12)),
            shapes((2, 3, 0, 4), (2, 3, 0, 4), (2, 3, 0, 4)),
        ),
        (
            "S = 0",
            lambda: project_heads(LAYER.qkv, 3, X, n(2, 0, 12)),
            shapes((2, 3, 5, 4), (2, 3, 0, 4), (2, 3, 0, 4)),
        ),
        (
            "NaN in one word",
            lambda: project_heads(LAYER.qkv, 3, spoilt(X, 1, 2)),
            nan_only_at(1, slice(None), 2),
        ),
    ],
    "MultiHeadAttention": [
        *words(LAYER),
        *words(GROUPED),
        *layer_edges(LAYER),
        *layer_edges(TURNED),
        *words(lambda memory: LAYER(X, memory), start="memory: expected"),
        (
            "memory of another batch",
            lambda: LAYER(X, n(4, 7, 12)),
            (ValueError, "memory: expected", "got 4"),
        ),
        (
            "S = 0",
            lambda: LAYER(X, n(2, 0, 12)),
            lambda out: torch.equal(out, LAYER.out.bias.expand(2, 5, 12)),
        ),
        (
            "S = 0 with weights",
            lambda: LAYER(X, n(2, 0, 12), need_weights=True)[1],
            shape(2, 3, 5, 0),
        ),
        ("T = 0 with a memory", lambda: LAYER(n(2, 0, 12), X), shape(2, 0, 12)),
        (
            "NaN in a masked word",
            lambda: LAYER(
                X, spoilt(n(2, 7, 12), 1, 6), mask=torch.arange(7)[None, None, None] != 6
            ),
            shape(2, 5, 12),
        ),
        (
            "NaN in a word to come",
            lambda: LAYER(spoilt(X, 1, 3), is_causal=True),
            nan_only_at(1, slice(3, None)),
        ),
        *masks_of_a_layer(lambda mask: LAYER(X, mask=mask)),
        (
            "mask of three axes",
            lambda: LAYER(X, mask=yes(2, 5, 5)),
            (ValueError, "mask: expected", "(2, 5, 5)"),
        ),
        (
            "mask read two ways",
            lambda: LAYER(n(5, 5, 12), mask=yes(5, 5)),
            (ValueError, "mask: shape (5, 5)", "give it 4 axes"),
        ),
        (
            "bias of two axes",
            lambda: LAYER(X, attn_bias=n(5, 5)),
            (ValueError, "attn_bias: expected", "(5, 5)"),
        ),
        (
            "bias of integers",
            lambda: LAYER(X, attn_bias=i(1, 3, 5, 5)),
            (ValueError, "attn_bias: expected", "torch.int64"),
        ),
        (
            "bias and positions that do not fit",
            lambda: MultiHeadAttention(12, 3, positions=ALiBi(3))(X, attn_bias=n(1, 3, 4, 4)),
            (ValueError, "attn_bias: expected", "(1, 3, 4, 4)"),
        ),
        (
            "memory and positions",
            lambda: TURNED(X, X),
            (ValueError, "memory: expected None", "positions"),
        ),
        (
            "beyond the positions",
            lambda: TURNED(n(2, 7, 12)),
            (ValueError, "q: expected at most", "got 7"),
        ),
        (
            "positions for other heads",
            lambda: MultiHeadAttention(12, 3, positions=ALiBi(2))(X),
            (ValueError, "q: expected n_heads = 2", "got 3"),
        ),
        (
            "positions for another width",
            lambda: MultiHeadAttention(12, 2, positions=Rotary(4, 6))(X),
            (ValueError, "q: expected", "got 6"),
        ),
        (
            "a cache of another batch",
            lambda: cached(LAYER, X, 3),
            (ValueError, ("cache: expected", "k: expected", "x: expected"), "3"),
        ),
        (
            "a width that heads do not divide",
            lambda: MultiHeadAttention(12, 5),
            (ValueError, "d_model: expected a multiple", "got 12"),
        ),
        (
            "groups that do not divide",
            lambda: MultiHeadAttention(12, 6, n_kv_heads=4),
            (ValueError, "n_kv_heads: expected a divisor", "got 4"),
        ),
        *heads(MultiHeadAttention),
        *whole_numbers(
            "n_kv_heads", lambda value: MultiHeadAttention(12, 6, n_kv_heads=value), none=False
        ),
        *(
            (
                f"dropout of {bad}",
                lambda bad=bad: MultiHeadAttention(12, 3, dropout=bad),
                ((TypeError, ValueError), "dropout: expected", str(bad)),
            )
            for bad in (1.0, -0.1, NAN)
        ),
    ],
    "record_attention": [
        (
            "a model without attention",
            lambda: record_attention(nn.Linear(2, 2)).__enter__(),
            lambda weights: weights == {},
        ),
    ],
    "mha_from_torch": [
        (
            "not batch first",
            lambda: mha_from_torch(nn.MultiheadAttention(12, 3)),
            (ValueError, "theirs: expected", "batch_first=True"),
        ),
        (
            "another width of keys",
            lambda: mha_from_torch(nn.MultiheadAttention(12, 3, kdim=8, batch_first=True)),
            (ValueError, "theirs: expected", "without kdim"),
        ),
        (
            "a bias for keys",
            lambda: mha_from_torch(
                nn.MultiheadAttention(12, 3, add_bias_kv=True, batch_first=True)
            ),
            (ValueError, "theirs: expected", "add_bias_kv"),
        ),
        (
            "a key of zeros",
            lambda: mha_from_torch(
                nn.MultiheadAttention(12, 3, add_zero_attn=True, batch_first=True)
            ),
            (ValueError, "theirs: expected", "add_zero_attn"),
        ),
        (
            "our own layer",
            lambda: mha_from_torch(LAYER),
            ((TypeError, ValueError), "theirs: expected", "MultiHeadAttention"),
        ),
    ],
    "mha_to_torch": [
        (
            "grouped heads",
            lambda: mha_to_torch(GROUPED),
            (ValueError, "ours: expected", "heads of keys"),
        ),
        (
            "positions of its own",
            lambda: mha_to_torch(TURNED),
            (ValueError, "ours: expected", "positions"),
        ),
        (
            "torch's layer",
            lambda: mha_to_torch(nn.MultiheadAttention(12, 3)),
            ((TypeError, ValueError), "ours: expected", "MultiheadAttention"),
        ),
    ],
    "multi_head_folded": [
        *words(lambda x: multi_head_folded(LAYER, x)),
        *layer_edges(lambda x: multi_head_folded(LAYER, x)),
        (
            "grouped heads",
            lambda: multi_head_folded(GROUPED, X),
            (ValueError, "layer: expected", "heads of keys"),
        ),
        (
            "positions of its own",
            lambda: multi_head_folded(TURNED, X),
            (ValueError, "layer: expected", "positions"),
        ),
    ],
    "multi_head_token_by_token": [
        (
            "rank 2",
            lambda: multi_head_token_by_token(LAYER, n(5, 12)),
            (ValueError, "x: expected", "3 axes"),
        ),
        (
            "rank 4",
            lambda: multi_head_token_by_token(LAYER, n(2, 3, 5, 12)),
            (ValueError, "x: expected", "3 axes"),
        ),
        (
            "another width",
            lambda: multi_head_token_by_token(LAYER, n(2, 5, 11)),
            (ValueError, "x: expected", "11)"),
        ),
        (
            "integers",
            lambda: multi_head_token_by_token(LAYER, i(2, 5, 12)),
            ((TypeError, ValueError), "x: expected", "torch.int64"),
        ),
        ("T = 0", lambda: multi_head_token_by_token(LAYER, n(2, 0, 12)), shape(2, 0, 12)),
        ("B = 0", lambda: multi_head_token_by_token(LAYER, n(0, 5, 12)), shape(0, 5, 12)),
        (
            "NaN in one word",
            lambda: multi_head_token_by_token(LAYER, spoilt(X, 1, 2)),
            nan_only_at(1, slice(2, None)),
        ),
        (
            "beyond the positions",
            lambda: multi_head_token_by_token(TURNED, n(2, 7, 12)),
            (ValueError, "q: expected at most", "got 7"),
        ),
    ],
    "GrowingCache": [
        ("nothing yet", lambda: GrowingCache().length, lambda length: length == 0),
        (
            "T = 0",
            lambda: GrowingCache().update(n(2, 3, 0, 4), n(2, 3, 0, 4)),
            shapes((2, 3, 0, 4), (2, 3, 0, 4)),
        ),
    ],
    "Cost": [
        ("fields", lambda: Cost._fields, lambda fields: fields == ("flops", "bytes", "operations"))
    ],
    "count_cost": [
        (
            "a function that fails",
            lambda: count_cost(self_attention, n(5, 3)),
            (ValueError, "x: expected", "(5, 3)"),
        ),
        ("no work", lambda: count_cost(lambda: None), lambda cost: cost == Cost(0, 0, 0)),
        ("T = 0", lambda: count_cost(LAYER, n(2, 0, 12)), lambda cost: cost.flops < 10),
    ],
    "causal_mask": mask_lengths(causal_mask),
    "padding_mask": [
        *tokens_of(padding_mask, "tokens", shape(2, 1, 1, 0), shape(0, 1, 1, 5)),
        *(
            (
                f"pad is {what}",
                lambda value=value: padding_mask(i(2, 5), value),
                ((TypeError, ValueError), "pad: expected", str(value)),
            )
            for what, value in BAD_NUMBERS[2:] + [("None", None)]
        ),
        ("pad is negative", lambda: padding_mask(i(2, 5) - 1, -1), zeros(2, 1, 1, 5)),
        ("nothing but padding", lambda: padding_mask(i(2, 5)), zeros(2, 1, 1, 5)),
    ],
    "combine_masks": [
        *(
            row
            for row in booleans_of(lambda mask: combine_masks(CAUSAL, mask), "masks[1]")
            if row[0] != "None"
        ),
        ("None", lambda: combine_masks(CAUSAL, None), lambda mask: torch.equal(mask, CAUSAL)),
        ("nothing at all", lambda: combine_masks(), lambda mask: mask is None),
        (
            "other axes",
            lambda: combine_masks(CAUSAL, yes(4, 4)),
            (ValueError, "masks[1]: expected 4 axes", "(4, 4)"),
        ),
        (
            "sizes that do not fit",
            lambda: combine_masks(CAUSAL, yes(1, 1, 4, 5)),
            (ValueError, "masks[1]: expected", "(1, 1, 4, 5)"),
        ),
        (
            "sizes that do not fit at last",
            lambda: combine_masks(yes(1, 1, 1, 4), None, yes(2, 1, 4, 1), yes(3, 1, 1, 1)),
            (ValueError, "masks[3]: expected", "(3, 1, 1, 1)"),
        ),
        ("S = 0", lambda: combine_masks(yes(1, 1, 4, 0), yes(2, 1, 1, 0)), shape(2, 1, 4, 0)),
    ],
    "sliding_window_mask": [
        *mask_lengths(lambda T, S: sliding_window_mask(T, 2, S)),
        *whole_numbers("window", lambda value: sliding_window_mask(4, value)),
        (
            "a window wider than all",
            lambda: sliding_window_mask(4, 99),
            lambda mask: torch.equal(mask, CAUSAL),
        ),
    ],
    "prefix_mask": [
        *whole_numbers("T", lambda value: prefix_mask(value, 2), least=0),
        *whole_numbers("prefix", lambda value: prefix_mask(4, value), least=0),
        (
            "prefix of rank 2",
            lambda: prefix_mask(4, i(2, 1)),
            (ValueError, "prefix: expected", "(2, 1)"),
        ),
        (
            "prefix of numbers",
            lambda: prefix_mask(4, n(2)),
            ((TypeError, ValueError), "prefix: expected", "torch.float32"),
        ),
        (
            "prefix of booleans",
            lambda: prefix_mask(4, yes(2)),
            ((TypeError, ValueError), "prefix: expected", "torch.bool"),
        ),
        (
            "negative prefixes",
            lambda: prefix_mask(4, torch.tensor([0, -1])),
            lambda mask: torch.equal(mask, CAUSAL.expand(2, 1, 4, 4)),
        ),
        (
            "a prefix longer than all",
            lambda: prefix_mask(4, 9),
            lambda mask: mask.shape == (1, 1, 4, 4) and bool(mask.all()),
        ),
        ("T = 0", lambda: prefix_mask(0, 2), shape(1, 1, 0, 0)),
        ("B = 0", lambda: prefix_mask(4, i(0)), shape(0, 1, 4, 4)),
    ],
    "document_mask": tokens_of(document_mask, "documents", shape(2, 1, 0, 0), shape(0, 1, 5, 5)),
    "to_additive": [
        *booleans_of(to_additive),
        (
            "an integer type",
            lambda: to_additive(yes(5, 7), torch.int64),
            (TypeError, "dtype: expected", "torch.int64"),
        ),
        ("no type", lambda: to_additive(yes(5, 7), None), (TypeError, "dtype: expected", "None")),
        ("S = 0", lambda: to_additive(yes(5, 0)), shape(5, 0)),
    ],
    "from_additive": [
        ("booleans", lambda: from_additive(yes(5, 7)), (TypeError, "bias: expected", "torch.bool")),
        ("integers", lambda: from_additive(i(5, 7)), (TypeError, "bias: expected", "torch.int64")),
        ("None", lambda: from_additive(None), (TypeError, "bias: expected", "NoneType")),
        ("another number", lambda: from_additive(n(5, 7)), (ValueError, "bias: expected", "got ")),
        (
            "one, as in a mask of 0 and 1",
            lambda: from_additive(torch.ones(5, 7)),
            (ValueError, "bias: expected", "got 1"),
        ),
        (
            "NaN",
            lambda: from_additive(spoilt(torch.zeros(5, 7), 2, 3)),
            (ValueError, "bias: expected", "got nan"),
        ),
        (
            "plus infinity",
            lambda: from_additive(torch.full((5, 7), INF)),
            (ValueError, "bias: expected", "got inf"),
        ),
        ("S = 0", lambda: from_additive(n(5, 0)), shape(5, 0)),
    ],
    "to_torch_mha": [
        *booleans_of(lambda mask: to_torch_mha(mask, (2, 3, 5, 7))),
        (
            "three axes",
            lambda: to_torch_mha(yes(2, 5, 7), (2, 3, 5, 7)),
            (ValueError, "mask: expected", "(2, 5, 7)"),
        ),
        (
            "turned round",
            lambda: to_torch_mha(yes(7, 5), (2, 3, 5, 7)),
            (ValueError, "mask: expected", "(7, 5)"),
        ),
        (
            "read two ways",
            lambda: to_torch_mha(yes(5, 7), (5, 3, 5, 7)),
            (ValueError, "mask: shape (5, 7)", "give it 4 axes"),
        ),
        (
            "a shape of three",
            lambda: to_torch_mha(yes(5, 7), (2, 5, 7)),
            (ValueError, "shape: expected", "(2, 5, 7)"),
        ),
        (
            "no shape",
            lambda: to_torch_mha(yes(5, 7), None),
            ((TypeError, ValueError), "shape: expected", "None"),
        ),
        ("S = 0", lambda: to_torch_mha(yes(1, 1, 5, 0), (2, 3, 5, 0))["attn_mask"], shape(5, 0)),
        ("T = 0", lambda: to_torch_mha(yes(2, 1, 0, 7), (2, 3, 0, 7))["attn_mask"], shape(6, 0, 7)),
    ],
    "from_torch_mha": [
        (
            "integers",
            lambda: from_torch_mha(attn_mask=i(5, 7)),
            (TypeError, "attn_mask: expected", "torch.int64"),
        ),
        (
            "padding of integers",
            lambda: from_torch_mha(key_padding_mask=i(2, 7)),
            (TypeError, "key_padding_mask: expected", "torch.int64"),
        ),
        (
            "a list",
            lambda: from_torch_mha(attn_mask=[[True]]),
            (TypeError, "attn_mask: expected", "list"),
        ),
        (
            "numbers that forbid a little",
            lambda: from_torch_mha(attn_mask=n(5, 7)),
            (ValueError, "attn_mask: expected", "got "),
        ),
        (
            "NaN",
            lambda: from_torch_mha(key_padding_mask=spoilt(torch.zeros(2, 7), 1, 1)),
            (ValueError, "key_padding_mask: expected", "got nan"),
        ),
        (
            "four axes",
            lambda: from_torch_mha(attn_mask=yes(2, 3, 5, 7)),
            (ValueError, "attn_mask: expected", "(2, 3, 5, 7)"),
        ),
        (
            "padding of three axes",
            lambda: from_torch_mha(key_padding_mask=yes(2, 1, 7)),
            (ValueError, "key_padding_mask: expected", "(2, 1, 7)"),
        ),
        (
            "heads left out",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7)),
            (ValueError, "n_heads: expected", "got None"),
        ),
        (
            "heads that do not divide",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7), n_heads=4),
            (ValueError, "n_heads: expected", "got 4"),
        ),
        (
            "no heads",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7), n_heads=0),
            (ValueError, "n_heads: expected", "got 0"),
        ),
        (
            "fewer than no heads",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7), n_heads=-3),
            (ValueError, "n_heads: expected", "got -3"),
        ),
        (
            "heads by halves",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7), n_heads=1.5),
            ((TypeError, ValueError), "n_heads: expected", "got 1.5"),
        ),
        (
            "another batch",
            lambda: from_torch_mha(attn_mask=yes(6, 5, 7), key_padding_mask=yes(3, 7), n_heads=3),
            (ValueError, "key_padding_mask: expected", "(3, 7)"),
        ),
        (
            "another length",
            lambda: from_torch_mha(attn_mask=yes(5, 7), key_padding_mask=yes(2, 6)),
            (ValueError, "key_padding_mask: expected", "(2, 6)"),
        ),
        ("nothing", lambda: from_torch_mha(), lambda mask: mask is None),
        ("S = 0", lambda: from_torch_mha(key_padding_mask=yes(2, 0)), shape(2, 1, 1, 0)),
    ],
    "to_hugging_face": [
        *booleans_of(to_hugging_face),
        (
            "two axes",
            lambda: to_hugging_face(yes(5, 7)),
            (ValueError, "mask: expected 4 axes", "(5, 7)"),
        ),
        (
            "an integer type",
            lambda: to_hugging_face(yes(2, 1, 5, 7), torch.int64),
            (TypeError, "dtype: expected", "torch.int64"),
        ),
        ("S = 0", lambda: to_hugging_face(yes(2, 1, 1, 0)), shape(2, 0)),
    ],
    "from_hugging_face": [
        (
            "three axes",
            lambda: from_hugging_face(yes(2, 5, 7)),
            (ValueError, "attention_mask: expected", "(2, 5, 7)"),
        ),
        (
            "None",
            lambda: from_hugging_face(None),
            ((TypeError, ValueError), "attention_mask: expected", "NoneType"),
        ),
        (
            "numbers with two axes",
            lambda: from_hugging_face(torch.ones(2, 7)),
            (TypeError, "attention_mask: expected", "torch.float32"),
        ),
        (
            "integers with four axes",
            lambda: from_hugging_face(i(2, 1, 5, 7)),
            (TypeError, "attention_mask: expected", "torch.int64"),
        ),
        (
            "documents",
            lambda: from_hugging_face(i(2, 7) + 2),
            (ValueError, "attention_mask: expected 0 and 1", "got 2"),
        ),
        (
            "numbers that forbid a little",
            lambda: from_hugging_face(n(2, 1, 5, 7)),
            (ValueError, "attention_mask: expected", "got "),
        ),
        (
            "NaN",
            lambda: from_hugging_face(spoilt(torch.zeros(2, 1, 5, 7), 1)),
            (ValueError, "attention_mask: expected", "got nan"),
        ),
        ("S = 0", lambda: from_hugging_face(i(2, 0)), shape(2, 1, 1, 0)),
    ],
    "edit_influence": [
        *leak_inputs(edit_influence),
        (
            "a model that draws",
            lambda: edit_influence(lambda x: x + torch.randn(x.shape), n(2, 4, 3)),
            (ValueError, "model: expected the same output twice", "dropout"),
        ),
        (
            "no other token",
            lambda: edit_influence(lambda t: t.float()[..., None], i(2, 4)),
            ((TypeError, ValueError), ("inputs: expected", "vocab_size: expected"), ""),
        ),
        *whole_numbers(
            "vocab_size",
            lambda value: edit_influence(lambda t: t.float()[..., None], i(2, 4), vocab_size=value),
            none=False,
        ),
    ],
    "gradient_influence": [
        *leak_inputs(gradient_influence),
        (
            "tokens",
            lambda: gradient_influence(lambda t: t.float(), i(2, 4)),
            (TypeError, "inputs: expected floating point numbers", "torch.int64"),
        ),
        (
            "a model that does not look",
            lambda: gradient_influence(lambda x: torch.zeros(2, 4, 3), n(2, 4, 3)),
            zeros(2, 4, 2, 4),
        ),
    ],
    "LeakError": [
        ("what it is", lambda: LeakError("a leak"), lambda error: isinstance(error, AssertionError))
    ],
    "allowed_pairs": [
        *(
            (what, lambda value=value: allowed_pairs(value, (2, 4, 2, 4)), wanted)
            for what, wanted, value in ALLOWED
        ),
        (
            "two ways",
            lambda: allowed_pairs(yes(4, 4), (4, 4, 4, 4)),
            (ValueError, "allowed: shape (4, 4)", "B = T = 4"),
        ),
        ("S = 0", lambda: allowed_pairs(yes(4, 0), (2, 4, 2, 0)), shape(2, 4, 2, 0)),
    ],
    "assert_no_leak": [
        *leak_inputs(lambda model, inputs: assert_no_leak(model, inputs, CAUSAL)),
        *(
            (what, lambda value=value: assert_no_leak(causal_model, n(2, 4, 3), value), wanted)
            for what, wanted, value in ALLOWED
        ),
        (
            "a leak",
            lambda: assert_no_leak(lambda x: attention(x, x, x), n(2, 4, 3), CAUSAL),
            (LeakError, "output 0 of sample 0 depends on input 1", "mask passed on"),
        ),
        (
            "none",
            lambda: assert_no_leak(causal_model, n(2, 4, 3), CAUSAL),
            lambda result: result is None,
        ),
    ],
    "NoiseTest": [
        ("below the entropy", lambda: NoiseTest(1.0, 2.0, 0.01, []).leaks, lambda leaks: leaks),
        ("at the entropy", lambda: NoiseTest(2.0, 2.0, 0.01, []).leaks, lambda leaks: not leaks),
    ],
    "noise_leak": noise(noise_leak)
    + [
        (
            "an honest model",
            lambda: noise_leak(Guess(), guess_loss, 7, steps=2).leaks,
            lambda leaks: not leaks,
        )
    ],
    "assert_no_noise_leak": noise(assert_no_noise_leak),
    "check_int": [
        *whole_numbers("size", lambda value: check_int("size", value)),
        (
            "0 where that is allowed",
            lambda: check_int("size", 0, least=0),
            lambda result: result is None,
        ),
        (
            "any whole number",
            lambda: check_int("size", -3, least=None),
            lambda result: result is None,
        ),
        (
            "no whole number at all",
            lambda: check_int("size", 0.5, least=None),
            (TypeError, "size: expected a whole number, got", "0.5"),
        ),
        (
            "a whole number of NumPy",
            lambda: check_int("size", np.int64(5)),
            lambda result: result is None,
        ),
    ],
    "Positions": positions(Positions),
    "LearnedPositions": positions(LearnedPositions),
    "SinusoidalPositions": positions(SinusoidalPositions),
    "sinusoid_table": [
        *whole_numbers("max_len", lambda value: sinusoid_table(value, 12)),
        *whole_numbers("d_model", lambda value: sinusoid_table(9, value)),
        ("an odd width", lambda: sinusoid_table(9, 7), shape(9, 7)),
    ],
    "rotary_table": [
        *whole_numbers("max_len", lambda value: rotary_table(value, 4)),
        *whole_numbers("d_k", lambda value: rotary_table(9, value)),
        (
            "an odd width",
            lambda: rotary_table(9, 5),
            (ValueError, "d_k: expected an even width", "got 5"),
        ),
        *(
            (
                f"base of {bad}",
                lambda bad=bad: rotary_table(9, 4, base=bad),
                ((TypeError, ValueError), "base: expected", str(bad)),
            )
            for bad in (0.0, -1.0, NAN)
        ),
    ],
    "rotate": [
        ("rank 1", lambda: rotate(n(4), cos, sin), (ValueError, "x: expected", "(4,)")),
        (
            "an odd width",
            lambda: rotate(n(2, 3, 5, 3), cos, sin),
            (ValueError, "x: expected", "(2, 3, 5, 3)"),
        ),
        (
            "integers",
            lambda: rotate(i(2, 3, 5, 4), cos, sin),
            ((TypeError, ValueError), "x: expected", "torch.int64"),
        ),
        (
            "cosines of another length",
            lambda: rotate(n(2, 3, 5, 4), cos[:4], sin),
            (ValueError, "cos: expected", "(4, 2)"),
        ),
        (
            "sines of another width",
            lambda: rotate(n(2, 3, 5, 4), cos, sin[:, :1]),
            (ValueError, "sin: expected", "(5, 1)"),
        ),
        (
            "another layout",
            lambda: rotate(n(2, 3, 5, 4), cos, sin, "gptj"),
            (ValueError, "layout: expected", "'gptj'"),
        ),
        (
            "no layout",
            lambda: rotate(n(2, 3, 5, 4), cos, sin, None),
            (ValueError, "layout: expected", "None"),
        ),
        ("T = 0", lambda: rotate(n(2, 3, 0, 4), cos[:0], sin[:0]), shape(2, 3, 0, 4)),
        (
            "NaN in one word",
            lambda: rotate(spoilt(n(2, 3, 5, 4), 1, 2, 3), cos, sin),
            nan_only_at(1, 2, 3),
        ),
    ],
    "Rotary": [
        *heads_with_places(lambda: Rotary(4, 9)),
        (
            "another width",
            lambda: Rotary(4, 9)(n(2, 3, 5, 6), n(2, 3, 5, 6)),
            (ValueError, "q: expected", "got 6"),
        ),
        (
            "beyond the table",
            lambda: Rotary(4, 9)(n(2, 3, 10, 4), n(2, 3, 10, 4)),
            (ValueError, "q: expected at most", "got 10"),
        ),
        (
            "a start too late",
            lambda: Rotary(4, 9)(n(2, 3, 5, 4), n(2, 3, 5, 4), 5),
            (ValueError, "q: expected at most", "got 10"),
        ),
        (
            "an odd width of heads",
            lambda: Rotary(5, 9),
            (ValueError, "d_k: expected an even width", "got 5"),
        ),
        *whole_numbers("d_k", lambda value: Rotary(value, 9)),
        *whole_numbers("max_len", lambda value: Rotary(4, value)),
        (
            "another layout",
            lambda: Rotary(4, 9, layout="gptj"),
            (ValueError, "layout: expected", "'gptj'"),
        ),
        ("base of 0", lambda: Rotary(4, 9, base=0), (ValueError, "base: expected", "got 0")),
    ],
    "rotary_layout": [
        (
            "rank 3",
            lambda: rotary_layout(n(3, 4, 12), 4, "half"),
            (ValueError, "weight: expected", "(3, 4, 12)"),
        ),
        (
            "rows that heads do not divide",
            lambda: rotary_layout(n(10, 12), 4, "half"),
            (ValueError, "weight: expected", "(10, 12)"),
        ),
        (
            "an odd width",
            lambda: rotary_layout(n(10, 12), 5, "half"),
            (ValueError, "d_k: expected an even width", "got 5"),
        ),
        *whole_numbers("d_k", lambda value: rotary_layout(n(12, 12), value, "half")),
        (
            "another layout",
            lambda: rotary_layout(n(12, 12), 4, "gptj"),
            (ValueError, "to: expected", "'gptj'"),
        ),
        (
            "no layout",
            lambda: rotary_layout(n(12, 12), 4, None),
            (ValueError, "to: expected", "None"),
        ),
        ("no rows", lambda: rotary_layout(n(0, 12), 4, "half"), shape(0, 12)),
    ],
    "DistanceBias": whole_numbers("n_heads", DistanceBias) + distance_bias(lambda: Counting(3)),
    "alibi_slopes": whole_numbers("n_heads", alibi_slopes)
    + [("no power of two", lambda: alibi_slopes(3), shape(3))],
    "ALiBi": whole_numbers("n_heads", ALiBi) + distance_bias(lambda: ALiBi(3)),
    "RelativeBias": [
        *whole_numbers("n_heads", RelativeBias),
        *whole_numbers("max_distance", lambda value: RelativeBias(3, value)),
        *distance_bias(lambda: RelativeBias(3, 4)),
    ],
}


@pytest.mark.parametrize(("call", "wanted"), cases(TABLE))
def test_bad_input_gets_one_clear_sentence_or_a_defined_result(call, wanted):
    judge(call, wanted)


def test_every_public_name_has_its_rows():
    modules = [importlib.import_module(f"former_nb.{name}") for name in MODULES]
    assert public_names(*modules) | {"check_int"} == TABLE.keys() and all(
        TABLE.values()
    )  # the one name of lesson 00 that they share
