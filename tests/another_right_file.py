"""A right file in another style than the course's: einsum, PyTorch's kernels, loops, other names
inside. `check` has to accept it."""

import json
from collections import Counter, defaultdict
from math import cos, exp, inf, log, pi
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F


def repeat_kv(t, q):
    if t.dim() < 4:
        return t
    B, g, S, d = t.shape
    h = q.size(1)
    return t if g == h else t[:, :, None].expand(B, g, h // g, S, d).reshape(B, h, S, d)


def _allowed(n_queries, n_keys, mask, is_causal, device):
    may = torch.ones((n_queries, n_keys), dtype=torch.bool, device=device)
    if is_causal:
        future = torch.triu(may, diagonal=n_keys - n_queries + 1)
        may = torch.logical_not(future)
    return may if mask is None else torch.logical_and(may, mask)


def attention_weights(q, k, mask=None, is_causal=False):
    products = torch.einsum("...td,...sd->...ts", q * q.size(-1) ** -0.5, repeat_kv(k, q))
    may = _allowed(q.size(-2), k.size(-2), mask, is_causal, q.device)
    products = torch.where(may, products, -inf)
    highest = products.detach().amax(-1, keepdim=True)
    highest = torch.where(highest == -inf, 0.0, highest)
    e = torch.exp(products - highest)
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


def attention(q, k, v, mask=None, is_causal=False):
    may = _allowed(q.size(-2), k.size(-2), mask, is_causal, q.device)
    some = may.any(-1, keepdim=True)
    keys, values = repeat_kv(k, q), repeat_kv(v, q)
    y = F.scaled_dot_product_attention(q, keys, values, attn_mask=may | ~some)
    return torch.where(some, y, torch.zeros_like(y))


def padding_mask(tokens, pad=0):
    return tokens.ne(pad).unsqueeze(1).unsqueeze(1)


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


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model))
        nn.init.normal_(self.table, 0.0, 0.02)

    def forward(self, x, positions):
        return F.embedding(positions, self.table) + x


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, activation=F.gelu):
        super().__init__()
        self.w_in, self.w_out = nn.Linear(d_model, d_ff), nn.Linear(d_ff, d_model)
        self.bend, self.p = activation, dropout

    def forward(self, x):
        hidden = self.bend(self.w_in(x))
        hidden = F.dropout(hidden, self.p, self.training)
        return self.w_out(hidden)


class Block(nn.Module):
    def __init__(self, attention, ff, norm_attention, norm_ff, dropout=0.0):
        super().__init__()
        self.attention, self.ff = attention, ff
        self.norm_attention, self.norm_ff = norm_attention, norm_ff
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        heard = self.attention(self.norm_attention(x), mask, is_causal, attend)
        x = torch.add(x, self.drop(heard))
        thought = self.ff(self.norm_ff(x))
        return torch.add(x, self.drop(thought))


def make_block(d_model, n_heads, d_ff, dropout=0.0):
    norms = [nn.LayerNorm(d_model) for _ in range(2)]
    heads = MultiHeadAttention(d_model, n_heads)
    network = FeedForward(d_model, d_ff, dropout=dropout)
    return Block(heads, network, *norms, dropout=dropout)


class Stack(nn.Module):
    def __init__(self, blocks, norm, rotary=None):
        super().__init__()
        self.blocks, self.norm, self.rotary = nn.ModuleList(blocks), norm, rotary

    def functions(self, attend, positions):
        found = []
        for i in range(len(self.blocks)):
            function = attend[i] if isinstance(attend, list) else attend
            if self.rotary is not None:
                function = self.rotary(function, positions)
            found.append(function)
        return found

    def forward(self, x, mask=None, is_causal=False, attend=attention, positions=None):
        functions = self.functions(attend, positions)
        for i, block in enumerate(self.blocks):
            x = block(x, mask=mask, is_causal=is_causal, attend=functions[i])
        return self.norm(x)


PAD, BOS, EOS, UNK = 0, 1, 2, 3
IGNORE = -100


