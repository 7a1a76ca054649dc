"""The ladder: what a rung keeps and prints, its table, and the course's own rungs."""

import re
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn

from former_nb.ladder import staircase
from former_nb.ladder.first_hour import (
    EOS,
    PAD,
    WINDOW,
    Names,
    contexts,
    cost,
    encode,
    letters,
    test_names,
    train,
    train_names,
    valid_names,
    write,
)
from former_nb.ladder.staircase import (
    Rung,
    course_rungs,
    keep_rung,
    ladder_lines,
    plot_ladder,
    rows,
    rung,
    your_rungs,
)

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import order  # noqa: E402


@pytest.fixture
def folder(tmp_path, monkeypatch):
    "A reader's folder, outside of any test run."
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("IN_TEST", raising=False)
    monkeypatch.delenv("FORMER_NB_MINE", raising=False)
    monkeypatch.setattr(staircase, "_made", {})
    return tmp_path


def last_letter():
    torch.manual_seed(0)
    return Names(lambda x: x[:, -1])


def test_the_names_are_apart_and_each_letter_of_them_has_a_number():
    parts = [set(train_names), set(valid_names), set(test_names)]
    assert [len(part) for part in (train_names, valid_names, test_names)] == [4949, 618, 618]
    assert not parts[0] & parts[1] and not (parts[0] | parts[1]) & parts[2]
    assert all(letter in letters for name in valid_names + test_names for letter in name)


def test_contexts_and_rows_hold_the_same_targets():
    inputs, targets = contexts(["ona", "jonas"])
    assert inputs.shape == (10, WINDOW) and inputs[0, :-1].eq(PAD).all()
    read, after = rows(["ona", "jonas"])
    assert after[after >= 0].tolist() == targets.tolist()
    assert targets[3] == EOS and read[0, :4].tolist() == encode("ona")[:-1]


def test_the_cost_of_even_shares_is_the_logarithm_of_their_number():
    even = cost(lambda tokens: torch.zeros(len(tokens), 29), *contexts(["ona"]))
    assert even.item() == pytest.approx(3.3673, abs=1e-4)


def test_a_model_learns_and_writes_the_same_names_twice():
    model = last_letter()
    before = cost(model, *contexts(valid_names[:50])).item()
    train(model, *contexts(train_names[:300]), steps=60)
    assert cost(model, *contexts(valid_names[:50])).item() < before - 0.3
    state = torch.get_rng_state()
    assert write(model) == write(model) and len(write(model, n=3)) == 3
    assert state.equal(torch.get_rng_state())


def test_a_rung_is_kept_beside_the_readers_file_and_printed_beside_the_one_before(folder, capsys):
    model = last_letter().train()
    rung("00d", "pairs, learned", model, contexts)
    said = capsys.readouterr().out
    assert re.match(
        r"00d  pairs, learned: \d\.\d{3} nats per character \(pairs, counted: 2\.090\)\n", said
    )
    assert "    invents " in said and model.training
    keep_rung("02", "one head", 2.0, ["Ona", "", "Zzz"])
    assert "from the list Ona" in capsys.readouterr().out
    kept = staircase.read_ladder(folder / "ladder.csv")
    assert list(kept) == ["00d", "02"] and kept["02"].names == ["Ona", "(nothing)", "Zzz"]
    keep_rung("02", "one head", 1.9, ["Ona"])  # run again, it takes the place of the first
    staircase._made.clear()  # another session
    assert your_rungs()["02"].nats == 1.9 and len(your_rungs()) == 2
    assert any("1.900" in line for line in ladder_lines("02"))


@pytest.mark.parametrize("name, value", [("IN_TEST", "1"), ("FORMER_NB_MINE", "off")])
def test_nothing_is_written_where_nothing_of_the_readers_is_used(folder, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    keep_rung("03", "four heads", 1.8, ["Ona"])
    assert not list(folder.iterdir()) and your_rungs()["03"].nats == 1.8


def test_the_ladder_lies_beside_the_file_that_the_environment_names(folder, monkeypatch):
    (folder / "elsewhere").mkdir()
    monkeypatch.setenv("FORMER_NB_MINE", str(folder / "elsewhere" / "my file.py"))
    keep_rung("03", "four heads", 1.8, ["Ona"])
    assert (folder / "elsewhere" / "ladder.csv").exists()


@pytest.mark.parametrize(
    "text", ["rung,what\n03,heads\n", "rung,what,nats,spread,seconds,names\n03,a,b,0,0,Ona\n"]
)
def test_a_table_that_is_not_whole_is_a_clear_error_and_stays(folder, text):
    (folder / "ladder.csv").write_text(text)
    with pytest.raises(ValueError, match="ladder.csv: expected a table with the columns rung"):
        keep_rung("03", "four heads", 1.8, ["Ona"])
    assert (folder / "ladder.csv").read_text() == text


def test_what_is_no_number_is_refused(folder):
    with pytest.raises(ValueError, match="nats: expected a number"):
        keep_rung("03", "four heads", float("nan"), ["Ona"])
    with pytest.raises(ValueError, match="until: expected a lesson that has a rung"):
        plot_ladder("0")


def test_the_staircase_shows_the_course_and_the_reader(folder):
    plt = pytest.importorskip("matplotlib.pyplot")
    only = plot_ladder("02")
    assert [label.get_text()[:3] for label in only.get_yticklabels()][:3] == ["00a", "00b", "00c"]
    assert only.get_legend() is None and only.get_xlabel().startswith("nats per character")
    both = plot_ladder("03", {"03": Rung("03", "four heads", 1.5, 0.0, 0.0, ["Ona"])})
    assert [t.get_text() for t in both.get_legend().get_texts()] == ["the course's", "yours"]
    plt.close("all")


def test_each_rung_of_the_pages_has_its_row_and_falls_where_it_says_so():
    asked = set()
    for page in [order.FIRST, *order.PATH, *order.MILESTONES.values()]:
        cells = nbformat.read(ROOT / "nbs" / f"{page}.ipynb", 4).cells
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
        asked |= set(re.findall(r'\brung\("(\w+)"', code))
        asked |= set(re.findall(r'keep_rung\("(\w+)"', code))
    assert asked - {"00"} <= set(course_rungs())  # the first hour adds a letter to "00"
    nats = {key: one.nats for key, one in course_rungs().items()}
    assert nats["00a"] > nats["00b"] > nats["00c"] > nats["03"] > nats["05"]
    assert all(len(one.names) == 8 for one in course_rungs().values())


def test_the_mix_may_be_a_layer_or_a_function():
    assert isinstance(Names(nn.Identity()).mix, nn.Module)
    assert Names(lambda x: x[:, -1])(torch.zeros(2, WINDOW, dtype=torch.long)).shape == (2, 32)
