"""The order of the house and of the course, and the check that imports run one way by it.

python tools/order.py         folders import from lower folders, pages from earlier pages
python tools/order.py --toc   write what follows from the order: docs/_toc.yml, the order of the
                              site, and in ruff.toml which files of the package are exported

Two tables say all. `FOLDERS`: a module imports from its own folder and from those in lines above,
never in a circle. `COURSE`: a page imports what its lesson or an earlier one exports. Plain
modules, which no page exports, obey the first table alone. Judges may import all; of them, pages
import the door alone, `grading.check`. An `import_module` with a name counts as an import, and
one without is in `BY_NAME`, with its reason. What is above the folders (the command
line) and outside the course (index, tour, the page on the reader's file, solutions) may import
everything, and nothing imports it.
"""

import argparse
import ast
import json
import re
import sys
import textwrap
from pathlib import Path

FOLDERS = """
base
attention data
ladder
models
training
saving
decoding
inspection
diagnosis
tasks
commands
"""
# A line per lesson of the path, the first course; after it the deep dives that stand on it, which
# make the second course, in reading order.
COURSE = """
01_self_attention
02_attention
03_multi_head       attention_variants
04_masks            mask_patterns flash
05_positions        relative_positions
06_block            depth
07_text             batches
08_training         why_doesnt_it_learn optimization long_runs claims
09_classifier       baselines masked_language
10_generator        long_texts
11_decoding         sampling beam_search caches
12_modern_decoder   since_llama mixture_of_experts
13_encoder_decoder
14_number_words     reward
15_subwords
16_translation      interpretability pretrained two_models your_attention own_data own_task
"""
MILESTONES = {  # lesson -> the page after it that runs the reader's file
    "06_block": "milestone_pytorch",
    "11_decoding": "milestone_names",
    "12_modern_decoder": "milestone_llama",
    "14_number_words": "milestone_numbers",
    "16_translation": "project",
}
AHEAD = {  # deep dives that show or wrap what a later lesson derives
    "deeper/03_attention_variants": ["04_masks", "07_text", "deeper/07_batches", "08_training"]
    + ["10_generator", "12_modern_decoder", "13_encoder_decoder"],  # in models that are trained
    "deeper/04_mask_patterns": ["10_generator", "deeper/11_caches"],  # masks in a whole model
    "deeper/04_flash": ["10_generator"],
    "deeper/05_relative_positions": ["deeper/11_caches", "12_modern_decoder"],
    "deeper/06_depth": ["12_modern_decoder", "13_encoder_decoder"],  # other parts of a block
    "deeper/07_batches": ["13_encoder_decoder"],  # a wrapper around two stacks
    "deeper/08_long_runs": ["09_classifier", "10_generator", "11_decoding", "deeper/11_caches"],
    "deeper/08_claims": ["10_generator", "13_encoder_decoder", "16_translation"],
}
NAMED = {  # pages whose modules have other names; several where their ideas belong to several
    "02_attention": ("dot_product",),
    "deeper/04_mask_patterns": ("leaks",),
    "deeper/06_depth": ("post_norm",),
    "deeper/08_long_runs": ("resuming",),
    "deeper/16_interpretability": ("lens",),
    "deeper/16_pretrained": ("fine_tuning",),
    "10_generator": ("language_model",),
    "06_block": ("layers",),
}
TOUR = "00_tour"
PRIMER = "00_pytorch"  # before the lessons: what they ask of a reader who knows Python
FIRST = "00_first_hour"  # the job on which each lesson's model is measured, and its first models
PAPER = "paper"  # behind the project: the paper of 2017 beside the lessons, and an exam
YOUR_FILE = "your_file"  # how readers handle the file that they write

LEVELS = [line.split() for line in FOLDERS.split("\n") if line]
LEVEL = {folder: i for i, folders in enumerate(LEVELS) for folder in folders}
ROWS = [line.split() for line in COURSE.strip().splitlines()]
BEHIND = {lesson: [f"deeper/{lesson[:2]}_{dive}" for dive in dives] for lesson, *dives in ROWS}
PATH = list(BEHIND)
DIVES = [dive for dives in BEHIND.values() for dive in dives]
# The pages of the path in their order: before it, lessons and milestones.
STEPS = [TOUR, PRIMER, FIRST]
LESSON = {PRIMER: -1, FIRST: -1}  # page -> the place of its lesson
for number, lesson in enumerate(PATH):
    after = [MILESTONES[lesson]] if lesson in MILESTONES else []
    STEPS += [lesson, *after]
    LESSON.update(dict.fromkeys([lesson, *BEHIND[lesson], *after], number))
