"""Masks, their patterns and their formats: edges of size 0, each guard once, and the way there and
back."""

import torch
from refusals import counts, every_row, i, n, shape, yes, zeros

from former_nb.attention.fused import attention
from former_nb.attention.mask_formats import (
    from_additive,
    from_attention_mask,
    from_torch_mha,
    to_additive,
    to_attention_mask,
    to_torch_mha,
)
from former_nb.attention.mask_patterns import (
    document_mask,
    masked_attention,
    prefix_mask,
    sliding_window_mask,
)
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier

CAUSAL, SHAPE = causal_mask(4), (2, 3, 5, 7)
NAN = torch.tensor([[0.0, float("nan")]])


def lengths(call):
    "`call(T, S)` builds a mask of four axes."
    return [
        *counts("T", lambda value: call(value, 3), least=0),
        *counts("S", lambda value: call(3, value), least=0),
        ("T = S = 0", lambda: call(0, 0), shape(1, 1, 0, 0)),
    ]


def tokens_of(call, name, empty, none):
    "`call(tokens)` builds a mask from (B, S) integers."
    return [
        ("rank 1", lambda: call(i(5)), ValueError, f"{name}", "(5,)"),
        ("booleans", lambda: call(yes(2, 5)), TypeError, name, "torch.bool"),
        ("B = 0", lambda: call(i(0, 5)), none),
        ("bytes", lambda: call(i(2, 0).to(torch.uint8)), empty),
    ]


def no_rule(call, name="mask"):
    "`call(mask)` takes booleans only."
    return [("numbers", lambda: call(n(2, 1, 5, 7)), TypeError, f"{name}", "float32")]


def theirs(attn_mask=None, key_padding_mask=None, **how):
    return from_torch_mha(attn_mask=attn_mask, key_padding_mask=key_padding_mask, **how)


TABLE = {
    "causal_mask": lengths(causal_mask),
    "padding_mask": [
        *tokens_of(padding_mask, "tokens", shape(2, 1, 1, 0), shape(0, 1, 1, 5)),
        ("no pad", lambda: padding_mask(i(2, 5), None), TypeError, "pad", "None"),
        ("pad is negative", lambda: padding_mask(i(2, 5) - 1, -1), zeros(2, 1, 1, 5)),
    ],
    "combine_masks": [
        *no_rule(lambda mask: combine_masks(CAUSAL, mask), "masks[1]"),
        ("None", lambda: combine_masks(None, CAUSAL), lambda mask: torch.equal(mask, CAUSAL)),
        ("nothing at all", lambda: combine_masks(None), lambda mask: mask is None),
        ("two axes", lambda: combine_masks(CAUSAL, yes(4, 4)), ValueError, "masks[1]", "(4, 4)"),
        ("lengths", lambda: combine_masks(CAUSAL, yes(1, 1, 4, 5)), RuntimeError, ""),
        ("S = 0", lambda: combine_masks(yes(1, 1, 4, 0), yes(2, 1, 1, 0)), shape(2, 1, 4, 0)),
    ],
    "sliding_window_mask": [
        *lengths(lambda T, S: sliding_window_mask(T, 2, S)),
        *counts("window", lambda value: sliding_window_mask(4, value)),
    ],
    "prefix_mask": [
        *counts("prefix", lambda value: prefix_mask(4, value), least=0),
        ("rank 2", lambda: prefix_mask(4, i(2, 1)), ValueError, "prefix", "(2, 1)"),
        ("booleans", lambda: prefix_mask(4, yes(2)), TypeError, "prefix", "torch.bool"),
        ("T = 0", lambda: prefix_mask(0, 2), shape(1, 1, 0, 0)),
        ("B = 0", lambda: prefix_mask(4, i(0)), shape(0, 1, 4, 4)),
    ],
    "document_mask": tokens_of(document_mask, "documents", shape(2, 1, 0, 0), shape(0, 1, 5, 5)),
    "to_additive": [
        *no_rule(to_additive),
        ("a type", lambda: to_additive(yes(5), torch.int64), TypeError, "", "finfo"),
        ("S = 0", lambda: to_additive(yes(5, 0)), shape(5, 0)),
    ],
    "from_additive": [
        ("booleans", lambda: from_additive(yes(5)), TypeError, "bias", "torch.bool"),
        ("ones", lambda: from_additive(torch.ones(5)), ValueError, "bias", "[1.0"),
        ("a little", lambda: from_additive(NAN[:, :1] - 1e9), ValueError, "bias", "[-1000000000.0"),
        ("NaN", lambda: from_additive(NAN), ValueError, "bias", "nan"),
        ("+inf", lambda: from_additive(1 / torch.zeros(5)), ValueError, "bias", "[inf"),
        ("S = 0", lambda: from_additive(n(5, 0)), shape(5, 0)),
    ],
    "to_torch_mha": [
        *no_rule(lambda mask: to_torch_mha(mask, SHAPE)),
        ("three axes", lambda: to_torch_mha(yes(2, 5, 7), SHAPE), ValueError, "mask"),
        ("turned round", lambda: to_torch_mha(yes(7, 5), SHAPE), ValueError, "mask"),
        ("two ways", lambda: to_torch_mha(yes(5, 7), (5, 3, 5, 7)), ValueError, "mask"),
        ("a shape of three", lambda: to_torch_mha(yes(5, 7), (2, 5, 7)), ValueError, ""),
        ("S = 0", lambda: to_torch_mha(yes(1, 1, 5, 0), (2, 3, 5, 0))["attn_mask"], shape(5, 0)),
        ("T = 0", lambda: to_torch_mha(yes(2, 1, 0, 7), (2, 3, 0, 7))["attn_mask"], shape(6, 0, 7)),
    ],
    "from_torch_mha": [
        ("integers", lambda: theirs(i(5, 7)), TypeError, "attn_mask", "int64"),
        ("ones", lambda: theirs(n(5, 7)), ValueError, "attn_mask"),
        ("NaN", lambda: theirs(None, NAN), ValueError, "key_padding_mask", "nan"),
        ("axes", lambda: theirs(yes(2, 3, 5, 7)), ValueError, "attn_mask", "(2, 3"),
        ("keys", lambda: theirs(None, yes(7)), ValueError, "key_padding_mask", "(7,)"),
        ("heads left out", lambda: theirs(yes(6, 5, 7)), TypeError, "n_heads"),
        ("heads", lambda: theirs(yes(6, 5, 7), n_heads=4), ValueError, "attn_mask", "6"),
        (
            "another batch",
            lambda: theirs(yes(6, 5, 7), yes(3, 7), n_heads=3),
            ValueError,
            "key_padding_mask",
            "(3, 7)",
        ),
        ("length", lambda: theirs(yes(5, 7), yes(2, 6)), ValueError, "key_padding_mask", "6)"),
        ("nothing", lambda: theirs(), lambda mask: mask is None),
        ("S = 0", lambda: theirs(None, yes(2, 0)), shape(2, 1, 1, 0)),
    ],
    "to_attention_mask": [
        *no_rule(to_attention_mask),
        ("two axes", lambda: to_attention_mask(yes(5, 7)), ValueError, "mask", "(5, 7)"),
        ("S = 0", lambda: to_attention_mask(yes(2, 1, 1, 0)), shape(2, 0)),
    ],
    "from_attention_mask": [
        ("three", lambda: from_attention_mask(yes(2, 5, 7)), ValueError, "attention_mask"),
        ("numbers", lambda: from_attention_mask(n(2, 7)), TypeError, "attention_mask", "float32"),
        ("integers", lambda: from_attention_mask(i(*SHAPE)), TypeError, "attention_mask", "int64"),
        ("documents", lambda: from_attention_mask(i(2, 7) + 2), ValueError, "attention_mask", "2"),
        ("a little", lambda: from_attention_mask(n(*SHAPE)), ValueError, "attention_mask"),
        ("S = 0", lambda: from_attention_mask(i(2, 0)), shape(2, 1, 1, 0)),
    ],
}


