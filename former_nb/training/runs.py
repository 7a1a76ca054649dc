"""Random numbers that follow from what happens next, so that no generator has a state to save.

Training draws random numbers for the order of the rows and for dropout. Before each step, and
before each batch is read, the generators are set to a number made of the seed of the run and of
what is about to happen. So a batch is the same whether or not the run was interrupted before it.
"""

import hashlib
import random
from itertools import islice

import numpy as np
import torch

__all__ = [
    "seed_for",
    "reseed",
    "read_epoch",
]


def seed_for(
    seed: int,  # of the run
    *what: int | str,  # what is about to happen, such as "step", its number, and the process
) -> int:  # 0 to 2**32 - 1
    "A seed for each part of a run, so that no part depends on what was drawn before."
    return int(hashlib.sha256(f"{(seed, *what)}".encode()).hexdigest()[:8], 16)


def reseed(
    seed: int,  # 0 to 2**32 - 1
    kind: str = "cpu",  # of device
) -> None:
    "As `set_seed`, for one kind of device: ten times as fast as `torch.manual_seed`."
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    if kind != "cpu":
        getattr(torch, kind).manual_seed(seed)


def read_epoch(
    batches,  # with a length: a `DataLoader`, or a list
    seed: int,  # of the run
    epoch: int = 0,
    skip: int = 0,  # batches that the run had before it was interrupted
    name: str = "batches",  # what an error calls them
):  # an iterator over batches
    "The batches of one epoch. What is drawn to read a batch depends on its number alone."
    samplers = [getattr(batches, name, None) for name in ("sampler", "batch_sampler")]
    for part in (batches, *samplers, getattr(samplers[1], "sampler", None)):
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
        generator = getattr(part, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(seed_for(seed, "order", epoch))
    reseed(seed_for(seed, "order", epoch))
    n = 0
    for n, batch in enumerate(islice(batches, len(batches)), start=1):
        if n > skip:
            yield batch
        reseed(seed_for(seed, "read", epoch, n))
    if n < len(batches):
        raise ValueError(f"{name}: expected {len(batches)} batches, as its length says, got {n}")
