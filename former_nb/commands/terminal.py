"""What is written to a terminal and read from it, a file or a pipe; errors in one sentence."""

import errno
import os
import re
import sys
import warnings
from contextlib import contextmanager
from functools import wraps
from itertools import islice
from pathlib import Path
from unicodedata import category

import typer

from ..base.files import check_path, text_lines
from ..tasks import OUTSIDE

LESS_TRAINING = (
    "--dry-run says what a run needs, smaller sizes or "
    "--gradient-accumulation-steps and --activation-checkpointing lower it"
)
NO_MEMORY = re.compile("out of memory|allocate memory|not enough memory", re.I)  # of PyTorch
JOINERS = "\n\t\u200c\u200d"  # signs without a shape that belong to a text


def is_hidden(character: str) -> bool:
    "Whether a terminal would act on this character instead of showing it."
    return category(character) in ("Cc", "Cf", "Cs") and character not in JOINERS


def visible(
    text: str,
) -> str:  # the same where all of it can be seen
    "Text that is safe on a terminal: control characters and marks of direction become escapes."
    return "".join(repr(c)[1:-1] if is_hidden(c) else c for c in text)


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


def remark(text: str) -> None:
    "Write one visible line to standard error."
    typer.echo(visible(text), err=True)


@contextmanager
def waiting(
    what: str,  # in words
):
    "Say on a terminal what the program is waiting for, and erase it afterwards."
    if not sys.stderr or not sys.stderr.isatty():
        yield
        return
    sys.stderr.write(what)
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(f"\r{' ' * len(what)}\r")


def is_mistake(error: Exception) -> bool:
    """Whether a task from outside made an error that is not about its settings.

    Who writes a task wants to see where it fails. A `ValueError` that names an argument, "digits:
    expected …", is meant for whoever uses the task.
    """
    modules = []
    trace = error.__traceback__
    while trace:
        modules.append(trace.tb_frame.f_globals.get("__name__") or "")
        trace = trace.tb_next
    if isinstance(error, OSError) or not any(name.startswith(OUTSIDE) for name in modules):
        return False
    return not isinstance(error, ValueError) or not re.match(r"\w[\w ,]*: ", str(error))


@contextmanager
def warnings_as_notes():
    "Within `with`, what the library warns of is a note, once for each sentence."
    said = set()
    show = warnings.showwarning

    def note(message, category, *place, **how):
        if not issubclass(category, UserWarning):
            show(message, category, *place, **how)
        elif str(message) not in said:
            said.add(str(message))
            remark(f"Note: {' '.join(str(message).split())}")

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield


def paths_of(
    name: str,  # of an option
    value,  # of any kind
):  # the same; paths as `check_path` gives them
    "What the command line says, its paths checked."
    if isinstance(value, list):
        return [paths_of(name, part) for part in value]
    return check_path(name, value) if isinstance(value, Path) else value


def one_sentence(
    command,  # a function that may raise ValueError, TypeError or OSError on bad input
):  # the same function, exiting with code 2 instead
    "Turn the errors of bad input into one line and exit code 2, and Ctrl-C into one line and 130."
    training = command.__name__ == "train"
    saved = " What was saved is whole and can be used; --resume goes on from a checkpoint."
    saved = saved if training else ""

    @wraps(command)
    def wrapped(*args, **options):
        try:
            with warnings_as_notes():
                return command(*args, **{key: paths_of(key, options[key]) for key in options})
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if training:  # which was to be done whoever reads
                remark(f"Stopped, because standard output was closed.{saved}")
            raise typer.Exit(int(training)) from None
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and not NO_MEMORY.search(str(error)):
                raise
            less = LESS_TRAINING if training else "fewer or shorter texts need less"
            remark(f"Error: there is not enough memory; {less}")
            raise typer.Exit(2) from None
        except (ValueError, TypeError, OSError, ImportError) as error:
            if is_mistake(error):
                raise
            remark(f"Error: {' '.join(str(error).split())}")
            raise typer.Exit(2) from None
        except OverflowError as error:
            remark(f"Error: a number is too large: {error.args[-1]}")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            remark(f"Stopped.{saved}")
            raise typer.Exit(130) from None

    return wrapped


@contextmanager
def full_disk(
    name: str,  # of the argument that names the place
    out: Path,  # what is written
):
    "Within `with`, an error of writing names the option and the place."
    try:
        yield
    except OSError as error:
        said = re.sub("^(folder|file): ", f"{name}: ", str(error))
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if full and not error.filename:
            said = f"{name}: {str(out)!r} cannot be written: {error.strerror}"
        if said == str(error):
            raise
        raise OSError(said) from None


def standard_input():
    "The bytes of standard input. Raises `ValueError` if it is closed."
    if sys.stdin is None or sys.stdin.closed:
        raise ValueError("standard input: expected text, but it is closed")
    return sys.stdin.buffer


def is_typed(
    texts: list[str] | None,  # from the command line
    file: Path | None,
) -> bool:
    "Whether someone types the texts now, and wants to see an answer to each."
    return not texts and file is None and standard_input().isatty()


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
        reason = "it is a folder" if file.is_dir() else "no such file"
        raise ValueError(f"file: {str(file)!r} cannot be read: {reason}")
    if is_typed(texts, file):
        typer.echo("Type one text per line; end with Ctrl-D (Windows: Ctrl-Z, Enter).", err=True)
    return text_lines(file or standard_input())


def growing(
    lines,  # any iterable
    largest: int,  # as many come at a time in the end
):  # lists of 1, 8, 64, … lines
    "Batches of lines, small at first, so that work starts at once. Lines before an error count."
    lines = iter(lines)
    size = 1
    while True:
        block = []
        try:
            for line in islice(lines, size):
                block.append(line)
        except ValueError:
            if block:
                yield block
            raise
        if not block:
            return
        yield block
        size = min(8 * size, largest)


def note_odd(
    n: int,  # of the text, from 1
    kind: str,  # 'text' or 'line'
    text: str,
    note: str,  # empty for a text that is not odd
) -> None:
    "Say on standard error what was odd about a text."
    if note:
        remark(f"Note on {kind} {n}, {text[:40]!r}: {note}")
