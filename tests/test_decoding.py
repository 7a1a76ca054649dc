"""Decoding: what is kept equals what is computed again, a batch equals its rows one by one, and bad
input costs one sentence.

40 random configurations, always the same ones, run with the other tests. A longer run, with new
ones each time, and a real compiler:

  FORMER_NB_CASES=1000 OMP_NUM_THREADS=1 pytest tests/test_decoding.py
"""

import math
import os
import random
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from itertools import islice

import pytest
import torch
from refusals import refuses
from torch.testing import assert_close

import former_nb
from former_nb.attention.fused import attention
from former_nb.attention.mask_patterns import masked_attention, sliding_window_mask
from former_nb.attention.relative_positions import ALiBi
from former_nb.base.core import eval_mode
from former_nb.data.text import BOS, EOS, PAD, UNK
from former_nb.data.tokenization import CharTokenizer, SubwordTokenizer
from former_nb.data.tokens import TextTokenizer
from former_nb.decoding import caches, decoding
from former_nb.decoding.beam_search import beam_search, length_score
from former_nb.decoding.caches import (
    KVCache,
    LayerCache,
    SlidingWindow,
    next_tokens,
)
from former_nb.decoding.decoding import greedy, sample
from former_nb.decoding.fast_copy import fast_copy
from former_nb.decoding.prompts import (
    append_columns,
    as_rows,
    check_prompts,
    encode_prompt,
    stop_tokens,
)
from former_nb.decoding.sampling import (
    Sampling,
    SeededSample,
    checked,
    with_min_p,
    with_temperature,
    with_top_k,
    with_top_p,
    without_tokens,
)
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.layers import Embedding, Stack, make_block
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 40))
FIRST = int(time.time()) if LONG else 0  # of the seeds
SCHEMES = list(POSITIONS)
NAN, INF = float("nan"), float("inf")
NAMES = {field.name for field in fields(Sampling)}


def sampled(call):
    "`call` with the settings of `Sampling` as keywords, and where none are given the usual stops."

    def asked(*args, **how):
        sampling = Sampling(**{name: how.pop(name) for name in NAMES & set(how)})
        return call(*args, pick=sampling, **(STOPS | how))

    return asked


STOPS = TextTokenizer.stops
generate, stream = sampled(caches.generate), sampled(caches.stream)
CPU = torch.device("cpu")


def keep(logits, **how):
    "The logits that are left by the filters."
    return Sampling(**how).filter(lambda left: left)(logits)


def pick_of(B, **how):
    "The pick that `Sampling` makes for B rows."
    return Sampling(**how).pick([[BOS]] * B, CPU)


def language_model(
    seed=0, positions="learned", V=23, max_len=24, loud=0.3, dtype=torch.float64, **kwargs
):
    "A model whose weights are large enough for its answers to differ from place to place."
    kwargs = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24, dropout=0.3) | kwargs
    torch.manual_seed(seed)
    model = LanguageModel.from_config(TransformerConfig(V, max_len, positions=positions, **kwargs))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, std=loud)
    return model.to(dtype)


def alone(model, prompts, most, seed=None, **how):
    "Each prompt by itself, with the seed that its row has in the batch."
    seeds = [None if seed is None else seed + i for i in range(len(prompts))]
    return [generate(model, [p], most, seed=own, **how)[0] for p, own in zip(prompts, seeds)]


def fed_again(model):
    "A function, which gets no cache: it reads everything at each step."
    return lambda tokens: model.eval()(tokens)


def random_case(seed):
    "A model, prompts, how many tokens, and settings, all from one number."
    draw = random.Random(seed)
    positions, window = draw.choice(SCHEMES), draw.choice([None, None, 1, 2, 5, 30])
    sizes = dict(n_kv_heads=[None, 2, 1], n_layers=[1, 2], norm_first=[True, False])
    sizes |= dict(activation=["relu", "gelu", "swiglu"], norm=["layer", "rms"])
    model = language_model(
        seed % 2**31, positions, **{name: draw.choice(some) for name, some in sizes.items()}
    )
    row = lambda: [draw.randint(4, 22) for _ in range(draw.randint(1, 8))]
    prompts = [row() for _ in range(draw.randint(1, 4))]
    how = dict(
        temperature=[0, 0.7, 1, 1.5],
        top_k=[None, 1, 5, 99],
        top_p=[None, 0.5, 0.9, 1],
        min_p=[None, 0, 0.1],
        seed=range(1000),
        eos_token_ids=[None, EOS, (5, 6, 7)],
    )
    how = {name: draw.choice(some) for name, some in how.items()}
    return model, prompts, draw.choice([1, 4, 12, 30]), how | dict(window=window)


# ---- kept = fed again = alone


@pytest.mark.parametrize("part", range(5))
def test_kept_equals_fed_again_equals_alone(part):
    for seed in range(FIRST + part, FIRST + CASES, 5):
        model, prompts, most, how = random_case(seed)
        kept = generate(model, prompts, most, **how)
        fits = all(len(row) <= model.config.max_len for row in kept)
        if how["window"] is None and fits:
            again = generate(fed_again(model), prompts, most, **how)
            assert kept == again, f"case {seed}: fed again gives something else"
        one_by_one = alone(model, prompts, most, **how)
        assert kept == one_by_one, f"case {seed}: one by one gives something else"
        assert all(row[: len(p)] == p and len(row) > len(p) for row, p in zip(kept, prompts))


