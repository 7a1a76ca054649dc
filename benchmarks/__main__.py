"""Time our modules beside what you would use instead.

python -m benchmarks                        every workload: a quarter of an hour on a CPU
python -m benchmarks attention/512 generate   those whose names begin so
python -m benchmarks --threads 1 2          all of it with one thread, then with two
python -m benchmarks --profile write        where the time of each contender goes
python -m benchmarks --table                what was measured, as a table in Markdown
python -m benchmarks --readme               write what README.md shows of it into nbs/index.ipynb,
                                            and what was reached into benchmarks/README.md

Contenders take turns in one run. Ours runs twice, and "ours again" shows how far chance alone moves
a ratio. Below 1 ours is faster. A peer that is not installed, or is of a version that does not fit,
is left out by name: pip install transformers x-transformers litgpt. The limit is the time that this
machine would need if nothing but its measured rate of products or its memory held it up. Where the
machine counts the energy that it takes, a call's joules are shown, with all else that runs.

It computes on a GPU where there is one; FORMER_NB_DEVICE=cpu keeps it on the CPU. Real lengths of
reviews and captions are taken from FORMER_NB_DATA or a download, else from generated sentences.
Results are written after each workload, so a run that is cut off keeps what it has. Each kind of
machine has a file of its own.
"""

import argparse
import json
import os
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

import former_nb
from former_nb.base.core import pick_device, set_seed
from former_nb.training.speed import Limits, interleave, measure_limits, seconds

from . import chart, peers, processes, profile, start, timing
from .workloads import WORKLOADS

RESULTS = Path(__file__).parent / "results"
INDEX = Path(__file__).parents[1] / "nbs" / "index.ipynb"
NAMES = [*WORKLOADS, *start.NAMES, *processes.NAMES]
PACKAGES = "torch", "transformers", "x-transformers", "litgpt"


def measure(name, args, device, limits):
    "All that is found out about one workload; `limits` of the machine are measured once."
    if name in start.NAMES:
        return start.measure(name, args.seconds)
    if name in processes.NAMES:
        return processes.measure(name, args.seconds)
    set_seed(0)
    work = WORKLOADS[name](device)
    runs = {"ours": work.runs["ours"], "ours again": work.runs["ours"]} | work.runs
    if name.startswith("memory"):
        memory = timing.peaks(name, runs)
        if "ours" not in memory:
            raise MemoryError("it does not fit in memory")
        ratio = {who: [memory["ours"] / memory[who]] * 3 for who in memory if who != "ours"}
        return {"seconds": {}, "ratio": ratio, "memory": memory, "limit": None}
    runs = peers.that_run(runs)
    known = timing.summary(interleave(runs, device, args.seconds))
    if (kind := str(work.dtype)) not in limits:
        limits[kind] = vars(measure_limits(device, work.dtype))
    least = Limits(**limits[kind]).least_seconds(work.flops, work.n_bytes)
    known["limit"] = least / known["seconds"]["ours"][1]
    energy = {
        who: timing.joules(run, device, args.seconds / len(runs)) for who, run in runs.items()
    }
    known["joules"] = {who: taken for who, taken in energy.items() if taken is not None}
    if args.memory:
        known["memory"] = timing.peaks(name, runs.keys() - {"ours again"})
    return known


def show(name, found):
    "A line per contender."
    for who in {**found["seconds"], **found.get("memory", {})}:
        ratio = found["ratio"].get(who)
        print(f"{name:34} {who:32}", end="")
        print("{1:6.2f}  ({0:.2f} to {2:.2f})".format(*ratio) if ratio else " " * 22, end="")
        if times := found["seconds"].get(who):
            print(f"{times[1] * 1e3:10.2f} ms", end="")
        if taken := found.get("joules", {}).get(who):
            print(f"{taken:9.3g} J", end="")
        if peak := found.get("memory", {}).get(who):
            print(f"{peak / 2**20:8.0f} MiB", end="")
        print(f"  {found['limit']:.0%} of the limit" if who == "ours" and found["limit"] else "")
    sys.stdout.flush()


def versions():
    "Of what is timed, where it is installed."
    found = {"python": platform.python_version(), "former-nb": former_nb.__version__}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    return found


def machine(device, cpuinfo=Path("/proc/cpuinfo")):
    "The device in words. Processors of one name differ, so where it is known the model follows."
    if device.type == "cuda":
        return torch.cuda.get_device_name()
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    known = dict(re.findall(r"^(model name|cpu family|model)[ \t]*: *(.+)$", text, re.M))
    name = known.get("model name") or platform.processor() or platform.machine()
    if "model" in known:
        name += f", family {known.get('cpu family', '?')}, model {known['model']}"
    return f"{device.type}, {name}"


