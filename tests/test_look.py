"""The look of the site: formulas, rows of words and code, three colours, and the line."""

import re
import sys
from pathlib import Path
from xml.dom import minidom

import pytest

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "docs" / "_static"
SITE = ROOT / "_site"
pytest.importorskip("sphinx", reason="the site's requirements are not installed")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_look as look
import course_math
from course_tools import tool
from docutils import nodes
from docutils.core import publish_doctree
from sphinx.errors import ExtensionError

built = pytest.mark.skipif(not (SITE / "index.html").exists(), reason="run `make site` first")

# ---------------------------------------------------------------- formulas

FORMULAS = {
    r"\frac12": "<mfrac><mn>1</mn><mn>2</mn></mfrac>",
    r"x_i^2": "<msubsup><mi>x</mi><mi>i</mi><mn>2</mn></msubsup>",
    r"x'": "<msup><mi>x</mi><mo>′</mo></msup>",
    r"d_k": "<msub><mi>d</mi><mi>k</mi></msub>",
    r"W_q": '<msub class="is-q"><mi>W</mi><mi class="is-q">q</mi></msub>',
    r"k_j": '<msub class="is-k"><mi class="is-k">k</mi><mi>j</mi></msub>',
    r"\sqrt{3}": "<msqrt><mn>3</mn></msqrt>",
    r"10{,}000": "<mn>10,000</mn>",
    r"\text{a b}": "<mtext>a\u00a0b</mtext>",
    r"a \le b": "<mi>a</mi><mo>≤</mo><mi>b</mi>",
    r"\mathrm{head}": "<mi>head</mi>",
    r"\lceil x \rceil": '<mo stretchy="false">⌈</mo><mi>x</mi><mo stretchy="false">⌉</mo>',
    r"a\sin t": f"<mi>a</mi>{course_math.THIN}<mi>sin</mi>{course_math.THIN}<mi>t</mi>",
}


@pytest.mark.parametrize("tex, expected", FORMULAS.items())
def test_tex_becomes_mathml(tex, expected):
    assert course_math.mathml(tex) == f"<math>{expected}</math>"


def test_a_display_has_its_limits_above_and_below():
    assert "<munderover>" in course_math.mathml(r"\sum_{i=0}^n i", display=True)
    assert "<msubsup>" in course_math.mathml(r"\sum_{i=0}^n i")


@pytest.mark.parametrize("tex", [r"\nonsense", r"\frac{1}", "{x", r"\begin{tabular}"])
def test_what_is_unknown_or_open_is_named(tex):
    with pytest.raises(ExtensionError, match="in the formula"):
        course_math.mathml(tex)


def test_a_k_that_is_no_key_has_no_colour():
    formula = course_math.mathml(r"\sum_k p_k F(k)")
    assert "is-k" in formula and "is-" not in course_math.colour(formula, "08_training")
    attention = course_math.mathml(r"q \cdot k")
    assert course_math.colour(attention, "08_training") == attention
    key = course_math.mathml("k")
    assert course_math.colour(key, "02_attention") == key


@built
def test_every_formula_is_well_formed_and_no_tex_is_left():
    count = 0
    for path in SITE.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for formula in re.findall(r"<math.*?</math>", text, re.S):
            minidom.parseString(formula)
            count += 1
        assert "\\(" not in text and "\\[" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.S)
    assert count > 1000


# ---------------------------------------------------------------- rows


def shapes(*blocks):
    """The rows that some blocks become: for each the names of its boxes with how many nodes."""
    made = look.rows(list(blocks))
    name = lambda part: part["classes"][0]
    return [
        [f"{name(part)} {len(part)}" for part in node] if "row" in look.classes_of(node) else "-"
        for node in made
    ]


def words(length=100):
    return nodes.paragraph("", nodes.Text("w" * length))


def cell(lines=5):
    return nodes.container("", nodes.literal_block("", "\n".join("x" * lines)), classes=["cell"])


def test_words_stand_beside_the_cells_that_follow_them():
    assert shapes(words(), cell(), words(), cell(), cell()) == [["words 1", "shown 1"]] + [
        ["words 1", "shown 2"]
    ]
    assert shapes(words()) == [["words 1"]] and shapes(cell()) == [["shown 1"]]