# ---- caches


def under(window, T):
    "What a model attends by where it reads `T` tokens at once: its window is a mask."
    if window is None:
        return attention
    return masked_attention(sliding_window_mask(T, window))


@pytest.mark.parametrize("window", [None, 1, 2, 5])
@pytest.mark.parametrize("positions", SCHEMES)
@torch.no_grad()
def test_logits_through_the_cache_equal_the_whole_under_the_mask_of_its_window(positions, window):
    model = language_model(0, positions, n_kv_heads=2, n_layers=3).eval()
    tokens = torch.randint(4, 23, (2, 20))
    whole = model(tokens, under(window, 20))
    for sizes in ([20], [1] * 20, [6] + [1] * 14, [6, 5, 1, 8]):
        cache, found = KVCache(3, window), []
        for piece in tokens.split(sizes, dim=1):
            found.append(model(piece, cache, cache.positions(piece.shape[1])))
        assert_close(torch.cat(found, dim=1), whole)
        kept = 20 if window is None else max(sizes[-1] + window - 1, window)
        assert cache.length == 20 and all(layer.k.shape[2] <= kept for layer in cache)


# ---- the context: how far a text goes, whichever way it is written


NEW = 30  # tokens that are wanted behind 8, of a model with max_len = 16
FREE = dict(eos_token_ids=(), suppress_tokens=())


class Around(torch.nn.Module):
    "Hands everything on to a model, and says no more of it than the `config`, if any."

    def __init__(self, model, config=None):
        super().__init__()
        self.model = model
        self.config = config

    def forward(self, *args):
        return self.model(*args)


def streamed(model, prompts, **how):
    columns = caches.stream(model, prompts, NEW, **how)
    written = torch.cat([prompts, torch.tensor(list(columns)).T], dim=1)
    if columns.reason == "context":
        warnings.warn(columns.context.note(1, 1), stacklevel=1)
    return written


def beams(model, prompts, **how):
    [best] = beam_search(model, prompts, 1, NEW, **FREE, **how)
    return torch.tensor([text for text, _ in best])


def compiled(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="eager", dynamic=True)


def the_lessons(n_layers):
    "A cache as lesson 11 makes it."
    return [decoding.LayerCache() for _ in range(n_layers)]


def around(cache):
    "A plain function around each layer of a cache."
    return [lambda *args, layer=layer: layer(*args) for layer in cache]


loop, door = decoding.generate, caches.generate
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
PLAIN = {  # as the model reads by itself
    "generate": lambda m, p: door(m, p, NEW),
    "generate with a cache": lambda m, p: door(m, p, NEW, cache=KVCache(2)),
    "generate, fast copy": lambda m, p: door(fast_copy(m), p, NEW),
    "generate with layers": lambda m, p: door(m, p, NEW, cache=[LayerCache(), LayerCache()]),
    "generate with the lesson's layers": lambda m, p: door(m, p, NEW, cache=the_lessons(2)),
    "generate with functions": lambda m, p: door(m, p, NEW, cache=around(the_lessons(2))),
    "generate, compiled": lambda m, p: door(compiled(m), p, NEW),
    "generate, around": lambda m, p: door(Around(m, m.config), p, NEW),
    "stream": lambda m, p: streamed(m, p),
    "beams": lambda m, p: beams(m, p),
    "beams with a cache": lambda m, p: beams(m, p, cache=KVCache(2)),
}
WINDOWED = {  # every layer sees the last four tokens
    "generate with a window": lambda m, p: door(m, p, NEW, window=4),
    "generate with its cache": lambda m, p: door(m, p, NEW, cache=KVCache(2, 4)),
    "generate with a window, fast copy": lambda m, p: door(fast_copy(m), p, NEW, window=4),
    "stream with a window": lambda m, p: streamed(m, p, window=4),
    "beams with a window": lambda m, p: beams(m, p, cache=KVCache(2, 4)),
}
UNKNOWN = {  # of which nothing can be known
    "generate, lambda": lambda m, p: door(lambda tokens: m(tokens), p, NEW),
    "generate, module": lambda m, p: door(Around(m), p, NEW),
    "beams, lambda": lambda m, p: beams(lambda tokens: m(tokens), p),
}


@torch.no_grad()
def by_hand(model, prompts, window, n):
    "The likeliest token n times, all of the text read again for each."
    for _ in range(n):
        T = prompts.shape[1]
        new = model(prompts, under(window, T), torch.arange(T))[:, -1:].argmax(dim=-1)
        prompts = torch.cat([prompts, new], dim=1)
    return prompts


def with_notes(call):
    "What a call gives, and the warnings of it."
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        found = call()
    return found, [str(note.message) for note in notes]


COMPILED = ("rotary",)  # a compiled model costs seconds
EVERY_WAY = [
    (positions, way)
    for positions in SCHEMES
    for way in [*PLAIN, *WINDOWED, *UNKNOWN]
    if positions in COMPILED or "compiled" not in way
]


def goes_on(positions, windowed):
    "Whether a text with these positions grows beyond what the model was built for."
    return {"never": False, "window": windowed, "always": True}[POSITIONS[positions].beyond]


