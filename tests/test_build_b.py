"""Build B: the right file passes, each likely mistake gets its name, and the numbers that we
compare with are those of Hugging Face's library."""

import json
import struct
from pathlib import Path

import pytest
import torch
from huggingface_hub import try_to_load_from_cache
from safetensors.torch import load_file, save_file
from test_builds import written_file
from torch.testing import assert_close

from former_nb.base.exercises import MistakeError
from former_nb.base.files import SHIPPED
from former_nb.base.source import load_file as load_python
from former_nb.builds import build_b
from former_nb.builds.process import run_file, run_tests
from former_nb.builds.small_llama import (
    GENERATE_MISTAKES,
    MISTAKES,
    RIGHT_FILE,
    read_checkpoint,
    write_checkpoint,
)
from former_nb.checks.exercises import check
from former_nb.saving import hub_files
from former_nb.saving.hub_files import SMOLLM2, HubModel, fetch_model
from former_nb.saving.hugging_face import list_tensors
from former_nb.saving.saving import load_model

DECODER = written_file("solutions/build_b", "decoder.py")
FOLDER = SHIPPED / "shakespeare"
N = len(build_b.TESTS)


@pytest.fixture
def save(tmp_path):
    def save(text):
        path = tmp_path / "decoder.py"
        path.write_text(text, encoding="utf-8")
        return path

    return save


def cells(page):
    path = Path(__file__).resolve().parents[1] / "nbs" / f"{page}.ipynb"
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def prose(page):
    return "\n".join("".join(cell["source"]) for cell in cells(page))


def outputs(page):
    "What the cells of a page have printed."
    for cell in cells(page):
        for output in cell.get("outputs", ()):
            yield "".join(output.get("text", ()))


def changed(changes, text=DECODER):
    "The file with each old text, at an even place, once replaced by the new one after it."
    for old, new in zip(changes[::2], changes[1::2]):
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def judged(path):
    "What the tests say, without a process of its own."
    with torch.random.fork_rng(devices=[]):
        return list(run_tests(load_python(path), build_b.TESTS, path))


# ---------------------------------------------------------------- the right file


def test_the_solution_has_some_seventy_lines_and_passes(save, capsys):
    lines = [line for line in DECODER.splitlines() if line.strip()]
    assert 55 <= len(lines) <= 75
    path = save(DECODER)
    assert judged(path) == [None] * N
    assert check("B", path)
    said = capsys.readouterr().out
    assert said.count("passes") == N and f"All {N} tests pass.\nB is right." in said


def test_the_skeleton_of_the_page_says_what_is_to_be_written_first(save):
    results = judged(save(written_file("build_b", "decoder.py")))
    assert "load returned nothing" in results[0] and results[1] == "waits for test 1"
    assert None not in results


TURN = "torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)"
HALVES = "first, second = x.chunk(2, dim=-1)"
NORM = 'x * torch.rsqrt(size + self.eps) * self.weights[f"{name}.weight"]'
SIZE = "x.square().mean(dim=-1, keepdim=True)"
Q = "q = turn(q, cos, sin)"
K = "k = turn(k, cos, sin).repeat_interleave(shared, dim=1)"
V = "v = v.repeat_interleave(shared, dim=1)"
SCALE = "self.d_k**0.5"
FUTURE = "torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)"
Y = 'y = scores.masked_fill(future, float("-inf")).softmax(dim=-1) @ v'
JOIN = "y.transpose(1, 2).flatten(2)"
SPLIT = "x.unflatten(-1, (n_heads, self.d_k)).transpose(1, 2)"
GATE = 'gate = F.silu(self.linear(x, f"{name}.gate_proj"))'
DOWN = 'return self.linear(gate * self.linear(x, f"{name}.up_proj"), f"{name}.down_proj")'
FREQ = "self.base ** (-torch.arange(0, self.d_k, 2) / self.d_k)"
ANGLES = "torch.arange(tokens.shape[1])[:, None] * frequencies"
HEAD = 'embedding if config["tie_word_embeddings"] else weights["lm_head.weight"]'
LINEAR = 'F.linear(x, self.weights[f"{name}.weight"])'
EMBED = 'x = self.weights["model.embed_tokens.weight"][tokens]'
NORM1 = 'y = self.norm(x, f"{layer}.input_layernorm")'
SUM1 = 'x = x + self.attention(y, f"{layer}.self_attn", cos, sin)'
NORM2 = 'y = self.norm(x, f"{layer}.post_attention_layernorm")'
SUM2 = 'x = x + self.network(y, f"{layer}.mlp")'
LAST = 'F.linear(self.norm(x, "model.norm"), self.head)'
FLOAT = "{name: t.float() for name, t in weights.items()}"
READ = 'weights = load_file(folder / "model.safetensors")'
LAYERS = 'for i in range(self.n_layers):\n            layer = f"model.layers.{i}"'
BEST = "best = model(tokens)[:, -1].argmax(dim=-1, keepdim=True)"
CAT = "tokens = torch.cat([tokens, best], dim=1)"
PAIRS = "first, second = x[..., 0::2], x[..., 1::2]"
STACK = "torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)"
MIXED = (
    "cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)\n"
    "    first, second = x.chunk(2, -1)\n"
    "    return x * cos + torch.cat([-second, first], -1) * sin"
)
MIXED2 = (
    "cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)\n"
    "    first, second = x[..., 0::2], x[..., 1::2]\n"
    "    return x * cos + torch.stack([-second, first], -1).flatten(-2) * sin"
)


