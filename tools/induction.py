"""The training that the figure "The induction head" shows: one layer and two, on rows that repeat.

python tools/induction.py   trains both, some ten seconds, and writes docs/_ext/induction_head.json

A few steps of the two layers are kept, with weights of 8 bits. Beside them is what PyTorch says
with the same weights, which tests/test_figures.py compares with the figure.
"""

import base64
import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from former_nb.attention.angle_tables import Rotary
from former_nb.attention.fused import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.base.core import set_seed
from former_nb.inspection.ablation import ablate_heads

HERE = Path(__file__).resolve().parents[1] / "docs" / "_ext"
LETTERS, LENGTH, WIDTH = 26, 40, 16
STEPS, SAVED = 800, [0, 100, 150, 170, 180, 200, 800]
ROWS = ["harmonicharmo", "kfacetkfa", "abcdefgh"]  # that the figure is compared on


class AttentionOnly(nn.Module):
    def __init__(self, n_layers):
        super().__init__()
        self.embed = nn.Embedding(LETTERS, WIDTH)
        self.layers = nn.ModuleList(
            MultiHeadAttention(WIDTH, 1, bias=False) for _ in range(n_layers)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(n_layers))
        self.rotary = Rotary(d_k=WIDTH)
        self.last_norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, LETTERS, bias=False)

    def forward(self, tokens):  # (B, T)
        x = self.embed(tokens)  # (B, T, WIDTH)
        attend = self.rotary(attention, torch.arange(tokens.shape[1]))
        for layer, norm in zip(self.layers, self.norms):
            x = x + layer(norm(x), attend=attend, is_causal=True)
        return self.head(self.last_norm(x))  # (B, T, LETTERS)


def repeating_rows(n):
    letters = torch.randint(LETTERS, (n, LENGTH))
    period = torch.randint(6, 21, (n, 1))
    position = torch.arange(LENGTH)
    tokens = letters.gather(1, position % period)
    predictable = position > period
    return tokens[:, :-1], tokens[:, 1:], predictable[:, 1:]


set_seed(999)
inputs, targets, predictable = repeating_rows(1000)


@torch.no_grad()
def measure(model):  # loss and share that is right, on rows that were never trained on
    logits = model(inputs)
    right = (logits.argmax(dim=-1) == targets)[predictable].float().mean().item()
    return F.cross_entropy(logits[predictable], targets[predictable]).item(), right


def train(n_layers, seed=0):
    set_seed(seed)
    model = AttentionOnly(n_layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3, betas=(0.9, 0.98))
    curve, saved = [], []
    for step in range(STEPS + 1):
        if step % 10 == 0:
            curve.append(round(measure_fast(model), 3))
        if step in SAVED:
            saved.append({name: w.detach().clone() for name, w in model.named_parameters()})
        warm, rest = min(1, (step + 1) / 100), min(1, (STEPS - step) / 240)
        optimizer.param_groups[0]["lr"] = 8e-3 * warm * rest
        tokens, wanted, mask = repeating_rows(64)
        loss = F.cross_entropy(model(tokens)[mask], wanted[mask])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return model.requires_grad_(False), curve, saved


@torch.no_grad()
def measure_fast(model):
    logits = model(inputs[:200])
    mask = predictable[:200]
    return F.cross_entropy(logits[mask], targets[:200][mask]).item()


def to_bytes(saved):  # the 8-bit numbers of all tensors, and the scale of each
    scales, numbers = [], []
    for w in saved.values():
        scale = max(w.abs().max().item(), 1e-6) / 127
        scales.append(float(f"{scale:.6g}"))
        numbers.append((w / scales[-1]).round().clamp(-127, 127).to(torch.int8).flatten())
    return {
        "scales": scales,
        "numbers": base64.b64encode(torch.cat(numbers).numpy().tobytes()).decode(),
    }


def digits(row):
    return [round(number, 5) for number in row.tolist()]


def rounded_model(saved):  # the model that the page has
    model = AttentionOnly(2)
    for (_, parameter), w in zip(model.named_parameters(), saved.values()):
        scale = float(f"{max(w.abs().max().item(), 1e-6) / 127:.6g}")
        parameter.data = (w / scale).round().clamp(-127, 127) * scale
    return model.requires_grad_(False)


two, curve_two, saved = train(2)
one, curve_one, _ = train(1)
print("one layer: loss {:.3f}, right {:.3f}".format(*measure(one)))
print("two layers: loss {:.3f}, right {:.3f}".format(*measure(two)))

proof, table = [], []
for step, weights in zip(SAVED, saved):
    model = rounded_model(weights)
    loss, right = measure(model)
    with ablate_heads(model, [("self", 1, 1)]):
        cut_loss, cut = measure(model)
    table.append([round(loss, 3), round(right, 3), round(cut, 3)])
    print(f"step {step:3}, 8 bits: loss {loss:.3f}, right {right:.3f}; cut {cut:.3f}")
    for row in ROWS:
        tokens = torch.tensor([[ord(letter) - 97 for letter in row]])
        p = model(tokens)[0, -1].softmax(dim=-1)
        with ablate_heads(model, [("self", 1, 1)]):
            without = model(tokens)[0, -1].softmax(dim=-1)
        proof.append({"step": step, "row": row, "p": digits(p), "without": digits(without)})

names = [[name, list(w.shape)] for name, w in saved[0].items()]
data = {
    "width": WIDTH,
    "length": LENGTH,
    "tensors": names,
    "saved": [{"step": step, **to_bytes(weights)} for step, weights in zip(SAVED, saved)],
    "table": table,
    "every": 10,
    "curves": {"one": curve_one, "two": curve_two},
}
text = json.dumps({**data, "proof": proof}, separators=(",", ":"))
(HERE / "induction_head.json").write_text(f"{text}\n", encoding="utf-8")
