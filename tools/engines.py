"""Walk a built site on a phone's width in another browser, by mouse, finger and keyboard.

  python tools/engines.py firefox                 after make site; webkit wants a screen or xvfb-run
  python tools/engines.py webkit 04_masks 05_positions

The browser is Chromium, Firefox or WebKitGTK. On home the film begins by itself and ends with its
button, and *Look inside* opens the model. In a lesson each figure plays, and what can be dragged in
it moves, by a finger too if the browser's driver has one; the first editor takes keys, and
Ctrl+Enter checks. Nowhere is an error in the console, or anything wider than the page.
"""

import argparse
import base64
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser_tools import Quiet, served  # noqa: E402
from other_browsers import PRESS, TITLE, Driven, Firefox, wait  # noqa: E402

WIDTH = 390
LESSONS = ["04_masks", "05_positions", "14_number_words"]
FRAME = f"""<!doctype html><title>A phone</title>
<iframe style="position: fixed; inset: 0; border: 0; width: {WIDTH}px; height: 100%"></iframe>
"""
TAPPED = (".cell", ".letter + .letter")
HEAR = """
document.querySelector('iframe').style.pointerEvents = 'none';
const hear = (event) => {
  window.heard = event.pointerType;
  document.querySelector('iframe').style.pointerEvents = '';
};
addEventListener('pointerdown', hear, { once: true });
"""
ERRORS = """
window.walkErrors = [];
for (const kind of ["error", "unhandledrejection"])
  addEventListener(kind, ({ message, reason, target }) =>
    walkErrors.push(String(message ?? reason ?? target.src ?? target.href)), true);
const sayError = console.error;
console.error = (...words) => { walkErrors.push(words.join(" ")); sayError(...words); };
"""
WIDER = """
const scrolls = 'svg, mjx-container, pre, .cm-editor, table, .sr-only';
return [...document.querySelectorAll('main *')].filter((e) => !e.closest(scrolls))
  .filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
  .slice(0, 3).map((e) => e.outerHTML.slice(0, 90));
"""
CENTRE = """
const e = [...document.querySelectorAll(arguments[0])].find((e) => e.getBoundingClientRect().width);
if (!e) return null;
e.scrollIntoView({ block: 'center', behavior: 'instant' });
const { x, y, width, height } = e.getBoundingClientRect();
return [Math.round(x + width / 2), Math.round(y + height / 2)];
"""
LOOKS = "const f = document.querySelector(arguments[0]); return f.querySelector('svg').innerHTML"
LOADED = """
const { location, document } = frames[0];
return location.href.endsWith(arguments[0]) && document.readyState === 'complete';
"""
NAMES = "return [...document.querySelectorAll('.figure')].map((f) => f.dataset.figure)"
LIVE = "return /Look inside/.test(document.querySelector('.live').textContent)"
SAID = """
const said = document.querySelector(arguments[0] + ' .check-said');
return /right|wrong/.test(said.className) && said.textContent;
"""
ENTER, CONTROL = "\ue007", "\ue009"


class Handler(Quiet):
    "A site whose pages keep their errors, and beside it a phone."

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        made = {"/phone.html": FRAME, "/errors.js": ERRORS}.get(self.path)
        if made is None and path.suffix != ".html":
            return super().do_GET()
        text = made or path.read_text(encoding="utf-8")
        held = text.replace("<head>", '<head><script src="/errors.js"></script>', 1).encode()
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(self.path))
        self.send_header("Content-Length", str(len(held)))
        self.end_headers()
        self.wfile.write(held)


