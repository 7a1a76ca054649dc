"""Judges of the exercises on the page 16_translation, and the mistakes that they know."""

import math
from collections import Counter

import numpy as np
import torch

from ..base.exercises import diagnose, diagnose_each, edited, exercise, explain_error, unnamed
from ..inspection.translation import count_runs


def count_shared(hypothesis, reference, n):
    "The shared runs of n words, and all runs of the hypothesis."

    def cut(text, step=1):
        starts = range(0, len(text) - n + 1, step)
        return Counter(tuple(text[i : i + n]) for i in starts)

    runs = cut(hypothesis)
    right = cut(reference)
    shared = sum(min(count, right[run]) for run, count in runs.items())
    return shared, sum(runs.values())


_RUN_MISTAKES = edited(
    count_shared,
    {
        "min(count, right[run]) -> count * (run in right)": "nothing was clipped; a run counts at "
        "most as often as the reference has it",
        "min(count, right[run]) -> (run in right)": "each run was counted once; a run that both "
        "texts have twice counts twice",
        "min(count, right[run]) -> (run in right); sum(runs.values()) -> len(runs)": "a set holds "
        "each run once; count how often each is there, with a `Counter`",
        "len(text) - n + 1 -> len(text)": "the last runs are shorter than `n`; a run begins at "
        "word T − n at the latest",
        "tuple( -> frozenset(": "the runs were cut into sets of words; the order of the words in "
        "a run counts, too",
        "len(text) - n + 1 -> len(text); i + n -> i + 1": "those are single words; a run has `n` "
        "of them, one after another",
        "for i in starts -> for n in range(1, n + 1) for i in range(len(text) - n + 1)": "all "
        "lengths up to `n` were added; asked for are the runs of exactly `n` words",
        "sum(runs.values()) -> sum(right.values())": "the second number is about the reference; "
        "how many runs has the translation?",
        "sum(runs.values()) -> len(hypothesis)": "the second number is that of the words; T words "
        "have T − n + 1 runs",
        "len(text) - n + 1 -> len(text) - n": "the last run is missing; T words have T − n + 1 "
        "runs",
        "min(count, right[run]) -> count; runs.items() -> right.items() if run in runs": "the "
        "reference's runs were counted; a run counts at most as often as the translation has it, "
        "too",
        "cut(hypothesis) -> cut(hypothesis, n)": "runs overlap: each begins one word after the one "
        "before",
        "step=1 -> step=n": "runs overlap: each begins one word after the one before, in both "
        "texts",
        "tuple(text[i : i + n]) -> (i, *text[i : i + n])": "two runs at the same place were "
        "compared; a run may stand anywhere in the reference",
        "min(count, right[run]) -> min(count, right[run]) * count": "a run that comes twice is "
        "there twice in yours, and counted twice each time",
        "sum(runs.values()) -> sum((runs | right).values())": "the second number counts the "
        "translation's runs alone, not those of both",
        "starts = -> text = ' '.join(text)\n        starts =": "those are runs of "
        "letters; count words",
        "return shared, sum(runs.values()) -> return sum(runs.values()), shared": "the two "
        "numbers are exchanged; the shared runs come first",
        "return shared, sum(runs.values()) -> return shared / max(1, sum(runs.values()))": "that "
        "is a share; return both numbers, and divide once all sentences are added",
    },
)


