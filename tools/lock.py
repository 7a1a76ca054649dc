"""Write locks/: every file that pip may install for us, by its SHA-256.

python tools/lock.py   after a change of settings.ini or constraints.txt; needs uv (pipx run uv)

constraints.txt names the versions, and these files are made from it. `make LOCKED=1` installs from
them with `pip install --require-hashes`, as every workflow does, so a file that was exchanged on
the way is refused. A newcomer's machine goes without: it may have PyTorch from another place, whose
files have other hashes.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {  # file -> Python, at least; extras of the package; what else
    "python-3.10": ("3.10", ["dev"], ""),
    "python-3.11": ("3.11.5", ["dev", "site"], ""),  # and newer
    "quick": ("3.11.5", [], "nbdev fastcore execnb ghapi fastgit nbformat ruff"),
}
TOOLS = "pip setuptools wheel build"  # what installs and builds
HEAD = "# Made by tools/lock.py from settings.ini and constraints.txt.\n"


def lock(python, extras, more):
    "The text of one lock."
    with tempfile.TemporaryDirectory() as folder:
        asked, out = Path(folder, "asked.in"), Path(folder, "lock.txt")
        asked.write_text("\n".join(f"{TOOLS} {more}".split()))
        command = ["uv", "pip", "compile", "-q", "--universal", "--generate-hashes", "--no-header"]
        command += ["--no-annotate", "--python-version", python, "-c", "constraints.txt"]
        command += [word for extra in extras for word in ("--extra", extra)]
        command += ["setup.py"] if extras else []
        subprocess.run([*command, asked, "-o", out], cwd=ROOT, check=True)
        pins = re.split(r"\n(?=\S)", out.read_text().strip())
    newer = "python_full_version >= '3.11'"  # another lock has these
    kept = [pin for pin in pins if python != "3.10" or newer not in pin.partition("\n")[0]]
    return HEAD + "\n".join(kept) + "\n"


def main():
    (ROOT / "locks").mkdir(exist_ok=True)
    for name, asked in LOCKS.items():
        path = ROOT / "locks" / f"{name}.txt"
        path.write_text(lock(*asked), encoding="utf-8", newline="\n")
        print(path.relative_to(ROOT).as_posix())
    return 0


if __name__ == "__main__":
    sys.exit(main())
