"""Judges of the exercises on the page 09_masked_language, and the mistakes that they know."""

from math import ceil, exp, log

import torch

from ..base.exercises import diagnose, exercise
from ..data.text import IGNORE, UNK


@exercise(
    "masked_language.1",
    "For each row: how many of its tokens may be hidden at all, once "
    "it is as long as the model reads?",
    "15 % of these, rounded up. The ends are special tokens; 15 % of nothing is nothing.",
    "`answers` is a rectangle: as wide as the row with the most.",
)
def judge_masked_language_1(answer):
    "Five whole numbers."
    right = (4, 0, 1, 15, 15)
    if (
        not isinstance(answer, (tuple, list))
        or len(answer) != 5
        or not all(isinstance(x, (int, float)) for x in answer)
    ):
        return "expected five numbers: one for each of the four rows, and the columns of `answers`"
    usual = (
        {
            3: "the share is rounded up: 15 % of 26 is 3.9",
            5: "`<bos>` and `<eos>` are never hidden: 26 tokens may be",
            3.9: "the share is rounded up, a token is hidden or not",
        },
        {
            1: "`<bos>` and `<eos>` are never hidden, and nothing else is there",
            2: "`<bos>` and `<eos>` are never hidden, and nothing else is there",
        },
        {0: "the share is rounded up: one word has its question, too"},
        {150: "the row is cut to 100 tokens first"},
        {
            20: "that is how many are hidden in all; a column serves all rows",
            4: "as many as there are rows: `answers` has a row for each, "
            "and a column for each question",
            150: "the row is cut to 100 tokens first",
            5: "that is the mean; the widest row decides",
        },
    )
    for where, x, y, mistakes in zip(
        ("first row", "second row", "third row", "fourth row", "columns"), answer, right, usual
    ):
        if x != y:
            return f"{where}: {mistakes.get(x, f'not {x:.4g}')}"


def _soften(tokens, positions, answers, draw, other):
    "The right answer."
    now = tokens.gather(1, positions)  # (B, K)
    new = torch.where(draw < 0.8, now, torch.where(draw < 0.9, other, answers))  # (B, K)
    return tokens.scatter(1, positions, torch.where(answers == IGNORE, now, new))


@exercise(
    "masked_language.2",
    "Three things can stand at a position that is asked for. Make the (B, K) of them with "
    "two `torch.where`, then write it to its positions.",
    "`tokens.scatter(1, positions, new)` writes (B, K) into a copy of (B, T).",
    "A shorter row has positions at which nothing is asked: `answers` is IGNORE there. These "
    "must get what `tokens.gather(1, positions)` says.",
)
def judge_masked_language_2(answer):
    "A function of tokens, positions, answers, and two draws."
    g = torch.Generator().manual_seed(0)
    B, T, K = 4, 12, 9
    text = torch.randint(4, 40, (B, T), generator=g)
    positions = torch.rand(B, T, generator=g).topk(K).indices  # (B, K)
    asked = torch.arange(K) < torch.tensor([[K], [6], [4], [0]])  # (B, K)
    answers = text.gather(1, positions).masked_fill(~asked, IGNORE)
    tokens = text.masked_fill(torch.zeros(B, T, dtype=torch.bool).scatter(1, positions, asked), UNK)
    draw, other = torch.rand(B, K, generator=g), torch.randint(40, 80, (B, K), generator=g)
    draw[:, ::3] = 0.79 + 0.2 * torch.rand(B, 3, generator=g)  # enough of the rare ones
    draw[0, :4] = torch.tensor([0.85, 0.95, 0.1, 0.15])
    now, given = tokens.gather(1, positions), (tokens, positions, answers, draw, other)
    put = lambda new, where=asked: tokens.scatter(1, positions, torch.where(where, new, now))
    three = lambda low, middle, high, a=0.8, b=0.9: torch.where(
        draw < a, low, torch.where(draw < b, middle, high)
    )
    copies = [t.clone() for t in given]
    result = answer(*copies)
    if not all(torch.equal(a, b) for a, b in zip(copies, given)):
        return "what was handed in was changed in place; the caller still needs it"
    return diagnose(
        result,
        _soften(*given),
        {
            "`answers` is IGNORE where a shorter row asks nothing, "
            "and that now stands in the text": put(
                three(now, other, answers), torch.ones_like(asked)
            ),
            "where nothing is asked, nothing changes; `other` was written there, too": put(
                three(now, other, answers), asked | (draw >= 0.8) & (draw < 0.9)
            ),
            "exchanged: from 0.8 to 0.9 a random token, from 0.9 on the one that was there": put(
                three(now, answers, other)
            ),
            "turned round: 80 % stay hidden, and 10 % are what they were": put(
                three(answers, other, now)
            ),
            "80 % stay hidden; they became random tokens": put(three(other, now, answers)),
            "as many of each, but from other draws: below 0.8 it stays hidden": put(
                three(other, answers, now, 0.1, 0.2)
            ),
            "the last tenth is missing: from 0.9 on the token is shown as it was": put(
                three(now, other, now)
            ),
            "the middle tenth is missing: from 0.8 to 0.9 it becomes `other`": put(
                three(now, now, answers)
            ),
            "a fifth becomes random; of these, half should be what they were": put(
                three(now, other, other)
            ),
            "a fifth is what it was; of these, half should be random": put(
                three(now, answers, answers)
            ),
            "nothing was changed": tokens,
            "all that was hidden is shown again": put(answers),
            "that is (B, K), what stands at the positions; write it into the text": torch.where(
                asked, three(now, other, answers), now
            ),
        },
    )


