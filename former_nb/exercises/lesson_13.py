"Lesson 13: the encoder–decoder."

import torch
from torch import nn

from ..grading.ask import Call, question
from .lesson_02 import attention
from .lesson_03 import MultiHeadAttention
from .lesson_04 import padding_mask
from .lesson_05 import LearnedPositions
from .lesson_06 import Block, FeedForward, Stack, make_block
from .lesson_07 import IGNORE, PAD, Embedding, pad_rows
from .lesson_12 import Rotary, dropouts
from .parts import a_mask, layer, spy


class CrossAttention(MultiHeadAttention):
    def forward(self, x, memory, mask=None, is_causal=False, attend=attention):
        # ? Only two lines differ from MultiHeadAttention: whom do the keys and values come from?
        q = self.split(self.w_q(x))
        #! queries come from x, the target, because each of its words asks the memory
        # ~ q = self.split(self.w_q(memory))
        k = self.split(self.w_k(memory))
        #! keys come from the memory, which is what the target looks through
        # ~ k = self.split(self.w_k(x))
        #! keys need a matrix of their own, w_k
        # ~ k = self.split(self.w_q(memory))
        v = self.split(self.w_v(memory))
        #! values come from the memory, because that is what the target wants to read
        # ~ v = self.split(self.w_v(x))
        #! values need a matrix of their own, w_v
        # ~ v = self.split(self.w_k(memory))
        #! keys and values come from x, so that is self-attention and the memory is never read
        # ~2 k = self.split(self.w_k(x))
        #| v = self.split(self.w_v(x))
        #! the memory asks and the target answers; it is the other way round, queries from x, keys and
        #! values from the memory
        # ~3 q = self.split(self.w_q(memory))
        #| k = self.split(self.w_k(x))
        #| v = self.split(self.w_v(x))
        y = attend(q, k, v, mask, is_causal)  # (B, h, T, d_k)
        #! the mask is not passed on, so the target reads padding
        # ~ y = attend(q, k, v, None, is_causal)
        #! is_causal is not passed on
        # ~ y = attend(q, k, v, mask)
        #! mask and is_causal are not passed on
        # ~ y = attend(q, k, v)
        #! the whole memory may be read, because all of the source is known; it is causal only if
        #! is_causal says so
        # ~ y = attend(q, k, v, mask, True)
        #! it calls attention, whatever it is given as attend
        # ~ y = attention(q, k, v, mask, is_causal)
        #! queries and keys are exchanged
        # ~ y = attend(k, q, v, mask, is_causal)
        return self.w_o(self.merge(y))
        #! w_o is missing, which mixes what the heads found
        # ~ return self.merge(y)
        #! x is added here and again in the block; the block does it
        # ~ return x + self.w_o(self.merge(y))


