"""`fit` on several processes and machines: real processes, real sockets, real signals. And what a
step costs, against what it does.

FORMER_NB_CASES in the environment adds slower cases.
"""

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from accelerate import Accelerator
from torch import nn
from torch.profiler import ProfilerActivity, profile

from former_nb.checkpoints import read_checkpoint
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.costs import training_cost
from former_nb.generator import LanguageModel
from former_nb.losses import token_loss
from former_nb.optimization import make_optimizers, split_batch, train_step
from former_nb.runs import start_processes
from former_nb.scaling import all_reduce_bytes, step_seconds
from former_nb.training_config import TrainingConfig

LONG = "FORMER_NB_CASES" in os.environ
processes = pytest.mark.skipif(
    os.name == "nt", reason="the signals and limits of these tests are those of Linux and macOS"
)
ADAMW, MUON = (
    1e-9,
    1e-9,
    # how far two curves may be apart, in nats; the models are in float64, so that Muon rounds both
    # alike
)
# seconds: torch itself waits for 300 or more where nothing ends a process that has lost the others
HANGS = 240

WORKER = '''
import json, os, signal, sys, time
from pathlib import Path

import former_nb.resuming as resuming
import former_nb.runs as runs
import former_nb.toy_data as toy_data
import former_nb.training as training
from former_nb.batches import make_batches
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.generator import LanguageModel
from former_nb.text import CharTokenizer, encode_texts

RANK = os.environ.get("RANK", "0")


class Stop(Exception):
    pass


class Batches(list):
    """Batches in which something happens: `accidents` maps the number of a batch to what is called before it is read."""

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


def fill_disk():  # from now on no file of the first process can grow beyond 2,000 bytes
    if RANK == "0":
        import resource

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        Path(sys.argv[1], "died").write_text(str(time.time()))


def train(folder, name, config={}, resume=False, size=33, accident=None):
    """The losses of one run of eight steps."""
    texts = toy_data.toy_texts("reverse", 360)
    tokenizer = CharTokenizer.train(texts)
    rows, collate = encode_texts(texts, tokenizer), toy_data.collate_answers(*tokenizer.encode(toy_data.SEPARATOR))
    rows = rows[: 300 * size // 33 + 60]
    batches = Batches(make_batches(rows[:-60], size, shuffle=True, collate=collate))
    batches.accidents = {5: globals()[accident]} if accident else {}
    valid = Batches(make_batches(rows[-60:], 25, collate=collate))  # 3 batches: not a multiple of 2 or 4
    set_seed(0)
    model = LanguageModel(TransformerConfig(tokenizer.vocab_size, 22, 16, 2, 1, 32, dropout=0.0)).double()
    config = runs.TrainingConfig(**{"steps": 8, "eval_every": 1, "lr": 1e-2, "muon_lr": None, **config})
    where = Path(folder, name) if resume else None
    try:
        callbacks = [resuming.Checkpoint(where, resume=True)] if resume else []
        history = training.fit(model, batches, valid, config, callbacks=callbacks, progress=False, device="cpu")
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
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [
        sys.executable,
        "-m",
        *map(str, launcher),
        str(script),
        str(folder),
        json.dumps(jobs),
    ]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, encoding="utf-8"
    )


def torchrun(n):
    return ["torch.distributed.run", "--standalone", "--nproc-per-node", n]


def run(launcher, script, folder, jobs):
    "The losses that each process returned."
    process = start(launcher, script, folder, jobs)
    _, said = finish(process)
    assert process.returncode == 0, said
    return [json.loads(file.read_text()) for file in sorted(Path(folder).glob("losses-*.json"))]


def finish(*launchers, timeout=540):
    "Wait for all; what each of them said. One that hangs is ended, and its processes with it."
    try:
        return [""] + [launcher.communicate(timeout=timeout)[1] for launcher in launchers]
    finally:
        for launcher in launchers:
            if launcher.poll() is None:
                launcher.terminate()
                launcher.communicate(timeout=60)


def apart(mine, yours):
    "How far two curves are from each other."
    assert len(mine) == len(yours)
    return (
        (torch.tensor(mine, dtype=torch.float64) - torch.tensor(yours, dtype=torch.float64))
        .abs()
        .max()
        .item()
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---------------------------------------------------------------- one curve


@pytest.fixture(scope="module")
def curve(alone):
    return alone(None, "plain")


@processes
def test_two_processes_are_one(script, alone, curve, tmp_path):
    muon, many = (
        {"muon_lr": 0.02},
        [{"name": f"accumulate {n}", "config": {"gradient_accumulation_steps": n}} for n in (2, 4)],
    )
    jobs = [
        {"name": "plain"},
        *many,
        {"name": "muon", "config": muon},
        {"name": "stopped", "resume": True, "accident": "stop"},
    ]
    first, second = run(torchrun(2), script, tmp_path, jobs)
    assert first == second  # also the process that writes nothing knows the history
    for job in jobs[:3]:
        assert apart(first[job["name"]], curve) < ADAMW
    assert apart(first["muon"], alone(None, "muon", muon)) < MUON
    assert first["stopped"] is None
    assert (tmp_path / "written-by-0").read_text().split() == [
        "stopped"
    ] * 6  # at the start and after five steps
    assert not (tmp_path / "written-by-1").exists()
    assert apart(alone(tmp_path, "stopped", resume=True), curve) < ADAMW  # two began, one goes on


@processes
def test_four_processes_are_one(script, alone, curve, tmp_path):
    assert alone(tmp_path, "stopped", resume=True, accident="stop") is None
    jobs = [
        {"name": "plain"},
        {"name": "three rows", "size": 3},
        {"name": "stopped", "resume": True},
    ]
    jobs += [
        {
            "name": "three rows, accumulate 2",
            "size": 3,
            "config": {"gradient_accumulation_steps": 2},
        }
    ]
    losses, *others = run(torchrun(4), script, tmp_path, jobs)
    assert others == [losses] * 3
    assert apart(losses["plain"], curve) < ADAMW
    assert apart(losses["stopped"], curve) < ADAMW  # one began, four go on
    few = alone(None, "three rows", size=3)
    assert (
        apart(losses["three rows"], few) < ADAMW
        and apart(losses["three rows, accumulate 2"], few) < ADAMW
    )


@processes
def test_accelerate_launch(script, curve, tmp_path):
    launcher = [
        "accelerate.commands.launch",
        "--multi_gpu",
        "--num_processes",
        "2",
        "--main_process_port",
        free_port(),
    ]
    losses, _ = run(launcher, script, tmp_path, [{"name": "plain"}])
    assert apart(losses["plain"], curve) < ADAMW


# ---------------------------------------------------------------- accidents


def seconds_since(folder):
    return time.time() - float((folder / "died").read_text())


@processes
def test_two_machines_of_which_one_is_lost(script, alone, curve, tmp_path):
    port = free_port()
    where = [
        "--nnodes",
        2,
        "--nproc-per-node",
        1,
        "--master-addr",
        "127.0.0.1",
        "--master-port",
        port,
    ]
    machine = lambda rank: ["torch.distributed.run", "--node-rank", rank, *where]
    jobs = [{"name": "plain"}, {"name": "lost", "resume": True, "accident": "die"}]
    launchers = [start(machine(rank), script, tmp_path, jobs) for rank in range(2)]
    _, survivor, lost = finish(*launchers)
    assert seconds_since(tmp_path) < HANGS
    assert all(launcher.returncode not in (0, None) for launcher in launchers)
    assert "SIGKILL" in lost
    assert "another process of this run has ended" in survivor and "resume=True" in survivor
    assert apart(alone(tmp_path, "lost", resume=True), curve) < ADAMW


@processes
def test_a_full_disk_ends_all(script, alone, curve, tmp_path):
    launcher = start(
        torchrun(2), script, tmp_path, [{"name": "full", "resume": True, "accident": "fill_disk"}]
    )
    _, said = finish(launcher)
    assert seconds_since(tmp_path) < HANGS and launcher.returncode not in (0, None)
    assert re.search("OSError: .*(could not|cannot|could) be written", said), said
    assert read_checkpoint(tmp_path / "full")[1]["progress"]["step"] == 5
    assert apart(alone(tmp_path, "full", resume=True), curve) < ADAMW


@processes
@pytest.mark.skipif(not LONG, reason="one launch more; the lesson has it too")
def test_one_of_two_is_killed(script, tmp_path):
    launcher = start(
        torchrun(2), script, tmp_path, [{"name": "lost", "resume": True, "accident": "die"}]
    )
    _, said = finish(launcher)
    assert seconds_since(tmp_path) < HANGS and launcher.returncode not in (0, None)
    assert "Signal 9 (SIGKILL)" in said and not re.search(r"^\[rank0\].*AssertionError", said, re.M)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_a_sharded_model_is_refused(kind, monkeypatch):
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    with pytest.raises(ValueError, match=f"cannot be launched with {kind}"):
        start_processes("cpu")


@processes
@pytest.mark.skipif(not LONG, reason="one launch more")
def test_the_configuration_in_the_lesson_is_one_of_accelerate(script, tmp_path):
    lesson = json.loads(
        (Path(__file__).parents[1] / "nbs" / "16_scaling.ipynb").read_text(encoding="utf-8")
    )
    [text] = [
        found
        for cell in lesson["cells"]
        for found in re.findall(r"```yaml\n(.*?)```", "".join(cell["source"]), re.S)
    ]
    (tmp_path / "fsdp.yaml").write_text(text.replace("num_processes: 8", "num_processes: 2"))
    launcher = [
        "accelerate.commands.launch",
        "--config_file",
        tmp_path / "fsdp.yaml",
        "--main_process_port",
        free_port(),
    ]
    process = start(launcher, script, tmp_path, [{"name": "plain"}])
    _, said = finish(process)
    assert process.returncode != 0 and "cannot be launched with FSDP" in said


def test_processes_that_do_not_know_of_each_other_are_refused(monkeypatch):
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
    return LanguageModel(
        TransformerConfig(300, 64, 64, n_heads=4, n_layers=2, d_ff=128, **{"dropout": 0.0, **kind})
    )


def tokens(B=13, T=64):
    return torch.arange(B * T).view(B, T) % 300


def alone_with(model, batch, config):
    "A function that makes one step, and the optimizers it uses."
    optimizers, one = (
        make_optimizers(model, config.lr, config.muon_lr, config.weight_decay),
        Accelerator(device_placement=False, cpu=True),
    )
    how = {
        name: getattr(config, name)
        for name in ("max_grad_norm", "precision", "label_smoothing", "pad")
    }
    return (
        lambda: train_step(
            model, split_batch(batch, config.gradient_accumulation_steps), 1, optimizers, one, **how
        ),
        optimizers,
    )


def measured_peak(step, folder):
    "The most that a step allocates beyond what was there before it, noted by the profiler."
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as noted:
        step()
    noted.export_chrome_trace(str(folder / "trace.json"))
    events = [
        e
        for e in json.loads((folder / "trace.json").read_text())["traceEvents"]
        if e.get("name") == "[memory]"
    ]
    now = peak = 0
    for event in sorted(events, key=lambda e: e["ts"]):
        now += event["args"]["Bytes"]
        peak = max(peak, now)
    return peak


@pytest.mark.parametrize(
    "kind, way",
    [
        (k, w)
        for k in KINDS
        for w in WAYS
        if LONG
        or k == "plain"
        or (k, w) in [("dropout", "bf16"), ("llama", "parts"), ("alibi", "adamw")]
    ],
)
def test_the_predicted_peak_is_that_of_a_real_step(kind, way, tmp_path):
    model, batch, config = tiny(**KINDS[kind]), (tokens(), tokens()), TrainingConfig(**WAYS[way])
    before = {name: t.clone() for name, t in model.state_dict().items()}
    cost = training_cost(model, batch, config)
    assert all(t.equal(before[name]) for name, t in model.state_dict().items()) and all(
        p.grad is None for p in model.parameters()
    )
    step, optimizers = alone_with(model, batch, config)
    step()
    states = [t for o in optimizers for kept in o.state.values() for t in kept.values()]
    assert cost.states == sum(t.nbytes for t in states)
    assert cost.weights == sum(t.nbytes for t in [*model.parameters(), *model.buffers()])
    assert cost.gradients == sum(p.nbytes for p in model.parameters())
    predicted, measured = (
        cost.peak - cost.weights - cost.states - 2 * batch[0].nbytes,
        measured_peak(step, tmp_path),
    )
    exact = (
        kind != "alibi" and way != "label_smoothing"
    )  # where autograd adds in place, or nobody looks for NaN, a step needs less
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
    one, two, four = (
        training_cost(model, batch, TrainingConfig(gradient_accumulation_steps=n))
        for n in (1, 2, 4)
    )
    shared = training_cost(model, batch, TrainingConfig(gradient_accumulation_steps=2), processes=2)
    assert one.flops == two.flops == four.flops == shared.flops
    assert one.activations > 1.9 * two.activations > 3.6 * four.activations
    assert (
        shared.activations == four.activations
        and shared.buckets == shared.gradients
        and one.buckets == 0
    )
    assert (
        shared.peak == four.peak + shared.buckets
    )  # what is sent is a second copy of the gradients
    assert (shared.weights, shared.gradients, shared.states) == (
        one.weights,
        one.gradients,
        one.states,
    )


def test_flops_are_those_of_the_products():
    model, (B, T), d, ff, V = tiny(), (13, 64), 64, 128, 300
    layer = 2 * B * T * (4 * d * d + 2 * d * ff)
    products = 2 * layer + 2 * B * T * d * V  # two layers and the logits, forward
    attention = 2 * 2 * B * T * T * d * 2  # two layers: scores and values
    kernel = attention + attention * 5 // 2  # forward, and five products backward
    assert (
        training_cost(model, (tokens(), tokens()), TrainingConfig(muon_lr=None)).flops
        == 3 * products + kernel
    )


def test_bf16_needs_less_and_muon_keeps_less():
    model, batch = tiny(), (tokens(), tokens())
    plain, bf16, adamw = (
        training_cost(model, batch, TrainingConfig(**WAYS[way]))
        for way in ("muon", "bf16", "adamw")
    )
    assert bf16.activations < 0.75 * plain.activations and bf16.gradients == plain.gradients
    linear = sum(m.weight.nbytes for m in model.modules() if isinstance(m, nn.Linear))
    scalars = 4 * (
        len(list(model.parameters()))
        - len([m for m in model.modules() if isinstance(m, nn.Linear)])
    )
    assert adamw.states == 2 * adamw.weights + 4 * len(
        list(model.parameters())
    )  # and a step count for each
    assert plain.states == linear + 2 * (plain.weights - linear) + scalars
    assert plain.update_flops > 0 == adamw.update_flops


def test_ten_billion_weights_are_asked_about_in_a_moment():
    resource = pytest.importorskip("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with torch.device("meta"):
        model = LanguageModel(
            TransformerConfig(50_000, 2048, 8192, n_heads=64, n_layers=12, d_ff=32_768, dropout=0.0)
        )
        batch = (torch.empty(4, 2048, dtype=torch.long),) * 2
    cost = training_cost(
        model, batch, TrainingConfig(muon_lr=None, gradient_accumulation_steps=4, precision="bf16")
    )
    assert cost.parameters > 1e10 and cost.peak > 16 * cost.parameters
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000 * (
        1024 if sys.platform == "darwin" else 1
    )
    assert (
        f"{cost.parameters:,} parameters" in str(cost)
        and "TFLOP" in str(cost)
        and "GB at most" in str(cost)
    )


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
    assert (
        cost.parameters == weights
        and cost.weights == 4 * (weights + 6 + 6)
        and cost.gradients == 4 * weights
    )
    with pytest.raises(
        ValueError, match="model: expected shapes that do not depend on the numbers"
    ):
        training_cost(Picky(), batch)
    with pytest.raises(ValueError, match="processes: expected a whole number of 1 or more, got 0"):
        training_cost(Pair(), batch, processes=0)
    with pytest.raises(TypeError, match="batch: expected"):
        training_cost(Pair(), batch[1])


def test_the_arithmetic_of_sending():
    assert [all_reduce_bytes(100, n) for n in (1, 2, 4)] == [0, 100, 150]
    assert step_seconds(6.0, 100, 1, 1.0) == 6.0
    assert step_seconds(6.0, 100, 2, 50.0, latency=0.25, repeated=1.0) == 3 + 1 + 0.5 + 2
    for wrong, name in (
        (dict(shared=-1), "shared"),
        (dict(bandwidth=0), "bandwidth"),
        (dict(latency=float("nan")), "latency"),
        (dict(n_bytes=-1), "n_bytes"),
    ):
        with pytest.raises(ValueError, match=f"{name}: expected"):
            step_seconds(**{**dict(shared=1.0, n_bytes=10, processes=2, bandwidth=1.0), **wrong})
