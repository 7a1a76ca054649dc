"Rows without pads: the same loss and the same gradients, whatever the lengths are."

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from former_nb.attention.fused import attention
from former_nb.attention.masks import padding_mask
from former_nb.base.core import set_seed
from former_nb.data.text import IGNORE, PAD
from former_nb.inspection.recording import record_attention
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.build import build_decoder, build_stack
from former_nb.models.config import TransformerConfig
from former_nb.models.masked_language import MaskedLanguageModel
from former_nb.models.packing import decode_packed, encode_packed, packed, row_lengths
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.training.losses import token_loss, total_loss

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


def stack_of(kind=build_stack, **kwargs):
    set_seed(0)
    return kind(TransformerConfig(9, 20, **SIZES | kwargs)).double()


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
    at = torch.arange(real.shape[1])
    expected = stack(x, mask=real[:, None, None], positions=at) if real.numel() else x
    assert found.shape == x.shape
    agree(found[real], expected[real], x, *stack.parameters())


@pytest.mark.parametrize("source", ["ragged", "full", "an empty row"])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_decoder_gives_what_it_gives_under_masks(source, kind):
    lengths = {"full": [4] * 5, "an empty row": [2, 0, 5, 1, 1]}.get(source, LENGTHS[source])
    real, decoder = rows(lengths), stack_of(build_decoder, **kind)
    at = torch.rand(5, 6) < torch.tensor([0.5, 1.0, 0.0, 0.2, 0.7])[:, None]
    x, memory = numbers(5, 6, 16), numbers(*real.shape, 16)
    expected = decoder(x, memory, real[:, None, None], positions=torch.arange(6))
    for wanted in (at, torch.ones(5, 6, dtype=torch.bool)):
        found = decode_packed(decoder, x, memory, real, wanted)
        assert found.shape == x.shape
        agree(found[wanted], expected[wanted], x, memory, *decoder.parameters())


def translator(tied=True, **kwargs):
    "A model, ragged sources and targets, and what is asked for: not everywhere in the middle."
    set_seed(1)
    config = TransformerConfig(30, 20, **SIZES | kwargs)
    model = (
        EncoderDecoder.from_config(config) if tied else BartEncoderDecoder(config, tied=False)
    ).double()
    src = torch.randint(4, 30, (5, 7)).masked_fill(~rows([3, 7, 1, 3, 5]), PAD)
    there = rows([4, 2, 6, 1, 6])
    tgt = torch.randint(4, 30, (5, 6)).masked_fill(~there, PAD)
    targets = torch.randint(4, 30, (5, 6)).masked_fill(~there | (tgt % 5 == 0), IGNORE)
    return model, src, tgt, targets


def ask_packed(model, src, tgt, targets):
    with packed(model) as ask:
        ask(targets)
        return model(src, tgt)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("kind", [{}, {"positions": "rotary"}, {"positions": "alibi"}], ids=str)
def test_a_translator_has_the_same_loss_and_gradients(tied, smoothing, kind):
    model, src, tgt, targets = translator(tied, **kind)
    counts = targets != IGNORE
    whole, logits = model(src, tgt), ask_packed(model, src, tgt, targets)
    assert whole.shape == (5, 6, 30) and logits.shape == (counts.sum(), 30)
    both = [(logits, targets[counts]), (whole, targets)]
    losses = [token_loss(z, y, "sum", smoothing) for z, y in both]
    assert_close(*losses)
    weights = list(model.parameters())
    assert_close(*(torch.autograd.grad(loss, weights) for loss in losses))


