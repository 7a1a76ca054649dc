"""What a configuration builds: parts of the sizes asked for, and how their weights start."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from model_tools import CONFIG, LLAMA3
from torch import nn
from torch.testing import assert_close

from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.models.build import (
    build_attention,
    build_decoder,
    build_embedding,
    build_network,
    build_norm,
    build_positions,
    build_stack,
    check_memory,
)
from former_nb.models.choices import MODEL, POSITIONS
from former_nb.models.initialization import init_weights
from former_nb.models.modern_decoder import GroupedQueryAttention
from former_nb.models.rope_scaling import scale_frequencies
from former_nb.models.savable import EncoderDecoder, LanguageModel


def test_a_model_that_memory_cannot_hold_is_refused_before_any_is_taken():
    "A configuration is as valid on a small machine as on a large one; a model is not."
    config = replace(CONFIG, n_layers=10**12)
    wide = dict(vocab_size=10**12, max_len=10**12)
    for make in (
        lambda: check_memory(config),
        lambda: LanguageModel.from_config(config),
        lambda: EncoderDecoder.from_config(CONFIG, tgt_config=config),
        lambda: LanguageModel.from_config(replace(CONFIG, **wide)),
    ):
        with pytest.raises(ValueError, match="^vocab_size = .*: expected at most .* GB of this"):
            make()
    with torch.device("meta"):  # where weights take no memory, and the objects of blocks do
        check_memory(replace(CONFIG, **wide))
        with pytest.raises(ValueError, match="^vocab_size = .*: expected at most .* GB of this"):
            LanguageModel.from_config(config)


def test_positions_act_where_they_belong_and_a_configuration_does_not_change():
    assert build_positions(CONFIG, "attention") is None
    assert build_positions(replace(CONFIG, positions="alibi"), "input") is None
    with pytest.raises(AttributeError):
        CONFIG.d_model = 24


def test_gelu_is_the_exact_one_and_norms_have_the_eps_of_pytorchs_layers():
    x = torch.linspace(-3, 3, 13)
    assert_close(build_network(4, 8).activation(x), x * torch.special.ndtr(x))
    assert_close(build_network(4, 8, activation="relu").activation(x), F.relu(x))
    assert {build_norm(replace(CONFIG, norm=norm)).eps for norm in MODEL["norm"]} == {1e-5}


def test_an_embedding_is_a_vector_for_each_token_and_its_position():
    tokens = torch.tensor([[3, 7, 3], [10, 0, 1]])
    for positions, kind in POSITIONS.items():
        torch.manual_seed(0)
        embed = build_embedding(replace(CONFIG, positions=positions), scale=3.0)
        wanted = 3.0 * embed.tokens.weight[tokens]
        if embed.position_embedding is not None:
            wanted = embed.position_embedding(wanted, torch.arange(3))
        assert_close(embed(tokens, torch.arange(3)), wanted)
        assert (embed.position_embedding is None) == (kind.where == "attention")
        assert_close(embed(tokens[:, 1:], torch.arange(1, 3)), wanted[:, 1:])


def test_an_embedding_starts_as_wide_as_asked_for_and_drops_in_training_only():
    config = replace(CONFIG, vocab_size=500, d_model=48, dropout=0.3)
    for std in (0.02, 0.5):
        embed = build_embedding(config, std=std)
        assert abs(embed.tokens.weight.std() / std - 1) < 0.02
    assert embed.dropout.p == 0.3 and build_embedding(config, 0.0).dropout.p == 0.0
    tokens = torch.arange(9)[None]
    at = torch.arange(9)
    assert (embed(tokens, at) == 0).any() and not (embed.eval()(tokens, at) == 0).any()


@pytest.mark.parametrize("cross", [False, True])
def test_layers_that_write_to_the_stream_start_smaller(cross):
    torch.manual_seed(0)
    stack = (build_decoder if cross else build_stack)(
        replace(CONFIG, d_model=192, d_ff=256, n_layers=5)
    )
    small = 0.02 / ((3 if cross else 2) * 5) ** 0.5  # so many layers write
    for name, p in stack.named_parameters():
        writes = name.endswith(("attention.w_o.weight", "cross.w_o.weight", "ff.w_out.weight"))
        if p.ndim > 1:
            assert abs(p.std() / (small if writes else 0.02) - 1) < 0.05, name
        else:
            assert not (p - float("norm" in name and "weight" in name)).any(), name


def test_weights_start_in_embeddings_and_layers_without_a_bias_too():
    model = nn.Sequential(nn.Embedding(500, 40), nn.Linear(40, 400, bias=False), nn.LayerNorm(400))
    init_weights(model, 2)
    learned = build_positions(replace(CONFIG, max_len=500, d_model=48), "input").table
    for start in (model[0].weight, model[1].weight, learned):
        assert abs(start.std() / 0.02 - 1) < 0.05


@pytest.mark.parametrize(
    ("bias", "with_one"),
    [
        ("all", {"w_q", "w_k", "w_v", "w_o", "w_in", "w_out"}),
        ("attention", {"w_q", "w_k", "w_v", "w_o"}),
        ("qkv", {"w_q", "w_k", "w_v"}),
        ("none", set()),
    ],
)
@pytest.mark.parametrize("cross", [False, True])
def test_only_named_layers_have_a_bias(bias, with_one, cross):
    stack = (build_decoder if cross else build_stack)(replace(CONFIG, bias=bias))
    layers = [(n, m) for n, m in stack.named_modules() if isinstance(m, nn.Linear)]
    assert {n.split(".")[-1] for n, m in layers if m.bias is not None} == with_one
    x = torch.randn(2, 4, 12)
    assert stack(x, *[x] * cross).shape == x.shape


def test_heads_have_the_number_and_the_width_asked_for():
    layer = build_attention(replace(CONFIG, d_k=5, n_kv_heads=1))
    shapes = {name: tuple(part.weight.shape) for name, part in layer.named_children()}
    keys = dict.fromkeys(["w_k", "w_v"], (5, 12))
    assert shapes == {"w_q": (3 * 5, 12), **keys, "w_o": (12, 3 * 5)}
    for changes in (dict(d_k=5), dict(n_kv_heads=1)):
        config = replace(CONFIG, **changes)
        assert type(build_attention(config)) is GroupedQueryAttention
        assert build_stack(config)(torch.randn(2, 4, 12)).shape == (2, 4, 12)
    for config in (CONFIG, CONFIG):
        assert type(build_attention(config)) is MultiHeadAttention


def test_a_norm_has_the_eps_asked_for():
    for norm in MODEL["norm"]:
        stack = build_stack(replace(CONFIG, norm=norm, norm_eps=1e-3))
        assert {m.eps for m in stack.modules() if hasattr(m, "eps")} == {1e-3}


CPU = torch.device("cpu")


def test_frequencies_are_slowed_as_llama_3_does():
    circles = torch.tensor([0.5, 1.0, 2.5, 4.0, 9.0], dtype=torch.float64)  # in 32 tokens
    frequency = circles * 2 * torch.pi / 32
    factor = frequency / scale_frequencies(frequency, LLAMA3)
    assert_close(1 / factor, torch.tensor([1 / 8, 1 / 8, 0.5 + 0.5 / 8, 1, 1]).double())
    assert_close(scale_frequencies(frequency, dict(rope_type="linear", factor=2)), frequency / 2)
    plain, slow = (
        build_positions(
            replace(CONFIG, positions="rotary", d_k=4, rope_scaling=scaling), "attention"
        )
        for scaling in (None, dict(rope_type="linear", factor=2.0))
    )
    fast, slow_rows = plain.rows(torch.arange(1, 5), CPU), slow.rows(torch.arange(2, 9, 2), CPU)
    assert_close(slow_rows, fast)  # half as fast
    assert_close(slow.double().rows(torch.arange(2, 9, 2), CPU), slow_rows)
