"""What a setting may be: each range says it in words, and takes nothing else."""

import math
from dataclasses import fields

import pytest
from refusals import every_row, fine, refuses

from former_nb.base.guards import check_choice, check_that
from former_nb.base.ranges import TRAINING, Range
from former_nb.decoding.sampling import SETTINGS
from former_nb.models.choices import MODEL, POSITIONS
from former_nb.models.config import RARE, TransformerConfig
from former_nb.training.optimization import SCHEDULES
from former_nb.training.training_config import TrainingConfig

TABLES = {"model": MODEL, "training": TRAINING, "sampling": SETTINGS, "rare": RARE}
RANGES = {
    f"{table}: {name}": (name, rule)
    for table, rules in TABLES.items()
    for name, rule in rules.items()
    if isinstance(rule, Range)
}


@pytest.mark.parametrize("row", RANGES)
def test_each_range_of_a_setting_says_what_it_takes_and_takes_nothing_odd(row):
    name, numbers = RANGES[row]
    assert numbers.words.startswith("a whole number" if numbers.whole else "a number")
    for value in (math.nan, math.inf, -math.inf, -1, "1", True, [1], 1j):
        refuses(lambda: numbers.check(name, value), (TypeError, ValueError), name, repr(value))
    with pytest.raises(ValueError, match=f"{name}: expected {numbers.words}, got 'x'"):
        numbers.check(name, "x", ValueError)


def test_the_words_of_the_ranges_are_those_of_the_code():
    assert MODEL["positions"] is POSITIONS and TRAINING["schedule"] == tuple(SCHEDULES)
    assert set(TRAINING) == {field.name for field in fields(TrainingConfig)}
    assert {*MODEL, *RARE, "rope_scaling"} == {field.name for field in fields(TransformerConfig)}


TABLE = {
    "check_that": [
        ("no", lambda: check_that(False, "x", "y", "z"), ValueError, "x", "'z'"),
        ("kind", lambda: check_that(False, "x", "y", 3, KeyError), KeyError, "x", "3"),
        ("yes", lambda: check_that(True, "x", "y", "z"), fine),
    ],
    "check_choice": [
        ("a choice", lambda: check_choice("p", 1, (1, 2)), fine),
        ("a boolean", lambda: check_choice("p", True, (1, 2)), ValueError, "p", "True"),
    ],
}
test_bad_input_gets_one_clear_sentence_or_a_defined_result = every_row(TABLE)
