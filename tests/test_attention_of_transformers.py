"""Masks and positions against Hugging Face's models: tiny ones, made from a configuration and run,
never downloaded."""

import pytest
import torch
from attention_tools import Placed, read_in_pieces
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.mask_patterns import document_mask, prefix_mask, sliding_window_mask
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.relative_positions import ALiBi, alibi_slopes, rotate_interleaved
from former_nb.decoding.caches import LayerCache
from former_nb.inspection.recording import Recorder
from former_nb.models.modern_decoder import GroupedQueryAttention

transformers = pytest.importorskip("transformers")
from transformers.masking_utils import create_causal_mask

NEAR = dict(atol=1e-5, rtol=1e-5)
TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5], [6, 2, 7, 1, 0, 0], [5, 8, 0, 0, 0, 0]])  # 0 is padding
LEFT = TOKENS.flip(1)
DOCUMENTS = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 2, 2], [0, 1, 1, 1, 1, 1]])


def tiny(name, **kwargs):
    torch.manual_seed(0)
    width = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20)
    sizes = {
        "Bert": width | dict(max_position_embeddings=16),
        "GPT2": dict(n_embd=24, n_layer=2, n_head=4, n_positions=16),
        "Llama": width | dict(max_position_embeddings=16, num_key_value_heads=2),
        "Mistral": (
            width | dict(max_position_embeddings=16, num_key_value_heads=2, sliding_window=3)
        ),
        "Bloom": dict(hidden_size=24, n_layer=2, n_head=kwargs.pop("heads", 4)),
    }[name]
    config = getattr(transformers, f"{name}Config")(vocab_size=11, **sizes, **kwargs)
    config._attn_implementation = "eager"  # the way that returns weights
    return getattr(transformers, f"{name}Model")(config).eval()


def weights_of(model, mask, tokens=TOKENS):
    "The weights of both layers, (2, B, h, T, S)."
    with torch.no_grad():
        found = model(input_ids=tokens, attention_mask=mask, output_attentions=True)
    return torch.stack(found.attentions)


def to_attention_mask(mask):
    "As the page on mask patterns says it: (B, S) of ones and zeros, or numbers to add."
    if mask.shape[1:3] == (1, 1):
        return mask[:, 0, 0].long()
    return torch.zeros(mask.shape).masked_fill(~mask, torch.finfo(torch.float32).min)


def obeys(weights, mask):
    "Weights are above zero exactly where `mask` allows, in every row that may attend to something."
    mask = mask.expand(weights.shape[1:])
    rows = mask.any(-1)
    return torch.equal((weights > 0)[:, rows], mask[rows].expand(len(weights), -1, -1))


# ---- masks


@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama", "Bloom"])
@pytest.mark.parametrize("tokens", [TOKENS, LEFT], ids=["padded right", "padded left"])
def test_padding_reaches_every_model(name, tokens):
    pads = padding_mask(tokens)
    theirs = to_attention_mask(pads)
    # a decoder adds its triangle
    mask = pads if name == "Bert" else combine_masks(pads, causal_mask(6))
    assert obeys(weights_of(tiny(name), theirs, tokens), mask)


@pytest.mark.parametrize("name", ["Bert", "Llama"])
@pytest.mark.parametrize("kind", ["documents", "prefix", "window", "padding and causal"])
def test_masks_of_four_axes_mean_the_same_in_both_worlds(name, kind):
    mask = {
        "documents": combine_masks(document_mask(DOCUMENTS), causal_mask(6)),
        "prefix": prefix_mask(6, torch.tensor([2, 0, 5])),
        "window": sliding_window_mask(6, 3).expand(3, 1, 6, 6),
        "padding and causal": combine_masks(padding_mask(TOKENS), causal_mask(6)),
    }[kind]
    theirs = to_attention_mask(mask)
    weights = weights_of(tiny(name), theirs)
    assert weights.isfinite().all() and obeys(weights, mask)
    model = tiny(name)
    with torch.no_grad():
        eager = model(TOKENS, attention_mask=theirs).last_hidden_state
        model.set_attn_implementation("sdpa")
        sdpa = model(TOKENS, attention_mask=theirs).last_hidden_state
    rows = mask.expand(3, 1, 6, 6).any(-1)[:, 0]  # those that may attend to something
    assert_close(sdpa[rows], eager[rows], **NEAR)


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
@pytest.mark.parametrize("name, tokens", [("Bert", TOKENS), ("Llama", LEFT)])
def test_a_padded_text_comes_out_as_it_does_alone(name, tokens, kind):
    model = tiny(name, initializer_range=0.5)
    model.set_attn_implementation(kind)
    words = tokens[1] != 0
    mask = to_attention_mask(padding_mask(tokens))
    with torch.no_grad():
        alone = model(tokens[1:2, words]).last_hidden_state[0]
        padded = model(tokens, attention_mask=mask).last_hidden_state[1, words]
        unmasked = model(tokens).last_hidden_state[1, words]
    assert_close(padded, alone, atol=1e-4, rtol=1e-4)
    assert (unmasked - alone).abs().max() > 0.1


