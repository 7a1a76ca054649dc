"Why doesn't it learn: probes of three lines."

import math

import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("doctor.1")
def future(model, ids, other):  # ids (B, T), other (B,)
    # ? Which tokens may an output depend on? Change one that it may not, and compare two calls of the model.
    # ? A copy of `ids` with `other` in its last column differs in one place. Which outputs must not move?
    # ? `changed = ids.clone()`, `changed[:, -1] = other`, and `(model(changed) - model(ids))[:, :-1].abs().max()`.
    changed = ids.clone()
    #! `changed` and `ids` are the same tensor, so the model is compared with itself; `clone()` it
    # ~ changed = ids
    changed[:, -1] = other
    #! you changed the first token; all outputs may depend on it, but no output before the last may
    #! depend on the last
    # ~ changed[:, 0] = other
    #! you changed the last row of the batch; positions are the second axis
    # ~ changed[-1] = other[-1]
    return (model(changed) - model(ids))[:, :-1].abs().max()
    #! the output at the last position may move, because it has read the last token; leave it out
    # ~ return (model(changed) - model(ids)).abs().max()
    #! a difference has a sign; without `abs`, one that is negative isn't seen
    # ~ return (model(changed) - model(ids))[:, :-1].max()
    #! that is the mean; a leak at one place of many would hardly be seen in it, so take the largest
    # ~ return (model(changed) - model(ids))[:, :-1].abs().mean()
    #! differences of both signs cancel in a sum; take the largest size
    # ~ return (model(changed) - model(ids))[:, :-1].sum()
    #! `:-1` cuts the last row of the batch; positions are the second axis
    # ~ return (model(changed) - model(ids))[:-1].abs().max()
    #! you looked at the last position alone, and that one may move
    # ~ return (model(changed) - model(ids))[:, -1].abs().max()


@exercise("doctor.2")
def neighbours(model, ids, other):  # ids (B, T), other (T,)
    # ? The same idea as in doctor.1, along the other axis: which outputs have no business with the first row?
    # ? Put `other` into row 0 of a copy, and look at all rows but that one.
    # ? `changed[0] = other`, and `(model(changed) - model(ids))[1:].abs().max()`.
    changed = ids.clone()
    #! `changed` and `ids` are the same tensor, so the model is compared with itself; `clone()` it
    # ~ changed = ids
    changed[0] = other
    #! all rows are changed, so all outputs may move
    # ~ changed[:] = other
    #! you changed a column; a row of the batch is `changed[0]`
    # ~ changed[:, 0] = other[0]
    return (model(changed) - model(ids))[1:].abs().max()
    #! row 0 may move, because it was changed; leave it out
    # ~ return (model(changed) - model(ids)).abs().max()
    #! a difference has a sign; without `abs`, one that is negative isn't seen
    # ~ return (model(changed) - model(ids))[1:].max()
    #! that leaves out the first position of each row; rows are the first axis
    # ~ return (model(changed) - model(ids))[:, 1:].abs().max()
    #! you looked at row 0 alone, and that one may move
    # ~ return (model(changed) - model(ids))[0].abs().max()
    #! that is the mean; take the largest
    # ~ return (model(changed) - model(ids))[1:].abs().mean()


