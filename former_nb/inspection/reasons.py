"""Why two models part where they do: the simplest change that explains the difference.

`same` has found the first part that differs (`former_nb.inspection.comparison`). Here a holds the
model's numbers there and b the other's, each (N, m). Each likely change of a is tried, and what
leaves nearly nothing of the difference is the likely reason.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F

__all__ = ["likely_reason"]

NEAR = 1e-3  # what explains a difference leaves no more than this share of it
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


def likely_reason(
    pair,  # of parts: `part`, `other`, the pair `previous` to it, and whether it is `after_gap`
    side: str,  # "x" if what enters differs, "y" if only what comes out
    B: int,  # texts
    T: int,  # tokens of each
) -> str:
    "The simplest change that explains why two models part here."
    part = pair.part
    other = pair.other
    if side == "y":
        return why_product(part, other)
    if pair.after_gap:
        return "a part without a partner comes before it"
    if part.before == "attention":
        return why_attention(part, other, B, T)
    if part.before == "activation" and pair.previous:
        return why_activation(pair.previous.part.y, part.x, pair.previous.other.y, other.x)
    return why_entrance(part, other)


# ---- how two tables of numbers differ


def distance(a, exact):
    "The largest difference, in units of the root mean square of what is exact."
    difference = (a.double() - exact.double()).abs().max()
    size = exact.double().square().mean().sqrt().clamp(min=1e-30)
    return float("inf") if difference.isnan() else (difference / size).item()


def explains(explained, a, b):
    "Whether `explained`, made of a, is b up to a small share of what they differ by."
    left = (explained.double() - b.double()).norm()
    return bool(left <= NEAR * (a.double() - b.double()).norm())


def is_reordered(a, b):
    "Whether each row of b holds the numbers of a in another order."
    a_in_order = a.double().sort(dim=1).values
    b_in_order = b.double().sort(dim=1).values
    return distance(b_in_order, a_in_order) <= NEAR * distance(b, a)


def is_shifted(a, b):
    "Whether every row differs by the same vector."
    shift = (b.double() - a.double()).mean(dim=0)
    return explains(a.double() + shift, a, b)


def slope(a, b, dim):
    "The factor for each row or column that brings a closest to b."
    return (a * b).sum(dim, keepdim=True) / (a * a).sum(dim, keepdim=True).clamp(min=1e-30)


def first_few(items, n=4):
    "A list of n items in words, with dots where there are more."
    dots = ", …" if len(items) > n else ""
    return ", ".join(map(str, items[:n])) + dots


def features(a, b, names, widths):
    "Which columns of a product differ, in words."
    largest = (a - b).abs().amax(dim=0)
    wrong = largest > NEAR * largest.max()
    texts = []
    for name, piece in zip(names, wrong.split(widths)):
        if piece.any():
            texts.append(f"{piece.sum().item()} of {len(piece)} features of {name or '?'}")
    return " and ".join(texts)


# ---- a product


def why_product(part, other):
    "Why other numbers come out of a product that reads the same."
    a = part.y
    b = other.y
    if part.reads_tokens:
        of_a_row = (a - b).abs().amax(dim=1)
        tokens = part.x[of_a_row > NEAR * of_a_row.max()].unique()
        return f"the vector of token {first_few(tokens.tolist())}"
    finer = part if len(part.ys) >= len(other.ys) else other  # three layers, not a packed one
    widths = [piece.shape[1] for piece in finer.ys]
    pieces = zip(finer.names, part.weight.split(widths, 1), other.weight.split(widths, 1))
    for name, w, v in pieces:
        square = w.shape[0] == w.shape[1]
        if square and distance(v, w.T) < NEAR and distance(v, w) > NEAR:
            return f"the weight of {name} is transposed"
    if is_reordered(a, b):
        return "the same numbers in another order: heads, halves or pairs are laid out otherwise"
    where = features(a, b, finer.names, widths)
    if is_shifted(a, b):
        return f"a bias: every row differs by the same vector, {where}"
    factor = (a * b).sum() / (a * a).sum()
    if explains(a * factor, a, b):
        return f"all numbers are {factor.item():.4g} times as large"
    return f"other weights: {where}"


# ---- what enters a product


def why_activation(before, after, other_before, other_after):
    "Which functions make what enters a product of what came out of the one before."
    name = activation_of(before, after)
    other_name = activation_of(other_before, other_after)
    if name is None or other_name is None:
        return "the activation; none of those that are known explains it"
    return f"another activation: {name} in the model, {other_name} in the other"


def activation_of(before, after):
    "The name of the function from `before` (N, m) to `after`, (N, m) or gated (N, m / 2)."
    before = before.double()
    after = after.double()
    gated = before.shape[1] == 2 * after.shape[1]
    for name, function in ACTIVATIONS.items():
        made = [function(before)]
        if gated:
            gate, up = before.chunk(2, dim=1)
            made = [function(gate) * up, function(up) * gate]
        for y in made:
            if y.shape == after.shape and distance(after, y) < 1e-5:
                return name
    return None


def why_attention(part, other, B, T):
    "Why attention differs that reads the same q, k and v."
    if len(part.x) == B * T:
        differs = (part.x - other.x).abs().reshape(B, T, -1).amax(dim=(0, 2))
        agree = differs <= NEAR * differs.max()  # (T,)
        if agree[-1] and not agree[0]:
            return "a mask: the last position agrees, earlier ones see more or less of what follows"
        if agree[0] and not agree[-1]:
            return "positions, scale or a mask: the first position agrees, later ones do not"
    return "positions, scale, a mask, or how heads are split"


def why_entrance(part, other):
    "Why other numbers enter a product: a norm, a sum or positions."
    if part.eps != other.eps:
        ours = eps_in_words(part)
        theirs = eps_in_words(other)
        return f"another eps of the norm: {ours} in the model, {theirs} in the other"
    a = part.x.double()
    b = other.x.double()
    if is_reordered(a, b):
        return "the same numbers in another order"
    if is_shifted(a, b):
        where = features(a, b, ["it"], [a.shape[1]])
        return f"a bias, of a norm or a sum: every row differs by the same vector, {where}"
    a_centred = a - a.mean(dim=0)
    if len(a) > 3 and explains(a_centred * slope(a_centred, b, dim=0) + b.mean(dim=0), a, b):
        return "the weight of a norm: each feature is scaled"
    if explains(a * slope(a, b, dim=1), a, b):
        return "each row is scaled: the eps of a norm, or a norm that is missing"
    return "a sum, a norm or positions before it"


def eps_in_words(part):
    return ", ".join(map(str, sorted(part.eps))) or "none"
