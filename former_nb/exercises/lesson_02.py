"Lesson 02: attention."

import math
from functools import partial

import torch

from ..grading.ask import Call, exercise, question


def repeat_kv(t, q):  # (B, g, S, d) for queries (B, h, T, d_k): each head of t serves h / g of them
    # ? With 6 heads of queries and 2 of keys, heads 0, 1 and 2 of the queries read head 0 of the keys.
    # ? `repeat_interleave` along dim=1 repeats each head before the next one comes.
    if t.ndim < 4 or t.shape[1] == q.shape[1]:
        #! t may have no axis of heads, (S, d) or (B, S, d), as in lesson 02; then axis 1 isn't one of
        #! heads, and t comes back as it is
        # ~ if t.shape[1] == q.shape[1]:
        return t
    return t.repeat_interleave(q.shape[1] // t.shape[1], dim=1)
    #! neighbouring heads of queries share a head of keys, 0 0 1 1, which `repeat_interleave` gives;
    #! `repeat` puts the heads one behind the other, 0 1 0 1, so a head reads another head's keys
    # ~ return t.repeat(1, q.shape[1] // t.shape[1], 1, 1)
    #! the words are repeated, because dim=2 is theirs; the heads are dim=1
    # ~ return t.repeat_interleave(q.shape[1] // t.shape[1], dim=2)
    #! the features of each vector are repeated, because dim=-1 is theirs; the heads are dim=1
    # ~ return t.repeat_interleave(q.shape[1] // t.shape[1], dim=-1)
    #! without `dim` all numbers are laid in one row before they are repeated; the heads are dim=1
    # ~ return t.repeat_interleave(q.shape[1] // t.shape[1])
    #! each head is repeated g times, but it has to serve h / g heads of queries: divide the number of
    #! q's heads by the number of t's
    # ~ return t.repeat_interleave(t.shape[1], dim=1)
    #! each head is repeated h times, which makes g times too many; it serves h / g heads of queries
    # ~ return t.repeat_interleave(q.shape[1], dim=1)
    #! nothing is repeated, so g heads meet h heads of queries; each has to come h / g times
    # ~ return t
    #! every head of queries gets the first head of t; it has to get the one of its own group
    # ~ return t[:, :1].expand(-1, q.shape[1], -1, -1)
    #! the number of repetitions comes from the queries' words, q.shape[2]; their heads are q.shape[1]
    # ~ return t.repeat_interleave(q.shape[2] // t.shape[1], dim=1)


def attention_weights(q, k, mask=None, is_causal=False):  # (..., T, d_k), (..., S, d_k)
    # ? The table of scores has a row for each query and a column for each key.
    scores = q @ repeat_kv(k, q).mT / math.sqrt(q.shape[-1])  # (..., T, S)
    #! not yet: since lesson 12 several heads of queries may share a head of keys, so first give each
    #! head of queries its own: `repeat_kv(k, q)`
    # ~ scores = q @ k.mT / math.sqrt(q.shape[-1])
    #! neighbouring heads of queries share a head of keys, 0 0 1 1; yours gives 0 1 0 1, so most heads
    #! read another group's keys
    # ~ scores = q @ k.repeat(1, q.shape[1] // k.shape[1], 1, 1).mT / math.sqrt(q.shape[-1])
    #! the scores aren't divided by √d_k: they grow with the width, and the softmax saturates
    # ~ scores = q @ repeat_kv(k, q).mT
    #! divide by √d_k, not by d_k: a sum of d_k products has a spread of √d_k
    # ~ scores = q @ repeat_kv(k, q).mT / q.shape[-1]
    #! that divides by d_k / 2; the root of d_k is d_k ** 0.5
    # ~ scores = q @ repeat_kv(k, q).mT / (q.shape[-1] * 0.5)
    #! the root is that of the number of keys; a score sums d_k products, so take q.shape[-1]
    # ~ scores = q @ repeat_kv(k, q).mT / math.sqrt(k.shape[-2])
    #! that multiplies by √d_k; divide
    # ~ scores = q @ repeat_kv(k, q).mT * math.sqrt(q.shape[-1])
    #! queries and keys are exchanged
    # ~ scores = k @ q.mT / math.sqrt(q.shape[-1])
    T, S = scores.shape[-2:]
    allowed = torch.ones(T, S, dtype=torch.bool, device=q.device)
    if is_causal:
        allowed = allowed.tril(S - T)
        #! the last query stands at the last key, so with fewer queries than keys the triangle
        #! begins further right: tril(S - T)
        # ~ allowed = allowed.tril()
        #! a word may attend to itself, too; yours begins one key too early
        # ~ allowed = allowed.tril(S - T - 1)
        #! causal means that earlier keys are seen, the lower triangle
        # ~ allowed = allowed.triu(S - T)
        #! is_causal changes nothing
        # ~ pass
        #! with more queries than keys is_causal changes nothing
        # ~ allowed = allowed.tril(S - T) if T <= S else allowed
        #! with fewer queries than keys is_causal changes nothing
        # ~ allowed = allowed.tril(S - T) if T >= S else allowed
    if mask is not None:
        allowed = allowed & mask
        #! True in a mask means that a query may attend; yours hides what is True
        # ~ allowed = allowed & ~mask
        #! mask and is_causal both have to allow a key: &
        # ~ allowed = allowed | mask
        #! the mask changes nothing
        # ~ pass
        #! with a mask, is_causal changes nothing; both have to allow a key
        # ~ allowed = mask.expand(scores.shape)
    empty = ~allowed.any(dim=-1, keepdim=True)  # queries that may attend to nothing
    scores = scores.masked_fill(~allowed & ~empty, float("-inf"))
    return scores.softmax(dim=-1).masked_fill(empty, 0.0)
    #! a query that may attend to nothing gets weights of 0; yours gets NaN, since a softmax over
    #! -inf alone divides 0 by 0, and one NaN spreads to every word behind it
    # ~2 return scores.masked_fill(~allowed, float("-inf")).softmax(dim=-1)
    #! the weights of a query that may attend to nothing are 0, but its gradients are NaN, because
    #! nan_to_num mends numbers and not the softmax behind them; let that row keep its scores, and
    #! set its weights to 0 after the softmax
    # ~2 bias = torch.zeros_like(scores).masked_fill(~allowed, float("-inf"))
    #| return (scores + bias).softmax(dim=-1).nan_to_num(0.0)
    #! a query that may attend to nothing gets weights of 0; yours spreads its weight evenly, since
    #! a softmax over equal numbers is even, however low they are
    # ~2 return scores.masked_fill(~allowed, -1e9).softmax(dim=-1)
    #! a query that may attend to nothing gets weights of 0; yours attends to everything
    # ~2 return scores.masked_fill(~allowed & ~empty, float("-inf")).softmax(dim=-1)
    #! 1e-9 is nearly 0, and a score of 0 gets weight like any other; a forbidden one is -inf
    # ~2 return scores.masked_fill(~allowed, 1e-9).softmax(dim=-1)
    #! a score of 0 isn't forbidden, since exp(0) is 1; a forbidden one is -inf, before the softmax
    # ~2 return scores.masked_fill(~allowed & ~empty, 0.0).softmax(dim=-1).masked_fill(empty, 0.0)
    #! the mask comes after the softmax, so the weights that are left no longer sum to 1; fill the
    #! scores with -inf before it
    # ~2 return scores.softmax(dim=-1).masked_fill(~allowed, 0.0)
    #! the mask is added to the scores, and True adds 1; a forbidden score becomes -inf
    # ~2 return (scores + allowed).softmax(dim=-1)
    #! the softmax runs over the queries; the weights of one query, the last axis, sum to 1
    # ~ return scores.softmax(dim=-2).masked_fill(empty, 0.0)
    #! dim=1 is an axis of heads here; the keys are the last axis, dim=-1
    # ~ return scores.softmax(dim=1 if scores.ndim > 1 else -1).masked_fill(empty, 0.0)
    #! a sigmoid looks at each score alone; the weights of a query sum to 1: take the softmax
    # ~ return scores.sigmoid().masked_fill(empty, 0.0)
    #! the softmax is missing
    # ~ return scores.masked_fill(empty, 0.0)


def attention(q, k, v, mask=None, is_causal=False):
    return attention_weights(q, k, mask, is_causal) @ repeat_kv(v, q)
    #! not yet: since lesson 12 several heads of queries may share a head of values, so first give each
    #! head of queries its own: `repeat_kv(v, q)`
    # ~ return attention_weights(q, k, mask, is_causal) @ v
    #! neighbouring heads of queries share a head of values, 0 0 1 1; yours gives 0 1 0 1, so most heads
    #! mix another group's values
    # ~ return attention_weights(q, k, mask, is_causal) @ v.repeat(1, q.shape[1] // v.shape[1], 1, 1)
    #! neighbouring heads of queries share a head of keys and values, 0 0 1 1; yours gives 0 1 0 1 for
    #! both, so most heads read another group's
    # ~ n = q.shape[1] // k.shape[1]
    #| return attention_weights(q, k.repeat(1, n, 1, 1), mask, is_causal) @ v.repeat(1, n, 1, 1)
    #! those are the weights; multiply them by the values
    # ~ return attention_weights(q, k, mask, is_causal)
    #! queries and keys are exchanged
    # ~ return attention_weights(k, q, mask, is_causal) @ repeat_kv(v, q)
    #! that mixes the keys; mix the values
    # ~ return attention_weights(q, k, mask, is_causal) @ k
    #! is_causal is not passed on
    # ~ return attention_weights(q, k, mask) @ repeat_kv(v, q)
    #! the mask is not passed on
    # ~ return attention_weights(q, k, None, is_causal) @ repeat_kv(v, q)
    #! mask and is_causal are not passed on
    # ~ return attention_weights(q, k) @ repeat_kv(v, q)
    #! a query that may attend to nothing gets zeros; yours gets NaN, since a softmax over -inf
    #! alone divides 0 by 0
    # ~ w = attention_weights(q, k, mask, is_causal)
    #| return torch.where(w.sum(-1, keepdim=True) == 0, torch.nan, w) @ repeat_kv(v, q)
    #! a query that may attend to nothing gets zeros; yours gets the mean of all values, since a
    #! softmax over equal numbers is even
    # ~ w = attention_weights(q, k, mask, is_causal)
    #| return torch.where(w.sum(-1, keepdim=True) == 0, 1 / w.shape[-1], w) @ repeat_kv(v, q)
    #! F.scaled_dot_product_attention takes either a mask or is_causal; make one mask of both
    # ~ return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=is_causal)
    #! the scores aren't divided by √d_k
    # ~ return attention_weights(q * math.sqrt(q.shape[-1]), k, mask, is_causal) @ repeat_kv(v, q)
    #! with fewer queries than keys the triangle begins further right: tril(S - T)
    # ~ S, T = k.shape[-2], q.shape[-2]
    #| past = torch.ones(T, S, dtype=torch.bool).tril()
    #| both = past if mask is None else past & mask
    #| return attention_weights(q, k, both if is_causal else mask) @ repeat_kv(v, q)


# ---------------------------------------------------------------- exercises


@exercise("02.1")
def my_attention(q, k, v):  # (T, d_k), (S, d_k), (S, d_v)
    # ? Start with the table of scores. Which product of q (T, d_k) and k (S, d_k) has the shape (T, S)?
    # ? Divide the scores by √d_k. Then each row of the table needs a softmax over its keys, the last axis.
    # ? scores = q @ k.T / k.shape[-1] ** 0.5, then scores.softmax(dim=-1) @ v
    scores = q @ k.T / k.shape[-1] ** 0.5  # (T, S)
    #! the scores are not divided by √d_k
    # ~ scores = q @ k.T
    #! you divided by d_k; divide by √d_k
    # ~ scores = q @ k.T / k.shape[-1]
    #! you divided by √3, and 3 is the d_k of the example; take the root of k.shape[-1]
    # ~ scores = q @ k.T / 3**0.5
    #! you divided by d_k / 2, which is √d_k where d_k is 4; divide by the root of d_k
    # ~ scores = q @ k.T / (k.shape[-1] * 0.5)
    #! you divided by √S, and S is the number of keys; the scores sum d_k products
    # ~ scores = q @ k.T / len(k) ** 0.5
    #! you divided by √T, and T is the number of queries; the scores sum d_k products
    # ~ scores = q @ k.T / len(q) ** 0.5
    #! q @ k does not fit, (T, d_k) and (S, d_k); transpose k, so that d_k meets d_k
    # ~ scores = q @ k / k.shape[-1] ** 0.5
    #! q.T @ k does not fit, (d_k, T) and (S, d_k); transpose k, not q
    # ~ scores = q.T @ k / k.shape[-1] ** 0.5
    #! your table is (S, T), keys by queries; the values need (T, S), queries by keys
    # ~ scores = k @ q.T / k.shape[-1] ** 0.5
    #! q, k and v have two axes here, 0 and 1; k.T swaps them, and the last one is dim=-1
    # ~ scores = q @ k.transpose(1, 2) / k.shape[-1] ** 0.5
    #! torch.bmm wants three axes, and q, k and v have two here; use `@`
    # ~ scores = torch.bmm(q, k.T) / k.shape[-1] ** 0.5
    #! `reshape` is no transpose; k.T turns rows into columns
    # ~ scores = q @ k.reshape(k.shape[1], k.shape[0]) / k.shape[-1] ** 0.5
    weights = scores.softmax(dim=-1)  # (T, S)
    #! the softmax runs over the queries; each query's weights over the keys should sum to 1
    # ~ weights = scores.softmax(dim=0)
    #! the softmax is missing
    # ~ weights = scores
    #! the softmax needs its axis: softmax(dim=-1)
    # ~ weights = torch.softmax(scores)
    #! you divided after the softmax; divide the scores before it
    # ~ weights = (q @ k.T).softmax(dim=-1) / k.shape[-1] ** 0.5
    return weights @ v  # (T, d_v)
    #! those are the weights; multiply them by the values
    # ~ return weights
    #! that mixes the keys; mix the values
    # ~ return weights @ k
    #! the values come second: weights (T, S) @ v (S, d_v)
    # ~ return v @ weights


@exercise("02.2")
def spread_of_the_scaled_scores():
    # ? What is the variance of one product of two independent numbers with mean 0?
    # ? Each product has variance 2² · 2² = 16. There are 256 of them; variances add, standard deviations do not.
    return (256 * (2**2 * 2**2)) ** 0.5 / 256**0.5
    #! 64 is right before scaling; now divide by √d_k
    # ~ return 64
    #! that is the variance of the scaled scores; the standard deviation is its square root
    # ~ return 16
    #! 2 counts the spread of one factor; the product of q and k has both
    # ~ return 2
    #! 1 holds for components with variance 1; here they have variance 4
    # ~ return 1
    #! that divides by d_k; divide by √d_k
    # ~ return 64 / 256
    #! that is the variance before scaling
    # ~ return 256 * 16


@exercise("02.3")
def score_gradient(weights, v, g):
    # ? Go back one step first: y = w v, so what is ∂L/∂w? It has shape (T, S).
    # ? With d = g @ v.T, row i of the answer is Σ_l d_il · w_il (δ_lj − w_ij). Split the sum at the minus sign.
    # ? w_ij · (d_ij − Σ_l d_il w_il)
    d = g @ v.T  # (T, S)
    #! g @ v does not fit, (T, d_v) and (S, d_v); transpose v, so that d_v meets d_v
    # ~ d = g @ v
    return weights * (d - (d * weights).sum(dim=-1, keepdim=True))  # (T, S)
    #! that is ∂L/∂w; the slope of the softmax is still to come
    # ~ return d
    #! you used only the diagonal part w_i of the slope; the term −w_i w_j is missing
    # ~ return weights * d
    #! you used only w_i(1 − w_i), the diagonal of the slope; every weight depends on every score of
    #! its row
    # ~ return weights * (1 - weights) * d
    #! that is only the diagonal of the Jacobian; multiply the Jacobian by ∂L/∂w = g vᵀ
    # ~ return weights * (1 - weights)
    #! the factor w in front is missing
    # ~ return d - (d * weights).sum(dim=-1, keepdim=True)
    #! the sum runs over the queries; the softmax of a row depends on the keys of that row
    # ~ return weights * (d - (d * weights).sum(dim=0, keepdim=True))
    #! the sum over ∂L/∂w must be weighted with w
    # ~ return weights * (d - d.sum(dim=-1, keepdim=True))
    #! the mean of ∂L/∂w must be weighted with w
    # ~ return weights * (d - d.mean(dim=-1, keepdim=True))
    #! the sum is taken away as it is; it has the factor w in front, too
    # ~ return weights * d - (d * weights).sum(dim=-1, keepdim=True)
    #! the weights come in twice in what is summed; it is Σ d w
    # ~ return weights * (weights * d - (weights * d).sum(dim=-1, keepdim=True))
    #! a sum over the keys has the shape (T,), which does not fit under (T, S); `keepdim=True` makes
    #! it (T, 1)
    # ~ return weights * (d - (d * weights).sum(dim=-1))
    #! the sign is turned
    # ~ return weights * ((d * weights).sum(dim=-1, keepdim=True) - d)
    #! the scores here come before the softmax and after the scale: do not divide by √d_v
    # ~ return weights * (d - (d * weights).sum(dim=-1, keepdim=True)) / v.shape[-1] ** 0.5
    #! that is the gradient of the values; the exercise asks for that of the scores
    # ~ return weights.T @ g


@exercise("02.4")
def cross_head(x, memory, w_q, w_k, w_v):
    # ? Which of the three projections read x, and which read memory? The output has one row per word of x.
    # ? Scores: (x @ w_q) @ (memory @ w_k).T, divided by the square root of their inner width; softmax over the words of memory.
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v  # (T, d_k), (S, d_k), (S, d_v)
    #! keys and values come from memory; yours come from x
    # ~ q, k, v = x @ w_q, x @ w_k, x @ w_v
    #! queries come from x; yours come from memory, so you have an output for each word of memory
    # ~ q, k, v = memory @ w_q, memory @ w_k, memory @ w_v
    #! queries come from x, keys and values from memory; yours are swapped
    # ~ q, k, v = memory @ w_q, x @ w_k, x @ w_v
    #! keys and values come from one sentence, memory; your keys come from x
    # ~ q, k, v = x @ w_q, x @ w_k, memory @ w_v
    #! keys and values come from one sentence, memory; your values come from x
    # ~ q, k, v = x @ w_q, memory @ w_k, x @ w_v
    #! keys and values come from one sentence, memory; your keys come from x and your queries from
    #! memory
    # ~ q, k, v = memory @ w_q, x @ w_k, memory @ w_v
    #! your values are the words of x as they are; they need memory and w_v
    # ~ q, k, v = x @ w_q, memory @ w_k, x
    #! the values need w_v; yours are the words of memory as they are
    # ~ q, k, v = x @ w_q, memory @ w_k, memory
    #! the values need w_v; yours use w_k
    # ~ q, k, v = x @ w_q, memory @ w_k, memory @ w_k
    #! w_q, w_k and w_v are matrices here, not layers: write x @ w_q
    # ~ q, k, v = w_q(x), w_k(memory), w_v(memory)
    #! w_q is transposed; the matrices are (d_model, d_k), so x @ w_q is right as it is
    # ~ q, k, v = x @ w_q.T, memory @ w_k.T, memory @ w_v.T
    weights = (q @ k.T / k.shape[-1] ** 0.5).softmax(dim=-1)  # (T, S)
    #! the scores are not divided by √d_k
    # ~ weights = (q @ k.T).softmax(dim=-1)
    #! you divided by √d_model; the scores sum d_k products, so divide by √d_k
    # ~ weights = (q @ k.T / x.shape[-1] ** 0.5).softmax(dim=-1)
    #! you divided by d_k; divide by √d_k
    # ~ weights = (q @ k.T / k.shape[-1]).softmax(dim=-1)
    #! the softmax runs over the queries; each query's weights over the keys should sum to 1
    # ~ weights = (q @ k.T / k.shape[-1] ** 0.5).softmax(dim=0)
    #! the softmax is missing
    # ~ weights = q @ k.T / k.shape[-1] ** 0.5
    return weights @ v  # (T, d_v)
    #! those are the weights; multiply them by the values
    # ~ return weights


# ---------------------------------------------------------------- questions


def heads(draw, values, shape, T, S, d=7, scale=1.0, dtype=torch.float32):
    "Queries, keys and, if asked for, values."
    sizes = [(T, d), (S, d), (S, 5)][: 2 + values]
    return tuple(draw.numbers(*shape, *size, scale=scale, dtype=dtype) for size in sizes)


def ask_attention(draw, values):
    for shape, T, S in [((2, 3), 5, 5), ((), 3, 3), ((2,), 4, 6), ((2, 2), 1, 4)]:
        yield Call(f"q {(*shape, T, 7)}, k {(*shape, S, 7)}", heads(draw, values, shape, T, S))
    large = heads(draw, values, (2,), 4, 6, scale=30.0)
    yield Call("scores of a hundred and more", large, slopes=False)
    yield Call("float64", heads(draw, values, (2, 3), 4, 6, dtype=torch.float64))
    for n in draw.rounds:
        T, S, d = draw.size(1, 6), draw.size(1, 6), draw.size(1, 9)
        shape = [(), (3,), (2, 3)][n % 3]
        yield Call(f"q {(*shape, T, d)}, k {(*shape, S, d)}", heads(draw, values, shape, T, S, d))


question("02", "attention_weights")(partial(ask_attention, values=False))
question("02", "attention")(partial(ask_attention, values=True))


@question("02", "02.1")
def ask_my_attention(draw):
    for T, S, d_k, d_v in [(6, 7, 5, 2), (3, 3, 4, 4), (1, 4, 6, 3), (4, 1, 2, 5), (5, 8, 9, 6)]:
        q, k, v = draw.numbers(T, d_k), draw.numbers(S, d_k), draw.numbers(S, d_v)
        yield Call(f"q {(T, d_k)}, k {(S, d_k)}, v {(S, d_v)}", (q, k, v))
    for _ in draw.rounds:
        T, S, d_k, d_v = (draw.size(1, 8) for _ in range(4))
        q, k, v = draw.numbers(T, d_k), draw.numbers(S, d_k), draw.numbers(S, d_v)
        yield Call(f"q {(T, d_k)}, k {(S, d_k)}, v {(S, d_v)}", (q, k, v))


@question("02", "02.3")
def ask_score_gradient(draw):
    sizes = [(6, 7, 2), (4, 4, 3), (1, 5, 4), (5, 1, 3), (3, 2, 1)]
    for T, S, d_v in [*sizes, *(tuple(draw.size(2, 8) for _ in range(3)) for _ in draw.rounds)]:
        weights = draw.numbers(T, S).softmax(dim=-1)
        what = f"weights {(T, S)}, v {(S, d_v)}, g {(T, d_v)}"
        yield Call(what, (weights, draw.numbers(S, d_v), draw.numbers(T, d_v)))


@question("02", "02.4")
def ask_cross_head(draw):
    sizes = [(6, 7, 5, 3, 2), (4, 4, 6, 3, 2), (1, 3, 4, 2, 5), (5, 1, 3, 4, 2), (3, 5, 4, 4, 4)]
    for T, S, d, d_k, d_v in [*sizes, *([draw.size(1, 8) for _ in range(5)] for _ in draw.rounds)]:
        words = draw.numbers(T, d), draw.numbers(S, d)
        matrices = [draw.numbers(d, width, scale=0.7) for width in (d_k, d_k, d_v)]
        what = f"x {(T, d)}, memory {(S, d)}, w_q {(d, d_k)}, w_v {(d, d_v)}"
        yield Call(what, (*words, *matrices))
