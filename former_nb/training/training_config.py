"""How a model is trained, written down once and checked.

A run is named by its settings, and a checkpoint keeps them. They also become options of the command
line and the file of a trained model.
"""

import math
from dataclasses import dataclass

import numpy as np
from torch import nn

from ..base.ranges import TRAINING, TrainingFields, check_fields
from .optimization import SCHEDULES, Optimizers, make_optimizers

__all__ = [
    "TrainingConfig",
]


@dataclass(frozen=True)
class TrainingConfig(TrainingFields):
    """How a model is trained. Checked on creation; kept in each checkpoint.

    A field may be `None` where its type says so. A run that ends by the clock also rises and falls
    by the clock, whatever the number of steps.
    """

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
