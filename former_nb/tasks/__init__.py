"""One file a task or a family of tasks: its settings, its data, its model, its report.

`TASKS` knows every task that a file of this folder defines, by its class's name in small letters.
"""

import inspect
from importlib import import_module
from pathlib import Path
from types import ModuleType

from ..base.files import check_path
from ..base.source import load_file, read_source
from .base import Data, FileName, Say, Task, progress, say_losses, text_data

__all__ = [
    "TASKS",
    "Data",
    "FileName",
    "Say",
    "Task",
    "find_task",
    "progress",
    "say_losses",
    "text_data",
]
OUTSIDE = "former_nb_task_"  # how modules begin whose file is not of this package


def tasks_in(module: ModuleType) -> list[type[Task]]:
    "The tasks that a module itself defines; families of tasks are none."
    return [kind for kind in kinds_in(module) if not inspect.isabstract(kind)]


def kinds_in(module: ModuleType) -> list[type[Task]]:
    "The tasks and families of tasks that a module itself defines."
    kinds = [kind for kind in vars(module).values() if inspect.isclass(kind)]
    mine = [kind for kind in kinds if kind.__module__ == module.__name__]
    return [kind for kind in mine if issubclass(kind, Task)]


def find_task(
    name: str,  # a key of TASKS, or a file that ends with .py
) -> type[Task]:
    "A task. Raises `ValueError` unless it is one of ours, or the only one that its file defines."
    if name in TASKS:
        return TASKS[name]
    file = check_path("task", name)
    if file.suffix != ".py" or not file.is_file():
        raise ValueError(f"task: there is no file {name!r}; the tasks are {', '.join(TASKS)}")
    module = run_file(file)
    tasks = tasks_in(module)
    if len(tasks) != 1 or "__dataclass_fields__" not in vars(tasks[0]):
        got = ", ".join(task.__name__ for task in tasks) or "none"
        for kind in kinds_in(module):
            if inspect.isabstract(kind):
                got += f"; {kind.__name__} lacks {', '.join(sorted(kind.__abstractmethods__))}"
        raise ValueError(f"task: expected one dataclass that is a Task in {name!r}, got {got}")
    return tasks[0]


def run_file(file: Path) -> ModuleType:
    "The file as a module. What it raises goes through; that it can't be read is a `ValueError`."
    try:
        source, _ = read_source(file)
    except ValueError as error:
        raise ValueError(f"task: {error}") from None
    return load_file(file.resolve(), OUTSIDE + file.stem, source)


def read_tasks() -> dict[str, type[Task]]:
    "The tasks of this folder, those of lessons before the others."
    stems = [file.stem for file in sorted(Path(__file__).parent.glob("[a-z]*.py"))]
    first = ["names", "toy", "long_text"]
    tasks = {}
    for stem in [*first, *(stem for stem in stems if stem not in first)]:
        for task in tasks_in(import_module(f"{__name__}.{stem}")):
            tasks[task.__name__.lower()] = task
    return tasks


TASKS = read_tasks()
