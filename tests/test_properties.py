"""What holds for attention, masks and positions whatever the numbers, over shapes and masks that
hypothesis draws.

4,000 cases, always the same ones, run with the other tests. A longer run, with new cases each time:

  FORMER_NB_CASES=100000 OMP_NUM_THREADS=1 pytest tests/test_properties.py
"""

import math
import os
from collections import Counter
from dataclasses import dataclass
from functools import wraps

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from former_nb.attention import attention, masked_softmax
from former_nb.caches import LayerCache
from former_nb.guards import merge_masks
from former_nb.mask_formats import (
    from_additive,
    from_hugging_face,
    from_torch_mha,
    to_additive,
    to_hugging_face,
    to_torch_mha,
)
from former_nb.mask_patterns import document_mask, prefix_mask, sliding_window_mask
from former_nb.masks import causal_mask, combine_masks, padding_mask
from former_nb.multi_head import MultiHeadAttention
from former_nb.positions import SinusoidalPositions
from former_nb.relative_positions import (
    ALiBi,
    RelativeBias,
    Rotary,
    rotary_layout,
    rotary_table,
    rotate,
)
from former_nb.self_attention import (
    self_attention,
    self_attention_bmm,
    self_attention_einsum,
)

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 4000))
PERCENT, RAN = {}, Counter()  # of the cases, by the name of the test
NEAR = dict(atol=1e-5, rtol=1e-5)
HALF = dict(atol=6e-2, rtol=6e-2)
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
KINDS = ["causal", "padding", "window", "prefix", "document", "random", "holes"]


def cases(percent, *strategies):
    "Run a test on its share of the cases, and count them."

    def decorate(test):
        @wraps(test)
        def counted(*args, **kwargs):
            RAN[test.__name__] += 1
            return test(*args, **kwargs)

        PERCENT[test.__name__] = percent
        how = dict(
            deadline=None,
            database=None,
            derandomize=not LONG,
            suppress_health_check=list(HealthCheck),
        )
        return settings(max_examples=math.ceil(CASES * percent / 100), **how)(
            given(*strategies)(counted)
        )

    return decorate


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
            "padding": lambda: padding_mask(
                self.integers(3, self.B, self.S, salt=11)
            ),  # 0 is padding, whole rows of it as well
            "window": lambda: sliding_window_mask(self.T, 1 + self.seed % 4, self.S),
            "prefix": lambda: prefix_mask(self.T, self.integers(self.T + 2, self.B, salt=12)),
            "document": lambda: document_mask(self.integers(3, self.B, self.T, salt=13)),
            "random": lambda: self.numbers(self.B, self.h, self.T, self.S, salt=14) > -0.3,
            "holes": lambda: (
                self.numbers(self.B, 1, self.T, 1, salt=15) > -0.5
            ),  # some queries may see nothing
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
def problems(draw, masked=False):
    B, h, T = draw(st.integers(1, 3)), draw(st.integers(1, 4)), draw(st.integers(1, 6))
    S = T if draw(st.booleans()) else draw(st.integers(1, 7))
    g = draw(st.sampled_from([n for n in range(1, h + 1) if h % n == 0]))
    kinds = [kind for kind in KINDS if T == S or kind not in ("prefix", "document")]
    kinds = draw(st.lists(st.sampled_from(kinds), unique=True, min_size=int(masked), max_size=3))
    return Problem(
        B,
        h,
        g,
        T,
        S,
        draw(st.integers(1, 6)),
        draw(st.integers(1, 6)),
        tuple(kinds),
        draw(st.integers(0, 2**40)),
    )


@st.composite
def layers(draw):
    "A layer with any heads, any positions, and its width."
    g, d_k, seed = draw(st.integers(1, 3)), 2 * draw(st.integers(1, 3)), draw(st.integers(0, 2**40))
    h = g * draw(st.integers(1, 3))
    torch.manual_seed(seed)
    positions = draw(
        st.sampled_from(
            [
                lambda: None,
                lambda: Rotary(d_k, 64),
                lambda: Rotary(d_k, 64, layout="interleaved"),
                lambda: ALiBi(h),
                lambda: RelativeBias(h, 3),
            ]
        )
    )()
    if isinstance(positions, RelativeBias):
        positions.table.data.normal_()
    return (
        MultiHeadAttention(h * d_k, h, n_kv_heads=g, bias=draw(st.booleans()), positions=positions),
        seed,
    )


def finite(*tensors):
    assert all(t.isfinite().all() for t in tensors)


def gradients(out, inputs):
    return torch.autograd.grad(out.float().square().sum(), inputs, retain_graph=True)


