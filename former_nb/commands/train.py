"""`former-nb train`: from a task's settings to a trained, judged and saved model."""

import json
import os
import sys
from functools import partial
from itertools import islice
from pathlib import Path

import pandas as pd
import torch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from ..base.checkpoints import atomic_write
from ..base.core import keep_memory, set_seed
from ..base.files import check_path, read_whole
from ..base.flops import short_number
from ..base.ranges import check_that
from ..inspection.describe import describe
from ..tasks.base import Task, choose, list_settings, toml_lines
from ..training.callbacks import Callback, SaveBest
from ..training.costs import training_cost
from ..training.fitting import fit
from ..training.processes import start_processes
from ..training.resuming import Checkpoint
from .folders import check_free, claim_folder, recall_run
from .terminal import echo, full_disk

SMALL = 500_000  # parameters; below that steps are short, and many threads wait for each other
CARD = "---\nlibrary_name: former_nb\n---\n\n"  # how a card begins
GENERATED = (CARD, "---\ntags:\n- model_hub_mixin")  # cards that may be replaced


def read_settings(
    file: Path,  # TOML: one `name = value` per line
) -> dict:
    "The settings in a file. Raises `ValueError`, naming the file, if it is not TOML."
    text = read_whole("config", file).replace("\r\n", "\n")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # not TOML, or nested without end
        raise ValueError(f"config: {str(file)!r} is not TOML: {error}") from None


def start(
    name: str,  # of the task, or the path of its file
    task: type[Task],
    given: dict,  # settings from the command line
    out: Path | None = None,
    resume: Path | None = None,
    config: Path | None = None,
    overwrite: bool = False,
    dry: bool = False,
    device: str = "auto",
) -> None:
    "Find the settings of a run, and run it or say what it would cost."
    keep_memory()
    settings = read_settings(config) if config else {}
    settings.update(given)
    for key, setting in list_settings(task).items():
        if setting.is_file and isinstance(settings.get(key), str) and settings[key]:
            settings[key] = os.path.abspath(check_path(key, settings[key]))
    if out and resume and os.path.realpath(out) != os.path.realpath(resume) and not dry:
        raise ValueError(
            "out, resume: expected one of them, or the same twice, "
            "the folder of a new run or of one that was cut off"
        )
    if resume:
        chosen = recall_run(resume, name, task, settings)
    else:
        chosen = choose(task, name, settings)
    chosen.training_config()  # refuses what it cannot be, before data are read
    if dry:
        dry_run(chosen)
        return
    out = out or resume or Path("runs", Path(name).stem)
    if not resume:
        check_free(out, overwrite)
    with full_disk("out", out):
        run_task(name, chosen, out, resume is not None, overwrite, device)


def count_numbers(batch) -> int:
    "How many numbers a batch holds, in all of its tensors."
    if isinstance(batch, (tuple, list)):
        return sum(map(count_numbers, batch))
    return batch.numel()


def dry_run(task: Task) -> None:
    "Print the settings as a file for --config, and what they will cost. No model is allocated."
    config = task.training_config()
    data = task.load_data()
    with torch.device("meta"):
        model = task.make_model(data)
    batches = list(islice(data.train, 200))
    targets = max(batch[1].numel() for batch in batches)
    for line in toml_lines(task.settings()):
        echo(line)
    echo(
        f"# data: {data.source}: {data.sizes}; "
        f"{len(data.train):,} batches of up to {targets:,} targets"
    )
    steps = config.steps or (config.epochs or 0) * len(data.train)
    echo(f"# steps: {steps:,}" if steps else f"# steps: as many as {config.minutes} minutes allow")
    widest = max(batches, key=count_numbers)
    lines = layer_lines(model, widest[0])
    lines += str(training_cost(model, widest, config)).splitlines()
    for line in lines:
        echo(f"# {line}")


def layer_lines(
    model: torch.nn.Module,  # may be on the meta device
    inputs,  # a tensor, or several in a tuple
) -> list[str]:
    "What each block costs in a forward pass, and what is around the blocks."
    table = describe(model, inputs, depth=3)
    table = table[table["weight_bytes"] + table["flops"] > 0]
    columns = {
        "output": table["output"].map(lambda shape: " x ".join(map(str, shape))),
        "parameters": table["parameters"].map("{:,}".format),
        "forward": table["flops"].map(lambda n: short_number(n, "FLOP")),
        "weights": table["weight_bytes"].map(lambda n: short_number(n, "B")),
    }
    return pd.DataFrame(columns).rename_axis(None).to_string().splitlines()


def choose_threads(
    parameters: int,  # of the model
) -> int:  # threads that PyTorch uses from now on
    "Two threads at most for a small model, one core left free, unless somebody chose."
    chosen = any(map(os.environ.get, ("OMP_NUM_THREADS", "MKL_NUM_THREADS")))
    if parameters < SMALL and not chosen:
        torch.set_num_threads(max(1, min(2, torch.get_num_threads() - 1)))
    return torch.get_num_threads()


