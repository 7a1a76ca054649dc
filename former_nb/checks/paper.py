"""Judges of the twenty questions on the page paper, and the mistakes that they know."""

import math

import torch
import torch.nn.functional as F

from ..base.exercises import call_answer, diagnose, diagnose_each, diagnose_formula, exercise


def _one(answer, right, slips, tolerance=1e-6):
    "What to say about one number; None if it is right."
    if isinstance(answer, torch.Tensor) and answer.numel() == 1:
        answer = answer.item()
    if not isinstance(answer, (int, float)):
        return diagnose(answer, float(right))
    said = diagnose_each([answer], {"": right}, [slips], tolerance)
    return said and said.removeprefix(": ")


@exercise(
    "paper.1",
    "The paper writes LayerNorm(x + Sublayer(x)).",
    "What comes first, the sum or the norm? Lesson 06 has the other order.",
)
def judge_paper_1(answer):
    "A function of the stream, of a part and of a norm."
    x = torch.randn(2, 3, 4, generator=torch.Generator("cpu").manual_seed(0))
    part = lambda x: x.flip(-1) * 2 + x**2
    norm = lambda x: F.layer_norm(x, (4,))
    mistakes = {
        "that is pre-norm, the block of lesson 06; the paper takes the norm after the sum": (
            x + part(norm(x))
        ),
        "the stream is missing in the sum": norm(part(x)),
        "the norm is missing": x + part(x),
        "the norm is of the sum; yours is of what the part writes": x + norm(part(x)),
        "the norm is of the sum; yours is of the stream alone": norm(x) + part(x),
        "one norm, after the sum": norm(x + part(norm(x))),
        "both were normed before the sum; the paper norms the sum": norm(x) + norm(part(x)),
        "the part has read nothing of the stream": norm(x),
    }
    return diagnose(call_answer(answer, x, part, norm), norm(x + part(x)), mistakes)


@exercise(
    "paper.2",
    "A decoder block has one attention more than an encoder block.",
    "N = 6 blocks on each side.",
)
def judge_paper_2(answer):
    "One number: the attention layers of the base model."
    return _one(
        answer,
        18,
        {
            12: "a decoder block has two of them, one over its own text and one over the memory",
            6: "that is how many blocks a stack has; there are two stacks",
            144: "those are all heads; eight of them are one layer",
            48: "those are the heads of one stack of six; count layers, in both stacks",
            30: "that counts the feed-forward networks too",
            24: "an encoder block has one attention, and only the decoder's have two",
            3: "each of these three kinds occurs in six blocks",
        },
    )


@exercise(
    "paper.3",
    "It's the second part of a decoder block.",
    "Lesson 13 calls it by a name of two words; the paper has another name for it.",
)
def judge_paper_3(answer):
    "A name."
    if not isinstance(answer, str):
        return "expected a name in quotes"
    words = "".join(c for c in answer.lower() if c.isalpha())
    words = words.removeprefix("the").removesuffix("layers").removesuffix("layer")
    if words in ("crossattention", "encoderdecoderattention", "cross", "encoderdecoder"):
        return None
    if "self" in words:
        return "in self-attention all three come from one text"
    if "multihead" in words:
        return "all three kinds have several heads; which of them reads two texts?"
    if "mask" in words or "causal" in words:
        return "that is the decoder's attention over its own text"
    if words in ("attention", "encoder", "decoder"):
        return f"{answer} alone is not enough; which attention reads both texts?"
    return f"{answer!r} is none of the paper's three kinds of attention"


@exercise("paper.4", "d_k = d_model / h", "The big model is twice as wide and has 16 heads.")
def judge_paper_4(answer):
    "Two numbers: d_k of base and of big."
    return diagnose_each(
        answer,
        {"base": 64, "big": 64},
        [
            {
                512: "that is d_model; eight heads share it",
                8: "that is the number of heads",
                2048: "that is d_ff",
                4096: "that is d_model times h; the heads share d_model",
                32: "base has 8 heads; 16 are big's",
            },
            {
                128: "big has 16 heads, not 8",
                1024: "that is d_model; sixteen heads share it",
                16: "that is the number of heads",
                256: "big has d_model = 1024 and 16 heads; 4096 is d_ff",
                32: "big is 1024 wide",
            },
        ],
    )


