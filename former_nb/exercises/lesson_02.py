"Lesson 02: attention."

import math
from functools import partial

import torch

from ..grading.ask import Call, question


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
