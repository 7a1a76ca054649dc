"""The site: how notebooks are read, and what a browser makes of every page.

The browser tests need `_site` (`make site` builds it) and Chromium with chromedriver. Of the pages
that are generated from the package, of lights and of widths they take a few; with
FORMER_NB_PAGES=all every page in each of them.
"""

import ast
import gzip
import html
import json
import os
import posixpath
import re
import runpy
import struct
import subprocess
import sys
import zipfile
from functools import cache
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated
from urllib.parse import unquote, urlsplit

import pytest
from browser_tools import (
    BROWSER,
    DRIVER,
    before_scripts,
    open_page,
    serious,
    served,
    set_screen,
    start_browser,
    without_scripts,
)
from course_tools import tool
from thorough import THOROUGH, some

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_site"
NOTEBOOKS = sorted(
    path for path in (ROOT / "nbs").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
)

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("sphinx", reason="the site's requirements are not installed")
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
import course_search
import nbdev_myst as ext
import page_policy
import site_downloads

v4, order, edition = nbformat.v4, tool("order"), tool("edition")
PNG = v4.new_output("display_data", {"image/png": "iVBORw0KGgo=", "text/plain": "<Figure>"})
SPEC = {"title": "</script>", "data": {"values": [{"a": 1}]}, "mark": "point", "width": 400}
SPEC |= {"encoding": {"x": {"field": "a", "type": "quantitative"}}}
DATA = {"application/vnd.vegalite.v5+json": SPEC, "image/png": "iVBO\nRw0K"}
CHART = v4.new_output("execute_result", DATA | {"text/plain": "<Altair chart>"})


def read(*cells):
    """The cells that the reader makes of these."""
    return ext.read(nbformat.writes(v4.new_notebook(cells=list(cells)))).cells


def read_code(source, *outputs):
    """The one cell that the reader makes of a code cell."""
    return read(v4.new_code_cell(source, outputs=list(outputs)))[0]


# ---------------------------------------------------------------- the reader


def test_a_page_offers_its_notebook_on_colab_and_kaggle():
    from types import SimpleNamespace as Of

    from docutils import nodes
    from docutils.core import publish_doctree

    def links(page, text="Title\n=====\n\n  Subtitle\n\nWords"):
        tree = publish_doctree(text)
        ext.offer_to_run(Of(env=Of(docname=page), config=Of(root_doc="index")), tree)
        return [node["refuri"] for node in tree.findall(nodes.reference)]

    tree = publish_doctree("Title\n=====\n\n  Subtitle\n\nWords")
    ext.offer_to_run(Of(env=Of(docname="deeper/04_flash"), config=Of(root_doc="index")), tree)
    [own] = tree.findall(nodes.raw)
    assert 'href="../_sources/deeper/04_flash.ipynb" download' in own.astext()
    for page in ("01_self_attention", "deeper/04_mask_patterns"):
        assert [link.partition("former-nb/former_nb")[2] for link in links(page)] == [
            f"/blob/main/nbs/{page}.ipynb"
        ] * 2
    assert not links("index") and not links("api/core") and not links("04_masks", "Words")


def test_a_page_leads_to_its_source_at_the_built_commit_and_to_a_report(tmp_path, monkeypatch):
    from types import SimpleNamespace as Of
    from urllib.parse import parse_qs

    def links(page, **context):
        app = Of(config=Of(html_baseurl="https://site/"))
        ext.lead_back(app, page, "page.html", context, None)
        return context["source"].removeprefix(f"{ext.SETTINGS['git_url']}/"), context["report"]

    monkeypatch.setattr(ext, "built_commit", lambda: "c0ffee")
    sources = {
        "index": "blob/c0ffee/nbs/index.ipynb",
        "deeper/04_mask_patterns": "blob/c0ffee/nbs/deeper/04_mask_patterns.ipynb",
        "glossary": "blob/c0ffee/nbs/glossary.md",
        "api/attention/masks": "blob/c0ffee/former_nb/attention/masks.py",
        "api/cli": "blob/c0ffee/former_nb/cli.py",
        "_modules/former_nb/attention/masks": "blob/c0ffee/former_nb/attention/masks.py",
        "api/house": "tree/c0ffee",
        "search": "tree/c0ffee",
    }
    assert {page: links(page)[0] for page in sources} == sources
    to = urlsplit(links("04_masks", title="04 \u00b7 Masks &amp; <code>x</code>")[1])
    told = parse_qs(to.query)
    assert to.path.endswith("/issues/new") and told["title"] == ["04 \u00b7 Masks & x: "]
    assert "https://site/04_masks.html" in told["body"][0] and "c0ffee" in told["body"][0]


def test_the_built_commit_is_this_repositorys_own_and_the_branch_without_git(tmp_path):
    commit = ext.built_commit.__wrapped__
    assert commit(tmp_path) == "main"
    (tmp_path / "inside").mkdir()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    assert re.fullmatch("[0-9a-f]{40}", commit(tmp_path.resolve()))
    assert commit(tmp_path.resolve() / "inside") == "main"  # a copy within someone else's


TAGS = {
    "#| hide": "remove-cell",
    "#| include: false": "remove-cell",
    "#| echo: false": "remove-input",
    "#| output: false": "remove-output",
    "#|eval: False": "skip-execution",
    "#| code-fold: true": "hide-input",
    "#| fold What is checked": "hide-input",
    "#| solution: true": "hide-cell",
    "#| exports": "export",
    "#| exporti": "export",
    "#| export other": "export",
}


@pytest.mark.parametrize("line, tag", TAGS.items())
def test_a_directive_becomes_a_tag_and_leaves_the_source(line, tag):
    cell = read_code(f"{line}\nx = 1")
    assert cell.metadata.tags == [tag] and cell.source == "x = 1"


def test_a_lone_default_exp_is_removed_and_other_comments_stay():
    assert read_code("#| default_exp attention").metadata.tags == ["remove-cell"]
    assert read_code("#| default_exp attention\nx = 1").metadata.tags == []
    assert read_code("# a comment\n#| not leading").source == "# a comment\n#| not leading"


def test_tags_of_the_author_are_kept():
    cell = v4.new_code_cell("#| echo: false\n1", metadata={"tags": ["mine"]})
    assert read(cell)[0].metadata.tags == ["mine", "remove-input"]


def test_folds_say_what_they_hide():
    options = read_code("#| code-fold: true\n#| code-summary: Show the plot\n1").metadata.mystnb
    assert (options.code_prompt_show, options.code_prompt_hide) == (
        "Show the plot",
        "Hide the plot",
    )
    shown = lambda source: read_code(source).metadata.mystnb.code_prompt_show
    assert shown("#| export\n#| fold What is checked\n1") == "What is checked"
    assert shown("#| solution: true\n1") == "Show the solution"


def test_imports_are_a_folded_note():
    cell = read_code("import torch\n\ntorch.manual_seed(0)")
    assert cell.metadata.tags == ["hide-input"]
    assert cell.metadata.mystnb.code_prompt_show == "What this page imports"
    shown = v4.new_output("execute_result", {"text/plain": "device(type='cpu')"})
    assert read_code("import torch\ntorch.device('cpu')", shown).metadata.tags == ["hide-cell"]
    named = read_code("#| fold Other words\nimport torch").metadata.mystnb
    assert named.code_prompt_show == "Other words"
    for source in ("import torch\nx = 1", "x = 1", "%pip install x", ""):
        assert read_code(source).metadata.tags == []


def test_figures_get_alt_caption_and_name():
    said = "#| fig-alt: A map: one row\n#| fig-cap: Rows\n#| label: fig-rows\nplot()"
    options = read_code(said, PNG).metadata.mystnb
    assert options.image == {"alt": "A map: one row"}
    assert options.figure == {"caption": "Rows", "name": "fig-rows"}


AXIS, ONE = "Pitfall: wrong axis", "Over the wrong axis.\nMore."
CALLOUTS = [
    ("> **Pitfall.** Over the wrong axis.\n> More.", "Pitfall", "danger", ONE),
    ("> **\u26a0 Pitfall: wrong axis**\n>\n> Look: `dim=1`.", AXIS, "danger", "Look: `dim=1`."),
    ("> **Pitfall: wrong axis.** Look.", AXIS, "danger", "Look."),
    ("> **Paper and code.** Pre-norm.", "Paper and code", "note", "Pre-norm."),
]


@pytest.mark.parametrize("text, head, style, body", CALLOUTS)
def test_callouts_become_admonitions(text, head, style, body):
    expected = f"Before.\n\n:::::{{admonition}} {head}\n:class: {style}\n\n{body}\n:::::\n\nAfter."
    assert read(v4.new_markdown_cell(f"Before.\n\n{text}\n\nAfter."))[0].source == expected


def test_other_quotes_stay_quotes():
    text = "# Title\n\n> A subtitle\n\nThe **Pitfall.** of it"
    assert read(v4.new_markdown_cell(text))[0].source == text


def test_a_chart_becomes_a_figure_that_no_script_tag_can_leave():
    markup = read_code('#| fig-alt: Rows "a" & b\nchart', CHART).outputs[0].data["text/html"]
    assert 'aria-label="Rows &quot;a&quot; &amp; b"' in markup
    assert '<script type="application/json">{"' in markup and '"title":"<\\/script>"' in markup
    assert '"description":"Rows' in markup
    assert markup.count("</script>") == 1
    sizes = re.findall(r'<img class="still (\S+)" alt="Rows [^>]* width="(\d+)" height', markup)
    (first, wide), (second, narrow) = sizes  # one picture for each width of the screen
    assert [first, second] == ["wide-only", "narrow-only"] and int(narrow) < 330 < int(wide)
    assert markup.count('src="data:image/svg+xml,%3Csvg') == 2 and len(markup) < 40_000


