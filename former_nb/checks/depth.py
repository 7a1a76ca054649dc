"""Judges of the exercises on the page 06_depth, and the mistakes that they know."""

import torch
import torch.nn.functional as F

from ..attention.multi_head import MultiHeadAttention
from ..base.exercises import call_answer, diagnose, exercise


@exercise(
    "depth.1",
    "Ask of each task: which key is to be found, and does it know by itself that it's the one?",
    "A key knows its own letter and its own position. It does not know its neighbours.",
    "(c) and (e) look for a key by the letter before it, the others by position or not at all.",
)
def judge_depth_1(answer):
    "Five booleans."
    return diagnose(
        answer,
        [True, True, False, True, False],
        places=(
            "(a): the key is found by its position, and the query knows its own",
            "(b): even weights give the share of each letter",
            "(c): the key is found by the letter before it, which one layer doesn't know",
            "(d): the key is found by its position, 0",
            "(e): the key still has to know that a q came before it",
        ),
    )


@exercise(
    "depth.2",
    "Write the query of the second layer and its key as products, with the first layer in the key.",
    "The key is (A x)_j W_v W_o W_k, with W_v and W_o of the first layer and W_k of the second.",
    "`nn.Linear` keeps W transposed. So it's `w_q.weight.T @ w_k.weight @ w_o.weight @ w_v.weight` "
    "over the root of d_k.",
)
def judge_depth_2(answer):
    "A function of two layers of one head."
    generator = torch.Generator().manual_seed(0)
    first, second = (MultiHeadAttention(5, 1, bias=False) for _ in range(2))
    for weight in [*first.parameters(), *second.parameters()]:
        weight.data = torch.randn(weight.shape, generator=generator)
    w_v, w_o = first.w_v.weight.detach(), first.w_o.weight.detach()
    w_q, w_k = second.w_q.weight.detach(), second.w_k.weight.detach()
    root = 5**0.5
    right = w_q.T @ w_k @ w_o @ w_v / root
    own = second.w_o.weight.detach() @ second.w_v.weight.detach()
    of_first = first.w_q.weight.T @ first.w_k.weight
    return diagnose(
        answer(first, second),
        right,
        {
            "the division by √d_k is missing": right * root,
            "query and key are exchanged: x_i, which asks, is on the left": right.mT,
            "that compares what the letters themselves give; the key reads what the first layer "
            "wrote": w_q.T @ w_k / root,
            "W_v and W_o are those of the second layer; what is read was written by the first": (
                w_q.T @ w_k @ own / root
            ),
            "W_q and W_k are those of the first layer; the score is the second's": (
                of_first @ w_o @ w_v / root
            ),
            "W_o is missing": w_q.T @ w_k @ w_v / root,
            "W_v is missing": w_q.T @ w_k @ w_o / root,
            "W_o comes after W_v: the values are mixed when they have been weighted": (
                w_q.T @ w_k @ w_v @ w_o / root
            ),
            "`nn.Linear` keeps its matrix transposed; you took the weights as they are": (
                w_q @ (w_v @ w_o @ w_k).mT / root
            ),
        },
    )


def _rows():
    "Rows that end with two letters that came before. Each of the two came more often alone."
    rows = []
    for text in ("catbarcobcobarca", "hobgoehixhixgoeho", "mutzuzmipmipzuzmu", "lenvejlaslasvejle"):
        letters = torch.tensor([ord(letter) - ord("a") for letter in text])
        rows.append(F.one_hot(letters, 26).float())
    return rows


def _looked_up(x, pairs):
    "What the last position gets by scores that add up over pairs of what asks and what answers."
    T = len(x)
    back = [x, torch.diag(torch.ones(T - 1), -1) @ x, torch.diag(torch.ones(T - 2), -2) @ x]
    scores = sum(10 * back[query] @ back[key].T for query, key in pairs)
    return scores[-1].softmax(dim=-1) @ x


@exercise(
    "depth.3",
    "Before the second layer looks, each position must know the letter before it and the one "
    "before that.",
    "Two tables of ones, one and two below the diagonal, give both. Two scores then add up.",
    "`scores = 10 * (x @ one_back.T + one_back @ two_back.T)`, where the first is your own letter "
    "with the letter before the key.",
)
def judge_depth_3(answer):
    "A function of a row of letters."
    rows = _rows()

    def likeliest(pairs):
        return torch.stack([_looked_up(x, pairs).argmax() for x in rows])

    guesses = [call_answer(answer, x) for x in rows]
    for x, guess in zip(rows, guesses):
        if not isinstance(guess, torch.Tensor):
            return diagnose(guess, x[0])
        if guess.shape != (26,):
            return f"expected shape (26,), a weight for each letter, got {tuple(guess.shape)}"
    return diagnose(
        torch.stack([guess.argmax() for guess in guesses]),
        likeliest([(0, 1), (1, 2)]),
        {
            "only the last letter was matched; match the letter before it, too": likeliest(
                [(0, 1)]
            ),
            "the head looks at the copies themselves; look at what came after them": likeliest(
                [(0, 0), (1, 1)]
            ),
            "only the last letter but one was matched": likeliest([(1, 2)]),
            "query and key are crossed: your letter belongs to the one before the key, and the "
            "letter before you to the one before that": likeliest([(0, 2), (1, 1)]),
        },
        places=[f"the guess for row {n} of 4 is another letter" for n in (1, 2, 3, 4)],
    )
