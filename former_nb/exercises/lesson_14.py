"Lesson 14: number words: reading what the model wrote itself."

import torch
from torch import nn

from ..grading.ask import Call, exercise, question
from ..grading.compare import loosened
from .lesson_04 import padding_mask
from .lesson_07 import BOS, EOS, PAD, UNK
from .lesson_11 import LayerCache
from .lesson_13 import padded, translator
from .parts import layer


@torch.no_grad()
#! gradients are recorded while it writes, which takes memory with each token: decorate it with
#! torch.no_grad
# ~
def greedy_decode(model, src, max_new_tokens):  # (B, S) -> a row of tokens for each, BOS first
    # ? Begin each row with BOS, and append the likeliest token until each row has an EOS.
    # ? With caches only the newest token is fed, at its own position.
    memory, mask = model.encode(src), padding_mask(src)
    #! the target reads the padding of the source: hand padding_mask(src) to decode
    # ~ memory, mask = model.encode(src), None
    cache = [LayerCache() for _ in model.decoder.blocks]
    #! all blocks share one cache, so each appends its keys to those of the others; each needs its own
    # ~ cache = [LayerCache()] * len(model.decoder.blocks)
    tokens = torch.full((len(src), 1), BOS, device=src.device)
    #! a row begins with BOS, as in training; yours begins with EOS
    # ~ tokens = torch.full((len(src), 1), EOS, device=src.device)
    #! a row begins with BOS, as in training; yours begins with padding
    # ~ tokens = torch.full((len(src), 1), PAD, device=src.device)
    #! a row begins with BOS alone; yours begins with the source
    # ~ tokens = src
    for position in range(max_new_tokens):
        #! max_new_tokens counts what is written, without BOS, so yours writes one token too few
        # ~ for position in range(max_new_tokens - 1):
        #! one token too many is written: max_new_tokens counts all that follow BOS
        # ~ for position in range(max_new_tokens + 1):
        at = torch.tensor([position], device=src.device)
        #! each token is read at position 0; hand on its own, the number of tokens before it
        # ~ at = torch.tensor([0], device=src.device)
        #! BOS has position 0; yours counts from 1
        # ~ at = torch.tensor([position + 1], device=src.device)
        logits = model.decode(tokens[:, -1:], memory, mask, cache, at)[:, -1]
        #! the whole row is read again at each step; with a LayerCache for each block only the newest
        #! token is
        # ~ logits = model.decode(tokens, memory, mask)[:, -1]
        #! the newest token is read alone: without a cache the decoder doesn't know the earlier ones, so
        #! hand the caches on
        # ~ logits = model.decode(tokens[:, -1:], memory, mask, positions=at)[:, -1]
        #! the newest token is read alone and at position 0; hand on the caches and its position
        # ~ logits = model.decode(tokens[:, -1:], memory, mask)[:, -1]
        #! the caches hold the earlier tokens already, and yours feeds the whole row each time, so their
        #! keys come twice; feed the newest token alone
        # ~ logits = model.decode(tokens, memory, mask, cache)[:, -1]
        #! what comes next is said by the logits at the last position; yours reads those at the first
        # ~ logits = model.decode(tokens, memory, mask)[:, 0]
        logits[:, [PAD, BOS, UNK]] = float("-inf")  # never written
        #! PAD, BOS and UNK are no part of a text: set their logits to -inf before the likeliest is
        #! taken
        # ~
        #! BOS is never written: set its logit to -inf, too
        # ~ logits[:, [PAD, UNK]] = float("-inf")
        #! UNK is never written, because it stands for no letter: set its logit to -inf, too
        # ~ logits[:, [PAD, BOS]] = float("-inf")
        #! padding is never written: set its logit to -inf, too
        # ~ logits[:, [BOS, UNK]] = float("-inf")
        #! EOS must be written, or no row can end; only PAD, BOS and UNK are forbidden
        # ~ logits[:, [PAD, BOS, EOS, UNK]] = float("-inf")
        #! a logit of 0 isn't forbidden, because others may be lower; set it to -inf
        # ~ logits[:, [PAD, BOS, UNK]] = 0.0
        new = logits.argmax(dim=-1)
        #! that is the likeliest token of the whole batch; each row has its own
        # ~ new = (logits.argmax() % logits.shape[-1]).expand(len(src))
        #! it draws a token; greedy takes the likeliest
        # ~ new = torch.multinomial(logits.softmax(dim=-1), 1)[:, 0]
        #! that is the least likely of the tokens; take argmax
        # ~ new = logits.argmin(dim=-1)
        tokens = torch.cat([tokens, new[:, None]], dim=1)
        if (tokens == EOS).any(dim=1).all():
            #! it stops when the first row ends; the others aren't done
            # ~ if (tokens == EOS).any():
            #! it waits until all rows write EOS in the same step; stop when each row has an EOS somewhere
            # ~ if (new == EOS).all():
            #! it goes on when all rows have ended, which takes time for nothing: break
            # ~ if False:
            #! it looks at the first row alone; stop when each row has an EOS
            # ~ if EOS in tokens[0]:
            break
    return [row[: row.index(EOS) + 1] if EOS in row else row for row in tokens.tolist()]
    #! a row goes on behind its EOS until the longest has ended; cut it there
    # ~ return tokens.tolist()
    #! EOS is part of a row, which shows that it has ended; yours is cut before it
    # ~ return [row[: row.index(EOS)] if EOS in row else row for row in tokens.tolist()]
    #! a row begins with BOS; yours is cut behind it
    # ~ return [row[1 : row.index(EOS) + 1] if EOS in row else row[1:] for row in tokens.tolist()]
    #! a tensor came back; rows end at different places, so lists of tokens are asked for
    # ~ return tokens
    #! a row that has not ended is lost; it comes back as it is
    # ~ return [row[: row.index(EOS) + 1] for row in tokens.tolist() if EOS in row]
    #! a row that ended early is filled with padding; it ends with its EOS
    # ~ rows = [row[: row.index(EOS) + 1] if EOS in row else row for row in tokens.tolist()]
    #| return [row + [PAD] * (tokens.shape[1] - len(row)) for row in rows]
    #! a row that hasn't ended gets an EOS; only the model writes one
    # ~ return [row[: row.index(EOS) + 1] if EOS in row else [*row, EOS] for row in tokens.tolist()]


