"""The configurations: what their names mean, JSON and back, refusals, how the weights start."""

import json
import math
from dataclasses import asdict, replace

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refuses
from torch import nn
from torch.testing import assert_close

from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.base.ranges import TRAINING, Range
from former_nb.decoding.fast_copy import gated
from former_nb.decoding.sampling import SETTINGS
from former_nb.models.build import (
    build_attention,
    build_decoder,
    build_network,
    build_norm,
    build_positions,
    build_stack,
    check_memory,
)
from former_nb.models.choices import ACTIVATIONS, MODEL, POSITIONS
from former_nb.models.config import (
    BIASES,
    RARE,
    TransformerConfig,
)
from former_nb.models.initialization import init_weights
from former_nb.models.modern_decoder import GroupedQueryAttention
from former_nb.models.rope_scaling import scale_frequencies
from former_nb.models.savable import EncoderDecoder, LanguageModel

SIZES = dict(vocab_size=11, max_len=9, d_model=12, n_heads=3, n_layers=2, d_ff=20, dropout=0.0)
CONFIG = TransformerConfig(**SIZES)
JSON = settings(max_examples=30, deadline=None, database=None, derandomize=True)
WRONG = [None, True, 0, -1, 2.5, "3", "", [], {}, [4], float("nan"), float("inf"), "Learned"]
FINE = {"n_kv_heads": [None], "dropout": [0], "norm_first": [True]}  # of those, what is allowed
FINE |= {"d_k": [None], "rope_base": [2.5], "rope_scaling": [None], "tied_head": [True]}
FACTORS = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3 = dict(rope_type="llama3", **FACTORS, original_max_position_embeddings=32)
KINDS = (ValueError, TypeError)


@st.composite
def configs(draw):
    g, ratio, half = (draw(st.integers(1, 3)) for _ in range(3))
    h, whole = g * ratio, st.integers(1, 40)
    return TransformerConfig(
        vocab_size=draw(whole),
        max_len=draw(whole),
        d_model=2 * half * h,
        n_heads=h,
        n_layers=draw(whole),
        d_ff=draw(whole),
        dropout=draw(st.sampled_from([0, 0.0, 0.1, 0.99]) | st.floats(0, 1, exclude_max=True)),
        positions=draw(st.sampled_from(list(POSITIONS))),
        n_kv_heads=draw(st.sampled_from([None, g])),
        activation=draw(st.sampled_from(list(ACTIVATIONS))),
        norm=draw(st.sampled_from(list(MODEL["norm"]))),
        norm_first=draw(st.booleans()),
        d_k=draw(st.sampled_from([None, 6])),
        bias=draw(st.sampled_from(list(BIASES))),
        norm_eps=draw(st.sampled_from([1e-5, 1e-12, 0.01])),
        rope_base=draw(st.sampled_from([10_000.0, 500_000.0])),
        rope_scaling=draw(st.sampled_from([None, LLAMA3, dict(rope_type="linear", factor=2.0)])),
        tied_head=draw(st.booleans()),
    )


@JSON
@given(configs())
def test_a_configuration_comes_back_from_json(config):
    back = TransformerConfig(**json.loads(json.dumps(asdict(config))))
    assert back == config
    assert list(map(type, asdict(back).values())) == list(map(type, asdict(config).values()))


@JSON
@given(configs(), st.data())
def test_what_is_no_configuration_is_refused(config, data):
    name = data.draw(st.sampled_from(list(asdict(config))))
    fine = FINE.get(name, [])
    wrong = data.draw(st.sampled_from([v for v in WRONG if not any(v is f for f in fine)]))
    refuses(lambda: replace(config, **{name: wrong}), KINDS, name)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("d_model", dict(n_heads=5)),
        ("d_model", dict(n_heads=4, positions="rotary")),  # heads of an odd width
        ("n_heads", dict(n_kv_heads=2)),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name, changes):
    refuses(lambda: replace(CONFIG, **changes), ValueError, name)


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


# ---- activations, and how the weights start


def test_swiglu_gates_the_second_half_by_the_first():
    # gates, gates, values, values
    x = torch.tensor([[-2.0, 0.5, 3.0, -1.0], [1.0, 2.0, -0.5, 4.0]])
    assert_close(gated(x), x[:, :2] * torch.sigmoid(x[:, :2]) * x[:, 2:])
    assert gated(torch.tensor([-100.0, 5.0])) == 0  # a closed gate
    assert gated(torch.zeros(2, 0)).shape == (2, 0)


def test_gelu_is_the_exact_one_and_norms_have_the_eps_of_pytorchs_layers():
    x = torch.linspace(-3, 3, 13)
    assert_close(build_network(4, 8).activation(x), x * torch.special.ndtr(x))
    assert_close(build_network(4, 8, activation="relu").activation(x), F.relu(x))
    assert {build_norm(replace(CONFIG, norm=norm)).eps for norm in MODEL["norm"]} == {1e-5}


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


# ---- what only weights from elsewhere ask for


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


# ---------------------------------------------------------------- ranges

TABLES = {"model": MODEL, "training": TRAINING, "sampling": SETTINGS, "rare": RARE}
RANGES = {
    f"{table}: {name}": (name, rule)
    for table, rules in TABLES.items()
    for name, rule in rules.items()
    if isinstance(rule, Range)
}


@pytest.mark.parametrize("row", RANGES)
def test_each_range_of_a_setting_says_what_it_takes_and_takes_nothing_odd(row):
    name, numbers = RANGES[row]
    assert numbers.words.startswith("a whole number" if numbers.whole else "a number")
    for value in (math.nan, math.inf, -math.inf, -1, "1", True, [1], 1j):
        refuses(lambda: numbers.check(name, value), (TypeError, ValueError), name, repr(value))
    with pytest.raises(ValueError, match=f"{name}: expected {numbers.words}, got 'x'"):
        numbers.check(name, "x", ValueError)
