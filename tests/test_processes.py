"""`fit` on several processes: real processes, real sockets."""

import json
import os
import shutil
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from process_tools import succeeds
from refusals import refuses

from former_nb.base.checkpoints import read_checkpoint
from former_nb.saving.saving import load_model
from former_nb.training.processes import start_processes

WORKER = """
import json, os, sys
from pathlib import Path

from former_nb.base.core import set_seed
from former_nb.data.batches import make_batches
from former_nb.data.tokenization import CharTokenizer, encode_texts
from former_nb.data.toy_data import SEPARATOR, collate_answers, toy_texts
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import LanguageModel
from former_nb.saving.saving import save_model
from former_nb.training.callbacks import Callback, SaveBest
from former_nb.training.fitting import fit
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig


class Stop(Callback):
    def on_step_end(self, run):
        if run.step == 5:
            raise KeyboardInterrupt


def train(folder, stop=False, **settings):
    "The losses of each step of one run; None where it was stopped."
    texts = toy_texts("reverse", 360)
    tokenizer = CharTokenizer.train(texts)
    rows = encode_texts(texts, tokenizer)
    collate = collate_answers(*tokenizer.encode(SEPARATOR))
    batches = make_batches(rows[:-60], 33, shuffle=True, collate=collate)
    valid = make_batches(rows[-60:], 25, collate=collate)  # 3: no multiple of 2
    set_seed(0)
    sizes = TransformerConfig(tokenizer.vocab_size, 22, 16, 2, 1, 32, dropout=0.0)
    model = LanguageModel.from_config(sizes).double()
    config = TrainingConfig(**dict(steps=8, eval_every=1, lr=1e-2, muon_lr=None) | settings)
    keep = SaveBest(lambda model: save_model(folder / "model", model, tokenizer))
    callbacks = [Checkpoint(folder, resume=True), keep] + [Stop()] * stop
    how = dict(callbacks=callbacks, progress=False, device="cpu")
    try:
        return fit(model, batches, valid, config, **how)[["train", "valid"]].values.tolist()
    except KeyboardInterrupt:
        return None


folder = Path(sys.argv[1])
told = {name: train(folder / name, **how) for name, how in json.loads(sys.argv[2]).items()}
Path(folder, f"losses-{os.environ.get('RANK', 'alone')}.json").write_text(json.dumps(told))
"""


def losses(folder, jobs, *launcher):
    "What each process of a run returned, by the name of the job."
    folder.mkdir(exist_ok=True)
    (folder / "worker.py").write_text(WORKER, encoding="utf-8")
    code = WORKER
    if launcher:
        code = "from torch.distributed.run import main\nmain()"
        launcher = [*launcher, folder / "worker.py"]
    succeeds(code, *launcher, folder, json.dumps(jobs))
    files = sorted(folder.glob("losses-*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.mark.skipif(os.name == "nt", reason="torchrun needs libuv there")
def test_two_processes_are_one_and_what_they_began_goes_on_in_one(tmp_path):
    jobs = {"plain": {}, "parts": {"gradient_accumulation_steps": 2}, "muon": {"muon_lr": 0.02}}
    torchrun = ("--standalone", "--nproc-per-node", 2)
    first, second = losses(tmp_path / "two", jobs | {"stopped": {"stop": True}}, *torchrun)
    assert first == second and first.pop("stopped") is None
    stopped = tmp_path / "two" / "stopped"
    assert read_checkpoint(stopped)[1]["progress"]["step"] == 5
    shutil.copytree(stopped, tmp_path / "one" / "stopped")
    [alone] = losses(tmp_path / "one", jobs | {"stopped": {}})
    first["stopped"] = first["plain"]
    for name, curve in alone.items():
        ours, theirs = (torch.tensor(each, dtype=torch.float64) for each in (curve, first[name]))
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)
    ours, theirs = (load_model(tmp_path / n / "plain" / "model").model for n in ("one", "two"))
    for name, weight in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], weight, rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["FSDP", "DEEPSPEED", "MEGATRON_LM"])
def test_other_ways_to_share_a_model_are_refused(kind, monkeypatch):
    monkeypatch.setenv(f"ACCELERATE_USE_{kind}", "true")
    refuses(lambda: start_processes("cpu"), ValueError, "processes", kind)


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
