"""Seconds of several functions in one run, memory in fresh processes, and what the machine can."""

import gc
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

LEAST = 0.02  # seconds of one measurement, so that the clock does not matter


def wait(device: torch.device) -> None:
    "Until the device has done what it was given."
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def seconds(run, device, calls=1) -> float:
    "Seconds of one call."
    wait(device)
    start = time.perf_counter()
    for _ in range(calls):
        run()
    wait(device)
    return (time.perf_counter() - start) / calls


def interleave(runs: dict, rounds: int, device: torch.device) -> dict[str, list[float]]:
    "Seconds of each function, all once per round, so that what slows the machine slows all."
    for run in runs.values():  # compile, allocate, fill caches
        run()
    calls = {name: max(1, round(LEAST / seconds(run, device))) for name, run in runs.items()}
    found, names = {name: [] for name in runs}, list(runs)
    for i in range(rounds):
        gc.collect()
        for name in names[i % len(names) :] + names[: i % len(names)]:
            found[name].append(seconds(runs[name], device, calls[name]))
    return found


def quartiles(numbers: list[float]) -> list[float]:
    "First quartile, median, third quartile."
    return (
        torch.tensor(numbers, dtype=torch.float64)
        .quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        .tolist()
    )


def summary(found: dict[str, list[float]]) -> dict[str, dict]:
    "Quartiles of the seconds, and of the ratios of ours to each other in the same round."
    ratios = {
        who: quartiles([ours / theirs for ours, theirs in zip(found["ours"], times)])
        for who, times in found.items()
        if who != "ours"
    }
    return {"seconds": {who: quartiles(times) for who, times in found.items()}, "ratio": ratios}


def limits(device: torch.device) -> dict[str, float]:
    "What this machine can in this run: float32 products, and bytes moved, per second."
    n = 4096 if device.type == "cuda" else 1024
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    big = torch.empty(2**26, device=device)  # 256 MiB
    to = torch.empty_like(big)
    best = {name: min(seconds(run, device) for _ in range(10)) for name, run in {
        "product": lambda: a @ b, "copy": lambda: to.copy_(big)}.items()}  # fmt: skip
    half = a.bfloat16()
    bf16 = min(seconds(lambda: half @ half, device) for _ in range(10))
    return {
        "flop_per_s": 2 * n**3 / best["product"],
        "bf16_flop_per_s": 2 * n**3 / bf16,
        "bytes_per_s": 2 * big.numel() * 4 / best["copy"],
    }


def peak_memory(run, device: torch.device) -> int:
    "Bytes that two calls of `run` needed at most, beyond what was there before."
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run(), run()
        return torch.cuda.max_memory_allocated() - before
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux: the peak of the whole process
        run(), run()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    held = lambda name: int(status.read_text().split(name + ":")[1].split()[0]) * 1024
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = held("VmRSS")
    run(), run()
    return held("VmHWM") - before


def in_fresh_process(*args: str) -> dict | None:
    "What `python -m benchmarks ARGS` prints as JSON on its last line; None if it failed."
    command = [sys.executable, "-m", "benchmarks", *args]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
