"""Judges of the exercises on the page 05_relative_positions, and the mistakes that they know."""

import torch

from ..attention.angle_tables import rotary_frequencies, rotary_table
from ..attention.positions import rotate
from ..attention.relative_positions import ALiBi, alibi_slopes, rotate_interleaved
from ..base.exercises import diagnose, exercise


@exercise(
    "relative_positions.1",
    "Only the distance counts. Which of the four pairs have the same one?",
    "At distance 1 turn q once, (1, 2) to (-2, 1), and leave k as it is; with "
    "the key to the right, turn k once instead",
)
def judge_relative_positions_1(answer):
    mistakes = {
        "you turned the wrong way; a quarter turn takes (1, 2) to (-2, 1)": [2, 2, -2, 11],
        "you turned the query alone; the key turns too": [-11, -2, -2, 11],
        "you turned the key alone; the query turns too": [2, 11, -11, 11],
        "c: the distance has a direction; here the key stands to the right": [-2, -2, -2, 11],
        "c: the distance has a direction; a and b have the key to the left": [2, 2, 2, 11],
        "the exercise asks for the dot product itself, not divided by √d_k": [
            n / 2**0.5 for n in (-2, -2, 2, 11)
        ],
        "you did not turn anything; d alone has both pairs as they were": [11, 11, 11, 11],
    }
    problem = diagnose(
        answer,
        [-2, -2, 2, 11],
        {k: torch.tensor(v, dtype=torch.double) for k, v in mistakes.items()},
    )
    given = torch.as_tensor(answer).double()
    if problem and problem.startswith("the numbers differ") and given[0] != given[1]:
        return "a and b have the same distance, so the same dot product"
    if problem and problem.startswith("the numbers differ") and given[3] != 11:
        return "d: four quarter turns are a full circle; query and key are as they were"
    return problem


@exercise(
    "relative_positions.2",
    "`cos.shape[-1]` is n. Take the features apart, turn the first 2n, and put them together again",
    "`rotate` of the lesson turns whatever width it is given: hand it `x[..., : 2 * n]`",
)
def judge_relative_positions_2(answer):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, 3, 5, 10, generator=generator)
    cos, sin = rotary_table(torch.arange(5), rotary_frequencies(6))  # n = 3: six of ten features
    part, rest = x[..., :6], x[..., 6:]
    across = torch.cat([x[..., :3], x[..., 5:8]], dim=-1)  # i with i + d_k / 2
    turned = rotate(across, cos, sin)
    first = x[..., :3] * cos - x[..., 3:6] * sin
    return diagnose(
        answer(x.clone(), cos, sin),
        torch.cat([rotate(part, cos, sin), rest], dim=-1),
        {
            "you turned in the interleaved layout; the exercise "
            "pairs feature i with i + n": torch.cat(
                [rotate_interleaved(part, cos, sin), rest], dim=-1
            ),
            "you turned backwards: a cos - b sin comes first, a sin + b cos second": torch.cat(
                [rotate(part, cos, -sin), rest], dim=-1
            ),
            "sine and cosine are exchanged": torch.cat([rotate(part, sin, cos), rest], dim=-1),
            "you paired feature i with i + d_k / 2, half of the whole "
            "head; the partner is at i + n": torch.cat(
                [turned[..., :3], x[..., 3:5], turned[..., 3:], x[..., 8:]], dim=-1
            ),
            "the first of each pair was overwritten before the second was computed": torch.cat(
                [first, first * sin + x[..., 3:6] * cos, rest], dim=-1
            ),
            "you turned the last 2n features, not the first": torch.cat(
                [x[..., :4], rotate(x[..., 4:], cos, sin)], dim=-1
            ),
            "the features that are not turned are missing": rotate(part, cos, sin),
            "the features that are not turned should stay as they are, not become zero": torch.cat(
                [rotate(part, cos, sin), 0 * rest], dim=-1
            ),
            "you turned the first n features only; cos has one column for each pair": torch.cat(
                [rotate(x[..., :2], cos[:, :1], sin[:, :1]), x[..., 2:]], dim=-1
            ),
            "the turned features should come first": torch.cat(
                [rest, rotate(part, cos, sin)], dim=-1
            ),
        },
    )


@exercise(
    "relative_positions.3",
    "Under a causal mask j <= i, so ALiBi's bias is -m (i - j). Which part "
    "of it is the same for the whole row?",
    "-m (i - j) = m j - m i, and m i is one number for row i",
    "`alibi_slopes(n_heads)[:, None, None] * torch.arange(S)`",
)
def judge_relative_positions_3(answer):
    S, past = 5, torch.ones(5, 5, dtype=torch.bool).tril()

    def weights(bias):
        bias = torch.as_tensor(bias).float()
        return (
            bias.expand(bias.shape[0], S, S).masked_fill(~past, float("-inf")).softmax(dim=-1)
        )  # (h, T, S)

    for n_heads in (8, 6):
        given, m, j = (
            torch.as_tensor(answer(n_heads, S)),
            alibi_slopes(n_heads)[:, None, None],
            torch.arange(S),
        )
        if given.shape != (n_heads, 1, S):
            return f"expected shape {(n_heads, 1, S)}, got {tuple(given.shape)}"
        i = torch.arange(n_heads)[:, None, None]
        plain, first = 2.0 ** (-8 * (i + 1) / n_heads), 2.0 ** (-8 * i / n_heads)
        distance = torch.arange(S) - torch.arange(S)[:, None]
        problem = diagnose(
            weights(given),
            weights(ALiBi(n_heads).by_distance(distance)),
            {
                "the sign is turned: with your bias the far keys "
                "gain; -m (i - j) leaves + m j": weights(-m * j),
                "your slopes are off by one: head 0 has 2^(-8 / n), not 1": weights(first * j),
                "your slopes are off by one, and the sign is turned": weights(-first * j),
                "one slope for all heads; each has its own": weights(
                    m[:1] * j * torch.ones(n_heads, 1, 1)
                ),
                "the slopes are missing": weights(j * torch.ones(n_heads, 1, 1)),
                "your bias is the same for every key, so it changes nothing": weights(
                    torch.zeros(n_heads, 1, S)
                ),
                f"right for a power of two; for {n_heads} heads see `alibi_slopes`": weights(
                    plain * j
                ),
            },
        )
        if problem is not None:
            return problem
    return None


