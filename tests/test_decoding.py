"""Decoding: what is kept equals what is computed again, a batch equals its rows one by one, and bad input costs one sentence.

150 random configurations, always the same ones, run with the other tests. A longer run, with new ones each time, and a real compiler:

  FORMER_NB_CASES=1000 OMP_NUM_THREADS=1 pytest tests/test_decoding.py
"""

import itertools
import math
import os
import random
import time

import pytest
import torch
from torch.testing import assert_close

from former_nb.beam_search import beam_search, length_score
from former_nb.config import TransformerConfig
from former_nb.core import eval_mode
from former_nb.decoding import (
    KVCache,
    LayerCache,
    check_prompts,
    generate,
    generate_text,
    stream,
    stream_text,
)
from former_nb.generator import LanguageModel
from former_nb.masks import sliding_window_mask
from former_nb.sampling import check_sampling, filter_logits, apply_repetition_penalty, sample_next
from former_nb.text import BOS, EOS, PAD, UNK, CharTokenizer
from former_nb.tokenization import SubwordTokenizer

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 150))
FIRST = int(time.time()) if LONG else 0  # of the seeds
SCHEMES = ["learned", "sinusoidal", "rotary", "alibi", "relative"]
DISTANCE = SCHEMES[2:]
NAN, INF = float("nan"), float("inf")
FILTERS = [
    {},
    {"top_k": 3},
    {"top_p": 0.8},
    {"min_p": 0.1},
    {"top_k": 9, "top_p": 0.9, "min_p": 0.02},
    {"repetition_penalty": 1.4},
]


def language_model(
    seed=0, positions="learned", V=23, max_len=24, loud=0.3, dtype=torch.float64, **kwargs
):
    "A model whose weights are large enough for its answers to differ from place to place."
    kwargs = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24, dropout=0.3) | kwargs
    torch.manual_seed(seed)
    model = LanguageModel(TransformerConfig(V, max_len, positions=positions, **kwargs))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=loud)
    return model.to(dtype)


def alone(model, prompts, most, **kwargs):
    "Each prompt by itself, with the seed that its row has in the batch."
    seeds = [
        {} if kwargs.get("seed") is None else {"seed": kwargs["seed"] + i}
        for i in range(len(prompts))
    ]
    return [generate(model, [row], most, **(kwargs | own))[0] for row, own in zip(prompts, seeds)]


def random_case(seed):
    "A model, prompts and settings, all from one number."
    draw = random.Random(seed)
    positions, window = draw.choice(SCHEMES), draw.choice([None, None, 1, 2, 5, 30])
    heads = dict(
        n_kv_heads=draw.choice([None, 2, 1]),
        n_layers=draw.choice([1, 2]),
        norm_first=draw.random() < 0.7,
    )
    model = language_model(
        seed % 2**31,
        positions,
        activation=draw.choice(["relu", "gelu", "swiglu"]),
        norm=draw.choice(["layer", "rms"]),
        **heads,
    )
    prompts = [
        [draw.randint(4, 22) for _ in range(draw.randint(1, 8))] for _ in range(draw.randint(1, 4))
    ]
    how = dict(
        temperature=draw.choice([0, 0.7, 1, 1.5]), top_k=draw.choice([None, 1, 5, 99]), top_p=draw.choice([None, 0.5, 0.9, 1]),
        min_p=draw.choice([None, 0, 0.1]), repetition_penalty=draw.choice([1, 1.3, 0.8]), window=window,
        seed=draw.randrange(1000), eos_token_ids=draw.choice([None, EOS, (5, 6, 7)]), use_cache=True,
    )  # fmt: skip
    return model, prompts, draw.choice([1, 4, 12, 30]), how


# ------------------------------------------------------------------ kept = fed again = alone


@pytest.mark.parametrize("part", range(10))
def test_kept_equals_fed_again_equals_alone(part):
    for seed in range(FIRST + part, FIRST + CASES, 10):
        model, prompts, most, how = random_case(seed)
        kept = generate(model, prompts, most, **how)
        assert kept == generate(model, prompts, most, **(how | {"use_cache": False})), (
            f"case {seed}: fed again gives something else"
        )
        if seed % 3 == 0:
            assert kept == alone(model, prompts, most, **how), (
                f"case {seed}: one by one gives something else"
            )


