"Attention variants: equal numbers by other work."

import torch
from einops import rearrange

from ..attention.multi_head import MultiHeadAttention
from ..grading.ask import Call, exercise, question
from ..grading.observe import fill

# ---------------------------------------------------------------- exercises


@exercise(
    "equivalent_forms.1",
    parts=(
        "the factor of the parameters is wrong; which of the four matrices shrink, and by how much?",
        "the factor of the cache is wrong; it holds the keys and values of 4 heads, not of 16",
        "the factor of the scores is wrong; how many heads of queries meet keys?",
    ),
)
def factors_of_fewer_keys_and_values():
    # ? Which of the four matrices shrink, and which of them does the cache come from?
    # ? W_q and W_o keep d² numbers, W_k and W_v have d²/4. Which heads do the scores pair?
    return (1 + 1 / 4 + 1 / 4 + 1) / 4, 4 / 16, 1  # parameters, cache, scores
    #! W_k and W_v shrink to a quarter, but W_q and W_o keep their size
    # ~ return 0.25, 0.25, 1
    #! W_q and W_o both keep their size
    # ~ return (1 + 1 / 4 + 1 / 4 + 1 / 4) / 4, 0.25, 1
    #! W_o has parameters, too, and keeps its size
    # ~ return (1 + 1 / 4 + 1 / 4) / 3, 0.25, 1
    #! all 16 heads of queries still meet every key, so the scores cost what they did
    # ~ return 0.625, 0.25, 0.25
    #! only W_k, W_v and the cache shrink; W_q and W_o stay, and so do the scores
    # ~ return 0.25, 0.25, 0.25
    #! those are the factors the other way round, before over after
    # ~ return 1.6, 4, 1
    #! the cache holds the keys and values of 4 heads, not of 16
    # ~ return 0.625, 1, 1


@exercise("equivalent_forms.2")
def folded_with_padding(layer, x, keep):
    # ? The scores have shape (B * h, T, T). Which sentence does row i of the folded batch belong to?
    # ? Rows 0 … h - 1 belong to sentence 0: `keep.repeat_interleave(h, dim=0)`, with an axis of size 1
    q = rearrange(layer.split(layer.w_q(x)), "B h T d -> (B h) T d")
    k = rearrange(layer.split(layer.w_k(x)), "B h T d -> (B h) T d")
    v = rearrange(layer.split(layer.w_v(x)), "B h T d -> (B h) T d")
    n_heads = len(q) // len(x)
    real = keep.repeat_interleave(n_heads, dim=0)[:, None]  # (B * h, 1, T)
    #! `repeat` lists the sentences 0 1 2 0 1 2, but the folded batch is 0 0 1 1 2 2: use
    #! `repeat_interleave`
    # ~ real = keep.repeat(n_heads, 1)[:, None]
    #! you masked the queries; padding belongs on the last axis, that of the keys
    # ~ real = keep.repeat_interleave(n_heads, dim=0)[:, :, None]
    # ~ float("-inf") -> -1e9
    #! rows are NaN, because you masked the queries; mask the last axis, the keys
    # ~ real = keep.repeat_interleave(n_heads, dim=0)[:, :, None]
    #! the queries are masked, too, so those of padding have nothing to attend to; mask the keys
    # ~ real = keep.repeat_interleave(n_heads, dim=0)
    # | real = real[:, None] & real[:, :, None]
    #! the mask has no heads: it has to be repeated for the heads, one row for each row of the batch
    # ~ real = keep[:, None]
    scores = torch.bmm(q, k.mT) / layer.d_k**0.5  # (B * h, T, T)
    weights = scores.masked_fill(~real, float("-inf")).softmax(dim=-1)
    #! the mask is the wrong way round: True in `keep` means that the word is real
    # ~ weights = scores.masked_fill(real, float("-inf")).softmax(dim=-1)
    #! you set weights to zero after the softmax, so rows no longer sum to one; mask the scores
    # ~ weights = scores.softmax(dim=-1).masked_fill(~real, 0)
    #! the padding is still attended to
    # ~ weights = scores.softmax(dim=-1)
    #! a score of 0 is no mask, since e⁰ is 1; fill in minus infinity
    # ~ weights = scores.masked_fill(~real, 0).softmax(dim=-1)
    y = torch.bmm(weights, v)  # (B * h, T, d_k)
    return layer.w_o(rearrange(y, "(B h) T d -> B T (h d)", h=n_heads))
    #! you folded as (B h) and unfolded as (h B), so heads of different sentences are mixed
    # ~1 return layer.w_o(rearrange(y, "(h B) T d -> B T (h d)", h=n_heads))
    #! w_o is missing
    # ~1 return rearrange(y, "(B h) T d -> B T (h d)", h=n_heads)


