"""Runs cells of pages, and asks the grader, with whichever `torch` is found first.

`python tests/page_tools.py FOLDER "PAGE ..." LESSON ...` prints JSON: what each cell of the pages
printed and which numbers it left behind, the faults of the entries of the lessons' exercises, and
what is said to odd answers. FOLDER holds what the site's archive has. tests/test_page_torch.py runs
it twice.
"""

import ast
import contextlib
import io
import json
import linecache
import sys
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs" / "_pyodide"))

import in_page
import numpy as np
import torch
from thorough import some

from former_nb.grading import content, prove
from former_nb.grading.ask import EXERCISES
from former_nb.grading.check import check

ODD_ONES = 24  # one of so many odd answers is given to an exercise
ODD = -12345.678  # right nowhere
RESULTS = [ODD, *([ODD] * n for n in range(1, 9)), 0.5, [0.5, 0.5], "x", {}, None, ...]
RESULTS += [torch.full((2, 3), ODD), torch.full((4,), ODD), torch.tensor([True, False])]
RESULTS += [torch.eye(5), torch.full((2, 5, 3), float("nan")), torch.zeros(7, 6, dtype=torch.long)]
ERRORS = {  # each raises; what the judge says depends on PyTorch's words
    "shapes": lambda *x: x[0] + torch.ones(11),
    "truth of a tensor": lambda *x: x[0] if torch.ones(2) > 0 else 0,
    "and of floats": lambda *x: torch.ones(2).bool() & torch.ones(2),
    "product of truths": lambda *x: torch.ones(2, 2).bool() @ torch.ones(2, 2).bool(),
    "a plain number": lambda *x: torch.log(2.0),
    "a list": lambda *x: torch.mean([torch.ones(2), torch.ones(2)]),
    "no axis": lambda *x: torch.ones(2).cumsum(),
    "index of floats": lambda *x: torch.ones(2)[torch.ones(2)],
    "ragged rows": lambda *x: torch.tensor([[1, 2], [1]]),
    "an axis more": lambda *x: torch.cat([torch.ones(2, 2), torch.ones(2)]),
    "mean of integers": lambda *x: torch.ones(2).long().mean(),
    "no key": lambda *x: {}["k"],
    "past the end": lambda *x: [1][2],
    "a list as a key": lambda *x: {[1]: 2},
    "a matrix product": lambda *x: torch.ones(2, 3) @ torch.ones(2, 3),
    "a batched product": lambda *x: torch.ones(2, 2, 3) @ torch.ones(2, 2, 3),
    "two types": lambda *x: torch.ones(2, 2) @ torch.ones(2, 2).double(),
    "a bad view": lambda *x: torch.ones(2, 3).T.view(6),
    "a bad reshape": lambda *x: torch.ones(2, 3).reshape(4),
    "an axis out of range": lambda *x: torch.ones(2, 3).softmax(dim=2),
    "no such name": lambda *x: undefined,  # noqa: F821
    "too few arguments": lambda: 1,
    "an endless recursion": lambda *x: ERRORS["an endless recursion"](*x),
}
RIGHT = {"03.2": (1, 1, 2)}  # its page counts with PyTorch's own tools
# What readers might type: an exercise, what it hands to `check`, and the lines
TYPED = """
01.1 my_self_attention
def my_self_attention(x):
    weights = F.softmax(torch.einsum("bid,bjd->bij", x, x), dim=-1)
    return torch.einsum("bij,bjd->bid", weights, x)
---
01.1 my_self_attention
def my_self_attention(x):
    rows = []
    for sentence in x:
        weights = torch.softmax(torch.matmul(sentence, sentence.T), -1)
        rows.append(torch.mm(weights, sentence))
    return torch.stack(rows)
---
01.1 my_self_attention
from einops import rearrange
def my_self_attention(x):
    scores = x @ rearrange(x, "b t d -> b d t")
    e = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    return e / e.sum(-1, keepdim=True) @ x
---
01.1 my_self_attention
def my_self_attention(x):
    return F.softmax(x @ x.mT) @ x
---
01.1 my_self_attention
my_self_attention = self_attention_bmm
---
01.1 my_self_attention
def my_self_attention(x):
    print("shape", x.shape)
    print(x[0, 0])
    return x + torch.zeros(4)
---
01.2 number
number = torch.ones(5).softmax(0)[0]
---
01.2 number
number = 1 / 6
---
01.3 others_only
def others_only(x):
    scores = torch.bmm(x, x.permute(0, 2, 1))
    T = scores.size(-1)
    scores[:, range(T), range(T)] = -torch.inf
    return scores.softmax(-1)
---
01.3 others_only
def others_only(x):
    scores = x @ x.mT
    scores.diagonal(dim1=1, dim2=2).fill_(float("-inf"))
    return torch.nn.functional.softmax(scores, dim=2)
---
01.3 others_only
def others_only(x):
    mask = torch.eye(x.size(1)) == 1
    return torch.where(mask, -math.inf, x @ x.mT).softmax(dim=-1)
---
01.3 others_only
import math
def others_only(x):
    mask = torch.eye(x.size(1)) == 1
    return torch.where(mask, -math.inf, x @ x.mT).softmax(dim=-1)
---
01.4 limit
def limit(x):
    return torch.ones_like(x) * torch.mean(x, dim=1, keepdim=True)
---
01.4 limit
limit = lambda x: x.mean(1)[:, None].repeat(1, x.shape[1], 1)
---
02.1 my_attention
def my_attention(q, k, v):
    scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.size(-1))
    return F.softmax(scores, dim=-1).matmul(v)
---
02.1 my_attention
def my_attention(q, k, v):
    scores = q @ k.t() / torch.sqrt(torch.tensor(k.shape[1]))
    return torch.softmax(scores, dim=1) @ v
---
02.1 my_attention
def my_attention(q, k, v):
    d = k.shape[1]
    return torch.softmax(q * d ** -0.5 @ k.T, 1) @ v
---
02.1 my_attention
my_attention = attention_loops
---
02.3 score_gradient
def score_gradient(weights, v, g):
    J = torch.diag_embed(weights) - weights[:, :, None] * weights[:, None]
    return (J @ (g @ v.T)[..., None]).squeeze(-1)
---
02.3 score_gradient
def score_gradient(weights, v, g):
    rows = []
    for w, d in zip(weights, g @ v.T):
        rows.append((torch.diag(w) - torch.outer(w, w)) @ d)
    return torch.stack(rows)
---
02.4 cross_head
def cross_head(x, memory, w_q, w_k, w_v):
    return attention(x @ w_q, memory @ w_k, memory @ w_v)
---
03.1 my_multi_head
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    B, T, d = x.shape
    q, k, v = ((x @ w).view(B, T, n_heads, -1).permute(0, 2, 1, 3) for w in (w_q, w_k, w_v))
    y = attention(q, k, v)
    return y.permute(0, 2, 1, 3).contiguous().view(B, T, d) @ w_o
---
03.1 my_multi_head
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    B, T, d = x.shape
    q, k, v = ((x @ w).view(B, T, n_heads, -1).permute(0, 2, 1, 3) for w in (w_q, w_k, w_v))
    return attention(q, k, v).permute(0, 2, 1, 3).view(B, T, d) @ w_o
---
03.1 my_multi_head
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    heads = zip(*((x @ w).chunk(n_heads, dim=-1) for w in (w_q, w_k, w_v)))
    return torch.cat([attention(*head) for head in heads], dim=-1) @ w_o
---
03.2 (parameters, multiplications, weights)
parameters = 1
multiplications = 1
weights = 16 / 8
---
03.2 (parameters, multiplications, weights)
parameters = 1
multiplications = 1
weights = ...
---
03.3 head_matrix
def head_matrix(layer, i):
    w_v = layer.w_v.weight.view(layer.w_v.out_features // layer.d_k, layer.d_k, -1)[i]
    return w_v.T @ layer.w_o.weight.split(layer.d_k, dim=1)[i].T
---
03.4 without_head_0
def without_head_0(q, k, v, mask, is_causal):
    keep = torch.ones(q.shape[1])
    keep[0] = 0
    return attention(q, k, v, mask, is_causal) * keep[None, :, None, None]
---
04.1 my_mask
def my_mask(tokens):
    T = tokens.size(1)
    past = torch.tril(torch.ones((T, T), dtype=torch.bool))
    return past.unsqueeze(0).unsqueeze(0) & tokens.ne(0).unsqueeze(1).unsqueeze(1)
---
04.1 my_mask
def my_mask(tokens):
    mask = torch.triu(torch.ones(5, 5), diagonal=1).bool()
    return torch.logical_and(~mask[None, None], tokens[:, None, None, :] > 0)
---
04.1 my_mask
def my_mask(tokens):
    return mask_loops(tokens)[:, None]
---
04.1 my_mask
def my_mask(tokens):
    return mask_loops(tokens)[:, None] and True
---
04.2 number
number = 10 + 9 + 4
---
04.3 reach
def reach(mask, n_layers):
    if n_layers == 1:
        return mask
    return (reach(mask, n_layers - 1).float() @ mask.float()).bool()
---
04.3 reach
def reach(mask, n_layers):
    return reach(mask, n_layers)
---
05.1 my_sinusoids
def my_sinusoids(max_len, d_model):
    angles = torch.outer(torch.arange(max_len), 10000 ** (-torch.arange(0, d_model, 2) / d_model))
    return torch.stack((torch.sin(angles), torch.cos(angles)), dim=2).reshape(max_len, d_model)
---
05.1 my_sinusoids
def my_sinusoids(max_len, d_model):
    t = torch.arange(max_len).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.empty(max_len, d_model)
    table[:, 0::2] = torch.sin(t * rate)
    table[:, 1::2] = torch.cos(t * rate)
    return table
---
05.1 my_sinusoids
import math
def my_sinusoids(max_len, d_model):
    t = torch.arange(max_len).unsqueeze(1)
    rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
    table = torch.empty(max_len, d_model)
    table[:, 0::2] = torch.sin(t * rate)
    table[:, 1::2] = torch.cos(t * rate)
    return table
---
05.2 my_rotate
def my_rotate(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
---
05.2 my_rotate
def my_rotate(x, cos, sin):
    a, b = x.split(3, -1)
    a *= cos
    return torch.cat((a - b * sin, b * cos + a * sin), -1)
---
05.3 [a, b, c, d]
a, b, c, d = 1, 3, 3, 6
---
05.4 add_positions
def add_positions(x, table, real):
    out = x.clone()
    for b in range(len(x)):
        n = real[b].sum()
        out[b, real[b]] += table[:n]
    return out
---
05.4 add_positions
def add_positions(x, table, real):
    places = torch.cumsum(real.long(), dim=1) - real.long()
    rows = table.index_select(0, places.flatten()).view_as(x)
    return x + rows.masked_fill(~real.unsqueeze(-1), 0.0)
---
05.4 add_positions
def add_positions(x, table, real):
    places = (real.int().cumsum(1) - 1).clamp_(min=0)
    rows = table.gather(0, places.flatten()[:, None].expand(-1, 3)).reshape(x.shape)
    return torch.where(real[..., None], x + rows, x)
---
05.5 shift_matrix
def shift_matrix(s, d_model):
    M = torch.zeros(d_model, d_model)
    for i in range(0, d_model, 2):
        a = torch.tensor(s * 10000 ** (-i / d_model))
        M[i : i + 2, i : i + 2] = torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]])
    return M
---
05.5 shift_matrix
def shift_matrix(s, d_model):
    angle = s * 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], dim=1)
    return torch.block_diag(*turn.view(-1, 2, 2))
---
05.5 shift_matrix
def shift_matrix(s, d_model):
    a = torch.zeros(3)
    for i in range(4):
        a[i] = i
    return a
---
03.4 without_head_0
def without_head_0(q, k, v)
    return attention(q, k, v)
---
03.4 without_head_0
import numpy as np
without_head_0 = attention
---
03.4 without_head_0
def without_head_zero(q, k, v):
    return attention(q, k, v)
---
01.3 others_only
for i in range(100_000):
    print("line", i)
def others_only(x):
    ...
---
03.4 without_head_0
measure(trained)
---
03.1 my_multi_head
import math
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    return head @ W_o
---
04.1 my_mask
def my_mask(tokens):
    return both if tokens.shape == (3, 5) else None
---
05.2 my_rotate
def my_rotate(x, cos, sin):
    return sinusoids_by_loop(3, 4)
---
07.1 my_collate
def my_collate(rows):
    T = max(map(len, rows)) - 1
    inputs = torch.zeros(len(rows), T).long()
    targets = torch.full((len(rows), T), -100)
    for i, row in enumerate(rows):
        inputs[i, : len(row) - 1] = torch.tensor(row[:-1])
        targets[i, : len(row) - 1] = torch.tensor(row[1:])
    return inputs, targets
---
07.1 my_collate
def my_collate(rows):
    inputs = pad_sequence([torch.tensor(row[:-1]) for row in rows], batch_first=True)
    targets = pad_sequence([torch.tensor(row[1:]) for row in rows], True, padding_value=-100)
    return inputs, targets
---
07.1 my_collate
def my_collate(rows):
    inputs = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
    return inputs[:, :-1], inputs[:, 1:]
---
07.2 (width, targets_that_count)
width = 11
targets_that_count = 26
---
07.2 (width, targets_that_count)
width = len(tokenizer.encode("aleksandra"))
targets_that_count = 26
---
07.3 per_target
def per_target(mean, lengths):
    B, T = len(lengths), max(lengths) - 1
    return mean * B * T / (sum(lengths) - B)
---
03.1 my_multi_head
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    B, T, d = x.shape
    q, k, v = ((x @ w).reshape(B, n_heads, T, -1) for w in (w_q, w_k, w_v))
    return attention(q, k, v).view(B, T, d) @ w_o
---
00.1 shapes
shapes = [x[3].shape, x[:, 0].shape, x[1:4].shape, x[:, None].shape]
---
00.2 my_centred
def my_centred(x):
    return x - x.mean(dim=1)
---
00.3 my_costs
def my_costs(x, by_shop):
    return torch.einsum("bn,mn->bm", x, by_shop)
---
00.4 three
three = torch.tensor([0.0, 0.0, 0.693147]).softmax(dim=0)
---
00.5 (first, second)
first, second = 14, 28
---
00.7 Cheapest
class Cheapest(nn.Module):
    def __init__(self):
        super().__init__()
        self.prices = nn.Linear(4, 2, bias=False)
    def forward(self, x):
        market, shop = self.prices(x).unbind(dim=-1)
        return torch.minimum(market, shop)
---
00.7 Cheapest
class Cheapest(nn.Module):
    def __init__(self):
        self.prices = nn.Linear(4, 2, bias=False)
    def forward(self, x):
        return self.prices(x).min(dim=-1)
---
01.1 my_self_attention
raise KeyboardInterrupt
---
01.1 my_self_attention
def my_self_attention(x):
    class Odd(BaseException):
        pass
    raise Odd("no Exception")
"""


