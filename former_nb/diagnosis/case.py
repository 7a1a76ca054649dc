"""A model of anybody's with one batch: how it is called, and what it is asked.

The batch is (inputs, targets), as for `fit`, or the mapping of Hugging Face with its `labels`. The
inputs are token ids (B, T), a pair (source ids, target ids), or a mapping of arguments. The outputs
are logits, or whatever holds them.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..base.guards import check_that, check_type
from ..data.text import IGNORE
from .record import first_tensor

__all__ = ["Case", "is_tokens", "logits_of"]


def logits_of(
    out: Any,  # what a model returned: logits, or what holds them
) -> torch.Tensor:
    "The logits in what a model returns: itself, `.logits`, or the first floating point tensor."
    if getattr(out, "logits", None) is not None:
        return out.logits
    if isinstance(out, Mapping) and "logits" in out:
        return out["logits"]
    found = first_tensor(out)
    check_type("what model returns", out if found is None else found, torch.Tensor)
    return found


def is_tokens(value):
    "Whether a value is a table of token ids, (B, T)."
    if not isinstance(value, torch.Tensor) or value.ndim != 2:
        return False
    return not value.is_floating_point() and value.dtype != torch.bool


def default_loss(
    logits: torch.Tensor,  # (..., V)
    targets: torch.Tensor,  # (...), -100 where none counts
) -> torch.Tensor:  # the mean, in nats
    "PyTorch's cross-entropy over the last axis."
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=IGNORE)


@dataclass
class Case:
    "What the probes ask. `model` is only read; `copied` gives one that may be trained."

    model: nn.Module
    inputs: Any  # ids, a tuple of ids, or a mapping
    targets: torch.Tensor
    loss: Callable | None  # (logits, targets) -> a number; None: the model's own
    optimizer: torch.optim.Optimizer | None
    kind: str = ""  # 'causal', 'tokens' or 'labels'
    notes: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, model, batch, loss, optimizer):
        "Read the batch. `TypeError` or `ValueError` for one that is none."
        check_type("model", model, nn.Module)
        if isinstance(batch, Mapping):
            check_that("labels" in batch, "batch", "a mapping with 'labels'", sorted(batch))
            inputs, targets = dict(batch), batch["labels"]
            if loss is not None:  # otherwise the model makes its own of them
                del inputs["labels"]
            # what the decoder of Hugging Face's encoder-decoders reads is made of the labels
            shift = getattr(model, "prepare_decoder_input_ids_from_labels", None)
            if shift and "decoder_input_ids" not in inputs:
                inputs["decoder_input_ids"] = shift(targets)
        else:
            pair = isinstance(batch, (tuple, list)) and len(batch) == 2
            check_that(pair, "batch", "a pair (inputs, targets), or a mapping", type(batch))
            inputs, targets = batch
            loss = loss or default_loss
        check_type("targets", targets, torch.Tensor)
        if isinstance(inputs, list):
            inputs = tuple(inputs)
        return cls(model, inputs, targets, loss, optimizer)

    # ---------------------------------------------------------------- inputs

    @property
    def ids(self):
        "The tokens that the targets belong to, (B, T), or None where the inputs are no tokens."
        if isinstance(self.inputs, torch.Tensor):
            found = self.inputs
        elif isinstance(self.inputs, Mapping):
            names = ("decoder_input_ids", "input_ids")
            found = next((self.inputs[name] for name in names if name in self.inputs), None)
        else:
            found = max(filter(is_tokens, reversed(self.inputs)), key=self._agrees, default=None)
        return found if is_tokens(found) else None

    def _agrees(self, ids):
        "How many targets are a token of these ids, or one beside it: beside them may be others."
        if ids.shape != self.targets.shape:
            return 0.0
        return max(
            (told == seen).float().mean().item() if told.numel() else 0.0
            for told, seen in (shifted(self.targets, ids, s) for s in (-1, 0, 1, 2))
        )

    def with_ids(self, ids, row=None):
        """The inputs with other tokens, as many rows and columns as those have.

        With `row`, all that stands beside the tokens is that of this row.
        """
        if isinstance(self.inputs, torch.Tensor):
            return ids
        rows, columns = ids.shape
        whole = self.ids.shape

        def beside(value):
            if not isinstance(value, torch.Tensor) or value.shape[:1] != whole[:1]:
                return value
            value = value[:rows] if row is None else value[[row] * rows]
            return value[:, :columns] if value.shape[1:2] == whole[1:] else value

        own = self.ids
        if isinstance(self.inputs, Mapping):
            return {k: ids if v is own else beside(v) for k, v in self.inputs.items()}
        return tuple(ids if part is own else beside(part) for part in self.inputs)

    def small(self, rows=8, columns=32):
        "The same with the first rows, and of long texts the first columns."
        ids, targets = self.ids, self.targets
        if ids is None or (len(ids) <= rows and ids.shape[1] <= columns):
            return self
        each = targets.shape == ids.shape
        ids = ids[:rows, :columns] if each else ids[:rows]
        targets = targets[:rows, :columns] if each else targets[:rows]
        return replace(self, inputs=self.with_ids(ids), targets=targets)

    def call(self, inputs, model=None):
        "What the model returns for inputs."
        model = self.model if model is None else model
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, tuple) else model(inputs)

    def logits(self, inputs=None, model=None):
        "The model's logits for inputs, those of the batch if left out."
        return logits_of(self.call(self.inputs if inputs is None else inputs, model))

    def loss_of(self, model=None):
        "The loss of the batch, and the logits that it was computed from."
        model = self.model if model is None else model
        if self.loss is None:
            out = model(**self.inputs)
            loss = out["loss"] if isinstance(out, Mapping) else out.loss
            return loss, logits_of(out)
        logits = self.logits(model=model)
        return self.loss(logits, self.targets), logits

    # ---------------------------------------------------------------- what it is

    def classify(self, logits):
        "Find out what the model is for: `kind`."
        ids, targets = self.ids, self.targets
        if targets.is_floating_point() or targets.ndim != 2 or logits.ndim != 3:
            self.kind = "labels"
        elif ids is None or ids.shape != targets.shape or ids.shape != logits.shape[:2]:
            self.kind = "tokens"
        else:
            self.kind = "causal" if self._is_next(ids, targets) else "tokens"

    def _is_next(self, ids, targets):
        "Whether the job is to say what comes next, however the targets are shifted."
        counted = targets != IGNORE
        if self.loss is None and torch.equal(ids[counted], targets[counted]):
            name = type(self.model).__name__
            return "CausalLM" in name or "LMHead" in name or self.takes("decoder_input_ids")
        for step in (-1, 0, 1, 2):
            told, seen = shifted(targets, ids, step)
            if told.numel() >= 4 and (told == seen).float().mean() > 0.9:
                return step != 0 or not reads_ahead(self)
        return False

    @property
    def vocab_size(self):
        "How many tokens the embedding of `ids` has, as far as its weights say."
        tables = [m.num_embeddings for m in self.model.modules() if isinstance(m, nn.Embedding)]
        highest = int(self.ids.max()) + 1
        return max([n for n in tables if n >= highest] or [highest])

    def copied(self):
        "A copy of the model and of its optimizer, which may be trained; None if there is none."
        try:
            return copy.deepcopy((self.model, self.optimizer))
        except Exception as error:  # deepcopy runs other people's code
            said = f"the model can't be copied ({type(error).__name__}), so nothing was trained"
            if said not in self.notes:
                self.notes.append(said)
            return None

    def takes(self, name):
        "Whether the model's forward has an argument of this name."
        return name in inspect.signature(self.model.forward).parameters


def shifted(targets, ids, step):
    """Counted targets, and the tokens `step` places later than where they are asked: two flat rows.

    The last target of a row that is filled up may be a token that `ids` doesn't hold, so it's left
    out if others are left.
    """
    T = ids.shape[1]
    if step >= 0:
        told, seen, later = targets[:, : T - step], ids[:, step:], targets[:, step:]
    else:
        told, seen, later = targets[:, -step:], ids[:, : T + step], targets[:, -step:]
    counted = told != IGNORE
    inside = counted & (later != IGNORE)
    if inside.any():
        counted = inside
    return told[counted], seen[counted]


@torch.no_grad()
def reads_ahead(case):
    "Whether an output moves with a later token: an encoder that writes down what it reads."
    ids = case.ids[:1].clone()
    before = case.logits(case.with_ids(ids))
    ids[0, -1] = (ids[0, -1] + 1) % max(2, case.vocab_size)
    after = case.logits(case.with_ids(ids))
    return bool((before - after)[:, :-1].abs().max() > 0)
