"""The Transformer, as derived in the course: sixteen steps in one file."""

import json
import math
from collections import Counter
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

# 02, 04 · attention, with masks ---------------------------------------------------------------


def attention_weights(q, k, mask=None, is_causal=False):  # (..., T, d_k), (..., S, d_k)
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # (..., T, S)
    T, S = scores.shape[-2:]
    allowed = torch.ones(T, S, dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = allowed.tril(S - T)
    if mask is not None:
        allowed = allowed & mask
    empty = ~allowed.any(dim=-1, keepdim=True)  # queries that may attend to nothing
    scores = scores.masked_fill(~allowed & ~empty, float("-inf"))
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)


def attention(q, k, v, mask=None, is_causal=False):
    return attention_weights(q, k, mask, is_causal) @ v


def padding_mask(tokens):  # (B, S) -> (B, 1, 1, S)
    return (tokens != 0)[:, None, None]


# 03 · many heads ------------------------------------------------------------------------------


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def split(self, x):  # (B, T, h * d_k) -> (B, h, T, d_k)
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)

    def merge(self, y):  # (B, h, T, d_k) -> (B, T, h * d_k)
        return y.transpose(1, 2).flatten(2)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(x))
        v = self.split(self.w_v(x))
        return self.w_o(self.merge(attend(q, k, v, mask, is_causal)))


# 05 · positions -------------------------------------------------------------------------------


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, max_len=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        nn.init.normal_(self.tokens.weight, std=0.02)
        self.positions = None
        if max_len is not None:  # a learned vector for each position
            self.positions = nn.Parameter(0.02 * torch.randn(max_len, d_model))
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens, positions):  # (B, T), (T,)
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions[positions]
        return self.dropout(x)


def rotate(x, positions, base=10_000.0):  # (B, h, T, d_k), (T,)
    half = x.shape[-1] // 2
    frequency = base ** (-torch.arange(half, device=x.device) / half)
    angle = positions[:, None] * frequency  # (T, d_k / 2)
    a, b = x[..., :half], x[..., half:]
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


def rotary(attend, positions, base=10_000.0):
    def attend_rotated(q, k, v, mask=None, is_causal=False):
        q, k = rotate(q, positions, base), rotate(k, positions, base)
        return attend(q, k, v, mask, is_causal)

    return attend_rotated


# 06 · the block -------------------------------------------------------------------------------


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_in = nn.Linear(d_model, d_ff)
        self.w_out = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.w_out(F.gelu(self.w_in(x)))


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


class Stack(nn.Module):
    def __init__(self, blocks, norm):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        self.norm = norm

    def forward(self, x, mask=None, is_causal=False, attend=attention):  # or a list, one a block
        for block, attend_here in zip(self.blocks, self.one_each(attend)):
            x = block(x, mask, is_causal, attend_here)
        return self.norm(x)

    def one_each(self, attend):
        return attend if isinstance(attend, list) else [attend] * len(self.blocks)


def make_block(d_model, n_heads, d_ff, dropout=0.0):
    return Block(
        MultiHeadAttention(d_model, n_heads),
        FeedForward(d_model, d_ff),
        nn.LayerNorm(d_model),
        nn.LayerNorm(d_model),
        dropout,
    )


# 07 · text ------------------------------------------------------------------------------------

PAD, BOS, EOS = 0, 1, 2


class Letters:
    def __init__(self, texts):
        self.letters = ["", "", "", *sorted(set("".join(texts)))]
        self.number = {letter: n for n, letter in enumerate(self.letters)}

    def encode(self, text):
        return [BOS, *(self.number[letter] for letter in text), EOS]

    def decode(self, tokens):
        return "".join(self.letters[n] for n in tokens)


def pad(rows):  # lists of numbers -> (B, T)
    longest = max(len(row) for row in rows)
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def next_token_batch(rows):
    tokens = pad(rows)
    return (tokens[:, :-1],), tokens[:, 1:]  # inputs, targets


# 08 · training --------------------------------------------------------------------------------


def batch_loss(model, batch):
    inputs, targets = batch
    logits = model(*inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=PAD)


def train_step(model, batch, optimizer):
    model.train()
    optimizer.zero_grad()
    loss = batch_loss(model, batch)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    total, count = 0.0, 0
    for inputs, targets in batches:
        n = (targets != PAD).sum().item()
        total += n * batch_loss(model, (inputs, targets)).item()
        count += n
    return total / count


def rate(step, n_steps, highest, warmup=0.05):
    t = (step + 1) / n_steps
    if t < warmup:
        return highest * t / warmup
    return highest * 0.5 * (1 + math.cos(math.pi * (t - warmup) / (1 - warmup)))


