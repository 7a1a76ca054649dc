"The paper: twenty questions."

import math

import torch.nn.functional as F

from ..grading.ask import Call, exercise, question

KINDS = {  # what is in its name
    "self-attention": ["self"],
    "cross-attention": ["cross", "encoderdecoder"],
    "multi-head attention": ["multihead"],
    "masked attention": ["mask", "causal"],
}


def kind_of(name):
    "Which of the paper's kinds of attention a name means, however it is written."
    words = "".join(c for c in name.lower() if c.isalpha())
    for kind, parts in KINDS.items():
        if any(part in words for part in parts):
            return kind
    return words


# ---------------------------------------------------------------- exercises


@exercise("paper.1")
def my_sublayer(x, part, norm):
    # ? The paper writes LayerNorm(x + Sublayer(x)).
    # ? What comes first, the sum or the norm? Lesson 06 has the other order.
    return norm(x + part(x))
    #! that is pre-norm, the block of lesson 06; the paper takes the norm after the sum
    # ~ return x + part(norm(x))
    #! the stream is missing in the sum
    # ~ return norm(part(x))
    #! the norm is missing
    # ~ return x + part(x)
    #! the norm is of the sum; yours is of what the part writes
    # ~ return x + norm(part(x))
    #! the norm is of the sum; yours is of the stream alone
    # ~ return norm(x) + part(x)
    #! there is one norm, after the sum
    # ~ return norm(x + part(norm(x)))
    #! both were normed before the sum; the paper norms the sum
    # ~ return norm(x) + norm(part(x))


@exercise("paper.2", near=1e-9)
def layers_of_attention():
    # ? A decoder block has one attention more than an encoder block.
    # ? N = 6 blocks on each side.
    return 6 * 1 + 6 * 2  # six blocks with one, and six with two
    #! a decoder block has two of them, one over its own text and one over the memory
    # ~ return 12
    #! that is how many blocks a stack has; there are two stacks
    # ~ return 6
    #! those are all heads; eight of them are one layer
    # ~ return 144
    #! that counts the feed-forward networks too
    # ~ return 30
    #! an encoder block has one attention; only the decoder's have two
    # ~ return 24
    #! each of these three kinds occurs in six blocks
    # ~ return 3


@exercise("paper.3", read=kind_of)
def reads_two_texts():
    # ? It's the second part of a decoder block.
    # ? Lesson 13 calls it by a name of two words; the paper has another name for it.
    return "cross-attention"
    #! in self-attention all three come from one text
    # ~ return "self-attention"
    #! all three kinds have several heads; which of them reads two texts?
    # ~ return "multi-head attention"
    #! that is the decoder's attention over its own text
    # ~ return "masked attention"
    #! encoder and decoder both have an attention over their own text; which one reads both texts?
    # ~ return "encoder"
    #! encoder and decoder both have an attention over their own text; name the one that reads both
    # ~ return "decoder"
    #! all three are attention; which one reads both texts?
    # ~ return "attention"


@exercise(
    "paper.4",
    parts=(
        "d_k of base is wrong; divide its d_model by its number of heads",
        "d_k of big is wrong; divide its d_model by its number of heads",
    ),
)
def widths_of_a_head():
    # ? d_k = d_model / h.
    # ? The big model is twice as wide and has 16 heads.
    return 512 / 8, 1024 / 16  # base, big
    #! those are the widths of the models; their heads share them
    # ~ return 512, 1024
    #! those are the numbers of heads; how wide is one?
    # ~ return 8, 16
    #! big has 16 heads, not 8
    # ~ return 64, 128
    #! big is 1024 wide
    # ~ return 64, 32
    #! big's d_model is 1024; 4096 is its d_ff
    # ~ return 64, 256
    #! base has 8 heads; 16 are big's
    # ~ return 32, 64


@exercise(
    "paper.5",
    parts=(
        "the variance is wrong; each of the 64 products has variance 1, and variances add",
        "the standard deviation is wrong; it is the root of the variance",
        "the standard deviation after the division is wrong; divide the one before by √d_k",
    ),
)
def variance_and_spreads():
    # ? Each of the 64 products has variance 1, and variances of independent terms add.
    # ? The spread is the root of the variance.
    return 64, 64**0.5, 64**0.5 / 64**0.5  # variance, spread, spread after the division
    #! the first number is the variance; 8 is its root, the standard deviation
    # ~ return 8, 8, 1
    #! one product has variance 1; 64 of them are added
    # ~ return 1, 8, 1
    #! variances add, so they are not squared
    # ~ return 4096, 8, 1
    #! that is the variance; the standard deviation is its root
    # ~ return 64, 64, 1
    #! one product has a standard deviation of 1; the variances of 64 of them are added
    # ~ return 64, 1, 1
    #! after the division it is smaller: √64 divides it
    # ~ return 64, 8, 8
    #! the scores are divided by √d_k, not by d_k
    # ~ return 64, 8, 0.125


