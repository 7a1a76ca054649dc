"""Rebuild every drawing; with --check only say which differ from what their script draws."""

import runpy
import sys
from pathlib import Path

import svg

stale = []


def compare(drawing, height):
    "In place of `save`: note a drawing that is not what its script draws."
    path = svg.FOLDER / f"{drawing.name}.svg"
    if not path.exists() or path.read_text(encoding="utf-8") != drawing.svg(height):
        stale.append(drawing.name)


if "--check" in sys.argv:
    svg.Drawing.save = compare
for script in sorted(Path(__file__).parent.glob("*.py")):
    if script.stem not in ("all", "svg"):
        runpy.run_path(str(script))
if stale:
    sys.exit(f"rebuild with `python tools/draw/all.py`: {', '.join(stale)}")