class DecoderBlock(Block):
    def __init__(self, attention, cross, ff, norm_attention, norm_cross, norm_ff, dropout=0.0):
        super().__init__(attention, ff, norm_attention, norm_ff, dropout)
        #! nothing is dropped: hand dropout on to super().__init__, and drop what each part gives
        # ~ super().__init__(attention, ff, norm_attention, norm_ff)
        self.cross = cross
        self.norm_cross = norm_cross

    def forward(self, x, memory, memory_mask=None, attend=attention):
        # ? Three parts, each x = x + dropout(part(norm(x))): attention, cross-attention, the network.
        x = x + self.dropout(self.attention(self.norm_attention(x), None, True, attend))
        #! attention to the target is causal; without that a word reads the one that it should predict
        # ~ x = x + self.dropout(self.attention(self.norm_attention(x), None, False, attend))
        #! attend is not passed on, so a cache would never be asked
        # ~ x = x + self.dropout(self.attention(self.norm_attention(x), None, True))
        #! the mask of the memory is for cross-attention alone; the target's words aren't the source's
        # ~ x = x + self.dropout(self.attention(self.norm_attention(x), memory_mask, True, attend))
        #! the attention's output is not added to x, so the stream is lost
        # ~ x = self.dropout(self.attention(self.norm_attention(x), None, True, attend))
        #! the attention lacks its norm
        # ~ x = x + self.dropout(self.attention(x, None, True, attend))
        #! dropout is missing on the attention's output
        # ~ x = x + self.attention(self.norm_attention(x), None, True, attend)
        x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        #! the mask of the memory is not passed on, so the target reads the source's padding
        # ~ x = x + self.dropout(self.cross(self.norm_cross(x), memory))
        #! the mask of the memory went to the target's attention; cross-attention needs it, because the
        #! memory has the padding
        # ~2 x = x + self.dropout(self.attention(self.norm_attention(x), memory_mask, True, attend))
        #| x = x + self.dropout(self.cross(self.norm_cross(x), memory))
        #! cross-attention lacks its norm
        # ~ x = x + self.dropout(self.cross(x, memory, memory_mask))
        #! cross-attention has a norm of its own, norm_cross; yours uses the attention's
        # ~ x = x + self.dropout(self.cross(self.norm_attention(x), memory, memory_mask))
        #! cross-attention's output is not added to x, so the stream is lost
        # ~ x = self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        #! the memory is never read: cross-attention is missing
        # ~
        #! the memory is normed once more; it is read as it comes, because the encoder ends with a norm
        # ~ x = x + self.dropout(self.cross(self.norm_cross(x), self.norm_cross(memory), memory_mask))
        #! the whole memory may be read at each position, so cross-attention isn't causal
        # ~ x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask, True))
        #! `attend` is for the target's own attention alone: a cache of its keys would get the memory's,
        #! too
        # ~ x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask, attend=attend))
        #! dropout is missing on cross-attention's output
        # ~ x = x + self.cross(self.norm_cross(x), memory, memory_mask)
        #! cross-attention comes first; the target reads itself first, then the memory
        # ~2 x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        #| x = x + self.dropout(self.attention(self.norm_attention(x), None, True, attend))
        #! both attentions read the same x; cross-attention reads what the first has added to
        # ~2 new = x + self.dropout(self.attention(self.norm_attention(x), None, True, attend))
        #| x = new + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        return x + self.dropout(self.ff(self.norm_ff(x)))
        #! the network's output is not added to x, so the stream is lost
        # ~ return self.dropout(self.ff(self.norm_ff(x)))
        #! the network lacks its norm
        # ~ return x + self.dropout(self.ff(x))
        #! the network has a norm of its own, norm_ff
        # ~ return x + self.dropout(self.ff(self.norm_cross(x)))
        #! the network is missing
        # ~ return x
        #! dropout is missing on the network's output
        # ~ return x + self.ff(self.norm_ff(x))
        #! the network comes before cross-attention; it is the last of the three parts
        # ~2 x = x + self.dropout(self.ff(self.norm_ff(x)))
        #| return x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))
        #! that is post-norm, as in the paper; here a norm comes before each part, and nothing on the stream
        #! itself
        # ~3 x = self.norm_attention(x + self.dropout(self.attention(x, None, True, attend)))
        #| x = self.norm_cross(x + self.dropout(self.cross(x, memory, memory_mask)))
        #| return self.norm_ff(x + self.dropout(self.ff(x)))


class Decoder(Stack):
    def forward(self, x, memory, memory_mask=None, attend=attention, positions=None):
        for block, attend_here in zip(self.blocks, self.attend_by_block(attend, positions)):
            x = block(x, memory, memory_mask, attend_here)
            #! attend is not passed on, so a cache would never be asked
            # ~ x = block(x, memory, memory_mask)
            #! the mask of the memory is not passed on, so the target reads the source's padding
            # ~ x = block(x, memory, None, attend_here)
            #! every block reads the same memory, the encoder's; yours hands on what the last block gave
            # ~ memory = x = block(x, memory, memory_mask, attend_here)
            #! every block reads what the one before gave; yours reads the target's vectors each time
            # ~ y = block(x, memory, memory_mask, attend_here)
            # ~ return self.norm(x) -> return self.norm(y)
            #! target and memory are exchanged
            # ~ x = block(memory, x, memory_mask, attend_here)
        return self.norm(x)
        #! the norm after the last block is missing
        # ~ return x
        #! the norm comes once, after the last block, not after each
        # ~2 x = self.norm(block(x, memory, memory_mask, attend_here))
        #| return x
        #! `rotary` isn't used: the base class says for each block what to call, self.attend_by_block
        # ~ self.attend_by_block(attend, positions) -> attend if isinstance(attend, list) else [attend] * len(self.blocks)
        #! attend may be a list with a function for each block, as the caches of lesson 11 are; every block
        #! got the first of them
        # ~ self.attend_by_block(attend, positions) -> [self.attend_by_block(attend, positions)[0]] * len(self.blocks)
        #! the positions are not passed on to `rotary`
        # ~ self.attend_by_block(attend, positions) -> self.attend_by_block(attend, torch.arange(x.shape[1]))


