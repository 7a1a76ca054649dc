"""Judges of the exercises on the page 14_reward, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_each, exercise


@exercise(
    "reward.1",
    "A row holds the rewards of one group.",
    "Mean and standard deviation are taken along dim=1; `keepdim=True` makes them (P, 1).",
    "Subtract the mean, and divide by the standard deviation plus 1e-4.",
)
def judge_reward_1(answer):
    rewards = torch.tensor([[0.0, 1, 0, 0], [1, 1, 1, 0.5], [0, 0, 0, 0]])
    mean = rewards.mean(dim=1, keepdim=True)
    std = rewards.std(dim=1, keepdim=True)
    centred = rewards - mean
    right = centred / (std + 1e-4)
    column = rewards - rewards.mean(dim=0)
    return diagnose(
        answer(rewards.clone()),
        right,
        {
            "in a group of equal rewards 0 is divided by 0; eps belongs in the denominator": (
                centred / std
            ),
            "you divided by the variance; its root is asked for": centred / (std**2 + 1e-4),
            "you subtracted the mean and did not divide": centred,
            "the mean is not subtracted": rewards / (std + 1e-4),
            "the mean of all rewards is subtracted; each group has a mean of its own": (
                (rewards - rewards.mean()) / (std + 1e-4)
            ),
            "mean and deviation are of all rewards; each group has its own": (
                (rewards - rewards.mean()) / (rewards.std() + 1e-4)
            ),
            "you divided by the deviation of all rewards; each group has its own": (
                centred / (rewards.std() + 1e-4)
            ),
            "a group is a row, and you went down the columns": column / (rewards.std(dim=0) + 1e-4),
            "that is the deviation with `correction=0`; `torch.std` divides by G - 1": (
                centred / (rewards.std(dim=1, keepdim=True, correction=0) + 1e-4)
            ),
        },
    )


@exercise(
    "reward.2",
    "When are all advantages of a group 0?",
    "All G answers are wrong with probability (1 - p)^G.",
    "1 - (1 - p)^G - p^G.",
)
def judge_reward_2(answer):
    def share(p):
        return 1 - (1 - p) ** 8 - p**8

    nothing = "that is the share of groups that teach nothing"
    one = "that is the share with exactly one right answer; two or more teach something, too"
    first = {
        round(1 - share(0.01), 4): nothing,
        0.08: "8 · p counts a group with two right answers twice",
        round(8 * 0.01 * 0.99**7, 4): one,
        0.01: "that is the probability of an answer; a group has eight",
    }
    second = {
        round(1 - share(0.5), 4): nothing,
        round(1 - 0.5**8, 4): "a group whose answers are all right teaches nothing either",
        round(8 * 0.5**8, 4): one,
        0.5: "that is the probability of an answer; a group has eight",
    }
    return diagnose_each(answer, {"a": share(0.01), "b": share(0.5)}, [first, second], 6e-4)


@exercise(
    "reward.3",
    "The ratio of two probabilities is the exponential of a difference of log-probabilities.",
    "Multiply ratio and clipped ratio by the advantage first, and take the smaller product.",
    "`clamp` clips, `torch.minimum` compares; the loss is the negative mean.",
)
def judge_reward_3(answer):
    old = torch.tensor([[-1.0, -2, -0.5], [-1.5, -0.2, -3]])
    new = old + torch.tensor([[0.3, -0.4, 0.05], [0.5, -0.35, -0.1]])
    advantage = torch.tensor([[1.2], [-0.7]])
    eps = 0.2

    def loss(ratio):
        return -torch.minimum(ratio * advantage, ratio.clamp(1 - eps, 1 + eps) * advantage).mean()

    ratio = (new - old).exp()
    right = loss(ratio)
    clipped = ratio.clamp(1 - eps, 1 + eps) * advantage
    return diagnose(
        answer(new.clone(), old.clone(), advantage.clone(), eps),
        right,
        {
            "a loss is lowered, so the objective needs a minus": -right,
            "that is the sum; the mean over all tokens is asked for": right * old.numel(),
            "you clipped without the minimum": -clipped.mean(),
            "nothing is clipped": -(ratio * advantage).mean(),
            "you took the larger product; the smaller one is asked for": (
                -torch.maximum(ratio * advantage, clipped).mean()
            ),
            "the smaller ratio isn't the smaller product where the advantage is below 0": (
                -(ratio.clamp(max=1 + eps) * advantage).mean()
            ),
            "the ratio is turned round; the probability now is above": loss(1 / ratio),
            "a difference of log-probabilities is the log of the ratio": loss(new - old),
            "you divided log-probabilities; the ratio is of probabilities": loss(new / old),
        },
    )
