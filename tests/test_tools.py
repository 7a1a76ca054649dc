"""The tools that run the notebooks, write README.md and keep the lessons in order."""

import configparser
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from course_tools import tool
from thorough import some

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

nbformat = pytest.importorskip("nbformat")
from nbformat.v4 import new_code_cell as code
from nbformat.v4 import new_markdown_cell as prose
from nbformat.v4 import new_notebook, new_output

from former_nb.base.files import SHIPPED
from former_nb.saving.saving import load_model
from former_nb.tasks.base import choose
from former_nb.tasks.names import Names

ROOT = Path(__file__).resolve().parents[1]
run, readme, order = tool("run"), tool("readme"), tool("order")


def save(path, *cells):
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=list(cells)), path)
    return path


def text(cell):
    return "".join(o.get("text", "") for o in cell.outputs)


def attempt(nbs, *args):
    return run.main([*map(str, args), "--nbs", str(nbs)])


# ---------------------------------------------------------------- run


def test_run_executes_in_the_notebooks_folder_and_drops_noise(tmp_path, monkeypatch):
    monkeypatch.setenv("IN_TEST", "1")
    kept = [new_output("stream", name="stdout", text="measured on a GPU\n")]
    path = save(
        tmp_path / "nbs" / "01_a.ipynb",
        code(
            "import os, pathlib, sys\n"
            "print(pathlib.Path.cwd().name, 'IN_TEST' in os.environ)\n"
            "print('50%', file=sys.stderr)"
        ),
        code("#| eval: false\nraise SystemError", outputs=kept),
    )
    assert attempt(tmp_path / "nbs") == 0
    ran, stored = nbformat.read(path, 4).cells
    assert [(o.name, o.text) for o in ran.outputs] == [("stdout", "nbs False\n")]
    assert text(stored) == "measured on a GPU\n" and not stored.metadata
    assert ran.execution_count is None
    assert sorted(p.name for p in path.parent.iterdir()) == [".outputs.json", "01_a.ipynb"]
    before = path.read_bytes()
    assert attempt(tmp_path / "nbs", path) == 0 and path.read_bytes() == before


@pytest.mark.parametrize(
    "source, complaint",
    [("1 / 0", "ZeroDivisionError"), ("print('/home/me/data')", "cell 1 prints a path")],
)
def test_a_run_that_fails_leaves_the_notebook_as_it_was(tmp_path, capsys, source, complaint):
    path = save(tmp_path / "01_a.ipynb", code(source))
    before = path.read_bytes()
    assert attempt(tmp_path, path) == 1
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]
    assert complaint in capsys.readouterr().err


def test_check_catches_an_edited_cell_but_not_edited_prose(tmp_path, capsys):
    path = tmp_path / "01_a.ipynb"
    record = {path.name: run.fingerprint(new_notebook(cells=[code("1 + 1")]))}
    (tmp_path / ".outputs.json").write_text(json.dumps(record))
    save(path, prose("New words"), code("#| label: sum\n1 + 1"))
    assert attempt(tmp_path, "--check") == 0
    save(path, code("1 + 2"))
    assert attempt(tmp_path, "--check") == 1
    assert "01_a.ipynb was changed" in capsys.readouterr().err
    save(tmp_path / "solutions" / "01_a.ipynb", code("1"))
    assert attempt(tmp_path, "--check") == 1
    assert "solutions/01_a.ipynb was never run" in capsys.readouterr().err


def test_notebooks_in_folders_run_where_they_are_after_the_path(tmp_path, capsys):
    nbs = tmp_path / "nbs"
    here = "import pathlib\nprint(pathlib.Path.cwd().name)"
    pages = ["index", "01_a", "solutions/01_a", "deeper/02_b", "deeper/01_c", "library/core"]
    for page in pages:
        save(nbs / f"{page}.ipynb", code("1" if page.endswith("_a") else here))
    save(nbs / ".ipynb_checkpoints" / "01_a.ipynb", code("1 / 0"))
    names = [path.relative_to(nbs).as_posix() for path in run.notebooks(nbs)]
    folders = ["deeper/01_c", "deeper/02_b", "library/core", "solutions/01_a"]
    assert names == [f"{page}.ipynb" for page in ["01_a", "index", *folders]]
    assert attempt(nbs, nbs / "deeper" / "01_c.ipynb") == 0
    assert text(nbformat.read(nbs / "deeper" / "01_c.ipynb", 4).cells[0]) == "deeper\n"
    assert attempt(nbs, "--check", nbs / "deeper" / "01_c.ipynb") == 0
    assert attempt(nbs, "--check") == 1
    said = capsys.readouterr().err
    assert "NB=nbs/deeper/02_b.ipynb make run" in said and "01_c" not in said


