"""Chromium for the tests of the site and of the viewer, shut off from the network."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUMS = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
BROWSER, DRIVER = next(filter(None, CHROMIUMS), None), shutil.which("chromedriver")
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync""".split()


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
