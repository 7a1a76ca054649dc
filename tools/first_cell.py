"""Let every notebook begin with its lesson: plumbing is folded, and installed after the title.

python tools/first_cell.py   mend the notebooks where they differ

The cell after the title installs the package on Colab and Kaggle. This cell, and all others that
the site hides or folds, are folded in JupyterLab and on Colab, too.

Run this for a new page, for a new version, and after a merge that has lost a cell. Where the
package is found the cell does nothing. `#| hide` keeps it off the site and out of README.md,
tests/test_pages.py out of the lines that a reader has to read, and tools/run.py out of the code
that outputs come from. The notebooks that the site offers get the site's own (`places`).
"""

import json
import sys
from itertools import takewhile
from pathlib import Path

from edition import places

ROOT = Path(__file__).resolve().parent.parent
REASONS = ("so on Colab and Kaggle", "where that wheel is gone", "before the release is there")


def cell_for(places):
    "The source of the cell that asks for one place after the other."
    lines = ["#| hide", "# @title Install the course", "from importlib.util import find_spec", ""]
    for place, reason in zip(places, REASONS):
        last = place is places[-1]
        lines.append(f'if not find_spec("former_nb"):  # {reason}')
        lines.append(f'    %pip install {"-q" if last else "-qqq"} "{place}"')
    return "\n".join(lines)


FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}  # on Colab, in JupyterLab
PLACES = places()
CELL = cell_for(PLACES)


def is_install(cell):
    "Does this cell install the package, by today's words or by older ones?"
    return cell["cell_type"] == "code" and "%pip install" in "".join(cell["source"])


def is_folded(cell):
    "Does the site hide or fold this cell?"
    source = "".join(cell["source"])
    head = list(takewhile(lambda line: line.startswith("#|"), source.splitlines()))
    return cell["cell_type"] == "code" and bool({"#| hide", "#| code-fold: true"} & set(head))


def fold(cell):
    "The cell, folded in JupyterLab and on Colab if it is on the site, else open."
    kept = {name: value for name, value in cell["metadata"].items() if name not in FOLDED}
    return {**cell, "metadata": kept | (FOLDED if is_folded(cell) else {})}


def with_cell(nb, source=CELL):
    "The notebook, a dictionary as JSON gives it, with the cell second and what folds folded."
    cells = [cell for cell in nb["cells"] if not is_install(cell)]
    made = {"cell_type": "code", "execution_count": None, "id": "install", "outputs": []}
    made |= {"metadata": {}, "source": source.splitlines(keepends=True)}
    return {**nb, "cells": [fold(cell) for cell in (*cells[:1], made, *cells[1:])]}


def text_with_cell(path, source=CELL):
    "The text of a notebook's file, with the cell."
    nb = with_cell(json.loads(path.read_text(encoding="utf-8")), source)
    return json.dumps(nb, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def pages(root=ROOT):
    "All notebooks, without what Jupyter keeps beside them."
    found = sorted((root / "nbs").rglob("*.ipynb"))
    return [p for p in found if not any(part[0] in "._" for part in p.relative_to(root).parts)]


def main(root=ROOT):
    for path in pages(root):
        new = text_with_cell(path)
        if new != path.read_text(encoding="utf-8"):
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"{path.relative_to(root).as_posix()}: mended")
    return 0


if __name__ == "__main__":
    sys.exit(main())
