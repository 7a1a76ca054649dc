"""What `pip install` of the package gives, and what it asks for."""

import ast
import email
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from configparser import ConfigParser
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from cli_tools import former, refused

import former_nb
from former_nb.base.core import use_altair
from former_nb.data.toy_data import english_number, german_number
from former_nb.inspection.scores import compare_translations, score_translations

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import order

EXTRAS = ["pyproject.toml", "constraints.txt", "CHANGELOG.md", "CITATION.cff"]
BUILD_ONLY = set(
    "nbdev fastcore execnb jupyter jupyterlab notebook ipykernel nbclient nbformat sphinx myst-nb "
    "pytest ruff".split()
)


@pytest.fixture(scope="module")
def settings():
    config = ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    return config["DEFAULT"]


def without_path():
    "The environment without what this process has on its path."
    return {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}


def in_folder(folder, *command):
    "Run Python there, without what this process has on its path."
    subprocess.run([sys.executable, *command], cwd=folder, env=without_path(), check=True)


@pytest.fixture(scope="module")
def sdist(tmp_path_factory):
    "The source archive, built from a copy so that the working tree stays as it is."
    pytest.importorskip("setuptools")
    copy = tmp_path_factory.mktemp("sdist")
    for name in ("settings.ini", "setup.py", "MANIFEST.in", "README.md", "LICENSE", *EXTRAS):
        shutil.copy(ROOT / name, copy)
    caches = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "former_nb", copy / "former_nb", ignore=caches)
    in_folder(copy, "-c", "from setuptools import build_meta; build_meta.build_sdist('dist')")
    return next((copy / "dist").glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    "The wheel, built as `pip install` of the source archive builds it, without a network."
    pytest.importorskip("wheel")
    out = tmp_path_factory.mktemp("wheel")
    offline = ["--no-deps", "--no-build-isolation", "--no-index"]
    in_folder(out, "-m", "pip", "wheel", "-q", *offline, "-w", str(out), str(sdist))
    with zipfile.ZipFile(next(out.glob("*.whl"))) as archive:
        yield archive


@pytest.fixture(scope="module")
def metadata(wheel):
    name = next(n for n in wheel.namelist() if n.endswith(".dist-info/METADATA"))
    return email.message_from_bytes(wheel.read(name))


def test_the_library_needs_no_notebook_and_no_site(metadata):
    needed = [r for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    names = {plain(r) for r in needed}
    assert "torch" in names and not names & BUILD_ONLY


def brought(metadata, extra):
    "The packages that an extra brings."
    ends = (f"extra == '{extra}'", f'extra == "{extra}"')
    return {plain(r) for r in metadata.get_all("Requires-Dist") if r.endswith(ends)}


def test_an_extra_brings_what_only_some_functions_need(metadata):
    needed = [plain(r) for r in metadata.get_all("Requires-Dist") if "extra ==" not in r]
    packages = {package for _, package, _ in OPTIONAL} | brought(metadata, "course")
    assert brought(metadata, "all") == packages and not packages & set(needed)
    assert packages < brought(metadata, "dev") and packages < brought(metadata, "site")


def imported(tree):
    "The packages that a syntax tree imports, the standard library's and ours left out."
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        packages = {name.partition(".")[0] for name in names}
        yield from packages - sys.stdlib_module_names - {"former_nb"}


def all_imports():
    "(where, package) for each import of the package and of every page."
    for path in (ROOT / "former_nb").rglob("*.py"):
        for package in imported(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.name, package
    nbs = ROOT / "nbs"
    for path in nbs.rglob("*.ipynb"):
        page = path.relative_to(nbs).with_suffix("")
        if not any(part.startswith((".", "_")) for part in page.parts):
            for where, tree in order.cell_trees(page.as_posix(), nbs):
                for package in imported(tree):
                    yield where, package


IF_THERE = {"tomli", "vl_convert"}  # of an older Python; a picture beside a chart that is live


def test_what_package_and_pages_import_is_required_or_in_the_extra_all(metadata):
    required = {plain(r) for r in metadata.get_all("Requires-Dist") if "extra ==" not in r}
    offered = required | brought(metadata, "all")
    homes = packages_distributions()
    imports = sorted(set(all_imports()))
    missing = [
        (where, package)
        for where, package in imports
        if package not in IF_THERE and not {plain(d) for d in homes[package]} & offered
    ]
    assert not missing
    used = {plain(d) for _, package in imports for d in homes.get(package, [package])}
    assert not offered - used
    for requirement in metadata.get_all("Requires-Dist"):
        if "extra ==" not in requirement or plain(requirement) in offered:
            assert ">=" in requirement or "==" in requirement, requirement


OPTIONAL = [
    ("bleu", "sacrebleu", lambda folder: score_translations(["a"], ["a"])),
    ("bleu", "sacrebleu", lambda folder: compare_translations(["a"], ["b"], ["a"])),
    ("charts", "altair", lambda folder: use_altair()),
]


def hide(monkeypatch, package):
    "Whoever imports the package from now on fails, as where it is not installed."
    for name in [*sys.modules]:
        if package in name.split("."):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)


@pytest.mark.parametrize("extra, package, use", OPTIONAL)
def test_where_it_is_missing_the_error_names_the_extra(
    monkeypatch, tmp_path, settings, extra, package, use
):
    hide(monkeypatch, package)
    install = f'{package}, which is not installed: pip install "former_nb[{extra}]"'
    with pytest.raises(ImportError, match=re.escape(f"{extra}: expected {install}")):
        use(tmp_path)
    assert plain(settings[f"{extra}_requirements"]) == package


def test_a_training_that_needs_an_extra_says_so_at_once(monkeypatch, tmp_path):
    hide(monkeypatch, "sacrebleu")
    file = tmp_path / "lines.txt"
    file.write_text("a\n")
    out = tmp_path / "model"
    train = ["train", "translate", "--src", file, "--tgt", file, "--out", out]
    refused(former(*train), "bleu: ", "former_nb[bleu]")  # before it trains
    assert not out.exists()


def test_version_and_python_come_from_settings(metadata, settings):
    assert metadata["Version"] == former_nb.__version__ == settings["version"]
    assert metadata["Requires-Python"] == ">=" + settings["min_python"]


def test_the_wheel_holds_every_file_of_the_package_and_nothing_else(wheel):
    held = {n for n in wheel.namelist() if ".dist-info/" not in n}
    files = [path for path in (ROOT / "former_nb").rglob("*") if path.is_file()]
    there = {p.relative_to(ROOT).as_posix() for p in files if "__pycache__" not in p.parts}
    assert held == there and "former_nb/py.typed" in held


def test_the_source_archive_holds_what_its_setup_reads_and_no_half_of_the_tests(sdist):
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"settings.ini", "setup.py", "README.md", "LICENSE", "former_nb/base/core.py", *EXTRAS}
    assert needed <= held
    assert not any(name.startswith(("tests", "nbs", "docs")) for name in held)


def test_the_shipped_models_are_small_and_say_what_they_are(wheel):
    held = [info for info in wheel.infolist() if info.filename.startswith("former_nb/models/")]
    held = [info for info in held if info.filename.count("/") == 3]
    folders = {info.filename.split("/")[2] for info in held}
    assert "former_nb/inspection/viewer.html" in wheel.namelist()
    assert folders == {"names", "numbers", "shakespeare"}
    assert sum(info.file_size for info in held) < 2_300_000
    for folder in folders:
        card = wheel.read(f"former_nb/models/{folder}/README.md").decode()
        assert all(part in card for part in ("- Data: ", "| measured |", f"models.py {folder}"))


def test_the_names_ship_with_their_licence_and_the_metadata_say_both(wheel, sdist, metadata):
    held = {f"former_nb/data/names/{name}" for name in ("vardai.csv", "LICENSE", "README.md")}
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert held <= {*wheel.namelist()} and held <= packed
    assert wheel.read("former_nb/data/names/LICENSE").startswith(b"MIT License")
    assert "Apache-2.0 AND MIT" in (metadata["License-Expression"], metadata["License"])


NUMBERS = [3, 12, 17, 21, 38, 40, 56, 99, 100, 101, 245, 911, 1000, 2021, 7777, 10_000, 31_415]
NUMBERS += [200_345, 654_321, 999_999]


COMMANDS = """
import json, sys
from former_nb.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv[1:] = words
    try:
        main()
    except SystemExit as end:
        assert not end.code
"""


def test_what_was_installed_writes_and_translates_at_once_without_a_network(wheel, tmp_path):
    wheel.extractall(tmp_path)
    words = [["--version"], "generate Jo --n 3 --device cpu".split()]
    words.append(["translate", "--device", "cpu", *map(german_number, NUMBERS)])
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "HF_HUB_OFFLINE": "1", "FORMER_NB_DATA": ""}
    how = dict(cwd=tmp_path, env=env, check=True, stdout=subprocess.PIPE, encoding="utf-8")
    asked = [sys.executable, "-c", COMMANDS, json.dumps(words)]
    version, *said = subprocess.run(asked, **how).stdout.splitlines()
    assert version == f"former-nb {former_nb.__version__}" and len(said) == 3 + len(NUMBERS)
    assert all(name.startswith("Jo") for name in said[:3])
    assert sum(text == english_number(n) for text, n in zip(said[3:], NUMBERS)) >= 15


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    "The Python of an environment with all that this one has, but without the package."
    folder, scheme = tmp_path_factory.mktemp("bare"), "nt" if os.name == "nt" else "posix_prefix"
    builder = venv.EnvBuilder()
    builder.create(folder)
    own = Path(sysconfig.get_path("purelib", scheme, vars={"base": str(folder)}))
    (own / "all.pth").write_text(sysconfig.get_path("purelib"))  # a .pth there is not followed
    return builder.ensure_directories(folder).env_exe


