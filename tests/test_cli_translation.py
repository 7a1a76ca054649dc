"""`train translate`, `translate` and `bleu` on files of one's own: order, notes, streams, and what they refuse."""

import gzip
import json
import os
import subprocess
import sys

import pytest
import torch
from test_cli import OFFLINE, former, process, refused

from former_nb.encoder_decoder import EncoderDecoder
from former_nb.recipes import hold_out
from former_nb.toy_data import number_pairs
from former_nb.checkpoints import load_model, save_model

SMALL = ["--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    "Files of parallel text, and a model that has hardly learned from them."
    folder = tmp_path_factory.mktemp("numbers")
    pairs = [pair for pair in number_pairs()["train"] if len(pair[0]) < 45][:300]
    (folder / "a.de").write_text("\n".join(a for a, _ in pairs) + "\n", encoding="utf-8")
    with gzip.open(folder / "a.en.gz", "wt", encoding="utf-8") as file:
        file.write("\n".join(b for _, b in pairs) + "\n")
    (folder / "small.toml").write_text(
        "vocabulary = 300\nbatch_tokens = 500\neval_every = 10\n", encoding="utf-8"
    )
    words = [
        "--src",
        folder / "a.de",
        "--tgt",
        folder / "a.en.gz",
        "--config",
        folder / "small.toml",
        *SMALL,
    ]
    result = former("train", "translate", "--out", folder / "model", "--steps", 40, *words)
    assert result.returncode == 0, result.stderr
    return folder, words, result.stdout


@pytest.fixture(scope="module")
def fixed(numbers):
    "The folder of a model with the same sizes and weights made by chance, so large that no rounding decides between two words."
    model, tokenizer, _ = load_model(numbers[0] / "model")
    torch.manual_seed(2)  # of six that were tried, one whose texts are short
    model = EncoderDecoder(model.config, tied=False)
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.4)
    save_model(numbers[0] / "fixed", model, tokenizer)
    return numbers[0] / "fixed"


def test_training_says_how_good_it_is(numbers):
    folder, _, said = numbers
    assert (
        "300 pairs from a.de and a.en.gz: 270 to learn from, 15 to choose by, 15 held out" in said
    )
    assert (
        "averaged" in said
        and "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:" in said
        and said.count("  → ") == 10
    )
    metadata = json.loads((folder / "model" / "training.json").read_text(encoding="utf-8"))
    assert set(metadata["scores"]["beam"]) == {"BLEU", "BLEU, lower-cased", "chrF"} and metadata[
        "judged_on"
    ].startswith("15 held-out sentences")
    card = (folder / "model" / "README.md").read_text(encoding="utf-8")
    assert str(folder) not in card and 'src = "a.de"' in card and "signature" in card


def test_order_notes_and_empty_lines(numbers, fixed):
    folder, _, _ = numbers
    lines = b"zwei\n\nein\xffs\n" + b"hundert " * 200 + b"\ndrei\n"
    (folder / "odd.txt").write_bytes(lines)
    found = former("translate", "--model", fixed, "--file", folder / "odd.txt", "--num-beams", 2)
    assert found.returncode == 0, found.stderr
    said = found.stdout.split("\n")
    assert (
        len(said) == 6 and said[1] == said[2] == said[5] == "" and said[0] and said[3] and said[4]
    )
    assert (
        "Note on line 3" in found.stderr
        and "Note on line 4" in found.stderr
        and "pieces" in found.stderr
    )
    single = former("translate", "--model", fixed, "zwei", "drei", "--num-beams", 2)
    assert single.stdout.split("\n")[:2] == [said[0], said[4]]
    command = [
        sys.executable,
        "-m",
        "former_nb.cli",
        "translate",
        "--model",
        str(fixed),
        "--num-beams",
        "2",
    ]
    pipe = subprocess.run(command, input=lines, capture_output=True, env=OFFLINE, timeout=300)
    assert pipe.stdout.decode().replace(os.linesep, "\n") == found.stdout


def test_n_best_have_numbers_and_scores(numbers):
    folder, _, _ = numbers
    rows = [
        line.split("\t")
        for line in former(
            "translate", "--model", folder / "model", "zwei", "drei", "--num-return-sequences", 3
        ).stdout.splitlines()
    ]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3 and float(rows[0][1]) >= float(
        rows[1][1]
    ) >= float(rows[2][1])


def test_what_was_translated_is_kept(numbers):
    "A null byte in line 1,500 of a file: the lines of the blocks before it are out."
    folder, _, _ = numbers
    (folder / "broken.txt").write_text(
        "zwei\n" * 1499 + "dr\0ei\n" + "zwei\n" * 10, encoding="utf-8"
    )
    found = former(
        "translate", "--model", folder / "model", "--file", folder / "broken.txt", "--num-beams", 1
    )
    assert (
        found.returncode == 2
        and "line 1500 of" in found.stderr
        and found.stdout.count("\n") >= 1000
    )


