"""What is recorded of a translation is what the layers computed, with its tokens beside it; the
chart shows all of it."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from bad_input_table import cases, judge, public_names

from former_nb import attention_maps as module
from former_nb.attention_maps import align_translation, record_translation, view_translation
from former_nb.config import TransformerConfig
from former_nb.core import set_seed
from former_nb.encoder_decoder import EncoderDecoder
from former_nb.generator import LanguageModel
from former_nb.multi_head import record_attention
from former_nb.text import CharTokenizer, encode_texts
from former_nb.tokenization import SubwordTokenizer

TOKENIZER = CharTokenizer(" abcdefghijklmnopqrstuvwxyzü")
HEAD = ["kind", "layer", "head"]


def translator(seed=0, tokenizer=TOKENIZER, max_len=20, **sizes):
    "Untrained, its weights as large as after training."
    set_seed(seed)
    sizes = (
        dict(d_model=24, n_heads=3, n_layers=2, d_ff=48, dropout=0.3, positions="rotary") | sizes
    )
    model = EncoderDecoder(TransformerConfig(tokenizer.vocab_size, max_len, **sizes))
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return model


@pytest.fixture(scope="module")
def table():
    return record_translation(translator(), TOKENIZER, "zwei", "two")


def test_every_weight_is_recorded_with_its_tokens(table):
    assert list(table.columns) == [*HEAD, "query_place", "query", "key_place", "key", "weight"]
    assert (
        set(table["kind"]) == {"encoder", "decoder", "cross"}
        and set(table["layer"]) == {1, 2}
        and set(table["head"]) == {1, 2, 3}
    )
    sizes = table.groupby("kind").size()
    assert sizes.to_dict() == {"encoder": 6 * 6 * 6, "decoder": 6 * 4 * 4, "cross": 6 * 4 * 6}
    assert not table.duplicated([*HEAD, "query_place", "key_place"]).any()
    source, target = ["<bos>", *"zwei", "<eos>"], ["<bos>", *"two"]
    for kind, queries, keys in (
        ("encoder", source, source),
        ("decoder", target, target),
        ("cross", target, source),
    ):
        part = table[table["kind"] == kind]
        assert (part["query"] == part["query_place"].map(dict(enumerate(queries)))).all()
        assert (part["key"] == part["key_place"].map(dict(enumerate(keys)))).all()


def test_rows_sum_to_one(table):
    sums = table.groupby([*HEAD, "query_place"])["weight"].sum()
    assert len(sums) == 6 * (6 + 4 + 4) and (sums - 1).abs().max() < 1e-5


def test_no_weight_is_on_the_future(table):
    ahead = table["key_place"] > table["query_place"]
    assert (table[ahead & (table["kind"] == "decoder")]["weight"] == 0).all()
    assert (table[ahead & (table["kind"] == "encoder")]["weight"] > 0).all() and (
        table[table["kind"] == "cross"]["weight"] > 0
    ).all()


def test_the_weights_are_those_of_the_layers(table):
    model = translator().eval()
    src, tgt = (torch.tensor([row]) for row in encode_texts(["zwei", "two"], TOKENIZER))
    with record_attention(model) as weights, torch.no_grad():
        model(src, tgt[:, :-1])
    names = {
        "encoder": "encoder.blocks.{}.attention",
        "decoder": "decoder.blocks.{}.attention",
        "cross": "decoder.blocks.{}.cross",
    }
    for (kind, layer, head), part in table.groupby(HEAD):
        wanted = weights[names[kind].format(layer - 1)][0, head - 1]
        assert np.allclose(part["weight"].values.reshape(wanted.shape), wanted, atol=1e-6)


@pytest.mark.parametrize(
    "how",
    [
        dict(positions="sinusoidal", norm_first=False),
        dict(positions="alibi", n_layers=1),
        dict(n_kv_heads=1),
        dict(positions="learned", n_heads=1),
    ],
)
def test_any_model_can_be_looked_into(how):
    found = record_translation(translator(**how), TOKENIZER, "drei", "three")
    assert (found.groupby([*HEAD, "query_place"])["weight"].sum() - 1).abs().max() < 1e-5
    assert found["layer"].max() == how.get("n_layers", 2) and found["head"].max() == how.get(
        "n_heads", 3
    )


def test_the_model_stays_as_it_was(table):
    model = translator().train()  # with dropout
    pd.testing.assert_frame_equal(
        record_translation(model, TOKENIZER, "zwei", "two"), table, rtol=1e-4, atol=1e-6
    )
    assert all(part.training for part in model.modules()) and all(
        weight.grad is None for weight in model.parameters()
    )


def test_what_is_not_known_is_shown_as_such():
    found = record_translation(translator(), TOKENIZER, "zß ü", "t日o")
    assert list(found[found["kind"] == "encoder"]["key"].unique()) == [
        "<bos>",
        "z",
        "<unk>",
        " ",
        "ü",
        "<eos>",
    ]
    assert list(found[found["kind"] == "decoder"]["key"].unique()) == ["<bos>", "t", "<unk>", "o"]


def test_pieces_of_words_are_shown_as_they_are_spelled():
    tokenizer = SubwordTokenizer.train(["ein Hund und ein Hund"] * 9, 280)
    found = record_translation(translator(tokenizer=tokenizer), tokenizer, "ein Hund", "日")
    read = found[
        (found["kind"] == "encoder")
        & (found["layer"] == 1)
        & (found["head"] == 1)
        & (found["query_place"] == 0)
    ]["key"].tolist()
    assert read[0] == "<bos>" and read[-1] == "<eos>" and "".join(read[1:-1]) == "ein Hund"
    assert list(found[found["kind"] == "decoder"]["query"].unique()) == [
        "<bos>",
        "\ufffd",
    ]  # three bytes of one character


def test_the_chart_offers_what_is_in_the_table(table):
    spec = view_translation(table).to_dict()
    largest = (
        table[table["kind"] == "cross"]
        .pivot_table(index=["layer", "head"], columns="query_place", values="weight", aggfunc="max")
        .mean(axis=1)
    )
    layer, head = largest.idxmax()
    assert {
        p["name"]: (p["bind"]["input"], p["bind"]["options"], p["value"]) for p in spec["params"]
    } == {
        "kind": ("radio", ["encoder", "decoder", "cross"], "cross"),
        "layer": ("select", [1, 2], layer),
        "head": ("select", [1, 2, 3], head),
    }
    rows = spec["data"]["values"]
    assert len(rows) == 18 and all(
        len(row["percent"]) == len(row["queries"]) * len(row["keys"]) for row in rows
    )
    for row in rows:
        part = table[
            (table["kind"] == row["kind"])
            & (table["layer"] == row["layer"])
            & (table["head"] == row["head"])
        ]
        assert np.allclose(row["percent"], 100 * part["weight"], atol=0.5001)
        assert len(set(row["keys"])) == len(row["keys"]) and len(set(row["queries"])) == len(
            row["queries"]
        )  # also of two equal words
    only = view_translation(table[table["kind"] == "encoder"]).to_dict()["params"][0]
    assert only["bind"]["options"] == ["encoder"] and only["value"] == "encoder"
    mixed = view_translation(table.sample(frac=1, random_state=0)).to_dict()["data"]["values"]
    order = lambda rows: sorted(json.dumps(row) for row in rows)
    assert order(mixed) == order(rows)


@pytest.mark.parametrize(
    "kind, layer, cells", [("cross", 2, 4 * 6), ("encoder", 1, 6 * 6), ("decoder", 2, 4 * 4)]
)
def test_the_chart_draws_the_head_that_is_chosen(table, kind, layer, cells):
    convert = pytest.importorskip("vl_convert")
    spec = view_translation(table).to_dict()
    for param, value in zip(spec["params"], (kind, layer, 3)):
        param["value"] = value
    drawn = convert.vegalite_to_svg(
        json.dumps(spec), vl_version=".".join(spec["$schema"].split("/v")[-1].split(".")[:2])
    )
    assert drawn.count('aria-roledescription="rect mark"') == cells
    row = table[(table["kind"] == kind) & (table["layer"] == layer) & (table["head"] == 3)].iloc[
        cells - 1
    ]
    said = (
        f"query: {row['query_place']} {row['query']}; key: {row['key_place']} {row['key']}; weight:"
        f" {round(row['weight'], 2):g}".replace("<", "&lt;").replace(">", "&gt;")
    )
    assert any(
        all(bit in line for bit in said.split("; ")) for line in drawn.split("aria-label=")
    ), said


@pytest.mark.parametrize("layer", [1, 2, None])
def test_alignments_are_the_largest_mean_weights_while_a_word_is_written(layer):
    model = translator().eval()
    src, tgt = (torch.tensor([row]) for row in encode_texts(["zwei", "two"], TOKENIZER))
    with record_attention(model) as weights, torch.no_grad():
        model(src, tgt[:, :-1])
    mean = weights[f"decoder.blocks.{(layer or 1) - 1}.cross"][0].mean(0)[
        :-1, 1:-1
    ]  # (T - 1, S - 2)
    assert align_translation(model, TOKENIZER, "zwei", "two", layer) == list(
        enumerate(mean.argmax(-1).tolist())
    )


OTHER = CharTokenizer("ab")
MODEL = translator()
RECORD = lambda *texts, model=MODEL, tokenizer=TOKENIZER: record_translation(
    model, tokenizer, *texts
)
TABLE = {
    "record_translation": [
        (
            "a source that is too long",
            lambda: RECORD("a" * 19, "a"),
            (ValueError, "source: expected at most 20 tokens", "21"),
        ),
        (
            "a source that just fits",
            lambda: RECORD("a" * 18, "a"),
            lambda found: found["key_place"].max() == 19,
        ),
        (
            "a target that is too long",
            lambda: RECORD("a", "b" * 99),
            lambda found: found["query_place"].max() == 19,
        ),
        (
            "nothing",
            lambda: RECORD("", ""),
            lambda found: set(found["query"]) == {"<bos>", "<eos>"},
        ),
        (
            "no text",
            lambda: RECORD(None, "a"),
            (TypeError, "text: expected a string", "NoneType"),
        ),
        ("a list", lambda: RECORD("a", ["a"]), (TypeError, "text: expected a string", "list")),
        (
            "half a character",
            lambda: RECORD("a\ud800", "a"),
            (UnicodeEncodeError, "", "position 1: surrogates not allowed"),
        ),
        (
            "no model",
            lambda: RECORD("a", "a", model=torch.nn.Linear(2, 2)),
            (TypeError, "model: expected EncoderDecoder", "Linear"),
        ),
        (
            "a model that does not translate",
            lambda: RECORD("a", "a", model=LanguageModel(MODEL.config)),
            (TypeError, "model: expected EncoderDecoder", "LanguageModel"),
        ),
        (
            "another tokenizer",
            lambda: RECORD("a", "a", tokenizer=OTHER),
            (ValueError, "tokenizer: expected the model's", "6"),
        ),
        (
            "no tokenizer",
            lambda: RECORD("a", "a", tokenizer=None),
            (TypeError, "tokenizer: expected a TextTokenizer", "NoneType"),
        ),
    ],
    "align_translation": [
        (
            "no source",
            lambda: align_translation(MODEL, TOKENIZER, "", "ab"),
            lambda found: found == [],
        ),
        (
            "no target",
            lambda: align_translation(MODEL, TOKENIZER, "ab", ""),
            lambda found: found == [],
        ),
        (
            "no layer",
            lambda: align_translation(MODEL, TOKENIZER, "ab", "ab", 0),
            (ValueError, "layer: expected a whole number from 1 to 2", "0"),
        ),
        (
            "a layer too far",
            lambda: align_translation(MODEL, TOKENIZER, "ab", "ab", 3),
            (ValueError, "layer: expected a whole number from 1 to 2", "3"),
        ),
        (
            "no text",
            lambda: align_translation(MODEL, TOKENIZER, "ab", None),
            (TypeError, "text: expected a string", "NoneType"),
        ),
    ],
    "view_translation": [
        (
            "no table",
            lambda: view_translation([1]),
            (ValueError, "table: expected rows with kind", "[1]"),
        ),
        (
            "another table",
            lambda: view_translation(pd.DataFrame({"a": [1]})),
            (ValueError, "table: expected rows with kind", "['a']"),
        ),
        (
            "no rows",
            lambda: view_translation(RECORD("a", "a").iloc[:0]),
            (ValueError, "table: expected rows with kind", "got"),
        ),
        (
            "weights left out",
            lambda: view_translation(RECORD("a", "a").iloc[1:]),
            (ValueError, "table: expected a weight for each query and key", "8 of 9"),
        ),
    ],
}


@pytest.mark.parametrize("call, wanted", cases(TABLE))
def test_bad_input(call, wanted):
    judge(call, wanted)


def test_every_public_name_is_in_the_table():
    assert public_names(module) == set(TABLE)
