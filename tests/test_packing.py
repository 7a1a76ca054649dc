"Rows without pads: the same loss and the same gradients, whatever the lengths are."

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from former_nb.block import Stack
from former_nb.classifier import Classifier
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.encoder_decoder import EncoderDecoder
from former_nb.losses import call_at_targets, token_loss, total_loss
from former_nb.packing import decode_packed, encode_packed, row_lengths
from former_nb.recording import record_attention
from former_nb.text import IGNORE, PAD

SIZES = dict(d_model=16, n_heads=4, n_layers=2, d_ff=16, dropout=0.0)
LENGTHS = {
    "ragged": [3, 7, 1, 3, 5],
    "full": [4, 4, 4],
    "one row": [6],
    "an empty row": [2, 0, 5],
    "nothing": [0, 0],
    "no row": [],
    "no column": [0, 0, 0],
}
WIDTH = {"nothing": 3, "an empty row": 8}  # wider than the longest row


def rows(lengths, width=None):
    "(B, T) boolean, True where there is a token."
    T = max(lengths, default=0) if width is None else width
    return torch.arange(T) < torch.tensor(lengths, dtype=torch.int64)[:, None]


def stack_of(cross=False, **kwargs):
    set_seed(0)
    return Stack(TransformerConfig(9, 20, **SIZES | kwargs), cross).double()


def numbers(*shape):
    return torch.randn(*shape, dtype=torch.float64).requires_grad_()


def agree(found, expected, *leaves):
    "Two vectors, and the slopes of their sums along one direction."
    assert_close(found, expected)
    goal = torch.randn_like(expected)
    if not expected.numel():
        return
    how = dict(allow_unused=True, materialize_grads=True, retain_graph=True)
    slopes = [torch.autograd.grad((y * goal).sum(), leaves, **how) for y in (found, expected)]
    assert_close(*slopes)


KINDS = [{}, {"positions": "rotary"}, {"positions": "alibi"}, {"positions": "relative"}]
KINDS += [{"n_kv_heads": 2, "norm_first": False}]


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("name", LENGTHS)
def test_an_encoder_gives_what_it_gives_under_a_mask(name, kind):
    real, stack = rows(LENGTHS[name], WIDTH.get(name)), stack_of(**kind)
    x = numbers(*real.shape, 16)
    found = encode_packed(stack, x, real)
    expected = stack(x, real[:, None, None]) if real.numel() else x
    assert found.shape == x.shape
    agree(found[real], expected[real], x, *stack.parameters())


@pytest.mark.parametrize("source", ["ragged", "full", "an empty row"])
@pytest.mark.parametrize("kind", KINDS[:2] + KINDS[-1:], ids=str)
def test_a_decoder_gives_what_it_gives_under_masks(source, kind):
    lengths = {"full": [4] * 5, "an empty row": [2, 0, 5, 1, 1]}.get(source, LENGTHS[source])
    real, decoder = rows(lengths), stack_of(cross=True, **kind)
    at = torch.rand(5, 6) < torch.tensor([0.5, 1.0, 0.0, 0.2, 0.7])[:, None]
    x, memory = numbers(5, 6, 16), numbers(*real.shape, 16)
    mask = None if source == "full" else real[:, None, None]
    expected = decoder(x, is_causal=True, memory=memory, memory_mask=mask)
    for found, wanted in [
        (decode_packed(decoder, x, memory, mask, at=at), expected[at]),
        (decode_packed(decoder, x, memory, mask), expected),
    ]:
        agree(found, wanted, x, memory, *decoder.parameters())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tied", [True, False])
