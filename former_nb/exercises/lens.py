"Interpretability: what the stream holds halfway."

import torch
from torch import nn

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("lens.1")
def my_shares(parts, norm, row):  # (n, d_model), a LayerNorm, (d_model,)
    # ? LayerNorm takes away the mean, divides by the size, and multiplies by `weight`. Which of the three can be done to each part alone?
    # ? Only the size needs the whole stream, `parts.sum(dim=0)`. Take it once.
    # ? `(norm.weight * centred / size) @ row`, with the mean taken from each part and `size = (stream.var(correction=0) + norm.eps).sqrt()`.
    stream = parts.sum(dim=0)
    size = (stream.var(correction=0) + norm.eps).sqrt()
    #! each part is divided by a size of its own; it is the size of their sum that the norm divides
    #! by
    # ~ size = (parts.var(dim=-1, correction=0, keepdim=True) + norm.eps).sqrt()
    #! var divides by D - 1 unless you say correction=0
    # ~ size = (stream.var() + norm.eps).sqrt()
    #! the size is that of the stream less its mean
    # ~ size = (stream.square().mean() + norm.eps).sqrt()
    #! below the root belongs `norm.eps`, which each norm has of its own
    # ~ size = stream.var(correction=0).sqrt()
    #! nothing is divided by the size of the stream
    # ~ size = 1
    centred = parts - parts.mean(dim=-1, keepdim=True)
    #! the mean of each part is still in it
    # ~ centred = parts
    #! the mean is taken over the parts; it is the mean of each part's own numbers
    # ~ centred = parts - parts.mean(dim=0)
    #! one mean is taken of all parts; each has its own
    # ~ centred = parts - parts.mean()
    #! the mean of the whole stream is taken from each part; each has its own
    # ~ centred = parts - stream.mean()
    return (norm.weight * centred / size) @ row
    #! norm.weight is missing
    # ~ return (centred / size) @ row
    #! that is the norm of each part alone, its bias included; the size is that of their sum
    # ~ return norm(parts) @ row
    #! norm.bias is counted once for each part; leave it out
    # ~ return (norm.weight * centred / size + norm.bias) @ row
    #! that is by how much the logit falls without each part; a share keeps the size of the whole
    #! stream
    # ~ return torch.stack([(norm(stream) - norm(stream - part)) @ row for part in parts])
    #! that is their sum, the logit; each part is asked for
    # ~ return ((norm.weight * centred / size) @ row).sum()


@exercise(
    "lens.2",
    parts=(
        "(a): all that the encoder makes comes from its embeddings",
        "(b): the memory is the normed end of this stream",
        "(c): the decoder has read <bos> for both numbers",
        "(d): norm and head read the end of this stream and nothing else",
        "(e): cross-attention of layer 1 has still read a",
    ),
)
def patches_that_are_enough():
    # ? Follow the arrows of the model from what is patched to the logits. Is there a way from a to the logits that goes around the patch?
    # ? Cross-attention is the only way from the source to the decoder, and each layer has one.
    # ? After (a) and (b) the memory is that of b, and after (d) the end of the stream is. The decoder's own beginning is the same for both numbers, and (e) leaves layer 1 as it was.
    return [True, True, False, True, False]
    #! each is the other way round; True means that the patch is enough
    # ~ return [False, False, True, False, True]


@exercise("lens.3")
def loss_without(s_u, s_v, p):
    # ? With both terms the logit is s_u + s_v. What is left without u, when v has the norm to itself?
    # ? The squared length that is left is 1 - p of what it was. The norm divides by its root.
    # ? `s_u + s_v - s_v / (1 - p) ** 0.5`.
    left = s_v / (1 - p) ** 0.5
    #! the size is the root of the squared length that is left
    # ~ left = s_v / (1 - p)
    #! a smaller stream makes the share of v larger, not smaller
    # ~ left = s_v * (1 - p) ** 0.5
    #! p is the part of u; 1 - p is left
    # ~ left = s_v / p**0.5
    return s_u + s_v - left
    #! that is the share of u; the size of the stream changes, too
    # ~ return s_u
    #! that is the logit that is left, not by how much it falls
    # ~ return left
    #! the share of u falls away whole, whatever the size
    # ~ return s_v - left
    #! that is by how much the logit grows; asked for is by how much it falls
    # ~ return left - s_u - s_v


# ---------------------------------------------------------------- questions


@question("lens", "lens.1")
def ask_my_shares(draw):
    for n, D, eps in [(3, 6, 0.01), (5, 4, 0.1), (1, 8, 0.01), (2, 3, 0.5), (7, 12, 1e-5)]:
        norm = nn.LayerNorm(D, eps=eps).requires_grad_(False)
        norm.weight.copy_(1 + draw.numbers(D, scale=0.3))
        norm.bias.copy_(draw.numbers(D))
        parts = draw.numbers(n, D) + draw.numbers(n, 1)
        yield Call(f"parts ({n}, {D}), eps = {eps}", (parts, norm, draw.numbers(D)))
    norm = nn.LayerNorm(5).requires_grad_(False)
    parts = draw.numbers(2, 5, scale=100)
    yield Call("large parts", (torch.cat([parts, 1 - parts[:1]]), norm, draw.numbers(5)))


@question("lens", "lens.3")
def ask_loss_without(draw):
    cases = [(2.0, 5.0, 0.36), (3.0, -1.0, 0.75), (-1.5, 2.0, 0.19), (0.0, 4.0, 0.64)]
    cases += [(1.0, 0.0, 0.5), (-2.0, -3.0, 0.99)]
    cases += [(*draw.numbers(2).tolist(), draw.size(1, 99) / 100) for _ in draw.rounds]
    for s_u, s_v, p in cases:
        yield Call(f"s_u = {s_u:.3g}, s_v = {s_v:.3g}, p = {p}", (s_u, s_v, p))
