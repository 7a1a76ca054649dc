"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import bart as bart
from . import baselines as baselines
from . import bert as bert
from . import bigrams as bigrams
from . import build as build
from . import choices as choices
from . import classifier as classifier
from . import config as config
from . import encoder_decoder as encoder_decoder
from . import initialization as initialization
from . import language_model as language_model
from . import layers as layers
from . import masked_language as masked_language
from . import parts as parts
from . import post_norm as post_norm
from . import pretrained as pretrained
from . import rope_scaling as rope_scaling
from . import savable as savable
from .config import TransformerConfig as TransformerConfig
from .encoder_decoder import DecoderBlock as DecoderBlock
from .encoder_decoder import collate_pairs as collate_pairs
from .encoder_decoder import translator as translator
from .language_model import generator as generator
from .layers import Block as Block
from .layers import Embedding as Embedding
from .layers import FeedForward as FeedForward
from .layers import Stack as Stack
from .layers import make_block as make_block
from .masked_language import MaskedLanguageModel as MaskedLanguageModel
from .modern_decoder import GroupedQueryAttention as GroupedQueryAttention
from .modern_decoder import RMSNorm as RMSNorm
from .modern_decoder import SwiGLU as SwiGLU
from .modern_decoder import load_llama as load_llama
from .modern_decoder import modern_decoder as modern_decoder
from .parts import CrossAttention as CrossAttention
from .parts import Decoder as Decoder
from .pretrained import Pretrained as Pretrained
from .savable import Classifier as Classifier
from .savable import EncoderDecoder as EncoderDecoder
from .savable import LanguageModel as LanguageModel

__all__ = [
    "Block",
    "Classifier",
    "CrossAttention",
    "Decoder",
    "DecoderBlock",
    "Embedding",
    "EncoderDecoder",
    "FeedForward",
    "GroupedQueryAttention",
    "LanguageModel",
    "MaskedLanguageModel",
    "Pretrained",
    "RMSNorm",
    "Stack",
    "SwiGLU",
    "TransformerConfig",
    "collate_pairs",
    "generator",
    "load_llama",
    "make_block",
    "modern_decoder",
    "translator",
]
