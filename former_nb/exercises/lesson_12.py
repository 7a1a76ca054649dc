"Lesson 12: a modern decoder."

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from .lesson_03 import MultiHeadAttention
from .lesson_06 import Block, Stack
from .lesson_07 import Embedding
from .lesson_10 import LanguageModel


def rotate(x, cos, sin):  # (B, h, T, d_k), (T, d_k / 2), (T, d_k / 2)
    a, b = x.chunk(2, dim=-1)
    turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return turned.type_as(x)


class Rotary(nn.Module):
    def __init__(self, d_k, base=10_000.0):
        super().__init__()
        even = torch.arange(0, d_k, 2, dtype=torch.float64)
        self.frequency = base ** (-even / d_k)  # (d_k / 2,), the angle per position

    def forward(self, attend, positions):  # what to call instead of `attend`; (T,)
        angle = positions.cpu()[..., None] * self.frequency  # (T, d_k / 2), in float64

        def attend_rotated(q, k, v, mask=None, is_causal=False):
            cos = angle.cos().float().to(q.device)
            sin = angle.sin().float().to(q.device)
            return attend(rotate(q, cos, sin), rotate(k, cos, sin), v, mask, is_causal)

        return attend_rotated


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, bias=False):
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias)
        self.w_in = nn.Linear(d_model, d_ff, bias)
        self.w_out = nn.Linear(d_ff, d_model, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_out(self.dropout(F.silu(self.w_gate(x)) * self.w_in(x)))


class GroupedQueryAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, n_kv_heads=None, d_k=None, bias=True):
        nn.Module.__init__(self)
        self.d_k = d_k or d_model // n_heads
        n_kv_heads = n_kv_heads or n_heads
        self.w_q = nn.Linear(d_model, n_heads * self.d_k, bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias)
        self.w_o = nn.Linear(n_heads * self.d_k, d_model, bias)


def modern_decoder(
    vocab_size,
    d_model,
    n_heads,
    n_kv_heads,
    n_layers,
    d_ff,
    d_k=None,
    base=10_000.0,
    eps=1e-5,
    dropout=0.0,
):
    blocks = []
    for _ in range(n_layers):
        heads = GroupedQueryAttention(d_model, n_heads, n_kv_heads, d_k, bias=False)
        norms = RMSNorm(d_model, eps), RMSNorm(d_model, eps)
        blocks.append(Block(heads, SwiGLU(d_model, d_ff, dropout), *norms, dropout))
    rotary = Rotary(d_k or d_model // n_heads, base)
    stack = Stack(blocks, RMSNorm(d_model, eps), rotary)
    return LanguageModel(Embedding(vocab_size, d_model, dropout=dropout), stack)


LLAMA_NAMES = {  # Hugging Face's names for the parts of a Llama, and ours
    "model.embed_tokens": "embed.tokens",
    "model.layers": "stack.blocks",
    "model.norm": "stack.norm",
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


def load_llama(folder):  # a folder as Hugging Face writes it, with a tied head
    from safetensors.torch import load_file

    c = json.loads((Path(folder) / "config.json").read_text())
    model = modern_decoder(
        c["vocab_size"],
        c["hidden_size"],
        c["num_attention_heads"],
        c["num_key_value_heads"],
        c["num_hidden_layers"],
        c["intermediate_size"],
        c.get("head_dim"),
        c["rope_theta"],
        c["rms_norm_eps"],
    )
    weights = {}
    for name, tensor in load_file(Path(folder) / "model.safetensors").items():
        for theirs, ours in LLAMA_NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = tensor.float()
    weights["head.weight"] = weights["embed.tokens.weight"]
    model.load_state_dict(weights)
    return model.eval()


# ---------------------------------------------------------------- questions
