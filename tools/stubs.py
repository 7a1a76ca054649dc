"""Write what editors and type checkers read of each package of lazy names: its `__init__.pyi`.

python tools/stubs.py   make them from the tables in the `__init__.py` files

`former_nb.fit` is imported when it is first asked for, which no editor can follow. The stub beside
each `__init__.py` says the same in imports, so that Pylance, pyright, mypy and Jedi know every name
with its types, its docstring and its source. A package or a module that has the name of a function
is the function there, since that is what a program writes.
"""

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEAD = '"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""\n\n'
JUDGES = {"grading", "exercises"}
BEHIND = JUDGES | {"commands", "cli", "lazy", "renamed"}  # no part of the face


def lazy_table(path):
    "The tables that an `__init__.py` gives `lazy_names`: modules -> names, and packages; or None."
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_names":
            more = {keyword.arg: keyword.value for keyword in node.keywords}
            packages = ast.literal_eval(more["packages"]) if "packages" in more else ()
            return ast.literal_eval(node.args[1]), packages
    return None


def home_of(package, name):
    "The module of a package that defines the function which the package itself stands for."
    modules, _ = lazy_table(package / "__init__.py")
    (home,) = (module for module, names in modules.items() if name in names.split())
    return f"{package.name}.{home}"


def modules_in(folder):
    "Its modules and packages, in the order of the alphabet."
    files = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")]
    packages = [path.parent.name for path in folder.glob("*/__init__.py")]
    return sorted({*files, *packages} - BEHIND)


def stub(init):
    "The text of the stub of a package of lazy names; None for any other package."
    folder, table = init.parent, lazy_table(init)
    if table is None:
        return None
    modules, packages = table
    origin = {name: module for module, names in modules.items() for name in names.split()}
    origin |= {name: home_of(folder / name, name) for name in packages}
    lines = [f"from . import {m} as {m}\n" for m in modules_in(folder) if m not in origin]
    for name, module in sorted(origin.items(), key=lambda pair: pair[::-1]):
        lines.append(f"from .{module} import {name} as {name}\n")
    names = "".join(f'    "{name}",\n' for name in sorted(origin))
    version = "__version__: str\n" if folder == ROOT / "former_nb" else ""
    return f"{HEAD}{''.join(lines)}\n{version}__all__ = [\n{names}]\n"


def main(root=ROOT):
    for init in sorted((root / "former_nb").rglob("__init__.py")):
        text, path = stub(init), init.with_suffix(".pyi")
        old = path.read_text(encoding="utf-8") if path.exists() else None
        if text is None:
            path.unlink(missing_ok=True)
        elif text != old:
            path.write_text(text, encoding="utf-8", newline="\n")
            print(f"{path.relative_to(root).as_posix()}: made of the names in __init__.py")
    return 0


if __name__ == "__main__":
    sys.exit(main())
