"""Do two models compute the same, and where do they part first?

A Transformer is products with weights, and what happens between them. Whoever wrote a model, each
product is one operation of PyTorch. So `same` follows operations, not modules or names: in order,
what enters each product and what comes out. The two lists are aligned by shapes, as `diff` aligns
the lines of two texts. Products that read one input count as one part, so three projections q, k
and v are a packed one.

How far rounding may part them is measured. The first model runs in float32 and in float64, and the
other may be `SLACK` times as far from float64. Copies of both run in float32 even where a model has
bfloat16: then both get weights that were rounded to it, and a mistake isn't hidden by the rounding
of each operation. The model as it came has to agree as well, within the rounding of its own type.
"""

import copy
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..base.core import eval_mode
from ..base.guards import check_int, check_that

__all__ = ["Comparison", "same"]

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
ACTIVATIONS: dict[str, Callable] = {
    "GELU": F.gelu,
    "GELU by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "quick GELU": lambda x: x * torch.sigmoid(1.702 * x),
    "ReLU": F.relu,
    "squared ReLU": lambda x: F.relu(x).square(),
    "SiLU": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "no activation": lambda x: x,
}
SLACK = 10  # the other model may round so many times as much as the first
GUESS = 100  # rounding of a function, which has no copy in float64, in units of its type
NEAR = 1e-3  # what explains a difference leaves no more than this share of it


# ---- what a model computes


@dataclass(eq=False)
class Part:
    "A product with weights, or several that read the same input."

    x: torch.Tensor  # (N, n), what enters; of the embedding the tokens
    before: str  # what happened since the part before: a key of KINDS, or ""
    eps: set  # numbers between 0 and 0.01 there, such as that of a norm
    queries: torch.Tensor | None  # what entered attention there, (..., T, d_k)
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
    def shape(self):
        "By which two parts are aligned."
        return self.x.is_floating_point(), self.x.shape[-1], tuple(self.y.shape)


class Trace(TorchDispatchMode):
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
        self.operations = []
        self.eps = set()
        self.queries = None

    def __enter__(self):
        self.hooks = []
        for name, module in self.modules.items():
            self.hooks += [
                module.register_forward_pre_hook(lambda *_, name=name: self.running.append(name)),
                module.register_forward_hook(self.leave),
            ]
        return super().__enter__()

    def __exit__(self, *error):
        for hook in self.hooks:
            hook.remove()
        return super().__exit__(*error)

    def leave(self, *_):
        self.running.pop()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        place = PRODUCTS.get(operation)
        # a product in place may write over what entered
        x = None if place is None else args[place].clone()
        y = operation(*args, **(kwargs or {}))
        if operation is aten.embedding.default and self.reads_tokens(args[1]):
            self.keep(args[1].reshape(-1, 1), args[0], y)
        elif x is not None and self.is_weight(args[place + 1]):
            self.keep(x.reshape(-1, x.shape[-1]), args[place + 1], y)
        elif self.adds_bias(operation, args):
            self.parts[-1].ys[-1] = rows(y)
        else:
            self.note(operation, args)
        return y

    def reads_tokens(self, ids):
        "Whether an embedding reads the tokens; another one holds positions or segments."
        return ids.shape == self.tokens.shape and torch.equal(ids, self.tokens)

    def is_weight(self, weight):
        "Whether a product has a matrix for all rows. Attention's has one for each text and head."
        if weight.ndim == 2:
            return True
        return len(weight) == 1 and weight.untyped_storage().data_ptr() in self.storages

    def keep(self, x, weight, y):
        "A new part, or one more product of the part that reads the same input."
        last = self.parts[-1] if self.parts else None
        joins = last is not None and last.x.shape == x.shape and torch.equal(last.x, x)
        if not joins:
            self.parts.append(Part(x, self.kind(), self.eps, self.queries))
            self.begin()
        part = self.parts[-1]
        part.names.append(self.running[-1])
        part.ys.append(rows(y))
        part.weights.append(weight.reshape(-1, weight.shape[-1]))

    def kind(self):
        for kind, words in KINDS.items():
            if any(word in operation for operation in self.operations for word in words):
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
        name = str(operation)
        self.eps |= {float(f"{n:.4g}") for n in args if type(n) is float and 0 < n < 0.01}
        scores = operation is aten.bmm.default and self.queries is None
        if scores or "scaled_dot_product" in name:
            self.queries = args[0].clone()
        self.operations.append(name)


