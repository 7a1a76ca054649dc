"""Give every notebook the cell that installs the package on Colab and Kaggle, after its title.

python tools/first_cell.py   add it where it is missing, mend it where it differs

Run this for a new page, for a new version, and after a merge that has lost a cell. Where the
package is found the cell does nothing. `#| hide` keeps it off the site and out of README.md,
tests/test_pages.py out of the lines that a reader has to read, and tools/run.py out of the code
that outputs come from.
"""

import json
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def places(root=ROOT):
    """What pip is asked for: the site's wheel of this edition, or else the repository.

    Never a bare name: whoever registers a name on PyPI first would run their code on a reader's
    machine.
    """
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(root / "settings.ini", encoding="utf-8")
    known = config["DEFAULT"]
    wheel = "{doc_host}{doc_baseurl}/{lib_name}-{version}-py3-none-any.whl".format(**known)
    package = "{lib_name}[all]".format(**known)
    return f"{package} @ {wheel}", package + " @ git+{git_url}@{branch}".format(**known)


WHEEL, BRANCH = places()
CELL = f"""#| hide
from importlib.util import find_spec

if not find_spec("former_nb"):  # so on Colab and Kaggle
    %pip install -qqq "{WHEEL}"
if not find_spec("former_nb"):  # where the site has no wheel
    %pip install -q "{BRANCH}\""""


def is_install(cell):
    "Does this cell install the package, by today's words or by older ones?"
    return cell["cell_type"] == "code" and "%pip install" in "".join(cell["source"])


def with_cell(nb):
    "The notebook, a dictionary as JSON gives it, with the cell second."
    cells = [cell for cell in nb["cells"] if not is_install(cell)]
    made = {"cell_type": "code", "execution_count": None, "id": "install", "outputs": []}
    made |= {"metadata": {}, "source": CELL.splitlines(keepends=True)}
    return {**nb, "cells": [*cells[:1], made, *cells[1:]]}


def pages(root=ROOT):
    "All notebooks, without what Jupyter keeps beside them."
    found = sorted((root / "nbs").rglob("*.ipynb"))
    return [p for p in found if not any(part[0] in "._" for part in p.relative_to(root).parts)]


def main(root=ROOT):
    for path in pages(root):
        old = path.read_text(encoding="utf-8")
        nb = with_cell(json.loads(old))
        new = json.dumps(nb, sort_keys=True, indent=1, ensure_ascii=False) + "\n"
        if new != old:
            path.write_text(new, encoding="utf-8", newline="\n")
            print(f"{path.relative_to(root).as_posix()}: its first cell installs the package")
    return 0


if __name__ == "__main__":
    sys.exit(main())
