"""A run that was stopped or killed goes on byte for byte; another run, a checkpoint of something
else and a full disk are refused.

`FORMER_NB_KILLS=20` runs the test with `kill -9` for longer.
"""

import json
import os
import signal
from dataclasses import replace

import pandas as pd
import pytest
import torch
from fit_tools import (
    HOPELESS,
    LOADERS,
    ROWS,
    VALID,
    Stop,
    V,
    alike,
    batches,
    loader,
    model,
    run,
    same,
    stop_at_call,
    stopped_and_resumed,
    weights,
)
from process_tools import succeeds
from refusals import every_row, refuses
from torch import nn

from former_nb.base import checkpoints
from former_nb.base.checkpoints import CHECKPOINT, read_checkpoint, write_checkpoint
from former_nb.base.core import set_seed
from former_nb.training.resuming import Checkpoint, lock_folder
from former_nb.training.training_config import TrainingConfig


def files(folder):
    "What a run leaves in its folder."
    return sorted(file.name for file in folder.iterdir())


# ---- stop and go on


@pytest.mark.filterwarnings("ignore:This process")  # forks of processes with threads
@pytest.mark.parametrize("name", LOADERS)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, name):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=4)
    straight = run(config, train=LOADERS[name]())
    assert alike(stopped_and_resumed(config, tmp_path, at=9, train=LOADERS[name]), straight)
    assert straight[1]["train"].nunique() == 4


def test_it_does_not_matter_where_a_run_was_stopped(tmp_path):
    config = dict(epochs=3, lr=0.05, muon_lr=0.1, label_smoothing=0.1)
    config = TrainingConfig(**config, gradient_accumulation_steps=3)
    straight = run(config)
    for at in (1, 5, 6, 14):
        assert alike(stopped_and_resumed(config, tmp_path / str(at), at), straight)


def test_a_run_can_be_stopped_again_and_again(tmp_path):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=1)
    for start in range(15):
        m = stop_at_call(model(seed=start), 2)
        try:
            run(config, m, folder=tmp_path, resume=True)
        except Stop:
            assert read_checkpoint(tmp_path)[1]["progress"]["step"] == start + 1
    assert alike(run(config, model(seed=77), folder=tmp_path, resume=True), run(config))


def test_a_finished_run_returns_at_once(tmp_path):
    config = TrainingConfig(epochs=3, lr=0.05)
    straight, expected = run(config, valid=HOPELESS, folder=tmp_path)
    before, never = (tmp_path / CHECKPOINT).read_bytes(), model(seed=5)
    never.register_forward_hook(lambda *_: pytest.fail("the model was called"))
    how = dict(folder=tmp_path, resume=True, on_best=lambda m: pytest.fail("nothing is better"))
    again, history = run(config, never, valid=HOPELESS, **how)
    pd.testing.assert_frame_equal(history, expected, check_exact=True)
    assert same(again, straight) and (tmp_path / CHECKPOINT).read_bytes() == before


def test_ctrl_c_leaves_the_best_weights_in_the_model_and_a_checkpoint(tmp_path):
    config, best = TrainingConfig(epochs=9, lr=0.05), []
    m, keep = stop_at_call(model(), 18, KeyboardInterrupt), lambda m: best.append(weights(m))
    with pytest.raises(KeyboardInterrupt):
        run(config, m, valid=HOPELESS, folder=tmp_path, on_best=keep)
    assert same(m, best[-1]) and read_checkpoint(tmp_path)[1]["progress"]["step"] == 15
    resumed = run(config, model(seed=3), valid=HOPELESS, folder=tmp_path, resume=True)
    assert alike(resumed, run(config, valid=HOPELESS))


@pytest.mark.parametrize("part", ["train", "valid"])
@pytest.mark.parametrize("kind", [list, loader])
def test_data_that_differ_in_one_number_of_their_last_row_are_other_data(tmp_path, part, kind):
    def made(last):
        rows = [*ROWS[:-1], [*ROWS[-1][:2], last]]
        return loader(rows=rows) if kind is loader else list(loader(rows=rows))

    config, kept = TrainingConfig(steps=2), dict(folder=tmp_path, resume=True)
    first = run(config, **{part: made(3)}, **kept)
    assert alike(run(config, model(seed=5), **{part: made(3)}, **kept), first)
    with pytest.raises(ValueError, match=f"is of another run: rows of {part}='"):
        run(config, model(seed=5), **{part: made(4)}, **kept)