CACHED = """
def generate(model, tokens, n):
    steps = [tokens]
    kept = [None] * model.n_layers
    for i in range(n):
        logits = model(steps[-1], kept, tokens.shape[1] + i - 1 if i else 0)
        steps.append(logits[:, -1].argmax(dim=-1, keepdim=True))
    return torch.cat(steps, dim=1)
"""
START = "tokens):  # (B, T) -> (B, T, vocab_size)"
OTHER_WAYS = {  # that are as right
    "the fused kernel": [Y, "y = F.scaled_dot_product_attention(q, k, v, is_causal=True)"],
    "the norm of PyTorch": [
        NORM,
        "F.rms_norm(x, x.shape[-1:], self.weights[f'{name}.weight'], self.eps)",
    ],
    "view and permute": [SPLIT, "x.view(*x.shape[:2], n_heads, -1).permute(0, 2, 1, 3)"],
    "einsum": ["q @ k.mT", "torch.einsum('bhtd, bhsd -> bhts', q, k)"],
    "cos and sin of full width": [
        HALVES,
        "cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)\n"
        "    first, second = x.chunk(2, dim=-1)\n"
        "    return x * cos + torch.cat([-second, first], -1) * sin",
    ],
    "complex numbers": [
        TURN,
        "torch.cat(torch.view_as_real(torch.complex(first, second) * torch.complex(cos, sin))"
        ".unbind(-1), -1)",
    ],
    "heads in groups": [
        K,
        "k = turn(k, cos, sin)[:, :, None].expand(-1, -1, shared, -1, -1).flatten(1, 2)",
    ],
    "positions from 1, as only differences count": [
        ANGLES,
        "torch.arange(1, tokens.shape[1] + 1)[:, None] * frequencies",
    ],
    "a generator without gradient": ["def generate(", "@torch.no_grad()\ndef generate("],
    "a cache": [
        "def generate",
        CACHED + "\n\ndef slow",
        "def __call__(self, " + START,
        "def __call__(self, tokens, kept=None, start=0):",
        "torch.arange(tokens.shape[1])[:, None]",
        "torch.arange(start, start + tokens.shape[1])[:, None]",
        'f"{layer}.self_attn", cos, sin)',
        'f"{layer}.self_attn", cos, sin, kept, i)',
        "def attention(self, x, name, cos, sin)",
        "def attention(self, x, name, cos, sin, kept, i)",
        "scores = q @",
        "if kept:\n"
        "            if kept[i]:\n"
        "                k = torch.cat([kept[i][0], k], dim=2)\n"
        "                v = torch.cat([kept[i][1], v], dim=2)\n"
        "            kept[i] = (k, v)\n"
        "        scores = q @",
        "triu(1)",
        "triu(1 + k.shape[2] - q.shape[2])",
    ],
}


@pytest.mark.parametrize("way", OTHER_WAYS)
def test_other_ways_are_as_right(save, way):
    assert judged(save(changed(OTHER_WAYS[way]))) == [None] * N


# ---------------------------------------------------------------- mistakes