@exercise("paper.6")
def divisor_for_variance_4():
    # ? q_c · k_c is the product of two numbers whose variance is 4 each. What is its variance?
    # ? The variance of q · k is 64 · 4 · 4. You divide by the root of it.
    return math.sqrt(64 * 4 * 4)
    #! √d_k is right for components of variance 1; here both have 4
    # ~ return 8
    #! only one of both has variance 4 then; q and k both have it
    # ~ return 16
    #! that is the variance; divide by its root
    # ~ return 1024
    #! a product of two has the product of their variances, 4 · 4, not the sum
    # ~ return math.sqrt(64 * 8)
    #! that is the spread of one product; 64 of them are added
    # ~ return 4
    #! that is the spread of a component; there are 64 products of two of them
    # ~ return 2


@exercise("paper.7", near=1e-9)
def weights_of_a_network():
    # ? Two matrices, 512 by 2048 and 2048 by 512.
    # ? Equation (2) adds b_1 and b_2. How long are they?
    return 512 * 2048 + 2048 + 2048 * 512 + 512
    #! both layers have a bias, of 2048 and of 512
    # ~ return 2 * 512 * 2048
    #! the second layer has a bias too, of 512
    # ~ return 2 * 512 * 2048 + 2048
    #! the first layer has a bias too, of 2048
    # ~ return 2 * 512 * 2048 + 512
    #! the bias of the second layer is 512 long, as its output is
    # ~ return 2 * 512 * 2048 + 2048 + 2048
    #! three matrices are SwiGLU's; equation (2) has two, and two biases
    # ~ return 3 * 512 * 2048
    #! those are all twelve networks of the model
    # ~ return 12 * (2 * 512 * 2048 + 2048 + 512)
    #! those are big's
    # ~ return 2 * 1024 * 4096 + 4096 + 1024


@exercise("paper.8")
def n_weights(V, N, d_model, d_ff):
    # ? An attention has four square matrices. How many attentions has an encoder block, and how many a decoder block?
    # ? Together they have 3 attentions and 2 networks of two matrices each.
    # ? V d + N (12 d² + 4 d d_ff)
    encoder = 4 * d_model**2 + 2 * d_model * d_ff
    #! an attention has a fourth matrix, W_o
    # ~ encoder = 3 * d_model**2 + 2 * d_model * d_ff
    # ~ 8 * d_model -> 6 * d_model
    #! an attention has four matrices, W_q, W_k, W_v and W_o
    # ~ encoder = d_model**2 + 2 * d_model * d_ff
    # ~ 8 * d_model -> 2 * d_model
    #! a block of either kind has one network, of two matrices
    # ~ encoder = 4 * d_model**2 + d_model * d_ff
    # ~ 2 * d_model * d_ff -> d_model * d_ff
    #! biases and norms are left out; yours counts biases
    # ~ encoder = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + d_model + d_ff
    # ~ 8 * d_model**2 -> 8 * (d_model**2 + d_model) + d_model + d_ff
    #! biases and norms are left out; yours counts both
    # ~ encoder = 4 * (d_model**2 + d_model) + 2 * d_model * d_ff + 5 * d_model + d_ff
    # ~ 8 * d_model**2 -> 8 * (d_model**2 + d_model) + 7 * d_model + d_ff
    decoder = 8 * d_model**2 + 2 * d_model * d_ff
    #! a decoder block has two attentions
    # ~ decoder = 4 * d_model**2 + 2 * d_model * d_ff
    #! cross-attention brings no network of its own
    # ~ decoder = 8 * d_model**2 + 4 * d_model * d_ff
    return V * d_model + N * (encoder + decoder)
    #! one matrix serves the source, the target and the logits; you counted three
    # ~ return 3 * V * d_model + N * (encoder + decoder)
    #! one matrix serves the source, the target and the logits; you counted two
    # ~ return 2 * V * d_model + N * (encoder + decoder)
    #! the embeddings are missing
    # ~ return N * (encoder + decoder)
    #! that is the encoder alone
    # ~ return V * d_model + N * encoder
    #! that is the decoder alone
    # ~ return V * d_model + N * decoder
    #! there are N blocks on each side
    # ~ return V * d_model + encoder + decoder
    #! N is the number of blocks of one stack; you halved it
    # ~ return V * d_model + N / 2 * (encoder + decoder)


