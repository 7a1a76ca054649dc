"""Judges of the exercises on the page 12_since_llama, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, exercise


@exercise(
    "since_llama.1",
    "How many tokens does each layer keep? What if a window is longer than the text?",
    "A global layer keeps n tokens, a local one the smaller of n and its window.",
    "Each token kept leaves a key and a value, d_k numbers each, for each of n_kv_heads heads.",
)
def judge_since_llama_1(answer):
    for n, windows, heads, d_k, size in (
        (20, [30, 8, None], 3, 16, 4),
        (1000, [64, None, 2048, 64], 5, 12, 4),
    ):
        token = 2 * heads * d_k * size  # bytes in one layer
        local = [window for window in windows if window is not None]
        n_global = len(windows) - len(local)
        short = sum(min(n, window) for window in local)
        right = token * (n * n_global + short)
        problem = diagnose(
            answer(n, list(windows), heads, d_k, size),
            right,
            {
                "keys and values: two of each": right // 2,
                "a text shorter than the window fills only a part of it": (
                    token * (n * n_global + sum(local))
                ),
                "a local layer forgets what is beyond its window": token * n * len(windows),
                "a global layer, `None`, keeps all n tokens": token * short,
                "a layer keeps the smaller of n and its window, not the larger": (
                    token * (n * n_global + sum(max(n, window) for window in local))
                ),
                "a number takes `size` bytes": right // size,
                "each of the n_kv_heads heads has a key and a value": right // heads,
                "a key has d_k numbers": right // d_k,
            },
        )
        if problem:
            return problem


@exercise(
    "since_llama.2",
    "Without the sink the denominator is Z, with it Z + e^s. By what is y multiplied?",
    "Z / (Z + e^s) is a sigmoid. Of what?",
    "y · sigmoid(ln Z - s), with ln Z = scores.logsumexp(dim=-1, keepdim=True), s for each head.",
)
def judge_since_llama_2(answer):
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(2, 3, 4, 5, generator=generator)  # (B, h, T, S)
    scores[..., 0, 3:] = float("-inf")
    v = torch.randn(2, 3, 5, 6, generator=generator)
    sink = torch.tensor([-1.0, 0.5, 2.0])  # (h,)
    y = scores.softmax(dim=-1) @ v
    s = sink[:, None, None]
    log_z = scores.logsumexp(dim=-1, keepdim=True)  # (B, h, T, 1)
    seen = scores.masked_fill(scores.isinf(), 0).sum(dim=-1, keepdim=True)
    return diagnose(
        call_answer(answer, y, scores, sink),
        y * (log_z - s).sigmoid(),
        {
            "that is what the sink takes away; the rest of the output stays": (
                y * (s - log_z).sigmoid()
            ),
            "e^s is compared with the sum of all e^score, not with the largest alone": (
                y * (scores.amax(dim=-1, keepdim=True) - s).sigmoid()
            ),
            "the scores are missing: a sink takes little where a key fits well": y * (-s).sigmoid(),
            "the sum of the scores isn't the logarithm of the sum of their powers": (
                y * (seen - s).sigmoid()
            ),
            "the sink is a score: it comes into the denominator as e^s": (
                y * log_z.exp() / (log_z.exp() + s)
            ),
            "y was divided by Z already; multiply by Z before you divide by Z + e^s": (
                y / (log_z.exp() + s.exp())
            ),
            "nothing has changed: y is the output without the sink": y,
        },
    )


@exercise(
    "since_llama.3",
    "Write q · k with q = w_q x and k = w_k c, and look for what meets c.",
    "q · k = (w_k.T @ w_q @ x) · c. Values are averaged before w_v, which changes nothing.",
    "(w_k.T @ w_q, w_o @ w_v).",
)
def judge_since_llama_3(answer):
    generator = torch.Generator().manual_seed(0)
    d_model, d_k, d_latent = 7, 5, 6
    w_q = torch.randn(d_k, d_model, generator=generator)
    w_k = torch.randn(d_k, d_latent, generator=generator)
    w_v = torch.randn(d_k, d_latent, generator=generator)
    w_o = torch.randn(d_model, d_k, generator=generator)
    result = call_answer(answer, w_q, w_k, w_v, w_o)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return "two matrices are asked for: `return for_queries, for_output`"
    query, output = result
    right_query = w_k.T @ w_q  # (d_latent, d_model)
    right_output = w_o @ w_v  # (d_model, d_latent)
    if getattr(query, "shape", None) == right_output.shape and query.allclose(right_output):
        return "those are the two matrices in the other order: that of the query comes first"
    problem = diagnose(
        query,
        right_query,
        {
            "the query is compared with keys, so w_k belongs to it, not w_v": w_v.T @ w_q,
            "the root of d_k belongs to attention; leave the matrix without it": (
                right_query / d_k**0.5
            ),
            "that makes latents of outputs; the query is made from x by w_q": w_k.T @ w_o.T,
        },
    )
    if problem:
        return f"the query's matrix: {problem}"
    problem = diagnose(
        output,
        right_output,
        {
            "what is averaged becomes values by w_v, not keys by w_k": w_o @ w_k,
            "w_q makes queries; the output is made by w_o": w_q.T @ w_v,
        },
    )
    if problem:
        return f"the output's matrix: {problem}"
