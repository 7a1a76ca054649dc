"""Judges of the exercises on the page 11_decoding, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_formula, exercise, explain_error


def _weigh(q, k, v):  # (B, h, T, d_k), (B, h, S, d_k), (B, h, S, d_v) -> (B, h, T, d_v)
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim=-1) @ v


@exercise(
    "11.1",
    "What must still be there at the next step? What does the newest token bring, and what "
    "does it meet?",
    "`torch.cat([cache['k'], k], dim=2)` joins along the axis of the positions; keep the "
    "result in the cache.",
    "Attend with q, which is (B, h, 1, d_k), to all keys and values. No mask: nothing in the "
    "cache is in the future.",
)
def judge_11_1(answer):
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 3, 2, 5, 7, generator=generator).double()  # each (B, h, T, d_k)
    root = 7**0.5  # √d_k
    cache, found = {}, []
    for t in range(5):
        newest = [x[:, :, t : t + 1].clone() for x in (q, k, v)]
        try:
            y = answer(*newest, cache)
        except (RuntimeError, ValueError, KeyError, AttributeError) as error:
            return explain_error(error, _JOINING)
        if isinstance(y, (tuple, list)):
            return "the cache is changed in its place; return y alone"
        if not isinstance(y, torch.Tensor):
            return "nothing came back; return y, (B, h, 1, d_k)"
        if t and y.shape == (3, 2, t + 1, 7):
            return "old queries were kept; the newest token asks alone, and y has one row"
        if y.shape != (3, 2, 1, 7):
            return (
                f"step {t + 1} returns shape {tuple(y.shape)}, and (B, h, 1, d_k) is {(3, 2, 1, 7)}"
            )
        found.append(y)

    def from_second(row):  # what `row` gives for the steps after the first, where all agree
        return torch.cat([row(t, q[:, :, t : t + 1]) for t in range(1, 5)], dim=2)

    upto = lambda x, t: x[:, :, : t + 1]
    mistakes = {
        "only two steps are remembered; keep what you joined, not the newest alone": from_second(
            lambda t, q_t: _weigh(q_t, k[:, :, t - 1 : t + 1], v[:, :, t - 1 : t + 1])
        ),
        "only the first step is remembered; keep what you joined": from_second(
            lambda t, q_t: _weigh(q_t, k[:, :, [0, t]], v[:, :, [0, t]])
        ),
        "keys and values are added up; `torch.cat` joins them, one behind the other": v.cumsum(2)[
            :, :, 1:
        ],
        "the newest token meets only itself; join its key and value to those of the cache": v[
            :, :, 1:
        ],
        "the first key and value are in the cache twice; join nothing at the first step": (
            from_second(
                lambda t, q_t: _weigh(q_t, k[:, :, [0, *range(t + 1)]], v[:, :, [0, *range(t + 1)]])
            )
        ),
        "keys and values are exchanged": from_second(
            lambda t, q_t: _weigh(q_t, upto(v, t), upto(k, t))
        ),
        "y leaves out the newest token, which sees itself too": from_second(
            lambda t, q_t: _weigh(q_t, upto(k, t - 1), upto(v, t - 1))
        ),
        "the newest token sees the first key only, so a mask "
        "stands in the wrong corner": from_second(lambda t, q_t: v[:, :, :1]),
        "the scores are not divided by the root of d_k": from_second(
            lambda t, q_t: _weigh(root * q_t, upto(k, t), upto(v, t))
        ),
        "you divided by d_k / 2, which is √d_k where d_k is 4; divide by the root of d_k": (
            from_second(lambda t, q_t: _weigh(root * q_t / 3.5, upto(k, t), upto(v, t)))
        ),
        "the newest key stands first in the cache, but the newest value last": from_second(
            lambda t, q_t: _weigh(q_t, upto(k, t).flip(2), upto(v, t))
        ),
    }
    right = from_second(lambda t, q_t: _weigh(q_t, upto(k, t), upto(v, t)))
    if problem := diagnose(torch.cat(found, dim=2)[:, :, 1:], right, mistakes):
        return problem
    if diagnose(found[0], v[:, :, :1]):
        return "at the first step the newest token meets itself alone, so y is its value, v"
    if not cache:
        return "the outputs are right, but the cache is empty; keep everything in the dictionary"


_JOINING = {
    "'list' object has no attribute": "a list of keys is no tensor yet; `torch.cat` joins it",
    "[6, 2] but got: [6, 1]": "keys were joined and values were not; the cache needs both",
    "must match the size": "joined along a wrong axis; (B, h, T, d_k) grows in T, `dim=2`",
    "must match except in dimension": "they were joined along a wrong axis; `dim=2` is that of the "
    "positions",
    "batch2": "they were joined along a wrong axis; the positions are `dim=2`",
    "v: expected": "keys and values differ in number; join both, along `dim=2`",
    "k: expected": "the keys were joined along a wrong axis; the positions are `dim=2`",
    "'k'": "the dictionary is empty at the first step; ask `if cache:` before you look into it",
}


@exercise(
    "11.2",
    "Which tokens go in at the first step, and which at the last? The seventh new token is "
    "chosen; is it read?",
    "Everything again: 5 + 6 + … + 11 tokens per prompt. With the cache: 5 at the first "
    "step, 1 at each of the other six.",
)
def judge_11_2(answer):
    if isinstance(answer, (int, float)) or len(answer) != 2:
        return "expected two numbers, the one without the cache first"
    B, T, n = 4, 5, 7
    again, kept, new = (
        sum(range(T, T + n)),
        T + n - 1,
        sum(range(1, n + 1)),
    )  # of one prompt; new: the new tokens only
    got = tuple(float(x) for x in answer)
    if got == (B * kept, B * again):
        return "you swapped the two; the one without the cache comes first"
    if got == (again, kept):
        return "these are the visits of one prompt; there are four"
    mistakes = {
        "without the cache": (
            got[0],
            B * again,
            {
                B
                * (
                    again + T + n
                ): "you fed the last token too; it is chosen, and nothing is asked of it",
                B
                * (
                    again + n
                ): "the first step reads the 5 tokens of the prompt alone, and the last new "
                "token is never read",
                B * new: "the prompt is read again at every step, not only the new tokens",
                B * (new - n): "the prompt is read again at every step, not only the new tokens",
                B
                * n
                * (
                    T + n
                ): "the text is that long at the end only, and its last token is never read",
                B * n * (T + n - 1): "only the last step reads 11 tokens; the first reads 5",
                B * n * n: "the text grows by one token at each step, from 5 to 11",
                B * (T + n): "that is how long the texts are; each step reads its whole text",
                B * kept: "that is with the cache",
                new: "the prompt is read again at every step, in each of the four texts",
                again + n: "this is one prompt, and its first step reads 5 tokens alone",
                B * T * n: "the text grows by one token at each step",
                again: "this is one prompt; there are four",
            },
        ),
        "with the cache": (
            got[1],
            B * kept,
            {
                B * (kept + 1): "the last token is chosen and never read",
                B * n: "the first step reads the whole prompt, not one token",
                B * (n - 1): "the prompt is read too, once",
                kept: "this is one prompt; there are four",
                kept + 1: "this is one prompt, and its last token is never read",
                B * T: "those are the prompts; the new tokens are read too, one by one",
                n: "this is one prompt without its own tokens; they are read once",
                B * again: "that is without the cache",
            },
        ),
    }
    for name, (number, right, known) in mistakes.items():
        if number != right:
            other = "write down what each of the seven steps reads, and add up"
            return f"{name}: {known.get(number, other)}"


@exercise(
    "11.3",
    "At step t, how many keys may each of the t queries see? And with the cache, how many "
    "queries are there?",
    "Without the cache step t costs t(t+1)/2 pairs, with it t. Sum both over t = 1 … n.",
    "The sum of t(t+1)/2 is n(n+1)(n+2)/6, that of t is n(n+1)/2.",
)
def judge_11_3(answer):
    pairs = "n * (n + 1) * (n + 2) / 6"
    return diagnose_formula(
        answer,
        "n",
        [(7,), (100,), (12,), (1,)],
        "(n + 2) / 3",
        {
            "(n + 2) // 3": "rounded down, and it's no whole number; divide by `/`, not `//`",
            "(2 * n + 1) / 3": "you counted pairs that the mask forbids; of t queries the first "
            "sees one key only",
            "(n + 1) / 2": "that is the ratio of visits, and of the pairs of the last step; count "
            "the pairs of all steps",
            pairs: "that is the number of pairs without the cache; divide by those with it",
            "3 / (n + 2)": "you have the two the wrong way round",
            f"{pairs} / n": "with the cache one query meets t keys at step t, not one",
            "(n + 1) / 3": "one of the sums ends too early; both run over t = 1 … n",
            "(n + 3) / 3": "one of the sums ends too late; both run over t = 1 … n",
            "n / 3": "that is the rule of thumb for many steps; the sums give it exactly",
            "n * (n + 1) / 2": "that is the number of pairs with the cache; it divides the number "
            "without",
            "n * (n + 1) * (n - 1) / 6": "that is how many pairs are saved; asked for is how many "
            "times fewer",
            "n": "at step t there are t tokens; you took n at each step, in both",
            "2 * n / (n + 1)": "without the cache only the last step was counted",
            "2 * n**2 / (n + 1)": "you took n tokens at each step; at step t there are t(t+1)/2 "
            "pairs",
            "n / 2": "that is the ratio of visits, halved once too often",
            "(n + 2) / 6": "the ratio of the sums is (n + 2)/3; yours is half of it",
            "(n + 2) / 2": "divide the two sums, n(n+1)(n+2)/6 and n(n+1)/2; the 6 and the 2 leave "
            "a 3",
        },
    )
