"""A model that somebody has changed writes one text, whatever it is written with.

A cache keeps what the layers have computed, the written-out step keeps a copy of their weights, and
a static cache has tensors of fixed size. Each of them has to see what was changed, or to refuse.
"""

import pytest
import torch
import torch.nn.functional as F
from model_tools import loud
from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.utils import parametrizations, prune
from torch.nn.utils.parametrize import register_parametrization

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.relative_positions import ALiBi
from former_nb.base.core import eval_mode
from former_nb.data.text import PAD
from former_nb.decoding.beam_search import beam_search
from former_nb.decoding.caches import KVCache, generate, next_tokens
from former_nb.decoding.decode_step import DecodeStep, StaticCache, as_decode_step
from former_nb.decoding.translating import _search
from former_nb.models.config import TransformerConfig
from former_nb.models.fine_tuning import add_low_rank
from former_nb.models.modern_decoder import RMSNorm
from former_nb.models.parts import ScaledEmbedding
from former_nb.models.savable import EncoderDecoder, LanguageModel

V, LONGEST, NEW = 30, 24, 14  # tokens that are written, more than a step needs to pay
SIZES = dict(d_model=16, n_heads=4, n_layers=3, d_ff=24, dropout=0.2)
KINDS = {
    "gelu": dict(),
    "modern": dict(positions="rotary", activation="swiglu", norm="rms", n_kv_heads=2),
    "alibi": dict(positions="alibi", activation="relu"),
    "translator": dict(positions="rotary"),
}


def new_model(kind):
    config = TransformerConfig(V, LONGEST, **(SIZES | KINDS[kind]))
    make = EncoderDecoder if kind == "translator" else LanguageModel
    return loud(make.from_config(config).double())  # in float64 there are no near ties


def stack_of(model):
    "Of a translator the half that writes."
    return model.decoder if isinstance(model, EncoderDecoder) else model.stack


def without_positions(stack, embed):
    stack.rotary = None
    embed.position_embedding = None


def scaled(model):
    "The same vectors, three times as long."
    plain = embed_of(model)
    sizes = *plain.tokens.weight.shape, plain.position_embedding, plain.dropout.p
    other = ScaledEmbedding(*sizes, scale=3.0 * getattr(plain, "scale", 1.0))
    other.tokens = plain.tokens
    name = "tgt_embed" if hasattr(model, "tgt_embed") else "embed"
    setattr(model, name, other.train(model.training))


def embed_of(model):
    return model.tgt_embed if isinstance(model, EncoderDecoder) else model.embed


# ---------------------------------------------------------------- how a text is written

PROMPTS = torch.randint(4, V, (2, 5), generator=torch.Generator().manual_seed(0))
SOURCES = torch.randint(4, V, (2, 6), generator=torch.Generator().manual_seed(1))
SOURCES[1, 4:] = PAD


class Written(list):
    "A text, and the logits that each of its tokens was chosen by."

    def __init__(self):
        super().__init__()
        self.logits = []

    def pick(self, logits):
        self.logits.append(logits.clone())
        return logits.argmax(dim=-1)

    def same(self, other):
        "Whether both texts are the same, and their logits to rounding."
        assert self == other
        assert len(self.logits) == len(other.logits) >= NEW
        return all(
            a.shape == b.shape and torch.allclose(a, b, 1e-6, 1e-6)
            for a, b in zip(self.logits, other.logits)
        )


def written(model, **options):
    text = Written()
    text += generate(model, PROMPTS, NEW, text.pick, **options).tolist()
    return text


@torch.no_grad()
def without_cache(model):
    if not isinstance(model, EncoderDecoder):
        return written(model, use_cache=False)
    found = Written()
    with eval_mode(model):
        for source, row in each_source():
            for _ in range(NEW):
                token = found.pick(model(source, row)[:, -1])
                row = torch.cat([row, token[:, None]], dim=1)
            found += row.tolist()
    return found


def each_source():
    "A source without pads, and the token that its translation begins with."
    for source, start in zip(SOURCES, PROMPTS[:, :1]):
        yield source[source != PAD][None], start[None]


