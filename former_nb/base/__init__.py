"""Guards, devices and seeds, files written whole, and what judges are made of."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "checkpoints": "atomic_write",
        "core": "eval_mode pick_device set_seed",
        "files": "find_model",
    },
)
