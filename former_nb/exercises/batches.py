"Exercises of the deep dive on batches, its first half: cutting and splitting."

import math
import random

import torch

from ..data.text import (
    BOS,
    EOS,
    IGNORE,
    PAD,
    collate,  # noqa: F401, mistakes are made of it
)
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "batches.1",
    parts=(
        "the width is wrong; how many inputs has the longest name, with its mark?",
        "the number of targets is wrong; each name has its letters and its end",
        "the first two are right; the rows have 5, 6, 7 and 12 tokens, and in a batch each takes as many as the longest",
    ),
)
def width_targets_and_batches():
    # ? Write down the row of `ona` with both of its marks, then its inputs and its targets.
    # ? A name of n letters has a row of n + 2 tokens: n + 1 inputs and n + 1 targets.
    # ? max_tokens counts tokens and pads: a batch of B rows takes B times the tokens of its longest row. The rows come in order of length
    width = 10 + 1  # <bos> and the letters of aleksandra
    #! the width is that of the longest name with one mark, not two; the inputs end before <eos>
    # ~ width = 10 + 2
    #! the inputs begin with <bos>: a name of n letters takes n + 1 places
    # ~ width = 10
    #! the first two numbers leave out the marks; inputs begin with <bos>, and <eos> is a target
    # ~ width = 10
    # ~ targets = 4 + 5 + 6 + 11 -> targets = 3 + 4 + 5 + 10
    #! the first two numbers are in the other order, width first
    # ~ width = 26
    # ~ targets = 4 + 5 + 6 + 11 -> targets = 11
    targets = 4 + 5 + 6 + 11  # the letters of each name and its <eos>
    #! the end of each name is a target too
    # ~ targets = 3 + 4 + 5 + 10
    #! <bos> is never a target
    # ~ targets = 5 + 6 + 7 + 12
    #! places that hold padding are not targets
    # ~ targets = 4 * 11
    batches = 3  # 2 · 6 tokens, 1 · 7 and 1 · 12
    #! the first two are right; in a batch of three each row takes as many tokens as the longest of them, marks included
    # ~ batches = 2
    #! the first two are right; two short rows may share a batch
    # ~ batches = 4
    #! the first two are right; as one batch these rows would take 4 times 12 tokens
    # ~ batches = 1
    return width, targets, batches


@exercise("batches.2")
def collate_left(rows):
    # ? Where does a row start if it has to end in the last column?
    # ? `inputs[i, T - n :]` holds the last n places of row i
    T = max(map(len, rows)) - 1
    inputs = torch.full((len(rows), T), PAD)  # (B, T)
    #! the inputs are filled up with IGNORE, which no embedding can look up
    # ~ inputs = torch.full((len(rows), T), IGNORE)
    targets = torch.full((len(rows), T), IGNORE)  # (B, T)
    #! the targets are filled up with PAD; a loss would count them
    # ~ targets = torch.full((len(rows), T), PAD)
    for i, row in enumerate(rows):
        inputs[i, T - len(row) + 1 :] = torch.tensor(row[:-1])
        targets[i, T - len(row) + 1 :] = torch.tensor(row[1:])
        #! the targets are the inputs: shift them by one
        # ~ targets[i, T - len(row) + 1 :] = torch.tensor(row[:-1])
        #! you padded whole rows and then shifted: the pad before <bos> has <bos> as its target
        # ~ targets[i, max(T - len(row), 0) :] = torch.tensor(row if len(row) <= T else row[1:])
        #! you padded whole rows and then shifted: <bos> is a target, and the other targets are filled up with PAD
        # ~ targets[i] = PAD
        # | targets[i, max(T - len(row), 0) :] = torch.tensor(row if len(row) <= T else row[1:])
    return inputs, targets
    #! the padding is on the right, as in collate
    # ~ return collate(rows)
    #! the padding is on the left, but the names run backwards
    # ~ return [part.flip(1) for part in collate(rows)]
    #! only the inputs are padded on the left: the targets no longer stand below them
    # ~ return inputs, collate(rows)[1]
    #! inputs and targets are in the other order
    # ~ return targets, inputs