class Noted:
    "A reader of which `found` notes the logits, as `translate` asks for them."

    def __init__(self, reader, found):
        self.reader = reader
        self.found = found

    def decode(self, *args):
        logits = self.reader.decode(*args)
        self.found.logits.append(logits[:, -1].clone())
        return logits


@torch.no_grad()
def with_cache(model, reader=None):
    "As `generate` and `translate` write: by the step where it knows the model."
    if not isinstance(model, EncoderDecoder):
        return written(reader or model)
    free = dict(eos_token_ids=(), suppress_tokens=())
    found = Written()
    with eval_mode(model):
        reader = reader or as_decode_step(model, NEW)
        for source, start in each_source():
            steps = Noted(reader, found)
            [[(row, _)]] = _search(model, source, steps, start[0].tolist(), NEW, 1, **free)
            found.append(row)
    return found


def with_a_static_cache(model):
    step = DecodeStep(model)
    return written(step, cache=StaticCache(len(step.blocks), LONGEST))


# ---------------------------------------------------------------- what is changed


class Scaled(nn.Module):
    "As a parametrization, another weight than the one that is stored."

    def forward(self, weight):
        return 1.5 * weight


class Louder(nn.Module):
    def forward(self, x):
        return 1.5 * x


class Skipped(nn.Module):
    "In the place of a block: nothing, however it is called."

    def forward(self, x, *args, **options):
        return x


class OwnStack:
    "To be mixed into a class of stacks."

    def forward(self, x, *args, **options):
        return super().forward(2 * x, *args, **options)


def louder(module, args, output):
    return 1.5 * output


def louder_before(module, args):
    return (1.5 * args[0], *args[1:])


def mix_in(part, mixin):
    part.__class__ = type("Own", (mixin, type(part)), {})


def own_block(block):
    class Own(type(block)):
        def forward(self, x, *args, **options):
            return super().forward(x, *args, **options) + 0.5 * x

    block.__class__ = Own


def own_part(part):
    class Own(type(part)):
        def forward(self, x, *args, **options):
            return super().forward(x, *args, **options) * 0.5

    part.__class__ = Own


def in_all_modules(register, hook):
    "A hook of PyTorch's for all modules, which asks for linear layers of d_ff inputs alone."

    def asked(module, *args):
        if isinstance(module, nn.Linear) and module.in_features == SIZES["d_ff"]:
            return hook(module, *args)

    return register(asked)


def other_activation(network):
    if not hasattr(network, "activation"):
        raise AttributeError("SwiGLU has one of its own")
    network.activation = F.silu


def without_bias(layer):
    layer.bias = None


def untie(model):
    model.head = nn.Linear(SIZES["d_model"], V, bias=False).double()
    loud(model.head, seed=5)


def tie_again(model):
    untie(model)
    model.head.weight = embed_of(model).tokens.weight


def other_weights(model):
    loud(model, seed=9)


def load_others(model):
    other = loud(new_model(kind_of(model)), seed=7)
    model.load_state_dict(other.state_dict(), assign=True)


def kind_of(model):
    if isinstance(model, EncoderDecoder):
        return "translator"
    positions = type(model.stack.rotary)
    return {Rotary: "modern", ALiBi: "alibi"}.get(positions, "gelu")


def to_float(model):
    model.float().double()  # every number is rounded


def in_place(model):
    with torch.no_grad():
        stack_of(model).blocks[1].attention.w_v.weight.mul_(1.5)


def replace_method(part, name):
    method = getattr(part, name)
    setattr(part, name, lambda x, *args, **options: 1.5 * method(x, *args, **options))


def norm_of_another_kind(block):
    block.norm_ff = loud(RMSNorm(SIZES["d_model"]).double(), seed=3)