@exercise("paper.9", near=1000 / 40_937)
def vocabulary_of_65_million():
    # ? Take the weights of the stacks away from the 65 million.
    # ? What is left is one matrix, V rows of 512.
    stacks = n_weights(0, 6, 512, 2048)
    return (65e6 - stacks) / 512
    #! the paper's 37,000 make 63 million; it takes more
    # ~ return 37_000
    #! the stacks have their part of the 65 million; take it away first
    # ~ return 65e6 / 512
    #! one matrix serves both languages and the logits, not two
    # ~ return (65e6 - stacks) / 512 / 2
    #! one matrix serves both languages and the logits, not three
    # ~ return (65e6 - stacks) / 512 / 3
    #! those are the weights of the matrix; how many rows has it?
    # ~ return 65e6 - stacks


@exercise("paper.10")
def wavelength(i, d_model):
    # ? A sine begins again after 2π. Which position makes the angle 2π?
    # ? pos / 10000^(2i/d_model) = 2π
    return 2 * math.pi * 10_000 ** (2 * i / d_model)
    #! that makes the angle 1; the wave begins again at 2π
    # ~ return 10_000 ** (2 * i / d_model)
    #! the exponent of the pair i is 2i / d_model
    # ~ return 2 * math.pi * 10_000 ** (i / d_model)
    #! the waves get longer with i, not shorter
    # ~ return 2 * math.pi * 10_000 ** (-2 * i / d_model)
    #! that is the angle of one step; how many steps are 2π?
    # ~ return 10_000 ** (-2 * i / d_model)
    #! that is how many turns a step makes; the wavelength is 1 over it
    # ~ return 10_000 ** (-2 * i / d_model) / (2 * math.pi)
    #! π is half of a wave
    # ~ return math.pi * 10_000 ** (2 * i / d_model)


@exercise(
    "paper.11",
    parts=(
        "self-attention is wrong; how many layers connect any two positions?",
        "the recurrent layer is wrong; it hands on from position to position, and table 1 has n",
        "the convolutional layer is wrong; how often do you multiply by k until you have n?",
        "the restricted layer is wrong; how many steps of r are there in n?",
    ),
)
def longest_paths():
    # ? Table 1 has O(1), O(n), O(log_k(n)) and O(n/r).
    # ? 4 · 4 · 4 · 4 · 4 = 1024
    return 1, 1024, math.log(1024, 4), 1024 / 64
    #! self-attention connects each position with each other in one layer, whatever n is
    # ~ return 1024, 1024, 5, 16
    #! a path from one position to another has one step at least
    # ~ return 0, 1024, 5, 16
    #! a recurrent layer hands on from position to position
    # ~ return 1, 1, 5, 16
    #! table 1 leaves constants out, and has n for a recurrent layer
    # ~ return 1, 1023, 5, 16
    #! n / k is for kernels side by side; those of table 1 are dilated
    # ~ return 1, 1024, 1024 / 4, 16
    #! that is the binary logarithm; a kernel sees four positions
    # ~ return 1, 1024, math.log2(1024), 16
    #! that is r; how many such steps are there in n?
    # ~ return 1, 1024, 5, 64
    #! restricted to its neighbourhood, a position doesn't reach all others in one step
    # ~ return 1, 1024, 5, 1
    #! each step goes as far as the neighbourhood, not to the next position
    # ~ return 1, 1024, 5, 1024


@exercise(
    "paper.12",
    parts=(
        "the length is wrong; set n² · d and n · d² equal",
        "the ratio is wrong; n² · d over n · d² is n / d",
    ),
)
def length_and_ratio():
    # ? n² · d against n · d².
    # ? Divide both by n · d.
    return 512, 2048 / 512
    #! both costs have a factor of n · d, which is left out: n = d
    # ~ return 512**2, 4
    #! n² · d = n · d² has no factor of 2
    # ~ return 1024, 4
    #! that is a recurrent layer's cost over that of self-attention
    # ~ return 512, 0.25
    #! both costs have a factor of n · d; n / d is left, not its square
    # ~ return 512, 16
    #! that is n; divide it by d
    # ~ return 512, 2048


