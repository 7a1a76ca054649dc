"""The command line: `former-nb train`, `generate`, `classify`, `translate`, `evaluate`, `view`, `bleu`."""

import errno
import inspect
import json
import os
import shlex
import sys
import zlib
from collections import Counter
from contextlib import contextmanager, nullcontext
from enum import Enum
from functools import partial, wraps
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Annotated
from unicodedata import category

import typer

import former_nb

from .files import SHIPPED, find_model, read_json


def _app(**kwargs):
    "A Typer application with our settings."
    plain = dict(pretty_exceptions_enable=False, rich_markup_mode=None)
    names = {"help_option_names": ["-h", "--help"]}
    return typer.Typer(no_args_is_help=True, context_settings=names, **plain, **kwargs)


app = _app(
    help="Train a small Transformer, let it write, classify or translate, and look inside.",
    epilog="Two models ship: former-nb generate Jo, former-nb translate einundzwanzig",
)
learn = "Learn a task, and say how well on data that was held out."
train = _app(help=learn, add_completion=False)
app.add_typer(train, name="train")


def _say_version(asked):
    if asked:
        typer.echo(f"former-nb {former_nb.__version__}")
        raise typer.Exit()


_VERSION = typer.Option(
    "--version", callback=_say_version, is_eager=True, help="Say which version this is."
)


@app.callback()
def _options(version: Annotated[bool, _VERSION] = False):
    pass


class Device(str, Enum):
    "Where to compute."

    auto = "auto"
    cpu = "cpu"
    cuda = "cuda"
    mps = "mps"


ON = typer.Option(help="Where to compute; auto takes the best there is.")
MEMORY = "--dry-run says what a run needs, smaller sizes or "
MEMORY += "--gradient-accumulation-steps and --activation-checkpointing lower it"


def visible(
    text: str,
) -> str:  # the same where all of it can be seen
    "Text that is safe on a terminal: control characters and marks of direction become escapes."
    hidden = lambda c: category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t\u200c\u200d"
    return "".join(repr(c)[1:-1] if hidden(c) else c for c in text)


def echo(
    text: str,
    nl: bool = True,  # whether the line ends here
) -> None:
    "Write to standard output: as it is into a file or a pipe, `visible` on a terminal."
    try:
        typer.echo(visible(text) if sys.stdout and sys.stdout.isatty() else text, nl=nl)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OSError(f"standard output: it cannot be written: {error.strerror or error}") from None


def remark(
    text: str,
) -> None:
    "Write one visible line to standard error."
    typer.echo(visible(text), err=True)


@contextmanager
def waiting(
    what: str,  # in words
):
    "Say on a terminal what one waits for, and take the words away again."
    write = sys.stderr.write if sys.stderr and sys.stderr.isatty() else lambda text: None
    write(what)
    if sys.stderr:
        sys.stderr.flush()
    try:
        yield
    finally:
        write(f"\r{' ' * len(what)}\r")