@pytest.mark.parametrize(
    "how", [dict(temperature=0), *(dict(seed=5, **f) for f in FILTERS)], ids=str
)
@pytest.mark.parametrize("positions", SCHEMES)
def test_sixteen_prompts_of_many_lengths_equal_sixteen_calls(positions, how):
    model, draw = language_model(1, positions, n_kv_heads=2), random.Random(0)
    prompts = [[draw.randint(4, 22) for _ in range(1 + i % 9)] for i in range(16)]
    draw.shuffle(prompts)
    together = generate(model, prompts, 7, **how)
    assert together == alone(model, prompts, 7, **how)
    assert all(
        row[: len(p)] == p and 1 <= len(row) - len(p) <= 7 for row, p in zip(together, prompts)
    )


def test_a_single_precision_model_too():
    judged = 0
    for seed in range(12):
        model, prompts, most, how = random_case(seed)
        model, margins = model.float(), []
        how |= dict(temperature=0, top_k=None, top_p=None, min_p=None, repetition_penalty=1)
        kept = generate(model, prompts, most, **how)
        watch = model.register_forward_hook(
            lambda _, args, logits: margins.append(
                logits[:, -1, [EOS, *range(4, 23)]].topk(2).values.diff().abs().min()
            )
        )
        again = generate(model, prompts, most, **(how | {"use_cache": False}))
        watch.remove()
        if min(margins) > 1e-4:  # rounding decides nowhere
            assert kept == again
            judged += 1
    assert judged >= 6


@pytest.mark.parametrize("positions", SCHEMES)
@pytest.mark.parametrize("n_kv_heads", [4, 2, 1])
def test_logits_through_the_cache_equal_the_whole(positions, n_kv_heads):
    model = language_model(0, positions, n_kv_heads=n_kv_heads).eval()
    tokens = torch.randint(4, 23, (3, 20))
    with torch.no_grad():
        whole = model(tokens)
        for sizes in ([20], [1] * 20, [7, 1, 1, 5, 6], [1, 18, 1]):
            cache = KVCache(2)
            assert_close(
                torch.cat([model(piece, cache) for piece in tokens.split(sizes, dim=1)], dim=1),
                whole,
            )
            assert cache.length == 20 and cache[0].k.shape == (3, n_kv_heads, 20, 4)


@pytest.mark.parametrize("window", [1, 2, 4, 9])
@pytest.mark.parametrize("positions", SCHEMES)
def test_the_sliding_window_equals_the_mask_in_every_layer(positions, window):
    model = language_model(0, positions, n_kv_heads=2, n_layers=3).eval()
    tokens = torch.randint(4, 23, (2, 20))
    with torch.no_grad():
        whole = model(tokens, mask=sliding_window_mask(20, window))
        for sizes in ([20], [1] * 20, [6] + [1] * 14, [6, 5, 1, 8]):
            cache, found = KVCache(3, window), []
            for piece in tokens.split(sizes, dim=1):
                T, S = piece.shape[1], min(cache.length, window - 1) + piece.shape[1]
                found.append(
                    model(piece, cache, sliding_window_mask(T, window, S) if T > 1 else None)
                )
            assert_close(torch.cat(found, dim=1), whole)
            assert all(
                layer.k.shape[2] <= max(sizes[-1] + window - 1, window) for layer in cache.layers
            )


@pytest.mark.parametrize("positions", SCHEMES)
def test_only_a_window_over_distances_goes_beyond_max_len(positions):
    model = language_model(0, positions)
    how = dict(eos_token_ids=None, seed=0)
    assert (
        len(generate(model, [[5, 6]], 99, **how)[0]) == 25
    )  # max_len, and a last one that is never read
    far = generate(model, [[5, 6], [7] * 5], 60, window=4, **how)
    assert [len(row) for row in far] == ([62, 65] if positions in DISTANCE else [25, 25])
    assert far == generate(model, [[5, 6], [7] * 5], 60, window=4, use_cache=False, **how)
    if positions in DISTANCE:
        long = [[5] * 40]
        assert len(generate(model, long, 3, window=4, **how)[0]) == 43
        with pytest.raises(ValueError, match="prompts\\[0\\]: expected 1 to 24 tokens, got 40"):
            generate(model, long, 3, **how)


