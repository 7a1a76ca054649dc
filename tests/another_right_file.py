"""A right file in another style than the course's: einsum, PyTorch's kernels, loops, other names
inside. `check` has to accept it."""

import json
from collections import Counter, defaultdict
from math import cos, exp, inf, log, pi
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

PAD, BOS, EOS = range(3)


def _allowed(n_queries, n_keys, mask, is_causal, device):
    may = torch.ones((n_queries, n_keys), dtype=torch.bool, device=device)
    if is_causal:
        row = torch.arange(n_queries, device=device)[:, None] + n_keys - n_queries
        may = torch.arange(n_keys, device=device)[None] <= row
    return may if mask is None else torch.logical_and(may, mask)


def attention_weights(q, k, mask=None, is_causal=False):
    products = torch.einsum("...td,...sd->...ts", q * q.size(-1) ** -0.5, k)
    may = _allowed(q.size(-2), k.size(-2), mask, is_causal, q.device)
    lowest = products.masked_fill(~may, -inf).amax(-1, keepdim=True)
    lowest = torch.where(lowest.isinf(), torch.zeros_like(lowest), lowest)
    e = torch.where(may, (products - lowest).exp(), torch.zeros_like(products))
    return e / e.sum(-1, keepdim=True).clamp(min=torch.finfo(e.dtype).tiny)


def attention(q, k, v, mask=None, is_causal=False):
    may = _allowed(q.size(-2), k.size(-2), mask, is_causal, q.device)
    some = may.any(-1, keepdim=True)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=may | ~some)
    return torch.where(some, y, torch.zeros_like(y))


