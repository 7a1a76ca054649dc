"Lesson 12: a modern decoder."

import atexit
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, exercise, question
from .lesson_02 import attention, repeat_kv
from .lesson_03 import MultiHeadAttention
from .lesson_06 import Block, Stack
from .lesson_07 import Embedding
from .lesson_10 import LanguageModel
from .parts import a_mask, ask_layer, spy


def rotate(x, cos, sin):  # (B, h, T, d_k), (T, d_k / 2), (T, d_k / 2)
    # ? Number i and number i + d_k / 2 of a head are one pair, which is turned by angle i.
    # ? The first half becomes a * cos - b * sin, the second a * sin + b * cos.
    a, b = x.chunk(2, dim=-1)
    #! pairs are numbers i and i + d_k / 2, the two halves; yours takes neighbours and then lays their
    #! halves one behind the other
    # ~ a, b = x[..., ::2], x[..., 1::2]
    #! pairs are numbers i and i + d_k / 2, the two halves, because that is how Hugging Face keeps a
    #! Llama; yours turns neighbours, as the paper and Meta's files do: as good, but the weights that
    #! `load_llama` reads don't fit
    # ~ a, b = x[..., ::2], x[..., 1::2]
    # ~ turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1) -> turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    #! the angles are doubled for neighbours, 0 0 1 1, but the pairs are halves, so the angles come
    #! twice one behind the other, 0 1 0 1
    # ~ turned = torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)
    # ~ torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1) -> x * cos.repeat_interleave(2, -1) + turned * sin.repeat_interleave(2, -1)
    #! the angles come one behind the other, 0 1 0 1, as they have to for halves, but yours turns
    #! neighbours; take the halves as pairs
    # ~ turned = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    # ~ torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1) -> x * torch.cat([cos, cos], -1) + turned * torch.cat([sin, sin], -1)
    #! the halves are exchanged: a is the first one
    # ~ b, a = x.chunk(2, dim=-1)
    turned = torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    #! that turns backwards, because the signs of both sines are exchanged
    # ~ turned = torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)
    #! the second number of a pair becomes a sin + b cos; yours is turned like the first
    # ~ turned = torch.cat([a * cos - b * sin, a * cos + b * sin], dim=-1)
    #! a sign is wrong in the second half: it is a sin + b cos, or lengths would change
    # ~ turned = torch.cat([a * cos - b * sin, a * sin - b * cos], dim=-1)
    #! a sign is wrong in the first half: it is a cos - b sin, or lengths would change
    # ~ turned = torch.cat([a * cos + b * sin, a * sin + b * cos], dim=-1)
    #! cosine and sine are exchanged
    # ~ turned = torch.cat([a * sin - b * cos, a * cos + b * sin], dim=-1)
    #! the halves come back in the wrong order
    # ~ turned = torch.cat([a * sin + b * cos, a * cos - b * sin], dim=-1)
    #! the first half was overwritten before the second was made of it; keep both until the end
    # ~ a = a * cos - b * sin
    #| turned = torch.cat([a, a * sin + b * cos], dim=-1)
    #! the halves were joined along another axis; they are halves of the features, so dim=-1
    # ~ turned = torch.cat([a * cos - b * sin, a * sin + b * cos])
    #! `torch.stack` makes a new axis; `torch.cat` with dim=-1 joins the two halves
    # ~ turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    #! the pairs are turned, but their numbers come back as neighbours; `torch.cat` lays the two halves
    #! one behind the other
    # ~ turned = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    return turned.type_as(x)
    #! numbers in bfloat16 come back as float32, because cos and sin are float32; queries and keys have
    #! to keep their type, or they no longer fit the values: `type_as(x)`
    # ~ return turned
    #! the result is always float32; it has the type of x
    # ~ return turned.float()


