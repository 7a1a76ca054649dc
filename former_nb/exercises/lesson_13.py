"Lesson 13: the encoder–decoder."

import math

import torch
from torch import nn

from ..attention.fused import attention
from ..attention.masks import causal_mask, padding_mask
from ..grading.ask import Call, exercise, question
from .lesson_03 import MultiHeadAttention
from .lesson_05 import LearnedPositions
from .lesson_06 import Block, FeedForward, Stack, make_block
from .lesson_07 import BOS, IGNORE, PAD, Embedding, pad_rows
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
    #! the last column is cut off after padding, so a shorter text keeps its EOS; cut each row first
    # ~ tgt = pad_rows([target for source, target in rows], pad)[:, :-1]
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
    #! the two fillings are exchanged: what is read is filled with pad, and what is asked for with IGNORE
    # ~2 tgt = pad_rows([target[:-1] for source, target in rows], IGNORE)
    #| targets = pad_rows([target[1:] for source, target in rows], pad)
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


# ---------------------------------------------------------------- exercises


@exercise("13.1")
def my_cross_attention(layer, x, memory):  # a layer, (B, T, d_model), (B, S, d_model)
    # ? Who asks? The target does, so the queries are made of x. Who answers?
    # ? `layer.split(layer.w_q(x))` are the queries. Keys and values are made of the memory in the same
    # ? way, each with its own matrix.
    # ? `attention(q, k, v)`, then `layer.merge`, and `layer.w_o` comes last.
    q = layer.split(layer.w_q(x))  # (B, h, T, d_k)
    #! queries, keys and values all come from `memory`, so the source attends to itself
    # ~ q = layer.split(layer.w_q(memory))
    k = layer.split(layer.w_k(memory))  # (B, h, S, d_k)
    #! the keys come from `x`; they belong to the memory, as the values do
    # ~ k = layer.split(layer.w_k(x))
    #! queries and keys both come from `w_q`; the keys have `w_k`
    # ~ k = layer.split(layer.w_q(memory))
    v = layer.split(layer.w_v(memory))  # (B, h, S, d_k)
    #! the values come from `x`; they belong to the memory, as the keys do
    # ~ v = layer.split(layer.w_v(x))
    #! keys and values both come from `w_k`; the values have `w_v`
    # ~ v = layer.split(layer.w_k(memory))
    #! queries, keys and values all come from `x`, so the target attends to itself
    # ~2 k = layer.split(layer.w_k(x))
    # | v = layer.split(layer.w_v(x))
    #! the queries come from `memory`, and keys and values from `x`; it should be the other way round
    # ~3 q = layer.split(layer.w_q(memory))
    # | k = layer.split(layer.w_k(x))
    # | v = layer.split(layer.w_v(x))
    #! nothing was projected; `w_q`, `w_k` and `w_v` come before `split`
    # ~3 q, k, v = layer.split(x), layer.split(memory), layer.split(memory)
    #! a linear layer is d_model wide; project before you split, and merge before `w_o`
    # ~3 q = layer.w_q(layer.split(x))
    # | k = layer.w_k(layer.split(memory))
    # | v = layer.w_v(layer.split(memory))
    #! that is one wide head; nothing was split
    # ~3 q, k, v = layer.w_q(x), layer.w_k(memory), layer.w_v(memory)
    # ~ layer.merge(y) -> y
    y = attention(q, k, v)  # (B, h, T, d_k)
    #! keys and values are exchanged
    # ~ y = attention(q, v, k)
    #! that is causal, but the source is there as a whole, so each query may read it all
    # ~ y = attention(q, k, v, is_causal=True)
    #! the scores are not divided by √d_k
    # ~ y = (q @ k.mT).softmax(dim=-1) @ v
    #! scores need the keys transposed, `k.mT`; `attention` does it for you
    # ~ y = (q @ k / q.shape[-1] ** 0.5).softmax(dim=-1) @ v
    return layer.w_o(layer.merge(y))  # (B, T, d_model)
    #! the layer's own `forward` knows no memory; project with `w_q`, `w_k` and `w_v`, and end with
    #! `w_o`
    # ~ return layer(x, memory)
    #! W_o is missing: `layer.w_o` comes last
    # ~ return layer.merge(y)
    #! the heads are still apart; `layer.merge` joins them, before `w_o`
    # ~ return y
    #! you merged by `reshape` alone; `layer.merge` puts the words before the heads again
    # ~ return layer.w_o(y.reshape(x.shape))
    #! you added `x`; the layer returns what was read, and the block adds
    # ~ return x + layer.w_o(layer.merge(y))


