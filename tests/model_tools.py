"Configurations and small models that several tests build, and BERT as it comes."

from copy import deepcopy

import pytest
import torch
from hypothesis import strategies as st
from torch import nn

from former_nb.attention.torch_layers import mha_from_torch
from former_nb.models.choices import ACTIVATIONS, MODEL, POSITIONS
from former_nb.models.config import BIASES, TransformerConfig
from former_nb.models.encoder_decoder import DecoderBlock
from former_nb.models.layers import Block, FeedForward
from former_nb.models.parts import CrossAttention
from former_nb.models.post_norm import PostNormBlock, PostNormDecoderBlock
from former_nb.models.savable import LanguageModel

SIZES = dict(vocab_size=11, max_len=9, d_model=12, n_heads=3, n_layers=2, d_ff=20, dropout=0.0)
CONFIG = TransformerConfig(**SIZES)
FACTORS = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0)
LLAMA3 = dict(rope_type="llama3", **FACTORS, original_max_position_embeddings=32)


@st.composite
def configs(draw):
    g, ratio, half = (draw(st.integers(1, 3)) for _ in range(3))
    h, whole = g * ratio, st.integers(1, 40)
    return TransformerConfig(
        vocab_size=draw(whole),
        max_len=draw(whole),
        d_model=2 * half * h,
        n_heads=h,
        n_layers=draw(whole),
        d_ff=draw(whole),
        dropout=draw(st.sampled_from([0, 0.0, 0.1, 0.99]) | st.floats(0, 1, exclude_max=True)),
        positions=draw(st.sampled_from(list(POSITIONS))),
        n_kv_heads=draw(st.sampled_from([None, g])),
        activation=draw(st.sampled_from(list(ACTIVATIONS))),
        norm=draw(st.sampled_from(list(MODEL["norm"]))),
        norm_first=draw(st.booleans()),
        d_k=draw(st.sampled_from([None, 6])),
        bias=draw(st.sampled_from(list(BIASES))),
        norm_eps=draw(st.sampled_from([1e-5, 1e-12, 0.01])),
        rope_base=draw(st.sampled_from([10_000.0, 500_000.0])),
        rope_scaling=draw(st.sampled_from([None, LLAMA3, dict(rope_type="linear", factor=2.0)])),
        tied_head=draw(st.booleans()),
    )


def loud(model, seed=0, std=0.3):
    "The model, untrained, with weights for which every part matters; matrices have this spread."
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=std if weight.ndim > 1 else 0.5, generator=generator)
    return model.eval()


def block_from_torch(theirs):
    "Our block with the weights of one of PyTorch's layers; their dropout of weights stays behind."
    theirs = deepcopy(theirs)
    d_model, dropout = theirs.self_attn.embed_dim, theirs.dropout1.p
    ff = FeedForward(d_model, theirs.linear1.out_features, dropout, theirs.activation)
    ff.w_in, ff.w_out = theirs.linear1, theirs.linear2
    parts = [mha_from_torch(theirs.self_attn), ff, theirs.norm1, theirs.norm2]
    kind = Block if theirs.norm_first else PostNormBlock
    if isinstance(theirs, nn.TransformerDecoderLayer):
        parts.insert(1, mha_from_torch(theirs.multihead_attn, CrossAttention))
        parts.append(theirs.norm3)
        kind = DecoderBlock if theirs.norm_first else PostNormDecoderBlock
    return kind(*parts, dropout).train(theirs.training)


def small(vocab_size=10, max_len=8, **more):
    "A generator of a few thousand weights."
    sizes = dict(d_model=16, n_heads=2, n_layers=2, d_ff=24, dropout=0.0) | more
    torch.manual_seed(0)
    return LanguageModel.from_config(TransformerConfig(vocab_size, max_len, **sizes))


def small_bert():
    "Hugging Face's `BertForMaskedLM` with random weights, and a tokenizer of twelve tokens for it."
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = "[PAD] [UNK] [CLS] [SEP] [MASK] a good bad film it was not".split()
    own = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("[CLS]", 2), ("[SEP]", 3)]
    own.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=ends)
    sizes = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
    config = transformers.BertConfig(vocab_size=len(words), **sizes, max_position_embeddings=16)
    return transformers.BertForMaskedLM(config).eval(), own
