"""Where the values of a wrong answer leave those of the right one, for one input.

Both run on the same input and note what each of their expressions gives. A value of the answer is
known if the right one has the same numbers, or has them as a part of something larger. The first
line that makes an unknown value, from which no later line comes back to known ones, is where to
look. So a right line that goes another way is not blamed.
"""

import ast
import copy
import math
from itertools import permutations, product
from typing import Any, NamedTuple

from .search import Place, line_of, short

__all__ = ["NOTE", "PART", "Leaving", "Notes", "first_leaving"]

NOTE = "_note_"  # the function that an expression gives its value to
RESULT = "return"  # the name under which it is noted
UNKNOWN = "unknown"
STEP = "is no more than a step of the right answer, or a part of it"
PART = "is a part of the right result, and the rest is missing"
TEXT = ("text",)  # the shape of what has no numbers
MOST = 4000  # values that are noted of one answer
LARGEST = 5000  # numbers of one value
ALL = 100_000  # numbers of the right answer, parts of its tables counted again
NOTED = (ast.BinOp, ast.Call, ast.Subscript, ast.UnaryOp, ast.Attribute, ast.Compare)
NOTED += (ast.ListComp, ast.DictComp, ast.IfExp, ast.List, ast.Tuple)


class Value(NamedTuple):
    "What an expression gave, as far as it can be compared."

    shape: tuple  # without axes of size 1
    numbers: list  # all of them, one behind the other; of what has no numbers, its text


class Note(NamedTuple):
    "That an expression, or a name behind a line, had a value."

    line: ast.stmt
    node: ast.expr | None  # None for a name behind its line
    name: str
    value: Value | None  # None for one that tells nothing, such as 0 or an empty list


class Leaving(NamedTuple):
    "Where values leave those of the right answer."

    line: ast.stmt
    piece: ast.expr  # that makes the first unknown value there
    how: str  # what is said of the piece
    unsure: list  # names used there whose values tell nothing, such as a width or a function

    def place(self, lines: list[str]) -> Place:
        "What is told about it. A right line may go another way, so this blames none but the last."
        piece = f"`{short(self.piece)}`"
        what = (
            f"what it begins with agrees with the right answer, and {piece} {self.how}; look there"
        )
        what += "".join(f", at `{name}`" for name in self.unsure)
        if not isinstance(self.line, ast.Return):
            what += " and further down"
        if self.how in (STEP, PART):
            what = f"{piece} {self.how}"
        return Place(line_of(self.line, lines), what)


# ---------------------------------------------------------------- values


def _flat(thing):
    "The shape of a table of numbers, and all of its numbers; None if it isn't one."
    if type(thing).__name__ == "Size":
        return None
    if hasattr(thing, "tolist") and hasattr(thing, "shape"):
        if math.prod(thing.shape) > LARGEST:
            return None
        return tuple(thing.shape), [float(number) for number in thing.reshape(-1).tolist()]
    if isinstance(thing, (bool, int, float)):
        return (), [float(thing)]
    if not isinstance(thing, (list, tuple)) or len(thing) > LARGEST:
        return None
    shape, numbers = (), []
    for part in thing:
        flat = _flat(part)
        if flat is None or (numbers and flat[0] != shape):
            return None
        shape = flat[0]
        numbers += flat[1]
    return (len(thing), *shape), numbers


def value_of(thing):
    "A thing as a `Value`; None if it tells nothing."
    if isinstance(thing, dict) and not _is_count(thing):
        thing = list(thing.values())
    flat = _flat(thing)
    if flat is None and type(thing) in (list, tuple) and all(map(_flat, thing)):
        numbers = [number for part in thing for number in _flat(part)[1]]
        flat = (len(numbers),), numbers  # of tables of different shapes
    if flat is None:
        if not isinstance(thing, (str, list, tuple, dict)):
            return None
        text = repr(sorted(thing.items(), key=repr) if isinstance(thing, dict) else thing)
        tells = 12 < len(text) < LARGEST and "tensor(" not in text
        return Value(TEXT, [text]) if tells else None
    shape, numbers = flat
    tells = len(set(numbers)) > 1 or any(number % 1 for number in numbers if number - number == 0)
    return Value(shape, numbers) if tells else None


def _is_count(thing):
    return all(isinstance(part, (int, str)) for part in thing.values())


def _near(a, b):
    return a == b or abs(a - b) <= 1e-5 + 1e-4 * abs(b) or (a != a and b != b)


def _equal(some, others):
    return len(some) == len(others) and all(map(_near, some, others))


