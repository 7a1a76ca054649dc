"""A beginning of a Transformer as somebody writes it for another course, under other names."""

import math

import torch
import torch.nn as nn
from einops import einsum, rearrange


class Linear(nn.Module):
    def __init__(self, in_features, out_features, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(
            torch.empty(out_features, in_features, device=device, dtype=dtype)
        )
        nn.init.trunc_normal_(self.weight, std=math.sqrt(2 / (in_features + out_features)))

    def forward(self, x):
        return x @ self.weight.T


class RMSNormLayer(nn.Module):
    def __init__(self, d_model, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.gain = nn.Parameter(torch.ones(d_model))

    def forward(self, x):
        in_dtype = x.dtype
        x = x.to(torch.float32)
        rms = torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return (x / rms * self.gain).to(in_dtype)


def silu(x):
    return x * torch.sigmoid(x)


class SwiGLUFeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False)
        self.w2 = nn.Linear(d_ff, d_model, bias=False)
        self.w3 = nn.Linear(d_model, d_ff, bias=False)

    def forward(self, x):
        return self.w2(silu(self.w1(x)) * self.w3(x))


def softmax(x, dim):
    x = x - x.max(dim=dim, keepdim=True).values
    e = torch.exp(x)
    return e / e.sum(dim=dim, keepdim=True)


def scaled_dot_product_attention(Q, K, V, mask=None):
    d_k = Q.shape[-1]
    scores = einsum(Q, K, "... q d, ... k d -> ... q k") / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return softmax(scores, -1) @ V


class MultiheadSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.output_proj = nn.Linear(d_model, d_model, bias=False)

    def forward(self, x):
        q, k, v = (
            rearrange(p(x), "b t (h d) -> b h t d", h=self.num_heads)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        T = x.shape[-2]
        mask = torch.tril(torch.ones(T, T, dtype=torch.bool, device=x.device))
        y = scaled_dot_product_attention(q, k, v, mask)
        return self.output_proj(rearrange(y, "b h t d -> b t (h d)"))


def cosine_schedule(it, max_lr, min_lr, warmup, total):
    if it < warmup:
        return it / warmup * max_lr
    if it > total:
        return min_lr
    return min_lr + 0.5 * (1 + math.cos((it - warmup) / (total - warmup) * math.pi)) * (
        max_lr - min_lr
    )