@exercise(
    "paper.13",
    parts=(
        "r is wrong; r · n · d should be a tenth of n · n · d",
        "the path is wrong; its length is n / r",
    ),
)
def neighbourhood_and_path():
    # ? r · n · d is to be a tenth of n · n · d.
    # ? The path length is O(n/r).
    return 10_000 / 10, 10_000 / 1000  # r, path
    #! that is the path; the neighbourhood is a tenth of n
    # ~ return 10, 10
    #! the cost is in proportion to r, not to its square
    # ~ return 100, 10
    #! that saves a tenth; it should cost a tenth
    # ~ return 9000, 10
    #! that is r; how many steps of r are there in n?
    # ~ return 1000, 1000
    #! a position reaches only r others in one step
    # ~ return 1000, 1
    #! a step goes as far as the neighbourhood, not to the next position
    # ~ return 1000, 10_000


@exercise("paper.14")
def rate(step, d_model, warmup):
    # ? Two curves, one that rises in a line and one that falls. Which is smaller at the beginning?
    # ? d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)
    #! the rate is the smaller of the two curves, not the larger
    # ~ return d_model**-0.5 * max(step**-0.5, step * warmup**-1.5)
    #! d_model is missing: a wider model has a lower rate, by the root of its width
    # ~ return min(step**-0.5, step * warmup**-1.5)
    #! a wider model has a lower rate: the power of d_model is negative
    # ~ return d_model**0.5 * min(step**-0.5, step * warmup**-1.5)
    #! that divides by d_model, not by its root
    # ~ return min(step**-0.5, step * warmup**-1.5) / d_model
    #! the rate has to rise at first; the rising curve is missing, or it is never the smaller one
    # ~ return d_model**-0.5 * step**-0.5
    #! the rate never falls; the falling curve is missing, or it is never the smaller one
    # ~ return d_model**-0.5 * step * warmup**-1.5
    #! the power of the warm-up is -1.5, so that both curves meet there
    # ~ return d_model**-0.5 * min(step**-0.5, step * warmup**-0.5)
    #! the rising curve goes to warmup**-0.5, where both meet; yours goes to 1
    # ~ return d_model**-0.5 * min(step**-0.5, step / warmup)
    #! the rising curve lacks its step
    # ~ return d_model**-0.5 * min(step**-0.5, warmup**-1.5)
    #! it falls like one over the root of the step, not one over the step
    # ~ return d_model**-0.5 * min(1 / step, step * warmup**-1.5)


@exercise(
    "paper.15",
    near=5e-3,
    parts=(
        "the share at step 1,000 is wrong; the rise is a line to step 4,000",
        "the share at step 16,000 is wrong; the rate falls like one over the root of the step",
        "big over base is wrong; d_model enters by the power -0.5, and big is twice as wide",
    ),
)
def shares_of_the_peak():
    # ? It rises in a line to step 4000, then it falls like one over the root of the step.
    # ? d_model enters by the power -0.5, and big is twice as wide.
    peak = rate(4000, 512, 4000)
    return rate(1000, 512, 4000) / peak, rate(16_000, 512, 4000) / peak, 2**-0.5
    #! the rise is a line, not a root: 1,000 of 4,000 steps
    # ~ return 0.5, 0.5, 0.7071
    #! those are the peak over the rates; the shares are 1 over them
    # ~ return 4, 2, 0.7071
    #! after the peak the rate falls with the root of the step, and √4 is 2
    # ~ return 0.25, 0.25, 0.7071
    #! after the peak the rate falls
    # ~ return 0.25, 2, 0.7071
    #! d_model enters by its root, so twice the width doesn't halve the rate
    # ~ return 0.25, 0.5, 0.5
    #! the other way round: a wider model has a lower rate
    # ~ return 0.25, 0.5, 1.4142
    #! the peaks differ: equation (3) has d_model in front
    # ~ return 0.25, 0.5, 1