# ---------------------------------------------------------------- exercises


@exercise("14.1")
def my_greedy(model, src, steps):
    # ? Begin with a column of BOS, (B, 1). What does the model say about the next token, and where in its logits is that?
    # ? memory = model.encode(src) comes before the loop. In the loop, logits = model.decode(tokens, memory, padding_mask(src))[:, -1].
    # ? tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
    memory, mask = model.encode(src), padding_mask(src)
    #! cross-attention reads the pads; give `decode` the padding mask of the source
    # ~ memory, mask = model.encode(src), None
    #! the mask says which tokens of the source may be read; yours is made of the target
    # ~ memory, mask = model.encode(src), None
    # ~ (tokens, memory, mask) -> (tokens, memory, padding_mask(tokens))
    tokens = torch.full((len(src), 1), BOS, device=src.device)
    #! each row begins with BOS; yours begin with EOS
    # ~ tokens = torch.full((len(src), 1), EOS, device=src.device)
    #! each row begins with BOS; yours begin with PAD
    # ~ tokens = torch.full((len(src), 1), PAD, device=src.device)
    #! each row begins with BOS; yours begin with the first token of their source
    # ~ tokens = src[:, :1]
    for _ in range(steps):
        #! that is one token too few; each step adds one behind BOS
        # ~ for _ in range(steps - 1):
        #! that is one token too many; BOS isn't one of the `steps`
        # ~ for _ in range(steps + 1):
        logits = model.decode(tokens, memory, mask)[:, -1]  # (B, vocab_size)
        #! those are the logits of the first position; the next token is said at the last
        # ~ logits = model.decode(tokens, memory, mask)[:, 0]
        #! the decoder reads only the newest token; without a cache it needs all of them
        # ~ logits = model.decode(tokens[:, -1:], memory, mask)[:, -1]
        #! each row gets the token of the first row; take one for each
        # ~ logits = model.decode(tokens, memory, mask)[:1, -1].expand(len(src), -1)
        #! each row gets the token that all rows together find likeliest; take one for each
        # ~ logits = model.decode(tokens, memory, mask)[:, -1].mean(0).expand(len(src), -1)
        tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)
        #! new tokens are put in front of the others; append them, `[tokens, new]`
        # ~ tokens = torch.cat([logits.argmax(dim=-1, keepdim=True), tokens], dim=1)
        #! what is said at all positions is appended; the next token is said at the last, `[:, -1]`
        # ~2 tokens = torch.cat([tokens, model.decode(tokens, memory, mask).argmax(dim=-1)], dim=1)
        #! the loop ends as soon as one row has EOS, and the others are cut off; go on for all `steps`
        # ~0 if (tokens == EOS).any():
        #|     break
    return tokens
    #! BOS is missing at the beginning of each row
    # ~ return tokens[:, 1:]