def code_cells(path):
    "The code cells of a notebook: pairs of an id and the source."
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        runs = "%pip" not in source and not source.startswith("#| eval: false")
        if cell["cell_type"] == "code" and runs:
            yield cell["id"], source


def plain(value, depth=0):
    "A value as JSON if it is made of numbers, texts and tensors; else None."
    if isinstance(value, np.ndarray):
        value = torch.as_tensor(value)
    if isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "type": str(value.dtype), "is": value.tolist()}
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)) and depth < 3:
        return [plain(part, depth + 1) for part in value]
    if isinstance(value, dict) and depth < 3:
        return {str(key): plain(part, depth + 1) for key, part in value.items()}
    return None


def define(source, names):
    "Of a cell that does not run: its imports and its functions."
    tree = in_page.without_absent(source)
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef)
    shown = [node for node in tree.body if "solution(" in ast.unparse(node)]
    tree.body = [node for node in tree.body if isinstance(node, kinds) or node in shown]
    with contextlib.suppress(NameError):  # of what a function begins with, as a decorator
        exec(compile(tree, "definitions", "exec"), names)


def run(path):
    "What the cells of a notebook print, and which numbers they leave behind."
    names, cells = {"__name__": "__main__"}, {}
    listed = json.loads((ROOT / "docs/_pyodide/not_run.json").read_text(encoding="utf-8"))
    skipped = listed.get(path.relative_to(ROOT / "nbs").with_suffix("").as_posix(), {})
    for place, (key, source) in enumerate(code_cells(path)):
        torch.manual_seed(place)  # whatever a cell before it has drawn
        printed, before = io.StringIO(), dict(names)
        linecache.cache[key] = (len(source), None, source.splitlines(True), key)
        if key in skipped:
            define(source, names)
            continue
        with contextlib.redirect_stdout(printed):
            try:
                exec(compile(in_page.without_absent(source), key, "exec"), names)
            except BaseException as error:
                cells[key] = {"raised": f"{type(error).__name__}: {error}"}
                continue
        new = {k: v for k, v in names.items() if k not in before or before[k] is not v}
        values = {k: plain(v) for k, v in new.items() if k in in_page.bound(source)[1]}
        cells[key] = {"printed": printed.getvalue(), "values": values}
    return {"cells": cells}


