"""`fit` on several processes and machines: real processes, real sockets, real signals. And what a
step costs, against what it does.
"""

import importlib.util
import json
import os
import re
import shutil
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from process_tools import Fork
from torch import nn
from torch.profiler import ProfilerActivity, profile

from former_nb.checkpoints import read_checkpoint
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.costs import training_cost
from former_nb.generator import LanguageModel
from former_nb.losses import token_loss
from former_nb.optimization import make_optimizers, split_batch, train_step
from former_nb.runs import make_run, start_processes
from former_nb.saving import load_model
from former_nb.scaling import all_reduce_bytes, step_seconds
from former_nb.sharding import sharding_wanted
from former_nb.training_config import TrainingConfig

processes = pytest.mark.skipif(
    os.name == "nt", reason="the signals and limits of these tests are those of Linux and macOS"
)
NEAR = 1e-9  # nats between two curves; models in float64, so that Muon rounds both alike
# seconds: torch itself waits for 300 or more where nothing ends a process that has lost the others
HANGS = 240

WORKER = '''
import json, os, signal, sys, time
from pathlib import Path

import former_nb.resuming as resuming
import former_nb.runs as runs
import former_nb.saving as saving
import former_nb.toy_data as toy_data
import former_nb.training as training
from former_nb.batches import make_batches
from former_nb.callbacks import Callback, SaveBest
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.generator import LanguageModel
from former_nb.text import CharTokenizer, encode_texts

RANK = os.environ.get("RANK", "0")


class Stop(Exception):
    pass


class Batches(list):
    """Batches in which something happens: `accidents` maps the number of a batch to what is called
    before it is read."""

    accidents = {}

    def __iter__(self):
        for i, batch in enumerate(super().__iter__()):
            self.accidents.get(i, bool)()
            yield batch


def stop():
    raise Stop


def die():
    if RANK == "1":
        Path(sys.argv[1], "died").write_text(str(time.time()))
        os.kill(os.getpid(), signal.SIGKILL)


def fill_disk():  # from now on no file of the first process can grow beyond 30,000 bytes
    if RANK == "0":
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
        Path(sys.argv[1], "died").write_text(str(time.time()))


class Count(Callback):
    """Writes down how many numbers this process holds: of weights, and of optimizer states."""

    def __init__(self, folder):
        self.file = Path(folder, f"held-{RANK}.json")

    def on_step_end(self, run):
        own = lambda t: (t.to_local() if hasattr(t, "to_local") else t).numel()
        states = [t for o in run.optimizers for kept in o.state.values() for t in kept.values()]
        tensors = [*run.model.parameters()], [t for t in states if t.ndim]
        self.file.write_text(json.dumps([sum(map(own, each)) for each in tensors]))


def train(folder, name, config={}, resume=False, size=33, accident=None, save=False, layers=1):
    """The losses of one run of eight steps."""
    texts = toy_data.toy_texts("reverse", 360)
    tokenizer = CharTokenizer.train(texts)
    rows = encode_texts(texts, tokenizer)
    collate = toy_data.collate_answers(*tokenizer.encode(toy_data.SEPARATOR))
    rows = rows[: 300 * size // 33 + 60]
    batches = Batches(make_batches(rows[:-60], size, shuffle=True, collate=collate))
    batches.accidents = {5: globals()[accident]} if accident else {}
    valid = Batches(make_batches(rows[-60:], 25, collate=collate))  # 3: no multiple of 2
    set_seed(0)
    config_of = TransformerConfig(tokenizer.vocab_size, 22, 16, 2, layers, 32, dropout=0.0)
    model = LanguageModel(config_of).double()
    usual = {"steps": 8, "eval_every": 1, "lr": 1e-2, "muon_lr": None}
    config = runs.TrainingConfig(**{**usual, **config})
    where = Path(folder, name) if resume else None
    try:
        callbacks = [resuming.Checkpoint(where, resume=True)] if resume else []
        if save:
            keep = SaveBest(lambda model: saving.save_model(Path(folder, name), model, tokenizer))
            callbacks += [keep, Count(folder)]
        how = dict(callbacks=callbacks, progress=False, device="cpu")
        history = training.fit(model, batches, valid, config, **how)
    except Stop:
        return None
    return history[["train", "valid"]].values.tolist()


if __name__ == "__main__":
    folder, write = sys.argv[1], resuming.write_checkpoint

    def noted(where, *args):  # who wrote which checkpoint
        with open(Path(folder, f"written-by-{RANK}"), "a") as f:
            f.write(f"{Path(where).name}\\n")
        write(where, *args)

    resuming.write_checkpoint = noted
    losses = {job["name"]: train(folder, **job) for job in json.loads(sys.argv[2])}
    Path(folder, f"losses-{RANK}.json").write_text(json.dumps(losses))
'''


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    file = tmp_path_factory.mktemp("worker") / "worker.py"
    file.write_text(WORKER, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def alone(script):
    "`alone(folder, name, ...)`: the losses of the same run on this one process."
    spec = importlib.util.spec_from_file_location("worker", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.train


def start(launcher, script, folder, jobs):
    module, *options = launcher
    code = f"from {module} import main\nmain()"
    return Fork(code, *options, script, folder, json.dumps(jobs))


def run(*started, folder):
    "The losses that each process returned."
    for process in started:
        done = process.wait()
        assert done.returncode == 0, done.stderr.decode()[-3000:]
    return [json.loads(file.read_text()) for file in sorted(Path(folder).glob("losses-*.json"))]


def torchrun(n):
    return ["torch.distributed.run", "--standalone", "--nproc-per-node", n]


def apart(mine, yours):
    "How far two curves are from each other."
    assert len(mine) == len(yours)
    mine, yours = (torch.tensor(losses, dtype=torch.float64) for losses in (mine, yours))
    return (mine - yours).abs().max().item()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---------------------------------------------------------------- one curve


@pytest.fixture(scope="module")
def curve(alone):
    return alone(None, "plain")


@processes
def test_two_processes_that_accelerate_launches_are_one(script, alone, curve, tmp_path):
    launcher = (
        "accelerate.commands.launch --multi_gpu --num_processes 2 --main_process_port".split()
    )
    muon, parts = {"muon_lr": 0.02}, {"gradient_accumulation_steps": 2}
    jobs = [{"name": "plain"}, {"name": "accumulate", "config": parts}]
    jobs += [{"name": "muon", "config": muon}]
    jobs += [{"name": "stopped", "resume": True, "accident": "stop"}]
    started = start([*launcher, free_port()], script, tmp_path, jobs)
    first, second = run(started, folder=tmp_path)
    assert first == second  # also the process that writes nothing knows the history
    assert apart(first["plain"], curve) < NEAR and apart(first["accumulate"], curve) < NEAR
    assert apart(first["muon"], alone(None, "muon", muon)) < NEAR
    assert first["stopped"] is None
    # written at the start and after five steps, by the first process only
    assert (tmp_path / "written-by-0").read_text().split() == ["stopped"] * 6
    assert not (tmp_path / "written-by-1").exists()
    assert apart(alone(tmp_path, "stopped", resume=True), curve) < NEAR  # two began, one goes on


@processes
def test_four_processes_are_one(script, alone, curve, tmp_path):
    assert alone(tmp_path, "stopped", resume=True, accident="stop") is None
    parts = {"size": 3, "config": {"gradient_accumulation_steps": 2}}
    jobs = [{"name": "plain"}, {"name": "stopped", "resume": True}]
    jobs += [{"name": "three rows", "size": 3}, {"name": "three rows, in parts"} | parts]
    four = [Fork(WORKER, tmp_path, json.dumps(jobs), env=place) for place in places(4)]
    losses, *others = run(*four, folder=tmp_path)
    assert others == [losses] * 3
    assert apart(losses["plain"], curve) < NEAR
    assert apart(losses["stopped"], curve) < NEAR  # one began, four go on
    few = alone(None, "three rows", size=3)
    assert apart(losses["three rows"], few) < NEAR
    assert apart(losses["three rows, in parts"], few) < NEAR


# ---------------------------------------------------------------- weights cut between processes

SHARDED = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}  # as `accelerate launch` sets them


def places(n):
    "The environments of n processes, as a launcher sets them."
    where = dict(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    world = dict(WORLD_SIZE=str(n), LOCAL_WORLD_SIZE=str(n))
    return [where | world | dict(RANK=str(i), LOCAL_RANK=str(i)) for i in range(n)]


@processes
def test_a_model_cut_in_two_is_one_and_is_saved_whole(script, alone, tmp_path):
    launcher = "accelerate.commands.launch --use_fsdp --fsdp_version 2 --num_processes 2".split()
    clipped = {"gradient_accumulation_steps": 2, "max_grad_norm": 0.01}
    jobs = [{"name": "saved", "layers": 2, "save": True}, {"name": "clipped", "config": clipped}]
    jobs += [{"name": "stopped", "resume": True, "accident": "stop"}]
    started = start([*launcher, "--main_process_port", free_port()], script, tmp_path, jobs)
    first, second = run(started, folder=tmp_path)
    assert first == second
    curve = alone(tmp_path / "alone", "saved", layers=2, save=True)
    assert apart(first["saved"], curve) < NEAR
    assert apart(first["clipped"], alone(None, "clipped", clipped)) < NEAR
    # half of all that is held by each
    whole, *halves = (
        json.loads((tmp_path / file).read_text())
        for file in ("alone/held-0.json", "held-0.json", "held-1.json")
    )
    assert [sum(pair) for pair in zip(*halves)] == whole and whole[1] == 2 * whole[0]
    assert all(abs(n / m - 0.5) < 0.02 for half in halves for n, m in zip(half, whole))
    # the model that the two have saved is that of the one
    ours, theirs = (load_model(folder / "saved") for folder in (tmp_path, tmp_path / "alone"))
    for name, t in theirs.model.state_dict().items():
        torch.testing.assert_close(ours.model.state_dict()[name], t, rtol=0, atol=1e-7)
    assert (tmp_path / "written-by-0").exists() and not (tmp_path / "written-by-1").exists()


@processes
def test_a_checkpoint_loads_whole_or_cut_in_any_number(script, alone, curve, tmp_path):
    def go_on(name, n, env=(), **job):
        jobs = json.dumps([{"name": name, "resume": True} | job])
        for file in tmp_path.glob("losses-*.json"):
            file.unlink()
        forks = [Fork(WORKER, tmp_path, jobs, env=place | dict(env)) for place in places(n)]
        losses, *others = run(*forks, folder=tmp_path)
        assert others == [losses] * (n - 1)
        return losses[name]

    assert go_on("cut", 4, SHARDED, accident="stop") is None  # after five steps
    names = ("one", "two", "two cut", "four cut")
    for name in names:
        shutil.copytree(tmp_path / "cut", tmp_path / name)
    assert apart(alone(tmp_path, "one", resume=True), curve) < NEAR
    assert apart(go_on("two", 2), curve) < NEAR
    assert apart(go_on("two cut", 2, SHARDED), curve) < NEAR
    assert apart(go_on("four cut", 4, SHARDED), curve) < NEAR
    ends = [read_checkpoint(tmp_path / name)[0] for name in names]
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], rtol=0, atol=1e-9)


