"""Judges of the exercises on the page 08_optimization, and the mistakes that they know."""

import math

import torch
import torch.nn.functional as F

from ..base.exercises import diagnose, exercise
from ..data.text import IGNORE
from ..training.losses import token_loss


@exercise(
    "optimization.1",
    "How many nats do the targets of each batch cost together?",
    "The mean is over all 10 targets. Equal logits make all 50 tokens equally likely.",
    "Smoothing mixes the surprises of several tokens. How do they differ here?",
)
def judge_optimization_1(answer):
    "Three numbers, in nats."
    even, less = math.log(50), math.log(49)
    answer = torch.as_tensor(answer, dtype=torch.float64)
    right = torch.tensor([2.0, even, even], dtype=torch.float64)
    if answer.equal(answer.round(decimals=2)):  # two digits are enough
        right = right.round(decimals=2)
    return diagnose(
        answer,
        right,
        {
            "the first number is the mean of the two means; each batch "
            "weighs as much as it has targets": [3.5, even, even],
            "the first number is a sum: divide by the number of targets": [20.0, even, even],
            "the second number is in bits; the loss is in nats, with the natural logarithm": [
                2.0,
                math.log2(50),
                math.log2(50),
            ],
            "the second number is a probability; the loss is minus its logarithm": [
                2.0,
                1 / 50,
                1 / 50,
            ],
            "the second number is 0, but equal logits are not a sure "
            "answer: each token gets 1/50": [2.0, 0.0, 0.0],
            "the second number has the wrong sign: the loss is minus the logarithm": [
                2.0,
                -even,
                -even,
            ],
            "the third number lacks the share that is spread: it costs as much as the rest": [
                2.0,
                even,
                0.9 * even,
            ],
            "the pad is a token of the model like any other: equal "
            "logits give each of the 50 a 50th": [2.0, less, less],
            "in the third number 49 tokens share the rest, but each of them has a "
            "50th of the probability, not a 49th": [2.0, even, 0.9 * even + 0.1 * less],
            "in the third number the shares of the 49 tokens are smoothing "
            "/ 49 each and add up to all of it": [2.0, even, 0.9 * even + 0.1 * 49 / 50 * even],
            "in the third number the pad gets no share of the target, but a "
            "50th of the probability is still its": [2.0, even, math.log(49)],
            "the third number is the floor under a smoothed loss; this model is far above it": [
                2.0,
                even,
                -(q := 0.9 + 0.1 / 49) * math.log(q) - 4.8 / 49 * math.log(0.1 / 49),
            ],
            "the numbers are in another order": [even, 2.0, even],
        },
    )


@exercise(
    "optimization.2",
    "Three cases: before the rise is over, after the fall has begun, and between.",
    "The fall takes `last = max(1, round(steps * fall))` steps and begins at "
    "`steps - last`, where the rate is still 1.",
    "In the last part the rate is `(steps - step) / last`.",
)
def judge_optimization_2(answer):
    "A function of step, steps, warmup and fall that returns a number."
    runs = [
        (20, 0.2, 0.25),
        (50, 0.1, 0.4),
        (7, 0.0, 0.4),
        (9, 0.25, 0.25),
        (7, 0.3, 0.0),
    ]  # 2.8 and 2.25 steps: rounding shows

    def curve(f):
        "The rates of all runs, one after the other."
        rates = [float(f(step, *run)) for run in runs for step in range(run[0] + 1)]
        return torch.tensor(rates, dtype=torch.float64).clamp(min=0)

    def shape(first=1, level=lambda x: x, end=0, hold=True, whole=round, short=0):
        "A schedule with one thing changed."

        def rate(step, steps, warmup, fall):
            rise, last = max(1, whole(steps * warmup)), max(1, whole(steps * fall))
            if step < rise:
                return min(1, (step + first) / rise)
            last = last if hold else steps - rise
            return level(max(0, min(1, (steps - step + end) / max(1, last - short))))

        return rate

    def share_of_start(step, steps, warmup, fall):
        rise, start = max(1, round(steps * warmup)), round(steps * fall)
        return (step + 1) / rise if step < rise else min(1, (steps - step) / max(1, steps - start))

    try:
        rates = curve(answer)
    except ZeroDivisionError:
        return "a share that rounds to no step at all still takes one: max(1, ...)"
    return diagnose(
        rates,
        curve(shape()),
        {
            "the first rate is 0: a step is wasted, (step + 1) / rise starts at 1 / rise": curve(
                shape(first=0)
            ),
            "the fall is half a cosine; it should be a straight line": curve(
                shape(level=lambda x: 0.5 - 0.5 * math.cos(math.pi * x))
            ),
            "the fall ends one step late: at step == steps the rate should be 0": curve(
                shape(end=1)
            ),
            "the rate falls from the end of the rise on; it should stay "
            "at 1 until the last share begins": curve(shape(hold=False)),
            "the fall ends one step early: the rate should be 0 "
            "at step == steps, not before": curve(shape(end=-1)),
            "the fall ends one step early and is a step too short: it is "
            "0 at step == steps, not before": curve(shape(end=-1, short=1)),
            "both shares are rounded to whole steps, not cut off": curve(shape(whole=int)),
            "both shares are rounded to the nearest whole step, not always upwards": curve(
                shape(whole=math.ceil)
            ),
            "both shares are rounded to whole steps; yours are not": curve(shape(whole=float)),
            "the fall is missing: the rate is 0 at step == steps": curve(
                lambda step, steps, warmup, fall: min(1, (step + 1) / max(1, round(steps * warmup)))
            ),
            "the rise is missing: the first rate is 1 / rise": curve(
                lambda step, steps, warmup, fall: min(
                    1, (steps - step) / max(1, round(steps * fall))
                )
            ),
            "fall is the share of the run spent falling, not the "
            "place where the fall begins": curve(share_of_start),
        },
    )


