"Lesson 08: training."

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

from ..grading.ask import Call, exercise, question
from ..grading.compare import loosened, same
from .lesson_07 import IGNORE


def batch_loss(model, batch):
    inputs, targets = batch
    logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    #! a translator reads two texts, so inputs may be a tuple, and the model gets each part of it as
    #! an argument of its own: model(*inputs)
    # ~ logits = model(inputs)
    #! inputs may be one tensor; the star takes it apart, so the model gets each text as an argument
    #! of its own
    # ~ logits = model(*inputs)
    #! the loss leaves the mode as it is: `train_step` wants training mode and `evaluate` evaluation
    #! mode; yours always trains
    # ~ model.train()
    #| logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    #! the loss leaves the mode as it is; yours always evaluates, so dropout never drops anything
    # ~ model.eval()
    #| logits = model(*inputs) if isinstance(inputs, tuple) else model(inputs)
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())  # leaves out IGNORE
    #! token 0 is left out, but a class may have the number 0; what doesn't count is IGNORE, which
    #! cross_entropy leaves out by itself
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), ignore_index=0)
    #! token 0 is left out, too, but a class may have the number 0; only IGNORE doesn't count
    # ~ return F.cross_entropy(logits.flatten(0, -2), torch.where(targets == 0, IGNORE, targets).flatten())
    #! targets of IGNORE count, too, as if they were token 0
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.clamp(min=0).flatten())
    #! the sum is divided by all targets; divide it by those that count, without IGNORE
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum") / targets.numel()
    #! that is the sum; take the mean, because otherwise the loss grows with the size of a batch
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum")
    #! the sum is divided by the number of texts; divide it by the number of tokens
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="sum") / len(targets)
    #! that is the mean of the texts' means, so a token of a short text counts more; each token
    #! counts the same
    # ~ rows = zip(logits, targets)
    #| return torch.stack([F.cross_entropy(a.flatten(0, -2), b.flatten()) for a, b in rows]).mean()
    #! a loss for each token comes back; take their mean
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    #! cross_entropy takes logits, because it does the softmax itself; yours is done twice
    # ~ return F.cross_entropy(logits.flatten(0, -2).softmax(dim=-1), targets.flatten())
    #! nll_loss wants logarithms of probabilities; cross_entropy takes logits
    # ~ return F.nll_loss(logits.flatten(0, -2), targets.flatten())
    #! the logarithm of a softmax overflows: a small probability becomes 0, and its logarithm -inf;
    #! cross_entropy does both at once
    # ~ return F.nll_loss(logits.flatten(0, -2).softmax(dim=-1).log(), targets.flatten())
    #! that is in bits; the course counts in nats, as PyTorch does
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten()) / math.log(2)
    #! that is the perplexity, e to the loss; the loss itself is asked for
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten()).exp()
    #! the logits of one word meet the target of another, because the first two axes are exchanged
    # ~ return F.cross_entropy(logits.transpose(0, 1 if logits.ndim > 2 else 0).flatten(0, -2), targets.flatten())
    #! cross_entropy wants the classes on axis 1, so (B, T, V) is refused, or read wrongly; flatten
    #! it to (B · T, V)
    # ~ return F.cross_entropy(logits, targets)
    #! `collate` has shifted the targets already; yours are shifted once more, so the model learns
    #! the token after the next
    # ~ return F.cross_entropy(logits[:, :-1].flatten(0, -2), targets[:, 1:].flatten())
    #! no gradient reaches the model: the loss has to stay a tensor with its graph, because
    #! `backward` begins at it, so neither .item() nor detach() belongs here
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten()).detach()
    #! label smoothing makes another loss, which isn't in nats of the right token
    # ~ return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), label_smoothing=0.1)


def train_step(model, batch, optimizer, loss=batch_loss, max_grad_norm=1.0):
    model.train()
    #! the model has to be in training mode, because `evaluate` has left it in evaluation mode and
    #! then nothing is dropped: model.train()
    # ~
    #! that is evaluation mode, in which nothing is dropped: model.train()
    # ~ model.eval()
    optimizer.zero_grad()
    #! PyTorch adds gradients to those that are there, so those of earlier steps are part of yours:
    #! optimizer.zero_grad() before `backward`
    # ~
    value = loss(model, batch)
    #! the loss that it is given isn't used
    # ~ value = batch_loss(model, batch)
    value.backward()
    #! nothing is learned: first clear the gradients, then `backward`, which makes new ones, then
    #! clip them, then optimizer.step(), which uses them
    # ~ pass
    nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    #! gradients aren't clipped, or not between `backward` and the step, so one bad batch can throw
    #! the weights far off
    # ~ pass
    #! each number was clipped, which turns the gradient; shorten all of it together, so that it
    #! keeps its direction: clip_grad_norm_
    # ~ nn.utils.clip_grad_value_(model.parameters(), max_grad_norm)
    #! the norm is that of all gradients together; yours clips each weight matrix by itself, which
    #! turns the gradient
    # ~ for p in model.parameters():
    #|     nn.utils.clip_grad_norm_(p, max_grad_norm)
    #! max_grad_norm isn't used
    # ~ nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    #! gradients longer than max_grad_norm are shortened to it; yours are brought to that length
    #! even if they are shorter
    # ~ norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    #| for p in model.parameters():
    #|     if p.grad is not None:
    #|         p.grad.mul_(max_grad_norm / norm)
    optimizer.step()
    return value.detach()
    #! a tensor comes back, detached: .item() would wait for the GPU at each step, also where nobody
    #! looks at the loss
    # ~ return value.item()
    #! the loss keeps the whole graph in memory as long as somebody keeps the loss: value.detach()
    # ~ return value
    #! the loss comes back from before the step, where it costs nothing more; yours is measured again
    # ~ with torch.no_grad():
    #|     return loss(model, batch)
    #! the loss isn't returned
    # ~ pass
    #! gradients are cleared behind the step, so whatever is there when you begin is part of it;
    #! clear them before `backward`
    # ~6 value = loss(model, batch)
    #| value.backward()
    #| nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
    #| optimizer.step()
    #| optimizer.zero_grad()
    #| return value.detach()


