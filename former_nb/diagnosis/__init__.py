"""Why doesn't it learn? Probes of what any Transformer owes, for models of anybody."""

from ..lazy import lazy_names

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {"diagnosis": "diagnose Diagnosis Finding"},
)
