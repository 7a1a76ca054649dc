"""The one extension of the site: it reads nbdev notebooks, writes API pages and offline assets.

`read` turns a notebook as nbdev keeps it (`#|` lines, blockquote callouts, Altair outputs) into one
that MyST-NB renders. `setup` registers the rest. Nothing here knows a lesson by name.
"""

import ast
import html
import inspect
import json
import posixpath
import re
import sys
import textwrap
from base64 import b64encode
from contextlib import suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote, urlencode

import nbformat
from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import edition
import order
import weekly
from moved_pages import MOVED, where_now
from small_torch_page import small_torch_page

SETTINGS = edition.read_settings()
LIB = SETTINGS["lib_name"]
PACKAGE = ROOT / SETTINGS["lib_path"]
NBS = ROOT / SETTINGS["nbs_path"]

# ---------------------------------------------------------------- cells

DIRECTIVE = re.compile(r"#\s*\|\s*([\w-]+)\s*:?\s*(.*?)\s*$")
TAGS = {
    "hide": "remove-cell",
    "include: false": "remove-cell",
    "echo: false": "remove-input",
    "output: false": "remove-output",
    "eval: false": "skip-execution",
    "code-fold: true": "hide-input",
    # with the words on the fold, for exports: nbdev would leave Quarto's two lines in the module
    "fold": "hide-input",
    "solution: true": "hide-cell",
    "export": "export",
    "exports": "export",
    "exporti": "export",
}


def split_directives(source):
    """The leading `#|` lines of a cell as a dict, and the source that follows them."""
    lines, found = source.strip().splitlines(), {}
    while lines and (match := DIRECTIVE.match(lines[0])):
        found[match[1]] = match[2]
        lines.pop(0)
    return found, "\n".join(lines).strip("\n")


def tags_for(directives, source):
    """The MyST-NB tags that a cell's directives ask for."""
    keys = [f"{name}: {value.lower()}" if value else name for name, value in directives.items()]
    keys += [
        name for name, value in directives.items() if name.startswith(("export", "fold")) and value
    ]
    tags = {TAGS[key] for key in keys if key in TAGS}
    return sorted(tags | {"remove-cell"} if "default_exp" in directives and not source else tags)


def mystnb_options(directives):
    """What MyST-NB wants in a cell's metadata: alt text, caption and the words on a fold."""
    alt, caption, label = (directives.get(key) for key in ("fig-alt", "fig-cap", "label"))
    summary = "Show the solution" if "solution" in directives else "Show the code"
    summary = directives.get("code-summary") or directives.get("fold") or summary
    options = {"code_prompt_show": summary, "code_prompt_hide": summary.replace("Show", "Hide", 1)}
    if alt:
        options["image"] = {"alt": alt}
    if caption:
        options["figure"] = {"caption": caption} | ({"name": label} if label else {})
    return options


def imports_only(source):
    """Whether a cell imports, perhaps with a call or two that set up, and does nothing else."""
    try:
        first, *rest = ast.parse(source).body
    except (SyntaxError, ValueError):  # of IPython, or empty
        return False
    imports = ast.Import | ast.ImportFrom
    return isinstance(first, imports) and all(isinstance(x, imports | ast.Expr) for x in rest)


def read_code(cell, module):
    """Prepare one code cell in place; returns the Markdown cells to put after it."""
    directives, cell.source = split_directives(cell.source)
    if imports_only(cell.source) and not {"fold", "code-fold", "hide"} & {*directives}:
        directives["fold"] = "What this page imports"
    tags = tags_for(directives, cell.source)
    if imports_only(cell.source) and cell.outputs and "hide-input" in tags:
        tags = sorted({*tags, "hide-cell"} - {"hide-input"})  # what the last line shows, too
    cell.metadata.tags = sorted({*cell.metadata.get("tags", []), *tags})
    cell.metadata.mystnb = mystnb_options(directives)
    after = []
    if {"remove-cell", "remove-output"} & set(tags):
        cell.outputs = []
    for output in filter(chart_of, cell.outputs):
        output.data = chart_html(output.data, directives)
        if figure := cell.metadata.mystnb.pop("figure", None):
            after.append(f"{{.caption}}\n{figure['caption']}")
    if (
        "export" in tags
        and "remove-cell" not in tags
        and (names := exported_names(cell.source, module))
    ):
        after.append(export_links(names, module))
    return [nbformat.v4.new_markdown_cell(text) for text in after]


# ---------------------------------------------------------------- pictures and charts


def picture_of(output):
    """The mime type of an output that needs alt text, or None."""
    return next(
        (mime for mime in output.get("data", {}) if mime.startswith("image/")), None
    ) or chart_of(output)


def chart_of(output):
    """The mime type of an Altair chart in an output, or None."""
    return next(
        (mime for mime in output.get("data", {}) if mime.startswith("application/vnd.vegalite")),
        None,
    )


NARROW = 260  # pixels of a chart on a phone, between the labels of its axes


def narrow(spec):
    """A chart as wide as a phone, or None if it is narrow enough; `course.js` does the same."""
    width = spec.get("width")
    return {**spec, "width": NARROW} if isinstance(width, int) and width > 300 else None


