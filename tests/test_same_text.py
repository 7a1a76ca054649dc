"Whatever is changed in a model, and whatever its cache calls: with the step it computes the same."

import copy
from contextlib import ExitStack
from functools import partial

import model_tools
import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import register_parametrization

from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import LearnedPositions, Rotary
from former_nb.attention.relative_positions import DistanceBias
from former_nb.base.core import in_eval_mode
from former_nb.decoding import decoding, known_parts
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import (
    KVBuffer,
    KVCache,
    LayerCache,
    SlidingWindow,
    generate,
    stream,
)
from former_nb.decoding.decode_step import DecodeStep, StaticCache, as_decode_step
from former_nb.decoding.sampling import Sampling
from former_nb.inspection.recording import Recorder
from former_nb.models import encoder_decoder
from former_nb.models.bart import BartEncoderDecoder
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import translator
from former_nb.models.fine_tuning import add_low_rank
from former_nb.models.layers import Block, Embedding, FeedForward, Stack
from former_nb.models.modern_decoder import modern_decoder
from former_nb.models.parts import project_memory
from former_nb.models.post_norm import PostNormBlock
from former_nb.models.savable import EncoderDecoder, LanguageModel

SIZES = dict(d_model=16, n_heads=4, n_layers=2, d_ff=24)
GREEDY = Sampling(temperature=0)
FREE = dict(eos_token_ids=None, suppress_tokens=())
TOKENS = torch.randint(4, 30, (2, 9), generator=torch.Generator().manual_seed(0))
SOURCE = torch.randint(4, 30, (2, 5), generator=torch.Generator().manual_seed(1))


loud = partial(model_tools.loud, std=0.4)


def language_model(**choices):
    return loud(
        LanguageModel.from_config(TransformerConfig(30, 40, dropout=0.5, **(SIZES | choices)))
    )


def with_low_rank():
    model = language_model()
    add_low_rank(model, 2)
    return loud(model)


def by_hand(rotary=None):
    "A language model that has no configuration."
    blocks = []
    for _ in range(2):
        norms = nn.RMSNorm(16), nn.RMSNorm(16)
        blocks.append(Block(MultiHeadAttention(16, 4), FeedForward(16, 24), *norms))
    embed = Embedding(30, 16, None if rotary else LearnedPositions(40, 16))
    return loud(LanguageModel(embed, Stack(blocks, nn.RMSNorm(16), rotary)))


MODELS = {
    "learned": partial(language_model, tied_head=False),
    "sinusoidal": partial(language_model, positions="sinusoidal"),
    "rotary": partial(language_model, positions="rotary", norm="rms", n_kv_heads=2),
    "scaled": partial(
        language_model,
        positions="rotary",
        rope_scaling=dict(rope_type="linear", factor=2.0),
    ),
    "alibi": partial(language_model, positions="alibi", norm_first=False),
    "relative": partial(language_model, positions="relative", activation="swiglu"),
    "no bias": partial(language_model, bias="none", embed_norm=True),
    "modern": lambda: loud(modern_decoder(30, 16, 4, 2, 2, 24)),
    "translator": lambda: loud(
        EncoderDecoder.from_config(TransformerConfig(30, 40, dropout=0.5, **SIZES))
    ),
    "post-norm translator": lambda: loud(
        EncoderDecoder.from_config(TransformerConfig(30, 40, norm_first=False, **SIZES))
    ),
    "wide translator": lambda: loud(
        EncoderDecoder.from_config(TransformerConfig(30, 40, d_k=6, **SIZES))
    ),
    "made by hand, with PyTorch's norm": by_hand,
    "bart": lambda: loud(BartEncoderDecoder(TransformerConfig(30, 40, embed_norm=True, **SIZES))),
    "rotary, as lesson 12 has it": lambda: by_hand(Rotary(4)),
    "low rank": with_low_rank,
}
UNPROJECTED = lambda: loud(translator(30, 40, 16, 4, 2, 24))  # as lesson 13 has it


def decoder(model, written_by):
    "The function of tokens and a cache that writes: of a translator, with a memory."
    if not isinstance(model, encoder_decoder.EncoderDecoder):
        return written_by
    model.eval()
    memory = project_memory(model.decoder, model.encode(SOURCE))

    def decode(tokens, attend, positions=None):
        return written_by.decode(tokens, memory, None, attend, positions)

    return decode


