"Long runs: several processes."

import math

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


def all_reduce_bytes(n_bytes, processes):
    "What each process sends to sum a tensor around a ring."
    return 2 * (processes - 1) / processes * n_bytes


@exercise("scaling.1")
def bytes_that_a_process_sends():
    # ? Which precision do the gradients have? How often do processes talk in a step?
    # ? The gradient has 4 million bytes, and is cut into 8 chunks. How many chunks does each
    # ? process send, in both trips around the ring?
    return all_reduce_bytes(4 * 1_000_000, 8)
    #! you made them talk after each part; gradients add up in the process, and are sent with the
    #! last part only
    # ~ return 3 * all_reduce_bytes(4 * 1_000_000, 8)
    #! that is one trip around the ring, or half the bytes per weight; there are two trips, and
    #! under bf16 gradients stay in float32
    # ~ return all_reduce_bytes(4 * 1_000_000, 8) / 2
    #! 8 chunks are never sent in one trip: after 7 rounds each has been everywhere
    # ~ return 2 * 4 * 1_000_000
    #! that is the gradient itself; a ring goes around twice, with 7 of 8 chunks each time
    # ~ return 4 * 1_000_000
    #! that is each process sending everything to each other one; around a ring it sends to one
    #! neighbour, in chunks
    # ~ return 7 * 4 * 1_000_000
    #! that is what all processes send together
    # ~ return 8 * all_reduce_bytes(4 * 1_000_000, 8)
    #! that is in megabytes; the exercise asks for bytes
    # ~ return all_reduce_bytes(4 * 1_000_000, 8) / 1e6
    #! you counted weights, not bytes; one in float32 has four
    # ~ return all_reduce_bytes(1_000_000, 8)
    #! two slips: gradients stay in float32 under bf16, and are sent once in a step, not after each
    #! part
    # ~ return 3 * all_reduce_bytes(2 * 1_000_000, 8)
    #! parts add up, they do not divide: a gradient has as many bytes as its weights, however many
    #! parts there are
    # ~ return all_reduce_bytes(4 * 1_000_000, 8) / 3


@exercise("scaling.2")
def local_steps(w, gradients, lr, k):
    # ? A loop over the workers, and in it a loop over k steps. From where does each worker start?
    # ? `mine = w` is enough to start from, as long as no step changes it in place: `mine = mine -
    # ? lr * g(mine)`.
    # ? Collect what each worker ends with, and return the mean: `torch.stack(ends).mean(0)`.
    ends = []
    for gradient in gradients:
        mine = w
        #! each worker starts where the one before ended; all of them start from w
        # ~ mine = ends[-1] if ends else w
        #! that is where the last worker ends, and each starts where the one before ended; let all
        #! start from w, and average over them
        # ~ mine = ends[-1] if ends else w
        # ~ torch.stack(ends).mean(0) -> ends[-1]
        for _ in range(k):
            #! that is one step of each worker; they take k
            # ~ for _ in range(1):
            #! that is data parallel training: gradients averaged at each step. Let each worker take
            #! all k steps before they talk
            # ~ for _ in range(k):
            # |     mine = mine - lr * sum(g(mine) for g in gradients) / len(gradients)
            # |     continue
            #! you summed the gradients at each step; workers do not talk until they have taken k
            #! steps, and then the mean is taken
            # ~ for _ in range(k):
            # |     mine = mine - lr * sum(g(mine) for g in gradients)
            # |     continue
            mine = mine - lr * gradient(mine)
            #! that is one step of size k * lr; the gradient must be computed anew after each step
            # ~ mine = mine - lr * gradient(w)
            #! you went uphill: a step subtracts the gradient
            # ~ mine = mine + lr * gradient(mine)
            #! you changed w itself; write `mine = mine - ...` in place of `mine -= ...`
            # ~ mine -= lr * gradient(mine)
        ends.append(mine)
    return torch.stack(ends).mean(0)
    #! that is the sum of the weights; take their mean
    # ~ return torch.stack(ends).sum(0)
    #! that is what each worker ends with; average over them
    # ~ return torch.stack(ends)
    #! that is where the last worker ends; average over all of them
    # ~ return ends[-1]
    #! that is one number; average over the workers, not over the weights too
    # ~ return torch.stack(ends).mean()


