"""The command line: names and options for what the tasks and the commands do."""

import inspect
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .base.files import SHIPPED, text_lines
from .commands.folders import IN_FILE, RUN, Device, find_folder, load
from .commands.terminal import (
    echo,
    find_texts,
    full_disk,
    is_typed,
    one_sentence,
    remark,
    standard_input,
    waiting,
)
from .tasks import TASKS, find_task
from .tasks.base import Task, list_settings

SITE = "https://former-nb.github.io/former_nb"
OWN_TASK = f"{SITE}/deeper/16_own_task.html"
OWN_DATA = f"{SITE}/deeper/16_own_data.html"
EXAMPLES = {  # of a command, for tasks that need a file
    "classify": '--csv train.csv --test test.csv --classes "0=bad, 1=good"',
    "translate": "--src german.txt --tgt english.txt",
    "text": "--file text.txt",
    "names": "--file names.txt",
}


def make_app(**settings):
    "A Typer application whose help is plain text."
    return typer.Typer(
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **settings,
    )


app = make_app(
    help="Train a small Transformer, let it write, classify or translate, and look inside.",
    epilog="Three models ship: former-nb generate Jo, former-nb translate einundzwanzig, "
    'former-nb generate --model shakespeare "ROMEO:"',
)
train = make_app(
    help="Learn a task, and say how well on data that was held out.",
    epilog="\b\nYour own data need no code:\n"
    "  former-nb train classify --csv FILE   (a table with the columns text and label)\n"
    "  former-nb train translate --src FILE --tgt FILE   (translations, line by line)\n"
    "  former-nb train text --file FILE\n"
    f"What each prints and what to read in it:\n{OWN_DATA}\n"
    "A task of your own: former-nb new NAME writes NAME.py, which former-nb train\n"
    f"NAME.py learns. How such a file comes about:\n{OWN_TASK}",
    add_completion=False,
)
app.add_typer(train, name="train")

LOADING = "Loading PyTorch …"
CLASSIFIERS = "former-nb train imdb (some five minutes), or former-nb train classify --csv FILE"


def say_version(asked: bool) -> None:
    "Print the version, and nothing else."
    if asked:
        typer.echo(f"former-nb {__version__}")
        raise typer.Exit()


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=say_version, is_eager=True, help="Say which version this is."
    ),
]


@app.callback()
def main_options(version: Version = False):
    pass


def say_more(asked: bool) -> None:
    "Write what the library logs to standard error."
    if asked:
        import logging

        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        logging.getLogger("former_nb").setLevel(logging.INFO)


OnDevice = Annotated[Device, typer.Option(help="Where to compute; auto takes the best there is.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", callback=say_more, help="Say how tokens are computed, and why."),
]


def run_options(name: str) -> dict:
    "The options that every task has: name -> annotation and default."
    flag = typer.Option
    out = flag(help=f"Folder for the model. [runs/{Path(name).stem}]")
    resume = flag(help="Folder of a run that was cut off: go on where its checkpoint stands.")
    config = flag(help="TOML file with settings, one name = value per line; options win over it.")
    overwrite = flag("--overwrite", help="Replace a model in the folder.")
    dry_run = flag("--dry-run", help="Print the settings and what they will cost, and do nothing.")
    return {
        "out": (Annotated[Path | None, out], None),
        "resume": (Annotated[Path | None, resume], None),
        "config": (Annotated[Path | None, config], None),
        "device": (OnDevice, Device.auto),
        "overwrite": (Annotated[bool, overwrite], False),
        "dry_run": (Annotated[bool, dry_run], False),
    }


def setting_options(task: type[Task]) -> dict:
    "The settings of a task as options; without one its default counts, which the help shows."
    options = {}
    for name, setting in list_settings(task).items():
        flag = f"--{name.replace('_', '-')}"
        if setting.kind is bool:
            flag = f"{flag}/--no-{flag[2:]}"
        default = "" if setting.default in (None, "") else f" [{setting.default}]"
        about = "; ".join(part for part in (setting.help, setting.range) if part)
        option = typer.Option(flag, help=about + default)
        options[name] = (Annotated[setting.kind | None, option], None)
    return options


def make_command(name: str, task: type[Task]):
    "A command with an option for each setting of the task; its name may be the path of its file."

    def command(out, resume, config, overwrite, dry_run, device, **given):
        given = {key: value for key, value in given.items() if value is not None}
        with waiting(LOADING):
            from .commands.train import start
        start(name, task, given, out, resume, config, overwrite, dry_run, device.value)

    options = run_options(name)
    options.update(setting_options(task))
    parameters = []
    for key, (annotation, default) in options.items():
        kind = inspect.Parameter.KEYWORD_ONLY
        parameters.append(inspect.Parameter(key, kind, annotation=annotation, default=default))
    command.__signature__ = inspect.Signature(parameters)
    command.__name__ = "train"
    return one_sentence(command)


