"Lesson 05: positions."

import torch
from torch import nn

from ..grading.ask import Call, exercise, question


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model):
        super().__init__()
        self.table = nn.Parameter(0.02 * torch.randn(max_len, d_model))
        #! the vectors of positions start with a standard deviation of 0.02, not of 1
        # ~ self.table = nn.Parameter(torch.randn(max_len, d_model))
        #! the vectors of positions start at random, with a standard deviation of 0.02, not at 0
        # ~ self.table = nn.Parameter(torch.zeros(max_len, d_model))
        #! 0.02 is the standard deviation, so multiply by it; yours has its root or its square
        # ~ self.table = nn.Parameter(0.02**0.5 * torch.randn(max_len, d_model))
        #! torch.rand is never negative; the vectors are drawn from a normal distribution: torch.randn
        # ~ self.table = nn.Parameter(0.02 * torch.rand(max_len, d_model))

    def forward(self, x, positions):  # (B, T, d_model), (T,)
        return x + self.table[positions]
        #! the positions that it is given are not used: a text that goes on from a cache begins
        #! further than 0
        # ~ return x + self.table[: x.shape[1]]
        #! the first position is 0, so the first row of the table belongs to it
        # ~ return x + self.table[(positions + 1) % len(self.table)]
        #! positions count from the end: table[-1] is the last row
        # ~ return x + self.table[-1 - positions]
        #! the vectors of positions are added, not multiplied
        # ~ return x * self.table[positions]
        #! those are the positions alone; add them to x
        # ~ return (x * 0) + self.table[positions]
        #! those are the positions alone; add them to x, whose axis of sentences is missing, too
        # ~ return self.table[positions]
        #! positions are not added
        # ~ return x + 0 * self.table[positions]
        #! the positions are taken away; add them
        # ~ return x - self.table[positions]
        #! x is changed in place, so what it was is lost to others that hold it; write x + …
        # ~ x += self.table[positions]
        #| return x
        #! x is multiplied by √d_model first, as in the paper of 2017; the course leaves it as it is
        # ~ return x * x.shape[-1] ** 0.5 + self.table[positions]


# ---------------------------------------------------------------- exercises