@exercise(
    "14.2",
    parts=(
        "(a) is wrong: all 40 letters have to be right, and probabilities of letters that don't depend on each other are multiplied",
        "(b) is as large as (a): an answer is right only without any mistake, and before the first mistake the model reads the same letters in both cases",
    ),
    near=0.0025,
)
def whole_answers_that_are_right():
    # ? Up to its first mistake, what does a model read that reads its own letters?
    # ? An answer is right if it has no mistake at all, and before the first mistake both models read the same.
    return 0.99**40, 0.99**40
    #! that is one letter; all 40 must be right
    # ~ return 0.99, 0.99
    #! that is the number of wrong letters to expect, 40 times 0.01
    # ~ return 0.4, 0.4
    #! the mistakes do not add: each letter is right with 0.99, and they multiply
    # ~ return 0.6, 0.6
    #! that is the probability of at least one mistake
    # ~ return 1 - 0.99**40, 1 - 0.99**40
    #! that is percent; a probability lies between 0 and 1
    # ~ return 100 * 0.99**40, 100 * 0.99**40


@exercise("14.3")
def mix(tgt, logits, own):
    # ? The logits at position i are about the token at position i + 1 of `tgt`.
    # ? `said = torch.cat([tgt[:, :1], logits.argmax(-1)[:, :-1]], 1)`, then `torch.where`; what is PAD in `tgt` stays.
    said = torch.cat([tgt[:, :1], logits.argmax(-1)[:, :-1]], dim=1)  # (B, T)
    #! what is said at position i is read at position i + 1: shift by one
    # ~ said = torch.cat([tgt[:, :1], logits.argmax(-1)[:, 1:]], dim=1)
    #! shift by one, and leave <bos> as it is: what is said at position i is read at position i + 1
    # ~ said = logits.argmax(-1)
    #! shift by one, and leave <bos> and pads as they are
    # ~ said = logits.argmax(-1)
    # ~ own & (tgt != PAD) -> own
    #! what is said at position i is read at position i + 1; yours is shifted to the left
    # ~ said = torch.cat([logits.argmax(-1)[:, 1:], tgt[:, -1:]], dim=1)
    #! what is said at position i is read at position i + 1; yours is shifted to the left
    # ~ said = torch.cat([logits.argmax(-1)[:, 1:], tgt[:, -1:]], dim=1)
    # ~ own & (tgt != PAD) -> own & (tgt != PAD) & (tgt != BOS)
    #! <bos> stays: there is nothing before it that could say it
    # ~ said = logits.argmax(-1).roll(1, dims=1)
    #! <bos> stays, and so do pads
    # ~ said = logits.argmax(-1).roll(1, dims=1)
    # ~ own & (tgt != PAD) -> own
    #! logits have an axis more, the vocabulary; `argmax(-1)` gives the likeliest token, (B, T)
    # ~ said = logits
    return torch.where(own & (tgt != PAD), said, tgt)
    #! pads stay pads
    # ~ return torch.where(own, said, tgt)
    #! `own` is turned round: True is where the model's own token is read
    # ~ return torch.where(~own & (tgt != PAD), said, tgt)
    #! `own` is turned round: True is where the model's own token is read
    # ~ return torch.where(own & (tgt != PAD), tgt, said)
    #! every token is exchanged; only where `own` is True
    # ~ return torch.where(tgt != PAD, said, tgt)
    #! `own` is about the token at its own position: the logits are moved, `own` is not
    # ~ return torch.where(own.roll(1, dims=1) & (tgt != PAD), said, tgt)
    #! the first column is missing; <bos> is read first, and stays
    # ~ return torch.where(own & (tgt != PAD), said, tgt)[:, 1:]