@exercise(
    "paper.5",
    "Each of the 64 products has variance 1, and variances of independent terms add.",
    "The spread is the root of the variance.",
)
def judge_paper_5(answer):
    "Three numbers: variance and spread of q · k, and the spread after the division."
    return diagnose_each(
        answer,
        {"variance": 64, "spread": 8, "after": 1},
        [
            {
                8: "that is the spread, the root of the variance",
                1: "one product has variance 1; 64 of them are added",
                4096: "variances add, so they are not squared",
                512: "a head is 64 wide, not 512",
            },
            {
                64: "that is the variance; the spread is its root",
                1: "one product has a spread of 1; the variances of 64 of them are added",
                4096: "the spread is the root of the variance, not its square",
                22.6: "a head is 64 wide, not 512",
            },
            {
                8: "that is the spread before; √64 divides it",
                0.125: "the spread is divided by √d_k, not by d_k",
                64: "that is the variance before",
                0: "a division never makes a spread of 0",
                0.35: "the spread is divided, not the variance by 8 and then the root taken",
            },
        ],
    )


@exercise(
    "paper.6",
    "q_c · k_c is the product of two numbers whose variance is 4 each. What is its variance?",
    "The variance of q · k is 64 · 4 · 4. You divide by the root of it.",
)
def judge_paper_6(answer):
    "One number: what to divide by if the components have variance 4."
    return _one(
        answer,
        32,
        {
            8: "√d_k is right for components of variance 1; here both have 4",
            16: "q and k both have a spread of 2",
            1024: "that is the variance; divide by its root",
            64: "that is d_k; the variance is 64 · 4 · 4, and you divide by its root",
            128: "the spreads, 2 and 2, are multiplied, not the variances",
            256: "that is the variance if only one of both had 4; and you divide by the root",
            2: "that is the spread of a component; there are 64 products of two of them",
            4: "that is the spread of one product; 64 of them are added",
        },
    )


@exercise(
    "paper.7",
    "Two matrices, 512 by 2048 and 2048 by 512.",
    "Equation (2) adds b_1 and b_2. How long are they?",
)
def judge_paper_7(answer):
    "One number: the weights of a feed-forward network of base, with biases."
    matrix = 512 * 2048
    return _one(
        answer,
        2 * matrix + 2048 + 512,
        {
            2 * matrix: "both layers have a bias, of 2048 and of 512",
            2 * matrix + 2048: "the second layer has a bias too, of 512",
            2 * matrix + 512: "the first layer has a bias too, of 2048",
            2 * matrix + 4096: "the bias of the second layer is 512 long, as its output is",
            2 * matrix + 1024: "the bias of the first layer is 2048 long, as its output is",
            matrix: "there are two layers, and each has a bias",
            matrix + 2048: "that is the first layer alone",
            matrix + 512: "that is the second layer alone",
            3 * matrix: "three matrices are SwiGLU's; equation (2) has two, and two biases",
            12 * (2 * matrix + 2560): "those are all twelve networks of the model",
            2 * 1024 * 4096 + 5120: "that is big's",
        },
    )


