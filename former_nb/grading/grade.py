"""The verdict on a definition of the reader's file.

In this order: two calls differ, a mistake by name, two of them, a place where one small edit mends
it, the first value that departs, numbers. What Python raised stays, with its line. Each verdict is
better than the one before and is handed on at once, so that one that is known is never lost.
"""

import ast
import contextlib
import inspect
import io
import types
from typing import NamedTuple

from . import trace
from .ask import step
from .compare import like, same
from .content import definition, edited, space_of
from .known import OF_PAGE, calls, is_right, named, named_most, named_two, right_seen, wrong_calls
from .limits import Clock, TimeUpError, limited
from .observe import CHANGED, Seen, UnfitError, calm, observe
from .search import find_place, names_of
from .words import line_of, numbers, quoted, raised

LIMIT = 10.0  # seconds of the processor for all calls of a reader's definition
SEARCH = 6.0  # for the judge's own search
AGAIN = 1.5  # for the line of a mistake that has a name


class Verdict(NamedTuple):
    "What is said of an answer, and how that is known."

    kind: str  # right, open, unfit, endless, error, numbers, departs, located, named, two, chance
    said: str = ""


class Answer(NamedTuple):
    "What is judged: an object, and the source that it is from."

    made: object
    node: ast.AST | None
    lines: list  # of the whole file
    path: str  # what tracebacks call the file
    space: dict  # the names that it sees
    names: dict  # the course's names -> the reader's


# ---------------------------------------------------------------- asking


def seen_of(name, answer, clock):
    "What is seen of each call until the time is up."
    found, right = [], edited(step(name).definition)
    for call in calls(name):
        try:
            with limited(clock.left), contextlib.redirect_stdout(io.StringIO()):
                found.append(observe(call, answer.made, right, answer.names))
        except TimeUpError as error:
            return [*found, Seen({}, {}, error)]
        except SystemExit as error:
            found.append(Seen({}, {}, error))
    return found


def functions_of(made):
    "(method, function) of what a reader may call: itself, or of a class how it is made and run."
    methods = ("__init__", "forward", "__call__") if isinstance(made, type) else ("",)
    for method in methods:
        function = inspect.unwrap(getattr(made, method, None) if method else made)
        if isinstance(function, types.FunctionType):
            yield method, function


def parameters(made):
    "Method -> its parameters by name."
    return {method: inspect.signature(f).parameters for method, f in functions_of(made)}


def reads(answer, right, needs):
    "Whether an answer reads one of these arguments, by the right one's name or at its place."
    if answer.node is None:
        return True
    mine = parameters(answer.made)
    for method, theirs in parameters(right).items():
        ours = list(mine.get(method, ()))
        places = [i for i, name in enumerate(theirs) if name in needs]
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
    said = []
    theirs = parameters(right)
    for method, function in functions_of(answer.made):
        mine = inspect.signature(function).parameters
        given = {name: p.default for name, p in mine.items() if p.default is not p.empty}
        positional = [name for name in given if mine[name].kind is not mine[name].KEYWORD_ONLY]
        for name, p in theirs.get(method, {}).items():
            if not isinstance(p.default, (int, float)) or name not in positional:
                continue
            if given[name] != p.default:
                came = f"`{name}` is {given[name]} if it isn't given"
                said.append(f"{came}; the page has {p.default}")
                given[name] = p.default
        if positional and function.__globals__ is answer.space:  # not what it inherits
            function.__defaults__ = tuple(given[name] for name in positional)
    return said


# ---------------------------------------------------------------- the verdict


def verdicts(name, answer):
    "Verdicts on an answer, each better than the one before."
    asked, right = step(name), edited(step(name).definition)
    wanted = "class" if isinstance(right, type) else "function"
    if isinstance(right, type) != isinstance(answer.made, type) or not callable(answer.made):
        yield Verdict("unfit", f"expected a {wanted}, got {type(answer.made).__name__}")
        return
    if asked.needs and not reads(answer, right, asked.needs):
        yield Verdict("open")
        return
    defaults = "; ".join(other_defaults(answer, right))
    clock = Clock(LIMIT)
    given = seen_of(name, answer, clock)
    if isinstance(given[-1].error, TimeUpError):
        yield Verdict("endless", endless(given[-1].error, answer))
    elif asked.later and all(seen.error for seen in given):
        yield Verdict("open")
    elif not wrong_calls(name, given):
        yield Verdict("named", defaults) if defaults else Verdict("right")
    else:
        for verdict in of_wrong(name, answer, given, clock):
            said = f"{verdict.said}; and {defaults}" if defaults else verdict.said
            yield Verdict("open") if said.startswith("not yet") else Verdict(verdict.kind, said)


