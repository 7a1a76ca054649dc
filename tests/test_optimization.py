"""What holds for the loss, the schedules, the optimizers and one step, whatever the numbers."""

import math
import os
import socket
import subprocess
import sys
from collections import Counter
from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from former_nb.config import TransformerConfig
from former_nb.generator import LanguageModel
from former_nb.losses import call, evaluate, token_loss, total_loss
from former_nb.optimization import (
    SCHEDULES,
    Accelerator,
    make_optimizers,
    split_batch,
    train_step,
    warmup_cosine,
    warmup_inverse_sqrt,
)
from former_nb.text import IGNORE, PAD

NAN, INF = float("nan"), float("inf")
EXACT = dict(rtol=1e-12, atol=1e-12)
many = settings(max_examples=150, deadline=None, derandomize=True, database=None)
few = settings(max_examples=40, deadline=None, derandomize=True, database=None)


def numbers(*shape, seed=0, dtype=torch.float64):
    return torch.randn(
        *shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    ).to(dtype)


def tokens(*shape, vocab=7, seed=0, low=0, ignored=0.0):
    g = torch.Generator().manual_seed(seed)
    drawn = torch.randint(low, vocab, shape, generator=g)
    return drawn.masked_fill(torch.rand(shape, generator=g) < ignored, IGNORE)


# ---------------------------------------------------------------- the loss

shapes = st.sampled_from([(), (1,), (5,), (3, 4), (2, 3, 2)])
shares = st.sampled_from([0.0, 0.05, 0.1, 0.5, 0.99])


def by_definition(logits, targets, label_smoothing, pad):
    "The sum over places and tokens of -q log p, one number after the other."
    V, total = logits.shape[-1], logits.new_zeros(())
    spread = V if pad is None else V - 1
    for z, y in zip(logits.reshape(-1, V), targets.flatten().tolist()):
        if y == IGNORE:
            continue
        log_p = z - z.exp().sum().log()
        for k in range(V):
            q = (1 - label_smoothing) * (k == y) + (0 if k == pad else label_smoothing / spread)
            total = total - q * log_p[k]
    return total


@many
@given(shapes, shares, st.sampled_from([None, 0, 3, 6]), st.integers(0, 999))
def test_the_loss_is_its_formula(shape, label_smoothing, pad, seed):
    logits, targets = (
        numbers(*shape, 7, seed=seed).requires_grad_(),
        tokens(*shape, seed=seed, ignored=0.3),
    )
    wanted = by_definition(logits, targets, label_smoothing, pad)
    total = token_loss(logits, targets, "sum", label_smoothing, pad)
    assert_close(total, wanted, **EXACT)
    count = max(1, int((targets != IGNORE).sum()))
    assert_close(token_loss(logits, targets, "mean", label_smoothing, pad), wanted / count, **EXACT)
    if wanted.requires_grad:
        slopes = [torch.autograd.grad(t, logits, retain_graph=True)[0] for t in (total, wanted)]
        assert_close(*slopes, **EXACT)


@many
@given(shapes, shares, st.integers(0, 999))
def test_without_a_pad_it_is_torchs_own(shape, label_smoothing, seed):
    logits, targets = numbers(*shape, 7, seed=seed).requires_grad_(), tokens(*shape, seed=seed)
    ours = token_loss(logits, targets, label_smoothing=label_smoothing, pad=None)
    theirs = F.cross_entropy(
        logits.reshape(-1, 7), targets.flatten(), label_smoothing=label_smoothing
    )
    assert_close(ours, theirs, **EXACT)
    assert_close(*(torch.autograd.grad(t, logits)[0] for t in (ours, theirs)), **EXACT)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("pad", [None, PAD, 3])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_gradcheck(label_smoothing, pad, reduction):
    targets = tokens(2, 3, vocab=5, low=1, ignored=0.3)
    assert torch.autograd.gradcheck(
        lambda z: token_loss(z, targets, reduction, label_smoothing, pad),
        numbers(2, 3, 5).requires_grad_(),
    )


