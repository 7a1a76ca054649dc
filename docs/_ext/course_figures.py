"""Figures that move: the data that Python computes for them, and the files that a page loads.

A page holds `<div class="figure" data-figure="NAME">` around a still picture. Its script is
`_static/figures/NAME.js`. What the script draws is computed here with the lesson's own functions,
and written as a classic script beside it, because a page on disk may not fetch.
"""

import ast
import json
import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
STATIC = ROOT / "docs" / "_static" / "figures"
FIGURE = re.compile(r'<div class="figure" data-figure="([\w-]+)">')
WORD = re.compile(r'<span data-part="([\w-]+)"(?: data-code="([^"]+)")?>')


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


def paint_the_mask():
    """Lesson 04's longest sentence, and masks made by the library."""
    from former_nb.attention.masks import causal_mask

    words = from_page("04_masks", "sentences")[0][2].split()
    past = causal_mask(len(words))[0, 0].int()
    presets = {"causal": past, "window of 2": past - past.tril(-2), "everything": past * 0 + 1}
    return {"words": words, "presets": {name: mask.tolist() for name, mask in presets.items()}}


def the_leak():
    """How far the outputs of two layers move, for every choice of changed words and lost masks."""
    import torch

    from former_nb.attention.masks import causal_mask
    from former_nb.attention.multi_head import MultiHeadAttention

    words, others = "the cat sat on the mat".split(), "one dog lay by her rug".split()
    torch.manual_seed(0)
    layers = [MultiHeadAttention(8, 2) for _ in range(2)]
    now, then = torch.randn(2, 6, 8)  # a vector of each word, and of what takes its place
    moves = []
    causal = causal_mask(6)
    for masks in ([causal, causal], [causal, None], [None, None]):
        rows = []
        for choice in range(2**6):  # bit i: word i is changed
            changed = torch.tensor([choice >> i & 1 for i in range(6)])
            outputs = []
            for x in (now, torch.where(changed.bool()[:, None], then, now)):
                x = x[None]
                with torch.no_grad():
                    for layer, mask in zip(layers, masks):
                        x = x + layer(x, mask=mask)
                outputs.append(x[0])
            before, after = outputs
            rows.append(rounded((after - before).norm(dim=-1) / before.norm(dim=-1), 3))
        moves.append(rows)
    return {"words": words, "others": others, "moves": moves}


def why_root_d():
    """Scores, and the weights of one query, by lesson 02's `random_scores`, and divided."""
    (random_scores,) = from_page("02_attention", "random_scores")
    widths = [2**n for n in range(1, 11)]
    data = {"widths": widths, "hills": [[], []], "spread": [[], []], "weights": [[], []]}
    for divided in (0, 1):
        for d_k in widths:
            scores = random_scores(d_k, d_k**0.5 if divided else 1)
            counts = scores.histc(bins=64, min=-64, max=64)
            weights = scores.softmax(dim=-1).sort(descending=True).values  # (2000, 10)
            largest = weights[:, 0]
            typical = (largest - largest.median()).abs().argmin()
            data["hills"][divided].append((1000 * counts / counts.max()).round().int().tolist())
            data["spread"][divided].append(rounded(scores.std()))
            data["weights"][divided].append(rounded(weights[typical]))
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


@cache
def who_looks_where():
    """Answers and cross-attention of the shipped translator, whole and with each head off."""
    import torch

    from former_nb import load_model
    from former_nb.data.tokenization import encode_texts
    from former_nb.data.toy_data import german_number
    from former_nb.decoding.number_words import greedy_decode
    from former_nb.inspection.ablation import ablate_heads
    from former_nb.inspection.recording import record_attention

    model, tokenizer, _ = load_model("numbers", "cpu")
    heads = [(layer, head) for layer in (1, 2) for head in (1, 2)]
    words = []
    for number in (74, 21, 36, 99):
        text = german_number(number)
        src = torch.tensor(encode_texts([text], tokenizer))
        runs = []
        for off in [[], *([head] for head in heads)]:
            with ablate_heads(model, [("cross", *head) for head in off]), torch.no_grad():
                tokens = greedy_decode(model, src, 30)[0]
                with record_attention(model) as weights:
                    model(src, torch.tensor([tokens[:-1]]))  # a row for each letter written
            layers = [weights[f"decoder.blocks.{layer}.cross"][0] for layer in (0, 1)]
            maps = (100 * torch.cat(layers)).round().int().tolist()  # per cent, a map per head
            runs.append({"answer": tokenizer.decode(tokens), "maps": maps})
        source = ["\u25b8", *text, "\u25a0"]
        words.append({"number": str(number), "source": source, "runs": runs})
    return {"heads": [f"{layer}.{head}" for layer, head in heads], "words": words}