def split(prompt=3):
    "A prompt, and one token after the other, each with its positions."
    pieces = [TOKENS[:, :prompt], *TOKENS[:, prompt:].split(1, dim=1)]
    return list(zip(pieces, torch.arange(TOKENS.shape[1]).split([p.shape[1] for p in pieces])))


@torch.no_grad()
def logits_of(model, use_cache):
    "For each token, or the error that comes in their place. With a cache as the library writes."
    try:
        if not use_cache:
            modules = in_eval_mode(model, decoder(model, model))
            return modules(TOKENS, attention)
        decode = decoder(model, as_decode_step(model, 20))
        if isinstance(as_decode_step(model, 20), nn.Module):
            decode = in_eval_mode(model, decode)
        cache = KVCache(2)
        return torch.cat([decode(piece, cache, at) for piece, at in split()], dim=1)
    except Exception as error:
        return type(error)


def same(ours, theirs):
    if isinstance(ours, type) or isinstance(theirs, type):
        return ours is theirs
    return ((ours - theirs).norm() <= 1e-3 * theirs.norm()).item()


# ---------------------------------------------------------------- what is done to a part


def changed(value):
    "Another result of a function."
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return 1.5 * value + 0.1
    return value[::-1] if isinstance(value, list) else value


def another(function):
    return lambda *args, **options: changed(function(*args, **options))


def identity(model, name, part, undo):
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, nn.Identity())


def no_bias(model, name, part, undo):
    part.bias = None


def a_bias(model, name, part, undo):
    part.bias = nn.Parameter(torch.linspace(-1, 1, len(part.weight)))


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


class DropWhileTraining(nn.Module):
    def forward(self, weight):
        return nn.functional.dropout(weight, 0.5, self.training)


def parametrized(make, model, name, part, undo):
    register_parametrization(part, "weight", make())
    model.train()


def spectral(model, name, part, undo):
    spectral_norm(part, "weight")


def hook(model, name, part, undo):
    part.register_forward_hook(lambda part, args, output: changed(output))


def hook_before(model, name, part, undo):
    part.register_forward_pre_hook(lambda part, args: (changed(args[0]), *args[1:]))


def hook_on_all(model, name, part, undo):
    kind = type(part)

    def see(module, args, output):
        return changed(output) if type(module) is kind else None

    undo.enter_context(nn.modules.module.register_module_forward_hook(see))


def training(model, name, part, undo):
    model.eval()
    part.train()


def max_norm(model, name, part, undo):
    part.max_norm = 0.5


def setting(key, value, model, name, part, undo):
    setattr(part, key, value)


def on_object(method, model, name, part, undo):
    setattr(part, method, another(getattr(part, method)))


def on_class(method, model, name, part, undo):
    kind = type(part)
    patch = undo.enter_context(pytest.MonkeyPatch.context())
    patch.setattr(kind, method, another(getattr(kind, method)))


def changes(part):
    "What can be done to a part, by name."
    kind = type(part)
    table = dict(identity=identity, hook=hook, before=hook_before, everywhere=hook_on_all)
    table["training"] = training
    if getattr(part, "bias", 0) is None:
        table["a bias"] = a_bias
    if isinstance(getattr(part, "bias", None), nn.Parameter):
        table["no bias"] = no_bias
    if isinstance(part, (nn.Linear, nn.LayerNorm, nn.Embedding)) and len(kind.__mro__) < 4:
        table["parametrized"] = partial(parametrized, Double)
        table["parametrized in training"] = partial(parametrized, DropWhileTraining)
    if isinstance(part, nn.Linear) and len(kind.__mro__) < 4:
        table["spectral"] = spectral
    if isinstance(part, nn.Embedding):
        table["max_norm"] = max_norm
    for key, value in dict(eps=0.5, activation=torch.tanh, scale=3.0, d_k=2).items():
        if key in vars(part):
            table[key] = partial(setting, key, value)
    methods = {"forward": None, **known_parts.METHODS.get(kind, {})}
    for method in methods:
        if method not in known_parts.EVERY_CALL:
            table[f"{method} of the object"] = partial(on_object, method)
            table[f"{method} of the class"] = partial(on_class, method)
    return table


def where(kind):
    "A model that has such a part, and the last of its names."
    for make in (*MODELS.values(), UNPROJECTED):
        names = [n for n, part in make().named_modules() if known_parts._kind(part) is kind]
        if names:
            return make, names[-1]
    raise LookupError(kind)


