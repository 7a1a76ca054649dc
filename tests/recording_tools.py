"""Small models of ours, of PyTorch and of Transformers, for the tests that look inside."""

import pytest
import torch
from torch import nn

from former_nb.base.core import set_seed
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import Classifier, EncoderDecoder, LanguageModel

NEAR = dict(atol=1e-5, rtol=1e-5)


def ours(kind, seed=0, **sizes):
    "An untrained model whose weights are as large as after training."
    set_seed(seed)
    sizes = dict(d_model=24, n_heads=4, n_layers=2, d_ff=48, dropout=0.3) | sizes
    config = TransformerConfig(11, 12, **sizes)
    model = kind.from_config(config, *[3] * (kind is Classifier))
    for weight in model.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.3)
    return model.eval()


def theirs(name):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    wide = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=20)
    both = dict(d_model=24, decoder_layers=2, decoder_attention_heads=3, decoder_ffn_dim=20)
    both |= dict(encoder_layers=2, encoder_attention_heads=4, encoder_ffn_dim=20)
    sizes = {
        "GPT2": dict(n_embd=24, n_layer=2, n_head=4, n_positions=16),
        "Bert": wide | dict(max_position_embeddings=16),
        "Bart": both | dict(max_position_embeddings=16),
        "T5": dict(d_model=24, d_kv=6, num_layers=2, num_heads=4, d_ff=20),
        "Llama": wide | dict(max_position_embeddings=16, num_key_value_heads=2),
        "DistilBert": dict(dim=24, n_layers=2, n_heads=4, hidden_dim=20),
    }[name]
    config = getattr(transformers, f"{name}Config")(vocab_size=11, **sizes)
    return getattr(transformers, f"{name}Model")(config).eval()


TOKENS = torch.tensor([[7, 3, 9, 4, 8, 5]])
PADDED = torch.tensor([[7, 3, 9, 4, 8, 5], [6, 2, 7, 10, 0, 0]])  # 0 is padding
READERS = {
    "language model": lambda: (ours(LanguageModel), (PADDED[:1],), {}),
    "grouped, rotary": lambda: (
        ours(LanguageModel, n_kv_heads=2, positions="rotary"),
        (TOKENS,),
        {},
    ),
    "classifier": lambda: (ours(Classifier), (PADDED,), {}),
    "translator": lambda: (ours(EncoderDecoder), (PADDED, PADDED[:, :4]), {}),
    **{
        name: lambda name=name: (theirs(name), (), dict(input_ids=TOKENS))
        for name in ("GPT2", "Bert", "Llama", "DistilBert")
    },
    **{
        name: lambda name=name: (
            theirs(name),
            (),
            dict(input_ids=TOKENS, decoder_input_ids=TOKENS[:, :4]),
        )
        for name in ("Bart", "T5")
    },
}


def run(model, args, kwargs):
    with torch.no_grad():
        found = model(*args, **kwargs)
    return found if isinstance(found, torch.Tensor) else found.last_hidden_state


def hooks(model):
    return [
        (part, kept)
        for part in model.modules()
        for kept in (part._forward_hooks, part._forward_pre_hooks)
        if kept
    ]


def encoder(seed=0):
    set_seed(seed)
    layer = nn.TransformerEncoderLayer(12, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2).eval()


MODEL = ours(LanguageModel)