def add_tasks(chosen: str) -> None:
    "Make a command of each task. Those that are not chosen by name or file get a sentence only."
    train.registered_commands.clear()
    tasks = dict(TASKS)
    if chosen.endswith(".py"):
        with waiting(LOADING):
            tasks[chosen] = find_task(chosen)
    for name, task in tasks.items():
        command = make_command(name, task) if name == chosen else no_command
        epilog = "Where you give --epochs, --steps or --minutes, the defaults of the others don't "
        words = f"{name} {EXAMPLES[name]}" if name in EXAMPLES else name
        epilog += f"count. Example: former-nb train {words} --out runs/mine"
        train.command(name, help=inspect.getdoc(task), epilog=epilog)(command)


def no_command() -> None:
    "Of a task that is not chosen."


def read_prompts(
    texts: list[str] | None,  # as they were given
) -> list[str]:  # one or more
    "How the texts begin; '-' reads standard input. Raises `ValueError` for no text."
    if "" in (texts or ()):
        expected = "at least one character; leave it out to start from the beginning"
        raise ValueError(f"prompt: expected {expected}")
    prompts = []
    for text in texts or [""]:
        if text == "-":
            text = "\n".join(text_lines(standard_input()))
        prompts.append(text)
    return prompts


@app.command("new", epilog="Example: former-nb new vowels, then former-nb train vowels.py")
@one_sentence
def new_command(
    name: Annotated[str, typer.Argument(help="Of the task; its file, NAME.py, is written here.")],
):
    "Write a task of your own in one file: an example that trains at once, for you to change."
    from .commands.new import write_task

    file = write_task(name, Path())
    echo(f"{file} puts the vowels back into names. Try: former-nb train {file}")


