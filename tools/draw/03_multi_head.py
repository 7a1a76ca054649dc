"""Several heads: one projection, split, attend in each head, merge, and mix with W_o."""

from math import cos, pi, sin

from svg import Drawing, matmul, softmax, transpose

WORDS = ["Ann", "saw", "Bob", "call", "Eve"]
T, H, D_K, SAW = 5, 2, 4, 1
D = H * D_K
# a word is six features and its position, an angle; a head turns the angle of its queries back or
# forth, so that they find a neighbour
TURN = 2 * pi / 7
x = [
    [(3 * i + 5 * j) % 7 / 6 for j in range(D - 2)] + [cos(i * TURN), sin(i * TURN)]
    for i in range(T)
]
MIX = [[1, 1, 1, 1], [1, -1, 1, -1]]  # spreads the angle over the four columns of a head


def turned(by):
    "The (D, D_K) matrix that takes the angle of a word, turned by so many positions."
    c, s = 2.2 * cos(by * TURN), 2.2 * sin(by * TURN)
    return [[0] * D_K] * (D - 2) + matmul([[c, s], [-s, c]], MIX)


def beside(*tables):
    return [[n for row in rows for n in row] for rows in zip(*tables)]


def shades(rows):
    "Numbers as they are drawn: the least is palest."
    least = min(min(row) for row in rows)
    return [[n - least for n in row] for row in rows]


W_Q, W_K = beside(turned(-1), turned(1)), beside(turned(0), turned(0))
W_V = [[(i + 2 * j) % 5 / 4 for j in range(D)] for i in range(D - 2)] + [[0] * D] * 2
W_O = [[((i + 2 * j) % 3 - 1) / 2 for j in range(D)] for i in range(D)]
q, k, v = (matmul(x, w) for w in (W_Q, W_K, W_V))
split = [[[row[h * D_K : (h + 1) * D_K] for row in part] for part in (q, k, v)] for h in range(H)]
weights = [
    [softmax([s / D_K**0.5 for s in row]) for row in matmul(a, transpose(b))] for a, b, _ in split
]
heads = [matmul(w, parts[2]) for w, parts in zip(weights, split)]
merged = beside(*heads)
y = matmul(merged, W_O)
found = [w[SAW].index(max(w[SAW])) for w in weights]

d = Drawing(
    "03_multi_head",
    "Multi-head attention: project once, split into heads, attend in each head, merge, mix",
    f"Five words, {' '.join(WORDS)}, are the rows of x, {D} columns wide. One projection makes "
    "queries (blue), keys (orange) and values (green), each as wide as x. "
    f"They are split into {H} heads of {D_K} columns each. Each head has its own table of "
    f"weights: in head 0 the framed word {WORDS[SAW]} gives {weights[0][SAW][found[0]]:.2f} of "
    "its attention "
    f"to {WORDS[found[0]]}, the word before, in head 1 {weights[1][SAW][found[1]]:.2f} to "
    f"{WORDS[found[1]]}, the word after. Each head mixes its own values. "
    "The outputs of the heads are merged side by side and mixed by W_o into y, which is as wide "
    "as x. The vectors of the words are made up; all else is computed from them.",
)
C = 12
W, HIGH = D * C, T * C
d.table(154, 16, shades(x), cell=C, frame=SAW)
d.rows(146, 16, WORDS, C, strong=SAW)
d.label(260, 40, "x", "(B, T, d_{model})")
d.arrow("M202 82V106")
d.text(214, 99, "W_{qkv}", "name")
d.text(258, 99, "one projection")
LEFT, A = 58, 114
for i, (hue, part, noun) in enumerate((("q", q, "queries"), ("k", k, "keys"), ("v", v, "values"))):
    d.table(LEFT + i * W, A, shades(part), hue, cell=C)
    d.text(LEFT + (i + 0.5) * W, A + HIGH + 18, noun, "note", "middle")
    cut = f"M{LEFT + i * W + W // 2} {A - 4}v{HIGH + 8}"
    d.line(cut, "frame", ' stroke-dasharray="2 3"')
d.frame(LEFT, A + SAW * C, 3 * W, C)
d.arrow(f"M202 {A + HIGH + 24}V{A + HIGH + 46}")
d.text(214, A + HIGH + 41, "split: (B, h, T, d_{k})")
TOP = A + HIGH + 54
for h, (left, (q_h, k_h, v_h)) in enumerate(zip((12, 208), split)):
    d.group(left, TOP, 184, 194)
    d.text(left + 92, TOP + 18, f"head {h}", "part", "middle")
    for at, part, hue in ((12, q_h, "q"), (68, k_h, "k"), (124, v_h, "v")):
        d.table(
            left + at,
            TOP + 26,
            shades(part),
            hue,
            cell=C,
            high=8,
            frame=SAW if hue == "q" else None,
        )
    d.flow(left + 36, TOP + 70, left + 52, TOP + 96, "q")
    d.flow(left + 92, TOP + 70, left + 76, TOP + 96, "k")
    d.flow(left + 148, TOP + 70, left + 148, TOP + 102, "v")
    d.table(left + 34, TOP + 108, weights[h], cell=C, edges=True, frame=SAW)
    d.table(left + 124, TOP + 108, shades(heads[h]), "v", cell=C, frame=SAW)
    d.arrow(f"M{left + 97} {TOP + 146}H{left + 117}")
    d.text(left + 64, TOP + 186, "weights", "note", "middle")
    d.text(left + 148, TOP + 186, "output", "note", "middle")
B = TOP + 238
d.flow(156, TOP + 198, 114, B - 6, "v")
d.flow(352, TOP + 198, 138, B - 6, "v")
d.text(252, B - 8, "merge")
d.table(78, B, shades(merged), "v", cell=C, frame=SAW)
d.table(262, B, shades(y), "v", cell=C, frame=SAW)
d.arrow(f"M182 {B + 36}H254")
d.text(218, B + 26, "W_{o}", "name", "middle")
d.text(126, B + HIGH + 20, "merged", "name", "middle")
d.text(126, B + HIGH + 38, "(B, T, h d_{k})", "note", "middle")
d.text(310, B + HIGH + 20, "y", "name", "middle")
d.text(310, B + HIGH + 38, "(B, T, d_{model})", "note", "middle")
d.save(B + HIGH + 54)
