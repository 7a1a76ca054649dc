"""Whatever comes as an argument: it is taken, or refused in one sentence that begins with a name,
soon and in bounded memory."""

import inspect
import math
import re
import signal
import sys

import pytest
import torch
from refusals import refuses

from former_nb.attention.masks import causal_mask, padding_mask
from former_nb.base.guards import check_int, check_number
from former_nb.data.batches import BatchOrder, make_batches
from former_nb.data.text import collate, pad_rows
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.decoding import decoding
from former_nb.decoding.beam_search import beam_search, length_score
from former_nb.decoding.caches import (
    KVCache,
    LayerCache,
    generate,
    stream,
)
from former_nb.decoding.decoding import greedy
from former_nb.decoding.prompts import encode_prompt, stop_tokens
from former_nb.decoding.sampling import (
    Sampling,
    checked,
    with_temperature,
    with_top_k,
    with_top_p,
)
from former_nb.decoding.translating import translate
from former_nb.inspection.ngrams import NGram
from former_nb.inspection.scores import compare_translations
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import EncoderDecoder, LanguageModel
from former_nb.training.losses import exact_match, find_device, token_loss
from former_nb.training.optimization import split_batch

CONFIG = TransformerConfig(30, 12, 16, 2, 1, d_ff=16)
MODEL, TRANSLATOR = (
    LanguageModel.from_config(CONFIG).eval(),
    EncoderDecoder.from_config(CONFIG).eval(),
)
LETTERS = CharTokenizer("abcdefghijklmnopqrstuvwxyz")
IDS = torch.tensor([[1, 5, 6], [1, 7, 8]])
LOGITS = torch.zeros(2, 30)
WRITING = dict(eos_token_ids=2, suppress_tokens=(0,))
PROMPT = dict(model=MODEL, prompts="ab", max_new_tokens=2, pick=Sampling(), tokenizer=LETTERS)

CALLS = [  # what is called, with arguments of which each is exchanged in turn, and those left alone
    (beam_search, dict(model=MODEL, prompts=[1, 5], num_beams=2, max_new_tokens=3, **WRITING)),
    (beam_search, dict(model=MODEL, prompts=[1, 5], num_beams=2, max_new_tokens=1, cache=None)),
    (length_score, dict(length=3, length_penalty=1.0, convention="mean"), dict(total=-1.0)),
    (LayerCache, dict(window=None)),
    (KVCache, dict(n_layers=2, window=None)),
    (stream, dict(model=MODEL, prompts=[[1, 5]], max_new_tokens=2, pick=Sampling(), window=2)),
    (stream, WRITING, dict(model=MODEL, prompts=[[1, 5]], max_new_tokens=2)),
    (stream, PROMPT),
    (decoding.generate, dict(model=MODEL, prompts=IDS, max_new_tokens=2, pick=greedy)),
    (generate, dict(model=MODEL, prompts=[[1]], max_new_tokens=2, pick=Sampling(), cache=None)),
    (generate, PROMPT),
    (generate, dict(PROMPT, prompts=["ab", "a"])),
    (with_temperature, dict(temperature=1.0), dict(pick=greedy)),
    (with_top_k, dict(top_k=2), dict(pick=greedy)),
    (with_top_p, dict(top_p=0.5), dict(pick=greedy)),
    (checked(greedy), dict(logits=LOGITS)),
    (stop_tokens, dict(eos_token_ids=2, suppress_tokens=(0,), vocab_size=9)),
    (encode_prompt, dict(tokenizer=LETTERS, prompt="a")),
    (encode_texts, dict(texts=["ab"], tokenizer=LETTERS)),
    (pad_rows, dict(rows=[[1], [1, 2]], value=0)),
    (collate, dict(rows=[[1, 2]])),
    (token_loss, dict(logits=torch.zeros(2, 3, 30), targets=IDS, label_smoothing=0.0)),
    (find_device, dict(model=MODEL)),
    (exact_match, dict(model=MODEL), dict(batches=[(IDS, IDS)])),
    (split_batch, dict(batch=(IDS, IDS), n=2)),
    (NGram, dict(rows=[[1, 5, 2]], order=2, vocab_size=9, discount=0.75)),
    (make_batches, dict(batch_size=2, seed=0, collate=collate, length=len), dict(rows=[[1], [2]])),
    (BatchOrder, dict(batch_size=2, shuffle=True, seed=0), dict(lengths=[1, 2, 3])),
    (translate, dict(model=TRANSLATOR, tokenizer=LETTERS, sentences=["ab"], num_beams=2)),
    (
        translate,
        dict(length_penalty=1.0),
        dict(model=TRANSLATOR, tokenizer=LETTERS, sentences=["ab"], num_beams=2),
    ),
    (compare_translations, dict(first=["a"], second=["a"], references=["a"], n=9)),
    (padding_mask, dict(tokens=IDS, pad=0)),
    (causal_mask, dict(T=3)),
]
HOSTILE = {
    "None": None,
    "a word": "x",
    "an empty word": "",
    "a half": 1.5,
    "True": True,
    "-1": -1,
    "0": 0,
    "10**30": 10**30,
    "10**13": 10**13,
    "1e300": 1e300,
    "NaN": math.nan,
    "infinity": math.inf,
    "no rows": [],
    "a row that is None": [None],
    "rows of words": [[["a"]]],
    "an object": object(),
    "an empty tensor": torch.zeros(1, 0),
    "a tensor of numbers": torch.ones(2, 3),
    "bytes": b"a",
    "a dict": {"a": 1},
}
OF_PYTORCH = {("causal_mask", "10**13")}  # it says how many bytes it was asked for


