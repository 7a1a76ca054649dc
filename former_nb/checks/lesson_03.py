"""Judges of the exercises on the page 03_multi_head, and the mistakes that they know."""

import torch
from einops import rearrange

from ..attention.fused import attention
from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import call_answer, diagnose, edited, exercise, explain_error


def attend_in_heads(x, w_q, w_k, w_v, w_o, n_heads):
    "Multi-head attention of x (B, T, d_model)."
    B, T, d_model = x.shape
    d_k = d_model // n_heads

    def split(t):
        return t.unflatten(-1, (n_heads, -1)).transpose(1, 2)

    def merge(y):
        return y.transpose(1, 2).flatten(2)

    q = split(x @ w_q)
    k = split(x @ w_k)
    v = split(x @ w_v)
    weights = (q @ k.mT / d_k**0.5).softmax(dim=-1)
    return merge(weights @ v) @ w_o


_SPLIT = "t.unflatten(-1, (n_heads, -1)).transpose(1, 2) -> t.reshape(B, n_heads, T, d_k)"
_MERGE = "y.transpose(1, 2).flatten(2) -> y.reshape(B, T, d_model)"
_STRIPED = "(n_heads, -1)).transpose(1, 2) -> (-1, n_heads)).permute(0, 3, 1, 2)"
_BRAIDED = "y.transpose(1, 2) -> y.permute(0, 2, 3, 1)"
_ROWS = "x @ w_q -> x @ w_q.T; x @ w_k -> x @ w_k.T; x @ w_v -> x @ w_v.T"
_MISTAKES = edited(
    attend_in_heads,
    {
        "d_k**0.5 -> d_model**0.5": "you divided by √d_model; divide the scores by √d_k, with d_k "
        "the width of one head",
        "d_k**0.5 -> (d_k / 2)": "you divided by d_k / 2, which is √d_k where d_k is 4; divide by "
        "the root of d_k",
        " / d_k**0.5 -> ": "the scores are not divided by √d_k, the width of one head",
        _SPLIT: "you split by `reshape` alone, which is no transpose; cut the last axis, then "
        "move the heads in front of the words",
        f"{_SPLIT}; {_MERGE}": "you split and merged by `reshape` alone, which is no transpose; "
        "move the heads in front of the words, and back",
        _MERGE: "you merged by `reshape` alone, which is no transpose; put the words in front of "
        "the heads again, then flatten",
        f"{_STRIPED}; {_BRAIDED}": "head i takes every h-th number, as `[i::h]` does; it should "
        "take d_k numbers that lie side by side",
        _STRIPED: "you split by `(d h)`, so head i takes every h-th number; in `(h d)` the "
        "numbers of a head lie side by side",
        _BRAIDED: "you merged by `(d h)`, which mixes the numbers of all heads; `(h d)` lays the "
        "heads side by side",
        "q @ k.mT -> k @ q.mT": "queries and keys are exchanged",
        "q @ k.mT -> q @ v.mT; weights @ v -> weights @ k": "keys and values are exchanged",
        "(n_heads, -1)).transpose(1, 2) -> (n_heads, -1)); y.transpose(1, 2) -> y": "the heads of "
        "a word attended to each other; move the heads in front of the words before you attend",
        "dim=-1 -> dim=-2": "the softmax ran over the queries; each query's row should sum to 1",
        "softmax(dim=-1) -> softmax(dim=-1).softmax(dim=-1)": "the softmax ran twice; `attention` "
        "has one inside",
        "d_k = -> n_heads = 1\n    d_k =": "that is one wide head; nothing was split",
        " @ w_o -> ": "W_o is missing: multiply by `w_o` at the end",
        f"{_ROWS}; @ w_o -> @ w_o.T": "you multiplied by transposed matrices; here `x @ w_q` is "
        "right as it is",
        _ROWS: "your queries, keys and values come from rows of the matrices; head i has d_k "
        "columns of `w_q`, and `x @ w_q` needs no transpose",
        "d_k = -> n_heads = 2\n    d_k =": "you split into 2 heads, as in the example; take "
        "`n_heads`, here 3",
    },
)


@exercise(
    "03.1",
    "Multiply first: `x @ w_q` is (B, T, d_model). Then cut its last axis into (h, d_k).",
    "`unflatten(-1, (n_heads, -1)).transpose(1, 2)` splits; to merge, undo both, last step first.",
    "Between splitting and merging comes `attention(q, k, v)`, and at the end `@ w_o`.",
)
def judge_03_1(
    answer,  # my_multi_head(x, w_q, w_k, w_v, w_o, n_heads) -> (B, T, d_model)
) -> str | None:  # None if right, else what it looks like
    "Judge three heads, on two sentences of five words."
    with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
        torch.manual_seed(3)
        x = 2 * torch.randn(2, 5, 24)
        matrices = [0.2 * torch.randn(24, 24) for _ in range(4)]
        try:
            given = call_answer(answer, x, *matrices, 3)
        except Exception as error:
            if _takes_a_matrix_for_each_head(answer, x, matrices):
                return (
                    "`w_q` is one wide matrix, so `w_q[i]` is a row; head i has d_k columns of it"
                )
            return explain_error(error, _MISFITS)
        wrong = {said: mistake(x, *matrices, 3) for said, mistake in _MISTAKES.items()}
        return diagnose(given, attend_in_heads(x, *matrices, 3), wrong)


