"""What a task is: its settings, its data, its model and its report.

This file and those of the tasks import PyTorch inside functions only, so that help does not wait.
"""

import inspect
import json
import math
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from ..base.ranges import (
    NOT_BELOW_0,
    NUMBER,
    TRAINING,
    WHOLE,
    Range,
    TrainingFields,
    check_fields,
    check_that,
    in_words,
)
from ..models.choices import ACTIVATIONS, MODEL

if TYPE_CHECKING:
    from torch import nn

    from ..models.config import TransformerConfig
    from ..training.training_config import TrainingConfig

ENDS = ("epochs", "steps", "minutes")
PART_WORDS = ("to learn from", "to choose by", "held out")
RUN_OPTIONS = {  # of the command line, so that no setting can be called so
    "out",
    "resume",
    "config",
    "device",
    "overwrite",
    "dry_run",
}
KEPT = "last-*.safetensors"  # what a task keeps in the folder of a run besides its model
KINDS = {int: WHOLE, float: NUMBER, str: "text", bool: "true or false"}
FileName = Annotated[str, "made absolute, so that a run may go on from another folder"]
Say = Callable[[str], None]  # prints a line, in the first process only


@dataclass
class Data:
    "What a task learns from, chooses weights by and is judged on."

    source: str  # where it comes from, in words
    parts: list  # rows to learn from, to choose by and, where there are more, held out
    train: Iterable  # batches, as for `fit`
    valid: Iterable
    tokenizer: Any  # a `TextTokenizer`
    max_len: int  # tokens that the model can read
    labels: list[str] | None = None  # of a classifier
    remark: str = ""  # what else is said behind the sizes

    @property
    def sizes(self) -> str:
        "How much there is of each part, in words."
        counts = [f"{len(part):,} {words}" for part, words in zip(self.parts, PART_WORDS)]
        return ", ".join(counts) + self.remark


@dataclass(frozen=True)
class Task(TrainingFields, ABC):
    """What `former-nb train` can learn. Each field is an option, its comment the help.

    A subclass adds settings of its own and changes defaults. The settings here are those of
    `TransformerConfig` and `TrainingConfig`, which also check them. `rules` says what each may be:
    help shows it, and `check_own` asks it of the settings that a subclass adds.
    """

    rules = MODEL | TRAINING | {"muon_lr": NOT_BELOW_0}  # neither TOML nor an option has None
    other_data: ClassVar[tuple[str, ...]] = ()  # options of `evaluate` that `read_other` takes
    row_key: ClassVar[Callable | None] = None  # row -> what two rows share that count as one

    d_model: int = 64  # width of the residual stream
    n_heads: int = 4  # heads per layer; divides d_model
    n_layers: int = 3  # blocks
    d_ff: int | None = None  # units of a network; 4 times d_model, two thirds of it for swiglu
    dropout: float = 0.1  # share of numbers that are set to 0 in training
    positions: str = "learned"  # how attention knows the order
    n_kv_heads: int | None = None  # heads of keys and values; divides n_heads; by default equal
    activation: str = "gelu"  # between the layers of the feed-forward network
    norm: str = "layer"  # LayerNorm, or RMSNorm for 'rms'
    norm_first: bool = True  # pre-norm, or post-norm
    d_k: int | None = None  # width of a head; by default d_model / n_heads

    def __post_init__(self):
        if self.d_ff is None and type(self.d_model) is int:
            units = 4 * self.d_model
            if self.is_gated():  # three matrices, where others have two
                units = 8 * math.ceil(units / 12)
            object.__setattr__(self, "d_ff", units)
        if type(self.muon_lr) in (int, float) and self.muon_lr == 0:
            object.__setattr__(self, "muon_lr", None)

    def is_gated(self) -> bool:
        "Whether the networks have a gate."
        kind = ACTIVATIONS.get(self.activation) if isinstance(self.activation, str) else None
        return kind is not None and kind.gated

    def check_own(self) -> None:
        "Raise `ValueError`, naming the setting, unless the task's own settings are valid."
        common = MODEL | TRAINING
        check_fields(self, {name: rule for name, rule in self.rules.items() if name not in common})

    @abstractmethod
    def load_data(self) -> Data:
        "Read or make the data. Raises `ValueError`, naming the setting, where that fails."

    @abstractmethod
    def make_model(self, data: Data) -> "nn.Module":
        "An untrained model for these data."

    @abstractmethod
    def report(self, model: Any, data: Data, folder: Path, say: Say) -> dict[str, Any]:
        "Evaluate the model on held-out data, and a baseline. The result, as JSON, is on its card."

    def read_other(
        self,
        given: dict[str, Any],  # of the options in `other_data`
        model: Any,
        tokenizer: Any,
        labels: list[str] | None,  # of a classifier
    ) -> tuple[Any, str]:
        "Rows of a later file, to evaluate a trained model on, and where they come from."
        raise NotImplementedError

    def save(self, folder: Path, model: Any, data: Data) -> None:
        "Write the model and what is needed to use it: at each evaluation with a new best."
        from ..saving.saving import save_model

        save_model(folder, model, data.tokenizer, data.labels)

    def resume(self, folder: Path, data: Data) -> None:  # noqa: B027, most tasks keep nothing
        "Read what `save` kept besides the model, where a run goes on."

    def model_config(self, data: Data) -> "TransformerConfig":
        "The sizes of the model. Raises `TypeError` or `ValueError`, naming the setting."
        from ..models.config import TransformerConfig

        sizes = self._values_of(TransformerConfig)
        return TransformerConfig(data.tokenizer.vocab_size, data.max_len, **sizes)

    def training_config(self) -> "TrainingConfig":
        "How the model is trained. Raises `ValueError`, naming the setting."
        from ..training.training_config import TrainingConfig

        return TrainingConfig(**self._values_of(TrainingConfig))

    def _values_of(self, config):
        "The settings of every task that this class of configurations has, too."
        names = {field.name for field in fields(config)}
        return {f.name: getattr(self, f.name) for f in fields(Task) if f.name in names}

    def settings(self) -> dict[str, Any]:
        "The value of each setting."
        return {name: getattr(self, name) for name in list_settings(type(self))}


