"""What pages of a built site weigh, and how they come: bytes, requests, first paint, layout shift.

python tools/site_weight.py _site                      twelve pages of one site
python tools/site_weight.py before/_site _site         two sites, page by page in turns

Chromium loads each page without a cache, at 10 Mbit/s and 40 ms, at two widths, and scrolls to its
end. Bytes are those of bodies as they are stored. Needs selenium, Chromium and chromedriver.
"""

import argparse
import http.server
import shutil
import tempfile
import threading
import time
from functools import partial
from pathlib import Path

PAGES = """index 00_tour 01_self_attention 03_multi_head 06_block 11_decoding 13_encoder_decoder
14_number_words deeper/05_relative_positions glossary search slides/03_multi_head""".split()
FLAGS = """--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync""".split()
WATCH = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: 'layout-shift', buffered: true });
"""
SCROLL = """
const done = arguments[0], all = document.documentElement.scrollHeight;
const go = (y) => (y > all ? setTimeout(done, 300) : (scrollTo(0, y), setTimeout(go, 30, y + 600)));
go(0);
"""
TOLD = """
const entries = performance.getEntries();
const files = entries.filter((e) => ['navigation', 'resource'].includes(e.entryType));
const paint = entries.find((e) => e.name === 'first-contentful-paint');
const bytes = files.reduce((sum, e) => sum + e.encodedBodySize, 0);
return [bytes, files.length, paint ? paint.startTime : NaN, window.shifted];
"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args): ...


def serve(folder):
    """The address at which a folder is served."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/"


def start_browser():
    """Chromium that finds this machine alone, at 10 Mbit/s and without a cache."""
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
    profile = tempfile.mkdtemp()
    rules = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    for flag in (*FLAGS, rules, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    command = browser.execute_cdp_cmd
    command("Network.enable", {})
    command("Network.setCacheDisabled", {"cacheDisabled": True})
    line = {"offline": False, "latency": 40, "downloadThroughput": 1.25e6, "uploadThroughput": 1e6}
    command("Network.emulateNetworkConditions", line)
    command("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
    return browser


def measure(browser, url, width, wait=2.5):
    """Bytes, requests and first paint in milliseconds at the top of a page; shift to its end."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get("about:blank")
    browser.get(url)
    time.sleep(wait)
    weight, requests, paint, _ = browser.execute_script(TOLD)
    browser.execute_async_script(SCROLL)
    *_, shift = browser.execute_script(TOLD)
    return weight, requests, paint, shift


def main():
    """Print a table: for each page and site kB, requests, first paint and shifts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sites", nargs="+", type=Path)
    sites = parser.parse_args().sites
    homes = [serve(site) for site in sites]
    browser = start_browser()
    head = "kB, requests, first paint ms, CLS at 1280, CLS at 390"
    print(f"{'page':32}" + " | ".join(f"{site}: {head}" for site in sites))
    try:
        for page in PAGES:
            cells = []
            for home in homes:
                wide, phone = (measure(browser, f"{home}{page}.html", w) for w in (1280, 390))
                kilo, paint = wide[0] / 1000, wide[2]
                cells.append(f"{kilo:6.0f} {wide[1]:3} {paint:6.0f} {wide[3]:.3f} {phone[3]:.3f}")
            print(f"{page:32}" + " | ".join(cells), flush=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
