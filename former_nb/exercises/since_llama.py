"Exercises of the deep dive on what changed since Llama."

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("since_llama.1")
def cache_bytes(n, windows, n_kv_heads, d_k, size):
    # ? How many tokens does each layer keep? What if a window is longer than the text?
    # ? A global layer keeps n tokens, a local one the smaller of n and its window.
    # ? Each token kept leaves a key and a value, d_k numbers each, for each of n_kv_heads heads.
    tokens = 0
    for window in windows:
        if window is None:
            tokens += n
            #! a global layer, `None`, keeps all n tokens
            # ~ tokens += 0
        else:
            tokens += min(n, window)
            #! a text shorter than the window fills only a part of it
            # ~ tokens += window
            #! a local layer forgets what is beyond its window
            # ~ tokens += n
            #! a layer keeps the smaller of n and its window, not the larger
            # ~ tokens += max(n, window)
    return 2 * tokens * n_kv_heads * d_k * size
    #! keys and values: two of each
    # ~ return tokens * n_kv_heads * d_k * size
    #! a number takes `size` bytes
    # ~ return 2 * tokens * n_kv_heads * d_k
    #! each of the n_kv_heads heads has a key and a value
    # ~ return 2 * tokens * d_k * size
    #! a key has d_k numbers
    # ~ return 2 * tokens * n_kv_heads * size


@exercise("since_llama.2")
def add_sink(y, scores, sink):
    # ? Without the sink the denominator is Z, with it Z + e^s. By what is y multiplied?
    # ? Z / (Z + e^s) is a sigmoid. Of what?
    # ? y · sigmoid(ln Z - s), with ln Z = scores.logsumexp(dim=-1, keepdim=True), s for each head.
    log_z = scores.logsumexp(dim=-1, keepdim=True)  # (B, h, T, 1)
    #! e^s is compared with the sum of all e^score, not with the largest alone
    # ~ log_z = scores.amax(dim=-1, keepdim=True)
    #! the scores are missing: a sink takes little where a key fits well
    # ~ log_z = 0
    #! the sum of the scores isn't the logarithm of the sum of their powers
    # ~ log_z = scores.masked_fill(scores.isinf(), 0).sum(dim=-1, keepdim=True)
    #! Z is the sum of e^score, not of the scores
    # ~ log_z = scores.masked_fill(scores.isinf(), 0).sum(dim=-1, keepdim=True).log()
    #! e^score is too large for a number where a score is large; `logsumexp` and a sigmoid stay in range
    # ~ log_z = scores.exp().sum(dim=-1, keepdim=True)
    # ~ (log_z - sink[:, None, None]).sigmoid() -> log_z / (log_z + sink[:, None, None].exp())
    return y * (log_z - sink[:, None, None]).sigmoid()
    #! that is what the sink takes away; the rest of the output stays
    # ~ return y * (sink[:, None, None] - log_z).sigmoid()
    #! the sink is a score: it comes into the denominator as e^s
    # ~ return y * log_z.exp() / (log_z.exp() + sink[:, None, None])
    #! y was divided by Z already; multiply by Z before you divide by Z + e^s
    # ~ return y / (log_z.exp() + sink[:, None, None].exp())
    #! nothing has changed: y is the output without the sink
    # ~ return y


@exercise("since_llama.3")
def absorb(w_q, w_k, w_v, w_o):
    # ? Write q · k with q = w_q x and k = w_k c, and look for what meets c.
    # ? q · k = (w_k.T @ w_q @ x) · c. Values are averaged before w_v, which changes nothing.
    # ? (w_k.T @ w_q, w_o @ w_v).
    query = w_k.T @ w_q  # (d_latent, d_model)
    #! the query is compared with keys, so w_k belongs to it, not w_v
    # ~ query = w_v.T @ w_q
    #! the root of d_k belongs to attention; leave the matrix without it
    # ~ query = w_k.T @ w_q / w_q.shape[0] ** 0.5
    #! that makes latents of outputs; the query is made from x by w_q
    # ~ query = w_k.T @ w_o.T
    #! the query's matrix is turned: x comes in on the right, and d_latent numbers come out
    # ~ query = w_q.T @ w_k
    output = w_o @ w_v  # (d_model, d_latent)
    #! what is averaged becomes values by w_v, not keys by w_k
    # ~ output = w_o @ w_k
    #! w_q makes queries; the output is made by w_o
    # ~ output = w_q.T @ w_v
    #! the output's matrix is turned: latents come in on the right, and d_model numbers come out
    # ~ output = w_v.T @ w_o.T
    return query, output
    #! those are the two matrices in the other order: that of the query comes first
    # ~ return output, query
    #! two matrices are asked for, also that of the output
    # ~ return query
    #! both are turned: `nn.Linear` multiplies by the transposed, so w_q is (d_k, d_model)
    # ~ return query.T, output.T


# ---------------------------------------------------------------- questions


@question("since_llama", "since_llama.1")
def ask_cache_bytes(draw):
    fixed = [
        (20, [30, 8, None], 3, 16, 4),
        (1000, [64, None, 2048, 64], 5, 12, 4),
        (7, [None], 1, 3, 1),
        (7, [4], 2, 5, 2),
        (9, [9, 9, 5], 1, 1, 2),
        (50, [None, None], 4, 8, 2),
    ]
    for _ in range(5):
        windows = [draw.random.choice([None, draw.size(1, 90)]) for _ in range(draw.size(1, 6))]
        rest = draw.size(2, 8), draw.size(3, 30), draw.random.choice([1, 2, 4])
        fixed.append((draw.size(1, 90), windows, *rest))
    for n, windows, n_kv_heads, d_k, size in fixed:
        what = (
            f"n = {n}, windows = {windows}, n_kv_heads = {n_kv_heads}, d_k = {d_k}, size = {size}"
        )
        yield Call(what, (n, windows, n_kv_heads, d_k, size))


@question("since_llama", "since_llama.2")
def ask_add_sink(draw):
    for B, h, T, S, d_v in [(2, 3, 4, 5, 6), (1, 4, 3, 7, 2), (3, 1, 1, 6, 5), (2, 5, 6, 2, 3)]:
        scores = draw.numbers(B, h, T, S, scale=2.0)
        scores[..., 1:] = scores[..., 1:].masked_fill(draw.mask(B, h, T, S - 1), float("-inf"))
        y = scores.softmax(dim=-1) @ draw.numbers(B, h, S, d_v)
        yield Call(f"y {(B, h, T, d_v)}, S = {S}", (y, scores, draw.numbers(h, scale=2.0)))
    scores = draw.numbers(2, 3, 4, 5, scale=100.0)
    y = scores.softmax(dim=-1) @ draw.numbers(2, 3, 5, 6)
    yield Call("large scores", (y, scores, draw.numbers(3, scale=100.0)))


@question("since_llama", "since_llama.3")
def ask_absorb(draw):
    for d_model, d_k, d_latent in [(7, 5, 6), (4, 3, 9), (8, 6, 2)]:
        matrices = (
            draw.numbers(d_k, d_model),
            draw.numbers(d_k, d_latent),
            draw.numbers(d_k, d_latent),
            draw.numbers(d_model, d_k),
        )
        yield Call(f"d_model = {d_model}, d_k = {d_k}, d_latent = {d_latent}", matrices)
