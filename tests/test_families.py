"""Families of models are data: one from outside is read by a file of names alone."""

import json
from dataclasses import fields

import pytest
import torch
from hugging_face_tools import GPT2, NEAR, NONE, TOKENS, bytes_bpe, make
from refusals import refuses
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import CONFIG_MAPPING, GenerationConfig, GPT2Config, LlamaConfig

from former_nb.models.bert import BertMaskedLanguageModel
from former_nb.models.choices import MODEL
from former_nb.models.config import TransformerConfig
from former_nb.models.pretrained import MODEL_CLASSES
from former_nb.models.savable import LanguageModel
from former_nb.saving.config_keys import NOT_APPLIED, generation_notes, refuse_unknown
from former_nb.saving.families import ACTIVATIONS, FAMILIES, Family, add_families
from former_nb.saving.hugging_face import MAKERS, from_hugging_face, read_config, write_config
from former_nb.saving.saving import load_model, save_model

STRANGER = """
[families.stranger]
like = "llama"
prefix = "trunk."

[families.stranger.architectures]
StrangerForText = "LanguageModel"

[families.stranger.fields]
d_model = "width"
n_layers = "depth"

[families.stranger.defaults]
rms_norm_eps = 1e-3

[families.stranger.fixed]
hidden_act = "swish"

[families.stranger.modules]
"embed.tokens" = "trunk.words"
"stack.norm" = "trunk.last"
"head" = "guess"
"stack.blocks.{i}.norm_attention" = "trunk.{i}.first"
"stack.blocks.{i}.attention.w_q" = "trunk.{i}.ask"
"stack.blocks.{i}.attention.w_k" = "trunk.{i}.key"
"stack.blocks.{i}.attention.w_v" = "trunk.{i}.value"
"stack.blocks.{i}.attention.w_o" = "trunk.{i}.back"
"stack.blocks.{i}.norm_ff" = "trunk.{i}.second"
"stack.blocks.{i}.ff.w_gate" = "trunk.{i}.gate"
"stack.blocks.{i}.ff.w_in" = "trunk.{i}.up"
"stack.blocks.{i}.ff.w_out" = "trunk.{i}.down"

[families.stranger.copies]
"guess.weight" = "trunk.words.weight"
"""
RENAMED = [  # Llama's name of a tensor, and the stranger's
    ("model.layers.", "trunk."),
    ("model.embed_tokens", "trunk.words"),
    ("model.norm", "trunk.last"),
    ("lm_head", "guess"),
    ("input_layernorm", "first"),
    ("post_attention_layernorm", "second"),
    ("self_attn.q_proj", "ask"),
    ("self_attn.k_proj", "key"),
    ("self_attn.v_proj", "value"),
    ("self_attn.o_proj", "back"),
    ("mlp.gate_proj", "gate"),
    ("mlp.up_proj", "up"),
    ("mlp.down_proj", "down"),
]


@pytest.fixture
def added(monkeypatch, tmp_path):
    "A function that adds the families of a text, until the test ends."
    monkeypatch.setattr("former_nb.saving.families.FAMILIES", families := dict(FAMILIES))
    monkeypatch.setattr("former_nb.saving.families.ACTIVATIONS", dict(ACTIVATIONS))
    monkeypatch.setattr("former_nb.saving.hugging_face.FAMILIES", families)

    def add(text):
        (tmp_path / "families.toml").write_text(text, encoding="utf-8")
        add_families(tmp_path / "families.toml")
        return families

    return add


def rename(name):
    for old, new in RENAMED:
        name = name.replace(old, new)
    return name


def write_stranger(folder):
    "A Llama whose tensors and sizes have other names, with a tokenizer; what it computes."
    own = bytes_bpe()
    sizes = dict(vocab_size=own.get_vocab_size(), hidden_size=24, num_hidden_layers=2)
    sizes |= dict(intermediate_size=20, num_attention_heads=6, num_key_value_heads=2)
    config = LlamaConfig(**sizes, max_position_embeddings=64, rms_norm_eps=1e-3, **NONE)
    theirs = make("LlamaForCausalLM", config)
    theirs.save_pretrained(folder)
    own.save(str(folder / "tokenizer.json"))
    tensors = {rename(name): t for name, t in load_file(folder / "model.safetensors").items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    saved = json.loads((folder / "config.json").read_text())
    saved |= dict(model_type="stranger", architectures=["StrangerForText"], hidden_act="swish")
    saved |= dict(width=saved.pop("hidden_size"), depth=saved.pop("num_hidden_layers"))
    del saved["rms_norm_eps"]
    (folder / "config.json").write_text(json.dumps(saved))
    return theirs


def test_a_family_from_outside_is_added_by_data_alone(added, tmp_path):
    theirs = write_stranger(tmp_path / "theirs")
    refuses(lambda: load_model(tmp_path / "theirs"), ValueError, "model", "'StrangerForText'")
    assert "stranger" in added(STRANGER)
    wanted = theirs(TOKENS).logits
    assert wanted.std() > 0.1  # its answers differ
    model, tokenizer, labels = load_model(tmp_path / "theirs")
    assert type(model) is LanguageModel and labels is None and model.config.norm_eps == 1e-3
    assert_close(model(TOKENS), wanted, **NEAR)
    assert_close(from_hugging_face(tmp_path / "theirs")(TOKENS), wanted, **NEAR)
    save_model(tmp_path / "ours", model, tokenizer)
    assert torch.equal(load_model(tmp_path / "ours").model(TOKENS), model(TOKENS))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (dict(experts=8), "experts"),
        (dict(hidden_act="gelu"), "hidden_act"),
        (dict(width="wide"), "d_model"),
    ],
)
def test_it_refuses_what_it_does_not_cover(change, said, added, tmp_path):
    write_stranger(tmp_path / "theirs")
    added(STRANGER)
    file = tmp_path / "theirs" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises((ValueError, TypeError), match=said):
        from_hugging_face(tmp_path / "theirs")