def test_smoothing_with_a_pad_is_a_kl_divergence_up_to_a_constant():
    logits, targets, e = numbers(4, 6, 9), tokens(4, 6, vocab=9, low=1), 0.1
    q = (1 - e) * F.one_hot(targets, 9).double() + e / 8 * (torch.arange(9) != PAD).double()
    divergence = F.kl_div(logits.log_softmax(-1), q, reduction="sum")
    entropy = -torch.special.xlogy(q, q).sum()
    assert_close(token_loss(logits, targets, "sum", e), divergence + entropy, **EXACT)


def test_the_pad_gets_nothing_even_where_it_is_ruled_out():
    logits = numbers(3, 5)
    logits[:, PAD] = -INF
    logits.requires_grad_()
    loss = token_loss(logits, torch.tensor([1, 2, IGNORE]), label_smoothing=0.1)
    slope = torch.autograd.grad(loss, logits)[0]
    assert (
        loss.isfinite()
        and slope.isfinite().all()
        and slope[:, PAD].eq(0).all()
        and slope[2].eq(0).all()
    )


def test_a_target_may_be_the_pad():
    logits = numbers(2, 5)
    assert_close(
        token_loss(logits, torch.tensor([0, 1]), "sum", 0.1),
        by_definition(logits, torch.tensor([0, 1]), 0.1, 0),
        **EXACT,
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3), (2, 0)])
def test_where_nothing_counts_loss_and_slope_are_zero(shape, reduction, label_smoothing):
    logits = numbers(*shape, 5).requires_grad_()
    loss = token_loss(logits, torch.full(shape, IGNORE), reduction, label_smoothing)
    assert loss == 0 and torch.autograd.grad(loss, logits)[0].eq(0).all()


@pytest.mark.parametrize("shape", [(6,), (3, 4)])
def test_classes_and_tokens(shape):
    "(B, V) with (B,), as of a classifier, and (B, T, V) with (B, T)."
    logits, targets = numbers(*shape, 7), tokens(*shape)
    assert_close(
        token_loss(logits, targets, pad=None),
        F.cross_entropy(logits.reshape(-1, 7), targets.flatten()),
    )


@pytest.mark.parametrize("kind", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_every_kind_of_integer(kind):
    logits, targets = numbers(3, 4, 7), tokens(3, 4)
    for label_smoothing in (0.0, 0.1):
        assert_close(
            token_loss(logits, targets.to(kind), label_smoothing=label_smoothing),
            token_loss(logits, targets, label_smoothing=label_smoothing),
            rtol=0,
            atol=0,
        )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_half_precision_is_measured_in_float32(dtype, label_smoothing):
    logits, targets = numbers(40_000, 7, dtype=dtype).requires_grad_(), tokens(40_000)
    total = token_loss(
        logits, targets, "sum", label_smoothing
    )  # above 65,504, the largest number of float16
    assert total.dtype == torch.float32 and total > 70_000
    assert_close(
        total, token_loss(logits.detach().float(), targets, "sum", label_smoothing), rtol=0, atol=0
    )
    slope = torch.autograd.grad(token_loss(logits, targets, "sum", label_smoothing), logits)[0]
    assert slope.dtype == dtype and slope.isfinite().all()


def test_shapes_without_numbers():
    "What a step costs is counted on tensors that have none."
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        for label_smoothing in (0.0, 0.1):
            logits = torch.empty(3, 4, 7, requires_grad=True)
            loss = token_loss(
                logits, torch.empty(3, 4, dtype=torch.long), label_smoothing=label_smoothing
            )
            assert loss.shape == () and torch.autograd.grad(loss, logits)[0].shape == (3, 4, 7)


def test_large_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    assert (
        token_loss(logits, torch.tensor([0])) == 0 and token_loss(logits, torch.tensor([1])) == 2e4
    )


def test_other_strides():
    logits, targets = numbers(7, 4, 3).permute(2, 1, 0), tokens(4, 3).T  # (3, 4, 7), (3, 4)
    assert_close(
        token_loss(logits, targets, label_smoothing=0.1),
        token_loss(logits.contiguous(), targets.contiguous(), label_smoothing=0.1),
        rtol=0,
        atol=0,
    )


def test_the_loss_leaves_its_arguments_alone():
    logits, targets = numbers(3, 5), tokens(3, vocab=5)
    before = logits.clone(), targets.clone()
    token_loss(logits, targets, label_smoothing=0.1)
    assert torch.equal(logits, before[0]) and torch.equal(targets, before[1])


# ---------------------------------------------------------------- one number for many batches


@few
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=5),
    st.integers(0, 999),
)
def test_the_mean_does_not_depend_on_the_cut(sizes, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Dropout(0.5), nn.Linear(6, 7)).double()
    batches = [
        (tokens(*size, seed=i), tokens(*size, seed=i + 50, ignored=0.4))
        for i, size in enumerate(sizes)
    ]
    flat = [torch.cat([t.flatten() for t in side])[None] for side in zip(*batches)]
    count = int((flat[1] != IGNORE).sum())
    assume(count)
    total, counted = total_loss(model, iter(batches))
    assert counted == count and model.training and model[1].training
    assert (
        evaluate(model, batches)
        == total / count
        == pytest.approx(evaluate(model, [tuple(flat)]), rel=1e-12)
    )


