"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import angle_tables as angle_tables
from . import dot_product as dot_product
from . import flash as flash
from . import fused as fused
from . import mask_patterns as mask_patterns
from . import masks as masks
from . import multi_head as multi_head
from . import positions as positions
from . import relative_positions as relative_positions
from . import self_attention as self_attention
from . import torch_layers as torch_layers
from .angle_tables import Rotary as Rotary
from .flash import block_attention as block_attention
from .fused import attention as attention
from .fused import attention_weights as attention_weights
from .mask_patterns import document_mask as document_mask
from .mask_patterns import prefix_mask as prefix_mask
from .mask_patterns import sliding_window_mask as sliding_window_mask
from .masks import causal_mask as causal_mask
from .masks import combine_masks as combine_masks
from .masks import padding_mask as padding_mask
from .multi_head import MultiHeadAttention as MultiHeadAttention
from .positions import LearnedPositions as LearnedPositions
from .positions import SinusoidalPositions as SinusoidalPositions
from .relative_positions import ALiBi as ALiBi
from .relative_positions import RelativeBias as RelativeBias
from .relative_positions import ScaledRotary as ScaledRotary

__all__ = [
    "ALiBi",
    "LearnedPositions",
    "MultiHeadAttention",
    "RelativeBias",
    "Rotary",
    "ScaledRotary",
    "SinusoidalPositions",
    "attention",
    "attention_weights",
    "block_attention",
    "causal_mask",
    "combine_masks",
    "document_mask",
    "padding_mask",
    "prefix_mask",
    "sliding_window_mask",
]
