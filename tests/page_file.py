"""Judges files as a reader may write them, step by step, with whichever `torch` is found first.

`python tests/page_file.py MOST FILE` prints JSON: what is said of MOST foreseen mistakes of each
step, and of each step of the file. tests/test_page_file.py runs it twice.
"""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "docs" / "_pyodide"))
import not_here

not_here.install()
import torch
from thorough import some

from former_nb.grading import known
from former_nb.grading.ask import STEPS
from former_nb.grading.content import definitions
from former_nb.grading.files import STEP_NAMES, File, judge_here

NOT_THERE = {"load_llama"}  # it needs safetensors


def of_mistake(name, mistake):
    "The sentence that names a mistake of the right file; nothing where a step doesn't see it."
    given = [known.mistake_seen(name, (mistake,), i) for i in range(len(known.calls(name)))]
    wrong = known.wrong_calls(name, given)
    return known.named(name, given, wrong) if wrong else None


def main(most, path):
    said = {}
    names = [name for name in STEP_NAMES if name not in NOT_THERE]
    for name in some(names, 8):
        for number, mistake in enumerate(definitions()[STEPS[name].definition].mistakes[:most]):
            said[f"{name} {number}"] = of_mistake(name, mistake)
    file = File(Path(path).read_text(encoding="utf-8"))
    space = file.space_with(())
    for name in some(names, 4, 1):
        said[f"{name}, right"] = judge_here(file, name, (), space)
    json.dump({"torch": torch.__file__, "said": said}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