def one_sentence(
    command,  # a function that may raise ValueError, TypeError or OSError on bad input
):  # the same function, exiting with code 2 instead
    "Turn the errors of bad input into one line and exit code 2, and Ctrl-C into one line and 130."

    @wraps(command)
    def wrapped(*args, **kwargs):
        try:
            return command(*args, **kwargs)
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and "memory" not in str(error):
                raise
            less = MEMORY if command.__name__ == "train" else "fewer or shorter texts need less"
            remark(f"Error: there is not enough memory; {less}")
            raise typer.Exit(2) from None
        except (ValueError, TypeError, OSError, ImportError) as error:
            remark(f"Error: {' '.join(str(error).split())}")
            raise typer.Exit(2) from None
        except OverflowError as error:
            remark(f"Error: a number is too large: {error.args[-1]}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            saved = " What was saved is whole and can be used; --resume goes on from there."
            remark(f"Stopped.{saved if command.__name__ == 'train' else ''}")
            raise typer.Exit(130) from None

    return wrapped


def read_settings(
    file: Path,  # TOML: one `name = value` per line
) -> dict:
    "The settings in a file. Raises `ValueError`, naming the file, if it is not TOML."
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        return tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ValueError(f"config: {str(file)!r} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not TOML, or nested without end
        raise ValueError(f"config: {str(file)!r} is not TOML: {error}") from None


def standard_input():
    "Standard input. Raises `ValueError` if it is closed."
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input: expected text, but it is closed")
    return sys.stdin


def _is_utf8(text):
    return text == text.encode(errors="ignore").decode()


def stream_lines(
    file: Path | None,  # UTF-8, also compressed with gzip; None reads standard input
):  # an iterator over its lines, without their ends
    "Line after line; what is not UTF-8 comes as half characters. Raises `ValueError` for no text."
    import gzip

    name = str(file or "standard input")
    opener = gzip.open if file and file.suffix == ".gz" else open
    opened = partial(opener, file, "rt", encoding="utf-8", errors="surrogateescape")
    try:
        with nullcontext(standard_input()) if file is None else opened() as lines:
            for n, line in enumerate(lines, start=1):
                if "\0" in line:
                    raise ValueError(f"file: line {n} of {name} holds a null byte, expected text")
                yield (line.removeprefix("\ufeff") if n == 1 else line).removesuffix("\n")
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"file: {name!r} cannot be read: {error}") from None


def find_texts(
    texts: list[str] | None,  # from the command line
    file: Path | None,
):  # an iterator over texts
    "The texts that are meant. Raises `ValueError` for both, or for a file that cannot be read."
    if texts and file:
        raise ValueError("file: expected texts or a file, got both")
    if texts:
        return iter(texts)
    if file and (file.is_dir() or not file.exists()):  # a pipe is fine
        raise ValueError(f"file: {str(file)!r} cannot be read: no such file")
    if is_typed(texts, file):
        typer.echo("Type one text per line; end with Ctrl-D (Windows: Ctrl-Z, Enter).", err=True)
    return stream_lines(file)


def growing(
    lines,  # any iterable
    most: int,  # as many come at a time in the end
):  # lists of 1, 8, 64, … lines
    "A few lines first, so that something is done at once. What was read before an error comes."
    lines, size, error = iter(lines), 1, None
    while error is None:
        some = []
        try:
            for line in islice(lines, size):
                some.append(line)
        except ValueError as odd:
            error = odd
        if some:
            yield some
        elif error is None:
            return
        size = min(8 * size, most)
    raise error


def is_typed(
    texts: list[str] | None,  # from the command line
    file: Path | None,
) -> bool:
    "Whether someone types the texts now, and wants to see an answer to each."
    return not texts and file is None and standard_input().isatty()


def note_odd(n, kind, text, note):
    "Say on standard error what was odd about a text."
    if note:
        remark(f"Note on {kind} {n}, {text[:40]!r}: {note}")


RUN = "run.json"  # the task and the settings of a run, beside its checkpoint


def prepare_folder(
    out: Path,  # made if it is missing
    overwrite: bool,  # allow that a model is there; it stays until there is a better one
) -> None:
    "Make sure that a new model can be written into `out`. Raises `ValueError` if not."
    if out == Path():
        raise ValueError("out: expected a folder for the model alone, got the current one")
    try:
        if out.exists() and not out.is_dir():
            raise ValueError(f"out: {str(out)!r} is a file; expected a folder")
        if (out / "model.safetensors").exists() and not overwrite:
            use = "choose another folder, or replace it with --overwrite"
            raise ValueError(f"out: {str(out)!r} holds a model already; {use}")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: {str(out)!r} cannot be written: {error.strerror}") from None


def note_run(
    out: Path,
    task: str,
    settings: dict,
) -> None:
    "Write down what this run is, so that `--resume` needs to be told nothing."
    from former_nb.checkpoints import CHECKPOINT, atomic_write

    (out / CHECKPOINT).unlink(missing_ok=True)  # of the run that is overwritten
    text = json.dumps({"task": task, "settings": settings}, indent=2, ensure_ascii=False)
    with atomic_write(out) as folder:
        (folder / RUN).write_text(text, encoding="utf-8")


def read_run(
    folder: Path,
    argument: str,  # that named the folder
) -> dict:  # task and settings
    "What is written down in the folder of a run. Raises `ValueError` if there is nothing."
    from former_nb.files import read_json
    from former_nb.recipes import TASKS
    from former_nb.settings import task_settings

    try:
        run = read_json(argument, folder / RUN)
        task, settings = TASKS[run["task"]], dict(run["settings"])
    except (ValueError, KeyError, TypeError) as error:
        wanted = f"the folder of a run, with a readable {RUN}"
        why = f"{str(folder)!r} has none"
        why += f" ({type(error).__name__})" if (folder / RUN).exists() else ""
        raise ValueError(f"{argument}: expected {wanted}; {why}") from None
    if lost := sorted(task_settings(task).keys() - settings.keys()):
        raise ValueError(f"{argument}: {str(folder / RUN)!r} lacks the setting {lost[0]}")
    return {"task": task.name, "settings": settings}


def recall_run(
    folder: Path,
    task: str,
    asked: dict,  # settings that were given again
) -> dict:  # all settings of the run
    "What a run was started with. Raises `ValueError` if there is none, or if it was another."
    run = read_run(folder, "resume")
    settings = run["settings"]
    if run["task"] != task:
        raise ValueError(f"resume: {str(folder)!r} holds a run of {run['task']!r}, got {task!r}")
    asked = {k: None if (k, v) == ("muon_lr", 0) else v for k, v in asked.items()}
    if odd := [k for k in asked if k not in settings or settings[k] != asked[k]]:
        was, now = settings.get(odd[0]), asked[odd[0]]
        said = f"the run in {str(folder)!r} has {was!r}, got {now!r}; leave it out to go on"
        raise ValueError(f"{odd[0]}: {said}")
    return settings


def _numbers(batch):
    "How many numbers a batch holds, in all of its tensors."
    return sum(map(_numbers, batch)) if isinstance(batch, (tuple, list)) else batch.numel()


def dry_run(job, config, settings) -> None:
    "Print the settings as a file for --config, and what they will cost. No model is allocated."
    import torch

    from former_nb.costs import training_cost
    from former_nb.settings import toml_lines

    with torch.device("meta"):
        model = job.make_model()
    some = list(islice(job.train, 200))
    batch = max(some, key=_numbers)
    targets = max(batch[1].numel() for batch in some)
    for line in toml_lines(settings):
        typer.echo(line)
    steps = config.steps or (config.epochs or 0) * len(job.train)
    batches = f"{len(job.train):,} batches of up to {targets:,} targets"
    echo(f"# data: {job.source}: {job.sizes}; {batches}")
    many = f"{steps:,}" if steps else f"as many as {config.minutes} minutes allow"
    typer.echo(f"# steps: {many}")
    for line in str(training_cost(model, batch, config)).splitlines():
        typer.echo(f"# {line}")


def claim_folder(out, task, settings, overwrite) -> None:
    "Prepare the folder of a new run, and refuse one in which another run lives."
    from former_nb.resuming import lock_folder, release_folder

    prepare_folder(out, overwrite)
    lock = lock_folder(out)
    try:
        note_run(out, task, settings)
    finally:
        release_folder(lock)


def write_report(out, task, settings, history, metadata) -> None:
    "Write the curve, what is known, and the model's card, unless there is a card of one's own."
    from former_nb.checkpoints import atomic_write
    from former_nb.reports import CARD, model_card

    generated = ("---\ntags:\n- model_hub_mixin", CARD)
    with atomic_write(out) as folder:
        history.to_csv(folder / "history.csv", index=False)
        text = json.dumps(metadata, indent=2, ensure_ascii=False)
        (folder / "training.json").write_text(text, encoding="utf-8")
        card = out / "README.md"
        if not card.exists() or card.read_text("utf-8", errors="replace").startswith(generated):
            text = model_card(task, metadata, settings, f"former-nb train {task}")
            (folder / card.name).write_text(text, encoding="utf-8")


def make_callbacks(job, out, resume, save_every, tensorboard) -> list:
    "Those that keep a run and its best weights in `out`, and its curves if they are wanted."
    from former_nb.callbacks import SaveBest, TensorBoard
    from former_nb.resuming import Checkpoint

    callbacks = [Checkpoint(out, save_every, resume), SaveBest(partial(job.save, out))]
    return [*callbacks, *([TensorBoard(out)] if tensorboard else [])]


@contextmanager
def full_disk(
    name: str,  # of the argument that names the place
    out: Path,  # what is written
):
    "Within `with`, an error of a full disk names the place. Those of a file do so already."
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not full or error.filename:
            raise
        raise OSError(f"{name}: {str(out)!r} cannot be written: {error.strerror}") from None


def say_time(history, say) -> dict:
    "Say how long a run took; its minutes for the report."
    seconds = history["seconds"].iloc[-1]
    took = f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.1f} minutes"
    say(f"{history['step'].iloc[-1]:,} steps in {took}.")
    return {"minutes": round(seconds / 60, 2)}


