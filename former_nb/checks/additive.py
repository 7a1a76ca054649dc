"""Judges of the exercises on the page 03_attention_variants, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, diagnose_each, exercise


@exercise(
    "additive.1",
    "Which axes does each table have? A batch, heads, queries, keys, and perhaps hidden units.",
    "tanh is computed for each pair of a query and a key, in each head of each text.",
    "B·h·T·S·d_h, then B·h·T·S. A head has W_q and W_k, both (d_k, d_h), and u, (d_h,).",
)
def judge_additive_1(answer):
    "Three numbers."
    B, h, T, S, d = 32, 8, 128, 96, 64
    return diagnose_each(
        answer,
        {"tanh": B * h * T * S * d, "weights": B * h * T * S, "parameters": h * (2 * d * d + d)},
        (
            {
                B * h * T * S: "that is a number for each pair; each pair has 64 hidden units",
                B * h * (T + S) * d: "those are the projections; tanh is taken of every pair",
                B * T * S * d: "each of the 8 heads has a table of its own",
                h * T * S * d: "each of the 32 texts has a table of its own",
                B * h * T * S * 2 * d: "query and key are added, so a pair has 64 numbers, not 128",
            },
            {
                B * h * T * S * d: "u has made one number of the 64 hidden units",
                B * T * S: "each head has weights of its own",
                h * T * S: "each text has weights of its own",
                T * S: "each head of each text has such a table",
            },
            {
                2 * d * d + d: "each head has a network of its own",
                h * 2 * d * d: "u is missing, 64 numbers a head",
                h * (d * d + d): "queries and keys have a matrix each",
                h * (2 * d * d + 3 * d): "neither the matrices nor u have a bias",
                h * (2 * d * d + 2 * d): "neither the matrices nor u have a bias",
            },
        ),
    )


@exercise(
    "additive.2",
    "Go from the score to the hidden units, from there through the tanh, and then to the query.",
    "The derivative of tanh a is 1 - tanh² a, a number for each hidden unit.",
    "With t = tanh(q W_q + k W_k): `w_q @ ((1 - t**2) * u)`.",
)
def judge_additive_2(answer):
    "A function of a query, a key and the network."
    generator = torch.Generator().manual_seed(0)
    shapes = (5,), (5,), (5, 5), (5, 5), (5,)
    q, k, w_q, w_k, u = (torch.randn(shape, generator=generator) for shape in shapes)
    t = torch.tanh(q @ w_q + k @ w_k)
    slope = 1 - t**2
    return diagnose(
        call_answer(answer, q, k, w_q, w_k, u),
        w_q @ (slope * u),
        {
            "the derivative of the tanh is missing": w_q @ u,
            "that is the derivative with respect to the key": w_k @ (slope * u),
            "W_q is transposed; its rows belong to the features of the query": w_q.T @ (slope * u),
            "u is missing": w_q @ slope,
            "the derivative of the tanh is 1 - tanh², not tanh": w_q @ (t * u),
            "the tanh in 1 - tanh² is not squared": w_q @ ((1 - t) * u),
            "W_q is missing; that is the derivative with respect to the hidden units": slope * u,
            "the key is missing in the hidden units": w_q @ ((1 - torch.tanh(q @ w_q) ** 2) * u),
            "you took 1 - a² of the sum itself, without the tanh": (
                w_q @ ((1 - (q @ w_q + k @ w_k) ** 2) * u)
            ),
        },
    )


@exercise(
    "additive.3",
    "The matrix of each head turns the queries into something that keys are compared with.",
    "`q @ w` multiplies head by head: (B, h, T, d_k) and (h, d_k, d_k).",
    "`scores = q @ w @ k.mT / d_k**0.5`, a softmax over the keys, and the product with v.",
)
def judge_additive_3(answer):
    "A function of queries, keys, values and a matrix for each head."
    generator = torch.Generator().manual_seed(0)
    shapes = (2, 3, 4, 4), (2, 3, 4, 4), (2, 3, 4, 6), (3, 4, 4)
    q, k, v, w = (torch.randn(shape, generator=generator) for shape in shapes)

    def attend(scores, dim=-1):
        return scores.softmax(dim=dim) @ v

    right = (q @ w) @ k.mT / 2  # √4
    return diagnose(
        call_answer(answer, q, k, v, w),
        attend(right),
        {
            "the matrix is transposed: queries are on its left, keys on its right": attend(
                (q @ w.mT) @ k.mT / 2
            ),
            "the division by √d_k is missing": attend(right * 2),
            "you divided by d_k, not by its root": attend(right / 2),
            "the matrix is missing": attend(q @ k.mT / 2),
            "the softmax runs over the queries": attend(right, dim=-2),
            "both queries and keys went through the matrix; it goes between them once": attend(
                (q @ w) @ (k @ w).mT / 2
            ),
            "all heads got the matrix of the first": attend((q @ w[0]) @ k.mT / 2),
            "those are the scores times the values; the softmax is missing": right @ v,
        },
    )
