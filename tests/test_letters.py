"""The model of letters that learns in the page: its numbers are PyTorch's, and its link is safe.

Chromium runs docs/_static/figures/letters-core.js; what the figure around it does is driven by
mouse, keys and touch.
"""

import base64
import json
import struct
import sys
from pathlib import Path

import pytest
from browser_tools import BROWSER, DRIVER, serious, set_screen, start_browser, touched
from thorough import some

ROOT = Path(__file__).resolve().parents[1]

torch = pytest.importorskip("torch")
pytest.importorskip("nbformat")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_figures as figures
import torch.nn.functional as F

from former_nb.inspection.ngrams import NGram

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium or chromedriver")
CORE = (figures.STATIC / "letters-core.js").read_text(encoding="utf-8")
RECORDED = json.loads((figures.HERE / "train_your_own.json").read_text(encoding="utf-8"))
MARK = "model1."


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with start_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return figures.write_alone("train-your-own", tmp_path_factory.mktemp("figure")).as_uri()


def wait(browser, until):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(browser, 120, 0.1).until(lambda _: until())


# ---------------------------------------------------------------- the model


def named(flat, tensors):
    """One long row of numbers as the tensors that it holds."""
    parts, at = {}, 0
    for name, rows, columns in tensors:
        shape = (rows, columns) if rows > 1 else (columns,)
        parts[name] = flat[at : at + rows * columns].view(shape).clone().requires_grad_()
        at += rows * columns
    assert at == len(flat)
    return parts


def forward(w, tokens, heads=4):  # (B, T) to (B, T, V)
    B, T = tokens.shape
    d = w["tokens"].shape[1]

    def norm(x, n):
        return F.layer_norm(x, (d,), w[f"norm{n}.weight"], w[f"norm{n}.bias"])

    def split(y):
        return y.view(B, T, heads, d // heads).transpose(1, 2)

    x = w["tokens"][tokens] + w["positions"][:T]
    a = norm(x, 1)
    q, k, v = (split(a @ w[name].T) for name in ("w_q", "w_k", "w_v"))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + y.transpose(1, 2).reshape(B, T, d) @ w["w_o"].T
    hidden = F.relu(F.linear(norm(x, 2), w["w_in"], w["b_in"]))
    x = x + F.linear(hidden, w["w_out"], w["b_out"])
    return norm(x, 3) @ w["tokens"].T


def loss_of(w, rows, targets):
    """The mean loss; what is padded counts for nothing."""
    T = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (T - len(row)) for row in rows])
    wanted = [row[1:] + [0] + [-100] * (T - len(row)) for row in targets]
    return F.cross_entropy(forward(w, tokens).flatten(0, 1), torch.tensor(wanted).flatten())


RUN = """
const core = lettersCore(), data = core.prepare(arguments[0], 1), { config } = data;
const random = core.randomFrom(3); // gains and biases are moved away from 1 and 0
const flat = core.newWeights(config, 1).map((x) => x + 0.2 * (random() - 0.5));
const training = { ...core.trainingFor(data.learned), steps: 20 }, start = [...flat];
const run = new core.Run(data, flat, 1, training), batches = [], losses = [], grads = [];
const backward = run.model.backward.bind(run.model);
run.model.backward = (rows, grad, targets) => {
  const loss = backward(rows, grad, targets);
  batches.push([rows, targets]);
  if (!grads.length) grads.push([...grad]);
  return loss;
};
while (run.step < training.steps) losses.push(run.once());
return { start, training, batches, losses, grad: grads[0], tensors: core.tensorsOf(config) };
"""


def test_gradients_and_steps_are_those_of_pytorch(browser):
    browser.get("about:blank")
    words = figures.word_lists()["names"][::40]
    run = browser.execute_script(CORE + RUN, words)
    w = named(torch.tensor(run["start"]), run["tensors"])
    by_hand = named(torch.tensor(run["grad"]), run["tensors"])
    how = run["training"]
    decays = [w[name] for name in w if name.startswith("w_")]
    others = [w[name] for name in w if not name.startswith("w_")]
    groups = [{"params": decays, "weight_decay": how["decay"]}, {"params": others}]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.99), weight_decay=0.0)
    assert any(rows != targets for rows, targets in run["batches"]), "some letters are noisy"
    for step, (rows, targets) in enumerate(run["batches"]):
        part = min(step + 1, (how["steps"] - step) / (how["steps"] - 1))
        for group in optimizer.param_groups:
            group["lr"] = how["rate"] * part
        loss = loss_of(w, rows, targets)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            for name in w:
                torch.testing.assert_close(by_hand[name], w[name].grad, rtol=1e-4, atol=1e-6)
        torch.nn.utils.clip_grad_norm_(list(w.values()), 1.0)
        optimizer.step()
        assert run["losses"][step] == pytest.approx(loss.item(), abs=1e-3)


