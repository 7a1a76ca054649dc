"""Draw a terminal in which the model of names writes letter by letter, for README.md.

python tools/moving_names.py   write nbs/images/moving_names.svg

The names are what the command prints. A cover hides each line and draws back by one letter at a
time. After three rounds the drawing rests; where less motion is asked for, it rests at once.
"""

import argparse
import subprocess
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROMPT = "Jo"
COMMAND = f"former-nb generate {PROMPT} --seed 0"
ROUNDS = 3
KEY, LETTER, PAUSE, REST = 0.06, 0.09, 0.35, 5.0  # seconds: a key, a letter, between lines, at last
LEFT, TOP, ADVANCE, LINE, WIDTH = 20, 54, 8.4, 20, 404  # in units of the drawing
STYLE = """
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
text,.cursor{fill:#e8eaed}
.given{fill:#9aa4b0}
.panel{fill:#15181c;stroke:#3a414a}
.dot{fill:#3a414a}
.cover{fill:#15181c;transform:scaleX(0)}
"""


def write_names() -> list[str]:
    "What the command prints: one name per line, by the model that ships."
    words = [*COMMAND.split()[1:], "--device", "cpu"]
    python = [sys.executable, "-c", "from former_nb.cli import main; main()"]
    done = subprocess.run(
        [*python, *words], cwd=ROOT, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    )
    return done.stdout.split()


def place(column: int, row: int) -> tuple[float, int]:
    "Where a letter begins, and its base line."
    return round(LEFT + column * ADVANCE, 1), TOP + row * LINE


def draw_line(row: int, before: str, given: str, rest: str) -> str:
    "One line of text, each letter in its place, and the cover over all but what is before."
    text = before + given + rest
    y = place(0, row)[1]
    columns = " ".join(f"{place(i, row)[0]:g}" for i in range(len(text)))
    start, end = place(len(before), row)[0], place(len(text), row)[0]
    grey = f'<tspan class="given">{escape(before + given)}</tspan>'
    cover = f'x="{start:g}" y="{y - 15}" width="{end - start:.1f}" height="{LINE}"'
    return (
        f'<text x="{columns}" y="{y}">{grey}{escape(rest)}</text>\n'
        f'<rect class="cover r{row}" {cover} style="transform-origin:{end:g}px 0"/>'
    )


def draw(names: list[str]) -> str:
    "The drawing as SVG. Its own rules move it, so it moves in a page that runs no script."
    lines = [("$ ", "", COMMAND, KEY)]
    for name in names:
        given = PROMPT if name.startswith(PROMPT) else ""
        lines.append(("", given, name.removeprefix(given), LETTER))
    times = []  # when each line begins and ends
    clock = 1.0
    for _, given, rest, seconds in lines:
        end = clock + len(given + rest) * seconds
        times.append((clock, end))
        clock = end + PAUSE
    total = clock + REST

    def percent(time):
        return f"{100 * time / total:.2f}%"

    moves = []
    positions = []
    drawn = []
    for row, ((before, given, rest, seconds), (begin, end)) in enumerate(zip(lines, times)):
        n = len(given + rest)
        steps = f"transform:scaleX(1);animation-timing-function:steps({n},end)"
        moves.append(
            f"@keyframes r{row}{{0%,{percent(begin)}{{{steps}}}"
            f"{percent(end)},100%{{transform:scaleX(0)}}}}\n.r{row}{{animation-name:r{row}}}"
        )
        for i in range(n + 1):
            x, y = place(len(before) + i, row)
            at = f"transform:translate({x:g}px,{y - 12}px)"
            positions.append(f"{percent(begin + i * seconds)}{{{at}}}")
        drawn.append(draw_line(row, before, given, rest))
    first = f"0%{{transform:translate({place(2, 0)[0]:g}px,{TOP - 12}px)}}"
    moves.append(f"@keyframes cursor{{{first}{''.join(positions)}100%{{{at}}}}}")
    moves.append(
        f".cover,.cursor{{animation-duration:{total:.2f}s;animation-iteration-count:{ROUNDS}}}\n"
        ".cursor{animation-name:cursor;animation-timing-function:step-end}"
    )
    still = f".cursor{{{at}}}"
    rules = "\n".join(moves)
    height = TOP + len(lines) * LINE
    dots = "".join(f'<circle class="dot" cx="{20 + 14 * i}" cy="18" r="4"/>' for i in range(3))
    title = f"A terminal in which {COMMAND} writes names, letter by letter"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}">\n'
        f"<title>{title}</title>\n<desc>{escape(', '.join(names))}</desc>\n"
        f"<style>{STYLE}{still}\n@media (prefers-reduced-motion:no-preference){{\n{rules}\n}}\n"
        f"</style>\n"
        f'<rect class="panel" x=".5" y=".5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>\n'
        f"{dots}\n" + "\n".join(drawn) + '\n<rect class="cursor" width="8" height="16"/>\n</svg>\n'
    )


def main(argv=None):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=ROOT / "nbs" / "images" / "moving_names.svg")
    out = parser.parse_args(argv).out
    out.write_text(draw(write_names()), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
