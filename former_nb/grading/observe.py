"""What is seen of a call: the value, a second call, gradients, changed arguments; or an error."""

import contextlib
import functools
import inspect
import zlib
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from .ask import Draw
from .compare import loosened, same
from .copies import copied
from .data import plain

LOST = (
    "a part that it is given isn't among its own, or a copy of another part is; keep the parts "
    "themselves"
)
CHANGED = "an argument is changed in place; make a new one instead"


class Seen(NamedTuple):
    "What was seen of a call."

    values: dict  # what is seen -> value; '' is what came back
    slopes: dict  # whose -> gradient
    error: BaseException | None = None
    again: dict | None = None  # the values of a second call, with another seed


class UnfitError(Exception):
    "An answer that can't be asked, and why."


class EndedError(UnfitError):
    "The process of a file ended before it answered; the message says why."


# ---------------------------------------------------------------- a call


def invoke(function, right, args, options):
    "Call by the right one's names, or by position where the reader's names differ."
    if not options:
        return function(*args)
    try:
        ours = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return function(*args, **options)
    loose = any(p.kind is p.VAR_KEYWORD for p in ours.values())
    missing = [name for name in options if name not in ours and not loose]
    if not missing:
        return function(*args, **options)
    theirs = inspect.signature(right)
    names = list(theirs.parameters)
    last = max(map(names.index, options))
    if last >= len(ours):
        raise UnfitError(f"it takes no `{missing[-1]}`")
    bound = theirs.bind(*args, **options)
    bound.apply_defaults()
    return function(*[bound.arguments[name] for name in names[: last + 1]])


def made_layer(call, answer, right, names, seed):
    "(what the answer makes, what the right one makes, weights) for a call of a class."
    handed = copied(call.init)
    parts = list(modules_in(handed))
    made, like = invoke(answer, right, handed, {}), right(*call.init)
    weights = {}
    if isinstance(made, nn.Module):
        weights = fill(made, like, names, in_file=not call.loose)
        kept = {id(part) for part in made.modules()}
        if not all(id(part) in kept for part in parts):
            raise UnfitError(LOST)
        made.train(call.training)
    start_random(seed)
    return made, like, weights


def modules_in(value):
    "The modules among what a layer is made of."
    if isinstance(value, nn.Module):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from modules_in(part)


def start_random(seed):
    "As `torch.manual_seed`, which also looks for other devices, and that takes long."
    getattr(torch, "default_generator", torch).manual_seed(seed)


def asking(value):
    "A tensor that asks for a gradient, where it can."
    is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
    return value.requires_grad_() if is_number else value


def once(call, answer, right, names, seed, slopes):
    "(values, gradients) of one call; no gradients unless `slopes`."
    args = [asking(value) if slopes else value for value in copied(call.args)]
    options = copied(call.options)
    start_random(seed)
    target, model, weights = answer, right, {}
    if call.init is not None:
        target, model, weights = made_layer(call, answer, right, names, seed)
    lists = [value for value in (*args, *options.values()) if isinstance(value, list)]
    before = [list(value) for value in lists]
    result = outcome(call, entry(target), entry(model), args, options)
    values = {"": loosened(result) if call.loose else result}
    if call.look:
        values |= call.look(target, args, result)
    values = {label: plain(value) for label, value in values.items()}
    parts_stay = all(
        len(now) == len(then) and all(a is b for a, b in zip(now, then))
        for now, then in zip(lists, before)
    )
    if not (parts_stay and all(map(same, writable(args), writable(call.args)))):
        values[CHANGED] = True
    if slopes and isinstance(result, torch.Tensor) and result.is_floating_point():
        return values, gradients(result, args, weights)
    return values, {}


def outcome(call, function, right, args, options):
    "What came back, or what was raised where that is looked at."
    try:
        return invoke(function, right, args, options)
    except UnfitError:
        raise
    except Exception as error:  # noqa: BLE001
        if not call.raises:
            raise
        return error


def entry(target):
    "What is called: the function, or what a layer does forward."
    return target.forward if isinstance(target, nn.Module) else target


def writable(args):
    return [a for a in args if isinstance(a, (torch.Tensor, list, tuple, dict))]