@torch.no_grad()
#! gradients are recorded while it evaluates, which takes memory for nothing: @torch.no_grad()
# ~
def evaluate(model, batches):
    model.eval()
    #! the model is left in training mode, so dropout is part of the loss: model.eval()
    # ~ pass
    total, count = 0.0, 0
    for inputs, targets in batches:
        n = (targets != IGNORE).sum().item()
        #! a batch counts by its targets, but those of IGNORE don't count
        # ~ n = targets.numel()
        #! that is the mean of the batches' means; a batch counts by its targets, because otherwise
        #! a token of a small batch counts more
        # ~ n = 1
        #! batches are weighted by their texts; a batch counts by its targets
        # ~ n = len(targets)
        #! what doesn't count is IGNORE; class 0 counts like any other
        # ~ n = ((targets != IGNORE) & (targets != 0)).sum().item()
        #! targets are filled with IGNORE, not with 0, which may be a class
        # ~ n = (targets != 0).sum().item()
        total += n * batch_loss(model, (inputs, targets)).item()
        #! `batch_loss` gives a mean; multiply it by its number of targets before you add it
        # ~ total += batch_loss(model, (inputs, targets)).item()
        #! the losses have to be added up; yours keeps the last one alone
        # ~ total = n * batch_loss(model, (inputs, targets)).item()
        count += n
        #! the numbers of targets have to be added up; yours keeps the last one alone
        # ~ count = n
        #! after the first batch it returns: `return` belongs behind the loop
        # ~ return total / n
    return total / count
    #! that is the sum; divide it by the number of targets
    # ~ return total
    #! divide by the number of targets, not of batches
    # ~ return total / sum(1 for _ in batches)
    #! that is the perplexity, e to the loss; the mean loss in nats is asked for
    # ~ return math.exp(total / count)


def warmup_cosine(step, steps, warmup=0.05):  # a share of the highest learning rate
    if step >= steps:
        return 0.0
        #! after the last step the rate is 0; yours rises again, because a cosine does
        # ~2 pass
    rise = max(1, round(steps * warmup))
    #! a short training has no warm-up at all if it rounds to 0 steps; it has at least one
    # ~ rise = round(steps * warmup)
    #! the number of steps is rounded to the nearest, not down: round()
    # ~ rise = max(1, int(steps * warmup))
    #! the number of steps is rounded to the nearest, not up: round()
    # ~ rise = max(1, math.ceil(steps * warmup))
    #! the warm-up is a whole number of steps, so round steps * warmup
    # ~ rise = max(1, steps * warmup)
    #! warmup isn't used: yours always takes a twentieth of the steps
    # ~ rise = max(1, round(steps * 0.05))
    if step < rise:
        return min(1.0, (step + 1) / rise)
        #! the first step, number 0, would have a rate of 0 and be lost: (step + 1) / rise
        # ~ return step / rise
        #! the highest rate is reached at the end of the warm-up: divide by rise, not by rise + 1
        # ~ return (step + 1) / (rise + 1)
        #! there is no warm-up: it begins at the highest rate
        # ~ return 1.0
        #! it rises from near 0 to 1: divide by the steps of the warm-up, not by all steps
        # ~ return (step + 1) / steps
        #! in the warm-up it rises; yours falls
        # ~ return 1 - step / rise
    return 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))
    #! it falls as half a cosine, slowly at first and at the end; yours falls in a line
    # ~ return 1 - (step - rise) / (steps - rise)
    #! the cosine begins where the warm-up ends; yours begins at step 0, so the rate jumps
    # ~ return 0.5 * (1 + math.cos(math.pi * step / steps))
    #! the cosine begins where the warm-up ends and has steps - rise steps left; yours takes as many
    #! as the whole training, so it doesn't reach 0
    # ~ return 0.5 * (1 + math.cos(math.pi * (step - rise) / steps))
    #! the cosine counts its steps from the end of the warm-up: step - rise
    # ~ return 0.5 * (1 + math.cos(math.pi * step / (steps - rise)))
    #! cos runs from 1 to -1, so 1 + cos begins at 2; take half of it
    # ~ return 1 + math.cos(math.pi * (step - rise) / (steps - rise))
    #! a cosine falls below 0; add 1 and take half
    # ~ return math.cos(math.pi * (step - rise) / (steps - rise))
    #! a quarter of a cosine falls fastest at the end; half of one, from 1 to -1, is slow at both
    #! ends
    # ~ return math.cos(0.5 * math.pi * (step - rise) / (steps - rise))
    #! after the warm-up it stays at its highest; it falls, because smaller steps get closer to the
    #! minimum
    # ~ return 1.0
    #! it falls to 0, not to a tenth
    # ~ return 0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))
    #! after the warm-up comes the highest rate, at step `rise`; yours has taken a step down already
    # ~ return 0.5 * (1 + math.cos(math.pi * (step + 1 - rise) / (steps - rise)))
    #! after the last step the rate is 0, and the cosine has steps - rise steps; yours falls to 0
    #! one step too early
    # ~ return 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, steps - 1 - rise)))
    #! that is cos² of what is left, which rises; it begins at 1 and falls to 0
    # ~ return 0.5 * (1 - math.cos(math.pi * (step - rise) / (steps - rise)))
    #! math.cos takes an angle in radians, in which half a turn is π, not 180
    # ~ return 0.5 * (1 + math.cos(180 * (step - rise) / (steps - rise)))
    #! the share is asked for, between 0 and 1; `fit` multiplies it by the highest rate
    # ~3 if step < rise:
    #|     return 3e-3 * (step + 1) / rise
    #| return 3e-3 * 0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise)))


