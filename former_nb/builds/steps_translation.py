"""Lessons 13 to 16 in a reader's file: two stacks, translation, subwords and BLEU."""

from collections import Counter

import torch
from torch import nn

from .questions import (
    D_FF,
    LONGEST,
    NO_DROPOUT_ON_THE_NETWORK,
    D,
    H,
    V,
    ask_dropout,
    dropouts,
    made,
    parts_of_block,
    see_less,
    small_blocks,
    what_counts,
)
from .steps import same_weights, step, unchanged

# ---------------------------------------------------------------- 13 · the encoder–decoder


@step(
    "13",
    (
        "k = self.split(self.w_k(memory))",
        "k = self.split(self.w_k(x))",
        "keys come from the memory",
    ),
    (
        "v = self.split(self.w_v(memory))",
        "v = self.split(self.w_v(x))",
        "values come from the memory",
    ),
    (
        "q = self.split(self.w_q(x))",
        "q = self.split(self.w_q(memory))",
        "queries come from x, the target",
    ),
    ("attend(q, k, v, mask)", "attend(q, k, v)", "the mask is not passed on"),
    (
        "attend(q, k, v, mask)",
        "attend(q, k, v, mask, True)",
        "the whole memory may be seen; nothing is causal here",
    ),
    (
        "attend(q, k, v, mask)",
        "attention(q, k, v, mask)",
        "it calls attention, whatever it is given as attend",
    ),
    (
        "return self.w_o(self.merge(attend(q, k, v, mask)))",
        "return self.merge(attend(q, k, v, mask))",
        "w_o is missing, which mixes what the heads found",
    ),
    after=("MultiHeadAttention", "attention with masks"),
)
def CrossAttention(answer, right, draw):
    layer = made(answer, right.CrossAttention, D, H)
    x, memory = draw.numbers(2, 4, D), draw.numbers(2, 6, D)
    mask = draw.mask(2, 1, 1, 6)
    mask[..., 0] = True
    yield "x and memory", lambda: unchanged(layer, x, memory)
    yield "a mask", lambda: unchanged(layer, x, memory, mask=mask)
    yield "another attend", lambda: unchanged(layer, x, memory, mask=mask, attend=see_less)
    yield "a longer target than source", lambda: unchanged(layer, memory, x)


def decoder_parts(right):
    return parts_of_block(right, cross=True)


def ask_decoder(part, draw):
    "Questions for what reads a target and a memory."
    x, memory = draw.numbers(2, 4, D), draw.numbers(2, 6, D)
    mask = draw.mask(2, 1, 1, 6)
    mask[..., 0] = True
    yield "x and memory", lambda: unchanged(part, x, memory)
    yield "a memory mask", lambda: unchanged(part, x, memory, memory_mask=mask)
    given = dict(memory_mask=mask, attend=see_less)
    yield "another attend", lambda: unchanged(part, x, memory, **given)
    yield "the first words alone", lambda: part(x[:, :2], memory, memory_mask=mask)


@step(
    "13",
    (
        "self.attention(self.norm_attention(x), None, True, attend)",
        "self.attention(self.norm_attention(x), None, False, attend)",
        "attention to the target is causal",
    ),
    (
        "self.attention(self.norm_attention(x), None, True, attend)",
        "self.attention(self.norm_attention(x), None, True)",
        "attend is not passed on",
    ),
    (
        "self.cross(self.norm_cross(x), memory, memory_mask)",
        "self.cross(self.norm_cross(x), memory)",
        "the mask of the memory is not passed on",
    ),
    (
        "self.cross(self.norm_cross(x), memory, memory_mask)",
        "self.cross(x, memory, memory_mask)",
        "cross-attention reads what its norm has made of x",
    ),
    (
        "self.cross(self.norm_cross(x), memory, memory_mask)",
        "self.cross(self.norm_attention(x), memory, memory_mask)",
        "cross-attention has a norm of its own, norm_cross",
    ),
    (
        "x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))",
        "x = self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))",
        "what cross-attention writes is added to x",
    ),
    (
        "x = x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))",
        "pass",
        "the memory is never read",
    ),
    (
        "self.cross(self.norm_cross(x), memory, memory_mask)",
        "self.cross(self.norm_cross(x), self.norm_cross(memory), memory_mask)",
        "the memory is read as it comes; its encoder has a last norm",
    ),
    (
        "self.ff(self.norm_ff(x))",
        "self.ff(self.norm_cross(x))",
        "the network has a norm of its own, norm_ff",
    ),
    (
        "norm_attention, norm_ff, dropout)",
        "norm_attention, norm_ff)",
        "nothing is dropped: hand dropout on to super().__init__, and drop what each part writes",
    ),
    (
        "x + self.dropout(self.attention(self.norm_attention(x), None, True, attend))",
        "x + self.attention(self.norm_attention(x), None, True, attend)",
        "dropout on what attention writes is missing",
    ),
    (
        "x + self.dropout(self.cross(self.norm_cross(x), memory, memory_mask))",
        "x + self.cross(self.norm_cross(x), memory, memory_mask)",
        "dropout on what cross-attention writes is missing",
    ),
    *NO_DROPOUT_ON_THE_NETWORK,
    after=("Block",),
)
def DecoderBlock(answer, right, draw):
    block = answer(*decoder_parts(right))
    same_weights(block, right.DecoderBlock(*decoder_parts(right)))
    yield from ask_decoder(block, draw)
    parts = ["attention", "cross-attention", "the network"]
    yield from ask_dropout(answer, parts, draw.numbers(4, 6, D))