def rows(y):
    return y.reshape(-1, y.shape[-1]).clone()


def output(model, inputs):
    "The logits, or the first tensor, (N, m)."
    y = model(**inputs) if isinstance(inputs, Mapping) else model(*inputs)
    y = getattr(y, "logits", y)
    y = next(leaf for leaf in tree_leaves(y) if isinstance(leaf, torch.Tensor))
    return rows(y).cpu()


@torch.no_grad()
def run(model, inputs):
    "The output of a model as it is, in eval mode."
    with eval_mode(model) if isinstance(model, nn.Module) else nullcontext():
        return output(model, inputs_for(model, inputs))


def trace(model, inputs):
    "The parts of a model, each with its place in words, and the output."
    inputs = inputs_for(model, inputs)
    tokens = tree_leaves(inputs)[0]
    packed = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # it makes one operation of a whole layer
    try:
        with torch.no_grad(), Trace(model, tokens) as seen:
            y = output(model, inputs)
    finally:
        torch.backends.mha.set_fastpath_enabled(packed)
    name_places(seen.parts)
    return seen.parts, y


def name_places(parts):
    "Say of each part what it is, by what comes before and after it."
    attentions = networks = 0
    for part, following in zip(parts, [*parts[1:], None]):
        after = following.before if following else "the end"
        part.place = f"the product {part.names[0]}".strip()
        part.entrance = f"what enters {part.place}"
        if not part.x.is_floating_point():
            part.place = "the embedding"
        elif part.before == "attention":
            part.place = f"the output of attention {attentions}"
            part.entrance = f"what attention {attentions} computes from q, k, v"
        elif part.before == "activation" and networks:
            part.place = f"the second product of network {networks}"
            part.entrance = f"the activation of network {networks}"
        if after == "attention" and part.x.is_floating_point():
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


# ---- copies, and how far rounding parts them


def inner(model):
    "The module that `torch.compile` has wrapped; anything else as it is."
    return getattr(model, "_orig_mod", model)


def type_of(model):
    "The type of a model's numbers."
    weights = [p for p in model.parameters() if p.is_floating_point()]
    return weights[0].dtype if weights else torch.float32


def copy_of(model, dtype, rounded_to=None, bits=None):
    "A copy in eval mode on the CPU, its weights rounded first."
    other = copy.deepcopy(inner(model))
    with torch.no_grad():
        for weight in other.parameters():
            if weight.is_floating_point() and rounded_to is not None:
                weight.data = weight.data.to(rounded_to).float()
            if bits is not None and weight.ndim == 2:
                top = 2 ** (bits - 1) - 1
                step = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / top
                weight.data = (weight / step).round() * step
    return other.to("cpu", dtype).eval()


def inputs_for(model, inputs):
    "The inputs where a module is, floating point numbers in its type; a function takes them as is."
    weights = list(model.parameters()) if isinstance(model, nn.Module) else []
    if not weights:
        return inputs
    device, dtype = weights[0].device, type_of(model)

    def moved(t):
        return t.to(device, dtype) if t.is_floating_point() else t.to(device)

    return tree_map_only(torch.Tensor, moved, inputs)


def distance(a, exact):
    "The largest difference, in units of the root mean square of what is exact."
    difference = (a.double() - exact.double()).abs().max()
    size = exact.double().square().mean().sqrt().clamp(min=1e-30)
    return float("inf") if difference.isnan() else (difference / size).item()


# ---- the comparison


