"""The residual stream with its two detours: post-norm beside pre-norm."""

from svg import Drawing

d = Drawing(
    "06_block",
    "The block: a residual stream, and attention and feed-forward that add to it; post-norm "
    "beside pre-norm",
    "Two blocks side by side, from top to bottom. Left, post-norm, as in the paper: x goes "
    "through attention, the result is added to x, and the sum is normalised by LayerNorm; then "
    "the same with the feed-forward network. "
    "Right, pre-norm: the stream runs straight from x to y; LayerNorm stands on the detour, "
    "before attention and before the feed-forward network, whose results are added to the stream. "
    "Only in pre-norm does nothing but additions stand on the way from x to y. All vectors are "
    "d_model wide; the feed-forward network is d_ff wide inside.",
)
BOX, HIGH = 118, 42
ATTENTION, FORWARD = ("attention", "mixes words"), ("feed-forward", "each word alone")


def stream(left, title, note, pre):
    "One of the two; returns where its stream stands and ends."
    rail, box, hue = left + 36, left + 66, "a" if pre else "n"
    mid = box + BOX / 2
    d.text(left, 30, title, "name")
    d.text(left, 48, note)
    d.text(rail, 78, "x", "name", "middle")
    d.text(rail + 12, 78, "(B, T, d_{model})")
    y = 88
    for part, name in zip(("attention", "network"), (ATTENTION, FORWARD)):
        top = y + 14
        at = top + 24
        inner = at + 42 if pre else at
        end = inner + HIGH + 24
        with d.part("stream"):
            d.line(f"M{rail} {y}V{top}", f"{hue} arrow")
        d.arrow(f"M{rail} {top}H{mid - 8}q8 0 8 8V{top + 20}")
        if pre:
            with d.part("norm"):
                d.box(box, at, BOX, 26, "LayerNorm", first="word strong")
            d.arrow(f"M{mid} {at + 27}v11")
        with d.part(part):
            d.box(box, inner, BOX, HIGH, name, first="word strong", rest="small")
            d.arrow(f"M{mid} {inner + HIGH + 1}V{end - 8}q0 8 -8 8H{rail + 12}")
        with d.part("stream"):
            d.arrow(f"M{rail} {top}V{end - 12}", hue)
            d.plus(rail, end)
        y = end + 8
        if not pre:
            d.arrow(f"M{rail} {y + 1}v13")
            with d.part("norm"):
                d.box(rail - 43, y + 18, 86, 26, "LayerNorm", first="word strong")
            y += 44
    return rail, y


END = 430
for left, title, note, pre, said in (
    (14, "post-norm", "the paper, 2017", False, ["every sum is normed"]),
    (
        208,
        "pre-norm",
        "most models today",
        True,
        ["nothing but sums from", "x to y; a last norm", "follows the stack"],
    ),
):
    rail, y = stream(left, title, note, pre)
    with d.part("stream"):
        d.arrow(f"M{rail} {y + 1}V{END}", "a" if pre else "n")
    d.text(rail, END + 20, "y", "name", "middle")
    for i, words in enumerate(said):
        d.text(left, END + 44 + 17 * i, words)
d.save(END + 92)