COUNT = """
const core = lettersCore(), data = core.prepare(arguments[0], 1);
const rows = core.closed(data.learned), held = core.closed(data.heldOut);
const { vocab } = data.config, models = [2, 3].map((order) => new core.NGram(rows, order, vocab));
return [rows, held, vocab, models.map((model) => model.meanLoss(held))];
"""


def test_the_counts_are_those_of_the_library(browser):
    browser.get("about:blank")
    words = figures.word_lists()["names"][::10]
    rows, held, vocab, losses = browser.execute_script(CORE + COUNT, words)
    ours = [NGram(rows, order, vocab).nats(held) for order in (2, 3)]
    assert losses == pytest.approx(ours, abs=1e-6)


# ---------------------------------------------------------------- the link


LINK = """
const core = lettersCore(), given = core.fromLink(arguments[0]);
const again = core.toLink({ ...given, losses: given.losses });
return [[...given.flat], core.tensorsOf(given.config), again === arguments[0]];
"""


def test_a_link_holds_the_model_in_whole_numbers(browser):
    browser.get("about:blank")
    flat, tensors, again = browser.execute_script(CORE + LINK, RECORDED["link"])
    assert again, "a model from a link makes the same link"
    w = {name: w.detach() for name, w in named(torch.tensor(flat), tensors).items()}
    for part in w.values():
        whole = part / part.abs().max() * 127
        assert (whole - whole.round()).abs().max() < 1e-3
    read = [0, *(RECORDED["letters"][1:])]
    alphabet = base64.urlsafe_b64decode(RECORDED["link"][len(MARK) :] + "==")
    letters = alphabet[9 : 9 + alphabet[0]].decode()
    tokens = torch.tensor([[0, *(letters.index(letter) + 1 for letter in read[1:])]])
    p = forward(w, tokens[:, :1])[0, -1].softmax(dim=-1)
    best = p.sort(descending=True)
    shown = [("\0" + letters)[i].strip("\0") for i in best.indices[:3].tolist()]
    assert shown == [letter for letter, _ in RECORDED["next"][:3]]
    assert best.values[:8].tolist() == pytest.approx([q for _, q in RECORDED["next"]], abs=1e-3)


def changed(at, part):
    """The recorded link with other bytes from this one on; `at` may count from its scales on."""
    data = bytearray(base64.urlsafe_b64decode(RECORDED["link"][len(MARK) :] + "=="))
    at = 9 + data[0] if at == "scale" else at
    data[at : at + len(part)] = part
    return MARK + base64.urlsafe_b64encode(data).decode().rstrip("=")


def float_bytes(number):
    return struct.pack(">f", number)


HOSTILE = {
    "cut in half": RECORDED["link"][:8000],
    "a letter too few": RECORDED["link"][:-2],
    "no base64": MARK + "%%%" + RECORDED["link"],
    "NaN": changed("scale", float_bytes(float("nan"))),
    "infinite": changed("scale", float_bytes(float("inf"))),
    "negative": changed("scale", float_bytes(-1)),
    "large": changed("scale", float_bytes(1e30)),
    "longer words": changed(1, b"\xff"),
    "a larger alphabet": changed(0, b"\xff"),
    "no alphabet": changed(0, b"\0"),
    "markup": changed(9, b"<img src=x onerror=a()>"),
    "not UTF-8": changed(9, b"\xff\xfe"),
    "losses of 65 nats": changed(3, b"\xff\xff"),
    "huge": MARK + "A" * 100_000,
    "another version": "model9." + RECORDED["link"],
    "nothing": MARK,
}


def test_a_hostile_link_gets_a_sentence(browser, page):
    browser.get("about:blank")
    browser.get_log("browser")
    for what, link in some(HOSTILE.items(), 2):
        browser.get("about:blank")
        browser.get(f"{page}#{link}")
        said = lambda: browser.find_element("css selector", ".figure-says").text
        wait(browser, lambda: browser.find_elements("css selector", ".figure-says"))
        wait(browser, lambda: said().startswith("This link holds no model: "))
        assert said().endswith(".") and len(said()) < 120, what
        assert browser.find_elements("css selector", ".figure img, .letters-words .held") == []
        assert browser.execute_script(STATE) == "recorded", what
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


# ---------------------------------------------------------------- the figure


