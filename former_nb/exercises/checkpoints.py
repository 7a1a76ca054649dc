"Long runs: files that are whole, and what is left of a run that was killed."

import math
import os
import shutil
import tempfile
from pathlib import Path

from ..base.checkpoints import CHECKPOINT, read_checkpoint, write_checkpoint
from ..grading.ask import Call, exercise, question

# ---------------------------------------------------------------- exercises


@exercise(
    "checkpoints.1",
    parts=(
        "case (1) is wrong; no rename was reached, and a killed process removes nothing",
        "case (2) is wrong; each file has a rename of its own, and a killed process removes nothing",
        "case (3) is wrong; all renames are done, and the folder is removed after them",
        "case (4) is wrong; no rename was reached, and an error, unlike a kill, runs the `finally`",
    ),
)
def new_files_and_folders_left():
    # ? Where are the new files until the `with` block is over? And what happens then, one after the
    # ? other?
    # ? A killed process runs nothing more, no `finally` either. An error does run it.
    return (0, 1), (1, 1), (3, 1), (0, 0)
    #! a killed process runs no `finally`: the temporary folder stays
    # ~ return (0, 0), (1, 0), (3, 0), (0, 0)
    #! the temporary folder is removed after the last rename; this process was killed before that
    # ~ return (0, 1), (1, 1), (3, 0), (0, 0)
    #! an error is no kill: it runs the `finally`, which removes the temporary folder
    # ~ return (0, 1), (1, 1), (3, 1), (0, 1)
    #! new files appear when they are renamed, not when they are written
    # ~ return (1, 1), (1, 1), (3, 1), (1, 0)
    #! each file is whole or absent, not all of them together: there is one rename for each
    # ~ return (0, 1), (0, 1), (3, 1), (0, 0)
    #! that is how many are old; count the new ones
    # ~ return (3, 1), (2, 1), (0, 1), (3, 0)
    #! each pair is (new files, folders left), in this order
    # ~ return (1, 0), (1, 1), (1, 3), (0, 0)


@exercise("checkpoints.2", files=True)
def save_last(folder, tensors, metadata, k):
    # ? What if the disk is full just now? Then the old checkpoints are all there is. In which order
    # ? do you write and remove?
    # ? The checkpoints are the folders whose name is a number and that hold a file CHECKPOINT. Sort
    # ? them by the number, not by the text.
    # ? `write_checkpoint` first; then `shutil.rmtree` for every folder of `sorted(found, key=lambda
    # ? p: int(p.name))[:-k]`.
    folder = Path(folder)
    write_checkpoint(folder / str(metadata["step"]), tensors, metadata)
    #! write first, then remove: when the new checkpoint could not be written, old ones were gone
    # ~ found = [p for p in folder.iterdir() if p.name.isdecimal() and (p / CHECKPOINT).is_file()]
    # | for old in sorted(found, key=lambda p: int(p.name), reverse=True)[k - 1 :]:
    # |     shutil.rmtree(old)
    # | write_checkpoint(folder / str(metadata["step"]), tensors, metadata)
    #! a checkpoint could not be written, and your function said nothing
    # ~ try:
    # |     write_checkpoint(folder / str(metadata["step"]), tensors, metadata)
    # | except (OSError, ValueError):
    # |     return
    found = [p for p in folder.iterdir() if p.name.isdecimal() and (p / CHECKPOINT).is_file()]
    #! a folder without a checkpoint in it does not count
    # ~ found = [p for p in folder.iterdir() if p.name.isdecimal() and p.is_dir()]
    #! the folder holds other things too, such as a checkpoint called best: look only at names that
    #! are numbers
    # ~ found = [p for p in folder.iterdir() if (p / CHECKPOINT).is_file()]
    #! something else in the folder was removed; look only at names that are numbers
    # ~ found = [p for p in folder.iterdir() if p.is_dir()]
    # ~ key=lambda p: int(p.name) -> key=lambda p: int(p.name) if p.name.isdecimal() else -1
    for old in sorted(found, key=lambda p: int(p.name))[:-k]:
        #! steps are compared as text, where 9 comes after 10: compare numbers
        # ~ for old in sorted(found)[:-k]:
        #! the newest folders are kept; a copied one is newer than it was: compare the steps
        # ~ for old in sorted(found, key=lambda p: p.stat().st_mtime)[:-k]:
        #! the lowest steps are kept; the highest should be
        # ~ for old in sorted(found, key=lambda p: int(p.name))[k:]:
        #! there may be more than one to remove
        # ~ for old in sorted(found, key=lambda p: int(p.name))[:-k][:1]:
        #! one too many is kept; the new one is among the k
        # ~ for old in sorted(found, key=lambda p: int(p.name))[: -k - 1]:
        shutil.rmtree(old)
        #! nothing is removed
        # ~ pass


