"""Judges of the exercises on the page 16_pretrained, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, exercise


@exercise(
    "fine_tuning.1",
    "The gradient by A is a product with B, and the gradient by B is one with A.",
    "By A it is BᵀG and by B it is GAᵀ: [False, True, False, False].",
)
def judge_fine_tuning_1(answer):
    if not isinstance(answer, (list, tuple)) or len(answer) != 4:
        return "give a list of four booleans: A and B if B is 0, then A and B if both are"
    answer = [bool(a) for a in answer]
    if answer[:2] == [True, True]:
        return "both learn later; in the first step one gradient is a product with B, which is 0"
    if answer[:2] != [False, True]:
        return "turned round: the gradient by A is a product with B, and B is the one that is 0"
    if any(answer[2:]):
        return "with both at 0 each gradient is a product with a matrix of zeros"


@exercise(
    "fine_tuning.2",
    "A layer from d_in to d_out gets r * d_in and r * d_out numbers. Which six layers are there?",
    "W_q, W_k, W_v and W_o give 1 + 1 each, w_in and w_out 1 + 4, times rank * d_model * n_layers.",
)
def judge_fine_tuning_2(answer):
    cases = [(12, 2, 5), (768, 12, 8), (10, 1, 1)]
    result = torch.tensor([float(answer(*case)) for case in cases])
    of = lambda n: torch.tensor([float(n * d * layers * r) for d, layers, r in cases])
    whole = torch.tensor([float(12 * d * d * layers) for d, layers, r in cases])
    mistakes = {
        "queries, keys and values are three layers here, each with an A of its own": of(16),
        "that is A alone, or B alone; both have numbers": of(9),
        "the layers of the feed-forward network count, too": of(8),
        "the layers of attention count, too": of(10),
        "that is W_q and W_v alone, as in the paper": of(4),
        "those are the weights that stay frozen": whole,
    }
    return diagnose(result, of(18), mistakes)


@exercise(
    "fine_tuning.3",
    "torch.linalg.svdvals gives the singular values. Their squares sum to those of all numbers.",
    "s = torch.linalg.svdvals(difference); (s[:rank] ** 2).sum() / (s**2).sum().",
)
def judge_fine_tuning_3(answer):
    torch.manual_seed(0)
    cases = [
        (torch.randn(6, 2) @ torch.randn(2, 9) + 0.3 * torch.randn(6, 9), r) for r in (1, 2, 4)
    ]
    result = torch.stack([torch.as_tensor(answer(d.clone(), r)).float() for d, r in cases])
    of = lambda f: torch.stack([f(d, torch.linalg.svdvals(d), r) for d, r in cases])
    right = of(lambda d, s, r: (s[:r] ** 2).sum() / (s**2).sum())
    mistakes = {
        "square the singular values: the squares sum to the squares of all numbers": of(
            lambda d, s, r: s[:r].sum() / s.sum()
        ),
        "that is what is lost": 1 - right,
        "that is the root of the share; the numbers are squared": right.sqrt(),
        "those are the first rows; a matrix of that rank can be any sum of so many products": of(
            lambda d, s, r: (d[:r] ** 2).sum() / (d**2).sum()
        ),
        "the largest singular values hold most, and they come first": of(
            lambda d, s, r: (s[-r:] ** 2).sum() / (s**2).sum()
        ),
    }
    return diagnose(result, right, mistakes)
