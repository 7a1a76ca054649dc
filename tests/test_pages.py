"""The pages of the path: each runs as a reader sees it, has the anatomy of a lesson, and what it
exports is what it shows.

`nbdev_test` runs every cell of a page. What a reader sees runs as well if no shown cell uses a name
that no shown cell made, nor one that only a fold made. With FORMER_NB_PAGES=all each page is also
executed as rendered, in an empty kernel.
"""

import ast
import builtins
import inspect
import os
import re
import symtable
from importlib import import_module
from pathlib import Path

import pytest
from course_tools import tool

nbformat = pytest.importorskip("nbformat")
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as prose
from nbformat.v4 import new_notebook, new_output

from former_nb.grading.ask import EXERCISES
from former_nb.grading.content import find_exercise

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
PITFALLS = 2
LAST = ["Exercises", "Into your file", "The number", "Recap", "References"]
IMPORTS = "What this page imports"
MINUTES = r"\*\*\d+ minutes to read, \d+ with the work\*\*"

order, first_cell = tool("order"), tool("first_cell")
PAGES = [*order.STEPS, order.PAPER]
EXPORTING = [*order.PATH, "milestone_llama"]  # that page adds to the module of lesson 12
BESIDE = [(order.PRIMER, "00.{}"), (order.FIRST, "first_hour.{}"), (order.PAPER, "paper.{}")]
BELOW = {  # what modules of the path import of deep dives, which those lessons name in a sentence
}

SHOWN = {  # a page exports one module; of these plain ones, deep dives show the source
    "deeper/04_mask_patterns": "attention.mask_patterns",
    "deeper/08_optimization": "training.losses",
}

# ---------------------------------------------------------------- what a reader sees of a page


def directives(cell):
    "The `#|` lines of a cell: name -> value, in small letters."
    found = re.findall(r"^# *\| *([\w-]+) *:? *(.*?) *$", cell.source, re.M)
    return {name: value.lower() for name, value in found}


def lines(cell):
    "What stands in a code cell besides directives and blank lines."
    return [s for s in cell.source.splitlines() if s.strip() and not s.startswith("#|")]


def code_cells(nb):
    "(number, cell) for each cell that holds code, numbered from 1 among all cells."
    cells = enumerate(nb.cells, 1)
    return [(n, cell) for n, cell in cells if cell.cell_type == "code" and lines(cell)]


def is_hidden(cell):
    "Is this code out of a reader's reach? Folded code is not: it opens on demand."
    said, tags = directives(cell), set(cell.metadata.get("tags", []))
    unseen = said.get("include") == "false" or said.get("echo") == "false" or "hide" in said
    return unseen or bool(tags & {"remove-cell", "remove-input"})


def is_folded(cell):
    said = directives(cell)
    return said.get("code-fold") == "true" or "fold" in said


def is_exported(cell):
    return bool({"export", "exports", "exporti"} & set(directives(cell)))


def body(cell):
    "The statements of a code cell, without shell and magic lines."
    return order.cell_tree(cell.source, "a cell").body


def importing(cell):
    "The statements of a cell that import."
    return [s for s in body(cell) if isinstance(s, (ast.Import, ast.ImportFrom))]


def is_module_head(cell):
    "Is this the hidden cell with the imports of the module that a page exports, and nothing else?"
    return is_exported(cell) and len(importing(cell)) == len(body(cell))


def is_import_fold(cell):
    return is_folded(cell) and directives(cell).get("code-summary") == IMPORTS.lower()


def takes_yours(cell):
    "Is this a cell that takes the reader's own definitions, as it stands, and does nothing else?"
    found = [getattr(s, "module", None) for s in body(cell)]
    return found == ["former_nb.yours"] and not is_folded(cell)


def shown_and_run(nb):
    "(number, cell) for the code that a reader sees and runs."
    cells = [(n, cell) for n, cell in code_cells(nb) if not is_hidden(cell)]
    return [(n, cell) for n, cell in cells if directives(cell).get("eval") != "false"]


# ---------------------------------------------------------------- the cell that installs