@exercise("checkpoints.3")
def best_interval(C, M):
    # ? In each interval τ you write once. Which share is that? And how much is lost, on average, if
    # ? a failure comes anywhere between two checkpoints?
    # ? The share is C / τ + τ / (2M): a failure costs half an interval on average.
    # ? The derivative, -C / τ² + 1 / (2M), is 0 at τ = √(2CM). Put that back into the share.
    return math.sqrt(2 * C * M), math.sqrt(2 * C / M)
    #! a failure costs half an interval on average, not a whole one
    # ~ return math.sqrt(C * M), 2 * math.sqrt(C / M)
    #! the interval is right, but that is the share lost to writing alone; failures cost as much again
    # ~ return math.sqrt(2 * C * M), math.sqrt(2 * C / M) / 2
    #! the interval is right, but in its share each failure costs a whole interval, not half of one
    # ~ return math.sqrt(2 * C * M), 1.5 * math.sqrt(2 * C / M)
    #! the interval is right; the second number is a share of the time, not seconds
    # ~ return math.sqrt(2 * C * M), math.sqrt(2 * C / M) * M
    #! the interval is right; the second number is a share, not percent
    # ~ return math.sqrt(2 * C * M), 100 * math.sqrt(2 * C / M)
    #! the root is missing: τ² = 2CM
    # ~ return 2 * C * M, math.sqrt(2 * C / M)
    #! both roots are missing: τ² = 2CM, and the share is √(2C / M)
    # ~ return 2 * C * M, 2 * C / M
    #! τ runs from one checkpoint to the next, writing included: its share is C / τ, not C / (τ + C)
    # ~ return math.sqrt(2 * C * M) - C, math.sqrt(2 * C / M) - C / (2 * M)
    #! the two numbers are in the other order
    # ~ return math.sqrt(2 * C / M), math.sqrt(2 * C * M)
    #! a failure costs half an interval, so the 2 goes under τ / (2M), not under C
    # ~ return math.sqrt(C * M / 2), 2 * math.sqrt(C / (2 * M))


# ---------------------------------------------------------------- questions


class Folder(type(Path())):
    "A folder that is made anew for each answer, and goes when the last name of it does."

    def __deepcopy__(self, memo):
        held = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        new = Folder(held.name)
        new.held, new.fill = held, self.fill
        self.fill(Path(held.name))
        return new


def folder_with(steps, copied=(), empty=None, in_the_way=None):
    "A `Folder` with checkpoints, of which some are newer than their step says."

    def fill(folder):
        (folder / "notes.txt").write_text("mine")
        for name in ("best", "last-7", *map(str, steps)):
            write_checkpoint(folder / name, {}, {})
        for step in copied:
            for path in (folder / str(step) / CHECKPOINT, folder / str(step)):
                os.utime(path, (4e9, 4e9))
        if empty:
            (folder / str(empty)).mkdir()
        if in_the_way:
            (folder / str(in_the_way)).write_text("a file")

    made = Folder("folder")
    made.fill = fill
    return made


def what_is_left(answer, args, result):
    "Which checkpoints are left, whether the new one is whole, and what else is there."
    folder, tensors, metadata, _ = args
    found = {p.name: (p / CHECKPOINT).is_file() for p in folder.iterdir()}
    left = sorted(int(name) for name, whole in found.items() if name.isdecimal() and whole)
    others = [name for name in found if name in ("notes.txt", "best", "last-7")]
    raised = isinstance(result, Exception)
    seen = {"": f"checkpoints of the steps {left}", "other things": sorted(others)}
    seen["what was written"] = None
    if metadata["step"] in left and not raised:
        written, facts = read_checkpoint(folder / str(metadata["step"]))
        seen["what was written"] = [facts, dict(sorted(written.items()))]
    seen["whether it says that nothing could be written"] = raised
    return seen


@question("checkpoints", "checkpoints.2")
def ask_save_last(draw):
    made = [
        ([], 2, 2, {}),
        ([2], 3, 2, {}),
        ([2, 3], 9, 2, {}),
        ([3, 9], 10, 2, {}),
        ([9, 10], 100, 2, dict(copied=[9])),
        ([10, 100], 200, 2, dict(empty=150)),
        ([100, 200, 250], 300, 5, {}),
        ([100, 200, 300, 999], 1000, 1, {}),
        ([8, 20], 15, 2, {}),
        ([20, 30], 15, 2, {}),
    ]
    for steps, step, k, more in made:
        tensors = {"weight": draw.numbers(2, 3), "bias": draw.numbers(3)}
        args = folder_with(steps, **more), tensors, {"step": step, "note": "x"}, k
        yield Call(f"checkpoints of {steps}, step {step}, k = {k}", args, look=what_is_left)
    tensors, how = {"weight": draw.numbers(2)}, dict(look=what_is_left, raises=True)
    args = folder_with([10, 100], in_the_way=150), tensors, {"step": 150}, 2
    yield Call("checkpoints of [10, 100], and step 150 can't be written", args, **how)
    args = folder_with([10, 100]), tensors, {"step": 150, "loss": math.nan}, 2
    yield Call("checkpoints of [10, 100], and what is given can't be written", args, **how)


@question("checkpoints", "checkpoints.3")
def ask_best_interval(draw):
    cases = [(30.0, 86_400.0), (2.0, 10_000.0), (0.5, 3600.0), (120.0, 604_800.0)]
    cases += [(draw.size(1, 300), draw.size(1, 90) * 1e4) for _ in draw.rounds]
    for C, M in cases:
        yield Call(f"C = {C:g}, M = {M:g}", (C, M))
