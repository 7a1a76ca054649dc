"""What a run of `fit` is: the model, its optimizers, the data, and how far it is.

`fit` is the loop of lesson 08 around a `Run`. The run knows what a step needs besides the step: its
rate, its seed, what the loss is wrapped in, when `valid` is read, and which weights were the best.
"""

import math
import time
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from ..base.core import eval_mode
from ..base.guards import check_that, check_type
from ..data.text import IGNORE
from .callbacks import Callback, ProgressBar
from .guards import check_batch, check_batches, check_loss, check_shifted
from .losses import total_loss
from .optimization import (
    checkpoint_blocks,
    count_targets,
    in_parts,
    over_processes,
    smoothed,
    split_batch,
    to_model,
    with_precision,
)
from .precision import choose_precision
from .processes import Accelerator, as_the_first_says, start_processes
from .runs import read_epoch, reseed, seed_for
from .training_config import TrainingConfig

__all__ = [
    "wrap_loss",
    "Run",
]


def wrap_loss(
    loss: Callable,  # maps (model, batch) to the mean over the targets that count, a scalar
    config: TrainingConfig,
    accelerator: Accelerator,  # one process, or several that share each batch
    count: Callable = count_targets,  # how many of some targets count
) -> Callable:  # maps (model, batch) to such a mean, for `train_step`
    "A loss as the settings ask for it, wrapped from the inside out."
    if config.label_smoothing:
        loss = smoothed(loss, config.label_smoothing, config.pad)
    loss = to_model(loss)
    loss = with_precision(loss, config.precision)
    loss = over_processes(loss, accelerator)
    return in_parts(loss, config.gradient_accumulation_steps, accelerator.no_sync, count)


