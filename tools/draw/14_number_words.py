"""einundzwanzig and twenty-one: ones and tens swap, so cross-attention turns round."""

from svg import Drawing

ONES = {1: ("ein", "one"), 2: ("zwei", "two"), 3: ("drei", "three"), 4: ("vier", "four")}
TENS = {2: ("zwanzig", "twenty"), 3: ("dreißig", "thirty")}
NUMBER = 21
ones, tens = ONES[NUMBER % 10], TENS[NUMBER // 10]
SOURCE, TARGET = [ones[0], "und", tens[0]], [tens[1], "-", ones[1]]
MATCH = {tens[1]: tens[0], "-": "und", ones[1]: ones[0]}
letters, written = list("".join(SOURCE)), list("".join(TARGET))
owner = [i for i, part in enumerate(SOURCE) for _ in part]
asked = [SOURCE.index(MATCH[part]) for part in TARGET for _ in part]
aligned = [
    [float(o == a) for o in owner] for a in asked
]  # what a head should find: the part that a letter comes from
weights = [[x / sum(row) for x in row] for row in aligned]

d = Drawing(
    "14_number_words",
    "Number words: German says the ones before the tens, English after them, so cross-attention "
    "turns round",
    f"{''.join(SOURCE)} is {', '.join(SOURCE)}; {''.join(TARGET)} is {', '.join(TARGET)}. "
    "Crossing lines join the parts that mean the same. Below, an alignment matrix, a row for "
    "each letter written and a column for each letter read: "
    f"while {TARGET[0]} is written the full cells stand under {MATCH[TARGET[0]]}, at the end of "
    f"the source; while {TARGET[2]} is written, under {MATCH[TARGET[2]]}, at its beginning. "
    "So the blocks run from the top right to the bottom left. It is the ideal, not a trained "
    "head: the weight is shared evenly among the letters of a part.",
)
C, H, LEFT = 19, 15, 102
WIDE = C * len(letters)
MID = LEFT + WIDE / 2


NAMES = ("tens", "hyphen", "ones")  # of the English parts, and backwards of the German


def strip(top, parts, left, hue, names):
    "The parts of a word as boxes as wide as their letters; returns the middle of each."
    mids, x = [], left
    for part, name in zip(parts, names):
        wide = C * len(part)
        with d.part(name):
            d.rect(x + 1, top, wide - 2, 26, f"{hue} box", 4)
            d.text(x + wide / 2, top + 18, part, "word strong", "middle", room=wide)
        mids.append(x + wide / 2)
        x += wide
    return mids


with d.part("read"):
    a = strip(24, SOURCE, LEFT, "k", NAMES[::-1])
with d.part("written"):
    b = strip(104, TARGET, MID - C * len(written) / 2, "q", NAMES)
for part, at in zip(TARGET, b):
    d.flow(a[SOURCE.index(MATCH[part])], 53, at, 99)
with d.part("read"):
    d.text(14, 36, "German", "part")
    d.text(14, 53, "read")
with d.part("written"):
    d.text(14, 116, "English", "part")
    d.text(14, 133, "written")
TOP = 208
d.text(LEFT, 164, "cross-attention", "name")
d.text(LEFT + WIDE, 164, "(T, S)", anchor="end")
with d.part("read"):
    for j, letter in enumerate(letters):
        d.text(LEFT + (j + 0.5) * C, TOP - 12, letter, "num", "middle")
y = TOP
for part, name in zip(TARGET, NAMES):  # the rows of a part of the word
    rows = weights[: len(part)]
    weights = weights[len(part) :]
    shown = [[x or None for x in row] for row in rows]
    with d.part("weights"), d.part(name):
        d.table(LEFT, y, shown, cell=C, high=H, most=1 / 3)
    with d.part("written"), d.part(name):
        d.rows(LEFT - 12, y, part, H, kind="num")
        d.text(LEFT - 32, y + H * len(part) / 2 + 4, part, "word strong", "end")
    y += H * len(part)
d.edges(LEFT, TOP, WIDE, H * len(written))
end = TOP + H * len(written)
d.text(LEFT, end + 22, "The ideal: each row sums to 1, shared")
d.text(LEFT, end + 39, "by the letters of the part it comes from.")
d.legend(16, end + 68)
d.save(end + 84)
