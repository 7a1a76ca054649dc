"""What a number may be, in one form for arguments, settings and options.

Nothing here needs PyTorch, so the command line refuses a setting before it has loaded.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real
from types import NoneType
from typing import Any, NamedTuple, get_args

__all__ = [
    "check_that",
    "check_choice",
    "Range",
    "at_least",
    "from_to",
    "check_fields",
    "in_words",
    "TRAINING",
    "TrainingFields",
]


def check_that(
    fits: bool,  # whether the argument is what it should be
    name: str,  # what the error calls it
    wanted: str,  # what it should be, in words
    value,  # what came
    error: type[Exception] = ValueError,  # of which kind
) -> None:
    "Raise `error`, with the sentence that all guards share, unless the argument fits."
    if not fits:
        came = " ".join(f"{value!r:.200}".split())  # a tensor takes several lines
        raise error(f"{name}: expected {wanted}, got {came}")


class Range(NamedTuple):
    "Which numbers are accepted, in words and as a test. NaN, infinity and booleans never are."

    words: str
    fits: Callable[[Any], bool]
    whole: bool = False

    def check(
        self,
        name: str,  # what the error calls it
        value,  # what came
        error: type[Exception] = TypeError,  # for what is no such number
    ) -> None:
        "Raise `error` unless `value` is a number of this kind, `ValueError` outside the range."
        kind = Integral if self.whole else Real
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        check_that(is_number, name, self.words, value, error)
        finite = self.whole or abs(value) <= 1e300  # a whole number can be too large for a float
        check_that(finite and self.fits(value), name, self.words, value)


def at_least(
    least: int,
) -> Range:  # of whole numbers
    "Whole numbers from `least` on."
    return Range(f"a whole number of {least} or more", lambda x: x >= least, whole=True)


def from_to(
    least: int,
    most: int,  # which is accepted, too
) -> Range:  # of whole numbers
    "Whole numbers from `least` to `most`."
    words = f"a whole number from {least} to {most:,}"
    return Range(words, lambda x: least <= x <= most, whole=True)


WHOLE = Range("a whole number", lambda x: True, whole=True)
ZERO_OR_MORE = at_least(0)
ONE_OR_MORE = at_least(1)
NUMBER = Range("a number", lambda x: True)
NOT_BELOW_0 = Range("a number of 0 or more", lambda x: x >= 0)
ABOVE_0 = Range("a number above 0", lambda x: x > 0)
SHARE = Range("a number from 0 to below 1", lambda x: 0 <= x < 1)
PORTION = Range("a number from 0 to 1", lambda x: 0 <= x <= 1)


def check_choice(
    name: str,  # what the error calls it
    value,  # what came
    choices: Collection,
) -> None:
    "Raise `ValueError` unless `value` is one of the choices and of their type."
    fits = any(type(value) is type(choice) and value == choice for choice in choices)
    check_that(fits, name, f"one of {list(choices)}", value)


def check_fields(
    settings,  # a dataclass
    rules: Mapping[str, Range | Collection],  # field -> its range, or its choices
    error: type[Exception] = ValueError,  # for what is no number where one is expected
) -> None:
    "Raise an error unless each of these fields fits, or is None where its type says so."
    types = {field.name: field.type for field in fields(settings)}
    for name, rule in rules.items():
        value = getattr(settings, name)
        if value is None and NoneType in get_args(types[name]):
            continue
        if isinstance(rule, Range):
            rule.check(name, value, error)
        else:
            check_choice(name, value, rule)


def in_words(
    rule: Range | Collection,  # a range, or choices
) -> str:
    "What a rule accepts, for help; nothing for true and false, which an option has already."
    if isinstance(rule, Range):
        return rule.words
    words = [str(choice) for choice in rule if not isinstance(choice, bool)]
    return f"one of {', '.join(words)}" if words else ""


TRAINING = {  # setting of a training -> the same
    "epochs": ONE_OR_MORE,
    "steps": ONE_OR_MORE,
    "minutes": ABOVE_0,
    "lr": ABOVE_0,
    "muon_lr": ABOVE_0,
    "weight_decay": NOT_BELOW_0,
    "schedule": ("cosine", "inverse_sqrt"),
    "warmup": SHARE,
    "max_grad_norm": ABOVE_0,
    "label_smoothing": SHARE,
    "pad": ZERO_OR_MORE,
    "gradient_accumulation_steps": ONE_OR_MORE,
    "activation_checkpointing": (True, False),
    "eval_every": ONE_OR_MORE,
    "patience": ONE_OR_MORE,
    "precision": ("auto", "no", "bf16"),
    "compile": (True, False),
    "seed": ZERO_OR_MORE,
}


@dataclass(frozen=True)
class TrainingFields:
    "What a `TrainingConfig` and a task of the command line have in common."

    epochs: int | None = None  # times through the data; 10 where nothing else ends the run
    steps: int | None = None  # optimizer steps, in place of epochs
    minutes: float | None = None  # no step begins after so long; the rate has fallen by then
    lr: float = 3e-3  # peak rate of AdamW
    muon_lr: float | None = 0.02  # peak rate of Muon, for linear layers; None (--muon-lr 0): AdamW
    weight_decay: float = 0.1  # on the weights of linear layers
    schedule: str = "cosine"  # 'cosine' or 'inverse_sqrt', after the warm-up
    warmup: float = 0.05  # share of the run spent rising
    max_grad_norm: float = 1.0  # to which a larger gradient is clipped
    label_smoothing: float = 0.0  # share of each target that is spread over all tokens
    pad: int | None = 0  # the token that gets no share of label smoothing
    gradient_accumulation_steps: int = 1  # parts each batch is cut into, to need less memory
    activation_checkpointing: bool = False  # keep a block's input only, compute the rest twice
    eval_every: int | None = None  # steps between two evaluations; by default one after each epoch
    patience: int | None = None  # stop after so many evaluations without a new best
    precision: str = "auto"  # 'no' (float32), 'bf16', or 'auto': bf16 where it pays
    compile: bool = False  # let torch.compile build the model's kernels
    seed: int = 0  # of dropout, and of the order of batches that have no seed of their own
