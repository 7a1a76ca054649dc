"""The loss, and its mean over many batches, which the page deeper/08_optimization derives."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..base.core import eval_mode
from ..base.guards import check_choice, check_share, check_type
from ..data.text import IGNORE, PAD
from .guards import check_batch, check_batches, check_targets

__all__ = [
    "token_loss",
    "find_device",
    "call",
    "batch_loss",
    "to_device",
    "total_loss",
    "evaluate",
    "exact_match",
]


AT_ONCE = 2**24  # so many logits at a time, 64 MB


def sum_surprises(
    logits: torch.Tensor,  # (N, vocab_size)
    targets: torch.Tensor,  # (N,) int64, IGNORE where nothing is to be predicted
    label_smoothing: float,  # as for `token_loss`
    pad: int | None,
) -> torch.Tensor:  # nats
    "The summed cross-entropy of a few rows."
    V = logits.shape[-1]
    if logits.dtype.itemsize < 4:
        logits = logits.float()
    log_p = logits.log_softmax(-1)  # (N, V)
    loss = F.nll_loss(log_p, targets, ignore_index=IGNORE, reduction="sum")
    if not label_smoothing:
        return loss
    if pad is None:
        spread = -log_p.sum(-1) / V  # (N,)
    else:  # over all tokens below it and above it
        below, _, above = log_p.split([pad, 1, V - pad - 1], dim=-1)
        spread = -(below.sum(-1) + above.sum(-1)) / (V - 1)  # (N,)
    spread = torch.where(targets != IGNORE, spread, 0.0).sum()
    return (1 - label_smoothing) * loss + label_smoothing * spread


def token_loss(
    logits: torch.Tensor,  # (..., vocab_size); half precision is measured in float32
    targets: torch.Tensor,  # (...) integers, IGNORE where nothing is to be predicted
    reduction: str = "mean",  # 'mean' over the targets that count, 0 where none does, or 'sum'
    label_smoothing: float = 0.0,  # share of each target that is spread over all tokens
    pad: int | None = PAD,  # the token that gets none of it; None where every class can be right
) -> torch.Tensor:  # nats
    "Cross-entropy over the last axis; ignored targets count for nothing (Szegedy et al. 2016)."
    check_targets(logits, targets)
    check_choice("reduction", reduction, ("mean", "sum"))
    check_share("label_smoothing", label_smoothing)
    V = logits.shape[-1]
    if label_smoothing and pad is not None and not 0 <= pad < V > 1:
        raise ValueError(f"pad: expected one of {V} tokens, and not the only one, got {pad!r}")
    rows = max(1, AT_ONCE // V)
    targets = targets.flatten().long()
    logits = logits.reshape(len(targets), V)
    if len(targets) <= rows:  # a part that is all of it would cost a copy of its gradient
        loss = sum_surprises(logits, targets, label_smoothing, pad)
    else:
        loss = torch.zeros((), device=logits.device)
        for z, y in zip(logits.split(rows), targets.split(rows)):
            loss = loss + sum_surprises(z, y, label_smoothing, pad)
    return loss if reduction == "sum" else loss / (targets != IGNORE).sum().clamp(min=1)


def find_device(
    model: nn.Module,
) -> torch.device:
    "Where the weights are, or the buffers; the CPU for a model without either."
    check_type("model", model, nn.Module)
    return next(chain(model.parameters(), model.buffers()), torch.zeros((), device="cpu")).device


def call(
    model: nn.Module,
    inputs,  # a tensor, or several in a tuple
    **kwargs,  # for the model
) -> torch.Tensor:  # logits
    "The model's output for one tensor, or for several that belong together."
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    logits = model(*inputs, **kwargs)
    if not isinstance(logits, torch.Tensor):
        where = " (its `.logits`, in a module around it)" if hasattr(logits, "logits") else ""
        came = type(logits).__name__
        raise TypeError(f"model: expected one that gives logits, a tensor{where}, got {came}")
    return logits


def batch_loss(
    model: nn.Module,  # maps inputs to logits (..., vocab_size)
    batch: tuple,  # (inputs, targets); inputs a tensor or several in a tuple
    **kwargs: Any,  # for `token_loss`
) -> torch.Tensor:  # nats, a scalar; the mean over the targets that count, 0 where none does
    "What a batch costs."
    inputs, targets = batch
    return token_loss(call(model, inputs), targets, **kwargs)


def to_device(
    batch,  # a tensor, or several in tuples or lists
    device: torch.device,
):  # the same, there
    "A batch where it is needed, without waiting: memory that is pinned CUDA fetches by itself."
    if isinstance(batch, (tuple, list)):
        return tuple(to_device(part, device) for part in batch)
    if device.type == "cpu" or batch.device.type != "cpu":
        return batch.to(device)
    pinned = batch.pin_memory() if device.type == "cuda" else batch
    sent = pinned.to(device, non_blocking=True)
    sent.on_cpu = batch  # whose numbers can be checked without waiting, see `check_numbers`
    return sent


@torch.no_grad()
def total_loss(
    model: nn.Module,  # maps inputs to logits (..., vocab_size)
    batches,  # of (inputs, targets)
) -> torch.Tensor:  # (2,) nats over all targets that count, and how many; read it to wait for it
    "The summed loss, dropout off and nothing smoothed."
    device = find_device(model)
    exact = torch.float32 if device.type == "mps" else torch.float64
    nats = torch.zeros((), dtype=exact, device=device)
    count = torch.zeros((), dtype=torch.int64, device=device)
    check_batches("batches", batches, counted=False)
    with eval_mode(model):
        for batch in batches:
            inputs, targets = to_device(check_batch("batches", batch), device)
            nats += token_loss(call(model, inputs), targets, "sum")
            count += (targets != IGNORE).sum()
    return torch.stack([nats, count.to(exact)])


def evaluate(
    model: nn.Module,  # maps inputs to logits (..., vocab_size)
    batches: Iterable,  # of (inputs, targets)
) -> float:  # nats per target that counts
    "The mean loss of `model` over all targets. Raises `ValueError` where none counts."
    total, count = total_loss(model, batches).tolist()
    if not count:
        raise ValueError("batches: expected at least one target that counts, got none")
    return total / count


@torch.no_grad()
def exact_match(
    model: nn.Module,  # maps inputs to logits (..., vocab_size)
    batches: Iterable,  # of (inputs, targets)
) -> float:  # share of the rows that have a target, 0 to 1
    "How many rows have their likeliest token right at every target."
    device = find_device(model)
    counted = torch.zeros(2, dtype=torch.int64, device=device)  # rows that are right, and all
    check_batches("batches", batches, counted=False)
    with eval_mode(model):
        for batch in batches:
            inputs, targets = to_device(check_batch("batches", batch), device)
            logits = call(model, inputs)  # (B, T, V), or (B, n_classes) for a classifier
            check_targets(logits, targets)
            answers = logits.argmax(-1)
            counts = (targets != IGNORE).view(len(targets), -1)  # (B, T)
            wrong = (answers != targets).view_as(counts) & counts  # (B, T)
            has_target = counts.any(-1)  # (B,)
            right = has_target & ~wrong.any(-1)  # (B,)
            counted += torch.stack([right.sum(), has_target.sum()])
    n_right, rows = counted.tolist()
    if not rows:
        raise ValueError("batches: expected at least one target that counts, got none")
    return n_right / rows