class EncoderDecoder(nn.Module):
    def __init__(self, embed, encoder, decoder, tgt_embed=None):
        super().__init__()
        self.src_embed = embed
        self.tgt_embed = tgt_embed or embed  # one vocabulary for both sides, or two
        #! the target's own embedding, tgt_embed, isn't used
        # ~ self.tgt_embed = embed
        self.encoder = encoder
        self.decoder = decoder
        vocab_size, d_model = self.tgt_embed.tokens.weight.shape
        self.head = nn.Linear(d_model, vocab_size, bias=False)
        self.head.weight = self.tgt_embed.tokens.weight  # one matrix for tokens and logits
        #! the head has a matrix of its own; it is that of the target's tokens, so the two learn together
        # ~
        #! the head is tied to the source's tokens; it writes the target's
        # ~ self.head.weight = self.src_embed.tokens.weight

    def encode(self, src):  # (B, S) -> (B, S, d_model)
        positions = torch.arange(src.shape[1], device=src.device)
        x = self.src_embed(src, positions)
        #! the source is read with the target's embedding
        # ~ x = self.tgt_embed(src, positions)
        #! positions of the source begin with 0
        # ~ x = self.src_embed(src, positions + 1)
        return self.encoder(x, padding_mask(src), positions=positions)
        #! words of the source attend to its padding, so a sentence depends on its batch:
        #! padding_mask(src)
        # ~ return self.encoder(x, positions=positions)
        #! the positions are not passed on to both stacks, whose `rotary` needs them
        # ~ return self.encoder(x, padding_mask(src))
        #! the encoder may read the whole source, so nothing is causal here
        # ~ return self.encoder(x, padding_mask(src), True, positions=positions)
        #! the encoder is missing: the memory is what it gives, not the embeddings
        # ~ return x
        #! the mask is the wrong way round: True means that a token may be read
        # ~ return self.encoder(x, ~padding_mask(src), positions=positions)

    def decode(self, tgt, memory, memory_mask=None, attend=attention, positions=None):
        if positions is None:
            positions = torch.arange(tgt.shape[1], device=tgt.device)
        #! the positions that decode is given aren't used: with a cache the next token's isn't 0
        # ~2 positions = torch.arange(tgt.shape[1], device=tgt.device)
        x = self.tgt_embed(tgt, positions)
        #! the target is read with the source's embedding
        # ~ x = self.src_embed(tgt, positions)
        x = self.decoder(x, memory, memory_mask, attend, positions)
        #! attend is not passed on to the decoder, so its caches would never be asked
        # ~ x = self.decoder(x, memory, memory_mask, positions=positions)
        #! the mask of the memory is not passed on, so the target reads the source's padding
        # ~ x = self.decoder(x, memory, None, attend, positions)
        #! the positions are not passed on to both stacks, whose `rotary` needs them
        # ~ x = self.decoder(x, memory, memory_mask, attend)
        return self.head(x)
        #! the head is missing: compare each vector with those of all tokens
        # ~ return x
        #! logits are asked for, without softmax, because the loss has one inside
        # ~ return self.head(x).log_softmax(dim=-1)
        #! probabilities came back; logits are asked for, because the loss has a softmax inside
        # ~ return self.head(x).softmax(dim=-1)
        #! only the last position came back; training needs the logits of all
        # ~ return self.head(x[:, -1:])
        #! no gradient reaches the head: `detach` cuts it off, so the table learns from its inputs alone
        # ~ return self.head(x) -> return nn.functional.linear(x, self.head.weight.detach())

    def forward(self, src, tgt):
        return self.decode(tgt, self.encode(src), padding_mask(src))
        #! the target reads the padding of the source: hand padding_mask(src) to decode
        # ~ return self.decode(tgt, self.encode(src))
        #! the mask is made of the target, but what it hides is the source's padding
        # ~ return self.decode(tgt, self.encode(src), padding_mask(tgt))
        #! source and target are exchanged
        # ~ return self.decode(src, self.encode(tgt), padding_mask(tgt))
        #! the memory is the target's own; encode the source
        # ~ return self.decode(tgt, self.encode(tgt), padding_mask(tgt))


