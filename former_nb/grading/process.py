"""A reader's file in a process of its own: whatever the file does there, the judge goes on.

A file may hold a syntax error, raise or loop for ever while it is imported, print, or end Python.
Each of these becomes one sentence, with the line of the file where there is one.

The parent knows the tests, their number and their order, and asks for one at a time. An answer
counts if it comes through the pipe that the process began with, bears the number that the parent
drew for it, and was written by that process and not by a copy of it. After each test the process
looks whether the judge, and PyTorch with it, still are what they were before the file was loaded.

Limits are seconds of the processor, since a busy machine must not make a right file endless. A file
that only waits is stopped after more seconds of the clock. What a judge says before it is done
counts if it doesn't come to an end.
"""

import ast
import contextlib
import faulthandler
import json
import linecache
import math
import os
import queue
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FunctionType

from ..base.files import check_path
from ..base.source import load_file, name_line, parse_source
from .errors import MistakeError, clean_message

__all__ = [
    "LIMIT",
    "Test",
    "check_file",
    "asking",
]

LIMIT = 20.0  # seconds of the processor that the import of a file may take, and each of its tests
IDLE = 6  # times as many seconds of the clock end a file that waits
MEMORY = 8 * 2**30  # bytes of data that a file may use, where the system has such a limit
START_LIMIT = 120.0  # seconds until Python and PyTorch are there
GRACE = 2.0  # seconds after that, in which the process says in which line it was

# What the new process runs. The folder it starts in must not shadow a module that we import.
START = """
import sys
sys.path = [folder for folder in sys.path if folder]
from former_nb.grading.process import work
work(*sys.argv[1:])
"""


@dataclass(frozen=True)
class Test:
    "One test of a reader's file."

    title: str  # what is tested, in a few words
    judge: Callable  # module (and the parent's note, if any) -> None if it passes, else a sentence


# ---------------------------------------------------------------- the file


def _quote(path, line):
    "A line of a file, as sentences name it."
    return name_line(path, "".join(linecache.getlines(str(path))), line)


HIDDEN_DOORS = ("exec", "eval", "__import__", "import_module")  # to a package that goes unseen


def _refused_imports(tree, refused):
    "(line, what it does) where a file takes a package that it may not import, or may hide that."
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
            names += [alias.name for alias in node.names if alias.name in HIDDEN_DOORS]
            if names[0] == "sys" and "modules" in _aliases(node):
                names.append("sys.modules")
        elif isinstance(node, ast.Name) and node.id in HIDDEN_DOORS:
            names = [node.id]
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node) if isinstance(node.value, ast.Name) else ""
            if whole == "sys.modules":
                names = [whole]
            elif node.attr in ("__import__", "import_module"):
                names = [node.attr]
        for name in names:
            package = name.partition(".")[0]
            if package in refused:
                yield node.lineno, f"imports {package}; write it yourself"
            elif name in HIDDEN_DOORS or name == "sys.modules":
                yield node.lineno, f"uses {name}; write plain imports and plain lines"


def _aliases(node):
    return [alias.name for alias in node.names]


def own_path(file):
    "Where a reader's file is. Raises `MistakeError` for what is no path."
    if not isinstance(file, (str, os.PathLike)):
        return file  # which `check_file` refuses
    try:
        return check_path("file", file)
    except (TypeError, ValueError) as error:
        raise MistakeError(str(error)) from None


def check_file(
    file: str | os.PathLike,  # a reader's file
    example: str = "mine.py",  # how the page calls such a file
    refused: tuple[str, ...] = ("former_nb",),  # packages that it may not import
) -> Path:
    "The path of a file that Python can read. Raises `MistakeError` with a sentence for another."
    if not isinstance(file, (str, os.PathLike)):
        got = type(file).__name__
        raise MistakeError(f"expected the name of your file, such as {example!r}, got {got}")
    path = Path(file)
    linecache.checkcache(str(path))
    try:
        tree = parse_source(path)
    except FileNotFoundError:
        sentence = f"there is no file {path.name} here; save yours beside this notebook, or give"
        raise MistakeError(f"{sentence} its whole path") from None
    except ValueError as error:
        raise MistakeError(str(error)) from None
    for line, said in _refused_imports(tree, refused):
        raise MistakeError(f"line {line} of {path.name} {said}")
    return path


def blame_line(
    error: BaseException,  # what a reader's code raised
    path: Path,  # of that code
) -> str:
    "What was raised, and in which line of the reader's file."
    message = clean_message(error)
    sentence = f"your code raised {type(error).__name__}: {message}".rstrip(".: ")
    return sentence + _blamed_line(error, path)


def _blamed_line(error, path):
    "The reader's line that raised, as the end of a sentence; nothing if it was none of theirs."
    if error is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", in {_quote(path, lines[-1])}" if lines else ""


# ---------------------------------------------------------------- the tests


def _run_test(test, module, path, *note):
    "None, or what is wrong."
    try:
        return test.judge(module, *note)
    except MistakeError as error:
        return str(error) + _blamed_line(error.__cause__, path)  # raised from a reader's error
    except BaseException as error:  # noqa: B036, a reader's code may raise anything
        return blame_line(error, path)


