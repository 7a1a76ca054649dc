"""Judges of the exercises on the page 05_positions, and the mistakes that they know."""

import torch

from ..attention.positions import rotate, sinusoid_table
from ..base.exercises import call_answer, diagnose, diagnose_each, exercise, explain_error


def sines_and_cosines(
    angles: torch.Tensor,  # (max_len, d_model / 2)
) -> torch.Tensor:  # (max_len, d_model), columns in the order sin, cos, sin, cos
    "The tips of all hands, side by side."
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


@exercise(
    "05.1",
    "torch.arange(max_len)[:, None] has the shape (max_len, 1). Broadcasting multiplies it "
    "with all frequencies.",
    "The frequencies are 10000 ** (-torch.arange(0, d_model, 2) / d_model).",
    "Assign angles.sin() to table[:, 0::2] and angles.cos() to table[:, 1::2].",
)
def judge_05_1(answer):
    "Judge a table of sinusoids, on 7 positions of width 6."
    try:
        given = answer(7, 6)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return explain_error(
            error,
            {
                "(7) must match": "positions and frequencies have one axis each; an outer product "
                "needs positions (max_len, 1), so `[:, None]`",
                "expanded size": "half of the columns are sines; the angles are (max_len, "
                "d_model / 2), one for each hand",
                "must match the size": "the angles are (max_len, d_model / 2), one for each hand",
            },
        )
    if given is None:
        return "your function returned nothing; end it with `return` and the table"
    if given is ...:
        return "the three dots are still there; put your lines in their place"
    t, i = torch.arange(7.0, device="cpu")[:, None], torch.arange(3, device="cpu")
    angles = t * 10000.0 ** (-2 * i / 6)
    right = sines_and_cosines(angles)
    columns = torch.arange(6, device="cpu")
    own = t * 10000.0 ** (-columns / 6)  # an angle for each column
    growing = torch.arange(7.0, device="cpu").double()[:, None] * 10000.0 ** (2 * i.double() / 6)
    even = columns % 2 == 0
    mistakes = {
        "a sine and its cosine share one hand, 2i for both; yours have two": torch.where(
            even, own.sin(), own.cos()
        ),
        "the exponent is 2i / d_model; yours counts the 2 twice": (
            sines_and_cosines(t * 10000.0 ** (-4 * i / 6))
        ),
        "the exponent is divided by d_model; yours is not": (
            sines_and_cosines(t * 10000.0 ** (-2.0 * i))
        ),
        "the base is 10000, yours is 1000": sines_and_cosines(t * 1000.0 ** (-2 * i / 6)),
        "the cosines are missing; they fill the odd columns": right * even,
        "the sines are missing; they fill the even columns": right * ~even,
        "angles are in radians; yours were turned to degrees or from them": (
            sines_and_cosines(angles * torch.pi / 180)
        ),
        "the exponent is negative; yours makes each next hand faster": (
            sines_and_cosines(growing).float()
        ),
        "sines and cosines are exchanged; sines fill the even columns": (
            right.unflatten(1, (3, 2)).flip(-1).flatten(1)
        ),
        "all sines stand before all cosines; they alternate": (
            torch.cat([angles.sin(), angles.cos()], dim=1)
        ),
        "the exponent is 2i / d_model; yours lacks the 2": (
            sines_and_cosines(t * 10000.0 ** (-i / 6))
        ),
        "the exponent is negative, so that each next hand is slower": (
            sines_and_cosines(t * 10000.0 ** (2 * i / 6))
        ),
        "positions start at 0, yours at 1": sines_and_cosines((t + 1) * 10000.0 ** (-2 * i / 6)),
        "every hand turns at the same rate in your table; each has its own": (
            sines_and_cosines(t.expand(7, 3))
        ),
        "those are the angles; take their sines and cosines": angles,
        "the table is transposed: expected (max_len, d_model)": right.T,
    }
    return diagnose(given, right, mistakes)


