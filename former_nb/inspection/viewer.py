"""Every head of any model while it reads a text, as one page that needs no network.

`view(model, inputs, tokenizer)` runs a model once, records its attention as
`former_nb.inspection.recording` does, and makes a page of it. In a notebook the page is the cell's
output, `save` writes it as one HTML file, and `former-nb view` does both steps from the command
line. For print, `plot_heads` draws the same by Matplotlib.

A text, or a tuple of source and target for a model with two stacks, becomes ids by the tokenizer,
one of ours or one of Transformers. Without a target, our translator writes its own. Ids, tensors of
numbers, and the keyword arguments of a model in a dict are taken as they are.

The page is a template of the package with the data in it, as JSON that contains no `<`. Tokens are
put there as text, never as markup. Each weight is one byte, its square root, which keeps small
weights apart. A page over 5 MB opens badly, so with many tokens and heads only the largest weights
of each row are kept, and only the first 512 tokens. The page says so and how much that is.
"""

import base64
import html
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from ..base.checkpoints import write_file
from ..base.core import eval_mode, plot_weights
from ..base.files import check_path
from ..base.guards import check_that, check_type
from ..data.tokens import TextTokenizer, both_sides
from ..decoding.prompts import find_context
from ..decoding.translating import translate
from ..models.config import TransformerConfig
from ..models.encoder_decoder import EncoderDecoder
from ..models.language_model import LanguageModel
from ..models.masked_language import MaskedLanguageModel
from .recording import AttentionLayer, find_attention, record_attention, summarize_heads

__all__ = [
    "View",
    "view",
    "plot_heads",
]


# ---- what a model reads

SOURCE, TARGET = 0, 1  # the sides of a model; one with a single stack has the first alone


class _Adapter:
    "How a model is given its inputs: this one suits layers of PyTorch, which take any tensors."

    def __init__(self, model, tokenizer):
        self.model = model
        pair = isinstance(tokenizer, (tuple, list))
        self.tokenizers = both_sides(tokenizer) if pair else (tokenizer, tokenizer)  # of each side

    def add_target(self, inputs):
        "The inputs, with a target where the model can write one."
        return inputs

    def surround(self, ids, side):
        "The tokens of a text, between those that a text begins and ends with."
        tokenizer = self.tokenizers[side]
        if side == TARGET:  # its end is yet to be written
            return [*tokenizer.start, *ids]
        return [*tokenizer.before, *ids, *tokenizer.after]

    def encode(self, text, side):
        "A text as ids (1, T)."
        check_type("inputs", text, str)
        tokenizer = self.tokenizers[side]
        if isinstance(tokenizer, TextTokenizer):
            ids = self.surround(tokenizer.encode(text), side)
            return torch.tensor([ids or [*tokenizer.after]])
        expected = "a tokenizer, since inputs are text"
        check_that(callable(tokenizer), "tokenizer", expected, tokenizer, TypeError)
        return torch.tensor([tokenizer(text)["input_ids"]])

    def call(self, sides):
        "Run the model on the tensors of its sides."
        self.model(*sides)


class _OurLanguageModel(_Adapter):
    "A language model goes on with a text, so the text does not end."

    def surround(self, ids, side):
        return [*self.tokenizers[side].before, *ids]


class _OurTranslator(_Adapter):
    "Our translator writes a target where none is given."

    def add_target(self, inputs):
        if not isinstance(inputs, str) or not isinstance(self.tokenizers[TARGET], TextTokenizer):
            return inputs
        [translation] = translate(self.model, self.tokenizers, [inputs])
        return inputs, translation.text


class _TransformersModel(_Adapter):
    "Models of Hugging Face's Transformers take their sides by name."

    def call(self, sides):
        self.model(**dict(zip(("input_ids", "decoder_input_ids"), sides)))


def _adapt(model, tokenizer):
    "The adapter for this kind of model."
    if isinstance(model, EncoderDecoder):
        adapter = _OurTranslator
    elif isinstance(model, LanguageModel):
        adapter = _OurLanguageModel
    elif hasattr(getattr(model, "config", None), "_attn_implementation"):
        adapter = _TransformersModel
    else:
        adapter = _Adapter
    return adapter(model, tokenizer)


