"""Models and calls that the tests of several ways to write share."""

import warnings
from dataclasses import fields

import torch

from former_nb.attention.fused import attention
from former_nb.attention.mask_patterns import masked_attention, sliding_window_mask
from former_nb.data.tokenization import CharTokenizer
from former_nb.data.tokens import TextTokenizer
from former_nb.decoding import caches, decoding
from former_nb.decoding.sampling import Sampling
from former_nb.models.choices import POSITIONS
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

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


def fed_again(model):
    "A function, which gets no cache: it reads everything at each step."
    return lambda tokens: model.eval()(tokens)


def under(window, T):
    "What a model attends by where it reads `T` tokens at once: its window is a mask."
    if window is None:
        return attention
    return masked_attention(sliding_window_mask(T, window))


NEW = 30  # tokens that are wanted behind 8, of a model with max_len = 16


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


@torch.no_grad()
def by_hand(model, prompts, window, n):
    "The likeliest token n times, all of the text read again for each."
    for _ in range(n):
        T = prompts.shape[1]
        new = model(prompts, under(window, T), torch.arange(T))[:, -1:].argmax(dim=-1)
        prompts = torch.cat([prompts, new], dim=1)
    return prompts


def with_notes(call):
    "What a call gives, and the library's warnings of it; others come as compilers and memory do."
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        found = call()
    return found, [str(note.message) for note in notes if note.category is UserWarning]


COMPILED = ("rotary",)  # a compiled model costs seconds


def goes_on(positions, windowed):
    "Whether a text with these positions grows beyond what the model was built for."
    return {"never": False, "window": windowed, "always": True}[POSITIONS[positions].beyond]


def used(cache):
    language_model()(torch.tensor([[5, 6, 7]]), cache)
    return cache


class WithOwnConfig(torch.nn.Module):
    "A model of a reader's own, whose configuration is none of ours."

    config = {"n_layer": 1}

    def forward(self, tokens):
        return torch.nn.functional.one_hot((tokens + 1) % 9, 9).float()


MODEL = language_model(0)
CAN = [[5, 6], [7]]
LETTERS = CharTokenizer("abcdefghijklmnopqrs")


class Idle(torch.nn.Module):
    "A model that says so if it is asked to work."

    def __init__(self):
        super().__init__()
        self.config, self.weight = MODEL.config, torch.nn.Parameter(torch.zeros(1))

    def forward(self, *args, **kwargs):
        raise AssertionError("the model was run before the input was checked")
