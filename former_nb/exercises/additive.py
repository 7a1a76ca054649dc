"Attention variants: scores by a small network."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "additive.1",
    near=1e-9,
    parts=(
        "tanh is wrong; it is taken of each hidden unit of each pair, in each head of each text",
        "the weights are wrong; each pair of a query and a key has one, in each head of each text",
        "the parameters are wrong; each head has W_q, W_k and u",
    ),
)
def numbers_of_a_network():
    # ? Which axes does each table have? A batch, heads, queries, keys, and perhaps hidden units.
    # ? tanh is computed for each pair of a query and a key, in each head of each text.
    # ? B·h·T·S·d_h, then B·h·T·S. A head has W_q and W_k, both (d_k, d_h), and u, (d_h,).
    B, h, T, S, d = 32, 8, 128, 96, 64
    #! each of the 8 heads has tables and weights of its own
    # ~ B, h, T, S, d = 32, 1, 128, 96, 64
    #! each of the 32 texts has tables of its own
    # ~ B, h, T, S, d = 1, 8, 128, 96, 64
    return B * h * T * S * d, B * h * T * S, h * (2 * d * d + d)
    #! the first is a number for each pair; each pair has 64 hidden units
    # ~ return B * h * T * S, B * h * T * S, h * (2 * d * d + d)
    #! the first counts the projections; tanh is taken of every pair
    # ~ return B * h * (T + S) * d, B * h * T * S, h * (2 * d * d + d)
    #! query and key are added, not laid side by side, so a pair has 64 numbers, not 128
    # ~ return B * h * T * S * 2 * d, B * h * T * S, h * (2 * d * d + d)
    #! u makes one weight of the 64 hidden units of a pair
    # ~ return B * h * T * S * d, B * h * T * S * d, h * (2 * d * d + d)
    #! each head has a network of its own
    # ~ return B * h * T * S * d, B * h * T * S, 2 * d * d + d
    #! u is missing, 64 numbers a head
    # ~ return B * h * T * S * d, B * h * T * S, h * 2 * d * d
    #! queries and keys have a matrix each
    # ~ return B * h * T * S * d, B * h * T * S, h * (d * d + d)
    #! the matrices have no biases
    # ~ return B * h * T * S * d, B * h * T * S, h * (2 * d * d + 3 * d)


@exercise("additive.2")
def score_gradient(q, k, w_q, w_k, u):
    # ? Go from the score to the hidden units, from there through the tanh, and then to the query.
    # ? The derivative of tanh a is 1 - tanh² a, a number for each hidden unit.
    # ? With t = tanh(q W_q + k W_k): `w_q @ ((1 - t**2) * u)`.
    t = torch.tanh(q @ w_q + k @ w_k)  # (d_h,)
    #! the key is missing in the hidden units
    # ~ t = torch.tanh(q @ w_q)
    #! you took 1 - a² of the sum itself, without the tanh
    # ~ t = q @ w_q + k @ w_k
    return w_q @ ((1 - t**2) * u)  # (d_k,)
    #! the derivative of the tanh is missing
    # ~ return w_q @ u
    #! that is the derivative with respect to the key
    # ~ return w_k @ ((1 - t**2) * u)
    #! W_q is transposed; its rows belong to the features of the query
    # ~ return w_q.T @ ((1 - t**2) * u)
    #! u is missing
    # ~ return w_q @ (1 - t**2)
    #! the derivative of the tanh is 1 - tanh², not tanh
    # ~ return w_q @ (t * u)
    #! the tanh in 1 - tanh² is not squared
    # ~ return w_q @ ((1 - t) * u)
    #! W_q is missing; that is the derivative with respect to the hidden units
    # ~ return (1 - t**2) * u


@exercise("additive.3")
def general(q, k, v, w):
    # ? The matrix of each head turns the queries into something that keys are compared with.
    # ? `q @ w` multiplies head by head: (B, h, T, d_k) and (h, d_k, d_k).
    # ? `scores = q @ w @ k.mT / d_k**0.5`, a softmax over the keys, and the product with v.
    scores = (q @ w) @ k.mT / q.shape[-1] ** 0.5  # (B, h, T, S)
    #! the matrix is transposed: queries are on its left, keys on its right
    # ~ scores = (q @ w.mT) @ k.mT / q.shape[-1] ** 0.5
    #! the division by √d_k is missing
    # ~ scores = (q @ w) @ k.mT
    #! you divided by d_k, not by its root
    # ~ scores = (q @ w) @ k.mT / q.shape[-1]
    #! the matrix is missing
    # ~ scores = q @ k.mT / q.shape[-1] ** 0.5
    #! both queries and keys went through the matrix; it goes between them once
    # ~ scores = (q @ w) @ (k @ w).mT / q.shape[-1] ** 0.5
    #! all heads got the matrix of the first
    # ~ scores = (q @ w[0]) @ k.mT / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v
    #! the softmax runs over the queries
    # ~ return scores.softmax(dim=-2) @ v
    #! those are the scores times the values; the softmax is missing
    # ~ return scores @ v
    #! those are the weights; multiply them by the values
    # ~ return scores.softmax(dim=-1)


# ---------------------------------------------------------------- questions


@question("additive", "additive.2")
def ask_score_gradient(draw):
    for d_k, d_h in [(5, 5), (3, 4), (6, 2), (1, 3), (4, 1)]:
        q, k, u = draw.numbers(d_k), draw.numbers(d_k), draw.numbers(d_h)
        w_q, w_k = draw.numbers(d_k, d_h, scale=0.5), draw.numbers(d_k, d_h, scale=0.5)
        yield Call(f"d_k = {d_k}, d_h = {d_h}", (q, k, w_q, w_k, u))


@question("additive", "additive.3")
def ask_general(draw):
    sizes = [(2, 3, 4, 4, 4, 4), (2, 3, 5, 7, 4, 6), (1, 2, 6, 3, 9, 5), (3, 1, 1, 4, 2, 3)]
    for B, h, T, S, d_k, d_v in sizes:
        q, k, v = draw.numbers(B, h, T, d_k), draw.numbers(B, h, S, d_k), draw.numbers(B, h, S, d_v)
        what = f"q {tuple(q.shape)}, k {tuple(k.shape)}, v {tuple(v.shape)}"
        yield Call(what, (q, k, v, draw.numbers(h, d_k, d_k)))
