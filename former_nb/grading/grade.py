"""The verdict on a definition of the reader's file.

In this order: two calls differ, a mistake by name, two of them, a place where one small edit mends
it, the first value that departs, numbers. What Python raised stays, with its line. Each verdict is
better than the one before and is handed on at once, so that one that is known is never lost.
"""

import ast
from typing import NamedTuple

from . import trace
from .answer import EMPTY, Answer, shape_of
from .apart import untouched
from .ask import step
from .compare import kind_of, like, same
from .content import definition, edited, space_of
from .known import (
    ALONE,
    OF_PAGE,
    calls,
    is_right,
    named,
    named_most,
    named_two,
    right_seen,
    wrong_calls,
)
from .limits import Clock, TimeUpError
from .observe import CHANGED, EndedError, UnfitError
from .search import find_place, names_of
from .words import NOTHING, numbers, quoted

LIMIT = 10.0  # seconds of the processor for all calls of a reader's definition
SEARCH = 6.0  # for the judge's own search
AGAIN = 1.5  # for the line of a mistake that has a name
NAMELESS = ("NameError", "UnboundLocalError")  # what a search can't mend


class Verdict(NamedTuple):
    "What is said of an answer, and how that is known."

    kind: str  # right, open, unfit, endless, ended, error, numbers, departs, located, named, …
    said: str = ""


# ---------------------------------------------------------------- asking


def seen_of(name, answer, clock, without_dropout=False):
    "What is seen of each call until the time is up."
    found = []
    for i in range(len(calls(name))):
        found.append(answer.seen(name, i, clock.left, without_dropout=without_dropout))
        if isinstance(found[-1].error, (TimeUpError, EndedError)):
            break
    return found


def reads(answer, right, needs):
    "Whether an answer reads one of these arguments, by the right one's name or at its place."
    if answer.node is None:
        return True
    mine = answer.shape().methods
    for method, theirs in shape_of(right).methods.items():
        ours = [p.name for p in mine.get(method, ())]
        places = [i for i, p in enumerate(theirs) if p.name in needs]
        names = set(ours) & set(needs) or {ours[i] for i in places if i < len(ours)}
        if places and names & names_read(answer.node, method):
            return True
    return False


def names_read(node, method):
    "The names that a function reads, or a method of a class."
    if not method:
        return names_of(node)
    found = [part for part in node.body if getattr(part, "name", "") == method]
    return names_of(found[0]) if found else set()


# ---------------------------------------------------------------- defaults


def other_defaults(answer, right):
    "Sentences about numbers that are others by default. The answer gets the right ones."
    said, wanted = [], {}
    mine = answer.shape().methods
    for method, some in shape_of(right).methods.items():
        given = {p.name: p.default for p in mine.get(method, ()) if p.by_place}
        for p in some:
            if not isinstance(p.default, (int, float)) or given.get(p.name, EMPTY) is EMPTY:
                continue
            if given[p.name] != p.default:
                came = f"`{p.name}` is {given[p.name]} if it isn't given"
                said.append(f"{came}; the page has {p.default}")
                wanted.setdefault(method, {})[p.name] = p.default
    if wanted:
        answer.set_defaults(wanted)
    return said


# ---------------------------------------------------------------- the verdict


def verdicts(name, answer):
    "Verdicts on an answer, each better than the one before."
    asked, right = step(name), edited(step(name).definition)
    wanted, kind = shape_of(right).kind, answer.shape().kind
    if wanted != kind:
        yield Verdict("unfit", f"expected a {wanted}, got {a_kind(kind)}")
        return
    if asked.needs and not reads(answer, right, asked.needs):
        yield Verdict("open")
        return
    defaults = "; ".join(other_defaults(answer, right))
    clock = Clock(LIMIT, answer.spent)
    given = seen_of(name, answer, clock)
    if isinstance(given[-1].error, TimeUpError):
        yield Verdict("endless", endless(given[-1].error, answer))
    elif isinstance(given[-1].error, EndedError):
        yield Verdict("ended", str(given[-1].error))
    elif asked.later and all(seen.error for seen in given):
        yield Verdict("open")
    elif not wrong_calls(name, given):
        yield Verdict("named", defaults) if defaults else Verdict("right")
    else:
        for verdict in of_wrong(name, answer, given, clock):
            said = f"{verdict.said}; and {defaults}" if defaults else verdict.said
            yield Verdict("open") if said.startswith("not yet") else Verdict(verdict.kind, said)


def a_kind(kind):
    return f"a {kind}" if kind in ("class", "function") else kind


def endless(error, answer):
    where = f"in {quoted(answer.lines, error.line)}" if error.line else "in one of its calls"
    return f"this does not end: after {LIMIT:g} seconds of the processor Python was {where}"