@pytest.fixture
def limits():
    "Two minutes, and four gigabytes more than there are: what has no end fails, and soon."
    if sys.platform != "linux":
        yield
        return
    import resource

    def stop(*_):
        raise AssertionError("it has no end")

    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before, handler = resource.getrlimit(resource.RLIMIT_AS), signal.signal(signal.SIGALRM, stop)
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**32, before[1]))
    signal.alarm(120)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, handler)
    resource.setrlimit(resource.RLIMIT_AS, before)


def call(function, arguments):
    result = function(**arguments)
    if inspect.isgenerator(result):
        for _ in zip(range(20), result):
            pass


def title(row):
    return f"{row[0].__name__}: {', '.join(row[1])}"


@pytest.mark.parametrize("row", CALLS, ids=title)
def test_any_argument_is_taken_or_refused_by_name(row, limits):
    function, exchanged, kept = (*row, {})[:3]
    call(function, exchanged | kept)
    for name in exchanged:
        for what, value in HOSTILE.items():
            try:
                call(function, exchanged | kept | {name: value})
            except Exception as error:  # noqa: BLE001, any kind may come
                if (function.__name__, what) in OF_PYTORCH:
                    continue
                said = f"{name} = {what}: {type(error).__name__}: {error}"
                assert isinstance(error, (TypeError, ValueError)), said
                assert re.match(r"\w+(\[\d+\])?(, \w+)*: ", str(error)), said


@pytest.mark.parametrize("value", [-1, 0, 10**13])
def test_a_cache_has_at_least_one_layer_and_not_trillions(value, limits):
    refuses(lambda: KVCache(value), ValueError, "n_layers", str(value))
    refuses(lambda: KVCache(True), TypeError, "n_layers", "True")


@pytest.mark.parametrize("penalty", [-0.1, 11, 300, 100_000, 1e30, 10**30, math.inf, math.nan])
def test_length_penalty_has_bounds_that_keep_scores_numbers(penalty, limits):
    for call in (
        lambda: length_score(-1.0, 3, penalty),
        lambda: beam_search(MODEL, [1, 5], 2, 3, length_penalty=penalty),
        lambda: translate(TRANSLATOR, LETTERS, [], length_penalty=penalty),
    ):
        refuses(call, ValueError, "length_penalty", str(penalty))
    for convention in ("mean", "gnmt"):
        assert -1 < length_score(-1.0, 10**9, 10, convention) < 0


@pytest.mark.parametrize("tokens", [1.5, 2.0, True, "a", [None], [2, 30], [[2]], object()])
def test_what_is_no_token_is_refused(tokens):
    for name in ("eos_token_ids", "suppress_tokens"):
        refuses(lambda: generate(MODEL, [[1, 5]], 2, **{name: tokens}), ValueError, name)


def test_a_token_is_drawn_from_at_least_one():
    for logits in (torch.zeros(1, 0), torch.zeros(())):
        for pick in (checked(greedy), Sampling().pick([[1]], "cpu")):
            refuses(lambda: pick(logits), ValueError, "logits", str(tuple(logits.shape)))


def test_whole_numbers_and_numbers_have_bounds():
    refuses(lambda: check_int("x", 2**63), ValueError, "x", str(2**63))
    refuses(lambda: check_int("x", -(2**64), None), ValueError, "x", str(-(2**64)))
    refuses(lambda: check_int("x", 11, most=10), ValueError, "x", "11")
    for value in (2**63 - 1, 1):
        check_int("x", value)
    for value in (None, "1", True, [1], 1j):
        refuses(lambda: check_number("x", value), TypeError, "x", repr(value))
    for value in (math.nan, -0.1, 1.1):
        refuses(lambda: check_number("x", value, 0, 1), ValueError, "x", repr(value))
    for value in (0, 1, 0.5):
        check_number("x", value, 0, 1)
