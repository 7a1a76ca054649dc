"""The Transformer derived one step at a time: what the lessons export, under one name each."""

__version__ = "0.1.0"

import importlib

_HOME = {  # name -> module; imported when it is first asked for
    "MultiHeadAttention": "multi_head",
    "causal_mask": "masks",
    "padding_mask": "masks",
    "assert_no_leak": "leaks",
    "TransformerConfig": "config",
    "Block": "block",
    "LanguageModel": "generator",
    "Classifier": "classifier",
    "EncoderDecoder": "encoder_decoder",
    "CharTokenizer": "text",
    "SubwordTokenizer": "tokenization",
    "make_batches": "batches",
    "TrainingConfig": "training",
    "fit": "training",
    "save_model": "saving",
    "load_model": "saving",
    "predict": "labels",
    "Sampling": "sampling",
    "generate": "decoding",
    "generate_text": "caches",
    "translate": "translating",
    "record_attention": "recording",
    "view": "viewer",
    "check": "exercises",
    "hint": "exercises",
}
__all__ = list(_HOME)


def __getattr__(name):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__():
    return sorted([*globals(), *_HOME])
