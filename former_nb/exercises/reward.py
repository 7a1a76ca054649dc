"A reward that can be checked: groups, advantages and the clipped objective."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise("reward.1")
def my_advantages(rewards):  # (P, G)
    # ? A row holds the rewards of one group.
    # ? Mean and standard deviation are taken along dim=1; `keepdim=True` makes them (P, 1).
    # ? Subtract the mean, and divide by the standard deviation plus 1e-4.
    mean = rewards.mean(dim=1, keepdim=True)
    #! a group is a row, and you went down the columns
    # ~ dim=1, keepdim=True -> dim=0
    #! mean and deviation are of all rewards; each group has its own
    # ~ (dim=1, keepdim=True) -> ()
    #! the mean of all rewards is subtracted; each group has a mean of its own
    # ~ mean = rewards.mean()
    #! the mean is not subtracted
    # ~ mean = 0
    std = rewards.std(dim=1, keepdim=True)
    #! you divided by the deviation of all rewards; each group has its own
    # ~ std = rewards.std()
    #! you divided by the variance; its root is asked for
    # ~ std = rewards.var(dim=1, keepdim=True)
    #! that is the deviation with `correction=0`; `torch.std` divides by G - 1
    # ~ std = rewards.std(dim=1, keepdim=True, correction=0)
    return (rewards - mean) / (std + 1e-4)
    #! you subtracted the mean and did not divide
    # ~ return rewards - mean
    #! in a group of equal rewards 0 is divided by 0; ε belongs in the denominator
    # ~ return (rewards - mean) / std
    #! ε is added to the quotient; it belongs in the denominator, so `std + 1e-4` needs brackets
    # ~ return (rewards - mean) / std + 1e-4
    #! 1e-4 is added to each deviation, whatever its size
    # ~ return (rewards - mean) / std.clamp(min=1e-4)
    #! ε is added to the deviation, outside the root
    # ~ return (rewards - mean) / (std**2 + 1e-4).sqrt()


@exercise(
    "reward.2",
    near=3.5e-3,  # 0.077 is as good as 0.07726, and 0.996 is not 0.9922
    parts=(
        "(a) is wrong; a group teaches nothing if all eight answers are wrong, or all are right",
        "(b) is wrong; a group teaches nothing if all eight answers are wrong, or all are right",
    ),
)
def groups_that_teach():
    # ? When are all advantages of a group 0?
    # ? All G answers are wrong with probability (1 - p)^G.
    # ? 1 - (1 - p)^G - p^G.
    a, b = (1 - (1 - p) ** 8 - p**8 for p in (0.01, 0.5))
    return a, b
    #! (a) is the share of groups that teach nothing
    # ~ return 1 - a, b
    #! (a): 8 · p counts a group with two right answers twice
    # ~ return 8 * 0.01, b
    #! (a) is the share with exactly one right answer; two or more teach something, too
    # ~ return 8 * 0.01 * 0.99**7, b
    #! (a) is the probability that one answer is right; a group has eight
    # ~ return 0.01, b
    #! (a): a group whose answers are all wrong teaches nothing
    # ~ return 1 - 0.01**8, b
    #! (b): a group whose answers are all right teaches nothing either
    # ~ return a, 1 - 0.5**8


@exercise("reward.3")
def clipped_loss(new, old, advantage, eps):  # (B, T), (B, T), (B, 1), a number
    # ? The ratio of two probabilities is the exponential of a difference of log-probabilities.
    # ? Multiply ratio and clipped ratio by the advantage first, and take the smaller product.
    # ? `clamp` clips, `torch.minimum` compares; the loss is the negative mean.
    ratio = (new - old).exp()
    #! the ratio is turned round; the probability now is above
    # ~ ratio = (old - new).exp()
    #! a difference of log-probabilities is the log of the ratio; take its exponential
    # ~ ratio = new - old
    #! you divided log-probabilities; the ratio is of probabilities
    # ~ ratio = new / old
    clipped = ratio.clamp(1 - eps, 1 + eps)
    #! the ratio is clipped above only; it is clipped below 1 - ε as well
    # ~ clipped = ratio.clamp(max=1 + eps)
    #! the ratio is clipped to between 1 - ε and 1 + ε, not between -ε and ε
    # ~ clipped = ratio.clamp(-eps, eps)
    return -torch.minimum(ratio * advantage, clipped * advantage).mean()
    #! a loss is lowered, so the objective needs a minus
    # ~ return torch.minimum(ratio * advantage, clipped * advantage).mean()
    #! that is the sum; the mean over all tokens is asked for
    # ~ return -torch.minimum(ratio * advantage, clipped * advantage).sum()
    #! you clipped without the minimum; take the smaller of the two products
    # ~ return -(clipped * advantage).mean()
    #! nothing is clipped
    # ~ return -(ratio * advantage).mean()
    #! you took the larger product; the smaller one is asked for
    # ~ return -torch.maximum(ratio * advantage, clipped * advantage).mean()
    #! the smaller ratio isn't the smaller product where the advantage is below 0; multiply first
    # ~ return -(torch.minimum(ratio, clipped) * advantage).mean()


# ---------------------------------------------------------------- questions


@question("reward", "reward.1")
def ask_my_advantages(draw):
    fixed = [
        ("three groups of four", [[0.0, 1, 0, 0], [1, 1, 1, 0.5], [0, 1, 1, 0]]),
        ("a group of equal rewards", [[0.0, 1, 0], [1, 1, 1], [0, 0, 0], [1, 0, 1]]),
        ("one group", [[0.0, 0, 1, 0, 1]]),
        ("groups of two", [[0.0, 1], [1, 1], [2, 0.5]]),
        ("small rewards", [[0.0, 0.0625, 0.0625, 0], [0.125, 0, 0.0625, 0]]),
        ("rewards of 10 and 11", [[10.0, 11, 10, 10, 10], [11, 11, 10, 11, 11]]),
    ]
    for what, rewards in fixed:
        yield Call(what, (torch.tensor(rewards),))
    for P, G in [(2, 5), (4, 3), (3, 7)]:
        rewards = draw.tokens(P, G, low=0, high=17) / 16
        yield Call(f"rewards ({P}, {G})", (rewards,))


@question("reward", "reward.3")
def ask_clipped_loss(draw):
    for B, T, eps, scale in [
        (2, 3, 0.2, 0.4),
        (3, 5, 0.1, 0.2),
        (1, 4, 0.3, 1.0),
        (4, 1, 0.2, 0.5),
    ]:
        old = -draw.numbers(B, T).abs() - 0.1
        new = (old + draw.numbers(B, T, scale=scale)).clamp(max=-1e-3)
        advantage = draw.numbers(B, 1)
        what = f"new ({B}, {T}), eps = {eps}"
        for sign, kind in ((1, "above"), (-1, "below")):
            given = (new, old, sign * advantage.abs(), eps)
            yield Call(f"{what}, advantages {kind} 0", given)
        yield Call(what, (new, old, advantage, eps))
        yield Call(f"{what}, drawn with the same weights", (old, old, advantage, eps))
