"""What each head of any model attends to.

`record_attention` works by hooks, within `with`, on the models of this course, on
`nn.MultiheadAttention` wherever it is used, and on the models of Hugging Face's Transformers.
Afterwards the model is as it was. `former_nb.inspection.ablation` changes what is recorded here,
and `former_nb.inspection.viewer` shows it.

A head has three names: the *kind* of its layer, the number of the layer among those of its kind,
and its own number, both counted from 1. A model with one stack has layers of kind `self`, one with
two stacks has `encoder`, `decoder` and `cross`.

Our layers never have weights, but they call a function, and a `Recorder` is such a function. It
computes the weights by `attention_weights`, hands them on, and lets another function attend.
Positions and a cache are wrapped around that function and have done their part when it is called.
So `wrap_innermost` puts the recorder inside them, and what it sees are the weights of this layer.
The output is that without a recorder, to the last bit. Hooks nest, since the one that is added last
is the first to see a result.

PyTorch's layer computes weights where it is asked for them, so a hook asks, keeps them, and returns
what the caller wanted. Its encoders call the layer while their fast path is switched off, and then
their output on the padding isn't zero. Transformers returns weights only from its *eager*
attention. A model within `use_attend` calls a function as ours do, and a recorder takes its place.

Each pass replaces what the last one left. While a model decodes with a cache, that is the row of
its newest token.
"""

import inspect
import math
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import nn

from ..attention.fused import attention, attention_weights
from ..attention.multi_head import MultiHeadAttention
from ..base.guards import check_that, check_type
from ..models.parts import ReadMemory
from .products import without_fast_path
from .your_attention import Use, attends_of

__all__ = [
    "AttentionLayer",
    "find_attention",
    "Recorder",
    "watch_torch",
    "record_attention",
    "summarize_heads",
]


# ---- which heads there are


class AttentionLayer(NamedTuple):
    "An attention layer inside a model."

    kind: str  # 'self', or 'encoder', 'decoder' or 'cross' where a decoder reads an encoder
    layer: int  # from 1, among those of its kind
    name: str  # as in `named_modules`
    module: nn.Module
    n_heads: int


_HEAD_COUNTS = ("n_heads", "num_heads", "num_attention_heads", "n_head")  # h, by many names


def _is_ours(module):
    "Whether a layer is the course's, or of a reader's own file: it calls an `attend`."
    names = ("w_q", "w_k", "w_v", "w_o")
    return isinstance(module, MultiHeadAttention) or all(hasattr(module, name) for name in names)


def _is_attention(module):
    if _is_ours(module) or isinstance(module, nn.MultiheadAttention):
        return True
    config = getattr(module, "config", None)
    in_transformers = hasattr(config, "_attn_implementation")
    return in_transformers and type(module).__name__.endswith("Attention")


def _n_heads(module):
    if _is_ours(module) and hasattr(module, "d_k"):
        return module.w_o.in_features // module.d_k  # w_q may have features that only turn
    for owner in (module, getattr(module, "config", None)):
        for name in _HEAD_COUNTS:
            count = getattr(owner, name, None)
            if isinstance(count, int):
                return count
    if _is_ours(module):
        return _heads_it_asks(module)
    raise ValueError(f"model: expected a number of heads, got none from {type(module).__name__}")


def _heads_it_asks(layer):
    "The heads of a reader's layer, whatever it calls their number: it hands them to `attend`."
    found = []

    def note(q, k, v, mask=None, is_causal=False):
        found.append(q.shape[1])
        return q

    x = layer.w_q.weight.new_zeros(1, 1, layer.w_q.in_features)
    texts = (x, x) if "memory" in inspect.signature(layer.forward).parameters else (x,)
    with torch.no_grad():
        layer(*texts, attend=note)
    return found[0]


def _is_cross(name, names):
    if re.search("cross|encoder_attn|EncDec", name):
        return True
    beside = name.removesuffix("multihead_attn") + "self_attn"  # as in nn.TransformerDecoderLayer
    return name.endswith("multihead_attn") and beside in names


def _innermost(names):
    "Those that hold no other: BertAttention, say, only wraps BertSelfAttention."
    inner = []
    for name in names:
        prefix = f"{name}." if name else ""
        if not any(other != name and other.startswith(prefix) for other in names):
            inner.append(name)
    return inner


