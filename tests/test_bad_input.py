"""What every public function of lessons 01 to 05 says to bad input: one sentence that names the argument, or a result that is defined.

A row of the table: what is wrong, the call, and either an error (its type, how its message starts, what else it says) or a check of the result.
"""

import importlib

import numpy as np
import pytest
import torch
from bad_input_table import (
    BAD_NUMBERS,
    INF,
    NAN,
    cases,
    i,
    judge,
    n,
    nan_only_at,
    public_names,
    shape,
    shapes,
    spoilt,
    whole_numbers,
    words,
    yes,
    zeros,
)
from torch import nn

from former_nb.attention import (
    AttentionHead,
    attention,
    attention_loops,
    masked_softmax,
    merge_masks,
)
from former_nb.equivalent_forms import (
    Cost,
    GrowingCache,
    count_cost,
    multi_head_folded,
    multi_head_token_by_token,
)
from former_nb.guards import (
    check_attention,
    check_ids,
    check_int,
    check_multiple,
    check_over,
    check_share,
    check_tensor,
)
from former_nb.leaks import (
    LeakError,
    NoiseTest,
    allowed_pairs,
    assert_no_leak,
    assert_no_noise_leak,
    edit_influence,
    gradient_influence,
    noise_leak,
)
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
    SeparateHeads,
    WideMultiHeadAttention,
    mha_from_torch,
    mha_to_torch,
    record_attention,
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
    "guards",
    "attention",
    "multi_head",
    "equivalent_forms",
    "masks",
    "mask_formats",
    "leaks",
    "positions",
    "relative_positions",
]


# ---- 02 and 03

Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 4, seed=2)
X = n(2, 5, 12)
LAYER = MultiHeadAttention(12, 3)
GROUPED = MultiHeadAttention(12, 6, n_kv_heads=2)
TURNED = MultiHeadAttention(12, 3, positions=Rotary(4, 6))
HEAD = AttentionHead(12, 4)


def attention_inputs(f):
    "Each guard of q, k, v, mask and dropout once."
    two_axes = lambda: f(n(5, 3, 5, 8), n(5, 3, 5, 8), n(5, 3, 5, 4), yes(5, 5))
    return [
        ("q of rank 2", lambda: f(n(5, 8), K, V), (ValueError, "q: expected", "(5, 8)")),
        ("integers", lambda: f(i(2, 3, 5, 8), K, V), (TypeError, "q: expected", "torch.int64")),
        ("no tensor", lambda: f(None, K, V), (TypeError, "q: expected", "NoneType")),
        ("precisions", lambda: f(Q, K.double(), V), (TypeError, "k: expected", "torch.float64")),
        ("width", lambda: f(Q, n(2, 3, 7, 9), V), (ValueError, "k: expected", "d_k = 8")),
        ("batch", lambda: f(Q, n(4, 3, 7, 8), V), (ValueError, "k: expected", "B = 2")),
        ("heads", lambda: f(Q, n(2, 1, 7, 8), V), (ValueError, "k: expected", "h = 3")),
        ("values", lambda: f(Q, K, n(2, 3, 6, 4)), (ValueError, "v: expected", "S = 7")),
        ("mask", lambda: f(Q, K, V, i(2, 1, 5, 7)), (TypeError, "mask: expected", "torch.int64")),
        ("turned", lambda: f(Q, K, V, yes(7, 5)), (ValueError, "mask: expected", "(7, 5)")),
        ("three axes", lambda: f(Q, K, V, yes(2, 5, 7)), (ValueError, "mask: expected", "4 axes")),
        ("bias", lambda: f(Q, K, V, n(1, 3, 7, 5)), (ValueError, "mask: expected", "(1, 3, 7, 5)")),
        ("two ways", two_axes, (ValueError, "mask: shape (5, 5)", "give it 4 axes")),
        ("dropout", lambda: f(Q, K, V, dropout=1.0), (ValueError, "dropout: expected", "1.0")),
        ("dropout", lambda: f(Q, K, V, dropout="a"), (TypeError, "dropout: expected", "'a'")),
    ]


