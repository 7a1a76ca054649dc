"""Models on disk: ours, those of earlier versions, and Hugging Face's."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "saving": "load_model save_model",
        "hugging_face": "from_hugging_face to_hugging_face",
        "families": "add_families",
    },
)