def both_paths(q, k, v, mask=None, is_causal=False, bias=None):
    """The outputs of the fused and of the written-out path, and the weights; shared heads are
    spread."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    both = (q, k, v, merge_masks(mask, bias), is_causal)
    return attention(*both), *attention(*both, need_weights=True)


def shuffled(n, seed):
    return torch.randperm(n, generator=torch.Generator().manual_seed(seed))


# ---- what attention is


@cases(6, layers(), st.integers(1, 3), st.integers(1, 6), st.integers(1, 7), st.booleans())
def test_shapes_and_paths_of_the_layer(made, B, T, S, cross):
    layer, seed = made
    cross = cross and layer.positions is None
    x = torch.randn(B, T, layer.d_model)
    memory = torch.randn(B, S, layer.d_model) if cross else None
    out, weights = layer(x, memory, need_weights=True)
    assert out.shape == x.shape and weights.shape == (B, layer.n_heads, T, S if cross else T)
    finite(out, weights)
    assert_close(layer(x, memory), out, **NEAR)


@cases(11, problems(), st.booleans())
def test_weights_are_shares_and_outputs_stay_among_the_values(problem, is_causal):
    q, k, v = problem.qkv()
    mask, allowed = problem.mask(), problem.full_mask()
    allowed = allowed & causal_mask(problem.T, problem.S) if is_causal else allowed
    fused, out, weights = both_paths(q, k, v, mask, is_causal)
    assert (
        out.shape == (problem.B, problem.h, problem.T, problem.d_v)
        and weights.shape == allowed.shape
    )
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


@cases(17, problems(), st.sampled_from(DTYPES), st.booleans(), st.sampled_from([0.01, 1.0, 10.0]))
def test_no_mask_makes_a_nan_in_any_precision(problem, dtype, is_causal, scale):
    inputs, bias = problem.qkv(dtype, scale), problem.bias()
    bias = None if bias is None else bias.to(dtype)
    fused, out, weights = both_paths(*inputs, problem.mask(), is_causal, bias=bias)
    finite(fused, out, weights, *gradients(fused, inputs), *gradients(out, inputs))
    assert fused.dtype == out.dtype == weights.dtype == dtype
    if scale <= 1:
        assert_close(fused, out, **(NEAR if dtype == torch.float32 else HALF))


@cases(3, problems(), st.sampled_from(DTYPES))
def test_softmax_of_any_masked_scores_is_finite(problem, dtype):
    scores = (
        (10 * problem.numbers(problem.B, problem.h, problem.T, problem.S))
        .to(dtype)
        .requires_grad_()
    )
    mask = problem.full_mask()
    weights = masked_softmax(scores, mask)
    finite(weights, *gradients(weights, [scores]))
    assert not weights[~mask].any()
    assert_close(
        weights.sum(-1).float(), mask.any(-1).float(), **(NEAR if dtype == torch.float32 else HALF)
    )


# ---- order and independence


@cases(4, problems())
def test_without_a_mask_permuting_words_permutes_outputs(problem):
    order, x = shuffled(problem.T, problem.seed), problem.numbers(problem.B, problem.T, problem.d_k)
    assert_close(self_attention(x[:, order]), self_attention(x)[:, order], **NEAR)
    for road in (self_attention_bmm, self_attention_einsum):
        assert_close(road(x[:, order]), road(x)[:, order], **NEAR)
    torch.manual_seed(problem.seed)
    layer, x = (
        MultiHeadAttention(4 * problem.h, problem.h, n_kv_heads=problem.g),
        problem.numbers(problem.B, problem.T, 4 * problem.h),
    )
    (out, weights), (moved, moved_weights) = (
        layer(x, need_weights=True),
        layer(x[:, order], need_weights=True),
    )
    assert_close(moved, out[:, order], **NEAR)
    assert_close(moved_weights, weights[:, :, order][..., order], **NEAR)
    assert_close(layer(x[:, order]), layer(x)[:, order], **NEAR)


@cases(6, problems())
def test_permuting_keys_with_their_values_and_columns_changes_nothing(problem):
    (q, k, v), mask, bias = problem.qkv(), problem.full_mask(), problem.bias()
    order = shuffled(problem.S, problem.seed)
    before = both_paths(q, k, v, mask, bias=bias)
    moved = both_paths(
        q,
        k[:, :, order],
        v[:, :, order],
        mask[..., order],
        bias=None if bias is None else bias[..., order],
    )
    for a, b in zip(before, (*moved[:2], moved[2][..., torch.argsort(order)])):
        assert_close(a, b, **NEAR)


@cases(4, problems())
def test_permuting_queries_with_their_rows_permutes_outputs(problem):
    (q, k, v), mask, bias = problem.qkv(), problem.full_mask(), problem.bias()
    order = shuffled(problem.T, problem.seed)
    before = both_paths(q, k, v, mask, bias=bias)
    moved = both_paths(
        q[:, :, order],
        k,
        v,
        mask[:, :, order],
        bias=None if bias is None else bias[:, :, order],
    )
    for a, b in zip(before, moved):
        assert_close(a[:, :, order], b, **NEAR)


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
    for result, wanted in zip(
        both_paths(spoilt, k, v, mask, is_causal), both_paths(q, k, v, mask, is_causal)
    ):
        assert_close(result[~bad], wanted[~bad], **NEAR)


# ---- masks


@cases(4, problems())
def test_combining_masks_is_commutative_associative_and_idempotent(problem):
    masks = [problem.numbers(problem.B, 1, problem.T, problem.S, salt=i) > 0 for i in range(3)] + [
        causal_mask(problem.T, problem.S),
        None,
    ]
    a, b, c = (masks[i] for i in shuffled(5, problem.seed)[:3])
    same = lambda one, other: (one is None and other is None) or torch.equal(one, other)
    assert same(combine_masks(a, b), combine_masks(b, a))
    assert same(combine_masks(combine_masks(a, b), c), combine_masks(a, combine_masks(b, c)))
    assert same(combine_masks(a, b, c), combine_masks(combine_masks(a, b), c))
    assert same(combine_masks(a, a), a) and same(combine_masks(a, None), a)


@cases(4, st.integers(0, 9), st.integers(0, 9), st.integers(1, 12), st.integers(0, 2**40))
def test_the_builders_agree_with_one_another(T, S, window, seed):
    square, windowed = causal_mask(S), sliding_window_mask(S, window)
    mask, part = causal_mask(T, S), sliding_window_mask(T, window, S)
    rows = min(
        T,
        S,
        # the last query stands at the last key; where there are more queries than keys, the first see
        # nothing
    )
    assert (
        torch.equal(mask[:, :, T - rows :], square[:, :, S - rows :])
        and not mask[:, :, : T - rows].any()
    )
    assert (
        torch.equal(part[:, :, T - rows :], windowed[:, :, S - rows :])
        and not part[:, :, : T - rows].any()
    )
    assert torch.equal(sliding_window_mask(T, max(S, T, 1), S), mask)
    assert (part <= mask).all() and (part <= sliding_window_mask(T, window + 1, S)).all()
    assert (part.sum(-1) <= window).all()
    assert torch.equal(prefix_mask(T, 0), causal_mask(T)) and prefix_mask(T, T + seed % 3).all()
    assert (prefix_mask(T, seed % 7) <= prefix_mask(T, seed % 7 + 1)).all()
    by_hand = lambda rule, S=S: torch.tensor(
        [[rule(i + S - T, j) for j in range(S)] for i in range(T)], dtype=torch.bool
    ).view(1, 1, T, S)
    assert torch.equal(mask, by_hand(lambda i, j: j <= i)) and torch.equal(
        part, by_hand(lambda i, j: i - window < j <= i)
    )
    assert torch.equal(prefix_mask(T, seed % 7), by_hand(lambda i, j: j < seed % 7 or j <= i, T))
    lengths = torch.randint(T + 2, (3,), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(
        prefix_mask(T, lengths), torch.cat([prefix_mask(T, int(n)) for n in lengths])
    )


@cases(2, st.integers(1, 3), st.integers(1, 9), st.integers(0, 2**40))
def test_documents_and_padding(B, T, seed):
    draw = torch.Generator().manual_seed(seed)
    documents = torch.randint(4, (B, T), generator=draw)
    mask = document_mask(documents)
    assert document_mask(torch.full((B, T), seed % 5)).all()
    assert torch.equal(mask, document_mask(7 - documents)) and torch.equal(mask, mask.mT)
    assert torch.equal(
        mask, torch.matmul(mask.float(), mask.float()) > 0
    )  # the same document as the same document
    assert torch.equal(padding_mask(documents, 2)[:, 0, 0], documents != 2)
    pads = padding_mask(documents)
    assert torch.equal(pads, padding_mask(documents + 3, 3))
    assert torch.equal(combine_masks(mask, pads), mask & pads)


@cases(2, problems())
def test_masks_survive_a_trip_through_every_format(problem):
    mask, shape = problem.full_mask(), (problem.B, problem.h, problem.T, problem.S)
    given = (
        mask if problem.mask() is None else problem.mask()
    )  # axes of size 1 as the builders leave them
    assert torch.equal(from_additive(to_additive(given)), given)
    assert torch.equal(from_hugging_face(to_hugging_face(given)), given)
    there = to_torch_mha(given, shape)
    back = from_torch_mha(**there, n_heads=problem.h)
    assert torch.equal(back.expand(shape), mask)
    for dtype in DTYPES:
        assert torch.equal(from_hugging_face(to_hugging_face(mask, dtype)), mask) and torch.equal(
            from_additive(to_additive(mask, dtype)), mask
        )


# ---- positions


@cases(2, st.integers(1, 4), st.integers(0, 40), st.booleans(), st.integers(0, 2**40))
def test_rotary_scores_depend_on_distance_only(pairs, shift, interleaved, seed):
    d_k, layout = 2 * pairs, "interleaved" if interleaved else "half"
    rotary, draw = Rotary(d_k, 64, layout=layout), torch.Generator().manual_seed(seed)
    q, k = (torch.randn(2, 3, 7, d_k, generator=draw) for _ in range(2))
    here, there = rotary(q, k), rotary(q, k, start=shift)
    assert here[2] is None and torch.equal(rotary(q, k, start=0)[0], here[0])
    assert_close(there[0] @ there[1].mT, here[0] @ here[1].mT, atol=5e-5, rtol=5e-5)
    assert_close(here[0].norm(dim=-1), q.norm(dim=-1), **NEAR)
    cos, sin = rotary_table(64, d_k)[:, :7]
    assert torch.equal(rotate(q, cos, sin, layout), here[0])


@cases(2, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2**40))
def test_both_rotary_layouts_give_one_attention(pairs, heads, seed):
    d_k, draw = 2 * pairs, torch.Generator().manual_seed(seed)
    x = torch.randn(2, 5, d_k * heads, generator=draw)
    w_q, w_k = (torch.randn(d_k * heads, d_k * heads, generator=draw) / d_k for _ in range(2))
    split = lambda w: (x @ w.mT).unflatten(-1, (heads, d_k)).transpose(1, 2)
    scores = {}
    for layout in ("half", "interleaved"):
        there = [
            rotary_layout(w, d_k, layout) if layout == "interleaved" else w for w in (w_q, w_k)
        ]
        q, k, _ = Rotary(d_k, 16, layout=layout)(*map(split, there))
        scores[layout] = q @ k.mT
        back = [
            rotary_layout(rotary_layout(w, d_k, to), d_k, other)
            for w in (w_q, w_k)
            for to, other in [("half", "interleaved")]
        ]
        assert torch.equal(torch.stack(back), torch.stack([w_q, w_k]))
    assert_close(scores["half"], scores["interleaved"], atol=5e-5, rtol=5e-5)


@cases(
    2, st.integers(1, 9), st.integers(1, 7), st.integers(0, 9), st.booleans(), st.integers(0, 2**40)
)
def test_distance_biases_depend_on_distance_only(heads, T, start, trained, seed):
    torch.manual_seed(seed)
    positions = RelativeBias(heads, 1 + seed % 5) if trained else ALiBi(heads)
    if trained:
        positions.table.data.normal_()
    q = torch.zeros(1, heads, T, 2)
    bias = positions(q, q, start)[2]
    assert bias.shape == (1, heads, T, start + T)
    long = torch.zeros(1, heads, start + T, 2)
    whole = positions(long, long)[2]
    assert torch.equal(bias, whole[:, :, start:])  # the last queries of the whole
    for by in range(-(start + T) + 1, start + T):
        along = whole.diagonal(by, -2, -1)
        assert (along == along[..., :1]).all()
    if not trained:
        assert (
            torch.equal(whole, whole.mT)
            and (whole <= 0).all()
            and (whole.diagonal(0, -2, -1) == 0).all()
        )


@cases(5, layers(), st.lists(st.integers(1, 3), min_size=1, max_size=5), st.booleans())
def test_pieces_through_a_cache_equal_the_whole(made, pieces, need_weights):
    layer, _ = made
    x, cache, start = torch.randn(2, sum(pieces), layer.d_model), LayerCache(), 0
    whole = layer(x, is_causal=True)
    for n in pieces:
        piece = layer(
            x[:, start : start + n], is_causal=True, cache=cache, need_weights=need_weights
        )
        assert_close(piece[0] if need_weights else piece, whole[:, start : start + n], **NEAR)
        start += n


@cases(1, st.integers(1, 9), st.integers(1, 9), st.integers(0, 9), st.integers(0, 2**40))
def test_added_positions_do_not_depend_on_what_was_added_before(d_model, T, start, seed):
    positions = SinusoidalPositions(20, d_model)
    x = torch.randn(2, start + T, d_model, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(positions(x[:, start:], start), positions(x)[:, start:])


def test_as_many_cases_ran_as_were_asked_for(capsys):
    assert sum(PERCENT.values()) == 100
    if set(RAN) != set(PERCENT):
        pytest.skip("only some of the properties were run")
    with capsys.disabled():
        print(f" {sum(RAN.values()):,} cases, no NaN ", end="")
    assert sum(RAN.values()) >= CASES
