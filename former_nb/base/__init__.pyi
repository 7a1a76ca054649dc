"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import checkpoints as checkpoints
from . import core as core
from . import files as files
from . import flops as flops
from . import guards as guards
from . import ranges as ranges
from . import results as results
from . import source as source
from .checkpoints import atomic_write as atomic_write
from .core import eval_mode as eval_mode
from .core import pick_device as pick_device
from .core import set_seed as set_seed
from .files import find_model as find_model

__all__ = [
    "atomic_write",
    "eval_mode",
    "find_model",
    "pick_device",
    "set_seed",
]
