"Lesson 10: a generator."

from functools import partial
from math import log

import torch
import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, exercise, question
from .lesson_02 import attention
from .lesson_05 import LearnedPositions
from .lesson_06 import Stack, make_block
from .lesson_07 import IGNORE, Embedding
from .lesson_09 import a_stack, an_embedding, padded
from .parts import spy


class LanguageModel(nn.Module):
    def __init__(self, embed, stack):
        super().__init__()
        self.embed = embed
        self.stack = stack
        vocab_size, d_model = embed.tokens.weight.shape
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        #! the head has no bias: a logit is the product of a vector with a token's row of the table
        # ~ self.head = nn.Linear(d_model, vocab_size)
        self.head.weight = embed.tokens.weight  # one matrix for tokens and logits
        #! the head has a matrix of its own, or a copy, which differs after the first step; let it
        #! be that of the tokens, head.weight = embed.tokens.weight, so that a token learns from
        #! being read and from being written
        # ~ pass

    def forward(self, tokens, attend=attention, positions=None):  # (B, T) -> (B, T, vocab_size)
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
            #! there are as many positions as tokens in a text, tokens.shape[1]; shape[0] is the
            #! number of texts
            # ~ positions = torch.arange(tokens.shape[0], device=tokens.device)
            #! the first position is 0
            # ~ positions = torch.arange(1, tokens.shape[1] + 1, device=tokens.device)
            #! the positions that it is given aren't used; a text that goes on from a cache begins
            #! further than 0
            # ~2 positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens, positions)
        #! the embedding gets no positions
        # ~ x = self.embed(tokens)
        #! the embedding doesn't get the positions that are given; a text that goes on from a cache
        #! begins further than 0
        # ~ x = self.embed(tokens, torch.arange(tokens.shape[1], device=tokens.device))
        x = self.stack(x, None, True, attend, positions)
        #! the stack has to be causal, because otherwise each word sees the next one, which it is to
        #! predict
        # ~ x = self.stack(x, None, False, attend, positions)
        #! attend isn't passed on to the stack, so a cache would never be asked
        # ~ x = self.stack(x, None, True, positions=positions)
        #! the positions aren't passed on to the stack, where rotary positions will need them
        # ~ x = self.stack(x, None, True, attend)
        #! the stack doesn't get the positions that are given; a text that goes on from a cache
        #! begins further than 0
        # ~ x = self.stack(x, None, True, attend, torch.arange(tokens.shape[1], device=tokens.device))
        #! neither attend nor the positions are passed on to the stack
        # ~ x = self.stack(x, None, True)
        #! no mask of padding is needed: padding comes behind a text, where causal words don't look,
        #! and with a cache the mask would be too short
        # ~ x = self.stack(x, (tokens != 0)[:, None, None], True, attend, positions)
        #! the stack isn't used: the words never meet
        # ~ pass
        return self.head(x)
        #! logits are asked for, since cross_entropy does the softmax itself
        # ~ return self.head(x).softmax(dim=-1)
        #! logits are asked for, since cross_entropy does the log_softmax itself
        # ~ return self.head(x).log_softmax(dim=-1)
        #! the head is missing, which compares each vector with those of all tokens
        # ~ return x
        #! the last position alone comes back; in training each position predicts its next token, so
        #! return the logits of all
        # ~ return self.head(x)[:, -1]
        #! the last position alone comes back, (B, 1, vocab_size); in training each position
        #! predicts its next token
        # ~ return self.head(x[:, -1:])
        #! no gradient reaches the head, because `detach` cuts it off, so the table learns from its
        #! inputs alone
        # ~ return x @ self.head.weight.detach().mT
        #! the logits are divided by √d_model; nothing asks for that here, since the table starts
        #! small
        # ~ return self.head(x) / x.shape[-1] ** 0.5


