"""The ladder of the home page: steps that open into the models that stand on them.

The numbers, their spread and the names are those of `former_nb/ladder/course.csv`, and the lines of
code are those of the lessons. Where the notebook has a drawing, the site has a list of steps; its
code comes as a script of its own, with the first step that is opened.
"""

import ast
import html
import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat
from course_look import mark_code
from nbdev_myst import NBS, order, split_directives

DRAWING = re.compile(r'<p>\s*<img [^>]*src="_images/ladder\.svg"[^>]*>\s*</p>')
LEFT_OUT = {"00b", "00d"}  # as in the drawing: each letter's frequency; the pairs once more
PAGES = {"00": order.FIRST, "11": order.MILESTONES["11_decoding"]}
WORST, BEST = 2.2, 1.5  # nats at both ends of the drawn steps
HEAD = """<div class="ladder"><p><b>One number falls</b>
nats per character on held-out names; press a step to see its model</p>"""
STEP = """<details data-rung="{key}" style="--x: {x}%; --left: {left}%; --wide: {wide}%">
<summary><b>{lesson}</b><span>{what}</span><i>{nats:.2f}</i><em>{two}</em></summary>
<p>{number} nats per character{spread}. It writes <em>{names}</em>.</p>
<div class="ladder-code"></div>
<p><a href="{page}.html{anchor}">{title}</a></p></details>"""


def rungs():
    """The rungs that are shown, in their order."""
    from former_nb.ladder.staircase import course_rungs

    return [one for key, one in course_rungs().items() if key not in LEFT_OUT]


def page_of(key):
    """The page whose model stands on a rung."""
    path = (page for page in order.PATH if page.startswith(f"{key[:2]}_"))
    return PAGES.get(key[:2]) or next(path)


@cache
def read_cells(page):
    """The cells of a page."""
    return nbformat.read(NBS / f"{page}.ipynb", as_version=4).cells


@cache
def cells_of(page):
    """The source of the cells of code that a page shows."""
    code = [split_directives(c.source) for c in read_cells(page) if c.cell_type == "code"]
    return [source for how, source in code if not {"hide", "solution"} & {*how}]


def measuring(page, key):
    """The cells that measure a rung, or all rungs of its lesson in a loop."""
    call = re.compile(rf'\b(?:keep_)?rung\(\s*"(?:{key}"|{key[:2]}" \+)')
    return [source for source in cells_of(page) if call.search(source)]


def defined(page, name):
    """A definition as a page shows it, the last time, without its docstring; or nothing."""
    found = ""
    for source in cells_of(page):
        if not re.search(rf"^(?:def|class) {name}\b", source, re.M):
            continue
        for node in ast.parse(source).body:
            if getattr(node, "name", None) == name:
                found = without_docstrings(source, node)
    return found


def without_docstrings(source, node):
    """The lines of a definition that aren't words about it."""
    lines = source.splitlines()
    for part in ast.walk(node):
        if isinstance(part, ast.FunctionDef | ast.ClassDef) and ast.get_docstring(part):
            text = part.body[0]
            for line in range(text.lineno - 1, text.end_lineno):
                lines[line] = None
    kept = lines[node.lineno - 1 : node.end_lineno]
    text = "\n".join(line for line in kept if line is not None)
    return re.sub(r":\n\n( +)", r":\n\1", text)


def uses(page, key, parts):
    """Which of these definitions the cell of a rung uses, directly or through others."""
    text, found = "\n".join(measuring(page, key)), {}
    while new := [n for n in parts if n not in found and re.search(rf"\b{n}\b", text)]:
        found |= dict.fromkeys(new)
        text += "".join(parts[name] for name in new)
    return {*found}


def code_of(key):
    """What a rung adds: definitions of the reader's file, and the cell that measures the model."""
    from former_nb.grading.files import STEP_NAMES, STEPS

    page, here = page_of(key), [one.key for one in rungs() if one.key[:2] == key[:2]]
    names = [STEPS[name].definition for name in STEP_NAMES if STEPS[name].lesson == key[:2]]
    parts = {name: defined(page, name) for name in dict.fromkeys(names)}
    used = {one: uses(page, one, parts) for one in here}
    first = {name: next((one for one in here if name in used[one]), here[-1]) for name in parts}
    added = [text for name, text in parts.items() if first[name] == key]
    return "\n\n\n".join(filter(None, [*added, *measuring(page, key)[:1]]))


def coloured(code):
    """Code as the pages show it."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    shown = mark_code(highlight(code, PythonLexer(), HtmlFormatter()).strip())
    return shown.replace("<pre>", '<pre tabindex="0">', 1)  # keys scroll it


def some(names, room=17):
    """The first names that fit beside a step."""
    picked = []
    for name in names:
        if name != "(nothing)" and len(", ".join([*picked, name])) <= room:
            picked.append(name)
    return ", ".join(picked[:2])


def place(nats):
    """How far to the right a number stands, in percent."""
    return round(40 + 60 * (min(nats, WORST) - BEST) / (WORST - BEST), 1)


def steps(titles):
    """The ladder as HTML; `titles` gives the title of a page."""
    made, shown = [], rungs()
    for before, one in pairwise([shown[0], *shown]):
        page, x, x0 = page_of(one.key), place(one.nats), place(before.nats)
        numbered = any(line.startswith("## The number") for line in headings(page))
        made.append(
            STEP.format(
                key=one.key, x=x, left=min(x, x0), wide=round(abs(x - x0), 1),
                lesson=one.key[:2], what=html.escape(one.what), nats=one.nats,
                number=f"{one.nats:.3f}" + (f" ± {one.spread:.3f}" if one.spread else ""),
                spread=", three seeds" if one.spread else "",
                two=html.escape(some(one.names)), names=html.escape(", ".join(one.names)),
                page=page, anchor="#the-number" if numbered else "",
                title=html.escape(titles(page)),
            )
        )  # fmt: skip
    return "\n".join([HEAD, *made, "</div>"])


def headings(page):
    """The headings of a page."""
    text = "\n".join(cell.source for cell in read_cells(page) if cell.cell_type == "markdown")
    return re.findall(r"^#.*", text, re.M)


def open_ladder(app, page, template, context, doctree):
    """html-page-context: steps in place of the drawing, where there is one."""
    if DRAWING.search(context.get("body", "")):
        ladder = steps(lambda name: app.env.titles[name].astext())
        context["body"] = DRAWING.sub(lambda _: ladder, context["body"])
        app.add_css_file("ladder/ladder.css")
        app.add_js_file("ladder/ladder.js", loading_method="defer")


def write_code(app):
    """builder-inited: the code of all steps, beside the script that shows it."""
    if app.builder.format == "html":
        code = {one.key: coloured(code_of(one.key)) for one in rungs()}
        path = Path(app.outdir) / "_static" / "ladder" / "code.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"window.ladderCode = {json.dumps(code)};\n", encoding="utf-8")


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_code)
    app.connect("html-page-context", open_ladder, priority=970)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