def padding_mask(tokens):
    return tokens.ne(PAD).unsqueeze(1).unsqueeze(1)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.heads = n_heads
        for name in "qkvo":
            setattr(self, f"w_{name}", nn.Linear(d_model, d_model, bias=bias))

    def to_heads(self, x, h):
        B, T, width = x.shape
        return x.view(B, T, h, width // h).permute(0, 2, 1, 3)

    def from_heads(self, y):
        B, h, T, d = y.shape
        return y.permute(0, 2, 1, 3).reshape(B, T, h * d)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        q, k, v = (self.to_heads(w(x), self.heads) for w in (self.w_q, self.w_k, self.w_v))
        return self.w_o(self.from_heads(attend(q, k, v, mask, is_causal)))


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, max_len=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.tokens.weight.data.normal_(0, 0.02)
        self.positions = nn.Parameter(torch.empty(max_len, d_model)) if max_len else None
        if max_len:
            self.positions.data.normal_(0, 0.02)
        self.p = dropout

    def forward(self, tokens, positions):
        x = F.embedding(tokens, self.tokens.weight)
        if self.positions is not None:
            x = x + F.embedding(positions, self.positions)
        return F.dropout(x, self.p, self.training)


def rotate(x, positions, base=10_000.0):
    d = x.size(-1)
    speed = torch.tensor([base ** (-2 * i / d) for i in range(d // 2)], device=x.device)
    z = torch.complex(x[..., : d // 2].contiguous(), x[..., d // 2 :].contiguous())
    turn = torch.polar(torch.ones(len(positions), d // 2), torch.outer(positions.float(), speed))
    z = z * turn
    return torch.cat([z.real, z.imag], -1)


def rotary(attend, positions, base=10_000.0):
    return lambda q, k, v, mask=None, is_causal=False: attend(
        rotate(q, positions, base), rotate(k, positions, base), v, mask, is_causal
    )


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_in, self.w_out = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)

    def forward(self, x):
        z = self.w_in(x)
        return self.w_out(z * torch.special.ndtr(z))


class Block(nn.Module):
    def __init__(self, attention, ff, norm_attention, norm_ff, dropout=0.0):
        super().__init__()
        self.attention, self.ff = attention, ff
        self.norm_attention, self.norm_ff = norm_attention, norm_ff
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        heard = self.attention(self.norm_attention(x), mask, is_causal, attend)
        x = torch.add(x, self.dropout(heard))
        thought = self.ff(self.norm_ff(x))
        return torch.add(x, self.dropout(thought))


def _each(attend, n):
    return list(attend) if isinstance(attend, list) else [attend for _ in range(n)]


class Stack(nn.Module):
    def __init__(self, blocks, norm):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        functions = _each(attend, len(self.blocks))
        for i, block in enumerate(self.blocks):
            x = block(x, mask=mask, is_causal=is_causal, attend=functions[i])
        return self.norm(x)


def make_block(d_model, n_heads, d_ff, dropout=0.0):
    norms = [nn.LayerNorm(d_model) for _ in range(2)]
    heads, network = MultiHeadAttention(d_model, n_heads), FeedForward(d_model, d_ff)
    return Block(heads, network, *norms, dropout=dropout)


class Letters:
    def __init__(self, texts):
        alphabet = set()
        for text in texts:
            alphabet |= set(text)
        self.letters = [""] * 3 + sorted(alphabet)

    def encode(self, text):
        row = [BOS]
        for letter in text:
            row.append(self.letters.index(letter, 3))
        return row + [EOS]

    def decode(self, tokens):
        text = ""
        for n in tokens:
            text += self.letters[n]
        return text


def pad(rows):
    tokens = torch.full((len(rows), max(map(len, rows))), PAD)
    for i, row in enumerate(rows):
        tokens[i, : len(row)] = torch.tensor(row)
    return tokens


def next_token_batch(rows):
    tokens = pad(rows)
    return (tokens[:, : tokens.size(1) - 1],), tokens[:, 1:]


def batch_loss(model, batch):
    inputs, targets = batch
    logs = model(*inputs).log_softmax(-1)
    costs = -logs.gather(-1, targets[..., None]).squeeze(-1)
    return costs[targets != PAD].mean()


def train_step(model, batch, optimizer):
    model.train()
    loss = batch_loss(model, batch)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=1.0)
    optimizer.step()
    return loss.item()


def evaluate(model, batches):
    model.eval()
    nats = tokens = 0
    with torch.no_grad():
        for inputs, targets in batches:
            logits = model(*inputs)
            nats += F.cross_entropy(logits.mT, targets, ignore_index=PAD, reduction="sum").item()
            tokens += int((targets != PAD).sum())
    return nats / tokens


def rate(step, n_steps, highest, warmup=0.05):
    done = (step + 1) / n_steps
    if done < warmup:
        return highest * (done / warmup)
    return highest * (1 + cos(pi * (done - warmup) / (1 - warmup))) / 2


def fit(model, rows, batch_of, n_steps, lr, batch_size=64, valid=None, every=200):
    optimizer = torch.optim.AdamW(model.parameters(), lr, betas=(0.9, 0.95), weight_decay=0.1)
    waiting = []
    lowest, saved = inf, {}
    for step in range(n_steps):
        if len(waiting) < batch_size:
            waiting = [rows[i] for i in torch.randperm(len(rows))]
        some, waiting = waiting[:batch_size], waiting[batch_size:]
        optimizer.param_groups[0]["lr"] = rate(step, n_steps, lr)
        train_step(model, batch_of(some), optimizer)
        last = step == n_steps - 1
        if valid is not None and (last or (step + 1) % every == 0):
            now = evaluate(model, valid)
            if now < lowest:
                lowest = now
                saved = {key: value.detach().clone() for key, value in model.state_dict().items()}
    if saved:
        model.load_state_dict(saved)
    model.eval()
    return lowest


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed, self.stack, self.head = embed, stack, nn.Linear(d_model, n_classes)

    def forward(self, tokens):
        x = self.embed(tokens, torch.arange(tokens.size(1)))
        x = self.stack(x, mask=padding_mask(tokens))
        means = [vectors[row != PAD].mean(0) for vectors, row in zip(x, tokens)]
        return self.head(torch.stack(means))


class LanguageModel(nn.Module):
    def __init__(self, embed, stack, rotary_base=None):
        super().__init__()
        self.embed, self.stack, self.base = embed, stack, rotary_base

    def forward(self, tokens, attend=attention, positions=None):
        at = torch.arange(tokens.size(1)) if positions is None else positions
        functions = _each(attend, len(self.stack.blocks))
        if self.base:
            functions = [rotary(function, at, self.base) for function in functions]
        x = self.stack(self.embed(tokens, at), None, True, functions)
        return x @ self.embed.tokens.weight.T


def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    blocks = []
    for _ in range(n_layers):
        blocks.append(make_block(d_model, n_heads, d_ff, dropout))
    stack = Stack(blocks, nn.LayerNorm(d_model))
    return LanguageModel(Embedding(vocab_size, d_model, max_len, dropout), stack)


class LayerCache:
    def __init__(self, attend=attention):
        self.attend, self.seen = attend, []

    def __call__(self, q, k, v, mask=None, is_causal=False):
        self.seen.append((k, v))
        keys, values = (torch.cat(kept, -2) for kept in zip(*self.seen))
        return self.attend(q, keys, values, mask, is_causal)


def greedy(logits):
    return logits.max(-1).indices


def sample(logits):
    return torch.distributions.Categorical(logits=logits).sample()


@torch.no_grad()
def generate(model, tokens, n, pick=greedy, attend=None):
    caches = attend or [LayerCache() for _ in range(len(model.stack.blocks))]
    read = 0
    for _ in range(n):
        piece = tokens[:, read:]
        logits = model(piece, caches, torch.arange(read, tokens.size(1)))
        read = tokens.size(1)
        tokens = torch.cat([tokens, pick(logits[:, -1]).unsqueeze(1)], 1)
    return tokens


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),), self.weight, self.eps)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate, self.w_in = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))
        self.w_out = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        z = self.w_gate(x)
        return self.w_out(z * z.sigmoid() * self.w_in(x))


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads, d_k):
        super().__init__()
        self.h, self.g = n_heads, n_kv_heads
        self.w_q = nn.Linear(d_model, n_heads * d_k, False)
        self.w_k = nn.Linear(d_model, n_kv_heads * d_k, False)
        self.w_v = nn.Linear(d_model, n_kv_heads * d_k, False)
        self.w_o = nn.Linear(n_heads * d_k, d_model, False)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        B, T, _ = x.shape
        q = self.w_q(x).view(B, T, self.h, -1).transpose(1, 2)
        k = self.w_k(x).view(B, T, self.g, 1, -1).expand(-1, -1, -1, self.h // self.g, -1)
        v = self.w_v(x).view(B, T, self.g, 1, -1).expand(-1, -1, -1, self.h // self.g, -1)
        k, v = (t.flatten(2, 3).transpose(1, 2) for t in (k, v))
        return self.w_o(attend(q, k, v, mask, is_causal).transpose(1, 2).reshape(B, T, -1))


def modern_decoder(vocab_size, d_model, n_heads, n_kv_heads, n_layers, d_ff, d_k, eps, base):
    def block():
        heads = GroupedQueryAttention(d_model, n_heads, n_kv_heads, d_k)
        return Block(heads, SwiGLU(d_model, d_ff), RMSNorm(d_model, eps), RMSNorm(d_model, eps))

    stack = Stack([block() for _ in range(n_layers)], RMSNorm(d_model, eps))
    return LanguageModel(Embedding(vocab_size, d_model), stack, base)


def load_llama(folder):
    from safetensors import safe_open

    folder = Path(folder)
    said = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    width, h = said["hidden_size"], said["num_attention_heads"]
    d_k = said.get("head_dim") or width // h
    model = modern_decoder(
        said["vocab_size"],
        width,
        h,
        said["num_key_value_heads"],
        said["num_hidden_layers"],
        said["intermediate_size"],
        d_k,
        said["rms_norm_eps"],
        said["rope_theta"],
    )
    state = {}
    with safe_open(str(folder / "model.safetensors"), "pt") as file:
        for theirs in file.keys():
            *path, _ = theirs.removeprefix("model.").split(".")
            if path[0] == "embed_tokens":
                ours = "embed.tokens"
            elif path[0] == "norm":
                ours = "stack.norm"
            else:
                ours = (
                    f"stack.blocks.{path[1]}."
                    + {
                        "input_layernorm": "norm_attention",
                        "post_attention_layernorm": "norm_ff",
                        "q_proj": "attention.w_q",
                        "k_proj": "attention.w_k",
                        "v_proj": "attention.w_v",
                        "o_proj": "attention.w_o",
                        "gate_proj": "ff.w_gate",
                        "up_proj": "ff.w_in",
                        "down_proj": "ff.w_out",
                    }[path[-1]]
                )
            state[f"{ours}.weight"] = file.get_tensor(theirs)
    model.load_state_dict(state)
    return model.eval()


class CrossAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None, attend=attention):
        q = self.to_heads(self.w_q(x), self.heads)
        k, v = (self.to_heads(w(memory), self.heads) for w in (self.w_k, self.w_v))
        return self.w_o(self.from_heads(attend(q, k, v, mask, False)))


class DecoderBlock(nn.Module):
    def __init__(self, attention, cross, ff, norm_attention, norm_cross, norm_ff, dropout=0.0):
        super().__init__()
        self.attention, self.cross, self.ff = attention, cross, ff
        self.norm_attention, self.norm_cross, self.norm_ff = norm_attention, norm_cross, norm_ff
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, memory_mask=None, attend=attention):
        here = self.attention(self.norm_attention(x), is_causal=True, attend=attend)
        x = x + self.dropout(here)
        there = self.cross(self.norm_cross(x), memory, mask=memory_mask)
        x = x + self.dropout(there)
        return x + self.dropout(self.ff(self.norm_ff(x)))


