"""A row that begins again: layer 1 writes the letter before, layer 2 looks for it."""

from svg import Drawing, at

ROW = "kfacekfa"
LAST = len(ROW) - 1
before = ["–", *ROW[:-1]]  # the letter before each position
match = before.index(ROW[-1])  # the position that has the last letter before it

d = Drawing(
    "06_depth",
    "Two layers of attention find how a row goes on",
    f"The row {' '.join(ROW)} stands above. In layer 1 each position gets the letter before it, "
    f"{' '.join(before[1:])}, written below its own. In layer 2 the query of the last position is "
    f"its own letter, {ROW[-1]}. The key of position {match} is the letter before it, also "
    f"{ROW[-1]}. They match, and the value of position {match}, {ROW[match]}, is how the row goes "
    "on.",
)
C, LEFT, HIGH = 36, 96, 26
TOP, BELOW = 66, 140


def middle(j):
    return LEFT + (j + 0.5) * C


d.text(14, 28, "layer 1: what came before me?", "part")
d.rows(LEFT - 10, TOP, ["my letter"], HIGH)
d.rows(LEFT - 10, BELOW, ["before me"], HIGH)
for j in range(len(ROW)):
    d.text(middle(j), TOP - 8, str(j), "small", "middle")
d.tokens(LEFT, TOP, ROW, C, HIGH)
d.tokens(LEFT, BELOW, before, C, HIGH)
for j in range(LAST):
    d.flow(middle(j), TOP + HIGH + 4, middle(j + 1), BELOW - 5)

SECOND = BELOW + HIGH + 44
d.text(14, SECOND, "layer 2: who has my letter before it?", "part")
QUERY = SECOND + 36
d.rows(LEFT - 10, QUERY, ["query"], HIGH)
d.rows(LEFT - 10, QUERY + 60, ["keys"], HIGH)
d.rows(LEFT - 10, QUERY + 96, ["values"], HIGH)
d.tokens(LEFT + LAST * C, QUERY, [ROW[-1]], C, HIGH, "q")
d.tokens(LEFT, QUERY + 60, before, C, HIGH, "k")
d.tokens(LEFT, QUERY + 96, ROW, C, HIGH, "v")
d.frame(LEFT + match * C, QUERY + 58, C, 66)
d.arrow(f"M{at(LEFT + LAST * C - 4, QUERY + HIGH / 2)}H{middle(match)}V{QUERY + 53}", "q")
d.flow(middle(match), QUERY + 128, middle(match), QUERY + 152, "v")
d.text(middle(match), QUERY + 170, f"goes on with {ROW[match]}", "part", "middle")
d.save(QUERY + 184)
