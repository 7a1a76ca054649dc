"""What holds for schedules, optimizers and a step in parts, whatever the numbers."""

import os
import socket
from collections import Counter
from contextlib import contextmanager
from copy import deepcopy

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from process_tools import Fork
from refusals import every_row
from step_tools import BATCH, EXACT, INF, by_definition, few, many, numbers, small, step, tokens
from torch import nn
from torch.testing import assert_close

from former_nb.data.text import IGNORE
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.losses import batch_loss, call
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

BAD = [
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


def test_what_is_defined_at_the_edge():
    assert step(batch=(BATCH[0], BATCH[1] * 0 + IGNORE), loss=batch_loss) == 0
    assert SCHEDULES == {"cosine": warmup_cosine, "inverse_sqrt": warmup_inverse_sqrt}
