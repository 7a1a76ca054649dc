"""Lessons 02 to 06 in a reader's file: attention, heads, positions and the block."""

import torch
from torch import nn

from .questions import (
    D_FF,
    LONGEST,
    NO_DROPOUT_ON_THE_NETWORK,
    D,
    H,
    V,
    ask_dropout,
    ask_layer,
    dropouts,
    dropped,
    gradients,
    made,
    parts_of_block,
    see_less,
    small_blocks,
)
from .steps import NOT_WRITTEN, same_weights, step, unchanged

# ---------------------------------------------------------------- 02, 04 · attention, with masks


D_K, D_V = 7, 5  # the width of a key, whose root isn't its half, and of a value


def inputs(draw, values, shape, T, S):
    "q, k and, for `attention`, v."
    q, k = draw.numbers(*shape, T, D_K), draw.numbers(*shape, S, D_K)
    return (q, k, draw.numbers(*shape, S, D_V)) if values else (q, k)


def ask_attention(answer, draw, values):
    "Questions for `attention_weights` and `attention` without masks."
    for shape, T, S in [((), 3, 3), ((2,), 4, 6), ((2, 3), 5, 5), ((2, 2), 1, 4)]:
        given = inputs(draw, values, shape, T, S)
        said = f"q {(*shape, T, D_K)}, k {(*shape, S, D_K)}"
        yield said, lambda: unchanged(answer, *given)
        yield f"{said}, large scores", lambda: unchanged(answer, *(30 * t for t in given))
        yield f"{said}, float64", lambda: unchanged(answer, *(t.double() for t in given))

        def slopes(given=given):
            leaves = [t.double().requires_grad_() for t in given]
            return gradients(answer(*leaves), *leaves)

        yield f"{said}, the gradients", slopes


def ask_masks(answer, draw, values):
    "Questions with masks."
    for shape, T, S in [((), 3, 3), ((2,), 4, 6), ((2, 3), 5, 5), ((2, 2), 1, 4)]:
        given = inputs(draw, values, shape, T, S)
        said = f"q {(*shape, T, D_K)}, k {(*shape, S, D_K)}"
        yield f"{said}, is_causal=True", lambda: unchanged(answer, *given, is_causal=True)
        mask = draw.mask(T, S)
        mask[..., 0] = True
        yield f"{said}, mask", lambda: unchanged(answer, *given, mask)
        yield f"{said}, mask and is_causal", lambda: unchanged(answer, *given, mask, True)
    given = inputs(draw, values, (2, 3), 4, 6)
    padding = draw.mask(2, 1, 1, 6)
    yield "a mask of padding, (B, 1, 1, S)", lambda: unchanged(answer, *given, padding)
    nothing = torch.ones(4, 6, dtype=torch.bool)
    nothing[1] = False
    yield "a query that may attend to nothing", lambda: unchanged(answer, *given, nothing)
    q, *rest = given
    short = [q, *(t[..., :2, :] for t in rest)]
    yield "two keys for four queries, causal", lambda: unchanged(answer, *short, is_causal=True)
    exact = [t.double() for t in given]
    yield "float64", lambda: unchanged(answer, *exact, nothing)

    def slopes():
        leaves = [t.double().requires_grad_() for t in given]
        return gradients(answer(*leaves, nothing), *leaves)

    yield "the gradients", slopes


@step(
    "02",
    ("/ math.sqrt(q.shape[-1])", "", "the scores aren't divided by the root of d_k"),
    ("/ math.sqrt(q.shape[-1])", "/ q.shape[-1]", "divide by the root of d_k, not by d_k"),
    (
        "/ math.sqrt(q.shape[-1])",
        "/ (q.shape[-1] * 0.5)",
        "divide by the root of d_k, d_k ** 0.5; yours is its half",
    ),
    (
        "/ math.sqrt(q.shape[-1])",
        "/ math.sqrt(k.shape[-2])",
        "d_k is the width of a key, not the number of keys",
    ),
    (
        "/ math.sqrt(q.shape[-1])",
        "* math.sqrt(q.shape[-1])",
        "divide by the root of d_k; yours multiplies",
    ),
    (
        "scores.softmax(dim=-1)",
        "scores.softmax(dim=-2)",
        "the softmax runs over the keys, the last axis",
    ),
    (
        "scores.softmax(dim=-1)",
        "scores.sigmoid()",
        "the weights of a query sum to 1; take the softmax",
    ),
    early=True,
)
def attention_weights(answer, right, draw):
    yield from ask_attention(answer, draw, values=False)


