"""The ladder of the home page: its steps open into the models that stand on them."""

import csv
import html
import re
import sys
from pathlib import Path

import pytest
from browser_tools import BROWSER, DRIVER, serious, set_screen, start_browser, touched

ROOT = Path(__file__).resolve().parents[1]

pytest.importorskip("nbformat")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_ladder as ladder

PAGE = """<!doctype html><html lang="en"><title>Ladder</title><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="ladder.css">
<style>:root {{ --rule: #ccc; --soft: #4b535d; --ink: #1f2328; --q: #0072b2 }}</style>
<script defer src="ladder.js"></script><main><h1>Ladder</h1>{steps}</main></html>"""


def table():
    path = ROOT / "former_nb" / "ladder" / "course.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["rung"]: row for row in csv.DictReader(file)}


def test_each_step_has_the_number_and_the_names_that_were_measured():
    found = re.findall(r'data-rung="(\w+)".*?</details>', ladder.steps(str), re.S)
    rows = {key: row for key, row in table().items() if key not in ladder.LEFT_OUT}
    assert found == [*rows]
    steps = re.findall(r"<details.*?</details>", html.unescape(ladder.steps(str)), re.S)
    for row, step in zip(rows.values(), steps):
        assert f"<i>{float(row['nats']):.2f}</i>" in step and row["what"] in step
        assert f"{float(row['nats']):.3f}" in step and f"It writes <em>{row['names']}</em>" in step
        assert (f"± {float(row['spread']):.3f}" in step) == (float(row["spread"]) > 0)
        page, anchor = re.search(r'href="(\w+)\.html(#the-number)?"', step).groups()
        source = (ROOT / "nbs" / f"{page}.ipynb").read_text(encoding="utf-8")
        assert bool(anchor) == ("## The number" in source)


def test_each_definition_of_the_file_is_added_by_one_step_as_its_lesson_shows_it():
    codes = {one.key: ladder.code_of(one.key) for one in ladder.rungs()}
    assert all(codes.values())
    for key, names in {
        "00a": ["def even"],
        "01": ["def last_asks"],
        "02": ["def attention_weights(q, k):", "def attention(q, k, v):", "class OneHead"],
        "03": ["class MultiHeadAttention"],
        "04": ["is_causal=False", "def padding_mask"],
        "06b": ["class FeedForward"],
        "06c": ["class Block", "class Stack"],
        "08a": ["def batch_loss", "def train_step", "def warmup_cosine", "def fit"],
        "08b": ["Writer(n_blocks=2)"],
        "12": ["class RMSNorm", "def modern_decoder"],
    }.items():
        for name in names:
            assert name in codes[key], (key, name)
    shown = "\n\n".join(codes.values())
    assert shown.count("class Block(") == shown.count("class FeedForward(") == 1
    assert '"""' not in shown and "docstring" not in shown


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium or chromedriver")
def test_a_key_or_a_finger_opens_a_step(tmp_path):
    class App:
        class builder:
            format = "html"

        outdir = tmp_path

    ladder.write_code(App)
    folder = tmp_path / "_static" / "ladder"
    for path in (ROOT / "docs" / "_static" / "ladder").iterdir():
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "page.html").write_text(PAGE.format(steps=ladder.steps(str)), encoding="utf-8")
    with start_browser(tmp_path / "profile") as browser, touched(browser):
        set_screen(browser, 390)
        browser.get((folder / "page.html").as_uri())
        summaries = browser.find_elements("css selector", "summary")
        assert all(one.size["height"] >= 44 for one in summaries)
        assert browser.execute_script("return window.ladderCode") is None  # it comes with a step
        summaries[2].send_keys("\ue007")
        summaries[3].click()
        from selenium.webdriver.support.ui import WebDriverWait

        codes = lambda: [e.text for e in browser.find_elements("css selector", "[open] pre")]
        WebDriverWait(browser, 10, 0.1).until(lambda _: len(codes()) == 2)
        assert "class OneHead" in codes()[1] and "is-q" in browser.page_source
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert serious(browser) == []
