"""Filters keep what they say, draws follow what is left, and bad settings are named."""

import random

import pytest
import torch
from decoding_tools import CAN, CPU, INF, NAN, generate, language_model
from refusals import refuses
from torch.testing import assert_close

from former_nb.data.text import BOS
from former_nb.decoding import caches
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.decoding import greedy, sample
from former_nb.decoding.sampling import (
    Sampling,
    SeededSample,
    checked,
    with_min_p,
    with_temperature,
    with_top_k,
    with_top_p,
)


def keep(logits, **how):
    "The logits that are left by the filters."
    return Sampling(**how).filter(lambda left: left)(logits)


def pick_of(B, **how):
    "The pick that `Sampling` makes for B rows."
    return Sampling(**how).pick([[BOS]] * B, CPU)


# ---- picks


def test_wrappers_nest_as_the_settings_do():
    logits = 3 * torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    prompts = [[5, 6], [7, 8, 9], [5], [6], [7, 7], [9]]
    pick = with_min_p(with_top_k(SeededSample(4, prompts, CPU), 9), 0.02)
    pick = checked(with_temperature(with_top_p(pick, 0.8), 0.7))
    settings = dict(temperature=0.7, top_k=9, top_p=0.8, min_p=0.02, seed=4)
    other = Sampling(**settings).pick(prompts, CPU)
    for _ in range(5):
        assert other(logits).equal(pick(logits))


def test_wrappers_name_a_setting_that_nothing_can_be_drawn_with():
    for wrapper, name, values in (
        (with_temperature, "temperature", (-1, NAN, None)),
        (with_top_k, "top_k", (0, 1.5)),
        (with_top_p, "top_p", (0, 1.01)),
        (with_min_p, "min_p", (-0.1,)),
    ):
        for value in values:
            refuses(lambda: wrapper(greedy, value), ValueError, name, str(value))


# ---- filters


@pytest.mark.parametrize(("top_p", "n"), [(0.25, 1), (0.5, 2), (0.75, 3), (1.0, 4), (0.51, 3)])
def test_tokens_that_have_the_probability_exactly_are_enough(top_p, n):
    "Quarters have no rounding errors, so the boundary can be hit."
    assert keep(torch.zeros(1, 4), top_p=top_p).isfinite().sum() == n


def kept_by_hand(p, top_k, top_p, min_p):
    "The numbers that are kept, one by one, in double precision."
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    kept, before = set(), 0.0
    for rank, i in enumerate(order):
        by_k, by_p = top_k is None or rank < top_k, top_p is None or before < top_p
        if by_k and by_p and (min_p is None or p[i] >= min_p * p[order[0]]):
            kept.add(i)
        before += p[i]
    return kept


def test_filters_equal_the_loop():
    draw = random.Random(0)
    for seed in range(60):
        own = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(17, generator=own, dtype=torch.float64)
        k, p = draw.choice([None, 1, 4, 99]), draw.choice([None, 0.01, 0.3, 0.77, 0.98])
        m = draw.choice([None, 0.03, 0.2, 0.9])
        want = kept_by_hand(logits.softmax(-1).tolist(), k, p, m)
        got = keep(logits.expand(2, 3, 17), top_k=k, top_p=p, min_p=m)
        assert got.isfinite().nonzero()[:, 2].unique().tolist() == sorted(want), (k, p, m)
        assert torch.equal(got[got.isfinite()], logits.expand(2, 3, 17)[got.isfinite()])


def test_nothing_is_lost_where_a_filter_is_open():
    for V in (3, 1000, 50_000):
        logits = 3 * torch.randn(2, V, generator=torch.Generator().manual_seed(V))
        for how in (dict(top_p=1), dict(top_p=1.0, top_k=V), dict(min_p=0), dict(top_k=V + 1), {}):
            assert torch.equal(keep(logits, **how), logits)
        assert keep(logits, top_p=1 - 1e-12).isfinite().sum() >= 2 * V - V // 10


