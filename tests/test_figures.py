"""The figures that move: driven by mouse and by keys, and their numbers are Python's.

Each is opened alone, from disk, with the scripts and the data that its lesson's page loads.
"""

import re
import sys
from itertools import product
from pathlib import Path

import pytest
from browser_tools import (
    BROWSER,
    DRIVER,
    before_scripts,
    serious,
    set_screen,
    start_browser,
    touched,
    without_scripts,
)
from course_tools import tool
from thorough import THOROUGH, some

ROOT = Path(__file__).resolve().parents[1]

nbformat = pytest.importorskip("nbformat")
torch = pytest.importorskip("torch")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_figures as figures

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium or chromedriver")
RIGHT, LEFT, UP, DOWN, HOME, END = "\ue014", "\ue012", "\ue013", "\ue015", "\ue011", "\ue010"
SMALL = """
return [...document.querySelectorAll('.figure :is(input, button, .handle, .cell)')].filter((e) => {
  const box = e.getBoundingClientRect();
  return Math.round(box.height) < 44 || Math.round(box.width) < 44;
}).map((e) => e.outerHTML.slice(0, 100));
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    calm = ["--force-prefers-reduced-motion"]  # figures stand still unless a test asks them to play
    with start_browser(tmp_path_factory.mktemp("profile"), flags=calm) as driver:
        yield driver


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("figures")

    class Pages(dict):
        def __missing__(self, name):  # some take seconds, so each is made when it's asked for
            self[name] = figures.write_alone(name, folder)
            return self[name]

    return Pages()


def wait(browser, until, seconds=60):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, seconds, 0.1).until(lambda _: until())


@pytest.fixture
def show(browser, pages):
    """Open a figure."""

    def opened(name, width=1280, theme="light", address="", motion=False):
        browser.get("about:blank")
        set_screen(browser, width, theme)
        if motion:
            features = [{"name": "prefers-reduced-motion", "value": "no-preference"}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        browser.get(pages[name].as_uri() + address)
        wait(browser, lambda: browser.find_elements("css selector", ".figure.moves .figure-says"))
        return Shown(browser)

    yield opened
    set_screen(browser)


class Shown:
    """A figure in the browser, as a hand and an eye meet it."""

    def __init__(self, browser):
        self.browser = browser

    def all(self, css):
        return self.browser.find_elements("css selector", f".figure {css}")

    def texts(self, css):
        return [element.text for element in self.all(css)]

    @property
    def said(self):
        return self.texts(".figure-says")[0]

    @property
    def solved(self):
        return bool(self.browser.find_elements("css selector", ".figure.solved"))

    def press(self, label):
        """Press the button or the choice with this label."""
        found = [e for e in self.all("button, .figure-choice label") if e.text == label]
        assert len(found) == 1, (label, self.texts("button, .figure-choice label"))
        found[0].click()

    def keys(self, keys, css="input[type=range]", which=0):
        """Type on a control."""
        element = self.all(css)[which]
        self.browser.execute_script("arguments[0].focus()", element)
        self.browser.switch_to.active_element.send_keys(keys)

    def slide(self, value, which=0):
        """Set a slider to a value, by keys: as many steps as it takes from its beginning."""
        element = self.all("input[type=range]")[which]
        low, step = (float(element.get_attribute(name)) for name in ("min", "step"))
        self.keys(HOME + RIGHT * round((value - low) / step), which=which)
        assert float(element.get_property("value")) == pytest.approx(value)

    def value(self, which=0):
        """What a slider says."""
        return float(self.all("input[type=range]")[which].get_property("value"))

    @property
    def plays(self):
        return bool(self.browser.find_elements("css selector", ".figure.plays"))

    def drag(self, css, x, y, which=0):
        """Drag the middle of an element to a point of the drawing, in its own units."""
        where = """
        const svg = document.querySelector('.figure svg');
        const e = document.querySelectorAll(arguments[0])[arguments[3]];
        svg.scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = e.getBoundingClientRect(), m = svg.getScreenCTM();
        const p = new DOMPoint(arguments[1], arguments[2]).matrixTransform(m);
        return [box.x + box.width / 2, box.y + box.height / 2, p.x, p.y];
        """
        x0, y0, x1, y1 = self.browser.execute_script(where, f".figure {css}", x, y, which)
        steps = [("mousePressed", x0, y0), ("mouseMoved", x1, y1), ("mouseReleased", x1, y1)]
        for kind, to_x, to_y in steps:
            event = {"type": kind, "x": to_x, "y": to_y, "button": "left", "clickCount": 1}
            self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", event | {"buttons": 1})

    def swipe(self, css, right, down):
        """Move a finger from the middle of an element, in pixels; how far the page scrolls."""
        where = """
        const e = document.querySelector(arguments[0]);
        e.scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = e.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
        """
        return self.finger(*self.browser.execute_script(where, f".figure {css}"), right, down)

    def finger(self, x, y, right, down):
        """Move a finger from a point of the screen; how far the page scrolls."""
        before = self.browser.execute_script("return scrollY")
        steps = [("touchStart", x, y)]
        steps += [("touchMove", x + right * n / 10, y + down * n / 10) for n in range(1, 11)]
        for kind, to_x, to_y in steps:
            touch = {"type": kind, "touchPoints": [{"x": to_x, "y": to_y}]}
            self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", touch)
        end = {"type": "touchEnd", "touchPoints": []}
        self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", end)
        return self.browser.execute_script("return scrollY") - before


def two(numbers):
    """Numbers as the figures write them."""
    return [f"{float(n):.2f}" for n in numbers]


# ---------------------------------------------------------------- all figures


PICTURE = re.compile(r"!\[[^\]]+\]\((?:\.\./)?images/(\S+)\.svg\)")


def on_pages():
    """(figure, page, its still picture) for every figure of every notebook."""
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        for cell in nbformat.read(path, 4).cells:
            for name in figures.FIGURE.findall(cell.source) if cell.cell_type == "markdown" else []:
                yield name, path.stem, PICTURE.findall(cell.source)


def test_every_figure_is_on_one_page_around_its_still_picture():
    found = [(name, pictures) for name, _, pictures in on_pages()]
    names = [*figures.FIGURES, "train-your-own"]  # the home page has this one, too
    expected = [(name, [f"figure_{name.replace('-', '_')}"]) for name in names]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_figure_is_small_silent_and_within_reach(show, browser, name):
    turn = [*figures.FIGURES].index(name) % 2
    assert (figures.STATIC / f"{name}.js").stat().st_size < 6000
    for width, theme in [(1280, "light"), (390, "dark")]:
        shown = show(name, width, theme)
        assert shown.said and shown.texts(".figure-riddle")[0].endswith("?")
        assert not shown.solved, "the riddle is not for the hand"
        assert [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        if THOROUGH or width == (1280, 390)[turn]:
            assert serious(browser) == []
        assert width < 1280 or browser.execute_script(SMALL) == []


DRAGGED = [n for n in figures.FIGURES if ".handle(" in (figures.STATIC / f"{n}.js").read_text()]


@pytest.fixture
def by_finger(show, browser):
    "Opens a figure on a phone that is touched, in a page with room to scroll."

    def opened(name):
        shown = show(name, 390)
        browser.execute_script("document.body.style.marginBlock = '900px'")
        return shown

    with touched(browser):
        yield opened


@pytest.mark.parametrize("name", DRAGGED)
def test_a_finger_drags_a_point_and_scrolls_the_page_beside_it(by_finger, browser, name):
    shown = by_finger(name)
    place = lambda: shown.all(".handle")[0].get_attribute("transform")
    ended = """
    window.ended = [];
    for (const kind of ["pointerup", "pointercancel"])
      addEventListener(kind, () => window.ended.push(kind));
    """
    browser.execute_script(ended)
    before = place()
    assert shown.swipe(".handle", 20, 80) == 0
    assert browser.execute_script("return window.ended") == ["pointerup"]
    there = [float(n) for n in re.findall(r"[\d.]+", place())]
    was = [float(n) for n in re.findall(r"[\d.]+", before)]
    assert there[0] > was[0] and there[1] > was[1] + 40
    still = place()
    assert shown.swipe(".note", 0, -200) > 50 and place() == still


REACHED = """
const held = 'button, input, textarea, label:has(input), a.film-end, ' +
  '.handle, .grip, .scrub, .cell, .letter';
const there = (e) => e.getBoundingClientRect().width && !e.disabled &&
  getComputedStyle(e).visibility === 'visible';
