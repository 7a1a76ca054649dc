"""Judges of the exercises on the page 04_masks, and the mistakes that they know."""

import torch

from ..base.exercises import call_answer, diagnose, exercise, explain_error, unnamed


@exercise(
    "04.1",
    "past[i, j] compares the position of key j, across, with that of query i, down",
    "`real` is about keys. Which axes of (B, h, T, S) does it lack? `None` as an index adds one",
    "`(position <= position[:, None]) & (tokens != 0)[:, None, None]`",
)
def judge_04_1(answer):
    "Judge the causal and padding mask of three rows, padded right, left and not at all."
    tokens = torch.tensor([[5, 3, 4, 0, 0], [0, 2, 6, 1, 3], [7, 8, 2, 2, 9]])
    try:
        given = call_answer(answer, tokens)
    except RuntimeError as error:
        return explain_error(error, _MASK_ERRORS)
    if given is None or given is ...:
        return "your function returned nothing; end it with `return` and the mask (B, 1, T, T)"
    if isinstance(given, (tuple, list)):
        return "expected a boolean tensor, got both rules one by one; `&` makes one table of them"
    if not isinstance(given, torch.Tensor) or given.dtype != torch.bool:
        came = getattr(given, "dtype", type(given).__name__)
        return unnamed(f"expected a boolean tensor, got {came}")
    past, real = torch.ones(5, 5, dtype=torch.bool).tril(), (tokens != 0)[:, None, None]
    right, by_query = past & real, real.mT
    mistakes = {
        "that is the causal mask alone; the pads may still be attended to": past.expand_as(right),
        "that is the padding mask alone; the future is still open": real.expand_as(right),
        "rows and columns of the triangle are swapped; row i is query i": past.mT & real,
        "the diagonal is missing; a word may attend to itself": past.tril(-1) & real,
        "the mask is the wrong way round; True means may attend": ~right,
        "pads are let in and words kept out; a real key has tokens != 0": past & ~real,
        "a key must pass both rules, not one of them: & instead of |": past | real,
        "you masked the pads as queries; padding is about keys, the last axis": past & by_query,
        "you masked the pads as queries too; padding is about keys only": right & by_query,
        "the numbers are right; the axis of the heads, of size 1, is missing": right[:, 0],
    }
    if given.shape == right[:, 0].shape:
        axis = "the axis of the heads is missing, (B, 1, T, T)"
        for said, wrong in mistakes.items():
            if torch.equal(given, wrong.reshape(given.shape)) and not torch.equal(
                wrong, right[:, 0]
            ):
                return f"{axis}; and {said}"
    return diagnose(given, right, mistakes)


_MASK_ERRORS = {
    "match the broadcast shape": "`&=` writes into the table on its left, and that has too few "
    "axes for both rules; `&` makes a new table",
    "must match the size of tensor b (5) at non-singleton dimension 3": "the first rule has the "
    "size of the batch, B; its rows and columns are the T positions, `tokens.shape[1]`",
    "must match the size of tensor b": "(T, T) and (B, T) don't fit; the keys of `real` need the "
    "axes (B, 1, 1, T), so `real[:, None, None]`",
}


@exercise(
    "04.2",
    "Take one sentence at a time. Query i has read i + 1 positions; how many of those are words?",
    "Query i of a sentence of n words may attend to min(i + 1, n) keys, and a pad is a query too",
)
def judge_04_2(answer):
    "Judge how many entries of three combined masks are True."
    mistakes = {
        "that is the causal mask alone; pads are still attended to": 30,
        "that is the padding mask alone; the future is still attended to": 32,
        "you left out the pads as queries; the mask hides them as keys only": 17,
        "you left out the diagonal; a word may attend to itself": 15,
        "that is every word with every word; the mask hides the future, and pads are queries": 26,
        "a key must pass both rules; you counted keys that pass one of them": 39,
        "that is the first sentence; there are three": 10,
        "one pair is missing: the four queries of the sentence of one word all see that word": 22,
        "that is how many words there are; count pairs of a query and a key": 8,
        "those are all entries; some are forbidden": 48,
        "that is half of all; the diagonal counts, and the columns of pads do not": 24,
        "you counted the forbidden entries; True means may attend": 25,
    }
    return diagnose(answer, 23, mistakes)


@exercise(
    "04.3",
    "For two layers: output i depends on input j if there is an l with mask[i, l] and mask[l, j]",
    '"There is an l with … and …" is a matrix product, with "greater than zero" at the end',
    "`torch.linalg.matrix_power(mask.double(), n_layers) > 0`",
)
def judge_04_3(answer):
    "Judge which inputs an output can depend on after three layers."
    mask = torch.ones(8, 8, dtype=torch.bool).tril(-1).triu(-2)  # the two words before it
    power = [torch.linalg.matrix_power(mask.double(), n) > 0 for n in range(6)]
    loops = torch.linalg.matrix_power((mask | power[0]).double(), 3) > 0
    given = call_answer(answer, mask, 3)
    if not isinstance(given, torch.Tensor) or given.dtype != torch.bool:
        came = f"expected a boolean tensor, got {getattr(given, 'dtype', type(given).__name__)}"
        if isinstance(given, torch.Tensor) and torch.equal(given.double(), mask.double()):
            return f"{came}; `**` raises each number by itself, and layers multiply matrices"
        if isinstance(given, torch.Tensor):
            return f"{came}; those are numbers of paths if they are above 1, so ask `> 0`"
        return came
    if given.equal(power[2]) and not answer(mask, 1).equal(mask):
        return "your table is the same at any depth; `n_layers` says how many masks are multiplied"
    if given.equal(power[4]) and answer(mask, 1).equal(mask):
        return "you squared the table again and again; each layer multiplies by the mask once"
    mistakes = {
        "you returned the mask itself; each layer passes on what the one before it had": power[1],
        "one layer is missing; n_layers = 1 should give the mask": power[2],
        "one layer too many; n_layers = 1 should give the mask": power[4],
        "rows and columns are swapped; row i is output i": power[3].T,
        "each word kept what it had; without a residual path only the mask carries": loops,
        "you joined the tables after one, two and three layers; only the last one counts": (
            power[1] | power[2] | power[3]
        ),
        "you applied the mask again after each layer; words pass on more than that": (
            power[2] & mask
        ),
    }
    problem = diagnose(given, power[3], mistakes)
    if problem is None and not torch.equal(answer(mask, 1), mask):
        problem = "right for three layers, but n_layers = 1 should give the mask"
    return problem
