"""Your `attend` inside the models of Hugging Face's Transformers, without conversion.

`use_attend(model, attend)` puts a function such as `attention` where a model of theirs attends. All
else stays theirs: weights, positions, cache, masks, training. `former_nb.inspection.recording` sees
what the function does there. The deep dive *Your attention in everybody's model* derives it.

Transformers has a table of attention functions, and the configuration of a model names one of them.
We register one name, whose function looks up the `attend` of the layer that calls it. So two models
may attend in two ways at once, also in two threads. A configuration may be shared by models, so
within a use each part of the model has a copy of its own, and afterwards it gets back the old one.

What an `attend` has no argument for is expressed by what it has:

- Heads that share keys and values get copies of them.
- Another scale than 1 / √d_k is multiplied into the queries, where `attend` takes no `scale`.
- Padding, a sliding window, or chunks are a boolean mask. A bias for the distance, as T5 has it, is
  a mask of numbers to add.
- A sink, a score that takes weight and gives nothing, is one more key of zeros with a value of
  zeros. Its score is a number in the mask.

A query of a pad may have no key. It gets all of them, since nobody reads what it says, and an
`attend` by a plain softmax would make it NaN. What can't be expressed so is dropout of weights, and
a cap on scores as in Gemma 2. They are handed to an `attend` with an argument `dropout` or
`softcap`, and refused by any other.
"""

import inspect
from collections.abc import Callable
from copy import deepcopy

import torch
from torch import nn

from ..attention.dot_product import repeat_kv
from ..attention.fused import full_mask, merge_masks
from ..base.guards import check_that, check_type

__all__ = [
    "Attended",
    "attends_of",
    "use_attend",
]

NAME = "former_nb"  # in their tables
INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # their table, as their layers call it


# ---- one call


def _add_sinks(q, k, v, mask, sinks):
    "Keys, values and a mask with one more key, which takes weight by its score and gives nothing."
    B, h, T, _ = q.shape
    S = k.shape[2]
    scores = q.new_zeros(B, h, T, S)
    if mask is not None:
        scores = merge_masks(mask.expand(B, h, T, S), scores)
    column = sinks.to(q.dtype).view(1, h, 1, 1).expand(B, h, T, 1)
    k = torch.cat([k, k.new_zeros(B, h, 1, k.shape[3])], dim=2)
    v = torch.cat([v, v.new_zeros(B, h, 1, v.shape[3])], dim=2)
    return k, v, torch.cat([scores, column], dim=3)


class Attended:
    "An `attend` that takes the arguments of Transformers' attention functions."

    def __init__(
        self,
        attend: Callable,  # as `attention`
    ):
        self.attend = attend
        self.takes = set(inspect.signature(attend).parameters)

    def _options(self, layer, scaling, dropout, softcap):
        "The arguments beyond masks, all of which `attend` takes."
        options = {"dropout": dropout or None, "softcap": softcap, "scale": scaling}
        options = {name: value for name, value in options.items() if value is not None}
        for name, value in options.items():
            expected = f"a function with an argument {name}, as {layer} asks for {name} = {value}"
            check_that(name in self.takes, "attend", expected, sorted(self.takes))
        return options

    def __call__(
        self,
        layer: nn.Module,  # that attends
        q: torch.Tensor,  # (B, h, T, d_k)
        k: torch.Tensor,  # (B, g, S, d_k)
        v: torch.Tensor,  # (B, g, S, d_v)
        mask: torch.Tensor | None,  # boolean or numbers to add, (B, 1, T, S) or (B, h, T, S)
        dropout: float = 0.0,  # of the weights
        scaling: float | None = None,  # factor of the scores; 1 / √d_k if left out
        is_causal: bool | None = None,  # if there is no mask; as the layer says if left out
        softcap: float | None = None,  # the largest score
        s_aux: torch.Tensor | None = None,  # a sink for each head, (h,)
        position_bias: torch.Tensor | None = None,  # to add to the scores, (B, h, T, S)
        cache=None,  # of texts that are batched while they come
        **others,  # has its effect elsewhere, as a sliding window that the mask contains
    ) -> tuple[torch.Tensor, None]:  # (B, T, h, d_v), and no weights
        "The output of `attend`, in the form that a layer of Transformers expects."
        check_that(cache is None, "model", "one without a paged cache", type(cache).__name__)
        name = type(layer).__name__
        T, S = q.shape[2], k.shape[2]
        if is_causal is None:
            is_causal = getattr(layer, "is_causal", True)
        is_causal = bool(is_causal) and mask is None and T > 1
        if is_causal and S > T:  # an empty cache of fixed length: the text stands at its start
            k, v, S = k[:, :, :T], v[:, :, :T], T
            position_bias = None if position_bias is None else position_bias[..., :T]
        k, v = repeat_kv(k, q), repeat_kv(v, q)
        if scaling is not None and "scale" not in self.takes:
            factor = scaling * q.shape[3] ** 0.5
            q = q if abs(factor - 1) < 1e-6 else q * factor
            scaling = None
        options = self._options(name, scaling, dropout, softcap)
        if position_bias is not None or s_aux is not None:
            mask = full_mask(q, k, merge_masks(mask, position_bias), is_causal)
            is_causal = False
        if s_aux is not None:
            k, v, mask = _add_sinks(q, k, v, mask, s_aux)
        y = self.attend(q, k, v, mask, is_causal, **options)
        check_type("what attend returns", y, torch.Tensor)
        shape = (*q.shape[:3], v.shape[3])
        check_that(y.shape == shape, "attend", f"a result of shape {shape}", tuple(y.shape))
        return y.transpose(1, 2).contiguous(), None


