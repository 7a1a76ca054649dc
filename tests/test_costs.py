"""What a step costs, counted without computing it and by formula, against what it really takes."""

import json
import os
import sys
from dataclasses import replace

import pytest
import torch
from accelerate import Accelerator
from process_tools import succeeds
from refusals import refuses
from torch import nn
from torch.profiler import ProfilerActivity, profile

from former_nb.attention import fused
from former_nb.base.core import set_seed
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel
from former_nb.training.costs import training_cost
from former_nb.training.fitting import fit
from former_nb.training.losses import batch_loss, token_loss
from former_nb.training.optimization import (
    checkpoint_blocks,
    make_optimizers,
)
from former_nb.training.training import train_step
from former_nb.training.training_config import TrainingConfig
from former_nb.training.training_run import wrap_loss

KINDS = {
    "plain": {},
    "dropout": dict(dropout=0.1),
    "llama": dict(positions="rotary", n_kv_heads=2, activation="swiglu", norm="rms"),
    "alibi": dict(positions="alibi"),
}
WAYS = {
    "muon": {},
    "adamw": dict(muon_lr=None),
    "bf16": dict(precision="bf16"),
    "parts": dict(gradient_accumulation_steps=3),
    "again": dict(activation_checkpointing=True, muon_lr=None),
    "label_smoothing": dict(label_smoothing=0.1),
}


def tiny(**kind):
    set_seed(0)
    sizes = dict(n_heads=4, n_layers=2, d_ff=128, dropout=0.0) | kind
    return LanguageModel.from_config(TransformerConfig(300, 64, 64, **sizes))


def tokens(B=13, T=64):
    return torch.arange(B * T).view(B, T) % 300


def alone_with(model, batch, config):
    "A function that makes one step, and the optimizers it uses."
    optimizers = make_optimizers(model, config.lr, config.muon_lr, config.weight_decay)
    one = Accelerator(device_placement=False, cpu=True)
    loss = wrap_loss(batch_loss, config, one)

    def step():
        train_step(model, batch, optimizers, loss, config.max_grad_norm)
        optimizers.zero_grad()

    return step, optimizers


def measured_peak(step, folder):
    "The most that a step allocates beyond what was there before it, noted by the profiler."
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as noted:
        step()
    noted.export_chrome_trace(str(folder / "trace.json"))
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    events = [event for event in events if event.get("name") == "[memory]"]
    now = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        now += event["args"]["Bytes"]
        peak = max(peak, now)
    return peak


PAIRS = [("plain", way) for way in WAYS]
PAIRS += [("dropout", "bf16"), ("dropout", "again"), ("llama", "parts"), ("alibi", "adamw")]