@exercise("paper.16")
def floor(V):
    # ? The best model gives each token just what the smoothed target gives it.
    # ? The right token has 0.9 + 0.1/V, each of the other V − 1 has 0.1/V.
    # ? The cross-entropy of a distribution with itself: minus the sum of p · ln p.
    p, q = 0.9 + 0.1 / V, 0.1 / V
    #! the tenth is spread over all V tokens, the right one too
    # ~ p, q = 0.9, 0.1 / (V - 1)
    #! the right token keeps 0.9 and gets its share of the tenth, too
    # ~ p, q = 0.9, 0.1 / V
    return -p * math.log(p) - (V - 1) * q * math.log(q)
    #! there are V − 1 other tokens; you counted one
    # ~ return -p * math.log(p) - q * math.log(q)
    #! there are V − 1 other tokens; you counted V
    # ~ return -p * math.log(p) - V * q * math.log(q)
    #! the other tokens are missing; what they ask for costs, too
    # ~ return -p * math.log(p)
    #! that is the loss of the right token alone, as if its target were 1
    # ~ return -math.log(p)
    #! that is the loss of a model that knows nothing
    # ~ return math.log(V)
    #! that is in bits; take the natural logarithm
    # ~ return -p * math.log2(p) - (V - 1) * q * math.log2(q)
    #! a cross-entropy is minus the sum; yours lacks the minus
    # ~ return p * math.log(p) + (V - 1) * q * math.log(q)
    #! without smoothing the floor is 0; smoothed targets ask for the others too
    # ~ return 0.0


@exercise(
    "paper.17",
    near=1e-2,
    parts=(
        "base is wrong; multiply its seconds, the GPUs and what one does in a second",
        "big is wrong; multiply its seconds, the GPUs and what one does in a second",
    ),
)
def operations_of_training():
    # ? Seconds · GPUs · operations in a second.
    # ? 12 hours are 43,200 seconds. There are eight GPUs.
    second = 8 * 9.5e12 / 1e18  # eight GPUs, in units of 10¹⁸
    #! there were eight GPUs; that is one
    # ~ second = 9.5e12 / 1e18
    #! the unit is 10¹⁸, so divide by it
    # ~ second = 8 * 9.5e12
    return 12 * 3600 * second, 3.5 * 24 * 3600 * second
    #! base took 12 hours; 100,000 steps of 0.4 s are a bit less
    # ~ return 100_000 * 0.4 * second, 3.5 * 24 * 3600 * second
    #! an hour has 3,600 seconds; you took minutes
    # ~ return 12 * 60 * second, 3.5 * 24 * 60 * second
    #! 2.3 · 10¹⁹ is 23 of the unit, 10¹⁸
    # ~ return 12 * 3600 * second, 2.3


@exercise(
    "paper.18",
    near=5e-3,
    parts=(
        "big is wrong; take the best score before away from 28.4",
        "base is wrong; take the best score before away from 27.3",
    ),
)
def points_ahead():
    # ? The best before, a single model or an ensemble, is in table 2.
    # ? ConvS2S as an ensemble has 26.36.
    return 28.4 - 26.36, 27.3 - 26.36  # big, base
    #! 26.30 is GNMT's ensemble; ConvS2S's has more
    # ~ return 28.4 - 26.30, 27.3 - 26.30
    #! 26.03 is the best single model; the ensembles count too
    # ~ return 28.4 - 26.03, 27.3 - 26.03
    #! 25.16 is ConvS2S as a single model; its ensemble has more
    # ~ return 28.4 - 25.16, 27.3 - 25.16
    #! that is big over base; take the best one before the paper
    # ~ return 28.4 - 27.3, 27.3 - 26.36
    #! base is compared with the best one before the paper, not with big
    # ~ return 28.4 - 26.36, 27.3 - 28.4
    #! those are the scores; take the best one before away
    # ~ return 28.4, 27.3
    #! big's is from English to French
    # ~ return 41.8 - 41.29, 27.3 - 26.36


@exercise(
    "paper.19",
    parts=(
        "(a): look again at row (A): 24.9 with one head, 25.8 with eight, at the same cost",
        "(b): look again at row (A): 25.8 with 16 heads, but 25.4 with 32",
        "(c): look again at row (B): 25.1 with d_k = 16 and 25.4 with 32, against 25.8",
        "(d): look again at row (E): 25.7 against 25.8, which the paper calls nearly identical",
        "(e): look again at row (D): 24.6 without dropout, 25.8 with 0.1",
        "(f): look again at row (D): without smoothing a perplexity of 4.67 against 4.92, and 25.3 "
        "against 25.8; a lower perplexity is better, and a higher BLEU",
    ),
)
def shown_by_table_3():
    # ? Look at the differences to base, 4.92 and 25.8.
    # ? A lower perplexity is the better one, a higher BLEU the better one.
    return [True, False, True, False, True, True]
    #! each is the other way round; True means that table 3 shows it
    # ~ return [False, True, False, True, False, False]


