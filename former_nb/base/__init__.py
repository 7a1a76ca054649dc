"""Guards, devices and seeds, files written whole, and what runs the exercises."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "checkpoints": "atomic_write",
        "core": "eval_mode pick_device set_seed",
        "exercises": "check hint",
        "files": "find_model",
    },
)
