"""The order of the course, and the check that imports run one way by it.

python tools/order.py         a page and its module import only from pages before them
python tools/order.py --toc   write docs/_toc.yml, the order of the site

`COURSE` is the one place where the order is written down. A page outside it (index, tour, command
line, recipes, solutions) may import everything, and nothing in the course may import it.
"""

import argparse
import ast
import json
import re
import sys
from pathlib import Path

# A line per lesson of the path; after it the deep dives behind its door, in reading order.
COURSE = """
01_self_attention
02_attention
03_multi_head       equivalent_forms
04_masks            mask_patterns mask_formats leaks noise flash
05_positions        relative_positions positions_measured
06_block            norms stack
07_text             data_sets batches packing
08_training         losses optimization runs checkpoints resuming scaling speed
09_classifier       baselines masked_language
10_generator        long_texts
11_decoding         sampling beam_search caches
12_encoder_decoder
13_number_words
14_subwords
15_translation      translation_ablations alignments attention_maps pretrained fine_tuning
"""
SHARED = [f"library/{page}" for page in "core guards exercises tokenization files".split()]
USED = {  # pages that come before a lesson in the way of imports, wherever they are read
    "04_masks": ["library/recording", "library/ablation"],
    "06_block": ["library/config"],
    "deeper/07_data_sets": ["library/toy_data"],
    "deeper/04_leaks": ["library/leak_tools"],
    "08_training": [
        *("library/sharding", "library/callbacks"),
        *("deeper/08_losses", "deeper/08_optimization"),
        *("library/training_config", "deeper/08_runs"),
    ],
    "09_classifier": ["library/results", "library/saving", "library/labels", "library/ngrams"],
    "11_decoding": [
        *("library/prompts", "deeper/11_sampling", "deeper/11_caches"),
        *("library/costs", "deeper/08_scaling"),  # its models are those of lesson 10
    ],
    "12_encoder_decoder": [
        "library/two_stacks",
        *("library/long_text_data", "deeper/08_speed"),  # its ladder climbs over lessons 09 to 11
    ],
    "15_translation": ["library/scores", "library/translating", "library/viewer"],
    "deeper/15_pretrained": ["library/families", "library/family_configs", "library/hugging_face"],
}
EXTRA = "config toy_data labels ngrams prompts multi_head_tools leak_tools two_stacks"
EXTRA += " recording ablation viewer"
EXTRA += " translating scores long_text_data"
EXTRA += " families family_configs hugging_face"
EXTRA += " training_config callbacks sharding results saving costs settings recipes reports cli"
LIBRARY = [f"library/{page}" for page in EXTRA.split()]
LIBRARY = [*SHARED, *LIBRARY]  # as the site shows it
TOUR = "00_tour"

ROWS = [line.split() for line in COURSE.strip().splitlines()]
BEHIND = {lesson: [f"deeper/{lesson[:2]}_{dive}" for dive in dives] for lesson, *dives in ROWS}
PATH, DIVES = list(BEHIND), [dive for dives in BEHIND.values() for dive in dives]
READ = [*SHARED, *(page for lesson in PATH for page in [lesson, *BEHIND[lesson]])]  # imports' way
for lesson, pages in USED.items():
    READ = [page for page in READ if page not in pages]
    READ[READ.index(lesson) : READ.index(lesson)] = pages

ROOT = Path(__file__).resolve().parent.parent
LIB = "former_nb"
SOURCE = re.compile(r"File to edit: \S*?nbs/(\S+)\.ipynb")


def sources(lib):
    "Module name -> the page that exports it, None for modules that no page exports."
    modules = {}
    for path in sorted(lib.rglob("*.py")):
        head = SOURCE.search(path.read_text(encoding="utf-8")[:400])
        modules[".".join(path.relative_to(lib).with_suffix("").parts)] = head[1] if head else None
    return modules


def public_names(lib):
    "Public name -> the module that defines it, for what is imported from the package itself."
    names = {}
    for path in lib.glob("[a-z]*.py"):
        found = re.search(r"^__all__ = (\[.*?\])", path.read_text(encoding="utf-8"), re.M | re.S)
        names |= dict.fromkeys(ast.literal_eval(found[1]) if found else [], path.stem)
    return names


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


def imported(tree, modules, names):
    "(line, module) for each import from the library in a syntax tree."
    for node in ast.walk(tree):
        for name in targets(node):
            name = name if name in modules else names.get(name, name)
            while name not in modules and "." in name:
                name = name.rpartition(".")[0]
            if name in modules:
                yield node.lineno, name


