"Lesson 06: the block."

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, exercise, question, same
from ..grading.compare import loosened
from .lesson_02 import attention
from .lesson_03 import MultiHeadAttention
from .parts import ask_layer, layer, spy


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, activation=F.gelu):
        super().__init__()
        self.w_in = nn.Linear(d_model, d_ff)
        self.w_out = nn.Linear(d_ff, d_model)
        self.activation = activation
        #! the activation that it is given is not used
        # ~ self.activation = F.gelu
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.w_out(self.dropout(self.activation(self.w_in(x))))
        #! that is a ReLU; the course takes the GELU
        # ~ activation=F.gelu -> activation=F.relu
        #! that is a ReLU, whatever activation is given
        # ~ return self.w_out(self.dropout(F.relu(self.w_in(x))))
        #! that is GPT-2's approximation of the GELU, by tanh; take the exact one, F.gelu(x)
        # ~ activation=F.gelu -> activation=lambda x: F.gelu(x, approximate="tanh")
        #! that is a SiLU; the course takes the GELU
        # ~ activation=F.gelu -> activation=F.silu
        #! nothing bends between the two layers, so they are one matrix; put the activation between
        # ~ return self.w_out(self.dropout(self.w_in(x)))
        #! the activation stands between the two layers, not behind both
        # ~ return self.activation(self.w_out(self.dropout(self.w_in(x))))
        #! the activation stands behind w_in as well as behind w_out; only between the two layers
        # ~ return self.activation(self.w_out(self.dropout(self.activation(self.w_in(x)))))
        #! the activation comes before w_in; it stands between the two layers
        # ~ return self.w_out(self.dropout(self.w_in(self.activation(x))))
        #! dropout is missing, on what comes out of the activation
        # ~ return self.w_out(self.activation(self.w_in(x)))
        #! dropout is on what w_out returns; the block has its own there, so here it stands before
        #! w_out
        # ~ return self.dropout(self.w_out(self.activation(self.w_in(x))))
        #! dropout is on x; it stands on what comes out of the activation
        # ~ return self.w_out(self.activation(self.w_in(self.dropout(x))))
        #! dropout stands behind the activation, not before it
        # ~ return self.w_out(self.activation(self.dropout(self.w_in(x))))
        #! x is added here, too; the block adds it already
        # ~ return x + self.w_out(self.dropout(self.activation(self.w_in(x))))


class Block(nn.Module):
    def __init__(self, attention, ff, norm_attention, norm_ff, dropout=0.0):
        super().__init__()
        self.attention = attention
        self.ff = ff
        self.norm_attention = norm_attention
        self.norm_ff = norm_ff
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask=None, is_causal=False, attend=attention):
        x = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))
        return x + self.dropout(self.ff(self.norm_ff(x)))
        #! that is post-norm, as in the paper; here a norm stands before each part, and nothing on the
        #! stream itself, so that gradients pass unchanged
        # ~2 x = self.norm_attention(x + self.dropout(self.attention(x, mask, is_causal, attend)))
        #| return self.norm_ff(x + self.dropout(self.ff(x)))
        #! the stream itself is normed, since norm(x) is kept as x; give norm(x) to the part and add
        #! to x
        # ~2 x = self.norm_attention(x)
        #| x = x + self.dropout(self.attention(x, mask, is_causal, attend))
        #| x = self.norm_ff(x)
        #| return x + self.dropout(self.ff(x))
        #! the attention is not added to x: without the residual path the stream is lost
        # ~2 x = self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))
        #| return x + self.dropout(self.ff(self.norm_ff(x)))
        #! what the network makes is not added to x
        # ~ return self.dropout(self.ff(self.norm_ff(x)))
        #! the network lacks its norm
        # ~ return x + self.dropout(self.ff(x))
        #! the attention lacks its norm
        # ~ self.attention(self.norm_attention(x) -> self.attention(x
        #! both norms are missing
        # ~ self.attention(self.norm_attention(x) -> self.attention(x
        # ~ self.ff(self.norm_ff(x)) -> self.ff(x)
        #! the norms are exchanged
        # ~ self.attention(self.norm_attention(x) -> self.attention(self.norm_ff(x)
        # ~ self.ff(self.norm_ff(x)) -> self.ff(self.norm_attention(x))
        #! the network reads x as it came; it reads what attention has added to
        # ~2 y = x + self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend))
        #| return y + self.dropout(self.ff(self.norm_ff(x)))
        #! the network's output gets no dropout
        # ~ return x + self.ff(self.norm_ff(x))
        #! the attention's output gets no dropout
        # ~ self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend)) -> self.attention(self.norm_attention(x), mask, is_causal, attend)
        #! dropout is applied to the whole stream; drop out only what a part adds, because what it
        #! drops of the stream is lost to all later blocks
        # ~2 x = self.dropout(x + self.attention(self.norm_attention(x), mask, is_causal, attend))
        #| return self.dropout(x + self.ff(self.norm_ff(x)))
        #! dropout is missing, on what each part makes
        # ~ self.dropout(self.attention(self.norm_attention(x), mask, is_causal, attend)) -> self.attention(self.norm_attention(x), mask, is_causal, attend)
        # ~ self.dropout(self.ff(self.norm_ff(x))) -> self.ff(self.norm_ff(x))
        #! the mask is not passed on
        # ~ mask, is_causal, attend) -> None, is_causal, attend)
        #! is_causal is not passed on
        # ~ mask, is_causal, attend) -> mask, False, attend)
        #! attend is not passed on
        # ~ mask, is_causal, attend) -> mask, is_causal)
        #! mask, is_causal and attend are not passed on
        # ~ self.norm_attention(x), mask, is_causal, attend) -> self.norm_attention(x))