@exercise(
    "16.1",
    "Which runs of n words has the translation? The first begins at word 0, and the last one ends "
    "with the last word.",
    "A `Counter` counts tuples: `runs[tuple(hypothesis[i : i + n])] += 1`.",
    "For two Counters, `a & b` takes the smaller count of each run, and `.total()` adds them up.",
)
def judge_16_1(
    answer,  # my_shared(hypothesis, reference, n) -> two numbers
) -> str | None:  # None if right, else what it looks like
    "Judge the clipped count of runs of one to four words."
    reference = "the dog runs to the red dog and the dog runs home again at last .".split()
    hypothesis = "the dog runs the dog red the to dog runs the dog runs .".split()
    cases = [(hypothesis, reference, n) for n in (2, 1, 3, 4)]
    cases += [
        (reference, hypothesis, 2),
        (reference, reference, 2),
        ("a dog".split(), reference, 4),
    ]
    for case in cases:
        try:
            given = answer(list(case[0]), list(case[1]), case[2])
        except (TypeError, IndexError) as error:
            return explain_error(
                error,
                {
                    "unhashable": "a list can't be counted; make a tuple of each run, `tuple(…)`",
                    "index out of range": "a run of n words begins at T - n at the latest; "
                    "an index runs past the end",
                },
            )
        if given is None or given is ...:
            return "your function returned nothing; end it with `return` and two numbers"
        right = count_shared(*case)
        parts = given if isinstance(given, (tuple, list)) else [given]
        if any(isinstance(part, dict) for part in parts):
            return "those are the counts of each run; `.total()` adds them up"
        if any(isinstance(part, (tuple, list, set, frozenset, str)) for part in parts):
            return "those are the runs; return how many there are"
        if right == (0, 0) and np.shape(given) == (2,) and min(given) < 0:
            return "a text shorter than `n` has no runs, and not a negative number of them"
        if np.shape(given) == () and given == right[0]:
            return "that is the first number, the shared runs; return how many there are, too"
        for sentence, mistake in _RUN_MISTAKES.items():
            wrong = mistake(*case)
            if np.shape(given) == np.shape(wrong) and np.allclose(given, wrong):
                both = [np.array_equal(answer(*c), mistake(*c)) for c in cases[:2]]
                if wrong != right and all(both):  # and not by chance
                    return sentence
        if np.shape(given) != (2,):
            return "expected two numbers: the shared runs, and all runs of the translation"
        if tuple(given) != right:
            if given[1] == right[1] and given[0] == right[0] / max(1, right[1]):
                return "the first number is the count of shared runs, not yet divided by all"
            return unnamed(
                f"for n = {case[2]} the translation has {right[1]} runs, of which {right[0]} are "
                f"shared; got {given[0]} shared of {given[1]}"
            )
    return None


@exercise(
    "16.2",
    "One state has a tensor for each name. What is the mean of one name over all states?",
    "torch.stack([state[name] for state in states]).mean(dim=0), for each name of the first state.",
    "`t.is_floating_point()` tells which tensors have a mean; keep the others as they are.",
)
def judge_16_2(answer):
    "Judge the mean of three states with two weights and a count, and that of four."
    return _judge_mean(answer, 3) or _judge_mean(answer, 4)


def _judge_mean(answer, n_states):
    "What is wrong with a mean of so many states, or None."
    g = torch.Generator("cpu").manual_seed(0)
    states = [
        {
            "w": torch.randn(2, 3, generator=g, device="cpu"),
            "b": torch.randn(3, generator=g, device="cpu"),
            "count": torch.tensor(7 + i, device="cpu"),
        }
        for i in range(n_states)
    ]
    before = [{name: t.clone() for name, t in state.items()} for state in states]
    try:
        given = answer(states)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return explain_error(
            error,
            {
                "could not infer output dtype": "whole numbers have no mean; keep those of the "
                "first state",
                "can't be cast": "whole numbers can't be divided in place, and the states are not "
                "to be changed; make a new tensor of the floating point numbers",
                "must be Tensor, not list": "`torch.stack` makes one tensor of the list first",
                "'int' and 'dict'": "dictionaries can't be added; go through the names",
            },
        )
    if given is None or given is ...:
        return "your function returned nothing; end it with `return` and a dictionary"
    if any(not torch.equal(s[name], b[name]) for s, b in zip(states, before) for name in b):
        return "the states were changed in place; make new tensors"
    if isinstance(given, dict) and given.keys() == {"w", "b"}:
        return "`count` is missing; keep that of the first state, which can't be averaged"
    if isinstance(given, dict) and given is states[-1]:
        return "that is the last state; take the mean of all"
    if not isinstance(given, dict) or given.keys() != states[0].keys():
        return "expected a dictionary with the names of the first state"
    count = given["count"]
    if not isinstance(count, torch.Tensor):
        return f"`count` is {type(count).__name__}; keep the tensor of the first state"
    if count.shape != () or count.dtype != torch.int64 or count.item() != 7:
        return "`count` holds a whole number; keep that of the first state"
    for name in ("w", "b"):
        stacked = torch.stack([state[name] for state in states])
        mistakes = {
            f"{name!r} is the sum of the states; divide by their number": stacked.sum(0),
            f"{name!r} is that of the first state": stacked[0],
            f"{name!r} is that of the last state": stacked[-1],
            f"{name!r} is the median of the states": stacked.median(0).values,
            f"{name!r} has become one number; take the mean over the states only": stacked.mean(),
        }
        for number in (2, 3):
            if number != n_states:
                said = f"{name!r} is divided by {number}; there may be any number of states"
                mistakes[said] = stacked.sum(0) / number
        running = stacked[0]
        for weight in stacked[1:]:
            running = (running + weight) / 2
        mistakes |= {
            f"{name!r} halves the mean at each state; the last one weighs most": running,
            f"{name!r} has all states, one beside the other; take their mean": stacked,
            f"{name!r} is averaged along its own last axis; the states are axis 0": stacked.mean(
                -1
            ),
            f"{name!r} has the states one behind the other; `torch.stack` puts them on an axis of "
            "their own": torch.cat(list(stacked)).mean(0),
        }
        if problem := diagnose(given[name], stacked.mean(0), mistakes):
            return problem
    return None