# ---------------------------------------------------------------- accidents


def seconds_since(folder):
    return time.time() - float((folder / "died").read_text())


@processes
def test_two_machines_of_which_one_is_lost(script, alone, curve, tmp_path):
    port = free_port()
    where = f"--nnodes 2 --nproc-per-node 1 --master-addr 127.0.0.1 --master-port {port}".split()
    machine = lambda rank: ["torch.distributed.run", "--node-rank", rank, *where]
    jobs = [{"name": "lost", "resume": True, "accident": "die"}]
    launchers = [start(machine(rank), script, tmp_path, jobs) for rank in range(2)]
    survivor, lost = (launcher.wait(timeout=540) for launcher in launchers)
    assert seconds_since(tmp_path) < HANGS and survivor.returncode and lost.returncode
    survivor, lost = survivor.stderr.decode(), lost.stderr.decode()
    assert "SIGKILL" in lost
    assert "another process of this run has ended" in survivor and "resume=True" in survivor
    assert apart(alone(tmp_path, "lost", resume=True), curve) < NEAR


@processes
def test_a_full_disk_ends_all(script, alone, curve, tmp_path):
    jobs = [{"name": "full", "resume": True, "accident": "fill_disk"}]
    done = start(torchrun(2), script, tmp_path, jobs).wait(timeout=540)
    said = done.stderr.decode()
    assert seconds_since(tmp_path) < HANGS and done.returncode
    assert re.search("OSError: .*(could not|cannot|could) be written", said), said
    assert read_checkpoint(tmp_path / "full")[1]["progress"]["step"] == 5
    assert apart(alone(tmp_path, "full", resume=True), curve) < NEAR


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("kind", ["DEEPSPEED", "MEGATRON_LM"])
def test_other_ways_to_cut_a_model_are_refused(kind, monkeypatch):
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(ValueError, match=f"cannot run under {kind}"):
        start_processes("cpu")


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("FSDP_VERSION", "1", "fsdp_version: expected 2, got 1"),
        ("FSDP_OFFLOAD_PARAMS", "true", "fsdp_offload_params: expected false"),
        ("FSDP_ACTIVATION_CHECKPOINTING", "true", "fsdp_activation_checkpointing: expected false"),
    ],
)
def test_options_of_fsdp_that_would_change_nothing_are_refused(name, value, said, monkeypatch):
    assert not sharding_wanted()
    for key, asked in {**SHARDED, name: value}.items():
        monkeypatch.setenv(key, asked)
    with pytest.raises(ValueError, match=said):
        sharding_wanted()