def make_block(d_model, n_heads, d_ff, dropout=0.0):
    return Block(
        MultiHeadAttention(d_model, n_heads),
        FeedForward(d_model, d_ff, dropout),
        #! dropout is not passed on to the network
        # ~ FeedForward(d_model, d_ff),
        nn.LayerNorm(d_model),
        nn.LayerNorm(d_model),
        dropout,
        #! dropout is not passed on to the block
        # ~
        #! dropout is not passed on, neither to the network nor to the block
        # ~
        # ~ d_ff, dropout) -> d_ff)
    )
    #! the attention gets one head, not n_heads
    # ~ MultiHeadAttention(d_model, n_heads) -> MultiHeadAttention(d_model, 1)
    #! d_k is d_model // n_heads, which MultiHeadAttention divides itself; give it n_heads
    # ~ MultiHeadAttention(d_model, n_heads) -> MultiHeadAttention(d_model, d_model // n_heads)
    #! both norms are one layer, so they share their weights; make two
    # ~7 norm = nn.LayerNorm(d_model)
    #| attention = MultiHeadAttention(d_model, n_heads)
    #| return Block(attention, FeedForward(d_model, d_ff, dropout), norm, norm, dropout)


class Stack(nn.Module):
    def __init__(self, blocks, norm, rotary=None):
        super().__init__()
        self.blocks = nn.ModuleList(blocks)
        #! a plain list hides the blocks from `parameters()`; an optimizer would leave them as they
        #! are: nn.ModuleList(blocks)
        # ~ self.blocks = blocks
        self.norm = norm
        self.rotary = rotary  # around each `attend`; None where positions are added to the tokens

    def forward(self, x, mask=None, is_causal=False, attend=attention, positions=None):
        for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
            #! only the first block is run
            # ~ for block, attend_here in zip(self.blocks[:1], self.attend_by_block(attend, positions)):
            #! the blocks are run from the last to the first
            # ~ for block, attend_here in zip(reversed(self.blocks), self.attend_by_block(attend, positions)):
            #! the first block is run again and again; each runs once
            # ~ for block, attend_here in zip([self.blocks[0]] * len(self.blocks) if self.blocks else [], self.attend_by_block(attend, positions)):
            x = block(x, mask, is_causal, attend_here)
            #! each block reads the x that came first; hand on what the block before made
            # ~2 first = x
            #| for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
            #|     x = block(first, mask, is_causal, attend_here)
            #! x is added again, but each block has added it already
            # ~ x = x + block(x, mask, is_causal, attend_here)
            #! the mask is not passed on
            # ~ x = block(x, None, is_causal, attend_here)
            #! is_causal is not passed on
            # ~ x = block(x, mask, False, attend_here)
            #! attend is not passed on
            # ~ x = block(x, mask, is_causal)
            #! mask, is_causal and attend are not passed on
            # ~ x = block(x)
            #! the norm stands behind each block; once, behind the last
            # ~ x = self.norm(block(x, mask, is_causal, attend_here))
            # ~ return self.norm(x) -> return x
            #! the norm stands behind each block and once more at the end; once is enough, at the end
            # ~ x = self.norm(block(x, mask, is_causal, attend_here))
        return self.norm(x)
        #! the last norm is missing: nothing in a pre-norm stack has normed the stream
        # ~ return x
        #! the norm belongs to the end, behind the last block; yours stands before the first
        # ~3 x = self.norm(x)
        #| for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
        #|     x = block(x, mask, is_causal, attend_here)
        #| return x

    def attend_by_block(self, attend, positions):  # one for all blocks, or a list with one for each
        attends = attend if isinstance(attend, list) else [attend] * len(self.blocks)
        #! not yet: attend may be a list, with a function for each block, as the caches of lesson 11
        # ~ attends = [attend] * len(self.blocks)
        #! every block gets the first of the list; each gets its own
        # ~ attends = [attend[0] if isinstance(attend, list) else attend] * len(self.blocks)
        if self.rotary is None:
            return attends
        return [self.rotary(attend_here, positions) for attend_here in attends]
        #! the list that it was given is changed, so at the next step with the same caches everything
        #! is turned twice; make a new list
        # ~ for i, attend_here in enumerate(attends):
        #|     attends[i] = self.rotary(attend_here, positions)
        #| return attends
        #! rotary is handed the positions 0, 1, 2 …, whatever it was given
        # ~ return [self.rotary(attend_here, torch.arange(5)) for attend_here in attends]
        #! rotary is not used
        # ~ return attends