SMALL = 500_000  # parameters; below that steps are short, and many threads wait for each other


def choose_threads(
    parameters: int,  # of the model
    asked: int | None = None,  # as --threads says
) -> int:  # threads that PyTorch uses from now on
    "Two threads at most for a small model, one core left free, unless somebody chose."
    import torch

    chosen = any(map(os.environ.get, ("OMP_NUM_THREADS", "MKL_NUM_THREADS")))
    if asked:
        torch.set_num_threads(asked)
    elif parameters < SMALL and not chosen:
        torch.set_num_threads(max(1, min(2, torch.get_num_threads() - 1)))
    return torch.get_num_threads()


def run_task(
    task: str,
    settings: dict,
    config,  # the `TrainingConfig` in them
    out: Path,
    resume: bool,
    overwrite: bool,
    device: str,
    threads: int | None = None,  # of the CPU
    **kwargs,  # save_every and tensorboard
) -> None:
    "From settings to a trained, judged and saved model."
    from former_nb.core import set_seed
    from former_nb.recipes import prepare
    from former_nb.runs import start_processes
    from former_nb.training import fit

    set_seed(config.seed)  # refuses one that is too large, before anything is written
    job = prepare(task, settings)
    accelerator, where = start_processes(device)
    main = accelerator.is_main_process
    say = echo if main else lambda text: None
    set_seed(config.seed)
    model = job.make_model()  # refuses what it cannot be built from, before anything is written
    callbacks = make_callbacks(job, out, resume, **kwargs)  # refuses a bad save_every
    if main and not resume:
        claim_folder(out, task, settings, overwrite)
    accelerator.wait_for_everyone()
    say(f"{job.source}: {job.sizes}")
    n = sum(p.numel() for p in model.parameters())
    on = where.type
    if on == "cpu":
        many = choose_threads(n, threads)
        on += f" with {many} thread{'s' * (many > 1)}"
    say(f"{'Going on with' if resume else 'Training'} {n:,} parameters on {on}, {out}")
    history = fit(model, job.train, job.valid, config, callbacks=callbacks, device=device)
    if main:
        known = {"data": job.source, "parts": job.sizes, "seed": config.seed, "device": where.type}
        known |= say_time(history, say) | job.report(model, out, say)
        write_report(out, task, settings, history, known)


