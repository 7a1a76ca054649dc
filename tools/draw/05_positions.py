"""Word vectors plus position vectors; the sinusoids of which the position vectors are made."""

from math import cos, pi, sin

from svg import Drawing

WORDS = ["dog", "bites", "man"]
D_MODEL, BASE, SHOWN = 16, 10_000, 4
FAST = [
    BASE ** (-2 * k / D_MODEL) for k in range(D_MODEL // 2)
]  # the angle per position of each pair of columns


def position(t):
    return [f(t * w) for w in FAST for f in (sin, cos)]


word_vectors = [
    [((5 * i + 3 * j + i * j) % 7 - 3) / 3 for j in range(D_MODEL)] for i in range(len(WORDS))
]
positions = [position(t) for t in range(len(WORDS))]
x = [[a + b for a, b in zip(*rows)] for rows in zip(word_vectors, positions)]


def shades(rows, least, most):
    return [[(n - least) / (most - least) for n in row] for row in rows]


N, LEFT, WIDE = 64, 72, 320
d = Drawing(
    "05_positions",
    "Positions: a vector for each position is added to the vector of each word",
    f"The words {' '.join(WORDS)} have word vectors of width {D_MODEL}. To each a position vector "
    "is added, so that the same word at another position is another vector. "
    f"Position vectors are sines and cosines of {len(FAST)} frequencies. "
    f"Below, the sines of the {SHOWN} fastest over positions 0 to {N - 1}; they repeat after "
    f"{', '.join(f'{2 * pi / w:.1f}' for w in FAST[:SHOWN])} positions. The "
    "word vectors are made up.",
)
C = 9
W = C * D_MODEL
d.rows(54, 42, WORDS, 18)
d.table(60, 42, shades(word_vectors, -1, 1), cell=C, high=18, most=1)
d.text(60, 28, "word vectors", "part")
d.plus(219, 69)
d.table(234, 42, shades(positions, -1, 1), cell=C, high=18, most=1)
d.text(234, 28, "position vectors", "part")
for i in range(len(WORDS)):
    d.text(384, 42 + (i + 0.5) * 18 + 4, str(i), "word")
d.text(60, 114, "(T, d_{model})")
d.text(234, 114, "(max_len, d_{model})")
d.flow(110, 124, 172, 158)
d.flow(306, 124, 204, 158)
d.rows(110, 166, WORDS, 18)
d.table(116, 166, shades(x, -2, 2), cell=C, high=18, most=1)
d.label(270, 184, "x", "word + position", "(T, d_{model})")
# waves
d.text(16, 258, "sinusoids", "name")
d.text(112, 258, f"sin(ω t), {SHOWN} of {len(FAST)} frequencies")
step = WIDE / N
for i, w in enumerate(FAST[:SHOWN]):
    mid = 288 + 50 * i
    d.table(
        LEFT,
        mid + 16,
        [[(sin(t * w) + 1) / 2 for t in range(N)]],
        cell=step,
        high=10,
        most=1,
        grid=False,
    )
    fine = 1 if i else 3  # points per position
    points = [
        (LEFT + (t / fine + 0.5) * step, mid - 13 * sin(t / fine * w))
        for t in range(fine * (N - 1) + 1)
    ]
    d.line("M" + "L".join(f"{across:.0f} {y:.1f}" for across, y in points))
    d.text(LEFT - 10, mid + 9, f"{w:.2f}", "note", "end")
    if not i:
        d.text(LEFT - 44, mid + 9, "ω", "note", "end")
base = mid + 42
for t in (0, 16, 32, 48, 63):
    d.text(LEFT + (t + 0.5) * step, base, str(t), "small", "middle")
d.text(LEFT + WIDE / 2, base + 18, "position t", "note", "middle")
d.save(base + 32)
