"""The ladder: the number of each lesson, and names that the same dice write, from course.csv."""

import csv
from pathlib import Path

from svg import Drawing

TABLE = Path(__file__).parents[2] / "former_nb" / "ladder" / "course.csv"
LEFT_OUT = {"00b", "00d"}  # how often each letter occurs; the pairs once more
SHORT = {"10": "generator", "11": "and counts", "12": "modern"}
TOP, HIGH = 66, 30
RIGHT, WORST, BEST = 262, 2.2, 1.5  # where the largest shown number stands, and both ends
SCALE = (RIGHT - 132) / (WORST - BEST)

with TABLE.open(encoding="utf-8", newline="") as file:
    rungs = [row for row in csv.DictReader(file) if row["rung"] not in LEFT_OUT]


def x(nats):
    return RIGHT - (WORST - min(nats, WORST)) * SCALE


def some_names(text, room=17):
    "The first names that fit."
    picked = []
    for name in text.split(", "):
        if name != "(nothing)" and len(", ".join([*picked, name])) <= room:
            picked.append(name)
    return ", ".join(picked[:2])


first, last = rungs[0], min(rungs, key=lambda row: float(row["nats"]))
d = Drawing(
    "ladder",
    "One number falls from lesson to lesson",
    "A staircase. Each step is a lesson, with its number in nats per character on Lithuanian names "
    f"that were held out: from {float(first['nats']):.2f} where every letter is alike, to "
    f"{float(last['nats']):.2f}. Beside each step stand names that the machine of that lesson "
    f"invents, at first {some_names(first['names'])}, at last {some_names(last['names'])}.",
)
d.text(16, 30, "One number falls", "name")
d.text(16, 50, "nats per character on held-out names", "small")
d.text(388, 50, "it writes", "small", "end")
path = ""
for i, row in enumerate(rungs):
    y = TOP + HIGH * i
    nats, here = float(row["nats"]), x(float(row["nats"]))
    path += f"H{here:.1f}" if path else f"M{here:.1f} {y}"
    path += f"V{y + HIGH}"
    said = SHORT.get(row["rung"], row["what"].split(":")[0].split(",")[0])
    d.text(16, y + 20, row["rung"][:2], "num strong")
    d.text(38, y + 20, said, "small", room=int(here) - 74)
    d.text(here - 5, y + 20, f"{nats:.2f}", "num strong", "end")
    d.text(388, y + 20, some_names(row["names"]), "small", "end")
d.line(path, "n line")
d.save(TOP + HIGH * len(rungs) + 14)
