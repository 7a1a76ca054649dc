"Lesson 10: a generator."

from functools import partial

import torch
from torch import nn

from ..grading.ask import Call, question
from .lesson_02 import attention
from .lesson_05 import LearnedPositions
from .lesson_06 import Stack, make_block
from .lesson_07 import Embedding
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
