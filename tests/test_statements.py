"""Sentences of the pages whose numbers no cell of theirs shows: each is computed here."""

import re
from pathlib import Path

import pytest
import torch
from course_tools import tool

from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.models.encoder_decoder import make_model

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).resolve().parents[1]
NBS = ROOT / "nbs"
order = tool("order")


def prose(page):
    cells = nbformat.read(NBS / f"{page}.ipynb", 4).cells
    return "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def test_sixteen_modules_are_made_from_lessons_and_every_page_gives_its_module_its_name():
    assert "Sixteen modules are made from lessons" in prose("index")
    sources = {}
    for module in sorted((ROOT / "former_nb").rglob("*.py")):
        said = re.search(r"File to edit: [./]*nbs/(\S+)\.ipynb", module.read_text("utf-8"))
        if said and "solutions" not in said[1]:
            sources[module.stem] = said[1]
            name = re.sub(r"^\d+_", "", Path(said[1]).name)
            assert order.NAMED.get(said[1], name) == module.stem
    lessons = {page for page in sources.values() if "/" not in page}
    assert lessons == {*order.PATH} and len(lessons) == 16


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_twelve_untrained_layers_shrink_a_word_to_about_a_millionth(seed):
    assert "would shrink a word to about a millionth of its length" in prose("06_block")
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