@exercise("scaling.3")
def rows_needed(c, b, n, w, s):
    # ? A step of r rows per process takes r * c of computing and the all-reduce of sending. Which
    # ? share is sending?
    # ? sending / (r * c + sending) <= s. Solve for r.
    # ? r >= (1 - s) / s * sending / c, with sending = 2 (n - 1) / n * b / w; round up with
    # ? math.ceil.
    sending = 2 * (n - 1) / n * b / w
    #! you let each process send n chunks for one, which is what all of them send; its own part is
    #! 2 (n - 1) / n
    # ~ sending = 2 * (n - 1) * b / w
    #! you let each process compute the rows of all; with r rows it computes for r * c
    # ~ sending = 2 * (n - 1) / n**2 * b / w
    #! b counts bytes already, and w bytes per second
    # ~ sending = 8 * 2 * (n - 1) / n * b / w
    #! that is half of what a ring sends; chunks travel around twice
    # ~ sending = (n - 1) / n * b / w
    #! you let each process send its whole gradient twice; one chunk of n stays
    # ~ sending = 2 * b / w
    #! you let each process send its whole gradient once; see the formula of the ring
    # ~ sending = b / w
    return max(1, math.ceil((1 - s) / s * sending / c))
    #! that is sending as a share of computing; the exercise asks for its share of the step, which
    #! holds both
    # ~ return max(1, math.ceil(1 / s * sending / c))
    #! that makes computing at most a share s; it is sending that should be small
    # ~ return max(1, math.ceil(s / (1 - s) * sending / c))
    #! that is the whole batch; the exercise asks for the rows of each process
    # ~ return n * max(1, math.ceil((1 - s) / s * sending / c))
    #! you rounded down; with that many rows the share is still above s
    # ~ return max(1, math.floor((1 - s) / s * sending / c))
    #! you rounded to the nearest; with one row less than needed the share is still above s
    # ~ return max(1, round((1 - s) / s * sending / c))
    #! a whole number is asked for; round up
    # ~ return max(1, (1 - s) / s * sending / c)
    #! one process sends nothing, but a step has at least 1 row
    # ~ return math.ceil((1 - s) / s * sending / c)


# ---------------------------------------------------------------- questions


def slope_of(steepness, goal):
    "The gradient of a loss that is least at a goal, and no parabola."
    return lambda w: steepness * (w - goal) + 0.1 * (w - goal) ** 3


@question("scaling", "scaling.2")
def ask_local_steps(draw):
    for n, k, shape in [(3, 3, (2,)), (1, 4, (3,)), (2, 1, (2, 3)), (4, 6, (5,)), (2, 2, (1,))]:
        some = [slope_of(draw.size(2, 12) / 10, draw.numbers(*shape)) for _ in range(n)]
        w = draw.numbers(*shape)
        yield Call(f"{n} workers, k = {k}, w {shape}", (w, some, 0.1, k))


@question("scaling", "scaling.3")
def ask_rows_needed(draw):
    cases = [
        (0.003, 4.1e7, 6, 1.1e9, 0.1),
        (0.5, 3.0e9, 4, 1.5e9, 0.25),
        (0.01, 5e8, 8, 2.5e9, 0.1),
    ]
    cases += [(0.003, 4.0e8, 1, 1.1e9, 0.1), (1.0, 8, 2, 1e9, 0.5), (0.02, 3.1e8, 3, 2.3e9, 0.6)]
    for _ in draw.rounds:
        n, s = draw.size(2, 64), draw.size(3, 70) / 100
        cases.append((draw.size(1, 9) / 997, draw.size(1, 99) * 1.3e7, n, 1.7e9, s))
    for c, b, n, w, s in cases:
        yield Call(f"c = {c:.3g}, b = {b:.3g}, n = {n}, w = {w:.3g}, s = {s}", (c, b, n, w, s))