OTHERS = {
    "lr=0.05, not 0.06": dict(config=dict(lr=0.06)),
    "seed=0, not 1": dict(config=dict(seed=1)),
    "epochs=3, not 4, ": dict(config=dict(epochs=4, patience=2)),
    "patience=None, not 2": dict(config=dict(epochs=4, patience=2)),
    "1.bias='(8,) torch.float32 by AdamW', not None": dict(
        model=lambda: nn.Sequential(nn.Embedding(V, 8), nn.Linear(8, V, bias=False))
    ),
    "0.weight='(7, 8) torch.float32 by AdamW', not '(7, 8) torch.float64 by AdamW'": dict(
        model=lambda: model().double()
    ),
    "batches of train=5, not 4": dict(train=lambda: batches(4)),
    "rows of train=": dict(train=LOADERS["noise in collate"], valid=HOPELESS),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished")
    run(TrainingConfig(epochs=3, lr=0.05), folder=folder)
    return folder


@pytest.mark.parametrize(("said", "other"), OTHERS.items(), ids=OTHERS)
def test_another_run_is_refused_and_what_differs_is_named(finished, said, other):
    config = replace(TrainingConfig(epochs=3, lr=0.05), **other.get("config", {}))
    before = (finished / CHECKPOINT).read_bytes()
    train, valid = other.get("train", batches)(), other.get("valid", VALID)
    with pytest.raises(ValueError, match="^folder: the checkpoint in ") as error:
        run(config, other.get("model", model)(), train, valid, folder=finished, resume=True)
    assert said in str(error.value) and (finished / CHECKPOINT).read_bytes() == before


def part_frozen(*frozen):
    m = model()
    for k in frozen:
        m[k].weight.requires_grad_(False)
    return m


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ((), (1,), "by Muon', not '(8, 8) torch.float32'"),
        ((0,), (), "0.weight='(7, 8) torch.float32', not '(7, 8) torch.float32 by AdamW'"),
    ],
)
def test_a_run_does_not_go_on_with_other_weights_frozen(tmp_path, before, now, said):
    config = TrainingConfig(epochs=3, lr=0.05)
    with pytest.raises(Stop):
        run(config, stop_at_call(part_frozen(*before), 9), folder=tmp_path)
    refused = "^folder: the checkpoint in .* is of another run: "
    with pytest.raises(ValueError, match=refused) as error:
        run(config, part_frozen(*now), folder=tmp_path, resume=True)
    assert str(error.value).endswith(said)
    resumed = run(config, part_frozen(*before), folder=tmp_path, resume=True)
    assert alike(resumed, run(config, part_frozen(*before)))


class Branches(nn.Module):
    "Two layers of one size, made in either order."

    def __init__(self, order, seed=0):
        super().__init__()
        set_seed(seed)
        layers = {name: nn.Linear(8, 8) for name in "ab"}
        self.embed, self.out = nn.Embedding(V, 8), nn.Linear(8, V)
        for name in order:
            setattr(self, name, layers[name])

    def forward(self, x):
        return self.out(self.b(self.a(self.embed(x)).relu()))


def test_what_an_optimizer_remembers_goes_to_the_weight_of_that_name(tmp_path):
    # clipping sums in the order of the weights
    config = TrainingConfig(epochs=3, lr=0.05, muon_lr=None, max_grad_norm=1e6)
    straight, _ = run(config, Branches("ab"))
    made = lambda seed: Branches("ba" if seed else "ab", seed)
    resumed, _ = stopped_and_resumed(config, tmp_path, 9, made=made)
    assert same({name: resumed.state_dict()[name] for name in straight.state_dict()}, straight)