def results_file(folder, words, threads):
    "Where the results of a machine are kept, by what `machine` says of it."
    kind, _, name = words.partition(", ")
    if not name:  # a GPU says its name alone
        kind, name = "cuda", words
    name = re.sub("[^a-z0-9]+", "-", re.sub(r"\(\w+\)", "", name).lower()).strip("-")
    return folder / f"{kind}-{threads}-{name}.json"


def is_there(device):
    "Whether the device still computes."
    try:
        seconds(lambda: torch.ones(1, device=device) + 1, device)
    except RuntimeError:
        return False
    return True


def measure_all(chosen, args, device, threads):
    "Each workload, results kept after each."
    file = results_file(args.out, machine(device), threads)
    results = json.loads(file.read_text()) if file.exists() else {"workloads": {}}
    results |= {"device": machine(device), "threads": threads, "versions": versions()}
    results["limits"] = {}
    args.out.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        try:
            found = measure(name, args, device, results["limits"])
        except Exception as error:
            if not is_there(device):
                sys.exit(f"stopped at {name}: {device} is gone; what was measured is in {file}")
            print(f"{name} is left out: {peers.sentence(error)}", file=sys.stderr)
            continue
        show(name, found)
        results["workloads"][name] = found
        file.write_text(json.dumps(results, indent=1))
    if results["workloads"]:
        chart.draw(results, file.with_suffix(".svg"))


def parse(argv):
    p = argparse.ArgumentParser(
        "benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("names", nargs="*", help="beginnings of names of workloads; all if left out")
    p.add_argument("--list", action="store_true", help="print the names and stop")
    p.add_argument("--table", action="store_true", help="print what was measured and stop")
    p.add_argument("--readme", action="store_true", help="write README's tables and stop")
    p.add_argument("--profile", action="store_true", help="print where the time goes and stop")
    p.add_argument("--memory", action="store_true", help="and peak memory of all: slow")
    p.add_argument(
        "--seconds", type=float, default=3.0,
        help="for each workload, at least five rounds; default: %(default)s",
    )  # fmt: skip
    p.add_argument(
        "--threads", type=int, nargs="+", default=[1], metavar="N",
        help="of the CPU; several numbers make several runs; default: 1",
    )  # fmt: skip
    p.add_argument(
        "--out", type=Path, default=RESULTS, metavar="FOLDER",
        help="JSON and a chart for each number of threads; default: benchmarks/results",
    )  # fmt: skip
    p.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)  # one contender of one workload
    return p.parse_args(argv)


def main(argv=None):
    args = parse(argv)
    if args.table or args.readme:
        several = [json.loads(file.read_text()) for file in sorted(args.out.glob("*.json"))]
        if args.readme:
            write_readme(several)
            write_aims(several)
        else:
            print(chart.table(several))
        return
    chosen = [n for n in NAMES if n.startswith(tuple(args.names)) or not args.names]
    if args.list or not chosen:
        print("\n".join(NAMES))
        sys.exit(0 if args.list else f"names: none begins with {args.names}; above is the list")
    if args.peak:
        return print_peak(*args.peak, args.threads[0])
    if args.profile:
        return print_profiles(chosen, args.threads[0])
    for n in args.threads:
        torch.set_num_threads(n)
        os.environ["OMP_NUM_THREADS"] = str(n)  # of the processes that we start
        measure_all(chosen, args, pick_device(), n)


def write_readme(several, index=INDEX):
    "Put the table in the place of the one that `nbs/index.ipynb` has."
    page = json.loads(index.read_text(encoding="utf-8"))
    for cell in page["cells"]:
        text = "".join(cell["source"])
        if chart.README_HEAD in text:
            text = chart.README_TABLE.sub(lambda found: chart.readme(several), text)
            cell["source"] = text.splitlines(keepends=True)
    text = json.dumps(page, indent=1, ensure_ascii=False) + "\n"
    index.write_text(text, encoding="utf-8", newline="\n")
    print(f"{index.name} has the table; python tools/readme.py writes README.md")


def write_aims(several, page=Path(__file__).with_name("README.md")):
    "Put what was aimed at and reached in the place of the table that README.md here has."
    text = page.read_text(encoding="utf-8")
    text = chart.AIMS_TABLE.sub(lambda found: chart.aims(several), text)
    page.write_text(text, encoding="utf-8", newline="\n")


def print_profiles(chosen, threads):
    "Where the time of every contender goes."
    torch.set_num_threads(threads)
    device = pick_device()
    for name in chosen:
        if name in start.NAMES + processes.NAMES:
            continue  # processes of their own
        set_seed(0)
        for who, run in peers.that_run(WORKLOADS[name](device).runs).items():
            print(profile.say(name, who, profile.shares(run, device)), flush=True)


def print_peak(name, who, threads):
    "What one contender of one workload needs, for `timing.peaks`."
    torch.set_num_threads(threads)
    set_seed(0)
    device = pick_device()
    run = WORKLOADS[name](device).runs[who.removesuffix(" again")]
    print(json.dumps({"bytes": timing.peak_memory(run, device)}))


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("stopped; what was measured is kept")
