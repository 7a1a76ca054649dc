"""The slides: how a page is cut, what every deck holds, and what a browser makes of it.

The tests of decks need `_site` (`make site` builds it), those in a browser Chromium as well.
"""

import json
import re
import sys
from pathlib import Path

import pytest
from browser_tools import BROWSER, DRIVER, start_browser
from thorough import some

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_site"
pytest.importorskip("sphinx", reason="the site's requirements are not installed")
pytest.importorskip("bs4")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
TimeoutException = pytest.importorskip("selenium.common.exceptions").TimeoutException
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_slides as slides
from bs4 import BeautifulSoup

LESSONS = sorted(p.stem for p in (ROOT / "nbs").glob("*.ipynb") if slides.LESSON.match(p.stem))
built = pytest.mark.skipif(not (SITE / "slides").is_dir(), reason="run `make site` first")

# ---------------------------------------------------------------- cutting a page

CELL = """<div class="cell"><div class="cell_input"><pre>{}</pre></div>
<div class="cell_output"><div class="output"><pre>{}</pre></div></div></div>"""
PAGE = """<section id="a"><h1>03 · Heads<a class="headerlink">#</a></h1>
<p class="lesson-map"><a href="index.html"><img alt="Map" src="_images/map.svg"></a></p>
<blockquote><div><p>Two are <em>more</em></p></div></blockquote>
<p><strong>16 minutes</strong> · <a href="slides/03_heads.html">Slides</a></p>
<p>Why <a href="02_x.html">heads</a>? Because.</p>
<section id="one"><h2>One<a class="headerlink">#</a></h2>{}</section>
<section id="exercises"><h2>Exercises</h2><p>Answers are elsewhere.</p>
<p><strong>03.2 Predict.</strong> How many?</p>
<details><summary>Answer</summary><p>Four:</p><pre><b>2</b> + 2</pre></details></section>
<section id="recap"><h2>Recap</h2><ul><li>A head.</li></ul><p>Go on.</p></section>
<section id="references"><h2>References</h2><p>None.</p></section></section>"""


def cut(inner):
    """The slides of the section that a page puts between its title and its exercises."""
    soup = BeautifulSoup(slides.deck("03_heads", PAGE.format(inner)), "html.parser")
    return soup.select(".slides > section")


def test_a_deck_has_a_title_the_sections_the_exercises_and_the_recap_last():
    first, why, one, exercise, recap = cut("<p>Look.</p>" + CELL.format("x = 1", "1"))
    assert first.h1.text == "03 · Heads" and "Two are more" in first.text
    assert "16 minutes" in first.text and first.select_one("a[href='../03_heads.html']")
    assert "Slides" not in first.text and first.select("img[alt=Map][src='../_images/map.svg']")
    assert why.h2.text == "Heads" and why.select_one(".points a")["href"] == "../02_x.html"
    assert exercise.h2.text == "03.2 Predict" and "How many?" in exercise.p.text
    assert exercise.select_one(".notes").text == "Four:2 + 2"
    assert recap.h2.text == "Recap" and "A head." in recap.text


def test_prose_is_in_the_notes_and_a_sentence_on_each_side_on_the_slide():
    comment = "<p>It is one. That was to be shown. We go on with y, a letter like any other:</p>"
    inner = "<p>We take x. It counts. We print it.</p>{}{}{}<p>Two. Or three?</p>"
    _, _, x, y, *_ = cut(inner.format(CELL.format("x", "1"), comment, CELL.format("y", "2")))
    said = lambda slide, name: getattr(slide.select_one(f".{name}"), "text", None)
    assert said(x, "lead") == "We take x. We print it." and said(x, "after") == "It is one."
    assert "It counts." in said(x, "notes") and "to be shown" in said(x, "notes")
    assert said(y, "lead").startswith("We go on") and said(y, "after") == "Two. Or three?"


def test_a_question_opens_what_follows_it():
    inner = CELL.format("x", "1") + "<p>Why y? Because.</p>" + CELL.format("y", "2")
    _, _, x, y, *_ = cut(inner)
    assert not x.select(".after") and y.select_one(".lead").text == "Why y? Because."