class CharTokenizer:
    def __init__(self, alphabet):
        self.alphabet = alphabet
        self.vocab_size = len(alphabet) + 4

    @classmethod
    def train(cls, texts):
        letters = set()
        for text in texts:
            letters |= set(text)
        return cls("".join(sorted(letters)))

    def encode(self, text):
        row = []
        for letter in text:
            at = self.alphabet.find(letter)
            row.append(UNK if at < 0 else at + 4)
        return row

    def decode(self, tokens):
        text = ""
        for n in tokens:
            if n > UNK:
                text += self.alphabet[n - 4]
        return text


def encode_texts(texts, tokenizer):
    rows = []
    for text in texts:
        rows.append([BOS] + list(tokenizer.encode(text)) + [EOS])
    return rows


def pad_rows(rows, value=PAD):
    width = 0
    for row in rows:
        width = max(width, len(row))
    padded = [list(row) + [value] * (width - len(row)) for row in rows]
    return torch.tensor(padded, dtype=torch.long).reshape(len(rows), width)


def collate(rows):
    inputs, targets = [], []
    for row in rows:
        inputs.append(row[: len(row) - 1])
        targets.append(row[1:])
    return pad_rows(inputs), pad_rows(targets, value=IGNORE)


class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, position_embedding=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.tokens.weight.data.normal_(0, 0.02)
        self.position_embedding = position_embedding
        self.p = dropout

    def forward(self, tokens, positions=None):
        x = F.embedding(tokens, self.tokens.weight)
        if self.position_embedding is not None:
            x = self.position_embedding(x, positions)
        return F.dropout(x, self.p, self.training)


def batch_loss(model, batch):
    inputs, targets = batch
    if not isinstance(inputs, tuple):
        inputs = (inputs,)
    logs = model(*inputs).log_softmax(-1)
    real = targets != IGNORE
    costs = -logs.gather(-1, torch.where(real, targets, 0)[..., None]).squeeze(-1)
    return costs[real].mean()


def train_step(model, batch, optimizer, loss=batch_loss, max_grad_norm=1.0):
    model.train()
    nats = loss(model, batch)
    optimizer.zero_grad(set_to_none=True)
    nats.backward()
    nn.utils.clip_grad_norm_(list(model.parameters()), max_norm=max_grad_norm)
    optimizer.step()
    return nats.detach()


def evaluate(model, batches):
    model.eval()
    nats, tokens = [], []
    with torch.no_grad():
        for batch in batches:
            tokens.append(int(batch[1].ne(IGNORE).sum()))
            nats.append(tokens[-1] * float(batch_loss(model, batch)))
    return sum(nats) / sum(tokens)


def warmup_cosine(step, steps, warmup=0.05):
    rise = max(round(warmup * steps), 1)
    if step >= steps:
        return 0.0
    if step >= rise:
        done = (step - rise) / (steps - rise)
        return (1 + cos(done * pi)) / 2
    return min((step + 1) / rise, 1.0)


def fit(model, train, valid=None, epochs=10, lr=3e-3, weight_decay=0.1):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=weight_decay
    )
    history = {"train": [], "valid": []}
    lowest, saved = inf, {}
    steps = epochs * len(train)
    for epoch in range(epochs):
        nats = tokens = 0
        for i, batch in enumerate(train):
            optimizer.param_groups[0]["lr"] = lr * warmup_cosine(epoch * len(train) + i, steps)
            n = int(torch.count_nonzero(batch[1] != IGNORE))
            nats += n * float(train_step(model, batch, optimizer))
            tokens += n
        history["train"].append(nats / tokens)
        if valid is None:
            continue
        history["valid"].append(evaluate(model, valid))
        if history["valid"][-1] < lowest:
            lowest = history["valid"][-1]
            saved = {key: value.detach().clone() for key, value in model.state_dict().items()}
    if saved:
        model.load_state_dict(saved)
    model.eval()
    return history


class Classifier(nn.Module):
    def __init__(self, embed, stack, d_model, n_classes):
        super().__init__()
        self.embed, self.stack, self.head = embed, stack, nn.Linear(d_model, n_classes)

    def forward(self, tokens, attend=attention):
        at = torch.arange(tokens.size(1), device=tokens.device)
        x = self.stack(
            self.embed(tokens, at), mask=padding_mask(tokens), attend=attend, positions=at
        )
        real = tokens.ne(PAD).to(x.dtype)
        share = real / real.sum(1, keepdim=True).clamp(min=1)
        return self.head(torch.einsum("bt,btd->bd", share, x))