def test_a_checkpoint_of_something_else_is_refused(tmp_path):
    write_checkpoint(tmp_path, {"weights": torch.ones(2)}, {"something": "else"})
    with pytest.raises(ValueError, match="^folder: the checkpoint in .* is of another run"):
        run(TrainingConfig(epochs=1), folder=tmp_path, resume=True)


def test_a_second_run_is_refused_while_the_first_lives(tmp_path):
    config, tried = TrainingConfig(epochs=2), []

    def second(_):
        with pytest.raises(ValueError, match="^folder: another run is training in"):
            run(config, folder=tmp_path, resume=True)
        tried.append(1)

    first = run(config, folder=tmp_path, on_best=second)
    again = run(config, model(seed=3), folder=tmp_path, resume=True)  # now it may
    assert tried and alike(again, first)
    with pytest.raises(Stop):  # a run that ends in an error lets go, too
        run(config, stop_at_call(model(), 2), folder=tmp_path / "b")
    lock_folder(tmp_path / "b").release()


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files")
def test_a_disk_that_fills_up_keeps_the_checkpoint_from_before(tmp_path):
    import resource

    config = TrainingConfig(epochs=3, lr=0.05, eval_every=1)
    full = resource.getrlimit(resource.RLIMIT_FSIZE)
    heed = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (3000, full[1]))
    m, calls = model(), iter(range(99))
    m.register_forward_hook(lambda *_: limit() if next(calls) == 8 else None)
    said = "^folder: no checkpoint could be written .* and the one before stays: "
    try:
        with pytest.raises(OSError, match=said):
            run(config, m, folder=tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, full)
        signal.signal(signal.SIGXFSZ, heed)
    assert files(tmp_path) == [CHECKPOINT]
    assert alike(run(config, model(seed=9), folder=tmp_path, resume=True), run(config))