def train_options(
    task: str,  # its name
) -> dict:
    "The options that every task has."
    option, folder = (
        typer.Option,
        Annotated[Path | None, typer.Option(help=f"Folder for the model. [runs/{task}]")],
    )
    on = "Folder of a run that was cut off: go on where its checkpoint stands."
    toml = "TOML file with settings, one name = value per line; options win over it."
    every = "Steps between checkpoints, besides those after each evaluation."
    many = "Threads on a CPU. Left out: 2 at most, and one core left free, for models below "
    many += f"{SMALL:,} parameters; else, or where OMP_NUM_THREADS is set, what PyTorch takes."
    dry = "Print the settings and what they will cost, and do nothing."
    return {
        "out": (folder, None),
        "resume": (Annotated[Path | None, option(help=on)], None),
        "config": (Annotated[Path | None, option(help=toml)], None),
        "device": (Annotated[Device, ON], Device.auto),
        "threads": (Annotated[int | None, option(min=1, max=1024, help=many)], None),
        "save_every": (Annotated[int | None, option(min=1, help=every)], None),
        "tensorboard": (
            Annotated[bool, option("--tensorboard", help="Write TensorBoard's curves.")],
            False,
        ),
        "overwrite": (
            Annotated[bool, option("--overwrite", help="Replace a model in the folder.")],
            False,
        ),
        "dry_run": (Annotated[bool, option("--dry-run", help=dry)], False),
    }


def setting_option(
    name: str,
    setting,  # a `Setting` of `recipes`
):  # what Typer makes an option of
    "A setting as an option; without it the task's own value counts, which the help shows."
    flags = [f"--{name.replace('_', '-')}"]
    if setting.kind is bool:
        flags = [f"{flags[0]}/--no-{flags[0][2:]}"]
    shown = "" if setting.default in (None, "") else f" [{setting.default}]"
    return Annotated[setting.kind | None, typer.Option(*flags, help=setting.help + shown)]


def add_task(
    task,  # one of TASKS, of `recipes`
) -> None:
    "Make a command of a task, with an option for each of its settings."
    from former_nb.settings import task_settings

    def command(
        out, resume, config, device, threads, save_every, tensorboard, overwrite, dry_run, **given
    ):
        given = {k: v for k, v in given.items() if v is not None}
        how = dict(device=device.value, save_every=save_every, tensorboard=tensorboard)
        how["threads"] = threads
        start(task.name, given, out, resume, config, overwrite, dry_run, how)

    params = train_options(task.name)
    params |= {name: (setting_option(name, s), None) for name, s in task_settings(task).items()}
    kind = inspect.Parameter.KEYWORD_ONLY
    command.__signature__ = inspect.Signature(
        [inspect.Parameter(k, kind, annotation=a, default=d) for k, (a, d) in params.items()]
    )
    command.__name__ = "train"
    example = f"Example: former-nb train {task.name} --out runs/mine"
    train.command(task.name, help=task.help, epilog=example)(one_sentence(command))


def add_tasks(
    word: str,  # while PyTorch is imported
) -> None:
    "Make a command of each task."
    with waiting(word):
        from former_nb.recipes import TASKS

    for task in TASKS.values():
        add_task(task)


def start(task, given, out, resume, config, overwrite, dry, how) -> None:
    "Find the settings of a run, and run it or say what it would cost."
    from former_nb.core import keep_memory
    from former_nb.recipes import TASKS, prepare
    from former_nb.settings import FILES, build, choose_settings
    from former_nb.training_config import TrainingConfig

    keep_memory()
    found = read_settings(config) if config else {}
    for asked in (found, given):
        for name in FILES:  # a run may go on from another folder
            if isinstance(asked.get(name), str) and asked[name]:
                asked[name] = os.path.abspath(asked[name])
    if out and resume and out.resolve() != resume.resolve() and not dry:
        wanted = "the folder of a new run or of one that was cut off"
        raise ValueError(f"out, resume: expected one of them, or the same twice, {wanted}")
    out = out or resume or Path("runs", task)
    if resume is None:
        settings = choose_settings(TASKS[task], found, given)
    else:
        settings = recall_run(resume, task, found | given)
    plan = build(TrainingConfig, settings)
    if dry:
        return dry_run(prepare(task, settings), plan, settings)
    with full_disk("out", out):
        run_task(task, settings, plan, out, resume is not None, overwrite, **how)