class LanguageModel(nn.Module):
    def __init__(self, embed, stack):
        super().__init__()
        self.embed, self.stack = embed, stack
        self.head = nn.Linear(*reversed(embed.tokens.weight.shape), bias=False)
        self.head.weight = embed.tokens.weight

    def forward(self, tokens, attend=attention, positions=None):
        at = positions
        if at is None:
            at = torch.arange(tokens.size(1), device=tokens.device)
        x = self.stack(self.embed(tokens, at), is_causal=True, attend=attend, positions=at)
        return x @ self.head.weight.T


def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    blocks = []
    for _ in range(n_layers):
        blocks.append(make_block(d_model, n_heads, d_ff, dropout))
    stack = Stack(blocks, nn.LayerNorm(d_model))
    places = LearnedPositions(max_len, d_model)
    return LanguageModel(Embedding(vocab_size, d_model, places, dropout), stack)


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
def generate(model, prompts, max_new_tokens, pick=greedy, cache=None):
    caches = cache
    if caches is None:
        caches = [LayerCache() for _ in range(len(model.stack.blocks))]
    read, row = 0, prompts
    while row.size(1) < prompts.size(1) + max_new_tokens:
        at = torch.arange(read, row.size(1), device=row.device)
        logits = model(row[:, read:], caches, at)
        read = row.size(1)
        row = torch.cat([row, pick(logits[:, -1]).unsqueeze(1)], 1)
    return row


def rotate(x, cos, sin):
    half = x.size(-1) // 2
    kind = torch.promote_types(x.dtype, cos.dtype)
    z = torch.complex(x[..., :half].to(kind), x[..., half:].to(kind))
    z = z * torch.complex(cos.to(kind), sin.to(kind))
    return torch.cat([z.real, z.imag], -1).to(x.dtype)


class Rotary(nn.Module):
    def __init__(self, d_k, base=10_000.0):
        super().__init__()
        self.speed = [base ** (-2 * i / d_k) for i in range(d_k // 2)]

    def forward(self, attend, positions):
        speed = torch.tensor(self.speed, dtype=torch.float64)
        angle = torch.einsum("...t,i->...ti", positions.cpu().double(), speed)

        def turned(q, k, v, mask=None, is_causal=False):
            turn = [function(angle).float().to(q.device) for function in (torch.cos, torch.sin)]
            return attend(rotate(q, *turn), rotate(k, *turn), v, mask, is_causal)

        return turned


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model)), eps

    def forward(self, x):
        return F.rms_norm(x, (x.size(-1),), self.weight, self.eps)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, bias=False):
        super().__init__()
        self.w_gate, self.w_in = (nn.Linear(d_model, d_ff, bias=bias) for _ in range(2))
        self.w_out = nn.Linear(d_ff, d_model, bias=bias)
        self.p = dropout

    def forward(self, x):
        z = self.w_gate(x)
        hidden = z * z.sigmoid() * self.w_in(x)
        return self.w_out(F.dropout(hidden, self.p, self.training))


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, n_heads, n_kv_heads=None, d_k=None, bias=True):
        super().__init__()
        self.h = n_heads
        self.g = n_heads if n_kv_heads is None else n_kv_heads
        self.d = d_model // n_heads if d_k is None else d_k
        self.w_q = nn.Linear(d_model, self.h * self.d, bias)
        self.w_k = nn.Linear(d_model, self.g * self.d, bias)
        self.w_v = nn.Linear(d_model, self.g * self.d, bias)
        self.w_o = nn.Linear(self.h * self.d, d_model, bias)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        B, T, _ = x.shape
        q = self.w_q(x).view(B, T, self.h, self.d).transpose(1, 2)
        k, v = (w(x).view(B, T, self.g, self.d).transpose(1, 2) for w in (self.w_k, self.w_v))
        y = attend(q, k, v, mask, is_causal).transpose(1, 2)
        return self.w_o(y.reshape(B, T, self.h * self.d))


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
    if d_k is None:
        d_k = d_model // n_heads

    def block():
        return Block(
            GroupedQueryAttention(d_model, n_heads, n_kv_heads, d_k, False),
            SwiGLU(d_model, d_ff, dropout),
            RMSNorm(d_model, eps),
            RMSNorm(d_model, eps),
            dropout,
        )

    blocks = [block() for _ in range(n_layers)]
    stack = Stack(blocks, RMSNorm(d_model, eps), rotary=Rotary(d_k, base))
    return LanguageModel(Embedding(vocab_size, d_model, None, dropout), stack)


