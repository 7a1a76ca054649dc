"""The verdict on an answer: a definition of the reader's file, or an answer to an exercise.

In this order: chance, a named mistake, two of them, a place where one small edit mends it, the first
value that departs, numbers. What Python raised stays, with its line. A better verdict replaces the
one before, so that one that is known is never lost.
"""

import ast
import contextlib
import inspect
import io
import signal
import time
import types
from functools import cache
from itertools import combinations
from typing import NamedTuple

import torch

from . import ask, search, trace
from .ask import STEPS, Seen, Unfit, agree, calm, like, observe, same
from .content import definitions, edited, load_questions, right_module
from .words import FILE, line_of, numbers, raised

LIMIT = 10.0  # seconds of the processor for all calls of a reader's definition
SEARCH = 6.0  # for the judge's search
MOST = 0.5  # of the wrong answers that a mistake has to explain if none explains all


class Verdict(NamedTuple):
    kind: str  # right, open, waits, unfit, chance, named, two, located, error, departs, numbers, endless
    said: str = ""


class Answer(NamedTuple):
    "What is judged: an object, and the source that it is from."

    made: object
    node: ast.AST | None
    lines: list
    space: dict  # the names that it sees
    names: dict  # the course's names -> the reader's


class TimeUp(BaseException):
    pass


# ---------------------------------------------------------------- asking


@contextlib.contextmanager
def limited(seconds):
    "Raise `TimeUp` in what runs inside after so many seconds of the processor."

    def stop(number, frame):
        raise TimeUp

    if not hasattr(signal, "ITIMER_PROF"):  # Windows
        yield
        return
    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 0.01))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@cache
def calls(name):
    torch.manual_seed(0)
    return tuple(STEPS[name].questions(ask.Draw(1)))


@cache
def right_seen(name):
    key = STEPS[name].key
    return [observe(call, edited(key), edited(key)) for call in calls(name)]


@cache
def mistake_seen(name, mistakes, i):
    "What is seen of call i of the right answer with mistakes in it."
    key = STEPS[name].key
    with limited(1.0), contextlib.redirect_stdout(io.StringIO()):
        try:
            return observe(calls(name)[i], edited(key, mistakes), edited(key))
        except (TimeUp, ValueError) as error:
            return Seen({}, {}, error)


def seen_of(name, made, names, seconds):
    "What is seen of each call, and whether the time was up."
    found, end = [], time.process_time() + seconds
    theirs = edited(STEPS[name].key)
    for call in calls(name):
        try:
            with limited(end - time.process_time()):
                found.append(observe(call, made, theirs, names))
        except TimeUp as error:
            found.append(Seen({}, {}, error))
            return found, True
        except SystemExit as error:
            found.append(Seen({}, {}, error))
    return found, False


def is_right(name, i, seen):
    return agree(seen, right_seen(name)[i], calls(name)[i].near)


# ---------------------------------------------------------------- mistakes by name


def explains(name, mistakes, given, wrong, least=1.0):
    "The wrong calls whose answers these mistakes give; empty if they give too many others."
    found, others = set(), 0
    for i in sorted(range(len(given)), key=lambda i: i not in wrong):
        made, near = mistake_seen(name, mistakes, i), calls(name)[i].near
        if i in wrong and like(given[i], made, 3 * near):
            values = not like(made, right_seen(name)[i], near)
            if values or agree(given[i], made, 1e-4):  # else the gradients have to agree, too
                found.add(i)
                continue
        others += not is_right(name, i, made)
        if others > (1 - least) * len(wrong):
            return set()
    return found


