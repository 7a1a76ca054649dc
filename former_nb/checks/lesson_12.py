"""Judges of the exercises on the page 12_modern_decoder, and the mistakes that they know."""

import copy
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.angle_tables import Rotary
from ..attention.fused import attention
from ..base.exercises import diagnose, diagnose_each, exercise, explain_error
from ..models.modern_decoder import GroupedQueryAttention


def _norm(x, gain):
    return gain * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()


def _without_mean(x, gain):
    return gain * F.layer_norm(x, x.shape[-1:], eps=1e-5)


def _of_sum(x, gain):
    return gain * x / (x.square().sum(-1, keepdim=True) + 1e-5).sqrt()


def _eps_outside(x, gain):
    return gain * x / (x.square().mean(-1, keepdim=True).sqrt() + 1e-5)


def _no_eps(x, gain):
    return gain * x / x.square().mean(-1, keepdim=True).sqrt()


def _no_root(x, gain):
    return gain * x / (x.square().mean(-1, keepdim=True) + 1e-5)


def _no_gain(x, gain):
    return _norm(x, 1.0)


def _gain_and_one(x, gain):  # Gemma's, whose files hold gain - 1
    return _norm(x, 1 + gain)


def _heads(t):  # (B, T, heads * 4) -> (B, heads, T, 4)
    return t.unflatten(-1, (-1, 4)).transpose(1, 2)


def _cut(t):  # a mistake: no transpose, so a head gets numbers of several words
    return t.reshape(t.shape[0], -1, t.shape[1], 4)


def _interleaved(t):  # a mistake: a head takes every h-th number
    return t.unflatten(-1, (4, -1)).permute(0, 3, 1, 2)


def _merge(y):  # (B, h, T, 4) -> (B, T, h * 4)
    return y.transpose(1, 2).flatten(2)


def _joined(y):  # a mistake: no transpose
    return y.reshape(y.shape[0], y.shape[2], -1)


def _same(t):
    return t


def _network(x, w, gate=F.silu):
    return (gate(x @ w["w_gate"]) * (x @ w["w_in"])) @ w["w_out"]


def _attended(x, w, attend, share=_same, split=_heads, merge=_merge, **options):
    q = split(x @ w["w_q"])
    k = share(split(x @ w["w_k"]))
    v = share(split(x @ w["w_v"]))
    return merge(attend(q, k, v, **options)) @ w["w_o"]


def _block(x, w, attend, norm=_norm, network=_network, share=_same, **options):
    options = {"is_causal": True, **options}
    x = x + _attended(norm(x, w["gain_attention"]), w, attend, share, **options)
    return x + network(norm(x, w["gain_ff"]), w)


def _after(x, w, attend):  # post-norm
    x = _norm(x + _attended(x, w, attend, is_causal=True), w["gain_attention"])
    return _norm(x + _network(x, w), w["gain_ff"])


def _in_stream(x, w, attend):  # the norms are written into the stream
    x = _norm(x, w["gain_attention"])
    x = _norm(x + _attended(x, w, attend, is_causal=True), w["gain_ff"])
    return x + _network(x, w)


def _with(w, **others):  # weights under the names of others
    return {**w, **{name: w[other] for name, other in others.items()}}


def example_weights() -> tuple:  # x (3, 5, 24), weights by name, an `attend` with rotary positions
    "What a block is judged on. The stream is small and has a mean."
    draw = torch.Generator().manual_seed(0)

    def numbers(*shape, scale=1.0):
        return scale * torch.randn(*shape, generator=draw, dtype=torch.float64)

    w = {"gain_attention": 1 + numbers(24, scale=0.3), "gain_ff": 1 + numbers(24, scale=0.3)}
    for name, width in [("w_q", 24), ("w_k", 8), ("w_v", 8), ("w_o", 24)]:
        w[name] = numbers(24, width, scale=0.3)
    for name in ("w_gate", "w_in"):
        w[name] = numbers(24, 40, scale=0.3)
    w["w_out"] = numbers(40, 24, scale=0.3)
    x = 0.002 + numbers(3, 5, 24, scale=0.004)
    return x, w, Rotary(4)(attention, torch.arange(5, device="cpu"))