def test_imports_solutions_and_folded_code_are_not_shown():
    folded = CELL.format("plot()", "2").replace("<div class='cell_input'>", "")
    folded = folded.replace('<div class="cell_input">', '<details><div class="cell_input">')
    folded = folded.replace("</pre></div>\n", "</pre></div></details>\n")
    hidden = CELL.format("secret", "3").replace('"cell"', '"cell tag_hide-cell"')
    text = "".join(s.text for s in cut(CELL.format("import torch\nseed(0)", "0") + folded + hidden))
    assert "torch" not in text and "plot" not in text and "secret" not in text


def test_a_sentence_ends_where_it_ends():
    html = "<p>By <em>Ann et al. (2017)</em>, e.g. <b>x</b>. Is 1.5 it? “Yes.” <i>Go</i> on</p>"
    found = slides.sentences(BeautifulSoup(html, "html.parser").p)
    assert [slides.plain(sentence) for sentence in found] == [
        "By Ann et al. (2017), e.g. x.",
        "Is 1.5 it?",
        "“Yes.”",
        "Go on",
    ]


@pytest.mark.parametrize("n", [1, 26, 27, 61, 100])
def test_a_long_cell_is_cut_into_all_of_its_lines(n):
    lines = ["def f():" if i % 9 == 0 else "" if i % 9 == 8 else "    <b>x</b>" for i in range(n)]
    parts = [lines[start:stop] for start, stop in slides.cuts(lines)]
    assert sum(parts, []) == lines and max(map(len, parts)) <= slides.WHOLE + 4
    assert all(part[0] == "def f():" for part in parts)


# ---------------------------------------------------------------- the decks that are built


def soup(path):
    text = (SITE / path).read_text(encoding="utf-8")
    bare = lambda match: f"<pre>{re.sub('<[^>]+>', '', match[1])}</pre>"
    return BeautifulSoup(re.sub(r"<pre>(.*?)</pre>", bare, text, flags=re.S), "html.parser")


def lines(text):
    return {line.strip() for line in text.splitlines()} - {""}


@built
@pytest.mark.parametrize("lesson", LESSONS)
def test_a_deck_holds_what_its_lesson_shows(lesson):
    deck, page = soup(f"slides/{lesson}.html"), soup(f"{lesson}.html").article
    assert page.select_one(f"a[href='slides/{lesson}.html']").text == "Slides"
    assert (
        deck.select(f".title a[href='../{lesson}.html']") and deck.html["lang"] and deck.title.text
    )
    found = deck.select(".slides > section")
    assert len(found) > 8 and all(slide.find(["h1", "h2"]) for slide in found)
    assert lesson.startswith("00") or found[-1].select(".recap")
    text = set().union(*(lines(pre.text) for pre in deck.select("pre")))
    for cell in page.select(".cell"):
        code, folded = cell.select_one(".cell_input pre").text, cell.find("details")
        setup = not cell.find_parent("section").find_parent("section")  # before the first heading
        setup = setup or code.startswith(("import", "from"))
        assert folded or setup or lines(code) <= text, code
    drawn = lambda page: {
        i["src"].rpartition("/")[2]: i["alt"]
        for i in page.select("img:not([src^=data], noscript img)")
    }
    shown, place = drawn(deck), f"transformer_{lesson[:2]}.svg"
    assert place not in drawn(page)  # there it would be too narrow to read
    assert (shown.pop(place, None) is None) == (lesson[:2] == "00") and shown == drawn(page)
    for node in deck.select("[src]:not([src^=data]), link[href]"):
        assert (SITE / "slides" / (node.get("src") or node["href"])).exists(), node


# ---------------------------------------------------------------- in a browser

WALK = """
const done = arguments[0];
const wait = () => (window.Reveal?.isReady() ? done(walk()) : setTimeout(wait, 20));
const box = (e) => e.getBoundingClientRect();
function faults(section) {
  const slide = section.querySelector('.slide');
  const over = [...slide.children].filter((e) => e.scrollWidth > e.clientWidth + 1
    || box(e).right > box(slide).right || box(e).bottom > box(slide).bottom + 1);
  const small = parseFloat(getComputedStyle(slide.querySelector('pre') ?? slide).fontSize) < 12;
  const math = [...section.querySelectorAll('.math')].filter((e) => !e.querySelector('math'));
  const lost = [...slide.querySelectorAll('.picture > *')].filter((e) => box(e).height < 200);
  const markup = (e) => e.outerHTML.slice(0, 90);
  return [...over, ...math, ...lost, ...(small ? [slide] : [])].map(markup);
}
function walk() {
  const found = [];
  Reveal.getSlides().forEach((slide, i) => {
    Reveal.slide(i);
    const bad = faults(slide);
    if (bad.length) found.push([i, ...bad]);
  });
  return found;
}
wait();
"""