def fit(
    model, train, valid=None, epochs=10, lr=3e-3, weight_decay=0.1
):  # batches, as of a DataLoader
    optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=weight_decay)
    #! that is Adam, which mixes the decay into its averages of gradients; AdamW takes it from the
    #! weights themselves
    # ~ optimizer = torch.optim.Adam(model.parameters(), lr, (0.9, 0.95), weight_decay=weight_decay)
    #! that is plain gradient descent; AdamW gives each weight a step of its own
    # ~ optimizer = torch.optim.SGD(model.parameters(), lr, weight_decay=weight_decay)
    #! weight_decay isn't passed on, so PyTorch takes its own, 0.01
    # ~ optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95))
    #! weight_decay isn't used
    # ~ optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=0.1)
    #! the weights do not decay
    # ~ optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=0.0)
    #! the betas are (0.9, 0.95); PyTorch's own second one, 0.999, remembers some thousand steps,
    #! which is too long for a short training
    # ~ optimizer = torch.optim.AdamW(model.parameters(), lr, weight_decay=weight_decay)
    #! neither betas nor weight_decay are passed on, so PyTorch takes its own, (0.9, 0.999) and 0.01
    # ~ optimizer = torch.optim.AdamW(model.parameters(), lr)
    #! that is Adam with PyTorch's own betas and no decay; take AdamW with betas (0.9, 0.95) and
    #! weight_decay
    # ~ optimizer = torch.optim.Adam(model.parameters(), lr)
    #! here all weights decay; yours leaves out biases and norms, as GPT-2 does
    # ~ groups = [dict(params=[p for p in model.parameters() if p.ndim > 1], weight_decay=weight_decay)]
    #| groups.append(dict(params=[p for p in model.parameters() if p.ndim < 2], weight_decay=0.0))
    #| optimizer = torch.optim.AdamW(groups, lr, (0.9, 0.95))
    history = {"train": [], "valid": []}  # nats, after each epoch
    best, kept, step = math.inf, None, 0
    for _ in range(epochs):
        total, count = 0.0, 0
        #! the step begins at 0 again in each epoch, so the rate is that of the first epoch each
        #! time
        # ~ total, count, step = 0.0, 0, 0
        #! the optimizer is made anew in each epoch, so it forgets its averages; make it once
        # ~ total, count = 0.0, 0
        #| optimizer = torch.optim.AdamW(model.parameters(), lr, (0.9, 0.95), weight_decay=weight_decay)
        for batch in train:
            for group in optimizer.param_groups:
                group["lr"] = lr * warmup_cosine(step, epochs * len(train))
                #! the rate stays the same from the first step to the last; before each step it is
                #! lr * warmup_cosine(step, steps)
                # ~ pass
                #! the rate is set after the step, so the first step has the highest one, and each other
                #! that of the step before it
                # ~2
                # ~ step += 1 -> step += 1; [group.update(lr=lr * warmup_cosine(step - 1, epochs * len(train))) for group in optimizer.param_groups]
                #! warmup_cosine gives a share; multiply it by lr
                # ~ group["lr"] = warmup_cosine(step, epochs * len(train))
                #! the rate is multiplied by the last one, so it vanishes; begin at lr each time
                # ~ group["lr"] *= warmup_cosine(step, epochs * len(train))
                #! the number of steps is that of all epochs; with that of one epoch the rate is 0
                #! from the second on
                # ~ group["lr"] = lr * warmup_cosine(step, len(train))
                #! the rate changes with each step; yours changes with each epoch
                # ~ group["lr"] = lr * warmup_cosine(len(history["train"]), epochs)
                #! the first step is number 0; yours begins with 1
                # ~ group["lr"] = lr * warmup_cosine(step + 1, epochs * len(train))
                #! the rate only falls; it has to rise first, since AdamW's first averages are of a
                #! few gradients
                # ~ group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / (epochs * len(train))))
                #! the rate never falls: after the warm-up it stays at its highest
                # ~ group["lr"] = lr * min(1.0, (step + 1) / max(1, round(0.05 * epochs * len(train))))
            n = (batch[1] != IGNORE).sum().item()
            #! that is the mean of the batches' means; a batch counts by its targets
            # ~ n = 1
            #! a batch counts by its targets, but those of IGNORE don't count
            # ~ n = batch[1].numel()
            #! batches are weighted by their texts; a batch counts by its targets
            # ~ n = len(batch[1])
            #! what doesn't count is IGNORE; a target of 0 counts like any other
            # ~ n = (batch[1] > 0).sum().item()
            total += n * train_step(model, batch, optimizer).item()
            #! the training loss is the mean over the epoch; yours is that of its last batch
            # ~ total, count = n * train_step(model, batch, optimizer).item(), 0
            #! `train_step` gives a mean; multiply it by its number of targets before you add it
            # ~ total += train_step(model, batch, optimizer).item()
            #! `train_step` is called twice for each batch
            # ~ train_step(model, batch, optimizer)
            #| total += n * train_step(model, batch, optimizer).item()
            count += n
            step += 1
            #! the steps aren't counted, so the rate stays that of the first
            # ~ pass
        history["train"].append(total / count)
        #! the training loss is the mean over the steps of an epoch, which costs nothing more; yours
        #! is measured again at its end
        # ~ history["train"].append(evaluate(model, train))
        #! the training loss of an epoch isn't noted
        # ~ pass
        if valid is not None:
            loss = evaluate(model, valid)
            #! the best weights are those that do best on `valid`; the training data say nothing
            #! about new texts
            # ~ loss = evaluate(model, train)
            history["valid"].append(loss)
            #! the loss on `valid` isn't noted
            # ~ pass
            if loss < best:
                #! the lowest loss is the best; yours keeps the worst weights
                # ~ if loss > best or best == math.inf:
                #! of two epochs that do equally well the first is kept
                # ~ if loss <= best:
                best = loss
                kept = {name: t.clone() for name, t in model.state_dict().items()}
    if kept is not None:
        model.load_state_dict(kept)  # the weights that did best on `valid`
        #! at the end the model has its last weights and not those that did best on `valid`; keep
        #! copies of them where the loss is lower than all before, because state_dict() holds the
        #! model's own tensors, which go on changing, and load them at the end
        # ~ pass
    model.eval()
    #! the model is left in training mode, so whoever uses it next has dropout in the answers:
    #! model.eval()
    # ~ pass
    return history
    #! the history is returned, {"train": [...], "valid": [...]}, not the best loss alone
    # ~ return best
    #! the history is returned, {"train": [...], "valid": [...]}; yours returns nothing
    # ~ pass
    #! the history is returned, {"train": [...], "valid": [...]}; the model itself has been trained
    #! in place
    # ~ return model
    #! the history is returned as a dictionary, {"train": [...], "valid": [...]}
    # ~ return history["train"], history["valid"]