@exercise("paper.20")
def beam_score(total, length, alpha):
    # ? Ours is `total / length ** penalty`. Only the divisor changes.
    # ? total / ((5 + length) / 6) ** alpha
    return total / ((5 + length) / 6) ** alpha
    #! that is ours, which divides by a power of the length
    # ~ return total / length**alpha
    #! the sum is divided, not multiplied
    # ~ return total * ((5 + length) / 6) ** alpha
    #! the power is of the whole fraction; your 6 is outside
    # ~ return total / ((5 + length) ** alpha / 6)
    #! the 6 is missing
    # ~ return total / (5 + length) ** alpha
    #! the 5 is missing
    # ~ return total / (length / 6) ** alpha
    #! α is a power, not a factor
    # ~ return total / ((5 + length) / 6 * alpha)
    #! the power α is missing
    # ~ return total / ((5 + length) / 6)
    #! the 5 is added to the length before the division; put brackets around the sum
    # ~ return total / (5 + length / 6) ** alpha


# ---------------------------------------------------------------- questions


def _halved(x):
    return x - x.mean(-1, keepdim=True) / 2


def _layer_norm(x):
    return F.layer_norm(x, x.shape[-1:])


def _bent(x):
    return x.flip(-1) * 2 + x**2


def _summed(x):
    return x.cumsum(1) + 1


@question("paper", "paper.1")
def ask_my_sublayer(draw):
    for part in (_bent, _summed):
        for norm in (_layer_norm, _halved):
            shape = draw.size(1, 3), draw.size(1, 5), draw.size(4, 7)
            yield Call(f"x {shape}", (draw.numbers(*shape), part, norm))


@question("paper", "paper.8")
def ask_n_weights(draw):
    for V, N, d, f in [(37_000, 6, 512, 2048), (11, 3, 6, 10), (5, 2, 4, 7), (9, 1, 8, 3)]:
        yield Call(f"V = {V}, N = {N}, d_model = {d}, d_ff = {f}", (V, N, d, f))
    for _ in draw.rounds:
        V, N, d, f = draw.size(1, 50), draw.size(1, 9), draw.size(1, 20), draw.size(1, 40)
        yield Call(f"V = {V}, N = {N}, d_model = {d}, d_ff = {f}", (V, N, d, f))


@question("paper", "paper.10")
def ask_wavelength(draw):
    cases = [(0, 512), (3, 512), (255, 512), (1, 4), (10, 64), (5, 14)]
    for i, d in cases:
        yield Call(f"i = {i}, d_model = {d}", (i, d))


@question("paper", "paper.14")
def ask_rate(draw):
    cases = [
        (1, 4, 10),
        (5, 16, 10),
        (10, 9, 10),
        (40, 4, 10),
        (100, 64, 10),
        (3, 1, 1),
        (1, 25, 2),
    ]
    cases += [(4000, 512, 4000), (16_000, 512, 4000), (1000, 1024, 4000)]
    cases += [(draw.size(1, 40), draw.size(1, 64), draw.size(1, 20)) for _ in draw.rounds]
    for step, d, warmup in cases:
        yield Call(f"step {step}, d_model = {d}, warmup = {warmup}", (step, d, warmup), near=1e-6)


@question("paper", "paper.16")
def ask_floor(draw):
    for V in [10, 2, 3, 5000, 37_000, draw.size(20, 200)]:
        yield Call(f"V = {V}", (V,), near=1e-4)


@question("paper", "paper.20")
def ask_beam_score(draw):
    cases = [(-6.0, 10, 0.6), (-6.6, 13, 0.6), (-3.0, 1, 0.3), (-9.5, 20, 1.2), (-2.5, 7, 0.0)]
    cases += [(-draw.size(1, 99) / 10, draw.size(1, 30), draw.size(1, 9) / 10) for _ in draw.rounds]
    for total, length, alpha in cases:
        yield Call(f"total {total}, length {length}, alpha {alpha}", (total, length, alpha))
