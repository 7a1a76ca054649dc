"""A reader's file in a process of its own: whatever the file does there, the judge goes on.

A file may hold a syntax error, raise or loop for ever while it is imported, print, or end Python.
Each of these becomes one sentence, with the line of the file where there is one.
"""

import ast
import faulthandler
import importlib.util
import json
import linecache
import os
import re
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ..base.exercises import MistakeError
from ..base.source import parse_source

__all__ = [
    "LIMIT",
    "Test",
    "check_file",
    "load_file",
    "blame_line",
    "run_tests",
    "run_file",
    "show_results",
]

LIMIT = 20.0  # seconds that the import of a file may take, and each of its tests
NAME = "readers_file"  # of the module that a file becomes

# What the new process runs. The folder it starts in must not shadow a module that we import.
START = """
import sys
sys.path = [folder for folder in sys.path if folder]
from former_nb.builds.process import work
work(*sys.argv[1:])
"""


@dataclass(frozen=True)
class Test:
    "One test of a reader's file."

    title: str  # what is tested, in a few words
    judge: Callable  # module -> None if it passes, else a sentence
    after: tuple[int, ...] = ()  # the numbers, from 1, of tests that have to pass before it


# ---------------------------------------------------------------- the file


def _quote(path, line):
    "A line of a file, as sentences name it."
    code = linecache.getline(str(path), line).strip()
    return f"line {line} of {path.name}" + (f", `{code}`" if code else "")


def _refused_imports(tree, refused):
    "(line, package) where a file imports one of the packages that it may not import."
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            package = name.partition(".")[0]
            if package in refused:
                yield node.lineno, package


def check_file(
    file: str | os.PathLike,  # a reader's file
    example: str = "encoder.py",  # how the page calls such a file
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
    for line, package in _refused_imports(tree, refused):
        raise MistakeError(f"line {line} of {path.name} imports {package}; write it yourself")
    return path


def load_file(
    path: Path,  # as `check_file` gives it
) -> ModuleType:
    "The file as a module. Whatever it raises goes through."
    spec = importlib.util.spec_from_file_location(NAME, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = module
    code = compile(path.read_text(encoding="utf-8-sig"), str(path), "exec")
    exec(code, module.__dict__)
    return module


def blame_line(
    error: BaseException,  # what a reader's code raised
    path: Path,  # of that code
) -> str:
    "What was raised, and in which line of the reader's file."
    message = str(error).partition("\n")[0]
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


def run_tests(
    module: ModuleType,  # a reader's file
    tests: list[Test],
    path: Path,  # of that file
    on_begin: Callable = lambda title: None,  # called with each title before its test
) -> Iterator[str | None]:  # for each test None if it passes, else a sentence
    "Run the tests in order. A test waits if one that it builds on has not passed."
    passed = []
    for test in tests:
        waits = [number for number in test.after if not passed[number - 1]]
        on_begin(test.title)
        if waits:
            problem = f"waits for test {waits[0]}"
        else:
            problem = _run_test(test, module, path)
        passed.append(problem is None)
        yield problem


def _run_test(test, module, path):
    "None, or what is wrong."
    try:
        return test.judge(module)
    except MistakeError as error:
        return str(error) + _blamed_line(error.__cause__, path)  # raised from a reader's error
    except BaseException as error:  # noqa: B036, a reader's code may raise anything
        return blame_line(error, path)


def work(file, tests, folder, limit):  # strings, from the command line
    "What the new process does: import the file, run the tests, write an event for each step."
    path = Path(file)
    tests = import_module(tests).TESTS
    with (
        open(Path(folder, "events"), "w", encoding="utf-8", buffering=1) as events,
        open(Path(folder, "stuck"), "w", encoding="utf-8") as stuck,
    ):

        def tell(kind, text=None):
            print(json.dumps([kind, text]), file=events, flush=True)

        def begin(title):
            tell("begin", title)
            faulthandler.dump_traceback_later(float(limit), exit=True, file=stuck)

        sys.path.append(str(path.parent))
        begin("import")
        try:
            module = load_file(path)
        except BaseException as error:  # noqa: B036, a reader's code may raise anything
            tell("end", blame_line(error, path))
            return
        tell("end")
        for problem in run_tests(module, tests, path, begin):
            tell("end", problem)
        faulthandler.cancel_dump_traceback_later()


def _cut_short(folder, path, limit, code):
    "Why the process ended before a test did."
    stuck = Path(folder, "stuck").read_text(encoding="utf-8", errors="replace")
    lines = re.findall(r'File "(.*)", line (\d+)', stuck)
    for name, line in lines:  # the innermost first
        if Path(name) == path:
            place = _quote(path, int(line))
            return f"this does not end: after {limit:g} seconds Python was in {place}"
    if lines or code is None:
        return f"this does not end: it was stopped after {limit:g} seconds"
    return f"your file ended Python here, with code {code}"


def run_file(
    file: str | os.PathLike,  # a reader's file
    tests: str,  # a module such as 'former_nb.builds.build_a', with TESTS, EXAMPLE and REFUSED
    limit: float = LIMIT,  # seconds for the import and for each test
) -> list[str | None]:  # for each test None if it passes, else a sentence
    """Import a file in a process of its own and test it there.

    Raises `MistakeError` with a sentence if there is no such file or if it can't be imported.
    """
    build = import_module(tests)
    path = check_file(file, build.EXAMPLE, build.REFUSED).resolve()
    n = len(build.TESTS)
    environment = dict(os.environ)
    package = str(Path(__file__).resolve().parents[2])
    folders = [package, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", START, str(path), tests, folder, str(limit)]
        with open(Path(folder, "errors"), "w+", encoding="utf-8", errors="replace") as errors:
            try:
                code = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=environment,
                    timeout=120 + (n + 2) * limit,
                ).returncode
            except subprocess.TimeoutExpired:
                code = None
            errors.seek(0)
            last = errors.read().strip()[-300:]
        if not Path(folder, "events").exists():
            raise RuntimeError(f"the process for {path.name} did not start: {last}")
        lines = Path(folder, "events").read_text(encoding="utf-8").splitlines()
        events = [json.loads(line) for line in lines]
        if events[-1][0] == "begin":
            events.append(["end", _cut_short(folder, path, limit, code)])
    problems = [text for kind, text in events if kind == "end"]
    if problems[0] is not None:
        raise MistakeError(f"{path.name} cannot be imported: {problems[0]}")
    results = problems[1:]
    return results + ["not run"] * (n - len(results))


def show_results(
    tests: list[Test],
    results: list[str | None],  # for each test None if it passes, else a sentence
) -> str | None:  # None if all pass, else how many do
    "Print a line for each test."
    width = max(len(test.title) for test in tests)
    for number, (test, problem) in enumerate(zip(tests, results), start=1):
        print(f"{number:2} {test.title:{width}}  {problem or 'passes'}")
    passed = results.count(None)
    if passed == len(tests):
        print(f"All {passed} tests pass.")
        return None
    return f"{passed} of {len(tests)} tests pass"
