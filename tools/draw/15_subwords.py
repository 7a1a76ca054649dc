"""Byte-pair merges learned from five words, and the tree that they build on one of them."""

from collections import Counter
from itertools import pairwise

from svg import Drawing

WORDS = ["the", "there", "other", "mother", "hen"]
SHOWN = "mother"


def merge(row, pair):
    "The row with each occurrence of the pair as one piece."
    out = []
    for piece in row:
        if out and (out[-1], piece) == pair:
            out[-1] += piece
        else:
            out.append(piece)
    return out


rows, merges, tied = [list(word) for word in WORDS], [], []
while True:
    pairs = Counter(pair for row in rows for pair in pairwise(row))
    (pair, count), *others = pairs.most_common()
    if count < 2:
        break
    tied.append(bool(others) and others[0][1] == count)
    rows = [merge(row, pair) for row in rows]
    merges.append((pair, count, sum(map(len, rows))))
assert not any(tied)  # no merge depends on an order
before = sum(map(len, WORDS))
told = "; ".join(f"{a} and {b}, {count} times" for (a, b), count, _ in merges)

d = Drawing(
    "15_subwords",
    "Byte-pair encoding: the most frequent pair becomes one piece, again and again",
    f"Five words, {', '.join(WORDS)}, have {before} letters. The pair of neighbours that occurs "
    f"most often is merged, in this order: {told}. After that no pair occurs twice. "
    f"On the word {SHOWN} the merges build a tree, letters at the top: "
    f"{', '.join(a + b for (a, b), _, _ in merges)}; it ends as "
    f"{' and '.join(rows[WORDS.index(SHOWN)])}. "
    f"The five words are then {', '.join('·'.join(row) for row in rows)}: {merges[-1][2]} tokens "
    f"instead of {before}.",
)
C, LEFT, STEP, HIGH = 40, 152, 46, 26
d.text(14, 30, "merge", "name")
d.text(82, 30, "count")
d.text(LEFT, 30, SHOWN, "name")
TOP = 42


def piece(left, top, word, cells, hue="n"):
    d.rect(left + 2, top, cells * C - 4, HIGH, f"{hue} box", 4)
    d.text(left + cells * C / 2, top + 18, word, "word strong", "middle", room=cells * C - 6)


at = {}  # where each living piece of the shown word ends, by its first letter
for j, letter in enumerate(SHOWN):
    piece(LEFT + j * C, TOP, letter, 1)
    at[j] = (TOP + HIGH, letter)
for level, ((a, b), count, _) in enumerate(merges, 1):
    y = TOP + level * STEP
    d.text(14, y + 18, f"{a} + {b}", "word strong", room=78)
    d.text(98, y + 18, f"{count} ×")
    new = SHOWN.index(a + b)
    for start in (new, new + len(a)):
        end, word = at.pop(start)
        d.line(f"M{LEFT + (start + len(word) / 2) * C} {end + 1}V{y - 1}")
    piece(LEFT + new * C, y, a + b, len(a + b))
    at[new] = (y + HIGH, a + b)
y = TOP + (len(merges) + 1) * STEP
for start, (end, word) in sorted(at.items()):
    d.arrow(f"M{LEFT + (start + len(word) / 2) * C} {end + 1}V{y - 3}", "a")
    piece(LEFT + start * C, y, word, len(word), "a")
d.text(14, y + 18, "tokens", "name")
# all words
y += 62
d.text(14, y, "all five words", "name")
d.text(140, y, f"{before} letters, {sum(map(len, rows))} tokens")
y += 14
C, x = 20, 14
for row in rows:
    wide = sum(map(len, row)) * C
    if x + wide > 392:
        x, y = 14, y + HIGH + 8
    for part in row:
        piece(x, y, part, len(part), "a")
        x += len(part) * C
    x += 14
d.save(y + HIGH + 16)