@exercise(
    "optimization.3",
    "Write the loss of one place as a sum over tokens: q_k times (log Σ exp(z) "
    "− z_k). The q of a place add up to 1.",
    "For one place the slope is softmax(z) minus q. Which places "
    "count, and by what is the sum divided?",
    "q is (1 - smoothing) * one_hot, plus smoothing / (V - 1) for every token but 0. "
    "Multiply by (targets != IGNORE) and divide by how many targets count.",
)
def judge_optimization_3(answer):
    "A function of logits (B, T, V), targets (B, T) and a share that returns (B, T, V)."
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(
        2, 4, 5, generator=generator, dtype=torch.float64
    ).requires_grad_()  # (B, T, V)
    targets, e = torch.tensor([[1, 2, 4, 2], [3, 3, IGNORE, IGNORE]]), 0.2
    right = torch.autograd.grad(token_loss(logits, targets, label_smoothing=e), logits)[0]
    with torch.no_grad():
        real, z = (targets != IGNORE)[..., None], logits.detach()
        one_hot, no_pad = F.one_hot(targets.clamp(min=0), 5), (torch.arange(5) != 0).double()
        q = (1 - e) * one_hot + e / 4 * no_pad
        slope = lambda q: z.softmax(-1) - q  # at every place, counted or not
        return diagnose(
            answer(z.clone(), targets.clone(), e),
            right,
            {
                "you divided by all places; divide by the targets that count": slope(q) * real / 8,
                "that is the slope of the sum: divide by the targets that count": slope(q) * real,
                "the ignored places have a slope; nothing at them changes the loss": slope(q) / 6,
                "the ignored places have a slope and count in the divisor": slope(q) / 8,
                "the ignored places have a slope: their q is zero, but their softmax is not": (
                    slope(q * real) / 6
                ),
                "the slope of the pad's logit is not 0: it gets no share, so "
                "all of its probability is too much": right * no_pad,
                "that is the mean of the rows' means: divide once, "
                "by all targets that count": slope(q) * real / real.sum(1, keepdim=True) / 2,
                "the sign is the other way round: softmax minus q": -right,
                "the softmax runs over time; the vocabulary is the last axis": (
                    (z.softmax(1) - q) * real / 6
                ),
                "the softmax is missing: logits are not probabilities": (z - q) * real / 6,
                "that is the slope without smoothing": slope(one_hot) * real / 6,
                "the pad gets a share: spread over V - 1 tokens, not V": (
                    slope((1 - e) * one_hot + e / 5) * real / 6
                ),
                "the share of the pad is gone: the others share all of "
                "smoothing, each smoothing / (V - 1)": (
                    slope((1 - e) * one_hot + e / 5 * no_pad) * real / 6
                ),
                "the right token gets a share like the others; it is spread over V - 1 tokens": (
                    slope((1 - e) * one_hot + e / 3 * no_pad * (1 - one_hot)) * real / 6
                ),
                "you smoothed the slope of the right token only; "
                "the spread share is missing": slope((1 - e) * one_hot) * real / 6,
            },
        )
