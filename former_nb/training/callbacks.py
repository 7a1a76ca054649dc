"""What joins `fit` from outside: a progress bar, the best model.

A callback is an object whose methods `fit` calls at four moments. It sees the whole run, so none of
this needs a line in the loop.
"""

from collections.abc import Callable
from typing import Any

from tqdm import tqdm

from ..base.guards import check_type

__all__ = [
    "Callback",
    "ProgressBar",
    "SaveBest",
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
        self.bar = tqdm(**kwargs, leave=False, disable=hidden)

    def on_evaluate(self, run: Any) -> None:
        self.on_step_end(run)
        losses = {name: run.history[-1][name] for name in ("train", "valid")}
        self.bar.set_postfix({k: f"{loss:.3f}" for k, loss in losses.items() if loss is not None})

    def on_step_end(self, run: Any) -> None:
        self.bar.update(run.step - self.bar.n)

    def on_end(self, run: Any) -> None:
        self.bar.close()


class SaveBest(Callback):
    """Calls `save(model)` whenever the model is the best so far, in the first process. What should
    happen then is your decision."""

    def __init__(
        self,
        save: Callable,  # such as lambda model: save_model(folder, model, tokenizer)
    ):
        check_type("save", save, Callable)
        self.save = save

    def on_evaluate(self, run: Any) -> None:
        if run.since_best == 0 and run.accelerator.is_main_process:
            self.save(run.model)