class Rotary(nn.Module):
    def __init__(self, d_k, base=10_000.0):
        super().__init__()
        even = torch.arange(0, d_k, 2, dtype=torch.float64, device="cpu")
        #! frequencies and angles are float32, which keeps 7 digits: at position 100,000 an angle is wrong
        #! in its third decimal; compute them in float64, and make cos and sin float32 at the end
        # ~ even = torch.arange(0, d_k, 2, dtype=torch.float32)
        #! the exponent of pair i is -2i / d_k; yours has -i / d_k, so the slow half of the frequencies
        #! is missing
        # ~ even = torch.arange(0, d_k // 2, dtype=torch.float64)
        #! the pairs are counted from 0 on, so the first has frequency 1
        # ~ even = torch.arange(2, d_k + 1, 2, dtype=torch.float64)
        self.frequency = base ** (-even / d_k)  # (d_k / 2,), the angle per position
        #! the frequencies fall from 1 on, so the exponent is negative
        # ~ self.frequency = base ** (even / d_k)
        #! the exponent of pair i is -2i / d_k; yours has twice that, so most pairs hardly turn
        # ~ self.frequency = base ** (-2 * even / d_k)
        #! the base that it is given isn't used
        # ~ self.frequency = 10_000.0 ** (-even / d_k)
        #! all pairs turn alike; each has a frequency of its own, so that near and far distances show
        # ~ self.frequency = base ** (-even / d_k) * 0 + 1
        #! a buffer is saved with the weights, and a file of weights from elsewhere has none; keep the
        #! frequencies as a plain attribute
        # ~ self.register_buffer("frequency", base ** (-even / d_k))
        #! a buffer is rounded with the model: after model.bfloat16() each frequency has 3 digits left,
        #! and far positions turn by wrong angles; keep the frequencies as a plain attribute
        # ~ self.register_buffer("frequency", base ** (-even / d_k), persistent=False)

    def forward(self, attend, positions):  # what to call instead of `attend`; (T,)
        angle = positions.cpu()[..., None] * self.frequency  # (T, d_k / 2), in float64
        #! the positions that it is given aren't used: a text that goes on from a cache begins further
        #! than 0
        # ~ angle = torch.arange(len(positions))[..., None] * self.frequency
        #! the first position is 0, which doesn't turn
        # ~ angle = (positions.cpu()[..., None] + 1) * self.frequency
        #! positions from 512 on begin again: a table of so many rows, or a remainder
        # ~ angle = positions.cpu()[..., None] % 512 * self.frequency
        #! positions are counted from the first one; that is right within a text, but keys in a cache were
        #! counted from the beginning
        # ~ angle = (positions - positions[0]).cpu()[..., None] * self.frequency
        #! positions are rounded to bfloat16, which has 8 bits, so 257 becomes 256; compute angles in
        #! float64
        # ~ angle = positions.cpu().bfloat16().double()[..., None] * self.frequency
        #! positions are rounded to float16, which has 11 bits, so 2049 becomes 2048; compute angles in
        #! float64
        # ~ angle = positions.cpu().half().double()[..., None] * self.frequency
        #! angles are float32, which keeps 7 digits: at position 100,000 an angle is wrong in its third
        #! decimal; compute them in float64, and make cos and sin float32 at the end
        # ~ angle = positions.cpu().float()[..., None] * self.frequency.float()

        def attend_rotated(q, k, v, mask=None, is_causal=False):
            cos = angle.cos().float().to(q.device)
            #! cos and sin take the type of the queries before they are computed: in bfloat16 angles keep
            #! 3 digits, so far positions turn by wrong ones
            # ~ angle.cos().float() -> angle.type_as(q).cos()
            # ~ angle.sin().float() -> angle.type_as(q).sin()
            #! cosine and sine are exchanged
            # ~ cos = angle.sin().float().to(q.device)
            # ~ sin = angle.sin() -> sin = angle.cos()
            sin = angle.sin().float().to(q.device)
            #! that turns backwards: the angles have the wrong sign
            # ~ sin = -angle.sin().float().to(q.device)
            return attend(rotate(q, cos, sin), rotate(k, cos, sin), v, mask, is_causal)
            #! keys turn, too, because a score depends on the distance only if both do
            # ~ return attend(rotate(q, cos, sin), k, v, mask, is_causal)
            #! queries turn, too, because a score depends on the distance only if both do
            # ~ return attend(q, rotate(k, cos, sin), v, mask, is_causal)
            #! values don't turn: positions belong in the scores alone
            # ~ return attend(rotate(q, cos, sin), rotate(k, cos, sin), rotate(v, cos, sin), mask, is_causal)
            #! keys turn the other way than queries, so a score depends on the sum of two positions, not on
            #! their distance
            # ~ return attend(rotate(q, cos, sin), rotate(k, cos, -sin), v, mask, is_causal)
            #! mask and is_causal are not passed on
            # ~ return attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
            #! is_causal is not passed on
            # ~ return attend(rotate(q, cos, sin), rotate(k, cos, sin), v, mask)
            #! the mask is not passed on
            # ~ return attend(rotate(q, cos, sin), rotate(k, cos, sin), v, None, is_causal)
            #! it calls attention, whatever it is given as attend, so a cache would never be asked
            # ~ return attention(rotate(q, cos, sin), rotate(k, cos, sin), v, mask, is_causal)
            #! queries and keys are exchanged
            # ~ return attend(rotate(k, cos, sin), rotate(q, cos, sin), v, mask, is_causal)

        return attend_rotated
        #! what comes back is the function that it was given; give back the one that turns first
        # ~ return attend


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        #! the gain begins at 1, because at 0 nothing comes out
        # ~ self.weight = nn.Parameter(torch.zeros(d_model))
        #! the gain begins at 1, not at random, so that a new norm only divides
        # ~ self.weight = nn.Parameter(torch.randn(d_model))
        self.eps = eps
        #! the eps that it is given isn't used
        # ~ self.eps = 1e-5

    def forward(self, x):
        return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        #! that is a LayerNorm, because the mean is taken away; an RMSNorm divides by the root of the mean
        #! square, and that is all
        # ~ y = x - x.mean(-1, keepdim=True)
        #| return self.weight * y / (y.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        #! that is a LayerNorm, and x.std() divides by d - 1: an RMSNorm takes no mean away and divides
        #! by the root of the mean square
        # ~ return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps)
        #! eps belongs under the root, because outside it counts for far more
        # ~ return self.weight * x / (x.square().mean(dim=-1, keepdim=True).sqrt() + self.eps)
        #! eps is missing, so a row of zeros divides by 0
        # ~ return self.weight * x / x.square().mean(dim=-1, keepdim=True).sqrt()
        #! eps is added to the mean square; yours takes the larger of the two
        # ~ return self.weight * x / x.square().mean(dim=-1, keepdim=True).clamp(min=self.eps).sqrt()
        #! the gain is 1 + weight, as in Gemma; here it is the weight itself, which begins at 1
        # ~ return (1 + self.weight) * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        #! the mean runs over words, too; each word is normed alone, dim=-1
        # ~ return self.weight * x / (x.square().mean(dim=tuple(range(1, x.ndim)), keepdim=True) + self.eps).sqrt()
        #! one mean is taken over everything; each word is normed alone, dim=-1
        # ~ return self.weight * x / (x.square().mean() + self.eps).sqrt()
        #! that divides by the mean square; take its root
        # ~ return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps)
        #! that is the sum of squares in place of their mean, so the width decides how large x becomes
        # ~ return self.weight * x / (x.square().sum(dim=-1, keepdim=True) + self.eps).sqrt()
        #! the mean of x is no measure of its size, because positive and negative numbers cancel; square
        #! them first
        # ~ return self.weight * x / (x.mean(dim=-1, keepdim=True).square() + self.eps).sqrt()
        #! that divides by the mean of the absolute values; take the root of the mean square
        # ~ return self.weight * x / (x.abs().mean(dim=-1, keepdim=True) + self.eps)
        #! that multiplies by the root mean square; divide by it
        # ~ return self.weight * x * (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        #! the learned gain is missing, self.weight
        # ~ return x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()
        #! no gradient passes through the root mean square, because it is detached; it depends on x, too
        # ~ return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt().detach()


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, bias=False):
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias)
        self.w_in = nn.Linear(d_model, d_ff, bias)
        self.w_out = nn.Linear(d_ff, d_model, bias)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_out(self.dropout(F.silu(self.w_gate(x)) * self.w_in(x)))
        #! gate and input are exchanged: the SiLU bends the gate, w_gate, which Llama's paper calls w1
        # ~ return self.w_out(self.dropout(self.w_gate(x) * F.silu(self.w_in(x))))
        #! that is a GEGLU; take the SiLU
        # ~ return self.w_out(self.dropout(F.gelu(self.w_gate(x)) * self.w_in(x)))
        #! that is a plain GLU, whose gate is a sigmoid; the SiLU is z times its sigmoid
        # ~ return self.w_out(self.dropout(self.w_gate(x).sigmoid() * self.w_in(x)))
        #! that is a ReGLU; take the SiLU
        # ~ return self.w_out(self.dropout(F.relu(self.w_gate(x)) * self.w_in(x)))
        #! nothing bends the gate; take the SiLU of it
        # ~ return self.w_out(self.dropout(self.w_gate(x) * self.w_in(x)))
        #! gate and input are multiplied, not added
        # ~ return self.w_out(self.dropout(F.silu(self.w_gate(x)) + self.w_in(x)))
        #! the SiLU bends the gate alone, before the product; yours bends the product
        # ~ return self.w_out(self.dropout(F.silu(self.w_gate(x) * self.w_in(x))))
        #! the SiLU bends the gate alone; yours bends both sides
        # ~ return self.w_out(self.dropout(F.silu(self.w_gate(x)) * F.silu(self.w_in(x))))
        #! the input side is missing; multiply the gate by w_in(x)
        # ~ return self.w_out(self.dropout(F.silu(self.w_gate(x))))
        #! dropout is missing, on the hidden numbers, before w_out
        # ~ return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))
        #! dropout belongs on the hidden numbers, before w_out; yours drops what comes out
        # ~ return self.dropout(self.w_out(F.silu(self.w_gate(x)) * self.w_in(x)))
        #! dropout belongs on the hidden numbers, after gate and input are multiplied; yours drops what
        #! comes in
        # ~ x = self.dropout(x)
        #| return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))


