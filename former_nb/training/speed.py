"""A clock that times functions in turns, and what a device reaches at most.

A model waits for arithmetic or for memory, and a cure for one does nothing for the other. The deep
dive on long runs measures which of them it is.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

__all__ = [
    "seconds",
    "interleave",
    "Limits",
    "measure_limits",
]


def seconds(
    run: Callable[[], object],
    device: torch.device,
    calls: int = 1,  # so many calls between two looks at the clock
) -> float:
    "How long one call takes, until the device has done what it was given."
    wait = getattr(torch, device.type).synchronize  # that of torch.cpu does nothing
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait()
    return (time.perf_counter() - start) / calls


def interleave(
    runs: dict[str, Callable[[], object]],  # each has run once, so that all is compiled
    device: torch.device,
    budget: float = 4.0,  # seconds for all of them together
    rounds: int = 5,  # at least
) -> dict[str, list[float]]:  # seconds of one call, a number for each round
    "Time functions in turns, so that what slows the machine for a while slows all of them."
    calls = {name: max(1, round(0.02 / seconds(run, device))) for name, run in runs.items()}
    gc.collect()
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    start = time.perf_counter()
    while len(times[names[0]]) < rounds or time.perf_counter() < start + budget:
        for name in names:
            times[name].append(seconds(runs[name], device, calls[name]))
        names = names[1:] + names[:1]  # another one begins
    return times


@dataclass(frozen=True)
class Limits:
    "What a device reaches at most, as measured."

    flops: float  # operations per second, in large products
    bandwidth: float  # bytes per second, read and written

    @property
    def ridge(self) -> float:
        "Operations per byte from which on arithmetic takes longer than memory."
        return self.flops / self.bandwidth

    def least_seconds(
        self,
        flops: float,  # operations
        n_bytes: float,  # read and written
    ) -> float:
        "How long that takes if nothing else is in the way (Williams et al. 2009)."
        return max(flops / self.flops, n_bytes / self.bandwidth)


def measure_limits(
    device: torch.device,
    dtype: torch.dtype = torch.float32,  # of the product
) -> Limits:
    "The rates of a large product and of a long copy, each the best of ten."

    def best(run):
        return min(seconds(run, device) for _ in range(10))

    for n in (512, 1024, 2048, 4096, 8192):
        a = torch.randn(n, n, device=device).to(dtype)
        product = best(lambda a=a: a @ a)
        if product > 0.005:  # large enough
            break
    numbers = torch.ones(2**26, device=device)  # 256 MiB
    copy = torch.ones_like(numbers)
    return Limits(2 * n**3 / product, 2 * numbers.nbytes / best(lambda: copy.copy_(numbers)))
