"""Numbers, tokens and a small model for the tests of losses and of steps."""

import torch
from hypothesis import settings
from torch import nn

from former_nb.data.text import IGNORE
from former_nb.training.training import train_step

NAN, INF = float("nan"), float("inf")
EXACT = dict(rtol=1e-12, atol=1e-12)
many = settings(max_examples=60, deadline=None, derandomize=True, database=None)
few = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def numbers(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)


def tokens(*shape, vocab=7, seed=0, low=0, ignored=0.0):
    g = torch.Generator().manual_seed(seed)
    drawn = torch.randint(low, vocab, shape, generator=g)
    return drawn.masked_fill(torch.rand(shape, generator=g) < ignored, IGNORE)


def by_definition(logits, targets, label_smoothing, pad):
    "The sum over places and tokens of -q log p, one number after the other."
    V, total = logits.shape[-1], logits.new_zeros(())
    spread = V if pad is None else V - 1
    for z, y in zip(logits.reshape(-1, V), targets.flatten().tolist()):
        if y == IGNORE:
            continue
        log_p = z - z.exp().sum().log()
        for k in range(V):
            q = (1 - label_smoothing) * (k == y) + (0 if k == pad else label_smoothing / spread)
            total = total - q * log_p[k]
    return total


def small(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 7)).to(dtype)


BATCH = tokens(4, 3), tokens(4, 3)


def step(**kwargs):
    model = small()
    model = kwargs.get("model", model)
    given = dict(
        model=model,
        batch=BATCH,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    return train_step(**(given | kwargs))