@exercise(
    "12.1",
    "Write the block of lesson 06 first, x + attention(norm(x)) and then x + ff(norm(x)), and "
    "put in today's parts one by one.",
    "`t.unflatten(-1, (-1, 4)).transpose(1, 2)` splits into six heads or into two; `attend` "
    "repeats what is shared. To merge, `y.transpose(1, 2).flatten(2)`.",
    "The network is (F.silu(n @ w['w_gate']) * (n @ w['w_in'])) @ w['w_out'], where n is the "
    "norm of the stream that attention has added to.",
)
def judge_12_1(answer):
    "Judge a pre-norm block with RMSNorm, shared heads and SwiGLU."
    x, w, attend = example_weights()
    try:
        given = answer(x.clone(), {name: t.clone() for name, t in w.items()}, attend)
    except (RuntimeError, ValueError) as error:
        return explain_error(error, _MISFITS)
    if isinstance(given, torch.Tensor) and given.shape == (3, 6, 5, 4):
        return "the heads are not merged; `y.transpose(1, 2).flatten(2)` puts them side by side"

    def block(**changes):
        return _block(x, w, attend, **changes)

    def with_network(stream):
        return stream + _network(_norm(stream, w["gain_ff"]), w)

    n = _norm(x, w["gain_attention"])
    attended = _attended(n, w, attend, is_causal=True)
    unmixed = _attended(n, {**w, "w_o": torch.eye(24).double()}, attend, is_causal=True)
    first = x + attended
    normed = _norm(first, w["gain_ff"])
    other = with_network(x)
    mistakes = {
        "the mean is subtracted, as in a LayerNorm; RMSNorm leaves it in": block(
            norm=_without_mean
        ),
        "the norm divides by the root of the sum; it divides by the root of the mean": block(
            norm=_of_sum
        ),
        "ε is added outside of the root; add it to the mean square": block(norm=_eps_outside),
        "ε is missing; add 1e-5 to the mean square, under the root": block(norm=_no_eps),
        "the norm divides by the mean square; the root is missing": block(norm=_no_root),
        "the norms have no gain; multiply by w['gain_attention'] and w['gain_ff']": block(
            norm=_no_gain
        ),
        "the norm multiplies by 1 + gain, as Gemma's does; multiply by the gain": block(
            norm=_gain_and_one
        ),
        "a head takes every h-th number; it takes four neighbours, so the heads come first: "
        "`unflatten(-1, (-1, 4))`": block(split=_interleaved),
        "a head takes every h-th number, in the split and in the merge; it takes four neighbours": (
            block(split=_interleaved, merge=lambda y: y.permute(0, 2, 3, 1).flatten(2))
        ),
        "the values are made by w_k; they have w_v": _block(x, _with(w, w_v="w_k"), attend),
        "the keys are made by w_v; they have w_k": _block(x, _with(w, w_k="w_v"), attend),
        "w_o is transposed; multiply from the right, `y @ w['w_o']`": _block(
            x, {**w, "w_o": w["w_o"].T}, attend
        ),
        "the gains are exchanged": _block(
            x, _with(w, gain_attention="gain_ff", gain_ff="gain_attention"), attend
        ),
        "both norms have the gain of the network's": _block(
            x, _with(w, gain_attention="gain_ff"), attend
        ),
        "both norms have the gain of attention's": _block(
            x, _with(w, gain_ff="gain_attention"), attend
        ),
        "the norms come after the sums, as in 2017; here they come before the parts": _after(
            x, w, attend
        ),
        "the norms are written into the stream; give norm(x) to a part, and add to x itself": (
            _in_stream(x, w, attend)
        ),
        "the norms are missing": block(norm=lambda x, gain: x),
        "the norm before the network is missing": first + _network(first, w),
        "the norm before attention is missing": with_network(
            x + _attended(x, w, attend, is_causal=True)
        ),
        "gate and second match are exchanged; silu is for w_gate": _block(
            x, _with(w, w_gate="w_in", w_in="w_gate"), attend
        ),
        "silu is missing; the gate is silu(n @ w_gate)": block(
            network=partial(_network, gate=_same)
        ),
        "the gate is a sigmoid; SwiGLU's is silu(z) = z · sigmoid(z)": block(
            network=partial(_network, gate=torch.sigmoid)
        ),
        "the gate is GELU; SwiGLU's is silu": block(network=partial(_network, gate=F.gelu)),
        "the gate is ReLU; SwiGLU's is silu": block(network=partial(_network, gate=F.relu)),
        "silu is taken of both matches; the second passes as it is": block(
            network=lambda n, w: (F.silu(n @ w["w_gate"]) * F.silu(n @ w["w_in"])) @ w["w_out"]
        ),
        "silu is taken of the product; it belongs to the gate": block(
            network=lambda n, w: F.silu((n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]
        ),
        "the two matches are added; multiply them": block(
            network=lambda n, w: (F.silu(n @ w["w_gate"]) + n @ w["w_in"]) @ w["w_out"]
        ),
        "the gate is missing; multiply with silu(n @ w_gate)": block(
            network=lambda n, w: F.silu(n @ w["w_in"]) @ w["w_out"]
        ),
        "the second match is missing; multiply the gate with n @ w_in": block(
            network=lambda n, w: F.silu(n @ w["w_gate"]) @ w["w_out"]
        ),
        "`repeat` copies the list of heads, 0 1 0 1 0 1; neighbours share, so take "
        "`repeat_interleave`": block(share=lambda t: t.repeat(1, 3, 1, 1)),
        "keys and values are averaged over their heads; each of the two heads serves three": (
            block(share=lambda t: t.mean(1, keepdim=True).expand(-1, 6, -1, -1))
        ),
        "all heads of queries got head 0 of the keys; the last three share head 1": block(
            share=lambda t: t[:, :1].expand(-1, 6, -1, -1)
        ),
        "the heads are split without a transpose, so a head mixes words; cut the last axis, then "
        "`transpose(1, 2)`": block(split=_cut),
        "the heads are merged without a transpose, so a row mixes words; "
        "`y.transpose(1, 2).flatten(2)`": block(merge=_joined),
        "heads are split and merged without a transpose, so words are mixed; `transpose(1, 2)` "
        "after the cut, and again before they are merged": block(split=_cut, merge=_joined),
        "a word sees what comes after it; pass `is_causal=True`": block(is_causal=False),
        "the positions are missing; call `attend`, not `attention`": _block(x, w, attention),
        "keys and values are exchanged": _block(x, _with(w, w_k="w_v", w_v="w_k"), attend),
        "the outputs of the heads are not mixed; multiply with w_o": with_network(x + unmixed),
        "the network's output is not added to the stream": _network(normed, w),
        "attention's output is not added to the stream": with_network(attended),
        "what attention gives is added to norm(x); add it to x itself": with_network(n + attended),
        "what the network gives is added to the norm; add it to the stream itself": (
            normed + _network(normed, w)
        ),
        "x itself is missing from the sum; each part adds to it": block() - x,
        "both parts read x; the network reads what attention has added to": (
            first + _network(_norm(x, w["gain_ff"]), w)
        ),
        "the second sum starts from x; it starts from what attention has added to": (
            x + _network(normed, w)
        ),
        "the network comes first; attention does": (
            other + _attended(_norm(other, w["gain_attention"]), w, attend, is_causal=True)
        ),
        "the network is still to come": first,
    }
    return diagnose(given, block(), mistakes)


_MISFITS = {  # words of an error -> what was meant
    "mat1 and mat2 shapes cannot be multiplied (15x4 and 24": "merge the heads before w_o",
    "mat1 and mat2 shapes cannot be multiplied (90x4 and 24": "merge the heads before w_o",
    "q: expected": "`attend` wants heads, (B, 6, T, 4); split first, then move the heads in front "
    "of the words",
    "k: expected": "split keys and values as the queries, into heads that are 4 wide",
    "unflatten": "keys and values have two heads, queries six; let -1 count them, "
    "`t.unflatten(-1, (-1, 4))`",
}


@exercise(
    "12.2",
    "A tied head is the matrix of the embeddings. How wide is a head, and how many heads do w_k "
    "and w_v make?",
    "No layer has a bias, a norm has a gain alone, and rotary positions have no parameters. After "
    "the last block comes one more norm.",
    "Attention has 2 · 12 · 12 + 2 · 12 · 4 parameters in a block, the network 3 · 12 · 20.",
)
def judge_12_2(answer):
    "Judge the parameters of each part of a decoder, and what a token leaves in its cache."
    V, T, d, h, g, n, d_ff = 50, 100, 12, 6, 2, 3, 20
    d_k = d // h
    attention_of_block = 2 * d * d + 2 * d * g * d_k
    right = {
        "embeddings": V * d,
        "attention": n * attention_of_block,
        "networks": n * 3 * d * d_ff,
        "norms": (2 * n + 1) * d,
        "cache": 2 * n * g * d_k,
    }
    mistakes = [
        {
            2 * V * d: "the head is tied, so it's the same matrix and counts once",
            V * d + V: "the head has no bias",
            V * d + T * d: "rotary positions are no parameters",
            2 * V * d + T * d: "the head is tied, and rotary positions are no parameters",
        },
        {
            attention_of_block: "that is one block; there are three",
            n * 4 * d * d: "w_k and w_v make two heads of keys and values, not six",
            4 * d * d: "w_k and w_v make two heads, not six; and there are three blocks",
            n * (attention_of_block + 2 * d + 2 * g * d_k): "no layer has a bias",
            n * (attention_of_block - d * d): "w_o mixes the heads, and it counts, too",
            n * (2 * d * d + d * g * d_k): "w_k and w_v have 12 · 4 numbers each, for two heads "
            "that are 2 wide",
            n * (d * d + 3 * d * g * d_k): "w_o reads six heads, as many as there are queries",
            n * (2 * d * d + 2 * d * g * d): "a head is d_model / n_heads = 2 wide, not 12",
        },
        {
            3 * d * d_ff: "that is one block; there are three",
            n * 2 * d * d_ff: "SwiGLU has three matrices: gate, second match, and back",
            2 * d * d_ff: "SwiGLU has three matrices, and there are three blocks",
            n * (3 * d * d_ff + 2 * d_ff + d): "no layer has a bias",
        },
        {
            2 * n * d: "after the last block comes one more norm",
            2 * (2 * n + 1) * d: "an RMSNorm has a gain and no shift",
            4 * n * d: "an RMSNorm has no shift, and after the last block comes one more",
            2 * d: "that is one block; there are three, and one more norm after them",
            2 * n + 1: "that is how many norms there are; each has a gain for each feature",
            n * d: "a block has two norms, and after the last block comes one more",
            (n + 1) * d: "a block has two norms",
        },
        {
            n * g * d_k: "it leaves a key and a value for each of two heads, and these are 2 wide",
            2 * g * d_k: "that is one layer; there are three",
            2 * n * h * d_k: "only the two heads of keys and values are kept, not six",
            2 * n * g * d: "a head is d_model / n_heads = 2 wide, not 12",
            4 * n * g * d_k: "that is in bytes of 16-bit numbers; count numbers",
            2 * n * (2 * g + h) * d_k: "queries are not kept",
            n * (2 * g + h) * d_k: "queries are not kept",
        },
    ]
    return diagnose_each(answer, right, mistakes)


@exercise(
    "12.3",
    "What does a row of weights sum to? So what becomes of a vector that is added to each value?",
    "It reaches each head's output unchanged, and then w_o multiplies it. Heads that share their "
    "values share their part of the bias.",
    "Cut the bias of w_v into (2, 4), repeat each row three times in a row, flatten, multiply "
    "with w_o.weight from the left, and add the bias of w_o.",
)
def judge_12_3(answer):
    "Judge the vector that does the work of the biases of values and outputs."
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = GroupedQueryAttention(24, 6, 2).double().requires_grad_(False)
        for linear in (layer.w_q, layer.w_k, layer.w_v, layer.w_o):
            nn.init.normal_(linear.bias)
    weight, b_v, b_o = layer.w_o.weight, layer.w_v.bias, layer.w_o.bias
    parts = b_v.view(2, 4)
    each = parts.repeat_interleave(3, dim=0).flatten()  # (24,)
    try:
        given = answer(copy.deepcopy(layer))  # an answer may put the vector where it belongs
    except RuntimeError as error:
        return explain_error(error, _SHORT)
    mistakes = {
        "neighbouring heads share, 0 0 0 1 1 1; `repeat` gives 0 1 0 1 0 1, so take "
        "`repeat_interleave`": weight @ b_v.repeat(3) + b_o,
        "each number is repeated; repeat each head's part of four numbers": (
            weight @ b_v.repeat_interleave(3) + b_o
        ),
        "the bias of w_o is missing": weight @ each,
        "the bias of the values goes through w_o": each + b_o,
        "the bias of the values does something; add what w_o makes of it": b_o,
        "w_o is transposed; a linear layer computes weight @ x": weight.T @ each + b_o,
        "that is the bias of the values for each head; it still goes through w_o": each,
        "the bias of w_o is added before w_o multiplies; it comes after": weight @ (each + b_o),
        "that is three times too much; each head gets its part once": 3 * weight @ each + b_o,
        "a row of weights sums to 1, so nothing is divided by the number of words or heads": (
            weight @ each / 6 + b_o
        ),
        "the bias of the keys does nothing; take that of the values": (
            weight @ layer.w_k.bias.view(2, 4).repeat_interleave(3, dim=0).flatten() + b_o
        ),
    }
    return diagnose(given, weight @ each + b_o, mistakes)


_SHORT = {  # words of an error -> what was meant
    "(24x24, 8)": "the bias of w_v has 8 numbers, two heads of four; each head serves three heads "
    "of queries, so repeat them",
    "size mismatch": "the bias of w_v has 8 numbers, two heads of four; each head serves three "
    "heads of queries, so repeat them",
    "shapes cannot be multiplied": "the bias of w_v has 8 numbers, two heads of four; each head "
    "serves three heads of queries, so repeat them",
    "must match the size": "the bias of w_v has 8 numbers and that of w_o 24; the first goes "
    "through w_o before they are added",
}

_LAYER = {  # Llama's name in a layer -> ours in a block
    "input_layernorm": "norm_attention",
    "self_attn.q_proj": "attention.w_q",
    "self_attn.k_proj": "attention.w_k",
    "self_attn.v_proj": "attention.w_v",
    "self_attn.o_proj": "attention.w_o",
    "post_attention_layernorm": "norm_ff",
    "mlp.gate_proj": "ff.w_gate",
    "mlp.up_proj": "ff.w_in",
    "mlp.down_proj": "ff.w_out",
}
_CONFUSED = {  # Llama's name, and the wrong one of ours -> what to say
    ("gate_proj", "ff.w_in"): "gate and second match are exchanged; `gate_proj` is `w_gate`",
    ("up_proj", "ff.w_gate"): "gate and second match are exchanged; `up_proj` is `w_in`",
    ("up_proj", "ff.w_out"): "`up_proj` goes to the units, so it is `w_in`",
    ("down_proj", "ff.w_in"): "`down_proj` goes back from the units, so it is `w_out`",
    ("input_layernorm", "norm_ff"): "the two norms are exchanged; the input of a layer goes to "
    "attention first",
    ("post_attention_layernorm", "norm_attention"): "the norms are exchanged; after attention "
    "means before the network, in a pre-norm block",
    ("k_proj", "attention.w_v"): "keys and values are exchanged",
    ("v_proj", "attention.w_k"): "keys and values are exchanged",
    ("o_proj", "ff.w_out"): "`o_proj` mixes the heads, so it is attention's `w_o`",
    ("lm_head", "embed.tokens"): "this Llama's file has its head by itself, and ours has a name "
    "for it, too, `head.weight`",
    ("model.norm", "norm_ff"): "`model.norm` comes after the last block; ours is "
    "`stack.norm.weight`",
}


def llama_names(n_layers: int) -> dict[str, str]:  # their name -> ours
    "The names of all weights of a Llama that are ours in a `modern_decoder`."
    names = {
        "model.embed_tokens.weight": "embed.tokens.weight",
        "model.norm.weight": "stack.norm.weight",
        "lm_head.weight": "head.weight",
    }
    for i in range(n_layers):
        for theirs, ours in _LAYER.items():
            names[f"model.layers.{i}.{theirs}.weight"] = f"stack.blocks.{i}.{ours}.weight"
    return names


@exercise(
    "12.4",
    "Print the names of a `modern_decoder`, and write both lists side by side.",
    "A dictionary from their parts to ours, such as 'model.layers' to 'stack.blocks', and "
    "`name.replace(theirs, ours)` for each. The number of a block stays as it is.",
    "`input_layernorm` is `norm_attention`, `post_attention_layernorm` is `norm_ff`; `gate_proj`, "
    "`up_proj` and `down_proj` are `w_gate`, `w_in` and `w_out`.",
)
def judge_12_4(answer):
    "Judge names of ours for those of a Llama."
    names = llama_names(12)
    given = {}
    for theirs in names:
        try:
            given[theirs] = answer(theirs)
        except KeyError as error:
            if ".layers." not in theirs or ".layers.0." in theirs or error.args != (theirs,):
                raise
            return f"{theirs!r} is unknown to your table; a name keeps the number of its layer"
    for theirs, ours in names.items():
        problem = _misnamed(theirs, ours, given[theirs])
        if problem:
            return problem


def _misnamed(theirs, right, given):
    "What is wrong about one name, or None."
    if given is None:
        return "your function returned nothing; end it with `return` and the name"
    if given is ...:
        return "the three dots are still there; put your lines in their place"
    if not isinstance(given, str):
        return f"expected a name as a text, got {type(given).__name__}"
    if given == right:
        return None
    for (part, ours), sentence in _CONFUSED.items():
        if part in theirs and given.endswith(f"{ours}.weight"):
            return sentence
    if given == theirs:
        return f"{theirs!r} is returned as it came"
    if not given.endswith(".weight"):
        return f"{theirs!r}: our names end with '.weight', too, got {given!r}"
    if given.startswith("model."):
        return f"{theirs!r}: ours don't begin with 'model.', got {given!r}"
    if "layers" in given:
        return f"{theirs!r}: our layers are called 'blocks', got {given!r}"
    if right == f"stack.{given}":
        return f"{theirs!r}: in ours it is part of the stack, got {given!r}"
    if given == right.replace(".tokens", ""):
        return f"{theirs!r}: in ours the table is called 'tokens', got {given!r}"
    if given.startswith("stack.blocks.") and given.split(".")[2] != right.split(".")[2]:
        return f"{theirs!r}: the number of the block is lost, got {given!r}"
    return f"{theirs!r}: no weight of ours is called {given!r}"