def test_a_model_without_weights_or_with_buffers_only():
    class Counts(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.ones(7, 7))

        def forward(self, x):
            return self.table[x]

    class Even(nn.Module):
        def forward(self, x):
            return torch.zeros(*x.shape, 7)

    batch = tokens(2, 3), tokens(2, 3)
    assert evaluate(Counts(), [batch]) == pytest.approx(math.log(7)) == evaluate(Even(), [batch])


def test_the_modes_come_back_after_an_error():
    model = nn.Sequential(nn.Embedding(7, 7), nn.Dropout(0.5).eval())
    with pytest.raises(TypeError):
        evaluate(model, [None])
    assert model.training and not model[1].training


def test_half_precision_models_are_summed_in_float32():
    torch.manual_seed(0)
    model = nn.Embedding(7, 7).to(torch.bfloat16)
    batch = tokens(300, 50), tokens(300, 50, seed=1)
    assert evaluate(model, [batch]) == pytest.approx(
        evaluate(deepcopy(model).float(), [batch]), rel=1e-6
    )


# ---------------------------------------------------------------- schedules

lengths = st.one_of(st.integers(1, 5000), st.floats(0.01, 1e6))
warmups = st.floats(0, 1)


@many
@given(lengths, warmups, st.lists(st.floats(0, 1), min_size=2, max_size=20))
@example(1, 0.0, [0.0, 1.0])
@example(1, 1.0, [0.0, 1.0])
@example(10, 0.0, [i / 10 for i in range(11)])
@example(10, 1.0, [i / 10 for i in range(11)])
@example(0.6, 0.5, [0.0, 0.9, 1.0])
def test_schedules_stay_between_0_and_1_and_turn_once(steps, warmup, places):
    places, rise = sorted(share * steps for share in places), max(1, round(steps * warmup))
    for name, schedule in SCHEDULES.items():
        rates = [schedule(place, steps, warmup) for place in places]
        assert all(0 <= rate <= 1 for rate in rates)
        up = [rate for place, rate in zip(places, rates) if place <= rise - 1]
        down = [rate for place, rate in zip(places, rates) if place >= rise]
        assert up == sorted(up) or (name == "cosine" and steps < rise)
        assert down == sorted(down, reverse=True)
        assert all(
            rate > 0 for place, rate in zip(places, rates) if place <= steps - 1
        )  # no step is wasted
    assert warmup_cosine(steps, steps, warmup) == warmup_cosine(steps + 1, steps, warmup) == 0


@pytest.mark.parametrize("schedule", SCHEDULES.values())
@pytest.mark.parametrize(
    ("steps", "warmup", "rise"),
    [(1, 0.0, 1), (1, 1.0, 1), (20, 0.0, 1), (20, 0.1, 2), (20, 1.0, 20), (1000, 0.05, 50)],
)
def test_the_peak_is_reached_when_the_rise_is_over(schedule, steps, warmup, rise):
    assert [schedule(step, steps, warmup) for step in range(rise)] == [
        pytest.approx((step + 1) / rise) for step in range(rise)
    ]
    assert max(schedule(step, steps, warmup) for step in range(steps)) == 1


@few
@given(st.integers(1, 2000), st.integers(1, 4096), st.integers(1, 20_000))
def test_the_inverse_root_is_the_papers_rate(rise, d_model, step):
    paper = lambda s: d_model**-0.5 * min(s**-0.5, s * rise**-1.5)
    assert warmup_inverse_sqrt(step - 1, 20_000, rise / 20_000) == pytest.approx(
        paper(step) / paper(rise)
    )


