"""One loop, and everything that joins it from outside."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "training": "train_step warmup_cosine",
        "fitting": "fit",
        "training_config": "TrainingConfig",
        "losses": "batch_loss evaluate exact_match token_loss",
        "callbacks": "Callback ProgressBar SaveBest",
        "resuming": "Checkpoint",
        "costs": "training_cost",
    },
)
