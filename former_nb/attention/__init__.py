"""Attention as the lessons derive it, and what is put around it."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "fused": "attention attention_weights",
        "multi_head": "MultiHeadAttention",
        "masks": "causal_mask combine_masks padding_mask",
        "positions": "LearnedPositions SinusoidalPositions",
        "angle_tables": "Rotary",
        "relative_positions": "ALiBi RelativeBias ScaledRotary",
        "mask_patterns": "document_mask prefix_mask sliding_window_mask",
        "flash": "block_attention",
    },
)
