"""Three masks as tables over words, and what becomes of a score that is masked."""

from math import inf

from svg import Drawing, matmul, softmax, transpose

WORDS = ["the", "cat", "sat", "pad", "pad"]
T, D_K = len(WORDS), 3
# queries and keys of lesson 02, of noun, verb and alive; a pad asks for nothing and is nothing
q = {"the": [2, 0, 0], "cat": [0, 2, 0], "sat": [2, 0, 2], "pad": [0, 0, 0]}
k = {"the": [0, 0, 0], "cat": [2, 0, 2], "sat": [0, 2, 0], "pad": [0, 0, 0]}
causal = [[j <= i for j in range(T)] for i in range(T)]
padding = [[word != "pad" for word in WORDS] for _ in WORDS]
both = [[a and b for a, b in zip(*rows)] for rows in zip(causal, padding)]
ROW = 1
scores = [s / D_K**0.5 for s in matmul([q[WORDS[ROW]]], transpose([k[word] for word in WORDS]))[0]]
masked = [s if ok else -inf for s, ok in zip(scores, both[ROW])]
weights = softmax(masked)

d = Drawing(
    "04_masks",
    "Masks: causal, padding, and both",
    f"Tables over the words {' '.join(WORDS)}, a row per query and a column per key; a full cell "
    "may be attended to, a crossed one may not. Causal: each word attends to itself and what came "
    "before, "
    f"{sum(map(sum, causal))} of {T * T} cells. Padding: no word attends to the "
    f"{WORDS.count('pad')} pads, {sum(map(sum, padding))} cells. "
    f"Both: {sum(map(sum, both))} cells. "
    f"Below, the framed row of {WORDS[ROW]}, which asks for a verb that it may not attend to "
    f"yet: its scores are {', '.join(f'{s:.1f}' for s in scores)}; "
    "where the mask forbids, the score becomes minus infinity; "
    f"the softmax gives the weights {', '.join(f'{w:.2f}' for w in weights)}, exactly 0 for each "
    "masked key.",
)
C = 22
for name, rule, mask, left in (
    ("causal", "j ≤ i", causal, 62),
    ("padding", "key is real", padding, 252),
):
    with d.part(name):
        d.text(left, 28, name, "name")
        d.text(left, 46, rule)
        d.columns(left, 82, WORDS, C)
        d.mask(left, 92, mask, C, 18)
        d.rows(left - 10, 92, WORDS, 18)
with d.part("both"):
    d.flow(117, 190, 176, 222)
    d.flow(307, 190, 228, 222)
    d.text(202, 206, "and", "note", "middle")
    d.text(270, 250, "both", "name")
    d.text(270, 268, "causal and padding")
d.table(270, 280, [[0.7]], most=1)
d.text(292, 291, "may attend")
d.table(270, 302, [[None]])
d.cross(270, 302, 14)
d.text(292, 313, "masked")
LEFT = 147
with d.part("both"):
    d.columns(LEFT, 258, WORDS, C, strong=ROW)
    d.mask(LEFT, 268, both, C, 18)
    d.rows(LEFT - 10, 268, WORDS, 18, strong=ROW)
d.frame(LEFT, 268 + ROW * 18, T * C, 18)
# one row: scores, masked, weights
W = 52
d.arrow("M202 366V388")
d.text(214, 382, f"the row of {WORDS[ROW]}")
L = 118


def row(top, name, numbers, **how):
    d.text(L - 14, top + 17, name, "part", "end")
    d.table(L, top, [numbers], cell=W, high=24, **how)


row(398, "scores", scores, digits=1)
with d.part("masked"):
    d.arrow(f"M{L + 2.5 * W} 426V446")
    d.text(L + 2.5 * W + 12, 441, "apply the mask")
    row(454, "masked", [s if s > -inf else None for s in masked], digits=1, most=max(scores))
    for j, s in enumerate(masked):
        if s == -inf:
            d.text(L + (j + 0.5) * W, 470, "−∞", "num", "middle")
with d.part("weights"):
    d.arrow(f"M{L + 2.5 * W} 482V502")
    d.text(L + 2.5 * W + 12, 497, "softmax")
    row(510, "weights", [w or None for w in weights], digits=2, most=1)
    for j, w in enumerate(weights):
        if w == 0:
            d.text(L + (j + 0.5) * W, 526, "0", "num", "middle")
    d.text(L + 2.5 * W, 554, "exactly 0, not small", "note", "middle")
d.legend(37, 584)
d.save(602)
