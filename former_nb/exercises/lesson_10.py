"Lesson 10: a generator."

import torch
from torch import nn

from .lesson_02 import attention
from .lesson_05 import LearnedPositions
from .lesson_06 import Stack, make_block
from .lesson_07 import Embedding


class LanguageModel(nn.Module):
    def __init__(self, embed, stack):
        super().__init__()
        self.embed = embed
        self.stack = stack
        vocab_size, d_model = embed.tokens.weight.shape
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = embed.tokens.weight  # one matrix for tokens and logits

    def forward(self, tokens, attend=attention, positions=None):  # (B, T) -> (B, T, vocab_size)
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens, positions)
        x = self.stack(x, None, True, attend, positions)
        return self.head(x)


def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    blocks = [make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
    embed = Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout)
    return LanguageModel(embed, Stack(blocks, nn.LayerNorm(d_model)))


# ---------------------------------------------------------------- questions
