"""Judges of the exercises on the page 08_long_runs, and the mistakes that they know."""

import math
import os
import tempfile
from pathlib import Path

import torch

from ..base.checkpoints import CHECKPOINT, read_checkpoint, write_checkpoint
from ..base.exercises import diagnose, exercise


@exercise(
    "checkpoints.1",
    "Where are the new files until the `with` block is over? And what "
    "happens then, one after the other?",
    "A killed process runs nothing more, no `finally` either. An error does run it.",
)
def judge_checkpoints_1(answer):
    "Four pairs: files that are new, folders that are left."
    right = torch.tensor([[0, 1], [1, 1], [3, 1], [0, 0]])
    problem = diagnose(
        answer,
        right,
        {
            "a killed process runs no `finally`: the temporary folder stays": [
                [0, 0],
                [1, 0],
                [3, 0],
                [0, 0],
            ],
            "the temporary folder is removed after the last rename; this "
            "process was killed before that": [[0, 1], [1, 1], [3, 0], [0, 0]],
            "an error is no kill: it runs the `finally`, which removes the temporary folder": [
                [0, 1],
                [1, 1],
                [3, 1],
                [0, 1],
            ],
            "new files appear when they are renamed, not when they are written": [
                [1, 1],
                [1, 1],
                [3, 1],
                [1, 0],
            ],
            "each file is whole or absent, not all of them together: "
            "there is one rename for each": [[0, 1], [0, 1], [3, 1], [0, 0]],
            "that is how many are old; count the new ones": [[3, 1], [2, 1], [0, 1], [3, 0]],
            "each pair is (new files, folders left), in this order": [
                [1, 0],
                [1, 1],
                [1, 3],
                [0, 0],
            ],
        },
    )
    if problem is None or not problem.startswith("the numbers differ"):
        return problem
    given = torch.as_tensor(answer)
    alone = {
        (1, 0, 0): "a killed process runs no `finally`",
        (1, 1, 1): "new files appear when they are renamed; here no rename was reached",
        (2, 3, 1): "each file has a rename of its own",
        (4, 1, 0): "the new files appear when they are renamed; the error comes before",
        (4, 1, 1): "the new files appear when they are renamed, and an error runs the `finally`",
    }
    odd = [n for n in range(1, 5) if not given[n - 1].equal(right[n - 1].to(given.dtype))]
    reasons = [
        f": {alone[key]}" if (key := (n, *given[n - 1].tolist())) in alone else "" for n in odd
    ]
    return "; ".join(f"not so in case ({n}){reason}" for n, reason in zip(odd, reasons))


