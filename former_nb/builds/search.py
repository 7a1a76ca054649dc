"""Where a definition is wrong in a way that nobody foresaw: the first small edit that mends it.

Another name, another number, two arguments exchanged, a call too much, a line too much, a piece of
the right definition in place of one of the reader's: each such edit of the reader's source is
tried, nearest to the right definition first, until one answers all questions or the time is over.
Where no right definition is at hand, the edits that change least come first. What is told is the
place, not the edit: a place sends a reader back to think.
"""

import ast
import contextlib
import copy
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

__all__ = ["EDITS", "Place", "Edit", "RunawayError", "traced"]
__all__ += ["small_edits", "find_place", "place_in", "line_of", "short"]

EDITS = 3000  # of one definition that are tried; a number, so that a verdict is the same twice
SECONDS = 6.0  # of the processor, after which no further edit is tried, whatever an answer does
LARGEST = 14  # nodes of a piece of the right definition that may be put in
ALIKE = [  # names that are taken for one another
    {"sum", "mean", "max", "min", "amax", "amin"},
    {"softmax", "log_softmax", "sigmoid"},
    {"argmax", "argmin"},
    {"tril", "triu"},
    {"cat", "stack"},
    {"exp", "log", "log2"},
    {"sin", "cos"},
    {"any", "all"},
    {"repeat_interleave", "repeat"},
    {"zeros", "ones"},
    {"train", "eval"},
    {"gelu", "relu", "silu"},
]
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.MatMult, ast.FloorDiv)
AGAIN = 60  # edits of a statement that are tried when one is right already
IN_LINE = "one small change in this line makes it right"
AFTER = "this line and the next are in the wrong order"
INSIDE = {  # for so many lines
    1: "it would be right inside the loop",
    2: "this line and the next would be right inside the loop",
    3: "this line and the next two would be right inside the loop",
}
BEHIND = {
    1: "it would be right behind the loop",
    2: "this line and the next would be right behind the loop",
}
LOOPS = (ast.For, ast.While)
ORDINALS = ("first", "second", "third", "fourth")
LOGIC = (ast.BitAnd, ast.BitOr)
REDUCING = {"sum", "mean", "prod", "amax", "amin", "logsumexp", "any", "all"}
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


def _called(tree):
    "The names that a tree calls."
    funcs = (n.func for n in ast.walk(tree) if isinstance(n, ast.Call))
    return {func.id for func in funcs if isinstance(func, ast.Name)}


def _constants(tree, *kinds):
    found = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return sorted(value for value in found if type(value) in kinds)


def _head(node):
    "What kind of expression it is: the name of a call, else its class."
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2]
    return type(node).__name__


class _Words(NamedTuple):
    "What the new pieces of a reader's definition may be made of."

    known: set  # names that stand for something there
    called: set  # names that are functions there
    own: set  # attributes of `self`
    arguments: list  # of the definition, where the right one is not at hand
    numbers: list
    texts: list
    pieces: list  # of the right definition


def _words(tree, right):
    known = _stored(tree) | {n for n in _names(right) if n not in _stored(right)}
    numbers = {*_constants(right, int, float)} or {0, 1, 2, *_constants(tree, int, float)}
    return _Words(
        known,
        _called(tree) | _called(right) | {n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)},
        _attributes_of_self(tree),
        [] if _names(right) else [n.arg for n in ast.walk(tree) if isinstance(n, ast.arg)],
        sorted(numbers),
        _constants(right, str) or _constants(tree, str),
        _pieces(right, known),
    )


def _alike(name):
    "The names that are taken for one, and itself, if there are such."
    return set().union(*[group for group in ALIKE if name in group])