def named(name, given, wrong):
    "The sentence of one mistake, or of two, that explain all wrong answers; or of one that explains most."
    some, first = definitions()[STEPS[name].key].mistakes, min(wrong)
    found = {m: explains(name, (m,), given, wrong) for m in some}
    for m, some_calls in found.items():
        if some_calls == wrong:
            return Verdict("named", m.sentence)
    pairs = [
        pair
        for pair in combinations([m for m in some if found[m]], 2)
        if found[pair[0]] | found[pair[1]] == wrong
    ]
    for pair in pairs or combinations(some, 2):
        try:
            edited(STEPS[name].key, pair)
        except (ValueError, NameError):
            continue
        if pairs or like(given[first], mistake_seen(name, pair, first), 1e-4):
            if pairs or explains(name, pair, given, wrong) == wrong:
                return Verdict("two", f"{pair[0].sentence}; and {pair[1].sentence}")
    for m in some:
        if (
            len(wrong) > 3
            and first in (most := explains(name, (m,), given, wrong, MOST))
            and len(most) >= MOST * len(wrong)
        ):
            return Verdict("named", f"{m.sentence}; and there is a second mistake")
    return None


def with_defaults(name, answer):
    "The answer with the page's defaults, and what is said of those that differ."
    said, theirs = [], edited(STEPS[name].key)
    for method in ("__init__", "forward") if isinstance(theirs, type) else ("",):
        ours, wanted = (
            inspect.unwrap(getattr(x, method, x) if method else x) for x in (answer.made, theirs)
        )
        try:
            mine, page = inspect.signature(ours).parameters, inspect.signature(wanted).parameters
        except (TypeError, ValueError):
            continue
        changed = dict(
            zip([n for n, p in mine.items() if p.default is not p.empty], ours.__defaults__ or ())
        )
        for p in page.values():
            plain = isinstance(p.default, (int, float, type(None)))
            if plain and p.name in changed and changed[p.name] != p.default:
                said.append(
                    f"`{p.name}` is {changed[p.name]} if it isn't given; the page has {p.default}"
                )
                changed[p.name] = p.default
            elif plain and p.name in mine and p.name not in changed:
                said.append(f"`{p.name}` has no default; the page has {p.default}")
        if isinstance(ours, types.FunctionType) and ours.__defaults__:
            ours.__defaults__ = tuple(changed.values())  # so that the rest is judged by itself
    return said


# ---------------------------------------------------------------- the verdict


def verdicts(name, answer):
    "Verdicts on an answer, each better than the one before."
    step, theirs = STEPS[name], edited(STEPS[name].key)
    if isinstance(theirs, type) != isinstance(answer.made, type) or not callable(answer.made):
        yield Verdict("unfit", f"expected a {'class' if isinstance(theirs, type) else 'function'}")
        return
    if step.needs and not used(answer, theirs, step.needs):
        yield Verdict("open", f"{' and '.join(step.needs)} do nothing yet")
        return
    others = "; ".join(with_defaults(name, answer))
    given, late = seen_of(name, answer.made, answer.names, LIMIT)
    unfit = [i for i, seen in enumerate(given) if isinstance(seen.error, Unfit)]
    wrong = {i for i in range(len(given)) if not is_right(name, i, given[i])}
    if late:
        where = line_of(given[-1].error, answer.lines)[1].rstrip(": ") or "one of its calls"
        yield Verdict(
            "endless",
            f"this does not end: after {LIMIT:g} seconds of the processor Python was in {where}",
        )
        return
    if unfit:
        said = str(given[unfit[0]].error)
        rest = wrong == set(unfit) and "takes no" in said
        yield Verdict("unfit", ("its numbers are right, but " if rest else "") + said)
        return
    if not wrong:
        yield Verdict("named", others) if others else Verdict("right")
        return
    before = ""
    if drawn := chance(name, answer, given, wrong):
        yield Verdict("chance", drawn)
        with calm():
            given, _ = seen_of(name, answer.made, answer.names, LIMIT)
        wrong = {i for i in range(len(given)) if not is_right(name, i, given[i])}
        if not wrong or chance(name, answer, given, wrong):
            return
        before = f"{drawn}; and "
    for verdict in explained(name, answer, given, wrong):
        if before and verdict.kind not in ("named", "two"):
            continue  # that two calls differ says more
        yield Verdict(verdict.kind, before + verdict.said + (f"; and {others}" if others else ""))


