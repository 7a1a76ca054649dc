"""The real data sets, where FORMER_NB_DATA names a folder that holds them, and the real GPT-2,
where the hub's cache has it; skipped elsewhere."""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from huggingface_hub import try_to_load_from_cache
from torch.testing import assert_close

from former_nb.data.data_sets import load_reviews, load_shakespeare, load_translations
from former_nb.data.subwords import apply_bpe
from former_nb.decoding.caches import generate
from former_nb.decoding.sampling import Sampling
from former_nb.saving.saving import load_model

REAL = Path(os.environ.get("FORMER_NB_DATA") or "none")
PARTS = ["train", "val", "test_2016_flickr"]
READ = "read from FORMER_NB_DATA"


def real(*paths):
    "Skip a test where one of these files is not there."
    missing = [path for path in paths if not (REAL / path).is_file()]
    skip = pytest.mark.skipif(bool(missing), reason=f"FORMER_NB_DATA has no {missing}")
    return lambda test: pytest.mark.real_data(skip(test))


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


@real("imdb/train.parquet", "imdb/test.parquet")
def test_reviews_of_one_film_are_neighbours_and_123_stand_in_both_parts():
    "What the deep dive on batches says of these reviews."
    pytest.importorskip("pyarrow")
    parts, _ = load_reviews()
    train = parts["train"]
    known = {text for text, _ in train}
    assert sum(text in known for text, _ in parts["test"]) == 123
    capitals = [set(re.findall(r"\b[A-Z][a-z]+\w*", text)) for text, _ in train]
    count = Counter(word for words in capitals for word in words)
    rare = [{word for word in words if 2 <= count[word] <= 10} for words in capitals]

    def share(distance):  # of the pairs with one label that have a rare name in common
        pairs = [i for i in range(len(rare) - distance) if train[i][1] == train[i + distance][1]]
        return sum(bool(rare[i] & rare[i + distance]) for i in pairs) / len(pairs)

    assert round(share(1), 2) == 0.15 and round(share(100), 4) == 0.0003


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


def find_cached(name):
    "The folder of a model in the hub's cache, or None."
    found = try_to_load_from_cache(name, "model.safetensors")
    return Path(found).parent if isinstance(found, str) else None


GPT2 = find_cached("openai-community/gpt2") or find_cached("gpt2")
TEXT = "The cat sat on the mat, and the dog lay beside it. Neither of them had seen the mouse."


@pytest.mark.real_data
@pytest.mark.skipif(GPT2 is None, reason="the hub's cache has no gpt2 with merges.txt")
def test_the_real_gpt2():
    transformers = pytest.importorskip("transformers")
    theirs = transformers.GPT2LMHeadModel.from_pretrained(GPT2).eval()
    ours, tokenizer, _ = load_model(GPT2)
    ids = tokenizer.encode(TEXT)
    lines = (GPT2 / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    vocab = json.loads((GPT2 / "vocab.json").read_text(encoding="utf-8"))
    pieces = apply_bpe(TEXT, [tuple(line.split(" ")) for line in lines])
    assert [vocab[piece] for piece in pieces] == ids  # by the encoder of lesson 15
    row = torch.tensor([ids])
    with torch.no_grad():
        logits = ours(row), theirs(row).logits
        assert_close(*logits, atol=1e-3, rtol=1e-4)  # they are about -100
        losses = [F.cross_entropy(x[0, :-1], row[0, 1:]) for x in logits]
        assert_close(*losses, atol=1e-5, rtol=1e-5)
    how = dict(attention_mask=torch.ones_like(row), do_sample=False, max_new_tokens=50)
    wanted = theirs.generate(row, **how, pad_token_id=50256)
    assert torch.equal(generate(ours, row, 50, Sampling(temperature=0), **tokenizer.stops), wanted)
    print(f" perplexity {losses[0].exp():.3f}: {tokenizer.decode(wanted[0].tolist())}")
