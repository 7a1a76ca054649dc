"""What changed since Llama: each wrapper and layer equals its source on random weights, and writes
the same with a cache as without."""

from functools import partial

import pytest
import torch
from attention_tools import Placed, read_in_pieces
from refusals import counts, every_row, n, words
from torch import nn
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.masks import causal_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.since_llama import (
    GatedAttention,
    LatentAttention,
    PartialRotary,
    QKNorm,
    Sink,
    WrappedAttention,
)
from former_nb.decoding.caches import KVCache, LayerCache, SlidingWindow
from former_nb.models.hub_config import HubConfig
from former_nb.models.modern_decoder import GroupedQueryAttention
from former_nb.models.savable import LanguageModel

B, T, D, H, KV, D_K = 2, 7, 18, 6, 3, 8


def random_weights(module):
    generator = torch.Generator().manual_seed(1)
    for weight in module.parameters():
        weight.data = 0.4 * torch.randn(weight.shape, generator=generator)
    return module


def made(name, part, **settings):
    "A module of transformers with random weights, its positions, and its configuration."
    reason = "transformers, which these layers are compared with, is not installed"
    transformers = pytest.importorskip("transformers", reason=reason)
    common = dict(hidden_size=D, num_attention_heads=H, num_key_value_heads=KV, head_dim=D_K)
    rope = dict(rope_type="default", rope_theta=10_000.0, partial_rotary_factor=1.0)
    common.update(rope_parameters=rope, attention_bias=False)
    common.update(settings)
    config = getattr(transformers, f"{name}Config")(**common)
    config._attn_implementation = "eager"
    package = {"GptOss": "gpt_oss", "DeepseekV3": "deepseek_v3", "Qwen3Next": "qwen3_next"}
    folder = package.get(name, name.lower())
    source = getattr(transformers.models, folder)
    module = getattr(source, f"modeling_{folder}")
    layer = random_weights(getattr(module, f"{name}{part}")(config, 0)).eval()
    return layer, getattr(module, f"{name}RotaryEmbedding")(config), config


def run(layer, rotary, x, mask):
    cos_sin = rotary(x, torch.arange(x.shape[1])[None])
    return layer(x, position_embeddings=cos_sin, attention_mask=mask)[0]


def masks():
    "The past only and, in the second row, no first two tokens: as ours, and as numbers."
    real = torch.arange(T) >= torch.tensor([[0], [2]])  # (B, S)
    allowed = causal_mask(T) & real[:, None, None]
    return real[:, None, None], torch.zeros(B, 1, T, T).masked_fill(~allowed, -1e30)


def inputs(width=D):
    return n(B, T, width).requires_grad_(), n(B, T, width).requires_grad_()


def same(ours, theirs, pairs=(), rows=slice(2, None)):
    "Outputs and gradients agree; in the second row tokens that may attend to nothing are left out."
    mine, his = inputs()
    padding, numbers = masks()
    a, b = ours(mine, padding), theirs(his, numbers)
    assert_close(a[0], b[0], atol=1e-5, rtol=1e-4)
    assert_close(a[1, rows], b[1, rows], atol=1e-5, rtol=1e-4)
    for y in (a, b):
        (y[0].square().sum() + y[1, rows].square().sum()).backward()
    assert_close(mine.grad, his.grad, atol=1e-4, rtol=1e-3)
    for weight, source in pairs:
        assert_close(weight.grad, source.grad, atol=1e-3, rtol=1e-3)


def take(ours, theirs):
    "Queries, keys, values and output of a layer of transformers."
    for name, source in dict(w_q="q_proj", w_k="k_proj", w_v="v_proj", w_o="o_proj").items():
        linear = getattr(theirs, source)
        getattr(ours, name).load_state_dict(linear.state_dict())
    return ours


def grouped(bias=False):
    return GroupedQueryAttention(D, H, KV, D_K, bias)


def test_qk_norm_is_that_of_qwen3():
    theirs, rotary, config = made("Qwen3", "Attention")
    inner = take(grouped(), theirs)
    ours = WrappedAttention(inner, QKNorm(D_K, config.rms_norm_eps))
    ours.wrapper.norm_q.load_state_dict(theirs.q_norm.state_dict())
    ours.wrapper.norm_k.load_state_dict(theirs.k_norm.state_dict())
    attend = Rotary(D_K)(attention, torch.arange(T))
    pairs = [
        (ours.wrapper.norm_q.weight, theirs.q_norm.weight),
        (ours.wrapper.norm_k.weight, theirs.k_norm.weight),
        (inner.w_q.weight, theirs.q_proj.weight),
    ]
    same(
        lambda x, mask: ours(x, attend=attend, mask=mask, is_causal=True),
        lambda x, mask: run(theirs, rotary, x, mask),
        pairs,
    )


