"""Beams find what exhaustive search finds; batching and the cache change nothing."""

import math

import pytest
import torch
from decoding_tools import (
    INF,
    NAN,
    SCHEMES,
    Idle,
    WithOwnConfig,
    fed_again,
    generate,
    language_model,
    used,
)
from refusals import refuses
from torch.testing import assert_close

from former_nb.base.core import eval_mode
from former_nb.data.text import BOS, EOS, PAD, UNK
from former_nb.decoding.beam_search import beam_search, length_score
from former_nb.decoding.caches import KVCache


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


def texts_of(best):
    return [text for text, _ in best]


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0, 0.6, 2])
def test_beams_enough_equal_exhaustive_search(convention, length_penalty):
    how = dict(length_penalty=length_penalty, convention=convention)
    for seed, V, most in ((0, 5, 3), (1, 6, 4), (2, 7, 1)):
        model = language_model(seed, SCHEMES[seed], V=V)
        want = every_text(model, [4, 4], most, **how)[:4]
        got = beam_search(model, [4, 4], 400, most, num_return_sequences=4, **how)
        assert texts_of(got) == texts_of(want)
        assert_close([x for _, x in got], [x for _, x in want], rtol=1e-5, atol=1e-5)


def test_a_certain_model_is_not_cut_off_by_fragments():
    "Three texts have finished long before the right one, and each is a thousand times less likely."
    right = [5, 6, 7, 8, 9, 5, 6, 7, EOS]

    def model(tokens):  # nearly sure of the right token, else of the end
        logits = torch.zeros(len(tokens), tokens.shape[1], 10)
        logits[:, -1, EOS] = 2.0
        logits[:, -1, right[tokens.shape[1] - 1]] = 9.0
        return logits

    for num_beams in (1, 3, 5):
        [(text, _)] = beam_search(model, [BOS], num_beams, 20)
        assert text == [BOS, *right]


def table_model(rows, V=10):
    "A function whose next token depends on the last one: token -> probability."

    def model(tokens):
        p = torch.full((len(tokens), 1, V), 1e-9)
        for row, last in zip(p[:, 0], tokens[:, -1].tolist()):
            for token, share in rows.get(last, {}).items():
                row[token] = share
        return p.log()

    return model


def test_candidates_that_end_leave_room_for_as_many_that_go_on():
    "Of six candidates the middle four end, and the last of them begins the best text."
    rows = {4: {5: 0.5, 6: 0.4, 0: 0.1}, 5: {7: 0.5, 2: 0.25, 3: 0.2, 0: 0.05}}
    rows |= {6: {2: 0.3, 3: 0.24, 9: 0.2, 0: 0.13, 1: 0.13}, 9: {2: 0.97, 0: 0.03}}
    rows |= {7: dict.fromkeys(range(10), 0.1)}
    how = dict(eos_token_ids=(2, 3), suppress_tokens=(), length_penalty=2)
    [(text, score)] = beam_search(table_model(rows), [4], 2, 3, **how)
    assert text == [4, 6, 9, 2]
    assert_close(score, math.log(0.4 * 0.2 * 0.97) / 9, rtol=0, atol=1e-5)


def test_a_longer_text_may_overtake_one_that_is_finished():
    "Behind after one token, ahead after two: a text that grows is bounded by its greatest length."
    model = table_model({4: {2: 0.6, 5: 0.4}, 5: {2: 0.99, 0: 0.01}})
    [(text, _)] = beam_search(model, [4], 2, 3, suppress_tokens=())
    assert text == [4, 5, 2]


def test_the_constants_of_the_score_are_those_of_the_paper():
    assert length_score(-6.0, 7, 1, "gnmt") == -3  # (5 + 7) / 6 = 2
    assert length_score(-6.0, 19, 0.5, "gnmt") == -3  # the root of (5 + 19) / 6
    assert length_score(-6.0, 1, 3, "gnmt") == -6 and length_score(-6.0, 4, 0.5, "mean") == -3


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_is_greedy(seed):
    model = language_model(seed, SCHEMES[seed], n_kv_heads=2)
    prompts = torch.randint(4, 23, (3, 2))
    greedy = generate(model, prompts.tolist(), 12, temperature=0)
    for how in (dict(length_penalty=0), dict(convention="gnmt", length_penalty=0.6)):
        assert [best[0][0] for best in beam_search(model, prompts, 1, 12, **how)] == greedy