def endless(error, answer):
    line = line_of(error, answer)
    where = f"in {quoted(answer.lines, line)}" if line else "in one of its calls"
    return f"this does not end: after {LIMIT:g} seconds of the processor Python was {where}"


def of_wrong(name, answer, given, clock):
    "Verdicts on an answer that is wrong in some calls."
    wrong = wrong_calls(name, given)
    drawn = chance(name, answer, given, wrong)
    if not drawn:
        yield from explained(name, answer, given, wrong)
        return
    yield Verdict("chance", drawn)
    with calm():
        given = seen_of(name, answer, clock)
        if isinstance(given[-1].error, TimeUpError):
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
        with calm():
            now = observe(call, answer.made, edited(step(name).definition), answer.names)
        said = "two calls with the same input differ: "
        if now.again is None or not same(now.values, now.again, 10 * call.near):
            return said + "it draws random numbers, or keeps something from call to call"
        mode = "training" if call.training else "evaluation"
        more = f"(in {mode} mode; F.dropout needs training=self.training)"
        return f"{said}dropout, which isn't asked for here {more}"
    return None


def explained(name, answer, given, wrong):
    "Verdicts on wrong answers that don't depend on chance."
    seen, clock = given[min(wrong)], Clock(SEARCH)
    known = first_difference(name, answer, given, wrong)
    yield known
    if OF_PAGE in str(seen.error):  # nothing of the reader's is wrong
        return
    if said := named(name, given, wrong):
        yield Verdict("named", said)
        yield from with_line(name, answer, wrong, said)
        return
    is_plain = known.kind == "unfit" or known.said.endswith(CHANGED)
    if is_plain or isinstance(seen.error, NameError) or answer.node is None:
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
        return Verdict("error", f"{call.what}: {raised(seen.error, answer)}")
    return Verdict("numbers", numbers(call, seen, right_seen(name)[first]))


def located(name, answer, wrong, seen, known):
    "Verdicts that say where to look."
    first = min(wrong)
    if not seen.error and (departs := leaving(name, answer, first)):
        yield Verdict("departs", f"{departs}; {known.said}")
    place = mended(name, answer, wrong, SEARCH)
    if place and not (seen.error and place.line == line_of(seen.error, answer)):
        yield Verdict("located", f"{place.said}; {known.said}" if seen.error else place.said)


def with_line(name, answer, wrong, said):
    "The verdict with the line where one small edit mends it, if that is found soon."
    if answer.node is not None and (place := mended(name, answer, wrong, AGAIN)):
        yield Verdict("named", f"{said}, in {quoted(answer.lines, place.line)}")


# ---------------------------------------------------------------- where to look


def remade(answer, tree, **more):
    "The answer with another tree."
    space = answer.space | more
    module = ast.fix_missing_locations(ast.Module([tree], []))
    exec(compile(module, answer.path, "exec"), space)
    return space[tree.name]


def right_tree(key):
    return ast.parse(definition(key).source()).body[0]


def mended(name, answer, wrong, seconds):
    "The `Place` where one small edit makes an answer right, or None."
    key, clock = step(name).definition, Clock(seconds)
    right = edited(key)
    first, *rest = [*sorted(wrong), *(i for i in range(len(calls(name))) if i not in wrong)]

    def is_mended(tree):
        with contextlib.redirect_stdout(io.StringIO()), limited(min(0.5, clock.left)):
            made = remade(answer, tree)
            seen = observe(calls(name)[first], made, right, answer.names, deep=False)
            if not like(seen, right_seen(name)[first], calls(name)[first].near):
                return False
        with contextlib.redirect_stdout(io.StringIO()), limited(3.0):
            for i in [first, *rest]:
                if not is_right(name, i, observe(calls(name)[i], made, right, answer.names)):
                    return False
        return True

    def tried(tree):
        try:
            return is_mended(tree)
        except (Exception, TimeUpError, SystemExit):  # noqa: BLE001, most edits make no sense
            return False

    return find_place(answer.node, right_tree(key), answer.lines, tried, clock)


def leaving(name, answer, i):
    "What is said of the line where the values of call i leave those of the right answer."
    key, noted = step(name).definition, []
    theirs = Answer(None, right_tree(key), [], "<right>", space_of(key), {})
    for one in (answer, theirs):
        try:
            notes = trace.Notes(one.node)
            with limited(2.0), contextlib.redirect_stdout(io.StringIO()):
                made = remade(one, notes.tree, **{trace.NOTE: notes.note})
                observe(calls(name)[i], made, edited(key), one.names, deep=False)
        except (Exception, TimeUpError):  # noqa: BLE001
            return None
        noted.append(notes.seen)
    return trace.first_leaving(answer.node, *noted, answer.lines)
