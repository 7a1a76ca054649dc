"""Heads are switched off and exchanged in any model, and nothing is left behind."""

import pytest
import torch
from recording_tools import MODEL, NEAR, READERS, TOKENS, encoder, hooks, ours, run, theirs
from refusals import every_row
from torch import nn
from torch.testing import assert_close

from former_nb.inspection.ablation import ablate_heads, edit_heads, find_heads, record_heads
from former_nb.inspection.recording import find_attention
from former_nb.models.savable import EncoderDecoder, LanguageModel


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_heads_of_a_padded_encoder_can_be_changed():
    model, x = encoder(), torch.randn(2, 5, 12)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        before = model(x, src_key_padding_mask=padding)
        with record_heads(model) as heads:
            assert_close(model(x, src_key_padding_mask=padding)[~padding], before[~padding], **NEAR)
        with ablate_heads(model, heads):
            assert (model(x, src_key_padding_mask=padding) - before).abs().max() > 0.01
        assert torch.equal(model(x, src_key_padding_mask=padding), before)


@pytest.mark.parametrize("case", READERS)
def test_a_head_switched_off_changes_the_output_and_only_within(case):
    model, args, kwargs = READERS[case]()
    before, heads = run(model, args, kwargs), find_heads(model)
    with record_heads(model) as found:
        assert_close(run(model, args, kwargs), before, **NEAR)
    assert sorted(found) == sorted(heads)
    with edit_heads(model, found):  # its own heads
        assert_close(run(model, args, kwargs), before, **NEAR)
    for mean in (False, True):
        with ablate_heads(model, heads[-1:], mean):
            assert (run(model, args, kwargs) - before).abs().max() > 0
    assert torch.equal(run(model, args, kwargs), before) and not hooks(model)


def columns(out, head, h):
    "A copy of W_o without the columns of a head."
    weight = out.weight.detach().clone()
    rows = weight if isinstance(out, nn.Linear) else weight.T  # GPT-2's Conv1D is transposed
    d = rows.shape[1] // h
    rows[:, (head - 1) * d : head * d] = 0
    return weight


@pytest.mark.parametrize(
    "make, part, args",
    [
        (lambda: ours(LanguageModel), "stack.blocks.1.attention.w_o", (TOKENS,)),
        (lambda: theirs("GPT2"), "h.1.attn.c_proj", (TOKENS,)),
        (lambda: theirs("Bert"), "encoder.layer.1.attention.output.dense", (TOKENS,)),
        (encoder, "layers.1.self_attn.out_proj", (torch.randn(1, 5, 12),)),
    ],
)
def test_without_a_head_is_without_its_columns_of_w_o(make, part, args):
    model = make()
    h = find_attention(model)[1].n_heads
    with ablate_heads(model, [("self", 2, 2)]):
        found = run(model, args, {})
    out = model.get_submodule(part)
    out.weight.data = columns(out, 2, h)
    assert_close(found, run(model, args, {}), atol=1e-6, rtol=0)


def test_heads_of_another_input_give_its_output():
    model = ours(EncoderDecoder)
    src, tgt = torch.tensor([[5, 9, 4, 6, 7, 8]]), TOKENS[:, :4]
    with record_heads(model) as heads:
        run(model, (src, tgt), {})
    cross = {head: z for head, z in heads.items() if head[0] == "cross"}
    with edit_heads(model, cross):
        patched = run(model, (TOKENS, tgt), {})
    assert_close(patched, run(model, (src, tgt), {}), **NEAR)  # the source comes in here only


def extra(**kwargs):
    layer, x = nn.MultiheadAttention(12, 2, batch_first=True, **kwargs), torch.randn(1, 5, 12)
    with ablate_heads(layer, [("self", 1, 1)]):
        layer(x, x, x)


TABLE = {
    "edit_heads": [
        (
            "a head too far",
            lambda: ablate_heads(MODEL, [("self", 2, 5)]),
            ValueError,
            "heads",
            "2, 5",
        ),
        (
            "a layer too far",
            lambda: edit_heads(MODEL, {("self", 3, 1): 0}),
            ValueError,
            "heads",
            "3, 1",
        ),
        (
            "another kind",
            lambda: ablate_heads(MODEL, [("cross", 1, 1)]),
            ValueError,
            "heads",
            "cross",
        ),
        ("more keys", lambda: extra(add_zero_attn=True), ValueError, "model"),
    ],
}
test_bad_input = every_row(TABLE)
