"""Attention by a small network: the loop, gradients, masks, and the places it is given to."""

import pytest
import torch
from attention_tools import read_in_pieces
from refusals import every_row, n, yes
from torch import nn
from torch.testing import assert_close

from former_nb.attention.equivalent_forms import AdditiveAttention
from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.decoding.caches import KVCache, LayerCache
from former_nb.inspection.recording import record_attention
from former_nb.models.config import TransformerConfig
from former_nb.models.parts import ReadMemory
from former_nb.models.savable import EncoderDecoder, LanguageModel


def network(d_k=4, n_heads=3, d_hidden=7, dtype=torch.float64):
    torch.manual_seed(0)
    return AdditiveAttention(d_k, n_heads, d_hidden).to(dtype)


def inputs(B=2, h=3, T=5, S=6, d_k=4, d_v=8, dtype=torch.float64):
    shapes = (B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v)
    return [n(*shape, seed=i, dtype=dtype).requires_grad_() for i, shape in enumerate(shapes)]


def loops(attend, q, k, v, allowed=None):
    "One query and one key at a time; `allowed` is (B, h, T, S)."
    y = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for b, head, i in torch.cartesian_prod(*map(torch.arange, q.shape[:3])).tolist():
        powers = []
        for j in range(k.shape[2]):
            hidden = q[b, head, i] @ attend.w_q[head] + k[b, head, j] @ attend.w_k[head]
            power = (attend.u[head] @ hidden.tanh()).exp()
            open_here = allowed is None or bool(allowed[b, head, i, j])
            powers.append(power if open_here else 0 * power)
        total = sum(powers)
        if total > 0:
            for power, v_j in zip(powers, v[b, head]):
                y[b, head, i] = y[b, head, i] + power / total * v_j
    return y


def gradients(y, of):
    direction = n(*y.shape, seed=9, dtype=y.dtype)
    return torch.autograd.grad((y * direction).sum(), of, retain_graph=True)


