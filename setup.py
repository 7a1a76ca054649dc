"""Packaging for former_nb: every fact comes from settings.ini."""

from configparser import ConfigParser
from pathlib import Path

from setuptools import find_packages, setup

config = ConfigParser(delimiters=["="], interpolation=None)
config.read(Path(__file__).with_name("settings.ini"), encoding="utf-8")
s = config["DEFAULT"]

EXTRAS = ("bleu", "charts", "course")  # what only some functions or pages need
DATA = ["py.typed", "*.pyi", "*/*.pyi", "data/*/*", "models/*/*", "*/*.html"]
DATA += ["*/*.toml", "*/*.csv"]
extras = {name: s[f"{name}_requirements"].split() for name in (*EXTRAS, "dev", "site")}
extras["all"] = [requirement for name in EXTRAS for requirement in extras[name]]
for name in ("dev", "site"):
    extras[name] += extras["all"]

setup(
    name=s["lib_name"],
    version=s["version"],
    description=s["description"],
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    keywords=s["keywords"],
    author=s["author"],
    url=s["git_url"],
    license="Apache-2.0 AND MIT",  # MIT: the names in former_nb/data
    packages=find_packages(include=[s["lib_path"], s["lib_path"] + ".*"]),
    package_data={s["lib_path"]: DATA},
    python_requires=">=" + s["min_python"],
    install_requires=s["requirements"].split(),
    extras_require=extras,
    entry_points={
        "console_scripts": [s["console_scripts"]],
        "nbdev": [f"{s['lib_name']}={s['lib_path']}._modidx:d"],
    },
)