def test_a_comment_stands_beside_a_long_output_and_long_words_begin_alone():
    comment, leads = words(), nodes.paragraph("", nodes.Text("Now y:"))
    assert shapes(words(), cell(40), comment, leads, cell()) == [
        ["words 1", "shown 1", "after 1"],
        ["words 1", "shown 1"],
    ]
    assert shapes(words(), cell(40), leads, cell())[0] == ["words 1", "shown 1"]
    assert shapes(words(2000), words(), cell(2)) == [["words 1"], ["words 1", "shown 1"]]


def test_what_an_html_tag_opens_stays_together():
    fold = [nodes.raw("", '<details class="answer">'), words(), nodes.raw("", "</details>")]
    assert shapes(words(), *fold, cell()) == [["words 4", "shown 1"]]
    button = nodes.raw("", '<div class="check-here"></div>')
    assert shapes(words(), cell(), button) == [["words 1", "shown 2"]]
    figure = [
        nodes.raw("", '<div class="figure" data-figure="x">'),
        words(),
        nodes.raw("", "</div>"),
    ]
    assert shapes(words(), *figure, cell()) == [["words 1"], "-", "-", "-", ["shown 1"]]


def test_no_node_is_lost_or_moved():
    tree = [words(n * 40) for n in range(1, 30)]
    blocks = [
        node for n, text in enumerate(tree) for node in ([text, cell(n)] if n % 3 else [text])
    ]
    made = nodes.section("", *look.rows(list(blocks)))
    kept = [
        node
        for node in made.findall(
            lambda n: isinstance(n, nodes.paragraph) or "cell" in look.classes_of(n)
        )
    ]
    assert kept == blocks


# ---------------------------------------------------------------- colours


def test_code_marks_queries_and_keys_and_no_other_k():
    span = lambda *names: "<pre>" + "".join(f'<span class="n">{n}</span>' for n in names) + "</pre>"
    assert look.mark_code(span("k", "v")) == span("k", "v")  # of a dictionary
    marked = look.mark_code(span("q", "k", "w_v", "x"))
    assert re.findall(r'class="([^"]+)"', marked) == ["n is-q", "n is-k", "n is-v", "n"]


def test_each_line_of_code_is_a_box_that_knows_how_deep_it_begins():
    pre = '<span></span><span class="k">if</span> x:\n\n    <span class="n">y</span>\n'
    cell = f'<div class="cell_input docutils"><div class="highlight"><pre>{pre}</pre></div></div>'
    other = '<div class="highlight"><pre>  a\n</pre></div>'
    context = {"body": other + cell + other}
    look.hang_code(None, "", "", context, None)
    assert context["body"].count(other) == 2
    lines = re.findall(r'<span class="line"(.*?)>(.*)</span>', context["body"])
    assert [how for how, _ in lines] == ["", ' style="--in: 4"']
    text = lambda markup: re.sub("<[^>]+>", "", markup)
    assert text(context["body"]) == text(other + cell + other)


def test_prose_marks_the_three_where_all_three_are_spoken_of():
    tree = publish_doctree("A *query*, a *key* and ``v``.")
    look.mark_words(None, tree, "02_attention")
    chips = [node["classes"] for node in tree.findall(nodes.Inline) if node["classes"]]
    assert chips == [["chip", "is-q"], ["chip", "is-k"], ["chip", "is-v"]]
    tree = publish_doctree("A *key*.")
    look.mark_words(None, tree, "02_attention")
    assert not [node for node in tree.findall(nodes.Inline) if node["classes"]]


def variables(theme):
    """The variables of a theme in base.css."""
    css = (STATIC / "base.css").read_text(encoding="utf-8")
    start = {"light": ":root {", "dark": 'html[data-theme="dark"] {'}[theme]
    block = css.partition(start)[2].partition("}")[0]
    return dict(re.findall(r"--([\w-]+): (#\w{6})", block))