test_bad_input_is_named_and_edges_are_defined = every_row(TABLE)


def test_masks_are_made_where_they_are_asked_for():
    made = causal_mask(3, device="meta"), prefix_mask(3, 2, device="meta")
    assert all(mask.device.type == "meta" for mask in made)
    assert sliding_window_mask(3, 2, device="meta").device.type == "meta"


def test_what_pytorchs_layer_gets_is_what_it_says():
    tokens = torch.tensor([[1, 2, 3, 4, 5], [7, 8, 0, 0, 0], [1, 7, 3, 0, 0]])
    triangle, pads = causal_mask(5)[0, 0], padding_mask(tokens)
    both = from_torch_mha(attn_mask=~triangle, key_padding_mask=tokens == 0)
    assert both.equal(combine_masks(causal_mask(5), pads))
    assert from_torch_mha(attn_mask=to_additive(triangle)).equal(causal_mask(5))
    assert from_torch_mha(key_padding_mask=to_additive(tokens != 0)).equal(pads)
    assert list(to_torch_mha(causal_mask(1, 5), (3, 2, 1, 5))) == ["attn_mask"]
    assert list(to_torch_mha(pads, (3, 2, 5, 5))) == ["key_padding_mask"]
    assert to_torch_mha(triangle[:, :1], (3, 2, 5, 4))["attn_mask"].shape == (5, 4)
    assert from_attention_mask(tokens != 0).equal(pads)
    assert from_attention_mask(causal_mask(5)).equal(causal_mask(5))


def test_patterns_equal_their_rules_pair_by_pair():
    T, prefix, documents = 5, [2, 0, 5], [[1, 1, 2, 2, 2], [3, 1, 1, 1, 3], [0, 0, 0, 0, 0]]
    masks = prefix_mask(T, torch.tensor(prefix)), document_mask(torch.tensor(documents))
    for b, open_to_all in enumerate(prefix):
        for query in range(T):
            for key in range(T):
                assert masks[0][b, 0, query, key] == (key <= query or key < open_to_all)
                assert masks[1][b, 0, query, key] == (documents[b][query] == documents[b][key])
    assert prefix_mask(T, 2).equal(prefix_mask(T, torch.tensor([2])))


def test_one_more_mask_for_a_whole_model_leaves_the_models_own():
    torch.manual_seed(0)
    q, extra, pads = n(2, 3, 5, 4), sliding_window_mask(5, 2), padding_mask(TOKENS)
    attend = masked_attention(extra)
    assert attend(q, q, q, pads).equal(attention(q, q, q, combine_masks(extra, pads)))
    added = masked_attention(n(5, 5), masked_attention(n(5, 5), attend))
    wanted = attention(q, q, q, (2 * n(5, 5)).masked_fill(~extra, -torch.inf))
    torch.testing.assert_close(added(q, q, q), wanted)
    model = Classifier.from_config(TransformerConfig(9, 5, 8, 2, 2, 16, dropout=0.0), 2)
    torch.nn.init.normal_(model.head.weight)
    text, padded = TOKENS[1:, :2], TOKENS[1:]
    assert padded[0, 2:].eq(0).all()  # padding stays hidden behind another mask
    everything = masked_attention(torch.ones(5, 5, dtype=torch.bool))
    torch.testing.assert_close(model(padded, everything), model(text))


TOKENS = torch.tensor([[1, 2, 3, 4, 5], [7, 8, 0, 0, 0]])
