"""Slides of the path's lessons, cut from the pages that Sphinx has rendered for them.

What a lesson shows (a formula, a drawing, a cell with its output) stands on a slide, below the
first sentence of the prose before it and above the first of the prose after it. The whole prose is
in the speaker's notes. reveal.js comes from the files of the package `sphinx-revealjs`.
"""

import ast
import html
import re
import shutil
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path
from textwrap import wrap

from bs4 import BeautifulSoup, NavigableString
from docutils import nodes

DRAWINGS = Path(__file__).resolve().parents[2] / "nbs" / "images"
LESSON = re.compile(r"(\d\d)_\w+$")  # the page of a lesson on the path, or of the tour
ROOM = 480  # pixels for what a slide shows, of 720: the rest are heading and sentences
TIGHT = 700  # what a table, or a cell with its output, may take in smaller type
LINE, PROSE, ROW, PICTURE = 25, 36, 32, 420  # lines of code, prose and tables; a picture
WIDE = 110  # letters in a line of text; a longer one is folded
WHOLE, PART = 26, 20  # a cell with more lines than the first is cut into parts of the second

# ---------------------------------------------------------------- sentences

END = re.compile(
    r"(?:(?<=[.?!])|(?<=[.?!][\"”)]))(?<!al\.)(?<!vs\.)(?<!e\.g\.)(?<!i\.e\.)\s+(?=[A-Z\"“]|$)"
)


def sentences(paragraph):
    """The HTML of each sentence of a paragraph."""
    found = [""]
    for child in paragraph.contents:
        text = isinstance(child, NavigableString)
        first, *more = END.split(html.escape(child, quote=False)) if text else [str(child)]
        found[-1] += first
        found += more
    return [sentence.strip() for sentence in found if sentence.strip()]


def words(*fragments):
    """How many words some HTML has."""
    return len(plain(" ".join(fragments)).split())


# ---------------------------------------------------------------- what is shown


def lines_of(pre):
    """The lines of a highlighted block as HTML: Pygments ends its marks with each line."""
    return pre["data-html"].strip("\n").split("\n")


def plain(markup):
    """The text of some HTML."""
    return html.unescape(re.sub(r"<[^>]+>", "", markup))