def test_schedules_serve_torchs_own_scheduler():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: warmup_cosine(step, 10, 0.2)
    )
    rates = []
    for _ in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step(), scheduler.step()
    assert rates == [pytest.approx(0.3 * warmup_cosine(step, 10, 0.2)) for step in range(10)]


# ---------------------------------------------------------------- optimizers


class Mixed(nn.Module):
    "A bit of everything."

    def __init__(self, tied):
        super().__init__()
        self.embed, self.norm, self.attention = (
            nn.Embedding(9, 8),
            nn.LayerNorm(8),
            nn.MultiheadAttention(8, 2),
        )
        self.first, self.conv = nn.Linear(8, 8), nn.Conv1d(8, 8, 3)
        self.second = self.first  # one layer under two names
        self.free, self.head = nn.Parameter(torch.zeros(3)), nn.Linear(8, 9, bias=False)
        self.normed = nn.utils.parametrizations.weight_norm(
            nn.Linear(8, 8)
        )  # its weight is computed
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        if tied:
            self.head.weight = self.embed.weight


MODELS = {
    "mixed": lambda: Mixed(False),
    "tied": lambda: Mixed(True),
    "language model": lambda: LanguageModel(
        TransformerConfig(vocab_size=9, max_len=6, d_model=8, n_heads=2, n_layers=2, d_ff=16)
    ),
    "one layer": lambda: nn.Linear(3, 2),
    "one matrix": lambda: nn.Linear(3, 2, bias=False),
    "one embedding": lambda: nn.Embedding(3, 2),
}


@pytest.mark.parametrize("muon_lr", [None, 0.02])
@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_in_exactly_one_group(name, muon_lr):
    model = MODELS[name]()
    optimizers = make_optimizers(model, 1e-3, muon_lr, 0.1)
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    assert Counter(id(p) for group in groups for p in group["params"]) == Counter(
        map(id, model.parameters())
    )
    assert all(group["params"] for group in groups)
    linear = {id(m.weight) for m in model.modules() if isinstance(m, nn.Linear)} - {
        id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)
    }
    for optimizer in optimizers:
        muon = isinstance(optimizer, torch.optim.Muon)
        assert muon_lr is not None or not muon
        for group in optimizer.param_groups:
            assert group["lr"] == (muon_lr if muon else 1e-3)
            inside = {id(p) in linear for p in group["params"]}
            assert inside == {group["weight_decay"] == 0.1} and (
                muon_lr is None or inside == {muon}
            )


def test_adamw_is_fused_and_its_memory_is_short():
    for optimizer in make_optimizers(small(torch.float32), 1e-3, 0.02, 0.1) + make_optimizers(
        small(torch.float32), 1e-3, None, 0.1
    ):
        for group in optimizer.param_groups:
            assert isinstance(optimizer, torch.optim.Muon) or (
                group["fused"] is True and group["betas"] == (0.9, 0.95)
            )