WRONG = [  # what is replaced and by what, the test that finds it, and words of its sentence
    # (changes, test, words)
    ([HALVES, PAIRS, TURN, STACK], 3, "rotary pairs are neighbours"),
    ([HALVES, MIXED], 3, "ordered for neighbours"),
    ([HALVES, MIXED2], 3, "ordered for halves"),
    ([TURN, TURN.replace("cos - s", "cos + s")], 3, "the first half becomes a · cos - b · sin"),
    ([TURN, TURN.replace("cos + f", "cos - f")], 3, "the second half becomes b · cos + a · sin"),
    (
        [READ, f"{READ}\n    torch.nn.Linear(9, 9).load_state_dict({{}})"],
        1,
        "a weight that the file doesn't",
    ),
    (
        [READ, f"{READ}\n    torch.nn.Identity().load_state_dict(weights)"],
        1,
        "a weight that your model lacks",
    ),
    (
        [
            READ,
            f"{READ}\n    w = weights['model.layers.0.mlp.up_proj.weight']"
            "\n    torch.nn.Linear(9, 9, bias=False).load_state_dict({'weight': w})",
        ],
        1,
        "intermediate_size",
    ),
    ([Q, "q = turn(q.transpose(1, 2), cos, sin).transpose(1, 2)"], 1, "7 tokens meet 6 heads"),
    ([Q, "pass"], 3, "only the keys are turned"),
    ([K, K.replace("turn(k, cos, sin)", "k")], 3, "only the queries"),
    ([Q, "pass", K, K.replace("turn(k, cos, sin)", "k")], 3, "are not turned"),
    ([V, "v = turn(v, cos, sin).repeat_interleave(shared, dim=1)"], 3, "values are turned"),
    (
        ['self.base = config["rope_theta"]', "self.base = 10000.0"],
        4,
        "base of the angles is 10,000",
    ),
    (
        [
            ANGLES,
            ANGLES.replace("torch.arange(tokens.shape[1])", "torch.arange(1, tokens.shape[1] + 1)"),
            V,
            "v = turn(v, cos, sin).repeat_interleave(shared, dim=1)",
        ],
        2,
        "values are turned",
    ),
    (
        [TURN, "torch.cat([first * cos + second * sin, second * cos - first * sin], dim=-1)"],
        3,
        "other way round",
    ),
    (
        [FREQ, "self.base ** (-torch.arange(0, self.d_k // 2) / self.d_k)"],
        3,
        "exponents of the base are i /",
    ),
    ([FREQ, "self.base ** (-2 * torch.arange(0, self.d_k, 2) / self.d_k)"], 3, "4i / head_dim"),
    (
        [
            FREQ,
            "self.base ** (-torch.arange(0, self.d_k, 2) / self.head_width)",
            "self.weights = weights\n",
            "self.weights = weights\n        self.head_width = config['hidden_size']\n",
        ],
        3,
        "divided by hidden_size",
    ),
    ([ANGLES, "torch.arange(self.n_heads)[:, None, None] * frequencies"], 3, "not turned"),
    # norms
    (
        [
            SUM1,
            "y = x + self.attention(x, f'{layer}.self_attn', cos, sin)\n"
            "            x = self.norm(y, f'{layer}.input_layernorm')",
            NORM1,
            "pass",
            SUM2,
            "y = x + self.network(x, f'{layer}.mlp')\n"
            "            x = self.norm(y, f'{layer}.post_attention_layernorm')",
            NORM2,
            "pass",
        ],
        2,
        "norms come after the sums",
    ),
    (
        [
            SUM1,
            "y = self.attention(x, f'{layer}.self_attn', cos, sin)\n"
            "            x = x + self.norm(y, f'{layer}.input_layernorm')",
            NORM1,
            "pass",
            SUM2,
            "y = self.network(x, f'{layer}.mlp')\n"
            "            x = x + self.norm(y, f'{layer}.post_attention_layernorm')",
            NORM2,
            "pass",
        ],
        2,
        "you norm what a part gives",
    ),
    (
        [NORM1, NORM1.replace("y =", "x = y ="), NORM2, NORM2.replace("y =", "x = y =")],
        2,
        "stream itself is normed",
    ),
    ([SUM1, SUM1.replace("x + ", "y + ")], 2, "attention gives is added to the normed"),
    ([SUM2, SUM2.replace("x + ", "y + ")], 2, "network gives is added to the normed"),
    ([LAST, "F.linear(x, self.head)"], 2, "model.norm.weight, is missing"),
    (
        [NORM, NORM.replace("torch.rsqrt(size + self.eps)", "1 / (size.sqrt() + self.eps)")],
        5,
        "outside of the root",
    ),
    ([NORM, NORM.replace(" + self.eps", "")], 5, "rms_norm_eps is not added"),
    ([NORM, NORM.replace("self.eps", "1e-6")], 5, "eps is 1e-6"),
    ([NORM, NORM.replace("self.eps", "1e-5")], 5, "eps is 1e-5"),
    (
        [NORM, 'F.rms_norm(x, x.shape[-1:], self.weights[f"{name}.weight"])'],
        5,
        "nn.RMSNorm if you name none",
    ),
    (
        [
            SIZE,
            "x.var(-1, correction=0, keepdim=True)\n        x = x - x.mean(-1, keepdim=True)",
        ],
        2,
        "the mean is subtracted",
    ),
    (
        [NORM, 'F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], None, self.eps)'],
        2,
        "the mean is subtracted",
    ),
    ([SIZE, SIZE.replace("mean", "sum")], 2, "squares are summed"),
    (
        [NORM, NORM.replace("torch.rsqrt(size + self.eps)", "(size + self.eps) ** -1")],
        2,
        "the root is missing",
    ),
    ([NORM, "x * torch.rsqrt(size + self.eps)"], 2, "weights of the norms are not used"),
    (
        [
            NORM,
            NORM.replace(
                '* self.weights[f"{name}.weight"]', '* (1 + self.weights[f"{name}.weight"])'
            ),
        ],
        2,
        "Gemma",
    ),
    (
        [
            "input_layernorm",
            "X_layernorm",
            "post_attention_layernorm",
            "input_layernorm",
            "X_layernorm",
            "post_attention_layernorm",
        ],
        2,
        "two norms of a layer are exchanged",
    ),
    ([NORM2, NORM2.replace("post_attention", "input")], 2, "both parts read input_layernorm"),
    ([SUM1, SUM1.replace("(y,", "(x,")], 2, "attention lacks its norm"),
    ([SUM2, SUM2.replace("(y,", "(x,")], 2, "network lacks its norm"),
    ([SUM1, SUM1.replace("x + ", "")], 2, "attention gives is not added"),
    ([SUM2, SUM2.replace("x + ", "")], 2, "network gives is not added"),
    (
        [SUM1, SUM1.replace("x = x", "z = x"), NORM2, NORM2, SUM2, SUM2.replace("x + ", "z + ")],
        2,
        "both parts read x",
    ),
    (
        [
            SUM1,
            SUM1.replace("x = x", "z = x"),
            NORM2,
            NORM2.replace("(x,", "(z,"),
        ],
        2,
        "starts from the old x",
    ),
    # network
    (
        [GATE, GATE.replace("gate_proj", "up_proj"), DOWN, DOWN.replace("up_proj", "gate_proj")],
        2,
        "gate_proj and up_proj are exchanged",
    ),
    ([GATE, GATE.replace("silu", "gelu")], 2, "activation is GELU"),
    ([GATE, GATE.replace("silu", "relu")], 2, "activation is ReLU"),
    ([GATE, GATE.replace("F.silu", "torch.sigmoid")], 2, "gate is a sigmoid"),
    ([GATE, GATE.replace("F.silu(", "(")], 2, "activation is missing"),
    ([DOWN, 'return self.linear(gate, f"{name}.down_proj")'], 2, "up_proj is not used"),
    ([DOWN, DOWN.replace("gate *", "gate +")], 2, "are added; multiply"),
    # attention
    ([SCALE, "1"], 3, "not divided by"),
    ([SCALE, "self.d_k"], 3, "divide by head_dim; it's the root"),
    ([SCALE, "(self.d_k * 0.5)"], 7, "divide by head_dim / 2; it's the root"),
    ([SCALE, "(self.d_k * self.n_heads) ** 0.5"], 3, "√hidden_size"),
    ([SCALE, "x.shape[-1] ** 0.5"], 3, "√hidden_size"),
    ([SCALE, "(x.shape[-1] / self.n_heads) ** 0.5"], 7, "config.json names head_dim"),
    (["/ self.d_k**0.5", "* self.d_k**0.5"], 3, "multiply by √head_dim"),
    ([FUTURE, FUTURE.replace("triu(1)", "triu(99)")], 3, "no causal mask"),
    ([FUTURE, FUTURE.replace("triu(1)", "triu(2)")], 3, "next one, too"),
    ([FUTURE, FUTURE.replace("triu(1)", "triu()")], 1, "NaN"),
    ([FUTURE, FUTURE.replace("triu(1)", "tril(-1)")], 3, "mask is turned round"),
    ([Y, "y = scores.softmax(dim=-1).masked_fill(future, 0.0) @ v"], 3, "hidden after the softmax"),
    ([Y, Y.replace('float("-inf")', "0.0")], 3, "e^0 is 1"),
    ([Y, Y.replace("dim=-1", "dim=-2")], 3, "softmax runs over the queries"),
    (
        [
            K,
            K.replace("repeat_interleave(shared, dim=1)", "repeat(1, shared, 1, 1)"),
            V,
            V.replace("repeat_interleave(shared, dim=1)", "repeat(1, shared, 1, 1)"),
        ],
        6,
        "repeated as a row",
    ),
    ([K, "k = turn(k, cos, sin)", V, "pass"], 6, "fewer heads of keys and values"),
    ([K, "k = turn(k, cos, sin)[:, :1]", V, "v = v[:, :1]"], 2, "first head of keys"),
    ([SPLIT, "x.reshape(x.shape[0], n_heads, x.shape[1], self.d_k)"], 3, "cut without a transpose"),
    ([SPLIT, "x.unflatten(-1, (self.d_k, n_heads)).permute(0, 3, 1, 2)"], 2, "every h-th number"),
    ([JOIN, "y.reshape(*x.shape[:2], -1)"], 3, "joined without a transpose"),
    ([f'self.linear({JOIN}, f"{{name}}.o_proj")', JOIN], 2, "o_proj is missing"),
    (
        [
            'q = self.split(self.linear(x, f"{name}.q_proj")',
            'q = self.split(self.linear(x, f"{name}.k_proj")',
            'k = self.split(self.linear(x, f"{name}.k_proj")',
            'k = self.split(self.linear(x, f"{name}.q_proj")',
        ],
        3,
        "q_proj and k_proj are exchanged",
    ),
    (["{name}.v_proj", "{name}.k_proj"], 2, "values are made by k_proj"),
    (
        [
            'self.n_kv_heads = config["num_key_value_heads"]',
            'self.n_kv_heads = config["num_attention_heads"]',
        ],
        6,
        "num_key_value_heads",
    ),
    (['config.get("head_dim") or config', "config"], 7, "q_proj gives"),
    (
        ['config.get("head_dim") or config["hidden_size"] // self.n_heads', 'config["head_dim"]'],
        1,
        "may lack head_dim",
    ),
    # weights
    ([LINEAR, 'x @ self.weights[f"{name}.weight"]'], 1, "a weight is (out, in)"),
    (
        [
            LINEAR,
            'x @ (w if (w := self.weights[f"{name}.weight"]).shape[0] == w.shape[1] else w.T)',
        ],
        2,
        "square weights are transposed",
    ),
    (
        [
            '{name}.o_proj")',
            '{name}.o_proj", True)',
            "def linear(self, x, name):\n        return " + LINEAR,
            "def linear(self, x, name, back=False):\n"
            "        w = self.weights[f'{name}.weight']\n"
            "        return F.linear(x, w.T if back else w)",
        ],
        2,
        "o_proj is transposed",
    ),
    ([HEAD, "embedding"], 2, "tie_word_embeddings is false"),
    ([HEAD, 'weights["lm_head.weight"]'], 8, "there is no lm_head.weight"),
    ([HEAD, 'weights.get("lm_head.weight", torch.randn_like(embedding))'], 8, "the head is random"),
    (
        [FLOAT, "{name: torch.randn_like(t) for name, t in weights.items()}"],
        1,
        "some weights are random",
    ),
    (
        [FLOAT, "{name: torch.ones_like(t) for name, t in weights.items()}"],
        1,
        "gives the same logits",
    ),
    ([FLOAT, "weights"], 9, "type"),
    ([FLOAT, "{name: t.half() for name, t in weights.items()}"], 1, "float32"),
    (
        [FLOAT, "{name: t.bfloat16().float() for name, t in weights.items()}"],
        2,
        "compute in float32",
    ),
    ([LAST, LAST.replace("self.head)", "self.head).softmax(-1)")], 2, "probabilities"),
    (
        [EMBED, EMBED + ' * self.weights["model.embed_tokens.weight"].shape[1] ** 0.5'],
        2,
        "multiplied by √hidden_size",
    ),
    (['{i}"', '{sorted(map(str, range(self.n_layers)))[i]}"'], 4, "sorted as text"),
    (['{i}"', '{0}"'], 2, "weights of layer 0"),
    (["range(self.n_layers)", "range(self.n_layers - 1)"], 2, "last layer is missing"),
    (["range(self.n_layers)", "range(3)"], 4, "layers"),
    # load and generate
    (["return Decoder(config", "Decoder(config"], 1, "load returned nothing"),
    (['folder / "config.json"', "folder + '/config.json'"], 1, "is a Path"),
    (
        ['return F.linear(self.norm(x, "model.norm")', 'F.linear(self.norm(x, "model.norm")'],
        1,
        "returned nothing",
    ),
    ([LAST, LAST + "[:, -1]"], 1, "expected logits of shape"),
    (["def load(folder)", "def read(folder)"], 1, "defines no load(folder)"),
    (
        ["def generate(model, tokens, n)", "def generate(model, tokens)"],
        12,
        "expected the arguments (model, tokens, n)",
    ),
    ([BEST, BEST.replace("-1]", "0]")], 12, "after the first position"),
    ([BEST, BEST.replace("argmax", "argmin")], 12, "least likely"),
    ([BEST, BEST.replace(", keepdim=True", "")], 12, "with keepdim=True"),
    ([BEST, "best = torch.multinomial(model(tokens)[:, -1].softmax(-1), 1)"], 12, "draw nothing"),
    (["range(n)", "range(n - 1)"], 12, "8 tokens were appended"),
    (["range(n)", "range(n + 1)"], 12, "10 tokens were appended"),
    (["    return tokens\n", "    return tokens[:, -n:]\n"], 12, "new tokens alone"),
    ([BEST, BEST.replace("model(tokens)", "model(tokens[:, -1:])")], 12, "last token alone"),
    (
        [CAT, "tokens = torch.cat([tokens, best[:1].expand(len(tokens), -1)], dim=1)"],
        12,
        "token of the first row",
    ),
    (
        [BEST, BEST.replace("argmax(dim=-1, keepdim=True)", "max(dim=-1, keepdim=True)[0]")],
        12,
        "whole number",
    ),
]