@step(
    "02",
    ("@ v", "@ v.flip(-2)", "the weights meet the values in another order"),
    (
        "attention_weights(q, k, mask, is_causal)",
        "attention_weights(k, q, mask, is_causal)",
        "queries and keys are exchanged",
    ),
    (
        "attention_weights(q, k, mask, is_causal) @ v",
        "attention_weights(q, k, mask, is_causal)",
        "those are the weights; multiply them with the values",
    ),
    after=("attention_weights",),
    early=True,
)
def attention(answer, right, draw):
    yield from ask_attention(answer, draw, values=True)


def ask_masked(name, values, *mistakes, after):
    "A step of lesson 04 about a definition of lesson 02."

    def cases(answer, right, draw):
        yield from ask_masks(answer, draw, values)

    cases.__name__ = name
    step("04", *mistakes, after=after, name=f"{name} with masks")(cases)


ask_masked(
    "attention_weights",
    False,
    (
        "    if is_causal:\n        allowed = allowed.tril(S - T)\n"
        "    if mask is not None:\n        allowed = allowed & mask\n",
        "",
        NOT_WRITTEN,  # the arguments are there since lesson 02, and do nothing
    ),
    (
        "allowed.tril(S - T)",
        "allowed.tril()",
        "with T queries and S keys the last query sees all keys: tril(S - T)",
    ),
    ("allowed.tril(S - T)", "allowed.tril(S - T - 1)", "a word may attend to itself, too"),
    (
        "allowed.tril(S - T)",
        "allowed.triu()",
        "causal means that earlier keys are seen, the lower triangle",
    ),
    ("allowed.tril(S - T)", "allowed", "is_causal changes nothing"),
    (
        "allowed = allowed & mask",
        "allowed = allowed & ~mask",
        "True in a mask means that a query may attend",
    ),
    (
        "allowed = allowed & mask",
        "allowed = allowed | mask",
        "mask and is_causal both have to allow a key: &",
    ),
    ("allowed = allowed & mask", "pass", "the mask changes nothing"),
    (
        "allowed = allowed & mask",
        "allowed = mask.expand(scores.shape)",
        "with a mask, is_causal changes nothing",
    ),
    (
        'scores.masked_fill(~allowed & ~empty, float("-inf"))',
        "scores.masked_fill(~allowed & ~empty, 0.0)",
        "a score of 0 is not forbidden; -inf is, before the softmax",
    ),
    (".masked_fill(empty, 0.0)", "", "a query that may attend to nothing gets weights of 0"),
    after=("attention_weights",),
)


ask_masked(
    "attention",
    True,
    (
        "attention_weights(q, k, mask, is_causal)",
        "attention_weights(q, k, mask)",
        "is_causal is not passed on",
    ),
    (
        "attention_weights(q, k, mask, is_causal)",
        "attention_weights(q, k, None, is_causal)",
        "the mask is not passed on",
    ),
    (
        "attention_weights(q, k, mask, is_causal)",
        "attention_weights(q, k)",
        "mask and is_causal are not passed on",
    ),
    after=("attention", "attention_weights with masks"),
)