def find_attention(
    model: nn.Module,  # ours, PyTorch's or Hugging Face's, or a part of one
) -> list[AttentionLayer]:  # in the order of the model
    "Every attention layer of a model. Raises `ValueError` where there is none."
    check_type("model", model, nn.Module)
    modules = {name: part for name, part in model.named_modules() if _is_attention(part)}
    names = _innermost(modules)
    kinds = "layers of former_nb, PyTorch or Transformers"
    check_that(bool(names), "model", f"one with attention, {kinds}", type(model).__name__)
    cross = {name for name in names if _is_cross(name, names)}
    layers: list[AttentionLayer] = []
    counts: dict[str, int] = {}  # kind -> how many layers so far
    for name in names:
        if not cross:
            kind = "self"
        elif name in cross:
            kind = "cross"
        elif re.search(r"(^|\.)encoder\.", name):
            kind = "encoder"
        else:
            kind = "decoder"
        counts[kind] = counts.get(kind, 0) + 1
        module = modules[name]
        layers.append(AttentionLayer(kind, counts[kind], name, module, _n_heads(module)))
    return layers


# ---- recording weights


class Recorder:
    "Attends, and hands the weights of each call to a function. Give it to a layer as `attend`."

    def __init__(
        self,
        keep: Callable,  # is called with the weights (B, h, T, S) of each call
        attend: Callable = attention,  # what gives the output
    ):
        self.keep = keep
        self.attend = attend

    def __call__(
        self,
        q: torch.Tensor,  # (B, h, T, d_k)
        k: torch.Tensor,  # (B, g, S, d_k), or fewer rows for `attend_beams`
        v: torch.Tensor,  # (B, g, S, d_v)
        mask: torch.Tensor | None = None,  # as in `attention`
        is_causal: bool = False,  # as in `attention`
        **options: Any,  # for `attend`; the weights are those before dropout
    ) -> torch.Tensor:  # (B, h, T, d_v)
        "As `attention`."
        capped = options.get("softcap")
        check_that(capped is None, "attend", "scores without a cap, to record weights", capped)
        all_keys = k
        all_masks = mask
        beams = len(q) // max(1, len(k))
        if beams > 1:  # that share a source
            all_keys = k.repeat_interleave(beams, dim=0)
            if mask is not None and len(mask) == len(k):
                all_masks = mask.repeat_interleave(beams, dim=0)
        if hasattr(self.attend, "weights"):  # it compares in its own way
            weights = self.attend.weights(q, all_keys, all_masks, is_causal)
        else:
            scale = options.get("scale")
            weights = attention_weights(q, all_keys, all_masks, is_causal, scale)
        self.keep(weights)
        return self.attend(q, k, v, mask=mask, is_causal=is_causal, **options)


def wrap_innermost(
    attend: Callable,  # a function such as `attention`, or one that is wrapped around it
    wrap: Callable,  # a function -> what takes its place
) -> Callable:  # as `attend`, around `wrap(function)`
    "Put `wrap` around the innermost function, inside of positions and caches."
    if isinstance(attend, partial) and not attend.args:  # options of a function
        return partial(wrap_innermost(attend.func, wrap), **attend.keywords)
    if isinstance(attend, partial) and callable(attend.args[0]):  # positions around a function
        inner, *rest = attend.args
        return partial(attend.func, wrap_innermost(inner, wrap), *rest, **attend.keywords)
    if hasattr(attend, "attend"):  # a cache
        return partial(_call_around, attend, wrap)
    return wrap(attend)


def _call_around(cache, wrap, *args, **kwargs):
    "Call a cache that attends by `wrap` of its function, for this time."
    inner = cache.attend
    cache.attend = wrap_innermost(inner, wrap)
    try:
        return cache(*args, **kwargs)
    finally:
        cache.attend = inner