@pytest.mark.parametrize("positions, way", EVERY_WAY)
def test_every_way_writes_the_same_text_and_says_what_has_ended_it(positions, way):
    model = language_model(0, positions, max_len=16).eval()
    prompts = torch.randint(4, 23, (1, 8), generator=torch.Generator().manual_seed(0))
    further = way in WINDOWED or way in UNKNOWN  # no table of angles ends a function
    far = goes_on(positions, further)
    write = (PLAIN | WINDOWED | UNKNOWN)[way]
    if way in UNKNOWN and not far:
        refuses(lambda: write(model, prompts), ValueError, "", "17")  # the model's own words
        return
    found, notes = with_notes(lambda: write(model, prompts))
    window = 4 if way in WINDOWED else None
    assert found.equal(by_hand(model, prompts, window, 30 if far else 9))
    if far:
        assert not notes
    else:
        [note] = notes
        assert note.startswith("the context of 16 tokens ended the text")
        assert ("window=…" in note) == (positions == "rotary")


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


@pytest.mark.parametrize("positions", SCHEMES)
def test_rows_of_any_lengths_and_none_that_is_too_long(positions):
    model = language_model(0, positions, max_len=16)
    rows = [[5, 6, 7], [8] * 12]
    endless = POSITIONS[positions].beyond == "always"
    found, notes = with_notes(lambda: door(model, rows, NEW))
    assert [len(row) for row in found] == ([33, 42] if endless else [17, 17])
    assert bool(notes) != endless and all("2 of 2 texts" in note for note in notes)
    found, notes = with_notes(lambda: door(model, rows, 7))
    assert [len(row) for row in found] == ([10, 19] if endless else [10, 17])
    assert bool(notes) != endless and all("1 of 2 texts" in note for note in notes)
    columns = caches.stream(model, rows, 7)
    list(columns)
    assert columns.reasons == ["length", "length" if endless else "context"]
    assert columns.reason == ("length" if endless else None)
    full, notes = with_notes(lambda: door(model, rows))  # without a number as far as `max_len`
    assert [len(row) for row in full] == [17, 17] and len(notes) == 1
    longer = [[5] * 17]
    lesson = partial(loop, model, torch.tensor(longer), 3)
    writers = [partial(door, model, longer, 3), partial(caches.stream, model, longer, 3)]
    writers += [partial(beam_search, model, longer, 2, 3), lesson]
    for write in writers:
        if endless:
            write()
        else:
            refuses(write, ValueError, "prompts" if write is lesson else "prompts[0]", "17")
    if positions == "rotary":
        assert len(door(model, longer, 3, window=4)[0]) == 20
        assert len(beam_search(model, longer, 2, 3, cache=KVCache(2, 4), **FREE)[0][0][0]) == 20


def test_a_reason_is_that_of_the_row():
    model = language_model(0, "alibi", max_len=16)
    ends = door(model, [[5, 6]], 3)[0][-1]  # drawn third
    columns = caches.stream(model, [[5, 6]], 9, eos_token_ids=ends)
    assert columns.reason is None and iter(columns) is columns
    assert len(list(columns)) <= 3 and columns.reason == "stop"
    nothing = caches.stream(model, [[5, 6]], 0)
    assert list(nothing) == [] and nothing.reason == "length"
    text = caches.stream(language_model(0), "ab", tokenizer=LETTERS, eos_token_ids=())
    assert "".join(text) and text.reason == "context"
    exact = caches.stream(language_model(0), [[5] * 20], 5)  # as many as fit, and no more wanted
    assert len(list(exact)) == 5 and exact.reason == "length"


def test_a_note_names_the_line_that_asked():
    model = language_model(0, max_len=16).eval()
    for write in (door, lambda *args: beam_search(args[0], args[1], 1, args[2], **FREE)):
        with pytest.warns(UserWarning) as notes:
            write(model, torch.full((2, 8), 5), 9 + 1)
        assert [note.filename for note in notes] == [__file__]


def too_long(model, n=60):
    "`generate` refuses `n` tokens without a window, as it does when the model is new."
    refuses(lambda: generate(model, [[5] * n], 1), ValueError, "prompts[0]", str(n))


def test_a_text_beyond_max_len_leaves_the_model_as_it_was():
    model, how = language_model(0, "rotary"), dict(window=4, eos_token_ids=(), seed=0)
    too_long(model)
    generate(model, [[5, 6]], 60, **how)
    too_long(model)
    started = stream(model, [[5] * 40], 9, **how)
    next(started), next(started)  # and nobody asks for more
    too_long(model)
    model.stack.blocks[1].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        generate(model, [[5] * 40], 3, **how)
    too_long(model)


def test_texts_of_one_model_that_grow_in_turns_do_not_disturb_one_another():
    model, how = language_model(0, "rotary"), dict(window=4, eos_token_ids=(), seed=0)
    prompts, lengths = [[5] * 3, [6] * 30, [7] * 9], [70, 9, 40]
    alone = [list(stream(model, [p], n, **how)) for p, n in zip(prompts, lengths)]
    running = [stream(model, [p], n, **how) for p, n in zip(prompts, lengths)]
    found = [[], [], []]
    for turn in range(70):
        for columns, own in zip(found, running):
            columns += [column for column in [next(own, None)] if column is not None]
        if turn == 35:
            too_long(model)
    assert found == alone


