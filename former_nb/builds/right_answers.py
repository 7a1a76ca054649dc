"""The right answers to the lessons' exercises that ask for a function, one for each.

`check` looks in their source for what is missing in a wrong answer whose mistake no judge names.
`answer_01_1` is that of exercise 01.1. How each is derived stands on the pages of solutions.
"""

import math
from collections import Counter
from itertools import pairwise
from math import exp, log

import numpy as np
import torch
import torch.nn.functional as F

from ..attention.fused import attention
from ..attention.masks import causal_mask, padding_mask
from ..base.core import eval_mode
from ..data.subwords import merge
from ..data.text import BOS, IGNORE, PAD
from ..inspection.translation import count_runs
from ..training.losses import token_loss


def attention_in_steps(q, k, v, mask=None, is_causal=False):
    products = q @ k.mT
    scores = products / q.shape[-1] ** 0.5
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    if is_causal:
        scores = scores.masked_fill(~causal_mask(q.shape[-2]), -torch.inf)
    weights = scores.softmax(dim=-1)
    return weights @ v


def answer_01_1(x):
    scores = torch.bmm(x, x.transpose(1, 2))
    weights = scores.softmax(dim=2)
    return torch.bmm(weights, x)


def answer_01_3(x):
    scores = x @ x.transpose(1, 2)
    itself = torch.eye(x.shape[1], dtype=torch.bool)
    return scores.masked_fill(itself, float("-inf")).softmax(dim=-1)


def answer_01_4(x):
    return x.mean(dim=1, keepdim=True).expand_as(x)


def answer_02_1(q, k, v):
    scores = q @ k.T / k.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)
    return weights @ v


def answer_02_3(weights, v, g):
    d = g @ v.T
    return weights * (d - (d * weights).sum(dim=-1, keepdim=True))


def answer_02_4(x, memory, w_q, w_k, w_v):
    q, k, v = (x @ w_q, memory @ w_k, memory @ w_v)
    weights = (q @ k.T / k.shape[-1] ** 0.5).softmax(dim=-1)
    return weights @ v


