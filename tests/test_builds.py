"""The judges of the builds: a right answer passes, and each likely mistake gets its name."""

import json
import os
import re
import signal
import statistics
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from refusals import refuses

from former_nb.base.exercises import MistakeError
from former_nb.base.source import load_file
from former_nb.builds import build_a, build_c
from former_nb.builds.process import MEMORY, check_file, run_file, run_tests
from former_nb.checks.exercises import check, find_exercise

ROOT = Path(__file__).resolve().parents[1]


def written_file(page, name):
    "What a page's cell `%%writefile NAME` writes."
    path = ROOT / "nbs" / f"{page}.ipynb"
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        head, _, text = "".join(cell["source"]).partition("\n")
        if head.startswith("%%writefile") and head.endswith(name):
            return text + "\n"
    raise AssertionError(f"{page} writes no {name}")


# ---------------------------------------------------------------- build A: the file

ENCODER = written_file("solutions/build_a", "encoder.py")
A = "former_nb.builds.build_a"


@pytest.fixture
def save(tmp_path):
    def save(text):
        path = tmp_path / "encoder.py"
        path.write_text(text, encoding="utf-8")
        return path

    return save


def judged(path):
    "What the twelve tests say, without a process of its own."
    with torch.random.fork_rng(devices=[]):
        return list(run_tests(load_file(path), build_a.TESTS, path))


def test_the_solution_has_some_sixty_lines_and_passes(save, capsys):
    lines = [line for line in ENCODER.splitlines() if line.strip()]
    assert 50 <= len(lines) <= 70
    path = save(ENCODER)
    assert judged(path) == [None] * 12
    for answer in (path, str(path)):
        assert check("A", answer)
    said = capsys.readouterr().out
    assert said.count("passes") == 24 and said.count("All 12 tests pass.\nA is right.") == 2


def test_the_skeleton_of_the_page_says_what_is_to_be_written_first(save):
    results = judged(save(written_file("build_a", "encoder.py")))
    assert "returned nothing" in results[0] and results[1] == "waits for test 1"
    assert None not in results


