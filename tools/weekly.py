"""The weekly table: what the tests said on newest, oldest and nightly versions.

python tools/weekly.py row NAME --out FILE [--report JUNIT.xml]   what one run found, as JSON
python tools/weekly.py table FILE … --out docs/weekly.json        all of them, for the site

`.github/workflows/weekly.yaml` calls both. A row without a report says that the tests did not run,
as where the versions could not be installed. The site shows the table on *Which versions work*;
where docs/weekly.json is absent, as in every checkout, the page says "not run yet".
"""

import argparse
import json
import platform
import sys
import xml.etree.ElementTree as ET
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ["torch", "numpy", "pandas", "accelerate", "transformers", "tokenizers", "safetensors"]
KINDS = {  # name of a run -> what it installs
    "newest": "the newest release of everything",
    "oldest": "the oldest versions that settings.ini allows",
    "nightly": "PyTorch of last night, the newest of the rest",
}
NAMED = 20  # tests that failed, at most, by name


def versions():
    "Package -> version, of those that are installed here."
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            pass
    return found


def counts(report):
    "What a JUnit file says: how many tests passed, failed and were skipped, and which failed."
    found = {"passed": 0, "failed": 0, "skipped": 0, "failures": []}
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            found["failed"] += 1
            found["failures"].append(f"{case.get('classname')}::{case.get('name')}")
        elif case.find("skipped") is not None:
            found["skipped"] += 1
        else:
            found["passed"] += 1
    found["failures"] = found["failures"][:NAMED]
    return found


def row(name, report):
    "What one run found. A report that is absent or broken counts as tests that did not run."
    known = {"name": name, "date": datetime.now(timezone.utc).date().isoformat()}
    known |= {"python": platform.python_version(), "packages": versions()}
    try:
        return known | counts(report)
    except (OSError, TypeError, ET.ParseError):
        return known


def verdict(run):
    "A run in words."
    if not run.get("passed") and not run.get("failed"):
        return "the tests did not run"
    words = f"{run['failed']:,} failed, " if run["failed"] else ""
    return f"{words}{run['passed']:,} passed, {run['skipped']:,} skipped"


def markdown(runs):
    "The table of the site; a kind of run that is not among them was not run yet."
    lines = ["| versions | on | tests | Python | packages |", "|---|---|---|---|---|"]
    known = {run["name"]: run for run in runs}
    for name, words in KINDS.items():
        run = known.get(name)
        if run is None:
            lines.append(f"| **{name}**: {words} | – | not run yet | – | – |")
            continue
        packages = ", ".join(f"{package} {number}" for package, number in run["packages"].items())
        cells = [f"**{name}**: {words}", run["date"], verdict(run), run["python"], packages or "–"]
        lines.append(f"| {' | '.join(cells)} |")
    for run in runs:
        if failures := run.get("failures"):
            lines += ["", f"Failed on {run['name']}:", ""]
            lines += [f"- `{failure.replace('`', '')}`" for failure in failures]
    return "\n".join(lines)


def read(file):
    "The runs in a file; none where it is absent."
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else []


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = p.add_subparsers(dest="what", required=True)
    one = parts.add_parser("row")
    one.add_argument("name", choices=KINDS)
    one.add_argument("--report", type=Path)
    every = parts.add_parser("table")
    every.add_argument("files", type=Path, nargs="*")
    for part in (one, every):
        part.add_argument("--out", type=Path, required=True)
    args = p.parse_args(argv)
    if args.what == "row":
        found = row(args.name, args.report)
        print(f"{args.name}: {verdict(found)}")
    else:
        found = [run for file in args.files if (run := read(file))]
        print(markdown(found))
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    args.out.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
