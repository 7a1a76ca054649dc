"""The viewer: what a page holds, that it asks for nothing else, and what a browser makes of it.

The browser tests need Chromium with chromedriver."""

import base64
import html
import json
import re
import zlib

import numpy as np
import pytest
import torch
from browser_tools import (
    BROWSER,
    DRIVER,
    before_scripts,
    serious,
    set_screen,
    start_browser,
    without_scripts,
)
from cli_tools import done, former, refused
from recording_tools import ours, theirs
from refusals import every_row
from torch import nn

from former_nb.base.core import set_seed
from former_nb.data.tokenization import CharTokenizer
from former_nb.data.tokens import BOS, EOS
from former_nb.inspection.recording import find_attention, record_attention
from former_nb.inspection.viewer import MAX_TOKENS, plot_heads, view
from former_nb.models.config import TransformerConfig
from former_nb.models.modern_decoder import modern_decoder
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.saving.saving import load_model

TRICKY = [
    "</script><script>alert(1)</script>",
    "<!--",
    "&amp;",
    '"',
    "\u2028",
    "日本",
    "\ud800",
    "\\",
]


@pytest.fixture(scope="module")
def names():
    return load_model("names")[:2]


@pytest.fixture(scope="module")
def numbers():
    return load_model("numbers")[:2]


def data(page):
    [text] = re.findall(
        r'<script type="application/json" id="data">(.*?)</script>', page.html, re.S
    )
    return json.loads(text)


def heads(panel):
    "(kind, layer, head) -> weights as they are on the page."
    found, counts = {}, {}
    weights = np.frombuffer(zlib.decompress(base64.b64decode(panel["bytes"])), np.uint8)
    for layer in panel["layers"]:
        n = counts[layer["kind"]] = counts.get(layer["kind"], 0) + 1
        T, S = (len(panel["texts"][layer[side]]) for side in ("queries", "keys"))
        for head in range(1, layer["heads"] + 1):
            own, weights = weights[: T * S], weights[T * S :]
            found[layer["kind"], n, head] = (own.reshape(T, S) / 255) ** 2
    assert not len(weights)
    return found


def test_the_page_holds_the_weights_the_tokens_and_the_numbers(names):
    model, tokenizer = names
    page = view(model, "Jonas", tokenizer)
    [panel] = data(page)["panels"]
    assert panel["texts"][0] == ["<bos>", *"jonas"] and page.notes == []
    tokens = torch.tensor([[BOS, *tokenizer.encode("Jonas")]])
    with record_attention(model) as weights, torch.no_grad():
        model(tokens)
    layers = {(x.kind, x.layer): weights[x.name][0] for x in find_attention(model)}
    for (kind, layer, head), found in heads(panel).items():
        wanted = layers[kind, layer][head - 1].numpy()
        assert np.abs(found - wanted).max() < 0.0041
        assert np.allclose(page.head(kind, layer, head)[0], wanted)
        entropy = -(wanted * np.log2(np.maximum(wanted, 1e-30))).sum(-1).mean()
        assert abs(panel["layers"][layer - 1]["stats"][head - 1][0] - entropy) < 0.001


def test_a_translator_writes_its_own_target_or_reads_another(numbers):
    page = view(numbers[0], ["einundzwanzig", ("zwei", "two")], numbers[1])
    own, other = data(page)["panels"]
    assert own["name"] == "einundzwanzig → twenty-one"
    assert other["texts"] == [["<bos>", *"zwei", "<eos>"], ["<bos>", *"two"]]
    assert {kind for kind, *_ in heads(other)} == {"encoder", "decoder", "cross"}
    assert data(page)["kinds"] == ["encoder", "decoder", "cross"]