@pytest.mark.parametrize("kind, way", PAIRS)
def test_the_predicted_peak_is_that_of_a_real_step(kind, way, tmp_path):
    model, batch, config = tiny(**KINDS[kind]), (tokens(), tokens()), TrainingConfig(**WAYS[way])
    before = {name: t.clone() for name, t in model.state_dict().items()}
    cost = training_cost(model, batch, config)
    assert all(t.equal(before[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    checkpoint_blocks(model, config.activation_checkpointing)
    step, optimizers = alone_with(model, batch, config)
    step()
    states = [t for o in optimizers for kept in o.state.values() for t in kept.values()]
    assert cost.states == sum(t.nbytes for t in states)
    assert cost.weights == sum(t.nbytes for t in [*model.parameters(), *model.buffers()])
    assert cost.gradients == sum(p.nbytes for p in model.parameters())
    predicted = cost.peak - cost.weights - cost.states - 2 * batch[0].nbytes
    measured = measured_peak(step, tmp_path)
    # where autograd adds in place, or nobody looks for NaN, a step needs less
    exact = kind != "alibi" and way != "label_smoothing"
    assert 0.99 < predicted / measured < (1.01 if exact else 1.15), (predicted, measured)


def kept_for_backward(model, run):
    "Bytes of the tensors that autograd keeps of `run()`, the parameters left out."
    ours, kept = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def keep(t):
        if t.untyped_storage().data_ptr() not in ours:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        assert run().isfinite().all()
    return sum(kept.values())


@pytest.mark.parametrize("kind", KINDS)
def test_activations_are_the_tensors_that_backward_waits_for(kind):
    model, batch = tiny(**KINDS[kind]), (tokens(), tokens())
    kept = kept_for_backward(model, lambda: token_loss(model(batch[0]), batch[1], "sum") * 1.0)
    counted = training_cost(model, batch).activations
    assert 0.98 < counted / kept < (1.15 if kind == "alibi" else 1.02)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_that_compute_their_activations_again_learn_the_same(kind):
    model, found = tiny(**KINDS[kind]).train(), []
    for on in (False, True):
        checkpoint_blocks(model, on)
        set_seed(1)  # of dropout
        model.zero_grad()
        loss = token_loss(model(tokens()), tokens())
        loss.backward()
        found.append([loss, *(p.grad.clone() for p in model.parameters())])
    assert all(a.equal(b) for a, b in zip(*found))


def test_fit_with_activation_checkpointing_learns_the_same():
    again = TrainingConfig(steps=3, muon_lr=None, activation_checkpointing=True)
    batches, histories = [(tokens(), tokens())] * 2, []
    for config in (again, replace(again, activation_checkpointing=False)):
        model = tiny(dropout=0.1)
        history = fit(model, batches, batches, config, progress=False, device="cpu")
        histories.append(history[["train", "valid"]])
        assert not any("forward" in vars(part) for part in model.modules())
    assert histories[0].equals(histories[1])


LONG = """
import resource, sys, torch
from accelerate import Accelerator
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.optimization import make_optimizers
from former_nb.training.training import train_step

model = LanguageModel.from_config(TransformerConfig(50, 16_384, 16, 1, 1, 32, dropout=0.0))
tokens = torch.randint(50, (1, 16_384))
optimizers = make_optimizers(model, 1e-3, None, 0.1)
most = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
before = most()
nats = train_step(model, (tokens, tokens), optimizers)
assert 2 < nats < 6
print((most() - before) * (1 if sys.platform == "darwin" else 1024))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows does not say how much memory was taken")
def test_a_text_of_16384_tokens_is_learnt_without_a_table_of_attention():
    taken = int(succeeds(LONG).split()[-1])
    assert taken < 16_384**2  # not even a boolean mask of T x T fits in


def test_parts_divide_activations_and_nothing_else():
    model, batch = tiny(), (tokens(16), tokens(16))
    parts = lambda n: TrainingConfig(gradient_accumulation_steps=n)
    one, two, four = (training_cost(model, batch, parts(n)) for n in (1, 2, 4))
    assert one.flops == two.flops == four.flops
    assert one.activations > 1.9 * two.activations > 3.6 * four.activations
    for name in ("weights", "gradients", "states"):
        assert getattr(four, name) == getattr(one, name)


def test_flops_are_those_of_the_products():
    model, (B, T), d, ff, V = tiny(), (13, 64), 64, 128, 300
    layer = 2 * B * T * (4 * d * d + 2 * d * ff)
    products = 2 * layer + 2 * B * T * d * V  # two layers and the logits, forward
    attention = 2 * 2 * B * T * T * d * 2  # two layers: scores and values
    kernel = attention + attention * 5 // 2  # forward, and five products backward
    cost = training_cost(model, (tokens(), tokens()), TrainingConfig(muon_lr=None))
    assert cost.flops == 3 * products + kernel


D, FF, B, S, T = 64, 128, 5, 40, 24  # sizes of the two models below, and of their batches
SMALL = TransformerConfig(300, 64, D, n_heads=4, n_layers=2, d_ff=FF, dropout=0.0)


def a_classifier(config=SMALL):
    "A classifier of 3 classes, a batch, and the FLOPs of its products and attention, forward."
    products = 2 * 2 * B * S * (4 * D * D + 2 * D * FF) + 2 * B * D * 3
    attention = 2 * 2 * 2 * B * S * S * D
    return (
        Classifier.from_config(config, 3),
        (tokens(B, S) + 1, torch.arange(B) % 3),
        products,
        attention,
    )


def an_encoder_decoder(config=SMALL):
    "The same of a model with two stacks. Keys and values of the cross-attention are the source's."
    reads = 2 * B * S * (4 * D * D + 2 * D * FF)
    writes = 2 * B * (T * (6 * D * D + 2 * D * FF) + S * 2 * D * D)
    products = 2 * (reads + writes) + 2 * B * T * D * 300
    attention = 2 * 2 * 2 * B * (S * S + T * T + T * S) * D
    batch = (tokens(B, S) % 299 + 1, tokens(B, T) % 299 + 1), tokens(B, T) % 299 + 1
    return EncoderDecoder.from_config(config), batch, products, attention


@pytest.mark.parametrize("make", [a_classifier, an_encoder_decoder])
def test_flops_of_other_models_are_those_of_the_products(make):
    model, batch, products, attention = make()
    config = TrainingConfig(muon_lr=None, pad=None)
    cost = training_cost(model, batch, config)
    assert cost.flops == 3 * products + attention + attention * 5 // 2


def with_pads(batch):
    "The same shapes, half of the first row without tokens."
    if isinstance(batch, tuple):
        return tuple(map(with_pads, batch))
    if batch.ndim > 1:
        batch = batch.clone()
        batch[0, batch.shape[1] // 2 :] = 0
    return batch


@pytest.mark.parametrize("make", [a_classifier, an_encoder_decoder])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_peak_of_other_models_is_that_of_a_step_without_pads(make, dropout, tmp_path):
    model, batch, *_ = make(replace(SMALL, dropout=dropout))
    config = TrainingConfig(muon_lr=None, pad=None)
    cost = training_cost(model, batch, config)
    assert cost == training_cost(model, with_pads(batch), config)  # nobody looks at the numbers
    step, _ = alone_with(model, batch, config)
    step()
    given = [*batch[0], batch[1]] if isinstance(batch[0], tuple) else batch
    predicted = cost.peak - cost.weights - cost.states - sum(t.nbytes for t in given)
    measured = measured_peak(step, tmp_path)
    assert 0.99 < predicted / measured < 1.01, (predicted, measured)


def test_bf16_needs_less_and_muon_keeps_less(monkeypatch):
    model, batch = tiny(), (tokens(), tokens())
    costs = (
        training_cost(model, batch, TrainingConfig(**WAYS[w])) for w in ("muon", "bf16", "adamw")
    )
    plain, bf16, adamw = costs
    assert bf16.activations < 0.95 * plain.activations and bf16.gradients == plain.gradients
    monkeypatch.setattr(fused, "is_short", lambda q: False)  # as on a GPU, or with longer rows
    bf16 = training_cost(model, batch, TrainingConfig(**WAYS["bf16"]))
    assert bf16.activations < 0.8 * plain.activations
    linear = [m for m in model.modules() if isinstance(m, nn.Linear) and m is not model.head]
    layers = [m.weight.nbytes for m in linear]  # the head's are the embeddings', which AdamW has
    linear, n = sum(layers), len(list(model.parameters()))
    scalars = 4 * (n - len(layers))  # a step count for each
    assert adamw.states == 2 * adamw.weights + 4 * n
    assert plain.states == linear + 2 * (plain.weights - linear) + scalars
    assert plain.update_flops > 0 == adamw.update_flops


def test_a_cost_is_said_with_three_digits_and_the_unit_that_fits():
    model = nn.Sequential(nn.Embedding(10, 16), nn.Linear(16, 10))
    batch = torch.zeros(4, 6, dtype=torch.long)
    cost = training_cost(model, (batch, batch))
    assert cost.parameters == 10 * 16 + 16 * 10 + 10 and cost.weights == 4 * cost.parameters
    first, second = str(cost).splitlines()
    assert first.startswith("330 parameters; a step: 23.0 kFLOP forward and backward, ")
    assert "weights 1.32 kB, gradients 1.32 kB" in second
    for n, said in {999: "999 B", 1000: "1.00 kB", 12_345: "12.3 kB", 10**18: "1000 PB"}.items():
        assert f"weights {said}," in str(replace(cost, weights=n))


def test_ten_billion_weights_are_asked_about_in_a_moment():
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        sizes = dict(n_heads=64, n_layers=12, d_ff=32_768, dropout=0.0)
        model = LanguageModel.from_config(TransformerConfig(50_000, 2048, 8192, **sizes))
        batch = (torch.empty(4, 2048, dtype=torch.long),) * 2
    config = TrainingConfig(muon_lr=None, gradient_accumulation_steps=4, precision="bf16")
    cost = training_cost(model, batch, config)
    assert cost.parameters > 1e10 and cost.peak > 16 * cost.parameters
    unit = 1 if sys.platform == "darwin" else 1024
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert more * unit < 512_000_000
    words = (f"{cost.parameters:,} parameters", "TFLOP", "GB at most")
    assert all(word in str(cost) for word in words)


class Pair(nn.Module):
    "Two inputs, a buffer, tied weights, a frozen weight, a class per row."

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 5)
        self.b.weight = self.a.weight
        self.a.bias.requires_grad_(False)
        self.register_buffer("shift", torch.ones(6))

    def forward(self, x, y):
        return self.c((self.b(self.a(x) + self.shift) * y).relu())


class Picky(Pair):
    def forward(self, x, y):
        return super().forward(x, y) * (2 if x.sum() > 0 else 1)


def test_other_models_and_what_is_refused():
    batch = ((torch.randn(4, 6), torch.randn(4, 6)), torch.arange(4))
    cost = training_cost(Pair(), batch, TrainingConfig(muon_lr=None, pad=None))
    weights = 36 + 6 + 30 + 5
    assert cost.parameters == weights and cost.gradients == 4 * weights
    assert cost.weights == 4 * (weights + 6 + 6)
    refuses(lambda: training_cost(Picky(), batch), ValueError, "model")
    with pytest.raises(TypeError):
        training_cost(Pair(), batch[1])