LESSON[PAPER] = len(PATH) - 1
READ = list(LESSON)
BESIDE = ("grading", "exercises")  # folders beside the others
JUDGES = tuple(f"{folder}." for folder in BESIDE)  # what judges answers may import all
FACE = ("lazy", "renamed")  # what each package's names go through, and imports nothing of them
DOOR = "grading.check"  # to the judges; pages import `check` and `hint` from it
BY_NAME = {  # modules that import what is named only while they run -> why
    "lazy": "a package offers names and imports none of them",
    "yours": "its own table says where a name comes from",
    "models.choices": "a word has the address of a part, which is imported when it is built",
    "tasks.__init__": "a task is a file that somebody adds",
    "grading.content": "what is asked about the right file is imported after all that asks",
    "grading.prove": "all that is asked is proved",
}

ROOT = Path(__file__).resolve().parent.parent
LIB = "former_nb"
IMPORTERS = ("import_module", "__import__")  # what imports a module that it is told
SOURCE = re.compile(r"^# AUTOGENERATED!.* File to edit: \S*?nbs/(\S+)\.ipynb", re.M)
# What the export itself writes is not held against a file.
EXPORT_IGNORES = '["E402", "E501", "F401", "I001", "W292"]'

# ---------------------------------------------------------------- what is there


def sources(lib):
    "Module name -> the page that exports it, or for a plain module the name of its file."
    modules = {}
    for path in sorted(lib.rglob("*.py")):
        file = path.relative_to(lib)
        head = SOURCE.search(path.read_text(encoding="utf-8")[:400])
        modules[".".join(file.with_suffix("").parts)] = head[1] if head else file.as_posix()
    return modules


def is_plain(source):
    "Is this value of `sources` a module that no page exports?"
    return source.endswith(".py")


def faces(lib):
    "Name that the package or a folder offers, as `fit` or `models.Block` -> its module."
    homes = {}
    for path in [lib / "__init__.py", *lib.glob("*/__init__.py")]:
        folder = "" if path.parent == lib else f"{path.parent.name}."
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Dict):
                for key, names in zip(node.keys, node.values):
                    for name in names.value.split():
                        homes[folder + name] = folder + key.value
    if (lib / "yours.py").exists():  # a name of the reader's file has the home of the course's
        _, tree = module_tree("yours", lib)
        tables = [node for node in tree.body if isinstance(node, ast.Assign)]
        [homes_of] = [node.value for node in tables if node.targets[0].id == "HOMES"]
        for module, names in ast.literal_eval(homes_of).items():
            homes |= {f"yours.{name}": module for name in names.split()}
    return homes


def pages(nbs):
    "The pages of the path and the deep dives that are there."
    there = []
    for folder in (nbs, nbs / "deeper"):
        there += [path.relative_to(nbs) for path in sorted(folder.glob("[!._]*.ipynb"))]
    return [path.with_suffix("").as_posix() for path in there]


# ---------------------------------------------------------------- imports


def imported(tree, modules, names, package=""):
    "(line, module) for each import from the library in a syntax tree of a module in `package`."
    for node in ast.walk(tree):
        for name in targets(node, package):
            name = names.get(name, name)
            while name not in modules and "." in name:
                name = name.rpartition(".")[0]
            if name in modules:
                yield node.lineno, name


def calls_import(node):
    "Does this call import a module, by `import_module` or `__import__`?"
    return getattr(node.func, "id", getattr(node.func, "attr", "")) in IMPORTERS


def names_module(node):
    "Is the whole name of the module written in the call?"
    name = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    return isinstance(name, str) and not name.startswith(".")


def targets(node, package):
    "Dotted names below the library that an import, as a statement or as a call, may mean."
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.Call) and calls_import(node):
        names = [node.args[0].value] if names_module(node) else []
    elif isinstance(node, ast.ImportFrom):
        start = node.module or ""
        if node.level:
            above = [LIB, *package.split(".")][: len(package.split(".")) + 2 - node.level]
            start = ".".join(filter(None, [*above, node.module]))
        names = [f"{start}.{alias.name}" for alias in node.names]
    else:
        return []
    return [name[len(LIB) + 1 :] for name in names if name.startswith(LIB + ".")]