@step(
    "04",
    (
        "tokens != 0",
        "tokens == 0",
        "True means that a token may be attended to; yours is True at padding",
    ),
    ("[:, None, None]", "", "the mask needs the axes of heads and queries, (B, 1, 1, S)"),
    ("[:, None, None]", "[:, None]", "(B, 1, S) would meet heads as queries; make it (B, 1, 1, S)"),
    (
        "[:, None, None]",
        "[:, None, :, None]",
        "a mask hides keys, the last axis; yours hides queries",
    ),
    (
        "(tokens != 0)",
        "(tokens != 0).float()",
        "a mask of True and False is asked for, not of numbers",
    ),
    ("tokens != 0", "tokens > 1", "only token 0 is padding"),
)
def padding_mask(answer, right, draw):
    tokens = torch.tensor([[1, 5, 2, 0, 0], [1, 4, 4, 4, 2]])
    yield "tokens (2, 5)", lambda: unchanged(answer, tokens)
    yield "no padding", lambda: unchanged(answer, tokens[1:])
    yield "padding alone", lambda: unchanged(answer, torch.zeros(1, 3, dtype=torch.int64))


# ---------------------------------------------------------------- 03 · many heads


@step(
    "03",
    ("d_model // n_heads", "n_heads", "d_k is the width of a head, d_model // n_heads"),
    (
        "x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)",
        "x.unflatten(-1, (self.d_k, -1)).movedim(-1, 1)",
        "a head is d_k neighbouring numbers; yours takes every h-th",
    ),
    (
        "x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)",
        "x.reshape(len(x), -1, x.shape[1], self.d_k)",
        "reshape alone mixes words and heads; split the last axis, then exchange axes",
    ),
    (
        "y.transpose(1, 2).flatten(2)",
        "y.reshape(len(y), y.shape[2], -1)",
        "before you merge, the axis of words has to come before that of heads again",
    ),
    (
        "k = self.split(self.w_k(x))",
        "k = self.split(self.w_q(x))",
        "keys need a matrix of their own, w_k",
    ),
    (
        "v = self.split(self.w_v(x))",
        "v = self.split(self.w_k(x))",
        "values need a matrix of their own, w_v",
    ),
    ("v = self.split(self.w_v(x))", "v = self.split(x)", "values are projected, too, by w_v"),
    (
        "return self.w_o(self.merge(attend(q, k, v, mask, is_causal)))",
        "return self.merge(attend(q, k, v, mask, is_causal))",
        "w_o is missing, which mixes what the heads found",
    ),
    ("attend(q, k, v, mask, is_causal)", "attend(q, k, v, mask)", "is_causal is not passed on"),
    (
        "attend(q, k, v, mask, is_causal)",
        "attend(q, k, v, None, is_causal)",
        "the mask is not passed on",
    ),
    (
        "attend(q, k, v, mask, is_causal)",
        "attention(q, k, v, mask, is_causal)",
        "it calls attention, whatever it is given as attend",
    ),
    (
        "attend(q, k, v, mask, is_causal)",
        "attend(k, q, v, mask, is_causal)",
        "queries and keys are exchanged",
    ),
    after=("attention",),
)
def MultiHeadAttention(answer, right, draw):
    for d_model, n_heads, bias in [(D, H, True), (12, 3, False), (6, 6, True)]:
        layer = made(answer, right.MultiHeadAttention, d_model, n_heads, bias)
        mask = draw.mask(2, 1, 1, 5)
        mask[..., 0] = True
        yield from ask_layer(layer, draw.numbers(2, 5, d_model), mask, right.attention)
    yield (
        "bias=False",
        lambda: sorted(name for name, _ in answer(4, 2, bias=False).named_parameters()),
    )
    yield "bias", lambda: sorted(name for name, _ in answer(4, 2).named_parameters())


# ---------------------------------------------------------------- 05 · positions