def test_threads_may_write_beyond_max_len_with_one_model():
    model, how = language_model(0, "rotary"), dict(window=4, eos_token_ids=(), seed=0)
    lengths = [30, 60, 90, 45] * 2
    alone = [generate(model, [[5, 6]], n, **how) for n in lengths]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: generate(model, [[5, 6]], n, **how), lengths))
    assert found == alone
    too_long(model)


@torch.no_grad()
def test_memory_of_a_window_stays_small_and_no_key_is_copied_at_each_step():
    layer = LayerCache(window=5)
    for step in range(200):
        k = torch.full((1, 1, 1, 1), float(step))
        got, _ = layer.update(k, k)
        assert got.flatten().tolist() == [float(i) for i in range(max(0, step - 4), step + 1)]
        assert layer.blocks[0].shape[2] <= 10
    grown, moves = LayerCache(), 0
    for _ in range(1000):
        before = grown.blocks
        grown.update(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))
        moves += grown.blocks is not before
    assert moves <= 10


def test_a_cache_can_be_trained_through():
    model = language_model(0, "rotary").eval()
    tokens, cache = torch.randint(4, 23, (2, 9)), KVCache(2)
    pieces = []
    for piece in tokens.split([4, 1, 1, 3], dim=1):
        pieces.append(model(piece, cache, cache.positions(piece.shape[1])))
    runs = torch.cat(pieces, dim=1), model(tokens)
    grads = [torch.autograd.grad(y.square().sum(), list(model.parameters())) for y in runs]
    assert_close(*grads)


MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad}


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("first", MODES)
@pytest.mark.parametrize("then", MODES)
def test_a_cache_goes_on_under_another_grad_mode(first, then, window):
    model, tokens = language_model(0, "alibi").eval(), torch.randint(4, 23, (2, 8))
    with torch.no_grad():
        whole = model(tokens[[1, 0]], under(window, 8))[:, 3:]
    cache = KVCache(2, window)
    with MODES[first]():
        start = model(tokens[:, :3], cache)
    with MODES[then]():
        cache.reorder([1, 0])
        steps = []
        for token in tokens[[1, 0], 3:].split(1, dim=1):
            steps.append(model(token, cache, cache.positions(1)))
        assert_close(torch.cat(steps, dim=1).detach(), whole)
    if then == "grad":
        torch.cat(steps, dim=1).sum().backward()
    elif first == "grad":
        start.sum().backward()  # nothing that it reads has been written on
    with MODES[first]():
        assert_close(model(tokens[[1, 0], :1], cache, cache.positions(1)).shape, (2, 1, 23))


@torch.no_grad()
def test_reorder_repeats_drops_and_swaps_rows():
    model = language_model(0, "alibi", n_kv_heads=2).eval()
    tokens, new = torch.randint(4, 23, (3, 6)), torch.randint(4, 23, (5, 1))
    for window in (None, 3):
        cache, rows = KVCache(2, window), [2, 0, 0, 2, 1]
        model(tokens, cache)
        cache.reorder(rows)
        text = torch.cat([tokens[rows], new], dim=1)
        said = model(new, cache, cache.positions(1))
        assert_close(said, model(text, under(window, 7))[:, -1:])
        for rows in ([4, 3, 2, 1, 0], [0, 0, 1, 1, 2], [0, 1, 2, 3, 4]):  # as many: in place
            cache.reorder(rows)
            text = torch.cat([text[rows], new], dim=1)
            said = model(new, cache, cache.positions(1))
            assert_close(said, model(text, under(window, text.shape[1]))[:, -1:])


def test_a_cache_of_other_rows_is_refused():
    model, cache = language_model(), KVCache(2)
    model(torch.tensor([[5], [6]]), cache)
    refuses(
        lambda: model(torch.tensor([[5]]), cache, cache.positions(1)), ValueError, "tokens", "1"
    )


def test_importing_costs_no_compiler():
    code = "import sys, former_nb.models.encoder_decoder; assert 'torch._dynamo' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("backend", ["eager", *["inductor"] * LONG])
def test_compiled_gives_the_same_tokens(backend):
    model = language_model(0, "rotary", n_kv_heads=2, n_layers=1)
    torch._dynamo.reset()
    compiled, prompts = torch.compile(model, backend=backend), [[5, 6], [8, 9]]
    for how in (dict(temperature=0), *[dict(seed=1), dict(seed=1, window=4)] * LONG):
        plain = generate(model, prompts, 3, eos_token_ids=(), **how)
        assert generate(compiled, prompts, 3, eos_token_ids=(), **how) == plain
    torch._dynamo.reset()


def test_a_model_with_a_cache_is_one_graph_for_any_length():
    graphs, cache = [], KVCache(1)
    backend = lambda graph, inputs: graphs.append(graph) or graph.forward
    model = language_model(0, "rotary", n_layers=1).eval()
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, dynamic=True, backend=backend)
    tokens = torch.randint(4, 23, (2, 20))
    with torch.no_grad():
        pieces = []
        for piece in tokens.split([3, *[1] * 17], dim=1):
            pieces.append(compiled(piece, cache, cache.positions(piece.shape[1])))
        assert_close(torch.cat(pieces, dim=1), model(tokens))
    torch._dynamo.reset()
    assert len(graphs) <= 5  # for a prompt, for a token, and where the memory grows


