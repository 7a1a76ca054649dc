"""The button *check here* below exercises: what the page and its Python need for it.

The judges of the course run in the reader's browser, by Pyodide (`docs/_pyodide`) and a small
PyTorch of our own (`docs/small_torch`). Pyodide comes from the npm registry when the site is built,
pinned, and stays with the site. Where it cannot be had, one line of the build says so and the
button is absent.
"""

import ast
import hashlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from docutils import nodes

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "docs" / "_pyodide"
SMALL = ROOT / "docs" / "small_torch"
PAGES = (
    "00_pytorch",
    "00_first_hour",
    "01_self_attention",
    "02_attention",
    "03_multi_head",
    "04_masks",
    "05_positions",
    "06_block",
    "07_text",
    "08_training",
    "09_classifier",
    "10_generator",
    "11_decoding",
    "12_modern_decoder",
    "milestone_llama",
    "13_encoder_decoder",
    "14_number_words",
    "15_subwords",
    "16_translation",
    "paper",
)
LESSONS = {"milestone_llama": "12"}  # page without a number -> the lesson whose steps it asks for
YOUR_FILE = "your_file"  # the page about the reader's file: it asks for all lessons
FILE = re.compile(r'^check\("mine\.py"\)$', re.M)  # judges the reader's own file
IN_FILE = {  # exercises whose right answers are steps of that file -> how it calls them
    "02.1": "attention",
    "15.1": "merge",
    "15.2": "train_bpe",
}
EXERCISE = re.compile(r'^check\("((?:\d\d|first_hour|paper)\.\d+)", (.+)\);?$', re.M)

RUNG = re.compile(r'^rung\("(\w+)", ', re.M)  # measures a model of the ladder
TRAINED = ("00d", "01", "02", "03")  # those that the page's own Python can train in a minute
TOO_LONG = (
    "This training takes seconds in the notebook, on your machine or on Colab. The small PyTorch "
    "of this page is plain Python and would take many minutes. Save your file beside the notebook "
    "as mine.py, run former-nb check mine.py once, and the notebook trains with your definitions."
)

REPORT = re.compile(r'^check\("project", ', re.M)  # judges the report of the project
ELSEWHERE = (
    "This check runs in the notebook, on your machine or on Colab, and not in the page: its report "
    "has the numbers of models that PyTorch itself has trained."
)

PYODIDE = "314.0.7"
SHA256 = "66b7949e5a0cba2250b586d7e368bf12fb482800748d182c4618254b685ffaa0"
REGISTRY = "https://registry.npmjs.org/"
TAKEN = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")
TAKEN += ("pyodide-lock.json",)
MODULES = (  # of the course, for these pages
    "__init__.py",
    "lazy.py",
    "renamed.py",
    "attention/*.py",
    "base/__init__.py",
    "base/core.py",
    "base/ranges.py",
    "base/files.py",
    "base/guards.py",
    "base/source.py",
    "exercises/*.py",
    "grading/*.py",
    "data/__init__.py",
    "data/data_sets.py",
    "data/names/*.csv",
    "data/subwords.py",
    "data/text.py",
    "data/tokenization.py",
    "data/tokens.py",
    "data/toy_data.py",
    "decoding/__init__.py",
    "decoding/prompts.py",
    "inspection/__init__.py",
    "inspection/translation.py",
    "ladder/__init__.py",
    "ladder/first_hour.py",
    "models/__init__.py",
    "models/choices.py",
    "models/layers.py",
    "models/classifier.py",
    "models/config.py",
    "models/encoder_decoder.py",
    "models/language_model.py",
    "models/initialization.py",
    "models/modern_decoder.py",
    "models/parts.py",
    "models/rope_scaling.py",
    "models/savable.py",
    "training/__init__.py",
    "training/guards.py",
    "training/losses.py",
    "yours.py",
)
EINOPS = ("__init__.py", "_backends.py", "_torch_specific.py", "einops.py", "packing.py")
EINOPS += ("parsing.py",)
LICENSES = f"""\
What is in this folder, and under which licence:

Pyodide {PYODIDE}, MPL-2.0, https://github.com/pyodide/pyodide: the npm package pyodide, unchanged.
It holds CPython and its standard library, PSF-2.0, https://www.python.org.
course.zip: the modules of this course, Apache-2.0, and einops, MIT, https://einops.rocks.
"""