def test_the_score_is_sacrebleus(numbers, tmp_path):
    for name, lines in {
        "ref": ["a dog runs in the snow .", "two men"],
        "hyp": ["a dog runs in snow .", "two men"],
        "other": ["the cat", "no men"],
    }.items():
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = former(
        "bleu", "--ref", tmp_path / "ref", "--hyp", tmp_path / "hyp", "--than", tmp_path / "other"
    )
    assert found.returncode == 0, found.stderr
    import sacrebleu

    right = sacrebleu.corpus_bleu(
        ["a dog runs in snow .", "two men"], [["a dog runs in the snow .", "two men"]]
    )
    assert (
        found.stdout.startswith(f"{right.score:.2f}\tBLEU\tnrefs:1|case:mixed")
        and "BLEU against" in found.stdout
    )
    piped = process("bleu", "--ref", tmp_path / "ref", input="a dog runs in snow .\ntwo men\n")
    assert piped.stdout == "".join(found.stdout.splitlines(True)[:3])


@pytest.mark.parametrize(
    "words, said",
    [
        (
            ["bleu", "--ref", "{a}", "--hyp", "{b}"],
            ["hyp: expected as many lines as in", "2, got 3"],
        ),
        (["bleu", "--ref", "{missing}", "--hyp", "{b}"], ["cannot be read"]),
        (["train", "translate", "--out", "{out}"], ["src: expected the name of a file"]),
        (
            ["train", "translate", "--out", "{out}", "--src", "{a}"],
            ["tgt: expected the name of a file"],
        ),
        (
            ["train", "translate", "--out", "{out}", "--src", "{a}", "--tgt", "{b}"],
            ["tgt: expected as many lines as in", "2, got 3"],
        ),
        (
            ["train", "translate", "--out", "{out}", "--src", "{a}", "--tgt", "{missing}"],
            ["missing"],
        ),
        (
            ["train", "translate", "--out", "{out}", "--src", "{a}", "--tgt", "{a}"],
            ["src: expected at least three different sentences, got 2"],
        ),
        (
            [
                "train",
                "translate",
                "--out",
                "{out}",
                "--src",
                "{a}",
                "--tgt",
                "{a}",
                "--val-src",
                "{a}",
            ],
            ["val_src, val_tgt: expected both or neither"],
        ),
        (["translate", "--model", "{missing}", "x"], ["model: there is no folder"]),
        (
            [
                "translate",
                "--model",
                "{model}",
                "x",
                "--num-beams",
                "2",
                "--num-return-sequences",
                "3",
            ],
            ["num_return_sequences: expected at most num_beams = 2, got 3"],
        ),
        (
            ["translate", "--model", "{model}", "x", "--length-penalty", "-1"],
            ["length_penalty: expected a number of 0 or more"],
        ),
        (
            ["translate", "--model", "{model}", "x", "--file", "{a}"],
            ["file: expected texts or a file, got both"],
        ),
        (
            ["generate", "--model", "{model}"],
            ["holds a translator; expected a model that writes, or use: former-nb translate"],
        ),
        (
            ["classify", "--model", "{model}", "x"],
            ["holds a translator; expected a classifier, or use: former-nb translate"],
        ),
    ],
)
def test_what_is_refused(numbers, tmp_path, words, said):
    (tmp_path / "a").write_text("eins\nzwei\n", encoding="utf-8")
    (tmp_path / "b").write_text("one\ntwo\nthree\n", encoding="utf-8")
    where = dict(
        a=tmp_path / "a",
        b=tmp_path / "b",
        missing=tmp_path / "missing",
        out=tmp_path / "out",
        model=numbers[0] / "model",
    )
    refused(former(*(word.format(**where) for word in words)), *said)
    assert not (tmp_path / "out").exists()


def test_a_model_without_its_tokenizer(numbers, tmp_path):
    import shutil

    shutil.copytree(numbers[0] / "model", tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").unlink()
    refused(former("translate", "--model", tmp_path / "model", "x"), "tokenizer.json")


def test_same_seed_same_translator(numbers, tmp_path):
    folder, words, _ = numbers
    assert (
        former("train", "translate", "--out", tmp_path / "again", "--steps", 40, *words).returncode
        == 0
    )
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        folder / "model" / "model.safetensors"
    ).read_bytes()


def test_the_same_source_stays_in_one_part():
    pairs = [(f"eins {i % 100}", f"one {i}") for i in range(450)]
    parts = hold_out(pairs, seed=3)
    assert sum(map(len, parts)) == 450 and parts == hold_out(pairs, seed=3) != hold_out(
        pairs, seed=4
    )
    sources = [{a for a, _ in part} for part in parts]
    assert not (sources[0] & sources[1] or sources[0] & sources[2] or sources[1] & sources[2]) and [
        len(s) for s in sources
    ] == [90, 5, 5]