def run_task(
    name: str,  # as for `start`
    task: Task,
    out: Path,
    resume: bool = False,
    overwrite: bool = False,
    device: str = "auto",
) -> None:
    "From settings to a trained, judged and saved model."
    config = task.training_config()
    set_seed(config.seed)  # refuses one that is too large, before anything is written
    data = task.load_data()
    accelerator, where = start_processes(device)
    first = accelerator.is_main_process
    say = echo if first else lambda text: None
    set_seed(config.seed)
    model = task.make_model(data)  # refuses what it cannot be made from, as callbacks do
    save = partial(task.save, out, data=data)
    precision = SayPrecision(say)  # after what reads a checkpoint
    callbacks = [Checkpoint(out, resume), precision, SaveBest(save)]
    if resume:
        task.resume(out, data)
    elif first:
        claim_folder(out, name, task, overwrite)
    accelerator.wait_for_everyone()
    parameters = sum(p.numel() for p in model.parameters())
    place = where.type
    if place == "cpu":
        n = choose_threads(parameters)
        place += f" with {n} thread{'' if n == 1 else 's'}"
    say(f"{data.source}: {data.sizes}")
    begin = "Going on with" if resume else "Training"
    say(f"{begin} {parameters:,} parameters on {place}, {out}")
    history = fit(model, data.train, data.valid, config, callbacks=callbacks, device=device)
    if first:
        about = {
            "data": data.source,
            "parts": data.sizes,
            "seed": config.seed,
            "device": where.type,
            "precision": precision.about,
            "minutes": say_time(history, say),
        }
        about.update(check_report(task.report(model.to(where), data, out, say)))
        write_report(out, name, task, history, about)


class SayPrecision(Callback):
    "Says where a run computes in bf16 though nobody asked for it."

    def __init__(self, say):
        self.say = say
        self.about = ""  # in words, for the report

    def on_start(self, run) -> None:
        names = {"no": "float32", "auto": "bf16 where the device has it"}
        self.about = names.get(run.precision, run.precision)
        if run.config.precision == "auto" and run.precision == "bf16":
            self.say("Computing in bf16, for which this CPU has units")


def check_report(found) -> dict:
    "What a report returned. Raises `ValueError` unless it is a dict that JSON can hold."
    try:
        json.dumps(found)
    except (TypeError, ValueError) as error:
        raise ValueError(f"report: expected numbers and text for JSON: {error}") from None
    check_that(isinstance(found, dict), "report", "a dict, such as {'right': 0.5}", found)
    return found


def say_time(history, say) -> float:
    "Say how long a run took; its minutes."
    seconds = history["seconds"].iloc[-1]
    duration = f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"
    say(f"{history['step'].iloc[-1]:,} steps in {duration}.")
    return round(seconds / 60, 2)


def write_report(
    out: Path,
    name: str,  # of the task
    task: Task,
    history,  # from `fit`
    about: dict,  # what is known
) -> None:
    "Write the loss curve, metadata and a model card, unless the user supplied one."
    try:
        with atomic_write(out) as folder:
            table = history.to_csv(index=False)  # pandas would understand a path in its own way
            (folder / "history.csv").write_text(table, encoding="utf-8", newline="")
            text = json.dumps(about, indent=2, ensure_ascii=False)
            (folder / "training.json").write_text(text, encoding="utf-8")
            card = out / "README.md"
            if not card.exists() or card.read_text("utf-8", errors="replace").startswith(GENERATED):
                (folder / card.name).write_text(model_card(name, task, about), encoding="utf-8")
    except OSError as error:
        rest = "the model is saved, and --resume writes what is missing"
        raise OSError(f"{error}; {rest}") from error


def card_lines(about: dict):
    "Markdown's list of what is known, a level deeper for each dict."
    for name, value in about.items():
        name = name.replace("_", " ")
        if isinstance(value, dict):
            yield f"- {name}:"
            for line in card_lines(value):
                yield f"  {line}"
        elif isinstance(value, float):
            yield f"- {name}: {value:.4g}"
        elif not isinstance(value, str) or "\n" not in value:
            yield f"- {name}: {'–' if value is None else value}"


def model_card(
    name: str,  # of the task
    task: Task,
    about: dict,  # data, seed, device, minutes and what the report found
) -> str:  # Markdown
    "The model card: what is known about a trained model."
    settings = task.settings()
    for key, setting in list_settings(type(task)).items():
        if setting.is_file:
            settings[key] = Path(settings[key]).name  # no folders
    toml = "\n".join(toml_lines(settings))
    sample = about.get("sample", "").strip()
    if sample:
        sample = f"\n## A sample\n\n```text\n{sample}\n```\n"
    head = f"{CARD}# {Path(name).stem}\n\nA small Transformer, trained by "
    head += f"`former-nb train {Path(name).name}`.\n\n"
    listed = "\n".join(card_lines(about))
    return f"{head}{listed}\n{sample}\n## Settings\n\n```toml\n{toml}\n```\n"