def gradients(result, args, weights):
    "Of a number made of the result: the gradients of all inputs and weights, by name."
    leaves = {}
    for i, value in enumerate(args, start=1):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            leaves[f"argument {i}"] = value
    leaves |= weights
    if not leaves or not result.requires_grad:
        return dict.fromkeys(leaves)
    loss = (result * Draw(5).numbers(*result.shape).to(result.dtype)).sum()
    slopes = torch.autograd.grad(loss, list(leaves.values()), allow_unused=True)
    return dict(zip(leaves, slopes))


def observe(call, answer, right, names=None, deep=True):
    "What is seen of a call. Unless `deep`, its values alone."
    names = names or {}
    try:
        values, _ = once(call, answer, right, names, 1, False)
    except Exception as error:  # noqa: BLE001, an answer may raise anything
        return Seen({}, {}, error)
    if not deep:
        return Seen(values, {})
    try:
        again, slopes = once(call, answer, right, names, 2, call.slopes)
    except Exception as error:  # noqa: BLE001
        return Seen(values, {"": error})
    return Seen(values, slopes, None, again)


@contextlib.contextmanager
def calm():
    "Without dropout, whoever calls it."
    dropout = F.dropout

    def all_or_nothing(x, p=0.5, training=True, inplace=False):
        return x if p < 1 else x * 0

    F.dropout = all_or_nothing
    try:
        yield
    finally:
        F.dropout = dropout


# ---------------------------------------------------------------- weights


def canonical(module, names, prefix="", ours=""):
    "Pairs (the course's name, the reader's name) of a module's parameters."
    kinds = [kind.__name__ for kind in type(module).__mro__]
    back = {}
    for key, mine in names.items():
        owner, _, part = key.partition(".")
        if part and names.get(owner, owner) in kinds:
            back[mine] = part
    for name, _ in module.named_parameters(recurse=False, remove_duplicate=False):
        yield prefix + back.get(name, name), ours + name
    for name, child in module._modules.items():  # one that has two names comes twice
        if child is not None:
            yield from canonical(child, names, f"{prefix}{back.get(name, name)}.", f"{ours}{name}.")


def fill(layer, like, names, in_file=True):
    """Give a layer weights that depend on their names alone, and return them by these names.

    A file can say what it calls them, an answer to an exercise can't.
    """
    mine = dict(layer.named_parameters(remove_duplicate=False))
    first = first_names(like)
    weights = {}
    for theirs, ours in canonical(layer, names):
        name, p = first.get(theirs, theirs), mine[ours]
        if weights.setdefault(name, p) is not p:
            raise UnfitError(f"{theirs} has to be the same tensor as {name}, and yours is another")
    kind = type(like).__name__ if in_file else None
    check_weights(kind, weights, dict(like.named_parameters()))
    with torch.no_grad():
        for name, p in weights.items():
            p.copy_(weight(name, tuple(p.shape)))
    return weights


@functools.cache
def weight(name, shape):
    "What a weight of this name and shape is."
    drawn = Draw(zlib.crc32(name.encode())).numbers(*shape) * 0.5
    return drawn + (0.5 if len(shape) == 1 else 0.0)


def first_names(module):
    "Name of a weight -> the first name of the same tensor: tied weights have several."
    first, found = {}, {}
    for name, p in module.named_parameters(remove_duplicate=False):
        found[name] = first.setdefault(id(p), name)
    return found


def check_weights(kind, weights, wanted):
    "Raise `UnfitError` unless both have weights of the same names and shapes."
    more = [name for name in weights if name not in wanted]
    for name, p in wanted.items():
        if name not in weights:
            said = f"there is no weight called {name}, of shape {tuple(p.shape)}"
            raise UnfitError(said + (other_names(kind, name, more) if more else ""))
        if weights[name].shape != p.shape:
            expected, got = tuple(p.shape), tuple(weights[name].shape)
            raise UnfitError(f"{name}: expected shape {expected}, got {got}")
    if more:
        raise UnfitError(f"{more[0]} is a weight too many")


def other_names(kind, name, more):
    "What is said where weights have other names, and how a file can say so."
    said = f"; yours has {', '.join(more[:3])}"
    ours, theirs = more[0].partition(".")[0], name.partition(".")[0]
    if ours == theirs or kind is None:
        return said
    entry = f'NAMES = {{"{kind}.{theirs}": "{ours}"}}'
    return f"{said}. If that is the same under another name, say so in your file: {entry}"