def generator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    blocks = [make_block(d_model, n_heads, d_ff, dropout) for _ in range(n_layers)]
    #! each block needs weights of its own; yours is one block, n_layers times
    # ~ blocks = [make_block(d_model, n_heads, d_ff, dropout)] * n_layers
    #! dropout isn't passed on to the blocks
    # ~ blocks = [make_block(d_model, n_heads, d_ff) for _ in range(n_layers)]
    #! there are n_layers blocks; yours has one
    # ~ blocks = [make_block(d_model, n_heads, d_ff, dropout)]
    #! n_layers and n_heads are exchanged
    # ~ blocks = [make_block(d_model, n_layers, d_ff, dropout) for _ in range(n_heads)]
    #! the network has d_ff units between its two layers, not 4 d_model
    # ~ blocks = [make_block(d_model, n_heads, 4 * d_model, dropout) for _ in range(n_layers)]
    #! the blocks have n_heads heads; yours have one
    # ~ blocks = [make_block(d_model, 1, d_ff, dropout) for _ in range(n_layers)]
    embed = Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout)
    #! dropout isn't passed on to the embedding
    # ~ embed = Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model))
    #! the embedding has no positions, so the model can't tell an order from another: give it
    #! LearnedPositions(max_len, d_model)
    # ~ embed = Embedding(vocab_size, d_model, dropout=dropout)
    #! dropout is passed on nowhere
    # ~ embed = Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model))
    # ~ make_block(d_model, n_heads, d_ff, dropout) -> make_block(d_model, n_heads, d_ff)
    #! there is a position for each place of a text, max_len of them, not one for each token of the
    #! vocabulary
    # ~ embed = Embedding(vocab_size, d_model, LearnedPositions(vocab_size, d_model), dropout)
    return LanguageModel(embed, Stack(blocks, nn.LayerNorm(d_model)))
    #! the last norm is missing: in a pre-norm stack nothing else has normed what the blocks add up
    # ~ return LanguageModel(embed, Stack(blocks, nn.Identity()))
    #! the parts have to be put together: LanguageModel(embed, Stack(…))
    # ~ return embed, Stack(blocks, nn.LayerNorm(d_model))


# ---------------------------------------------------------------- exercises


@exercise("10.1")
def name_nats(logits, targets):  # (B, T, V), (B, T)
    # ? The probability of a name is a product over its positions; what is its logarithm?
    # ? `F.cross_entropy(..., reduction='none')` gives one number per target, and 0 where the target is IGNORE.
    each = F.cross_entropy(logits.mT, targets, reduction="none")  # (B, T), 0 at IGNORE
    #! pads are counted; IGNORE marks them
    # ~ each = F.cross_entropy(logits.mT, targets.clamp(min=0), reduction="none")
    #! the softmax runs over time; the tokens are the last axis
    # ~ at = targets.clamp(min=0)[..., None]
    # | each = -logits.log_softmax(1).gather(-1, at)[..., 0] * (targets != IGNORE)
    #! the softmax is taken twice; `cross_entropy` and `log_softmax` take logits
    # ~ each = F.cross_entropy(logits.softmax(-1).mT, targets, reduction="none")
    #! the softmax is missing: logits are no logarithms of probabilities yet
    # ~ at = targets.clamp(min=0)[..., None]
    # | each = -logits.gather(-1, at)[..., 0] * (targets != IGNORE)
    #! those are probabilities, added, with a minus; add their logarithms
    # ~ at = targets.clamp(min=0)[..., None]
    # | each = -logits.softmax(-1).gather(-1, at)[..., 0] * (targets != IGNORE)
    #! the logarithm comes before the sum; probabilities of a row multiply
    # ~ at = targets.clamp(min=0)[..., None]
    # | each = logits.softmax(-1).gather(-1, at)[..., 0] * (targets != IGNORE)
    # ~ return each.sum(dim=1) -> return -each.sum(dim=1).log()
    #! the logarithm of a softmax overflows: a small probability becomes 0, and its logarithm -inf;
    #! `log_softmax` and `cross_entropy` do both at once
    # ~ at = targets.clamp(min=0)[..., None]
    # | each = -logits.softmax(-1).gather(-1, at)[..., 0].log()
    # | each = each.masked_fill(targets == IGNORE, 0.0)
    #! `reshape` to (B, V, T) mixes positions with tokens; `logits.mT` exchanges the axes
    # ~ each = F.cross_entropy(logits.reshape(len(logits), logits.shape[2], -1), targets, reduction="none")
    #! `F.cross_entropy` looks for the classes on axis 1; give it `logits.mT`, (B, V, T)
    # ~ each = F.cross_entropy(logits, targets, reduction="none")
    #! IGNORE, -100, is no token; clamp the targets and leave their places out of the sum, or let
    #! `F.cross_entropy` do it
    # ~ each = -logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]
    return each.sum(dim=1)  # (B,)
    #! you took the mean of each name; a product of probabilities becomes a sum
    # ~ return each.sum(dim=1) / (targets != IGNORE).sum(dim=1)
    #! you divided by T, pads included; the positions of a name are added up
    # ~ return each.mean(dim=1)
    #! the sign is wrong: nats are -ln P, and positive
    # ~ return -each.sum(dim=1)
    #! that is the mean over the batch; each name needs its own number, the sum over its positions
    # ~ return each.sum() / (targets != IGNORE).sum()
    #! that is one number for the whole batch; each name needs its own, the sum over its positions
    # ~ return each.sum()
    #! the sum over the positions is missing
    # ~ return each
    #! that is P; the surprise is -ln P
    # ~ return (-each.sum(dim=1)).exp()
    #! those are bits; nats are natural logarithms
    # ~ return each.sum(dim=1) / log(2)


