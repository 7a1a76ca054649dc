"""`fit` on several processes and machines: real processes, real sockets, real signals."""

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from process_tools import Fork, succeeds
from refusals import refuses
from torch import nn

from former_nb.base.checkpoints import read_checkpoint
from former_nb.saving.saving import load_model
from former_nb.training.losses import batch_loss
from former_nb.training.processes import start_processes
from former_nb.training.scaling import all_reduce_bytes, step_seconds
from former_nb.training.sharding import sharding_wanted
from former_nb.training.training_config import TrainingConfig
from former_nb.training.training_run import Run

processes = pytest.mark.skipif(
    os.name == "nt", reason="the signals and limits of these tests are those of Linux and macOS"
)
NEAR = 1e-9  # nats between two curves; models in float64, so that Muon rounds both alike
# seconds: torch itself waits for 300 or more where nothing ends a process that has lost the others
HANGS = 240

WORKER = '''
import json, os, signal, sys, time
from pathlib import Path

import former_nb.training.resuming as resuming
import former_nb.saving.saving as saving
import former_nb.data.toy_data as toy_data
import former_nb.training.fitting as training
from former_nb.data.batches import make_batches
from former_nb.training.callbacks import Callback, SaveBest
from former_nb.models.config import TransformerConfig
from former_nb.base.core import set_seed
from former_nb.models.savable import LanguageModel
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.training.training_config import TrainingConfig

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


class Accident(Callback):
    """Makes it happen in the run, not while `Checkpoint` reads the rows to know them again."""

    def __init__(self, batches, accidents):
        self.batches, self.accidents = batches, accidents

    def on_start(self, run):
        self.batches.accidents = self.accidents


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


def train(
    folder, name, config={}, resume=False, size=33, accident=None, save=False, layers=1, numbers={}
):
    """The losses of one run of eight steps, or of so many epochs as the numbers say."""
    texts = toy_data.toy_texts("reverse", 360)
    tokenizer = CharTokenizer.train(texts)
    rows = encode_texts(texts, tokenizer)
    collate = toy_data.collate_answers(*tokenizer.encode(toy_data.SEPARATOR))
    rows = rows[: 300 * size // 33 + 60]
    batches = Batches(make_batches(rows[:-60], size, shuffle=True, collate=collate))
    valid = Batches(make_batches(rows[-60:], 25, collate=collate))  # 3: no multiple of 2
    set_seed(0)
    config_of = TransformerConfig(tokenizer.vocab_size, 22, 16, 2, layers, 32, dropout=0.0)
    model = LanguageModel.from_config(config_of).double()
    usual = {"steps": 8, "eval_every": 1, "lr": 1e-2, "muon_lr": None}
    recipe = numbers or {"config": TrainingConfig(**{**usual, **config})}
    where = Path(folder, name) if resume else None
    try:
        callbacks = [resuming.Checkpoint(where, resume=True)] if resume else []
        callbacks += [Accident(batches, {5: globals()[accident]})] if accident else []
        if save:
            keep = SaveBest(lambda model: saving.save_model(Path(folder, name), model, tokenizer))
            callbacks += [keep, Count(folder)]
        how = dict(callbacks=callbacks, progress=False, device="cpu")
        history = training.fit(model, batches, valid, **recipe, **how)
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
    if "torch._dynamo.utils" in sys.modules:  # how many graphs were compiled
        counters = sys.modules["torch._dynamo.utils"].counters
        Path(folder, f"graphs-{RANK}").write_text(str(counters["stats"]["unique_graphs"]))
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
    numbers = {"epochs": 2, "lr": 1e-2}
    jobs += [{"name": "numbers", "numbers": numbers}]
    jobs += [{"name": "stopped", "resume": True, "accident": "stop"}]
    started = start([*launcher, free_port()], script, tmp_path, jobs)
    first, second = run(started, folder=tmp_path)
    assert first == second  # also the process that writes nothing knows the history
    assert apart(first["plain"], curve) < NEAR and apart(first["accumulate"], curve) < NEAR
    assert apart(first["muon"], alone(None, "muon", muon)) < NEAR
    assert apart(first["numbers"], alone(None, "numbers", numbers=numbers)) < NEAR
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
    clipped["activation_checkpointing"] = True
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


@processes
@pytest.mark.skipif(not shutil.which("g++"), reason="torch.compile needs a compiler")
def test_a_model_that_is_cut_and_compiled_steps_as_a_plain_one(script, curve, tmp_path):
    jobs = json.dumps([{"name": "built", "config": {"compile": True}}])
    two = [Fork(WORKER, tmp_path, jobs, env=place | SHARDED) for place in places(2)]
    first, second = run(*two, folder=tmp_path)
    assert first == second
    assert apart(first["built"], curve) < NEAR
    built = [int((tmp_path / f"graphs-{rank}").read_text()) for rank in range(2)]
    assert min(built) > 0  # it was compiled, and not left as it was


# ---------------------------------------------------------------- the script of a cluster

PAGE = Path(__file__).parent.parent / "nbs" / "deeper" / "08_long_runs.ipynb"
STAND_INS = {  # what a cluster has, on one host with two "machines"
    "scontrol": 'echo "localhost"',
    "srun": 'while [[ $1 == --* ]]; do shift; done\n"$@" & one=$!\n"$@"\nwait $one',
    "torchrun": f'exec "{sys.executable}" -m torch.distributed.run "$@"',
}


@processes
@pytest.mark.skipif(not shutil.which("bash"), reason="the script is for bash")
def test_the_script_for_a_cluster_starts_all_machines(tmp_path):
    cells = json.loads(PAGE.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells)
    [train_py] = re.findall(r'^SCRIPT = """\n(.*?)^"""', text, re.M | re.S)
    [train_sh] = re.findall(r"^```sh\n(#!/bin/bash\n.*?)^```", text, re.M | re.S)
    train_sh = train_sh.replace("29500", str(free_port()))
    train_sh = train_sh.replace("OMP_NUM_THREADS=8", "OMP_NUM_THREADS=1")
    (tmp_path / "train.py").write_text(train_py)
    (tmp_path / "train.sh").write_text(train_sh)
    for name, content in STAND_INS.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{content}\n")
        (tmp_path / name).chmod(0o755)
    slurm = dict(NNODES=2, GPUS_ON_NODE=1, CPUS_PER_TASK=1, JOB_ID=7, JOB_NODELIST="both")
    env = os.environ | {f"SLURM_{name}": str(value) for name, value in slurm.items()}
    env |= {"PATH": f"{tmp_path}:{env['PATH']}", "FORMER_NB_DEVICE": "cpu"}
    for command in (["bash", "train.sh"], [sys.executable, "train.py", "alone"]):
        done = subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
    both, alone = (
        json.loads((tmp_path / folder / "history.json").read_text()) for folder in ("run", "alone")
    )
    assert both["step"] == alone["step"]
    assert all(abs(both["valid"][i] - alone["valid"][i]) < 1e-6 for i in alone["valid"])
    half, whole = (
        json.loads((tmp_path / folder / "bytes.json").read_text()) for folder in ("run", "alone")
    )
    assert all(0.5 <= part / all_of_it < 0.51 for part, all_of_it in zip(half, whole))


# ---------------------------------------------------------------- another number of processes

ORDER = """
import json, os, sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

from former_nb.base.core import set_seed
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.callbacks import Callback
from former_nb.training.resuming import Checkpoint
from former_nb.training.fitting import fit
from former_nb.training.losses import batch_loss
from former_nb.training.training_config import TrainingConfig

folder, name, last = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])


class Stop(Exception):
    pass


class StopAfter(Callback):
    def on_step_end(self, run):
        if run.step == last:
            raise Stop


def noted(model, batch):  # which rows this process learns from
    seen.append(batch[0][:, 0].tolist())
    return batch_loss(model, batch)


g = torch.Generator().manual_seed(0)
rows = torch.randint(4, 100, (101, 13), generator=g)
rows[:, 0] = torch.arange(101) + 4  # so each row has a number
train = DataLoader(TensorDataset(rows[:, :-1], rows[:, 1:]), 9, shuffle=True)  # 12, the last of 2
valid = [(rows[:20, :-1], rows[:20, 1:])]
set_seed(0)
sizes = dict(d_model=32, n_heads=2, n_layers=2, d_ff=64, dropout=0.0)
model = LanguageModel.from_config(TransformerConfig(105, 12, **sizes))
config = TrainingConfig(steps=30, eval_every=1, lr=1e-2, muon_lr=None, precision="no")
seen = []
callbacks = [Checkpoint(folder / name, resume=True), StopAfter()]
curve = []
try:
    how = dict(loss=noted, callbacks=callbacks, progress=False, device="cpu")
    curve = fit(model, train, valid, config, **how)[["train", "valid"]].values.tolist()
except Stop:
    pass
told = json.dumps({"seen": seen, "curve": curve})
(folder / f"{name}-{os.environ.get('RANK', '0')}.json").write_text(told)
"""


@processes
def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    def go(name, n, last):  # the rows of each step, in order of their numbers, and the curve
        alone = [{}] if n == 1 else places(n)
        for process in [Fork(ORDER, tmp_path, name, last, env=place) for place in alone]:
            done = process.wait()
            assert done.returncode == 0, done.stderr.decode()[-3000:]
        told = [json.loads((tmp_path / f"{name}-{i}.json").read_text()) for i in range(n)]
        assert all(each["curve"] == told[0]["curve"] for each in told)
        shares = zip(*(each["seen"] for each in told))
        return [sorted(sum(step, [])) for step in shares], told[0]["curve"]

    rows, curve = go("straight", 1, 99)
    assert (
        len(rows) == 30 and rows[0] != rows[12] and sorted(sum(rows[:12], [])) == [*range(4, 105)]
    )
    for before, after in ((1, 2), (2, 1)):
        name = f"{before} to {after}"
        first, _ = go(name, before, 16)  # in the middle of the second epoch
        second, ours = go(name, after, 99)
        assert first + second == rows  # each row once, in its own step
        # in float32, where two halves are added in another order than one whole
        # (1e-6 nats were measured)
        assert apart(ours, curve) < 1e-5, name


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
    "name, value",
    [
        ("FSDP_VERSION", "1"),
        ("FSDP_OFFLOAD_PARAMS", "true"),
        ("FSDP_ACTIVATION_CHECKPOINTING", "true"),
    ],
)
def test_options_of_fsdp_that_would_change_nothing_are_refused(name, value, monkeypatch):
    assert not sharding_wanted()
    for key, asked in {**SHARDED, name: value}.items():
        monkeypatch.setenv(key, asked)
    refuses(sharding_wanted, ValueError, name.lower(), value)


def test_muon_needs_whole_matrices(monkeypatch):
    two = SimpleNamespace(process_index=0, num_processes=2, no_sync=nullcontext)
    start = lambda device: (two, device)
    monkeypatch.setattr("former_nb.training.training_run.start_processes", start)
    monkeypatch.setattr("former_nb.training.training_run.sharding_wanted", lambda: True)
    batch = torch.zeros(1, 2), torch.zeros(1, dtype=torch.long)
    make = lambda: Run(
        nn.Linear(2, 2), [batch], [batch], TrainingConfig(), batch_loss, device="cpu"
    )
    refuses(make, ValueError, "muon_lr")


def test_processes_that_do_not_know_of_each_other_are_refused(monkeypatch):
    AcceleratorState._reset_state(reset_partial_state=True)  # a run on a GPU may have left one
    Accelerator(device_placement=False, cpu=True)  # the only one so far
    monkeypatch.setenv("WORLD_SIZE", "2")  # as a launcher sets it, without the rest
    with pytest.raises(ValueError, match="2 processes were launched, of which only 1"):
        start_processes("cpu")


def test_the_variable_for_the_device_counts_for_several_processes(monkeypatch):
    asked = []

    def one_of_two(**how):
        asked.append(how["cpu"])
        return SimpleNamespace(num_processes=2, device=torch.device("cpu"))

    monkeypatch.setattr("former_nb.training.processes.Accelerator", one_of_two)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for device in ("cpu", "cuda"):
        monkeypatch.setenv("FORMER_NB_DEVICE", device)
        start_processes()
    assert asked == [True, False]


COUNT = """
import torch
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.sharding import shard_model

SENT = {"_allgather_base_": 0, "_reduce_scatter_base_": 1}  # which argument is whole


class Count(TorchDispatchMode):
    whole = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.removeprefix("c10d::")
        if func.namespace == "c10d":
            self.whole += args[SENT[name]].nbytes
        return func(*args, **(kwargs or {}))


torch.distributed.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
model = LanguageModel.from_config(TransformerConfig(128, 64, 64, 4, 3, 256, dropout=0.0))
n_bytes = sum(p.nbytes for p in model.parameters())
shard_model(model, 4, torch.device("cpu"))
with Count() as count:
    model(torch.zeros(2, 64, dtype=torch.long)).sum().backward()
print(count.whole, n_bytes)
"""


def test_a_sharded_step_gathers_all_weights_twice_and_sums_gradients_once():
    whole, n_bytes = map(int, succeeds(COUNT).split())  # four processes, three of them pretended
    sent = whole * (4 - 1) / 4  # around a ring
    assert sent == 1.5 * all_reduce_bytes(n_bytes, 4) == 3 * (4 - 1) / 4 * n_bytes


ALONE = """
import os
import torch
from torch.testing import assert_close
from former_nb.models.layers import Stack
from former_nb.models.config import TransformerConfig
from former_nb.training.sharding import cut_like, gather_tensors, is_sharded, shard_model
from former_nb.models.build import build_stack

os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="localhost", MASTER_PORT="0")
torch.distributed.init_process_group("gloo")
stack = build_stack(TransformerConfig(11, 9, d_model=8, n_heads=2, n_layers=2, d_ff=12))
before = {name: t.clone() for name, t in stack.state_dict().items()}
assert not is_sharded(stack)
shard_model(stack, 1, torch.device("cpu"))
assert is_sharded(stack)
assert_close(gather_tensors(stack.state_dict()), before)
for name, part in stack.state_dict().items():
    assert_close(cut_like(before[name], part).to_local(), part.to_local())
torch.distributed.destroy_process_group()
print(type(part).__name__)
"""


def test_a_single_process_gets_every_weight_back():
    assert succeeds(ALONE).split() == ["DTensor"]


def test_the_arithmetic_of_sending():
    assert [all_reduce_bytes(100, n) for n in (1, 2, 4)] == [0, 100, 150]
    assert step_seconds(6.0, 100, 1, 1.0) == 6.0
    assert step_seconds(6.0, 100, 2, 50.0, latency=0.25, repeated=1.0) == 3 + 1 + 0.5 + 2
    usual = dict(shared=1.0, n_bytes=10, processes=2, bandwidth=1.0)
    rates = "shared, latency, repeated, bandwidth"
    for name, wrong in dict(shared=-1, bandwidth=0, latency=float("nan"), n_bytes=-1).items():
        argument = name if name == "n_bytes" else rates
        refuses(lambda: step_seconds(**usual | {name: wrong}), ValueError, argument, str(wrong))
