"""The shares of a logit add up, the lens ends at the model's logits, a patched stream does what the
other text would have done, and nothing is left on the model."""

import pytest
import torch
from refusals import every_row
from test_attention_maps import PADDED, hooks, ours
from torch import nn
from torch.testing import assert_close

from former_nb.attention.since_llama import GatedAttention, QKNorm, WrappedAttention
from former_nb.base.core import eval_mode
from former_nb.inspection import lens
from former_nb.inspection.ablation import ablate_heads, find_heads
from former_nb.inspection.lens import (
    attribute_logits,
    edit_stream,
    find_parts,
    find_readers,
    find_stack,
    logit_lens,
    read_writes,
    record_stream,
    scale_part,
)
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.bert import BertClassifier
from former_nb.models.bigrams import BigramClassifier, WideClassifier
from former_nb.models.hub_config import HubConfig
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel

NEAR = dict(atol=1e-4, rtol=1e-4)
SIZES = dict(d_model=24, n_heads=4, n_layers=2, d_ff=48)


def spread(model):
    "With norms, shifts and biases that show."
    for name, weight in model.named_parameters():
        if weight.ndim == 1:
            nn.init.normal_(weight, mean=1.0 if name.endswith("weight") else 0.0, std=0.3)
    return model


def llama():
    sizes = SIZES | dict(d_k=8, n_kv_heads=2, bias="none", norm="rms", positions="rotary")
    return LanguageModel.from_config(
        HubConfig(11, 12, **sizes, activation="swiglu", tied_head=False)
    ).eval()


def bart():
    return BartEncoderDecoder(HubConfig(11, 12, **SIZES, logits_bias=True), tied=False).eval()


def gated():
    "With a gate in each block, and a norm around that."
    model = ours(LanguageModel, positions="rotary")
    for block in model.stack.blocks:
        block.attention = WrappedAttention(GatedAttention(block.attention), QKNorm(6))
    return model.eval()


SIDES = PADDED, PADDED[:, :4]
MODELS = {
    "language model": lambda: (ours(LanguageModel), PADDED[:, :4]),
    "llama": lambda: (llama(), PADDED[:, :4]),
    "gated": lambda: (gated(), PADDED[:, :4]),
    "classifier": lambda: (ours(Classifier), PADDED),
    "bigrams": lambda: (BigramClassifier(LM.config, 3, n_bigrams=50).eval(), PADDED),
    "translator": lambda: (ours(EncoderDecoder), *SIDES),
    "translator, rms": lambda: (ours(EncoderDecoder, norm="rms", positions="alibi"), *SIDES),
    "bart": lambda: (bart(), *SIDES),
}


def made(case):
    "A model, its inputs, what it says, and a token for each of its answers."
    model, *inputs = MODELS[case]()
    spread(model)
    with torch.no_grad():
        logits = model(*inputs)
    tokens = torch.arange(logits[..., 0].numel()).view(logits.shape[:-1]) % logits.shape[-1]
    return model, inputs, logits, tokens


def pick(logits, tokens):
    return logits.gather(-1, tokens[..., None])[..., 0]


@pytest.mark.parametrize("case", MODELS)
def test_shares_add_up_to_the_logit_and_the_lens_ends_at_the_model(case):
    model, inputs, logits, tokens = made(case)
    model.train()
    shares = attribute_logits(model, *inputs, tokens=tokens)
    assert_close(sum(shares.values()), pick(logits, tokens), **NEAR)
    against = tokens.flip(0)
    apart = attribute_logits(model, *inputs, tokens=tokens, against=against)
    assert_close(sum(apart.values()), pick(logits, tokens) - pick(logits, against), **NEAR)
    others = attribute_logits(model, *inputs, tokens=against)
    for name in shares:
        assert_close(apart[name], shares[name] - others[name], **NEAR)
    heads = [head for head in find_heads(model) if head[0] != "encoder"]
    assert {name for name in shares if name[2]} == set(heads)
    early = logit_lens(model, *inputs)
    assert_close([*early.values()][-1], logits, **NEAR)
    assert all(t.shape == logits.shape for t in early.values())
    assert list(early) == list(read_writes(model, *inputs))
    assert all(part.training for part in model.modules()) and not hooks(model)
    assert not any(t.requires_grad for t in [*shares.values(), *early.values()])


def test_a_head_that_is_off_has_no_share():
    model, inputs, _, tokens = made("translator")
    with ablate_heads(model, [("cross", 2, 3)]):
        shares = attribute_logits(model, *inputs, tokens=tokens)
        logits = model(*inputs)
    assert_close(shares["cross", 2, 3], torch.zeros(2, 4))
    assert_close(sum(shares.values()), pick(logits, tokens), **NEAR)


def test_parts_are_named_as_heads_are():
    model = ours(EncoderDecoder)
    names = [("decoder", 1), ("cross", 1), ("network", 1)]
    names += [(kind, 2) for kind, _ in names]
    assert list(find_parts(model)) == names
    assert find_parts(model)["cross", 2] is model.decoder.blocks[1].cross
    assert list(find_parts(ours(Classifier)))[:2] == [("self", 1), ("network", 1)]
    assert find_stack(model) is model.decoder


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6, eps=1e-5)])
def test_scaled_parts_add_up_to_the_norm(norm):
    nn.init.normal_(norm.weight)
    a, b = torch.randn(2, 3, 6), 1 + torch.randn(2, 3, 6)
    assert_close(scale_part(norm, a + b, a) + scale_part(norm, a + b, b), norm(a + b))


