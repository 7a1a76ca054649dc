"""Judges of the exercises on the page 01_self_attention, and the mistakes that they know."""

import math

import torch

from ..base.exercises import call_answer, diagnose, exercise, explain_error, unnamed


@exercise(
    "01.1",
    "Which product of x (B, T, d_model) and its transpose has the shape (B, T, T)?",
    "x.transpose(1, 2) swaps the last two axes. Then each row of the scores needs a softmax.",
    "scores = torch.bmm(x, x.transpose(1, 2)), then torch.bmm(scores.softmax(dim=2), x)",
)
def judge_01_1(answer):
    "Judge self-attention without a loop, on two sentences of five words with three features."
    x = torch.randn(2, 5, 3, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    scores = x @ x.mT
    weights = scores.softmax(-1)
    try:
        given = call_answer(answer, x)
    except RuntimeError:
        sentence = _name_product(answer)
        if sentence is None:
            raise
        return sentence
    except TypeError as error:
        return explain_error(error, {"softmax()": "the softmax needs its axis: softmax(dim=2)"})
    if given is None:
        return "your function returned nothing; end it with `return` and the output (B, T, d_model)"
    if given is ...:
        return "the three dots are still there; put your lines in their place"
    mistakes = {
        "the softmax runs over the queries; it must run over the keys, the last axis": (
            scores.softmax(1) @ x
        ),
        "the softmax runs over the batch, as F.softmax does without `dim`; it must run over the "
        "keys, the last axis": scores.softmax(0) @ x,
        "the softmax is missing": scores @ x,
        "the exponentials are not divided by their sum, so the weights do not sum to 1": (
            scores.exp() @ x
        ),
        "you divided the scores by their sum; a softmax divides their exponentials by theirs": (
            scores / scores.sum(-1, keepdim=True) @ x
        ),
        "a sigmoid looks at each score by itself; a softmax makes shares of one of a row": (
            scores.sigmoid() @ x
        ),
        "the softmax runs twice": weights.softmax(-1) @ x,
        "you divided by √d_model; this lesson leaves the scores as they are": (
            (scores / 3**0.5).softmax(-1) @ x
        ),
        "both products are turned: x.transpose(1, 2) comes second in the scores, and the weights "
        "come first in the output": x @ (x.mT @ x).softmax(-1),
        "those are the scores; a softmax and the words are still to come": scores,
        "those are the weights; multiply them by the words": weights,
        "the result is transposed: expected (B, T, d_model)": (weights @ x).mT,
        "reshape is no transpose; x.transpose(1, 2) swaps the axes": (
            (x @ x.reshape(2, 3, 5)).softmax(-1) @ x
        ),
        "that is x itself; nothing was mixed": x,
    }
    return diagnose(given, weights @ x, mistakes)


def _name_product(answer):
    """Which product does not fit, found where every product fits; None if that does not show.

    In x (4, 4, 4) the sentences, the words and the features are as many.
    """
    x = torch.randn(4, 4, 4, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
    given = call_answer(answer, x)
    if not isinstance(given, torch.Tensor):
        return None
    weights = (x @ x.mT).softmax(-1)
    mistakes = {
        "x @ x does not fit, (T, d_model) and (T, d_model); transpose the second": (
            (x @ x).softmax(-1) @ x
        ),
        "transpose(0, 1) swaps sentences and words; transpose(1, 2) swaps the last two axes": (
            (x @ x.transpose(0, 1)).softmax(-1) @ x
        ),
        "x.T turns all three axes around; x.transpose(1, 2) or x.mT swaps the last two": (
            (x @ x.permute(2, 1, 0)).softmax(-1) @ x
        ),
        "x.transpose(1, 2) @ x compares features, (d_model, d_model); for (T, T) the transpose "
        "comes second": (x.mT @ x).softmax(-1) @ x,
        "the weights come first in the second product: torch.bmm(weights, x)": x @ weights,
        "the second product mixes the words as they are; x is not transposed there": weights @ x.mT,
    }
    for sentence, wrong in mistakes.items():
        if given.shape == wrong.shape and torch.allclose(given, wrong, atol=1e-5):
            return sentence
    return None


@exercise(
    "01.2",
    "Are the five scores of one word different from each other?",
    "A softmax of equal numbers shares equally.",
)
def judge_01_2(answer):
    "Judge the weight that one of five equal words gives to another."
    mistakes = {
        "that is the weight on oneself when nobody else counts; here all five words look "
        "alike": 1.0,
        "1/6 belongs to the sentences above; here are five words": 1 / 6,
        "you left the word itself out; it attends to itself too": 0.25,
        "the weights are shares of one, not sums": 5.0,
        "the five scores are alike, whatever they are, so e cancels": math.e / 5,
        "five words share one; 1/2 would be two words": 0.5,
        "the table has 25 weights, but each row of five sums to one": 1 / 25,
        "a softmax divides by a sum of five, and takes no root": 5**-0.5,
        "each row of five sums to one: that is what is left to the four others": 0.8,
        "a weight of exactly 0 takes a score of minus infinity; a dot product never gives "
        "that": 0.0,
    }
    return diagnose(answer, 0.2, mistakes)


_AXES = (
    "the first axis has the sentences, here two; word i of every sentence has its diagonal at "
    "[:, i, i]"
)


@exercise(
    "01.3",
    "Which scores should the softmax never see?",
    "exp(-inf) is 0: fill the diagonal of the scores with -inf before the softmax.",
)
def judge_01_3(answer):
    "Judge the weights of words that do not look at themselves."
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(1))
    scores, diagonal = x @ x.transpose(1, 2), torch.eye(5, dtype=torch.bool)
    hidden = scores.masked_fill(diagonal, float("-inf"))
    right = hidden.softmax(-1)
    zeroed = scores.softmax(-1).masked_fill(diagonal, 0)
    row_off = scores.softmax(-1)
    row_forbidden = scores.clone()
    for i in range(2):
        row_off[i, i] = 0
        row_forbidden[i, i] = float("-inf")
    mistakes = {
        "nothing is hidden: each word still looks at itself": scores.softmax(-1),
        "the diagonal is zero, but the rows no longer sum to one: forbid before the softmax, "
        "not after": zeroed,
        "you divided by the sums of the columns; each row should sum to one": (
            zeroed / zeroed.sum(1, keepdim=True)
        ),
        _AXES: row_off,
        _AXES + " (your rows of -inf became NaN)": row_forbidden.softmax(-1),
        "a score of 0 still gets a share, because exp(0) is 1": scores.masked_fill(
            diagonal, 0
        ).softmax(-1),
        "the columns sum to one where the rows should: the softmax must run over the keys, "
        "the last axis": hidden.softmax(1),
        "the softmax runs over the batch; it must run over the keys, the last axis": hidden.softmax(
            0
        ),
        "the wrong side is hidden: each word looks at itself alone": scores.masked_fill(
            ~diagonal, float("-inf")
        ).softmax(-1),
        "1 was taken off the diagonal's scores; what is forbidden has a score of -inf": (
            scores - torch.eye(5)
        ).softmax(-1),
        "the later words are hidden too; only the diagonal must go": scores.masked_fill(
            diagonal.cumsum(-1).bool(), float("-inf")
        ).softmax(-1),
        "you divided the scores by √d_model; this lesson leaves them as they are": (
            hidden / 3**0.5
        ).softmax(-1),
        "that is the output; hand in the weights": right @ x,
    }
    try:
        given = call_answer(answer, x)
        problem = diagnose(given, right, mistakes)
        if problem and "NaN" in problem and problem not in mistakes:
            rows = given.isnan().all(-1)
            if rows.any() and not rows.all():
                return unnamed(
                    "a word may attend to nothing at all in yours, which gives NaN, 0/0; only "
                    "the diagonal is forbidden"
                )
        return problem
    except (RuntimeError, IndexError) as error:
        return explain_error(
            error,
            {
                "all dimensions of input must be of equal length": (
                    "`fill_diagonal_` wants axes of one length, and the scores are (B, T, T); "
                    "`masked_fill` with `torch.eye(T, dtype=torch.bool)` takes each sentence by "
                    "itself"
                ),
                "index 2 is out of bounds for dimension 0 with size 2": _AXES,
                "tensor a (5) must match the size of tensor b (2) at non-singleton dimension 1": (
                    "a sum over the keys has the shape (B, T); `keepdim=True` makes it (B, T, 1)"
                ),
            },
        )


@exercise(
    "01.4",
    "What do the scores become when t is tiny?",
    "Equal scores give equal weights, so each output is the same average.",
)
def judge_01_4(answer):
    "Judge what attention becomes when all scores vanish."
    x = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(2))
    mean = x.mean(1, keepdim=True)
    mistakes = {
        "the weights do not vanish: a softmax of zeros still sums to one": torch.zeros_like(x),
        "that is the limit of large t, where each word keeps to itself": x,
        "t = 1 is plain self-attention; as t goes to 0 the scores vanish": (
            (x @ x.transpose(1, 2)).softmax(-1) @ x
        ),
        "expected an output for each word: the mean, repeated T times": mean,
        "expected an output for each word: the mean, repeated T times along axis 1": x.mean(1),
        "you averaged over the features; average over the words": x.mean(2, keepdim=True).expand_as(
            x
        ),
        "you averaged over the batch; average over the words of each sentence": x.mean(
            0, keepdim=True
        ).expand_as(x),
        "that is the sum; the weights are 1/T each": x.sum(1, keepdim=True).expand_as(x),
        "each vector is divided by T, but the sum over the words is missing": x / 5,
        "those are the weights, 1/T each; hand in the average of the vectors": torch.full(
            (2, 5, 5), 0.2
        ),
        "the result is transposed: expected (B, T, d_model)": mean.expand_as(x).transpose(1, 2),
    }
    return diagnose(call_answer(answer, x), mean.expand_as(x), mistakes)