def count_pairs(rows, times):
    """How often two pieces are neighbours; a row counts as often as its word occurs."""
    pairs = Counter()
    for row, n in zip(rows, times):
        for pair in pairwise(row):
            pairs[pair] += n
    return pairs


def learned(words, merges, rows, times):
    """A corpus of the figure: its merges, how often each pair met, and its tokens after each."""
    from former_nb.data.subwords import merge

    counts, tokens = [], [sum(len(row) * n for row, n in zip(rows, times))]
    for pair in merges:
        counts.append(count_pairs(rows, times)[tuple(pair)])
        rows = [merge(row, pair) for row in rows]
        tokens.append(sum(len(row) * n for row, n in zip(rows, times)))
    return {"words": words, "merges": merges, "counts": counts, "tokens": tokens}


def byte_letters():
    """The character that stands for each byte: Latin-1 for itself if it can be seen, or a later."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in visible]
    shifted = {byte: chr(256 + i) for i, byte in enumerate(hidden)}
    return [shifted.get(byte, chr(byte)) for byte in range(256)]


def merge_by_merge():
    """Lesson 15's five words and its twenty pages: merges, counts and tokens."""
    from former_nb.data.subwords import count_words, merge, train_bpe

    words, pages = from_page("15_subwords", "words", "pages")
    rows, merges = [list(word) for word in words], []
    while (most := count_pairs(rows, [1] * 5).most_common(1)[0])[1] > 1:
        merges.append(most[0])
        rows = [merge(row, most[0]) for row in rows]
    five = learned(words, merges, [list(word) for word in words], [1] * 5)
    often = count_words(pages)
    shown = ["the", "other", "statement", "expression", "understand", "\u017eod\u017eiai"]
    twenty = learned(shown, train_bpe(often, 300), [list(word) for word in often], often.values())
    twenty["bytes"] = byte_letters()
    return [{"name": "five words", **five}, {"name": "twenty pages", **twenty}]


def clock_hands():
    """Sixty-four positions, a sine and a cosine for each of eight hands."""
    from former_nb.attention.positions import sinusoid_table

    return rounded(sinusoid_table(64, 16))


def the_stream():
    """Lengths in the stream of the shipped model of names, with every choice of parts left out."""
    import torch

    from former_nb import load_model
    from former_nb.data.text import BOS, PAD, UNK

    model, tokenizer, _ = load_model("names", "cpu")
    parts = [part for block in model.stack.blocks for part in (block.attention, block.ff)]
    left_out, added = set(), {}

    def note(part, inputs, output):
        n = parts.index(part)
        added[n] = output * 0 if n in left_out else output
        return added[n]

    for part in parts:
        part.register_forward_hook(note)
    beginnings = []
    for text in ("Jo", "Mari", "Kl"):
        tokens = torch.tensor([[BOS, *tokenizer.encode(text)]])
        rows = []
        for choice in range(2 ** len(parts)):  # bit n: part n is left out
            left_out.clear()
            left_out.update(n for n in range(len(parts)) if choice >> n & 1)
            with torch.no_grad():
                stream = [model.embed(tokens, torch.arange(tokens.shape[1]))[0, -1]]
                logits = model(tokens)[0, -1]
            logits[[PAD, BOS, UNK]] = -torch.inf  # they are never written
            p = logits.softmax(dim=-1)
            if not choice:
                order = p.argsort(descending=True)[:6]
            for n in range(len(parts)):
                stream.append(stream[-1] + added[n][0, -1])
            lengths = rounded(torch.stack(stream).norm(dim=-1))
            sizes = rounded(torch.stack([added[n][0, -1] for n in range(len(parts))]).norm(dim=-1))
            rows.append([lengths, sizes, rounded(p[order])])
        letters = [tokenizer.decode([token]) or "end" for token in order.tolist()]
        beginnings.append({"text": text, "letters": letters, "rows": rows})
    return beginnings


def the_valley():
    """The runs that `tools/valley.py` recorded: by warm-up, by rate, by seed."""
    recorded = json.loads((HERE / "the_valley.json").read_text(encoding="utf-8"))
    runs = {(run["warmup"], run["rate"], run["seed"]): run for run in recorded["runs"]}
    warmups, rates, seeds = (list(dict.fromkeys(column)) for column in zip(*runs))
    table = [[[runs[w, rate, seed] for seed in seeds] for rate in rates] for w in warmups]
    return {"rates": rates, "runs": table, "steps": recorded["steps"], "word": recorded["word"]}


