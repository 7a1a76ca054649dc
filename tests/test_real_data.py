"""The real data sets, where FORMER_NB_DATA names a folder that holds them; skipped elsewhere."""

import os
from pathlib import Path

import pytest

from former_nb.data_sets import load_names, load_reviews, load_shakespeare, load_translations

REAL = Path(os.environ.get("FORMER_NB_DATA") or "none")
PARTS = ["train", "val", "test_2016_flickr"]
READ = "read from FORMER_NB_DATA"


def real(*paths):
    "Skip a test where one of these files is not there."
    missing = [path for path in paths if not (REAL / path).is_file()]
    skip = pytest.mark.skipif(bool(missing), reason=f"FORMER_NB_DATA has no {missing}")
    return lambda test: pytest.mark.real_data(skip(test))


@real("names/vardai.csv")
def test_names():
    names, said = load_names()
    assert len(names) == len(set(names)) == 6185 and said == f"6,185 Lithuanian names, {READ}"


@real("tinyshakespeare/input.txt")
def test_plays():
    text, said = load_shakespeare()
    assert len(text) == 1_115_394 and "1,115,394" in said and READ in said
    assert text.startswith("First Citizen:\nBefore we proceed")


@real("imdb/train.parquet", "imdb/test.parquet")
def test_reviews():
    pytest.importorskip("pyarrow")
    parts, said = load_reviews()
    for rows in parts.values():
        assert len(rows) == 25_000 and [y for _, y in rows] == [0] * 12_500 + [1] * 12_500
        assert all(type(text) is str and type(y) is int for text, y in rows)
    assert "25,000 and 25,000" in said and READ in said
    assert parts["train"][0][0].startswith("Story of a man who has unnatural feelings")


@real(*(f"multi30k/{part}.{language}.gz" for part in PARTS for language in ("de", "en")))
def test_captions():
    parts, said = load_translations()
    sizes = {part: len(rows) for part, rows in parts.items()}
    assert sizes == {"train": 29_000, "valid": 1014, "test": 1000}
    assert "29,000" in said and READ in said
    assert parts["train"][0] == (
        "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.",
        "Two young, White males are outside near many bushes.",
    )
    assert all(german and english for rows in parts.values() for german, english in rows)
