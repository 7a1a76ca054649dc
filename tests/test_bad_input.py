"""What the functions of lessons 01 to 05 say to bad input: one sentence that names the
argument, or a result that is defined.

A row of the table: see `refusals`.
"""

import numpy as np
import torch
from attention_tools import Placed, written
from refusals import (
    INF,
    NAN,
    counts,
    every_row,
    fine,
    i,
    n,
    nan_only_at,
    shape,
    spoilt,
    words,
    yes,
    zeros,
)
from torch import nn

from former_nb.attention.angle_tables import Rotary, rotary_frequencies, rotary_table
from former_nb.attention.dot_product import AttentionHead, attention_loops
from former_nb.attention.fused import (
    attention,
    attention_weights,
    full_mask,
    masked_softmax,
    merge_masks,
)
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import (
    LearnedPositions,
    SinusoidalPositions,
    rotate,
    sinusoid_table,
)
from former_nb.attention.relative_positions import (
    ALiBi,
    DistanceBias,
    RelativeBias,
    ScaledRotary,
    alibi_slopes,
    rotate_interleaved,
)
from former_nb.attention.torch_layers import mha_from_torch, mha_to_torch
from former_nb.base.guards import (
    check_attended,
    check_attention,
    check_heads,
    check_ids,
    check_int,
    check_ints,
    check_multiple,
    check_over,
    check_self_attention,
    check_share,
    check_tensor,
    check_type,
)
from former_nb.decoding.caches import LayerCache
from former_nb.inspection.recording import record_attention
from former_nb.models.modern_decoder import GroupedQueryAttention

# ---- 02 and 03

Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 4, seed=2)
X = n(2, 5, 12)
LAYER = MultiHeadAttention(12, 3)
GROUPED = GroupedQueryAttention(12, 6, 2)
TURNED = Placed(LAYER, Rotary(4))
BIASED = Placed(LAYER, ALiBi(3))
HEAD, ROTARY = AttentionHead(12, 4), Rotary(4)


def attention_inputs(f):
    "Each guard of q, k, v and mask once."
    two_axes = lambda: f(n(5, 3, 5, 8), n(5, 3, 5, 8), n(5, 3, 5, 4), yes(5, 5))
    return [
        ("q of rank 2", lambda: f(n(5, 8), K, V), ValueError, "q", "(5, 8)"),
        ("no tensor", lambda: f(None, K, V), TypeError, "q", "NoneType"),
        ("precisions", lambda: f(Q, K.double(), V), TypeError, "k", "torch.float64"),
        ("batch", lambda: f(Q, n(4, 3, 7, 8), V), ValueError, "k", "(4, 3, 7, 8)"),
        ("values", lambda: f(Q, K, n(2, 3, 6, 4)), ValueError, "v", "(2, 3, 6, 4)"),
        ("mask", lambda: f(Q, K, V, i(2, 1, 5, 7)), TypeError, "mask", "torch.int64"),
        ("turned", lambda: f(Q, K, V, yes(7, 5)), ValueError, "mask", "(7, 5)"),
        ("three axes", lambda: f(Q, K, V, yes(2, 5, 7)), ValueError, "mask", "(2, 5, 7)"),
        ("bias", lambda: f(Q, K, V, n(1, 3, 7, 5)), ValueError, "mask", "(1, 3, 7, 5)"),
        ("two ways", two_axes, ValueError, "mask", "(5, 5)"),
    ]


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


def layer_edges(call, width=12):
    """Sizes of zero and NaN for a layer (B, T, d_model) -> (B, T, d_model) whose words see one
    another."""
    return [
        ("T = 0", lambda: call(n(2, 0, width)), shape(2, 0, width)),
        ("B = 0", lambda: call(n(0, 5, width)), shape(0, 5, width)),
        ("NaN in one sentence", lambda: call(spoilt(n(2, 5, width), 1, 2)), nan_only_at(1)),
    ]


def theirs(**kwargs):
    return nn.MultiheadAttention(12, 3, **{"batch_first": True} | kwargs)


def cached(layer, x, batch):
    cache = LayerCache()
    layer(n(batch, 2, 12), attend=cache)
    return layer(x, attend=cache)


# ---- 05


FIRST = torch.arange(5)  # the positions of five words
ROWS_OF_3 = FIRST.expand(3, 5)
SHORT = ValueError, "positions", "(4,)"


def places(call):
    "What is refused as the positions of five words."
    below = torch.arange(-1, 4)
    return [
        ("positions below 0", lambda: call(below), ValueError, "positions", "-1"),
        ("positions are a number", lambda: call(3), TypeError, "positions", "int"),
        ("positions are no integers", lambda: call(torch.rand(5)), TypeError, "positions", "float"),
        ("too few positions", lambda: call(torch.arange(4)), ValueError, "positions", "(4,)"),
        ("another batch of them", lambda: call(ROWS_OF_3), ValueError, "positions", "(3, 5)"),
    ]


