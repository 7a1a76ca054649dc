"Flash attention: the softmax by blocks."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("flash.1")
def my_row(scores, values, size):
    # ? Start from the loop over keys on the page; `scores.split(size)` gives the blocks.
    # ? New maximum: the larger of the old one and the block's. Factor: e^(old - new), for the sum and for the weighted values.
    # ? `total = factor * total + powers.sum()` and `y = factor * y + powers @ v_block`; divide last
    largest, total, y = scores.new_tensor(float("-inf")), 0.0, 0.0
    #! the maximum must not start at 0: all scores may be far below it
    # ~ largest, total, y = scores.new_tensor(0.0), 0.0, 0.0
    for s, v in zip(scores.split(size), values.split(size)):  # (b,), (b, d_v)
        #! the last block is shorter, and you left it out
        # ~ for s, v in [pair for pair in zip(scores.split(size), values.split(size)) if len(pair[0]) == size]:
        new = torch.maximum(largest, s.max())
        #! you took the maximum of the block only; compare it with the one so far
        # ~ new = s.max()
        # ~ factor * total -> total
        # ~ factor * y -> y
        #! the maximum of the block may be below the one so far; keep the larger of both
        # ~ new = s.max()
        factor, powers = (largest - new).exp(), (s - new).exp()
        #! your factor is upside down: it is e^(old maximum - new maximum), at most 1
        # ~ factor, powers = (new - largest).exp() if largest > float("-inf") else 0.0, (s - new).exp()
        #! the powers overflow where scores are large; subtract the largest so far
        # ~ factor, powers = 1.0, s.exp()
        total, y = factor * total + powers.sum(), factor * y + powers @ v
        #! the old sum is not rescaled: it was counted from the old maximum
        # ~ total, y = total + powers.sum(), factor * y + powers @ v
        #! the old values are not rescaled: they were weighted from the old maximum
        # ~ total, y = factor * total + powers.sum(), y + powers @ v
        #! neither the old sum nor the old values are rescaled when the maximum moves
        # ~ total, y = total + powers.sum(), y + powers @ v
        #! you divided in each block; divide once, after the last
        # ~ total, y = factor * total + powers.sum(), factor * y + powers @ v / (factor * total + powers.sum())
        # ~ y / total -> y
        largest = new
        #! the largest so far is not kept, so the next block forgets what was before it
        # ~
    return y / total
    #! the division by the sum is missing
    # ~ return y
    #! each block got a softmax of its own, and their mean is not the whole
    # ~ parts = [s.softmax(0) @ v for s, v in zip(scores.split(size), values.split(size))]
    # | return torch.stack(parts).mean(0)


@exercise("flash.2", near=1e-9)
def tiles_under_the_diagonal():
    # ? At which key does the last query stand? At which key the last query of each block?
    # ? The blocks of queries end at keys 799, 899 and 999
    return 8 + 9 + 10  # blocks of keys that each block of queries meets
    #! that is every tile; those above the diagonal are skipped
    # ~ return 3 * 10
    #! you aligned the mask at the top left; the last query stands at the last key
    # ~ return 1 + 2 + 3
    #! the tile in which a block's last query stands is computed too
    # ~ return 7 + 8 + 9
    #! that counts pairs, not tiles
    # ~ return (8 + 9 + 10) * 100 * 100
    #! the skipped tiles are those above the diagonal; count the others
    # ~ return 2 + 1 + 0


@exercise("flash.3")
def moved(T, d, size):
    # ? What crosses once, and what once for each block of queries? How many blocks are there?
    # ? 4 bytes · (q and y once, k and v for each of ⌈T / size⌉ blocks), each T · d numbers
    blocks = -(-T // size)  # rounded up: the last block may be shorter
    #! the last block may be shorter, but it reads all keys: round T / size up
    # ~ blocks = T // size
    #! blocks are whole: round T / size up
    # ~ blocks = T / size
    #! keys and values are read again for each block of queries
    # ~ blocks = 1
    #! a query does not read the keys for itself; its whole block shares them
    # ~ blocks = T
    return 4 * (2 * T * d + blocks * 2 * T * d)
    #! in bytes: a number of float32 takes four
    # ~ return 2 * T * d + blocks * 2 * T * d
    #! queries and outputs both cross, once each
    # ~ return 4 * (T * d + blocks * 2 * T * d)
    #! the queries and the outputs cross too
    # ~ return 4 * blocks * 2 * T * d
    #! keys and values both are read
    # ~ return 4 * (2 * T * d + blocks * T * d)
    #! a block of queries is read once, not once for each block of keys
    # ~ return 4 * (T * d + blocks * 3 * T * d)
    #! queries and outputs cross once, not once for each block
    # ~ return 4 * (blocks * 2 * T * d + blocks * 2 * T * d)
    #! the last block is shorter: T queries are read in all, not `size` for each block
    # ~ return 4 * (2 * blocks * size * d + blocks * 2 * T * d)
    #! each block reads all T keys, not `size` of them
    # ~ return 4 * (2 * T * d + blocks * 2 * size * d)


# ---------------------------------------------------------------- questions


@question("flash", "flash.1")
def ask_my_row(draw):
    rows = [
        ("seven scores", [1.0, 0.5, 3.0, 2.0, 0.0, -1.0, 3.5], 2),
        ("the largest first", [4.0, 0.5, 3.0, 2.0, 0.0, -1.0, 3.5], 3),
        ("scores up to 120", [100.0, 90.0, 99.0, 120.0, 60.0, 119.0, 0.0], 2),
        ("scores below -200", [-200.0, -201.0], 1),
        ("scores below -200, one block", [-200.0, -201.0, -199.5], 3),
        ("one score", [0.5], 4),
    ]
    for what, scores, size in rows:
        values = draw.numbers(len(scores), 3)
        yield Call(f"{what}, blocks of {size}", (torch.tensor(scores), values, size))
    for _ in draw.rounds:
        n, size = draw.size(5, 12), draw.size(1, 5)
        scores, values = draw.numbers(n, scale=draw.size(1, 40)), draw.numbers(n, draw.size(1, 5))
        yield Call(f"{n} scores, blocks of {size}", (scores, values, size))


@question("flash", "flash.3")
def ask_moved(draw):
    cases = [(1000, 64, 128), (96, 8, 32), (50, 16, 64), (7, 3, 7), (5, 4, 1)]
    cases += [(draw.size(1, 90), draw.size(1, 20), draw.size(1, 30)) for _ in draw.rounds]
    for T, d, size in cases:
        yield Call(f"T = {T}, d = {d}, size = {size}", (T, d, size))
