"""Judges of the exercises on the page 03_attention_variants, and the mistakes that they know."""

import torch
from einops import rearrange

from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import diagnose, exercise


@exercise(
    "equivalent_forms.1",
    "Which of the four matrices shrink, and which of them does the cache come from?",
    "W_q and W_o keep d² numbers, W_k and W_v have d²/4. Which heads do the scores pair?",
)
def judge_equivalent_forms_1(answer):
    "Judge three factors: parameters, cache, FLOPs of scores and averages."
    mistakes = {
        "W_k and W_v shrink to a quarter, but W_q and W_o keep their size": (0.25, 0.25, 1.0),
        "W_o has parameters, too, and keeps its size": (0.5, 0.25, 1.0),
        "all 16 heads of queries still meet every key, so the scores cost what they did": (
            (0.625, 0.25, 0.25)
        ),
        "only W_k, W_v and the cache shrink; W_q and W_o stay, and so do the scores": (
            (0.25, 0.25, 0.25)
        ),
        "those are the factors the other way round, before over after": (1.6, 4.0, 1.0),
        "the parameters are right; the cache holds the keys and values of 4 heads, not of 16": (
            (0.625, 1.0, 1.0)
        ),
    }
    wrong = {words: torch.tensor(factors) for words, factors in mistakes.items()}
    return diagnose(answer, [0.625, 0.25, 1.0], wrong)


def folded_with(
    layer: MultiHeadAttention,
    x: torch.Tensor,  # (B, T, d_model)
    keep: torch.Tensor,  # (B, T) boolean, True = a word
    mistake: str = "",  # a value of `FOLDING`; none if left out
) -> torch.Tensor:  # (B, T, d_model)
    "Multi-head attention with folded heads and padding, with one mistake made on purpose."
    q, k, v = (
        rearrange(layer.split(w(x)), "B h T d -> (B h) T d")
        for w in (layer.w_q, layer.w_k, layer.w_v)
    )
    h = len(q) // len(x)
    real = keep.repeat(h, 1) if mistake == "repeat" else keep.repeat_interleave(h, dim=0)
    real = real[:, :, None] if mistake == "queries" else real[:, None]  # (B * h, 1, T)
    hidden = real if mistake == "inverted" else ~real
    scores = q @ k.mT / layer.d_k**0.5  # (B * h, T, T)
    if mistake not in ("after", "ignored"):
        scores = scores.masked_fill(hidden, -1e9 if mistake == "queries" else float("-inf"))
    weights = scores.softmax(dim=-1)
    weights = weights.masked_fill(hidden, 0) if mistake == "after" else weights
    back = "(h B)" if mistake == "unfolded" else "(B h)"
    return layer.w_o(rearrange(weights @ v, f"{back} T d -> B T (h d)", h=h))


FOLDING = {  # what an answer says about itself, and the mistake that makes it
    "`repeat` lists the sentences 0 1 2 0 1 2, but the folded batch is 0 0 1 1 2 2: use "
    "`repeat_interleave`": "repeat",
    "you masked the queries; padding belongs on the last axis, that of the keys": "queries",
    "the mask is the wrong way round: True in `keep` means that the word is real": "inverted",
    "you set weights to zero after the softmax, so rows no longer sum to one; mask the scores": (
        "after"
    ),
    "the padding is still attended to": "ignored",
    "you folded as (B h) and unfolded as (h B), so heads of different sentences are mixed": (
        "unfolded"
    ),
}


@exercise(
    "equivalent_forms.2",
    "The scores have shape (B * h, T, T). Which sentence does row i of the folded batch belong to?",
    "Rows 0 … h - 1 belong to sentence 0: "
    "`keep.repeat_interleave(h, dim=0)`, with an axis of size 1",
)
def judge_equivalent_forms_2(answer):
    "Judge folded heads with padding."
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(3)
        layer, x = MultiHeadAttention(12, 2).eval(), 2 * torch.randn(3, 5, 12)
        keep = torch.tensor([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0], [0, 1, 1, 1, 1]], dtype=torch.bool)
        wrong = {words: folded_with(layer, x, keep, how) for words, how in FOLDING.items()}
        nan = folded_with(layer, x, keep, "queries").masked_fill(~keep[..., None], float("nan"))
        wrong["rows are NaN, because you masked the queries; mask the last axis, the keys"] = nan
        return diagnose(answer(layer, x, keep.clone()), layer(x, mask=keep[:, None, None]), wrong)


def merge_with(
    a: torch.Tensor,  # (T, d_v)
    alpha: torch.Tensor,  # (T,)
    b: torch.Tensor,  # (T, d_v)
    beta: torch.Tensor,  # (T,)
    mistake: str = "",  # 'mean', 'sum', 'undivided', 'logs', 'swapped', 'axis'; none if left out
) -> torch.Tensor:  # (T, d_v)
    "Join the attention over two blocks of keys, with one mistake made on purpose."
    logs = torch.stack([alpha, beta])  # (2, T)
    shares = {
        "mean": torch.full_like(logs, 0.5),
        "sum": torch.ones_like(logs),
        "undivided": logs.exp(),
        "logs": logs / logs.sum(0),
        "swapped": logs.softmax(0).flip(0),
        "axis": logs.softmax(1),
    }.get(mistake, logs.softmax(0))  # (2, T)
    return shares[0][:, None] * a + shares[1][:, None] * b


MERGING = {
    "a plain mean: a block with larger scores weighs more": "mean",
    "a plain sum: each block's weights sum to one, so those of both sum to two": "sum",
    "you have e^α a + e^β b; divide by e^α + e^β": "undivided",
    "α and β are logarithms; it is e^α and e^β that weigh the blocks": "logs",
    "each block got the weight of the other": "swapped",
    "the softmax ran over the queries; it is the two blocks that share": "axis",
}


@exercise(
    "equivalent_forms.3",
    "Multiply a by e^α: what sum is left? Which sum should divide everything in the end?",
    "(e^α a + e^β b) / (e^α + e^β), and both exponentials may be divided by the larger one first",
)
def judge_equivalent_forms_3(answer):
    "Judge the step from one block of keys to the next, for ordinary and for large scores."
    for scale in (1, 100):
        make = torch.Generator("cpu").manual_seed(3)
        scores = scale * (1 + torch.randn(5, 7, generator=make))
        values, inputs = torch.randn(7, 3, generator=make), []
        for s, v in zip(scores.split([4, 3], 1), values.split([4, 3])):
            inputs += [s.softmax(-1) @ v, s.logsumexp(-1)]
        got = answer(*(t.clone() for t in inputs))
        if scale == 100 and isinstance(got, torch.Tensor) and not got.isfinite().all():
            return "right, but e^α overflows where α is large; subtract the larger of α and β first"
        wrong = {words: merge_with(*inputs, how) for words, how in MERGING.items()}
        problem = diagnose(got, scores.softmax(-1) @ values, wrong)
        if problem:
            return problem
