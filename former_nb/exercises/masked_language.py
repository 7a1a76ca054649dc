"Masked language models: what is hidden, and how long a token waits."

from math import ceil, exp, log  # noqa: F401, the mistakes use the last two

import torch

from ..data.text import IGNORE, UNK
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "masked_language.1",
    parts=(
        "first row: 15 % of its 26 words, rounded up; the two ends are never hidden",
        "second row: `<bos>` and `<eos>` are never hidden, and nothing else is there",
        "third row: the share is rounded up: one word has its question, too",
        "fourth row: it is cut to 100 tokens first",
        "columns: `answers` is a rectangle, as wide as the row with the most",
    ),
)
def hidden_in_four_rows_and_columns():
    # ? For each row: how many of its tokens may be hidden at all, once it is as long as the model
    # ? reads?
    # ? 15 % of these, rounded up. The ends are special tokens; 15 % of nothing is nothing.
    # ? `answers` is a rectangle: as wide as the row with the most.
    return ceil(0.15 * 26), 0, ceil(0.15), ceil(0.15 * 100), 15
    #! first row: the share is rounded up: 15 % of 26 is 3.9
    # ~ return 3, 0, 1, 15, 15
    #! first row: the share is rounded up, a token is hidden or not
    # ~ return 3.9, 0, 1, 15, 15
    #! first row: `<bos>` and `<eos>` are never hidden: 26 tokens may be
    # ~ return 5, 0, 1, 15, 15
    #! columns: that is how many are hidden in all; a column serves all rows
    # ~ return 4, 0, 1, 15, 20
    #! columns: as many as there are rows: `answers` has a row for each, and a column for each question
    # ~ return 4, 0, 1, 15, 4
    #! columns: that is the mean; the widest row decides
    # ~ return 4, 0, 1, 15, 5
    #! columns: the row is cut to 100 tokens first
    # ~ return 4, 0, 1, 15, 150


@exercise("masked_language.2")
def soften(tokens, positions, answers, draw, other):
    # ? Three things can stand at a position that is asked for. Make the (B, K) of them with two
    # ? `torch.where`, then write it to its positions.
    # ? `tokens.scatter(1, positions, new)` writes (B, K) into a copy of (B, T).
    # ? A shorter row has positions at which nothing is asked: `answers` is IGNORE there. These must
    # ? get what `tokens.gather(1, positions)` says.
    now = tokens.gather(1, positions)  # (B, K)
    new = torch.where(draw < 0.8, now, other)
    #! 80 % stay hidden; they became random tokens
    # ~ new = torch.where(draw < 0.8, other, now)
    #! turned round: 80 % stay hidden, and 10 % are what they were
    # ~ new = torch.where(draw < 0.8, answers, other)
    # ~ torch.where(draw < 0.9, new, answers) -> torch.where(draw < 0.9, new, now)
    #! as many of each, but from other draws: below 0.8 it stays hidden
    # ~ new = torch.where(draw < 0.1, other, answers)
    # ~ torch.where(draw < 0.9, new, answers) -> torch.where(draw < 0.2, new, now)
    #! exchanged: from 0.8 to 0.9 a random token, from 0.9 on the one that was there
    # ~ new = torch.where(draw < 0.8, now, answers)
    # ~ torch.where(draw < 0.9, new, answers) -> torch.where(draw < 0.9, new, other)
    #! the middle tenth is missing: from 0.8 to 0.9 it becomes `other`
    # ~ new = now
    #! a fifth is what it was; of these, half should be random
    # ~ new = torch.where(draw < 0.8, now, answers)
    #! all that was hidden is shown again
    # ~ new = answers
    new = torch.where(draw < 0.9, new, answers)
    #! the last tenth is missing: from 0.9 on the token is shown as it was
    # ~ new = torch.where(draw < 0.9, new, now)
    #! a fifth becomes random; of these, half should be what they were
    # ~
    new = torch.where(answers == IGNORE, now, new)  # nothing is asked there
    #! `answers` is IGNORE where a shorter row asks nothing, and that now stands in the text
    # ~
    #! where nothing is asked, nothing changes; `other` was written there, too
    # ~ new = torch.where((answers == IGNORE) & (draw >= 0.9), now, new)
    return tokens.scatter(1, positions, new)
    #! nothing was changed
    # ~ return tokens
    #! that is (B, K), what stands at the positions; write it into the text
    # ~ return new
    #! what was handed in was changed in place, and the caller still needs it; `scatter` without the
    #! line at its end makes a copy
    # ~ return tokens.scatter_(1, positions, new)


