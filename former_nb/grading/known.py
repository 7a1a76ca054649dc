"""What is known of a step: the right answers, those of each mistake, and which mistakes explain an
answer.

A mistake explains an answer if it gives the same values in every call that is wrong, and is right
in every call that is right. An error counts as a value, so `q @ k` names itself by its message.
"""

import contextlib
import io
from functools import cache
from itertools import combinations

import torch

from .ask import EXERCISES, Draw, step
from .compare import agree, as_rows, like, same
from .content import definition, edited
from .limits import TimeUpError, limited
from .observe import Seen, observe

MOST = 0.5  # of the wrong calls that a mistake has to explain if none explains all
OF_PAGE = "the PyTorch of this page"  # words of an error where that lacks something
ALONE = 1.0  # seconds of the processor for one call of a mistake


@cache
def calls(name):
    "The calls of a step; in the page those before the first that its PyTorch can't make."
    torch.manual_seed(0)
    found = []
    of_exercise = step(name).definition in EXERCISES
    try:
        for call in step(name).questions(Draw(1)):
            if of_exercise:
                near = EXERCISES[name].near if call.near == 1e-5 else call.near
                call = call._replace(loose=True, near=near, slopes=call.slopes is True)
            found.append(call._replace(slopes=call.slopes is not False))
    except (NotImplementedError, AttributeError) as error:
        if OF_PAGE not in str(error):
            raise
    return tuple(found)


@cache
def right_seen(name):
    "What is seen of the right definition in each call of a step."
    right = edited(step(name).definition)
    return [observe(call, right, right) for call in calls(name)]


@cache
def mistake_seen(name, mistakes, i):
    "What is seen of the right definition with mistakes in it, in call i."
    key = step(name).definition
    with limited(ALONE), contextlib.redirect_stdout(io.StringIO()):
        try:
            return observe(calls(name)[i], edited(key, mistakes), edited(key))
        except (TimeUpError, ValueError, NameError) as error:
            return Seen({}, {}, error)


def is_right(name, i, seen):
    return agree(seen, right_seen(name)[i], calls(name)[i].near)


def wrong_calls(name, given):
    "The numbers of the calls whose answers are wrong."
    return {i for i, seen in enumerate(given) if not is_right(name, i, seen)}


# ---------------------------------------------------------------- what explains an answer


def gives(name, mistakes, i, seen):
    "Whether the mistakes give in call i what was seen of a wrong answer."
    made, near = mistake_seen(name, mistakes, i), calls(name)[i].near
    if not like(seen, made, 3 * near):
        return False
    if like(made, right_seen(name)[i], near):  # the values are right, so the gradients tell
        return agree(seen, made, 1e-4)
    return True


def explains_all(name, mistakes, given, wrong):
    "Whether the mistakes give all that is wrong, and nothing else."
    if not all(gives(name, mistakes, i, given[i]) for i in sorted(wrong)):
        return False
    others = (i for i in range(len(given)) if i not in wrong)
    return all(is_right(name, i, mistake_seen(name, mistakes, i)) for i in others)


def explained(name, mistake, given, wrong):
    "The wrong calls that a mistake gives; none if it spoils more others than it explains."
    found = {i for i in wrong if gives(name, (mistake,), i, given[i])}
    others = [i for i in range(len(given)) if i not in found]
    spoiled = sum(not is_right(name, i, mistake_seen(name, (mistake,), i)) for i in others)
    return found if spoiled <= (1 - MOST) * len(wrong) else set()


def fits(key, mistakes):
    "Whether these mistakes can be made at once."
    try:
        edited(key, mistakes)
    except (ValueError, NameError):
        return False
    return True


def named(name, given, wrong):
    "The sentence of the mistake that explains an answer, or None."
    for mistake in definition(step(name).definition).mistakes:
        if explains_all(name, (mistake,), given, wrong):
            return mistake.sentence
    return None


def named_two(name, given, wrong, clock):
    "The sentence of two mistakes that explain an answer together; None if there are none."
    key, first = step(name).definition, min(wrong)
    some = definition(key).mistakes
    parts = {}
    for mistake in some:
        if clock.over:
            return None
        parts[mistake] = {i for i in wrong if gives(name, (mistake,), i, given[i])}
    likely = [pair for pair in combinations([m for m in some if parts[m]], 2)]
    likely = [(a, b) for a, b in likely if parts[a] | parts[b] == wrong and fits(key, (a, b))]
    for pair in likely or combinations(some, 2):
        if clock.over:
            return None
        if not likely and not (fits(key, pair) and gives(name, pair, first, given[first])):
            continue
        if explains_all(name, pair, given, wrong) or pair in likely and tells(name, pair, given):
            return f"{pair[0].sentence}; and {pair[1].sentence}"
    return None


def tells(name, pair, given):
    "Whether each of two mistakes is right wherever the answer is."
    right = [i for i, seen in enumerate(given) if is_right(name, i, seen)]
    return all(is_right(name, i, mistake_seen(name, (m,), i)) for m in pair for i in right)


def named_most(name, given, wrong, clock):
    "The sentence of a mistake that explains most of what is wrong, beside a second one."
    if len(wrong) < 4:
        return None
    for mistake in definition(step(name).definition).mistakes:
        if clock.over:
            return None
        found = explained(name, mistake, given, wrong)
        if min(wrong) in found and len(found) >= MOST * len(wrong):
            return f"{mistake.sentence}; and there is a second mistake"
    return None


def named_place(number, given, right):
    """Of several numbers: the sentence of the mistake that is wrong where they are first wrong, and
    nowhere else; or None.
    """
    given, right = as_rows(given), as_rows(right)
    several = isinstance(given, tuple) and isinstance(right, tuple)
    if not several or len(given) != len(right):
        return None
    near = EXERCISES[number].near
    first = wrong_places(given, right, near)[:1]
    for mistake in definition(number).mistakes:
        made = as_rows(mistake_seen(number, (mistake,), 0).values.get(""))
        if not isinstance(made, tuple) or wrong_places(made, right, near) != first:
            continue
        if same(given[first[0]], made[first[0]], near):
            return mistake.sentence
    return None


def wrong_places(given, right, near):
    return [i for i, pair in enumerate(zip(given, right)) if not same(*pair, near)]