class Decoder(nn.Module):
    def __init__(self, blocks, norm):
        super().__init__()
        self.blocks, self.norm = nn.ModuleList(blocks), norm

    def forward(self, x, memory, memory_mask=None, attend=attention):
        for block, function in zip(self.blocks, _each(attend, len(self.blocks))):
            x = block(x, memory, memory_mask=memory_mask, attend=function)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    def __init__(self, embed, encoder, decoder):
        super().__init__()
        self.embed, self.encoder, self.decoder = embed, encoder, decoder

    def encode(self, src):
        return self.encoder(self.embed(src, torch.arange(src.size(1))), padding_mask(src))

    def decode(self, tgt, memory, memory_mask, attend=attention, positions=None):
        at = torch.arange(tgt.size(1)) if positions is None else positions
        y = self.decoder(self.embed(tgt, at), memory, memory_mask, attend)
        return torch.einsum("btd,vd->btv", y, self.embed.tokens.weight)

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))


def translator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    def decoder_block():
        parts = (
            MultiHeadAttention(d_model, n_heads),
            CrossAttention(d_model, n_heads),
            FeedForward(d_model, d_ff),
        )
        return DecoderBlock(*parts, *(nn.LayerNorm(d_model) for _ in parts), dropout)

    encoder = [make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
    decoder = [decoder_block() for _ in range(n_layers)]
    return EncoderDecoder(
        Embedding(vocab_size, d_model, max_len, dropout),
        Stack(encoder, nn.LayerNorm(d_model)),
        Decoder(decoder, nn.LayerNorm(d_model)),
    )


def pair_batch(rows):
    sources, targets = zip(*rows)
    tgt = pad(targets)
    return (pad(sources), tgt[:, :-1]), tgt[:, 1:]


@torch.no_grad()
def translate(model, src, max_len):
    memory, mask = model.encode(src), padding_mask(src)
    rows = torch.full((src.size(0), 1), BOS)
    going = torch.ones(src.size(0), dtype=torch.bool)
    while rows.size(1) < max_len and going.any():
        logits = model.decode(rows, memory, mask)
        new = torch.where(going, logits[:, -1].argmax(-1), torch.tensor(PAD))
        going = going & (new != EOS)
        rows = torch.cat([rows, new[:, None]], 1)
    return rows


def merge(row, pair):
    merged, i = [], 0
    while i < len(row):
        if tuple(row[i : i + 2]) == pair:
            merged.append("".join(pair))
            i += 2
        else:
            merged.append(row[i])
            i += 1
    return merged


def train_bpe(words, n_merges):
    pieces = {word: list(word) for word in words}
    merges = []
    while len(merges) < n_merges:
        counts = defaultdict(int)
        for word, row in pieces.items():
            for left, right in zip(row[:-1], row[1:]):
                counts[left, right] += words[word]
        most = max(counts.values(), default=0)
        if most < 2:
            break
        merges.append(max(pair for pair, count in counts.items() if count == most))
        for word in pieces:
            pieces[word] = merge(pieces[word], merges[-1])
    return merges


@torch.no_grad()
def beam_search(model, src, max_len, n_beams=4):
    memory, mask = model.encode(src), padding_mask(src)
    beams, finished = [(0.0, [BOS])], []
    for _ in range(max_len - 1):
        longer = []
        for score, row in beams:
            logs = model.decode(torch.tensor([row]), memory, mask)[0, -1].log_softmax(-1)
            longer += [(score + cost, [*row, token]) for token, cost in enumerate(logs.tolist())]
        longer = sorted(longer, key=lambda item: -item[0])[: 2 * n_beams]
        finished += [(s / len(row), row) for s, row in longer[:n_beams] if row[-1] == EOS]
        beams = [(s, row) for s, row in longer if row[-1] != EOS][:n_beams]
        best = max(finished, key=lambda item: item[0], default=(-inf, [BOS]))
        if beams[0][0] / max_len < best[0]:
            break
    return max(finished, key=lambda item: item[0], default=(-inf, [BOS]))[1]


def bleu(texts, references, longest=4):
    shares = []
    for n in range(1, longest + 1):
        hits = total = 0
        for text, reference in zip(texts, references):
            pieces = Counter(tuple(text[i : i + n]) for i in range(len(text) - n + 1))
            known = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
            total += sum(pieces.values())
            hits += sum(min(count, known[piece]) for piece, count in pieces.items())
        if not hits:
            return 0.0
        shares.append(hits / total)
    lengths = [sum(map(len, side)) for side in (texts, references)]
    penalty = 1.0 if lengths[0] >= lengths[1] else exp(1 - lengths[1] / lengths[0])
    return 100 * penalty * exp(sum(map(log, shares)) / longest)
