"Small models that several tests build: of ours with weights that matter, and BERT as it comes."

import pytest
import torch


def loud(model, seed=0, std=0.3):
    "The model, untrained, with weights for which every part matters; matrices have this spread."
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            weight.normal_(std=std if weight.ndim > 1 else 0.5, generator=generator)
    return model.eval()


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