def _names_for(node, called, words):
    "Other names, methods and values that may stand in place of one."
    load = ast.Load()
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        names = words.known
        if called:
            names = (words.known & words.called) | _alike(node.id)
        for name in sorted(names):
            yield ast.Name(name, load)
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
        of_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        others = words.own if of_self else set()
        for name in sorted(others | _alike(node.attr)):
            yield ast.Attribute(copy.deepcopy(node.value), name, load)
    if isinstance(node, ast.Constant):
        kind = type(node.value)
        if kind in (int, float):
            yield ast.Constant(float("-inf"))
        values = [True, False, None] if kind in (bool, type(None)) else []
        if kind in (int, float):
            values = [*words.numbers, node.value + 1, node.value - 1, -node.value]
        for value in words.texts if kind is str else values:
            yield ast.Constant(value)


def _parts_of(node, called):
    "An expression without one of its parts, or with two of them exchanged."
    if isinstance(node, ast.BinOp):
        yield ast.BinOp(node.right, node.op, node.left)
        yield node.left
        yield node.right
        yield from _grouped_anew(node)
    if isinstance(node, ast.UnaryOp):
        yield node.operand
        if isinstance(node.operand, ast.Constant):  # of a score that is to be forbidden
            yield ast.Constant(float("-inf"))
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Load):
        if not called:
            yield node.value
    if isinstance(node, ast.Tuple) and isinstance(node.ctx, ast.Load):
        nones = [i for i, part in enumerate(node.elts) if ast.dump(part) == "Constant(value=None)"]
        more = [_index(*node.elts[:i], node.elts[i], *node.elts[i:]) for i in nones]
        less = [_index(*node.elts[:i], *node.elts[i + 1 :]) for i in nones]
        yield from [_index(*elements) for elements in _exchanged(node.elts)] + more + less
    if isinstance(node, ast.Slice):
        last = ast.UnaryOp(ast.USub(), ast.Constant(1))
        for begin in (None, ast.Constant(1), node.lower):
            for end in (None, last, node.upper):
                yield ast.Slice(begin, end, node.step)
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            yield node.func.value  # without the call
        yield from node.args[:1]
        for args in [*_exchanged(node.args), *_shortened(node.args)]:
            yield ast.Call(node.func, args, node.keywords)
        for keywords in _shortened(node.keywords):
            yield ast.Call(node.func, node.args, keywords)
        for i, keyword in enumerate(node.keywords):  # `clamp(max=1)` as `clamp(min=1)`
            if keyword.arg in ("min", "max"):
                other = ast.keyword("min" if keyword.arg == "max" else "max", keyword.value)
                changed = [*node.keywords[:i], other, *node.keywords[i + 1 :]]
                yield ast.Call(node.func, node.args, changed)


def _grouped_anew(node):
    "An expression with parentheses around all that stands before one of its operators, or behind."
    text, depth = ast.unparse(node), 0
    for i, sign in enumerate(text):
        depth += (sign in "([{") - (sign in ")]}")
        if depth == 0 and sign == " " and text[i + 2 : i + 3] == " " and text[i + 1] in "+-*/@":
            before, behind = text[:i], text[i + 3 :]
            for new in (f"({before}) {text[i + 1]} {behind}", f"{before} {text[i + 1]} ({behind})"):
                with contextlib.suppress(SyntaxError):  # of a text with such signs in it
                    yield ast.parse(new, mode="eval").body


def _formulas_for(formula):
    "A formula of `einsum` with one of its letters in place of another."
    letters = sorted(set(filter(str.isalpha, formula)))
    for i, sign in enumerate(formula):
        if sign.isalpha():
            for letter in letters:
                yield ast.Constant(formula[:i] + letter + formula[i + 1 :])


def _exchanged(nodes):
    "A list, two neighbours exchanged, for each two."
    for i in range(len(nodes) - 1):
        yield [*nodes[:i], nodes[i + 1], nodes[i], *nodes[i + 2 :]]


def _shortened(nodes):
    return [[*nodes[:i], *nodes[i + 1 :]] for i in range(len(nodes))]


def _index(*parts):
    return ast.Tuple(list(parts), ast.Load())


