"""From a trained model to tokens, texts and labels."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "decoding": "generate greedy sample",
        "sampling": "Sampling",
        "caches": "KVCache generate_rows generate_text stream stream_text",
        "translating": "translate",
        "labels": "predict",
    },
)