# ---- their tables


def _attend(layer, q, k, v, mask, **options):
    "The function of our name: what the layer was given last."
    attends = attends_of(layer)
    expected = "a layer of the model that use_attend was given, not one that borrows its config"
    check_that(bool(attends), "model", expected, type(layer).__name__)
    return attends[-1](layer, q, k, v, mask, **options)


def _make_mask(allow_is_causal_skip=True, **options):
    "A boolean mask, or None where `is_causal` says it all; each query has a key."
    from transformers.masking_utils import sdpa_mask

    T = options.get("q_length")
    # elsewhere their `is_causal` begins at the first key, and ours ends at the last
    skip = allow_is_causal_skip and T in (1, options.get("kv_length"))
    mask = sdpa_mask(allow_is_causal_skip=skip, **options)
    return mask if mask is None else mask | ~mask.any(dim=-1, keepdim=True)


def _register():
    "Enter our name in the tables of Transformers. Raises `ImportError` where it is missing."
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError as error:
        message = "use_attend needs transformers 5 or newer: pip install former_nb[course]"
        raise ImportError(message) from error
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, _make_mask)


# ---- models


def _calls_interface(kind):
    "Whether a class of layers looks its attention up in their table."
    methods = [method for _, method in inspect.getmembers(kind, inspect.isfunction)]
    return any(INTERFACE in inspect.unwrap(method).__code__.co_names for method in methods)


def _configured(model):
    "The parts of a model with a configuration of Transformers."
    parts = []
    for part in model.modules():
        if hasattr(vars(part).get("config"), "_attn_implementation"):
            parts.append(part)
    return parts


def _check_layers(model):
    "Raise `ValueError` unless all attention of a model is looked up."
    layers = [part for part in model.modules() if type(part).__name__.endswith("Attention")]
    n_ours = 0
    for layer in layers:
        holds_another = any(part in layers for part in layer.modules() if part is not layer)
        if _calls_interface(type(layer)):
            n_ours += 1
        elif not holds_another:  # BertAttention, say, only wraps BertSelfAttention
            came = f"{type(layer).__name__}, which computes attention by its own code"
            expected = "layers that call the AttentionInterface of Transformers"
            check_that(False, "model", expected, came)
    came = f"{type(model).__name__} without any"
    check_that(n_ours > 0, "model", "layers that call the AttentionInterface", came)


def attends_of(
    layer: nn.Module,
) -> list[Attended]:  # the last is called; empty outside `use_attend`
    "What `use_attend` gave a layer."
    return vars(layer).get("_former_nb_attends", [])


class Use:
    "What `use_attend` returns. `remove()`, or the end of `with`, restores the model."

    def __init__(self, parts: list[nn.Module], attended: Attended):
        self.parts = parts
        self.attended = attended
        copies: dict = {}  # of configurations, which parts of a model share
        for part in parts:
            held = vars(part)
            if not attends_of(part):  # else an outer use has done so
                config = deepcopy(held["config"], copies)
                config._attn_implementation = NAME
                held["_former_nb_config"] = held["config"]
                held["_former_nb_attends"] = []
                held["config"] = config
            held["_former_nb_attends"].append(attended)

    def remove(self) -> None:
        "Take the function out. A second call does nothing."
        for part in self.parts:
            held = vars(part)
            held["_former_nb_attends"].remove(self.attended)
            if not held["_former_nb_attends"]:
                del held["_former_nb_attends"]
                held["config"] = held.pop("_former_nb_config")
        self.parts = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.remove()


def use_attend(
    model: nn.Module,  # of Transformers, or a part of one, or what holds one
    attend: Callable,  # attend(q, k, v, mask, is_causal), as `attention`
) -> Use:  # for `with`, or with a method `remove`
    """Put a function where a model of Hugging Face's Transformers attends.

    It gets q (B, h, T, d_k), k and v (B, h, S, …), a mask that is boolean (True = may attend) or
    holds numbers to add, and `is_causal`. The last function that was put in is called. Within the
    use, the model has copies of its configurations, and what is changed in those is undone, too.
    Raises `ValueError` for a model with attention code of its own, or, when it runs, for a layer
    that drops weights or caps scores if `attend` has no argument `dropout` or `softcap`.
    """
    check_type("model", model, nn.Module)
    check_that(callable(attend), "attend", "a function such as `attention`", attend, TypeError)
    _register()
    parts = _configured(model)
    came = type(model).__name__
    check_that(bool(parts), "model", "a model of Hugging Face's Transformers", came)
    _check_layers(model)
    return Use(parts, Attended(attend))
