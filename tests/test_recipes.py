"""Tasks on files of one's own, a long text and a table with labels: what is said, and refused."""

import gzip
import json
import math
import random

import pytest
from cli_tools import SMALL, contents, done, former, no_option, refused

from former_nb.decoding import classification
from former_nb.tasks import TASKS
from former_nb.tasks.base import choose
from former_nb.tasks.names import Names

COLUMNS = ["--text", "post", "--label", "mood"]


@pytest.fixture(scope="module")
def rhymes(tmp_path_factory):
    file = tmp_path_factory.mktemp("long") / "rhymes.txt"
    rhyme = "one, two, three, four, five: once I caught a fish alive.\n"
    file.write_text(rhyme * 100, encoding="utf-8")
    learn = ["train", "text", "--file", file, "--out", file.parent / "model", "--steps", 15]
    return file, file.parent / "model", done(*learn, "--length", 32, *SMALL)


def table(file, rows):
    file.write_text("post,mood\n" + "\n".join(rows) + "\n", encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    rows = [f'"firm {i}, profit up",good' for i in range(20)]
    rows += [f"firm {i} has a loss,bad" for i in range(60)]
    rows += [f"firm {i} as before,even" for i in range(20)]
    file = table(tmp_path_factory.mktemp("moods") / "posts.csv", rows)
    learn = ["train", "classify", "--csv", file, *COLUMNS, "--out", file.parent / "model"]
    return file, file.parent / "model", done(*learn, "--epochs", 2, *SMALL)


def test_a_long_text_of_ones_own(rhymes):
    _, out, said = rhymes
    assert "rhymes.txt, 5,700 characters: 5,130 to learn from, 285 to choose by, 285 held" in said
    found = json.loads((out / "training.json").read_text(encoding="utf-8"))
    nats = found["held_out_nats_per_character"]
    assert nats["5-gram, Kneser–Ney"] < nats["2-gram, Kneser–Ney"] < 3
    assert 0 < nats["transformer"] < math.inf and found["judged_on"] == "test part"
    card = (out / "README.md").read_text(encoding="utf-8")
    for words in ("## A sample", "former-nb train text", "minutes: ", 'positions = "rotary"'):
        assert words in card


def test_counters_say_where_they_read_only_the_beginning(rhymes, monkeypatch, tmp_path):
    monkeypatch.setattr("former_nb.tasks.long_text.COUNTED", 200)
    small = {"file": str(rhymes[0]), "length": 16, "d_model": 16, "n_heads": 2, "n_layers": 1}
    task = choose(TASKS["text"], "text", small)
    data = task.load_data()
    found = task.report(task.make_model(data).eval(), data, tmp_path, lambda *_: None)
    nats = found["held_out_nats_per_character"]
    assert len(nats) == 5 and sum("its first 200 characters" in name for name in nats) == 3


def test_line_breaks_of_a_web_page_are_no_words_of_a_review(monkeypatch):
    line = "One {0}.<br /><br />Two {0}s."
    rows = [(line.format(word), label) for word, label in (("good", 1), ("bad", 0))] * 20
    reviews = dict(train=sorted(rows), test=sorted(rows))
    monkeypatch.setattr("former_nb.data.data_sets.load_reviews", lambda: (reviews, "two reviews"))
    data = choose(TASKS["imdb"], "imdb", {"vocabulary": 300, "d_model": 16}).load_data()
    parts = data.parts
    assert len(parts[2]) == 40 and all("<br />" in text for part in parts for text, _ in part)
    read = [data.tokenizer.decode(row.tolist()) for tokens, _ in data.valid for row in tokens]
    assert read and all("two" in text and "br" not in text for text in read)


def words_of(seed):
    "Ninety words of one length."
    draw = random.Random(seed)
    return ["".join(draw.choices("abcdefgh", k=6)) for _ in range(90)]


MOODS = [
    "post,mood",
    *(f"{word},{'good' if i % 2 else 'bad'}" for i, word in enumerate(words_of(0))),
]
FILES = {  # what trains on which lines, and two of them that are not in the first batch
    "names": (words_of(0), ["--batch-size", 4, "--file"], (10, 50)),
    "text": (words_of(0), ["--batch-size", 4, "--length", 8, "--file"], (9, 29)),
    "classify": (MOODS, ["--batch-size", 4, *COLUMNS, "--csv"], (7, 37)),
    "translate": (words_of(1), ["--batch-tokens", 60, "--src", "SRC", "--tgt"], (10, 50)),
}


@pytest.mark.parametrize("task", FILES)
def test_a_run_does_not_go_on_with_a_file_in_which_two_lines_were_exchanged(task, tmp_path):
    file, src, out = tmp_path / "data", tmp_path / "src", tmp_path / "out"
    lines, options, (a, b) = FILES[task]
    src.write_text("\n".join(words_of(0)), encoding="utf-8")
    file.write_text("\n".join(lines), encoding="utf-8")
    options = [src if option == "SRC" else option for option in options]
    done("train", task, *options, file, "--out", out, "--steps", 1, *SMALL)
    before = contents(out)
    assert "Going on" in done("train", task, "--resume", out)
    lines = list(lines)
    lines[a], lines[b] = lines[b], lines[a]
    file.write_text("\n".join(lines), encoding="utf-8")
    result = former("train", task, "--resume", out)
    refused(result, "another run: rows of train=")
    assert "first batch" not in result.stderr and contents(out) == before


def test_a_stream_is_what_is_written_without_it(rhymes):
    how = "one --n 2 --seed 3 --max-new-tokens 25 --top-p 0.9 --min-p 0.01 --window 32"
    plain = done("generate", "--model", rhymes[1], *how.split())
    assert plain == done("generate", "--model", rhymes[1], *how.split(), "--stream")
    assert plain.startswith("one")


def test_a_prompt_from_standard_input(rhymes):
    write = ["generate", "--model", rhymes[1], "--n", 1, "--max-new-tokens", 3, "--seed", 0]
    found = done(*write, "-", stdin=b"two, th\n")
    assert found == done(*write, "two, th") and found.startswith("two, th")


def test_a_closed_standard_input_gets_one_sentence(rhymes, moods):
    commands = [["generate", "--model", rhymes[1], "-"]]
    commands += [["classify", "--model", moods[1]]]
    for words in commands:
        refused(former(*words, stdin=None), "standard input")


def test_a_table_of_ones_own(moods):
    _, out, said = moods
    for words in ("labels bad, even, good", "commonest label", "precision"):
        assert words in said
    found = json.loads((out / "training.json").read_text(encoding="utf-8"))
    assert set(found["by_label"]) == {"bad", "even", "good"}
    assert found["held_out_accuracy"]["commonest label"] == 0.6
    assert json.loads((out / "labels.json").read_text(encoding="utf-8")) == ["bad", "even", "good"]


def classified(found):
    return [line.split("\t") for line in found.splitlines()]


def test_classifying_words_a_file_and_standard_input(moods, tmp_path):
    texts = ["firm 7, profit up", "firm 8 has a loss", "", "x" * 200_000]
    lines, classify = "\n".join(texts) + "\n", ["classify", "--model", moods[1]]
    (tmp_path / "texts.txt").write_text(lines, encoding="utf-8")
    given = former(*classify, *texts)
    assert given.stdout == done(*classify, "--file", tmp_path / "texts.txt")
    assert given.stdout == done(*classify, stdin=lines.encode())
    rows = classified(given.stdout)
    assert [text for _, _, text in rows] == texts
    assert all(0.3 < float(p) <= 1 for _, p, _ in rows)
    assert "Note on text 3" in given.stderr


@pytest.mark.parametrize(
    "rows, options, words",
    [
        (["a,good", "b,bad"], [], ["'text'", "'post', 'mood'"]),
        (["a,good", "b,bad"], COLUMNS, ["rows: ", "'bad'"]),
        (["a,good", "b,good", "c,good"], COLUMNS, ["labels: ", "['good']"]),
        (["a,good", "b,"], COLUMNS, ["'mood'", "row 2"]),
        (["a,b,good"], COLUMNS, ["file: ", "line 2"]),
        ([], COLUMNS, ["file: "]),
    ],
)
def test_a_table_that_cannot_be_learned_from(tmp_path, rows, options, words):
    learn = ["train", "classify", "--csv", table(tmp_path / "posts.csv", rows), *options]
    refused(former(*learn, "--out", tmp_path / "out", *SMALL), *words)
    assert not (tmp_path / "out").exists()


def test_tasks_that_are_none_or_lack_their_file(tmp_path):
    out = ["--out", tmp_path / "out"]
    no_option(former("train", "posts.csv", *out), "posts.csv")
    refused(former("train", "text", *out), "file: ")
    refused(former("train", "text", "--file", tmp_path / "none", *out), "file: ", "none")
    refused(former("train", "classify", *out), "csv: ")
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_classified_or_written(rhymes, moods):
    refused(former("classify", "--model", moods[1]), "texts: ")
    refused(former("classify", "--model", moods[1], "a", "--file", "b"), "file: ", "both")
    refused(former("classify", "--model", rhymes[1], "a text"), "model: ", "generate")
    refused(former("generate", "--model", moods[1], "--stream"), "model: ", "classify")


def test_a_line_that_cannot_be_read_costs_itself_only(moods, tmp_path):
    lines = b"firm 7, profit up\r\nf\xff\xfem\n\nfirm 8\thas a\xe2\x80\xa8loss\nso\xc2\x85far\n"
    (tmp_path / "lines.txt").write_bytes(lines)
    (tmp_path / "lines.txt.gz").write_bytes(gzip.compress(lines))
    classify = ["classify", "--model", moods[1]]
    found = former(*classify, "--file", tmp_path / "lines.txt")
    assert found.stdout == done(*classify, "--file", tmp_path / "lines.txt.gz")
    rows = classified(found.stdout)
    wanted = ["firm 7, profit up", "f??m", "", "firm 8 has a loss", "so far"]
    assert [text for *_, text in rows] == wanted and rows[1][:2] == ["", ""]
    assert all(rows[i][0] in ("bad", "even", "good") for i in (0, 2, 3, 4))
    notes = [line for line in found.stderr.splitlines() if line.startswith("Note on")]
    assert len(notes) == 2 and "Note on text 2" in notes[0] and "Note on text 3" in notes[1]


@pytest.mark.parametrize(
    "name, content, word",
    [
        ("odd", b"\x89PNG\x00\r\n\xff", "NUL"),
        ("odd", "hallo".encode("utf-16"), "UTF-16"),
        ("odd", b"", "texts: "),
        ("odd.gz", gzip.compress(b"some text " * 99, mtime=0)[:20], "file: "),
        ("odd.gz", gzip.compress(b"some text", mtime=0)[:10] + b"\xff" * 30, "file: "),
    ],
)
def test_a_file_that_is_no_text(moods, tmp_path, name, content, word):
    (tmp_path / name).write_bytes(content)
    refused(former("classify", "--model", moods[1], "--file", tmp_path / name), word)


def test_a_wrong_setting_leaves_the_model_that_is_there(moods):
    file, out, _ = moods
    before = contents(out)
    learn = ["train", "classify", "--csv", file, *COLUMNS, "--out", out, "--overwrite", *SMALL]
    refused(former(*learn, "--embed-dropout", 1), "embed_dropout")
    refused(former(*learn, "--vocabulary", 10), "vocabulary")
    assert contents(out) == before


def test_what_is_published_is_json_and_names_no_folder(tmp_path, monkeypatch):
    says = classification.predict  # so that two labels are never said
    monkeypatch.setattr(classification, "predict", lambda *args: says(*args).assign(label="bad"))
    rows = [f"firm {i} is {way}" for i in range(30) for way in ("up,good", "down,bad")]
    rows += [*(f"firm {i} is here,rare" for i in range(3)), ",good"]
    file, out = table(tmp_path / "posts.csv", rows), tmp_path / "out"
    learn = ["train", "classify", "--csv", file, *COLUMNS, "--out", out, "--steps", 1, *SMALL]
    assert "64 texts from posts.csv, 1 of them empty" in done(*learn)
    text = (out / "training.json").read_text(encoding="utf-8")
    found = json.loads(text, parse_constant=pytest.fail)["by_label"]  # no NaN
    assert found["good"]["precision"] is found["rare"]["precision"] is None
    assert found["bad"]["precision"] > 0
    card = (out / "README.md").read_text(encoding="utf-8")
    assert 'csv = "posts.csv"' in card and str(tmp_path) not in card


def test_spellings_of_one_name_stay_in_one_part(tmp_path):
    names = [f"{a}{b}a" for a in "bdgklm" for b in "aeiou"]
    file = tmp_path / "names.txt"
    file.write_text("\n".join([*names, *(n.capitalize() for n in names)]), encoding="utf-8")
    parts, _ = Names(file=str(file)).read_parts()
    lower = [{name.lower() for name in part} for part in parts]
    assert sum(map(len, parts)) == 60 and sum(map(len, lower)) == 30