@pytest.mark.parametrize("changes, number, words", WRONG)
def test_a_mistake_gets_its_name_in_the_test_that_is_about_it(save, changes, number, words):
    results = judged(save(changed(changes)))
    assert words in (results[number - 1] or ""), results
    assert results[: number - 1] == [None] * (number - 1), results


def test_a_hundred_mistakes_are_planted_and_few_have_no_name():
    assert len(WRONG) >= 95
    assert {number for _, number, _ in WRONG} >= {1, 2, 3, 4, 5, 6, 7, 8, 9, 12}


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            [GATE, GATE.replace("silu", "gelu"), LAST, "F.linear(x, self.head)"],
            ["GELU", "last norm"],
        ),
        (
            [SCALE, "self.d_k", FUTURE, FUTURE.replace("triu(1)", "triu(99)")],
            ["the root", "causal"],
        ),
        ([Q, "pass", FREQ, FREQ.replace("/ self.d_k", "/ self.d_k / 2")], ["keys", "exponents"]),
    ],
)
def test_two_mistakes_at_once_get_both_names(save, changes, words):
    sentence = next(filter(None, judged(save(changed(changes)))))
    assert sentence.startswith("two mistakes: ") and all(word in sentence for word in words)


def test_an_unknown_mistake_says_how_far_it_is(save):
    text = changed([SUM2, SUM2.replace("x + ", "x + 0.3 + ")])
    assert "none of the likely mistakes gives yours" in judged(save(text))[1]


