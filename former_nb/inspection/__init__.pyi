"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import ablation as ablation
from . import comparison as comparison
from . import leak_tools as leak_tools
from . import leaks as leaks
from . import lens as lens
from . import ngrams as ngrams
from . import products as products
from . import reasons as reasons
from . import recording as recording
from . import scores as scores
from . import translation as translation
from . import viewer as viewer
from . import your_attention as your_attention
from .ablation import ablate_heads as ablate_heads
from .comparison import Comparison as Comparison
from .comparison import same as same
from .describe import describe as describe
from .leaks import assert_no_leak as assert_no_leak
from .lens import logit_lens as logit_lens
from .ngrams import NGram as NGram
from .recording import Recorder as Recorder
from .recording import record_attention as record_attention
from .scores import score_translations as score_translations
from .viewer import view as view
from .your_attention import use_attend as use_attend

__all__ = [
    "Comparison",
    "NGram",
    "Recorder",
    "ablate_heads",
    "assert_no_leak",
    "describe",
    "logit_lens",
    "record_attention",
    "same",
    "score_translations",
    "use_attend",
    "view",
]
