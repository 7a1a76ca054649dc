"Lesson 04: masks."

from functools import partial

import torch

from ..grading.ask import Call, exercise, question
from .lesson_02 import heads
from .parts import a_mask, ask_layer


def padding_mask(tokens, pad=0):  # (B, S) -> (B, 1, 1, S)
    return (tokens != pad)[:, None, None]
    #! True means that a token may be attended to; yours is True at padding
    # ~ return (tokens == 0)[:, None, None]
    #! the mask needs axes for heads and queries, (B, 1, 1, S), to meet the scores (B, h, T, S)
    # ~ return tokens != 0
    #! (B, 1, S) would meet heads as queries; make it (B, 1, 1, S)
    # ~ return (tokens != 0)[:, None]
    #! a mask hides keys, the last axis; yours hides queries
    # ~ return (tokens != 0)[:, None, :, None]
    #! True and False are asked for, not numbers
    # ~ return (tokens != 0).float()[:, None, None]
    #! only token 0 is padding
    # ~ return (tokens > 1)[:, None, None]


# ---------------------------------------------------------------- exercises


@exercise("04.1")
def my_mask(tokens):  # (B, T), 0 is padding
    # ? past[i, j] compares the position of key j, across, with that of query i, down.
    # ? `real` is about keys. Which axes of (B, h, T, S) does it lack? `None` as an index adds one.
    # ? `(position <= position[:, None]) & (tokens != 0)[:, None, None]`
    position = torch.arange(tokens.shape[1])
    past = position <= position[:, None]  # (T, T)
    #! rows and columns of the triangle are exchanged; row i is query i, which sees the keys up to i
    # ~ past = position >= position[:, None]
    #! the diagonal is missing; a word may attend to itself
    # ~ past = position < position[:, None]
    real = tokens != 0  # (B, T)
    #! pads are let in and words kept out; a real key has tokens != 0
    # ~ real = tokens == 0
    return past & real[:, None, None]  # (B, 1, T, T)
    #! that is the causal mask alone; the pads may still be attended to
    # ~ return past
    #! that is the padding mask alone; the future is still open
    # ~ return real[:, None, None]
    #! the mask is the wrong way round; True means may attend
    # ~ return ~(past & real[:, None, None])
    #! a key must pass both rules, not one of them: & instead of |
    # ~ return past | real[:, None, None]
    #! you masked the pads as queries; padding is about keys, the last axis
    # ~ return past & real[:, None, :, None]
    #! you masked the pads as queries too; padding is about keys only
    # ~ return past & real[:, None, None] & real[:, None, :, None]
    #! the axis of the heads, of size 1, is missing: (B, 1, T, T)
    # ~ return past & real[:, None]
    #! (T, T) and (B, T) don't fit; the keys of `real` need the axes (B, 1, 1, T), so
    #! `real[:, None, None]`
    # ~ return past & real
    #! `&=` writes into the table on its left, and that has too few axes for both rules; `&` makes a
    #! new table
    # ~ past &= real[:, None, None]
    # | return past
    #! both rules come back one by one; `&` makes one table of them
    # ~ return past, real[:, None, None]
    #! those are numbers; a mask is True or False
    # ~ return (past & real[:, None, None]).float()


@exercise("04.2")
def entries_that_are_true():
    # ? Take one sentence at a time. Query i has read i + 1 positions; how many of those are words?
    # ? Query i of a sentence of n words may attend to min(i + 1, n) keys, and a pad is a query too
    return sum(min(i + 1, n) for n in (4, 3, 1) for i in range(4))  # 10 + 9 + 4
    #! that is the causal mask alone; pads are still attended to
    # ~ return 30
    #! that is the padding mask alone; the future is still attended to
    # ~ return 32
    #! you left out the pads as queries; the mask hides them as keys only
    # ~ return 17
    #! you left out the diagonal; a word may attend to itself
    # ~ return 15
    #! that is every word with every word; the mask hides the future, and pads are queries
    # ~ return 26
    #! you counted the forbidden entries; True means may attend
    # ~ return 25


@exercise("04.3")
def reach(mask, n_layers):  # (T, T), one number
    # ? For two layers: output i depends on input j if there is an l with mask[i, l] and mask[l, j].
    # ? "There is an l with … and …" is a matrix product, with "greater than zero" at the end.
    # ? `torch.linalg.matrix_power(mask.double(), n_layers) > 0`
    table = mask
    #! each word kept what it had; without a residual path only the mask carries
    # ~ mask = table = mask | torch.eye(len(mask), dtype=torch.bool)
    for _ in range(n_layers - 1):
        #! one layer too many; n_layers = 1 should give the mask
        # ~ for _ in range(n_layers):
        #! one layer is missing; n_layers = 1 should give the mask
        # ~ for _ in range(n_layers - 2):
        #! your table is the same at any depth; `n_layers` says how many masks are multiplied
        # ~ for _ in range(1):
        table = (mask.double() @ table.double()) > 0  # (T, T)
        #! you squared the table again and again; each layer multiplies by the mask once
        # ~ table = (table.double() @ table.double()) > 0
        #! you kept what fewer layers reach; without a residual path only ways of exactly n_layers
        #! steps count
        # ~ table = table | ((mask.double() @ table.double()) > 0)
        #! you applied the mask again after each layer; words pass on more than that
        # ~ table = mask & ((mask.double() @ table.double()) > 0)
    return table
    #! the number of paths grows with each layer, beyond what float32 holds after some forty; ask
    #! after each layer whether there is any, `> 0`
    # ~ table = mask.float()
    # | for _ in range(n_layers - 1):
    # |     table = mask.float() @ table
    # | return table > 0
    #! that is the mask itself at any depth, since a word passes on what it has heard: combine
    #! `mask[i, l]` and `mask[l, j]` for each l, as a matrix product does
    # ~ return mask
    #! those are numbers of paths; a boolean table asks whether there are any, `> 0`
    # ~ return torch.linalg.matrix_power(mask.double(), n_layers)
    #! `**` raises each number by itself, and layers multiply matrices
    # ~ return mask.double() ** n_layers
    #! rows and columns are exchanged; row i is output i
    # ~ return table.T


