"""`classify` and `translate` answer line by line, and a note lets nothing through."""

import pytest
from cli_tools import CPU, ODD, TINY, done, former


def test_a_classifier_that_was_hardly_judged_says_so(own_files, tmp_path):
    out = tmp_path / "model"
    said = done("train", "classify", "--csv", own_files["classify"]["csv"], "--out", out, *TINY)
    result = former("classify", "--model", out, "firm 3")
    for text in (said, result.stderr):
        assert "Note: this classifier was judged on 4 texts" in text
    assert result.stdout.endswith("\tfirm 3\n")


@pytest.mark.parametrize("n", [1, 3, 30])
def test_what_was_read_before_an_error_is_answered(letters_classifier, tmp_path, n):
    file = tmp_path / "broken.txt"
    file.write_text("eins\n" * n + "zw\0ei\n", encoding="utf-8")
    for words in (["translate", "--num-beams", 1], ["classify", "--model", letters_classifier]):
        result = former(*words, "--file", file, *CPU)
        assert result.returncode == 2 and f"line {n + 1}" in result.stderr
        assert result.stdout.count("\n") == n


@pytest.mark.parametrize("command", ["classify", "translate"])
def test_no_note_lets_control_characters_through(letters_classifier, command):
    words = ["--model", letters_classifier] if command == "classify" else ["--num-beams", 1]
    result = former(command, *words, *CPU, stdin=f"{ODD}\n".encode())
    assert result.returncode == 0 and "\\x1b" in result.stderr and "\\u202e" in result.stderr
    assert result.stderr.isascii() and result.stderr.replace("\n", "").isprintable()
    if command == "classify":
        assert ODD in result.stdout  # a pipe gets what was read
