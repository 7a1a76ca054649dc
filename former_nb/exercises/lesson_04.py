"Lesson 04: masks."

from functools import partial

import torch

from ..grading.ask import Call, question
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