@dataclass
class Comparison:
    "What `same` found. It is true if both models compute the same output."

    equal: bool
    error: float  # of the output: the largest difference over the root mean square
    rounding: float  # how far rounding moves the first model's, in the same unit
    measured: bool  # against float64; else `rounding` is guessed by the type
    compared: str  # how many parts
    in_float32: tuple[float, float] | None = None  # error and rounding of copies, for bfloat16
    place: str = ""  # the first part that differs, in words; empty if none does
    names: tuple[str, str] = ("", "")  # its modules in the model and in the other
    error_there: float = 0.0
    rounding_there: float = 0.0
    reason: str = ""  # the likely one

    def __bool__(self):
        return self.equal

    def __str__(self):
        how = "rounding makes" if self.measured else "rounding is guessed as"
        far = f"The outputs differ by {self.error:.1e}; {how} {self.rounding:.1e}."
        lines = ["The same." if self.equal else "Not the same."]
        if self.place:
            first = "A part differs without effect" if self.equal else "The first that differs"
            lines[0] += f" {first}: {self.place}."
        if any(self.names):
            lines.append(f"    model    {self.names[0] or '?'}")
            lines.append(f"    other    {self.names[1] or '?'}")
            there = f"{self.error_there:.1e}; {how} {self.rounding_there:.1e} there"
            lines.append(f"    by       {there}")
        if self.reason:
            lines.append(f"    likely   {self.reason}")
        if self.error == float("inf"):  # other shapes, or no numbers
            return "\n".join([*lines, self.compared])
        if self.in_float32:
            error, rounding = self.in_float32
            far += f"\nCopies in float32 differ by {error:.1e}; {how} {rounding:.1e}."
        return "\n".join([*lines, far, self.compared])

    __repr__ = __str__


def same(
    model: Any,  # a module, or a function; the one that is believed to be right
    other: Any,
    inputs,  # tokens (B, T), a tuple of arguments or a dict of them; two rows or more
    other_inputs=None,  # those of the other, if it takes them in another form
    bits: int | None = None,  # of the other's weights, if they are whole numbers, such as 8
) -> Comparison:  # true if both compute the same; prints as a few lines
    """Compare two models: the same within what rounding explains, or the first part that differs,
    by how much, and the likely reason."""
    for name, given in (("model", model), ("other", other)):
        check_that(callable(given), name, "a module or a function", type(given).__name__, TypeError)
    if bits is not None:
        check_int("bits", bits, least=2)
    inputs = as_arguments("inputs", inputs)
    other_inputs = inputs if other_inputs is None else as_arguments("other_inputs", other_inputs)

    modules = [m for m in (model, other) if isinstance(m, nn.Module)]
    # the coarsest type that one of them has
    coarse = max(map(type_of, modules), key=lambda t: torch.finfo(t).eps, default=torch.float32)
    rounded_to = coarse if torch.finfo(coarse).eps > torch.finfo(torch.float32).eps else None
    measured = isinstance(model, nn.Module)
    if measured:
        exact = trace(copy_of(model, torch.float64, rounded_to), inputs)
        rounded = trace(copy_of(model, torch.float32, rounded_to, bits), inputs)
    else:
        exact = rounded = trace(model, inputs)
    if isinstance(other, nn.Module):
        found = trace(copy_of(other, torch.float32, rounded_to), other_inputs)
    else:
        found = trace(other, other_inputs)

    # the other as it came: compiled, on its device, in its type
    y = run(other, other_inputs)
    if not measured:
        own_rounding = GUESS * torch.finfo(y.dtype).eps
    elif rounded_to is None:
        own_rounding = distance(rounded[1], exact[1])
    else:
        own_rounding = distance(run(copy_of(model, coarse), inputs), exact[1])
    shape = tree_leaves(inputs)[0].shape
    compare = Alignment(exact[0], rounded[0], found[0], measured, shape)
    if y.shape != exact[1].shape:
        reason = f"outputs of other shapes, {tuple(exact[1].shape)} and {tuple(y.shape)}"
        result = Comparison(False, float("inf"), own_rounding, measured, compare.counts())
        result.place, result.reason = "the output", reason
        return result
    error = distance(y, exact[1])
    agrees = within(error, own_rounding)
    result = Comparison(agrees, error, own_rounding, measured, compare.counts())
    if len(modules) == 2 and rounded_to is not None:
        result.in_float32 = distance(found[1], exact[1]), distance(rounded[1], exact[1])
        result.equal = agrees and within(*result.in_float32)
    compare.find_first(result)
    return result


