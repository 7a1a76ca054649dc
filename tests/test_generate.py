"""`former-nb generate` writes new names only, without end where that is asked for."""

import json
import signal
from itertools import islice

import pytest
from cli_tools import CPU, LIST, POSIX, SIZES, begun, contents, done, former, refused

from former_nb.commands import generate
from former_nb.data.data_sets import load_names
from former_nb.decoding import caches
from former_nb.decoding.sampling import Sampling
from former_nb.saving.saving import load_model


@pytest.mark.parametrize(
    "options, word",
    [
        (["ж"], "ж"),
        ([""], "prompt"),
        (["a" * 500], "prompt"),
        (["--top-p", "0"], "top_p"),
    ],
)
def test_generate_refuses(names_model, options, word):
    for stream in ([], ["--stream"]):
        refused(former("generate", "--model", names_model, *options, *stream), word)


def test_new_names_and_none_twice():
    write = ["generate", "Jo", "--seed", 0, *CPU]
    result, everything = former(*write, "--n", 60), done(*write, "--n", 400, "--all").splitlines()
    names, known = result.stdout.splitlines(), {name.lower() for name in load_names()[0]}
    assert len(set(names)) == 60 and not known & {name.lower() for name in names}
    fresh = [name for name in dict.fromkeys(everything) if name.lower() not in known]
    assert names == fresh[:60] and len(fresh) < len(set(everything)) < len(everything) == 400
    assert "in the list of names" in result.stderr and "--all" in result.stderr
    assert "repeated" in result.stderr and result.stderr.count("\n") == 1
    assert former(*write, "--n", 60, "--all").stderr == ""


def test_what_a_model_has_learned_is_asked_of_its_run(own_run, tmp_path):
    tokenizer = load_model(own_run).tokenizer
    assert generate.known_names(own_run, tokenizer) == set(LIST)
    assert generate.known_names(tmp_path, tokenizer) == set()  # nobody knows
    done("train", "copy", *SIZES, "--steps", 2, "--out", tmp_path / "toy")
    assert generate.known_names(tmp_path / "toy", tokenizer) == set()  # an answer may be known


def test_a_list_that_is_gone_is_mentioned(own_run, tmp_path):
    lost = tmp_path / "lost"
    lost.mkdir()
    for name, content in contents(own_run).items():
        (lost / name).write_bytes(content)
    found = json.loads((own_run / "run.json").read_text(encoding="utf-8"))
    found["settings"]["file"] = str(tmp_path / "gone")
    (lost / "run.json").write_text(json.dumps(found), encoding="utf-8")
    result = former("generate", "--model", lost, "--n", 3, "--seed", 0)
    assert result.returncode == 0 and len(set(result.stdout.splitlines())) == 3
    assert "Note: " in result.stderr and "gone" in result.stderr


def test_where_nothing_new_is_left_it_ends(own_run):
    write = ["generate", "--model", own_run, "--n", 5]
    result = former(*write, "--temperature", 0)
    assert result.returncode == 0 and result.stdout.count("\n") == 1
    assert "only 1 of 5" in result.stderr and "--all" in result.stderr
    assert len(done(*write, "--temperature", 0, "--all").splitlines()) == 5
    few = former(*write, "--max-new-tokens", 0, "jo")  # the prompt, and nothing more
    assert few.returncode == 0 and few.stdout == "Jo\n" and "100 repeated" in few.stderr


def test_many_texts_are_drawn_a_few_at_a_time(own_run, monkeypatch):
    trained, tokenizer, _ = load_model(own_run)
    sizes, draw = [], caches.write_texts

    def counted(model, texts, *words, **how):
        sizes.append(len(texts))
        return draw(model, texts, *words, **how)

    monkeypatch.setattr(caches, "write_texts", counted)
    sampling = Sampling(seed=3)
    drawn = list(islice(generate.draw_texts(10**30, trained, tokenizer, "", 4, sampling), 6000))
    assert sizes[:3] == [16, 64, 256] and max(sizes) * 4 <= generate.TOKENS and len(sizes) < 10
    for i in (0, 20, 5000):  # each as if it were drawn alone
        how = Sampling(seed=3 + i)
        text, _ = draw(trained, "", 4, how, tokenizer=tokenizer)
        assert text.capitalize() == drawn[i].text
    wide = generate.draw_texts(10**30, trained, tokenizer, "", 10**6, sampling)
    next(wide)
    assert sizes[-1] == 1


@POSIX
def test_without_end_until_someone_has_read_enough_or_stops_it(own_run):
    process = begun("generate", "--model", own_run, "--n", 10**30, "--all")
    assert all(process.stdout.readline() for _ in range(100))
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(timeout=60) == 0
    process = begun("generate", "--model", own_run, "--n", 10**30, "--stream")
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said == b"Stopped.\n"
