"""The visual language of the drawings: tables of numbers, arrows, boxes and words in one style.

A drawing is 404 units wide. Blue stands for queries, orange for keys, green for values and outputs,
grey for the rest; words are never in the three colours. `save` refuses words that leave the panel
or their box, or that lie on other words. Standard library only.
"""

import re
from contextlib import contextmanager
from html import escape
from math import exp, inf
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "nbs" / "images"
WIDTH = 404
HUES = {"q": "#0072B2", "k": "#D55E00", "v": "#009E73", "a": "#B0508A", "n": "#6b7480"}
# widths of the characters from space to ~ in a wide font, DejaVu Sans, in thousandths of the size:
# what fits in it fits in others
PLAIN = """
318 401 460 838 636 950 780 275 390 390 500 838 318 361 318 337 636 636 636 636 636 636 636
636 636 636 337 337 838 838 838 531 1000 684 686 698 770 632 575 775 752 295 295 656 557 863
748 787 603 787 695 635 611 732 684 989 685 611 685 390 337 390 838 500 500 613 635 550 635
615 352 635 634 278 278 579 278 974 634 612 635 635 411 521 392 634 592 818 592 592 525 636
337 636 838
"""
BOLD = """
348 456 521 838 696 1002 872 306 457 457 523 838 380 415 380 365 696 696 696 696 696 696 696
696 696 696 400 400 838 838 838 580 1000 774 762 734 830 683 683 821 837 372 372 775 637 995
837 850 733 850 770 720 682 812 774 1103 771 724 725 457 365 457 838 500 500 675 716 593 716
678 435 716 712 343 343 665 343 1042 712 687 716 716 493 595 478 712 652 924 645 652 582 712
365 712 838
"""
PLAIN, BOLD = [int(n) for n in PLAIN.split()], [int(n) for n in BOLD.split()]
WIDE = set("→←↓↑×⊕∞−≈≤≥")
# the size and weight of each kind of words
KINDS = {
    "name": (16, 1),
    "part": (14, 1),
    "note": (13, 0),
    "small": (12, 0),
    "word": (12.5, 0),
    "word strong": (12.5, 1),
    "num": (12, 0),
    "num strong": (12, 1),
    "badge": (12, 1),
    "badge on": (12, 1),
    "word strong pale": (12.5, 1),
}
STYLE = """
text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
text{fill:#1f2328}
.name{font-size:16px;font-weight:700}
.part{font-size:14px;font-weight:700}
.note{font-size:13px;fill:#4b535d}
.word{font-size:12.5px;fill:#4b535d}
.small,.num,.badge{font-size:12px}
.small{fill:#4b535d}
.badge,.strong{font-weight:700}
.strong{fill:#1f2328}
.sub{font-size:10px}
.panel{fill:#fff;stroke:#d0d7de}
.grid{fill:none;stroke:#c4cbd3;stroke-width:.75}
.frame{fill:none;stroke:#1f2328;stroke-width:2}
.arrow,.line{stroke-width:2.5;stroke-linecap:round}
.line{stroke-width:2}
.edge{stroke-width:4}
.dash{stroke-dasharray:2 5}
.box{stroke-width:1.5;fill-opacity:.13}
.group{fill-opacity:.05;stroke-width:1;stroke-dasharray:4 4}
.pad{fill-opacity:0;stroke-dasharray:3 3}
.pale{opacity:.6}
.chip{fill:#fff;stroke:#1f2328;stroke-width:1.25}
.chip.on{fill:#1f2328}
.badge.on{fill:#fff}
.cross{fill:none;stroke:#6b7480;stroke-width:1}
HUES
.on.box{stroke:#1f2328;stroke-width:2.5;fill-opacity:.4}
@media (prefers-color-scheme:dark){
text,.strong,.word.strong{fill:#e8eaed}
.note,.small,.word{fill:#b4bcc6}
.panel{fill:#15181c;stroke:#3a414a}
.grid{stroke:#3f4751}
.frame{stroke:#e8eaed}
.n{fill:#9aa4b0}
.n.arrow,.n.line{fill:none;stroke:#9aa4b0}
.n.box,.n.group,.cross{stroke:#9aa4b0}
.box{fill-opacity:.22}
.pad{fill-opacity:0}
.chip{fill:#15181c;stroke:#e8eaed}
.chip.on{fill:#e8eaed}
.badge.on{fill:#15181c}
.on.box{stroke:#e8eaed;fill-opacity:.5}
}
"""