class Setting(NamedTuple):
    "What the command line and files have to know about a setting."

    kind: type  # int, float, str or bool
    optional: bool  # may be None
    default: Any
    help: str  # without what it may be
    range: str  # what it may be, in words
    is_file: bool


def comments(kind: type) -> dict[str, str]:
    "The comment behind each field of a dataclass, inherited fields included."
    parents = [parent for parent in reversed(kind.__mro__) if is_dataclass(parent)]
    source = "".join(map(inspect.getsource, parents))
    return dict(re.findall(r"^    (\w+): .*?  # (.+)$", source, re.M))


def list_settings(task: type[Task]) -> dict[str, Setting]:
    "The settings of a task by name, its own first, those of every task last."
    common = {field.name for field in fields(Task)}
    family = {field.name for kind in task.__bases__ if is_dataclass(kind) for field in fields(kind)}
    helps = comments(task)
    types = get_type_hints(task, include_extras=True)
    settings = {}
    for field in sorted(fields(task), key=lambda f: (f.name in common, f.name in family)):
        annotation = types[field.name]
        is_file = annotation == FileName
        alternatives = (str,) if is_file else alternatives_of(annotation)
        allowed = "an int, float, str or bool, for an option can be nothing else"
        check_that(alternatives[0] in KINDS, field.name, allowed, annotation)
        free = field.name not in RUN_OPTIONS
        check_that(free, "task", "another name for a setting, as each run has it", field.name)
        settings[field.name] = Setting(
            kind=alternatives[0],
            optional=NoneType in alternatives,
            default=field.default,
            help=helps.get(field.name, ""),
            range=_range(task, field.name, alternatives[0]),
            is_file=is_file,
        )
    return settings


def alternatives_of(annotation) -> tuple[type, ...]:
    "The types that a setting may have: two for `int | None`, one for `int`."
    if get_origin(annotation) in (UnionType, Union):
        return get_args(annotation)
    return (annotation,)


def _range(task, name, kind):
    "What a setting may be, in words; nothing for text and for what is true or false."
    rule = task.rules.get(name, KINDS[kind])
    return "" if isinstance(rule, str) else in_words(rule)


