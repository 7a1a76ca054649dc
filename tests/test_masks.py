"Masks and their patterns: edges of size 0, and each guard once."

import torch
from refusals import counts, every_row, i, n, shape, yes, zeros

from former_nb.attention.fused import attention
from former_nb.attention.mask_patterns import (
    document_mask,
    masked_attention,
    prefix_mask,
    sliding_window_mask,
)
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier

CAUSAL = causal_mask(4)


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


TABLE = {
    "causal_mask": lengths(causal_mask),
    "padding_mask": [
        *tokens_of(padding_mask, "tokens", shape(2, 1, 1, 0), shape(0, 1, 1, 5)),
        ("no pad", lambda: padding_mask(i(2, 5), None), TypeError, "pad", "None"),
        ("pad is negative", lambda: padding_mask(i(2, 5) - 1, -1), zeros(2, 1, 1, 5)),
    ],
    "combine_masks": [
        ("numbers", lambda: combine_masks(CAUSAL, n(2, 1, 5, 7)), TypeError, "masks[1]", "float32"),
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
}


test_bad_input_is_named_and_edges_are_defined = every_row(TABLE)


def test_masks_are_made_where_they_are_asked_for():
    made = causal_mask(3, device="meta"), prefix_mask(3, 2, device="meta")
    assert all(mask.device.type == "meta" for mask in made)
    assert sliding_window_mask(3, 2, device="meta").device.type == "meta"


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