def _terms_with(node, arguments):
    "An expression beside one of the arguments: what is added, or divided by, may be missing."
    if isinstance(node, (ast.Call, ast.Subscript, ast.BinOp, ast.Name)):
        for name in arguments:
            for operator in OPERATORS[:5]:
                yield ast.BinOp(node, operator(), ast.Name(name, ast.Load()))


def _signs_for(node):
    "Other operators, or one more."
    if isinstance(node, ast.BinOp):
        for operator in (*OPERATORS, *LOGIC):
            yield ast.BinOp(node.left, operator(), node.right)
    if isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        for operator in COMPARISONS:
            yield ast.Compare(node.left, [operator()], node.comparators)
    if isinstance(node, (ast.Call, ast.Subscript, ast.BinOp, ast.Name)):
        yield ast.UnaryOp(ast.Invert(), node)
        yield ast.UnaryOp(ast.USub(), node)
        for operator in (ast.Add(), ast.Sub()):
            yield ast.BinOp(node, operator, ast.Constant(1))
        yield ast.Attribute(node, "mT", ast.Load())
        yield ast.Call(ast.Attribute(node, "sqrt", ast.Load()), [], [])
        yield ast.Subscript(node, _index(ast.Constant(...), ast.Constant(None)), ast.Load())
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in REDUCING:
            kept = [k for k in node.keywords if k.arg != "keepdim"]
            keepdim = ast.keyword("keepdim", ast.Constant(True))
            yield ast.Call(node.func, node.args, [*kept, keepdim])
            if not node.args and not kept:
                yield ast.Call(node.func, [ast.Constant(-1)], [])
                yield ast.Call(node.func, [ast.Constant(-1)], [keepdim])
        if node.func.attr == "sigmoid":
            shares = ast.Attribute(node.func.value, "softmax", ast.Load())
            yield ast.Call(shares, [*node.args, ast.Constant(-1)], [])
    if isinstance(node, ast.Call) and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
        inner = node.args[0]  # f(g(x)) as g(f(x))
        turned = ast.Call(node.func, inner.args[:1], node.keywords)
        yield ast.Call(inner.func, [turned, *inner.args[1:]], inner.keywords)


def _turned(node):
    "A power or a method before another one that comes after it: `x.mean() ** 2`, `x.t().exp()`."
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        made = node.left
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute):
            power = ast.BinOp(made.func.value, ast.Pow(), node.right)
            method = ast.Attribute(power, made.func.attr, ast.Load())
            yield ast.Call(method, made.args, made.keywords)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        first = node.func.value
        if isinstance(first, ast.Call) and isinstance(first.func, ast.Attribute):
            method = ast.Attribute(first.func.value, node.func.attr, ast.Load())
            inner = ast.Call(method, node.args, node.keywords)
            yield ast.Call(
                ast.Attribute(inner, first.func.attr, ast.Load()), first.args, first.keywords
            )
        if isinstance(first, ast.BinOp) and isinstance(first.op, ast.Pow):
            method = ast.Attribute(first.left, node.func.attr, ast.Load())
            yield ast.BinOp(ast.Call(method, node.args, node.keywords), ast.Pow(), first.right)


def _replacements(node, called, words) -> Iterator[ast.AST]:
    "What may stand in place of an expression. `called`: whether it is the function of a call."
    yield from _names_for(node, called, words)
    yield from _parts_of(node, called)
    if isinstance(node, ast.Slice):
        yield from (ast.Name(name, ast.Load()) for name in sorted(words.known - words.called))
    if isinstance(node, ast.Constant) and "->" in str(node.value):
        yield from _formulas_for(node.value)
    if called or isinstance(node, ast.Slice):
        return
    yield from _signs_for(node)
    yield from _turned(node)
    near = [piece for piece in words.pieces if _head(piece) == _head(node)]
    yield from _terms_with(node, words.arguments)
    yield from near
    yield from (piece for piece in words.pieces if _head(piece) != _head(node))