def test_memory_of_a_window_stays_small_and_no_key_is_copied_at_each_step():
    layer, blocks = LayerCache(window=5), set()
    for step in range(200):
        k = torch.full((1, 1, 1, 1), float(step))
        got, _ = layer.update(k, k)
        assert got.flatten().tolist() == [float(i) for i in range(max(0, step - 4), step + 1)]
        blocks.add(layer.blocks[0].data_ptr())
        assert layer.blocks[0].shape[2] <= 10
    grown, moves = LayerCache(), 0
    for step in range(1000):
        before = grown.blocks
        grown.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
        moves += grown.blocks is not before
    assert moves <= 10


def test_a_cache_can_be_trained_through():
    model = language_model(0, "rotary").eval()
    tokens = torch.randint(4, 23, (2, 9))
    cache = KVCache(2)
    pieces = torch.cat([model(t, cache) for t in tokens.split([4, 1, 1, 3], dim=1)], dim=1)
    grads = [
        torch.autograd.grad(out.square().sum(), list(model.parameters()))
        for out in (pieces, model(tokens))
    ]
    for mine, theirs in zip(*grads):
        assert_close(mine, theirs)


def test_reorder_repeats_drops_and_swaps_rows():
    model = language_model(0, "alibi", n_kv_heads=2).eval()
    tokens, rows = torch.randint(4, 23, (3, 6)), torch.tensor([2, 0, 0, 2, 1])
    for window in (None, 3):
        cache = KVCache(2, window)
        with torch.no_grad():
            mask = None if window is None else sliding_window_mask(6, window)
            model(tokens, cache, mask)
            cache.reorder(rows)
            new = torch.randint(4, 23, (5, 1))
            got = model(new, cache)
            text = torch.cat([tokens[rows], new], dim=1)
            want = model(text, mask=None if window is None else sliding_window_mask(7, window))[
                :, -1:
            ]
        assert_close(got, want)


def test_mode_and_gradients_are_the_callers_between_two_tokens():
    model = language_model().train()
    columns = stream(model, [[5], [6, 7]], 4, eos_token_ids=None)
    for column in columns:
        assert model.training and torch.is_grad_enabled() and column.shape == (2,)
    model.eval()
    assert len(list(stream(model, [[5]], 4, eos_token_ids=None))) == 4 and not model.training


def test_stream_gives_the_columns_of_generate():
    model, prompts = language_model(), torch.tensor([[5, 6], [7, 8], [9, 10]])
    whole = generate(model, prompts, 9, seed=1)
    assert torch.equal(torch.stack(list(stream(model, prompts, 9, seed=1)), dim=1), whole[:, 2:])
    for row in whole[:, 2:].tolist():
        end = row.index(EOS) if EOS in row else len(row)
        assert not set(row[:end]) & {PAD, BOS, EOS, UNK} and not any(row[end + 1 :])


def test_a_generator_can_stand_for_a_seed():
    model, prompts = language_model(), [[5, 6], [7, 8, 9]]
    first, second = (
        generate(model, prompts, 9, seed=torch.Generator().manual_seed(3), eos_token_ids=None)
        for _ in range(2)
    )
    assert (
        first
        == second
        != generate(model, prompts, 9, seed=torch.Generator().manual_seed(4), eos_token_ids=None)
    )


@pytest.mark.parametrize(
    "backend",
    [
        "aot_eager",
        pytest.param(
            "inductor", marks=pytest.mark.skipif(not LONG, reason="a minute: set FORMER_NB_CASES")
        ),
    ],
)
def test_compiled_gives_the_same_tokens(backend):
    model = language_model(0, "rotary", n_kv_heads=2, n_layers=1)
    torch._dynamo.reset()
    compiled, prompts = torch.compile(model, backend=backend), [[5, 6, 7], [8, 9]]
    for how in (dict(temperature=0), dict(seed=1), *[dict(seed=1, window=4)] * LONG):
        for keep in (True, False) if LONG else (True,):
            assert generate(
                compiled, prompts, 8, use_cache=keep, eos_token_ids=None, **how
            ) == generate(model, prompts, 8, eos_token_ids=None, **how)
    torch._dynamo.reset()