# ---------------------------------------------------------------- the new process


def _limit_process(seconds):
    "Bound memory and processor time where the system can."
    try:
        import resource  # not on Windows
    except ImportError:
        return
    bounds = [("RLIMIT_DATA", MEMORY), ("RLIMIT_CPU", int(seconds)), ("RLIMIT_CORE", 0)]
    for name, bound in bounds:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, name)
            hard = resource.getrlimit(kind)[1]
            if hard == resource.RLIM_INFINITY or bound < hard:
                resource.setrlimit(kind, (bound, bound))


class _Stop:
    "Ends this process when a test takes too long, and writes down in which line it was."

    def __init__(self, limit, out):
        self.limit = limit
        self.out = out
        self.counts = hasattr(signal, "SIGXCPU") and hasattr(faulthandler, "register")
        if self.counts:
            faulthandler.register(signal.SIGXCPU, file=out, chain=True)

    def begin(self):
        wait = self.limit * IDLE if self.counts else self.limit
        faulthandler.dump_traceback_later(wait, exit=True, file=self.out)
        if self.counts:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            end = math.ceil(time.process_time() + self.limit)
            if hard == resource.RLIM_INFINITY or end < hard:
                resource.setrlimit(resource.RLIMIT_CPU, (end, hard))

    def end(self):
        faulthandler.cancel_dump_traceback_later()


def _parts_of_judge():
    "(where, name, value) of all that the judges are made of, and of PyTorch's functions."
    import torch

    owners = [torch, torch.Tensor, torch.nn.Module, torch.nn.functional, torch.testing]
    owners += [m for name, m in sys.modules.items() if name.partition(".")[0] == "former_nb"]
    for owner in owners:
        where = owner.__name__
        for name, value in list(vars(owner).items()):
            if name.startswith("__"):
                continue
            yield where, name, value
            if where.partition(".")[0] != "former_nb":
                continue
            if isinstance(value, FunctionType):
                yield where, name, value.__code__
            elif isinstance(value, type) and value.__module__ == where:
                for part, member in list(vars(value).items()):
                    yield where, f"{name}.{part}", member


def _record_judge():
    "What `_changed_part` compares with: (where, name) -> the values, which also keeps them alive."
    record = {}
    for where, name, value in _parts_of_judge():
        record.setdefault((where, name), []).append(value)
    return record


def _changed_part(record):
    "The name of what a file has replaced in the judge or in PyTorch, or nothing."
    now = _record_judge()
    for (where, name), values in record.items():
        found = now.get((where, name), [])
        if len(found) != len(values) or any(a is not b for a, b in zip(found, values)):
            return f"{where}.{name}"
    return ""


def _private(number, mode):
    "The pipe behind a standard stream, which the file under test then finds empty."
    pipe = os.fdopen(os.dup(number), mode, buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)
    return pipe


def work(file, tests, stuck, limit):  # strings, from the command line
    """What the new process does: import the file, then run each test that the parent asks for.

    The first line that it reads is the parent's secret, which begins each of its answers.
    """
    path = Path(file)
    build = import_module(tests)
    for name in getattr(build, "PREPARE", ()):  # which changes torch when it comes
        import_module(name)
    import_module("torch").set_num_threads(1)  # several would wait for each other, and be counted
    tests = [replace(test) for test in build.TESTS]  # which nobody else holds
    record = _record_judge()
    me = os.getpid()
    asked = _private(0, "rb")
    answers = _private(1, "wb")
    _private(2, "wb")
    secret = asked.readline().decode().strip()
    _limit_process((len(tests) + 2) * float(limit) * (os.cpu_count() or 1) + 60)
    sys.path.append(str(path.parent))

    def tell(number, problem, is_last=True):
        if os.getpid() != me:  # a copy of this process, made by the file
            os._exit(0)
        line = json.dumps([secret, me, number, problem, is_last])
        answers.write(f"\n{line}\n".encode())

    tell("ready", None)
    module = None
    with open(stuck, "w", encoding="utf-8") as out:
        stop = _Stop(float(limit), out)
        while line := asked.readline():
            number, *note = json.loads(line)
            if note:
                note.append(partial(tell, number, is_last=False))
            stop.begin()
            problem = None
            if number == 0:
                try:
                    module = load_file(path)
                except BaseException as error:  # noqa: B036, a reader's code may raise anything
                    problem = blame_line(error, path)
            else:
                problem = _run_test(tests[number - 1], module, path, *note)
            stop.end()
            changed = _changed_part(record)
            if changed and (number == 0 or problem is None):
                problem = f"your file replaces {changed}, which the tests need as it is"
            tell(number, problem)


# ---------------------------------------------------------------- its parent


