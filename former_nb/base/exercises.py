"""What the judges of exercises are made of: they name the mistake that an answer looks like.

A judge that only compares numbers leaves you alone with a wrong answer. Ours know the likely
mistakes of an exercise, compute what each of them gives, and name the one that matches yours.
`former_nb.checks.exercises` finds the judge of an exercise and asks it.
"""

import copy
import functools
import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import FunctionType

import torch

from ..grading.errors import MistakeError, clean_message, usual_mistake

__all__ = [
    "Exercise",
    "EXERCISES",
    "exercise",
    "diagnose",
    "diagnose_each",
    "diagnose_formula",
    "same_numbers",
    "edited",
    "MistakeError",
    "call_answer",
    "clean_message",
    "explain_error",
    "unnamed",
    "usual_mistake",
]


@dataclass(frozen=True)
class Exercise:
    "One exercise: how to judge an answer, and hints from gentle to plain."

    judge: Callable  # answer -> None if right, else a sentence
    hints: tuple[str, ...]
    right: Callable | None = None  # the right answer, where the judge is made of it


EXERCISES: dict[str, Exercise] = {}


def exercise(
    number: str,  # lesson and place, such as '03.2'
    *hints: str,  # from gentle to plain
    right: Callable | None = None,  # the right answer, where the judge is made of it
    returns: bool = True,  # whether a function that is asked for returns something
):  # a decorator for the judging function
    """List the decorated function as the judge of exercise `number`.

    It looks at an answer and returns `None`, or a sentence that says what is wrong. Whatever it
    asks, a function must not change the tensors and lists that it is given, and an answer that is
    left open, or a function that returns nothing, is told so.
    """

    def register(judge):
        @functools.wraps(judge)
        def careful(answer):
            is_function = isinstance(answer, FunctionType)
            changed = []  # what the function does to its arguments, in sentences
            first = []  # its first result, or the value that was handed in
            asked = answer
            if is_function:
                asked = _watched(answer, changed, first if returns else [])
            else:
                first.append(answer)
            try:
                problem = judge(asked)
            except MistakeError:
                raise
            except Exception as error:
                said = _said_of_open(first)
                wants_function = not is_function and str(error).endswith("not callable")
                if said is None or wants_function:
                    raise
                return said
            if problem is None:
                return next(iter(changed), None)
            if answer is None or any(words in problem for words in OPEN_WORDS):
                return problem  # in the judge's own words
            return _said_of_open(first) or problem

        EXERCISES[number] = Exercise(careful, hints, right)
        return careful

    return register


OPEN_WORDS = ("returned nothing", "nothing came back", "three dots")  # a judge may have its own


def _said_of_open(first):
    "What to say if the first result, or the value that was handed in, is nothing or three dots."
    if first and first[0] is None:
        return "your function returned nothing; end it with `return` and the result"
    if first and first[0] is ...:
        return "the three dots are still there; put your lines in their place"
    return None


UNNAMED: list[str] = []  # what was said about the last answer without naming its mistake
COMPARED: list[tuple] = []  # the first (given, right) that were compared since it was emptied
KEPT = 100  # of each; a judge that is called by itself empties neither


def unnamed(
    sentence: str,
) -> str:  # as it is
    "What a judge says where it knows that an answer is wrong, and not why; `check` looks further."
    if len(UNNAMED) < KEPT:
        UNNAMED.append(sentence)
    return sentence


def _close(a, b):
    "Whether two tensors agree, number by number."
    return torch.isclose(a.double(), b.double(), rtol=1e-4, atol=1e-5, equal_nan=True)


def same_numbers(a, b):
    "Whether two tensors agree in shape and in every number."
    return a.shape == b.shape and bool(_close(a, b).all())


def as_number(
    answer,  # what a reader wrote
):  # a number where text or a fraction stood, else what came
    "Fractions such as '1/5', alone or in a tuple, as numbers."
    if isinstance(answer, (tuple, list)):
        return type(answer)(map(as_number, answer)) if type(answer) in (tuple, list) else answer
    if not isinstance(answer, (str, Fraction)):
        return answer
    try:
        return float(Fraction(answer))
    except (ValueError, ZeroDivisionError):
        return answer