def test_one_token_is_always_left():
    rows = torch.zeros(2, 7), torch.tensor([[-INF, -INF, 4.0]]), torch.tensor([[1e30, -1e30, 0.0]])
    for logits in (*rows, torch.randn(3, 11).half()):
        for how in (dict(top_k=1), dict(top_p=1e-300), dict(top_p=1e-9, top_k=1, min_p=1.0)):
            left = keep(logits, **how).isfinite()
            assert (left.sum(-1) == 1).all()
            assert left.gather(-1, logits.argmax(-1, keepdim=True)).all()


def test_ties_go_to_the_first():
    tied, left = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0]), [False, True, True, False, False]
    assert keep(tied, top_k=2).isfinite().tolist() == left
    assert keep(tied, top_p=0.5).isfinite().tolist() == left
    assert keep(tied, min_p=1).isfinite().tolist() == [False, True, True, True, False]


def test_one_filter_at_a_time_equals_hugging_faces():
    process = pytest.importorskip("transformers.generation.logits_process")
    logits = 2 * torch.randn(4, 60, generator=torch.Generator().manual_seed(0))
    for k in (1, 5, 80):
        assert_close(keep(logits, top_k=k), process.TopKLogitsWarper(k)(None, logits))
    for p in (0.1, 0.5, 0.93):
        assert_close(keep(logits, top_p=p), process.TopPLogitsWarper(p)(None, logits))
    for p in (0.01, 0.2, 0.9):
        assert_close(keep(logits, min_p=p), process.MinPLogitsWarper(p)(None, logits))


DRAWS = [
    dict(),
    dict(temperature=1.7, top_k=3),
    dict(temperature=0.5, top_p=0.8),
    dict(temperature=2, min_p=0.3),
]


@pytest.mark.parametrize("how", DRAWS, ids=str)
def test_draws_follow_the_filtered_softmax(how):
    torch.manual_seed(0)
    logits = torch.tensor([0.4, -1.0, 1.5, 0.0, 2.0])
    expected = 20_000 * keep(logits / how.get("temperature", 1), **how).softmax(-1)
    seen = pick_of(20_000, **how)(logits.expand(20_000, 5)).bincount(minlength=5)
    assert not seen[expected == 0].any()
    assert ((seen - expected) ** 2 / expected)[expected > 0].sum() < 40


def test_extreme_temperatures():
    logits = torch.tensor([[1.0, 2.0, -INF], [3e38, -3e38, 0.0]])
    for small in (0, 1e-300, 1e-7, 1e-3):
        assert pick_of(2, temperature=small)(logits).tolist() == [1, 0]
    for half in (torch.float16, torch.bfloat16):
        tiny = pick_of(1, temperature=1e-6)
        assert tiny(torch.tensor([[6e4, -6e4]], dtype=half)).tolist() == [0]
    for large in (1e6, 1e30):  # any of those that are left
        drawn = pick_of(500, temperature=large, seed=0)(logits[:1].expand(500, 3))
        assert set(drawn.tolist()) == {0, 1}


def test_logits_that_nothing_can_be_drawn_from():
    bad = torch.tensor([[NAN, 1.0], [INF, 1.0], [-INF, -INF], [0.0, -INF]])
    for how in (dict(), dict(temperature=0), dict(temperature=0.5, top_k=1, min_p=0.1)):
        assert pick_of(4, **how)(bad).tolist() == [-1, -1, -1, 0]
    for pick in (greedy, sample):
        assert checked(pick)(bad).tolist() == [-1, -1, -1, 0]
    broken = language_model(0)
    with torch.no_grad():
        broken.embed.tokens.weight[7] = NAN
    refuses(lambda: generate(broken, CAN, 3), ValueError, "logits")
    refuses(lambda: caches.generate(broken, CAN, 3, sample), ValueError, "logits")
    refuses(lambda: beam_search(broken, [5, 7], 2, 3), ValueError, "logits")


# ---- bad input

BAD_SETTINGS = {
    "temperature": (-0.1, NAN, "1"),
    "top_k": (0, 1.5),
    "top_p": (0, 1.01),
    "min_p": (1.1,),
    "seed": (-1,),
}


@pytest.mark.parametrize("name", BAD_SETTINGS)
def test_bad_settings_are_named(name):
    for value in BAD_SETTINGS[name]:
        refuses(lambda: Sampling(**{name: value}), ValueError, name, str(value))