_ONE_HEAD = (
    "w_o needs d_model numbers for each word, and yours has those of one head; lay the heads side "
    "by side, do not sum them"
)
_HEADS = (
    "heads of d_k numbers met a matrix (d_model, d_model); split x after `x @ w_q`, and merge the "
    "heads before `@ w_o`"
)
_WORDS = "you merged the words; move the heads behind them, `transpose(1, 2)`, and then flatten"
_MISFITS = {  # words of an error -> what was meant
    "sizes [3, 6] don't multiply": "there are 3 heads here, so a head has d_model / n_heads = 8 "
    "numbers, not 6; with -1 PyTorch works it out",
    "(10x24 and 8x24)": "you cut rows of the matrix; head i has d_k of its columns",
    "(10x8 and 24x24)": _ONE_HEAD,
    "[2, 8] but got: [2, 24]": _ONE_HEAD,
    "(30x8 and 24x24)": _HEADS,
    "[6, 8] but got: [6, 24]": _HEADS,
    "(6x40 and 24x24)": _WORDS,
    "[2, 40] but got: [2, 24]": _WORDS,
}


def _takes_a_matrix_for_each_head(answer, x, matrices):
    "Whether an answer would be right if w_q, w_k and w_v were (h, d_model, d_k)."
    right = attend_in_heads(x, *matrices, 3)
    cut = [rearrange(w, "m (h d) -> h m d", h=3) for w in matrices[:3]]
    try:
        return diagnose(answer(x, *cut, matrices[3], 3), right) is None
    except Exception:  # noqa: BLE001, an answer may raise anything
        return False


@exercise(
    "03.2",
    "How wide is a head before, and how wide after?",
    "The matrices hold 4 d_model² numbers for any h. The weights have shape (B, h, T, T).",
)
def judge_03_2(
    answer,  # three factors: parameters, multiplications, attention weights
) -> str | None:  # None if right, else what it looks like
    "Judge the three factors."
    wrong = {
        "those are wide heads; here a head is half as wide if there are twice as many": (2, 2, 2),
        "there are twice as many tables of scores, but of vectors half as wide": (1, 2, 2),
        "parameters and multiplications are right, but each head has a table of its own": (1, 1, 1),
        "each head is half as wide, but there are twice as many": (0.5, 0.5, 1),
    }
    wrong = {sentence: torch.tensor(factors) for sentence, factors in wrong.items()}
    places = (
        "the first factor, of the parameters, is wrong; count the numbers in the four matrices",
        "the second factor, of the multiplications, is wrong; count those with the four matrices",
        "the third factor, of the weights, is wrong; their shape is (B, h, T, T)",
    )
    return diagnose(answer, [1.0, 1.0, 2.0], wrong, places)