def test_what_a_model_keeps_between_calls_is_found(save):
    text = changed([
        EMBED,
        "self.calls = getattr(self, 'calls', 0) + 1\n        " + EMBED + " * 1.0\n"
        "        x = x * 2 if self.calls > 1 and tokens.shape[0] == 3 else x",
    ])  # fmt: skip
    assert "a second call with the same tokens" in judged(save(text))[10]


def test_another_text_of_the_same_shape_needs_its_own_logits(save):
    text = changed([
        EMBED,
        "self.kept = getattr(self, 'kept', {})\n"
        "        if tokens.shape in self.kept:\n"
        "            return self.kept[tokens.shape]\n        " + EMBED,
        "return " + LAST,
        "self.kept[tokens.shape] = " + LAST + "\n        return self.kept[tokens.shape]",
    ])  # fmt: skip
    results = judged(save(text))
    assert results[:10] == [None] * 10 and "gets the logits of the first" in results[10], results


def test_a_table_of_angles_that_is_too_short_is_found(save):
    text = changed([ANGLES, "torch.arange(16)[: tokens.shape[1], None] * frequencies"])
    assert "32 tokens, max_position_embeddings, are too many" in judged(save(text))[10]


# ---------------------------------------------------------------- what we compare with


def test_each_edit_of_the_right_file_gets_its_own_name(tmp_path):
    "On one of the checkpoints that the tests write: it gives other logits, and they are its own."
    checkpoints = [
        {},
        {"rope_theta": 300.0, "num_hidden_layers": 12, "size": 2.0},
        {"rms_norm_eps": 2e-5, "size": 3e-4},
        {"num_key_value_heads": 2},
        {"head_dim": 8, "num_key_value_heads": 3},
    ]
    unnamed = list(MISTAKES)
    for settings in checkpoints:
        llama = write_checkpoint(tmp_path, **settings)
        tokens = torch.randint(37, (2, 7), generator=torch.Generator().manual_seed(1))
        given = {"right": llama(tokens)}
        for mistake in MISTAKES:
            try:
                given[mistake] = llama(tokens, mistake)
            except RuntimeError:  # these sizes do not allow it
                continue
            same = (m for m in given if build_b._far(given[mistake], given[m]) < build_b.EXACT)
            if mistake in unnamed and next(same) == mistake:
                unnamed.remove(mistake)
    # only differences of positions count, unless values are turned, too
    assert unnamed == [build_b.LATE]


