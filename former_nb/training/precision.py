"""Whether a run with `precision="auto"` computes in bf16 on a CPU.

Some CPUs have units for bf16 and others have none, and small layers gain nothing by them, so a run
measures a few steps each way before its first. It does so only where it ends by the clock. A run of
so many steps or epochs gives the same weights each time, and no clock may choose for it. What three
seeds lost and gained in bf16 is on the page about optimization.
"""

import copy
import statistics
import time
from collections.abc import Callable

import torch
from torch import nn

from ..base.core import in_test
from .muon import cpu_has_bf16
from .optimization import count_targets
from .speed import seconds
from .training_config import TrainingConfig

__all__ = [
    "choose_precision",
]

SMALL = 1e9  # operations of a step, some 10 ms of a core
ROUNDS = 5  # comparisons, of which the median counts
LONGEST = 0.02  # share of a run in which another comparison may begin
FASTER = 0.95  # time of bf16, in times of float32, from which on chance does not explain it


def reason_for_float32(
    model: nn.Module,
    batch,  # (inputs, targets)
    config: TrainingConfig,
    processes: int = 1,  # that train together
) -> str | None:  # in words; None where it is worth measuring
    "Why a run on a CPU does not even measure bf16. No clock is asked."
    if not cpu_has_bf16():
        return "this CPU has no units for bf16"
    if config.minutes is None:
        return "a run that does not end by the clock is the same each time"
    if config.minutes < 1 or in_test():
        return "the run is short"
    if processes > 1:
        return "several processes share each batch"
    if config.compile:
        return "the model is compiled"
    weights = sum(p.numel() for p in model.parameters())
    if 6 * weights * count_targets(batch[1]) < SMALL:
        return "the steps are small"
    return None


def compare_steps(
    model: nn.Module,  # stays as it is
    batch,  # (inputs, targets)
    losses: dict[str, Callable],  # 'no' and 'bf16' -> maps (model, batch) to a scalar
    limit: float,  # seconds after which no other comparison begins
) -> float:  # time of bf16, in times of float32
    "Forward and backward of a copy of the model, timed in turns."
    trial = copy.deepcopy(model).train()

    def step(precision):
        losses[precision](trial, batch).backward()
        trial.zero_grad()

    device = torch.device("cpu")
    step("no")
    step("bf16")  # the first of each makes what later ones use again
    start = time.perf_counter()
    ratios: list[float] = []
    while not ratios or (len(ratios) < ROUNDS and time.perf_counter() < start + limit):
        float32 = seconds(lambda: step("no"), device)
        bf16 = seconds(lambda: step("bf16"), device)
        ratios.append(bf16 / float32)
    return statistics.median(ratios)


def choose_precision(
    model: nn.Module,  # stays as it is, on the CPU
    batch,  # (inputs, targets), such as the first of a run
    config: TrainingConfig,
    losses: dict[str, Callable],  # as for `compare_steps`
    processes: int = 1,  # that train together
) -> tuple[str, str]:  # 'no' or 'bf16', and why in one line
    "What `precision='auto'` means for a run on a CPU."
    reason = reason_for_float32(model, batch, config, processes)
    if reason is not None:
        return "no", f"float32: {reason}"
    try:
        ratio = compare_steps(model, batch, losses, LONGEST * config.seconds)
    except RuntimeError as error:  # such as an operation that bf16 does not have
        return "no", f"float32: bf16 fails ({str(error).splitlines()[0]:.80})"
    times = f"forward and backward in bf16 take {ratio:.2f} times as long as in float32"
    if ratio > FASTER:
        return "no", f"float32: {times}"
    return "bf16", f"bf16: {times}"
