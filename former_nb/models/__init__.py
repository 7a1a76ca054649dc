"""Blocks, and the models that are made of them."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "config": "TransformerConfig",
        "block": "Block CrossAttention Decoder DecoderBlock FeedForward "
        "GroupedQueryAttention RMSNorm Stack SwiGLU make_block",
        "embedding": "Embedding",
        "language_model": "LanguageModel",
        "modern_decoder": "modern_decoder",
        "classifier": "Classifier",
        "masked_language": "MaskedLanguageModel",
        "encoder_decoder": "EncoderDecoder",
        "fine_tuning": "add_low_rank merge_low_rank",
        "pretrained": "Pretrained",
        "packing": "packed",
        "mixture_of_experts": "MixtureLanguageModel MixtureOfExperts with_balance",
    },
)
