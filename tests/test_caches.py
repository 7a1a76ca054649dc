"""What is kept equals what is computed again, a batch equals its rows one by one, and bad input
costs one sentence.

40 random configurations, always the same ones, run with the other tests. A longer run, with new
ones each time, and a real compiler:

  FORMER_NB_CASES=1000 OMP_NUM_THREADS=1 pytest tests/test_caches.py
"""

import os
import random
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from decoding_tools import (
    CAN,
    COMPILED,
    CPU,
    LETTERS,
    MODEL,
    NEW,
    SCHEMES,
    STOPS,
    Idle,
    WithOwnConfig,
    around,
    by_hand,
    compiled,
    door,
    fed_again,
    generate,
    goes_on,
    language_model,
    loop,
    stream,
    the_lessons,
    under,
    used,
    with_notes,
)
from refusals import refuses
from torch.testing import assert_close

import former_nb
from former_nb.attention.fused import attention
from former_nb.attention.relative_positions import ALiBi
from former_nb.data.text import BOS, EOS, PAD, UNK
from former_nb.data.tokenization import SubwordTokenizer
from former_nb.decoding import caches, decoding
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, LayerCache, next_tokens
from former_nb.decoding.decoding import greedy, sample
from former_nb.decoding.fast_copy import fast_copy
from former_nb.decoding.sampling import Sampling, SeededSample
from former_nb.models.choices import ACTIVATIONS, NORMS, POSITIONS
from former_nb.models.layers import Embedding, Stack, make_block
from former_nb.models.savable import LanguageModel

LONG = "FORMER_NB_CASES" in os.environ
CASES = int(os.environ.get("FORMER_NB_CASES", 40))
FIRST = int(time.time()) if LONG else 0  # of the seeds


def alone(model, prompts, most, seed=None, **how):
    "Each prompt by itself, with the seed that its row has in the batch."
    seeds = [None if seed is None else seed + i for i in range(len(prompts))]
    return [generate(model, [p], most, seed=own, **how)[0] for p, own in zip(prompts, seeds)]


def random_case(seed):
    "A model, prompts, how many tokens, and settings, all from one number."
    draw = random.Random(seed)
    positions, window = draw.choice(SCHEMES), draw.choice([None, None, 1, 2, 5, 30])
    sizes = dict(n_kv_heads=[None, 2, 1], n_layers=[1, 2], norm_first=[True, False])
    sizes |= dict(activation=[*ACTIVATIONS], norm=[*NORMS])
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

EVERY_WAY = [
    (positions, way)
    for positions in SCHEMES
    for way in [*PLAIN, *WINDOWED, *UNKNOWN]
    if positions in COMPILED or "compiled" not in way
]


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


def test_the_tokens_go_on_where_they_were_asked_last():
    model = language_model().eval()
    prompts = torch.tensor([[5, 6]])
    steps = next_tokens(model, prompts, greedy, KVCache(2))
    first = [next(steps).item() for _ in range(3)]
    assert torch.is_grad_enabled()
    more = [next(steps).item() for _ in range(3)]
    assert decoding.generate(model, prompts, 6).tolist() == [[5, 6, *first, *more]]
    assert decoding.generate(model, prompts, 0).equal(prompts)


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


def test_a_pick_of_the_readers_own_goes_with_rows_of_any_length():
    def second(logits):
        return logits.topk(2).indices[:, 1]

    model, prompts = language_model(), [[5, 6], [7, 8, 9, 10]]
    rows = caches.generate(model, prompts, 6, second, **STOPS)
    assert rows != generate(model, prompts, 6, temperature=0)
    assert rows == caches.generate(fed_again(model), prompts, 6, second, **STOPS)
    assert rows == [caches.generate(model, [row], 6, second, **STOPS)[0] for row in prompts]


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


# ---- bad input


def test_prompts_that_can_be_read_once_and_small_integers():
    how = dict(max_new_tokens=4, pick=Sampling(seed=0))
    rows = caches.generate(MODEL, CAN, **how)
    assert caches.generate(MODEL, iter(CAN), **how) == rows
    wide = language_model(0, V=300)
    tokens = torch.tensor([[5, 6]])
    found = caches.generate(wide, tokens.to(torch.uint8), **how)
    assert found.tolist() == caches.generate(wide, tokens, **how).tolist()  # also above 255


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
