"""Judges of the exercises on the page 09_classifier, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, exercise, explain_error, same_numbers


@exercise(
    "09.1",
    "`real[..., None]` has the shape (B, T, 1) and broadcasts over the numbers of each vector.",
    "`x.masked_fill(~real[..., None], 0.0)` puts zeros at the padding. Then sum over `dim=1`.",
    "Divide by `real.sum(dim=1, keepdim=True).clamp(min=1)`, the number of tokens, at least 1.",
)
def judge_09_1(answer):
    "Masked mean pooling of rows with four, one, six and no tokens."
    x = torch.randn(4, 6, 5, generator=torch.Generator("cpu").manual_seed(0), device="cpu") + 1
    n = torch.tensor([[4], [1], [6], [0]], device="cpu")  # (B, 1)
    real = torch.arange(6, device="cpu") < n  # (B, T)
    total = x.masked_fill(~real[..., None], 0.0).sum(dim=1)  # (B, d_model)
    right = total / n.clamp(min=1)
    try:
        got = answer(x.clone(), real.clone())
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return explain_error(
            error,
            {
                "expected scalar type": "x holds floats and `real` booleans; make numbers of "
                "them, `real.float()`",
                "Boolean value of Tensor": "`max` compares two numbers; `.clamp(min=1)` works on "
                "each number of a tensor",
                "tensor a (5) must match the size of tensor b (4)": "the sums are (B, d_model) and "
                "the numbers of tokens (B,); `keepdim=True` makes them (B, 1)",
                "must match the size": "x is (B, T, d_model) and `real` (B, T); `real[..., None]` "
                "has an axis for the numbers of a vector",
            },
        )
    if got is None:
        return "your function returned nothing; end it with `return` and the means (B, d_model)"
    if got is ...:
        return "the three dots are still there; put your lines in their place"
    shape = tuple(getattr(got, "shape", ()))
    if shape == (4, 6):
        return "you summed over the numbers of each vector; sum over the tokens, `dim=1`"
    if shape == (6, 5):
        return "you summed over the texts; sum over the tokens, `dim=1`"
    if shape == (5,):
        return "that is one vector for all texts; each text has its own mean"
    padding = x.masked_fill(real[..., None], 0.0).sum(dim=1)
    mistakes = {
        "that is the mean of all vectors; leave the padding out": x.mean(dim=1),
        "that is the mean of the padding; the mask is the wrong way round": (
            padding / (6 - n).clamp(min=1)
        ),
        "the sum is right; divide by the number of real tokens, not by T": total / 6,
        "that is the sum; divide it by the number of real tokens": total,
        "the padding is still in the sum": x.sum(dim=1) / n.clamp(min=1),
        "you divide by all tokens of the batch; each text has its own number": total / n.sum(),
        "you divide by one more than there are tokens; `clamp(min=1)` divides by at least 1": (
            total / (n + 1)
        ),
        "you take the mean over the numbers of each vector; take it over the tokens, `dim=1`": (
            x.mean(dim=-1)
        ),
        "that is the first vector of each text; take the mean": x[:, 0],
        "the padding is summed; `masked_fill` fills where its mask is True, so give it "
        "`~real[..., None]`": padding / n.clamp(min=1),
        "those are the largest numbers, of the padding, too; take the mean": x.amax(dim=1),
        "those are the largest numbers of the real tokens; take their mean": (
            x.masked_fill(~real[..., None], float("-inf")).amax(dim=1)
        ),
        "those are the largest numbers with zeros at the padding; take the mean": (
            x.masked_fill(~real[..., None], 0.0).amax(dim=1)
        ),
    }
    shape = isinstance(got, torch.Tensor) and got.shape == right.shape
    if shape and got[3].isnan().any() and same_numbers(got[:3], right[:3]):
        return "a row of padding alone gives NaN, 0/0; divide by at least 1"
    return diagnose(got, right, mistakes)


@exercise(
    "09.2",
    "Which positions does the pool read? And which tokens does the encoder's output at these "
    "positions depend on?",
    "In both directions every position depends on all tokens. Under a causal mask position i "
    "depends on tokens 1 to i.",
    "Under a causal mask the first position depends on itself only; the last, which is in "
    "the mean, on all.",
)
def judge_09_2(answer):
    "Four numbers."
    return diagnose(
        answer,
        [5, 5, 1, 5],
        {
            "*first* is the first token; the last is the one that attends to all under a "
            "causal mask": [5, 5, 5, 1],
            "a token attends to itself, with a mask and without": [4, 4, 0, 4],
        },
        places=(
            "*mean* in both directions: the mean reads all five positions, and every token "
            "stands at one of them",
            "*first* in both directions: it reads one position, but that position attends to "
            "all tokens",
            "*first* under a causal mask: the first position attends to itself and to no "
            "later token, however many blocks there are",
            "*mean* under a causal mask: each token reaches the mean at its own position, if "
            "nowhere else",
        ),
    )


@exercise(
    "09.3",
    "Write down Bayes' rule twice, once for the balanced texts and once for the world. What "
    "do the two have in common?",
    "P(text | k) is the same in both. Among balanced texts q_k is proportional to P(text | "
    "k) · 1/K.",
    "In the world the probability is proportional to P(text | k) · π_k, so to q_k · π_k. "
    "Then let each row sum to one.",
)
def judge_09_3(answer):
    "A function of probabilities and shares."
    g = torch.Generator("cpu").manual_seed(0)
    for K in (3, 5):
        q, shares = (torch.rand(*size, generator=g, device="cpu") for size in ((4, K), (K,)))
        q, shares = q / q.sum(-1, keepdim=True), (shares + 0.1) / (shares + 0.1).sum()
        scaled = q * shares
        norm = lambda p: p / p.sum(-1, keepdim=True)
        right = norm(scaled)
        try:
            got = answer(q.clone(), shares.clone())
        except RuntimeError as error:
            return explain_error(
                error,
                {
                    "tensor a (4) must match": "shares are (K,), as the last axis of q, and fit as "
                    "they are",
                    "must match the size": "the sums of the rows are (B,); `keepdim=True` makes "
                    "them (B, 1)",
                },
            )
        if isinstance(got, torch.Tensor) and got.shape == q.shape[:1]:
            return "one number for each text came back; each text has K probabilities"
        problem = diagnose(
            got,
            right,
            {
                "the shares stand on the wrong side: dividing by them is the way from the "
                "world to balanced classes": norm(q / shares),
                "the shares stand on the wrong side, and the rows do not sum to one": q / shares,
                "that sums to one over the texts, for each class; each text's probabilities "
                "must": scaled / scaled.sum(0),
                "a softmax is not needed: these are probabilities "
                "already; divide by the sum": scaled.softmax(-1),
                "the shares were added to logarithms; there it is `shares.log()` that is added": (
                    norm(q * shares.exp())
                ),
                "the probabilities came back as they were": q,
                "that is the shares alone: what the text says is lost": shares.expand_as(q),
                "an average of the two is no use of Bayes' rule: multiply": (q + shares) / 2,
                "logits and probabilities are mixed: to logits one adds log π, to "
                "probabilities one multiplies π": (q + shares.log()).softmax(-1),
                "the shares are multiplied twice": norm(q * shares**2),
                "those are odds; multiply by the shares, not by π / (1 - π)": norm(
                    q * shares / (1 - shares)
                ),
                "those are logarithms; a probability was asked for": norm(scaled).log(),
                "the sum of the two is no use of Bayes' rule: multiply": q + shares,
                "that multiplies by the shares' logarithms": norm(q * shares.log()),
            },
        )
        if (
            problem
            and isinstance(got, torch.Tensor)
            and got.shape == right.shape
            and same_numbers(norm(got), right)
        ):
            return "the rows do not sum to one: divide each by its sum"
        if problem is not None:
            return problem


def _by_query(x, real, query, scale=None, axis=-1):
    "The right answer, for rows that have a token; with `scale` or `axis` changed, a wrong one."
    scores = x @ query / (x.shape[-1] ** 0.5 if scale is None else scale)  # (B, T)
    weights = torch.where(real, scores, -torch.inf).softmax(axis).nan_to_num(0)  # (B, T)
    return (weights[..., None] * x).sum(1)  # (B, d_model)


@exercise(
    "09.4",
    "It is attention with one query: scores, a mask, a softmax over the tokens, an average.",
    "`scores.masked_fill(~real, -torch.inf).softmax(-1)` gives pads a weight of 0. What does "
    "it give where all are pads?",
    "`masked_softmax` of lesson 02 gives zeros for a row without tokens; so does "
    "`nan_to_num`, or to multiply by `real.any(-1)`.",
)
def judge_09_4(answer):
    "A function of vectors, of what is real, and of a query."
    g = torch.Generator("cpu").manual_seed(0)
    x, query = (torch.randn(*size, generator=g, device="cpu") for size in ((4, 5, 7), (7,)))
    n = torch.tensor([[5], [2], [1], [0]], device="cpu")
    real = torch.arange(5, device="cpu") < n  # (B, T)
    right, every = _by_query(x, real, query), torch.ones_like(real)
    try:
        got = answer(x.clone(), real.clone(), query.clone())
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return explain_error(
            error,
            {
                "tensor b (4)": "scores and `real` are both (B, T); the mask needs no further axis",
                "tensor b (7)": "the weights are (B, T) and x is (B, T, d_model); `weights[..., "
                "None]` has an axis for the numbers of a vector",
                "batch2": "`x @ query` sums over d_model; the other way round the axes don't meet",
            },
        )
    if not isinstance(got, torch.Tensor):
        return f"expected a tensor, got {type(got).__name__}"
    if got.shape == right.shape and got[0].isnan().any() and not got[1:].isnan().any():
        return (
            "the mask is the wrong way round: `real` is True where there is a token, so "
            "fill the scores where it is False"
        )
    if got.shape == right.shape and got[3].isnan().any():
        return "a row without tokens gives NaN: its softmax is over nothing; it must give zeros"
    if tuple(got.shape) == (4, 4, 7):
        return (
            "each text's weights met the vectors of every text; `weights[:, None] @ x` and "
            "`(weights[..., None] * x).sum(1)` stay within a text"
        )
    if got.shape == real.shape:
        return (
            "one number for each token came back: if they are the weights, sum the tokens' "
            "vectors with them"
        )
    scores = x @ query / 7**0.5  # (B, T)
    weights, exp = scores.softmax(-1), scores.exp() * real
    problem = diagnose(
        got,
        right,
        {
            "pads have weights: mask the scores before the softmax": _by_query(x, every, query),
            "the mask is the wrong way round: the weights go to the pads; fill the scores "
            "where `real` is False": _by_query(x, ~real, query),
            "pads are left out after the softmax, so the weights of the others do not sum to "
            "one: mask the scores before": ((weights * real)[..., None] * x).sum(1),
            "scores that are 0 still weigh e⁰: fill those of the pads with -inf": (
                (scores * real).softmax(-1)[..., None] * x
            ).sum(1),
            "the scores are not divided by √d_model": _by_query(x, real, query, 1.0),
            "the scores are divided by d_model, not by its root": _by_query(x, real, query, 7.0),
            "the scores are multiplied by √d_model: divide": _by_query(x, real, query, 7**-0.5),
            "that divides by the root of the number of tokens, not of d_model": _by_query(
                x, real, query, 5**0.5
            ),
            "those are the scores themselves: the weights are their softmax": (
                (scores * real)[..., None] * x
            ).sum(1),
            "the weights do not sum to one: divide the exponentials by their sum": (
                exp[..., None] * x
            ).sum(1),
            "the softmax runs over the texts of the batch, not over the tokens": _by_query(
                x, real, query, axis=0
            ),
            "that is the plain mean: the query has no part in it": (
                (x * real[..., None]).sum(1) / real.sum(-1, keepdim=True).clamp(min=1)
            ),
            "that is the token of the largest weight; average with all weights": x[
                range(4), torch.where(real, scores, -torch.inf).argmax(-1)
            ],
            "a weighted sum is wanted; yours is divided by the number of tokens once more": (
                right / real.sum(-1, keepdim=True).clamp(min=1)
            ),
        },
    )
    if problem and got.shape == right.shape and same_numbers(got[:3], right[:3]):
        return (
            "a row without tokens must give zeros: where all scores are alike, however low, "
            "the softmax is a plain mean of the pads"
        )
    if problem is None:
        loud = torch.where(real[..., None], x, 1e4)
        if not same_numbers(answer(loud, real, query), right):
            return "what stands at a pad must not matter, whatever it is"
    return problem