def cell_tree(source, where):
    "The syntax tree of a cell, its shell and magic lines replaced by `pass`."
    if source.startswith("%%") and not re.match(r"%%(time|timeit|capture)\b", source):
        return ast.parse("")
    return ast.parse(re.sub(r"^(\s*)(%%?\w|!(?!=)).*$", r"\1pass", source, flags=re.M), where)


def trees(page, lib, nbs, modules):
    "(where, tree) for the modules and the code cells of a page."
    for name in (m for m, source in modules.items() if source == page):
        path = lib.joinpath(*name.split(".")).with_suffix(".py")
        where = f"{LIB}/{path.relative_to(lib).as_posix()}"
        yield where, ast.parse(path.read_text(encoding="utf-8"))
    cells = json.loads((nbs / f"{page}.ipynb").read_text(encoding="utf-8"))["cells"]
    for i, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            where = f"nbs/{page}.ipynb, cell {i}"
            yield where, cell_tree("".join(cell["source"]), where)


def pages(nbs):
    "The pages of the path, of the deep dives and of the library that are there."
    folders = [nbs, nbs / "deeper", nbs / "library"]
    found = [p.relative_to(nbs) for folder in folders for p in sorted(folder.glob("[!._]*.ipynb"))]
    return [p.with_suffix("").as_posix() for p in found]


def import_faults(page, lib, nbs, modules):
    "One sentence for each import of a page, or of its module, that does not come before it."
    names = public_names(lib)
    before = {*SHARED, *READ[: READ.index(page)]}
    for where, tree in trees(page, lib, nbs, modules):
        for line, name in dict.fromkeys(imported(tree, modules, names)):
            if modules[name] not in before:
                which = modules[name] or "no page"
                what = f"imports {LIB}.{name} ({which}), which does not come before {page}"
                yield f"{where}, line {line}: {what}"


def faults(root):
    "One sentence for each page without a place, module with another name, and import ahead."
    lib, nbs = root / LIB, root / "nbs"
    modules = sources(lib)
    for page in pages(nbs):
        if page not in {"index", TOUR, *LIBRARY, *READ}:
            yield f"nbs/{page}.ipynb: has no place in COURSE of tools/order.py"
        elif page in READ:
            yield from import_faults(page, lib, nbs, modules)
    for module, page in modules.items():
        if page in READ and module != (name := re.sub(r"^(.*/)?(\d\d_)?", "", page)):
            yield f"nbs/{page}.ipynb: exports {LIB}.{module}, expected {LIB}.{name}"
    toc_file = root / "docs" / "_toc.yml"
    if not toc_file.exists() or toc_file.read_text(encoding="utf-8") != toc(nbs):
        yield "docs/_toc.yml: is not the order of the pages: python tools/order.py --toc"


def toc(nbs):
    "The order of the site: the path, the deep dives, the library, the solutions, the reference."
    there = set(pages(nbs))
    glossary = ["file: glossary"] if (nbs / "glossary.md").exists() else []
    parts = {
        "The path": [f"file: {page}" for page in [TOUR, *PATH] if page in there] + glossary,
        "Deep dives": [f"file: {page}" for page in DIVES if page in there],
        "Library": [f"file: {page}" for page in LIBRARY if page in there],
        "Solutions": ["glob: solutions/*"],
        "API": ["glob: api/*"],
    }
    lines = ["# Written by `python tools/order.py --toc`.", "root: index", "subtrees:"]
    for caption, entries in parts.items():
        if entries:
            lines += [f"- caption: {caption}", "  entries:", *(f"  - {e}" for e in entries)]
    return "\n".join(lines) + "\n"


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--root", type=Path, default=ROOT, help="holds nbs/, former_nb/ and docs/")
    p.add_argument("--toc", action="store_true", help="write docs/_toc.yml")
    args = p.parse_args(argv)
    if args.toc:
        text = toc(args.root / "nbs")
        (args.root / "docs" / "_toc.yml").write_text(text, encoding="utf-8", newline="\n")
        return 0
    found = list(faults(args.root))
    for fault in found:
        print(fault, file=sys.stderr)
    if not found:
        print("every page imports only from pages before it, and the site follows their order")
    return len(found) > 0


if __name__ == "__main__":
    sys.exit(main())