@exercise("05.1")
def my_sinusoids(max_len, d_model):  # d_model is even
    # ? torch.arange(max_len)[:, None] has the shape (max_len, 1). Broadcasting multiplies it with all frequencies.
    # ? The frequencies are 10000 ** (-torch.arange(0, d_model, 2) / d_model).
    # ? Assign angles.sin() to table[:, 0::2] and angles.cos() to table[:, 1::2].
    frequency = 10000 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model / 2,)
    #! the exponent is 2i / d_model; yours lacks the 2
    # ~ frequency = 10000 ** (-torch.arange(d_model // 2) / d_model)
    #! the exponent is 2i / d_model; yours counts the 2 twice
    # ~ frequency = 10000 ** (-2 * torch.arange(0, d_model, 2) / d_model)
    #! the exponent is divided by d_model; yours is not
    # ~ frequency = 10000.0 ** -torch.arange(0, d_model, 2)
    #! the exponent is negative, so that each next hand is slower
    # ~ frequency = 10000 ** (torch.arange(0, d_model, 2) / d_model)
    angles = torch.arange(max_len)[:, None] * frequency  # (max_len, d_model / 2)
    #! positions start at 0, yours at 1
    # ~ angles = torch.arange(1, max_len + 1)[:, None] * frequency
    #! positions and frequencies have one axis each; an outer product needs positions (max_len, 1),
    #! so `[:, None]`
    # ~ angles = torch.arange(max_len) * frequency
    table = torch.zeros(max_len, d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    #! sines and cosines are exchanged; sines fill the even columns
    # ~ table[:, 0::2], table[:, 1::2] = angles.cos(), angles.sin()
    #! all sines stand before all cosines; they alternate
    # ~ table = torch.cat([angles.sin(), angles.cos()], dim=1)
    #! a sine and its cosine share one hand, 2i for both; yours have two
    # ~ angles = torch.arange(max_len)[:, None] * 10000 ** (-torch.arange(d_model) / d_model)
    # | table[:, 0::2], table[:, 1::2] = angles[:, 0::2].sin(), angles[:, 1::2].cos()
    return table


@exercise("05.2")
def my_rotate(x, cos, sin):
    # ? a is `x[..., : d_k // 2]` and b is the rest. `x.chunk(2, dim=-1)` gives both.
    # ? `cos` and `sin` have the axes (T, d_k / 2), as the last two of a and b, so they broadcast.
    # ? The first half is a * cos - b * sin, the second a * sin + b * cos; `torch.cat` joins them.
    a, b = x.chunk(2, dim=-1)  # each (B, h, T, d_k / 2)
    #! you paired neighbours, 2i with 2i + 1; here feature i goes with i + d_k / 2
    # ~ a, b = x[..., 0::2], x[..., 1::2]
    # ~ torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1) -> torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    #! you paired neighbours and put their halves side by side; here feature i goes with i + d_k / 2
    # ~ a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    #! you turned backwards: a cos - b sin comes first, then a sin + b cos
    # ~ return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)
    #! sine and cosine are exchanged
    # ~ return torch.cat([a * sin - b * cos, a * cos + b * sin], dim=-1)
    #! the two halves are exchanged: a cos - b sin comes first
    # ~ return torch.cat([a * sin + b * cos, a * cos - b * sin], dim=-1)
    #! the first of each pair was overwritten before the second was computed; keep both until the end
    # ~ a = a * cos - b * sin
    # | return torch.cat([a, a * sin + b * cos], dim=-1)
    #! the pairs are turned, but they come back as neighbours; feature i must stay at i, and its
    #! partner at i + d_k / 2
    # ~ return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)
    #! the halves were joined along the batch; `torch.cat` needs `dim=-1`
    # ~ return torch.cat([a * cos - b * sin, a * sin + b * cos])
    #! `torch.stack` makes a new axis; `torch.cat` joins two halves
    # ~ return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    #! there are two tensors, or one with a new axis for them; `torch.cat` with `dim=-1` joins two
    #! halves
    # ~ return a * cos - b * sin, a * sin + b * cos
    #! each angle was doubled for two neighbours; the pairs are halves, so all angles come twice,
    #! one row of them behind the other
    # ~ cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
    # | return x * cos + torch.cat([-b, a], dim=-1) * sin
    #! x has d_k features and cos a column for each pair, d_k / 2; first cut x in two halves along
    #! its last axis, `dim=-1`
    # ~ return x * cos - x * sin


@exercise(
    "05.3",
    parts=(
        "(a): the outputs move with the words, and a mean does not depend on the order of its terms",
        "(b): the last row belongs to the word that stands last; are the two before it in an order?",
        "(c): which words does the mask hide from the last query, and what is each key made from?",
        "(d): with positions, are the two orders of the other words still the same set of keys?",
    ),
)
def different_results():
    # ? The last row belongs to one query. Which word is it, and which keys may it attend to?
    # ? Under a causal mask the last query still attends to every word, and without positions their order does not matter.
    return 1, 3, 3, 6
    #! (b): the layer is equivariant, not invariant; the last row belongs to whichever word stands
    #! last
    # ~ return 1, 1, 3, 6
    #! (b): the layer is equivariant, not invariant; the last row belongs to whichever word stands
    #! last
    # ~ return 1, 1, 6, 6
    #! (b): only the last word matters; the two before it are a set of keys, without an order
    # ~ return 1, 6, 6, 6
    #! (c): the mask hides nothing from the last query, and in one layer each key is made from one
    #! word alone
    # ~ return 1, 3, 6, 6


@exercise("05.4")
def add_positions(x, table, real):
    # ? How many real words stand at or before a column? `cumsum` counts them.
    # ? `places = real.cumsum(1) - 1`, which is -1 for padding: clamp it, look the rows up with `table[places]`, and add nothing where `real` is False.
    places = (real.cumsum(dim=1) - 1).clamp(min=0)  # (B, T)
    #! your first real word gets row 1; count from zero
    # ~ places = real.cumsum(dim=1)
    #! you counted columns and spared the padding, but the first real word must get row 0
    # ~ places = torch.arange(x.shape[1])
    #! you counted down the batch; count along each row
    # ~ places = (real.cumsum(dim=0) - 1).clamp(min=0)
    #! you counted from the right; the first real word gets row 0
    # ~ places = (real.flip(1).cumsum(dim=1).flip(1) - 1).clamp(min=0)
    #! all rows are shifted alike; count the padding of each row
    # ~ places = (torch.arange(x.shape[1]) - (~real).sum(dim=1).min()).clamp(min=0)
    #! places are whole numbers; count with `real.cumsum(dim=1)`
    # ~ places = real.float().cumsum(dim=1) - 1
    return x + table[places] * real[..., None]  # (B, T, d_model)
    #! you added a row to the padding too
    # ~ return x + table[places]
    #! you added a row to the padding too; places of -1 read the last row of the table
    # ~ return x + table[real.cumsum(dim=1) - 1]
    #! you counted columns, so the padding took the first places
    # ~ return x + table[: x.shape[1]]
    #! each row's positions were added from its left edge on, where the padding is; the first real
    #! word gets row 0
    # ~ return x + table[: x.shape[1]] * real.flip(1)[..., None]
    #! the padding should stay as it is, not become zero
    # ~ return (x + table[places]) * real[..., None]
    #! you returned the rows of the table without adding them to x
    # ~ return table[places] * real[..., None]
    #! `real` is (B, T); for vectors it needs an axis more, `real[..., None]`
    # ~ return x + table[places] * real
    #! `table[real]` takes rows by True and False; look them up by the place of each word, a number
    # ~ return x + table[real]


@exercise("05.5")
def shift_matrix(s, d_model):
    # ? Write sin(a + b) and cos(a + b) with a = ωp and b = ωs; what multiplies sin(ωp), what cos(ωp)?
    # ? Each hand has a 2 × 2 block [[cos ωs, sin ωs], [-sin ωs, cos ωs]]; `torch.block_diag` puts them together.
    angle = s * 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)  # (d_model / 2,)
    #! hand i turns at 10000^(-2i/d_model); the 2 is missing
    # ~ angle = s * 10000.0 ** (-torch.arange(d_model // 2) / d_model)
    #! hand i turns at 10000^(-2i/d_model); yours counts the 2 twice
    # ~ angle = s * 10000.0 ** (-2 * torch.arange(0, d_model, 2) / d_model)
    #! the exponent is negative, so that each next hand is slower
    # ~ angle = s * 10000.0 ** (torch.arange(0, d_model, 2) / d_model)
    #! this matrix moves by one place, not by s
    # ~ angle = 10000.0 ** (-torch.arange(0, d_model, 2) / d_model)
    M = torch.zeros(d_model, d_model)
    sines, cosines = torch.arange(0, d_model, 2), torch.arange(1, d_model, 2)
    #! your columns hold all sines first, then all cosines; `sinusoid_table` alternates them
    # ~ sines, cosines = torch.arange(d_model).chunk(2)
    M[sines, sines] = M[cosines, cosines] = angle.cos()
    M[sines, cosines], M[cosines, sines] = angle.sin(), -angle.sin()
    #! you turned the hands backwards: this matrix takes position p + s to p; the minus sign is in the
    #! cosine's row
    # ~ M[sines, cosines], M[cosines, sines] = -angle.sin(), angle.sin()
    #! one of the two sines has a minus
    # ~ M[sines, cosines], M[cosines, sines] = angle.sin(), angle.sin()
    #! sine and cosine are exchanged; a block is [[cos, sin], [-sin, cos]]
    # ~2 M[sines, sines] = M[cosines, cosines] = angle.sin()
    # | M[sines, cosines], M[cosines, sines] = angle.cos(), -angle.cos()
    return M
    #! the blocks are right; `torch.block_diag` puts them on the diagonal
    # ~ return torch.stack([M[i : i + 2, i : i + 2] for i in range(0, d_model, 2)])


