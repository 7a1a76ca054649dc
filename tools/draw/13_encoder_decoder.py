"""Two stacks side by side, and what each attention may see: a word is written backwards."""

from svg import Drawing

SOURCE = ["c", "a", "t", "pad", "pad"]
TARGETS = ["t", "a", "c", "eos"]
INPUTS = ["bos"] + TARGETS[:-1]
S, T = len(SOURCE), len(INPUTS)
real = [word != "pad" for word in SOURCE]
padding = [real] * S
causal = [[j <= i for j in range(T)] for i in range(T)]
cross = [real] * T

d = Drawing(
    "13_encoder_decoder",
    "Encoder and decoder side by side, with their three masks",
    f"The source, {' '.join(SOURCE)}, is read by the encoder: its self-attention hides the "
    f"{SOURCE.count('pad')} pads, so {sum(map(sum, padding))} of {S * S} cells are open. Its "
    "output is the memory. "
    f"The decoder reads the target shifted right, {' '.join(INPUTS)}: its self-attention is "
    f"causal, with {sum(map(sum, causal))} of {T * T} cells open. Its cross-attention has a "
    f"query for each of {T} target positions "
    f"and a key for each of {S} source positions, and hides the pads of the source. A linear layer "
    f"gives logits for each position. The loss compares them with the targets {' '.join(TARGETS)}. "
    "Add and norm after each part are left out.",
)
L, R, W, ROW = 16, 212, 176, 14


def attention(left, top, name, note, mask, queries, keys):
    "A box with a mask in it. Returns where it ends."
    high = 66 + ROW * len(mask)
    d.box(left, top, W, high)
    d.text(left + 8, top + 18, name, "part")
    d.text(left + 8, top + 35, note, room=W - 12)
    at, cell = left + 50, 116 / len(keys)
    for j, word in enumerate(keys):
        if word != "pad":
            d.text(at + (j + 0.5) * cell, top + 51, word, "num", "middle", room=cell)
    if "pad" in keys:
        d.text(at + (len(keys) - keys.count("pad") / 2) * cell, top + 51, "pads", "small", "middle")
    d.mask(at, top + 59, mask, cell, ROW)
    d.rows(at - 9, top + 59, queries, ROW, kind="num")
    return top + high


def group(left, top, end, name):
    d.group(left - 8, top, W + 16, end - top)
    d.text(left, top + 16, name, "word strong")
    d.text(left + W, top + 16, "N ×", "word strong", "end")


MID_L, MID_R = L + W / 2, R + W / 2
d.text(L, 26, "source", "name")
d.text(L + W, 26, "(B, S)", anchor="end")
d.tokens(L, 36, SOURCE, W / S)
d.text(R, 26, "target so far", "name")
d.text(R + W, 26, "(B, T)", anchor="end")
d.tokens(R, 36, INPUTS, W / T)
TOP, BLOCK = 146, 118
first, second = TOP + 66 + ROW * S, TOP + 66 + ROW * T
memory = second + 14 + 24
group(L, BLOCK, first + 50, "encoder")
group(R, BLOCK, second + 14 + 66 + ROW * T + 50, "decoder")
for left, mid in ((L, MID_L), (R, MID_R)):
    d.arrow(f"M{mid} 60V74")
    d.box(left, 78, W, 26, "embedding", first="word strong")
    d.arrow(f"M{mid} 106V142")
# encoder
y = attention(L, TOP, "self-attention", "hides the pads", padding, SOURCE, SOURCE)
d.arrow(f"M{MID_L} {y + 1}V{y + 11}")
d.box(L, y + 14, W, 26, "feed-forward", first="word strong")
memory = y + 66
d.arrow(f"M{MID_L} {y + 41}V{memory - 3}", "a")
d.box(L, memory, W, 44, ("memory", "(B, S, d_{model})"), "a")
# decoder
y = attention(R, TOP, "self-attention", "hides what follows", causal, INPUTS, INPUTS)
d.arrow(f"M{MID_R} {y + 1}V{y + 11}", "q")
y = attention(R, y + 14, "cross-attention", "hides the source's pads", cross, INPUTS, SOURCE)
d.arrow(f"M{L + W + 1} {memory + 15}H{R - 3}", "k")
d.arrow(f"M{L + W + 1} {memory + 29}H{R - 3}", "v")
d.arrow(f"M{MID_R} {y + 1}V{y + 11}")
d.box(R, y + 14, W, 26, "feed-forward", first="word strong")
d.arrow(f"M{MID_R} {y + 41}V{y + 63}")
y += 66
d.box(R, y, W, 44, ("linear", "logits (B, T, vocab)"))
d.arrow(f"M{MID_R} {y + 45}V{y + 58}")
d.tokens(R, y + 62, TARGETS, W / T, hue="a")
d.text(R, y + 104, "targets", "name")
d.text(R + W, y + 104, "(B, T)", anchor="end")
# legend
at = y - 32
d.table(L, at - 11, [[0.7]], most=1)
d.text(L + 22, at, "may attend")
d.table(L, at + 9, [[None]])
d.cross(L, at + 9, 14)
d.text(L + 22, at + 20, "hidden")
d.line(f"M{L + 7} {at + 29}v15", "q edge")
d.text(L + 22, at + 41, "one row per query")
d.line(f"M{L} {at + 57}h15", "k edge")
d.text(L + 22, at + 62, "one column per key")
d.text(L, at + 92, "Norms and sums (lesson", "small")
d.text(L, at + 108, "06) are not drawn.", "small")
d.save(y + 120)
