"""What editors and type checkers see: of the names that packages offer, and of a user's programs.

The programs in tests/typed are what users write first. They run, pyright finds nothing in them, and
neither does `mypy --strict`. README's examples and the files that `former-nb new` writes are read
by both, too.
"""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
from thorough import weekly

import former_nb

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import stubs

TYPED = ROOT / "tests" / "typed"
PROGRAMS = sorted(TYPED.glob("*.py"))
README = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)
PACKAGES = {
    path.parent: stubs.lazy_table(path) for path in (ROOT / "former_nb").rglob("__init__.py")
}
PACKAGES = {folder: table[0] for folder, table in PACKAGES.items() if table}
WRONG = {  # what a user may write -> what pyright must say of it
    "attention(q, q)": 'Argument missing for parameter "v"',
    "attention(q, q, q).shap": 'Cannot access attribute "shap"',
    "former_nb.attention(q, q, q, True)": 'cannot be assigned to parameter "mask"',
    "MultiHeadAttention(d_model=32)": 'Argument missing for parameter "n_heads"',
    "MultiHeadAttention(32, 4, heads=4)": 'No parameter named "heads"',
    "fit(layer, [], [], TrainingConfig(step=4))": 'No parameter named "step"',
    'Sampling(temperature="0.8")': 'cannot be assigned to parameter "temperature"',
    "former_nb.generate_text": '"generate_text" is not a known attribute',
    "from former_nb import load": '"load" is unknown import symbol',
    'LanguageModel.from_config("small")': 'cannot be assigned to parameter "config"',
}


# ---------------------------------------------------------------- the names that packages offer


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda folder: folder.name)
def test_the_stub_of_a_package_is_made_from_its_table(folder):
    stub = folder / "__init__.pyi"
    assert stub.read_text(encoding="utf-8") == stubs.stub(folder / "__init__.py")


def offered():
    "(where, function) of all that packages offer, and of the public methods of their classes."
    for folder, modules in PACKAGES.items():
        package = ".".join(folder.relative_to(ROOT).parts)
        for module, names in modules.items():
            home = import_module(f"{package}.{module}")
            for name in names.split():
                yield from functions_of(f"{package}.{name}", getattr(home, name))


def functions_of(where, thing):
    "It, or where it is a class of ours its public methods and those of its bases."
    if inspect.isfunction(thing):
        yield where, thing
    elif inspect.isclass(thing):
        for kind in thing.__mro__:
            for name, value in vars(kind).items() if "former_nb" in kind.__module__ else ():
                public = not name.startswith("_") or name in ("__init__", "__call__", "__iter__")
                function = getattr(value, "__func__", value)
                if public and inspect.isfunction(function) and "former_nb" in function.__module__:
                    yield f"{where}.{name}", function


UNTYPED = {  # whose pages say it in comments: (name, parameter)
    ("beam_search", "cache"),
    ("generate", "options"),
    ("KVCache.__init__", "attend"),
    ("Decoder.project", "memory"),
    ("Decoder.project", "return"),
}


def test_all_that_packages_offer_has_types():
    missing = set()
    for _, function in offered():
        signature, name = inspect.signature(function), function.__qualname__
        for parameter in signature.parameters.values():
            if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls"):
                missing.add((name, parameter.name))
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            missing.add((name, "return"))
    assert missing <= UNTYPED


def test_help_shows_the_signature_and_the_sentence_of_each_name():
    for name in former_nb.__all__:
        thing = getattr(former_nb, name)
        assert "(" in str(inspect.signature(thing)) and inspect.getdoc(thing), name
    signature = str(inspect.signature(former_nb.attention))
    assert signature.startswith("(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, ")


def test_jupyter_shows_the_signature_of_each_name():
    Inspector = pytest.importorskip("IPython.core.oinspect").Inspector
    theme = {"theme_name"} & {*inspect.signature(Inspector).parameters}  # the newer ones ask for it
    inspector = Inspector(**dict.fromkeys(theme, "nocolor"))
    for name in former_nb.__all__:
        said = inspector.info(getattr(former_nb, name), oname=name)
        assert said["definition"] or said["init_definition"], name
    said = inspector.info(former_nb.attention, oname="attention")
    assert "q: torch.Tensor" in (said["definition"] or said["call_def"])
    assert "by PyTorch's fused kernel" in said["docstring"]  # not what the folder says of itself


