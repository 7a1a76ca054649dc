"""Judges of the exercises on the page 13_encoder_decoder, and the mistakes that they know."""

from contextlib import suppress
from math import exp, log

import torch

from ..attention.fused import attention
from ..attention.masks import causal_mask, padding_mask
from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import call_answer, diagnose, edited, exercise, explain_error, unnamed
from ..data.text import BOS, PAD


def attend_across(layer, x, memory):
    "Cross-attention of texts (B, T, d_model) to a memory (B, S, d_model)."
    split = layer.split
    q = split(layer.w_q(x))
    k = split(layer.w_k(memory))
    v = split(layer.w_v(memory))
    y = attention(q, k, v)
    return layer.w_o(layer.merge(y))


_MISTAKES = edited(
    attend_across,
    {
        "w_q(x) -> w_q(memory); w_k(memory) -> w_k(x); w_v(memory) -> w_v(x)": "the queries come "
        "from `memory`, and keys and values from `x`; it should be the other way round",
        "w_k(memory) -> w_k(x); w_v(memory) -> w_v(x)": "queries, keys and values all come from "
        "`x`, so the target attends to itself",
        "w_q(x) -> w_q(memory)": "queries, keys and values all come from `memory`, so the source "
        "attends to itself",
        "w_k(memory) -> w_k(x)": "the keys come from `x`; they belong to the memory, as the "
        "values do",
        "w_v(memory) -> w_v(x)": "the values come from `x`; they belong to the memory, as the "
        "keys do",
        "w_q(x) -> w_k(x); w_k(memory) -> w_q(memory)": "`w_q` is for `x`, and `w_k` is for the "
        "memory; these two are exchanged",
        "(q, k, v) -> (q, v, k)": "keys and values are exchanged",
        "split = layer.split -> split = lambda t: t; layer.merge(y) -> y": "that is one wide head; "
        "nothing was split",
        "layer.merge(y) -> y.reshape(*x.shape)": "you merged by `reshape` alone; `layer.merge` "
        "puts the words before the heads again",
        "(q, k, v) -> (q, k, v, is_causal=True)": "that is causal, but the source is there as a "
        "whole, so each query may read it all",
        "layer.w_o(layer.merge(y)) -> layer.merge(y)": "W_o is missing: `layer.w_o` comes last",
        "w_v( -> w_k(": "keys and values both come from `w_k`; the values have `w_v`",
        "w_k( -> w_q(": "queries and keys both come from `w_q`; the keys have `w_k`",
        "layer.w_q(x) -> x; layer.w_k(memory) -> memory; layer.w_v(memory) -> memory": "nothing "
        "was projected; `w_q`, `w_k` and `w_v` come before `split`",
        "(q, k, v) -> (q * q.shape[-1] ** 0.5, k, v)": "the scores are not divided by √d_k",
        "(q, k, v) -> (q * 2 / q.shape[-1] ** 0.5, k, v)": "you divided by d_k / 2, which is √d_k "
        "where d_k is 4; divide by the root of d_k",
        "return  -> return x + ": "you added `x`; the layer returns what was read, and the block "
        "adds",
        "split = layer.split -> split = lambda t: t; layer.w_o(layer.merge(y)) -> y": "that is "
        "one wide head, and W_o is missing",
        "w_v(memory) -> w_v(layer.w_k(memory))": "the memory is projected twice; `w_k` and `w_v` "
        "both read the memory itself",
    },
)