def test_a_lesson_runs_from_the_wheel_alone(wheel, bare, tmp_path):
    "On Colab its first cell installs the package. CI runs more lessons so: .github/workflows."
    for needed in ("pip", "nbclient", "ipykernel"):
        pytest.importorskip(needed)
    command = [bare, ROOT / "tools" / "bare.py", wheel.filename, ROOT / "nbs" / "00_tour.ipynb"]
    env = {**without_path(), "PIP_NO_INDEX": "1"}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert f"from the wheel alone: former_nb {former_nb.__version__}" in done.stdout, done.stderr


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_the_command_says_what_it_is_without_waiting_for_pytorch(word):
    code = "import sys; from former_nb.cli import main\ntry: main()\n"
    code += "finally: assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code, word], check=True, stdout=subprocess.DEVNULL)


def test_the_citation_names_this_version(settings):
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {settings['version']}\n" in text and settings["git_url"] in text


def test_the_wheel_carries_its_licence_and_commands(wheel):
    names = wheel.namelist()
    assert any(n.endswith("LICENSE") for n in names)
    points = wheel.read(next(n for n in names if n.endswith("entry_points.txt"))).decode()
    assert "former-nb = former_nb.cli:main" in points


def pins(path):
    "Package -> version for each `name==version` in a file."
    text = (ROOT / path).read_text(encoding="utf-8")
    return {plain(name): v for name, v in re.findall(r"([\w.-]+)==([\w.]+)", text)}


