"""The map of the course: the whole Transformer, and small with the parts of one lesson marked."""

from itertools import pairwise
from pathlib import Path

from svg import Drawing

NBS = Path(__file__).resolve().parents[2] / "nbs"
PATH = sorted(page.stem for page in NBS.glob("[01][0-9]_*.ipynb"))

LESSONS = {
    1: "self-attention",
    2: "queries, keys and values",
    3: "multi-head attention",
    4: "masks",
    5: "positions",
    6: "the block",
    7: "text",
    8: "training",
    9: "a classifier",
    10: "a generator",
    11: "decoding",
    12: "a modern decoder",
    13: "encoder and decoder",
    14: "number words",
    15: "subwords",
    16: "translation",
}
ENCODER = [
    "source text",
    "tokens",
    "embedding",
    "self-attention",
    "add & norm",
    "feed-forward",
    "memory",
    "classifier",
]
DECODER = [
    "target so far",
    "tokens",
    "embedding",
    "self-attention",
    "add & norm",
    "cross-attention",
    "feed-forward",
    "linear, softmax",
    "next token",
    "loss",
]
E, D = [("e", name) for name in ENCODER], [("d", name) for name in DECODER]
EVERYTHING = E + D
WHOLE = E[:-1] + D  # without the classifier
HEADS = [("e", "self-attention"), ("d", "self-attention"), ("d", "cross-attention")]
# for each lesson the parts that it builds and those that it uses; the rest is pale
MARKED = {
    1: (HEADS[:1], []),
    2: (HEADS, []),
    3: (HEADS, []),
    4: (HEADS, []),
    5: ([p for p in EVERYTHING if p[1] == "embedding"], []),
    6: ([p for p in EVERYTHING if p[1] in ("add & norm", "feed-forward")], HEADS),
    7: ([p for p in EVERYTHING if p[1] == "tokens"], [E[0], D[0]]),
    8: ([("d", "loss")], [("d", "linear, softmax")]),
    9: ([("e", "classifier")], E),
    10: ([("d", "linear, softmax")], [p for p in D if p[1] not in ("cross-attention", "loss")]),
    11: ([("d", "next token")], [p for p in D if p[1] not in ("cross-attention", "loss")]),
    12: (
        [p for p in D if p[1] in ("self-attention", "add & norm", "feed-forward")],
        [p for p in D if p[1] not in ("cross-attention", "loss")],
    ),
    13: ([("e", "memory"), ("d", "cross-attention")], WHOLE),
    14: ([E[0], D[0], ("d", "cross-attention")], WHOLE),
    15: ([p for p in EVERYTHING if p[1] == "tokens"], [E[0], D[0]]),
    16: ([E[0], D[0], ("d", "next token")], WHOLE),
}
LEFT, RIGHT, WIDE, STEP = 30, 216, 158, 18
MID_L, MID_R = LEFT + WIDE / 2, RIGHT + WIDE / 2


def chip(d, right, y, lesson, on=False):
    "The number of a lesson, ending at `right`, on the baseline y; returns the next one's end."
    start = len(d.out)
    d.rect(right - 22, y - 12, 22, 15.5, "chip" + " on" * on, 7.5)
    d.text(right - 11, y, f"{lesson:02}", "badge" + " on" * on, "middle")
    if not on:  # on the home page, the numbers of the whole map are links
        page = next(page for page in PATH if page.startswith(f"{lesson:02}_"))
        d.out.insert(start, f'<a href="../{page}.html" target="_top">')
        d.out.append("</a>")
    return right - 25


def tall(lines):
    return 8 + STEP * len(lines)


def part(d, left, top, lines, hue="n"):
    "A box; each line is words and the lessons that build what they say. Returns where the box"
    "ends."
    d.box(left, top, WIDE, tall(lines), (), hue)
    for i, (words, *lessons) in enumerate(lines):
        y, right = top + 17 + STEP * i, left + WIDE - 6
        for lesson in reversed(lessons):
            right = chip(d, right, y, lesson)
        d.text(left + 8, y, words, "small" if i else "word strong", room=right - left - 8)
    return top + tall(lines)