@exercise(
    "checkpoints.2",
    "What if the disk is full just now? Then the old checkpoints are all there is. "
    "In which order do you write and remove?",
    "The checkpoints are the folders whose name is a number and that hold a file "
    "CHECKPOINT. Sort them by the number, not by the text.",
    "`write_checkpoint` first; then `shutil.rmtree` for every folder of "
    "`sorted(found, key=lambda p: int(p.name))[:-k]`",
    returns=False,
)
def judge_checkpoints_2(answer):
    "A function of a folder, tensors, facts and k."
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "notes.txt").write_text("mine")
        write_checkpoint(folder / "best", {}, {})
        state = lambda step: {"weight": torch.full((2, 3), float(step))}
        left = lambda: sorted(
            int(p.name)
            for p in folder.iterdir()
            if p.name.isdecimal() and (p / CHECKPOINT).is_file()
        )
        for step, wanted in ((2, [2]), (3, [2, 3]), (9, [3, 9]), (10, [9, 10]), (100, [10, 100])):
            try:
                answer(folder, state(step), {"step": step}, 2)
            except ValueError as error:
                if "invalid literal" not in str(error):
                    raise
                return (
                    "the folder holds other things too, such as a checkpoint called best: "
                    "look only at names that are numbers"
                )
            if step == 100 and left() == [9, 100]:
                return (
                    "the newest folders are kept; a copied one is newer "
                    "than it was: compare the steps"
                )
            if not (folder / str(step) / CHECKPOINT).is_file():
                if step == 9 and left() == [2, 3]:
                    return "the lowest steps are kept; the highest should be"
                text = step >= 10 and left() == [3, 9]
                return (
                    "steps are compared as text, where 9 comes after 10: compare numbers"
                    if text
                    else f"there is no checkpoint in {step}"
                )
            if left() != wanted:
                return f"after steps up to {step} with k = 2, expected {wanted}, got {left()}"
            if step == 10:
                os.utime(folder / "9", (4e9, 4e9))  # as if copied
                os.utime(folder / "9" / CHECKPOINT, (4e9, 4e9))
        tensors, metadata = read_checkpoint(folder / "100")
        if metadata != {"step": 100} or not torch.equal(tensors["weight"], state(100)["weight"]):
            return "what was written is not what was given"
        try:
            answer(
                folder, state(150), {"step": 150, "loss": math.nan}, 2
            )  # refused by write_checkpoint
            return "a checkpoint could not be written, and your function said nothing"
        except ValueError:
            if left() != [10, 100]:
                return (
                    "the new checkpoint could not be written, and of [10, 100] only "
                    f"{left()} are left: write first, then remove"
                )
        (folder / "150").is_dir() and (folder / "150").rmdir()
        (folder / "150").write_text("in the way")
        try:
            answer(folder, state(150), {"step": 150}, 2)
            return "a checkpoint could not be written, and your function said nothing"
        except OSError:
            if left() != [10, 100]:
                return (
                    "the new checkpoint could not be written, and of [10, 100] only "
                    f"{left()} are left: write first, then remove"
                )
        (folder / "150").unlink(missing_ok=True)
        (folder / "150").mkdir(exist_ok=True)  # as a full disk would leave it
        answer(folder, state(200), {"step": 200}, 2)
        if left() != [100, 200]:
            return (
                "150 is a folder without a checkpoint and does not count; "
                f"expected [100, 200], got {left()}"
            )
        if not (folder / "notes.txt").is_file() or not (folder / "best" / CHECKPOINT).is_file():
            return "something else in the folder was removed"
        answer(folder, state(300), {"step": 300}, 5)
        if left() != [100, 200, 300]:
            return f"with k = 5 nothing is to be removed from three, got {left()}"
        answer(folder, state(400), {"step": 400}, 1)
        if left() != [400]:
            return (
                f"with k = 1 only 400 is to be left, got {left()}: there "
                "may be more than one to remove"
            )


@exercise(
    "checkpoints.3",
    "In each interval τ you write once. Which share is that? And how much is lost, on "
    "average, if a failure comes anywhere between two checkpoints?",
    "The share is C / τ + τ / (2M): a failure costs half an interval on average.",
    "The derivative, -C / τ² + 1 / (2M), is 0 at τ = √(2CM). Put that back into the share.",
)
def judge_checkpoints_3(answer):
    "A function of C and M, in seconds, that returns seconds and a share."
    for C, M in ((30.0, 86_400.0), (2.0, 10_000.0)):
        root, share = math.sqrt(2 * C * M), math.sqrt(2 * C / M)
        problem = diagnose(
            answer(C, M),
            [root, share],
            {
                "a failure costs half an interval on average, not a whole one": [
                    math.sqrt(C * M),
                    2 * math.sqrt(C / M),
                ],
                "the interval is right, but that is the share lost to writing "
                "alone; failures cost as much again": [root, share / 2],
                "the interval is right, but in its share each failure costs a "
                "whole interval, not half of one": [root, 1.5 * share],
                "the interval is right; the second number is a share of the time, not seconds": [
                    root,
                    share * M,
                ],
                "the interval is right; the second number is a share, not percent": [
                    root,
                    100 * share,
                ],
                "the root is missing: τ² = 2CM": [root**2, share],
                "the root is missing: τ² = 2CM, and the share is √(2C / M)": [root**2, share**2],
                "τ runs from one checkpoint to the next, writing included: its "
                "share is C / τ, not C / (τ + C)": [root - C, share - C / (2 * M)],
                "τ runs from one checkpoint to the next, writing included: its "
                "share is C / τ, not C / (τ + C).": [root - C, share],
                "the two numbers are in the other order": [share, root],
                "a failure costs half an interval, so the 2 goes under τ / (2M), not under C": [
                    math.sqrt(C * M / 2),
                    2 * math.sqrt(C / (2 * M)),
                ],
            },
        )
        if problem is not None:
            return problem