def explained(name, answer, given, wrong):
    "Verdicts on wrong answers without chance."
    first = min(wrong)
    call, seen = calls(name)[first], given[first]
    at = None
    if seen.error:
        at = line_of(seen.error, answer.lines)[0]
        known = Verdict("error", f"{call.what}: {raised(seen.error, answer.lines)}")
    else:
        said = numbers(call, seen, right_seen(name)[first])
        known = Verdict("named" if said.endswith(ask.CHANGED) else "numbers", said)
    yield known
    if known.kind == "named":
        return
    if found := named(name, given, wrong):
        yield found
        return
    if isinstance(seen.error, NameError) or answer.node is None:
        return
    departs = leaving(name, answer, first) if not seen.error else None
    if departs:
        yield Verdict("departs", f"{departs[1]}; {known.said}")
    place = mended(name, answer, sorted(wrong))
    if place and seen.error and place[0] == at:
        return  # the error says it better
    if place:
        yield Verdict("located", f"{place[1]}" + (f"; {known.said}" if seen.error else ""))


def chance(name, answer, given, wrong):
    "What is said if two calls with the same input differ."
    for i in sorted(wrong):
        seen, call = given[i], calls(name)[i]
        if seen.again is None or call.chance or same(seen.values, seen.again, 10 * call.near):
            continue
        with calm():
            now = observe(call, answer.made, edited(STEPS[name].key), answer.names)
        if now.again is not None and same(now.values, now.again, 10 * call.near):
            mode = "in training mode" if call.training else "in evaluation mode"
            return f"two calls with the same input differ: dropout, which isn't asked for here ({mode}; F.dropout needs training=self.training)"
        return "two calls with the same input differ: it draws random numbers, or keeps something from call to call"
    return None


def used(answer, theirs, needs):
    "Whether an answer reads one of these arguments, by the right one's name or at its place."
    if answer.node is None or not isinstance(answer.node, ast.FunctionDef):
        return True
    mine = [a.arg for a in answer.node.args.args]
    places = [i for i, name in enumerate(inspect.signature(theirs).parameters) if name in needs]
    names = {name for name in needs if name in mine} or {mine[i] for i in places if i < len(mine)}
    return bool(names & search.names_of(answer.node))


def remade(answer, tree):
    "The answer with another tree."
    space = dict(answer.space)
    module = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(module, FILE, "exec"), space)
    return space[tree.name], space


def mended(name, answer, wrong):
    "Where one small edit makes an answer right."
    key, end = STEPS[name].key, time.process_time() + SEARCH
    theirs, (whole,) = edited(key), ast.parse(definitions()[key].source()).body
    order = [*wrong, *(i for i in range(len(calls(name))) if i not in wrong)]

    def right_now(tree):
        try:
            with limited(0.5), contextlib.redirect_stdout(io.StringIO()):
                made, _ = remade(answer, tree)
                seen = observe(calls(name)[order[0]], made, theirs, answer.names, deep=False)
                if not like(seen, right_seen(name)[order[0]], calls(name)[order[0]].near):
                    return False
            with limited(3.0), contextlib.redirect_stdout(io.StringIO()):
                return all(
                    is_right(name, i, observe(calls(name)[i], made, theirs, answer.names))
                    for i in order
                )
        except (Exception, TimeUp, SystemExit):  # noqa: BLE001, most edits make no sense
            return False

    return search.find_place(
        answer.node, whole, answer.lines, right_now, lambda: time.process_time() > end
    )


def leaving(name, answer, i):
    "The line where the values of call i leave those of the right answer."
    key, noted = STEPS[name].key, []
    (whole,) = ast.parse(definitions()[key].source()).body
    for node, space in ((answer.node, answer.space), (whole, vars(right_module()))):
        try:
            notes = trace.Notes(node)
            fresh = Answer(None, node, [], {**space, trace.NOTE: notes.note}, {})
            made, _ = remade(fresh, notes.tree)
            with limited(2.0):
                observe(calls(name)[i], made, edited(key), answer.names, deep=False)
        except (Exception, TimeUp):  # noqa: BLE001
            return None
        noted.append(notes.seen)
    return trace.first_leaving(answer.node, *noted, answer.lines)


load_questions()
