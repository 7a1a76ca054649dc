"""The open machine of the home page: numbers of PyTorch, and keys, fingers and links that open it.

A page of its own holds what the home page does: the box of the model, and the frame of the map.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest
from browser_tools import BROWSER, DRIVER, serious, set_screen, start_browser, touched
from thorough import some

ROOT = Path(__file__).resolve().parents[1]
STATIC = ROOT / "docs" / "_static"

torch = pytest.importorskip("torch")
pytest.importorskip("nbformat")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import nbdev_myst as ext

in_browser = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium or chromedriver")
ENTER, ESCAPE, SPACE = "\ue007", "\ue00c", " "
LEFT, UP, RIGHT, DOWN = "\ue012", "\ue013", "\ue014", "\ue015"
STEPS = ["embedding", *(["scores", "mask", "softmax", "mix", "network"] * 3), "letters"]
PAGE = """<!doctype html><html lang="en" data-theme="{theme}"><meta charset="utf-8">
<title>The machine</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="base.css">
<link rel="stylesheet" href="course.css"><link rel="stylesheet" href="figures/figures.css">
<script src="figures/address.js"></script><script defer src="live.js"></script>
<body><main><h1>Inside</h1><div class="live" data-model="names">
<script type="application/json">{recorded}</script></div>
<span class="map"><object type="image/svg+xml" data="transformer.svg" title="The map"></object>
</span></main></body></html>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The address of a page with the model of names and the map."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "figures").mkdir()
    shutil.copytree(STATIC / "fonts", folder / "fonts")
    names = "base.css course.css live.js live-model.js machine.js machine.css".split()
    for name in [*names, "figures/address.js", "figures/figures.css"]:
        shutil.copy(STATIC / name, folder / name)
    shutil.copy(ROOT / "nbs" / "images" / "transformer.svg", folder)
    ext.write_model(ROOT / "former_nb" / "models" / "names", folder / "live_names.js")
    for theme in ("light", "dark"):
        text = PAGE.format(recorded=ext.recorded("names"), theme=theme)
        (folder / f"{theme}.html").write_text(text, encoding="utf-8")
    return (folder / "light.html").as_uri()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with start_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


class Machine:
    """The figure, as a hand and an eye meet it."""

    def __init__(self, browser, address, width=1280):
        self.browser = browser
        browser.get("about:blank")
        set_screen(browser, width)
        browser.get_log("browser")
        browser.get(address)
        self.wait(lambda: self.all(".map button") and self.all(".live-bars button"))

    def wait(self, until):
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.browser, 30, 0.05).until(lambda _: until())

    def all(self, css):
        return self.browser.find_elements("css selector", css)

    def texts(self, css):
        ask = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.browser.execute_script(ask, css)

    def numbers(self, css):
        """The numbers of these cells, as they are written."""
        texts = " ".join(self.texts(css)).replace("\u2212", "-").replace("\u221e", "inf")
        return [float(text) for text in re.findall(r"-?inf|-?\d+\.?\d*", texts)]

    def opened(self):
        self.wait(lambda: self.all(".inside-drawing table"))
        return self

    def press(self, label):
        [found] = [e for e in self.all(".inside button, .live-how + * button") if e.text == label]
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", found)
        found.click()

    def tap(self, label):
        """Put a finger on a button of the machine, or on a box of the map, and lift it."""
        find = """
        const buttons = [...document.querySelectorAll('.inside button, .map button')];
        const button = buttons.find((e) => (e.textContent || e.ariaLabel) === arguments[0]);
        button.scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = button.getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
        """
        x, y = self.browser.execute_script(find, label)
        for kind, points in (("touchStart", [{"x": x, "y": y}]), ("touchEnd", [])):
            touch = {"type": kind, "touchPoints": points}
            self.browser.execute_cdp_cmd("Input.dispatchTouchEvent", touch)

    def keys(self, keys):
        self.browser.switch_to.active_element.send_keys(keys)

    @property
    def title(self):
        return self.texts(".inside-title")[0]


@pytest.fixture
def show(browser, page):
    yield lambda address="", width=1280: Machine(browser, page + address, width)
    set_screen(browser)


