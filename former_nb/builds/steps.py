"""A reader's file, definition by definition, beside the right file.

A step is one definition. Its *cases* are what it is asked: the same questions go to the reader's
definition and to that of the right file, `right_file.py`, and the answers are compared. A *mistake*
is a small edit of the right file with a sentence. Where the answers differ, the edits are applied
one after the other, and the first that answers as the reader does says what is wrong. So what a
mistake computes is written nowhere a second time.
"""

import ast
import contextlib
import functools
import inspect
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from torch import nn

from ..base.exercises import MistakeError, clean_message, diagnose, usual_mistake
from ..base.source import functions_of, parse
from .edits import load_source
from .search import EDITS, RunawayError, find_place, traced

__all__ = [
    "RIGHT_FILE",
    "NOT_WRITTEN",
    "Mistake",
    "Step",
    "STEPS",
    "step",
    "Draw",
    "same_weights",
    "unchanged",
    "equal",
    "right_source",
    "defined_names",
    "is_open",
    "right_module",
    "right_order",
    "edited_module",
    "judge_step",
]

RIGHT_FILE = Path(__file__).with_name("right_file.py")
NOT_WRITTEN = "not written yet"


class Mistake(NamedTuple):
    "An edit of the right file, and what it means."

    old: str  # stands once in the definition
    new: str
    sentence: str


@dataclass(frozen=True)
class Step:
    "One definition of the file, and how it is judged."

    lesson: str  # that derives it, such as '02'
    name: str
    definition: str  # of the file; two lessons may ask about the same
    early: bool  # whether its last arguments may still be missing
    cases: Callable  # (answer, right, draw) -> what is asked in words, and a function that answers
    mistakes: tuple[Mistake, ...]
    after: tuple[str, ...]  # steps that it calls by name


STEPS: dict[str, Step] = {}  # by name, in the order of the file


def step(
    lesson: str,  # that derives it
    *mistakes: tuple[str, str, str],  # as `Mistake`
    after: tuple[str, ...] = (),  # steps that have to be right before it
    name: str | None = None,  # of the step, if another lesson asks about the definition, too
    early: bool = False,  # whether the last arguments may still be missing
):  # a decorator for a generator of cases
    "The decorated generator asks what the definition of its name is asked."

    def register(cases):
        made = tuple(Mistake(*mistake) for mistake in mistakes)
        called = name or cases.__name__
        STEPS[called] = Step(lesson, called, cases.__name__, early, cases, made, after)
        return cases

    return register


# ---------------------------------------------------------------- what cases are made of


class Draw:
    "Random inputs that are the same for every answer, whatever an answer draws itself."

    def __init__(self, seed: int):
        self.generator = torch.Generator().manual_seed(seed)

    def numbers(self, *shape: int, dtype=torch.float32) -> torch.Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(dtype)

    def tokens(self, *shape: int, low: int = 3, high: int = 11) -> torch.Tensor:
        return torch.randint(low, high, shape, generator=self.generator)

    def mask(self, *shape: int) -> torch.Tensor:
        "Booleans, three of four True."
        return torch.rand(*shape, generator=self.generator) < 0.75


def same_weights(
    module: nn.Module,  # of the answer, changed in place
    like: nn.Module,  # of the right file, with the same sizes
    salt: int = 0,  # another number, other weights
) -> nn.Module:
    "Give a module weights that depend on their names alone. `MistakeError` for other names."
    ours = {name: tuple(p.shape) for name, p in module.named_parameters(remove_duplicate=False)}
    wanted = {name: tuple(p.shape) for name, p in like.named_parameters(remove_duplicate=False)}
    for name, shape in wanted.items():
        if name not in ours:
            more = [other for other in ours if other not in wanted]
            extra = f"; yours has {', '.join(more[:3])}" if more else ""
            raise MistakeError(f"there is no weight called {name}, of shape {shape}{extra}")
        if ours[name] != shape:
            raise MistakeError(f"{name}: expected shape {shape}, got {ours[name]}")
    for name in ours:
        if name not in wanted:
            raise MistakeError(f"{name} is a weight too many")
    with torch.no_grad():
        for name, p in module.named_parameters():
            draw = Draw(zlib.crc32(name.encode()) + salt)
            p.copy_(draw.numbers(*p.shape) * 0.5 + (0.5 if p.ndim == 1 else 0.0))
    return module


