"""The button *check here* below exercises: what the page and its Python need for it.

The judges of the course run in the reader's browser, by Pyodide and a small PyTorch of our own
(`docs/_pyodide`). What is downloaded for that stays with the site.
"""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "_pyodide"
EXERCISE = re.compile(r'check\("(\d\d\.\d+)", (.+?)\)(?:;|`|$)', re.M)


def not_run(path):
    """The cells of a notebook that do not run in the page: id -> why."""
    listed = json.loads((SOURCES / "not_run.json").read_text(encoding="utf-8"))
    return listed.get(path.relative_to(ROOT / "nbs").with_suffix("").as_posix(), {})


def page_cells(path):
    """The code cells of a lesson that an answer may build on, in order, each with its id.

    Hidden ones and those that ask for an answer are left out.
    """
    why = not_run(path)
    cells = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        hidden = source.startswith("#| hide")
        if cell["cell_type"] != "code" or hidden or EXERCISE.search(source):
            continue
        entry = {"id": cell["id"], "source": source}
        if cell["id"] in why:
            entry["not_run"] = why[cell["id"]]
        cells.append(entry)
    return cells
