"""The block of 2017 beside today's, and what a token leaves in the cache of each."""

from svg import Drawing

D, HEADS, SHARED, UNITS, GATED = 24, 6, 2, 96, 64  # d_model, n_heads, n_kv_heads, d_ff, its 2/3
WIDE = D // HEADS  # d_k
old_heads, new_heads = 4 * D * D + 4 * D, 2 * D * D + 2 * D * SHARED * WIDE
old_network, new_network = 2 * D * UNITS + UNITS + D, 3 * D * GATED
old_norm, new_norm = 2 * D, D
old_cache, new_cache = 2 * HEADS * WIDE, 2 * SHARED * WIDE

d = Drawing(
    "12_modern_decoder",
    "The block of a decoder, 2017 beside today",
    "Two blocks side by side, from top to bottom. Left, 2017: a position is added to each word; "
    f"attention with {HEADS} heads of keys and biases; the sum goes through a LayerNorm; then a "
    "feed-forward network with ReLU and biases, a sum, and a LayerNorm. "
    "Right, today: nothing is added to the words; an RMSNorm stands before each part; attention "
    f"turns queries and keys, shares {SHARED} heads of keys and values, and has no biases; the "
    "network is a SwiGLU without biases. What differs has a thick frame. "
    f"At width {D} attention has {old_heads:,} parameters and then {new_heads:,}, the network "
    f"{old_network:,} and {new_network:,}, a norm {old_norm} and {new_norm}. "
    f"Below, {HEADS} heads of queries with {HEADS} heads of keys and values beside {HEADS} that "
    f"share {SHARED}: a token leaves {old_cache} numbers in the cache, or {new_cache}.",
)
BOX = 134


def part(left, top, high, lines, new):
    "A box with a name and notes; with a thick frame if it is new."
    d.box(left, top, BOX, high, lines, "n on" if new else "n", "word strong", "small")


def stream(left, title, note, start, attention, network, norm, new):
    "One of the two blocks; returns where its stream ends."
    rail, box, hue = left + 20, left + 46, "a" if new else "n"
    mid = box + BOX / 2
    d.text(left, 30, title, "name")
    d.text(left, 48, note)
    d.text(left, 78, start, "word strong")
    y = 86
    for lines, high in ((attention, 82), (network, 65)):
        top = y + 12
        d.line(f"M{rail} {y}V{top}", f"{hue} arrow")
        d.arrow(f"M{rail} {top}H{mid - 8}q8 0 8 8V{top + 18}")
        at = top + 22
        if new:
            part(box, at, 26, norm, new)
            d.arrow(f"M{mid} {at + 27}v9")
            at += 40
        part(box, at, high, lines, new)
        end = at + high + 22
        d.arrow(f"M{mid} {at + high + 1}V{end - 8}q0 8 -8 8H{rail + 12}")
        d.arrow(f"M{rail} {top}V{end - 12}", hue)
        d.plus(rail, end)
        y = end + 8
        if not new:
            d.arrow(f"M{rail} {y + 1}v9")
            part(left, y + 14, 26, norm, new)
            y += 40
    d.arrow(f"M{rail} {y + 1}v16", hue)
    return y + 18


old = stream(
    14,
    "2017",
    "norms after the sums",
    "word + position",
    ["attention", f"{HEADS} heads of keys", "biases", f"{old_heads:,} parameters"],
    ["feed-forward", "ReLU, biases", f"{old_network:,} parameters"],
    [f"LayerNorm, {old_norm}"],
    new=False,
)
new = stream(
    210,
    "today",
    "norms before the parts",
    "word",
    ["attention, rotary", f"{SHARED} heads of keys", "no biases", f"{new_heads:,} parameters"],
    ["feed-forward", "SwiGLU, no biases", f"{new_network:,} parameters"],
    [f"RMSNorm, {new_norm}"],
    new=True,
)
CELL, y = 24, max(old, new) + 30
d.text(14, y, "what a token leaves in the cache", "part")
for left, n_kv, numbers in ((14, HEADS, old_cache), (210, SHARED, new_cache)):
    top, keys, values = y + 18, y + 62, y + 92
    wide = HEADS * CELL // n_kv
    for i in range(HEADS):
        d.rect(left + i * CELL + 3, top, CELL - 6, 16, "q box", 3)
        to = left + (i * n_kv // HEADS + 0.5) * wide
        d.flow(left + (i + 0.5) * CELL, top + 18, to, keys - 4)
    for j in range(n_kv):
        x = left + (j + 0.5) * wide - (CELL - 6) / 2
        d.rect(x, keys, CELL - 6, 16, "k box", 3)
        d.rect(x, values - 8, CELL - 6, 16, "v box", 3)
    d.text(left, values + 30, f"{numbers} numbers", "part")
d.text(14, y + 146, "six heads of queries; keys and values are kept")
d.text(14, y + 164, f"{WIDE} numbers in each head, in one layer")
for x, hue, words in ((14, "q", "query"), (110, "k", "key"), (190, "v", "value")):
    d.rect(x, y + 178, 14, 14, f"{hue} box", 3)
    d.text(x + 20, y + 190, words)
d.save(y + 204)