@pytest.mark.parametrize("tokens", [TOKENS, LEFT], ids=["padded right", "padded left"])
def test_a_decoder_builds_the_mask_that_ours_is_converted_to(tokens):
    model = tiny("Llama")

    def built(kind, **how):
        model.set_attn_implementation(kind)
        how = {"attention_mask": None, "position_ids": None, "past_key_values": None} | how
        return create_causal_mask(model.config, model.embed_tokens(tokens), **how)

    both = combine_masks(causal_mask(6), padding_mask(tokens))
    ones = to_attention_mask(padding_mask(tokens))
    assert built("sdpa", attention_mask=ones).equal(both)
    assert built("eager", attention_mask=ones).equal(to_attention_mask(both))
    # where positions start again, it begins a new document
    positions = torch.tensor([[0, 1, 2, 0, 1, 2], [0, 1, 0, 1, 0, 1], [0, 0, 1, 2, 3, 4]])
    packed = combine_masks(causal_mask(6), document_mask(DOCUMENTS))
    assert built("sdpa", position_ids=positions).equal(packed)


def test_eager_adds_booleans_and_forbids_nothing():
    mask = combine_masks(causal_mask(6), padding_mask(TOKENS))
    weights = weights_of(tiny("Llama"), mask)[0]  # (B, h, T, S)
    assert weights[0, :, 0, 1:].sum(-1).min() > 0.5  # the first word attends to the future
    assert obeys(weights_of(tiny("Llama"), to_attention_mask(mask)), mask)


def test_packed_documents_equal_documents_apart():
    model, tokens = tiny("Bert"), TOKENS[:1]
    with torch.no_grad():
        how = dict(attention_mask=to_attention_mask(document_mask(DOCUMENTS[:1])))
        packed = model(tokens, position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]), **how)
        apart = model(input_ids=tokens.view(2, 3))
    assert_close(packed.last_hidden_state.view(2, 3, 24), apart.last_hidden_state, **NEAR)


def test_a_sliding_window_counts_the_same_keys():
    mask = combine_masks(sliding_window_mask(6, 3), padding_mask(TOKENS))
    assert obeys(weights_of(tiny("Mistral"), to_attention_mask(padding_mask(TOKENS))), mask)


# ---- positions


def inside(model, part, tokens=TOKENS):
    "What goes into a part of the model, what comes out of it, and the weights of its first layer."
    seen = {}

    def hook(module, args, kwargs, out):
        seen["x"] = args[0] if args else kwargs["hidden_states"]
        seen["out"] = out[0] if isinstance(out, tuple) else out

    handle = model.get_submodule(part).register_forward_hook(hook, with_kwargs=True)
    weights = weights_of(model, None, tokens)[0]
    handle.remove()
    return seen["x"], seen["out"], weights


@pytest.mark.parametrize("theta", [10000.0, 500.0])
def test_rotary_and_grouped_heads_equal_llamas_layer(theta):
    model = tiny("Llama", rope_parameters=dict(rope_type="default", rope_theta=theta))
    theirs = model.layers[0].self_attn
    x, out, weights = inside(model, "layers.0.self_attn")
    ours, rotary = GroupedQueryAttention(24, 4, 2, bias=False), Rotary(6, base=theta)
    seen, at = [], torch.arange(x.shape[1])
    with torch.no_grad():
        for name in "qkvo":
            mine = getattr(ours, f"w_{name}")
            mine.weight.copy_(getattr(theirs, f"{name}_proj").weight)
        got = ours(x, attend=rotary(Recorder(seen.append), at), is_causal=True)
        assert_close(seen[0], weights, **NEAR)
        assert_close(got, out, **NEAR)
        assert_close(ours(x, attend=rotary(attention, at), is_causal=True), out, **NEAR)
        placed = Placed(ours, rotary)
        pieces = read_in_pieces(placed, x.split(2, dim=1), LayerCache(), is_causal=True)
        assert_close(pieces, out, **NEAR)


def test_interleaved_pairs_turn_as_gptjs():
    gptj = pytest.importorskip("transformers.models.gptj.modeling_gptj")
    q = torch.randn(2, 3, 7, 8, generator=torch.Generator().manual_seed(0))
    sin, cos = gptj.create_sinusoidal_positions(16, 8)[None, 2:9].chunk(2, dim=-1)
    # theirs has heads after tokens
    theirs = gptj.apply_rotary_pos_emb(q.transpose(1, 2), sin, cos).transpose(1, 2)
    cos, sin = Rotary(8).rows(torch.arange(2, 9), q.device)
    assert_close(rotate_interleaved(q, cos, sin), theirs, **NEAR)


@pytest.mark.parametrize("heads", range(1, 18))
def test_alibi_slopes_equal_blooms(heads):
    bloom = pytest.importorskip("transformers.models.bloom.modeling_bloom")
    # (heads, 1, 3): slope times place
    theirs = bloom.build_alibi_tensor(torch.ones(1, 3), heads, torch.float32)
    assert_close(alibi_slopes(heads), theirs[:, 0, 1])


@pytest.mark.parametrize("heads", [3, 4, 6])
def test_alibi_equals_blooms_layer(heads):
    model = tiny("Bloom", heads=heads)
    x, _, weights = inside(model, "h.0.self_attention")
    # its rows: for each head its queries, keys and values
    theirs = model.h[0].self_attention.query_key_value
    ours, seen = MultiHeadAttention(24, heads), []
    with torch.no_grad():
        for name in ("weight", "bias"):
            rows = getattr(theirs, name).detach().unflatten(0, (heads, 3, 24 // heads))
            for i, layer in enumerate([ours.w_q, ours.w_k, ours.w_v]):
                getattr(layer, name).copy_(rows[:, i].flatten(0, 1))
        attend = ALiBi(heads)(Recorder(seen.append), torch.arange(x.shape[1]))
        ours(x, attend=attend, is_causal=True)
    # theirs adds slope times place: in each row a constant away from minus slope times distance
    assert_close(seen[0], weights, **NEAR)
