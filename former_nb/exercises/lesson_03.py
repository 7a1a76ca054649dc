"Lesson 03: many heads."

from torch import nn

from ..grading.ask import Call, exercise, question
from .lesson_02 import attention
from .parts import a_mask, layer


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, n_heads, bias=True):
        super().__init__()
        self.d_k = d_model // n_heads
        #! d_k is the width of a head, d_model // n_heads
        # ~ self.d_k = n_heads
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def split(self, x):  # (B, T, h * d_k) -> (B, h, T, d_k)
        return x.unflatten(-1, (-1, self.d_k)).transpose(1, 2)
        #! the heads are cut by `reshape` or `view` alone, which keeps all numbers in a row, so that
        #! a head holds pieces of other words; split the last axis, then exchange two axes
        # ~ return x.reshape(x.shape[0], -1, x.shape[1], self.d_k)
        #! heads are cut and joined by `reshape` or `view` alone, which is no transpose: a head holds
        #! pieces of other words; split the last axis, exchange two axes, and back at the end
        # ~ return x.reshape(x.shape[0], -1, x.shape[1], self.d_k)
        # ~ y.transpose(1, 2).flatten(2) -> y.reshape(y.shape[0], y.shape[2], -1)
        #! a head is d_k neighbouring numbers, `(h d)`; yours takes every h-th, `(d h)`
        # ~ return x.unflatten(-1, (self.d_k, -1)).movedim(-1, 1)
        #! a head is d_k neighbouring numbers, `(h d)`; yours takes every h-th, `(d h)`, and joins
        #! them so, too: the numbers are as good, but weights from elsewhere don't fit
        # ~ return x.unflatten(-1, (self.d_k, -1)).movedim(-1, 1)
        # ~ y.transpose(1, 2).flatten(2) -> y.permute(0, 2, 3, 1).flatten(2)
        #! the words have to stand in the last axis but one; without a transpose the heads of one
        #! word attend to each other
        # ~ return x.unflatten(-1, (-1, self.d_k))
        # ~ y.transpose(1, 2).flatten(2) -> y.flatten(2)

    def merge(self, y):  # (B, h, T, d_k) -> (B, T, h * d_k)
        return y.transpose(1, 2).flatten(2)
        #! before the heads are joined, the axis of words has to come first again; `reshape` alone
        #! mixes words
        # ~ return y.reshape(y.shape[0], y.shape[2], -1)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(x))
        #! keys need a matrix of their own, w_k
        # ~ k = self.split(self.w_q(x))
        v = self.split(self.w_v(x))
        #! values need a matrix of their own, w_v
        # ~ v = self.split(self.w_k(x))
        #! values are projected, too, by w_v
        # ~ v = self.split(x)
        y = attend(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        #! is_causal is not passed on
        # ~ y = attend(q, k, v, mask)
        #! the mask is not passed on
        # ~ y = attend(q, k, v, None, is_causal)
        #! mask and is_causal are not passed on
        # ~ y = attend(q, k, v)
        #! it calls attention, whatever it is given as attend
        # ~ y = attention(q, k, v, mask, is_causal)
        #! queries and keys are exchanged
        # ~ y = attend(k, q, v, mask, is_causal)
        return self.w_o(self.merge(y))
        #! w_o is missing, which mixes what the heads found
        # ~ return self.merge(y)


# ---------------------------------------------------------------- exercises


@exercise("03.1")
def my_multi_head(x, w_q, w_k, w_v, w_o, n_heads):
    # ? Multiply first: `x @ w_q` is (B, T, d_model). Then cut its last axis into (h, d_k).
    # ? `unflatten(-1, (n_heads, -1)).transpose(1, 2)` splits; to merge, undo both, last step first.
    # ? Between splitting and merging comes `attention(q, k, v)`, and at the end `@ w_o`.
    q = (x @ w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2)  # (B, h, T, d_k)
    #! one head is split by `reshape` alone, which is no transpose; cut the last axis, then move the
    #! heads in front of the words
    # ~ .unflatten(-1, (n_heads, -1)).transpose(1, 2) -> .reshape(len(x), n_heads, x.shape[1], -1)
    #! you split and merged by `reshape` alone, which is no transpose: a head holds pieces of other
    #! words; move the heads in front of the words, and back
    # ~ .unflatten(-1, (n_heads, -1)).transpose(1, 2) -> .reshape(len(x), n_heads, x.shape[1], -1)
    # ~ y.transpose(1, 2).flatten(2) -> y.reshape(x.shape)
    #! a head is d_k numbers that lie side by side, `(h d)`; yours takes every h-th, as `[i::h]` does
    # ~ (n_heads, -1)).transpose(1, 2) -> (-1, n_heads)).permute(0, 3, 1, 2)
    # ~ y.transpose(1, 2) -> y.permute(0, 2, 3, 1)
    #! you split by `(d h)`, so a head takes every h-th number; in `(h d)` they lie side by side
    # ~ (n_heads, -1)).transpose(1, 2) -> (-1, n_heads)).permute(0, 3, 1, 2)
    #! you split into 2 heads, as in the example; take `n_heads`
    # ~ (n_heads, -1) -> (2, -1)
    #! that is one wide head; nothing was split
    # ~ (n_heads, -1) -> (1, -1)
    #! the heads of a word attend to each other; move the heads in front of the words first
    # ~ (n_heads, -1)).transpose(1, 2) -> (n_heads, -1))
    # ~ y.transpose(1, 2) -> y
    #! heads of d_k numbers meet a matrix (d_model, d_model); split x after `x @ w_q`, and merge the
    #! heads before `@ w_o`
    # ~ (x @ w_q).unflatten(-1, (n_heads, -1)).transpose(1, 2) -> x.unflatten(-1, (n_heads, -1)).transpose(1, 2) @ w_q
    #! your queries, keys and values come from rows of the matrices; `x @ w_q` needs no transpose
    # ~ (x @ w_q) -> (x @ w_q.T)
    # ~ (x @ w_k) -> (x @ w_k.T)
    # ~ (x @ w_v) -> (x @ w_v.T)
    #! the matrices are transposed; here `x @ w_q` is right as it is
    # ~ (x @ w_q) -> (x @ w_q.T)
    # ~ (x @ w_k) -> (x @ w_k.T)
    # ~ (x @ w_v) -> (x @ w_v.T)
    # ~ @ w_o -> @ w_o.T
    k = (x @ w_k).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    v = (x @ w_v).unflatten(-1, (n_heads, -1)).transpose(1, 2)
    y = attention(q, k, v)  # (B, h, T, d_k)
    #! the scores are divided by √d_model; divide by √d_k, the width of one head
    # ~ y = (q @ k.mT / x.shape[-1] ** 0.5).softmax(-1) @ v
    #! the scores are not divided by √d_k, the width of one head
    # ~ y = (q @ k.mT).softmax(-1) @ v
    #! queries and keys are exchanged
    # ~ y = attention(k, q, v)
    #! keys and values are exchanged
    # ~ y = attention(q, v, k)
    #! the softmax runs over the queries; each query's row should sum to 1
    # ~ y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-2) @ v
    #! the softmax runs twice; `attention` has one inside
    # ~ y = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).softmax(-1) @ v
    return y.transpose(1, 2).flatten(2) @ w_o
    #! W_o is missing: multiply by `w_o` at the end
    # ~ return y.transpose(1, 2).flatten(2)
    #! you merged by `reshape` alone, which is no transpose; put the words in front of the heads
    #! again, then flatten
    # ~ return y.reshape(x.shape) @ w_o
    #! you merged by `(d h)`, which mixes the numbers of all heads; `(h d)` lays them side by side
    # ~ return y.permute(0, 2, 3, 1).flatten(2) @ w_o
    #! the heads are added up; lay them side by side, each has its d_k numbers
    # ~ return y.sum(1) @ w_o
    #! you merged the words; move the heads behind them, `transpose(1, 2)`, and then flatten
    # ~ return y.flatten(2) @ w_o
    #! heads of d_k numbers meet a matrix (d_model, d_model); split x after `x @ w_q`, and merge the
    #! heads before `@ w_o`
    # ~ return y @ w_o


@exercise(
    "03.2",
    parts=(
        "the first factor, of the parameters, is wrong; count the numbers in the four matrices",
        "the second factor, of the multiplications, is wrong; count those with the four matrices",
        "the third factor, of the weights, is wrong; their shape is (B, h, T, T)",
    ),
)
def factors_of_twice_as_many_heads():
    # ? How wide is a head before, and how wide after?
    # ? The matrices hold 4 d_model² numbers for any h. The weights have shape (B, h, T, T).
    return 1, 1, 2  # parameters, multiplications, weights
    #! those are wide heads; here a head is half as wide if there are twice as many
    # ~ return 2, 2, 2
    #! there are twice as many tables of scores, but of vectors half as wide
    # ~ return 1, 2, 2
    #! parameters and multiplications are right, but each head has a table of its own
    # ~ return 1, 1, 1
    #! each head is half as wide, but there are twice as many
    # ~ return 0.5, 0.5, 1


@exercise("03.3")
def head_matrix(layer, i):
    # ? The output is the sum of head_i W_o^i, and head_i = A_i (X W_v^i).
    # ? M_i = W_v^i W_o^i. `nn.Linear` keeps its matrix transposed, so use `layer.w_v.weight.T`.
    mine = slice(i * layer.d_k, (i + 1) * layer.d_k)
    #! heads count from 0, so head i begins at number i · d_k
    # ~ mine = slice((i - 1) * layer.d_k, i * layer.d_k)
    #! head i begins at number i · d_k, not at number i
    # ~ mine = slice(i, i + layer.d_k)
    #! that is the matrix of head 0 for every i
    # ~ mine = slice(0, layer.d_k)
    #! head i has d_k numbers, of which yours takes the first
    # ~ mine = slice(i * layer.d_k, i * layer.d_k + 1)
    #! that is the product of the whole matrices, all heads at once
    # ~ mine = slice(None)
    #! head i has d_k numbers side by side, not every h-th as in `[i::h]`
    # ~ mine = slice(i, None, layer.w_v.weight.shape[0] // layer.d_k)
    w_v = layer.w_v.weight.T[:, mine]  # (d_model, d_k)
    #! you took the keys' matrix; the values' matrix is `layer.w_v`
    # ~ w_v = layer.w_k.weight.T[:, mine]
    #! you took the queries' matrix; the values' matrix is `layer.w_v`
    # ~ w_v = layer.w_q.weight.T[:, mine]
    #! `layer.w_v` is a layer; its matrix is `layer.w_v.weight`, and head i has the rows from i · d_k
    # ~ w_v = layer.w_v[mine].T
    #! head i has d_k columns of W_v, which are rows of `layer.w_v.weight`, since `nn.Linear` keeps
    #! its matrix transposed
    # ~ w_v = layer.w_v.weight[:, mine]
    w_o = layer.w_o.weight.T[mine]  # (d_k, d_model)
    #! you cut W_o along its rows; `layer.w_o.weight` is W_o transposed, so head i has a block of
    #! columns of it
    # ~ w_o = layer.w_o.weight[mine]
    #! head i has d_k columns of W_o's weight side by side, not every h-th as in `[i::h]`
    # ~ w_o = layer.w_o.weight.T[slice(i, None, layer.w_v.weight.shape[0] // layer.d_k)]
    return w_v @ w_o
    #! that is M_i transposed; `nn.Linear` keeps transposes, so undo both
    # ~ return (w_v @ w_o).T
    #! that is the product of the two in the other order; the values' matrix comes first
    # ~ return w_o @ w_v
    #! W_q W_kᵀ makes the scores; the values go through W_v and then W_o
    # ~ return layer.w_q.weight.T[:, mine] @ layer.w_k.weight[mine]
    #! W_k W_qᵀ makes the scores, turned; the values go through W_v and then W_o
    # ~ return layer.w_k.weight.T[:, mine] @ layer.w_q.weight[mine]
    #! that is W_v's part alone; W_o's part comes behind it
    # ~ return w_v


@exercise("03.4")
def without_head_0(q, k, v, mask=None, is_causal=False):
    # ? Call `attention(q, k, v, mask, is_causal)` first. Which axis of its output has the heads?
    # ? The output is (B, h, T, d_k), so head 0 is `y[:, 0]`.
    y = attention(q, k, v, mask, is_causal)
    #! your function forgets the mask and is_causal; hand them on to `attention`
    # ~ y = attention(q, k, v)
    #! your function forgets is_causal; hand it on to `attention`
    # ~ y = attention(q, k, v, mask)
    #! your function forgets the mask; hand it on to `attention`
    # ~ y = attention(q, k, v, None, is_causal)
    y[:, 0] = 0
    #! nothing is off yet; that is `attention` itself
    # ~ y[:, 0] += 0
    #! you turned the first sentence off; the heads are axis 1
    # ~ y[0] = 0
    #! you turned the first word off; the heads are axis 1
    # ~ y[:, :, 0] = 0
    #! you turned one number of each head off; the heads are axis 1
    # ~ y[..., 0] = 0
    #! you turned the other heads off and left head 0 on
    # ~ y[:, 1:] = 0
    #! all heads are off; only head 0 should be
    # ~ y[:] = 0
    return y
    #! head 0 is taken away; it stays, and returns zeros
    # ~ return y[:, 1:]
    #! head 0 gets zeros for its queries or keys, so it takes the mean of all values; set what it
    #! returns to zero
    # ~ return torch.cat([attention(0 * q, k, v, mask, is_causal)[:, :1], y[:, 1:]], 1)


# ---------------------------------------------------------------- questions


@question("03", "MultiHeadAttention")
def ask_heads(draw):
    for init in [(12, 3), (10, 2, False), (6, 6, True)]:
        for _ in draw.rounds:
            x = draw.numbers(draw.size(1, 3), draw.size(1, 7), init[0])
            yield Call(f"x {tuple(x.shape)}", (x,), {}, init)


@question("03", "03.1")
def ask_my_multi_head(draw):
    for d_model, n_heads in [(24, 3), (12, 2), (6, 6)]:
        x = draw.numbers(2, 5, d_model)
        matrices = [draw.numbers(d_model, d_model, scale=0.3) for _ in range(4)]
        yield Call(f"x {tuple(x.shape)}, {n_heads} heads", (x, *matrices, n_heads))


@question("03", "03.3")
def ask_head_matrix(draw):
    for d_model, n_heads in [(12, 3), (8, 2)]:
        heads = layer(MultiHeadAttention, d_model, n_heads, False)
        for i in range(n_heads):
            yield Call(f"head {i} of {n_heads}", (heads, i))


@question("03", "03.4")
def ask_without_head_0(draw):
    for h in (2, 3):
        q, k, v = (draw.numbers(3, h, 5, 6) for _ in range(3))
        yield Call(f"{h} heads", (q, k, v, None, False))
        yield Call(f"{h} heads, causal", (q, k, v, None, True))
        yield Call(f"{h} heads, with a mask", (q, k, v, a_mask(draw, 3, 1, 5, 5), False))