def fit(model, rows, batch_of, n_steps, lr, batch_size=64, valid=None, every=200):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=0.1)
    best, kept, order = math.inf, None, []
    for step in range(n_steps):
        if len(order) < batch_size:
            order = torch.randperm(len(rows)).tolist()
        batch = batch_of([rows[order.pop()] for _ in range(batch_size)])
        for group in optimizer.param_groups:
            group["lr"] = rate(step, n_steps, lr)
        train_step(model, batch, optimizer)
        if valid is not None and ((step + 1) % every == 0 or step + 1 == n_steps):
            loss = evaluate(model, valid)
            if loss < best:
                best = loss
                kept = {name: t.clone() for name, t in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)
    model.eval()
    return best


# 09 · a classifier ----------------------------------------------------------------------------


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.head = nn.Linear(d_model, n_classes)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.stack(self.embed(tokens, positions), padding_mask(tokens))
        there = (tokens != PAD)[..., None]  # (B, T, 1)
        mean = (x * there).sum(dim=1) / there.sum(dim=1)
        return self.head(mean)


# 10 · a generator -----------------------------------------------------------------------------


class LanguageModel(nn.Module):
    def __init__(self, embed, stack, rotary_base=None):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.rotary_base = rotary_base

    def forward(self, tokens, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        attend = self.stack.one_each(attend)
        if self.rotary_base is not None:
            attend = [rotary(attend_here, positions, self.rotary_base) for attend_here in attend]
        x = self.stack(self.embed(tokens, positions), is_causal=True, attend=attend)
        return F.linear(x, self.embed.tokens.weight)  # the head is tied


def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    blocks = [make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
    embed = Embedding(vocab_size, d_model, max_len, dropout)
    return LanguageModel(embed, Stack(blocks, nn.LayerNorm(d_model)))


# 11 · decoding --------------------------------------------------------------------------------


class LayerCache:
    def __init__(self, attend=attention):
        self.attend = attend
        self.k = self.v = None

    def __call__(self, q, k, v, mask=None, is_causal=False):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        self.k, self.v = k, v
        return self.attend(q, k, v, mask, is_causal)


def greedy(logits):  # (B, vocab_size) -> (B,)
    return logits.argmax(dim=-1)


def sample(logits):
    return torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]


@torch.no_grad()
def generate(model, tokens, n, pick=greedy, attend=None):  # (B, T) -> (B, T + n)
    if attend is None:
        attend = [LayerCache() for _ in model.stack.blocks]
    new, start = tokens, 0
    for _ in range(n):
        positions = torch.arange(start, start + new.shape[1], device=tokens.device)
        logits = model(new, attend, positions)[:, -1]
        start = start + new.shape[1]
        new = pick(logits)[:, None]
        tokens = torch.cat([tokens, new], dim=1)
    return tokens


# 12 · a modern decoder ------------------------------------------------------------------------


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return self.weight * x / (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_in = nn.Linear(d_model, d_ff, bias=False)
        self.w_out = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        return self.w_out(F.silu(self.w_gate(x)) * self.w_in(x))


class GroupedQueryAttention(MultiHeadAttention):
    def __init__(self, d_model, n_heads, n_kv_heads, d_k):
        nn.Module.__init__(self)
        self.d_k = d_k
        self.group = n_heads // n_kv_heads
        self.w_q = nn.Linear(d_model, n_heads * d_k, bias=False)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_k, bias=False)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_k, bias=False)
        self.w_o = nn.Linear(n_heads * d_k, d_model, bias=False)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        def attend_in_groups(q, k, v, mask, is_causal):
            k = k.repeat_interleave(self.group, dim=1)
            v = v.repeat_interleave(self.group, dim=1)
            return attend(q, k, v, mask, is_causal)

        return super().forward(x, mask, is_causal, attend_in_groups)


def modern_decoder(vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, d_k, eps, base):
    blocks = []
    for _ in range(n_layers):
        attention = GroupedQueryAttention(d_model, n_heads, n_kv_heads, d_k)
        norms = RMSNorm(d_model, eps), RMSNorm(d_model, eps)
        blocks.append(Block(attention, SwiGLU(d_model, d_ff), *norms))
    stack = Stack(blocks, RMSNorm(d_model, eps))
    return LanguageModel(Embedding(vocab_size, d_model), stack, rotary_base=base)


NAMES = {  # Hugging Face's names for the parts of a Llama, and ours
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
    d_model, h = c["hidden_size"], c["num_attention_heads"]
    model = modern_decoder(
        c["vocab_size"],
        d_model,
        h,
        c["num_key_value_heads"],
        c["num_hidden_layers"],
        c["intermediate_size"],
        c.get("head_dim") or d_model // h,
        c["rms_norm_eps"],
        c["rope_theta"],
    )
    weights = {}
    for name, tensor in load_file(Path(folder) / "model.safetensors").items():
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        weights[name] = tensor.float()
    model.load_state_dict(weights)
    return model.eval()


# 13 · the encoder–decoder ---------------------------------------------------------------------


class CrossAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None, attend=attention):
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(memory))
        v = self.split(self.w_v(memory))
        return self.w_o(self.merge(attend(q, k, v, mask)))


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
    def forward(self, x, memory, memory_mask=None, attend=attention):
        for block, attend_here in zip(self.blocks, self.one_each(attend)):
            x = block(x, memory, memory_mask, attend_here)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    def __init__(self, embed, encoder, decoder):
        super().__init__()
        self.embed = embed  # one vocabulary for both sides
        self.encoder = encoder
        self.decoder = decoder

    def encode(self, src):  # (B, S) -> (B, S, d_model)
        positions = torch.arange(src.shape[1], device=src.device)
        return self.encoder(self.embed(src, positions), padding_mask(src))

    def decode(self, tgt, memory, memory_mask, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(tgt.shape[1], device=tgt.device)
        x = self.decoder(self.embed(tgt, positions), memory, memory_mask, attend)
        return F.linear(x, self.embed.tokens.weight)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))


