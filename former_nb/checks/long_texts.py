"""Judges of the exercises on the page 10_long_texts, and the mistakes that they know."""

from math import log

import torch

from ..base.exercises import diagnose, exercise


@exercise(
    "long_texts.1",
    "All 128 targets of the first window count. How many new ones does the next one bring?",
    "The first window counts 128 targets, and 872 are left. Each "
    "other window counts 128 - 64 of them.",
)
def judge_long_texts_1(answer):
    return diagnose(
        answer,
        [15, 40],
        {
            "without context there would be 8 windows; these overlap by half": [8, 104],
            "there are 15 windows; the last one counts what 14 others have "
            "left, not a multiple of the window": [15, 64],
            "the first window counts all its 128 targets, for nothing was counted before it": [
                16,
                40,
            ],
            "the last window holds 104 tokens, but the window before "
            "has counted the first 64 of them": [15, 104],
            "that is how many come after the first; it is a window too": [14, 40],
            "the number of windows is right, but 1,000 tokens are not enough to fill the last": [
                15,
                128,
            ],
            "the last window is not full, but its targets count: every token is counted once": [
                14,
                64,
            ],
        },
    )


@exercise(
    "long_texts.2",
    "What does the whole text cost, in nats? Divide that by something else.",
    "`len(text.encode())` bytes, `len(text)` characters, and ln 2 nats in a bit.",
)
def judge_long_texts_2(answer):
    text, nats = "žąsys skrenda virš ežero", 1.25
    n, m = len(text), len(text.encode())
    right = torch.tensor(nats * n / m / log(2))
    return diagnose(
        answer(nats, text),
        right,
        {
            "those are bits per character; the text has more bytes than characters": nats / log(2),
            "the ratio is upside down: a byte is less than a character, so it costs less": (
                nats * m / n / log(2)
            ),
            "those are nats; a bit is ln 2 of them": nats * n / m,
            "a bit is ln 2 nats, so divide by ln 2": nats * n / m * log(2),
            "that is what the whole text costs, in bits": nats * n / log(2),
            "that is what the whole text costs, in nats": nats * n,
            "`nats` is what one character costs; multiply by the "
            "characters before you divide by the bytes": nats / m / log(2),
            "that is 8 bits to the byte; ask how many bytes the characters take": nats / log(2) / 8,
        },
    )


def _mixtures():
    """Three pairs of models: one that mixes, one where the first is always better, and one where
    the second is."""
    generator = torch.Generator().manual_seed(12)  # q is better, though the mean of p is larger
    p, q = torch.rand(2, 40, generator=generator, dtype=torch.float64) * 0.9 + 0.05
    return [(p, q), (q * 1.05, q), (q * 0.9, q)]


def _best(p, q):
    "The share of `p`, by halving."
    low, high = 0.0, 1.0
    for _ in range(40):
        mid = (low + high) / 2
        low, high = (mid, high) if ((p - q) / (q + mid * (p - q))).sum() > 0 else (low, mid)
    return (low + high) / 2


@exercise(
    "long_texts.3",
    "The slope of the mean surprise in λ: does it ever fall?",
    "Halve [0, 1] until you know where the slope changes its sign. It may not change at all.",
    "The slope is minus the mean of (p - q) / (q + λ (p - q)).",
)
def judge_long_texts_3(answer):
    pairs = _mixtures()
    got = torch.stack(
        [
            torch.as_tensor(answer(p.clone(), q.clone()), dtype=torch.float64).reshape(())
            for p, q in pairs
        ]
    )
    right = torch.tensor([_best(p, q) for p, q in pairs], dtype=torch.float64)
    if ((got - right).abs() <= 2e-3).all():
        return None
    rows = lambda f: torch.tensor([float(f(p, q)) for p, q in pairs], dtype=torch.float64)
    mistakes = {
        "that is the share of q; λ is the share of p": 1 - right,
        "you took the better of the two models; a mixture can be better than both": rows(
            lambda p, q: p.log().mean() > q.log().mean()
        ),
        "that is the worst share: the mean of ln is to be large, of -ln small": rows(
            lambda p, q: p.log().mean() < q.log().mean()
        ),
        "that is how often p is the larger; how much larger matters too": rows(
            lambda p, q: (p > q).double().mean()
        ),
        "that is one step of a method that needs many, or the mean of p / (p + q)": rows(
            lambda p, q: (p / (p + q)).mean()
        ),
        "a mean of probabilities is no surprise; the logarithm comes before the mean": rows(
            lambda p, q: p.mean() > q.mean()
        ),
    }
    for sentence, wrong in mistakes.items():
        if ((got - wrong).abs() <= 2e-3).all():
            return sentence
    if (got < 0).any() or (got > 1).any():
        return "a share lies between 0 and 1; where one model is always better it gets all"
    if (got - right).abs().max() < 0.06:
        return "nearly: halve more often, take a finer grid or more steps"
    i = int(((got - right).abs() > 2e-3).int().argmax())
    side = "large" if got[i] > right[i] else "small"
    return f"for mixture {i + 1} of three your share, {got[i]:.3g}, is too {side}"
