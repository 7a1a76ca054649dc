"""What is recorded of a translation is what the layers computed, with its tokens beside it."""

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import every_row, refuses

from former_nb.base.core import set_seed
from former_nb.data.tokenization import CharTokenizer, SubwordTokenizer, encode_texts
from former_nb.inspection.alignments import align_translation, record_translation
from former_nb.inspection.recording import record_attention
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import EncoderDecoder, LanguageModel

TOKENIZER = CharTokenizer(" abcdefghijklmnopqrstuvwxyzü")
HEAD = ["kind", "layer", "head"]


def translator(seed=0, tokenizer=TOKENIZER, max_len=20, **sizes):
    "Untrained, its weights as large as after training."
    set_seed(seed)
    sizes = dict(d_model=24, n_heads=3, n_layers=2, d_ff=48, positions="rotary") | sizes
    model = EncoderDecoder.from_config(
        TransformerConfig(tokenizer.vocab_size, max_len, dropout=0.3, **sizes)
    )
    for weight in model.parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
    return model


@pytest.fixture(scope="module")
def table():
    return record_translation(translator(), TOKENIZER, "zwei", "two")


def test_every_weight_is_recorded_with_its_tokens(table):
    assert list(table.columns) == [*HEAD, "query_place", "query", "key_place", "key", "weight"]
    source, target = ["<bos>", *"zwei", "<eos>"], ["<bos>", *"two"]
    sides = dict(encoder=(source, source), decoder=(target, target), cross=(target, source))
    assert set(table["kind"]) == {*sides} and set(table["layer"]) == {1, 2}
    assert not table.duplicated([*HEAD, "query_place", "key_place"]).any()
    for kind, (queries, keys) in sides.items():
        part = table[table["kind"] == kind]
        assert len(part) == 2 * 3 * len(queries) * len(keys)
        assert (part["query"] == part["query_place"].map(dict(enumerate(queries)))).all()
        assert (part["key"] == part["key_place"].map(dict(enumerate(keys)))).all()


def test_rows_sum_to_one_and_no_weight_is_on_the_future(table):
    assert (table.groupby([*HEAD, "query_place"])["weight"].sum() - 1).abs().max() < 1e-5
    ahead = (table["key_place"] > table["query_place"]) & (table["kind"] == "decoder")
    assert (table[ahead]["weight"] == 0).all() and (
        table[table["kind"] != "decoder"].weight > 0
    ).all()


def recorded(model):
    src, tgt = (torch.tensor([row]) for row in encode_texts(["zwei", "two"], TOKENIZER))
    with record_attention(model.eval()) as weights, torch.no_grad():
        model(src, tgt[:, :-1])
    return weights


def test_the_weights_are_those_of_the_layers(table):
    weights, parts = recorded(translator()), dict(encoder="attention", decoder="attention")
    for (kind, layer, head), part in table.groupby(HEAD):
        side = "decoder" if kind == "cross" else kind
        name = f"{side}.blocks.{layer - 1}.{parts.get(kind, 'cross')}"
        wanted = weights[name][0, head - 1]
        assert np.allclose(part["weight"].values.reshape(wanted.shape), wanted, atol=1e-6)


@pytest.mark.parametrize(
    "how", [dict(positions="sinusoidal", norm_first=False), dict(positions="alibi", n_layers=1)]
)
def test_any_model_can_be_looked_into(how):
    found = record_translation(translator(**how), TOKENIZER, "drei", "three")
    assert (found.groupby([*HEAD, "query_place"])["weight"].sum() - 1).abs().max() < 1e-5
    assert found["layer"].max() == how.get("n_layers", 2)


def test_the_model_stays_as_it_was(table):
    model = translator().train()  # with dropout
    again = record_translation(model, TOKENIZER, "zwei", "two")
    pd.testing.assert_frame_equal(again, table, rtol=1e-4, atol=1e-6)
    assert all(part.training for part in model.modules())
    assert all(weight.grad is None for weight in model.parameters())


def test_what_is_not_known_is_shown_as_such():
    found = record_translation(translator(), TOKENIZER, "zß ü", "t日o")
    keys = lambda kind: list(found[found["kind"] == kind]["key"].unique())
    assert keys("encoder") == ["<bos>", "z", "<unk>", " ", "ü", "<eos>"]
    assert keys("decoder") == ["<bos>", "t", "<unk>", "o"]


