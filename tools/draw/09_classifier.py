"""A classifier: tokens, a stack, the mean over the positions that are real, logits."""

from svg import Drawing, matmul

WORDS = ["not", "a", "good", "film", "pad", "pad"]
REAL = [word != "pad" for word in WORDS]
D_MODEL = 6
# what a stack might hand on: made up, the pads included, which have vectors like any word
h = [[(4 * i + 3 * j + 5 * i * j) % 11 / 10 for j in range(D_MODEL)] for i in range(len(WORDS))]
pooled = [sum(row[j] for row, real in zip(h, REAL) if real) / sum(REAL) for j in range(D_MODEL)]
W_OUT = [[-1, 1], [1, -1], [2, 0], [0, 1], [1, -1], [0, 1]]
logits = matmul([pooled], W_OUT)[0]
CLASSES = ["negative", "positive"]

d = Drawing(
    "09_classifier",
    "A classifier: tokens, encoder stack, masked mean pooling, logits",
    f"The text {' '.join(WORDS)} is embedded and goes through an encoder of N blocks whose "
    f"attention hides the pads. It hands on a vector for each of {len(WORDS)} positions, the pads "
    "too. "
    f"Masked mean pooling averages the vectors of the {sum(REAL)} real words only; the rows of "
    f"the {len(WORDS) - sum(REAL)} pads are greyed out and crossed. A linear layer makes of the "
    "average one logit per class: "
    f"{', '.join(f'{name} {z:.2f}' for name, z in zip(CLASSES, logits))}. The vectors are made up.",
)
d.text(16, 32, "tokens", "name")
d.text(16, 50, "(B, T)")
d.tokens(92, 22, WORDS, 50, 26)
d.arrow("M242 52v16")
d.box(92, 72, 300, 26, "embedding + positions", first="word strong")
d.arrow("M242 100v16")
d.box(92, 120, 300, 44, ("encoder, N blocks", "attention hides the pads"))
d.arrow("M242 166v18")
C, HIGH, LEFT = 24, 20, 170
d.rows(LEFT - 8, 190, WORDS, HIGH)
d.table(
    LEFT,
    190,
    [[n if real else n / 5 for n in row] for row, real in zip(h, REAL)],
    cell=C,
    high=HIGH,
    most=1,
)
for i, real in enumerate(REAL):
    if not real:
        for j in range(D_MODEL):
            d.cross(LEFT + j * C, 190 + i * HIGH, C, HIGH)
d.label(16, 222, "x", "", "")
d.text(16, 240, "a vector per")
d.text(16, 256, "position")
d.text(16, 274, "(B, T, d_{model})")
d.line(f"M{LEFT + D_MODEL * C + 6} 190h6v{HIGH * sum(REAL)}h-6")
d.text(LEFT + D_MODEL * C + 18, 190 + HIGH * sum(REAL) / 2 - 2, "mean", "note")
d.text(LEFT + D_MODEL * C + 18, 190 + HIGH * sum(REAL) / 2 + 14, f"of {sum(REAL)}", "note")
d.text(LEFT + D_MODEL * C + 18, 190 + HIGH * 5 + 4, "left out", "note")
d.arrow("M242 314v22", "a")
d.table(LEFT, 344, [pooled], "a", cell=C, high=HIGH, most=1)
d.text(16, 350, "pooled", "name")
d.text(16, 368, "(B, d_{model})")
d.arrow("M242 368v22")
d.text(254, 384, "linear")
W = 72
for j, name in enumerate(CLASSES):
    d.text(LEFT + (j + 0.5) * W, 410, name, "word", "middle", room=W)
d.table(LEFT, 418, [logits], "a", cell=W, high=26, digits=2)
d.text(16, 428, "logits", "name")
d.text(16, 446, "(B, n_classes)")
d.save(468)