# ---------------------------------------------------------------- exercises


@exercise("06.1")
def my_block(x, attention, ff, norm_attention, norm_ff):  # x (B, T, d_model)
    # ? Which of the four functions reads x first, and what is added to x?
    # ? x = x + attention(norm_attention(x)) is the first line.
    x = x + attention(norm_attention(x))
    #! you added to the normed stream; add to x itself
    # ~ x = norm_attention(x) + attention(norm_attention(x))
    return x + ff(norm_ff(x))
    #! that is post-norm; here the norm stands before each part, on the branch
    # ~2 x = norm_attention(x + attention(x))
    # | return norm_ff(x + ff(x))
    #! the residual path is missing; add what each part gives to x
    # ~2 return ff(norm_ff(attention(norm_attention(x))))
    #! the feed-forward network's output is not added to the stream
    # ~ return ff(norm_ff(x))
    #! the norms are missing
    # ~2 x = x + attention(x)
    # | return x + ff(x)
    #! the norms are exchanged
    # ~2 x = x + attention(norm_ff(x))
    # | return x + ff(norm_attention(x))
    #! both parts read the same norm
    # ~ return x + ff(norm_attention(x))
    #! the second sum starts from x; it starts from what the attention has added to
    # ~2 return x + ff(norm_ff(x + attention(norm_attention(x))))
    #! both parts read x; the feed-forward network reads what attention has added to
    # ~2 return x + attention(norm_attention(x)) + ff(norm_ff(x))
    #! you wrote the norms into the stream; give norm(x) to the part, and add to x itself
    # ~2 x = norm_attention(x)
    # | x = norm_ff(x + attention(x))
    # | return x + ff(x)
    #! each norm reads what its part gave; here it stands before the part, on what the part reads
    # ~2 x = x + norm_attention(attention(x))
    # | return x + norm_ff(ff(x))
    #! the feed-forward network reads the attention's output alone; it reads the stream, x plus that
    #! output
    # ~2 a = attention(norm_attention(x))
    # | return x + a + ff(norm_ff(a))
    #! the feed-forward network comes second
    # ~2 x = x + ff(norm_ff(x))
    # | return x + attention(norm_attention(x))
    #! the feed-forward network is still to come
    # ~ return x
    #! a norm at the end is too many; the stream leaves the block as it is
    # ~ return norm_ff(x + ff(norm_ff(x)))


