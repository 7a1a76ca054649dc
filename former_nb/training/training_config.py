"""How a model is trained, written down once and checked.

A run is named by its settings, and a checkpoint keeps them. They also become options of the command
line and the file of a trained model.
"""

import math
from dataclasses import dataclass, fields

import numpy as np

from ..base.core import Settings
from ..base.guards import check_choice
from ..data.text import PAD
from .optimization import SCHEDULES

__all__ = [
    "RULES",
    "CHOICES",
    "TrainingConfig",
]


def _is_whole(x):
    return type(x) is int


def _is_number(x):
    return type(x) in (int, float) and abs(x) < 1e300


_ONE_OR_MORE = "a whole number of 1 or more", lambda x: _is_whole(x) and x >= 1
_ZERO_OR_MORE = "a whole number of 0 or more", lambda x: _is_whole(x) and x >= 0
_ABOVE_0 = "a number above 0", lambda x: _is_number(x) and x > 0
_NOT_BELOW_0 = "a number of 0 or more", lambda x: _is_number(x) and x >= 0
_SHARE = "a number from 0 to below 1", lambda x: _is_number(x) and 0 <= x < 1

RULES = {  # field -> what is expected, in words and as a test
    "epochs": _ONE_OR_MORE,
    "steps": _ONE_OR_MORE,
    "minutes": _ABOVE_0,
    "lr": _ABOVE_0,
    "muon_lr": _ABOVE_0,
    "weight_decay": _NOT_BELOW_0,
    "warmup": _SHARE,
    "max_grad_norm": _ABOVE_0,
    "label_smoothing": _SHARE,
    "pad": _ZERO_OR_MORE,
    "gradient_accumulation_steps": _ONE_OR_MORE,
    "eval_every": _ONE_OR_MORE,
    "patience": _ONE_OR_MORE,
    "seed": _ZERO_OR_MORE,
}
CHOICES = {  # field -> what it may be
    "schedule": SCHEDULES,
    "activation_checkpointing": (True, False),
    "precision": ("auto", "no", "bf16"),
    "compile": (True, False),
}
_MAY_BE_NONE = ("epochs", "steps", "minutes", "muon_lr", "pad", "eval_every", "patience")


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
    pad: int | None = PAD  # the token that gets none of it; None where every class can be right
    gradient_accumulation_steps: int = 1  # parts each batch is cut into, to need less memory
    activation_checkpointing: bool = False  # keep a block's input only, compute the rest twice
    eval_every: int | None = None  # steps between two evaluations; None evaluates after each epoch
    patience: int | None = None  # stop after so many evaluations without a new best
    precision: str = "auto"  # 'no' (float32), 'bf16', or 'auto': bf16 where it pays
    compile: bool = False  # let torch.compile build the model's kernels
    seed: int = 0  # of dropout, and of the order of batches that have no seed of their own

    def __post_init__(self):
        if self.epochs is None and self.steps is None and self.minutes is None:
            self._set("epochs", 10)
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.generic):  # JSON knows the numbers of Python only
                value = value.item()
                self._set(field.name, value)
            self._check(field.name, value)

    def _set(self, name, value):
        "Give a field its value while the settings are made; afterwards they are frozen."
        object.__setattr__(self, name, value)

    def _check(self, name, value):
        "Raise `ValueError` unless a field may have this value."
        if name in CHOICES:
            check_choice(name, value, CHOICES[name])
            return
        if value is None and name in _MAY_BE_NONE:
            return
        expected, fits = RULES[name]
        if not fits(value):
            raise ValueError(f"{name}: expected {expected}, got {value!r}")

    @property
    def seconds(self) -> float:
        "How long a run may last."
        return math.inf if self.minutes is None else 60 * self.minutes

    def rate(self, step: int, steps: float, seconds: float) -> float:
        "The share of the peak rates: the schedule by steps or by the clock, whichever is lower."
        schedule = SCHEDULES[self.schedule]
        shares = []
        if steps < math.inf:
            shares.append(schedule(step, steps, self.warmup))
        if self.seconds < math.inf:
            shares.append(schedule(seconds, self.seconds, self.warmup))
        return min(shares)
