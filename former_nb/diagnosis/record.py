"""What a model does while it runs: which module, which call of PyTorch, in which line.

`Record` watches one run. It notes softmaxes, fused attention, dropout, embeddings and losses with
what they were given, and the outputs of all modules in their order.
"""

import linecache
import os
import sys
from contextlib import ExitStack
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

__all__ = ["Call", "Record", "first_line", "first_tensor", "line_of", "where"]

HERE = os.path.dirname(__file__)
TORCH = os.path.dirname(torch.__file__)
SOFTMAX = {torch.softmax, torch.Tensor.softmax, F.softmax, torch._softmax}
DROPOUT = {F.dropout, torch.dropout}
EMBEDDING = {F.embedding, torch.embedding}
LOSSES = {
    F.cross_entropy: "cross_entropy",
    F.nll_loss: "nll_loss",
    F.binary_cross_entropy_with_logits: "binary",
    F.mse_loss: "mse",
}


class Call(NamedTuple):
    "One call of PyTorch."

    kind: str  # 'softmax', 'fused', 'dropout', 'embedding', or a loss
    module: str  # the innermost module that was running; '' is the model itself
    line: str  # as `quoted` says it: the innermost line that isn't PyTorch's; '' if there is none
    given: Any  # what matters of the arguments


def line_of(frame, number=None):
    """The innermost line outside of PyTorch and of this folder, as it stands, or nothing.

    With a number it is this frame's alone, and this its line.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(HERE):
            return ""  # it was asked from here, as the loss is that nobody gave
        if not name.startswith((TORCH, "<frozen")):
            return quoted(name, number or frame.f_lineno)
        frame = frame.f_back if number is None else None
    return ""


def quoted(file, number):
    "A line of a file, or of a notebook's cell, with its code: 'gpt.py:12, `y = x @ w`'."
    cell = "ipykernel" in file  # whose cells are files with a number as their name
    place = f"line {number} of a cell" if cell else f"{os.path.basename(file)}:{number}"
    code = linecache.getline(file, number).strip()
    return f"{place}, `{code}`" if code else place


def first_line(error):
    "What an error says, in one line."
    said = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {said:.200}".rstrip(": ")


def where(module, line=""):
    "A part in words: its path in the model, and a line."
    return " · ".join(part for part in (module, line) if part)


class Record(TorchFunctionMode):
    "A context in which the calls and the modules' outputs of a model are noted."

    def __init__(self, model, keep=False):
        super().__init__()
        self.model = model
        self.keep = keep  # the outputs of modules, too
        self.calls = []
        self.outputs = []  # (path, module, inputs, output) in the order in which modules end
        self._running = []
        self._stack = ExitStack()
        self._busy = False

    def __enter__(self):
        for path, module in self.model.named_modules():
            before = module.register_forward_pre_hook(lambda m, _, path=path: self._begin(path))
            after = module.register_forward_hook(
                lambda m, args, out, path=path: self._end(path, m, args, out), always_call=True
            )
            self._stack.callback(before.remove)
            self._stack.callback(after.remove)
        return super().__enter__()

    def __exit__(self, *error):
        self._stack.close()
        return super().__exit__(*error)

    def _begin(self, path):
        self._running.append(path)

    def _end(self, path, module, args, out):
        if self._running:
            self._running.pop()
        if self.keep:
            first = next((a for a in args if isinstance(a, torch.Tensor)), None)
            tensor = first_tensor(out)
            if tensor is not None:
                given = None if first is None else first.detach().clone()
                self.outputs.append((path, module, given, tensor.detach().clone()))

    @property
    def module(self):
        return self._running[-1] if self._running else ""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self._busy:
            return function(*args, **kwargs)
        self._busy = True
        try:
            kind, given = noted(function, args, kwargs)
        finally:
            self._busy = False
        if kind:
            line = line_of(sys._getframe(1))
            self.calls.append(Call(kind, self.module, line, given))
        return function(*args, **kwargs)

    def of(self, kind):
        "The calls of one kind."
        return [call for call in self.calls if call.kind == kind]


def first_tensor(out):
    "The first floating point tensor of what a module returned, or None."
    if isinstance(out, torch.Tensor):
        return out if out.is_floating_point() else None
    if isinstance(out, dict):
        out = tuple(out.values())
    if isinstance(out, (tuple, list)):
        return next((t for t in map(first_tensor, out) if t is not None), None)
    return None


def noted(function, args, kwargs):
    "The kind of a call, and what matters of its arguments; nothing if it isn't noted."
    if function in SOFTMAX and args[0].ndim >= 3:
        dim = kwargs.get("dim", args[1] if len(args) > 1 else -1)
        scores = args[0].detach().clone()
        return "softmax", (scores, None if dim is None else dim % scores.ndim)
    if function is F.scaled_dot_product_attention:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        return "fused", dict(zip(names, args)) | kwargs
    if function in DROPOUT:
        p = kwargs.get("p", args[1] if len(args) > 1 else 0.5)
        training = kwargs.get("training", kwargs.get("train", args[2] if len(args) > 2 else True))
        return ("dropout", p) if training and p > 0 else ("", None)
    if function in EMBEDDING:
        first, second = (kwargs.get(n, a) for n, a in zip(("input", "weight"), (*args, None, None)))
        index, weight = (first, second) if function is F.embedding else (second, first)
        return "embedding", (index, weight)
    if function in LOSSES:
        logits = kwargs.get("input", args[0] if args else None)
        return LOSSES[function], (logits, kwargs.get("target", args[1] if len(args) > 1 else None))
    return "", None


def has_own_parameters(model, path):
    "Whether a module that isn't the model itself has parameters."
    return bool(path) and any(True for _ in model.get_submodule(path).parameters())
