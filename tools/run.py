"""Execute notebooks in place and clean them, or check that their outputs are not out of date.

  python tools/run.py                          all notebooks
  python tools/run.py nbs/02_attention.ipynb   one of them
  python tools/run.py --check                  run nothing: compare the code with what was last run

A notebook that raises, or whose outputs name a folder of this machine, is left as it was.
Cells marked `#| eval: false` are not run and keep their outputs. What a run was made from is
remembered in nbs/.outputs.json as one hash of the code for each notebook.
"""

import argparse
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
SKIP = "skip-execution"
LOCAL_PATH = re.compile(r"(?<![\w.])/(?:home|Users|root|tmp|var/folders)/\w|\b[A-Z]:\\+Users\\")


def notebooks(folder):
    "All notebooks under `folder`, the path before the folders; hidden and `_` files are left out."

    def shown(path):
        return not any(part[0] in "._" for part in path.relative_to(folder).parts)

    found = filter(shown, folder.rglob("*.ipynb"))
    return sorted(found, key=lambda p: (len(p.parts), p.parent, p.name))


def code(cell):
    "The code of a cell without its `#|` lines."
    return "\n".join(line for line in cell.source.splitlines() if not line.startswith("#|"))


def fingerprint(nb):
    "A hash of the code cells, blind to prose, outputs, directives and the installing cell."
    cells = (c for c in nb.cells if c.cell_type == "code" and "%pip install" not in c.source)
    text = "\0".join(map(code, cells))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def kept(cell):
    "Is this a cell that is not run: `#| eval: false`, or the export at the end?"
    return cell.cell_type == "code" and bool(
        re.search(r"^#\|\s*eval:\s*false", cell.source, re.M | re.I)
        or "nbdev_export(" in cell.source
    )


def execute(nb, folder):
    "Run the cells of `nb` in `folder`; raises at the first cell that fails."
    from nbclient import NotebookClient

    os.environ.pop("IN_TEST", None)
    os.environ["FORMER_NB_MINE"] = "off"  # pages are stored without anybody's own file
    for cell in filter(kept, nb.cells):
        cell.metadata.tags = [*cell.metadata.get("tags", []), SKIP]
    NotebookClient(
        nb,
        timeout=None,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
        shutdown_kernel="immediate",
        store_widget_state=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        skip_cells_with_tag=SKIP,
    ).execute()
    for cell in filter(kept, nb.cells):
        cell.metadata.tags.remove(SKIP)
        if not cell.metadata.tags:
            del cell.metadata["tags"]


def is_noise(output):
    "Progress bars and warnings on stderr, and widgets that no reader can move."
    widget = "application/vnd.jupyter.widget-view+json" in output.get("data", {})
    return widget or output.get("name") == "stderr"


def tidy(nb):
    "Drop noise from the cells that ran; refuse errors and local paths."
    for n, cell in enumerate(nb.cells, 1):
        if cell.cell_type != "code":
            continue
        if not kept(cell):
            cell.outputs = [o for o in cell.outputs if not is_noise(o)]
        for output in cell.outputs:
            refuse(n, output)


def refuse(n, output):
    "Raise ValueError where the output of cell `n` is an error or names a folder of this machine."
    if output.output_type == "error":
        raise ValueError(f"cell {n} raised {output.ename}: {output.evalue}")
    words = [
        v for k, v in output.get("data", {}).items() if not k.startswith("image/") or "svg" in k
    ]
    words = [w if isinstance(w, str) else json.dumps(w) for w in [output.get("text", ""), *words]]
    text = "\n".join(words)
    found = LOCAL_PATH.search(text)
    if found or str(ROOT) in text:
        where = text[max(found.start() - 30, 0) : found.end() + 30] if found else str(ROOT)
        raise ValueError(f"cell {n} prints a path of this machine: …{where}…")


def write(nb, path):
    "Clean as `nbdev_clean` does, then replace the file in one step."
    from execnb.nbio import nb2str
    from nbdev.clean import clean_nb
    from nbdev.config import get_config

    settings, clean = get_config(path=ROOT), json.loads(nbformat.writes(nb))
    kept_keys = ["allowed_metadata_keys", "allowed_cell_metadata_keys"]
    lists = [settings.get(k, "").split() for k in kept_keys]
    clean_nb(clean, False, *lists, settings.clean_ids)
    replace(path, nb2str(clean))


def replace(path, text):
    "Write `text` beside `path`, then move it there: no reader ever sees half a file."
    handle, name = tempfile.mkstemp(dir=path.parent, prefix="." + path.name)
    try:
        with open(handle, "w", encoding="utf-8", newline="\n") as f:
            f.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def run(path):
    "Execute one notebook; the file changes only when every cell went well."
    nb = nbformat.read(path, as_version=4)
    execute(nb, path.parent)
    tidy(nb)
    write(nb, path)
    return fingerprint(nb)


def stale(path, seen):
    "Why the outputs of the notebook at `path` cannot be trusted, or None."
    nb = nbformat.read(path, as_version=4)
    if seen is None:
        return "was never run"
    if seen != fingerprint(nb):
        return "was changed since its outputs were made"
    try:
        for n, cell in enumerate(nb.cells, 1):
            for output in cell.get("outputs", []):
                refuse(n, output)
    except ValueError as e:
        return str(e)


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "notebook", nargs="*", type=Path, help="notebooks to run; all of them where none is named"
    )
    p.add_argument(
        "--check",
        action="store_true",
        help="run nothing; fail where the code is newer than the outputs",
    )
    p.add_argument(
        "--nbs", type=Path, default=ROOT / "nbs", help="the folder of all notebooks (default: nbs)"
    )
    args = p.parse_args(argv)
    nbs, record = args.nbs.resolve(), args.nbs.resolve() / ".outputs.json"
    paths = [n.resolve() for n in args.notebook] or notebooks(nbs)
    for path in paths:
        if not path.is_file() or nbs not in path.parents:
            p.error(f"notebook: expected a file in {args.nbs.name}/, got {path.name}")
    seen = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}

    def name(path):
        return path.relative_to(nbs).as_posix()

    if args.check:
        reasons = {name(path): stale(path, seen.get(name(path))) for path in paths}
        reasons = {k: v for k, v in reasons.items() if v}
        for k, v in reasons.items():
            print(f"nbs/{k} {v}: NB=nbs/{k} make run", file=sys.stderr)
        if not reasons:
            print(f"{len(paths)} notebooks show the outputs of the code they hold")
        return len(reasons) > 0

    for path in paths:
        start = time.perf_counter()
        print(f"{name(path)} … ", end="", flush=True)
        try:
            seen[name(path)] = run(path)
        except Exception as e:
            print("failed, and left as it was", flush=True)
            print(f"{name(path)}: {e}", file=sys.stderr)
            return 1
        present = {name(p) for p in notebooks(nbs)}
        seen = {k: seen[k] for k in sorted(seen) if k in present}
        replace(record, json.dumps(seen, indent=1) + "\n")
        print(f"{time.perf_counter() - start:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
