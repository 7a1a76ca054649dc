"""What the site offers for download: the package as a wheel, and all notebooks in one archive.

The first cell of each notebook installs that wheel. So the wheel lies beside the home page, under
the name that pip asks for.
"""

import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from nbdev_myst import NBS, PACKAGE, ROOT, SETTINGS

WHEEL = f"{SETTINGS['lib_name']}-{SETTINGS['version']}-py3-none-any.whl"
NOTEBOOKS = "notebooks.zip"
SETUP = ("settings.ini", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")
SETUP += ("CHANGELOG.md", "CITATION.cff")
ALONE = ("--no-deps", "--no-build-isolation", "--no-index")  # no network is asked
CACHES = shutil.ignore_patterns("__pycache__")


def build_wheel(folder):
    """Build the wheel there, from a copy. Raises `OSError` where that fails."""
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        source.mkdir()
        for name in SETUP:
            shutil.copy(ROOT / name, source)
        shutil.copytree(PACKAGE, source / PACKAGE.name, ignore=CACHES)
        command = [sys.executable, "-m", "pip", "wheel", "-q", *ALONE, "-w", scratch, str(source)]
        made = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        if made.returncode:
            raise OSError((made.stderr.strip().splitlines() or ["pip failed"])[-1])
        shutil.copy(Path(scratch, WHEEL), folder)


def pack_notebooks(path):
    """Write the notebooks and their pictures; the same files make the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted([*NBS.rglob("*.ipynb"), *NBS.rglob("images/*")]):
            name = file.relative_to(NBS)
            if not any(part.startswith((".", "_")) for part in name.parts):
                info = zipfile.ZipInfo(f"{SETTINGS['lib_name']}/{name.as_posix()}")
                archive.writestr(info, file.read_bytes(), zipfile.ZIP_DEFLATED)


def write_downloads(app):
    """builder-inited: put both beside the home page, or say why there is no wheel."""
    if app.builder.format != "html":
        return
    out = Path(app.outdir)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob(f"{SETTINGS['lib_name']}-*.whl"):
        old.unlink()
    pack_notebooks(out / NOTEBOOKS)
    try:
        build_wheel(out)
    except OSError as error:
        print(f"No wheel beside the pages: it could not be built ({error}).")


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_downloads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