def translator(vocab_size, max_len, d_model, n_heads, n_layers, d_ff, dropout=0.0):
    encoder, decoder = [], []
    for _ in range(n_layers):
        encoder.append(make_block(d_model, n_heads, d_ff, dropout))
        #! dropout is not passed on to the encoder's blocks
        # ~ encoder.append(make_block(d_model, n_heads, d_ff))
        #! the encoder's attention doesn't get the number of heads
        # ~ encoder.append(make_block(d_model, 1, d_ff, dropout))
        block = DecoderBlock(
            MultiHeadAttention(d_model, n_heads),
            #! the decoder's attention doesn't get the number of heads
            # ~ MultiHeadAttention(d_model, 1),
            CrossAttention(d_model, n_heads),
            #! cross-attention doesn't get the number of heads
            # ~ CrossAttention(d_model, 1),
            FeedForward(d_model, d_ff, dropout),
            #! dropout is not passed on to the decoder's networks
            # ~ FeedForward(d_model, d_ff),
            #! the decoder's networks bend by a ReLU; the course takes the GELU, as in the encoder
            # ~ FeedForward(d_model, d_ff, dropout, nn.functional.relu),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            nn.LayerNorm(d_model),
            #! one norm serves all three parts; each has its own
            # ~3 *[nn.LayerNorm(d_model)] * 3,
            dropout,
            #! dropout is not passed on to the decoder's blocks
            # ~
        )
        decoder.append(block)
        #! all layers of the decoder are one and the same block; make a new one for each
        # ~ decoder = [block] * n_layers
    #! all layers of the encoder are one and the same block; make a new one for each
    # ~0 encoder = encoder[:1] * n_layers
    return EncoderDecoder(
        Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout),
        #! dropout is not passed on to the embedding
        # ~ Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model)),
        Stack(encoder, nn.LayerNorm(d_model)),
        Decoder(decoder, nn.LayerNorm(d_model)),
        #! source and target have one embedding, because they share a vocabulary; yours has two, which
        #! learn apart
        # ~0 Embedding(vocab_size, d_model, LearnedPositions(max_len, d_model), dropout),
        #! dropout is passed on to no part
        # ~ dropout) -> 0.0)
        # ~ dropout, -> 0.0,
    )


def collate_pairs(rows, pad=PAD):  # (source, target) pairs of rows
    src = pad_rows([source for source, target in rows], pad)
    #! the source is read whole, its end included
    # ~ src = pad_rows([source[:-1] for source, target in rows], pad)
    #! the source is read whole, its beginning included
    # ~ src = pad_rows([source[1:] for source, target in rows], pad)
    tgt = pad_rows([target[:-1] for source, target in rows], pad)
    #! what the decoder reads lacks the last token: behind it nothing is asked
    # ~ tgt = pad_rows([target for source, target in rows], pad)
    #! the model reads what it should predict, because input and target are the same tokens; the target
    #! at a position is the token that comes next
    # ~ tgt = pad_rows([target[1:] for source, target in rows], pad)
    targets = pad_rows([target[1:] for source, target in rows], IGNORE)
    #! padding counts as a target; fill it with IGNORE, which the loss leaves out
    # ~ targets = pad_rows([target[1:] for source, target in rows], pad)
    #! padding counts as a target; fill it with IGNORE, which the loss leaves out
    # ~ targets = pad_rows([target[1:] for source, target in rows])
    #! the targets lack their first token, BOS, which nobody has to predict
    # ~ targets = pad_rows([target for source, target in rows], IGNORE)
    #! nothing is shifted: the target at a position is the token that comes next
    # ~2 tgt = pad_rows([target for source, target in rows], pad)
    #| targets = pad_rows([target for source, target in rows], IGNORE)
    #! what is read lacks the last token and what is asked for the first; yours are exchanged
    # ~2 tgt = pad_rows([target[1:] for source, target in rows], pad)
    #| targets = pad_rows([target[:-1] for source, target in rows], IGNORE)
    #! `pad` isn't used
    # ~3 src = pad_rows([source for source, target in rows])
    #| tgt = pad_rows([target[:-1] for source, target in rows])
    #| targets = pad_rows([target[1:] for source, target in rows], IGNORE)
    #! inputs are filled with IGNORE, which no embedding has; fill them with pad
    # ~3 src = pad_rows([source for source, target in rows], IGNORE)
    #| tgt = pad_rows([target[:-1] for source, target in rows], IGNORE)
    #| targets = pad_rows([target[1:] for source, target in rows], IGNORE)
    return (src, tgt), targets
    #! the source comes first, then the target
    # ~ return (tgt, src), targets
    #! inputs and targets are a pair: (src, tgt), targets
    # ~ return src, tgt, targets
    #! the inputs are a list, but `batch_loss` unpacks a tuple alone
    # ~ return [src, tgt], targets


