"Lesson 06: the block."

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, question, same
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
        #! rotary is handed the positions 0, 1, 2 …, whatever it was given
        # ~ return [self.rotary(attend_here, torch.arange(5)) for attend_here in attends]
        #! rotary is not used
        # ~ return attends


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
