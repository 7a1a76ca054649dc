"Long runs: what a device waits for."

import math

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("speed.1")
def my_work(n, S, d, size=4):
    # ? Which two products are there, and how large? Which four tensors go in or come out?
    # ? A product of (n, d) and (d, S) takes 2 n S d operations; the second product takes as many. q
    # ? and y have n rows, k and v have S.
    return 4 * n * S * d, size * (2 * n * d + 2 * S * d)
    #! each number of a product takes a multiplication and an addition, and there are two products
    # ~ return 2 * n * S * d, size * (2 * n * d + 2 * S * d)
    #! the fused form neither writes nor reads the n * S scores
    # ~ return 4 * n * S * d, size * (2 * n * d + 2 * S * d + n * S)
    #! y is written too
    # ~ return 4 * n * S * d, size * (n * d + 2 * S * d)
    #! those are numbers; each has `size` bytes
    # ~ return 4 * n * S * d, 2 * n * d + 2 * S * d
    #! q and y have n rows, and k and v have S
    # ~ return 4 * n * S * d, size * 4 * n * d
    #! first the operations, then the bytes
    # ~ return size * (2 * n * d + 2 * S * d), 4 * n * S * d


@exercise("speed.2")
def smallest_batch(flops, bandwidth, size):
    # ? How many operations and how many bytes does one weight take at one step?
    # ? 2 B operations and `size` bytes: where is 2 B / size at least flops / bandwidth?
    return math.ceil(size * flops / bandwidth / 2)
    #! texts are whole: round up
    # ~ return size * flops / bandwidth / 2
    #! with one text fewer it still waits for memory: round up
    # ~ return math.floor(size * flops / bandwidth / 2)
    #! a multiplication and an addition are two operations
    # ~ return math.ceil(size * flops / bandwidth)
    #! a weight has `size` bytes
    # ~ return math.ceil(flops / bandwidth / 2)
    #! that is the ridge, in operations per byte
    # ~ return math.ceil(flops / bandwidth)
    #! more bytes for each weight need a larger batch
    # ~ return math.ceil(flops / bandwidth / 2 / size)


@exercise("speed.3")
def faster(s, r):
    # ? Let the step take 1 second. How long do its two parts take with the new kernel?
    # ? 1 - s seconds stay, s seconds become s / r. Times as fast is old time over new time.
    return 1 / (1 - s + s / r), 1 / (1 - s)
    #! that is the new time; times as fast is its inverse
    # ~ return 1 - s + s / r, 1 - s
    #! the rest of the step, 1 - s, takes as long as before
    # ~ return r / s, 1 / (1 - s)
    #! r times as fast takes s / r seconds, not s * r
    # ~ return 1 / (1 - s + s * r), 1 / (1 - s)
    #! that would be so if all of the step were attention
    # ~ return r, 1 / (1 - s)
    #! without attention 1 - s of the step is left
    # ~ return 1 / (1 - s + s / r), 1 / s
    #! first now, then at most
    # ~ return 1 / (1 - s), 1 / (1 - s + s / r)


# ---------------------------------------------------------------- questions


@question("speed", "speed.1")
def ask_my_work(draw):
    cases = [(3, 11, 5, 4), (1, 64, 16, 2), (128, 128, 64, 4), (7, 1, 3, 1)]
    cases += [tuple(draw.size(1, 90) for _ in range(4)) for _ in draw.rounds]
    for n, S, d, size in cases:
        yield Call(f"n = {n}, S = {S}, d = {d}, size = {size}", (n, S, d, size))
    yield Call("n = 2, S = 9, d = 5, without size", (2, 9, 5))


@question("speed", "speed.2")
def ask_smallest_batch(draw):
    cases = [(990e12, 3.35e12, 2), (1e11, 1.3e10, 4), (7e12, 9e11, 1), (1e9, 3e10, 2)]
    cases += [(draw.size(20, 900) * 1.1e12, draw.size(2, 50) * 1.0037e11, 3) for _ in draw.rounds]
    for flops, bandwidth, size in cases:
        what = f"flops = {flops:.3g}, bandwidth = {bandwidth:.3g}, size = {size}"
        yield Call(what, (flops, bandwidth, size))


@question("speed", "speed.3")
def ask_faster(draw):
    cases = [(0.2, 4.0), (0.55, 1.5), (0.9, 30.0), (0.0, 3.0), (0.4, 1.0), (0.3, 0.5)]
    cases += [(draw.size(1, 99) / 100, draw.size(2, 20)) for _ in draw.rounds]
    for s, r in cases:
        yield Call(f"s = {s}, r = {r}", (s, r))
