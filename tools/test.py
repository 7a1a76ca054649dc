"""All checks in the order in which they make sense; stops at the first that fails.

python tools/test.py           all of them: what `make test` runs
python tools/test.py --quick   those that run no notebook and no test: seconds, no PyTorch
python tools/test.py --device cuda             notebooks and tests on a device that is there
python tools/test.py --device pretended-cuda   as if it were there; see tests/pretend.py
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from run import notebooks

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sysconfig.get_path("scripts"))
WATCHED = ["nbs", "former_nb", "README.md"]
WORKERS = "0" if os.name == "nt" else "2"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a core for each worker; more would wait in turns
os.environ["FORMER_NB_MINE"] = "off"  # pages print the same whoever wrote a file beside them
SITE = "sphinx-build -q -W --keep-going -d .doctrees -c docs nbs _site"


def sh(command):
    "Run a script of this environment, or a file of tools/ with its Python."
    name, *args = command.split()
    start = [sys.executable, name] if name.endswith(".py") else [str(BIN / name)]
    return subprocess.run(start + args, cwd=ROOT).returncode


def no_diff():
    "Nothing that is generated may differ from what git has, and nothing may be missing there."

    def git(*args):
        command = ["git", *args, "--", *WATCHED]
        return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")

    status = git("status", "--porcelain")
    if status.returncode:
        print("not a git repository: nothing to compare with")
        return 0
    new = [line[3:] for line in status.stdout.splitlines() if line.startswith("??")]
    changed = git("diff", "--stat", "--exit-code")
    if not changed.returncode and not new:
        return 0
    print(changed.stdout + "".join(f" {name} (not in git)\n" for name in new))
    print("Clean, export and README left the files above different from what git has.")
    print("Look at them with `git diff`, add what is right with `git add`, and start again.")
    return 1


def site():
    if sys.version_info < (3, 11):
        print("skipped: the site needs Python 3.11 or newer")
        return 0
    return sh(SITE)


QUICK = {
    "first cells": lambda: sh("tools/first_cell.py"),
    "clean": lambda: sh("nbdev_clean"),
    "export": lambda: sh("nbdev_export"),
    "stubs": lambda: sh("tools/stubs.py"),
    "readme": lambda: sh("tools/readme.py"),
    "no diff": no_diff,
    "lint": lambda: sh("ruff check"),
    "format": lambda: sh("ruff format --check"),
    "order of lessons": lambda: sh("tools/order.py"),
    "outputs up to date": lambda: sh("tools/run.py --check"),
}
SLOW = {
    "types": lambda: sh("mypy"),
    "notebooks": lambda: sh(f"nbdev_test --n_workers {WORKERS} --timing"),
    "site": site,
    "pytest": lambda: sh(f"pytest -n {WORKERS} --dist loadfile"),
}


def notebooks_alone():
    "Each notebook in a process of its own: one may leave a default device behind."
    pages = [path for path in notebooks(ROOT / "nbs") if "nbs/index" not in path.as_posix()]

    def test(path):
        return sh(f"nbdev_test --n_workers 0 --path {path.relative_to(ROOT).as_posix()}")

    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) - 2)) as pool:
        failed = [path.name for path, code in zip(pages, pool.map(test, pages)) if code]
    print(f"{len(pages) - len(failed)} of {len(pages)} passed", *failed, sep="\n  ")
    return len(failed)


def on_device(name):
    "The slow steps where notebooks compute on that device. Ends with a sentence if it is absent."
    kind = name.removeprefix("pretended-")
    if kind != name:
        return {
            "notebooks": lambda: sh(f"tests/pretend.py {kind}"),
            "pytest": lambda: sh("pytest tests/test_devices.py"),
        }
    look = "import sys; from former_nb.base.core import pick_device; pick_device(sys.argv[1])"
    asked = [sys.executable, "-c", look, name]
    if name != "cpu" and subprocess.run(asked, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
        sys.exit(f"device: PyTorch finds no {name} here; --device pretended-{name} needs none")
    os.environ["FORMER_NB_DEVICE"] = name
    return SLOW if name == "cpu" else SLOW | {"notebooks": notebooks_alone}


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--quick", action="store_true", help="run no notebook and no test")
    devices = ["cpu", "cuda", "mps", "pretended-cuda", "pretended-mps"]
    p.add_argument("--device", choices=devices, default="cpu", help="where notebooks compute")
    args = p.parse_args(argv)
    steps = QUICK if args.quick else QUICK | on_device(args.device)
    begin = time.perf_counter()
    for name, step in steps.items():
        print(f"\n== {name}", flush=True)
        start = time.perf_counter()
        if code := step():
            print(f"== {name}: failed", flush=True)
            return code
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    print(f"\nAll {len(steps)} checks passed in {time.perf_counter() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