def cuts(lines):
    """Where a long cell is cut: at blank lines, or before the line that is least indented."""
    text = [plain(line) for line in lines]
    parts = -(-len(lines) // PART) if len(lines) > WHOLE else 1
    at = [0]
    for part in range(1, parts):
        near = round(at[-1] + (len(lines) - at[-1]) / (parts - part + 1))
        where = range(max(at[-1] + 4, near - 5), min(len(lines) - 3, near + 5))

        def cost(i):
            indent = len(text[i]) - len(text[i].lstrip())
            cut = indent + 1 if text[i - 1].strip() else 0  # a blank line may end any part
            return cut, abs(i - near)

        at.append(min(where, key=cost))
    return zip(at, [*at[1:], len(lines)])


def folded(line):
    """The lines that a long line of text, which has no marks of Pygments, becomes."""
    if len(plain(line)) <= WIDE or "<" in line:
        return [line]
    return wrap(line, WIDE, subsequent_indent=" " * 4, break_on_hyphens=False)


def block(lines, style):
    """Lines of code or output as HTML and their height."""
    width, text = max(len(plain(line)) for line in lines), "\n".join(lines)
    markup = f'<div class="highlight {style}" style="--columns: {width}"><pre>{text}</pre></div>'
    return markup, LINE * len(lines) + 24


def shown_code(cell):
    """The visible code of a cell, in parts that fit a slide."""
    pre = cell.select_one(".cell_input pre")
    if pre is None or cell.find("details"):
        return
    lines = lines_of(pre)
    for start, stop in cuts(lines):
        yield block("\n".join(lines[start:stop]).strip("\n").split("\n"), "code")


def shown_output(output):
    """One output of a cell: a picture, a chart, a table or text, as a list of parts."""
    if picture := output if output.name == "img" else output.select_one(".vega-chart, img, svg"):
        return [(f'<div class="picture">{picture}</div>', PICTURE)]
    if table := output.find("table"):
        return [*shown_table(table)]
    if pre := output.find("pre"):
        return [block(lines_of(pre), "output")]
    return [(str(output), PROSE * (1 + len(output.get_text()) // 85))]


@cache
def bands(drawing):
    """Where a drawing may be cut, in percent from its top: rows with little ink near its quarters.

    Drawings flow from top to bottom, so a drawing that is uncovered so grows as it is explained.
    """
    import numpy as np
    import vl_convert
    from PIL import Image

    picture = vl_convert.svg_to_png(drawing.read_text(encoding="utf-8"))
    grey = np.asarray(Image.open(BytesIO(picture)).convert("L"), dtype=float)
    ink = (abs(grey - np.median(grey)) > 8).sum(axis=1)
    high = len(ink)
    cut = []
    for quarter in (high // 4, high // 2, 3 * high // 4):
        near = range(quarter - high // 10, quarter + high // 10)
        row = min(near, key=lambda y: (ink[y], abs(y - quarter)))
        cut.append(round(100 * row / high))
    return cut


def growing(image):
    """A drawing that grows: its upper part, and below it a part with each press of a key."""
    drawing = DRAWINGS / image["src"].rpartition("/")[2]
    if not drawing.exists():
        return str(image)
    edges = [0, *bands(drawing), 100]
    parts = []
    for top, bottom in zip(edges, edges[1:]):
        part = BeautifulSoup(str(image), "html.parser").img
        part["style"] = f"clip-path: inset({top}% 0 {100 - bottom}% 0)"
        if image.get("width"):
            part["style"] += f"; --ratio: {int(image['width']) / int(image['height']):.4f}"
        if top:
            part["class"], part["aria-hidden"] = "fragment", "true"
        parts.append(str(part))
    return f'<div class="grow">{"".join(parts)}</div>'


def shown_table(table):
    """A table, and where it is too long several with the same head."""
    *head, body = table(["thead", "tbody"], recursive=False)
    head, rows, total = "".join(map(str, head)), [], 0
    for row in body("tr"):
        lengths = [len(cell.get_text()) for cell in row(["td", "th"])]
        height = ROW * -(-max(1, *lengths) * len(lengths) // 110)
        rows.append((str(row), height, total + height / 2))
        total += height
    parts = -(-total // TIGHT)
    for part in range(parts):
        here = [row for row in rows if int(row[2] * parts / total) == part]
        text = "".join(row for row, *_ in here)
        markup = f'<div class="table"><table>{head}<tbody>{text}</tbody></table></div>'
        yield markup, ROW + sum(height for _, height, _ in here)


def imports_only(cell):
    """Whether a cell imports and sets up, and computes nothing that a slide could show."""
    try:
        body = ast.parse(plain(cell.select_one(".cell_input pre")["data-html"])).body
    except (TypeError, SyntaxError):
        return False

    def setting(node):
        return isinstance(node, ast.Expr) and not cell.select(".cell_output img")

    return isinstance(body[0], ast.Import | ast.ImportFrom) and all(
        isinstance(node, ast.Import | ast.ImportFrom) or setting(node) for node in body
    )


def shown(element):
    """What an element of a page puts on slides: HTML with its height; None for prose."""
    classes, text = element.get("class", []), element.get_text()
    if "cell" in classes:
        hidden = "tag_hide-cell" in classes or imports_only(element)
        outputs = map(shown_output, element.select(".cell_output > *"))
        return [] if hidden else [*shown_code(element), *sum(outputs, [])]
    if element.get("data-figure"):
        return [(f'<div class="picture">{element.img}</div>', PICTURE)]
    if "math" in classes:
        return [(str(element), 70 * max(1, len(element("mtr"))) + 20)]
    if "admonition" in classes:
        return [(str(element), PROSE * (2 + len(text) // 85))]
    if table := element.find("table"):
        return [*shown_table(table)]
    if element.name == "p" and (image := element.find("img")):
        return [(f'<div class="picture">{growing(image)}</div>', PICTURE)]
    if element.name in ("ul", "ol"):
        return [(str(element), sum(PROSE * (1 + len(li.get_text()) // 85) for li in element("li")))]
    if pre := element.find("pre"):
        return [block(sum(map(folded, lines_of(pre)), []), "code")]
    return None if element.name == "p" and not {"exported", "terms"} & set(classes) else []


# ---------------------------------------------------------------- slides


@dataclass
class Slide:
    heading: str
    parts: list = field(default_factory=list)  # what is shown: (HTML, height)
    lead: list = field(default_factory=list)  # sentences above it
    after: list = field(default_factory=list)  # sentences below it
    notes: list = field(default_factory=list)  # paragraphs, each a list of sentences
    style: str = ""

    def html(self):
        said = {name: " ".join(getattr(self, name)) for name in ("lead", "after")}
        lead, after = (
            f'<p class="{name}">{text}</p>' if text else "" for name, text in said.items()
        )
        shown = "".join(part for part, _ in self.parts)
        notes = "".join(f"<div>{' '.join(paragraph)}</div>" for paragraph in self.notes)
        notes = re.sub("</?a[^>]*>", "", notes)  # the speaker's window has no address
        notes = f'<aside class="notes">{notes}</aside>' if notes else ""
        shown = f'<div class="stage">{shown}</div>' if "<" in shown else ""
        slide = f"<h2>{self.heading}</h2>{lead}{shown}{after}"
        return f'<section><div class="slide {self.style}">{slide}</div>{notes}</section>\n'


def points(heading, prose):
    """A slide of prose alone: the first sentence of each paragraph, or those of the only one."""
    firsts = [paragraph[0] for paragraph in prose]
    if len(prose) == 1:
        firsts = prose[0] if len(prose[0]) <= 5 else [*prose[0][:4], prose[0][-1]]
    items = "".join(f"<li>{sentence}</li>" for sentence in firsts)
    return Slide(heading, [(f'<ul class="points">{items}</ul>', 0)], notes=prose)


LEANING = re.compile(  # the beginning of a sentence that needs the one before it
    r"\W*(It|Its|They|This|That|These|Those|Then|So|But|And|Both"
    r"|(In|Under|With|Without) (it|this))\b"
)


def lead_of(prose, fresh=True):
    """The sentences that say what is shown: the last with what it leans on; if fresh, the first."""
    said = [sentence for paragraph in prose for sentence in paragraph]
    at = len(said) - 1
    while at > 0 and LEANING.match(plain(said[at])) and words(*said[at - 1 :]) <= 45:
        at -= 1
    if fresh and at > 0 and words(said[0], *said[at:]) <= 45:
        return [said[0], *said[at:]]
    return said[at:]


def pack(heading, shown):
    """What is shown on as many slides as it needs; a cell stays with its output where it can."""
    slides = [Slide(heading)]
    for parts in shown:
        whole = sum(height for _, height in parts) <= TIGHT
        for unit in [parts] if whole else [[part] for part in parts]:
            if slides[-1].parts and sum(h for _, h in [*slides[-1].parts, *unit]) > ROOM:
                slides.append(Slide(heading))
            slides[-1].parts += unit
    return slides


def steps_of(elements):
    """Prose (paragraphs of sentences) and what is shown after it, again and again."""
    steps = [([], [])]
    for element in elements:
        parts = shown(element)
        if parts:
            steps[-1][1].append(parts)
        elif parts is None:
            if steps[-1][1]:
                steps.append(([], []))
            steps[-1][0].append(sentences(element))
    return steps


def comment(slide, prose, last):
    """Give a slide the sentence that speaks of what it shows; returns the prose that is left."""
    first, *rest = prose
    alone = not rest and not last  # the rest of it speaks of what comes next
    opens = first[0].endswith("?") or first[0].startswith("Now ")
    if opens or alone and len(first) == 1 and first[0].endswith(":"):
        return prose
    slide.after = first[: 1 if alone or words(*first[:2]) > 30 else 2]
    slide.notes = [*slide.notes, first]
    return [first[1:]] if alone and first[1:] else rest


def cut(heading, elements):
    """The slides of one section."""
    slides = []
    for prose, parts in steps_of(elements):
        whole = prose
        if slides and prose:
            prose = comment(slides[-1], prose, last=not parts)
        long = words(*sum(prose, [])) > (90 if parts else 50)
        if prose and (not slides or long) and (not parts or len(prose) > 1 and long):
            slides.append(points(heading, prose[:-1] if parts else prose))
            prose = prose[-1:] if parts else []
        if parts:
            new = pack(heading, parts)
            fresh = bool(prose) and prose[-1] is whole[-1]
            new[0].lead, new[0].notes = lead_of(prose, fresh) if prose else [], list(prose)
            slides += new
        elif prose:
            slides[-1].notes += prose
    return slides


EXERCISE = re.compile(r"\d\d\.\d")


def exercises(elements):
    """A slide for each exercise; the answer to a prediction is in its notes."""
    slides = []
    for element in elements:
        if element.name == "details":
            element.summary.extract()
            slides[-1].notes = [[element.decode_contents()]]
            continue
        strong = element.find("strong")
        if strong and EXERCISE.match(strong.get_text()):
            heading = strong.extract().decode_contents().rstrip(".")
            slides.append(Slide(heading, style="exercise"))
        if slides:
            slides[-1].parts.append((str(element), 0))
    return slides


def section_slides(section):
    """The slides of a section and of those in it."""
    heading, *elements = section.find_all(HEADING_OR_CONTENT, recursive=False)
    if section["id"] == "references":
        return []
    if section["id"] == "exercises":
        return exercises(elements)
    slides = cut(heading.decode_contents(), elements)
    if section["id"] == "recap":
        slides[-1].style = "recap"
    return slides + sum(map(section_slides, section("section", recursive=False)), [])


def introduction(lesson):
    """What stands before the first cell, without the paragraph that speaks of that cell."""
    elements = []
    for element in lesson.find_all(HEADING_OR_CONTENT, recursive=False):
        if "cell" in element.get("class", []):
            break
        elements.append(element)
    return elements[:-1] if len(elements) > 1 and elements[-1].name == "p" else elements


def keep(match):
    """Highlighted text as one attribute: it is most of a page and need not be parsed."""
    return f'<pre data-html="{html.escape(match[1])}"></pre>'


def parse(page, body):
    """The rendered HTML of a page, with links that hold one folder below, and no tools."""
    body = re.sub(r"<pre>(.*?)</pre>", keep, body, flags=re.S)
    soup = BeautifulSoup(body, "html.parser")
    for box in soup.select(".row, .row > .words, .row > .shown, .row > .after"):
        box.unwrap()
    for live in soup.select(".live"):
        asks = live.find_previous_siblings("p", limit=2)  # what to type, perhaps below the map
        next(p for p in asks if "lesson-map" not in p.get("class", [])).extract()
    for link in soup.select("[href^='slides/']"):
        link.previous_sibling.extract()  # the dot before it
        link.extract()
    for unseen in soup.select(".headerlink, .live, .run-it, style, noscript"):
        unseen.extract()
    for node in soup.select("[href], [src]"):
        for name in {"href", "src"} & set(node.attrs):
            to = f"{page}.html{node[name]}" if node[name].startswith("#") else node[name]
            node[name] = to if re.match(r"[a-z]+:", to) else f"../{to}"
    return soup


def deck(page, body):
    """The slides of the lesson at `page` as HTML, from the body of its page."""
    soup = parse(page, body)
    lesson = soup.find("section")
    title, about = lesson.h1.extract(), lesson.blockquote.extract()
    place = lesson.find(class_="lesson-map", recursive=False)
    place = f'<div class="picture">{place.extract().img}</div>' if place else ""
    minutes = lesson.find("p", recursive=False).extract()
    first = TITLE.format(
        page=page,
        title=title.decode_contents(),
        subtitle=about.p.decode_contents(),
        minutes=minutes.decode_contents(),
        place=place,
    )
    heading = title.decode_contents().partition(" \u00b7 ")[2]
    slides = cut(heading, introduction(lesson))
    slides += sum(map(section_slides, lesson("section", recursive=False)), [])
    shown = first + "".join(slide.html() for slide in slides)
    shown = re.sub(
        r'<pre data-html="(.*?)"></pre>', lambda m: f"<pre>{html.unescape(m[1])}</pre>", shown
    )
    return DECK.format(title=html.escape(title.get_text()), slides=shown)


HEADING_OR_CONTENT = re.compile("^(h[2-6]|p|div|ul|ol|details|figure|table|pre|blockquote)$")
TITLE = """<section><div class="slide title"><h1>{title}</h1><p class="subtitle">{subtitle}</p>
<p class="minutes">{minutes}</p>
<p class="hint"><a href="../{page}.html">The lesson</a><span class="keys"> \u00b7
<kbd>\u2192</kbd> next \u00b7 <kbd>S</kbd> speaker\u2019s notes \u00b7
<kbd>Esc</kbd> overview</span></p>{place}</div></section>
"""
DECK = """<!doctype html>
<html lang="en" data-theme="light">
<head>
<meta charset="utf-8">
<title>{title}: slides</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="../_static/favicon.svg">
<link rel="stylesheet" href="../_static/reveal/reveal.css">
<link rel="stylesheet" href="../_static/base.css">
<link rel="stylesheet" href="../_static/slides.css">
<script src="../_static/slides.js"></script>
<script defer src="../_static/reveal/reveal.js"></script>
<script defer src="../_static/reveal/notes.js"></script>
</head>
<body>
<main><div class="reveal"><div class="slides">
{slides}</div></div></main>
</body>
</html>
"""

# ---------------------------------------------------------------- Sphinx


def write_deck(app, page, template, context, doctree):
    """html-page-context: write the deck of a lesson beside its page."""
    if doctree and LESSON.match(page):
        path = Path(app.outdir) / "slides" / f"{page}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(deck(page, context["body"]), encoding="utf-8")


def link_deck(app, doctree):
    """doctree-read: lead from the line with a lesson's minutes to its slides."""
    if not LESSON.match(app.env.docname):
        return
    paragraphs = doctree.findall(nodes.paragraph)
    minutes = next(
        p for p in paragraphs if isinstance(p.parent, nodes.section) and not p["classes"]
    )
    link = nodes.reference("", "Slides", refuri=f"slides/{app.env.docname}.html", internal=True)
    minutes.extend([nodes.Text(" \u00b7 "), link])


def write_reveal(app):
    """builder-inited: put reveal.js, its licence and the speaker's view beside the site's files."""
    if app.builder.format != "html":
        return
    package = distribution("sphinx-revealjs").locate_file("sphinx_revealjs/_static/revealjs")
    target = Path(app.outdir) / "_static" / "reveal"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("LICENSE", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js"):
        shutil.copyfile(Path(package) / name, target / Path(name).name)


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_reveal)
    app.connect("doctree-read", link_deck)
    app.connect("html-page-context", write_deck, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