@exercise(
    "paper.8",
    "An attention has four square matrices. How many attentions has an encoder block, and how many "
    "a decoder block?",
    "Together they have 3 attentions and 2 networks of two matrices each.",
    "V d + N (12 d² + 4 d d_ff)",
)
def judge_paper_8(answer):
    "A function of V, N, d_model and d_ff: the weights of the whole model."
    return diagnose_formula(
        answer,
        "V, N, d, f",
        [(37_000, 6, 512, 2048), (11, 3, 6, 10), (5, 2, 4, 7)],
        "V * d + N * (12 * d**2 + 4 * d * f)",
        {
            "V * d + N * (8 * d**2 + 4 * d * f)": "a decoder block has two attentions",
            "V * d + N * (12 * d**2 + 2 * d * f)": "a block of either kind has one network, of "
            "two matrices",
            "V * d + N * (12 * d**2 + 6 * d * f)": "cross-attention brings no network of its own",
            "3 * V * d + N * (12 * d**2 + 4 * d * f)": "one matrix serves the source, the target "
            "and the logits; you counted three",
            "2 * V * d + N * (12 * d**2 + 4 * d * f)": "one matrix serves the source, the target "
            "and the logits; you counted two",
            "N * (12 * d**2 + 4 * d * f)": "the embeddings are missing",
            "V * d + N * (9 * d**2 + 4 * d * f)": "an attention has a fourth matrix, W_o",
            "V * d + N * (4 * d**2 + 2 * d * f)": "that is the encoder alone",
            "V * d + N * (8 * d**2 + 2 * d * f)": "that is the decoder alone",
            "V * d + N * (12 * d**2 + 4 * d * f + 14 * d + 2 * f)": "biases and norms are left "
            "out; yours counts biases",
            "V * d + N * (12 * d**2 + 4 * d * f + 24 * d + 2 * f)": "biases and norms are left "
            "out; yours counts both",
            "V * d + 12 * d**2 + 4 * d * f": "there are N blocks on each side",
            "V * d + N * (6 * d**2 + 2 * d * f)": "N is the number of blocks of one stack; you "
            "halved it",
        },
    )


@exercise(
    "paper.9",
    "Take the weights of the stacks away from the 65 million.",
    "What is left is one matrix, V rows of 512.",
)
def judge_paper_9(answer):
    "One number: the vocabulary that makes 65 million weights."
    stacks = 6 * (12 * 512**2 + 4 * 512 * 2048)
    return _one(
        answer,
        (65e6 - stacks) / 512,
        {
            37_000: "with the paper's 37,000 the count is 63 million",
            65e6 / 512: "the stacks have their part of the 65 million; take it away first",
            round(65e6 / 512): "the stacks have their part of the 65 million; take it away first",
            (65e6 - stacks) / 1024: "one matrix serves both languages and the logits, not two",
            20_469: "one matrix serves both languages and the logits, not two",
            (65e6 - stacks) / 1536: "one matrix serves both languages and the logits, not three",
            13_646: "one matrix serves both languages and the logits, not three",
            65e6 - stacks: "those are the weights of the matrix; how many rows has it?",
        },
        1000,
    )


@exercise(
    "paper.10",
    "A sine begins again after 2π. Which position makes the angle 2π?",
    "pos / 10000^(2i/d_model) = 2π",
)
def judge_paper_10(answer):
    "A function of i and of d_model: after how many positions the wave begins again."
    return diagnose_formula(
        answer,
        "i, d",
        [(0, 512), (3, 512), (1, 4), (10, 64)],
        "2 * pi * 10_000 ** (2 * i / d)",
        {
            "10_000 ** (2 * i / d)": "that makes the angle 1; the wave begins again at 2π",
            "2 * pi * 10_000 ** (i / d)": "the exponent is 2i / d_model",
            "2 * pi * 10_000 ** (-2 * i / d)": "the waves get longer with i, not shorter",
            "10_000 ** (-2 * i / d)": "that is the angle of one step; how many steps are 2π?",
            "10_000 ** (-2 * i / d) / (2 * pi)": "that is how many turns a step makes; the "
            "wavelength is 1 over it",
            "pi * 10_000 ** (2 * i / d)": "π is half of a wave",
        },
    )


