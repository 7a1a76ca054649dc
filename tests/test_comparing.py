"""`former-nb same` compares folders and models of a file, and says what is missing."""

import copy
import os

import pytest
import torch
from typer.testing import CliRunner

from former_nb.cli import app
from former_nb.commands.comparing import draw_tokens
from former_nb.models.savable import make_model
from former_nb.saving.saving import load_model, save_model

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
pytest.importorskip("transformers")


def test_the_tokens_fit_both_vocabularies_of_a_translator():
    sizes = dict(d_model=8, n_heads=2, n_layers=1, d_ff=8)
    model = make_model(90, 20, max_len=9, **sizes)
    tokens = draw_tokens([model])
    assert tokens.shape[1] == 9 and tokens.max() < 20


def former(*arguments):
    return CliRunner().invoke(app, ["same", *map(str, arguments)])


def test_two_folders_in_the_terminal(tmp_path):
    found = former("names", "names")
    assert found.exit_code == 0 and found.stdout.startswith("The same.\n"), found.output
    model, *others = load_model("names")
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.stack.blocks[1].ff.w_in.bias.add_(0.1)
    save_model(tmp_path / "wrong", wrong, *others)
    found = former("names", tmp_path / "wrong")
    assert found.exit_code == 1, found.output
    assert "The first that differs: the first product of network 2." in found.stdout
    assert "likely   a bias" in found.stdout


def test_a_folder_as_it_is_read_here_and_by_transformers(tmp_path):
    assert former("shakespeare").exit_code == 0
    missing = former(tmp_path / "nothing")
    assert missing.exit_code == 2 and "Error: model" in missing.output
    nobodys = former("numbers")
    assert nobodys.exit_code == 2 and "expected a second model" in nobodys.output


MODELS_OF_A_FILE = """
import torch
from former_nb import load_model

model = load_model("names")[0]

def made():
    return load_model("names")[0]

def wrong():
    model = made()
    with torch.no_grad():
        model.stack.blocks[1].ff.w_in.bias += 0.1
    return model

def logits(tokens):
    return model(tokens)

number = 3

def broken():
    raise RuntimeError("not today")
"""


def test_a_model_of_a_file_in_the_terminal(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MODELS_OF_A_FILE)
    for name in ("model", "made", "logits"):
        found = former("names", f"{file}:{name}")
        assert found.exit_code == 0 and found.stdout.startswith("The same.\n"), found.output
    found = former(f"{file}:made", f"{file}:wrong")
    assert found.exit_code == 1, found.output
    assert "The first that differs: the first product of network 2." in found.stdout


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("number", "expected a model, a function of tokens, or a function that gives a model"),
        ("nothing", "called nothing in mine.py"),
        ("broken", "mine.py raised RuntimeError: not today"),
    ],
)
def test_what_a_file_does_not_have_gets_a_sentence(name, said, tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(MODELS_OF_A_FILE)
    found = former("names", f"{file}:{name}")
    assert found.exit_code == 2 and "Error: other: " in found.output, found.output
    assert said in " ".join(found.output.split())


def test_a_file_that_is_missing_unreadable_or_alone_gets_a_sentence(tmp_path):
    found = former("names", tmp_path / "none.py:model")
    assert found.exit_code == 2 and "expected a file" in found.output
    (tmp_path / "half.py").write_text("def f(:")
    found = former("names", f"{tmp_path / 'half.py'}:f")
    assert found.exit_code == 2 and "Python cannot read line 1 of half.py" in found.output
    file = tmp_path / "mine.py"
    file.write_text(MODELS_OF_A_FILE)
    alone = former(f"{file}:model")
    assert alone.exit_code == 2 and "expected a second model" in alone.output
    unknown = former(f"{file}:logits", f"{file}:logits")
    assert unknown.exit_code == 2 and "no size is known" in unknown.output
