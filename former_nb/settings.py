"""Written down once, and made into options, files and help."""

import inspect
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import NamedTuple

from .guards import check_int


@dataclass(frozen=True)
class NameData:
    file: str = ""  # your own names, UTF-8, one per line; Lithuanian names if left out
    batch_size: int = 64  # names per step, all processes together


@dataclass(frozen=True)
class ToyData:
    symbols: int = 11  # different letters, up to 26
    length: int = 10  # letters per question
    rows: int = 25_600  # questions to learn from, up to 1,000,000
    batch_size: int = 64  # questions per step, all processes together


@dataclass(frozen=True)
class LongData:
    length: int = 128  # characters per window
    batch_size: int = 16  # windows per step, all processes together


@dataclass(frozen=True)
class OwnLongData(LongData):
    file: str = ""  # your own text, UTF-8


@dataclass(frozen=True)
class LabelData:
    max_tokens: int = 400  # tokens of a text that are read in training
    vocabulary: int = 16_000  # subwords
    pairs: int = 50_000  # vectors for pairs of neighbouring subwords
    embed_dropout: float = 0.5  # probability that a feature of an embedding is dropped
    word_dropout: float = 0.3  # probability that a subword is left out
    batch_size: int = 64  # texts per step, all processes together


@dataclass(frozen=True)
class TableData(LabelData):
    csv: str = ""  # your own table, UTF-8, with a heading
    text: str = "text"  # the column that holds the texts
    label: str = "label"  # the column that holds the labels


@dataclass(frozen=True)
class PairData:
    vocabulary: int = 5000  # subwords, of both languages together
    longest: int = 100  # pairs with more tokens are left out
    batch_tokens: int = 2500  # tokens per step, all processes together
    average: int = 5  # the last so many saved weights are averaged


@dataclass(frozen=True)
class FilePairData(PairData):
    src: str = ""  # sentences, UTF-8, one per line
    tgt: str = ""  # their translations, line by line
    val_src: str = ""  # sentences to choose by; held out by chance if left out
    val_tgt: str = ""  # their translations


class Setting(NamedTuple):
    "One setting of a task."

    kind: type  # int, float, str or bool
    default: object
    help: str


def comments(
    kind: type,  # a dataclass
) -> dict[str, str]:  # field -> the comment behind it
    "What the source says about each field of a dataclass."
    try:
        source = "".join(inspect.getsource(c) for c in kind.__mro__[-2::-1])
    except OSError:  # a package without its sources, or a notebook
        return {}
    return dict(re.findall(r"^    (\w+): .*?  # (.+)$", source, re.M))


def own_settings(
    kind: type,  # a dataclass of settings
) -> dict[str, Setting]:
    "The fields of a dataclass as settings."
    said = comments(kind)
    types = {"int": int, "float": float, "str": str, "bool": bool}
    name_of = lambda field: getattr(field.type, "__name__", str(field.type))
    offered = [f for f in fields(kind) if f.metadata.get("setting", True)]
    kinds = {f.name: types[re.match(r"\w+", str(name_of(f)))[0]] for f in offered}
    return {f.name: Setting(kinds[f.name], f.default, said.get(f.name, "")) for f in offered}


@dataclass
class Job:
    "What a task becomes: data, a model, and how it is kept and judged."

    source: str  # where the data come from, in words
    sizes: str  # how much there is
    train: Iterable  # batches, as for `fit`
    valid: Iterable
    make_model: Callable  # () -> the model, untrained
    save: Callable  # (folder, model)
    report: Callable  # (model, folder, say) -> metadata for the model's card


class Task(NamedTuple):
    "A task of the command line."

    name: str
    help: str
    prepare: Callable  # settings -> Job
    data: type  # the dataclass of its own settings
    defaults: dict  # where it differs from `TransformerConfig` and `TrainingConfig`


def task_settings(
    task: Task,
) -> dict[str, Setting]:
    "All settings of a task, with the defaults that it has."
    from former_nb.config import TransformerConfig
    from former_nb.training_config import TrainingConfig

    found, own = {}, task.defaults
    for kind in (task.data, TransformerConfig, TrainingConfig):
        found |= own_settings(kind)
    del found["vocab_size"], found["max_len"]  # the data know them
    return {name: s._replace(default=own.get(name, s.default)) for name, s in found.items()}


ENDS = ("epochs", "steps", "minutes")
FILES = ("file", "csv", "src", "tgt", "val_src", "val_tgt")  # settings that name one


def choose_settings(
    task: Task,
    found: dict,  # from a file
    given: dict,  # from the command line
) -> dict:
    """The task's settings, changed by a file, then by the command line. Raises `ValueError` for
    others."""
    usual = {name: setting.default for name, setting in task_settings(task).items()}
    asked = found | given
    if odd := [name for name in asked if name not in usual]:
        near = get_close_matches(odd[0], usual, 1)
        hint = f"did you mean {near[0]}?" if near else f"these are {', '.join(sorted(usual))}"
        raise ValueError(f"{odd[0]}: not a setting of {task.name!r}; {hint}")
    chosen = usual | asked
    if set(ENDS) & set(asked):  # the run ends as was asked for
        chosen |= {name: None for name in ENDS if name not in asked}
    own = task.defaults
    if "d_ff" not in asked and ("d_model" in asked or "d_ff" not in own):
        check_int("d_model", chosen["d_model"])
        chosen["d_ff"] = 4 * chosen["d_model"]
    if type(chosen["muon_lr"]) in (int, float) and chosen["muon_lr"] == 0:
        chosen["muon_lr"] = None  # neither TOML nor an option has None
    return chosen


def toml_lines(
    settings: dict,  # from `choose_settings`
) -> list[str]:  # sorted; what is None is left out
    "The settings as a file for `--config`."
    shown = settings | ({} if settings.get("muon_lr", 0) else {"muon_lr": 0})
    shown = {k: v for k, v in sorted(shown.items()) if v is not None}
    return [f"{name} = {json.dumps(v, ensure_ascii=False)}" for name, v in shown.items()]


def build(
    kind,  # TransformerConfig or TrainingConfig
    settings: dict,
    **more,  # fields that are not settings
):  # an object of that kind
    "The part of the settings that concerns `kind`."
    names = [field.name for field in fields(kind) if field.name in settings]
    return kind(**{name: settings[name] for name in names} | more)