def rules(hue, color):
    "The rules of one colour: a cell is filled, a line is drawn, a box is both."
    lines = ",".join(f".{hue}.{kind}" for kind in ("arrow", "line", "edge"))
    boxes = f".{hue}.box,.{hue}.group{{stroke:{color}}}"
    return f".{hue}{{fill:{color}}}{lines}{{fill:none;stroke:{color}}}{boxes}"


STYLE = STYLE.replace("HUES", "\n".join(rules(*pair) for pair in HUES.items()))


def num(x):
    "A coordinate as short as it can be."
    return f"{x:.2f}".rstrip("0").rstrip(".") if x % 1 else f"{x:.0f}"


def at(*numbers):
    "Coordinates with blanks between them."
    return " ".join(map(num, numbers))


def pieces(words):
    "`words` cut at `_{}` and `^{}`: pairs of a text and '', '_' or '^'."
    found = re.finditer(r"([_^])\{(.*?)\}|((?:(?![_^]\{).)+)", words)
    return [(m[2], m[1]) if m[1] else (m[3], "") for m in found]


def width(words, kind="note"):
    "The width of `words` in a wide font."
    size, bold = KINDS[kind]
    total = 0
    for text, raised in pieces(words):
        for c in text:
            n = ord(c) - 32
            one = (BOLD if bold else PLAIN)[n] if n < 95 else 840 if c in WIDE else 660
            total += one * (10 if raised else size) / 1000
    return total


def matmul(a, b):
    return [[sum(p * q for p, q in zip(row, col)) for col in zip(*b)] for row in a]


def transpose(a):
    return [list(row) for row in zip(*a)]


def softmax(row):
    "The softmax of a list; a score of minus infinity gets 0, and a row of nothing else zeros."
    e = [0.0 if s == -inf else exp(s - max(row)) for s in row]
    return [x / sum(e) for x in e] if sum(e) else e