def answer_03_1(x, w_q, w_k, w_v, w_o, n_heads):
    q = (x @ w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    k = (x @ w_k).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    v = (x @ w_v).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    y = attention(q, k, v)
    return y.transpose(1, 2).flatten(2) @ w_o


def answer_03_3(layer, i):
    mine = slice(i * layer.d_k, (i + 1) * layer.d_k)
    w_v = layer.w_v.weight.T[:, mine]
    w_o = layer.w_o.weight.T[mine]
    return w_v @ w_o


def answer_03_4(q, k, v, mask=None, is_causal=False):
    y = attention(q, k, v, mask, is_causal)
    y[:, 0] = 0
    return y


def answer_04_1(tokens):
    position = torch.arange(tokens.shape[1])
    past = position <= position[:, None]
    real = tokens != 0
    return past & real[:, None, None]


def answer_04_3(mask, n_layers):
    table = mask
    for _ in range(n_layers - 1):
        table = mask.double() @ table.double() > 0
    return table


def answer_05_1(max_len, d_model):
    frequency = 10000 ** (-torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(max_len)[:, None] * frequency
    table = torch.zeros(max_len, d_model)
    table[:, 0::2], table[:, 1::2] = (angles.sin(), angles.cos())
    return table


def answer_05_2(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def answer_05_4(x, table, real):
    places = (real.cumsum(dim=1) - 1).clamp(min=0)
    return x + table[places] * real[..., None]


def answer_05_5(s, d_model):
    angle = s * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    M = torch.zeros(d_model, d_model)
    sines, cosines = (torch.arange(0, d_model, 2), torch.arange(1, d_model, 2))
    M[sines, sines] = M[cosines, cosines] = angle.cos()
    M[sines, cosines], M[cosines, sines] = (angle.sin(), -angle.sin())
    return M


def answer_06_1(x, attention, ff, norm_attention, norm_ff):
    x = x + attention(norm_attention(x))
    return x + ff(norm_ff(x))


def answer_06_3(block, x):
    h = block.norm_attention(x)
    return x + block.dropout(block.attention(h, is_causal=True)) + block.dropout(block.ff(h))


def answer_06_4(w_in, b_in, w_out, b_out):
    return (w_out @ w_in, w_out @ b_in + b_out)


def answer_07_1(rows):
    T = max(map(len, rows)) - 1
    inputs, targets = (torch.full((len(rows), T), 0), torch.full((len(rows), T), -100))
    for i, row in enumerate(rows):
        inputs[i, : len(row) - 1] = torch.tensor(row[:-1])
        targets[i, : len(row) - 1] = torch.tensor(row[1:])
    return (inputs, targets)


def answer_07_3(mean, lengths):
    positions = len(lengths) * (max(lengths) - 1)
    return mean * positions / sum(n - 1 for n in lengths)


def answer_08_1(model, batches, optimizer):
    losses = []
    for inputs, targets in batches:
        loss = token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def answer_08_3(p, n_rows, n_models):
    up_to, total = (0.0, 0.0)
    for k in range(n_rows):
        ways = math.lgamma(n_rows + 1) - math.lgamma(k + 1) - math.lgamma(n_rows - k + 1)
        up_to += math.exp(ways + k * math.log(p) + (n_rows - k) * math.log(1 - p))
        total += 1 - min(up_to, 1.0) ** n_models
    return total / n_rows


def answer_08_4(model, batches):
    lengths, rights = ([], [])
    with eval_mode(model):
        for inputs, targets in batches:
            counts = targets != IGNORE
            right = ((model(inputs).argmax(-1) == targets) | ~counts).all(-1)
            lengths += counts.sum(-1).tolist()
            rights += right.tolist()
    rows = list(zip(lengths, rights))
    return {
        n: sum((r for m, r in rows if m == n)) / lengths.count(n)
        for n in sorted(set(lengths) - {0})
    }


def answer_09_1(x, real):
    total = x.masked_fill(~real[..., None], 0.0).sum(dim=1)
    return total / real.sum(dim=1, keepdim=True).clamp(min=1)


def answer_09_3(q, shares):
    p = q * shares
    return p / p.sum(-1, keepdim=True)


def answer_09_4(x, real, query):
    scores = (x @ query / math.sqrt(x.shape[-1])).masked_fill(~real, -torch.inf)
    weights = scores.softmax(-1).masked_fill(~real, 0.0)
    return (weights[..., None] * torch.where(real[..., None], x, 0)).sum(1)


def answer_10_1(logits, targets):
    each = F.cross_entropy(logits.transpose(1, 2), targets, ignore_index=IGNORE, reduction="none")
    return each.sum(dim=1)


def answer_10_3(targets, vocab_size):
    counts = F.one_hot(targets, vocab_size).sum(dim=1).float()
    return torch.xlogy(counts, counts).mean()


def answer_11_1(q, k, v, cache):
    cache["k"] = torch.cat([cache["k"], k], dim=2) if cache else k
    cache["v"] = torch.cat([cache["v"], v], dim=2) if "v" in cache else v
    return attention(q, cache["k"], cache["v"])


def answer_11_3(n):
    return (n + 2) / 3


def answer_12_1(x, w, attend):

    def my_norm(x, gain):
        return gain * x / (x.square().mean(dim=-1, keepdim=True) + 1e-05).sqrt()

    def my_heads(t):
        return t.unflatten(-1, (-1, 4)).transpose(1, 2)

    normed = my_norm(x, w["gain_attention"])
    q = my_heads(normed @ w["w_q"])
    k = my_heads(normed @ w["w_k"])
    v = my_heads(normed @ w["w_v"])
    y = attend(q, k, v, is_causal=True)
    x = x + y.transpose(1, 2).flatten(2) @ w["w_o"]
    normed = my_norm(x, w["gain_ff"])
    return x + F.silu(normed @ w["w_gate"]) * (normed @ w["w_in"]) @ w["w_out"]


def answer_12_3(layer):
    parts = layer.w_v.bias.unflatten(0, (-1, layer.d_k))
    shared = layer.w_q.out_features // layer.w_v.out_features
    each = parts.repeat_interleave(shared, dim=0).flatten()
    return layer.w_o.weight @ each + layer.w_o.bias


def answer_12_4(name):
    parts = {
        "model.embed_tokens": "embed.tokens",
        "model.layers": "stack.blocks",
        "model.norm": "stack.norm",
        "lm_head": "head",
        "input_layernorm": "norm_attention",
        "post_attention_layernorm": "norm_ff",
        "self_attn.q_proj": "attention.w_q",
        "self_attn.k_proj": "attention.w_k",
        "self_attn.v_proj": "attention.w_v",
        "self_attn.o_proj": "attention.w_o",
        "mlp.gate_proj": "ff.w_gate",
        "mlp.up_proj": "ff.w_in",
        "mlp.down_proj": "ff.w_out",
    }
    for theirs, ours in parts.items():
        name = name.replace(theirs, ours)
    return name


def answer_13_1(layer, x, memory):
    q = layer.split(layer.w_q(x))
    k = layer.split(layer.w_k(memory))
    v = layer.split(layer.w_v(memory))
    y = attention(q, k, v)
    return layer.w_o(layer.merge(y))


def answer_13_2(src, tgt):
    return (padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src))


def answer_13_4(vocab_size, d_model):
    return log(exp(d_model**0.5) + (vocab_size - 1) * exp(0.5))


def answer_14_1(model, src, steps):
    memory, mask = (model.encode(src), padding_mask(src))
    tokens = torch.full((len(src), 1), BOS, device=src.device)
    for _ in range(steps):
        logits = model.decode(tokens, memory, mask)[:, -1]
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    return tokens


def answer_14_3(tgt, logits, own):
    said = torch.cat([tgt[:, :1], logits.argmax(-1)[:, :-1]], dim=1)
    return torch.where(own & (tgt != PAD), said, tgt)


def answer_14_4(S, T):
    return (14 * T + 2 * S * T) / (14 * T + 2 * S)


def answer_15_1(row, pair):
    out = []
    for piece in row:
        if out and (out[-1], piece) == pair:
            out[-1] = out[-1] + piece
        else:
            out.append(piece)
    return out


def answer_15_2(words, n_merges):
    rows = [list(word) for word in words]
    merges = []
    while len(merges) < n_merges:
        pairs = Counter()
        for row in rows:
            pairs.update(pairwise(row))
        if not pairs:
            break
        pair, n = pairs.most_common(1)[0]
        if n < 2:
            break
        merges.append(pair)
        rows = [merge(row, pair) for row in rows]
    return merges


def answer_15_4(loss, n_tokens, n_characters):
    return loss * n_tokens / n_characters / math.log(2)


def answer_16_1(hypothesis, reference, n):
    runs = Counter()
    for i in range(len(hypothesis) - n + 1):
        runs[tuple(hypothesis[i : i + n])] += 1
    right = Counter()
    for i in range(len(reference) - n + 1):
        right[tuple(reference[i : i + n])] += 1
    shared = sum(min(runs[run], right[run]) for run in runs)
    return (shared, sum(runs.values()))


def answer_16_2(states):
    return {
        name: sum(s[name] for s in states) / len(states) if t.is_floating_point() else t
        for name, t in states[0].items()
    }


def answer_16_4(hypothesis, references):
    counts = []
    for n in [1, 2, 3, 4]:
        runs = count_runs(hypothesis, n)
        most = Counter()
        for reference in references:
            most |= count_runs(reference, n)
        counts += [(runs & most).total(), runs.total()]
    lengths = [len(reference) for reference in references]
    nearest = min(lengths, key=lambda r: (abs(r - len(hypothesis)), r))
    return np.array([*counts, len(hypothesis), nearest])


def answer_16_5(s):
    return (100 * (1 - math.exp(1 - 1 / (1 - s))), 100 * (1 - 1 / (1 + s)))


def answer_16_7(logits):
    return logits.log_softmax(-1).logsumexp(0) - torch.tensor(float(len(logits))).log()