_BREVITY = {  # a wrong BLEU, to two or three figures -> what to say
    100 * math.exp(-1): "",  # right
    100.0: "the precisions are right; the brevity penalty is missing",
    1.0: "the brevity penalty is missing, and BLEU runs from 0 to 100 here",
    math.exp(-1): "BLEU runs from 0 to 100 here",
    50.0: "the brevity penalty is exp(1 − r/c), not c/r",
    0.5: "the brevity penalty is exp(1 − r/c), not c/r; and BLEU runs from 0 to 100",
    100 * math.exp(-0.5): "the exponent is 1 − r/c = −1; 1 − c/r was taken",
    math.exp(-0.5): "the exponent is 1 − r/c = −1; 1 − c/r was taken, and BLEU is 0 to 100",
    100 * math.exp(-2): "the exponent is 1 − r/c = −1; the 1 is missing",
    math.exp(-2): "the exponent is 1 − r/c = −1; the 1 is missing, and BLEU is 0 to 100",
    100 * math.exp(-0.25): "the penalty multiplies, it does not enter the root",
    100 - 100 * math.exp(-1): "that is what the penalty takes; BLEU is what is left",
    1 - math.exp(-1): "that is what the penalty takes; BLEU is what is left, from 0 to 100",
    100 * math.exp(-0.2): "the reference has ten words and the translation five, so r/c is 2",
    math.e: "the exponent is 1 − r/c, which is −1 and not 1; a penalty lowers the score",
    50 * math.exp(-1): "all precisions are 1; only the penalty acts, exp(1 − r/c)",
    25.0: "the penalty is exp(1 − r/c), not the share c/r squared",
    0.25: "the penalty is exp(1 − r/c), not the share c/r squared; and BLEU is 0 to 100",
    0.0: "no precision is zero, so BLEU isn't either",
}


