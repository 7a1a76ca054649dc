"""What `fit`, `evaluate` and the losses are given, checked in one place.

A batch is a pair of inputs and targets. One target that is no class ends a program with PyTorch's
number of an index, and on CUDA it makes the process unusable. So we read the numbers where that
costs next to nothing: on the CPU, also those of a tensor that `to_device` has just sent away.
"""

import warnings
from collections.abc import Iterable, Mapping

import torch

from ..base.guards import check_numbers, check_tensor, check_that
from ..data.text import IGNORE

__all__ = [
    "check_batches",
    "check_batch",
    "check_shifted",
    "check_targets",
    "check_loss",
]


def check_batches(
    name: str,  # what the error calls them
    batches,  # what came
    counted: bool = True,  # whether they need a length, as an epoch does
) -> None:
    "Raise `TypeError` unless they can be read, and counted."
    readable = isinstance(batches, Iterable) or hasattr(batches, "__getitem__")
    check_that(readable, name, "batches of (inputs, targets)", type(batches).__name__, TypeError)
    if not counted:
        return
    try:
        len(batches)
    except TypeError:
        came = type(batches).__name__
        if hasattr(batches, "dataset"):
            came = f"a {came} of {type(batches.dataset).__name__}, which has none"
        wanted = "batches with a length, such as a list or a DataLoader (`list` counts a generator)"
        raise TypeError(f"{name}: expected {wanted}, got {came}") from None


def _leaves(inputs):
    "The tensors of a batch's inputs, or what is there in their place."
    if isinstance(inputs, (tuple, list)):
        return [leaf for part in inputs for leaf in _leaves(part)]
    return [inputs]


def _in_words(batch):
    "What came in the place of a batch, and what makes one of it."
    if isinstance(batch, Mapping):
        came = f"a dictionary of {', '.join(map(str, batch))}"
        return came, "; take its parts out, as in (b['input_ids'], b['labels'])"
    if isinstance(batch, torch.Tensor):
        came = f"a tensor of shape {tuple(batch.shape)}"
        return came, "; a single batch stands in a list, as in [(inputs, targets)]"
    if isinstance(batch, tuple):
        came = f"({', '.join(type(part).__name__ for part in batch)})"
        several = "; several inputs stand in a tuple, as in ((src, tgt), targets)"
        return came, several if len(batch) > 2 else ""
    return type(batch).__name__, "; `make_batches` makes them of rows"


def check_batch(
    name: str,  # what the error calls the batch, or the batches
    batch,  # what came
) -> tuple:  # (inputs, targets), the same
    """Raise `TypeError` unless a batch is a pair of inputs and targets, all of them tensors, and
    `ValueError` where it has no row.

    Targets without a sign come back as int64: in eight bits IGNORE would be the class 156.
    """
    pair = isinstance(batch, (tuple, list)) and len(batch) == 2
    parts: list = [*_leaves(batch[0]), batch[1]] if pair else [None]
    if not all(isinstance(part, torch.Tensor) for part in parts):
        came, how = _in_words(batch)
        wanted = f"batches of (inputs, targets), both tensors{how}"
        raise TypeError(f"{name}: expected {wanted}, got {came}")
    targets = batch[1]
    if targets.ndim == 0 or len(targets) == 0:
        raise ValueError(f"targets: expected at least one row, got shape {tuple(targets.shape)}")
    signed = targets.dtype.is_signed or targets.dtype == torch.bool
    return batch[0], targets if signed else targets.long()


def check_shifted(
    name: str,  # what the note calls the batches
    batch,  # (inputs, targets), such as the first one
) -> None:
    """A note where each target is the token that stands there, as in batches for a model of Hugging
    Face's that shifts them itself: ours would learn to repeat its input."""
    inputs, targets = batch
    alike = isinstance(inputs, torch.Tensor) and inputs.shape == targets.shape
    alike = alike and not inputs.is_floating_point()
    if not alike or inputs.device.type != "cpu" or targets.device.type != "cpu":
        return
    counts = targets != IGNORE
    rows = targets.ndim > 1 and targets.shape[1] > 1 and bool(counts.any())
    if rows and torch.equal(inputs[counts], targets[counts]):
        shifted = "a language model's are one position ahead, as `collate` makes them"
        warnings.warn(f"{name}: its targets are its inputs; {shifted}", stacklevel=5)


def check_targets(
    logits,  # what came, (..., vocab_size)
    targets,  # what came, (...) integers, IGNORE where nothing is to be predicted
) -> None:
    "Raise `TypeError` or `ValueError` unless each row of logits has a target, and it is a token."
    check_tensor("logits", logits, None)
    has_tokens = logits.ndim > 0 and logits.shape[-1] > 0
    check_that(has_tokens, "logits", "at least one token", tuple(logits.shape))
    if isinstance(targets, torch.Tensor) and targets.shape == logits.shape:
        error = TypeError if targets.is_floating_point() else ValueError
        wanted = "the number of each class, as `targets.argmax(-1)` makes of one-hot rows"
        raise error(f"targets: expected {wanted}, got shape {tuple(targets.shape)}")
    axes = {1: "", 2: "B", 3: "B T"}.get(logits.ndim)
    if axes is None:
        axes = " ".join(f"axis_{i}" for i in range(logits.ndim - 1))
    check_tensor("targets", targets, axes, int, **dict(zip(axes.split(), logits.shape)))
    check_numbers("targets", targets, logits.shape[-1], besides=IGNORE)


def check_loss(
    loss,  # what came
) -> None:
    "Raise `TypeError` unless it can be called; PyTorch's losses, which take logits, are refused."
    wanted = "a function of (model, batch) that gives a scalar"
    check_that(callable(loss), "loss", wanted, loss, TypeError)
    of_logits = str(loss.__module__).startswith("torch.nn.")
    wrapped = "lambda model, batch: f(model(batch[0]).flatten(0, -2), batch[1].flatten())"
    wanted += f"; of f, which takes logits, make `{wrapped}`"
    check_that(not of_logits, "loss", wanted, loss, TypeError)