def still_picture(spec, name, alt):
    """A chart as a picture of a few kB, which needs no script."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=vega_lite())
    size = re.search(r'width="\d+" height="\d+"', svg)[0]
    source = quote(svg.replace("\n", ""), safe=" /:=,;()?@!$*+-._~[]'")
    return (
        f'<img class="{name}" alt="{alt}" {size} src="data:image/svg+xml,{source}" '
        'aria-hidden="true">'
    )


def chart_html(data, directives):
    """An Altair output as HTML: a picture, and what `course.js` draws in its place.

    Vega labels what it draws with the specification's description: the alt text again.
    """
    spec = next(
        value for mime, value in data.items() if mime.startswith("application/vnd.vegalite")
    )
    described = {**spec, "description": directives["fig-alt"]}
    text = json.dumps(described, separators=(",", ":")).replace("</", "<\\/")
    alt = html.escape(directives["fig-alt"])
    small = narrow(spec)
    stills = still_picture(spec, "still wide-only" if small else "still", alt)
    stills += still_picture(small, "still narrow-only", alt) if small else ""
    return {
        "text/html": f'<div class="vega-chart" role="figure" aria-label="{alt}">'
        f'<script type="application/json">{text}</script>{stills}</div>'
    }


def missing_alts(nb):
    """What in a notebook has no alt text: Markdown images, and image or chart outputs."""
    missing = []
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            missing += re.findall(
                r"!\[\s*\]\([^)]*\)|<img(?![^>]*\balt=[\"'][^\"'])[^>]*>", cell.source
            )
        if cell.cell_type == "code":
            directives, source = split_directives(cell.source)
            shown = not {"remove-cell", "remove-output"} & set(tags_for(directives, source))
            if shown and not directives.get("fig-alt") and any(map(picture_of, cell.outputs)):
                missing.append(f"the output of a cell without `#| fig-alt:` ({source[:60]!r})")
    return missing


# ---------------------------------------------------------------- Markdown

CALLOUT = re.compile(
    r"> \*\*(?:\u26a0\ufe0f? )?(Pitfall|Paper and code)(?:[:.] *([^*\n]*?))?\*\* ?(.*(?:\n>.*)*)",
    re.MULTILINE,
)


def callouts(source):
    """Turn `> **Pitfall.** …` and `> **Paper and code.** …` into admonitions."""

    def admonition(match):
        kind, title, body = (
            match[1],
            (match[2] or "").rstrip(". "),
            re.sub(r"(?m)^> ?", "", match[3]),
        )
        style = "danger" if kind == "Pitfall" else "note"
        head = f"{kind}: {title}" if title else kind
        return f":::::{{admonition}} {head}\n:class: {style}\n\n{body.strip()}\n:::::"

    return re.sub(r"(?m)^" + CALLOUT.pattern, admonition, source)


# ---------------------------------------------------------------- what cells export


def api_modules():
    """The library's modules that get an API page, such as `attention.masks` and `cli`."""
    modules = []
    for path in PACKAGE.rglob("*.py"):
        file = path.relative_to(PACKAGE).with_suffix("")
        module = ".".join(file.parts)
        hidden = file.name.startswith("_") or file.parts[0] in (*order.BESIDE, *order.FACE)
        if not hidden or module == order.DOOR:
            modules.append(module)
    return sorted(modules)


