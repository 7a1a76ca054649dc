"Exercises of the deep dive on batches, its second half: packing."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "packing.1",
    near=1e-3,  # 0.664 is enough
    parts=(
        "(a): of the positions of the padded batch, which share holds no token?",
        "(b): a row of n tokens has n · n scores, a padded one T · T",
        "(c): rows of one length share a call",
    ),
)
def saved_by_packing():
    # ? How many positions has the padded batch, and how many of them hold a token?
    # ? A row of n tokens has n · n scores, a padded one T · T.
    # ? Rows of one length share a call.
    work = 1 - (2 + 3 + 3 + 8) / (4 * 8)
    scores = 1 - (2 * 2 + 3 * 3 + 3 * 3 + 8 * 8) / (4 * 8 * 8)
    #! (b): the shares are those that remain; subtract them from one
    # ~ scores = 86 / 256
    #! (b): a row has n · n scores, so more than half of them are saved
    # ~ scores = 0.5
    calls = 3
    #! (c): rows of one length share a call
    # ~ calls = 4
    #! (c): one call cannot serve rows of different length
    # ~ calls = 1
    return work, scores, calls


@exercise("packing.2")
def positions(lengths):
    # ? What are the positions of one row of n tokens?
    # ? `torch.arange(n)` for each row, joined by `torch.cat`.
    return torch.cat([torch.arange(n) for n in lengths])
    #! the positions go on from row to row; each row begins at 0
    # ~ return torch.arange(sum(lengths))
    #! positions count from 0
    # ~ return torch.cat([torch.arange(1, n + 1) for n in lengths])
    #! that is the number of the row of each token
    # ~ return torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))
    #! the rows are joined to one: `torch.cat` of a list of tensors
    # ~ return [torch.arange(n) for n in lengths]


@exercise("packing.3")
def saved(lengths, T, a, b):
    # ? What do all B · T positions cost in the stack, and what in the output matrix?
    # ? Only the second cost changes: from B · T positions to the sum of the lengths.
    pads = 1 - sum(lengths) / (len(lengths) * T)  # the share of positions without a target
    #! the padded batch has T columns, also if no row fills them
    # ~ pads = 1 - sum(lengths) / (len(lengths) * max(lengths))
    #! the work at targets is what remains; that at the other positions is saved
    # ~ pads = sum(lengths) / (len(lengths) * T)
    return pads * b / (a + b)
    #! the stack goes on to run over all positions
    # ~ return pads
    #! that is what remains; subtract it from one
    # ~ return 1 - pads * b / (a + b)
    #! divide by the cost of stack and output matrix together
    # ~ return pads * b / a
    #! only the output matrix, b, saves something; the stack's part of the cost stays
    # ~ return pads * a / (a + b)
    #! that is the number of operations; divide by all that there were before
    # ~ return (len(lengths) * T - sum(lengths)) * b


# ---------------------------------------------------------------- questions


@question("packing", "packing.2")
def ask_positions(draw):
    for lengths in [3, 1, 4, 2], [5], [2, 2], [1, 1, 1], [7, 3]:
        yield Call(f"lengths = {lengths}", (lengths,))
    for _ in draw.rounds:
        lengths = [draw.size(1, 9) for _ in range(draw.size(2, 6))]
        yield Call(f"lengths = {lengths}", (lengths,))


@question("packing", "packing.3")
def ask_saved(draw):
    fixed = [
        ([3, 5, 2], 5, 4.0, 2.0),
        ([4, 4], 4, 1.0, 1.0),
        ([1, 6], 8, 3.0, 9.0),
        ([5], 7, 2.0, 1.0),
    ]
    for lengths, T, a, b in fixed:
        yield Call(f"lengths = {lengths}, T = {T}, a = {a}, b = {b}", (lengths, T, a, b))
    for _ in range(8):
        lengths = [draw.size(1, 9) for _ in range(draw.size(2, 6))]
        T, a, b = max(lengths) + draw.size(0, 2), draw.size(1, 90) / 10, draw.size(1, 90) / 10
        yield Call(f"lengths = {lengths}, T = {T}, a = {a}, b = {b}", (lengths, T, a, b))