def decoder_blocks(right, n=2):
    blocks = [right.DecoderBlock(*decoder_parts(right)) for _ in range(n)]
    for number, block in enumerate(blocks):
        same_weights(block, block, number)
    return blocks


@step(
    "13",
    ("return self.norm(x)", "return x", "the norm after the last block is missing"),
    (
        "x = block(x, memory, memory_mask, attend_here)",
        "x = block(x, memory, memory_mask)",
        "attend is not passed on",
    ),
    (
        "x = block(x, memory, memory_mask, attend_here)",
        "x = block(x, memory, None, attend_here)",
        "the mask of the memory is not passed on",
    ),
    (
        "x = block(x, memory, memory_mask, attend_here)",
        "memory = x = block(x, memory, memory_mask, attend_here)",
        "every block reads the same memory, that of the encoder",
    ),
    after=("Stack",),
)
def Decoder(answer, right, draw):
    decoder = answer(decoder_blocks(right), nn.LayerNorm(D))
    yield from ask_decoder(decoder, draw)
    x, memory = draw.numbers(2, 4, D), draw.numbers(2, 6, D)
    mixed = [see_less, right.attention]
    yield "a function for each block", lambda: decoder(x, memory, attend=mixed)


def two_stacks(right):
    embed = same_weights(right.Embedding(V, D, LONGEST), right.Embedding(V, D, LONGEST))
    encoder = right.Stack(small_blocks(right, 2), nn.LayerNorm(D))
    return embed, encoder, right.Decoder(decoder_blocks(right), nn.LayerNorm(D))


SRC = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 2, 0, 0]])
TGT = torch.tensor([[1, 8, 4], [1, 3, 10]])


@step(
    "13",
    (
        "return self.encoder(self.embed(src, positions), padding_mask(src))",
        "return self.encoder(self.embed(src, positions))",
        "words of the source must not attend to its padding",
    ),
    (
        "return self.decode(tgt, self.encode(src), padding_mask(src))",
        "return self.decode(tgt, self.encode(src), None)",
        "the target must not read the padding of the source",
    ),
    (
        "x = self.decoder(self.embed(tgt, positions), memory, memory_mask, attend)",
        "x = self.decoder(self.embed(tgt, positions), memory, memory_mask)",
        "attend is not passed on to the decoder",
    ),
    (
        "self.decoder(self.embed(tgt, positions), memory",
        "self.decoder(self.embed(tgt, torch.arange(tgt.shape[1])), memory",
        "the positions that decode is given are not used",
    ),
    (
        "return F.linear(x, self.embed.tokens.weight)",
        "return x",
        "the head is missing: compare each vector with those of all tokens",
    ),
    (
        "return F.linear(x, self.embed.tokens.weight)",
        "return F.linear(x, self.embed.tokens.weight).log_softmax(dim=-1)",
        "logits are asked for, without softmax",
    ),
    (
        "return self.decode(tgt, self.encode(src), padding_mask(src))",
        "return self.decode(src, self.encode(tgt), padding_mask(tgt))",
        "source and target are exchanged",
    ),
    after=("padding_mask",),
)
def EncoderDecoder(answer, right, draw):
    model = answer(*two_stacks(right))
    same_weights(model, right.EncoderDecoder(*two_stacks(right)))
    yield "source and target", lambda: unchanged(model, SRC, TGT)
    yield "a row alone", lambda: model(SRC[1:, :3], TGT[1:])
    yield "encode", lambda: unchanged(model.encode, SRC)
    memory = draw.numbers(2, 5, D)
    yield "decode", lambda: model.decode(TGT, memory, right.padding_mask(SRC))
    yield "decode with another attend", lambda: model.decode(TGT, memory, None, see_less)
    at = torch.tensor([2, 3, 7])
    yield "decode at positions 2, 3, 7", lambda: model.decode(TGT, memory, None, positions=at)