def _watch_ours(module, see):
    "Hooks on a layer of ours; `see(inputs, y, weights)` gives the y that its caller gets."
    signature = inspect.signature(module.forward)
    weights = []

    def keep(w):  # (B, h, T, S)
        weights.append(w)

    def ask(module, args, kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        memory = bound.arguments.get("memory")
        read = isinstance(memory, ReadMemory)  # which says by itself how it is attended to
        attend = memory.attend if read else bound.arguments["attend"]
        watched = wrap_innermost(attend, partial(Recorder, keep))
        if read:
            bound.arguments["memory"] = memory._replace(attend=watched)
        else:
            bound.arguments["attend"] = watched
        return bound.args, bound.kwargs

    def answer(module, args, y):
        return see(args, y, weights.pop())

    yield module.register_forward_pre_hook(ask, with_kwargs=True)
    yield module.register_forward_hook(answer, prepend=True)


def watch_torch(
    module: nn.MultiheadAttention,
    see: Callable,  # of the arguments by name, the output, and the weights (B, h, T, S)
) -> Iterator:  # handles of hooks, one after another
    "Hooks by which the layer's caller gets what `see` returns for an output."
    signature = inspect.signature(module.forward)
    calls = []

    def ask(module, args, kwargs):
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        calls.append(bound.arguments)
        changed = dict(bound.arguments, need_weights=True, average_attn_weights=False)
        return (), changed

    def answer(module, args, result):
        call = calls.pop()
        y, weights = result  # (B, h, T, S), or without B
        y = see(call, y, weights if weights.ndim == 4 else weights[None])
        if not call["need_weights"]:
            return y, None
        if call["average_attn_weights"]:
            weights = weights.mean(dim=-3)
        return y, weights

    yield module.register_forward_pre_hook(ask, with_kwargs=True)
    yield module.register_forward_hook(answer, prepend=True)


def _watch_theirs(module, see):
    "The same for a layer of Transformers that was told to return its weights."

    def answer(module, args, result):
        y, *others = result
        weights = [t for t in others if isinstance(t, torch.Tensor) and t.ndim == 4]
        name = type(module).__name__
        check_that(bool(weights), "model", f"weights from {name}, with eager attention", None)
        return (see(args, y, weights[-1]), *others)

    yield module.register_forward_hook(answer, prepend=True)


def _watch_used(module, see):
    "The same for a layer of Transformers within `use_attend`."
    weights = []
    has_sinks = getattr(module, "sinks", None) is not None

    def keep(w):  # (B, h, T, S), or one more key for a sink
        weights.append(w[..., :-1] if has_sinks else w)

    def answer(module, args, result):
        y, *others = result
        return (see(args, y, weights.pop()), *others)

    watched = copy(attends_of(module)[-1])
    watched.attend = Recorder(keep, watched.attend)
    yield Use([module], watched)
    yield module.register_forward_hook(answer, prepend=True)


def _watch(module, see):
    "Hooks on a layer of any kind."
    if attends_of(module):
        return _watch_used(module, see)
    if _is_ours(module):
        return _watch_ours(module, see)
    if isinstance(module, nn.MultiheadAttention):
        return watch_torch(module, see)
    return _watch_theirs(module, see)


@contextmanager
def _eager(model):
    "Within `with`, the models of Transformers compute attention in the way that has weights."
    configs = {}  # by identity: the parts of a model share them
    for part in model.modules():
        config = getattr(part, "config", None)
        if hasattr(config, "_attn_implementation") and not attends_of(part):
            configs[id(config)] = config
    before = [config._attn_implementation for config in configs.values()]
    try:
        for config in configs.values():
            config._attn_implementation = "eager"
        yield
    finally:
        for config, name in zip(configs.values(), before):
            config._attn_implementation = name


@contextmanager
def record_attention(
    model: nn.Module,  # ours, PyTorch's or Hugging Face's, or a part of one
) -> Iterator[dict[str, torch.Tensor]]:  # layer -> weights (B, h, T, S) of a pass, on the CPU
    "Within `with`, keep the weights of every attention layer of `model`, outside it nothing."
    layers = find_attention(model)
    recorded = {}

    def keep(name, inputs, y, weights):
        recorded[name] = weights.detach().cpu()
        return y

    with ExitStack() as hooks, _eager(model), without_fast_path():
        for layer in layers:
            for hook in _watch(layer.module, partial(keep, layer.name)):
                hooks.callback(hook.remove)
        yield recorded


# ---- in two numbers


def summarize_heads(
    model: nn.Module,
    weights: dict,  # from `record_attention`, of one text
) -> pd.DataFrame:  # kind, layer, head, entropy in bits, distance in tokens
    """How widely each head spreads its weights, and how far away they lie, as means over its rows.

    Entropy says how many keys a head spreads over: 2^entropy, were their weights the same.
    """
    rows = []
    for layer in find_attention(model):
        if layer.name not in weights:  # it was not run
            continue
        w = weights[layer.name]
        check_that(len(w) == 1, "weights", "those of one text", f"{len(w)} texts")
        w = w[0].float()
        T, S = w.shape[1:]
        entropy = -torch.special.xlogy(w, w).sum(-1).mean(-1) / math.log(2)  # (h,)
        first = 0 if layer.kind == "cross" else S - T  # with a cache, queries are the last
        apart = torch.arange(S) - torch.arange(first, first + T)[:, None]
        distance = (w * apart.abs()).sum(-1).mean(-1)  # (h,)
        for head in range(layer.n_heads):
            row = {"kind": layer.kind, "layer": layer.layer, "head": head + 1}
            row["entropy"] = entropy[head].item()
            row["distance"] = distance[head].item()
            rows.append(row)
    return pd.DataFrame(rows)