# ------------------------------------------------------------------ filters


def kept_by_hand(p, top_k, top_p, min_p):
    "The numbers that are kept, one by one, in double precision."
    order = sorted(range(len(p)), key=lambda i: (-p[i], i))
    kept, before = set(), 0.0
    for rank, i in enumerate(order):
        if (
            (top_k is None or rank < top_k)
            and (top_p is None or before < top_p)
            and (min_p is None or p[i] >= min_p * p[order[0]])
        ):
            kept.add(i)
        before += p[i]
    return kept


def test_filters_equal_the_loop():
    draw = random.Random(0)
    for seed in range(300):
        logits = 2 * torch.randn(
            17, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
        )
        how = (
            draw.choice([None, 1, 4, 99]),
            draw.choice([None, 0.01, 0.3, 0.77, 0.98]),
            draw.choice([None, 0.03, 0.2, 0.9]),
        )
        want = kept_by_hand(logits.softmax(-1).tolist(), *how)
        got = filter_logits(logits.expand(2, 3, 17), *how)
        assert got.isfinite().nonzero()[:, 2].unique().tolist() == sorted(want), how
        assert torch.equal(got[got.isfinite()], logits.expand(2, 3, 17)[got.isfinite()])


def test_nothing_is_lost_where_a_filter_is_open():
    for V in (3, 1000, 50_000):
        logits = 3 * torch.randn(2, V, generator=torch.Generator().manual_seed(V))
        for how in (dict(top_p=1), dict(top_p=1.0, top_k=V), dict(min_p=0), dict(top_k=V + 1), {}):
            assert torch.equal(filter_logits(logits, **how), logits)
        assert filter_logits(logits, top_p=1 - 1e-12).isfinite().sum() >= 2 * V - V // 10


def test_one_token_is_always_left():
    for logits in (
        torch.zeros(2, 7),
        torch.tensor([[-INF, -INF, 4.0]]),
        torch.randn(3, 11).half(),
        torch.tensor([[1e30, -1e30, 0.0]]),
    ):
        for how in (
            dict(top_k=1),
            dict(top_p=1e-300),
            dict(top_p=1e-9, top_k=1, min_p=1.0),
            dict(top_p=1e-9),
        ):
            left = filter_logits(logits, **how).isfinite()
            assert (left.sum(-1) == 1).all() and left.gather(
                -1, logits.argmax(-1, keepdim=True)
            ).all()


def test_ties_go_to_the_first():
    tied = torch.tensor([1.0, 2.0, 2.0, 2.0, 0.0])
    assert filter_logits(tied, top_k=2).isfinite().tolist() == [False, True, True, False, False]
    assert filter_logits(tied, top_p=0.5).isfinite().tolist() == [False, True, True, False, False]
    assert filter_logits(tied, min_p=1).isfinite().tolist() == [False, True, True, True, False]


def test_one_filter_at_a_time_equals_hugging_faces():
    process = pytest.importorskip("transformers.generation.logits_process")
    logits = 2 * torch.randn(4, 60, generator=torch.Generator().manual_seed(0))
    seen = torch.randint(0, 60, (4, 9), generator=torch.Generator().manual_seed(1))
    for k in (1, 5, 80):
        assert_close(filter_logits(logits, top_k=k), process.TopKLogitsWarper(k)(None, logits))
    for p in (0.1, 0.5, 0.93):
        assert_close(filter_logits(logits, top_p=p), process.TopPLogitsWarper(p)(None, logits))
    for p in (0.01, 0.2, 0.9):
        assert_close(filter_logits(logits, min_p=p), process.MinPLogitsWarper(p)(None, logits))
    for penalty in (0.7, 1.0, 1.4):
        assert_close(
            apply_repetition_penalty(logits, seen, penalty),
            process.RepetitionPenaltyLogitsProcessor(penalty)(seen, logits),
        )