def test_muon_needs_whole_matrices(monkeypatch):
    two = SimpleNamespace(num_processes=2)
    monkeypatch.setattr("former_nb.runs.start_processes", lambda device: (two, device))
    monkeypatch.setattr("former_nb.runs.sharding_wanted", lambda: True)
    with pytest.raises(ValueError, match="muon_lr: expected None where weights are cut"):
        make_run(tiny(), [], [], TrainingConfig(), "cpu")


def test_processes_that_do_not_know_of_each_other_are_refused(monkeypatch):
    Accelerator(device_placement=False, cpu=True)  # the only one so far
    monkeypatch.setenv("WORLD_SIZE", "2")  # as a launcher sets it, without the rest
    with pytest.raises(ValueError, match="2 processes were launched, of which only 1"):
        start_processes("cpu")


# ---------------------------------------------------------------- what a step costs

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
    "label_smoothing": dict(label_smoothing=0.1),
}


def tiny(**kind):
    set_seed(0)
    sizes = dict(n_heads=4, n_layers=2, d_ff=128, dropout=0.0) | kind
    return LanguageModel(TransformerConfig(300, 64, 64, **sizes))


def tokens(B=13, T=64):
    return torch.arange(B * T).view(B, T) % 300


def alone_with(model, batch, config):
    "A function that makes one step, and the optimizers it uses."
    optimizers = make_optimizers(model, config.lr, config.muon_lr, config.weight_decay)
    one = Accelerator(device_placement=False, cpu=True)
    names = ("max_grad_norm", "precision", "label_smoothing", "pad")
    how = {name: getattr(config, name) for name in names}
    parts = split_batch(batch, config.gradient_accumulation_steps)
    return lambda: train_step(model, parts, 1, optimizers, one, **how), optimizers


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
PAIRS += [("dropout", "bf16"), ("llama", "parts"), ("alibi", "adamw")]