def attention_edges(f):
    "Sizes of zero, and masks that allow nothing; `f` gives the output."
    none, empty = (n(2, 3, 0, 8), n(2, 3, 0, 4)), n(2, 3, 0, 8)
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
        (
            "more queries than keys, causal",
            lambda: f(Q, K[:, :, :2], V[:, :, :2], is_causal=True)[:, :, :3],
            zeros(2, 3, 3, 4),
        ),
        ("NaN in a query", lambda: f(spoilt(Q, 0, 1, 2), K, V), nan_only_at(0, 1, 2)),
    ]


def fused(*args, **kwargs):
    return attention(*args, **kwargs)


def written(*args, **kwargs):
    return attention(*args, **kwargs, need_weights=True)[0]


def layer_edges(call, width=12):
    "Sizes of zero and NaN for a layer (B, T, d_model) -> (B, T, d_model) whose words see one another."
    return [
        ("T = 0", lambda: call(n(2, 0, width)), shape(2, 0, width)),
        ("B = 0", lambda: call(n(0, 5, width)), shape(0, 5, width)),
        ("NaN in one sentence", lambda: call(spoilt(n(2, 5, width), 1, 2)), nan_only_at(1)),
    ]


def theirs(**kwargs):
    return nn.MultiheadAttention(12, 3, **{"batch_first": True} | kwargs)


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

