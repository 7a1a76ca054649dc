"Lesson 01: self-attention."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("01.1")
def my_self_attention(x):  # (B, T, d_model)
    # ? Which product of x (B, T, d_model) and its transpose has the shape (B, T, T)?
    # ? x.transpose(1, 2) swaps the last two axes. Then each row of the scores needs a softmax.
    # ? scores = torch.bmm(x, x.transpose(1, 2)), then torch.bmm(scores.softmax(dim=2), x)
    scores = torch.bmm(x, x.transpose(1, 2))  # (B, T, T)
    #! x @ x does not fit, (T, d_model) and (T, d_model); transpose the second
    # ~ scores = torch.bmm(x, x)
    #! transpose(0, 1) swaps sentences and words; transpose(1, 2) swaps the last two axes
    # ~ scores = torch.bmm(x, x.transpose(0, 1))
    #! transpose(0, 1) swaps sentences and words; transpose(1, 2) swaps the last two axes
    # ~ scores = x @ x.transpose(0, 1)
    #! x.T turns all three axes around; x.transpose(1, 2) or x.mT swaps the last two
    # ~ scores = torch.bmm(x, x.permute(2, 1, 0))
    #! x.T turns all three axes around; x.transpose(1, 2) or x.mT swaps the last two
    # ~ scores = x @ x.permute(2, 1, 0)
    #! x.transpose(1, 2) @ x compares features, (d_model, d_model); for (T, T) the transpose comes
    #! second
    # ~ scores = torch.bmm(x.transpose(1, 2), x)
    #! both products are turned: x.transpose(1, 2) comes second in the scores, and the weights come
    #! first in the output
    # ~ scores = torch.bmm(x.transpose(1, 2), x)
    # ~ bmm(weights, x) -> bmm(x, weights)
    #! reshape is no transpose; x.transpose(1, 2) swaps the axes
    # ~ scores = torch.bmm(x, x.reshape(len(x), x.shape[2], x.shape[1]))
    #! you divided by √d_model; this lesson leaves the scores as they are
    # ~ scores = torch.bmm(x, x.transpose(1, 2)) / x.shape[2] ** 0.5
    weights = scores.softmax(dim=2)  # over the keys
    #! the softmax runs over the queries; it must run over the keys, the last axis
    # ~ weights = scores.softmax(dim=1)
    #! the softmax runs over the batch, as F.softmax does without `dim`; it must run over the keys,
    #! the last axis
    # ~ weights = scores.softmax(dim=0)
    #! the softmax needs its axis: softmax(dim=2)
    # ~ weights = torch.softmax(scores)
    #! the softmax needs its axis: softmax(dim=2)
    # ~ weights = scores.softmax()
    #! the softmax is missing
    # ~ weights = scores
    #! the exponentials are not divided by their sum, so the weights do not sum to 1
    # ~ weights = scores.exp()
    #! the exponential of a large score is infinite, and inf / inf is NaN; `softmax` takes the
    #! largest score off first: scores.softmax(dim=2)
    # ~ weights = scores.exp() / scores.exp().sum(dim=2, keepdim=True)
    #! the exponentials are divided by the sum of the whole table; each row has a sum of its own
    # ~ weights = scores.exp() / scores.exp().sum()
    #! you divided the scores by their sum; a softmax divides their exponentials by theirs
    # ~ weights = scores / scores.sum(dim=2, keepdim=True)
    return torch.bmm(weights, x)
    #! the weights come first in the second product: torch.bmm(weights, x)
    # ~ return torch.bmm(x, weights)
    #! the second product mixes the words as they are; x is not transposed there
    # ~ return torch.bmm(weights, x.transpose(1, 2))
    #! those are the weights; multiply them by the words
    # ~ return weights
    #! those are the scores; a softmax and the words are still to come
    # ~ return scores


@exercise("01.2")
def weight_among_five_equal_words():
    # ? Are the five scores of one word different from each other?
    # ? A softmax of equal numbers shares equally.
    return 1 / 5
    #! you left the word itself out; it attends to itself, too
    # ~ return 1 / 4
    #! that is the weight on oneself when nobody else counts; here all five words look alike
    # ~ return 1
    #! a weight of exactly 0 takes a score of minus infinity; a dot product never gives that
    # ~ return 0
    #! 1/6 belongs to the sentences above; here are five words
    # ~ return 1 / 6
    #! the table has 25 weights, but each row of five sums to 1
    # ~ return 1 / 25


