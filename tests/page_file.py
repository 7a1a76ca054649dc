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

from former_nb.base.source import load_file
from former_nb.grading.ask import STEPS
from former_nb.grading.content import definitions
from former_nb.grading.files import STEP_NAMES, judge_step
from former_nb.grading.prove import said_of

NOT_THERE = {"load_llama"}  # it needs safetensors


def answered(ask, *args, **options):
    "What the judge says, or that the small PyTorch lacks what it asks with."
    try:
        return ask(*args, **options)
    except NotImplementedError as error:
        return str(error)


def main(most, file):
    said = {}
    names = [name for name in STEP_NAMES if name not in NOT_THERE]
    for name in names:
        mistakes = definitions()[STEPS[name].definition].mistakes[:most]
        for number, mistake in enumerate(mistakes):
            said[f"{name} {number}"] = answered(said_of, name, mistake)
    module = load_file(Path(file), "a_readers_file")
    said |= {f"{name}, right": answered(judge_step, module, name=name) for name in names}
    json.dump({"torch": torch.__file__, "said": said}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
