"Mask patterns, and masks of other people."

import math  # noqa: F401, the mistakes use it

import torch

from ..attention.masks import causal_mask, combine_masks, padding_mask
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("mask_patterns.1", near=1e-9)
def reach_of_six_layers():
    # ? How far back does one layer reach? The query's own position is one of the four.
    # ? Each layer adds the same number of positions
    return 6 * (4 - 1)
    #! a window of 4 holds the query itself, so it reaches 3 back
    # ~ return 6 * 4
    #! that is one layer; the next one reaches further through the words it attends to
    # ~ return 3
    #! that counts the output's own position too; how far back lies the earliest?
    # ~ return 19
    #! the layers add up, they do not multiply
    # ~ return 3**6
    #! the first layer attends to inputs, so there are six steps, not five between six layers
    # ~ return 5 * 3


@exercise("mask_patterns.2")
def strided_mask(T, stride, window):
    # ? How far key j lies behind query i is i - j. Both conditions are about that number.
    # ? The near past: 0 <= i - j < window. The far past: i - j >= 0, and stride divides it.
    # ? `(back >= 0) & ((back < window) | (back % stride == 0))`, and two axes in front
    back = torch.arange(T)[:, None] - torch.arange(T)  # (T, T)
    #! rows and columns are swapped; row i is query i
    # ~ back = torch.arange(T) - torch.arange(T)[:, None]
    return ((back >= 0) & ((back < window) | (back % stride == 0)))[None, None]
    #! your mask is the wrong way round; True means may attend
    # ~ return ~((back >= 0) & ((back < window) | (back % stride == 0)))[None, None]
    #! True and False are asked for, not numbers
    # ~ return ((back >= 0) & ((back < window) | (back % stride == 0))).float()[None, None]
    #! you left out the diagonal; a query may attend to itself
    # ~ return ((back > 0) & ((back < window) | (back % stride == 0)))[None, None]
    #! your window holds one key too many; the query itself is one of its keys
    # ~ return ((back >= 0) & ((back <= window) | (back % stride == 0)))[None, None]
    #! your window holds one key too few; the query itself is one of its keys
    # ~ return ((back >= 0) & ((back < window - 1) | (back % stride == 0)))[None, None]
    #! your strides reach into the future too; i - j is a multiple there as well
    # ~ return ((back >= 0) & (back < window) | (back % stride == 0))[None, None]
    #! your window reaches into the future too
    # ~ return ((back.abs() < window) | (back >= 0) & (back % stride == 0))[None, None]
    #! the future is not hidden
    # ~ return ((back.abs() < window) | (back % stride == 0))[None, None]
    #! the future is not hidden; i - j is negative there
    # ~ return ((back < window) | (back % stride == 0))[None, None]
    #! that is the window alone; the keys `stride` positions apart are missing
    # ~ return ((back >= 0) & (back < window))[None, None]
    #! that is the stride alone; the window is missing
    # ~ return ((back >= 0) & (back % stride == 0))[None, None]
    #! a key needs one of the two reasons, not both: | instead of &
    # ~ return ((back >= 0) & (back < window) & (back % stride == 0))[None, None]
    #! you count steps from the start of the text; they are counted back from the query
    # ~ return ((back >= 0) & ((back < window) | (torch.arange(T) % stride == 0)))[None, None]
    #! you count steps from the end of the window; they are counted back from the query
    # ~ return ((back >= 0) & ((back < window) | ((back - window + 1) % stride == 0)))[None, None]
    #! you allowed only the first of the steps; all multiples of stride may be attended to
    # ~ return ((back >= 0) & ((back < window) | (back == stride)))[None, None]