def test_a_translator_has_the_same_loss_and_gradients(tied, smoothing):
    set_seed(1)
    model = EncoderDecoder(TransformerConfig(30, 20, **SIZES), tied).double()
    src = torch.randint(4, 30, (5, 7)).masked_fill(~rows([3, 7, 1, 3, 5]), PAD)
    there = rows([4, 2, 6, 1, 6])
    tgt = torch.randint(4, 30, (5, 6)).masked_fill(~there, PAD)
    targets = torch.randint(4, 30, (5, 6)).masked_fill(~there | (tgt % 5 == 0), IGNORE)
    logits, asked = call_at_targets(model, (src, tgt), targets)
    assert logits.shape == (len(asked), 30) and len(asked) == (targets != IGNORE).sum()
    whole = model(src, tgt)
    assert whole.shape == (5, 6, 30)
    losses = [token_loss(z, y, "sum", smoothing) for z, y in ((logits, asked), (whole, targets))]
    assert_close(*losses)
    weights = list(model.parameters())
    assert_close(*(torch.autograd.grad(loss, weights) for loss in losses))
    nats, count = total_loss(model, [((src, tgt), targets)]).tolist()
    assert count == len(asked) and abs(nats - token_loss(whole, targets, "sum").item()) < 1e-9


@pytest.mark.parametrize("asked", [0.0, 1.0])
def test_logits_everywhere_where_all_targets_count_or_none(asked):
    model, tokens = EncoderDecoder(TransformerConfig(30, 20, **SIZES)), torch.full((2, 3), 5)
    targets = tokens if asked else torch.full_like(tokens, IGNORE)
    logits, same = call_at_targets(model, (tokens, tokens), targets)
    assert logits.shape == (2, 3, 30) and same is targets


def test_a_model_without_the_argument_is_called_as_before():
    logits, targets = call_at_targets(nn.Identity(), torch.zeros(2, 3), torch.tensor([1, IGNORE]))
    assert logits.shape == (2, 3) and targets.shape == (2,)


@pytest.mark.parametrize("side", ["left", "middle"])
def test_pads_elsewhere_are_left_to_the_mask(side):
    "Rotary positions count them, so they cannot go."
    real = rows([3, 5, 2]).flip(1) if side == "left" else torch.tensor([[1, 0, 1], [1, 1, 1]]) > 0
    stack = stack_of(positions="rotary")
    x = numbers(*real.shape, 16)
    assert row_lengths(real) is None
    assert_close(encode_packed(stack, x, real), stack(x, real[:, None, None]))


def test_where_nothing_is_padded_there_is_no_mask():
    class Plain(nn.Module):
        def forward(self, x, *masks, **kwargs):
            assert not masks and not kwargs
            return x

    x = numbers(3, 4, 16)
    assert encode_packed(Plain(), x, rows([4, 4, 4])) is x


def test_compiled_and_on_a_device_rows_keep_their_pads(monkeypatch):
    real = rows([3, 1])
    assert row_lengths(real) == [3, 1] and row_lengths(real.to("meta")) is None
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert row_lengths(real) is None


def test_recorded_weights_stand_in_padded_rows():
    tokens = torch.tensor([[5, 6, PAD, PAD], [7, 8, 9, 4], [6, PAD, PAD, PAD]])
    model, real = Classifier(TransformerConfig(10, 8, **SIZES), 2), tokens != PAD
    with record_attention(model) as packed:
        model(tokens)
    with record_attention(model) as alone:
        model(tokens[:1, :2])
    assert len(packed) == 2
    for name, weights in packed.items():
        assert weights.shape == (3, 4, 4, 4)
        assert_close(weights[0, :, :2, :2], alone[name][0])
        assert_close(weights.sum(-1), real[:, None].expand(-1, 4, -1).float())


def test_dropout_is_drawn_in_training_alone():
    stack, real = stack_of(dropout=0.5), rows([3, 5, 2])
    x = numbers(3, 5, 16)
    assert not encode_packed(stack, x, real).equal(encode_packed(stack, x, real))
    stack.eval()
    assert_close(encode_packed(stack, x, real), stack(x, real[:, None, None]), rtol=0, atol=0)


def test_bf16_stays_bf16():
    stack, real = stack_of().float(), rows([3, 5, 2])
    with torch.autocast("cpu", torch.bfloat16):
        found = encode_packed(stack, torch.randn(3, 5, 16), real)
        expected = stack(torch.randn(3, 5, 16), real[:, None, None])
    assert found.dtype == expected.dtype
