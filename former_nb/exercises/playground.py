"Baselines: what padding, choosing and rare classes do to a score."

import torch

from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "playground.1",
    parts=(
        "90 tokens in 360: the padding is gone from the difference, and what is left is a sum over 90 tokens divided by 360",
        "40 tokens in 512: the padding is gone from the difference, and what is left is a sum over 40 tokens divided by 512",
    ),
    near=0.025,  # two digits
)
def shares_that_padding_leaves():
    # ? Write down both means over all T positions, and take one from the other.
    # ? What the padding adds is the same in both means, so it's gone from their difference.
    # ? The difference is a sum over n tokens, divided by T. Without padding it's divided by n.
    return 90 / 360, 40 / 512
    #! that is by how much the difference grows without the padding; it's asked what is left of it
    # ~ return 360 / 90, 512 / 40
    #! that is the share of the padding, and it is the same in both reviews
    # ~ return 270 / 360, 472 / 512
    #! a root belongs to random numbers that cancel; the padding is the same in both reviews and goes
    #! exactly
    # ~ return (90 / 360) ** 0.5, (40 / 512) ** 0.5
    #! that is tokens to padding; the mean divides by all positions
    # ~ return 90 / 270, 40 / 472
    #! the padding leaves the difference of the sums as it is, but a mean divides by more positions
    # ~ return 1.0, 1.0
    #! those are percent; a share is at most 1
    # ~ return 100 * 90 / 360, 100 * 40 / 512
    #! the first review is padded to 360
    # ~ return 90 / 512, 40 / 512
    #! the second review has 40 tokens
    # ~ return 90 / 360, 90 / 512


@exercise("playground.2")
def cross_judged(right, picked):  # (epochs, N), (N,)
    # ? One half is done on the page: `picked` chooses an epoch, and `~picked` judges it.
    # ? Do the same with both halves exchanged. The two epochs may differ.
    # ? Add up the right answers of both halves and divide by N, because the halves may differ in
    # ? size.
    count = 0.0
    for chooses in (picked, ~picked):
        #! the picked reviews have only chosen; let the others choose for them, too
        # ~ for chooses in (picked,):
        # ~ count / right.shape[1] -> count / (~picked).sum()
        #! the other reviews have only chosen; let the picked ones choose for them, too
        # ~ for chooses in (~picked,):
        # ~ count / right.shape[1] -> count / picked.sum()
        epoch = right[:, chooses].double().mean(dim=1).argmax()
        #! both halves are judged at the epoch that the picked ones chose; they have no say in their
        #! own
        # ~ epoch = right[:, picked].double().mean(dim=1).argmax()
        #! both halves are judged at the epoch that the others chose; they have no say in their own
        # ~ epoch = right[:, ~picked].double().mean(dim=1).argmax()
        #! that is the best epoch on all reviews, chosen and judged by the same
        # ~ epoch = right.double().mean(dim=1).argmax()
        #! that is the last epoch; nothing was chosen
        # ~ epoch = -1
        count = count + right[epoch, ~chooses].double().sum()
        #! each half is judged at the epoch that it chose itself; exchange them
        # ~ count = count + right[epoch, chooses].double().sum()
    return count / right.shape[1]
    #! that is the number of right answers; divide by N
    # ~ return count
    #! the mean over all epochs chooses nothing
    # ~ return right.double().mean()
    #! the mean of two accuracies gives the smaller half more weight; add up the right answers and
    #! divide by N
    # ~ halves = []
    # | for chooses in (picked, ~picked):
    # |     epoch = right[:, chooses].double().mean(dim=1).argmax()
    # |     halves.append(right[epoch, ~chooses].double().mean())
    # | return torch.stack(halves).mean()


