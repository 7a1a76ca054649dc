"Pretrained models: going on from a start by differences of low rank."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "fine_tuning.1",
    parts=(
        "the gradient by A is a product with B, which is 0 in the first step; A learns later",
        "the gradient by B is a product with A, which isn't 0",
        "with both at 0 each gradient is a product with a matrix of zeros",
        "with both at 0 each gradient is a product with a matrix of zeros",
    ),
)
def learns_in_the_first_step():
    # ? The gradient by A is a product with B, and the gradient by B is one with A.
    # ? By A it is BᵀG and by B it is GAᵀ: [False, True, False, False].
    return [False, True, False, False]  # A and B if B is 0, then A and B if both are
    #! turned round: the gradient by A is a product with B, and B is the one that is 0
    # ~ return [True, False, False, False]
    #! with both at 0 neither learns, ever: each gradient is a product with the other matrix
    # ~ return [False, True, True, True]


@exercise("fine_tuning.2")
def trained(d_model, n_layers, rank):
    # ? A layer from d_in to d_out gets r * d_in and r * d_out numbers. Which six layers are there?
    # ? W_q, W_k, W_v and W_o give 1 + 1 each, w_in and w_out 1 + 4, times rank * d_model * n_layers.
    attention = 4 * (1 + 1)  # W_q, W_k, W_v and W_o, in units of rank * d_model
    #! queries, keys and values are three layers here, each with an A of its own
    # ~ attention = (1 + 3) + (1 + 1)
    #! the layers of attention count, too
    # ~ attention = 0
    network = (1 + 4) + (4 + 1)  # w_in and w_out
    #! the layers of the feed-forward network count, too
    # ~ network = 0
    #! w_in and w_out are four times as wide on one side, so the one has 1 + 4 and the other 4 + 1
    # ~ network = (1 + 1) + (1 + 1)
    #! the network is 4 · d_model wide on one side only, between w_in and w_out
    # ~ network = (4 + 4) + (4 + 4)
    return (attention + network) * rank * d_model * n_layers
    #! that is A alone, or B alone; both have numbers
    # ~ return 9 * rank * d_model * n_layers
    #! that is W_q and W_v alone, as in the paper
    # ~ return 4 * rank * d_model * n_layers
    #! those are the weights that stay frozen
    # ~ return 12 * d_model**2 * n_layers
    #! that is one block; there are n_layers
    # ~ return (attention + network) * rank * d_model


@exercise("fine_tuning.3")
def kept(difference, rank):
    # ? torch.linalg.svdvals gives the singular values. Their squares sum to those of all numbers.
    # ? s = torch.linalg.svdvals(difference); (s[:rank] ** 2).sum() / (s**2).sum().
    values = torch.linalg.svdvals(difference)  # the largest first
    return (values[:rank] ** 2).sum() / (values**2).sum()
    #! square the singular values: the squares sum to the squares of all numbers
    # ~ return values[:rank].sum() / values.sum()
    #! that is what is lost
    # ~ return (values[rank:] ** 2).sum() / (values**2).sum()
    #! that is the root of the share; the numbers are squared
    # ~ return ((values[:rank] ** 2).sum() / (values**2).sum()).sqrt()
    #! those are the first rows; a matrix of that rank can be any sum of so many products
    # ~ return (difference[:rank] ** 2).sum() / (difference**2).sum()
    #! those are the first columns; a matrix of that rank can be any sum of so many products
    # ~ return (difference[:, :rank] ** 2).sum() / (difference**2).sum()
    #! the largest singular values hold most, and they come first
    # ~ return (values[-rank:] ** 2).sum() / (values**2).sum()
    #! singular values are not alike, so the share is not that of their count
    # ~ return rank / len(values)
    #! that is the sum of their squares; the share of all squares is asked for
    # ~ return (values[:rank] ** 2).sum()
    #! that is the one with number `rank`; a matrix of that rank holds all up to it
    # ~ return values[rank - 1] ** 2 / (values**2).sum()


# ---------------------------------------------------------------- questions


@question("fine_tuning", "fine_tuning.2")
def ask_trained(draw):
    cases = [(12, 2, 5), (768, 12, 8), (10, 1, 1), (4, 3, 2)]
    cases += [(draw.size(1, 64), draw.size(1, 9), draw.size(1, 9)) for _ in draw.rounds]
    for d_model, n_layers, rank in cases:
        what = f"d_model = {d_model}, n_layers = {n_layers}, rank = {rank}"
        yield Call(what, (d_model, n_layers, rank))


@question("fine_tuning", "fine_tuning.3")
def ask_kept(draw):
    for rows, columns, ranks in [(6, 9, (1, 2, 4)), (7, 3, (1, 3)), (5, 5, (2, 5)), (1, 4, (1,))]:
        near_rank_2 = draw.numbers(rows, 2) @ draw.numbers(2, columns)
        difference = near_rank_2 + draw.numbers(rows, columns, scale=0.3)
        for rank in ranks:
            yield Call(f"difference ({rows}, {columns}), rank = {rank}", (difference, rank))
    for rank in (1, 3):
        what = f"small numbers, rank = {rank}"
        yield Call(what, (draw.numbers(4, 8, scale=0.01), rank))
