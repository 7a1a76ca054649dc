"""Check every right answer in the pages of a built site, in Chromium, Firefox or WebKitGTK.

  python tools/other_browsers.py firefox           after make site; one of chromium, firefox, webkit
  python tools/other_browsers.py webkit --page 01  of one lesson

Each exercise of the lessons and of the paper gets its right answer, as a reader types it, and is
checked twice; Python is loaded anew for each page. After a reload the verdicts have to be there.
Then a box of the home page's map is opened, a head is switched off, and the link opened again.
Firefox is driven by its own protocol, Marionette, since Debian has no geckodriver; WebKitGTK by
Debian's webkit2gtk-driver, on a screen or under xvfb-run.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import page_answers  # noqa: E402
from browser_tools import served, start_browser  # noqa: E402

BLOCK = ".check-here[data-number='{}']"
TYPE = """
const [css, text] = arguments, block = document.querySelector(css);
const places = [...block.querySelectorAll('textarea, .check-fields input')];
const texts = places.length > 1 || places[0].tagName === 'INPUT' ? JSON.parse(text) : [text];
places.forEach((place, i) => {
  place.value = texts[i];
  place.dispatchEvent(new Event('input'));
});
block.querySelector('.check-said').className = 'check-said';
block.querySelector('.check-go').click();
"""
SAID = """
const said = document.querySelector(arguments[0] + ' .check-said');
return /right|wrong/.test(said.className) ? said.textContent : '';
"""
PRESS = "[...document.querySelectorAll('{} button')].find((b) => /{}/.test(b.textContent)).click()"
TITLE = "return document.querySelector('.inside-title')?.textContent ?? ''"
BARS = "return document.querySelector('.inside-next').textContent"


class Firefox:
    "By Marionette: each message is its length, a colon, and JSON."

    def __init__(self):
        profile = tempfile.mkdtemp()
        command = ["firefox", "--headless", "--marionette", "--no-remote", "--profile", profile]
        quiet = dict(stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.process = subprocess.Popen(command, env=os.environ | {"HOME": profile}, **quiet)
        self.socket = self.connect()
        self.waiting, self.number = b"", 0
        self.receive()  # who it is
        found = self.ask("NewSession", capabilities={})
        self.version = "Firefox " + found["capabilities"]["browserVersion"]

    def connect(self):
        for _ in range(120):
            try:
                return socket.create_connection(("127.0.0.1", 2828))
            except OSError:
                time.sleep(0.5)
        raise OSError("Firefox does not answer")

    def receive(self):
        while b":" not in self.waiting:
            self.waiting += self.socket.recv(65536)
        size, _, rest = self.waiting.partition(b":")
        while len(rest) < int(size):
            rest += self.socket.recv(65536)
        self.waiting = rest[int(size) :]
        return json.loads(rest[: int(size)])

    def ask(self, command, **arguments):
        self.number += 1
        message = json.dumps([0, self.number, f"WebDriver:{command}", arguments]).encode()
        self.socket.sendall(f"{len(message)}:".encode() + message)
        _, _, error, result = self.receive()
        if error:
            raise RuntimeError(error["message"])
        return result

    def get(self, address):
        self.ask("Navigate", url=address)

    def run(self, script, *arguments):
        return self.ask("ExecuteScript", script=script, args=list(arguments))["value"]

    def quit(self):
        self.process.kill()


class Driven:
    "Chromium or WebKitGTK, by Selenium."

    def __init__(self, kind):
        self.open = ExitStack()
        if kind == "chromium":
            reach = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
            self.driver = self.open.enter_context(start_browser(tempfile.mkdtemp(), reach))
        else:
            from selenium import webdriver

            options = webdriver.WebKitGTKOptions()
            program = next(Path("/usr/lib").glob("*/webkit2gtk-4*/MiniBrowser"))
            options.binary_location = str(program)
            options.add_argument("--automation")
            service = webdriver.WebKitGTKService(shutil.which("WebKitWebDriver"))
            self.driver = webdriver.WebKitGTK(options=options, service=service)
            self.open.callback(self.driver.quit)
        known = self.driver.capabilities
        self.version = f"{known['browserName']} {known['browserVersion']}"
        self.get = self.driver.get
        self.run = self.driver.execute_script
        self.quit = self.open.close


def wait(browser, script, *arguments, seconds=120):
    "What a script gives once it gives something, and after how many seconds."
    start = time.monotonic()
    while time.monotonic() < start + seconds:
        if found := browser.run(script, *arguments):
            return found, time.monotonic() - start
        time.sleep(0.02)
    return "", seconds


def typed(lines, names):
    "An answer as the page's editor or fields take it."
    if names is None:
        return lines
    values = {}
    exec("import math\n" + lines, values)  # of tests/page_answers.py
    return json.dumps([repr(values[name]).strip("'") for name in names])


def check_page(browser, address, answers):
    "Check answers in one page; gives the seconds of each, the first and the second time."
    browser.get(address)
    found = {}
    for number, (names, lines) in answers.items():
        css, times = BLOCK.format(number), []
        for _ in range(2):
            browser.run(TYPE, css, typed(lines, names))
            said, seconds = wait(browser, SAID, css)
            assert said == f"{number} is right.", (number, said)
            times.append(seconds)
        found[number] = times
    browser.get("about:blank")
    browser.get(address)
    wait(browser, "return document.querySelector('.check-count')")
    for number in answers:
        said, _ = wait(browser, SAID, BLOCK.format(number), seconds=5)
        assert said == f"{number} is right.", ("after a reload", number, said)
    return found


def open_the_machine(browser, address):
    "Open the home page's model, switch a head off, open the link again."
    browser.get(address)
    wait(browser, "return document.querySelector('.live button')")
    time.sleep(2)
    browser.run(PRESS.format("", "Look inside"))
    assert wait(browser, TITLE, seconds=30)[0].startswith("Embedding")
    for _ in range(4):
        browser.run(PRESS.format(".inside", "Next"))
    before = browser.run(BARS)
    browser.run(PRESS.format(".inside", "off"))
    wait(browser, BARS.replace("return ", "return arguments[0] !== "), before, seconds=10)
    assert browser.run(BARS) != before, "a head is off, and the bars stay"
    time.sleep(1)  # the address follows
    link = browser.run("return location.href")
    assert "off=1.1" in link, link
    browser.get("about:blank")
    browser.get(link)
    assert wait(browser, TITLE, seconds=30)[0].startswith("Mix")


def field_names(expression, lines):
    "The names of an answer that is nothing but numbers, or None."
    if "def " in lines or "class " in lines or "lambda" in lines:
        return None
    return expression.strip("()[]").split(", ")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("browser", choices=["chromium", "firefox", "webkit"])
    parser.add_argument("site", nargs="?", type=Path, default=ROOT / "_site")
    parser.add_argument("--page", default="", help="how the page's name begins; all if left out")
    args = parser.parse_args()
    pages = {}
    for page, number, expression, lines in page_answers.right_answers().values():
        if page.startswith(args.page):
            names = field_names(expression, lines)
            pages.setdefault(page, {})[number] = (names, lines)
    with served(args.site) as home:
        check_all(args.browser, pages, home)


def check_all(kind, pages, home):
    "Check all pages and the home page; a line for each."
    browser = Firefox() if kind == "firefox" else Driven(kind)
    try:
        print(browser.version)
        for page, answers in pages.items():
            times = check_page(browser, f"{home}{page}.html", answers)
            cold = next(iter(times.values()))[0]
            warm = max(second for _, second in times.values())
            print(
                f"{page}: {len(times)} of {len(answers)} right, with Python to load {cold:.1f} s, "
                f"then at most {warm:.1f} s",
                flush=True,
            )
        open_the_machine(browser, f"{home}index.html")
        print("the machine opens, a head goes off, the link leads back")
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
