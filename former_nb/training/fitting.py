"""The loop of lesson 08 around a `Run`, which a power cut, a GPU and several processes don't stop.

With numbers, `fit` trains as the lesson's does: AdamW for all weights, a rate that rises and falls,
and the weights that did best on `valid`. A `TrainingConfig` has every other choice, such as Muon,
an end by the clock, and parts of a batch.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from torch import nn

from ..base.guards import check_int, check_that, check_type
from .losses import batch_loss
from .optimization import Optimizers
from .training import train_step
from .training_config import TrainingConfig
from .training_run import Run

__all__ = [
    "fit",
]

EPOCHS = 10
LR = 3e-3
WEIGHT_DECAY = 0.1


@dataclass(frozen=True)
class LessonConfig(TrainingConfig):
    "The recipe of lesson 08. A checkpoint keeps its last field, and so tells it from others."

    muon_lr: float | None = None
    precision: str = "no"
    optimizer: str = "AdamW, which decays all weights"

    def make_optimizers(self, model: nn.Module) -> Optimizers:
        "One AdamW for all weights."
        adam = torch.optim.AdamW(
            model.parameters(), self.lr, (0.9, 0.95), weight_decay=self.weight_decay, fused=True
        )
        return Optimizers([adam])


def settle_config(
    epochs: int | TrainingConfig,  # as they came
    lr: float,
    weight_decay: float,
    config: TrainingConfig | None,
) -> TrainingConfig:  # what the run is trained by
    "The recipe that was asked for, by numbers or by a config. Refuses both at once."
    if isinstance(epochs, TrainingConfig):
        check_that(config is None, "config", "one config, not two", config)
        config, epochs = epochs, EPOCHS
    if config is None:
        check_int("epochs", epochs)
        return LessonConfig(epochs=epochs, lr=lr, weight_decay=weight_decay)
    check_type("config", config, TrainingConfig)
    numbers = {
        "epochs": (epochs, EPOCHS),
        "lr": (lr, LR),
        "weight_decay": (weight_decay, WEIGHT_DECAY),
    }
    for name, (came, default) in numbers.items():
        check_that(came == default, name, "no number beside a config, which has its own", came)
    return config


def fit(
    model: nn.Module,  # maps inputs to logits (..., vocab_size); trained in place
    train: Iterable,  # of (inputs, targets), with a length; inputs a tensor or several in a tuple
    valid: Iterable | None = None,  # held out; chooses the weights to keep; None keeps the last
    epochs: int | TrainingConfig = EPOCHS,  # times through `train`; or a config, and no numbers
    lr: float = LR,  # the highest rate; it rises for 5 % of the steps, then falls to 0
    weight_decay: float = WEIGHT_DECAY,  # on all weights
    *,
    config: TrainingConfig | None = None,  # in place of the numbers
    loss: Callable = batch_loss,  # maps (model, batch) to the mean over the targets that count
    callbacks: Sequence = (),  # such as `Checkpoint` and `SaveBest`
    device: str = "auto",  # 'auto', 'cpu', 'cuda' or 'mps'
    progress: bool = True,  # show a progress bar
) -> pd.DataFrame:  # a row per evaluation: step, epoch, train and valid (nats), lr, seconds
    "Train, evaluate on `valid`, and end with the weights that did best there. Refuses NaN."
    config = settle_config(epochs, lr, weight_decay, config)
    with Run(model, train, valid, config, loss, callbacks, device, progress) as run:
        clip = config.max_grad_norm
        while not run.done:
            for batch in run.batches():  # an epoch, or what is left of it
                run.begin_step(batch)
                value = train_step(run.shared, batch, run.optimizers, run.loss, clip)
                run.end_step(batch, value)
                if run.evaluation_is_due:
                    run.evaluate()
                run.tell("on_step_end")
                if run.done:
                    break
    return pd.DataFrame(run.history)