@exercise(
    "13.1",
    "Who asks? The target does, so the queries are made of x. Who answers?",
    "`layer.split(layer.w_q(x))` are the queries. Keys and values are made of the memory in the "
    "same way, each with its own matrix.",
    "`attention(q, k, v)`, then `layer.merge`, and `layer.w_o` comes last.",
)
def judge_13_1(
    answer,  # my_cross_attention(layer, x, memory) -> (B, T, d_model)
) -> str | None:  # None if right, else what it looks like
    "Judge cross-attention with three heads, for texts of the same length and of two lengths."
    with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
        torch.manual_seed(3)
        layer = MultiHeadAttention(18, 3).eval()
        x = 2 * torch.randn(2, 5, 18)
        for S in (5, 3):
            memory = 2 * torch.randn(2, S, 18)
            try:
                given = call_answer(answer, layer, x, memory)
            except (RuntimeError, TypeError, ValueError) as error:
                return explain_error(error, _UNFIT)
            if isinstance(given, torch.Tensor) and given.ndim == 4:
                return "the heads are still apart; `layer.merge` joins them, before `w_o`"
            wrong = {}
            for sentence, mistake in _MISTAKES.items():
                try:
                    wrong[sentence] = mistake(layer, x, memory)
                except (ValueError, RuntimeError):  # two lengths do not fit together
                    continue
            problem = diagnose(given, attend_across(layer, x, memory), wrong)
            if problem:
                return problem
    return None


_UNFIT = {
    "mask: expected a boolean": "the layer's own `forward` knows no memory; project with `w_q`, "
    "`w_k` and `w_v`, and end with `w_o`",
    "mat1 and mat2": "a linear layer is d_model wide; project before you split, and merge before "
    "`w_o`",
    "batch2": "scores need the keys transposed, `k.mT`; `attention` does it for you",
}


@exercise(
    "13.2",
    "A mask hides keys. For each attention ask which text the keys come from, and which of them "
    "are pads or lie ahead.",
    "The encoder reads src: hide its pads. The decoder reads what it has written: hide what lies "
    "ahead. Cross-attention reads src again.",
    "return padding_mask(src), causal_mask(tgt.shape[1]), padding_mask(src)",
)
def judge_13_2(answer):
    "Judge three masks, on the positions that are no pads."
    src = torch.tensor([[BOS, 5, 6, 7, PAD], [BOS, 8, PAD, PAD, PAD]], device="cpu")
    tgt = torch.tensor([[BOS, 7, 6, PAD], [BOS, 8, PAD, PAD]], device="cpu")
    try:
        given = answer(src, tgt)
    except (RuntimeError, IndexError, TypeError, ValueError) as error:
        return explain_error(
            error,
            {
                "whole number": "`causal_mask` takes the number of tokens, `tgt.shape[1]`",
                "must match the size": "the two texts have two lengths, and their masks don't fit "
                "together; a mask is about the text that the keys come from",
                "broadcast": "the two texts have two lengths, and their masks don't fit "
                "together; a mask is about the text that the keys come from",
            },
        )
    if given is None or given is ...:
        return "your function returned nothing; return three masks"
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        return "expected three masks: the encoder's, the decoder's own, that of cross-attention"
    (B, S), T = src.shape, tgt.shape[1]
    pads, own, ahead = padding_mask(src).cpu(), padding_mask(tgt).cpu(), causal_mask(T).cpu()
    nothing = "is missing; each of the three attentions has keys to hide, pads or what lies ahead"
    names = "the encoder's mask", "the decoder's own mask", "the mask of cross-attention"
    sizes, queries = [(S, S), (T, T), (T, S)], [src, tgt, tgt]
    known = [
        {
            "lets the source's pads be read": torch.ones(1, 1, S, S, dtype=torch.bool),
            "is causal; the source is there as a whole, so each token may read it all": (
                causal_mask(S).cpu() & pads
            ),
            "is the other way round; True = may attend": ~pads,
        },
        {
            "hides the pads, but lets each token read what follows it": own,
            "lets each token read what follows it": torch.ones(1, 1, T, T, dtype=torch.bool),
            "is the other way round; True = may attend": ~ahead,
            "is turned round; a token may read what is before it, not what follows": ahead.mT,
            "hides a token from itself; token i may read token i": ahead.tril(-1),
        },
        {
            "lets the source's pads be read": torch.ones(1, 1, T, S, dtype=torch.bool),
            "is causal; the source is there as a whole, so each token may read it all": (
                causal_mask(T, S).cpu() & pads
            ),
            "is the other way round; True = may attend": ~pads,
        },
    ]
    wanted = [pads, ahead, pads]
    for name, mask, right, mistakes, size, tokens in zip(
        names, given, wanted, known, sizes, queries
    ):
        if mask is None:
            return f"{name} {nothing}"
        if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
            return f"{name} should be a boolean tensor, True = may attend"
        shape, real = (B, 1, *size), (tokens != PAD)[:, None, :, None]
        whole = lambda t: t.broadcast_to(shape) & real
        try:
            mask = whole(mask.cpu())
        except RuntimeError:
            if size == (T, S) and mask.shape[-1] == T:
                return f"{name} is about the target; its keys are the source's"
            if mask.ndim == 2:
                return (
                    f"{name} has shape {tuple(mask.shape)}; `padding_mask` adds axes, (B, 1, 1, S)"
                )
            if mask.shape[-2:] == (B, B):
                return f"{name} has the size of the batch; T is `tgt.shape[1]`"
            if size == (T, T) and mask.shape[-1] == S:
                return f"{name} is about the source; its keys are the target's"
            if size == (S, S) and mask.shape[-1] == T:
                return f"{name} is about the target; its keys are the source's"
            size = tuple(mask.shape)
            return unnamed(f"{name} has shape {size}; expected one that fits over {shape}")
        if torch.equal(mask, whole(right)):
            continue
        found = (said for said, wrong in mistakes.items() if torch.equal(mask, whole(wrong)))
        said = next(found, None)
        return f"{name} {said}" if said else unnamed(f"{name} allows or hides the wrong keys")
    return None


