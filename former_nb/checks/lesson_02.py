"""Judges of the exercises on the page 02_attention, and the mistakes that they know."""

import torch

from ..attention.fused import attention, attention_weights
from ..base.exercises import call_answer, diagnose, exercise, explain_error


@exercise(
    "02.1",
    "Start with the table of scores. Which product of q (T, d_k) and k (S, d_k) has the "
    "shape (T, S)?",
    "Divide the scores by √d_k. Then each row of the table needs a softmax over its keys, "
    "the last axis.",
    "scores = q @ k.T / k.shape[-1] ** 0.5, then scores.softmax(dim=-1) @ v",
)
def judge_02_1(answer):
    "Judge attention without a loop, on queries (6, 5), keys (7, 5) and values (7, 2)."
    draw = torch.Generator("cpu").manual_seed(1)
    sizes = (6, 5), (7, 5), (7, 2)
    q, k, v = (torch.randn(*size, generator=draw, device="cpu") for size in sizes)
    root = 5**0.5  # √d_k
    scores = q @ k.T / root
    weights = scores.softmax(-1)
    try:
        given = call_answer(answer, q, k, v)
    except (RuntimeError, IndexError, TypeError) as error:
        return explain_error(error, _ERRORS)
    mistakes = {
        "the scores are not divided by √d_k": (scores * root).softmax(-1) @ v,
        "you divided by √3, and 3 is the d_k of the example; take the root of k.shape[-1], here "
        "5": (scores * root / 3**0.5).softmax(-1) @ v,
        "you divided by d_k; divide by √d_k": (scores / root).softmax(-1) @ v,
        "you divided by d_k²; divide by √d_k": (scores * root / 25).softmax(-1) @ v,
        "you divided by d_k / 2, which is √d_k where d_k is 4; divide by the root of d_k": (
            (scores * root / 2.5).softmax(-1) @ v
        ),
        "you divided by d_v, which is 2 here; divide by √d_k": (scores * root / 2).softmax(-1) @ v,
        "you divided by √d_v; the scores sum d_k products": (
            (scores * root / 2**0.5).softmax(-1) @ v
        ),
        "you divided by √S, and S is the number of keys; the scores sum d_k products": (
            (scores * root / 7**0.5).softmax(-1) @ v
        ),
        "you divided by √T, and T is the number of queries; the scores sum d_k products": (
            (scores * root / 6**0.5).softmax(-1) @ v
        ),
        "you multiplied by √d_k; divide by it": (scores * root**2).softmax(-1) @ v,
        "you divided after the softmax; divide the scores before it": (
            (scores * root).softmax(-1) / root @ v
        ),
        "the softmax runs over the queries; each query's weights over the keys should sum to 1": (
            scores.softmax(0) @ v
        ),
        "the softmax runs twice": weights.softmax(-1) @ v,
        "the softmax is missing": scores @ v,
        "`reshape` is no transpose; k.T turns rows into columns": (
            (q @ k.reshape(5, 7) / root).softmax(-1) @ v
        ),
        "those are the scores; a softmax and the values are still to come": scores,
        "those are the weights; multiply them by the values": weights,
        "that mixes the keys; mix the values": weights @ k,
        "the result is transposed: expected (T, d_v)": (weights @ v).T,
    }
    return diagnose(given, weights @ v, mistakes)


_ERRORS = {  # words of an error -> what was meant
    "(6x5 and 7x5)": "q @ k does not fit, (T, d_k) and (S, d_k); transpose k, so that d_k meets "
    "d_k",
    "(7x6 and 7x2)": "your table is (S, T), keys by queries; the values need (T, S), queries by "
    "keys",
    "(5x6 and 7x5)": "q.T @ k does not fit, (d_k, T) and (S, d_k); transpose k, not q",
    "(6x7 and 6x5)": "the table (T, S) meets the queries; it mixes the values, `@ v`",
    "(7x2 and 6x7)": "the values come second: weights (T, S) @ v (S, d_v)",
    "range of [-2, 1], but got 2": "q, k and v have two axes here, 0 and 1; k.T swaps them, and "
    "the last one is dim=-1",
    "must be a 3D tensor": "torch.bmm wants three axes, and q, k and v have two here; use `@`",
    "softmax()": "the softmax needs its axis: softmax(dim=-1)",
}