@pytest.mark.parametrize("path", first_cell.pages(), ids=lambda path: path.stem)
def test_a_notebook_begins_with_its_title_and_plumbing_is_folded(path):
    """The same on each page. The cell that installs the package is no part of the page: not shown
    on the site, not counted here. It is folded, as all cells are that the site hides or folds."""
    nb = nbformat.read(path, 4)
    found = [n for n, cell in enumerate(nb.cells) if first_cell.is_install(cell)]
    assert found == [1] and nb.cells[0].cell_type == "markdown", "python tools/first_cell.py"
    assert nb.cells[1].source == first_cell.CELL and not nb.cells[1].outputs
    assert nb.cells[0].source.startswith("# ")
    for n, cell in code_cells(nb):
        unseen = is_hidden(cell) or is_folded(cell)
        assert cell.metadata == (first_cell.FOLDED if unseen else {}), f"cell {n}"


@pytest.mark.parametrize("places", [["https://a", "git+https://b"], ["git+https://b"]])
def test_it_asks_for_one_place_after_the_other_until_the_package_is_there(places, monkeypatch):
    cell = re.sub(r"%pip install (.*)", r"asked.append('\1')", first_cell.cell_for(places))
    for found in range(len(places) + 1):  # whatever installs it is the last
        asked, there = [], iter([None] * found + ["found"] * 3)
        monkeypatch.setattr("importlib.util.find_spec", lambda name, there=there: next(there))
        exec(cell, {"asked": asked})
        assert [line.split('"')[1] for line in asked] == places[:found]


# ---------------------------------------------------------------- names


def tables(table):
    yield table
    for child in table.get_children():
        yield from tables(child)


def names(source, where):
    "What a cell makes for the next ones, what it uses as it runs, and what its functions use."
    top = symtable.symtable(ast.unparse(order.cell_tree(source, where)), where, "exec")
    inner = [s for table in tables(top) for s in table.get_symbols() if table is not top]
    made = {s.get_name() for s in top.get_symbols() if s.is_assigned() or s.is_imported()}
    made |= {s.get_name() for s in inner if s.is_declared_global() and s.is_assigned()}
    used = {s.get_name() for s in top.get_symbols() if s.is_referenced()}
    later = {s.get_name() for s in inner if s.is_global() and s.is_referenced()}
    return made, used, later


def name_faults(nb):
    "One sentence for each name that a shown cell uses and no shown cell made, or only a fold."
    cells = [(n, cell, *names(cell.source, f"cell {n}")) for n, cell in shown_and_run(nb)]
    builtin = {*dir(builtins), "__name__", "__file__", "display", "get_ipython"}
    closed = {n for n, cell, *_ in cells if is_folded(cell) and not is_import_fold(cell)}
    opened = builtin.union(*(made for n, _, made, *_ in cells if n not in closed))
    maker = dict.fromkeys(builtin, 0)  # name -> the cell that made it last
    for n, _, made, used, later in cells:
        maker |= dict.fromkeys(made, n)
        for name in sorted(used - maker.keys() | later - opened - made):
            yield f"cell {n} uses {name}, which no shown cell has made"
        for name in sorted(used & maker.keys()):
            if maker[name] in closed - {n}:
                yield f"cell {n} uses {name}, which cell {maker[name]}, a fold, has made"


def import_faults(nb):
    """One sentence for each cell with imports that nbdev cannot run, or that computes, in its docs.

    Where a page exports, `nbdev_docs` and `nbdev_readme` run the exports and every cell that
    imports, and no other. So imports stand together, and computing stands apart from them.
    """
    if not any(is_exported(cell) for _, cell in code_cells(nb)):
        return
    known, first = {*dir(builtins), "get_ipython"}, True
    for n, cell in code_cells(nb):
        if directives(cell).get("eval") == "false":
            continue
        tree = order.cell_tree(cell.source, f"cell {n}")
        imports = any(isinstance(node, (ast.Import, ast.ImportFrom)) for node in ast.walk(tree))
        if not imports and not is_exported(cell):
            continue
        made, used, _ = names(cell.source, f"cell {n}")
        known |= made
        if is_exported(cell) or first_cell.is_install(cell):
            continue
        if unknown := sorted(used - known):
            yield f"cell {n} imports and uses {', '.join(unknown)}, which nbdev has not made"
        elif not first and any(not isinstance(x, (ast.Import, ast.ImportFrom)) for x in tree.body):
            yield f"cell {n} imports and computes: move its imports to the first cell that imports"
        first = False