# ---- the loop


def test_mode_and_gradients_are_the_callers_between_two_tokens():
    model = language_model().train()
    for column in stream(model, [[5], [6, 7]], 4, eos_token_ids=()):
        assert model.training and torch.is_grad_enabled() and len(column) == 2
    model.eval()
    model.stack.train()  # a part alone
    greedy = generate(model, [[5]], 4, temperature=0, eos_token_ids=())
    assert model.stack.training and not model.training
    assert greedy == generate(model.eval(), [[5]], 4, temperature=0, eos_token_ids=())


def test_stream_gives_the_columns_of_generate():
    model, prompts = language_model(), torch.tensor([[5, 6], [7, 8], [9, 10]])
    whole = generate(model, prompts, 9, seed=1)
    columns = [[PAD if t is None else t for t in c] for c in stream(model, prompts, 9, seed=1)]
    assert torch.equal(torch.tensor(columns).T, whole[:, 2:])
    for row in whole[:, 2:].tolist():
        end = row.index(EOS) if EOS in row else len(row)
        assert not set(row[:end]) & {PAD, BOS, EOS, UNK} and not any(row[end + 1 :])


def test_a_stream_ends_with_the_last_token_of_its_last_row():
    how = dict(seed=0)
    for most, columns in ((0, 0), (1, 3), (4, 6), (99, 24)):  # the rest of the prompt, and `most`
        found = list(stream(MODEL, [[5], [6, 7, 8]], most, eos_token_ids=(), **how))
        assert len(found) == columns, most
        drawn = [[t for t in row if t is not None] for row in zip(*found)]
        assert columns == 0 or [len(row) for row in drawn] == [min(most, 24), min(most + 2, 24)]
        assert columns == 0 or drawn[1][:2] == [7, 8]
    for seed in range(9):  # also where rows end early
        *_, last = stream(MODEL, [[5], [6, 7, 8]], 9, **how | dict(seed=seed))
        assert any(t is not None for t in last)


def test_a_step_waits_for_the_device_once(monkeypatch):
    model, waits = language_model(), []
    for name in ("tolist", "__bool__", "nonzero"):  # guards look at an item, on the CPU only
        plain = getattr(torch.Tensor, name)
        count = lambda self, *a, plain=plain, name=name: waits.append(name) or plain(self, *a)
        monkeypatch.setattr(torch.Tensor, name, count)
    columns = stream(model, [[5, 6, 7], [8, 9]], 12, seed=0, top_p=0.9, eos_token_ids=())
    next(columns)  # the prompts are looked at once
    waits.clear()
    assert len(list(columns)) == 12 and waits == ["tolist"] * 12


# ---- picks


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


def test_the_tokens_go_on_where_they_were_asked_last():
    model = language_model().eval()
    prompts = torch.tensor([[5, 6]])
    steps = next_tokens(model, prompts, greedy, KVCache(2))
    first = [next(steps).item() for _ in range(3)]
    assert torch.is_grad_enabled()
    more = [next(steps).item() for _ in range(3)]
    assert decoding.generate(model, prompts, 6).tolist() == [[5, 6, *first, *more]]
    assert decoding.generate(model, prompts, 0).equal(prompts)


def used(cache):
    language_model()(torch.tensor([[5, 6, 7]]), cache)
    return cache


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


class WithOwnConfig(torch.nn.Module):
    "A model of a reader's own, whose configuration is none of ours."

    config = {"n_layer": 1}

    def forward(self, tokens):
        return torch.nn.functional.one_hot((tokens + 1) % 9, 9).float()


def test_a_loop_takes_a_model_with_any_configuration_and_a_function():
    class ReadsOne(WithOwnConfig):
        def forward(self, tokens, attend, positions):
            assert tokens.shape[1] == 1 and len(attend) == 2
            return super().forward(tokens)

    for kind in (WithOwnConfig, ReadsOne):
        cache = None if kind is WithOwnConfig else [attention] * 2
        for model in (kind(), kind().forward):
            how = dict(prompts=torch.tensor([[5]]), max_new_tokens=3, cache=cache)
            assert caches.generate(model, **how).tolist() == [[5, 6, 7, 8]]
            if cache is not None:
                assert decoding.generate(model, **how).tolist() == [[5, 6, 7, 8]]


@pytest.mark.parametrize("positions", SCHEMES)
def test_the_door_is_called_as_the_loop_of_the_lesson_and_writes_the_same_tokens(positions):
    model, prompts = language_model(0, positions).eval(), torch.tensor([[5, 6, 7], [8, 9, 10]])
    plain = decoding.generate(model, prompts, 20)
    kinds = [
        lambda: None,
        lambda: KVCache(2),
        lambda: [LayerCache(), LayerCache()],
        lambda: the_lessons(2),
        lambda: around(KVCache(2)),
        lambda: around(the_lessons(2)),
    ]
    for cache in kinds:
        assert former_nb.generate(model, prompts, 20, greedy, cache()).equal(plain)
        torch.manual_seed(5)
        drawn = decoding.generate(model, prompts, 20, sample, cache())
        torch.manual_seed(5)
        assert former_nb.generate(model, prompts, 20, sample, cache()).equal(drawn)
    assert former_nb.generate(model, prompts.tolist(), 20) == plain.tolist()
    draw = lambda: SeededSample(3, prompts.tolist(), CPU)
    drawn = decoding.generate(model, prompts, 20, draw(), KVCache(2))
    assert former_nb.generate(model, prompts, 20, draw(), KVCache(2)).equal(drawn)
    assert former_nb.generate(model, prompts, 20, Sampling(seed=3)).equal(drawn)
    columns = former_nb.stream(model, prompts, 20, Sampling(seed=3))
    assert torch.tensor(list(columns)).T.equal(drawn[:, 3:])
    assert {PAD, BOS, EOS, UNK} & set(drawn[:, 3:].flatten().tolist())  # none of them is special