OTHER_WAYS = {  # that are as right
    "the fused kernel": (
        "    return attention_weights(q, k, mask, is_causal) @ v",
        "    allowed = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool)\n"
        "    if is_causal:\n"
        "        allowed = allowed.tril(k.shape[-2] - q.shape[-2])\n"
        "    if mask is not None:\n"
        "        allowed = allowed & mask\n"
        "    return nn.functional.scaled_dot_product_attention(q, k, v, allowed)",
    ),
    "einsum": (
        "q @ k.mT / q.shape[-1] ** 0.5",
        'torch.einsum("bhtd, bhsd -> bhts", q, k) / q.shape[-1] ** 0.5',
    ),
    "an embedding of positions": (
        "self.positions[: tokens.shape[1]]",
        "self.positions(torch.arange(tokens.shape[1]))",
        "nn.Parameter(torch.randn(max_len, d_model) * 0.02)",
        "nn.Embedding(max_len, d_model)",
    ),
    "view in place of unflatten": (
        "x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)",
        "x.view(*x.shape[:2], self.n_heads, -1).permute(0, 2, 1, 3)",
    ),
    "a part under two names": (
        "self.norm_ff = nn.LayerNorm(d_model)",
        "self.norm_ff = self.second_norm = nn.LayerNorm(d_model)",
        "self.w_q = nn.Linear(d_model, d_model)",
        "self.w_q = self.first = nn.Linear(d_model, d_model)",
    ),
    "dropout as a part of the network": (
        "nn.Linear(d_ff, d_model))",
        "nn.Linear(d_ff, d_model), nn.Dropout(dropout))",
        "x + self.dropout(self.ff(self.norm_ff(x)))",
        "x + self.ff(self.norm_ff(x))",
    ),
    "dropout as a function": (
        "self.dropout(self.ff(self.norm_ff(x)))",
        "nn.functional.dropout(self.ff(self.norm_ff(x)), self.dropout.p, self.training)",
    ),
    "positions that begin at 0": (
        "torch.randn(max_len, d_model) * 0.02",
        "torch.zeros(max_len, d_model)",
    ),
    "options by name": ("block(x, mask, is_causal)", "block(x, mask=mask, is_causal=is_causal)"),
    "one more option": (
        "mask=None, is_causal=False):  # (B, h",
        "mask=None, is_causal=False, w=0):  # (B, h",
    ),
    "it prints": ("import torch\n", "import torch\n\nprint('hello')\nprint(flush=True)\n"),
    "it asks for another type": ("import torch\n", "import torch\n\ntorch.manual_seed(7)\n"),
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_other_ways_are_as_right(save, way):
    text = ENCODER
    changes = OTHER_WAYS[way]
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in text
        text = text.replace(old, new, 1)
    assert judged(save(text)) == [None] * 12


WEIGHTS = "    return scores.softmax(dim=-1).masked_fill(empty, 0.0)"
FILL = 'scores.masked_fill(~allowed, float("-inf")).masked_fill(empty, 0.0)'
SCALE = "q @ k.mT / q.shape[-1] ** 0.5"
SPLIT = "x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)"
MERGE = "self.w_o(y.transpose(1, 2).flatten(2))"
HEADS = "y = attention(q, k, v, mask, is_causal)"
FIRST = "x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal))"
SECOND = "return x + self.dropout(self.ff(self.norm_ff(x)))"
FF = "nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))"
BLOCKS = "[Block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]"
RUN = "            x = block(x, mask, is_causal)\n        return self.norm(x)"
EMBED = "self.tokens(tokens) + self.positions[: tokens.shape[1]]"
REAL = "(tokens != 0)[:, None, None]"
LINEARS = "self.w_{0} = nn.Linear(d_model, d_model)"

MISTAKES = [  # what is replaced, by what, the test that finds it, and words of its sentence
    # attention_weights
    (SCALE, "q @ k.mT", 1, "not divided by √d_k"),
    (SCALE, "q @ k.mT / q.shape[-1]", 1, "you divide by d_k; it's the root"),
    (SCALE, "q @ k.mT / (q.shape[-1] / 2)", 1, "you divide by d_k / 2; it's the root"),
    (SCALE, "q @ k.mT / (q.shape[1] * q.shape[-1]) ** 0.5", 1, "you divide by √d_model"),
    (SCALE, "q @ k.mT * q.shape[-1] ** 0.5", 1, "you multiply by √d_k"),
    (SCALE, "q @ k.mT / k.shape[-2] ** 0.5", 1, "the root of the number of keys"),
    (SCALE, "q @ k.mT / q.shape[-2] ** 0.5", 1, "the root of the number of queries"),
    (SCALE, "k @ q.mT / q.shape[-1] ** 0.5", 1, "queries and keys are exchanged"),
    (SCALE, "q @ k / q.shape[-1] ** 0.5", 1, "in line 6 of encoder.py, `scores = q @ k /"),
    ("k.mT", "k.T", 1, "k.T turns all four axes round; exchange the last two alone"),
    ("k.mT", "k.T", 1, "in line 6 of encoder.py, `scores = q @ k.T /"),
    ("k.mT", "k.t()", 1, "exchange the last two alone"),
    (WEIGHTS, WEIGHTS.replace("dim=-1", "dim=-2"), 1, "the softmax runs over the queries"),
    (WEIGHTS, WEIGHTS.replace("dim=-1", "dim=1"), 1, "the softmax runs over the heads"),
    (WEIGHTS, WEIGHTS.replace("dim=-1", "dim=0"), 1, "the softmax runs over the batch"),
    (WEIGHTS, WEIGHTS.replace(".softmax(dim=-1)", ""), 1, "the softmax is still to come"),
    (WEIGHTS, WEIGHTS.replace(".softmax", ".log_softmax"), 1, "softmax, not log_softmax"),
    (WEIGHTS, "    scores.softmax(dim=-1)", 1, "your function returned nothing"),
    (SCALE, "q.div_(2) @ k.mT", 1, "changes its argument number 1 in place"),
    ("    if is_causal:\n        allowed", "    if True:\n        allowed", 1, "future is hidden"),
    ("(q, k, mask=None", "(q, k, d_k, mask=None", 1, "expected the arguments (q, k, mask=None"),
    ("allowed & mask", "allowed & ~mask", 2, "the mask is inverted"),
    ("allowed & mask", "allowed & mask[:, None]", 2, "your mask gets one axis too many"),
    ("allowed & mask", "allowed & mask[:, None, None]", 2, "your mask gets one axis too many"),
    ("allowed = allowed & mask", "pass", 2, "the mask is not used"),
    ("allowed = allowed & mask", "scores = scores + mask", 2, "you add the mask to the scores"),
    ("allowed = allowed & mask", "scores = scores * mask", 2, "e^0 is 1"),
    (FILL, "scores.masked_fill(~allowed, 1e-9)", 2, "a hidden score becomes 0"),
    (
        f"{FILL}\n{WEIGHTS}",
        "scores.softmax(dim=-1)\n    return scores * allowed",
        2,
        "no longer sums",
    ),
    ("if is_causal:", "if False:", 3, "is_causal is not used"),
    (".tril(S - T)", ".tril()", 3, "aligned at the top left"),
    (".tril(S - T)", ".tril(S - T - 1)", 3, "the diagonal is missing"),
    (".tril(S - T)", ".tril(S - T + 1)", 3, "one key too many"),
    (".tril(S - T)", ".triu(S - T)", 3, "tril, not triu"),
    (".tril(S - T)", ".triu(S - T + 1)", 3, "the mask is inverted"),
    (".tril(S - T)", ".triu(1)", 3, "inverted, and aligned at the top left"),
    ("if mask is not None:", "if mask is not None and not is_causal:", 3, "your mask is forgotten"),
    ("    if is_causal:", "    if is_causal and mask is None:", 3, "beside a mask is_causal"),
    (
        "allowed & mask",
        "(allowed & mask if not is_causal else allowed | mask)",
        3,
        "& instead of |",
    ),
    (
        f"{FILL}\n{WEIGHTS}",
        'scores.masked_fill(~allowed, float("-inf"))\n    return scores.softmax(-1)',
        4,
        "gets NaN",
    ),
    (
        f"{FILL}\n{WEIGHTS}",
        "scores.masked_fill(~allowed, -1e9)\n    return scores.softmax(-1)",
        4,
        "gets even weights",
    ),
    (
        f"{FILL}\n{WEIGHTS}",
        "scores + allowed.log()\n    return scores.softmax(-1).nan_to_num(0.0)",
        4,
        "the gradient is NaN",
    ),
    (SCALE, "q.detach() @ k.detach().mT / q.shape[-1] ** 0.5", 4, "no gradient passes"),
    # attention
    ("(q, k, mask, is_causal) @ v", "(q, k, mask, is_causal)", 5, "those are the weights"),
    ("(q, k, mask, is_causal) @ v", "(q, k, mask, is_causal) @ k", 5, "take the values"),
    (
        "(q, k, mask, is_causal) @ v",
        "(q, k, is_causal=is_causal) @ v",
        5,
        "the mask is not passed on",
    ),
    ("(q, k, mask, is_causal) @ v", "(q, k, mask) @ v", 5, "is_causal is not passed on"),
    (
        "return attention_weights(q, k, mask, is_causal) @ v",
        "return nn.functional.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal)",
        5,
        "aligned at the top left",
    ),
    # MultiHeadAttention
    (
        SPLIT,
        "x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)",
        6,
        "heads are cut without a transpose: reshape",
    ),
    (
        MERGE,
        "self.w_o(y.reshape(y.shape[0], y.shape[2], -1))",
        6,
        "heads are joined without a transpose",
    ),
    (SPLIT, "x.unflatten(-1, (-1, self.n_heads)).permute(0, 3, 1, 2)", 6, "every h-th feature"),
    (MERGE, "y.transpose(1, 2).flatten(2)", 6, "w_o is missing"),
    (
        HEADS,
        "y = attention(q / self.n_heads ** 0.5, k, v, mask, is_causal)",
        6,
        "you divide by √d_model",
    ),
    (HEADS, "y = attention(k, q, v, mask, is_causal)", 6, "queries and keys are exchanged"),
    (HEADS, "y = attention(q, v, k, mask, is_causal)", 6, "keys and values are exchanged"),
    (SPLIT, SPLIT.replace("-1))", "x.shape[-1] / self.n_heads))"), 6, "d_model // n_heads"),
    (
        SPLIT,
        "x.view(*x.shape[:2], self.n_heads, x.shape[-1] / self.n_heads).transpose(1, 2)",
        6,
        "a size is a whole number, and / gives a float; write d_model // n_heads, in line",
    ),
    (LINEARS.format("k"), "self.w_k = nn.Linear(d_model, d_model / 1)", 6, "a whole number"),
    (
        LINEARS.format("k"),
        "self.w_k = self.w_q",
        6,
        "w_q and w_k have the same weights; each needs its own (line",
    ),
    ("self.split(self.w_k(x))", "self.split(self.w_q(x))", 6, "the keys are made by w_q"),
    ("self.split(self.w_v(x))", "self.split(self.w_k(x))", 6, "the values are made by w_k"),
    ("self.split(self.w_v(x))", "self.split(x)", 6, "project it by w_v"),
    (MERGE, "x + " + MERGE, 6, "that is the block's part"),
    (SPLIT, "x[:, None]", 6, "the heads are not split"),
    (
        LINEARS.format("q"),
        "self.w_q = nn.Linear(d_model, d_model, bias=False)",
        6,
        "w_q has no bias",
    ),
    (
        LINEARS.format("o"),
        "self.w_out = nn.Linear(d_model, d_model)",
        6,
        "no part called w_o; it has",
    ),
    (HEADS, "y = attention(q, k, v, is_causal=is_causal)", 7, "the mask is not passed on"),
    (HEADS, "y = attention(q, k, v, mask)", 7, "is_causal is not passed on"),
    # Block
    (
        f"{FIRST}\n        {SECOND}",
        "x = self.norm_attention(x + self.attention(x, mask, is_causal))\n"
        "        return self.norm_ff(x + self.ff(x))",
        8,
        "the norms come after the sums",
    ),
    (
        f"{FIRST}\n        {SECOND}",
        "y = x + self.attention(self.norm_attention(x), mask, is_causal)\n"
        "        return x + self.ff(self.norm_ff(y))",
        8,
        "the second sum starts from x",
    ),
    (
        f"{FIRST}\n        {SECOND}",
        "y = x + self.attention(self.norm_attention(x), mask, is_causal)\n"
        "        return y + self.ff(self.norm_ff(x))",
        8,
        "both parts read x",
    ),
    (
        f"{FIRST}\n        {SECOND}",
        "x = self.attention(self.norm_attention(x), mask, is_causal)\n"
        "        return self.ff(self.norm_ff(x))",
        8,
        "the sums are missing",
    ),
    (
        f"{FIRST}\n        {SECOND}",
        "x = self.norm_attention(x)\n"
        "        x = x + self.attention(x, mask, is_causal)\n"
        "        x = self.norm_ff(x)\n"
        "        return x + self.ff(x)",
        8,
        "the stream itself is normed; norm only what goes into the part",
    ),
    (
        SECOND,
        "x = self.norm_ff(x)\n        return x + self.dropout(self.ff(x))",
        8,
        "the stream itself is normed",
    ),
    (
        FIRST,
        "x = self.norm_attention(x)\n"
        "        x = x + self.dropout(self.attention(x, mask, is_causal))",
        8,
        "the stream itself is normed",
    ),
    (
        "self.norm_ff = nn.LayerNorm(d_model)",
        "self.norm_ff = self.norm_attention",
        8,
        "norm_attention and norm_ff have the same weights; each needs its own",
    ),
    (SECOND, "return self.dropout(self.ff(self.norm_ff(x)))", 8, "network gives is not added"),
    (FIRST, FIRST.replace("x = x + ", "x = "), 8, "attention gives is not added"),
    (SECOND, "return x + self.dropout(self.ff(x))", 8, "the network lacks its norm"),
    (SECOND, SECOND.replace("norm_ff", "norm_attention"), 8, "both parts read the same norm"),
    (SECOND, "return x", 8, "the network is still to come"),
    (FF, FF.replace(" nn.GELU(),", ""), 8, "the activation is missing"),
    (FF, FF.replace("GELU", "ReLU"), 8, "the activation is ReLU"),
    (FF, FF.replace("nn.GELU()", "nn.GELU('tanh')"), 8, "GELU by tanh"),
    (FF, FF.replace("d_model, d_ff)", "d_model, d_ff, bias=False)"), 8, "has no bias"),
    (FF, "nn.Linear(d_model, d_model)", 8, "Block.ff: expected"),
    (FIRST, FIRST.replace(", mask, is_causal", ""), 8, "the mask is not passed on"),
    ("nn.Dropout(dropout)", "nn.Dropout(0.1)", 8, "with dropout=0.0 something is dropped"),
    (
        SECOND,
        "return x + nn.functional.dropout(self.ff(self.norm_ff(x)), self.dropout.p)",
        9,
        "you drop while evaluating",
    ),
    ("nn.Dropout(dropout)", "nn.Identity()", 9, "drops nothing in training"),
    (
        SECOND,
        "return self.dropout(x + self.ff(self.norm_ff(x)))",
        9,
        "you drop numbers of the stream",
    ),
    (SECOND, "return x + self.ff(self.norm_ff(x))", 9, "what the network gives is not dropped"),
    (
        FIRST,
        "x = x + self.attention(self.norm_attention(x), mask, is_causal)",
        9,
        "what attention gives is not dropped",
    ),
    (FIRST, f"x = self.dropout(x)\n        {FIRST}", 9, "you drop numbers of the stream"),
    (
        SECOND,
        "return self.dropout(x) + self.ff(self.norm_ff(x))",
        9,
        "with dropout=1.0 a block gives x in training",
    ),
    (FF, FF.replace("nn.GELU()", "nn.GELU(), nn.Dropout(dropout)"), 9, "inside the network, too"),
    (FIRST, FIRST.replace("(x)", "(self.dropout(x))"), 9, "you drop inside attention, too"),
    (
        SECOND,
        "return x + self.dropout(self.dropout(self.ff(self.norm_ff(x))))",
        9,
        "what the network gives is dropped twice",
    ),
    (
        SECOND,
        "y = self.ff(self.norm_ff(x))\n"
        "        p = self.dropout.p if self.training else 0.0\n"
        "        return x + y * (torch.rand_like(y) >= p)",
        9,
        "divide what isn't dropped by 1 - dropout",
    ),
    # Stack
    ("        return self.norm(x)", "        return x", 10, "the last norm is missing"),
    (
        RUN,
        "            x = self.norm(block(x, mask, is_causal))\n        return x",
        10,
        "a norm after each block",
    ),
    (
        "        for block in self.blocks:",
        "        for block in reversed(self.blocks):",
        10,
        "reverse order",
    ),
    ("nn.ModuleList(blocks)", "blocks", 10, "put them in an nn.ModuleList"),
    (BLOCKS, "[Block(d_model, n_heads, d_ff, dropout)] * n_layers", 10, "one and the same"),
    (BLOCKS, BLOCKS.replace("range(n_layers)", "range(2)"), 10, "expected n_layers = 3 blocks"),
    (
        RUN,
        "            y = block(x, mask, is_causal)\n        return self.norm(y)",
        10,
        "only the last block counts",
    ),
    (
        RUN,
        "            x = x + block(x, mask, is_causal)\n        return self.norm(x)",
        10,
        "differ",
    ),
    ("block(x, mask, is_causal)", "block(x, is_causal=is_causal)", 10, "the mask is not passed on"),
    (
        "block(x, mask, is_causal)",
        "block(x, mask if block is self.blocks[0] else None, is_causal)",
        10,
        "only the first block gets the mask",
    ),
    (BLOCKS, BLOCKS.replace(", dropout)", ")"), 10, "hand dropout on to each Block"),
    (
        BLOCKS,
        "[Block(d_model, n_heads, d_ff, dropout if i == 0 else 0.0) for i in range(n_layers)]",
        10,
        "with dropout=1.0 a stack gives norm(x) in training",
    ),
    (
        "        self.blocks = nn.ModuleList(blocks)",
        "        blocks[1].norm_ff = blocks[0].norm_ff\n"
        "        self.blocks = nn.ModuleList(blocks)",
        10,
        "blocks[0] and blocks[1] have the same weights",
    ),
    (
        "        self.norm = nn.LayerNorm(d_model)",
        "        self.norm = blocks[-1].norm_ff",
        10,
        "blocks[2] and norm have the same weights",
    ),
    # Encoder
    (EMBED, "self.tokens(tokens) + self.positions", 11, "take the first T rows"),
    (EMBED, "self.positions + self.tokens(tokens)", 11, "take the first T rows"),
    (REAL, "tokens != 0", 11, "your mask is (B, T); it needs (B, 1, 1, T), in line"),
    (REAL, "(tokens != 0)[:, None]", 11, "your mask is (B, 1, T); it needs (B, 1, 1, T)"),
    (
        "Stack(n_layers, d_model, n_heads, d_ff, dropout)",
        "Stack(n_layers, d_model, n_heads, d_ff)",
        11,
        "hand dropout on to the Stack",
    ),
    (EMBED, f"nn.functional.dropout({EMBED}, 0.9, self.training)", 11, "and drop nothing else"),
    (EMBED, "self.tokens(tokens)", 11, "the positions are not added"),
    (EMBED, "self.tokens(tokens) + self.positions[1 : tokens.shape[1] + 1]", 11, "start at 1"),
    (EMBED, "self.tokens(tokens) + self.positions[0]", 11, "the position of the first"),
    (EMBED, EMBED.replace(" + ", " * "), 11, "the positions are multiplied"),
    (EMBED, "self.tokens(tokens) * 24**0.5 + self.positions[: tokens.shape[1]]", 11, "by √d_model"),
    (
        "nn.Parameter(torch.randn(max_len, d_model) * 0.02)",
        "torch.randn(max_len, d_model)",
        11,
        "plain tensor",
    ),
    (REAL, "None", 11, "the pads are attended to"),
    (REAL, REAL.replace("!=", "=="), 11, "the mask of the pads is inverted"),
    (REAL, "(tokens != 0)[:, None, :, None]", 11, "you hide the pads as queries"),
    ("self.stack(x, real, is_causal)", "self.stack(x, real)", 11, "is_causal is not passed on"),
    ("self.stack(x, real, is_causal)", "x", 11, "the stack is still to come"),
    (
        "self.tokens = nn.Embedding",
        "self.unused = nn.Linear(2, 2)\n        self.tokens = nn.Embedding",
        12,
        "unused.weight gets no gradient",
    ),
    (
        "self.stack(x, real, is_causal)",
        "self.stack(x, real, is_causal).detach()",
        12,
        "nothing learns",
    ),
    (
        "self.tokens(tokens) + self",
        "self.tokens(tokens).detach() + self",
        12,
        "tokens.weight gets no",
    ),
]


@pytest.mark.filterwarnings("ignore:The use of `x.T`")
@pytest.mark.parametrize("old, new, number, words", MISTAKES)
def test_a_mistake_gets_its_name_in_the_test_that_is_about_it(save, old, new, number, words):
    assert ENCODER.count(old) >= 1, old
    results = judged(save(ENCODER.replace(old, new, 1)))
    assert words in (results[number - 1] or ""), results
    assert results[: number - 1] == [None] * (number - 1), results


def test_a_hundred_mistakes_are_planted_in_every_test():
    assert len(MISTAKES) >= 100
    assert {number for _, _, number, _ in MISTAKES} == set(range(1, 13))


def test_the_right_encoder_is_that_of_the_solutions_page():
    assert build_a.RIGHT_FILE.read_text(encoding="utf-8").endswith(f'"""\n\n{ENCODER}')


EDITS = [
    (sentence, edits) for table in build_a.MISTAKES.values() for sentence, edits in table.items()
]


@pytest.mark.parametrize("sentence, edits", EDITS, ids=[sentence for sentence, _ in EDITS])
def test_each_edit_of_the_right_encoder_gets_its_own_name(save, sentence, edits):
    text = ENCODER
    for old, new in edits:
        assert text.count(old) == 1
        text = text.replace(old, new)
    problems = [result for result in judged(save(text)) if result]
    assert sentence in problems[0], problems


@pytest.mark.parametrize("name", build_a.SIGNATURES)
def test_a_name_that_is_missing_is_named(save, name):
    text = re.sub(rf"^(def|class) {name}\b", rf"\1 other_{name}", ENCODER, count=1, flags=re.M)
    results = judged(save(text))
    assert f"your file defines no {name}" in "; ".join(filter(None, results)) or "NameError" in str(
        results
    )


BROKEN = {
    "": "your file defines no attention_weights",
    "def attention(q, k v): ...": "Python cannot read line 1 of encoder.py, `def attention",
    "import torch\n  x = 1": "Python cannot read line 2 of encoder.py, `x = 1`: unexpected indent",
    "return 3": "'return' outside function",
    "x = 1 / 0": "raised ZeroDivisionError: division by zero, in line 1 of encoder.py, `x = 1 / 0`",
    "import torhc": "raised ModuleNotFoundError: No module named 'torhc', in line 1",
    "import sys\nsys.exit(0)": "raised SystemExit: 0, in line 2",
    "raise KeyboardInterrupt": "raised KeyboardInterrupt, in line 1",
    "import os\nos._exit(0)": "your file ended Python here, with code 0",
    "def f():\n    f()\nf()": "raised RecursionError",
    "input('?')": "raised EOFError",
    "import former_nb.attention.dot_product": "line 1 of encoder.py imports former_nb",
    "def f():\n    from former_nb import load_model": "line 2 of encoder.py imports former_nb",
    "while True:\n    print('x')": "this does not end: after 2 seconds Python was in line",
}


@pytest.mark.parametrize("text", BROKEN)
def test_a_file_that_breaks_gives_one_sentence(save, text):
    path = save(text)
    try:
        problems = run_file(path, A, limit=2)
    except MistakeError as error:
        problems = [str(error)]
    assert BROKEN[text] in problems[0] and "\n" not in problems[0], problems


def test_a_loop_without_end_in_one_test_is_stopped_and_what_came_before_is_kept(save):
    old = "        for block in self.blocks:\n"
    new = "        while True:\n            pass\n"
    results = run_file(save(ENCODER.replace(old, new + old)), A, limit=3)
    assert results[:9] == [None] * 9 and results[10:] == ["not run"] * 2
    assert "this does not end: after 3 seconds Python was in line" in results[9]


def test_a_file_that_speaks_and_ends_python_harms_nobody(save, capfd):
    text = ENCODER.replace("        return self.norm(x)", "        import os; os._exit(5)")
    results = run_file(save(f"print('loud')\n{text}"), A)
    assert results[9] == "your file ended Python here, with code 5" and results[8] is None
    said = capfd.readouterr()
    assert said.out == said.err == ""


MODULES = "import sys\nmodules = vars(sys)['modules']\n"  # past the rule about imports
JUDGE = MODULES + "judge = modules['former_nb.builds.build_a']\n"
FOR_PIPES = "import json, os\nfor pipe in range(3, 20):\n    try:\n        os.write(pipe, {})\n"
FOR_PIPES += "    except OSError:\n        pass\n"
FORGED = FOR_PIPES.format(
    "''.join(f'[\"end\", null]\\n[\"x\", {os.getpid()}, {i}, null]\\n' for i in range(40)).encode()"
)
CHEATS = {  # what a file does that has not one part, and words of what is said about its first test
    "other tests": (
        JUDGE + "judge.TESTS[:] = [type(t)(t.title, lambda m: None) for t in judge.TESTS]",
        "defines no attention_weights",
    ),
    "another judge in each test": (
        JUDGE + "for t in judge.TESTS:\n    object.__setattr__(t, 'judge', lambda m: None)",
        "defines no attention_weights",
    ),
    "another function in the judge": (
        JUDGE + "judge.diagnose = lambda *a, **k: None",
        "your file replaces former_nb.builds.build_a.diagnose",
    ),
    "another line in the judge": (
        JUDGE + "judge.judge_weights.__code__ = (lambda m: None).__code__",
        "your file replaces former_nb.builds.build_a.judge_weights",
    ),
    "another PyTorch": (
        "import torch\ntorch.equal = lambda a, b: True",
        "your file replaces torch.equal",
    ),
    "answers of its own": (FORGED, "defines no attention_weights"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_file_claims_no_test_that_it_has_not_passed(save, cheat):
    text, words = CHEATS[cheat]
    try:
        results = run_file(save(text + "\n"), A)
    except MistakeError as error:
        results = [str(error)]
    assert None not in results and words in results[0], results


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system copies no process")
@pytest.mark.parametrize(
    "text, words",
    [
        ("import os\nos.fork()\n", "defines no attention_weights"),
        ("import os\nif os.fork():\n    os._exit(0)\n", "ended Python here, with code 0"),
    ],
)
def test_a_copy_of_the_process_answers_nothing(save, text, words):
    try:
        results = run_file(save(text), A)
    except MistakeError as error:
        results = [str(error)]
    assert None not in results and words in results[0], results


@pytest.mark.parametrize(
    "text",
    [
        "import faulthandler\nfaulthandler.cancel_dump_traceback_later()\nwhile True:\n    pass\n",
        "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)\n",
    ],
)
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="this system stops no process")
def test_the_limit_holds_whatever_the_file_does_to_its_own_alarm(save, text):
    begin = time.monotonic()
    with pytest.raises(MistakeError, match="this does not end: .*after 2 seconds"):
        run_file(save(text), A, limit=2)
    assert time.monotonic() - begin < 60  # it would be 400 or more, or for ever


def test_what_a_file_leaves_running_does_not_hold_up_the_verdict(save):
    text = (
        "import atexit, sys, subprocess, threading, time\n"
        "threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "atexit.register(time.sleep, 600)\n"
        "other = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "open(__file__ + '.pid', 'w').write(str(other.pid))\n"
    )
    begin = time.monotonic()
    path = save(text + ENCODER)
    assert run_file(path, A) == [None] * 12
    assert time.monotonic() - begin < 300
    if hasattr(os, "killpg"):
        other = Path(f"{path}.pid").read_text()
        stat = Path(f"/proc/{other}/stat")  # one that has ended may wait for its parent
        if Path("/proc/self").exists():
            assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_a_file_that_writes_without_end_costs_no_memory(save):
    text = "import sys\nfor _ in range(64):\n    sys.stderr.write('x' * 2**20)\n"
    tracemalloc.start()
    try:
        assert run_file(save(text + ENCODER), A) == [None] * 12
        assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="only here is memory bounded for certain")
def test_memory_is_bounded(save):
    with pytest.raises(MistakeError, match="raised MemoryError, in line 1"):
        run_file(save(f"x = bytearray({MEMORY})\n"), A)


def test_what_was_raised_can_be_printed_and_ends(save):
    text = r"raise ValueError('\x1b]0;title\x07\ud800' + 'x' * 100_000)"
    with pytest.raises(MistakeError) as error:
        run_file(save(text), A)
    said = str(error.value)
    assert r"raised ValueError: \x1b]0;title\x07\ud800xxx" in said
    assert said.isprintable() and len(said) < 1000


def test_a_mark_at_the_beginning_of_a_file_is_no_mistake(tmp_path):
    path = tmp_path / "encoder.py"
    path.write_text(ENCODER, encoding="utf-8-sig")
    assert run_file(path, A) == [None] * 12


@pytest.mark.parametrize(
    "line, words",
    [
        ("x = importlib.import_module('former_nb.attention')", "uses import_module"),
        ("from importlib import import_module as f", "uses import_module"),
        ("x = __import__('former_nb')", "uses __import__"),
        ("exec('import former_nb')", "uses exec"),
        ("x = eval('1')", "uses eval"),
        ("x = sys.modules", "uses sys.modules"),
        ("from sys import modules", "uses sys.modules"),
    ],
)
def test_no_door_leads_past_the_rule_about_imports(save, line, words):
    with pytest.raises(MistakeError, match=f"line 2 of encoder.py {words}; write plain"):
        check_file(save(f"import importlib, sys\n{line}\n"))


def test_names_that_only_look_like_such_doors_are_none(save):
    lines = "model.eval()\nfor part in model.modules(): part.exec(1)\nfrom . import sys\n"
    check_file(save(lines))


@pytest.mark.parametrize(
    "answer, words",
    [
        ("none.py", "there is no file none.py here"),
        (5, "expected the name of your file, such as 'encoder.py', got int"),
        (None, "got NoneType"),
        (judged, "got function"),
        ("\0", "embedded null"),
        (Path(__file__).parent, "cannot be read"),
    ],
)
def test_what_is_no_file_is_said_in_a_sentence(answer, words, capsys):
    assert not check("A", answer)
    said = capsys.readouterr().out
    assert said.startswith("A, not yet: ") and words in said


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "encoder.py"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(MistakeError, match="no text in UTF-8"):
        run_file(path, A)


def test_a_judge_says_which_test_a_reader_has_to_mend_first(save, capsys):
    assert not check("A", save(ENCODER.replace(".tril(S - T)", ".tril()")))
    said = capsys.readouterr().out
    assert re.search(r"^ 3 attention_weights, is_causal +is_causal is aligned", said, re.M)
    assert re.search(r"^ 5 attention +waits for test 3$", said, re.M)
    assert "A, not yet: 4 of 12 tests pass." in said


# ---------------------------------------------------------------- build C: the report


def good_report():
    "A report that is right; 90 rows to learn from, 60 to choose by and 120 to test."
    texts = [f"text number {i}" for i in range(270)]
    rows = [(text, "ab"[i % 2]) for i, text in enumerate(texts)]
    test = [0.90, 0.93, 0.91]
    mean = statistics.fmean(test)
    spread = statistics.stdev(test)
    return {
        "parts": {"train": rows[:90], "valid": rows[90:150], "test": rows[150:]},
        "seeds": [0, 1, 2],
        "valid": {"one layer": [0.80, 0.95, 0.81], "two layers": [0.91, 0.92, 0.94]},
        "chosen": "two layers",
        "test": {"two layers": test},
        "baseline": {"name": "pairs of words", "test": 0.71},
        "mean": mean,
        "spread": spread,
        "headline": f"{mean:.3f} ± {spread:.3f} over 3 seeds; pairs of words have 0.71",
    }


def asked(report):
    return list(run_tests(report, build_c.TESTS, Path("report")))


def test_a_report_that_is_right_passes(capsys):
    assert asked(good_report()) == [None] * 8
    assert check("C", good_report())
    assert capsys.readouterr().out.endswith("All 8 tests pass.\nC is right.\n")


@pytest.mark.parametrize(
    "change",
    [
        {"test": [0.90, 0.93, 0.91]},
        {"test": {"two layers": np.array([0.90, 0.93, 0.91])}},
        {"test": {"two layers": torch.tensor([0.90, 0.93, 0.91], dtype=torch.float64)}},
        {"headline": "91.3 ± 1.5 % (three seeds), where pairs of words have 71 %"},
        {"headline": "0.91±0.02 (n = 3), baseline .71"},
        {"baseline": {"name": "pairs", "test": [0.70, 0.72]}},
        {"seeds": range(3)},
        {"task": "anything more is welcome"},
    ],
)
def test_a_report_may_be_written_in_several_ways(change):
    assert asked(good_report() | change) == [None] * 8


def test_a_loss_is_better_if_it_is_lower():
    report = good_report() | {"higher_is_better": False, "chosen": "one layer"}
    report |= {
        "test": {"one layer": [0.90, 0.93, 0.91]},
        "baseline": {"name": "n-gram", "test": 1.2},
    }
    report["headline"] = "0.913 ± 0.015 nats over 3 seeds, n-gram 1.2"
    assert asked(report) == [None] * 8
    assert "'two layers'" not in str(asked(report))
    assert "not beaten" not in str(asked(report))
    report["baseline"] = {"name": "n-gram", "test": 0.8}
    assert "the baseline has 0.8" in asked(report)[6]


@pytest.mark.parametrize(
    "headline",
    [
        "-1.2 ± 0.05 over 3 seeds; the bigrams have -2.0",
        "−1.20±0.05 (3 seeds, −2 for bigrams)",
        "-1.2 +- 5e-2, three seeds; bigrams: -2.0e0",
    ],
)
def test_scores_may_be_negative(headline):
    report = good_report() | {"headline": headline, "mean": -1.2, "spread": 0.05}
    report |= {"test": [-1.25, -1.2, -1.15], "baseline": {"name": "bigrams", "test": -2.0}}
    assert asked(report) == [None] * 8
    turned = asked(report | {"headline": headline[1:]})[7]
    assert turned.startswith("the headline begins with 1.2")


def test_a_number_of_a_headline_may_have_an_exponent_and_a_dash_joins_a_range():
    text = "0.91-0.95, 1e-4 and -2.5E+3 of GPT-2, 91 %-93 %, 3–5, .5"
    wanted = ["0.91", "0.95", "1e-4", "-2.5E+3", "2", "91", "93", "3", "5", ".5"]
    assert build_c.NUMBER.findall(text) == wanted
    assert build_c._says("1e-4", 0.00012) and not build_c._says("1e-4", 0.0002)
    assert build_c._says("1.5e3", 1540) and not build_c._says("1.5e3", 1560)


def leaky(first, second, change=lambda row: row):
    parts = good_report()["parts"]
    parts[second] = parts[second] + [change(row) for row in parts[first][:7]]
    return {"parts": parts}


def without(part, n):
    parts = good_report()["parts"]
    return {"parts": {**parts, part: parts[part][:n]}}


def listed_again(part, n):
    parts = good_report()["parts"]
    return {"parts": {**parts, part: parts[part][:n] * 3}}


TWO = [0.90, 0.93, 0.91]
CARELESS = [  # what differs, the question that finds it, words of its sentence
    ({"parts": ...}, 1, "the report has no 'parts'"),
    ({"parts": {"train": [], "test": []}}, 1, "expected the rows of train, valid, test"),
    ({"parts": {"train": 900, "valid": 60, "test": 120}}, 1, "has to be a list of rows"),
    (without("test", 30), 1, "test has 30 rows; with fewer than 100"),
    (without("valid", 10), 1, "valid has 10 rows; with fewer than 50"),
    (listed_again("test", 60), 1, "test has 180 rows, but only 60 of them are different"),
    (leaky("train", "test"), 2, "leak: 7 of 127 rows of test are in train, too"),
    (leaky("train", "valid"), 2, "7 of 67 rows of valid are in train, too"),
    (leaky("valid", "test"), 2, "of test are in valid, too"),
    (leaky("train", "test", lambda row: (row[0].upper() + " ", row[1])), 2, "leak: 7"),
    (leaky("train", "test", lambda row: (row[0], "another")), 2, "leak: 7"),
    ({"seeds": [0]}, 3, "one seed: the next may give another number"),
    ({"seeds": [0, 1]}, 3, "2 seeds: the next"),
    ({"seeds": 3}, 3, "'seeds': expected a list, got 3"),
    ({"seeds": [0, 0, 0]}, 3, "not all different"),
    ({"valid": {"two layers": [0.94]}}, 3, "expected 3 scores, one a seed, got 1"),
    ({"valid": {"two layers": 0.94}}, 3, "expected a list with a score for each seed"),
    ({"valid": {"two layers": [0.9, 0.9, float("nan")]}}, 3, "expected a finite number, got nan"),
    ({"valid": {"two layers": [0.9, 0.9, True]}}, 3, "expected a finite number, got True"),
    ({"valid": {"two layers": [0.92] * 3}}, 3, "all seeds give the same score"),
    ({"chosen": "three layers"}, 4, "expected one of ['one layer', 'two layers']"),
    ({"chosen": "one layer"}, 4, "you chose by the best single run"),
    (
        {
            "valid": {"one layer": [0.80, 0.85, 0.81], "two layers": [0.91, 0.92, 0.94]},
            "chosen": "one layer",
            "test": {"one layer": [0.95, 0.95, 0.96], "two layers": TWO},
        },
        4,
        "you chose by the test part",
    ),
    (
        {
            "valid": {"one layer": [0.80, 0.85, 0.81], "two layers": [0.91, 0.92, 0.94]},
            "chosen": "one layer",
            "test": {"one layer": TWO},
        },
        4,
        "by its mean on the validation part 'two layers' is best, 0.9233",
    ),
    ({"test": {"one layer": TWO, "two layers": TWO}}, 5, "the test part was read for 2 settings"),
    ({"test": {"one layer": TWO}}, 5, "and 'two layers' was chosen"),
    ({"test": 0.93}, 5, "not the best run alone"),
    ({"test": [0.93]}, 5, "'test' has 1 scores for 3 seeds"),
    ({"test": {"two layers": [0.91, 0.92, 0.94]}}, 5, "those of the validation part"),
    ({"mean": 0.93}, 6, "'mean' is your best run"),
    ({"mean": 0.90}, 6, "'mean' is your worst run"),
    ({"mean": 0.91}, 6, "'mean' is the median"),
    ({"mean": statistics.fmean([0.91, 0.92, 0.94])}, 6, "that of the validation scores"),
    ({"mean": 0.85}, 6, "'mean' is 0.85, and that of the test scores 0.91333"),
    ({"spread": statistics.pstdev(TWO)}, 6, "divided by n; with few runs"),
    ({"spread": statistics.variance(TWO)}, 6, "the variance"),
    ({"spread": statistics.stdev(TWO) / 3**0.5}, 6, "the standard error"),
    ({"spread": 0.03}, 6, "from the worst run to the best"),
    ({"spread": 0.015}, 6, "half the way"),
    ({"spread": None}, 6, "'spread': expected a finite number, got None"),
    ({"baseline": ...}, 7, "the report has no 'baseline'"),
    ({"baseline": 0.7}, 7, "expected a rival's 'name'"),
    ({"baseline": {"name": "", "test": 0.7}}, 7, "its 'name' says what it does"),
    ({"baseline": {"name": "pairs", "test": 0.95}}, 7, "asks for a task on which you beat it"),
    ({"baseline": {"name": "pairs", "test": 0.91}}, 7, "within the spread can be luck"),
    ({"baseline": {"name": "pairs", "test": 0.41}}, 7, "each time 0.5; take a stronger one"),
    ({"headline": "my best model"}, 8, "the headline has no number"),
    ({"headline": "0.93 with 3 seeds, 0.71"}, 8, "begins with your best run, 0.93"),
    ({"headline": "3 seeds: 0.913 ± 0.015, 0.71"}, 8, "begins with 3; begin with the mean"),
    ({"headline": "0.913 over 3 seeds, pairs 0.71"}, 8, "the spread, 0.015, has to follow"),
    ({"headline": "0.913 ± 0.015, pairs 0.71"}, 8, "over how many seeds, 3"),
    ({"headline": "0.913 ± 0.015 over 3 seeds"}, 8, "what the baseline has, 0.71"),
    ({"headline": 0.913}, 8, "expected a sentence"),
]


@pytest.mark.parametrize("change, number, words", CARELESS)
def test_what_is_wrong_with_a_report_is_named_by_the_question_about_it(change, number, words):
    results = asked(good_report() | change)
    assert words in (results[number - 1] or ""), results
    assert results[: number - 1] == [None] * (number - 1), results


@pytest.mark.parametrize("key", build_c.KEYS)
def test_a_key_that_is_missing_is_named(key):
    report = good_report()
    del report[key]
    assert f"the report has no {key!r}" in "; ".join(filter(None, asked(report)))


@pytest.mark.parametrize("answer", [0.93, "0.93", None, [0.9, 0.93], print])
def test_what_is_no_report_is_said_in_a_sentence(answer, capsys):
    assert not check("C", answer)
    assert "C, not yet: expected a dictionary with parts" in capsys.readouterr().out


def test_rows_are_the_same_if_their_inputs_are():
    assert build_c.row_key(("Ein  Haus ", 1)) == build_c.row_key("ein haus")
    assert build_c.row_key(([1, 2, 3], [4])) == build_c.row_key([1, 2, 3]) == (1, 2, 3)
    assert build_c.row_key(torch.tensor([1, 2, 3])) == (1, 2, 3)
    assert build_c.row_key([5, 6]) == (5, 6) != build_c.row_key([5, 7])
    assert build_c.row_key(["good", "film"]) != build_c.row_key(["good", "cast"])  # tokens
    assert build_c.row_key(["A good film", "+"]) == build_c.row_key(["a good film", "-"])
    assert build_c.row_key(["good", 1]) == build_c.row_key(("good", 0)) == "good"


def test_two_tokens_are_no_text_with_its_label():
    report = good_report()
    words = [[f"word{i % 9}", f"word{i}"] for i in range(270)]
    parts = {"train": words[:90], "valid": words[90:150], "test": words[150:]}
    assert asked(report | {"parts": parts}) == [None] * 8
    ends = [[f"word{i}", "good" if i < 250 else "bad"] for i in range(270)]
    parts = {"train": ends[:90], "valid": ends[90:150], "test": ends[150:]}
    assert asked(report | {"parts": parts}) == [None] * 8


@pytest.mark.parametrize("number", ["D", "a", "AB"])
def test_a_build_that_is_not_there_is_an_unknown_exercise(number):
    refuses(lambda: find_exercise(number), ValueError, "number")
