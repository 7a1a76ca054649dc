"""Check that every lesson imports only from lessons before it, in its notebook and in its module.

  python tools/order.py

A lesson is nbs/NN_topic.ipynb, or NNb_topic.ipynb where one was split, and the module that it exports. `core` (00) comes before all of them,
`exercises` may be imported everywhere, and files without a number may import everything.
"""

import argparse
import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIB, ALWAYS = "former_nb", {"exercises"}
SOURCE = re.compile(r"File to edit: \S*?nbs/(\d+[a-z]?)_[^/\s]+\.ipynb")


def lesson_numbers(lib):
    "Module name -> lesson number, None for modules that are no lesson."
    modules = {}
    for path in lib.rglob("*.py"):
        head = SOURCE.search(path.read_text(encoding="utf-8")[:400])
        modules[".".join(path.relative_to(lib).with_suffix("").parts)] = head[1] if head else None
    return modules


def targets(node):
    "Dotted names that an import statement of a top-level module may mean, below the library."
    if isinstance(node, ast.Import):
        names = [a.name for a in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = ".".join(filter(None, [LIB if node.level else "", node.module]))
        names = [f"{base}.{a.name}" for a in node.names]
    else:
        return []
    return [n[len(LIB) + 1 :] for n in names if n.startswith(LIB + ".")]


def imported(tree, modules):
    "(line, module) for each import from the library in a syntax tree."
    for node in ast.walk(tree):
        for name in targets(node):
            while name not in modules and "." in name:
                name = name.rpartition(".")[0]
            if name in modules:
                yield node.lineno, name


def cell_tree(source):
    "The syntax tree of a cell, its shell and magic lines replaced by `pass`."
    if source.startswith("%%") and not re.match(r"%%(time|timeit|capture)\b", source):
        return ast.parse("")
    return ast.parse(re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.M))


def trees(number, lib, nbs, modules):
    "(where, tree) for the module and the code cells of lesson `number`."
    for name in (m for m, n in modules.items() if n == number):
        path = lib.joinpath(*name.split(".")).with_suffix(".py")
        yield (
            f"{LIB}/{path.relative_to(lib).as_posix()}",
            ast.parse(path.read_text(encoding="utf-8")),
        )
    for path in nbs.glob(f"{number}_*.ipynb"):
        for i, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
            if cell["cell_type"] == "code":
                yield f"nbs/{path.name}, cell {i}", cell_tree("".join(cell["source"]))


def faults(lib, nbs):
    "One sentence for each import that does not come from an earlier lesson."
    modules = lesson_numbers(lib)
    numbers = {p.name.partition("_")[0] for p in nbs.glob("[0-9][0-9]*_*.ipynb")}
    for number in sorted(numbers):
        for where, tree in trees(number, lib, nbs, modules):
            for line, name in imported(tree, modules):
                other = modules[name]
                if name not in ALWAYS and (other is None or other >= number):
                    which = f"lesson {other}" if other is not None else "no lesson"
                    yield f"{where}, line {line}: imports {LIB}.{name} ({which}), which does not come before lesson {number}"


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--root", type=Path, default=ROOT, help="the folder that holds nbs/ and former_nb/"
    )
    root = p.parse_args(argv).root
    found = list(faults(root / LIB, root / "nbs"))
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        print("every lesson imports only from lessons before it")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