def test_classifiers_layers_of_pytorch_and_transformers_are_shown():
    set_seed(0)
    tokenizer = CharTokenizer("abcdefg")
    panel = data(view(ours(Classifier), "abba", tokenizer))["panels"][0]
    assert panel["texts"][0] == ["<bos>", *"abba", "<eos>"]
    layer, x = nn.MultiheadAttention(12, 3, batch_first=True), torch.randn(1, 4, 12)
    panel = data(view(layer, (x, x, x)))["panels"][0]
    assert panel["texts"][0] == ["0", "1", "2", "3"] and len(heads(panel)) == 3
    ids = torch.tensor([[5, 7, 2]])
    for name, inputs in (("GPT2", ids), ("Bert", dict(input_ids=ids)), ("Bart", (ids, ids[:, :2]))):
        panel = data(view(theirs(name), inputs))["panels"][0]
        assert panel["texts"][0] == ["5", "7", "2"] and len(panel["layers"]) in (2, 6)


class Theirs:
    "As a tokenizer of Transformers."

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer

    def __call__(self, text):
        return {"input_ids": [1, *self.tokenizer.encode(text)]}

    def convert_ids_to_tokens(self, ids):
        return [f"#{i}" for i in ids]


def test_one_adapter_for_each_kind_of_model_reads_the_same_from_texts_tokens_and_arguments():
    tokenizer, ids = CharTokenizer("abcdefg"), torch.tensor([[BOS, 4, 5, 5, 4]])
    model, classifier, two = (ours(kind) for kind in (LanguageModel, Classifier, EncoderDecoder))
    shown = lambda *args, **how: heads(data(view(*args, **how))["panels"][0])
    same = lambda a, b: a.keys() == b.keys() and all(np.array_equal(a[key], b[key]) for key in a)
    plain = shown(model, ids)
    assert same(plain, shown(model, "abba", tokenizer))  # a text that goes on has no end
    assert same(plain, shown(model, "abba", Theirs(tokenizer)))
    assert same(plain, shown(model, dict(tokens=ids), tokens=list("<abba")))
    whole = torch.cat([ids, torch.tensor([[EOS]])], dim=1)
    assert same(shown(classifier, whole), shown(classifier, "abba", tokenizer))
    assert same(shown(two, (whole, ids)), shown(two, ("abba", "abba"), tokenizer))
    gpt = theirs("GPT2")
    assert same(shown(gpt, ids), shown(gpt, dict(input_ids=ids)))
    bart = theirs("Bart")
    sides = dict(input_ids=whole, decoder_input_ids=ids)
    assert same(shown(bart, (whole, ids)), shown(bart, sides))
    panel = data(view(model, "abba", Theirs(tokenizer)))["panels"][0]
    assert panel["texts"][0] == ["#1", "#4", "#5", "#5", "#4"]


def test_models_that_were_made_by_hand_are_shown():
    tokenizer, ids = CharTokenizer("abcdefg"), torch.tensor([[5, 7, 2]])
    model = modern_decoder(11, 12, 3, 1, 2, 16).eval()
    [panel] = data(view(model, "abba", tokenizer))["panels"]
    assert panel["texts"][0] == ["<bos>", *"abba"] and len(heads(panel)) == 6
    made = ours(EncoderDecoder)
    two = EncoderDecoder(made.src_embed, made.encoder, made.decoder).eval()
    [panel] = data(view(two, (ids, ids[:, :2])))["panels"]
    assert panel["texts"] == [["5", "7", "2"], ["5", "7"]]


def small(n):
    set_seed(0)
    config = TransformerConfig(40, n, d_model=16, n_heads=2, n_layers=1, d_ff=16)
    return LanguageModel.from_config(config).eval(), torch.randint(4, 40, (1, n))


def test_a_token_is_shown_and_never_run():
    model, ids = small(len(TRICKY))
    page = view(model, ids, tokens=TRICKY)
    assert page.html.count("</script>") == view(model, ids).html.count("</script>")
    assert "alert(1)</script>" not in page.html and "<!--" not in page.html
    shown = data(page)["panels"][0]["texts"][0]
    assert shown == [token.replace("\ud800", "?") for token in TRICKY]
    framed = page._repr_html_()
    assert framed.count("<") == 2 and html.unescape(framed).count(page.html) == 1


