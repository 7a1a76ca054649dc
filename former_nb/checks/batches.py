"""Judges of the exercises on the page 07_batches, and the mistakes that they know."""

import random

import torch

from ..base.exercises import diagnose, diagnose_formula, exercise
from ..data.text import BOS, EOS, IGNORE, PAD, collate


@exercise(
    "batches.1",
    "Write down the row of `ona` with both of its marks, then its inputs and its targets",
    "A name of n letters has a row of n + 2 tokens: n + 1 inputs and n + 1 targets",
    "max_tokens counts tokens and pads: a batch of B rows takes B times the tokens of its "
    "longest row. The rows come in order of length",
)
def judge_batches_1(answer):
    "Three numbers: the width of the batch, how many targets count, and how many batches."
    problem = diagnose(answer, [11, 26, 3])
    if problem is None or "shape" in problem or "expected" in problem:
        return problem
    answer = torch.as_tensor(answer)
    return diagnose(
        answer[:2],
        [11, 26],
        {
            "the width is that of the longest name with one mark, not "
            "two; the inputs end before <eos>": [12, 26],
            "the inputs begin with <bos>: a name of n letters takes n + 1 places": [10, 26],
            "the end of each name is a target too": [11, 22],
            "<bos> is never a target": [11, 30],
            "places that hold padding are not targets": [11, 44],
            "the first two numbers leave out the marks; inputs begin "
            "with <bos>, and <eos> is a target": [10, 22],
            "the first two numbers are in the other order, width first": [26, 11],
        },
    ) or diagnose(
        answer[2],
        3,
        {
            "the first two are right; in a batch of three each row takes as many tokens "
            "as the longest of them, marks included": 2,
            "the first two are right; two short rows may share a batch": 4,
            "the first two are right; as one batch these rows would take 4 times 12 tokens": 1,
        },
    )


@exercise(
    "batches.2",
    "Where does a row start if it has to end in the last column?",
    "`inputs[i, T - n :]` holds the last n places of row i",
)
def judge_batches_2(answer):
    "A function of rows that returns inputs and targets, both (B, T)."
    rows = [[BOS, 5, 6, EOS], [BOS, 7, EOS], [BOS, 8, 9, 5, 4, EOS]]
    inputs = torch.tensor([[PAD, PAD, BOS, 5, 6], [PAD, PAD, PAD, BOS, 7], [BOS, 8, 9, 5, 4]])
    targets = torch.tensor(
        [[IGNORE, IGNORE, 5, 6, EOS], [IGNORE, IGNORE, IGNORE, 7, EOS], [8, 9, 5, 4, EOS]]
    )
    padded = targets.masked_fill(targets == IGNORE, PAD)
    asked = targets.clone()
    asked[0, 1] = asked[1, 2] = (
        BOS  # what a pad before <bos> says when whole rows are padded, then shifted
    )
    mirrored = torch.stack(collate(rows)).flip(2)
    given = answer([list(row) for row in rows])
    if (
        not isinstance(given, (tuple, list))
        or len(given) != 2
        or not all(isinstance(t, torch.Tensor) for t in given)
    ):
        return f"expected two tensors, inputs and targets, got {type(given).__name__}"
    if given[0].shape != given[1].shape:
        return (
            "inputs and targets differ in shape: "
            f"{tuple(given[0].shape)} and {tuple(given[1].shape)}"
        )
    return diagnose(
        torch.stack(tuple(given)),
        torch.stack([inputs, targets]),
        {
            "the padding is on the right, as in collate": torch.stack(collate(rows)),
            "the targets are filled up with PAD; a loss would count them": torch.stack(
                [inputs, padded]
            ),
            "the inputs are filled up with IGNORE, which no embedding can look up": torch.stack(
                [inputs.masked_fill(inputs == PAD, IGNORE), targets]
            ),
            "the targets are the inputs: shift them by one": torch.stack(
                [inputs, inputs.masked_fill(inputs == PAD, IGNORE)]
            ),
            "inputs and targets are in the other order": torch.stack([targets, inputs]),
            "you padded whole rows and then shifted: the pad before "
            "<bos> has <bos> as its target": torch.stack([inputs, asked]),
            "you padded whole rows and then shifted: <bos> is a target, and the "
            "other targets are filled up with PAD": torch.stack(
                [inputs, asked.masked_fill(asked == IGNORE, PAD)]
            ),
            "the padding is on the left, but the names run backwards": mirrored,
            "only the inputs are padded on the left: the targets "
            "no longer stand below them": torch.stack([inputs, collate(rows)[1]]),
        },
    )