@exercise("batches.3", near=1e-4)
def expected_share(places, B):
    # ? A whole number m is the count of the numbers t = 0, 1, … that are below it: m = Σ [m > t].
    # ? The longest of B rows has at most t places only if all B have: the chance is F(t) to the power of B.
    # ? Over many batches, pads are B·(mean longest − mean) of B·(mean longest) places
    def F(t):
        return sum(n <= t for n in places) / len(places)
        #! F(t) is the share of rows with at most t places, those with t included
        # ~ return sum(n < t for n in places) / len(places)
        #! F(t) is the share of rows with at most t places, not with fewer than t
        # ~ return sum(n < t for n in places) / len(places)
        # ~ range(max(places)) -> range(max(places) + 1)

    longest = sum(1 - F(t) ** B for t in range(max(places)))
    #! that is the share with one width for all rows; the maximum belongs to each batch of B
    # ~ longest = max(places)
    #! you used the mean length of the shortest row; the longest has at most t places only if all have
    # ~ longest = sum((1 - F(t)) ** B for t in range(max(places)))
    #! the power B is missing; for one row the mean longest is the mean, and nothing is padding
    # ~ longest = sum(1 - F(t) for t in range(max(places)))
    #! the sum starts at t = 1, it has to start at t = 0
    # ~ longest = sum(1 - F(t) ** B for t in range(1, max(places)))
    return 1 - sum(places) / len(places) / longest
    #! that is the share of real places; subtract it from one
    # ~ return sum(places) / len(places) / longest
    #! that is the mean length of the longest row; the share is 1 - mean / mean longest
    # ~ return longest
    #! right, but in per cent; hand in a share, between 0 and 1
    # ~ return 100 - 100 * sum(places) / len(places) / longest
    #! pads are a share of all places, longest row times rows, not of the real ones
    # ~ return longest / (sum(places) / len(places)) - 1


@exercise(
    "batches.4",
    near=6e-4,  # 0.889 is enough
    parts=(
        "by row: the other held-out row is one of nine, and one of the nine is the partner",
        "by pair: groups stay together, so what is held out has its partner beside it",
    ),
)
def shares_with_a_partner():
    # ? Look at one held-out row. Where may its partner be?
    # ? The other held-out row is one of nine, and one of the nine is the partner.
    # ? Groups stay together, so what is held out has its partner beside it.
    by_row = 8 / 9  # 8 of the 9 others are in the training part
    #! 8 of 10 rows are learnt from, but a row is not its own partner: 8 of the other 9
    # ~ by_row = 0.8
    #! the partner may be held out too, in one case of nine
    # ~ by_row = 1
    #! 1/9 is the share whose partner is held out as well
    # ~ by_row = 1 / 9
    by_pair = 0
    #! with groups no partner stays behind
    # ~ by_pair = 8 / 9
    #! with groups no partner is in the training part: it is held out too
    # ~ by_pair = 1
    return by_row, by_pair
    #! first by row, then by pair
    # ~ return by_pair, by_row


