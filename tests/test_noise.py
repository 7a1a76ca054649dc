"""The noise meter finds what makes a loss too good, passes honest models, and leaves them alone."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from former_nb.inspection.leaks import NoiseTest, noise_leak
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel

SMALL = {"vocab_size": 12, "length": 9, "batch": 32}


def language_model(dropout=0.0):
    torch.manual_seed(0)
    sizes = {"max_len": 13, "d_model": 8, "n_heads": 2, "n_layers": 2, "d_ff": 16}
    return LanguageModel.from_config(TransformerConfig(12, dropout=dropout, **sizes))


def next_token(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def same_token(model, tokens):
    return F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


def padded_mean(model, tokens):  # half of the losses are zero, and counted
    logits, right = model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()
    losses = F.cross_entropy(logits, right, reduction="none")
    return torch.cat([losses, torch.zeros_like(losses)])


def softmax_over_time(model, tokens):  # 8 places, so nothing keeps the loss above ln 8
    logs = model(tokens[:, :-1]).log_softmax(dim=1)  # (B, 8, V)
    return -logs.gather(2, tokens[:, 1:, None])


class NoMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = language_model()

    def forward(self, tokens):
        at = torch.arange(tokens.shape[1])
        return self.model.head(self.model.stack(self.model.embed(tokens, at), positions=at))


def test_noise_passes_the_language_model_and_leaves_it_alone():
    model, random = language_model(dropout=0.1), torch.get_rng_state()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    how = dict(vocab_size=6, steps=40, length=9, batch=32)
    test = noise_leak(model, next_token, **how)
    assert not test.leaks
    assert test.entropy == math.log(6) and test.error < 0.01 and len(test.history) == 40
    assert all(torch.equal(t, state[name]) for name, t in model.state_dict().items())
    assert model.training and torch.equal(random, torch.get_rng_state())
    assert test == noise_leak(model, next_token, **how)


@pytest.mark.parametrize(
    "build, loss_fn",
    [(language_model, same_token), (language_model, softmax_over_time), (NoMask, next_token)],
)
def test_noise_finds_leaks(build, loss_fn):
    assert noise_leak(build(), loss_fn, steps=200, **SMALL).leaks


def test_noise_gives_no_verdict_where_losses_are_left_out():
    with pytest.raises(ValueError, match="loss_fn: .* got .zeros"):
        noise_leak(language_model(), padded_mean, steps=5, **SMALL)


def test_noise_can_leave_out_special_tokens():
    seen = []

    def ignoring(model, tokens):
        seen.append(tokens)
        return F.cross_entropy(
            model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten(), ignore_index=0
        )

    assert not noise_leak(language_model(), ignoring, vocab_size=8, first_id=4, steps=60).leaks
    assert torch.cat(seen).unique().tolist() == [*range(4, 12)]


@pytest.mark.parametrize(
    "change, error",
    [
        ({"vocab_size": 1}, ValueError),
        ({"batch": 0}, ValueError),
        ({"model": next_token}, TypeError),
        ({"model": nn.Identity()}, ValueError),
        ({"steps": True}, TypeError),
        ({"loss_fn": lambda model, tokens: 1.0}, TypeError),
        ({"loss_fn": lambda model, tokens: model(tokens).sum() * float("nan")}, ValueError),
    ],
)
def test_bad_arguments_of_the_noise_meter_are_refused(change, error):
    how = dict(model=language_model(), loss_fn=next_token, vocab_size=6, steps=1)
    with pytest.raises(error):
        noise_leak(**how | change)


def test_a_leak_is_five_standard_errors_below_the_entropy():
    assert NoiseTest(1.0, 2.0, 0.01, []).leaks and not NoiseTest(2.0, 2.0, 0.01, []).leaks
    assert not NoiseTest(1.96, 2.0, 0.01, []).leaks and NoiseTest(1.94, 2.0, 0.01, []).leaks
