"""What holds for the loss, the schedules, the optimizers and one step, whatever the numbers."""

import os
import socket
from collections import Counter
from contextlib import contextmanager
from copy import deepcopy
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from process_tools import Fork
from refusals import every_row, refuses
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.testing import assert_close

from former_nb.data.text import IGNORE, PAD
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training import losses
from former_nb.training.losses import batch_loss, call, evaluate, token_loss, total_loss
from former_nb.training.optimization import (
    SCHEDULES,
    in_parts,
    make_optimizers,
    smoothed,
    split_batch,
    to_model,
    warmup_cosine,
    warmup_inverse_sqrt,
    with_precision,
)
from former_nb.training.training import train_step

NAN, INF = float("nan"), float("inf")
EXACT = dict(rtol=1e-12, atol=1e-12)
many = settings(max_examples=60, deadline=None, derandomize=True, database=None)
few = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def numbers(*shape, seed=0, dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=g, dtype=torch.float64).to(dtype)


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
    logits = numbers(*shape, 7, seed=seed).requires_grad_()
    targets = tokens(*shape, seed=seed, ignored=0.3)
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
    how = dict(label_smoothing=label_smoothing)
    theirs = F.cross_entropy(logits.reshape(-1, 7), targets.flatten(), **how)
    assert_close(ours, theirs, **EXACT)
    assert_close(*(torch.autograd.grad(t, logits)[0] for t in (ours, theirs)), **EXACT)


@pytest.mark.parametrize(("pad", "reduction"), [(None, "mean"), (PAD, "sum"), (3, "mean")])
def test_gradcheck(pad, reduction):
    targets, z = tokens(2, 3, vocab=5, low=1, ignored=0.3), numbers(2, 3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda z: token_loss(z, targets, reduction, 0.1, pad), z)


def test_the_pad_gets_nothing_even_where_it_is_ruled_out():
    logits = numbers(3, 5)
    logits[:, PAD] = -INF
    logits.requires_grad_()
    loss = token_loss(logits, torch.tensor([1, 2, IGNORE]), label_smoothing=0.1)
    slope = torch.autograd.grad(loss, logits)[0]
    assert loss.isfinite() and slope.isfinite().all()
    assert slope[:, PAD].eq(0).all() and slope[2].eq(0).all()


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 3), (2, 0)])
def test_where_nothing_counts_loss_and_slope_are_zero(shape, reduction, label_smoothing):
    logits = numbers(*shape, 5).requires_grad_()
    loss = token_loss(logits, torch.full(shape, IGNORE), reduction, label_smoothing)
    assert loss == 0 and torch.autograd.grad(loss, logits)[0].eq(0).all()


def test_every_kind_of_integer_and_other_strides():
    logits, targets = numbers(7, 4, 3).permute(2, 1, 0), tokens(4, 3).T  # (3, 4, 7), (3, 4)
    wanted = token_loss(logits.contiguous(), targets.contiguous(), label_smoothing=0.1)
    for kind in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        found = token_loss(logits, targets.to(kind), label_smoothing=0.1)
        assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing, pad", [(0.0, 0), (0.1, 0), (0.1, 3), (0.1, None)])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_a_few_rows_at_a_time_give_the_loss_and_gradient_of_all(
    reduction, label_smoothing, pad, dtype, monkeypatch
):
    "Also where the last part is shorter, and where one row is larger than a part."
    targets = tokens(3, 5, low=1, ignored=0.3)
    how = dict(reduction=reduction, label_smoothing=label_smoothing, pad=pad)
    results = []
    for at_once in (2**24, 4 * 7, 1):
        monkeypatch.setattr(losses, "AT_ONCE", at_once)
        logits = numbers(3, 5, 7, dtype=dtype).requires_grad_()
        loss = token_loss(logits, targets, **how)
        results.append((loss, torch.autograd.grad(loss, logits)[0]))
    (loss, gradient), *others = results
    for other_loss, other_gradient in others:
        assert_close(other_loss, loss)
        assert other_gradient.equal(gradient) and gradient.dtype == dtype