def _check_length(model, ids, side):
    "Raise `ValueError` for more tokens than the model reads, by its configuration."
    config = getattr(model, "tgt_config" if side == TARGET else "config", None)
    if isinstance(config, TransformerConfig):
        longest = find_context(config, 0).reads
    else:
        longest = getattr(config, "max_position_embeddings", None)  # T5 has none
    n = ids.shape[-1]
    expected = f"{longest} tokens at most, as many as the model reads"
    check_that(longest is None or n <= longest, "inputs", expected, n)


def _make_sides(adapter, inputs):
    "Tensors for the sides of a model, from a text, ids, or a tuple of either."
    sides = [inputs] if isinstance(inputs, (str, torch.Tensor)) else inputs
    expected = "a text, tokens (B, T), or a tuple of them"
    several = isinstance(sides, (list, tuple))
    check_that(several, "inputs", expected, type(sides).__name__, TypeError)
    if any(isinstance(side, str) for side in sides):
        sides = [adapter.encode(text, i) for i, text in enumerate(sides)]
    for side in sides:
        check_type("inputs", side, torch.Tensor)
    kinds = {layer.kind for layer in find_attention(adapter.model)}
    n_sides = 2 if "cross" in kinds else 1
    fits = len(sides) <= n_sides or sides[0].is_floating_point()  # queries, keys, values of a layer
    check_that(fits, "inputs", "one text, since no decoder reads an encoder here", len(sides))
    return list(sides)


def _spell(ids, tokenizer):
    "What each token spells; its number without a tokenizer, its place where it is no token."
    if ids.is_floating_point():
        return [str(i) for i in range(ids.shape[-2])]
    row = ids[0].tolist()
    if isinstance(tokenizer, TextTokenizer):
        return [tokenizer.names.get(i) or tokenizer.decode([i]) for i in row]
    if hasattr(tokenizer, "convert_ids_to_tokens"):
        row = tokenizer.convert_ids_to_tokens(row)
    return [str(token) for token in row]


def _label(sides, tokenizers, tokens):
    "The labels of source and target: what `tokens` says, or what their tokens spell."
    if tokens is None:
        labels = [_spell(ids, tokenizers[min(i, TARGET)]) for i, ids in enumerate(sides)]
    elif isinstance(tokens, tuple):
        labels = list(tokens)
    else:
        labels = [tokens]
    strings = all(isinstance(token, str) for label in labels for token in label)
    check_that(strings, "tokens", "strings", labels, TypeError)
    return labels


def _on_device(model, value):
    "A tensor on the device of a model; anything else as it is."
    if not isinstance(value, torch.Tensor):
        return value
    return value.to(next(model.parameters()).device)


def _run(model, inputs, tokenizer, tokens):
    "The panel of one input."
    if isinstance(model, MaskedLanguageModel):
        model = model.encoder  # which attends
    adapter = _adapt(model, tokenizer)
    inputs = adapter.add_target(inputs)
    by_name = isinstance(inputs, Mapping)  # as the model takes them
    if by_name:
        sides = [inputs[key] for key in ("input_ids", "decoder_input_ids") if key in inputs]
    else:
        sides = _make_sides(adapter, inputs)
    for i, side in enumerate(sides):
        _check_length(model, side, i)
    with eval_mode(model), torch.no_grad(), record_attention(model) as weights:
        if by_name:
            model(**{name: _on_device(model, value) for name, value in inputs.items()})
        else:
            adapter.call([_on_device(model, side) for side in sides])
    labels = _label(sides, adapter.tokenizers, tokens)
    texts = inputs if isinstance(inputs, tuple) else [inputs]
    if all(isinstance(text, str) for text in texts):
        name = " → ".join(texts)
    else:
        name = " ".join(labels[SOURCE])[:60]
    return Panel(name, model, labels, weights)


# ---- a panel

MAX_TOKENS = 512  # of each side
BUDGET = 3_300_000  # bytes of compressed weights on a page
TEMPLATE = Path(__file__).with_name("viewer.html")


class _Shown(NamedTuple):
    "A layer whose weights are shown."

    layer: AttentionLayer
    queries: int  # the side whose tokens attend
    keys: int  # the side that they attend to
    weights: torch.Tensor  # (h, T, S)


def _sides(kind):
    "The sides of the queries and of the keys of a kind of layer."
    if kind == "decoder":
        return TARGET, TARGET
    return (TARGET, SOURCE) if kind == "cross" else (SOURCE, SOURCE)


