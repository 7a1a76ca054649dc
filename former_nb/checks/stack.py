"""Judges of the exercises on the page 06_depth, and the mistakes that they know."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import diagnose, exercise
from ..models.encoder_decoder import CrossAttention, DecoderBlock
from ..models.layers import FeedForward
from ..models.modern_decoder import RMSNorm, SwiGLU
from ..models.post_norm import PostNormBlock


@exercise(
    "stack.1",
    "Two attentions of four matrices each, a feed-forward network of three, "
    "and a norm for each of the three parts.",
    "Every linear layer has a bias as long as its output; RMSNorm has a gain and no shift.",
    "2·(4d² + 4d) for attention, d·2·d_ff + 2·d_ff + d_ff·d + d for the "
    "feed-forward network, 3d for the norms.",
)
def judge_stack_1(answer):
    d, h, d_ff = 12, 3, 40

    def count(d_ff):
        attentions = MultiHeadAttention(d, h), CrossAttention(d, h)
        norms = [RMSNorm(d) for _ in range(3)]
        block = DecoderBlock(*attentions, SwiGLU(d, d_ff, bias=True), *norms)
        return sum(p.numel() for p in block.parameters())

    right = torch.tensor(count(d_ff))
    attention, matrices, norms = 4 * d * d + 4 * d, 8 * d * d + 3 * d * d_ff, 3 * d
    return diagnose(
        answer,
        right,
        {
            "that is the block without cross-attention; a decoder's has a "
            "second attention, with a norm of its own": right - attention - d,
            "12 are missing: cross-attention has a norm of its own, and each part's last layer "
            "a bias": right - d,
            "RMSNorm has a gain and no shift": right + norms,
            "SwiGLU has two patterns for each unit, a gate and what passes through it": (
                right - d * d_ff - d_ff
            ),
            "you counted the matrices only; linear layers have biases, norms a gain": matrices,
            "the biases of the linear layers are missing": matrices + norms,
            "the biases of the attentions are missing": right - 8 * d,
            "attention has a fourth matrix, which mixes the heads": right - 2 * (d * d + d),
            "the input of the second layer is what the gate has let "
            "through, d_ff numbers, not 2 · d_ff": right + d * d_ff,
            "the three norms are missing, each with a gain": right - norms,
            "you multiplied the attention by the number of heads; the "
            "heads share d_model between them": right + 2 * (h - 1) * attention,
            "you took two thirds of d_ff, rounded down; this block "
            "was built with all 40 units": count(26),
            "you took two thirds of d_ff, rounded up; this block "
            "was built with all 40 units": count(27),
        },
    )


@exercise(
    "stack.2",
    "A feature moves its own output directly, and all outputs through the root.",
    "With r = √(mean of x² + ε) and u = x/r: ∂r/∂x_j = u_j/D.",
    "With h = gain · g, the result is h less u times the mean of h·u, all divided by r.",
)
def judge_stack_2(answer):
    generator = torch.Generator().manual_seed(0)
    x, g = (torch.randn(2, 3, 5, generator=generator) for _ in range(2))
    x, gain, eps = 2 * x + 1, torch.rand(5, generator=generator) + 0.5, 0.3
    leaf = x.clone().requires_grad_()
    (right,) = torch.autograd.grad((F.rms_norm(leaf, (5,), gain, eps) * g).sum(), leaf)
    mean = lambda t: t.mean(-1, keepdim=True)
    r, h = (mean(x * x) + eps).sqrt(), gain * g
    u = x / r
    sharp = mean(x * x).sqrt()
    s = (mean((x - mean(x)) ** 2) + eps).sqrt()
    v = (x - mean(x)) / s
    return diagnose(
        answer(x, gain, g, eps),
        right,
        {
            "you took the root as constant; it depends on every feature": h / r,
            "the term with the mean of the gradient belongs to LayerNorm; "
            "RMSNorm has no mean to pass it through": (h - mean(h) - u * mean(h * u)) / r,
            "that is the gradient of LayerNorm; RMSNorm does not subtract the mean": (
                (h - mean(h) - v * mean(h * v)) / s
            ),
            "the gain is missing: the output is gain times x/r, so g is multiplied by it": (
                (g - u * mean(g * u)) / r
            ),
            "the gain comes first: it multiplies g inside the mean as well": (
                gain * (g - u * mean(g * u)) / r
            ),
            "the factor 1/r is missing": h - u * mean(h * u),
            "the last term has the wrong sign: a larger feature makes every output smaller": (
                (h + u * mean(h * u)) / r
            ),
            "you summed where the mean belongs; ∂r/∂x_j carries 1/D": (h - 5 * u * mean(h * u)) / r,
            "the last term has x where u = x/r belongs": (h - x * mean(h * x)) / r,
            "you divided by r²; r belongs there": (h - u * mean(h * u)) / r**2,
            "`eps` is missing under the root, or is not the one that was passed": (
                (h - x / sharp * mean(h * x / sharp)) / sharp
            ),
            "you summed over the tokens; each token has a gradient of its own": right.sum((0, 1)),
        },
    )


@exercise(
    "stack.3",
    "Independent numbers: which add up, the standard deviations or the variances?",
    "Start with the variance of the stream, 9, and add 0.25 for "
    "each write; take the root at the end",
    "The factor multiplies a write, so its square multiplies the variance. "
    "And what does a post-norm block do last?",
)
def judge_stack_3(answer):
    try:
        given = [float(number) for number in answer]
    except (TypeError, ValueError):
        return f"expected four numbers, got {answer!r:.80}"
    if len(given) != 4:
        return f"expected four numbers, for a, b, c and d, got {len(given)}"
    added, variance = (
        "you added standard deviations; variances add",
        "that is the variance; its root is asked for",
    )
    start, post = "what the stream starts with is missing", "a post-norm block ends with a norm"
    parts = {  # the right number, and what mistakes give
        "a": (
            17**0.5,
            {
                19: added,
                17: variance,
                8**0.5: start,
                13**0.5: "each block writes twice",
                3: "every write adds variance",
            },
        ),
        "b": (
            9.25**0.5,
            {
                3 + 16 / 32**0.5: added,
                3.5: added,
                9.25: variance,
                0.5: start,
                17**0.5: "that is without the factor",
                (9 + 8 / 32**0.5)
                ** 0.5: "the factor multiplies the write, so its square multiplies the variance",
                (9 + 8 / 32**2) ** 0.5: "you divided by 2 · 16; the factor has a root",
                (17 / 32) ** 0.5: "the factor is on the writes, not on the whole stream",
            },
        ),
        "c": (
            21**0.5,
            {
                27: added,
                21: variance,
                12**0.5: start,
                17**0.5: "a decoder's block writes three times",
            },
        ),
        "d": (
            1,
            {
                17**0.5: post,
                3: post,
                0: "a norm makes the mean 0; the standard deviation is asked for",
            },
        ),
    }
    for number, (letter, (right, mistakes)) in zip(given, parts.items()):
        if not abs(number - right) < 0.006:  # rounded to two places is enough; NaN is not
            sentences = (
                sentence for wrong, sentence in mistakes.items() if abs(number - wrong) < 0.006
            )
            return f"({letter}) " + next(sentences, f"expected another number than {number:g}")
    return None


def _run(block, x, first, second):
    """A post-norm block whose stream is multiplied by `first` in the first addition and by `second`
    in the second."""
    x = block.norm_attention(first * x + block.attention(x))
    return block.norm_ff(second * x + block.ff(x))


@exercise(
    "stack.4",
    "Start from the two lines of `PostNormBlock`: `block.norm_attention(x + "
    "block.attention(x))`, then the same with `norm_ff` and `ff`",
    "α multiplies the stream, in both additions; the input of each part "
    "and what it writes stay as they are",
    "`block.norm_attention(alpha * x + block.attention(x))`, with `alpha = (2 * n_layers) ** 0.25`",
)
def judge_stack_4(answer):
    generator = torch.Generator().manual_seed(0)
    parts = MultiHeadAttention(6, 2), FeedForward(6, 10), nn.LayerNorm(6), nn.LayerNorm(6)
    block = PostNormBlock(*parts)
    with torch.no_grad():
        for p in block.parameters():
            p.copy_(0.7 * torch.randn(p.shape, generator=generator))
        x, n = torch.randn(2, 5, 6, generator=generator), 8

        def run(step):  # step(norm, layer, x), twice
            return step(block.norm_ff, block.ff, step(block.norm_attention, block.attention, x))

        scaled = lambda a, b: _run(block, x, a, b)
        alpha = (2 * n) ** 0.25
        mistakes = {
            "that is the block as it is; α is missing, or it multiplies the whole "
            "sum, and the norm takes it out again": block(x),
            "the stream gets smaller beside the write, not larger. α is on "
            "the write, or you divided by it": run(
                lambda norm, layer, x: norm(x + alpha * layer(x))
            ),
            "you multiplied the input of the part too; α "
            "multiplies the stream in the sum only": run(
                lambda norm, layer, x: norm(alpha * x + layer(alpha * x))
            ),
            "α is missing in the second addition, that of the feed-forward network": scaled(
                alpha, 1
            ),
            "α is missing in the first addition, that of attention": scaled(1, alpha),
            "you took a square root; α has a fourth root": scaled((2 * n) ** 0.5, (2 * n) ** 0.5),
            "the 2 in α is missing; a block writes twice": scaled(n**0.25, n**0.25),
            "the 2 in α stands under the root": scaled(2 * n**0.25, 2 * n**0.25),
            "that is pre-norm; the norm comes after the addition": run(
                lambda norm, layer, x: alpha * x + layer(norm(x))
            ),
            "you normalised the write alone; the norm comes after the addition": run(
                lambda norm, layer, x: alpha * x + norm(layer(x))
            ),
        }
        return diagnose(answer(block, x, n), scaled(alpha, alpha), mistakes)


@exercise(
    "stack.5",
    "Pre-norm: the input keeps its variance of 1, the writes add 2·L·s² beside "
    "it. What is the input's share of the sum?",
    "Post-norm: after one addition the input has 1 of 1 + s², and the norm makes the sum 1 "
    "again. The next addition does the same to what is left",
    "Shares: 1 / (1 + 2·L·s²) with pre-norm, (1 + s²) ** (-2·L) with "
    "post-norm. Solve for s² and take the root",
)
def judge_stack_5(answer):
    def right(n, share, first):
        return ((1 / share - 1) / (2 * n)) ** 0.5 if first else (share ** (-0.5 / n) - 1) ** 0.5

    mistakes = {
        True: lambda n, p: {
            "that is s²; its root is asked for": right(n, p, True) ** 2,
            "that is the answer for post-norm": right(n, p, False),
            "each block writes twice": right(n, p, True) * 2**0.5,
            "the share is one of variances; you took one of standard deviations": (
                ((1 / p**2 - 1) / (2 * n)) ** 0.5
            ),
            "the input's own variance is missing in the sum": (1 / p / (2 * n)) ** 0.5,
            "share and rest are swapped": (1 / (1 / p - 1) / (2 * n)) ** 0.5,
            "you added the standard deviations of the writes; variances add": (
                (1 / p - 1) ** 0.5 / (2 * n)
            ),
        },
        False: lambda n, p: {
            "that is s²; its root is asked for (or you divided the variance "
            "by 1 + s, which has to be 1 + s²)": right(n, p, False) ** 2,
            "that is the answer for pre-norm; post-norm divides after each addition": right(
                n, p, True
            ),
            "each block writes twice, and divides twice (or you took a share of "
            "standard deviations; it is one of variances)": (p ** (-1 / n) - 1) ** 0.5,
            "post-norm divides after each addition, not once in a block": (
                ((p ** (-1 / n) - 1) / 2) ** 0.5
            ),
            "that is the limit for large L; for this L it is not exact": (
                (math.log(1 / p) / (2 * n)) ** 0.5
            ),
            "share and rest are swapped": ((1 - p) ** (-0.5 / n) - 1) ** 0.5,
        },
    }
    for n, share in ((6, 0.3), (1, 0.5), (40, 0.9)):
        for first in (True, False):
            problem = diagnose(
                answer(n, share, first),
                right(n, share, first),
                mistakes[first](n, share),
            )
            if problem is not None:
                return f"for n_layers={n}, share={share}, norm_first={first}: {problem}"
    return None