TABLE = {
    "attention_loops": [
        ("S = 7", lambda: attention_loops(Q[0, 0], K[0, 0], V[0, 0]), shape(5, 4)),
    ],
    "masked_softmax": [
        ("T = 0", lambda: masked_softmax(n(2, 0, 7), yes(0, 7)), shape(2, 0, 7)),
        ("S = 0", lambda: masked_softmax(n(2, 5, 0), yes(5, 0)), shape(2, 5, 0)),
        ("nothing allowed", lambda: masked_softmax(n(5, 7), ~yes(7)), zeros(5, 7)),
        ("all at -inf", lambda: masked_softmax(n(5, 7) - INF), zeros(5, 7)),
    ],
    "merge_masks": [
        ("nothing", lambda: merge_masks(None, None), lambda mask: mask is None),
        ("one", lambda: merge_masks(None, yes(5)), lambda mask: bool(mask.all())),
        ("rules", lambda: merge_masks(yes(5), ~yes(1)), lambda mask: not mask.any()),
        ("biases", lambda: merge_masks(n(5), -n(1, 5)), zeros(1, 5)),
        ("both", lambda: merge_masks(n(5), ~yes(1)), lambda mask: bool(mask.isneginf().all())),
        ("turned", lambda: merge_masks(~yes(1), n(5)), lambda mask: bool(mask.isneginf().all())),
    ],
    "check_attention": attention_inputs(check_attention),
    "check_over": [
        ("no numbers", lambda: check_over("m", n(5), (2, 1, 5), torch.bool), (TypeError, "m:", "")),
        ("None", lambda: check_over("m", None, (2, 5, 7)), lambda result: result is None),
    ],
    "check_ids": [
        ("numbers", lambda: check_ids("t", n(2, 5), 9), (TypeError, "t: expected", "float32")),
        ("one axis", lambda: check_ids("t", i(5), 9), (ValueError, "t: expected", "(5,)")),
        ("too large", lambda: check_ids("t", i(2, 5) + 9, 9), (ValueError, "t:", "got 9")),
        ("negative", lambda: check_ids("t", i(2, 5) - 1, 9), (ValueError, "t:", "got -1")),
        ("B = 0", lambda: check_ids("t", i(0, 5), 9), lambda sizes: sizes == {"B": 0, "T": 5}),
    ],
    "check_tensor": words(lambda x: check_tensor("x", x, "B T d_model", d_model=12)),
    "check_multiple": [
        ("5 of 12", lambda: check_multiple("d", 12, "h", 5), (ValueError, "d: expected", "h = 5")),
    ],
    "check_share": [
        ("a boolean", lambda: check_share("p", True), (TypeError, "p: expected", "True")),
        ("negative", lambda: check_share("p", -0.1), (ValueError, "p: expected", "-0.1")),
        ("NaN", lambda: check_share("p", NAN), (ValueError, "p: expected", "nan")),
    ],
    "attention": [*attention_inputs(attention), *attention_edges(fused), *attention_edges(written)],
    "AttentionHead": [
        ("T = 0", lambda: HEAD(n(2, 0, 12)), shape(2, 0, 4)),
        ("mask", lambda: HEAD(X, yes(4, 5)), (ValueError, "mask: expected", "(4, 5)")),
    ],
    "SeparateHeads": [("B = 0", lambda: SeparateHeads(12, 3, 5)(n(0, 5, 12)), shape(0, 5, 12))],
    "WideMultiHeadAttention": words(WideMultiHeadAttention(12, 5)),
    "MultiHeadAttention": [
        *words(LAYER),
        *layer_edges(LAYER),
        *layer_edges(TURNED),
        *words(lambda memory: LAYER(X, memory), start="memory: expected"),
        *words(lambda memory: LAYER.project_kv(memory), start="memory: expected"),
        ("batch", lambda: LAYER(X, n(4, 7, 12)), (ValueError, "memory: expected", "B = 2")),
        ("pair", lambda: LAYER(X, LAYER.project_kv(n(4, 7, 12))), (ValueError, "k:", "B = 2")),
        ("S = 0", lambda: LAYER(X, n(2, 0, 12), need_weights=True)[1], shape(2, 3, 5, 0)),
        ("mask", lambda: LAYER(X, mask=yes(2, 5, 5)), (ValueError, "mask: expected", "4 axes")),
        (
            "mask read two ways, beside a bias of positions",
            lambda: MultiHeadAttention(12, 3, positions=ALiBi(3))(n(5, 5, 12), mask=yes(5, 5)),
            (ValueError, "mask: shape (5, 5)", "give it 4 axes"),
        ),
        ("positions", lambda: TURNED(X, X), (ValueError, "memory: expected None", "positions")),
        ("too long", lambda: TURNED(n(2, 7, 12)), (ValueError, "q: expected at most", "got 7")),
        ("a cache of another batch", lambda: cached(LAYER, X, 3), (ValueError, "k: expected", "3")),
        ("heads", lambda: MultiHeadAttention(12, 5), (ValueError, "d_model: expected", "got 12")),
        (
            "groups",
            lambda: MultiHeadAttention(12, 6, n_kv_heads=4),
            (ValueError, "n_heads: expected a multiple of n_kv_heads = 4", "got 6"),
        ),
        *whole_numbers("n_heads", lambda value: MultiHeadAttention(12, value)),
        ("dropout", lambda: MultiHeadAttention(12, 3, 1.0), (ValueError, "dropout:", "1.0")),
    ],
    "record_attention": [
        (
            "a model without attention",
            lambda: record_attention(nn.Linear(2, 2)).__enter__(),
            lambda weights: weights == {},
        ),
    ],
    "mha_from_torch": [
        *(
            (str(how), lambda how=how: mha_from_torch(theirs(**how)), (ValueError, "theirs:", ""))
            for how in (
                {"batch_first": False},
                {"kdim": 8},
                {"add_bias_kv": True},
                {"add_zero_attn": True},
            )
        ),
        ("our own layer", lambda: mha_from_torch(LAYER), (TypeError, "theirs: expected", "")),
    ],
    "mha_to_torch": [
        ("grouped heads", lambda: mha_to_torch(GROUPED), (ValueError, "ours: expected", "")),
        ("positions", lambda: mha_to_torch(TURNED), (ValueError, "ours: expected", "positions")),
        (
            "wide",
            lambda: mha_to_torch(MultiHeadAttention(12, 3, d_k=12)),
            (ValueError, "ours:", ""),
        ),
        ("torch's layer", lambda: mha_to_torch(theirs()), (TypeError, "ours: expected", "")),
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
            (ValueError, "x: expected", "B, T, d_model"),
        ),
        (
            "rank 4",
            lambda: multi_head_token_by_token(LAYER, n(2, 3, 5, 12)),
            (ValueError, "x: expected", "B, T, d_model"),
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
            lambda: count_cost(LAYER, n(5, 12)),
            (ValueError, "x: expected", "(5, 12)"),
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
    assert public_names(*modules) == TABLE.keys() and all(TABLE.values())
