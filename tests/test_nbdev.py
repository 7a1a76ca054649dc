"""nbdev's own commands run to their end here and leave nothing that git sees.

Quarto is no Python package, so a stand-in takes its place: what nbdev asks Quarto to render, it
writes where Quarto would, without a look at the text. All that nbdev itself does is real.
"""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("nbdev")
from nbdev.config import get_config
from thorough import THOROUGH

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sysconfig.get_path("scripts"))
FEW = ["index.ipynb", "02_attention.ipynb", "solutions/02_attention.ipynb", "04_masks.ipynb"]
FEW += ["05_positions.ipynb", "12_modern_decoder.ipynb", "milestone_llama.ipynb"]  # add to those
QUARTO = """#!{python}
import sys
from pathlib import Path

command, *args = sys.argv[1:]
if command == "render":
    page = Path(next((arg for arg in args if arg.endswith(".ipynb")), "index.ipynb")).resolve()
    page.read_text(encoding="utf-8")  # it must be there
    name = args[args.index("-o") + 1] if "-o" in args else "index.html"
    out = Path("_docs") / page.relative_to(Path.cwd()).parent / name
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("written by quarto")
"""

pytestmark = [
    pytest.mark.skipif(not shutil.which("git"), reason="git is missing"),
    pytest.mark.skipif(os.name == "nt", reason="the stand-in for Quarto needs a POSIX shell"),
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git repository"),
]


def git(root, *args):
    command = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *args]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path, monkeypatch):
    "A copy of what git has here, committed, and an environment in which commands find Quarto."
    root, tools = tmp_path / "project", tmp_path / "bin"
    for name in git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    tools.mkdir()
    (tools / "quarto").write_text(QUARTO.format(python=sys.executable))
    (tools / "quarto").chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tools), str(BIN), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", str(root))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return root


def keep_few(root):
    "Of the pages a few, and what README is made from."
    few = [*FEW, get_config(path=root).readme_nb]
    for page in (root / "nbs").rglob("*.ipynb"):
        if page.relative_to(root / "nbs").as_posix() not in few:
            page.unlink()


def keep_exports(root):
    "Of the code of pages what they export, and the first cell."
    kept = re.compile(r"#\| (export|default_exp|eval)|^(import|from) ", re.M)
    for page in (root / "nbs").rglob("*.ipynb"):
        notebook = json.loads(page.read_text(encoding="utf-8"))
        cells = [(cell["cell_type"], "".join(cell["source"]), cell) for cell in notebook["cells"]]
        cells = [cell for kind, source, cell in cells if kind != "code" or kept.search(source)]
        notebook["cells"] = cells
        text = json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True)
        page.write_text(text + "\n", encoding="utf-8")


def commit(root):
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "before")


def run(root, *command):
    "Run a command of nbdev; it must end well and leave no change that git sees."
    done = subprocess.run([str(BIN / command[0]), *command[1:]], cwd=root, capture_output=True)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
    assert git(root, "status", "--porcelain") == "", command


def test_no_name_of_nbdevs_index_means_two_things():
    "A name in backticks leads to the first module that has it, by the alphabet."
    index, homes = runpy.run_path(ROOT / "former_nb" / "_modidx.py")["d"]["syms"], {}
    for module, names in index.items():
        for name in names:
            short = name.removeprefix(f"{module}.")
            if "." not in short and not short.startswith("_"):
                homes.setdefault(short, []).append(module)
    twice = {name: modules for name, modules in homes.items() if len(modules) > 1}
    # The package's wrap those that lesson 11 derives and are called alike; they come first.
    both = ["former_nb.decoding.caches", "former_nb.decoding.decoding"]
    assert twice == {"generate": both, "LayerCache": both}


def test_docs_readme_and_preview_end_and_leave_no_diff(project):
    "On a few pages; with FORMER_NB_THOROUGH, on all."
    if not THOROUGH:
        keep_few(project)
    commit(project)
    run(project, "nbdev_docs", "--n_workers", "2")
    assert (project / "_docs" / "index.html").exists()
    made = {page.relative_to(project / "_proc") for page in (project / "_proc").rglob("*.ipynb")}
    pages = (page.relative_to(project / "nbs") for page in (project / "nbs").rglob("*.ipynb"))
    assert made == {*pages}
    run(project, "nbdev_readme")  # and README.md is still what tools/readme.py wrote
    run(project, "nbdev_preview", "--no_browser", "--n_workers", "2")


def test_prepare_ends_and_leaves_no_diff(project):
    "On what a few pages export: it runs every notebook, which `make test` does, too."
    keep_few(project)
    keep_exports(project)
    commit(project)
    for page in (project / "nbs").rglob("*.ipynb"):
        os.utime(page)  # newer than README.md, so that nbdev makes this again
    run(project, "nbdev_prepare")