@pytest.mark.parametrize("at", [2, 3, 5])
def test_ctrl_c_while_a_checkpoint_is_written(tmp_path, monkeypatch, at):
    config = TrainingConfig(epochs=3, lr=0.05, eval_every=2)
    replace_file, calls = os.replace, iter(range(1, 99))

    def interrupted(*names):
        if next(calls) == at:
            raise KeyboardInterrupt
        replace_file(*names)

    monkeypatch.setattr(checkpoints.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(config, folder=tmp_path)
    monkeypatch.undo()
    assert files(tmp_path) == [CHECKPOINT]
    assert alike(run(config, model(seed=9), folder=tmp_path, resume=True), run(config))


class Normed(nn.Module):
    "Batch-norm: buffers that training changes."

    def __init__(self, seed=0):
        super().__init__()
        set_seed(seed)
        self.embed, self.norm, self.out = nn.Embedding(V, 8), nn.BatchNorm1d(8), nn.Linear(8, V)

    def forward(self, x):
        return self.out(self.norm(self.embed(x).transpose(1, 2)).transpose(1, 2))


def test_buffers_are_saved_and_chosen_with_the_weights(tmp_path):
    config, stopped = TrainingConfig(epochs=3, lr=0.05), stop_at_call(Normed(), 9, part="norm")
    with pytest.raises(Stop):
        run(config, stopped, valid=HOPELESS, folder=tmp_path)
    assert stopped.norm.num_batches_tracked == 5  # as at the best look
    resumed = run(config, Normed(seed=5), valid=HOPELESS, folder=tmp_path, resume=True)
    assert alike(resumed, run(config, Normed(), valid=HOPELESS))


def test_a_folder_with_a_checkpoint_is_not_overwritten(tmp_path):
    config = TrainingConfig(epochs=1)
    run(config, folder=tmp_path)
    before = (tmp_path / CHECKPOINT).read_bytes()
    with pytest.raises(ValueError, match="continue it with resume=True, or choose another folder"):
        run(config, folder=tmp_path)
    assert (tmp_path / CHECKPOINT).read_bytes() == before
    (tmp_path / CHECKPOINT).write_bytes(before[:-1])
    with pytest.raises(ValueError, match="^folder: .* is not whole: "):
        run(config, folder=tmp_path, resume=True)


def test_what_a_killed_run_left_is_cleared_away(tmp_path):
    (tmp_path / ".writing-abc").mkdir()
    (tmp_path / ".writing-abc" / CHECKPOINT).touch()
    run(TrainingConfig(epochs=1), folder=tmp_path)
    assert files(tmp_path) == [CHECKPOINT]


def test_a_folder_that_cannot_be_written_is_noticed_before_training(tmp_path):
    (tmp_path / "file").touch()
    m = model()
    m.register_forward_hook(lambda *_: pytest.fail("the model was called"))
    with pytest.raises(OSError, match="^folder: .* cannot be written"):
        run(TrainingConfig(epochs=1), m, folder=tmp_path / "file")


# ---- bad input

test_bad_input_is_named = every_row(
    [
        ("folder", lambda: Checkpoint(""), TypeError, "folder"),
    ]
)


def test_a_refused_checkpoint_makes_no_folder(tmp_path):
    refuses(lambda: Checkpoint(tmp_path / "x", resume="no"), ValueError, "resume")
    assert not any(tmp_path.iterdir())


# ---- kill -9

KILLS = int(os.environ.get("FORMER_NB_KILLS", 6))
KILLED = """
import json, os, random, signal, sys, time
from pathlib import Path
import torch
from torch import nn
from former_nb.data.batches import make_batches
from former_nb.base.checkpoints import CHECKPOINT, read_checkpoint
from former_nb.base.core import set_seed
from former_nb.training.resuming import Checkpoint
from former_nb.training.training_config import TrainingConfig
from former_nb.training.fitting import fit

folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
rng = random.Random(int.from_bytes(os.urandom(4), "big"))
ROWS = [[random.Random(i).randrange(1, 9) for _ in range(3 + i % 4)] for i in range(104)]
CONFIG = TrainingConfig(epochs=12, lr=0.01, eval_every=10)

def attempt(where, seed=0):
    set_seed(seed)
    model = nn.Sequential(nn.Embedding(9, 32), nn.Linear(32, 32), nn.Dropout(0.3), nn.Linear(32, 9))
    callbacks = [] if where is None else [Checkpoint(where, True)]
    how = dict(device="cpu", progress=False, callbacks=callbacks)
    train, valid = make_batches(ROWS[:96], 8, shuffle=True), make_batches(ROWS[96:], 8)
    history = fit(model, train, valid, CONFIG, **how).drop(columns="seconds")
    return {name: t.numpy().tobytes() for name, t in model.state_dict().items()}, history

expected = attempt(None)
start = time.perf_counter()
attempt(folder / "timed")
duration = time.perf_counter() - start
signals, runs, begun = [], [folder / "0"], lambda run: (run / CHECKPOINT).exists()
while len(signals) < wanted:
    pid = os.fork()
    if not pid:
        try:
            attempt(runs[-1], seed=rng.randrange(99) if begun(runs[-1]) else 0)
        finally:
            os._exit(sys.exc_info()[0] is not None)
    early = len(signals) % 4 == 1
    time.sleep(rng.uniform(0, 0.02 if early else 2 * duration / wanted))
    os.kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if not os.WIFSIGNALED(status):  # it had ended by itself: well, or with an error
        assert os.WEXITSTATUS(status) == 0, "a run that went on has failed"
        runs.append(folder / str(len(runs)))
        continue
    signals.append(-os.WTERMSIG(status))
    if begun(runs[-1]):
        read_checkpoint(runs[-1])
ends = [attempt(run, seed=7 if begun(run) else 0) for run in runs]
print(json.dumps({
    "signals": signals,
    "same weights": all(weights == expected[0] for weights, _ in ends),
    "same history": all(history.equals(expected[1]) for _, history in ends),
    "left over": [str(path) for path in folder.glob("*/.writing-*")],
}))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_was_not(tmp_path):
    """The script forks a run, kills it at a random moment, reads its checkpoint, and lets the next
    one go on."""
    found = json.loads(succeeds(KILLED, tmp_path, KILLS).splitlines()[-1])
    assert found["signals"] == [-signal.SIGKILL] * KILLS and found["left over"] == []
    assert found["same weights"] and found["same history"]
