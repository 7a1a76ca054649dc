"""What joins `fit` from outside: a progress bar, the best model, curves.

A callback is an object whose methods `fit` calls at four moments. It sees the whole run, so none of
this needs a line in the loop.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm import tqdm

from ..base.core import from_extra
from ..base.files import check_path
from ..base.guards import check_type
from .sharding import is_sharded

__all__ = [
    "Callback",
    "ProgressBar",
    "SaveBest",
    "TensorBoard",
    "plot_history",
]


class Callback:
    "What joins `fit` from outside, such as a tracker. Override what you need; `run` is a `Run`."

    def on_start(self, run: Any) -> None:
        "Before the first step."

    def on_evaluate(self, run: Any) -> None:
        "After an evaluation; its row is the last of `run.history`."

    def on_step_end(self, run: Any) -> None:
        "After each step and its evaluation, if there was one."

    def on_end(self, run: Any) -> None:
        "At the end, also after an error."


class ProgressBar(Callback):
    "A bar of steps, without an end where only the clock ends the run. The first process draws it."

    def on_start(self, run: Any) -> None:
        hidden = not run.accelerator.is_main_process
        kwargs = {"total": run.steps, "initial": run.step, "unit": "step"}
        self.waiting = True  # a bar without a step would look as if nothing happened
        self.bar = tqdm(**kwargs, leave=False, disable=hidden, bar_format="first step ...")

    def on_evaluate(self, run: Any) -> None:
        self.on_step_end(run)
        losses = {name: run.history[-1][name] for name in ("train", "valid")}
        self.bar.set_postfix({k: f"{loss:.3f}" for k, loss in losses.items() if loss is not None})

    def on_step_end(self, run: Any) -> None:
        self.bar.bar_format = None
        self.bar.update(run.step - self.bar.n)
        if self.waiting:
            self.bar.refresh()
        self.waiting = False

    def on_end(self, run: Any) -> None:
        self.bar.close()


class SaveBest(Callback):
    """Calls `save(model)` whenever the model is the best so far: in the first process, and in all
    where its weights are cut between them. What should happen then is your decision."""

    def __init__(
        self,
        save: Callable,  # such as lambda model: save_model(folder, model, tokenizer)
    ):
        check_type("save", save, Callable)
        self.save = save

    def on_evaluate(self, run: Any) -> None:
        if run.since_best == 0 and (run.accelerator.is_main_process or is_sharded(run.model)):
            self.save(run.model)


class TensorBoard(Callback):
    "Writes the curves of the history into a folder, for TensorBoard."

    def __init__(self, folder: str | Path):
        self.folder = check_path("folder", folder)
        self.writer: Any = None
        with from_extra("tensorboard", "tensorboard"):
            from torch.utils.tensorboard import SummaryWriter

        self.open = SummaryWriter

    def on_evaluate(self, run: Any) -> None:
        if not run.accelerator.is_main_process:
            return
        if self.writer is None:  # what a killed run wrote beyond this step is hidden
            self.writer = self.open(self.folder, purge_step=run.step)
        for name in ("train", "valid", "lr"):
            if run.history[-1][name] is not None:  # nothing was held out
                self.writer.add_scalar(name, run.history[-1][name], run.step)
        self.writer.flush()

    def on_end(self, run: Any) -> None:
        if self.writer is not None:
            self.writer.close()


def plot_history(
    history: pd.DataFrame,  # from `fit`
    title: str = "",
) -> Any:  # an Altair chart
    """Draw the loss on the training and the validation data against the step.

    The scale is logarithmic, because losses fall by the same factor again and again.
    """
    with from_extra("charts", "altair"):
        import altair as alt

    long = history.melt(["step", "lr"], ["train", "valid"], "split", "loss")
    long = long.dropna(subset=["loss"])  # where nothing was held out
    chart = alt.Chart(long, width=420, height=200, title=title).mark_line(point=True)
    return chart.encode(
        x=alt.X("step:Q", title="step"),
        y=alt.Y("loss:Q", scale=alt.Scale(type="log"), title="loss (nats per target)"),
        color=alt.Color("split:N", scale=alt.Scale(range=["#000000", "#E69F00"])),
        strokeDash="split:N",
        tooltip=["step", "split", *(alt.Tooltip(f"{k}:Q", format=".4f") for k in ("loss", "lr"))],
    )
