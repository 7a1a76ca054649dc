"""The folders of runs and models: what is written down in them, and what they hold."""

import json
import os
import re
import shlex
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

from ..base.files import check_path, find_model, read_json
from ..tasks.base import KEPT, Task, list_settings
from .terminal import waiting

RUN = "run.json"  # the task and the settings of a run, beside its checkpoint
IN_FILE = re.compile(r"(.+\.py):(\w+)")  # FILE.py:NAME, a model in a file of yours
GONE = {"cache"}  # a setting that runs of 0.3 had
KINDS = {
    "LanguageModel": ("generate", "a model that writes"),
    "Classifier": ("classify", "a classifier"),
    "EncoderDecoder": ("translate", "a translator"),
    "MaskedLanguageModel": ("view", "a model that finds hidden tokens"),
}


class Device(str, Enum):
    "Where to compute."

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


def check_free(
    out: Path,
    overwrite: bool,  # allow that a model or a run is there; a model stays until a better one comes
) -> None:
    "Raise `ValueError` unless a new run may begin in the folder `out`."
    from ..base.checkpoints import CHECKPOINT, read_checkpoint

    place = Path(os.path.realpath(out))
    shared = {"current one": ".", "home": "~", "root of the disk": place.anchor}
    for what, folder in shared.items():
        if place == Path(os.path.realpath(os.path.expanduser(folder))):
            raise ValueError(f"out: expected a folder for the model alone, got the {what}")
    try:
        above = next(folder for folder in (place, *place.parents) if folder.exists())
        if not above.is_dir():
            raise ValueError(f"out: {str(above)!r} is a file; expected a folder")
        if (out / "model.safetensors").exists() and not overwrite:
            use = "choose another folder, or replace it with --overwrite"
            raise ValueError(f"out: {str(out)!r} holds a model already; {use}")
        if not overwrite and (out / CHECKPOINT).exists():
            step = read_checkpoint(out)[1]["progress"]["step"]
            use = "go on with --resume, choose another folder, or begin anew with --overwrite"
            raise ValueError(f"out: {str(out)!r} holds a run, stopped at step {step:,}; {use}")
    except OSError as error:
        raise ValueError(f"out: {str(out)!r} cannot be read: {error.strerror}") from None


def claim_folder(
    out: Path,  # made if it is missing
    name: str,  # of the task, or its file
    task: Task,
    overwrite: bool,  # as for `check_free`
) -> None:
    """Take the folder of a new run and note task and settings, so that `--resume` needs to be
    told nothing. Raises `ValueError` where another run lives."""
    from ..base.checkpoints import CHECKPOINT, atomic_write
    from ..training.resuming import lock_folder, release_folder

    check_free(out, overwrite)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: {str(out)!r} cannot be written: {error.strerror}") from None
    lock = lock_folder(out)
    try:
        note = {"task": Path(name).name, "settings": task.settings()}
        text = json.dumps(note, indent=2, ensure_ascii=False)
        with atomic_write(out, "out") as folder:
            (folder / RUN).write_text(text, encoding="utf-8")
        for file in [out / CHECKPOINT, *out.glob(KEPT)]:  # of the run that is overwritten
            file.unlink(missing_ok=True)
    finally:
        release_folder(lock)


def read_note(
    folder: Path,
    argument: str,  # that named the folder
) -> tuple[str, dict[str, Any]]:  # task and settings
    "What is written down in the folder of a run. Raises `ValueError` if there is nothing."
    file = folder / RUN
    try:
        run = read_json(argument, file)
        return str(run["task"]), dict(run["settings"])
    except (ValueError, KeyError, TypeError) as error:
        why = f" ({type(error).__name__})" if file.exists() else ""
        raise ValueError(
            f"{argument}: expected the folder of a run, with a readable {RUN}; "
            f"{str(folder)!r} has none{why}"
        ) from None