@pytest.mark.parametrize(
    "how",
    [
        dict(),
        dict(temperature=0.5, top_p=0.8),
        dict(temperature=2, min_p=0.3),
        dict(top_k=2, top_p=0.99),
    ],
    ids=str,
)
def test_draws_follow_the_filtered_softmax(how):
    logits = torch.tensor([0.4, -1.0, 1.5, 0.0, 2.0])
    filters = {name: value for name, value in how.items() if name != "temperature"}
    expected = 20_000 * filter_logits(logits / how.get("temperature", 1), **filters).softmax(-1)
    seen = sample_next(
        logits.expand(20_000, 5), **how, generator=torch.Generator().manual_seed(0)
    ).bincount(minlength=5)
    assert not seen[expected == 0].any()
    assert ((seen - expected) ** 2 / expected)[expected > 0].sum() < 40


# ------------------------------------------------------------------ bad input

MODEL = language_model(0)
CAN = [[5, 6], [7]]
BAD_SETTINGS = [
    (dict(temperature=-0.1), "temperature: expected a number of 0 or more, got -0.1"),
    (dict(temperature=NAN), "temperature: expected a number of 0 or more, got nan"),
    (dict(temperature=INF), "temperature: expected a number of 0 or more, got inf"),
    (dict(temperature="1"), "temperature: expected a number of 0 or more, got '1'"),
    (dict(top_k=0), "top_k: expected a whole number above 0, got 0"),
    (dict(top_k=1.5), "top_k: expected a whole number above 0, got 1.5"),
    (dict(top_p=0), "top_p: expected a number above 0, at most 1, got 0"),
    (dict(top_p=1.01), "top_p: expected a number above 0, at most 1, got 1.01"),
    (dict(top_p=NAN), "top_p: expected a number above 0, at most 1, got nan"),
    (dict(min_p=-0.1), "min_p: expected a number from 0 to 1, got -0.1"),
    (dict(min_p=1.1), "min_p: expected a number from 0 to 1, got 1.1"),
    (dict(min_p=NAN), "min_p: expected a number from 0 to 1, got nan"),
    (dict(repetition_penalty=0), "repetition_penalty: expected a number above 0, got 0"),
    (dict(repetition_penalty=NAN), "repetition_penalty: expected a number above 0, got nan"),
    (dict(window=0), "window: expected a whole number of 1 or more, got 0"),
    (dict(seed=-1), "seed: expected a whole number of 0 or more, got -1"),
    (dict(seed=1.5), "seed: expected a whole number of 0 or more, got 1.5"),
    (dict(eos_token_ids=99), "eos_token_ids: expected tokens from 0 to 22, got 99"),
    (dict(eos_token_ids=(2, "a")), "eos_token_ids: expected tokens from 0 to 22, got 'a'"),
    (
        dict(suppress_tokens=range(23)),
        "suppress_tokens: expected to leave at least one of 23 tokens",
    ),
]
BAD_PROMPTS = [
    ([], "prompts: expected at least one row, got none"),
    (torch.zeros(0, 3, dtype=torch.int64), "prompts: expected at least one row, got none"),
    (torch.zeros(3, 0, dtype=torch.int64), "prompts[0]: expected 1 to 24 tokens, got 0"),
    ([[5], []], "prompts[1]: expected 1 to 24 tokens, got 0"),
    ([[5], [5] * 25], "prompts[1]: expected 1 to 24 tokens, got 25"),
    ([[5], [23]], "prompts[1]: expected numbers from 0 to 22, got 23 to 23"),
    ([[5], [6, -1]], "prompts[1]: expected numbers from 0 to 22, got -1 to 6"),
    ([[5, 6], [PAD, PAD]], "prompts[1]: expected tokens without padding, got 0 (PAD)"),
    (torch.tensor([[5, 6], [5, PAD]]), "prompts[1]: expected tokens without padding, got 0 (PAD)"),
    ([[5, 6.0]], "prompts[0]: expected a list of integers, got [5, 6.0]"),
    ([5, 6], "prompts[0]: expected a list of integers, got 5"),
    ("Jo", "prompts: expected a tensor or a list of lists of integers, got str"),
    (None, "prompts: expected a tensor or a list of lists of integers, got NoneType"),
    (
        torch.tensor([5, 6]),
        "prompts: expected integers of shape (B, T), got torch.int64 of shape (2,)",
    ),
    (
        torch.ones(2, 3),
        "prompts: expected integers of shape (B, T), got torch.float32 of shape (2, 3)",
    ),
]