def positions(kind):
    table = kind(9, 12)
    return [
        *counts("max_len", lambda value: kind(value, 12)),
        *words(lambda x: table(x, FIRST)),
        *places(lambda value: table(X, value)),
        ("no positions", lambda: table(X, None), TypeError, "positions", "None"),
        ("too many", lambda: table(n(2, 10, 12), torch.arange(10)), ValueError, "positions", "9"),
        ("too late", lambda: table(X, torch.arange(5, 10)), ValueError, "positions", "9"),
        ("T = 0", lambda: table(n(2, 0, 12), torch.arange(0)), shape(2, 0, 12)),
        ("B = 0", lambda: table(n(0, 5, 12), FIRST), shape(0, 5, 12)),
        ("NaN in one word", lambda: table(spoilt(X, 1, 2), FIRST), nan_only_at(1, 2)),
    ]


def heads_with_places(positions, attend=written):
    "Rotary and distance biases around attention written out, with three heads."
    layer = positions(attend, FIRST)
    nothing = positions(attend, torch.arange(0))
    q = n(2, 3, 5, 4)
    return [
        ("q of rank 3", lambda: layer(q[0], q, q), ValueError, "q"),
        ("another batch", lambda: layer(q, n(4, 3, 5, 4), q), ValueError, "k", "(4, 3"),
        ("more keys than queries", lambda: layer(q, n(2, 3, 6, 4), q), ValueError, "k", "6, 4)"),
        ("another width of keys", lambda: layer(q, n(2, 3, 5, 6), q), ValueError, "k", "5, 6)"),
        ("T = 0", lambda: nothing(*[q[:, :, :0]] * 3), shape(2, 3, 0, 4)),
        ("too few positions", lambda: positions(attend, FIRST[1:])(q, q, q), *SHORT),
        ("no positions", lambda: positions(attend, None), TypeError, "positions"),
        ("B = 0", lambda: layer(*[q[:0]] * 3), shape(0, 3, 5, 4)),
        ("NaN in one word", lambda: layer(spoilt(q, 1, 2, 3), q, q), nan_only_at(1, 2, 3)),
        ("grouped keys", lambda: layer(q, q[:, :1], q[:, :1]), shape(2, 3, 5, 4)),
    ]


def rotary(layer):
    "Rotary positions of heads of width 4."
    q = n(2, 3, 5, 4)
    return [
        *heads_with_places(layer),
        *places(lambda value: layer.turn(q, value)),
        ("width", lambda: layer(attention, FIRST)(*[n(2, 3, 5, 6)] * 3), ValueError, "q"),
        ("T = 0", lambda: layer.turn(q[:, :, :0], torch.arange(0)), shape(2, 3, 0, 4)),
    ]


def distance_bias(layer):
    four = [n(2, 4, 5, 4)] * 3
    gap = ValueError, "positions"
    return [
        *heads_with_places(layer),
        ("heads", lambda: layer(attention, FIRST)(*four), ValueError, "q", "(2, 4"),
        ("a gap", lambda: layer(attention, torch.tensor([0, 1, 2, 4, 5])), *gap, "4"),
        ("not in order", lambda: layer(attention, torch.tensor([0, 2, 1, 3, 4])), *gap, "2, 1"),
        ("T = 0 after others", lambda: layer.bias(0, 4), shape(1, 3, 0, 4)),
        ("S = 0", lambda: layer.bias(0, 0), shape(1, 3, 0, 0)),
    ]


def half(frequency):
    return frequency / 2


class Counting(DistanceBias):
    def by_distance(self, distance):
        return distance.expand(self.n_heads, *distance.shape)


