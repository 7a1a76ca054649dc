"""Run lessons as Colab does: no repository, no package, and the first cell installs it.

python tools/bare.py WHEEL NOTEBOOK …

Call it with the Python of an environment that has `nbclient`, `ipykernel` and PyTorch, and no
former_nb. The notebooks run in an empty folder, one after the other: the first cell of the first
installs this wheel in place of what it asks for, in those after it that cell finds it there.
"""

import sys
import tempfile
import time
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import nbformat
from first_cell import CELL, PLACES
from nbclient import NotebookClient


def installing(path, wheel):
    "The notebook without its outputs; its first cell installs the wheel."
    nb = nbformat.read(path, as_version=4)
    for cell in nb.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    (first,) = (cell for cell in nb.cells if cell.source == CELL)
    first.source = CELL.replace(PLACES[0], f"former_nb[all] @ {wheel.as_uri()}")
    return nb, first


def main(wheel, *notebooks):
    assert not find_spec("former_nb"), "expected an environment without former_nb"
    before = version("torch")
    with tempfile.TemporaryDirectory() as folder:
        for i, path in enumerate(notebooks):
            start = time.perf_counter()
            nb, first = installing(path, Path(wheel).resolve())
            resources = {"metadata": {"path": folder}}
            NotebookClient(nb, timeout=1800, kernel_name="python3", resources=resources).execute()
            assert i == 0 or not first.outputs, f"its first cell has nothing to do: {first.outputs}"
            print(f"{path}: {time.perf_counter() - start:.0f} s", flush=True)
    assert version("torch") == before, f"torch {before} was replaced by {version('torch')}"
    print(f"from the wheel alone: former_nb {version('former_nb')} with torch {before}")


if __name__ == "__main__":
    main(*sys.argv[1:])