def unchanged(
    function: Callable,  # of the answer
    *inputs,
    **options,
):  # what it returns
    "Call it with copies. `MistakeError` if it changes one of its arguments."
    given = [_copy(value) for value in (*inputs, *options.values())]
    args, more = given[: len(inputs)], dict(zip(options, given[len(inputs) :]))
    result = function(*args, **more)
    for value, before in zip(given, (*inputs, *options.values())):
        if isinstance(value, (torch.Tensor, list, dict)) and not equal(value, before):
            raise MistakeError("an argument is changed in place; make a new one instead")
    return result


def _copy(value):
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list):
        return [_copy(part) for part in value]
    return type(value)(value) if isinstance(value, dict) else value


# ---------------------------------------------------------------- the right file, and edits of it


@functools.cache
def right_source() -> str:
    return RIGHT_FILE.read_text(encoding="utf-8")


def is_open(
    node: ast.AST,  # of a function or class
) -> bool:
    "Whether there is nothing in a definition but three dots, and words about it."
    lines = [part.value for part in node.body if isinstance(part, ast.Expr)]
    constant = all(isinstance(value, ast.Constant) for value in lines)
    return constant and len(lines) == len(node.body) and lines[-1].value is ...


def defined_names(
    source: str,
) -> set[str]:  # of functions, classes, variables and imports, at the top of a file
    "What a file defines. A definition of three dots is still open, and isn't counted."
    names = set()
    for node in parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names |= {node.name} - {node.name if is_open(node) else ""}
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            names |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names


@functools.cache
def right_module() -> ModuleType:
    """The right file, loaded. Its layers also take None for `attend`, which means attention.

    A reader may hand on what is left out, and the parts that a step is given have to understand it.
    """
    module = load_source(right_source(), "right_file")
    for part in vars(module).values():
        if isinstance(part, type) and issubclass(part, nn.Module):
            own = vars(part).get("forward")
            if own and "attend" in inspect.signature(own).parameters:
                part.forward = _without_none(own)
    return module


def _without_none(forward):
    "A method that reads `attend=None` as an `attend` that is left out."
    signature = inspect.signature(forward)

    @functools.wraps(forward)
    def called(*args, **options):
        given = signature.bind(*args, **options).arguments  # each by its name
        if given.get("attend", ...) is None:
            del given["attend"]
        return forward(**given)

    return called


@functools.cache
def _places():
    "For each definition of the right file the lines that it has, first and end."
    tree = ast.parse(right_source())
    kinds = (ast.FunctionDef, ast.ClassDef)
    nodes = [node for node in tree.body if isinstance(node, kinds)]
    first = {n.name: min([n.lineno, *(d.lineno for d in n.decorator_list)]) - 1 for n in nodes}
    return {node.name: (first[node.name], node.end_lineno) for node in nodes}


def right_order() -> list[str]:
    "The names of all definitions of the right file, in its order."
    return list(_places())


def edited_module(
    name: str,  # of a definition
    *mistakes: Mistake,
) -> ModuleType:
    "The right file with these edits in one definition. `ValueError` unless each fits once."
    source = right_source()
    lines = source.splitlines(keepends=True)
    first, end = _places()[name]
    before, text, behind = (
        "".join(part) for part in (lines[:first], lines[first:end], lines[end:])
    )
    for mistake in mistakes:
        if text.count(mistake.old) == 1:
            text = text.replace(mistake.old, mistake.new)
        elif before.count(mistake.old) == 1:  # in a table above it
            before = before.replace(mistake.old, mistake.new)
        else:
            raise ValueError(f"{name}: expected {mistake.old!r} once")
    return load_source(before + text + behind, "edited_file")


# ---------------------------------------------------------------- answers


class Raised(NamedTuple):
    "What an answer raised in place of a value."

    error: BaseException


