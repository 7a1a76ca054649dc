"""The button *check here*: what the build stores with the site, and what a browser makes of it.

The browser tests need Chromium with chromedriver, and Pyodide, from the cache or from the npm
registry; they make a page of their own, so that the site need not be built.
"""

import hashlib
import io
import json
import re
import shutil
import sys
import tarfile
import zipfile
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from browser_tools import (
    BROWSER,
    DRIVER,
    before_scripts,
    serious,
    served,
    set_screen,
    start_browser,
    without_scripts,
)
from thorough import some

ROOT = Path(__file__).resolve().parents[1]
pytest.importorskip("sphinx", reason="the site's requirements are not installed")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import check_here
import page_policy
import test_page_torch

from former_nb.grading.your_file import NAMES

ALL = len(NAMES)

RIGHT = """def my_self_attention(x):
    return (x @ x.mT).softmax(dim=-1) @ x
"""
WEIGHTS = """def attention_weights(q, k, mask=None, is_causal=False):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1)
"""
MINE = """def my_attention(q, k, v):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(dim=-1) @ v
"""
MINE_ATTENTION = """def attention(q, k, v, mask=None, is_causal=False):
    return attention_weights(q, k) @ v
"""
TRAIN = """def my_train(model, batches, optimizer):
    losses = []
    for inputs, targets in batches:
        loss = batch_loss(model, (inputs, targets))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses"""