@exercise(
    "13.3",
    "For each model ask: what may it read when it is asked for a "
    "letter, and is that letter among it?",
    "(a) reads the source, which shows half of the letters. (b) has just read the letter it "
    "is asked for. (c) reads the next position of the target. (d) has nothing but what it wrote.",
)
def judge_13_3(answer):
    right = (0.5 * log(8), 0.0, 0.0, log(8))
    try:
        answer = [float(x) for x in answer]
    except (TypeError, ValueError, RuntimeError):  # a number alone, or one that is none
        answer = []
    if len(answer) != 4:
        return "expected four numbers: (a), (b), (c), (d)"
    near = lambda x, y: abs(x - y) < 0.006  # two decimals are enough
    if all(map(near, answer, right)):
        return None
    if all(near(x, y / log(2)) for x, y in zip(answer, right)):
        return "those are bits; nats are natural logarithms"
    if all(near(x, 20 * y) for x, y in zip(answer, right)):
        return "those are whole targets; the loss is per letter"
    if all(near(x, 20 / 21 * y) for x, y in zip(answer, right)):
        return "<eos> is no letter: the loss is per letter"
    half, whole = 0.5 * log(8), log(8)  # of the letters shown, and none
    last = (
        "(c) the last letter is read, too: what is fed ends with it, and after it only <eos> is "
        "asked for"
    )
    ahead = "(c) sees all of the target; the letter it is asked for is one position further on"
    usual = (
        {
            whole: "(a) the source shows half of the letters",
            0.0: "(a) half of the letters are shown nowhere",
            0.5: "(a) a hidden letter costs ln 8, not 1",
            log(4): "(a) one half of the letters costs ln 8 and the other nothing; ln 4 would be a "
            "choice among four",
            log(2) + half: "(a) that a letter is hidden is seen, and costs nothing",
            log(9) / 2: "(a) `?` is never a letter of the target; there are eight",
            log(8) / log(10) / 2: "(a) that is a logarithm to base 10",
            20 * half: "(a) that is a whole target; the loss is per letter",
            1 / 16: "(a) that is a probability; the loss is minus its logarithm",
            -half: "(a) the sign is turned; a loss is positive",
            exp(half): "(a) that is the perplexity",
            log(4.5): "(a) the mean of losses is asked for, not the loss of a mean number of "
            "choices",
        },
        {
            half: "(b) reads the very letter that it is asked for; the source is not needed",
            whole: "(b) reads the very letter that it is asked for",
        },
        {half: ahead, whole: ahead, whole / 20: last, whole / 21: last},
        {
            half: "(d) sees no source, and the letters are independent",
            log(9): "(d) `?` is never a letter of the target; there are eight",
            20 * whole: "(d) that is a whole target; the loss is per letter",
            log(20): "(d) a letter is one of eight; twenty is how many there are",
            log(8) / log(10): "(d) that is a logarithm to base 10",
            -whole: "(d) the sign is turned; a loss is positive",
            0.0: "(d) what is written already tells nothing about the next letter",
        },
    )
    for letter, x, y, mistakes in zip("abcd", answer, right, usual):
        if not near(x, y):
            return next(
                (sentence for wrong, sentence in mistakes.items() if near(x, wrong)),
                f"({letter}) is not {x:.4g}, which is too {'large' if x > y else 'small'}",
            )