@exercise("10.2", near=0.0025)  # two decimals are enough
def least_loss_of_the_stutterer():
    # ? Which of the eight targets can be known from what comes before them?
    # ? The first of a pair costs ln 10, the second nothing. The loss is a mean.
    return log(10) / 2
    #! no letter helps to predict another, but the second of a pair is known
    # ~ return log(10)
    #! the first of each pair is new and cannot be known
    # ~ return 0.0
    #! that is the whole row; the loss is a mean over its eight targets
    # ~ return 4 * log(10)
    #! that is in bits; the loss is in nats
    # ~ return log(10) / 2 / log(2)
    #! `<bos>` is an input and never a target, and a row has no end, so it has eight targets
    # ~ return 4 * log(10) / 9
    #! the first letter follows `<bos>` and counts, so four targets of eight are new
    # ~ return 3 * log(10) / 8
    #! that is the best that a counter of pairs can do; a model that reads the whole beginning knows
    #! which of a pair comes next
    # ~ again = 43 / 70  # of seven targets
    # | surprise = -again * log(again) - (1 - again) * log((1 - again) / 9)
    # | return (log(10) + 7 * surprise) / 8


@exercise("10.3")
def least(targets, vocab_size):
    # ? Take one row and one token. Its column of logits becomes T shares that sum to one.
    # ? If the token is at n positions, each of them gets at best 1/n.
    # ? n ln n for each row and token, averaged over B·V.
    counts = F.one_hot(targets, vocab_size).sum(dim=1).float()  # (B, V)
    #! you counted over the whole batch; the softmax runs within each row
    # ~ counts = F.one_hot(targets, vocab_size).sum(dim=0).float()
    #! you counted over the whole batch, and averaged over its rows; the softmax runs within each row
    # ~ counts = F.one_hot(targets, vocab_size).sum(dim=(0, 1)).float()
    # ~ .mean() -> .mean() / len(targets)
    return torch.xlogy(counts, counts).mean()
    #! each of the n positions costs ln n, so a token costs n ln n
    # ~ return counts.clamp(min=1).log().mean()
    #! 0 · ln 0 is NaN; a token that is nowhere in a row costs 0, as `torch.xlogy` knows
    # ~ return (counts * counts.log()).mean()
    #! you averaged over the B·T targets; torch divides by the B·V rows and tokens
    # ~ return torch.xlogy(counts, counts).sum() / targets.numel()
    #! you divided by the tokens that are there; torch divides by all B·V
    # ~ return torch.xlogy(counts, counts).sum() / (counts > 0).sum()
    #! you summed; the loss is a mean over B·V
    # ~ return torch.xlogy(counts, counts).sum()
    #! the mean over the rows is missing
    # ~ return torch.xlogy(counts, counts).sum() / vocab_size
    #! the mean over the vocabulary is missing
    # ~ return torch.xlogy(counts, counts).sum() / len(targets)
    #! that is each row's own mean; the loss is the mean over all rows, too
    # ~ return torch.xlogy(counts, counts).mean(dim=1)
    #! that is the entropy of a row's tokens, the least loss of a softmax over the vocabulary; here
    #! it runs over time
    # ~ shares = counts / targets.shape[1]
    # | return -torch.xlogy(shares, shares).sum(dim=1).mean()
    #! a token that stands twice in one row cannot have two shares of one
    # ~ return 0.0
    #! that is a softmax over T with all logits alike; the best logits share a token's places
    # ~ return log(targets.shape[1])
    #! that is a softmax over the vocabulary with all logits alike; here it runs over time
    # ~ return log(vocab_size)
    #! logits may grow without bound; yours are the targets themselves, zeros and ones
    # ~ one_hot = F.one_hot(targets, vocab_size).float()
    # | return F.cross_entropy(one_hot, one_hot)


# ---------------------------------------------------------------- questions