@exercise(
    "masked_language.3",
    "One epoch leaves a token alone with probability 1 − s. Two epochs, one after the other?",
    "The first time is in epoch k with probability (1 − s)^(k − 1) s. With m the mean: with "
    "probability s it is 1, else one epoch is gone and all is as before.",
    "m = s · 1 + (1 − s) (1 + m).",
)
def judge_masked_language_3(answer):
    "A function of a share and a number of epochs."
    for s, E in ((0.15, 5), (0.3, 4), (0.5, 3), (0.05, 20)):
        got = answer(s, E)
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            return f"expected two numbers, got {got!r:.60}"
        never, mean = (float(x) for x in got)
        shares = {
            "in none of them: each epoch leaves a share 1 − s of what is left": 1 - s * E,
            "that is the share asked for at least once": 1 - (1 - s) ** E,
            "that is the share asked for in every epoch": s**E,
            "that is the share left alone in at least one epoch": 1 - s**E,
            "that is the limit of small s; with s as it is, (1 − s) counts": exp(-s * E),
            "that is the share of one epoch": 1 - s,
            "that is the share that is asked for in epoch E for the first time": (
                (1 - s) ** (E - 1) * s
            ),
            "one epoch too few: E of them left the token alone": (1 - s) ** (E - 1),
        }
        means = {
            "epochs are counted from 1: the one in which it is asked for counts, too": (1 - s) / s,
            "that is the median: half of the tokens have been asked for by then": (
                log(0.5) / log(1 - s)
            ),
            "so many are asked for on average, of E; not when the first is": s * E,
            "turned round: the rarer it is, the longer one waits": 1 / (1 - s),
            "nearly: the token may be asked for later than after E "
            "epochs, so E has no part in it": sum(
                k * s * (1 - s) ** (k - 1) for k in range(1, E + 1)
            ),
            "that is the median, rounded up": ceil(log(0.5) / log(1 - s)),
        }
        for which, x, right, mistakes in (
            ("first", never, (1 - s) ** E, shares),
            ("second", mean, 1 / s, means),
        ):
            if abs(x - right) > 1e-6 * max(1, abs(right)):
                named = next(
                    (
                        sentence
                        for sentence, wrong in mistakes.items()
                        if abs(x - wrong) < 1e-6 * max(1, abs(wrong))
                    ),
                    None,
                )
                return (
                    f"the {which} number: {named or f'for s = {s} and E = {E} it is not {x:.4g}'}"
                )
