"""One head, from words to output: tables of real numbers, the same as in the lesson."""

from svg import Drawing, matmul, softmax, transpose

WORDS = ["the", "cat", "sat", "on", "the", "mat"]
X = [
    [2, 0, 0, 0, 0],
    [0, 2, 0, 0, 2],
    [0, 0, 2, 0, 0],
    [0, 0, 0, 2, 0],
    [2, 0, 0, 0, 0],
    [0, 2, 0, 0, 0],
]
W_Q = [[1, 0, 0], [0, 1, 0], [1, 0, 1], [1, 0, 0], [0, 0, 0]]
W_K = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1]]
W_V = [[0, 0], [0, 0], [0, 0.5], [0, 0], [0.5, 0]]
SAT, CELL = 2, 14
q, k, v = matmul(X, W_Q), matmul(X, W_K), matmul(X, W_V)
scores = [[s / 3**0.5 for s in row] for row in matmul(q, transpose(k))]
weights = [softmax(row) for row in scores]
y = matmul(weights, v)
best = weights[SAT].index(max(weights[SAT]))

d = Drawing(
    "02_attention",
    "One attention head: from words to queries, keys, values, scores, weights and output",
    f"Six words, {' '.join(WORDS)}, are the rows of the table x. The matrices W_q, W_k and W_v "
    "turn x into queries (blue) and "
    "keys (orange), with the columns noun, verb and alive, and into values (green), with the "
    "columns alive and action. Queries times transposed keys, divided by the square root "
    "of d_k, are the scores: one row per query, "
    "one column per key. The softmax turns each row of scores into weights that sum to 1. The "
    "weights mix the values into the output y. "
    f"A frame follows the word {WORDS[SAT]}: its row of x, its query, its rows of scores and "
    "weights, and its output; "
    "keys and values have no frame, because it meets those of all words. Its strongest weight, "
    f"{max(weights[SAT]):.2f}, stands under {WORDS[best]}.",
)
A, B, C = 58, 246, 404  # the tops of the three rows of tables
# x
d.columns(163, A - 5, ["article", "noun", "verb", "prep.", "alive"])
d.table(163, A, X, frame=SAT)
d.rows(155, A, WORDS, strong=SAT)
d.label(242, A + 30, "x", "six words", "(T, d_{model})")
# projections
for left, rows, hue, noun, columns, arrow, name in [
    (58, q, "q", "queries", ["noun", "verb", "alive"], "M174 148C158 178 90 164 79 198", (92, 162)),
    (177, k, "k", "keys", ["noun", "verb", "alive"], "M198 148V198", (219, 176)),
    (312, v, "v", "values", ["alive", "action"], "M222 148C238 178 314 164 325 198", (302, 162)),
]:
    with d.part(hue):
        d.arrow(arrow, hue)
        d.text(*name, f"W_{{{hue}}}", "name", "middle")
        d.columns(left, B - 5, columns)
        d.table(left, B, rows, hue, frame=SAT if hue == "q" else None)
        shape = f"(T, d_{{{'v' if hue == 'v' else 'k'}}})"
        d.label(left + CELL * len(rows[0]) + 7, B + 26, hue, noun, shape)
# scores, weights, output
with d.part("scores"):
    with d.part("q"):
        d.arrow("M79 336V390", "q")
    with d.part("k"):
        d.arrow("M190 336C182 366 108 360 102 390", "k")
    d.table(37, C, scores, edges=True, frame=SAT)
    d.text(28, C + SAT * CELL + 11, WORDS[SAT], "word strong", "end")
    d.text(79, C + 105, "scores", "name", "middle")
    d.text(79, C + 124, "q k^{T} / √d_{k}", "note", "middle")
with d.part("weights"):
    d.arrow(f"M125 {C + 58}H174")
    d.text(151, C + 51, "softmax", "small", "middle")
    d.table(186, C, weights, edges=True, frame=SAT)
    d.text(186 + (best + 0.5) * CELL, C - 9, WORDS[best], "word strong", "middle")
    d.text(228, C + 105, "weights", "name", "middle")
    d.text(228, C + 124, "each row sums to 1", "note", "middle")
with d.part("v"):
    d.arrow("M326 336V394", "v")
d.arrow(f"M274 {C + 58}H304")
d.text(291, C + 51, "mix v", "small", "middle")
d.table(312, C, y, "v", frame=SAT)
d.label(347, C + 28, "y", "output", "(T, d_{v})")
d.legend(37, C + 156)
d.save(578)