def most_memory(loss, n=1024, V=32_000):
    "What forward and backward hold at most, in tables of all logits."
    logits = torch.randn(n, V, requires_grad=True)
    targets = torch.randint(1, V, (n,))
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        loss(logits * 1, targets).backward()
    events = [e for e in seen.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most / logits.nbytes


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_the_loss_of_a_large_vocabulary_keeps_a_table_less_than_torchs(label_smoothing):
    theirs = most_memory(partial(F.cross_entropy, label_smoothing=label_smoothing))
    ours = most_memory(partial(token_loss, label_smoothing=label_smoothing))
    assert 2.9 < theirs < 3.1 and 1.9 < ours < 2.1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_half_precision_is_measured_in_float32(dtype, label_smoothing):
    logits, targets = numbers(40_000, 7, dtype=dtype).requires_grad_(), tokens(40_000)
    total = token_loss(logits, targets, "sum", label_smoothing)
    assert total.dtype == torch.float32 and total > 70_000  # float16 ends at 65,504
    wanted = token_loss(logits.detach().float(), targets, "sum", label_smoothing)
    assert_close(total, wanted, rtol=0, atol=0)
    slope = torch.autograd.grad(token_loss(logits, targets, "sum", label_smoothing), logits)[0]
    assert slope.dtype == dtype and slope.isfinite().all()


def test_shapes_without_numbers():
    "What a step costs is counted on tensors that have none."
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        for smoothing in (0.0, 0.1):
            logits = torch.empty(3, 4, 7, requires_grad=True)
            loss = token_loss(logits, torch.empty(3, 4).long(), label_smoothing=smoothing)
            assert loss.shape == () and torch.autograd.grad(loss, logits)[0].shape == (3, 4, 7)


def test_large_logits_do_not_overflow():
    logits = torch.tensor([[1e4, -1e4, 0.0]])
    assert token_loss(logits, torch.tensor([0])) == 0
    assert token_loss(logits, torch.tensor([1])) == 2e4


# ---------------------------------------------------------------- one number for many batches


@few
@given(
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=5),
    st.integers(0, 999),
)
def test_the_mean_does_not_depend_on_the_cut(sizes, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Dropout(0.5), nn.Linear(6, 7)).double()
    pair = lambda i, size: (tokens(*size, seed=i), tokens(*size, seed=i + 50, ignored=0.4))
    batches = [pair(i, size) for i, size in enumerate(sizes)]
    flat = [torch.cat([t.flatten() for t in side])[None] for side in zip(*batches)]
    count = int((flat[1] != IGNORE).sum())
    assume(count)
    total, counted = total_loss(model, iter(batches)).tolist()
    assert counted == count and model.training and model[1].training
    assert evaluate(model, batches) == total / count
    assert evaluate(model, [tuple(flat)]) == pytest.approx(total / count, rel=1e-12)


def test_the_modes_come_back_after_an_error():
    model = nn.Sequential(nn.Embedding(7, 7), nn.Dropout(0.5).eval())
    with pytest.raises(TypeError):
        evaluate(model, [None])
    assert model.training and not model[1].training


def test_half_precision_models_are_summed_in_float32():
    torch.manual_seed(0)
    model = nn.Embedding(7, 7).to(torch.bfloat16)
    batch = tokens(300, 50), tokens(300, 50, seed=1)
    wanted = evaluate(deepcopy(model).float(), [batch])
    assert evaluate(model, [batch]) == pytest.approx(wanted, rel=1e-6)


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
        # no step is wasted
        assert all(rate > 0 for place, rate in zip(places, rates) if place <= steps - 1)
    assert warmup_cosine(steps, steps, warmup) == warmup_cosine(steps + 1, steps, warmup) == 0


@pytest.mark.parametrize("schedule", SCHEDULES.values())
@pytest.mark.parametrize(
    ("steps", "warmup", "rise"),
    [(1, 0.0, 1), (1, 1.0, 1), (20, 0.0, 1), (20, 0.1, 2), (20, 1.0, 20), (1000, 0.05, 50)],
)
def test_the_peak_is_reached_when_the_rise_is_over(schedule, steps, warmup, rise):
    rates = [schedule(step, steps, warmup) for step in range(rise)]
    assert rates == pytest.approx([(step + 1) / rise for step in range(rise)])
    assert max(schedule(step, steps, warmup) for step in range(steps)) == 1


def test_the_fall_is_half_a_cosine():
    quarters = [warmup_cosine(step, 100, 0.2) for step in (20, 40, 60, 80)]
    assert quarters == pytest.approx([1, (2 + 2**0.5) / 4, 0.5, (2 - 2**0.5) / 4])


@few
@given(st.integers(1, 2000), st.integers(1, 4096), st.integers(1, 20_000))
def test_the_inverse_root_is_the_papers_rate(rise, d_model, step):
    paper = lambda s: d_model**-0.5 * min(s**-0.5, s * rise**-1.5)
    rate = warmup_inverse_sqrt(step - 1, 20_000, rise / 20_000)
    assert rate == pytest.approx(paper(step) / paper(rise))