@exercise("13.2")
def my_masks(src, tgt):  # (B, S) and (B, T), integers
    # ? A mask hides keys. For each attention ask which text the keys come from, and which of them are
    # ? pads or lie ahead.
    # ? The encoder reads src: hide its pads. The decoder reads what it has written: hide what lies
    # ? ahead. Cross-attention reads src again.
    # ? return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src)
    return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src)
    #! the encoder's mask lets the source's pads be read
    # ~ return padding_mask(src) | True, causal_mask(tgt.shape[1]), padding_mask(src)
    #! the encoder's mask is causal; the source is there as a whole, so each token may read it all
    # ~ return padding_mask(src) & causal_mask(src.shape[1]), causal_mask(tgt.shape[1]), padding_mask(src)
    #! the encoder's mask is about the target; its keys are the source's
    # ~ return padding_mask(tgt), causal_mask(tgt.shape[1]), padding_mask(src)
    #! the decoder's own mask hides the pads, but lets each token read what follows it
    # ~ return padding_mask(src), padding_mask(tgt), padding_mask(src)
    #! the decoder's own mask lets each token read what follows it
    # ~ return padding_mask(src), causal_mask(tgt.shape[1]) | True, padding_mask(src)
    #! the decoder's own mask hides a token from itself; token i may read token i
    # ~ return padding_mask(src), causal_mask(tgt.shape[1]).tril(-1), padding_mask(src)
    #! the decoder's own mask is turned round; a token may read what is before it, not what follows
    # ~ return padding_mask(src), causal_mask(tgt.shape[1]).mT, padding_mask(src)
    #! the decoder's own mask is about the source; its keys are the target's
    # ~ return padding_mask(src), causal_mask(src.shape[1]), padding_mask(src)
    #! `causal_mask` takes the number of tokens, `tgt.shape[1]`
    # ~ return padding_mask(src), causal_mask(tgt), padding_mask(src)
    #! the decoder's own mask has the size of the batch; T is `tgt.shape[1]`
    # ~ return padding_mask(src), causal_mask(len(tgt)), padding_mask(src)
    #! the mask of cross-attention lets the source's pads be read
    # ~ return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src) | True
    #! the mask of cross-attention is about the target; its keys are the source's
    # ~ return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(tgt)
    #! the mask of cross-attention is causal; the source is there as a whole, so each token may read it
    #! all
    # ~ ahead = torch.ones(tgt.shape[1], src.shape[1], dtype=torch.bool).tril()
    # | return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src) & ahead
    #! they come in another order: the encoder's, the decoder's own, that of cross-attention
    # ~ return padding_mask(src), padding_mask(src), causal_mask(tgt.shape[1])
    #! they are the other way round; True = may attend
    # ~ return ~padding_mask(src), ~causal_mask(tgt.shape[1]), ~padding_mask(src)
    #! `padding_mask` adds axes, (B, 1, 1, S), so that a mask fits over the heads and the queries
    # ~ return src != PAD, causal_mask(tgt.shape[1]), src != PAD


