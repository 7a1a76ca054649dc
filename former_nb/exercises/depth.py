"Exercises of the deep dive on depth, its first half: what two layers can do."

import torch
import torch.nn.functional as F

from ..attention.multi_head import MultiHeadAttention
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "depth.1",
    parts=(
        "(a): the key is found by its position, and the query knows its own",
        "(b): even weights give the share of each letter",
        "(c): the key is found by the letter before it, which one layer doesn't know",
        "(d): the key is found by its position, 0",
        "(e): the key still has to know that a q came before it",
    ),
)
def tasks_of_one_layer():
    # ? Ask of each task: which key is to be found, and does it know by itself that it's the one?
    # ? A key knows its own letter and its own position. It does not know its neighbours.
    # ? (c) and (e) look for a key by the letter before it, the others by position or not at all.
    return True, True, False, True, False
    #! those are the tasks that need two layers; True is for those where one can be enough
    # ~ return False, False, True, False, True
    #! (a), (d): a vector for each position is added, so a query can ask for a position
    # ~ return False, True, False, False, False


@exercise("depth.2")
def composed(first, second):
    # ? Write the query of the second layer and its key as products, with the first layer in the key.
    # ? The key is (A x)_j W_v W_o W_k, with W_v and W_o of the first layer and W_k of the second.
    # ? `nn.Linear` keeps W transposed. So it's `w_q.weight.T @ w_k.weight @ w_o.weight @ w_v.weight` over the root of d_k.
    written = first.w_o.weight @ first.w_v.weight  # (d_model, d_model), transposed
    #! W_v and W_o are those of the second layer; what is read was written by the first
    # ~ written = second.w_o.weight @ second.w_v.weight
    #! W_o is missing
    # ~ written = first.w_v.weight
    #! W_v is missing
    # ~ written = first.w_o.weight
    #! W_o comes after W_v: the values are mixed when they have been weighted
    # ~ written = first.w_v.weight @ first.w_o.weight
    key = second.w_k.weight @ written  # (d_k, d_model), transposed
    #! that compares what the letters themselves give; the key reads what the first layer wrote
    # ~ key = second.w_k.weight
    return second.w_q.weight.T @ key / second.d_k**0.5
    #! the division by √d_k is missing
    # ~ return second.w_q.weight.T @ key
    #! query and key are exchanged: x_i, which asks, is on the left
    # ~ return key.T @ second.w_q.weight / second.d_k**0.5
    #! W_q and W_k are those of the first layer; the score is the second's
    # ~ return first.w_q.weight.T @ first.w_k.weight @ written / second.d_k**0.5
    #! `nn.Linear` keeps its matrix transposed; you took the weights as they are
    # ~ key = first.w_v.weight @ first.w_o.weight @ second.w_k.weight
    # | return second.w_q.weight @ key.T / second.d_k**0.5


@exercise("depth.3")
def two_letters(x):
    # ? Before the second layer looks, each position must know the letter before it and the one before that.
    # ? Two tables of ones, one and two below the diagonal, give both. Two scores then add up.
    # ? `scores = 10 * (x @ one_back.T + one_back @ two_back.T)`, where the first is your own letter with the letter before the key.
    T = len(x)
    one_back = torch.diag(torch.ones(T - 1), -1) @ x  # (T, V), the letter before
    two_back = torch.diag(torch.ones(T - 2), -2) @ x  # (T, V), the one before that
    #! `roll` wraps around: at the first letters it shows the last ones, but nothing stands before them
    # ~2 one_back, two_back = x.roll(1, 0), x.roll(2, 0)
    #! that shows the letters that come next; ones below the diagonal look back
    # ~2 one_back = torch.diag(torch.ones(T - 1), 1) @ x
    # | two_back = torch.diag(torch.ones(T - 2), 2) @ x
    scores = 10 * (x @ one_back.T + one_back @ two_back.T)  # (T, T)
    #! only the last letter was matched; match the letter before it, too
    # ~ scores = 10 * (x @ one_back.T)
    #! only the last letter but one was matched
    # ~ scores = 10 * (one_back @ two_back.T)
    #! the head looks at the copies themselves; look at what came after them
    # ~ scores = 10 * (x @ x.T + one_back @ one_back.T)
    #! query and key are crossed: your letter belongs to the one before the key, and the letter before you to the one before that
    # ~ scores = 10 * (x @ two_back.T + one_back @ one_back.T)
    weights = scores[-1].softmax(dim=-1)  # (T,), of the last position, which may look at all
    #! the scores are not weights yet; the softmax makes them add up to 1
    # ~ weights = scores[-1]
    return weights @ x
    #! those are the weights of the positions; `weights @ x` makes them weights of letters
    # ~ return weights
    #! that is a guess at every position; return the last one
    # ~ return scores.softmax(dim=-1) @ x


# ---------------------------------------------------------------- questions


def one_head(draw, d_model):
    "A layer with one head and weights of its own."
    layer = MultiHeadAttention(d_model, 1, bias=False)
    for weight in layer.parameters():
        weight.data = draw.numbers(*weight.shape)
    return layer


@question("depth", "depth.2")
def ask_composed(draw):
    for d_model in (5, 3, 8, draw.size(9, 16)):
        yield Call(f"d_model = {d_model}", (one_head(draw, d_model), one_head(draw, d_model)))


def guessed(answer, args, result):
    "The likeliest letter: how sharp the weights are is left open."
    found = {"": None, "its shape": None, "the weights add up to 1": None, "the likeliest": None}
    if not isinstance(result, torch.Tensor):
        return found
    found["its shape"] = tuple(result.shape)
    if result.shape == (26,):
        total = result.detach().double().sum().item()
        found["the weights add up to 1"] = bool(abs(total - 1) < 1e-3 and (result >= 0).all())
        found["the likeliest"] = chr(ord("a") + result.argmax().item())
    return found


def rows_to_go_on(draw):
    """Rows that end with two letters that came before. The pair was there once, and each of the two
    came more often alone."""
    yield from ("catbarcobcobarca", "hobgoehixhixgoeho", "mutzuzmipmipzuzmu", "lenvejlaslasvejle")
    letters = "".join(chr(ord("a") + n) for n in range(26))
    for _ in draw.rounds:
        a, b, right, other, *rest = draw.random.sample(letters, 4 + 8)
        pieces = [a + b + right, *(a + one + b + other for one in rest[:3])]
        pieces += [one + b + other for one in rest[3:6]]
        draw.random.shuffle(pieces)
        yield "".join(pieces) + rest[6] + a + b


@question("depth", "depth.3")
def ask_two_letters(draw):
    for text in rows_to_go_on(draw):
        numbers = torch.tensor([ord(letter) - ord("a") for letter in text])
        x = F.one_hot(numbers, 26).float()
        yield Call(f"the row {text}", (x,), look=guessed)
