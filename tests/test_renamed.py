"""Names that are gone: each says what to write today, and what it says runs."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from refusals import refuses

import former_nb
from former_nb.data.tokenization import CharTokenizer
from former_nb.decoding import greedy
from former_nb.decoding.caches import KVCache
from former_nb.lazy import Module
from former_nb.models.config import SIZES
from former_nb.renamed import MODULES, NAMES, PAGES, instead


def run(code):
    exec(code, {})


@pytest.mark.parametrize("old", MODULES)
def test_an_old_module_says_where_it_is_today(old):
    new = f"former_nb.{MODULES[old]}"
    assert find_spec(new), new
    refuses(lambda: run(f"import former_nb.{old}"), ModuleNotFoundError, f"former_nb.{old}", new)
    with pytest.raises(ModuleNotFoundError, match=re.escape(new)):
        run(f"from former_nb.{old} import anything")


@pytest.mark.parametrize("old", NAMES)
def test_an_old_name_says_what_to_write_today(old):
    module, _, name = f"former_nb.{old}".rpartition(".")
    assert not hasattr(import_module(module), name), f"{old} is there again"
    refuses(lambda: run(f"from {module} import {name}"), ImportError, name, NAMES[old])
    refuses(lambda: getattr(import_module(module), name), AttributeError, name, NAMES[old])


@pytest.mark.parametrize("old", PAGES)
def test_what_only_a_page_has_today_names_the_page(old):
    assert (Path(__file__).parents[1] / f"nbs/{PAGES[old]}.ipynb").exists()
    module, _, name = f"former_nb.{old}".rpartition(".")
    with pytest.raises(ImportError, match=PAGES[old]):
        run(f"from {module} import {name}")


def some_variables(old):
    "What is there where somebody writes: a model that fits the name, and what goes with it."
    config = former_nb.TransformerConfig(6, 16, d_model=16, n_heads=4, n_layers=2, d_ff=24)
    model, tokenizer = former_nb.LanguageModel.from_config(config), CharTokenizer("Jo")
    if old.startswith("inspection.recording"):
        model, tokenizer, _ = former_nb.load_model("numbers")
    texts = dict(rows=[[5, 4], [5]], tokens=torch.tensor([[5, 4]]), pick=greedy)
    texts |= dict(sampling=former_nb.Sampling(seed=0), max_new_tokens=3, cache=KVCache(2), T=2)
    sizes = {name: getattr(config, name) for name in SIZES} | dict(n_kv_heads=2, d_k=4)
    there = dict(model=model, tokenizer=tokenizer, config=config, loss=1.0, **sizes, **texts)
    return there | dict(memory=torch.zeros(1, 3, model.config.d_model))


@pytest.mark.parametrize("old", [old for old, lines in NAMES.items() if lines])
@pytest.mark.filterwarnings("ignore:the context")
def test_what_it_says_to_write_runs(old):
    exec(NAMES[old], some_variables(old))


WHEREVER = [  # in a new Python: what may be asked for first
    "from former_nb import generate_text",
    "from former_nb import masks",
    "from former_nb.decoding.caches import generate_rows",
    "from former_nb.decoding import generate_rows",
    "import former_nb.attention.grouped_query",
    "from former_nb.attention.grouped_query import GroupedQueryAttention",
    "import former_nb; former_nb.generate_text",
    "import former_nb.decoding.caches as caches; caches.generate_rows",
]


def test_it_is_said_whatever_was_imported_before():
    lines = "".join(f"    {line!r},\n" for line in WHEREVER)
    code = f"""
for line in [
{lines}]:
    try:
        exec(line, {{}})
    except (ImportError, AttributeError) as error:
        assert "expected" in str(error) and "; write " in str(error), error
    else:
        raise AssertionError(line)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_names_are_missing_as_in_any_package():
    with pytest.raises(AttributeError, match="module 'former_nb' has no attribute 'nothing'"):
        run("import former_nb; former_nb.nothing")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        run("from former_nb.decoding.caches import nothing")
    with pytest.raises(ModuleNotFoundError, match="No module named 'former_nb.nothing'"):
        run("import former_nb.nothing")
    assert instead("former_nb.nothing") is None and find_spec("former_nb.nothing") is None
    assert type(former_nb.decoding.caches) is Module
    assert type(former_nb.attention.masks) is not Module  # it never had another name


def test_a_module_with_the_name_of_its_function_is_the_function_too():
    "Whatever was imported first, and again: the import of a module puts it in the package."
    code = """
from former_nb.inspection import describe
from former_nb.inspection import describe
import former_nb.models.modern_decoder
from former_nb.models import modern_decoder
assert callable(describe) and callable(modern_decoder)
assert "batch" in str(__import__("inspect").signature(describe))
"""
    subprocess.run([sys.executable, "-c", code], check=True)
