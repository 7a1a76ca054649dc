"""Tasks of the command line on files of one's own: a long text, a table with labels; a stream, standard input, and what they refuse."""

import gzip
import io
import json
import math
import sys

import pytest
from test_cli import former, process, refused

from former_nb import classifier
from former_nb.recipes import TASKS, prepare
from former_nb.settings import choose_settings

SMALL = ["--d-model", "16", "--n-heads", "2", "--n-layers", "1", "--device", "cpu"]


@pytest.fixture(scope="module")
def rhymes(tmp_path_factory):
    file = tmp_path_factory.mktemp("long") / "rhymes.txt"
    file.write_text(
        "one, two, three, four, five: once I caught a fish alive.\n" * 300, encoding="utf-8"
    )
    out = file.parent / "model"
    result = former("train", file, "--out", out, "--steps", 30, "--length", 32, *SMALL)
    assert result.returncode == 0, result.stderr
    return file, out, result.stdout


def table(file, rows):
    file.write_text("post,mood\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    file = table(
        tmp_path_factory.mktemp("moods") / "posts.csv",
        [f'"firm {i}, profit up",good' for i in range(20)]
        + [f"firm {i} has a loss,bad" for i in range(60)]
        + [f"firm {i} as before,even" for i in range(20)],
    )
    out = file.parent / "model"
    result = former(
        "train",
        "classify",
        "--csv",
        file,
        "--text",
        "post",
        "--label",
        "mood",
        "--out",
        out,
        "--epochs",
        8,
        *SMALL,
    )
    assert result.returncode == 0, result.stderr
    return file, out, result.stdout


def test_a_long_text_of_ones_own(rhymes):
    file, out, said = rhymes
    assert (
        "rhymes.txt, 17,100 characters: 15,390 to learn from, 855 to choose by, 855 held out"
        in said
    )
    metadata = json.loads((out / "training.json").read_text(encoding="utf-8"))
    nats = metadata["held_out_nats_per_character"]
    assert (
        nats["5-gram, Kneser–Ney"] < nats["2-gram, Kneser–Ney"] < 3
        and 0 < nats["transformer"] < math.inf
        and metadata["judged_on"] == "test part"
    )
    card = (out / "README.md").read_text(encoding="utf-8")
    assert (
        "## A sample" in card
        and "former-nb train text" in card
        and "minutes: " in card
        and 'positions = "rotary"' in card
    )


def test_counters_say_where_they_read_only_the_beginning(rhymes, monkeypatch, tmp_path):
    monkeypatch.setattr("former_nb.recipes.COUNTED", 500)
    small = {"file": str(rhymes[0]), "length": 16, "d_model": 16, "n_heads": 2, "n_layers": 1}
    job = prepare("text", choose_settings(TASKS["text"], {}, small))
    nats = job.report(job.make_model().eval(), tmp_path, lambda *_: None)[
        "held_out_nats_per_character"
    ]
    assert (
        len(nats) == 5 and sum("Kneser–Ney, its first 500 characters" in name for name in nats) == 3
    )


def test_line_breaks_of_a_web_page_are_no_words_of_a_review(monkeypatch):
    reviews = {
        part: [
            (f"One {word}.<br /><br />Two {word}s.", label)
            for word, label in (("good", 1), ("bad", 0))
            for _ in range(20)
        ]
        for part in ("train", "test")
    }
    monkeypatch.setattr("former_nb.data_sets.load_reviews", lambda: (reviews, "two reviews"))
    job = prepare("imdb", choose_settings(TASKS["imdb"], {}, {"vocabulary": 300, "d_model": 16}))
    tokenizer, parts = job.save.keywords["tokenizer"], job.report.keywords["parts"]
    assert len(parts[2]) == 40 and all("<br />" in text for part in parts for text, _ in part)
    rows = [tokenizer.decode(row.tolist()) for tokens, _ in job.valid for row in tokens]
    assert all("two" in row and "br" not in row for row in rows)


def test_a_stream_is_what_is_written_without_it(rhymes):
    _, out, _ = rhymes
    how = [
        "--model",
        out,
        "--prompt",
        "one",
        "--n",
        2,
        "--seed",
        3,
        "--max-new-tokens",
        25,
        "--top-p",
        0.9,
        "--min-p",
        0.01,
        "--window",
        32,
    ]
    plain, streamed = former("generate", *how), former("generate", *how, "--stream")
    assert (
        plain.returncode == 0 and plain.stdout == streamed.stdout and plain.stdout.startswith("one")
    )