@exercise(
    "13.3",
    near=4e-3,  # two decimals are enough
    parts=(
        "(a) half of the letters are shown and cost nothing, the others are one of eight",
        "(b) reads the very letter that it is asked for",
        "(c) sees all of the target; the letter it is asked for is one position further on",
        "(d) sees no source, and what is written already tells nothing about the next letter, which "
        "is one of eight",
    ),
)
def losses():
    # ? For each model ask: what may it read when it is asked for a letter, and is that letter among
    # ? it?
    # ? (a) reads the source, which shows half of the letters. (b) has just read the letter it is asked
    # ? for. (c) reads the next position of the target. (d) has nothing but what it wrote.
    return 0.5 * math.log(8), 0.0, 0.0, math.log(8)
    #! those are bits; nats are natural logarithms
    # ~ return 1.5, 0.0, 0.0, 3.0
    #! those are whole targets; the loss is per letter
    # ~ return 10 * math.log(8), 0.0, 0.0, 20 * math.log(8)
    #! <eos> is no letter: the loss is per letter
    # ~ return 20 / 21 * 0.5 * math.log(8), 0.0, 0.0, 20 / 21 * math.log(8)
    #! (a) the mean of losses is asked for, not the loss of a mean number of choices
    # ~ return math.log(4.5), 0.0, 0.0, math.log(8)
    #! (a) one half of the letters costs ln 8 and the other nothing; ln 4 would be a choice among four
    # ~ return math.log(4), 0.0, 0.0, math.log(8)
    #! (c) the last letter is read, too: what is fed ends with it, and after it only <eos> is asked for
    # ~ return 0.5 * math.log(8), 0.0, math.log(8) / 20, math.log(8)


@exercise("13.4", near=2e-4)  # V for V - 1 is right, too
def start_loss(vocab_size, d_model):
    # ? Two kinds of logits: that of the word just read, and all others. How large is the first, and
    # ? how are the others spread?
    # ? The first is √d. The others are normal with variance one, and the mean of e^z is then e^(1/2).
    # ? The target is one of the others.
    return math.log(math.exp(d_model**0.5) + (vocab_size - 1) * math.exp(0.5))
    #! the other logits are not 0 but vary: the mean of e^z is e^(1/2)
    # ~ return math.log(math.exp(d_model**0.5) + vocab_size - 1)
    #! the variance is one, so the mean of e^z is e^(1/2), not e
    # ~ return math.log(math.exp(d_model**0.5) + (vocab_size - 1) * math.exp(1))
    #! the logit of the word just read is √d, not d
    # ~ return math.log(math.exp(d_model) + (vocab_size - 1) * math.exp(0.5))
    #! the norm's output has length √d, so that the other logits vary by 1, not by 1/d
    # ~ return math.log(math.exp(1) + (vocab_size - 1) * math.exp(0.5 / d_model))
    #! that is the loss of knowing nothing; the word just read is still in the stream
    # ~ return math.log(vocab_size)
    #! the word just read has a logit of its own, √d, since E has rows of length one, and the norm's
    #! output has length √d; yours leaves it out, or is far too small
    # ~ return math.log(vocab_size) + 0.5
    #! true of a small vocabulary only; the other words count too
    # ~ return d_model**0.5
    #! the logit of the word just read is √d, with no spread of its own to add
    # ~ return math.log(math.exp(d_model**0.5 + 0.5) + (vocab_size - 1) * math.exp(0.5))
    #! the target is another word than the one just read; its logit is 0 on average
    # ~ return math.log(math.exp(d_model**0.5) + (vocab_size - 1) * math.exp(0.5)) - d_model**0.5
    #! that is in bits; the loss is in nats
    # ~ return math.log2(math.exp(d_model**0.5) + (vocab_size - 1) * math.exp(0.5))
    #! the two kinds of logits stand in one sum of exponentials; their losses do not add
    # ~ return d_model**0.5 + math.log(vocab_size)
    #! a sum of exponentials still needs its logarithm
    # ~ return math.exp(d_model**0.5) + (vocab_size - 1) * math.exp(0.5)


