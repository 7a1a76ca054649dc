"Lesson 13: the encoder–decoder."

import torch
from torch import nn

from .lesson_02 import attention
from .lesson_03 import MultiHeadAttention
from .lesson_04 import padding_mask
from .lesson_05 import LearnedPositions
from .lesson_06 import Block, FeedForward, Stack, make_block
from .lesson_07 import IGNORE, PAD, Embedding, pad_rows


class CrossAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None, is_causal=False, attend=attention):
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(memory))
        v = self.split(self.w_v(memory))
        y = attend(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        return self.w_o(self.merge(y))


class DecoderBlock(Block):
    def __init__(self, attention, cross, ff, norm_attention, norm_cross, norm_ff, dropout=0.0):
        super().__init__(attention, ff, norm_attention, norm_ff, dropout)
        self.cross = cross
        self.norm_cross = norm_cross

    def forward(self, x, memory, memory_mask=None, attend=attention):
        x = x + self.dropout(self.attention(self.norm_attention(x), None, True, attend))
        x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        return x + self.dropout(self.ff(self.norm_ff(x)))


class Decoder(Stack):
    def forward(self, x, memory, memory_mask=None, attend=attention, positions=None):
        for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
            x = block(x, memory, memory_mask, attend_here)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    def __init__(self, embed, encoder, decoder, tgt_embed=None):
        super().__init__()
        self.src_embed = embed
        self.tgt_embed = tgt_embed or embed  # one vocabulary for both sides, or two
        self.encoder = encoder
        self.decoder = decoder
        vocab_size, d_model = self.tgt_embed.tokens.weight.shape
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tgt_embed.tokens.weight  # one matrix for tokens and logits

    def encode(self, src):  # (B, S) -> (B, S, d_model)
        positions = torch.arange(src.shape[1], device=src.device)
        x = self.src_embed(src, positions)
        return self.encoder(x, padding_mask(src), positions=positions)

    def decode(self, tgt, memory, memory_mask=None, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(tgt.shape[1], device=tgt.device)
        x = self.tgt_embed(tgt, positions)
        x = self.decoder(x, memory, memory_mask, attend, positions)
        return self.head(x)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))


def translator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    encoder, decoder = [], []
    for _ in range(n_layers):
        encoder.append(make_block(d_model, n_heads, d_ff, dropout))
        block = DecoderBlock(
            MultiHeadAttention(d_model, n_heads),
            CrossAttention(d_model, n_heads),
            FeedForward(d_model, d_ff, dropout),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            dropout,
        )
        decoder.append(block)
    return EncoderDecoder(
        Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout),
        Stack(encoder, nn.LayerNorm(d_model)),
        Decoder(decoder, nn.LayerNorm(d_model)),
    )


def collate_pairs(rows, pad=PAD):  # (source, target) pairs of rows
    src = pad_rows([source for source, target in rows], pad)
    tgt = pad_rows([target[:-1] for source, target in rows], pad)
    targets = pad_rows([target[1:] for source, target in rows], IGNORE)
    return (src, tgt), targets


# ---------------------------------------------------------------- questions
