"""The look of the site: a line of stations, words beside what they speak of, and three colours.

The path is a line across the top of every page. On a page made from a notebook, words stand on the
left and what they speak of (code, outputs, drawings, notes) on the right, in rows. Queries, keys
and values have their colour in prose and in code as they have it in formulas and in drawings.
"""

import html
import os
import re
from base64 import b64encode
from itertools import takewhile
from math import ceil
from pathlib import Path

from docutils import nodes
from nbdev_myst import NBS

# ---------------------------------------------------------------- the line

STATION = re.compile(r"(\d\d|Milestone|Project) · (.*)")
SHORT = {"Milestone": "M", "Project": "P"}  # on the line
TOUR = "00_tour"  # its title has 00 before it, as that of PyTorch in half an hour


def stations(app, page):
    """The stations of the path, each with its number, its name, its address and where it lies."""
    titles = app.env.titles
    stops = sorted((name for name in app.env.found_docs if "/" not in name), key=order_of)
    near = station_of(page, stops)
    for name in stops:
        if title := STATION.match(titles[name].astext()):
            yield {
                "number": short(name, title[1]),
                "name": title[2],
                "page": f"{name}.html",
                "link": app.builder.get_relative_uri(page, name) or "#",
                "place": "here" if name == page else "near" if name == near else "",
            }


def short(page, number):
    """What a station's circle says; a letter for the tour, which is no lesson."""
    return "T" if page == TOUR else SHORT.get(number, number)


def station_of(page, stops):
    """The station whose answers a page has, or behind whose door it lies; else nothing."""
    folder, _, name = page.rpartition("/")
    if folder == "solutions" and name in stops:
        return name
    number = re.match(r"\d\d_", name) if folder in SITES else None
    return next((stop for stop in stops if number and stop.startswith(number[0])), "")


def order_of(page):
    """The place of a page on the path."""
    import order

    return order.STEPS.index(page) if page in order.STEPS else len(order.STEPS)


def draw_line(app, page, template, context, doctree):
    """html-page-context: what the layout shows around a page."""
    context["stations"] = list(stations(app, page))
    context["notebook"] = bool(context.get("sourcename", "").endswith(".ipynb"))


# ---------------------------------------------------------------- rows

LETTERS, LINE = 60, 29  # of a line of words: how many, and how high in pixels
CODE, PICTURE, FOLD = 22, 400, 50  # a line of code or of an output, a picture, what is folded
SCREEN = 560  # what is lower may stay in view while its row goes by
HOLE = 330  # what may be left empty of a column
VOID = 290  # and below the words under a heading
FAR = 450  # from the words to the picture that they lead to
PARTS = 4  # things shown in a row that is parted (course.css)
COMMENTS = 3  # paragraphs that follow what is shown may stand beside it
LONG = 30  # lines of code beside which words look lost
BROAD = 200  # letters of a row of data
TALL = 250  # pixels of an output that a comment stands beside from its top
WIDTH, NATURAL = 608, 485  # pixels: as wide as a drawing is shown, and as wide as it was drawn


def classes_of(node):
    """The classes of a node; none of a text."""
    return {*node.get("classes", [])} if isinstance(node, nodes.Element) else set()


def is_drawing(node):
    """A paragraph that is one picture."""
    if not isinstance(node, nodes.paragraph):
        return False
    words = [text for text in node.findall(nodes.Text) if text.strip()]
    return not words and any(node.findall(nodes.image))


def kind_of(node):
    """Whether a node is words, is shown beside them, or ends a row."""
    classes = classes_of(node)
    if isinstance(node, nodes.title | nodes.section | nodes.transition) or "lesson-map" in classes:
        return "end"
    if {"cell", "exported", "caption"} & classes or is_drawing(node):
        return "shown"
    if isinstance(node, nodes.table | nodes.figure | nodes.literal_block | nodes.note):
        return "shown"
    if isinstance(node, nodes.Admonition) and "note" in classes:
        return "shown"
    return "words"


def blocks(children):
    """Nodes that belong together: alone, or from an HTML tag that opens to the one that closes."""
    block, depth = [], 0
    for child in children:
        block.append(child)
        if isinstance(child, nodes.raw):
            text = child.astext()
            opened = len(re.findall(r"<(?:div|details|figure)\b", text))
            depth += opened - len(re.findall(r"</(?:div|details|figure)>", text))
        if depth <= 0:
            yield block
            block, depth = [], 0
    if block:
        yield block


def kind_of_block(block):
    """`kind_of` a block; a figure that moves or a model at work takes both sides."""
    if len(block) == 1 and not isinstance(block[0], nodes.raw):
        return kind_of(block[0])
    opening = block[0].astext()
    if 'class="check-here' in opening:  # belongs to the cell above it
        return "shown"
    both = r'class="(?:live|figure|home-map|check-file|train-here)\b'
    return "end" if re.search(both, opening) else "words"


