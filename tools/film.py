"""The film of the home page as a loop for README.md and for talks: an animated WebP.

python tools/film.py film.webp                      under 2 MB
python tools/film.py film.webp --width 1280         as wide as a talk wants it

Chromium draws each moment, since the film is a function of its time, and Pillow puts them together.
"""

import argparse
import sys
import tempfile
from io import BytesIO
from pathlib import Path

from PIL import Image

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
SHOW = "document.querySelector('.figure').film.show(arguments[0])"
REST = 3  # seconds of the last picture, before the loop begins again


def frames(browser, page, width, rate):
    """The pictures of the film, so many a second."""
    set_screen(browser, width)
    browser.get(page.as_uri())
    browser.execute_script(BARE)
    box = browser.find_element("css selector", ".figure")
    total = browser.execute_script("return document.querySelector('.figure').film.total")
    for n in range(round(total * rate) + 1):
        browser.execute_script(SHOW, n / rate)
        yield Image.open(BytesIO(box.screenshot_as_png)).convert("RGB")


def main():
    """Record the film and say what it weighs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--width", type=int, default=704, help="of the page, in pixels")
    parser.add_argument("--rate", type=int, default=10, help="pictures a second")
    parser.add_argument("--quality", type=int, default=85, help="of WebP, from 0 to 100")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as profile, start_browser(profile) as browser:
        page = write_alone("film", Path(profile))
        first, *others = frames(browser, page, args.width, args.rate)
    lasts = [round(1000 / args.rate)] * len(others) + [1000 * REST]
    how = {"quality": args.quality, "method": 4, "allow_mixed": True, "kmax": 40}
    first.save(args.file, save_all=True, append_images=others, duration=lasts, loop=0, **how)
    print(f"{args.file}: {len(lasts)} pictures, {args.file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
