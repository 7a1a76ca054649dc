"""Judges files as a reader may write them, step by step, with whichever `torch` is found first.

`python tests/page_file.py MOST FILE` prints JSON: what is said of MOST foreseen mistakes of each
step, and of each step of the file. tests/test_page_file.py runs it twice.
"""

import json
import sys
from pathlib import Path
from types import ModuleType

sys.path.append(str(Path(__file__).resolve().parents[1] / "docs" / "_pyodide"))
import not_here

not_here.install()
import torch

from former_nb.base.exercises import MistakeError
from former_nb.builds import your_file
from former_nb.builds.steps import STEPS, edited_module, judge_step

NOT_THERE = {"load_llama"}  # it needs safetensors


def said_of(module, name):
    "What the judge says of a step; without a file it looks for no place, which takes long."
    try:
        return judge_step(module, name)
    except MistakeError as error:
        return str(error)


def main(most, file):
    said = {}
    names = [name for name in your_file.NAMES if name not in NOT_THERE]
    for name in names:
        for number, mistake in enumerate(STEPS[name].mistakes[:most]):
            module = edited_module(STEPS[name].definition, mistake)
            said[f"{name} {number}"] = said_of(module, name)
    module = ModuleType("mine")
    exec(Path(file).read_text(encoding="utf-8"), vars(module))
    said |= {f"{name}, right": said_of(module, name) for name in names}
    json.dump({"torch": torch.__file__, "said": said}, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
