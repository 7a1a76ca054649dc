"""What holds for attention, masks and positions whatever the numbers, over shapes and masks that
hypothesis draws.

800 cases, always the same ones, run with the other tests. A longer run, with new cases each time:

  FORMER_NB_CASES=100000 OMP_NUM_THREADS=1 pytest tests/test_properties.py
"""

import math
import os
from dataclasses import dataclass

import torch
from attention_tools import Placed, read_in_pieces, with_weights, written
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention, attention_weights, merge_masks
from former_nb.attention.mask_patterns import document_mask, prefix_mask, sliding_window_mask
from former_nb.attention.masks import causal_mask, combine_masks, padding_mask
from former_nb.attention.positions import SinusoidalPositions, rotate
from former_nb.attention.relative_positions import (
    ALiBi,
    RelativeBias,
)
from former_nb.attention.self_attention import (
    self_attention,
    self_attention_bmm,
    self_attention_einsum,
)
from former_nb.decoding.caches import LayerCache
from former_nb.models.modern_decoder import GroupedQueryAttention
from former_nb.models.parts import CrossAttention

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 800))
NEAR = dict(atol=1e-5, rtol=1e-5)
HALF = dict(atol=6e-2, rtol=6e-2)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
KINDS = ["causal", "padding", "window", "prefix", "document", "random", "holes"]


def cases(percent, *strategies):
    "Run a test on its share of the cases."
    how = dict(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    many = settings(max_examples=math.ceil(CASES * percent / 100), derandomize=not LONG, **how)
    return lambda test: many(given(*strategies)(test))


@dataclass(frozen=True)
class Problem:
    "One call of attention: its sizes, its kinds of mask and the seed of its numbers."

    B: int
    h: int
    g: int  # heads of keys and values
    T: int
    S: int
    d_k: int
    d_v: int
    kinds: tuple
    seed: int

    def generator(self, salt=0):
        return torch.Generator().manual_seed(self.seed + salt)

    def numbers(self, *shape, salt=1):
        return torch.randn(*shape, generator=self.generator(salt))

    def integers(self, high, *shape, salt=1):
        return torch.randint(high, shape, generator=self.generator(salt))

    def qkv(self, dtype=torch.float32, scale=1.0):
        shapes = (self.h, self.T, self.d_k), (self.g, self.S, self.d_k), (self.g, self.S, self.d_v)
        return [
            (scale * self.numbers(self.B, *shape, salt=i)).to(dtype).requires_grad_()
            for i, shape in enumerate(shapes, 1)
        ]

    def mask(self):
        "Every kind of mask of the problem, combined, with four axes; None where it has none."
        made = {
            "causal": lambda: causal_mask(self.T, self.S),
            # 0 is padding, whole rows of it as well
            "padding": lambda: padding_mask(self.integers(3, self.B, self.S, salt=11)),
            "window": lambda: sliding_window_mask(self.T, 1 + self.seed % 4, self.S),
            "prefix": lambda: prefix_mask(self.T, self.integers(self.T + 2, self.B, salt=12)),
            "document": lambda: document_mask(self.integers(3, self.B, self.T, salt=13)),
            "random": lambda: self.numbers(self.B, self.h, self.T, self.S, salt=14) > -0.3,
            # some queries may see nothing
            "holes": lambda: self.numbers(self.B, 1, self.T, 1, salt=15) > -0.5,
        }
        return combine_masks(*(made[kind]() for kind in self.kinds))

    def full_mask(self):
        "The mask as (B, h, T, S)."
        mask = self.mask()
        mask = torch.ones((), dtype=torch.bool) if mask is None else mask
        return mask.expand(self.B, self.h, self.T, self.S)

    def bias(self):
        "Numbers for the scores, a few of them -inf, for every second problem; None for the others."
        bias = self.numbers(self.B if self.seed % 4 else 1, self.h, self.T, self.S, salt=21)
        return bias.masked_fill(bias > 1.2, float("-inf")) if self.seed % 2 else None


@st.composite
def problems(draw):
    B, h, T = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    S = T if draw(st.booleans()) else draw(st.integers(1, 7))
    g = draw(st.sampled_from([n for n in range(1, h + 1) if h % n == 0]))
    kinds = [kind for kind in KINDS if T == S or kind not in ("prefix", "document")]
    kinds = draw(st.lists(st.sampled_from(kinds), unique=True, max_size=3))
    d_k, d_v, seed = (draw(st.integers(low, high)) for low, high in ((1, 6), (1, 6), (0, 2**40)))
    return Problem(B, h, g, T, S, d_k, d_v, tuple(kinds), seed)


@st.composite
def layers(draw):
    "A layer with any heads and any positions."
    g, d_k, seed = draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3)), draw(st.integers(0, 2**40))
    h = g * draw(st.integers(1, 3))
    torch.manual_seed(seed)
    schemes = [
        lambda: None,
        lambda: Rotary(d_k),
        lambda: ALiBi(h),
        lambda: RelativeBias(h, 3),
    ]
    positions, bias = draw(st.sampled_from(schemes))(), draw(st.booleans())
    if isinstance(positions, RelativeBias):
        positions.table.data.normal_()
    layer = Placed(GroupedQueryAttention(h * d_k, h, g, bias=bias), positions)
    layer.d_model, layer.n_heads = h * d_k, h
    return layer