def test_a_notebook_that_is_not_there_is_named(tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        attempt(tmp_path, tmp_path / "99_none.ipynb")
    assert "expected a file" in capsys.readouterr().err


def test_only_the_words_of_an_output_are_searched_for_paths():
    picture = new_output("display_data", {"image/png": "AA /home/AA", "text/plain": "<Figure>"})
    run.refuse(1, picture)
    run.refuse(1, new_output("stream", name="stdout", text="https://example.org/home/page"))
    for said in ("a warning\n/tmp/ipykernel_7/1.py", "in /Users/me", r"C:\Users\me", str(ROOT)):
        with pytest.raises(ValueError, match="cell 3 prints a path"):
            run.refuse(3, new_output("stream", name="stdout", text=said))


# ---------------------------------------------------------------- readme


@pytest.mark.parametrize(
    "before, after",
    [
        ("[one](01_a.ipynb#why)", "[one](nbs/01_a.ipynb#why)"),
        ("[dive](deeper/03_a.ipynb)", "[dive](nbs/deeper/03_a.ipynb)"),
        ("![alt](images/a.svg)", "![alt](nbs/images/a.svg)"),
        ('<img src="images/a.svg">', '<img src="nbs/images/a.svg">'),
        ("[law](../LICENSE)", "[law](LICENSE)"),
        ("[ref]: 01_a.ipynb", "[ref]: nbs/01_a.ipynb"),
        ("[out](https://example.org/a) [in](#top)", "[out](https://example.org/a) [in](#top)"),
        ("[mail](mailto:a@b.c) `[x](y)`", "[mail](mailto:a@b.c) `[x](y)`"),
        ("```\n[x](y)\n```\n[x](y)", "```\n[x](y)\n```\n[x](nbs/y)"),
    ],
)
def test_links_hold_from_the_root(before, after):
    assert readme.from_root(before) == after


def test_readme_has_prose_code_and_output_and_nothing_hidden(tmp_path):
    printed = [
        new_output("stream", name="stdout", text="2\n"),
        new_output("stream", name="stderr", text="50%"),
    ]
    index = save(
        tmp_path / "index.ipynb",
        prose("# Title"),
        code("#| hide\nsecret()"),
        code("#| echo: true\nprint(1 + 1)", outputs=printed),
        code(
            "#| echo: false\nquiet()",
            outputs=[new_output("execute_result", {"text/plain": "a ``` b"})],
        ),
    )
    assert readme.main(["--index", str(index), "--out", str(tmp_path / "README.md")]) == 0
    lines = (tmp_path / "README.md").read_text(encoding="utf-8").split("\n", 1)[1].strip()
    code_and_output = "```python\nprint(1 + 1)\n```\n\n```text\n2\n```"
    title = f"# Title\n\n{readme.badges()}"
    assert lines == f"{title}\n\n{code_and_output}\n\n````text\na ``` b\n````"


def test_the_readme_leads_to_the_site_and_the_site_to_the_first_hour():
    link = re.compile(r"\[Read it\]\((.*?)\)")
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert link.findall(text) == ["https://former-nb.github.io/former_nb/"]
    cells = json.loads((ROOT / "nbs/index.ipynb").read_text(encoding="utf-8"))["cells"]
    said = "".join("".join(cell["source"]) for cell in cells)
    button = re.findall(r"\[\*\*(.*?)\*\*\]\((.*?)\)", said.partition("## The path")[0])
    assert button == [("Start the first hour", "00_first_hour.ipynb")]


def test_the_readme_shows_before_it_tells():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"!\[[^\]]*\]", "![]", text)  # an alt text is no prose
    film, picture = text.index("(nbs/images/film.webp)"), text.index("(nbs/images/transformer.svg)")
    names = text.index("```text\nJo")
    assert film < picture
    assert len(text[:picture].split()) < 140 and len(text[:names].split()) < 180
    prose = re.sub(r"\]\([^)]*\)", "]", "".join(readme.CODE.split(text)[::2]))
    assert len(re.findall(r"\S*\w\S*", prose)) <= 790
    assert "@software{former_nb" in text and "badge.svg" in text


