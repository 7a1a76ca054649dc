"Lesson 05: positions."

import torch
from torch import nn

from ..grading.ask import Call, question


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
