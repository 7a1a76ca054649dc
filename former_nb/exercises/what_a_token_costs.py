"Exercises of the deep dive on caches: what a token costs."

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "what_a_token_costs.1",
    parts=(
        "one text: a token reads all weights once, 7 billion of two bytes; how often can that be "
        "done in a second?",
        "8 texts: a step reads the weights once, however many texts wait for it, and gives each of "
        "them a token",
    ),
)
def tokens_per_second():
    # ? How many bytes does one token read?
    # ? 14 GB a token; a second has room for 1,400 GB.
    # ? A step reads the weights once, however many texts wait for it.
    return 1400 / 14, 8 * 1400 / 14  # one text, 8 texts together
    #! a weight has two bytes
    # ~ return 200, 1600
    #! the texts share one reading of the weights, so more texts cost no more time
    # ~ return 100, 12.5
    #! 8 texts take turns in yours; a step gives each of them a token
    # ~ return 100, 100
    #! the first is one text alone, and the second all 8 together
    # ~ return 800, 100
    #! each weight is read once; the two operations need no second reading
    # ~ return 50, 400
    #! these are the seconds of a token; how many fit into a second?
    # ~ return 0.01, 0.01 / 8


@exercise("what_a_token_costs.2")
def project(x, w_q, w_k, w_v):
    # ? What are the rows of a weight, and what its columns?
    # ? Join the weights along dim 0, multiply once, and split the result at its last axis.
    joined = torch.cat([w_q, w_k, w_v])  # (h · d_k + 2 · g · d_k, d_model)
    #! the weights are joined along their columns, which are the inputs; join the rows, dim 0
    # ~ joined = torch.cat([w_q, w_k, w_v], dim=1)
    return (x @ joined.T).split([len(w_q), len(w_k), len(w_v)], dim=1)
    #! the parts have unequal widths if keys are shared; split where each weight ends
    # ~ return (x @ joined.T).chunk(3, dim=1)
    #! the parts have unequal widths if keys are shared; split where each weight ends, not after as
    #! many numbers as q has
    # ~ return (x @ joined.T).split(len(w_q), dim=1)
    #! a weight of `nn.Linear` has a row for each output; transpose it
    # ~ return (x @ joined).split([len(w_q), len(w_k), len(w_v)], dim=1)
    #! the numbers are right, with three products; one is enough
    # ~ return x @ w_q.T, x @ w_k.T, x @ w_v.T
    #! k and v are exchanged; the result comes in the order of the joined weights
    # ~ q, k, v = (x @ joined.T).split([len(w_q), len(w_k), len(w_v)], dim=1)
    # | return q, v, k
    #! the result is still in one piece; q, k and v are asked for
    # ~ return x @ joined.T


@exercise("what_a_token_costs.3")
def texts_at_ridge(flops, bandwidth, size):
    # ? How long does it take to read one weight? And to compute with it, for B texts?
    # ? size / bandwidth = 2 * B / flops.
    return flops * size / (2 * bandwidth)
    #! a text needs two operations with each weight
    # ~ return flops * size / bandwidth
    #! a weight has `size` bytes
    # ~ return flops / (2 * bandwidth)
    #! that is its inverse; how many texts?
    # ~ return 2 * bandwidth / (flops * size)
    #! don't round up; at this number, which need not be whole, both take equally long
    # ~ return -(-flops * size // (2 * bandwidth))
    #! you multiplied by the two operations; they make arithmetic slower
    # ~ return 2 * flops * size / bandwidth


# ---------------------------------------------------------------- questions


class CountedProducts(TorchDispatchMode):
    "Counts the products of matrices within `with`."

    def __init__(self):
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm", "mv", "dot"):
            self.products += 1
        return func(*args, **(kwargs or {}))


def products_of(answer, args, result):
    "How many products of matrices an answer makes."
    with CountedProducts() as counted:
        answer(*args)
    return {"products of matrices": counted.products}


@question("what_a_token_costs", "what_a_token_costs.2")
def ask_project(draw):
    sizes = [(3, 12, 12, 4), (1, 8, 8, 2), (2, 6, 6, 6), (4, 10, 16, 8)]
    for _ in draw.rounds:
        d_k = draw.size(2, 4)
        sizes.append((draw.size(1, 4), draw.size(13, 20), 6 * d_k, 2 * d_k))
    for B, d_model, queries, keys in sizes:
        x, w_q = draw.numbers(B, d_model), draw.numbers(queries, d_model)
        w_k, w_v = draw.numbers(keys, d_model), draw.numbers(keys, d_model)
        what = f"x {(B, d_model)}, w_q {(queries, d_model)}, w_k and w_v {(keys, d_model)}"
        yield Call(what, (x, w_q, w_k, w_v), look=products_of)


@question("what_a_token_costs", "what_a_token_costs.3")
def ask_texts_at_ridge(draw):
    for flops, bandwidth, size in [
        *[(1e12, 2e10, 4), (1e15, 3e12, 2), (1e15, 3.35e12, 2), (5e13, 9e11, 1)],
        *[(2e14, 1.5e12, 4), (1e10, 5e10, 4), (312e12, 2e12, 2), (7e12, 1e11, 8)],
    ]:
        what = f"flops = {flops:g}, bandwidth = {bandwidth:g}, size = {size}"
        yield Call(what, (flops, bandwidth, size))