@pytest.mark.parametrize("path", first_cell.pages(), ids=lambda path: path.stem)
def test_imports_stand_apart_from_what_computes(path):
    assert list(import_faults(nbformat.read(path, 4))) == []


# ---------------------------------------------------------------- anatomy


def page_faults(nb):
    "One sentence for each way in which a page does not run as shown."
    for n, cell in code_cells(nb):
        fine = cell.source == first_cell.CELL or is_module_head(cell)
        if is_hidden(cell) and not fine:  # those two are the exceptions to the rule
            yield f"cell {n} is hidden"
        if is_folded(cell) and is_exported(cell):
            yield f"cell {n} is exported and folded"
        pictures = [m for o in cell.outputs for m in o.get("data", {}) if is_picture(m)]
        if pictures and not directives(cell).get("fig-alt"):
            yield f"cell {n} draws and has no fig-alt"
    cells = [(n, cell) for n, cell in shown_and_run(nb) if not takes_yours(cell)]
    first, *others = [n for n, cell in cells if importing(cell)] or [0]
    for n in others:
        yield f"cell {n} imports; cell {first} is the one for it"
    yield from name_faults(nb)


def is_picture(mime):
    return mime.startswith(("image/", "application/vnd.vegalite"))


def shape_faults(nb, page, folder):
    "One sentence for each way in which a page of the path is not begun or drawn so."
    text = "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    if not re.match(rf"# {page[:2]} \u00b7 .+\n\n> .+", text):
        yield f"it begins with {text[:40]!r}, expected '# {page[:2]} \u00b7 Title' and '> subtitle'"
    drawings = re.findall(r"!\[[^\]]+\]\(([^):]+\.svg)\)", text)
    if not any((folder / drawing).is_file() for drawing in drawings):
        yield f"no drawing: expected a local SVG, got {drawings}"
    pitfalls = len(re.findall(r"^> \*\*(?:\u26a0\ufe0f? )?Pitfall", text, re.M))
    if pitfalls > PITFALLS:
        yield f"{pitfalls} pitfalls, expected at most {PITFALLS}"


def form_faults(nb):
    "One sentence for each way in which a lesson does not begin as lessons do."
    text = "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    if not re.search(MINUTES, text):
        yield "says no **N minutes to read, M with the work**"
    first = next((cell for _, cell in shown_and_run(nb) if importing(cell)), None)
    if first is not None and not is_import_fold(first):
        yield f"its imports are not folded under {IMPORTS!r}"


def lesson_faults(nb, page, folder):
    "One sentence for each part of a lesson's anatomy that a page lacks or has too much of."
    yield from shape_faults(nb, page, folder)
    text, number = "\n\n".join(c.source for c in nb.cells if c.cell_type == "markdown"), page[:2]
    parts = re.findall(r"^## (.+?)\s*$", text, re.M)
    last = [part for part in LAST if number > "01" or part != "Into your file"]
    if parts[-len(last) :] != last:
        yield f"ends with {parts[-len(last) :]}, expected {last}"
    tries = [n for n, cell in code_cells(nb) if f'check("{number}.' in cell.source]
    ends = [n for n, cell in enumerate(nb.cells, 1) if "## Exercises" in cell.source]
    if not tries or ends and min(tries) > min(ends):
        yield f'the reader writes nothing: expected check("{number}.1", …) before the exercises'