class Drawing:
    "One SVG. Add tables, words, boxes and arrows, then `save`."

    def __init__(self, name, title, desc):
        self.name, self.title, self.desc = name, title, desc
        self.out, self.texts, self.used = [], [], set()

    @contextmanager
    def part(self, name):
        "What is drawn inside lights up with the word of a page that has this name (parts.js)."
        self.out.append(f'<g data-part="{name}">')
        yield
        self.out.append("</g>")

    # words

    def text(self, x, y, words, kind="note", anchor="start", turn=False, room=None):
        """Words with their baseline at y; `_{}` lowers and `^{}` raises.

        turn: written upwards; room: the width that they may take."""
        size, w = KINDS[kind][0], width(words, kind)
        if room is not None and w > room:
            raise ValueError(f"{self.name}: {words!r} is {w:.0f} wide and has {room:.0f}")
        along = {"start": 0, "middle": w / 2, "end": w}[anchor]
        box = (x - along, y - 0.74 * size, x - along + w, y + 0.2 * size)
        if turn:
            box = (x - 0.74 * size, y + along - w, x + 0.2 * size, y + along)
        self.texts.append((words, box))
        body, shift = "", 0
        for piece, raised in pieces(words):
            dy = {"_": 4, "^": -5, "": 0}[raised]
            mark = ' class="sub"' if raised else ""
            mark += f' dy="{dy - shift}"' if dy != shift else ""
            body += f"<tspan{mark}>{escape(piece)}</tspan>" if mark else escape(piece)
            shift = dy
        more = "" if anchor == "start" else f' text-anchor="{anchor}"'
        more += f' transform="rotate(-90 {at(x, y)})"' if turn else ""
        self.out.append(f'<text class="{kind}" x="{num(x)}" y="{num(y)}"{more}>{body}</text>')

    def label(self, x, y, name, noun="", shape=""):
        "A name in bold, below it what it means and its shape."
        self.text(x, y, name, "name")
        for i, words in enumerate(w for w in (noun, shape) if w):
            self.text(x, y + 18 + 16 * i, words)

    def rows(self, right, top, words, high=14, strong=None, kind="word"):
        "Words to the left of a table, one per row."
        for i, word in enumerate(words):
            style = f"{kind} strong" if i == strong else kind
            self.text(right, top + (i + 0.5) * high + 4, word, style, "end")

    def columns(self, left, bottom, words, cell=14, strong=None, kind="word"):
        "Words above a table, one per column, written upwards."
        for j, word in enumerate(words):
            style = f"{kind} strong" if j == strong else kind
            self.text(left + (j + 0.5) * cell + 4, bottom, word, style, turn=True)

    # lines

    def rect(self, left, top, wide, high, kind, rx=6):
        size = f'width="{num(wide)}" height="{num(high)}"'
        self.out.append(
            f'<rect class="{kind}" x="{num(left)}" y="{num(top)}" {size} rx="{num(rx)}"/>'
        )

    def line(self, d, kind="n line", more=""):
        self.out.append(f'<path class="{kind}"{more} d="{d}"/>')

    def arrow(self, d, hue="n"):
        "An arrow along the path `d`."
        self.used.add(hue)
        self.line(d, f"{hue} arrow", f' marker-end="url(#{hue})"')

    def flow(self, x0, y0, x1, y1, hue="n"):
        "An arrow from one place down to another, leaving and arriving upright."
        m = (y0 + y1) / 2
        curve = f"V{num(y1)}" if x0 == x1 else f"C{at(x0, m, x1, m, x1, y1)}"
        self.arrow(f"M{at(x0, y0)}{curve}", hue)

    def edges(self, left, top, wide, tall):
        "Blue: a row per query. Orange: a column per key."
        self.line(f"M{at(left - 4, top)}v{num(tall)}", "q edge")
        self.line(f"M{at(left, top - 4)}h{num(wide)}", "k edge")

    def legend(self, x, y):
        "What the two edges of a table mean."
        self.line(f"M{at(x, y - 12)}v15", "q edge")
        self.text(x + 8, y, "one row per query")
        self.line(f"M{at(x + 182, y - 4.5)}h17", "k edge")
        self.text(x + 206, y, "one column per key")

    # tables

    def table(
        self,
        left,
        top,
        rows,  # numbers; None leaves a cell empty
        hue="n",
        cell=14,  # the width of a cell
        high=None,  # its height; that of a square if left out
        frame=None,  # the row of the example
        column=None,  # the column of the example
        edges=False,  # mark the rows as queries and the columns as keys
        most=None,  # the number that is drawn full; the largest if left out
        digits=None,  # write the numbers too, with so many digits
        grid=True,
    ):
        "A cell per number, as strong as the number is large."
        high = high or cell
        cells = [(i, j, n) for i, row in enumerate(rows) for j, n in enumerate(row)]
        cells = [one for one in cells if one[2] is not None]
        most = most or max((n for _, _, n in cells), default=0) or 1
        wide, tall = cell * len(rows[0]), high * len(rows)
        shades, full = {}, 1 if digits is None else 0.5
        for i, j, n in cells:
            shade = f"{(0.1 + 0.9 * max(0, n) / most) * full:.2f}"
            square = f"M{at(left + j * cell, top + i * high)}h{num(cell)}v{num(high)}h-{num(cell)}z"
            shades[shade] = shades.get(shade, "") + square
        self.out.append(f'<g class="{hue}">')
        self.out += [f'<path fill-opacity="{a}" d="{d}"/>' for a, d in sorted(shades.items())]
        self.out.append("</g>")
        if grid:
            lines = [f"M{at(left, top + i * high)}h{num(wide)}" for i in range(len(rows) + 1)]
            lines += [f"M{at(left + j * cell, top)}v{num(tall)}" for j in range(len(rows[0]) + 1)]
            self.line("".join(lines), "grid")
        if edges:
            self.edges(left, top, wide, tall)
        for i, j, n in cells if digits is not None else []:
            words = f"{n:.{digits}f}".replace("-", "−")
            x, y = left + (j + 0.5) * cell, top + (i + 0.5) * high + 4
            self.text(x, y, words, "num", "middle", room=cell)
        if frame is not None:
            self.frame(left, top + frame * high, wide, high)
        if column is not None:
            self.frame(left + column * cell, top, cell, tall)

    def frame(self, left, top, wide, high):
        "The example: a frame around some cells."
        self.rect(left - 1, top - 1, wide + 2, high + 2, "frame", 3)

    def mask(self, left, top, rows, cell=14, high=None):
        "A table of rules: full where a query may attend to a key, crossed where it may not."
        high = high or cell
        full = [[0.7 if ok else None for ok in row] for row in rows]
        self.table(left, top, full, cell=cell, high=high, most=1, edges=True)
        for i, row in enumerate(rows):
            for j, ok in enumerate(row):
                if not ok:
                    self.cross(left + j * cell, top + i * high, cell, high)

    def cross(self, left, top, cell, high=None):
        "A cell that is left out."
        w, h = cell - 6, (high or cell) - 6
        self.line(f"M{at(left + 3, top + 3)}l{at(w, h)}m0 {num(-h)}l{at(-w, h)}", "cross")

    # boxes

    def box(self, left, top, wide, high, lines=(), hue="n", first="part", rest="note"):
        "A part of a model: a rounded box with a name and notes, centred."
        lines = [lines] if isinstance(lines, str) else lines
        self.rect(left, top, wide, high, f"{hue} box")
        y = top + high / 2 - 8.5 * (len(lines) - 1) + 5
        for i, words in enumerate(lines):
            kind = rest if i else first
            self.text(left + wide / 2, y + 17 * i, words, kind, "middle", room=wide - 6)

    def group(self, left, top, wide, high):
        "What belongs together: a dashed outline."
        self.rect(left, top, wide, high, "n group")

    def tokens(self, left, top, words, cell=32, high=22, hue="n"):
        "A row of tokens, each in a box; the outline of a pad is dashed."
        for j, word in enumerate(words):
            pad = word == "pad"
            self.rect(left + j * cell + 1, top, cell - 2, high, f"{hue} box" + " pad" * pad, 3)
            x, y = left + (j + 0.5) * cell, top + high / 2 + 4.5
            self.text(x, y, word, "small" if pad else "num", "middle", room=cell - 2)

    def plus(self, x, y, r=8):
        "Where two vectors are added."
        a = r - 3
        self.rect(x - r, y - r, 2 * r, 2 * r, "chip", r)
        self.line(f"M{at(x - a, y)}h{2 * a}M{at(x, y - a)}v{2 * a}", "frame")

    # the file

    def check(self, height):
        "Words inside the panel, and not on other words."
        for i, (words, (x0, y0, x1, y1)) in enumerate(self.texts):
            if x0 < 4 or y0 < 4 or x1 > WIDTH - 4 or y1 > height - 4:
                place = f"{x0:.0f} {y0:.0f} {x1:.0f} {y1:.0f} of {WIDTH} × {height}"
                raise ValueError(f"{self.name}: {words!r} leaves the panel: {place}")
            for other, (a0, b0, a1, b1) in self.texts[:i]:
                if x0 < a1 - 0.5 and a0 < x1 - 0.5 and y0 < b1 - 0.5 and b0 < y1 - 0.5:
                    raise ValueError(f"{self.name}: {words!r} lies on {other!r}")

    def svg(self, height):
        "The whole drawing as text."
        self.check(height)
        size = 'viewBox="0 0 10 10" refX="8" refY="5" markerWidth="4.2" markerHeight="4.2"'
        heads = "".join(
            f'<marker id="{n}" {size} orient="auto-start-reverse">'
            f'<path class="{n}" d="M0 0L10 5L0 10z"/></marker>'
            for n in sorted(self.used)
        )
        size = f'viewBox="0 0 {WIDTH} {height}" width="485" height="{height * 1.2:.0f}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(self.title)}</title>',
            f'<desc id="d">{escape(self.desc)}</desc>',
            f"<style>{STYLE}</style>",
            f"<defs>{heads}</defs>",
            f'<rect class="panel" x="1" y="1" width="{WIDTH - 2}" height="{height - 2}" rx="10"/>',
        ]
        return "\n".join([*lines, *self.out, "</svg>\n"])

    def save(self, height):
        "Write the drawing to the folder of images."
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / f"{self.name}.svg").write_text(self.svg(height), encoding="utf-8")