@app.command("check", epilog="Example: former-nb check mine.py. Or: … class/*.py --csv scores.csv")
@one_sentence
def check_command(
    files: Annotated[list[Path], typer.Argument(help="Your file, or those of a class.")],
    step: Annotated[
        str | None, typer.Option(help="Show one lesson alone, such as 06.", metavar="LESSON")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Check again when it is saved.")] = False,
    csv: Annotated[
        Path | None, typer.Option(help="Write a table: a line a file, a column a step.")
    ] = None,
    begin: Annotated[
        bool, typer.Option("--begin", help="Write a file to begin with, where there is none.")
    ] = False,
    names: Annotated[
        Path | None, typer.Option(help="A table in JSON: the course's names, and the file's.")
    ] = None,
    walled: Annotated[
        bool, typer.Option("--sandbox", help="Wall the files in by bubblewrap (bwrap), on Linux.")
    ] = False,
):
    """Say of each definition of your file whether it is right, or what is wrong and in which line.

    The exit status is 0 if all that is written is right, else 1.
    """
    with waiting(LOADING):
        from .grading.classes import check_class, check_one, read_names, watch_file
        from .grading.process import sandbox
        from .grading.your_file import begin_file

    walls, table = sandbox() if walled else [], read_names(names)
    if begin:
        begin_file(files[0])
    elif len(files) == 1 and not files[0].exists():
        raise ValueError(f"there is no file {files[0]}; --begin begins one, as lesson 02 does")
    if watch:
        if len(files) > 1 or csv:
            raise ValueError("watch: expected one file, and no table")
        return watch_file(files[0], step, echo)
    if len(files) > 1 or csv:
        fine = check_class(files, csv, echo, walls, table)
    else:
        fine = check_one(files[0], step, echo, walls, table)
    if not fine:
        raise typer.Exit(1)


@app.command("ladder", epilog="Example: former-nb ladder, or former-nb ladder --png ladder.png")
@one_sentence
def ladder_command(
    until: Annotated[
        str | None, typer.Option(help="The last lesson to show, such as 06.", metavar="LESSON")
    ] = None,
    png: Annotated[Path | None, typer.Option(help="Draw the staircase into this file.")] = None,
):
    """Show the number of each lesson: nats per character on held-out names, yours and the course's.

    Yours come from ladder.csv beside your mine.py, which the lessons' last cells write.
    """
    with waiting(LOADING):
        from .ladder.staircase import ladder_lines, plot_ladder

    for line in ladder_lines(until):
        echo(line)
    if png is not None:
        plot_ladder(until).figure.savefig(png, dpi=200)


@app.command("same", epilog="Example: former-nb same shakespeare. Or: … runs/before runs/after")
@one_sentence
def same_command(
    model: Annotated[
        str,
        typer.Argument(
            help="Folder of a model, the name of one that ships, or FILE.py:NAME, a model of yours "
            "or a function that gives one. The file is run."
        ),
    ],
    other: Annotated[
        str | None,
        typer.Argument(help="Another; left out, the same folder as Transformers reads it."),
    ] = None,
):
    """Say whether two models compute the same, or which part differs first, and the likely reason.

    Both read the same random tokens. The exit status is 0 if they compute the same, else 1.
    """
    for name in filter(None, (model, other)):
        if not IN_FILE.fullmatch(name):
            find_folder(name)
    with waiting(LOADING):
        from .commands.comparing import compare_folders

    found = compare_folders(model, other)
    echo(str(found))
    if not found:
        raise typer.Exit(1)


@app.command("diagnose", epilog="Example: former-nb diagnose train.py:make")
@one_sentence
def diagnose_command(
    model: Annotated[
        str,
        typer.Argument(
            help="FILE.py:NAME, a function of yours that gives a model and a batch (inputs, "
            "targets), and perhaps the loss and the optimizer. The file is run."
        ),
    ],
):
    """Say what is wrong with a Transformer of anybody's that doesn't learn, and in which part.

    Nothing is changed or kept. The exit status is 0 if nothing wrong is found, else 1.
    """
    with waiting(LOADING):
        from .commands.diagnosing import diagnose_file

    found = diagnose_file(model)
    echo(str(found))
    if found:
        raise typer.Exit(1)


@app.command("generate", epilog="Example: former-nb generate Jo --temperature 0.8 --seed 0")
@one_sentence
def generate_command(
    texts: Annotated[
        list[str] | None,
        typer.Argument(help="How each text begins; - reads it from standard input."),
    ] = None,
    model: Annotated[
        str, typer.Option(help="Folder of a trained model; names and shakespeare ship.")
    ] = "names",
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
        typer.Option(min=0, max=1, help="Sample among those with this share of the likeliest's p."),
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="At most so many; as many as fit the context if left out."),
    ] = None,
    window: Annotated[
        int | None,
        typer.Option(min=1, help="Attend to so many tokens; if few, go on beyond the context."),
    ] = None,
    stream: Annotated[
        bool, typer.Option("--stream", help="Print while writing, and all that is written.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**32 - 1, help="Same seed, same texts.")
    ] = None,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Weights of 8 bits: faster for a large model on a CPU."),
    ] = False,
    verbose: Verbose = False,
    device: OnDevice = Device.auto,
):
    "Let a trained model write new texts, one per line and none twice."
    prompts = read_prompts(texts)
    trained, tokenizer, _ = load(model, "LanguageModel", device)
    from .commands.generate import Endings, draw_texts, known_names, write_new, write_streams
    from .decoding.fast_copy import Int8Product, fast_copy, faster
    from .decoding.sampling import Sampling

    sampling = Sampling(
        temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        seed=seed,
    )
    longest = trained.config.max_len if max_new_tokens is None else max_new_tokens
    if int8:
        trained = fast_copy(trained, Int8Product)
    else:
        trained = faster(trained, longest)
    endings = Endings()
    taken = set() if stream or everything else known_names(find_folder(model), tokenizer)
    for begin in prompts:
        arguments = (n, trained, tokenizer, begin, max_new_tokens, sampling)
        if stream:
            write_streams(*arguments, endings, window=window)
        elif everything:
            for _, drawn in zip(range(n), draw_texts(*arguments, window=window)):  # n may be huge
                echo(drawn.text)
                endings.add(drawn.reason, drawn.context)
        else:
            drawn = draw_texts(*arguments, window=window)
            write_new(n, drawn, tokenizer, taken, sampling, endings)
    endings.tell()


@app.command(
    epilog='Example: former-nb classify --model runs/imdb "A film to forget." Or: … < texts.txt'
)
@one_sentence
def classify(
    model: Annotated[
        str | None,
        typer.Option(help="Folder of a trained classifier, as none ships. Required."),
    ] = None,
    texts: Annotated[
        list[str] | None, typer.Argument(help="Texts; standard input if left out, one per line.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Text file, UTF-8, one text per line.")] = None,
    device: OnDevice = Device.auto,
):
    "Print label, probability and text with tabs between. An odd text gets neither, and a note."
    if model is None:
        raise ValueError(
            f"model: expected a folder, for no classifier ships; train one: {CLASSIFIERS}"
        )
    folder = find_folder(model)  # before anyone types a text
    lines = find_texts(texts, file)
    loaded = load(folder, "Classifier", device)
    from .commands.answer import classify_texts, note_few

    classify_texts(lines, 1 if is_typed(texts, file) else 500, *loaded)
    note_few(folder)