class Panel:
    "What one input gave."

    def __init__(
        self,
        name: str,
        model: nn.Module,
        labels: list[list[str]],  # of the source, and of the target where there is one
        weights: dict,  # from `record_attention`, of one text
    ):
        self.name = name
        self.summary = summarize_heads(model, weights)
        self.length = max(map(len, labels))
        if len(labels) == 1:
            labels = [*labels, *labels]
        self.labels = [list(label[:MAX_TOKENS]) for label in labels[:2]]
        self.layers: list[_Shown] = []
        for layer in find_attention(model):
            if layer.name in weights:
                self._add(layer, weights[layer.name][0].float(), labels)

    def _add(self, layer, w, labels):  # weights (h, T, S)
        queries, keys = _sides(layer.kind)
        for n, side in zip(w.shape[1:], (queries, keys)):
            expected = f"{n} for {layer.kind} attention"
            check_that(n == len(labels[side]), "tokens", expected, len(labels[side]))
        self.layers.append(_Shown(layer, queries, keys, w[:, :MAX_TOKENS, :MAX_TOKENS]))

    def _compress(self, n_largest):
        "The weights of all layers, a byte each, with zeros for all but the largest of each row."
        parts = []
        for shown in self.layers:
            roots = _largest(shown.weights, n_largest).sqrt()
            parts.append(roots.mul(255).round().byte().numpy().tobytes())
        return zlib.compress(b"".join(parts), 6)

    def pack(
        self,
        budget: int,  # bytes, at most
    ) -> tuple[bytes, int | None, float]:
        """Compressed weights; how many of a row are among them, None for all; and the share of all
        weight that they hold."""
        rows = sum(shown.weights.shape[0] * shown.weights.shape[1] for shown in self.layers)
        longest = max(shown.weights.shape[2] for shown in self.layers)
        n_largest = longest
        if rows * longest >= 2 * budget:
            n_largest = max(1, budget // (2 * rows))
        packed = self._compress(n_largest)
        while len(packed) > budget and n_largest > 1:
            n_largest = max(1, min(n_largest // 2, budget // (2 * rows)))
            packed = self._compress(n_largest)
        if n_largest >= longest:
            return packed, None, 1.0
        everything = sum(shown.weights.sum() for shown in self.layers)
        on_page = sum(_largest(shown.weights, n_largest).sum() for shown in self.layers)
        return packed, n_largest, (on_page / everything).item()

    def data(self, packed: bytes) -> dict:
        "What the page needs of this panel."
        layers = []
        for layer, queries, keys, w in self.layers:
            same_kind = self.summary["kind"] == layer.kind
            heads = self.summary[same_kind & (self.summary["layer"] == layer.layer)]
            entry = {"kind": layer.kind, "heads": len(w), "queries": queries, "keys": keys}
            entry["stats"] = heads[["entropy", "distance"]].round(3).values.tolist()
            layers.append(entry)
        encoded = base64.b64encode(packed).decode()
        return {"name": self.name, "texts": self.labels, "layers": layers, "bytes": encoded}


def _largest(w, n):
    "Weights (h, T, S) with zeros for all but the `n` largest of each row."
    best = w.topk(min(n, w.shape[2]), dim=-1)
    return torch.zeros_like(w).scatter(-1, best.indices, best.values)


# ---- the page


class View:
    "What `view` returns, with a panel for each input; a notebook shows it as a page."

    def __init__(self, title: str, panels: list[Panel]):
        self.title = title
        self.panels = panels
        self.notes: list[str] = []  # what is not shown, and why
        self.html = self._page()

    def _pack(self, panel):
        "The data of a panel, and notes on what of it is not shown."
        packed, n_largest, share = panel.pack(BUDGET // len(self.panels))
        if panel.length > MAX_TOKENS:
            shown = f"the first {MAX_TOKENS} of {panel.length:,} tokens are shown"
            self.notes.append(f"{panel.name}: {shown}.")
        if n_largest is not None:
            weights = "weight of each query is" if n_largest == 1 else "weights of each query are"
            shown = f"the {n_largest} largest {weights} shown, {share:.0%} of all weight"
            self.notes.append(f"{panel.name}: {shown}; the rest would not fit on a page.")
        return panel.data(packed)

    def _page(self):
        data = [self._pack(panel) for panel in self.panels]
        kinds = list(dict.fromkeys(shown.layer.kind for shown in self.panels[0].layers))
        page = {"title": self.title, "notes": self.notes, "kinds": kinds, "panels": data}
        text = json.dumps(page, ensure_ascii=False).replace("<", "\\u003c")
        text = text.encode("utf-8", "replace").decode()  # half a character is no text
        template = TEMPLATE.read_text("utf-8").replace("__TITLE__", html.escape(self.title))
        return text.join(template.split("__DATA__"))

    def save(
        self,
        file: str | Path,  # such as attention.html
    ) -> Path:
        "Write the page as one HTML file that asks for nothing else."
        path = check_path("file", file)
        if not path.parent.exists():
            raise FileNotFoundError(
                f"file: {str(path)!r} cannot be written: No such file or folder"
            )
        return write_file("file", path, self.html)

    def _repr_html_(self):
        title = html.escape(f"Attention: {self.title}")
        frame = f'<iframe title="{title}" sandbox="allow-scripts" srcdoc="{html.escape(self.html)}"'
        return f'{frame} style="width: 100%; height: 860px; border: 0"></iframe>'

    def __repr__(self):
        return f"View({self.title!r}, {[panel.name for panel in self.panels]})"

    def head(
        self,
        kind: str,
        layer: int,  # from 1
        head: int,  # from 1
        panel: int = 0,
    ) -> tuple[torch.Tensor, list[str], list[str]]:  # weights (T, S), queries, keys
        "One head. Raises `ValueError` for one that is not there."
        labels = self.panels[panel].labels
        heads = {}
        for shown in self.panels[panel].layers:
            for number, weights in enumerate(shown.weights, start=1):
                name = shown.layer.kind, shown.layer.layer, number
                heads[name] = weights, labels[shown.queries], labels[shown.keys]
        expected = f"one from {min(heads)} to {max(heads)}"
        check_that((kind, layer, head) in heads, "head", expected, (kind, layer, head))
        return heads[kind, layer, head]


def view(
    model: nn.Module,  # ours, PyTorch's or Hugging Face's
    inputs: Any,  # a text, (source, target), ids or arguments by name; or a list of two
    tokenizer: Any = None,  # ours, a pair (source, target) of ours, or Hugging Face's
    tokens: list[str] | tuple | None = None,  # labels, or (source, target); as `inputs`, of two
) -> View:  # shows itself in a notebook; `save` writes a file
    "What every head attends to while the model reads. Raises `ValueError` for what it cannot read."
    find_attention(model)
    several = inputs if isinstance(inputs, list) else [inputs]
    labels: Any = tokens if isinstance(inputs, list) else [tokens]
    labels = labels or [None] * len(several)
    check_that(0 < len(several) < 3, "inputs", "one input, or a list of two", len(several))
    check_that(len(labels) == len(several), "tokens", "a list for each input", len(labels))
    panels = [_run(model, one, tokenizer, texts) for one, texts in zip(several, labels)]
    n = sum(p.numel() for p in model.parameters())
    return View(f"{type(model).__name__}, {n:,} parameters", panels)


# ---- for print


def plot_heads(
    page: View,
):  # a matplotlib figure, a row for each layer and a column for each head
    "All heads of the last kind as heat maps."
    import matplotlib.pyplot as plt

    shown = page.panels[0]
    kind = shown.layers[-1].layer.kind
    layers = [part for part in shown.layers if part.layer.kind == kind]
    queries = shown.labels[layers[0].queries]
    keys = shown.labels[layers[0].keys]
    small = len(keys) <= 40
    side = 1 + 0.11 * len(keys) if small else 2.2  # inches
    columns = max(len(part.weights) for part in layers)
    size = (side * columns, side * len(layers))
    fig, axes = plt.subplots(
        len(layers), columns, figsize=size, squeeze=False, layout="constrained"
    )
    for part, row in zip(layers, axes):
        for i, (head, ax) in enumerate(zip(part.weights, row), start=1):
            title = f"layer {part.layer.layer}, head {i}"
            plot_weights(head, queries, keys, title, ax, numbers=False)
            if small:
                ax.tick_params(labelsize=7)
            else:
                ax.set(xticks=[], yticks=[])
            ax.label_outer()  # labels at the left and at the bottom only
    return fig
