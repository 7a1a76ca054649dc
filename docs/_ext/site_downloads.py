"""What the site offers for download: the package as a wheel, and all notebooks in one archive.

The wheel has the commit in its version and in its name. The first cell of each notebook that the
site offers asks for that wheel, or else for that commit. So a notebook that was downloaded
yesterday installs yesterday's library, whatever was pushed since.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from nbdev_myst import NBS, PACKAGE, ROOT, SETTINGS

sys.path.insert(0, str(ROOT / "tools"))

import edition
import first_cell

NOTEBOOKS = "notebooks.zip"
SETUP = ("settings.ini", "setup.py", "MANIFEST.in", "README.md", "LICENSE", "constraints.txt")
SETUP += ("CHANGELOG.md", "CITATION.cff")
ALONE = ("--no-deps", "--no-build-isolation", "--no-index")  # no network is asked
CACHES = shutil.ignore_patterns("__pycache__")


def build_wheel(folder, root=ROOT):
    """Build the wheel there, from a copy with its commit. Raises `OSError` where that fails."""
    version = edition.version_of(root)
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch, "source")
        source.mkdir()
        for name in SETUP:
            shutil.copy(root / name, source)
        package = source / PACKAGE.name
        shutil.copytree(root / PACKAGE.name, package, ignore=CACHES)
        stamp(source / "settings.ini", r"(?m)^version = .*$", f"version = {version}")
        stamp(package / "__init__.py", r'__version__ = ".*"', f'__version__ = "{version}"')
        command = [sys.executable, "-m", "pip", "wheel", "-q", *ALONE, "-w", scratch, str(source)]
        made = subprocess.run(command, cwd=scratch, capture_output=True, text=True)
        if made.returncode:
            raise OSError((made.stderr.strip().splitlines() or ["pip failed"])[-1])
        shutil.copy(Path(scratch, edition.wheel_name(version)), folder)


def stamp(file, pattern, text):
    """Put a line in the place of another one in a file."""
    old = file.read_text(encoding="utf-8")
    new, found = re.subn(pattern, text, old)
    if found != 1:
        raise OSError(f"{file.name} says no version")
    file.write_text(new, encoding="utf-8", newline="\n")


def pack_notebooks(path):
    """Write the notebooks, which ask for this wheel, and their pictures. The same commit makes the
    same bytes."""
    cell = first_cell.cell_for(edition.places(of_the_site=True))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted([*NBS.rglob("*.ipynb"), *NBS.rglob("images/*.svg")]):
            name = file.relative_to(NBS)
            if not any(part.startswith((".", "_")) for part in name.parts):
                info = zipfile.ZipInfo(f"{SETTINGS['lib_name']}/{name.as_posix()}")
                held = file.read_bytes()
                if file.suffix == ".ipynb":
                    held = first_cell.text_with_cell(file, cell).encode()
                archive.writestr(info, held, zipfile.ZIP_DEFLATED)


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


def stamp_notebooks(app, error):
    """build-finished: the notebook that each page offers asks for this wheel, too."""
    if error or app.builder.format != "html":
        return
    cell = first_cell.cell_for(edition.places(of_the_site=True))
    for path in Path(app.outdir, "_sources").rglob("*.ipynb"):
        path.write_text(first_cell.text_with_cell(path, cell), encoding="utf-8", newline="\n")


def setup(app):
    """Register with Sphinx."""
    app.connect("builder-inited", write_downloads)
    app.connect("build-finished", stamp_notebooks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