@step(
    "05",
    (
        "x = x + self.positions[positions]",
        "x = x + self.positions[: x.shape[1]]",
        "the positions that it is given are not used",
    ),
    (
        "x = x + self.positions[positions]",
        "x = x * self.positions[positions]",
        "the vectors of positions are added",
    ),
    ("x = x + self.positions[positions]", "pass", "positions are not added"),
    ("return self.dropout(x)", "return x", "dropout is missing, on what comes out"),
    ("std=0.02", "std=1.0", "the vectors of tokens start with a standard deviation of 0.02"),
    (
        "0.02 * torch.randn(max_len, d_model)",
        "torch.randn(max_len, d_model)",
        "the vectors of positions start with a standard deviation of 0.02",
    ),
    (
        "0.02 * torch.randn(max_len, d_model)",
        "torch.zeros(max_len, d_model)",
        "the vectors of positions start with a standard deviation of 0.02",
    ),
)
def Embedding(answer, right, draw):
    tokens = draw.tokens(2, 5)
    learned = made(answer, right.Embedding, V, D, LONGEST)
    bare = made(answer, right.Embedding, V, D)
    yield "positions 0 to 4", lambda: unchanged(learned, tokens, torch.arange(5))
    yield "positions 7 to 11", lambda: unchanged(learned, tokens, torch.arange(7, 12))
    yield "without a longest text", lambda: unchanged(bare, tokens, torch.arange(5))
    yield "dropout=0.5", lambda: dropped(answer(V, D, LONGEST, 0.5), tokens, torch.arange(5))
    new = answer(400, 40, 300)
    yield (
        "how large vectors start",
        lambda: [round(p.std().item(), 3) for _, p in sorted(new.named_parameters())],
    )


@step(
    "05",
    (
        "base ** (-torch.arange(half, device=x.device) / half)",
        "base ** (torch.arange(half, device=x.device) / half)",
        "the frequencies fall from 1 on; the exponent is negative",
    ),
    (
        "base ** (-torch.arange(half, device=x.device) / half)",
        "base ** (-torch.arange(half, device=x.device) / x.shape[-1])",
        "the exponent of pair i is -2i / d_k, which is -i / half",
    ),
    (
        "a * cos - b * sin, a * sin + b * cos",
        "a * cos + b * sin, b * cos - a * sin",
        "that turns backwards",
    ),
    (
        "a * cos - b * sin, a * sin + b * cos",
        "a * cos - b * sin, a * cos + b * sin",
        "the second number of a pair becomes a sin + b cos",
    ),
    (
        "a, b = x[..., :half], x[..., half:]",
        "a, b = x[..., ::2], x[..., 1::2]",
        "pairs are numbers i and i + d_k / 2, the two halves, not neighbours",
    ),
    (
        "positions[:, None] * frequency",
        "(positions[:, None] + 1) * frequency",
        "the first position is 0, which doesn't turn",
    ),
    (
        "cos, sin = angle.cos(), angle.sin()",
        "cos, sin = angle.sin(), angle.cos()",
        "cosine and sine are exchanged",
    ),
)
def rotate(answer, right, draw):
    x = draw.numbers(2, 3, 5, 6)
    yield "positions 0 to 4", lambda: unchanged(answer, x, torch.arange(5))
    yield "positions 9, 2, 7, 0, 1", lambda: unchanged(answer, x, torch.tensor([9, 2, 7, 0, 1]))
    yield "base 50", lambda: unchanged(answer, x, torch.arange(5), 50.0)
    yield "one token at 3", lambda: unchanged(answer, x[:, :, :1], torch.tensor([3]))


@step(
    "05",
    (
        "q, k = rotate(q, positions, base), rotate(k, positions, base)",
        "q = rotate(q, positions, base)",
        "keys turn, too",
    ),
    (
        "q, k = rotate(q, positions, base), rotate(k, positions, base)",
        "k = rotate(k, positions, base)",
        "queries turn, too",
    ),
    (
        "q, k = rotate(q, positions, base), rotate(k, positions, base)",
        "q, k, v = (rotate(t, positions, base) for t in (q, k, v))",
        "values don't turn",
    ),
    (
        "q, k = rotate(q, positions, base), rotate(k, positions, base)",
        "q, k = rotate(q, positions), rotate(k, positions)",
        "base is not passed on",
    ),
    (
        "return attend(q, k, v, mask, is_causal)",
        "return attend(q, k, v, mask)",
        "is_causal is not passed on",
    ),
    (
        "return attend(q, k, v, mask, is_causal)",
        "return attend(q, k, v, None, is_causal)",
        "the mask is not passed on",
    ),
    (
        "return attend(q, k, v, mask, is_causal)",
        "return attention(q, k, v, mask, is_causal)",
        "it calls attention, whatever it is given as attend",
    ),
    after=("rotate", "attention"),
)
def rotary(answer, right, draw):
    q, k, v = (draw.numbers(2, 3, 5, 6) for _ in range(3))
    mask = draw.mask(2, 1, 1, 5)
    mask[..., 0] = True
    at = torch.tensor([4, 5, 6, 9, 12])
    for attend, said in [
        (right.attention, "around attention"),
        (see_less, "around another attend"),
    ]:
        turned = answer(attend, at)
        yield said, lambda: unchanged(turned, q, k, v, None, False)
        yield f"{said}, a mask and is_causal", lambda: unchanged(turned, q, k, v, mask, True)
        yield f"{said}, base 20", lambda: answer(attend, at, 20.0)(q, k, v, mask, False)