@app.command(
    "evaluate",
    epilog="Example: former-nb evaluate --model runs/imdb. Or: … --model runs/mine --csv later.csv",
)
@one_sentence
def evaluate_command(
    model: Annotated[
        str | None,
        typer.Option(help="Folder of a run, or of a model from elsewhere. Required."),
    ] = None,
    task: Annotated[
        Path | None, typer.Option(help="File of the run's task, if it is one of your own.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Other data for a classifier: a table with a heading.")
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Column of the texts, where the run had another.")
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the labels, where the run had another.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option(help="Other data for a model that writes: names, or a text.")
    ] = None,
    src: Annotated[
        Path | None, typer.Option(help="Other data for a translator: sentences, one per line.")
    ] = None,
    tgt: Annotated[Path | None, typer.Option(help="Their translations, line by line.")] = None,
    device: OnDevice = Device.auto,
):
    """Measure a trained model once more, on what its run held out, or on a file that came later.

    Such a file gets the report that ends a training. Texts that the model learned from are counted.
    """
    given = {"csv": csv, "text": text, "label": label, "file": file, "src": src, "tgt": tgt}
    given = {name: value for name, value in given.items() if value is not None}
    if model is None:
        raise ValueError("model: expected the folder of a run")
    folder = find_folder(model)
    if folder.parent == SHIPPED:
        measured = f"{folder / 'README.md'} says how good {model!r} is"
        raise ValueError(f"model: expected the folder of a run; {measured}")
    if not (folder / RUN).is_file() and not given:
        raise ValueError(f"model: expected the folder of a run; {str(folder)!r} has no {RUN}")
    if task and not (folder / RUN).is_file():
        raise ValueError(
            f"task: expected none, as {model!r} is no run of a file; got {task.name!r}"
        )
    trained, tokenizer, labels = load(model, None, device)
    from .commands.evaluate import evaluate_run

    evaluate_run(folder, trained, tokenizer, labels, task, given)


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
    verbose: Verbose = False,
    device: OnDevice = Device.auto,
):
    "Translate line by line, in order. A line that cannot be read gives an empty one, and a note."
    find_folder(model)  # before anyone types a text
    lines = find_texts(texts, file)
    trained, tokenizer, _ = load(model, "EncoderDecoder", device)
    from .commands.answer import translate_lines

    block = 1 if is_typed(texts, file) else 1000
    translate_lines(lines, block, trained, tokenizer, num_beams, length_penalty)


@app.command(
    "view", epilog="Example: former-nb view Jonas Jonė. Or: … --model numbers einundzwanzig"
)
@one_sentence
def view_command(
    texts: Annotated[list[str], typer.Argument(help="A text, or two to compare.")],
    model: Annotated[
        str, typer.Option(help="Folder of a trained model; names, numbers and shakespeare ship.")
    ] = "names",
    out: Annotated[Path, typer.Option(help="The page, one HTML file.")] = Path("attention.html"),
    device: OnDevice = Device.auto,
):
    "Show what each head attends to. Writes a page for a model that reads a text, or two."
    trained, tokenizer, _ = load(model, None, device)
    from .inspection.viewer import view

    page = view(trained, texts, tokenizer)
    for note in page.notes:
        remark(f"Note: {note}")
    with full_disk("out", out):
        page.save(out)
    echo(f"{out}, to be opened in a browser; it needs no network")


def use_utf8() -> None:
    "Lithuanian letters, whatever the terminal's default."
    settings = [
        (sys.stdout, dict(errors="replace")),
        (sys.stderr, dict(errors="backslashreplace")),
    ]
    for stream, options in settings:
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", **options)


def main() -> None:
    "The entry point of `former-nb`; help, version and completion come without PyTorch."
    use_utf8()
    # a shell completes, or a command runs
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS")
    words = line.split() if line else sys.argv
    if "train" in words[1:2]:
        chosen = words[2] if len(words) > 2 else ""
        if line and chosen not in TASKS:  # nobody waits for PyTorch to complete a word
            chosen = ""
        try:
            one_sentence(add_tasks)(chosen)
        except typer.Exit as stop:
            sys.exit(stop.exit_code)
    app()


if __name__ == "__main__":
    main()
