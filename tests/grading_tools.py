"A folder of one's own, and a reader's file judged in this process as `check` judges it in another."

import warnings

from former_nb.grading import passed
from former_nb.grading.files import STEP_NAMES, File, Judging, judge_here


def judged(source, *names):
    "What is said of these steps of a file, or of all: None where one is right."
    file = File(source)
    space = file.space_with(())

    def ask(name, stand_ins):
        return judge_here(file, name, stand_ins, space)

    judging = Judging(file, ask)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of edits that make no sense
        return {name: judging.of(name) for name in names or STEP_NAMES}


def alone(folder, monkeypatch):
    "A working directory and records of one's own."
    monkeypatch.chdir(folder)
    monkeypatch.delenv("FORMER_NB_MINE", raising=False)
    monkeypatch.setattr(passed, "_folder", lambda: folder / "passed")
    return folder