def load_llama(folder):
    from safetensors import safe_open

    folder = Path(folder)
    with open(folder / "config.json", encoding="utf-8") as file:
        said = json.load(file)
    model = modern_decoder(
        vocab_size=said["vocab_size"],
        d_model=said["hidden_size"],
        n_heads=said["num_attention_heads"],
        n_kv_heads=said["num_key_value_heads"],
        n_layers=said["num_hidden_layers"],
        d_ff=said["intermediate_size"],
        d_k=said.get("head_dim"),
        base=said["rope_theta"],
        eps=said["rms_norm_eps"],
    )
    state = {}
    parts = {
        "input_layernorm": "norm_attention",
        "post_attention_layernorm": "norm_ff",
        "q_proj": "attention.w_q",
        "k_proj": "attention.w_k",
        "v_proj": "attention.w_v",
        "o_proj": "attention.w_o",
        "gate_proj": "ff.w_gate",
        "up_proj": "ff.w_in",
        "down_proj": "ff.w_out",
    }
    with safe_open(str(folder / "model.safetensors"), "pt") as file:
        for theirs in file.keys():
            *path, _ = theirs.removeprefix("model.").split(".")
            if path[0] == "embed_tokens":
                ours = "embed.tokens"
            elif path[0] == "norm":
                ours = "stack.norm"
            else:
                ours = f"stack.blocks.{path[1]}.{parts[path[-1]]}"
            state[f"{ours}.weight"] = file.get_tensor(theirs).to(torch.float32)
    state["head.weight"] = state["embed.tokens.weight"]
    model.load_state_dict(state)
    return model.eval()


class CrossAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None, is_causal=False, attend=attention):
        q = self.to_heads(self.w_q(x), self.heads)
        k, v = (self.to_heads(w(memory), self.heads) for w in (self.w_k, self.w_v))
        return self.w_o(self.from_heads(attend(q, k, v, mask, is_causal)))


class DecoderBlock(nn.Module):
    def __init__(self, attention, cross, ff, norm_attention, norm_cross, norm_ff, dropout=0.0):
        super().__init__()
        self.attention, self.cross, self.ff = attention, cross, ff
        self.norm_attention, self.norm_cross, self.norm_ff = norm_attention, norm_cross, norm_ff
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, memory_mask=None, attend=attention):
        here = self.attention(self.norm_attention(x), is_causal=True, attend=attend)
        x = x + self.drop(here)
        there = self.cross(self.norm_cross(x), memory, mask=memory_mask)
        x = x + self.drop(there)
        return x + self.drop(self.ff(self.norm_ff(x)))


class Decoder(nn.Module):
    def __init__(self, blocks, norm, rotary=None):
        super().__init__()
        self.blocks, self.norm, self.rotary = nn.ModuleList(blocks), norm, rotary

    def forward(self, x, memory, memory_mask=None, attend=attention, positions=None):
        functions = attend if isinstance(attend, list) else [attend for _ in self.blocks]
        for block, function in zip(self.blocks, functions):
            if self.rotary is not None:
                function = self.rotary(function, positions)
            x = block(x, memory, memory_mask=memory_mask, attend=function)
        return self.norm(x)


class EncoderDecoder(nn.Module):
    def __init__(self, embed, encoder, decoder, tgt_embed=None):
        super().__init__()
        self.src_embed, self.encoder, self.decoder = embed, encoder, decoder
        self.tgt_embed = embed if tgt_embed is None else tgt_embed
        table = self.tgt_embed.tokens.weight
        self.head = nn.Linear(table.size(1), table.size(0), bias=False)
        self.head.weight = table

    def encode(self, src):
        at = torch.arange(src.size(1), device=src.device)
        return self.encoder(self.src_embed(src, at), padding_mask(src), positions=at)

    def decode(self, tgt, memory, memory_mask=None, attend=attention, positions=None):
        at = positions
        if at is None:
            at = torch.arange(tgt.size(1), device=tgt.device)
        y = self.decoder(self.tgt_embed(tgt, at), memory, memory_mask, attend, at)
        return torch.einsum("btd,vd->btv", y, self.head.weight)

    def forward(self, src, tgt):
        memory = self.encode(src)
        return self.decode(tgt, memory, memory_mask=padding_mask(src))


