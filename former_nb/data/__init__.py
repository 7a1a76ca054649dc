"""From files and texts to batches of tokens."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "text": "collate pad_rows",
        "tokens": "TextTokenizer TokenizerPair",
        "tokenization": "CharTokenizer HuggingFaceTokenizer SubwordTokenizer encode_texts "
        "load_tokenizer",
        "subwords": "apply_bpe count_words train_bpe",
        "batches": "BatchOrder make_batches",
        "long_texts": "TextWindows",
        "data_sets": "load_names load_reviews load_shakespeare load_translations split",
        "toy_data": "number_pairs toy_texts",
    },
)
