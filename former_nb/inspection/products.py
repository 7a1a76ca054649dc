"""What a model computes, as a list of its products with weights.

Whoever wrote a model, each of its products is one operation of PyTorch. So `trace` follows
operations, not modules or names, and keeps what enters each product and what comes out. Products
that read one input count as one part, so three projections q, k and v are a packed one.
"""

from collections.abc import Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..base.core import eval_mode

__all__ = ["Part", "Traced", "without_fast_path", "trace", "run", "type_of"]

aten = torch.ops.aten
PRODUCTS = {  # operation -> which argument is x; the next one is the weight
    aten.mm.default: 0,
    aten.addmm.default: 1,
    aten.bmm.default: 0,
}
KINDS = {  # what happened between two products -> words in the names of its operations
    "attention": ("softmax", "scaled_dot_product"),
    "activation": ("gelu", "relu", "silu", "tanh", "sigmoid", "erf"),
}


@dataclass(eq=False)
class Part:
    "A product with weights, or several that read the same input."

    x: torch.Tensor  # (N, n), what enters; of the embedding the tokens
    before: str  # what happened since the part before: a key of KINDS, or ""
    eps: set  # numbers between 0 and 0.01 there, such as that of a norm
    names: list[str] = field(default_factory=list)  # of the modules that ran
    ys: list[torch.Tensor] = field(default_factory=list)  # each (N, m), what comes out
    weights: list[torch.Tensor] = field(default_factory=list)  # each (n, m)
    place: str = ""  # in words
    entrance: str = ""  # the same for what enters

    @property
    def y(self):
        return torch.cat(self.ys, dim=1)

    @property
    def weight(self):
        return torch.cat(self.weights, dim=1)

    @property
    def reads_tokens(self):
        return not self.x.is_floating_point()

    @property
    def shape(self):
        "The shape by which two parts are aligned."
        return self.reads_tokens, self.x.shape[-1], tuple(self.y.shape)


class Tracer(TorchDispatchMode):
    "Within `with`, it keeps all products that run."

    def __init__(self, model, tokens):
        super().__init__()
        self.parts = []
        self.tokens = tokens
        self.running = [""]  # names of the modules that run, from outside to inside
        self.modules = dict(model.named_modules()) if isinstance(model, nn.Module) else {}
        weights = model.parameters() if self.modules else []
        self.storages = {weight.untyped_storage().data_ptr() for weight in weights}
        self.begin()

    def begin(self):
        "After a product, nothing has happened yet."
        self.happened = ""  # names of operations
        self.eps = set()

    def __enter__(self):
        self.hooks = []
        for name, module in self.modules.items():

            def enter(*_, name=name):
                self.running.append(name)

            self.hooks.append(module.register_forward_pre_hook(enter))
            self.hooks.append(module.register_forward_hook(self.leave))
        return super().__enter__()

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*error)

    def leave(self, *_):
        self.running.pop()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        weight = None
        if operation in PRODUCTS:
            place = PRODUCTS[operation]
            weight = args[place + 1]
            x = args[place].clone()  # a product in place may write over it
        y = operation(*args, **(kwargs or {}))
        if weight is not None and self.is_weight(weight):
            self.keep(rows(x), rows(weight), y)
        elif operation is aten.embedding.default and self.is_tokens(args[1]):
            self.keep(args[1].reshape(-1, 1), args[0], y)
        elif self.adds_bias(operation, args):
            self.parts[-1].ys[-1] = rows(y).clone()
        else:
            self.note(operation, args)
        return y

    def is_tokens(self, ids):
        "Whether an embedding reads the tokens; another one holds positions or segments."
        return ids.shape == self.tokens.shape and torch.equal(ids, self.tokens)

    def is_weight(self, weight):
        "Whether a product has a matrix for all rows. Attention's has one for each text and head."
        if weight.ndim == 2:
            return True
        return len(weight) == 1 and weight.untyped_storage().data_ptr() in self.storages

    def keep(self, x, weight, y):
        "A new part, or one more product of the part that reads the same input."
        if not self.parts or not torch.equal(self.parts[-1].x, x):
            self.parts.append(Part(x, self.kind(), self.eps))
            self.begin()
        part = self.parts[-1]
        part.names.append(self.running[-1])
        part.ys.append(rows(y).clone())
        part.weights.append(weight)

    def kind(self):
        "What happened since the part before: a key of KINDS, or an empty text."
        for kind, words in KINDS.items():
            if any(word in self.happened for word in words):
                return kind
        return ""

    def adds_bias(self, operation, args):
        "Whether a vector is added to what came out of the latest product."
        if operation not in (aten.add.Tensor, aten.add_.Tensor) or not self.parts:
            return False
        product = self.parts[-1].ys[-1].flatten()
        is_vector = isinstance(args[1], torch.Tensor) and args[1].ndim == 1
        return is_vector and torch.equal(args[0].flatten(), product)

    def note(self, operation, args):
        "Something between two products."
        self.happened += f"{operation} "
        for number in args:
            if type(number) is float and 0 < number < 0.01:
                self.eps.add(float(f"{number:.4g}"))


