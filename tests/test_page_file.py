"""A reader's file is judged in the page as it is in a notebook.

tests/page_file.py runs in a process of its own for each of the two.
"""

import json

import pytest
from thorough import THOROUGH

from former_nb.grading.content import definitions, right_source
from former_nb.grading.files import STEP_NAMES

pytest.importorskip("docutils", reason="the site's requirements are not installed")
from test_page_torch import ROOT, archive, result, start

ALL = len(STEP_NAMES)


def test_a_step_says_of_its_first_mistake_what_it_says_with_pytorch():
    command = (str(ROOT / "tests/page_file.py"), "1", str(ROOT / "tests/another_right_file.py"))
    theirs, ours = map(result, [start(*command, small=small) for small in (False, True)])
    assert str(archive()) in ours["torch"] and str(archive()) not in theirs["torch"]
    theirs, ours = theirs["said"], ours["said"]
    assert len(theirs) > 15 and theirs.keys() == ours.keys()
    other = {key: said for key, said in ours.items() if said != theirs[key]}
    assert all("a small part of it" in said for said in other.values()), other  # complex numbers
    assert len(other) < 8


def judged(tmp_path, *sources):
    "What the page says of files, one after the other, and which steps it ran for each."
    (tmp_path / "files.json").write_text(json.dumps(sources), encoding="utf-8")
    code = f"""
import json, file_in_page
said = []
for source in json.load(open({str(tmp_path / "files.json")!r}, encoding="utf-8")):
    steps = []
    tell = lambda number, all, name: steps.append(name)
    said.append([json.loads(file_in_page.judge_file_in_page(source, "16", tell)), steps])
print(json.dumps(said))
"""
    return result(start("-c", code, small=True))


def test_the_right_file_is_right_in_the_page_but_for_what_it_lacks(tmp_path):
    drawn = definitions()["sample"].source()  # a third of the seconds of all
    source = right_source() if THOROUGH else right_source().replace(drawn, "")
    [[said, steps]] = judged(tmp_path, source)
    lacks = 1 if THOROUGH else 2
    assert (said["right"], said["all"], said["good"]) == (ALL - lacks, ALL, True)
    (line,) = (line for line in said["lines"] if "load_llama" in line)
    assert "no safetensors; `former-nb check mine.py` does" in line
    assert len(steps) == ALL - lacks


BEGIN = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"
WEIGHTS = """def attention_weights(q, k, mask=None, is_causal=False):
    return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)
"""
COMPLEX = """def padding_mask(tokens, pad=0):
    return torch.complex(tokens, tokens)
"""


def test_a_file_that_is_begun_or_broken_is_answered_by_a_sentence(tmp_path):
    files = {
        BEGIN + WEIGHTS: f"1 of {ALL} steps are right. Next: write attention, of lesson 02.",
        BEGIN + WEIGHTS.replace("math.sqrt", "") + "\n": f"0 of {ALL} steps are right. Next: mend",
        BEGIN + COMPLEX: f"0 of {ALL} steps are right.",
    }
    broken = {
        "def f(:": "line 1",
        "from former_nb import attention": "imports former_nb; write it yourself",
        "raise KeyboardInterrupt": "cannot be imported: your code raised KeyboardInterrupt",
        "torch.Tensor.softmax = None": "NameError",
    }
    said = [verdict for verdict, _ in judged(tmp_path, *files, *broken)]
    assert said[0]["found"] == [{"name": "attention_weights", "problem": None}]
    assert "line 7" in said[1]["found"][0]["problem"] and said[2]["found"] == []
    for verdict, last in zip(said, files.values()):
        assert verdict["lines"][-1].startswith(last), verdict
    assert "not run in the page: module 'torch' has no attribute 'complex'" in str(said[2]["lines"])
    for verdict, words in zip(said[len(files) :], broken.values()):
        assert verdict["problem"].startswith("Not yet: ") and words in verdict["problem"], verdict


def test_a_file_that_changes_torch_is_refused_and_changes_nothing_for_the_next_one(tmp_path):
    spoiled = BEGIN + "torch.Tensor.softmax = lambda self, dim: self\n" + WEIGHTS
    (refused, _), (said, _) = judged(tmp_path, spoiled, BEGIN + WEIGHTS)
    assert "your file replaces Tensor.softmax" in refused["problem"] and said["right"] == 1


def test_what_was_right_is_judged_again_only_if_a_change_reaches_it(tmp_path):
    more = "\n\ndef greedy(logits):\n    return logits.argmax(dim=-1)\n"
    changed = (BEGIN + WEIGHTS + more).replace("argmax(dim=-1)", "argmax(-1)")
    (_, first), (said, again) = judged(tmp_path, BEGIN + WEIGHTS + more, changed)
    assert {name.partition(" ")[0] for name in first} == {"attention_weights", "greedy"}
    assert first[0] == "attention_weights" and said["right"] == 2
    assert again == first[1:]  # what isn't right yet, and what changed
