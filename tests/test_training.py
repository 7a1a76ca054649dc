"""A step of lesson 08 forgets old gradients and has dropout; its rate falls as a cosine."""

import pytest
import torch
from step_tools import small, step, tokens
from torch import nn
from torch.testing import assert_close

from former_nb.training.optimization import make_optimizers, warmup_cosine
from former_nb.training.training import train_step


def test_the_fall_is_half_a_cosine():
    quarters = [warmup_cosine(step, 100, 0.2) for step in (20, 40, 60, 80)]
    assert quarters == pytest.approx([1, (2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4])


def test_what_an_interrupted_step_left_is_forgotten():
    batch, ends = (tokens(6, 4), tokens(6, 4, seed=1)), []
    for dirt in (None, 1e6):
        model = small()
        optimizers = make_optimizers(model, 0.5, 0.1, 0.1)
        for _ in range(3):
            if dirt:
                for p in model.parameters():
                    p.grad = torch.full_like(p, dirt)
            train_step(model, batch, optimizers)
        ends.append([p.detach() for p in model.parameters()])
    assert_close(*ends, rtol=0, atol=0)


def test_a_step_turns_dropout_on():
    model = nn.Sequential(nn.Embedding(7, 7), nn.Dropout(0.5)).eval()
    step(model=model)
    assert model.training and model[1].training