@dataclass
class Traced:
    "What a model computed."

    parts: list[Part]
    y: torch.Tensor  # (N, m), the output


@contextmanager
def without_fast_path():
    """Within `with`, PyTorch's encoders call their modules. Their fast path goes around them and
    makes one operation of a whole layer."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def trace(
    model,  # a module or a function
    inputs,  # a tuple of arguments or a dict of them
) -> Traced:  # each part with its place in words
    "Run a model as it is and keep what enters and leaves its products."
    inputs = inputs_for(model, inputs)
    tokens = tree_leaves(inputs)[0]
    with without_fast_path(), torch.no_grad(), Tracer(model, tokens) as tracer:
        y = output(model, inputs)
    name_places(tracer.parts)
    return Traced(tracer.parts, y)


@torch.no_grad()
def run(
    model,  # a module or a function
    inputs,  # a tuple of arguments or a dict of them
) -> torch.Tensor:  # (N, m)
    "The output of a model as it is, in eval mode."
    with eval_mode(model) if isinstance(model, nn.Module) else nullcontext():
        return output(model, inputs_for(model, inputs))


def output(model, inputs):
    "The logits, or the first tensor, (N, m)."
    y = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    y = getattr(y, "logits", y)
    tensors = [leaf for leaf in tree_leaves(y) if isinstance(leaf, torch.Tensor)]
    return rows(tensors[0]).clone().cpu()


def inputs_for(model, inputs):
    "The inputs where a module is, floating point numbers in its type; a function takes them as is."
    weights = list(model.parameters()) if isinstance(model, nn.Module) else []
    if not weights:
        return inputs
    device = weights[0].device
    dtype = type_of(model)

    def moved(t):
        return t.to(device, dtype) if t.is_floating_point() else t.to(device)

    return tree_map_only(torch.Tensor, moved, inputs)


def type_of(model) -> torch.dtype:
    "The type of a model's numbers."
    weights = [p for p in model.parameters() if p.is_floating_point()]
    return weights[0].dtype if weights else torch.float32


def rows(t):
    "A tensor as a table: (..., m) -> (N, m)."
    return t.reshape(-1, t.shape[-1])


def name_places(parts):
    "Say of each part what it is, by what comes before and after it."
    attentions = 0
    networks = 0
    for part, following in zip(parts, [*parts[1:], None]):
        after = following.before if following else "the end"
        if after == "attention" and not part.reads_tokens:
            attentions += 1
            part.place = f"q, k, v of attention {attentions}"
            part.entrance = f"what enters attention {attentions}"
        elif after == "activation" and part.before != "activation":
            networks += 1
            part.place = f"the first product of network {networks}"
            part.entrance = f"what enters network {networks}"
        elif after == "the end":
            part.place = "the head"
            part.entrance = "what enters the head"
        elif part.reads_tokens:
            part.place = "the embedding"
        elif part.before == "attention":
            part.place = f"the output of attention {attentions}"
            part.entrance = f"what attention {attentions} computes from q, k, v"
        elif part.before == "activation" and networks:
            part.place = f"the second product of network {networks}"
            part.entrance = f"the activation of network {networks}"
        else:
            part.place = f"the product {part.names[0]}".strip()
            part.entrance = f"what enters {part.place}"