def test_a_sink_is_that_of_gpt_oss():
    theirs, rotary, _ = made("GptOss", "Attention", attention_bias=True)
    ours = take(grouped(bias=True), theirs)
    sink = Sink(H)
    sink.score.data.copy_(theirs.sinks)
    attend = Rotary(D_K)(partial(sink, attention), torch.arange(T))
    same(
        lambda x, mask: ours(x, attend=attend, mask=mask, is_causal=True),
        lambda x, mask: run(theirs, rotary, x, mask),
        [(sink.score, theirs.sinks), (ours.w_v.bias, theirs.v_proj.bias)],
    )


def test_a_gate_with_qk_norm_is_that_of_qwen3_next():
    theirs, rotary, config = made("Qwen3Next", "Attention")
    both = theirs.q_proj.weight.unflatten(0, (H, 2, D_K))  # for each head its query, then its gate
    inner = grouped()
    gated = GatedAttention(inner)
    ours = WrappedAttention(gated, QKNorm(D_K, config.rms_norm_eps))
    with torch.no_grad():
        inner.w_q.weight.copy_(both[:, 0].flatten(0, 1))
        gated.w_gate.weight.copy_(both[:, 1].flatten(0, 1))
        inner.w_k.weight.copy_(theirs.k_proj.weight)
        inner.w_v.weight.copy_(theirs.v_proj.weight)
        inner.w_o.weight.copy_(theirs.o_proj.weight)
        ours.wrapper.norm_q.weight.copy_(1 + theirs.q_norm.weight)
        ours.wrapper.norm_k.weight.copy_(1 + theirs.k_norm.weight)
    attend = Rotary(D_K)(attention, torch.arange(T))
    same(
        lambda x, mask: ours(x, attend=attend, mask=mask, is_causal=True),
        lambda x, mask: run(theirs, rotary, x, mask),
        [(inner.w_o.weight, theirs.o_proj.weight)],
    )
    by_head = theirs.q_proj.weight.grad.unflatten(0, (H, 2, D_K))
    assert_close(gated.w_gate.weight.grad, by_head[:, 1].flatten(0, 1), atol=1e-3, rtol=1e-3)


LATENT, TURNING, STILL = 10, 4, 6