def test_a_tied_matrix_is_the_embeddings_and_a_computed_one_is_left():
    model = Mixed(tied=True)
    adam, muon = make_optimizers(model, 1e-3, 0.02, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    of = lambda optimizer: {
        names[id(p)] for group in optimizer.param_groups for p in group["params"]
    }
    assert "embed.weight" in of(adam) and {"attention.in_proj_weight", "conv.weight"} < of(adam)
    assert of(muon) == {"first.weight", "frozen.weight", "attention.out_proj.weight"}


@pytest.mark.parametrize("muon_lr", [None, 0.02])
def test_the_optimizers_step_and_their_states_can_be_loaded(muon_lr):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
    optimizers, accelerator, batch = (
        make_optimizers(model, 1e-2, muon_lr, 0.1),
        Accelerator(device_placement=False, cpu=True),
        (tokens(6, 4), tokens(6, 4, seed=1)),
    )
    losses = [train_step(model, [batch], 24, optimizers, accelerator).item() for _ in range(20)]
    assert losses[-1] < losses[0] - 1
    twin = deepcopy(model)
    again = make_optimizers(twin, 1e-2, muon_lr, 0.1)
    for a, b in zip(again, optimizers):
        a.load_state_dict(deepcopy(b.state_dict()))
    for m, o in ((model, optimizers), (twin, again)):
        train_step(m, [batch], 24, o, accelerator)
    assert_close(twin.state_dict(), model.state_dict(), rtol=0, atol=0)


# ---------------------------------------------------------------- cuts and steps


@many
@given(st.integers(1, 9), st.integers(1, 14), st.integers(0, 99))
def test_a_cut_holds_each_row_once(B, n, seed):
    inputs, more, targets = (
        tokens(B, 5, seed=seed),
        numbers(B, 2, 3, seed=seed),
        tokens(B, 5, seed=seed + 1, ignored=0.3),
    )
    parts = split_batch(((inputs, [more]), targets), n)
    assert len(parts) == n and all(
        len(t) >= 1 and len(x[0]) == len(x[1][0]) == len(t) for x, t in parts
    )
    real = [(x, t) for i, (x, t) in enumerate(parts) if B * (i + 1) // n > B * i // n]
    empty = [(x, t) for i, (x, t) in enumerate(parts) if B * (i + 1) // n == B * i // n]
    for whole, cut in (
        (inputs, [x[0] for x, _ in real]),
        (more, [x[1][0] for x, _ in real]),
        (targets, [t for _, t in real]),
    ):
        assert torch.cat(cut).equal(whole)
    assert all(t.eq(IGNORE).all() and x[0].equal(inputs[:1]) for x, t in empty)
    sizes = [len(t) for _, t in real]
    assert max(sizes) - min(sizes) <= 1


def small(dtype=torch.float64):
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 7)).to(dtype)


class Pair(nn.Module):
    "A model of two inputs."

    def __init__(self):
        super().__init__()
        self.inner = small()

    def forward(self, a, b):
        return self.inner(a) + b


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(
    B=st.integers(1, 8),
    n=st.integers(2, 12),
    ignored=st.sampled_from([0.0, 0.5, 0.95]),
    label_smoothing=st.sampled_from([0.0, 0.1]),
    pad=st.sampled_from([None, 0, 3]),
    max_grad_norm=st.sampled_from([0.05, 1.0, INF]),
    pair=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_step_in_parts_is_the_step(
    B, n, ignored, label_smoothing, pad, max_grad_norm, pair, seed
):
    accelerator = Accelerator(device_placement=False, cpu=True)
    inputs, targets = tokens(B, 5, seed=seed), tokens(B, 5, seed=seed + 1, ignored=ignored)
    batch = ((inputs, numbers(B, 5, 7, seed=seed)) if pair else inputs, targets)
    count, ends = int((targets != IGNORE).sum()), []
    for parts in (1, n):
        model = Pair() if pair else small()
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)]
        nats = [
            train_step(
                model,
                split_batch(batch, parts),
                count,
                optimizers,
                accelerator,
                max_grad_norm,
                label_smoothing=label_smoothing,
                pad=pad,
            )
            for _ in range(3)
        ]
        ends.append([torch.stack(nats), *(p.detach() for p in model.parameters())])
    assert_close(*ends, **EXACT)
    if max_grad_norm == INF:  # and it is the step that PyTorch makes by hand
        model = Pair() if pair else small()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            (
                by_definition(call(model, batch[0]), targets, label_smoothing, pad) / max(count, 1)
                + 0 * sum(p.sum() for p in model.parameters())
            ).backward()
            optimizer.step()
        assert_close([p.detach() for p in model.parameters()], ends[0][1:], **EXACT)