PREDICT_NAMES = ["steps", "evaluations", "calls"]
PREDICT = "steps = ...\nevaluations, calls = ..., ..."
RUNG = """set_seed(0)
model = Names(lambda x: x[:, -1])
train(model, inputs, targets, steps=100)
rung("01", "the last letter", model, contexts)"""
FACES = re.compile(r"@font-face \{.*?\}", re.S)
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Check</title>
<script>{first}</script><meta name="viewport" content="width=device-width">
<style>body, a {{ color: var(--ink); background: var(--paper) }}</style>
<link rel="stylesheet" href="_static/base.css"><link rel="stylesheet" href="_static/check.css">
<script defer src="_static/editor.js"></script>
<script defer src="_static/check.js"></script><main><h1>Exercises</h1>{blocks}</main></html>
"""


# ---------------------------------------------------------------- what the build stores


def package_of(files):
    "An npm package with these files."
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(f"package/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def build(folder):
    "What the extension does at the start of a build; the app as it is then."
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=folder)
    check_here.write_files(app)
    return app


@pytest.fixture
def pinned(monkeypatch, tmp_path):
    "A package of our own in the place of Pyodide's, and an empty cache."
    package = package_of({name: name.encode() for name in [*check_here.TAKEN, "unused.d.ts"]})
    monkeypatch.setattr(check_here, "SHA256", hashlib.sha256(package).hexdigest())
    monkeypatch.setattr(check_here, "cache_folder", lambda: tmp_path / "cache")
    return package


def test_the_core_comes_once_and_only_the_needed_files_are_stored(pinned, monkeypatch, tmp_path):
    calls = []
    fetch = lambda: calls.append(1) or pinned
    assert check_here.pyodide_package(fetch) == pinned == check_here.pyodide_package(fetch)
    assert len(calls) == 1  # the second one came from the cache
    app = build(tmp_path / "site")
    folder = tmp_path / "site/_static/py"
    assert app.check_here
    assert {p.name for p in (folder / check_here.PYODIDE).iterdir()} == set(check_here.TAKEN)
    manifest = json.loads((folder / "files.json").read_text())
    assert all((folder / name).stat().st_size == size for name, size in manifest["sizes"].items())
    assert "MPL-2.0" in (folder / "LICENSES.txt").read_text()


@pytest.mark.parametrize(
    ("fetch", "said"),
    [(OSError("no network"), "no network"), (b"something else", "not the pinned one")],
)
def test_without_the_pinned_package_one_line_says_so(
    fetch, said, pinned, monkeypatch, tmp_path, capsys
):
    def download():
        if isinstance(fetch, OSError):
            raise fetch
        return fetch

    monkeypatch.setattr(check_here.pyodide_package, "__defaults__", (download,))
    app = build(tmp_path / "site")
    printed = capsys.readouterr().out
    assert not app.check_here and printed.count("\n") == 1
    assert "No button" in printed and said in printed
    assert not (tmp_path / "site/_static/py").exists() and not (tmp_path / "cache").exists()


def test_without_npm_it_is_a_plain_download_from_the_registry(pinned, monkeypatch):
    asked = []

    def opened(address, timeout):
        asked.append(address)
        return io.BytesIO(pinned)

    monkeypatch.setattr(check_here.shutil, "which", lambda name: None)
    monkeypatch.setattr(check_here.urllib.request, "urlopen", opened)
    monkeypatch.setenv("npm_config_registry", "https://mirror.example/npm/")
    assert check_here.download() == pinned
    monkeypatch.delenv("npm_config_registry")
    assert check_here.download() == pinned
    name = f"pyodide/-/pyodide-{check_here.PYODIDE}.tgz"
    assert asked == [f"https://mirror.example/npm/{name}", f"{check_here.REGISTRY}{name}"]


def test_the_course_is_one_archive_and_the_same_files_make_the_same_bytes(tmp_path):
    check_here.write_course(tmp_path / "a.zip")
    check_here.write_course(tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    names = set(zipfile.ZipFile(tmp_path / "a.zip").namelist())
    assert {"torch/__init__.py", "in_page.py", "former_nb/exercises/lesson_05.py"} <= names
    assert "former_nb/cli.py" not in names and "einops/einops.py" in names


def test_each_exercise_of_the_pages_has_a_place_with_what_the_reader_begins_with():
    from docutils import nodes
    from docutils.core import publish_doctree

    for page in check_here.PAGES:
        notebook = json.loads((ROOT / f"nbs/{page}.ipynb").read_text(encoding="utf-8"))
        text = "\n".join("".join(cell["source"]) for cell in notebook["cells"])
        tree = publish_doctree("")
        for number, expression in dict.fromkeys(
            check_here.re.findall(r"`check\((.*?), (.*)\)`", text)
        ):
            literal = nodes.literal("", f"check({number}, {expression})")
            tree += nodes.paragraph("", "", literal)
        check_here.add_blocks(SimpleNamespace(env=SimpleNamespace(docname=page)), tree)
        places = [node.astext() for node in tree.findall(nodes.raw)]
        cells = check_here.page_cells(ROOT / f"nbs/{page}.ipynb")
        live = [cell for cell in cells if "exercise" in cell]
        assert len(places) == len(list(tree.findall(nodes.literal)))
        assert len(places) + len(live) >= (1 if page == "milestone_llama" else 2)
        assert all("..." in place and "data-expression" in place for place in places)


def test_a_rung_that_cannot_train_in_the_page_says_once_what_can():
    from docutils import nodes
    from docutils.core import publish_doctree

    for page, rung in [("01_self_attention", "01"), ("06_block", "06a")]:
        tree = publish_doctree("")
        for _ in range(2):
            code = nodes.literal_block("", f'train(model)\nrung("{rung}", "new", model)')
            tree += nodes.container("", code, classes=["cell"])
        check_here.add_blocks(SimpleNamespace(env=SimpleNamespace(docname=page)), tree)
        places = [node.astext() for node in tree.findall(nodes.raw)]
        said = [node.astext() for node in tree.findall(nodes.paragraph)]
        if rung in check_here.TRAINED:
            assert len(places) == 1 and "train-here" in places[0] and not said
        else:
            assert not places and said == [check_here.TOO_LONG]


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    "A folder with a page of two exercises, as the site would have it."
    try:
        check_here.pyodide_package()
    except OSError as error:
        pytest.skip(f"Pyodide could not be had: {error}")
    folder = tmp_path_factory.mktemp("check")
    build(folder)
    static, own = ROOT / "docs/_static", folder / "_static"
    for name in ("check.js", "check_worker.js", "check.css", "editor.js"):
        shutil.copy(static / name, own)
    (own / "base.css").write_text(FACES.sub("", (static / "base.css").read_text("utf-8")), "utf-8")
    shutil.copytree(static / "codemirror", own / "codemirror")
    stub = "def my_self_attention(x):  # (B, T, d_model)\n    ...  # three lines"
    blocks = [
        check_here.block("01_self_attention", "01.1", "my_self_attention", stub),
        check_here.block(
            "01_self_attention", "01.2", "number", check_here.starter("01.2", "number")
        ),
        check_here.block("08_training", "08.1", "my_train", TRAIN.partition("\n")[0] + "\n    ..."),
        check_here.block("08_training", "08.2", "[steps, evaluations, calls]", PREDICT),
        check_here.block("02_attention", "02.1", "my_attention", "def my_attention(q, k, v):"),
        check_here.block("paper", "paper.3", "name", "name = ..."),
        check_here.file_block("02_attention"),
        check_here.train_block("01_self_attention", "01", RUNG),
    ]
    first = (ROOT / "docs/_templates/first.js").read_text(encoding="utf-8")
    pages = {"index": blocks, "later": [check_here.file_block("13_encoder_decoder")]}
    for name, parts in (pages | {"whole": [check_here.file_block(check_here.YOUR_FILE)]}).items():
        page = PAGE.format(first=first, blocks="".join(node.astext() for node in parts))
        page = page_policy.with_policy(f"{name}.html", page)
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def address(place):
    "Where a server shows the folder."
    with served(place) as folder:
        yield f"{folder}index.html"


@contextmanager
def opened_browser(profile):
    "A browser that finds no other machine."
    if not (BROWSER and DRIVER):
        pytest.skip("needs chromium and chromedriver")
    with start_browser(profile, "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1") as driver:
        set_screen(driver)
        yield driver


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with opened_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def page(browser, address):
    "The page, freshly opened, without answers that were kept."
    browser.get(address)
    browser.execute_script("localStorage.clear()")
    browser.get(address)
    return browser


@pytest.fixture(scope="module")
def other_browser(tmp_path_factory):
    "A browser whose page stays open, so that Python is loaded in it once."
    with opened_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture
def ready(other_browser, address):
    """The page with what tests before it have left there; Python is loaded in it once.

    For tests that ask what is said to an answer, and not what is kept.
    """
    browser = other_browser
    if not browser.execute_script("return window.isReady === true"):
        browser.get(address)
        browser.execute_script("localStorage.clear()")
        browser.get(address)
        browser.execute_script("window.isReady = true")
    return browser


BEGIN_AGAIN = """
for (const button of document.querySelectorAll('.check-bar button'))
  if (button.textContent === 'Start again') button.click();
