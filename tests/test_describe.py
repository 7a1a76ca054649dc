"""What each layer costs: the rows add up, products are counted as by hand, and nothing stays."""

import matplotlib

matplotlib.use("Agg")

import pandas as pd
import pytest
import torch
from recording_tools import hooks, ours, theirs
from refusals import every_row
from torch import nn

from former_nb.base.flops import short_number
from former_nb.inspection import describe as module
from former_nb.inspection.describe import NUMBERS, bind_inputs, describe
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel

TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5], [6, 2, 7, 10, 1, 1]])


def translator():
    return nn.Transformer(24, 4, 2, 1, 48, batch_first=True).eval()


MODELS = {
    "language model": lambda: (ours(LanguageModel), TOKENS),
    "grouped, rotary": lambda: (
        ours(LanguageModel, n_kv_heads=2, positions="rotary", activation="swiglu"),
        (TOKENS,),
    ),
    "classifier": lambda: (ours(Classifier), TOKENS),
    "translator": lambda: (ours(EncoderDecoder), (TOKENS, TOKENS[:, :4])),
    "nn.Transformer": lambda: (translator(), (torch.ones(2, 6, 24), torch.ones(2, 4, 24))),
    "nn.TransformerEncoder": lambda: (translator().encoder, torch.ones(2, 6, 24)),
    "pictures": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten()),
        torch.ones(2, 3, 9, 9),
    ),
    **{
        name: lambda name=name: (theirs(name), dict(input_ids=TOKENS))
        for name in ("GPT2", "Bert", "Llama")
    },
    **{
        name: lambda name=name: (
            theirs(name),
            dict(input_ids=TOKENS, decoder_input_ids=TOKENS[:, :4]),
        )
        for name in ("Bart", "T5")
    },
}


def state(model):
    "What a look at a model must not change."
    numbers = [t.clone() for t in model.state_dict().values()]
    modes = [part.training for part in model.modules()]
    grads = [p.grad for p in model.parameters()]
    return numbers, modes, grads, [set(vars(part)) for part in model.modules()]


@pytest.mark.parametrize("case", MODELS)
def test_the_rows_of_any_model_add_up_and_the_model_stays_what_it_was(case):
    model, batch = MODELS[case]()
    model.train()
    before = state(model)
    table = describe(model, batch)
    numbers, *others = state(model)
    assert all(torch.equal(a, b) for a, b in zip(numbers, before[0]))
    assert (*others,) == before[1:] and not hooks(model)
    assert torch.backends.mha.get_fastpath_enabled()
    assert table["parameters"].sum() == sum(p.numel() for p in model.parameters())
    tensors = [*model.parameters(), *model.buffers()]
    assert table["weight_bytes"].sum() == sum(t.nbytes for t in tensors)
    assert table["flops"].sum() > 0
    assert list(table) == ["kind", "output", *NUMBERS]
    for depth in (0, 1, 2):
        folded = describe(model, batch, depth)
        assert (folded[NUMBERS].sum() == table[NUMBERS].sum()).all()
        assert all(name.count(".") < max(1, depth) for name in folded.index)
    assert describe(model, batch, 0).index.tolist() == ["(whole)"]


def test_products_are_counted_as_by_hand():
    B, T, d, d_ff, V = 2, 6, 24, 48, 11
    table = describe(ours(LanguageModel, n_layers=1), TOKENS)
    block = "stack.blocks.0."
    expected = {block + "attention": 4 * B * T * T * d, "head": 2 * B * T * d * V}
    for name in "qkvo":
        expected[f"{block}attention.w_{name}"] = 2 * B * T * d * d
    expected[block + "ff.w_in"] = expected[block + "ff.w_out"] = 2 * B * T * d * d_ff
    flops = table["flops"]
    assert flops[flops > 0].to_dict() == expected
    assert table.loc["head", "parameters"] == 0  # they are those of the embedding
    assert table.loc["embed.tokens", "parameters"] == V * d
    assert table.loc[block + "ff.w_in", "output"] == (B, T, d_ff)
    assert table.loc[block + "ff.w_in", "activation_bytes"] == 4 * B * T * d_ff
    assert table.loc[block + "ff.dropout", "activation_bytes"] == 4 * B * T * d_ff  # after GELU
    assert table.loc[block + "dropout", "activation_bytes"] == 0  # hands on what it was given
    assert table.loc["(whole)", "output"] == (B, T, V)


