"The first hour: pairs of letters, and the surprise at them."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("first_hour.1")
def count_pairs(before, after, n):
    # ? Make the table first, `torch.zeros(n, n)`. Then walk along both tensors with `zip`.
    # ? For each pair, one number of the table grows by 1: `table[i, j] += 1`.
    table = torch.zeros(n, n)
    #! a letter that never comes has its row and column, too: the table is (n, n), whatever comes
    # ~ table = torch.zeros(before.max() + 1, after.max() + 1)
    for i, j in zip(before.tolist(), after.tolist()):
        table[i, j] += 1
        #! rows and columns are exchanged: the row is the letter before
        # ~ table[j, i] += 1
        #! a pair that comes twice counts twice: add 1 to what is there
        # ~ table[i, j] = 1
    return table
    #! each pair counts once; the gift of one for every pair comes later on the page
    # ~ return table + 1
    #! those are shares; the table holds counts, and the page divides them by their sums later
    # ~ return table / table.sum(dim=1, keepdim=True)
    #! those are shares; the table holds counts, and the page divides them by their sums later
    # ~ return table / table.sum()


@exercise("first_hour.2")
def surprise(p, before, after):
    # ? `p[before, after]` picks a number for each pair, (N,).
    # ? Then `.log()`, the minus sign, and `.mean()`.
    picked = p[before, after]
    #! rows and columns are exchanged: the row is the letter before
    # ~ picked = p[after, before]
    #! `p[before]` has whole rows; each pair has one share, `p[before, after]`
    # ~ picked = p[before]
    return -picked.log().mean()
    #! the mean of the shares comes first here; take the logarithm of each, then the mean
    # ~ return -picked.mean().log()
    #! those are the nats of all letters together; divide by their number
    # ~ return -picked.log().sum()
    #! a surprise is positive: the logarithm of a share is negative, so change its sign
    # ~ return picked.log().mean()
    #! nats come from the natural logarithm, `log`; yours counts in bits
    # ~ return -picked.log2().mean()
    #! that is the logarithm to base 10; nats come from the natural one, `log`
    # ~ return -picked.log10().mean()
    #! that is the mean share of the true letters; the surprise is its negative logarithm
    # ~ return picked.mean()
    #! the logarithm is weighted by the share, as in the entropy of a table; each pair counts once
    # ~ return -(picked * picked.log()).mean()


# ---------------------------------------------------------------- questions


@question("first_hour", "first_hour.1")
def pairs_of_letters(draw):
    before, after = torch.tensor([1, 4, 4, 5, 4]), torch.tensor([4, 4, 5, 4, 5])
    yield Call("five pairs, one of them twice", (before, after, 7))
    yield Call("one pair", (before[:1], after[:1], 5))
    yield Call("no pair", (before[:0], after[:0], 3))
    for n in (3, 9):
        i, j = draw.tokens(60, low=0, high=n), draw.tokens(60, low=0, high=n)
        yield Call("pairs of chance", (i, j, n))


@question("first_hour", "first_hour.2")
def surprises(draw):
    p = torch.tensor([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    before, after = torch.tensor([0, 1, 1, 2, 0]), torch.tensor([1, 1, 0, 2, 0])
    yield Call("five pairs", (p, before, after))
    yield Call("one pair", (p, before[:1], after[:1]))
    yield Call("a share of 1", (torch.eye(2), torch.tensor([0, 1]), torch.tensor([0, 1])))
    for n in (4, 30):
        shares = draw.numbers(n, n).softmax(dim=-1)
        i, j = draw.tokens(50, low=0, high=n), draw.tokens(50, low=0, high=n)
        yield Call("shares of chance", (shares, i, j))