@pytest.mark.parametrize("kind, way", PAIRS)
def test_the_predicted_peak_is_that_of_a_real_step(kind, way, tmp_path):
    model, batch, config = tiny(**KINDS[kind]), (tokens(), tokens()), TrainingConfig(**WAYS[way])
    before = {name: t.clone() for name, t in model.state_dict().items()}
    cost = training_cost(model, batch, config)
    assert all(t.equal(before[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
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


@pytest.mark.parametrize("kind", KINDS)
def test_activations_are_the_tensors_that_backward_waits_for(kind):
    model, batch = tiny(**KINDS[kind]), (tokens(), tokens())
    ours, kept = {p.untyped_storage().data_ptr() for p in model.parameters()}, {}

    def keep(t):
        if t.untyped_storage().data_ptr() not in ours:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        loss = token_loss(model(batch[0]), batch[1], "sum") * 1.0
    assert loss.isfinite()
    counted = training_cost(model, batch).activations
    assert 0.98 < counted / sum(kept.values()) < (1.15 if kind == "alibi" else 1.02)


def test_parts_and_processes_divide_activations_and_nothing_else():
    model, batch = tiny(), (tokens(16), tokens(16))
    parts = lambda n: TrainingConfig(gradient_accumulation_steps=n)
    one, two, four = (training_cost(model, batch, parts(n)) for n in (1, 2, 4))
    shared = training_cost(model, batch, parts(2), processes=2)
    assert one.flops == two.flops == four.flops == shared.flops
    assert one.activations > 1.9 * two.activations > 3.6 * four.activations
    assert shared.activations == four.activations and one.buckets == 0
    # what is sent is a second copy of the gradients
    assert shared.buckets == shared.gradients and shared.peak == four.peak + shared.buckets
    for name in ("weights", "gradients", "states"):
        assert getattr(shared, name) == getattr(one, name)


def test_flops_are_those_of_the_products():
    model, (B, T), d, ff, V = tiny(), (13, 64), 64, 128, 300
    layer = 2 * B * T * (4 * d * d + 2 * d * ff)
    products = 2 * layer + 2 * B * T * d * V  # two layers and the logits, forward
    attention = 2 * 2 * B * T * T * d * 2  # two layers: scores and values
    kernel = attention + attention * 5 // 2  # forward, and five products backward
    cost = training_cost(model, (tokens(), tokens()), TrainingConfig(muon_lr=None))
    assert cost.flops == 3 * products + kernel


def test_bf16_needs_less_and_muon_keeps_less():
    model, batch = tiny(), (tokens(), tokens())
    costs = (
        training_cost(model, batch, TrainingConfig(**WAYS[w])) for w in ("muon", "bf16", "adamw")
    )
    plain, bf16, adamw = costs
    assert bf16.activations < 0.75 * plain.activations and bf16.gradients == plain.gradients
    layers = [m.weight.nbytes for m in model.modules() if isinstance(m, nn.Linear)]
    linear, n = sum(layers), len(list(model.parameters()))
    scalars = 4 * (n - len(layers))  # a step count for each
    assert adamw.states == 2 * adamw.weights + 4 * n
    assert plain.states == linear + 2 * (plain.weights - linear) + scalars
    assert plain.update_flops > 0 == adamw.update_flops


def test_ten_billion_weights_are_asked_about_in_a_moment():
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        sizes = dict(n_heads=64, n_layers=12, d_ff=32_768, dropout=0.0)
        model = LanguageModel(TransformerConfig(50_000, 2048, 8192, **sizes))
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
    with pytest.raises(ValueError, match="model: expected shapes"):
        training_cost(Picky(), batch)
    with pytest.raises(ValueError, match="expected a whole number of 1 or more, got 0"):
        training_cost(Pair(), batch, processes=0)
    with pytest.raises(TypeError):
        training_cost(Pair(), batch[1])


def test_the_arithmetic_of_sending():
    assert [all_reduce_bytes(100, n) for n in (1, 2, 4)] == [0, 100, 150]
    assert step_seconds(6.0, 100, 1, 1.0) == 6.0
    assert step_seconds(6.0, 100, 2, 50.0, latency=0.25, repeated=1.0) == 3 + 1 + 0.5 + 2
    usual = dict(shared=1.0, n_bytes=10, processes=2, bandwidth=1.0)
    for name, wrong in dict(shared=-1, bandwidth=0, latency=float("nan"), n_bytes=-1).items():
        with pytest.raises(ValueError, match=f"{name}.*expected"):
            step_seconds(**usual | {name: wrong})