def luminance(colour):
    """The relative luminance of WCAG."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    """The contrast of WCAG."""
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_can_be_read_by_day_and_by_night(theme):
    colours = variables(theme)
    grounds = [colours["paper"], colours["panel"]]
    for name in ("ink", "soft", "accent", "q-ink", "k-ink", "v-ink"):
        own = [colours[f"{name[0]}-soft"]] if name.endswith("-ink") else []
        for ground in grounds + own:
            assert contrast(colours[name], ground) >= 4.5, (name, ground)
    for name in "qkv":  # lines and areas
        assert contrast(colours[name], colours["paper"]) >= 3


def test_the_hues_are_those_of_the_drawings():
    from former_nb.base.core import COLORS

    colours = variables("light")
    assert [colours[name] for name in "qkv"] == [hue.lower() for hue in COLORS.values()]
    css = (STATIC / "base.css").read_text(encoding="utf-8")
    lines = re.findall(r"--role-line: (\w+)", css)
    assert len({*lines}) == 3  # a shape of its own, for those who do not see the hue


def test_lines_below_words_are_drawn_in_safari_too():
    """It takes no `text-decoration` with a colour, a style or a thickness, only longhands."""
    files = [p for kind in ("css", "js", "py", "html") for p in (ROOT / "docs").rglob(f"*.{kind}")]
    files += [*(ROOT / "former_nb").rglob("*.py"), *(ROOT / "nbs" / "images").glob("*.svg")]
    plain = {"none", "underline", "line-through", "overline", "inherit"}
    refused = [
        (path.name, value)
        for path in files
        if path.name != "codemirror.js"  # which adds lines of its own below no word
        for value in re.findall(
            r"text-decoration:\s*([^;}\n\"']+)", path.read_text(encoding="utf-8")
        )
        if value.replace("!important", "").strip() not in plain
    ]
    assert (STATIC / "course.css") in files and not refused


def test_faces_are_light_and_have_their_licences():
    fonts = sorted((STATIC / "fonts").glob("*.woff2"))
    text = [path for path in fonts if "math" not in path.name]
    assert sum(path.stat().st_size for path in text) < 120_000
    for family in {path.name.partition("-4")[0].removesuffix(".woff2") for path in fonts}:
        (licence,) = (STATIC / "fonts").glob(f"LICENSE-{family}*")
        assert "SIL Open Font License" in licence.read_text(encoding="utf-8")
    css = (STATIC / "base.css").read_text(encoding="utf-8")
    assert {f"fonts/{path.name}" for path in fonts} == set(re.findall(r'url\("([^"]+)"', css))


# ---------------------------------------------------------------- the line


@built
def test_every_page_shows_the_line_and_a_page_of_the_path_its_station():
    stops = [f"{page}.html" for page in tool("order").STEPS]
    for path in SITE.rglob("*.html"):
        page = path.relative_to(SITE).as_posix()
        text = path.read_text(encoding="utf-8")
        if 'class="path"' not in text:
            assert page.startswith("slides/") or "location.replace" in text or page == "404.html"
            continue
        line = text.partition('<nav class="path"')[2].partition("</nav>")[0]
        assert re.findall(r'data-page="([^"]+)"', line) == stops, page
        assert ('class="here"' in line) == (page in stops), page
        assert line.count('aria-current="page"') == (page in stops)


def test_a_plot_comes_when_it_is_near_and_code_has_marks_where_it_has_a_colour(tmp_path):
    import page_weight
    from PIL import Image

    class App:
        srcdir, outdir = tmp_path, tmp_path

        class builder:
            format = "html"
            images = {"plot.png": "plot.png"}

    (tmp_path / "_images").mkdir()
    plot = Image.new("RGBA", (40, 30), "white")
    plot.paste((0, 114, 178, 255), (5, 5, 20, 20))
    plot.save(tmp_path / "plot.png")
    plot.save(tmp_path / "_images" / "plot.png", compress_level=0)
    shaded = Image.effect_noise((200, 200), 80).convert("RGB")
    shaded = Image.merge(
        "RGB", (shaded.getchannel(0), *Image.effect_noise((200, 200), 90).split() * 2)
    )
    shaded.save(tmp_path / "_images" / "shaded.png")
    before = (tmp_path / "_images" / "shaded.png").read_bytes()
    page_weight.shrink_plots(App, None)
    assert (tmp_path / "_images" / "shaded.png").read_bytes() == before
    with Image.open(tmp_path / "_images" / "plot.png") as small:
        assert small.mode == "P" and small.convert("RGB").tobytes() == plot.convert("RGB").tobytes()
    body = '<img alt="A plot" src="_images/plot.png" /><pre><span class="k">def</span> '
    body += '<span class="n">f</span><span class="p">(</span><span class="n is-q">q</span></pre>'
    context = {"body": body}
    page_weight.lighten(App, "a", "", context, None)
    image = '<img width="40" height="30" loading="lazy" alt="A plot" src="_images/plot.png" />'
    code = '<pre><span class="k">def</span> f(<span class="n is-q">q</span></pre>'
    assert context["body"] == image + code