@exercise("doctor.3")
def start(model, ids, targets):  # ids and targets (B, T)
    # ? What is the loss of a model that gives each of the V tokens the same probability?
    # ? `F.cross_entropy` takes logits (N, V) and targets (N,), so flatten the rows and the positions into one axis.
    # ? `F.cross_entropy(logits.flatten(0, 1), targets.flatten()) / math.log(logits.shape[-1])`.
    logits = model(ids)
    #! cross-entropy takes logits, and the softmax is in it
    # ~ logits = model(ids).softmax(dim=-1)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    #! each position should be scored on the token that comes after it, on `targets`
    # ~ loss = F.cross_entropy(logits.flatten(0, 1), ids.flatten())
    #! that is the sum over all targets; take the mean
    # ~ loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")
    return loss / math.log(logits.shape[-1])
    #! that is the loss itself; divide it by what a fair guess among V tokens has, log V
    # ~ return loss
    #! that is in bits; a fair guess has log V nats
    # ~ return loss / math.log2(logits.shape[-1])
    #! that is T; V is the last axis of the logits
    # ~ return loss / math.log(logits.shape[1])
    #! that is V, not its logarithm
    # ~ return loss / logits.shape[-1]
    #! the other way round: how many times a fair guess's loss the model's is
    # ~ return math.log(logits.shape[-1]) / loss
    #! the ratio is asked for, not the difference
    # ~ return loss - math.log(logits.shape[-1])


@exercise(
    "doctor.4",
    parts=(
        "(a): another token in the place of an earlier one moves an output, or it doesn't",
        "(b): a ReLU where you meant a GELU is a choice, which works",
        "(c): dropout at 0.1 or at 0.2 are both choices",
        "(d): what the optimizer holds can be compared with `model.parameters()`",
        "(e): names that were spelled wrongly in the data are tokens like any others",
    ),
)
def faults_that_a_probe_can_see():
    # ? A probe knows what every Transformer owes. Does every Transformer owe it not to do this?
    # ? A choice that somebody could have made on purpose can't be told from a mistake.
    # ? [True, False, False, True, False].
    return [True, False, False, True, False]
    #! each is the other way round; True means that a probe can see it
    # ~ return [False, True, True, False, True]


# ---------------------------------------------------------------- questions


class _Model(nn.Module):
    "Sums of embeddings, in which the future and the other rows may be heard."

    def __init__(self, draw, n_tokens, ahead=0.0, mixed=0.0):
        super().__init__()
        self.register_buffer("table", draw.numbers(n_tokens, 6))
        self.register_buffer("head", draw.numbers(6, n_tokens))
        self.ahead, self.mixed = ahead, mixed

    def forward(self, ids):
        x = self.table[ids]
        past = x.cumsum(dim=1)
        later = x.sum(dim=1, keepdim=True) - past
        y = past + self.ahead * later + self.mixed * x.mean(dim=0, keepdim=True)
        return y.tanh() @ self.head


def _ids_after(answer, args, result):
    "An answer may not change the ids that it was given."
    return {"the ids that it was given, afterwards": args[1]}


@question("doctor", "doctor.1")
def ask_future(draw):
    for ahead in (0.0, 3.0, -3.0, -0.01):
        B, T, V = draw.size(2, 4), draw.size(4, 6), draw.size(7, 9)
        model = _Model(draw, V, ahead)
        ids = draw.tokens(B, T, low=0, high=V)
        other = (ids[:, -1] + 3) % V
        heard = "that hears the future" if ahead else "that doesn't hear the future"
        yield Call(f"a model {heard}, {B} rows of {T}", (model, ids, other), look=_ids_after)


@question("doctor", "doctor.2")
def ask_neighbours(draw):
    for mixed in (0.0, 90.0, -90.0, -0.01):
        B, T, V = draw.size(3, 5), draw.size(4, 6), draw.size(7, 9)
        model = _Model(draw, V, mixed=mixed)
        ids = draw.tokens(B, T, low=0, high=V)
        other = (ids[0] + 3) % V
        heard = "that mixes rows" if mixed else "that keeps rows apart"
        yield Call(f"a model {heard}, {B} rows of {T}", (model, ids, other), look=_ids_after)


@question("doctor", "doctor.3")
def ask_start(draw):
    for _ in range(3):
        B, T, V = draw.size(2, 4), draw.size(4, 6), draw.size(7, 12)
        ids, targets = (draw.tokens(B, T, low=0, high=V) for _ in range(2))
        yield Call(f"{V} tokens, {B} rows of {T}", (_Model(draw, V), ids, targets))