class Run:
    """What `fit` was given, what it made of it, and how far it is. Callbacks may read all of it.

    The progress is one number, the step. Epoch and batch follow from it by division. A run first
    reads one batch of each set, and checks what would otherwise fail late, after an epoch of work.
    It is used in a `with`, which starts and ends the callbacks and leaves the best weights in the
    model, also after an error or Ctrl-C. Around each step of `fit` it does three things:

    - `begin_step` sets the rate of each optimizer and the seed of dropout, by the number of the
      step.
    - `end_step` adds up what the batch has cost, and counts the step.
    - `evaluate` adds a row to the history, keeps the weights if they are the best so far, and looks
      at `patience`.

    Each process reads the whole batch and keeps its share of each of the
    `gradient_accumulation_steps` parts.
    """

    def __init__(
        self,
        model: nn.Module,  # maps inputs to logits (..., vocab_size); trained in place
        train,  # batches of (inputs, targets), with a length
        valid,  # the same, held out; with None nothing is measured there, and the last weights stay
        config: TrainingConfig,
        loss: Callable,  # maps (model, batch) to the mean over the targets that count, a scalar
        callbacks=(),
        device: str = "auto",  # 'auto', 'cpu', 'cuda' or 'mps'
        progress: bool = False,  # show a progress bar
    ):
        self.began = time.perf_counter()  # at second 0: the first batch and step are part of it
        check_type("model", model, nn.Module)
        trains = any(p.requires_grad for p in model.parameters())
        check_that(trains, "model", "at least one weight to train", type(model).__name__, TypeError)
        check_type("config", config, TrainingConfig)
        check_loss(loss)
        check_type("callbacks", callbacks, (list, tuple))
        for callback in callbacks:
            check_type("callbacks", callback, Callback)
        self.waiting: list[Any] = [*callbacks]  # those to be started
        self.model = model
        self.train = train
        self.valid = () if valid is None else valid
        self.validated = valid is not None
        self.config = config
        batch = self.read_first("train")
        if self.validated:
            self.read_first("valid")
        blind = valid is None and config.patience is not None
        check_that(not blind, "patience", "None where there is no `valid`", config.patience)
        self.accelerator, where = start_processes(device)
        self.plain_loss = loss  # as it was given
        settled = config.precision
        if settled == "auto" and where.type == "cpu":
            settled = choose_precision(model, batch, config)
        self.compute_in(settled)
        model.to(where)
        self.shared: Any = torch.compile(model) if config.compile else model
        self.shared = self.accelerator.prepare(self.shared)  # as the processes share it
        self.optimizers = config.make_optimizers(model)
        # These two stay on the device, because reading a number makes the processor wait for it.
        exact = torch.float32 if where.type == "mps" else torch.float64
        self.nats = torch.zeros((), device=where, dtype=exact)  # of this process
        self.targets = torch.zeros((), device=where, dtype=torch.int64)  # of all processes
        self.step = 0  # optimizer steps done
        self.seconds = 0.0  # spent, interruptions left out
        self.history: list[dict] = []  # a row per evaluation
        self.best: dict[str, torch.Tensor] | None = None  # weights with the lowest validation loss
        self.done = False
        self.callbacks: list[Any] = []  # those that were started
        if progress:
            self.waiting.append(ProgressBar())

    # ---- beginning and end

    def __enter__(self) -> "Run":
        self.lasting = self.while_it_lasts()
        return self.lasting.__enter__()

    def __exit__(self, kind, error, traceback):
        return self.lasting.__exit__(kind, error, traceback)

    @contextmanager
    def while_it_lasts(self):
        "What is set up for the length of a run, and ended whatever happens."
        try:
            checkpoint_blocks(self.model, self.config.activation_checkpointing)
            with eval_mode(self.model):
                for callback in self.waiting:
                    self.callbacks.append(callback)
                    callback.on_start(self)
                self.began -= self.seconds  # a run that goes on has spent some
                yield self
        finally:
            with ExitStack() as ends:  # of which all are done, the last one first
                for callback in reversed(self.callbacks):
                    ends.callback(callback.on_end, self)
                ends.callback(checkpoint_blocks, self.model, False)
                if self.best is not None:
                    ends.callback(self.model.load_state_dict, self.best)

    def compute_in(self, precision: str) -> None:
        "Settle what 'auto' means. A run that goes on keeps the precision that it began with."
        self.precision = precision
        config = replace(self.config, precision=precision)
        self.loss = wrap_loss(self.plain_loss, config, self.accelerator)

    def tell(self, event: str) -> None:
        "Call the method `event` of each callback."
        for callback in self.callbacks:
            getattr(callback, event)(self)

    # ---- progress

    @property
    def steps(self) -> float:
        "How many steps the run has; infinite where only the clock ends it."
        return self.config.steps or (self.config.epochs or math.inf) * len(self.train)

    @property
    def over(self) -> bool:
        "Whether the last step was made, or the time is up."
        return self.step >= self.steps or self.seconds >= self.config.seconds

    @property
    def evaluation_is_due(self) -> bool:
        "Whether `valid` is to be read after this step."
        every = self.config.eval_every or len(self.train)
        return self.over or self.step % every == 0

    @property
    def since_best(self) -> int:
        "Evaluations since the best one; 0 right after it, and always where none is validated."
        if not self.validated:
            return 0
        losses = [row["valid"] for row in self.history]
        return len(losses) - 1 - losses.index(min(losses))

    def tick(self) -> None:
        "Note how long the run has lasted; where minutes end it, the first process's clock counts."
        self.seconds = time.perf_counter() - self.began
        if self.config.minutes is not None:
            self.seconds = as_the_first_says(self.accelerator, self.seconds)

    # ---- a step

    def read(self, name: str, epoch: int = 0, skip: int = 0):
        "The batches of an epoch of `train` or `valid`, each looked at before it is given away."
        for batch in read_epoch(getattr(self, name), self.config.seed, epoch, skip, name):
            yield check_batch(name, batch)

    def read_first(self, name: str):
        "The first batch. Raises `TypeError` for what cannot be read, or is no pair."
        check_batches(name, getattr(self, name))
        batch = next(self.read(name), None)
        check_that(batch is not None, name, "at least one batch", getattr(self, name), TypeError)
        check_shifted(name, batch)
        return batch

    def batches(self):
        "The batches of an epoch, or what is left of it."
        return self.read("train", *divmod(self.step, len(self.train)))

    def begin_step(self, batch) -> None:
        "Set the rates, and the seed of dropout, by the number of the step."
        config = self.config
        targets = batch[1]
        if config.label_smoothing and config.pad is not None and targets.device.type == "cpu":
            if (targets == config.pad).any():
                came = f"got a target that is {config.pad}"
                raise ValueError(f"pad: expected {IGNORE} or pad=None, {came}")
        share = config.rate(self.step, self.steps, self.seconds)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                peak = group.setdefault("initial_lr", group["lr"])
                group["lr"] = peak * share
        rank = self.accelerator.process_index
        reseed(seed_for(config.seed, "step", self.step, rank), self.nats.device.type)

    def end_step(
        self,
        batch,  # (inputs, targets), the same for every process
        loss: torch.Tensor,  # from `train_step`: this process's part of the mean
    ) -> None:
        "Add up what the batch has cost, and count the step."
        count = count_targets(batch[1])
        if isinstance(count, torch.Tensor):  # of a batch that is on some device
            count = count.to(self.nats.device)
        if self.step == 0 and loss.device.type == "cpu":
            wanted = "a number from the first batch, before anything was learned"
            check_that(math.isfinite(loss), "loss", wanted, loss.item())
        self.nats += loss.to(self.nats) * count / self.accelerator.num_processes
        self.targets += count
        self.optimizers.zero_grad()  # whose memory an evaluation can use
        self.step += 1
        self.tick()

    # ---- an evaluation

    def evaluate(self) -> None:
        "Add a row to the history, keep the weights if they are the best, and end if it is time."
        self.history.append(self.measure())
        if self.validated and self.since_best == 0:
            self.best = {name: t.detach().clone() for name, t in self.model.state_dict().items()}
        patience = self.config.patience or math.inf
        self.done = self.over or self.since_best >= patience
        self.tell("on_evaluate")

    def measure(self) -> dict:  # a row of the history
        "The losses since the last evaluation and on the validation data, over all processes."
        rank = self.accelerator.process_index
        processes = self.accelerator.num_processes
        batches = self.read("valid")
        mine = (split_batch(batch, processes)[rank] for batch in batches)  # as many for each
        valid_nats, valid_targets = total_loss(self.model, mine)
        nats, count, lost, targets = self.total(valid_nats, valid_targets, self.nats, self.targets)
        if self.validated and not count:
            raise ValueError("valid: expected at least one target that counts, got none")
        train = lost / (targets / processes) if targets else None
        self.check_learned(train)
        self.check_finite(train=train, valid=nats if self.validated else None)
        self.nats.zero_()
        self.targets.zero_()
        self.tick()
        return {
            "step": self.step,
            "epoch": self.step // len(self.train),
            "train": train,
            "valid": nats / count if self.validated else None,
            "lr": self.optimizers[0].param_groups[0]["lr"],
            "seconds": self.seconds,
        }

    def total(self, *numbers) -> list[float]:
        "The sum of each number over all processes; waits for the device once."
        mine = torch.stack([x.to(self.nats) for x in numbers])
        return self.accelerator.reduce(mine, "sum").tolist()

    def check_learned(self, train: float | None) -> None:
        "Raise `ValueError` after an epoch, or a whole run, without a target that counts."
        losses = [train, *(row["train"] for row in self.history)]
        if losses.count(None) == len(losses) and (self.over or self.step >= len(self.train)):
            raise ValueError("train: expected at least one target that counts, got none")

    def check_finite(self, **numbers: float | None) -> None:
        "Raise `ValueError` for NaN: what is broken is neither reported nor saved."
        known = {name: x for name, x in numbers.items() if x is not None}
        if not all(math.isfinite(x) for x in known.values()):
            came = ", ".join(f"{name} {x:.4g}" for name, x in known.items())
            what = f"lr: the loss is no longer a number after step {self.step} ({came})"
            raise ValueError(f"{what}; a smaller rate may help, got lr={self.config.lr}")