def test_a_prompt_from_standard_input(rhymes):
    _, out, _ = rhymes
    how = [
        "generate",
        "--model",
        out,
        "--n",
        1,
        "--max-new-tokens",
        3,
        "--temperature",
        0,
        "--prompt",
    ]
    result = process(*how, "-", input="two, th\n")
    assert (
        result.returncode == 0
        and result.stdout == former(*how, "two, th").stdout
        and result.stdout.startswith("two, th")
    )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--top-p", 0], ["top_p", "got 0"]),
        (["--min-p", 2], ["min_p", "got 2"]),
        (["--repetition-penalty", 0], ["repetition_penalty", "got 0"]),
        (["--stream", "--prompt", "Ω"], ["prompt", "Ω"]),
        (["--stream", "--top-k", 0], ["top_k", "got 0"]),
    ],
)
def test_generate_refuses(rhymes, options, words):
    refused(former("generate", "--model", rhymes[1], *options), *words)


def test_a_table_of_ones_own(moods):
    _, out, said = moods
    assert "labels bad, even, good" in said and "commonest label" in said and "precision" in said
    metadata = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert (
        set(metadata["by_label"]) == {"bad", "even", "good"}
        and metadata["held_out_accuracy"]["commonest label"] == 0.6
    )
    assert json.loads((out / "labels.json").read_text(encoding="utf-8")) == ["bad", "even", "good"]


def test_judging_words_a_file_and_standard_input(moods, tmp_path):
    _, out, _ = moods
    texts = ["firm 7, profit up", "firm 8 has a loss", "", "x" * 200_000]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    given, read = (
        former("classify", "--model", out, *texts),
        former("classify", "--model", out, "--file", tmp_path / "texts.txt"),
    )
    piped = process("classify", "--model", out, input="\n".join(texts) + "\n")
    assert given.returncode == 0 and given.stdout == read.stdout == piped.stdout
    lines = [line.split("\t") for line in given.stdout.splitlines()]
    assert [text for _, _, text in lines] == texts and all(0.3 < float(p) <= 1 for _, p, _ in lines)
    assert "empty text" in given.stderr and "only the first and the last 50,000" in given.stderr


@pytest.mark.parametrize(
    ("rows", "options", "words"),
    [
        (["a,good", "b,bad"], [], ["file: ", "one column 'text', got 'post', 'mood'"]),
        (
            ["a,good", "b,bad"],
            ["--text", "post", "--label", "mood"],
            ["rows: expected at least 3 different rows of label", "'bad'"],
        ),
        (
            ["a,good", "b,good", "c,good"],
            ["--text", "post", "--label", "mood"],
            ["labels: expected at least two different ones", "only 'good'"],
        ),
        (
            ["a,good", "b,"],
            ["--text", "post", "--label", "mood"],
            ["expected a label", "row 2"],
        ),
        (
            ["a,b,good"],
            ["--text", "post", "--label", "mood"],
            ["is not CSV", "Expected 2 fields in line 2, saw 3"],
        ),
        ([], ["--text", "post", "--label", "mood"], ["expected rows below the heading"]),
    ],
)
def test_a_table_that_cannot_be_learned_from(tmp_path, rows, options, words):
    result = former(
        "train",
        "classify",
        "--csv",
        table(tmp_path / "posts.csv", rows),
        *options,
        "--out",
        tmp_path / "out",
        *SMALL,
    )
    refused(result, *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("imbd", ["task: expected", "did you mean imdb?"]),
        ("posts.csv", ["task: 'posts.csv' looks like a table", "train classify --csv posts.csv"]),
        ("no.txt", ["file: ", "no.txt", "cannot be read"]),
        ("text", ["file: expected the name of a text file"]),
        ("classify", ["csv: expected the name of a CSV file"]),
    ],
)
def test_tasks_that_are_none(tmp_path, task, words):
    refused(former("train", task, "--out", tmp_path / "out"), *words)
    assert not (tmp_path / "out").exists()