def test_a_family_of_a_class_from_outside(added, tmp_path):
    "What computes something else needs a small model first, an heir that enters itself."

    class LouderModel(LanguageModel):
        def forward(self, tokens, **options):
            return 2 * super().forward(tokens, **options)

    assert MODEL_CLASSES.pop("LouderModel") is LouderModel
    added('[families.louder]\nlike = "gpt2"\n[families.louder.architectures]\nLoud = "LouderModel"')
    saved = GPT2Config(**GPT2, **NONE).to_dict() | dict(model_type="louder", architectures=["Loud"])
    refuses(lambda: read_config(saved), ValueError, "architectures", "'LouderModel'")
    theirs = make("GPT2LMHeadModel", GPT2Config(**GPT2, **NONE))
    theirs.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(saved))
    try:
        MODEL_CLASSES["LouderModel"] = LouderModel
        model = from_hugging_face(tmp_path)
        assert write_config(model)["architectures"] == ["Loud"]
    finally:
        del MODEL_CLASSES["LouderModel"]
    assert_close(model(TOKENS), 2 * theirs(TOKENS).logits, **NEAR)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[families", "Expected"),
        ("[family.a]", "'family'"),
        ("[families.a]\nsizes = {}", "'sizes'"),
        ("[families.a]\nprefix = 'a.'", "missing"),
        ("[families.a]\nlike = 'b'", "'b'"),
        ("families = 3", "TypeError"),
        ("activations = 3", "int"),
    ],
)
def test_a_file_that_describes_no_family_is_one_sentence(text, said, added, tmp_path):
    refuses(lambda: added(text), ValueError, "file", said)
    refuses(lambda: add_families(tmp_path / "none.toml"), ValueError, "file", "No such file")


@pytest.mark.parametrize("name", FAMILIES)
def test_each_table_names_what_there_is(name):
    family = FAMILIES[name]
    ours = {field.name for field in fields(TransformerConfig)}
    assert {*family.fields, *family.shape} <= ours
    assert {*MODEL} <= {
        *family.fields,
        *family.shape,
        *("dropout", "n_kv_heads", "d_k"),
    }
    classes = {**MODEL_CLASSES, "BertMaskedLanguageModel": BertMaskedLanguageModel}
    assert {*family.architectures.values()} <= {*classes}
    assert {*family.absent.values(), *family.computed.values()} <= {*MAKERS}
    there = {field.name for field in fields(Family)}
    assert "like" not in there  # it is resolved when it is read


@pytest.mark.parametrize("name", FAMILIES)
def test_every_key_that_transformers_saves_is_known(name):
    saved = CONFIG_MAPPING[name]().to_dict()
    refuse_unknown(saved, FAMILIES[name])


def test_every_key_of_a_text_that_transformers_saves_is_known():
    saved = GenerationConfig().to_dict()
    assert generation_notes(dict.fromkeys(saved, 3)) == [
        f"{key} = 3" for key in saved if key in NOT_APPLIED
    ]


def test_what_is_written_is_what_it_was_before_names_were_data():
    sizes = dict(vocab_size=11, max_len=9, d_model=12, n_heads=3, n_layers=2, d_ff=20)
    same = dict(tie_word_embeddings=True, vocab_size=11)
    assert write_config(LanguageModel.from_config(TransformerConfig(**sizes))) == same | {
        "activation_function": "gelu",
        "add_cross_attention": False,
        "architectures": ["GPT2LMHeadModel"],
        "attn_pdrop": 0.1,
        "embd_pdrop": 0.1,
        "layer_norm_epsilon": 1e-05,
        "model_type": "gpt2",
        "n_embd": 12,
        "n_head": 3,
        "n_inner": 20,
        "n_layer": 2,
        "n_positions": 9,
        "resid_pdrop": 0.1,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
    }
    qwen = TransformerConfig(
        **sizes, positions="rotary", norm="rms", activation="swiglu", bias="qkv"
    )
    assert write_config(LanguageModel.from_config(qwen)) == same | {
        "architectures": ["Qwen2ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.1,
        "head_dim": 4,
        "hidden_act": "silu",
        "hidden_size": 12,
        "intermediate_size": 20,
        "max_position_embeddings": 9,
        "mlp_bias": False,
        "model_type": "qwen2",
        "num_attention_heads": 3,
        "num_hidden_layers": 2,
        "num_key_value_heads": 3,
        "rms_norm_eps": 1e-05,
        "rope_scaling": None,
        "rope_theta": 10000.0,
    }
