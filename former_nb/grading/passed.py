"""Which definitions of a reader's file `check` has passed, as they stand there now.

What passed is noted as an empty file in the cache folder of this machine. Its name is a digest of
the definition, of all that it uses in its file, and of the right file that it was compared with. So
a definition that changed has not passed, a file that was copied has, and a file that came from
somebody else brings no record along. An empty file is there or not: a record can't be half written.
"""

import ast
import hashlib

from ..base.files import check_path
from .ask import STEPS
from .content import right_source
from .files import defined_names, names_in

__all__ = ["digests", "note_passed", "first_open"]


def _bound(node):
    "The names that a statement at the top of a file binds; None for one that may do anything."
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        names = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        return None if "*" in names else names
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        whole = all(isinstance(target, (ast.Name, ast.Tuple, ast.List)) for target in targets)
        return _names(ast.Tuple(targets, ast.Store())) if whole else None
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    is_program = isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"
    return set() if is_text or is_program else None


def _names(node):
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _uses(tree):
    "Name -> the statements that define it and all that they use, by their numbers in the file."
    bound = [_bound(node) for node in tree.body]
    makers: dict[str, set[int]] = {}
    for number, names in enumerate(bound):
        for name in names or ():
            makers.setdefault(name, set()).add(number)
    always = {number for number, names in enumerate(bound) if names is None}
    found = {}
    for name in makers:
        todo = makers[name] | always
        seen: set[int] = set()
        while todo:
            number = todo.pop()
            seen.add(number)
            used = _names(tree.body[number])
            todo |= set().union(*(makers.get(other, set()) for other in used)) - seen
        found[name] = seen
    return found


def digests(
    source: str,  # of a reader's file
) -> dict[str, str]:  # for each step whose definition is there
    "What a step is noted under: its definition and all that this uses, without comments."
    tree = ast.parse(source)
    uses, names = _uses(tree), names_in(tree)
    found = {}
    for step in STEPS.values():
        numbers = uses.get(names.get(step.definition, step.definition))
        if numbers is not None:
            text = "\0".join(ast.unparse(tree.body[number]) for number in sorted(numbers))
            whole = "\0".join([right_source(), step.name, text])
            found[step.name] = hashlib.sha256(whole.encode()).hexdigest()[:32]
    return found


def _folder():
    import pooch  # not in the page of the site, which notes nothing

    return check_path("cache", pooch.os_cache("former_nb")) / "passed"


def note_passed(
    source: str,  # of the file that was judged
    steps: list[str],  # that are right
) -> None:
    "Note the steps that `check` found right. `OSError` where nothing can be written."
    found = digests(source)
    _folder().mkdir(parents=True, exist_ok=True)
    for name in found.keys() & set(steps):
        (_folder() / found[name]).touch()


def first_open(
    source: str,  # of a reader's file
) -> dict[str, str | None]:  # definition -> the first step that has to pass before it can be used
    """What still has to pass for each definition that is written; None if nothing has to.

    A definition can be used if its steps have passed, and those of every definition it uses, as far
    as its own lesson: `Block` doesn't wait for heads that share keys, which come later.
    """
    tree = ast.parse(source)
    found = digests(source)
    passed = {name for name, digest in found.items() if (_folder() / digest).exists()}
    written = defined_names(source)
    names = {number: _bound(node) for number, node in enumerate(tree.body)}
    result: dict[str, str | None] = {}
    for definition, numbers in _uses(tree).items():
        there = set().union(*(names[number] or set() for number in numbers))
        steps = [step for step in STEPS.values() if step.definition in there]
        own = [step for step in steps if step.definition == definition]
        if own and definition in written:
            first = max("04", min(step.lesson for step in own))  # from then on there are masks
            used = [s for s in steps if " with " not in s.name or s.lesson <= first]
            todo = [step for step in own + used if step.name not in passed]
            todo.sort(key=lambda step: step.lesson if " with " in step.name else "")
            result[definition] = todo[0].name if todo else None
    return result
