"""Judges of the exercises on the page 09_baselines, and the mistakes that they know."""

import torch

from ..base.exercises import diagnose, diagnose_each, exercise


@exercise(
    "playground.1",
    "Write down both means over all T positions, and take one from the other.",
    "What the padding adds is the same in both means, so it's gone from their difference.",
    "The difference is a sum over n tokens, divided by T. Without padding it's divided by n.",
)
def judge_playground_1(answer):
    "Two shares."
    return diagnose_each(
        answer,
        {"90 tokens in 360": 90 / 360, "40 tokens in 512": 40 / 512},
        [
            {
                4.0: "that is by how much the difference grows without the padding; it's asked "
                "what is left of it",
                0.75: "that is the share of the padding, and it is the same in both reviews",
                0.5: "a root belongs to random numbers that cancel; the padding is the same in "
                "both reviews and goes exactly",
                1 / 3: "that is tokens to padding; the mean divides by all positions",
                1.0: "the padding leaves the difference of the sums as it is, but a mean divides "
                "by more positions",
                90 / 512: "the first review is padded to 360",
            },
            {
                12.8: "that is by how much the difference grows without the padding; it's asked "
                "what is left of it",
                472 / 512: "that is the share of the padding, and it is the same in both reviews",
                (40 / 512) ** 0.5: "a root belongs to random numbers that cancel; the padding is "
                "the same in both reviews and goes exactly",
                40 / 472: "that is tokens to padding; the mean divides by all positions",
                1.0: "the padding leaves the difference of the sums as it is, but a mean divides "
                "by more positions",
                90 / 512: "the second review has 40 tokens",
            },
        ],
        tolerance=0.002,
    )


def _best_epoch(right, rows):
    "The epoch with the most right answers among some rows."
    return int(right[:, rows].double().mean(dim=1).argmax())


def _judged(right, chooses, judges):
    "How many of `judges` are right at the epoch that `chooses` chose."
    return right[_best_epoch(right, chooses), judges].double().sum()


@exercise(
    "playground.2",
    "One half is done on the page: `picked` chooses an epoch, and `~picked` judges it.",
    "Do the same with both halves exchanged. The two epochs may differ.",
    "Add up the right answers of both halves and divide by N, because the halves may differ in "
    "size.",
)
def judge_playground_2(answer):
    "A function of what was right and of who chooses."
    g = torch.Generator().manual_seed(952)  # no two mistakes give the same
    for epochs, N, n in ((6, 140, 50), (5, 130, 80)):
        skill = torch.linspace(0.6, 0.62, epochs)[:, None]
        right = torch.rand(epochs, N, generator=g) < skill  # (epochs, N)
        picked = torch.arange(N) < n
        others = ~picked
        both = picked | others
        there = _judged(right, picked, others)
        back = _judged(right, others, picked)
        problem = diagnose(
            answer(right.clone(), picked.clone()),
            (there + back) / N,
            {
                "each half is judged at the epoch that it chose itself; exchange them": (
                    (_judged(right, picked, picked) + _judged(right, others, others)) / N
                ),
                "the picked reviews have only chosen; let the others choose for them, too": (
                    there / (N - n)
                ),
                "the other reviews have only chosen; let the picked ones choose for them, too": (
                    back / n
                ),
                "the mean of two accuracies gives the smaller half more weight; add up the right "
                "answers and divide by N": (there / (N - n) + back / n) / 2,
                "that is the best epoch on all reviews, chosen and judged by the same": (
                    _judged(right, both, both) / N
                ),
                "both halves are judged at the epoch that the picked ones chose; they have no "
                "say in their own": _judged(right, picked, both) / N,
                "both halves are judged at the epoch that the others chose; they have no say in "
                "their own": _judged(right, others, both) / N,
                "that is the last epoch; nothing was chosen": right[-1].double().mean(),
                "that is the number of right answers; divide by N": there + back,
                "the mean over all epochs chooses nothing": right.double().mean(),
            },
        )
        if problem:
            return problem


def _per_class(right, answers, n_classes):
    "Texts of each class, and their precision, recall and F1, each (n_classes,); 0/0 is NaN."
    table = torch.zeros(n_classes, n_classes, dtype=torch.float64)  # a row per right class
    table.index_put_((right, answers), torch.ones(len(right), dtype=torch.float64), accumulate=True)
    hits = table.diagonal()
    texts = table.sum(dim=1)
    answered = table.sum(dim=0)
    return texts, torch.stack([hits / answered, hits / texts, 2 * hits / (texts + answered)])


@exercise(
    "playground.3",
    "First make three numbers for each class: its texts, its answers, and the right ones among "
    "them.",
    "Precision divides the right ones by the answers, recall by the texts, and F1 divides twice "
    "the right ones by the sum of both.",
    "Where a class has no answers, its precision counts as 0. The mean over the classes comes "
    "last, for F1, too.",
)
def judge_playground_3(answer):
    "Macro precision, recall and F1 of three classes, one of which is never answered."
    g = torch.Generator().manual_seed(3)
    right = torch.tensor([0] * 60 + [1] * 25 + [2] * 15)
    answers = torch.where(torch.rand(100, generator=g) < 0.6, right, 0)
    answers = torch.where(answers == 2, 1, answers)
    texts, raw = _per_class(right, answers, 3)  # (3,), (3, 3)
    scores = raw.nan_to_num(0.0)
    macro = scores.mean(dim=1)  # (3,)
    precision, recall, f1 = macro
    nan = raw[0].mean()  # 0/0
    accuracy = (right == answers).double().mean()
    of_means = 2 * precision * recall / (precision + recall)
    return diagnose(
        answer(right.clone(), answers.clone(), 3),
        macro,
        {
            "three times the accuracy: you added up right ones, texts and answers over all classes "
            "first (micro); take each class's scores, then their mean": torch.stack([accuracy] * 3),
            "that is weighted by how many texts a class has, so the large one decides; for macro "
            "each class counts the same": scores @ (texts / texts.sum()),
            "a class that is never answered gives 0/0; its precision counts as 0": (
                torch.stack([nan, recall, f1])
            ),
            "a class that is never answered gives 0/0; its precision and its F1 count as 0": (
                torch.stack([nan, recall, nan])
            ),
            "the class that is never answered is left out; it counts, with zeros": (
                scores[:, :2].mean(dim=1)
            ),
            "its precision is left out where a class is never answered; there it counts as 0": (
                raw.nanmean(dim=1)
            ),
            "your F1 is made of the two means; take each class's F1, then the mean": (
                torch.stack([precision, recall, of_means])
            ),
            "precision and recall are exchanged: precision divides by the answers, recall by the "
            "texts": macro[[1, 0, 2]],
            "that is the sum over the classes; take the mean": scores.sum(dim=1),
            "those are the scores of the largest class alone": scores[:, 0],
        },
        places=(
            "precision: of the answers with a class, the share that is right; then the mean over "
            "the classes",
            "recall: of the texts of a class, the share that is found; then the mean over the "
            "classes",
            "F1: twice the right ones, divided by texts and answers together, for each class; then "
            "the mean",
        ),
    )
