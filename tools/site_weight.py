"""What pages of a built site weigh, and how they come: bytes, requests, first paint, layout shift.

python tools/site_weight.py _site                      twelve pages of one site
python tools/site_weight.py before/_site _site         two sites, page by page in turns

Chromium loads each page without a cache, at 10 Mbit/s and 40 ms, at two widths, and scrolls to its
end. Bytes are those of bodies as they are stored. Needs selenium, Chromium and chromedriver.
"""

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser_tools import before_scripts, served, set_screen, start_browser  # noqa: E402

PAGES = """index 00_tour 01_self_attention 03_multi_head 06_block 11_decoding 13_encoder_decoder
14_number_words deeper/05_relative_positions glossary search slides/03_multi_head""".split()
REACH = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # this machine alone
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


def slow_down(browser):
    """No cache, and 10 Mbit/s."""
    command = browser.execute_cdp_cmd
    command("Network.enable", {})
    command("Network.setCacheDisabled", {"cacheDisabled": True})
    line = {"offline": False, "latency": 40, "downloadThroughput": 1.25e6, "uploadThroughput": 1e6}
    command("Network.emulateNetworkConditions", line)


def measure(browser, url, width, wait=2.5):
    """Bytes, requests and first paint in milliseconds at the top of a page; shift to its end."""
    set_screen(browser, width)
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
    head = "kB, requests, first paint ms, CLS at 1280, CLS at 390"
    print(f"{'page':32}" + " | ".join(f"{site}: {head}" for site in sites))
    with ExitStack() as stack:
        homes = [stack.enter_context(served(site)) for site in sites]
        browser = stack.enter_context(start_browser(tempfile.mkdtemp(), REACH))
        stack.enter_context(before_scripts(browser, WATCH))
        slow_down(browser)
        for page in PAGES:
            cells = []
            for home in homes:
                wide = measure(browser, f"{home}{page}.html", 1280)
                phone = measure(browser, f"{home}{page}.html", 390)
                kilo, paint = wide[0] / 1000, wide[2]
                cells.append(f"{kilo:6.0f} {wide[1]:3} {paint:6.0f} {wide[3]:.3f} {phone[3]:.3f}")
            print(f"{page:32}" + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
