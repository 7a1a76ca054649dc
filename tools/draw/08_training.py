"""The loop of training, the schedule of its rate, and the three sets."""

from math import cos, pi

from svg import Drawing

STEPS, WARMUP = 100, 10


def rate(step):
    "The share of the peak rate: a linear rise, then half a cosine."
    return (
        (step + 1) / WARMUP
        if step < WARMUP
        else 0.5 * (1 + cos(pi * (step - WARMUP) / (STEPS - WARMUP)))
    )


SETS = [
    ("train", 80, "learn from it, batch by batch"),
    ("validation", 10, "choose and stop by it"),
    ("test", 10, "report on it, once"),
]

d = Drawing(
    "08_training",
    "Training: a loop of six parts, and three sets of examples",
    "The data are split into three sets, train, validation and test, here "
    f"{', '.join(str(n) for _, n, _ in SETS)} parts of 100. A loop takes a batch from the "
    "training set; the model turns it into logits; the loss compares them with the targets, at "
    "the positions that count; "
    "its gradient says how each weight moves the loss; the optimizer takes a step; the schedule "
    f"sets the size of the next step: it rises over the first {WARMUP} of {STEPS} steps to its "
    f"peak, is {rate(55):.0%} of it at step 55, and falls to {rate(STEPS):.0%}. "
    "The validation set is looked at now and then, to choose; the test set once, at the end.",
)
# three sets as a bar
with d.part("sets"):
    d.text(16, 30, "three sets", "name")
    left, scale = 16, 3.72
    for name, share, _ in SETS:
        d.table(left, 42, [[0.6 if name == "train" else 0.25]], cell=share * scale, high=22, most=1)
        left += share * scale
    for i, (name, _, use) in enumerate(SETS):
        d.text(16, 88 + 18 * i, name, "word strong")
        d.text(104, 88 + 18 * i, use)
d.arrow("M112 134v20")
# the loop
X, W = 16, 192
MID = X + W / 2
PARTS = [
    ("batch", "inputs, targets"),
    ("logits", "model(inputs)"),
    ("loss", "over what counts"),
    ("gradient", "loss.backward()"),
    ("step", "optimizer.step()"),
    ("schedule", "size of the next step"),
]
y = 160
for i, lines in enumerate(PARTS):
    with d.part(lines[0]):
        d.box(X, y, W, 42, lines, "a" if lines[0] == "loss" else "n")
    if i < len(PARTS) - 1:
        d.arrow(f"M{MID} {y + 43}v13")
    y += 60
end = y - 60 + 21
d.arrow(f"M{X + W + 1} {end}h11q8 0 8 -8V189q0 -8 -8 -8h-9")
d.text(X + W + 28, 180, "next batch")
d.arrow(f"M{X + W + 20} 243h17")
with d.part("sets"):
    d.box(250, 214, 140, 59, ("validation", "now and then,", "keep the best"))
    d.arrow("M320 274v13")
    d.box(250, 290, 140, 42, ("test", "at the end, once"))
# schedule
x0, y0, wide, high = 262, end + 8, 120, 70
with d.part("schedule"):
    d.line(f"M{x0} {y0 - high - 6}V{y0}H{x0 + wide}", "grid")
    d.line(
        "M"
        + "L".join(
            f"{x0 + wide * s / STEPS:.1f} {y0 - high * rate(s):.1f}" for s in range(0, STEPS + 1, 2)
        )
    )
    d.text(x0 + 26, y0 - high - 12, "rate", "small", "middle")
    d.text(x0 + wide / 2, y0 + 16, f"steps 0 to {STEPS}", "small", "middle")
d.save(y + 12)