def _size(number, right):
    "A wrong number, and on which side of the right one it lies."
    return f"{number:.6g}, which is too {'large' if number > right else 'small'}"


def _one_number(a, b):
    "What an unknown wrong number looks like."
    if a == -b:
        return f"got {a:.6g}; its sign is turned"
    if b and abs(a * b - 1) < 1e-4:
        return f"got {a:.6g}, which is 1 divided by the right number"
    if b and abs(a / b - 100) < 1e-2:
        return f"got {a:.6g}, a hundred times too much; is it in percent?"
    return f"got {_size(a, b)}"


def _misshapen(answer, right):
    "What an answer of the wrong shape looks like."
    shapes = f"expected shape {tuple(right.shape)}, got {tuple(answer.shape)}"
    if right.ndim == 1 and answer.ndim < 2 and len(right) < 10:
        return f"{shapes}; {len(right)} numbers are asked for, not {answer.numel()}"
    if answer.ndim > 1 and answer.mT.shape == right.shape and same_numbers(answer.mT, right):
        return f"{shapes}; rows and columns are exchanged"
    if answer.numel() != right.numel() or not same_numbers(answer.reshape(right.shape), right):
        return shapes
    if answer.squeeze().shape != right.squeeze().shape:
        return f"{shapes}; the numbers are right, but their axes are not"
    if answer.ndim == right.ndim:
        return f"{shapes}; the numbers are right, but the axis of size 1 is in another place"
    size = "too many" if answer.ndim > right.ndim else "missing"
    return f"{shapes}; the numbers are right, with an axis of size 1 {size}"


def _general(answer, right):
    "What an unknown wrong answer of the right shape looks like."
    a, b = answer.double().flatten(), right.double().flatten()
    if not a.isfinite().all():
        return "your answer holds NaN or infinity"
    if len(b) == 1:
        return _one_number(a.item(), b.item())
    if answer.dtype == right.dtype == torch.bool and torch.equal(answer, ~right):
        return "True and False are exchanged"
    if right.ndim > 1 and right.mT.shape == right.shape and same_numbers(answer, right.mT):
        return "rows and columns are exchanged"
    if not a.any():
        return "your numbers are all 0"
    if len(b.unique()) > 2:
        factor = (a @ b) / (b @ b)
        if same_numbers(a, factor * b):
            return f"your numbers are {factor:.3g} times the right ones"
        if same_numbers(a - b, (a - b).mean().expand_as(a)):
            return f"your numbers are the right ones plus {(a - b).mean():.3g}"
        if same_numbers(a.sort().values, b.sort().values):
            return "those are the right numbers in another order"
    wrong = (~_close(answer, right)).nonzero()
    if right.ndim == 1 and len(b) < 10:  # a few numbers, each with a meaning
        i = wrong[0].item()
        said = f"number {i + 1} is {_size(a[i].item(), b[i].item())}"
        return f"the numbers differ: {len(b) - len(wrong)} of {len(b)} are right, and {said}"
    far = f"the numbers differ by up to {(a - b).abs().max():.3g}"
    at = ", ".join(map(str, wrong[0].tolist()))
    said = f"{far}; {len(b) - len(wrong)} of {len(b)} are right, the first wrong one is at [{at}]"
    return said + _where(wrong.tolist(), right.shape)


def _where(wrong, shape):
    "On which axis the wrong numbers are all in a few places, and in which, as far as there is one."
    best = None
    for axis, size in enumerate(shape):
        places = sorted({index[axis] for index in wrong})
        if size > 1 and len(places) <= size / 2 and (best is None or len(places) < len(best[1])):
            best = axis, places
    if best is None or len(shape) == 1:
        return ""
    axis, places = best
    listed = ", ".join(map(str, places[:4])) + (", …" if len(places) > 4 else "")
    return f"; all wrong ones have index {listed} on axis {axis}, and elsewhere all is right"


