"Baselines: counting, and errors of differences."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "baselines.1",
    parts=(
        "a mean does not know the order of its parts, and without pairs nothing else does",
        "every word twice doubles the sum and the count: the mean stays",
        "one word twice gives it a larger share of the mean",
        "pads have no part in the mean, however many",
    ),
)
def edits_that_a_bag_does_not_see():
    # ? Write down the vector that the head reads: a sum over something, divided by something.
    # ? A sum does not know the order of its parts. What happens to sum and count when every word
    # ? comes twice?
    # ? Pads are in neither sum nor count.
    return True, True, False, True
    #! that would be a sum in place of a mean: every word twice leaves a mean as it is
    # ~ return True, False, False, False
    #! that would be true of a model with positions
    # ~ return False, False, False, True


@exercise("baselines.2")
def log_ratio(counts, good, alpha):
    # ? For each label: how many of its texts have each word, and `alpha` more. That is one number
    # ? per word.
    # ? Divide each of the two by its sum over the words, so that they are comparable.
    # ? `(p / p.sum()).log() - (q / q.sum()).log()`.
    p, q = (counts[rows].sum(0) + alpha for rows in (good, ~good))  # (V,)
    #! `alpha` is not used; with one it would be right
    # ~ p, q = (counts[rows].sum(0) + 1 for rows in (good, ~good))
    #! without `alpha` a word that one side never has gives an infinite ratio
    # ~ p, q = (counts[rows].sum(0) for rows in (good, ~good))
    return torch.log(p / p.sum()) - torch.log(q / q.sum())
    #! that is bad against good: the good ones stand above
    # ~ return torch.log(q / q.sum()) - torch.log(p / p.sum())
    #! the two are not divided by their sums over the words: there are more bad texts than good ones
    # ~ return torch.log(p) - torch.log(q)
    #! each is divided by the number of its texts, not by its sum over the words
    # ~ return torch.log(p / good.sum()) - torch.log(q / (~good).sum())
    #! that is the difference of the shares: take their logarithms first
    # ~ return p / p.sum() - q / q.sum()
    #! the logarithm is missing
    # ~ return p / p.sum() / (q / q.sum())
    #! `alpha` is added after the division by the sum; a count gets it
    # ~ p, q = p - alpha, q - alpha
    # | return torch.log(p / p.sum() + alpha) - torch.log(q / q.sum() + alpha)
    #! the sum gets `alpha` once for each word, as the counts do
    # ~ return torch.log(p / ((p - alpha).sum() + alpha)) - torch.log(q / ((q - alpha).sum() + alpha))
    #! the sums were taken before `alpha` was added, so the shares do not sum to one
    # ~ return torch.log(p / (p - alpha).sum()) - torch.log(q / (q - alpha).sum())
    #! the logarithm to base 2: the lesson takes the natural one
    # ~ return torch.log2(p / p.sum()) - torch.log2(q / q.sum())


@exercise("baselines.3")
def standard_error(first, second):
    # ? For each text the difference is 1, 0 or −1. The difference of the accuracies is the mean of
    # ? these.
    # ? The standard error of a mean is the standard deviation of its parts, divided by √N.
    # ? With b and c the shares of texts that only the first and only the second has right: √((b + c
    # ? − (b − c)²) / N).
    b, c = (first & ~second).double().mean(), (second & ~first).double().mean()
    return ((b + c - (b - c) ** 2) / len(first)).sqrt()
    #! nearly: the mean difference is not taken off before squaring
    # ~ return ((b + c) / len(first)).sqrt()
    #! that holds for two models scored on different texts; here most texts are right or wrong for
    #! both
    # ~ p, q = first.double().mean(), second.double().mean()
    # | return ((p * (1 - p) + q * (1 - q)) / len(first)).sqrt()
    #! the two errors are added: that bounds the difference's error, but most texts are right or
    #! wrong for both
    # ~ p, q = first.double().mean(), second.double().mean()
    # | return ((p * (1 - p)).sqrt() + (q * (1 - q)).sqrt()) / len(first) ** 0.5
    #! that is the standard deviation of one text's difference: divide by √N
    # ~ return (b + c - (b - c) ** 2).sqrt()
    #! that is the variance of one text's difference: divide by N, then take the root
    # ~ return b + c - (b - c) ** 2
    #! divide by √N, not by N
    # ~ return (b + c - (b - c) ** 2).sqrt() / len(first)
    #! that is the variance: take the root
    # ~ return (b + c - (b - c) ** 2) / len(first)
    #! that is the error of how often they disagree; a text that only the second has right counts −1
    # ~ return ((b + c - (b + c) ** 2) / len(first)).sqrt()
    #! that is the difference of the accuracies, not its error
    # ~ return b - c
    #! that is the error of one accuracy alone
    # ~ p = first.double().mean()
    # | return (p * (1 - p) / len(first)).sqrt()
    #! that is the error of one accuracy alone
    # ~ q = second.double().mean()
    # | return (q * (1 - q) / len(first)).sqrt()


# ---------------------------------------------------------------- questions


@question("baselines", "baselines.2")
def ask_log_ratio(draw):
    for N, V, n_good, alpha in [(9, 5, 3, 1.0), (9, 5, 3, 0.25), (20, 8, 15, 2.0), (4, 1, 1, 0.5)]:
        good = torch.zeros(N, dtype=torch.bool)
        good[torch.randperm(N, generator=draw.generator)[:n_good]] = True
        counts = draw.mask(N, V)
        counts[:, : V - 3] &= draw.mask(N, max(V - 3, 0))
        counts[good, 0] = V == 1  # a word that no good text has
        yield Call(f"counts {(N, V)}, alpha = {alpha}", (counts, good, alpha))


@question("baselines", "baselines.3")
def ask_standard_error(draw):
    for N, p, q in [(2000, 0.6, 0.9), (5000, 0.3, 0.55), (3001, 0.95, 0.7), (2500, 0.2, 0.2)]:
        luck = torch.rand(N, generator=draw.generator)
        others = torch.rand(N, generator=draw.generator)
        first, second = luck < p, torch.where(others < 0.7, luck, others) < q
        yield Call(f"N = {N}", (first, second), near=1e-4)  # N - 1 is as good
    yield Call("N = 2000, the same answers", (first[:2000], first[:2000]), near=1e-4)