@pytest.mark.parametrize("interleaved", [True, False])
def test_latent_attention_is_that_of_deepseek_v3(interleaved):
    sizes = dict(kv_lora_rank=LATENT, qk_rope_head_dim=TURNING, qk_nope_head_dim=STILL)
    more = dict(q_lora_rank=None, v_head_dim=STILL, num_key_value_heads=H, head_dim=TURNING)
    theirs, rotary, _ = made(
        "DeepseekV3", "Attention", **sizes, **more, rope_interleave=interleaved
    )
    ours = LatentAttention(D, H, LATENT, TURNING, STILL)

    def in_halves(rows):  # those that turn
        pairs = rows.unflatten(0, (-1, TURNING // 2, 2)).transpose(1, 2)
        return pairs.flatten(0, 2) if interleaved else rows

    with torch.no_grad():
        q = theirs.q_proj.weight.unflatten(0, (H, STILL + TURNING))
        turning = in_halves(q[:, STILL:].flatten(0, 1)).unflatten(0, (H, TURNING))
        ours.w_q.weight.copy_(torch.cat([q[:, :STILL], turning], dim=1).flatten(0, 1))
        down = theirs.kv_a_proj_with_mqa.weight
        ours.w_down.weight.copy_(torch.cat([down[:LATENT], in_halves(down[LATENT:])]))
        ours.norm.weight.copy_(theirs.kv_a_layernorm.weight)
        kv = theirs.kv_b_proj.weight.unflatten(0, (H, 2 * STILL))
        ours.w_k.weight.copy_(kv[:, :STILL].flatten(0, 1))
        ours.w_v.weight.copy_(kv[:, STILL:].flatten(0, 1))
        ours.w_o.weight.copy_(theirs.o_proj.weight)
    attend = PartialRotary(LATENT + TURNING, TURNING)(attention, torch.arange(T))
    pairs = [
        (ours.w_o.weight, theirs.o_proj.weight),
        (ours.norm.weight, theirs.kv_a_layernorm.weight),
    ]
    same(
        lambda x, mask: ours(x, attend=attend, mask=mask, is_causal=True),
        lambda x, mask: run(theirs, rotary, x, mask),
        pairs,
    )


def test_local_and_global_layers_are_those_of_qwen3():
    "A whole model: QK-norm in each block, a window in two of three, in one reading and cached."
    reason = "transformers, which these layers are compared with, is not installed"
    transformers = pytest.importorskip("transformers", reason=reason)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    config = transformers.Qwen3Config(
        vocab_size=13,
        hidden_size=D,
        intermediate_size=18,
        num_hidden_layers=3,
        num_attention_heads=H,
        num_key_value_heads=KV,
        head_dim=D_K,
        max_position_embeddings=32,
        rope_parameters=dict(rope_type="default", rope_theta=10_000.0),
        layer_types=kinds,
        use_sliding_window=True,
        sliding_window=4,
        attn_implementation="eager",
    )
    theirs = random_weights(transformers.Qwen3ForCausalLM(config)).eval()
    sizes = dict(d_model=D, n_heads=H, n_kv_heads=KV, n_layers=3, d_ff=18, d_k=D_K)
    kind = dict(positions="rotary", activation="swiglu", norm="rms", bias="none", norm_eps=1e-6)
    ours = LanguageModel.from_config(HubConfig(13, 32, **sizes, **kind, tied_head=False)).eval()
    ours.embed.tokens.load_state_dict(theirs.model.embed_tokens.state_dict())
    ours.head.load_state_dict(theirs.lm_head.state_dict())
    ours.stack.norm.load_state_dict(theirs.model.norm.state_dict())
    for block, layer in zip(ours.stack.blocks, theirs.model.layers):
        take(block.attention, layer.self_attn)
        block.attention = WrappedAttention(block.attention, QKNorm(D_K))
        block.attention.wrapper.norm_q.load_state_dict(layer.self_attn.q_norm.state_dict())
        block.attention.wrapper.norm_k.load_state_dict(layer.self_attn.k_norm.state_dict())
        block.norm_attention.load_state_dict(layer.input_layernorm.state_dict())
        block.norm_ff.load_state_dict(layer.post_attention_layernorm.state_dict())
        block.ff.w_gate.load_state_dict(layer.mlp.gate_proj.state_dict())
        block.ff.w_in.load_state_dict(layer.mlp.up_proj.state_dict())
        block.ff.w_out.load_state_dict(layer.mlp.down_proj.state_dict())
    tokens = torch.randint(4, 13, (2, 12), generator=torch.Generator().manual_seed(0))
    attends = [SlidingWindow(4), attention, SlidingWindow(4)]
    cache = KVCache(3)
    cache[:] = [LayerCache(window=4), LayerCache(), LayerCache(window=4)]
    with torch.no_grad():
        logits = theirs(tokens).logits
        assert_close(ours(tokens, attend=attends), logits, atol=1e-4, rtol=1e-4)
        pieces = read_in_pieces(ours, tokens.split([5, 1, 1, 3, 1, 1], dim=1), cache)
        assert_close(pieces, logits, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(ours(tokens), logits, atol=1e-2)  # the windows matter


# ---------------------------------------------------------------- caches, masks, precision


def layers():
    "Name -> a layer, what its heads attend by, and the positions around that."
    sink = random_weights(Sink(4))
    mha = lambda: MultiHeadAttention(16, 4)
    rotary = Rotary(4)
    return {
        "qk-norm": (WrappedAttention(mha(), QKNorm(4)), attention, rotary),
        "sink": (mha(), partial(sink, attention), rotary),
        "gate": (GatedAttention(mha()), attention, rotary),
        "latent": (LatentAttention(16, 4, 6, 2), attention, PartialRotary(8, 2)),
    }


@pytest.mark.parametrize("name", list(layers()))
def test_a_cache_inside_changes_nothing(name):
    layer, attend, positions = layers()[name]
    random_weights(layer).requires_grad_(False)
    x = n(2, 9, 16)
    placed = Placed(layer, positions)
    whole = placed(x, attend=attend, is_causal=True)
    cache = LayerCache(attend=attend)
    pieces = read_in_pieces(placed, x.split([4, 1, 3, 1], dim=1), cache, is_causal=True)
    assert_close(pieces, whole, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", list(layers()))
def test_what_a_mask_hides_changes_nothing(name):
    layer, attend, positions = layers()[name]
    random_weights(layer).requires_grad_(False)
    x = n(2, 9, 16)
    changed = torch.cat([x[:, :6], n(2, 3, 16, seed=5)], dim=1)
    visible = (torch.arange(9) < 6)[None, None, None]
    inside = positions(attend, torch.arange(9))
    before, after = (layer(t, attend=inside, mask=visible)[:, :6] for t in (x, changed))
    assert_close(before, after)
    nothing = torch.zeros(1, 1, 9, 9, dtype=torch.bool)
    assert layer(x, attend=inside, mask=nothing).isfinite().all()


def test_a_query_that_may_attend_to_nothing_gets_zeros():
    q, k, v = n(3, 2, 4, 5, 8)
    nothing = torch.zeros(2, 1, 5, 5, dtype=torch.bool)
    assert not Sink(4)(attention, q, k, v, mask=nothing).any()


def test_a_sink_takes_each_kind_of_mask():
    q, k, v = n(3, 2, 4, 5, 8)
    sink = random_weights(Sink(4))
    boolean = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)) < 0.6
    numbers = torch.zeros(5, 5).masked_fill(~boolean, float("-inf"))
    want = sink(attention, q, k, v, mask=boolean[None, None].expand(2, 4, 5, 5))
    assert_close(sink(attention, q, k, v, mask=boolean), want)
    assert_close(sink(attention, q, k, v, mask=numbers[None, None]), want)
    far = Sink(4)
    nn.init.constant_(far.score, -1e4)
    assert_close(far(attention, q, k, v, is_causal=True), attention(q, k, v, is_causal=True))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", list(layers()))
def test_layers_keep_the_type_of_their_weights(name, dtype):
    layer, attend, positions = layers()[name]
    if isinstance(attend, partial) and isinstance(attend.func, nn.Module):
        attend = partial(attend.func.to(dtype), attention)
    inside = positions(attend, torch.arange(5))
    y = layer.to(dtype)(n(2, 5, 16, dtype=dtype), attend=inside, is_causal=True)
    assert y.dtype == dtype


def test_rotary_features_at_the_end_say_where():
    "Scores of the features that turn depend on the distance; the others don't depend on it."
    positions = PartialRotary(7, 4)
    q, k = n(2, 1, 1, 1, 7)
    at = lambda position: torch.tensor([position])
    turned = [positions.turn(t, at(p)) for t, p in ((q, 3), (k, 1), (q, 9), (k, 7))]
    assert_close(turned[0] @ turned[1].mT, turned[2] @ turned[3].mT, atol=1e-5, rtol=1e-5)
    assert torch.equal(positions.turn(q, at(5))[..., :3], q[..., :3])


# ---------------------------------------------------------------- bad input

Q = n(2, 4, 5, 8)


TABLE = {
    "QKNorm": [
        *counts("d_k", QKNorm),
        ("eps is negative", lambda: QKNorm(4, -1.0), ValueError, "eps"),
        ("q of another width", lambda: QKNorm(4)(attention, Q, Q, Q), ValueError, "q"),
        ("k of another width", lambda: QKNorm(8)(attention, Q, Q[..., :4], Q), ValueError, "k"),
    ],
    "WrappedAttention": [
        *words(WrappedAttention(MultiHeadAttention(12, 3), QKNorm(4))),
        (
            "a norm of another width",
            lambda: WrappedAttention(MultiHeadAttention(12, 3), QKNorm(6))(n(2, 5, 12)),
            ValueError,
            "q",
        ),
    ],
    "Sink": [
        *counts("n_heads", Sink),
        ("another number of heads", lambda: Sink(3)(attention, Q, Q, Q), ValueError, "q"),
        ("a cache inside", lambda: Sink(4)(LayerCache(), Q, Q, Q), ValueError, "attend"),
    ],
    "GatedAttention": [
        (
            "a layer that is none",
            lambda: GatedAttention(nn.Linear(4, 4)),
            TypeError,
            "layer",
        ),
        *words(GatedAttention(MultiHeadAttention(12, 3))),
    ],
    "PartialRotary": [
        *counts("d_k", lambda d: PartialRotary(d, 2)),
        ("more turn than there are", lambda: PartialRotary(4, 6), ValueError, "d_rotary"),
        ("an odd number turns", lambda: PartialRotary(8, 3), ValueError, "d_rotary"),
        (
            "q of another width",
            lambda: PartialRotary(6, 2)(attention, torch.arange(5))(Q, Q, Q),
            ValueError,
            "q",
        ),
    ],
    "LatentAttention": [
        *counts("d_latent", lambda d: LatentAttention(12, 3, d, 2)),
        *counts("d_rotary", lambda d: LatentAttention(12, 3, 5, d)),
        *counts("d_k", lambda d: LatentAttention(12, 3, 5, 2, d)),
        ("heads that don't divide", lambda: LatentAttention(12, 5, 5, 2), ValueError, "d_model"),
        *words(LatentAttention(12, 3, 5, 2)),
        (
            "an attend of another shape",
            lambda: LatentAttention(12, 3, 5, 2)(n(2, 5, 12), attend=lambda q, k, v, *rest: q),
            ValueError,
            "attend",
        ),
    ],
}


test_bad_input_gets_one_sentence = every_row(TABLE)
