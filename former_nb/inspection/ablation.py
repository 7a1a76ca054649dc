"""Switch heads off, replace them, and put the heads of one input into another, in any model.

Whatever `former_nb.inspection.recording` can watch can be changed too, by hooks within `with`. The
deep dive on interpretability asks what you learn that way. A head is named as in the tables,
`("self", 1, 2)`: its kind, its layer and its number.

The outputs of all heads lie side by side where the output projection reads them. There they can be
read and replaced. `nn.MultiheadAttention` does not call its projection as a module, so the heads of
PyTorch's layer are computed again from its weights. Without a head, a layer is the one whose
columns of W_o are zero for that head. If every head of one input is put into another, the output is
that of the first.
"""

from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, contextmanager

import torch
import torch.nn.functional as F
from torch import nn

from ..base.guards import check_that
from .products import without_fast_path
from .recording import find_attention, watch_torch

__all__ = [
    "find_heads",
    "edit_heads",
    "ablate_heads",
    "record_heads",
]

_OUTPUTS = ("w_o", "out_proj", "c_proj", "o_proj", "o", "out_lin", "dense")  # W_o, by many names


def _torch_values(module, value):
    "The values of `nn.MultiheadAttention` before heads are cut, (B, S, d_model)."
    d = module.embed_dim
    w_v = module.v_proj_weight if module.in_proj_weight is None else module.in_proj_weight[2 * d :]
    bias = None if module.in_proj_bias is None else module.in_proj_bias[2 * d :]
    v = F.linear(value, w_v, bias)
    if v.ndim == 2:  # no batch
        return v[None]
    return v if module.batch_first else v.transpose(0, 1)


def _torch_heads(module, inputs, weights):
    "What each head of `nn.MultiheadAttention` gives, (B, T, h, d_k)."
    plain = module.bias_k is None and not module.add_zero_attn
    check_that(plain, "model", "layers without add_bias_kv and add_zero_attn", "one")
    v = _torch_values(module, inputs["value"])
    v = v.unflatten(-1, (module.num_heads, -1)).transpose(1, 2)  # (B, h, S, d_k)
    return (weights @ v).transpose(1, 2)


def _change_torch(module, change):
    "Hooks by which `nn.MultiheadAttention` mixes changed heads."

    def mix(inputs, y, weights):
        z = change(_torch_heads(module, inputs, weights))  # (B, T, h, d_k)
        mixed = module.out_proj(z.flatten(-2))
        if y.ndim == 2:
            return mixed[0]
        return mixed if module.batch_first else mixed.transpose(0, 1)

    return watch_torch(module, mix)


def _change_heads(layer, change):
    "Hooks by which `change` gives the heads (B, T, h, d_k) that a layer mixes."
    module = layer.module
    if isinstance(module, nn.MultiheadAttention):
        return _change_torch(module, change)

    def change_flat(z):
        return change(z.unflatten(-1, (layer.n_heads, -1))).flatten(-2)

    def before(projection, args):
        return (change_flat(args[0]), *args[1:])

    def after(module, args, result):
        return (change_flat(result[0]), *result[1:])

    for name in _OUTPUTS:
        projection = getattr(module, name, None)
        if isinstance(projection, nn.Module):
            return [projection.register_forward_pre_hook(before)]
    return [module.register_forward_hook(after, prepend=True)]  # BERT mixes one module later


@contextmanager
def _changed(model, make_change):
    "Within `with`, `make_change(layer)`, a function or None, changes the heads of that layer."
    with ExitStack() as hooks, without_fast_path():
        for layer in find_attention(model):
            change = make_change(layer)
            if change is not None:
                for hook in _change_heads(layer, change):
                    hooks.callback(hook.remove)
        yield


def find_heads(
    model: nn.Module,
) -> list[tuple[str, int, int]]:  # (kind, layer, head), layer and head from 1
    "All heads of a model."
    heads = []
    for layer in find_attention(model):
        heads += [(layer.kind, layer.layer, head) for head in range(1, layer.n_heads + 1)]
    return heads


def _replace(z, new):
    "The output of a head, (B, T, d_k), as an edit gives it."
    changed = new(z) if callable(new) else torch.as_tensor(new).to(z)
    return changed.expand_as(z)


def edit_heads(
    model: nn.Module,
    edits: dict,  # (kind, layer, head) -> output that broadcasts to (B, T, d_k), or a function
):  # a context manager
    "Within `with`, heads give what `edits` says. A function gets a head's output, (B, T, d_k)."
    heads = find_heads(model)
    for head in edits:
        expected = f"a head of the model, from {heads[0]} to {heads[-1]}"
        check_that(head in heads, "heads", expected, head)

    def make_change(layer):
        here = {h: new for (kind, n, h), new in edits.items() if (kind, n) == layer[:2]}
        if not here:
            return None

        def change(z):
            outputs = list(z.unbind(-2))
            for head, new in here.items():
                outputs[head - 1] = _replace(outputs[head - 1], new)
            return torch.stack(outputs, dim=-2)

        return change

    return _changed(model, make_change)


def _average(z):
    return z.mean(dim=(0, 1), keepdim=True)


def ablate_heads(
    model: nn.Module,
    heads: Iterable[tuple[str, int, int]],  # (kind, layer, head), layer and head from 1
    mean: bool = False,  # give the mean over the texts and places of a pass, not zeros
) -> AbstractContextManager[None]:
    "Within `with`, the heads tell nothing: zeros, or the same everywhere."
    return edit_heads(model, dict.fromkeys(heads, _average if mean else 0.0))


@contextmanager
def record_heads(
    model: nn.Module,
):  # a dict that fills on each forward pass: (kind, layer, head) -> its output (B, T, d_k)
    "Within `with`, keep what each head gives; as `edits` of another pass, it patches heads."
    recorded = {}

    def make_change(layer):
        def keep(z):
            for head, output in enumerate(z.detach().unbind(-2), start=1):
                recorded[layer.kind, layer.layer, head] = output.clone()
            return z

        return keep

    with _changed(model, make_change):
        yield recorded
