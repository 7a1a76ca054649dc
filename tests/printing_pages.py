"""Runs pages as they are shown, with the file that FORMER_NB_MINE names; keeps what they print.

`python tests/printing_pages.py FOLDER PAGE ...` prints JSON: for each page and each cell its text
and its seconds. FOLDER holds the records of what `check` has passed. tests/test_yours.py runs it
without a file and on the right one.
"""

import ast
import contextlib
import io
import json
import linecache
import os
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import torch

from former_nb.grading import passed
from former_nb.ladder import staircase

plt.switch_backend("Agg")
ROOT = Path(__file__).resolve().parents[1]


def shown_cells(page):
    "(id, source) of the cells that run, without those that install or that only export imports."
    for cell in json.loads((ROOT / "nbs" / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        left_out = source.startswith("#| eval: false") or "%pip" in source
        if cell["cell_type"] == "code" and not left_out:
            yield cell["id"], source


def execute(source, name, space):
    "Run a cell; what its last line is worth is printed, as a notebook shows it."
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if last is not None:
        show = print if not source.rstrip().endswith(";") else lambda value: None
        space["_shown"] = lambda value: None if value is None else show(repr(value))
        call = ast.Call(ast.Name("_shown", ast.Load()), [last.value], [])
        line = ast.Module([ast.Expr(call)], [])
        exec(compile(ast.fix_missing_locations(line), name, "exec"), space)


def run(page):
    "What each cell of a page prints, up to the first that raises."
    space = {"__name__": "__main__", "display": print}
    staircase._made.clear()  # as in a session of its own, without the rungs of other pages
    torch.set_default_device("cpu")
    torch.manual_seed(0)
    cells = {}
    for key, source in shown_cells(page):
        linecache.cache[key] = (len(source), None, source.splitlines(True), key)
        printed = io.StringIO()
        start = time.perf_counter()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            try:
                execute(source, key, space)
            except Exception as error:
                print(f"raised {type(error).__name__}: {error}")
        cells[key] = [printed.getvalue(), time.perf_counter() - start]
        plt.close("all")
    return cells


if __name__ == "__main__":
    os.chdir(ROOT / "nbs")
    folder, *pages = sys.argv[1:]
    passed._folder = lambda: Path(folder)
    json.dump({page: run(page) for page in pages}, sys.stdout)
