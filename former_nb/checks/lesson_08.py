"""Judges of the exercises on the page 08_training, and the mistakes that they know."""

import math
from functools import cache

import numpy as np
import torch

from ..base.exercises import diagnose, diagnose_each, edited, exercise, explain_error, unnamed
from ..data.text import IGNORE
from ..training.losses import token_loss


def train(model, batches, optimizer):
    "A step for each batch."
    losses = []
    for inputs, targets in batches:
        loss = token_loss(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


_TRAIN_MISTAKES = edited(
    train,
    {
        "optimizer.zero_grad() -> pass": "old gradients are added to the new ones; clear them in "
        "each step",
        "optimizer.step() -> pass; optimizer.zero_grad() -> optimizer.step(); loss.backward() -> "
        "optimizer.zero_grad()\n        loss.backward()": "the step came before its gradient; call "
        "backward first",
        "targets) -> targets, 'sum')": "that is the sum over the targets; a loss is their mean",
        "targets) -> targets) * (targets != IGNORE).double().mean()": "positions with IGNORE are "
        "counted in the mean",
        "targets) -> targets.clamp(min=0))": "positions with IGNORE are learned as if they were "
        "token 0; leave IGNORE in the targets",
        "model(inputs) -> model(inputs).softmax(-1)": "the loss takes logits; you made "
        "probabilities of them first",
        "model(inputs) -> model(inputs).reshape(len(inputs), -1, inputs.shape[1]).mT": "`reshape` "
        "to (B, V, T) mixes positions with tokens; `logits.mT` exchanges the axes",
        "model(inputs), targets) -> model(inputs)[:, -1:], targets[:, -1:])": "only the last "
        "position of each row is learned from; all that have a target count",
        "optimizer.step() -> optimizer.step()\n        optimizer.step()": "two steps were taken "
        "for each gradient",
    },
)
_LOSSES_AFTERWARDS = edited(
    train,
    {
        "loss.item() -> token_loss(model(inputs), targets).item()": "those are the losses after "
        "each step; keep the loss that gave the gradient",
    },
)


class _Noted(torch.optim.SGD):
    "SGD that notes whether there was a gradient when it was cleared and when it took a step."

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.cleared, self.stepped = [], []

    def __setstate__(self, state):  # of a copy
        super().__setstate__(state)
        self.cleared, self.stepped = [], []

    def _has_gradient(self):
        weights = [p for group in self.param_groups for p in group["params"]]
        return any(p.grad is not None and bool(p.grad.any()) for p in weights)

    def zero_grad(self, *args, **options):
        self.cleared.append(self._has_gradient())
        super().zero_grad(*args, **options)

    def step(self, *args, **options):
        self.stepped.append(self._has_gradient())
        return super().step(*args, **options)


def _unmoved(optimizer):
    "Why no step moved the weights, or nothing if one did."
    if not optimizer.stepped:
        return "no step was taken, so the weights did not move; call `optimizer.step()`"
    if any(optimizer.stepped):
        return None
    if any(optimizer.cleared):
        return (
            "`zero_grad` comes between `backward` and the step and throws the gradient away, so "
            "the step moves nothing; the order is `zero_grad`, `backward`, `step`"
        )
    return "there is no gradient at the step, so the weights did not move; call `loss.backward()`"


def _after_training(train):
    "Losses, weights and optimizer of a small model after five batches, some targets left out."
    g = torch.Generator("cpu").manual_seed(0)
    tokens = torch.randint(6, (5, 4, 7), generator=g, device="cpu")
    targets = tokens.roll(1, -1).masked_fill(tokens == 2, IGNORE)
    table = torch.randn(6, 6, generator=g, dtype=torch.float64, device="cpu")
    model = torch.nn.Embedding.from_pretrained(table, freeze=False)
    optimizer = _Noted(model.parameters(), lr=0.5, momentum=0.5)
    losses = train(model, list(zip(tokens, targets)), optimizer)
    return losses, model.weight.detach().flatten(), optimizer


@exercise(
    "08.1",
    "for batch in batches: what does batch_loss need?",
    "loss = batch_loss(model, batch); then zero_grad and backward, in this order",
    "optimizer.zero_grad(); loss.backward(); optimizer.step(); losses.append(loss.item())",
)
def judge_08_1(answer):
    "Judge a training loop by the losses that it returns and the weights that it leaves."
    losses, weights, optimizer = _after_training(answer)
    if losses is None or losses is ...:
        return "your function returned nothing; end it with `return losses`"
    if isinstance(losses, (torch.Tensor, np.ndarray)) and losses.ndim == 0:
        return "one loss came back; append each batch's loss to a list"
    if not isinstance(losses, (list, tuple, torch.Tensor, np.ndarray)):
        return f"one {type(losses).__name__} came back; append each batch's loss to a list"
    if any(isinstance(loss, torch.Tensor) and loss.requires_grad for loss in losses):
        return "each loss still holds its graph, and so all of a batch's memory; keep loss.item()"
    if len(losses) == 1:
        return "the loop ended after its first batch; `return losses` belongs behind the loop"
    if why := _unmoved(optimizer):
        return why
    if len(optimizer.stepped) == 1 and len(losses) == 5:
        return "one step was taken for all five batches; each batch needs its own, in the loop"
    right, right_weights, _ = _after_training(train)
    wrong = {said: _after_training(loop)[1] for said, loop in _TRAIN_MISTAKES.items()}
    problem = diagnose(weights, right_weights, wrong)
    if problem:
        return problem
    if len(losses) != 5:
        return f"expected a loss for each of the 5 batches, got {len(losses)}"
    right = torch.tensor(right)
    wrong = {said: _after_training(loop)[0] for said, loop in _LOSSES_AFTERWARDS.items()}
    sums = "those are sums over all batches so far; keep each batch's own loss"
    return diagnose([float(loss) for loss in losses], right, wrong | {sums: right.cumsum(0)})


@exercise(
    "08.2",
    "How many batches has an epoch, the last one included? And what is a step: a batch, or "
    "one of the parts it is cut into?",
    "`eval_every` counts steps. Does a run end without an evaluation?",
    "16 batches an epoch. The model is called once for each part.",
)
def judge_08_2(answer):
    "Three numbers: steps, evaluations, calls."
    problem = diagnose(
        answer,
        [48, 3, 192],
        {
            "the last batch of an epoch holds 40 rows, and is a batch: 16 of them": [45, 3, 180],
            "`gradient_accumulation_steps` cuts each batch into parts and makes one step of "
            "them; it does not join batches": [12, 1, 48],
            "a step is made for each batch, not for each of its parts": [192, 10, 192],
            "a run ends with an evaluation, whatever its last step is": [48, 2, 192],
            "with `eval_every` there is no further evaluation at the end of each epoch": [
                48,
                5,
                192,
            ],
            "`eval_every` takes the place of the evaluation after each epoch; both come to 3 "
            "or more here, but count steps 20 and 40 and the end": [48, 6, 192],
            "each batch goes through the model in 4 parts": [48, 3, 48],
            "evaluations do not train: the calls on training rows are 4 for each step": [
                48,
                3,
                195,
            ],
        },
    )
    if problem is None or problem.startswith("expected"):
        return problem
    if "differ" not in problem and "times the right" not in problem:
        return problem
    short = "the last batch of an epoch is a shorter one, so an epoch has 16"
    parts = "that counts the parts; a batch is one step, whatever it is cut into"
    end = "steps 20 and 40 are evaluated, and the end, and nothing else"
    return diagnose_each(
        answer,
        {"steps": 48, "evaluations": 3, "calls": 192},
        [
            {
                45: short,
                46: short,
                46.875: short,
                47: short,
                15: "that is one epoch, and its last batch is missing",
                16: "that is one epoch; there are three",
                3: "those are the epochs; each has a step for each of its batches",
                12: "the parts belong to one batch; four batches are four steps",
                192: parts,
                180: parts,
                3000: "those are rows; a step takes a batch of them",
            },
            {
                0: end,
                1: end,
                2: "a run ends with an evaluation, too",
                2.4: "48 steps hold two whole twenties, and the end is evaluated, too",
                4: "nothing is evaluated before the first step; " + end,
                5: end,
                6: end,
                9: "`eval_every` counts steps, not calls of the model",
                10: "`eval_every` counts steps, not calls of the model",
                48: "only every 20th step is evaluated",
            },
            {
                48: "each batch goes through the model in 4 parts",
                12: "parts make calls more, not fewer: 4 for each batch",
                64: "that is one epoch; there are three",
                180: short,
                188: short,
                195: "evaluations are on other rows",
                3000: "those are rows; a call takes a part of a batch",
            },
        ],
    )


def _tail(p, n_rows):
    "P(at most k rows right) for k from 0 to n_rows - 1."
    total, tails = 0.0, []
    for k in range(n_rows):
        log = (
            math.lgamma(n_rows + 1)
            - math.lgamma(k + 1)
            - math.lgamma(n_rows - k + 1)
            + k * math.log(p)
            + (n_rows - k) * math.log1p(-p)
        )
        total += math.exp(log)
        tails.append(min(total, 1.0))
    return tails


@exercise(
    "08.3",
    "The best of m models has at most k rows right just when each of them has.",
    "So P(best ≤ k) = F(k)ᵐ. For a whole number of 0 or more, the expectation is Σ P(best > "
    "k) over k = 0, 1, 2, …",
    "The share is Σ (1 - F(k)ᵐ) / N for k from 0 to N - 1. F(k) is the sum of the binomial "
    "probabilities up to k: `math.comb` or `math.lgamma`.",
)
def judge_08_3(answer):
    "A function of p, the number of rows and the number of models."
    for p, n, m in ((0.6, 4, 2), (0.83, 1000, 10), (0.9, 300, 1)):
        tails = torch.tensor(_tail(p, n), dtype=torch.float64)
        best = lambda probability: probability.sum().item() / n
        right = best(1 - tails**m)
        said = answer(p, n, m)
        up_to = torch.cat([tails, torch.ones(1, dtype=torch.float64)])  # F(k) for k = 0 … N
        exactly = up_to.diff(prepend=torch.zeros(1, dtype=torch.float64))
        count = torch.arange(n + 1, dtype=torch.float64)
        before = torch.cat([torch.zeros(1, dtype=torch.float64), tails[:-1]])  # F(k - 1)
        problem = diagnose(
            said,
            right,
            {
                "that is the score of any one of them, not of the one that looks best": p,
                "that is the number of rows; divide by N to get a share": right * n,
                "that is the expected score of the one that looks worst: all above k, in "
                "place of not all up to k": best((1 - tails) ** m),
                "the sum begins at k = 0 and ends at N - 1; yours leaves out k = 0": (
                    best(1 - tails**m) - (1 - tails[0].item() ** m) / n
                ),
                "the sum ends at N - 1: for k = N the probability of more is 0, and yours "
                "adds or misses a whole row": right + 1 / n,
                "F(k)ᵐ is the probability of at most k; weigh k by P(best = k), which is "
                "F(k)ᵐ - F(k - 1)ᵐ": best(count * up_to**m),
                "that sums P(best ≤ k); the expectation is the sum of P(best > k)": best(up_to**m),
                "that sums P(best ≤ k) up to N - 1; the expectation is the sum of P(best > k)": (
                    best(tails**m)
                ),
                "F(k) counts at most k rows; yours counts fewer than k": best(1 - before**m),
                "several models may be best together; m · P(k) · F(k)ᵐ⁻¹ counts each of them": (
                    best(count * m * exactly * up_to ** (m - 1))
                ),
                "all m models have exactly k in yours; the best has at most k if all have": best(
                    count * exactly**m
                ),
                "that is the probability that one of the models is right on a row; they are judged "
                "on all rows": 1 - (1 - p) ** m,
                "that is the probability that all models are right on a row": p**m,
                "one standard error above is what a single model may show; the best of m needs "
                "F(k)ᵐ": p + math.sqrt(p * (1 - p) / n),
                "that is percent; a share was asked for": 100 * right,
                "that rests on the normal distribution and on the mean of the largest of m "
                "draws; the sum over F is exact": (
                    p + math.sqrt(p * (1 - p) / n) * math.sqrt(2 * math.log(m))
                ),
            },
        )
        if problem is not None:
            return f"for p = {p}, {n} rows and {m} model{'s' if m > 1 else ''}: {problem}"


class _Recites(torch.nn.Module):
    "Gives the highest logit to the token that is in its table, unless dropout strikes."

    def __init__(self, table, vocab_size):
        super().__init__()
        self.table, self.weight = table, torch.nn.Parameter(torch.eye(vocab_size))
        self.dropout = torch.nn.Dropout(0.9)

    def forward(self, x):  # (B, T)
        said = torch.stack([self.table[row[0].item()][: x.shape[1]] for row in x])  # (B, T)
        return self.dropout(self.weight[said])  # (B, T, vocab_size)


@cache
def _recital():
    """A model and batches of rows with 2, 3 or 5 targets, of which 3 of 4, 1 of 2 and 0 of 3 are
    right, and one row without any."""
    g = torch.Generator().manual_seed(0)
    inputs, targets, table = [], [], {}
    plan = [
        (2, None),
        (3, 1),
        (5, 0),
        (2, None),
        (2, 0),
        (5, 4),
        (3, None),
        (0, None),
        (5, 2),
        (2, None),
    ]  # targets, and where it errs
    for i, (n, wrong) in enumerate(plan):
        row, target = torch.randint(1, 9, (8,), generator=g), torch.full((8,), IGNORE)
        row[0] = i
        begin = 2 if n < 5 else 1
        target[begin : begin + n] = row[begin : begin + n]
        said = (row + 1) % 9  # wrong where nothing is asked
        said[begin : begin + n] = target[begin : begin + n]
        if wrong is not None:
            said[begin + wrong] = (said[begin + wrong] + 1) % 9
        inputs, targets, table = [*inputs, row], [*targets, target], table | {i: said}
    batches = [
        (torch.stack(inputs[a:b]), torch.stack(targets[a:b])) for a, b in ((0, 4), (4, 7), (7, 10))
    ]
    return _Recites(table, 9), batches


@exercise(
    "08.4",
    "Which part of `exact_match` is about a row, before anything is summed?",
    "`counts = targets != IGNORE` (B, T); a row has `counts.sum(-1)` targets, and is right "
    "where `(good | ~counts).all(-1)`.",
    "Collect the lengths and the rights of all batches, and average the rights of each length at "
    "the end: lengths are spread over several batches. A row without a target may be left out.",
)
def judge_08_4(answer):
    "A function of a model and batches."
    model, batches = _recital()
    model.eval()  # so that dropout, of which the page says nothing here, changes nothing
    try:
        got = answer(model, batches)
    except RuntimeError as error:
        return explain_error(
            error,
            {
                "tensor a (9) must match": "9 is the vocabulary; `argmax(-1)` takes the likeliest "
                "token, along the last axis"
            },
        )
    if not isinstance(got, dict):
        return (
            f"expected a dictionary from a number of targets to a share, got {type(got).__name__}"
        )
    if any(isinstance(share, (tuple, list)) for share in got.values()):
        return "each length has one number, the share of its rows that are right"
    found = {int(n): float(share) for n, share in got.items() if int(n) > 0}
    if any(isinstance(n, torch.Tensor) for n in got):
        return "a tensor is a key of its own each time; take its number, `.item()`"
    like = lambda wanted: (
        found.keys() == wanted.keys() and all(abs(found[n] - wanted[n]) < 1e-6 for n in wanted)
    )
    if like({2: 3 / 4, 3: 1 / 2, 5: 0}):
        return None
    if like({2: 7 / 8, 3: 5 / 6, 5: 12 / 15}):
        return "these are shares of targets; a row is right only where all of its targets are"
    if like({2: 0, 3: 0, 5: 0}):
        return "a place with IGNORE cannot be wrong: count only where there is a target"
    if like({2: 3, 3: 1, 5: 0}):
        return "these are numbers of rows; divide each by the rows of that length"
    if like({2: 1 / 4, 3: 1 / 2, 5: 1}):
        return "these are the shares of rows that are wrong"
    if like({2: 1, 3: 1, 5: 0}) or like({2: 1 / 2, 3: 1, 5: 0}) or like({2: 1, 5: 0}):
        return (
            "only the last batch with rows of a length counts in yours; collect over all "
            "batches, then divide"
        )
    if like({2: 2 / 3, 3: 1 / 2, 5: 0}):
        return (
            "an average of the batches' shares gives rows in small batches more weight: "
            "collect over all batches, then divide"
        )
    if like({2: 75, 3: 50, 5: 0}):
        return "those are percent; a share lies between 0 and 1"
    if like({2: 1, 3: 1, 5: 1}):
        return "a row is right where all of its targets are, not any of them"
    if like({2: 3 / 10, 3: 1 / 10, 5: 0}) or like({2: 3 / 9, 3: 1 / 9, 5: 0}):
        return "divide by the rows of that length, not by all rows"
    if like({6: 3 / 4, 5: 1 / 2, 3: 0}) or like({6: 3 / 4, 5: 1 / 2, 3: 0, 8: 1}):
        return "you counted the places with IGNORE; count the targets"
    if like({8: 4 / 9}) or like({8: 0.4}) or like({8: 0.5}):
        return "the length of a row is its number of targets, not its number of places"
    return unnamed(f"expected {{2: 0.75, 3: 0.5, 5: 0.0}}, got {found}")
