"""Self-attention as a weighted average: what one word receives from six."""

from svg import Drawing, matmul, softmax, transpose

FEATURES = ["water", "money", "person", "grammar"]
MEANING = {
    "she": [0, 0, 2, 0],
    "fished": [1.5, 0, 1, 0],
    "by": [0, 0, 0, 1],
    "the": [0, 0, 0, 1],
    "river": [2, 0, 0, 0],
    "bank": [1, 1, 0, 0],
}
WORDS = ["she", "fished", "by", "the", "river", "bank"]
BANK = 5
x = [MEANING[word] for word in WORDS]
scores = matmul([x[BANK]], transpose(x))
weights = [softmax(scores[0])]
y = matmul(weights, x)
numbers = [f"{word} {w:.2f}" for word, w in zip(WORDS, weights[0])]

d = Drawing(
    "01_self_attention",
    "Self-attention: each word becomes a weighted average of all words",
    f"Six words, {' '.join(WORDS)}, are the rows of the table x; its columns are the features "
    f"{', '.join(FEATURES)}. The framed word, {WORDS[BANK]}, "
    f"is multiplied with each word: the scores are {', '.join(f'{s:g}' for s in scores[0])}. The "
    f"softmax makes weights of them that sum to 1: {', '.join(numbers)}. "
    f"Lines as wide as the weights mix the six words into one output: {WORDS[BANK]} had "
    f"{x[BANK][0]} of water and {x[BANK][1]} of money, and comes out with {y[0][0]:.2f} and "
    f"{y[0][1]:.2f}.",
)
LEFT, CELL = 92, 50
d.columns(150, 74, FEATURES, 28)
d.table(150, 80, x, cell=28, high=15, frame=BANK)
d.rows(142, 80, WORDS, 15, strong=BANK)
d.label(276, 110, "x", "six words", "(T, d_{model})")
# one row of scores
d.arrow("M206 178V202")
d.text(218, 195, f"{WORDS[BANK]} · each word")
for j, word in enumerate(WORDS):
    d.text(
        LEFT + (j + 0.5) * CELL,
        224,
        word,
        "word strong" if j == BANK else "word",
        "middle",
        room=CELL,
    )
d.table(LEFT, 234, scores, cell=CELL, high=24, digits=1)
d.edges(LEFT, 234, 6 * CELL, 24)
d.text(LEFT - 10, 251, "scores", "name", "end")
# weights
d.arrow("M206 264V294")
d.text(218, 283, "softmax")
d.table(LEFT, 304, weights, cell=CELL, high=24, digits=2)
d.edges(LEFT, 304, 6 * CELL, 24)
d.text(LEFT - 10, 317, "weights", "name", "end")
d.text(LEFT - 10, 334, "sum to 1", "note", "end")
# the average
WIDE, TOP = 64, 416
for j, w in enumerate(weights[0]):
    from_x, to_x = LEFT + (j + 0.5) * CELL, 206 + 7 * (j - 2.5)
    curve = f"M{from_x:.0f} 330C{from_x:.0f} 362 {to_x:.0f} 352 {to_x:.0f} 384"
    d.line(curve, "v line", f' style="stroke-width:{1 + 18 * w:.1f}"')
d.text(LEFT - 10, 364, "mix x", "note", "end")
for j, feature in enumerate(FEATURES):
    d.text(LEFT + (j + 0.5) * WIDE, TOP - 13, feature, "word", "middle", room=WIDE)
d.table(LEFT, TOP - 6, y, "v", cell=WIDE, high=24, digits=2)
d.table(LEFT, TOP + 24, [x[BANK]], cell=WIDE, high=24, digits=2, most=max(y[0]))
d.frame(LEFT, TOP - 6, 4 * WIDE, 24)
d.text(LEFT - 10, TOP + 10, "y", "name", "end")
d.text(LEFT - 10, TOP + 40, "x", "name", "end")
d.text(LEFT + 4 * WIDE + 8, TOP + 10, "after")
d.text(LEFT + 4 * WIDE + 8, TOP + 40, "before")
d.save(480)
