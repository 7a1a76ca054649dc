"""The Transformer derived one step at a time: what the lessons export, under one name each."""

__version__ = "0.4.0.dev0"

from .lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "attention.multi_head": "MultiHeadAttention",
        "attention.masks": "causal_mask padding_mask",
        "data.tokenization": "CharTokenizer SubwordTokenizer",
        "data.batches": "make_batches",
        "models.config": "TransformerConfig",
        "models.layers": "Block",
        "models.savable": "Classifier EncoderDecoder LanguageModel",
        "training.fitting": "fit",
        "training.training_config": "TrainingConfig",
        "saving.saving": "load_model save_model",
        "decoding.sampling": "Sampling",
        "decoding.beam_search": "beam_search",
        "decoding.caches": "generate stream",
        "decoding.translating": "translate",
        "decoding.classification": "predict",
        "diagnosis.diagnosis": "diagnose",
        "inspection.leaks": "assert_no_leak",
        "inspection.recording": "record_attention",
        "inspection.comparison": "same",
        "inspection.viewer": "view",
        "inspection.your_attention": "use_attend",
        "grading.check": "check hint keep",
    },
    packages=("attention",),  # which can be called as the function
)
