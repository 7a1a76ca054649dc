"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import case as case
from . import diagnosis as diagnosis
from . import probes as probes
from . import record as record
from .diagnosis import Diagnosis as Diagnosis
from .diagnosis import Finding as Finding
from .diagnosis import diagnose as diagnose

__all__ = [
    "Diagnosis",
    "Finding",
    "diagnose",
]