KINDS = {
    "LanguageModel": ("generate", "a model that writes"),
    "Classifier": ("classify", "a classifier"),
    "EncoderDecoder": ("translate", "a translator"),
}


def find_folder(
    model: str | Path,  # a folder, or the name of a model that ships
) -> Path:  # its folder
    """Where a model is, found before PyTorch is imported. Raises `ValueError` where there is none,
    or none yet."""
    folder = find_model(model)
    written = [(folder / name).exists() for name in ("model.safetensors", "training.json")]
    if (folder / RUN).is_file() and not any(written):
        try:
            task = str(read_json("model", folder / RUN)["task"])[:40]
        except (ValueError, KeyError):
            task = "TASK"
        said = f"the run in {str(folder)!r} did not end, and there is no model yet"
        on = f"former-nb train {task} --resume {shlex.quote(str(folder))}"
        raise ValueError(f"model: {said}; if it was stopped, go on with: {on}")
    return folder


def load(
    name: str | Path,  # of a folder or of a model that ships
    wanted: str | None,  # the class that the command needs, a key of KINDS; None takes any
    device: Device,
):  # model, tokenizer and labels
    "Load a model. Raises `ValueError` for one of another kind."
    folder = find_folder(name)
    with waiting("Loading the model …"):
        from former_nb.core import pick_device
        from former_nb.saving import load_model

        found = load_model(folder, pick_device(device.value))
    kinds = [kind.__name__ for kind in type(found[0]).__mro__]  # itself, then what it inherits from
    kind = next((name for name in kinds if name in KINDS), kinds[0])
    if wanted not in (kind, None):
        command, holds = KINDS.get(kind, ("", f"a {kind}"))
        use = f", or use: former-nb {command}" if command else ""
        raise ValueError(f"model: {str(name)!r} holds {holds}; expected {KINDS[wanted][1]}{use}")
    return found


def read_prompts(
    texts: list[str] | None,  # given without an option
    prompt: str | None,  # given by --prompt
) -> list[str]:  # one or more
    "How the texts begin; '-' reads standard input. Raises `ValueError` for no text."
    if texts and prompt is not None:
        raise ValueError("prompt: expected it once, got it with --prompt and without")
    found = texts or [prompt or ""]
    if prompt == "" or "" in (texts or ()):
        wanted = "at least one character; leave it out to start from the beginning"
        raise ValueError(f"prompt: expected {wanted}")
    found = [standard_input().read().removesuffix("\n") if t == "-" else t for t in found]
    for text in found:
        if not _is_utf8(text):
            raise ValueError(f"prompt: expected UTF-8 text, got {text!r:.80}")
    return found


def _no_option(context: typer.Context, text: str | None):
    "Say where the text belongs."
    if text is not None:
        use = f"former-nb {context.info_name} {shlex.quote(text)}"
        remark(f"Error: text: expected without an option, as in: {use}")
        raise typer.Exit(2)


BARE = typer.Option("--text", hidden=True, is_eager=True, callback=_no_option)


@app.command("generate", epilog="Example: former-nb generate Jo --temperature 0.8 --seed 0")
@one_sentence
def generate_command(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="How each text begins; - reads it from standard input."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="Folder of a trained model; names ships with the package.")
    ] = "names",
    prompt: Annotated[str | None, typer.Option(help="The same as TEXTS, as an option.")] = None,
    n: Annotated[int, typer.Option(min=1, help="How many texts.")] = 10,
    everything: Annotated[
        bool, typer.Option("--all", help="Print repeats and names that are known, too.")
    ] = False,
    temperature: Annotated[
        float,
        typer.Option(
            min=0, max=1e6, help="0 takes the likeliest token, 1 samples as the model says."
        ),
    ] = 0.8,
    top_k: Annotated[
        int | None, typer.Option(min=1, help="Sample among the k likeliest only.")
    ] = None,
    top_p: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Sample among the likeliest of this joint probability."),
    ] = None,
    min_p: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Sample among those this many times the likeliest's p."),
    ] = None,
    repetition_penalty: Annotated[
        float, typer.Option(min=0, help="Above 1: what was written before becomes less likely.")
    ] = 1.0,
    max_new_tokens: Annotated[
        int | None, typer.Option(min=0, help="At most so many; as many as fit if left out.")
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Attend to so many tokens; goes on beyond the trained length."),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print while writing, and all that is written.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Same seed, same texts.")
    ] = None,
    device: Annotated[Device, ON] = Device.auto,
    text: Annotated[str | None, BARE] = None,
):
    "Let a trained model write new texts, one per line and none twice."
    prompts = read_prompts(texts, prompt)
    trained, tokenizer, _ = load(model, "LanguageModel", device)
    from former_nb.sampling import Sampling

    how = dict(top_k=top_k, top_p=top_p, min_p=min_p, repetition_penalty=repetition_penalty)
    sampling = Sampling(temperature, seed=seed, **how)
    known = set() if stream or everything else known_names(find_folder(model), tokenizer)
    for begin in prompts:
        given = (trained, tokenizer, begin, max_new_tokens, sampling)
        if stream:
            _write_streams(n, *given, window=window)
        elif everything:
            for _, written in zip(range(n), draw_texts(n, *given, window=window)):
                echo(written)
        else:
            _write_new(n, draw_texts(n, *given, window=window), tokenizer, known, sampling)


