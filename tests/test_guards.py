"""Guards of arguments: each takes what fits, and names what doesn't in one sentence."""

import numpy as np
import torch
from refusals import NAN, every_row, fine, i, n, words, yes

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

Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 4, seed=2)


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


TABLE = {
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
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