@pytest.mark.parametrize("convention", ["mean", "gnmt"])
@pytest.mark.parametrize("length_penalty", [0, 0.6, 3])
def test_batching_and_the_cache_change_nothing(convention, length_penalty):
    for seed in range(3):
        model = language_model(seed, SCHEMES[seed + 2], n_kv_heads=[1, 2, 4][seed], loud=0.2)
        prompts, wanted = torch.randint(4, 23, (3, 3)).tolist(), 1 + seed % 2
        how = dict(length_penalty=length_penalty, convention=convention)
        how |= dict(num_return_sequences=wanted)
        best = list(map(texts_of, beam_search(model, prompts, 3, 9, **how)))
        again = beam_search(fed_again(model), prompts, 3, 9, **how)
        single = [beam_search(model, p, 3, 9, **how) for p in prompts]
        assert list(map(texts_of, again)) == best == list(map(texts_of, single))


def test_two_conventions_rank_differently():
    a, b = (-3.0, 3), (-4.2, 6)
    for rule in ((0,), (0.2, "gnmt"), (0.6, "gnmt"), (1, "gnmt")):
        assert length_score(*a, *rule) > length_score(*b, *rule)
    assert length_score(*a) < length_score(*b)
    assert length_score(*a, 2, "gnmt") < length_score(*b, 2, "gnmt")


def test_a_model_with_any_configuration_can_be_searched():
    for model in (WithOwnConfig(), WithOwnConfig().forward):
        assert beam_search(model, [5], 1, 3)[0][0] == [5, 6, 7, 8]


def test_any_callable_can_be_searched():
    table = torch.randn(9, 9, generator=torch.Generator().manual_seed(0))
    plain, how = table.clone(), dict(num_return_sequences=3)
    best = beam_search(lambda tokens: table[tokens], [4], 3, 5, **how)
    assert len(best) == 3 and [x for _, x in best] == sorted((x for _, x in best), reverse=True)

    class Counting:
        "A cache that knows what each row has read, and is told which row goes on where."

        def __init__(self):
            self.read, self.orders = None, 0

        def reorder(self, rows):
            self.read, self.orders = self.read[rows], self.orders + 1

    def sums(tokens, cache=None, positions=None):  # each step sees the sum of all tokens read
        if cache is None:
            total = tokens.cumsum(1)
        else:
            total = tokens.cumsum(1) if cache.read is None else cache.read[:, None] + tokens
            cache.read = total[:, -1]
        return table[total % 9]

    cache = Counting()
    kept = beam_search(sums, [4], 3, 5, cache=cache)
    assert kept == beam_search(sums, [4], 3, 5) and cache.orders
    beam_search(lambda tokens: table[None, tokens[0]], [4], 1, 5)
    assert torch.equal(table, plain)  # what a model hands out is its own


BAD_BEAMS = [
    (dict(num_beams=0), ValueError, "num_beams", "0"),
    (dict(num_return_sequences=3), ValueError, "num_beams", "2"),
    (dict(max_new_tokens=0), ValueError, "max_new_tokens", "0"),
    (dict(convention="sum"), ValueError, "convention", "sum"),
    (dict(length_penalty=NAN), ValueError, "length_penalty", "nan"),
    (dict(prompts=[5, 99]), ValueError, "prompts[0]", "99"),
    (dict(prompts=iter([[5, 6], [7, 8]])), TypeError, "prompts", "iterator"),
    (dict(prompts=[[5], [5, 6]]), ValueError, "prompts", "[1, 2]"),
    (dict(eos_token_ids=99), ValueError, "eos_token_ids", "99"),
    (dict(suppress_tokens=["a"]), ValueError, "suppress_tokens", "a"),
    (dict(cache=used(KVCache(2))), ValueError, "cache", "one with 3 tokens"),
]


@pytest.mark.parametrize("row", BAD_BEAMS, ids=range(len(BAD_BEAMS)))
def test_bad_searches_are_named_before_any_work(row):
    how = dict(model=Idle(), prompts=[5, 6], num_beams=2, max_new_tokens=3) | row[0]
    refuses(lambda: beam_search(**how), *row[1:])


def test_a_bare_function_of_few_tokens():
    table = torch.tensor([[0.0, 2, 1], [1, 0, 3], [0, 1, 2]])
    search = lambda **how: beam_search(lambda tokens: table[tokens], [1], 1, 3, **how)
    refuses(search, ValueError, "suppress_tokens", "3")  # UNK is 3
    [(text, _)] = search(suppress_tokens=(), eos_token_ids=None)
    assert text == [1, 2, 2, 2]