def drawn(image):
    """How high a drawing is when it is as wide as it was drawn, in pixels."""
    path = NBS / image["uri"]
    head = path.read_text(encoding="utf-8")[:500] if path.suffix == ".svg" and path.exists() else ""
    said = re.search(r'<svg[^>]* height="(\d+)"', head)
    return int(said[1]) if said else PICTURE


def is_tall(image):
    """Whether a drawing would fill the screen: then it is shown as it was drawn, no wider."""
    return drawn(image) * WIDTH / NATURAL > SCREEN


def height(block):
    """About how high some nodes are, in pixels."""
    total = 0
    for node in block:
        text = "" if is_drawing(node) else node.astext()
        if "tag_hide-input" in classes_of(node) or "tag_hide-cell" in classes_of(node):
            total += FOLD + PICTURE * any(node.findall(nodes.image))
        elif kind_of(node) == "shown" or isinstance(node, nodes.literal_block):
            lines = text.count("\n") + 1 + sum(len(line) > 90 for line in text.splitlines())
            pictures = sum(map(drawn, node.findall(nodes.image)))
            total += pictures + CODE * lines * (not is_drawing(node)) + 30
        elif isinstance(node, nodes.math_block):
            total += 90
        elif not isinstance(node, nodes.raw):
            total += LINE * ceil(len(text) / LETTERS) + 18
    return total


def heights(some):
    """About how high some blocks are."""
    return sum(map(height, some))


def container(name, some):
    """Blocks in a box of this name."""
    children = [node for block in some for node in block]
    return nodes.container("", *children, classes=[name])


def pieces(shown):
    """What is shown, in pieces that stand whole in a column: the input of a cell, its outputs."""
    for node in (node for block in shown for node in block):
        folded = {"tag_hide-input", "tag_hide-cell"} & classes_of(node)
        yield from node.children if "cell" in classes_of(node) and not folded else [node]


def is_long(piece):
    """Whether a piece is long code."""
    return "cell_input" in classes_of(piece) and piece.astext().count("\n") >= LONG


def is_broad(piece):
    """Whether a piece is a table of data with long lines, which needs the width of the page."""
    if "cell_output" not in classes_of(piece):
        return False
    tables = [raw.astext() for raw in piece.findall(nodes.raw) if "<table" in raw.astext()]
    rows_of = [re.sub("<[^>]*>", "", row) for table in tables for row in table.split("<tr")]
    return max(map(len, rows_of), default=0) > BROAD


def ends_tall(shown):
    """Whether what is shown ends with an output that a comment stands beside from its top."""
    output = last_output(shown)
    return output is not None and (is_picture(output) or height_of(output) > TALL)


def last_output(shown):
    """The output, or the drawing, with which something that is shown ends, if any."""
    last = shown[-1][-1] if shown else None
    if is_drawing(last):
        return last
    output = last.children[-1] if "cell" in classes_of(last) else None
    return output if "cell_output" in classes_of(output) else None


def is_picture(output):
    """Whether an output is a picture or a chart."""
    return any(output.findall(nodes.image)) or 'class="vega-chart"' in output.astext()


def fills(words, shown):
    """Whether what is shown had better be as wide as the page: its words would leave a hole."""
    some = list(pieces(shown))
    if any(isinstance(piece, nodes.raw) for piece in some):  # an exercise grows with what is typed
        return False
    sizes = {piece: height_of(piece) for piece in some}
    whole = max((size for piece, size in sizes.items() if not is_long(piece)), default=0)
    hole = sum(sizes.values()) - heights(words)
    return hole > HOLE and max(2 * whole - sum(sizes.values()), 0) + HOLE / 2 < hole


def height_of(piece):
    """About how high a piece is, in pixels."""
    if {"cell_input", "cell_output"} & classes_of(piece):
        lines = piece.astext().splitlines()
        pictures = PICTURE * any("image" in classes_of(node) for node in piece.findall(nodes.image))
        return CODE * (len(lines) + sum(len(line) > 78 for line in lines)) + pictures + 30
    return height([piece])