def test_the_film_of_the_readme_is_light_and_in_no_other_place():
    assert (ROOT / "nbs/images/film.webp").stat().st_size < 1_000_000
    assert "film.webp" not in (ROOT / "nbs/index.ipynb").read_text(encoding="utf-8")


def test_what_the_lab_saves_is_what_git_has(monkeypatch):
    "`make lab` saves by this hook: what running and looking leave in a notebook is not kept."
    clean = pytest.importorskip("nbdev.clean")
    assert "pre_save_hook=nbdev.clean.clean_jupyter" in (ROOT / "Makefile").read_text()
    monkeypatch.setattr(clean.nbdev_trust, "__wrapped__", lambda path: None)  # it writes files
    monkeypatch.chdir(ROOT / "nbs")
    page = "deeper/04_mask_patterns.ipynb"
    text = Path(page).read_text(encoding="utf-8")
    content = json.loads(text)
    content["metadata"] |= {"language_info": {"name": "python"}}
    content["metadata"]["kernelspec"]["display_name"] = "former_nb"
    for n, cell in enumerate(content["cells"]):
        cell["metadata"] |= {"trusted": True, "execution": {"iopub.status.busy": "now"}}
        cell |= {"execution_count": n} if cell["cell_type"] == "code" else {}
    clean.clean_jupyter(page, {"type": "notebook", "content": content})
    assert content == json.loads(text)


def test_every_link_of_the_readme_leads_to_a_file():
    text = "".join(readme.CODE.split((ROOT / "README.md").read_text(encoding="utf-8"))[::2])
    links = {link.partition("#")[0] for _, link in readme.LINK.findall(text)}
    assert [link for link in sorted(links) if not (ROOT / link).exists()] == []


def test_readme_refuses_a_picture(tmp_path):
    index = save(
        tmp_path / "index.ipynb",
        code("plot()", outputs=[new_output("display_data", {"image/png": "AAAA"})]),
    )
    with pytest.raises(ValueError, match="cell 1.*nbs/images"):
        readme.main(["--index", str(index), "--out", str(tmp_path / "README.md")])
    assert not (tmp_path / "README.md").exists()


# ---------------------------------------------------------------- export


def test_the_export_gives_every_exported_file_again_and_touches_no_other(tmp_path):
    "From a package that holds its plain modules alone, marked as if their author had saved them."
    pytest.importorskip("nbdev")
    package = ROOT / "former_nb"
    exported = {"_modidx.py"}
    for module, source in order.sources(package).items():
        file = f"{module.replace('.', '/')}.py"
        if not order.is_plain(source):
            exported.add(file)
    for path in package.rglob("*.py"):
        file = path.relative_to(package)
        if file.as_posix() not in exported:
            copy = tmp_path / "former_nb" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(
                path.read_bytes() + (b"" if file.name == "__init__.py" else b"# mine\n")
            )
    shutil.copy(ROOT / "settings.ini", tmp_path)
    for path in run.notebooks(ROOT / "nbs"):
        copy = tmp_path / "nbs" / path.relative_to(ROOT / "nbs")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    environment = {name: value for name, value in os.environ.items() if name != "IN_TEST"}
    command = [sys.executable, "-c", "from nbdev.doclinks import nbdev_export; nbdev_export()"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True)
    made = {
        path.relative_to(tmp_path / "former_nb").as_posix(): path.read_bytes()
        for path in (tmp_path / "former_nb").rglob("*.py")
    }
    assert len(exported) > 30 and exported < set(made)
    assert sorted(made) == sorted(p.relative_to(package).as_posix() for p in package.rglob("*.py"))
    for file, content in made.items():
        theirs = (package / file).read_bytes()
        mine = b"" if file in exported or file.endswith("__init__.py") else b"# mine\n"
        assert content == theirs + mine, file