def test_muon_and_adamw_step_alike_in_parts():
    accelerator, batch, ends = (
        Accelerator(device_placement=False, cpu=True),
        (tokens(11, 6), tokens(11, 6, seed=1, ignored=0.4)),
        [],
    )
    count = int((batch[1] != IGNORE).sum())
    for n in (1, 4, 30):
        # in float64: what rounds differently in float32, Muon would round to bfloat16 and enlarge
        model = small()
        optimizers = make_optimizers(model, 1e-2, 0.02, 0.1)
        for _ in range(3):
            train_step(model, split_batch(batch, n), count, optimizers, accelerator)
        ends.append([p.detach() for p in model.parameters()])
    for other in ends[1:]:
        assert_close(other, ends[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("max_grad_norm", [0.01, 1.0])
def test_the_clip_holds_for_the_whole_batch(max_grad_norm):
    accelerator, batch = (
        Accelerator(device_placement=False, cpu=True),
        (tokens(6, 4), tokens(6, 4, seed=1)),
    )
    for n in (1, 3):
        model, before = small(), [p.detach().clone() for p in small().parameters()]
        train_step(
            model,
            split_batch(batch, n),
            24,
            [torch.optim.SGD(model.parameters(), lr=100.0)],
            accelerator,
            max_grad_norm,
        )
        moved = (
            torch.cat(
                [(p.detach() - b).flatten() for p, b in zip(model.parameters(), before)]
            ).norm()
            / 100
        )
        assert moved <= max_grad_norm * (1 + 1e-6) and (
            max_grad_norm == 1.0 or moved == pytest.approx(max_grad_norm, rel=1e-3)
        )


@pytest.mark.parametrize("n", [1, 3])
def test_processes_talk_once_in_a_step(n):
    accelerator, quiet, slopes = Accelerator(device_placement=False, cpu=True), [], []
    no_sync, backward = accelerator.no_sync, accelerator.backward
    accelerator.no_sync = lambda model: (quiet.append(len(slopes)), no_sync(model))[1]
    accelerator.backward = lambda loss: (slopes.append(loss.detach()), backward(loss))[1]
    model = small()
    train_step(
        model,
        split_batch((tokens(6, 4), tokens(6, 4, seed=1)), n),
        24,
        [torch.optim.SGD(model.parameters(), lr=0.1)],
        accelerator,
    )
    assert len(slopes) == n and quiet == list(range(n - 1))  # all but the last part are silent


def test_what_an_interrupted_step_left_is_forgotten():
    accelerator, batch = (
        Accelerator(device_placement=False, cpu=True),
        (tokens(6, 4), tokens(6, 4, seed=1)),
    )
    ends = []
    for dirt in (None, 1e6):
        model = small()
        optimizers = [
            torch.optim.SGD(model[3].parameters(), lr=0.5)
        ]  # of some weights only: the others' slopes must not pile up
        for _ in range(3):
            if dirt:
                for p in model.parameters():
                    p.grad = torch.full_like(p, dirt)
            train_step(model, [batch], 24, optimizers, accelerator)
        assert all(p.grad is None for p in model.parameters())
        ends.append([p.detach() for p in model.parameters()])
    assert_close(*ends, rtol=0, atol=0)


def test_a_step_turns_dropout_on():
    model = nn.Sequential(nn.Embedding(7, 7), nn.Dropout(0.5)).eval()
    train_step(
        model,
        [(tokens(3, 4), tokens(3, 4))],
        12,
        [torch.optim.SGD(model.parameters(), lr=0.1)],
        Accelerator(device_placement=False, cpu=True),
    )
    assert model.training and model[1].training


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_what_sixteen_bits_touch(precision):
    model, seen = small(torch.float32), []
    model[3].register_forward_hook(lambda layer, given, out: seen.append(out.dtype))
    model[3].weight.register_hook(lambda slope: seen.append(slope.dtype))
    optimizers = make_optimizers(model, 1e-3, None, 0.0)
    nats = train_step(
        model,
        [(tokens(3, 4), tokens(3, 4))],
        12,
        optimizers,
        Accelerator(device_placement=False, cpu=True),
        precision=precision,
    )
    states = [t.dtype for o in optimizers for state in o.state.values() for t in state.values()]
    assert seen == [torch.bfloat16 if precision == "bf16" else torch.float32, torch.float32]
    assert {nats.dtype, *(p.dtype for p in model.parameters()), *states} == {torch.float32}


STEPS = """
import sys, torch
from torch import nn
from former_nb.text import IGNORE
from former_nb.optimization import Accelerator, split_batch, train_step

def steps(each):  # parts on each process
    accelerator = Accelerator(device_placement=False, cpu=True)
    rank, world = accelerator.process_index, accelerator.num_processes
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 7)).double()
    trained, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    for _ in range(4):
        inputs, targets = torch.randint(7, (5, 3)), torch.randint(7, (5, 3))  # the same on every process
        targets[torch.rand(5, 3) < 0.4] = IGNORE
        parts = split_batch((inputs, targets), world * each)[rank * each :][:each]
        train_step(trained, parts, (targets != IGNORE).sum().item(), [optimizer], accelerator, max_grad_norm=0.1, label_smoothing=0.1)
    return torch.cat([p.detach().flatten() for p in model.parameters()])
"""


@pytest.mark.skipif(
    sys.platform == "win32", reason="processes that talk need more than this on Windows"
)
def test_two_processes_make_the_step_of_one(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    code, running = STEPS + "\ntorch.save([steps(1), steps(4)], sys.argv[1])", []
    for rank in range(2):
        more = dict(
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            OMP_NUM_THREADS="1",
            CUDA_VISIBLE_DEVICES="",
        )
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", code, str(tmp_path / f"{rank}.pt")],
                env=os.environ | more,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    for process in running:
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 0, said
    alone = {}
    exec(STEPS, alone)
    whole = alone["steps"](1)
    for rank in range(2):
        for other in torch.load(tmp_path / f"{rank}.pt", weights_only=True):
            assert_close(other, whole, **EXACT)


# ---------------------------------------------------------------- bad input

L, Y = numbers(2, 3, 5), torch.tensor([[1, 2, 4], [3, IGNORE, IGNORE]])
BATCH = tokens(4, 3), tokens(4, 3)


def step(**kwargs):
    model = small()
    given = dict(
        model=model,
        parts=[BATCH],
        count=12,
        optimizers=[torch.optim.SGD(model.parameters(), lr=0.1)],
        accelerator=Accelerator(device_placement=False, cpu=True),
    )
    return train_step(**(given | kwargs))


BAD = {
    "logits of another shape": (ValueError, "targets", lambda: token_loss(L.mT, Y)),
    "one-hot targets": (TypeError, "targets", lambda: token_loss(L, torch.zeros(2, 3, 5))),
    "targets of floats": (TypeError, "targets", lambda: token_loss(L, Y.double())),
    "booleans": (TypeError, "targets", lambda: token_loss(L, Y == 1)),
    "reduction": (ValueError, "reduction", lambda: token_loss(L, Y, "none")),
    "smoothing of 1": (
        ValueError,
        "label_smoothing",
        lambda: token_loss(L, Y, label_smoothing=1.0),
    ),
    "smoothing below 0": (
        ValueError,
        "label_smoothing",
        lambda: token_loss(L, Y, label_smoothing=-0.1),
    ),
    "pad of -1": (ValueError, "pad", lambda: token_loss(L, Y, label_smoothing=0.1, pad=-1)),
    "pad of V": (ValueError, "pad", lambda: token_loss(L, Y, label_smoothing=0.1, pad=5)),
    "the pad alone": (
        ValueError,
        "pad",
        lambda: token_loss(L[..., :1], Y * 0, label_smoothing=0.1),
    ),
    "nothing to evaluate": (ValueError, "batches", lambda: evaluate(small(), [])),
    "n of 0": (ValueError, "n", lambda: split_batch(BATCH, 0)),
    "n of 1.5": (TypeError, "n", lambda: split_batch(BATCH, 1.5)),
    "no pair": (TypeError, "batch", lambda: split_batch(BATCH[1][:2], 2)),
    "no rows": (ValueError, "targets", lambda: split_batch((BATCH[0][:0], BATCH[1][:0]), 2)),
    "more inputs": (ValueError, "inputs", lambda: split_batch((BATCH[0], BATCH[1][:3]), 2)),
}


@pytest.mark.parametrize(("kind", "name", "wrong"), BAD.values(), ids=BAD)
def test_bad_input_is_named(kind, name, wrong):
    with pytest.raises(kind, match=f"^{name}: "):
        wrong()


@pytest.mark.parametrize("bad", [5, -1, -99, 10**9])
def test_a_target_that_is_no_token_is_refused(bad):
    with pytest.raises((ValueError, IndexError)):
        token_loss(L, torch.where(Y == 2, bad, Y))


def test_what_is_defined_at_the_edge():
    assert token_loss(L, Y, pad=99).isfinite() and token_loss(L * NAN, Y).isnan()
    assert token_loss(L[:0], Y[:0]) == 0 and total_loss(small(), []) == (0.0, 0)
    assert step(parts=[(BATCH[0], BATCH[1] * 0 + IGNORE)], count=0) == 0
    assert SCHEDULES == {"cosine": warmup_cosine, "inverse_sqrt": warmup_inverse_sqrt}