def row(words, shown, after, headed=False):
    """One row: words, what they speak of, and words that follow it; `headed` by a heading."""
    left, right = heights(words + after), heights(shown)
    parts = [container("words", words)] if words else []
    parts += [container("shown", shown)] if shown else []
    parts += [container("after", after)] if after else []
    nodes_of_words = [node for block in words for node in block]
    if not shown and left > HOLE and not any(isinstance(n, nodes.raw) for n in nodes_of_words):
        return nodes.container("", *parts, classes=["row", "alone", "wide"])
    output = last_output(shown) if after else None
    if output is None or not is_picture(output):
        flows = shown and fills(words + after, shown)
        broad = any(map(is_broad, pieces(shown))) or headed and leaves_void(words, shown, after)
        if flows or broad:
            return both(parts, words, after)
    if output is not None and ends_tall(shown):
        return nodes.container("", *parts, classes=["row", *beside(words, shown, headed)])
    for part, own, other in zip(parts, (left, right) if words else (right,), (right, left)):
        if not after and own + 60 < other and own < SCREEN:
            part["classes"].append("stays")
    return nodes.container("", *parts, classes=["row"] + ([] if shown else ["alone"]))


def both(parts, words, after):
    """A row whose words stand above what is as wide as both columns."""
    for part in parts:
        about = words if part["classes"] == ["words"] else after
        if part["classes"] != ["shown"] and len(about) > 1 and heights(about) > HOLE / 2:
            part["classes"].append("wide")
    return nodes.container("", *parts, classes=["row", "both"])


def leaves_void(words, shown, after):
    """Whether a heading would stand over an empty third of a screen."""
    if any(isinstance(piece, nodes.raw) for piece in pieces(shown)):  # an exercise
        return False
    return heights(shown) - heights(words + after) > VOID


def beside(words, shown, headed):
    """How a comment stands beside a picture: from its top where the words above leave room."""
    count, cell = sum(map(len, shown)), shown[-1][-1]
    whole = "cell" in classes_of(cell)
    above = heights(shown) - height([cell]) + (input_height(cell) if whole else 0) - heights(words)
    before = count if whole else count - 1  # what stands above the picture: its code, too
    if whole and len(cell.children) < 2 or not 1 <= before <= PARTS or above < -60:
        return ["tall"]
    over = above > (VOID if headed else FAR)
    return ["tall", "parted", f"parted-{before}"] + ["over"] * over


def input_height(cell):
    """About how high the code of a cell is; folded, its summary alone."""
    return FOLD if "tag_hide-input" in classes_of(cell) else height_of(cell.children[0])


def follows(words, shown, rest):
    """How many of the words after something shown belong to it: comments stand beside it.

    The last words before something else that is shown speak of that, and stay with it."""
    comments = list(takewhile(lambda unit: unit[0] == "words" and len(unit[1]) == 1, rest))
    if comments and len(comments) < len(rest) and rest[len(comments)][0] == "shown" and words:
        comments.pop()
    room, count = heights(shown) - heights(words) - 60, 0
    for _, comment in comments:
        room -= height(comment)
        speaks = isinstance(comment[0], nodes.paragraph) and not comment[0].astext().endswith(":")
        if not speaks or room < 0 or count == COMMENTS:
            break
        count += 1
    return count


def rows(children):
    """Nodes of a section in rows, in the order in which they are read."""
    made, units = [], [(kind_of_block(block), block) for block in blocks(children)]
    while units:
        words, shown = [], []
        while units and units[0][0] == "words":
            words.append(units.pop(0)[1])
        while units and units[0][0] == "shown":
            shown.append(units.pop(0)[1])
        if shown:
            alone = []
            while len(words) > 1 and heights(words) > 1.3 * heights(shown) + 60:
                alone.append(words.pop(0))
            made += [row(alone, [], [])] if alone else []
            count = follows(words, shown, units)
            after = [units.pop(0)[1] for _ in range(count)]
            headed = bool(made) and isinstance(made[-1], nodes.title)
            made.append(row(words, shown, after, headed))
        elif words:
            made.append(row(words, [], []))
        if units and units[0][0] == "end":
            made += units.pop(0)[1]
    return made


def in_rows(page, env):
    """Whether a page shows words beside code: those made from notebooks, without the first one."""
    return os.fspath(env.doc2path(page)).endswith(".ipynb") and page != env.config.root_doc


def set_rows(app, doctree, page):
    """doctree-resolved: each section in rows."""
    if not in_rows(page, app.env):
        return
    for drawing in filter(is_drawing, doctree.findall(nodes.paragraph)):
        for image in filter(is_tall, drawing.findall(nodes.image)):
            image["classes"].append("tall")
    for section in list(doctree.findall(nodes.section)):
        children = list(section.children)
        section.children = []
        section += rows(children)


# ---------------------------------------------------------------- queries, keys and values

ROLES = {"q": "q", "k": "k", "v": "v", "w_q": "q", "w_k": "k", "w_v": "v"}
ROLES |= {"W_q": "q", "W_k": "k", "W_v": "v", "query": "q", "key": "k", "value": "v"}
ROLES |= {"queries": "q", "keys": "k", "values": "v"}
TOKEN = re.compile(r'<span class="n">(\w+)</span>')
CELL = re.compile(r"<pre>.*?</pre>", re.S)