# ---------------------------------------------------------------- exercises


@exercise("08.1")
def my_train(model, batches, optimizer):
    # ? for batch in batches: what does batch_loss need?
    # ? loss = batch_loss(model, batch); then zero_grad and backward, in this order.
    # ? optimizer.zero_grad(); loss.backward(); optimizer.step(); losses.append(loss.item())
    losses = []
    for batch in batches:
        loss = batch_loss(model, batch)
        #! cross_entropy takes logits, because it does the softmax itself; yours is done twice
        # ~ loss = F.cross_entropy(model(batch[0]).flatten(0, 1).softmax(-1), batch[1].flatten())
        #! positions with IGNORE are counted in the mean; only those that have a target count
        # ~ loss = batch_loss(model, batch) * (batch[1] != IGNORE).sum() / batch[1].numel()
        #! `reshape` to (B, V, T) mixes positions with tokens; `logits.mT` exchanges the axes
        # ~ logits = model(batch[0])
        # | B, T, V = logits.shape
        # | loss = F.cross_entropy(logits.reshape(B, V, T), batch[1])
        optimizer.zero_grad()
        #! old gradients are added to the new ones; clear them in each step
        # ~
        loss.backward()
        #! there is no gradient at the step, so the weights did not move; call `loss.backward()`
        # ~
        #! `zero_grad` comes between `backward` and the step and throws the gradient away, so the
        #! step moves nothing; the order is `zero_grad`, `backward`, `step`
        # ~2 loss.backward()
        # | optimizer.zero_grad()
        optimizer.step()
        #! no step was taken, so the weights did not move; call `optimizer.step()`
        # ~
        #! the step came before its gradient; call backward first
        # ~2 optimizer.step()
        # | loss.backward()
        losses.append(loss.item())
        #! each loss still holds its graph, and so all of a batch's memory; keep loss.item()
        # ~ losses.append(loss)
        #! those are the losses after each step; keep the loss that gave the gradient
        # ~ losses.append(batch_loss(model, batch).item())
        #! those are sums over all batches so far; keep each batch's own loss
        # ~ losses.append(loss.item() + (losses[-1] if losses else 0))
        #! the loop ended after its first batch; `return losses` belongs behind the loop
        # ~0 return losses
    return losses
    #! one loss came back; append each batch's loss to a list
    # ~ return losses[-1]
    #! that is the mean of the losses; return a list with each batch's own
    # ~ return sum(losses) / len(losses)
    #! one step was taken for all batches; each batch needs its own, in the loop
    # ~ optimizer.step(None)
    # | return losses
    # ~ optimizer.zero_grad() -> pass
    # ~ optimizer.step() -> pass


@exercise(
    "08.2",
    parts=(
        "the steps: each batch is one step, whatever it is cut into; count the batches of an epoch, "
        "the last and smaller one included, and the epochs",
        "the evaluations: one after every 20 steps, one at the end, and no others",
        "the calls: each batch goes through the model in 4 parts; evaluations are on other rows",
    ),
)
def steps_evaluations_calls():
    # ? How many batches has an epoch, the last one included? And what is a step: a batch, or one of the parts it is cut into?
    # ? `eval_every` counts steps. Does a run end without an evaluation?
    # ? 16 batches an epoch. The model is called once for each part.
    return 48, 3, 192
    #! the last batch of an epoch holds 40 rows, and is a batch: 16 of them
    # ~ return 45, 3, 180
    #! `gradient_accumulation_steps` cuts each batch into parts and makes one step of them; it does
    #! not join batches
    # ~ return 12, 1, 48
    #! a step is made for each batch, not for each of its parts
    # ~ return 192, 10, 192
    #! a run ends with an evaluation, whatever its last step is
    # ~ return 48, 2, 192
    #! with `eval_every` there is no further evaluation at the end of each epoch
    # ~ return 48, 5, 192
    #! each batch goes through the model in 4 parts
    # ~ return 48, 3, 48