@exercise("mask_patterns.3", near=1e-9)
def count(T, window):
    # ? How many keys may query i attend to, early in the text and later?
    # ? The first w rows hold 1, 2, …, w ones, the others w each. What does a w above T change?
    w = min(window, T)
    #! a window longer than the text is as good as one of T: take the smaller of both
    # ~ w = window
    return w * T - w * (w - 1) // 2
    #! the first rows hold fewer than w ones
    # ~ return w * T
    #! that is the causal mask; a window holds at most w keys
    # ~ return T * (T + 1) // 2
    #! the first w rows are missing
    # ~ return w * (T - w)
    #! the first w rows hold w(w + 1)/2 ones, because the query itself counts
    # ~ return w * (T - w) + w * (w - 1) // 2
    #! those are the masked entries; count the ones
    # ~ return T * T - w * T + w * (w - 1) // 2


@exercise("mask_patterns.4", near=1e-9)
def pairs_above_zero():
    # ? In nn.MultiheadAttention True means may not. Which pairs does the triangle then leave, and which keys does the other mask leave?
    # ? A pair needs both: the key lies after the query, and the key is padding
    return 2 + 2 + 2 + 1 + 0  # keys 3 and 4 if they lie after the query
    #! that is what was meant; in nn.MultiheadAttention True means may not
    # ~ return 12
    #! you turned round one mask of the two; in nn.MultiheadAttention True means may not in both
    # ~ return 3
    #! you counted one of the two masks alone
    # ~ return 10
    #! a pair must be left open by both masks, not by one of them
    # ~ return 13
    #! you counted the blocked pairs
    # ~ return 18
    #! the diagonal is blocked too, it is True in the triangle
    # ~ return 9


@exercise("mask_patterns.5")
def safe_mask(tokens, pad=0):
    # ? Build the combined mask first, then find its empty rows with `any` over the keys.
    # ? A query attends to itself on the diagonal: `torch.eye(T, dtype=torch.bool)`.
    # ? `mask | (empty & eye)`, with `empty` of shape (B, 1, T, 1)
    mask = combine_masks(causal_mask(tokens.shape[1]), padding_mask(tokens, pad))  # (B, 1, T, T)
    #! you compared with 0; use the argument pad
    # ~ mask = combine_masks(causal_mask(tokens.shape[1]), padding_mask(tokens))
    #! the causal mask is missing
    # ~ mask = padding_mask(tokens, pad).expand(-1, 1, tokens.shape[1], -1)
    empty = ~mask.any(dim=-1, keepdim=True)  # (B, 1, T, 1)
    #! a text that begins with padding has empty rows too, not only one of padding alone
    # ~ empty = (tokens == pad).all(dim=-1)[:, None, None, None]
    return mask | empty & torch.eye(tokens.shape[1], dtype=torch.bool)
    #! your empty rows are still empty
    # ~ return mask
    #! you opened the diagonal for every query; only those with nothing to attend to need it
    # ~ return mask | torch.eye(tokens.shape[1], dtype=torch.bool)
    #! your empty rows may attend to everything, the future and the padding included
    # ~ return mask | empty
    #! your empty rows may attend to the padding before them; the exercise allows each itself only
    # ~ return mask | empty & causal_mask(tokens.shape[1])
    #! your mask is the wrong way round; True means may attend
    # ~ return ~(mask | empty & torch.eye(tokens.shape[1], dtype=torch.bool))
    #! True and False are asked for, not numbers
    # ~ return (mask | empty & torch.eye(tokens.shape[1], dtype=torch.bool)).float()