def _borders(shape):
    "How many numbers lie between two of a row, of a table, and so on."
    return {math.prod(shape[i:]) for i in range(len(shape) + 1)}


def _turned(value, order):
    "A table with its axes in another order."
    steps = [math.prod(value.shape[axis + 1 :]) for axis in order]
    places = product(*(range(value.shape[axis]) for axis in order))
    return [value.numbers[sum(map(int.__mul__, steps, place))] for place in places]


def _same(value, right, exactly=False):
    "Whether two values agree, if not `exactly` but for the order of their axes, or joined ones."
    if TEXT in (value.shape, right.shape):
        return value == right
    if exactly:
        return value.shape == right.shape and _equal(value.numbers, right.numbers)
    if _equal(value.numbers, right.numbers):
        ours, theirs = _borders(value.shape), _borders(right.shape)
        return ours <= theirs or theirs <= ours
    if not _equal(sorted(value.numbers), sorted(right.numbers)):
        return False
    shape = [size for size in value.shape if size > 1]
    table = right._replace(shape=tuple(size for size in right.shape if size > 1))
    for order in permutations(range(len(table.shape))):
        if [table.shape[axis] for axis in order] == shape:
            if _equal(value.numbers, _turned(table, order)):
                return True
    return False


def _parts(value):
    "The rows of a table, and what it has along its second axis."
    if len(value.shape) < 2:
        return
    for axis in range(2):
        order = [axis, *(other for other in range(len(value.shape)) if other != axis)]
        numbers = _turned(value, order) if axis else value.numbers
        shape = tuple(value.shape[i] for i in order[1:])
        size = math.prod(shape)
        for begin in range(0, len(numbers), size or 1):
            yield Value(shape, numbers[begin : begin + size])


def _derived(value):
    "What another way to the same result may have instead."
    if value.shape == TEXT:
        return
    yield value._replace(numbers=[-x for x in value.numbers])
    if max(value.numbers) < 50:
        yield value._replace(numbers=[math.exp(x) for x in value.numbers])
    if min(value.numbers) > 0:
        yield value._replace(numbers=[math.log(x) for x in value.numbers])


class _Known:
    "The values of the right answer, and where one of them is found."

    def __init__(self, values):
        self.found = {}  # by what all orders of the same numbers have in common
        self.left = ALL
        values = [*values, *(other for value in values for other in _derived(value))]
        for value in values:
            self.add(value)
        for value in values:
            for part in _parts(value):
                self.add(part)
                for smaller in _parts(part):
                    self.add(smaller)

    def key(self, value):
        "What two equal values have in common, or nearly so."
        if value.shape == TEXT:
            return value.numbers[0], 0
        total = sum([abs(x) for x in value.numbers if x - x == 0])
        return len(value.numbers), round(math.log(total + 1e-3) * 1000)

    def add(self, value):
        if self.left > 0:
            self.left -= len(value.numbers)
            self.found.setdefault(self.key(value), []).append(value)

    def place(self, value):
        "Which of them it is; `UNKNOWN` if it is none."
        count, size = self.key(value)
        for near in (size, size - 1, size + 1):
            for right in self.found.get((count, near), ()):
                if _same(value, right):
                    return id(right)
        return UNKNOWN


# ---------------------------------------------------------------- notes


def _changed(line):
    "The names that a line gives a value or changes."
    targets = []
    if isinstance(line, ast.Assign):
        targets = line.targets
    elif isinstance(line, (ast.AugAssign, ast.For)):
        targets = [line.target]
    elif isinstance(line, ast.Expr) and isinstance(line.value, ast.Call):
        targets = [line.value.func]
    found = set()
    for target in targets:
        for part in target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]:
            direct = not isinstance(line, ast.Expr)
            while isinstance(part, (ast.Subscript, ast.Attribute)):
                part, direct = part.value, True
            if isinstance(part, ast.Name) and direct:
                found.add(part.id)
    return found