# ---------------------------------------------------------------- 06 · the block


@step(
    "06",
    ("F.gelu(self.w_in(x))", "F.relu(self.w_in(x))", "the activation of your file is GELU"),
    (
        "F.gelu(self.w_in(x))",
        "self.w_in(x)",
        "an activation is missing; without it both layers are one",
    ),
    ("F.gelu(self.w_in(x))", "F.silu(self.w_in(x))", "the activation is GELU, not SiLU"),
    (
        "F.gelu(self.w_in(x))",
        'F.gelu(self.w_in(x), approximate="tanh")',
        "take GELU itself, not its approximation by tanh",
    ),
    (
        "return self.w_out(F.gelu(self.w_in(x)))",
        "return x + self.w_out(F.gelu(self.w_in(x)))",
        "the sum with the stream belongs to Block",
    ),
    (
        "return self.w_out(F.gelu(self.w_in(x)))",
        "return F.gelu(self.w_out(F.gelu(self.w_in(x))))",
        "no activation follows the second layer",
    ),
)
def FeedForward(answer, right, draw):
    part = made(answer, right.FeedForward, D, D_FF)
    x = draw.numbers(2, 5, D)
    yield "x", lambda: unchanged(part, x)
    yield "larger numbers", lambda: unchanged(part, 5 * x)
    yield "a single word", lambda: unchanged(part, x[0, 0])


@step(
    "06",
    (
        "self.attention(self.norm_attention(x), mask, is_causal, attend)",
        "self.attention(x, mask, is_causal, attend)",
        "attention reads what its norm has made of x",
    ),
    ("self.ff(self.norm_ff(x))", "self.ff(x)", "the network reads what its norm has made of x"),
    (
        "self.ff(self.norm_ff(x))",
        "self.ff(self.norm_attention(x))",
        "the network has a norm of its own, norm_ff",
    ),
    (
        "x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))",
        "x = self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))",
        "what attention writes is added to x",
    ),
    (
        "return x + self.dropout(self.ff(self.norm_ff(x)))",
        "return self.dropout(self.ff(self.norm_ff(x)))",
        "what the network writes is added to x",
    ),
    (
        "self.norm_attention(x), mask, is_causal, attend",
        "self.norm_attention(x), mask, is_causal",
        "attend is not passed on to attention",
    ),
    (
        "self.norm_attention(x), mask, is_causal, attend",
        "self.norm_attention(x), mask, False, attend",
        "is_causal is not passed on",
    ),
    (
        "self.norm_attention(x), mask, is_causal, attend",
        "self.norm_attention(x), None, is_causal, attend",
        "the mask is not passed on",
    ),
    (
        "x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))",
        "x = self.norm_attention(x + self.dropout(self.attention(x, mask, is_causal, attend)))",
        "that's post-norm; the norm stands on the branch, before attention",
    ),
    (
        "x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))\n"
        "        return x + self.dropout(self.ff(self.norm_ff(x)))",
        "x = self.norm_attention(x + self.dropout(self.attention(x, mask, is_causal, attend)))\n"
        "        return self.norm_ff(x + self.dropout(self.ff(x)))",
        "that's post-norm; each norm stands on its branch, before attention and before the network",
    ),
    (
        "x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))",
        "x = self.norm_attention(x)\n"
        "        x = x + self.dropout(self.attention(x, mask, is_causal, attend))",
        "the sum is with x as it came, not with what the norm made of it",
    ),
    (
        "x = x + self.dropout(self.attention(",
        "x = x + (self.attention(",
        "dropout on what attention writes is missing",
    ),
    *NO_DROPOUT_ON_THE_NETWORK,
)
def Block(answer, right, draw):
    block = same_weights(answer(*parts_of_block(right)), right.Block(*parts_of_block(right)))
    mask = draw.mask(2, 1, 1, 5)
    mask[..., 0] = True
    x = draw.numbers(2, 5, D)
    yield from ask_layer(block, x, mask, right.attention)
    yield from ask_dropout(answer, ["attention", "the network"])