@exercise("08.3")
def expected_best(p, n_rows, n_models):
    # ? The best of m models has at most k rows right just when each of them has.
    # ? So P(best ≤ k) = F(k)ᵐ. For a whole number of 0 or more, the expectation is Σ P(best > k) over k = 0, 1, 2, ….
    # ? The share is Σ (1 - F(k)ᵐ) / N for k from 0 to N - 1. F(k) is the sum of the binomial probabilities up to k: `math.comb` or `math.lgamma`.
    up_to, total = 0.0, 0.0
    for k in range(n_rows):
        ways = math.lgamma(n_rows + 1) - math.lgamma(k + 1) - math.lgamma(n_rows - k + 1)
        up_to += math.exp(ways + k * math.log(p) + (n_rows - k) * math.log(1 - p))
        total += 1 - min(up_to, 1.0) ** n_models
        #! that is the expected score of the one that looks worst: all above k, in place of not all
        #! up to k
        # ~ total += (1 - min(up_to, 1.0)) ** n_models
        #! 1 - F(k) is the probability of more than k; the best has at most k if all have, F(k)ᵐ
        # ~ total += 1 - (1 - min(up_to, 1.0)) ** n_models
        #! the sum begins at k = 0 and ends at N - 1; yours leaves out k = 0
        # ~ total += (k > 0) * (1 - min(up_to, 1.0) ** n_models)
        #! that sums P(best ≤ k); the expectation is the sum of P(best > k)
        # ~ total += min(up_to, 1.0) ** n_models
        #! F(k)ᵐ is the probability of at most k; weigh k by P(best = k), which is F(k)ᵐ - F(k - 1)ᵐ
        # ~ total += k * min(up_to, 1.0) ** n_models
        # ~ range(n_rows) -> range(n_rows + 1)
        #! F(k) counts at most k rows; yours counts fewer than k
        # ~2 total += 1 - min(up_to, 1.0) ** n_models
        # | up_to += math.exp(ways + k * math.log(p) + (n_rows - k) * math.log(1 - p))
        #! several models may be best together; m · P(k) · F(k)ᵐ⁻¹ counts each of them
        # ~2 exactly = math.exp(ways + k * math.log(p) + (n_rows - k) * math.log(1 - p))
        # | up_to += exactly
        # | total += k * n_models * exactly * min(up_to, 1.0) ** (n_models - 1)
        # ~ range(n_rows) -> range(n_rows + 1)
        #! all m models have exactly k in yours; the best has at most k if all have
        # ~2 exactly = math.exp(ways + k * math.log(p) + (n_rows - k) * math.log(1 - p))
        # | total += k * exactly**n_models
        # ~ range(n_rows) -> range(n_rows + 1)
    return total / n_rows
    #! that is the number of rows; divide by N to get a share
    # ~ return total
    #! that is the score of any one of them, not of the one that looks best
    # ~ return p
    #! that is the probability that one of the models is right on a row; they are judged on all rows
    # ~ return 1 - (1 - p) ** n_models
    #! that rests on the normal distribution and on the mean of the largest of m draws; the sum over
    #! F is exact
    # ~ return p + math.sqrt(p * (1 - p) / n_rows) * math.sqrt(2 * math.log(n_models))


@exercise("08.4")
def exact_by_length(model, batches):
    # ? Which part of `exact_match` is about a row, before anything is summed?
    # ? `counts = targets != IGNORE` (B, T); a row has `counts.sum(-1)` targets, and is right where `(good | ~counts).all(-1)`.
    # ? Collect the lengths and the rights of all batches, and average the rights of each length at the end: lengths are spread over several batches. A row without a target may be left out.
    lengths, rights = [], []
    model.eval()
    #! the model may come in training mode, in which dropout spoils its guesses: model.eval()
    # ~ pass
    with torch.no_grad():
        for inputs, targets in batches:
            counts = targets != IGNORE  # (B, T)
            good = model(inputs).argmax(-1) == targets  # (B, T)
            right = (good | ~counts).all(-1)  # (B,)
            #! these are shares of targets; a row is right only where all of its targets are
            # ~ right = (good & counts).sum(-1) / counts.sum(-1).clamp(min=1)
            #! a place with IGNORE cannot be right: a row is right where all that count are
            # ~ right = good.all(-1)
            #! a row is right where all of its targets are, not any of them
            # ~ right = (good & counts).any(-1)
            #! these are the shares of rows that are wrong
            # ~ right = ~(good | ~counts).all(-1)
            lengths += counts.sum(-1).tolist()
            #! you counted the places with IGNORE; count the targets
            # ~ lengths += (~counts).sum(-1).tolist()
            #! the length of a row is its number of targets, not its number of places
            # ~ lengths += [counts.shape[1]] * len(counts)
            #! a tensor is a key of its own each time; take its number, `.item()`
            # ~ lengths += list(counts.sum(-1))
            rights += right.tolist()
            #! only the last batch counts in yours; collect over all batches, then divide
            # ~2 lengths = counts.sum(-1).tolist()
            # | rights = right.tolist()
            #! of each length only the last batch with such rows counts in yours; collect over all
            #! batches, then divide
            # ~2 n = counts.sum(-1)
            # | for m in n.unique().tolist():
            # |     while m in lengths:
            # |         rights.pop(lengths.index(m))
            # |         lengths.remove(m)
            # | lengths += n.tolist()
            # | rights += right.tolist()
            #! an average of the batches' shares gives rows in small batches more weight: collect
            #! over all batches, then divide
            # ~2 n = counts.sum(-1)
            # | for m in n.unique().tolist():
            # |     lengths.append(m)
            # |     rights.append(right[n == m].float().mean().item())
    rows = list(zip(lengths, rights))
    there = sorted(set(lengths) - {0})  # a row without a target has nothing to be right
    return {n: sum(r for m, r in rows if m == n) / lengths.count(n) for n in there}
    #! these are numbers of rows; divide each by the rows of that length
    # ~ return {n: sum(r for m, r in rows if m == n) for n in there}
    #! divide by the rows of that length, not by all rows
    # ~ return {n: sum(r for m, r in rows if m == n) / len(rows) for n in there}


# ---------------------------------------------------------------- questions


class Table(nn.Module):
    "A table of logits, which notes how it is run, and gives more in training mode than otherwise."

    V = 9

    def __init__(self, draw, scale=1.0):
        super().__init__()
        self.table = nn.Parameter(draw.numbers(self.V, self.V, scale=scale))
        self.shift = nn.Parameter(draw.numbers(self.V, scale=scale))
        self.seen = []  # (training mode, whether gradients are recorded)
        self.before = []  # gradients that an optimizer finds when it is made

    def forward(self, tokens):
        self.seen.append((self.training, torch.is_grad_enabled()))
        return (self.table[tokens] + self.shift) * (1.25 if self.training else 1.0)