def outputs(nb, start):
    "What each cell with code that begins so has printed."
    cells = [cell for _, cell in code_cells(nb) if start in cell.source]
    return ["".join(o.get("text", "") for o in cell.outputs) for cell in cells]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_as_shown_and_has_the_anatomy_of_its_kind(page):
    nb = nbformat.read(NBS / f"{page}.ipynb", 4)
    faults = [*page_faults(nb)]
    form = []
    if page in order.PATH:
        faults += lesson_faults(nb, page, NBS)
    elif page in (order.PRIMER, order.FIRST):
        faults += shape_faults(nb, page, NBS)
    if page != order.TOUR:
        form += form_faults(nb)
    assert faults + form == []


@pytest.mark.parametrize("page", order.DIVES)
def test_a_deep_dive_says_how_long_it_takes_to_read_and_to_work(page):
    nb = nbformat.read(NBS / f"{page}.ipynb", 4)
    text = "\n\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    assert len(re.findall(MINUTES, text)) == 1


@pytest.mark.parametrize("page, number", BESIDE)
def test_each_exercise_of_a_page_beside_the_lessons_is_asked_and_answered(page, number):
    "A page before or behind the lessons asks its exercises in their order."
    nb = nbformat.read(NBS / f"{page}.ipynb", 4)
    text = "\n".join(cell.source for cell in nb.cells)
    find_exercise(number.format(1))
    known = [n for n in EXERCISES if n.startswith(number.format(""))]
    assert known == [number.format(i) for i in range(1, len(known) + 1)]
    assert re.findall(r'check\("([\w.]+)", ', text) == known
    assert f"](solutions/{page}.ipynb)" in text


def test_the_project_asks_for_a_report_that_is_not_there_yet_and_its_solution_has_one():
    nb = nbformat.read(NBS / "project.ipynb", 4)
    said = outputs(nb, 'check("project", ')
    assert "The report holds." in said[0] and all("project, not yet: " in one for one in said[1:])
    solved = nbformat.read(NBS / "solutions" / "project.ipynb", 4)
    assert any("The report holds." in one for one in outputs(solved, 'check("project", '))


def test_the_tour_names_each_lesson_and_ends_at_the_first():
    nb = nbformat.read(NBS / f"{order.TOUR}.ipynb", 4)
    assert list(shape_faults(nb, order.TOUR, NBS)) == []
    text = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    assert {*order.PATH, *order.MILESTONES.values()} <= {*re.findall(r"\]\((\w+)\.ipynb\)", text)}
    assert f"]({order.PATH[0]}.ipynb)" in nb.cells[-1].source


# ---------------------------------------------------------------- training is announced

TAKES_TIME = re.compile(r"\b(?i:seconds|minutes|(?:a|one|per) (?:second|minute))\b")


def calls(tree):
    "The last names of all functions and methods that some code calls."
    found = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {getattr(func, "id", getattr(func, "attr", None)) for func in found}


def trains(tree, known):
    "Does this code call one of the known functions that train, or take steps in a loop?"
    loops = [node for node in ast.walk(tree) if isinstance(node, (ast.For, ast.While))]
    return bool(calls(tree) & known or any(calls(x) & {"step", "train_step"} for x in loops))


def training_cells(nb):
    """The numbers of the cells that train: they call `fit`, take the steps of an optimizer in a
    loop, or call a function of the page that does. To define such a function is not to train.
    """
    known = {"fit"}
    for n, cell in shown_and_run(nb):
        functions = [s for s in body(cell) if isinstance(s, ast.FunctionDef)]
        known |= {s.name for s in functions if trains(s, known)}
        others = [s for s in body(cell) if not isinstance(s, (ast.FunctionDef, ast.ClassDef))]
        if any(trains(s, known) for s in others):
            yield n


def unannounced(nb):
    "One sentence for each cell that trains before its section has said how long that takes."
    for n in training_cells(nb):
        before = [cell.source for cell in nb.cells[: n - 1] if cell.cell_type == "markdown"]
        section = re.split(r"(?m)^(?=## )", "\n\n".join(before))[-1]
        if not TAKES_TIME.search(section):
            yield f"cell {n} trains, and no sentence before it in its section says for how long"


