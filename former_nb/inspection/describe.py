"""What each layer of a model costs: its output's shape, parameters, FLOPs and bytes.

`describe` calls a copy of the model that has shapes and no numbers, and watches every module by
hooks. It reads PyTorch's counter of FLOPs each time that a module begins or ends, as one reads a
meter, and books what came since then to the module that was running. So a row holds what a module
does by itself, without the modules inside it, and the rows add up to the whole model.

FLOPs are those of products, attention's among them. Sums, norms and activation functions count as
none, though they take time. The bytes of activations are those of the tensors that modules return.
What a training step keeps for backward is more, and `former_nb.training.costs` counts it.

A tied weight belongs to the module that has it first. A module that is never called, such as
the output projection inside `nn.MultiheadAttention`, has no row. Its weights count in the row of
the module around it.
"""

import inspect
import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any

import pandas as pd
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

from ..base.flops import count_flops
from ..base.guards import check_int, check_that, check_type
from ..training.costs import without_numbers
from .products import without_fast_path

__all__ = [
    "describe",
]

NUMBERS = ["parameters", "flops", "weight_bytes", "activation_bytes"]


# ---- what the model takes


def bind_inputs(
    model: nn.Module,
    batch,  # a tensor, several in a tuple or list, or a dict of arguments by name
) -> inspect.BoundArguments:  # for `model(*bound.args, **bound.kwargs)`
    "The inputs under the names that `forward` gives them. Raises `ValueError` unless they fit."
    check_type("model", model, nn.Module)
    signature = inspect.signature(model.forward)
    name = type(model).__name__
    args: tuple = ()
    by_name: dict = {}
    if isinstance(batch, Mapping):
        by_name = dict(batch)
    elif isinstance(batch, (tuple, list)):
        args = tuple(batch)
    else:
        args = (batch,)
    try:
        bound = signature.bind(*args, **by_name)
    except TypeError as error:
        taken = ", ".join(signature.parameters)
        raise ValueError(f"batch: expected what {name} takes, ({taken}): {error}") from None
    for argument, value in bound.arguments.items():
        default = signature.parameters[argument].default
        is_function = callable(default) and default is not inspect.Parameter.empty
        fits = not (is_function and isinstance(value, torch.Tensor))
        check_that(fits, "batch", "inputs alone, without targets", f"a tensor as {argument}")
    return bound


# ---- one pass, with a meter


def _tensors(output):
    "All tensors in what a module returned."
    if isinstance(output, torch.Tensor):
        return [output]
    if not isinstance(output, (Mapping, tuple, list)):
        return []
    tensors = []
    for part in output.values() if isinstance(output, Mapping) else output:
        tensors += _tensors(part)
    return tensors


def _read_meter(model, bound, see):
    "Name of each module that is called -> the FLOPs that it does by itself."
    used: dict[str, int] = {}
    running: list[str] = []
    shown = 0

    def book():
        nonlocal shown
        now = counter.get_total_flops()
        if running:
            used[running[-1]] += now - shown
        shown = now

    def begin(name, module, args):
        book()
        running.append(name)
        used.setdefault(name, 0)

    def end(name, module, args, output):
        book()
        running.pop()
        see(name, output)

    for name, module in model.named_modules():
        module.register_forward_pre_hook(partial(begin, name), prepend=True)
        module.register_forward_hook(partial(end, name))
    with count_flops() as counter, torch.no_grad(), without_fast_path():
        model(*bound.args, **bound.kwargs)
    return used


class _Outputs:
    "The shapes that modules return, and the bytes of tensors that were not there before."

    def __init__(self, model, bound):
        self.shapes: dict[str, tuple] = {}
        self.n_bytes: dict[str, int] = {}
        self.seen = weakref.WeakSet()
        inputs = _tensors([*bound.args, bound.kwargs])
        for tensor in [*inputs, *model.parameters(), *model.buffers()]:
            self.seen.add(tensor.untyped_storage())

    def see(self, name, output):
        tensors = _tensors(output)
        if tensors:
            self.shapes[name] = tuple(tensors[0].shape)
        for tensor in tensors:
            memory = tensor.untyped_storage()  # a tensor and its views share one
            if memory not in self.seen:
                self.seen.add(memory)
                self.n_bytes[name] = self.n_bytes.get(name, 0) + memory.nbytes()


def _nearest(name, names):
    "The name itself, or that of the module around it that is among `names`."
    while name not in names:
        name = name.rpartition(".")[0]
    return name


def _count(model, bound):
    "A row of numbers for each module that is called."
    outputs = _Outputs(model, bound)
    flops = _read_meter(model, bound, outputs.see)
    rows = {}
    for name in flops:
        row = dict.fromkeys(NUMBERS, 0)
        row["flops"] = flops[name]
        row["activation_bytes"] = outputs.n_bytes.get(name, 0)
        rows[name] = row
    for name, parameter in model.named_parameters():  # a tied one has one name here
        row = rows[_nearest(name, rows)]
        row["parameters"] += parameter.numel()
        row["weight_bytes"] += parameter.nbytes
    for name, buffer in model.named_buffers():
        rows[_nearest(name, rows)]["weight_bytes"] += buffer.nbytes
    return pd.DataFrame.from_dict(rows, orient="index"), outputs.shapes


# ---- the table


def describe(
    model: nn.Module,  # ours, PyTorch's or Hugging Face's; left as it is
    batch: Any,  # its inputs: a tensor, several in a tuple, or a dict of arguments by name
    depth: int | None = None,  # modules within modules so deep share a row; None gives each its own
) -> pd.DataFrame:  # index: layer; kind, output, parameters, flops, weight and activation bytes
    """A row for each module that a forward pass calls, with what it costs by itself.

    The rows add up to the whole model. Nothing is computed, also not on the meta device."""
    bound = bind_inputs(model, batch)
    if depth is not None:
        check_int("depth", depth, 0)
    with FakeTensorMode():
        copy, bound.arguments = without_numbers(model, bound.arguments)
        table, shapes = _count(copy.eval(), bound)
    groups = {name: ".".join(name.split(".")[:depth]) for name in table.index}
    table = table.groupby(groups, sort=False).sum()
    inner = {group: name for name, group in groups.items() if name in shapes}  # the last of each
    shapes = {group: shapes.get(group, shapes.get(inner.get(group))) for group in table.index}
    kinds = [type(model.get_submodule(group)).__name__ for group in table.index]
    table.insert(0, "kind", kinds)
    table.insert(1, "output", pd.Series(shapes))
    table.index = [group or "(whole)" for group in table.index]
    table.index.name = "layer"
    return table