@exercise(
    "16.3",
    "A precision asks how much of what was *said* is in the reference, not "
    "how much of the reference was said.",
    "The first five words hold 5 words, 4 pairs, 3 triples and 2 runs of four. "
    "How many of them are in the reference?",
    "What is left is the brevity penalty, exp(1 − r/c), with r = 10 and c = 5.",
)
def judge_16_3(answer):
    "Five numbers."
    e, five = 100 * math.exp(-1), isinstance(answer, (list, tuple)) and len(answer) == 5
    recalls, by_five, short = [5 / 10, 4 / 9, 3 / 8, 2 / 7], [1, 4 / 5, 3 / 5, 2 / 5], [0.5] * 4
    for wrong, sentence in (
        (recalls, "those are recalls: a precision divides by what was said"),
        (by_five, "a precision divides by the runs of its own length: five words hold four pairs"),
        ([100] * 4, "precisions are shares, 0 to 1; BLEU alone runs from 0 to 100"),
        ([5, 4, 3, 2], "those are how many are shared; divide by how many were said"),
        ([0.5, 0.4, 0.3, 0.2], "a precision divides by what was said, five words and four pairs"),
        ([1, 1, 1, 0], "the five words hold two runs of four, and the reference has both"),
        ([math.exp(-1)] * 4, "the penalty belongs to BLEU; the precisions are without it"),
        (short, "all that was said is in the reference; how short it is, only the penalty says"),
    ):
        if five and np.allclose(answer[:4], wrong, atol=0.01):
            return sentence
    if five and np.allclose(answer[:4], 1, atol=0.01):
        for number, sentence in _BREVITY.items():
            if abs(answer[4] - number) < 0.006 * max(1.0, number / 10):
                return sentence or None
    return diagnose(
        answer,
        [1, 1, 1, 1, e],
        {
            "the precisions are right; the brevity penalty is missing": [1, 1, 1, 1, 100],
            "BLEU runs from 0 to 100 here": [1, 1, 1, 1, e / 100],
            "the brevity penalty is exp(1 − r/c), not c/r": [1, 1, 1, 1, 50],
            "the exponent is 1 − r/c = −1; 1 − c/r was taken": [1, 1, 1, 1, 100 * math.exp(-0.5)],
            "the penalty multiplies, it does not enter the root": [1] * 4 + [100 * math.exp(-0.25)],
        },
    )


def count_of_several(hypothesis, references):
    "The counts of BLEU with several references."
    counts = []
    for n in [1, 2, 3, 4]:
        runs = count_runs(hypothesis, n)
        most = count_runs(references[0], n)
        for reference in references[1:]:
            most = most | count_runs(reference, n)
        counts += [(runs & most).total(), runs.total()]
    c = len(hypothesis)
    lengths = [len(reference) for reference in references]
    r = min(lengths, key=lambda length: (abs(length - c), length))
    return torch.tensor([*counts, c, r], dtype=torch.float64)


_NEAREST = "min(lengths, key=lambda length: (abs(length - c), length))"
_SEVERAL_MISTAKES = edited(
    count_of_several,
    {
        "most | -> most +": "the references are added up: a run may count as often as one of them "
        "has it, not all together",
        "most | -> most &": "a run counts as often as the reference has it that has it *most* "
        "often, not least",
        f"references[1:] -> []; {_NEAREST} -> lengths[0]": "only the first reference is looked at",
        "references[1:] -> []": "the runs are clipped by the first reference only",
        f"{_NEAREST} -> lengths[0]": "the length is that of the first reference",
        f"{_NEAREST} -> min(lengths)": "the length is that of the reference *nearest* in length, "
        "not of the shortest",
        f"{_NEAREST} -> max(lengths)": "the length is that of the reference *nearest* in length, "
        "not of the longest",
        f"{_NEAREST} -> sum(lengths) / len(lengths)": "the length is that of one reference, not "
        "the mean",
        f"{_NEAREST} -> sum(lengths)": "the length is that of one reference, not of all together",
        "(abs(length - c), length) -> (abs(length - c), -length)": "of two lengths equally near "
        "the shorter counts",
        "[*counts, c, r] -> [*counts, r, c]": "the last two numbers are exchanged: the "
        "translation's length comes first",
        "[*counts, c, r] -> [*counts[::2], *counts[1::2], c, r]": "shared runs and all runs "
        "alternate, as in `bleu_counts`",
        "[*counts, c, r] -> counts": "the two lengths at the end are missing",
        "(runs & most).total() -> 0": "no run is shared in yours; `&` with an empty Counter leaves "
        "nothing, take `|`",
        ", runs.total()] -> , len(runs)]": "all runs of the translation count, also one that comes "
        "again",
        "[(runs & most).total(), runs.total()] -> [runs.total(), (runs & most).total()]": "shared "
        "runs come first, then all runs",
        "[(runs & most).total(), runs.total()] -> [runs.total(), (runs & most).total()]; "
        "[*counts, c, r] -> [*counts, r, c]": "shared runs come first, then all runs; and at the "
        "end the translation's length",
        "[1, 2, 3, 4] -> [1, 2, 3]": "runs of one to four words are counted; yours end at three",
    },
)