@step(
    "13",
    (
        "encoder.append(make_block(d_model, n_heads, d_ff, dropout))",
        "encoder.append(make_block(d_model, n_heads, d_ff))",
        "dropout is not passed on to the encoder",
    ),
    ("            dropout,\n", "", "dropout is not passed on to the decoder's blocks"),
    (
        "Embedding(vocab_size, d_model, max_len, dropout)",
        "Embedding(vocab_size, d_model, max_len)",
        "dropout is not passed on to the embedding",
    ),
    (
        "FeedForward(d_model, d_ff)",
        "FeedForward(d_model, 4 * d_model)",
        "the decoder's networks have d_ff units, too",
    ),
    (
        "CrossAttention(d_model, n_heads)",
        "CrossAttention(d_model, 1)",
        "the number of heads is not passed on to cross-attention",
    ),
    after=(
        "make_block",
        "DecoderBlock",
        "CrossAttention",
        "Decoder",
        "EncoderDecoder",
        "Embedding",
    ),
)
def translator(answer, right, draw):
    sizes = V, LONGEST, D, H, 2, D_FF
    model = made(answer, right.translator, *sizes)
    yield "logits", lambda: unchanged(model, SRC, TGT)
    yield "the number of weights", lambda: sum(p.numel() for p in answer(*sizes).parameters())
    yield "dropout", lambda: dropouts(answer(*sizes, 0.25), SRC, TGT)


PAIRS = [([1, 5, 6, 2], [1, 7, 8, 9, 2]), ([1, 2], [1, 3, 2])]


@step(
    "13",
    (
        "(src, tgt[:, :-1]), tgt[:, 1:]",
        "(src, tgt), tgt",
        "the target at a position is the token that comes next",
    ),
    (
        "(src, tgt[:, :-1]), tgt[:, 1:]",
        "(src, tgt[:, 1:]), tgt[:, :-1]",
        "what is read lacks the last token, what is asked for the first; yours are exchanged",
    ),
    (
        "(src, tgt[:, :-1]), tgt[:, 1:]",
        "(src[:, :-1], tgt[:, :-1]), tgt[:, 1:]",
        "the source is read whole",
    ),
    (
        "(src, tgt[:, :-1]), tgt[:, 1:]",
        "(tgt[:, :-1], src), tgt[:, 1:]",
        "the source comes first, then the target",
    ),
    after=("pad",),
)
def pair_batch(answer, right, draw):
    yield "two pairs", lambda: what_counts(unchanged(answer, PAIRS))
    yield "one pair", lambda: what_counts(unchanged(answer, PAIRS[1:]))


# ---------------------------------------------------------------- 14 · number words


def certain(right, scale=3.0):
    "A translator whose answers differ and end at different places."
    model = right.EncoderDecoder(*two_stacks(right))
    same_weights(model, model)
    with torch.no_grad():
        model.embed.tokens.weight.mul_(scale)
    return model.eval()


SOURCES = torch.tensor([[1, 5, 6, 7, 2], [1, 9, 2, 0, 0], [1, 4, 4, 2, 0], [1, 10, 3, 8, 2]])