def _float_ids(answer, right):
    "What to say about rows of ids that are floats, with which no table can be read."
    if right.ndim < 2 or not answer.is_floating_point():
        return None
    if right.dtype not in (torch.int64, torch.int32):
        return None
    return f"the numbers are right, but they are {answer.dtype}; ids are whole, torch.int64"


def diagnose(
    answer,  # what the reader's code gave
    right,  # what it should give: a tensor, a number or a list of numbers
    mistakes: dict | None = None,  # sentence -> what that mistake gives, in such a form, too
    places: Sequence[str] | None = None,  # for each number, what to say if it is the first wrong
) -> str | None:  # None if the answer is right, else a sentence
    """Compare an answer with the right one and with what the likely mistakes would give.

    Without a match it tries what goes wrong everywhere, such as a factor, a sign or an order.
    """
    right = torch.as_tensor(right).detach().cpu()
    if len(COMPARED) < KEPT:
        COMPARED.append((answer, right))
    if said := _said_of_open([answer]):
        return said
    answer = as_number(answer)
    if isinstance(answer, str):
        return f"expected a tensor or a number, got the text {answer!r}"
    given_tensor = isinstance(answer, torch.Tensor)
    try:
        answer = torch.as_tensor(answer).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        for part in answer if isinstance(answer, (tuple, list)) else ():
            if isinstance(part, str):
                return f"expected numbers, got the text {part!r}; write it without quotes"
        return f"expected a tensor or a number, got {type(answer).__name__}"
    if same_numbers(answer, right):
        return _float_ids(answer, right) if given_tensor else None
    for sentence, wrong in (mistakes or {}).items():
        if same_numbers(answer, torch.as_tensor(wrong).detach().cpu()):
            return sentence
    if answer.shape != right.shape:
        return unnamed(_misshapen(answer, right))
    if places:
        return places[int((~_close(answer, right)).flatten().int().argmax())]
    return unnamed(_general(answer, right))


def edited(
    right: Callable,  # a right answer, a function of a file
    mistakes: dict[str, str],  # "old -> new", more of them behind "; ": what to say
) -> dict[str, Callable]:  # sentence -> the function that makes this mistake
    "Wrong answers that are edits of a right one, so that nothing else is written a second time."
    functions = {}
    for edits, sentence in mistakes.items():
        source = inspect.getsource(right)
        for edit in edits.split("; "):
            old, _, new = edit.partition(" -> ")
            if source.count(old) != 1:
                raise ValueError(f"{right.__name__}: expected {old!r} once, to say {sentence!r}")
            source = source.replace(old, new)
        names = dict(right.__globals__)
        exec(source, names)
        functions[sentence] = names[right.__name__]
    return functions


def diagnose_formula(
    answer: Callable,  # a function of numbers, or of lists of them
    names: str,  # of its arguments, such as "n, d"
    cases: Sequence[tuple],  # arguments on which it is tried
    right: str,  # a formula of these names and of `math`, such as "2 * n * log(d)"
    mistakes: dict[str, str],  # the formula of a mistake -> what to say
    unit: float = 1.0,  # by which all is multiplied, so that small numbers can be told apart
    **functions,  # that the formulas call
) -> str | None:  # None if the answer is right, else a sentence
    "Compare a function with a formula, and with what the likely mistakes make of the formula."

    def of_formula(formula):
        numbers = []
        for case in cases:
            arguments = dict(zip(names.split(", "), case))
            numbers.append(unit * eval(formula, vars(math) | functions | arguments))
        return torch.tensor(numbers, dtype=torch.float64)

    expected = of_formula(right)
    given = []
    for case in cases:
        number = as_number(answer(*copy.deepcopy(case)))
        if number is None or number is ... or isinstance(number, (str, tuple, list)):
            return diagnose(number, expected[0])
        given.append(unit * float(number))
    wrong = {sentence: of_formula(formula) for formula, sentence in mistakes.items()}
    found = torch.tensor(given, dtype=torch.float64)
    problem = diagnose(found, expected, wrong)
    if problem is None or not problem.startswith("the numbers differ"):
        return problem
    first = int((~_close(found, expected)).int().argmax())
    pairs = zip(names.split(", "), cases[first])
    where = ", ".join(f"{name} = {x if isinstance(x, list) else f'{x:g}'}" for name, x in pairs)
    return f"for {where}: {diagnose(found[first] / unit, expected[first] / unit)}"