def equal(
    a,  # numbers, text or tensors, alone or in lists and dicts; or what an answer raised
    b,
) -> bool:
    "Whether two answers agree, to rounding."
    if isinstance(a, Raised) or isinstance(b, Raised):
        kinds = [type(x.error) if isinstance(x, Raised) else None for x in (a, b)]
        return kinds[0] is kinds[1] and str(a.error) == str(b.error)
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if not a.is_floating_point():
            return bool(a.equal(b))
        rounding = 1e-9 if a.dtype == torch.float64 else 1e-5
        largest = b.detach().nan_to_num().abs().max().item() if b.numel() else 0.0
        near = dict(rtol=10 * rounding, atol=rounding * max(1.0, largest))
        return torch.allclose(a.detach(), b.detach(), **near, equal_nan=True)
    if isinstance(a, float) or isinstance(b, float):
        numbers = all(isinstance(x, (int, float)) and not isinstance(x, bool) for x in (a, b))
        return numbers and (math.isclose(a, b, rel_tol=1e-5, abs_tol=1e-6) or a != a and b != b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    return bool(a == b)


def _answers(cases, answer, right) -> Iterator[tuple[str, Any]]:
    "What is asked, and the answer, one case after the other; an error in place of an answer."
    draw = Draw(1)
    torch.manual_seed(1)
    asked = cases(answer, right, draw)
    while True:
        try:
            what, function = next(asked)
        except StopIteration:
            return
        except Exception as error:  # noqa: BLE001, made while a case was prepared
            yield "", Raised(error)
            return
        try:
            yield what, function()
        except Exception as error:  # noqa: BLE001, a reader's code may raise anything
            yield what, Raised(error)


@functools.cache
def _right_answers(name):
    answer = getattr(right_module(), STEPS[name].definition)
    return list(_answers(STEPS[name].cases, answer, right_module()))


@functools.cache
def _wrong_answers(name, number):
    "What the definition answers with one of its mistakes."
    definition = STEPS[name].definition
    module = edited_module(definition, STEPS[name].mistakes[number])
    return list(_answers(STEPS[name].cases, getattr(module, definition), right_module()))


def _agree(first, second):
    pairs = zip_longest(first, second)
    return all(a and b and a[0] == b[0] and equal(a[1], b[1]) for a, b in pairs)


# ---------------------------------------------------------------- the judge


def judge_step(
    module: ModuleType,  # the reader's file
    name: str,  # of the step
) -> str | None:  # None if it is right, else a sentence
    "Compare one definition with the right one. Raises what says which line raised."
    chosen = STEPS[name]
    if not hasattr(module, chosen.definition):
        return NOT_WRITTEN
    answer = getattr(module, chosen.definition)
    right = getattr(right_module(), chosen.definition)
    if name != chosen.definition and not _has_all(answer, right):
        return NOT_WRITTEN  # a later lesson adds arguments
    _check_call(chosen.definition, answer, right, chosen.early)
    given = []
    for (what, value), (_, wanted) in zip(
        _answers(chosen.cases, answer, right_module()), _right_answers(name)
    ):
        given.append((what, value))
        if not equal(value, wanted):
            break
    else:
        return None
    other = _wrong_default(module, answer)
    if other:
        return f"waits for {other}"
    every = list(_answers(chosen.cases, answer, right_module()))
    for number, mistake in enumerate(chosen.mistakes):
        if _agree(every, _wrong_answers(name, number)):
            if mistake.sentence == NOT_WRITTEN:
                return NOT_WRITTEN
            place = _look_for(module, name, EDITS // 5)
            return f"{mistake.sentence}, in {place.where}" if place else mistake.sentence
    what, value = given[-1]
    unknown = isinstance(value, Raised) and isinstance(value.error, NameError)
    place = None if unknown else _look_for(module, name, EDITS)  # the error says more
    if place:
        return str(place)
    wanted = _right_answers(name)[len(given) - 1][1]
    if isinstance(value, Raised) and isinstance(value.error, MistakeError):
        return f"{what}: {value.error}" if what else str(value.error)
    if isinstance(value, Raised):
        usual = usual_mistake(value.error)
        said = f"{usual}; " if usual else ""
        raised = f"{type(value.error).__name__}: {clean_message(value.error)}".rstrip(".: ")
        asked = f"{what}: " if what else ""
        raise MistakeError(f"{asked}{said}your code raised {raised}") from value.error
    return f"{what}: {_difference(value, wanted)}"


def _wrong_default(module, answer):
    "The first step that isn't right of what an answer hands on by default, such as attention."
    defaults: list = []
    for function in functions_of(answer):
        defaults += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for name, other in STEPS.items():
        handed_on = getattr(module, other.definition, None)
        if callable(handed_on) and any(value is handed_on for value in defaults):
            if not _agree(_answers(other.cases, handed_on, right_module()), _right_answers(name)):
                return name
    return None


LINES = 100_000  # that an edited definition may run before it is taken for endless


@contextlib.contextmanager
def _ending(file):
    "Raise `RunawayError` in a file's lines when they go on for too long."
    left = LINES

    def count(frame, event, _):
        nonlocal left
        left -= 1
        if left < 0:
            raise RunawayError
        return count

    def begin(frame, event, _):
        return count if frame.f_code.co_filename == file else None

    with traced(begin):
        yield


def _look_for(module, name, most):
    "The `Place` where one small edit of the reader's source makes it right, or None."
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    source = Path(file).read_text(encoding="utf-8-sig")
    wanted = _right_answers(name)
    chosen = STEPS[name]

    def is_right(tree):
        "An edited definition, put into a copy of the reader's file."
        space = dict(vars(module))
        try:
            code = compile(ast.fix_missing_locations(ast.Module([tree], [])), file, "exec")
            exec(code, space)
            with _ending(file):
                answers = _answers(chosen.cases, space[chosen.definition], right_module())
                pairs = zip_longest(answers, wanted)
                return all(b is not None and _same_answer(a, b) for a, b in pairs)
        except (Exception, RunawayError):  # noqa: BLE001, most edits make no sense
            return False

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of edits that make no sense
        return find_place(source, chosen.definition, right_source(), is_right, most)


def _same_answer(given, wanted):
    return equal(given[1], wanted[1])


def _has_all(answer, right):
    "Whether a function takes as many arguments as the right one."
    try:
        return len(inspect.signature(answer).parameters) >= len(inspect.signature(right).parameters)
    except (TypeError, ValueError):
        return True


def _check_call(name, answer, right, early):
    "Raise `MistakeError` unless it is of the right kind and takes the right arguments."
    if isinstance(right, type) and not isinstance(answer, type):
        raise MistakeError(f"expected a class, got {type(answer).__name__}")
    if not isinstance(right, type) and (isinstance(answer, type) or not callable(answer)):
        raise MistakeError(f"expected a function, got {type(answer).__name__}")
    pairs = [(name, answer, right)]
    for method in ("forward", "encode", "decode", "__call__"):
        if isinstance(right, type) and method in vars(right):
            if not hasattr(answer, method):
                raise MistakeError(f"the class has no method {method}")
            pairs.append((method, getattr(answer, method), getattr(right, method)))
    for said, ours, theirs in pairs:
        try:
            mine = list(inspect.signature(ours).parameters.values())
        except (TypeError, ValueError):
            continue
        wanted = list(inspect.signature(theirs).parameters.values())
        names = [p.name for p in mine]
        if early and names == [p.name for p in wanted][: len(names)]:
            wanted = wanted[: max(len(names), sum(p.default is p.empty for p in wanted))]
        loose = any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in mine)
        free = [p.name for p in mine[len(wanted) :] if p.default is p.empty]
        if not loose and (names[: len(wanted)] != [p.name for p in wanted] or free):
            call = f"{said}{inspect.signature(theirs)}".replace("self, ", "")
            raise MistakeError(f"expected {_plain(call)}, yours is {_plain(said)}{_call_of(ours)}")


def _call_of(function):
    return _plain(str(inspect.signature(function)).replace("self, ", ""))


def _plain(call):
    "A signature as a reader would write it, functions by their names."
    words = []
    for part in call.split("<function "):
        name, _, rest = part.partition(" at 0x")
        words.append(name + rest.partition(">")[2] if rest else part)
    return "".join(words)


def _difference(value, wanted):
    "In words, what differs between two answers."
    if value is None:
        return "nothing is returned; end it with `return` and the result"
    if isinstance(wanted, torch.Tensor):
        if not isinstance(value, torch.Tensor):
            return f"expected a tensor, got {type(value).__name__}"
        if value.shape != wanted.shape:
            return diagnose(value, wanted) or "the shape is another"
        if value.dtype != wanted.dtype:
            return f"expected numbers as {wanted.dtype}, got {value.dtype}"
        return diagnose(value, wanted) or "the numbers differ in their last digits"
    if isinstance(wanted, (list, tuple)) and isinstance(value, (list, tuple)):
        if len(value) != len(wanted):
            parts = f"expected {len(wanted)} parts, got {len(value)}"
            if all(isinstance(part, (int, str)) for part in [*wanted, *value]):
                came = clean_message(repr(value), 60)
                parts = f"expected {clean_message(repr(wanted), 60)}, got {came}"
            return parts
        for number, (a, b) in enumerate(zip(value, wanted), start=1):
            if not equal(a, b):
                return f"part {number}: {_difference(a, b)}"
    if isinstance(wanted, float) and isinstance(value, (int, float)):
        plain = f"expected {wanted:.6g}, got {value:.6g}"
        return diagnose(value, torch.tensor(wanted, dtype=torch.float64)) or plain
    came = clean_message(repr(value), 80)
    return f"expected {clean_message(repr(wanted), 80)}, got {came}"