def column(d, left, top, lines, side, first=14):
    "Parts of a block, each with add & norm and the residual stream past both. Returns where the"
    "last ends, and where each begins."
    mid, edge, rail = (
        left + WIDE / 2,
        left if side < 0 else left + WIDE,
        left - 12 if side < 0 else left + WIDE + 12,
    )
    y, tops = top, []
    for k, inner in enumerate(lines):
        gap = first if k == 0 else 22
        d.arrow(f"M{mid} {y}V{y + gap - 2}")
        split, y = y + gap - 14, y + gap
        tops.append(y)
        y = part(d, left, y, inner) + 10
        d.line(f"M{mid} {y - 10}v10")
        d.arrow(
            f"M{mid} {split}H{rail - 8 * side}q{8 * side} 0 {8 * side} 8V{y + 5}q0 8 {-8 * side} "
            f"8H{edge + 3 * side}"
        )
        y = part(d, left, y, [("add & norm", 6)])
    return y, tops


def full():
    "The map with the lesson of each part."
    d = Drawing(
        "transformer",
        "The whole Transformer, with the number of the lesson that builds each part",
        "Left, from top to bottom, the encoder: source text becomes tokens (lessons 07 and 15), "
        "tokens become embeddings with positions (05). In each of N blocks follow "
        "self-attention (a weighted average, 01; query, key, value, 02; many heads, 03; a padding "
        "mask, 04), add and norm, feed-forward, add and norm (06). The result, the memory, is "
        "pooled by a classifier (09: an encoder alone), or read by a decoder (13: both together; "
        "10: a decoder alone). Right, the decoder: the target so far becomes tokens and "
        "embeddings; in each block follow self-attention with a causal mask (04), "
        "cross-attention, with queries of its own and keys and values from the memory (13), and "
        "feed-forward (06), each with add and norm. A linear layer and a softmax say which token "
        "comes next (10); "
        "it is chosen and appended to the target (11). In training, the loss compares the logits "
        "with the shifted targets (08). Number words (14) and captions (16) are translated.",
    )
    y = part(d, LEFT, 14, [("source text",), ("einundzwanzig", 14), ("Ein Mann …", 16)])
    for lines in ([("tokens",), ("text to ids", 7, 15)], [("embedding",), ("+ positions", 5)]):
        d.arrow(f"M{MID_L} {y + 1}v11")
        y = part(d, LEFT, y + 14, lines)
    begin = y + 12
    attention = [
        ("self-attention",),
        ("weighted average", 1),
        ("query, key, value", 2),
        ("many heads", 3),
        ("padding mask", 4),
    ]
    mark = len(d.out)
    y, _ = column(d, LEFT, y + 1, [attention, [("feed-forward", 6)]], -1, 46)
    d.text(16, begin + 16, "N ×", "word strong")
    d.text(188, begin + 16, "encoder", "word strong", "end")
    behind = len(d.out)
    d.group(8, begin, 188, y + 10 - begin)
    d.out.insert(mark, d.out.pop(behind))
    d.arrow(f"M{MID_L} {y + 1}v23", "a")
    memory = y + 27
    y = part(d, LEFT, memory, [("memory", 13)], "a")
    d.arrow(f"M{MID_L} {y + 1}v15", "a")
    part(d, LEFT, y + 19, [("classifier",), ("pool, linear", 9)])
    # decoder: its cross-attention stands beside the memory
    cross = [("cross-attention", 13), ("q from the decoder",), ("k, v from memory", 14)]
    own = [("self-attention",), ("many heads", 3), ("causal mask", 4)]
    embedded = memory - 18 - 22 - 26 - 10 - tall(own) - 46  # the end of the embedding
    tops = [embedded - 44, embedded - 44 - 58, embedded - 44 - 2 * 58]
    d.text(RIGHT, 28, "number: the lesson")
    d.text(RIGHT, 45, "that builds the part")
    for i, (lesson, words) in enumerate(
        ((9, "encoder alone"), (10, "decoder alone"), (13, "both together"))
    ):
        chip(d, RIGHT + 22, 74 + 20 * i, lesson)
        d.text(RIGHT + 30, 74 + 20 * i, words)
    part(d, RIGHT, tops[2], [("target so far",), ("<bos> twenty-", 14)])
    part(d, RIGHT, tops[1], [("tokens",), ("text to ids", 7, 15)])
    part(d, RIGHT, tops[0], [("embedding",), ("+ positions", 5)])
    for top in tops[:2]:
        d.arrow(f"M{MID_R} {top - 13}v11")
    begin, mark = embedded + 12, len(d.out)
    y, _ = column(d, RIGHT, embedded + 1, [own, cross, [("feed-forward", 6)]], 1, 46)
    d.text(216, begin + 16, "decoder", "word strong")
    d.text(388, begin + 16, "N ×", "word strong", "end")
    behind = len(d.out)
    d.group(208, begin, 188, y + 10 - begin)
    d.out.insert(mark, d.out.pop(behind))
    d.arrow(f"M{LEFT + WIDE + 1} {memory + 7}H{RIGHT - 3}", "k")
    d.arrow(f"M{LEFT + WIDE + 1} {memory + 19}H{RIGHT - 3}", "v")
    d.arrow(f"M{MID_R} {y + 1}v23")
    logits = y + 27
    y = part(d, RIGHT, logits, [("linear, softmax",), ("logits", 10)])
    d.arrow(f"M{MID_R} {y + 1}v11")
    end = part(d, RIGHT, y + 14, [("next token",), ("append, repeat", 11)])
    part(d, LEFT, logits, [("loss",), ("shifted targets", 8)])
    d.arrow(f"M{RIGHT - 1} {logits + 22}H{LEFT + WIDE + 3}")
    d.save(end + 14)