def python(text, off=()):
    """What the library computes on the way of a text; `off` are heads, layer and number from 1."""
    from former_nb import load_model
    from former_nb.data.text import BOS
    from former_nb.inspection.ablation import ablate_heads
    from former_nb.inspection.recording import record_attention

    model, tokenizer, _ = load_model("names", "cpu")
    inside, hooks = {}, []

    def note(name, module):
        def hook(module, inputs, output):
            inside[name] = {"in": inputs[0][0], "out": output[0]}

        hooks.append(module.register_forward_hook(hook))

    note("embed", model.embed)
    for n, block in enumerate(model.stack.blocks):
        for part in ("w_q", "w_k", "w_v", "w_o"):
            note((n, part), getattr(block.attention, part))
        note((n, "w_out"), block.ff.w_out)
        note((n, "norm_ff"), block.norm_ff)
        note((n, "block"), block)
    tokens = torch.tensor([[BOS, *tokenizer.encode(text)]])
    without = [("self", *head) for head in off]
    with torch.no_grad(), ablate_heads(model, without), record_attention(model) as weights:
        inside["logits"] = model(tokens)[0, -1]
    inside["weights"] = [weights[f"stack.blocks.{n}.attention"][0] for n in range(3)]
    return inside, model, tokenizer


def near(numbers):
    """Two decimals of these numbers: half of the last, and a little."""
    flat = torch.as_tensor(numbers).flatten().tolist()
    return pytest.approx(flat, abs=0.0052)


# ---------------------------------------------------------------- the map


def test_what_is_pressed_lies_on_boxes_of_the_drawing_and_beside_their_links():
    script = (STATIC / "live.js").read_text(encoding="utf-8")
    drawing = (ROOT / "nbs" / "images" / "transformer.svg").read_text(encoding="utf-8")
    at = {
        k: int(v) for k, v in re.findall(r"(\w+): (\d+)", re.search(r"MAP = \{(.*?)\}", script)[1])
    }
    assert f'viewBox="0 0 {at["width"]} {at["height"]}"' in drawing
    boxes = re.findall(r'step: "(\w+)", name: "([^"]+)", y: (\d+), high: (\d+)', script)
    assert [step for step, *_ in boxes] == ["embedding", "scores", "network", "letters"]
    for _, name, y, high in boxes:
        box = f'x="{at["x"]}" y="{y}" width="{at["wide"]}" height="{high}"'
        behind = drawing.split(f'<rect class="n box" {box} rx="6"/>')[1]
        said = re.search(r'<text class="word strong" x="224" y="\d+">(.*?)<', behind)[1]
        assert said == name
    chips = [float(x) for x in re.findall(r'class="chip" x="([\d.]+)"', drawing)]
    assert min(x for x in chips if x > at["x"]) >= at["x"] + at["reach"]


# ---------------------------------------------------------------- numbers


@in_browser
@pytest.mark.parametrize(
    "text, layer, head, off",
    [("jo", 1, 1, ()), ("mari", 2, 3, ((2, 3),)), ("\u017eydr\u016bn", 3, 4, ((1, 2), (3, 1)))],
)
def test_its_numbers_are_those_of_pytorch(show, text, layer, head, off):
    inside, model, tokenizer = python(text, off)
    heads = ",".join(f"{a}.{b}" for a, b in off)
    shown = show(f"#figure=the-machine&word={text}&step=embedding&off={heads}").opened()
    embedding = inside["embed"]["out"][-1]
    row = model.embed.tokens.weight[tokenizer.encode(text)[-1]].detach()
    expected = torch.stack([row[:4], (embedding - row)[:4], embedding[:4]])
    assert shown.numbers(".inside-first") == near(expected)

    n, part = layer - 1, slice(16 * (head - 1), 16 * head)
    q, k, v = (inside[n, name]["out"][:, part] for name in ("w_q", "w_k", "w_v"))
    scores, weights = q @ k.T / 4, inside["weights"][n][head - 1]
    future = torch.ones_like(scores).triu(1).bool()
    link = f"figure=the-machine&word={text}&layer={layer}&head={head}&off={heads}&step="

    def step(name):
        shown.browser.execute_script("location.hash = arguments[0]", link + name)
        title = {"letters": "The next letter"}.get(name, name.capitalize())
        shown.wait(lambda: shown.title.startswith(title))

    step("scores")
    assert shown.title.startswith(f"Scores, layer {layer}, head {head}")
    assert shown.numbers(".inside-square td:not(:empty)") == near(scores)
    step("mask")
    assert shown.numbers(".inside-square td:not(:empty)") == near(
        scores.masked_fill(future, -torch.inf)
    )
    step("softmax")
    assert shown.numbers(".inside-square td:not(:empty)") == near(weights)
    step("mix")
    rows = torch.cat([v[:, :4], inside[n, "w_o"]["in"][-1:, part][:, :4]])
    if (layer, head) in off:
        rows[-1] = 0  # the head brings nothing
        assert "switched off" in shown.texts(".inside-says")[0]
    else:
        torch.testing.assert_close(rows[-1], (weights[-1] @ v)[:4])
    assert shown.numbers(".inside-first") == near(rows)
    labels = shown.numbers(".inside-vectors th")  # the weight of each
    assert labels == near(weights[-1])
    step("network")
    on_the_way = [
        inside[n, "norm_ff"]["in"],
        inside[n, "w_out"]["in"],
        inside[n, "w_out"]["out"],
        inside[n, "block"]["out"],
    ]
    assert shown.numbers(".inside-first") == near(torch.stack([x[-1, :4] for x in on_the_way]))
    step("letters")
    logits = inside["logits"].clone()
    logits[[0, 1, 3]] = -torch.inf  # they are never written
    best = logits.topk(6)
    pairs = torch.stack([best.values, logits.softmax(-1)[best.indices]], dim=1)
    assert shown.numbers(".inside-letters td") == near(pairs)
    letters = [tokenizer.decode([t]) or "end" for t in best.indices.tolist()]
    assert shown.texts(".inside-letters tbody th") == letters


