"""Judges of the exercises on the page 12_mixture_of_experts, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, diagnose_each, exercise


@exercise(
    "mixture_of_experts.1",
    "Count one expert first. SwiGLU has two patterns for each unit.",
    "An expert has 12 · 80 + 80 + 40 · 12 + 12 numbers, the router 12 · 6.",
    "All six experts and the router; and two experts and the router.",
)
def judge_mixture_of_experts_1(answer):
    expert = 12 * 80 + 80 + 40 * 12 + 12
    one_pattern = 12 * 40 + 40 + 40 * 12 + 12
    matrices = 12 * 80 + 40 * 12
    router = 12 * 6
    sentences = [
        {
            n * expert: "the router is missing",
            n * one_pattern + router: "SwiGLU's first layer is 2 · d_ff wide",
            n * matrices + router: "the experts' biases are missing",
            n * expert + router + 6: "the router has no bias",
            n * expert + n * router: "there is one router for all experts",
        }
        for n in (6, 2)
    ]
    sentences[0][2 * expert + router] = "that is what one token uses; all six experts are there"
    sentences[1][6 * expert + router] = "a token uses two of the six experts"
    sentences[1][2 * expert + 2 * 12] = "the router scores all six experts, to find the two"
    right = {"total": 6 * expert + router, "active": 2 * expert + router}
    return diagnose_each(answer, right, sentences)


@exercise(
    "mixture_of_experts.2",
    "Go through the tokens in order, and through the choices of each. What do you have to count?",
    "A choice is accepted if its expert has accepted fewer than `capacity` before it.",
)
def judge_mixture_of_experts_2(answer):
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(9, 4, generator=generator) * torch.tensor([1.0, 0.8, 0.6, 0.5])
    chosen = order.topk(2, dim=-1).indices  # (N, k), two different experts each
    for capacity in (3, 5):
        used = torch.zeros(4)
        right = torch.zeros(9, 2, dtype=torch.bool)
        for t in range(9):
            for place in range(2):
                expert = chosen[t, place]
                right[t, place] = used[expert] < capacity
                used[expert] += 1
        one_hot = torch.nn.functional.one_hot(chosen, 4)  # (N, k, n)
        firsts_first = one_hot.transpose(0, 1).flatten(0, 1)
        before = (firsts_first.cumsum(0) - firsts_first) * firsts_first
        by_place = (before.sum(-1) < capacity).view(2, 9).T  # all first choices, then all second
        apart = ((one_hot.cumsum(0) - one_hot) * one_hot).sum(-1) < capacity  # a count per place
        backwards = one_hot.flatten(0, 1).flip(0)
        late = ((backwards.cumsum(0) - backwards) * backwards).sum(-1) < capacity
        flat = one_hot.flatten(0, 1)
        before = ((flat.cumsum(0) - flat) * flat).sum(-1).view(9, 2)
        problem = diagnose(
            call_answer(answer, chosen, capacity),
            right,
            {
                "that is which choices are dropped; `True` means accepted": ~right,
                "an expert accepts `capacity` choices; you stopped one before": (
                    before < capacity - 1
                ),
                "an expert accepts `capacity` choices; you took one more": before <= capacity,
                "tokens come in their order: the second choice of a token comes before the "
                "first choice of the next": by_place,
                "first and second choices fill the same places of an expert": apart,
                "the first to come are accepted, not the last": late.flip(0).view(9, 2),
                "nothing is dropped so; each expert has a capacity": torch.ones_like(right),
                "a token whose second choice is dropped keeps its first": right.all(
                    dim=-1, keepdim=True
                ).expand(9, 2),
            },
        )
        if problem:
            return problem


@exercise(
    "mixture_of_experts.3",
    "The counts have no gradient. What is the derivative of a softmax?",
    "∂p_i/∂z_j = p_i (δ_ij - p_j). Multiply by n · f_i / N and sum over i.",
    "n / N · p · (f - the sum of f · p over the experts of this token).",
)
def judge_mixture_of_experts_3(answer):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(7, 5, generator=generator) + torch.tensor([2.0, 1.0, 0.0, 0.0, -1.0])
    N, n = logits.shape
    for top_k in (1, 3):
        p = logits.softmax(dim=-1)
        f = torch.bincount(logits.topk(top_k).indices.flatten(), minlength=n) / N
        mean = lambda t: (t * p).sum(dim=-1, keepdim=True)
        right = n / N * p * (f - mean(f))
        problem = diagnose(
            call_answer(answer, logits, top_k),
            right,
            {
                "the factor n, the number of experts, is missing": right / n,
                "P is a mean over the tokens, so each has a share of 1/N": right * N,
                "the other experts are missing: if one probability rises, the others fall": (
                    n / N * p * f
                ),
                "that is the derivative with respect to the probabilities; the softmax is "
                "missing": (n / N * f).expand(N, n),
                "the sign is turned: a busy expert has a positive gradient, and a step goes "
                "against it": -right,
                "you took p where f belongs, how often each is chosen": (
                    n / N * p * (p.mean(dim=0) - mean(p.mean(dim=0)))
                ),
                "f counts choices per token; divide the counts by N alone, not by k too": (
                    right / top_k
                ),
                "the mean of f belongs to each token: it is weighted with that token's "
                "probabilities": n / N * p * (f - f.mean()),
            },
        )
        if problem:
            return problem