class Rolled(Table):
    "Another guess in training mode."

    def forward(self, tokens):
        logits = super().forward(tokens)
        return logits.roll(1, dims=-1) if self.training else logits


class OfTexts(Table):
    "Logits for a text, (B, V)."

    def forward(self, tokens):
        return super().forward(tokens).mean(dim=1)


class OfTwo(Table):
    "Logits for a text that is read with another one."

    def forward(self, src, tgt):
        return super().forward(tgt) + 0.5 * self.table[src].mean(dim=1, keepdim=True)


class Partly(Table):
    "A model with a weight that the loss doesn't reach, and one that doesn't learn."

    def __init__(self, draw):
        super().__init__(draw)
        self.more = nn.Parameter(torch.ones(3))
        self.still = nn.Parameter(torch.ones(3), requires_grad=False)


def a_batch(draw, B, T, low=0):
    "A batch with targets of different lengths, IGNORE behind them, at least one in each text."
    targets = draw.tokens(B, T, low=low, high=Table.V)
    for row, n in zip(targets, draw.tokens(B, low=1, high=T + 1).tolist()):
        row[n:] = IGNORE
    return draw.tokens(B, T, low=low, high=Table.V), targets


def a_pair(draw, B, T):
    "A batch of a translator: two texts, and targets."
    inputs, targets = a_batch(draw, B, T)
    return (draw.tokens(B, 3, high=Table.V), inputs), targets


def of_texts(draw, B):
    "A batch of a classifier; class 0 is one like any other."
    return draw.tokens(B, 4, high=Table.V), draw.tokens(B, low=0, high=Table.V)


def weights_of(model):
    return [p.detach().clone() for p in model.parameters()]


def mean_square(model, batch):
    "Another loss."
    return model(batch[0]).square().mean()


def hundredfold(model, batch):
    "A loss with large gradients."
    return 100 * batch_loss(model, batch)


@question("08", "batch_loss")
def ask_batch_loss(draw):
    def look(given, args, loss):
        model, (inputs, targets) = args
        learns = isinstance(loss, torch.Tensor) and loss.requires_grad
        found = {"the mode that the model runs in": [training for training, _ in model.seen]}
        found["a gradient reaches the model"] = learns
        if learns and not loss.ndim:
            found["the gradients"] = list(torch.autograd.grad(loss, list(model.parameters())))
        return found | {"the targets afterwards": targets}

    def call(what, model, batch):
        return Call(what, (model, batch), look=look, slopes=False)

    batch = a_batch(draw, 3, 5)
    yield call("a batch", Table(draw).eval(), batch)
    yield call("a batch, in training mode", Table(draw).train(), batch)
    yield call("logits of a hundred", Table(draw, 100.0).eval(), a_batch(draw, 3, 5))
    yield call("one text", Table(draw).eval(), a_batch(draw, 1, 4))
    yield call("one token", Table(draw).eval(), a_batch(draw, 1, 1))
    yield call("a model of two inputs", OfTwo(draw).eval(), a_pair(draw, 3, 5))
    yield call("a classifier", OfTexts(draw).eval(), of_texts(draw, 6))
    yield call(
        "class 0", OfTexts(draw).eval(), (draw.tokens(4, 3, high=9), torch.tensor([0, 3, 0, 1]))
    )
    without = draw.tokens(2, 4, high=9), draw.tokens(2, 4, high=9)
    yield call("no target is ignored", Table(draw).eval(), without)
    few = torch.full((3, 9), IGNORE)
    few[0], few[1, 0], few[2, :2] = 5, 4, 3
    yield call("texts of different lengths", Table(draw).eval(), (draw.tokens(3, 9, high=9), few))
    yield call("float64", Table(draw).double().eval(), a_batch(draw, 2, 5))
    yield call("int32 tokens", Table(draw).eval(), (batch[0].int(), batch[1]))
    for _ in draw.rounds:
        B, T = draw.size(1, 5), draw.size(1, 7)
        yield call(f"a batch of chance, ({B}, {T})", Table(draw).eval(), a_batch(draw, B, T))


class Descent(torch.optim.SGD):
    "Gradient descent, whose copy belongs to the copy of its model."

    def __init__(self, model, lr=0.5):
        super().__init__(model.parameters(), lr)
        self.model, self.lr = model, lr
        for p, slope in zip(model.parameters(), model.before):
            p.grad = slope.clone()

    def __deepcopy__(self, memo):
        return type(self)(copy.deepcopy(self.model, memo), self.lr)