def rotated_with(
    x: torch.Tensor,  # (B, h, T, d_k)
    cos: torch.Tensor,  # (T, d_k / 2)
    sin: torch.Tensor,  # (T, d_k / 2)
    mistake: str,  # a value of `TURNING`
) -> torch.Tensor:  # (B, h, T, d_k)
    "Turned pairs, with one mistake made on purpose."
    a, b = x.chunk(2, dim=-1)
    first, second = a * cos - b * sin, a * sin + b * cos
    if mistake == "neighbours":
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    if mistake == "overwritten":
        second = first * sin + b * cos
    pairs = {
        "backwards": (a * cos + b * sin, b * cos - a * sin),
        "exchanged": (a * sin - b * cos, a * cos + b * sin),
        "woven": torch.stack([first, second], dim=-1).flatten(-2).chunk(2, dim=-1),
        "half": (first, b),
        "swapped": (second, first),
        "plus": (a * cos + b * sin, a * sin + b * cos),
    }
    return torch.cat(pairs.get(mistake, (first, second)), dim=-1)


TURNING = {  # what an answer looks like, and the mistake that makes it
    "you paired neighbours, 2i with 2i + 1; here feature i goes with i + d_k / 2": "neighbours",
    "you turned backwards: a cos - b sin comes first, then a sin + b cos": "backwards",
    "sine and cosine are exchanged": "exchanged",
    "the pairs are turned, but they come back as neighbours; "
    "feature i must stay at i, and its partner at i + d_k / 2": "woven",
    "the second of each pair was not turned": "half",
    "the two halves are exchanged: a cos - b sin comes first": "swapped",
    "a sign is missing: it is a cos - b sin": "plus",
    "the first of each pair was overwritten before the second was computed": "overwritten",
}


@exercise(
    "05.2",
    "a is `x[..., : d_k // 2]` and b is the rest. `x.chunk(2, dim=-1)` gives both.",
    "`cos` and `sin` have the axes (T, d_k / 2), as the last two of a and b, so they broadcast.",
    "The first half is a * cos - b * sin, the second a * sin + b * cos; `torch.cat` joins them.",
)
def judge_05_2(answer):
    "Judge turned pairs, on heads of width 6 at random angles."
    draw = torch.Generator("cpu").manual_seed(5)
    x, angle = torch.randn(2, 3, 5, 6, generator=draw), torch.randn(5, 3, generator=draw)
    cos, sin = angle.cos(), angle.sin()
    mistakes = {sentence: rotated_with(x, cos, sin, kind) for sentence, kind in TURNING.items()}
    a, b = x.chunk(2, dim=-1)
    first, second = a * cos - b * sin, a * sin + b * cos
    even, odd = x[..., 0::2], x[..., 1::2]
    mistakes |= {
        "you paired neighbours and put their halves side by side; "
        "here feature i goes with i + d_k / 2": torch.cat(
            [even * cos - odd * sin, even * sin + odd * cos], dim=-1
        ),
        "a sign is wrong in the second half: it is a sin + b cos": torch.cat(
            [first, a * sin - b * cos], dim=-1
        ),
        "the second half is turned as the first: it is a sin + b cos": torch.cat(
            [first, a * cos + b * sin], dim=-1
        ),
        "the halves were joined along the batch; `torch.cat` needs `dim=-1`": torch.cat(
            [first, second]
        ),
        "`torch.stack` makes a new axis; `torch.cat` joins two halves": torch.stack(
            [first, second], dim=-1
        ),
        "`torch.stack` makes a new axis, here the first; `torch.cat` joins": torch.stack(
            [first, second]
        ),
        "that is the first half; the second is missing": first,
        "each angle was doubled for two neighbours; the pairs are halves, so all angles come "
        "twice, one row of them behind the other": (
            x * cos.repeat_interleave(2, -1)
            + torch.cat([-b, a], dim=-1) * sin.repeat_interleave(2, -1)
        ),
    }
    try:
        given = call_answer(answer, x, cos, sin)
    except RuntimeError as error:
        return explain_error(error, _HALVES)
    if isinstance(given, (tuple, list)):
        return "two halves came back; `torch.cat` with `dim=-1` makes one tensor of them"
    return diagnose(given, rotate(x, cos, sin), mistakes)