def translator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    def decoder_block():
        parts = (
            MultiHeadAttention(d_model, n_heads),
            CrossAttention(d_model, n_heads),
            FeedForward(d_model, d_ff, dropout),
        )
        return DecoderBlock(*parts, *(nn.LayerNorm(d_model) for _ in parts), dropout)

    sides = [
        (make_block(d_model, n_heads, d_ff, dropout), decoder_block()) for _ in range(n_layers)
    ]
    encoder, decoder = [side[0] for side in sides], [side[1] for side in sides]
    return EncoderDecoder(
        Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout),
        Stack(encoder, nn.LayerNorm(d_model)),
        Decoder(decoder, nn.LayerNorm(d_model)),
    )


def collate_pairs(rows, pad=PAD):
    sources, inputs, targets = [], [], []
    for source, target in rows:
        sources.append(source)
        inputs.append(target[:-1])
        targets.append(target[1:])
    return (pad_rows(sources, pad), pad_rows(inputs, pad)), pad_rows(targets, IGNORE)


def greedy_decode(model, src, max_new_tokens):
    rows = [[BOS] for _ in range(src.size(0))]
    with torch.no_grad():
        memory, mask = model.encode(src), padding_mask(src)
        caches = [LayerCache() for _ in range(len(model.decoder.blocks))]
        for t in range(max_new_tokens):
            newest = torch.tensor([row[-1:] for row in rows], device=src.device)
            where = torch.tensor([t], device=src.device)
            logits = model.decode(newest, memory, mask, caches, where)[:, 0]
            for never in (PAD, BOS, UNK):
                logits[:, never] = -inf
            for row, new in zip(rows, logits.argmax(-1).tolist()):
                row.append(new)
            if all(EOS in row for row in rows):
                break
    written = []
    for row in rows:
        end = row.index(EOS) + 1 if EOS in row else len(row)
        written.append(row[:end])
    return written


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
    known = sorted({letter for word in words for letter in word})
    merges = []
    while len(merges) < n_merges:
        counts = defaultdict(int)
        for word, row in pieces.items():
            for left, right in zip(row[:-1], row[1:]):
                counts[left, right] += words[word]
        most = max(counts.values(), default=0)
        if most < 2:
            break
        ties = [pair for pair, count in counts.items() if count == most]
        ties.sort(key=lambda pair: [known.index(piece) for piece in pair])
        merges.append(ties[0])
        if "".join(ties[0]) not in known:
            known.append("".join(ties[0]))
        for word in pieces:
            pieces[word] = merge(pieces[word], ties[0])
    return merges


@torch.no_grad()
def beam_decode(model, src, max_new_tokens, num_beams=4):
    memory, mask = model.encode(src), padding_mask(src)
    beams, finished = [(0.0, [BOS])], [(-inf, None)]
    for _ in range(max_new_tokens):
        longer = []
        for score, row in beams:
            tokens = torch.tensor([row], device=src.device)
            logits = model.decode(tokens, memory, mask)[0, -1].clone()
            logits[[PAD, BOS, UNK]] = -inf
            for token, cost in enumerate(logits.log_softmax(-1).tolist()):
                if token == EOS or token > UNK:
                    longer.append((score + cost, [*row, token]))
        longer.sort(key=lambda item: item[0], reverse=True)
        longer = longer[: 2 * num_beams]
        for score, row in longer[:num_beams]:
            if row[-1] == EOS:
                finished.append((score / (len(row) - 1), row))
        beams = [(score, row) for score, row in longer if row[-1] != EOS][:num_beams]
        best = max(score for score, _ in finished)
        if not beams or beams[0][0] / max_new_tokens < best:
            break
    row = max(finished, key=lambda item: item[0])[1]
    return beams[0][1] if row is None else row


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
