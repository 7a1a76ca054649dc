"""How many wrong answers that no entry was written for are named; that no right one is refused.

`wrong_answers.txt` has the answers. The shares are floors: an entry or an edit that is lost shows.
Every twelfth wrong answer is judged, all of them with FORMER_NB_THOROUGH=1, as once a week.
"""

import pytest
from thorough import THOROUGH, some
from wrong_answers import answers, verdict

NAMED = ("named", "two")  # by a sentence that says why
PLACED = (*NAMED, "located", "departs", "error", "unfit", "endless", "chance")  # or by the line
PARTS = {  # of the wrong answers: the share that has to be named, and that to be named or placed
    "shown": (0.80, 0.92),
    "kept back": (0.80, 0.92),
    "harder": (0.55, 0.85),
    "fourth": (0.55, 0.85),
    "fifth": (0.55, 0.85),
    "fresh": (0.55, 0.85),
    "another class": (0.55, 0.85),
}


def part(answer):
    "Which part a wrong answer belongs to."
    if answer.section:
        return ["harder", "fourth", "fifth", "fresh", "another class"][answer.section - 1]
    return "shown" if answer.place % 2 else "kept back"


@pytest.mark.parametrize("answer", [a for a in answers() if a.kind == "right"], ids=str)
def test_an_unusual_right_answer_is_right(answer):
    found = verdict(answer)
    assert found.kind == "right", found.said


@pytest.mark.parametrize("names", [[name] for name in PARTS] if THOROUGH else [[*PARTS]], ids=str)
def test_a_wrong_answer_is_refused_and_most_are_named(names):
    "Each part by itself, or a few of each together."
    found, most = {}, [0.0, 0.0]
    for name in names:
        wrong = [a for a in answers() if a.kind == "wrong" and part(a) == name]
        assert len(wrong) >= 40
        wrong = some(wrong, 12)
        found |= {str(answer): verdict(answer) for answer in wrong}
        most = [m + (1 - least) * len(wrong) for m, least in zip(most, PARTS[name])]
    assert not [answer for answer, one in found.items() if one.kind == "right"]
    for kinds, least in zip((NAMED, PLACED), most):
        others = [f"{answer}: {one.said}" for answer, one in found.items() if one.kind not in kinds]
        assert len(others) <= least, "\n".join(others)
