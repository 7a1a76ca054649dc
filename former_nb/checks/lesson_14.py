"""Judges of the exercises on the page 14_number_words, and the mistakes that they know."""

import functools

import torch
from torch import nn

from ..attention.masks import padding_mask
from ..attention.multi_head import MultiHeadAttention
from ..attention.positions import SinusoidalPositions
from ..base.exercises import diagnose, diagnose_formula, edited, exercise, explain_error
from ..data.text import BOS, EOS, PAD
from ..models.block import FeedForward, Stack, make_block
from ..models.embedding import Embedding
from ..models.encoder_decoder import CrossAttention, Decoder, DecoderBlock, EncoderDecoder


@functools.cache
def _made(_):  # `_`: the first random number, which tells the seeds apart
    "A model in double precision, of the random numbers that come."
    attentions = MultiHeadAttention(8, 2), CrossAttention(8, 2)
    norms = [nn.LayerNorm(8) for _ in range(3)]
    block = DecoderBlock(*attentions, FeedForward(8, 12), *norms)
    model = EncoderDecoder(
        Embedding(15, 8, SinusoidalPositions(16, 8)),
        Stack([make_block(8, 2, 12)], nn.LayerNorm(8)),
        Decoder([block], nn.LayerNorm(8)),
    )
    for _, weight in sorted(model.named_parameters()):
        if weight.ndim == 2:  # norms stay as they are
            nn.init.normal_(weight, std=1.2)
    return model.double()


def _writer(seed=188):  # one of a few where each mistake gives tokens of its own
    "A model whose answers differ from row to row, and two sources."
    with torch.device("cpu"), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        first = torch.rand(1).item()
        torch.manual_seed(seed)
        return _made(first).eval(), torch.tensor([[5, 6, 7, 8, 9], [10, 11, 12, PAD, PAD]])


def write_greedily(model, src, steps):
    "The likeliest token at each step."
    memory = model.encode(src)
    tokens = src.new_full((len(src), 1), BOS)
    for _ in range(steps):
        logits = model.decode(tokens, memory, padding_mask(src))[:, -1]
        best = logits.argmax(dim=-1, keepdim=True)
        tokens = torch.cat([tokens, best], dim=1)
    return tokens


_GREEDY_MISTAKES = edited(
    write_greedily,
    {
        "return tokens -> return tokens[:, 1:]": "BOS is missing at the beginning of each row",
        "range(steps) -> range(steps + 1)": "that is one token too many",
        "range(steps) -> range(steps - 1)": "that is one token short; each step adds one",
        "padding_mask(src) -> None": "cross-attention read the pads; give `decode` the padding "
        "mask of the source",
        "[:, -1] -> [:, 0]": "those are the logits of the first position; the next token is said "
        "at the last",
        "[:, -1] -> [:, -2:][:, 0]": "those are the logits of the last position but one; the "
        "last says the next token",
        "decode(tokens -> decode(tokens[:, -1:]": "the decoder read only the newest token; without "
        "a cache it needs all of them",
        "BOS -> EOS": "each row began with EOS, 2; it begins with BOS, 1",
        "src.new_full((len(src), 1), BOS) -> src[:, :1]": "each row began with the first token of "
        "its source; it begins with BOS",
        "BOS -> PAD": "each row began with PAD; it begins with BOS",
        "argmax -> argmin": "that is the least likely token at each step",
        "keepdim=True) -> keepdim=True)[:1].expand(len(src), 1)": "each row gets the token of the "
        "first row; take one for each",
        "[:, -1] -> [:, -1].mean(0, keepdim=True).expand(len(src), -1)": "each row gets the token "
        "that all rows together find likeliest; take one for each",
        "[tokens, best] -> [best, tokens]": "new tokens are put in front of the others; append "
        "them, `[tokens, new]`",
    },
)