def written_by_nbdev_3(root):
    "What version 3 leaves of a whole project: see tools/export.py."
    package = root / "former_nb"
    index = runpy.run_path(str(package / "_modidx.py"))["d"]
    index["settings"] |= {"doc_baseurl": "/", "doc_host": "", "git_url": ""}
    index["syms"] = {name: names for name, names in index["syms"].items() if names}
    (package / "_modidx.py").write_text(f"d = {index}", encoding="utf-8")
    face = (package / "__init__.py").read_text(encoding="utf-8").partition("\n")[2]
    (package / "__init__.py").write_text(f'"""Modules:\n\n- `a`: b"""\n{face}', encoding="utf-8")


def test_what_version_3_of_nbdev_writes_otherwise_is_put_back(tmp_path):
    shutil.copy(ROOT / "settings.ini", tmp_path)
    shutil.copytree(ROOT / "former_nb", tmp_path / "former_nb")
    made = [tmp_path / "former_nb" / name for name in ("_modidx.py", "__init__.py")]
    wanted = [path.read_text(encoding="utf-8") for path in made]
    written_by_nbdev_3(tmp_path)
    assert all(path.read_text(encoding="utf-8") != text for path, text in zip(made, wanted))
    tool("export").as_by_version_2(tmp_path, wanted[1].replace("0.", "9.", 1))
    assert [path.read_text(encoding="utf-8") for path in made] == wanted


def test_both_versions_of_nbdev_read_the_same_settings():
    config = configparser.ConfigParser(delimiters=["="], interpolation=None)
    config.read(ROOT / "settings.ini", encoding="utf-8")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    told = tomllib.loads(text)["tool"]["nbdev"]
    for name, value in told.items():
        written = " ".join(value) if isinstance(value, list) else value
        assert config["DEFAULT"][name].lower() == str(written).lower(), name
    read_by_both = {"lib_path", "nbs_path", "doc_path", "title", "branch", "readme_nb", "recursive"}
    read_by_both |= {"tst_flags", "clean_ids", "clear_all", "jupyter_hooks"}
    read_by_both |= {name for name in config["DEFAULT"] if name.startswith("allowed_")}
    assert read_by_both <= told.keys()


def test_the_first_ten_minutes_change_what_is_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    steps = re.findall(r"perl -pi -e 's/(.+?)/(.+?)/' (\S+)", text)
    pages = {page: (ROOT / page).read_text(encoding="utf-8") for _, _, page in steps}
    for old, new, page in steps:
        pages[page], n = re.subn(old, new, pages[page])
        assert n == 1, old
    assert len(steps) == 3


# ---------------------------------------------------------------- models


@pytest.mark.parametrize("name", some(["names", "numbers", "shakespeare"], 2))
def test_the_models_that_ship_can_be_made_again(name, tmp_path, monkeypatch, capsys):
    "As tools/models.py makes them, but for the steps: two, and few numbers."
    models = tool("models")
    monkeypatch.setattr(models, "FOLDER", tmp_path)
    whole, few = models.number_rows(), (200, 20, 10)
    monkeypatch.setattr(models, "number_rows", lambda: [p[:n] for p, n in zip(whole, few)])
    monkeypatch.setattr(
        models, "Names", lambda **more: choose(Names, "names", {"steps": 2, **more})
    )
    monkeypatch.setattr(models, "fit", lambda *args, **kwargs: None)  # of the other two
    speech = "ROMEO:\nIs it even so? Then I defy you, stars!\n\n"
    monkeypatch.setattr(models, "read_plays", lambda: [60 * speech, 40 * speech, 40 * speech])
    models.ship(name)
    made, ours = (load_model(folder / name).model for folder in (tmp_path, SHIPPED))
    assert type(made) is type(ours) and made.config == ours.config
    assert made.state_dict().keys() == ours.state_dict().keys()
    said = capsys.readouterr().out
    assert "held-out" in said and said.count("->") == (3 if name == "numbers" else 2)
    card = (tmp_path / name / "README.md").read_text(encoding="utf-8")
    there = (SHIPPED / name / "README.md").read_text(encoding="utf-8")
    parameters = f"{sum(p.numel() for p in made.parameters()):,} parameters"
    assert parameters in card and parameters in there