@exercise("mask_patterns.6")
def leak(m, n, c):
    # ? Equal scores may all be set to 0. What is e to the score, for an allowed key and for a forbidden one?
    # ? The share is n times e^-c, divided by the sum over all keys, m + n times e^-c.
    # ? For c = 1e9, e^-c is 0 as a float, and with m = 0 the fraction is 0/0. A softmax subtracts the largest score first: let torch take it
    scores = torch.tensor([0.0] * m + [-c] * n)  # (m + n,)
    #! you added c to the forbidden scores; the mask subtracts it
    # ~ scores = torch.tensor([0.0] * m + [c] * n)
    return scores.softmax(dim=0)[m:].sum()
    #! not divided by the sum over all keys
    # ~ return n * math.exp(-c)
    #! that is the share of one forbidden key; there are n of them
    # ~ return math.exp(-c) / (m + n * math.exp(-c))
    #! that is the share of one forbidden key; there are n of them, and a softmax of all
    # ~ return scores.softmax(dim=0)[-1]
    #! that is the share without a mask; -c is missing
    # ~ return n / (m + n)
    #! that is the share of the allowed keys
    # ~ return scores.softmax(dim=0)[:m].sum()
    #! in the sum over all keys the forbidden scores are lowered too
    # ~ return n * math.exp(-c) / (m + n)
    #! that is forbidden against allowed; the share is forbidden against all
    # ~ return n * math.exp(-c) / m
    #! m and n are swapped
    # ~ return m * math.exp(-c) / (n + m * math.exp(-c))
    #! the formula is right, but for m = 0 and c = 10⁹ e^-c is 0 as a float, and the fraction 0/0; a
    #! softmax subtracts the largest score first
    # ~ return n * math.exp(-c) / (m + n * math.exp(-c))
    #! the formula is right, but for m = 0 and c = 10⁹ e^-c is 0, and 0/0 is NaN; a softmax subtracts
    #! the largest score first
    # ~ return n * torch.tensor(-c).exp() / (m + n * torch.tensor(-c).exp())
    #! with m = 0 all weight lies on forbidden keys, so the share is 1, not 0
    # ~ return scores.softmax(dim=0)[m:].sum() if m else 0.0


# ---------------------------------------------------------------- questions


def _kind(answer, args, result):
    return {"whether it is boolean": getattr(result, "dtype", None) == torch.bool}


@question("mask_patterns", "mask_patterns.2")
def ask_strided_mask(draw):
    cases = [(11, 4, 3), (5, 2, 1), (12, 3, 5), (7, 1, 2), (6, 9, 2), (4, 2, 6), (1, 3, 2)]
    cases += [(draw.size(5, 14), draw.size(2, 6), draw.size(1, 6)) for _ in draw.rounds]
    for T, stride, window in cases:
        what = f"T = {T}, stride = {stride}, window = {window}"
        yield Call(what, (T, stride, window), look=_kind)


@question("mask_patterns", "mask_patterns.3")
def ask_count(draw):
    cases = [(11, 4), (7, 1), (9, 9), (5, 8), (1, 1), (1, 3), (40, 7)]
    cases += [(draw.size(1, 30), draw.size(1, 30)) for _ in draw.rounds]
    for T, window in cases:
        yield Call(f"T = {T}, window = {window}", (T, window))


@question("mask_patterns", "mask_patterns.5")
def ask_safe_mask(draw):
    tokens = torch.tensor([[9, 9, 4, 5], [9, 9, 9, 9], [1, 2, 9, 9]])
    yield Call("pads on the left, everywhere and on the right", (tokens, 9), look=_kind)
    yield Call("pad=0, if it isn't given", (torch.tensor([[0, 0, 7, 8, 3]]),), look=_kind)
    yield Call("no padding", (torch.tensor([[1, 2, 3], [4, 5, 6]]),), look=_kind)
    yield Call("pad=2, and 0 is a word", (torch.tensor([[2, 0, 3, 0, 2, 1]]), 2), look=_kind)
    yield Call("one word, and padding alone", (torch.tensor([[1], [0]]),), look=_kind)
    for _ in draw.rounds:
        tokens = draw.tokens(draw.size(1, 4), draw.size(2, 6), low=0, high=3)
        yield Call(f"tokens {tuple(tokens.shape)}", (tokens,), look=_kind)


@question("mask_patterns", "mask_patterns.6")
def ask_leak(draw):
    cases = [(3, 2, 1.5), (1, 4, 1.0), (2, 7, 0.5), (5, 1, 3.0), (4, 3, 0.0)]
    cases += [(0, 4, 1.0), (3, 2, 1e9), (0, 4, 1e9), (0, 1, 200.0), (2, 5, 1e4)]
    for m, n, c in cases:
        yield Call(f"m = {m}, n = {n}, c = {c:g}", (m, n, c))
