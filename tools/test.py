"""All checks in the order in which they make sense; stops at the first that fails. `make test` runs this.

python tools/test.py
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sysconfig.get_path("scripts"))
WATCHED = ["nbs", "former_nb", "README.md"]
WORKERS = "0" if os.name == "nt" else "2"
SITE = "sphinx-build -q -W --keep-going -d .doctrees -c docs nbs _site"


def sh(command):
    "Run a script of this environment, or a file of tools/ with its Python."
    name, *args = command.split()
    start = [sys.executable, name] if name.endswith(".py") else [str(BIN / name)]
    return subprocess.run(start + args, cwd=ROOT).returncode


def no_diff():
    "Nothing that is generated may differ from what git has, and nothing may be missing there."
    git = lambda *args: subprocess.run(
        ["git", *args, "--", *WATCHED], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
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


STEPS = {
    "clean": lambda: sh("nbdev_clean"),
    "export": lambda: sh("nbdev_export"),
    "readme": lambda: sh("tools/readme.py"),
    "no diff": no_diff,
    "order of lessons": lambda: sh("tools/order.py"),
    "outputs up to date": lambda: sh("tools/run.py --check"),
    "notebooks": lambda: sh(f"nbdev_test --n_workers {WORKERS} --timing"),
    "site": site,
    "pytest": lambda: sh("pytest"),
}


def main(argv=None):
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args(argv)
    begin = time.perf_counter()
    for name, step in STEPS.items():
        print(f"\n== {name}", flush=True)
        start = time.perf_counter()
        if code := step():
            print(f"== {name}: failed", flush=True)
            return code
        print(f"== {name}: {time.perf_counter() - start:.0f} s", flush=True)
    print(f"\nAll checks passed in {time.perf_counter() - begin:.0f} s.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
