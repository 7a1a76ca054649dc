"""`train translate`, `translate` and `bleu` on files of one's own: order, notes, streams,
refusals."""

import gzip
import json
import os
import shutil

import pytest
import torch
from cli_tools import SMALL, contents, done, former, process, refused

from former_nb.data.toy_data import number_pairs
from former_nb.models.bart import BartEncoderDecoder
from former_nb.saving.saving import load_model, save_model
from former_nb.tasks.pairs import PairData, Translate, hold_out, keep_state


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    "Files of parallel text, and a model that has hardly learned from them."
    folder = tmp_path_factory.mktemp("numbers")
    pairs = [pair for pair in number_pairs()["train"] if len(pair[0]) < 45][:120]
    (folder / "a.de").write_text("\n".join(a for a, _ in pairs) + "\n", encoding="utf-8")
    with gzip.open(folder / "a.en.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(b for _, b in pairs) + "\n")
    sizes = "--vocabulary 300 --batch-tokens 500 --eval-every 5 --steps 10 --longest 60".split()
    words = ["--src", folder / "a.de", "--tgt", folder / "a.en.gz", *sizes, *SMALL]
    return folder, words, done("train", "translate", "--out", folder / "model", *words)


@pytest.fixture(scope="module")
def fixed(numbers):
    "A model with weights made by chance, so large that no rounding decides between two words."
    model, tokenizer, _ = load_model(numbers[0] / "model")
    torch.manual_seed(2)
    model = BartEncoderDecoder(model.config, tied=False)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.4)
    save_model(numbers[0] / "fixed", model, tokenizer)
    return numbers[0] / "fixed"


def test_training_says_how_good_it_is(numbers):
    folder, _, said = numbers
    assert "120 pairs from a.de and a.en.gz: 108 to learn from, 6 to choose by" in said
    assert "averaged" in said and "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in said
    assert said.count("  → ") == 6
    found = json.loads((folder / "model" / "training.json").read_text(encoding="utf-8"))
    assert set(found["scores"]["beam"]) == {"BLEU", "BLEU, lower-cased", "chrF"}
    assert found["judged_on"].startswith("6 held-out sentences")
    card = (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert str(folder) not in card and 'src = "a.de"' in card and "signature" in card


def test_a_run_that_has_ended_gives_the_same_model_again(numbers, tmp_path):
    again = shutil.copytree(numbers[0] / "model", tmp_path / "again")
    kept = sorted(file.name for file in again.glob("last-*"))
    assert kept == ["last-000001.safetensors", "last-000002.safetensors"]
    before = contents(again)
    done("train", "translate", "--resume", again, "--device", "cpu")
    after = contents(again)
    assert all(after[name] == before[name] for name in ("model.safetensors", *kept))
    scores = [json.loads(found["training.json"])["scores"] for found in (before, after)]
    assert scores[0] == scores[1]


def test_the_last_weights_are_kept_once_each(tmp_path):
    states: list[dict] = []
    for number in (1, 2, 2, 3, 4):  # the second step is done again
        states = keep_state(tmp_path, states, {"w": torch.full((2,), float(number))}, 3)
    assert [state["w"][0].item() for state in states] == [2, 3, 4]
    data = PairData("", [], [], [], None, 1)
    Translate().resume(tmp_path, data)
    assert [state["w"][0].item() for state in data.states] == [2, 3, 4]


def test_order_notes_and_empty_lines(fixed, tmp_path):
    lines = b"zwei\n\nein\xffs\n" + b"hundert " * 30 + b"\ndrei\n"
    (tmp_path / "odd.txt").write_bytes(lines)
    command = ["translate", "--model", fixed, "--num-beams", 2]
    found = former(*command, "--file", tmp_path / "odd.txt")
    assert found.returncode == 0, found.stderr
    said = found.stdout.split("\n")
    assert len(said) == 6 and said[1] == said[2] == said[5] == ""
    assert said[0] and said[3] and said[4]
    notes = found.stderr.splitlines()
    assert len(notes) == 3 and "line 3" in notes[0] and "line 4" in notes[1]
    assert notes[2] == "Note: the context of 60 tokens ended 3 of 5 texts"  # it was never trained
    assert done(*command, "zwei", "drei").split("\n")[:2] == [said[0], said[4]]
    pipe = process(*command, stdin=lines)
    assert pipe.stdout.decode().replace(os.linesep, "\n") == found.stdout


def test_what_was_translated_is_kept(numbers, tmp_path):
    "A null byte in line 1,500 of a file: the lines of the blocks before it are out."
    text = "zwei\n" * 1499 + "dr\0ei\n" + "zwei\n" * 10
    (tmp_path / "broken.txt").write_text(text, encoding="utf-8")
    command = ["translate", "--model", numbers[0] / "model", "--num-beams", 1, "--file"]
    found = former(*command, tmp_path / "broken.txt")
    refused(found, "NUL in line 1500")
    assert found.stdout.count("\n") >= 1000


TRAIN = "train translate --out {out} "
USE = "translate --model {model} x "


@pytest.mark.parametrize(
    "words, said",
    [
        (TRAIN, ["src: "]),
        (TRAIN + "--src {a}", ["tgt: "]),
        (TRAIN + "--src {a} --tgt {b}", ["tgt: ", "2, got 3"]),
        (TRAIN + "--src {a} --tgt {missing}", ["missing"]),
        (TRAIN + "--src {a} --tgt {a}", ["src: ", "got 2"]),
        (TRAIN + "--src {a} --tgt {a} --val-src {a}", ["val_src, val_tgt: "]),
        ("translate --model {missing} x", ["model: "]),
        (USE + "--length-penalty -1", ["length_penalty: "]),
        (USE + "--file {a}", ["file: ", "both"]),
        ("generate --model {model}", ["model: ", "former-nb translate"]),
        ("classify --model {model} x", ["model: ", "former-nb translate"]),
    ],
)
def test_what_is_refused(numbers, tmp_path, words, said):
    (tmp_path / "a").write_text("eins\nzwei\n", encoding="utf-8")
    (tmp_path / "b").write_text("one\ntwo\nthree\n", encoding="utf-8")
    where = {name: tmp_path / name for name in ("a", "b", "missing", "out")}
    where["model"] = numbers[0] / "model"
    refused(former(*(word.format(**where) for word in words.split())), *said)
    assert not (tmp_path / "out").exists()


def test_a_closed_standard_input_or_a_lost_tokenizer_gets_one_sentence(numbers, tmp_path):
    refused(former("translate", "--model", numbers[0] / "model", stdin=None), "standard input")
    shutil.copytree(numbers[0] / "model", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    refused(former("translate", "--model", tmp_path / "model", "x"), "tokenizer.json")


def test_same_seed_same_translator(numbers, tmp_path):
    folder, words, _ = numbers
    done("train", "translate", "--out", tmp_path, *words)
    first = (folder / "model" / "model.safetensors").read_bytes()
    assert (tmp_path / "model.safetensors").read_bytes() == first


def test_the_same_source_stays_in_one_part():
    pairs = [(f"eins {i % 100}", f"one {i}") for i in range(450)]
    parts = hold_out(pairs, seed=3)
    assert parts == hold_out(pairs, seed=3) != hold_out(pairs, seed=4)
    sources = [{a for a, _ in part} for part in parts]
    assert sum(map(len, parts)) == 450 and [len(s) for s in sources] == [90, 5, 5]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2])