# ---------------------------------------------------------------- Pyodide


def cache_folder():
    """Where a download waits for the next build: outside of the repository."""
    import pooch

    return Path(pooch.os_cache("former_nb")) / "site"


def npm(*args):
    """What npm prints. Raises `OSError` where it is absent or fails."""
    program = shutil.which("npm")
    if not program:
        raise FileNotFoundError("npm is not installed")
    try:
        made = subprocess.run(
            [program, *args], capture_output=True, text=True, timeout=180, check=True
        )
    except subprocess.SubprocessError as error:
        raise OSError(f"npm {args[0]} failed") from error
    return made.stdout.strip()


def registry():
    """The address of the npm registry: npm's own setting where npm is there."""
    try:
        return npm("config", "get", "registry")
    except OSError:
        return os.environ.get("npm_config_registry", REGISTRY)


def download():
    """The bytes of the package, by npm or else by a plain download. Raises `OSError`."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            options = ("--silent", "--fetch-retries=0", "--pack-destination", folder)
            npm("pack", f"pyodide@{PYODIDE}", *options)
            return (Path(folder) / f"pyodide-{PYODIDE}.tgz").read_bytes()
    except OSError:
        address = f"{registry().rstrip('/')}/pyodide/-/pyodide-{PYODIDE}.tgz"
        with urllib.request.urlopen(address, timeout=30) as response:
            return response.read()


def is_pinned(package):
    """Whether these are the bytes that were chosen."""
    return hashlib.sha256(package).hexdigest() == SHA256


def pyodide_package(
    fetch=download,  # gives the bytes of the package, or raises `OSError`
):  # the bytes of the npm package; from the cache where they are
    """The package. Raises `OSError` where it cannot be had."""
    cached = cache_folder() / f"pyodide-{PYODIDE}.tgz"
    if cached.exists() and is_pinned(cached.read_bytes()):
        return cached.read_bytes()
    package = fetch()
    if not is_pinned(package):
        raise OSError("the package that came is not the pinned one")
    cached.parent.mkdir(parents=True, exist_ok=True)
    part = cached.with_name(f"{cached.name}.{os.getpid()}")
    part.write_bytes(package)
    part.replace(cached)
    return package


def write_pyodide(package, folder):
    """Take the files of the core out of the package."""
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for name in TAKEN:
            (folder / name).write_bytes(archive.extractfile(f"package/{name}").read())


# ---------------------------------------------------------------- the course's own files


def not_run(path):
    """The cells of a notebook that do not run in the page: id -> why."""
    listed = json.loads((SOURCES / "not_run.json").read_text(encoding="utf-8"))
    return listed.get(path.relative_to(ROOT / "nbs").with_suffix("").as_posix(), {})


def page_cells(path):
    """The code cells of a lesson that an answer may build on, in order, each with its id.

    Hidden ones and those about a reader's own file are left out. One that asks for an answer is an
    entry with the exercise alone.
    """
    why = not_run(path)
    cells = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] != "code" or source.startswith(("#| hide", "#| eval: false")):
            continue
        if asked := EXERCISE.search(source):
            cells.append({"exercise": asked[1]})
            continue
        entry = {"id": cell["id"], "source": source}
        if cell["id"] in why:
            entry["not_run"] = why[cell["id"]]
        cells.append(entry)
    return cells


def course_files():
    """What the page's Python imports: name in the archive -> bytes."""
    files = {}
    for folder in (SOURCES, SMALL):
        for path in sorted(folder.rglob("*.py")):
            files[path.relative_to(folder).as_posix()] = path.read_bytes()
    for pattern in MODULES:
        for path in sorted((ROOT / "former_nb").glob(pattern)):
            files[path.relative_to(ROOT).as_posix()] = path.read_bytes()
    einops = Path(find_spec("einops").origin).parent
    for name in EINOPS:
        files[f"einops/{name}"] = (einops / name).read_bytes()
    for page in PAGES:
        cells = page_cells(ROOT / "nbs" / f"{page}.ipynb")
        files[f"pages/{page}.json"] = json.dumps(cells).encode()
    return files