SPEAKER = """
const open = window.open;
window.open = (...how) => (window.speaker = open.apply(window, how));
Reveal.slide(Reveal.getSlides().findIndex((slide) => slide.querySelector('.notes math')));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    size = ["--window-size=1280,720"]
    with start_browser(tmp_path_factory.mktemp("profile"), flags=size, seconds=60) as driver:
        yield driver


def resize(browser, width, height):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def show(browser, lesson, query=""):
    """Open a deck from its folder, walk through it; returns what is wrong with it."""
    browser.get((SITE / "slides" / f"{lesson}.html").resolve().as_uri() + query)
    found = browser.execute_async_script(WALK)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e for e in events if e["method"] == "Network.requestWillBeSent"]
    urls = [event["params"]["request"]["url"] for event in asked]
    outside = [url for url in urls if not url.startswith(("file:", "data:", "blob:"))]
    return found, outside, browser.get_log("browser")


@built
@pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium or chromedriver is missing")
class TestBrowser:
    @pytest.mark.parametrize("lesson", some(LESSONS, 3))
    def test_every_slide_fits_and_asks_nobody(self, browser, lesson):
        resize(browser, 1280, 720)
        assert show(browser, lesson) == ([], [], [])

    def test_a_drawing_grows_with_each_press(self, browser):
        resize(browser, 1280, 720)
        assert show(browser, "02_attention") == ([], [], [])
        code = """
        const slides = Reveal.getSlides();
        const at = slides.findIndex((slide) => slide.querySelector('.grow'));
        const parts = [...slides[at].querySelectorAll('.grow img')];
        const seen = () => parts.filter((e) => !e.matches('.fragment:not(.visible)')).length;
        Reveal.slide(at, 0, -1);
        const counts = [seen()];
        for (let i = 0; i < 3; i++) {
          Reveal.next();
          counts.push(seen());
        }
        const [first, ...others] = parts.map((e) => e.getBoundingClientRect());
        const same = others.every((box) => box.top === first.top && box.height === first.height);
        return [counts, same, first.height > 300, Reveal.getIndices().h === at];
        """
        assert browser.execute_script(code) == [[1, 2, 3, 4], True, True, True]

    def test_slides_fill_the_screen(self, browser):
        resize(browser, 1280, 720)
        show(browser, "03_multi_head")
        code = """
        return Reveal.getSlides().map((section, i) => {
          Reveal.slide(i);
          const boxes = [...section.querySelectorAll('.slide > :not(.stage), .stage > *')];
          return Math.max(...boxes.map((e) => e.getBoundingClientRect().bottom)) / innerHeight;
        });
        """
        filled = sorted(browser.execute_script(code))
        assert filled[len(filled) // 2] > 0.8  # the middle slide of all

    def test_a_phone_held_upright_gets_a_page_without_sideways_scroll(self, browser):
        resize(browser, 390, 800)
        browser.get((SITE / "slides" / f"{LESSONS[3]}.html").resolve().as_uri())
        root = "document.documentElement"
        typeset = f"return !!document.querySelector('.slide math') && {root}.scrollWidth"
        assert WebDriverWait(browser, 30).until(lambda b: b.execute_script(typeset)) <= 390
        assert browser.execute_script(f"return {root}.scrollHeight") > 4000

    def test_paper_gets_a_page_for_each_slide(self, browser):
        resize(browser, 1280, 720)
        pages = "css selector", ".pdf-page"
        count = len(soup(f"slides/{LESSONS[3]}.html").select(".slide"))
        for last in (False, True):  # on a busy machine the pages may be made before the slides are
            assert show(browser, LESSONS[3], "?print-pdf")[1:] == ([], [])
            try:
                WebDriverWait(browser, 60).until(lambda b: len(b.find_elements(*pages)) == count)
                break
            except TimeoutException:
                if last:
                    raise

    def test_the_speaker_sees_notes_with_formulas(self, browser):
        resize(browser, 1280, 720)
        show(browser, LESSONS[3])
        browser.execute_script(SPEAKER)
        browser.find_element("css selector", "body").send_keys("s")
        notes = "return speaker.document.querySelector('.speaker-controls-notes math')?.outerHTML"
        WebDriverWait(browser, 30).until(lambda b: b.execute_script(notes))
        browser.execute_script("speaker.close()")
