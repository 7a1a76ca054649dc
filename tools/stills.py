"""The still pictures of the moving figures: each as it begins, recorded by Chromium.

python tools/stills.py        write nbs/images/figure_NAME.svg for every figure
python tools/stills.py NAME   for one

A notebook shows them where no script runs. tests/test_figures.py compares them with the figures.
"""

import re
import sys
import tempfile
from html import escape
from pathlib import Path

from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tests")]

from browser_tools import set_screen, start_browser  # noqa: E402
from course_figures import FIGURES, STATIC, sheet_of, write_alone  # noqa: E402

IMAGES = ROOT / "nbs" / "images"
HUES = dict(q="#0072b2", k="#d55e00", v="#009e73", a="#b0508a")
DAY = dict(HUES, n="#6b7480", ink="#1f2328", soft="#4b535d", rule="#d0d7de", paper="#ffffff")
NIGHT = dict(HUES, n="#9aa4b0", ink="#e8eaed", soft="#b4bcc6", rule="#3a414a", paper="#15181c")
RECORD = """
const svg = document.querySelector('.figure svg').cloneNode(true);
svg.querySelectorAll('[display="none"]').forEach((e) => e.remove());
for (const e of svg.querySelectorAll('*'))
  for (const name of [...e.getAttributeNames()])
    if (/^(aria-|role|tabindex|data-part)/.test(name)) e.removeAttribute(name);
const text = (css) => document.querySelector('.figure ' + css).textContent;
return [svg.innerHTML, svg.getAttribute('viewBox'), text('.figure-head b'), text('.figure-says')];
"""


def rules(drawn, own):
    """The rules for what is drawn, with a figure's own, without those of what isn't there."""
    sheets = [STATIC / "figures.css", STATIC / own] if own else [STATIC / "figures.css"]
    css = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets)
    found = re.findall(r"^\.figure svg (\S.*?\})$", css, re.M)
    kept = [
        rule
        for rule in found
        if not re.search(
            r":(focus|hover)|pointer-events|\.(handle|cell|letter|grip|scrub) \{", rule
        )
    ]
    text = "\n".join(kept).replace(".handle .reach", ".reach")
    there = set(" ".join(re.findall(r'class="([^"]*)"', drawn)).split())
    needed = [set(re.findall(r"\.([a-z]\w*)", rule.partition("{")[0])) for rule in text.split("\n")]
    return "\n".join(rule for rule, some in zip(text.split("\n"), needed) if some <= there)


def colored(text, colors):
    """Rules with these colours in place of variables."""
    return re.sub(r"var\(--fig-(\w+)\)", lambda match: colors[match[1]], text)


def moves(browser):
    """Whether the figure has begun."""
    return browser.find_elements("css selector", ".figure.moves svg")


def still(browser, page):
    """The drawing of a figure, as it begins on a phone with reduced motion, as its own SVG."""
    set_screen(browser, 430)
    calm = {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", calm)
    browser.get(page.as_uri())
    WebDriverWait(browser, 30, 0.05).until(moves)  # the parts of one come later
    drawn, box, title, said = browser.execute_script(RECORD)
    wide, high = map(int, box.split()[2:])
    tall = round(high * 404 / wide) + 20  # with a margin; as wide as the lessons' drawings
    size = f'viewBox="0 0 404 {tall}" width="485" height="{tall * 1.2:.0f}"'
    panel = f'<rect class="panel" x="1" y="1" width="402" height="{tall - 2}" rx="10"/>'
    text = rules(drawn, sheet_of(page.stem))
    frame = ".panel{{fill:{paper};stroke:{rule}}}"
    day, night = (f"{colored(text, colors)}\n{frame.format(**colors)}" for colors in (DAY, NIGHT))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d">',
            f'<title id="t">{escape(title)}</title>',
            f'<desc id="d">{escape(said)}</desc>',
            f"<style>{day}",
            f"@media (prefers-color-scheme:dark){{\n{night}\n}}</style>",
            panel,
            f'<g transform="translate(12 10) scale({380 / wide:.3f})">{drawn}</g>',
            "</svg>\n",
        ]
    )


def main():
    calm = ["--force-prefers-reduced-motion"]
    with tempfile.TemporaryDirectory() as profile, start_browser(profile, flags=calm) as browser:
        for name in sys.argv[1:] or FIGURES:
            with tempfile.TemporaryDirectory() as folder:
                svg = still(browser, write_alone(name, Path(folder)))
            path = IMAGES / f"figure_{name.replace('-', '_')}.svg"
            path.write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