def module_text(module):
    """The source of a module, read without importing it."""
    return (PACKAGE / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8")


def definitions(source):
    """What Python source defines at its top level: each name with its node, in order."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [node]
        for target in (part for t in targets for part in getattr(t, "elts", [t])):
            if name := getattr(target, "name", getattr(target, "id", None)):
                yield name, node


def public_names(module):
    """`__all__` of a module."""
    found = dict(definitions(module_text(module)))
    return ast.literal_eval(found["__all__"].value) if "__all__" in found else []


def exported_names(source, module):
    """The public names of `module` that a cell defines, in source order."""
    if module not in api_modules():
        return []
    return [name for name, _ in definitions(source) if name in public_names(module)]


def index_names(source):
    """What nbdev's index calls the functions, classes and methods of a cell: ids of its page."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    for node in ast.parse(source).body:
        if isinstance(node, functions | ast.ClassDef):
            yield node.name.lower()
        if isinstance(node, ast.ClassDef):
            inner = functions | ast.ClassDef
            yield from (f"{node.name}.{x.name}".lower() for x in node.body if isinstance(x, inner))


def anchor_exports(app, doctree):
    """doctree-read: what nbdev's index links to, at the cells that export it."""
    taken = {name for node in doctree.findall(nodes.Element) for name in node.get("ids", [])}
    for cell in doctree.findall(nodes.container):
        if "tag_export" in cell["classes"]:
            names = index_names(next(cell.findall(nodes.literal_block)).astext())
            cell["ids"] += [name for name in dict.fromkeys(names) if name not in taken]
            taken.update(cell["ids"])


def export_links(names, module):
    """One line that leads from a cell to the reference entries of what it exports."""
    links = ", ".join(f"{{py:obj}}`{name} <{LIB}.{module}.{name}>`" for name in names)
    return f"{{.exported}}\nIn the library: {links}"


# ---------------------------------------------------------------- beside a lesson's own cells

LIVE = re.compile(r'<div class="live" data-model="(\w+)">')
BEGINS = {"names": "jo", "numbers": "einundzwanzig"}  # shown before the weights are there
UNSEEN = "Without scripts no model runs here; this was recorded."
SAYS = "The model's answer to one input, and what its heads look at."
STILL = rf'\g<0><div class="live-place"></div><noscript><p>{UNSEEN}</p>' + (
    rf'<img src="_static/live_\1.png" alt="{SAYS}"></noscript>'
)
# a link to a file of the package
MODULE = re.compile(rf"\]\(((?:\.\./)*)\.\./{LIB}/([\w/]+)\.py\)")
NUMBERED = re.compile(r"# (\d\d) · .*\n")
HOME = re.compile(r'\A(?=<div class="live"(?s:.*)images/transformer\.svg)')
SOLUTIONS = re.compile(r"\]\((\S*?)(solutions/\w+\.ipynb)\)")
PREDICT = re.compile(r"(?m)^\*\*(\S+) Predict[.:](?:.+\n?)+")


@cache
def recorded(name):
    """What a shipped model says to one text, and what its heads look at: JSON for live.js."""
    from former_nb import load_model

    model, tokenizer, _ = load_model(name, "cpu")
    config = json.loads((PACKAGE / "models" / name / "config.json").read_text(encoding="utf-8"))
    said = {"config": config, "alphabet": tokenizer.alphabet}
    tell = {"names": written, "numbers": translated}[name]
    said |= tell(model, tokenizer, BEGINS[name])
    return json.dumps(said, ensure_ascii=False, separators=(",", ":"))


def written(model, tokenizer, text):
    """Logits of the next letter, what each head looks at from the last, and ten names."""
    import torch

    from former_nb import Sampling, generate
    from former_nb.inspection.recording import record_attention

    tokens = torch.tensor([[1, *tokenizer.encode(text)]])
    with torch.no_grad(), record_attention(model) as weights:
        logits = model(tokens)[0, -1].tolist()
    sampling = Sampling(temperature=0.8, seed=0)
    names = generate(model, [text.title()] * 10, pick=sampling, tokenizer=tokenizer)
    return {
        "logits": [None if token in (0, 1, 3) else round(x, 4) for token, x in enumerate(logits)],
        "seen": {at: [[rounded(head[-1])] for head in heads[0]] for at, heads in weights.items()},
        "names": [name.title() for name in names],
    }


def translated(model, tokenizer, text):
    """The translation, and where each letter of it looks, as a mean over the last layer's heads."""
    import torch

    from former_nb.inspection.recording import find_attention, record_attention

    source = torch.tensor([[1, *tokenizer.encode(text), 2]])
    target, last = [1], find_attention(model)[-1].name
    with torch.no_grad():
        while target[-1] != 2:
            with record_attention(model) as weights:
                logits = model(source, torch.tensor([target]))[0, -1]
            logits[[0, 1, 3]] = float("-inf")
            target.append(int(logits.argmax()))
    rows = weights[last][0].mean(0)
    return {"out": tokenizer.decode(target[1:-1]), "rows": [rounded(row) for row in rows]}


def rounded(row):
    """A row of weights with three digits."""
    return [round(x, 3) for x in row.tolist()]


def still(match):
    """The place of a model that runs in the page: what was recorded, and a picture of it."""
    record = f'<script type="application/json">{recorded(match[1])}</script>'
    return match.expand(STILL) + record


def show_map(source):
    """A lesson's head with the map after its title, the part of this lesson lit.

    On the home page a place for it: `course.js` moves the map there where there is room for it.
    """
    source = HOME.sub('<div class="home-map"></div>\n\n', source)
    title = NUMBERED.match(source)
    picture = f"images/transformer_{title[1]}.svg" if title else None
    if not title or not (NBS / picture).exists():
        return source
    svg = (NBS / picture).read_text(encoding="utf-8")
    image = f"![{re.search('<title.*?>(.*?)<', svg)[1]}]({picture})"
    return f"{title[0]}\n{{.lesson-map}}\n[{image}](index.ipynb)\n{source[title.end() :]}"


def solution(path, number):
    """What a solutions page says in words about an exercise, before its first code."""
    said = []
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.source.startswith("## "):
            if said:
                break
            said = [cell.source] if cell.source.startswith(f"## {number} ") else []
        elif said and cell.cell_type == "code":
            break
        elif said:
            said.append(cell.source)
    heading, *rest = said or [""]
    return "\n\n".join(rest) or heading.partition("\n")[2].strip()


def answer_predictions(source, root, path):
    """A fold with the answer after each "Predict" exercise; `root` leads from the page to nbs/."""

    def moved(match):  # a relative link of the solutions page, as this page has to write it
        return f"]({root}" if match[1] else f"]({root}solutions/"

    def fold(match):
        text = re.sub(r"\]\((?!\w+:|#)(\.\./)?", moved, solution(NBS / path, match[1]))
        head = f'<details class="answer"><summary>Answer to {match[1]}</summary>'
        return f"{match[0].rstrip()}\n\n{head}\n\n{text}\n\n</details>\n" if text else match[0]

    return PREDICT.sub(fold, source)


def outdated(app, env, added, changed, removed):
    """env-get-outdated: the pages that show an answer from a solutions page that has changed."""
    names = {page.removeprefix("solutions/") for page in changed if page.startswith("solutions/")}
    return {page for page in env.found_docs if page.rpartition("/")[2] in names}


def read(text):
    """Read a notebook for MyST-NB; refuses one that has a picture without alt text."""
    nb = nbformat.reads(text, as_version=4)
    if missing := missing_alts(nb):
        title = next(
            (cell.source.splitlines()[0] for cell in nb.cells if cell.source.startswith("# ")),
            "a notebook",
        )
        raise ExtensionError(f"No alt text in '{title}': " + "; ".join(missing))
    nb.metadata.language_info = {"name": "python", "pygments_lexer": "ipython3"}
    cells, module, worked = [], None, SOLUTIONS.search(text)
    for cell in nb.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = LIVE.sub(still, show_map(callouts(cell.source)))
            cell.source = MODULE.sub(r"](\1api/\2.md)", cell.source)  # its page stands for the file
            if worked:
                cell.source = answer_predictions(cell.source, *worked.groups())
        elif cell.cell_type == "code":
            module = split_directives(cell.source)[0].get("default_exp", module)
            cells += read_code(cell, module)
    nb.cells = cells
    return nb


LESSON = re.compile(r"(?:deeper/)?(?!00)(\d\d)_")  # a lesson, or a deep dive behind its door


def number_lesson(app, doctree):
    """doctree-read: a lesson's number before its title, wherever other pages name it."""
    env, lesson = app.env, LESSON.match(app.env.docname)
    if lesson and not env.titles[env.docname].astext().startswith(lesson[1]):
        for node in (env.titles[env.docname], next(env.tocs[env.docname].findall(nodes.reference))):
            node.insert(0, nodes.Text(f"{lesson[1]} \u00b7 "))


PROJECT = "project"


def neighbours(page, pages):
    """Previous and next of a page where the order of the site is not what a reader wants.

    A deep dive leads back to its door and on along the path. The project ends the path, or the
    last lesson where there is none. The page on the paper leads back to the last lesson.
    """
    path = sorted(name for name in pages if re.match(r"\d\d_", name))
    if page == PROJECT:
        return {"next": None}
    if page == order.PAPER:
        return {"prev": path[-1], "next": None}
    lesson = LESSON.match(page)
    doors = [i for i, name in enumerate(path) if lesson and name.startswith(lesson[1])]
    if not doors:
        return {}
    ending = PROJECT if PROJECT in pages else None
    after = path[doors[0] + 1] if doors[0] + 1 < len(path) else ending
    if page in path:
        return {} if after else {"next": None}
    return {"prev": path[doors[0]], "next": after}


def turn_pages(app, page, template, context, doctree):
    """html-page-context: put the neighbours of a page where the theme looks for them."""
    for way, other in neighbours(page, app.env.found_docs).items():
        if other:
            title = app.builder.render_partial(app.env.titles[other])["title"]
            other = {"link": app.builder.get_relative_uri(page, other), "title": title}
        context[way] = other


def parts(env):
    """The parts of the course in the order of the site: a caption and its pages."""
    for tree in env.tocs[env.config.root_doc].findall(addnodes.toctree):
        yield tree["caption"], tree["includefiles"]


def show_course(app, page, template, context, doctree):
    """html-page-context: the sidebar. The path is open, and the part that holds this page."""

    def item(name):
        here = ' class="current active"' if name == page else ""
        current = ' aria-current="page"' if here else ""
        title = html.escape(app.env.titles[name].astext())
        link = app.builder.get_relative_uri(page, name)
        return f'<li{here}><a href="{link or "#"}"{current}>{title}</a></li>'

    made = [f"<ul>{item(app.config.root_doc)}</ul>"]
    for number, (caption, names) in enumerate(parts(app.env)):
        opened = " open" if not number or page in names else ""
        items = "\n".join(map(item, names))
        made.append(f"<details{opened}><summary>{caption}</summary><ul>\n{items}</ul></details>")
    context["course"] = "\n".join(made)


def subtitle(doctree):
    """What a page is about, from the quote below its title; the project's own words without one."""
    quote = next(doctree.findall(nodes.block_quote), None) if doctree else None
    return " ".join((quote.astext() if quote else SETTINGS["description"]).split())


def keep_subtitle(app, doctree):
    """doctree-read: what a page is about, where others find it without reading the page again."""
    app.env.metadata[app.env.docname]["about"] = subtitle(doctree)


HOSTS = {  # where a notebook runs with one click: its first cell installs the package
    "Colab": "https://colab.research.google.com/github/{user}/{repo}/blob/{branch}/{nbs_path}/",
    "Kaggle": "https://kaggle.com/kernels/welcome?src={git_url}/blob/{branch}/{nbs_path}/",
}


def offer_to_run(app, doctree):
    """doctree-read: links below a page's subtitle: its notebook, and where it runs."""
    page, quote = app.env.docname, next(doctree.findall(nodes.block_quote), None)
    if page == app.config.root_doc or not quote or not (NBS / f"{page}.ipynb").exists():
        return
    links = [
        nodes.reference("", f"Open in {host}", refuri=f"{url.format(**SETTINGS)}{page}.ipynb")
        for host, url in HOSTS.items()
    ]
    file = f"{'../' * page.count('/')}_sources/{page}.ipynb"
    own = nodes.raw("", f'<a href="{file}" download>The notebook</a>', format="html")
    line = nodes.paragraph("", "", own, classes=["run-it"])
    for link in links:
        line += [nodes.Text(" \u00b7 "), link]
    quote.parent.insert(quote.parent.index(quote) + 1, line)


@cache
def built_commit(folder=ROOT):
    """The commit that the site is made of; the branch where there is no git."""
    return edition.commit_of(folder) or SETTINGS["branch"]


def source_of(page):
    """What a page is made of, from the root of the repository; empty where that is many files."""
    name = re.sub("^(api|_modules)/", "", page)
    if name == page:
        files = [f"nbs/{page}.ipynb", f"nbs/{page}.md"]
    else:
        module = name if page.startswith("_") else f"{LIB}/{name}"
        files = [f"{module}.py", f"{module}/__init__.py"]
    return next((file for file in files if (ROOT / file).exists()), "")


def lead_back(app, page, template, context, doctree):
    """html-page-context: a page's source at the commit that is built, and a report of a mistake."""
    file, commit, host = source_of(page), built_commit(), SETTINGS["git_url"]
    title = html.unescape(re.sub("<[^>]+>", "", context.get("title") or SETTINGS["title"]))
    body = f"Page: {app.config.html_baseurl}{page}.html\nCommit: {commit}\n\n"
    body += "What is wrong, and what should be there instead?\n"
    issue = urlencode({"title": f"{title}: ", "body": body}, quote_via=quote)
    context["source"] = f"{host}/{'blob' if file else 'tree'}/{commit}/{file}".rstrip("/")
    context["report"] = f"{host}/issues/new?{issue}"


def describe(app, page, template, context, doctree):
    """html-page-context: what search engines and previews show."""
    about = app.env.metadata.get(page, {}).get("about", SETTINGS["description"])
    told = {"title": context.get("title") or SETTINGS["title"], "description": about}
    told |= {"type": "article", "image": f"{app.config.html_baseurl}_static/card.png"}
    told = {name: html.escape(re.sub("<[^>]+>", "", text)) for name, text in told.items()}
    tags = [f'<meta name="description" content="{told["description"]}">']
    tags += [f'<meta property="og:{name}" content="{text}">' for name, text in told.items()]
    tags += ['<meta name="twitter:card" content="summary_large_image">']
    context["metatags"] = "\n".join([context.get("metatags") or "", *tags])


# Shown at any address, so it holds its style, and its links name the host.
MISSING = """<!doctype html><html lang="en"><head><meta charset="utf-8">
<title>Not found · {title}</title><link rel="icon" href="data:image/svg+xml,{icon}">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
{light}<style>{style}</style></head>
<body><header class="bar"><a class="logo" href="{home}">{title}</a>
<nav class="path" aria-label="The path"><ol>
{stops}
</ol></nav></header>
<main><article class="page"><h1>There is no such page</h1>
<p><a href="{home}">The course begins here</a>. You can also
<a href="{home}search.html">search it</a>, or choose a station of the line above.</p>
</article></main></body></html>
"""
STOP = """<li data-page="{page}.html"><a href="{home}{page}.html">\
<b>{number}</b><span>{name}</span></a></li>"""


def missing_page(titles):
    """What stands where there is no page: the line of stations, and two ways on."""
    from course_look import STATION, short, with_faces

    home, stops = f"{SETTINGS['doc_host']}{SETTINGS['doc_baseurl']}/", []
    for page in order.STEPS:
        title = STATION.match(titles[page].astext())
        number, name = short(page, title[1]), html.escape(title[2])
        stops.append(STOP.format(page=page, home=home, number=number, name=name))
    static = ROOT / "docs" / "_static"
    style = "".join((static / name).read_text("utf-8") for name in ("base.css", "course.css"))
    style = with_faces(style, static / "fonts")
    own = r'@font-face \{[^}]*url\("fonts/.*?\n\}\n'  # other files lie beside other pages
    style = re.sub(own, "", style, flags=re.S)
    first = (ROOT / "docs" / "_templates" / "first.js").read_text(encoding="utf-8")
    light = f"<script>{first}</script>"  # day or night, before anything is shown
    title = html.escape(SETTINGS["title"])
    icon = quote((static / "favicon.svg").read_text(encoding="utf-8"))
    parts = {"title": title, "light": light, "style": style, "icon": icon, "home": home}
    return MISSING.format(**parts, stops="\n".join(stops))


MOVED_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>
<meta name="robots" content="noindex"><link rel="canonical" href="{page}">
<script>location.replace("{page}" + location.hash)</script>
<noscript><meta http-equiv="refresh" content="0; url={page}"></noscript>
<main><h1>{title}</h1><p><a href="{page}">The page is here.</a></p></main></html>
"""


def unnumbered(page):
    """Where nbdev's index looks for a page: without the number before its name."""
    return re.sub(r"(^|/)\d+[a-zA-Z0-9]*_([^/]*)$", r"\1\2", page).lower()


def old_addresses(pages):
    """(where a page was found before, the page): by nbdev's index, without its number, as a
    notebook of the library that is a plain module today, and as a page of its own."""
    for old in MOVED:
        page = where_now(old)
        if page in pages:
            yield from {old: page, unnumbered(old): page}.items()
    for page in pages:
        folder, _, name = page.rpartition("/")
        module = page.removeprefix("api/").replace("/", ".")
        if unnumbered(page) != page:
            yield unnumbered(page), page
        elif folder.startswith("api") and module in api_modules() and not lesson_of(module):
            yield f"library/{name}", page


def list_pages(app, exception):
    """build-finished: the pages for machines, and what stands where there is none."""
    if exception or app.builder.format != "html":
        return
    env, home, out = app.env, app.config.html_baseurl, Path(app.outdir)
    pages = ["index", *sorted(page for page in env.found_docs if page != "index")]
    urls = "".join(f"<url><loc>{home}{page}.html</loc></url>\n" for page in pages)
    space = "http://www.sitemaps.org/schemas/sitemap/0.9"
    site = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="{space}">\n{urls}</urlset>\n'
    about = (
        f"- [{env.titles[page].astext()}]({home}{page}.html): {env.metadata[page]['about']}"
        for page in pages
        if not page.startswith(("api/", "solutions/"))
    )
    text = f"# {SETTINGS['title']}\n\n> {SETTINGS['description']}\n\n" + "\n".join(about) + "\n"
    files = {"sitemap.xml": site, "llms.txt": text, "404.html": missing_page(env.titles)}
    for old, page in old_addresses(pages):
        link = posixpath.relpath(f"{page}.html", posixpath.dirname(old) or ".")
        title = html.escape(env.titles[page].astext())
        files[f"{old}.html"] = MOVED_PAGE.format(page=html.escape(link), title=title)
    for name, content in files.items():
        file = out / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(content, encoding="utf-8")


# ---------------------------------------------------------------- API pages


def lesson_of(module):
    """The notebook a module is exported from, as a document name: `/deeper/04_flash`."""
    match = re.search(r"File to edit: \S*?nbs/(\S+)\.ipynb", module_text(module))
    return f"/{match[1]}" if match else None


def constants(module):
    """A module's public constants as directives: autodoc leaves them out."""
    public = public_names(module)
    for name, node in definitions(module_text(module)):
        if name in public and isinstance(node, ast.Assign):
            value = "" if hasattr(node.targets[0], "elts") else ast.unparse(node.value)
            yield f".. py:data:: {name}\n" + (
                f"   :value: {value}\n" if 0 < len(value) < 100 else ""
            )


def import_line(module):
    """How to import what a module offers, in lines of a page's width."""
    names = ", ".join(public_names(module))
    line = f"from {LIB}.{module} import {names}"
    if len(line) <= 88:
        return line
    names = textwrap.fill(names, 84, initial_indent="    ", subsequent_indent="    ")
    return f"from {LIB}.{module} import (\n{names},\n)"


@cache
def cells_after_exports(page):
    """The cells of a page that a reader may run, below its first export; none with a directive."""
    cells = nbformat.read(NBS / f"{page}.ipynb", as_version=4).cells
    sources = [cell.source for cell in cells if cell.cell_type == "code"]
    begin = next((i for i, source in enumerate(sources) if "#| export" in source), len(sources))
    return [source for source in sources[begin:] if not source.startswith(("#|", "%", "!"))]


def example(module, name):
    """The shortest cell that calls a name on the page that teaches it, if one is short; or ""."""
    lesson = lesson_of(module)
    calls = re.compile(rf"\b{re.escape(name)}\(")
    found = [
        source
        for source in (cells_after_exports(lesson[1:]) if lesson else [])
        if calls.search(source) and source.count("\n") < 12 and "check(" not in source
    ]
    return min(found, key=len, default="")


def api_page(module):
    """The Markdown of a module's reference page."""
    lesson = lesson_of(module)
    verb = "Taught" if lesson and LESSON.match(lesson[1:]) else "Written"
    taught = f"{verb} in {{doc}}`{lesson}`.\n\n" if lesson else ""
    file = f"{LIB}/{module.replace('.', '/')}.py"
    file = file if (ROOT / file).exists() else file.replace(".py", "/__init__.py")
    source = f"[{file}]({SETTINGS['git_url']}/blob/{SETTINGS['branch']}/{file})"
    head = f"{taught.strip()} Its file is {source}.\n\n".lstrip()
    head += f"```python\n{import_line(module)}\n```\n\n" if public_names(module) else ""
    body = "\n".join(
        [
            f".. automodule:: {LIB}.{module}\n",
            f".. py:currentmodule:: {LIB}.{module}\n",
            *constants(module),
        ]
    )
    return f"# `{module}`\n\n{head}```{{eval-rst}}\n{body}```\n"


HOUSE = f"""\
A folder imports from those above it on this page, never from those below, and nowhere in a circle.
One table in `tools/order.py` says so, and `python tools/order.py` fails where it is not so. What a
page teaches is exported from its notebook; the rest is plain Python. Each folder offers its main
names by itself, as in `from {LIB}.attention import MultiHeadAttention`.

The grader has two folders beside these: `exercises` holds the right answers and the ways to get
them wrong, a file a page, and `grading` compares. They may import all, and nothing below the
command line imports them. The door to them is [grading.check](grading/check.md), with `check` and
`hint`."""


def first_paragraph(source):
    """The first paragraph of a module's docstring, on one line."""
    return " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())


def house_page():
    """How the house is built: a table for each folder, made from its modules' first sentences."""
    lines = ["# How the house is built", "", HOUSE, ""]
    for folder in [folder for level in order.LEVELS for folder in level]:
        face = (PACKAGE / folder / "__init__.py").read_text(encoding="utf-8")
        lines += [f"## `{LIB}.{folder}`", "", first_paragraph(face), ""]
        lines += ["| module | what it is about |", "|---|---|"]
        for module in api_modules():
            if module.startswith(f"{folder}."):
                name = module.rpartition(".")[2]
                about = first_paragraph(module_text(module)).replace("|", "\\|")
                lines.append(f"| [{name}]({folder}/{name}.md) | {about} |")
        lines.append("")
    return "\n".join(lines)


VERSIONS = """Once a week the library's tests run on versions that nobody has chosen. You see what
they said last, and the names of those that failed. The versions that are tested at every change,
all together, are in [constraints.txt]({git_url}/blob/{branch}/constraints.txt), and what pip
accepts is in [settings.ini]({git_url}/blob/{branch}/settings.ini)."""


def versions_page():
    """Which versions work: the table of the last weekly run, or "not run yet"."""
    runs = weekly.read(ROOT / "docs" / "weekly.json")
    version = edition.version_of()
    wheel = edition.wheel_name(version).replace("+", "%2B")
    links = dict(wheel=f'<a href="../{wheel}">the wheel of {version}</a>')
    links |= dict(notebooks='<a href="../notebooks.zip">all notebooks</a>')
    lines = ["# Which versions work", "", VERSIONS.format(**SETTINGS), "", weekly.markdown(runs)]
    lines += ["", "This site carries {wheel} and {notebooks}, too.".format(**links)]
    return "\n".join(lines) + "\n"


def write_api_pages(app):
    """Write `nbs/api/`, a folder that git ignores by its own `.gitignore`."""
    pages = {f"{module.replace('.', '/')}.md": api_page(module) for module in api_modules()}
    pages |= {"house.md": house_page(), "versions.md": versions_page(), ".gitignore": "*\n"}
    pages["small_torch.md"] = small_torch_page("{git_url}/blob/{branch}".format(**SETTINGS))
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.md")}
    for stale in written - set(pages):
        (folder / stale).unlink()
    for name, text in pages.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


KEYWORDS = inspect.Parameter.VAR_KEYWORD  # what docments gives as the type of **kwargs
INLINE = re.compile(
    r"``.+?``|(?<![\w*])\*\w(?:[^*\n]*\w)?\*(?![\w*])"  # stay as they are
    r"|`([^`]+)`|\$([^$\n]+)\$|\[([^\]]+)\]\((https?://[^)\s]+)\)|([*\\|]|\w_(?!\w))"
)


def to_rst(line):
    """The Markdown of a docstring as reStructuredText: code, math, links; lone stars stay stars."""

    def inline(match):
        code, math, words, url, special = match.groups()
        if code:
            return f"``{code}``"
        if math:
            return f":math:`{math}`"
        if url:
            return f"`{words} <{url}>`__"
        return f"{special[:-1]}\\{special[-1]}" if special else match[0]

    return INLINE.sub(inline, line)


def type_name(annotation):
    """How a type reads in a parameter's entry; empty where none is known."""
    from sphinx.ext.autodoc.preserve_defaults import DefaultValue
    from sphinx.util.typing import stringify_annotation

    annotation = (
        getattr(annotation, "__origin__", annotation)
        if hasattr(annotation, "__metadata__")
        else annotation
    )
    if annotation in (inspect.Parameter.empty, DefaultValue) or isinstance(
        annotation, type(KEYWORDS)
    ):
        return ""
    return annotation if isinstance(annotation, str) else stringify_annotation(annotation, "smart")


def parameter_fields(obj):
    """docments (the comment behind each parameter, or a command's `help`) as Sphinx fields."""
    from fastcore.docments import docments

    fields = []
    for name, info in docments(obj, full=True, args_kwargs=True).items():
        helps = [
            getattr(extra, "help", None) or "" for extra in getattr(info.anno, "__metadata__", ())
        ]
        about = to_rst(" ".join((info.docment or "".join(helps)).split()))
        kind = type_name(info.anno)
        if not (about or kind) or name == "return" and kind == "None":
            continue
        what, type_field = (
            ("returns", "rtype") if name == "return" else (f"param {name}", f"type {name}")
        )
        fields += [f":{what}: {about}"] if about or name != "return" else []
        fields += [f":{type_field}: {kind}"] if kind else []
    return fields


def document(app, what, name, obj, options, lines):
    """autodoc-process-docstring: Markdown to reStructuredText, then the parameters."""
    lines[:] = [to_rst(line) for line in lines]
    if what in ("function", "method", "class"):
        with suppress(OSError):  # a class that was made by a call has no source
            lines += ["", *parameter_fields(obj)]
    module, _, word = name.removeprefix(f"{LIB}.").rpartition(".")
    shown = example(module, word) if what in ("function", "class") else ""
    if shown:
        lines += ["", "On its page:", "", ".. code-block:: python", ""]
        lines += [f"   {line}" for line in shown.splitlines()] + [""]


def skip_fields(app, what, name, obj, skip, options):
    """autodoc-skip-member: a dataclass's fields already stand among its parameters."""
    return True if what == "class" and not (callable(obj) or hasattr(obj, "__get__")) else None


# ---------------------------------------------------------------- assets


LIVE_MODELS = ("names", "numbers")  # live.js can run the models that read letters


def write_assets(app):
    """Put Vega and MathJax beside the site's own files, so that no page asks the network."""
    if app.builder.format != "html":
        return
    static = Path(app.outdir) / "_static"
    write_vega(static / "vega.js")
    write_card(static / "card.png")
    for name in LIVE_MODELS:
        write_model(ROOT / LIB / "models" / name, static / f"live_{name}.js")


def write_model(folder, path):
    """A shipped model as a classic script, for live.js: configuration, letters and weights."""

    def read(name):
        return json.loads((folder / name).read_text(encoding="utf-8"))

    weights = b64encode((folder / "model.safetensors").read_bytes()).decode()
    alphabet = read("tokenizer.json")["alphabet"]
    model = {"config": read("config.json"), "alphabet": alphabet, "weights": weights}
    path.parent.mkdir(parents=True, exist_ok=True)
    name = json.dumps(folder.name)
    text = f"(window.formerModels ??= {{}})[{name}] = {json.dumps(model)};\n"
    path.write_text(text, encoding="utf-8")


CARD = """<svg xmlns="http://www.w3.org/2000/svg" width="1200" height="630">
<rect width="1200" height="630" fill="#fbf9f4"/>
<g font-family="DejaVu Serif, Georgia, serif" fill="#1d2330">
<text x="64" y="170" font-size="84" font-weight="700">{title}</text>{lines}</g>
<svg x="720" y="40" width="420" height="450" viewBox="0 0 404 440">{map}</svg>
<path d="M64 560H1136" stroke="#8a2a5b" stroke-width="8"/>{stops}</svg>
"""
HUES = ("#0072b2", "#d55e00", "#009e73")  # of queries, keys and values


def write_card(path):
    """The picture that previews of a link show: title, map, and the line of the path."""
    import vl_convert

    path.parent.mkdir(parents=True, exist_ok=True)
    words = textwrap.wrap(SETTINGS["description"], 30)
    lines = (
        f'<text x="64" y="{250 + 46 * row}" font-size="32">{html.escape(line)}</text>'
        for row, line in enumerate(words)
    )
    count = len(order.STEPS)
    stops = (
        f'<circle cx="{64 + 1072 * stop / (count - 1):.0f}" cy="560" r="17" stroke="#fbf9f4" '
        f'stroke-width="5" fill="{HUES[stop] if stop < len(HUES) else "#8a2a5b"}"/>'
        for stop in range(count)
    )
    drawing = (NBS / "images/transformer.svg").read_text(encoding="utf-8")
    drawing = drawing.replace('width="485" height="950"', 'width="404" height="792"')
    parts = {"lines": "".join(lines), "stops": "".join(stops), "map": drawing}
    path.write_bytes(vl_convert.svg_to_png(CARD.format(title=SETTINGS["title"], **parts)))


def vega_lite():
    """The version of Vega-Lite that Altair writes, as vl_convert calls it."""
    import altair

    return ".".join(altair.SCHEMA_VERSION[1:].split(".")[:2])


def write_vega(path):
    """Vega, Vega-Lite and vega-embed as one classic script (modules do not load from file://)."""
    import vl_convert

    version = vega_lite()
    stamp = f"/* vl-convert {vl_convert.__version__}, Vega-Lite {version} */"
    if path.exists() and path.read_text(encoding="utf-8").startswith(stamp):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    bundle = vl_convert.javascript_bundle(vl_version=version)
    path.write_text(f"{stamp}\n(()=>{{{bundle}}})();", encoding="utf-8")


DRAWING = re.compile(r'(<img alt="[^"]*" src="[^"]*_images/(\w+\.svg)")(?! width)')


def sized(match):
    """An image tag with the size of its drawing, so that the page need not move when it comes."""
    if not (path := NBS / "images" / match[2]).exists():  # drawn by a cell
        return match[1]
    size = re.search(r'width="\d+" height="\d+"', path.read_text(encoding="utf-8"))
    return f"{match[1]} {size[0]}"


OPTION = re.compile(r'<span class="pre">(--[\w-]+)</span>')  # browsers break it behind a hyphen
EMPTY_HEADER = re.compile(r"<th\b([^>]*)>(\s*(?:<p>\s*</p>)?\s*)</th>")


def mend_body(app, page, template, context, doctree):
    """html-page-context: drawings have their size, empty headers no rule, options no line break."""
    if body := context.get("body"):
        body = EMPTY_HEADER.sub(r"<td\1>\2</td>", DRAWING.sub(sized, body))
        context["body"] = OPTION.sub(r'<span class="pre whole">\1</span>', body)


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_api_pages)
    app.connect("builder-inited", write_assets)
    app.connect("doctree-read", number_lesson, priority=900)
    app.connect("doctree-read", anchor_exports)
    app.connect("doctree-read", keep_subtitle)
    app.connect("doctree-read", offer_to_run, priority=950)  # after the search has read the page
    app.connect("env-get-outdated", outdated)
    app.connect("html-page-context", turn_pages, priority=400)  # before the theme renders its parts
    app.connect("html-page-context", show_course, priority=400)
    app.connect("autodoc-process-docstring", document)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("html-page-context", mend_body, priority=400)
    app.connect("html-page-context", describe, priority=900)
    app.connect("html-page-context", lead_back)
    app.connect("build-finished", list_pages)
    app.extensions["sphinx_multitoc_numbering"].parallel_read_safe = True  # it only forgets to say
    return {"version": SETTINGS["version"], "parallel_read_safe": True, "parallel_write_safe": True}