@exercise("paper.11", "Table 1 has O(1), O(n), O(log_k(n)) and O(n/r).", "4 · 4 · 4 · 4 · 4 = 1024")
def judge_paper_11(answer):
    "Four path lengths, as table 1 has them, for n = 1024, k = 4 and r = 64."
    return diagnose_each(
        answer,
        {"self-attention": 1, "recurrent": 1024, "convolutional": 5, "restricted": 16},
        [
            {
                1024: "each position attends to each other in one layer",
                2: "one layer is enough for any two positions",
                0: "a path from one position to another has one step at least",
            },
            {
                1: "a recurrent layer hands on from position to position",
                5: "that is the convolutional layer's",
                10: "that is the binary logarithm; a recurrent layer goes step by step",
                1023: "the table leaves constants out, and has n",
            },
            {
                256: "n / k is for kernels side by side; the table's are dilated",
                10: "that is the binary logarithm; a kernel sees four positions",
                1: "one layer with a kernel of 4 doesn't connect all positions",
                4: "that is k",
            },
            {
                64: "that is r; how many such steps are there in n?",
                1: "a position sees only its neighbourhood",
                1024: "each step goes as far as the neighbourhood",
                65_536: "that is n times r; a wider neighbourhood makes the path shorter",
            },
        ],
    )


@exercise("paper.12", "n² · d against n · d²", "Divide both by n · d.")
def judge_paper_12(answer):
    "Two numbers: the length of equal cost, and how many times more it is at 2,048."
    return diagnose_each(
        answer,
        {"equal": 512, "ratio": 4},
        [
            {
                262_144: "that is d²; both costs have a factor of n · d, which is left out",
                511: "below 512 self-attention is cheaper; where are both the same?",
                1024: "n² · d = n · d² has no factor of 2",
                2048: "that is the length of the second part",
            },
            {
                0.25: "the other way round: self-attention over recurrence",
                16: "both costs have a factor of n · d; n / d is left",
                2048: "that is n; divide by d",
                2: "that is the root of n / d",
                512: "that is d",
            },
        ],
    )


@exercise("paper.13", "r · n · d is to be a tenth of n · n · d.", "The path length is O(n/r).")
def judge_paper_13(answer):
    "Two numbers: the neighbourhood that costs a tenth of all, and the length of the path."
    return diagnose_each(
        answer,
        {"r": 1000, "path": 10},
        [
            {
                10: "that is the path; the neighbourhood is a tenth of n",
                100: "the cost is in proportion to r, not to its square",
                9000: "that saves a tenth; it should cost a tenth",
                10_000: "that is all of n",
                0.1: "that is the share; r is this share of n",
            },
            {
                1000: "that is r; how many steps of r are there in n?",
                1: "a position reaches only r others in one step",
                10_000: "a step goes as far as the neighbourhood, not to the next position",
                100: "n / r, with r = 1000",
                9: "the table leaves constants out, and has n / r",
            },
        ],
    )


@exercise(
    "paper.14",
    "Two curves, one that rises in a line and one that falls. Which is smaller at the beginning?",
    "d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)",
)
def judge_paper_14(answer):
    "A function of the step, of the width and of the warm-up: the rate."
    return diagnose_formula(
        answer,
        "s, d, w",
        [(1, 512, 4000), (4000, 512, 4000), (16_000, 512, 4000), (100, 64, 10), (5, 64, 10)],
        "d**-0.5 * min(s**-0.5, s * w**-1.5)",
        {
            "d**-0.5 * max(s**-0.5, s * w**-1.5)": "the rate is the smaller of the two curves, "
            "not the larger",
            "min(s**-0.5, s * w**-1.5)": "a wider model has a lower rate: d_model to the power "
            "-0.5",
            "d**0.5 * min(s**-0.5, s * w**-1.5)": "the power of d_model is negative",
            "d**-1 * min(s**-0.5, s * w**-1.5)": "that divides by d_model, not by its root",
            "d**-0.5 * s**-0.5": "the warm-up is missing",
            "d**-0.5 * s * w**-1.5": "the rate never falls; the other curve is missing",
            "d**-0.5 * min(s**-0.5, s * w**-0.5)": "the power of the warm-up is -1.5, so that "
            "both curves meet there",
            "d**-0.5 * min(s**-0.5, w**-1.5)": "the rising curve lacks its step",
            "d**-0.5 * min(1 / s, s * w**-1.5)": "the falling curve falls like one over the root "
            "of the step",
            "d**-0.5 * min(s**-0.5, s / w)": "the curves meet at the warm-up, so the rise goes to "
            "warmup**-0.5",
        },
        unit=10000.0,
    )