@pytest.mark.parametrize("output", [PNG, CHART])
def test_a_picture_without_alt_is_refused(output):
    with pytest.raises(ext.ExtensionError, match="fig-alt"):
        read_code("plot()", output)
    for unseen in ("#| hide", "#| output: false"):
        assert read_code(f"{unseen}\nplot()", output).outputs == []


@pytest.mark.parametrize(
    "text", ["![](a.svg)", "![ ](a.svg)", '<img src="a.svg">', '<img src="a.svg" alt="">']
)
def test_a_markdown_image_without_alt_is_refused(text):
    with pytest.raises(ext.ExtensionError, match="a.svg"):
        read(v4.new_markdown_cell(text))


def test_exports_link_to_the_reference():
    head = v4.new_code_cell("#| default_exp base.core")
    cell = v4.new_code_cell("#| export\ndef set_seed(): ...\n_private = 1")
    said = read(head, cell)[-1].source
    assert "{py:obj}`set_seed <former_nb.base.core.set_seed>`" in said and "_private" not in said
    names = ext.definitions("A = 1\nB, C = 2, 3\nx.y = 4\nclass D: ...")
    assert [name for name, _ in names] == ["A", "B", "C", "D"]
    assert len(read(v4.new_code_cell("#| default_exp checks.lesson_01"), cell)) == 2


def test_a_link_to_a_module_leads_to_its_reference():
    files = "[files](../../former_nb/base/files.py)"
    text = f"[guards](../former_nb/base/guards.py), {files}, [a](../a.py)"
    (cell,) = read(v4.new_markdown_cell(text))
    expected = "[guards](api/base/guards.md), [files](../api/base/files.md), [a](../a.py)"
    assert cell.source == expected


NEXT = dict.fromkeys(["02_b", "00_tour", "index", "library/core", "deeper/04_z"], {})
NEXT |= {"deeper/01_x": {"prev": "01_a", "next": "02_b"}, "03_c": {"next": None}}
NEXT |= {"deeper/03_y": {"prev": "03_c", "next": None}, "solutions/02_b": {}}


@pytest.mark.parametrize("page, expected", NEXT.items())
def test_a_deep_dive_leads_back_to_the_path(page, expected):
    pages = ["03_c", "index", "00_tour", "01_a", "02_b", "deeper/01_x", "solutions/02_b", page]
    assert ext.neighbours(page, dict.fromkeys(pages)) == expected


def test_the_last_build_ends_the_path():
    pages = dict.fromkeys(
        ["00_tour", "01_a", "02_b", "milestone_pytorch", "project", "deeper/02_x"]
    )
    assert ext.neighbours("02_b", pages) == ext.neighbours("milestone_pytorch", pages) == {}
    assert ext.neighbours("deeper/02_x", pages) == {"prev": "02_b", "next": "project"}
    assert ext.neighbours("project", pages) == {"next": None}
    assert ext.neighbours("paper", {**pages, "paper": None}) == {"prev": "02_b", "next": None}


@pytest.mark.parametrize("page", ["02_b", "deeper/02_b", "library/b", "solutions/02_b"])
def test_a_reference_page_leads_to_the_page_that_wrote_it(tmp_path, monkeypatch, page):
    monkeypatch.setattr(ext, "PACKAGE", tmp_path)
    head = "# AUTOGENERATED! DO NOT EDIT! File to edit: ../nbs/{}.ipynb.\n__all__ = []\n"
    (tmp_path / "b.py").write_text(head.format(page))
    verb = "Taught" if "02" in page and "solutions" not in page else "Written"
    assert f"{verb} in {{doc}}`/{page}`." in ext.api_page("b")


def test_a_reference_page_says_how_to_import_where_the_file_is_and_how_its_page_uses_it():
    page = ext.api_page("attention.masks")
    assert "from former_nb.attention.masks import causal_mask, padding_mask" in page
    assert "/blob/main/former_nb/attention/masks.py)" in page
    long = ext.import_line("decoding.sampling")
    assert max(map(len, long.splitlines())) <= 88 and ast.parse(long)
    assert "causal_mask(" in ext.example("attention.masks", "causal_mask")
    assert ext.example("base.guards", "check_int") == ""  # no page teaches it


PAPER = "https://arxiv.org/abs/1706.03762"
TEXTS = {
    "takes `x` and ``y``": "takes ``x`` and ``y``",
    r"by $\sqrt{d_k}$": r"by :math:`\sqrt{d_k}`",
    f"[Vaswani]({PAPER})": f"`Vaswani <{PAPER}>`__",
    "2**32 or *args": r"2\*\*32 or \*args",
    "not how *often*, 2**3 and (*a, *b)": r"not how *often*, 2\*\*3 and (\*a, \*b)",
}


@pytest.mark.parametrize("markdown, rst", TEXTS.items())
def test_docstrings_are_markdown(markdown, rst):
    assert ext.to_rst(markdown) == rst


def test_docments_become_parameter_fields():
    def scale(
        x: "Tensor",  # (B, T)  # noqa: F821
        by: int = 2,  # at least 1
    ) -> float:  # a number
        "Scale."

    expected = [":param x: (B, T) # noqa: F821", ":type x: Tensor", ":param by: at least 1"]
    expected += [":type by: int", ":returns: a number", ":rtype: float"]
    assert ext.parameter_fields(scale) == expected


FORMULAS = {r"\sqrt{d_k}": "√d_k", r"\frac{x}{y} \cdot \ln V": "x/y · ln V", "T": "T"}
FORMULAS |= {r"\frac{e^{z_i/\tau}}{\sum_j e^{z_j}}": "(e^(z_i/tau))/(Σ_j e^z_j)"}
FORMULAS |= {
    r"L = -\frac1N \sum_{i\,:\,y_i \ne \text{ignore}} \ln p": "L = -1/N Σ_(i : y_i ≠ ignore) ln p"
}
FORMULAS |= {r"QK^\top/\sqrt{a + 1}, (A B)'": "QKᵀ/√(a + 1), (AB)'"}
FORMULAS |= {r"\alpha \le \mathrm{softmax}(z)_i": "alpha ≤ softmax(z)_i"}


@pytest.mark.parametrize("tex, typed", FORMULAS.items())
def test_a_formula_is_found_as_it_is_typed(tex, typed):
    assert course_search.plain(course_search.nodes.math(tex, tex)) == typed


def test_a_command_is_described_by_its_help():
    class Option:
        help = "folder to write to"

    def train(out: Annotated[Path, Option()], *rest, **more): ...

    expected = [":param out: folder to write to", ":type out: ~pathlib.Path"]
    assert ext.parameter_fields(train) == expected


# ---------------------------------------------------------------- the course


def test_every_picture_of_the_course_has_alt_text():
    for path in NOTEBOOKS:
        assert ext.missing_alts(nbformat.read(path, as_version=4)) == [], path


def test_every_module_gets_a_page_that_names_its_notebook():
    for module in ext.api_modules():
        text = ext.api_page(module)
        assert f"automodule:: former_nb.{module}" in text
        lesson = ext.lesson_of(module)
        if lesson is None:
            assert "{doc}" not in text and "AUTOGENERATED" not in ext.module_text(module), module
        else:
            assert (ROOT / "nbs" / (lesson.lstrip("/") + ".ipynb")).exists(), module


def test_a_plain_module_has_its_docstrings_on_its_reference_page():
    docstring = ast.get_docstring(ast.parse(ext.module_text("base.guards")))
    assert ext.lesson_of("base.guards") is None and docstring
    page = SITE / "api" / "base" / "guards.html"
    if not page.exists():
        pytest.skip("_site is not built: run `make site` first")
    words = " ".join(re.sub("<[^>]+>", "", page.read_text(encoding="utf-8")).split())
    assert " ".join(docstring.split()) in words
    assert "Raise TypeError unless value is a whole number" in words


# ---------------------------------------------------------------- downloads


def test_the_site_carries_the_wheel_that_the_first_cell_asks_for_and_all_notebooks(tmp_path):
    first_cell = tool("first_cell")
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    (tmp_path / "former_nb-0.0.1-py3-none-any.whl").touch()  # of an older build
    site_downloads.write_downloads(app)
    name = edition.wheel_name(edition.version_of())
    assert {p.name for p in tmp_path.iterdir()} == {name, "notebooks.zip"}
    with zipfile.ZipFile(tmp_path / name) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert {"former_nb/cli.py", "former_nb/commands/example_pairs.py"} <= held
    with zipfile.ZipFile(tmp_path / "notebooks.zip") as archive:
        names = archive.namelist()
    pages = [p.relative_to(ROOT / "nbs").as_posix() for p in first_cell.pages()]
    assert {f"former_nb/{page}" for page in pages} <= {*names} and len(names) > len(pages)
    source = first_cell.cell_for(edition.places(of_the_site=True)).splitlines(keepends=True)
    with zipfile.ZipFile(tmp_path / "notebooks.zip") as archive:
        for page in pages:
            held = json.loads(archive.read(f"former_nb/{page}"))["cells"]
            assert [cell["source"] for cell in held if first_cell.is_install(cell)] == [source]
    if SITE.exists():
        assert list(SITE.glob("former_nb-*.whl")) and (SITE / "notebooks.zip").exists()


