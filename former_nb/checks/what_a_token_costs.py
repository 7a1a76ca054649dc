"""Judges of the exercises on the page 11_caches, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, diagnose_each, diagnose_formula, exercise


@exercise(
    "what_a_token_costs.1",
    "How many bytes does one token read?",
    "14 GB a token; a second has room for 1,400 GB.",
    "A step reads the weights once, however many texts wait for it.",
)
def judge_what_a_token_costs_1(answer):
    sentences = [
        {
            200: "a weight has two bytes",
            50: "each weight is read once; the two operations need no second reading",
            800: "that is all 8 texts together",
            12.5: "that is one of 8 texts that take turns; here it is alone",
            0.01: "that is the seconds of a token; how many fit into a second?",
        },
        {
            100: "a step reads the weights once and gives each of the 8 texts a token",
            12.5: "the texts share one reading of the weights, so more texts cost no more time",
            1600: "a weight has two bytes",
        },
    ]
    return diagnose_each(answer, {"one": 100, "together": 800}, sentences)


class CountedProducts(torch.utils._python_dispatch.TorchDispatchMode):
    "Counts the products of matrices within `with`."

    def __init__(self):
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm", "mv", "dot"):
            self.products += 1
        return func(*args, **(kwargs or {}))


@exercise(
    "what_a_token_costs.2",
    "What are the rows of a weight, and what its columns?",
    "Join the weights along dim 0, multiply once, and split the result at its last axis.",
)
def judge_what_a_token_costs_2(answer):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(3, 12, generator=generator)
    w_q = torch.randn(12, 12, generator=generator)
    w_k = torch.randn(4, 12, generator=generator)
    w_v = torch.randn(4, 12, generator=generator)
    with CountedProducts() as counted:
        given = call_answer(answer, x, w_q, w_k, w_v)
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        return "expected q, k and v, three tensors"
    rights = {"q": x @ w_q.T, "k": x @ w_k.T, "v": x @ w_v.T}
    joined = torch.cat([w_q, w_k, w_v])
    thirds = (x @ joined.T)[:, :18].split(6, dim=1)
    for (name, right), part, third in zip(rights.items(), given, thirds):
        mistakes = {
            "the parts have unequal widths if keys are shared; split where each weight ends": third
        }
        if name == "q":
            mistakes["a weight of `nn.Linear` has a row for each output; transpose it"] = x @ w_q
        if name == "k":
            mistakes["that is v"] = rights["v"]
        if name == "v":
            mistakes["that is k"] = rights["k"]
        problem = diagnose(part, right, mistakes)
        if problem:
            return f"{name}: {problem}"
    if counted.products != 1:
        return f"the numbers are right, with {counted.products} products; one is enough"
    return None


@exercise(
    "what_a_token_costs.3",
    "How long does it take to read one weight? And to compute with it, for B texts?",
    "size / bandwidth = 2 * B / flops.",
)
def judge_what_a_token_costs_3(answer):
    return diagnose_formula(
        answer,
        "flops, bandwidth, size",
        [(1e12, 2e10, 4), (1e15, 3e12, 2)],
        "flops * size / (2 * bandwidth)",
        {
            "flops * size / bandwidth": "a text needs two operations with each weight",
            "flops / (2 * bandwidth)": "a weight has `size` bytes",
            "2 * bandwidth / (flops * size)": "that is its inverse; how many texts?",
            "2 * flops * size / bandwidth": "you multiplied by the two operations; they make "
            "arithmetic slower",
        },
    )
