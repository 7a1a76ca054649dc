"""FLOPs and memory of a training step, counted without computing it.

PyTorch has *fake tensors*, which have a shape, a type and a device, and no numbers. `training_cost`
runs the very `train_step` of `fit` on them, and watches every tensor that comes and goes.
"""

import copy
import weakref
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from ..base.flops import count_flops, short_number
from .losses import batch_loss
from .optimization import checkpoint_blocks, split_batch
from .training import train_step
from .training_config import TrainingConfig
from .training_run import wrap_loss

__all__ = [
    "without_numbers",
    "TrainingCost",
    "training_cost",
]


class _Alive:
    "Memory of the tensors it was shown: bytes of those that still exist, and the most ever."

    def __init__(self):
        self.now = self.most = 0
        self.seen = weakref.WeakSet()

    def add(self, tensor, count=True):
        memory = tensor.untyped_storage()  # a tensor and its views share one
        if memory not in self.seen:
            self.seen.add(memory)
            if count:
                self.now += memory.nbytes()
                self.most = max(self.most, self.now)
                weakref.finalize(memory, self.forget, memory.nbytes())
        return tensor

    def forget(self, n_bytes):
        self.now -= n_bytes


class _Watch(TorchDispatchMode):
    "Show every tensor that an operation returns to `alive`."

    def __init__(self, alive):
        super().__init__()
        self.alive = alive

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor):
                self.alive.add(tensor)
        return out


def _fake(tensor):
    "A tensor of the same shape without numbers."
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def without_numbers(
    model: nn.Module,  # may be on the meta device
    batch,  # tensors, in tuples, lists and dicts
) -> tuple:  # a model and a batch
    "A copy of both on fake tensors of the CPU. Call it under FakeTensorMode."
    twins = {}  # what `deepcopy` takes in place of its own copies
    for parameter in model.parameters():
        twins[id(parameter)] = nn.Parameter(_fake(parameter), parameter.requires_grad)
    for buffer in model.buffers():
        twins[id(buffer)] = _fake(buffer)
    for part in model.modules():  # tensors that are neither, such as rotary frequencies
        for value in vars(part).values():
            if isinstance(value, torch.Tensor):
                twins[id(value)] = _fake(value)
    return copy.deepcopy(model, twins), tree_map_only(torch.Tensor, _fake, batch)


@dataclass(frozen=True)
class TrainingCost:
    "What one step asks for, memory in bytes."

    parameters: int  # numbers that are trained
    flops: int  # forward and backward over the whole batch
    update_flops: int  # of the optimizers
    weights: int  # and buffers
    gradients: int
    states: int  # of the optimizers
    activations: int  # kept for the backward of one part, the parameters left out
    peak: int  # most at any moment of a step, with all of the above

    def __str__(self):
        parts = ("weights", "gradients", "states", "activations")
        sizes = ", ".join(f"{name} {short_number(getattr(self, name), 'B')}" for name in parts)
        flops = short_number(self.flops, "FLOP")
        update = short_number(self.update_flops, "FLOP")
        return (
            f"{self.parameters:,} parameters; a step: {flops} forward and backward, "
            f"{update} in the optimizers\n"
            f"memory: {short_number(self.peak, 'B')} at most ({sizes})"
        )


def _bytes(tensors):
    return sum(t.untyped_storage().nbytes() for t in tensors)


def _first_update(model, optimizers):
    """One step of the optimizers, which makes their states: its FLOPs, bytes of gradients and
    states."""
    trained = [p for p in model.parameters() if p.requires_grad]
    for p in trained:
        p.grad = torch.empty_like(p)
    gradients = _bytes(p.grad for p in trained)
    with count_flops() as counter:
        for optimizer in optimizers:
            optimizer.step()
    model.zero_grad()
    states = []
    for optimizer in optimizers:
        for state in optimizer.state.values():
            states += [value for value in state.values() if torch.is_tensor(value)]
    return counter.get_total_flops(), gradients, _bytes(states)


_ALONE = SimpleNamespace(process_index=0, num_processes=1, no_sync=nullcontext)


def _one_step(model, batch, optimizers, config, saved):
    "A training step on fake tensors, what it keeps for backward shown to `saved`: its FLOPs."
    loss = wrap_loss(batch_loss, config, _ALONE, count=torch.numel)
    for p in model.parameters():
        saved.add(p, count=False)
    with torch.autograd.graph.saved_tensors_hooks(saved.add, lambda t: t):
        with count_flops() as counter:
            train_step(model, batch, optimizers, loss, config.max_grad_norm)
    return counter.get_total_flops()


def training_cost(
    model: nn.Module,  # maps inputs to logits; left as it is, and may be on the meta device
    batch: Any,  # (inputs, targets) of a whole step; only shapes matter, so pads cost as tokens do
    config: TrainingConfig = TrainingConfig(),
) -> TrainingCost:
    """What a step of `fit` costs on the CPU, counted without computing it. Shapes must be fixed.

    The optimizers take a first step, so that their states exist. Then one step of training is
    watched. Without numbers nobody knows which tokens are pads, so rows are not packed, and each
    position is counted as a token. A batch with pads costs less than that on the CPU.
    """
    alive = _Alive()
    saved = _Alive()  # for backward
    cuts = config.gradient_accumulation_steps
    try:
        with FakeTensorMode(), _Watch(alive):
            model, batch = without_numbers(model, batch)
            checkpoint_blocks(model, config.activation_checkpointing)
            optimizers = config.make_optimizers(model)
            update, gradients, states = _first_update(model, optimizers)
            alive.most = alive.now
            few = min(2, cuts)  # parts that are watched, the largest
            rows = sum(len(targets) for _, targets in split_batch(batch, cuts)[-few:])
            last = tree_map_only(torch.Tensor, lambda t: t[-rows:], batch)
            shorter = replace(config, gradient_accumulation_steps=few)
            flops = _one_step(model, last, optimizers, shorter, saved) - update
    except (DataDependentOutputException, DynamicOutputShapeException) as error:
        raise ValueError(f"model: expected shapes that depend on no number, got {error}") from None
    return TrainingCost(
        parameters=sum(p.numel() for p in model.parameters() if p.requires_grad),
        flops=flops * len(batch[1]) // rows,
        update_flops=update,
        weights=_bytes([*model.parameters(), *model.buffers()]),
        gradients=gradients,
        states=states,
        activations=saved.most,
        peak=alive.most,
    )
