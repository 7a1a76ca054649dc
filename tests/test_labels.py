"""Tables of texts with labels: their parts, the names of classes, and the command to try."""

import shlex
from pathlib import Path

import pytest
from cli_tools import write_tables

from former_nb.tasks.labels import Classify, class_names, try_classify


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return write_tables(tmp_path_factory.mktemp("tables"))


@pytest.mark.parametrize(
    "given, sizes",
    [
        ({}, [96, 12, 12]),
        ({"test": "test"}, [108, 12, 45]),
        ({"valid": "valid"}, [120, 30]),
        ({"valid": "valid", "test": "test"}, [120, 30, 45]),
    ],
)
def test_a_table_is_cut_for_what_no_file_brings(tables, given, sizes):
    task = Classify(csv=tables["train"], **{name: tables[file] for name, file in given.items()})
    parts, source = task.read_parts()
    assert [len(part) for part in parts] == sizes
    assert all(f"{name}.csv" in source for name in given)
    assert len({row for part in parts for row in part}) == sum(sizes)
    if "test" in given:
        assert [text[:6] for text, _ in parts[-1][:2]] == ["2 firm", "2 firm"]


def test_texts_that_were_learned_from_are_counted(tables, tmp_path):
    lines = Path(tables["train"]).read_text().splitlines()
    again = [lines[1].replace("firm", "FIRM "), *lines[2:4], "new,1"]
    file = tmp_path / "test.csv"
    file.write_text("\n".join([lines[0], *again]))
    _, source = Classify(csv=tables["train"], test=str(file)).read_parts()
    assert source.endswith("those held out from test.csv, 3 of them also in the training data")


def test_a_name_may_hold_spaces_and_signs():
    assert class_names(" 0 = very bad ,1=so=so") == {"0": "very bad", "1": "so=so"}


@pytest.mark.parametrize(
    "text",
    [
        "Profit warning hits $TSLA",
        '"a" `b` it\'s \\c !d',
        "-5 % today",
        "--help",
        "a\tb\nc",
        "x" * 500,
        "",
    ],
)
def test_the_command_to_try_means_what_it_says_in_a_shell(text):
    words = shlex.split(try_classify(Path("my runs", "a"), text))
    assert words[:4] == ["former-nb", "classify", "--model", "my runs/a"]
    assert words[4:-1] == (["--"] if text.startswith("-") else [])
    assert words[-1] == " ".join(text.split())[:80]