@step(
    "06",
    ("return self.norm(x)", "return x", "the norm after the last block is missing"),
    (
        "x = block(x, mask, is_causal, attend_here)",
        "x = block(x, mask, is_causal)",
        "attend is not passed on",
    ),
    (
        "x = block(x, mask, is_causal, attend_here)",
        "x = block(x, mask, False, attend_here)",
        "is_causal is not passed on",
    ),
    (
        "x = block(x, mask, is_causal, attend_here)",
        "x = block(x, None, is_causal, attend_here)",
        "the mask is not passed on",
    ),
    (
        "x = block(x, mask, is_causal, attend_here)",
        "x = self.norm(block(x, mask, is_causal, attend_here))",
        "the norm comes once, after the last block",
    ),
    (
        "x = block(x, mask, is_causal, attend_here)",
        "x = x + block(x, mask, is_causal, attend_here)",
        "a block adds to the stream by itself",
    ),
    (
        "zip(self.blocks, self.one_each(attend))",
        "zip(list(self.blocks)[::-1], self.one_each(attend))",
        "the blocks run from the last to the first",
    ),
    (
        "zip(self.blocks, self.one_each(attend))",
        "zip([self.blocks[0]] * len(self.blocks), self.one_each(attend))",
        "each block runs once; yours runs the first one again and again",
    ),
    (
        "return attend if isinstance(attend, list) else",
        "return [attend[0]] * len(self.blocks) if isinstance(attend, list) else",
        "of a list, each block gets the function of its own place",
    ),
)
def Stack(answer, right, draw):
    norm = nn.LayerNorm(D)
    nn.init.constant_(norm.weight, 1.5)
    stack = answer(small_blocks(right), norm)
    mask = draw.mask(2, 1, 1, 5)
    mask[..., 0] = True
    x = draw.numbers(2, 5, D)
    yield from ask_layer(stack, x, mask, right.attention)
    yield (
        "a list, a function for each block",
        lambda: stack(x, is_causal=True, attend=[see_less, right.attention, see_less]),
    )
    yield "the names of its weights", lambda: sorted(dict(stack.named_parameters()))
    yield "no block", lambda: answer([], norm)(x)


@step(
    "06",
    (
        "MultiHeadAttention(d_model, n_heads)",
        "MultiHeadAttention(d_model, 1)",
        "the number of heads is not passed on",
    ),
    (
        "FeedForward(d_model, d_ff)",
        "FeedForward(d_model, 4 * d_model)",
        "the network has d_ff units",
    ),
    ("        dropout,\n", "", "dropout is not passed on to the block"),
    (
        "        nn.LayerNorm(d_model),\n        nn.LayerNorm(d_model),\n        dropout,",
        "        *[nn.LayerNorm(d_model)] * 2,\n        dropout,",
        "both norms are one and the same; make two",
    ),
    after=("MultiHeadAttention", "FeedForward", "Block", "attention with masks"),
)
def make_block(answer, right, draw):
    block = made(answer, right.make_block, D, H, D_FF)
    x = draw.numbers(2, 5, D)
    yield "x", lambda: unchanged(block, x)
    yield "is_causal=True", lambda: unchanged(block, x, is_causal=True)
    yield "dropout", lambda: dropouts(answer(D, H, D_FF, 0.25), x)
    yield "the number of its weights", lambda: sum(p.numel() for p in answer(D, H, 20).parameters())
    yield "two norms", lambda: block.norm_attention is not block.norm_ff
