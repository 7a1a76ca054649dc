"Exercises of the deep dive on relative positions."

import torch

from ..attention.angle_tables import rotary_frequencies, rotary_table
from ..attention.positions import rotate
from ..attention.relative_positions import (
    ALiBi,  # noqa: F401, a mistake is made of it
    alibi_slopes,
    rotate_interleaved,  # noqa: F401, likewise
)
from ..grading.ask import Call, exercise, question
from ..grading.compare import loosened

# ---------------------------------------------------------------- exercises


@exercise(
    "relative_positions.1",
    parts=(
        "a: turn the query once more than the key, (1, 2) to (-2, 1), and multiply",
        "b: a and b have the same distance, so the same dot product",
        "c: here the key stands to the right, so it is turned once more than the query",
        "d: four quarter turns are a full circle; query and key are as they were",
    ),
)
def products_after_turning():
    # ? Only the distance counts. Which of the four pairs have the same one?
    # ? At distance 1 turn q once, (1, 2) to (-2, 1), and leave k as it is; with the key to the right, turn k once instead
    return -2, -2, 2, 11
    #! you turned the wrong way; a quarter turn takes (1, 2) to (-2, 1)
    # ~ return 2, 2, -2, 11
    #! you turned the query alone; the key turns too
    # ~ return -11, -2, -2, 11
    #! you turned the key alone; the query turns too
    # ~ return 2, 11, -11, 11
    #! c: the distance has a direction; here the key stands to the right
    # ~ return -2, -2, -2, 11
    #! a, b: the distance has a direction; here the key stands to the left
    # ~ return 2, 2, 2, 11
    #! you did not turn anything; d alone has both pairs as they were
    # ~ return 11, 11, 11, 11


@exercise("relative_positions.2")
def rotate_part(x, cos, sin):
    # ? `cos.shape[-1]` is n. Take the features apart, turn the first 2n, and put them together again.
    # ? `rotate` of the lesson turns whatever width it is given: hand it `x[..., : 2 * n]`
    n = cos.shape[-1]
    #! you paired feature i with i + d_k / 2, half of the whole head; the partner is at i + n
    # ~ n, half, x = cos.shape[-1], x.shape[-1] // 2, x.clone()
    # | a, b = x[..., :n].clone(), x[..., half : half + n].clone()
    # | x[..., :n], x[..., half : half + n] = a * cos - b * sin, a * sin + b * cos
    # | return x
    #! the first of each pair was overwritten before the second was computed
    # ~ n, x = cos.shape[-1], x.clone()
    # | x[..., :n] = x[..., :n] * cos - x[..., n : 2 * n] * sin
    # | x[..., n : 2 * n] = x[..., :n] * sin + x[..., n : 2 * n] * cos
    # | return x
    turned = rotate(x[..., : 2 * n], cos, sin)
    #! you turned in the interleaved layout; the exercise pairs feature i with i + n
    # ~ turned = rotate_interleaved(x[..., : 2 * n], cos, sin)
    #! you turned backwards: a cos - b sin comes first, a sin + b cos second
    # ~ turned = rotate(x[..., : 2 * n], cos, -sin)
    return torch.cat([turned, x[..., 2 * n :]], dim=-1)  # (B, h, T, d_k)
    #! you turned the last 2n features, not the first
    # ~ k = x.shape[-1] - 2 * n
    # | return torch.cat([x[..., :k], rotate(x[..., k:], cos, sin)], dim=-1)
    #! the features that are not turned are missing
    # ~ return turned
    #! the features that are not turned should stay as they are, not become zero
    # ~ return torch.cat([turned, 0 * x[..., 2 * n :]], dim=-1)
    #! the turned features should come first
    # ~ return torch.cat([x[..., 2 * n :], turned], dim=-1)


