"Exercises of the deep dive on mixtures of experts."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "mixture_of_experts.1",
    parts=(
        "the total is wrong; count one expert, take six of them, and add the router",
        "what a token uses is wrong; it is two experts and the whole router",
    ),
)
def total_and_active():
    # ? Count one expert first. SwiGLU has two patterns for each unit.
    # ? An expert has 12 · 80 + 80 + 40 · 12 + 12 numbers, the router 12 · 6.
    # ? All six experts and the router; and two experts and the router.
    expert = 12 * 80 + 80 + 40 * 12 + 12
    #! SwiGLU's first layer is 2 · d_ff wide
    # ~ expert = 12 * 40 + 40 + 40 * 12 + 12
    #! the experts' biases are missing
    # ~ expert = 12 * 80 + 40 * 12
    router = 12 * 6
    #! the router is missing
    # ~ router = 0
    #! the router has no bias
    # ~ router = 12 * 6 + 6
    total = 6 * expert + router
    #! total: the router is missing
    # ~ total = 6 * expert
    #! total: that is what one token uses; all six experts are there
    # ~ total = 2 * expert + router
    #! total: there is one router for all experts
    # ~ total = 6 * expert + 6 * router
    active = 2 * expert + router
    #! active: the router is missing
    # ~ active = 2 * expert
    #! active: a token uses two of the six experts
    # ~ active = 6 * expert + router
    #! active: the router scores all six experts, to find the two
    # ~ active = 2 * expert + 2 * 12
    return total, active
    #! first the total, then what one token uses
    # ~ return active, total


@exercise("mixture_of_experts.2")
def accepted(chosen, capacity):
    # ? Go through the tokens in order, and through the choices of each. What do you have to count?
    # ? A choice is accepted if its expert has accepted fewer than `capacity` before it.
    fits = torch.zeros_like(chosen, dtype=torch.bool)  # (N, k)
    used = {}
    for t in range(chosen.shape[0]):
        #! the first to come are accepted, not the last
        # ~ for t in reversed(range(chosen.shape[0])):
        #! the first to come are accepted, not the last
        # ~ for t in reversed(range(chosen.shape[0])):
        # ~ in range(chosen.shape[1]) -> in reversed(range(chosen.shape[1]))
        for place in range(chosen.shape[1]):
            #! tokens come in their order: the second choice of a token comes before the first choice of the next
            # ~2 for place in range(chosen.shape[1]):
            # |     for t in range(chosen.shape[0]):
            expert = chosen[t, place].item()
            #! first and second choices fill the same places of an expert
            # ~ expert = chosen[t, place].item(), place
            #! each expert has places of its own; count them apart
            # ~ expert = 0
            #! a tensor is another key each time, whatever its number is; `.item()` makes a number of it
            # ~ expert = chosen[t, place]
            if used.get(expert, 0) < capacity:
                #! an expert accepts `capacity` choices; you took one more
                # ~ if used.get(expert, 0) <= capacity:
                #! an expert accepts `capacity` choices; you stopped one before
                # ~ if used.get(expert, 0) < capacity - 1:
                used[expert] = used.get(expert, 0) + 1
                fits[t, place] = True
    return fits
    #! that is which choices are dropped; `True` means accepted
    # ~ return ~fits
    #! nothing is dropped so; each expert has a capacity
    # ~ return torch.ones_like(fits)
    #! a token whose second choice is dropped keeps its first
    # ~ return fits.all(dim=1, keepdim=True).expand_as(fits)
    #! that is the number that each expert accepted; for each choice, say whether it is
    # ~ return torch.tensor([used.get(i, 0) for i in range(int(chosen.max()) + 1)])


@exercise("mixture_of_experts.3")
def balance_gradient(logits, top_k):
    # ? The counts have no gradient. What is the derivative of a softmax?
    # ? ∂p_i/∂z_j = p_i (δ_ij - p_j). Multiply by n · f_i / N and sum over i.
    # ? n / N · p · (f - the sum of f · p over the experts of this token).
    N, n = logits.shape
    p = logits.softmax(dim=-1)  # (N, n)
    chosen = logits.topk(top_k, dim=-1).indices  # (N, k)
    f = torch.bincount(chosen.flatten(), minlength=n) / N  # (n,)
    #! f counts choices per token; divide the counts by N alone, not by k too
    # ~ f = torch.bincount(chosen.flatten(), minlength=n) / (N * top_k)
    #! you took p where f belongs, how often each is chosen
    # ~ f = p.mean(dim=0)
    #! f counts all k experts that a token chooses, not its first alone
    # ~ f = torch.bincount(chosen[:, 0], minlength=n) / N
    expected = (f * p).sum(dim=-1, keepdim=True)  # (N, 1)
    #! the mean of f belongs to each token: it is weighted with that token's probabilities
    # ~ expected = f.mean()
    #! the mean of f belongs to each token; you took one for all tokens
    # ~ expected = (f * p.mean(dim=0)).sum()
    return n / N * p * (f - expected)
    #! the factor n, the number of experts, is missing
    # ~ return p * (f - expected) / N
    #! a factor 1/N is missing: f is a share of the tokens, and P a mean over them
    # ~ return n * p * (f - expected)
    #! the other experts are missing: if one probability rises, the others fall
    # ~ return n / N * p * f
    #! the other experts are missing: p (1 - p) is what an expert's own logit does to its probability
    # ~ return n / N * p * (1 - p) * f
    #! that is the derivative with respect to the probabilities; the softmax is missing
    # ~ return (n / N * f).expand(N, n)
    #! the sign is turned: a busy expert has a positive gradient, and a step goes against it
    # ~ return n / N * p * (expected - f)


# ---------------------------------------------------------------- questions


@question("mixture_of_experts", "mixture_of_experts.2")
def ask_accepted(draw):
    for N, k, n, capacity in [(9, 2, 4, 3), (9, 2, 4, 5), (1, 2, 3, 1), (7, 1, 2, 2), (8, 3, 5, 1)]:
        order = draw.numbers(N, n) + torch.arange(n) / n  # the last are chosen more often
        chosen = order.topk(k, dim=-1).indices  # (N, k), different experts
        yield Call(f"chosen {(N, k)}, {n} experts, capacity {capacity}", (chosen, capacity))
    chosen = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 3]])
    yield Call("room for all", (chosen, 8))
    yield Call("room for none", (chosen, 0))
    yield Call("room for one each", (chosen, 1))
    for _ in draw.rounds:
        N, k, n, capacity = draw.size(6, 15), draw.size(1, 3), draw.size(4, 7), draw.size(1, 4)
        chosen = draw.numbers(N, n).topk(k, dim=-1).indices
        yield Call(f"chosen {(N, k)}, {n} experts, capacity {capacity}", (chosen, capacity))


@question("mixture_of_experts", "mixture_of_experts.3")
def ask_balance_gradient(draw):
    fixed = [(7, 5, 1), (7, 5, 3), (1, 4, 2), (3, 6, 6), (12, 3, 1)]
    for N, n, top_k in [
        *fixed,
        *((draw.size(2, 20), draw.size(5, 9), draw.size(2, 4)) for _ in draw.rounds),
    ]:
        logits = draw.numbers(N, n) - torch.arange(n) / 2  # the first are chosen more often
        yield Call(f"logits {(N, n)}, top_k = {top_k}", (logits, top_k))
    yield Call("large logits", (draw.numbers(5, 4, scale=100.0), 2))
