"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import batches as batches
from . import data_sets as data_sets
from . import long_text_data as long_text_data
from . import long_texts as long_texts
from . import subwords as subwords
from . import text as text
from . import tokenization as tokenization
from . import tokens as tokens
from . import toy_data as toy_data
from .batches import BatchOrder as BatchOrder
from .batches import make_batches as make_batches
from .data_sets import load_names as load_names
from .data_sets import load_reviews as load_reviews
from .data_sets import load_shakespeare as load_shakespeare
from .data_sets import load_translations as load_translations
from .data_sets import split as split
from .long_texts import TextWindows as TextWindows
from .subwords import apply_bpe as apply_bpe
from .subwords import count_words as count_words
from .subwords import train_bpe as train_bpe
from .text import collate as collate
from .text import pad_rows as pad_rows
from .tokenization import CharTokenizer as CharTokenizer
from .tokenization import HuggingFaceTokenizer as HuggingFaceTokenizer
from .tokenization import SubwordTokenizer as SubwordTokenizer
from .tokenization import encode_texts as encode_texts
from .tokenization import load_tokenizer as load_tokenizer
from .tokens import TextTokenizer as TextTokenizer
from .tokens import TokenizerPair as TokenizerPair
from .toy_data import number_pairs as number_pairs
from .toy_data import toy_texts as toy_texts

__all__ = [
    "BatchOrder",
    "CharTokenizer",
    "HuggingFaceTokenizer",
    "SubwordTokenizer",
    "TextTokenizer",
    "TextWindows",
    "TokenizerPair",
    "apply_bpe",
    "collate",
    "count_words",
    "encode_texts",
    "load_names",
    "load_reviews",
    "load_shakespeare",
    "load_tokenizer",
    "load_translations",
    "make_batches",
    "number_pairs",
    "pad_rows",
    "split",
    "toy_texts",
    "train_bpe",
]