def restore(
    folder: Path,
    argument: str,  # that named the folder
    name: str,  # of the task
    kind: type[Task],
) -> Task:
    "The task with the settings of a run. Raises `ValueError` for a run of another task."
    before, settings = read_note(folder, argument)
    if before != name:
        raise ValueError(f"{argument}: {str(folder)!r} holds a run of {before!r}, got {name!r}")
    names = list_settings(kind).keys()
    file = folder / RUN
    missing = sorted(names - settings.keys())
    if missing:
        raise ValueError(f"{argument}: {str(file)!r} lacks the setting {missing[0]}")
    foreign = sorted(settings.keys() - names - GONE)
    if foreign:
        raise ValueError(f"{argument}: {str(file)!r} has {foreign[0]!r}, no setting of {name!r}")
    return kind(**{key: value for key, value in settings.items() if key in names})


def recall_run(
    folder: Path,
    name: str,  # of the task that goes on
    kind: type[Task],
    asked: dict[str, Any],  # settings that were given again
) -> Task:
    "What a run was started with. Raises `ValueError` if there is none, or if it was another."
    from ..base.checkpoints import CHECKPOINT

    task = restore(folder, "resume", Path(name).name, kind)
    if (folder / "model.safetensors").exists() and not (folder / CHECKPOINT).exists():
        use = "to begin anew, leave --resume out and say --overwrite"
        raise ValueError(f"resume: {str(folder)!r} has a model, but no {CHECKPOINT}; {use}")
    settings = task.settings()
    for key, value in asked.items():
        if key == "muon_lr" and value == 0:
            value = None
        if key not in settings or settings[key] != value:
            raise ValueError(
                f"{key}: the run in {str(folder)!r} has {settings.get(key)!r}, got {value!r}; "
                "leave it out to go on"
            )
    return task


def read_report(folder: Path) -> dict:
    "The report at the end of a run; empty if there is none."
    try:
        return read_json("model", folder / "training.json")
    except ValueError:
        return {}


def run_file(
    argument: str,  # that named the file
    name: str,  # FILE.py:NAME
):  # what the file has under the name, None where it has nothing, and the file
    "Run a file of the reader's. Raises `ValueError` for what can't be read, or raises."
    from ..base.source import load_file, read_source

    found = IN_FILE.fullmatch(name)
    if found is None:
        raise ValueError(f"{argument}: expected FILE.py:NAME, got {name!r}")
    path = check_path(argument, found[1])
    if not path.is_file():
        raise ValueError(f"{argument}: expected a file, got {str(path)!r}")
    source, _ = read_source(path)
    with blaming(argument, path):  # its own name may be another module's
        module = load_file(path.resolve(), f"readers_{argument}", source)
    return getattr(module, found[2], None), path


@contextmanager
def blaming(argument: str, path: Path):
    "Within `with`, whatever the reader's code raises is a `ValueError` that names the file."
    try:
        yield
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".rstrip(": ")
        raise ValueError(f"{argument}: {path.name} raised {raised}") from error


def find_folder(
    model: str | Path,  # a folder, or the name of a model that ships
) -> Path:  # its folder
    """Where a model is, found before PyTorch is imported. Raises `ValueError` where there is none,
    or none yet."""
    folder = find_model(model)
    written = [os.path.exists(folder / name) for name in ("model.safetensors", "training.json")]
    if os.path.isfile(folder / RUN) and not any(written):
        task, _ = read_note(folder, "model")
        command = f"former-nb train {shlex.quote(task)} --resume {shlex.quote(str(folder))}"
        raise ValueError(
            f"model: the run in {str(folder)!r} did not end, and there is no model yet; "
            f"if it was stopped, go on with: {command}"
        )
    return folder


def load(
    name: str | Path,  # of a folder or of a model that ships
    needed: str | None,  # the class that the command needs, a key of KINDS; None takes any
    device: Device,
):  # model, tokenizer and labels
    "Load a model. Raises `ValueError` for one of another kind."
    folder = find_folder(name)
    with waiting("Loading the model …"):
        from ..base.core import pick_device
        from ..saving.saving import load_model

        loaded = load_model(folder, pick_device(device.value))
    classes = [kind.__name__ for kind in type(loaded[0]).__mro__]  # itself, then its parents
    kind = next((name for name in classes if name in KINDS), classes[0])
    if needed not in (kind, None):
        command, description = KINDS.get(kind, ("", f"a {kind}"))
        use = f", or use: former-nb {command}" if command else ""
        expected = KINDS[needed][1]
        raise ValueError(f"model: {str(name)!r} holds {description}; expected {expected}{use}")
    return loaded