def plain(requirement):
    return re.match(r"[\w.-]+", requirement)[0].lower().replace("_", "-")


def test_constraints_pin_everything_that_settings_name(settings):
    asked = " ".join(settings[key] for key in settings if key.endswith("requirements"))
    assert {plain(r) for r in asked.split()} <= set(pins("constraints.txt"))


@pytest.mark.parametrize("path", ["settings.ini", ".pre-commit-config.yaml"])
def test_no_other_file_pins_another_version(path):
    assert pins(path).items() <= pins("constraints.txt").items()


def test_the_face_of_the_package_is_lazy_and_whole():
    "Each name is found where it says, and `import former_nb` imports none of it."
    code = "import sys, former_nb; assert 'torch' not in sys.modules; print(*dir(former_nb))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(former_nb.__all__) <= set(found.stdout.split())
    for name in former_nb.__all__:
        assert getattr(former_nb, name).__module__.startswith("former_nb.")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(former_nb, "nothing")  # noqa: B009


LOCKS = sorted((ROOT / "locks").glob("*.txt"))


def locked(path):
    "(package, version, marker, hashes) of each pin of a lock."
    for pin in re.split(r"\n(?=\S)", path.read_text(encoding="utf-8").strip())[1:]:
        line, *hashes = pin.split(" \\\n    --hash=")
        name, version, marker = re.fullmatch(r"([\w.-]+)==(\S+)(?: ; (.+))?", line).groups()
        yield plain(name), version, marker or "", hashes


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.stem)
def test_a_lock_has_a_hash_for_each_file_and_the_versions_of_the_constraints(path):
    others = '>= "3.11"' if path.stem == "python-3.10" else '< "3.11"'
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tested = [re.match(r"([\w.-]+)==([\w.]+)", line) for line in lines if others not in line]
    tested = {plain(found[1]): found[2] for found in tested if found}
    for name, version, _, hashes in locked(path):
        assert hashes and all(re.fullmatch("sha256:[0-9a-f]{64}", one) for one in hashes), name
        assert tested.get(name, version) == version, f"{name}: python tools/lock.py"


def test_the_locks_hold_all_that_settings_name(settings):
    extras = {"python-3.10": ("dev",), "python-3.11": ("dev", "site")}
    for name, wanted in extras.items():
        keys = ["requirements", *(f"{extra}_requirements" for extra in wanted)]
        asked = [plain(r) for key in keys for r in settings[key].split() if ";" not in r]
        assert {*asked} <= {pin for pin, *_ in locked(ROOT / "locks" / f"{name}.txt")}
    assert {path.stem for path in LOCKS} == {*extras, "quick"}


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_actions_by_commit_and_installs_by_hash(path):
    text = path.read_text(encoding="utf-8")
    for action in re.findall(r"uses: (.+)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), action
    if path.stem != "weekly":  # which tries versions that nobody has pinned
        assert 'LOCKED: "1"' in text
        for line in re.findall(r"pip install (.+)", text):
            fixed = "--require-hashes" in line or "--no-deps -e ." in line
            assert fixed or "-c constraints.txt" in line or '"torch==$(' in line, line