# ---- patching


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_patched_stream_says_what_the_other_text_would(norm_first):
    model = ours(EncoderDecoder, norm_first=norm_first)
    a, b = torch.tensor([[7, 3, 9, 4]]), torch.tensor([[7, 8, 2, 4]])
    begin = torch.tensor([[5, 6]])
    with torch.no_grad():
        expected, before = model(b, begin), model(a, begin)
        with record_stream(model) as other:
            model(b, begin)
        assert list(other) == list(find_readers(model))
        assert list(other) == [(kind, n) for kind in ("encoder", "decoder") for n in range(3)]
        for name in other:
            with edit_stream(model, {name: lambda x, name=name: other[name]}):
                patched = model(a, begin)
            if name == ("decoder", 0):
                assert torch.equal(patched, before)
            elif name == ("decoder", 1):  # cross-attention of layer 2 still reads a
                assert not torch.equal(patched, before) and not torch.equal(patched, expected)
            else:
                assert torch.equal(patched, expected)
        assert torch.equal(model(a, begin), before) and not hooks(model)


def test_what_is_recorded_is_the_sum_of_what_was_written():
    for kind in (LanguageModel, Classifier):
        model = ours(kind)
        with record_stream(model) as stream:
            writes = read_writes(model, PADDED)
        assert list(stream) == [("self", n) for n in range(3)]
        assert_close(stream["self", 2], sum(writes.values()))
        assert_close(stream["self", 0], writes["embedding", 0])


def test_gradients_flow_through_an_edit():
    model = ours(LanguageModel)
    nudge = torch.zeros(24, requires_grad=True)
    with edit_stream(model, {("self", 1): lambda x: x + nudge}):
        model(PADDED[:1]).square().sum().backward()
    assert nudge.grad.abs().sum() > 0


@pytest.mark.parametrize("training", [True, False])
def test_errors_leave_the_model_as_it_was(training):
    model = ours(EncoderDecoder).train(training)
    state = {part: set(vars(part)) for part in model.modules()}
    tokens = torch.zeros(2, 4, dtype=torch.long)
    for call in (
        lambda: read_writes(model, PADDED + 9, PADDED),
        lambda: logit_lens(model, PADDED, PADDED + 9),
        lambda: attribute_logits(model, PADDED, PADDED[:, :4] + 9, tokens=tokens),
        lambda: attribute_logits(model, *SIDES, tokens=tokens - 1),
    ):
        with pytest.raises(ValueError):
            call()
    for context in (record_stream(model), edit_stream(model, {("encoder", 1): torch.tanh})):
        with pytest.raises(ZeroDivisionError), context:
            raise ZeroDivisionError
    assert not hooks(model) and state == {part: set(vars(part)) for part in model.modules()}
    assert all(part.training == training for part in model.modules())
    assert all(p.grad is None for p in model.parameters())


# ---- bad input

LM, POST = ours(LanguageModel), ours(LanguageModel, norm_first=False)
TOKENS = PADDED[:, :4]
LINEAR = nn.Linear(2, 2)
NO_MODEL = TypeError, "model", "Linear"
POST_NORM = ValueError, "model", "post-norm"
WIDE, BERT = (kind(LM.config, 3) for kind in (WideClassifier, BertClassifier))  # other heads
CLASSES = torch.tensor([0, 1])


def edited(edits):
    with eval_mode(LM), edit_stream(LM, edits):
        return LM(TOKENS)


BAD = {
    "find_stack": [
        ("another model", lambda: find_stack(LINEAR), *NO_MODEL),
        ("post-norm", lambda: find_stack(POST), *POST_NORM),
    ],
    "find_parts": [("post-norm", lambda: find_parts(POST), *POST_NORM)],
    "read_writes": [("post-norm", lambda: read_writes(POST, TOKENS), *POST_NORM)],
    "logit_lens": [
        ("post-norm", lambda: logit_lens(POST, TOKENS), *POST_NORM),
        ("a linear part", lambda: logit_lens(WIDE, PADDED), ValueError, "model", "Wide"),
        ("the first token's head", lambda: logit_lens(BERT, PADDED), ValueError, "model", "Bert"),
    ],
    "scale_part": [
        (
            "another width",
            lambda: scale_part(nn.LayerNorm(3), torch.ones(1, 1, 4), torch.ones(1, 1, 4)),
            RuntimeError,
            "",
        )
    ],
    "attribute_logits": [
        ("post-norm", lambda: attribute_logits(POST, TOKENS, tokens=TOKENS), *POST_NORM),
        (
            "a linear part",
            lambda: attribute_logits(WIDE, PADDED, tokens=CLASSES),
            ValueError,
            "model",
            "Wide",
        ),
        (
            "a row less",
            lambda: attribute_logits(LM, TOKENS, tokens=TOKENS[:1]),
            ValueError,
            "tokens",
        ),
        (
            "targets that do not count",
            lambda: attribute_logits(LM, TOKENS, tokens=TOKENS - 100),
            ValueError,
            "tokens",
        ),
        (
            "a number against",
            lambda: attribute_logits(LM, TOKENS, tokens=TOKENS, against=3),
            TypeError,
            "against",
        ),
    ],
    "find_readers": [("another model", lambda: find_readers(LINEAR), *NO_MODEL)],
    "record_stream": [("another model", lambda: record_stream(LINEAR).__enter__(), *NO_MODEL)],
    "edit_stream": [
        (
            "no such layer",
            lambda: edited({("self", 3): torch.tanh}),
            ValueError,
            "edits",
        ),
        (
            "a shape that does not fit",
            lambda: edited({("self", 1): lambda x: x[0]}),
            ValueError,
            "edits",
        ),
        (
            "nothing",
            lambda: edited({("self", 1): lambda x: None}),
            ValueError,
            "edits",
            "None",
        ),
    ],
}


test_bad_input = every_row(BAD)


def test_every_public_name_has_its_bad_input():
    assert set(lens.__all__) == BAD.keys()
