"""The glossary's links both ways: `nbs/glossary.md` is the one table of terms.

Each entry of it can be linked to, and each page that an entry leads to lists the entry at the end
of its recap.
"""

import re
from pathlib import Path

from docutils import nodes

GLOSSARY = "glossary"
ENTRY = re.compile(r"^- ((?:\*\*|`).+?): (.*?)((?:,? ?\[[^\]]+\]\([^)]+\))+)$", re.M)
NAME = re.compile(r"\*+(.+?)\*+|`(.+?)`")
LINK = re.compile(r"\]\(([^)#]+)\.ipynb#?([^)]*)\)")


def entries(text):
    """(names, meaning, [(page, heading's anchor)]) of each entry in the source of the glossary."""
    for names, meaning, links in ENTRY.findall(text):
        names = [bold or code for bold, code in NAME.findall(names)]
        yield names, meaning.strip(), LINK.findall(links)


def anchor(name):
    """Where an entry stands on its page: `term-causal-mask`."""
    return "term-" + nodes.make_id(name)


def name_entries(doctree):
    """Give each entry of the glossary its anchor."""
    for item in doctree.findall(nodes.list_item):
        name = next(item.findall(lambda node: isinstance(node, (nodes.strong, nodes.literal))))
        item["ids"].append(anchor(name.astext()))


def list_terms(app, doctree, page):
    """Write "Terms: …" below the recap of a page, or at its end, each a link with its meaning."""
    source = Path(app.srcdir) / f"{GLOSSARY}.md"
    app.env.note_dependency(source)
    told = nodes.paragraph("", "Terms: ", classes=["terms"])
    for names, meaning, links in entries(source.read_text(encoding="utf-8")):
        if page in (to for to, _ in links):
            to = app.builder.get_relative_uri(page, GLOSSARY) + "#" + anchor(names[0])
            title = re.sub(r"[*`]", "", meaning)
            told += nodes.reference("", names[0], refuri=to, internal=True, reftitle=title)
            told += nodes.Text(" \u00b7 ")
    if len(told) > 1:
        told.pop()
        parts = list(doctree.findall(nodes.section))
        recaps = [part for part in parts if "recap" in part["ids"]]
        (recaps or parts[:1])[0].append(told)


def link_terms(app, doctree):
    """doctree-read: anchors in the glossary, and what leads there from other pages."""
    if app.env.docname == GLOSSARY:
        name_entries(doctree)
    elif (Path(app.srcdir) / f"{GLOSSARY}.md").exists():
        list_terms(app, doctree, app.env.docname)


def stand_alone(app, page, template, context, doctree):
    """html-page-context: the glossary and what stands beside it are no steps of the path."""
    if page in (GLOSSARY, "teachers", "your_file"):
        context["prev"] = context["next"] = None


def setup(app):
    """Register with Sphinx."""
    app.connect("html-page-context", stand_alone, priority=900)
    app.connect("doctree-read", link_terms, priority=920)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