ELEMENTS = """hydrogen helium lithium beryllium boron carbon nitrogen oxygen fluorine neon sodium
magnesium aluminium silicon phosphorus sulfur chlorine argon potassium calcium scandium titanium
vanadium chromium manganese iron cobalt nickel copper zinc gallium germanium arsenic selenium
bromine krypton rubidium strontium yttrium zirconium niobium molybdenum technetium ruthenium rhodium
palladium silver cadmium indium tin antimony tellurium iodine xenon caesium barium lanthanum cerium
praseodymium neodymium promethium samarium europium gadolinium terbium dysprosium holmium erbium
thulium ytterbium lutetium hafnium tantalum tungsten rhenium osmium iridium platinum gold mercury
thallium lead bismuth polonium astatine radon francium radium actinium thorium protactinium uranium
neptunium plutonium americium curium berkelium californium einsteinium fermium mendelevium nobelium
lawrencium rutherfordium dubnium seaborgium bohrium hassium meitnerium darmstadtium roentgenium
copernicium nihonium flerovium moscovium livermorium tennessine oganesson""".split()


@cache
def word_lists():
    """What a model in the page can learn from: lists of words in small letters, by their names."""
    from former_nb.data.data_sets import load_names
    from former_nb.data.toy_data import german_number

    names = list(dict.fromkeys(name.lower() for name in load_names()[0]))
    numbers = [german_number(n) for n in range(1000)]
    return {"names": names, "German numbers": numbers, "elements": ELEMENTS}


def train_your_own():
    """The run that `tools/letters.py` recorded, and how each list of words begins."""
    recorded = json.loads((HERE / "train_your_own.json").read_text(encoding="utf-8"))
    del recorded["link"]  # it comes with the lists, at the first use
    lists = [
        {"name": f"{len(words):,} {name}", "count": len(words), "sample": words[:5]}
        for name, words in word_lists().items()
    ]
    return {"recorded": recorded, "lists": lists}


def lists_script():
    """The words of all lists and the recorded model, as a classic script."""
    recorded = json.loads((HERE / "train_your_own.json").read_text(encoding="utf-8"))
    lists = {"words": list(word_lists().values()), "link": recorded["link"]}
    return f"window.figureLists = {json.dumps(lists, ensure_ascii=False, separators=(',', ':'))};\n"


def film():
    """What the home page's film draws: the words of lesson 02, a name, and a number."""
    rows = ["the", "cat", "sat", "on", "mat", "x", "noun", "verb", "alive", "none"]
    words, x, *matrices = from_page("02_attention", "words", "x", "W_q", "W_k", "W_v", *rows)[:5]
    q, k, v = (rounded(x @ w) for w in matrices)
    said = {"words": words, "q": q, "k": k, "v": v, "asks": 2, "moves": [1, 5]}
    said["says"] = ["alive", "action"]  # the two numbers of a value
    (number,) = [word for word in who_looks_where()["words"] if word["number"] == "21"]
    answer, maps = number["runs"][0].values()
    number = {"source": number["source"], "answer": answer, "map": maps[3]}  # layer 2, head 2
    return {"words": said, **a_name_is_written("Jotvinas"), "number": number}


def a_name_is_written(name, begins=2, shown=5):
    """The chances of the letters that follow, from the shipped model at temperature 0.8.

    And what each head of its second layer looks at when it has read all but the last letter."""
    import torch

    from former_nb import load_model
    from former_nb.data.text import BOS, EOS, PAD, UNK
    from former_nb.inspection.recording import record_attention

    model, tokenizer, _ = load_model("names", "cpu")
    tokens = torch.tensor([[BOS, *tokenizer.encode(name)]])
    with torch.no_grad(), record_attention(model) as weights:
        model(tokens[:, :-1])
    heads = rounded(weights["stack.blocks.1.attention"][0, :, -1])
    with torch.no_grad():
        logits = model(tokens)[0]
    logits[:, [PAD, BOS, UNK]] = -torch.inf  # they are never written
    steps = []
    for row, follows in zip(logits[begins:], [*tokens[0, begins + 1 :].tolist(), EOS]):
        p, order = (row / 0.8).softmax(dim=-1).topk(shown)
        letters = [tokenizer.decode([token]) or "end" for token in order.tolist()]
        pick = order.tolist().index(follows)
        step = {"letters": letters, "p": rounded(p), "pick": pick}
        steps.append(step | {"written": tokenizer.decode([follows])})
    letters = [*name.lower()]
    read = {"letters": ["\u25b8", *letters[:-1]], "weights": heads}
    return {"heads": read, "name": {"begins": letters[:begins], "steps": steps}}


def induction_head():
    """The steps of two layers that `tools/induction.py` recorded, and the losses on the way."""
    recorded = json.loads((HERE / "induction_head.json").read_text(encoding="utf-8"))
    del recorded["proof"]  # for the tests
    return recorded


FIGURES = {
    "move-a-word": move_a_word,
    "the-leak": the_leak,
    "paint-the-mask": paint_the_mask,
    "why-root-d": why_root_d,
    "the-tap": the_tap,
    "the-cache": the_cache,
    "who-looks-where": who_looks_where,
    "merge-by-merge": merge_by_merge,
    "clock-hands": clock_hands,
    "the-stream": the_stream,
    "the-valley": the_valley,
    "train-your-own": train_your_own,
    "induction-head": induction_head,
    "film": film,
}
# scripts that go before a figure's own
PARTS = {"induction-head": ["two-layers"], "film": ["film-scenes"]}