def module_tree(module, lib):
    "(where, tree) of a module of the package."
    path = lib.joinpath(*module.split(".")).with_suffix(".py")
    where = f"{LIB}/{path.relative_to(lib).as_posix()}"
    return where, ast.parse(path.read_text(encoding="utf-8"))


def cell_tree(source, where):
    "The syntax tree of a cell, its shell and magic lines replaced by `pass`."
    if re.match(r"%%(?!(time|timeit|capture)\b)", source):
        return ast.parse("")
    return ast.parse(re.sub(r"^(\s*)(%%?\w|!(?!=)).*$", r"\1pass", source, flags=re.M), where)


def cell_trees(page, nbs):
    "(where, tree) for the code cells of a page."
    cells = json.loads((nbs / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    for i, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            where = f"nbs/{page}.ipynb, cell {i}"
            yield where, cell_tree("".join(cell["source"]), where)


# ---------------------------------------------------------------- faults


def folder_of(module):
    "The folder of a module; empty for what is above the folders."
    folder = module.partition(".")[0]
    return folder if folder in LEVEL else ""


def may_import(module, other):
    "Whether the table of folders lets a module import another."
    here, there = folder_of(module), folder_of(other)
    if other in ("__init__", *FACE) or module.startswith(JUDGES):
        return True
    if not there:
        return not here
    if not here or here == there:
        return True
    return LEVEL[there] < LEVEL[here]


def module_faults(lib, modules, names):
    "One sentence for each module outside the folders, each import upwards, and each circle."
    graph = {}
    for module in modules:
        name = module.rpartition(".")[2]
        if name == "_modidx":
            continue
        top = "." not in module and module not in ("__init__", *FACE, "cli", "yours")
        if top or module.partition(".")[0] not in {*LEVEL, *BESIDE, module}:
            yield f"{LIB}/{module.replace('.', '/')}.py: is in no folder of tools/order.py"
        where, tree = module_tree(module, lib)
        graph[module] = []
        for line, other in dict.fromkeys(imported(tree, modules, names, package_of(module))):
            graph[module].append(other)
            if not may_import(module, other):
                yield f"{where}, line {line}: imports {LIB}.{other}, which is not below it"
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and calls_import(n)]
        unnamed = [call.lineno for call in calls if not names_module(call)]
        for line in unnamed if module not in BY_NAME else ():
            yield f"{where}, line {line}: imports what is named nowhere; BY_NAME lists who may"
        if module in BY_NAME and not unnamed:
            yield f"{where}: is in BY_NAME of tools/order.py, and needs it no more"
    circle = find_circle(graph) or find_circle(folders_of(graph))
    if circle:
        yield f"{LIB}: imports run in a circle: {' -> '.join(circle)}"


def folders_of(graph):
    "The graph of modules as one of folders; a module beside them is a folder of its own."
    folders = {}
    for module, others in graph.items():
        here = module.partition(".")[0]
        there = {other.partition(".")[0] for other in others} - {here, "__init__", *FACE}
        folders.setdefault(here, set()).update(there)
    return {folder: sorted(others) for folder, others in folders.items()}


def package_of(module):
    "The dotted name of the folder of a module, as relative imports count it."
    return module.rpartition(".")[0]


def find_circle(graph):
    "Modules of which each imports the next and the last the first; empty where there is none."
    done = set()

    def visit(module, trail):
        if module in trail:
            return [*trail[trail.index(module) :], module]
        if module in done:
            return []
        for other in graph.get(module, []):
            circle = visit(other, [*trail, module])
            if circle:
                return circle
        done.add(module)
        return []

    for module in graph:
        circle = visit(module, [])
        if circle:
            return circle
    return []


def page_faults(page, lib, nbs, modules, names):
    "One sentence for each import of a page, or of its module, from a later lesson."
    exports = [module for module, source in modules.items() if source == page]
    trees = [(*module_tree(module, lib), package_of(module)) for module in exports]
    trees += [(where, tree, "") for where, tree in cell_trees(page, nbs)]
    shown = AHEAD.get(page, [])
    for where, tree, package in trees:
        for line, module in dict.fromkeys(imported(tree, modules, names, package)):
            source = modules[module]
            lesson = LESSON.get(source)
            is_later = lesson is not None and lesson > LESSON[page]
            is_above = module == "cli" or (module.startswith(JUDGES) and module != DOOR)
            if is_above or (is_later and source not in shown):
                what = f"imports {LIB}.{module} ({source}), which does not come before {page}"
                yield f"{where}, line {line}: {what}"


def faults(root):
    "One sentence for each page without a place, module with another name, and import ahead."
    lib, nbs = root / LIB, root / "nbs"
    modules = sources(lib)
    names = faces(lib)
    yield from module_faults(lib, modules, names)
    for page in pages(nbs):
        if page not in {"index", TOUR, YOUR_FILE, *READ}:
            yield f"nbs/{page}.ipynb: has no place in COURSE of tools/order.py"
        elif page in READ:
            yield from page_faults(page, lib, nbs, modules, names)
    for module, page in modules.items():
        expected = NAMED.get(page, (re.sub(r"^(.*/)?(\d\d_)?", "", page),))
        if page in READ and module.rpartition(".")[2] not in expected:
            called = " or ".join(expected)
            yield f"nbs/{page}.ipynb: exports {LIB}.{module}, expected a module called {called}"
    toc_file = root / "docs" / "_toc.yml"
    if not toc_file.exists() or toc_file.read_text(encoding="utf-8") != toc(nbs):
        yield "docs/_toc.yml: is not the order of the pages: python tools/order.py --toc"
    rules = (root / "ruff.toml").read_text(encoding="utf-8")
    if rules != ruff_rules(rules, modules):
        yield "ruff.toml: lists other files than are exported: python tools/order.py --toc"


# ---------------------------------------------------------------- what follows from the order


def ruff_rules(rules, modules):
    "The text of ruff.toml with the files that pages export where it lists exported files."
    folders = {}
    for module, source in modules.items():
        folder, _, name = module.rpartition(".")
        if not is_plain(source):
            folders.setdefault(folder, []).append(name)
    patterns = []
    for folder, names in folders.items():
        rows = textwrap.wrap(", ".join(names), 70)
        patterns += [f'"{LIB}/{folder}/{{{row.strip(",").replace(", ", ",")}}}.py"' for row in rows]
    listed = "".join(f"{pattern} = {EXPORT_IGNORES}\n" for pattern in patterns)
    rules = re.sub(rf'(^"{LIB}/.*\n)+', lambda _: listed, rules, flags=re.M)
    listed = "".join(f"  {pattern},\n" for pattern in patterns)
    return re.sub(r"^exclude = \[\n[^]]*\]", lambda _: f"exclude = [\n{listed}]", rules, flags=re.M)


def toc(nbs):
    "The order of the site: the path, the second course, the solutions, the reference."
    there = set(pages(nbs))
    path = [page for page in [*STEPS, PAPER, YOUR_FILE] if page in there]
    path += [page for page in ("glossary", "teachers") if (nbs / f"{page}.md").exists()]
    parts = {
        "The path": [f"file: {page}" for page in path],
        "The second course: deep dives": [f"file: {page}" for page in DIVES if page in there],
        "Solutions": ["glob: solutions/*"],
        "API": ["file: api/house", "file: api/versions", "file: api/small_torch"]
        + [f"glob: api/{folder}/*" for folder in LEVEL]
        + ["file: api/grading/check", "file: api/cli", "file: api/yours"],
    }
    lines = ["# Written by `python tools/order.py --toc`.", "root: index", "subtrees:"]
    for caption, entries in parts.items():
        if entries:
            lines += [f'- caption: "{caption}"', "  entries:", *(f"  - {e}" for e in entries)]
    return "\n".join(lines) + "\n"


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--root", type=Path, default=ROOT, help="holds nbs/, former_nb/ and docs/")
    p.add_argument("--toc", action="store_true", help="write docs/_toc.yml and ruff.toml")
    args = p.parse_args(argv)
    if args.toc:
        text = toc(args.root / "nbs")
        (args.root / "docs" / "_toc.yml").write_text(text, encoding="utf-8", newline="\n")
        rules = args.root / "ruff.toml"
        text = ruff_rules(rules.read_text(encoding="utf-8"), sources(args.root / LIB))
        rules.write_text(text, encoding="utf-8", newline="\n")
        return 0
    sentences = list(faults(args.root))
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    if not sentences:
        print("every folder imports only from lower ones, every page only what came before it")
    return len(sentences) > 0


if __name__ == "__main__":
    sys.exit(main())