class Notes(ast.NodeTransformer):
    "A definition that notes what each of its expressions gives, when it is run."

    def __init__(
        self,
        definition: ast.FunctionDef,
        notes: list[Note],  # where they go
    ):
        tree = copy.deepcopy(definition)
        self.before = dict(zip(map(id, ast.walk(tree)), ast.walk(definition)))
        self.asked = []  # (line, expression or None, name), by number
        self.notes = notes
        self.line = None
        (self.tree,) = self._lines([tree])

    def note(self, number: int, thing: Any) -> Any:
        "What a call of `NOTE` does: it gives back what it is given."
        line, node, name = self.asked[number]
        if len(self.notes) < MOST or name == RESULT:
            self.notes.append(Note(line, node, name, value_of(thing)))
            if type(thing) is list and isinstance(line, ast.FunctionDef):
                self.notes += [Note(line, None, "", value_of(part)) for part in thing[:10]]
        return thing

    def _noting(self, value, node=None, name=""):
        self.asked.append((self.before[id(self.line)], node, name))
        number = ast.Constant(len(self.asked) - 1)
        return ast.Call(ast.Name(NOTE, ast.Load()), [number, value], [])

    def _noting_names(self, names):
        return [ast.Expr(self._noting(ast.Name(n, ast.Load()), name=n)) for n in sorted(names)]

    def _behind(self, line):
        "Lines that note what a line has changed; of a table the part that it has put in."
        if isinstance(line, ast.For):
            return []
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Subscript):
            part = copy.deepcopy(target)
            part.ctx = ast.Load()
            return [ast.Expr(self._noting(part, name=name)) for name in _changed(line)]
        return self._noting_names(_changed(line))

    def _lines(self, lines):
        "Lines with their notes, and behind each the names that it has changed."
        noted = []
        for line in lines:
            outer, self.line = self.line, line
            behind = self._behind(line)
            if isinstance(line, ast.FunctionDef):
                given = self._noting_names({argument.arg for argument in line.args.args})
                line.body = [*given, *self._lines(line.body)]
            elif not isinstance(line, ast.ClassDef):
                for field, value in ast.iter_fields(line):
                    if field in ("body", "orelse"):
                        setattr(line, field, self._lines(value))
                    elif isinstance(value, ast.expr):
                        setattr(line, field, self.visit(value))
            if isinstance(line, ast.Return) and line.value is not None:
                line.value = self._noting(line.value, name=RESULT)
            self.line = outer
            noted += [line, *behind]
        return noted

    def visit(self, node):
        "An expression with its notes."
        if isinstance(node, (ast.JoinedStr, ast.Slice, ast.arguments)):
            return node
        original = self.before[id(node)]
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):  # a method by itself is no value
                node.func.value = self.visit(node.func.value)
            node.args = [self.visit(part) for part in node.args]
            for keyword in node.keywords:
                keyword.value = self.visit(keyword.value)
        else:
            self.generic_visit(node)
        if isinstance(node, NOTED) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            return self._noting(node, original)
        return node


# ---------------------------------------------------------------- the comparison


def _names(tree):
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}


def _names_but_indices(node):
    if isinstance(node, ast.Subscript):
        return _names_but_indices(node.value)
    parts = [_names_but_indices(part) for part in ast.iter_child_nodes(node)]
    return ({node.id} if isinstance(node, ast.Name) else set()).union(*parts)


def _made_of(tree):
    "For each name, itself and those whose values depend on it."
    made = {}
    for line in ast.walk(tree):
        if isinstance(line, (ast.Assign, ast.AugAssign, ast.Expr, ast.For)):
            for name in _names(line.iter if isinstance(line, ast.For) else line):
                made.setdefault(name, {name}).update(_changed(line))
    longer = True
    while longer:
        before = sum(map(len, made.values()))
        for names in made.values():
            names.update(*[made.get(other, ()) for other in names])
        longer = sum(map(len, made.values())) > before
    return made


def _lines_within(tree):
    "The lines of a function, but for those of functions inside it."
    for line in ast.iter_child_nodes(tree):
        if isinstance(line, ast.stmt):
            yield line
            if not isinstance(line, (ast.FunctionDef, ast.ClassDef)):
                yield from _lines_within(line)


def first_leaving(
    tree: ast.FunctionDef,  # a reader's definition
    given: list[Note],  # what it noted
    right: list[Note],  # what the right one noted for the same input
) -> Leaving | None:  # None where no line can be told
    "The line, and the piece of it, where values leave those of the right answer."
    if not any(note.name == RESULT for note in right):
        return None
    result = _result(right)
    came = _result(given)
    if came == result or (came and result and _same(came, result, exactly=True)):
        return None
    known = _Known([note.value for note in right if note.value is not None])
    places = [note.value and known.place(note.value) for note in given]  # None: tells nothing
    made_of = _made_of(tree)
    returns = [line for line in _lines_within(tree) if isinstance(line, ast.Return)]
    ends = set().union(*map(_names, returns))
    for i, note in enumerate(given):
        if note.node is not None or isinstance(note.line, ast.FunctionDef):
            continue
        if note.line in returns:
            leaving = _leaving(tree, given, places, i)
            if leaving and leaving.how == STEP and _is_part(note.value, result):
                return leaving._replace(how=PART)
            return leaving
        if places[i] != UNKNOWN or _whole(note.value):
            continue
        if isinstance(note.line, ast.Expr) and note.value.shape != TEXT:
            continue  # a list that isn't complete yet
        reached = set().union(*[made_of.get(name, {name}) for name in _changed(note.line)])
        on_the_way = note.name == RESULT or reached & ends  # RESULT: of a function inside
        if on_the_way and not _comes_back(given, places, i, reached):
            return _leaving(tree, given, places, i)
    return None


