"Optimization: losses, schedules, and the slope of a loss."

import math

import torch
import torch.nn.functional as F

from ..data.text import IGNORE
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "optimization.1",
    parts=(
        "the first number is wrong; add up the nats of all targets, and divide by their number",
        "the second number is wrong; equal logits give each of the 5 tokens a fifth",
        "the third number is wrong; smoothing mixes the surprises of several tokens, and how do they differ here?",
    ),
    near=1e-3,  # two digits after the point
)
def losses_of_two_batches_and_of_zero_logits():
    # ? How many nats do the targets of each batch cost together?
    # ? The mean is over all 10 targets. Equal logits make all 5 tokens equally likely.
    # ? Smoothing mixes the surprises of several tokens. How do they differ here?
    return (8 * 1.0 + 2 * 6.0) / 10, math.log(5), math.log(5)
    #! the first number is the mean of the two means; each batch weighs as much as it has targets
    # ~ return (1.0 + 6.0) / 2, math.log(5), math.log(5)
    #! the first number is a sum: divide by the number of targets
    # ~ return 8 * 1.0 + 2 * 6.0, math.log(5), math.log(5)
    #! the second number is in bits; the loss is in nats, with the natural logarithm
    # ~ return 2.0, math.log2(5), math.log2(5)
    #! the second number is a probability; the loss is minus its logarithm
    # ~ return 2.0, 1 / 5, 1 / 5
    #! the second number has the wrong sign: the loss is minus the logarithm
    # ~ return 2.0, -math.log(5), -math.log(5)
    #! the second number is 0, but equal logits are not a sure answer: each token gets 1/5
    # ~ return 2.0, 0.0, 0.0
    #! the pad is a token of the model like any other: equal logits give each of the 5 a fifth
    # ~ return 2.0, math.log(4), math.log(4)
    #! the third number lacks the share that is spread: it costs as much as the rest
    # ~ return 2.0, math.log(5), 0.9 * math.log(5)
    #! in the third number 4 tokens share the rest, but each of them has a fifth of the probability,
    #! not a fourth
    # ~ return 2.0, math.log(5), 0.9 * math.log(5) + 0.1 * math.log(4)
    #! in the third number the shares of the 4 tokens are smoothing / 4 each and add up to all of it
    # ~ return 2.0, math.log(5), 0.9 * math.log(5) + 0.1 * 4 / 5 * math.log(5)
    #! in the third number the pad gets no share of the target, but a fifth of the probability is
    #! still its
    # ~ return 2.0, math.log(5), math.log(4)
    #! the third number is the floor under a smoothed loss; this model is far above it
    # ~ q = 0.9 + 0.1 / 4
    # | return 2.0, math.log(5), -q * math.log(q) - 3 * 0.1 / 4 * math.log(0.1 / 4)


@exercise("optimization.2")
def trapezoid(step, steps, warmup, fall):
    # ? Three cases: before the rise is over, after the fall has begun, and between.
    # ? The fall takes `last = max(1, round(steps * fall))` steps and begins at `steps - last`,
    # ? where the rate is still 1.
    # ? In the last part the rate is `(steps - step) / last`.
    rise, last = max(1, round(steps * warmup)), max(1, round(steps * fall))
    #! both shares are rounded to whole steps, not cut off
    # ~ rise, last = max(1, int(steps * warmup)), max(1, int(steps * fall))
    #! both shares are rounded to the nearest whole step, not always upwards
    # ~ rise, last = max(1, math.ceil(steps * warmup)), max(1, math.ceil(steps * fall))
    #! both shares are rounded to whole steps; yours are not
    # ~ rise, last = max(1, steps * warmup), max(1, steps * fall)
    # ~ return (step + 1) / rise -> return min(1, (step + 1) / rise)
    #! a share that rounds to no step at all still takes one: max(1, ...)
    # ~ rise, last = round(steps * warmup), round(steps * fall)
    #! fall is the share of the run spent falling, not the place where the fall begins
    # ~ rise, last = max(1, round(steps * warmup)), max(1, steps - round(steps * fall))
    #! the rate falls from the end of the rise on; it should stay at 1 until the last share begins
    # ~ rise = max(1, round(steps * warmup))
    # | last = steps - rise
    if step < rise:
        #! the rise is missing: the first rate is 1 / rise
        # ~ if step < 0:
        return (step + 1) / rise
        #! the first rate is 0: a step is wasted, (step + 1) / rise starts at 1 / rise
        # ~ return step / rise
    return min(1, (steps - step) / last)
    #! the fall is half a cosine; it should be a straight line
    # ~ return 0.5 - 0.5 * math.cos(math.pi * min(1, (steps - step) / last))
    #! the fall ends one step late: at step == steps the rate should be 0
    # ~ return min(1, (steps - step + 1) / last)
    #! the fall ends one step early: the rate should be 0 at step == steps, not before
    # ~ return max(0, min(1, (steps - step - 1) / last))
    #! the fall ends one step early: the rate should be 0 at step == steps, not before
    # ~ return min(1, (steps - step - 1) / last)
    #! the fall is missing: the rate is 0 at step == steps
    # ~ return 1