@exercise("batches.5")
def split_by_group(rows, groups, held_out, seed):
    # ? Shuffle the list of different groups, and hand out whole groups.
    # ? Fill validation with group after group until it holds held_out * len(rows) rows, then test; the rest is train.
    # ? `names = sorted(set(groups))`, then `random.Random(seed).shuffle(names)`: a set has another order in each run of Python
    names = sorted(set(groups))
    #! a group stands in two parts; draw groups, not rows
    # ~ rows, n = random.Random(seed).sample(rows, len(rows)), math.ceil(held_out * len(rows))
    # | return rows[2 * n :], rows[:n], rows[n : 2 * n]
    random.Random(seed).shuffle(names)
    #! every seed gives the same cut; shuffle the groups with random.Random(seed)
    # ~
    #! the same seed gives two different cuts; shuffle the groups with random.Random(seed)
    # ~ random.shuffle(names)
    #! you drew from Python's global random numbers; random.Random(seed) has its own and disturbs nobody
    # ~ random.seed(seed)
    # | random.shuffle(names)
    parts = []
    for _ in range(2):  # validation, test
        part = []
        while len(part) < held_out * len(rows):
            #! a part has less than its share; count rows, not groups, and go on until it holds at least held_out of them all
            # ~ kept = max(1, round(held_out * len(set(groups))))
            # | for _ in range(kept):
            #! the test part has less than its share; it is one of all rows, not of those that are left
            # ~ while len(part) < held_out * (len(rows) - sum(map(len, parts))):
            #! a part went on after it held its share; stop as soon as it does
            # ~ while len(part) < 2 * held_out * len(rows):
            name = names.pop()
            part += [row for row, group in zip(rows, groups) if group == name]
        parts.append(part)
    return [row for row, group in zip(rows, groups) if group in names], *parts
    #! a row is lost or stands twice; train gets only what is in neither of the others
    # ~ return rows, *parts
    #! the parts are right; return train, validation and test, in this order
    # ~ return *parts, [row for row, group in zip(rows, groups) if group in names]
    #! three parts are asked for: train, validation and test
    # ~ return [row for row, group in zip(rows, groups) if group in names], parts[0]


@exercise("batches.6")
def rows_needed(a, x, m):
    # ? One row is right with probability a: what is the variance of a number that is 1 with probability a and else 0?
    # ? The mean of k independent ones has this variance divided by k; the standard error is its square root.
    # ? Groups that are right or wrong together are single draws: k is the number of groups, and the rows are m times as many
    groups = math.ceil(a * (1 - a) / x**2)
    #! the square root is missing: a(1 - a) / n is the variance of the accuracy
    # ~ groups = math.ceil(a * (1 - a) / x)
    #! rounded down, the standard error is above x
    # ~ groups = math.floor(a * (1 - a) / x**2)
    #! rounded to the nearest number, the standard error may be above x; round up
    # ~ groups = round(a * (1 - a) / x**2)
    #! that is for an accuracy of one half, the worst case
    # ~ groups = math.ceil(0.25 / x**2)
    #! that is for an interval of 95 %; x is the standard error itself
    # ~ groups = math.ceil(1.96**2 * a * (1 - a) / x**2)
    #! the variance is a(1 - a), not a
    # ~ groups = math.ceil(a / x**2)
    #! right but for whole rows: round up
    # ~ groups = a * (1 - a) / x**2
    return m * groups
    #! m is missing: rows that are right or wrong together count as one
    # ~ return groups
    #! m counts once: the number of groups times their size
    # ~ return m * m * groups
    #! right but for whole groups: round up the number of groups, then multiply
    # ~ return math.ceil(m * a * (1 - a) / x**2)


# ---------------------------------------------------------------- questions


def a_row(draw, n):
    "A row of n letters with both marks."
    return [BOS, *draw.tokens(n, low=5, high=40).tolist(), EOS]


@question("batches", "batches.2")
def ask_collate_left(draw):
    yield Call("three rows", ([[BOS, 5, 6, EOS], [BOS, 7, EOS], [BOS, 8, 9, 5, 4, EOS]],))
    yield Call("one row", ([a_row(draw, 4)],))
    yield Call("rows of one length", ([a_row(draw, 3), a_row(draw, 3)],))
    yield Call("rows without letters", ([a_row(draw, 0), a_row(draw, 0)],))
    yield Call("a row without letters", ([a_row(draw, 0), a_row(draw, 2)],))
    for _ in draw.rounds:
        rows = [a_row(draw, draw.size(0, 9)) for _ in range(draw.size(2, 6))]
        yield Call(f"rows of {', '.join(str(len(row)) for row in rows)} tokens", (rows,))


@question("batches", "batches.3")
def ask_expected_share(draw):
    fixed = [([3, 4, 4, 7, 9], 4), ([3, 4, 4, 7, 9], 1), ([2, 2, 8], 16), ([5, 5], 3), ([6], 2)]
    for places, B in [*fixed, ([1, 30], 2), ([1, 1, 1, 2], 5)]:
        yield Call(f"places = {places}, B = {B}", (places, B))
    for _ in range(5):
        places = [draw.size(1, 20) for _ in range(draw.size(2, 12))]
        B = draw.size(2, 32)
        yield Call(f"places = {places}, B = {B}", (places, B))