@exercise(
    "relative_positions.4",
    "Which positions, and which distances, occur in a window of 64 "
    "characters? A causal query never looks ahead.",
    "The distances are 0, -1, …, -63. With max_distance=32 all from -32 on share one column.",
)
def judge_relative_positions_4(answer):
    if len(answer) != 4:
        return f"expected four counts, for a, b, c and d, got {len(answer)}"
    a, b, c, d = (int(n) for n in answer)
    if a == 512:
        return (
            "a: a row gets a gradient only from a window that reaches it, "
            "and no window is longer than 64"
        )
    if b == 65 or c in (127, 257):
        return "b, c: half of the columns are for keys after the query, which the causal mask hides"
    if b == 64:
        return "b: 64 distances occur, but all of 32 and more share one column"
    if b == 32:
        return "b: distances 0 to 31 have a column each, and those of 32 and more share another"
    if c == 129:
        return "c: the table has columns for distances that no pair in a window of 64 has"
    if (a, c) != (64, 64) and {a, c} <= {63, 64, 65}:
        return (
            "a, c: count from zero; a window of 64 has positions 0 to 63, and so distances 0 to 63"
        )
    if d:
        return "d: the sinusoid table is a buffer; nothing of it is trained"
    return diagnose([a, b, c, d], [64, 33, 64, 0])


def _table_at(place, d_k, base=10000.0):
    "Cosines and sines, (2, T, d_k / 2), for positions that need not be whole numbers."
    return rotary_table(place, rotary_frequencies(d_k, base))


@exercise(
    "relative_positions.5",
    "`rotary_table` multiplies a column of positions by a row of frequencies. Only the column "
    "changes, and it need not hold whole numbers.",
    "`position = torch.arange(max_len) * trained / max_len`; `rotary_table` does the rest.",
)
def judge_relative_positions_5(answer):
    for max_len, d_k, trained in ((12, 6, 5), (7, 4, 2)):
        place = torch.arange(max_len)
        right = _table_at(place * trained / max_len, d_k)
        problem = diagnose(
            answer(max_len, d_k, trained),
            right,
            {
                "these are the positions as they were; nothing was squeezed": _table_at(place, d_k),
                "you stretched the positions: multiply by trained / "
                "max_len, not by max_len / trained": _table_at(place * max_len / trained, d_k),
                "you rounded the positions, so neighbours share "
                "one; fractions are meant": _table_at(place * trained // max_len, d_k),
                "you put the last position on the last trained one; the "
                "paper's factor is trained / max_len": _table_at(
                    place * (trained - 1) / (max_len - 1), d_k
                ),
                "you clamped: all positions beyond the trained ones became one": _table_at(
                    place.clamp(max=trained - 1), d_k
                ),
                "you changed the base; that slows the pairs unequally, and here "
                "the positions are to be squeezed": _table_at(
                    place, d_k, 10000.0 * max_len / trained
                ),
                "cosines come first, then sines": right.flip(0),
            },
        )
        if problem:
            return problem


@exercise(
    "relative_positions.6",
    "The weights are a softmax of scores that differ only by the bias. Divide one "
    "weight by the other before you do anything else.",
    "exp(-m r) ≥ exp(-5) means r ≤ 5 / m, and a distance is a whole number. "
    "`alibi_slopes(n_heads)` gives the slopes.",
)
def judge_relative_positions_6(answer):
    for n_heads in (16, 4):
        m = alibi_slopes(n_heads).double()
        right = (5 / m + 1e-6).floor()
        problem = diagnose(
            answer(n_heads),
            right,
            {
                "you multiplied by the slope: a steep head sees less, not more": 5 * m,
                "a distance is a whole number; take the largest that is seen": 5 / m,
                "you gave the first distance that is not seen, or counted keys; "
                "the largest distance is one less": right + 1,
                "you rounded up; that distance is no longer seen": (5 / m - 1e-6).ceil(),
                "you divided by the sum of the weights; the question "
                "compares with the query's own weight": ((5 + (-(-m).expm1()).log()) / m).floor(),
                "the softmax takes powers of e, not of 2": (
                    5 / (m * torch.log(torch.tensor(2.0).double()))
                ).floor(),
                "at distance 1 / m the weight has fallen to e^-1; the question asks for e^-5": (
                    1 / m + 1e-6
                ).floor(),
                "the slopes are those of `alibi_slopes`, 2^(-8i/n) for i from 1": (
                    5 / (2.0 ** (-8 * torch.arange(n_heads) / n_heads)) + 1e-6
                ).floor(),
            },
        )
        if problem:
            return problem
