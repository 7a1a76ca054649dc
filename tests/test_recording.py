"""Attention is recorded in our models, in PyTorch's layers and in those of Hugging Face's
Transformers; outputs stay what they were, and nothing is left behind."""

from functools import partial

import numpy as np
import pytest
import torch
from recording_tools import MODEL, NEAR, PADDED, READERS, TOKENS, encoder, hooks, ours, run, theirs
from refusals import every_row, refuses
from torch import nn
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention, attention_weights
from former_nb.attention.mask_patterns import masked_attention
from former_nb.attention.masks import padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import ALiBi
from former_nb.base.core import set_seed
from former_nb.decoding.caches import KVCache, LayerCache
from former_nb.inspection.ablation import record_heads
from former_nb.inspection.recording import (
    Recorder,
    find_attention,
    record_attention,
    summarize_heads,
    wrap_innermost,
)
from former_nb.models.parts import attend_beams
from former_nb.models.savable import EncoderDecoder, LanguageModel


@pytest.mark.parametrize("case", READERS)
def test_any_model_is_recorded_and_stays_what_it_was(case):
    model, args, kwargs = READERS[case]()
    before, state = run(model, args, kwargs), {m: set(m.__dict__) for m in model.modules()}
    with record_attention(model) as weights:
        recorded = run(model, args, kwargs)
    assert_close(recorded, before, **NEAR)
    if args:  # ours compute as they did, with weights beside it
        assert torch.equal(recorded, before)
    layers = find_attention(model)
    assert list(weights) == [layer.name for layer in layers]
    for layer in layers:
        w = weights[layer.name]
        assert w.shape[1] == layer.n_heads and not w.requires_grad and w.device.type == "cpu"
        rows = w.sum(-1)
        assert_close(rows, torch.where(rows > 0.5, 1.0, 0.0), **NEAR)
    assert not hooks(model) and state == {m: set(m.__dict__) for m in model.modules()}
    assert torch.equal(run(model, args, kwargs), before)
    kinds = {layer.kind for layer in layers}
    two = case in ("translator", "Bart", "T5")
    assert kinds == ({"encoder", "decoder", "cross"} if two else {"self"})


# ---- a recorder is an attend


def heads(T=5, B=2, h=4):
    return (torch.randn(B, h, T, 6) for _ in range(3))


def test_a_recorder_stands_inside_of_positions_masks_and_a_cache():
    set_seed(0)
    q, k, v = heads()
    mask, seen = torch.rand(5, 5) > 0.3, []
    inside = partial(wrap_innermost, wrap=partial(Recorder, seen.append))
    bias = ALiBi(4).bias(5, 5)
    first = torch.arange(5)
    turned = [Rotary(6).turn(t, first) for t in (q, k)]
    for attend, given, wanted in [
        (attention, {}, attention_weights(q, k)),
        (attention, dict(mask=mask), attention_weights(q, k, mask)),
        (partial(attention, scale=0.3), {}, attention_weights(q, k, scale=0.3)),
        (masked_attention(mask), {}, attention_weights(q, k, mask)),
        (
            Rotary(6)(masked_attention(mask), first),
            dict(is_causal=True),
            attention_weights(*turned, mask, is_causal=True),
        ),
        (Rotary(6)(attention, first), {}, attention_weights(*turned)),
        (
            ALiBi(4)(partial(attention, scale=0.3), first),
            dict(is_causal=True),
            attention_weights(q, k, bias, is_causal=True, scale=0.3),
        ),
    ]:
        assert torch.equal(inside(attend)(q, k, v, **given), attend(q, k, v, **given))
        assert_close(seen.pop(), wanted)
    rotary, caches = Rotary(6), [LayerCache(), LayerCache()]
    for t in range(5):  # each call finds what those before it have left
        new = [x[:, :, t : t + 1] for x in (q, k, v)]
        cache, other = (rotary(cache, torch.tensor([t])) for cache in caches)
        assert torch.equal(inside(cache)(*new), other(*new))
        wanted = attention_weights(*turned, is_causal=True)[:, :, t : t + 1, : t + 1]
        assert_close(seen.pop(), wanted)
    assert not seen