_HALVES = {
    "tensor a (6) must match the size of tensor b (3)": "x has d_k features and cos a column for "
    "each pair, d_k / 2; first cut x in two halves along its last axis, `dim=-1`",
    "must match the size of tensor b (3)": "the halves are d_k / 2 wide, whatever d_k is; don't "
    "write the number down",
}


@exercise(
    "05.3",
    "The last row belongs to one query. Which word is it, and which keys may it attend to?",
    "Under a causal mask the last query still attends to every word, and without positions "
    "their order does not matter.",
)
def judge_05_3(answer):
    "Four counts of results that differ."
    mean = "the outputs move with the words, and a mean does not depend on the order of its terms"
    invariant = (
        "the layer is equivariant, not invariant; the last row belongs to whichever word stands "
        "last"
    )
    as_a_set = "only the last word matters; the two before it are a set of keys, without an order"
    words = "any of the three words may be the last, and each gives a result of its own"
    keys = (
        "the mask hides nothing from the last query, and in one layer each key is made from one "
        "word alone"
    )
    places = "with positions the two orders of the other words are no longer the same set of keys"
    return diagnose_each(
        answer,
        {"a": 1, "b": 3, "c": 3, "d": 6},
        [
            {6: mean, 3: mean, 2: mean, 0: mean},
            {1: invariant, 6: as_a_set, 2: words},
            {6: keys, 1: words, 2: words},
            {3: places, 1: "each order puts other vectors into the layer", 2: places},
        ],
    )


@exercise(
    "05.4",
    "How many real words stand at or before a column? `cumsum` counts them.",
    "`places = real.cumsum(1) - 1`, which is -1 for padding: clamp it, look the rows up with "
    "`table[places]`, and add nothing where `real` is False.",
)
def judge_05_4(answer):
    generator = torch.Generator("cpu").manual_seed(5)
    x, table = torch.randn(2, 4, 3, generator=generator), torch.randn(6, 3, generator=generator)
    real = torch.tensor([[False, False, True, True], [False, True, True, True]])
    count, keep = real.cumsum(1), real[..., None]
    rows = table[(count - 1).clamp(min=0)]  # (B, T, d_model)
    fewest = (~real).sum(1).min()
    shifted = torch.cat([x[:, :fewest], x[:, fewest:] + table[: 4 - fewest]], dim=1)
    from_the_end = (real.flip(1).cumsum(1).flip(1) - 1).clamp(min=0)
    try:
        given = call_answer(answer, x, table, real)
    except (RuntimeError, IndexError) as error:
        return explain_error(
            error,
            {
                "shape of the mask": "`table[real]` takes rows by True and False; look them up by "
                "the place of each word, a number",
                "tensor b (6)": "the table has max_len rows, not T; look up a row for each word",
                "must match the size": "`real` is (B, T); for vectors it needs an axis more, "
                "`real[..., None]`",
                "must be long": "places are whole numbers; count with `real.cumsum(1)`",
            },
        )
    return diagnose(
        given,
        x + rows * keep,
        {
            "all rows are shifted alike; count the padding of each row": shifted,
            "each row's positions were added from its left edge on, where the padding is; the "
            "first real word gets row 0": x + table[:4] * keep.flip(1),
            "you counted from the right; the first real word gets row 0": (
                x + table[from_the_end] * keep
            ),
            "you counted columns, so the padding took the first places": x + table[:4],
            "you counted columns and spared the padding, but the first real word must get row 0": (
                x + table[:4] * keep
            ),
            "your first real word gets row 1; count from zero": x + table[count] * keep,
            "you added a row to the padding too": x + rows,
            "you counted the padding, so all words of a row got the same row": (
                x + table[(~real).cumsum(1)] * keep
            ),
            "you counted down the batch; count along each row": (
                x + table[(real.cumsum(0) - 1).clamp(min=0)] * keep
            ),
            "you added a row to the padding too; places of -1 read the last row of the table": (
                x + table[count - 1]
            ),
            "your first real word gets row 1, and the padding row 0": x + table[count],
            "the padding should stay as it is, not become zero": (x + rows) * keep,
            "you returned the rows of the table without adding them to x": rows * keep,
        },
    )