@pytest.mark.parametrize("kind", sorted(known_parts.KNOWN, key=str), ids=lambda k: k.__name__)
def test_a_changed_part(kind):
    make, name = where(kind)
    different = []
    for what, change in changes(make().get_submodule(name)).items():
        model = make()
        with ExitStack() as undo:
            change(model, name, model.get_submodule(name), undo)
            ours = logits_of(model, use_cache=True)  # first, as max_norm writes what it reads
            theirs = logits_of(model, use_cache=False)
        if not same(ours, theirs):
            different.append(what)
    assert different == []


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_an_unchanged_model_is_written_out(make):
    model = make()
    step = as_decode_step(model, 20)
    cache = KVCache(2)
    with torch.no_grad():
        decode = decoder(model, step)
        for piece, at in split()[:2]:
            decode(piece, cache, at)
    assert step.compared


# ---------------------------------------------------------------- what a cache calls


def halved(*args, **options):
    return attention(*args, **options) / 2


class Wrapped:
    "As the course wraps functions."

    window = None

    def __init__(self, attend):
        self.attend = attend

    def __call__(self, *args, **options):
        return self.attend(*args, **options) / 2


class OtherLayer(LayerCache):
    def __call__(self, *args, **options):
        return super().__call__(*args, **options) / 2


class Forgetful(KVBuffer):
    def update(self, k, v):
        k, v = super().update(k, v)
        return k[:, :, -3:], v[:, :, -3:]


def with_layers(make):
    cache = KVCache(2)
    cache[:] = [make(i) for i in range(2)]
    return cache


def forgetful(i):
    layer = LayerCache()
    layer.buffer = Forgetful()
    return layer


class OtherCache(KVCache):
    "Nothing that the step reads is another."


def on_static(change):
    cache = StaticCache(2, 40)
    change(cache)
    return cache


ATTENDS = {
    "attention": attention,
    "partial": partial(attention),
    "a window": SlidingWindow(3),
    "windows": SlidingWindow(5, SlidingWindow(3)),
    "a recorder": Recorder(lambda weights: None),
    "a recorder in a window": SlidingWindow(3, Recorder(lambda weights: None)),
    "own": halved,
    "wrapped": Wrapped(attention),
}
CACHES = {
    "whole": lambda attend: KVCache(2, attend=attend),
    "window": lambda attend: KVCache(2, 4, attend),
    "one window": lambda attend: with_layers(lambda i: LayerCache(attend, [None, 4][i])),
    "other windows": lambda attend: with_layers(lambda i: LayerCache(attend, [3, 4][i])),
    "other layers": lambda attend: with_layers(lambda i: OtherLayer(attend)),
    "forgetful": lambda attend: with_layers(forgetful),
    "an heir": lambda attend: OtherCache(2, attend=attend),
    "fixed": lambda attend: StaticCache(2, 40),
}


@torch.no_grad()
def read(decode, cache):
    try:
        return torch.cat([decode(piece, cache, at) for piece, at in split()], dim=1)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_what_a_cache_calls_is_called(make):
    model = make()
    different = []
    for kind, cache in CACHES.items():
        for name, attend in ATTENDS.items():
            ours = read(decoder(model, DecodeStep(model)), cache(attend))
            theirs = read(decoder(model, model), cache(attend))
            if not same(ours, theirs):
                different.append((kind, name))
    assert different == []


def test_a_recorder_sees_every_call():
    model = language_model()
    calls = []
    cache = KVCache(2, attend=Recorder(lambda weights: calls.append(weights.shape)))
    read(DecodeStep(model), cache)
    assert len(calls) == 2 * 7  # layers, and calls of the model


def test_beams_see_the_window_of_their_cache():
    for seed in range(10):
        model = loud(language_model(positions="rotary"), seed)
        how = dict(num_beams=3, max_new_tokens=20, eos_token_ids=None)
        ours = beam_search(model, [5, 6, 7], cache=KVCache(2, attend=SlidingWindow(3)), **how)
        modules = lambda *args: model(*args)
        theirs = beam_search(modules, [5, 6, 7], cache=KVCache(2, attend=SlidingWindow(3)), **how)
        assert [text for text, _ in ours] == [text for text, _ in theirs]


# ---------------------------------------------------------------- a model that changes


def ablated(model):
    model.stack.blocks[1].ff = nn.Identity()


def moved(model):
    model.stack.blocks[0].ff.w_in.weight.data = torch.ones(24, 16)


def patched(model):
    model.stack.blocks[0].forward = another(model.stack.blocks[0].forward)


def without_a_bias(model):
    del model.stack.blocks[0].attention.w_o.bias
    model.stack.blocks[0].attention.w_o.bias = None


