"""Build A's right answer, which its judge edits: the file of the solutions page, line by line."""

import torch
from torch import nn


def attention_weights(q, k, mask=None, is_causal=False):  # (B, h, T, d_k), (B, h, S, d_k)
    scores = q @ k.mT / q.shape[-1] ** 0.5  # (B, h, T, S)
    T, S = scores.shape[-2:]
    allowed = torch.ones(T, S, dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = allowed.tril(S - T)
    if mask is not None:
        allowed = allowed & mask
    empty = ~allowed.any(dim=-1, keepdim=True)  # queries that may attend to nothing
    scores = scores.masked_fill(~allowed, float("-inf")).masked_fill(empty, 0.0)
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


def attention(q, k, v, mask=None, is_causal=False):
    return attention_weights(q, k, mask, is_causal) @ v  # (B, h, T, d_v)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def split(self, x):  # (B, T, d_model) -> (B, h, T, d_k)
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def forward(self, x, mask=None, is_causal=False):
        q, k, v = self.split(self.w_q(x)), self.split(self.w_k(x)), self.split(self.w_v(x))
        y = attention(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        return self.w_o(y.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.attention = MultiHeadAttention(d_model, n_heads)
        self.ff = nn.Sequential(nn.Linear(d_model, d_ff), nn.GELU(), nn.Linear(d_ff, d_model))
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_ff = nn.LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None, is_causal=False):
        x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal))
        return x + self.dropout(self.ff(self.norm_ff(x)))


class Stack(nn.Module):
    def __init__(self, n_layers, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        blocks = [Block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(d_model)

    def forward(self, x, mask=None, is_causal=False):
        for block in self.blocks:
            x = block(x, mask, is_causal)
        return self.norm(x)


class Encoder(nn.Module):
    def __init__(self, vocab_size, max_len, n_layers, d_model, n_heads, d_ff, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Parameter(torch.randn(max_len, d_model) * 0.02)
        self.stack = Stack(n_layers, d_model, n_heads, d_ff, dropout)

    def forward(self, tokens, is_causal=False):  # (B, T)
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]  # (B, T, d_model)
        real = (tokens != 0)[:, None, None]  # (B, 1, 1, T)
        return self.stack(x, real, is_causal)
