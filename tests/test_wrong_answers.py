"""How many wrong answers that no judge was made with are named, and that nothing right is refused.

`wrong_answers.txt` has the answers. The shares are floors: a judge or an edit that is lost shows.
"""

import pytest
from wrong_answers import answers, verdict

from former_nb.builds import your_answer

PARTS = {  # of the wrong answers: the share that has to be named
    "shown": 0.98,  # the judges were improved on these
    "kept back": 0.90,
    "harder": 0.80,
    "fourth": 0.80,
}


def part(answer):
    "Which part a wrong answer belongs to."
    if answer.section:
        return ["harder", "fourth"][answer.section - 1]
    return "shown" if answer.place % 2 else "kept back"


@pytest.mark.parametrize("answer", [a for a in answers() if a.kind == "right"], ids=str)
def test_an_unusual_right_answer_is_right(answer):
    right, _, said = verdict(answer)
    assert right, said


@pytest.mark.parametrize("name", PARTS)
def test_a_mistake_that_no_judge_was_made_with_is_named(name, monkeypatch):
    monkeypatch.setattr(your_answer, "SECONDS", 60.0)  # so that no machine is too slow for it
    wrong = [a for a in answers() if a.kind == "wrong" and part(a) == name]
    assert len(wrong) >= 40
    vague = []
    for answer in wrong:
        right, named, said = verdict(answer)
        assert not right, answer
        if not named:
            vague.append(f"{answer}: {said}")
    assert len(vague) <= (1 - PARTS[name]) * len(wrong), "\n".join(vague)
