"""Our `diagnose` beside other tools, on the healthy and the broken models of the tests.

python -m benchmarks.doctor                  ours, and each tool that is installed
python -m benchmarks.doctor ours torchtest2  these alone; what others said before is kept
python -m benchmarks.doctor operators        DEFault++'s 52 operators, put into four families
python -m benchmarks.doctor --page           write the tables of QUALITY.md here and stop

Nobody is told what is wrong: a tool is given a model, a batch, a loss and an optimizer, as far as
it takes them. A tool that has no verdict after `--limit` seconds says none. The others are
`pip install --no-deps --target DIR torchtest2 neural-net-checklist`, and DEFault++ the same from
its repository (SigmaJahan/DEFaultplusplus-Transformer-Debugging), of which we run the operators and
the predictor and copy nothing.
"""

import argparse
import contextlib
import io
import json
import os
import signal
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from former_nb.base.core import pick_device

from . import doctor_page
from .__main__ import machine
from .doctor_tools import TOOLS, NotTaken

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results" / "doctor" / "tools.json"
PACKAGES = "torch", "transformers", "torchtest2", "neural-net-checklist", "defaultplusplus"


class Over(BaseException):
    "The time is over. Not an `Exception`, which a tool might take for one of the model's."


@contextlib.contextmanager
def at_most(seconds):
    "Raises `Over` when the processor has worked for so many seconds."

    def over(*_):
        raise Over

    signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def ask(tool, make, limit):
    "What a tool says of a model, and the processor's seconds: of making the model, too."
    begin, found = time.process_time(), {}
    try:
        with at_most(limit), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found["said"] = tool(make)
    except ImportError:
        raise
    except NotTaken as error:
        found["not taken"] = str(error)
    except Over:
        found["no verdict"] = f"after {limit:g} s"
    except Exception as error:  # of the tool, for a model that it wasn't written for
        found["not taken"] = f"{type(error).__name__}: {error}"[:120]
    found["seconds"] = round(time.process_time() - begin, 2)
    return found


def models():
    "(name, make, healthy) of the tests'."
    sys.path.insert(0, str(ROOT / "tests"))
    from broken_models import BROKEN
    from healthy_models import HEALTHY

    yield from ((name, make, True) for name, make in HEALTHY.items())
    yield from ((name, make, False) for name, (make, _) in BROKEN.items())


def compare(chosen, limit, results, keep):
    "Each tool on each model, kept after each."
    for name, make, healthy in models():
        row = results["models"].setdefault(name, {"healthy": healthy, "tools": {}})
        for who in chosen:
            row["tools"][who] = ask(TOOLS[who], make, limit)
            print(f"{name:36} {who:22} {row['tools'][who]}", flush=True)
        keep()


def versions():
    found = {}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def main(argv=None):
    p = argparse.ArgumentParser("benchmarks.doctor", description=__doc__.partition("\n")[0])
    p.add_argument("names", nargs="*", help="tools, or operators; all if left out")
    p.add_argument("--page", action="store_true", help="write the page's tables and stop")
    p.add_argument("--limit", type=float, default=60.0, help="seconds for a model; 60 if left out")
    p.add_argument("--out", type=Path, default=RESULTS, metavar="FILE")
    args = p.parse_args(argv)
    results = {"models": {}, "operators": []}
    if args.out.exists():
        results |= json.loads(args.out.read_text(encoding="utf-8"))
    if args.page:
        return doctor_page.write(results)
    known = [*TOOLS, "operators"]
    if unknown := set(args.names) - set(known):
        p.error(f"names: {', '.join(sorted(unknown))}; known are {', '.join(known)}")
    results |= {"device": machine(pick_device()), "versions": versions(), "limit": args.limit}

    def keep():
        args.out.parent.mkdir(parents=True, exist_ok=True)
        args.out.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")

    torch.set_num_threads(1)
    os.environ["TQDM_DISABLE"] = "1"
    for who in args.names or known:
        try:
            if who == "operators":
                from . import doctor_operators

                results["operators"] = doctor_operators.measure()
            else:
                compare([who], args.limit, results, keep)
        except ImportError as error:
            print(f"{who} is left out: {error}", file=sys.stderr)
        keep()


if __name__ == "__main__":
    main()
