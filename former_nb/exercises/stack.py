"Exercises of the deep dive on depth, its second half: what decides whether many blocks learn."

import math  # noqa: F401, a mistake takes the logarithm

from torch import nn

from ..attention.multi_head import MultiHeadAttention
from ..grading.ask import Call, exercise, question
from ..models.layers import FeedForward
from ..models.post_norm import PostNormBlock

# ---------------------------------------------------------------- exercises


@exercise("stack.1")
def weights_of_a_decoder_block():
    # ? Two attentions of four matrices each, a feed-forward network of three, and a norm for each of the three parts.
    # ? Every linear layer has a bias as long as its output; RMSNorm has a gain and no shift.
    # ? 2·(4d² + 4d) for attention, d·2·d_ff + 2·d_ff + d_ff·d + d for the feed-forward network, 3d for the norms.
    d, d_ff = 12, 40
    #! you took two thirds of d_ff; this block was built with all 40 units
    # ~ d, d_ff = 12, 26
    #! you took two thirds of d_ff; this block was built with all 40 units
    # ~ d, d_ff = 12, 27
    attentions = 2 * 4 * (d * d + d)  # four matrices each, however many heads
    #! that is the block without cross-attention; a decoder's has a second attention, with a norm of its own
    # ~ attentions = 4 * (d * d + d)
    # ~ norms = 3 * d -> norms = 2 * d
    #! attention has a fourth matrix, which mixes the heads
    # ~ attentions = 2 * 3 * (d * d + d)
    #! you multiplied the attention by the number of heads; the heads share d_model between them
    # ~ attentions = 2 * 3 * 4 * (d * d + d)
    #! the biases of the attentions are missing
    # ~ attentions = 2 * 4 * d * d
    #! the biases of the linear layers are missing
    # ~ attentions = 2 * 4 * d * d
    # ~ 2 * (d * d_ff + d_ff) + (d_ff * d + d) -> 3 * d * d_ff
    #! you counted the matrices only; linear layers have biases, norms a gain
    # ~ attentions = 2 * 4 * d * d
    # ~ 2 * (d * d_ff + d_ff) + (d_ff * d + d) -> 3 * d * d_ff
    # ~ norms = 3 * d -> norms = 0
    network = 2 * (d * d_ff + d_ff) + (d_ff * d + d)
    #! SwiGLU has two patterns for each unit, a gate and what passes through it
    # ~ network = (d * d_ff + d_ff) + (d_ff * d + d)
    #! the input of the second layer is what the gate has let through, d_ff numbers, not 2 · d_ff
    # ~ network = 2 * (d * d_ff + d_ff) + (2 * d_ff * d + d)
    norms = 3 * d
    #! RMSNorm has a gain and no shift
    # ~ norms = 3 * 2 * d
    #! the three norms are missing, each with a gain
    # ~ norms = 0
    #! 12 are missing: cross-attention has a norm of its own, and each part's last layer a bias
    # ~ norms = 2 * d
    return attentions + network + norms


