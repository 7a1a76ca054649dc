"""The tools that run the notebooks, write README.md and keep the lessons in order."""

import importlib.util
import json
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
from nbformat.v4 import new_code_cell as code  # noqa: E402
from nbformat.v4 import new_markdown_cell as prose  # noqa: E402
from nbformat.v4 import new_notebook  # noqa: E402
from nbformat.v4 import new_output  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]


def tool(name):
    spec = importlib.util.spec_from_file_location(f"tools_{name}", ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
            "import os, pathlib, sys\nprint(pathlib.Path.cwd().name, 'IN_TEST' in os.environ)\nprint('50%', file=sys.stderr)"
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
    assert (
        lines
        == "# Title\n\n```python\nprint(1 + 1)\n```\n\n```text\n2\n```\n\n````text\na ``` b\n````"
    )


def test_readme_refuses_a_picture(tmp_path):
    index = save(
        tmp_path / "index.ipynb",
        code("plot()", outputs=[new_output("display_data", {"image/png": "AAAA"})]),
    )
    with pytest.raises(ValueError, match="cell 1.*nbs/images"):
        readme.main(["--index", str(index), "--out", str(tmp_path / "README.md")])
    assert not (tmp_path / "README.md").exists()


# ---------------------------------------------------------------- order


@pytest.fixture
def course(tmp_path):
    "Lessons 00 to 02 with their modules, exercises and one solution."
    modules = {
        "core": "00_core",
        "early": "01_early",
        "late": "02_late",
        "exercises": "exercises",
        "checks/early": "solutions/01_early",
    }
    for name, notebook in modules.items():
        path = tmp_path / "former_nb" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# AUTOGENERATED! DO NOT EDIT! File to edit: ../nbs/{notebook}.ipynb.\n")
        save(tmp_path / "nbs" / f"{notebook}.ipynb", code("%matplotlib inline\nimport torch\n!ls"))
    (tmp_path / "former_nb" / "__init__.py").write_text('__version__ = "0"\n')
    return tmp_path


def check_order(course):
    return order.main(["--root", str(course)])


@pytest.mark.parametrize(
    "line",
    [
        "from former_nb.early import f",
        "from former_nb import core, __version__",
        "import former_nb.exercises",
        "import former_nb",
        "%%bash\nif x",
    ],
)
def test_a_lesson_may_import_what_came_before(course, line):
    save(course / "nbs" / "02_late.ipynb", code(line))
    assert check_order(course) == 0


@pytest.mark.parametrize(
    "line",
    [
        "from former_nb.late import f",
        "import former_nb.late as l",
        "from former_nb import late",
        "def f():\n    from former_nb.early import f",
        "from former_nb.checks.early import f",
    ],
)
def test_a_lesson_may_not_import_ahead(course, capsys, line):
    save(course / "nbs" / "01_early.ipynb", prose("words"), code(line))
    assert check_order(course) == 1
    assert "nbs/01_early.ipynb, cell 2" in capsys.readouterr().err


def test_an_exported_module_may_not_import_ahead(course, capsys):
    with open(course / "former_nb" / "early.py", "a") as f:
        f.write("from .late import f\n")
    assert check_order(course) == 1
    assert (
        "former_nb/early.py, line 2: imports former_nb.late (lesson 02)" in capsys.readouterr().err
    )


def test_files_without_a_number_may_import_everything(course):
    save(course / "nbs" / "solutions" / "01_early.ipynb", code("from former_nb.late import f"))
    save(course / "nbs" / "cli.ipynb", code("from former_nb.late import f"))
    assert check_order(course) == 0