class Idle(torch.nn.Module):
    "A model that says so if it is asked to work."

    def __init__(self):
        super().__init__()
        self.config, self.weight = MODEL.config, torch.nn.Parameter(torch.zeros(1))

    def forward(self, *args, **kwargs):
        raise AssertionError("the model was run before the input was checked")


def refusal(call):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("how", "words"), BAD_SETTINGS, ids=str)
def test_bad_settings_are_named_before_any_work(how, words):
    assert refusal(lambda: generate(Idle(), CAN, 3, **how)).startswith(words)
    assert refusal(lambda: stream(Idle(), CAN, 3, **how)).startswith(
        words
    )  # not only when the first token is asked for


@pytest.mark.parametrize(("prompts", "words"), BAD_PROMPTS, ids=str)
def test_bad_prompts_are_named_before_any_work(prompts, words):
    assert refusal(lambda: generate(Idle(), prompts, 3)).startswith(words)


@pytest.mark.parametrize("most", [-1, 2.5, True, None, "3"])
def test_a_bad_maximum_is_named(most):
    assert refusal(lambda: generate(Idle(), CAN, most)).startswith(
        "max_new_tokens: expected a whole number of 0 or more"
    )


def test_the_edges_are_defined():
    assert generate(MODEL, CAN, 0) == CAN
    assert (
        generate(MODEL, CAN, 3, top_k=10**6, seed=0)
        == generate(MODEL, CAN, 3, top_p=1, min_p=0, seed=0)
        == generate(MODEL, CAN, 3, seed=0)
    )
    assert (
        generate(MODEL, CAN, 3, temperature=1e-30)
        == generate(MODEL, CAN, 3, temperature=0)
        == generate(MODEL, CAN, 3, top_k=1, seed=0)
    )
    assert generate(MODEL, CAN, 3, top_p=1e-9, seed=0) == generate(MODEL, CAN, 3, temperature=0)
    assert generate(MODEL, [[5] * 24], 9, eos_token_ids=None, seed=0)[0][:24] == [5] * 24
    assert len(generate(MODEL, [[5] * 24, [5]], 99, eos_token_ids=None, seed=0)[1]) == 25
    assert generate(MODEL, [torch.tensor([5, 6]), (7,)], 3, temperature=0) == generate(
        MODEL, CAN, 3, temperature=0
    )
    assert generate(MODEL, CAN, 3, eos_token_ids=(), seed=0) == generate(
        MODEL, CAN, 3, eos_token_ids=None, seed=0
    )
    assert generate(MODEL, torch.tensor([[5, 6]]), 3, temperature=0).tolist() == generate(
        MODEL, [[5, 6]], 3, temperature=0
    )


def test_a_vocabulary_smaller_than_the_special_tokens():
    tiny = language_model(0, V=3)  # nothing but the end can be drawn
    assert generate(tiny, [[BOS]], 5) == [[BOS, EOS]] == [beam_search(tiny, [BOS], 2, 5)[0][0]]


def test_nan_logits_are_named():
    broken = language_model(0)
    with torch.no_grad():
        broken.embed.weight[7] = NAN
    with pytest.raises(ValueError, match="logits: expected numbers"):
        generate(broken, CAN, 3)
    with pytest.raises(ValueError, match="logits: expected numbers"):
        beam_search(broken, [5, 7], 2, 3)


# ------------------------------------------------------------------ text

LETTERS = CharTokenizer("abcdefghijklmnopqrs")


def test_text_is_streamed_as_it_is_written():
    for seed in range(5):
        pieces = list(stream_text(MODEL, LETTERS, "ab", seed=seed, top_p=0.9))
        assert "ab" + "".join(pieces) == generate_text(MODEL, LETTERS, "ab", seed=seed, top_p=0.9)[
            0
        ] and all(pieces)


