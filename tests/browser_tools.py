"""Chromium for the tests of the site and of the viewer, shut off from the network."""

import http.server
import shutil
import threading
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

CHROMIUMS = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
BROWSER, DRIVER = next(filter(None, CHROMIUMS), None), shutil.which("chromedriver")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync""".split()
AXE = """
const [tags, without, done] = arguments, bad = v => ['serious', 'critical'].includes(v.impact);
const say = v => v.nodes.map(n => `${v.id}: ${n.target} ${n.failureSummary}`);
const how = { runOnly: tags, resultTypes: ['violations'], preload: false };
axe.run({ include: [['html']], exclude: without }, how)
  .then(found => done(found.violations.filter(bad).flatMap(say)), e => done([String(e)]));
"""
STANDARDS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): ...


@contextmanager
def served(folder, handler=Quiet):
    "The address at which a folder is served."
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@contextmanager
def start_browser(profile, rules="MAP * ~NOTFOUND", flags=(), seconds=30):
    "A driver with logs; `rules` say which hosts it finds, a script may take so many `seconds`."
    webdriver = pytest.importorskip("selenium.webdriver")
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, *flags, f"--host-resolver-rules={rules}", f"--user-data-dir={profile}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(seconds)
    driver.get("about:blank")
    driver.get_log("performance")  # what the browser asked its own start page for
    yield driver
    driver.quit()


def set_screen(browser, width=1280, theme="light"):
    "Give pages a width that the window itself may refuse, and the theme of day or night."
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    media = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def open_page(browser, url):
    "Open a page; once more where the one before it, slides at a new width, reloads itself instead."
    for _ in range(5):
        browser.get(url)
        if (
            urlsplit(browser.current_url).path == urlsplit(url).path
        ):  # a page may add what it is asked
            return
    raise AssertionError(f"{browser.current_url} stays open instead of {url}")


@contextmanager
def before_scripts(browser, source):
    "Run this in every page before its own scripts."
    add = "Page.addScriptToEvaluateOnNewDocument"
    made = browser.execute_cdp_cmd(add, {"source": source})
    yield
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)


@contextmanager
def without_scripts(browser):
    "Pages whose scripts are switched off."
    switch = lambda off: browser.execute_cdp_cmd(
        "Emulation.setScriptExecutionDisabled", {"value": off}
    )
    switch(True)
    yield
    switch(False)


@contextmanager
def touched(browser):
    "A screen that is touched."
    switch = lambda on: browser.execute_cdp_cmd(
        "Emulation.setTouchEmulationEnabled", {"enabled": on}
    )
    switch(True)
    try:
        yield
    finally:
        switch(False)


def serious(browser, *without):
    "What axe-core finds serious or critical on the page, except in elements `without`."
    axe = Path(pytest.importorskip("selenium_axe_python").__file__).with_name("axe-core")
    browser.execute_script((axe / "axe.min.js").read_text(encoding="utf-8"))
    return browser.execute_async_script(AXE, STANDARDS, [[css] for css in without])