def watched(model):
    model.stack.blocks[1].register_forward_hook(lambda part, args, output: changed(output))


def flipped(model):
    model.stack.blocks[1].__class__ = PostNormBlock


@pytest.mark.parametrize(
    "change",
    [
        partial(loud, seed=1),
        ablated,
        moved,
        patched,
        without_a_bias,
        watched,
        flipped,
        lambda model: model.double(),
        lambda model: model.load_state_dict(language_model().state_dict(), assign=True),
    ],
)
@pytest.mark.parametrize("prompt", [1, 3])
@torch.no_grad()
def test_from_a_change_on_the_changed_model_writes(change, prompt):
    "As the modules would with the same cache, whose old keys are those of the old model."
    pieces = split(prompt)
    found = []
    for how in (lambda model: as_decode_step(model, 20), lambda model: model):
        model = language_model()
        decode = how(model)
        cache = KVCache(2)
        logits = [decode(piece, cache, at) for piece, at in pieces[:4]]
        change(model)
        try:
            logits += [decode(piece, cache, at) for piece, at in pieces[4:]]
            logits += [decode(TOKENS, KVCache(2))]  # another text
            again = KVCache(2)
            logits += [decode(piece, again, at) for piece, at in pieces]
            found.append(torch.cat(logits, dim=1))
        except Exception as error:
            found.append(type(error))
    assert same(*found)


def test_a_change_of_each_kind_is_seen():
    for change in (ablated, moved, patched, without_a_bias, watched, flipped):
        model = language_model()
        snapshot = known_parts.Snapshot(model)
        assert snapshot.holds()
        change(model)
        assert not snapshot.holds(), change


def test_after_a_change_the_next_text_is_written_out_again():
    model = language_model()
    step = DecodeStep(model)
    assert read(step, KVCache(2)) is not None and step.compared
    loud(model, seed=1)
    ours = read(step, KVCache(2))
    assert step.compared and same(ours, model(TOKENS))


def fused(optimizer, model):
    model(TOKENS).sum().backward()
    optimizer(model.parameters(), lr=0.1, fused=True).step()


def in_inference_mode(change, model):
    with torch.inference_mode():
        change(model)


def louder(model):
    torch._foreach_mul_(list(model.parameters()), 1.5)


def behind(model):
    model.stack.blocks[1].ff.w_in.weight.data.numpy()[0, 0] += 1.0


UNCOUNTED = {  # changes that move no version of a weight
    "fused AdamW": partial(fused, torch.optim.AdamW),
    "fused SGD": partial(fused, torch.optim.SGD),
    "inference mode": partial(in_inference_mode, louder),
    "weights loaded": partial(in_inference_mode, lambda m: m.load_state_dict(OTHER)),
    "one number, by NumPy": behind,
}
OTHER = loud(language_model(positions="rotary"), seed=5).state_dict()


def new_model(change):
    "A model; for changes in inference mode one whose weights were made in it."
    with torch.inference_mode("mode" in change or "loaded" in change):
        return language_model(positions="rotary")


@pytest.mark.parametrize("prompt", [1, 3])
@pytest.mark.parametrize("change", UNCOUNTED)
def test_a_fresh_text_sees_what_moves_no_version(change, prompt):
    model = new_model(change)
    step = DecodeStep(model)
    read(step, KVCache(2))
    UNCOUNTED[change](model)
    with torch.no_grad():
        cache = KVCache(2)
        ours = torch.cat([step(piece, cache, at) for piece, at in split(prompt)], dim=1)
        assert step.compared and same(ours, model(TOKENS))


@pytest.mark.parametrize("change", UNCOUNTED)
def test_a_long_text_looks_now_and_then(change):
    model = new_model(change)
    step = DecodeStep(model)
    cache = KVCache(2)
    tokens = torch.randint(4, 30, (1, 66), generator=torch.Generator().manual_seed(0))

    def read_on(reader, cache, end):
        with torch.no_grad():
            while cache.length < end:
                at = cache.length
                logits = reader(tokens[:, at : at + 1], cache, cache.positions(1))
        return logits

    read_on(step, cache, 60)
    UNCOUNTED[change](model)
    read_on(step, cache, 64)
    before = copy.deepcopy(cache)
    assert step.compared
    ours = read_on(step, cache, 65)  # here it looks
    assert not step.compared and same(ours, read_on(model, before, 65))
    step.read = None
    with pytest.raises(TypeError):
        read_on(step, cache, 66)  # and the modules go on