def _result(notes):
    "What was returned at last."
    return next((note.value for note in reversed(notes) if note.name == RESULT), None)


def _is_part(value, whole):
    "Whether a value is a row, a column or another part of a table."
    parts = list(_parts(whole)) if value and whole else []
    parts += [smaller for part in parts for smaller in _parts(part)]
    return any(_same(value, part) for part in parts)


def _whole(value):
    "Whether all numbers are whole, as those of masks and indices are, which have many forms."
    return value.shape != TEXT and all(number % 1 == 0 for number in value.numbers)


def _comes_back(given, places, i, reached):
    "Whether a later value that depends on these names is a known one that wasn't there before."
    met = set(places[:i])
    for note, place in zip(given[i + 1 :], places[i + 1 :]):
        uses = {note.name} if note.node is None else _names_but_indices(note.node)
        if place and place != UNKNOWN and place not in met and uses & reached:
            return True
    return False


def _leaving(tree, given, places, i):
    "The smallest expression of a line that makes an unknown value, and what else it may be."
    line = given[i].line
    at = {}  # where the last note of each expression of the line is
    for j, note in enumerate(given[: i + 1]):
        if note.node is not None and note.line is line:
            at[id(note.node)] = j
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    made |= {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    agreeing = _agreeing(given[: i + 1], places)
    agreeing |= {argument.arg for argument in tree.args.args}
    agreeing |= {n.id for n in names} - made  # what Python and PyTorch have
    unknown_before = places[at.get(id(line.value), 0)] == UNKNOWN
    piece = line.value
    how = "doesn't"
    if isinstance(line, ast.Expr):
        piece = line.value.func.value
        how = "doesn't any more behind it"
    elif isinstance(line, ast.AugAssign) and not unknown_before:
        piece = line.target
        how = "doesn't any more behind it"
    elif isinstance(piece, ast.Name) and piece.id in agreeing:
        how = STEP
    else:
        piece = _smallest_unknown(piece, given, places, at, agreeing)
    if line is tree.body[0] and piece is line.value:
        return None  # which says nothing
    used = _names(line.value)
    inside = _names_made_in(line.value)
    itself = {piece.id} if isinstance(piece, ast.Name) else set()
    return Leaving(line, piece, how, sorted(used & made - agreeing - inside - itself))


def _agreeing(given, places):
    "The names whose last value is one of the right answer's."
    agreeing = set()
    for note, place in zip(given, places):
        if note.name and place in (None, UNKNOWN):
            agreeing.discard(note.name)
        elif note.name and not _changes_a_part(note.line):
            agreeing.add(note.name)
    return agreeing


def _smallest_unknown(piece, given, places, at, agreeing):
    "From a piece to the one part of it that makes an unknown value, as long as there is just one."
    while True:
        parts = [given[at[id(n)]] for n in _noted_in(piece, at) if places[at[id(n)]] == UNKNOWN]
        parts = [note.node for note in parts if not _whole(note.value)]
        if len(parts) != 1 or not _alone(parts[0], piece, at, places, agreeing):
            return piece
        (piece,) = parts


def _alone(part, piece, at, places, agreeing):
    "Whether all that a piece is made of agrees, but for one part."
    others = [n for n in _noted_in(piece, at) if n is not part]
    names = _names(piece) - _names(part) - {n for other in others for n in _names(other)}
    return all(places[at[id(n)]] for n in others) and names <= agreeing


def _changes_a_part(line):
    return isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Subscript)


def _names_made_in(node):
    "Names of comprehensions."
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name)]
    return {n.id for n in names if isinstance(n.ctx, ast.Store)}


def _noted_in(node, at):
    "The noted expressions within one, but for those inside of others."
    for part in ast.iter_child_nodes(node):
        if id(part) in at:
            yield part
        else:
            yield from _noted_in(part, at)
