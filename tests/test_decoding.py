"""The loop of lesson 11 writes the same with every cache, and refuses what it can't read."""

from functools import partial
from itertools import islice

import pytest
import torch
from decoding_tools import (
    COMPILED,
    CPU,
    MODEL,
    NEW,
    SCHEMES,
    around,
    by_hand,
    compiled,
    goes_on,
    language_model,
    loop,
    the_lessons,
    used,
    with_notes,
)
from refusals import refuses

from former_nb.attention.fused import attention
from former_nb.base.core import eval_mode
from former_nb.data.text import BOS, PAD, UNK
from former_nb.decoding import caches, decoding
from former_nb.decoding.caches import KVCache, LayerCache, SlidingWindow, next_tokens
from former_nb.decoding.decoding import greedy
from former_nb.decoding.fast_copy import fast_copy
from former_nb.decoding.sampling import Sampling, SeededSample, without_tokens

LESSON = {  # each refuses a text that the model can't read
    "lesson 11": lambda m, p, n: loop(m, p, n),
    "lesson 11 with a cache": lambda m, p, n: loop(m, p, n, cache=KVCache(2)),
    "lesson 11 with layers": lambda m, p, n: loop(m, p, n, cache=[LayerCache(), LayerCache()]),
    "lesson 11 with its layers": lambda m, p, n: loop(m, p, n, cache=the_lessons(2)),
    "lesson 11 with functions": lambda m, p, n: loop(m, p, n, cache=around(the_lessons(2))),
    "lesson 11, fast copy": lambda m, p, n: loop(fast_copy(m), p, n, cache=KVCache(2)),
    "lesson 11, compiled": lambda m, p, n: loop(compiled(m), p, n),
}
LESSON_WINDOWED = {  # the same, where every layer sees the last four tokens
    "lesson 11 with a window": lambda m, p, n: loop(m, p, n, cache=KVCache(2, 4)),
}

OF_THE_LESSON = [
    (positions, way)
    for positions in SCHEMES
    for way in [*LESSON, *LESSON_WINDOWED]
    if positions in COMPILED or "compiled" not in way
]


@pytest.mark.parametrize("positions, way", OF_THE_LESSON)
def test_the_loop_of_the_lesson_writes_within_the_context_and_refuses_what_is_beyond(
    positions, way
):
    model = language_model(0, positions, max_len=16).eval()
    prompts = torch.randint(4, 23, (1, 8), generator=torch.Generator().manual_seed(0))
    is_windowed = way in LESSON_WINDOWED
    far = goes_on(positions, is_windowed)
    write = (LESSON | LESSON_WINDOWED)[way]
    window = 4 if is_windowed else None
    n = NEW if far else 9
    found, notes = with_notes(lambda: write(model, prompts, n))
    assert found.equal(by_hand(model, prompts, window, n)) and not notes
    if not far:
        refuses(lambda: write(model, prompts, 10), ValueError, "max_new_tokens", "10")
    unknown = loop(lambda *args: model(*args), prompts, 9, cache=KVCache(2, window))
    assert unknown.equal(by_hand(model, prompts, window, 9))


def write(model, prompts, most, pick, cache=None):
    "The loop of lesson 11 for prompts of one length, in eval mode."
    with eval_mode(model):
        return decoding.generate(model, torch.tensor(prompts), most, pick, cache)


@pytest.mark.parametrize("positions", SCHEMES)
def test_the_loop_of_the_lesson_writes_the_same_with_a_cache_and_without(positions):
    model, prompts = language_model(0, positions), [[5, 6, 7], [8, 9, 10]]
    never = torch.tensor([PAD, BOS, UNK])
    for make in (lambda: greedy, lambda: SeededSample(3, prompts, CPU)):
        texts = write(model, prompts, 9, make())
        assert write(model, prompts, 9, make(), KVCache(2)).equal(texts)
        rows = caches.generate(model, prompts, 9, without_tokens(make(), never))
        assert rows == write(model, prompts, 9, without_tokens(make(), never)).tolist()
    with eval_mode(model), torch.no_grad():
        looking = partial(model, attend=SlidingWindow(3))
        near = torch.tensor(prompts)
        for new in islice(next_tokens(looking, near), 9):
            near = torch.cat([near, new[:, None]], dim=1)
    assert near.equal(write(model, prompts, 9, greedy, KVCache(2, 3)))


BAD_WRITING = [
    (dict(model=None), TypeError, "model", "None"),
    (dict(prompts=[[5, 6]]), TypeError, "prompts", "list"),
    (dict(prompts=torch.zeros(2, 0, dtype=torch.int64)), ValueError, "prompts", "(2, 0)"),
    (dict(max_new_tokens=-1), ValueError, "max_new_tokens", "-1"),
    (dict(pick=Sampling()), TypeError, "pick", "Sampling"),
    (dict(cache=attention), TypeError, "cache", "function"),
    (dict(cache=[attention, None]), TypeError, "cache", "None"),
    (dict(cache=used(KVCache(2))), ValueError, "cache", "one with 3 tokens"),
    (dict(cache=used(the_lessons(2))), ValueError, "cache", "one with 3 tokens"),
    (dict(model=lambda *args: None), ValueError, "cache", "None"),
    (dict(prompts=torch.full((1, 25), 5)), ValueError, "prompts", "25"),
    (dict(max_new_tokens=24), ValueError, "max_new_tokens", "24"),
]


@pytest.mark.parametrize("row", BAD_WRITING, ids=range(len(BAD_WRITING)))
def test_what_the_loop_of_the_lesson_cannot_use_is_named(row):
    how = dict(model=MODEL, prompts=torch.tensor([[5, 6]]), max_new_tokens=2) | row[0]
    refuses(lambda: decoding.generate(**how), *row[1:])