def rotation_blocks(
    angles: torch.Tensor,  # (d_model / 2,), one per hand
) -> torch.Tensor:  # (d_model, d_model), each hand's 2 × 2 rotation on the diagonal
    "The matrix that turns hand i by `angles[i]`, for columns in the order sin, cos, sin, cos."
    blocks = [
        torch.stack([torch.stack([a.cos(), a.sin()]), torch.stack([-a.sin(), a.cos()])])
        for a in angles
    ]
    return torch.block_diag(*blocks)


@exercise(
    "05.5",
    "Write sin(a + b) and cos(a + b) with a = ωp and b = ωs; what multiplies sin(ωp), what "
    "cos(ωp)?",
    "Each hand has a 2 × 2 block [[cos ωs, sin ωs], [-sin ωs, cos ωs]]; `torch.block_diag` "
    "puts them together.",
)
def judge_05_5(answer):
    s, d_model = 3, 6
    i = torch.arange(d_model // 2)
    rate = 10000.0 ** (-2 * i / d_model)
    right = rotation_blocks(s * rate)
    grouped = [0, 2, 4, 1, 3, 5]
    problem = diagnose(
        answer(s, d_model),
        right,
        {
            "you turned the hands backwards: this matrix takes position p + s to p; the "
            "minus sign is in the cosine's row": right.T,
            "your columns hold all sines first, then all cosines; `sinusoid_table` "
            "alternates them": right[grouped][:, grouped],
            "hand i turns at 10000^(-2i/d_model); the 2 is missing": rotation_blocks(
                s * 10000.0 ** (-i / d_model)
            ),
            "every hand turns at the same rate in your matrix; each has its own": rotation_blocks(
                s * torch.ones(d_model // 2)
            ),
            "nothing turns in yours; each hand turns by its angle times s": torch.eye(d_model),
            "the sines are missing; a block is [[cos, sin], [-sin, cos]]": (
                right * torch.eye(d_model)
            ),
            "one of the two sines has a minus": torch.where(
                torch.eye(d_model) > 0, right, right.triu() + right.triu().T
            ),
            "sine and cosine are exchanged in each block": right[[1, 0, 3, 2, 5, 4]],
            "the exponent is negative, so that each next hand is slower": rotation_blocks(
                s * 10000.0 ** (2 * i.double() / d_model)
            ).float(),
            "that is one hand; d_model / 2 of them have a block on the diagonal": right[:2, :2],
            "the blocks are right; `torch.block_diag` puts them on the diagonal": torch.stack(
                [right[j : j + 2, j : j + 2] for j in range(0, d_model, 2)]
            ),
            "this matrix moves by one place, not by s": rotation_blocks(rate),
            "sines stand where the cosines belong; a block is [[cos, sin], [-sin, cos]]": (
                torch.block_diag(
                    *(
                        torch.stack(
                            [torch.stack([a.sin(), a.cos()]), torch.stack([-a.cos(), a.sin()])]
                        )
                        for a in s * rate
                    )
                )
            ),
            "the diagonal holds ones; it holds the cosines": (
                right - torch.diag(right.diagonal()) + torch.eye(d_model)
            ),
        },
    )
    if problem is None:  # a second size, so that no number of the first can be written in
        table = sinusoid_table(12, 4)
        problem = diagnose(table[:5] @ torch.as_tensor(answer(7, 4)).to(table).T, table[7:])
    return problem
