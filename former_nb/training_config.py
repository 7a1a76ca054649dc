"""How a model is trained, written down once and checked.

A run is named by its settings, and a checkpoint keeps them. They also become options of the command
line and the file of a trained model.
"""

import math
from dataclasses import dataclass, fields

import numpy as np

from .core import Settings
from .guards import check_choice
from .optimization import SCHEDULES
from .text import PAD

__all__ = [
    "RULES",
    "CHOICES",
    "TrainingConfig",
]


def _is_number(x):
    return type(x) in (int, float) and abs(x) < 1e300


RULES = {  # what is expected: as a test, and of which fields
    "a whole number of 1 or more": (
        lambda x: type(x) is int and x >= 1,
        ("epochs", "steps", "eval_every", "patience", "gradient_accumulation_steps"),
    ),
    "a whole number of 0 or more": (lambda x: type(x) is int and x >= 0, ("pad", "seed")),
    "a number above 0": (
        lambda x: _is_number(x) and x > 0,
        ("minutes", "lr", "muon_lr", "max_grad_norm"),
    ),
    "a number of 0 or more": (lambda x: _is_number(x) and x >= 0, ("weight_decay",)),
    "a number from 0 to below 1": (
        lambda x: _is_number(x) and 0 <= x < 1,
        ("warmup", "label_smoothing"),
    ),
}
CHOICES = {
    "schedule": SCHEDULES,
    "precision": ("auto", "no", "bf16"),
    "activation_checkpointing": (True, False),
    "compile": (True, False),
}
_RULE = {}  # field -> what is expected, in words and as a test
for _expected, (_fits, _names) in RULES.items():
    for _name in _names:
        _RULE[_name] = (_expected, _fits)


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
    precision: str = "auto"  # 'no' (float32), 'bf16', or 'auto': bf16 on CUDA
    compile: bool = False  # let torch.compile build the model's kernels
    seed: int = 0  # of dropout, and of the order of batches that have no seed of their own

    def __post_init__(self):
        if self.epochs is self.steps is self.minutes is None:
            object.__setattr__(self, "epochs", 10)
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.generic):
                value = value.item()
            object.__setattr__(self, f.name, value)
            if f.name in CHOICES:
                check_choice(f.name, value, CHOICES[f.name])
            elif value is not None or not isinstance(None, f.type):
                expected, fits = _RULE[f.name]
                if not fits(value):
                    raise ValueError(f"{f.name}: expected {expected}, got {value!r}")

    @property
    def seconds(self) -> float:
        "How long a run may last."
        return math.inf if self.minutes is None else 60 * self.minutes

    def rate(self, step: int, steps: float, seconds: float) -> float:
        "The share of the peak rates: the schedule by steps or by the clock, whichever is lower."
        schedule = SCHEDULES[self.schedule]
        ways = ((step, steps), (seconds, self.seconds))
        return min(schedule(now, end, self.warmup) for now, end in ways if end < math.inf)