def test_wrappers_nest_as_the_settings_do():
    logits = 3 * torch.randn(6, 40, generator=torch.Generator().manual_seed(0))
    prompts = [[5, 6], [7, 8, 9], [5], [6], [7, 7], [9]]
    pick = with_min_p(with_top_k(SeededSample(4, prompts, CPU), 9), 0.02)
    pick = checked(with_temperature(with_top_p(pick, 0.8), 0.7))
    settings = dict(temperature=0.7, top_k=9, top_p=0.8, min_p=0.02, seed=4)
    other = Sampling(**settings).pick(prompts, CPU)
    for _ in range(5):
        assert other(logits).equal(pick(logits))


def test_a_pick_of_the_readers_own_goes_with_rows_of_any_length():
    def second(logits):
        return logits.topk(2).indices[:, 1]

    model, prompts = language_model(), [[5, 6], [7, 8, 9, 10]]
    rows = caches.generate(model, prompts, 6, second, **STOPS)
    assert rows != generate(model, prompts, 6, temperature=0)
    assert rows == caches.generate(fed_again(model), prompts, 6, second, **STOPS)
    assert rows == [caches.generate(model, [row], 6, second, **STOPS)[0] for row in prompts]


def test_wrappers_name_a_setting_that_nothing_can_be_drawn_with():
    for wrapper, name, values in (
        (with_temperature, "temperature", (-1, NAN, None)),
        (with_top_k, "top_k", (0, 1.5)),
        (with_top_p, "top_p", (0, 1.01)),
        (with_min_p, "min_p", (-0.1,)),
    ):
        for value in values:
            refuses(lambda: wrapper(greedy, value), ValueError, name, str(value))


# ---- many texts of one model at the same time


def test_two_suspended_texts_of_one_model_are_those_written_alone():
    samplings = Sampling(seed=0), Sampling(seed=1, top_p=0.9)
    write = partial(caches.stream, MODEL, "ab", tokenizer=LETTERS)
    alone = [list(write(pick=s)) for s in samplings]
    first, second = (write(pick=s) for s in samplings)
    found = [], []
    for _ in range(40):
        for pieces, running in zip(found, (first, second)):
            pieces += [piece for piece in [next(running, None)] if piece is not None]
    assert list(found) == alone and alone[0] != alone[1]


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

MODEL = language_model(0)
CAN = [[5, 6], [7]]
LETTERS = CharTokenizer("abcdefghijklmnopqrs")


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


class Idle(torch.nn.Module):
    "A model that says so if it is asked to work."

    def __init__(self):
        super().__init__()
        self.config, self.weight = MODEL.config, torch.nn.Parameter(torch.zeros(1))

    def forward(self, *args, **kwargs):
        raise AssertionError("the model was run before the input was checked")


def test_prompts_that_can_be_read_once_and_small_integers():
    how = dict(max_new_tokens=4, pick=Sampling(seed=0))
    rows = caches.generate(MODEL, CAN, **how)
    assert caches.generate(MODEL, iter(CAN), **how) == rows
    wide = language_model(0, V=300)
    tokens = torch.tensor([[5, 6]])
    found = caches.generate(wide, tokens.to(torch.uint8), **how)
    assert found.tolist() == caches.generate(wide, tokens, **how).tolist()  # also above 255


class Elsewhere(torch.Tensor):
    "Says that it lies on another device, since there may be one only."

    device = torch.device("meta")


def test_a_function_is_called_where_the_prompts_are():
    class Called(Exception):
        pass

    def model(tokens):
        raise Called(tokens.device.type)

    prompts = torch.tensor([[5, 6]]).as_subclass(Elsewhere)
    for call in (
        lambda: next(caches.stream(model, prompts, 3)),
        lambda: caches.generate(model, prompts, 3),
        lambda: beam_search(model, prompts, 2, 3),
    ):
        with pytest.raises(Called, match="meta"):
            call()


def without_positions(alibi=False):
    "A model of parts, which reads texts of any length."
    torch.manual_seed(0)
    blocks = [make_block(12, 3, 16) for _ in range(2)]
    stack = Stack(blocks, torch.nn.LayerNorm(12), ALiBi(3) if alibi else None)
    return LanguageModel(Embedding(23, 12), stack).eval()


@pytest.mark.parametrize("alibi", [True, False])
def test_texts_of_any_length_end_where_one_says(alibi):
    model = without_positions(alibi)
    for write in (caches.generate, caches.stream):
        refuses(lambda: write(model, CAN), TypeError, "max_new_tokens", "None")
    assert [len(row) for row in caches.generate(model, CAN, 30)] == [len(row) + 30 for row in CAN]