@exercise(
    "03.3",
    "The output is the sum of head_i W_o^i, and head_i = A_i (X W_v^i).",
    "M_i = W_v^i W_o^i. `nn.Linear` keeps its matrix transposed, so use `layer.w_v.weight.T`.",
)
def judge_03_3(
    answer,  # head_matrix(layer, i) -> (d_model, d_model)
) -> str | None:  # None if right, else what it looks like
    "Judge the matrices of three heads."
    with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
        torch.manual_seed(3)
        layer = MultiHeadAttention(12, 3, bias=False)
        try:
            given = [answer(layer, i) for i in range(3)]
        except TypeError as error:
            return explain_error(error, {"'Linear'": _NO_MATRIX})
        for i, matrix in enumerate(given):
            try:
                given[i] = torch.as_tensor(matrix)
            except (TypeError, ValueError, RuntimeError):  # it is none
                return diagnose(matrix, torch.zeros(12, 12))
        w_q, w_k, w_v = (
            rearrange(part.weight, "(h d) m -> h m d", h=3)  # (h, d_model, d_k)
            for part in (layer.w_q, layer.w_k, layer.w_v)
        )
        w_o = rearrange(layer.w_o.weight, "m (h d) -> h d m", h=3)  # (h, d_k, d_model)
        rows = rearrange(layer.w_o.weight, "(h d) m -> h d m", h=3)
        striped_o = rearrange(layer.w_o.weight, "m (d h) -> h d m", h=3)
        striped_v = rearrange(layer.w_v.weight, "(d h) m -> h m d", h=3)
        blocks = [slice(0, 4), slice(4, 8), slice(8, 12)]
        right, last = w_v @ w_o, "the values' matrix is `layer.w_v`"
        wrong = {
            "that is M_i transposed; `nn.Linear` keeps transposes, so undo both": right.mT,
            f"you took the keys' matrix; {last}": w_k @ w_o,
            f"you took the queries' matrix; {last}": w_q @ w_o,
            "you cut W_o along its rows; `layer.w_o.weight` is W_o transposed, "
            "so head i has a block of columns": w_v @ rows,
            "head i has d_k columns side by side, not every h-th as in `[i::h]`": w_v @ striped_o,
            "head i has d_k rows of W_v and d_k columns of W_o side by side, not every h-th": (
                striped_v @ striped_o
            ),
            "head i has d_k rows of W_v side by side, not every h-th": striped_v @ w_o,
            "W_q W_kᵀ makes the scores; the values go through W_v and then W_o": w_q @ w_k.mT,
            "W_k W_qᵀ makes the scores, turned; the values go through W_v and then W_o": (
                w_k @ w_q.mT
            ),
            "heads count from 0, so head i begins at number i · d_k": torch.cat(
                [torch.zeros(1, 12, 12), right[:2]]
            ),
            "that is the product of the two in the other order; the values' matrix comes first": (
                w_o @ w_v
            ),
            "both matrices are still transposed; `nn.Linear` keeps transposes, so undo both": (
                (w_o @ w_v).mT
            ),
            "rows and columns are exchanged; of the transposes in `nn.Linear`, head i has d_k "
            "rows of W_v and d_k columns of W_o": (
                torch.stack([layer.w_v.weight[:, s] @ layer.w_o.weight[s] for s in blocks])
            ),
            "rows and columns are exchanged; head i has d_k columns of W_v and d_k rows of W_o": (
                torch.stack([layer.w_v.weight.T[s] @ layer.w_o.weight.T[:, s] for s in blocks])
            ),
            "head i has d_k numbers, of which yours takes the first": torch.stack(
                [w_v[i][:, :1] @ w_o[i][:1] for i in range(3)]
            ),
            "head i begins at number i · d_k, not at number i": torch.stack(
                [layer.w_v.weight[i : i + 4].T @ layer.w_o.weight[:, i : i + 4].T for i in range(3)]
            ),
            "that is the matrix of head 0 for every i": right[:1].expand(3, -1, -1),
            "that is the product of the whole matrices, all heads at once": (
                right.sum(0).expand(3, -1, -1)
            ),
        }
        problem = diagnose(torch.stack(given), right, wrong)
        if problem and given[0].shape != (12, 12) and problem not in wrong:
            return f"expected shape (12, 12), got {tuple(given[0].shape)}"
        return problem


_NO_MATRIX = (
    "`layer.w_v` is a layer; its matrix is `layer.w_v.weight`, and head i has the rows from "
    "i · d_k of it"
)


@exercise(
    "03.4",
    "Call `attention(q, k, v, mask, is_causal)` first. Which axis of its output has the heads?",
    "The output is (B, h, T, d_k), so head 0 is `y[:, 0]`.",
)
def judge_03_4(
    answer,  # without_head_0(q, k, v, mask, is_causal) -> (B, h, T, d_k)
) -> str | None:  # None if right, else what it looks like
    "Judge two heads on three sentences, free, with a mask and causal."
    with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
        torch.manual_seed(3)
        q, k, v = torch.randn(3, 3, 2, 5, 6)  # each (B, h, T, d_k)
        y = attention(q, k, v)
        right, batch, position, number, others = (y.clone() for _ in range(5))
        right[:, 0] = 0
        batch[0] = 0
        position[:, :, 0] = 0
        number[..., 0] = 0
        others[:, 1:] = 0
        wrong = {
            "nothing is off yet; that is `attention` itself": y,
            "you turned the first sentence off; the heads are axis 1": batch,
            "you turned the first word off; the heads are axis 1": position,
            "you turned one number of each head off; the heads are axis 1": number,
            "you turned the other heads off and left head 0 on": others,
            "both heads are off; only head 0 should be": torch.zeros_like(y),
            "head 0 is taken away; it stays, and returns zeros": y[:, 1:],
            "head 0 got zeros for its queries or keys, so it takes the mean of all values; set "
            "what it returns to zero": torch.cat(
                [v[:, :1].mean(2, True).expand(3, 1, 5, 6), y[:, 1:]], 1
            ),
        }
        try:
            given = call_answer(answer, q, k, v, None, False)
        except TypeError as error:
            return explain_error(error, {"but 5 were given": _FIVE})
        problem = diagnose(given, right, wrong)
        past = torch.ones(5, 5, dtype=torch.bool).tril()
        for mask, is_causal in [(past, False), (None, True)]:
            if problem is None:
                masked = attention(q, k, v, mask, is_causal)
                masked[:, 0] = 0
                given = call_answer(answer, q, k, v, mask, is_causal)
                problem = diagnose(given, masked, {_NOT_HANDED_ON: right})
        return problem


_FIVE = "a layer calls it with five arguments, `q, k, v, mask, is_causal`; take them all"
_NOT_HANDED_ON = "your function forgets `mask` or `is_causal`; hand them on to `attention`"
