"""What a model attends to, what it leaks, and what simpler rivals reach."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "recording": "Recorder record_attention",
        "comparison": "same Comparison",
        "ablation": "ablate_heads",
        "lens": "logit_lens",
        "describe": "describe",
        "viewer": "view",
        "your_attention": "use_attend",
        "leaks": "assert_no_leak",
        "ngrams": "NGram",
        "scores": "score_translations",
    },
)