@pytest.mark.parametrize("name", ["attention", "fit", "LanguageModel", "generate", "load_model"])
def test_an_editor_with_jedi_completes_and_explains(name):
    jedi = pytest.importorskip("jedi")
    project = jedi.Project(ROOT)
    assert name in {
        c.name for c in jedi.Script("import former_nb\nformer_nb.", project=project).complete()
    }
    script = jedi.Script(f"from former_nb import {name}\n{name}(", project=project)
    (signature,) = script.get_signatures()
    assert signature.params and signature.docstring(raw=True)


# ---------------------------------------------------------------- programs


RUN_ALL = """
import runpy, sys
for program in sys.argv[1:]:
    runpy.run_path(program, run_name="__main__")
"""


def test_the_programs_run(tmp_path):
    "In one Python, as much of their time goes into the import of PyTorch."
    run = [sys.executable, "-W", "error::UserWarning", "-c", RUN_ALL, *map(str, PROGRAMS)]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    "README's examples, and what `former-nb new` writes, as files beside copies of the programs."
    folder = tmp_path_factory.mktemp("programs")
    for path in [*PROGRAMS, *(ROOT / "former_nb" / "commands").glob("example*.py")]:
        (folder / path.name).write_bytes(path.read_bytes())
    for i, text in enumerate(README):
        loose = "# mypy: allow-untyped-defs, allow-untyped-calls\n"  # as beginners write
        (folder / f"readme_{i}.py").write_text(loose + text, encoding="utf-8")
    return folder


BEGIN = """import torch
import former_nb
from former_nb import LanguageModel, MultiHeadAttention, Sampling, TrainingConfig
from former_nb import TransformerConfig, attention, causal_mask, fit, generate
q = torch.randn(2, 3, 4)
layer = MultiHeadAttention(32, 4)
config = TransformerConfig(7, 8, d_model=16, n_heads=2, n_layers=1, d_ff=16)
"""


@pytest.fixture(scope="module")
def found_by_pyright(examples, tmp_path_factory):
    "What it finds in them and in a file of what is wrong: (file, line from 1, message) each."
    if find_spec("basedpyright") is None:
        pytest.skip("basedpyright isn't installed: pip install basedpyright")
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "wrong.py").write_text(BEGIN + "\n".join(WRONG), encoding="utf-8")
    known = {"extraPaths": [str(ROOT)], "pythonVersion": "3.10", "typeCheckingMode": "standard"}
    known["include"] = [str(examples), str(folder)]
    (folder / "pyrightconfig.json").write_text(json.dumps(known))
    start = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(folder)]
    start += ["--pythonpath", sys.executable]
    done = subprocess.run(start, capture_output=True, text=True, encoding="utf-8")
    found = json.loads(done.stdout)
    programs = list(examples.glob("*.py"))
    assert len(README) > 1 and len(programs) > len(README) + len(PROGRAMS)
    assert found["summary"]["filesAnalyzed"] == len(programs) + 1, done.stderr
    return [
        (Path(fault["file"]).name, fault["range"]["start"]["line"] + 1, fault["message"])
        for fault in found["generalDiagnostics"]
    ]


def test_pyright_finds_nothing_in_the_programs(found_by_pyright):
    assert [fault for fault in found_by_pyright if fault[0] != "wrong.py"] == []


@weekly
def test_mypy_strict_finds_nothing_in_the_programs(examples):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent"]
    command += ["--ignore-missing-imports", "--config-file", "", "--python-version", "3.10"]
    command += [
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "programs"),
        *map(str, examples.glob("*.py")),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_finds_what_is_wrong(found_by_pyright):
    "So the names have types: where all of them were unknown, it would find nothing at all."
    first = BEGIN.count("\n") + 1
    said = {}
    for file, line, message in found_by_pyright:
        if file == "wrong.py":
            said[line] = said.get(line, "") + message
    for line, (text, piece) in enumerate(WRONG.items(), first):
        assert re.search(piece, said.get(line, "")), (text, said.get(line))
    assert min(said) >= first