def odd_answers(numbers):
    "What is said to answers that no page foresaw: values, functions and errors."
    said = {}
    for place, number in enumerate(numbers):
        answers = [("value", r) for r in RESULTS[::3]]
        answers += [("function", lambda *_, r=r: r) for r in RESULTS[::4]]
        answers += [*ERRORS.items(), ("right", RIGHT.get(number))]
        for i, (kind, answer) in some(enumerate(answers), ODD_ONES, place % ODD_ONES):
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                check(number, answer)
            said[f"{number} {kind} {i}"] = printed.getvalue()
    return said


def typed_answers(folder):
    "The answers of `TYPED`: key -> page, exercise, what it hands to `check`, lines."
    answers = {}
    for i, typed in enumerate(TYPED.strip().split("\n---\n")):
        head, _, source = typed.partition("\n")
        number, _, expression = head.partition(" ")
        *_, path = sorted((folder / "pages").glob(f"{number[:2]}_*.json"))
        answers[f"{number} typed {i}"] = (path.stem, number, expression, source)
    return answers


def judge_typed(folder):
    "What the page says to each answer of `TYPED`."
    verdicts = {}
    for key, (page, number, expression, source) in typed_answers(folder).items():
        cells = json.loads((folder / "pages" / f"{page}.json").read_text(encoding="utf-8"))
        verdicts[key] = in_page.judge(cells, number, expression, source)
    return verdicts


def main(folder, pages, *names):
    pages = {name: run(ROOT / "nbs" / f"{name}.ipynb") for name in pages.split()}
    others = {"paper": "paper", "00_first_hour": "first_hour", "milestone_llama": "lesson_12"}
    modules = {others.get(name, f"lesson_{name[:2]}") for name in names}
    for module in modules:
        import_module(f"former_nb.exercises.{module}")
    numbers = sorted(n for n in EXERCISES if content.module_of(n) in modules)
    small = folder in torch.__file__  # with PyTorch, tests/test_exercises.py proves them all
    faults = {number: [*prove.faults_of(number)] for number in some(numbers, 4) if small}
    results = {"torch": torch.__file__, "pages": pages, "faults": faults}
    results |= {"odd": odd_answers(numbers)}
    json.dump(results | {"typed": judge_typed(Path(folder))}, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