def test_another_function_is_recorded():
    set_seed(0)
    (q, k, v), seen = heads(), []

    def moved(q, k, v, mask=None, is_causal=False, shift=0.0):
        return attention(q, k, v, mask, is_causal) + shift

    def times(factor, q, k, v, mask=None, is_causal=False):
        return factor * attention(q, k, v, mask, is_causal)

    for attend in (moved, partial(moved, shift=1.0), partial(times, 0.5)):
        got = wrap_innermost(attend, partial(Recorder, seen.append))(q, k, v, is_causal=True)
        assert torch.equal(got, attend(q, k, v, is_causal=True))
        assert_close(seen.pop(), attention_weights(q, k, is_causal=True))


def test_recorders_nest_and_each_sees_every_call():
    model = ours(LanguageModel, positions="rotary")
    with record_attention(model) as outer, record_attention(model) as inner:
        model(TOKENS)
    assert len(outer) == 2 and all(torch.equal(outer[name], inner[name]) for name in outer)
    with record_attention(model) as weights:
        refuses(lambda: model(torch.tensor([[99]])), ValueError, "tokens", "99")
        model(TOKENS)
    assert all(torch.equal(weights[name], outer[name]) for name in outer)


def test_beams_about_one_source_are_recorded_as_texts_of_their_own():
    model, src = ours(EncoderDecoder), PADDED
    tgt = torch.tensor([[1, 5, 4], [1, 7, 7], [1, 9, 3], [1, 4, 8]])  # two about each source
    with torch.no_grad():
        memory, mask = model.encode(src), padding_mask(src)
        rows, holes = memory.repeat_interleave(2, 0), mask.repeat_interleave(2, 0)
        with record_attention(model) as apart:
            wanted = model.decode(tgt, rows, holes)
        with record_attention(model) as weights:
            shared = model.decoder.project(memory, attend_beams)
            got = model.decode(tgt, shared, mask)
    assert_close(got, wanted, **NEAR)
    assert weights.keys() == apart.keys() and len(weights) == 4  # the encoder was not called
    for name, w in weights.items():
        assert_close(w, apart[name], **NEAR)


@pytest.mark.parametrize("name", ["GPT2", "Bert"])
def test_what_transformers_itself_returns_is_recorded(name):
    model = theirs(name)
    with record_attention(model) as weights:
        run(model, (), dict(input_ids=TOKENS))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        found = model(input_ids=TOKENS, output_attentions=True).attentions
    for recorded, wanted in zip(weights.values(), found, strict=True):
        assert_close(recorded, wanted, **NEAR)


def test_the_way_of_computing_is_put_back_after_an_error():
    model = theirs("GPT2")
    way = model.config._attn_implementation
    with pytest.raises(ZeroDivisionError), record_attention(model):
        assert model.config._attn_implementation == "eager"
        raise ZeroDivisionError
    assert model.config._attn_implementation == way != "eager" and not hooks(model)


def test_each_step_with_a_cache_is_a_row_of_the_whole():
    model, steps, cache = ours(LanguageModel, n_kv_heads=2), [], KVCache(2)
    with torch.no_grad(), record_attention(model) as weights:
        for t in range(6):
            model(TOKENS[:, t : t + 1], cache, cache.positions(1))
            steps.append({name: w.clone() for name, w in weights.items()})
        model(TOKENS)
    for name, whole in weights.items():
        for t, step in enumerate(steps):
            assert step[name].shape == (1, 4, 1, t + 1)
            assert_close(step[name][:, :, 0], whole[:, :, t, : t + 1], **NEAR)


