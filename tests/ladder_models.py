"""The rungs of the ladder, untrained, as the lessons build them: RUNGS = {key: make}.

And `family(name)`, a small model of one that `use_attend` knows. make() and `family` give (model,
batch, loss, optimizer), as in `healthy_models.py`.
"""

import torch
from healthy_models import adamw, chain, mlm_batch, s2s_mapping
from test_your_attention import ENCODERS, FAMILIES, TWO_STACKS
from torch import nn

from former_nb.attention.dot_product import attention
from former_nb.attention.multi_head import MultiHeadAttention
from former_nb.attention.positions import LearnedPositions
from former_nb.data.text import collate, encode_texts
from former_nb.data.tokenization import CharTokenizer
from former_nb.ladder.first_hour import D, Names, contexts, train_names
from former_nb.models.language_model import generator
from former_nb.models.layers import Embedding, FeedForward, Stack, make_block
from former_nb.models.modern_decoder import modern_decoder

alphabet = CharTokenizer.train(train_names)
V = alphabet.vocab_size


class Mix(nn.Module):
    "A formula with parts that learn, and positions before it."

    def __init__(self, formula, *parts, positions=False):
        super().__init__()
        self.formula = formula
        self.parts = nn.ModuleList(parts)
        self.positions = LearnedPositions(20, D) if positions else None

    def forward(self, x):  # (B, T, D)
        if self.positions is not None:
            x = self.positions(x, torch.arange(x.shape[1]))
        return self.formula(x, *self.parts)


class Writer(nn.Module):
    "Lesson 08's."

    def __init__(self, n_blocks, dropout=0.0):
        super().__init__()
        self.embed = Embedding(V, D, LearnedPositions(20, D), dropout)
        blocks = [make_block(D, 4, 4 * D, dropout) for _ in range(n_blocks)]
        self.stack = Stack(blocks, nn.LayerNorm(D))
        self.head = nn.Linear(D, V)

    def forward(self, tokens):
        x = self.embed(tokens, torch.arange(tokens.shape[1]))
        return self.head(self.stack(x, is_causal=True))


def projections():
    return [nn.Linear(D, D, bias=False) for _ in range(3)]


def heads():
    return MultiHeadAttention(D, 4)


def network():
    return FeedForward(D, 4 * D)


def one_head(x, q, k, v):
    return attention(q(x[:, -1:]), k(x), v(x))[:, 0]


def causal(x, heads):
    return heads(x, is_causal=True)


def stream(x, heads):
    return x + causal(x, heads)


def with_network(x, heads, network):
    x = stream(x, heads)
    return x + network(x)


def stacked(x, stack):
    return stack(x, is_causal=True)


def blocks(n):
    return Stack([make_block(D, 4, 4 * D) for _ in range(n)], nn.LayerNorm(D))


def on_windows(make):
    return lambda: made(lambda: Names(make()), contexts(train_names[:2]))


def on_names(make):
    return lambda: made(make, collate(encode_texts(train_names[:8], alphabet)))


def made(make, batch):
    torch.manual_seed(0)
    model = make()
    return model, batch, None, adamw(model)


RUNGS = {
    "01": on_windows(lambda: Mix(lambda x: attention(x[:, -1:], x, x)[:, 0])),
    "02": on_windows(lambda: Mix(one_head, *projections())),
    "03": on_windows(lambda: Mix(lambda x, heads: heads(x)[:, -1], heads())),
    "04": on_names(lambda: Names(Mix(causal, heads()))),
    "05": on_names(lambda: Names(Mix(causal, heads(), positions=True))),
    "06a": on_names(lambda: Names(Mix(stream, heads(), positions=True))),
    "06b": on_names(lambda: Names(Mix(with_network, heads(), network(), positions=True))),
    "06c": on_names(lambda: Names(Mix(stacked, blocks(1), positions=True))),
    "07": on_names(lambda: Names(Mix(stacked, blocks(2), positions=True))),
    "08a": on_names(lambda: Writer(1)),
    "08b": on_names(lambda: Writer(2)),
    "08c": on_names(lambda: Writer(2, dropout=0.1)),
    "10": on_names(lambda: generator(V, 32, 64, 4, 3, 256, dropout=0.1)),
    "12": on_names(lambda: modern_decoder(V, 64, 4, 2, 3, 172, dropout=0.1)),
}


def family(name):
    "A small model with random weights."
    import transformers

    kind, head, sizes = FAMILIES[name]
    ends = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
    config = getattr(transformers, f"{kind}Config")(vocab_size=32, **ends | sizes)
    model = getattr(transformers, f"{kind.removesuffix('Text')}{head}")
    if name in ENCODERS:
        batch = mlm_batch(1)
    elif name in TWO_STACKS:
        batch = s2s_mapping(1)
    else:
        ids = chain(low=3)
        batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}
    if name == "whisper":  # which hears
        batch = {"input_features": torch.randn(6, 4, 12), "labels": batch["labels"]}
    return made(lambda: model(config), batch)