SHIFTS = """
window.moved = 0;
new PerformanceObserver((seen) => {
  for (const entry of seen.getEntries()) if (!entry.hadRecentInput) window.moved += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
WORDS = "ash oak elm fir yew bay fig pear plum lime palm pine rowan birch beech maple larch alder"
WORDS = f"{WORDS} aspen cedar hazel holly willow poplar walnut almond cherry spruce acacia"
ENTER, SPACE, RIGHT = "\ue007", " ", "\ue014"


STATE = "return document.querySelector('.figure').dataset.state"
WRITTEN = "return [...document.querySelectorAll('.letters-words span')].map((e) => e.textContent)"
POINTS = """
const line = document.querySelector('.figure svg path.line.a');
return (line?.getAttribute('d') ?? '').split('L').length;
"""


class Own:
    """The figure in the browser."""

    def __init__(self, browser):
        self.browser = browser
        wait(browser, lambda: self.all(".figure-says"))

    def all(self, css):
        return self.browser.find_elements("css selector", f".figure {css}")

    @property
    def state(self):
        return self.browser.execute_script(STATE)

    @property
    def said(self):
        return self.all(".figure-says")[0].text

    def button(self, label):
        fixed = ".figure :is(button, .figure-choice label):not(.letters-bars *)"  # bars come and go
        found = self.browser.find_elements("css selector", fixed)
        return next(element for element in found if element.text == label)

    def words(self):
        return self.browser.execute_script(WRITTEN)

    def tap(self, element):
        """Put a finger on an element and lift it."""
        where = """
        arguments[0].scrollIntoView({ block: 'center', behavior: 'instant' });
        const box = arguments[0].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2];
        """
        x, y = self.browser.execute_script(where, element)
        touch = self.browser.execute_cdp_cmd
        touch("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
        touch("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_model_is_trained_sent_asked_and_trained_on(browser, page):
    set_screen(browser, 1280)
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page)
    own = Own(browser)
    browser.execute_script(SHIFTS)
    assert own.said.startswith("Recorded") and len(own.words()) == 10
    own.button("your words").click()
    area = own.all("textarea")[0]
    wait(browser, lambda: area.get_property("value") == "" and not area.get_property("readOnly"))
    own.button("Train").send_keys(ENTER)
    wait(browser, lambda: "at least 20 words" in own.said)
    area.send_keys(WORDS)
    wait(browser, lambda: own.all(".letters-small")[0].text == f"{len(WORDS.split())} words")
    own.button("Train").send_keys(ENTER)  # by keys
    wait(browser, lambda: own.state == "trains")
    assert "weights learn from 25 words; 4 are held out" in own.said
    wait(browser, lambda: browser.execute_script(POINTS) >= 4)
    own.button("Stop").click()
    wait(browser, lambda: own.state == "done")
    assert "the bigram" in own.said and "the 3-gram" in own.said
    link = own.all("input[readonly]")[0].get_property("value")
    assert link == browser.current_url and 18_000 < len(link.split("#")[1]) < 20_000
    assert all(set(word) <= set(WORDS) for word in own.words() if word != "(nothing)")
    own.button("Copy link").click()
    wait(browser, lambda: own.all(".figure-link span")[0].text.startswith("Copied"))
    assert browser.execute_script("return window.moved") < 0.02
    assert serious(browser) == []

    # whoever gets it, on a phone, by night, with reduced motion
    set_screen(browser, 390, "dark")
    calm = [{"name": "prefers-reduced-motion", "value": "reduce"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": calm})
    with touched(browser):
        browser.get("about:blank")
        browser.get(link)
        own = Own(browser)
        wait(browser, lambda: own.state == "opened")
        assert own.said.startswith("This model came with the link") and len(own.words()) == 10
        begin = own.all(".letters-line input")[0]
        own.tap(own.all(".letters-bars button")[0])  # its likeliest letter
        wait(browser, lambda: len(begin.get_property("value")) == 1)
        first = begin.get_property("value")
        wait(browser, lambda: all(word.startswith(first) for word in own.words()))
        begin.send_keys("5")
        wait(browser, lambda: own.said == "This model has never read 5.")
        begin.clear()
        own.tap(own.button("your words"))
        own.all("textarea")[0].send_keys(WORDS)
        own.tap(own.button("Train it on"))
        wait(browser, lambda: own.state == "trains")
        wait(browser, lambda: browser.execute_script(POINTS) >= 2)
        own.tap(own.button("Stop"))
        wait(browser, lambda: own.state == "done")
        assert browser.current_url.split("#")[1] != link.split("#")[1]
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        assert serious(browser) == []
    set_screen(browser)
    assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []


LOADED = """
const files = [...document.querySelectorAll('head :is(script[src], link)')];
return files.map((e) => (e.src || e.href).split('/').pop())
  .filter((name) => /letters|lists/.test(name)).sort();
"""


def test_its_parts_come_when_it_is_near_and_its_lists_with_the_first_use(browser, page):
    far = "document.querySelector('.figure').style.marginTop = '9000px'"
    far = f"document.addEventListener('DOMContentLoaded', () => {{ {far} }})"
    add = "Page.addScriptToEvaluateOnNewDocument"
    made = browser.execute_cdp_cmd(add, {"source": far})
    try:
        browser.get("about:blank")
        browser.get(page)
        wait(browser, lambda: browser.find_elements("css selector", ".figure.waits"))
        assert browser.execute_script(LOADED) == []
        browser.execute_script("document.querySelector('.figure').scrollIntoView()")
        own = Own(browser)
        assert browser.execute_script(LOADED) == ["letters-figure.js", "letters.css"]
        own.all(".letters-model button")[0].send_keys(SPACE)
        wait(browser, lambda: len(browser.execute_script(LOADED)) == 4)
    finally:
        browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", made)