@exercise(
    "02.2",
    "What is the variance of one product of two independent numbers with mean 0?",
    "Each product has variance 2² · 2² = 16. There are 256 of them; variances add, standard "
    "deviations do not.",
)
def judge_02_2(answer):
    "Judge the standard deviation of the scaled scores."
    return diagnose(
        answer,
        4.0,
        {
            "64 is right before scaling; now divide by √d_k": 64.0,
            "1 holds for components with variance 1; here they have variance 4": 1.0,
            "2 counts the spread of one factor; the product of q and k has both": 2.0,
            "that divides by d_k; divide by √d_k": 0.25,
            "that is the variance of the scaled scores; the standard deviation is its square "
            "root": 16.0,
            "that is the variance before scaling": 4096.0,
            "that is d_k, or 4096 divided by √d_k; the division turns the standard deviation, "
            "64, into 64 / √d_k": 256.0,
            "the variances of two factors multiply, 2² · 2² = 16; their sum is 8": (8.0),
            "32 is √(4 · 256), with the variance of one factor and before the scale": (32.0),
            "√8 takes variances of 2; the standard deviation is 2, so the variance is 4": (
                torch.tensor(8.0).sqrt()
            ),
            "1024 is 64 · 16; divide 64, the standard deviation before scaling, by √d_k": (1024.0),
        },
    )


@exercise(
    "02.3",
    "Go back one step first: y = w v, so what is ∂L/∂w? It has shape (T, S).",
    "With d = g @ v.T, row i of the answer is Σ_l d_il · w_il (δ_lj − w_ij). Split the sum "
    "at the minus sign.",
    "w_ij · (d_ij − Σ_l d_il w_il)",
)
def judge_02_3(answer):
    "Judge the gradient with respect to the scores."
    draw = torch.Generator().manual_seed(3)
    scores, v, g = (torch.randn(*size, generator=draw) for size in [(6, 7), (7, 2), (6, 2)])
    w = scores.softmax(-1)
    d = g @ v.T
    right = w * (d - (d * w).sum(-1, keepdim=True))
    try:
        given = answer(w, v, g)
    except RuntimeError as error:
        return explain_error(error, _MISFITS)
    return diagnose(
        given,
        right,
        {
            "that is ∂L/∂w; the slope of the softmax is still to come": d,
            "you used only the diagonal part w_i of the slope; the term −w_i w_j is missing": w * d,
            "you used only w_i(1 − w_i), the diagonal of the slope; every weight depends on "
            "every score of its row": w * (1 - w) * d,
            "that is only the diagonal of the Jacobian; multiply the Jacobian by ∂L/∂w = g vᵀ": (
                w * (1 - w)
            ),
            "the factor w in front is missing": d - (d * w).sum(-1, keepdim=True),
            "the sum runs over the queries; the softmax of a row depends on the keys of that row": (
                w * (d - (d * w).sum(0, keepdim=True))
            ),
            "the sum over ∂L/∂w must be weighted with w": w * (d - d.sum(-1, keepdim=True)),
            "the mean of ∂L/∂w must be weighted with w": w * (d - d.mean(-1, keepdim=True)),
            "the sign is turned": -right,
            "the scores here come before the softmax and after the scale: do not divide by "
            "√d_v": right / 2**0.5,
            "that is the gradient of the values; the exercise asks for that of the scores": w.T @ g,
            "the result is transposed: expected (T, S)": right.T,
        },
    )


_MISFITS = {  # words of an error -> what was meant
    "(6x2 and 7x2)": "g @ v does not fit, (T, d_v) and (S, d_v); transpose v, so that d_v meets "
    "d_v",
    "tensor a (7) must match the size of tensor b (6)": "a sum over the keys has the shape (T,), "
    "which does not fit under (T, S); `keepdim=True` makes it (T, 1)",
}


def _attend(q, k, v):
    "Output and weights of one head without a batch."
    weights = attention_weights(q[None], k[None])
    y = attention(q[None], k[None], v[None])
    return y[0], weights[0]