def count_tokens(model, *inputs):
    "How many vectors go through the feed-forward networks of encoder and decoder."
    seen = []
    blocks = [model.encoder.blocks[0], model.decoder.blocks[0]]
    hooks = [
        b.ff.register_forward_hook(lambda m, x, y: seen.append(y[..., 0].numel())) for b in blocks
    ]
    try:
        model(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def test_no_pad_is_computed_nor_what_follows_the_last_target():
    model, src, tgt, targets = translator()
    counts = targets != IGNORE
    last = [row.nonzero().max().item() + 1 if row.any() else 0 for row in counts]
    assert count_tokens(model, src, tgt) == [35, 30]
    with packed(model) as ask:
        assert count_tokens(model, src, tgt) == [19, 30]  # without targets, all of the decoder
        ask(targets)
        assert count_tokens(model, src, tgt) == [19, sum(last)]
        assert model(src, tgt).shape == (5, 6, 30)  # the targets were those of one call
    assert count_tokens(model, src, tgt) == [35, 30]


def test_around_a_model_that_is_evaluated_nothing_changes():
    model, src, tgt, targets = translator()
    expected = total_loss(model, [((src, tgt), targets)])
    model.eval()
    with packed(model) as ask:
        ask(targets)
        assert count_tokens(model, src, tgt) == [35, 30]
        assert torch.equal(total_loss(model, [((src, tgt), targets)]), expected)
    assert "forward" not in vars(model.encoder) | vars(model.decoder)


def test_an_error_within_takes_the_wrapper_off():
    model, src, tgt, targets = translator()
    with pytest.raises(ValueError, match="src: expected"), packed(model) as ask:
        ask(targets)
        model(src[0], tgt)
    assert model(src, tgt).shape == (5, 6, 30) and "forward" not in vars(model.encoder)


def test_what_is_no_padding_mask_goes_its_old_way():
    "A mask with a row for each query, one for all rows of the batch, an attend of one's own."
    stack, real = stack_of(), rows([3, 5, 2])
    x, pads = numbers(3, 5, 16), real[:, None, None]
    model = nn.Module()
    model.stack, model.head = stack, nn.Identity()
    past = torch.ones(5, 5, dtype=torch.bool).tril()
    calls = [dict(mask=pads & past), dict(mask=pads[:1]), dict(), dict(is_causal=True)]
    calls += [dict(mask=torch.where(pads, 0.0, -1.0)), dict(mask=pads, is_causal=True)]
    calls += [dict(mask=pads, attend=lambda *given: attention(*given))]
    with packed(model):
        found = [stack(x, **call) for call in calls]
    for y, call in zip(found, calls):
        assert torch.equal(y, stack(x, **call))


def test_a_classifier_and_a_generator_can_be_wrapped_too():
    tokens = torch.tensor([[5, 6, PAD, PAD], [7, 8, 9, 4], [6, PAD, PAD, PAD]])
    targets = tokens.masked_fill(tokens == PAD, IGNORE)
    reader = Classifier.from_config(TransformerConfig(10, 8, **SIZES), 2).double()
    writer = LanguageModel.from_config(TransformerConfig(10, 8, **SIZES)).double()
    with packed(reader), packed(writer) as ask:
        found = reader(tokens)
        ask(targets)
        logits = writer(tokens)
    assert_close(found, reader(tokens))
    assert_close(logits, writer(tokens)[targets != IGNORE])


def test_a_model_without_a_head_can_be_wrapped_and_is_as_before_afterwards():
    encoder = Classifier.from_config(TransformerConfig(10, 8, **SIZES), 2)
    model = MaskedLanguageModel(encoder).double()
    tokens = torch.tensor([[5, 6, PAD, PAD], [7, 8, 9, 4], [6, PAD, PAD, PAD]])
    positions = torch.tensor([[1], [3], [0]])
    with packed(model):
        found = model(tokens, positions)
    assert "forward" not in vars(encoder.stack)
    assert_close(found, model(tokens, positions))


@pytest.mark.parametrize("side", ["left", "middle"])
def test_pads_elsewhere_are_left_to_the_mask(side):
    "Rotary positions count them, so they cannot go."
    real = rows([3, 5, 2]).flip(1) if side == "left" else torch.tensor([[1, 0, 1], [1, 1, 1]]) > 0
    stack = stack_of(positions="rotary")
    x = numbers(*real.shape, 16)
    assert row_lengths(real) is None
    expected = stack(x, mask=real[:, None, None], positions=torch.arange(real.shape[1]))
    assert_close(encode_packed(stack, x, real), expected)


def test_compiled_and_on_a_device_rows_keep_their_pads(monkeypatch):
    real = rows([3, 1])
    assert row_lengths(real) == [3, 1] and row_lengths(real.to("meta")) is None
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert row_lengths(real) is None


def test_recorded_weights_stand_in_padded_rows():
    tokens = torch.tensor([[5, 6, PAD, PAD], [7, 8, 9, 4], [6, PAD, PAD, PAD]])
    model, real = Classifier.from_config(TransformerConfig(10, 8, **SIZES), 2).eval(), tokens != PAD
    with packed(model), record_attention(model) as weights:
        model(tokens)
    with record_attention(model) as alone:
        model(tokens[:1, :2])
    assert len(weights) == 2
    for name, w in weights.items():
        assert w.shape == (3, 4, 4, 4)
        assert_close(w[0, :, :2, :2], alone[name][0])
        assert (w * ~real[:, None, None]).max() == 0


def test_dropout_is_drawn_in_training_alone():
    stack, real = stack_of(dropout=0.5), rows([3, 5, 2])
    x = numbers(3, 5, 16)
    assert not encode_packed(stack, x, real).equal(encode_packed(stack, x, real))
    stack.eval()
    expected = stack(x, mask=real[:, None, None])
    assert_close(encode_packed(stack, x, real)[real], expected[real], rtol=0, atol=1e-12)


def test_bf16_stays_bf16():
    stack, real = stack_of().float(), rows([3, 5, 2])
    with torch.autocast("cpu", torch.bfloat16):
        found = encode_packed(stack, torch.randn(3, 5, 16), real)
        expected = stack(torch.randn(3, 5, 16), mask=real[:, None, None])
    assert found.dtype == expected.dtype


def test_a_mask_of_pads_is_what_the_wrapper_knows():
    "The models make it by `padding_mask`; if that changed its shape, nothing would be packed."
    assert padding_mask(torch.tensor([[5, PAD]])).shape == (1, 1, 1, 2)