@question("08", "train_step")
def ask_train_step(draw):
    def call(what, model, batch, more=(), **options):
        def look(given, args, loss):
            found = {
                "the weights after the step": weights_of(args[0]),
                "the mode that the model runs in": [training for training, _ in args[0].seen],
                "the loss keeps its graph": getattr(loss, "requires_grad", False),
            }
            if not options:
                given(*args)
                found["the weights after a second step"] = weights_of(args[0])
            return found

        given = (model, batch, Descent(model), *more)
        return Call(what, given, options, look=look, slopes=False)

    yield call("a step", Table(draw).eval(), a_batch(draw, 3, 5))
    yield call("in training mode before", Table(draw).train(), a_batch(draw, 3, 5))
    stale = Table(draw)
    stale.before = [draw.numbers(*p.shape) for p in stale.parameters()]
    yield call("gradients of something else are there", stale, a_batch(draw, 3, 5))
    large = a_batch(draw, 3, 5)
    yield call("large gradients", Table(draw), large, loss=hundredfold)
    yield call("large gradients, two steps", Table(draw), large, (hundredfold,))
    options = dict(loss=hundredfold, max_grad_norm=7.0)
    yield call("large gradients, max_grad_norm=7", Table(draw), large, **options)
    yield call("max_grad_norm=0.01", Table(draw), a_batch(draw, 3, 5), max_grad_norm=0.01)
    yield call("max_grad_norm=inf", Table(draw), large, (hundredfold, math.inf))
    yield call("another loss", Table(draw), a_batch(draw, 3, 5), loss=mean_square)
    yield call("a model of two inputs", OfTwo(draw), a_pair(draw, 2, 4))
    yield call("a classifier", OfTexts(draw), of_texts(draw, 5))
    yield call("a weight that the loss doesn't reach", Partly(draw), a_batch(draw, 3, 5))
    for _ in draw.rounds:
        batch = a_batch(draw, draw.size(1, 5), draw.size(1, 7))
        more = [batch_loss, hundredfold][draw.size(0, 1)], 0.1 * draw.size(1, 20)
        yield call(f"a batch of chance, max_grad_norm={more[1]:.1f}", Table(draw), batch, more)


class Stream:
    "Batches of which nobody knows how many they are."

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        return iter(self.batches)


@question("08", "evaluate")
def ask_evaluate(draw):
    def look(given, args, result):
        training, recorded = zip(*args[0].seen)
        return {
            "the mode that the model runs in": list(training),
            "gradients are recorded": any(recorded),
            "gradients reach the weights": any(p.grad is not None for p in args[0].parameters()),
            "the weights": weights_of(args[0]),
            "gradients are recorded afterwards": torch.is_grad_enabled(),
        }

    def call(what, model, batches):
        return Call(what, (model.train(), batches), look=look, slopes=False)

    some = [a_batch(draw, 3, 5), a_batch(draw, 1, 2), a_batch(draw, 4, 9)]
    yield call("three batches", Table(draw), some)
    yield call("one batch", Table(draw), some[:1])
    yield call("a stream of batches", Table(draw), Stream(some))
    yield call("logits of a hundred", Table(draw, 100.0), some)
    yield call("a model of two inputs", OfTwo(draw), [a_pair(draw, 3, 5), a_pair(draw, 1, 2)])
    yield call("a classifier", OfTexts(draw), [of_texts(draw, 6), of_texts(draw, 2)])
    zeros = [(draw.tokens(4, 3, high=9), torch.tensor(row)) for row in ([0, 3, 0, 1], [2, 0, 5, 6])]
    yield call("class 0", OfTexts(draw), zeros)
    for _ in draw.rounds:
        n = draw.size(1, 4)
        some = [a_batch(draw, draw.size(1, 4), draw.size(1, 7)) for _ in range(n)]
        yield call(f"{n} batches of chance", Table(draw), some)


@question("08", "warmup_cosine")
def ask_warmup_cosine(draw):
    fixed = [(0, 100), (3, 100), (4, 100), (5, 100), (6, 100), (60, 100), (98, 100), (99, 100)]
    fixed += [(100, 100), (101, 100), (190, 100), (0, 7), (1, 7), (6, 7), (7, 7), (0, 1), (1, 1)]
    fixed += [(0, 0), (3, 0), (0, 2), (1, 2), (0, 10_000), (499, 10_000), (500, 10_000)]
    for step, steps in fixed:
        yield Call(f"step {step} of {steps}", (step, steps))
    for step, steps, warmup in [(0, 9, 0.0), (1, 9, 0.0), (4, 9, 1.0), (8, 9, 1.0), (9, 9, 1.0)]:
        yield Call(f"step {step} of {steps}, warmup={warmup:g}", (step, steps, warmup))
    for _ in range(8 * len(draw.rounds)):
        steps, warmup = draw.size(1, 300), draw.size(1, 60) / 100
        step = draw.size(0, steps - 1)
        yield Call(f"step {step} of {steps}", (step, steps))
        yield Call(f"step {step} of {steps}, warmup={warmup:g}", (step, steps), dict(warmup=warmup))
        first = draw.size(0, round(steps * warmup))
        yield Call(f"step {first} of {steps}, warmup={warmup:g}", (first, steps, warmup))


class Batches:
    "Batches in another order each time, as of a DataLoader that shuffles, in a known order."

    def __init__(self, batches):
        self.batches, self.times = batches, 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        self.times += 1
        return iter(self.batches[self.times :] + self.batches[: self.times])


@question("08", "fit")
def ask_fit(draw):
    def look(given, args, history):
        model, train = args[:2]
        return {
            "how often the training batches are gone through": train.times,
            "the model's mode at the end": model.training,
            "the modes that the model runs in": [training for training, _ in model.seen],
            "the weights at the end": weights_of(model),
        }

    def call(what, model, train, valid=None, *more, **options):
        given = (model, Batches(train), valid, *more)
        return Call(what, given, options, look=look, near=1e-4, slopes=False)

    def batches(n, T=4):
        return [a_batch(draw, draw.size(1, 4), draw.size(1, T)) for _ in range(n)]

    train, valid = batches(3), batches(2)
    yield call("without `valid`", Table(draw), train, None, 3)
    yield call("as it is called without more", Table(draw), train[:1])
    yield call("with `valid`", Table(draw), train, valid, 3, 0.05)
    yield call("a rate that is far too high", Table(draw), batches(2), batches(2), 6, 3.0)
    yield call("30 steps, so that the warm-up has 2", Table(draw), batches(6), valid, 5, 0.1)
    options = dict(epochs=3, lr=0.2, weight_decay=0.9)
    yield call("weight_decay=0.9", Table(draw), train, valid, **options)
    yield call("weight_decay=0", Table(draw), train, valid, 3, 0.2, 0.0)
    apart = [(torch.full((2, 3), 4), draw.tokens(2, 3, high=9)) for _ in range(2)]
    other = [(torch.full((2, 3), 5), draw.tokens(2, 3, high=9))]
    model = Still(draw)
    yield call("`valid` has only tokens that never come", model, apart, other, 3, 0.2, 0.0)
    yield call("no epochs", Table(draw), train, valid, 0)
    some = [a_pair(draw, 2, 3), a_pair(draw, 3, 5)]
    yield call("a model of two inputs", OfTwo(draw), some, some[:1], 2, 0.1)
    yield call("a classifier", OfTexts(draw), [of_texts(draw, 4), of_texts(draw, 2)], None, 2, 0.1)
    for _ in draw.rounds:
        lr = draw.size(1, 40) / 50
        more = draw.size(1, 3), lr, draw.size(0, 5) / 10
        yield call(f"batches of chance, lr={lr:g}", Table(draw), batches(4), batches(2), *more)


