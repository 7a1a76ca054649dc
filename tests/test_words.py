"""What is said of a wrong number or tensor: what became of it, and where."""

import pytest
import torch

from former_nb.grading.words import difference, of_value


@pytest.mark.parametrize(
    ("answer", "right", "said"),
    [
        (5.0, 4.0, "5 is too large"),
        (3.9, 4.0, "3.9 is too small"),
        (-4.0, 4.0, "wrong sign"),
        (0.25, 4.0, "1 divided by the right number"),
        (400.0, 4.0, "percent"),
        ("five", 4.0, "expected a number, got 'five'"),
        ((1.0, 2.0, 9.0), (1.0, 2.0, 3.0), "number 3: 9 is too large"),
        ((1.0, 2.0), (1.0, 2.0, 3.0), "3 answers are asked for, not 2"),
        (1.0, (1.0, 2.0, 3.0), "3 answers are asked for, in brackets"),
        ((1.0, ..., 3.0), (1.0, 2.0, 3.0), "the three dots are still there"),
    ],
)
def test_a_number_that_nobody_foresaw_gets_a_sentence(answer, right, said):
    found = of_value(answer, right, (), 1e-5)
    assert said in found


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (torch.ones(2, 3).cumsum(0).T, "rows and columns are exchanged"),
        (torch.ones(2, 3).cumsum(0)[None], "but their axes are not"),
        (torch.ones(2, 3).cumsum(0).flatten(), "but their axes are not"),
        (torch.zeros(3, 3), "expected shape (2, 3), got (3, 3)"),
        (torch.zeros(2, 3), "your numbers are all 0"),
        (2 * torch.ones(2, 3).cumsum(0), "yours are 2 times the right numbers"),
    ],
)
def test_a_wrong_tensor_says_what_became_of_it(answer, said):
    assert said in difference(answer, torch.ones(2, 3).cumsum(0), 1e-5)


def test_wrong_numbers_in_a_part_of_an_axis_are_told_by_it():
    right = torch.arange(60.0).reshape(3, 4, 5) ** 2
    wrong = right.clone()
    wrong[:, 1] += torch.arange(15.0).reshape(3, 5) + 1
    said = difference(wrong, right, 1e-5)
    assert "45 of 60 are right" in said and "all wrong ones have index 1 on axis 1" in said
    assert "axis" not in difference(right**2 + 1, right, 1e-5)