@pytest.mark.parametrize("page", PAGES)
def test_a_cell_that_trains_follows_a_sentence_that_says_how_long_it_takes(page):
    assert list(unannounced(nbformat.read(NBS / f"{page}.ipynb", 4))) == []


# ---------------------------------------------------------------- what is typed is what is imported


def exports(nb):
    "(module, cell) for each cell that a page exports."
    said = [directives(cell) for cell in nb.cells]
    default = next((names["default_exp"] for names in said if "default_exp" in names), None)
    for _, cell in code_cells(nb):
        if is_exported(cell):
            yield directives(cell)["export"] or default, cell


def defined(cell):
    "The functions and classes of a cell."
    kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
    return [s.name for s in body(cell) if isinstance(s, kinds)]


@pytest.mark.parametrize("page", EXPORTING)
def test_what_a_lesson_derives_is_what_people_import(page):
    "The source of each class and function is a cell of the page, open, and the page speaks of it."
    nb = nbformat.read(NBS / f"{page}.ipynb", 4)
    for module, cell in exports(nb):
        for name in defined(cell):
            there = inspect.getsource(getattr(import_module(f"former_nb.{module}"), name))
            assert there.strip() in cell.source, f"{module}.{name} is not what the page shows"
            assert not is_hidden(cell) and not is_folded(cell), f"{name} is not to be seen"
            text = "\n".join(c.source for c in nb.cells)
            assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is defined, and no more"


@pytest.mark.parametrize("page, module", SHOWN.items())
def test_what_a_deep_dive_shows_of_a_plain_module_is_its_source(page, module):
    there = import_module(f"former_nb.{module}")
    shown = 0
    for n, cell in shown_and_run(nbformat.read(NBS / f"{page}.ipynb", 4)):
        for name in defined(cell):
            original = getattr(there, name, None)
            if getattr(original, "__module__", None) == there.__name__:
                assert inspect.getsource(original).strip() in cell.source, f"cell {n}: {name}"
                shown += 1
    assert shown > 1


def path_modules():
    "Each module that lessons export -> the names of its functions and classes in their cells."
    found = {}
    for page in EXPORTING:
        for module, cell in exports(nbformat.read(NBS / f"{page}.ipynb", 4)):
            found.setdefault(module, []).extend(defined(cell))
    return found


def test_a_module_of_the_path_holds_nothing_that_no_lesson_shows():
    for name, shown in path_modules().items():
        _, tree = order.module_tree(name, ROOT / "former_nb")
        kinds = ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef
        assert [s.name for s in tree.body if isinstance(s, kinds)] == shown, name


def test_the_path_imports_nothing_from_deep_dives_but_what_is_listed():
    lib = ROOT / "former_nb"
    modules, public = order.sources(lib), order.faces(lib)
    found = {}
    for name in path_modules():
        _, tree = order.module_tree(name, lib)
        imported = order.imported(tree, modules, public, order.package_of(name))
        dives = {m for _, m in imported if modules[m] in order.DIVES}
        if dives:
            found[name] = dives
    assert found == BELOW


# ---------------------------------------------------------------- executed as rendered


def execute(nb, folder):
    "Run the cells that a reader sees in an empty kernel; fails at the first that raises."
    nbclient = pytest.importorskip("nbclient")
    resources = {"metadata": {"path": str(folder)}}
    client = nbclient.NotebookClient(nb, timeout=300, kernel_name="python3", resources=resources)
    client.shutdown_kernel = "immediate"
    with client.setup_kernel():
        for n, cell in shown_and_run(nb):
            try:
                client.execute_cell(cell, n - 1)
            except nbclient.exceptions.CellExecutionError as error:
                pytest.fail(f"cell {n}: {error.ename}: {error.evalue}", pytrace=False)


@pytest.mark.skipif(os.environ.get("FORMER_NB_PAGES") != "all", reason="FORMER_NB_PAGES=all asks")
@pytest.mark.parametrize("page", PAGES)
def test_a_page_executes_as_rendered(page, monkeypatch):
    monkeypatch.setenv("IN_TEST", "1")
    execute(nbformat.read(NBS / f"{page}.ipynb", 4), NBS)


