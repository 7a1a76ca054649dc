"Lesson 08: training."

import math

import torch
import torch.nn.functional as F
from torch import nn

from .lesson_07 import IGNORE


def batch_loss(model, batch):
    inputs, targets = batch
    logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())  # leaves out IGNORE


def train_step(model, batch, optimizer, loss=batch_loss, max_grad_norm=1.0):
    model.train()
    optimizer.zero_grad()
    value = loss(model, batch)
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    optimizer.step()
    return value.detach()


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    total, count = 0.0, 0
    for inputs, targets in batches:
        n = (targets != IGNORE).sum().item()
        total += n * batch_loss(model, (inputs, targets)).item()
        count += n
    return total / count


def warmup_cosine(step, steps, warmup=0.05):  # a share of the highest learning rate
    if step >= steps:
        return 0.0
    rise = max(1, round(steps * warmup))
    if step < rise:
        return min(1.0, (step + 1) / rise)
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


def fit(
    model, train, valid=None, epochs=10, lr=3e-3, weight_decay=0.1
):  # batches, as of a DataLoader
    optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=weight_decay)
    history = {"train": [], "valid": []}  # nats, after each epoch
    best, kept, step = math.inf, None, 0
    for _ in range(epochs):
        total, count = 0.0, 0
        for batch in train:
            for group in optimizer.param_groups:
                group["lr"] = lr * warmup_cosine(step, epochs * len(train))
            n = (batch[1] != IGNORE).sum().item()
            total += n * train_step(model, batch, optimizer).item()
            count += n
            step += 1
        history["train"].append(total / count)
        if valid is not None:
            loss = evaluate(model, valid)
            history["valid"].append(loss)
            if loss < best:
                best = loss
                kept = {name: t.clone() for name, t in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)  # the weights that did best on `valid`
    model.eval()
    return history


# ---------------------------------------------------------------- questions