@pytest.mark.parametrize("mistake", GENERATE_MISTAKES)
def test_each_edit_of_the_right_loop_gets_its_own_name(tmp_path, mistake):
    llama = write_checkpoint(tmp_path, seed=3, num_key_value_heads=2, rope_theta=50.0)
    tokens = torch.randint(37, (3, 6), generator=torch.Generator().manual_seed(4))
    wrong = llama.generate(tokens, build_b.NEW, mistake)
    said = build_b._judge_generated(lambda model, tokens, n: wrong, None, llama, tokens)
    assert said == mistake


def test_the_right_file_is_that_of_the_solutions_page():
    assert RIGHT_FILE.read_text(encoding="utf-8").endswith(f'"""\n\n{DECODER}')


CHECKPOINTS = [
    {},
    {"tie_word_embeddings": True, "rope_theta": 500.0, "rms_norm_eps": 1e-2},
    {"num_key_value_heads": 2, "head_dim": 8, "dtype": torch.bfloat16},
    {"num_key_value_heads": 1, "head_dim": None, "num_hidden_layers": 12},
]


@pytest.mark.parametrize("settings", CHECKPOINTS)
def test_the_right_numbers_are_those_of_transformers_and_of_our_modules(tmp_path, settings):
    transformers = pytest.importorskip("transformers")
    llama = write_checkpoint(tmp_path, **settings)
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    tokens = torch.randint(37, (2, 7), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        theirs = model.eval()(tokens).logits
    assert_close(llama(tokens), theirs, atol=1e-4, rtol=1e-4)
    assert list_tensors(tmp_path).keys() == llama.weights.keys()


def test_the_model_that_ships_is_read_by_transformers_and_by_us():
    transformers = pytest.importorskip("transformers")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    ours, tokenizer, labels = load_model("shakespeare")
    assert labels is None and tokenizer.before == [1] and tokenizer.ends == [2]
    words = transformers.AutoTokenizer.from_pretrained(FOLDER)
    text = "ROMEO:\nIs it even so? Then I defy you, stars — naïve ☃!\n"
    row = words(text)["input_ids"]
    assert row == [1, *tokenizer.encode(text)] and tokenizer.decode(row) == text
    tokens = torch.tensor([row])
    with torch.no_grad():
        logits = theirs(tokens).logits
        assert_close(ours(tokens), logits, atol=1e-3, rtol=1e-4)
    assert_close(read_checkpoint(FOLDER)(tokens), logits, atol=1e-3, rtol=1e-4)
    written = theirs.generate(tokens, max_new_tokens=30, do_sample=False, eos_token_id=None)
    assert torch.equal(read_checkpoint(FOLDER).generate(tokens, 30), written)


def test_without_eps_the_model_that_ships_hardly_changes_as_the_solution_says():
    assert "no logit by more than a hundredth of their spread" in prose("solutions/build_b")
    llama = read_checkpoint(FOLDER)
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(3, 1024, (8, 32), generator=generator)
    right = llama(tokens)
    far = (llama(tokens, "rms_norm_eps is not added") - right).abs().max() / right.std()
    assert build_b.EXACT < far < 0.01


def test_the_sizes_of_smollm2_are_those_of_the_page():
    text = "".join(outputs("build_b"))
    assert "134,515,008 parameters" in text and "807 MB" in text
    assert sum(range(10, 30)) == 390 and round(390 * 2 * 134_515_008 / 1e9) == 105


def test_the_model_that_ships_is_small_and_in_half_precision():
    weights = load_file(FOLDER / "model.safetensors")
    assert {t.dtype for t in weights.values()} == {torch.float16}
    assert 600_000 < sum(t.numel() for t in weights.values()) < 700_000
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) < 1_500_000
    names = {"config.json", "model.safetensors", "tokenizer.json", "README.md"}
    assert {file.name for file in FOLDER.iterdir()} == names
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLM"] and config["rope_theta"] == 10_000


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("package", ["transformers", "former_nb"])
def test_a_file_may_not_import_the_answer(save, package):
    with pytest.raises(MistakeError, match=f"line 1 of decoder.py imports {package}; write it"):
        run_file(save(f"from {package} import x\n" + DECODER), build_b.__name__)


