"""Settings of a run: their defaults, JSON, the rate by the clock, and what cannot be."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest
from fit_tools import INF, NAN
from refusals import refuses

from former_nb.training.training_config import TrainingConfig


def test_ten_epochs_where_nothing_else_ends_the_run():
    assert TrainingConfig().epochs == 10 and TrainingConfig(epochs=2, minutes=1).epochs == 2
    assert TrainingConfig(steps=3).epochs is TrainingConfig(minutes=1.0).epochs is None


def test_settings_come_back_from_json_also_where_numpy_made_them():
    plain = dict(epochs=3, lr=0.5, max_grad_norm=1.0, seed=2**40, minutes=2.0)
    odd = dict(epochs=np.int64(3), lr=np.float32(0.5), max_grad_norm=1, minutes=np.float64(2))
    config = TrainingConfig(**plain | odd)
    assert TrainingConfig(**json.loads(json.dumps(asdict(config)))) == config
    assert config == TrainingConfig(**plain)
    assert {type(value) for value in asdict(config).values()} <= {int, float, str, bool, type(None)}


def test_a_rate_by_the_clock_rises_and_falls_whatever_the_number_of_steps():
    hurried = TrainingConfig(minutes=1.0)
    rates = {seconds: hurried.rate(500, math.inf, seconds) for seconds in (0.0, 3.0, 30.0, 60.0)}
    assert 0 < rates[0.0] < 0.5 and rates[3.0] == pytest.approx(1) and rates[60.0] < 0.01
    assert 0.5 < rates[30.0] < 0.6
    assert hurried.rate(500, 500, 3.0) < 0.01  # whichever is lower


BAD_SETTINGS = {
    ("epochs", "steps", "gradient_accumulation_steps", "eval_every", "patience"): (0, 2.5),
    ("lr", "muon_lr", "minutes", "max_grad_norm"): (0, NAN, INF),
    ("weight_decay", "warmup", "label_smoothing"): (-0.1, NAN, None),
    ("warmup", "label_smoothing"): (1,),
    ("seed", "pad"): (-1, 0.5),
    ("schedule", "precision", "compile"): ("linear", None),
}


def test_a_setting_that_cannot_be_is_named():
    for names, values in BAD_SETTINGS.items():
        for name, value in ((name, value) for name in names for value in values):
            refuses(lambda: TrainingConfig(**{name: value}), (ValueError, TypeError), name)
