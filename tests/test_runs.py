"""Each part of a run has a seed of its own, and what was drawn before changes nothing."""

from dataclasses import replace

import pytest
import torch
from fit_tools import LOADERS, alike, model, run, same

from former_nb.base.core import set_seed
from former_nb.training.runs import seed_for
from former_nb.training.training_config import TrainingConfig


@pytest.mark.parametrize("name", ["ours", "shuffled without one", "shuffled with a generator"])
def test_each_epoch_has_an_order_of_its_own(name):
    read, m, train = [], model(), LOADERS[name]()
    keep = lambda _, given: read.append(given[0].tolist()) if m.training else None
    m[0].register_forward_pre_hook(keep)
    run(TrainingConfig(epochs=3), m, train)
    n = len(train)
    one, two, three = (read[i : i + n] for i in range(0, 3 * n, n))
    assert len(read) == 3 * n and one != two != three


def test_what_was_drawn_before_changes_nothing_but_the_seed_does():
    config, noise = TrainingConfig(epochs=2, lr=0.05), LOADERS["noise in collate"]
    first, m = run(config, train=noise()), model()
    set_seed(1234), torch.rand(99)
    assert alike(run(config, m, train=noise()), first)
    assert not same(first[0], run(replace(config, seed=1), train=noise())[0])


def test_a_place_has_its_own_seed():
    places = [("step", 0, 0), ("step", 0), ("step",), ("step", 1, 0), ("step", 0, 1)]
    places += [("read", 0, 0), ("order", 0), ()]
    seeds = {seed_for(seed, *place) for seed in (0, 1, 2**32) for place in places}
    assert len(seeds) == 3 * len(places) and all(0 <= seed < 2**32 for seed in seeds)
    assert seed_for(0, "step", 7, 2) == 3374389233