localStorage.clear();
"""


@pytest.fixture
def blank(ready):
    "The page of `ready` without what tests before it have written."
    set_screen(ready)
    ready.execute_script(BEGIN_AGAIN)
    return ready


@contextmanager
def again(page):
    "A second page of the same reader, as if the first had been loaded again."
    first, address = page.current_window_handle, page.current_url
    page.switch_to.new_window("tab")
    set_screen(page)
    page.get(address)
    yield page
    page.close()
    page.switch_to.window(first)


def sooner(page, times):
    "Let the page's clock run so many times as fast, from now on; no other test gets this page."
    page.execute_script("window.isReady = false")
    page.execute_script(
        "const [times] = arguments, plain = window.setTimeout;"
        "window.setTimeout = (f, s) => plain(f, s / times)",
        times,
    )


def of(browser, css, number="01.1"):
    "An element in the block of an exercise."
    block = browser.find_element("css selector", f'.check-here[data-number="{number}"]')
    return block.find_element("css selector", css)


def write(browser, source, number="01.1"):
    "Replace what is in the editor, or in the fields between which commas are, as typing does."
    places = of(browser, ".check-bar", number).find_elements("xpath", "..//textarea | ..//input")
    texts = [source] if len(places) == 1 else source.split(", ")
    for place, text in zip(places, texts, strict=True):
        browser.execute_script(
            "const [e, text] = arguments; e.value = text; e.dispatchEvent(new Event('input'))",
            place,
            text,
        )


def wait(browser, number="01.1", seconds=120):
    "Wait for the verdict; gives its sentence."
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    done = lambda _: (
        {"right", "wrong"} & set(of(browser, ".check-said", number).get_attribute("class").split())
    )
    ui.WebDriverWait(browser, seconds, 0.1).until(done)
    return of(browser, ".check-said", number).text


def press(browser, source, number="01.1"):
    "Type an answer, press the button, wait; gives what is said."
    write(browser, source, number)
    of(browser, ".check-go", number).click()
    return wait(browser, number)


def test_answers_are_judged_in_the_page_as_in_the_notebook(ready):
    page = ready
    assert press(page, RIGHT) == "01.1 is right."
    assert "right" in of(page, ".check-said").get_attribute("class")
    said = press(page, RIGHT.replace("dim=-1", "dim=1"))
    assert "the softmax runs over the queries; it must run over the keys" in said
    assert press(page, "1 / 4", "01.2").startswith("01.2, not yet: you left the word")
    of(page, ".check-hints button", "01.2").click()
    assert "Are the five scores" in of(page, ".check-hints p", "01.2").text
    assert "line 2, `return (x @`: SyntaxError" in press(
        page, "def my_self_attention(x):\n  return (x @"
    )
    said = press(page, "def my_self_attention(x):\n    y = x\n    return y @ undefined")
    assert "line 3, `return y @ undefined`: nothing is called `undefined` here" in said
    assert "`numpy` is not here" in press(page, f"import numpy\n{RIGHT}")


def test_what_an_answer_changes_in_torch_is_undone_before_the_next_one(ready):
    patch = "torch.Tensor.softmax = lambda self, dim: self\n"
    assert "not yet" in press(ready, f"{patch}def my_self_attention(x): return x @ x.mT @ x")
    assert press(ready, RIGHT) == "01.1 is right."
    assert press(ready, patch + RIGHT) == "01.1 is right."  # by the softmax that was there before
    assert press(ready, "torch.zeros(5).softmax(dim=0)[0]", "01.2") == "01.2 is right."


def test_enter_in_a_field_checks(ready):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    page = ready
    field = of(page, "input", "01.2")
    field.clear()
    field.send_keys("1/5", keys.ENTER)
    assert wait(page, "01.2") == "01.2 is right."


def test_an_answer_that_trains_is_judged_in_the_page(ready):
    assert press(ready, TRAIN, "08.1") == "08.1 is right."
    said = press(ready, TRAIN.replace("        optimizer.zero_grad()\n", ""), "08.1")
    assert "old gradients are added to the new ones; clear them in each step, before line 4" in said


def test_an_answer_may_use_what_every_file_imports(ready):
    answer = "def my_self_attention(x):\n    return F.softmax(x @ x.mT, dim=-1) @ x"
    assert press(ready, answer) == "01.1 is right."


TYPED = {"0,2": "0.2", "1,234": "1234 or 1.234", "1,234,567": "1234567", "-0,25": "-0.25"}


def test_numbers_are_read_as_people_write_them(ready):
    for text, meant in TYPED.items():
        said = f"the field says {text}, which Python reads as several numbers; write {meant}."
        assert press(ready, text, "01.2") == f"01.2, not yet: {said}"
    assert press(ready, "math.sqrt(1 / 25)", "01.2") == "01.2 is right."


def test_an_answer_of_words_needs_no_quotes(ready):
    page = ready
    assert press(page, "cross-attention", "paper.3") == "paper.3 is right."
    assert press(page, "'cross-attention'", "paper.3") == "paper.3 is right."
    assert "all three come from one text" in press(page, "self-attention", "paper.3")
    with again(page):
        assert of(page, "input", "paper.3").get_property("value") == '"self-attention"'
        assert "all three come from one text" in of(page, ".check-said", "paper.3").text


def until(true, seconds=20):
    "Wait until a function gives something; gives it."
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    return ui.WebDriverWait(None, seconds, 0.1).until(lambda _: true())


def editor_of(page, css='.check-here[data-number="01.1"]'):
    "What is typed into, once CodeMirror stands in the place of a block's textarea."
    scroll = "document.querySelector(arguments[0]).scrollIntoView({ block: 'center' })"
    page.execute_script(scroll, css)
    (found,) = until(lambda: page.find_elements("css selector", f"{css} .cm-content"))
    assert not page.find_element("css selector", f"{css} textarea").is_displayed()
    return found


@pytest.mark.parametrize("bundle", [True, False])
def test_keys_are_enough_to_write_an_answer_to_check_it_and_to_leave(request, bundle):
    page = request.getfixturevalue("blank" if bundle else "page")
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    if not bundle:  # then the textarea is the editor
        page.execute_cdp_cmd("Network.enable", {})
        page.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/codemirror.js*"]})
        page.refresh()
    area = of(page, "textarea")
    editor = editor_of(page) if bundle else area
    editor.click()
    editor.send_keys(keys.CONTROL, "a")
    head, _, line = RIGHT.strip().partition("\n")
    editor.send_keys(head, keys.ENTER, line.strip())
    assert area.get_property("value") == RIGHT.strip()
    editor.send_keys(keys.CONTROL, keys.ENTER)
    if not bundle:
        assert of(page, ".check-stop").is_displayed()  # the check begins
        page.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
        return
    assert wait(page) == "01.1 is right."
    if bundle:
        editor.send_keys(keys.HOME, keys.TAB)  # indents, until Escape
        assert area.get_property("value") == RIGHT.strip().replace("    ", " " * 8)
        editor.send_keys(keys.CONTROL, "z")
        assert area.get_property("value") == RIGHT.strip()
        editor.send_keys(keys.ESCAPE)
    editor.send_keys(keys.TAB)
    assert page.switch_to.active_element == of(page, ".check-go")
    assert of(page, ".check-said").get_attribute("role") == "status"


def test_an_answer_of_numbers_has_a_field_for_each(blank):
    page = blank
    fields = page.find_elements("css selector", '.check-here[data-number="08.2"] input')
    assert [field.find_element("xpath", "..").text for field in fields] == PREDICT_NAMES
    fields[0].send_keys("48")
    of(page, ".check-go", "08.2").click()
    assert wait(page, "08.2") == "08.2, not yet: evaluations is empty."
    assert page.switch_to.active_element == fields[1]
    assert press(page, "48, 3, 64 · 3", "08.2") == "08.2 is right."
    with again(page):
        kept = page.find_elements("css selector", '.check-here[data-number="08.2"] input')
        assert [field.get_property("value") for field in kept] == ["48", "3", "64 * 3"]


def counted(page):
    "What the line above the first exercise says."
    return page.find_element("css selector", ".check-count").text


def test_verdicts_are_kept_over_a_reload_and_counted(blank):
    page = blank
    assert counted(page).startswith("0 of 6 right on this page: 01.1 open 01.2 open")
    assert press(page, RIGHT) == "01.1 is right."
    assert press(page, "1 / 4", "01.2").startswith("01.2, not yet: you left the word")
    with again(page):
        assert of(page, "textarea").get_property("value") == RIGHT
        assert of(page, ".check-said").text == "01.1 is right."
        assert "right" in of(page, ".check-said").get_attribute("class").split()
        assert of(page, ".check-said", "01.2").text.startswith("01.2, not yet: you left the word")
        of(page, ".check-hints button", "01.2").click()  # its hints, too
        assert "Are the five scores" in of(page, ".check-hints p", "01.2").text
        assert counted(page).startswith("1 of 6 right on this page: 01.1 right 01.2 open")
        link = page.find_element("css selector", ".check-count a")
        assert link.get_attribute("href").endswith("#answer-01-1")
        write(page, RIGHT + "\n# and more")  # of this answer nothing is known
        assert counted(page).startswith("0 of 6")
        page.refresh()
        assert of(page, ".check-said").text == ""
    press(page, RIGHT)
    of(page, ".check-bar", "01.1").find_element("xpath", ".//button[.='Start again']").click()
    with again(page):
        assert counted(page).startswith("0 of 6") and of(page, ".check-said").text == ""


def test_a_verdict_on_another_exercise_of_this_number_is_not_shown(blank):
    page = blank
    press(page, RIGHT)
    page.execute_script(
        "const kept = JSON.parse(localStorage['former_nb 01.1 verdict']);"
        "localStorage['former_nb 01.1 verdict'] = JSON.stringify({ ...kept, judge: 'before' });"
        "localStorage['former_nb 01.2 verdict'] = 'no JSON';"
    )
    with again(page):
        assert of(page, ".check-said").text == "" == of(page, ".check-said", "01.2").text
        assert counted(page).startswith("0 of 6")


def test_another_judge_gives_an_exercise_another_digest():
    now = check_here.judge_digest("01.1", "f", "...")
    assert now == check_here.judge_digest("01.1", "f", "...")
    assert now != check_here.judge_digest("01.2", "f", "...")
    assert now != check_here.judge_digest("01.1", "f", "... # other")
    with pytest.raises(ValueError, match="expected an exercise"):
        check_here.judge_digest("01.99", "f", "...")


def test_below_the_check_of_a_build_stands_what_runs_it():
    from docutils import nodes
    from docutils.core import publish_doctree

    tree = publish_doctree("")
    cell = nodes.container("", classes=["cell"])
    cell += nodes.literal_block("", 'check("project", report);')
    tree += cell
    check_here.add_blocks(SimpleNamespace(env=SimpleNamespace(docname="project")), tree)
    assert "runs in the notebook" in tree.children[-1].astext()


COLOUR = """
const found = [...document.querySelectorAll(arguments[0])];
return Object.fromEntries(found.map((e) => [e.textContent, getComputedStyle(e).color]));
"""  # word -> its colour


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_editor_numbers_its_lines_and_has_the_colours_of_the_pages(page, theme):
    set_screen(page, theme=theme)
    page.refresh()
    css = '.check-here[data-number="02.1"]'
    editor_of(page, css)
    write(page, f"# q\n{MINE}", "02.1")
    numbers = until(lambda: of(page, ".cm-lineNumbers", "02.1").text.split())
    assert numbers[-4:] == ["1", "2", "3", "4"]
    found = page.execute_script(COLOUR, f"{css} .cm-content span")
    inks = page.execute_script(
        "return ['q-ink', 'k-ink', 'v-ink', 'accent', 'soft'].map((name) => {"
        " const e = document.body.appendChild(document.createElement('i'));"
        " e.style.color = `var(--${name})`; return getComputedStyle(e).color; })"
    )
    assert [found[word] for word in ("q", "k", "v", "def", "# q")] == inks
    assert len(set(inks)) == 5
    assert not serious(page)  # which measures contrast, too
    set_screen(page)


def texts(page, css):
    "What the elements say, without those that only keep room."
    return [e.text for e in page.find_elements("css selector", css) if e.is_displayed()]


def test_a_verdict_stands_at_its_line(blank):
    page = blank
    css = '.check-here[data-number="01.1"]'
    editor = editor_of(page)
    at = lambda kind: texts(page, f"{css} {kind}")
    said = press(page, "def my_self_attention(x):\n    y = x\n    return y @ undefined")
    assert [line.strip() for line in at(".cm-wrong-line")] == ["return y @ undefined"]
    (reason,) = at(".cm-said")
    assert reason.startswith("x (2, 5, 3): nothing is called undefined here; give it a value")
    assert "line 3, `return y @ undefined`: nothing" in said
    assert at(".cm-signs .cm-wrong") == ["✗"]
    names = editor.get_attribute("aria-describedby").split()
    assert of(page, ".check-said").get_attribute("id") in names
    press(page, "def my_self_attention(x):\n    ...")  # of no line: at the definition
    assert [line.strip() for line in at(".cm-wrong-line")] == ["def my_self_attention(x):"]
    assert at(".cm-said") == []
    press(page, RIGHT)
    assert at(".cm-wrong-line") == [] and at(".cm-signs .cm-right") == ["✓"]
    with again(page):
        editor_of(page)
        assert until(lambda: at(".cm-signs .cm-right")) == ["✓"]


def test_the_file_has_a_sign_at_each_definition(blank):
    page = blank
    at = lambda kind: texts(page, f".check-file {kind}")
    editor_of(page, ".check-file")
    check_file(page, f"import math\n\n{WEIGHTS}\n\n{MINE.replace('my_', '').replace('@ v', '* v')}")
    assert until(lambda: at(".cm-signs .cm-right")) == ["✓"]
    assert at(".cm-signs .cm-wrong") == ["✗"] and len(at(".cm-said")) == 1
    assert at(".cm-wrong-line")[0].strip().startswith("return (q @ k.mT")
    assert not serious(page)


def test_the_editor_comes_when_it_comes_near_and_is_small_enough(browser, address, place):
    bundle = place / "_static/codemirror/codemirror.js"
    assert bundle.stat().st_size < 450_000
    assert "MIT" in bundle.with_name("LICENSE.txt").read_text(encoding="utf-8")
    far = (
        (place / "index.html").read_text("utf-8").replace("<h1>", '<p style="height: 3000px"><h1>')
    )
    (place / "far.html").write_text(far, encoding="utf-8")
    browser.get(address.replace("index", "far"))
    loaded = (
        "return performance.getEntriesByType('resource').some((e) => /codemirror/.test(e.name))"
    )
    assert not browser.execute_script(loaded)
    editor_of(browser)
    assert browser.execute_script(loaded)


def test_a_phone_does_not_zoom_into_the_editor_and_is_told_of_no_keys(page):
    screen = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    touch = lambda on: page.execute_cdp_cmd("Emulation.setTouchEmulationEnabled", {"enabled": on})
    page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    touch(True)
    try:
        page.refresh()
        editor = editor_of(page)
        assert editor.value_of_css_property("font-size") == "16px"
        assert of(page, ".check-note").text == ""
        assert page.execute_script("return document.documentElement.scrollWidth") <= 390
    finally:
        touch(False)
        set_screen(page)


def test_it_fits_is_large_enough_to_touch_and_says_what_it_is(blank):
    page = blank
    assert press(page, "...", "01.2")
    for width in (390, 1280):
        set_screen(page, width)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        for button in page.find_elements("css selector", ".check-here button"):
            if button.is_displayed():
                assert button.size["height"] >= 44 and button.size["width"] >= 44
        assert not serious(page)


def test_nothing_is_asked_of_another_machine_and_nothing_before_a_press(browser, address):
    browser.get_log("performance")
    browser.get(address)
    asked = [json.loads(e["message"])["message"] for e in browser.get_log("performance")]
    urls = [
        e["params"]["request"]["url"] for e in asked if e["method"] == "Network.requestWillBeSent"
    ]
    assert urls and all(url.startswith(address.rpartition("/")[0]) for url in urls)
    assert not any("/py/" in url for url in urls)


MISSING = {
    "delete window.WebAssembly": "this one has none",
    "Object.defineProperty(window, 'localStorage', {get() { throw new Error() }})": "keeps nothing",
}


@pytest.mark.parametrize(("script", "said"), MISSING.items())
def test_a_browser_without_something_says_so_in_one_sentence(script, said, browser, address):
    with before_scripts(browser, script):
        browser.get(address)
        assert said in of(browser, ".check-note").text
        shown = [e for e in browser.find_elements("css selector", ".check-go") if e.is_displayed()]
        assert len(shown) == (8 if "Obj" in script else 0)


def test_from_disk_a_sentence_stands_in_the_place_of_the_button(browser, place):
    browser.get((place / "index.html").as_uri())
    assert "from disk a browser loads no Python" in of(browser, ".check-note").text
    assert "from disk" in in_file(browser, "#check-mine-note").text
    assert editor_of(browser, ".check-file").is_displayed()  # it needs no server
    assert not [
        go for go in browser.find_elements("css selector", ".check-go") if go.is_displayed()
    ]


def test_offline_a_press_says_that_python_could_not_be_loaded(page):
    missing = "const W = Worker; window.Worker = function (url, o) { return new W('gone.js', o); }"
    page.execute_script(missing)
    assert "Python could not be loaded" in press(page, RIGHT)
    assert of(page, "textarea").get_property("value") == RIGHT


# ---------------------------------------------------------------- the reader's file


def in_file(page, css):
    "An element of the block of the reader's file."
    return page.find_element("css selector", f".check-file {css}")


TYPE = "const [e, text] = arguments; e.value = text; e.dispatchEvent(new Event('input'))"


def check_file(page, text):
    "Write the file, press its button, wait; gives what is said last."
    page.execute_script(TYPE, in_file(page, "textarea"), text)
    in_file(page, ".check-go").click()
    ui = pytest.importorskip("selenium.webdriver.support.ui")
    classes = lambda: in_file(page, ".check-said").get_attribute("class").split()
    ui.WebDriverWait(page, 120, 0.1).until(lambda _: {"right", "wrong"} & set(classes()))
    return in_file(page, ".check-said").text


def test_the_readers_file_is_checked_counted_and_downloaded(blank):
    page = blank
    begun = in_file(page, "textarea").get_property("value")
    assert begun.startswith('"""The Transformer, as I derived it."""') and "def attention(" in begun
    assert in_file(page, ".check-steps").text == "not checked yet"
    head = "import math\n\n"
    said = check_file(page, head + WEIGHTS)
    assert said == f"1 of {ALL} steps are right. Next: write attention, of lesson 02."
    assert "02  right: attention_weights" in in_file(page, ".check-output").text
    assert in_file(page, ".check-steps").text == f"1 of {ALL} steps"
    wrong = check_file(page, head + WEIGHTS.replace(" / math.sqrt(q.shape[-1])", ""))
    assert wrong == f"0 of {ALL} steps are right. Next: mend attention_weights."
    assert "line 1" in check_file(page, "def attention(:")
    check_file(page, head + WEIGHTS)
    for width in (390, 1280):
        set_screen(page, width)
        assert page.execute_script("return document.documentElement.scrollWidth") <= width
        assert not serious(page)
    with again(page):
        assert in_file(page, "textarea").get_property("value").startswith(head + WEIGHTS)
        assert in_file(page, "meter").get_property("value") == 1
        written = in_file(page, "textarea").get_property("value")
        page.execute_script(
            "URL.createObjectURL = (blob) => { blob.text().then((t) => (window.saved = t)); };"
            "HTMLAnchorElement.prototype.click = function () { window.named = this.download; }"
        )
        page.execute_script("window.showSaveFilePicker = undefined")
        in_file(page, ".check-bar button:nth-of-type(4)").click()  # downloads
        assert page.execute_script("return window.named") == "mine.py"
        saved = until(lambda: page.execute_script("return window.saved"), 60)
        assert saved == written  # a blob gives its text when it likes


def test_a_right_answer_goes_into_the_file_once(blank):
    page = blank
    assert press(page, MINE, "02.1") == "02.1 is right."
    assert "attention is in your file" in of(page, ".check-note", "02.1").text
    text = in_file(page, "textarea").get_property("value")
    assert "# 02.1, checked in the page\ndef attention(q, k, v):\n    return" in text
    assert text.count("def attention(") == 1 and "def attention_weights" in text
    press(page, MINE.replace("q.shape", "k.shape"), "02.1")
    assert "already" in of(page, ".check-note", "02.1").text
    assert in_file(page, "textarea").get_property("value") == text
    assert press(page, TRAIN, "08.1") == "08.1 is right."
    with again(page):
        assert "def my_train(" in in_file(page, "textarea").get_property("value")


def file_buttons(page):
    "The buttons of the file by their words."
    found = page.find_elements("css selector", ".check-file button")
    return {button.get_property("textContent"): button for button in found}


def test_a_lesson_adds_its_open_definitions_and_the_file_is_the_same_on_each_page(page, address):
    text = lambda: in_file(page, "textarea").get_property("value")
    begun = text()
    assert "lines, 0 of 45 definitions" in in_file(page, ".check-grown").text
    later = address.replace("index", "later")  # the page of lesson 13
    page.get(later)
    assert text().startswith(begun.rstrip()) and text().count("\nclass MultiHeadAttention(") == 1
    assert text().index("class Block(") < text().index("class DecoderBlock(Block):\n    ...")
    assert text().index("PAD, BOS, EOS, UNK = range(4)") < text().index("def collate_pairs")
    kept = "return localStorage['former_nb mine.py'] ?? ''"
    assert page.execute_script(kept) == ""  # until something is written
    editor = editor_of(page, ".check-file")
    scrolled = "return document.querySelector('.check-file .cm-scroller').scrollTop"
    assert until(lambda: page.execute_script(scrolled)) > 100  # the first open one is in view
    until(lambda: "class CrossAttention" in editor.text)
    page.execute_script(TYPE, in_file(page, "textarea"), f"import math\n\n\n{WEIGHTS}")
    page.get(address)
    assert text().startswith(f"import math\n\n\n{WEIGHTS}") and "def attention(" in text()
    assert "1 of 45 definitions" in in_file(page, ".check-grown").text
    options = [e.get_property("textContent") for e in page.find_elements("css selector", "option")]
    assert options[1:] == ["attention_weights, line 4", "attention, line 11, open"]
    page.get(address.replace("index", "whole"))  # the page *Your file* asks for nothing
    assert text() == f"import math\n\n\n{WEIGHTS}"


def test_a_file_is_opened_and_what_was_there_comes_back(page, tmp_path):
    text = lambda: in_file(page, "textarea").get_property("value")
    said = lambda words: until(lambda: words in in_file(page, "#check-mine-note").text)
    buttons = file_buttons(page)
    back, again = buttons["Bring back the file before"], buttons["Start again"]
    begun = text()
    assert not back.is_displayed()
    editor_of(page, ".check-file")
    own, chosen = tmp_path / "other.py", in_file(page, "input[type=file]")
    own.write_bytes(b"\xef\xbb\xbfimport math\r\n\r\n\r\n" + WEIGHTS.encode())
    chosen.send_keys(str(own))
    said("other.py is open here and has 1 of the course's 45 definitions.")
    assert text().startswith(f"import math\n\n\n{WEIGHTS}")
    mine = text()
    own.write_text("dear reader, this is\na letter\n", encoding="utf-8")
    chosen.send_keys(str(own))
    said("has none of the course's definitions. Line 1 can't be read as Python.")
    back.click()
    assert text() == mine
    for bad, words in [(b"\x89PNG\0", "isn't a text"), (b"x" * 600_000, "the page opens up to")]:
        own.write_bytes(bad)
        chosen.send_keys(str(own))
        said(words)
        assert text() == mine
    again.click()
    assert text() == begun
    back.click()
    assert text() == mine


PICKERS = """
const handle = {
  name: 'mine.py',
  getFile: async () => new File(['import math\\n'], 'mine.py'),
  createWritable: async () => ({
    write: async (text) => (window.saved = text), close: async () => 0 }),
};
window.showOpenFilePicker = async () => [handle];
window.showSaveFilePicker = async () => { throw new Error('the file was opened'); };
"""


def test_where_a_browser_can_saving_writes_the_file_that_was_opened(browser, address):
    with before_scripts(browser, PICKERS):
        browser.get(address)
        buttons = file_buttons(browser)
        note = lambda: in_file(browser, "#check-mine-note").text
        buttons["Open a file"].click()
        until(lambda: "mine.py is open here" in note())
        buttons["Save to disk"].click()
        until(lambda: note() == "Saved in mine.py.")
        assert browser.execute_script("return window.saved").startswith("import math\n")


def test_what_was_said_of_a_line_goes_when_the_line_is_edited(blank):
    page = blank
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    css = '.check-here[data-number="01.1"]'
    editor = editor_of(page)
    press(page, "def my_self_attention(x):\n    y = x\n    return y @ undefined")
    assert len(texts(page, f"{css} .cm-said")) == 1
    editor.click()
    editor.send_keys(keys.CONTROL, keys.END)
    editor.send_keys(keys.BACKSPACE)
    assert texts(page, f"{css} .cm-said") == [] == texts(page, f"{css} .cm-wrong-line")


def test_names_of_the_answer_and_of_the_page_are_offered(page):
    keys = pytest.importorskip("selenium.webdriver.common.keys").Keys
    editor = editor_of(page)
    page.execute_script(
        "document.querySelector('main').insertAdjacentHTML('beforeend',"
        "'<div class=highlight><pre>nn.Linear(3, 4)</pre></div>')"
    )
    write(page, "my_scores = 1\n")
    editor.click()
    editor.send_keys(keys.CONTROL, keys.END)
    offers = ".cm-tooltip-autocomplete li"
    editor.send_keys("my_s")
    assert until(lambda: texts(page, offers)) == ["my_scores"]
    page.execute_async_script("setTimeout(arguments[0], 150)")  # until then it's no answer
    editor.send_keys(keys.TAB, keys.ENTER, "nn.L")
    assert until(lambda: texts(page, offers)) == ["Linear"]
    editor.send_keys(keys.ENTER)  # which only begins a line
    value = of(page, "textarea").get_property("value")
    assert value == "my_scores = 1\nmy_scores\nnn.L\n"


def test_the_outline_of_a_file_has_each_definition_with_what_its_head_reads():
    found = {one["name"]: one for one in check_here.outline()}
    assert len([one for one in found.values() if not one.get("constant")]) == 45
    assert found["attention"]["lessons"] == ["02", "04", "12"]
    assert found["MultiHeadAttention"]["head"] == "class MultiHeadAttention(nn.Module):\n    ..."
    assert found["Decoder"]["needs"] == ["Stack"] and found["pad_rows"]["needs"] == ["PAD"]


DAMAGED = ["{", "null", "[]", "words", '"text"', "[1, 2, 3]", "1e999", ""]
DAMAGED += [
    '{"right": "many", "all": {}}',
    '{"right": 3, "all": -1}',
    '{"sentence": 5, "hints": 7}',
]


@pytest.mark.parametrize("value", some(DAMAGED, 2))
def test_no_value_that_is_kept_stops_the_page(page, value):
    keys = [
        f"former_nb {name}" for name in ("mine.py", "mine.py steps", "light", "stopped", "tried")
    ]
    numbers = [
        block.get_attribute("data-number")
        for block in page.find_elements("css selector", ".check-here")
    ]
    keys += [f"former_nb {number}{more}" for number in numbers for more in ("", " verdict")]
    page.execute_script(
        "for (const key of arguments[0]) localStorage.setItem(key, arguments[1])", keys, value
    )
    page.get_log("browser")
    page.refresh()
    assert [e["message"] for e in page.get_log("browser") if e["level"] == "SEVERE"] == []
    assert len(page.find_elements("css selector", ".check-go")) == 8
    assert in_file(page, ".check-steps").text == "not checked yet"
    assert not [e for e in page.find_elements("css selector", ".check-stop") if e.is_displayed()]
    assert page.execute_script("return document.documentElement.dataset.theme") in ("light", "dark")
    page.execute_script("localStorage.clear()")


def test_an_exercise_is_shown_once_where_it_can_be_checked(browser, place):
    cell = '<div class="cell asked"><pre>check("01.1", f)</pre></div>'
    text = (place / "index.html").read_text(encoding="utf-8")
    (place / "once.html").write_text(text.replace("<h1>", f"{cell}<h1>"), encoding="utf-8")
    shown = lambda: browser.find_element("css selector", ".asked").is_displayed()
    with served(place) as folder:
        browser.get(f"{folder}once.html")
        assert not shown()
        with without_scripts(browser):
            browser.get(f"{folder}once.html")
            assert shown()
    browser.get((place / "once.html").as_uri())
    assert shown()


def test_a_rung_trains_in_the_page_and_an_error_names_its_line(blank):
    page = blank

    def train(source):
        block = page.find_element("css selector", ".train-here")
        put = "const [e, text] = arguments; e.value = text; e.dispatchEvent(new Event('input'))"
        page.execute_script(put, block.find_element("css selector", "textarea"), source)
        block.find_element("css selector", ".check-go").click()
        ui = pytest.importorskip("selenium.webdriver.support.ui")
        stop = block.find_element("css selector", ".check-stop")
        ui.WebDriverWait(page, 240, 0.2).until(lambda _: not stop.is_displayed())
        parts = (".check-said", ".check-output")
        return [block.find_element("css selector", part).text for part in parts]

    said, printed = train(RUNG)
    assert said == "" and "after 50 of 100 steps" in printed
    nats = float(printed.partition("trained here: ")[2].partition(" ")[0])
    assert nats < 3.2  # 3.37 are those of even shares
    assert printed.count("writes") == 3
    said, printed = train("model = Names(nothing)")
    assert said == "line 1, `model = Names(nothing)`: NameError: name 'nothing' is not defined"


def test_a_rung_takes_what_is_right_in_the_file_and_says_whose_it_is(tmp_path):
    code = f"""