# ---------------------------------------------------------------- questions


@question("05", "LearnedPositions")
def ask_positions(draw):
    x = draw.numbers(2, 5, 8)
    yield Call("positions 0 to 4", (x, torch.arange(5)), {}, (20, 8))
    yield Call("positions 7 to 11", (x, torch.arange(7, 12)), {}, (20, 8))
    yield Call("positions 9, 2, 9, 0, 4", (x, torch.tensor([9, 2, 9, 0, 4])), {}, (20, 8))
    of_each = torch.tensor([[0, 1, 2, 3, 4], [3, 4, 5, 6, 7]])
    yield Call("positions of each sentence, (B, T)", (x, of_each), {}, (20, 8))
    yield Call("float64", (x.double(), torch.arange(5)), {}, (20, 8), near=1e-6)
    yield Call("how the vectors start", (400, 40), look=how_it_starts)
    for _ in draw.rounds:
        n = draw.size(1, 9)
        x, positions = draw.numbers(draw.size(1, 3), n, 8), draw.tokens(n, low=0, high=20)
        yield Call("positions of chance", (x, positions), {}, (20, 8))


def how_it_starts(made, args, new):
    numbers = next(new.parameters())
    return {"": [round(numbers.std().item(), 2), round(numbers.min().sign().item())]}