def test_the_page_asks_for_nothing_else(names):
    text = view(names[0], "Jonas", names[1]).html
    assert re.findall(r"""(?:src|href|url)\s*[=(]\s*["']?(\S+?)["'>)]""", text) == ["data:,"]
    assert not re.search(r"\bimport\b|fetch\(|XMLHttp|https?://(?!www\.w3\.org/2000/svg)", text)


def test_long_inputs_are_cut_and_the_page_says_so(monkeypatch):
    model, ids = small(600)
    page = view(model, ids)
    [panel] = data(page)["panels"]
    assert len(panel["texts"][0]) == MAX_TOKENS and len(page.html) < 5e6
    assert "the first 512 of 600 tokens are shown" in page.notes[0]
    assert next(iter(heads(panel).values())).shape == (512, 512)
    monkeypatch.setattr("former_nb.inspection.viewer.BUDGET", 20_000)
    page = view(model, ids)
    packed = base64.b64decode(data(page)["panels"][0]["bytes"])
    [kept, share] = re.search(r"the (\d+) largest .* shown, (\d+)%", page.notes[1]).groups()
    found = next(iter(heads(data(page)["panels"][0]).values()))
    assert len(packed) <= 20_000 and (found > 0).sum(-1).max() <= int(kept) < 512
    assert 0 < int(share) < 100


def test_pictures_for_print(numbers):
    import matplotlib.pyplot as plt

    page = view(numbers[0], "einundzwanzig", numbers[1])
    figure = plot_heads(page)
    assert len(figure.axes) == 2 * 2 and figure.axes[0].get_title() == "layer 1, head 1"
    plt.close("all")


def test_the_command_writes_a_page(tmp_path):
    file = tmp_path / "page.html"
    assert str(file) in done("view", "--model", "numbers", "zwei", "drei", "--out", file)
    assert "zwei → two" in file.read_text(encoding="utf-8")
    for words, said in (
        (("a", "b", "c"), "inputs: "),
        (("a" * 99,), "inputs: "),
        (("a", "--model", tmp_path / "no"), "model: "),
        (("a", "--out", tmp_path / "no" / "page.html"), "No such file"),
    ):
        refused(former("view", *words), said)


MODEL = LanguageModel.from_config(
    TransformerConfig(11, 6, d_model=16, n_heads=2, n_layers=2, d_ff=16)
).eval()
IDS, LETTERS = torch.tensor([[5, 7, 2]]), CharTokenizer("abcdefg")
TABLE = {
    "view": [
        ("no attention", lambda: view(nn.Linear(2, 2), IDS), ValueError, "model"),
        ("no model", lambda: view("names", "a"), TypeError, "model", "str"),
        ("no tokenizer", lambda: view(MODEL, "abc"), TypeError, "tokenizer", "None"),
        ("a number", lambda: view(MODEL, 3, LETTERS), TypeError, "inputs", "int"),
        ("no text", lambda: view(MODEL, ("a", 3), LETTERS), TypeError, "inputs", "int"),
        ("too long", lambda: view(MODEL, "a" * 9, LETTERS), ValueError, "inputs", "10"),
        (
            "too long for BERT",
            lambda: view(theirs("Bert"), torch.ones(1, 17).long()),
            ValueError,
            "inputs",
            "17",
        ),
        ("another vocabulary", lambda: view(MODEL, IDS + 8), ValueError, "tokens", "15"),
        ("three inputs", lambda: view(MODEL, [IDS] * 3), ValueError, "inputs", "3"),
        ("no input", lambda: view(MODEL, []), ValueError, "inputs", "0"),
        ("a pair", lambda: view(MODEL, ("a", "b"), LETTERS), ValueError, "inputs", "2"),
        ("two texts", lambda: view(MODEL, IDS.repeat(2, 1)), ValueError, "weights"),
        (
            "tokens that are no text",
            lambda: view(MODEL, IDS, tokens=[1, 2, 3]),
            TypeError,
            "tokens",
            "1, 2, 3",
        ),
        ("few tokens", lambda: view(MODEL, IDS, tokens=["a"]), ValueError, "tokens", "1"),
        (
            "tokens of one input",
            lambda: view(MODEL, [IDS, IDS], tokens=[["a", "b", "c"]]),
            ValueError,
            "tokens",
            "1",
        ),
    ],
    "head": [
        (
            "not there",
            lambda: view(MODEL, IDS).head("self", 2, 3),
            ValueError,
            "head",
            "('self', 2, 3)",
        ),
    ],
}