@exercise("01.3")
def others_only(x):
    # ? Which scores should the softmax never see?
    # ? exp(-inf) is 0: fill the diagonal of the scores with -inf before the softmax.
    scores = x @ x.transpose(1, 2)  # (B, T, T)
    #! you divided the scores by √d_model; this lesson leaves them as they are
    # ~ scores = x @ x.transpose(1, 2) / x.shape[2] ** 0.5
    itself = torch.eye(x.shape[1], dtype=torch.bool)
    #! the diagonal is as long as a sentence has words, x.shape[1]; yours is as long as x is wide
    # ~ itself = torch.eye(x.shape[2], dtype=torch.bool)
    #! the diagonal is as long as a sentence has words, x.shape[1]; yours is as long as the batch
    # ~ itself = torch.eye(x.shape[0], dtype=torch.bool)
    #! the later words are hidden, too; only the diagonal has to go
    # ~ itself = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu()
    #! the wrong side is hidden: each word looks at itself alone
    # ~ itself = ~torch.eye(x.shape[1], dtype=torch.bool)
    #! `masked_fill` wants truths, True or False; torch.eye(T, dtype=torch.bool) has them
    # ~ itself = torch.eye(x.shape[1])
    return scores.masked_fill(itself, float("-inf")).softmax(dim=-1)
    #! nothing is hidden: each word still looks at itself
    # ~ return scores.softmax(dim=-1)
    #! the diagonal is zero, but the rows no longer sum to 1: forbid before the softmax, not after
    # ~ return scores.softmax(dim=-1).masked_fill(itself, 0)
    #! you divided by the sums of the columns; each row should sum to 1
    # ~ weights = scores.softmax(dim=-1).masked_fill(itself, 0)
    # | return weights / weights.sum(dim=1, keepdim=True)
    #! a sum over the keys has the shape (B, T); `keepdim=True` makes it (B, T, 1)
    # ~ weights = scores.softmax(dim=-1).masked_fill(itself, 0)
    # | return weights / weights.sum(dim=-1)
    #! a score of 0 still gets a share, because exp(0) is 1; what is forbidden has a score of -inf
    # ~ return scores.masked_fill(itself, 0).softmax(dim=-1)
    #! 1 was taken off the diagonal's scores; what is forbidden has a score of -inf
    # ~ return (scores - 1.0 * itself).softmax(dim=-1)
    #! a score of -1 is low, but not forbidden; what is forbidden has a score of -inf
    # ~ return scores.masked_fill(itself, -1).softmax(dim=-1)
    #! all is NaN, since 0 times infinity is, and so is a share of infinity; fill the diagonal alone
    #! with -inf, by `masked_fill`
    # ~ return (scores + itself * float("-inf")).softmax(dim=-1)
    #! the columns sum to 1 where the rows should: the softmax must run over the keys, the last axis
    # ~ return scores.masked_fill(itself, float("-inf")).softmax(dim=1)
    #! the softmax runs over the batch; it must run over the keys, the last axis
    # ~ return scores.masked_fill(itself, float("-inf")).softmax(dim=0)
    #! `fill_diagonal_` wants axes of one length, and the scores are (B, T, T); `masked_fill` with
    #! `torch.eye(T, dtype=torch.bool)` takes each sentence by itself
    # ~ return scores.fill_diagonal_(float("-inf")).softmax(dim=-1)
    #! the first axis has the sentences; word i of every sentence has its diagonal at [:, i, i]
    # ~ weights = scores.softmax(dim=-1)
    # | for i in range(x.shape[1]):
    # |     weights[i, i] = 0
    # | return weights
    #! the first axis has the sentences; word i of every sentence has its diagonal at [:, i, i]
    # ~ for i in range(x.shape[1]):
    # |     scores[i, i] = float("-inf")
    # | return scores.softmax(dim=-1)
    #! that is the output; hand in the weights
    # ~ return scores.masked_fill(itself, float("-inf")).softmax(dim=-1) @ x


@exercise("01.4")
def limit(x):
    # ? What do the scores become when t is tiny?
    # ? Equal scores give equal weights, so each output is the same average.
    return x.mean(dim=1, keepdim=True).expand_as(x)  # (B, T, d_model)
    #! the weights do not vanish: a softmax of zeros still sums to 1
    # ~ return torch.zeros_like(x)
    #! that is the limit of large t, where each word keeps to itself
    # ~ return x
    #! t = 1 is plain self-attention; as t goes to 0 the scores vanish
    # ~ return (x @ x.mT).softmax(dim=-1) @ x
    #! expected an output for each word: the mean, repeated T times
    # ~ return x.mean(dim=1, keepdim=True)
    #! expected an output for each word: the mean, repeated T times along axis 1
    # ~ return x.mean(dim=1)
    #! you averaged over the features; average over the words
    # ~ return x.mean(dim=2, keepdim=True).expand_as(x)
    #! you averaged over the batch; average over the words of each sentence
    # ~ return x.mean(dim=0, keepdim=True).expand_as(x)
    #! that is the sum; the weights are 1/T each
    # ~ return x.sum(dim=1, keepdim=True).expand_as(x)
    #! each vector is divided by T, but the sum over the words is missing
    # ~ return x / x.shape[1]
    #! that divides by d_model; the weights are 1/T each
    # ~ return x.sum(dim=1, keepdim=True).expand_as(x) / x.shape[2]
    #! the average leaves the word itself out; its weight is 1/T, too
    # ~ return (x.sum(dim=1, keepdim=True) - x) / (x.shape[1] - 1)
    #! those are the weights, 1/T each; hand in the average of the vectors
    # ~ return torch.full((len(x), x.shape[1], x.shape[1]), 1 / x.shape[1])


# ---------------------------------------------------------------- questions


def sentences(draw, shortest):
    "Calls with x; in one the sentences, words and features are as many, so that all products fit."
    for shape in [(2, 5, 3), (4, 4, 4), (3, 4, 6), (1, 6, 2)]:
        yield Call(f"x {shape}", (draw.numbers(*shape, scale=0.8),))
    for _ in draw.rounds:
        x = draw.numbers(draw.size(1, 4), draw.size(shortest, 7), draw.size(1, 5), scale=0.8)
        yield Call(f"x {tuple(x.shape)}", (x,))


@question("01", "01.1")
def ask_my_self_attention(draw):
    yield from sentences(draw, 1)
    yield Call("two long vectors", (draw.numbers(1, 2, 256),))  # e to the 256 is infinite here


@question("01", "01.3")
def ask_others_only(draw):
    yield from sentences(draw, 2)  # a word alone has nobody to attend to
    yield Call("short vectors", (draw.numbers(3, 2, 4, scale=0.1),))  # a score of -10 isn't low


@question("01", "01.4")
def ask_limit(draw):
    yield from sentences(draw, 1)