@exercise("optimization.3")
def loss_gradient(logits, targets, label_smoothing):
    # ? Write the loss of one place as a sum over tokens: q_k times (log Σ exp(z) − z_k). The q of a
    # ? place add up to 1.
    # ? For one place the slope is softmax(z) minus q. Which places count, and by what is the sum
    # ? divided?
    # ? q is (1 - smoothing) * one_hot, plus smoothing / (V - 1) for every token but 0. Multiply by
    # ? (targets != IGNORE) and divide by how many targets count.
    real, V = targets != IGNORE, logits.shape[-1]  # (B, T)
    one_hot = F.one_hot(targets.masked_fill(~real, 0), V)  # (B, T, V)
    spread = (torch.arange(V) != 0) * label_smoothing / (V - 1)  # (V,), none for the pad
    #! the pad gets a share: spread over V - 1 tokens, not V
    # ~ spread = torch.full((V,), label_smoothing / V)
    #! the share of the pad is gone: the others share all of smoothing, each smoothing / (V - 1)
    # ~ spread = (torch.arange(V) != 0) * label_smoothing / V
    #! the right token gets a share like the others; it is spread over V - 1 tokens
    # ~ spread = (torch.arange(V) != 0) * label_smoothing / (V - 2) * (1 - one_hot)
    #! you smoothed the slope of the right token only; the spread share is missing
    # ~ spread = 0
    q = (1 - label_smoothing) * one_hot + spread  # (B, T, V)
    #! that is the slope without smoothing
    # ~ q = one_hot
    #! the ignored places have a slope: their q is zero, but their softmax is not
    # ~ q = ((1 - label_smoothing) * one_hot + spread) * real[..., None]
    # ~ (logits.softmax(-1) - q) * real[..., None] / real.sum() -> (logits.softmax(-1) - q) / real.sum()
    return (logits.softmax(-1) - q) * real[..., None] / real.sum()
    #! you divided by all places; divide by the targets that count
    # ~ return (logits.softmax(-1) - q) * real[..., None] / real.numel()
    #! that is the slope of the sum: divide by the targets that count
    # ~ return (logits.softmax(-1) - q) * real[..., None]
    #! the ignored places have a slope; nothing at them changes the loss
    # ~ return (logits.softmax(-1) - q) / real.sum()
    #! the ignored places have a slope and count in the divisor
    # ~ return (logits.softmax(-1) - q) / real.numel()
    #! the slope of the pad's logit is not 0: it gets no share, so all of its probability is too much
    # ~ return (logits.softmax(-1) - q) * real[..., None] / real.sum() * (torch.arange(V) != 0)
    #! that is the mean of the rows' means: divide once, by all targets that count
    # ~ return (logits.softmax(-1) - q) * real[..., None] / real.sum(1)[:, None, None] / len(real)
    #! the sign is the other way round: softmax minus q
    # ~ return (q - logits.softmax(-1)) * real[..., None] / real.sum()
    #! the softmax runs over time; the vocabulary is the last axis
    # ~ return (logits.softmax(1) - q) * real[..., None] / real.sum()
    #! the softmax is missing: logits are not probabilities
    # ~ return (logits - q) * real[..., None] / real.sum()


# ---------------------------------------------------------------- questions


@question("optimization", "optimization.2")
def ask_trapezoid(draw):
    runs = [(20, 0.2, 0.25), (50, 0.1, 0.4), (7, 0.0, 0.4), (9, 0.25, 0.25), (7, 0.3, 0.0)]
    runs += [(1, 0.0, 0.0), (33, 0.31, 0.52)]  # 2.8, 2.25 and 10.23 steps: rounding shows
    for steps, warmup, fall in runs:
        shown = range(steps + 1) if steps < 21 else sorted({draw.size(0, steps) for _ in range(20)})
        for step in shown:
            what = f"step {step} of {steps}, warmup = {warmup}, fall = {fall}"
            yield Call(what, (step, steps, warmup, fall))


@question("optimization", "optimization.3")
def ask_loss_gradient(draw):
    cases = [
        ("two places ignored", [[1, 2, 4, 2], [3, 3, IGNORE, IGNORE]], 5, 0.2, 1),
        ("without smoothing", [[1, 2, 4, 2, 1], [3, IGNORE, 1, 1, IGNORE]], 6, 0.0, 1),
        ("a batch of 1", [[4, 2, IGNORE]], 7, 0.1, 1),
        ("one place that counts", [[IGNORE, IGNORE], [IGNORE, 3], [IGNORE, IGNORE]], 5, 0.3, 1),
        ("large logits", [[1, 2, 3], [3, IGNORE, 1]], 4, 0.1, 200),
    ]
    for what, targets, V, smoothing, scale in cases:
        targets = torch.tensor(targets)
        logits = draw.numbers(*targets.shape, V, scale=scale)
        yield Call(f"{what}, logits {tuple(logits.shape)}", (logits, targets, smoothing))
    for _ in draw.rounds:
        B, T, V = draw.size(1, 4), draw.size(5, 8), draw.size(9, 12)
        targets = draw.tokens(B, T, high=V).masked_fill(~draw.mask(B, T), IGNORE)
        targets[:, 0] = 1
        logits = draw.numbers(B, T, V)
        yield Call(f"logits {tuple(logits.shape)}", (logits, targets, draw.size(1, 5) / 10))
