"""A translation from text to text: subwords, ids, memory, beam search, text."""

from math import log

from svg import Drawing

SOURCE = "der Mann schläft"
PIECES = {
    "der": 12,
    "␣Mann": 48,
    "␣schl": 97,
    "äft": 131,
}  # a vocabulary of subwords; a blank belongs to the piece that it precedes
BEAMS = 2
# what a decoder might say: the probability of each next piece, after each beginning
NEXT = {
    (): {"a": 0.5, "the": 0.4},
    ("a",): {"man": 0.5, "guy": 0.3},
    ("the",): {"man": 0.9, "boy": 0.1},
    ("a", "man"): {"sleeps": 0.6, "sits": 0.2},
    ("the", "man"): {"sleeps": 0.7, "is": 0.2},
}


def cut(text):
    "The longest pieces from the left."
    text, out = text.replace(" ", "␣"), []
    while text:
        out.append(max((p for p in PIECES if text.startswith(p)), key=len))
        text = text[len(out[-1]) :]
    return out


tokens = cut(SOURCE)
ids = [PIECES[piece] for piece in tokens]
beams, steps = [((), 0.0)], []
while beams[0][0] in NEXT:
    grown = [
        (begin + (word,), score + log(p))
        for begin, score in beams
        for word, p in NEXT[begin].items()
    ]
    grown.sort(key=lambda one: -one[1])
    beams = grown[:BEAMS]
    steps.append((grown, beams))
best = " ".join(beams[0][0])
greedy = ()
while greedy in NEXT:
    greedy += (max(NEXT[greedy], key=NEXT[greedy].get),)

d = Drawing(
    "16_translation",
    "Translation: text, subwords, ids, memory, beam search, text",
    f"The German text {SOURCE} is cut into subwords, {' '.join(tokens)}, with the ids "
    f"{' '.join(map(str, ids))}. The encoder makes a memory of them, a vector for each. The "
    "decoder, which reads the memory at each step, writes with beam search: "
    f"of all continuations the {BEAMS} with the largest sum of log probabilities are kept, the "
    f"others are pale. It ends with {best}, {beams[0][1]:.2f}, although greedy search, which "
    f"began with the likelier {greedy[0]}, "
    f"would have ended with {' '.join(greedy)}. The probabilities are made up.",
)
LEFT, W = 118, 270
MID = LEFT + W / 2
d.text(14, 34, "text", "name")
d.box(LEFT, 16, W, 28, SOURCE, first="word strong")
d.arrow(f"M{MID} 46v14")
C = W / len(tokens)
d.text(14, 82, "subwords", "name")
d.tokens(LEFT, 64, tokens, C, 26)
d.text(14, 112, "ids")
for j, i in enumerate(ids):
    d.text(LEFT + (j + 0.5) * C, 112, str(i), "num", "middle")
d.arrow(f"M{MID} 120v14")
d.box(LEFT, 138, W, 28, "encoder", first="word strong")
d.arrow(f"M{MID} 168v14", "a")
memory = [[(3 * i + 4 * j + 5 * i * j) % 11 / 10 for j in range(6)] for i in range(len(tokens))]
d.table(LEFT, 188, [list(column) for column in zip(*memory)], "a", cell=C, high=9, most=1)
d.text(14, 210, "memory", "name")
d.text(14, 228, "(B, S, d_{model})", "small")
d.arrow(f"M{MID - 8} 246v16", "k")
d.arrow(f"M{MID + 8} 246v16", "v")
d.text(MID - 20, 259, "read at each step", "note", "end")
# beams
TOP, ROW, COL = 300, 34, 126
d.text(14, 284, "beam search", "name")
d.text(134, 284, f"{BEAMS} beams; sums of log p")
place = {(): (14, TOP + ROW)}
wide = 96
for s, (grown, kept) in enumerate(steps):
    x = 14 + s * COL
    shown = sorted(grown, key=lambda one: (place[one[0][:-1]][1], -one[1]))
    y = TOP + (4 - len(shown)) / 2 * ROW
    for words, score in shown:
        on = (words, score) in kept
        d.rect(x, y, wide, 26, "a box" if on else "n box pale", 5)
        d.text(x + 6, y + 17.5, words[-1], "word strong" if on else "word")
        d.text(x + wide - 6, y + 17.5, f"{score:.1f}".replace("-", "−"), "small", "end")
        if s:
            x0, y0 = place[words[:-1]]
            d.line(
                f"M{x0 + wide} {y0 + 13:g}C{x0 + wide + 15} {y0 + 13:g} {x - 15} {y + 13:g} {x} "
                f"{y + 13:g}",
                ("a" if on else "n") + " line" + ("" if on else " dash"),
            )
        place[words] = (x, y)
        y += ROW
end = TOP + 4 * ROW + 6
x, y = place[beams[0][0]]
d.frame(x, y, wide, 26)
d.arrow(f"M{MID} {end}v16", "a")
d.text(14, end + 38, "text", "name")
d.box(LEFT, end + 20, W, 28, best, "a", first="word strong")
d.save(end + 64)