def test_the_same_step_compares_each_text_unless_it_need_not_watch(monkeypatch):
    compared = []
    plain = DecodeStep.compare_last
    monkeypatch.setattr(
        DecodeStep, "compare_last", lambda *args: compared.append(1) or plain(*args)
    )
    model = language_model()
    for watch, times in ((True, 3), (False, 1)):
        compared.clear()
        step = DecodeStep(model, watch=watch)
        for _ in range(3):
            read(step, KVCache(2))
        assert len(compared) == times


def test_a_stream_goes_on_with_changed_weights():
    texts = []
    for use_cache in (True, False):
        model = language_model(positions="rotary", n_layers=1)
        loud(model)
        with torch.no_grad():  # a token says alone what follows, so that no old key matters
            model.stack.blocks[0].attention.w_o.weight.zero_()
        columns = stream(model, [[5, 6]], 30, GREEDY, use_cache=use_cache, **FREE)
        text = [next(columns) for _ in range(9)]
        with torch.no_grad():
            model.head.weight.copy_(model.head.weight.roll(7, dims=0))
        texts.append(text + list(columns))
    assert texts[0] == texts[1]


# ---------------------------------------------------------------- what it takes, and what it says


class Kerple(DistanceBias):
    "A scheme of a reader's own."

    def __init__(self):
        super().__init__(4)
        self.rate = nn.Parameter(torch.rand(4))

    def by_distance(self, distance):
        return -self.rate.view(-1, *[1] * distance.ndim) * torch.log1p(-distance.float())


class WithOtherBias(Kerple):
    def bias(self, T, S, device=None):
        return 2 * super().bias(T, S, device)


def test_an_own_bias_by_distance_is_written_out():
    model = language_model(positions="alibi")
    model.stack.rotary = Kerple()
    step = as_decode_step(model, 20)
    ours = read(step, KVCache(2))
    assert step.compared and same(ours, model(TOKENS))
    model.stack.rotary = WithOtherBias()
    assert as_decode_step(model, 20) is model


def test_what_nobody_foresaw_is_found_by_comparing(monkeypatch, caplog):
    model = language_model()
    rows = [[5, 6, 7]]
    right = generate(model, rows, 20, GREEDY, **FREE)
    for wrong in (lambda self, x: x @ self.weight, lambda self, x: 1 / 0):
        monkeypatch.setattr("former_nb.decoding.decode_step.Product.__call__", wrong)
        caplog.clear()
        assert generate(model, rows, 20, GREEDY, **FREE) == right
        assert "the step differs" in caplog.text


@pytest.mark.parametrize("window", [None, 1, 3])
@torch.no_grad()
def test_where_it_differs_the_cache_is_that_of_the_modules(window, monkeypatch):
    model = language_model(positions="rotary")
    monkeypatch.setattr(
        "former_nb.decoding.decode_step.Product.__call__", lambda self, x: x @ self.weight
    )
    ours = read(DecodeStep(model), KVCache(2, window))
    assert same(ours, read(model, KVCache(2, window)))


# ---------------------------------------------------------------- where a text is


def look(function):
    "As a reader wraps what attends."
    return lambda *args, **options: function(*args, **options)


class Look:
    def __init__(self, function):
        self.function = function

    def __call__(self, *args, **options):
        return self.function(*args, **options)


WRAPS = {
    "as they are": lambda layer: layer,
    "a function": look,
    "an object": Look,
    "options": lambda layer: partial(layer),
    "two": lambda layer: look(Look(layer)),
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@torch.no_grad()
def test_caches_inside_functions_say_what_a_cache_says(make):
    "Positions are given, and nobody asks a function where it is."
    model = make()
    decode = decoder(model, model)
    whole = decode(TOKENS, attention)
    for wrap in WRAPS.values():
        assert same(read(decode, [wrap(layer) for layer in KVCache(2)]), whole)
    for attend in (look(attention), [Look(attention)] * 2, KVCache(2, attend=look(attention))):
        assert same(decode(TOKENS, attend), whole)


@pytest.mark.parametrize("wrap", WRAPS.values(), ids=WRAPS)
@pytest.mark.parametrize("name", ["learned", "sinusoidal", "rotary", "alibi", "relative"])
def test_a_loop_writes_the_same_with_caches_inside_functions(name, wrap):
    model = MODELS[name]()
    prompts = TOKENS[:, :5]
    right = decoding.generate(model, prompts, 20)
    for write in (decoding.generate, generate):
        cache = [wrap(layer) for layer in KVCache(2)]
        assert write(model, prompts, 20, cache=cache).equal(right)