CHANGES = {  # what is done with the model, its stack and one block of it
    "a hook on the network": lambda m, s, b: b.ff.register_forward_hook(louder),
    "a hook before the network": lambda m, s, b: b.ff.register_forward_pre_hook(louder_before),
    "a hook on attention": lambda m, s, b: b.attention.register_forward_hook(louder),
    "a hook on the keys": lambda m, s, b: b.attention.w_k.register_forward_hook(louder),
    "a hook on the block": lambda m, s, b: b.register_forward_hook(louder),
    "a hook before a norm": lambda m, s, b: b.norm_ff.register_forward_pre_hook(louder_before),
    "a hook on the last norm": lambda m, s, b: s.norm.register_forward_hook(louder),
    "a hook on the stack": lambda m, s, b: s.register_forward_hook(louder),
    "a hook on the head": lambda m, s, b: m.head.register_forward_pre_hook(louder_before),
    "a hook on the embedding": lambda m, s, b: embed_of(m).register_forward_hook(louder),
    "a hook on all modules": lambda m, s, b: in_all_modules(register_module_forward_hook, louder),
    "a hook before all modules": lambda m, s, b: in_all_modules(
        register_module_forward_pre_hook, louder_before
    ),
    "no network": lambda m, s, b: setattr(b, "ff", nn.Identity()),
    "no norm": lambda m, s, b: setattr(b, "norm_ff", nn.Identity()),
    "no last norm": lambda m, s, b: setattr(s, "norm", nn.Identity()),
    "no positions": lambda m, s, b: without_positions(s, embed_of(m)),
    "a block removed": lambda m, s, b: s.blocks.__delitem__(1),
    "the first block removed": lambda m, s, b: s.blocks.__delitem__(0),
    "one block left": lambda m, s, b: setattr(s, "blocks", s.blocks[:1]),
    "a block twice": lambda m, s, b: s.blocks.append(s.blocks[0]),
    "blocks the other way round": lambda m, s, b: setattr(s, "blocks", s.blocks[::-1]),
    "a block skipped": lambda m, s, b: s.blocks.__setitem__(1, Skipped()),
    "the first block skipped": lambda m, s, b: s.blocks.__setitem__(0, Skipped()),
    "another block": lambda m, s, b: own_block(b),
    "another network": lambda m, s, b: own_part(b.ff),
    "another attention": lambda m, s, b: own_part(b.attention),
    "another norm": lambda m, s, b: own_part(b.norm_attention),
    "another stack": lambda m, s, b: mix_in(s, OwnStack),
    "another head": lambda m, s, b: own_part(m.head),
    "a norm of another kind": lambda m, s, b: norm_of_another_kind(b),
    "a network in a row with more": lambda m, s, b: setattr(b, "ff", nn.Sequential(b.ff, Louder())),
    "a method of the network replaced": lambda m, s, b: replace_method(b.ff, "forward"),
    "a method of attention replaced": lambda m, s, b: replace_method(b.attention, "forward"),
    "the forward of the block replaced": lambda m, s, b: replace_method(b, "forward"),
    "eps of a norm": lambda m, s, b: setattr(b.norm_attention, "eps", 0.5),
    "eps of the last norm": lambda m, s, b: setattr(s.norm, "eps", 0.5),
    "the activation": lambda m, s, b: other_activation(b.ff),
    "the scale of the embedding": lambda m, s, b: scaled(m),
    "queries without a bias": lambda m, s, b: without_bias(b.attention.w_q),
    "values without a bias": lambda m, s, b: without_bias(b.attention.w_v),
    "a parametrization": lambda m, s, b: register_parametrization(b.ff.w_in, "weight", Scaled()),
    "one of the head": lambda m, s, b: register_parametrization(m.head, "weight", Scaled()),
    "weight norm": lambda m, s, b: parametrizations.weight_norm(b.attention.w_q),
    "spectral norm": lambda m, s, b: parametrizations.spectral_norm(b.attention.w_q),
    "pruned": lambda m, s, b: prune.l1_unstructured(b.ff.w_in, "weight", 0.5),
    "of low rank": lambda m, s, b: loud(add_low_rank(m, 2) or m, seed=4),
    "the longest vectors cut": lambda m, s, b: setattr(embed_of(m).tokens, "max_norm", 1.0),
    "a head of its own": lambda m, s, b: untie(m),
    "the head tied again": lambda m, s, b: tie_again(m),
    "rounded to float32": lambda m, s, b: to_float(m),
    "other weights": lambda m, s, b: other_weights(m),
    "weights loaded": lambda m, s, b: load_others(m),
    "a weight changed in place": lambda m, s, b: in_place(m),
    "training": lambda m, s, b: m.train(),
    "one block in training": lambda m, s, b: b.train(),
    "more dropout in training": lambda m, s, b: (setattr(b.dropout, "p", 0.9), b.train()),
    "without gradients": lambda m, s, b: m.requires_grad_(False),
}