@step(
    "14",
    (
        "torch.full((len(src), 1), BOS, device=src.device)",
        "src[:, :1] * 0 + EOS",
        "the first token is BOS",
    ),
    ("new = new.masked_fill(done, PAD)", "pass", "behind its end a row gets padding"),
    ("done = done | (new == EOS)", "done = new == EOS", "a row that has ended stays ended"),
    ("        if done.all():\n            break\n", "", "stop when all rows have ended"),
    ("if done.all():", "if done.any():", "stop when all rows have ended, not at the first"),
    (
        "at = torch.tensor([position], device=src.device)",
        "at = torch.tensor([0], device=src.device)",
        "the position of a new token is the number of those before it",
    ),
    (
        "for position in range(max_len - 1):",
        "for position in range(max_len):",
        "max_len counts BOS, too",
    ),
    (
        "model.decode(tokens[:, -1:], memory, mask, cache, at)",
        "model.decode(tokens[:, -1:], memory, None, cache, at)",
        "the padding of the source must not be read",
    ),
    after=("LayerCache",),
)
def translate(answer, right, draw):
    for scale in (1.0, 3.0):
        model = certain(right, scale)
        yield (
            f"four sources, at most 9 tokens ({scale:g})",
            lambda: unchanged(answer, model, SOURCES, 9),
        )
        yield f"one source ({scale:g})", lambda: answer(model, SOURCES[1:2], 9)

    class Ends(nn.Module):
        "Row i writes i + 1 times a token, and then ends; behind its end it would go on with 7."

        def __init__(self):
            super().__init__()
            self.decoder = right.Decoder(decoder_blocks(right), nn.LayerNorm(D))

        def encode(self, src):
            return torch.zeros(*src.shape, D)

        def decode(self, tgt, memory, memory_mask=None, attend=None, positions=None):
            T = tgt.shape[1]
            masked = memory_mask is not None and memory_mask.equal(right.padding_mask(SOURCES))
            word = 5 if masked or len(tgt) < len(SOURCES) else 6
            at = positions if positions is not None else torch.arange(T)
            logits = torch.zeros(len(tgt), T, V)
            for row in range(len(tgt)):
                for t in range(T):
                    here = int(at[t])
                    logits[row, t, word if here < row + 1 else 2 if here == row + 1 else 7] = 1.0
            return logits

    yield "rows that end at different places", lambda: answer(Ends(), SOURCES[:3], 12)
    yield "rows that are cut", lambda: answer(Ends(), SOURCES, 4)


# ---------------------------------------------------------------- 15 · subwords


@step(
    "15",
    (
        "merged[-1] = merged[-1] + piece",
        "merged[-1] = piece",
        "two pieces become one: the first and the second together",
    ),
    (
        "if merged and (merged[-1], piece) == pair:",
        "if merged and (piece, merged[-1]) == pair:",
        "the pair is (left, right)",
    ),
    (
        "if merged and (merged[-1], piece) == pair:",
        "if merged and pair in [(merged[-1], piece)] and len(merged) < 3:",
        "every place where the pair stands is merged",
    ),
    (
        "(merged[-1], piece) == pair",
        'merged[-1] + piece == "".join(pair)',
        "the pieces have to be the pair, not only spell the same; compare them, not their text",
    ),
    after=(),
)
def merge(answer, right, draw):
    cases = [
        ("banana", ("a", "n")),
        ("banana", ("n", "a")),
        ("aaaa", ("a", "a")),
        ("aaa", ("a", "a")),
        ("abcabcabc", ("b", "c")),
        ("", ("a", "b")),
        ("x", ("x", "x")),
    ]
    for word, pair in cases:
        yield f"{list(word)} and {pair}", lambda: unchanged(answer, list(word), pair)
    yield "longer pieces", lambda: unchanged(answer, ["ab", "c", "ab", "c", "ab"], ("ab", "c"))
    same = ["a", "bc", "ab", "c"]  # the first two only spell what the pair spells
    yield f"{same} and ('ab', 'c')", lambda: unchanged(answer, same, ("ab", "c"))