def likeliest(text, off=()):
    """What the line below the steps says at temperature 0.8."""
    inside, _, tokenizer = python(text, off)
    logits = inside["logits"].clone()
    logits[[0, 1, 3]] = -torch.inf
    best = (logits / 0.8).softmax(-1).topk(4)
    return {
        tokenizer.decode([t]) or "end": 100 * p for p, t in zip(*map(torch.Tensor.tolist, best))
    }


# ---------------------------------------------------------------- hands


@in_browser
def test_by_keys_one_step_a_press_and_escape_leads_back(show):
    shown = show()
    box = shown.all(".map button")[0]
    shown.browser.execute_script("arguments[0].focus()", box)
    assert not shown.browser.execute_script("return !!window.courseMachine"), "it comes when wanted"
    shown.keys(ENTER)
    shown.opened()
    seen = []
    for n, step in enumerate(STEPS, 1):
        title = shown.title
        name = "The next letter" if step == "letters" else step.capitalize()
        assert title.startswith(name) and title.endswith(f" {n} of {len(STEPS)}")
        seen.append(shown.texts(".inside-drawing")[0])
        lit = {"mask": "scores", "softmax": "scores", "mix": "scores"}.get(step, step)
        on = [button.get_attribute("class") == "on" for button in shown.all(".map button")]
        assert on == [lit == each for each in ("embedding", "scores", "network", "letters")]
        shown.keys(RIGHT)
    assert len({*seen}) == len(STEPS) and shown.title.endswith(f"{len(STEPS)} of {len(STEPS)}")
    shown.keys(LEFT * 3)
    assert shown.title.startswith("Softmax, layer 3, head 1")
    shown.keys(DOWN)
    assert "head 2" in shown.title
    shown.keys(UP * 2)
    assert "head 4" in shown.title
    shown.keys(ESCAPE)
    assert not shown.all(".inside") and shown.browser.switch_to.active_element == box
    assert shown.browser.get_log("browser") == []


@in_browser
def test_a_finger_switches_a_head_off_and_the_bars_answer(show, browser):
    with touched(browser):
        shown = show("#figure=the-machine&word=mari&step=mix&layer=3&head=2", 390).opened()

        def bars():
            found = re.findall(r"(\S+) (\d+) %", shown.texts(".inside-next")[0])
            assert len(found) == 4
            beside = zip(shown.texts(".live-bars b"), shown.texts(".live-bars small"))
            assert [f"{a} {b} %" for a, b in found] == [f"{a} {b}" for a, b in beside][:4]
            return {a: float(b) for a, b in found}

        def agrees(expected):
            said = bars()
            shared = {*said} & {*expected}
            assert len(shared) >= 3
            for letter in shared:
                assert said[letter] == pytest.approx(expected[letter], abs=0.51)

        agrees(likeliest("mari"))
        before = shown.texts(".live-bars")
        shown.tap("Switch head 3.2 off")
        shown.wait(lambda: shown.texts(".live-bars") != before)
        agrees(likeliest("mari", [(3, 2)]))
        assert shown.numbers(".inside-first")[-4:] == [0, 0, 0, 0]
        assert [e.get_attribute("data-head") for e in shown.all('.live-head[aria-pressed="false"]')]
        shown.tap("Switch head 3.2 on")
        shown.wait(lambda: shown.texts(".live-bars") == before)
        shown.tap("Next \u2192")
        shown.wait(lambda: shown.title.startswith("Network, layer 3"))
        shown.tap("Look inside: linear, softmax")
        shown.wait(lambda: shown.title.startswith("The next letter"))
        near_top = "return document.querySelector('.inside').getBoundingClientRect().top"
        assert 0 <= browser.execute_script(near_top) < 844, "it is in sight"
        calm = "return document.getAnimations().length"
        assert browser.execute_script(calm) == 0, "nothing moves by itself"
        wide = "return document.documentElement.scrollWidth"
        assert browser.execute_script(wide) <= 390