@exercise("relative_positions.3")
def alibi_by_key(n_heads, S):
    # ? Under a causal mask j <= i, so ALiBi's bias is -m (i - j). Which part of it is the same for the whole row?
    # ? -m (i - j) = m j - m i, and m i is one number for row i.
    # ? `alibi_slopes(n_heads)[:, None, None] * torch.arange(S)`
    return alibi_slopes(n_heads)[:, None, None] * torch.arange(S)  # (h, 1, S)
    #! the sign is turned: with your bias the far keys gain; -m (i - j) leaves + m j
    # ~ return -alibi_slopes(n_heads)[:, None, None] * torch.arange(S)
    #! your slopes are off by one: with n heads, head 0 has 2^(-8 / n), not 1; see `alibi_slopes`
    # ~ return 2.0 ** (-8 * torch.arange(n_heads)[:, None, None] / n_heads) * torch.arange(S)
    #! your slopes are right for a power of two; for other numbers of heads see `alibi_slopes`
    # ~ return 2.0 ** (-8 * torch.arange(1, n_heads + 1)[:, None, None] / n_heads) * torch.arange(S)
    #! one slope for all heads; each has its own
    # ~ return (alibi_slopes(n_heads)[0] * torch.arange(S)).expand(n_heads, 1, S)
    #! the slopes are missing
    # ~ return torch.arange(S).expand(n_heads, 1, S)
    #! your bias is the same for every key, so it changes nothing
    # ~ return alibi_slopes(n_heads)[:, None, None] * torch.ones(S)
    #! that still depends on the query; drop the part that is one number for its whole row
    # ~ return ALiBi(n_heads).by_distance(torch.arange(S) - torch.arange(S)[:, None])
    #! the axis of the queries is missing, of size 1
    # ~ return alibi_slopes(n_heads)[:, None] * torch.arange(S)


@exercise(
    "relative_positions.4",
    parts=(
        "a: a row gets a gradient only if some window has its position",
        "b: count the distances that occur in a window; all from 32 on share one column",
        "c: count the distances that occur in a window, and have a column each here",
        "d: the sinusoid table is a buffer; nothing of it is trained",
    ),
)
def numbers_that_learn():
    # ? Which positions, and which distances, occur in a window of 64 characters? A causal query never looks ahead.
    # ? The distances are 0, -1, …, -63. With max_distance=32 all from -32 on share one column.
    a = 64  # positions 0 to 63
    #! a: a row gets a gradient only from a window that reaches it, and no window is longer than 64
    # ~ a = 512
    #! a: count from zero; a window of 64 has positions 0 to 63
    # ~ a = 63
    #! a: count from zero; a window of 64 has positions 0 to 63
    # ~ a = 65
    b = 33  # distances 0 to 31, and one column for all that are larger
    #! b: half of the columns are for keys after the query, which the causal mask hides
    # ~ b = 65
    #! b, c: half of the columns are for keys after the query, which the causal mask hides
    # ~ b = 65
    # ~ c = 64 -> c = 127
    #! b: 64 distances occur, but all of 32 and more share one column
    # ~ b = 64
    #! b: distances 0 to 31 have a column each, and those of 32 and more share another
    # ~ b = 32
    c = 64  # distances 0 to 63
    #! c: half of the columns are for keys after the query, which the causal mask hides
    # ~ c = 127
    #! c: the table has columns for distances that no pair in a window of 64 has
    # ~ c = 129
    #! c: the table has columns for distances that no pair in a window of 64 has, and for keys after the query, which the causal mask hides
    # ~ c = 257
    #! c: count from zero; the distances are 0 to 63
    # ~ c = 63
    d = 0  # a buffer
    return a, b, c, d


@exercise("relative_positions.5")
def squeezed_table(max_len, d_k, trained):
    # ? `rotary_table` multiplies a column of positions by a row of frequencies. Only the column changes, and it need not hold whole numbers.
    # ? `position = torch.arange(max_len) * trained / max_len`; `rotary_table` does the rest.
    position = torch.arange(max_len) * trained / max_len  # (max_len,)
    #! these are the positions as they were; nothing was squeezed
    # ~ position = torch.arange(max_len)
    #! you stretched the positions: multiply by trained / max_len, not by max_len / trained
    # ~ position = torch.arange(max_len) * max_len / trained
    #! you rounded the positions, so neighbours share one; fractions are meant
    # ~ position = torch.arange(max_len) * trained // max_len
    #! you put the last position on the last trained one; the paper's factor is trained / max_len
    # ~ position = torch.arange(max_len) * (trained - 1) / (max_len - 1)
    #! you clamped: all positions beyond the trained ones became one
    # ~ position = torch.arange(max_len).clamp(max=trained - 1)
    return rotary_table(position, rotary_frequencies(d_k))
    #! you changed the base; that slows the pairs unequally, and here the positions are to be squeezed
    # ~ return rotary_table(torch.arange(max_len), rotary_frequencies(d_k, 1e4 * max_len / trained))
    #! cosines come first, then sines
    # ~ return rotary_table(position, rotary_frequencies(d_k)).flip(0)