@step(
    "15",
    ("pairs[pair] += words[word]", "pairs[pair] += 1", "a pair counts as often as its word occurs"),
    (
        "for pair in zip(row, row[1:])",
        "for pair in set(zip(row, row[1:]))",
        "a word that has a pair twice counts twice",
    ),
    (
        "best = max(pairs, key=lambda pair: (pairs[pair], pair))",
        "best = max(pairs, key=lambda pair: pairs[pair])",
        "of pairs that are equally frequent, the last in the order of letters is taken",
    ),
    (
        "best = max(pairs, key=lambda pair: (pairs[pair], pair))",
        "best = min(pairs, key=lambda pair: (pairs[pair], pair))",
        "the most frequent pair is merged",
    ),
    (
        "rows = {word: merge(row, best) for word, row in rows.items()}",
        "pass",
        "the pair has to be merged in all words before pairs are counted again",
    ),
    (
        "if max(pairs.values(), default=0) < 2:",
        "if not pairs:",
        "stop if no pair occurs twice",
    ),
    (
        "if max(pairs.values(), default=0) < 2:",
        "if len(pairs) < 2:",
        "go on as long as a pair occurs twice",
    ),
    (
        "merges.append(best)",
        "merges.append(best[0] + best[1])",
        "a merge is kept as a pair, (left, right)",
    ),
    after=("merge",),
)
def train_bpe(answer, right, draw):
    words = Counter(dict(low=5, lower=2, newest=6, widest=3))
    yield "four words, 10 merges", lambda: answer(Counter(words), 10)
    yield "one merge", lambda: answer(Counter(words), 1)
    yield "more merges than pairs", lambda: answer(Counter(dict(ab=3, cab=1)), 50)
    yield "one pair that occurs twice", lambda: answer(Counter(dict(ab=2)), 50)
    yield "pairs that are equally frequent", lambda: answer(Counter(dict(xy=2, ab=2, mn=2)), 2)
    yield "a pair twice in a word", lambda: answer(Counter(dict(banana=2, xy=3)), 1)
    yield "no word", lambda: answer(Counter(), 3)


# ---------------------------------------------------------------- 16 · translation


@step(
    "16",
    (
        "if row[-1] == EOS and score / len(row) > best_score:",
        "if row[-1] == EOS and score > best_score * len(row) * 0 - 1e9:",
        "finished rows are compared by the mean log probability of a token",
    ),
    (
        "score / len(row) > best_score:\n                best, best_score = row, score / len(row)",
        "score / (len(row) - 1) > best_score:\n"
        "                best, best_score = row, score / (len(row) - 1)",
        "the mean is over the whole row, BOS counted",
    ),
    (
        "best, best_score = row, score / len(row)",
        "best, best_score = row, score",
        "finished rows are compared by the mean of a token, so that long ones have a chance",
    ),
    (
        "torch.tensor([[score] for _, score in beams]) + logits.log_softmax(dim=-1).cpu()",
        "logits.log_softmax(dim=-1).cpu()",
        "the score of a row is the sum over all of its tokens",
    ),
    (
        "if beams[0][1] / max_len < best_score:  # no beam can become better",
        "if best_score > -math.inf:",
        "the search stops at the first finished row; it ends when no beam can become better",
    ),
    (
        "logits.log_softmax(dim=-1)",
        "logits.softmax(dim=-1)",
        "scores are logarithms of probabilities, which are added",
    ),
    ("range(max_len - 1)", "range(max_len - 2)", "a row may have max_len tokens, BOS counted"),
    ("range(max_len - 1)", "range(max_len)", "max_len counts BOS, too"),
    ("n_beams=4", "n_beams=3", "four beams are the default, n_beams=4"),
    (
        "divmod(place, scores.shape[1])",
        "(place % len(beams), place // len(beams))",
        "place counts tokens row by row: divmod(place, vocabulary)",
    ),
    (
        "model.decode(tokens, memory.expand(len(beams), -1, -1), mask)",
        "model.decode(tokens, memory.expand(len(beams), -1, -1), None)",
        "the padding of the source must not be read",
    ),
    (
        "[(row, score) for row, score in longer if row[-1] != EOS][:n_beams]",
        "longer[:n_beams]",
        "a row that has ended doesn't go on",
    ),
)
def beam_search(answer, right, draw):
    for scale in (1.0, 2.0):
        model = certain(right, scale)
        for number in range(3):
            src = SOURCES[number : number + 1]
            yield f"source {number + 1}, four beams ({scale:g})", lambda: answer(model, src, 9)
            yield f"source {number + 1}, one beam ({scale:g})", lambda: answer(model, src, 7, 1)

    class Tree(nn.Module):
        "Logits by what was written: the likeliest first token leads to an unlikely text."

        def __init__(self, table):
            super().__init__()
            self.table = table

        def encode(self, src):
            return torch.zeros(*src.shape, D)

        def decode(self, tgt, memory, memory_mask=None, attend=None, positions=None):
            logits = torch.full((*tgt.shape, V), -6.0)
            for row, tokens in enumerate(tgt.tolist()):
                for t in range(len(tokens)):
                    for token, logit in self.table.get(tuple(tokens[: t + 1]), {2: 0.0}).items():
                        logits[row, t, token] = logit
            return logits

    garden = Tree(
        {(1,): {4: 1.0, 5: 0.9}, (1, 4): {6: 0.0, 7: 0.0, 8: 0.0, 2: -0.5}, (1, 5): {2: 4.0}}
    )
    short = Tree({(1,): {2: 0.5, 4: 0.4}, (1, 4): {5: 3.0}, (1, 4, 5): {6: 3.0}})
    for said, model in [
        ("a likely beginning with an unlikely end", garden),
        ("a short text or a long one", short),
    ]:
        for beams in (1, 2, 4):
            yield f"{said}, {beams} beams", lambda: answer(model, SOURCES[:1], 8, beams)
    chain = Tree({(1, *range(4, 4 + n)): {4 + n: 6.0, 2: 0.0} for n in range(6)})
    for longest in (7, 8, 9):  # tokens; the likely row has eight
        yield f"a row of eight tokens, {longest} at most", lambda: answer(chain, SRC[:1], longest)
    even = Tree({(1,): {4: 0.7, 5: 0.0}, (1, 4): {6: 0.2, 8: 0.0}, (1, 5): {7: 4.0}})
    yield "two rows of one length, two beams", lambda: answer(even, SRC[:1], 8, 2)
    flat = dict.fromkeys(range(3, V), 0.0)
    fourth = Tree(
        {(1,): {4: 1.0, 5: 0.9, 6: 0.8, 7: 0.7}, (1, 4): flat, (1, 5): flat, (1, 6): flat}
    )
    yield "the fourth token has the best end", lambda: answer(fourth, SOURCES[:1], 8)