def test_pieces_of_text_end_with_whole_characters():
    bytewise = SubwordTokenizer([])
    model = language_model(0, V=bytewise.vocab_size, max_len=60)
    for seed in range(20):  # bytes at random, most of them no UTF-8
        pieces = list(stream_text(model, bytewise, "Eglė", 40, seed=seed, temperature=2.0))
        assert (
            "Eglė" + "".join(pieces)
            == generate_text(model, bytewise, "Eglė", 1, 2.0, None, seed, 40)[0]
        )
    from former_nb.decoding import _pieces

    text = "Ž🙂 ė € \u0301x"
    pieces = list(_pieces(bytewise, torch.tensor(bytewise.encode(text))[:, None]))
    assert "".join(pieces) == bytewise.normalise(text) and not any(
        "\ufffd" in piece for piece in pieces
    )


def test_bad_text_is_named():
    assert refusal(lambda: generate_text(MODEL, LETTERS, "aZ")).startswith(
        "prompt: the model has never seen 'Z'"
    )
    assert refusal(lambda: stream_text(MODEL, LETTERS, "aZ")).startswith(
        "prompt: the model has never seen 'Z'"
    )
    assert refusal(lambda: generate_text(MODEL, LETTERS, "a" * 24)).startswith(
        "prompt: expected at most 23 tokens, got 24"
    )
    assert refusal(lambda: generate_text(MODEL, LETTERS, n=0)).startswith(
        "n: expected a whole number above 0, got 0"
    )
    assert refusal(lambda: generate_text(MODEL, LETTERS, top_p=0)).startswith("top_p: expected")
    with pytest.raises(TypeError, match="top_q"):
        generate_text(MODEL, LETTERS, top_q=0.5)


# ------------------------------------------------------------------ beams


def every_text(model, prompt, most, **kwargs):
    "All texts that can be written, ranked."
    found = []

    def grow(row, total, n):
        logits = model(torch.tensor([row]))[0, -1].clone()
        logits[[t for t in (PAD, BOS, UNK) if t < len(logits)]] = -INF
        for token, logp in enumerate(logits.log_softmax(-1).tolist()):
            if logp > -INF:
                text = [*row, token]
                if token == EOS or n + 1 == most:
                    found.append((text, length_score(total + logp, n + 1, **kwargs)))
                else:
                    grow(text, total + logp, n + 1)

    with eval_mode(model), torch.no_grad():
        grow(prompt, 0.0, 0)
    return sorted(found, key=lambda pair: -pair[1])


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0, 0.6, 1, 2])
def test_beams_enough_equal_exhaustive_search(convention, length_penalty):
    for seed in range(4):
        model = language_model(seed, SCHEMES[seed], V=5 + seed)
        how = dict(length_penalty=length_penalty, convention=convention)
        for most in (1, 3, 4 if seed < 3 else 2):
            want = every_text(model, [4, 4], most, **how)[:4]
            got = beam_search(model, [4, 4], 400, most, num_return_sequences=4, **how)
            assert [text for text, _ in got] == [text for text, _ in want]
            assert_close(
                [score for _, score in got], [score for _, score in want], rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize("positions", SCHEMES)
def test_one_beam_is_greedy(positions):
    for seed in range(6):
        model = language_model(seed, positions, n_kv_heads=2)
        prompts = torch.randint(4, 23, (3, 2)).tolist()
        greedy = generate(model, prompts, 12, temperature=0)
        for how in (dict(length_penalty=0), dict(), dict(convention="gnmt", length_penalty=0.6)):
            assert [best[0][0] for best in beam_search(model, prompts, 1, 12, **how)] == greedy


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0, 0.6, 1, 3])
def test_stopping_early_batching_and_the_cache_change_nothing(convention, length_penalty):
    calls = [0, 0]
    for seed in range(8):
        model = language_model(seed, SCHEMES[seed % 5], n_kv_heads=[1, 2, 4][seed % 3], loud=0.2)
        prompts = torch.randint(4, 23, (3, 3)).tolist()
        how = dict(
            length_penalty=length_penalty, convention=convention, num_return_sequences=1 + seed % 2
        )
        model.register_forward_pre_hook(lambda *_: calls.__setitem__(early, calls[early] + 1))
        early = 1
        best = beam_search(model, prompts, 3, 9, **how)
        early = 0
        to_the_end = beam_search(model, prompts, 3, 9, early_stop=False, **how)
        assert best == to_the_end
        again, single = (
            beam_search(model, prompts, 3, 9, use_cache=False, **how),
            [beam_search(model, p, 3, 9, **how) for p in prompts],
        )
        for other in (again, single):
            assert [[text for text, _ in texts] for texts in other] == [
                [text for text, _ in texts] for texts in best
            ]
    assert calls[1] <= calls[0]


