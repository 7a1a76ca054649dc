"""How a model is trained, written down once and checked.

A run is named by its settings, and a checkpoint keeps them. They also become options of the command
line and the file of a trained model.
"""

import math
from dataclasses import dataclass

import numpy as np
from torch import nn

from ..base.core import Settings
from ..base.ranges import TRAINING, check_fields
from ..data.text import PAD
from .optimization import SCHEDULES, Optimizers, make_optimizers

__all__ = [
    "TrainingConfig",
]


@dataclass(frozen=True)
class TrainingConfig(Settings):
    """How a model is trained. Checked on creation; kept in each checkpoint.

    A field may be `None` where its type says so. A run that ends by the clock also rises and falls
    by the clock, whatever the number of steps.
    """

    epochs: int | None = None  # times through the data; 10 where nothing else ends the run
    steps: int | None = None  # optimizer steps, in place of epochs
    minutes: float | None = None  # no step begins after so long; the rate has fallen by then
    lr: float = 3e-3  # peak rate of AdamW
    muon_lr: float | None = 0.02  # peak rate of Muon, for linear layers; None leaves all to AdamW
    weight_decay: float = 0.1  # on the weights of linear layers
    schedule: str = "cosine"  # 'cosine' or 'inverse_sqrt', after the warm-up
    warmup: float = 0.05  # share of the run spent rising
    max_grad_norm: float = 1.0  # to which a larger gradient is clipped
    label_smoothing: float = 0.0  # share of each target that is spread over all tokens
    pad: int | None = PAD  # the token that gets no share of label smoothing
    gradient_accumulation_steps: int = 1  # parts each batch is cut into, to need less memory
    activation_checkpointing: bool = False  # keep a block's input only, compute the rest twice
    eval_every: int | None = None  # steps between two evaluations; by default one after each epoch
    patience: int | None = None  # stop after so many evaluations without a new best
    precision: str = "auto"  # 'no' (float32), 'bf16', or 'auto': bf16 where it pays
    compile: bool = False  # let torch.compile build the model's kernels
    seed: int = 0  # of dropout, and of the order of batches that have no seed of their own

    def __post_init__(self):
        if self.epochs is None and self.steps is None and self.minutes is None:
            object.__setattr__(self, "epochs", 10)
        for name in TRAINING:
            value = getattr(self, name)
            if isinstance(value, np.generic):  # JSON knows the numbers of Python only
                object.__setattr__(self, name, value.item())
        check_fields(self, TRAINING)

    @property
    def seconds(self) -> float:
        "How long a run may last."
        return math.inf if self.minutes is None else 60 * self.minutes

    def make_optimizers(self, model: nn.Module) -> Optimizers:
        "What moves the weights of a model."
        return make_optimizers(model, self.lr, self.muon_lr, self.weight_decay)

    def rate(self, step: int, steps: float, seconds: float) -> float:
        "The share of the peak rates: the schedule by steps or by the clock, whichever is lower."
        schedule = SCHEDULES[self.schedule]
        shares = []
        if steps < math.inf:
            shares.append(schedule(step, steps, self.warmup))
        if self.seconds < math.inf:
            shares.append(schedule(seconds, self.seconds, self.warmup))
        return min(shares)