def test_a_wheel_that_cannot_be_built_is_one_line_of_the_build(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(site_downloads.sys, "executable", "false")
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    site_downloads.write_downloads(app)
    assert capsys.readouterr().out.startswith("No wheel beside the pages: ")
    assert [p.name for p in tmp_path.iterdir()] == ["notebooks.zip"]


# ---------------------------------------------------------------- the pages, in a browser

MADE = {path.relative_to(SITE).with_suffix("").as_posix() for path in SITE.rglob("*.html")}
MOVED = {old for old, _ in ext.old_addresses(MADE)}
# How much of each row's columns is empty: below the words, below what is shown; beside words that
# stand above. In words that flow in two columns, below the last thing in each.
# What people ask for, and how the address of the right page begins.
QUERIES = {
    "positional encoding": "05_",
    "position embeddings": "05_",
    "multi head attention": "03_",
    "multi-head self-attention": "03_",
    "MHA": "03_",
    "MultiHeadAttention": "03_|api/attention/multi_head",
    "attention is all you need": "paper",
    "Vaswani et al.": "paper",
    "overfitting": "08_",
    "early stopping": "08_",
    "learning rate schedule": "08_",
    "slides": "teachers.html#slides",
    "pdf": "teachers.html#slides",
    "for teachers": "teachers",
    "mine.py": "your_file",
    "gpu": "deeper/08_long_runs",
    "mixed precision": "deeper/08_long_runs",
    "self-attention": "01_",
    "attention": "02_",
    "scaled dot-product attention": "02_",
    "sqrt d_k": "02_",
    "query key value": "02_",
    "causal mask": "04_|glossary",
    "padding mask": "04_",
    "masked self attention": "04_",
    "cross attention": "13_",
    "encoder-decoder": "13_",
    "seq2seq": "13_",
    "layer norm": "06_|glossary",
    "residual connection": "06_",
    "skip connections": "06_",
    "FFN": "06_",
    "dropout": "06_|glossary",
    "RoPE": "12_|glossary",
    "ALiBi": "deeper/05_|glossary",
    "kv cache": "11_|glossary",
    "nucleus sampling": "11_|glossary",
    "temperature": "11_|glossary",
    "beam search": "deeper/11_|16_|glossary",
    "byte pair encoding": "15_",
    "tokenizer": "07_|15_|glossary",
    "BLEU": "16_|glossary",
    "perplexity": "glossary",
    "sentiment analysis": "09_",
    "GPT": "10_",
    "llama": "12_",
    "grouped query attention": "12_|glossary",
    "BERT": "deeper/09_masked",
    "fine-tuning": "deeper/16_pretrained",
    "hugging face": "deeper/16_pretrained",
    "attention heatmap": "deeper/16_interpretability",
    "mixture of experts": "deeper/12_mixture|glossary",
    "flash attention": "deeper/04_flash|glossary",
    "LoRA": "deeper/16_pretrained|glossary",
    "install": "index.html#use-the-library",
    "how to cite": "index.html#cite|index",
}
HOLES = """
const done = arguments[0], images = [...document.images];
images.forEach((image) => { image.loading = 'eager'; });
const things = 'pre, p, li, img, td, summary, .line, .cell_output > *, math';
Promise.all(images.map((image) => image.decode().catch(() => 0))).then(() => {
  done([...document.querySelectorAll('.row')].map((row) => {
    const box = (css) => row.querySelector(`:scope > ${css}`)?.getBoundingClientRect();
    const high = (css) => box(css)?.height ?? 0, all = row.getBoundingClientRect().height;
    if (row.matches('.parted')) { // words beside code or above it, then a comment beside a picture
      const [output] = [...row.querySelectorAll('.cell_output, .shown > p')].slice(-1);
      const picture = output.getBoundingClientRect().height, above = all - picture - high('.words');
      const more = picture - high('.after');
      return [Math.max(more, row.matches('.over') ? 0 : above), -more];
    }
    if (!row.matches('.both, .wide'))
      return [all - high('.words') - high('.after'), all - high('.shown')];
    if (row.matches('.both')) return [0, row.querySelector('.words.wide') ? 0 : high('.words')];
    const area = box('.words'), ends = [0, 0], middle = (area.left + area.right) / 2;
    for (const thing of row.querySelectorAll(`:scope > .words :is(${things})`))
      for (const { left, bottom, height } of thing.getClientRects()) {
        const side = +(left + 5 > middle);
        if (height) ends[side] = Math.max(ends[side], bottom - area.top);
      }
    return [area.height - ends[0], area.height - ends[1]];
  }));
});
"""
LARGEST = 640  # pixels: the drawing of lesson 06 alone beside its heading
PAGES = sorted(
    f"{page}.html"
    for page in MADE - MOVED - {"404"}
    if not page.startswith(("_static/", "slides/"))
)
EVERY = os.environ.get("FORMER_NB_PAGES") == "all"
GENERATED = [[p for p in PAGES if p.startswith(folder)] for folder in ("api/", "_modules/")]
LONGEST = [max(pages, key=lambda p: (SITE / p).stat().st_size) for pages in GENERATED if pages]
DIVES = [p for p in PAGES if p.startswith(("deeper/", "solutions/"))]
FEWER = {*sum(GENERATED, []), *DIVES} - {*LONGEST, *some(DIVES, 4)}
OPENED = PAGES if EVERY else sorted({*PAGES} - FEWER)
KINDS = """index.html 02_attention.html 14_number_words.html deeper/05_relative_positions.html
solutions/02_attention.html api/attention/dot_product.html api/house.html
_modules/former_nb/attention/dot_product.html search.html 404.html
slides/02_attention.html""".split()
LIGHTS, WIDTHS = ["light", "dark"], [1280, 390]
CHARTS = [p for p in PAGES if 'class="vega-chart"' in (SITE / p).read_text(encoding="utf-8")]
SCREENS = [(KINDS[0], 390, "dark"), (KINDS[2], 390, "light"), (KINDS[3], 1280, "dark")]
SCREENS += [("404.html", 1280, "dark")]
OTHERS = {*KINDS} - {page for page, *_ in SCREENS}
SCREENS += [(page, 1280, "light") for page in KINDS if THOROUGH or page in OTHERS]
SCREENS = [*product([*PAGES, "404.html"], WIDTHS, LIGHTS)] if EVERY else SCREENS
in_browser = [
    pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium or chromedriver is missing"),
    pytest.mark.skipif(not PAGES, reason="_site is not built: run `make site` first"),
]
SETTLE = """
const done = arguments[0];
const charts = [...document.querySelectorAll('.vega-chart')];
const drawn = () => charts.every(e => e.querySelector('svg, img'));
const wait = (tries) => drawn() || !tries ? done() : setTimeout(() => wait(tries - 1), 50);
wait(100);
"""
INSPECT = r"""
const texts = (selector, bad, say) =>
  [...document.querySelectorAll(selector)].filter(bad).map(say);
const untyped = e => !e.querySelector('math') || e.checkVisibility() && !e.offsetHeight;
const label = e => e.getAttribute('aria-label');
const unnamed = e =>
  !/\w/.test(e.getAttribute('alt') ?? '') || /\.(png|svg|jpe?g|gif)$/i.test(e.alt);
const empty = e => e.complete && !e.naturalWidth && e.loading != 'lazy';
const undrawn = e => !e.querySelector('svg, img') || label(e) == 'Vega visualization';
const markup = e => e.outerHTML.slice(0, 200);
return {
  math: texts('.math', untyped, e => e.textContent),
  images: texts('img', unnamed, markup),
  broken: texts('img', empty, markup),
  charts: texts('.vega-chart', undrawn, label),
};
"""
WIDEST = """
const root = document.documentElement, width = window.innerWidth;
const over = Math.max(root.scrollWidth, document.body.scrollWidth) - width;
if (over <= 0) return [];
const boxed = e => e.parentElement.closest('.highlight, .cell_output');
return [over + ' px too wide', ...[...document.querySelectorAll('article *')]
  .filter(e => e.getBoundingClientRect().right > width + 1 && !boxed(e))
  .slice(0, 4).map(e => e.outerHTML.slice(0, 120))];
"""


ROOM = 70  # pixels of the longest lines that may lie outside of their box on a screen of 1280
LINES = """
const seen = [...document.querySelectorAll('.cell_input .line')].filter((e) => e.checkVisibility());
const tops = (line) => {
  const range = document.createRange();
  range.selectNodeContents(line);
  return [...range.getClientRects()].filter((box) => box.width > 1).map((box) => box.top);
};
const wraps = (line) => Math.max(...tops(line)) - Math.min(...tops(line)) > 12;
const over = [...document.querySelectorAll('.cell_input pre')].filter((e) => e.clientWidth);
return [seen.filter(wraps).map((line) => line.textContent),
        Math.max(0, ...over.map((e) => e.scrollWidth - e.clientWidth)),
        seen.length ? parseFloat(getComputedStyle(seen[0]).fontSize) : 14];
"""
DRAWN = """
const done = arguments[0], images = [...document.images];
images.forEach((image) => { image.loading = 'eager'; });
const box = (e) => e?.getBoundingClientRect();
const own = (row, css) => row.querySelector(`:scope > ${css}`);
Promise.all(images.map((image) => image.decode().catch(() => 0))).then(() => done(%s));
"""
COMMENTS = (
    DRAWN
    % """[...document.querySelectorAll('.row > .after')].flatMap((after) => {
  const row = after.parentElement, shown = own(row, '.shown'), last = shown.lastElementChild;
  const pictures = ':scope > img, .cell_output :is(img, .vega-chart)';
  const picture = [...last.querySelectorAll(pictures)].at(-1);
  if (!picture?.checkVisibility()) return [];
  const words = box(own(row, '.words'))?.bottom ?? box(row).top;
  return [[box(after).top - box(picture).top, box(after).top - words, after.textContent]];
})"""
)
VOIDS = (
    DRAWN
    % """[...document.querySelectorAll('article :is(h2, h3, h4) + .row')].flatMap((row) => {
  if (row.matches('.both, .wide, .alone, .over')) return [];
  const [words, after] = ['.words', '.after'].map((css) => box(own(row, css)));
  return [(after?.top ?? box(row).bottom) - (words?.bottom ?? box(row).top)];
})"""
)
HANGING = """
const seen = (css) => [...document.querySelectorAll(css)].filter((e) => e.checkVisibility());
let wrapped = 0;
const odd = [], copied = [];
for (const line of seen('.cell_input .line')) {
  const range = document.createRange();
  range.selectNodeContents(line);
  const boxes = [...range.getClientRects()].filter((box) => box.width > 1);
  const top = Math.min(...boxes.map((box) => box.top)), size = line.getBoundingClientRect();
  const rest = boxes.filter((box) => box.top > top + 12);
  if (!rest.length) continue;
  wrapped += 1;
  const depth = parseInt(line.style.getPropertyValue('--in') || 0);
  const least = size.left + (depth + 1) * parseFloat(getComputedStyle(line).fontSize) * 0.6;
  if (Math.min(...rest.map((box) => box.left)) < least) odd.push(line.textContent);
}
for (const pre of seen('.cell_input pre')) {
  getSelection().selectAllChildren(pre);
  copied.push(getSelection().toString());
}
return [wrapped, odd, copied];
"""
NARROW = ["index.html", "01_self_attention.html", "14_number_words.html", "search.html"]
NARROW += ["api/inspection/ngrams.html"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    reach = dict(rules="MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", flags=["--window-size=1280,900"])
    with start_browser(tmp_path_factory.mktemp("profile"), **reach, seconds=20) as driver:
        yield driver


@pytest.fixture(scope="module")
def site():
    with served(SITE) as address:
        yield address


def visit(browser, url):
    """Open a page, wait until its charts are there; returns the addresses it asked for."""
    open_page(browser, url)
    browser.execute_async_script(SETTLE)
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    asked = [e for e in events if e["method"] == "Network.requestWillBeSent"]
    return [e["params"]["request"]["url"] for e in asked]


def faults(browser, url):
    """What is wrong with a page, by kind."""
    browser.get("about:blank")
    for kind in ("browser", "performance"):  # what the page before it asked for late
        browser.get_log(kind)
    asked = visit(browser, url)
    found = browser.execute_script(INSPECT)
    at_home = ("data:", "blob:", "{0.scheme}://{0.netloc}/".format(urlsplit(url)))
    wrapped, over, _ = browser.execute_script(LINES)
    rows = browser.execute_script("return !!document.querySelector('.page.rows')")
    found["code"] = [wrapped, over] if rows and (wrapped or over > ROOM) else []
    found["outside"] = [to for to in asked if not to.startswith(at_home)]
    found["console"] = [
        e for e in browser.get_log("browser") if e["level"] in ("SEVERE", "WARNING")
    ]
    set_screen(browser, 390)
    found["wide"] = browser.execute_script(WIDEST)
    set_screen(browser)
    return {kind: what for kind, what in found.items() if what}


@pytest.fixture(scope="module")
def lesson(browser, site):
    "What one visit to a page of the path finds, by kind; each is visited once."

    @cache
    def seen(page):
        wrapped = {}
        found = {"faults": faults(browser, f"{site}{page}.html")}
        for kind, script in {"holes": HOLES, "comments": COMMENTS, "voids": VOIDS}.items():
            found[kind] = browser.execute_async_script(script)
        try:
            for width in (1280, 1440, 1920):
                set_screen(browser, width)
                wrapped[width] = browser.execute_script(LINES)
        finally:
            set_screen(browser)
        return found | {"lines": wrapped}

    return seen


@in_browser[1]
def test_every_notebook_has_a_page_and_lessons_are_numbered():
    home = (SITE / "index.html").read_text(encoding="utf-8")
    for path in NOTEBOOKS:
        page = path.relative_to(ROOT / "nbs").with_suffix(".html").as_posix()
        assert page in PAGES
        if lesson := ext.LESSON.match(page):
            assert re.search(rf'href="{page}">\s*{lesson[1]} \u00b7 ', home), page


@in_browser[1]
def test_every_page_leads_to_its_file_and_to_a_report_and_the_button_to_the_first_lesson():
    links = re.compile(r'<a href="([^"]*)">(Source|Report a mistake)</a>')
    for page in PAGES:
        text = (SITE / page).read_text(encoding="utf-8")
        found = {words: html.unescape(link) for link, words in links.findall(text)}
        assert "/issues/new?title=" in found["Report a mistake"], page
        kind, _, *to = found["Source"].removeprefix(f"{ext.SETTINGS['git_url']}/").split("/", 2)
        if file := ext.source_of(page.removesuffix(".html")):  # else many files, or an old build's
            assert [kind, *to] == ["blob", file]
    home = (SITE / "index.html").read_text(encoding="utf-8")
    assert re.search(r'href="00_first_hour.html">(<span[^>]*>)?<strong>Start the', home)


@in_browser[1]
def test_every_page_has_its_policy_before_anything_that_it_governs():
    for path in SITE.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        page = path.relative_to(SITE).as_posix()
        head = text.partition(page_policy.CHARSET)[2].lstrip()
        assert head.startswith(
            '<meta http-equiv="Content-Security-Policy" content="default-src '
        ), page
        assert page_policy.with_policy(page, text) == text, page
        assert not re.search(
            r'\son\w+="|href="javascript:', re.sub(r"<pre.*?</pre>", "", text, flags=re.S)
        ), page


@in_browser[1]
def test_next_and_previous_follow_the_path_and_a_deep_dive_leads_back_to_its_door():
    def turn(page, way):
        text = (SITE / f"{page}.html").read_text(encoding="utf-8")
        link = re.search(rf'class="{way}[^"]*"\s+href="([^"#]*)', text)
        return link and posixpath.normpath(posixpath.join(posixpath.dirname(page), link[1]))

    path = ["index"] + [page for page in order.STEPS if f"{page}.html" in PAGES]
    for before, after in zip(path, path[1:]):
        assert turn(before, "right-next") == f"{after}.html"
        assert turn(after, "left-prev") == f"{before}.html"
    assert turn(path[-1], "right-next") is None
    for door, dives in order.BEHIND.items():
        for dive in (d for d in dives if f"{d}.html" in PAGES):
            assert turn(dive, "left-prev") == f"{door}.html"


@in_browser[1]
def test_pages_are_described_and_listed():
    home = (SITE / "index.html").read_text(encoding="utf-8")
    assert 'name="description" content="The Transformer derived' in home and home.count("<h1") == 1
    lesson = (SITE / "02_attention.html").read_text(encoding="utf-8")
    assert re.search('name="description" content="[^"]{20,}"', lesson)
    listed = (SITE / "sitemap.xml").read_text(encoding="utf-8")
    names = (path.relative_to(ROOT / "nbs").with_suffix(".html").as_posix() for path in NOTEBOOKS)
    assert all(f"/{name}</loc>" in listed for name in names)
    assert "02_attention.html): " in (SITE / "llms.txt").read_text(encoding="utf-8")
    assert "/_static/card.png" in lesson and "summary_large_image" in lesson
    size = struct.pack(">2I", 1200, 630)
    assert (SITE / "_static" / "card.png").read_bytes()[16:24] == size
    assert "search_words.js" not in home
    assert "needs JavaScript" in (SITE / "search.html").read_text(encoding="utf-8")
    words = (SITE / "_static" / "search_words.js").read_bytes()
    pages = json.loads(words.partition(b"window.courseWords = ")[2][:-2])
    told = [part for *_, parts in pages for part in parts]
    assert not [part[2] for part in told if re.search(r"\\[a-mo-z]|frac(?!ti)\w", part[2])]
    named = "; ".join(part[4] for part in told if part[4:]).split("; ")
    glossary = (ROOT / "nbs/glossary.md").read_text(encoding="utf-8")
    places = course_search.term_names(glossary).values()
    assert sorted(named) == sorted(name for names in places for name in names)
    assert len(gzip.compress(words)) < 600_000 and not (SITE / "searchindex.js").exists()


@in_browser[1]
def test_pages_show_where_they_stand_and_answer_their_predictions():
    for path in NOTEBOOKS:
        page = path.relative_to(ROOT / "nbs").with_suffix(".html").as_posix()
        markup = (SITE / page).read_text(encoding="utf-8")
        sidebar = markup[markup.index('<nav class="course"') :].split("</nav>")[0]
        assert sidebar.count('aria-current="page"') == 1
        if page != "index.html":  # its part is open
            assert "open" in sidebar.split('aria-current="page"')[0].rpartition("<details")[2][:6]
        assert f"transformer_{page[:2]}.svg" not in markup, page  # too narrow there to be read
        cells = nbformat.read(path, as_version=4).cells
        asked = [ext.PREDICT.findall(cell.source) for cell in cells if cell.cell_type == "markdown"]
        asked = [] if page.startswith("solutions/") else sum(asked, [])
        assert markup.count('<details class="answer">') == len(asked), page


ATTRIBUTE = re.compile(r'\s(id|href|src|data)="([^"]*)"')
FORWARD = re.compile(r'location\.replace\("([^"]*)" \+ location\.hash\)')


@in_browser[1]
def test_every_link_of_nbdevs_index_leads_to_the_cell_that_exports_the_name():
    """Other sites made with nbdev link to names of this package by its index."""
    index = runpy.run_path(ROOT / "former_nb" / "_modidx.py")["d"]["syms"]
    links = {link for names in index.values() for link, _ in names.values()}
    texts, dead = {}, []
    for link in sorted(links):
        page, _, anchor = link.partition("#")
        if page not in texts:
            text = (SITE / page).read_text(encoding="utf-8") if (SITE / page).exists() else ""
            if to := FORWARD.search(text):
                assert f'content="0; url={to[1]}"' in text  # where scripts are off
                there = posixpath.join(posixpath.dirname(page), to[1])
                text = (SITE / there).read_text(encoding="utf-8")
            texts[page] = {value for kind, value in ATTRIBUTE.findall(text) if kind == "id"}
        dead += [link] * (anchor not in texts[page])
    assert len(links) > 100 and dead == []


def test_an_export_is_found_by_the_names_of_nbdevs_index():
    from docutils import nodes

    source = (
        "X = 1\nclass A:\n    def f(self): ...\n    class B: ...\nasync def a(): ...\ndef C(): ..."
    )
    assert [*ext.index_names(source)] == ["a", "a.f", "a.b", "a", "c"]
    cells = [nodes.container("", classes=["cell", tag]) for tag in ("tag_export", "other")]
    for cell in cells:
        cell += nodes.literal_block(source, source)
    tree = nodes.Element("", nodes.section("", ids=["c"]), *cells)
    ext.anchor_exports(None, tree)
    assert [cell["ids"] for cell in cells] == [["a", "a.f", "a.b"], []]


OLD = {"02_b": "b", "deeper/04_Z_z": "deeper/z_z", "library/core": "library/core", "1a_b_c": "b_c"}


@pytest.mark.parametrize("page, old", OLD.items())
def test_a_page_is_found_without_its_number(page, old):
    doclinks = pytest.importorskip("nbdev.doclinks")
    assert ext.unnumbered(page) == old
    assert doclinks._nbpath2html(Path(f"{page}.ipynb")) == Path(f"{old}.html")


def test_a_page_of_the_library_leads_to_the_reference_of_its_plain_module():
    pages = ["index", "02_attention", "api/inspection/viewer", "api/attention/dot_product"]
    pages += ["api/nothing", "deeper/viewer"]
    olds = {("attention", "02_attention"), ("library/viewer", "api/inspection/viewer")}
    assert set(ext.old_addresses(pages)) == olds


def test_a_page_that_became_part_of_another_leads_there():
    pages = ["deeper/06_depth", "api/inspection/leaks"]
    olds = dict(ext.old_addresses(pages))
    assert olds["deeper/06_stack"] == "deeper/06_depth"
    assert olds["deeper/06_norms"] == olds["deeper/norms"] == "deeper/06_depth"  # moved twice
    assert olds["api/inspection/noise"] == "api/inspection/leaks"
    assert "solutions/06_norms" not in olds
    there = {path.relative_to(ROOT / "nbs").with_suffix("").as_posix() for path in NOTEBOOKS}
    there |= {f"api/{module.replace('.', '/')}" for module in ext.api_modules()}
    assert {ext.where_now(old) for old in ext.MOVED} <= there and not {*ext.MOVED} & there


LOADED = re.compile(
    r'<(?:script|img|iframe|object|source)\b[^>]*\s(?:src|data)="(?:https?:|//)[^>]*>'
)


@in_browser[1]
def test_links_and_anchors_lead_somewhere_and_pages_load_nothing_from_elsewhere():
    texts = {page: (SITE / page).read_text(encoding="utf-8") for page in [*PAGES, "404.html"]}
    found = {page: ATTRIBUTE.findall(text) for page, text in texts.items()}
    anchors = {page: {v for k, v in pairs if k == "id"} for page, pairs in found.items()}
    dead = []
    for page, pairs in found.items():
        for link in {html.unescape(v) for k, v in pairs if k != "id"}:
            to = urlsplit(link)
            if to.scheme or to.netloc:
                continue
            there = posixpath.join(posixpath.dirname(page), unquote(to.path)) if to.path else page
            there = posixpath.normpath(there)
            known = not to.fragment or unquote(to.fragment) in anchors.get(there, [""])
            if not (SITE / there).is_file() or there in anchors and not known:
                dead.append((page, link))
    assert not dead
    assert not [tag for text in texts.values() for tag in LOADED.findall(text)]


@in_browser[1]
def test_a_page_has_one_title_steps_below_it_no_name_twice_and_no_empty_header():
    odd = []
    for page in [*PAGES, "404.html"]:
        text = (SITE / page).read_text(encoding="utf-8")
        levels = [int(level) for level in re.findall(r"<h([1-6])\b", text)]
        steps = all(below <= above + 1 for above, below in zip(levels, levels[1:]))
        ids = [value for kind, value in ATTRIBUTE.findall(text) if kind == "id"]
        empty = re.findall(r"<th\b[^>]*>(?:\s|</?p>)*</th>", text)
        if levels[:1] != [1] or levels.count(1) > 1 or not steps or len(ids) > len({*ids}) or empty:
            odd.append((page, levels, {name for name in ids if ids.count(name) > 1}))
    assert not odd


POINT = """
const chart = document.querySelectorAll('.vega-chart')[arguments[0]];
const marks = [...chart.querySelectorAll(arguments[1])].filter(e => +getComputedStyle(e).opacity);
const mark = marks[Math.floor(marks.length / 2)], svg = mark.ownerSVGElement;
mark.scrollIntoView({ block: 'center', behavior: 'instant' });
const at = mark.matches(arguments[2]) ? mark.getPointAtLength(mark.getTotalLength() / 2) : null;
const box = mark.getBoundingClientRect();
const p = at ? at.matrixTransform(mark.getScreenCTM())
  : { x: box.x + box.width / 2, y: box.y + box.height / 2 };
return [p.x, p.y];
"""


def point(browser, chart, css, press=False):
    """Move the mouse over a mark of a chart, on its line where it is one, and press it."""
    x, y = browser.execute_script(POINT, chart, css, ".mark-line path")
    kinds = ["mouseMoved"] * 2 + ["mousePressed", "mouseReleased"] * press
    for n, kind in enumerate(kinds):
        event = {"type": kind, "x": x + (not n), "y": y, "button": "left", "clickCount": 1}
        event |= {} if n > 1 else {"button": "none", "clickCount": 0}
        browser.execute_cdp_cmd("Input.dispatchMouseEvent", event)


CONTROLS = {
    "deeper/04_mask_patterns.html": "select",
    "deeper/05_relative_positions.html": "input[type=radio]",
    "deeper/11_sampling.html": "input[name=temperature]",
}

SHIFTS = """
window.shifted = 0; // the cumulative layout shift
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
PAINTED = """
const done = arguments[0], next = requestAnimationFrame;
next(() => next(() => setTimeout(() => done(window.shifted), 100)));
"""


ASK = {  # what the page's model says, and the weights of all heads
    "names": "m.next([1, ...m.encode(arguments[1])])",
    "numbers": "m.say(m.read([1, ...m.encode(arguments[1]), 2]), [1, 12, 13])",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    "A page with the two live models and nothing else, as an address."
    folder = tmp_path_factory.mktemp("live")
    boxes = "".join(f'<div class="live" data-model="{name}"></div>' for name in ASK)
    for name in ("live.js", "live-model.js"):
        script = (ROOT / "docs/_static" / name).read_text("utf-8")
        (folder / name).write_text(script, "utf-8")
    for name in ASK:
        ext.write_model(ROOT / "former_nb" / "models" / name, folder / f"live_{name}.js")
    page = f'<!doctype html><meta charset="utf-8"><script src="live.js"></script>{boxes}'
    (folder / "index.html").write_text(page, encoding="utf-8")
    return (folder / "index.html").as_uri()


@pytest.mark.skipif(not (BROWSER and DRIVER), reason="Chromium or chromedriver is missing")
class TestLive:
    def ask(self, browser, page, name, text, off=()):
        "Logits, NaN for what never follows, and weights of each head: name -> (h, T, S)."
        torch = pytest.importorskip("torch")
        from selenium.webdriver.support.ui import WebDriverWait

        browser.get(page)
        ready = lambda b: b.execute_script("return !!window.formerLive?.[arguments[0]]", name)
        WebDriverWait(browser, 10, 0.05).until(ready)
        code = f"""
        const m = formerLive[arguments[0]];
        m.off = new Set(arguments[2]);
        const said = {ASK[name]}.map((l) => (l === -Infinity ? null : l));
        const square = (row, n) => [...row, ...new Array(n - row.length).fill(0)];
        for (const heads of Object.values(m.seen))
          for (const rows of heads) rows.forEach((row, i) => {{
            rows[i] = square(row, rows[rows.length - 1].length);
          }});
        return [said, m.seen];
        """
        said, seen = browser.execute_script(code, name, text, list(off))
        said = torch.tensor([float("nan") if x is None else x for x in said])
        return said, {at: torch.tensor(heads) for at, heads in seen.items()}

    @pytest.mark.parametrize("name", ASK)
    @pytest.mark.parametrize("off", [False, True])
    def test_the_model_in_the_page_computes_what_pytorch_computes(self, browser, alone, name, off):
        torch = pytest.importorskip("torch")
        from former_nb import load_model
        from former_nb.inspection.ablation import ablate_heads
        from former_nb.inspection.recording import find_attention, record_attention

        model, tokenizer, _ = load_model(name, "cpu")
        text = {"names": "jona", "numbers": "neunundneunzig"}[name]
        tokens = [1, *tokenizer.encode(text)]
        inputs = [tokens] if name == "names" else [[*tokens, 2], [1, 12, 13]]
        layer = find_attention(model)[-1]
        said, seen = self.ask(browser, alone, name, text, [f"{layer.name}.1"] if off else ())
        without = [(layer.kind, layer.layer, 2)] if off else []
        with torch.no_grad(), ablate_heads(model, without), record_attention(model) as weights:
            logits = model(*(torch.tensor([row]) for row in inputs))[0, -1]
        shown = ~said.isnan()
        assert shown.sum() == len(said) - 3  # all but three special tokens
        near = dict(rtol=0, atol=1e-4)
        torch.testing.assert_close(said[shown].softmax(-1), logits[shown].softmax(-1), **near)
        assert seen.keys() == weights.keys()
        for at, w in weights.items():
            torch.testing.assert_close(seen[at], w[0], **near)


KEPT = ["{", "[]", "null", "words", "[1, 2, 3]", '["a"]', "", "{}"]


class TestPages:
    pytestmark = in_browser

    @pytest.mark.parametrize("page, width, theme", SCREENS)
    def test_axe_finds_nothing_serious(self, browser, site, page, width, theme):
        assert (SITE / page).exists()
        set_screen(browser, width, theme)
        try:
            visit(browser, site + page)
            same = [] if EVERY or page == "02_attention.html" else ["div.highlight"]  # slow, alike
            assert serious(browser, *same) == []
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("page", OPENED)
    def test_page_is_whole_silent_and_fits_a_phone(self, browser, site, lesson, page):
        step = page.removesuffix(".html")
        found = lesson(step)["faults"] if step in order.STEPS else faults(browser, site + page)
        assert found == {}

    @pytest.mark.parametrize("page", [page for page in PAGES if re.match(r"\d\d_", page)][:1])
    def test_page_opens_from_a_folder(self, browser, page):
        assert faults(browser, (SITE / page).resolve().as_uri()) == {}

    @pytest.mark.parametrize("page", CHARTS)
    def test_a_page_with_a_chart_comes_without_what_draws_it(self, browser, site, page):
        browser.get("about:blank")
        browser.get_log("performance")
        asked = visit(browser, site + page)
        files = {urlsplit(to).path.lstrip("/") for to in asked if to.startswith(site)}
        parts = [(SITE / file).read_bytes() for file in files]
        assert page in files and not any("vega" in file for file in files)
        most = 250_000 if re.match(r"\d\d_", page) else 370_000  # four plots in one deep dive
        assert sum(len(gzip.compress(part)) for part in parts) < most

    @pytest.mark.parametrize("query, page", QUERIES.items())
    def test_a_query_finds_the_right_page_first(self, browser, site, query, page):
        if not browser.current_url.startswith(f"{site}search.html"):
            visit(browser, site + "search.html")
        ask = """
        const field = document.querySelector('main input');
        field.value = arguments[0];
        field.form.requestSubmit();
        return document.querySelector('#search-results a')?.getAttribute('href') ?? '';
        """
        assert re.match(page, browser.execute_script(ask, query))

    @pytest.mark.parametrize("base", ["http", "file"])
    def test_search_shows_what_it_found(self, browser, site, base):
        start = site if base == "http" else SITE.resolve().as_uri() + "/"
        assert faults(browser, start + "search.html?q=Queries, keys and values") == {}
        each = "return [...document.querySelectorAll(arguments[0])].map((e) => e.innerText.trim())"
        found = lambda css: browser.execute_script(each, css)
        links, excerpts = "#search-results a", "#search-results p"
        assert found(links)[0] == "02 \u00b7 Queries, keys and values"
        assert "You come with a question, the query" in found(excerpts)[0]

        def search(words):
            type_in = "const i = document.querySelector('main input'); i.value = arguments[0];"
            browser.execute_script(type_in + "i.form.requestSubmit()", words)
            return found("#search-count")[0], found(links), found(excerpts)

        count, pages, texts = search("MultiHeadAttention")
        at = lambda begin: next(i for i, page in enumerate(pages) if page.startswith(begin))
        assert int(count.split()[0]) >= len(pages) == 20 and at("03 ") < 3
        assert "Solutions" not in "".join(pages[:9]) and "multiheadatt" in "".join(texts).lower()
        assert any("is_causal" in text for text in search("is_causal")[2])
        assert search("M\u00e4nner")[1] == search("MANNER")[1] != []
        assert search("perplexity")[1][0] == "Notation and terms \u203a perplexity"
        assert search("masks")[1][0] == search("Masks")[1][0]
        # by a name that the glossary has, and with one wrong letter
        rotary = "12 \u00b7 A modern decoder \u203a Rotary positions"
        assert rotary in search("RoPE")[1][:3] and rotary in search("rotary embedding")[1][:3]
        shared = "12 \u00b7 A modern decoder \u203a Heads that share keys and values"
        assert shared in search("GQA")[1][:3]
        right = search("softmax")[1]
        for wrong in ("softmx", "sotfmax", "softmaxx", "zoftmax"):
            count, pages, _ = search(wrong)
            assert count.startswith("Read as \u201csoftmax\u201d: ") and pages == right
        assert search("softmx of attnetion")[0].startswith("Read as \u201csoftmax of attention")
        assert search("<b>nowhere</b> qqqq")[0].startswith("No page has all")
        assert search("qqqq") == ("Nothing here has \u201cqqqq\u201d. Try another word.", [], [])
        assert search("")[0] == ""
        search("masks")
        browser.find_element("css selector", "main input").send_keys("\ue015")  # arrow down
        assert browser.switch_to.active_element.text == found(links)[0]

    @pytest.mark.parametrize("page", CHARTS)
    def test_charts_answer_to_the_mouse_and_to_keys_by_day_and_by_night(self, browser, site, page):
        from selenium.webdriver.support.ui import WebDriverWait

        there = lambda css: browser.find_elements("css selector", css)
        wait = lambda until: WebDriverWait(browser, 10, 0.05).until(lambda _: until())
        visit(browser, site + page)
        set_screen(browser, theme="dark")
        browser.execute_async_script(SETTLE)
        for chart, box in enumerate(there(".vega-chart")):
            assert not box.find_elements("css selector", ".marks")  # a picture, until it is used
            browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", box)
            high = box.size["height"]
            if page not in CONTROLS:
                assert not browser.execute_script("return !!window.vegaEmbed")
                box.click()
            wait(lambda: box.find_elements("css selector", "svg.marks"))
            assert page in CONTROLS or abs(box.size["height"] - high) <= 2  # nothing moves
            point(browser, chart, ".role-mark:is(.mark-symbol, .mark-rect) > path")
            wait(lambda: there("#vg-tooltip-element.visible td.value"))
        drawn = lambda: there(".vega-chart svg")[0].get_attribute("innerHTML")
        if page in CONTROLS:
            before, control = drawn(), there(f".vega-bind {CONTROLS[page]}")[0]
            control.click() if "radio" in CONTROLS[page] else control.send_keys("\ue015")
            wait(lambda: drawn() != before)
        if page == "deeper/05_relative_positions.html":  # its legend can be pressed
            before = drawn()
            point(browser, 0, ".role-legend-symbol path", press=True)
            wait(lambda: drawn() != before)
        set_screen(browser)
        assert not there(".vega-chart .error")

    def test_the_model_in_the_page_needs_scripts_and_no_webassembly(self, browser, site):
        from selenium.webdriver.support.ui import WebDriverWait

        text = lambda: browser.find_element("css selector", ".live").text
        with before_scripts(browser, "delete window.WebAssembly"):
            visit(browser, site + "14_number_words.html")
            WebDriverWait(browser, 10, 0.05).until(lambda _: "twenty-one" in text())
        with without_scripts(browser):
            for page in ("index.html", "14_number_words.html"):
                browser.get(site + page)
                assert text() == ext.UNSEEN

    @pytest.mark.parametrize("base", ["http", "file"])
    def test_a_link_of_nbdevs_index_leads_to_the_export(self, browser, site, base):
        from selenium.webdriver.support.ui import WebDriverWait

        start = site if base == "http" else SITE.resolve().as_uri() + "/"
        there = lambda page: WebDriverWait(browser, 10, 0.05).until(
            lambda b: b.current_url == start + page
        )
        browser.get(f"{start}multi_head.html#multiheadattention.forward")
        there("03_multi_head.html#multiheadattention.forward")
        code = "return document.querySelector(':target').closest('.cell').textContent"
        assert "class MultiHeadAttention" in browser.execute_script(code)
        with without_scripts(browser):
            browser.get(f"{start}deeper/flash.html")
            there("deeper/04_flash.html")

    @pytest.mark.parametrize("page", ["index.html", "14_number_words.html"])
    @pytest.mark.parametrize("width", some([1280, 1000, 390, 768], 2))
    def test_nothing_moves_when_the_model_comes(self, browser, site, page, width):
        from selenium.webdriver.support.ui import WebDriverWait

        command = browser.execute_cdp_cmd
        fast = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
        slow = fast | {"latency": 40, "downloadThroughput": 1.25e6}
        set_screen(browser, width)
        command("Network.enable", {})
        command("Network.setCacheDisabled", {"cacheDisabled": True})
        command("Network.emulateNetworkConditions", slow)
        try:
            with before_scripts(browser, SHIFTS):
                visit(browser, site + page)
                browser.execute_script("document.querySelector('.live').scrollIntoView()")
                there = "return !!document.querySelector('.live-out')?.textContent"
                WebDriverWait(browser, 20, 0.05).until(lambda b: b.execute_script(there))
                assert browser.execute_async_script(PAINTED) < 0.02  # from 0.1 on it is poor
                face = "return getComputedStyle(document.querySelector('.live')).fontFamily"
                assert browser.execute_script(face).startswith('"Source Serif 4"')  # from here
                seen = "return document.documentElement.classList.contains('faceless')"
                assert not browser.execute_script(seen)
        finally:
            command("Network.emulateNetworkConditions", fast)
            command("Network.setCacheDisabled", {"cacheDisabled": False})
            set_screen(browser)

    @pytest.mark.parametrize("width, turn", [(390, 0), (768, 1), (1000, 2), (1280, 3), (1920, 0)])
    def test_a_figure_has_its_place_before_it_comes(self, browser, width, turn):
        heights = tool("heights")
        found = [(n, page) for n, page in heights.pages(SITE).values() if n != "train-your-own"]
        assert found
        try:
            for name, page in some(found, 4, turn):  # by turns
                total, *_, kept = heights.measure(browser, page, name, width)
                assert abs(total - kept) < 8, (name, "python tools/heights.py")
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("page", NARROW)
    def test_a_page_fits_a_screen_that_is_magnified_four_times(self, browser, site, page):
        set_screen(browser, 320)
        try:
            visit(browser, site + page)
            assert browser.execute_script(WIDEST) == []
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("page", ["02_attention.html", "14_number_words.html"])
    def test_the_rest_of_a_line_of_code_hangs_and_code_is_copied_as_it_is(
        self, browser, site, page
    ):
        set_screen(browser, 390)
        try:
            visit(browser, site + page)
            wrapped, odd, copied = browser.execute_script(HANGING)
            assert wrapped > 20 and odd == []
            notebook = (ROOT / "nbs" / page).with_suffix(".ipynb")
            sources = [cell.source for cell in nbformat.read(notebook, 4).cells]
            assert len(copied) > 5
            for code in copied:
                assert any(code.rstrip() in source for source in sources), code
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("width", [1280, 390])
    def test_a_starter_is_seen_whole(self, browser, site, width):
        cut = """
        return [...document.querySelectorAll('.check-here :is(textarea, .cm-scroller)')]
          .map((e) => [e.scrollWidth - e.clientWidth, e.scrollHeight - e.clientHeight]);
        """
        set_screen(browser, width)
        try:
            for page in ("01_self_attention.html", "05_positions.html"):
                if 'class="check-here"' not in (SITE / page).read_text(encoding="utf-8"):
                    pytest.skip("the site was built without Pyodide")
                visit(browser, site + page)
                boxes = browser.execute_script(cut)
                assert boxes and all(max(over) <= 0 for over in boxes), page
        finally:
            set_screen(browser)

    def test_a_viewer_that_a_page_frames_runs_under_its_policy(self, browser, site):
        from selenium.webdriver.support.ui import WebDriverWait

        visit(browser, site + "deeper/16_interpretability.html")
        browser.switch_to.frame(browser.find_element("css selector", "iframe[srcdoc]"))
        try:
            text = "return document.body.innerText"
            drawn = lambda _: "All heads" in browser.execute_script(text)
            WebDriverWait(browser, 10, 0.05).until(drawn)
        finally:
            browser.switch_to.default_content()

    def test_a_lesson_weighs_less_than_500_kB_before_a_hand_touches_it(self, browser, site):
        weigh = "return performance.getEntries().map((e) => [e.name, e.encodedBodySize ?? 0])"
        set_screen(browser)
        for page in ext.order.PATH:
            browser.execute_cdp_cmd("Network.clearBrowserCache", {})
            visit(browser, site + f"{page}.html")
            files = dict(browser.execute_script(weigh))
            assert 100_000 < sum(files.values()) < 500_000, files

    def test_the_home_page_writes_names_links_its_map_and_keeps_ticks(self, browser, site):
        from selenium.webdriver.support.ui import WebDriverWait

        visit(browser, site + "index.html")
        browser.execute_script("localStorage.clear()")  # who comes for the first time
        visit(browser, site + "index.html")
        there = lambda css: browser.find_elements("css selector", css)
        wait = lambda until: WebDriverWait(browser, 10, 0.05).until(lambda _: until())
        wait(lambda: there(".live-out") and there(".live-out")[0].text.count(" · ") == 9)
        weigh = "return performance.getEntries().map((e) => [e.name, e.encodedBodySize ?? 0])"
        files = dict(browser.execute_script(weigh))  # the map is shown twice and comes once
        # the face of formulas, which a page that was open before may have asked for, is left out
        large = {name: size for name, size in files.items() if "stix-two-math" not in name}
        assert sum(large.values()) < 350_000, files  # the weights come with the first use
        assert not browser.execute_script("return window.formerModels")
        box = there('.live input[type="text"]')[0]
        inside = lambda css: there(css)[0].get_attribute("innerHTML")
        before = inside(".live-bars")
        there(".live-head")[0].click()
        wait(lambda: there('.live-head[aria-pressed="false"]'))
        assert inside(".live-bars") != before and not there(".live-note")[0].text
        assert browser.execute_script("return !!window.formerModels.names")
        for css, key in {"range": "\ue012", "checkbox": " "}.items():  # cooler, and a look ahead
            before, control = inside(".live-columns"), f'.live-how input[type="{css}"]'
            there(control)[0].send_keys(key)
            assert inside(".live-columns") != before
        there(".live-bars button")[0].send_keys("\ue007")  # enter: this letter comes next
        assert len(box.get_property("value")) == 3
        box.send_keys("7")
        assert "never seen 7" in there(".live-note")[0].text
        linked = (
            "return document.querySelector('object').contentDocument?.querySelectorAll('a').length"
        )
        wait(lambda: (browser.execute_script(linked) or 0) >= 15)
        box.clear()
        box.send_keys("mari")
        there(".map button")[1].click()  # a box of the map opens beside its model
        wait(lambda: there(".inside-square"))
        assert [e.text for e in there(".inside-square thead th")] == [*"\u25b8mari"]
        there(".inside button")[0].click()
        assert not there(".inside") and there(".map button")[1] == browser.switch_to.active_element
        ticks = '#the-path tbody input[type="checkbox"]'
        browser.execute_script("arguments[0].click()", there(ticks)[3])
        assert [stop.text for stop in there(".path .done b")] == ["01"]  # the line shows it at once
        visit(browser, site + "index.html")
        assert [tick.is_selected() for tick in there(ticks)[:4]] == [False, False, False, True]

    def test_what_the_translator_says_is_a_link(self, browser, site):
        from selenium.webdriver.support.ui import WebDriverWait

        there = lambda css: browser.find_element("css selector", css)
        wait = lambda until: WebDriverWait(browser, 20, 0.05).until(lambda _: until())
        visit(browser, site + "14_number_words.html#figure=the-translator&german=zweiundvierzig")
        wait(lambda: there(".live-out").text == "forty-two")
        box = there('.live input[type="text"]')
        box.clear()
        box.send_keys("sieben\ue007")
        wait(lambda: there(".live-out").text == "seven")
        link = site + "14_number_words.html#figure=the-translator&german=sieben"
        wait(lambda: browser.current_url == link)

    @pytest.mark.parametrize("width", some([768, 834, 1280, 1024], 2))
    def test_each_end_of_the_line_and_the_own_station_can_be_reached(self, browser, site, width):
        inside = """
        const line = document.querySelector('.path'), box = line.getBoundingClientRect();
        const within = (css) => {
          const ring = document.querySelector(css).getBoundingClientRect();
          return box.left <= ring.left && ring.right <= box.right;
        };
        const own = within('.path :is(.here, .near) b');
        line.scrollLeft = -9999;
        const first = within('.path li:first-child b');
        line.scrollLeft = 9999;
        return [own, first, within('.path li:last-child b')];
        """
        set_screen(browser, width)
        try:
            for page in ("00_tour", "02_attention", "deeper/12_since_llama", "project"):
                visit(browser, f"{site}{page}.html")
                assert browser.execute_script(inside) == [True] * 3, page
        finally:
            set_screen(browser)

    def test_the_line_names_the_station_that_it_rings_and_elsewhere_none(self, browser, site):
        seen = """
        return [...document.querySelectorAll('.path a > span:not(.unseen)')]
          .filter((e) => getComputedStyle(e).opacity === '1').map((e) => e.textContent);
        """
        named = {"deeper/12_since_llama": ["A modern decoder"], "search": [], "index": ["The tour"]}
        named |= {"solutions/00_pytorch": ["PyTorch in half an hour"], "paper": []}
        visit(browser, site + "index.html")
        browser.execute_script("localStorage.clear()")
        for page, words in named.items():
            visit(browser, f"{site}{page}.html")
            assert browser.execute_script(seen) == words, page

    @pytest.mark.parametrize("value", some(KEPT, 2))
    def test_no_value_that_is_kept_stops_a_page(self, browser, site, value):
        visit(browser, site + "index.html")
        names = ["light", "stopped", "tried", "02_attention.html", "mine.py steps", "02.1 verdict"]
        store = "const [names, text] = arguments; names.forEach((n) => courseKept.write(n, text))"
        browser.execute_script(store, names, value)
        browser.get_log("browser")
        try:
            for page in ("index.html", "02_attention.html"):
                visit(browser, site + page)
                assert [e for e in browser.get_log("browser") if e["level"] == "SEVERE"] == []
                theme = browser.execute_script("return document.documentElement.dataset.theme")
                ticks = browser.find_elements("css selector", "label input[type=checkbox]")
                assert theme == "light" and ticks
        finally:
            browser.execute_script("localStorage.clear()")

    @pytest.mark.parametrize("width, height", [(1280, 800), (390, 900)])
    def test_home_has_one_button_a_film_in_the_first_screen_and_a_legible_map(
        self, browser, site, width, height
    ):
        from selenium.webdriver.support.ui import WebDriverWait

        letters = """
        const map = document.querySelector('.map object'), drawn = map.contentDocument;
        if (!drawn?.querySelector('text')) return null;
        const { width } = drawn.documentElement.viewBox.baseVal;
        const size = (text) => parseFloat(getComputedStyle(text).fontSize);
        const smallest = Math.min(...[...drawn.querySelectorAll('text')].map(size));
        return (smallest * map.getBoundingClientRect().width) / width;
        """
        filled = """
        const paper = getComputedStyle(document.body).backgroundColor;
        return [...document.querySelectorAll('section > p a')].map((a) => [a, getComputedStyle(a)])
          .filter(([, { color }]) => color === paper).map(([a]) => a.getAttribute('href'));
        """
        set_screen(browser, width)
        try:
            visit(browser, site + "index.html")
            browser.execute_script("localStorage.clear()")  # where another test stopped
            visit(browser, site + "index.html")
            wait = WebDriverWait(browser, 10, 0.05)
            assert wait.until(lambda b: b.execute_script(letters)) >= 11
            assert browser.execute_script(filled) == ["00_first_hour.html"]
            ends = "return document.querySelector(arguments[0]).getBoundingClientRect().bottom"
            assert browser.execute_script(ends, "[data-figure=film] .figure-head") < height
            says = browser.execute_script(ends, "[data-figure=film] .figure-says")
            assert width < 1280 or says <= height
        finally:
            set_screen(browser)

    def test_the_whole_line_is_in_sight_beside_the_tools(self, browser, site):
        visit(browser, site + "project.html")
        measure = """
        const line = document.querySelector('.path');
        const stops = [...line.querySelectorAll('li')].map(e => e.getBoundingClientRect());
        const box = line.getBoundingClientRect();
        return [stops[0].left - box.left, box.right - stops.at(-1).right, stops[0].width];
        """
        before, behind, wide = browser.execute_script(measure)
        assert before >= 0 and behind >= 0 and wide >= 32

    def test_the_line_shows_where_the_reader_is_and_what_is_read(self, browser, site):
        there = lambda css: browser.find_elements("css selector", css)
        set_screen(browser, 390)
        try:
            visit(browser, site + "16_translation.html")
            browser.execute_script("localStorage.clear()")
            visit(browser, site + "16_translation.html")
            place = """
            const box = document.querySelector('.path .here').getBoundingClientRect();
            return [box.left, box.right, box.height, innerWidth];
            """
            left, right, height, width = browser.execute_script(place)
            assert 0 <= left < right <= width and right - left >= 44 and height >= 44
            tick = there(".turn input")[0]
            assert not there(".path .done") and not tick.is_selected()
            browser.execute_script("arguments[0].click()", tick)
            assert there(".path .here.done a")[0].get_property("textContent").endswith(", read")
            there(".right-next")[0].click()
            assert browser.current_url.endswith("project.html")
            assert len(there(".path .done")) == 1
            browser.execute_script("localStorage.clear()")
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("base", some(["http", "file"], 2))
    def test_the_home_page_and_the_line_go_on_where_the_reader_stopped(self, browser, site, base):
        start = site if base == "http" else SITE.resolve().as_uri() + "/"
        link = lambda: browser.find_elements("css selector", ".go-on a")

        def open_home(beginning=None):
            "Once more where what was stored has not reached the page's process yet."
            for _ in range(20):
                browser.get(start + "index.html")
                said = "".join(a.text for a in link())
                fits = said.startswith(beginning) if beginning else not said
                if fits:
                    return

        browser.get(start + "index.html")
        browser.execute_script("localStorage.clear()")
        open_home()
        assert not link()
        browser.get(start + "04_masks.html")
        heading = "[...document.querySelectorAll('article h2')][2]"
        browser.execute_script(f"{heading}.scrollIntoView({{ behavior: 'instant' }})")
        place = browser.execute_script(f"return {heading}.parentElement.id")
        kept = "return JSON.parse(localStorage.getItem('former_nb stopped'))"
        with before_scripts(browser, SHIFTS):
            open_home("Go on with 04")
            stopped = browser.execute_script(kept)
            assert stopped[:2] == ["04_masks.html", place] and stopped[2]
            assert link()[0].text == "Go on with 04 \u00b7 Masks"
            assert link()[0].get_property("href") == f"{start}04_masks.html#{place}"
            assert browser.execute_async_script(PAINTED) < 0.02
        [stop] = browser.find_elements("css selector", ".path .next a")
        assert stop.get_property("href").endswith(f"04_masks.html#{place}")
        browser.execute_script("localStorage.setItem('former_nb 04_masks.html', 'read')")
        open_home("Go on with 05")
        assert link()[0].text.startswith("Go on with 05")
        # what storage holds is never an address
        bad = "localStorage.setItem('former_nb stopped', arguments[0])"
        for value in ('["javascript:alert(1)", "", ""]', "{", '["deeper/04_flash.html"]'):
            browser.execute_script(bad, value)
            open_home()
            assert not link()
        browser.execute_script("localStorage.clear()")

    def test_a_phone_shows_each_title_of_the_line_and_the_table_of_your_file_in_a_stack(
        self, browser, site
    ):
        set_screen(browser, 390)
        try:
            visit(browser, site + "06_block.html")
            seen = """
            return [...document.querySelectorAll('.path a > span:not(.unseen)')]
              .filter((e) => getComputedStyle(e).opacity === "1" && e.offsetHeight < 30).length;
            """
            assert browser.execute_script(seen) == len(order.STEPS)
            beside = """
            return [...document.querySelectorAll('#into-your-file tr')].filter((row) =>
              new Set([...row.cells].map((e) => e.getBoundingClientRect().left)).size > 1).length;
            """
            assert browser.execute_script(beside) == 0
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("page", tool("order").STEPS)
    def test_no_column_has_a_large_hole(self, lesson, page):
        found = lesson(page)["holes"]
        assert found and max(max(holes) for holes in found) < LARGEST

    def test_what_would_leave_a_hole_is_as_wide_as_the_page(self, browser, site):
        code = """
        const box = (e) => e.getBoundingClientRect();
        const all = [...document.querySelectorAll('.cell_input')];
        const code = all.find((e) => /class Block/.test(e.textContent));
        const row = code.closest('.row.both'), below = box(row.querySelector('.words')).bottom;
        const beside = document.querySelector('.row:not(.both) > .shown');
        return [box(code).width / box(row).width, below <= box(code).top,
                box(beside).width / box(beside.parentElement).width];
        """
        visit(browser, site + "06_block.html")
        wide, below, other = browser.execute_script(code)
        assert wide == 1 and below and other < 0.7

    @pytest.mark.parametrize("page", order.STEPS)
    def test_no_line_of_a_lesson_wraps_on_a_screen_of_two_columns(self, lesson, page):
        """What a hundred letters need is there from 1366 on; below, the last few scroll."""
        for width, (wrapped, over, size) in lesson(page)["lines"].items():
            assert wrapped == [] and over <= (ROOM if width < 1366 else 0) and size >= 14

    def test_a_comment_stands_beside_the_top_of_its_picture(self, lesson):
        """Or directly below the words of its row, where these end lower."""
        count = 0
        for page in order.STEPS:
            for beside_picture, below_words, words in lesson(page)["comments"]:
                count += 1
                assert beside_picture <= 120 or below_words <= 40, (page, words)
                assert beside_picture >= -120 or below_words <= 40, (page, words)
        assert count > 15

    @pytest.mark.parametrize("page", order.STEPS)
    def test_no_heading_stands_over_an_empty_third_of_a_screen(self, lesson, page):
        assert [gap for gap in lesson(page)["voids"] if gap > 350] == []

    def test_menus_open_with_keys_and_close_with_escape(self, browser, site):
        from selenium.webdriver.common.action_chains import ActionChains

        there = lambda css: browser.find_elements("css selector", css)
        visit(browser, site + "deeper/04_mask_patterns.html")
        contents, menu = there(".menu > summary")
        contents.send_keys("\ue007")
        assert there(".menu[open] .toc a")[0].is_displayed()
        menu.send_keys("\ue007")
        assert len(there(".menu[open]")) == 1
        assert there('.menu[open] a[aria-current="page"]')[0].is_displayed()
        ActionChains(browser).send_keys("\ue00c").perform()
        assert not there(".menu[open]") and browser.switch_to.active_element == menu
        ActionChains(browser).send_keys("/").perform()
        assert browser.current_url.endswith("search.html")

    def test_day_and_night_are_kept_and_follow_the_system_until_then(self, browser, site):
        theme = lambda: browser.execute_script("return document.documentElement.dataset.theme")
        visit(browser, site + "03_multi_head.html")
        set_screen(browser, theme="dark")
        try:
            visit(browser, site + "03_multi_head.html")
            assert theme() == "dark"
            browser.find_element("css selector", "#light").click()
            visit(browser, site + "04_masks.html")
            assert theme() == "light"
            browser.find_element("css selector", "#light").click()
            assert theme() == "dark"
            set_screen(browser)
            visit(browser, site + "04_masks.html")
            assert theme() == "light"  # as the system has it: nothing is kept
        finally:
            set_screen(browser)

    @pytest.mark.parametrize("width, beside", [(1280, True), (1024, False)])
    def test_words_stand_beside_code_where_there_is_room(self, browser, site, width, beside):
        set_screen(browser, width)
        try:
            visit(browser, site + "03_multi_head.html")
            code = """
            const beside = '.row:not(.both):has(> .words):has(> .shown)';
            return [...document.querySelectorAll(beside)].map((row) => {
              const box = (css) => row.querySelector(css).getBoundingClientRect();
              const [left, right] = [box('.words'), box('.shown')];
              return [left.right, left.top, right.left, right.top];
            });
            """
            rows = browser.execute_script(code)
            assert len(rows) > 10
            assert all((right < left and up == down) == beside for right, up, left, down in rows)
        finally:
            set_screen(browser)