@question("05", "05.1")
def ask_my_sinusoids(draw):
    for max_len, d_model in [(7, 6), (5, 4), (1, 8), (12, 2), (9, 10), (30, 16)]:
        yield Call(f"max_len {max_len}, d_model {d_model}", (max_len, d_model), near=1e-4)
    for _ in draw.rounds:
        sizes = draw.size(8, 20), 2 * draw.size(1, 7)
        yield Call(f"max_len {sizes[0]}, d_model {sizes[1]}", sizes, near=1e-4)


@question("05", "05.2")
def ask_my_rotate(draw):
    shapes = [(2, 3, 5, 6), (1, 2, 7, 4), (3, 1, 1, 8), (2, 2, 3, 10)]
    shapes += [(draw.size(1, 3), draw.size(1, 3), n, 8) for n in (2, 5, 6)]
    for shape in shapes:
        angle = draw.numbers(shape[2], shape[3] // 2, scale=2.0)
        yield Call(f"x {shape}", (draw.numbers(*shape), angle.cos(), angle.sin()))


@question("05", "05.4")
def ask_add_positions(draw):
    for T, max_len, lengths in [
        (4, 6, (2, 3)),
        (5, 5, (1, 5, 4)),
        (3, 9, (3, 3)),
        (6, 20, (2,)),
        (1, 4, (1, 1)),
        (7, 12, (3, 7, 1, 6, 2)),
    ]:
        real = torch.tensor([[False] * (T - n) + [True] * n for n in lengths])
        x, table = draw.numbers(len(lengths), T, 8), draw.numbers(max_len, 8)
        yield Call(f"{T} columns, with {lengths} words", (x, table, real))


@question("05", "05.5")
def ask_shift_matrix(draw):
    for s, d_model in [(3, 6), (7, 4), (1, 8), (2, 2), (0, 4), (20, 12)]:
        yield Call(f"s = {s}, d_model = {d_model}", (s, d_model), near=1e-4)
    for _ in draw.rounds:
        s, d_model = draw.size(1, 15), 2 * draw.size(1, 6)
        yield Call(f"s = {s}, d_model = {d_model}", (s, d_model), near=1e-4)
