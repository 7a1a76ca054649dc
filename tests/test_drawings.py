"""The drawings of the lessons: as their scripts draw them, small, and described."""

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[1]
DRAWINGS = sorted((ROOT / "nbs" / "images").glob("*.svg"))
SVG = "{http://www.w3.org/2000/svg}"


def test_drawings_are_what_their_scripts_draw():
    command = [sys.executable, ROOT / "tools" / "draw" / "all.py", "--check"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", DRAWINGS, ids=lambda path: path.stem)
def test_a_drawing_is_small_and_described(path):
    root = ElementTree.parse(path).getroot()
    assert path.stat().st_size < 30_000
    assert root.get("viewBox").startswith("0 0 404 ")
    assert root.find(f"{SVG}title").text and root.find(f"{SVG}desc").text


def test_the_board_game_is_played_with_the_table_of_its_page():
    drawing = (ROOT / "nbs" / "images" / "00_first_hour.svg").read_text(encoding="utf-8")
    page = (ROOT / "nbs" / "00_first_hour.ipynb").read_text(encoding="utf-8")
    assert "After a most likely end 0.28, s 0.25, n 0.11; thrown: end 0.28." in drawing
    assert "after a: the end 0.28, s 0.25, n 0.11" in page and '"Kemona  ' in page


def test_words_that_do_not_fit_are_refused(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools" / "draw"))
    svg = pytest.importorskip("svg")
    drawing = svg.Drawing("trial", "title", "description")
    with pytest.raises(ValueError, match="is .* wide and has"):
        drawing.box(10, 10, 30, 20, "far too long")
    drawing = svg.Drawing("trial", "title", "description")
    drawing.text(20, 30, "one")
    drawing.text(24, 32, "two")
    with pytest.raises(ValueError, match="'two' lies on 'one'"):
        drawing.svg(60)
    drawing = svg.Drawing("trial", "title", "description")
    drawing.text(390, 30, "outside")
    with pytest.raises(ValueError, match="leaves the panel"):
        drawing.svg(60)