@exercise(
    "16.4",
    "Start from `bleu_counts` and change two things: what the runs "
    "are clipped by, and the last number.",
    "Counters know the maximum of two: `a | b`. Join those of all references, then clip as before.",
    "The length: `min((len(r) for r in references), key=lambda n: (abs(n - len(hypothesis)), n))`.",
)
def judge_16_4(answer):
    "A function of a list of words and of a list of such lists."
    said = "the the dog dog dog runs in the snow".split()
    references = [
        "a cat and the dog in the white park of the town".split() + ["."],
        "the dog dog runs".split(),
        "a dog runs in the deep white snow of the park".split(),
        "the the dog in the snow runs to the wood and far away .".split(),
    ]
    equally = [
        "a b c d e f g h".split(),
        "a b c d e f g h i j".split(),
        "a b c d e f g h i j k l m".split(),
    ]
    for words, others in (
        (said, references),
        (said, references[::-1]),
        (said, equally),
        (said, equally[::-1]),
    ):
        try:
            given = answer(list(words), [list(other) for other in others])
        except TypeError as error:
            return explain_error(
                error, {"unhashable": "`bleu_counts` takes one reference, and here are several"}
            )
        right = count_of_several(words, others)
        one = [count_of_several(words, [other]) for other in others]
        alone, added = right.clone(), right.clone()  # with each reference's own shared runs
        for i in (0, 2, 4, 6):
            alone[i] = max(counts[i] for counts in one)
            added[i] = sum(counts[i] for counts in one)
        nearest = min(others, key=lambda other: (abs(len(other) - len(words)), len(other)))
        wrong = {said: count(words, others) for said, count in _SEVERAL_MISTAKES.items()}
        wrong |= {
            "the shared runs are those of the best single reference; each run may come from "
            "another": alone,
            "the shared runs of all references are added; a run counts once": added,
            "the counts of all references are added up": sum(one),
            "the counts of all references are averaged": sum(one) / len(one),
            "each count is the largest of all references; that holds for no run by itself": (
                torch.stack(one).max(0).values
            ),
            "the references are one long text in yours; they are several": count_of_several(
                words, [sum(others, [])]
            ),
            "only one reference is looked at, here the last; runs may come from all": one[-1],
            "only the nearest reference is looked at; the runs may come from all": count_of_several(
                words, [nearest]
            ),
            "each reference has a row in yours; join their counts with `|`": torch.stack(one),
        }
        problem = diagnose(np.asarray(given, dtype=float), right, wrong)
        if problem:
            return problem


