"Interpretability: what attention maps show, and what they leave open."

import math

import torch
from scipy.optimize import linear_sum_assignment

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "attention_maps.1",
    parts=(
        "(a): whatever the head gives is multiplied by zeros",
        "(b): a mean of zero values is zero",
        "(c): zero queries give zero scores, and the softmax makes even weights of them",
        "(d): the softmax makes even weights of zero scores",
        "(e): a sum of values with weights zero is zero",
    ),
)
def what_switches_a_head_off():
    # ? A head is off if its output is zero. What does the softmax make of zeros?
    # ? Equal scores give even weights, whatever their size.
    # ? Zero values, zero weights and zero columns of W_o give zero. Zero queries and scores give the mean of the values.
    return [True, True, False, False, True]
    #! each is the other way round; True means that the head is off
    # ~ return [False, False, True, True, False]


@exercise("attention_maps.2")
def interaction(loss, a, b):
    # ? An effect is a loss without something less the loss with everything, `loss([])`.
    # ? The effect of both, less the effect of a, less the effect of b. How often is `loss([])` left in the sum?
    # ? `loss([a, b]) - loss([a]) - loss([b]) + loss([])`.
    return loss([a, b]) - loss([a]) - loss([b]) + loss([])
    #! those are losses, not effects: `loss([])` is still in them
    # ~ return loss([a, b]) - loss([a]) - loss([b])
    #! that is the effect of both together; the effect of each is taken from it
    # ~ return loss([a, b]) - loss([])
    #! the sign is turned round: the effect of each is taken from the effect of both
    # ~ return loss([a]) + loss([b]) - loss([a, b]) - loss([])
    #! each effect takes away `loss([])` once, so it is added once, not taken
    # ~ return loss([a, b]) - loss([a]) - loss([b]) - loss([])
    #! both effects are taken from the loss without both, not from the effect of both
    # ~ return loss([a, b]) - loss([a]) - loss([b]) + 2 * loss([])


@exercise("attention_maps.3")
def entropy(a, n):
    # ? Entropy is the sum of −p log₂ p over all keys. How many keys have which weight?
    # ? Each of the n others has the weight (1 − a)/n, and together they count n times.
    # ? −a log₂ a − (1 − a) log₂((1 − a)/n).
    return -a * math.log2(a) - (1 - a) * math.log2((1 - a) / n)
    #! those are nats; a bit is the logarithm to base 2
    # ~ return -a * math.log(a) - (1 - a) * math.log((1 - a) / n)
    #! that counts one of the n others
    # ~ return -a * math.log2(a) - (1 - a) / n * math.log2((1 - a) / n)
    #! that is the entropy of two keys; the rest is spread over n
    # ~ return -a * math.log2(a) - (1 - a) * math.log2(1 - a)
    #! the rest alone; the first key counts too
    # ~ return -(1 - a) * math.log2((1 - a) / n)
    #! entropy is positive: a logarithm of a weight is not
    # ~ return a * math.log2(a) + (1 - a) * math.log2((1 - a) / n)
    #! all n + 1 keys alike have that
    # ~ return math.log2(n + 1)


@exercise(
    "attention_maps.4",
    parts=(
        "(a): the encoder reads the source and nothing else",
        "(b): the decoder's own attention is causal, so earlier rows have not seen the last word",
        "(c): the encoder has no causal mask, so its first word looks at the last, too",
        "(d): in layer 1 the decoder's own attention comes before cross-attention, and has seen "
        "nothing of the source",
        "(e): what layer 2 attends to has been through the cross-attention of layer 1, and holds "
        "the source",
    ),
)
def weights_that_change():
    # ? Follow where a word can go. The target never enters the encoder. The source enters the decoder by cross-attention only.
    # ? In a decoder's layer its own attention comes first, cross-attention second. What has layer 1 seen of the source, when its own attention is computed?
    # ? Weights are made of queries and keys. Those of layer 2 are made of what layer 1 gave out.
    return [False, False, True, False, True]
    #! each is the other way round; True means that the weights change
    # ~ return [True, True, False, True, False]


@exercise("attention_maps.5")
def one_to_one(weights):
    # ? Whoever chooses first takes the place that another needs more. What counts is the sum over all rows.
    # ? `scipy.optimize.linear_sum_assignment(weights, maximize=True)` gives rows and columns of the best assignment.
    # ? `rows, places = linear_sum_assignment(weights.numpy(), maximize=True)`; with T ≤ S the rows come in order, and the places are the answer.
    return torch.tensor(linear_sum_assignment(weights.numpy(), maximize=True)[1])  # (T,)
    #! each row has its best place there, and some place is used twice
    # ~ return weights.argmax(-1)
    #! the first rows choose first there; another choice has a larger sum
    # ~ left, places = weights.clone(), []
    # | for row in left:
    # |     places.append(row.argmax().item())
    # |     left[:, places[-1]] = -1
    # | return places
    #! the largest weight is taken first there, and others pay for it; another choice has a larger
    #! sum
    # ~ left, places = weights.clone(), weights.argmax(-1)
    # | for _ in range(len(weights)):
    # |     row, place = divmod(left.argmax().item(), left.shape[1])
    # |     places[row] = place
    # |     left[row], left[:, place] = -1, -1
    # | return places
    #! that has the *smallest* sum: `linear_sum_assignment` asks for costs, unless told
    #! `maximize=True`
    # ~ return torch.tensor(linear_sum_assignment(weights.numpy())[1])
    #! that asks for each source token which row looks at it most; the other axis
    # ~ return weights.argmax(0)
    #! those are rows and places; the places alone are the answer
    # ~ return linear_sum_assignment(weights.numpy(), maximize=True)
    #! those are the rows, which come in order; the places are the second of the two
    # ~ return linear_sum_assignment(weights.numpy(), maximize=True)[0]
    #! those are weights; asked for are places
    # ~ return weights[linear_sum_assignment(weights.numpy(), maximize=True)]