# ---- PyTorch's own layers


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("asked", [{}, dict(need_weights=False), dict(average_attn_weights=False)])
def test_a_layer_of_pytorch_answers_its_caller_as_ever(batch_first, asked):
    set_seed(0)
    layer, x = nn.MultiheadAttention(12, 3, batch_first=batch_first).eval(), torch.randn(5, 5, 12)
    mask = torch.ones(5, 5).triu(1).bool()
    wanted = layer(x, x, x, attn_mask=mask, **asked)
    with record_attention(layer) as weights:
        y, w = layer(x, x, x, attn_mask=mask, **asked)
        assert_close(y, wanted[0], **NEAR)
        assert (w is None) == (wanted[1] is None) and (w is None or w.shape == wanted[1].shape)
        with record_heads(layer) as heads:  # inside, hooks nest
            assert_close(layer(x, x, x, attn_mask=mask)[0], y, **NEAR)
    assert weights[""].shape == (5, 3, 5, 5) and heads["self", 1, 3].shape == (5, 5, 4)
    assert not weights[""].triu(1).any() and not hooks(layer)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("padded", [True, False])
def test_an_encoder_on_the_fast_path_gives_what_it_gives(grad, padded):
    model, x = encoder(), torch.randn(2, 5, 12)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if padded else None
    with torch.set_grad_enabled(grad):
        before = model(x, src_key_padding_mask=padding)
        with record_attention(model) as weights:
            found = model(x, src_key_padding_mask=padding)
        real = slice(None) if padding is None else ~padding
        assert_close(found[real], before[real], **NEAR)
        assert torch.equal(model(x, src_key_padding_mask=padding), before)
    assert {w.shape for w in weights.values()} == {(2, 2, 5, 5)} and len(weights) == 2
    assert torch.backends.mha.get_fastpath_enabled() and not hooks(model)
    if padded:
        assert not any(w[1, :, :3, 3:].any() for w in weights.values())


def test_a_translator_of_pytorch_has_three_kinds():
    set_seed(0)
    model = nn.Transformer(12, 2, 1, 2, 16, batch_first=True).eval()
    src, tgt = torch.randn(1, 5, 12), torch.randn(1, 3, 12)
    before = model(src, tgt)
    with record_attention(model) as weights:
        assert_close(model(src, tgt), before, **NEAR)
    shapes = {layer.kind: weights[layer.name].shape for layer in find_attention(model)}
    sizes = {"encoder": (5, 5), "decoder": (3, 3), "cross": (3, 5)}
    assert shapes == {kind: (1, 2, *size) for kind, size in sizes.items()}


def test_layers_are_named_and_counted_among_those_of_their_kind():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, batch_first=True), 2)
    assert [layer[:3] for layer in find_attention(decoder)] == [
        ("decoder", 1, "layers.0.self_attn"),
        ("cross", 1, "layers.0.multihead_attn"),
        ("decoder", 2, "layers.1.self_attn"),
        ("cross", 2, "layers.1.multihead_attn"),
    ]


# ---- in two numbers


def test_entropy_and_distance_are_those_of_known_weights():
    set_seed(0)
    layer = MultiHeadAttention(4, 2)
    even, before = torch.ones(4, 4) / 4, torch.eye(4).roll(1, 0)
    before[0] = torch.tensor([1.0, 0, 0, 0])
    found = summarize_heads(layer, {"": torch.stack([even, before])[None]})
    assert np.allclose(found["entropy"], [2, 0]) and np.allclose(found["distance"], [1.25, 0.75])


def test_a_target_may_be_longer_than_its_source():
    model = ours(EncoderDecoder)
    with record_attention(model) as weights, torch.no_grad():
        model(TOKENS[:, :3], TOKENS)
    found = summarize_heads(model, weights)
    assert len(found) == 2 * 3 * 4 and found["distance"].gt(0).all()


# ---- changing heads


def recorded(tokens):
    with record_attention(MODEL) as weights, torch.no_grad():
        MODEL(tokens)
    return weights


TABLE = {
    "find_attention": [
        ("none", lambda: find_attention(nn.ReLU()), ValueError, "model", "ReLU"),
        ("no model", lambda: find_attention("gpt2"), TypeError, "model", "str"),
    ],
    "summarize_heads": [
        (
            "two texts",
            lambda: summarize_heads(MODEL, recorded(PADDED)),
            ValueError,
            "weights",
            "2 texts",
        ),
    ],
}


test_bad_input = every_row(TABLE)
