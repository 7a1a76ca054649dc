"""A reader's file in a process of its own, which runs it and says what it gives.

The process has the text of the file, an empty environment, a folder of its own and limits. It
answers questions by data: what was seen of a call, and nothing about right or wrong. That is found
out here, where nothing of the reader's ever runs. So a file may raise, print, end Python, loop or
fill its memory, and it costs that one step.

This keeps honest mistakes apart, not cheats: a file runs as whoever started it, and the process can
import this package. `SANDBOX` walls it in where the system has a program for that.

Limits are seconds of the processor, since a busy machine must not make a right file endless. A file
that only waits is stopped after more seconds of the clock.
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
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from ..base.source import name_line
from .answer import EMPTY, Answer, Parameter, Shape
from .data import packed, unpacked
from .errors import MistakeError, clean_message
from .files import File
from .limits import TimeUpError, limited
from .observe import EndedError, Seen, UnfitError
from .reading import ReadFile, blame_line

__all__ = ["LIMIT", "Running", "sandbox"]

LIMIT = 20.0  # seconds of the processor that the import of a file may take
MARGIN = 5.0  # more of them than were asked for, until C code is ended from outside
IDLE = 6  # times as many seconds of the clock end a file that waits
MEMORY = 8 * 2**30  # bytes of data that a file may use, where the system has such a limit
WRITTEN = 64 * 2**20  # bytes of a file that it may write
PROCESSES = 4096  # of its user
START_LIMIT = 120.0  # seconds until Python and PyTorch are there
GRACE = 2.0  # seconds after that, in which the process says in which line it was
LONGEST = 300_000_000  # characters of one answer

# What the new process runs. The folder it starts in must not shadow a module that we import.
START = """
import sys
sys.path = [folder for folder in sys.path if folder]
from former_nb.grading.process import work
work(*sys.argv[1:])
"""


# ---------------------------------------------------------------- the new process


def _limit_process():
    "Bound what the process may use, where the system can."
    try:
        import resource  # not on Windows
    except ImportError:
        return
    bounds = [("DATA", MEMORY), ("CORE", 0), ("FSIZE", WRITTEN), ("NPROC", PROCESSES)]
    for name, bound in bounds:
        with contextlib.suppress(AttributeError, ValueError, OSError):
            kind = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(kind)[1]
            if hard == resource.RLIM_INFINITY or bound < hard:
                resource.setrlimit(kind, (bound, bound))


class _Stop:
    "Ends this process when a question takes too long, and writes down in which line it was."

    def __init__(self, out):
        self.out = out
        self.counts = hasattr(signal, "SIGXCPU") and hasattr(faulthandler, "register")
        if self.counts:
            faulthandler.register(signal.SIGXCPU, file=out, chain=True)

    @contextlib.contextmanager
    def after(self, seconds):
        wait = seconds * IDLE if self.counts else seconds
        faulthandler.dump_traceback_later(wait, exit=True, file=self.out)
        if self.counts:
            import resource

            hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
            end = math.ceil(time.process_time() + seconds)
            if hard == resource.RLIM_INFINITY or end < hard:
                resource.setrlimit(resource.RLIMIT_CPU, (end, hard))
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


def _private(number, mode):
    "The pipe behind a standard stream, which the file under test then finds empty."
    pipe = os.fdopen(os.dup(number), mode, buffering=0)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, number)
    os.close(nothing)
    return pipe


class _Worker:
    "What the process can be asked."

    def __init__(self):
        self.file = self.answer = None
        self.spaces = {}

    def load(self, path, source, names):
        "Run the file. What it raised as a sentence, or None."
        linecache.cache[path] = len(source), None, source.splitlines(True), path
        self.file = File(source, path, names)
        try:
            with limited(LIMIT):
                self.spaces[()] = self.file.space_with(())
        except TimeUpError:
            return f"this does not end: it was stopped after {LIMIT:g} seconds"
        except BaseException as error:  # noqa: B036, a reader's code may raise anything
            return blame_line(error, Path(path), source)
        return None

    def use(self, key, stand_ins):
        "Take the answer that is asked next, with right definitions in place of some."
        stand_ins = tuple(stand_ins)
        try:
            if stand_ins not in self.spaces:
                with limited(LIMIT):
                    self.spaces[stand_ins] = self.file.space_with(stand_ins)
            self.answer = self.file.answer(key, self.spaces[stand_ins])
        except BaseException as error:  # noqa: B036
            return Answer(None, None, self.file.lines, self.file.path, {}, {}).as_data(error).said
        return None

    def shape(self):
        kind, methods = self.answer.shape()
        return [kind, {m: [_sent(p) for p in some] for m, some in methods.items()}]

    def set_defaults(self, wanted):
        self.answer.set_defaults(wanted)

    def seen(self, name, i, seconds, deep, without_dropout):
        return _as_data(self.answer.seen(name, i, seconds, deep, without_dropout))

    def seen_edited(self, source, name, i, seconds, deep):
        tree = ast.parse(source).body[0]
        seen = self.answer.seen_edited(tree, name, i, seconds, deep)
        error = seen.error if seen.error is None else self.answer.as_data(seen.error)
        return _as_data(seen._replace(error=error, slopes={} if "" in seen.slopes else seen.slopes))

    def notes(self, name, i, seconds):
        return self.answer.notes(name, i, seconds)


def _sent(parameter):
    has_one = parameter.default is not EMPTY
    return [parameter.name, parameter.by_place, has_one, parameter.default if has_one else None]


def _as_data(seen):
    "What was seen, with what the grader raised as a pair."
    error = seen.error
    if isinstance(error, TimeUpError):
        error = ("time", error.line)
    elif isinstance(error, UnfitError):
        error = ("unfit", str(error))
    return [seen.values, seen.slopes, error, seen.again]


def work(stuck):  # a file
    """What the new process does: answer one question after the other.

    A question is a line, [what is asked, seconds, arguments]; the answer has the seconds that it
    took and the data.
    """
    import_module("torch._dynamo")  # an optimizer brings it, and it replaces `torch.manual_seed`
    import_module("torch").set_num_threads(1)  # several would wait for each other, and be counted
    warnings.simplefilter("ignore")  # of edits that make no sense, and the file's own
    asked, answers = _private(0, "rb"), _private(1, "wb")
    _private(2, "wb")
    _limit_process()
    me, worker = os.getpid(), _Worker()

    def tell(value):
        if os.getpid() != me:  # a copy of this process, made by the file
            os._exit(0)
        line = json.dumps([time.process_time(), value])
        rest = memoryview(f"{line}\n".encode())
        while rest:
            rest = rest[answers.write(rest) :]

    tell("ready")
    with open(stuck, "w", encoding="utf-8") as out:
        stop = _Stop(out)
        while line := asked.readline():
            what, seconds, arguments = json.loads(line)
            with stop.after(seconds + MARGIN):
                try:
                    value = packed(getattr(worker, what)(*unpacked(arguments)))
                except (Exception, TimeUpError) as error:  # noqa: BLE001, as of an edit
                    value = {"is": "failed", "of": f"{type(error).__name__}: {error}"[:1000]}
            tell(value)


# ---------------------------------------------------------------- its parent


def sandbox() -> list[str]:
    "The words that begin a command which is walled in. `ValueError` where the system has none."
    if not (program := shutil.which("bwrap")):
        raise ValueError("sandbox: needs the program bwrap (bubblewrap), which isn't here")
    walls = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    return [program, *walls, "--unshare-all", "--die-with-parent"]


class _Child:
    "The process: `ask` it one question after the other."

    def __init__(self, read: ReadFile, folder, walls=()):
        self.read = read
        self.stuck = Path(folder, "stuck")
        self.spent = 0.0  # seconds of its processor
        self.answers: queue.Queue = queue.Queue()
        self.errors = open(Path(folder, "errors"), "w+b")
        inside = ["--bind", folder, folder, "--chdir", folder] if walls else []
        self.process = subprocess.Popen(
            [*walls, *inside, sys.executable, "-c", START, str(self.stuck)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=_environment(folder),
            cwd=folder,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        pipe = self.process.stdout
        with contextlib.suppress(OSError, ValueError):  # it was closed
            while line := pipe.readline(LONGEST):
                with contextlib.suppress(ValueError, TypeError, RecursionError):
                    spent, value = json.loads(line)
                    self.answers.put((float(spent), value))
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
        first = self._next(START_LIMIT)
        if first is None or first[1] != "ready":
            last = self._last_errors()
            raise RuntimeError(f"the process for {self.read.path.name} did not start: {last}")

    def ask(self, what, seconds, *arguments):
        "What the process answers. `EndedError` if it doesn't, `ValueError` if that is no answer."
        line = json.dumps([what, seconds, packed(list(arguments))])
        with contextlib.suppress(OSError):  # it has ended
            self.process.stdin.write(f"{line}\n".encode())
            self.process.stdin.flush()
        answer = self._next((seconds + MARGIN) * IDLE + GRACE)
        if answer is None:
            raise EndedError(self._cut_short(seconds))
        self.spent, value = answer
        try:
            if isinstance(value, dict) and value.get("is") == "failed":
                raise ValueError(value["of"])
            return unpacked(value)
        except (KeyError, TypeError, RuntimeError, RecursionError) as error:
            raise ValueError(f"no data: {error}") from None

    def _last_errors(self):
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, self.errors.tell() - 300))
        return clean_message(self.errors.read().decode("utf-8", errors="replace").strip(), 300)

    def _cut_short(self, seconds):
        "Why the process ended before it answered."
        with contextlib.suppress(subprocess.TimeoutExpired):  # an end takes a moment
            self.process.wait(GRACE / 4)
        code = self.process.poll()
        text = ""
        with contextlib.suppress(OSError), open(self.stuck, "rb") as file:
            text = file.read(100_000).decode("utf-8", errors="replace")
        path = self.read.path
        lines = re.findall(r'File "(.*)", line (\d+)', text)
        for name, line in lines:  # the innermost first
            if Path(name) == path:
                place = clean_message(name_line(path, self.read.source, int(line)))
                return f"this does not end: after {seconds:g} seconds Python was in {place}"
        if lines or code is None:
            return f"this does not end: it was stopped after {seconds:g} seconds"
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


def _environment(folder):
    "What the process knows of ours: where Python finds its modules, and no more."
    package = str(Path(__file__).resolve().parents[2])
    kept = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "PYTHONUTF8")
    found = {name: os.environ[name] for name in kept if name in os.environ}
    folders = [package, os.environ.get("PYTHONPATH", "")]
    home = {"HOME": folder, "USERPROFILE": folder, "TMPDIR": folder, "TEMP": folder}
    return found | home | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


class Running:
    """A file that runs in a process of its own; where that ends, it is started again.

    `with Running(read) as running:` raises `MistakeError` if the file can't be imported.
    """

    def __init__(
        self,
        read: ReadFile,
        walls: Sequence[str] = (),  # as `sandbox` gives them
    ):
        self.read, self.walls = read, walls
        self.child = self.folder = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error):
        if self.child is not None:
            self.child.close()
        self.folder.cleanup()

    def begin(self):
        "A process that has loaded the file. Where Python doesn't start, it is tried twice."
        for last in (False, True):
            if self.child is not None:
                self.child.close()
            self.child = _Child(self.read, self.folder.name, self.walls)
            try:
                self.child.start()
                break
            except RuntimeError:
                if last:
                    raise
        try:
            path, source, names = self.read
            problem = self.child.ask("load", LIMIT, str(path), source, names)
        except (EndedError, ValueError) as error:
            problem = str(error)
        if problem is not None:
            raise MistakeError(f"{self.read.path.name} cannot be imported: {problem}")

    def answer(self, file, key, stand_ins):
        "(what is judged, None) for a definition of the file, or (None, what is wrong with it)."
        answer = RemoteAnswer(self, file, key, stand_ins)
        problem = answer.use()
        return (None, problem) if problem else (answer, None)


class RemoteAnswer(Answer):
    "An answer that runs in the process of its file."

    def __init__(self, running, file, key, stand_ins):
        own = file.own(key)
        super().__init__(None, file.nodes.get(own), file.lines, file.path, {}, file.names)
        self.running, self.key, self.stand_ins = running, key, list(stand_ins)
        self.defaults = self.known = None
        self.before = 0.0  # seconds of processes that have ended

    def spent(self):
        return time.process_time() + self.before + self.running.child.spent

    def use(self):
        "Tell the process which definition is meant. What is wrong with the file, or None."
        return self.running.child.ask("use", LIMIT, self.key, self.stand_ins)

    def ask(self, what, seconds, *arguments):
        "Ask the process. Where it ends, the next question finds a new one."
        try:
            return self.running.child.ask(what, seconds, *arguments)
        except EndedError:
            self.before += self.running.child.spent
            self.running.begin()
            self.use()
            if self.defaults:
                self.set_defaults(self.defaults)
            raise

    def shape(self):
        if self.known is None:
            kind, methods = self.ask("shape", LIMIT)
            self.known = Shape(kind, {m: [_parameter(p) for p in methods[m]] for m in methods})
        return self.known

    def set_defaults(self, wanted):
        self.defaults = wanted
        self.ask("set_defaults", LIMIT, wanted)

    def seen(self, name, i, seconds, deep=True, without_dropout=False):
        try:
            return _as_seen(self.ask("seen", seconds, name, i, seconds, deep, without_dropout))
        except EndedError as error:
            return Seen({}, {}, error)
        except (ValueError, TypeError) as error:
            return Seen({}, {}, UnfitError(f"what it gives can't be read: {error}"))

    def seen_edited(self, tree, name, i, seconds, deep=True):
        source = ast.unparse(ast.fix_missing_locations(tree))
        return _as_seen(self.ask("seen_edited", seconds, source, name, i, seconds, deep))

    def notes(self, name, i, seconds):
        return self.ask("notes", seconds, name, i, seconds)


def _parameter(sent):
    name, by_place, has_one, default = sent
    return Parameter(name, default if has_one else EMPTY, by_place)


def _as_seen(sent):
    "What `_as_data` made of what was seen."
    values, slopes, error, again = sent
    if isinstance(error, tuple):
        kind, said = error
        error = TimeUpError() if kind == "time" else UnfitError(said)
        if kind == "time":
            error.line = said
    return Seen(values, slopes, error, again)