@exercise(
    "06.2",
    parts=(
        "attention: it has four linear layers, d by d, each with a bias, however many heads there are",
        "feed-forward network: it has two linear layers, each with a bias as long as its output",
        "norms: there are two, each with a gain and a shift for every feature",
    ),
)
def parameters_of_a_block():
    # ? Attention has four matrices, the feed-forward network two, and there are two norms.
    # ? Every linear layer has a bias as long as its output; a LayerNorm has a gain and a shift.
    # ? 4(d² + d) for attention, d·d_ff + d_ff + d_ff·d + d for the feed-forward network, 4d for the norms.
    d, d_ff = 12, 40
    attention = 4 * (d * d + d)
    #! attention: its four linear layers have biases
    # ~ attention = 4 * d * d
    #! attention: it has a fourth matrix, which mixes the heads
    # ~ attention = 3 * (d * d + d)
    #! attention: the heads share d_model, so their number does not matter
    # ~ attention = 3 * 4 * (d * d + d)
    feed_forward = (d * d_ff + d_ff) + (d_ff * d + d)
    #! feed-forward network: its two linear layers have biases
    # ~ feed_forward = d * d_ff + d_ff * d
    #! feed-forward network: it has a second layer, back to d_model
    # ~ feed_forward = d * d_ff + d_ff
    norms = 4 * d
    #! norms: a block has two of them, and each has a gain and a shift
    # ~ norms = 2 * d
    return attention, feed_forward, norms
    #! the numbers are right, but in another order: attention, feed-forward network, norms
    # ~ return feed_forward, attention, norms


@exercise("06.3")
def parallel(block, x):
    # ? Compute the norm of x once, and give it to both parts.
    # ? Both outputs are added to x, which is added once; attention is called with `is_causal=True`.
    h = block.norm_attention(x)
    #! your parts read norm_ff(x); both read norm_attention(x)
    # ~ h = block.norm_ff(x)
    #! the norm is missing
    # ~ h = x
    return x + block.dropout(block.attention(h, is_causal=True)) + block.dropout(block.ff(h))
    #! that is the block as it is: its feed-forward network waits for the attention
    # ~ return block(x, is_causal=True)
    #! the feed-forward network reads norm_ff(x); both parts read norm_attention(x)
    # ~ return x + block.attention(h, is_causal=True) + block.ff(block.norm_ff(x))
    #! the feed-forward network reads x itself, without the norm
    # ~ return x + block.attention(h, is_causal=True) + block.ff(x)
    #! the attention reads x itself, without the norm
    # ~ return x + block.attention(x, is_causal=True) + block.ff(h)
    #! the norm stands after the addition; in the formula it stands before both parts
    # ~ return block.norm_attention(x + block.attention(x, is_causal=True) + block.ff(x))
    #! x itself is missing from the sum, so there is no residual path
    # ~ return block.attention(h, is_causal=True) + block.ff(h)
    #! x is added twice
    # ~ return 2 * x + block.attention(h, is_causal=True) + block.ff(h)
    #! you added to the norm of x; the stream is x itself
    # ~ return h + block.attention(h, is_causal=True) + block.ff(h)
    #! the feed-forward network reads what attention found; it reads the norm of x
    # ~ found = block.attention(h, is_causal=True)
    # | return x + found + block.ff(found)
    #! the feed-forward network reads the norm of what attention has added to; it reads the norm of x
    # ~ x = x + block.attention(h, is_causal=True)
    # | return x + block.ff(block.norm_attention(x))
    #! the attention sees words to come; a generator's block is causal
    # ~ return x + block.attention(h) + block.ff(h)


