"""Ratios of what took turns, memory in fresh processes, and what is still free."""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch


def quartiles(numbers: list[float]) -> list[float]:
    "First quartile, median, third quartile."
    at = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    return torch.tensor(numbers, dtype=torch.float64).quantile(at).tolist()


def summary(found: dict[str, list[float]]) -> dict[str, dict]:
    "Quartiles of the seconds, and of the ratios of ours to each other in the same round."
    ratios = {
        who: quartiles([ours / theirs for ours, theirs in zip(found["ours"], times)])
        for who, times in found.items()
        if who != "ours"
    }
    return {"seconds": {who: quartiles(times) for who, times in found.items()}, "ratio": ratios}


ENERGY = Path("/sys/class/powercap")  # where Linux counts what an Intel or AMD processor takes


def read_joules(device: torch.device, counters: Path = ENERGY) -> float | None:
    "What the machine has counted so far; None where it counts nothing, or only for its owner."
    try:
        if device.type == "cuda":
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByIndex(device.index or 0)
            return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
        packages = sorted(counters.glob("intel-rapl:*[0-9]/energy_uj"))
        whole = [file for file in packages if file.parent.name.count(":") == 1]
        return sum(int(file.read_text()) for file in whole) / 1e6 if whole else None
    except Exception:  # no right to read, no NVML, or an error of its own
        return None


def joules(run, device: torch.device, budget: float, counters: Path = ENERGY) -> float | None:
    "What one call takes, everything on the machine included; None where it cannot be read."
    if read_joules(device, counters) is None:
        return None
    calls = 0
    end = time.monotonic() + budget
    before = read_joules(device, counters)
    while calls == 0 or time.monotonic() < end:
        run()
        calls += 1
    taken = (read_joules(device, counters) - before) / calls
    return taken if taken > 0 else None  # a counter that began anew


def free_memory(device: torch.device) -> float:
    "Bytes that may still be taken."
    if device.type == "cuda":
        return torch.cuda.mem_get_info()[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    known = Path("/proc/meminfo")
    if not known.exists():
        return float("inf")
    return int(known.read_text().split("MemAvailable:")[1].split()[0]) * 1024


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

    def held(name):
        return int(status.read_text().split(name + ":")[1].split()[0]) * 1024

    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = held("VmRSS")
    run(), run()
    return held("VmHWM") - before


def peaks(name: str, names) -> dict[str, int]:
    "Peak memory of each contender, each in a process of its own. One that is killed is left out."
    found = {}
    for who in names:
        command = [sys.executable, "-m", "benchmarks", "--threads", str(torch.get_num_threads())]
        done = subprocess.run([*command, "--peak", name, who], capture_output=True, text=True)
        if done.returncode == 0:
            found[who] = json.loads(done.stdout.splitlines()[-1])["bytes"]
        else:
            why = (done.stderr.splitlines() or ["not enough memory"])[-1]
            print(f"{name}: {who} is left out: its process ended: {why}", file=sys.stderr)
    return found