class _Child:
    "The process of a file: `ask` it for one test after another."

    def __init__(self, path, tests, limit, folder):
        self.path = path
        self.limit = limit
        self.stuck = Path(folder, "stuck")
        self.ended = False
        self.pid = None  # of the process that answers; on Windows not the one that we start
        self.secret = secrets.token_hex(16)
        self.answers = queue.Queue()
        self.errors = open(Path(folder, "errors"), "w+b")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(path), tests, str(self.stuck), str(limit)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=_environment(),
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        "Keep what comes with our secret and from the process that began, and nothing else."
        pipe = self.process.stdout
        with contextlib.suppress(OSError, ValueError):  # it was closed
            while line := pipe.readline(1 << 16):
                with contextlib.suppress(ValueError, TypeError, RecursionError):
                    secret, pid, *answer = json.loads(line)
                    if secret != self.secret or pid != (self.pid or pid):
                        continue
                    self.pid = pid
                    self.answers.put(answer)
        self.answers.put(None)

    def _next(self, seconds):
        "The next answer; None if the process ended or if none came in time."
        end = time.monotonic() + seconds
        while True:
            left = end - time.monotonic()
            over = self.process.poll() is not None  # its copies may keep the pipe open
            try:
                return self.answers.get(timeout=max(0.01, min(0.1, left)))
            except queue.Empty:
                if over or left <= 0:
                    return None

    def start(self):
        "Wait until the file can be loaded. Raises `RuntimeError` if Python does not start."
        self._send(self.secret)
        if self._next(START_LIMIT) != ["ready", None, True]:
            last = self._last_errors()
            raise RuntimeError(f"the process for {self.path.name} did not start: {last}")

    def ask(self, number, *note):
        """What the process says about test `number`, or about the import of the file, 0.

        A note is handed to the judge, with a function that says what is known before the end.
        """
        self._send(json.dumps([number, *note]))
        end = time.monotonic() + self.limit * IDLE + GRACE
        known = None
        while answer := self._next(end - time.monotonic()):
            asked, problem, is_last = answer
            if asked != number:
                self.ended = True
                return "your file writes what the tests write"
            known = problem if problem is None else clean_message(problem, 2000)
            if is_last:
                return known
        self.ended = True
        return known or self._cut_short()

    def _send(self, line):
        with contextlib.suppress(OSError):  # it has ended
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()

    def _last_errors(self):
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 300))
        return clean_message(self.errors.read().decode("utf-8", errors="replace").strip(), 300)

    def _cut_short(self):
        "Why the process ended before a test did."
        with contextlib.suppress(subprocess.TimeoutExpired):  # an end takes a moment
            self.process.wait(GRACE / 4)
        code = self.process.poll()
        text = ""
        with contextlib.suppress(OSError), open(self.stuck, "rb") as file:
            text = file.read(100_000).decode("utf-8", errors="replace")
        lines = re.findall(r'File "(.*)", line (\d+)', text)
        for name, line in lines:  # the innermost first
            if Path(name) == self.path:
                place = clean_message(_quote(self.path, int(line)))
                return f"this does not end: after {self.limit:g} seconds Python was in {place}"
        if lines or code is None:
            return f"this does not end: it was stopped after {self.limit:g} seconds"
        return f"your file ended Python here, with code {code}"

    def close(self):
        "End the process and all that it has started, whatever they are doing."
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.errors):
            with contextlib.suppress(OSError):
                pipe.close()


def _started(path, tests, limit, folder):
    "A process that is ready. Where Python doesn't start, as on a full machine, it is tried twice."
    for last in (False, True):
        child = _Child(path, tests, limit, folder)
        try:
            child.start()
            return child
        except BaseException as error:
            child.close()
            if last or not isinstance(error, RuntimeError):
                raise


def _environment():
    "Ours, with the folder of this package where the new Python looks for modules."
    package = str(Path(__file__).resolve().parents[2])
    folders = [package, os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folder for folder in folders if folder)}


@contextlib.contextmanager
def asking(
    path: Path,  # of a file that `check_file` accepts
    tests: str,  # a module such as 'former_nb.grading.your_file', with TESTS and PREPARE
    limit: float,  # seconds of the processor for the import and for each test
) -> Iterator[Callable]:  # (number of a test, note) -> None or a sentence
    """Load a file in a process of its own, and ask that for one test after the other.

    Where a test ends the process, the next one gets a new process. Raises `MistakeError` if the
    file can't be imported.
    """
    with tempfile.TemporaryDirectory() as folder:
        child = None

        def ask(number, *note):
            nonlocal child
            if child is None or child.ended:
                child = _with_file(child, path, tests, limit, folder)
            return child.ask(number, *note)

        try:
            child = _with_file(None, path, tests, limit, folder)
            yield ask
        finally:
            if child is not None:
                child.close()


def _with_file(before, path, tests, limit, folder):
    "A process that has loaded the file. The one before, if any, is closed."
    if before is not None:
        before.close()
    child = _started(path, tests, limit, folder)
    try:
        problem = child.ask(0)
        if problem is not None:
            raise MistakeError(f"{path.name} cannot be imported: {problem}")
    except BaseException:
        child.close()
        raise
    return child