@exercise("stack.2")
def rms_norm_backward(x, gain, g, eps):
    # ? A feature moves its own output directly, and all outputs through the root.
    # ? With r = √(mean of x² + ε) and u = x/r: ∂r/∂x_j = u_j/D.
    # ? With h = gain · g, the result is h less u times the mean of h·u, all divided by r.
    r = (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()  # (B, T, 1)
    #! `eps` is missing under the root
    # ~ r = x.pow(2).mean(-1, keepdim=True).sqrt()
    #! `eps` is not the one that was passed
    # ~ r = (x.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
    h = gain * g  # (B, T, d_model)
    #! the gain is missing: the output is gain times x/r, so g is multiplied by it
    # ~ h = g
    #! the gain comes first: it multiplies g inside the mean as well
    # ~ h = g
    # ~ return ( -> return gain * (
    u = x / r
    #! the last term has x where u = x/r belongs
    # ~ u = x
    return (h - u * (h * u).mean(-1, keepdim=True)) / r
    #! you took the root as constant; it depends on every feature
    # ~ return h / r
    #! the term with the mean of the gradient belongs to LayerNorm; RMSNorm has no mean to pass it through
    # ~ return (h - h.mean(-1, keepdim=True) - u * (h * u).mean(-1, keepdim=True)) / r
    #! that is the gradient of LayerNorm; RMSNorm does not subtract the mean
    # ~ c = x - x.mean(-1, keepdim=True)
    # | r = (c.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    # | return (h - h.mean(-1, keepdim=True) - c / r * (h * c / r).mean(-1, keepdim=True)) / r
    #! the factor 1/r is missing
    # ~ return h - u * (h * u).mean(-1, keepdim=True)
    #! the last term has the wrong sign: a larger feature makes every output smaller
    # ~ return (h + u * (h * u).mean(-1, keepdim=True)) / r
    #! you summed where the mean belongs; ∂r/∂x_j carries 1/D
    # ~ return (h - u * (h * u).sum(-1, keepdim=True)) / r
    #! you divided by r²; r belongs there
    # ~ return (h - u * (h * u).mean(-1, keepdim=True)) / r**2
    #! you summed over the tokens; each token has a gradient of its own
    # ~ return ((h - u * (h * u).mean(-1, keepdim=True)) / r).sum((0, 1))


@exercise(
    "stack.3",
    parts=(
        "(a): add 0.25, the variance of a write, to 9 for each write, two in a block, and take the root",
        "(b): the factor multiplies a write, so its square multiplies the variance",
        "(c): a decoder's block writes three times",
        "(d): what does a post-norm block do last?",
    ),
    near=2e-3,  # rounded to two places is enough
)
def spreads_at_the_top():
    # ? Independent numbers: which add up, the standard deviations or the variances?
    # ? Start with the variance of the stream, 9, and add 0.25 for each write; take the root at the end.
    # ? The factor multiplies a write, so its square multiplies the variance. And what does a post-norm block do last?
    a = (3**2 + 32 * 0.5**2) ** 0.5
    #! (a) you added standard deviations; variances add
    # ~ a = 3 + 32 * 0.5
    #! (a) that is the variance; its root is asked for
    # ~ a = 3**2 + 32 * 0.5**2
    #! (a) what the stream starts with is missing
    # ~ a = (32 * 0.5**2) ** 0.5
    #! (a) each block writes twice
    # ~ a = (3**2 + 16 * 0.5**2) ** 0.5
    #! (a) every write adds variance
    # ~ a = 3
    b = (3**2 + 32 * (0.5 / 32**0.5) ** 2) ** 0.5
    #! (b) you added standard deviations; variances add
    # ~ b = 3 + 32 * 0.5 / 32**0.5
    #! (b) you added standard deviations; variances add
    # ~ b = 3 + 0.5
    #! (b) that is the variance; its root is asked for
    # ~ b = 3**2 + 0.5**2
    #! (b) what the stream starts with is missing
    # ~ b = 0.5
    #! (b) that is without the factor
    # ~ b = (3**2 + 32 * 0.5**2) ** 0.5
    #! (b) the factor multiplies the write, so its square multiplies the variance
    # ~ b = (3**2 + 32 * 0.5**2 / 32**0.5) ** 0.5
    #! (b) you divided by 2 · 16; the factor has a root
    # ~ b = (3**2 + 32 * (0.5 / 32) ** 2) ** 0.5
    #! (b) the factor is on the writes, not on the whole stream
    # ~ b = ((3**2 + 32 * 0.5**2) / 32) ** 0.5
    c = (3**2 + 48 * 0.5**2) ** 0.5
    #! (c) you added standard deviations; variances add
    # ~ c = 3 + 48 * 0.5
    #! (c) that is the variance; its root is asked for
    # ~ c = 3**2 + 48 * 0.5**2
    #! (c) what the stream starts with is missing
    # ~ c = (48 * 0.5**2) ** 0.5
    #! (c) a decoder's block writes three times
    # ~ c = (3**2 + 32 * 0.5**2) ** 0.5
    d = 1
    #! (d) a post-norm block ends with a norm
    # ~ d = (3**2 + 32 * 0.5**2) ** 0.5
    #! (d) a post-norm block ends with a norm
    # ~ d = 3
    #! (d) a norm makes the mean 0; the standard deviation is asked for
    # ~ d = 0
    return a, b, c, d


@exercise("stack.4")
def deep_norm(block, x, n_layers):
    # ? Start from the two lines of `PostNormBlock`: `block.norm_attention(x + block.attention(x))`, then the same with `norm_ff` and `ff`.
    # ? α multiplies the stream, in both additions; the input of each part and what it writes stay as they are.
    # ? `block.norm_attention(alpha * x + block.attention(x))`, with `alpha = (2 * n_layers) ** 0.25`
    alpha = (2 * n_layers) ** 0.25
    #! you took a square root; α has a fourth root
    # ~ alpha = (2 * n_layers) ** 0.5
    #! the 2 in α is missing; a block writes twice
    # ~ alpha = n_layers**0.25
    #! the 2 in α stands under the root
    # ~ alpha = 2 * n_layers**0.25
    #! the stream gets smaller beside the write, not larger. α is on the write, or you divided by it
    # ~ alpha = (2 * n_layers) ** -0.25
    #! that is the block as it is; α is missing, or it multiplies the whole sum, and the norm takes it out again
    # ~ alpha = 1
    x = block.norm_attention(alpha * x + block.attention(x))
    #! α is missing in the first addition, that of attention
    # ~ x = block.norm_attention(x + block.attention(x))
    return block.norm_ff(alpha * x + block.ff(x))
    #! α is missing in the second addition, that of the feed-forward network
    # ~ return block.norm_ff(x + block.ff(x))
    #! you multiplied the input of the part too; α multiplies the stream in the sum only
    # ~ return block.norm_ff(alpha * x + block.ff(alpha * x))
    # ~ block.attention(x) -> block.attention(alpha * x)
    #! that is pre-norm; the norm comes after the addition
    # ~2 x = alpha * x + block.attention(block.norm_attention(x))
    # | return alpha * x + block.ff(block.norm_ff(x))
    #! you normalised the write alone; the norm comes after the addition
    # ~2 x = alpha * x + block.norm_attention(block.attention(x))
    # | return alpha * x + block.norm_ff(block.ff(x))


@exercise("stack.5")
def write_size(n_layers, share, norm_first):
    # ? Pre-norm: the input keeps its variance of 1, the writes add 2·L·s² beside it. What is the input's share of the sum?
    # ? Post-norm: after one addition the input has 1 of 1 + s², and the norm makes the sum 1 again. The next addition does the same to what is left.
    # ? Shares: 1 / (1 + 2·L·s²) with pre-norm, (1 + s²) ** (-2·L) with post-norm. Solve for s² and take the root
    if norm_first:
        #! pre-norm and post-norm are exchanged; post-norm divides after each addition
        # ~ if not norm_first:
        return ((1 / share - 1) / (2 * n_layers)) ** 0.5
        #! with pre-norm, that is s²; its root is asked for
        # ~ return (1 / share - 1) / (2 * n_layers)
        #! with pre-norm, each block writes twice
        # ~ return ((1 / share - 1) / n_layers) ** 0.5
        #! with pre-norm, the share is one of variances; you took one of standard deviations
        # ~ return ((1 / share**2 - 1) / (2 * n_layers)) ** 0.5
        #! with pre-norm, the input's own variance is missing in the sum
        # ~ return (1 / share / (2 * n_layers)) ** 0.5
        #! with pre-norm, share and rest are swapped
        # ~ return (1 / (1 / share - 1) / (2 * n_layers)) ** 0.5
        #! with pre-norm, you added the standard deviations of the writes; variances add
        # ~ return (1 / share - 1) ** 0.5 / (2 * n_layers)
        #! that is the answer for post-norm in both cases; pre-norm only adds
        # ~ return (share ** (-1 / (2 * n_layers)) - 1) ** 0.5
    return (share ** (-1 / (2 * n_layers)) - 1) ** 0.5
    #! that is the answer for pre-norm in both cases; post-norm divides after each addition
    # ~ return ((1 / share - 1) / (2 * n_layers)) ** 0.5
    #! with post-norm, that is s²; its root is asked for (or you divided the variance by 1 + s, which has to be 1 + s²)
    # ~ return share ** (-1 / (2 * n_layers)) - 1
    #! that is s² in both cases; its root is asked for
    # ~ return share ** (-1 / (2 * n_layers)) - 1
    # ~ return ((1 / share - 1) / (2 * n_layers)) ** 0.5 -> return (1 / share - 1) / (2 * n_layers)
    #! with post-norm, each block writes twice, and divides twice (or you took a share of standard deviations; it is one of variances)
    # ~ return (share ** (-1 / n_layers) - 1) ** 0.5
    #! with post-norm, the stream is divided after each addition, not once in a block
    # ~ return ((share ** (-1 / n_layers) - 1) / 2) ** 0.5
    #! with post-norm, that is the limit for large L; for this L it is not exact
    # ~ return (-math.log(share) / (2 * n_layers)) ** 0.5
    #! with post-norm, share and rest are swapped
    # ~ return ((1 - share) ** (-1 / (2 * n_layers)) - 1) ** 0.5


# ---------------------------------------------------------------- questions


@question("stack", "stack.2")
def ask_rms_norm_backward(draw):
    fixed = [(2, 3, 5, 0.3), (1, 4, 6, 1e-5), (3, 1, 2, 1.0)]
    for B, T, d, eps in [
        *fixed,
        *((draw.size(1, 4), draw.size(1, 6), 7, 0.01) for _ in draw.rounds),
    ]:
        x, g = draw.numbers(B, T, d, scale=2.0) + 1, draw.numbers(B, T, d)
        gain = draw.numbers(d).abs() + 0.5
        yield Call(f"x {(B, T, d)}, eps = {eps}", (x, gain, g, eps))
    x, g = draw.numbers(2, 3, 5, scale=100.0), draw.numbers(2, 3, 5, scale=100.0)
    yield Call("large numbers", (x, draw.numbers(5), g, 1e-5))
    yield Call("x = 0", (0 * x, draw.numbers(5), g, 0.25))


def post_norm_block(draw, d_model, n_heads, d_ff):
    "A block with random weights, norms included."
    norms = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
    block = PostNormBlock(MultiHeadAttention(d_model, n_heads), FeedForward(d_model, d_ff), *norms)
    for weight in block.parameters():
        weight.data = draw.numbers(*weight.shape, scale=0.7)
    return block.eval()


@question("stack", "stack.4")
def ask_deep_norm(draw):
    for (d_model, n_heads, d_ff), n_layers in [((6, 2, 10), 8), ((8, 1, 4), 1), ((12, 3, 20), 12)]:
        block = post_norm_block(draw, d_model, n_heads, d_ff)
        for B, T in (2, 5), (1, 3):
            x = draw.numbers(B, T, d_model)
            yield Call(f"x {(B, T, d_model)}, n_layers = {n_layers}", (block, x, n_layers))


@question("stack", "stack.5")
def ask_write_size(draw):
    for n_layers, share in [(6, 0.3), (1, 0.5), (40, 0.9), (12, 0.01), (1000, 0.6), (3, 0.99)]:
        for norm_first in (True, False):
            what = f"n_layers = {n_layers}, share = {share}, norm_first = {norm_first}"
            yield Call(what, (n_layers, share, norm_first))
