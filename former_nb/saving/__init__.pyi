"""What editors and type checkers read; made by tools/stubs.py from __init__.py."""

from . import config_keys as config_keys
from . import families as families
from . import hugging_face as hugging_face
from . import saving as saving
from .families import add_families as add_families
from .hugging_face import from_hugging_face as from_hugging_face
from .hugging_face import to_hugging_face as to_hugging_face
from .saving import load_model as load_model
from .saving import save_model as save_model

__all__ = [
    "add_families",
    "from_hugging_face",
    "load_model",
    "save_model",
    "to_hugging_face",
]