class Still(Table):
    "A model whose shift doesn't learn, so that what it says of a token changes only with that token."

    def __init__(self, draw):
        super().__init__(draw)
        self.shift.requires_grad_(False)


class Noting(Descent):
    "Gradient descent that notes its steps, and gradients that are cleared before a step uses them."

    def __init__(self, model, lr=0.5):
        super().__init__(model, lr)
        self.steps, self.wasted, self.used = 0, 0, []

    def slopes(self):
        return [p.grad.clone() for p in self.model.parameters() if p.grad is not None]

    def zero_grad(self, set_to_none=True):
        there = self.slopes()
        self.wasted += any(slope.any().item() for slope in there) and not same(there, self.used)
        super().zero_grad(set_to_none)

    def step(self, closure=None):
        loss = super().step(closure)
        self.steps, self.used = self.steps + 1, self.slopes()
        return loss


@question("08", "08.1")
def ask_my_train(draw):
    def look(given, args, losses):
        model, _, optimizer = args
        some = losses if isinstance(losses, (list, tuple)) else []
        return {
            "a loss keeps its graph": any(getattr(loss, "requires_grad", False) for loss in some),
            "the steps that are taken": optimizer.steps,
            "gradients that are cleared before a step has used them": optimizer.wasted,
            "the weights afterwards": weights_of(model),
        }

    def call(what, batches, scale=1.0):
        model = Table(draw, scale)
        return Call(what, (model, batches, Noting(model)), look=look)

    yield call("five batches", [a_batch(draw, 4, 7) for _ in range(5)])
    yield call("one batch", [a_batch(draw, 3, 5)])
    yield call("large logits", [a_batch(draw, 3, 5) for _ in range(3)], 10.0)
    yield call("token 0 is a target", [a_batch(draw, 5, 3, low=0) for _ in range(4)])
    for _ in draw.rounds:
        n = draw.size(2, 5)
        some = [a_batch(draw, draw.size(1, 4), draw.size(2, 6)) for _ in range(n)]
        yield call(f"{n} batches of chance", some)


@question("08", "08.3")
def ask_expected_best(draw):
    fixed = [(0.6, 4, 2), (0.83, 200, 10), (0.9, 100, 1), (0.5, 1, 3), (0.3, 2, 2), (0.02, 30, 5)]
    fixed += [(0.99, 50, 4), (0.5, 7, 100), (0.75, 3, 1)]
    for _ in draw.rounds:
        fixed.append((draw.size(5, 95) / 100, draw.size(2, 40), draw.size(2, 12)))
    for p, n_rows, n_models in fixed:
        yield Call(f"p = {p}, {n_rows} rows, {n_models} models", (p, n_rows, n_models))


def answered(draw, model, plan, T):
    "A batch of rows with n targets, of which those at the places `wrong` are not what a model says."
    inputs = draw.tokens(len(plan), T, high=Table.V)
    said = model(inputs).argmax(-1)
    targets = torch.full_like(inputs, IGNORE)
    for b, (n, *wrong) in enumerate(plan):
        begin = draw.size(0, T - n)
        targets[b, begin : begin + n] = said[b, begin : begin + n]
        for at in wrong:
            targets[b, begin + at] = (targets[b, begin + at] + 1) % Table.V
    return inputs, targets


def a_plan(draw):
    "Some rows of different lengths, one in two of them with mistakes."
    for _ in range(draw.size(1, 6)):
        n = draw.size(1, 4)
        yield (n, *[at for at in range(n) if draw.size(0, 3) == 0])


@question("08", "08.4")
def ask_exact_by_length(draw):
    def look(given, args, shares):
        if not isinstance(shares, dict):
            return {}
        if any(isinstance(n, torch.Tensor) for n in shares):
            return {"": "keys that are tensors"}
        return {"": {n: share for n, share in loosened(shares).items() if n != 0}}

    def call(what, *plans, T=8):
        model = Table(draw).eval()
        batches = [answered(draw, model, plan, T) for plan in plans]
        return Call(what, (model, Stream(batches)), look=look)

    some = [(2,), (3, 1), (5, 0), (2,)], [(2, 0), (5, 4), (3,)], [(0,), (5, 2), (2,)]
    yield call("three batches", *some)
    model = Rolled(draw).eval()
    batches = Stream([answered(draw, model, some[0], 8)])
    yield Call("a model in training mode", (model.train(), batches), look=look)
    yield call("one batch", some[0])
    yield call("one row, right", [(4,)])
    yield call("one row, wrong", [(4, 0, 1, 2, 3)])
    yield call("rows of 6 places, with 6 targets or 1", [(6,), (1,), (6, 3), (1, 0), (1,)], T=6)
    yield call("batches with one length each", [(2,), (2, 1), (2,)], [(3,)], [(2, 0)])
    for _ in draw.rounds:
        yield call("batches of chance", *[list(a_plan(draw)) for _ in range(3)], T=draw.size(5, 9))