@exercise(
    "02.4",
    "Which of the three projections read x, and which read memory? The output has one row "
    "per word of x.",
    "Scores: (x @ w_q) @ (memory @ w_k).T, divided by the square root of their inner width; "
    "softmax over the words of memory.",
)
def judge_02_4(answer):
    "Judge queries from one sentence, keys and values from another."
    draw = torch.Generator().manual_seed(2)
    x, memory, w_q, w_k, w_v = (
        torch.randn(*size, generator=draw) for size in [(6, 5), (7, 5), (5, 3), (5, 3), (5, 2)]
    )
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores, right = q @ k.T, _attend(q, k, v)[0]
    try:
        given = answer(x, memory, w_q, w_k, w_v)
    except TypeError as error:
        called = "w_q, w_k and w_v are matrices here, not layers: write x @ w_q"
        return explain_error(error, {"'Tensor' object is not callable": called})
    except RuntimeError as error:
        if "(6x5 and 3x5)" in str(error):
            return (
                "w_q is transposed; the matrices are (d_model, d_k), so x @ w_q is right as it is"
            )
        if problem := _judge_sources(answer, x, memory[:6], w_q, w_k, w_v):
            return problem
        raise
    except ValueError:
        if problem := _judge_sources(answer, x, memory[:6], w_q, w_k, w_v):
            return problem
        raise
    return diagnose(
        given,
        right,
        {
            "keys and values come from memory; yours come from x": _attend(q, x @ w_k, x @ w_v)[0],
            "queries come from x; yours come from memory, so you have an output for each "
            "word of memory": _attend(memory @ w_q, k, v)[0],
            "queries come from x and keys from memory; yours are swapped": _attend(
                memory @ w_q, x @ w_k, x @ w_v
            )[0],
            "the queries need w_q and the keys w_k; yours are exchanged": _attend(
                x @ w_k, memory @ w_q, v
            )[0],
            "the keys need w_k; yours use w_q": _attend(q, memory @ w_q, v)[0],
            "the queries need w_q; yours use w_k": _attend(x @ w_k, k, v)[0],
            "the values need w_v; yours use w_k": _attend(q, k, k)[0],
            "the values need w_v; yours use w_q": _attend(q, k, memory @ w_q)[0],
            "the values need w_v; yours are the words of memory as they are": _attend(q, k, memory)[
                0
            ],
            "the scores are not divided by √d_k": scores.softmax(-1) @ v,
            "you divided by √d_model; the scores sum d_k products, so divide by √d_k": (
                (scores / 5**0.5).softmax(-1) @ v
            ),
            "you divided by d_k; divide by √d_k": (scores / 3).softmax(-1) @ v,
            "you multiplied by √d_k; divide by it": (scores * 3**0.5).softmax(-1) @ v,
            "the softmax runs over the queries; each query's weights over the keys should "
            "sum to one": (scores / 3**0.5).softmax(0) @ v,
            "the softmax is missing": scores / 3**0.5 @ v,
            "those are the weights; multiply them by the values": _attend(q, k, v)[1],
            "the softmax comes before the values: it makes weights of the scores": (
                (scores / 3**0.5 @ v).softmax(-1)
            ),
            "the result is transposed: expected (T, d_v)": right.T,
        },
    )


def _judge_sources(answer, x, memory, w_q, w_k, w_v):
    """What an answer that fails where T differs from S gets wrong, seen where they agree; None if
    that does not show."""

    def made(keys, values, queries):
        return _attend(queries @ w_q, keys @ w_k, values @ w_v)[0]

    mixed = "keys and values come from one sentence, memory; "
    try:
        return diagnose(
            answer(x, memory, w_q, w_k, w_v),
            made(memory, memory, x),
            {
                mixed + "your keys come from x": made(x, memory, x),
                mixed + "your values come from x": made(memory, x, x),
                "your values are the words of x as they are; they need memory and w_v": (
                    _attend(x @ w_q, memory @ w_k, x)[0]
                ),
                mixed + "your keys come from x and your queries from memory": made(
                    x, memory, memory
                ),
                mixed + "your values come from x and your queries from memory": made(
                    memory, x, memory
                ),
            },
        )
    except (RuntimeError, ValueError):
        return None