def test_what_is_no_file_is_told_what_a_file_is_called(capsys):
    assert not check("B", 5)
    assert "the name of your file, such as 'decoder.py', got int" in capsys.readouterr().out


def refused(folder, *words):
    with pytest.raises(ValueError) as error:
        list_tensors(folder)
    said = str(error.value)
    assert "\n" not in said and all(word in said for word in words), said


def test_a_checkpoint_that_is_none_of_llama_is_refused_by_its_header(tmp_path):
    write_checkpoint(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    for changes, words in [
        ({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"]}, "'llama', got 'gpt2'"),
        ({"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"]}, "'llama', got 'qwen3'"),
        ({"architectures": ["LlamaForSequenceClassification"]}, "LlamaForSequenceClassification"),
        ({"intermediate_size": 41}, "shape (41, 24)"),
        ({"num_hidden_layers": 10**9}, "n_layers = 1,000,000,000"),
        ({"vocab_size": 10**12}, "GB"),
        ({"hidden_act": "gelu"}, "hidden_act"),
    ]:
        file.write_text(json.dumps(config | changes), encoding="utf-8")
        refused(tmp_path, words)


def test_a_file_that_ends_early_is_refused(tmp_path):
    write_checkpoint(tmp_path)
    file = tmp_path / "model.safetensors"
    whole = file.read_bytes()
    for size in (len(whole) - 1, len(whole) // 2, 100, 8, 3, 0):
        file.write_bytes(whole[:size])
        refused(tmp_path, "model.safetensors", "is not whole")
    file.write_bytes(struct.pack("<Q", 2**62) + whole[8:])
    refused(tmp_path, "is not whole")
    file.unlink()
    refused(tmp_path, "lacks model.safetensors")


def test_a_tensor_that_is_missing_or_of_another_model_is_named(tmp_path):
    llama = write_checkpoint(tmp_path)
    weights = dict(llama.weights)
    gate = weights.pop("model.layers.1.mlp.gate_proj.weight")
    save_file(weights, tmp_path / "model.safetensors")
    refused(tmp_path, "the tensor model.layers.1.mlp.gate_proj.weight, (40, 24)")
    save_file({**llama.weights, "q_norm.weight": gate.clone()}, tmp_path / "model.safetensors")
    refused(tmp_path, "only tensors of this architecture", "q_norm.weight")


# ---------------------------------------------------------------- from the hub


def test_without_a_network_one_sentence_says_what_is_needed(monkeypatch, tmp_path):
    def nothing(*args, **kwargs):
        raise ConnectionError("no route\nto host")

    monkeypatch.setattr(hub_files, "hf_hub_download", nothing)
    with pytest.raises(OSError) as error:
        fetch_model()
    said = str(error.value)
    assert "a network or a cache" in said and "271 MB" in said and "\n" not in said


def test_a_file_with_another_sum_is_refused_before_anything_reads_it(monkeypatch, tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    asked = []

    def fetch(name, file, revision):
        asked.append((name, file, revision))
        return tmp_path / file

    monkeypatch.setattr(hub_files, "hf_hub_download", fetch)
    with pytest.raises(ValueError, match=r"config.json' is not config.json of .*another SHA-256"):
        fetch_model()
    assert asked == [(SMOLLM2.name, "config.json", SMOLLM2.revision)]
    empty = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert fetch_model(HubModel("a/b", "0" * 40, {"config.json": empty}, 2)) == tmp_path


CACHE = try_to_load_from_cache(SMOLLM2.name, "model.safetensors", revision=SMOLLM2.revision)


@pytest.mark.real_data
@pytest.mark.skipif(not isinstance(CACHE, str), reason="the hub's cache has no SmolLM2-135M")
def test_the_real_smollm2(save, monkeypatch):
    transformers = pytest.importorskip("transformers")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = fetch_model()
    assert len(list_tensors(folder)) == 272
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    decoder = load_python(save(DECODER))
    model = decoder.load(folder)
    row = load_model(folder).tokenizer.encode("The cat sat on the mat, and the dog")
    tokens = torch.tensor([row])
    with torch.no_grad():
        assert_close(model(tokens), theirs(tokens).logits, atol=1e-2, rtol=1e-3)
        written = theirs.generate(tokens, max_new_tokens=8, do_sample=False, eos_token_id=None)
        assert torch.equal(decoder.generate(model, tokens, 8), written)