EVEN = ValueError, "d_k", "5"

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
    "check_attention": attention_inputs(check_attention),
    "check_over": [
        ("no numbers", lambda: check_over("m", n(5), (2, 1, 5), torch.bool), TypeError, "m"),
        ("None", lambda: check_over("m", None, (2, 5, 7)), fine),
    ],
    "check_ids": [
        ("numbers", lambda: check_ids("t", n(2, 5), 9), TypeError, "t", "float32"),
        ("one axis", lambda: check_ids("t", i(5), 9), ValueError, "t", "(5,)"),
        ("too large", lambda: check_ids("t", i(2, 5) + 9, 9), ValueError, "t", "9"),
        ("negative", lambda: check_ids("t", i(2, 5) - 1, 9), ValueError, "t", "-1"),
        ("B = 0", lambda: check_ids("t", i(0, 5), 9), lambda sizes: sizes == {"B": 0, "T": 5}),
    ],
    "check_tensor": [
        *words(lambda x: check_tensor("x", x, "B T d_model", d_model=12)),
        (
            "kind",
            lambda: check_tensor("x", i(5), None),
            TypeError,
            "x",
            "torch.int64 of shape (5,)",
        ),
        (
            "a type that fits",
            lambda: check_tensor("x", n(5, 12), "B T d_model", d_model=12),
            ValueError,
            "x",
            "(5, 12)",
        ),
        (
            "another type",
            lambda: check_tensor("x", i(5, 12), "B T d_model", d_model=12),
            TypeError,
            "x",
            "torch.int64 of shape",
        ),
        ("any shape", lambda: check_tensor("x", n(2, 5), None), lambda sizes: sizes == {}),
    ],
    "check_ints": [
        ("one of two", lambda: check_ints(a=2, b=0), ValueError, "b", "0"),
        ("from 0", lambda: check_ints(0, a=2, b=0), fine),
    ],
    "check_multiple": [
        ("5 of 12", lambda: check_multiple("d", 12, "h", 5), ValueError, "d", "12"),
    ],
    "check_heads": [
        ("d_k", lambda: check_heads(12, 5, d_k=0), ValueError, "d_k", "0"),
        ("wide", lambda: check_heads(12, 5, d_k=12), fine),
    ],
    "check_type": [
        ("another", lambda: check_type("c", 3, (str, list)), TypeError, "c", "int"),
        ("the type", lambda: check_type("c", "a", str), fine),
    ],
    "check_self_attention": [
        ("q", lambda: check_self_attention(Q, Q, n_heads=4), ValueError, "q", "3, 5"),
        ("k", lambda: check_self_attention(Q, K), ValueError, "k", "7, 8)"),
        ("grouped keys", lambda: check_self_attention(Q, Q[:, :1]), fine),
    ],
    "check_attended": [
        ("an output", lambda: check_attended(Q, Q), fine),
        ("a pair", lambda: check_attended((Q, Q), Q), TypeError, "attend", "tuple"),
        ("keys", lambda: check_attended(K, Q), ValueError, "attend", "(2, 3, 7, 8)"),
    ],
    "check_share": [
        ("a boolean", lambda: check_share("p", True), TypeError, "p", "True"),
        ("negative", lambda: check_share("p", -0.1), ValueError, "p", "-0.1"),
        ("NaN", lambda: check_share("p", NAN), ValueError, "p", "nan"),
    ],
    "check_int": [
        ("too small", lambda: check_int("size", 0), ValueError, "size", "0"),
        *(
            (repr(x), lambda x=x: check_int("size", x), TypeError, "size", repr(x))
            for x in (2.0, True, None)
        ),
        ("0", lambda: check_int("size", 0, least=0), fine),
        ("any whole number", lambda: check_int("size", -3, least=None), fine),
        ("a half", lambda: check_int("size", 0.5, least=None), TypeError, "size"),
        ("a whole number of NumPy", lambda: check_int("size", np.int64(5)), fine),
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
    "GroupedQueryAttention": [
        *words(GROUPED),
        *layer_edges(GROUPED),
        ("groups", lambda: GroupedQueryAttention(12, 6, 4), ValueError, "n_heads", "6"),
        *counts("n_kv_heads", lambda value: GroupedQueryAttention(12, 6, value)),
        *counts("d_k", lambda value: GroupedQueryAttention(12, 6, d_k=value)),
    ],
    "record_attention": [
        (
            "no attention",
            lambda: record_attention(nn.ReLU()).__enter__(),
            ValueError,
            "model",
            "ReLU",
        ),
    ],
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
    "LearnedPositions": positions(LearnedPositions),
    "SinusoidalPositions": positions(SinusoidalPositions),
    "sinusoid_table": [("an odd width", lambda: sinusoid_table(9, 7), shape(9, 7))],
    "rotary_frequencies": [
        *counts("d_k", rotary_frequencies, least=2),
        ("an odd width", lambda: rotary_frequencies(5), *EVEN),
        ("base of 0", lambda: rotary_frequencies(4, 0.0), ValueError, "base", "0.0"),
        ("base of NaN", lambda: rotary_frequencies(4, NAN), ValueError, "base"),
    ],
    "rotary_table": [
        ("T = 0", lambda: rotary_table(i(0), rotary_frequencies(4)), shape(2, 0, 2)),
    ],
    "rotate": [("T = 0", lambda: rotate(n(2, 3, 0, 4), n(0, 2), n(0, 2)), shape(2, 3, 0, 4))],
    "Rotary": [
        *rotary(ROTARY),
        *counts("d_k", Rotary, least=2),
        ("an odd width of heads", lambda: Rotary(5), *EVEN),
        ("base", lambda: Rotary(4, 0.0), ValueError, "base"),
    ],
    "rotate_interleaved": [
        ("T = 0", lambda: rotate_interleaved(n(2, 0, 4), n(0, 2), n(0, 2)), shape(2, 0, 4)),
    ],
    "ScaledRotary": [
        *rotary(ScaledRotary(4, 1e4, half)),
        ("an odd width of heads", lambda: ScaledRotary(5, 1e4, half), *EVEN),
    ],
    "DistanceBias": distance_bias(Counting(3)),
    "alibi_slopes": counts("n_heads", alibi_slopes),
    "ALiBi": distance_bias(ALiBi(3)),
    "RelativeBias": [
        *counts("max_distance", lambda value: RelativeBias(3, value)),
        *distance_bias(RelativeBias(3, 4)),
    ],
}


test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