def small(lesson):
    "The map with the parts of one lesson marked."
    built, used = MARKED[lesson]
    names = " and ".join(dict.fromkeys(name for _, name in built))
    d = Drawing(
        f"transformer_{lesson:02}",
        f"Map of the Transformer: lesson {lesson:02}, {LESSONS[lesson]}",
        "Left the encoder (source text, tokens, embedding, blocks of self-attention and "
        "feed-forward, memory) and a classifier, right the decoder (target so far, tokens, "
        "embedding, blocks of self-attention, cross-attention and feed-forward, linear and "
        "softmax, next "
        f"token), with the loss beside it. Marked for this lesson: {names}.",
    )
    high, wide = 24, 176

    def state(one):
        return " on" if one in built else "" if one in used else " pale"

    def block(side, name, top, left, words=None):
        kind = state((side, name))
        d.rect(left, top, wide, high, f"{'a' if name == 'memory' else 'n'} box{kind}")
        style = "word strong" + " pale" * (kind == " pale")
        d.text(left + 10, top + 17, words or name, style, room=wide - 40)
        if kind == " on":
            chip(d, left + wide - 6, top + 16.5, lesson, True)

    def norm(side, top, left):
        d.rect(left, top, wide, 8, f"n box{state((side, 'add & norm'))}", 4)

    def stack(side, left, tops, bars, group):
        mid = left + wide / 2
        for (_, name), top in tops.items():
            block(side, name, top, left, {"embedding": "embed, positions"}.get(name))
        for top in bars:
            norm(side, top, left)
        ends = sorted(
            [(top, top + high) for top in tops.values()] + [(top, top + 8) for top in bars]
        )
        for (_, end), (top, _) in pairwise(ends):
            if top - end > 6:
                d.arrow(f"M{mid} {end + 1}V{top - 2}")
        d.group(left - 7, group[0], wide + 14, group[1] - group[0])

    left, right = 16, 212
    tops = dict(zip(E, [14, 48, 82, 124, 174, 174, 226, 260]))
    tops.pop(("e", "add & norm"))
    stack("e", left, tops, [152, 202], (116, 216))
    tops = dict(zip(D, [64, 98, 132, 176, 0, 226, 276, 326, 360]))
    tops.pop(("d", "add & norm"))
    stack("d", right, tops, [204, 254, 304], (168, 318))
    d.arrow(f"M{left + wide + 1} 232H{right - 3}", "k")
    d.arrow(f"M{left + wide + 1} 244H{right - 3}", "v")
    block("d", "loss", 326, left)
    d.arrow(f"M{right - 1} 338H{left + wide + 3}")
    d.text(right + 2, 30, f"Lesson {lesson:02}", "word strong")
    d.text(right + 2, 48, LESSONS[lesson], room=wide)
    d.save(398)


full()
for lesson in MARKED:
    small(lesson)