@pytest.mark.parametrize("kind", ["all", "mask", "causal", "padding"])
@pytest.mark.parametrize("T, S", [(5, 6), (6, 5), (1, 6), (6, 1)])
def test_outputs_and_gradients_are_those_of_the_loops(T, S, kind):
    attend = network()
    q, k, v = inputs(T=T, S=S)
    options, allowed = {}, None
    if kind == "mask":
        allowed = n(2, 3, T, S, seed=5) > -0.3
        allowed[0, 0, 0] = False  # a query that may attend to nothing
        options = dict(mask=allowed)
    if kind == "causal":
        allowed = causal_mask(T, S).expand(2, 3, T, S)
        options = dict(is_causal=True)
    if kind == "padding":
        tokens = torch.ones(2, S, dtype=torch.int64)
        tokens[1, S // 2 + 1 :] = 0
        options = dict(mask=padding_mask(tokens))
        allowed = options["mask"].expand(2, 3, T, S)
    ours, theirs = attend(q, k, v, **options), loops(attend, q, k, v, allowed)
    assert_close(ours, theirs)
    leaves = [q, k, v, *attend.parameters()]
    assert_close(gradients(ours, leaves), gradients(theirs, leaves))


def test_gradients_are_those_of_small_steps():
    attend = network(d_k=2, n_heads=2, d_hidden=3)
    q, k, v = inputs(B=1, h=2, T=2, S=3, d_k=2, d_v=2)
    names = [name for name, _ in attend.named_parameters()]

    def run(q, k, v, *weights):
        return torch.func.functional_call(attend, dict(zip(names, weights)), (q, k, v))

    assert torch.autograd.gradcheck(run, (q, k, v, *attend.parameters()))


def test_the_formula_with_linear_layers():
    attend = network(n_heads=1)
    w_q = nn.Linear(4, 7, bias=False).double()
    w_k = nn.Linear(4, 7, bias=False).double()
    u = nn.Linear(7, 1, bias=False).double()
    with torch.no_grad():
        attend.w_q.copy_(w_q.weight.T[None])
        attend.w_k.copy_(w_k.weight.T[None])
        attend.u.copy_(u.weight)
    q, k, v = (t[:, 0] for t in inputs())
    scores = u(torch.tanh(w_q(q)[:, :, None] + w_k(k)[:, None]))[..., 0]  # (B, T, S)
    assert_close(attend.weights(q, k), scores.softmax(dim=-1))
    assert_close(attend(q, k, v), scores.softmax(dim=-1) @ v)


def test_a_query_with_nothing_gives_zeros_and_a_zero_gradient():
    attend = network()
    q, k, v = inputs()
    mask = torch.ones(1, 1, 5, 6, dtype=torch.bool)
    mask[..., 2, :] = False
    for rule in (mask, torch.zeros(1, 1, 5, 6).masked_fill(~mask, float("-inf"))):
        y = attend(q, k, v, rule)
        assert not y[:, :, 2].any() and y[:, :, 1].all()
        of_q, of_k, of_v = gradients(y, (q, k, v))
        assert not of_q[:, :, 2].any()
        assert all(g.isfinite().all() for g in (of_q, of_k, of_v))


def test_numbers_in_a_mask_are_added_and_causal_is_aligned_at_the_bottom_right():
    attend = network()
    q, k, v = inputs()
    bias = n(2, 3, 5, 6, seed=7, dtype=torch.float64)
    even = attend.weights(q, k).log() + bias
    assert_close(attend.weights(q, k, bias), even.softmax(dim=-1))
    weights = attend.weights(q, k, is_causal=True)
    assert weights.gt(0).equal(causal_mask(5, 6).expand_as(weights))
    assert_close(attend(q, k, v, is_causal=True), attend(q, k, v, causal_mask(5, 6)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_every_precision_gives_its_own_type(dtype):
    attend = network(dtype=dtype)
    q, k, v = inputs(dtype=dtype)
    y = attend(q, k, v, is_causal=True)
    assert y.dtype == dtype
    expected = network()(q.double(), k.double(), v.double(), is_causal=True)
    assert_close(y.double(), expected, atol=0.1, rtol=0.1)


# ---- where it is given


def test_a_layer_a_cache_and_a_recorder_take_it():
    layer, x = MultiHeadAttention(12, 3), n(2, 5, 12)
    attend = network(dtype=torch.float32)
    y = layer(x, attend=attend, is_causal=True)
    cache = LayerCache(attend=attend)
    steps = [layer(x[:, i : i + 1], attend=cache, is_causal=True) for i in range(5)]
    assert_close(torch.cat(steps, dim=1), y)
    with record_attention(layer) as weights:
        assert_close(layer(x, attend=attend, is_causal=True), y)
    q, k = layer.split(layer.w_q(x)), layer.split(layer.w_k(x))
    assert_close(weights[""], attend.weights(q, k, is_causal=True).detach())


def test_shared_heads_of_keys_are_repeated():
    attend = AdditiveAttention(4, 6)
    q, k, v = n(2, 6, 5, 4), n(2, 2, 7, 4, seed=1), n(2, 2, 7, 4, seed=2)
    every = attend(q, k.repeat_interleave(3, dim=1), v.repeat_interleave(3, dim=1))
    assert_close(attend(q, k, v), every)


def test_each_block_of_a_model_may_have_its_own():
    config = TransformerConfig(20, 9, d_model=12, n_heads=3, n_layers=2, d_ff=8, dropout=0.0)
    model = LanguageModel.from_config(config).eval()
    networks = nn.ModuleList(AdditiveAttention(4, 3) for _ in range(2))
    tokens = torch.arange(4, 11)[None]
    logits = model(tokens, attend=list(networks))
    assert not torch.allclose(logits, model(tokens))
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in networks.parameters())
    cache = KVCache(2)
    for layer, own in zip(cache, networks):
        layer.attend = own
    assert_close(read_in_pieces(model, tokens.split(1, dim=1), cache), logits)


def test_a_translator_reads_its_memory_by_it():
    config = TransformerConfig(20, 9, d_model=12, n_heads=3, n_layers=2, d_ff=8, dropout=0.0)
    model, attend = EncoderDecoder.from_config(config).eval(), AdditiveAttention(4, 3)
    src = torch.tensor([[1, 5, 6, 2, 0], [1, 7, 8, 9, 2]])
    tgt = torch.tensor([[1, 6, 5], [1, 9, 8]])
    together = model.decode(tgt, ReadMemory(model.encode(src), attend), padding_mask(src))
    alone = model.decode(tgt[:1], ReadMemory(model.encode(src[:1, :4]), attend))
    assert_close(together[:1], alone)


# ---- bad input

ATTEND = AdditiveAttention(8, 3)
Q, K, V = n(2, 3, 5, 8), n(2, 3, 7, 8, seed=1), n(2, 3, 7, 6, seed=2)


test_bad_input = every_row(
    [
        ("no width", lambda: AdditiveAttention(0), ValueError, "d_k"),
        ("half a head", lambda: AdditiveAttention(4, 2.0), TypeError, "n_heads"),
        ("no units", lambda: AdditiveAttention(4, d_hidden=0), ValueError, "d_hidden"),
        ("too few heads", lambda: ATTEND(Q[:, :2], K[:, :2], V[:, :2]), ValueError, "q"),
        ("no heads", lambda: ATTEND(Q[:, 0], K[:, 0], V[:, 0]), ValueError, "q"),
        ("another width", lambda: ATTEND(Q[..., :4], K[..., :4], V), ValueError, "q"),
        ("narrow keys", lambda: ATTEND(Q, K[..., :4], V), ValueError, "k"),
        ("too few values", lambda: ATTEND(Q, K, V[:, :, :5]), ValueError, "v"),
        ("a mask turned", lambda: ATTEND(Q, K, V, yes(7, 5)), ValueError, "mask"),
        ("nothing to scale", lambda: ATTEND(Q, K, V, scale=0.3), TypeError, ""),
    ]
)


def test_no_queries_and_no_keys():
    assert ATTEND(Q[:, :, :0], K, V).shape == (2, 3, 0, 6)
    assert not ATTEND(Q, K[:, :, :0], V[:, :, :0]).any()
