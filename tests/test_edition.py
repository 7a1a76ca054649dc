"""Versions: one number for each edition, and an address for each commit."""

import json
import re
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from shutil import copy
from types import SimpleNamespace

import pytest
from course_tools import tool

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

edition, first_cell = tool("edition"), tool("first_cell")
TODAY = edition.read_settings()["version"]
CHANGES = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def site_downloads():
    pytest.importorskip("sphinx", reason="the site's requirements are not installed")
    import site_downloads

    return site_downloads


def sections(text):
    "Heading -> what stands below it, of a changelog."
    heads = re.split(r"^## (.+)$", text, flags=re.M)[1:]
    return dict(zip(heads[::2], (body.strip() for body in heads[1::2]), strict=True))


def version_faults(version, text):
    "What is wrong with a version beside its changelog, in words."
    (first, unsaid), *released = sections(text).items()
    assert first == "[Unreleased]"
    last = re.match(r"\[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", released[0][0])
    if not last:
        return "the newest release has no number or no date"
    if edition.is_release(version):
        if unsaid:
            return "a release, but changes are unreleased"
        return "" if version == last[1] else "a release that has no section"
    if not re.fullmatch(r"\d+\.\d+\.\d+\.dev\d+", version):
        return "neither a release nor a development version"
    newer = [int(n) for n in version.split(".")[:3]] > [int(n) for n in last[1].split(".")]
    return "" if newer else "a development version of what is released"


def test_the_version_and_the_changelog_agree():
    assert version_faults(TODAY, CHANGES) == ""


def log(unreleased):
    return f"# Changelog\n\n## [Unreleased]\n\n{unreleased}\n\n## [0.3.0] - 2026-11-29\n\nNames."


@pytest.mark.parametrize(
    ("version", "unreleased", "fault"),
    [
        ("0.3.0", "", ""),
        ("0.4.0.dev0", "", ""),
        ("0.4.0.dev0", "- A name is gone.", ""),
        ("0.3.1.dev1", "- A name is gone.", ""),
        ("0.3.0", "- A name is gone.", "a release, but changes are unreleased"),
        ("0.4.0", "", "a release that has no section"),
        ("0.3.0.dev0", "", "a development version of what is released"),
        ("0.4", "", "neither a release nor a development version"),
    ],
)
def test_a_version_that_would_lie_is_found(version, unreleased, fault):
    assert version_faults(version, log(unreleased)) == fault


def test_a_release_fits_on_two_screens():
    newest = list(sections(CHANGES).values())[1]
    assert len(newest.splitlines()) <= 100


def git(folder, *words):
    who = ["-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture
def repository(tmp_path):
    "A small repository with what a wheel is made of."
    folder = tmp_path.resolve() / "repository"
    (folder / "former_nb").mkdir(parents=True)
    for name in site_downloads().SETUP:
        copy(ROOT / name, folder)
    copy(ROOT / "former_nb" / "__init__.py", folder / "former_nb")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    return folder


def set_version(folder, version):
    path = folder / "settings.ini"
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"(?m)^version = .*$", f"version = {version}", text), encoding="utf-8")


def test_each_commit_has_an_address_of_its_own(repository):
    known, places = edition.read_settings(repository), edition.places
    site = "{doc_host}{doc_baseurl}/former_nb-".format(**known)
    first, commit = places(repository, True), git(repository, "rev-parse", "HEAD")
    assert first == places(repository, True)
    version = f"{TODAY}%2Bg{commit[:9]}"
    assert first[0] == f"former_nb[all] @ {site}{version}-py3-none-any.whl"
    assert first[1] == f"former_nb[all] @ git+{known['git_url']}@{commit}"
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    second = places(repository, True)
    assert not {*first} & {*second}
    git(repository, "checkout", "-q", commit)
    assert places(repository, True) == first
    (repository / "former_nb" / "__init__.py").write_text("", encoding="utf-8")
    assert places(repository, True)[0] not in (first[0], second[0])  # it isn't what was committed


def test_a_notebook_in_git_asks_for_the_edition_that_it_belongs_to(repository):
    url = edition.read_settings(repository)["git_url"]
    set_version(repository, "0.3.0")
    wheel = "releases/download/v0.3.0/former_nb-0.3.0-py3-none-any.whl"
    wanted = [f"{url}/{wheel}", f"git+{url}@v0.3.0", f"git+{url}@main"]
    assert edition.places(repository) == [f"former_nb[all] @ {place}" for place in wanted]
    set_version(repository, "0.4.0.dev0")
    assert edition.places(repository) == [f"former_nb[all] @ git+{url}@main"]


def test_pip_reads_the_addresses_as_this_package_and_this_version(repository):
    packaging = pytest.importorskip("packaging.utils")
    requirements = pytest.importorskip("packaging.requirements")
    from urllib.parse import unquote, urlsplit

    for version in ("0.3.0", "0.4.0.dev0"):
        set_version(repository, version)
        for place in edition.places(repository) + edition.places(repository, True):
            asked = requirements.Requirement(place)
            assert (asked.name, asked.extras) == ("former_nb", {"all"}) and asked.url
            name = unquote(urlsplit(asked.url).path).rpartition("/")[2]
            if name.endswith(".whl"):
                assert packaging.parse_wheel_filename(name)[1].public == version


def test_the_sites_wheel_says_its_whole_version(repository, tmp_path):
    if not all(map(find_spec, ("pip", "setuptools", "wheel"))):
        pytest.skip("pip, setuptools and wheel build it")
    downloads = site_downloads()
    for version in (TODAY, "0.4.0.dev0"):
        set_version(repository, version)
        git(repository, "commit", "-aqm", version, "--allow-empty")
        downloads.build_wheel(tmp_path, repository)
        whole = f"{version}+g{git(repository, 'rev-parse', 'HEAD')[:9]}"
        file = tmp_path / f"former_nb-{whole}-py3-none-any.whl"
        with zipfile.ZipFile(file) as wheel:
            head = wheel.read("former_nb/__init__.py").decode()
            facts = wheel.read(f"former_nb-{whole}.dist-info/METADATA").decode()
        assert f'__version__ = "{whole}"' in head and f"\nVersion: {whole}\n" in facts
    assert len(list(tmp_path.glob("*.whl"))) == 2  # the second has not replaced the first


def test_the_notebook_that_a_page_offers_asks_for_the_same(tmp_path):
    pages = tmp_path / "_sources" / "deeper"
    pages.mkdir(parents=True)
    copy(ROOT / "nbs" / "deeper" / "04_flash.ipynb", pages)
    app = SimpleNamespace(builder=SimpleNamespace(format="html"), outdir=tmp_path)
    site_downloads().stamp_notebooks(app, None)
    cells = json.loads((pages / "04_flash.ipynb").read_text(encoding="utf-8"))["cells"]
    (source,) = ("".join(cell["source"]) for cell in cells if first_cell.is_install(cell))
    assert source == first_cell.cell_for(edition.places(of_the_site=True))