def _bag(tree):
    return Counter(
        type(n).__name__ + getattr(n, "id", "") + getattr(n, "attr", "") for n in ast.walk(tree)
    )


class Edit(NamedTuple):
    "New values of fields of some nodes of a definition, and what is wrong there."

    price: float
    statement: ast.stmt
    old: ast.AST | None  # None for a line that is missing
    fields: tuple  # (parent, field, value)
    new: ast.AST | None = None  # what stands there then, where it is an expression
    moved: str = ""  # what is wrong with a whole line
    lines: tuple = ()  # the others in which the same slip stands

    def swap(self):
        "Put it into the tree, or with what this returns take it out."
        before = tuple((parent, field, getattr(parent, field)) for parent, field, _ in self.fields)
        for parent, field, value in self.fields:
            setattr(parent, field, value)
        return self._replace(fields=before)

    def with_copies(self):
        "The same with copies of what it puts in, since that may be a part of the tree already."
        fields = []
        for parent, field, value in self.fields:
            if isinstance(value, list):
                there = {id(part) for part in getattr(parent, field)}
                value = [part if id(part) in there else copy.deepcopy(part) for part in value]
            else:
                value = copy.deepcopy(value)
            fields.append((parent, field, value))
        return self._replace(fields=tuple(fields))


def _put(parent, field, index, new):
    "A field of a node with something else in it."
    value = getattr(parent, field)
    return parent, field, new if index is None else [*value[:index], new, *value[index + 1 :]]


def _edits_of_expressions(tree, right) -> Iterator[Edit]:
    words = _words(tree, right)
    wanted = _bag(right)
    now = _bag(tree)

    def price(old, new):
        change = _bag(new)
        change.subtract(old)
        if not wanted:
            return sum(map(abs, change.values())) / 10 + _size(new) / 500
        nearer = sum(
            abs(wanted[k] - now[k] - n) - abs(wanted[k] - now[k]) for k, n in change.items()
        )
        return nearer + _size(new) / 50

    def visit(parent, statement):
        if isinstance(parent, ast.Attribute) and isinstance(parent.ctx, ast.Store):
            return  # `torch.stack = stack` in place of `self.stack = stack` would change PyTorch
        for field, value in ast.iter_fields(parent):
            if field in ("decorator_list", "annotation", "returns", "ctx", "op", "ops"):
                continue
            values = value if isinstance(value, list) else [value]
            for index, node in enumerate(values):
                if not isinstance(node, ast.AST) or isinstance(node, ast.arguments):
                    continue
                here = node if isinstance(node, ast.stmt) else statement
                if isinstance(node, ast.expr) and here is not None:
                    called = field == "func"
                    seen = {ast.dump(node)}
                    before = _bag(node)
                    for new in _replacements(node, called, words):
                        if (dumped := ast.dump(new)) not in seen:
                            seen.add(dumped)
                            at = index if isinstance(value, list) else None
                            put = _put(parent, field, at, new)
                            yield Edit(price(before, new), here, node, (put,), new)
                yield from visit(node, here)

    yield from visit(tree, None)


def _edits_of_lines(tree, right) -> Iterator[Edit]:
    "A line too much, two exchanged, one inside or outside of a loop, one that is missing."
    made = _stored(right) - _words(tree, right).known  # names that the reader doesn't have
    calls = [n for n in ast.walk(right) if isinstance(n, ast.Expr)]
    missing = [n for n in calls if not made & _names(n)]
    for parent in ast.walk(tree):
        block = getattr(parent, "body", None)
        if not isinstance(block, list):
            continue
        for i, line in enumerate(block):
            before = block[:i]
            behind = block[i + 1 :]
            for price, lines, moved in _other_lines(line, behind, parent):
                put = (parent, "body", [*before, *lines])
                yield Edit(price, line, line, (put,), moved=moved)
            if behind and isinstance(behind[0], LOOPS):
                inside = (behind[0], "body", [line, *behind[0].body])
                left = (parent, "body", [*before, *behind])
                yield Edit(1.3, line, line, (inside, left), moved=INSIDE[1])
            if isinstance(line, LOOPS):
                yield from _edits_of_a_loop(parent, i)
            if isinstance(parent, (ast.FunctionDef, ast.For, ast.If)):
                for new in missing:
                    put = (parent, "body", [*before, new, *block[i:]])
                    yield Edit(0.5, line, None, (put,))