# ---------------------------------------------------------------- do these tests see?

PNG = new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
TITLE = "# 07 \u00b7 Text\n\n> Letters into rows\n\n**1 minutes to read, 5 with the work**"
DRAWING = "![Letters become numbers.](images/07.svg)"
END = "## Exercises\n\n**07.2 Predict.**\n\n## Into your file\n\n## The number\n\n"
END += "## Recap\n\n## References"


def lesson(*cells, title=TITLE, drawing=DRAWING, end=END):
    "A lesson that is right, with more cells in its middle."
    install = code(first_cell.CELL)
    first = code("#| hide\n#| default_exp text\n#| export\nimport torch")
    mine = code('def mine(x): ...\n\n\ncheck("07.1", mine);')
    fold = code(FOLD + "import torch\n\nfrom former_nb.grading.check import check\n\ncheck")
    cells = [prose(title), install, prose(drawing), first, fold, *cells, mine, prose(end)]
    return new_notebook(cells=cells)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "07.svg").write_text("<svg/>")
    return tmp_path


FOLD = "#| code-fold: true\n#| code-summary: What this page imports\n"
FIGURE = "#| fig-alt: A line.\n#| code-fold: true\ny = torch.ones(2)\ny"
FINE = [
    code(FIGURE, outputs=[PNG]),
    code(FIGURE, outputs=[PNG]),
    code("y = 1\ny"),
    code("%%time\nx = torch.ones(2)\n!ls\nx[0]"),
    code("def f(a, *b):\n    return [g(c) for c in b] + [a]"),
    code("def g(c):\n    global later\n    later = c\n    return c"),
    code("for i in range(2):\n    f(i)\nlater, i"),
    code("#| eval: false\nnever"),
]


def test_a_page_that_is_right_has_no_fault(folder):
    assert list(page_faults(lesson(*FINE))) == []
    assert list(lesson_faults(lesson(*FINE), "07_text", folder)) == []
    assert list(form_faults(lesson(*FINE))) == []


@pytest.mark.parametrize(
    "cell, fault",
    [
        (code("#| hide\n1"), "is hidden"),
        (code("#| echo: false\n1"), "is hidden"),
        (code("#| hide\nimport os"), "is hidden"),
        (code("#| hide\n#| export\nimport os\n\nx = 1"), "is hidden"),
        (code("import os"), "imports; cell 5 is the one for it"),
        (code("1", metadata={"tags": ["remove-cell"]}), "is hidden"),
        (code("#| export\n#| fold What it is\nx = 1"), "is exported and folded"),
        (code("torch.ones(2)", outputs=[PNG]), "draws and has no fig-alt"),
        (code("unknown"), "uses unknown"),
        (code("def f():\n    return unknown"), "uses unknown"),
        (code("[unknown for x in range(2)]"), "uses unknown"),
        (code("made"), "uses made, which cell 6, a fold, has made"),
        (code("def f():\n    return made"), "uses made, which no shown cell has made"),
        (code("#| code-fold: true\nmade"), "uses made, which cell 6, a fold, has made"),
    ],
)
def test_a_page_that_does_not_run_as_shown_is_told_so(cell, fault):
    fold = code("#| code-fold: true\nmade = 1")
    (said,) = page_faults(lesson(fold, cell))
    assert said.startswith("cell 7 ") and fault in said


def test_a_fold_that_takes_an_open_name_is_named():
    page = lesson(code("made = 1"), code("#| code-fold: true\nfor made in [2]:\n    made"))
    assert list(page_faults(page)) == []
    page.cells.insert(-2, code("made"))
    assert list(page_faults(page)) == ["cell 8 uses made, which cell 7, a fold, has made"]