class Phone:
    "A page in a frame, for a window is never so narrow; both begin in the same corner."

    def __init__(self, kind, home):
        self.browser = Firefox() if kind == "firefox" else Driven(kind)
        self.version, self.quit = self.browser.version, self.browser.quit
        self.run = self.browser.run
        self.ask("setWindowRect", x=0, y=0, width=800, height=1000)
        self.browser.get(f"{home}phone.html")
        self.touches = self.has_fingers()

    def ask(self, command, **arguments):
        "A command of WebDriver that other_browsers.py has no use for."
        if isinstance(self.browser, Firefox):
            return self.browser.ask(command[0].upper() + command[1:], **arguments)
        names = {"performActions": "actions"}  # as Selenium calls it
        return self.browser.driver.execute(names.get(command, command), arguments)

    def get(self, page):
        self.ask("switchToFrame", id=None)
        self.run("document.querySelector('iframe').src = arguments[0]", f"/{page}.html")
        wait(self.browser, LOADED, f"/{page}.html")
        self.ask("switchToFrame", id=0)

    def act(self, kind, *steps, name="", **more):
        actions = [{"type": kind, "id": name or kind, "actions": list(steps), **more}]
        self.ask("performActions", actions=actions)

    def has_fingers(self):
        "Whether a touch arrives as one; a driver may refuse it, or send a mouse."
        self.run(HEAR)
        try:
            self.drag("iframe", pointer="touch")
        except Exception as error:
            print("no touch:", str(error).partition("\n")[0], flush=True)
            return False
        return self.run("return window.heard") == "touch"

    def drag(self, css, by=0, pointer="mouse"):
        "Press where an element is, and move so far to the right; without `by` it's a click."
        x, y = self.run(CENTRE, css)
        steps = [
            {"type": "pointerMove", "x": x + by * n // 4, "y": y, "origin": "viewport"}
            for n in range(5 if by else 1)
        ]
        press, lift = ({"type": f"pointer{way}", "button": 0} for way in ("Down", "Up"))
        steps = [steps[0], press, *steps[1:], lift]
        self.act("pointer", *steps, name=pointer, parameters={"pointerType": pointer})

    def keys(self, text, held=None):
        strokes = [{"type": way, "value": key} for key in text for way in ("keyDown", "keyUp")]
        if held:
            down, up = ({"type": way, "value": held} for way in ("keyDown", "keyUp"))
            strokes = [down, *strokes, up]
        self.act("key", *strokes)

    def picture(self, path):
        self.ask("switchToFrame", id=None)
        firefox = isinstance(self.browser, Firefox)
        held = self.ask("takeScreenshot", full=False) if firefox else self.ask("screenshot")
        path.write_bytes(base64.b64decode(held["value"]))

    def faults(self):
        "What the console said, and what is wider than the page."
        return self.run("return walkErrors") + self.run(WIDER)


def walk_home(phone):
    "The film and the open model; gives what went wrong."
    phone.get("index")
    time = "return Number(document.querySelector('.film-time input')?.value ?? 0)"
    film = "[data-figure=film]"
    wait(phone, f"return document.querySelector('{film} .figure-says')")
    phone.run(CENTRE, f"{film} svg")
    if not wait(phone, f"{time} > 1", seconds=15)[0]:
        yield "the film doesn't begin"
    phone.run("document.querySelector('[data-figure=film]').film.show(38)")
    phone.drag(f"{film} .figure-play")
    ended = f"return document.querySelector('{film} .figure-play').textContent === 'Play again'"
    if not wait(phone, ended, seconds=20)[0]:
        yield "the film doesn't end"
    phone.run(CENTRE, ".live button")
    wait(phone, LIVE)
    phone.run(PRESS.format("", "Look inside"))
    if not wait(phone, TITLE, seconds=30)[0].startswith("Embedding"):
        yield "Look inside shows nothing"
    yield from phone.faults()


def walk_lesson(phone, page):
    "Its figures and its first editor; gives what went wrong."
    phone.get(page)
    for name in phone.run(NAMES):
        figure = f"[data-figure={name}]"
        phone.run(CENTRE, figure)
        wait(phone, f"return document.querySelector('{figure}.moves svg')?.innerHTML", seconds=30)
        phone.run(CENTRE, f"{figure} svg")
        playing = f"return document.querySelector('{figure}').classList.contains('plays')"
        can_play = phone.run(f"return !!document.querySelector('{figure} .figure-play')")
        if can_play and not wait(phone, playing, seconds=10)[0]:
            yield f"{name} doesn't play"
        phone.drag(f"{figure} .figure-head")  # a touch stops it
        before = phone.run(LOOKS, figure)
        for css in (".handle", ".grip", *TAPPED):
            if phone.run(CENTRE, f"{figure} {css}"):
                phone.drag(f"{figure} {css}", 45 if css not in TAPPED else 0)
                if phone.run(LOOKS, figure) == before:
                    yield f"{name} doesn't follow a hand"
                before = phone.run(LOOKS, figure)
                if phone.touches:
                    phone.drag(f"{figure} {css}", -30 if css not in TAPPED else 0, "touch")
                    if phone.run(LOOKS, figure) == before:
                        yield f"{name} doesn't follow a finger"
                break
    block = ".check-here:has(textarea)"
    phone.run(CENTRE, f"{block} .check-go")
    wait(phone, f"return document.querySelector('{block} .cm-content')", seconds=20)
    phone.drag(f"{block} .cm-content")
    phone.keys("# typed")
    if "# typed" not in phone.run(f"return document.querySelector('{block} textarea').value"):
        yield "the editor takes no keys"
    phone.keys(ENTER, CONTROL)
    if not wait(phone, SAID, block, seconds=180)[0]:
        yield "Ctrl+Enter checks nothing"
    yield from phone.faults()


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("browser", choices=["chromium", "firefox", "webkit"])
    parser.add_argument("page", nargs="*", default=LESSONS)
    parser.add_argument("--site", type=Path, default=ROOT / "_site")
    args = parser.parse_args()
    pictures = Path(tempfile.mkdtemp())
    wrong = 0
    with served(args.site, Handler) as home:
        phone = Phone(args.browser, home)
        try:
            touch = "touch" if phone.touches else "no touch by its driver"
            print(f"{phone.version}, {touch}, pictures: {pictures}", flush=True)
            for page in ["index", *args.page]:
                found = list(walk_home(phone) if page == "index" else walk_lesson(phone, page))
                phone.picture(pictures / f"{page}.png")
                wrong += len(found)
                print(f"{page}: {'; '.join(map(str, found)) or 'all well'}", flush=True)
        finally:
            phone.quit()
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main())