def as_arguments(name, inputs):
    "Inputs as a tuple or a dict. Raises `TypeError` where there is no tensor."
    inputs = (inputs,) if isinstance(inputs, torch.Tensor) else inputs
    leaves = tree_leaves(inputs)
    fits = isinstance(inputs, (tuple, list, Mapping))
    fits = fits and leaves and isinstance(leaves[0], torch.Tensor)
    expected = "a tensor, or a tuple or dict that begins with one"
    check_that(fits, name, expected, type(inputs).__name__, TypeError)
    return inputs


def within(error, rounding):
    return error <= SLACK * max(rounding, torch.finfo(torch.float32).eps)


class Alignment:
    "The parts of two models side by side, and where they part first."

    def __init__(self, exact, rounded, found, measured, shape):
        self.exact, self.rounded, self.found = exact, rounded, found
        self.measured = measured
        self.shape = shape  # of the tokens, (B, T)
        shapes = [[part.shape for part in parts] for parts in (exact, found)]
        matcher = SequenceMatcher(None, *shapes, autojunk=False)
        self.pairs = {}  # place in the one list -> place in the other
        for i, j, size in matcher.get_matching_blocks():
            self.pairs |= {i + n: j + n for n in range(size)}
        for i, j in self.pairs.items():
            turn_rows(exact[i], found[j], shape)

    def counts(self):
        "How many parts have a partner, in words."
        kept = len(self.pairs)
        text = f"Compared: {kept} parts of {len(self.exact)} and {len(self.found)}."
        for who, alone in zip(("model", "other"), self.without_partner()):
            if alone:
                names = ", ".join(part.names[0] or "?" for part in alone[:3])
                text += f" Only the {who} has {names}{', …' * (len(alone) > 3)}."
        return text

    def without_partner(self):
        there = set(self.pairs.values())
        return (
            [part for i, part in enumerate(self.exact) if i not in self.pairs],
            [part for j, part in enumerate(self.found) if j not in there],
        )

    def points(self):
        "What enters each pair of parts and what leaves it, in order."
        points = []
        for i, j in self.pairs.items():
            for side in "xy":
                a, b = getattr(self.exact[i], side), getattr(self.found[j], side)
                if a.is_floating_point():
                    rounding = GUESS * torch.finfo(b.dtype).eps
                    if self.measured:
                        rounding = distance(getattr(self.rounded[i], side), a)
                    points.append((i, j, side, a, b, distance(b, a), rounding))
        return points

    def find_first(self, result):
        "Put into `result` where the models part first and the likely reason."
        points = self.points()
        for n, (i, j, side, a, b, error, rounding) in enumerate(points):
            if within(error, rounding) or is_undone(points[n:]):
                continue
            part, other = self.exact[i], self.found[j]
            result.place = part.entrance if side == "x" else part.place
            result.names = in_one(part.names), in_one(other.names)
            result.error_there, result.rounding_there = error, rounding
            previous = (i - 1, j - 1) if self.pairs.get(i - 1) == j - 1 else None
            if i > 0 and j > 0 and previous is None and side == "x":
                result.reason = "a part without a partner comes before it"
            elif side == "y":
                result.reason = why_product(part, other, a, b, self.shape)
            elif part.before == "attention":
                result.reason = why_attention(part, other, a, b, self.shape)
            elif part.before == "activation" and previous:
                before = [self.exact[i - 1].y, self.found[j - 1].y]
                result.reason = why_activation(before, a, b)
            else:
                result.reason = why_entrance(part, other, a, b, self.shape)
            return
        if not result.equal and not result.reason:
            result.reason = "no part that has a partner differs"


def turn_rows(part, other, shape):
    "Where the other has its rows in the order (T, B), as PyTorch's layer, put them into (B, T)."
    if len(shape) < 2 or len(other.x) != shape[0] * shape[1]:
        return

    def turned(t):
        return t.unflatten(0, (shape[1], shape[0])).transpose(0, 1).flatten(0, 1)

    if distance(turned(other.x), part.x) < distance(other.x, part.x):
        other.x = turned(other.x)
        other.ys = [turned(y) for y in other.ys]