const around = [[0, 0], [-21, 0], [21, 0], [0, -21], [0, 21]];
return [...document.querySelectorAll(`.figure :is(${held})`)].filter(there).filter((e) => {
  e.scrollIntoView({ block: 'center', behavior: 'instant' });
  const { x, y, width, height } = e.getBoundingClientRect();
  const mine = (hit) => e.contains(hit) || hit.closest('label')?.contains(e) ||
    (e.matches('.scrub') && hit.closest('.grip'));
  const at = ([dx, dy]) => document.elementFromPoint(x + width / 2 + dx, y + height / 2 + dy);
  return width < 43.5 || height < 43.5 || !around.map(at).every(mine);
}).map((e) => e.outerHTML.slice(0, 100));
"""
BESIDE = """
const svg = document.querySelector('.figure svg');
svg.scrollIntoView({ block: 'center', behavior: 'instant' });
const box = svg.getBoundingClientRect(), shares = [0.25, 0.5, 0.75];
return shares.flatMap((u) => shares.map((v) => [box.x + u * box.width, box.y + v * box.height]))
  .filter(([x, y]) => !document.elementFromPoint(x, y).closest('.handle, .grip'));
"""


@pytest.mark.parametrize("name", figures.FIGURES)
def test_a_thumb_finds_all_that_is_held_and_scrolls_the_page_elsewhere(by_finger, browser, name):
    shown = by_finger(name)
    assert browser.execute_script(REACHED) == []
    first = browser.execute_script(LOOKS)
    points = browser.execute_script(BESIDE)
    assert len(points) > 4
    for n in (0, len(points) // 2, -1):
        x, y = browser.execute_script(BESIDE)[n]
        assert shown.finger(x, y, 0, -150) > 50, (x, y)
        browser.execute_async_script("setTimeout(arguments[0], 300)")  # it scrolls on for a while
    assert browser.execute_script(LOOKS) == first


@pytest.mark.parametrize("name", figures.FIGURES)
def test_the_still_picture_is_the_figure_as_it_begins(browser, pages, name):
    stills = tool("stills")
    path = stills.IMAGES / f"figure_{name.replace('-', '_')}.svg"
    number = re.compile(r"-?\d+\.?\d*(?:e-?\d+)?")
    drawn, recorded = stills.still(browser, pages[name]), path.read_text(encoding="utf-8")
    assert number.sub("#", drawn) == number.sub("#", recorded), "python tools/stills.py"
    # another processor may round a last digit otherwise
    here, there = (list(map(float, number.findall(text))) for text in (drawn, recorded))
    assert here == pytest.approx(there, abs=0.11), "python tools/stills.py"


def test_the_colours_of_queries_keys_and_values_stand_for_nothing_else():
    classed = re.compile(r'"(?:line |box )?[qkv](?: strong)?"')
    scripts = {path.stem: path.read_text("utf-8") for path in figures.STATIC.glob("*.js")}
    with_them = {name for name, script in scripts.items() if classed.search(script)}
    shown = {"film-scenes", "induction-head", "move-a-word", "paint-the-mask", "who-looks-where"}
    assert with_them - {"letters-core"} == shown  # which draw them
    sheet, drawn = (figures.STATIC / "figures.css").read_text("utf-8"), tool("draw/svg").HUES
    hues = dict(re.findall(r"--fig-([qkvan]): (?:var\(--\w, )?(#\w+)", sheet.partition("html[")[0]))
    assert hues == {hue: color.lower() for hue, color in drawn.items()}
    assert {hue: hues[hue] for hue in "qkva"} == tool("stills").HUES


def test_a_page_loads_the_figures_that_it_holds():
    class App:
        def __init__(self):
            self.files = []

        def add_css_file(self, name):
            self.files.append(name)

        def add_js_file(self, name, **how):
            self.files.append(name)

    app = App()
    figures.load(app, "a", "", {"body": "<p>None</p>"}, None)
    figures.load(app, "a", "", {}, None)
    assert app.files == []
    body = '<div class="figure" data-figure="move-a-word">'
    figures.load(app, "a", "", {"body": body}, None)
    assert app.files == [
        "figures/figures.css",
        "figures/address.js",
        "figures/figure.js",
        "figures/move-a-word.data.js",
        "figures/move-a-word.js",
    ]
    app.files = []
    figures.load(app, "a", "", {"body": '<span data-part="q">queries</span>'}, None)
    assert app.files == ["figures/figures.css", "figures/parts.js"]


# ---------------------------------------------------------------- words that light a part


def lit_pages():
    """(page, its words' parts with their code, all of its code, what it draws) of each notebook."""
    for path in sorted((ROOT / "nbs").rglob("*.ipynb")):
        cells = nbformat.read(path, 4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        if words := figures.WORD.findall(text):
            code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
            images = re.findall(r"images/(\w+\.svg)", text)
            drawn = [(ROOT / "nbs" / "images" / name).read_text("utf-8") for name in images]
            drawn += [
                (figures.STATIC / f"{n}.js").read_text("utf-8")
                for n in figures.FIGURE.findall(text)
            ]
            yield path.stem, words, code, "\n".join(drawn)


def test_each_word_has_a_part_that_is_drawn_and_lines_of_code():
    pages = {page: rest for page, *rest in lit_pages()}
    assert {name[:2] for name in pages} >= {*"02 03 04 05 06 07 08 10 11 14".split()}
    for page, (words, code, drawn) in pages.items():
        for part, pieces in words:
            assert f'"{part}"' in drawn, (page, part)
            for piece in pieces.split("|") if pieces else []:
                assert piece in code, (page, part, piece)


WORDS_PAGE = """<!doctype html><html lang="en" data-theme="light"><title>Words</title>
<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="figures.css"><script defer src="parts.js"></script>
<style>.line { display: block }</style>
<main><h1>Words</h1><p>The <span data-part="q">queries</span> meet
<span data-part="scores" data-code="scores =|absent(">scores</span>.</p>
<p><img alt="One head" class="tall" src="_images/02_attention.svg" width="485" height="694" /></p>
<div class="cell_input highlight"><pre>
<span class="line">scores = <span class="n is-q">q</span> @ k</span>
<span class="line">weights = 1</span></pre></div></main></html>"""
LIT = """
const root = document.querySelector('.drawing').shadowRoot;
const shapes = [...root.querySelectorAll('svg > g :is(rect, path, text), svg > :is(path, text)')];
const bright = shapes.filter((e) => getComputedStyle(e).opacity >= 0.6);
const parts = new Set(bright.map((e) => e.closest('[data-part]')?.dataset.part ?? ''));
const marked = [...document.querySelectorAll('span')].filter(
  (e) => getComputedStyle(e).backgroundColor === 'rgb(255, 233, 168)').map((e) => e.textContent);
return [[...parts].sort(), marked];
"""


@pytest.fixture
def words_page(browser, pages):
    """A page whose words light a drawing and its code."""
    context = {"body": WORDS_PAGE}
    figures.open_drawings(None, "a", "", context, None)
    page = pages["move-a-word"].with_name("words.html")
    page.write_text(context["body"], encoding="utf-8")
    set_screen(browser)
    browser.get("about:blank")
    browser.get(page.as_uri())
    return browser


def test_a_word_lights_its_part_by_pointer_key_and_finger(words_page):
    from selenium.webdriver import ActionChains

    browser = words_page
    lit = lambda: browser.execute_script(LIT)
    queries, scores = browser.find_elements("css selector", "[role=button]")
    dark = lit()
    assert {"", "k", "q", "scores", "v", "weights"} == {*dark[0]} and dark[1] == []
    assert not browser.find_element("css selector", ".drawing img").is_displayed()
    ActionChains(browser).move_to_element(queries).perform()
    assert lit() == [["q"], ["queries", "q"]]
    ActionChains(browser).move_to_element(scores).perform()
    assert lit()[0] == ["k", "q", "scores"]  # with the arrows that lead there
    assert [text for text in lit()[1] if text != "q"] == ["scores", "scores = q @ k"]
    line = browser.find_elements("css selector", ".line")[0]
    ActionChains(browser).move_to_element_with_offset(line, 300, 0).perform()
    assert "scores" in lit()[1]  # from the code
    ActionChains(browser).move_to_element(browser.find_element("css selector", "h1")).perform()
    assert lit() == dark
    browser.switch_to.active_element.send_keys("\ue004")
    assert lit()[1] == ["queries", "q"]  # the focus is enough
    browser.switch_to.active_element.send_keys("\ue007" + "\ue004" * 2)
    assert lit()[1] == ["queries", "q"] and queries.get_attribute("aria-pressed") == "true"
    assert serious(browser) == []
    browser.switch_to.active_element.send_keys("\ue00c")
    assert lit() == dark and queries.get_attribute("aria-pressed") == "false"
    where = """
    const root = document.querySelector('.drawing').shadowRoot;
    const e = arguments[0] ?? root.querySelector('[data-part=v] text');
    e.scrollIntoView({ block: 'center', behavior: 'instant' });
    const box = e.getBoundingClientRect();
    return [box.x + box.width / 2, box.y + box.height / 2];
    """
    with touched(browser):
        for element, marked in [(queries, "q"), (None, "v"), (queries, "q")]:
            x, y = browser.execute_script(where, element)
            for kind, points in [("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])]:
                event = {"type": kind, "touchPoints": points}
                browser.execute_cdp_cmd("Input.dispatchTouchEvent", event)
            wait(browser, lambda: lit()[0] == [marked])  # noqa: B023


def test_without_scripts_a_word_is_plain_text_and_the_drawing_is_there(words_page):
    browser = words_page
    with without_scripts(browser):
        browser.refresh()
        drawing = browser.find_element("css selector", ".drawing")
        assert drawing.size["height"] > 400
        assert browser.find_element("css selector", "[data-part]").get_attribute("role") is None


def test_a_drawing_without_parts_stays_a_picture():
    body = '<span data-part="a">a</span><img alt="" src="_images/05_positions.svg" />'
    context = {"body": body}
    figures.open_drawings(None, "a", "", context, None)
    assert context["body"] == body


# ---------------------------------------------------------------- the address


CHANGED = {  # what a hand does, and the address that it leaves
    "move-a-word": (lambda it: it.keys(RIGHT * 3 + DOWN, ".handle"), "water=1.3&money=0.9"),
    "paint-the-mask": (
        lambda it: (it.all(".cell")[21].click(), it.press("2")),
        "layers=2&mask=10000.11000.11100.11110.10111",
    ),
    "the-leak": (
        lambda it: (it.all(".cell")[5].click(), it.press("layer 1 only")),
        "mask=layer+1+only&changed=001001",
    ),
    "why-root-d": (lambda it: it.press("Divide by \u221ad_k"), "divided=on"),
    "the-tap": (
        lambda it: (it.press("Mari"), it.slide(0.5), it.slide(7, 1)),
        "name=Mari&temperature=0.5&top-k=7",
    ),
    "the-cache": (lambda it: it.slide(12), "letters=12"),
    "who-looks-where": (
        lambda it: (it.press("36"), it.keys(LEFT, "input[type=radio]", 6), it.slide(9)),
        "number=36&head=1.2&letter=9",
    ),
    "merge-by-merge": (
        lambda it: (it.press("twenty pages"), it.slide(57)),
        "from=twenty+pages&merges=57",
    ),
    "clock-hands": (lambda it: (it.slide(9), it.slide(20, 1)), "first=9&distance=20"),
    "the-stream": (
        lambda it: (it.press("Kl"), it.press("network 3")),
        "name=Kl&network-3=off",
    ),
    "the-valley": (lambda it: (it.slide(5), it.press("Warm-up")), "nth-rate=5&warm-up=off"),
    "induction-head": (
        lambda it: it.keys(END + "harmo", "input[type=text]"),
        "row=harmonicharmoharmo",
    ),
}
LOOKS = """
const focused = /(?<=class="grip) on/g;
return [document.querySelector('.figure svg').innerHTML.replace(focused, ''),
  document.querySelector('.figure-says').textContent];
"""
COPY = "navigator.clipboard.writeText = async (text) => { window.copied = text; };"


def test_every_figure_keeps_its_state_in_the_address():
    none = {"train-your-own", "film"}  # the link of one is the model itself, a film has none
    assert {*CHANGED} == {*figures.FIGURES} - none


@pytest.mark.parametrize("name", some(CHANGED, 2))
def test_what_a_hand_has_set_is_a_link_and_opens_again(show, browser, pages, name):
    act, state = CHANGED[name]
    shown = show(name)
    long_ago = browser.execute_script("return history.length")
    assert "#" not in browser.current_url, "as it begins it needs no state"
    first = browser.execute_script(LOOKS)
    act(shown)
    link = f"{pages[name].as_uri()}#figure={name}&{state}"
    wait(browser, lambda: browser.current_url == link)
    assert browser.execute_script("return history.length") == long_ago  # one step back leads away
    there = browser.execute_script(LOOKS)
    browser.execute_script(COPY)
    shown.press("Copy link")
    assert browser.execute_script("return window.copied") == link
    wait(browser, lambda: shown.texts(".figure-link span")[0].startswith("Copied"))
    assert shown.all(".figure-link span")[0].get_attribute("aria-live") == "polite"

    shown = show(name, address=f"#figure={name}&{state}")
    assert browser.execute_script(LOOKS) == there != first
    assert shown.texts(".figure-link span") == [""]
    browser.execute_script("location.hash = arguments[0]", f"figure={name}")
    wait(browser, lambda: browser.execute_script(LOOKS) == first)  # another link on the same page
    browser.execute_script("location.hash = 'a-heading'")
    assert browser.execute_script(LOOKS) == first


HOSTILE = [
    "number=<img src=x onerror=alert(1)>",
    "letter=1e999&head=9.9",
    "letter=-5",
    "letter=3.7",
    "letter=",
    "off=__proto__",
    "constructor=1&toString=2",
    "number=%FF%C0%00&letter=NaN",
    "number=36&number=<script>alert(1)</script>&letter=99",
]


@pytest.mark.parametrize("state", HOSTILE)
def test_a_hostile_address_gets_a_sentence_and_no_html(show, browser, state):
    shown = show("who-looks-where", address=f"#figure=who-looks-where&{state}")
    assert shown.texts(".figure-link span")[0].startswith("A part of this link doesn't fit")
    assert shown.all(":is(img, script, iframe)") == [] and "It writes \u201c" in shown.said
    letter = float(shown.all("input[type=range]")[0].get_property("value"))
    assert letter == int(letter) and 1 <= letter <= 20
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


@pytest.mark.parametrize(
    "address", ["#figure=the-tap&letter=9", f"#figure=who-looks-where&number={'3' * 5000}", "#"]
)
def test_an_address_of_another_figure_or_one_too_long_changes_nothing(show, browser, address):
    show("who-looks-where")
    first = browser.execute_script(LOOKS)
    shown = show("who-looks-where", address=address)
    assert browser.execute_script(LOOKS) == first and shown.texts(".figure-link span") == [""]


def test_text_in_an_address_is_text_and_no_longer_than_its_field(show, browser):
    html = "<b onclick=alert(1)>" + "x" * 30
    shown = show("merge-by-merge", address=f"#figure=merge-by-merge&word={html}")
    assert shown.all("input[type=text]")[0].get_property("value") == html[:24]
    assert shown.all("b[onclick]") == [] and shown.texts(".figure-link span")[0]


def test_a_model_in_the_address_is_not_written_over(show, browser):
    shown = show("the-tap", address="#model1.abc")
    shown.slide(0.5)
    browser.execute_script(COPY)
    shown.press("Copy link")
    assert browser.current_url.endswith("#model1.abc")
    copied = browser.execute_script("return window.copied")
    assert copied.endswith("#figure=the-tap&temperature=0.5")


# ---------------------------------------------------------------- the hand in the drawing


DRAGS = [  # a grip, where it is dragged to, and what its slider says then
    ("clock-hands", 0, (30 + 366 * 20 / 32, 250), 1, 20),
    ("the-valley", 0, (44 + 43 * 6, 100), 0, 7),
    ("the-valley", 1, (34 + 366 * 0.3, 250), 1, 60),
    ("why-root-d", 0, (202 - 190, 60), 0, 10),
    ("why-root-d", 0, (202, 60), 0, 1),
    ("the-tap", 0, (4.5 + 7 * 392 / 29, 245), 1, 7),
    ("the-tap", 1, (400, 297), 2, 1),
    ("the-tap", 2, (4.5 + 2 * 392 / 29, 349), 3, 0.5),
    ("the-cache", 0, (100, 30 + 11 * 14.5), 0, 15),
    ("merge-by-merge", 0, (8 + 388 * 3 / 4, 290), 0, 3),
    ("induction-head", 0, (28, 430), 0, 0),
    ("who-looks-where", 0, (202 + 24.4 * (4 - 6), 208), 0, 5),
]


@pytest.mark.parametrize("name, grip, to, slider, value", DRAGS)
def test_a_grip_is_dragged_and_its_slider_follows(show, browser, name, grip, to, slider, value):
    shown = show(name)
    first = browser.execute_script(LOOKS)
    shown.drag(".grip", *to, which=grip)
    assert shown.value(slider) == pytest.approx(value)
    assert browser.execute_script(LOOKS) != first
    element = shown.all("input[type=range]")[slider]
    low, step = (float(element.get_attribute(kind)) for kind in ("min", "step"))
    key, way = (RIGHT, 1) if value == low else (LEFT, -1)
    browser.switch_to.active_element.send_keys(key)  # the keys go on where the hand was
    assert shown.value(slider) == pytest.approx(value + way * step)


GRIPS = [n for n in figures.FIGURES if ".scrub(" in (figures.STATIC / f"{n}.js").read_text()]


def test_each_figure_with_a_grip_is_dragged_here():
    assert {name for name, *_ in DRAGS} == {*GRIPS}


@pytest.mark.parametrize("name", some(GRIPS, 3))
def test_a_finger_drags_to_the_side_or_taps_and_scrolls_downwards(by_finger, browser, name):
    shown = by_finger(name)
    values = lambda: [e.get_property("value") for e in shown.all("input[type=range]")]
    before = values()
    assert shown.swipe(".scrub", 0, -200) > 50 and values() == before
    browser.execute_async_script("setTimeout(arguments[0], 500)")  # it scrolls on for a while
    shown.swipe(".scrub", 0, 0)  # a tap
    tapped = values()
    assert tapped != before
    assert shown.swipe(".scrub", 100, 4) == 0
    assert (values() != tapped) == (name != "the-cache")  # its steps go down
    assert shown.swipe(".grip", 40, 60) == 0


def test_an_inflow_is_switched_off_by_a_tap_on_it(show):
    shown = show("the-stream")
    shown.all(".letter")[3].click()
    assert shown.all(".figure-controls button")[3].get_attribute("aria-pressed") == "false"
    assert "without network 2" in shown.said
    shown.all(".letter")[3].click()
    assert "with all parts" in shown.said


# ---------------------------------------------------------------- time


PLAYS = [n for n in figures.FIGURES if ".plays(" in (figures.STATIC / f"{n}.js").read_text()]
FASTER = """
const frame = window.requestAnimationFrame;
window.requestAnimationFrame = (draw) => frame((now) => draw(5 * now));
"""


def test_what_time_explains_plays():
    assert {*figures.FIGURES} - {*PLAYS} == {"film", "paint-the-mask", "the-tap", "train-your-own"}


@pytest.mark.parametrize("name", some(PLAYS, 3))
def test_a_figure_plays_once_and_ends_as_it_began(show, browser, name):
    show(name, 390)
    first = browser.execute_script(LOOKS)
    high = "return document.querySelector('.figure').offsetHeight"
    as_high = browser.execute_script(high)
    live = "return document.querySelector('.figure-says').ariaLive"
    with before_scripts(browser, FASTER):
        shown = show(name, 390, motion=True)
        wait(browser, lambda: shown.plays)
        assert browser.execute_script(live) == "off" and shown.texts(".figure-play") == ["Stop"]
        seen = set()
        while shown.plays:
            seen.add(browser.execute_script(LOOKS)[0])
            assert not shown.solved and browser.execute_script(high) == as_high
        assert len(seen) > 3
        assert browser.execute_script(LOOKS) == first and shown.texts(".figure-play") == ["Play"]
        assert browser.execute_script(live) is None and "#" not in browser.current_url
        for to in (3000, 0):  # away, and back
            browser.execute_script(f"document.body.style.paddingTop = '{to}px'")
            browser.execute_async_script("setTimeout(arguments[0], 100)")
        assert not shown.plays


@pytest.mark.parametrize("name", some(PLAYS, 2))
def test_a_hand_stops_it_and_a_button_plays_it_again(show, browser, name):
    shown = show(name)
    first = browser.execute_script(LOOKS)
    shown = show(name, motion=True)
    wait(browser, lambda: shown.plays)
    shown.all(".figure-head")[0].click()
    assert not shown.plays and browser.execute_script(LOOKS) == first
    shown.press("Play")
    wait(browser, lambda: shown.plays and browser.execute_script(LOOKS) != first)
    shown.keys(" ", ".figure-play")
    assert not shown.plays and browser.execute_script(LOOKS) == first
    shown.press("Play")
    shown.keys("\ue00c", ".figure-link button")
    assert not shown.plays and browser.execute_script(LOOKS) == first
    steps = [e.get_attribute("step") for e in shown.all("input[type=range]")]
    assert "any" not in steps


@pytest.mark.parametrize("name", some(PLAYS, 4, 1))
def test_it_does_not_begin_with_reduced_motion_from_a_link_or_after_a_hand(show, browser, name):
    still = lambda shown: (
        browser.execute_async_script("setTimeout(arguments[0], 300)") or (not shown.plays)
    )
    shown = show(name)
    assert still(shown)
    shown.press("Play")  # but it was asked for
    wait(browser, lambda: shown.plays)
    assert still(show(name, address=f"#figure={name}&{CHANGED[name][1]}", motion=True))
    low = "document.documentElement.style.paddingTop = '3000px'"
    begins = f"document.addEventListener('DOMContentLoaded', () => {{ {low} }}, true)"
    with before_scripts(browser, begins):
        shown = show(name, motion=True)
        assert still(shown)  # it isn't in view
        shown.keys(" ", ".figure-link button:last-of-type")
        browser.execute_script("document.querySelector('.figure svg').scrollIntoView()")
        assert still(shown)


# ---------------------------------------------------------------- 01


class TestMoveAWord:
    def python(self, water, money, sentence=0, factor=1.0):
        """Scores, weights and the new vector of bank, in float64."""
        from former_nb.attention.self_attention import self_attention

        data = figures.move_a_word()
        meaning = data["meaning"] | {"bank": [water, money, 0, 0]}
        rows = [meaning[word] for word in data["sentences"][sentence]]
        x = torch.tensor(rows, dtype=torch.float64)
        scores = factor**2 * (x @ x.T)[5]
        weights = scores.softmax(dim=0)
        if factor == 1:
            torch.testing.assert_close(weights @ x, self_attention(x[None])[0, 5])
        return scores, weights, weights @ x

    def agrees(self, shown, water, money, *how):
        scores, weights, y = self.python(water, money, *how)
        assert shown.texts("text.score") == two(scores)
        assert shown.texts("text.weight") == two(weights)
        assert f"Bank goes in with water {water:.1f}, money {money:.1f}" in shown.said
        assert f"comes out with water {y[0]:.2f}, money {y[1]:.2f}." in shown.said

    def test_it_begins_as_the_page_computes(self, show):
        shown = show("move-a-word")
        self.agrees(shown, 1.0, 1.0)
        assert "comes out with water 1.30, money 0.33" in shown.said

    def test_by_keys(self, show):
        shown = show("move-a-word")
        shown.keys(RIGHT * 3 + UP * 2 + DOWN, ".handle")
        self.agrees(shown, 1.3, 1.1)
        assert shown.all(".handle")[0].get_attribute("aria-valuetext") == "water 1.3, money 1.1"
        shown.slide(2.0)
        self.agrees(shown, 1.3, 1.1, 0, 2.0)
        shown.keys(RIGHT, ".figure-choice input")
        self.agrees(shown, 1.3, 1.1, 1, 2.0)
        shown.keys(LEFT * 40, ".handle")
        self.agrees(shown, 0.0, 1.1, 1, 2.0)

    def test_by_mouse_the_riddle_is_found(self, show):
        shown = show("move-a-word")
        shown.drag(".handle", 36 + 112 * 2, 214)
        self.agrees(shown, 2.0, 0.0)
        assert not shown.solved
        hits = [n / 10 for n in range(31) if abs(self.python(n / 10, 0)[2][0] - 2) < 0.05]
        assert hits and min(hits) > 2, "it has to overshoot"
        shown.drag(".handle", 36 + 112 * hits[0], 214)
        self.agrees(shown, hits[0], 0.0)
        assert shown.solved and shown.said.startswith("\u2713 Found.")

    def test_with_no_length_all_words_count_alike(self, show):
        shown = show("move-a-word")
        shown.slide(0)
        assert shown.texts("text.weight") == ["0.17"] * 6


# ---------------------------------------------------------------- 04


class TestTheLeak:
    def python(self, choice, masked):
        """How far each output moves, with layers made anew, and one sentence at a time."""
        from former_nb.attention.multi_head import MultiHeadAttention

        torch.manual_seed(0)
        layers = [MultiHeadAttention(8, 2) for _ in range(2)]
        now, then = torch.randn(2, 6, 8)

        def run(x):
            for n, layer in enumerate(layers):
                x = x + layer(x, is_causal=n < masked)
            return x

        edited = now.clone()
        edited[list(choice)] = then[list(choice)]
        with torch.no_grad():
            before, after = run(now[None])[0], run(edited[None])[0]
        return (after - before).norm(dim=-1) / before.norm(dim=-1)

    CASES = [*product([(0,), (2,), (5,), (1, 4), ()], [2, 1, 0])]

    @pytest.mark.parametrize("choice, masked", some(CASES, 2))
    def test_outputs_move_as_they_do_in_python(self, show, choice, masked):
        shown = show("the-leak")
        shown.all(".cell")[2].click()
        for i in choice:
            shown.all(".cell")[i].click()
        shown.press(["no layer", "layer 1 only", "both layers"][masked])
        moved = self.python(choice, masked)
        texts = [float(text) for text in shown.texts("text.moved")]
        assert texts == pytest.approx(moved.tolist(), abs=0.006)
        rings = [e.get_attribute("visibility") == "visible" for e in shown.all("circle.frame")]
        first = min(choice, default=0)
        assert rings == [i < first and masked < 2 for i in range(6)]
        assert moved[:first].gt(0).sum() == sum(rings)  # exactly 0 where no ring is
        if choice:
            move = "move" if len(choice) > 1 else "moves"
            assert f" {move} {int(moved.gt(0).sum())} of 6 outputs" in shown.said
        assert ("a leak" in shown.said) == any(rings)
        assert shown.solved == (choice == (5,) and masked == 2)

    def test_by_keys(self, show):
        shown = show("the-leak")
        shown.keys(" ", ".cell", 2)
        assert shown.said == "No word is changed, so no output moves."
        shown.keys("\ue007", ".cell", 5)
        assert shown.solved and "If one layer loses it" in shown.said


class TestPaintTheMask:
    def knows(self, mask, n_layers):
        """Which inputs move which outputs of attention layers one after another."""
        from former_nb.attention.multi_head import MultiHeadAttention

        torch.manual_seed(0)
        layers = [MultiHeadAttention(8, 2).double() for _ in range(n_layers)]

        def run(x):
            for layer in layers:
                x = layer(x, mask=mask)
            return x

        x, table = torch.randn(1, 5, 8).double(), torch.zeros(5, 5, dtype=torch.bool)
        for j in range(5):
            edited = x.clone()
            edited[:, j] += 1
            table[:, j] = (run(edited) - run(x)).abs().amax(dim=(0, 2)) > 0
        return table

    def agrees(self, shown, mask, n_layers):
        table = self.knows(mask, n_layers)
        dots = [dot.get_attribute("visibility") == "visible" for dot in shown.all(".cell circle")]
        assert torch.tensor(dots).view(5, 5).equal(table)
        checked = [cell.get_attribute("aria-checked") == "true" for cell in shown.all(".cell")]
        assert torch.tensor(checked).view(5, 5).equal(mask)
        words = figures.paint_the_mask()["words"]
        known = ", ".join(word for word, known in zip(words, table[4]) if known) or "nothing"
        assert f"quietly knows {known}." in shown.said
        assert ("Nothing leaks" in shown.said) == (not table.triu(1).any())

    def test_by_mouse(self, show):
        shown, mask = show("paint-the-mask"), torch.ones(5, 5, dtype=torch.bool).tril()
        self.agrees(shown, mask, 1)
        shown.all(".cell")[21].click()
        mask[4, 1] = False
        self.agrees(shown, mask, 1)
        assert not shown.solved
        shown.press("2")
        self.agrees(shown, mask, 2)
        assert shown.solved
        shown.all(".cell")[7].click()
        mask[1, 2] = True
        self.agrees(shown, mask, 2)
        assert "leaks at 1 place." in shown.said

    def test_by_keys(self, show):
        shown, mask = show("paint-the-mask"), torch.ones(5, 5, dtype=torch.bool).tril()
        assert [c.get_attribute("tabindex") for c in shown.all(".cell")].count("0") == 1
        shown.keys(" ", ".cell[tabindex='0']")
        mask[4, 1] = False
        self.agrees(shown, mask, 1)
        shown.keys(UP, ".cell[tabindex='0']")
        shown.keys(RIGHT, ".cell[tabindex='0']")
        shown.keys(" ", ".cell[tabindex='0']")
        mask[3, 2] = False
        self.agrees(shown, mask, 1)

    @pytest.mark.parametrize(
        "preset, n", [("window of 2", 1), ("window of 2", 3), ("everything", 2)]
    )
    def test_presets(self, show, preset, n):
        shown = show("paint-the-mask")
        shown.press(preset)
        shown.press(str(n))
        everything = torch.ones(5, 5, dtype=torch.bool)
        window = everything.tril() & everything.triu(-1)
        self.agrees(shown, window if preset == "window of 2" else everything, n)


# ---------------------------------------------------------------- 02


class TestWhyRootD:
    @pytest.mark.parametrize("n, divided", [(1, False), (6, False), (10, False), (10, True)])
    def test_its_numbers_are_those_of_the_page(self, show, n, divided):
        (random_scores,) = figures.from_page("02_attention", "random_scores")
        scores = random_scores(2**n, 2 ** (n / 2) if divided else 1)
        shown = show("why-root-d")
        shown.slide(n)
        if divided:
            shown.keys(" ", "button")
        spread = f"{scores.std():.2f}"
        assert shown.texts("text.spread") == [f"spread {spread}"]
        weights = [float(weight) for weight in shown.texts("text.weight")]
        largest = scores.softmax(dim=-1).amax(dim=-1).median().item()
        assert weights == sorted(weights, reverse=True) and sum(weights) == pytest.approx(
            1, abs=0.03
        )
        assert weights[0] == pytest.approx(largest, abs=0.006)
        assert f"spread by {spread}" in shown.said
        assert f"gets {weights[0]:.2f} of the attention" in shown.said

    def test_the_first_width_whose_largest_weight_is_nine_tenths_is_found(self, show):
        shown = show("why-root-d")
        found = []
        for n in range(1, 11):
            shown.slide(n)
            found.append(shown.solved)
            assert ("luck has chosen" in shown.said) == shown.solved
        (random_scores,) = figures.from_page("02_attention", "random_scores")
        largest = [random_scores(2**n, 1).softmax(dim=-1).amax(dim=-1) for n in range(1, 11)]
        above = [bool(weights.median() > 0.9) for weights in largest]
        assert found.index(True) == above.index(True) and found.count(True) == 1


# ---------------------------------------------------------------- 11


class TestTheTap:
    def python(self, text, temperature, **settings):
        """What may be drawn after a beginning: letters and probabilities, likeliest first."""
        from former_nb import load_model
        from former_nb.data.text import BOS, PAD, UNK
        from former_nb.decoding.sampling import Sampling, with_temperature

        model, tokenizer, _ = load_model("names", "cpu")
        with torch.no_grad():
            logits = model(torch.tensor([[BOS, *tokenizer.encode(text)]]))[:, -1]
        logits[:, [PAD, BOS, UNK]] = -torch.inf
        seen = []
        pick = Sampling(**settings).filter(lambda logits: seen.append(logits[0].softmax(-1)))
        with_temperature(pick, temperature)(logits)
        p, order = seen[0].sort(descending=True)
        n = int((p > 0).sum())
        return [tokenizer.decode([token]) or "end" for token in order[:n].tolist()], p[:n].tolist()

    @pytest.mark.parametrize(
        "which, tau, k, top, least",
        [
            (0, 1.0, 12, 0.8, 0.1),
            (1, 0.5, 29, 0.9, 0.0),
            (2, 2.0, 5, 1.0, 0.3),
            (0, 3.0, 29, 0.6, 0.5),
        ],
    )
    def test_its_filters_are_the_librarys(self, show, which, tau, k, top, least):
        shown = show("the-tap")
        text = figures.the_tap()[which]["text"]
        shown.press(text)
        for slider, value in enumerate((tau, k, top, least)):
            shown.slide(value, slider)
        each = [{"top_k": k}, {"top_p": top}, {"min_p": least}]
        counts = [len(self.python(text, tau, **setting)[0]) for setting in each]
        assert shown.texts("text.keeps") == [f"keeps {count} of 29" for count in counts]
        letters, p = self.python(text, tau, top_k=k, top_p=top, min_p=least)
        first = ", ".join(f"{a} {100 * x:.1f} %" for a, x in zip(letters[:3], p))
        assert shown.texts("text.left") == [f"After all cuts: {first}" + " \u2026" * (len(p) > 3)]
        assert f"and {len(p)} can be drawn." in shown.said
        assert len(shown.all("rect.a")) == len(p)

    def test_all_three_cuts_can_meet(self, show):
        shown = show("the-tap")
        shown.slide(7, 1)
        assert not shown.solved
        shown.slide(0.14, 3)
        while shown.texts("text.keeps")[2] != "keeps 7 of 29":
            shown.keys(RIGHT, which=3)
        assert shown.solved and "One cut by three rules" in shown.said


class TestTheCache:
    @pytest.mark.parametrize("n", [1, 6, 20])
    def test_visits_are_those_of_the_pages_loop(self, show, n):
        (plain_loop,) = figures.from_page("11_decoding", "plain_loop")
        prompt = torch.zeros(1, len(figures.the_cache()["prompt"]), dtype=torch.long)
        never = lambda logits: torch.zeros(1, dtype=torch.long)
        _, visits = plain_loop(lambda tokens: torch.zeros(1, 1, 4), prompt, n, never)
        shown = show("the-cache")
        shown.slide(n)
        assert shown.texts("text.total") == [str(visits)]
        assert f"{visits} visits. {visits - n - 2} of them are computed again" in shown.said
        shown.press("Keep keys and values")
        assert shown.texts("text.total") == [str(n + 2)]
        assert f"saves {100 * (1 - (n + 2) / visits):.0f} % of {visits}." in shown.said

    def test_nine_visits_of_ten_are_saved_from_one_length_on(self, show):
        shown = show("the-cache")
        shown.keys(" ", "button")
        found = []
        for n in range(1, 21):
            shown.slide(n)
            found.append(shown.solved)
            assert ("each letter costs one visit" in shown.said) == shown.solved
        plain = [sum(range(3, 3 + n)) for n in range(1, 21)]
        expected = [1 - (n + 2) / visits >= 0.9 for n, visits in enumerate(plain, 1)]
        assert found.index(True) == expected.index(True) and found.count(True) == 1


# ---------------------------------------------------------------- 14


class TestWhoLooksWhere:
    def python(self, number, head, off=None):
        """The answer, and what a head reads for each letter, in per cent.

        The head `off` has columns of zeros in W_o."""
        from former_nb import load_model
        from former_nb.data.tokenization import encode_texts
        from former_nb.data.toy_data import german_number
        from former_nb.decoding.number_words import greedy_decode
        from former_nb.inspection.recording import record_attention

        model, tokenizer, _ = load_model("numbers", "cpu")
        if off:
            layer = model.decoder.blocks[int(off[0]) - 1].cross
            columns = layer.w_o.weight.detach().chunk(2, dim=1)[int(off[2]) - 1]
            columns.zero_()
        src = torch.tensor(encode_texts([german_number(number)], tokenizer))
        tokens = greedy_decode(model, src, 30)[0]
        with record_attention(model) as weights, torch.no_grad():
            model(src, torch.tensor([tokens]))
        table = weights[f"decoder.blocks.{int(head[0]) - 1}.cross"][0, int(head[2]) - 1]
        return tokenizer.decode(tokens), (100 * table).round().int().tolist()

    def agrees(self, shown, number, head, letter, off=None):
        answer, table = self.python(number, head, off)
        said = f" without head {off}" if off else ""
        assert f"It writes \u201c{answer}\u201d{said}." in shown.said
        percents = [int(text or 0) for text in shown.texts("text.percent")]
        assert percents == table[letter]

    def test_by_keys_and_by_mouse(self, show):
        shown = show("who-looks-where")
        self.agrees(shown, 74, "2.1", 0)
        shown.keys(RIGHT * 9)
        self.agrees(shown, 74, "2.1", 9)
        shown.drag(".grip", 202 + 24.4 * (3 - 6), 176)
        self.agrees(shown, 74, "2.1", 3)
        shown.press("36")
        shown.keys(LEFT, "input[type=radio]", 6)
        self.agrees(shown, 36, "1.2", 3)

    @pytest.mark.parametrize("number", some([74, 21, 36, 99], 2))
    def test_the_head_that_brings_the_ones_is_found(self, show, number):
        shown = show("who-looks-where")
        shown.press(str(number))
        solved = []
        for which, off in enumerate(["1.1", "1.2", "2.1", "2.2"]):
            shown.all("fieldset:nth-of-type(3) label")[1 + which].click()
            self.agrees(shown, number, "2.1", 0, off)
            solved.append(shown.solved)
        assert solved == [False, False, False, True]


# ---------------------------------------------------------------- 15


class TestMergeByMerge:
    def test_five_words_as_on_the_page(self, show):
        shown = show("merge-by-merge")
        pieces = lambda: [row.get_attribute("data-pieces") for row in shown.all(".row")]
        assert pieces()[3] == "m\u00b7o\u00b7t\u00b7h\u00b7e\u00b7r"
        assert shown.texts("text.next") == ["next: h + e, 5 times"]
        assert shown.texts("text.count") == ["22 of 22"]
        shown.slide(4)
        assert pieces() == [
            *["the", "ther\u00b7e", "other", "m\u00b7other", "he\u00b7n", "a\u00b7n\u00b7other"],
        ]
        assert shown.texts("text.next") == ["no merge is left"]
        assert shown.texts("text.count") == ["8 of 22"]

    @pytest.mark.parametrize("n", some([57, 0, 300], 3))
    def test_twenty_pages_and_a_word_of_yours(self, show, n):
        from former_nb.data.subwords import apply_bpe, count_words, train_bpe

        (pages,) = figures.from_page("15_subwords", "pages")
        merges, words = train_bpe(count_words(pages), n), figures.merge_by_merge()[1]["words"]
        shown = show("merge-by-merge")
        shown.press("twenty pages")
        shown.slide(n)
        for word in ("another", "\u017eod\u017ei\u0173", "Statements"):
            field = shown.all("input[type=text]")[0]
            field.clear()
            field.send_keys(word)
            expected = [*words, word]
            expected = ["\u00b7".join(apply_bpe(f" {each}", merges)) for each in expected]
            assert [row.get_attribute("data-pieces") for row in shown.all(".row")] == expected
        tokens = sum(len(apply_bpe(page, merges)) for page in pages)
        assert shown.texts("text.count") == [f"{tokens:,} of 54,052"]

    def test_bytes_are_written_as_the_library_writes_them(self):
        from tokenizers.pre_tokenizers import ByteLevel

        letters = figures.byte_letters()
        assert sorted(letters) == sorted(ByteLevel.alphabet())
        text = "a \u017e\u00df\u00ad\U0001f642"
        written = "".join(letters[byte] for byte in text.encode())
        cut = ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str(text)
        assert written == cut[0][0]

    def test_the_riddle_has_one_answer(self, show):
        from former_nb.data.subwords import apply_bpe

        merges = figures.merge_by_merge()[1]["merges"]
        merges = [tuple(pair) for pair in merges]
        lengths = [len(apply_bpe(" statement", merges[:n])) for n in range(301)]
        answer = lengths.index(1)
        shown = show("merge-by-merge")
        shown.press("twenty pages")
        shown.slide(answer - 1)
        assert not shown.solved
        shown.keys(RIGHT)
        assert shown.solved and "what is written often becomes one token" in shown.said
        shown.keys(RIGHT)
        assert not shown.solved


# ---------------------------------------------------------------- 05


class TestClockHands:
    @pytest.mark.parametrize("start, distance", [(3, 4), (0, 0), (31, 32), (17, 9)])
    def test_the_dot_product_is_that_of_the_table(self, show, start, distance):
        from former_nb.attention.positions import sinusoid_table

        table = sinusoid_table(64, 16).double()
        first, second = table[start], table[start + distance]
        shown = show("clock-hands")
        shown.slide(start)
        shown.slide(distance, 1)
        each = (first * second).view(8, 2).sum(-1)
        assert shown.texts("text.alike") == [text.replace("-0.00", "0.00") for text in two(each)]
        assert shown.texts("text.total") == two([first @ second])
        assert f"Positions {start} and {start + distance}: " in shown.said

    def test_the_riddle_and_what_moving_both_changes(self, show):
        from former_nb.attention.positions import sinusoid_table

        table = sinusoid_table(33, 16)
        least = int((table @ table[0]).argmin())
        shown = show("clock-hands")
        shown.slide(least, 1)
        assert shown.solved
        before = shown.texts("text.total")
        shown.keys(RIGHT * 11)
        assert shown.solved and shown.texts("text.total") == before
        shown.keys(LEFT, which=1)
        assert not shown.solved


# ---------------------------------------------------------------- 06


class TestTheStream:
    def python(self, text, off):
        """Lengths of the stream and the next letters, without parts whose last layer is zero."""
        from former_nb import load_model
        from former_nb.data.text import BOS, PAD, UNK

        model, tokenizer, _ = load_model("names", "cpu")
        for name in off:
            kind, number = name.split()
            block = model.stack.blocks[int(number) - 1]
            last = block.attention.w_o if kind == "attention" else block.ff.w_out
            torch.nn.init.zeros_(last.weight)
            torch.nn.init.zeros_(last.bias)
        tokens = torch.tensor([[BOS, *tokenizer.encode(text)]])
        lengths = []
        with torch.no_grad():
            x = model.embed(tokens, torch.arange(tokens.shape[1]))
            lengths.append(x[0, -1].norm())
            for block in model.stack.blocks:
                x = x + block.attention(block.norm_attention(x), is_causal=True)
                lengths.append(x[0, -1].norm())
                x = x + block.ff(block.norm_ff(x))
                lengths.append(x[0, -1].norm())
            logits = model(tokens)[0, -1]
        logits[[PAD, BOS, UNK]] = -torch.inf
        p = logits.softmax(dim=-1)
        return lengths, {tokenizer.decode([i]) or "end": x.item() for i, x in enumerate(p)}

    def agrees(self, shown, text, off=()):
        lengths, p = self.python(text, off)
        assert shown.texts("text.length") == [f"{length:.1f}" for length in lengths]
        letters = next(each["letters"] for each in figures.the_stream() if each["text"] == text)
        assert shown.texts("text.share") == [f"{100 * p[letter]:.1f} %" for letter in letters]
        without = f"without {', '.join(off)}" if off else "with all parts"
        assert f"After \u201c{text}\u201d, {without}: " in shown.said

    def test_by_mouse_and_by_keys(self, show):
        shown = show("the-stream")
        self.agrees(shown, "Jo")
        shown.press("Mari")
        shown.press("attention 2")
        self.agrees(shown, "Mari", ["attention 2"])
        shown.keys(" ", "button", 5)
        self.agrees(shown, "Mari", ["attention 2", "network 3"])

    @pytest.mark.parametrize("text", some(["Kl", "Jo"], 2))
    def test_the_part_that_matters_most_is_found(self, show, text):
        shown = show("the-stream")
        shown.press(text)
        names = shown.texts(".figure-controls button")
        found = []
        for name in names:
            shown.press(name)
            found.append(shown.solved)
            assert ("Each part only adds" in shown.said) == shown.solved
            shown.press(name)
        whole = self.python(text, [])[1]
        best = max(whole, key=whole.get)
        alone = [self.python(text, [name])[1][best] for name in names]
        assert found == [share == min(alone) for share in alone]


# ---------------------------------------------------------------- 08


class TestTheValley:
    def runs(self, warmup, rate):
        """The recorded runs of a rate."""
        import json

        recorded = json.loads((figures.HERE / "the_valley.json").read_text(encoding="utf-8"))
        here = {"warmup": warmup, "rate": rate}
        return [run for run in recorded["runs"] if {**run, **here} == run]

    def short(self, nats):
        return f"{nats:.2f}" if nats >= 0.01 else f"{nats:.0e}".replace("e-0", "e-")

    @pytest.mark.parametrize("n, step, warm", [(1, 200, True), (5, 60, True), (9, 0, False)])
    def test_it_shows_what_was_recorded(self, show, n, step, warm):
        shown = show("the-valley")
        shown.slide(n)
        shown.keys(HOME + RIGHT * (step // 20), which=1)
        if not warm:
            shown.keys(" ", "button")
        rates = figures.the_valley()["rates"]
        runs = self.runs(0.05 if warm else 0.0, rates[n - 1])
        ends = [run["end"] for run in runs]
        mean, low, high = map(self.short, (sum(ends) / 3, min(ends), max(ends)))
        assert f"end at {mean} nats on average, from {low} to {high}." in shown.said
        word = runs[0]["words"][step // 20]
        assert "".join(shown.texts("text.said")) == word
        right = sum(a == b for a, b in zip(word, figures.the_valley()["word"]))
        assert f"At step {step} {right} of {len(word)} letters are right." in shown.said

    def test_the_riddle_has_one_answer(self, show):
        shown = show("the-valley")
        shown.press("Warm-up")
        rates = figures.the_valley()["rates"]
        for n, rate in enumerate(rates, 1):
            shown.slide(n)
            assert shown.solved == (rate == 0.05)
            assert ("saves two runs of three" in shown.said) == shown.solved

    def test_what_the_page_says_of_a_rate_of_a_twentieth(self):
        with_it, without = ([run["end"] for run in self.runs(w, 0.05)] for w in (0.05, 0.0))
        assert sorted(with_it)[1] < 0.001 and max(with_it) > 0.01 and min(without) > 0.4

    def test_the_lowest_mean_is_that_of_a_fiftieth(self):
        rates = figures.the_valley()["rates"]
        means = {rate: sum(run["end"] for run in self.runs(0.05, rate)) for rate in rates}
        assert min(means, key=means.get) == 0.02

    def test_the_runs_are_those_of_the_page(self):
        nb = nbformat.read(ROOT / "nbs" / "08_training.ipynb", 4)
        [cell] = [cell for cell in nb.cells if "schedules.items()" in cell.source]
        printed = cell.outputs[0].text.splitlines()
        for line, warmup in zip(printed, (0.05, 0.0)):
            ends = [run["end"] for run in self.runs(warmup, 0.01)]
            shown = [float(number) for number in re.findall(r"\d\.\d+", line)[:3]]
            assert ends == pytest.approx(shown, abs=0.0001)


# ---------------------------------------------------------------- depth


class TestTheInductionHead:
    def test_its_probabilities_are_those_of_pytorch(self, show, browser):
        import json

        show("induction-head")
        recorded = json.loads((figures.HERE / "induction_head.json").read_text(encoding="utf-8"))
        run = """
        const data = window.figureData["induction-head"], [step, tokens, cut] = arguments;
        const saved = data.saved.find((one) => one.step === step);
        return readRow(readWeights(data, saved), data.width, tokens, cut).p;
        """
        for proof in recorded["proof"]:
            tokens = [ord(letter) - 97 for letter in proof["row"]]
            for cut, expected in [(False, proof["p"]), (True, proof["without"])]:
                p = browser.execute_script(run, proof["step"], tokens, cut)
                assert p == pytest.approx(expected, abs=1e-4)

    def test_by_hand_the_bar_collapses_and_training_falls_at_once(self, show):
        shown = show("induction-head")
        share = lambda: float(re.search(r"gets ([\d.]+) %", shown.said)[1])
        assert "was followed by \u201cn\u201d" in shown.said and share() > 50
        shown.press("Cut the head of layer 1")
        assert share() < 25 and shown.solved
        assert re.search(r"and \d+ % fell to \d+ %\.$", shown.said)
        shown.keys(" ", "button")
        assert share() > 50 and not shown.solved
        shown.keys(LEFT * 6)  # the first step of training
        assert share() < 10
        field = shown.all("input[type=text]")[0]
        field.clear()
        field.send_keys("abcdefgh")
        assert "is new in this row" in shown.said


# ---------------------------------------------------------------- 10, the model of the home page


def test_what_lesson_10_says_of_the_heads_of_the_model_of_names():
    from itertools import combinations

    from former_nb import load_model
    from former_nb.data.text import BOS
    from former_nb.inspection.ablation import ablate_heads, find_heads

    model, tokenizer, _ = load_model("names", "cpu")
    tokens = torch.tensor([[BOS, *tokenizer.encode("Mari")]])

    def first(*off):
        with ablate_heads(model, off), torch.no_grad():
            return tokenizer.decode([model(tokens)[0, -1].argmax().item()])

    heads = list(find_heads(model))
    assert len(heads) == 12 and {first(head) for head in heads} == {first()} == {"j"}
    assert any(first(*pair) != "j" for pair in combinations(heads, 2))


# ---------------------------------------------------------------- without scripts


STILL = """<!doctype html><link rel="stylesheet" href="figures.css">{script}
<div class="figure" data-figure="move-a-word"><p><img src="{picture}" alt="A still"></p></div>
"""


def test_the_still_picture_is_there_without_scripts_and_where_they_fail(browser, pages):
    from selenium.webdriver.support.ui import WebDriverWait

    page = pages["move-a-word"].with_name("still.html")
    picture = (ROOT / "nbs" / "images" / "figure_move_a_word.svg").as_uri()

    def image():
        return browser.find_element("css selector", "img")

    page.write_text(STILL.format(script="", picture=picture), encoding="utf-8")
    with without_scripts(browser):
        browser.get(page.as_uri())
        assert image().is_displayed() and image().size["height"] > 200
    browser.get(page.as_uri())
    assert not image().is_displayed()  # it waits for the script
    WebDriverWait(browser, 10, 0.2).until(lambda _: image().is_displayed())
    script = "".join(
        f'<script defer src="{name}.js"></script>'
        for name in ("address", "figure", "move-a-word.data", "move-a-word")
    )
    page.write_text(STILL.format(script=script, picture=picture), encoding="utf-8")
    browser.get(page.as_uri())
    assert not image().is_displayed()
    assert browser.find_element("css selector", ".figure svg").is_displayed()


# ---------------------------------------------------------------- the home page's film


STAND = """
document.querySelector('.figure').film.show(arguments[0]);
return document.querySelector('.figure svg > [display=inline]').innerHTML;
"""


class TestFilm:
    def show(self, show, browser, *how, **more):
        """The film, and a function that shows a time of it."""
        shown = show("film", *how, **more)
        return shown, lambda t: browser.execute_script(STAND, t)

    def time(self, shown):
        return float(shown.all("input[type=range]")[0].get_property("value"))

    def whole(self, browser):
        """When the picture of each scene is whole."""
        scenes = "return document.querySelector('.figure').film.scenes"
        return [
            round(scene["from"] + scene["whole"], 2) for scene in browser.execute_script(scenes)
        ]

    def seen(self, shown, css="text"):
        """The texts that the drawing shows, without those that are faded out."""
        texts = """
        const clear = (e, name) => Number(e.getAttribute(name) ?? 1) < 0.01;
        const faded = (e) => e.tagName !== 'svg' &&
          (clear(e, 'opacity') || clear(e, 'fill-opacity') || faded(e.parentElement));
        return [...document.querySelectorAll(`.figure svg g[display=inline] ${arguments[0]}`)]
          .filter((e) => !faded(e)).map((e) => e.textContent);
        """
        return shown.browser.execute_script(texts, css)

    def test_the_words_get_the_weights_of_lesson_02_in_any_order_and_under_a_mask(
        self, show, browser
    ):
        from former_nb.attention import attention, attention_weights

        data = figures.film()["words"]
        q, k, v = (torch.tensor(data[name])[None] for name in "qkv")
        past = torch.ones(6, 6, dtype=torch.bool)[None].clone()
        past[:, 2, [1, 3, 4]] = False  # cat has changed places with mat, so it follows sat
        shown, stand = self.show(show, browser)
        first, second, third, *_ = self.whole(browser)
        for t, mask in [(first, None), (second, None), (third, past)]:
            stand(t)
            weights = attention_weights(q, k, mask)[0, 2]
            percents = [f"{round(100 * w)} %" for w in weights.tolist() if w > 0]
            assert [text for text in self.seen(shown) if text.endswith(" %")] == percents
            alive, action = attention(q, k, v, mask)[0, 2]
            said = f"sat takes home: alive {alive:.2f} \u00b7 action {action:.2f}"
            assert said in self.seen(shown)
            assert "88 %" in shown.said or "83 %" in shown.said or "no weight" in shown.said

    def test_a_name_is_written_with_the_chances_that_pytorch_computes(self, show, browser):
        from former_nb import Sampling, generate, load_model
        from former_nb.data.data_sets import load_names

        model, tokenizer, _ = load_model("names", "cpu")
        pick = Sampling(temperature=0.8, seed=0)
        name = generate(model, ["Jo"] * 8, pick=pick, tokenizer=tokenizer)[0].lower()
        assert name not in {known.lower() for known in load_names()[0]}
        shown, stand = self.show(show, browser)
        begins = browser.execute_script(
            "return document.querySelector('.figure').film.scenes[4].from"
        )
        for beat, text in enumerate(name[:n] for n in range(2, len(name) + 1)):
            with torch.no_grad():
                logits = model(torch.tensor([[1, *tokenizer.encode(text)]]))[0, -1]
            logits[[0, 1, 3]] = -torch.inf
            p = (logits / 0.8).softmax(dim=-1).topk(5)
            letters = [tokenizer.decode([token]) or "end" for token in p.indices.tolist()]
            stand(begins + 0.6 + 0.95 * beat + 0.95 * 0.36)  # the bars are whole
            chances = [f"{round(100 * x)} %" if x >= 0.005 else "< 1 %" for x in p.values.tolist()]
            assert self.seen(shown) == [*text, *sum(zip(letters, chances), ())]
        assert f"\u201c{name.capitalize()}\u201d" in shown.said

    def test_four_heads_have_the_weights_of_the_model_of_names(self, show, browser):
        from former_nb import load_model
        from former_nb.inspection.recording import record_attention

        model, tokenizer, _ = load_model("names", "cpu")
        with torch.no_grad(), record_attention(model) as weights:
            model(torch.tensor([[1, *tokenizer.encode("jotvina")]]))
        _, stand = self.show(show, browser)
        stand(self.whole(browser)[3])
        widths = """
        return [1, 2, 3, 4].map((h) => [...document.querySelectorAll(`.figure .head${h} path`)]
          .map((arc) => parseFloat(arc.style.strokeWidth)));
        """
        drawn = torch.tensor(browser.execute_script(widths))
        expected = 0.7 + 17 * weights["stack.blocks.1.attention"][0, :, -1]
        torch.testing.assert_close(drawn, expected, rtol=0, atol=0.01)

    def test_it_translates_and_ends_with_the_button(self, show, browser):
        with before_scripts(browser, FASTER):
            shown, stand = self.show(show, browser)
        end = shown.all("a.film-end")[0]
        stand(20)
        assert not end.is_displayed()
        stand(40)
        text = "".join(text for text in self.seen(shown) if len(text) == 1)
        assert text == "\u25b8einundzwanzig\u25a0twenty-one"
        assert end.is_displayed() and end.text == "Train your own"
        assert end.get_attribute("href").endswith("#your-own-model-in-a-link")
        assert "Play again" in shown.texts("button")
        stand(39.5)
        shown.press("Play")
        wait(browser, lambda: shown.texts(".figure-play") == ["Play again"])
        shown.press("Play again")
        wait(browser, lambda: 0 < self.time(shown) < 5)

    def test_a_time_has_one_picture(self, show, browser):
        _, stand = self.show(show, browser)
        times = [1.1, 8.3, 13.9, 22.4, 28.8, 36.1, 40]
        forwards = [stand(t) for t in times]
        assert forwards == [stand(t) for t in reversed(times)][::-1] and len({*forwards}) == 7

    def test_it_plays_by_itself_until_a_hand_stops_it(self, show, browser):
        shown, _ = self.show(show, browser, motion=True)
        wait(browser, lambda: self.time(shown) > 0.3)
        shown.press("Stop")
        stood = self.time(shown)
        browser.execute_script("document.body.style.paddingBottom = '3000px'; scrollTo(0, 2000)")
        browser.execute_script("scrollTo(0, 0)")
        browser.execute_async_script("setTimeout(arguments[0], 400)")
        assert self.time(shown) == stood
        shown.press("Play")
        wait(browser, lambda: self.time(shown) > stood)
        shown.keys(RIGHT)  # a step is a picture, and it stands
        assert self.time(shown) == pytest.approx(self.whole(browser)[1], abs=0.051)
        shown.press("Play")  # that scene, from its beginning
        wait(browser, lambda: 6.5 <= self.time(shown) < 11)
        shown.press("Stop")

    def test_it_is_stepped_by_buttons_and_keys_and_moved_by_its_slider(self, show, browser):
        shown, _ = self.show(show, browser)
        whole, sentences = self.whole(browser), []
        shown.keys(HOME)
        assert self.time(shown) == 0
        for at in whole[1:]:
            shown.all("button[aria-label='Next scene']")[0].click()
            assert self.time(shown) == pytest.approx(at, abs=0.051)
            sentences.append(shown.said)
        assert len({*sentences}) == 5
        shown.keys(RIGHT)
        assert self.time(shown) == pytest.approx(whole[-1], abs=0.051), "the last stays"
        shown.keys(LEFT, "button")
        shown.all("button[aria-label='Previous scene']")[0].click()
        assert self.time(shown) == pytest.approx(whole[3], abs=0.051)
        shown.keys(UP)
        assert whole[3] < self.time(shown) < whole[3] + 0.2
        slider = shown.all("input[type=range]")[0]
        assert slider.get_attribute("aria-valuetext") == "scene 4 of 6"

    def test_where_motion_is_reduced_it_is_six_pictures(self, show, browser, pages):
        shown, _ = self.show(show, browser)
        calm = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", calm)
        browser.get("about:blank")
        browser.get(pages["film"].as_uri())
        wait(browser, lambda: shown.all("input"))
        whole = self.whole(browser)
        browser.execute_async_script("setTimeout(arguments[0], 400)")
        for at in whole:
            assert self.time(shown) == pytest.approx(at, abs=0.051)
            shown.keys(RIGHT)