@exercise("masked_language.3")
def waiting(s, E):
    # ? One epoch leaves a token alone with probability 1 − s. Two epochs, one after the other?
    # ? The first time is in epoch k with probability (1 − s)^(k − 1) s. With m the mean: with
    # ? probability s it is 1, else one epoch is gone and all is as before.
    # ? m = s · 1 + (1 − s) (1 + m).
    return (1 - s) ** E, 1 / s
    #! in none of them: each epoch leaves a share 1 − s of what is left
    # ~ return 1 - s * E, 1 / s
    #! the first number is the share asked for at least once
    # ~ return 1 - (1 - s) ** E, 1 / s
    #! the first number is the share asked for in every epoch
    # ~ return s**E, 1 / s
    #! the first number is the share left alone in at least one epoch
    # ~ return 1 - s**E, 1 / s
    #! the first number is the limit of small s; with s as it is, (1 − s) counts
    # ~ return exp(-s * E), 1 / s
    #! the first number is the share of one epoch
    # ~ return 1 - s, 1 / s
    #! the first number is the share that is asked for in epoch E for the first time
    # ~ return (1 - s) ** (E - 1) * s, 1 / s
    #! one epoch too few: E of them left the token alone
    # ~ return (1 - s) ** (E - 1), 1 / s
    #! the second number: epochs are counted from 1: the one in which it is asked for counts, too
    # ~ return (1 - s) ** E, (1 - s) / s
    #! the second number is the median: half of the tokens have been asked for by then
    # ~ return (1 - s) ** E, log(0.5) / log(1 - s)
    #! the second number is the median, rounded up
    # ~ return (1 - s) ** E, ceil(log(0.5) / log(1 - s))
    #! the second number: so many are asked for on average, of E; not when the first is
    # ~ return (1 - s) ** E, s * E
    #! the second number is turned round: the rarer it is, the longer one waits
    # ~ return (1 - s) ** E, 1 / (1 - s)
    #! the second number: the token may be asked for later than after E epochs, so E has no part in it
    # ~ return (1 - s) ** E, sum(k * s * (1 - s) ** (k - 1) for k in range(1, E + 1))


# ---------------------------------------------------------------- questions


@question("masked_language", "masked_language.2")
def ask_soften(draw):
    for B, T, K, asked in [
        (4, 12, 9, [9, 6, 4, 0]),
        (1, 5, 2, [2]),
        (3, 7, 1, [1, 0, 1]),
        (2, 30, 11, [3, 11]),
        (5, 6, 6, [6, 5, 3, 1, 0]),
    ]:
        text = draw.tokens(B, T, low=4, high=40)
        positions = torch.rand(B, T, generator=draw.generator).topk(K).indices  # (B, K)
        where = torch.arange(K) < torch.tensor(asked)[:, None]  # (B, K)
        answers = text.gather(1, positions).masked_fill(~where, IGNORE)
        hidden = torch.zeros(B, T, dtype=torch.bool).scatter(1, positions, where)
        chance = torch.rand(B, K, generator=draw.generator)
        chance[:, ::3] = 0.75 + 0.25 * chance[:, ::3]  # enough of the rare ones
        if K > 3:
            chance[0, :4] = torch.tensor([0.85, 0.95, 0.1, 0.15])
        other = draw.tokens(B, K, low=40, high=80)
        args = text.masked_fill(hidden, UNK), positions, answers, chance, other
        yield Call(f"tokens {(B, T)}, positions {(B, K)}", args)
    args = args[0], args[1], torch.full((B, K), IGNORE), chance, other
    yield Call("nothing is asked", args)


@question("masked_language", "masked_language.3")
def ask_waiting(draw):
    cases = [(0.15, 5), (0.3, 4), (0.5, 3), (0.05, 20), (0.4, 1)]
    for s, E in cases + [(draw.size(2, 95) / 100, draw.size(2, 9)) for _ in draw.rounds]:
        yield Call(f"s = {s}, E = {E}", (s, E))