@exercise("14.4")
def saving(S, T):
    # ? Count numbers of the weight matrices, in units of d²: each is used once for each token that goes through it. The block's own attention has 4, the feed-forward network 8.
    # ? Cross-attention has 4, too: queries and output see the T tokens that are written, keys and values see the S of the memory.
    # ? (14 T + 2 S T) / (14 T + 2 S).
    return (14 * T + 2 * S * T) / (14 * T + 2 * S)
    #! the other way round: the larger number, without keeping, is divided by the smaller
    # ~ return (14 * T + 2 * S) / (14 * T + 2 * S * T)
    #! only keys and values of the memory are counted; all else is computed either way
    # ~ return T
    #! the feed-forward network, 8 d² for each token, is missing; or all four matrices of
    #! cross-attention were counted for the memory, where two see the target
    # ~ 14 * T -> 6 * T
    #! queries and output of cross-attention, 2 d² for each token that is written, are missing
    # ~ 14 * T -> 12 * T
    #! keys and values of cross-attention are made of the memory only, not of the tokens that are
    #! written
    # ~ 14 * T -> 16 * T
    #! 4 d² for each token are missing: the block's own attention, or one of the two matrices of the
    #! feed-forward network
    # ~ 14 * T -> 10 * T
    #! cross-attention is counted alone; the layer has two parts more
    # ~ 14 * T -> 2 * T
    #! keys *and* values of the memory: two matrices
    # ~ 2 * S -> S
    #! keys and values of the memory are computed once in the better case, and that costs 2 S
    # ~ return (14 * T + 2 * S * T) / (14 * T)
    #! T steps cost T times as much; the 14 d² belong to each of them
    # ~ return (14 + 2 * S) / (14 * T + 2 * S)
    #! nothing of the block's own attention is computed again: its keys are kept in both cases
    # ~ return (14 * T * (T + 1) / 2 + 2 * S * T) / (14 * T + 2 * S)
    #! S and T are exchanged; T tokens are written
    # ~ return (14 * S + 2 * S * T) / (14 * S + 2 * T)
    #! that is the share that is saved; asked for is one number divided by the other
    # ~ return 1 - (14 * T + 2 * S) / (14 * T + 2 * S * T)
    #! that is how many are saved, in units of d²; divide the two numbers
    # ~ return 2 * S * T - 2 * S


# ---------------------------------------------------------------- questions


class Table(nn.Module):
    """In place of a translator: what follows depends on the source's first token, on the position and
    on the token there. It notes how it is asked."""

    def __init__(self, draw, vocab_size, end=0.0, length=12):
        super().__init__()
        self.table = draw.numbers(length, vocab_size, vocab_size, scale=1.5)
        self.table[:, :, EOS] += end
        self.source = draw.numbers(12, vocab_size)
        self.decoder = nn.Module()
        self.decoder.blocks = nn.ModuleList(nn.Identity() for _ in range(2))
        self.steps, self.read, self.recorded = 0, 0, False

    def encode(self, src):
        self.recorded |= torch.is_grad_enabled()
        return src[..., None].float()

    def decode(self, tgt, memory, memory_mask=None, attend=None, positions=None):
        self.steps += 1
        self.read += tgt.shape[1]
        self.recorded |= torch.is_grad_enabled()
        if positions is None:
            positions = torch.arange(tgt.shape[1])
        logits = self.table[positions.cpu(), tgt] + self.source[memory[:, :1, 0].long()]
        if memory_mask is None:
            return logits + self.source[5]
        return logits + self.source[memory_mask.sum(dim=-1)[:, 0].expand(len(tgt), -1)]

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))


def small_translator(draw, end):
    "A translator of the right file that writes EOS the sooner, the larger `end` is."
    model = layer(translator, 9, 14, 8, 2, 2, 12).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(draw.numbers(*p.shape) * 0.5 + 0.5 * (p.ndim == 1))
        model.tgt_embed.tokens.weight[EOS] += end
    return model


def asked(made, args, rows):
    "The rows, and how the model was asked."
    return {
        "": rows,
        "how often the model is asked": args[0].steps,
        "how many tokens of the target it reads": args[0].read,
        "gradients are recorded": args[0].recorded,
    }


