"""Judges of the exercises on the page 08_long_runs, and the mistakes that they know."""

import math

import torch

from ..base.exercises import diagnose, exercise
from ..training.scaling import all_reduce_bytes


@exercise(
    "scaling.1",
    "Which precision do the gradients have? How often do processes talk in a step?",
    "The gradient has 4 million bytes, and is cut into 8 chunks. How many chunks does each "
    "process send, in both trips around the ring?",
)
def judge_scaling_1(answer):
    gradient = 4_000_000
    return diagnose(
        answer,
        all_reduce_bytes(gradient, 8),
        {
            "you made them talk after each part; gradients add up in the process, "
            "and are sent with the last part only": 3 * all_reduce_bytes(gradient, 8),
            "that is one trip around the ring, or half the bytes per weight; there are two "
            "trips, and under bf16 gradients stay in float32": gradient * 7 / 8,
            "8 chunks are never sent in one trip: after 7 rounds each has been everywhere": (
                2 * gradient
            ),
            "that is the gradient itself; a ring goes around twice, "
            "with 7 of 8 chunks each time": gradient,
            "that is each process sending everything to each other one; around a "
            "ring it sends to one neighbour, in chunks": 7 * gradient,
            "that is what all processes send together": 8 * all_reduce_bytes(gradient, 8),
            "you counted weights, not bytes; one in float32 has four": all_reduce_bytes(
                1_000_000, 8
            ),
            "two slips: gradients stay in float32 under bf16, and are sent "
            "once in a step, not after each part": 3 * all_reduce_bytes(gradient / 2, 8),
            "that is the gradient once for each part; parts are summed before anything is "
            "sent, and a ring goes around twice with 7 of 8 chunks": 3 * gradient,
            "parts add up, they do not divide: a gradient has as many bytes as its "
            "weights, however many parts there are": all_reduce_bytes(gradient, 8) / 3,
            "that is in megabytes; the exercise asks for bytes": (
                all_reduce_bytes(gradient, 8) / 1e6
            ),
        },
    )


def _walk(w, gradient, lr, k):
    for _ in range(k):
        w = w - lr * gradient(w)
    return w


@exercise(
    "scaling.2",
    "A loop over the workers, and in it a loop over k steps. From where does each worker start?",
    "`mine = w` is enough to start from, as long as no step changes it in "
    "place: `mine = mine - lr * g(mine)`",
    "Collect what each worker ends with, and return the mean: `torch.stack(ends).mean(0)`",
)
def judge_scaling_2(answer):
    goals, steepness = (
        torch.tensor([[1.0, -2.0], [3.0, 0.5], [-1.0, 4.0]]),
        torch.tensor([[0.5], [2.0], [1.0]]),
    )
    gradients = [lambda w, a=a, goal=goal: a * (w - goal) for a, goal in zip(steepness, goals)]
    start, lr, k = torch.tensor([0.25, -0.75]), 0.2, 3
    w = start.clone()
    given = answer(w, gradients, lr, k)
    if not w.equal(start):
        return (
            "you changed w itself; take a copy, or write `mine = mine - "
            "...` in place of `mine -= ...`"
        )
    in_turn = start
    for g in gradients:
        in_turn = _walk(in_turn, g, lr, k)
    ends = torch.stack([_walk(start, g, lr, k) for g in gradients])
    together = lambda w: torch.stack([g(w) for g in gradients]).mean(0)
    return diagnose(
        given,
        ends.mean(0),
        {
            "that is data parallel training: gradients averaged at each step. Let each "
            "worker take all k steps before they talk": _walk(start, together, lr, k),
            "each worker starts where the one before ended; all of them start from w": in_turn,
            "that is the sum of the weights; take their mean": ends.sum(0),
            "that is one step of each worker; they take k": torch.stack(
                [_walk(start, g, lr, 1) for g in gradients]
            ).mean(0),
            "that is one step of size k * lr; the gradient must be "
            "computed anew after each step": _walk(start, together, k * lr, 1),
            "you went uphill: a step subtracts the gradient": torch.stack(
                [_walk(start, g, -lr, k) for g in gradients]
            ).mean(0),
            "that is what each worker ends with; average over them": ends,
            "that is where the last worker ends; average over all of them": ends[-1],
            "you summed the gradients at each step; workers do not talk until they have "
            "taken k steps, and then the mean is taken": _walk(
                start, lambda w: len(gradients) * together(w), lr, k
            ),
            "that is one number; average over the workers, not over the weights too": ends.mean(),
        },
    )


@exercise(
    "scaling.3",
    "A step of r rows per process takes r * c of computing and the "
    "all-reduce of sending. Which share is sending?",
    "sending / (r * c + sending) <= s. Solve for r",
    "r >= (1 - s) / s * sending / c, with sending = 2 (n - 1) / n * b / w; round up with math.ceil",
)
def judge_scaling_3(answer):
    c, b, n, w, s = 0.003, 4.1e7, 6, 1.1e9, 0.1
    sending = all_reduce_bytes(b, n) / w
    rows = lambda sending, ratio: torch.tensor(math.ceil(sending * ratio / c))
    exact = sending * (1 - s) / s / c
    problem = diagnose(
        answer(c, b, n, w, s),
        rows(sending, (1 - s) / s),
        {
            "that is sending as a share of computing; the exercise asks for its "
            "share of the step, which holds both": rows(sending, 1 / s),
            "that is the whole batch; the exercise asks for the rows of each process": (
                n * rows(sending, (1 - s) / s)
            ),
            "you let each process send n chunks for one, which is what all of them "
            "send; its own part is 2 (n - 1) / n": rows(n * sending, (1 - s) / s),
            "you let each process compute the rows of all; with r rows it computes for r * c": rows(
                sending / n, (1 - s) / s
            ),
            "b counts bytes already, and w bytes per second": rows(8 * sending, (1 - s) / s),
            "you rounded down or to the nearest; with that many "
            "rows the share is still above s": math.floor(exact),
            "expected a whole number, rounded up": exact,
            "that is half of what a ring sends; chunks travel around twice": rows(
                sending / 2, (1 - s) / s
            ),
            "you let each process send its whole gradient twice; one chunk of n stays": rows(
                2 * b / w, (1 - s) / s
            ),
            "you let each process send its whole gradient once; see the formula of the ring": rows(
                b / w, (1 - s) / s
            ),
            "that makes computing at most a share s; it is sending that should be small": rows(
                sending, s / (1 - s)
            ),
        },
    )
    for args, wanted in (
        ((0.003, 4.0e8, 1, 1.1e9, 0.1), 1),
        ((1.0, 8, 2, 1e9, 0.5), 1),
        ((0.5, 3.0e9, 4, 1.5e9, 0.25), 18),
    ):
        if problem is None and answer(*args) != wanted:
            problem = f"right for one case, but for {args} expected {wanted}, got {answer(*args)}"
    return problem
