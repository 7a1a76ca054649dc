"Your attention in everybody's model: what a function needs for it."

import torch

from ..attention.fused import full_mask, masked_softmax
from ..grading.ask import Call, exercise, question
from .parts import a_mask

# ---------------------------------------------------------------- exercises


@exercise(
    "your_attention.1",
    parts=(
        "(a): a factor of the queries is a factor of the scores",
        "(b): keys and values can be repeated before your function sees them",
        "(c): a mask may hold numbers, which are added to the scores",
        "(d): dropped weights no longer come from a softmax, whatever the scores are",
        "(e): the cap bends each score, which exists only inside your function",
    ),
)
def what_an_adapter_can_express():
    # ? Which of the five changes q, k, v or the mask alone, before your function is called?
    # ? The first three: [True, True, True, False, False]. The others act inside the softmax.
    return [True, True, True, False, False]
    #! each is the other way round; True means that an adapter can express it
    # ~ return [False, False, False, True, True]


@exercise("your_attention.2")
def capped(q, k, v, mask, is_causal, softcap):
    # ? Scores first, then the cap, then the mask, then the softmax.
    # ? softcap * torch.tanh(scores / softcap), and masked_softmax after it.
    scores = q @ k.mT / q.shape[-1] ** 0.5
    #! the scores are divided by √d_k first
    # ~ scores = q @ k.mT
    #! the cap comes before the mask, or it makes -inf a score of -softcap
    # ~ hidden = full_mask(q, k, mask, is_causal)
    # | scores = q @ k.mT / q.shape[-1] ** 0.5
    # | scores = scores if hidden is None else scores.masked_fill(~hidden, float("-inf"))
    # ~ mask = full_mask(q, k, mask, is_causal)  # None -> mask = None  # that
    scores = softcap * torch.tanh(scores / softcap)
    #! the scores are not capped yet
    # ~
    #! multiply by softcap again, so that small scores stay as they are
    # ~ scores = torch.tanh(scores / softcap)
    #! divide by softcap inside of tanh
    # ~ scores = softcap * torch.tanh(scores)
    #! that cuts the scores off; a tanh bends them
    # ~ scores = scores.clamp(-softcap, softcap)
    #! the cap is 50, whatever softcap says
    # ~ scores = 50 * torch.tanh(scores / 50)
    mask = full_mask(q, k, mask, is_causal)  # None allows everything
    #! neither mask nor is_causal is used
    # ~ mask = None
    #! with is_causal, a query may attend to no later key
    # ~
    #! the mask is not used; yours knows is_causal alone
    # ~ mask = full_mask(q, k, None, is_causal)
    #! a mask and is_causal may both be given, and then both hold; yours forgets is_causal there
    # ~ mask = full_mask(q, k, mask, is_causal and mask is None)
    #! a mask and is_causal may both be given, and then both hold; yours forgets the mask there
    # ~ mask = full_mask(q, k, None if is_causal else mask, is_causal)
    weights = scores.softmax(dim=-1) if mask is None else masked_softmax(scores, mask)
    #! the mask is the wrong way round; True means may attend
    # ~ weights = scores.softmax(dim=-1) if mask is None else masked_softmax(scores, ~mask)
    return weights @ v
    #! those are the weights; multiply them by the values
    # ~ return weights


# ---------------------------------------------------------------- questions


@question("your_attention", "your_attention.2")
def ask_capped(draw):
    def qkv(B, h, T, S, d_k, d_v):
        shapes = ((B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v))
        return [draw.numbers(*shape, scale=3) for shape in shapes]

    for B, h, n, d_k, softcap in [(2, 3, 5, 6, 3.0), (1, 2, 4, 7, 0.5), (3, 1, 7, 2, 20.0)]:
        q, k, v = qkv(B, h, n, n, d_k, d_k + 1)
        what = f"q {tuple(q.shape)}, softcap = {softcap:g}"
        past = torch.ones(n, n, dtype=torch.bool).tril()
        mask = a_mask(draw, B, 1, n, n)
        yield Call(f"{what}, nothing hidden", (q, k, v, None, False, softcap))
        yield Call(f"{what}, a causal mask", (q, k, v, past, False, softcap))
        yield Call(f"{what}, a mask", (q, k, v, mask, False, softcap))
        yield Call(f"{what}, is_causal", (q, k, v, None, True, softcap))
        yield Call(f"{what}, a mask and is_causal", (q, k, v, mask, True, softcap))
    for T, S in [(1, 6), (3, 5), (6, 4)]:
        q, k, v = qkv(2, 3, T, S, 4, 5)
        given = (q, k, v, a_mask(draw, 2, 1, 1, S), False, 2.0)
        yield Call(f"{T} queries, {S} keys, a mask of padding", given)
