"""Where a definition is wrong in a way that nobody foresaw: the first small edit that mends it.

Another name, another number, two arguments exchanged, a call too much, a line too much, a piece of
the right definition in place of one of the reader's: each such edit of the reader's source is
tried, nearest to the right definition first, until one answers all questions or the time is over.
What is told is the place, not the edit: a place sends a reader back to think.
"""

import ast
import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

__all__ = ["EDITS", "Place", "small_edits", "find_place"]

EDITS = 3000  # of one definition that are tried; a number, so that a verdict is the same twice
SECONDS = 6.0  # after which no further edit is tried, whatever an answer does
LARGEST = 14  # nodes of a piece of the right definition that may be put in
ALIKE = [  # names that are taken for one another
    {"sum", "mean", "max", "min", "amax", "amin"},
    {"softmax", "log_softmax", "sigmoid"},
    {"argmax", "argmin"},
    {"tril", "triu"},
    {"cat", "stack"},
    {"exp", "log"},
    {"repeat_interleave", "repeat"},
    {"zeros", "ones"},
    {"train", "eval"},
    {"gelu", "relu", "silu"},
]
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.FloorDiv)
LOGIC = (ast.BitAnd, ast.BitOr)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def _size(node):
    return sum(1 for _ in ast.walk(node))


def _names(node):
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _stored(tree):
    "Names that a tree gives a value: arguments, variables, what a loop runs over."
    found = {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)}
    for n in ast.walk(tree):
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store):
            found.add(n.id)
    return found


def _attributes_of_self(tree):
    return {
        n.attr
        for n in ast.walk(tree)
        if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "self"
    }


def _pieces(right, known):
    "Expressions of the right definition that can stand in the reader's, as its names are known."
    local = _stored(right) - known
    seen = {}
    for node in ast.walk(right):
        if isinstance(node, ast.expr) and not isinstance(node, (ast.Name, ast.Constant)):
            if isinstance(getattr(node, "ctx", None), ast.Store) or _size(node) > LARGEST:
                continue
            if not local & _names(node):
                seen.setdefault(ast.dump(node), node)
    return list(seen.values())


def _head(node):
    "What kind of expression it is: the name of a call, else its class."
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2]
    return type(node).__name__


