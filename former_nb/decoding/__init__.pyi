"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import beam_search as beam_search
from . import caches as caches
from . import classification as classification
from . import decoding as decoding
from . import fast_copy as fast_copy
from . import many_rows as many_rows
from . import number_words as number_words
from . import prompts as prompts
from . import sampling as sampling
from . import translating as translating
from . import translation as translation
from .caches import KVCache as KVCache
from .caches import generate as generate
from .caches import stream as stream
from .classification import predict as predict
from .decoding import greedy as greedy
from .decoding import sample as sample
from .sampling import Sampling as Sampling
from .translating import translate as translate

__all__ = [
    "KVCache",
    "Sampling",
    "generate",
    "greedy",
    "predict",
    "sample",
    "stream",
    "translate",
]
