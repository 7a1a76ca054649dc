"Lesson 06: the block."

import torch.nn.functional as F
from torch import nn

from .lesson_02 import attention
from .lesson_03 import MultiHeadAttention


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, activation=F.gelu):
        super().__init__()
        self.w_in = nn.Linear(d_model, d_ff)
        self.w_out = nn.Linear(d_ff, d_model)
        self.activation = activation
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_out(self.dropout(self.activation(self.w_in(x))))


class Block(nn.Module):
    def __init__(self, attention, ff, norm_attention, norm_ff, dropout=0.0):
        super().__init__()
        self.attention = attention
        self.ff = ff
        self.norm_attention = norm_attention
        self.norm_ff = norm_ff
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))
        return x + self.dropout(self.ff(self.norm_ff(x)))


def make_block(d_model, n_heads, d_ff, dropout=0.0):
    return Block(
        MultiHeadAttention(d_model, n_heads),
        FeedForward(d_model, d_ff, dropout),
        nn.LayerNorm(d_model),
        nn.LayerNorm(d_model),
        dropout,
    )


class Stack(nn.Module):
    def __init__(self, blocks, norm, rotary=None):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm
        self.rotary = rotary  # around each `attend`; None where positions are added to the tokens

    def forward(self, x, mask=None, is_causal=False, attend=attention, positions=None):
        for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
            x = block(x, mask, is_causal, attend_here)
        return self.norm(x)

    def attend_by_block(self, attend, positions):  # one for all blocks, or a list with one for each
        attends = attend if isinstance(attend, list) else [attend] * len(self.blocks)
        if self.rotary is None:
            return attends
        return [self.rotary(attend_here, positions) for attend_here in attends]


# ---------------------------------------------------------------- questions
