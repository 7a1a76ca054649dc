"""Change right answers at random, a place at a time, and list what the grader accepts.

python tools/changes.py                 a thousand changes of the reader's file
python tools/changes.py 300 02 flash.1  so many, of lessons, definitions or exercises

An accepted change is one of meaning, and then something has to be asked, or one of words alone.
"""

import ast
import copy
import random
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import torch

from former_nb.grading import content, known, prove
from former_nb.grading.answer import Answer
from former_nb.grading.ask import ASKED, EXERCISES, STEPS

SUMS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
COMPARED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)


def with_field(node, field, value):
    "A change, and what takes it back."
    before = getattr(node, field)

    def change():
        setattr(node, field, value)

    return change, lambda: setattr(node, field, before)


def changes(tree):
    "All single changes of a definition: (what it is, change, take back)."
    names = sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp):
            yield from (("operator", *with_field(node, "op", op())) for op in SUMS)
            yield "order", *with_field(node, "left", node.right)
        if isinstance(node, ast.Compare):
            yield from (("operator", *with_field(node, "ops", [op()])) for op in COMPARED)
        if isinstance(node, ast.UnaryOp):
            yield "operator", *with_field(node, "op", ast.UAdd())
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            for value in (node.value + 1, node.value - 1, -node.value, 0, node.value * 2):
                yield "constant", *with_field(node, "value", value)
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield "constant", *with_field(node, "value", not node.value)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield from (("name", *with_field(node, "id", name)) for name in names)
        if isinstance(node, ast.Call):
            for i in range(len(node.args) - 1):
                args = [*node.args]
                args[i], args[i + 1] = args[i + 1], args[i]
                yield "order", *with_field(node, "args", args)
            for i in range(len(node.keywords)):
                yield (
                    "argument",
                    *with_field(node, "keywords", node.keywords[:i] + node.keywords[i + 1 :]),
                )
        if isinstance(node, ast.arguments):
            for i in range(len(node.defaults)):
                for value in (None, 0, 1, True):
                    some = [*node.defaults]
                    some[i] = ast.Constant(value)
                    yield "default", *with_field(node, "defaults", some)
        body = getattr(node, "body", None)
        if isinstance(body, list) and len(body) > 1:
            for i in range(len(body)):
                yield "line", *with_field(node, "body", body[:i] + body[i + 1 :])
            for i in range(len(body) - 1):
                yield (
                    "line",
                    *with_field(node, "body", [*body[:i], body[i + 1], body[i], *body[i + 2 :]]),
                )
        if getattr(node, "decorator_list", None):
            yield "decorator", *with_field(node, "decorator_list", [])


def accepted(name, source):
    "Whether all steps of a definition accept this source; None if Python doesn't."
    space = dict(content.space_of(name))
    try:
        exec(compile(source, "<changed>", "exec"), space)
    except Exception:  # noqa: BLE001
        return None
    made = space[content.definition(name).name]
    answer = Answer(made, None, source.splitlines(), "<changed>", space, {})
    for one in (ASKED if name in EXERCISES else STEPS).values():
        if one.definition != name:
            continue
        for i in range(len(known.calls(one.name))):
            if not known.is_right(one.name, i, answer.seen(one.name, i, 2.0)):
                return False
    return True


def tried(job):
    "(name, kind, the changed lines, whether it is accepted) of some changes of a definition."
    name, picked = job
    torch.set_num_threads(1)
    prove.load()
    source = content.definition(name).source()
    tree = ast.parse(source).body[0]
    plain, found = ast.unparse(tree), []
    every = list(changes(tree))
    for number in picked:
        kind, change, back = every[number]
        change()
        text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(tree)))
        back()
        lines = [b for a, b in zip(plain.splitlines(), text.splitlines()) if a != b]
        said = None if text == plain else accepted(name, text)
        found.append((name, kind, "; ".join(line.strip() for line in lines[:2]), said))
    return found


def main(argv):
    n = int(argv.pop(0)) if argv and len(argv[0]) > 2 and argv[0].isdigit() else 1000
    prove.load()
    names = [name for name in prove.chosen(argv) if argv or name not in EXERCISES]
    trees = {name: ast.parse(content.definition(name).source()).body[0] for name in names}
    every = [(name, i) for name, tree in trees.items() for i, _ in enumerate(changes(tree))]
    random.seed(0)
    picked = random.sample(every, min(n, len(every)))
    jobs = [(name, [i for other, i in picked if other == name]) for name in names]
    tried_, passed = Counter(), []
    with ProcessPoolExecutor(2) as pool:
        for found in pool.map(tried, jobs):
            for name, kind, lines, said in found:
                if said is not None:
                    tried_[kind] += 1
                if said:
                    passed.append((name, kind, lines))
    for name, kind, lines in passed:
        print(f"{name}: {kind}: {lines}")
    kinds = ", ".join(f"{k} {kind}" for kind, k in tried_.most_common())
    print(f"{sum(tried_.values())} changes ({kinds}); {len(passed)} accepted")


if __name__ == "__main__":
    main(sys.argv[1:])
