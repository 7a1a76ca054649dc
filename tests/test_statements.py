"""Sentences of the pages whose numbers no cell of theirs shows: each is computed here."""

import inspect
import json
import random
import re
from functools import partial
from importlib import import_module
from itertools import combinations
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from course_tools import tool

from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.data.data_sets import load_names, split
from former_nb.data.text import BOS
from former_nb.data.toy_data import english_number, german_number
from former_nb.models.savable import make_model
from former_nb.saving.saving import load_model

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
order = tool("order")


def prose(page):
    cells = nbformat.read(NBS / f"{page}.ipynb", 4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_sixteen_modules_are_made_from_lessons_and_every_page_gives_its_module_its_name():
    assert "Sixteen modules are generated from lessons" in prose("index")
    sources = {}
    for module in sorted((ROOT / "former_nb").rglob("*.py")):
        said = re.search(r"File to edit: [./]*nbs/(\S+)\.ipynb", module.read_text("utf-8"))
        if said and "solutions" not in said[1]:
            sources[module.stem] = said[1]
            name = re.sub(r"^\d+_", "", Path(said[1]).name)
            assert module.stem in order.NAMED.get(said[1], (name,))
    lessons = {page for page in sources.values() if "/" not in page} - {order.FIRST}
    assert lessons == {*order.PATH} and len(lessons) == 16


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_twelve_untrained_layers_shrink_a_word_to_about_a_millionth(seed):
    said = "twelve layers in a row would leave about a millionth of its length"
    assert f"{said}, if they replace their input and have no biases" in prose("06_block")
    torch.manual_seed(seed)
    x = y = torch.randn(1, 6, 32)
    for _ in range(12):
        y = MultiHeadAttention(32, 4, bias=False)(y)
    assert 2e-7 < y.norm() / x.norm() < 2e-6


def test_the_stacks_of_the_paper_have_44_million_weights_and_its_matrix_19():
    text = prose("13_encoder_decoder")
    assert "The two stacks have 44 million of them, and the matrix has 19 million" in text
    with torch.device("meta"):
        model = make_model(37_000)
    count = lambda *parts: sum(p.numel() for part in parts for p in part.parameters())
    stacks, matrix = count(model.encoder, model.decoder), count(model.src_embed.tokens)
    assert (round(stacks / 1e6), round(matrix / 1e6)) == (44, 19)
    assert count(model) == stacks + matrix  # one matrix for both sides and for the logits


def test_the_page_of_the_classifier_says_no_minutes_that_it_does_not_show():
    page = nbformat.read(NBS / "09_classifier.ipynb", 4)
    shown = "".join(str(output) for cell in page.cells for output in cell.get("outputs", []))
    assert "seconds" not in shown
    said = re.findall(r"(\w+) minutes", prose("09_classifier"))
    assert set(said) <= {"some", "work"} | {n for n in said if n.isdigit()}, said


def test_the_valley_has_nine_rates_with_and_without_warm_up_and_three_seeds():
    text = prose("08_training")
    assert "54 runs" in text and "nine rates, each with and without warm-up" in text
    recorded = (ROOT / "docs" / "_ext" / "the_valley.json").read_text(encoding="utf-8")
    runs = [(run["rate"], run["warmup"], run["seed"]) for run in json.loads(recorded)["runs"]]
    rates, warmups, seeds = map(set, zip(*runs))
    assert (len(rates), len(warmups), len(seeds)) == (9, 2, 3) and 0 in warmups
    assert len(runs) == len({*runs}) == 54


def without(off, i, q, k, v, mask, is_causal):
    "Attention in which some heads, pairs of layer and head, write nothing."
    y = attention(q, k, v, mask, is_causal).clone()
    for layer, head in off:
        if layer == i:
            y[:, head] = 0
    return y


@torch.no_grad()
def test_no_head_of_the_model_of_names_but_nine_pairs_keep_j_from_the_first_place():
    text = prose("10_generator")
    assert "switching off any one of the twelve heads leaves it in first place" in text
    assert "Of the 66 pairs of heads, nine clearly move it." in text
    model, tokenizer, _ = load_model("names", "cpu")
    [j] = tokenizer.encode("j")
    tokens = torch.tensor([[BOS, *tokenizer.encode("mari")]])
    heads = [(layer, head) for layer in range(3) for head in range(4)]

    def lead(*off):  # of j before the likeliest other letter
        p = model(tokens, [partial(without, off, i) for i in range(3)])[0, -1].softmax(-1)
        return (p[j] - p[torch.arange(len(p)) != j].max()).item()

    assert all(lead(head) > 0.005 for head in heads)
    leads = [lead(*pair) for pair in combinations(heads, 2)]
    assert len(leads) == 66 and sum(lead < -0.003 for lead in leads) == 9


def test_a_head_that_looks_at_all_tokens_alike_has_these_shares_of_tens_and_ones():
    text = prose("14_number_words")
    shares = []
    for n in [n for n in range(21, 100) if n % 10]:
        ones, tens = german_number(n).split("und", 1)
        length = len(german_number(n)) + 2  # with its beginning and its end
        shares.append((len(tens) / length, len(ones) / length))
    assert "*einundzwanzig* has 15 tokens" in text and "Over all 72 numbers" in text
    assert german_number(21) == "einundzwanzig" and len(german_number(21)) + 2 == 15
    assert len(shares) == 72 and english_number(21) == "twenty-one"
    means = [f"{sum(column) / 72:.2f}" for column in zip(*shares)]
    first = [f"{share:.2f}" for share in shares[0]]
    assert f"a share of {first[0]}, and three spell *ein*, {first[1]}" in text
    assert f"the mean shares are {means[0]} and {means[1]}" in text


def test_the_floor_of_smoothed_targets_is_that_of_the_vocabulary_of_lesson_16():
    "The best model gives each token what the smoothed target gives it."
    nb = nbformat.read(NBS / "16_translation.ipynb", 4)
    assert any("5,000 tokens" in str(cell.get("outputs", "")) for cell in nb.cells)
    p = torch.full((5000,), 0.1 / 5000)
    p[7] += 0.9
    floor = F.cross_entropy(p.log()[None], torch.tensor([7]), label_smoothing=0.1)
    assert f"With 5,000 tokens that's {floor:.2f} nats" in prose("16_translation")


def test_the_index_gives_each_page_the_minutes_that_the_page_gives_itself():
    shown = {}  # page -> read and work; the tour has one number
    for page, minutes in re.findall(
        r"\]\((\w+)\.ipynb\)[^|]* \| ([\d \u00b7]+) \|", prose("index")
    ):
        shown[page] = [int(number) for number in minutes.split(" \u00b7 ")]
    for page in [*order.STEPS, order.PAPER]:
        said = re.search(r"\*\*(\d+) minutes(?: to read, (\d+) with the work)?\*\*", prose(page))
        assert shown[page] == [int(n) for n in said.groups() if n], page
    read = sum(minutes[0] for minutes in shown.values()) / 60
    work = sum(minutes[-1] for minutes in shown.values()) / 60
    half = round(2 * read)
    hours = f"{half // 2}" + "\u00bd" * (half % 2)
    said = f"Reading takes {hours} hours; reading plus exercises, {round(work)}."
    assert said in prose("index")


def test_the_index_says_how_many_pages_and_hours_the_second_course_has():
    minutes = r"\*\*(\d+) minutes to read, (\d+) with the work\*\*"
    shown = [re.search(minutes, prose(page)).groups() for page in order.DIVES]
    read, work = (sum(int(number) for number in column) / 60 for column in zip(*shown))
    half = round(2 * read)
    hours = f"{half // 2}" + "\u00bd" * (half % 2)
    said = f"{len(shown)} deep dives are a course of their own: {hours} hours to read, "
    assert f"{said}{round(work)} with the exercises." in prose("index")


def lesson_of(module):
    "The number of the lesson that a page which makes this module belongs to, or None."
    source = inspect.getsource(import_module(module))
    found = re.search(r"File to edit: [./]*nbs/(?:deeper/)?(\d\d)_\w+\.ipynb", source)
    return found and found[1]


def test_the_hurried_road_leaves_out_no_lesson_that_a_later_one_imports():
    [said] = re.findall(r"In a hurry, leave out (.+?)\.", prose("index"))
    skipped = {*re.findall(r"\d\d", said)}
    assert skipped < {page[:2] for page in order.PATH}
    for page in order.PATH:
        if page[:2] not in skipped:
            source = (NBS / f"{page}.ipynb").read_text(encoding="utf-8")
            modules = {*re.findall(r"from (former_nb[\w.]+) import", source)}
            needed = {lesson_of(module) for module in modules} - {None}
            assert not needed & skipped, page


def test_the_data_that_project_offers_are_in_the_modules_that_its_table_names():
    rows = re.findall(r"^\| (`\w+.*?) \| (`.+?) \| .+ \|$", prose("project"), re.M)
    assert len(rows) == 5
    for data, module in rows:
        names, modules = re.findall(r"`(\w+)", data), re.findall(r"`([\w.]+)`", module)
        for i, name in enumerate(names):
            where = import_module("former_nb." + modules[min(i, len(modules) - 1)])
            assert hasattr(where, name), name


def test_in_23_of_a_hundred_draws_a_held_out_name_brings_a_letter_that_no_training_name_has():
    said = "a hundred times, with the seeds 0 to 99, and cut them, in 23 cases"
    assert said in prose("deeper/07_batches")
    names = load_names()[0]
    found = 0
    for seed in range(100):
        drawn = random.Random(seed).sample(names, 200)
        train, *held_out = split(drawn, (0.8, 0.1, 0.1), seed=seed)
        found += bool({*"".join(name for part in held_out for name in part)} - {*"".join(train)})
    assert found == 23


def printed(page, words):
    "The one output of a page that has these words."
    [text] = [
        output["text"]
        for cell in nbformat.read(NBS / f"{page}.ipynb", 4).cells
        for output in cell.get("outputs", [])
        if words in output.get("text", "")
    ]
    return text


def test_the_root_keeps_the_weights_of_an_untrained_head_spread():
    "What other pages say of lesson 02's table is in its output."
    table = printed("02_attention", "undivided")
    largest = re.findall(r"d_k +64 (\w+) .* largest weight (\S+)\n", table)
    assert largest == [("undivided", "0.95"), ("divided", "0.29")]


def test_the_gradient_at_a_query_is_small_without_the_root_only_where_no_head_is_as_wide():
    "What other pages say of the table of claim 1 is in its output."
    table = printed("deeper/08_claims", "with it")
    at_64 = re.findall(r"d_k = +64, (with\w*) .* weight (\S+), gradient (\S+)\n", table)
    assert at_64 == [("without", "0.95", "0.32804"), ("with", "0.29", "0.29689")]
    assert re.search(r"d_k = 1024, without the root .* gradient 0.00005\n", table)
    assert "0.33 against 0.30" in prose("paper")
    assert "to 0.00005 at a width of 1024" in prose("paper")
    assert "gives 0.95 to one of ten keys" in prose("deeper/08_claims")
