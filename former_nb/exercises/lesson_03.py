"Lesson 03: many heads."

from torch import nn

from ..grading.ask import Call, question
from .lesson_02 import attention


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


# ---------------------------------------------------------------- questions


@question("03", "MultiHeadAttention")
def ask_heads(draw):
    for init in [(12, 3), (10, 2, False), (6, 6, True)]:
        for _ in draw.rounds:
            x = draw.numbers(draw.size(1, 3), draw.size(1, 7), init[0])
            yield Call(f"x {tuple(x.shape)}", (x,), {}, init)