@exercise(
    "paper.15",
    "It rises in a line to step 4000, then it falls like one over the root of the step.",
    "d_model enters by the power -0.5, and big is twice as wide.",
)
def judge_paper_15(answer):
    "Three numbers: shares of the peak, and big's peak over base's."
    return diagnose_each(
        answer,
        {"at 1,000": 0.25, "at 16,000": 0.5, "big over base": 2**-0.5},
        [
            {
                0.5: "the rise is a line: 1,000 of 4,000 steps",
                4: "that is the peak over the rate; the share is 1 over it",
                2: "after a quarter of the warm-up the rate is below its peak",
                1: "the peak is at step 4,000",
            },
            {
                0.25: "it falls with the root of the step, and √4 is 2",
                2: "after the peak the rate falls",
                4: "after the peak the rate falls, with the root of the step",
                1: "the rate falls after step 4,000",
            },
            {
                0.5: "d_model enters by its root",
                2: "a wider model has a lower rate, and d_model enters by its root",
                1.414: "the other way round: a wider model has a lower rate",
                1: "the formula has d_model in front",
            },
        ],
        1e-3,
    )


@exercise(
    "paper.16",
    "The best model gives each token just what the smoothed target gives it.",
    "The right token has 0.9 + 0.1/V, each of the other V − 1 has 0.1/V.",
    "The cross-entropy of a distribution with itself: minus the sum of p · ln p.",
)
def judge_paper_16(answer):
    "A function of V: the lowest loss that smoothed targets allow, in nats."

    def floor(V, right, other, others=None):
        others = V - 1 if others is None else others
        return -right * math.log(right) - others * other * math.log(other)

    return diagnose_formula(
        answer,
        "V",
        [(10,), (5000,), (37_000,)],
        "floor(V, 0.9 + 0.1 / V, 0.1 / V)",
        {
            "floor(V, 0.9, 0.1 / (V - 1))": "the tenth is spread over all V tokens, the right one "
            "too",
            "floor(V, 0.9, 0.1 / V)": "the right token keeps 0.9 and gets its share of the tenth, "
            "too",
            "floor(V, 0.9 + 0.1 / V, 0.1 / V, 1)": "there are V − 1 other tokens; you counted one",
            "floor(V, 0.9 + 0.1 / V, 0.1 / V, V)": "there are V − 1 other tokens; you counted V",
            "floor(V, 0.9 + 0.1 / V, 1.0)": "the other tokens are missing; what they ask for "
            "costs, too",
            "-log(0.9 + 0.1 / V)": "that is the loss of the right token alone, as if its target "
            "were 1",
            "log(V)": "that is the loss of a model that knows nothing",
            "floor(V, 0.9 + 0.1 / V, 0.1 / V) / log(2)": "that is in bits; take the natural "
            "logarithm",
            "0.0": "without smoothing the floor is 0; smoothed targets ask for the others too",
        },
        floor=floor,
    )


@exercise(
    "paper.17",
    "Seconds · GPUs · operations in a second.",
    "12 hours are 43,200 seconds. There are eight GPUs.",
)
def judge_paper_17(answer):
    "Two numbers, in units of 10¹⁸: the cost of base and of big."
    return diagnose_each(
        answer,
        {"base": 3.2832, "big": 22.9824},
        [
            {
                0.41: "that is one GPU; there were eight",
                0.4104: "that is one GPU; there were eight",
                3.04: "100,000 steps of 0.4 s are 11.1 hours; the paper says 12",
                3.2832e18: "the unit is 10¹⁸",
                3.3e18: "the unit is 10¹⁸",
                0.0547: "an hour has 3,600 seconds",
                0.000912: "the rate is for a second; an hour has 3,600",
            },
            {
                2.8728: "that is one GPU; there were eight",
                2.87: "that is one GPU; there were eight",
                22.9824e18: "the unit is 10¹⁸",
                2.3e19: "the unit is 10¹⁸",
                0.9576: "a day has 24 hours",
                2.3: "the unit is 10¹⁸, and 2.3 · 10¹⁹ is 23 of it",
            },
        ],
        0.2,
    )


