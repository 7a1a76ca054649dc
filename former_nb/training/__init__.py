"""One loop, and everything that joins it from outside."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "training": "fit train_step",
        "training_config": "TrainingConfig",
        "losses": "evaluate exact_match token_loss",
        "callbacks": "Callback ProgressBar SaveBest TensorBoard plot_history",
        "resuming": "Checkpoint",
        "costs": "training_cost",
        "trainer": "ForTrainer by_name",
    },
)
