"""Blocks, and the models that are made of them."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "config": "TransformerConfig",
        "layers": "Block Embedding FeedForward Stack make_block",
        "language_model": "generator",
        "modern_decoder": "GroupedQueryAttention RMSNorm SwiGLU load_llama modern_decoder",
        "encoder_decoder": "DecoderBlock collate_pairs translator",
        "parts": "CrossAttention Decoder",
        "savable": "Classifier EncoderDecoder LanguageModel",
        "masked_language": "MaskedLanguageModel",
        "pretrained": "Pretrained",
    },
)
