"""The project: eight questions about how a reader's number came about.

The judge never sees a model. It reads a report, a dictionary with the rows of the three parts, the
seeds and all scores, and it asks what a careful reviewer would ask. Is a row of the training part
in the test part? Was the test part used to choose? Is there a rival? How far do the seeds differ?
"""

import math
import re
import statistics
from collections import Counter
from numbers import Real

from .errors import MistakeError, clean_message

__all__ = ["PARTS", "QUESTIONS", "problems", "show_report"]

PARTS = ("train", "valid", "test")
KEYS = {  # what a report holds
    "parts": "the rows of 'train', 'valid' and 'test'",
    "seeds": "the seed of each run",
    "valid": "for each setting its scores on the validation part, one a seed",
    "chosen": "the setting with the best mean on the validation part",
    "test": "the scores of that setting on the test part, one a seed",
    "baseline": "a rival's 'name' and its score on the 'test' part",
    "mean": "of the test scores",
    "spread": "their standard deviation",
    "headline": "a sentence that begins with both",
}
FEWEST = {"train": 1, "valid": 50, "test": 100}  # rows of each part
N_SEEDS = 3
WORDS = {3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten"}


# ---------------------------------------------------------------- what a report holds


def _get(report, key):
    "A part of the report. Raises `MistakeError` if it is missing or still three dots."
    if not isinstance(report, dict):
        raise MistakeError(f"expected a dictionary, got {type(report).__name__}")
    if key not in report or report[key] is ...:
        raise MistakeError(f"the report has no {key!r}: {KEYS[key]}")
    return report[key]


def _number(value, where):
    "A score as a float. Raises `MistakeError` for what is none."
    if hasattr(value, "item") and getattr(value, "size", None) is not None:
        try:
            value = value.item()  # of NumPy or PyTorch
        except (ValueError, RuntimeError):
            raise MistakeError(f"{where}: expected one number a seed, got several") from None
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise MistakeError(f"{where}: expected a finite number, got {value!r}")
    return float(value)


def _numbers(values, where):
    "Scores as a list of floats."
    if isinstance(values, (str, bytes, dict)) or not hasattr(values, "__iter__"):
        raise MistakeError(f"{where}: expected a list with a score for each seed, got {values!r}")
    return [_number(value, where) for value in values]


def _parts(report):
    "The rows of the three parts as lists."
    parts = _get(report, "parts")
    if not isinstance(parts, dict) or not set(PARTS) <= set(parts):
        got = sorted(parts) if isinstance(parts, dict) else type(parts).__name__
        raise MistakeError(f"'parts': expected the rows of {', '.join(PARTS)}, got {got}")
    for name in PARTS:
        if isinstance(parts[name], (str, Real)) or not hasattr(parts[name], "__len__"):
            raise MistakeError(f"'parts': {name} has to be a list of rows, got {parts[name]!r}")
    return {name: list(parts[name]) for name in PARTS}


def _valid(report):
    "Setting -> its scores on the validation part."
    table = _get(report, "valid")
    if not isinstance(table, dict) or not table:
        raise MistakeError(f"'valid': expected {KEYS['valid']}, got {table!r}")
    return {name: _numbers(table[name], f"'valid', {name}") for name in table}


def _test(report):
    "The scores of the setting that was chosen on the test part."
    scores = _get(report, "test")
    if isinstance(scores, dict):
        scores = scores.get(_get(report, "chosen"), [])
    return _numbers(scores, "'test'")


def _sign(report):
    "1 if a higher score is better, as for an accuracy, -1 for a loss."
    return 1 if report.get("higher_is_better", True) else -1


def _is_pair(row):
    "Whether a row is an input with its target or label, not a list of two tokens."
    if not isinstance(row, (list, tuple)) or len(row) != 2:
        return False
    first, second = row
    if isinstance(first, str) and isinstance(row, list) and isinstance(second, str):
        return len(first.split()) > 1  # a token is one word
    return isinstance(first, (str, list, tuple))


def row_key(
    row,  # a text, a list of tokens, or a pair (input, target)
):  # what makes it the same row as another
    "The input of a row; of a text its words, whatever their case and the spaces between them."
    if isinstance(row, str):
        return " ".join(row.casefold().split())
    if hasattr(row, "tolist"):
        row = row.tolist()
    if _is_pair(row):
        return row_key(row[0])
    if isinstance(row, (list, tuple)):
        return tuple(row_key(value) for value in row)
    return row


# ---------------------------------------------------------------- the questions


def judge_parts(report):
    "Are there three parts, and are they large enough?"
    parts = _parts(report)
    for name in PARTS:
        n = len(parts[name])
        if n < FEWEST[name]:
            return f"{name} has {n} rows; with fewer than {FEWEST[name]} chance decides too much"
        different = len({row_key(row) for row in parts[name]})
        if different < FEWEST[name]:
            return (
                f"{name} has {n} rows, but only {different} of them are different; a row that is "
                f"listed again says nothing new, and with fewer than {FEWEST[name]} chance decides"
            )
    return None


def judge_leak(report):
    "Is a row of one part in another?"
    keys = {}
    for name, rows in _parts(report).items():
        keys[name] = [row_key(row) for row in rows]
    for first, second in [("train", "test"), ("train", "valid"), ("valid", "test")]:
        seen = set(keys[first])
        shared = [key for key in keys[second] if key in seen]
        if shared:
            n = len(keys[second])
            share = f"{len(shared)} of {n} rows of {second} are in {first}, too"
            return f"leak: {share}, such as {shared[0]!r:.60}"
    return None


def judge_seeds(report):
    "Three seeds or more, all different, and do they make a difference?"
    seeds = _get(report, "seeds")
    if not isinstance(seeds, (list, tuple, range)):
        return f"'seeds': expected a list, got {seeds!r}"
    seeds = list(seeds)
    if len(seeds) < N_SEEDS:
        one = "one seed" if len(seeds) == 1 else f"{len(seeds)} seeds"
        return f"{one}: the next may give another number; run {N_SEEDS} or more"
    if len(set(seeds)) < len(seeds):
        return f"the seeds {seeds} are not all different"
    table = _valid(report)
    for name, scores in table.items():
        if len(scores) != len(seeds):
            return f"'valid', {name}: expected {len(seeds)} scores, one a seed, got {len(scores)}"
    alike = all(len(set(scores)) == 1 for scores in table.values())
    best = all(set(scores) <= {0.0, 1.0, 100.0} for scores in table.values())
    if alike and not best:
        return "all seeds give the same score to the last digit; set the seed before each model"
    return None


def judge_choice(report):
    "Was the setting chosen by its mean on the validation part?"
    table = _valid(report)
    chosen = _get(report, "chosen")
    sign = _sign(report)
    if chosen not in table:
        return f"'chosen': expected one of {list(table)}, got {chosen!r}"
    means = {name: statistics.fmean(scores) for name, scores in table.items()}
    best = max(means, key=lambda name: sign * means[name])
    if sign * means[chosen] >= sign * means[best]:
        return None
    difference = (
        f"by its mean on the validation part {best!r} is best, {means[best]:.4g}, and {chosen!r} "
        f"has {means[chosen]:.4g}"
    )
    test = report.get("test")
    if isinstance(test, dict) and len(test) > 1:
        on_test = {name: statistics.fmean(_numbers(test[name], "'test'")) for name in test}
        if chosen == max(on_test, key=lambda name: sign * on_test[name]):
            return f"you chose by the test part; {difference}"
    singles = {}
    for name, scores in table.items():
        singles[name] = max(sign * score for score in scores)
    if chosen == max(singles, key=singles.get):
        return f"you chose by the best single run; {difference}"
    return difference


def judge_test(report):
    "Was the test part read once, for the chosen setting, with every seed?"
    test = _get(report, "test")
    chosen = _get(report, "chosen")
    if isinstance(test, dict) and len(test) > 1:
        return (
            f"the test part was read for {len(test)} settings; read it for the chosen one alone, "
            f"{chosen!r}"
        )
    if isinstance(test, dict) and chosen not in test:
        return f"'test' has the scores of {list(test)}, and {chosen!r} was chosen"
    if isinstance(test, Real):
        return "'test' is one number; report the score of each seed, not the best run alone"
    scores = _test(report)
    n = len(_get(report, "seeds"))
    if len(scores) != n:
        return f"'test' has {len(scores)} scores for {n} seeds; report them all, not the best alone"
    if scores == _valid(report)[chosen] and len(set(scores)) > 1:
        return "the test scores are those of the validation part"
    return None


def _like(number, right):
    return math.isclose(number, right, rel_tol=1e-3, abs_tol=1e-9)


def judge_summary(report):
    "Are mean and spread those of the test scores?"
    scores = _test(report)
    sign = _sign(report)
    valid = _valid(report)[_get(report, "chosen")]
    mean = _number(_get(report, "mean"), "'mean'")
    right = statistics.fmean(scores)
    wrong = [
        ("'mean' is your best run", sign * max(sign * score for score in scores)),
        ("'mean' is your worst run", sign * min(sign * score for score in scores)),
        ("'mean' is the median", statistics.median(scores)),
        ("'mean' is that of the validation scores", statistics.fmean(valid)),
    ]
    if not _like(mean, right):
        for sentence, number in wrong:
            if _like(mean, number):
                return f"{sentence}; the mean of the test scores is {right:.5g}"
        return f"'mean' is {mean:.5g}, and that of the test scores {right:.5g}; do not round it"
    spread = _number(_get(report, "spread"), "'spread'")
    right = statistics.stdev(scores)
    wrong = [
        ("'spread' is divided by n; with few runs divide by n - 1", statistics.pstdev(scores)),
        ("'spread' is the variance; take its root", statistics.variance(scores)),
        ("'spread' is the standard error of the mean", right / len(scores) ** 0.5),
        ("'spread' goes from the worst run to the best", max(scores) - min(scores)),
        ("'spread' is half the way from worst to best", (max(scores) - min(scores)) / 2),
        ("'spread' is that of the validation scores", statistics.stdev(valid)),
    ]
    if not _like(spread, right):
        for sentence, number in wrong:
            if _like(spread, number):
                return f"{sentence}; the standard deviation is {right:.3g}"
        return (
            f"'spread' is {spread:.3g}, and the standard deviation of the test scores {right:.3g}"
        )
    return None


def _rival(report):
    "The score of the baseline on the test part."
    baseline = _get(report, "baseline")
    if not isinstance(baseline, dict) or not {"name", "test"} <= set(baseline):
        raise MistakeError(f"'baseline': expected {KEYS['baseline']}, got {baseline!r:.60}")
    name = baseline["name"]
    if not isinstance(name, str) or not name.strip():
        raise MistakeError("'baseline': its 'name' says what it does, such as 'pairs of words'")
    if isinstance(baseline["test"], (list, tuple)):
        return statistics.fmean(_numbers(baseline["test"], "'baseline', 'test'"))
    return _number(baseline["test"], "'baseline', 'test'")


def _majority(parts):
    "The most frequent label of the training part and its share of the test part, if it has labels."
    rows = [*parts["train"], *parts["test"]]
    labeled = all(
        isinstance(row, (list, tuple))
        and len(row) == 2
        and isinstance(row[1], (str, int))
        and (_is_pair(row) or not isinstance(row[0], str))
        for row in rows
    )
    if not labeled or len({row[1] for row in rows}) > 20:
        return None, 0.0
    counts = Counter(row[1] for row in parts["train"])
    label = counts.most_common(1)[0][0]
    return label, sum(row[1] == label for row in parts["test"]) / len(parts["test"])


def judge_baseline(report):
    "Is there a baseline, is it a fair one, and is it beaten by more than the spread?"
    rival = _rival(report)
    sign = _sign(report)
    scores = _test(report)
    mean = statistics.fmean(scores)
    if sign > 0 and 0 <= rival <= 1:
        label, share = _majority(_parts(report))
        if rival < share:
            return (
                f"the baseline has {rival:.3g}, and the answer {label!r} each time {share:.3g}; "
                "take a stronger one"
            )
    gain = sign * (mean - rival)
    if gain <= 0:
        return (
            f"the baseline has {rival:.4g} and your mean is {mean:.4g}; that's a result, too, but "
            "the project asks for a task on which you beat it"
        )
    spread = statistics.stdev(scores)
    if gain <= spread:
        return (
            f"your mean is better by {gain:.3g} and the spread is {spread:.3g}; a difference "
            "within the spread can be luck"
        )
    return None


SIGN = r"(?:(?<![\w.%)/+±])[-−])?"  # where it doesn't join a range, as in 3-5
NUMBER = re.compile(SIGN + r"(?:\d+(?:[.,]\d+)?|[.]\d+)(?:[eE][-+−]?\d{1,2})?")


def _says(text, number):
    "Is this text a number, rounded, or the same in percent?"
    text = text.replace(",", ".").replace("−", "-").lower()
    mantissa, _, exponent = text.partition("e")
    digits = len(mantissa.partition(".")[2]) - int(exponent or 0)
    room = 0.5 * 10.0**-digits + 1e-9
    return any(abs(float(text) - factor * number) <= room for factor in (1, 100))


def judge_headline(report):
    "Does the sentence begin with mean and spread, and does it name seeds and baseline?"
    headline = _get(report, "headline")
    if not isinstance(headline, str):
        return f"'headline': expected a sentence, got {headline!r}"
    numbers = NUMBER.findall(headline)
    if not numbers:
        return "the headline has no number; begin with the mean and the spread, as in 0.91 ± 0.02"
    scores = _test(report)
    sign = _sign(report)
    mean = statistics.fmean(scores)
    best = sign * max(sign * score for score in scores)
    if not _says(numbers[0], mean):
        if _says(numbers[0], best):
            return f"the headline begins with your best run, {numbers[0]}; begin with the mean"
        return f"the headline begins with {numbers[0]}; begin with the mean, {mean:.4g}"
    spread = statistics.stdev(scores)
    if len(numbers) < 2 or not _says(numbers[1], spread):
        return f"the spread, {spread:.2g}, has to follow the mean, as in 0.91 ± 0.02"
    n = len(scores)
    if str(n) not in numbers[2:] and WORDS.get(n, str(n)) not in headline.lower():
        return f"the headline doesn't say over how many seeds, {n}"
    if not any(_says(number, _rival(report)) for number in numbers[2:]):
        return f"the headline doesn't say what the baseline has, {_rival(report):.4g}"
    return None


QUESTIONS = [  # in a few words; what asks; the numbers of those that have to be answered before
    ("three parts", judge_parts, ()),
    ("no row in two of them", judge_leak, (1,)),
    ("three seeds", judge_seeds, ()),
    ("chosen on the validation part", judge_choice, (3,)),
    ("the test part read once", judge_test, (4,)),
    ("mean and spread", judge_summary, (5,)),
    ("a baseline, beaten", judge_baseline, (1, 5)),
    ("the headline", judge_headline, (6, 7)),
]


def problems(
    report: dict,
) -> list[str | None]:  # for each question None, or a sentence
    "What is wrong with a report. A question waits for those that it builds on."
    found: list[str | None] = []
    for _, judge, before in QUESTIONS:
        waits = [number for number in before if found[number - 1] is not None]
        if waits:
            found.append(f"waits for question {waits[0]}")
            continue
        try:
            found.append(judge(report))
        except MistakeError as error:
            found.append(str(error))
        except Exception as error:  # noqa: BLE001, a report may hold anything
            found.append(f"it can't be read: {type(error).__name__}: {clean_message(error)}")
    return found


def show_report(
    report: dict,  # how a number came about
) -> bool:  # whether nothing is wrong with it
    "Print a line for each question, and whether the report holds."
    if not isinstance(report, dict):
        got = type(report).__name__
        print(f"project, not yet: expected a dictionary with {', '.join(KEYS)}, got {got}.")
        return False
    found = problems(report)
    width = max(len(title) for title, *_ in QUESTIONS)
    for number, ((title, *_), problem) in enumerate(zip(QUESTIONS, found), start=1):
        print(f"{number:2} {title:{width}}  {problem or 'yes'}")
    right = found.count(None)
    if right == len(found):
        print("The report holds.")
        return True
    print(f"project, not yet: {right} of {len(found)} questions are answered.")
    return False
