"""A row of scores in two blocks with the two numbers kept, and the tiles of a causal mask."""

from math import exp

from svg import Drawing

WORDS, SCORES, SIZE = ["the", "cat", "sat", "down"], [0.0, 2.0, 1.0, 3.0], 2
BLOCKS, B = 4, 2  # blocks of queries and of keys, and how many of each stand in one
blocks = [SCORES[j : j + SIZE] for j in range(0, len(SCORES), SIZE)]
kept, old, total = [], 0.0, 0.0  # of each block: the largest so far, the sum so far, the factor
for scores in blocks:
    new = max([*scores, *[m for m, _, _ in kept]])
    factor = exp(old - new) if kept else 0.0
    total = factor * total + sum(exp(s - new) for s in scores)
    kept.append((new, total, factor))
    old = new
(m0, l0, _), (m1, l1, factor) = kept
weights = [exp(s - m1) / l1 for s in SCORES]
tiles = [[0.8 if j < i else 0.4 if j == i else None for j in range(BLOCKS)] for i in range(BLOCKS)]
skipped = sum(t is None for row in tiles for t in row)

d = Drawing(
    "04_flash",
    "Flash attention: a row of the softmax in two blocks, and the tiles of a causal mask",
    f"Above: the scores of one query for {' '.join(WORDS)} are {', '.join(map(str, SCORES))}, in "
    f"two blocks. After the first block the largest score is {m0:.0f} and the sum {l0:.2f}. The "
    f"second block has a larger score, {m1:.0f}, so the old sum is multiplied by e to the "
    f"{m0:.0f} minus {m1:.0f}, {factor:.2f}, before the block is added, and the sum is {l1:.2f}. "
    f"The weights in the end are {', '.join(f'{w:.2f}' for w in weights)}. Below: a grid of "
    f"{BLOCKS} blocks of queries by {BLOCKS} blocks of keys under a causal mask. Tiles below the "
    f"diagonal are computed, those on it with a mask, and the {skipped} above it are skipped.",
)
C, LEFT, GAP, RIGHT = 52, 90, 30, 90 + 2 * 52 + 30
d.text(14, 28, "one query, two blocks of keys", "part")
for start, x in ((0, LEFT), (SIZE, RIGHT)):
    for j in range(SIZE):
        d.text(x + (j + 0.5) * C, 54, WORDS[start + j], "word", "middle")
    d.table(x, 62, [SCORES[start : start + SIZE]], cell=C, high=24, digits=1, most=max(SCORES))
    d.line(f"M{x} 58h{SIZE * C}", "k edge")
d.text(LEFT - 12, 79, "scores", "part", "end")
for x, largest, sums in ((LEFT, m0, l0), (RIGHT, m1, l1)):
    d.flow(x + C, 90, x + C, 112)
    d.box(x, 116, 2 * C, 50)
    d.text(x + C, 136, f"largest {largest:.0f}", "part", "middle")
    d.text(x + C, 155, f"sum {sums:.2f}", "part", "middle")
d.text(LEFT - 12, 145, "kept", "part", "end")
d.arrow(f"M{LEFT + 2 * C + 4} 141H{RIGHT - 6}")
words = f"old sum × e^{{{m0:.0f} − {m1:.0f}}} = {l0:.2f} × {factor:.2f}"
d.text(RIGHT + C - 12, 192, words, "note", "end")
d.flow(RIGHT + C, 170, RIGHT + C, 212)
d.text(LEFT - 12, 233, "weights", "part", "end")
for start, x in ((0, LEFT), (SIZE, RIGHT)):
    part = weights[start : start + SIZE]
    d.table(x, 216, [part], cell=C, high=24, digits=2, most=1)
T, TOP, SIDE = 32, 316, 90
d.text(14, 276, "all queries, tile by tile", "part")
d.text(SIDE + BLOCKS * T / 2, 304, "blocks of keys", "note", "middle")
d.text(SIDE - 14, TOP + BLOCKS * T / 2, "blocks of queries", "note", "middle", turn=True)
d.table(SIDE, TOP, tiles, cell=T, most=1, edges=True)
for i in range(BLOCKS):
    for j in range(i + 1, BLOCKS):
        d.cross(SIDE + j * T, TOP + i * T, T)
d.frame(SIDE, TOP + 2 * T, 3 * T, T)
d.arrow(f"M{SIDE + 8} {TOP + 2.5 * T}H{SIDE + 3 * T - 10}")
x = SIDE + BLOCKS * T + 26
shades = (0.8, "whole tile"), (0.4, "tile with a mask"), (None, "skipped")
for k, (strength, words) in enumerate(shades):
    y = TOP + 8 + 30 * k
    d.table(x, y, [[strength]], cell=18, most=1)
    if strength is None:
        d.cross(x, y, 18)
    d.text(x + 28, y + 14, words)
d.text(x, TOP + 118, "arrow: inner loop", "note")
d.legend(37, TOP + BLOCKS * T + 34)
d.save(TOP + BLOCKS * T + 52)