@pytest.mark.parametrize(
    "cell, fault",
    [
        ("import math\n\nmath.log(x)", "cell 7 imports and uses x,"),
        ("import math\n\nmath.log(2)", "cell 7 imports and computes"),
        ("def half(x):\n    import math\n\n    return x / 2", "cell 7 imports and computes"),
        ("#| eval: false\nimport math\n\nmath.log(x)", None),
        ("#| export\nimport math\n\nE = math.e", None),
        ("import math", None),
        ("x + 1", None),
    ],
)
def test_a_cell_that_imports_and_computes_is_told_so(cell, fault):
    said = list(import_faults(lesson(code("x = 1"), code(cell))))
    assert [words[: len(fault)] for words in said] == [fault] if fault else said == []
    assert (
        not list(import_faults(new_notebook(cells=[code("x = 1"), code(cell)])))
        or "#| export" in cell
    )


def test_names_of_hidden_and_unrun_cells_are_not_known():
    page = lesson(code("#| hide\nx = 1"), code("#| eval: false\ny = 1"), code("x, y"))
    said = [fault for fault in page_faults(page) if "uses" in fault]
    assert [fault[:13] for fault in said] == ["cell 8 uses x", "cell 8 uses y"]


PITFALL = "> **Pitfall: the wrong axis.** Look.\n\n"


@pytest.mark.parametrize(
    "spoilt, fault",
    [
        (lesson(title=TITLE.replace("07", "08")), "it begins with"),
        (lesson(title=TITLE.replace("work", "rest")), "says no **N"),
        (lesson(title=TITLE.replace(" to read, 5 with the work", "")), "says no **N"),
        (lesson(drawing="![A drawing.](images/none.svg)"), "no drawing"),
        (lesson(drawing="![A drawing.](https://a.org/b.svg)"), "no drawing"),
        (lesson(prose(PITFALL * 2 + PITFALL.replace("P", "\u26a0 P"))), "3 pitfalls"),
        (lesson(end=END.replace("## Recap", "## Summary")), "ends with"),
        (lesson(end=END + "\n\n## More"), "ends with"),
    ],
)
def test_a_lesson_that_lacks_something_is_told_so(folder, spoilt, fault):
    faults = [*lesson_faults(spoilt, "07_text", folder), *form_faults(spoilt)]
    assert fault in "; ".join(faults)


def test_imports_that_stand_open_are_named(folder):
    page = lesson()
    page.cells[4].source = page.cells[4].source.removeprefix(FOLD)
    assert list(form_faults(page)) == ["its imports are not folded under 'What this page imports'"]


def test_an_exercise_at_the_end_only_is_not_enough(folder):
    page = lesson()
    page.cells[-2:] = page.cells[:-3:-1]
    assert "writes nothing" in "; ".join(lesson_faults(page, "07_text", folder))


LEARN = "def learn(task):\n    fit(task)"


@pytest.mark.parametrize(
    "before, cells, faults",
    [
        ("## Copy\n\nThis takes a minute.", [LEARN, "learn(1)"], []),
        ("This takes a minute.\n\n## Copy\n\nCan it learn?", [LEARN, "learn(1)"], [4]),
        (
            "Which tasks? The second, by the minute hand.",
            ["for x in y:\n    optimizer.step()"],
            [3],
        ),
        ("What does a step cost?", [LEARN, "loss.backward()", "#| eval: false\nlearn(1)"], []),
        ("What does one step do?", ["optimizer.step()", "for x in y:\n    x.step()"], [4]),
        ("A function, and a call of it.", [LEARN + "\n\n\nlearn(1)"], [3]),
    ],
)
def test_training_that_no_sentence_announces_is_named(before, cells, faults):
    start = [prose("# 07\n\n**1 minutes to read, 5 with the work**\n\n## First"), prose(before)]
    said = list(unannounced(new_notebook(cells=[*start, *map(code, cells)])))
    assert [int(fault.split()[1]) for fault in said] == faults


def test_executing_runs_what_is_shown_and_names_the_cell(folder):
    cells = [code("x = 1"), code("#| eval: false\nnever"), code("x + 1"), prose("words")]
    execute(new_notebook(cells=cells), folder)
    broken = new_notebook(cells=[code("#| hide\nx = 1"), *cells[1:]])
    with pytest.raises(pytest.fail.Exception, match="cell 3: NameError: name 'x'"):
        execute(broken, folder)