@exercise(
    "batches.3",
    "A whole number m is the count of the numbers t = 0, 1, … that are below it: m = Σ [m > t]",
    "The longest of B rows has at most t places only if all B have: "
    "the chance is F(t) to the power of B",
    "Over many batches, pads are B·(mean longest − mean) of B·(mean longest) places",
)
def judge_batches_3(answer):
    "A function of a list of whole numbers and of B that returns a share."
    cases = [([3, 4, 4, 7, 9], 4), ([3, 4, 4, 7, 9], 1), ([2, 2, 8], 16), ([5, 5], 3)]

    def values(longest):
        "The share for each case, from a function that gives the mean longest row."
        rows = [(torch.tensor(places).double(), B) for places, B in cases]
        return torch.stack([1 - x.mean() / longest(x, B) for x, B in rows])

    def summed(term, start=0):
        def longest(x, B):
            F = (
                (x[None, :] <= torch.arange(start, int(x.max()) + start)[:, None]).double().mean(1)
            )  # one per t
            return term(F, B).sum()

        return longest

    right = values(summed(lambda F, B: 1 - F**B))
    means = torch.tensor([sum(places) / len(places) for places, _ in cases]).double()
    return diagnose(
        [float(answer(list(places), B)) for places, B in cases],
        right,
        {
            "that is the share with one width for all rows; the "
            "maximum belongs to each batch of B": values(lambda x, B: x.max()),
            "you used the mean length of the shortest row; the longest has "
            "at most t places only if all have": values(summed(lambda F, B: (1 - F) ** B)),
            "the power B is missing; for one row the mean longest is "
            "the mean, and nothing is padding": values(summed(lambda F, B: 1 - F)),
            "the sum starts at t = 1, it has to start at t = 0": values(
                summed(lambda F, B: 1 - F**B, start=1)
            ),
            "F(t) is the share of rows with at most t places, those with t included": values(
                summed(lambda F, B: 1 - F**B, start=-1)
            ),
            "F(t) is the share of rows with at most t places, not with fewer than t": values(
                lambda x, B: 1 + summed(lambda F, B: 1 - F**B)(x, B)
            ),
            "that is the share of real places; subtract it from one": 1 - right,
            "that is the mean length of the longest row; the "
            "share is 1 - mean / mean longest": means / (1 - right),
            "right, but in per cent; hand in a share, between 0 and 1": 100 * right,
        },
    )


@exercise(
    "batches.4",
    "Look at one held-out row. Where may its partner be?",
    "The other held-out row is one of nine, and one of the nine is the partner.",
    "Groups stay together, so what is held out has its partner beside it.",
)
def judge_batches_4(answer):
    "Two shares: cut by row, and by pair."
    return diagnose(
        answer,
        [8 / 9, 0.0],
        {
            "first by row, then by pair": [0.0, 8 / 9],
            "8 of 10 rows are learnt from, but a row is not its own partner: 8 of the other 9": [
                0.8,
                0.0,
            ],
            "the partner may be held out too, in one case of nine": [1.0, 0.0],
            "1/9 is the share whose partner is held out as well": [1 / 9, 0.0],
            "with groups no partner stays behind": [8 / 9, 8 / 9],
            "with groups no partner is in the training part: it is held out too": [8 / 9, 1.0],
        },
    )


def _parts_of(answer, rows, groups, held_out, seed):
    "The answer's three parts as lists, or a sentence where it is anything else."
    parts = answer(list(rows), list(groups), held_out, seed)
    if (
        not isinstance(parts, (tuple, list))
        or len(parts) != 3
        or not all(isinstance(part, (tuple, list)) for part in parts)
    ):
        return "expected three lists: train, validation and test"
    return [list(part) for part in parts]