def other_kinds():
    "Models that don't write on, and what says so: with a configuration, and made by hand."
    config = TransformerConfig(23, 24, d_model=16, n_heads=4, n_layers=1, d_ff=24)
    two, three = EncoderDecoder.from_config(config), Classifier.from_config(config, 3)
    bare = EncoderDecoder(two.src_embed, two.encoder, two.decoder)
    yield from ((two, "translate"), (bare, "translate"), (three, "predict"))


@pytest.mark.parametrize(("model", "instead"), list(other_kinds()))
def test_what_translates_or_judges_is_sent_elsewhere(model, instead):
    for call in (
        lambda: caches.generate(model, CAN, 3),
        lambda: caches.generate(model, "abc", 3, tokenizer=LETTERS),
        lambda: caches.stream(model, CAN, 3),
        lambda: beam_search(model, [5, 6], 2, 3),
    ):
        with pytest.raises(TypeError, match=f"model: expected .*{instead}.*{type(model).__name__}"):
            call()


BAD_CALLS = [
    (dict(window=0), ValueError, "window", "0"),
    (dict(eos_token_ids=99), ValueError, "eos_token_ids", "99"),
    (dict(suppress_tokens=[23]), ValueError, "suppress_tokens", "23"),
    (dict(max_new_tokens=-1), ValueError, "max_new_tokens", "-1"),
    (dict(prompts=[]), ValueError, "prompts[0]"),
    (dict(prompts=torch.tensor([5, 6])), ValueError, "prompts", "(2,)"),
    (dict(prompts="Jo"), TypeError, "prompts", "Jo"),
    (dict(prompts=torch.zeros(3, 0, dtype=torch.int64)), ValueError, "prompts[0]"),
    (dict(prompts=[[5], [5] * 25]), ValueError, "prompts[1]"),
    (dict(prompts=[[5], [23]]), ValueError, "prompts[1]", "23"),
    (dict(prompts=[[5, 6], [PAD, PAD]]), ValueError, "prompts[1]"),
    (dict(prompts=[[5, 6.0]]), TypeError, "prompts", "6.0"),
    (dict(prompts=[5, 6]), TypeError, "prompts"),
    (dict(prompts=[b"Jo"]), TypeError, "prompts"),
    (dict(prompts=[{5, 6}]), TypeError, "prompts"),
    (dict(prompts=[iter([5, 6])]), TypeError, "prompts"),
    (dict(pick="greedy"), TypeError, "pick", "greedy"),
    (dict(model=lambda tokens: None, window=4), ValueError, "window", "4"),
    (dict(model=None), TypeError, "model", "None"),
    (dict(cache=attention), TypeError, "cache", "function"),
    (dict(cache=[]), TypeError, "cache", "[]"),
    (dict(cache=used(KVCache(2))), ValueError, "cache", "one with 3 tokens"),
    (dict(cache=KVCache(2), window=4), ValueError, "cache", "LayerCache"),
    (dict(prompts=["Jo", "Mi"]), TypeError, "prompts", "Jo"),
    (dict(prompts="aZ", tokenizer=LETTERS), ValueError, "prompts", "'Z'"),
    (dict(prompts="a" * 24, tokenizer=LETTERS), ValueError, "prompts[0]", "25"),
    (dict(prompts="ab", tokenizer="ab"), TypeError, "tokenizer", "str"),
    (dict(model=WithOwnConfig(), max_new_tokens=None), TypeError, "max_new_tokens", "None"),
]


@pytest.mark.parametrize("row", BAD_CALLS, ids=range(len(BAD_CALLS)))
def test_bad_calls_are_named_before_any_work(row):
    how = dict(model=Idle(), prompts=CAN, max_new_tokens=3) | STOPS | row[0]
    refuses(lambda: caches.generate(**how), *row[1:])
    refuses(lambda: caches.stream(**how), *row[1:])  # before the first is asked for


def test_the_edges_are_defined():
    greedy, drawn = generate(MODEL, CAN, 3, temperature=0), generate(MODEL, CAN, 3, seed=0)
    assert generate(MODEL, CAN, 0) == CAN
    for how in (dict(top_k=10**6), dict(top_p=1, min_p=0)):
        assert generate(MODEL, CAN, 3, seed=0, **how) == drawn
    for how in (dict(temperature=1e-30), dict(top_k=1), dict(top_p=1e-9)):
        assert generate(MODEL, CAN, 3, seed=0, **how) == greedy
    never = caches.generate(MODEL, CAN, 3, Sampling(seed=0), suppress_tokens=(PAD, BOS, UNK))
    assert generate(MODEL, CAN, 3, seed=0, eos_token_ids=()) == never  # as without a tokenizer
    assert generate(MODEL, [torch.tensor([5, 6]), (7,)], 3, temperature=0) == greedy
    one = generate(MODEL, torch.tensor([[5, 6]], dtype=torch.int32), 3, temperature=0)
    assert one.tolist() == greedy[:1] and one.dtype == torch.int32
    full = generate(MODEL, [[5] * 24, [5]], 99, eos_token_ids=(), seed=0)
    assert full[0][:24] == [5] * 24 and [len(row) for row in full] == [25, 25]


