"""Search that also works from a folder: the words of every page as one classic script.

Sphinx fetches each page that it found for its excerpt, which `file://` forbids. Here each section's
prose and code are kept as pages are read, and `search.js` looks through them.
"""

import json
import re
from pathlib import Path

import course_glossary
import tomllib
from course_math import as_typed
from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError

LONGEST = 60  # letters of a formula that is shown
SKIPPED = (nodes.title, nodes.raw, nodes.field_list)
SKIPPED += (addnodes.desc_signature, addnodes.index)


def is_part(node):
    """A section, an entry of the reference or of the glossary: what a result leads to."""
    entry = isinstance(node, nodes.list_item) and node["ids"]
    return isinstance(node, (nodes.section, addnodes.desc)) or bool(entry)


def plain(node):
    """The words of a paragraph, its formulas as one would type them."""
    if isinstance(node, (nodes.math, nodes.math_block)):
        text = as_typed(node.astext())
        return text if len(text) <= LONGEST else "…"
    if isinstance(node, nodes.Text):
        return node.astext()
    return "".join(map(plain, node.children))


def is_left_out(node):
    """Outputs, the code of figures, lines that the site itself wrote, and sections of their own."""
    classes = {*node.get("classes", [])} if isinstance(node, nodes.Element) else set()
    figure = "tag_hide-input" in classes and "tag_export" not in classes
    written = {"cell_output", "exported", "terms", "run-it"} & classes
    return figure or bool(written) or is_part(node) or isinstance(node, SKIPPED)


def gather(node, words, code):
    """Put the prose and the code below a node into two lists."""
    for child in filter(lambda child: not is_left_out(child), node.children):
        if isinstance(child, nodes.literal_block):
            code.append(child.astext())
        elif isinstance(child, nodes.TextElement):
            words.append(plain(child))
        else:
            gather(child, words, code)


def signature(part):
    """The full name of what an entry of the reference describes, and its call as code."""
    head = part[0]
    name = head.get("fullname") or head.astext()
    given = ", ".join(each.astext() for each in head.findall(addnodes.desc_parameter))
    return name, f"def {name}({given})" if given else ""


def sections(doctree, page):
    """(anchor, heading, prose, code) of a page's sections, and of what a reference page lists."""
    for part in doctree.findall(is_part):
        words, code, holder = [], [], part
        gather(part, words, code)
        if isinstance(part, addnodes.desc):
            holder, (heading, call) = part[0], signature(part)
            code.append(call)
        elif isinstance(part, nodes.section):
            heading = part[0].astext()
        else:  # the name with which an entry of the glossary begins
            heading = next(part.findall(nodes.Inline)).astext()
        code = "" if page.startswith("solutions/") else "\n".join(code)
        if page.startswith("deeper/"):  # names alone: half of all the code of the course
            code = " ".join(sorted({*re.findall(r"[^\W\d]\w{2,}", code)}))
        yield (holder["ids"] or [""])[0], heading, " ".join(" ".join(words).split()), code


def keep_words(app, doctree):
    """doctree-read: remember what a page says, with what else Sphinx remembers of it."""
    page = app.env.docname
    app.env.metadata[page]["words"] = list(sections(doctree, page))


def search_page(app):
    """html-collect-pages: the page of the search, instead of the one with Sphinx's own index."""
    yield "search", {}, "course_search.html"


def slug(heading):
    """The anchor of a heading in the links of notebooks and of the glossary."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def term_names(text):
    """What the glossary's terms are called: (page, heading's anchor) -> the names of its terms."""
    found = {}
    for names, _, links in course_glossary.entries(text):
        for place in links:
            found.setdefault(place, []).extend(names)
    return found


def aliases(places):
    """The words of search_aliases.toml: each in small letters -> its page and anchor.

    `places` is page -> its anchors. Raises `ExtensionError` where an address is none.
    """
    path = Path(__file__).with_name("search_aliases.toml")
    found = {}
    for address, words in tomllib.loads(path.read_text(encoding="utf-8")).items():
        page, _, anchor = address.partition("#")
        if anchor not in ["", *places.get(page, [])] or page not in places:
            raise ExtensionError(f"{path.name}: there is no {address}")
        for alias in words:
            if found.setdefault(spoken(alias), [page, anchor]) != [page, anchor]:
                raise ExtensionError(f"{path.name}: {alias} leads to two pages")
    return found


def spoken(words):
    """Words as search.js compares them: small letters, one space between two words."""
    return " ".join(re.findall(r"\w+", words.lower()))


def write_words(app, exception):
    """build-finished: every page's words, in the order of the course, with the glossary's names."""
    if exception or app.builder.format != "html":
        return
    env = app.env
    glossary = Path(app.srcdir) / f"{course_glossary.GLOSSARY}.md"
    names = term_names(glossary.read_text(encoding="utf-8"))
    pages = []
    for page in sorted(env.found_docs):
        parts = env.metadata[page]["words"]
        anchors = ["", *(slug(heading) for _, heading, *_ in parts[1:])]
        called = ["; ".join(names.get((page, anchor), [])) for anchor in anchors]
        parts = [[*part, name] if name else part for part, name in zip(parts, called)]
        pages.append([page, env.titles[page].astext(), parts])
    found = aliases({page: [anchor for anchor, *_ in parts] for page, _, parts in pages})
    text, also = (
        json.dumps(part, ensure_ascii=False, separators=(",", ":")) for part in (pages, found)
    )
    target = Path(app.outdir) / "_static" / "search_words.js"
    script = f"window.courseAliases = {also};\nwindow.courseWords = {text};\n"
    target.write_text(script, encoding="utf-8")


def setup(app):
    """Register with Sphinx."""

    def no_index(app):
        app.builder.search = False

    app.connect("builder-inited", no_index)
    app.connect("doctree-read", keep_words, priority=950)
    app.connect("html-collect-pages", search_page)
    app.connect("build-finished", write_words)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