test_bad_input = every_row(TABLE)


# ---------------------------------------------------------------- in a browser, without a network

DRAWN = """
const done = arguments[0], drawn = () => document.documentElement.dataset.drawn;
const wait = n => drawn() || !n ? requestAnimationFrame(() => done(drawn()))
  : setTimeout(wait, 50, n - 1);
wait(300);
"""
CELL = """
const canvas = document.querySelectorAll('canvas.map')[0];
canvas.focus();
for (const key of arguments[0]) canvas.dispatchEvent(new KeyboardEvent('keydown', { key }));
return canvas.parentElement.nextElementSibling.textContent;
"""
HOVER = """
const token = document.querySelector('.side.queries').children[arguments[0]];
token.dispatchEvent(new PointerEvent('pointerenter'));
return document.querySelectorAll('.head line').length;
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    if not (BROWSER and DRIVER):
        pytest.skip("Chromium or chromedriver is missing")
    with start_browser(tmp_path_factory.mktemp("profile")) as driver:
        yield driver


def opened(browser, page, file, width=1280, theme="light"):
    "Open a page as a file; whatever it asked for or complained of is a fault."
    set_screen(browser, width, theme)
    browser.get(page.save(file).resolve().as_uri())
    assert browser.execute_async_script(DRAWN) == "yes"
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"
    ]
    assert {url.split(":")[0] for url in asked} <= {"file", "data", "blob"}, asked
    assert [e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")] == []
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    return browser


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_two_inputs_stand_side_by_side_or_below_each_other(
    browser, numbers, tmp_path, width, theme
):
    page = view(numbers[0], ["einundzwanzig", "zwei"], numbers[1])
    opened(browser, page, tmp_path / "page.html", width, theme)
    boxes = [e.rect for e in browser.find_elements("css selector", "#panels > div")]
    assert (boxes[0]["y"] == boxes[1]["y"]) == (width == 1280)
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 24, 29)"}[theme]
    assert len(browser.find_elements("css selector", ".thumb")) == 2 * 4
    assert len(browser.find_elements("css selector", "canvas.map")) == 2
    assert serious(browser) == []


def test_a_head_is_chosen_a_cell_is_read_and_a_token_shows_its_lines(browser, names, tmp_path):
    page = view(names[0], "Jonas", names[1])
    opened(browser, page, tmp_path / "page.html")
    browser.find_elements("css selector", ".thumb")[5].click()  # layer 2, head 2
    chosen = [browser.find_element("id", name).get_property("value") for name in ("layer", "head")]
    assert chosen == ["1", "1"]
    weights = page.head("self", 2, 2)[0]
    said = browser.execute_script(CELL, ["ArrowDown"] * 3 + ["ArrowRight"] * 2)
    assert said.startswith("3 n → 2 o: ") and abs(float(said.split()[-1]) - weights[3, 2]) < 0.01
    assert browser.execute_script(HOVER, 3) == (weights[3] >= 0.001).sum()
    row = browser.find_element("css selector", "tr.chosen").text.split()
    assert row[:2] == ["2", "2"]


def test_every_control_answers_to_keys_in_both_inputs(browser, numbers, tmp_path):
    from selenium.webdriver.support.select import Select

    page = view(numbers[0], ["einundzwanzig", "zwei"], numbers[1])
    opened(browser, page, tmp_path / "page.html")
    there = lambda css: browser.find_elements("css selector", css)
    values = lambda: [there(f"#{name}")[0].get_property("value") for name in ("layer", "head")]
    count = lambda: len(there(".head line"))
    Select(there("#kind")[0]).select_by_visible_text("encoder")
    labels = [[e.text for e in side.find_elements("xpath", "./div")] for side in there(".keys")]
    assert labels == [["<bos>", *text, "<eos>"] for text in ("einundzwanzig", "zwei")]
    there(".thumb")[4 + 2].send_keys("\ue007")  # enter, on layer 2, head 1 of the second input
    assert values() == ["1", "0"]
    pressed = '.thumb[aria-pressed="true"][aria-label="layer 2, head 1"]'
    assert len(there(pressed)) == 2 and len(there('.thumb[aria-pressed="true"]')) == 2
    there("#table tr:nth-child(2) button")[0].send_keys(" ")
    assert values() == ["0", "0"]
    there("#layer")[0].send_keys("\ue015")  # arrow down
    there("#head")[0].send_keys("\ue015")
    assert values() == ["1", "1"]
    Select(there("#least")[0]).select_by_visible_text("0.001")
    weights = [page.head("encoder", 2, 2, i)[0] for i in range(2)]
    shown = [(np.round(w.numpy() ** 0.5 * 255) / 255) ** 2 >= 0.001 for w in weights]
    assert count() == sum(s.sum() for s in shown)
    for canvas, said, w in zip(there("canvas.map"), there(".said[aria-live]"), weights):
        canvas.send_keys("\ue015\ue014\ue014")  # down, right, right
        assert said.text.startswith("1 ") and abs(float(said.text.split()[-1]) - w[1, 2]) < 0.01
    there("#theme")[0].send_keys(" ")
    assert there("#theme")[0].text == "Light" and values() == ["1", "1"]


def test_a_browser_that_cannot_draw_says_so(browser, names, tmp_path):
    page = view(names[0], "Jonas", names[1]).save(tmp_path / "page.html").resolve().as_uri()
    seen = lambda: browser.find_element("css selector", "body").text.split("\n")[-1]
    with before_scripts(browser, "delete window.DecompressionStream"):
        browser.get(page)
        assert seen() == "This browser cannot unpack the weights; one from 2023 or later can."
    with without_scripts(browser):
        browser.get(page)
        assert seen() == "This page draws with JavaScript, which is switched off here."
    with before_scripts(browser, "delete window.WebAssembly"):  # it needs none
        opened(browser, view(names[0], "Jonas", names[1]), tmp_path / "page.html")


def test_what_a_token_spells_is_shown(browser, tmp_path):
    model, ids = small(len(TRICKY))
    opened(browser, view(model, ids, tokens=TRICKY), tmp_path / "page.html")
    shown = browser.execute_script(
        "return [...document.querySelector('.side.keys').children].map(e => e.textContent)"
    )
    assert shown == [token.replace("\ud800", "?") for token in TRICKY]


def test_a_cell_of_a_notebook_is_drawn_in_its_frame(browser, names, tmp_path):
    page = view(names[0], "Jonas", names[1])
    (tmp_path / "notebook.html").write_text(page._repr_html_(), encoding="utf-8")
    browser.get((tmp_path / "notebook.html").resolve().as_uri())
    browser.switch_to.frame(browser.find_element("css selector", "iframe"))
    assert browser.execute_async_script(DRAWN) == "yes"
    assert len(browser.find_elements("css selector", ".thumb")) == 12
    browser.switch_to.default_content()


def test_512_tokens_are_usable(browser, tmp_path):
    model, ids = small(512)
    opened(browser, view(model, ids), tmp_path / "page.html", 390, "dark")
    said = browser.execute_script(CELL, ["ArrowDown"] * 511)
    assert said.startswith(f"511 {ids[0, 511]} → 0 {ids[0, 0]}: ")
    assert 0 < len(browser.find_elements("css selector", ".head line")) <= 4000