@exercise(
    "16.5",
    "Shorter: all precisions are 1, only the penalty acts. What is c, if r is 1?",
    "Longer: there is no penalty. What share of what was said is right, for n = 1? "
    "For n = 4 it is the same, in a long text.",
    "100 (1 − exp(1 − 1/(1 − s))) and 100 (1 − 1/(1 + s)).",
)
def judge_16_5(answer):
    "A function of a share."
    for s in (0.3, 0.05):
        short, long = 1 - math.exp(1 - 1 / (1 - s)), 1 - 1 / (1 + s)
        got = answer(s)
        if np.ndim(got) == 0 or len(got) != 2:
            return "expected two numbers: the cost of being shorter, and of being longer"
        problem = diagnose(
            [float(x) for x in got],
            100 * torch.tensor([short, long], dtype=torch.float64),
            {
                "in points, 0 to 100": torch.tensor([short, long]).double(),
                "that is what is left; the cost is 100 less that": (
                    100 - 100 * torch.tensor([short, long]).double()
                ),
                "first shorter, then longer": 100 * torch.tensor([long, short]).double(),
                "exactly, not for small s only": 100 * torch.tensor([s, s]).double(),
                "shorter by the share s means c = (1 − s) r, so the exponent is 1 − 1/(1 − s)": (
                    100 * torch.tensor([1 - math.exp(-s), long]).double()
                ),
                "the penalty is exp(1 − r/c), not c/r": 100 * torch.tensor([s, long]).double(),
                "the exponent is 1 − r/c, the reference above": (
                    100 * torch.tensor([1 - math.exp(s), long]).double()
                ),
                "where c is larger than r the penalty is 1: it never helps": (
                    100 * torch.tensor([short, 1 - math.exp(s / (1 + s)) / (1 + s)]).double()
                ),
                "longer by the share s: s / (1 + s) of what was said is wrong, not s": (
                    100 * torch.tensor([short, s]).double()
                ),
                "for a longer text there is no penalty, only lower precisions": (
                    100 * torch.tensor([short, 0.0]).double()
                ),
                "the mean of four equal precisions is that precision, not its fourth power": (
                    100 * torch.tensor([short, 1 - (1 + s) ** -4]).double()
                ),
            },
        )
        if problem and problem.startswith("the numbers differ"):
            c = 1 - s
            return diagnose_each(
                got,
                {"shorter": 100 * short, "longer": 100 * long},
                [
                    {
                        short: "in points, 0 to 100",
                        100 - 100 * short: "that is what is left; the cost is 100 less that",
                        100 * s: "the penalty is exp(1 − r/c), not c/r",
                        s: "the penalty is exp(1 − r/c), not c/r; and in points, 0 to 100",
                        100 * (1 - math.exp(-s)): "c = (1 − s) r, so the exponent is 1 − 1/(1 − s)",
                        100 * s / c: "exactly, not for small s only; that is 1/c − 1",
                        100 * (1 - c * (1 - short)): "all precisions are 1; only the penalty acts",
                        0: "all precisions are 1, but a short translation has a penalty",
                        -100 * short: "a cost is positive",
                        100 * (1 - math.exp(-s / (1 + s))): "r is 1 and c is 1 − s; you took r = 1 "
                        "+ s",
                        100 * (1 - math.exp(4 - 4 / c)): "the penalty counts once, not for each n",
                        100 * (1 - math.exp(s)): "the exponent is 1 − r/c, the reference above",
                        1 - short: "that is what is left, and BLEU runs from 0 to 100",
                    },
                    {
                        long: "in points, 0 to 100",
                        s: "s / (1 + s) of what was said is wrong, not s; and in points, 0 to 100",
                        100 * s: "s / (1 + s) of what was said is wrong, not s",
                        100 - 100 * long: "that is what is left; the cost is 100 less that",
                        100
                        - 100 * s: "that is what is left of another text; the cost is asked for",
                        1 - s: "that is what is left, and BLEU runs from 0 to 100",
                        0: "there is no penalty, but wrong words lower the precisions",
                        100 * short: "a longer text has no penalty; its precisions are lower",
                        100
                        * (1 - c**4): "the mean of four equal precisions is that precision, not "
                        "its fourth power",
                        400 * s: "the four precisions are averaged, not added",
                        250 * s: "the wrong words are all at the end, so they spoil few runs more",
                        25 * s: "all four precisions fall, not one of them",
                        100 * (1 - c**0.25): "all four precisions fall, so the root takes nothing "
                        "away",
                        -100 * s: "a cost is positive",
                    },
                ],
            )
        if problem:
            return problem


@exercise(
    "16.6",
    "A weight means something only together with the weights around it. When do "
    "two models agree on what each number means?",
    "Two seeds begin with other random numbers: what is head 1 in one may "
    "be nothing, or head 4, in the other.",
    "(c) computes the same as the model, yet its numbers are "
    "elsewhere: the mean mixes two heads into one.",
)
def judge_16_6(answer):
    "Four booleans."
    return diagnose(
        answer,
        [True, False, False, True],
        {
            "two seeds give two models that are equally good and have "
            "nothing in common, number by number": [True, True, False, True],
            "the two of (c) compute the same, but not in the same "
            "positions: the mean mixes two heads": [True, False, True, True],
            "number by number: neither two seeds nor exchanged heads agree on what is where": [
                True,
                True,
                True,
                True,
            ],
            "a hundred small steps apart, each number still means the "
            "same: that is what averaging is for": [False, False, False, True],
            "the mean of a number and itself is the number": [True, False, False, False],
        },
        places=(
            "(a): a hundred small steps apart, each number still means the same",
            "(b): two seeds give two models that have nothing in common, number by number",
            "(c): it computes the same, but not in the same positions: the mean mixes two heads",
            "(d): the mean of a number and itself is the number",
        ),
    )