def of_wrong(name, answer, given, clock):
    "Verdicts on an answer that is wrong in some calls."
    wrong = wrong_calls(name, given)
    drawn = chance(name, answer, given, wrong)
    if not drawn:
        yield from explained(name, answer, given, wrong)
        return
    yield Verdict("chance", drawn)
    given = seen_of(name, answer, clock, without_dropout=True)
    if isinstance(given[-1].error, (TimeUpError, EndedError)):
        return
    wrong = wrong_calls(name, given)
    if not wrong or chance(name, answer, given, wrong):
        return
    for verdict in explained(name, answer, given, wrong):
        if verdict.kind in ("named", "two"):  # else that two calls differ says more
            yield Verdict(verdict.kind, f"{drawn}; and {verdict.said}")


def chance(name, answer, given, wrong):
    "What is said if two calls with the same input differ."
    for i in sorted(wrong):
        seen, call = given[i], calls(name)[i]
        if seen.again is None or call.chance or same(seen.values, seen.again, 10 * call.near):
            continue
        now = answer.seen(name, i, ALONE, without_dropout=True)
        said = "two calls with the same input differ: "
        if now.again is None or not same(now.values, now.again, 10 * call.near):
            return said + "it draws random numbers, or keeps something from call to call"
        mode = "training" if call.training else "evaluation"
        more = f"(in {mode} mode; F.dropout needs training=self.training)"
        return f"{said}dropout, which isn't asked for here {more}"
    return None


def explained(name, answer, given, wrong):
    "Verdicts on wrong answers that don't depend on chance."
    seen, clock = given[min(wrong)], Clock(SEARCH, answer.spent)
    known = first_difference(name, answer, given, wrong)
    yield known
    if OF_PAGE in str(seen.error):  # nothing of the reader's is wrong
        return
    if said := named(name, given, wrong):
        yield Verdict("named", said)
        yield from with_line(name, answer, wrong, said)
        return
    is_plain = known.kind == "unfit" or known.said.endswith(CHANGED)
    if is_plain or kind_of(seen.error) in NAMELESS or answer.node is None:
        return
    if said := named_two(name, given, wrong, clock):
        yield Verdict("two", said)
    elif said := named_most(name, given, wrong, clock):
        yield Verdict("named", said)
    else:
        yield from located(name, answer, wrong, seen, known)


def first_difference(name, answer, given, wrong):
    "What is known without a search."
    unfit = [seen.error for seen in given if isinstance(seen.error, UnfitError)]
    if unfit:
        said = str(unfit[0])
        alone = len(unfit) == len(wrong) and "takes no" in said
        return Verdict("unfit", f"its numbers are right, but {said}" if alone else said)
    first = min(wrong)
    call, seen = calls(name)[first], given[first]
    if seen.error:
        return Verdict("error", f"{call.what}: {seen.error.said}")
    said = numbers(call, seen, right_seen(name)[first])
    return Verdict("named" if said == NOTHING or said.endswith(CHANGED) else "numbers", said)


def located(name, answer, wrong, seen, known):
    "Verdicts that say where to look."
    first = min(wrong)
    if not seen.error and (departs := leaving(name, answer, first)):
        yield Verdict("departs", f"{departs}; {known.said}")
    place = mended(name, answer, wrong, SEARCH)
    if place and not (seen.error and place.line == seen.error.line):
        yield Verdict("located", f"{place.said}; {known.said}" if seen.error else place.said)


def with_line(name, answer, wrong, said):
    "The verdict with the line where one small edit mends it, if that is found soon."
    if answer.node is not None and (place := mended(name, answer, wrong, AGAIN)):
        where = "before" if place.said.startswith("before") else "in"  # where a line is missing
        yield Verdict("named", f"{said}, {where} {quoted(answer.lines, place.line)}")


# ---------------------------------------------------------------- where to look


def right_tree(key):
    return ast.parse(definition(key).source()).body[0]


def mended(name, answer, wrong, seconds):
    "The `Place` where one small edit makes an answer right, or None."
    key, clock = step(name).definition, Clock(seconds, answer.spent)
    first, *rest = [*sorted(wrong), *(i for i in range(len(calls(name))) if i not in wrong)]

    def is_mended(tree):
        seen = answer.seen_edited(tree, name, first, min(0.5, clock.left), deep=False)
        if not like(seen, right_seen(name)[first], calls(name)[first].near):
            return False
        for i in [first, *rest]:
            if not is_right(name, i, answer.seen_edited(tree, name, i, 3.0)):
                return False
        return True

    def tried(tree):
        try:
            with untouched():
                return is_mended(tree)
        except (Exception, TimeUpError, SystemExit):  # noqa: BLE001, most edits make no sense
            return False

    return find_place(answer.node, right_tree(key), answer.lines, tried, clock)


def leaving(name, answer, i):
    "What is said of the line where the values of call i leave those of the right answer."
    key = step(name).definition
    theirs = Answer(None, right_tree(key), [], "<right>", space_of(key), {})
    noted = [one.notes(name, i, 2.0) for one in (answer, theirs)]
    if None in noted:
        return None
    return trace.first_leaving(answer.node, *noted, answer.lines)