# ---------------------------------------------------------------- questions


def memories(draw, d, T=4, S=6):
    "x, a memory and a mask of its padding."
    return draw.numbers(2, T, d), draw.numbers(2, S, d), a_mask(draw, 2, 1, 1, S)


@question("13", "CrossAttention")
def ask_cross(draw):
    for init in [(12, 3), (10, 2, False)]:
        x, memory, mask = memories(draw, init[0])
        yield Call("x (2, 4, d), memory (2, 6, d)", (x, memory), {}, init)
        yield Call("a mask", (x, memory), dict(mask=mask), init)
        yield Call("is_causal=True", (x, memory), dict(is_causal=True), init)
        yield Call("a longer target than source", (memory, x), {}, init)
        same, other, mask = memories(draw, init[0], 5, 5)
        options = dict(mask=mask, is_causal=True, attend=spy)
        yield Call("another attend, with a mask", (same, other), options, init)
        yield Call("another attend", (same, other), dict(attend=spy), init)
        yield Call("as many words in both", (same, other, mask), {}, init)
        for _ in draw.rounds:
            x, memory, mask = memories(draw, init[0], draw.size(1, 6), draw.size(1, 6))
            yield Call("sizes of chance", (x, memory, mask), {}, init)


def decoder_parts(dropout=0.0, number=0):
    parts = (
        layer(MultiHeadAttention, 12, 3),
        layer(CrossAttention, 12, 3),
        layer(FeedForward, 12, 20),
        *(nn.LayerNorm(12, eps) for eps in (1e-5, 0.1, 0.5)),  # so that an exchange is seen
    )
    for part in parts[:3]:
        for p in part.parameters():
            p.data.mul_(0.6 + 0.3 * number)
    return *parts, dropout


def ask_decoder(draw, init):
    "Calls of what reads a target and a memory."
    x, memory, mask = memories(draw, 12)
    yield Call("x (2, 4, 12), memory (2, 6, 12)", (x, memory), {}, init)
    yield Call("a memory mask", (x, memory), dict(memory_mask=mask), init)
    yield Call("a memory mask and another attend", (x, memory, mask, spy), {}, init)
    x, memory, mask = memories(draw, 12, 5, 5)
    yield Call("as many words in both", (x, memory, mask), {}, init)
    yield Call("one word", (x[:, :1], memory, mask), {}, init)
    for _ in draw.rounds:
        x, memory, mask = memories(draw, 12, draw.size(1, 6), draw.size(1, 6))
        yield Call("sizes of chance", (x, memory, mask), {}, init)


@question("13", "DecoderBlock")
def ask_decoder_block(draw):
    yield from ask_decoder(draw, decoder_parts())
    x, memory, mask = memories(draw, 12)
    yield Call("dropout=0.5, evaluated", (x, memory, mask), {}, decoder_parts(0.5))
    yield Call("dropout=1, trained", (x, memory, mask), {}, decoder_parts(1.0), True)


def decoder_blocks(n=2):
    return [layer(DecoderBlock, *decoder_parts(number=i)) for i in range(n)]


def less(q, k, v, mask=None, is_causal=False):
    "In place of attention."
    return 0.5 * spy(q, k, v, mask, is_causal)


@question("13", "Decoder")
def ask_decoders(draw):
    init = decoder_blocks(), nn.LayerNorm(12)
    yield from ask_decoder(draw, init)
    x, memory, mask = memories(draw, 12)
    yield Call("a list of attends", (x, memory, mask, [spy, less]), {}, init)
    yield Call("no blocks", (x, memory, mask), {}, ([], nn.LayerNorm(12)))
    at = dict(positions=torch.tensor([0, 3, 4, 9]))
    yield Call("with positions, which nobody uses", (x, memory, mask), at, init)
    init = *init, Rotary(4, 50.0)
    yield Call("with rotary positions", (x, memory, mask), at, init)
    yield Call("rotary and a list of attends", (x, memory, mask, [less, spy]), at, init)


def two_stacks(rotary=None, learned=True):
    embed = layer(Embedding, 11, 12, LearnedPositions(20, 12) if learned else None)
    blocks = [make_block(12, 3, 20) for _ in range(2)]
    return (
        embed,
        layer(Stack, blocks, nn.LayerNorm(12), rotary),
        layer(Decoder, decoder_blocks(), nn.LayerNorm(12), rotary),
    )


