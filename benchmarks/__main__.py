"""Time our modules beside what you would use instead.

python -m benchmarks                      every workload
python -m benchmarks attention generate   those whose names begin so

Contenders take turns in one run. Ours runs twice: "ours again" shows how far chance alone moves a
ratio. Results are written after each workload, so a run that is cut off keeps what it has.
"""

import argparse
import json
import platform
import sys
from pathlib import Path

import torch

from former_nb.core import pick_device, set_seed

from . import chart, start, timing
from .workloads import WORKLOADS

HERE = Path(__file__).parent


def contenders(name, device):
    "The functions of a workload, ours a second time, and the flop of one call."
    set_seed(0)
    runs, flop = WORKLOADS[name](device)
    return {"ours": runs["ours"], "ours again": runs["ours"]} | runs, flop


def memory(name, names):
    "Peak memory of each contender, each in a process of its own."
    found = {who: timing.in_fresh_process("--memory", name, who) for who in names}
    return {who: peak["bytes"] for who, peak in found.items() if peak}


def measure(name, device, rounds):
    "Everything that is known about one workload."
    runs, flop = contenders(name, device)
    known = timing.summary(timing.interleave(runs, rounds, device))
    return known | {"memory": memory(name, runs.keys() - {"ours again"}), "flop": flop}


def show(name, result, limit):
    "A line per contender."
    for who, (low, middle, high) in result["ratio"].items():
        ms = result["seconds"][who][1] * 1e3
        peak = result.get("memory", {}).get(who)
        print(f"{name:32} {who:32} {middle:6.2f}  ({low:.2f} to {high:.2f}) {ms:9.2f} ms", end="")
        print(f" {peak / 2**20:7.0f} MiB" if peak else "")
    ms = result["seconds"]["ours"][1] * 1e3
    share = result["flop"] and result["flop"] / result["seconds"]["ours"][1] / limit
    print(f"{name:32} {'ours':32} {'':23} {ms:9.2f} ms", end="")
    print(f", {share:.0%} of the limit" if share else "", flush=True)


def main(argv=None):
    p = argparse.ArgumentParser(
        "benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", help="beginnings of names of workloads; all if left out")
    p.add_argument("--list", action="store_true", help="print the names and stop")
    p.add_argument("--rounds", type=int, default=15, help="turns that each contender takes")
    p.add_argument("--threads", type=int, default=1, help="of the CPU")
    p.add_argument("--out", type=Path, help="JSON file; a chart is drawn beside it")
    p.add_argument("--memory", nargs=2, metavar=("NAME", "WHO"), help=argparse.SUPPRESS)
    args = p.parse_args(argv)
    torch.set_num_threads(args.threads)
    device = pick_device()
    if args.memory:
        name, who = args.memory
        print(json.dumps({"bytes": timing.peak_memory(contenders(name, device)[0][who], device)}))
        return
    everything = [*WORKLOADS, *start.NAMES]
    chosen = [n for n in everything if n.startswith(tuple(args.names)) or not args.names]
    if args.list or not chosen:
        print("\n".join(everything))
        sys.exit(0 if args.list else f"names: none begins with {args.names}; above is the list")
    out = args.out or HERE / "results" / f"{device.type}-{args.threads}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    results = json.loads(out.read_text()) if out.exists() else {"workloads": {}}
    results |= {"device": device_name(device), "threads": args.threads, "torch": torch.__version__}
    results["limits"] = timing.limits(device)
    for name in chosen:
        try:
            found = start.measure(name, args.rounds) if name in start.NAMES else measure(
                name, device, args.rounds
            )  # fmt: skip
        except (MemoryError, RuntimeError) as error:
            print(f"{name}: left out: {str(error).splitlines()[0]}", file=sys.stderr)
            continue
        kind = "bf16_flop_per_s" if "bf16" in name else "flop_per_s"
        show(name, found, results["limits"][kind])
        results["workloads"][name] = found
        out.write_text(json.dumps(results, indent=1))
    chart.draw(results, out.with_suffix(".svg"))


def device_name(device):
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    return f"{device.type}, {platform.processor() or platform.machine()}"


if __name__ == "__main__":
    main()
