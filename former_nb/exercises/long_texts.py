"Exercises of the deep dive on long texts."

from math import log

import torch

from ..grading.ask import Call, exercise, question
from ..grading.compare import loosened

# ---------------------------------------------------------------- exercises


@exercise(
    "long_texts.1",
    parts=(
        "the number of windows is wrong; the first counts 128 targets, and each of the others 64 new ones",
        "the number of windows is right; of the 1,000 targets, which have the windows before the last counted?",
    ),
)
def windows_and_last_targets():
    # ? All 128 targets of the first window count. How many new ones does the next one bring?
    # ? The first window counts 128 targets, and 872 are left. Each other window counts 128 - 64 of them.
    return 15, 40
    #! without context there would be 8 windows; these overlap by half
    # ~ return 8, 104
    #! there are 15 windows; the last one counts what 14 others have left, not a multiple of the window
    # ~ return 15, 64
    #! the first window counts all its 128 targets, for nothing was counted before it
    # ~ return 16, 40
    #! the last window holds 104 tokens, but the window before has counted the first 64 of them
    # ~ return 15, 104
    #! that is how many come after the first; it is a window too
    # ~ return 14, 40
    #! the number of windows is right, but 1,000 tokens are not enough to fill the last
    # ~ return 15, 128
    #! the last window is not full, but its targets count: every token is counted once
    # ~ return 14, 64


@exercise("long_texts.2")
def bits_per_byte(nats, text):
    # ? What does the whole text cost, in nats? Divide that by something else.
    # ? `len(text.encode())` bytes, `len(text)` characters, and ln 2 nats in a bit.
    bits = nats * len(text) / log(2)  # of the whole text
    #! those are nats; a bit is ln 2 of them
    # ~ bits = nats * len(text)
    #! a bit is ln 2 nats, so divide by ln 2
    # ~ bits = nats * len(text) * log(2)
    #! `nats` is what one character costs; multiply by the characters before you divide by the bytes
    # ~ bits = nats / log(2)
    return bits / len(text.encode())
    #! those are bits per character; the text has more bytes than characters
    # ~ return nats / log(2)
    #! the ratio is upside down: a byte is less than a character, so it costs less
    # ~ return nats / log(2) * len(text.encode()) / len(text)
    #! that is what the whole text costs, in bits
    # ~ return bits
    #! that is what the whole text costs, in nats
    # ~ return nats * len(text)
    #! that is 8 bits to the byte; ask how many bytes the characters take
    # ~ return nats / log(2) / 8
    #! the text is UTF-8; other encodings have another number of bytes
    # ~ return bits / len(text.encode("utf-16"))


@exercise("long_texts.3", near=2e-3)
def best_share(p, q):
    # ? The slope of the mean surprise in λ: does it ever fall?
    # ? Halve [0, 1] until you know where the slope changes its sign. It may not change at all.
    # ? The slope is minus the mean of (p - q) / (q + λ (p - q)).
    low, high = 0.0, 1.0
    while high - low > 1e-4:
        share = (low + high) / 2
        falling = ((p - q) / (q + share * (p - q))).mean() > 0
        #! that is the share of q; λ is the share of p
        # ~ falling = ((q - p) / (p + share * (q - p))).mean() > 0
        #! a mean of probabilities is no surprise; the logarithm comes before the mean
        # ~ falling = p.mean() > q.mean()
        #! you took the better of the two models; a mixture can be better than both
        # ~ falling = p.log().mean() > q.log().mean()
        #! that is the worst share: the mean of ln is to be large, of -ln small
        # ~ falling = p.log().mean() < q.log().mean()
        low, high = (share, high) if falling else (low, share)
    return (low + high) / 2
    #! that is how often p is the larger; how much larger matters too
    # ~ return (p > q).double().mean()
    #! that is one step of a method that needs many, or the mean of p / (p + q)
    # ~ return (p / (p + q)).mean()
    #! nearly: halve more often, take a finer grid or more steps
    # ~ return round((low + high) / 2, 1)
    #! nearly: halve more often, take a finer grid or more steps
    # ~ return round((low + high) / 2, 2)
    #! where one model is always better it gets all; a share lies between 0 and 1
    # ~ share = 0.5
    # | for _ in range(100):
    # |     slope = (p - q) / (q + share * (p - q))
    # |     share = share + slope.mean() / slope.square().mean()
    # | return share
    #! that is what the mixture costs; its share of p is asked for
    # ~ return -(q + low * (p - q)).log().mean()


# ---------------------------------------------------------------- questions


@question("long_texts", "long_texts.2")
def ask_bits_per_byte(draw):
    texts = ["žąsys skrenda virš ežero", "plain words", "語", "ein Äpfelchen für 5 €", "a 🦢 b"]
    letters = "abcž€語 🦢ąė"
    for _ in draw.rounds:
        texts.append("".join(draw.random.choice(letters) for _ in range(draw.size(3, 20))))
    for text in texts:
        nats = draw.size(50, 300) / 100
        yield Call(f"nats = {nats}, text = {text!r}", (nats, text))


def one_more(answer, args, result):
    "1 + the share, so that a share near 0 need not be nearer than others."
    share = loosened(result)
    return {"": 1 + share if isinstance(share, float) else share}


@question("long_texts", "long_texts.3")
def ask_best_share(draw):
    def probabilities(n):
        return draw.numbers(n, scale=1.5, dtype=torch.float64).sigmoid()

    better = probabilities(40)
    pairs = [(better, better / 1.05), (better * 0.9, better)]
    pairs += [(probabilities(n), probabilities(n)) for n in (40, 300, 25, 5, 12)]
    p, q = probabilities(60), probabilities(60)
    pairs += [(p.sqrt(), q), (p, q.sqrt()), ((p + q) / 2, q), (p, (0.2 * p + q) / 1.2)]
    for p, q in pairs:
        yield Call(f"{len(p)} tokens, 1 + the share", (p, q), look=one_more)
