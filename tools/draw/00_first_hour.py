"""The board game: from `BOS` to the end, one throw of a loaded die for each letter."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random

from svg import Drawing

NAME = "kemona"  # the first that the page writes
LIST = Path(__file__).parents[2] / "former_nb" / "data" / "names" / "vardai.csv"

# the page's table: the names to learn from, their pairs, and one count for each that is possible
lines = LIST.read_text(encoding="utf-8").lower().split()
names = list(dict.fromkeys(lines[1:]))  # some are in the list twice
Random(0).shuffle(names)
names = names[2 * (len(names) // 10) :]
counts = Counter(pair for name in names for pair in pairwise(["BOS", *name, "end"]))
after = ["end", *sorted(set("".join(names)))]


def row(letter):
    "What may follow a letter, the likeliest first: pairs of a letter and its share."
    some = {other: counts[letter, other] + 1 for other in after}
    shares = {other: n / sum(some.values()) for other, n in some.items()}
    return sorted(shares.items(), key=lambda pair: -pair[1])


steps = list(pairwise(["BOS", *NAME, "end"]))
told = []
for letter, thrown in steps:
    likely = ", ".join(f"{other} {share:.2f}" for other, share in row(letter)[:3])
    share = dict(row(letter))[thrown]
    told.append(f"After {letter} most likely {likely}; thrown: {thrown} {share:.2f}.")

d = Drawing(
    "00_first_hour",
    "The board game: each letter has a loaded die, and the die says which letter comes next",
    f"A path from BOS over the letters {' '.join(NAME)} to the end. At each field lies the row of "
    "that letter in the table as a bar of length 1, cut into the shares of the letters that may "
    "follow. The letter that was thrown is framed, and an arrow leads from it to the next field. "
    f"{' '.join(told)}",
)
FIELD, LEFT, WIDE, HIGH, STEP = 40, 78, 268, 24, 48
top = 44
d.text(FIELD, 28, "field", "part", "middle")
d.text(LEFT, 28, "its loaded die: a row of the table", "part", room=WIDE)
d.text(388, 28, "share", "part", "end")
for letter, thrown in steps:
    d.box(FIELD - 24, top, 48, HIGH, letter)
    x, cuts = LEFT, []
    for other, share in row(letter):
        wide = share * WIDE
        shade = f"{min(0.5, 0.06 + share):.2f}"
        d.line(f"M{x:.1f} {top}h{wide:.1f}v{HIGH}h-{wide:.1f}z", "n", f' fill-opacity="{shade}"')
        if share > 0.038:
            kind = "num strong" if other == thrown else "num"
            d.text(x + wide / 2, top + 16, other, kind, "middle")
        if share > 0.02:
            cuts.append(f"M{x + wide:.1f} {top}v{HIGH}")
        if other == thrown:
            framed = x, wide
        x += wide
    d.line("".join(cuts), "grid")
    d.rect(LEFT, top, WIDE, HIGH, "grid", 0)
    d.frame(framed[0], top, framed[1], HIGH)
    d.text(388, top + 16, f"{framed[1] / WIDE:.2f}", "num", "end")
    d.flow(framed[0] + framed[1] / 2, top + HIGH + 2, FIELD, top + STEP - 3)
    top += STEP
d.box(FIELD - 24, top, 48, HIGH, "end")
d.text(LEFT, top + 17, f"{NAME.capitalize()} is written", "name")
d.text(16, top + 52, "The larger a letter's share, the more often it comes up.", room=372)
d.save(top + 68)