@exercise(
    "paper.18",
    "The best before, a single model or an ensemble, is in table 2.",
    "ConvS2S as an ensemble has 26.36.",
)
def judge_paper_18(answer):
    "Two numbers: by how much big and base beat the best before, English to German."
    return diagnose_each(
        answer,
        {"big": 2.04, "base": 0.94},
        [
            {
                2.1: "26.30 is GNMT's ensemble, and ConvS2S's has more",
                2.37: "26.03 is the best single model; the ensembles count too",
                3.24: "25.16 is ConvS2S as a single model; its ensemble has more",
                3.8: "24.6 is GNMT as a single model; the ensembles have more",
                1.1: "that is big over base",
                0.51: "those are the points of English to French",
                28.4: "that is the score; take the best one before away",
            },
            {
                1.0: "26.30 is GNMT's ensemble, and ConvS2S's has more",
                1.27: "26.03 is the best single model; the ensembles count too",
                2.14: "25.16 is ConvS2S as a single model; its ensemble has more",
                -1.1: "that is base over big; take the best one before the paper",
                27.3: "that is the score; take the best one before away",
            },
        ],
        0.02,
    )


_CLAIMS = (
    (True, "row (A): 24.9 with one head, 25.8 with eight, at the same cost"),
    (False, "row (A): 25.8 with 16 heads, but 25.4 with 32"),
    (True, "row (B): 25.1 with d_k = 16 and 25.4 with 32, against 25.8"),
    (False, "row (E): 25.7 against 25.8, which the paper calls nearly identical"),
    (True, "row (D): 24.6 without dropout, 25.8 with 0.1"),
    (True, "row (D): without smoothing a perplexity of 4.67 against 4.92, and 25.3 against 25.8"),
)


@exercise(
    "paper.19",
    "Look at the differences to base, 4.92 and 25.8.",
    "A lower perplexity is the better one, a higher BLEU the better one.",
)
def judge_paper_19(answer):
    "Six booleans: what table 3 shows."
    if isinstance(answer, torch.Tensor):
        answer = answer.tolist()
    if not isinstance(answer, (list, tuple)) or len(answer) != len(_CLAIMS):
        return "expected a list of six, True or False"
    for letter, given, (right, why) in zip("abcdef", answer, _CLAIMS):
        if given not in (True, False):
            return f"({letter}): expected True or False"
        if given != right:
            return f"({letter}): look again at {why}"


@exercise(
    "paper.20",
    "Ours is `total / length ** penalty`. Only the divisor changes.",
    "total / ((5 + length) / 6) ** alpha",
)
def judge_paper_20(answer):
    "A function of a sum of logarithms, of a length and of α: the score of a beam."
    return diagnose_formula(
        answer,
        "total, n, alpha",
        [(-6.0, 10, 0.6), (-6.6, 13, 0.6), (-3.0, 1, 0.3), (-9.5, 20, 1.2)],
        "total / ((5 + n) / 6) ** alpha",
        {
            "total / n**alpha": "that is ours, which divides by a power of the length",
            "total * ((5 + n) / 6) ** alpha": "the sum is divided, not multiplied",
            "total / ((5 + n) ** alpha / 6)": "the power is of the whole fraction; your 6 is "
            "outside",
            "total / (5 + n) ** alpha": "the 6 is missing",
            "total / (n / 6) ** alpha": "the 5 is missing",
            "total / ((6 + n) / 5) ** alpha": "5 and 6 are exchanged",
            "total / ((5 + n) / 6 * alpha)": "α is a power, not a factor",
            "total / ((5 + n) / 6)": "the power α is missing",
            "total / (5 + n / 6) ** alpha": "the 5 is added to the length before the division",
        },
    )