def test_a_vocabulary_smaller_than_the_special_tokens():
    tiny = language_model(0, V=3)  # nothing but the end can be drawn
    assert generate(tiny, [[BOS]], 5) == [[BOS, EOS]] == [beam_search(tiny, [BOS], 2, 5)[0][0]]


# ---- text


def test_text_is_streamed_as_it_is_written():
    for seed in range(3):
        sampling = Sampling(top_p=0.9, seed=seed)
        how = dict(pick=sampling, tokenizer=LETTERS)
        pieces = list(caches.stream(MODEL, "ab", **how))
        text = caches.generate(MODEL, "ab", **how)
        assert "ab" + "".join(pieces) == text and all(pieces)


def test_pieces_of_text_end_with_whole_characters():
    bytewise = SubwordTokenizer([])
    model = language_model(0, V=bytewise.vocab_size, max_len=60)
    for seed in range(4):  # bytes at random, most of them no UTF-8
        sampling = Sampling(2.0, seed=seed)
        pieces = caches.stream(model, "Eglė", 40, sampling, tokenizer=bytewise)
        text = caches.generate(model, "Eglė", 40, sampling, tokenizer=bytewise)
        assert "Eglė" + "".join(pieces) == text
    text = "Ž🙂 ė € \u0301x"
    pieces = list(caches._pieces(bytewise, [[i] for i in bytewise.encode(text)], BOS))
    assert "".join(pieces) == bytewise.normalise(text)
    assert not any("\ufffd" in piece for piece in pieces)


def test_texts_of_any_lengths_are_written_side_by_side():
    begun, ids = ["abc", "", "abc", "d"], [[BOS, 4, 5, 6], [BOS], [BOS, 4, 5, 6], [BOS, 7]]
    how = dict(pick=Sampling(top_p=0.9, seed=5), tokenizer=LETTERS)
    texts = caches.generate(MODEL, begun, **how)
    assert all(text.startswith(start) for text, start in zip(texts, begun))
    assert texts[0] != texts[2]  # each has a seed of its own
    rows = caches.generate(MODEL, ids, **how)  # a tokenizer also says what ends rows
    assert texts == [LETTERS.decode(row) for row in rows]
    assert EOS in {row[-1] for row in rows}
    for i, start in enumerate(begun):
        own = how | dict(pick=Sampling(top_p=0.9, seed=5 + i))
        assert caches.generate(MODEL, start, **own) == texts[i]
    endless = caches.generate(MODEL, ids, eos_token_ids=(), suppress_tokens=(), **how)
    assert {len(row) for row in endless} == {25}


def test_bad_text_is_named():
    write = lambda texts: caches.generate(MODEL, texts, tokenizer=LETTERS)
    refuses(lambda: write(["ab", "aZ"]), ValueError, "prompts[1]", "'Z'")
    refuses(lambda: write(["ab", 5]), TypeError, "prompts[1]", "int")
    several = lambda: caches.stream(MODEL, ["ab", "a"], tokenizer=LETTERS)
    refuses(several, TypeError, "prompts", "['ab', 'a']")


# ---- beams


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


def test_prompts_are_rows_and_a_row_that_cannot_be_read_is_named():
    assert as_rows(torch.tensor([[1, 5, 6]])) == as_rows([(1, 5, 6)]) == [[1, 5, 6]]
    for row in ([], [1, 5, 6, 7], [1, 9], [1, 0]):  # empty, long, outside, padding
        refuses(lambda: check_prompts([[1, 5], row], 9, 3), ValueError, "prompts[1]")
    check_prompts([[1, 0]], 9, 3, never=())


def test_columns_continue_each_prompt_from_its_own_end():
    rows = append_columns([[1, 5], [1, 6, 7, 8]], [[9, 7], [2, 8], [None, 9]])
    assert rows == [[1, 5, 9, 2], [1, 6, 7, 8, 9]]  # the second is two tokens longer


def test_tokens_that_end_a_row_or_are_never_written_get_one_form():
    assert stop_tokens(None, (0, 1, 3), vocab_size=3) == (set(), [0, 1])
    assert stop_tokens(2, (3, 1, 0), vocab_size=30) == ({2}, [0, 1, 3])
    refuses(lambda: stop_tokens([2, 30], (), vocab_size=30), ValueError, "eos_token_ids", "30")
    tokenizer = CharTokenizer("abc")
    assert encode_prompt(tokenizer, "cab") == [*tokenizer.before, *tokenizer.encode("cab")]
    refuses(lambda: encode_prompt(tokenizer, "xa"), ValueError, "prompt", "'x'")


def test_prompts_on_a_device_are_read_by_one_wait(monkeypatch):
    read, plain = [], torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda t: read.append(t.shape) or plain(t))
    assert as_rows(torch.tensor([[5, 6], [7, 8]])) == [[5, 6], [7, 8]] and len(read) == 1


def test_where_every_token_is_suppressed_nothing_is_written():
    for call in (
        lambda **how: generate(MODEL, CAN, 3, **how),
        lambda **how: beam_search(MODEL, [5], 2, 3, **how),
    ):
        refuses(lambda: call(suppress_tokens=range(23)), ValueError, "suppress_tokens", "23")
