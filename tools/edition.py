"""Which edition this is: its version, the wheel of it that the site carries, and where to get both.

settings.ini has the version: a release such as 0.3.0, or between releases the next one's
0.4.0.dev0. What the site builds has its commit in its version, too, as in 0.4.0.dev0+g1a2b3c4d5:
another commit makes another wheel at another address, so no push exchanges the library of a
notebook that was opened before.
"""

import re
import subprocess
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MADE_OF = ("former_nb", "settings.ini", "setup.py")  # what a wheel is made of


def read_settings(root=ROOT):
    "The project's metadata, as nbdev reads them."
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(root / "settings.ini", encoding="utf-8")
    return config["DEFAULT"]


def is_release(version):
    "Is this a release, and no development version?"
    return re.fullmatch(r"\d+\.\d+\.\d+", version) is not None


def commit_of(root=ROOT):
    "The commit that is checked out there, 40 digits; None where the folder is no repository's own."
    try:
        top, commit = git(root, "rev-parse", "--show-toplevel", "HEAD").splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit if Path(top).resolve() == Path(root).resolve() else None


def version_of(root=ROOT):
    "The version with its commit, by which the site calls its wheel; the bare one without git."
    version, commit = read_settings(root)["version"], commit_of(root)
    if commit is None:
        return version
    changed = git(root, "status", "--porcelain", "--untracked-files=no", "--", *MADE_OF)
    return f"{version}+g{commit[:9]}" + (".changed" if changed else "")


def git(root, *words):
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, check=True)
    return done.stdout.decode()


def wheel_name(version):
    "What a wheel of the version is called."
    return f"{read_settings()['lib_name']}-{version}-py3-none-any.whl"


def places(root=ROOT, of_the_site=False):
    """What pip is asked for, one place after the other until the package is there.

    A notebook of the site gets the wheel beside it, and its commit where the site has been built
    anew. One in git gets the release that it belongs to, or between releases the branch, which also
    serves until the release is there. Never a bare name: whoever registers a name on PyPI first
    would run their code on a reader's machine.
    """
    known, commit = read_settings(root), commit_of(root)
    version, url = known["version"], known["git_url"]
    branch = f"git+{url}@{known['branch']}"
    if of_the_site and commit:
        wheel = wheel_name(version_of(root)).replace("+", "%2B")
        found = ["{doc_host}{doc_baseurl}/".format(**known) + wheel, f"git+{url}@{commit}"]
    elif is_release(version):
        attached = f"releases/download/v{version}/{wheel_name(version)}"
        found = [f"{url}/{attached}", f"git+{url}@v{version}", branch]
    else:
        found = [branch]
    return [f"{known['lib_name']}[all] @ {place}" for place in found]
