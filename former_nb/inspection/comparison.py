"""Do two models compute the same, and where do they part first?

A Transformer is products with weights, and what happens between them. `trace` lists them in order
(`former_nb.inspection.products`). The lists of both models are aligned by shapes, as `diff` aligns
the lines of two texts, and what enters and leaves each pair of parts is compared.

How far rounding may part them is measured. The first model runs in float32 and in float64, and the
other may be `SLACK` times as far from float64. Copies of both run in float32 even where a model has
bfloat16: then both get weights that were rounded to it, and a mistake isn't hidden by the rounding
of each operation. The model as it came has to agree as well, within the rounding of its own type.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from ..base.guards import check_int, check_that, check_type
from .products import Part, run, trace, type_of
from .reasons import distance, first_few, is_reordered, likely_reason

__all__ = ["Comparison", "same"]

SLACK = 10  # the other model may round so many times as much as the first


@dataclass
class Comparison:
    "What `same` found. It is true if both models compute the same output."

    equal: bool
    error: float  # of the output: the largest difference over the root mean square
    rounding: float  # how far rounding moves the first model's, in the same unit
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
        lines = ["The same." if self.equal else "Not the same."]
        if self.place:
            first = "A part differs without effect" if self.equal else "The first that differs"
            lines[0] += f" {first}: {self.place}."
        if any(self.names):
            lines.append(f"    model    {self.names[0] or '?'}")
            lines.append(f"    other    {self.names[1] or '?'}")
            lines.append(f"    by       {beside(self.error_there, self.rounding_there)} there")
        if self.reason:
            lines.append(f"    likely   {self.reason}")
        if self.error < float("inf"):  # else other shapes, or no numbers
            lines.append(f"The outputs differ by {beside(self.error, self.rounding)}.")
            if self.in_float32:
                lines.append(f"Copies in float32 differ by {beside(*self.in_float32)}.")
        return "\n".join([*lines, self.compared])

    __repr__ = __str__


def beside(error, rounding):
    "An error beside what rounding makes, in words."
    return f"{error:.1e}; rounding makes {rounding:.1e}"


def same(
    model: nn.Module,  # the one that is believed to be right
    other: Any,  # a module or a function
    inputs: Any,  # tokens (B, T), a tuple of arguments or a dict of them; two rows or more
    other_inputs: Any = None,  # those of the other, if it takes them in another form
    bits: int | None = None,  # of the other's weights, if they are whole numbers, such as 8
) -> Comparison:  # true if both compute the same; prints as a few lines
    """Compare two models: the same within what rounding explains, or the first part that differs,
    by how much, and the likely reason."""
    check_type("model", model, nn.Module)
    check_that(callable(other), "other", "a module or a function", type(other).__name__, TypeError)
    if bits is not None:
        check_int("bits", bits, least=2)
    inputs = as_arguments("inputs", inputs)
    other_inputs = inputs if other_inputs is None else as_arguments("other_inputs", other_inputs)

    modules = [m for m in (model, other) if isinstance(m, nn.Module)]
    coarse = coarsest_type(modules)
    exact = trace(copy_of(model, torch.float64, coarse), inputs)
    rounded = trace(copy_of(model, torch.float32, coarse, bits), inputs)
    copied = copy_of(other, torch.float32, coarse) if isinstance(other, nn.Module) else other
    traced = trace(copied, other_inputs)
    pairs = align(exact.parts, rounded.parts, traced.parts)
    compared = count_parts(exact.parts, traced.parts, pairs)

    y = run(other, other_inputs)  # the other as it came: compiled, on its device, in its type
    if coarse is None:
        rounding = distance(rounded.y, exact.y)
    else:
        rounding = distance(run(copy_of(model, coarse), inputs), exact.y)
    if y.shape != exact.y.shape:
        result = Comparison(False, float("inf"), rounding, compared)
        result.place = "the output"
        result.reason = f"outputs of other shapes, {tuple(exact.y.shape)} and {tuple(y.shape)}"
        return result
    error = distance(y, exact.y)
    result = Comparison(within(error, rounding), error, rounding, compared)
    if len(modules) == 2 and coarse is not None:
        result.in_float32 = distance(traced.y, exact.y), distance(rounded.y, exact.y)
        result.equal = result.equal and within(*result.in_float32)

    tokens = tree_leaves(inputs)[0]
    texts = tuple(tokens.shape[:2]) if tokens.ndim > 1 else (1, tokens.numel())
    for pair in pairs:
        turn_rows(pair, *texts)
    point = first_difference(points_of(pairs))
    if point:
        part = point.pair.part
        result.place = part.entrance if point.side == "x" else part.place
        result.names = in_one(part.names), in_one(point.pair.other.names)
        result.error_there = point.error
        result.rounding_there = point.rounding
        result.reason = likely_reason(point.pair, point.side, *texts)
    elif not result.equal:
        result.reason = "no part that has a partner differs"
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


def coarsest_type(modules):
    "The coarsest type of numbers that one of them has; None if none is coarser than float32."
    types = [torch.float32, *map(type_of, modules)]
    coarse = max(types, key=lambda dtype: torch.finfo(dtype).eps)
    return None if coarse == torch.float32 else coarse


def copy_of(model, dtype, rounded_to=None, bits=None):
    "A copy in eval mode on the CPU, its weights rounded first."
    other = copy.deepcopy(getattr(model, "_orig_mod", model))  # what `torch.compile` has wrapped
    with torch.no_grad():
        for weight in other.parameters():
            if weight.is_floating_point() and rounded_to is not None:
                weight.data = weight.data.to(rounded_to).float()
            if bits is not None and weight.ndim == 2:
                top = 2 ** (bits - 1) - 1
                step = weight.abs().amax(dim=1, keepdim=True).clamp(min=1e-12) / top
                weight.data = (weight / step).round() * step
    return other.to("cpu", dtype).eval()


def within(error, rounding):
    return error <= SLACK * max(rounding, torch.finfo(torch.float32).eps)


# ---- the parts of two models side by side


@dataclass
class Pair:
    "A part of the model and its partner."

    part: Part  # in float64
    rounded: Part  # the same in float32
    other: Part
    previous: "Pair | None"  # the pair before, if both parts come just after it
    after_gap: bool  # whether parts without a partner come between


def align(exact, rounded, others):
    "The pairs of parts of the same shapes, in order."
    matcher = SequenceMatcher(
        None, [part.shape for part in exact], [part.shape for part in others], autojunk=False
    )
    pairs = []
    for i, j, size in matcher.get_matching_blocks():
        previous = None
        for n in range(size):
            after_gap = n == 0 and i > 0 and j > 0
            pair = Pair(exact[i + n], rounded[i + n], others[j + n], previous, after_gap)
            pairs.append(pair)
            previous = pair
    return pairs


def count_parts(parts, others, pairs):
    "How many parts have a partner, in words."
    text = f"Compared: {len(pairs)} parts of {len(parts)} and {len(others)}."
    partners = {pair.part for pair in pairs} | {pair.other for pair in pairs}
    for whose, listed in (("model", parts), ("other", others)):
        names = [part.names[0] or "?" for part in listed if part not in partners]
        if names:
            text += f" Only the {whose} has {first_few(names, 3)}."
    return text


def turn_rows(pair, B, T):
    "Where the other has its rows in the order (T, B), as PyTorch's layer, put them into (B, T)."
    other = pair.other
    if len(other.x) != B * T:
        return

    def turned(t):
        return t.unflatten(0, (T, B)).transpose(0, 1).flatten(0, 1)

    if distance(turned(other.x), pair.part.x) < distance(other.x, pair.part.x):
        other.x = turned(other.x)
        other.ys = [turned(y) for y in other.ys]


@dataclass
class Point:
    "What enters a pair of parts, or what leaves it."

    pair: Pair
    side: str  # "x" or "y"
    a: torch.Tensor  # of the model, (N, m)
    b: torch.Tensor  # of the other
    error: float
    rounding: float

    @property
    def agrees(self):
        return within(self.error, self.rounding)


def points_of(pairs):
    "All numbers that are compared, in order."
    points = []
    for pair in pairs:
        for side in ("x", "y"):
            a = getattr(pair.part, side)
            b = getattr(pair.other, side)
            if not a.is_floating_point():  # tokens
                continue
            rounding = distance(getattr(pair.rounded, side), a)
            points.append(Point(pair, side, a, b, distance(b, a), rounding))
    return points


def first_difference(points):
    "The first point that differs, unless what is computed of it agrees again; None if none does."
    for i, point in enumerate(points):
        if not point.agrees and not is_undone(points[i:]):
            return point
    return None


def is_undone(points):
    "Whether numbers are only in another order, and what is computed of them agrees again."
    for point in points:
        if point.agrees:
            return True
        if not is_reordered(point.a, point.b):
            return False
    return False


def in_one(names):
    "Names of modules, with what they begin with once: 'attention.w_q, w_k'."
    begin, dot, last = names[0].rpartition(".")
    if not all(name.startswith(begin + dot) for name in names):
        return ", ".join(names)
    return ", ".join([names[0], *(name[len(begin + dot) :] for name in names[1:])])