def padded(draw, B, S, high=11):
    "Tokens of a source, whose rows end with padding."
    tokens = draw.tokens(B, S, high=high)
    for row, n in enumerate(draw.tokens(B, low=1, high=S + 1).tolist()):
        tokens[row, n:] = PAD
    return tokens


@question("13", "EncoderDecoder")
def ask_encoder_decoder(draw):
    src, tgt = (
        torch.tensor([[1, 5, 6, 7, 2], [1, 9, 2, 0, 0]]),
        torch.tensor([[1, 8, 4], [1, 3, 10]]),
    )
    memory = draw.numbers(2, 5, 12)
    mask = padding_mask(src)

    def parts_of(model, args, result):
        return {
            "": result,
            "encode(src)": model.encode(src),
            "decode(tgt, memory)": model.decode(tgt, memory),
            "decode with a mask": model.decode(tgt, memory, mask),
            "decode with another attend": model.decode(tgt, memory[:, :3], None, spy),
            "decode with a list of attends": model.decode(tgt, memory, mask, [spy, less]),
            "decode at positions 2, 3, 7": model.decode(tgt, memory, mask, positions=at),
            "decode at other positions for each row": model.decode(
                tgt, memory, mask, positions=rows
            ),
        }

    at, rows = torch.tensor([2, 3, 7]), torch.tensor([[2, 3, 7], [0, 1, 2]])

    def turned(model, args, result):
        return {
            "": result,
            "encode(src)": model.encode(src),
            "decode at positions 2, 3, 7": model.decode(tgt, memory, mask, less, positions=at),
        }

    learned, rotary = two_stacks(), two_stacks(Rotary(4, 50.0), False)
    two = *learned, layer(Embedding, 9, 12, LearnedPositions(30, 12))
    yield Call("source and target", (src, tgt), {}, learned, look=parts_of)
    yield Call("rotary positions", (src, tgt), {}, rotary, look=turned)
    yield Call("a target of one token", (src, tgt[:, :1]), {}, learned)
    yield Call("a longer target than source", (tgt, src), {}, learned)
    few = tgt.clamp(max=8)
    yield Call("two vocabularies", (src, few), {}, two)
    for _ in draw.rounds:
        B = draw.size(1, 3)
        given = padded(draw, B, draw.size(1, 6)), draw.tokens(B, draw.size(1, 6), high=9)
        yield Call("tokens of chance", given, {}, two)
        yield Call("tokens of chance", given, {}, learned)


@question("13", "translator")
def ask_translator(draw):
    sizes = 11, 20, 12, 3, 2, 20
    src, tgt = padded(draw, 2, 5), draw.tokens(2, 4)

    def dropped(made, args, model):
        return {"": None, **dropouts(["encoder", "decoder"], ["src_embed"], model, src, tgt)}

    def count(made, args, model):
        return {"": sum(p.numel() for p in model.parameters())}

    yield Call("logits", (src, tgt), {}, sizes)
    yield Call("dropout=0.5, evaluated", (src, tgt), {}, (*sizes, 0.5))
    yield Call("dropout=1", (*sizes, 1.0), look=dropped)
    yield Call("the number of weights", sizes, look=count)
    yield Call("no layers", (src, tgt), {}, (11, 9, 8, 2, 0, 12))
    for _ in draw.rounds:
        h, d_k = draw.size(1, 4), draw.size(1, 4)
        init = draw.size(8, 12), draw.size(6, 9), h * d_k, h, draw.size(1, 3), draw.size(2, 9)
        given = padded(draw, 3, draw.size(1, 6), 8), draw.tokens(3, draw.size(1, 6), high=8)
        yield Call(f"translator{init}", given, {}, init)


@question("13", "collate_pairs")
def ask_collate_pairs(draw):
    def kinds(made, args, batch):
        return {"": batch, "the type of the inputs": type(batch[0]).__name__}

    rows = [([1, 5, 6, 2], [1, 7, 8, 9, 2]), ([1, 2], [1, 3, 2]), ([1, 4, 4, 4, 4, 2], [1, 2])]
    yield Call("three pairs", (rows,), look=kinds)
    yield Call("pad=9", (rows, 9), look=kinds)
    yield Call("one pair", (rows[1:2],), look=kinds)
    for _ in draw.rounds:
        some = [
            tuple([1, *draw.tokens(draw.size(0, 5), low=4).tolist(), 2] for _ in range(2))
            for _ in range(draw.size(1, 5))
        ]
        yield Call("pairs of chance", (some,), look=kinds)
