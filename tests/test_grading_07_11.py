"Right definitions of lessons 07 to 11 in other words than the file's, which are accepted."

import ast

import pytest

from former_nb.grading import grade
from former_nb.grading.ask import STEPS
from former_nb.grading.content import load_questions, right_module

WRITTEN = r"""
class CharTokenizer:
    SPECIALS = 4
    def __init__(self, letters):
        self.letters = list(letters)
        self.ids = {}
        for letter in self.letters:
            self.ids[letter] = len(self.ids) + self.SPECIALS
        self.vocab_size = len(self.letters) + self.SPECIALS
    @staticmethod
    def train(corpus):
        return CharTokenizer(sorted({c for t in corpus for c in t}))
    def encode(self, s):
        out = []
        for c in s:
            if c in self.ids:
                out.append(self.ids[c])
            else:
                out.append(UNK)
        return out
    def decode(self, ids):
        back = {i: c for c, i in self.ids.items()}
        return "".join(back.get(i, "") for i in ids)
====
def encode_texts(data, tok):
    rows = []
    for t in data:
        rows.append([BOS] + tok.encode(t) + [EOS])
    return rows
====
def pad_rows(seqs, fill=0):
    T = max([len(s) for s in seqs] + [0])
    out = torch.zeros((len(seqs), T), dtype=torch.long) + fill
    for i in range(len(seqs)):
        for j in range(len(seqs[i])):
            out[i, j] = seqs[i][j]
    return out
====
def pad_rows(rows, value=PAD):
    if not rows or max(map(len, rows)) == 0:
        return torch.full((len(rows), 0), value)
    tensors = [torch.tensor(r, dtype=torch.long) for r in rows]
    return nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=value)
====
def collate(batch):
    T = max([len(r) - 1 for r in batch], default=0)
    x = [r[:-1] + [PAD] * (T - len(r) + 1) for r in batch]
    y = [r[1:] + [IGNORE] * (T - len(r) + 1) for r in batch]
    return tuple(torch.tensor(t, dtype=torch.long).reshape(len(batch), T) for t in (x, y))
====
class Embedding(nn.Module):
    def __init__(self, vocab, width, pos=None, p=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab, width)
        self.tokens.weight.data.normal_(0, 0.02)
        self.position_embedding = pos
        self.p = p
    def forward(self, ids, pos=None):
        h = F.embedding(ids, self.tokens.weight)
        if self.position_embedding is not None:
            h = self.position_embedding(h, pos)
        return F.dropout(h, self.p, self.training)
====
class Embedding(nn.Module):
    def __init__(self, vocab_size, d_model, position_embedding=None, dropout=0.0):
        super().__init__()
        self.tokens = nn.Embedding(vocab_size, d_model)
        self.tokens.weight = nn.Parameter(torch.randn(vocab_size, d_model) * 0.02)
        self.position_embedding = position_embedding
        self.drop = nn.Dropout(dropout)
    def forward(self, tokens, positions=None):
        x = self.tokens.weight[tokens]
        if self.position_embedding is None:
            return self.drop(x)
        return self.drop(self.position_embedding(x, positions))
====
def batch_loss(net, data):
    x, y = data
    out = net(*x) if type(x) is tuple else net(x)
    out, y = out.reshape(-1, out.shape[-1]), y.reshape(-1)
    keep = y != -100
    logp = out[keep].log_softmax(-1)
    return -logp.gather(1, y[keep][:, None]).mean()
====
def batch_loss(model, batch):
    inputs, targets = batch
    logits = model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)
    logits, flat = logits.view(-1, logits.size(-1)), targets.reshape(-1)
    total = F.cross_entropy(logits, flat, reduction="sum", ignore_index=IGNORE)
    return total / (targets != IGNORE).sum()
====
def batch_loss(model, batch):
    inputs, targets = batch
    logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return F.cross_entropy(logits.movedim(-1, 1), targets)
====
def train_step(net, data, opt, objective=batch_loss, clip=1.0):
    net.train()
    loss = objective(net, data)
    for p in net.parameters():
        p.grad = None
    loss.backward()
    torch.nn.utils.clip_grad_norm_(net.parameters(), clip)
    opt.step()
    return loss.detach()
====
def train_step(model, batch, optimizer, loss=batch_loss, max_grad_norm=1.0):
    model.train(True)
    optimizer.zero_grad(set_to_none=False)
    l = loss(model, batch)
    l.backward()
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    norm = torch.sqrt(sum((g ** 2).sum() for g in grads))
    if norm > max_grad_norm:
        for g in grads:
            g *= max_grad_norm / norm
    optimizer.step()
    optimizer.zero_grad()
    return l.detach().clone()
====
def evaluate(net, loader):
    net.train(False)
    losses, counts = [], []
    with torch.no_grad():
        for x, y in loader:
            counts.append(int((y != IGNORE).sum()))
            losses.append(float(batch_loss(net, (x, y))))
    return sum(l * n for l, n in zip(losses, counts)) / sum(counts)
====
@torch.inference_mode()
def evaluate(model, batches):
    was = model.training
    model.eval()
    s = n = 0
    for batch in batches:
        k = batch[1].ne(-100).sum().item()
        s += batch_loss(model, batch).item() * k
        n += k
    model.train(was)
    return s / n
====
def warmup_cosine(i, total, warmup=0.05):
    w = round(warmup * total) or 1
    if i >= total:
        return 0
    if i + 1 <= w:
        return (i + 1) / w
    return math.cos(math.pi / 2 * (i - w) / (total - w)) ** 2
====
def fit(net, train, valid=None, epochs=10, lr=3e-3, wd=0.1):
    import copy
    opt = torch.optim.AdamW(net.parameters(), lr=lr, betas=(0.9, 0.95), weight_decay=wd)
    total = epochs * len(train)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: warmup_cosine(s, total))
    hist = dict(train=[], valid=[])
    best_loss, best_state = float("inf"), None
    for epoch in range(epochs):
        losses, ns = [], []
        for x, y in train:
            losses.append(float(train_step(net, (x, y), opt)))
            ns.append(int((y != IGNORE).sum()))
            sched.step()
        hist["train"].append(sum(a * b for a, b in zip(losses, ns)) / sum(ns))
        if valid:
            v = evaluate(net, valid)
            hist["valid"].append(v)
            if v < best_loss:
                best_loss, best_state = v, copy.deepcopy(net.state_dict())
    if best_state:
        net.load_state_dict(best_state)
    net.eval()
    return hist
====
class Classifier(nn.Module):
    def __init__(self, emb, enc, width, classes):
        super().__init__()
        self.embed, self.stack = emb, enc
        self.head = nn.Linear(width, classes)
    def forward(self, ids, attend=attention):
        pos = torch.arange(ids.size(1))
        keep = ids != 0
        mask = keep[:, None, None, :]
        h = self.stack(self.embed(ids, pos), mask=mask, attend=attend, positions=pos)
        w = keep.float()
        w = w / w.sum(1, keepdim=True).clamp_min(1)
        return self.head(torch.einsum("bt,btd->bd", w, h))
====
class LanguageModel(nn.Module):
    def __init__(self, embed, stack):
        super().__init__()
        self.embed = embed
        self.stack = stack
        self.head = nn.Linear(*embed.tokens.weight.shape[::-1], bias=False)
        self.embed.tokens.weight = self.head.weight
    def forward(self, tokens, attend=attention, positions=None):
        T = tokens.shape[1]
        positions = torch.arange(T) if positions is None else positions
        return self.head(self.stack(self.embed(tokens, positions), None, True, attend, positions))
====
def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    layers = []
    for i in range(n_layers):
        layers.append(make_block(d_model=d_model, n_heads=n_heads, d_ff=d_ff, dropout=dropout))
    pos = LearnedPositions(max_len, d_model)
    embed = Embedding(vocab_size, d_model, pos, dropout=dropout)
    return LanguageModel(embed, Stack(layers, nn.LayerNorm(d_model, eps=1e-5)))
====
class LayerCache:
    def __init__(self, f=attention):
        self.f = f
        self.ks, self.vs = [], []
    @property
    def k(self):
        return torch.cat(self.ks, 2) if self.ks else None
    def __call__(self, q, k, v, mask=None, causal=False):
        self.ks.append(k)
        self.vs.append(v)
        return self.f(q, torch.cat(self.ks, -2), torch.cat(self.vs, -2), mask, causal)
====
def greedy(x):
    return torch.max(x, 1)[1]
====
def greedy(x):
    return x.topk(1).indices[:, 0]
====
def sample(logits):
    return torch.distributions.Categorical(logits=logits).sample()
====
def sample(logits):
    gumbel = -torch.log(-torch.log(torch.rand_like(logits).clamp(1e-20, 1 - 1e-7)))
    return (logits + gumbel).argmax(-1)
====
def sample(x):
    return torch.multinomial(F.softmax(x, -1), num_samples=1).squeeze(1)
====
@torch.no_grad()
def generate(net, ids, n, choose=greedy, cache=None):
    cache = cache or [LayerCache() for _ in range(len(net.stack.blocks))]
    new, out = ids, ids.clone()
    for _ in range(n):
        pos = torch.arange(out.shape[1] - new.shape[1], out.shape[1])
        new = choose(net(new, attend=cache, positions=pos)[:, -1, :]).unsqueeze(1)
        out = torch.cat((out, new), 1)
    return out
====
def generate(model, prompts, max_new_tokens, pick=greedy, cache=None):
    if cache is None:
        cache = [LayerCache() for _ in model.stack.blocks]
    B, T = prompts.shape
    out = torch.zeros(B, T + max_new_tokens, dtype=prompts.dtype)
    out[:, :T] = prompts
    with torch.no_grad():
        logits = model(prompts, cache)[:, -1]
        for t in range(T, T + max_new_tokens):
            out[:, t] = pick(logits)
            logits = model(out[:, t:t+1], cache, torch.tensor([t]))[:, -1]
    return out
"""


def last_verdict(step, source):
    node = ast.parse(source).body[-1]
    space = dict(vars(right_module()))
    exec(compile(source, "<answer>", "exec"), space)
    answer = grade.Answer(space[node.name], node, source.splitlines(), "<answer>", space, {})
    return list(grade.verdicts(step, answer))[-1]


@pytest.mark.parametrize("source", [part.strip() + "\n" for part in WRITTEN.split("====")])
def test_other_words_are_accepted(source):
    load_questions()
    name = ast.parse(source).body[-1].name
    verdict = last_verdict(name, source)
    assert verdict.kind == "right", f"{STEPS[name].lesson} {name}: {verdict.said}"
