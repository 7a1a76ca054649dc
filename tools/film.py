"""The film of the home page as a loop for README.md and for talks: an animated WebP.

python tools/film.py                               README's, under 1 MB
python tools/film.py talk.webp --width 1280        as wide as a talk wants it

Chromium draws each moment, since the film is a function of its time, and Pillow puts them together.
Flat drawings need few colours, so all are tints of the film's own, and nothing else is lost. A
picture that doesn't change stays.
"""

import argparse
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image, ImageColor

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "docs" / "_ext"), str(ROOT / "tests")]

from browser_tools import set_screen, start_browser  # noqa: E402
from course_figures import write_alone  # noqa: E402

BARE = """
const style = document.createElement("style");
style.textContent = "h1, .figure-controls, .figure-head i { display: none } " +
  ".figure.moves { border: 0; margin: 0 }";
document.head.append(style);
"""
COLORS = """
const style = getComputedStyle(document.querySelector('.figure'));
return arguments[0].map((name) => style.getPropertyValue(`--fig-${name}`).trim());
"""
INKS = {
    "ink": 12,
    "k": 10,
    "q": 9,
    "v": 9,
    "a": 9,
    "n": 8,
    "h1": 6,
    "h2": 6,
    "h3": 6,
    "h4": 6,
}  # tints
SHOW = "document.querySelector('.figure').film.show(arguments[0])"
REST = 3  # seconds of the last picture, before the loop begins again


def palette(browser):
    """Paper, and the tints of each colour of the film."""
    colors = [(255, 255, 255)]
    for ink, many in zip(browser.execute_script(COLORS, list(INKS)), INKS.values()):
        for n in range(1, many + 1):
            colors.append(tuple(255 - (255 - c) * n // many for c in ImageColor.getrgb(ink)))
    colors += colors[:1] * (256 - len(colors))
    image = Image.new("P", (1, 1))
    image.putpalette([part for color in colors for part in color])
    return image


def frames(browser, page, width, rate):
    """The pictures of the film, so many a second."""
    set_screen(browser, width)
    browser.get(page.as_uri())
    browser.execute_script(BARE)
    box = browser.find_element("css selector", ".figure")
    colors = palette(browser)
    total = browser.execute_script("return document.querySelector('.figure').film.total")
    for n in range(round(total * rate) + 1):
        browser.execute_script(SHOW, n / rate)
        image = Image.open(BytesIO(box.screenshot_as_png)).convert("RGB")
        yield image.quantize(palette=colors, dither=Image.Dither.NONE).convert("RGB")


def main():
    """Record the film and say what it weighs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    readme = ROOT / "nbs" / "images" / "film.webp"
    parser.add_argument("file", type=Path, nargs="?", default=readme)
    parser.add_argument("--width", type=int, default=704, help="of the page, in pixels")
    parser.add_argument("--rate", type=int, default=12, help="pictures a second")
    args = parser.parse_args()
    pictures, lasts = [], []
    with tempfile.TemporaryDirectory() as profile, start_browser(profile) as browser:
        page = write_alone("film", Path(profile))
        for picture in frames(browser, page, args.width, args.rate):
            if not pictures or picture != pictures[-1]:
                pictures.append(picture)
                lasts.append(0)
            lasts[-1] += round(1000 / args.rate)
    lasts[-1] += 1000 * REST
    how = {"lossless": True, "quality": 80, "method": 4, "minimize_size": True}
    first, *others = pictures
    first.save(args.file, save_all=True, append_images=others, duration=lasts, loop=0, **how)
    print(f"{args.file}: {len(lasts)} pictures, {args.file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