def _other_lines(line, behind, parent):
    "(price, lines, what is wrong) of what may stand for a line and those behind it."
    if behind or parent.body[0] is not line:
        yield 1.5, behind, "without this line it would be right"
    if behind and not isinstance(parent, ast.ClassDef):
        yield 1.4, [behind[0], line, *behind[1:]], AFTER
    if isinstance(line, ast.AugAssign):
        for new in _other_sums(line):
            yield 0.5, [new, *behind], ""
    if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
        yield 0.6, [ast.AugAssign(line.targets[0], ast.Add(), line.value), *behind], ""


def _edits_of_a_loop(parent, index):
    "The last lines of a loop behind it, or the next ones inside."
    before = parent.body[:index]
    loop = parent.body[index]
    behind = parent.body[index + 1 :]
    for n, moved in BEHIND.items():
        if len(loop.body) > n:
            inside = loop.body[:-n]
            out = loop.body[-n:]
            fields = (loop, "body", inside), (parent, "body", [*before, loop, *out, *behind])
            yield Edit(1.25 + n / 20, out[0], out[0], fields, moved=moved)
    for n, moved in INSIDE.items():
        if len(behind) > n:
            inside = [*loop.body, *behind[:n]]
            fields = (loop, "body", inside), (parent, "body", [*before, loop, *behind[n:]])
            yield Edit(1.25 + n / 20, behind[0], behind[0], fields, moved=moved)


def _other_sums(line):
    "What may stand for a line such as `x += y`."
    target = copy.deepcopy(line.target)
    target.ctx = ast.Load()
    for operator in OPERATORS[:5]:
        if not isinstance(line.op, operator):
            yield ast.AugAssign(line.target, operator(), line.value)
    yield ast.Assign([line.target], ast.BinOp(target, line.op, line.value))
    yield ast.Assign([line.target], line.value)


def _made_twice(edits) -> Iterator[Edit]:
    "One slip that stands in several places, mended in all of them."
    alike = {}
    for edit in edits:
        if edit.new is not None:
            key = ast.dump(edit.old), ast.dump(edit.new)
            alike.setdefault(key, []).append(edit)
    for same in alike.values():
        parents = {id(edit.fields[0][0]) for edit in same}
        if 1 < len(same) == len(parents):
            first, fields = same[0], tuple(edit.fields[0] for edit in same)
            lines = {edit.statement.lineno for edit in same} - {first.statement.lineno}
            yield first._replace(
                price=first.price + 0.15, fields=fields, lines=tuple(sorted(lines))
            )


def _listed(tree, right) -> list[Edit]:
    "All edits of a definition, the likeliest first."
    pieces = list(_edits_of_expressions(tree, right))
    found = [*pieces, *_made_twice(pieces), *_edits_of_lines(tree, right)]
    return sorted(found, key=lambda edit: edit.price)


@contextlib.contextmanager
def _made(edit):
    "Within `with`, an edit is in the tree."
    before = edit.with_copies().swap()
    try:
        yield
    finally:
        before.swap()


def small_edits(
    tree: ast.AST,  # a reader's definition; changed while an edit is out, and then as before
    right: ast.AST | None = None,  # the right one, where there is one
    first: ast.stmt | None = None,  # the line whose edits come first
) -> Iterator[Edit]:  # the one that is in the tree
    "Put one edit into the tree after another, the likeliest first."
    edits = _listed(tree, right or ast.Module([], []))
    for edit in sorted(edits, key=lambda edit: edit.statement is not first):
        with _made(edit):
            yield edit