@exercise("attention_maps.6")
def by_chance(S, T):
    # ? In the encoder each row sees S places: the same one has 1/S. And the one before? The first row has none.
    # ? In the decoder row i, counted from 1, sees i places, so each has 1/i. The mean over the rows of 1, 1/2, 1/3, …, 1/T?
    # ? 1/S, (S − 1)/S², H/T and (H − 1)/T, with H = 1 + 1/2 + … + 1/T.
    H = sum(1 / i for i in range(1, T + 1))
    #! the decoder's rows do not see all T places: row i sees i
    # ~ H = 1
    # ~ (H - 1) / T -> (T - 1) / T**2
    #! the mean of 1/i is not 1 by the mean of i
    # ~ H = 2 * T / (T + 1)
    # ~ (H - 1) / T -> 2 * (T - 1) / T / (T + 1)
    return 1 / S, (S - 1) / S**2, H / T, (H - 1) / T
    #! the first row of the encoder has no place before it
    # ~ return 1 / S, 1 / S, H / T, (H - 1) / T
    #! the first row of the decoder has no place before it
    # ~ return 1 / S, (S - 1) / S**2, H / T, H / T
    #! those are sums over the rows; asked for is their mean
    # ~ return 1, (S - 1) / S, H, H - 1
    #! the mean is over all rows, also over the first, which has nothing before it
    # ~ return 1 / S, 1 / S, H / T, (H - 1) / (T - 1)
    #! the same place first, then the one before
    # ~ return (S - 1) / S**2, 1 / S, (H - 1) / T, H / T
    #! the encoder first, then the decoder
    # ~ return H / T, (H - 1) / T, 1 / S, (S - 1) / S**2
    #! the encoder has no causal mask: each row sees all S places
    # ~ K = sum(1 / i for i in range(1, S + 1))
    # | return K / S, (K - 1) / S, H / T, (H - 1) / T


# ---------------------------------------------------------------- questions


def _loss(table):
    "A loss that is known for each set of heads."
    return lambda heads: table[frozenset(heads)]


@question("attention_maps", "attention_maps.2")
def ask_interaction(draw):
    a, b = ("self", 1, 2), ("self", 2, 1)
    cases = [(0.5, 0.75, 0.625, 2.0), (1.0, 1.25, 1.75, 1.5), (0.0, 0.25, 0.5, 0.75)]
    cases += [tuple(draw.numbers(4).abs().tolist()) for _ in draw.rounds]
    for whole, one, other, both in cases:
        sets = ((), (a,), (b,), (a, b))
        table = {frozenset(s): x for s, x in zip(sets, (whole, one, other, both))}
        what = f"losses of {whole:.3g}, without a {one:.3g}, without b {other:.3g}, both {both:.3g}"
        yield Call(what, (_loss(table), a, b))


@question("attention_maps", "attention_maps.3")
def ask_entropy(draw):
    cases = [(0.5, 8), (0.9, 3), (0.25, 3), (0.5, 1), (0.001, 20), (0.99, 2)]
    cases += [(draw.size(1, 99) / 100, draw.size(1, 30)) for _ in draw.rounds]
    for a, n in cases:
        yield Call(f"a = {a}, n = {n}", (a, n))


@question("attention_maps", "attention_maps.5")
def ask_one_to_one(draw):
    tables = [
        ("the second row needs place 0 more", [[0.5, 0.4, 0.1], [0.9, 0.06, 0.04]]),
        ("each row has a place of its own", [[0.1, 0.7, 0.1, 0.1], [0.6, 0.2, 0.1, 0.1]]),
        ("one row", [[0.2, 0.5, 0.3]]),
        ("one row, one place", [[1.0]]),
        (
            "no exchange of two makes it better",
            [[0.45, 0.5, 0.05], [0.05, 0.45, 0.5], [0.5, 0.05, 0.45]],
        ),
        (
            "the largest weight has to give way",
            [[0.5, 0.45, 0.05], [0.46, 0.02, 0.52], [0.3, 0.1, 0.6]],
        ),
    ]
    for what, table in tables:
        yield Call(what, (torch.tensor(table),))
    for T, S in [(3, 5), (4, 4), (4, 6), (5, 5), (2, 9)]:
        weights = draw.numbers(T, S, scale=1.5).softmax(-1)
        yield Call(f"weights ({T}, {S})", (weights,))


@question("attention_maps", "attention_maps.6")
def ask_by_chance(draw):
    cases = [(5, 8), (12, 3), (2, 4), (7, 7), (1, 2), (3, 2), (20, 30)]
    cases += [(draw.size(2, 40), draw.size(2, 40)) for _ in draw.rounds]
    for S, T in cases:
        yield Call(f"S = {S}, T = {T}", (S, T))