@in_browser
@pytest.mark.parametrize("width, theme", some([(390, "dark"), (1280, "light")], 2))
def test_it_is_within_reach_and_axe_finds_nothing_serious(browser, page, width, theme):
    small = """
    return [...document.querySelectorAll('.inside button')].filter((e) => {
      const box = e.getBoundingClientRect();
      return Math.round(box.height) < 44 || Math.round(box.width) < 44;
    }).map((e) => e.outerHTML);
    """
    address = page.replace("light.html", f"{theme}.html") + "#figure=the-machine&word=domantas"
    try:
        for step in ("embedding", "softmax", "mix", "letters"):
            shown = Machine(browser, f"{address}&step={step}", width).opened()
            assert browser.execute_script(small) == []
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert serious(shown.browser) == []
    finally:
        set_screen(browser)


@in_browser
def test_on_a_small_phone_it_opens_with_its_buttons_below_the_bar(show, browser):
    shown = show(width=390)
    size = {"width": 390, "height": 600, "deviceScaleFactor": 1, "mobile": False}
    top = "return document.querySelector('.inside').getBoundingClientRect().top"
    bar = "return parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--bar'))"
    try:
        with touched(browser):
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            for label in [e.get_attribute("aria-label") for e in shown.all(".map button")]:
                shown.tap(label)
                shown.opened()
                below = lambda: browser.execute_script(top) >= 16 * browser.execute_script(bar)
                shown.wait(below)
                assert browser.execute_script(top) < 300 and serious(browser) == []
                shown.press("Close")
    finally:
        set_screen(browser)


# ---------------------------------------------------------------- the address


@in_browser
def test_what_is_open_is_a_link(show, browser, page):
    shown = show()
    assert browser.current_url == page
    shown.all(".map button")[1].click()
    shown.opened()
    shown.keys(RIGHT * 2 + DOWN)
    shown.press("Switch head 1.2 off")
    link = f"{page}#figure=the-machine&step=softmax&layer=1&head=2&off=1.2"
    shown.wait(lambda: browser.current_url == link)
    browser.execute_script(
        "navigator.clipboard.writeText = async (text) => { window.copied = text; }"
    )
    shown.press("Copy link")
    assert browser.execute_script("return window.copied") == link
    there = shown.texts(".inside-drawing, .inside-says, .live-bars, .live-heads")
    again = show("#" + link.split("#")[1]).opened()
    assert again.texts(".inside-drawing, .inside-says, .live-bars, .live-heads") == there
    assert again.texts(".figure-link span") == [""]


@in_browser
@pytest.mark.parametrize(
    "state",
    [
        "step=softmax&layer=9",
        "step=<img src=x onerror=alert(1)>",
        "step=mix&head=1e99&off=7.7,1.1.1,%00",
        "temperature=Infinity&top-k=-3",
        "mask=perhaps&__proto__=1",
    ],
)
def test_a_hostile_address_gets_a_sentence(show, browser, state):
    shown = show(f"#figure=the-machine&{state}")
    shown.wait(lambda: "".join(shown.texts(".figure-link span")).startswith("A part of this link"))
    assert shown.all(".live :is(img, iframe)") == []
    assert shown.all(".live-bars button")
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


@in_browser
def test_a_word_that_the_model_cannot_read_gets_a_sentence(show):
    shown = show("#figure=the-machine&word=<b>7&step=mix")
    shown.wait(lambda: shown.texts(".live-note")[0] == "The model has never seen < > 7.")
    assert not shown.all(".inside")
