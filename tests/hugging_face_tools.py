"""Hugging Face's models, random and small, made from a configuration, and their tokenizers."""

import json
import os

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch.testing import assert_close

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
transformers = pytest.importorskip("transformers")
from transformers import (  # noqa: E402
    BartConfig,
    BertConfig,
    GPT2Config,
    LlamaConfig,
    MarianConfig,
    MistralConfig,
    Qwen2Config,
)

V, NEAR = 37, dict(atol=1e-5, rtol=1e-5)
WIDTH = dict(vocab_size=V, hidden_size=24, num_hidden_layers=2, intermediate_size=20)
LLAMA = WIDTH | dict(max_position_embeddings=64, num_attention_heads=6, num_key_value_heads=2)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3 |= dict(original_max_position_embeddings=16, rope_theta=500.0)
GPT2 = dict(vocab_size=V, n_positions=64, n_embd=24, n_layer=2, n_head=4)
BERT = WIDTH | dict(max_position_embeddings=40, num_attention_heads=3)
NONE = dict(bos_token_id=None, eos_token_id=None)
DECODERS = {
    "gpt2": ("GPT2LMHeadModel", GPT2Config(**GPT2, **NONE)),
    "gpt2, three heads, untied, gelu": (
        "GPT2LMHeadModel",
        GPT2Config(
            **GPT2 | dict(n_head=3, n_inner=50, activation_function="gelu"),
            **NONE,
            tie_word_embeddings=False,
        ),
    ),
    "gpt2, relu, eps": (
        "GPT2LMHeadModel",
        GPT2Config(**GPT2, **NONE, activation_function="relu", layer_norm_epsilon=1e-2),
    ),
    "llama": ("LlamaForCausalLM", LlamaConfig(**LLAMA, **NONE)),
    "llama, tied, biases, wide heads": (
        "LlamaForCausalLM",
        LlamaConfig(
            **LLAMA | dict(num_attention_heads=3, num_key_value_heads=3, head_dim=10),
            **NONE,
            tie_word_embeddings=True,
            attention_bias=True,
            mlp_bias=True,
        ),
    ),
    "llama, biases of attention alone": (
        "LlamaForCausalLM",
        LlamaConfig(**LLAMA, **NONE, attention_bias=True),
    ),
    "llama 3": ("LlamaForCausalLM", LlamaConfig(**LLAMA, **NONE, rope_parameters=LLAMA3)),
    "llama, linear": (
        "LlamaForCausalLM",
        LlamaConfig(
            **LLAMA, **NONE, rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=1e4)
        ),
    ),
    "qwen2": ("Qwen2ForCausalLM", Qwen2Config(**LLAMA, **NONE, tie_word_embeddings=True)),
    "mistral": (
        "MistralForCausalLM",
        MistralConfig(**LLAMA, **NONE, head_dim=4, sliding_window=None),
    ),
}
ENCODERS = {
    "classifier": ("BertForSequenceClassification", BertConfig(**BERT, num_labels=3)),
    "classifier, relu, one segment": (
        "BertForSequenceClassification",
        BertConfig(**BERT, hidden_act="relu", type_vocab_size=1),
    ),
    "masked": ("BertForMaskedLM", BertConfig(**BERT)),
    "masked, tanh": ("BertForMaskedLM", BertConfig(**BERT, hidden_act="gelu_new")),
}
TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5, 11], [6, 2, 7, 1, 0, 0, 0], [5, 8, 30, 36, 12, 0, 0]])


def make(name, config, loud=3.0):
    "A random model whose answers differ: weights and biases are `loud` times as large, none is 0."
    torch.manual_seed(0)
    config._attn_implementation = "eager"
    model = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for p in filter(lambda p: p.requires_grad, model.parameters()):  # a fixed table stays
            p.add_(torch.randn_like(p) * 0.02).mul_(loud if p.ndim > 1 else 1.0)
    return model


def gap(a, b):
    return (a - b).abs().max().item()


def same(a, b, **how):
    assert_close(a, b, **NEAR | how)
    return gap(a, b)


def change_config(folder, **changes):
    file = folder / "config.json"
    saved = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in saved.items() if v != "absent"}))


TEXTS = [
    "The cat sat on the mat. \u017dalia vapsva!",
    "A film to forget, <|end|> said the cat.",
] * 3
END = "<|end|>"


def bytes_bpe():
    "As GPT-2's, with one special token that ends a text."
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    kwargs = dict(vocab_size=300, special_tokens=[END], show_progress=False)
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(**kwargs, initial_alphabet=alphabet))
    return made


def metaspace():
    "As Llama 2's, with a beginning and an end."
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    kwargs = dict(vocab_size=60, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False)
    made.train_from_iterator(TEXTS, trainers.BpeTrainer(**kwargs))
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return made


def word_piece():
    "As BERT's."
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    kwargs = dict(vocab_size=80, special_tokens=special, show_progress=False)
    made.train_from_iterator(TEXTS, trainers.WordPieceTrainer(**kwargs))
    frame = dict(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    made.post_processor = processors.TemplateProcessing(**frame)
    return made


def with_tokenizer(folder, name, config, tokenizer, **ids):
    "A random model and a tokenizer, in a folder as Hugging Face has them."
    for key, value in ids.items():
        setattr(config, key, value)
    theirs = make(name, config)
    theirs.save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return theirs


SIDES = dict(layers=2, attention_heads=3, ffn_dim=40)
SIZES = dict(vocab_size=V, d_model=24, max_position_embeddings=32)
SIZES |= {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in SIDES.items()}
MARIAN = SIZES | dict(scale_embedding=True, pad_token_id=V - 1, decoder_start_token_id=V - 1)
PAIRS = {
    "bart": ("BartForConditionalGeneration", BartConfig(**SIZES)),
    "bart, one head, tanh, a pad of 3": (
        "BartForConditionalGeneration",
        BartConfig(
            **SIZES | dict(encoder_attention_heads=1, decoder_attention_heads=1, pad_token_id=3),
            activation_function="gelu_new",
        ),
    ),
    "marian": ("MarianMTModel", MarianConfig(**MARIAN, activation_function="swish")),
    "marian, relu": ("MarianMTModel", MarianConfig(**MARIAN, activation_function="relu")),
}
