"""The tape of the small PyTorch beside PyTorch's autograd, and beside numerical differences.

tests/page_gradients.py draws the cases and runs in a process of its own for each of the two.
"""

import math

import pytest

pytest.importorskip("docutils", reason="the site's requirements are not installed")
from test_page_torch import ROOT, archive, result, start


@pytest.fixture(scope="module")
def both():
    "What PyTorch gives, and what the small one gives."
    tool = str(ROOT / "tests/page_gradients.py")
    theirs, ours = map(result, [start(tool, small=small) for small in (False, True)])
    assert str(archive()) in ours["torch"] and str(archive()) not in theirs["torch"]
    return theirs, ours


def near(a, b, tolerance):
    "Whether two lists of numbers agree; None stands for zeros."
    if a is None or b is None:
        return not any(a or []) and not any(b or [])
    return len(a) == len(b) and all(
        math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance) for x, y in zip(a, b)
    )


def test_each_rule_gives_the_gradients_of_pytorch(both):
    theirs, ours = (run["cases"] for run in both)
    assert theirs.keys() == ours.keys() and len(theirs) > 700
    wrong = []
    for key, (y, grads) in theirs.items():
        our_y, our_grads = ours[key]
        tolerance = 2e-6 if key.startswith("to float") else 1e-9
        pairs = [(y, our_y), *zip(grads, our_grads)]
        if not all(near(a, b, tolerance) for a, b in pairs):
            wrong.append(key)
    assert wrong == []


def test_each_rule_is_used_by_a_case(both):
    assert both[1]["unused"] == []


def test_each_rule_agrees_with_numerical_differences(both):
    assert both[0]["worst"] < 1e-5 and both[1]["worst"] < 1e-5