def mark_words(app, doctree, page):
    """doctree-resolved: `q`, *query* and their like as chips, where queries are spoken of."""
    found = {}
    for node in doctree.findall(
        lambda node: isinstance(node, nodes.literal | nodes.emphasis | nodes.strong)
    ):
        role = ROLES.get(node.astext())
        if role and not isinstance(node.parent, nodes.title):
            found.setdefault(role, []).append(node)
    if "q" not in found or len(found) < 2:  # a key of a dictionary, the value of a number
        return
    for role, some in found.items():
        for node in some:
            node["classes"] += ["chip", f"is-{role}"]


def mark_code(markup):
    """Highlighted code in which names of queries, keys and values have their class."""

    def cell(match):
        names = {ROLES.get(name) for name in TOKEN.findall(match[0])}
        if not {"q", "k"} <= names:  # a k of top-k, a pair of key and value
            return match[0]
        return TOKEN.sub(token, match[0])

    def token(match):
        role = ROLES.get(match[1])
        return f'<span class="n is-{role}">{match[1]}</span>' if role else match[0]

    return CELL.sub(cell, markup)


INPUT = re.compile(r'(<div class="cell_input.*?<pre>)(.*?)(</pre>)', re.S)
EMPTY = re.compile(r"^<span></span>")


def hang_code(app, page, template, context, doctree):
    """html-page-context, after the slides are cut: a box for each line, so that its rest hangs."""

    def line(markup):
        text = html.unescape(re.sub("<[^>]+>", "", markup))
        depth = len(text) - len(text.lstrip(" "))
        how = f' style="--in: {depth}"' if depth and text.strip() else ""
        return f'<span class="line"{how}>{markup}</span>' if text else markup

    def cell(match):  # Pygments ends its marks with each line
        lines = EMPTY.sub("", match[2]).split("\n")
        return match[1] + "\n".join(map(line, lines)) + match[3]

    if context.get("body"):
        context["body"] = INPUT.sub(cell, context["body"])


def colour_code(app, page, template, context, doctree):
    """html-page-context, before the slides are cut: the colours of code."""
    if context.get("body"):
        body = context["body"].replace(' aria-label="Toggle hidden content"', "")
        context["body"] = mark_code(body)


# ---------------------------------------------------------------- the title

MAP = re.compile(r'<p class="lesson-map">.*?</p>\n?', re.S)
NUMBER = re.compile(r"<h1>(?:(\d\d|Build [A-Z]) · )?")
SITES = {"deeper": "Deep dive", "solutions": "Answers"}


def split_title(app, page, template, context, doctree):
    """html-page-context, after the slides are cut: a lesson's number above its name.

    The slides keep the map of the whole Transformer; as narrow as a column it can't be read."""
    folder, _, name = page.rpartition("/")
    lesson = re.match(r"\d\d(?=_)", name)

    def number(match):
        said = match[1] or (lesson[0] if lesson and folder in SITES else "")
        if page == TOUR:
            return '<h1><span class="number">Before the lessons<span> · </span></span>'
        if not said:
            return match[0]
        word = "" if said.startswith("Build") else SITES.get(folder, "Lesson") + " "
        return f'<h1><span class="number">{word}{said}<span> · </span></span>'

    if context.get("body"):
        context["body"] = NUMBER.sub(number, MAP.sub("", context["body"]), count=1)


# ---------------------------------------------------------------- faces

AT_ONCE = """source-serif-4-400 source-serif-4-600 source-serif-4-400-italic
jetbrains-mono""".split()


def inline_faces(app, exception):
    """build-finished: the faces of words within the style: a first line never breaks anew."""
    path = Path(app.outdir) / "_static" / "base.css"
    if exception or not path.exists():
        return
    css = with_faces(path.read_text(encoding="utf-8"), path.with_name("fonts"))
    path.write_text(css, encoding="utf-8")


def with_faces(css, folder):
    """A style with the faces of words within it, from the folder of fonts."""
    for name in AT_ONCE:
        data = b64encode((folder / f"{name}.woff2").read_bytes()).decode()
        css = css.replace(f"fonts/{name}.woff2", f"data:font/woff2;base64,{data}")
    faces = css.split("@font-face")
    faces = [face.replace(": swap", ": block") if "data:" in face else face for face in faces]
    return "@font-face".join(faces)


def setup(app):
    """Register with Sphinx."""
    app.connect("build-finished", inline_faces)
    app.connect("doctree-resolved", mark_words)
    app.connect("doctree-resolved", set_rows, priority=900)
    app.connect("html-page-context", colour_code, priority=400)
    app.connect("html-page-context", draw_line, priority=400)
    app.connect("html-page-context", hang_code, priority=960)
    app.connect("html-page-context", split_title, priority=960)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