@exercise("06.4")
def merge(w_in, b_in, w_out, b_out):
    # ? Write the second layer of the first, w_out (w_in x + b_in) + b_out, and multiply out.
    # ? The weight is w_out @ w_in. What does the second layer do to b_in?
    return w_out @ w_in, w_out @ b_in + b_out
    #! the weight is transposed: expected (d_out, d_in)
    # ~ return (w_out @ w_in).T, w_out @ b_in + b_out
    #! w_in @ w_out is in the wrong order, (d_ff, d_in) and (d_out, d_ff); w_out comes second as a
    #! layer and first in the product
    # ~ return w_in @ w_out, w_out @ b_in + b_out
    #! the first bias goes through the second layer
    # ~ return w_out @ w_in, b_out
    #! the second bias is missing
    # ~ return w_out @ w_in, w_out @ b_in
    #! b_in has d_ff numbers and b_out d_out, so they can't be added; b_in goes through the second
    #! layer first
    # ~ return w_out @ w_in, b_in + b_out
    #! b_in has d_ff numbers and b_out d_out, so they can't be added; b_in goes through the second
    #! layer first
    # ~ return w_out @ w_in, b_out + b_in
    #! b_out is no input of the second layer; b_in goes through it
    # ~ return w_out @ w_in, w_out @ (b_in + b_out)
    #! the matrix comes first: w_out @ b_in
    # ~ return w_out @ w_in, b_in @ w_out + b_out
    #! that is one tensor; return two, the weight and the bias: `weight, bias`
    # ~ return torch.cat([w_out @ w_in, (w_out @ b_in + b_out)[:, None]], dim=1)
    #! that is the weight; the bias is missing
    # ~ return w_out @ w_in


# ---------------------------------------------------------------- questions


def spread(made, args, result):
    "The mean and the spread of rows that were made from the same input."
    return {"": [result.mean(0), result.std(0)]}


@question("06", "FeedForward")
def ask_network(draw):
    x = draw.numbers(2, 5, 6)
    yield Call("x (2, 5, 6)", (x,), {}, (6, 10))
    yield Call("training", (x,), {}, (6, 10), True)
    yield Call("dropout=0.5, evaluated", (x,), {}, (6, 10, 0.5))
    yield Call("dropout=1.0, trained", (x,), {}, (6, 10, 1.0), True)
    given = (6, 10, 1.0, torch.cos)
    yield Call("activation=torch.cos, dropout=1.0, trained", (x,), {}, given, True)
    rows = draw.numbers(6).expand(6000, 6)
    yield Call(
        "dropout=0.5, trained, 6000 times the same word: mean and spread",
        (rows,),
        {},
        (6, 10, 0.5),
        True,
        look=spread,
        near=0.02,
        slopes=False,
        chance=True,
    )
    yield Call("activation=torch.sin", (x,), {}, (6, 10, 0.0, torch.sin))
    for _ in draw.rounds:
        d = draw.size(2, 7)
        yield Call("sizes of chance", (draw.numbers(draw.size(1, 3), d),), {}, (d, draw.size(2, 9)))


def parts(dropout=0.0):
    "What a block of width 12 is made of."
    return (
        layer(MultiHeadAttention, 12, 3),
        layer(FeedForward, 12, 20),
        nn.LayerNorm(12),
        nn.LayerNorm(12),
        dropout,
    )


@question("06", "Block")
def ask_block(draw):
    yield from ask_layer(draw, parts(), 12)
    x = draw.numbers(2, 5, 12)
    yield Call("dropout=0.5, evaluated", (x,), {}, parts(0.5))
    yield Call("dropout=1.0, trained", (x,), {}, parts(1.0), True)


@question("06", "make_block")
def ask_make_block(draw):
    yield from ask_layer(draw, (12, 3, 20), 12)
    x = draw.numbers(2, 5, 12)
    yield Call("dropout=1.0, trained", (x,), {}, (12, 3, 20, 1.0), True)
    yield Call("dropout=1.0, the network alone", (12, 3, 20, 1.0), look=of_network)


def of_network(make, args, made):
    "Whether a network whose dropout leaves nothing gives the same for other words."
    made.train()
    return {"": None, "the network drops all": same(*made.ff(torch.eye(12)[:2]).detach())}


def two_blocks():
    return [layer(Block, *parts()) for _ in range(2)]


