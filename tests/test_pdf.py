"""The course on paper: what a printed page holds, how pages become one book, who offers it."""

from io import BytesIO
from pathlib import Path

import pytest
from browser_tools import BROWSER, DRIVER, start_browser, without_scripts
from course_tools import tool

pypdf = pytest.importorskip("pypdf")
pytest.importorskip("sphinx")  # the site, and yaml with it
pdf, order = tool("pdf"), tool("order")

ROOT = Path(__file__).resolve().parents[1]
STYLES = ["base.css", "course.css", "check.css", "figures/figures.css"]
STILL = (
    "<svg xmlns='http://www.w3.org/2000/svg' width='300' height='60'><text y='30'>{}</text></svg>"
)
HEAD = '<!doctype html><html><head><meta charset="utf-8"><title>{} · former_nb</title>{}</head>'
BODY = """<body><header class="bar"><button>Day or night</button></header>
<main><article class="page rows"><section id="x"><h1>{title}</h1>
<h2 id="first">First section</h2><p>Words of the page, and <a href="{to}#first">another page</a>,
<a href="#first">the first section</a>, <a href="elsewhere.html#y">elsewhere</a>,
<a href="https://example.org/a">far away</a>.</p>
<details><summary>Answer</summary><p>What is folded.</p></details>
<div class="figure" data-figure="one"><p><img alt="" src="{still}"></p></div>
<div class="cell_input"><div class="highlight"><pre>{code}</pre><button class="copy">Copy</button>
</div></div>
<div class="check-here" data-starter="def given(x):"></div>
<h2 id="second">Second section</h2><p>The end.</p></section></article></main>{script}</body></html>
"""
MOVES = """<script>
document.querySelector(".figure").classList.add("moves");
document.querySelector(".figure").insertAdjacentHTML("afterbegin",
  "<p class='figure-head'>What moves</p><div class='figure-body'><button>Press</button></div>");
document.querySelector(".check-here").innerHTML =
  "<textarea>Typed</textarea><button>Check</button>";
</script>"""
CODE = "long_name = " + " + ".join(f"number_{n}" for n in range(40))

printed = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium or chromedriver")


def write_page(folder, name, to, script=""):
    (folder / f"{name}.svg").write_text(STILL.format(f"Still of {name}"), encoding="utf-8")
    links = "".join(
        f'<link rel="stylesheet" href="{(ROOT / "docs/_static" / css).as_uri()}">' for css in STYLES
    )
    facts = dict(title=f"{name} · Page", to=f"{to}.html", still=f"{name}.svg", code=CODE)
    text = HEAD.format(f"{name} · Page", links) + BODY.format(**facts, script=script)
    path = folder / f"{name}.html"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    write_page(folder, "one", "two")
    write_page(folder, "two", "one")
    home = '<section id="the-path">\n<h2>The path</h2>\n<p>It is long.</p>\n<table></table>'
    (folder / "index.html").write_text(home, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def book(site):
    pdf.main(["--site", str(site), "one", "two"])
    return pypdf.PdfReader(site / pdf.NAME)


@printed
@pytest.mark.parametrize("scripts", [False, True], ids=["as the book", "by a reader"])
def test_a_printed_page_has_its_text_its_figure_and_no_button(tmp_path, scripts):
    page = write_page(tmp_path, "one", "two", MOVES)
    with start_browser(tmp_path / "profile") as browser:
        if scripts:
            _, data = pdf.print_page(browser, page)
        else:
            with without_scripts(browser):
                _, data = pdf.print_page(browser, page)
    (sheet,) = pypdf.PdfReader(BytesIO(data)).pages
    text = " ".join(sheet.extract_text().split())
    for words in [
        "Words of the page",
        "What is folded",
        "Still of one",
        "def given(x):",
        "The end",
    ]:
        assert words in text
    assert "far away (https://example.org/a)" in text
    assert all(f"number_{n}" in text for n in range(40)), "code is cut at the margin"
    for words in ["Day or night", "Copy", "Press", "What moves", "Typed", "Check"]:
        assert words not in text
    assert [round(float(side) / 72 * 25.4) for side in sheet.mediabox[2:]] == [210, 297]


@printed
def test_the_book_has_an_outline_and_numbers(book):
    parts, places = [], []

    def walk(items, depth):
        for item in items:
            if isinstance(item, list):
                walk(item, depth + 1)
            else:
                parts.append("  " * depth + item.title)
                places.append(book.get_destination_page_number(item))

    walk(book.outline, 0)
    sections = ["  First section", "  Second section"]
    assert parts == ["one · Page", *sections, "two · Page", *sections]
    assert places == [0, 0, 0, 1, 1, 1] and len(book.pages) == 2
    assert book.pages[1].extract_text().strip().splitlines()[-1].strip() == "2"


@printed
def test_links_lead_within_the_book_or_to_the_site_on_the_web(book):
    ids = [page.indirect_reference.idnum for page in book.pages]
    for n, page in enumerate(book.pages):
        found = [link for link in pdf.links(page)]
        inside = {ids.index(link["/Dest"][0].idnum) for link in found if "/Dest" in link}
        outside = {link["/A"]["/URI"] for link in found if "/A" in link}
        assert inside == {n, 1 - n}
        assert outside == {pdf.HOST + "elsewhere.html#y", "https://example.org/a"}


@printed
def test_the_home_page_offers_the_book_once(site, book):
    before = (site / "index.html").read_text(encoding="utf-8")
    pdf.offer(site / "index.html", site / pdf.NAME, 2)
    after = (site / "index.html").read_text(encoding="utf-8")
    assert before == after and after.count(f'href="{pdf.NAME}" download') == 1
    assert '<p>It is long.</p>\n<p class="on-paper">' in after


def test_a_page_that_was_not_built_and_a_home_page_without_its_place_are_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"has no page one.html: build the site first"):
        pdf.main(["--site", str(tmp_path), "one"])
    home = tmp_path / "index.html"
    home.write_text("<p>Nothing.</p>", encoding="utf-8")
    with pytest.raises(SystemExit, match="has no section “The path”"):
        pdf.offer(home, home, 1)


def test_the_book_holds_the_path_in_its_order():
    pages = pdf.path_pages()
    assert pages[0] == "index" and [p for p in pages if p in order.STEPS] == order.STEPS
    assert {order.PAPER, "glossary"} <= {*pages} and not any("/" in page for page in pages)