def finite(*tensors):
    assert all(t.isfinite().all() for t in tensors)


def gradients(out, inputs):
    return torch.autograd.grad(out.float().square().sum(), inputs, retain_graph=True)


def both_paths(q, k, v, mask=None, is_causal=False, bias=None):
    "The outputs of the fused and of the written-out path, and the weights."
    mask = merge_masks(mask, bias)
    weights = attention_weights(q, k, mask, is_causal)
    out = weights @ v.repeat_interleave(q.shape[1] // v.shape[1], dim=1)
    return attention(q, k, v, mask, is_causal), out, weights


def shuffled(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


# ---- what attention is


@cases(6, layers(), st.integers(1, 3), st.integers(1, 6))
def test_shapes_and_paths_of_the_layer(layer, B, T):
    x = torch.randn(B, T, layer.d_model)
    out, weights = with_weights(layer, x, written)
    assert out.shape == x.shape and weights.shape == (B, layer.n_heads, T, T)
    finite(out, weights)
    assert_close(layer(x), out, **NEAR)


@cases(6, problems())
def test_shapes_and_paths_of_cross_attention(problem):
    torch.manual_seed(problem.seed)
    layer, d_model = CrossAttention(4 * problem.h, problem.h), 4 * problem.h
    x, memory = torch.randn(2, problem.T, d_model), torch.randn(2, problem.S, d_model)
    out, weights = with_weights(lambda x, attend: layer(x, memory, attend=attend), x, written)
    assert out.shape == x.shape and weights.shape == (2, problem.h, problem.T, problem.S)
    finite(out, weights)
    assert_close(layer(x, memory), out, **NEAR)
    assert_close(layer(x, layer.project(memory)), out, **NEAR)


@cases(11, problems(), st.booleans())
def test_weights_are_shares_and_outputs_stay_among_the_values(problem, is_causal):
    q, k, v = problem.qkv()
    mask, allowed = problem.mask(), problem.full_mask()
    allowed = allowed & causal_mask(problem.T, problem.S) if is_causal else allowed
    fused, out, weights = both_paths(q, k, v, mask, is_causal)
    assert out.shape == (problem.B, problem.h, problem.T, problem.d_v)
    assert weights.shape == allowed.shape
    some = allowed.any(-1)  # (B, h, T)
    assert_close(weights.sum(-1), some.float(), **NEAR)
    assert (weights >= 0).all() and not weights[~allowed].any()
    values = v.repeat_interleave(problem.h // problem.g, dim=1)[:, :, None]  # (B, h, 1, S, d_v)
    low = values.masked_fill(~allowed[..., None], float("inf")).amin(-2)  # (B, h, T, d_v)
    high = values.masked_fill(~allowed[..., None], float("-inf")).amax(-2)
    for result in (fused, out):
        assert (result >= low - 1e-5)[some].all() and (result <= high + 1e-5)[some].all()
        assert not result[~some].any()


@cases(18, problems(), st.booleans())
def test_both_paths_agree_forward_and_backward(problem, is_causal):
    inputs, bias = problem.qkv(), problem.bias()
    inputs = inputs if bias is None else [*inputs, bias.requires_grad_()]
    fused, out, _ = both_paths(*inputs[:3], problem.mask(), is_causal, bias=bias)
    assert_close(fused, out, **NEAR)
    for a, b in zip(gradients(fused, inputs), gradients(out, inputs)):
        assert_close(a, b, atol=2e-5, rtol=2e-5)


@cases(20, problems(), st.sampled_from(DTYPES), st.booleans(), st.sampled_from([0.01, 1.0, 10.0]))
def test_no_mask_makes_a_nan_in_any_precision(problem, dtype, is_causal, scale):
    inputs, bias = problem.qkv(dtype, scale), problem.bias()
    bias = None if bias is None else bias.to(dtype)
    fused, out, weights = both_paths(*inputs, problem.mask(), is_causal, bias=bias)
    finite(fused, out, weights, *gradients(fused, inputs), *gradients(out, inputs))
    assert fused.dtype == out.dtype == weights.dtype == dtype
    if scale <= 1:
        assert_close(fused, out, **(NEAR if dtype == torch.float32 else HALF))


# ---- order and independence


@cases(4, problems())
def test_without_a_mask_permuting_words_permutes_outputs(problem):
    order, x = shuffled(problem.T, problem.seed), problem.numbers(problem.B, problem.T, problem.d_k)
    for road in (self_attention, self_attention_bmm, self_attention_einsum):
        assert_close(road(x[:, order]), road(x)[:, order], **NEAR)
    torch.manual_seed(problem.seed)
    layer = GroupedQueryAttention(4 * problem.h, problem.h, problem.g)
    x = problem.numbers(problem.B, problem.T, 4 * problem.h)
    out, weights = with_weights(layer, x)
    moved, moved_weights = with_weights(layer, x[:, order])
    assert_close(moved, out[:, order], **NEAR)
    assert_close(moved_weights, weights[:, :, order][..., order], **NEAR)
    assert_close(layer(x[:, order]), layer(x)[:, order], **NEAR)


@cases(10, problems())
def test_permuting_keys_changes_nothing_and_permuting_queries_permutes_outputs(problem):
    (q, k, v), mask, bias = problem.qkv(), problem.full_mask(), problem.bias()
    rows, order = shuffled(problem.T, problem.seed), shuffled(problem.S, problem.seed + 1)
    before = both_paths(q, k, v, mask, bias=bias)
    turned = lambda table: None if table is None else table[:, :, rows][..., order]
    there = q[:, :, rows], k[:, :, order], v[:, :, order], turned(mask)
    *moved, weights = both_paths(*there, bias=turned(bias))
    for a, b in zip(before, (*moved, weights[..., torch.argsort(order)])):
        assert_close(a[:, :, rows], b, **NEAR)


@cases(5, problems(), st.booleans())
def test_a_row_of_the_batch_does_not_hear_of_the_others(problem, is_causal):
    (q, k, v), mask = problem.qkv(), problem.full_mask()
    whole = both_paths(q, k, v, mask, is_causal)
    for b in range(problem.B):
        alone = both_paths(*(t[b : b + 1] for t in (q, k, v, mask)), is_causal)
        others = torch.arange(problem.B) != b
        spoilt = [t.masked_fill(others.view(-1, 1, 1, 1), float("nan")) for t in (q, k, v)]
        for a, one, beside_nan in zip(whole, alone, both_paths(*spoilt, mask, is_causal)):
            assert_close(one[0], a[b], **NEAR)
            assert_close(beside_nan[b], a[b], **NEAR)


@cases(2, problems(), st.booleans())
def test_nan_in_one_query_stays_in_its_row(problem, is_causal):
    (q, k, v), mask = problem.qkv(), problem.mask()
    bad = problem.numbers(problem.B, problem.h, problem.T, salt=32) > 0.6
    spoilt = q.masked_fill(bad[..., None], float("nan"))
    wanted = both_paths(q, k, v, mask, is_causal)
    for result, want in zip(both_paths(spoilt, k, v, mask, is_causal), wanted):
        assert_close(result[~bad], want[~bad], **NEAR)


# ---- masks


@cases(4, problems())
def test_combining_masks_is_commutative_associative_and_idempotent(problem):
    masks = [problem.numbers(problem.B, 1, problem.T, problem.S, salt=i) > 0 for i in range(3)]
    masks += [causal_mask(problem.T, problem.S), None]
    a, b, c = (masks[i] for i in shuffled(5, problem.seed)[:3])
    same = lambda one, other: (one is None and other is None) or torch.equal(one, other)
    assert same(combine_masks(a, b), combine_masks(b, a))
    assert same(combine_masks(combine_masks(a, b), c), combine_masks(a, combine_masks(b, c)))
    assert same(combine_masks(a, b, c), combine_masks(combine_masks(a, b), c))
    assert same(combine_masks(a, a), a) and same(combine_masks(a, None), a)


@cases(4, st.integers(0, 9), st.integers(0, 9), st.integers(1, 12), st.integers(0, 2**40))
def test_the_builders_are_their_rules(T, S, window, seed):
    def by_hand(rule, S=S):
        "Query i stands at place i + S - T: the last query at the last key."
        rows = [[rule(i + S - T, j) for j in range(S)] for i in range(T)]
        return torch.tensor(rows, dtype=torch.bool).view(1, 1, T, S)

    assert torch.equal(causal_mask(T, S), by_hand(lambda i, j: j <= i))
    part = sliding_window_mask(T, window, S)
    assert torch.equal(part, by_hand(lambda i, j: i - window < j <= i))
    assert torch.equal(sliding_window_mask(T, max(S, T, 1), S), causal_mask(T, S))
    assert torch.equal(prefix_mask(T, seed % 7), by_hand(lambda i, j: j < seed % 7 or j <= i, T))
    assert torch.equal(prefix_mask(T, 0), causal_mask(T)) and prefix_mask(T, T + seed % 3).all()
    lengths = torch.randint(T + 2, (3,), generator=torch.Generator().manual_seed(seed))
    each = torch.cat([prefix_mask(T, int(n)) for n in lengths])
    assert torch.equal(prefix_mask(T, lengths), each)


@cases(2, st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**40))
def test_documents_and_padding(B, T, seed):
    documents = torch.randint(4, (B, T), generator=torch.Generator().manual_seed(seed))
    mask = document_mask(documents)
    assert torch.equal(mask[:, 0], documents[:, :, None] == documents[:, None, :])
    assert torch.equal(padding_mask(documents, 2)[:, 0, 0], documents != 2)
    pads = padding_mask(documents)
    assert torch.equal(pads, padding_mask(documents + 3, 3))
    assert torch.equal(combine_masks(mask, pads), mask & pads)


# ---- positions


@cases(2, st.integers(1, 4), st.integers(0, 40), st.integers(0, 2**40))
def test_rotary_scores_depend_on_distance_only(pairs, shift, seed):
    d_k, draw = 2 * pairs, torch.Generator().manual_seed(seed)
    rotary = Rotary(d_k)
    q, k = (torch.randn(2, 3, 7, d_k, generator=draw) for _ in range(2))
    first = torch.arange(7)
    here = rotary.turn(q, first), rotary.turn(k, first)
    at = torch.arange(shift, shift + 7)
    there = rotary.turn(q, at), rotary.turn(k, at)
    assert_close(there[0] @ there[1].mT, here[0] @ here[1].mT, atol=5e-5, rtol=5e-5)
    assert_close(here[0].norm(dim=-1), q.norm(dim=-1), **NEAR)
    cos, sin = rotary.rows(first, q.device)
    assert torch.equal(rotate(q, cos, sin), here[0])


@cases(
    2, st.integers(1, 9), st.integers(1, 7), st.integers(0, 9), st.booleans(), st.integers(0, 2**40)
)
def test_distance_biases_depend_on_distance_only(heads, T, start, trained, seed):
    torch.manual_seed(seed)
    positions = RelativeBias(heads, 1 + seed % 5) if trained else ALiBi(heads)
    if trained:
        positions.table.data.normal_()
    bias = positions.bias(T, start + T)
    assert bias.shape == (1, heads, T, start + T)
    whole = positions.bias(start + T, start + T)
    assert torch.equal(bias, whole[:, :, start:])  # the last queries of the whole
    for by in range(-(start + T) + 1, start + T):
        along = whole.diagonal(by, -2, -1)
        assert (along == along[..., :1]).all()


@cases(5, layers(), st.lists(st.integers(1, 3), min_size=1, max_size=5), st.booleans())
def test_pieces_through_a_cache_equal_the_whole(layer, pieces, fused):
    x = torch.randn(2, sum(pieces), layer.d_model)
    cache = LayerCache(attend=attention if fused else written)
    whole = layer(x, is_causal=True)
    found = read_in_pieces(layer, x.split(pieces, dim=1), cache, is_causal=True)
    assert_close(found, whole, **NEAR)


@cases(1, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**40))
def test_added_positions_do_not_depend_on_what_was_added_before(d_model, T, start, seed):
    positions = SinusoidalPositions(20, d_model)
    x = torch.randn(2, start + T, d_model, generator=torch.Generator().manual_seed(seed))
    at = torch.arange(start, start + T)
    whole = positions(x, torch.arange(start + T))
    assert torch.equal(positions(x[:, start:], at), whole[:, start:])
