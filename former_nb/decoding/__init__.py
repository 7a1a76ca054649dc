"""From a trained model to tokens, texts and labels."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "decoding": "greedy sample",
        "sampling": "Sampling",
        "caches": "KVCache generate stream",
        "translating": "translate",
        "classification": "predict",
    },
)