@exercise(
    "16.7",
    "First make probabilities of each model's logits, along the last axis; then take "
    "their mean over the models; then the logarithm.",
    "Logits of −1,000 and +1,000 must not give infinite numbers: stay with "
    "logarithms, and let `logsumexp` take the mean.",
    "`logits.log_softmax(-1).logsumexp(0) - math.log(len(logits))`.",
)
def judge_16_7(answer):
    "A function of a tensor."
    g = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 4, 6, generator=g, dtype=torch.float64) * 3
    p = logits.softmax(-1)
    right = p.mean(0).log()
    problem = diagnose(
        answer(logits.clone()),
        right,
        {
            "that is the mean of the logits: a model that shouts, with "
            "large numbers, would count for more": logits.mean(0),
            "that is the mean of the logits, made probabilities: the geometric "
            "mean, not that of the probabilities": logits.mean(0).log_softmax(-1),
            "that is the mean of the log-probabilities: a token that one model "
            "rules out would be ruled out for all": logits.log_softmax(-1).mean(0),
            "those are probabilities: the logarithm is missing": p.mean(0),
            "each model's numbers are divided by its largest, so that one that is sure counts for "
            "less; make probabilities of them before the mean": (
                (p / p.amax(-1, keepdim=True)).mean(0).log().log_softmax(-1)
            ),
            "the probabilities are added, not averaged: they sum to three": p.sum(0).log(),
            "the softmax runs over the models; it belongs along "
            "the last axis, over the tokens": logits.softmax(0).mean(0).log(),
            "the softmax runs over the rows of the batch; it belongs along the last axis": (
                logits.log_softmax(1).logsumexp(0) - math.log(3)
            ),
            "the mean is over the models; you divided by the tokens, V": (
                p.sum(0).log() - math.log(6)
            ),
            "the mean is over the models; you divided by the rows, B": p.sum(0).log() - math.log(4),
            "a mean of probabilities is divided before the logarithm: minus ln M, not by M": (
                p.sum(0).log() / 3
            ),
            "ln M is added; a mean divides, so it is subtracted": p.sum(0).log() + math.log(3),
            "log2 of M was subtracted; the logarithm is the natural one": (
                p.sum(0).log() - math.log2(3)
            ),
            "each token's best model is taken; all of them count": logits.log_softmax(-1).amax(0),
            "only the first model is asked": logits[0].log_softmax(-1),
            "the mean is over the rows of the batch; the models are axis 0": (
                p.sum(1).log() - math.log(3)
            ),
            "the mean is over the rows of the batch, and over their number; the models are axis "
            "0": p.mean(1).log(),
            "that is the mean of everything; take it over the models only": p.mean().log(),
            "the product of the probabilities was taken, and made to sum to one; take the mean": (
                logits.sum(0).log_softmax(-1)
            ),
            "the product of the probabilities was taken": logits.log_softmax(-1).sum(0),
            "logits are no log-probabilities yet, and the largest would count for "
            "more: `log_softmax` comes before the mean": (
                logits.logsumexp(0) - torch.tensor(3.0).log()
            ),
            "made probabilities only after the mean, a model with large logits counts "
            "for more: `log_softmax` comes before it": logits.logsumexp(0).log_softmax(-1),
        },
    )
    if problem:
        return problem
    large = torch.tensor(
        [[[1000.0, -1000.0, 0.0]], [[999.0, -1000.0, 1000.0]]], dtype=torch.float64
    )
    found = torch.as_tensor(answer(large.clone()))
    exact = large.log_softmax(-1).logsumexp(0) - math.log(2)
    if found.isfinite().all() and diagnose(found, exact):
        return (
            "with logits of ±1,000 small probabilities end at the number that you added or cut "
            "at; `log_softmax` and `logsumexp` keep them"
        )
    if not found.isfinite().all():
        return (
            "with logits of ±1,000 some of the result is no longer a finite number: probabilities "
            "that small are 0, and their logarithm is −∞; `log_softmax` and `logsumexp` stay finite"
        )
