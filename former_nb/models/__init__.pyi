"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import bart as bart
from . import baselines as baselines
from . import bert as bert
from . import bigrams as bigrams
from . import block as block
from . import build as build
from . import choices as choices
from . import classifier as classifier
from . import config as config
from . import encoder_decoder as encoder_decoder
from . import fine_tuning as fine_tuning
from . import hub_config as hub_config
from . import initialization as initialization
from . import language_model as language_model
from . import masked_language as masked_language
from . import mixture_of_experts as mixture_of_experts
from . import packing as packing
from . import post_norm as post_norm
from . import pretrained as pretrained
from . import two_stacks as two_stacks
from .block import Block as Block
from .block import CrossAttention as CrossAttention
from .block import Decoder as Decoder
from .block import DecoderBlock as DecoderBlock
from .block import Embedding as Embedding
from .block import FeedForward as FeedForward
from .block import GroupedQueryAttention as GroupedQueryAttention
from .block import RMSNorm as RMSNorm
from .block import Stack as Stack
from .block import SwiGLU as SwiGLU
from .block import make_block as make_block
from .classifier import Classifier as Classifier
from .config import TransformerConfig as TransformerConfig
from .encoder_decoder import EncoderDecoder as EncoderDecoder
from .fine_tuning import add_low_rank as add_low_rank
from .fine_tuning import merge_low_rank as merge_low_rank
from .language_model import LanguageModel as LanguageModel
from .masked_language import MaskedLanguageModel as MaskedLanguageModel
from .mixture_of_experts import MixtureLanguageModel as MixtureLanguageModel
from .mixture_of_experts import MixtureOfExperts as MixtureOfExperts
from .mixture_of_experts import with_balance as with_balance
from .modern_decoder import modern_decoder as modern_decoder
from .packing import packed as packed
from .pretrained import Pretrained as Pretrained

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
    "MixtureLanguageModel",
    "MixtureOfExperts",
    "Pretrained",
    "RMSNorm",
    "Stack",
    "SwiGLU",
    "TransformerConfig",
    "add_low_rank",
    "make_block",
    "merge_low_rank",
    "modern_decoder",
    "packed",
    "with_balance",
]