class GroupedQueryAttention(MultiHeadAttention):
    # ? Only the four matrices differ from MultiHeadAttention: keys and values have fewer heads.
    # ? `attend` repeats them itself, by repeat_kv.
    #! the keys and values are repeated before `attend` gets them; hand on n_kv_heads heads, because
    #! `attend` repeats them itself, and a cache would otherwise keep h / g times as much
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         q, k, v = (self.split(w(x)) for w in (self.w_q, self.w_k, self.w_v))
    #|         y = attend(q, repeat_kv(k, q), repeat_kv(v, q), mask, is_causal)
    #|         return self.w_o(self.merge(y))
    #|
    #! neighbouring heads of queries share a head of keys and values, 0 0 1 1: repeat_interleave; `repeat`
    #! gives 0 1 0 1. And `attend` repeats them itself
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         q, k, v = (self.split(w(x)) for w in (self.w_q, self.w_k, self.w_v))
    #|         n = q.shape[1] // k.shape[1]
    #|         y = attend(q, k.repeat(1, n, 1, 1), v.repeat(1, n, 1, 1), mask, is_causal)
    #|         return self.w_o(self.merge(y))
    #|
    #! it calls attention, whatever it is given as attend, so neither a cache nor rotary positions would
    #! come in
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         q, k, v = (self.split(w(x)) for w in (self.w_q, self.w_k, self.w_v))
    #|         return self.w_o(self.merge(attention(q, k, v, mask, is_causal)))
    #|
    #! is_causal is not passed on
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         return super().forward(x, mask, False, attend)
    #|
    #! the mask is not passed on
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         return super().forward(x, None, is_causal, attend)
    #|
    #! mask and is_causal are not passed on
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         return super().forward(x, attend=attend)
    #|
    #! the scores are divided by √d_model; each head has d_k features, so `attend` divides by √d_k
    # ~0     def forward(self, x, mask=None, is_causal=False, attend=attention):
    #|         def scaled(q, k, v, mask, is_causal):
    #|             return attend(q * (self.d_k / x.shape[-1]) ** 0.5, k, v, mask, is_causal)
    #|
    #|         return super().forward(x, mask, is_causal, scaled)
    #|
    def __init__(self, d_model, n_heads, n_kv_heads=None, d_k=None, bias=True):
        nn.Module.__init__(self)
        self.d_k = d_k or d_model // n_heads
        n_kv_heads = n_kv_heads or n_heads
        self.w_q = nn.Linear(d_model, n_heads * self.d_k, bias)
        self.w_k = nn.Linear(d_model, n_kv_heads * self.d_k, bias)
        self.w_v = nn.Linear(d_model, n_kv_heads * self.d_k, bias)
        self.w_o = nn.Linear(n_heads * self.d_k, d_model, bias)
        #! keys and values are made by one matrix; each has one of its own, w_k and w_v
        # ~0 self.w_v = self.w_k


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
        #! both norms of a block are one and the same object, so they share a gain; make two
        # ~ norms = [RMSNorm(d_model, eps)] * 2
        #! eps is not passed on to the norms of the blocks
        # ~ norms = RMSNorm(d_model), RMSNorm(d_model)
        #! eps is passed on to the last norm and to one of a block, but not to the other
        # ~ norms = RMSNorm(d_model), RMSNorm(d_model, eps)
        #! eps is passed on to the last norm and to one of a block, but not to the other
        # ~ norms = RMSNorm(d_model, eps), RMSNorm(d_model)
        blocks.append(Block(heads, SwiGLU(d_model, d_ff, dropout), *norms, dropout))
        #! the block's dropout is not passed on, which drops what each part adds to the stream
        # ~ blocks.append(Block(heads, SwiGLU(d_model, d_ff, dropout), *norms))
        #! the network's dropout is not passed on
        # ~ blocks.append(Block(heads, SwiGLU(d_model, d_ff), *norms, dropout))
        #! dropout is passed on neither to the network nor to the block
        # ~ blocks.append(Block(heads, SwiGLU(d_model, d_ff), *norms))
    rotary = Rotary(d_k or d_model // n_heads, base)
    #! the base is not passed on
    # ~ rotary = Rotary(d_k or d_model // n_heads)
    #! the angles belong to the width of a head, d_k, not to that of the model
    # ~ rotary = Rotary(d_model, base)
    stack = Stack(blocks, RMSNorm(d_model, eps), rotary)
    #! the model has no positions, because the stack gets no `rotary`; without it a later word can't tell
    #! the order of the earlier ones
    # ~ stack = Stack(blocks, RMSNorm(d_model, eps))
    #! eps is not passed on to the last norm
    # ~ stack = Stack(blocks, RMSNorm(d_model), rotary)
    #! all layers are one and the same block; make a new one for each
    # ~ stack = Stack(blocks[:1] * n_layers, RMSNorm(d_model, eps), rotary)
    #! eps is passed on to no norm
    # ~ RMSNorm(d_model, eps) -> RMSNorm(d_model)
    return LanguageModel(Embedding(vocab_size, d_model, dropout=dropout), stack)
    #! the embedding's dropout is not passed on
    # ~ return LanguageModel(Embedding(vocab_size, d_model), stack)
    #! dropout is passed on to no part
    # ~ dropout=dropout -> dropout=0.0
    # ~ SwiGLU(d_model, d_ff, dropout), *norms, dropout) -> SwiGLU(d_model, d_ff), *norms)


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

    # ? config.json says the sizes; the names of the weights follow from LLAMA_NAMES.
    # ? Use `c.get("head_dim")`, because not every config.json has one.
    c = json.loads((Path(folder) / "config.json").read_text())
    model = modern_decoder(
        c["vocab_size"],
        c["hidden_size"],
        c["num_attention_heads"],
        c["num_key_value_heads"],
        #! keys and values have num_key_value_heads heads, which may be fewer than those of the queries
        # ~ c["num_attention_heads"],
        c["num_hidden_layers"],
        c["intermediate_size"],
        c.get("head_dim"),
        #! a head may be wider or narrower than hidden_size / num_attention_heads: where config.json has
        #! head_dim, take that
        # ~ None,
        #! not every config.json has head_dim: `c.get("head_dim")` gives None where it is missing
        # ~ c["head_dim"],
        c["rope_theta"],
        #! the base of the angles is rope_theta, which long-context models change
        # ~ 10_000.0,
        c["rms_norm_eps"],
        #! eps is rms_norm_eps, which differs from model to model
        # ~ 1e-5,
        #! base and eps stand in config.json, as rope_theta and rms_norm_eps; yours are always the same
        # ~2 10_000.0,
        #| 1e-5,
        #! base and eps are exchanged: modern_decoder takes the base first
        # ~2 c["rms_norm_eps"],
        #| c["rope_theta"],
    )
    weights = {}
    for name, tensor in load_file(Path(folder) / "model.safetensors").items():
        for theirs, ours in LLAMA_NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = tensor.float()
    #! gate and input of the network are exchanged: gate_proj is w_gate, up_proj is w_in
    # ~ LLAMA_NAMES.items() -> {**LLAMA_NAMES, "mlp.gate_proj": "ff.w_in", "mlp.up_proj": "ff.w_gate"}.items()
    #! the norms of a block are exchanged: input_layernorm comes before attention, and
    #! post_attention_layernorm before the network
    # ~ LLAMA_NAMES.items() -> {**LLAMA_NAMES, "input_layernorm": "norm_ff", "post_attention_layernorm": "norm_attention"}.items()
    #! keys and values are exchanged: k_proj is w_k, v_proj is w_v
    # ~ LLAMA_NAMES.items() -> {**LLAMA_NAMES, "self_attn.k_proj": "attention.w_v", "self_attn.v_proj": "attention.w_k"}.items()
    #! queries and outputs are exchanged: q_proj is w_q, o_proj is w_o
    # ~ LLAMA_NAMES.items() -> {**LLAMA_NAMES, "self_attn.q_proj": "attention.w_o", "self_attn.o_proj": "attention.w_q"}.items()
    weights["head.weight"] = weights["embed.tokens.weight"]
    #! the file has no head, because it is tied to the embeddings, but load_state_dict asks for one: set
    #! weights["head.weight"] to the embeddings
    # ~
    model.load_state_dict(weights)
    #! the weights are never loaded, so the model is still the random one
    # ~ pass
    #! `strict=False` passes over names that don't fit, here those of the networks, which stay random; map
    #! all names
    # ~ model.load_state_dict({k: t for k, t in weights.items() if ".ff." not in k}, strict=False)
    #! `strict=False` passes over names that don't fit, here those of all norms, which stay at 1; map all
    #! names
    # ~ model.load_state_dict({k: t for k, t in weights.items() if "norm" not in k}, strict=False)
    #! `strict=False` passes over names that don't fit, here the last norm, which stays at 1: its name is
    #! stack.norm
    # ~ model.load_state_dict({k: t for k, t in weights.items() if "stack.norm" not in k}, strict=False)
    #! the rows of queries and keys are reordered for neighbours, as in Meta's files; Hugging Face's fit
    #! the halves as they are
    # ~ for k in [k for k in weights if "w_q" in k or "w_k" in k]:
    #|     d_k = model.stack.blocks[0].attention.d_k
    #|     weights[k] = weights[k].unflatten(0, (-1, 2, d_k // 2)).transpose(1, 2).flatten(0, 2)
    #| model.load_state_dict(weights)
    return model.eval()
    #! the model that comes back is in training mode; end with `model.eval()`
    # ~ return model
    #! the weights came back; give back the model
    # ~ return weights


# ---------------------------------------------------------------- exercises


@exercise("12.1")
def my_block(x, w, attend):
    # ? Write the block of lesson 06 first, x + attention(norm(x)) and then x + ff(norm(x)), and put
    # ? in today's parts one by one.
    # ? `t.unflatten(-1, (-1, 4)).transpose(1, 2)` splits into six heads or into two; `attend` repeats
    # ? what is shared. To merge, `y.transpose(1, 2).flatten(2)`.
    # ? The network is (F.silu(n @ w['w_gate']) * (n @ w['w_in'])) @ w['w_out'], where n is the norm
    # ? of the stream that attention has added to.
    def norm(x, gain):
        return gain * x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        #! the mean is subtracted, as in a LayerNorm; RMSNorm leaves it in
        # ~ return gain * F.layer_norm(x, x.shape[-1:], eps=1e-5)
        #! ε is added outside of the root; add it to the mean square
        # ~ return gain * x / (x.square().mean(dim=-1, keepdim=True).sqrt() + 1e-5)
        #! ε is missing; add 1e-5 to the mean square, under the root
        # ~ return gain * x / x.square().mean(dim=-1, keepdim=True).sqrt()
        #! the norm divides by the root of the sum; it divides by the root of the mean
        # ~ return gain * x / (x.square().sum(dim=-1, keepdim=True) + 1e-5).sqrt()
        #! the norms have no gain; multiply by w['gain_attention'] and w['gain_ff']
        # ~ return x / (x.square().mean(dim=-1, keepdim=True) + 1e-5).sqrt()
        #! the norms are missing; the parts read norm(x)
        # ~ return x

    def heads(t):  # (B, T, heads * 4) -> (B, heads, T, 4)
        return t.unflatten(-1, (-1, 4)).transpose(1, 2)
        #! the heads are split without a transpose, so a head mixes words; cut the last axis, then
        #! `transpose(1, 2)`
        # ~ return t.reshape(len(t), -1, t.shape[1], 4)
        #! heads are split and merged without a transpose, so words are mixed; `transpose(1, 2)` after
        #! the cut, and again before they are merged
        # ~ return t.reshape(len(t), -1, t.shape[1], 4)
        # ~ y.transpose(1, 2).flatten(2) -> y.reshape(len(y), y.shape[2], -1)
        #! keys and values have two heads, queries six; let -1 count them, `t.unflatten(-1, (-1, 4))`
        # ~ return t.unflatten(-1, (6, 4)).transpose(1, 2)
        #! `attend` wants heads, (B, 6, T, 4); split first, then move the heads in front of the words
        # ~ return t

    n = norm(x, w["gain_attention"])
    #! the gains are exchanged
    # ~ w = {**w, "gain_attention": w["gain_ff"], "gain_ff": w["gain_attention"]}
    # | n = norm(x, w["gain_attention"])
    #! the norms come after the sums, as in 2017; here they come before the parts
    # ~ n = x
    # ~ @ w["w_o"] -> @ w["w_o"]; x = norm(x, w["gain_attention"]); n = x
    # ~ n = norm(x, w["gain_ff"]) -> pass
    # ~ return x + (F.silu(n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"] -> return norm(x + (F.silu(n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"], w["gain_ff"])
    #! the norms are written into the stream; give norm(x) to a part, and add to x itself
    # ~ n = x = norm(x, w["gain_attention"])
    # ~ n = norm(x, w["gain_ff"]) -> n = x = norm(x, w["gain_ff"])
    q = heads(n @ w["w_q"])  # (B, 6, T, 4)
    k = heads(n @ w["w_k"])  # (B, 2, T, 4)
    v = heads(n @ w["w_v"])
    #! `repeat` copies the list of heads, 0 1 0 1 0 1; neighbours share, so take `repeat_interleave`,
    #! or leave it to `attend`
    # ~2 k = heads(n @ w["w_k"]).repeat(1, 3, 1, 1)
    # | v = heads(n @ w["w_v"]).repeat(1, 3, 1, 1)
    y = attend(q, k, v, is_causal=True)  # (B, 6, T, 4)
    #! a word sees what comes after it; pass `is_causal=True`
    # ~ y = attend(q, k, v)
    #! the positions are missing; call `attend`, not `attention`
    # ~ y = attention(q, k, v, is_causal=True)
    x = x + y.transpose(1, 2).flatten(2) @ w["w_o"]
    #! the heads are merged without a transpose, so a row mixes words; `y.transpose(1, 2).flatten(2)`
    # ~ x = x + y.reshape(len(y), y.shape[2], -1) @ w["w_o"]
    #! merge the heads before w_o
    # ~ x = x + y @ w["w_o"]
    #! the outputs of the heads are not mixed; multiply with w_o
    # ~ x = x + y.transpose(1, 2).flatten(2)
    #! what attention gives is added to norm(x); add it to x itself
    # ~ x = n + y.transpose(1, 2).flatten(2) @ w["w_o"]
    #! the network is still to come
    # ~3 return x + y.transpose(1, 2).flatten(2) @ w["w_o"]
    #! both parts read x; the network reads what attention has added to
    # ~ stream, x = x, x + y.transpose(1, 2).flatten(2) @ w["w_o"]
    # ~ n = norm(x, w["gain_ff"]) -> n = norm(stream, w["gain_ff"])
    n = norm(x, w["gain_ff"])
    #! the norm before the network is missing
    # ~ n = x
    #! both norms have the gain of attention's; that of the network is w['gain_ff']
    # ~ n = norm(x, w["gain_attention"])
    return x + (F.silu(n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]
    #! gate and second match are exchanged; silu is for w_gate
    # ~ return x + (F.silu(n @ w["w_in"]) * (n @ w["w_gate"])) @ w["w_out"]
    #! silu is missing; the gate is silu(n @ w_gate)
    # ~ return x + ((n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]
    #! silu is taken of the product; it belongs to the gate
    # ~ return x + F.silu((n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]
    #! the gate is a sigmoid; SwiGLU's is silu(z) = z · sigmoid(z)
    # ~ return x + ((n @ w["w_gate"]).sigmoid() * (n @ w["w_in"])) @ w["w_out"]
    #! the gate is GELU; SwiGLU's is silu
    # ~ return x + (F.gelu(n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]
    #! the gate is missing; multiply with silu(n @ w_gate)
    # ~ return x + F.silu(n @ w["w_in"]) @ w["w_out"]
    #! what the network gives is added to the norm; add it to the stream itself
    # ~ return n + (F.silu(n @ w["w_gate"]) * (n @ w["w_in"])) @ w["w_out"]


@exercise(
    "12.2",
    parts=(
        "embeddings: the head is tied, so it's the same matrix, 50 · 12, and counts once",
        "attention: count w_q, w_k, w_v and w_o, without biases, in three blocks; w_k and w_v make "
        "two heads, each 2 wide",
        "networks: a SwiGLU has three matrices, and no biases, in each of three blocks",
        "norms: two in each of three blocks and one after the last; each has a gain alone",
        "cache: a token leaves a key and a value for each of two heads, which are 2 wide, in each "
        "of three layers",
    ),
)
def parameters_and_cache():
    # ? A tied head is the matrix of the embeddings. How wide is a head, and how many heads do w_k and
    # ? w_v make?
    # ? No layer has a bias, a norm has a gain alone, and rotary positions have no parameters. After
    # ? the last block comes one more norm.
    # ? Attention has 2 · 12 · 12 + 2 · 12 · 4 parameters in a block, the network 3 · 12 · 20.
    embeddings = 50 * 12  # the head is the same matrix
    attention = 3 * (2 * 12 * 12 + 2 * 12 * 4)  # w_q and w_o, then w_k and w_v
    #! w_k and w_v make two heads of keys and values, not six, and only these are kept
    # ~ attention = 3 * 4 * 12 * 12
    # ~ cache = 2 * 3 * 2 * 2 -> cache = 2 * 3 * 6 * 2
    #! attention: w_k and w_v make two heads of keys and values, not six
    # ~ attention = 3 * 4 * 12 * 12
    networks = 3 * 3 * 12 * 20
    #! networks: SwiGLU has three matrices: gate, second match, and back
    # ~ networks = 3 * 2 * 12 * 20
    norms = (2 * 3 + 1) * 12
    #! norms: after the last block comes one more
    # ~ norms = 2 * 3 * 12
    #! norms: an RMSNorm has a gain and no shift
    # ~ norms = 2 * (2 * 3 + 1) * 12
    cache = 2 * 3 * 2 * 2  # a key and a value, in 3 layers, for 2 heads, each 2 wide
    #! a token leaves a key and a value; you counted one of them
    # ~ cache = 3 * 2 * 2
    #! that is in bytes of 16-bit numbers; count numbers
    # ~ cache = 2 * 2 * 3 * 2 * 2
    return embeddings, attention, networks, norms, cache


@exercise("12.3")
def one_bias(layer):
    # ? What does a row of weights sum to? So what becomes of a vector that is added to each value?
    # ? It reaches each head's output unchanged, and then w_o multiplies it. Heads that share their
    # ? values share their part of the bias.
    # ? Cut the bias of w_v into (2, 4), repeat each row three times in a row, flatten, multiply with
    # ? w_o.weight from the left, and add the bias of w_o.
    parts = layer.w_v.bias.unflatten(0, (-1, layer.d_k))  # (g, d_k)
    #! the bias of the keys does nothing; take that of the values
    # ~ parts = layer.w_k.bias.unflatten(0, (-1, layer.d_k))
    shared = layer.w_q.out_features // layer.w_v.out_features  # heads of queries for each
    each = parts.repeat_interleave(shared, dim=0).flatten()  # (h * d_k,)
    #! neighbouring heads share, 0 0 0 1 1 1; `repeat` gives 0 1 0 1 0 1, so take `repeat_interleave`
    # ~ each = parts.repeat(shared, 1).flatten()
    #! each number is repeated; repeat each head's part of four numbers
    # ~ each = layer.w_v.bias.repeat_interleave(shared)
    return layer.w_o.weight @ each + layer.w_o.bias
    #! the bias of w_v has 8 numbers, two heads of four; each head serves three heads of queries, so
    #! repeat them
    # ~ return layer.w_o.weight @ layer.w_v.bias + layer.w_o.bias
    #! the bias of w_v has 8 numbers, two heads of four; each head serves three heads of queries, so
    #! repeat its four numbers three times
    # ~ return layer.w_o(layer.w_v.bias)
    #! the bias of w_v has 8 numbers and that of w_o 24; the first goes through w_o before they are
    #! added
    # ~ return layer.w_v.bias + layer.w_o.bias
    #! the bias of w_o is missing
    # ~ return layer.w_o.weight @ each
    #! the bias of the values goes through w_o
    # ~ return each + layer.w_o.bias
    #! the bias of the values does something; add what w_o makes of it
    # ~ return layer.w_o.bias
    #! w_o is transposed; a linear layer computes weight @ x
    # ~ return layer.w_o.weight.T @ each + layer.w_o.bias
    #! that is the bias of the values for each head; it still goes through w_o
    # ~ return each
    #! the bias of w_o is added before w_o multiplies; it comes after
    # ~ return layer.w_o.weight @ (each + layer.w_o.bias)
    #! that is three times too much; each head gets its part once
    # ~ return shared * (layer.w_o.weight @ each) + layer.w_o.bias
    #! a row of weights sums to 1, so nothing is divided by the number of heads
    # ~ return layer.w_o.weight @ (each / shared) + layer.w_o.bias


@exercise("12.4")
def our_name(name):
    # ? Print the names of a `modern_decoder`, and write both lists side by side.
    # ? A dictionary from their parts to ours, such as 'model.layers' to 'stack.blocks', and
    # ? `name.replace(theirs, ours)` for each. The number of a block stays as it is.
    # ? `input_layernorm` is `norm_attention`, `post_attention_layernorm` is `norm_ff`; `gate_proj`,
    # ? `up_proj` and `down_proj` are `w_gate`, `w_in` and `w_out`.
    parts = {
        "model.embed_tokens": "embed.tokens",
        #! in ours the table of the embeddings is called 'tokens', `embed.tokens.weight`
        # ~ "model.embed_tokens": "embed",
        "model.layers": "stack.blocks",
        #! our blocks are part of the stack, `stack.blocks`
        # ~ "model.layers": "blocks",
        #! yours renames layer 0 alone; the number stays as it is, so leave it out
        # ~ "model.layers.0": "stack.blocks.0",
        #! our layers are called 'blocks'
        # ~ "model.layers": "stack.layers",
        "model.norm": "stack.norm",
        #! `model.norm` comes after the last block, and in ours it is part of the stack
        # ~ "model.norm": "norm",
        #! blocks and the last norm are part of our stack, whose names begin with `stack.`
        # ~ "model.norm": "norm",
        # ~ "stack.blocks" -> "blocks"
        #! 'model.' stays in the names; ours begin with 'embed.' or 'stack.'
        # ~ "model.norm": "model.stack.norm",
        # ~ "stack.blocks" -> "model.stack.blocks"
        # ~ "embed.tokens" -> "model.embed.tokens"
        "lm_head": "head",
        #! the head is forgotten: ours has a name for it, `head.weight`, though it is tied
        # ~
        #! this Llama's file has its head by itself, and ours has a name for it, too, `head.weight`
        # ~ "lm_head": "embed.tokens",
        "input_layernorm": "norm_attention",
        "post_attention_layernorm": "norm_ff",
        #! the two norms are exchanged; the input of a layer goes to attention first, and after
        #! attention means before the network
        # ~2 "input_layernorm": "norm_ff",
        # | "post_attention_layernorm": "norm_attention",
        "self_attn.q_proj": "attention.w_q",
        "self_attn.k_proj": "attention.w_k",
        "self_attn.v_proj": "attention.w_v",
        "self_attn.o_proj": "attention.w_o",
        "mlp.gate_proj": "ff.w_gate",
        "mlp.up_proj": "ff.w_in",
        #! gate and second match are exchanged; `gate_proj` is `w_gate`, and `up_proj` is `w_in`
        # ~2 "mlp.gate_proj": "ff.w_in",
        # | "mlp.up_proj": "ff.w_gate",
        "mlp.down_proj": "ff.w_out",
        #! `up_proj` goes to the units, so it is `w_in`, and `down_proj` goes back, so it is `w_out`
        # ~2 "mlp.up_proj": "ff.w_out",
        # | "mlp.down_proj": "ff.w_in",
    }
    for theirs, ours in parts.items():
        name = name.replace(theirs, ours)
    return name
    #! our names end with '.weight', too
    # ~ return name.removesuffix(".weight")
    #! your table knows layer 0 alone; a name keeps the number of its layer, so leave it out of the
    #! table
    # ~3 if "layers" in name and ".0." not in name:
    # |     raise KeyError(name)
    # | for theirs, ours in parts.items():
    # |     name = name.replace(theirs, ours)
    # | return name
    #! a name keeps the number of its layer, which may have two digits
    # ~ return name.replace("blocks.10", "blocks.1").replace("blocks.11", "blocks.1")


# ---------------------------------------------------------------- questions


@question("12", "12.1")
def ask_my_block(draw):
    def call(what, B, T, scale):
        w = {"gain_attention": 1 + draw.numbers(24, scale=0.3)}
        w["gain_ff"] = 1 + draw.numbers(24, scale=0.3)
        for name, rows, columns in [
            *[("w_q", 24, 24), ("w_k", 24, 8), ("w_v", 24, 8), ("w_o", 24, 24)],
            *[("w_gate", 24, 40), ("w_in", 24, 40), ("w_out", 40, 24)],
        ]:
            w[name] = draw.numbers(rows, columns, scale=0.3)
        x = scale * (0.5 + draw.numbers(B, T, 24))
        attend = Rotary(4)(attention, torch.arange(T))
        return Call(f"{what}, {(B, T, 24)}", (x, w, attend))

    yield call("a small x, in which ε counts", 3, 5, 0.004)
    yield call("x", 3, 5, 1.0)
    yield call("one text", 1, 7, 0.004)
    yield call("one word", 2, 1, 1.0)
    for _ in draw.rounds:
        yield call("x", draw.size(1, 4), draw.size(5, 9), 0.5)


@question("12", "12.3")
def ask_one_bias(draw):
    for i in draw.rounds:
        shared = GroupedQueryAttention(24, 6, 2).requires_grad_(False)
        for p in shared.parameters():
            p.copy_(draw.numbers(*p.shape, scale=0.5))
        yield Call(f"layer {i}", (shared,))


def llama_names(n_layers):
    "The names of all weights of a Llama -> ours in a `modern_decoder`."
    parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
    parts += ["mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"]
    parts += ["input_layernorm", "post_attention_layernorm"]
    names = ["model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"]
    names += [f"model.layers.{i}.{part}.weight" for i in range(n_layers) for part in parts]
    return {name: our_name(name) for name in names}


@question("12", "12.4")
def ask_our_name(draw):
    for name in llama_names(12):
        yield Call(name, (name,))


@question("12", "repeat_kv")
def ask_repeat(draw):
    q = draw.numbers(2, 6, 4, 7)
    for g in (2, 3, 1, 6):
        yield Call(f"6 heads of queries, {g} of keys", (draw.numbers(2, g, 5, 7), q))
    yield Call("values of another width", (draw.numbers(2, 2, 5, 3), q))
    for shape in [(2, 2, 4, 3), (4, 2, 5, 3), (2, 2, 5, 4)]:  # another axis is as long as h
        yield Call(
            f"t {shape}, 4 heads of queries", (draw.numbers(*shape), draw.numbers(2, 4, 3, 3))
        )
    for t, q in [
        ((4, 7), (4, 7)),
        ((3, 2), (5, 7)),
        ((2, 3, 7), (2, 9, 7)),
        ((2, 8, 3), (2, 4, 7)),
    ]:
        yield Call(f"t {t}, q {q}: no axis of heads", (draw.numbers(*t), draw.numbers(*q)))
    for _ in draw.rounds:
        g, n = draw.size(1, 4), draw.size(1, 4)
        t = draw.numbers(draw.size(1, 3), g, draw.size(1, 6), draw.size(1, 5))
        q = draw.numbers(len(t), g * n, draw.size(1, 6), draw.size(1, 5))
        yield Call(f"t {tuple(t.shape)}, q {tuple(q.shape)}", (t, q))


def ask_shared_heads(draw, values):
    def given(B, h, g, T, S, d=4, scale=1.0, dtype=torch.float32):
        shapes = [(B, h, T, d), (B, g, S, d), (B, g, S, 3)][: 2 + values]
        return tuple(draw.numbers(*shape, scale=scale, dtype=dtype) for shape in shapes)

    yield Call("6 heads of queries, 2 of keys", given(2, 6, 2, 5, 5))
    yield Call("6 heads of queries, 3 of keys", given(2, 6, 3, 2, 5))
    yield Call("is_causal=True", given(2, 6, 2, 3, 5), dict(is_causal=True))
    mask = a_mask(draw, 2, 1, 1, 5)
    yield Call("a mask of padding", given(2, 6, 2, 4, 5), dict(mask=mask))
    empty = a_mask(draw, 2, 1, 4, 5)
    empty[0, 0, 2] = False
    yield Call("a query that may attend to nothing", given(2, 4, 2, 4, 5), dict(mask=empty))
    yield Call("scores of a hundred and more", given(2, 4, 2, 4, 6, scale=20.0), slopes=False)
    yield Call("float64", given(1, 8, 2, 4, 6, dtype=torch.float64))
    for n in draw.rounds:
        g, T, S = draw.size(2, 3), draw.size(1, 5), draw.size(1, 5)
        options = dict(mask=draw.mask(T, S), is_causal=bool(n % 2))
        yield Call(f"{g * (n + 1)} heads, {g} of keys", given(2, g * (n + 1), g, T, S), options)


question("12", "attention_weights", "attention_weights with shared heads", later=True)(
    partial(ask_shared_heads, values=False)
)
question("12", "attention", "attention with shared heads", later=True)(
    partial(ask_shared_heads, values=True)
)


@question("12", "rotate")
def ask_rotate(draw):
    def given(shape, dtype=torch.float32, angles=torch.float32):
        angle = draw.numbers(shape[-2], shape[-1] // 2, scale=2.0)
        return (
            draw.numbers(*shape, dtype=dtype),
            angle.cos().to(angles),
            angle.sin().to(angles),
        )

    for shape in [(2, 3, 5, 6), (1, 1, 4, 4), (2, 2, 1, 10), (3, 2, 6, 2), (4, 4, 4, 8)]:
        yield Call(f"x {shape}", given(shape))
    yield Call("x (4, 6), one head", given((4, 6)))
    yield Call("x in bfloat16", given((2, 3, 5, 6), torch.bfloat16), near=2e-3, slopes=False)
    yield Call("x in float16", given((2, 3, 5, 6), torch.float16), near=1e-3, slopes=False)
    yield Call("float64", given((2, 3, 5, 6), torch.float64, torch.float64))
    yield Call("x in float64, angles in float32", given((2, 3, 5, 6), torch.float64))
    for _ in draw.rounds:
        shape = draw.size(1, 3), draw.size(1, 3), draw.size(1, 7), 2 * draw.size(1, 5)
        yield Call(f"x {shape}", given(shape))


@question("12", "Rotary")
def ask_rotary(draw):
    q, k, v = draw.numbers(2, 4, 4, 6), draw.numbers(2, 4, 4, 6), draw.numbers(2, 4, 4, 6)
    mask = a_mask(draw, 4, 4)

    def turned(made, args, attend):
        first = [attend(q, k, v), attend(q, k, v, mask, True), attend(q, k, v, mask)]
        return {"": [*first, attend(q, k, v, None, True), attend(k, q, v)]}

    def shared(made, args, attend):
        return {"": attend(q, k[:, :2], v[:, :2], mask, True)}

    def low(made, args, attend):
        return {"": attend(*(t.bfloat16() for t in (q, k, v))).float()}

    def rounded(made, args, attend):
        names = sorted(made.state_dict())
        again = made.bfloat16().forward(*args)
        return {
            "": attend(q, k, v),
            "kept with the weights": names,
            "after bfloat16()": again(q, k, v),
        }

    def two(made, args, attend):
        other = made.forward(args[0], args[1] + 3)
        return {"": [attend(q, k, v), other(q, k, v), attend(k, v, q)]}

    at = torch.tensor
    yield Call("positions 0 to 3", (spy, torch.arange(4)), {}, (6,), look=turned)
    yield Call("positions 5, 2, 8, 0; base 50", (spy, at([5, 2, 8, 0])), {}, (6, 50.0), look=turned)
    yield Call("positions 9 to 12", (spy, torch.arange(9, 13)), {}, (6, 500_000.0), look=turned)
    yield Call("fewer heads of keys", (attention, torch.arange(4)), {}, (6,), look=shared)
    yield Call("two functions of one Rotary", (spy, torch.arange(4)), {}, (6,), look=two)
    for far in ([257, 300, 259, 511], [512, 700, 1023, 513], [2049, 2051, 4097, 3000]):
        yield Call(f"positions {far}", (spy, at(far)), {}, (6,), look=turned, near=3e-5)
    far = at([100_003, 70_001, 250_001, 131_071])
    yield Call("positions beyond 100,000", (spy, far), {}, (6,), look=turned, near=3e-5)
    yield Call(
        "queries in bfloat16", (attention, at([3, 600, 1025, 2049])), {}, (6,), look=low, near=2e-3
    )
    yield Call(
        "a model in bfloat16", (spy, at([3, 600, 1025, 2049])), {}, (6,), look=rounded, near=3e-5
    )
    for _ in draw.rounds:
        init = 6, draw.random.choice([20.0, 1000.0, 10_000.0])
        yield Call(
            "positions of chance",
            (spy, draw.tokens(4, low=0, high=400)),
            {},
            init,
            look=turned,
            near=3e-5,
        )


@question("12", "RMSNorm")
def ask_rms_norm(draw):
    x = draw.numbers(2, 5, 6)
    for said, given, init in [
        ("x", x + 1, (6,)),
        ("eps=0.1", x, (6, 0.1)),
        ("small numbers", x * 1e-3, (6,)),
        ("large numbers", x * 1e4, (6,)),
        ("zeros", x * 0, (6,)),
        ("one word, without a batch", x[0, 0], (6,)),
        ("x (5, 6)", x[0], (6,)),
        ("x (2, 1, 5, 6)", x[:, None], (6,)),
    ]:
        yield Call(said, (given,), {}, init)
    yield Call(
        "the gain at the start",
        (6,),
        look=lambda made, args, new: {"": next(iter(new.parameters())).tolist()},
    )
    for _ in draw.rounds:
        d = draw.size(2, 9)
        yield Call(f"width {d}", (draw.numbers(2, 3, d),), {}, (d,))


@question("12", "SwiGLU")
def ask_swiglu(draw):
    yield Call("x (2, 5, 6)", (draw.numbers(2, 5, 6),), {}, (6, 10))
    yield Call("with a bias", (draw.numbers(2, 5, 6),), {}, (6, 10, 0.0, True))
    yield Call("large numbers", (draw.numbers(2, 5, 6, scale=30.0),), {}, (6, 10))
    yield Call("dropout=0.5, evaluated", (draw.numbers(2, 5, 6),), {}, (6, 10, 0.5))
    yield Call("dropout=1, trained", (draw.numbers(2, 5, 6),), {}, (6, 10, 1.0, True), True)

    def mean(made, args, y):
        return {"": y.mean(0)}

    x = draw.numbers(6).expand(4000, -1)
    said = "dropout=0.5, trained: the mean of many"
    yield Call(said, (x,), {}, (6, 10, 0.5, True), True, mean, 0.1, False, True)
    for _ in draw.rounds:
        d = draw.size(2, 7)
        yield Call("sizes of chance", (draw.numbers(draw.size(1, 3), d),), {}, (d, draw.size(2, 9)))


def shared_spy(q, k, v, mask=None, is_causal=False):
    "In place of attention, for shared heads: repeated keys or values are seen, too."
    return spy(q, repeat_kv(k, q), repeat_kv(v, q), mask, is_causal) + k.shape[1] + 0.5 * v.shape[1]


@question("12", "GroupedQueryAttention")
def ask_groups(draw):
    for init in [(12, 6, 2, 4, False), (10, 4, 1, 3), (8, 4, 4, 2), (12, 4, 2), (12, 4)]:
        yield from ask_layer(draw, init, init[0], attend=False)
        x, mask = draw.numbers(2, 5, init[0]), a_mask(draw, 2, 1, 1, 5)
        options = dict(mask=mask, is_causal=True, attend=shared_spy)
        yield Call("another attend, with a mask", (x,), options, init)
        yield Call("another attend", (x,), dict(attend=shared_spy), init)


def dropouts(stacks, embeds, model, *inputs):
    """What dropout reaches, in training mode with a rate of 1: whether an embedding gives zeros, a
    network the same at all positions, a block what it is given."""
    seen, hooks = {}, []

    def see(name, dropped, further=None):
        def hook(part, given, y):
            seen[name] = bool(dropped(given[0], y))
            return further

        return hook

    def constant(x, y):
        return (y - y[:, :1]).abs().max() < 1e-6

    def zeros(x, y):
        return y.abs().max() == 0

    for name in embeds:
        embed = getattr(model, name)
        width = embed.tokens.weight.shape[1]
        x = torch.linspace(-1, 1, inputs[0].numel() * width).view(*inputs[0].shape, width)
        hooks.append(embed.register_forward_hook(see(f"dropout of {name}", zeros, x.sin())))
    for name in stacks:
        for i, block in enumerate(getattr(model, name).blocks):
            said = f"dropout in {name}.blocks[{i}]"
            hooks.append(block.ff.register_forward_hook(see(f"{said}.ff", constant)))
            hooks.append(block.register_forward_hook(see(said, lambda x, y: x.equal(y))))
    try:
        model.train()(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen


@question("12", "modern_decoder")
def ask_modern_decoder(draw):
    sizes = 11, 16, 4, 2, 2, 20

    def call(said, tokens, init, **more):
        return Call(said, (tokens,), more, init)

    tokens = draw.tokens(2, 6)
    yield call("tokens (2, 6)", tokens, sizes)
    yield call("d_k=6, base=50, eps=0.5", tokens, (*sizes, 6, 50.0, 0.5))
    yield call("eps=0.1", tokens, (*sizes, None, 10_000.0, 0.1))
    yield call("base=20", tokens, (*sizes, None, 20.0))
    yield call("one head of keys", tokens, (11, 8, 4, 1, 1, 6))
    yield call("as many heads of keys as of queries", tokens, (11, 8, 4, 4, 1, 6))
    yield call("no layer", tokens, (11, 8, 4, 4, 0, 6))
    yield call("positions", tokens, sizes, positions=torch.tensor([0, 2, 3, 5, 8, 900]))
    yield call("dropout=0.5, evaluated", tokens, (*sizes, None, 10_000.0, 1e-5, 0.5))

    def dropped(made, args, model):
        return {"": None, **dropouts(["stack"], ["embed"], model, tokens)}

    yield Call("dropout=1", (*sizes, None, 10_000.0, 1e-5, 1.0), look=dropped)
    yield Call(
        "the number of weights",
        sizes,
        look=lambda made, args, model: {"": sum(p.numel() for p in model.parameters())},
    )
    for _ in draw.rounds:
        g, n, d_k = draw.size(1, 2), draw.size(1, 3), 2 * draw.size(1, 3)
        init = draw.size(9, 12), draw.size(5, 9), g * n, g, draw.size(1, 3), draw.size(3, 9), d_k
        yield call(f"modern_decoder{init}", draw.tokens(2, 5, high=8), init)


def write_llama(folder, draw, dtype=torch.float32, **changes):
    "A small random Llama with a tied head, as Hugging Face's library writes one."
    from safetensors.torch import save_file

    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "vocab_size": 19,
        "max_position_embeddings": 32,
        "hidden_size": 24,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "num_hidden_layers": 2,
        "intermediate_size": 20,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        **changes,
    }
    d, d_ff = config["hidden_size"], config["intermediate_size"]
    d_k = config.get("head_dim") or d // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * d_k, config["num_key_value_heads"] * d_k
    shapes = {"model.embed_tokens": (config["vocab_size"], d), "model.norm": (d,)}
    for i in range(config["num_hidden_layers"]):
        shapes |= {
            f"model.layers.{i}.input_layernorm": (d,),
            f"model.layers.{i}.self_attn.q_proj": (queries, d),
            f"model.layers.{i}.self_attn.k_proj": (keys, d),
            f"model.layers.{i}.self_attn.v_proj": (keys, d),
            f"model.layers.{i}.self_attn.o_proj": (d, queries),
            f"model.layers.{i}.post_attention_layernorm": (d,),
            f"model.layers.{i}.mlp.gate_proj": (d_ff, d),
            f"model.layers.{i}.mlp.up_proj": (d_ff, d),
            f"model.layers.{i}.mlp.down_proj": (d, d_ff),
        }
    weights = {}
    for name, shape in shapes.items():
        t = draw.numbers(*shape)
        t = 1 + 0.3 * t if len(shape) == 1 else t if "embed" in name else 1.2 * t / shape[1] ** 0.5
        weights[f"{name}.weight"] = t.to(dtype)
    folder.mkdir()
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=2), encoding="utf-8")
    return folder


@question("12", "load_llama")
def ask_load_llama(draw):
    tokens = draw.tokens(2, 9, high=19)
    above = Path(tempfile.mkdtemp(prefix="former_nb_"))
    atexit.register(shutil.rmtree, above, ignore_errors=True)

    def see(made, args, model):
        return {
            "": model(tokens).detach(),
            "the model's mode": model.training,
            "the type of its numbers": {str(p.dtype) for p in model.parameters()}
            == {"torch.float32"},
            "far positions": model(tokens, positions=torch.arange(300, 309)).detach(),
        }

    for i, changes in enumerate(
        [
            {},
            dict(num_key_value_heads=1, rms_norm_eps=0.05),
            dict(rope_theta=30.0, head_dim=6),
            dict(head_dim=4, num_key_value_heads=3, rope_theta=500_000.0, rms_norm_eps=1e-6),
            dict(num_key_value_heads=6, head_dim=None),
            dict(num_hidden_layers=12, hidden_size=4, num_attention_heads=2, intermediate_size=4),
            dict(dtype=torch.bfloat16),
        ]
    ):
        said = ", ".join(f"{name}={value}" for name, value in changes.items()) or "a small Llama"
        folder = write_llama(above / str(i), draw, **changes)
        yield Call(said, (folder,), look=see, near=3e-5, slopes=False, chance=True)