# ---------------------------------------------------------------- questions


def ask_masks(draw, values):
    for shape, T, S in [((2, 3), 5, 5), ((), 3, 3), ((2,), 4, 6), ((2, 2), 1, 4), ((2,), 4, 2)]:
        given = heads(draw, values, shape, T, S)
        said = f"q {(*shape, T, 7)}, k {(*shape, S, 7)}"
        yield Call(f"{said}, is_causal=True", given, dict(is_causal=True))
        if T > S:
            continue
        mask = a_mask(draw, T, S)
        yield Call(f"{said}, a mask", given, dict(mask=mask))
        yield Call(f"{said}, a mask and is_causal", given, dict(mask=mask, is_causal=True))
    given = heads(draw, values, (2, 3), 4, 6)
    yield Call("a mask of padding, (B, 1, 1, S)", given, dict(mask=a_mask(draw, 2, 1, 1, 6)))
    nothing = torch.ones(4, 6, dtype=torch.bool)
    nothing[1] = False
    yield Call("a query that may attend to nothing", given, dict(mask=nothing))
    for n in draw.rounds:
        T, S = draw.size(1, 6), draw.size(1, 6)
        mask, causal = draw.mask(2, 1, T, S), bool(n % 2)
        given = heads(draw, values, (2, 3), T, S, scale=[1.0, 20.0][n % 2])
        said = f"{T} queries, {S} keys, a mask of chance, is_causal={causal}"
        yield Call(said, given, dict(mask=mask, is_causal=causal))


MASKS = ("mask", "is_causal")
question("04", "attention_weights", "attention_weights with masks", MASKS)(
    partial(ask_masks, values=False)
)
question("04", "attention", "attention with masks", MASKS)(partial(ask_masks, values=True))


@question("04", "padding_mask")
def ask_padding_mask(draw):
    yield Call("tokens (2, 5)", (torch.tensor([[1, 5, 2, 0, 0], [1, 4, 4, 4, 2]]),))
    yield Call("padding alone", (torch.zeros(1, 3, dtype=torch.int64),))
    yield Call("pad=3", (torch.tensor([[3, 5, 0, 3]]), 3))
    for _ in draw.rounds:
        tokens = draw.tokens(draw.size(1, 4), draw.size(1, 6), low=0, high=3)
        yield Call("tokens of chance", (tokens,))


@question("04", "MultiHeadAttention", "MultiHeadAttention with masks", (*MASKS, "attend"))
def ask_masks_of_heads(draw):
    for init in [(12, 3), (10, 2, False)]:
        yield from ask_layer(draw, init, init[0])


def of_truths(answer, args, result):
    "Whether a table is one of True and False."
    truths = getattr(result, "dtype", None) == torch.bool
    return {"what the table holds": "True and False" if truths else "no truths"}


@question("04", "04.1")
def ask_my_mask(draw):
    def of(what, tokens):
        return Call(what, (tokens,), look=of_truths)

    tokens = torch.tensor([[5, 3, 4, 0, 0], [0, 2, 6, 1, 3], [7, 8, 2, 2, 9]])
    yield of("three sentences, padded right, left and not at all", tokens)
    yield of("one sentence", torch.tensor([[1, 4, 0]]))
    yield of("two sentences of one word", torch.tensor([[3], [0]]))
    yield of("padding alone", torch.zeros(2, 4, dtype=torch.int64))
    yield of("no padding", draw.tokens(5, 3))
    for B, T in [(4, 2), (2, 6), (1, 7)]:
        yield of(f"tokens {(B, T)}", draw.tokens(B, T, low=0, high=3))


@question("04", "04.3")
def ask_reach(draw):
    def of(what, mask, n_layers):
        return Call(f"{what}, n_layers = {n_layers}", (mask, n_layers), look=of_truths)

    two_before = torch.ones(8, 8, dtype=torch.bool).tril(-1).triu(-2)
    for n_layers in (3, 1, 2, 4):
        yield of("the two words before each", two_before, n_layers)
    for n_layers in (1, 3, 12):
        yield of("a causal mask", torch.ones(5, 5, dtype=torch.bool).tril(), n_layers)
    ring = torch.eye(6, dtype=torch.bool).roll(1, 1)  # each word hears the next one
    for n_layers in (2, 5, 6):
        yield of("a ring", ring, n_layers)
    halves = torch.eye(2, dtype=torch.bool).repeat_interleave(8, 0).repeat_interleave(8, 1)
    yield of("two texts of eight words side by side", halves, 60)
    yield of("one word", torch.ones(1, 1, dtype=torch.bool), 2)
    yield of("one word that hears nothing", torch.zeros(1, 1, dtype=torch.bool), 3)
    for n_layers in (1, 2, 3, 4):
        yield of("a mask of chance", draw.numbers(7, 7) > 0.9, n_layers)