def test_cross_attention_counts_the_memory_and_torch_layers_count_the_same():
    model = ours(EncoderDecoder, n_layers=1, dropout=0.0)
    table = describe(model, (TOKENS, TOKENS[:, :4]))
    assert table.loc["decoder.blocks.0.cross", "flops"] == 4 * 2 * 4 * 6 * 24
    assert table.loc["decoder.blocks.0.cross.w_k", "output"] == (2, 6, 24)
    layer = nn.MultiheadAttention(24, 4, batch_first=True)
    x = torch.ones(2, 6, 24)
    table = describe(layer, (x, x, x))
    assert table.loc["(whole)", "flops"] == 4 * 2 * 2 * 6 * 24 * 24 + 4 * 2 * 6 * 6 * 24
    assert table.loc["(whole)", "parameters"] == 4 * (24 * 24 + 24)  # with its out_proj


def test_shared_modules_count_their_weights_once_and_their_work_twice():
    layer = nn.Linear(5, 5)
    table = describe(nn.Sequential(layer, nn.ReLU(), layer), torch.ones(3, 5))
    assert table["parameters"].sum() == 30
    assert table.loc["0", "flops"] == 2 * 2 * 3 * 5 * 5


def test_counting_needs_no_numbers():
    config = TransformerConfig(11, 12, 24, 4, 2, 48)
    with torch.device("meta"):
        model = LanguageModel.from_config(config)
    counted = describe(model, TOKENS)
    pd.testing.assert_frame_equal(counted, describe(ours(LanguageModel), TOKENS))


def test_an_error_of_the_model_leaves_no_hook():
    model = ours(LanguageModel).train()
    with pytest.raises(ValueError, match="max_len"):
        describe(model, TOKENS.repeat(1, 9))
    assert not hooks(model) and model.training and torch.backends.mha.get_fastpath_enabled()


def test_short_numbers_have_three_digits():
    assert [short_number(n, "B") for n in (0, 999, 1000, 12345)] == [
        "0.00 B",
        "999 B",
        "1.00 kB",
        "12.3 kB",
    ]


LM, TR = ours(LanguageModel), ours(EncoderDecoder)
BAD = {
    "bind_inputs": [
        ("no module", lambda: bind_inputs(3, TOKENS), TypeError, "model"),
        (
            "one side of two",
            lambda: bind_inputs(TR, TOKENS),
            ValueError,
            "batch",
            "'tgt'",
        ),
        (
            "nothing",
            lambda: bind_inputs(TR, {}),
            ValueError,
            "batch",
            "'src'",
        ),
        (
            "too many",
            lambda: bind_inputs(LM, (TOKENS, TOKENS, TOKENS)),
            ValueError,
            "batch",
        ),
        (
            "another name",
            lambda: bind_inputs(LM, dict(input_ids=TOKENS)),
            ValueError,
            "batch",
            "'tokens'",
        ),
        (
            "targets, too",
            lambda: bind_inputs(LM, (TOKENS, TOKENS)),
            ValueError,
            "batch",
            "attend",
        ),
    ],
    "describe": [
        ("no module", lambda: describe("gpt", TOKENS), TypeError, "model"),
        ("one side", lambda: describe(TR, TOKENS), ValueError, "batch"),
        ("depth below 0", lambda: describe(LM, TOKENS, -1), ValueError, "depth"),
    ],
}


test_bad_input = every_row(BAD)


def test_every_public_name_has_its_bad_input():
    assert set(module.__all__) <= BAD.keys()