def check_kind(name: str, value, setting: Setting) -> None:
    "Raise `ValueError` unless the value is of the setting's type."
    if value is None and setting.optional:
        return
    rule = KINDS[setting.kind]
    if isinstance(rule, Range):
        rule.check(name, value, ValueError)
    else:
        check_that(isinstance(value, setting.kind), name, rule, value)


def choose(
    task: type[Task],
    name: str,  # of the task
    given: dict[str, Any],  # settings from a file and the command line
) -> Task:
    "The task with other settings. Raises `ValueError` for one that it does not have."
    settings = list_settings(task)
    values = dict(given)
    for key, value in given.items():
        if key not in settings:
            near = get_close_matches(key, settings, 1)
            names = ", ".join(sorted(settings))
            hint = f"did you mean {near[0]}?" if near else f"these are {names}"
            if key in RUN_OPTIONS:
                hint = f"give it on the command line, --{key.replace('_', '-')}"
            raise ValueError(f"{key}: not a setting of {name!r}; {hint}")
        if not hasattr(Task, key):  # the others are checked by the configurations
            check_kind(key, value, settings[key])
    if any(end in given for end in ENDS):  # the run ends as was asked for
        for end in ENDS:
            values.setdefault(end, None)
    if "d_model" in given:
        values.setdefault("d_ff", None)
    return task(**values)


def toml_lines(settings: dict[str, Any]) -> list[str]:
    "The settings of a task as a file for `--config`, sorted; what is None is left out."
    lines = []
    for name, value in sorted(settings.items()):
        if name == "muon_lr" and value is None:
            value = 0
        if value is not None:
            lines.append(f"{name} = {json.dumps(value, ensure_ascii=False)}")
    return lines


def text_data(
    source: str,  # where the texts come from
    parts: list[list[str]],  # to learn from, to choose by, held out
    tokenizer,
    batch_size: int,  # texts per step
    seed: int,  # of their order
    collate: Callable | None = None,  # rows -> a batch; as for any language model if left out
) -> Data:
    "The data of a language model whose rows are short texts."
    from ..data.batches import make_batches
    from ..data.data_sets import compare_parts
    from ..data.text import collate as collate_texts
    from ..data.tokenization import encode_texts

    prepared = [[tokenizer.normalise(text) for text in part] for part in parts]
    compare_parts("data", prepared, refuse=True)
    collate = collate or collate_texts
    rows = [encode_texts(part, tokenizer) for part in parts]
    train = make_batches(rows[0], batch_size, shuffle=True, seed=seed, collate=collate)
    valid = make_batches(rows[1], 512, collate=collate)
    longest = max(max(map(len, part), default=0) for part in rows)
    return Data(source, parts, train, valid, tokenizer, longest - 1)  # the last is a target only


def ready_parts(
    rows: list,  # of the file to learn from
    cut: Callable[[int], list],  # gives that many parts of them, two or three
    valid: list | None,  # rows of a file to choose by
    test: list | None,  # rows of a file that is held out
) -> list[list]:
    "Training and validation part and, unless `valid` alone was given, a test part."
    if valid is not None:
        return [rows, valid] if test is None else [rows, valid, test]
    return cut(3) if test is None else [*cut(2), test]


def say_known(
    parts: list[list],
    key: Callable,  # as `Task.row_key`
) -> str:  # to be added to where they come from; empty for none
    "How many rows of the last part are in the parts before it, too."
    known = {key(row) for part in parts[:-1] for row in part}
    n = sum(key(row) in known for row in parts[-1])
    return f", {n:,} of them also in the training data" if n else ""


def in_shell(text: str | Path) -> str:
    "A folder or a text as a shell reads it."
    return shlex.quote(text.as_posix() if isinstance(text, Path) else text)


def progress(items, unit: str, total: int | None = None):
    "The items, with a progress bar on a terminal."
    from tqdm import tqdm

    return tqdm(items, unit=unit, total=total, leave=False, disable=None)


def say_losses(say: Say, title: str, losses: dict[str, float]) -> None:
    "Name each loss, one per line."
    say(title)
    for name, loss in losses.items():
        say(f"  {loss:.3f}  {name}")