SEEDS = 20


def first_broken(answer, args, result):
    "Which promise about the three parts is broken first: they may be drawn in any way."
    rows, groups, held_out, seed = args
    state = random.getstate()
    random.seed("of this judge")
    ours = random.getstate()
    cuts = [answer(list(rows), list(groups), held_out, n) for n in (*range(SEEDS), seed)]
    untouched = random.getstate() == ours
    random.setstate(state)
    return {"": broken([*cuts, result], rows, groups, held_out, untouched) or "cuts as asked"}


def broken(cuts, rows, groups, held_out, untouched):
    "A promise that cuts by several seeds break, in words. The last two are by the same seed."
    for cut in cuts:
        lists = isinstance(cut, (tuple, list)) and all(isinstance(p, (tuple, list)) for p in cut)
        if not lists or len(cut) != 3:
            return "something else than three lists"
    if said := broken_in(cuts, rows, groups, held_out):
        turned = [(cut[2], *cut[:2]) for cut in cuts]
        return said if broken_in(turned, rows, groups, held_out) else "parts in another order"
    *others, one, two = [[sorted(part) for part in cut] for cut in cuts]
    if one != two:
        return "two cuts for one seed"
    if not untouched:
        return "cuts that draw from Python's global random numbers"
    return "one cut for all seeds" if all(other == one for other in others) else ""


def broken_in(cuts, rows, groups, held_out):
    "A promise that is broken whatever seed it was."
    group_of, need = dict(zip(rows, groups)), held_out * len(rows)
    if any(sorted(row for part in cut for row in part) != sorted(rows) for cut in cuts):
        return "a row that is lost or stands twice"
    found = [[{group_of[row] for row in part} for part in cut] for cut in cuts]
    if any(a & b or a & c or b & c for a, b, c in found):
        return "a group that stands in two parts"
    for i, name in (1, "validation"), (2, "test"):
        if any(len(cut[i]) < need - 1e-6 for cut in cuts):
            return f"a {name} part of less than its share of all rows"
    for i, name in (1, "validation"), (2, "test"):
        for cut, names in zip(cuts, found):
            if len(cut[i]) - max(map(groups.count, names[i])) >= need + 1e-6:
                return f"a {name} part that grew after it held its share"
    return ""


@question("batches", "batches.5")
def ask_split_by_group(draw):
    in_runs = [group for i, group in enumerate("abcdefghijklmnopqrst") for _ in range(1 + i % 5)]
    mixed = [i * 7 % 13 for i in range(52)]  # 13 groups of 4, never side by side
    large = [min(i, 20) for i in range(40)]  # 20 groups of one row, and one of 20
    many = [draw.size(1, 30) for _ in range(80)]
    for groups, held_out in (
        (in_runs, 0.2),
        (mixed, 0.1),
        (list(range(30)), 0.15),
        (large, 0.12),
        (many, 0.3),
    ):
        rows = [f"row {i:02}" for i in range(len(groups))]
        what = f"{len(rows)} rows in {len(set(groups))} groups, held_out = {held_out}"
        yield Call(what, (rows, groups, held_out, draw.size(2, SEEDS - 1)), look=first_broken)


@question("batches", "batches.6")
def ask_rows_needed(draw):
    fixed = [(0.9, 0.007, 1), (0.75, 0.013, 4), (0.6, 0.03, 7), (0.5, 0.04, 3), (0.99, 0.011, 10)]
    for a, x, m in fixed:
        yield Call(f"a = {a}, x = {x}, m = {m}", (a, x, m))
    for _ in range(7):
        a, x, m = draw.size(51, 97) / 100, draw.size(11, 60) / 1003, draw.size(2, 30)
        yield Call(f"a = {a}, x = {x:.4f}, m = {m}", (a, x, m))
