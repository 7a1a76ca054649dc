"""From characters to rows of numbers, and from a row to inputs and targets."""

from svg import Drawing

NAMES = ["ona", "jonas", "adelė"]
SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
LETTERS = sorted(set("".join(NAMES)))
VOCAB = SPECIALS + LETTERS
FRAMED = 0
rows = [["<bos>", *name, "<eos>"] for name in NAMES]
T = max(map(len, rows)) - 1
ids = [[VOCAB.index(token) for token in row] for row in rows]
inputs = rows[FRAMED][:-1] + ["<pad>"] * (T + 1 - len(rows[FRAMED]))
targets = rows[FRAMED][1:] + [None] * (T + 1 - len(rows[FRAMED]))
counted = sum(t is not None for t in targets)


def short(token):
    return token.strip("<>")


d = Drawing(
    "07_text",
    "Text as numbers: characters become ids, inputs are padded, targets are inputs shifted by one",
    f"The names {', '.join(NAMES)} have {len(LETTERS)} different letters; with four special "
    f"tokens the vocabulary has {len(VOCAB)} entries, pad 0, bos 1, eos 2, unk 3, {LETTERS[0]} 4 "
    "and so on. "
    f"Each name becomes a row of ids from bos to eos, the longest of {T + 1}. For the framed "
    f"name, {NAMES[FRAMED]}, the inputs are the row without its end, filled with pads to {T}, "
    f"{' '.join(map(short, inputs))}; "
    "the targets are the same row shifted by one, "
    f"{' '.join(short(t) if t else 'ignored' for t in targets)}. The {T - counted} last targets "
    "do not count in the loss.",
)
# the vocabulary
with d.part("vocabulary"):
    d.text(16, 30, "vocabulary", "name")
    d.text(124, 30, "each character has a number, its id", room=276)
    W = 372 / len(VOCAB)
    assert len(VOCAB) == 13
    for j, token in enumerate(VOCAB):
        d.text(16 + (j + 0.5) * W, 54, short(token), "num", "middle")
    d.table(16, 60, [[None] * len(VOCAB)], cell=W, high=20)
    for j in range(len(VOCAB)):
        d.text(16 + (j + 0.5) * W, 74, str(j), "num", "middle")
# rows
with d.part("rows"):
    d.text(16, 114, "rows", "name")
    d.text(66, 114, "bos + characters + eos", room=334)
C, LEFT = 42, 84
with d.part("rows"):
    d.rows(LEFT - 12, 126, NAMES, 24, strong=FRAMED)


def row(top, tokens, numbers=None, hue="n"):
    for j, token in enumerate(tokens):
        if token is None:
            with d.part("ignored"):
                d.table(LEFT + j * C, top, [[None]], cell=C, high=24)
                d.cross(LEFT + j * C + 9, top, 24)
            continue
        pad = token == "<pad>"
        d.table(LEFT + j * C, top, [[None if pad else 0.15]], hue, cell=C, high=24, most=1)
        d.text(
            LEFT + (j + 0.5) * C,
            top + 16,
            short(token) if numbers is None else str(numbers[j]),
            "small" if pad else "num",
            "middle",
        )


with d.part("rows"):
    for i, (tokens, numbers) in enumerate(zip(rows, ids)):
        row(126 + 24 * i, tokens, numbers)
    d.frame(LEFT, 126 + 24 * FRAMED, len(rows[FRAMED]) * C, 24)
    d.text(LEFT, 216, f"{len(rows)} lists, the longest of T + 1 = {T + 1}")
# inputs over targets
d.arrow("M340 204v34")
with d.part("inputs"):
    d.text(16, 262, "inputs", "name")
    d.text(92, 262, "the row without its end, filled with pads", room=300)
    row(274, inputs)
    d.rows(LEFT - 12, 274, [NAMES[FRAMED]], 24, strong=0)
for j, (_, b) in enumerate(zip(inputs, targets)):
    if b is not None:
        d.arrow(f"M{LEFT + (j + 0.5) * C} 300v22")
with d.part("targets"):
    row(326, targets, hue="a")
    d.text(16, 376, "targets", "name")
    d.text(92, 376, "the same row, shifted by one", room=300)
with d.part("ignored"):
    d.text(16, 404, f"Crossed: no target (−100). {counted} of {T} positions count.", room=380)
d.save(420)