def test_pieces_of_words_are_shown_as_they_are_spelled():
    tokenizer = SubwordTokenizer.train(["ein Hund und ein Hund"] * 9, 280)
    found = record_translation(translator(tokenizer=tokenizer), tokenizer, "ein Hund", "日")
    read = found.query("kind == 'encoder' and layer == head == 1 and query_place == 0")["key"]
    assert list(read)[0] == "<bos>" and list(read)[-1] == "<eos>"
    assert "".join(list(read)[1:-1]) == "ein Hund"
    written = found[found["kind"] == "decoder"]["query"].unique()
    assert list(written) == ["<bos>", "\ufffd"]  # three bytes of one character


@pytest.mark.parametrize("layer", [1, 2, None])
def test_alignments_are_the_largest_mean_weights_while_a_word_is_written(layer):
    weights = recorded(translator())[f"decoder.blocks.{(layer or 1) - 1}.cross"]
    mean = weights[0].mean(0)[:-1, 1:-1]  # (T - 1, S - 2)
    found = align_translation(translator().eval(), TOKENIZER, "zwei", "two", layer)
    assert found == list(enumerate(mean.argmax(-1).tolist()))


def test_a_text_begins_and_ends_as_its_tokenizer_says():
    "As those of BART and Marian: two tokens begin a translation, and none a source."
    tokenizer = CharTokenizer(TOKENIZER.alphabet)
    tokenizer.before, tokenizer.start = (), (0, 2)
    model = translator().eval()
    src = torch.tensor([[*tokenizer.encode("zwei"), 2]])
    tgt = torch.tensor([[0, 2, *tokenizer.encode("two")]])
    with record_attention(model) as weights, torch.no_grad():
        model(src, tgt)
    cross = weights["decoder.blocks.0.cross"][0]  # (h, T, S)
    found = record_translation(model, tokenizer, "zwei", "two")
    part = found[(found["kind"] == "cross") & (found["layer"] == 1)]
    assert np.allclose(part["weight"].values.reshape(cross.shape), cross, atol=1e-6)
    assert list(part["query"].unique()) == ["<pad>", "<eos>", *"two"]
    assert list(part["key"].unique()) == [*"zwei", "<eos>"]
    best = cross.mean(0)[1:-1, :-1].argmax(-1)  # of the rows that write t, w and o
    assert align_translation(model, tokenizer, "zwei", "two", 1) == list(enumerate(best.tolist()))


def test_the_decoder_may_be_deeper_and_longer_than_the_encoder():
    sizes = dict(d_model=24, n_heads=3, d_ff=48, positions="rotary")
    config = lambda most, n: TransformerConfig(TOKENIZER.vocab_size, most, n_layers=n, **sizes)
    set_seed(0)
    model = EncoderDecoder.from_config(config(8, 1), tgt_config=config(20, 3))
    assert len(align_translation(model, TOKENIZER, "zwei", "twenty-two", 3)) == 10
    refuses(lambda: align_translation(model, TOKENIZER, "zwei", "two", 4), ValueError, "layer", "4")


MODEL = translator()


def record(source="a", target="a", model=MODEL, tokenizer=TOKENIZER):
    return record_translation(model, tokenizer, source, target)


def align(source="ab", target="ab", layer=None):
    return align_translation(MODEL, TOKENIZER, source, target, layer)


TABLE = {
    "record_translation": [
        ("too long", lambda: record("a" * 19), ValueError, "source", "21"),
        ("just fits", lambda: record("a" * 18), lambda found: found["key_place"].max() == 19),
        ("cut", lambda: record("a", "b" * 99), lambda found: found["query_place"].max() == 19),
        ("nothing", lambda: record("", ""), lambda t: set(t["query"]) == {"<bos>", "<eos>"}),
        ("no text", lambda: record(None), TypeError, "source", "NoneType"),
        ("a list", lambda: record("a", ["a"]), TypeError, "target", "list"),
        (
            "no model",
            lambda: record(model=LanguageModel.from_config(MODEL.config)),
            TypeError,
            "model",
        ),
        ("tokenizer", lambda: record(tokenizer=CharTokenizer("ab")), ValueError, "tokenizer"),
    ],
    "align_translation": [
        ("no source", lambda: align(source=""), lambda found: found == []),
        ("no target", lambda: align(target=""), lambda found: found == []),
        ("no layer", lambda: align(layer=0), ValueError, "layer", "0"),
        ("a layer too far", lambda: align(layer=3), ValueError, "layer", "3"),
    ],
}


test_bad_input = every_row(TABLE)