# ---------------------------------------------------------------- tests


def test_every_mark_is_known_also_where_the_plugin_that_brings_it_is_off():
    "As `pytest -p no:warnings` needs, where pytest does not know `filterwarnings`."
    of_pytest = {"parametrize", "skip", "skipif", "xfail", "usefixtures"}
    settings = configparser.ConfigParser()
    settings.read(ROOT / "pytest.ini", encoding="utf-8")
    known = {
        re.match(r"\w+", line)[0] for line in settings["pytest"]["markers"].split("\n") if line
    }
    texts = [file.read_text(encoding="utf-8") for file in (ROOT / "tests").glob("*.py")]
    used = {name for text in texts for name in re.findall(r"pytest\.mark\.(\w+)", text)}
    assert "filterwarnings" in used and used - of_pytest <= known


# ---------------------------------------------------------------- the weekly table

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.test_a" name="test_one"/>
<testcase classname="tests.test_a" name="test_two[`x`]"><failure message="no"/></testcase>
<testcase classname="tests.test_b" name="test_three"><skipped/></testcase>
<testcase classname="tests.test_b" name="test_four"><error message="no"/></testcase>
</testsuite></testsuites>"""


def test_a_weekly_row_counts_tests_and_the_table_names_those_that_failed(tmp_path, capsys):
    weekly = tool("weekly")
    report = tmp_path / "report.xml"
    report.write_text(JUNIT)
    files = {name: tmp_path / f"row-{name}.json" for name in ("newest", "nightly")}
    weekly.main(["row", "newest", "--report", str(report), "--out", str(files["newest"])])
    weekly.main(["row", "nightly", "--report", "none.xml", "--out", str(files["nightly"])])
    assert capsys.readouterr().out.splitlines() == [
        "newest: 2 failed, 1 passed, 1 skipped",
        "nightly: the tests did not run",
    ]
    out = tmp_path / "weekly.json"
    weekly.main(["table", *map(str, files.values()), "--out", str(out)])
    runs = weekly.read(out)
    assert [run["name"] for run in runs] == ["newest", "nightly"]
    assert runs[0]["packages"]["torch"] and runs[0]["python"].startswith("3.")
    lines = weekly.markdown(runs).splitlines()
    rows = {line.split("**")[1]: line for line in lines if line.startswith("| **")}
    assert "2 failed, 1 passed, 1 skipped" in rows["newest"] and "torch " in rows["newest"]
    assert "the tests did not run" in rows["nightly"] and "not run yet" in rows["oldest"]
    assert "- `tests.test_a::test_two[x]`" in weekly.markdown(runs)


def test_where_no_weekly_run_was_the_table_says_so(tmp_path):
    weekly = tool("weekly")
    text = weekly.markdown(weekly.read(tmp_path / "weekly.json"))
    assert text.count("not run yet") == len(weekly.KINDS) and "passed" not in text


def test_the_weekly_workflow_runs_each_kind_of_the_table_and_the_site_takes_it():
    weekly = tool("weekly")
    workflows = ROOT / ".github" / "workflows"
    text = (workflows / "weekly.yaml").read_text(encoding="utf-8")
    assert set(re.findall(r"versions: (\w+)", text)) == set(weekly.KINDS) and "cron:" in text
    assert (
        text.count("tools/weekly.py") == 3 and "name: weekly\n          path: weekly.json" in text
    )
    site = (workflows / "site.yaml").read_text(encoding="utf-8")
    assert "--name weekly --dir docs" in site and "workflows: [weekly]" in site
