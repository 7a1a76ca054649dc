"Leaks: what an output may depend on."

import math

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("leaks.1", near=1e-9)
def forbidden_pairs():
    # ? The pieces have 3, 3 and 1 words. What lies ahead of a word, but in its own piece?
    # ? In a piece of n words there are n (n - 1) / 2 pairs of an output and a later word
    return 2 * (3 + 3 + 0)  # two samples, in pieces of 3, 3 and 1
    #! that is one sample; the call counts both
    # ~ return 3 + 3 + 0
    #! those are all pairs with a later word; later pieces are not in the cache yet
    # ~ return 2 * (7 * 6 // 2)
    #! you took the last piece for a full one; it has one word
    # ~ return 2 * (3 + 3 + 3)
    #! you counted pairs with an earlier word too; the causal mask allows those
    # ~ return 2 * (6 + 6)
    #! you counted each word's next one only; in a piece of three the first has two ahead
    # ~ return 2 * (2 + 2)


@exercise("leaks.2")
def centre(x):
    # ? The sum of the words up to each position is a running sum: `x.cumsum(dim=1)`.
    # ? The first word's mean is over one word, the second's over two: divide by 1, 2, …, T.
    # ? `x - x.cumsum(dim=1) / torch.arange(1, T + 1)[:, None]`
    so_far = torch.arange(1, x.shape[1] + 1, device=x.device)[:, None]  # (T, 1) words
    #! you divided by T everywhere; at position i there are i + 1 words so far
    # ~ so_far = x.shape[1]
    #! that takes the sum of the words so far; divide by how many they are
    # ~ so_far = 1
    #! at position i there are i + 1 words so far, so count from 1
    # ~ so_far = torch.arange(x.shape[1], device=x.device)[:, None]
    return x - x.cumsum(dim=1) / so_far
    #! that is the mean of the whole sentence, so a word sees those after it
    # ~ return x - x.mean(dim=1, keepdim=True)
    #! you returned the mean; take it from x
    # ~ return x.cumsum(dim=1) / so_far
    #! that is the mean of the words before; the word itself counts too
    # ~ return x - (x.cumsum(dim=1) - x) / (so_far - 1).clamp(min=1)
    #! the running mean goes over the features; it should go over the words
    # ~ return x - x.cumsum(dim=-1) / torch.arange(1, x.shape[-1] + 1)
    #! the mean runs over the batch, so the samples mix
    # ~ return x - x.mean(dim=0, keepdim=True)
    #! the running mean goes over the batch, so the samples mix
    # ~ return x - x.cumsum(dim=0) / torch.arange(1, len(x) + 1)[:, None, None]
    #! the mean runs over the features; it should run over the words
    # ~ return x - x.mean(dim=-1, keepdim=True)
    #! the mean is taken over the words from here on; turn it round
    # ~ return x - x.flip(1).cumsum(1).flip(1) / so_far.flip(0)


@exercise("leaks.3")
def chance(V, draws):
    # ? With which probability does one draw hold the first id at its position, and with which both?
    # ? With which probability do all draws miss?
    return 1 - (1 - 1 / V**2) ** draws
    #! that is the probability that all draws miss
    # ~ return (1 - 1 / V**2) ** draws
    #! both ids must be there, so one draw holds them with 1/V²
    # ~ return 1 - (1 - 1 / V) ** draws
    #! the draws do not add up: two of them may both hold the ids
    # ~ return draws / V**2
    #! those are two chances for one id; both must be in the same draw
    # ~ return (1 - (1 - 1 / V) ** draws) ** 2
    #! that is the chance that every draw holds them
    # ~ return V ** (-2 * draws)
    #! either order would do for one id; here each position has its own
    # ~ return 1 - (1 - 2 / V**2) ** draws


@exercise("leaks.4")
def floor(vocab_size, length, size):
    # ? Position i must predict token i + 1. For which i does that token stand in the same piece?
    # ? A position that attends to its target can reach 0, any other ln(vocab_size) at best. Count the others.
    # ? The last token of each piece must guess, and the model reads length - 1 tokens, so there are ceil((length - 1) / size) pieces
    pieces = math.ceil((length - 1) / size)
    #! the last position must guess too: its target is not among the inputs, so round up
    # ~ pieces = (length - 1) // size
    #! that holds where the pieces fill the text exactly; the last piece may be shorter, so round up
    # ~ pieces = (length - 1) / size
    #! the model reads length - 1 tokens, so these are in pieces
    # ~ pieces = math.ceil(length / size)
    return pieces / (length - 1) * math.log(vocab_size)
    #! there are length - 1 predictions, and the model reads length - 1 tokens
    # ~ return math.ceil(length / size) / length * math.log(vocab_size)
    #! you divided by length; there are length - 1 predictions
    # ~ return pieces / length * math.log(vocab_size)
    #! those are bits; a loss in nats takes the natural logarithm
    # ~ return pieces / (length - 1) * math.log2(vocab_size)
    #! you counted the positions that attend to their target; they cost nothing
    # ~ return (1 - pieces / (length - 1)) * math.log(vocab_size)
    #! that is the floor without a leak
    # ~ return math.log(vocab_size)
    #! that is the sum over the positions; return nats per prediction
    # ~ return pieces * math.log(vocab_size)


# ---------------------------------------------------------------- questions


@question("leaks", "leaks.2")
def ask_centre(draw):
    for shape in [(2, 5, 3), (1, 4, 6), (3, 1, 2), (1, 1, 1), (4, 7, 1)]:
        yield Call(f"x {shape}", (draw.numbers(*shape),))
    for _ in draw.rounds:
        shape = draw.size(1, 4), draw.size(2, 8), draw.size(1, 5)
        yield Call(f"x {shape}", (draw.numbers(*shape, scale=30),))


@question("leaks", "leaks.3")
def ask_chance(draw):
    cases = [(3, 2), (10, 16), (2, 4), (10, 90), (4, 1)]
    cases += [(V := draw.size(2, 12), draw.size(2, V * V)) for _ in draw.rounds]
    for V, draws in cases:
        yield Call(f"V = {V}, draws = {draws}", (V, draws))


@question("leaks", "leaks.4")
def ask_floor(draw):
    cases = [(10, 13, 2), (10, 13, 1), (6, 11, 4), (7, 9, 20), (3, 2, 1), (5, 12, 5)]
    cases += [(draw.size(2, 50), draw.size(2, 20), draw.size(1, 9)) for _ in draw.rounds]
    for V, length, size in cases:
        yield Call(f"vocab_size = {V}, length = {length}, size = {size}", (V, length, size))
