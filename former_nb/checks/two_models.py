"""Judges of the exercises on the page 16_two_models, and the mistakes that they know."""

import copy
from collections import OrderedDict

import torch
from torch import nn

from ..base.exercises import diagnose, exercise, unnamed

__all__ = [
    "judge_two_models_1",
    "judge_two_models_2",
    "judge_two_models_3",
]


@exercise(
    "two_models.1",
    "Write down the product that the changed numbers enter, and what is added to it afterwards. "
    "What does the softmax do with a number that all scores of a query share? To what do its "
    "weights add up?",
    "A norm gives `weight * x + bias`, and the matrix behind it multiplies both.",
    "[True, True, True, False, False]. In (d) the bias of the norm is multiplied by its weight.",
)
def judge_two_models_1(answer):
    "Five booleans."
    if not isinstance(answer, (list, tuple)) or len(answer) != 5:
        return "give a list of five booleans, for (a) to (e)"
    return diagnose(
        [bool(a) for a in answer],
        torch.tensor([True, True, True, False, False]),
        places=(
            "(a): a bias of the keys adds the same number to all scores of a query",
            "(b): the weights of a query add up to 1, so each head adds the bias of its values "
            "once, whatever the weights are",
            "(c): the sum over heads doesn't depend on their order, if W_o follows it",
            "(d): what enters the matrix is weight * x + bias; without weight in the norm, the "
            "matrix multiplies the bias by it, too",
            "(e): the two curves differ in the fourth digit, and rounding is far below that",
        ),
    )


@exercise(
    "two_models.2",
    "Which axes do the 3 · d_model rows have, from the outside in? One of size n_heads, one of "
    "size 3, one of size d_k.",
    "`weight.unflatten(0, (n_heads, 3, -1))` is (h, 3, d_k, d_model). What is left once you have "
    "picked one of the three?",
    "`q, k, v = weight.unflatten(0, (n_heads, 3, -1)).unbind(dim=1)`, and `flatten(0, 1)` of each.",
)
def judge_two_models_2(answer):
    "A function of a fused matrix and a number of heads."
    h, d_k, d = 2, 5, 10
    weight = torch.randn(3 * d, d, generator=torch.Generator().manual_seed(0))
    given = answer(weight.clone(), h)
    if not isinstance(given, (tuple, list, torch.Tensor)) or len(given) != 3:
        return "return three matrices, those of queries, keys and values"
    given = [*given]
    if not all(isinstance(t, torch.Tensor) for t in given):
        return "return three tensors"
    if all(t.shape == (h, d_k, d) for t in given):
        return "the heads still have an axis of their own; join it with that of their rows"

    def joined(grid, dim):
        return torch.stack([t.flatten(0, 1) for t in grid.unbind(dim)])

    right = joined(weight.unflatten(0, (h, 3, d_k)), 1)
    if any(t.shape != (d, d) for t in given):
        shapes = ", ".join(str(tuple(t.shape)) for t in given)
        return unnamed(f"expected three matrices of shape {(d, d)}, got {shapes}")
    mistakes = {
        "that is the layout of GPT-2, all queries first; here each head has its own three": (
            joined(weight.unflatten(0, (3, h, d_k)), 0)
        ),
        "you took every third row; within a head its d_k queries come first": (
            joined(weight.unflatten(0, (d, 3)).unsqueeze(1), 2)
        ),
        "all rows are there, but the heads lie inside; rows of one head belong together": (
            joined(weight.unflatten(0, (h, 3, d_k)).transpose(0, 2), 1)
        ),
        "keys and values are exchanged": right[[0, 2, 1]],
        "queries and keys are exchanged": right[[1, 0, 2]],
        "the matrices are turned; their rows stay rows": right.mT,
    }
    return diagnose(torch.stack(given), right, mistakes)


def _small(dtype):
    "A model that rounds."
    torch.manual_seed(0)
    layers = dict(embed=nn.Embedding(20, 16), norm=nn.LayerNorm(16), w_in=nn.Linear(16, 64))
    layers |= dict(activation=nn.GELU(), w_out=nn.Linear(64, 20))
    nn.init.normal_(layers["w_out"].bias, mean=0.5, std=0.1)
    return nn.Sequential(OrderedDict(layers)).to(dtype).eval()


def _far(a, b):
    "The largest difference, in units of the root mean square of b."
    return ((a.double() - b.double()).abs().max() / b.double().square().mean().sqrt()).item()


@exercise(
    "two_models.3",
    "Copy first. `model.double()` changes the model itself, and then nothing is left to compare.",
    "`exact = copy.deepcopy(model).double()(tokens)`. Which difference counts, and in which unit?",
    "`(model(tokens) - exact).abs().max() / exact.square().mean().sqrt()`.",
)
def judge_two_models_3(answer):
    "A function of a model and its tokens."
    tokens = torch.randint(20, (4, 7), generator=torch.Generator().manual_seed(1))
    with torch.random.fork_rng(devices=[]):
        models = [_small(torch.float32), _small(torch.bfloat16)]
    for model in models:
        dtype = model.w_in.weight.dtype
        with torch.no_grad():
            y, exact = model(tokens), copy.deepcopy(model).double()(tokens)
        given = answer(model, tokens)
        if model.w_in.weight.dtype != dtype:
            return "the model is in float64 afterwards: `double()` changes it; copy it first"
        if isinstance(given, torch.Tensor) and given.numel() == 1:
            given = given.item()
        if not isinstance(given, (int, float)):
            return f"expected a number, got {type(given).__name__}"
        away = (y.double() - exact).abs()
        size = exact.square().mean().sqrt()

        def near(value, given=given):
            return abs(given - float(value)) <= 1e-3 * abs(float(value))

        if near(away.max() / size):
            continue
        if given == 0:
            return "a model was compared with itself; the copy has to be in float64"
        if near(_far(y, exact.to(dtype))):
            return "the exact output was rounded, too; make the other one `double()` instead"
        if near(away.max()):
            return "divide by the root mean square of the exact output"
        if near(away.square().mean().sqrt() / size):
            return "that is the root mean square of the differences; take the largest"
        if near(away.mean() / size):
            return "that is the mean difference; take the largest"
        if near(away.max() / exact.abs().max()):
            return "the unit is the root mean square of the output, not its largest number"
        if near(away.max() / exact.abs().mean()):
            return "the unit is the root of the mean square, not the mean size"
        if near(away.max() / exact.std()) or near(away.max() / exact.std(correction=0)):
            return "the unit is the root mean square; `std` takes the mean away first"
        if near((away / exact.abs()).max()):
            return "one unit for all numbers; those near zero would count most"
        if near((y.double() - exact).max() / size):
            return "differences have signs; take their sizes first"
        right = float(away.max() / size)
        return unnamed(f"of a model in {dtype}: expected {right:.3g}, got {given:.3g}")
