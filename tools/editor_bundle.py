"""Make CodeMirror, the editor of the exercises, one file: docs/_static/codemirror/codemirror.js.

python tools/editor_bundle.py           make it anew, from the pinned packages
python tools/editor_bundle.py --check   say whether it is what the pinned packages make

Needs Node with npm. `tools/editor/package.json` pins the packages, `package-lock.json` beside it
their hashes and those of what they need, and `codemirror.mjs` names what the editor takes of them.
After a change of a version run `npm install --package-lock-only` in that folder. The file and its
licences are committed, so that a build of the site needs none of this.
"""

import argparse
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "tools" / "editor"
BUNDLE = ROOT / "docs" / "_static" / "codemirror" / "codemirror.js"
ESBUILD = """npx --no-install esbuild codemirror.mjs --bundle --minify --format=iife
--global-name=CodeMirror --target=es2020 --charset=utf8 --legal-comments=none
--metafile=meta.json --outfile=codemirror.js""".split()
HEAD = "/* CodeMirror 6, MIT licence, see LICENSE.txt; made by tools/editor_bundle.py. */\n"


def taken_packages(folder):
    """The packages of which something is in the bundle."""
    inputs = json.loads((folder / "meta.json").read_text(encoding="utf-8"))["inputs"]
    paths = {path.partition("node_modules/")[2] for path in inputs if "node_modules/" in path}
    return sorted({"/".join(p.split("/")[: 2 if p.startswith("@") else 1]) for p in paths})


def licences(folder):
    """The licence of each of them, with its version."""
    texts = ["codemirror.js holds parts of these packages of the npm registry."]
    for name in taken_packages(folder):
        package = folder / "node_modules" / name
        known = json.loads((package / "package.json").read_text(encoding="utf-8"))
        text = (package / "LICENSE").read_text(encoding="utf-8").strip()
        texts.append(f"{name} {known['version']}, {known['license']}\n\n{text}")
    return "\n\n----\n\n".join(texts) + "\n"


def make():
    """The bundle and its licences: name -> text."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for path in SOURCES.iterdir():
            if path.is_file():
                shutil.copy(path, folder)
        npm = shutil.which("npm")
        if not npm:
            raise SystemExit("npm is not installed")
        subprocess.run([npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
        subprocess.run([shutil.which("npx"), *ESBUILD[1:]], cwd=folder, check=True)
        code = (folder / "codemirror.js").read_text(encoding="utf-8")
        return {"codemirror.js": HEAD + code, "LICENSE.txt": licences(folder)}


def main():
    """Write both files, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = make()
    if check:
        same = all(BUNDLE.with_name(n).read_text("utf-8") == text for n, text in made.items())
        print("the same" if same else "another one: python tools/editor_bundle.py")
        return not same
    BUNDLE.parent.mkdir(exist_ok=True)
    for name, text in made.items():
        BUNDLE.with_name(name).write_text(text, encoding="utf-8", newline="\n")
    data = BUNDLE.read_bytes()
    print(f"{len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