def diagnose_each(
    answer,  # what the reader gave: a tuple, a list or a tensor
    right: dict[str, float],  # what is asked for -> the right number
    mistakes: Sequence[dict[float, str]],  # for each number, a wrong one -> what to say
    tolerance: float = 1e-6,  # by so much a number may be rounded
) -> str | None:  # None if all are right, else a sentence about the first wrong one
    "Compare a few numbers one by one, each with the mistakes that are usual there."
    names = ", ".join(right)
    numbers = answer.tolist() if isinstance(answer, torch.Tensor) else as_number(answer)
    if not isinstance(numbers, (tuple, list)):
        came = f"the text {numbers!r}" if isinstance(numbers, str) else type(numbers).__name__
        return f"expected {len(right)} numbers, ({names}), got {came}"
    if len(numbers) != len(right):
        return f"expected {len(right)} numbers, ({names}), got {len(numbers)}"
    for number, (name, expected), sentences in zip(numbers, right.items(), mistakes):
        problem = diagnose(number, torch.tensor(expected, dtype=torch.float64))
        if problem is None:
            continue
        if not isinstance(number, (int, float)):
            return f"{name}: {problem}"
        if abs(number - expected) <= tolerance:
            continue
        for wrong, sentence in sentences.items():
            if abs(number - wrong) <= tolerance:
                problem = sentence
                break
        return f"{name}: {problem}"
    return None


def _snapshot(value):
    "A copy of what a function must not change: a tensor that is no weight, or a list."
    if isinstance(value, torch.Tensor) and not value.requires_grad:
        return value.clone()
    return copy.deepcopy(value) if isinstance(value, list) and _plain(value) else None


def _plain(value):
    "Whether a list holds numbers and text alone, or lists of them."
    return all(
        _plain(part) if isinstance(part, list) else isinstance(part, (int, float, str))
        for part in value
    )


def _watched(answer, changed, first):
    "The function `answer`; noted are what it does to its arguments, and its first result."

    @functools.wraps(answer)
    def watched(*inputs, **options):
        before = [_snapshot(value) for value in inputs]
        result = answer(*inputs, **options)
        if not first:
            first.append(result)
        for i, (kept, value) in enumerate(zip(before, inputs), start=1):
            if kept is None:
                continue
            is_tensor = isinstance(kept, torch.Tensor)
            if not (same_numbers(kept, value) if is_tensor else kept == value):
                made = "tensor" if is_tensor else "list"
                sentence = f"your function changes its argument number {i} in place"
                changed.append(f"{sentence}; make a new {made} instead")
        return result

    return watched


def call_answer(
    answer: Callable,  # the reader's function
    *inputs,  # what it is called with; tensors are copied first
):  # what it returns
    """Call an answer on copies of `inputs`. Raises `MistakeError` if it changes one of them.

    A function that changes what it is given, as `q /= 2` does, can be right here and spoil whoever
    calls it.
    """
    copies = [t.clone() if isinstance(t, torch.Tensor) else t for t in inputs]
    result = answer(*copies)
    for i, (before, after) in enumerate(zip(inputs, copies), start=1):
        if isinstance(before, torch.Tensor) and not same_numbers(before, after):
            raise MistakeError(
                f"your function changes its argument number {i} in place; make a new tensor instead"
            )
    return result


def explain_error(
    error: Exception,  # what a reader's code raised
    sentences: dict[str, str],  # words of a message -> the mistake that they give away
) -> str:  # the sentence of the first words that the message holds
    "Name the mistake behind an error. Raises the error again if no words are in its message."
    for words, sentence in sentences.items():
        if words in str(error):
            return sentence
    raise error