def words(*texts):
    return [text.split() for text in texts]


@step(
    "16",
    (
        "matches[n] += sum((ours & theirs).values())",
        "matches[n] += sum(ours[g] for g in ours if g in theirs)",
        "a piece counts at most as often as the reference has it: ours & theirs",
    ),
    ("+ min(0.0, 1 - wanted / written)", "", "the brevity penalty is missing"),
    (
        "min(0.0, 1 - wanted / written)",
        "min(0.0, 1 - written / wanted)",
        "short texts are punished: 1 - wanted / written",
    ),
    ("return 100 * math.exp(", "return math.exp(", "BLEU goes from 0 to 100"),
    ("/ longest\n", "\n", "the mean of the logarithms of four precisions, not their sum"),
    (
        "sum(math.log(matches[n] / totals[n]) for n in range(1, longest + 1)) / longest",
        "math.log(sum(matches[n] / totals[n] for n in range(1, longest + 1)) / longest)",
        "precisions are averaged as logarithms, a geometric mean",
    ),
    (
        "totals[n] += sum(ours.values())",
        "totals[n] += sum(theirs.values())",
        "precision is a share of the pieces that were written",
    ),
    (
        "min(matches[n] for n in range(1, longest + 1)) == 0",
        "matches[1] == 0",
        "BLEU is 0 if no run of some length is shared, though there are words in common",
    ),
)
def bleu(answer, right, draw):
    reference = words("the cat sat on the mat today", "a dog barks at the small cat")
    yield "the references themselves", lambda: unchanged(answer, reference, reference)
    near = words("the cat sat on a mat", "a dog barks at the cat and the cat")
    yield "near texts", lambda: unchanged(answer, near, reference)
    yield "repeated words", lambda: answer(words("the the the the cat sat on the"), reference[:1])
    yield "a short text", lambda: answer(words("the cat sat on"), reference[:1])
    yield (
        "a long text",
        lambda: answer(words("the cat sat on the mat today and then it slept"), reference[:1]),
    )
    yield "nothing in common", lambda: answer(words("x y z w v"), reference[:1])
    snow = words("a dog runs in the snow"), words("the dog runs through deep snow")
    yield "no run of four in common", lambda: answer(*snow)
    yield "pieces of two words", lambda: answer(near, reference, 2)
