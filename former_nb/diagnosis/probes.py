"""What any Transformer owes, a small function each: it yields findings only where they are plain.

Each probe takes a `Seen`, which has run the model once in evaluation mode and watched it.
"""

import math
import time
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import nn

from ..data.text import IGNORE
from .case import Case, is_tokens, logits_of, shifted
from .record import Record, first_line, has_own_parameters, where

__all__ = ["PROBES"]


class Finding(NamedTuple):
    "Something that is plainly wrong."

    name: str  # in a few words: 'the future leaks'
    seen: str  # what was seen, in numbers
    part: str  # in which module and line, as far as it can be known
    advice: str  # what to try

    def __str__(self):
        part = f"\n   in {self.part}" if self.part else ""
        return f"{self.name}{part}\n   {self.seen}\n   Try: {self.advice}"


class Seen(NamedTuple):
    "A run of the model in evaluation mode."

    case: Case
    logits: torch.Tensor
    record: Record  # of the batch
    scale: float  # the largest size of a logit: what an effect is compared with


def other_token(case, tokens):
    "Other tokens than these: of those in the batch, so that all are tokens that the model knows."
    known = case.ids.unique()
    at = torch.searchsorted(known, tokens.contiguous())
    return known[(at + max(1, len(known) // 2)) % len(known)]


# ---------------------------------------------------------------- the outputs


def finite(seen):
    "Outputs are numbers."
    if seen.logits.isfinite().all():
        return
    part = next(
        (
            path
            for path, _, given, out in seen.record.outputs
            if not out.isfinite().all() and (given is None or given.isfinite().all())
        ),
        "",
    )
    rows = [
        call
        for call in seen.record.of("softmax")
        if (call.given[0] == -math.inf).all(dim=-1).any() and call.given[0].isnan().sum() == 0
    ]
    share = (~seen.logits.isfinite()).float().mean().item()
    if rows:
        yield Finding(
            "a query may attend to nothing",
            f"{share:.0%} of the logits are NaN or infinite, and a row of scores holds nothing but "
            "-inf, of which a softmax makes NaN.",
            where(rows[0].module, rows[0].line),
            "let each query attend to itself, or fill with a large finite number in place of -inf",
        )
    else:
        yield Finding(
            "outputs are NaN or infinite",
            f"{share:.0%} of the logits are no numbers.",
            part,
            "look at what this part divides by, and at the size of what it is given",
        )


def the_same_twice(seen):
    "In evaluation mode, the same inputs give the same outputs."
    with torch.no_grad():
        again = seen.case.logits()
    gap = (again - seen.logits).abs().max().item()
    if gap <= 1e-4 * seen.scale:
        return
    calls = seen.record.of("dropout")
    if calls:
        yield Finding(
            "dropout in evaluation mode",
            f"The same inputs gave logits {gap:.2g} apart, and dropout of {calls[0].given:g} acts "
            "although the model is in evaluation mode.",
            where(calls[0].module, calls[0].line),
            "nn.Dropout, or F.dropout(x, p, training=self.training)",
        )
    else:
        yield Finding(
            "not the same twice",
            f"The same inputs gave logits {gap:.2g} apart in evaluation mode.",
            "",
            "look for random numbers that are drawn in `forward`",
        )


def rows_apart(seen):
    "A row of the batch doesn't change its neighbours."
    case = seen.case
    if case.ids is None or len(case.ids) < 2:
        return
    ids = case.ids.clone()
    ids[0] = other_token(case, ids[0])
    with Record(case.model, keep=True) as record, torch.no_grad():
        after = case.logits(case.with_ids(ids))
    moved = (after - seen.logits)[1:].abs().max().item()
    if moved <= 1e-4 * seen.scale:
        return
    part, mixing = "", None
    for (path, module, given, out), (_, _, before_in, before) in zip(
        record.outputs, seen.record.outputs
    ):
        if len(out) != len(ids) or out.shape != before.shape:
            continue
        alone = given is None or (given.shape == before_in.shape and len(given) == len(ids))
        alone = alone and (given is None or torch.equal(given[1:], before_in[1:]))
        if alone and (out - before)[1:].abs().max() > 1e-5 * max(1e-6, before.abs().max()):
            part, mixing = path, module
            break
    advice = "attention and norms belong to the axis of positions or features, never to the batch"
    if getattr(mixing, "batch_first", None) is False:
        advice = f"{type(mixing).__name__}(…, batch_first=True), since your batches are (B, T, d)"
    yield Finding(
        "rows of a batch mix",
        f"Another text in row 0 moved the logits of other rows by up to {moved:.2g}.",
        part,
        advice,
    )


# ---------------------------------------------------------------- who sees whom


def influence(case, model=None):
    "(T, T): how far output t of the first row moves if token s is another."
    T = case.ids.shape[1]
    ids = case.ids[:1].repeat(T + 1, 1)  # a row for each s, and one without a change
    at = torch.arange(T, device=ids.device)
    ids[at, at] = other_token(case, ids[T])
    with torch.no_grad():
        out = case.logits(case.with_ids(ids, row=0), model).float().cpu()
    return (out[:T] - out[T]).abs().amax(dim=-1).T


def first_leak(seen, s):
    "The path of the first module whose output before position s moves with token s, or nothing."
    case = seen.case
    ids = case.ids.clone()
    ids[0, s] = other_token(case, ids[0, s : s + 1])[0]
    with Record(case.model, keep=True) as record, torch.no_grad():
        case.logits(case.with_ids(ids))
    B, T = ids.shape

    def moved(a, b):
        if a is None or a.ndim < 3 or a.shape != b.shape or a.shape[:2] != (B, T):
            return None
        return (a - b)[0, :s].abs().max().item() > 1e-5 * max(1e-6, b.abs().max().item())

    for (path, _, given, out), (_, _, before_in, before) in zip(
        record.outputs, seen.record.outputs
    ):
        if moved(out, before) and moved(given, before_in) is False:
            return path
    return ""


def allowed_by(scores):
    "(T, S) boolean: which scores of the first softmax aren't hidden."
    first = scores.reshape(-1, *scores.shape[-2:])[0]
    return first > max(-1e4, first.max().item() - 1e4) if first.isfinite().any() else first > 0


def why_ahead(calls, moves):
    "What lets the future through, from what attention was given: a sentence, and what to try."
    T = len(moves)
    past = torch.ones(T, T, dtype=torch.bool).tril()
    mask = (
        "hide the scores above the diagonal, `torch.ones(T, T, dtype=torch.bool).tril()`, with -inf"
    )
    for call in calls:
        if call.kind == "fused":
            given = call.given.get("attn_mask")
            if given is None and not call.given.get("is_causal"):
                return "Attention has neither a mask nor is_causal.", call, "is_causal=True"
            if given is None or given.shape[-2:] != (T, T):
                continue
            allowed = given if given.dtype == torch.bool else given > -1e4
            allowed = allowed.reshape(-1, T, T)[0].cpu()
        else:
            scores, dim = call.given
            if scores.shape[-2:] != (T, T):
                continue
            if dim is not None and dim != scores.ndim - 1:
                said = f"The softmax runs over axis {dim} of {tuple(scores.shape)}, the queries."
                return said, call, "softmax(dim=-1): each query shares its weight among the keys"
            allowed = allowed_by(scores).cpu()
        if allowed.all():
            said = (
                "No score is hidden before the softmax. (A mask behind it leaves the future in "
                "what the weights are divided by.)"
            )
            return said, call, mask
        if torch.equal(allowed, past.mT) or torch.equal(allowed, ~past):
            return "The mask is upside down: it hides the past and shows the future.", call, mask
        if torch.equal(allowed, torch.ones(T, T, dtype=torch.bool).tril(1)):
            return (
                "The mask shows one position too many.",
                call,
                "tril(0), or triu(1) for what to hide",
            )
        empty = (~allowed).all(dim=-1)
        if empty.any():
            said = (
                "One query's scores are all hidden by the same number, so it averages everything."
            )
            return said, call, "let each query attend to itself: tril(0)"
        if torch.equal(allowed, past):
            said = "The mask is right, so positions are mixed elsewhere."
            return (
                said,
                call,
                "cut heads by view and transpose(1, 2), and join them the same way back",
            )
    return "", None, mask


def no_future(seen):
    "A model that says what comes next doesn't see it."
    case = seen.case
    T = case.ids.shape[1] if case.ids is not None else 0
    if case.kind != "causal" or T < 3:
        return
    moves = influence(case)
    least = 1e-4 * seen.scale
    ahead = (moves > least) & ~torch.ones(T, T, dtype=torch.bool).tril()
    if case.targets.shape == case.ids.shape:  # what a prompt's outputs see is nobody's business
        ahead &= (case.targets[0] != IGNORE).cpu()[:, None]
    if ahead.any():
        t, s = ahead.nonzero()[0].tolist()
        path = first_leak(seen, max(1, T // 2))
        calls = [c for c in seen.record.calls if c.kind in ("fused", "softmax")]
        inside = [c for c in calls if path and c.module.startswith(path)]
        said, call, advice = why_ahead(inside or calls, moves)
        pairs = int(ahead.sum())
        yield Finding(
            "the future leaks",
            f"Output {t} moves with token {s}, by {moves[t, s]:.2g}; so do {pairs} of "
            f"{T * (T - 1) // 2} such pairs. {said}".strip(),
            where(call.module, call.line) if call else path,
            advice,
        )
    own = moves.diagonal()
    before = moves[torch.ones(T, T, dtype=torch.bool).tril(-1)]
    if own.max() <= least and before.max() > least:
        yield Finding(
            "the newest token has no effect",
            f"Other tokens move an output by up to {before.max():.2g}, but its own by "
            f"{own.max():.2g}.",
            "",
            "the mask hides the diagonal, or the inputs are shifted once more in the model",
        )
    if before.max() <= least and own.max() > least and not ahead.any():
        # a layer that begins at 0, as in ReZero, lets nothing through before the first step
        _, model, _ = trained(case, 8, 5, lr=1e-2)
        later = influence(case, model) if model is not None else moves
        before = later[torch.ones(T, T, dtype=torch.bool).tril(-1)]
    if before.max() <= least and own.max() > least and not ahead.any():
        yield Finding(
            "what came before has no effect",
            f"An output moves with its own token, by up to {own.max():.2g}, and with no earlier "
            f"one (at most {before.max():.2g}).",
            "",
            "is attention's result added to the stream, and is every block called with the last "
            "one's output?",
        )


def inputs_have_effect(seen):
    "Other tokens give other outputs: if not at the start, as with a head of zeros, then soon."
    case = seen.case
    if case.ids is None or case.ids.unique().numel() < 2:
        return
    others = case.with_ids(other_token(case, case.ids))

    @torch.no_grad()
    def moved(model=None):
        before = case.logits(model=model)
        gap = (case.logits(others, model) - before).abs().max().item()
        return gap > 1e-6 * max(1e-6, before.abs().max().item())

    if moved():
        return
    _, model, _ = trained(case, 8, 5, lr=1e-2)
    if model is not None and not moved(model):
        yield Finding(
            "the inputs have no effect",
            "Other tokens in all places leave all outputs as they are, also after eight steps.",
            "",
            "look for what is multiplied by 0 or overwritten on the way, and for a norm without "
            "gains",
        )


def tokens_differ(seen):
    "Different tokens in the same place are different texts."
    case = seen.case
    if case.ids is None:
        return
    known = case.ids.unique()[:16]
    first, last = (case.ids[:1].repeat(len(known), 1) for _ in range(2))
    first[:, 0] = last[:, -1] = known  # of which one at least isn't padding

    @torch.no_grad()
    def alike(least, model=None):
        "Of which tokens another one, further to the front, gives the same logits."
        gaps = 0.0
        for ids in (first, last):
            out = case.logits(case.with_ids(ids, row=0), model).flatten(1)
            out = out.to(torch.promote_types(out.dtype, torch.float32))
            gaps = gaps + torch.cdist(out, out, p=math.inf)
        same = (gaps <= least * seen.scale).tril(-1).any(dim=1)
        return known[same.to(known.device)].tolist()

    if len(known) < 4 or len(alike(1e-4)) < len(known) / 4:
        return
    _, model, _ = trained(case, 8, 5, lr=1e-2)  # by then vectors that began alike differ
    found = [] if model is None else alike(1e-12, model.double())
    if len(known) / 4 <= len(found) < len(known) - 1:
        yield Finding(
            "different tokens are read as one",
            f"Of {len(known)} tokens, {', '.join(map(str, found[:5]))}"
            f"{' …' if len(found) > 5 else ''} give the logits of another one in the same place.",
            "",
            "look for ids that are clamped, or that all become the unknown token",
        )


def positions_differ(seen):
    "A table of positions is read at different places."
    case = seen.case
    if case.ids is None or case.ids.shape[1] < 3:
        return
    B, T = case.ids.shape
    tables = {}
    for call in seen.record.of("embedding"):
        index, table = call.given
        if not isinstance(index, torch.Tensor) or index.is_floating_point():
            continue
        tables.setdefault(id(table), []).append((index, call))
    for calls in tables.values():
        if len(calls) != 1:
            continue
        index, call = calls[0]
        if index.numel() in (B * T, T) and torch.equal(index.reshape(-1, T).expand(B, T), case.ids):
            continue  # the tokens themselves
        rows = index[:, None] if index.ndim == 1 and T != B else index
        if rows.ndim == 2 and rows.shape[0] == B > 1 and (rows == rows[:, :1]).all():
            if (rows[:, 0] == torch.arange(B, device=rows.device)).all():
                yield Finding(
                    "positions run along the batch",
                    f"A table is read at {rows[:3, 0].tolist()} … for the rows of the batch, and "
                    "at the same place for all positions of a row.",
                    where(call.module, call.line),
                    "torch.arange(T), without the batch",
                )
                continue
        if index.numel() >= T and index.numel() % T == 0 and index.unique().numel() == 1:
            table = call.given[1]
            if isinstance(table, torch.Tensor) and len(table) >= T:
                yield Finding(
                    "every position is the same",
                    f"A table of {len(table)} rows is read {index.numel()} times, and always at "
                    f"row {index.flatten()[0].item()}.",
                    where(call.module, call.line),
                    "torch.arange(T) as positions",
                )


# ---------------------------------------------------------------- the loss


def wants_logits(seen):
    "Cross-entropy is given logits, and nll_loss logarithms of probabilities."
    case = seen.case
    with Record(case.model) as record, torch.no_grad():
        case.loss_of()
    for call in record.of("cross_entropy"):
        logits = call.given[0]
        if logits is None or logits.ndim < 2 or not logits.is_floating_point():
            continue
        n_classes = logits.shape[1]
        sums = logits.sum(dim=1)
        if (logits >= 0).all() and (sums - 1).abs().max() < 1e-3 and n_classes > 1:
            yield Finding(
                "probabilities in place of logits",
                f"Cross-entropy is given {tuple(logits.shape)} numbers between 0 and 1 that add up "
                "to 1. It takes the softmax itself, so here it is taken twice, and the loss "
                f"can't fall below {math.log(1 + (n_classes - 1) / math.e):.2f}.",
                where("", call.line),
                "return the logits, and take the softmax only where probabilities are shown",
            )
        elif 0 < logits.min() and logits.max() < 1 and logits.unique().numel() >= 16:
            yield Finding(
                "squashed numbers in place of logits",
                f"Cross-entropy is given {tuple(logits.shape)} numbers that all lie between 0 and "
                "1, so no class can become e times as likely as another.",
                where("", call.line),
                "return the logits, without a sigmoid, a softmax or a ReLU behind them",
            )
    for call in record.of("binary"):
        logits = call.given[0]
        if logits is not None and (logits >= 0).all() and (logits <= 1).all():
            yield Finding(
                "probabilities in place of logits",
                f"binary_cross_entropy_with_logits is given {logits.numel()} numbers that all lie "
                "between 0 and 1. It takes the sigmoid itself.",
                where("", call.line),
                "return the logits, without a sigmoid",
            )
    for call in record.of("mse"):
        made, wanted = call.given
        if isinstance(wanted, torch.Tensor) and made.shape != wanted.shape:
            yield Finding(
                "outputs and targets have different shapes",
                f"The squared error of {tuple(made.shape)} and {tuple(wanted.shape)} compares each "
                "output with the targets of all rows.",
                where("", call.line),
                "outputs.squeeze(-1), or targets[:, None]",
            )
    for call in record.of("nll_loss"):
        logs = call.given[0]
        if logs is not None and logs.ndim >= 2 and logs.logsumexp(dim=1).abs().max() > 1e-2:
            yield Finding(
                "nll_loss of what are no logarithms of probabilities",
                f"Their exponentials add up to {logs.exp().sum(dim=1).mean():.3g}, not to 1.",
                where("", call.line),
                "F.cross_entropy(logits, targets), or log_softmax first",
            )


def slopes(case):
    "(logits, gradients of the loss in the logits), both (B, T, V) or (B, V), or None."
    with torch.enable_grad():
        if case.loss is not None:
            with torch.no_grad():
                logits = case.logits()
            draw = torch.Generator().manual_seed(0)  # any logits do, and equal ones hide an axis
            at = torch.randn(logits.shape, generator=draw).to(logits).requires_grad_()
            loss = case.loss(at, case.targets)
            if not loss.requires_grad:
                return at.detach(), None
            return at.detach(), torch.autograd.grad(loss, at, allow_unused=True)[0]
        copied = case.copied()
        if copied is None:
            return None, None
        model = copied[0].eval()
        loss, logits = case.loss_of(model)
        logits.retain_grad()
        loss.backward()
        return logits.detach(), logits.grad


def right_targets(seen):
    "The loss teaches, at each position, the token that comes next, over the axis of tokens."
    case = seen.case
    logits, slope = slopes(case)
    if logits is None or logits.ndim != 3:
        return
    if slope is None:
        yield Finding(
            "the loss doesn't depend on the outputs",
            "No logit has a slope.",
            "",
            "compute the loss from the model's outputs, without .detach(), .item() or .data",
        )
        return
    if (case.targets == IGNORE).all():
        yield Finding(
            "no target counts",
            f"All {case.targets.numel()} targets are {IGNORE}, which the loss leaves out.",
            "",
            "targets that are tokens where something is asked",
        )
    if not slope.isfinite().all() or slope.abs().max() == 0:
        return
    total = slope.abs().sum()
    left = [slope.sum(dim=axis).abs().sum() / total for axis in range(3)]
    if left[2] > 1e-3:
        axis = min(range(3), key=lambda a: left[a])
        if left[axis] < 1e-4 and slope.shape[axis] > 1:
            name = "the batch" if axis == 0 else "time"
            yield Finding(
                "the loss compares the wrong axis",
                f"Its softmax runs over {name}: the slopes add up to 0 there, and not over the "
                f"{slope.shape[2]} tokens of {tuple(slope.shape)}.",
                "",
                "F.cross_entropy(logits.flatten(0, 1), targets.flatten()), or logits.mT",
            )
        return
    asked = slope.abs().sum(dim=-1) > 1e-3 * slope.abs().sum(dim=-1).max()
    largest = slope.gather(-1, slope.abs().argmax(dim=-1, keepdim=True))[..., 0][asked]
    if slope.shape[-1] > 2 and (largest > 0).float().mean() > 0.9:
        yield Finding(
            "the loss has the wrong sign",
            f"At {(largest > 0).float().mean():.0%} of the positions a step makes one token less "
            "likely and all others more.",
            "",
            "the loss is minus the logarithm of the right token's probability",
        )
        return
    taught = torch.where(asked, slope.argmin(dim=-1), IGNORE)
    yield from taught_tokens(case, taught, asked)
    yield from token_left_out(case, asked)


def taught_tokens(case, taught, asked):
    "Are the tokens that the loss teaches those that come next, and is nothing asked of padding?"
    ids = case.ids
    if ids is None or ids.shape != taught.shape:
        return
    agree = {}
    for step in (-1, 0, 1, 2):
        told, right = shifted(taught, ids, step)
        agree[step] = (told == right).float().mean().item() if told.numel() >= 4 else 0.0
    if case.kind == "causal" and agree[1] < 0.5:
        step = max(agree, key=lambda s: agree[s])
        said = {
            0: ("targets aren't shifted", "the token that the model has just read"),
            2: ("targets are shifted twice", "the token after the next"),
            -1: ("targets are shifted the other way", "the token before"),
        }
        if step in said and agree[step] > 0.95:
            name, what = said[step]
            yield Finding(
                name,
                f"At {agree[step]:.0%} of the positions the loss asks for {what}.",
                "",
                "inputs ids[:, :-1], targets ids[:, 1:], once: here or in the model",
            )
    for roll in (1, -1) if len(ids) > 2 and max(agree.values()) < 0.5 else ():
        told, right = shifted(taught, ids.roll(roll, dims=0), 1)
        if told.numel() >= 4 and (told == right).float().mean() > 0.95:
            yield Finding(
                "targets belong to other rows",
                "The loss asks each row for what comes next in its neighbour.",
                "",
                "roll or shift along dim=1, the positions, and not along the batch",
            )
    pad = tail_token(ids)
    if pad is None:
        return
    pads = asked & (ids == pad)
    if case.kind == "causal":
        pads &= taught == pad
    share = pads.sum().item() / max(1, asked.sum().item())
    if share > 0.05:
        yield Finding(
            "padding counts in the loss",
            f"{share:.0%} of the positions that the loss asks are behind the end of a row, where "
            f"token {pad} fills it up.",
            "",
            f"targets of {IGNORE} where the rows are filled up, or ignore_index={pad}",
        )


def token_left_out(case, asked):
    "Is one token never asked for, although it isn't padding?"
    targets = case.targets
    if targets.shape != asked.shape:
        return
    left = targets[~asked & (targets != IGNORE)]
    if len(left) < 3 or left.unique().numel() != 1:
        return
    token = int(left[0])
    pads = tail_token(targets), tail_token(case.ids)
    if token not in pads and not (targets[asked] == token).any():
        yield Finding(
            "a token is left out of the loss",
            f"Token {token} is the target {len(left)} times, and none of them counts.",
            "",
            "ignore_index is for the number that padding has in the targets",
        )


def order_has_effect(seen):
    "Words in another order are another text, where all are seen."
    case = seen.case
    if case.kind == "causal" or case.ids is None or case.ids.shape[1] < 6:
        return
    attends = seen.record.of("softmax") or seen.record.of("fused")
    attends = attends or any(isinstance(m, nn.MultiheadAttention) for m in case.model.modules())
    if not attends:
        return
    ids = case.ids[:1]
    if ids.unique().numel() < 4:
        return
    T = ids.shape[1]
    turned = torch.randperm(T, generator=torch.Generator().manual_seed(1)).to(ids.device)
    copied = case.copied()
    if copied is None:
        return
    model = copied[0].double().eval()  # in which a small effect is larger than rounding
    with torch.no_grad():
        before = case.logits(case.with_ids(ids, row=0), model)
        after = case.logits(case.with_ids(ids[:, turned], row=0), model)
        others = case.logits(case.with_ids(other_token(case, ids), row=0), model)
    if torch.equal(others, before):  # as with a head of zeros
        return
    if before.ndim == 3 and before.shape[1] == T:
        before = before[:, turned]
    if before.shape == after.shape and (after - before).abs().max() <= 1e-12 * seen.scale:
        yield Finding(
            "the order of words has no effect",
            "The tokens of a row in another order give the same logits, in that order.",
            "",
            "add positions to the embeddings, or put them into attention",
        )


def padding_has_no_effect(seen):
    "A row gives the same with and without the padding behind it."
    case = seen.case
    if case.kind == "causal" or case.ids is None or len(case.ids) < 2:
        return
    pad = tail_token(case.ids)
    if pad is None:
        return
    lengths = (case.ids != pad).sum(dim=1)
    row = int(lengths.argmin())
    length = int(lengths[row])
    if not 1 < length < case.ids.shape[1]:
        return
    with torch.no_grad():
        alone = case.logits(case.with_ids(case.ids[row : row + 1, :length], row=row))
    before = seen.logits[row : row + 1]
    if alone.ndim == 3 and case.kind == "tokens":
        before = before[:, :length]
    if alone.shape != before.shape:
        return
    gap = (alone - before).abs().max().item()
    if gap > 1e-4 * seen.scale:
        yield Finding(
            "padding has an effect",
            f"Row {row} has {length} tokens and {case.ids.shape[1] - length} behind them. Without "
            f"those its logits are {gap:.2g} away, where the largest is {seen.scale:.2g}.",
            "",
            "a mask that hides padding in attention, and a mean over the real tokens alone",
        )


def source_of(case):
    "Where an encoder's tokens stand in the inputs of an encoder-decoder: names or places; or none."
    if isinstance(case.inputs, Mapping) and is_tokens(case.inputs.get("decoder_input_ids")):
        return [name for name in ("input_ids", "attention_mask") if name in case.inputs]
    if isinstance(case.inputs, tuple) and len(case.inputs) == 2:
        return [i for i, part in enumerate(case.inputs) if part is not case.ids]
    return []


def source_padding_has_no_effect(seen):
    "What stands behind the end of a source has no effect on what is said of it."
    case = seen.case
    places = source_of(case)
    source = case.inputs[places[0]] if places and case.ids is not None else None
    pad = tail_token(source) if is_tokens(source) else None
    if pad is None:
        return
    row = int((source != pad).sum(dim=1).argmin())
    length = int((source[row] != pad).sum())
    inputs = case.with_ids(case.ids[row : row + 1], row=row)
    if not 1 < length < source.shape[1]:
        return
    keys = inputs if isinstance(inputs, Mapping) else range(len(inputs))
    cut = {key: inputs[key][:, :length] if key in places else inputs[key] for key in keys}
    with torch.no_grad():
        alone = case.logits(cut if isinstance(inputs, Mapping) else tuple(cut.values()))
    gap = (alone - seen.logits[row : row + 1]).abs().max().item()
    if gap > 1e-4 * seen.scale:
        yield Finding(
            "padding has an effect",
            f"The source of row {row} has {length} tokens and {source.shape[1] - length} behind "
            f"them. Without those its logits are {gap:.2g} away, where the largest is "
            f"{seen.scale:.2g}.",
            "",
            "a mask that hides the source's padding, in the encoder and in cross-attention",
        )


def tail_token(ids):
    "The token that rows are filled up with on the right, or None if that isn't plain."
    ends = ids[:, -1]
    for pad in ends.unique().tolist():
        is_pad = ids == pad
        is_pad[:, 0] = False  # a decoder may begin with it
        tail = is_pad.flip(1).cumprod(dim=1).flip(1).bool()
        lengths = tail.sum(dim=1)
        if torch.equal(tail, is_pad) and lengths.max() >= 2 and lengths.min() < lengths.max():
            return pad
        if torch.equal(tail, is_pad) and lengths.min() >= 3:
            return pad
    return None


def loss_at_the_start(seen):
    "An untrained model is about as unsure as somebody who guesses."
    case = seen.case
    if case.kind == "labels" and case.targets.is_floating_point():
        return
    with torch.no_grad():
        loss = float(case.loss_of()[0])
    V = seen.logits.shape[-1]
    guess = math.log(V)
    if math.isfinite(loss) and loss > 2 * guess + 2 and seen.logits.std() > 3:
        yield Finding(
            "the outputs begin far too large",
            f"The loss is {loss:.1f} where a guess among {V} costs {guess:.1f}, and the logits "
            f"have a standard deviation of {seen.logits.float().std():.1f}.",
            "",
            "smaller first weights, for example a standard deviation of 0.02 in embeddings",
        )


# ---------------------------------------------------------------- weights


def registered(seen):
    "Each layer and each tensor that learns is known to the model."
    model = seen.case.model
    modules = {id(m) for m in model.modules()}
    parameters = {id(p) for p in model.parameters()}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name in ("_modules", "_parameters", "_buffers"):
                continue
            part = f"{path}.{name}".lstrip(".")
            parts = value.values() if isinstance(value, dict) else value
            if isinstance(value, (list, tuple, dict)):
                lost = [m for m in parts if isinstance(m, nn.Module) and id(m) not in modules]
                lost = [m for m in lost if any(True for _ in m.parameters())]
                if lost:
                    yield Finding(
                        "layers that the model doesn't know",
                        f"{len(lost)} layers stand in a Python {type(value).__name__}, so neither "
                        "`parameters()` nor `to()` nor saving finds them.",
                        part,
                        "nn.ModuleList(…)" if not isinstance(value, dict) else "nn.ModuleDict(…)",
                    )
            elif isinstance(value, torch.Tensor) and value.requires_grad and value.is_leaf:
                if id(value) not in parameters:
                    yield Finding(
                        "a tensor that learns is no parameter",
                        f"`{name}` wants a gradient, but no optimizer gets it from `parameters()`.",
                        part,
                        "nn.Parameter(…)",
                    )


def in_the_optimizer(seen):
    "The optimizer holds the model's parameters, and no others."
    case = seen.case
    if case.optimizer is None:
        return
    groups = case.optimizer.param_groups
    held = {id(p) for group in groups for p in group["params"]}
    names = {id(p): name for name, p in case.model.named_parameters() if p.requires_grad}
    missing = [name for key, name in names.items() if key not in held]
    known = {id(p) for p in case.model.parameters()}
    strange = len(held - known)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        also = f" It holds {strange} that the model no longer has." if strange else ""
        yield Finding(
            "the optimizer doesn't hold all parameters",
            f"It lacks {missing[0]}{more}.{also}",
            missing[0],
            "make the optimizer last, when the model is complete and where it will stay",
        )
    still = [group for group in groups if group["lr"] == 0 and not group.get("initial_lr")]
    if names and still:  # where a schedule sets the rate, it may begin at 0
        n = sum(len(group["params"]) for group in still)
        yield Finding(
            "the learning rate is 0",
            f"No step can change {n} of {len(held)} parameters.",
            "",
            "lr=3e-4 to 3e-3 for Adam, in each group",
        )


def sensible_numbers(seen):
    "Dropout leaves most, weight decay too, and the units of a layer differ."
    case = seen.case
    for path, module in case.model.named_modules():
        if isinstance(module, nn.Dropout) and module.p >= 0.8:
            yield Finding(
                "dropout drops nearly everything",
                f"It drops {module.p:.0%} in training.",
                path,
                "p is the share that is dropped, not the share that is kept",
            )
            break
    for group in case.optimizer.param_groups if case.optimizer is not None else ():
        shrinks = group["lr"] * group.get("weight_decay", 0.0)
        if shrinks > 0.05:
            yield Finding(
                "weight decay is enormous",
                f"At a rate of {group['lr']:g}, a decay of {group['weight_decay']:g} takes "
                f"{shrinks:.0%} off each weight at each step.",
                "",
                "0.01 to 0.1",
            )
    same = [
        name
        for name, p in case.model.named_parameters()
        if p.ndim == 2
        and min(p.shape) > 2
        and (p == p[:1]).all()
        and not (p == 0).all()
        and not ("norm" in type(owner(case.model, name)).__name__.lower() and (p == 1).all())
    ]
    if len(same) > 1:
        yield Finding(
            "the units of a layer are all the same",
            f"In {len(same)} matrices all rows are equal, so they get equal gradients and stay so.",
            same[0],
            "weights that begin at random",
        )
    frozen = [p.numel() for p in case.model.parameters() if not p.requires_grad]
    if frozen:
        share = sum(frozen) / sum(p.numel() for p in case.model.parameters())
        case.notes.append(f"{share:.0%} of the weights are frozen (requires_grad is False)")


def ties_hold(seen):
    "A model whose settings say that embedding and head are one matrix has one."
    model = seen.case.model
    for path, module in model.named_modules():
        config = getattr(module, "config", None)
        if not getattr(config, "tie_word_embeddings", False) or not hasattr(
            module, "get_output_embeddings"
        ):
            continue
        head, table = module.get_output_embeddings(), module.get_input_embeddings()
        weights = [getattr(part, "weight", None) for part in (head, table)]
        if None not in weights and weights[0].shape == weights[1].shape:
            if weights[0] is not weights[1] and not torch.equal(*weights):
                yield Finding(
                    "embedding and head aren't tied",
                    "The settings say that they are one matrix (tie_word_embeddings), and they "
                    "are two.",
                    path,
                    "model.tie_weights(), after a part was exchanged",
                )
                return


def trained(case, steps, seconds, optimizer=None, lr=1e-3, enough=0.0):
    """Losses of a copy on this one batch, the copy, and the parameters that ever had a gradient.

    It ends early when the loss is below `enough` of the first.
    """
    copied = case.copied()
    if copied is None:
        return [], None, None
    model, own = copied
    model.eval()  # without dropout: the batch shall be learned
    weights = [p for p in model.parameters() if p.requires_grad]
    if not weights:
        return [], None, None
    chosen = own if optimizer == "own" else torch.optim.Adam(weights, lr)
    losses, reached = [], {}
    begin = time.perf_counter()
    with torch.enable_grad():
        for _ in range(steps):
            model.zero_grad()
            chosen.zero_grad()
            loss, _ = case.loss_of(model)
            if not loss.requires_grad:
                break
            loss.backward()
            losses.append(loss.item())
            if losses[-1] < enough * losses[0]:
                break
            for name, p in model.named_parameters():
                if p.grad is not None:
                    reached[name] = max(reached.get(name, 0.0), p.grad.abs().max().item())
            chosen.step()
            if not math.isfinite(losses[-1]) or time.perf_counter() - begin > seconds:
                break
    return losses, model, reached


def all_learn(seen):
    "Each parameter is reached by a gradient."
    case = seen.case
    losses, model, reached = trained(case, 3, 10)
    if model is None or not losses:
        return
    named = {name: p for name, p in case.model.named_parameters() if p.requires_grad}
    lost = [name for name in named if reached.get(name, 0.0) == 0.0 and is_plain(name, named)]
    never = [name for name in lost if name not in reached]
    siblings = [name for name in lost if routed(name, case.model)]
    lost = [name for name in lost if name not in siblings]
    if siblings:
        case.notes.append(f"{len(siblings)} parameters of experts weren't asked in this batch")
    if not lost:
        return
    parts = list(dict.fromkeys(name.rpartition(".")[0] or name for name in lost))
    how = "no gradient comes to" if len(never) >= len(lost) / 2 else "the gradient is 0 in"
    calls = seen.record.of("embedding")
    read = {id(c.given[1]) for c in calls}
    unread = [n for n in lost if isinstance(owner(case.model, n), nn.Embedding)]
    unread = [n for n in unread if id(named[n]) not in read]
    advice = "is it called, and does its result go into the output, without detach or .data?"
    if unread and len(unread) == len(lost):
        advice = "this table is never read: add its vectors to those of the tokens"
    yield Finding(
        "a part doesn't learn",
        f"In three steps {how} {len(lost)} of {len(named)} parameters, in "
        f"{', '.join(parts[:3])}{' …' if len(parts) > 3 else ''}.",
        parts[0],
        advice,
    )


def owner(model, name):
    "The module that a parameter belongs to."
    return model.get_submodule(name.rpartition(".")[0])


def is_plain(name, named):
    "Whether a gradient of exactly 0 says something: not for a bias, of keys for example."
    return named[name].ndim >= 2 or "norm" in name.lower() or name.endswith("weight")


def routed(name, model):
    "Whether a parameter belongs to one of several experts."
    parts = name.split(".")
    return any("expert" in part.lower() or "moe" in part.lower() for part in parts[:-1]) or any(
        "moe" in type(m).__name__.lower() or "mixture" in type(m).__name__.lower()
        for path, m in model.named_modules()
        if path and name.startswith(path + ".")
    )


def step_is_sensible(seen):
    "A step of the reader's own optimizer changes the weights a little."
    case = seen.case
    if case.optimizer is None or any(
        g["lr"] == 0 or "initial_lr" in g for g in case.optimizer.param_groups
    ):
        return
    losses, model, _ = trained(case, 1, 10, "own")
    if model is None or not losses:
        return
    changes, moved = [], 0.0
    for (_, now), (_, before) in zip(model.named_parameters(), case.model.named_parameters()):
        if before.requires_grad and before.ndim >= 2:
            size = before.norm().item()
            moved = max(moved, (now - before).norm().item() / (size or 1.0))
            if size:
                changes.append((now - before).norm().item() / size)
    if not changes:
        return
    middle = sorted(changes)[len(changes) // 2]
    rates = sorted({group["lr"] for group in case.optimizer.param_groups})
    if moved < 1e-6:
        yield Finding(
            "a step hardly changes the weights",
            f"One step at {rates[-1]:g} changed no matrix by more than {moved:.1g} of its size.",
            "",
            "a rate for this optimizer: Adam takes 3e-4 to 3e-3, plain SGD a hundred times as much",
        )
    if not middle < 0.5:
        yield Finding(
            "the learning rate is far too large",
            f"One step at {rates[-1]:g} changed the middle one of {len(changes)} matrices by "
            f"{middle:.0%} of its size.",
            "",
            "1e-3 of a weight's size is usual: Adam with lr=3e-4 to 3e-3",
        )


def one_batch_is_learned(seen):
    "A model that can learn anything can learn one batch by heart."
    case = seen.case
    for rate in (1e-3, 1e-2):  # the second for one that divides its logits, as Cohere's does
        losses, model, _ = trained(case, 60, 6, lr=rate, enough=0.9)
        if model is None or len(losses) < 20:
            return
        first, last = losses[0], losses[-1]
        if first < 0.05 or not math.isfinite(first) or last < 0.97 * first:
            return
    yield Finding(
        "not even one batch is learned",
        f"After {len(losses)} steps of Adam on this batch alone the loss is {last:.3f}, and it "
        f"began at {first:.3f}.",
        "",
        "look at the other findings first; without any, at the loss and what it is given",
    )


def attention_is_open(seen):
    "At the start, no head spends all of its weight on one word."
    case = seen.case
    T = case.ids.shape[1] if case.ids is not None else 0
    found = []
    for call in seen.record.of("softmax"):
        scores, dim = call.given
        own = has_own_parameters(case.model, call.module)
        if dim == scores.ndim - 1 and scores.shape[-1] == T >= 6 and own:
            last = scores[..., -1, :]  # sees all
            found.append((last.softmax(dim=-1).amax(dim=-1).mean().item(), scores, call))
    if found and min(share for share, _, _ in found) > 0.8:
        share, scores, call = found[0]
        shown = scores[scores > -1e4]
        yield Finding(
            "attention begins closed",
            f"In all {len(found)} layers the last query gives more than 80 % of its weight to one "
            f"key; the scores have a standard deviation of {shown.std():.1f}.",
            where(call.module, call.line),
            "divide the scores by the root of d_k, and begin with smaller weights",
        )


def one_row_and_one_token(seen):
    "A batch of one, and a text of one token, are batches and texts as well."
    case = seen.case
    if case.ids is None or len(case.ids) < 2:
        return
    ids = case.ids[:1]
    try:
        with torch.no_grad():
            alone = case.logits(case.with_ids(ids))
    except Exception as error:
        yield Finding(
            "a batch of one doesn't run",
            first_line(error),
            "",
            "look for `squeeze()` without an axis",
        )
        return
    if alone.shape != seen.logits[:1].shape:
        yield Finding(
            "a batch of one has another shape",
            f"{tuple(alone.shape)}, where a row of a batch has {tuple(seen.logits[:1].shape)}.",
            "",
            "look for `squeeze()` without an axis",
        )
        return
    gap = (alone - seen.logits[:1]).abs().max().item()
    if gap > 1e-3 * seen.scale:
        yield Finding(
            "a row alone is another than in its batch",
            f"Its logits differ by {gap:.2g}.",
            "",
            "look for means or norms over the batch",
        )
    if case.kind != "causal":
        return
    try:
        with torch.no_grad():
            short = case.logits(case.with_ids(case.ids[:, :1]))
    except Exception as error:
        yield Finding(
            "a text of one token doesn't run",
            first_line(error),
            "",
            "look for `squeeze()` without an axis, and for sizes that were written in",
        )
        return
    if case.targets[0, 0] == IGNORE or short.shape != seen.logits[:1, :1].shape:
        return
    gap = (short - seen.logits[:1, :1]).abs().max().item()
    if gap > 1e-3 * seen.scale:
        yield Finding(
            "the first output changes with the length of the text",
            f"With one token its logits are {gap:.2g} away from those with {case.ids.shape[1]}.",
            "",
            "look for a mean or a norm over time",
        )


def cache_agrees(seen):
    "With a cache a text has the same logits as without one."
    case = seen.case
    config = getattr(case.model, "config", None)
    offers = case.takes("past_key_values") and case.takes("use_cache")
    offers = offers or hasattr(case.model, "generate") and hasattr(config, "use_cache")
    if case.kind != "causal" or not offers or getattr(config, "is_encoder_decoder", False):
        return
    ids = case.ids[:1]
    with torch.no_grad():
        whole = logits_of(case.model(ids))
        past, parts = None, []
        for t in range(ids.shape[1]):
            out = case.model(ids[:, t : t + 1], past_key_values=past, use_cache=True)
            past = out.past_key_values
            parts.append(logits_of(out))
    gap = (torch.cat(parts, dim=1) - whole).abs().amax(dim=(0, 2))
    if gap.max() > 1e-3 * seen.scale:
        t = int((gap > 1e-3 * seen.scale).nonzero()[0])
        yield Finding(
            "the cache changes the text",
            f"From token {t} on, logits with a cache are up to {gap.max():.2g} away.",
            "",
            "is the position of a new token the number of those in the cache?",
        )


PROBES = (
    finite,
    the_same_twice,
    registered,
    in_the_optimizer,
    ties_hold,
    sensible_numbers,
    rows_apart,
    no_future,
    inputs_have_effect,
    tokens_differ,
    positions_differ,
    wants_logits,
    right_targets,
    order_has_effect,
    padding_has_no_effect,
    source_padding_has_no_effect,
    loss_at_the_start,
    attention_is_open,
    one_row_and_one_token,
    cache_agrees,
    all_learn,
    step_is_sensible,
    one_batch_is_learned,
)