def write_course(path):
    """One archive of the course's files; the same files make the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in course_files().items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)


def write_files(app):
    """builder-inited: put Python beside the site's own files, or say why there is none."""
    app.check_here = False
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "py"
    shutil.rmtree(folder, ignore_errors=True)
    try:
        package = pyodide_package()
    except OSError as error:
        print(f"No button *check here* in the pages: Pyodide {PYODIDE} could not be had ({error}).")
        return
    write_pyodide(package, folder / PYODIDE)
    write_course(folder / "course.zip")
    files = [f"{PYODIDE}/{name}" for name in TAKEN] + ["course.zip"]
    sizes = {name: (folder / name).stat().st_size for name in files}
    manifest = {"pyodide": f"{PYODIDE}/", "sizes": sizes}
    (folder / "files.json").write_text(json.dumps(manifest), encoding="utf-8")
    (folder / "LICENSES.txt").write_text(LICENSES, encoding="utf-8")
    app.check_here = True


# ---------------------------------------------------------------- the pages


def starter(number, expression):
    """What the reader begins with: a head for each name that the exercise hands to `check`."""
    from former_nb.grading.content import definition, find_exercise

    find_exercise(number)
    right = ast.parse(definition(number).source()).body[0]
    parts = []
    for node in ast.walk(ast.parse(expression)):
        if isinstance(node, ast.Name):
            head = ""
            is_right = number in IN_FILE or node.id == right.name  # the file may call it otherwise
            if is_right and isinstance(right, ast.FunctionDef):
                head = f"def {node.id}({ast.unparse(right.args)}):\n    ..."
            parts.append(head or f"{node.id} = ...")
    return "\n".join(parts)


def judge_digest(number, expression, source):
    """A short name of an exercise as it is now; with other mistakes or another beginning it
    differs.
    """
    from former_nb.grading.content import definition, find_exercise

    found = find_exercise(number)
    known = definition(number)
    whole = (known.lines, known.hints, known.mistakes, found.parts, expression, source)
    return hashlib.sha256(repr(whole).encode()).hexdigest()[:12]


def block(page, number, expression, source):
    """The place that `check.js` fills; without scripts it is empty."""
    data = {"page": page, "number": number, "expression": expression, "starter": source}
    data["judge"] = judge_digest(number, expression, source)
    return place("check-here", data | {"called": IN_FILE.get(number, expression)})


def file_block(page):
    """The place of the reader's file, which begins with `START` and has an outline."""
    tree = ast.parse((ROOT / "former_nb/grading/your_file.py").read_text(encoding="utf-8"))
    start = next(n for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "START")
    lesson = "" if page == YOUR_FILE else LESSONS.get(page, page[:2])
    data = {"lesson": lesson, "starter": ast.literal_eval(start.value)}
    return place("check-file", data | {"outline": json.dumps(outline())})


def train_block(page, rung, source):
    """The place below a cell that trains a model of the ladder, or a sentence why it can't."""
    if rung not in TRAINED:
        return nodes.paragraph("", TOO_LONG, classes=["check-elsewhere"])
    whole = "\n\n\n".join([*defined_before(page, source), source.strip()])
    return place("train-here", {"page": page, "rung": rung, "starter": whole})


def defined_before(page, source):
    """The functions and classes of earlier cells that a cell reads, but for what is imported."""
    own = {getattr(node, "name", "") for node in ast.parse(source).body}
    read, found = names_in(source) - own, {}
    for cell in page_cells(ROOT / "nbs" / f"{page}.ipynb"):
        if cell.get("source", "").strip() == source.strip():
            break
        for node in ast.parse(cell.get("source", "")).body:
            if isinstance(node, ast.ImportFrom):
                read -= {alias.name for alias in node.names}
                found = {name: text for name, text in found.items() if name in read}
            elif getattr(node, "name", None) in read:
                found[node.name] = ast.get_source_segment(cell["source"], node)
    return found.values()