# ---------------------------------------------------------------- optimizers


class Mixed(nn.Module):
    "A bit of everything."

    def __init__(self, tied):
        super().__init__()
        self.embed, self.norm = nn.Embedding(9, 8), nn.LayerNorm(8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.first, self.conv = nn.Linear(8, 8), nn.Conv1d(8, 8, 3)
        self.second = self.first  # one layer under two names
        self.free, self.head = nn.Parameter(torch.zeros(3)), nn.Linear(8, 9, bias=False)
        # its weight is computed
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(8, 8))
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        if tied:
            self.head.weight = self.embed.weight


MODELS = {
    "mixed": lambda: Mixed(False),
    "tied": lambda: Mixed(True),
    "language model": lambda: LanguageModel.from_config(
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
    found = Counter(id(p) for group in groups for p in group["params"])
    assert found == Counter(map(id, model.parameters())) and all(g["params"] for g in groups)
    of = lambda kind: {id(m.weight) for m in model.modules() if isinstance(m, kind)}
    linear = of(nn.Linear) - of(nn.Embedding)
    for optimizer in optimizers:
        muon = isinstance(optimizer, torch.optim.Muon)
        assert muon_lr is not None or not muon
        for group in optimizer.param_groups:
            assert group["lr"] == (muon_lr if muon else 1e-3)
            inside = {id(p) in linear for p in group["params"]}
            assert inside == {group["weight_decay"] == 0.1}
            assert muon_lr is None or inside == {muon}


def test_adamw_is_fused_and_its_memory_is_short():
    for muon_lr in (0.02, None):
        adam = make_optimizers(small(torch.float32), 1e-3, muon_lr, 0.1)[0]
        for group in adam.param_groups:
            assert group["fused"] is True and group["betas"] == (0.9, 0.95)


def test_a_tied_matrix_is_the_embeddings_and_a_computed_one_is_left():
    model = Mixed(tied=True)
    adam, muon = make_optimizers(model, 1e-3, 0.02, 0.1)
    names = {id(p): name for name, p in model.named_parameters()}
    parameters = lambda o: [p for group in o.param_groups for p in group["params"]]
    of = lambda optimizer: {names[id(p)] for p in parameters(optimizer)}
    assert "embed.weight" in of(adam) and {"attention.in_proj_weight", "conv.weight"} < of(adam)
    assert of(muon) == {"first.weight", "frozen.weight", "attention.out_proj.weight"}


@pytest.mark.parametrize("muon_lr", [None, 0.02])
def test_the_optimizers_step_and_their_states_can_be_loaded(muon_lr):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7))
    optimizers = make_optimizers(model, 1e-2, muon_lr, 0.1)
    batch = tokens(6, 4), tokens(6, 4, seed=1)
    nats = [24 * train_step(model, batch, optimizers).item() for _ in range(20)]
    assert nats[-1] < nats[0] - 1
    twin = deepcopy(model)
    again = make_optimizers(twin, 1e-2, muon_lr, 0.1)
    for a, b in zip(again, optimizers):
        a.load_state_dict(deepcopy(b.state_dict()))
    for m, o in ((model, optimizers), (twin, again)):
        train_step(m, batch, o)
    assert_close(twin.state_dict(), model.state_dict(), rtol=0, atol=0)


# ---------------------------------------------------------------- cuts and steps