# ---------------------------------------------------------------- questions


@question("13", "13.1")
def ask_my_cross_attention(draw):
    three, four = layer(MultiHeadAttention, 18, 3), layer(MultiHeadAttention, 12, 4)
    for B, T, S in [(2, 5, 5), (2, 5, 3), (3, 4, 7), (1, 5, 1), (1, 1, 4)]:
        args = three, draw.numbers(B, T, 18, scale=2.0), draw.numbers(B, S, 18, scale=2.0)
        yield Call(f"x {(B, T, 18)}, memory {(B, S, 18)}", args)
    for _ in draw.rounds:
        B, T, S = draw.size(1, 3), draw.size(4, 6), draw.size(7, 9)
        args = four, draw.numbers(B, T, 12, scale=2.0), draw.numbers(B, S, 12, scale=2.0)
        yield Call(f"x {(B, T, 12)}, memory {(B, S, 12)}, four heads", args)


def masks_seen(answer, args, given):
    "Three masks, each over all pairs of real queries and keys."
    src, tgt = args
    if not isinstance(given, (tuple, list)):
        return {"": given}
    found, (B, S), T = {"": f"{len(given)} masks"}, src.shape, tgt.shape[1]
    if len(given) != 3:
        return found
    for name, mask, queries, n in [
        ("the encoder's mask", given[0], src, S),
        ("the decoder's own mask", given[1], tgt, T),
        ("the mask of cross-attention", given[2], tgt, S),
    ]:
        shape = B, 1, queries.shape[1], n
        if mask is None:
            mask = torch.ones(shape, dtype=torch.bool)
        if isinstance(mask, torch.Tensor) and fits_over(mask.shape, shape):
            mask = mask.broadcast_to(shape) * (queries != PAD)[:, None, :, None]
        found[name] = mask
    return found


def fits_over(small, large):
    "Whether a tensor of one shape can be broadcast to another."
    axes = zip(small[::-1], large[::-1])
    return len(small) <= len(large) and all(a in (1, b) for a, b in axes)


@question("13", "13.2")
def ask_my_masks(draw):
    def call(what, src, tgt):
        return Call(
            f"{what}, src {tuple(src.shape)}, tgt {tuple(tgt.shape)}", (src, tgt), look=masks_seen
        )

    src = torch.tensor([[BOS, 5, 6, 7, PAD], [BOS, 8, PAD, PAD, PAD]])
    tgt = torch.tensor([[BOS, 7, 6, PAD], [BOS, 8, PAD, PAD]])
    yield call("padded", src, tgt)
    yield call("a longer target", tgt, torch.cat([src, src], dim=1)[:, :5])
    yield call("one text", src[:1], tgt[:1])
    yield call("no pads", draw.tokens(3, 6), draw.tokens(3, 4))
    yield call("one token", draw.tokens(3, 1), draw.tokens(3, 2))
    for _ in draw.rounds:
        B, S, T = draw.size(1, 3), draw.size(4, 6), draw.size(7, 9)
        yield call("texts of chance", padded(draw, B, S), padded(draw, B, T))


@question("13", "13.4")
def ask_start_loss(draw):
    for V, d in [
        *[(1000, 256), (8000, 64), (30_000, 16), (5000, 100), (1000, 36), (50_000, 144)],
        *[(2000, 512), (4000, 64), (1000, 225), (1280, 196), (6000, 32), (20_000, 49)],
    ]:
        yield Call(f"vocab_size = {V}, d_model = {d}", (V, d))


def memories(draw, d, T=4, S=6):
    "x, a memory and a mask of its padding."
    return draw.numbers(2, T, d), draw.numbers(2, S, d), a_mask(draw, 2, 1, 1, S)


@question("13", "CrossAttention")
def ask_cross(draw):
    for init in [(12, 3), (10, 2)]:
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
