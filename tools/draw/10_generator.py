"""A language model: inputs, a causal stack, logits, and targets, the inputs shifted by one."""

from math import log

from svg import Drawing

NAME = "Jonas"
row = ["bos", *NAME, "eos"]
inputs, targets = row[:-1], row[1:]
T = len(inputs)
causal = [[j <= i for j in range(T)] for i in range(T)]
VOCAB = ["eos", *sorted(set(NAME))]
# what counting the pairs of this one name says, smoothed so that nothing is 0
counts = [[1 + 6 * (b == token) for token in VOCAB] for b in targets]
logits = [[log(n) for n in some] for some in counts]
SHOWN = 2

d = Drawing(
    "10_generator",
    "A language model: at each position it says which token comes next",
    f"The inputs are {' '.join(inputs)}, the targets the same row shifted by one, "
    f"{' '.join(targets)}. A stack of N blocks with a causal mask reads them: position {SHOWN}, "
    f"{inputs[SHOWN]}, is framed and "
    f"may attend to {' '.join(inputs[: SHOWN + 1])}, {sum(map(sum, causal))} of {T * T} cells in "
    "all. A linear layer gives, at each position, one logit for each token of the vocabulary, here "
    f"{' '.join(VOCAB)}; the column of its target is to be the largest. "
    "One pass gives a loss at every position.",
)
C, LEFT = 46, 110
MID = LEFT + T * C / 2
d.text(16, 34, "inputs", "name")
d.text(16, 52, "(B, T)")
d.tokens(LEFT, 24, inputs, C, 26)
d.arrow(f"M{MID} 54v14")
with d.part("embedding"):
    d.box(LEFT, 72, T * C, 26, "embedding + positions", first="word strong")
d.arrow(f"M{MID} 100v14")
with d.part("stack"):
    d.box(LEFT, 118, T * C, 146)
    d.text(LEFT + 10, 140, "N blocks", "part")
M = 16
left = LEFT + 150
with d.part("stack"), d.part("mask"):
    d.text(LEFT + 10, 158, "causal mask")
    for j, token in enumerate(inputs):
        wide = len(token) > 1
        d.text(
            left + (j + 0.5) * M + 6 * wide,
            148,
            token,
            "num strong" if j == SHOWN else "num",
            "end" if wide else "middle",
        )
    d.mask(left, 156, causal, M)
    d.rows(left - 9, 156, inputs, M, strong=SHOWN, kind="num")
    d.frame(left, 156 + SHOWN * M, T * M, M)
d.text(16, 190, "x", "name")
d.text(16, 208, "(B, T,")
d.text(16, 224, " d_{model})")
d.arrow(f"M{MID} 266v14")
with d.part("head"):
    d.box(LEFT, 284, T * C, 26, "linear", first="word strong")
d.arrow(f"M{MID} 312v14")
H = 16
with d.part("logits"):
    d.table(LEFT, 334, list(map(list, zip(*logits))), cell=C, high=H)
    d.rows(LEFT - 8, 334, VOCAB, H)
    d.text(16, 350, "logits", "name")
    d.text(16, 368, "(B, T,")
    d.text(16, 384, " vocab)")
    d.frame(LEFT + SHOWN * C, 334, C, H * len(VOCAB))
end = 334 + H * len(VOCAB)
for j in range(T):
    d.line(f"M{LEFT + (j + 0.5) * C} {end + 4}v10", "n line")
with d.part("targets"):
    d.tokens(LEFT, end + 18, targets, C, 26, hue="a")
    d.frame(LEFT + SHOWN * C, end + 18, C, 26)
    d.text(16, end + 30, "targets", "name")
    d.text(16, end + 48, "(B, T)")
    d.text(LEFT, end + 66, "shifted by one: what comes next")
d.save(end + 82)
