"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import base as base
from . import data as data
from . import decoding as decoding
from . import diagnosis as diagnosis
from . import inspection as inspection
from . import ladder as ladder
from . import models as models
from . import saving as saving
from . import tasks as tasks
from . import training as training
from . import yours as yours
from .attention.fused import attention as attention
from .attention.masks import causal_mask as causal_mask
from .attention.masks import padding_mask as padding_mask
from .attention.multi_head import MultiHeadAttention as MultiHeadAttention
from .data.batches import make_batches as make_batches
from .data.tokenization import CharTokenizer as CharTokenizer
from .data.tokenization import SubwordTokenizer as SubwordTokenizer
from .decoding.beam_search import beam_search as beam_search
from .decoding.caches import generate as generate
from .decoding.caches import stream as stream
from .decoding.classification import predict as predict
from .decoding.sampling import Sampling as Sampling
from .decoding.translating import translate as translate
from .diagnosis.diagnosis import diagnose as diagnose
from .grading.check import check as check
from .grading.check import hint as hint
from .grading.check import keep as keep
from .inspection.comparison import same as same
from .inspection.leaks import assert_no_leak as assert_no_leak
from .inspection.recording import record_attention as record_attention
from .inspection.viewer import view as view
from .inspection.your_attention import use_attend as use_attend
from .models.config import TransformerConfig as TransformerConfig
from .models.layers import Block as Block
from .models.savable import Classifier as Classifier
from .models.savable import EncoderDecoder as EncoderDecoder
from .models.savable import LanguageModel as LanguageModel
from .saving.saving import load_model as load_model
from .saving.saving import save_model as save_model
from .training.fitting import fit as fit
from .training.training_config import TrainingConfig as TrainingConfig

__version__: str
__all__ = [
    "Block",
    "CharTokenizer",
    "Classifier",
    "EncoderDecoder",
    "LanguageModel",
    "MultiHeadAttention",
    "Sampling",
    "SubwordTokenizer",
    "TrainingConfig",
    "TransformerConfig",
    "assert_no_leak",
    "attention",
    "beam_search",
    "causal_mask",
    "check",
    "diagnose",
    "fit",
    "generate",
    "hint",
    "keep",
    "load_model",
    "make_batches",
    "padding_mask",
    "predict",
    "record_attention",
    "same",
    "save_model",
    "stream",
    "translate",
    "use_attend",
    "view",
]
