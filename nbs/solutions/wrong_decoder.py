import json

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


def turn(x, cos, sin):  # (B, h, T, d_k), (T, d_k / 2) twice
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, second * cos + first * sin], dim=-1).flatten(-2)


class Decoder:
    def __init__(self, config, weights):
        self.weights = weights
        self.n_layers = config["num_hidden_layers"]
        self.n_heads = config["num_attention_heads"]
        self.n_kv_heads = config["num_key_value_heads"]
        self.d_k = config.get("head_dim") or config["hidden_size"] // self.n_heads
        self.eps = config["rms_norm_eps"]
        self.base = config["rope_theta"]
        embedding = weights["model.embed_tokens.weight"]
        self.head = embedding if config["tie_word_embeddings"] else weights["lm_head.weight"]

    def linear(self, x, name):
        return F.linear(x, self.weights[f"{name}.weight"])

    def norm(self, x, name):
        size = x.square().mean(dim=-1, keepdim=True)
        return x * torch.rsqrt(size + self.eps) * self.weights[f"{name}.weight"]

    def split(self, x, n_heads):  # (B, T, h * d_k) -> (B, h, T, d_k)
        return x.unflatten(-1, (n_heads, self.d_k)).transpose(1, 2)

    def attention(self, x, name, cos, sin):
        q = self.split(self.linear(x, f"{name}.q_proj"), self.n_heads)
        k = self.split(self.linear(x, f"{name}.k_proj"), self.n_kv_heads)
        v = self.split(self.linear(x, f"{name}.v_proj"), self.n_kv_heads)
        shared = self.n_heads // self.n_kv_heads
        q = turn(q, cos, sin)
        k = turn(k, cos, sin).repeat_interleave(shared, dim=1)
        v = v.repeat_interleave(shared, dim=1)
        scores = q @ k.mT / self.d_k**0.5  # (B, h, T, T)
        future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        y = scores.masked_fill(future, float("-inf")).softmax(dim=-1) @ v
        return self.linear(y.transpose(1, 2).flatten(2), f"{name}.o_proj")

    def network(self, x, name):
        gate = F.silu(self.linear(x, f"{name}.gate_proj"))
        return self.linear(gate * self.linear(x, f"{name}.up_proj"), f"{name}.down_proj")

    def __call__(self, tokens):  # (B, T) -> (B, T, vocab_size)
        frequencies = self.base ** (-torch.arange(0, self.d_k, 2) / self.d_k)
        angles = torch.arange(tokens.shape[1])[:, None] * frequencies  # (T, d_k / 2)
        cos, sin = angles.cos(), angles.sin()
        x = self.weights["model.embed_tokens.weight"][tokens]  # (B, T, d_model)
        for i in range(self.n_layers):
            layer = f"model.layers.{i}"
            y = self.norm(x, f"{layer}.input_layernorm")
            x = x + self.attention(y, f"{layer}.self_attn", cos, sin)
            y = self.norm(x, f"{layer}.post_attention_layernorm")
            x = x + self.network(y, f"{layer}.mlp")
        return F.linear(self.norm(x, "model.norm"), self.head)


def load(folder):
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    return Decoder(config, {name: t.float() for name, t in weights.items()})


def generate(model, tokens, n):  # (B, T) -> (B, T + n)
    for _ in range(n):
        best = model(tokens)[:, -1].argmax(dim=-1, keepdim=True)  # (B, 1)
        tokens = torch.cat([tokens, best], dim=1)
    return tokens