@question("06", "Stack")
def ask_stack(draw):
    init = two_blocks(), nn.LayerNorm(12)
    yield from ask_layer(draw, init, 12)
    yield Call("no blocks", (draw.numbers(2, 5, 12),), {}, ([], nn.LayerNorm(12)))


@question("11", "Stack", "Stack with caches", later=True)
def ask_stack_for_caches(draw):
    init = two_blocks(), nn.LayerNorm(12)
    several = [spy, partial(spy, more=1.0)]
    x = draw.numbers(2, 5, 12)
    yield Call("a list of attends", (x,), dict(attend=several), init)
    given = dict(is_causal=True, attend=several, positions=torch.arange(3, 8))
    yield Call("a list of attends, and positions", (x,), given, init)


class Turning(nn.Module):
    "In place of Rotary: adds the positions to the values."

    def forward(self, attend, positions):
        def attend_turned(q, k, v, mask=None, is_causal=False):
            return attend(q, k, v + positions[:, None], mask, is_causal)

        return attend_turned


@question("12", "Stack", "Stack with rotary", ("rotary",), later=True)
def ask_stack_with_rotary(draw):
    init = two_blocks(), nn.LayerNorm(12), Turning()
    x, positions = draw.numbers(2, 5, 12), torch.tensor([4, 2, 7, 0, 1])
    several = [spy, partial(spy, more=1.0)]
    yield Call("positions 4, 2, 7, 0, 1", (x,), dict(positions=positions), init)
    yield Call("is_causal", (x,), dict(is_causal=True, positions=positions), init)
    yield Call("a list of attends", (x,), dict(attend=several, positions=positions), init)


def a_norm(draw, d):
    "A norm whose gain and shift differ from feature to feature."
    norm = nn.LayerNorm(d)
    with torch.no_grad():
        norm.weight.copy_(1 + draw.numbers(d, scale=0.3))
        norm.bias.copy_(draw.numbers(d, scale=0.3))
    return norm


@question("06", "06.1")
def ask_my_block(draw):
    for B, T, d in [(3, 4, 6), (1, 5, 8), (2, 1, 4)]:
        given = layer(MultiHeadAttention, d, 2), layer(FeedForward, d, 10)
        norms = a_norm(draw, d), a_norm(draw, d)
        yield Call(f"x {(B, T, d)}", (draw.numbers(B, T, d), *given, *norms))
    for B, T, d in [(2, 3, 5), (1, 4, 7), (4, 2, 3)]:
        given = draw.numbers(B, T, d), before, torch.tanh, torch.cos, in_half
        yield Call(f"other functions, x {(B, T, d)}", given)


def before(x):
    "Of each word and those before it, in place of attention."
    return x.cumsum(-2).sin()


def in_half(x):
    return x / 2 + 1


@question("06", "06.3")
def ask_parallel(draw):
    sizes = [(3, 4, (6, 2, 10)), (1, 5, (8, 4, 3)), (2, 1, (4, 1, 6)), (2, 7, (12, 3, 20))]
    for B, T, init in sizes:
        x = draw.numbers(B, T, init[0])
        yield Call(f"x {tuple(x.shape)}", (layer(make_block, *init), x))


@question("06", "06.4")
def ask_merge(draw):
    for d_in, d_ff, d_out in [(5, 7, 3), (2, 4, 6), (8, 3, 1), (1, 5, 2), (4, 9, 7)]:
        shapes = (d_ff, d_in), (d_ff,), (d_out, d_ff), (d_out,)
        said = f"w_in {(d_ff, d_in)}, w_out {(d_out, d_ff)}"
        given = tuple(draw.numbers(*shape) for shape in shapes)
        yield Call(said, given, look=in_two(("weight", "bias"), numbers))


def numbers(part):
    "A tensor of what may be an array or a list as well."
    return None if part is None else torch.as_tensor(loosened(part))


def in_two(names, made):
    "A look at the two parts of a result by name, each as what is made of it."

    def look(answer, args, result):
        pair = result if isinstance(result, (tuple, list)) and len(result) == 2 else (result, None)
        return {"": None} | dict(zip(names, map(made, pair)))

    return look
