"""From files and texts to batches of tokens."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "text": "CharTokenizer collate encode_texts pad_rows",
        "tokens": "TextTokenizer TokenizerPair",
        "tokenization": "HuggingFaceTokenizer SubwordTokenizer load_tokenizer",
        "subwords": "apply_bpe train_bpe",
        "batches": "BatchOrder make_batches",
        "long_texts": "TextWindows",
        "data_sets": "load_enwik8 load_names load_reviews load_shakespeare load_translations split",
        "toy_data": "number_pairs toy_texts",
    },
)