def translator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    encoder, decoder = [], []
    for _ in range(n_layers):
        encoder.append(make_block(d_model, n_heads, d_ff, dropout))
        block = DecoderBlock(
            MultiHeadAttention(d_model, n_heads),
            CrossAttention(d_model, n_heads),
            FeedForward(d_model, d_ff),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            dropout,
        )
        decoder.append(block)
    return EncoderDecoder(
        Embedding(vocab_size, d_model, max_len, dropout),
        Stack(encoder, nn.LayerNorm(d_model)),
        Decoder(decoder, nn.LayerNorm(d_model)),
    )


def pair_batch(rows):  # (source, target) pairs of token lists
    src = pad([source for source, target in rows])
    tgt = pad([target for source, target in rows])
    return (src, tgt[:, :-1]), tgt[:, 1:]


# 14 · number words: reading what the model wrote itself ---------------------------------------


@torch.no_grad()
def translate(model, src, max_len):  # (B, S) -> (B, up to max_len)
    memory, mask = model.encode(src), padding_mask(src)
    cache = [LayerCache() for _ in model.decoder.blocks]
    tokens = torch.full((len(src), 1), BOS, device=src.device)
    done = torch.zeros(len(src), dtype=torch.bool, device=src.device)
    for position in range(max_len - 1):
        at = torch.tensor([position], device=src.device)
        new = model.decode(tokens[:, -1:], memory, mask, cache, at)[:, -1].argmax(dim=-1)
        new = new.masked_fill(done, PAD)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
        done = done | (new == EOS)
        if done.all():
            break
    return tokens


# 15 · subwords --------------------------------------------------------------------------------


def merge(row, pair):  # a list of pieces -> a shorter one
    merged = []
    for piece in row:
        if merged and (merged[-1], piece) == pair:
            merged[-1] = merged[-1] + piece
        else:
            merged.append(piece)
    return merged


def train_bpe(words, n_merges):  # a Counter of words
    rows = {word: list(word) for word in words}
    merges = []
    for _ in range(n_merges):
        pairs = Counter()
        for word, row in rows.items():
            for pair in zip(row, row[1:]):
                pairs[pair] += words[word]
        if max(pairs.values(), default=0) < 2:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        rows = {word: merge(row, best) for word, row in rows.items()}
        merges.append(best)
    return merges


# 16 · translation -----------------------------------------------------------------------------


@torch.no_grad()
def beam_search(model, src, max_len, n_beams=4):  # (1, S) -> a list of tokens
    memory, mask = model.encode(src), padding_mask(src)
    beams = [([BOS], 0.0)]  # rows of tokens, and the logarithm of their probability
    best, best_score = [BOS], -math.inf  # of the finished rows, by the mean of a token
    for _ in range(max_len - 1):
        tokens = torch.tensor([row for row, _ in beams], device=src.device)
        logits = model.decode(tokens, memory.expand(len(beams), -1, -1), mask)[:, -1]
        scores = torch.tensor([[score] for _, score in beams]) + logits.log_softmax(dim=-1).cpu()
        values, places = scores.flatten().topk(2 * n_beams)
        longer = []
        for score, place in zip(values.tolist(), places.tolist()):
            row, token = divmod(place, scores.shape[1])
            longer.append(([*beams[row][0], token], score))
        for row, score in longer[:n_beams]:
            if row[-1] == EOS and score / len(row) > best_score:
                best, best_score = row, score / len(row)
        beams = [(row, score) for row, score in longer if row[-1] != EOS][:n_beams]
        if beams[0][1] / max_len < best_score:  # no beam can become better
            break
    return best


def bleu(texts, references, longest=4):  # lists of words
    matches, totals = Counter(), Counter()
    for text, reference in zip(texts, references):
        for n in range(1, longest + 1):
            ours = Counter(zip(*(text[i:] for i in range(n))))
            theirs = Counter(zip(*(reference[i:] for i in range(n))))
            matches[n] += sum((ours & theirs).values())
            totals[n] += sum(ours.values())
    written = sum(len(text) for text in texts)
    wanted = sum(len(reference) for reference in references)
    if min(matches[n] for n in range(1, longest + 1)) == 0:
        return 0.0
    precision = sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1)) / longest
    return 100 * math.exp(precision + min(0.0, 1 - wanted / written))