TOKENS = 16_384  # of the texts that are written side by side, at most


def draw_texts(
    n: int,  # so many are wanted
    model,  # a `LanguageModel`
    tokenizer,  # its own
    prompt: str,  # how each text begins
    max_new_tokens: int | None,  # of a text, at most
    sampling,  # a `Sampling`; text i is drawn with its seed + i
    **kwargs,  # as for `generate_text`
):  # an iterator without end
    "Draw texts side by side: at most 16 at first, then more."
    from dataclasses import replace

    from former_nb.decoding import generate_text

    longest = model.config.max_len if max_new_tokens is None else max_new_tokens
    most = max(1, TOKENS // max(1, longest))  # rows at once
    rows = min(n, 16, most)
    drawn = 0
    while True:
        seed = None if sampling.seed is None else sampling.seed + drawn
        how = replace(sampling, seed=seed)
        for text in generate_text(model, tokenizer, prompt, rows, max_new_tokens, how, **kwargs):
            yield text.capitalize() if tokenizer.lowercase else text
        drawn += rows
        rows = min(4 * rows, max(16, n - drawn), most)


def known_names(
    folder: Path,  # of a model
    tokenizer,  # its own
) -> set[str]:  # normalised; empty for a model of other texts
    "The names that a model of names was made with, where they can still be read."
    from former_nb.recipes import name_texts

    settings = {"file": ""}
    if folder != SHIPPED / "names":
        try:
            run = read_run(folder, "model")
        except ValueError:
            return set()
        if run["task"] != "names":
            return set()
        settings = run["settings"]
    try:
        texts, _ = name_texts(settings)
    except (OSError, ValueError, TypeError) as error:
        remark(f"Note: names that the model was made with may be among these: {error}")
        return set()
    return {tokenizer.normalise(name) for part in texts for name in part}


PATIENCE = 100  # texts in a row that bring nothing new, until there is nothing new
REMEMBERED = 100_000  # texts that are not written again


def _write_new(n, drawn, tokenizer, known, sampling):
    "Write n of the drawn texts, none that is known and none twice, and say what was left out."
    likeliest = sampling.temperature == 0 or sampling.top_k == 1  # there is one such text
    found = 0
    vain = 0  # texts in a row that brought nothing new
    seen = {}  # hashes of the texts written, the oldest first
    left_out = Counter()  # how many for each reason
    for text in drawn:
        key = tokenizer.normalise(text)
        if key in known and not likeliest:
            why = "in the list of names"
        elif hash(key) in seen:
            why = "repeated"
        else:
            why = "" if key.strip() else "empty"
        if why:
            left_out[why] += 1
            vain += 1
        else:
            echo(text)
            found += 1
            vain = 0
            seen[hash(key)] = None
            if len(seen) > REMEMBERED:
                del seen[next(iter(seen))]
        if found == n or vain == (1 if likeliest else PATIENCE):
            break
    few = f"only {found} of {n:,}, for nothing else was new; " if found < n else ""
    if left_out:
        listed = ", ".join(f"{many:,} {why}" for why, many in left_out.items())
        remark(f"Note: {few}left out {listed}; --all shows them")


def _write_streams(n, model, tokenizer, prompt, max_new_tokens, sampling, **kwargs):
    from dataclasses import replace

    from former_nb.caches import stream_text

    for i in range(n):
        seed = None if sampling.seed is None else sampling.seed + i
        how = replace(sampling, seed=seed)
        pieces = stream_text(model, tokenizer, prompt, max_new_tokens, how, **kwargs)
        for piece in chain([prompt], pieces):
            echo(piece, nl=False)  # flushes
        echo("")


TRAIN = "former-nb train imdb (some five minutes), or former-nb train classify --csv FILE"


@app.command(
    epilog='Example: former-nb classify --model runs/imdb "A film to forget." Or: … < texts.txt'
)
@one_sentence
def classify(
    model: Annotated[
        Path | None,
        typer.Option(help="Folder of a trained classifier; none ships with the package."),
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; standard input if left out, one per line.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Text file, UTF-8, one text per line.")] = None,
    device: Annotated[Device, ON] = Device.auto,
    text: Annotated[str | None, BARE] = None,
):
    "Print label, probability and text with tabs between. An odd text gets neither, and a note."
    if model is None:
        raise ValueError(f"model: expected a folder, for no classifier ships; train one: {TRAIN}")
    find_folder(model)  # before anyone types a text
    lines, n = find_texts(texts, file), 0
    trained, tokenizer, labels = load(model, "Classifier", device)
    from former_nb.labels import predict
    from former_nb.reports import few_texts

    for some in growing(lines, 1 if is_typed(texts, file) else 500):
        for text, (_, answer) in zip(some, predict(trained, tokenizer, some, labels).iterrows()):
            n += 1
            known = isinstance(answer["label"], str)
            p = f"{max(answer[f'p({name})'] for name in labels):.3f}" if known else ""
            row = (answer["label"] if known else "", p, text)
            echo("\t".join(" ".join(x.splitlines()).replace("\t", " ") for x in row))
            note_odd(n, "text", text, answer["note"] or (not known and "it was not classified"))
    if not n:
        raise ValueError("texts: expected at least one, got none")
    if note := few_texts(judged_on(model)):
        remark(f"Note: {note}")


def read_report(
    folder: Path,
) -> dict:  # empty if there is none
    "What was found out at the end of a run."
    from former_nb.files import read_json

    try:
        return read_json("model", folder / "training.json")
    except ValueError:
        return {}


def judged_on(folder) -> float:
    "How many held-out texts a classifier was judged on; infinite if nobody knows."
    try:
        return sum(row["texts"] for row in read_report(Path(folder))["by_label"].values())
    except (KeyError, TypeError, AttributeError):
        return float("inf")


def evaluate_names(model, tokenizer) -> None:
    "Losses of the model of names that ships, on names that it has not learned from."
    from former_nb.recipes import name_texts, sizes
    from former_nb.reports import name_losses, say_losses
    from former_nb.text import encode_texts

    texts, source = name_texts({"file": ""})
    echo(f"{source}: {sizes(texts)}")
    losses = name_losses(model, tokenizer, [encode_texts(part, tokenizer) for part in texts])
    say_losses(echo, "Nats per character on held-out names, their end counted:", losses)


def evaluate_numbers(model, tokenizer) -> None:
    "How often the translator that ships is right, on numbers that it has not learned from."
    from former_nb.toy_data import number_pairs
    from former_nb.translating import translate

    pairs = number_pairs()["valid"] + number_pairs()["test"]
    found = translate(model, tokenizer, [german for german, _ in pairs], num_beams=1)
    right = sum(line.text == english for line, (_, english) in zip(found, pairs))
    echo(f"Right from end to end, greedy: {right:,} of {len(pairs):,} held-out numbers")


@app.command("evaluate", epilog="Example: former-nb evaluate --model runs/imdb")
@one_sentence
def evaluate_command(
    model: Annotated[
        str, typer.Option(help="Folder of a run; names and numbers ship with the package.")
    ] = "names",
    device: Annotated[Device, ON] = Device.auto,
):
    "Measure a trained model once more. It reads the data that its run held out."
    folder = find_folder(model)
    if folder.parent == SHIPPED:
        trained, tokenizer, _ = load(model, None, device)
        return {"names": evaluate_names, "numbers": evaluate_numbers}[folder.name](
            trained, tokenizer
        )
    if not (folder / RUN).is_file():
        raise ValueError(f"model: expected the folder of a run; {str(folder)!r} has no {RUN}")
    trained, *_ = load(model, None, device)
    from former_nb.core import keep_memory
    from former_nb.recipes import prepare

    keep_memory()
    run, where = read_run(folder, "model"), next(trained.parameters()).device
    job, was = prepare(**run), read_report(folder).get("data")
    if was not in (None, job.source):
        raise ValueError(f"data: expected {was}, as in training, got {job.source}")
    echo(f"{job.source}: {job.sizes}, on {where.type}")
    job.report(trained, folder, echo)


@app.command(
    "translate",
    epilog="Example: former-nb translate einundzwanzig. Or: … --model runs/multi30k < german.txt",
)
@one_sentence
def translate_command(
    model: Annotated[
        str,
        typer.Option(
            help="Folder of a trained translator; numbers ships with the package and turns German "
            "number words below a million into English ones, all else into nonsense."
        ),
    ] = "numbers",
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="Sentences; standard input if left out, one per line."),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Text file, UTF-8, one sentence per line.")
    ] = None,
    num_beams: Annotated[int, typer.Option(min=1, help="Beams; 1 is greedy search.")] = 5,
    length_penalty: Annotated[
        float, typer.Option(help="0 ranks by the sum of log-probabilities, 1 by their mean.")
    ] = 1.0,
    num_return_sequences: Annotated[
        int, typer.Option(min=1, help="Above 1: so many of each line, with number and score.")
    ] = 1,
    device: Annotated[Device, ON] = Device.auto,
    text: Annotated[str | None, BARE] = None,
):
    "Translate line by line, in order. A line that cannot be read gives an empty one, and a note."
    find_folder(model)  # before anyone types a text
    lines, several = find_texts(texts, file), num_return_sequences > 1
    trained, tokenizer, _ = load(model, "EncoderDecoder", device)
    from former_nb.core import keep_memory
    from former_nb.translating import translate as translate_all

    keep_memory()
    how = dict(num_return_sequences=num_return_sequences, length_penalty=length_penalty)
    parts = growing(lines, 1 if is_typed(texts, file) else 1000)
    found = (translate_all(trained, tokenizer, some, num_beams, **how) for some in parts)
    for n, line in enumerate(chain.from_iterable(found), start=1):
        for text, score in ((line.text, line.score), *(line.others if several else ())):
            text = " ".join(text.splitlines())
            echo(f"{n}\t{score:.4f}\t{text}" if several else text)
        note_odd(n, "line", line.source, line.note)


