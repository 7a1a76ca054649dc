"""Which definitions of a file under names of its own look like which of the course's.

A file that was written for another course calls attention `scaled_dot_product_attention`, and its
weights `q_proj`. What its definitions are made of tells which they are; the reader decides.
"""

import ast
from collections import Counter
from difflib import SequenceMatcher

from .content import definitions
from .files import File, is_open

LEAST = 0.35  # of what two definitions are made of, that they share
CLEAR = 0.05  # by so much more than any other
NAME = 0.15  # what a name that is the same counts
ARGUMENT = 0.03  # what an argument more or less costs
PART_OF = {"attention": "attention_weights"}  # in one definition elsewhere


def traits(tree):
    "What a definition is made of, whatever its variables are called."
    found: Counter = Counter()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_own(node):
            found[node.attr] += 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            found[node.func.id] += 1
        elif isinstance(node, (ast.operator, ast.cmpop, ast.unaryop, ast.For, ast.While, ast.If)):
            found[type(node).__name__] += 1
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            found[repr(node.value)] += 1
    return found


def is_own(node):
    return isinstance(node.value, ast.Name) and node.value.id == "self"


def alike(one, other):
    "The share of traits that two definitions have in common, from 0 to 1."
    return sum((one & other).values()) / max(1, sum((one | other).values()))


def mixes(node):
    "Whether a function returns a product, as attention does with its weights and the values."
    last = node.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.MatMult)


def arguments(node):
    "How many arguments a function has, or what a class is made with."
    own = [part for part in getattr(node, "body", []) if getattr(part, "name", "") == "__init__"]
    function = own[0] if isinstance(node, ast.ClassDef) and own else node
    return len(function.args.args) if isinstance(function, ast.FunctionDef) else 0


def lookalikes(
    file: File,
) -> dict[str, str]:  # a definition of the course -> one of the file, the likeliest first
    "Definitions of the file that look like some of the course's that it hasn't."
    missing = {}
    for key, known in definitions().items():
        if file.own(key) not in file.written:
            node = ast.parse(known.source()).body[0]
            part = definitions().get(PART_OF.get(key))
            whole = traits(node) + (traits(ast.parse(part.source())) if part else Counter())
            missing[key] = node, whole
    taken = {file.own(key) for key in definitions()}
    pairs = []
    for name, node in file.nodes.items():
        if name in taken or is_open(node):
            continue
        mine = traits(node)
        for key, (right, theirs) in missing.items():
            if type(node) is type(right) and not (key in PART_OF.values() and mixes(node)):
                off = abs(arguments(node) - arguments(right))
                called = SequenceMatcher(None, key.lower(), name.lower()).ratio()
                score = alike(mine, theirs) + NAME * called - ARGUMENT * off
                pairs.append((score, key, name))
    return assigned(sorted(pairs, reverse=True))


def assigned(pairs):
    "The best pairs, each name once, where no other is nearly as good."
    found: dict[str, str] = {}
    for score, key, name in pairs:
        near = {key, PART_OF.get(key), *(k for k, part in PART_OF.items() if part == key)}
        others = [s for s, k, n in pairs if n == name and k not in near and k not in found]
        clear = score - max(others, default=0.0) > CLEAR
        if score >= LEAST and clear and key not in found and name not in found.values():
            found[key] = name
    return found