def forget_hooks():
    "Take hooks on all modules off."
    torch_module._global_forward_hooks.clear()
    torch_module._global_forward_pre_hooks.clear()


@pytest.fixture
def in_order():
    "No hooks on all modules are left when a test is over."
    yield
    forget_hooks()


def apply(model, kind, change):
    "The model, changed; a kind of model that has nothing to change is left out."
    stack = stack_of(model)
    torch.manual_seed(0)  # spectral norm draws
    try:
        CHANGES[change](model, stack, stack.blocks[1])
    except AttributeError:
        pytest.skip(f"{kind} has nothing of the kind")
    return model


def each_change(kinds):
    "Each change on a part of the models, so that each model has many and the tests take a third."
    pairs = [
        (kind, change)
        for i, change in enumerate(CHANGES)
        for j, kind in enumerate(kinds)
        if (i + j) % min(3, len(kinds)) == 0
    ]
    return pytest.mark.parametrize(("kind", "change"), pairs)


@each_change(KINDS)
def test_a_changed_model_writes_one_text(kind, change, in_order):
    "Each way begins with a model of its own, since a text may change what wrote it."
    text = without_cache(apply(new_model(kind), kind, change))
    forget_hooks()
    assert text.same(with_cache(apply(new_model(kind), kind, change)))
    forget_hooks()
    if kind != "translator":
        model = apply(new_model(kind), kind, change)
        try:
            other = with_a_static_cache(model)
        except ValueError as error:  # the step refuses what it doesn't know
            assert str(error).startswith("model: expected parts"), error
        else:
            assert text.same(other)


@each_change(KINDS)
def test_a_step_that_was_made_before_the_change_writes_that_text_too(kind, change, in_order):
    text = without_cache(apply(new_model(kind), kind, change))
    forget_hooks()
    model = new_model(kind)
    step = DecodeStep(model)
    with_cache(model, step)
    apply(model, kind, change)
    assert text.same(with_cache(model, step))


@each_change(["gelu", "modern"])
def test_beams_are_the_same_with_a_cache(kind, change, in_order):
    found = []
    for use_cache in (False, True):
        model = apply(new_model(kind), kind, change)
        free = dict(eos_token_ids=(3, 4, 5), suppress_tokens=(), use_cache=use_cache)
        found.append(beam_search(model, PROMPTS, 3, NEW, num_return_sequences=3, **free))
        forget_hooks()
    for without, with_one in zip(*found):
        assert [text for text, _ in without] == [text for text, _ in with_one]
        scores = [torch.tensor([score for _, score in each]) for each in (without, with_one)]
        assert torch.allclose(*scores)


@each_change(["gelu", "modern"])
def test_a_change_in_the_middle_of_a_text_is_seen(kind, change, in_order):
    "What is kept of the text stays as it was, so the modules with a cache say what is right."

    def write(by_step):
        model = new_model(kind)
        text = Written()
        reader = DecodeStep(model) if by_step else model.eval()
        steps = next_tokens(reader, PROMPTS, text.pick, KVCache(SIZES["n_layers"]))
        text += [next(steps).tolist() for _ in range(5)]
        apply(model, kind, change)
        if not by_step:
            model.eval()
        try:
            text += [next(steps).tolist() for _ in range(NEW - 5)]
        except Exception as error:  # the cache has another number of layers
            text.append(str(error))
            text.logits += [torch.empty(0)] * (NEW - len(text.logits))
        forget_hooks()
        return text

    assert write(by_step=False).same(write(by_step=True))


SILENT = {  # changes after which a model writes what it wrote before
    *("weight norm", "training", "one block in training", "more dropout in training"),
    *("without gradients", "the head tied again"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_changes_are_seen(kind):
    "All others change the logits, so the tests above could fail."
    before = without_cache(new_model(kind))
    same = set()
    for change in CHANGES:
        try:
            text = without_cache(apply(new_model(kind), kind, change))
        except pytest.skip.Exception:
            continue
        finally:
            forget_hooks()
        if torch.stack(text.logits).equal(torch.stack(before.logits)):
            same.add(change)
    assert same <= SILENT