def check_lines(texts: dict, ref: Path) -> None:
    "Raise `ValueError` unless all texts have the same number of lines, all UTF-8."
    wanted = len(texts["ref"])
    for name, lines in texts.items():
        if len(lines) != wanted:
            many = f"as many lines as in {str(ref)!r}, {wanted:,}"
            raise ValueError(f"{name}: expected {many}, got {len(lines):,}")
        for i, line in enumerate(lines, start=1):
            if not _is_utf8(line):
                raise ValueError(f"{name}: line {i} is not UTF-8")


@app.command(epilog="Example: former-nb translate --model M < a.de | former-nb bleu --ref a.en")
@one_sentence
def bleu(
    ref: Annotated[Path, typer.Option(help="Translations by people, UTF-8, one per line.")],
    hyp: Annotated[
        Path | None, typer.Option(help="Translations to judge; standard input if left out.")
    ] = None,
    than: Annotated[
        Path | None, typer.Option(help="Translations by another system to compare with.")
    ] = None,
):
    "Score translations by BLEU and chrF. Each signature says how it was computed."
    from former_nb.scores import compare_translations, score_translations

    files = {"ref": ref, "hyp": hyp} | ({"than": than} if than else {})
    texts = {name: list(find_texts(None, file)) for name, file in files.items()}
    check_lines(texts, ref)
    for metric, (score, signature) in score_translations(texts["hyp"], texts["ref"]).iterrows():
        echo(f"{score:.2f}\t{metric}\t{signature}")
    if than:
        found = compare_translations(texts["than"], texts["hyp"], texts["ref"])
        spread = f"95 of 100 samples from {found['low']:+.2f} to {found['high']:+.2f}"
        sign = f"other sign in {found['chance']:.1%}"
        echo(f"{found['difference']:+.2f}\tBLEU against {than}, {spread}; {sign}")


