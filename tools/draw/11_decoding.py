"""Decoding with a cache: at each step one query, and one new key and value beside those kept."""

from svg import Drawing, matmul, softmax, transpose

TEXT = ["bos", "J", "o", "n", "a", "s"]
STEPS, D_K = 3, 4  # drawn steps, the last ones
SIZE = range(len(TEXT))
queries, keys, values = (
    [[(a * i + b * j + i * j) % 5 / 4 for j in range(D_K)] for i in SIZE]
    for a, b in ((1, 3), (3, 2), (2, 3))
)
n = len(TEXT) - 1
without, with_cache = sum(range(1, n + 1)), n

d = Drawing(
    "11_decoding",
    "Decoding with a cache: keys and values are kept, one new column per step",
    f"Steps {n - STEPS + 1} to {n} of writing {' '.join(TEXT)}, one below the other. At each step "
    "only the newest token goes through the model. It brings one query (blue), one key (orange) "
    "and one value (green). "
    "Keys and values of earlier tokens stand in the cache; the new column is framed and joins "
    "them. The query meets all keys, the softmax makes one row of weights, and these mix the "
    "values; the next token is chosen and goes in at the next step. "
    f"{n} steps visit {with_cache} tokens with a cache and {without} without. The vectors are "
    "made up; the weights are computed from them.",
)
C, H, LEFT, BLOCK = 32, 10, 126, 150
d.text(14, 30, "new token", "part")
d.text(LEFT, 30, "cache, one new column", "part")
d.text(334, 30, "next", "part")
for place, step in enumerate(range(n - STEPS, n)):
    seen, y = step + 1, 40 + place * BLOCK
    keys_at, weights_at, values_at = y + 20, y + 20 + D_K * H + 10, y + 20 + D_K * H + 34
    for j in range(seen):
        d.text(
            LEFT + (j + 0.5) * C, y + 14, TEXT[j], "num strong" if j == step else "num", "middle"
        )
    weights = softmax([s / D_K**0.5 for s in matmul([queries[step]], transpose(keys[:seen]))[0]])
    with d.part("k"):
        d.table(LEFT, keys_at, transpose(keys[:seen]), "k", cell=C, high=H, most=1, column=step)
    d.table(LEFT, weights_at, [weights], cell=C, high=14)
    d.edges(LEFT, weights_at, seen * C, 14)
    with d.part("v"):
        d.table(LEFT, values_at, transpose(values[:seen]), "v", cell=C, high=H, most=1, column=step)
    # the new token and its query
    mid = weights_at + 7
    d.tokens(14, mid - 13, [TEXT[step]], 44, 26)
    with d.part("q"):
        d.arrow(f"M60 {mid}H76", "q")
        d.table(82, mid - D_K * H / 2, [[x] for x in queries[step]], "q", cell=16, high=H, most=1)
        d.frame(82, mid - D_K * H / 2, 16, D_K * H)
        d.arrow(f"M102 {mid}H114", "q")
    d.arrow(f"M{LEFT + seen * C + 7} {mid}H328", "a")
    d.tokens(334, mid - 13, [TEXT[step + 1]], 44, 26, hue="a")
    if place < STEPS - 1:
        low = y + BLOCK - 4
        d.arrow(f"M356 {mid + 15}V{low - 8}q0 8 -8 8H44q-8 0 -8 8V{mid + BLOCK - 17}")
y = 40 + STEPS * BLOCK + 12
for x, top, hue, words in (
    (14, y, "q", "query, of the new token"),
    (214, y, "n", "weights, sum to 1"),
    (14, y + 22, "k", "keys, kept"),
    (214, y + 22, "v", "values, kept"),
):
    d.table(x, top - 11, [[0.7]], hue, most=1)
    d.text(x + 20, top, words)
d.text(14, y + 50, f"{n} steps visit {with_cache} tokens; {without} without a cache.")
d.save(y + 64)