def test_two_conventions_rank_differently():
    a, b = (-3.0, 3), (-4.2, 6)
    assert length_score(*a, 0) > length_score(*b, 0)
    assert all(
        length_score(*a, alpha, "gnmt") > length_score(*b, alpha, "gnmt") for alpha in (0.2, 0.6, 1)
    )
    assert length_score(*a) < length_score(*b) and length_score(*a, 2, "gnmt") < length_score(
        *b, 2, "gnmt"
    )


def test_any_callable_can_be_searched():
    table = torch.randn(9, 9, generator=torch.Generator().manual_seed(0))
    best = beam_search(
        lambda tokens, cache: table[tokens], [4], 3, 5, use_cache=False, num_return_sequences=3
    )
    assert len(best) == 3 and [score for _, score in best] == sorted(
        (score for _, score in best), reverse=True
    )

    class Counting:
        "A cache that remembers what each row has read, and is told which row goes on where."

        def __init__(self):
            self.read, self.orders = None, 0

        def reorder(self, rows):
            self.read, self.orders = self.read[rows], self.orders + 1

    def sums(tokens, cache):  # each step sees the sum of all tokens read
        if cache is None:
            total = tokens.cumsum(1)
        else:
            total = tokens.cumsum(1) if cache.read is None else cache.read[:, None] + tokens
            cache.read = total[:, -1]
        return table[total % 9]

    cache = Counting()
    assert (
        beam_search(sums, [4], 3, 5, cache=cache) == beam_search(sums, [4], 3, 5, use_cache=False)
        and cache.orders
    )


BAD_BEAMS = [
    (dict(num_beams=0), "num_beams: expected a whole number of 1 or more, got 0"),
    (dict(num_return_sequences=3), "num_return_sequences: expected at most beams = 2, got 3"),
    (dict(max_new_tokens=0), "max_new_tokens: expected a whole number of 1 or more, got 0"),
    (dict(convention="sum"), "convention: expected 'mean' or 'gnmt', got 'sum'"),
    (dict(length_penalty=-1), "length_penalty: expected a number of 0 or more, got -1"),
    (dict(length_penalty=NAN), "length_penalty: expected a number of 0 or more, got nan"),
    (dict(prompt=[]), "prompt: expected a tensor or a list of integers"),
    (dict(prompt=[[5], [5, 6]]), "prompt: expected rows of one length"),
    (dict(prompt=[5, 99]), "prompts[0]: expected numbers from 0 to 22"),
    (dict(prompt=[5.0]), "prompt: expected integers"),
    (dict(eos_token_ids=99), "eos_token_ids: expected tokens from 0 to 22, got 99"),
    (
        dict(suppress_tokens=range(23)),
        "suppress_tokens: expected to leave at least one of 23 tokens",
    ),
]


@pytest.mark.parametrize(("how", "words"), BAD_BEAMS, ids=str)
def test_bad_searches_are_named_before_any_work(how, words):
    how = dict(prompt=[5, 6], num_beams=2, max_new_tokens=3) | how
    assert refusal(lambda: beam_search(Idle(), **how)).startswith(words)


def test_a_model_without_a_config_needs_a_cache_or_none():
    assert refusal(lambda: beam_search(lambda tokens, cache: None, [5], 2, 3)).startswith(
        "cache: expected an empty cache with `reorder`"
    )
