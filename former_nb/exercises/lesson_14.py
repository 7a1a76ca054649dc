"Lesson 14: number words: reading what the model wrote itself."

import torch
from torch import nn

from ..grading.ask import Call, question
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
        #! the newest token is read alone: without a cache the decoder doesn't know the earlier ones, so
        #! hand the caches on or feed the whole row
        # ~ logits = model.decode(tokens[:, -1:], memory, mask, positions=at)[:, -1]
        #! the newest token is read alone and at position 0; without a cache feed the whole row
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
        self.steps, self.recorded = 0, False

    def encode(self, src):
        self.recorded |= torch.is_grad_enabled()
        return src[..., None].float()

    def decode(self, tgt, memory, memory_mask=None, attend=None, positions=None):
        self.steps += 1
        self.recorded |= torch.is_grad_enabled()
        if positions is None:
            positions = torch.arange(tgt.shape[1])
        logits = self.table[positions.cpu(), tgt] + self.source[memory[:, :1, 0].long()]
        if memory_mask is None:
            return logits + self.source[5]
        return logits + self.source[memory_mask.sum(dim=-1)[:, 0].expand(len(tgt), -1)]


def asked(made, args, rows):
    "The rows, and how the model was asked."
    return {
        "": rows,
        "how often the model is asked": args[0].steps,
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
            model = layer(translator, 9, 14, 8, 2, 2, 12).eval()
            with torch.no_grad():
                for p in model.parameters():
                    p.copy_(draw.numbers(*p.shape) * 0.5 + 0.5 * (p.ndim == 1))
                model.tgt_embed.tokens.weight[EOS] += end * n
            yield Call("a small translator", (model, padded(draw, 3, 5, 9), 9), look=kept)