@cache
def outline():
    """What a reader's file has in the end: of each definition its head, and where it is asked for.

    `needs` are others that its head reads, as a class that it builds on. Two lines of constants
    come with the lesson that first reads them.
    """
    from former_nb.grading.ask import STEPS
    from former_nb.grading.content import right_source
    from former_nb.grading.files import STEP_NAMES

    source, lessons = right_source(), {}
    for name in STEP_NAMES:
        lessons.setdefault(STEPS[name].definition, []).append(STEPS[name].lesson)
    known, found = {*lessons, "PAD", "IGNORE"}, []
    for node in ast.parse(source).body:
        if (name := getattr(node, "name", "")) in lessons:
            lines = source.splitlines()[node.lineno - 1 : node.body[0].lineno - 1]
            lines = lines[:1] if isinstance(node, ast.ClassDef) else lines
            head = "\n".join([*lines, "    ..."])
            needs = sorted(names_in(head) & known - {name})
            found.append({"name": name, "lessons": lessons[name], "head": head, "needs": needs})
        elif isinstance(node, ast.Assign) and names_in(ast.unparse(node)) & {"PAD", "IGNORE"}:
            head = ast.unparse(node).replace("(PAD, BOS, EOS, UNK)", "PAD, BOS, EOS, UNK")
            name = "IGNORE" if "IGNORE" in head else "PAD"
            found.append({"name": name, "lessons": ["07"], "head": head, "constant": True})
    return sorted(found, key=lambda one: one["lessons"][0])


def names_in(code):
    """The names in a piece of code."""
    return {node.id for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Name)}


def place(kind, data):
    """An empty element with data."""
    attributes = " ".join(
        f'data-{name}="{html.escape(text)}"'.replace("\n", "&#10;") for name, text in data.items()
    )
    return nodes.raw("", f'<div class="{kind}" {attributes}></div>', format="html")


def say_where(doctree):
    """Below a cell that the page can't run: what does."""
    for cell in list(doctree.findall(nodes.container)):
        if "cell" in cell["classes"]:
            source = next(cell.findall(nodes.literal_block)).astext()
            if REPORT.search(source):
                note = nodes.paragraph("", ELSEWHERE, classes=["check-elsewhere"])
                cell.parent.insert(cell.parent.index(cell) + 1, note)


def add_blocks(app, doctree):
    """doctree-read: a place below each exercise of the pages that can be checked here."""
    page = app.env.docname
    if page == "project":
        say_where(doctree)
    if page not in (*PAGES, YOUR_FILE):
        return
    for node in list(doctree.findall(nodes.Text)):
        if "your cell says" in node:  # on the site it may be an editor
            said = nodes.Text(node.replace("your cell says", "the check says"))
            node.parent.replace(node, said)
    for node in list(doctree.findall(nodes.literal)):
        asked = EXERCISE.match(node.astext())
        paragraph = node.parent
        if asked and isinstance(paragraph, nodes.paragraph):
            number, expression = asked.groups()
            found = block(page, number, expression, starter(number, expression))
            paragraph.parent.insert(paragraph.parent.index(paragraph) + 1, found)
    trained = False
    for cell in list(doctree.findall(nodes.container)):
        if "cell" in cell["classes"]:
            source = next(cell.findall(nodes.literal_block)).astext()
            if asked := EXERCISE.search(source):
                found = block(page, *asked.groups(), source[: asked.start()].strip())
                cell["classes"].append("asked")  # where the page can check, the editor is enough
                cell.parent.insert(cell.parent.index(cell) + 1, found)
            elif FILE.search(source):
                cell.parent.insert(cell.parent.index(cell) + 1, file_block(page))
            elif (asked := RUNG.search(source)) and not trained:
                trained = True  # said once on a page
                found = train_block(page, asked[1], source)
                cell.parent.insert(cell.parent.index(cell) + 1, found)


def add_scripts(app, page, template, context, doctree):
    """html-page-context: what the button needs, on the pages that have it."""
    if app.check_here and page in (*PAGES, YOUR_FILE):
        app.add_css_file("check.css")
        app.add_js_file("editor.js", loading_method="defer")
        app.add_js_file("check.js", loading_method="defer")


def setup(app):
    """Register with Sphinx."""
    app.add_config_value("check_here_pages", PAGES, "env")  # others are read again if these change
    app.connect("builder-inited", write_files)
    app.connect("doctree-read", add_blocks, priority=960)  # after the search has read the page
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
