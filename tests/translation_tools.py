"""A small translator of numbers in words, for several files."""

from former_nb.base.core import set_seed
from former_nb.data.tokenization import CharTokenizer
from former_nb.data.toy_data import number_pairs
from former_nb.models.config import TransformerConfig
from former_nb.models.savable import EncoderDecoder

PAIRS = number_pairs()["train"][:400]
TOKENIZER = CharTokenizer.train([text for pair in PAIRS for text in pair])


def translator(seed=0, max_len=60, tokenizer=TOKENIZER, **sizes):
    "Untrained, in eval mode."
    set_seed(seed)
    sizes = dict(d_model=24, n_heads=4, n_layers=2, d_ff=48, positions="rotary") | sizes
    return EncoderDecoder.from_config(
        TransformerConfig(tokenizer.vocab_size, max_len, **sizes)
    ).eval()