@exercise("playground.3")
def macro_scores(right, answers, n_classes):  # (N,), (N,) -> (3,)
    # ? First make three numbers for each class: its texts, its answers, and the right ones among
    # ? them.
    # ? Precision divides the right ones by the answers, recall by the texts, and F1 divides twice
    # ? the right ones by the sum of both.
    # ? Where a class has no answers, its precision counts as 0. The mean over the classes comes
    # ? last, for F1, too.
    rows = []
    for k in range(n_classes):
        #! the class that is never answered is left out; it counts, with zeros
        # ~ for k in answers.unique():
        #! those are the scores of the first class alone
        # ~ for k in range(1):
        hits = ((right == k) & (answers == k)).sum()
        n_texts = (right == k).sum()
        n_answers = (answers == k).sum()
        precision = hits / n_answers.clamp(min=1)
        #! a class that is never answered gives 0/0; its precision counts as 0
        # ~ precision = hits / n_answers
        #! a class that is never answered gives 0/0; its precision and its F1 count as 0
        # ~ precision = hits / n_answers
        # ~ f1 = 2 * hits / (n_texts + n_answers).clamp(min=1) -> f1 = 2 * precision * recall / (precision + recall)
        recall = hits / n_texts.clamp(min=1)
        f1 = 2 * hits / (n_texts + n_answers).clamp(min=1)
        #! without a right answer precision and recall are 0 and this F1 is 0/0; it counts as 0
        # ~ f1 = 2 * precision * recall / (precision + recall)
        rows.append(torch.stack([precision, recall, f1]))
        #! precision and recall are exchanged: precision divides by the answers, recall by the texts
        # ~ rows.append(torch.stack([recall, precision, f1]))
        #! its precision is left out where a class is never answered; there it counts as 0
        # ~ rows.append(torch.stack([hits / n_answers, recall, f1]))
        # ~ torch.stack(rows).mean(dim=0) -> torch.stack(rows).nanmean(dim=0)
    return torch.stack(rows).mean(dim=0)
    #! three times the accuracy: you added up right ones, texts and answers over all classes first
    #! (micro); take each class's scores, then their mean
    # ~ return (right == answers).double().mean().repeat(3)
    #! that is weighted by how many texts a class has, so the large one decides; for macro each class
    #! counts the same
    # ~ texts = torch.bincount(right, minlength=n_classes) / len(right)
    # | return texts @ torch.stack(rows)
    #! your F1 is made of the two means; take each class's F1, then the mean
    # ~ precision, recall, _ = torch.stack(rows).mean(dim=0)
    # | return torch.stack([precision, recall, 2 * precision * recall / (precision + recall)])
    #! that is the sum over the classes; take the mean
    # ~ return torch.stack(rows).sum(dim=0)


# ---------------------------------------------------------------- questions


def only_one_best(right, rows):
    "Whether one epoch has most right answers among some reviews."
    count = right[:, rows].sum(1)
    return int((count == count.max()).sum()) == 1


@question("playground", "playground.2")
def ask_cross_judged(draw):
    for epochs, N, n in [
        (6, 140, 50),
        (5, 130, 80),
        (3, 21, 8),
        (4, 50, 25),
        (1, 9, 4),
        (7, 60, 1),
    ]:
        while True:
            right = torch.rand(epochs, N, generator=draw.generator) < 0.6
            picked = torch.rand(N, generator=draw.generator).argsort() < n
            if n == 1:
                right[:, picked] = (torch.arange(epochs) == 2)[:, None]
            if only_one_best(right, picked) and only_one_best(right, ~picked):
                break
        yield Call(f"{epochs} epochs, {N} reviews of which {n} are picked", (right, picked))


@question("playground", "playground.3")
def ask_macro_scores(draw):
    right = torch.tensor([0] * 60 + [1] * 25 + [2] * 15)
    answers = torch.where(draw.mask(100), right, 0)
    yield Call("one class is never answered", (right, answers.where(answers != 2, 1), 3))
    never = answers.where(right != 2, 1)
    never[0] = 2
    yield Call("one class is answered, never rightly", (right, never, 3))
    answers[60] = 2
    yield Call("three classes", (right, answers, 3))
    for n_classes in (2, 5):
        right = torch.arange(40) % n_classes
        answers = torch.where(draw.mask(40), right, draw.tokens(40, low=0, high=n_classes))
        mixed = torch.randperm(40, generator=draw.generator)
        yield Call(f"{n_classes} classes", (right[mixed], answers[mixed], n_classes))