@exercise(
    "13.4",
    "Two kinds of logits: that of the word just read, and all others. How large is "
    "the first, and how are the others spread?",
    "The first is √d. The others are normal with variance one, and the mean of e^z is "
    "then e^(1/2). The target is one of the others.",
)
def judge_13_4(answer):
    for V, d in ((20, 16), (1000, 256), (8000, 64), (30000, 16)):
        root = d**0.5
        right = log(exp(root) + (V - 1) * exp(0.5))
        got = answer(V, d)
        if not isinstance(got, str):
            with suppress(TypeError, ValueError, RuntimeError):  # of what is no number
                got = float(got)
        if not isinstance(got, float):
            return f"expected a number, got {type(got).__name__}"
        if abs(got - right) < 0.02 or abs(got - log(exp(root) + V * exp(0.5))) < 1e-6:
            continue
        mistakes = {
            "the other logits are not 0 but vary, and the word just read is not one of them": log(
                exp(root) + V
            ),
            "the word just read has a logit of its own, √d; yours leaves it out": log(V - 1) + 0.5,
            "the logit of the word just read is √d, with no spread of its own to add": log(
                exp(root + 0.5) + (V - 1) * exp(0.5)
            ),
            "the target is never the word just read, so its logit is 0 on average": (
                right - root / V
            ),
            "the norm's output has length √d, so that the other logits vary by 1, not by 1/d": log(
                exp(1) + (V - 1) * exp(0.5 / d)
            ),
            "the other logits vary by 1, and the word just read has √d, not 1": log(exp(1) + V - 1),
            "that is the loss of knowing nothing; the word just read is still in the stream": log(
                V
            ),
            "that would be so with three matrices; with one, the word "
            "just read has a logit of its own": log(V) + 0.5,
            "true of a small vocabulary only; the other words count too": root,
            "the other logits are not 0 but vary: the mean of e^z is e^(1/2)": log(
                exp(root) + V - 1
            ),
            "the variance is one, so the mean of e^z is e^(1/2), not e": log(
                exp(root) + (V - 1) * exp(1)
            ),
            "the logit of the word just read is √d, not d": log(
                exp(min(d, 700)) + (V - 1) * exp(0.5)
            ),
            "the logit of the word just read is √d; E has rows of length "
            "one, the norm's output has length √d": log(exp(1) + (V - 1) * exp(0.5)),
            "the target is another word than the one just read; its logit is 0 on average": (
                right - root
            ),
            "that is in bits; the loss is in nats": right / log(2),
            "the two kinds of logits stand in one sum of "
            "exponentials; their losses do not add": root + log(V),
            "the two kinds of logits stand in one sum of "
            "exponentials, so their losses do not add": root + log(V - 1) + 0.5,
            "a sum of exponentials still needs its logarithm": exp(root) + (V - 1) * exp(0.5),
        }
        found = next(
            (
                sentence
                for sentence, wrong in mistakes.items()
                if abs(got - wrong) < 0.002 * max(1, abs(wrong))
            ),
            None,
        )
        size = "large" if got > right else "small"
        return found or f"for V = {V} and d = {d} it is not {got:.4g}, which is too {size}"