@exercise("equivalent_forms.3")
def merge(a, alpha, b, beta):
    # ? Multiply a by e^α: what sum is left? Which sum should divide everything in the end?
    # ? (e^α a + e^β b) / (e^α + e^β), and both exponentials may be divided by the larger one first
    share = torch.stack([alpha, beta]).softmax(dim=0)[..., None]  # (2, T, 1)
    #! the softmax ran over the queries; it is the two blocks that share
    # ~ share = torch.stack([alpha, beta]).softmax(dim=1)[..., None]
    #! α and β are logarithms; it is e^α and e^β that weigh the blocks
    # ~ share = (torch.stack([alpha, beta]) / (alpha + beta))[..., None]
    #! you have e^α a + e^β b; divide by e^α + e^β
    # ~ share = torch.stack([alpha, beta]).exp()[..., None]
    #! the formula is right, but e^α overflows where α is large; subtract the larger of α and β first
    # ~ share = torch.stack([alpha, beta]).exp()[..., None]
    # | share = share / share.sum(0)
    #! subtract the larger of α and β, not the smaller one: it is the large ones that overflow
    # ~ share = torch.stack([alpha - alpha.min(beta), beta - alpha.min(beta)]).exp()[..., None]
    # | share = share / share.sum(0)
    #! you subtract one of both; if the other is much larger, it overflows; subtract the larger one
    # ~ share = torch.stack([alpha - alpha, beta - alpha]).exp()[..., None]
    # | share = share / share.sum(0)
    return share[0] * a + share[1] * b
    #! a plain mean: a block with larger scores weighs more
    # ~ return (a + b) / 2
    #! a plain sum: each block's weights sum to one, so those of both sum to two
    # ~ return a + b
    #! each block got the weight of the other
    # ~ return share[1] * a + share[0] * b
    #! of each query only the block with larger scores is left; the other one has a share, too
    # ~ return torch.where(share[0] > share[1], a, b)


# ---------------------------------------------------------------- questions


@question("equivalent_forms", "equivalent_forms.2")
def ask_folded_with_padding(draw):
    some = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)
    for B, T, d_model, h in [
        (3, 5, 12, 2),
        (2, 6, 12, 4),
        (1, 4, 6, 1),
        (4, 1, 10, 5),
        (1, 3, 6, 3),
    ]:
        layer = MultiHeadAttention(d_model, h).eval()
        fill(layer, layer, {})
        keep = draw.mask(B, T)
        keep[:, draw.size(0, T - 1)] = True
        if B == 3:
            keep = some
        x = draw.numbers(B, T, d_model)
        yield Call(f"x {tuple(x.shape)}, {h} heads", (layer, x, keep))
    yield Call("no padding", (layer, x, torch.ones(1, 3, dtype=torch.bool)))


@question("equivalent_forms", "equivalent_forms.3")
def ask_merge(draw):
    cases = [
        ("ordinary scores", 1, 0, 0),
        ("α and β near 100", 1, 120, 110),
        ("-200", 1, -200, -199),
    ]
    cases += [
        ("β much larger", 1, 0, 200),
        ("α much larger", 1, 200, 0),
        ("large scores", 60, 0, 0),
    ]
    for what, scale, first, second in cases:
        T, d_v, n, m = draw.size(4, 6), 3, draw.size(2, 5), draw.size(2, 5)
        inputs = []
        for size, more in [(n, first), (m, second)]:
            s, v = draw.numbers(T, size, scale=scale) + more, draw.numbers(size, d_v)
            inputs += [s.softmax(-1) @ v, s.logsumexp(-1)]
        yield Call(what, tuple(inputs))
    a, b = draw.numbers(1, 4), draw.numbers(1, 4)
    yield Call("T = 1", (a, draw.numbers(1), b, draw.numbers(1)))
