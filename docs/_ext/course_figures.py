"""Figures that move: the data that Python computes for them, and the files that a page loads.

A page holds `<div class="figure" data-figure="NAME">` around a still picture. Its script is
`_static/figures/NAME.js`. What the script draws is computed here with the lesson's own functions,
and written as a classic script beside it, because a page on disk may not fetch.
"""

import ast
import json
import re
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parents[2]
STATIC = ROOT / "docs" / "_static" / "figures"
FIGURE = re.compile(r'<div class="figure" data-figure="([\w-]+)">')


def from_page(page, *names):
    """What the cells of a page define under these names: its imports run, and nothing else does."""
    nb = nbformat.read(ROOT / "nbs" / f"{page}.ipynb", as_version=4)
    sources = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    space = {}
    for source in sources:
        if "%pip" in source:
            continue
        for node in ast.parse(source).body:
            targets = node.targets if isinstance(node, ast.Assign) else [node]
            defined = {getattr(target, "id", getattr(target, "name", None)) for target in targets}
            if isinstance(node, ast.Import | ast.ImportFrom) or defined & {*names}:
                exec(compile(ast.Module([node], []), page, "exec"), space)
    return [space[name] for name in names]


def rounded(numbers, digits=5):
    """A tensor as plain numbers with so many digits that count, which keeps the files small."""
    if numbers.dim():
        return [rounded(number, digits) for number in numbers]
    return float(f"{numbers.item():.{digits}g}")


# ---------------------------------------------------------------- the data of each figure


def move_a_word():
    """The vectors and the sentences of lesson 01."""
    meaning, sentences = from_page("01_self_attention", "meaning", "texts")
    sentences = [text.split() for text in sentences]
    return {"meaning": meaning, "sentences": sentences, "labels": ["river", "money"]}


def share_the_row():
    """The sentence of lesson 03."""
    return {"words": from_page("03_multi_head", "words")[0]}


def paint_the_mask():
    """Lesson 04's longest sentence, and masks made by the library."""
    from former_nb.attention.masks import causal_mask

    words = from_page("04_masks", "sentences")[0][2].split()
    past = causal_mask(len(words))[0, 0].int()
    presets = {"causal": past, "window of 2": past - past.tril(-2), "everything": past * 0 + 1}
    return {"words": words, "presets": {name: mask.tolist() for name, mask in presets.items()}}


def why_root_d():
    """Scores, weights of one query and gradients by lesson 02's `measure`, and divided."""
    (measure,) = from_page("02_attention", "measure")
    widths = [2**n for n in range(1, 11)]
    data = {"widths": widths, "hills": [[], []], "spread": [[], []]}
    data |= {"weights": [[], []], "median": [[], []]}
    for divided in (0, 1):
        for d_k in widths:
            scores, gradient = measure(d_k, d_k**0.5 if divided else 1)
            counts = scores.histc(bins=64, min=-64, max=64)
            weights = scores.softmax(dim=-1).sort(descending=True).values  # (2000, 10)
            largest = weights[:, 0]
            typical = (largest - largest.median()).abs().argmin()
            data["hills"][divided].append((1000 * counts / counts.max()).round().int().tolist())
            data["spread"][divided].append(rounded(scores.std()))
            data["weights"][divided].append(rounded(weights[typical]))
            data["median"][divided].append(rounded(gradient.median()))
    return data


def the_tap():
    """The logits of the shipped model of names after a few beginnings, largest first."""
    import torch

    from former_nb import load_model
    from former_nb.data.text import BOS, PAD, UNK

    model, tokenizer, _ = load_model("names", "cpu")
    beginnings = []
    for text in ("Jo", "Mari", "Kl"):
        tokens = torch.tensor([[BOS, *tokenizer.encode(text)]])
        with torch.no_grad():
            logits = model(tokens)[0, -1]
        logits[[PAD, BOS, UNK]] = -torch.inf  # they are never written
        ranked, order = logits.sort(descending=True)
        letters = [tokenizer.decode([token]) or "end" for token in order.tolist()]
        beginnings.append({"text": text, "logits": rounded(ranked[:-3]), "letters": letters[:-3]})
    return beginnings


def the_cache():
    """What lesson 11's loop begins with: the number of tokens of its prompt."""
    return {"prompt": ["▸", "j", "o"]}


FIGURES = {
    "move-a-word": move_a_word,
    "share-the-row": share_the_row,
    "paint-the-mask": paint_the_mask,
    "why-root-d": why_root_d,
    "the-tap": the_tap,
    "the-cache": the_cache,
}

# ---------------------------------------------------------------- files


def data_script(name):
    """The data of a figure as a classic script."""
    data = json.dumps(FIGURES[name](), ensure_ascii=False, separators=(",", ":"))
    return f"(window.figureData ??= {{}})[{json.dumps(name)}] = {data};\n"


ALONE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="figures.css">
<style>body{{margin:1rem;font:1rem/1.65 system-ui}}*{{box-sizing:border-box}}</style>
<script defer src="figure.js"></script><script defer src="{name}.data.js"></script>
<script defer src="{name}.js"></script>
<main><h1>{name}</h1><div class="figure" data-figure="{name}"></div></main></html>
"""


def write_alone(name, folder):
    """A page with one figure and nothing else, for tests and for still pictures."""
    for path in STATIC.iterdir():
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / f"{name}.data.js").write_text(data_script(name), encoding="utf-8")
    page = folder / f"{name}.html"
    page.write_text(ALONE.format(name=name), encoding="utf-8")
    return page


def write_data(app):
    """builder-inited: the data of all figures, beside their scripts."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    for name in FIGURES:
        (folder / f"{name}.data.js").write_text(data_script(name), encoding="utf-8")


def load(app, page, template, context, doctree):
    """html-page-context: a page loads the figures that it holds, and no others."""
    names = FIGURE.findall(context.get("body", ""))
    if names:
        app.add_css_file("figures/figures.css")
        app.add_js_file("figures/figure.js", loading_method="defer")
    for name in names:
        app.add_js_file(f"figures/{name}.data.js", loading_method="defer")
        app.add_js_file(f"figures/{name}.js", loading_method="defer")


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_data)
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