class RunawayError(BaseException):
    "An edited answer that does not come to an end, or that makes something enormous."


@contextlib.contextmanager
def traced(
    begin: Callable,  # is told of each call, as by `sys.settrace`
):
    "Look at what runs inside, and leave whatever looked at it before."
    before = sys.gettrace()
    sys.settrace(begin)
    try:
        yield
    finally:
        sys.settrace(before)


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

    tree = definition(source)
    solution = definition(right)
    if tree is None or solution is None:
        return None
    return place_in(tree, source.split("\n"), solution, is_right, most)


def place_in(
    tree: ast.AST,  # a reader's definition
    lines: list[str],  # of the source that it is from
    right: ast.AST | None,  # the right one, where there is one
    is_right: Callable[[ast.AST], bool],  # whether an edited definition answers all questions
    most: int = EDITS,  # edits that are tried
    seconds: float = SECONDS,  # of the processor, after which no further edit is tried
    first: ast.stmt | None = None,  # the line whose edits come first
) -> Place | None:  # None if no small edit was found in time
    "The first small edit that makes a definition right, as a place."
    end = time.process_time() + seconds
    edits = islice(small_edits(tree, right, first), most)
    for edit in edits:
        if time.process_time() > end:
            return None
        if not is_right(tree):
            continue
        where = line_of(edit.statement, lines)
        told = edit.old is not None and not edit.moved and not edit.lines
        if told and right is None and _another(edits, edit, tree, is_right, end):
            return Place(where, IN_LINE)
        return _told(edit, where)
    return None


def _another(edits, edit, tree, is_right, end):
    "Whether an edit of another piece of the statement is right, too, so that neither is to blame."
    within = [n for n in ast.walk(edit.old) if isinstance(n, ast.expr)]
    tried = 0
    for other in edits:
        if other.statement is not edit.statement or other.moved or tried == AGAIN:
            continue
        if other.old is None or other.old in within or edit.old in ast.walk(other.old):
            continue
        tried += 1
        if time.process_time() > end:
            return False
        if is_right(tree):
            return True
    return False


def _wrong_piece(edit):
    "Which piece of a statement is wrong, in words."
    old, statement = edit.old, edit.statement
    piece = ast.unparse(old)
    if piece == ast.unparse(statement) or len(piece) > 60:
        return IN_LINE
    others = [n for n in ast.walk(statement) if ast.dump(n) == ast.dump(old)]
    places = {(n.lineno, n.col_offset) for n in [old, *others] if hasattr(n, "lineno")}
    which = sorted(places).index((old.lineno, old.col_offset)) if hasattr(old, "lineno") else 0
    piece = f"`{piece}`"
    if len(edit.fields) > 1 and not edit.lines:
        piece = f"each {piece}"
    elif 1 < len(places) <= len(ORDINALS):
        piece = f"the {ORDINALS[which]} {piece}"
    return f"{piece} is wrong there; one small change makes it right"


def line_of(
    line: ast.stmt,
    lines: list[str],  # of the source that it is from
) -> str:
    "A line, as sentences name it."
    return f"line {line.lineno}, `{lines[line.lineno - 1].strip()}`"


def short(
    node: ast.AST,
    longest: int = 60,  # characters
) -> str:
    "The source of a piece, or the beginning of it."
    text = ast.unparse(node)
    return text if len(text) <= longest else text[:longest] + "…"


def _told(edit, where):
    "A place, of an edit that is right."
    if edit.old is None:
        return Place(f"before {where}", "a line is missing here; with one more it is right")
    if edit.moved:
        return Place(where, edit.moved)
    if edit.lines:
        return Place(where, _wrong_piece(edit) + f", and the same in line {edit.lines[0]}")
    return Place(where, _wrong_piece(edit))