@question("10", "LanguageModel")
def ask_language_model(draw):
    init = an_embedding(), a_stack()
    turning = an_embedding(False), a_stack(True)
    tokens = draw.tokens(2, 6)
    yield Call("tokens (2, 6)", (tokens,), {}, init)
    yield Call("the first tokens alone", (tokens[:, :3],), {}, init)
    yield Call("positions 5 to 10", (tokens,), dict(positions=torch.arange(5, 11)), init)
    at = torch.tensor([2, 3, 4, 7, 8, 11])
    yield Call("positions 2, 3, 4, 7, 8, 11", (tokens, attention, at), {}, init)
    rows = torch.stack([at, torch.arange(6)])
    yield Call("positions (2, 6)", (tokens,), dict(positions=rows), init)
    yield Call("another attend", (tokens, spy), {}, init)
    several = [spy, partial(spy, more=1.0)]
    yield Call("an attend for each block", (tokens,), dict(attend=several), init)
    yield Call("positions in the stack", (tokens,), {}, turning)
    yield Call("positions in the stack, 3 to 8", (tokens, several, torch.arange(3, 9)), {}, turning)
    yield Call("positions in the stack, (2, 6)", (tokens,), dict(positions=rows), turning)
    yield Call("padding behind a text", (torch.tensor([[1, 5, 6, 2, 0, 0]]),), {}, init)
    yield Call("one token", (tokens[:1, :1],), {}, init)
    yield Call("one token, position 9", (tokens[:, :1],), dict(positions=torch.tensor([9])), init)
    yield Call("int32 tokens", (tokens.int(),), {}, init)
    yield Call("in training mode, without dropout", (tokens,), {}, init, True)

    def tied(made, args, new):
        parameters = [tuple(p.shape) for p in new.parameters()]
        return {"": None, "the shapes of all weights": sorted(parameters)}

    yield Call("how many weights there are", init, look=tied)
    for _ in draw.rounds:
        tokens = padded(draw, draw.size(1, 4), draw.size(1, 9))
        yield Call(f"tokens of chance {tuple(tokens.shape)}", (tokens,), {}, init)


def of_model(make, args, model):
    "What can be told of a new model without its names."
    return {
        "": None,
        "the shapes of all weights": sorted(tuple(p.shape) for p in model.parameters()),
    }


@question("10", "generator")
def ask_generator(draw):
    sizes = 11, 20, 12, 3, 2, 20
    yield Call("the weights of a new model", sizes, look=of_model)
    yield Call("the weights of a new model of 3 blocks", (9, 15, 8, 2, 3, 10), look=of_model)
    yield Call("no blocks", (11, 20, 12, 3, 0, 20), look=of_model)
    tokens = draw.tokens(2, 6)
    yield Call("tokens (2, 6)", (tokens,), {}, sizes)
    yield Call("positions 14 to 19", (tokens, attention, torch.arange(14, 20)), {}, sizes)
    yield Call("another attend", (tokens, spy), {}, sizes)
    yield Call("padding", (padded(draw, 3, 5),), {}, sizes)
    yield Call("four heads, three blocks", (tokens,), {}, (11, 9, 8, 4, 3, 5))
    yield Call("dropout=0.5, evaluated", (tokens,), {}, (*sizes, 0.5))
    yield Call("dropout=1.0, trained", (tokens,), {}, (*sizes, 1.0), True)
    for _ in draw.rounds:
        heads = draw.size(1, 3)
        init = 11, 20, heads * draw.size(2, 5), heads, draw.size(1, 3), draw.size(3, 20)
        yield Call(f"sizes {init}", (draw.tokens(2, draw.size(1, 7)),), {}, init)


@question("10", "10.1")
def ask_name_nats(draw):
    def call(what, B, T, V, *lengths, scale=1.0):
        targets = draw.tokens(B, T, high=V)
        for row, n in zip(targets, lengths):
            row[n:] = IGNORE
        return Call(what, (draw.numbers(B, T, V, scale=scale), targets))

    yield call("names of 5, 2 and 3 letters", 3, 5, 7, 5, 2, 3)
    yield call("one name", 1, 4, 6, 3)
    yield call("no padding", 2, 3, 8)
    yield call("names of one letter", 2, 6, 5, 1, 1)
    yield call("large logits", 3, 4, 9, 4, 2, 3, scale=150.0)
    for _ in draw.rounds:
        B, V, T = draw.size(1, 4), draw.size(8, 12), draw.size(5, 7)
        lengths = draw.tokens(B, high=T + 1).tolist()
        yield call(f"names of chance, {tuple(lengths)} letters", B, T, V, *lengths)


@question("10", "10.3")
def ask_least(draw):
    fixed = [
        ([[0, 1, 0, 0, 2], [3, 3, 1, 1, 4], [5, 2, 1, 5, 4]], 7),
        ([[4, 4, 4]], 5),
        ([[0, 1, 2, 3], [3, 2, 1, 0]], 6),
        ([[2], [2], [2]], 4),
        ([[1, 1, 2, 2, 2, 1], [0, 0, 0, 0, 0, 0]], 3),
    ]
    for rows, vocab_size in fixed:
        targets = torch.tensor(rows)
        yield Call(f"targets {tuple(targets.shape)}, V = {vocab_size}", (targets, vocab_size))
    for _ in range(2 * len(draw.rounds)):
        vocab_size = draw.size(2, 9)
        targets = draw.tokens(draw.size(1, 5), draw.size(2, 12), low=0, high=vocab_size)
        yield Call(f"targets {tuple(targets.shape)}, V = {vocab_size}", (targets, vocab_size))
