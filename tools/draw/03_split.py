"""Splitting into heads, step by step: cut the last axis, then move the heads before the words."""

from svg import Drawing

WORDS = ["Ann", "saw", "Bob", "call", "Eve"]
T, H, D_K, SAW = 5, 2, 6, 1
D = H * D_K
q = [[(5 * i + 7 * j) % 11 / 10 for j in range(D)] for i in range(T)]
heads = [[row[h * D_K : (h + 1) * D_K] for row in q] for h in range(H)]
C, GAP, LEFT = 14, 18, 66
HIGH = T * C
RIGHT = LEFT + 2 * D_K * C + 82

d = Drawing(
    "03_split",
    "Split into heads: cut the last axis in two, then move the heads before the words",
    f"The queries of five words, {' '.join(WORDS)}, {D} numbers each, in three steps. First they "
    f"are one table of {T} rows and {D} columns. Then each row is cut into {H} pieces of {D_K} "
    f"numbers. Last, the pieces of head 0 make a table of {T} rows, and those of head 1 another. "
    "No number changes. The framed row of saw is cut in two, and each head gets one half. Merging "
    "takes the same steps backwards.",
)


def step(number, top, name, shape):
    "The number of a step beside its table, and right of it what it is and its shape."
    d.rect(8, top - 2, 20, 20, "chip on", 10)
    d.text(18, top + 12.5, str(number), "badge on", "middle")
    d.label(RIGHT, top + 20, name, shape)


def down(top, words):
    "An arrow to the next step, and what makes it."
    d.arrow(f"M{LEFT + D * C / 2} {top}v30")
    d.text(LEFT + D * C / 2 + 12, top + 19, words)


A = 18
step(1, A, "q", "(B, T, h d_{k})")
d.table(LEFT, A, q, "q", cell=C, frame=SAW)
d.rows(LEFT - 8, A, WORDS, C, strong=SAW)

B = A + HIGH + 72
down(A + HIGH + 8, "cut the last axis")
step(2, B, "cut", "(B, T, h, d_{k})")
d.rows(LEFT - 8, B, WORDS, C, strong=SAW)
for h in range(H):
    left = LEFT + h * (D_K * C + GAP)
    d.table(left, B, heads[h], "q", cell=C, frame=SAW)
    d.text(left + D_K * C / 2, B - 9, f"head {h}", "small", "middle")

E = B + HIGH + 72
down(B + HIGH + 8, "heads before words")
step(3, E, "moved", "(B, h, T, d_{k})")
for h in range(H):
    left = LEFT + h * (D_K * C + 64)
    d.table(left, E, heads[h], "q", cell=C, frame=SAW)
    d.text(left + D_K * C / 2, E - 9, f"head {h}", "small", "middle")
    d.rows(left - 8, E, WORDS, C, strong=SAW)
d.save(E + HIGH + 18)