def _replacements(node, tree, right, pieces, known) -> Iterator[ast.AST]:
    "What may stand in place of an expression."
    make = copy.deepcopy
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        for name in sorted(known - {node.id}):
            yield ast.Name(name, ast.Load())
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        own = isinstance(node.value, ast.Name) and node.value.id == "self"
        others = _attributes_of_self(tree) if own else set()
        others = set(others).union(*(group for group in ALIKE if node.attr in group))
        for name in sorted(others - {node.attr}):
            yield ast.Attribute(make(node.value), name, ast.Load())
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        constants = {n.value for n in ast.walk(right) if isinstance(n, ast.Constant)}
        numbers = [n for n in constants if type(n) in (int, float)]
        for number in [*sorted(numbers), node.value + 1, node.value - 1, -node.value]:
            if number != node.value:
                yield ast.Constant(number)
    if isinstance(node, ast.Constant) and isinstance(node.value, (bool, type(None))):
        for value in (True, False, None):
            yield ast.Constant(value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        for n in ast.walk(right):
            if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value != node.value:
                yield ast.Constant(n.value)
    if isinstance(node, ast.BinOp):
        yield ast.BinOp(make(node.right), make(node.op), make(node.left))
        group = LOGIC if isinstance(node.op, LOGIC) else OPERATORS
        for operator in group:
            if not isinstance(node.op, operator):
                yield ast.BinOp(make(node.left), operator(), make(node.right))
        yield make(node.left)
        yield make(node.right)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in COMPARISONS:
            if not isinstance(node.ops[0], operator):
                yield ast.Compare(make(node.left), [operator()], make(node.comparators))
    if isinstance(node, ast.UnaryOp):
        yield make(node.operand)
    if isinstance(node, (ast.Call, ast.Subscript, ast.BinOp, ast.Name)):
        yield ast.UnaryOp(ast.Invert(), make(node))
        yield ast.UnaryOp(ast.USub(), make(node))
    if isinstance(node, ast.Subscript):
        yield make(node.value)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield make(node.func.value)  # without the call
        for argument in node.args[:1]:
            yield make(argument)
        for i in range(len(node.args) - 1):
            args = make(node.args)
            args[i], args[i + 1] = args[i + 1], args[i]
            yield ast.Call(make(node.func), args, make(node.keywords))
        for i in range(len(node.args)):
            args = make(node.args)
            del args[i]
            yield ast.Call(make(node.func), args, make(node.keywords))
        for i in range(len(node.keywords)):
            keywords = make(node.keywords)
            del keywords[i]
            yield ast.Call(make(node.func), make(node.args), keywords)
    near = [piece for piece in pieces if _head(piece) == _head(node)]
    rest = [piece for piece in pieces if _head(piece) != _head(node)]
    for piece in [*near, *rest]:
        yield make(piece)


def _bag(tree):
    return Counter(
        type(n).__name__ + getattr(n, "id", "") + getattr(n, "attr", "") for n in ast.walk(tree)
    )


def small_edits(
    tree: ast.AST,  # a reader's definition; changed while an edit is out, and then as before
    right: ast.AST,  # the right one
) -> Iterator[tuple[ast.stmt, ast.AST]]:  # the statement, and what of it was exchanged
    "Put one edit into the tree after another."
    known = _stored(tree) | {n for n in _names(right) if n not in _stored(right)}
    pieces = _pieces(right, known)
    wanted, now = _bag(right), _bag(tree)
    found = []

    def visit(parent, statement):
        for field, value in ast.iter_fields(parent):
            values = value if isinstance(value, list) else [value]
            for index, node in enumerate(values):
                if not isinstance(node, ast.AST) or isinstance(
                    node, (ast.arguments, ast.expr_context)
                ):
                    continue
                here = node if isinstance(node, ast.stmt) else statement
                place = (parent, field, index if isinstance(value, list) else None)
                if isinstance(node, ast.stmt) and len(values) > 1:
                    found.append((1.5, here, node, place, None))
                if isinstance(node, ast.expr) and here is not None:
                    for new in _replacements(node, tree, right, pieces, known):
                        bag = _bag(new)
                        bag.subtract(_bag(node))
                        nearer = 0
                        for key, count in bag.items():
                            before = abs(wanted[key] - now[key])
                            nearer += abs(wanted[key] - now[key] - count) - before
                        found.append((nearer + _size(new) / 50, here, node, place, new))
                visit(node, here)

    visit(tree, None)
    for statement in [n for n in ast.walk(right) if isinstance(n, ast.Expr)]:
        if not (_stored(right) - known) & _names(statement):
            for parent in ast.walk(tree):
                block = getattr(parent, "body", None)
                if isinstance(block, list) and isinstance(
                    parent, (ast.FunctionDef, ast.For, ast.If)
                ):
                    for index in range(len(block)):
                        found.append((0.5, block[index], None, (parent, "body", index), statement))
    found.sort(key=lambda item: item[0])
    for _, statement, old, (parent, field, index), new in found:
        before = getattr(parent, field)
        if index is None:
            setattr(parent, field, new)
        elif old is None:  # a line that is missing
            setattr(parent, field, [*before[:index], new, *before[index:]])
        else:
            changed = [*before[:index], *([] if new is None else [new]), *before[index + 1 :]]
            setattr(parent, field, changed)
        yield statement, old
        setattr(parent, field, before)


class Place(NamedTuple):
    "Where an edit makes a definition right."

    where: str  # the line, with its number
    what: str  # what is wrong there, in words

    def __str__(self):
        return f"{self.where}: {self.what}"


def find_place(
    source: str,  # of the reader's file
    name: str,  # of the definition
    right: str,  # the right file
    is_right: Callable[[ast.AST], bool],  # whether an edited definition answers all questions
    most: int = EDITS,  # edits that are tried
) -> Place | None:  # None if no small edit was found in time
    "Name the line, and the piece of it, where one small edit makes a definition right."
    kinds = (ast.FunctionDef, ast.ClassDef)

    def definition(text):
        for node in ast.parse(text).body:
            if isinstance(node, kinds) and node.name == name:
                return node
        return None

    tree, wanted = definition(source), definition(right)
    if tree is None or wanted is None:
        return None
    lines = source.splitlines()
    end = time.monotonic() + SECONDS
    for statement, old in islice(small_edits(tree, wanted), most):
        if time.monotonic() > end:
            return None
        if not is_right(tree):
            continue
        line = statement.lineno
        where = f"line {line}, `{lines[line - 1].strip()}`"
        if old is None:
            return Place(f"before {where}", "a line is missing here; with one more it is right")
        if isinstance(old, ast.stmt):
            return Place(where, "without this line it would be right")
        piece = ast.unparse(old)
        if piece == ast.unparse(statement) or len(piece) > 60:
            return Place(where, "one small change in this line makes it right")
        return Place(where, f"`{piece}` is wrong there; one small change makes it right")
    return None
