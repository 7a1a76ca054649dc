"""`former-nb evaluate`: a model, measured once more."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from ..base.core import keep_memory
from ..models.classifier import Classifier
from ..models.encoder_decoder import EncoderDecoder
from ..models.language_model import LanguageModel
from ..tasks import TASKS, Data, Task, find_task
from ..tasks.base import say_known
from ..tasks.labels import Classify
from ..tasks.long_text import Text
from ..tasks.pairs import Translate
from .folders import RUN, read_note, read_report, restore
from .terminal import echo, remark


def read_later(
    task: Task,
    given: dict[str, Any],  # options that name the files
    read_known: Callable[[], Data | None],  # what the model learned from, if that can be read
    model,
    tokenizer,
    labels: list[str] | None = None,
) -> Data:  # of which the last part is to be judged on
    "What other files hold. Raises `ValueError` for what the task doesn't read."
    rows, source = task.read_other(given, model, tokenizer, labels)
    known = read_known()
    parts = [*known.parts[:2], rows] if known else [[], [], rows]
    if known and task.row_key:
        source += say_known(parts, task.row_key)
    return Data(source, parts, (), (), tokenizer, model.config.max_len, labels)


def check_given(
    kind: str,  # of the model or its task, in words
    options: tuple[str, ...],  # that this kind takes
    given: dict[str, Any],
) -> None:
    "Raise `ValueError` for an option that names data of another kind."
    needed = [name for name in options if name not in ("text", "label")]
    expected = " and ".join(f"--{name}" for name in needed) or "no other data"
    got = " and ".join(f"--{name}" for name in given)
    odd = [name for name in given if name not in options]
    if given:
        odd += [name for name in needed if name not in given]
    if odd:
        raise ValueError(f"{odd[0]}: expected {expected} for {kind}, got {got}")


def evaluate_run(
    folder: Path,
    model,
    tokenizer,
    labels: list[str] | None,  # of a classifier
    file: Path | None,  # of a task that is none of ours
    given: dict[str, Any],  # options that name other data, or none
) -> None:
    "Repeat the report of a run, on what it held out or on other data."
    keep_memory()
    if given and not (folder / RUN).is_file():
        name, task = guess_task(model)
    else:
        name, _ = read_note(folder, "model")
        if file:
            task = restore(folder, "model", file.name, find_task(str(file)))
        elif name in TASKS:
            task = restore(folder, "model", name, TASKS[name])
        else:  # a folder may come from anywhere: it makes us run no file
            use = f"the file {name!r}, of which {str(folder)!r} holds a run"
            raise ValueError(f"task: expected {use}")
    check_given(f"a run of {name!r}", task.other_data, given)
    device = next(model.parameters()).device
    if given:
        known = partial(read_if_same, folder, task, tokenizer)
        data = read_later(task, given, known, model, tokenizer, labels)
        echo(f"{data.source}, on {device.type}")
    else:
        data = read_again(folder, task, tokenizer)
        echo(f"{data.source}: {data.sizes}, on {device.type}")
    task.report(model, data, folder, echo)


def guess_task(model) -> tuple[str, Task]:
    "The name and the settings of a task for a model that no run made. `ValueError` if none fits."
    if isinstance(model, Classifier):
        return "classify", Classify()
    if isinstance(model, EncoderDecoder):
        return "translate", Translate()
    if isinstance(model, LanguageModel):
        return "text", Text(length=model.config.max_len)
    kinds = "a classifier, a translator or a model that writes"
    raise ValueError(f"model: expected {kinds}, got a {type(model).__name__}")


def read_if_same(folder: Path, task: Task, tokenizer) -> Data | None:
    "The data of a run, or nothing and a note if they have changed."
    try:
        read_note(folder, "data")
        return read_again(folder, task, tokenizer)
    except (OSError, ValueError) as error:
        remark(f"Note: without the data of the training there is no rival: {error}")
        return None


def read_again(folder: Path, task: Task, tokenizer) -> Data:
    "The data of a run. Raises `ValueError` if they have changed since its end."
    data = task.load_data()
    known = read_report(folder)
    for name, found in {"data": data.source, "parts": data.sizes}.items():
        if known.get(name) not in (None, found):
            raise ValueError(f"data: expected {known[name]}, as in training, got {found}")
    if data.tokenizer.to_dict() != tokenizer.to_dict():
        raise ValueError("data: expected those of the training; these give another tokenizer")
    return data