@torch.no_grad()
def _judge_ends(answer):
    "Two rows of which the first writes `<eos>` early. What follows it there is nobody's business."
    (model, src), steps = _writer(273), 6
    right = write_greedily(model, src, steps)
    ended = right[0].tolist().index(EOS) + 1
    given = answer(model, src, steps)
    if isinstance(given, torch.Tensor) and given.shape == right.shape:
        given = torch.cat([torch.cat([given[:1, :ended], right[:1, ended:]], dim=1), given[1:]])
    return diagnose(
        given,
        right,
        {
            "the loop ends as soon as one row has `<eos>`, and the other is cut off; go on for all "
            "`steps`, or until every row has it": right[:, :ended],
            "the loop ends when one row writes `<eos>`, and the other is cut off; go on for all "
            "`steps`, or until every row has it": right[:, : ended - 1],
        },
    )


@exercise(
    "14.1",
    "Begin with a column of BOS, (B, 1). What does the model say about the next token, and where "
    "in its logits is that?",
    "memory = model.encode(src) comes before the loop. In the loop, logits = "
    "model.decode(tokens, memory, padding_mask(src))[:, -1].",
    "tokens = torch.cat([tokens, logits.argmax(dim=-1, keepdim=True)], dim=1)",
)
def judge_14_1(answer):
    "Judge greedy decoding on two sources, of which one is padded."
    (model, src), steps = _writer(), 6
    try:
        with torch.no_grad():
            given = answer(model, src, steps)
    except (RuntimeError, TypeError, ValueError) as error:
        return explain_error(error, _WRITING)
    if given is None or given is ...:
        return "your function returned nothing; end it with `return tokens`"
    if isinstance(given, torch.Tensor) and given.is_floating_point() and given.ndim == 3:
        return "those are logits; append the likeliest token, and ask again"
    with torch.no_grad():
        right = write_greedily(model, src, steps)
        mistakes = {said: write(model, src, steps) for said, write in _GREEDY_MISTAKES.items()}
    if diagnose(given, right) is None:
        return _judge_ends(answer)
    problem = diagnose(given, right, mistakes)
    if problem not in mistakes and isinstance(given, torch.Tensor):
        again = answer(model, src, steps)
        if given.shape == again.shape and not torch.equal(given, again):
            return "two calls give different tokens; take the likeliest one, and draw nothing"
    return problem


_WRITING = {
    "at most max_len": "more than one token is appended to a row at each step; take the logits of "
    "the last position alone, `[:, -1]`",
    "got 2 and 3": "you appended all positions; the last one, `[:, -1]`, says the next token",
    "got 2 and 1": "the likeliest tokens are (B,); `keepdim=True` makes them a column, (B, 1)",
    "except in dimension 1": "the likeliest was taken over the batch; the vocabulary is `dim=-1`",
    "memory: expected shape (B = 4": "you appended along the batch; a row grows along `dim=1`",
    "memory: expected shape (B = 1": "one row has BOS; each source needs a row of its own",
    "memory: expected floating": "that is not the memory; `model.encode(src)` makes it",
    "mask: expected": "the mask is about the keys, so about the source: `padding_mask(src)`",
    "tgt: expected shape": "the tokens are (B, 1) at first, a column of BOS",
    "tgt: expected numbers from 0": "the likeliest was taken over the whole batch at once; take "
    "it over the vocabulary, `argmax(-1)`",
    "tgt: expected torch.int64": "tokens are whole numbers; `argmax` gives them, `max` gives "
    "logits, and `src.new_full((B, 1), BOS)` begins",
}


@exercise(
    "14.2",
    "Up to its first mistake, what does a model read that reads its own letters?",
    "An answer is right if it has no mistake at all, and before the first mistake both models "
    "read the same.",
)
def judge_14_2(answer):
    "Judge two probabilities."
    right = 0.99**40
    given = [float(x) for x in answer] if hasattr(answer, "__len__") else []
    if len(given) != 2:
        return "expected two numbers, (a) and (b)"
    if all(abs(x - 100 * right) < 0.6 for x in given):
        return "that is percent; a probability lies between 0 and 1"
    near = [abs(x - right) < 0.006 for x in given]
    if all(near):
        return None
    if near[0] and given[1] < right:
        return (
            "(b) is not smaller: an answer is right only without any mistake, and before the "
            "first mistake the model reads the same letters in both cases"
        )
    known = {
        0.99: "that is one letter; all 40 must be right",
        0.4: "that is the number of wrong letters to expect, 40 times 0.01",
        0.6: "the mistakes do not add: each letter is right with 0.99, and they multiply",
        1 - right: "that is the probability of at least one mistake",
        1.0: "40 letters give many chances for a mistake",
        0.99**41: "that is for 41 letters; the end is not counted here",
        0.99**39: "that is for 39 letters; the first one can be wrong, too",
        0.5: "right and wrong are not equally likely; multiply the probabilities of the letters",
    }
    x = given[0] if not near[0] else given[1]
    found = (sentence for value, sentence in known.items() if abs(x - value) < 0.006)
    size = "large" if x > right else "small"
    return next(found, f"it is not {x:.4g}, which is too {size}")