# ---------------------------------------------------------------- files


def data_script(name):
    """The data of a figure as a classic script."""
    data = json.dumps(FIGURES[name](), ensure_ascii=False, separators=(",", ":"))
    return f"(window.figureData ??= {{}})[{json.dumps(name)}] = {data};\n"


ALONE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>{name}</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="figures.css">{sheet}
<style>body{{margin:1rem;font:1rem/1.65 system-ui}}*{{box-sizing:border-box}}</style>
<script defer src="address.js"></script><script defer src="figure.js"></script>
<script defer src="{name}.data.js"></script>
{scripts}
<main><h1>{name}</h1><div class="figure" data-figure="{name}"></div></main></html>
"""


def write_scripts(folder, names):
    """The data of these figures, beside their scripts."""
    for name in names:
        (folder / f"{name}.data.js").write_text(data_script(name), encoding="utf-8")
    if "train-your-own" in names:
        (folder / "train-your-own.lists.js").write_text(lists_script(), encoding="utf-8")


def write_alone(name, folder):
    """A page with one figure and nothing else, for tests and for still pictures."""
    for path in STATIC.iterdir():
        (folder / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    write_scripts(folder, [name])
    page = folder / f"{name}.html"
    parts = [*PARTS.get(name, []), name]
    scripts = "".join(f'<script defer src="{part}.js"></script>' for part in parts)
    sheet = f'<link rel="stylesheet" href="{name}.css">' if sheet_of(name) else ""
    page.write_text(ALONE.format(name=name, sheet=sheet, scripts=scripts), encoding="utf-8")
    return page


def write_data(app):
    """builder-inited: the data of all figures, beside their scripts."""
    if app.builder.format != "html":
        return
    folder = Path(app.outdir) / "_static" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    write_scripts(folder, FIGURES)


def sheet_of(name):
    """The sheet of style that a figure has of its own, if any."""
    return f"{name}.css" if (STATIC / f"{name}.css").exists() else None


def load(app, page, template, context, doctree):
    """html-page-context: a page loads the figures that it holds, and no others."""
    body = context.get("body", "")
    names, words = FIGURE.findall(body), WORD.findall(body)
    if names or words:
        app.add_css_file("figures/figures.css")
    if words:
        app.add_js_file("figures/parts.js", loading_method="defer", priority=800)
    if names:
        app.add_js_file("figures/address.js", loading_method="defer")
        app.add_js_file("figures/figure.js", loading_method="defer")
    for sheet in filter(None, map(sheet_of, names)):
        app.add_css_file(f"figures/{sheet}")
    for name in names:
        app.add_js_file(f"figures/{name}.data.js", loading_method="defer")
        for script in [*PARTS.get(name, []), name]:
            app.add_js_file(f"figures/{script}.js", loading_method="defer")


PICTURE = re.compile(r'<img [^>]*src="[^"]*_images/(\w+\.svg)"[^>]*>')
NIGHT = re.compile(r"@media \(prefers-color-scheme:dark\)\{\n(.*)\n\}\n(?=</style>)", re.S)
SIZE = re.compile(r"(<svg [^>]*?) width=\S+ height=\S+")
DRAWN = (
    '<span class="drawing{tall}" style="--high: {high:.3f}">'
    '<template shadowrootmode="open">{drawn}</template>{image}</span>'
)


def open_drawings(app, page, template, context, doctree):
    """html-page-context, after the slides are cut: drawings whose parts are lit are in the page.

    Each has its style to itself. A browser that doesn't know such roots shows the picture."""

    def opened(match):
        path = ROOT / "nbs" / "images" / match[1]
        drawn = path.read_text(encoding="utf-8") if path.exists() else ""
        if "data-part" not in drawn:
            return match[0]
        night = NIGHT.search(drawn)
        style = '<style class="night" media="(prefers-color-scheme:dark)">'
        drawn = drawn.replace(night[0], "").replace(
            "</style>", f"</style>{style}{night[1]}</style>"
        )
        drawn = SIZE.sub(r'\1 style="display:block;width:100%"', drawn)
        tall = " tall" if 'class="tall"' in match[0] else ""
        image = match[0].replace("<img ", '<img loading="lazy" ', 1)
        high = int(re.search(r'viewBox="0 0 404 (\d+)"', drawn)[1]) / 404
        return DRAWN.format(tall=tall, high=high, drawn=drawn, image=image)

    if WORD.search(context.get("body", "")):
        context["body"] = PICTURE.sub(opened, context["body"])


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_data)
    app.connect("html-page-context", open_drawings, priority=970)
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
