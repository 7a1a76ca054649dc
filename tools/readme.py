"""Write README.md from nbs/index.ipynb: prose as it stands, code and its text output in fences.

  python tools/readme.py

Cells marked `#| hide` are left out. Links that are relative to nbs/ are rewritten for the root.
Badges stand below the title, and not on the site: no page of it asks another server for a picture.
Where the site has a live model, README.md has a picture of one that moves, and where the site goes
on to its first lesson, README.md leads to the site. A cell with a figure that moves is left out,
and of the film there is a loop (tools/film.py).
"""

import argparse
import json
import posixpath
import re
import sys
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(
    r"""(\]\(<?|^\[[^\]]+\]:\s+|(?:src|href)=["'])(?![\w+.-]+:|[#/])([^\s)"'>]+)""", re.M
)
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.M | re.S)


FILM = (
    "![A film of forty seconds: a word attends to the others, a mask hides what follows, four "
    "heads look elsewhere, a name is written letter by letter, and a number is translated.]"
    "(nbs/images/film.webp)"
)
LIVE = '<div class="live" data-model="names"></div>'
READ = "[**Start the first hour**](nbs/00_first_hour.ipynb)"
SITE = "[Read it]({doc_host}{doc_baseurl}/)"
BADGES = """
[![tests]({git_url}/actions/workflows/test.yaml/badge.svg)]({git_url}/actions/workflows/test.yaml)
[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]\
(https://colab.research.google.com/github/{user}/{repo}/blob/{branch}/nbs/00_tour.ipynb)
[![Open in Kaggle](https://kaggle.com/static/images/open-in-kaggle.svg)]\
(https://kaggle.com/kernels/welcome?src={git_url}/blob/{branch}/nbs/00_tour.ipynb)
"""


def filled_in(text):
    "A text with what settings.ini says."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    return text.format(**config["DEFAULT"])


def badges():
    "Pictures that lead to what they name."
    return filled_in(BADGES.strip())


def from_root(markdown, folder="nbs"):
    "Rewrite links relative to `folder` so that they hold from the root; code is left alone."

    def fix(match):
        return match[1] + posixpath.normpath(posixpath.join(folder, match[2]))

    return "".join(
        part if i % 2 else LINK.sub(fix, part) for i, part in enumerate(CODE.split(markdown))
    )


def joined(lines):
    return lines if isinstance(lines, str) else "".join(lines)


def fence(text, language=""):
    ticks = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{ticks}{language}\n{text.strip(chr(10))}\n{ticks}"


def output(out, n):
    "One output as Markdown; a picture is refused, since README.md cannot hold it."
    data = out.get("data", {})
    if out.get("name") == "stderr":
        return ""
    if any(k.startswith("image/") for k in data):
        wanted = "README.md cannot hold a picture; save it in nbs/images and link to it"
        raise ValueError(f"index.ipynb, cell {n}: {wanted}")
    if "text/markdown" in data:
        return from_root(joined(data["text/markdown"]))
    text = joined(data.get("text/plain", out.get("text", "")))
    return fence(text, "text") if text.strip() else ""


def cell_markdown(cell, n):
    "One cell as a list of Markdown blocks."
    source = joined(cell["source"])
    if cell["cell_type"] == "markdown":
        if 'data-figure="film"' in source:
            return [FILM]
        moves = '<div class="figure"' in source  # on the site alone
        return [] if moves else [from_root(source.strip())]
    directives = dict(re.findall(r"^#\|\s*([\w-]+):?[ \t]*(.*)$", source, re.M))
    if cell["cell_type"] != "code" or "hide" in directives or directives.get("include") == "false":
        return []
    code = re.sub(r"^#\|.*\n?", "", source, flags=re.M).strip()
    shown = [] if directives.get("echo") == "false" or not code else [fence(code, "python")]
    outputs = [] if directives.get("output") == "false" else cell["outputs"]
    return shown + [output(o, n) for o in outputs]


def readme(nb):
    "The text of README.md for the notebook `nb`, a dictionary as JSON gives it."
    blocks = ["<!-- Generated from nbs/index.ipynb by tools/readme.py: edit the notebook. -->"]
    for n, cell in enumerate(nb["cells"], 1):
        blocks += [b for b in cell_markdown(cell, n) if b]
    text = "\n\n".join(blocks).replace(f"{LIVE}\n\n", "").replace(READ, filled_in(SITE)) + "\n"
    return re.sub(r"(?m)^(# .+\n)", lambda title: f"{title[1]}\n{badges()}\n", text, count=1)


def main(argv=None):
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--index",
        type=Path,
        default=ROOT / "nbs" / "index.ipynb",
        help="the notebook (default: nbs/index.ipynb)",
    )
    p.add_argument(
        "--out",
        type=Path,
        default=ROOT / "README.md",
        help="the file to write (default: README.md)",
    )
    args = p.parse_args(argv)
    text = readme(json.loads(args.index.read_text(encoding="utf-8")))
    if not args.out.exists() or args.out.read_text(encoding="utf-8") != text:
        args.out.write_text(text, encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