@exercise(
    "14.3",
    "The logits at position i are about the token at position i + 1 of `tgt`.",
    "`said = torch.cat([tgt[:, :1], logits.argmax(-1)[:, :-1]], 1)`, then "
    "`torch.where`; what is PAD in `tgt` stays.",
)
def judge_14_3(answer):
    made = torch.Generator("cpu").manual_seed(0)
    B, T, V = 3, 6, 9
    tgt = torch.randint(4, V, (B, T), generator=made)
    tgt[:, 0], tgt[1, 4:] = BOS, PAD
    logits, own = torch.randn(B, T, V, generator=made), torch.rand(B, T, generator=made) < 0.6
    own[:, 0], own[1, 5] = True, True  # where nothing may happen
    said = logits.argmax(-1)  # (B, T)
    moved = torch.cat([tgt[:, :1], said[:, :-1]], 1)  # what is read instead of tgt
    keep = tgt == PAD
    right = torch.where(own & ~keep, moved, tgt)
    before, wanted = (tgt.clone(), own.clone()), torch.where(own, moved, tgt)
    last = said.roll(1, 1)
    try:
        result = answer(tgt, logits.clone(), own)
    except RuntimeError as error:
        return explain_error(
            error,
            {
                "tensor b (9)": "logits have an axis more, the vocabulary; `argmax(-1)` gives the "
                "likeliest token, (B, T)",
                "must match the size": "one of the two was cut for the shift; the first column of "
                "`tgt` stays in front",
                "shape mismatch": "`tokens[own] = …` wants as many numbers as `own` has True; "
                "`torch.where` takes whole tables",
            },
        )
    if isinstance(result, torch.Tensor) and result.shape == (B, T - 1):
        return "the first column is missing; <bos> is read first, and stays"
    if not torch.equal(tgt, before[0]) or not torch.equal(own, before[1]):
        return "`tgt` or `own` was changed in place; the caller still needs it"
    return diagnose(
        result,
        right,
        {
            "what is said at position i is read at position i + 1: shift by one": torch.where(
                own & ~keep & (tgt != BOS), said, tgt
            ),
            "shift by one, and leave <bos> and pads as they are": torch.where(own, said, tgt),
            "what is said at position i is read at position i + 1; you shifted the other way": (
                torch.where(
                    own & ~keep & (tgt != BOS), torch.cat([said[:, 1:], tgt[:, -1:]], 1), tgt
                )
            ),
            "pads stay pads": wanted,
            "<bos> stays: there is nothing before it that could say it": torch.where(
                own & ~keep, last, tgt
            ),
            "<bos> stays, and so do pads": torch.where(own, last, tgt),
            "<bos> stays, whatever `own` says there": (
                torch.where(own & ~keep, moved, tgt) * (tgt != BOS)
            ),
            "`own` is about the token at its own position: the "
            "logits are moved, `own` is not": torch.where(
                own.roll(1, 1) & ~keep & (tgt != BOS), moved, tgt
            ),
            "`own` is turned round: True is where the model's own token is read": torch.where(
                ~own & ~keep, moved, tgt
            ),
            "shifted to the wrong side: logits are about the "
            "next position, not the one before": torch.where(
                own & ~keep & (tgt != BOS), said.roll(-1, 1), tgt
            ),
            "shifted by two; what is said at position i is read at position i + 1": torch.where(
                own & ~keep & (tgt != BOS), said.roll(2, 1), tgt
            ),
            "the logits are moved to the right, `own` was moved to the left": torch.where(
                own.roll(-1, 1) & ~keep & (tgt != BOS), moved, tgt
            ),
            "`own` was moved, the logits were not; it is the other way round": torch.where(
                own.roll(1, 1) & ~keep & (tgt != BOS), said, tgt
            ),
            "every token was exchanged; only where `own` is True": torch.where(keep, tgt, moved),
            "nothing was exchanged": tgt,
        },
    )