def test_no_texts_to_judge(moods, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    refused(former("classify", "--model", moods[1]), "texts: expected at least one, got none")
    refused(
        former("classify", "--model", moods[1], "a", "--file", "b"),
        "file: expected texts or a file, got both",
    )


def test_models_of_the_other_kind(rhymes, moods):
    refused(
        former("classify", "--model", rhymes[1], "a text"),
        "model: ",
        "holds a model that writes; expected a classifier",
    )
    for more in ([], ["--stream"]):
        refused(
            former("generate", "--model", moods[1], *more),
            "model: ",
            "holds a classifier; expected a model that writes",
        )


def test_a_line_that_cannot_be_read_costs_itself_only(moods, tmp_path):
    lines = b"firm 7, profit up\r\nf\xff\xfem\n\nfirm 8\thas a\xe2\x80\xa8loss"
    (tmp_path / "lines.txt").write_bytes(lines)
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(lines))
    found = former("classify", "--model", moods[1], "--file", tmp_path / "lines.txt")
    packed = former("classify", "--model", moods[1], "--file", tmp_path / "lines.txt.gz")
    piped = process("classify", "--model", moods[1], stdin=(tmp_path / "lines.txt").open("rb"))
    assert found.returncode == 0 and found.stdout == packed.stdout == piped.stdout
    rows = [line.split("\t") for line in found.stdout.splitlines()]
    assert [text for *_, text in rows] == [
        "firm 7, profit up",
        "f??m",
        "",
        "firm 8 has a loss",
    ] and rows[1][:2] == ["", ""]
    assert all(label in ("bad", "even", "good") for label, *_ in (rows[0], rows[2], rows[3]))
    assert (
        "Note on text 2" in found.stderr
        and "not UTF-8" in found.stderr
        and "Note on text 3, '': empty text" in found.stderr
    )


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"\x89PNG\r\n\x00\xff", "not UTF-8 text"),
        ("hallo".encode("utf-16"), "not UTF-8 text"),
        (b"a\x00b", "the character NUL"),
        (b"", "empty file"),
    ],
)
def test_a_file_that_is_no_text(moods, tmp_path, content, word):
    (tmp_path / "odd").write_bytes(content)
    refused(former("classify", "--model", moods[1], "--file", tmp_path / "odd"), "file: ", word)


def test_a_prompt_that_is_not_utf_8(rhymes):
    refused(
        former("generate", "--model", rhymes[1], "--prompt", "on\udcff"),
        "prompt: expected UTF-8 text",
    )


@pytest.mark.parametrize(
    "setting",
    [
        "embed_dropout = 1.0",
        "word_dropout = 2",
        "pairs = -1",
        "vocabulary = 10",
        "max_tokens = 2",
    ],
)
def test_a_wrong_setting_is_named_before_anything_is_written(moods, tmp_path, setting):
    file, out, _ = moods
    (tmp_path / "s.toml").write_text(setting)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    result = former(
        "train",
        "classify",
        "--csv",
        file,
        "--text",
        "post",
        "--label",
        "mood",
        "--out",
        out,
        "--overwrite",
        "--config",
        tmp_path / "s.toml",
        *SMALL,
    )
    refused(result, setting.split()[0] + ": expected")
    assert before == {file.name: file.read_bytes() for file in out.iterdir()}


def test_what_is_published_is_json_and_names_no_folder(tmp_path, monkeypatch):
    says = classifier.predict
    monkeypatch.setattr(
        classifier, "predict", lambda *args: says(*args).assign(label="bad")
    )  # so two labels are never said
    rows = (
        [f"firm {i} is up,good" for i in range(30)]
        + [f"firm {i} is down,bad" for i in range(30)]
        + [f"firm {i} is here,rare" for i in range(3)]
        + [",good"]
    )
    words = [
        "--csv",
        table(tmp_path / "posts.csv", rows),
        "--text",
        "post",
        "--label",
        "mood",
        "--out",
        tmp_path / "out",
    ]
    result = former("train", "classify", *words, "--steps", 1, *SMALL)
    assert result.returncode == 0 and "64 texts from posts.csv, 1 of them empty" in result.stdout, (
        result.stderr
    )
    metadata = json.loads(
        (tmp_path / "out" / "training.json").read_text(encoding="utf-8"), parse_constant=pytest.fail
    )  # no NaN
    assert (
        metadata["by_label"]["good"]["precision"]
        is metadata["by_label"]["rare"]["precision"]
        is None
        and metadata["by_label"]["bad"]["precision"] > 0
    )
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert 'csv = "posts.csv"' in card and str(tmp_path) not in card


def test_an_absurd_length_is_refused_at_once():
    with pytest.raises(ValueError, match="length: expected at most 1,000 letters"):
        prepare("reverse", choose_settings(TASKS["reverse"], {}, {"length": 1_000_000}))