def in_one(names):
    "Names of modules, with what they begin with once: 'attention.w_q, w_k'."
    begin, dot, last = names[0].rpartition(".")
    if not all(name.startswith(begin + dot) for name in names):
        return ", ".join(names)
    return ", ".join([names[0], *(name[len(begin + dot) :] for name in names[1:])])


def is_undone(points):
    "Whether numbers are only in another order, and what is computed of them agrees again."
    for _, _, _, a, b, error, rounding in points:
        if within(error, rounding):
            return True
        if not is_reordered(a, b):
            return False
    return False


# ---- the likely reason: the simplest change that explains the difference


def explains(explained, a, b):
    "Whether `explained`, made of a, is b up to a small share of what they differ by."
    a, b, explained = a.double(), b.double(), explained.double()
    return bool((explained - b).norm() <= NEAR * (a - b).norm())


def is_reordered(a, b):
    "Whether each row of b holds the numbers of a in another order."
    in_order = [t.double().sort(dim=1).values for t in (a, b)]
    return distance(in_order[1], in_order[0]) <= NEAR * distance(b, a)


def why_rows(a, b, shape):
    "The positions that differ, in words, if others don't; (B * T, n) of tokens (B, T)."
    B, T = shape[:2] if len(shape) > 1 else (1, shape[0])
    if len(a) != B * T:
        return ""
    differs = (a - b).abs().amax(dim=1).reshape(B, T)
    differs = differs > NEAR * differs.max()  # (B, T)
    places = differs.any(dim=0).nonzero().flatten().tolist()
    if B > 1 and len(places) < T and torch.equal(differs, differs[:1].expand(B, T)):
        which = ", ".join(map(str, places[:4])) + ", …" * (len(places) > 4)
        return f"only position {which} of each text differs: the table of positions"
    return ""


def why_product(part, other, a, b, shape):
    "Why other numbers come out of a product that reads the same."
    if not part.x.is_floating_point():
        tokens = part.x[(a - b).abs().amax(dim=1) > NEAR * (a - b).abs().max()].unique()
        which = ", ".join(map(str, tokens[:4].tolist())) + ", …" * (len(tokens) > 4)
        return f"the vector of token {which}"
    pieces = max(part.ys, other.ys, key=len)
    names = (part if len(part.ys) >= len(other.ys) else other).names
    widths = [piece.shape[1] for piece in pieces]
    weights = zip(names, part.weight.split(widths, 1), other.weight.split(widths, 1))
    for name, w, v in weights:
        square = w.shape[0] == w.shape[1]
        if square and distance(v, w.T) < NEAR and distance(v, w) > NEAR:
            return f"the weight of {name} is transposed"
    if is_reordered(a, b):
        return "the same numbers in another order: heads, halves or pairs are laid out otherwise"
    where = features(a, b, names, widths)
    difference = b.double() - a.double()
    if explains(a + difference.mean(dim=0), a, b):
        return f"a bias: every row differs by the same vector, {where}"
    factor = (a * b).sum() / (a * a).sum()
    if explains(a * factor, a, b):
        return f"all numbers are {factor.item():.4g} times as large"
    return f"other weights: {where}"


def features(a, b, names, widths):
    "Which columns of a product differ, in words."
    largest = (a - b).abs().amax(dim=0)
    wrong = largest > NEAR * largest.max()
    found = []
    for name, piece in zip(names, wrong.split(widths)):
        if piece.any():
            found.append(f"{piece.sum().item()} of {len(piece)} features of {name or '?'}")
    return " and ".join(found)


def why_activation(before, a, b):
    "Which functions make a and b of what came before."
    names = []
    for pre, post in zip(before, (a, b)):
        name = activation_of(pre.double(), post.double())
        if name is None:
            return "the activation; none of those that are known explains it"
        names.append(name)
    return f"another activation: {names[0]} in the model, {names[1]} in the other"


def activation_of(pre, post):
    "The name of the function from `pre` (N, m) to `post`, (N, m) or gated (N, m / 2)."
    for name, function in ACTIVATIONS.items():
        made = [function(pre)]
        if pre.shape[1] == 2 * post.shape[1]:
            gate, up = pre.chunk(2, dim=1)
            made = [function(gate) * up, function(up) * gate]
        for y in made:
            if y.shape == post.shape and distance(post, y) < 1e-5:
                return name
    return None