@app.command(
    "view", epilog="Example: former-nb view Jonas Jonė. Or: … --model numbers einundzwanzig"
)
@one_sentence
def view_command(
    texts: Annotated[list[str], typer.Argument(help="A text, or two to compare.")],
    model: Annotated[
        str, typer.Option(help="Folder of a trained model; names and numbers ship.")
    ] = "names",
    target: Annotated[
        list[str] | None,
        typer.Option(help="What a translator reads as its translation, for each text; its own."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page, one HTML file.")] = Path("attention.html"),
    device: Annotated[Device, ON] = Device.auto,
    text: Annotated[str | None, BARE] = None,
):
    "Show what each head attends to. Writes a page for a model that reads a text, or two."
    if target and len(target) != len(texts):
        raise ValueError(f"target: expected one for each text, {len(texts)}, got {len(target)}")
    trained, tokenizer, _ = load(model, None, device)
    from former_nb.viewer import view as make_page

    page = make_page(trained, list(zip(texts, target)) if target else texts, tokenizer)
    for note in page.notes:
        remark(f"Note: {note}")
    with full_disk("out", out):
        page.save(out)
    echo(f"{out}, to be opened in a browser; it needs no network")


def main() -> None:
    "The entry point of `former-nb`; help, version and completion come without PyTorch."
    into = dict(errors="surrogateescape", newline=None)  # "\r\n" ends a line, too
    streams = [(sys.stdin, into), (sys.stdout, dict(errors="replace"))]
    for stream, how in [*streams, (sys.stderr, dict(errors="backslashreplace"))]:
        if hasattr(stream, "reconfigure"):  # Lithuanian letters, whatever the terminal's default
            stream.reconfigure(encoding="utf-8", **how)
    asked = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = asked.split() if asked else sys.argv  # a shell completes, or a command runs
    if "train" in words[1:2] and not train.registered_commands:
        try:
            add_tasks("" if asked else "Loading PyTorch …")
        except KeyboardInterrupt:
            remark("Stopped.")
            sys.exit(130)
    app()


if __name__ == "__main__" and __spec__ is not None:  # python -m former_nb.cli, not a notebook
    main()
