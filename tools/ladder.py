"""Measure the ladder: the sections *The number* of all lessons, three seeds each.

python tools/ladder.py          write former_nb/ladder/course.csv: half an hour on one core
python tools/ladder.py 03 06    only the rungs of these lessons; the others stay as they are

A page's section is run as it stands, behind what the page imports and defines for it, with another
number in its `set_seed(0)`.
"""

import contextlib
import io
import re
import statistics
import sys
import time
from pathlib import Path

import nbformat
import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import order  # noqa: E402

from former_nb.base.core import set_seed  # noqa: E402
from former_nb.ladder import staircase  # noqa: E402

SEEDS = (0, 1, 2)
SECTION = "## The number"


def cells_of(page):
    "The code that a page's section needs: the imports, and the cells below its heading."
    cells = nbformat.read(ROOT / "nbs" / f"{page}.ipynb", 4).cells
    code, inside = [], page == order.FIRST
    for cell in cells:
        if cell.cell_type == "markdown" and re.search(r"^## ", cell.source, re.M):
            inside = page == order.FIRST or cell.source.startswith(SECTION)
        imports = "code-summary: What this page imports" in cell.source
        skipped = re.search(r"\bcheck\(|plt\.|plot_ladder\(|^%|^    %|#\| hide", cell.source, re.M)
        if cell.cell_type == "code" and (imports or inside and not skipped):
            code.append(cell.source)
    return code if len(code) > 1 else []


def run(page, seed):
    "The rungs of a page with a seed: key -> (what, nats, seconds, names)."
    found = {}
    begin = time.process_time()

    def keep(key, what, nats, written):
        nonlocal begin
        now = time.process_time()
        found[key] = what, nats, now - begin, [name or "(nothing)" for name in written]
        begin = now

    def sow(n):  # a model begins here, and what came before isn't its training
        nonlocal begin
        begin = time.process_time()
        set_seed(n)

    kept, staircase.keep_rung = staircase.keep_rung, keep
    space = {"__name__": "__main__"}
    try:
        for source in cells_of(page):
            source = re.sub(r"^#\|.*\n", "", source, flags=re.M)
            with contextlib.redirect_stdout(io.StringIO()):
                exec(source.replace("set_seed(0)", f"set_seed({seed})"), space)
            space |= {"keep_rung": keep, "set_seed": sow}
    finally:
        staircase.keep_rung = kept
    return found


def main(lessons):
    torch.set_num_threads(1)
    rungs = staircase.course_rungs()
    for page in [order.FIRST, *order.PATH]:
        if (lessons and page[:2] not in lessons) or not cells_of(page):
            continue
        runs = [run(page, seed) for seed in SEEDS]
        for key, (what, _, _, names) in runs[0].items():
            nats = [found[key][1] for found in runs]
            seconds = statistics.mean(found[key][2] for found in runs)
            one = staircase.Rung(
                key, what, statistics.mean(nats), statistics.stdev(nats), seconds, names
            )
            rungs[key] = one
            print(
                f"{key:4} {what:40} {one.nats:.3f} ±{one.spread:.3f} {seconds:5.1f} s", flush=True
            )
        staircase.write_ladder(rungs, staircase.COURSE)


if __name__ == "__main__":
    main(sys.argv[1:])