@exercise("relative_positions.6")
def reach(n_heads):
    # ? The weights are a softmax of scores that differ only by the bias. Divide one weight by the other before you do anything else.
    # ? exp(-m r) ≥ exp(-5) means r ≤ 5 / m, and a distance is a whole number. `alibi_slopes(n_heads)` gives the slopes.
    m = alibi_slopes(n_heads)
    #! the slopes are those of `alibi_slopes`, 2^(-8i/n) for i from 1
    # ~ m = 2.0 ** (-8 * torch.arange(n_heads) / n_heads)
    #! your slopes are right for a power of two; for other numbers of heads see `alibi_slopes`
    # ~ m = 2.0 ** (-8 * torch.arange(1, n_heads + 1) / n_heads)
    return (5 / m + 1e-6).floor()  # the small number guards a whole 5 / m against rounding
    #! you multiplied by the slope: a steep head sees less, not more
    # ~ return 5 * m
    #! a distance is a whole number; take the largest that is seen
    # ~ return 5 / m
    #! you gave the first distance that is not seen, or counted keys; the largest distance is one less
    # ~ return (5 / m + 1e-6).floor() + 1
    #! you rounded up; that distance is no longer seen
    # ~ return (5 / m - 1e-6).ceil()
    #! you divided by the sum of the weights; the question compares with the query's own weight
    # ~ return ((5 + (1 - (-m).exp()).log()) / m).floor()
    #! the softmax takes powers of e, not of 2
    # ~ return (5 / (m * torch.tensor(2.0).log())).floor()
    #! at distance 1 / m the weight has fallen to e^-1; the question asks for e^-5
    # ~ return (1 / m + 1e-6).floor()


# ---------------------------------------------------------------- questions


@question("relative_positions", "relative_positions.2")
def ask_rotate_part(draw):
    fixed = [(2, 3, 5, 10, 3), (1, 2, 4, 8, 1), (3, 1, 7, 6, 3), (2, 2, 1, 12, 2)]
    for B, h, T, d_k, n in [
        *fixed,
        *((2, 2, draw.size(2, 9), 14, draw.size(1, 6)) for _ in draw.rounds),
    ]:
        cos, sin = rotary_table(draw.size(0, 50) + torch.arange(T), rotary_frequencies(2 * n))
        yield Call(f"x {(B, h, T, d_k)}, n = {n}", (draw.numbers(B, h, T, d_k), cos, sin))


def less_first_key(answer, args, result):
    "A bias less that of key 0: what is added to a whole row changes no weight."
    bias = loosened(result)
    return {"": bias - bias[..., :1] if isinstance(bias, torch.Tensor) else bias}


@question("relative_positions", "relative_positions.3")
def ask_alibi_by_key(draw):
    fixed = [(8, 5), (6, 5), (1, 4), (4, 7), (12, 3), (5, 1)]
    for n_heads, S in [*fixed, *((draw.size(2, 20), draw.size(2, 40)) for _ in draw.rounds)]:
        what = f"n_heads = {n_heads}, S = {S}, less the bias of key 0"
        yield Call(what, (n_heads, S), look=less_first_key)


@question("relative_positions", "relative_positions.5")
def ask_squeezed_table(draw):
    for max_len, d_k, trained in [(12, 6, 5), (7, 4, 2), (40, 8, 16), (9, 2, 8), (64, 16, 8)]:
        what = f"max_len = {max_len}, d_k = {d_k}, trained = {trained}"
        yield Call(what, (max_len, d_k, trained))


@question("relative_positions", "relative_positions.6")
def ask_reach(draw):
    for n_heads in (16, 4, 6, 8, 12, 1, 2):
        yield Call(f"n_heads = {n_heads}", (n_heads,))
