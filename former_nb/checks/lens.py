"""Judges of the exercises on the page 16_interpretability, and the mistakes that they know."""

import torch
from torch import nn

from ..base.exercises import diagnose, exercise
from ..inspection.lens import scale_part


@exercise(
    "lens.1",
    "LayerNorm takes away the mean, divides by the size, and multiplies by `weight`. Which of the "
    "three can be done to each part alone?",
    "Only the size needs the whole stream, `parts.sum(dim=0)`. Take it once.",
    "`(norm.weight * centred / size) @ row`, with the mean taken from each part and "
    "`size = (stream.var(correction=0) + norm.eps).sqrt()`.",
)
def judge_lens_1(answer):
    "A function of the terms of a stream, a norm and a row of the head."
    draw = torch.Generator().manual_seed(1)
    parts = 1 + torch.randn(3, 6, generator=draw)
    row = torch.randn(6, generator=draw)
    norm = nn.LayerNorm(6, eps=0.01).requires_grad_(False)
    norm.weight.copy_(torch.rand(6, generator=draw) + 0.5)
    norm.bias.copy_(torch.randn(6, generator=draw))
    stream = parts.sum(dim=0)
    centred = parts - parts.mean(dim=-1, keepdim=True)
    size = (stream.var(correction=0) + norm.eps).sqrt()
    right = scale_part(norm, stream, parts) @ row
    each = norm(parts) - norm.bias
    return diagnose(
        answer(parts, norm, row),
        right,
        {
            "each part is divided by a size of its own; it is the size of their sum that the norm "
            "divides by": each @ row,
            "that is the norm of each part alone, its bias included; the size is that of their "
            "sum": norm(parts) @ row,
            "the mean of each part is still in it": (norm.weight * parts / size) @ row,
            "norm.weight is missing": (centred / size) @ row,
            "nothing is divided by the size of the stream": (norm.weight * centred) @ row,
            "norm.bias is counted once for each part; leave it out": right + norm.bias @ row,
            "var divides by D - 1 unless you say correction=0": (
                (norm.weight * centred / (stream.var() + norm.eps).sqrt()) @ row
            ),
            "the size is that of the stream less its mean": (
                (norm.weight * centred / (stream.square().mean() + norm.eps).sqrt()) @ row
            ),
            "that is their sum, the logit; each part is asked for": right.sum(),
        },
    )


@exercise(
    "lens.2",
    "Follow the arrows of the model from what is patched to the logits. Is there a way from a to "
    "the logits that goes around the patch?",
    "Cross-attention is the only way from the source to the decoder, and each layer has one.",
    "After (a) and (b) the memory is that of b, and after (d) the end of the stream is. The "
    "decoder's own beginning is the same for both numbers, and (e) leaves layer 1 as it was.",
)
def judge_lens_2(answer):
    "Five booleans."
    return diagnose(
        answer,
        [True, True, False, True, False],
        places=(
            "(a): all that the encoder makes comes from its embeddings",
            "(b): the memory is the normed end of this stream",
            "(c): the decoder has read <bos> for both numbers",
            "(d): norm and head read the end of this stream and nothing else",
            "(e): cross-attention of layer 1 has still read a",
        ),
    )


@exercise(
    "lens.3",
    "With both terms the logit is s_u + s_v. What is left without u, when v has the norm to "
    "itself?",
    "The squared length that is left is 1 - p of what it was. The norm divides by its root.",
    "`s_u + s_v - s_v / (1 - p) ** 0.5`.",
)
def judge_lens_3(answer):
    "A function of two shares and a part of a squared length."
    for s_u, s_v, p in ((2.0, 5.0, 0.36), (3.0, -1.0, 0.75)):
        left = s_v / (1 - p) ** 0.5
        problem = diagnose(
            answer(s_u, s_v, p),
            s_u + s_v - left,
            {
                "that is the share of u; the size of the stream changes, too": s_u,
                "that is the logit that is left, not by how much it falls": left,
                "the size is the root of the squared length that is left": (
                    s_u + s_v - s_v / (1 - p)
                ),
                "a smaller stream makes the share of v larger, not smaller": (
                    s_u + s_v - s_v * (1 - p) ** 0.5
                ),
                "p is the part of u; 1 - p is left": s_u + s_v - s_v / p**0.5,
                "the share of u falls away whole, whatever the size": s_v - left,
            },
        )
        if problem:
            return problem