def why_attention(part, other, a, b, shape):
    "Why attention differs that reads the same q, k and v; a and b (B * T, m)."
    B, T = shape[:2] if len(shape) > 1 else (1, shape[0])
    q, r = part.queries, other.queries
    if q is not None and r is not None and q.numel() == r.numel():
        reason = why_queries(q, r, B)
        if reason:
            return reason
    if len(a) != B * T:
        return "mask, scale or the heads of keys and values; the queries agree"
    differs = (a - b).abs().reshape(B, T, -1).amax(dim=(0, 2))
    agree = differs <= NEAR * differs.max()  # (T,)
    if agree[-1] and not agree[0]:
        return "a mask: the last position agrees, earlier ones see more or less of what follows"
    if agree[0] and not agree[-1]:
        return "scale, keys or a mask: the first position agrees, later ones do not"
    return "mask, scale or the heads of keys and values; the queries agree"


def why_queries(q, r, B):
    "What happened to queries on their way into attention; empty if they agree."
    T = q.shape[-2]
    q, r = (per_head(t, B) for t in (q, r))  # each (B, h, T, d_k)
    if q.shape != r.shape:
        return f"another number of heads, {q.shape[1]} and {r.shape[1]}"
    if distance(r, q) < 1e-4:
        return ""
    mixed = [t.transpose(1, 2).reshape(B * T, -1) for t in (q, r)]
    if is_reordered(*mixed):
        return "heads are split otherwise: the queries are the same numbers in another order"
    if distance(r.norm(dim=-1), q.norm(dim=-1)) < 1e-4:
        return why_turned(q, r)
    if T > 1 and distance(r[:, :, :1], q[:, :, :1]) < 1e-4:
        return "positions: the first queries agree, later ones do not"
    return "the queries change on their way into attention: a norm or positions"


def why_turned(q, r):
    "Queries of the same lengths: which rotation differs."
    half = [t.unflatten(-1, (2, -1)).norm(dim=-2) for t in (q, r)]  # pairs half a head apart
    beside = [t.unflatten(-1, (-1, 2)).norm(dim=-1) for t in (q, r)]  # pairs side by side
    if distance(half[1], half[0]) > 1e-4 and distance(beside[1], beside[0]) > 1e-4:
        return "rotary pairs are laid out otherwise: half a head apart, or side by side"
    if distance(r[:, :, 0], q[:, :, 0]) < 1e-4:
        return "queries are turned by other angles: the base or the scaling of rotary positions"
    return "queries are turned by other angles: rotary positions start elsewhere"


def per_head(q, B):
    "Queries as (B, h, T, d_k), of size 1 on average: some kernels take half the scale before."
    q = q.double().reshape(B, -1, *q.shape[-2:])
    return q / q.square().mean().sqrt()


def slope(a, b, dim):
    "The factor for each row or column that brings a closest to b."
    return (a * b).sum(dim, keepdim=True) / (a * a).sum(dim, keepdim=True).clamp(min=1e-30)


def why_entrance(part, other, a, b, shape):
    "Why other numbers enter a product: a norm, a sum or positions."
    if part.eps != other.eps:
        numbers = [", ".join(map(str, sorted(eps))) or "none" for eps in (part.eps, other.eps)]
        return f"another eps of the norm: {numbers[0]} in the model, {numbers[1]} in the other"
    reason = why_rows(a, b, shape)
    if reason:
        return reason
    a, b = a.double(), b.double()
    if is_reordered(a, b):
        return "the same numbers in another order"
    if explains(a + (b - a).mean(dim=0), a, b):
        where = features(a, b, ["it"], [a.shape[1]])
        return f"a bias, of a norm or a sum: every row differs by the same vector, {where}"
    a_centred = a - a.mean(dim=0)
    if len(a) > 3 and explains(a_centred * slope(a_centred, b, dim=0) + b.mean(dim=0), a, b):
        return "the weight of a norm: each feature is scaled"
    if explains(a * slope(a, b, dim=1), a, b):
        return "each row is scaled: the eps of a norm, or a norm that is missing"
    return "a sum, a norm or positions before it"