def _wrong_with(parts, rows, groups, held_out):
    "What is wrong with one cut, as a sentence; None if nothing is."
    group_of = dict(zip(rows, groups))
    given = [row for part in parts for row in part]
    if sorted(given) != sorted(rows):
        return "a row is lost or stands twice; each belongs to exactly one part"
    found = [{group_of[row] for row in part} for part in parts]
    for one, two in ((0, 1), (0, 2), (1, 2)):
        if found[one] & found[two]:
            return (
                f"group {min(found[one] & found[two])!r} stands in two parts; draw groups, not rows"
            )
    need = held_out * len(rows)
    for name, part, names in (("validation", parts[1], found[1]), ("test", parts[2], found[2])):
        if len(part) < need:
            return (
                f"{name} holds {len(part)} of {len(rows)} rows, less than {held_out} of "
                "them; the share is one of all rows, not of the groups or of what is left"
            )
        if len(part) - max(groups.count(group) for group in names) >= need:
            return (
                f"{name} holds {len(part)} of {len(rows)} rows; stop as soon "
                f"as it holds the share {held_out}"
            )


@exercise(
    "batches.5",
    "Shuffle the list of different groups, and hand out whole groups",
    "Fill validation with group after group until it holds held_out * "
    "len(rows) rows, then test; the rest is train",
    "`names = sorted(set(groups))`, then `random.Random(seed).shuffle(names)`: a "
    "set has another order in each run of Python",
)
def judge_batches_5(answer):
    "A function of rows, groups, held_out and seed that returns three lists."
    in_runs = [
        group for i, group in enumerate("abcdefghijklmnopqrst") for _ in range(1 + i % 5)
    ]  # 60 rows, runs of 1 to 5
    mixed = [i * 7 % 13 for i in range(52)]  # 13 groups of 4, never side by side
    for groups, held_out in (in_runs, 0.2), (mixed, 0.1):
        rows = [f"row {i:02}" for i in range(len(groups))]
        cuts = []
        for seed in (0, 1, 2, 3, 0):
            before = random.getstate()
            parts = _parts_of(answer, rows, groups, held_out, seed)
            problem = (
                parts if isinstance(parts, str) else _wrong_with(parts, rows, groups, held_out)
            )
            if (
                problem
                and not isinstance(parts, str)
                and not _wrong_with([parts[2], *parts[:2]], rows, groups, held_out)
            ):
                problem = "the parts are right; return train, validation and test, in this order"
            if problem is None and random.getstate() != before:
                problem = (
                    "you drew from Python's global random numbers; "
                    "random.Random(seed) has its own and disturbs nobody"
                )
            if problem is not None:
                return problem
            cuts.append(parts)
        if cuts[0] != cuts[4]:
            return "the same seed gave two different cuts"
        if all(cut[1:] == cuts[0][1:] for cut in cuts):
            return "every seed gives the same cut; shuffle the groups with random.Random(seed)"


@exercise(
    "batches.6",
    "One row is right with probability a: what is the variance of a number "
    "that is 1 with probability a and else 0?",
    "The mean of k independent ones has this variance divided by k; "
    "the standard error is its square root",
    "Groups that are right or wrong together are single draws: k is the number of "
    "groups, and the rows are m times as many",
)
def judge_batches_6(answer):
    "A function of a, x and m that returns a number of rows."
    cases = [(0.9, 0.007, 1), (0.75, 0.013, 4), (0.6, 0.03, 7)]

    return diagnose_formula(
        answer,
        "a, x, m",
        cases,
        "m * ceil(a * (1 - a) / x**2)",
        {
            "m * ceil(a * (1 - a) / x)": "the square root is missing: a(1 - a) / n is the "
            "variance of the accuracy",
            "ceil(a * (1 - a) / x**2)": "m is missing: rows that are right or wrong together "
            "count as one",
            "ceil(m * a * (1 - a) / x**2)": "right but for whole groups: round up the number of "
            "groups, then multiply",
            "m * a * (1 - a) / x**2": "right but for whole rows: round up",
            "m * floor(a * (1 - a) / x**2)": "rounded down, the standard error is above x",
            "m**2 * ceil(a * (1 - a) / x**2)": "m counts once: the number of groups times their "
            "size",
            "m * ceil(0.25 / x**2)": "that is for an accuracy of one half, the worst case",
            "m * ceil(1.96**2 * a * (1 - a) / x**2)": "that is for an interval of 95 %; x is the "
            "standard error itself",
            "m * ceil(a / x**2)": "the variance is a(1 - a), not a",
        },
    )