def _next(said, tgt):
    "What is said one position further on, and the last of the target."
    return torch.cat([said[:, 1:], tgt[:, -1:]], dim=1)


@exercise(
    "14.4",
    "Count numbers of the weight matrices, in units of d²: each is used once for each token "
    "that goes through it. The block's own attention has 4, the feed-forward network 8.",
    "Cross-attention has 4, too: queries and output see the T tokens that are "
    "written, keys and values see the S of the memory.",
    "(14 T + 2 S T) / (14 T + 2 S).",
)
def judge_14_4(answer):
    "A function of two lengths."
    return diagnose_formula(
        answer,
        "S, T",
        [(12, 15), (40, 7)],
        "each(S, T) / once(S, T)",
        {
            "once(S, T) / each(S, T)": "the other way round: the larger number, without keeping, "
            "is divided by the smaller",
            "each(S, T) / once(S, T) - 1": "that is how many are saved, as a share of those that "
            "are needed; asked for is one number divided by the other",
            "ratio(S, T, 10, 2)": "4 d² for each token are missing: the block's own attention, or "
            "one of the two matrices of the feed-forward network",
            "ratio(S, T, 16, 2)": "keys and values of cross-attention are made of the memory only, "
            "not of the tokens that are written",
            "16 * T / (12 * T + 4 * S)": "without keeping, keys and values are made of the S of "
            "the memory, at each of the T steps; and queries and output of the T tokens are needed "
            "either way",
            "T": "only keys and values of the memory are counted; all else is computed either way",
            "ratio(S, T, 12, 2)": "queries and output of cross-attention, 2 d² for each token that "
            "is written, are missing",
            "ratio(S, T, 6, 2)": "the feed-forward network, 8 d² for each token, is missing; or "
            "all four matrices of cross-attention were counted for the memory, where two see the "
            "target",
            "ratio(S, T, 8, 2)": "only the feed-forward network, 8 d², and the memory are counted; "
            "both attentions have matrices for T",
            "ratio(S, T, 2, 2)": "cross-attention is counted alone; the layer has two parts more",
            "each(S, T) / (14 * T)": "keys and values of the memory are computed once in the "
            "better case, and that costs 2 S",
            "(16 * T + 2 * S * T) / (16 * T)": "keys and values of the memory are computed once in "
            "the better case, 2 S, and of the four matrices of cross-attention two are for them",
            "(14 + 2 * S) / once(S, T)": "T steps cost T times as much; the 14 d² belong to each "
            "of them",
            "(14 + 2 * S) / (14 + 2)": "that is one step; T are taken, and once computed they "
            "serve all of them",
            "(14 * S + 2 * S * T) / (14 * S + 2 * T)": "S and T are exchanged; T tokens are "
            "written",
            "ratio(S, T, 14, 4)": "queries and output of cross-attention see the T tokens that are "
            "written; two matrices see the memory, not four",
            "1 - once(S, T) / each(S, T)": "that is the share that is saved; asked for is one "
            "number divided by the other",
            "each(S, T) - once(S, T)": "that is how many are saved, in units of d²; divide the two "
            "numbers",
            "each(S, T) // once(S, T)": "that is a whole number; `/` divides, and `//` cuts off "
            "the rest",
            "ratio(S, T, 14, 12)": "no layer of the encoder is part of it; the memory gives keys "
            "and values",
            "S": "T steps read S tokens each, once for each; in the better case S is read once, "
            "and the other 14 T remain",
            "ratio(S, T, 14, 1)": "keys *and* values: two matrices",
            "(14 * T * (T + 1) / 2 + 2 * S * T) / once(S, T)": "nothing of the block's own "
            "attention is computed again: its keys are kept in both cases",
        },
        each=lambda S, T: 14 * T + 2 * S * T,
        once=lambda S, T: 14 * T + 2 * S,
        ratio=lambda S, T, a, b: (a * T + b * S * T) / (a * T + b * S),
    )
