"Two models, one function: ports, and what rounding explains."

import copy
from collections import OrderedDict

import torch
from torch import nn

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "two_models.1",
    parts=(
        "(a): a bias of the keys adds the same number to all scores of a query",
        "(b): the weights of a query add up to 1, so each head adds the bias of its values once, "
        "whatever the weights are",
        "(c): the sum over heads doesn't depend on their order, if W_o follows it",
        "(d): what enters the matrix is weight * x + bias; without weight in the norm, the matrix "
        "multiplies the bias by it, too",
        "(e): the two curves differ in the fourth digit, and rounding is far below that",
    ),
)
def changes_that_leave_a_model_as_it_is():
    # ? Write down the product that the changed numbers enter, and what is added to it afterwards. What does the softmax do with a number that all scores of a query share? To what do its weights add up?
    # ? A norm gives `weight * x + bias`, and the matrix behind it multiplies both.
    # ? [True, True, True, False, False]. In (d) the bias of the norm is multiplied by its weight.
    return [True, True, True, False, False]
    #! each is the other way round; True means that the model stays as it is
    # ~ return [False, False, False, True, True]


@exercise("two_models.2")
def split(weight, n_heads):
    # ? Which axes do the 3 · d_model rows have, from the outside in? One of size n_heads, one of size 3, one of size d_k.
    # ? `weight.unflatten(0, (n_heads, 3, -1))` is (h, 3, d_k, d_model). What is left once you have picked one of the three?
    # ? `q, k, v = weight.unflatten(0, (n_heads, 3, -1)).unbind(dim=1)`, and `flatten(0, 1)` of each.
    kinds = weight.unflatten(0, (n_heads, 3, -1)).unbind(dim=1)  # each (h, d_k, D)
    #! that is the layout of GPT-2, all queries first; here each head has its own three
    # ~ kinds = weight.unflatten(0, (3, n_heads, -1)).unbind(dim=0)
    return [kind.flatten(0, 1) for kind in kinds]
    #! you took every third row; within a head its d_k queries come first
    # ~ return [weight[i::3] for i in range(3)]
    #! all rows are there, but the heads lie inside; rows of one head belong together
    # ~ return [kind.transpose(0, 1).flatten(0, 1) for kind in kinds]
    #! keys and values are exchanged
    # ~ q, k, v = (kind.flatten(0, 1) for kind in kinds)
    # | return q, v, k
    #! queries and keys are exchanged
    # ~ q, k, v = (kind.flatten(0, 1) for kind in kinds)
    # | return k, q, v
    #! the matrices are turned; their rows stay rows
    # ~ return [kind.flatten(0, 1).T for kind in kinds]
    #! the heads still have an axis of their own; join it with that of their rows
    # ~ return list(kinds)
    #! that is one tensor of (h, 3, …); return three matrices, those of queries, keys and values
    # ~ return weight.unflatten(0, (n_heads, 3, -1))


@exercise("two_models.3", near=1e-4)
def rounding(model, tokens):
    # ? Copy first. `model.double()` changes the model itself, and then nothing is left to compare.
    # ? `exact = copy.deepcopy(model).double()(tokens)`. Which difference counts, and in which unit?
    # ? `(model(tokens) - exact).abs().max() / exact.square().mean().sqrt()`.
    exact = copy.deepcopy(model).double()(tokens)
    #! `double()` changes the model itself, so it is compared with itself; copy it first
    # ~ exact = model.double()(tokens)
    #! the model is in float64 afterwards: `double()` changes it; copy it first
    # ~ y = model(tokens)
    # | exact = model.double()(tokens)
    # ~ (model(tokens) - exact) -> (y - exact)
    #! a model was compared with itself; the copy has to be in float64
    # ~ exact = copy.deepcopy(model)(tokens)
    #! the exact output was rounded, too; leave it in float64
    # ~ exact = copy.deepcopy(model).double()(tokens).float()
    #! the exact output was rounded to the model's type, too; leave it in float64
    # ~ exact = copy.deepcopy(model).double()(tokens).to(model(tokens).dtype)
    #! float32 rounds, too; the copy has to be in float64
    # ~ exact = copy.deepcopy(model).float()(tokens)
    return (model(tokens) - exact).abs().max() / exact.square().mean().sqrt()
    #! divide by the root mean square of the exact output
    # ~ return (model(tokens) - exact).abs().max()
    #! that is the root mean square of the differences; take the largest
    # ~ return (model(tokens) - exact).square().mean().sqrt() / exact.square().mean().sqrt()
    #! that is the mean difference; take the largest
    # ~ return (model(tokens) - exact).abs().mean() / exact.square().mean().sqrt()
    #! the unit is the root mean square of the output, not its largest number
    # ~ return (model(tokens) - exact).abs().max() / exact.abs().max()
    #! the unit is the root of the mean square, not the mean size
    # ~ return (model(tokens) - exact).abs().max() / exact.abs().mean()
    #! the unit is the root mean square; `std` takes the mean away first
    # ~ return (model(tokens) - exact).abs().max() / exact.std()
    #! one unit for all numbers; those near zero would count most
    # ~ return ((model(tokens) - exact) / exact).abs().max()
    #! differences have signs; take their sizes first
    # ~ return (model(tokens) - exact).max() / exact.square().mean().sqrt()
    #! the root of the mean square is missing
    # ~ return (model(tokens) - exact).abs().max() / exact.square().mean()


# ---------------------------------------------------------------- questions


@question("two_models", "two_models.2")
def ask_split(draw):
    for n_heads, d_k in [(2, 5), (3, 4), (1, 6), (6, 1), (4, 2), (5, 3)]:
        D = n_heads * d_k
        yield Call(f"D = {D}, {n_heads} heads", (draw.numbers(3 * D, D), n_heads))


@torch.no_grad()
def _small(draw, d_model, d_out, dtype):
    "A model that rounds."
    layers = dict(embed=nn.Embedding(20, d_model), norm=nn.LayerNorm(d_model))
    layers |= dict(w_in=nn.Linear(d_model, 4 * d_model), activation=nn.GELU())
    layers |= dict(w_out=nn.Linear(4 * d_model, d_out))
    for weight in nn.ModuleDict(layers).parameters():
        weight.copy_(draw.numbers(*weight.shape, scale=0.3))
    layers["w_out"].bias += 0.7  # so that the mean square is not the variance
    return nn.Sequential(OrderedDict(layers)).to(dtype).eval()


def _far(answer, args, result):
    "How far it is in units in which it can be compared, and what became of the model."
    weights = [*args[0].parameters()]
    seen = {"the type of the model afterwards": str(weights[0].dtype)}
    seen["the sum of its weights afterwards"] = sum(w.double().sum().item() for w in weights)
    try:
        seen["its result, in units of 1e-7"] = float(torch.as_tensor(result).detach()) * 1e7
    except (TypeError, ValueError, RuntimeError):  # no number, of which the result itself tells
        pass
    return seen


@question("two_models", "two_models.3")
def ask_rounding(draw):
    for d_model, d_out, dtype in [
        (16, 20, torch.float32),
        (16, 20, torch.bfloat16),
        (8, 5, torch.float32),
        (24, 3, torch.bfloat16),
    ]:
        model = _small(draw, d_model, d_out, dtype)
        tokens = draw.tokens(draw.size(2, 4), draw.size(5, 8), low=0, high=20)
        name = str(dtype).removeprefix("torch.")
        yield Call(f"a model in {name}, tokens {tuple(tokens.shape)}", (model, tokens), look=_far)
