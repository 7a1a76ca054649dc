"Small models that several tests build: of ours with weights that matter, and BERT as it comes."

from copy import deepcopy

import pytest
import torch
from torch import nn

from former_nb.attention.torch_layers import mha_from_torch
from former_nb.models.config import TransformerConfig
from former_nb.models.encoder_decoder import DecoderBlock
from former_nb.models.layers import Block, FeedForward
from former_nb.models.parts import CrossAttention
from former_nb.models.post_norm import PostNormBlock, PostNormDecoderBlock
from former_nb.models.savable import LanguageModel


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