@many
@given(st.integers(1, 9), st.integers(1, 14), st.integers(0, 99))
def test_a_cut_holds_each_row_once(B, n, seed):
    inputs, more = tokens(B, 5, seed=seed), numbers(B, 2, 3, seed=seed)
    targets = tokens(B, 5, seed=seed + 1, ignored=0.3)
    parts = split_batch(((inputs, [more]), targets), n)
    assert len(parts) == n and all(len(t) >= 1 for _, t in parts)
    assert all(len(x[0]) == len(x[1][0]) == len(t) for x, t in parts)
    real = [(x, t) for i, (x, t) in enumerate(parts) if B * (i + 1) // n > B * i // n]
    empty = [(x, t) for i, (x, t) in enumerate(parts) if B * (i + 1) // n == B * i // n]
    assert torch.cat([x[0] for x, _ in real]).equal(inputs)
    assert torch.cat([x[1][0] for x, _ in real]).equal(more)
    assert torch.cat([t for _, t in real]).equal(targets)
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


@settings(max_examples=25, deadline=None, derandomize=True, database=None)
@given(
    B=st.integers(1, 8),
    n=st.integers(2, 12),
    ignored=st.sampled_from([0.0, 0.5, 0.95]),
    smoothing=st.sampled_from([0.0, 0.1]),
    pad=st.sampled_from([None, 0, 3]),
    max_grad_norm=st.sampled_from([0.05, 1.0, INF]),
    pair=st.booleans(),
    seed=st.integers(0, 99),
)
def test_a_step_in_parts_is_the_step(B, n, ignored, smoothing, pad, max_grad_norm, pair, seed):
    inputs, targets = tokens(B, 5, seed=seed), tokens(B, 5, seed=seed + 1, ignored=ignored)
    batch = ((inputs, numbers(B, 5, 7, seed=seed)) if pair else inputs, targets)
    count, ends = int((targets != IGNORE).sum()), []

    def made():
        model = Pair() if pair else small()
        return model, torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    for parts in (1, n):
        model, optimizer = made()
        loss = in_parts(smoothed(batch_loss, smoothing, pad), parts)
        nats = [train_step(model, batch, optimizer, loss, max_grad_norm) for _ in range(3)]
        ends.append([torch.stack(nats), *(p.detach() for p in model.parameters())])
    assert_close(*ends, **EXACT)
    if max_grad_norm == INF:  # and it is the step that PyTorch makes by hand
        model, optimizer = made()
        for _ in range(3):
            optimizer.zero_grad()
            loss = by_definition(call(model, batch[0]), targets, smoothing, pad) / max(count, 1)
            (loss + 0 * sum(p.sum() for p in model.parameters())).backward()
            optimizer.step()
        assert_close([p.detach() for p in model.parameters()], ends[0][1:], **EXACT)


def test_muon_and_adamw_step_alike_in_parts():
    batch, ends = (tokens(11, 6), tokens(11, 6, seed=1, ignored=0.4)), []
    for n in (1, 4, 30):
        # in float64: what rounds differently in float32, Muon would round to bfloat16 and enlarge
        model = small()
        optimizers = make_optimizers(model, 1e-2, 0.02, 0.1)
        for _ in range(3):
            train_step(model, batch, optimizers, in_parts(batch_loss, n))
        ends.append([p.detach() for p in model.parameters()])
    for other in ends[1:]:
        assert_close(other, ends[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("max_grad_norm", [0.01, 1.0])
def test_the_clip_holds_for_the_whole_batch(max_grad_norm):
    for n in (1, 3):
        model, before = small(), [p.detach().clone() for p in small().parameters()]
        batch = tokens(6, 4), tokens(6, 4, seed=1)
        optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
        train_step(model, batch, optimizer, in_parts(batch_loss, n), max_grad_norm)
        moved = [(p.detach() - b).flatten() for p, b in zip(model.parameters(), before)]
        moved = torch.cat(moved).norm() / 100
        assert moved <= max_grad_norm * (1 + 1e-6)
        assert max_grad_norm == 1.0 or moved == pytest.approx(max_grad_norm, rel=1e-3)


@pytest.mark.parametrize("n", [1, 3])
def test_processes_talk_once_in_a_step(n):
    slopes, silent = [], []
    model = small()
    model[3].weight.register_hook(lambda slope: slopes.append(len(silent) % 2))

    @contextmanager
    def quiet(model):
        silent.append("begins")
        yield
        silent.append("ends")

    step(model=model, loss=in_parts(batch_loss, n, quiet))
    assert slopes == [1] * (n - 1) + [0]  # all but the last part are silent


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


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_what_sixteen_bits_touch(precision):
    model, seen = small(torch.float32), []
    model[3].register_forward_hook(lambda layer, given, out: seen.append(out.dtype))
    model[3].weight.register_hook(lambda slope: seen.append(slope.dtype))
    optimizers = make_optimizers(model, 1e-3, None, 0.0)
    nats = step(model=model, optimizer=optimizers, loss=with_precision(batch_loss, precision))
    states = [t.dtype for o in optimizers for state in o.state.values() for t in state.values()]
    assert seen == [torch.bfloat16 if precision == "bf16" else torch.float32, torch.float32]
    assert {nats.dtype, *(p.dtype for p in model.parameters()), *states} == {torch.float32}


STEPS = """
import sys, torch
from torch import nn
from former_nb.data.text import IGNORE
from former_nb.training.optimization import in_parts, over_processes, smoothed
from former_nb.training.processes import Accelerator
from former_nb.training.losses import batch_loss
from former_nb.training.training import train_step

def steps(each):  # parts on each process
    accelerator = Accelerator(device_placement=False, cpu=True)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(7, 6), nn.Linear(6, 7)).double()
    trained, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    loss = over_processes(smoothed(batch_loss, 0.1, 0), accelerator)
    loss = in_parts(loss, each, accelerator.no_sync)
    for _ in range(4):
        inputs, targets = torch.randint(7, (5, 3)), torch.randint(7, (5, 3))  # alike everywhere
        targets[torch.rand(5, 3) < 0.4] = IGNORE
        train_step(trained, (inputs, targets), optimizer, loss, max_grad_norm=0.1)
    return torch.cat([p.detach().flatten() for p in model.parameters()])
"""


@pytest.mark.skipif(os.name == "nt", reason="processes that talk need more than this on Windows")
def test_two_processes_make_the_step_of_one(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    code = STEPS + "\ntorch.save([steps(1), steps(4)], sys.argv[1])"
    env = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    places = [env | dict(RANK=str(rank), LOCAL_RANK=str(rank)) for rank in range(2)]
    two = [Fork(code, tmp_path / f"{i}.pt", env=place) for i, place in enumerate(places)]
    for done in [process.wait() for process in two]:
        assert done.returncode == 0, done.stderr
    here = {}
    exec(STEPS, here)
    whole = here["steps"](1)
    for rank in range(2):
        for other in torch.load(tmp_path / f"{rank}.pt", weights_only=True):
            assert_close(other, whole, **EXACT)


# ---------------------------------------------------------------- bad input

L, Y = numbers(2, 3, 5), torch.tensor([[1, 2, 4], [3, IGNORE, IGNORE]])
BATCH = tokens(4, 3), tokens(4, 3)


def step(**kwargs):
    model = small()
    model = kwargs.get("model", model)
    given = dict(
        model=model,
        batch=BATCH,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    )
    return train_step(**(given | kwargs))


BAD = [
    ("logits of another shape", lambda: token_loss(L.mT, Y), ValueError, "targets"),
    ("one-hot targets", lambda: token_loss(L, torch.zeros(2, 3, 5)), TypeError, "targets"),
    ("targets of floats", lambda: token_loss(L, Y.double()), TypeError, "targets"),
    ("reduction", lambda: token_loss(L, Y, "none"), ValueError, "reduction"),
    ("smoothing", lambda: token_loss(L, Y, label_smoothing=1.0), ValueError, "label_smoothing"),
    ("pad of V", lambda: token_loss(L, Y, label_smoothing=0.1, pad=5), ValueError, "pad"),
    (
        "the pad alone",
        lambda: token_loss(L[..., :1], Y * 0, label_smoothing=0.1),
        ValueError,
        "pad",
    ),
    ("nothing to evaluate", lambda: evaluate(small(), []), ValueError, "batches"),
    ("n of 0", lambda: split_batch(BATCH, 0), ValueError, "n"),
    ("no pair", lambda: split_batch(BATCH[1][:2], 2), TypeError, "batch"),
    ("no rows", lambda: split_batch((BATCH[0][:0], BATCH[1][:0]), 2), ValueError, "targets"),
    (
        "a loss that is a number",
        lambda: to_model(lambda m, b: 3.0)(small(), BATCH),
        TypeError,
        "loss",
    ),
    (
        "a loss for each target",
        lambda: to_model(lambda m, b: m(b[0]).mean(-1))(small(), BATCH),
        TypeError,
        "loss",
    ),
    (
        "a loss without a gradient",
        lambda: to_model(lambda m, b: batch_loss(m, b).detach())(small(), BATCH),
        TypeError,
        "loss",
    ),
    (
        "a loss that cannot be smoothed",
        lambda: smoothed(lambda m, b: 3.0, 0.1, 0),
        ValueError,
        "label_smoothing",
    ),
    ("more inputs", lambda: split_batch((BATCH[0], BATCH[1][:3]), 2), ValueError, "inputs"),
]
test_bad_input_is_named = every_row(BAD)


@pytest.mark.parametrize("bad", [5, -1, -99, 10**9])
def test_a_target_that_is_no_token_is_refused(bad):
    wrong = torch.where(Y == 2, bad, Y)
    refuses(lambda: token_loss(L, wrong), ValueError, "targets", str(bad))


def test_what_is_defined_at_the_edge():
    assert token_loss(L, Y, pad=99).isfinite() and token_loss(L * NAN, Y).isnan()
    assert token_loss(L[:0], Y[:0]) == 0 and total_loss(small(), []).tolist() == [0, 0]
    assert step(batch=(BATCH[0], BATCH[1] * 0 + IGNORE), loss=batch_loss) == 0
    assert SCHEDULES == {"cosine": warmup_cosine, "inverse_sqrt": warmup_inverse_sqrt}
