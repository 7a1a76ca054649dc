"""A training step that two processes share, a core for each, beside the same step in one process.

Both take the same batch. Each process computes its half of the rows, the gradients are summed, and
each updates all weights. So two are never twice as fast: the sum and the update aren't shared.
"""

import json
import os
import subprocess
import sys
import time
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from . import timing
from .workloads import SIZES

OPTIMIZERS = {"AdamW": None, "Muon": 0.02}  # the rate of Muon
NAMES = ["/".join(["two_processes", *names]) for names in product(SIZES, OPTIMIZERS)]
ROWS, VOCABULARY = 32, 65  # texts in a batch, of as many tokens as the model reads
SCRIPT = """
import json, os, sys, time, torch
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.training.callbacks import Callback
from former_nb.training.fitting import fit
from former_nb.training.training_config import TrainingConfig

class Clock(Callback):
    def on_start(self, run):
        self.seconds, self.before = [], time.perf_counter()

    def on_step_end(self, run):
        now = time.perf_counter()
        self.seconds.append(now - self.before)
        self.before = now

asked = json.loads(sys.argv[1])
torch.set_num_threads(1)
torch.manual_seed(0)
model = LanguageModel.from_config(TransformerConfig(asked["vocabulary"], **asked["sizes"]))
tokens = torch.randint(4, asked["vocabulary"], (asked["rows"], asked["sizes"]["max_len"]))
batches = [(tokens, tokens.roll(-1, 1))]
config = TrainingConfig(steps=asked["steps"], muon_lr=asked["muon_lr"], eval_every=10_000)
clock = Clock()
fit(model, batches, batches, config, callbacks=[clock], progress=False, device="cpu")
if os.environ.get("RANK", "0") == "0":
    print(json.dumps(clock.seconds))
"""
WARM_UP, STEPS, ROUNDS = 2, 3, 3  # steps that aren't counted, steps that are, and how often


def time_steps(folder: Path, n: int, steps: int, sizes: dict, muon_lr: float | None) -> list[float]:
    "Seconds of some steps on n processes. Raises `RuntimeError` with their error."
    script = folder / "steps.py"
    script.write_text(SCRIPT)
    asked = dict(vocabulary=VOCABULARY, rows=ROWS, sizes=sizes, muon_lr=muon_lr)
    asked["steps"] = WARM_UP + steps
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(n)]
    command = [sys.executable, *(launcher if n > 1 else []), str(script), json.dumps(asked)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        lines = done.stderr.splitlines() or ["its process was ended"]
        errors = [line for line in lines if "Error: " in line]  # torchrun has some of its own
        raise RuntimeError(errors[0] if errors else lines[-1])
    return json.loads(done.stdout.splitlines()[-1])[WARM_UP:]


def measure(name: str, budget: float) -> dict:
    "Seconds of steps on two processes and on one, which take turns, at least three times."
    _, size, optimizer = name.split("/")
    how = SIZES[size], OPTIMIZERS[optimizer]
    if (os.cpu_count() or 1) < 2:
        raise ValueError("two processes need two cores")
    found: dict[str, list[float]] = {"ours": [], "one process": []}
    begin = time.perf_counter()
    with TemporaryDirectory() as folder:
        while len(found["ours"]) < ROUNDS * STEPS or time.perf_counter() - begin < budget:
            for n, who in enumerate(["one process", "ours"], start=1):
                found[who] += time_steps(Path(folder), n, STEPS, *how)
    return timing.summary(found) | {"limit": None}