import json, sys, train_in_page
wrong, right = json.load(open({str(tmp_path / "files.json")!r}))
run = "print(attention.__module__)"
said = [json.loads(train_in_page.train_in_page("02_attention", run, mine, print))
        for mine in ("", wrong, right, "def f(:")]
print(json.dumps(said))
"""
    head = f"import math\n\n\n{WEIGHTS}\n\n"
    wrong = head.replace("k.mT", "k.mT * 2") + MINE_ATTENTION
    (tmp_path / "files.json").write_text(json.dumps([wrong, head + MINE_ATTENTION]), "utf-8")
    said = test_page_torch.result(test_page_torch.start("-c", code, small=True))
    none, wrong, right, broken = said
    assert not [one for one in said if one["problem"]]
    assert none["output"] == "former_nb.attention.fused\n"
    assert "attention: from the course, until attention_weights is right" in wrong["output"]
    assert "attention: yours, from mine.py" in right["output"]
    assert right["output"].endswith("readers_file\n")
    assert "cannot be imported" in broken["output"] or "line 1" in broken["output"]


# ---------------------------------------------------------------- what never ends


def test_an_answer_that_breaks_off_or_prints_much_leaves_the_page_alive(blank):
    page = blank
    printing = "for i in range(20_000):\n    print('line', i)\n"
    assert press(page, printing + RIGHT) == "01.1 is right."
    assert len(of(page, ".check-output").text) < 25_000
    assert "the rest is cut" in of(page, ".check-output").text
    said = press(page, "raise KeyboardInterrupt")
    assert said == "line 1, `raise KeyboardInterrupt`: KeyboardInterrupt"
    assert "too large for this page" in press(page, "torch.zeros(10**9).sum()", "01.2")
    deep = "def my_self_attention(x):\n    return my_self_attention(x)"
    said = press(page, deep)
    assert "RecursionError" in said or "broke down" in said
    assert press(page, RIGHT) == "01.1 is right."


def test_a_step_that_never_ends_is_stopped_and_named(blank):
    page = blank
    check_file(page, "greedy = 1")  # the judge is loaded
    sooner(page, 10)
    said = check_file(page, "def attention_weights(q, k):\n    while True:\n        pass")
    assert said.startswith("Stopped after 20 seconds, at attention_weights.")


def test_an_answer_that_never_ends_is_stopped_by_the_clock_or_by_a_hand(ready):
    page, loop = ready, "def my_self_attention(x):\n    while True:\n        pass"
    assert press(page, RIGHT) == "01.1 is right."  # Python is loaded
    sooner(page, 4)
    assert "Stopped after 10 seconds" in press(page, loop)
    write(page, loop)
    of(page, ".check-go").click()
    of(page, ".check-stop").click()
    assert wait(page) == "Stopped."
    sooner(page, 1 / 4)  # as fast as before
    assert press(page, RIGHT) == "01.1 is right."
