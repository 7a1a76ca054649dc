"""How high each moving figure is beside its drawing, which figures.css needs so that nothing jumps.

python tools/heights.py    measure the built site, and write the list in figures.css

A page keeps a place for a figure before its script has come. The place is as high as the drawing,
which the sheet computes from the width, and all that stands around it, which is measured here.
"""

import re
import sys
import tempfile
from pathlib import Path

from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests")]

from browser_tools import set_screen, start_browser  # noqa: E402

SHEET = ROOT / "docs" / "_static" / "figures" / "figures.css"
WIDTHS = {"narrow": 390, "middle": 768, "wide": 1280, "widest": 1920}
LINE = re.compile(r'^((?:\.home )?\[data-figure="([\w-]+)"\]) \{ --high.*?\}', re.M)
CALM = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}  # it doesn't play
MEASURE = """
const box = document.querySelector(`[data-figure="${arguments[0]}"]`);
const svg = box.querySelector('svg'), high = (e) => e.getBoundingClientRect().height;
const [first, last] = box.querySelectorAll('.figure-side > :is(:first-child, :last-child)');
const beside = last.getBoundingClientRect().bottom - first.getBoundingClientRect().top;
const found = [high(box), high(svg), svg.viewBox.baseVal.height, beside];
box.classList.remove('moves');
found.push(high(box));
box.classList.add('moves');
return found;
"""


def measure(browser, page, name, width):
    """The figure, its drawing, that in its own units, its controls, and the place that was kept."""
    set_screen(browser, width)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", CALM)
    browser.get(page)
    find = f"return document.querySelector('[data-figure=\"{name}\"]')"
    browser.execute_script(f"{find}.scrollIntoView()")  # one comes when it's near
    there = f"{find}.matches('.moves:has(svg)')"
    WebDriverWait(browser, 30, 0.05).until(lambda _: browser.execute_script(there))
    browser.execute_script("return document.fonts.ready.then(() => 0)")
    return browser.execute_script(MEASURE, name)


def pages(site):
    """The page of each rule: its file, by selector."""
    found = {}
    for path in [*site.glob("*.html"), *site.glob("deeper/*.html")]:
        for name in re.findall(r'class="figure" data-figure="([\w-]+)"', path.read_text("utf-8")):
            home = ".home " if path.name == "index.html" else ""
            found[f'{home}[data-figure="{name}"]'] = name, path.resolve().as_uri()
    return found


def main():
    where = pages(ROOT / "_site")
    with tempfile.TemporaryDirectory() as profile, start_browser(profile) as browser:

        def line(match):
            name, page = where[match[1]]
            rem = dict.fromkeys(["narrow", "side", "middle", "wide", "widest"])
            for kind, width in WIDTHS.items():
                total, drawn, high, side, _ = measure(browser, page, name, width)
                rem[kind] = total - drawn
                if kind == "middle":
                    rem |= {"side": side, "middle": total - max(drawn, side)}
            rests = "".join(f" --{kind}: {pixels / 16:.1f}rem;" for kind, pixels in rem.items())
            return f"{match[1]} {{ --high: {high:.0f};{rests} }}"

        SHEET.write_text(LINE.sub(line, SHEET.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