@question("14", "greedy_decode")
def ask_greedy_decode(draw):
    for end in (-1.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0):
        for _ in draw.rounds:
            model = Table(draw, draw.size(6, 9), end)
            src = padded(draw, draw.size(1, 5), draw.size(1, 5), 6)
            said = f"{len(src)} sources, a table of chance"
            yield Call(said, (model, src, draw.size(1, 11)), look=asked)
    yield Call("max_new_tokens=0", (Table(draw, 7), padded(draw, 3, 4, 6), 0), look=asked)

    def kept(made, args, rows):
        return {"": rows, "the model's mode": args[0].training}

    for end in (0.0, 0.3, 0.6):
        for n in draw.rounds:
            model = small_translator(draw, end * n)
            yield Call("a small translator", (model, padded(draw, 3, 5, 9), 9), look=kept)


def up_to_ends(made, args, tokens):
    """The tokens of each row up to EOS. What follows it doesn't matter, nor whether the loop goes on
    when all rows have ended."""
    rows = loosened(tokens)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2 or not rows.numel():
        return {}
    ended = rows == EOS
    ended[:, 0] = False
    ended = ended.cumsum(dim=1) > 0
    rows = rows.masked_fill(ended, EOS)
    missing = args[2] + 1 - rows.shape[1]
    if missing > 0 and ended[:, -1].all():
        rows = torch.cat([rows, torch.full((len(rows), missing), float(EOS))], dim=1)
    return {"": rows}


@question("14", "14.1")
def ask_my_greedy(draw):
    src = torch.tensor([[5, 6, 3, 4, 4], [3, 5, 6, PAD, PAD], [6, 4, PAD, PAD, PAD]])
    for end in (-9.0, 0.5, 1.5, 2.5):
        said = "three sources, two of them padded, and a table of chance"
        yield Call(said, (Table(draw, 7, end), src, 6), look=up_to_ends)
        model, steps = Table(draw, draw.size(7, 9), end), draw.size(2, 9)
        some = padded(draw, draw.size(2, 5), draw.size(3, 6), 7)
        yield Call(f"{len(some)} sources, a table of chance", (model, some, steps), look=up_to_ends)
    for end in (-9.0, 0.0):
        model = small_translator(draw, end)
        yield Call("three sources, a small translator", (model, src, 6), look=up_to_ends)
    yield Call("one source", (Table(draw, 8, 0.5), padded(draw, 1, 4, 7), 7), look=up_to_ends)
    yield Call("one step", (Table(draw, 7), src, 1), look=up_to_ends)
    yield Call("no step", (Table(draw, 7), src, 0), look=up_to_ends)


@question("14", "14.3")
def ask_mix(draw):
    tgt = torch.tensor(
        [[BOS, 5, 6, 7, 8, 4], [BOS, 8, 5, 7, PAD, PAD], [BOS, 4, EOS, PAD, PAD, PAD]]
    )
    logits = draw.numbers(3, 6, 9)
    yield Call("own is False everywhere", (tgt, logits, torch.zeros(3, 6) > 0))
    yield Call("own is True everywhere", (tgt, logits, torch.ones(3, 6) > 0))
    for column in range(6):
        own = torch.arange(6).expand(3, -1) == column
        yield Call(f"own is True at position {column}", (tgt, logits, own))
    for B, T, V in [(1, 2, 7), (1, 5, 9), (2, 7, 11), (4, 3, 8), (5, 6, 12)]:
        for _ in draw.rounds:
            tgt = torch.cat([torch.full((B, 1), BOS), padded(draw, B, T - 1, V)], dim=1)
            tgt[tgt == BOS] = EOS  # behind the first column
            tgt[:, 0] = BOS
            own = draw.mask(B, T)
            yield Call(f"B = {B}, T = {T}, V = {V}", (tgt, draw.numbers(B, T, V), own))


@question("14", "14.4")
def ask_saving(draw):
    pairs = [(12, 15), (40, 7), (1, 9), (9, 1), (50, 50), (3, 2), (1, 1)]
    pairs += [(draw.size(2, 90), draw.size(2, 90)) for _ in range(2 * len(draw.rounds))]
    for S, T in pairs:
        yield Call(f"S = {S}, T = {T}", (S, T))
