"""What the course's modules import and no exercise of the page calls.

Each is there as an empty module, whose names say that they are absent when they are called.
"""

import sys
from importlib.util import find_spec
from types import ModuleType

ABSENT = ("tokenizers", "tokenizers.pre_tokenizers", "former_nb.models.pretrained")
ABSENT += ("former_nb.decoding.fast_copy", "former_nb.models.build")
ABSENT += ("safetensors", "safetensors.torch")
ABSENT += tuple(f"tokenizers.{part}" for part in ("decoders", "models", "trainers"))


class Absent(ModuleType):
    """A module of which every name is there, and none can be used."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        where = self.__name__

        class Missing:
            """Stands for a class or a function."""

            def __init__(self, *args, **options):
                raise NotImplementedError(
                    f"{where}.{name} is not in this page, but in the notebook"
                )

        return Missing


class Pretrained:
    """What a model inherits besides: it is made from words, saved and loaded, but not here."""

    @classmethod
    def from_config(cls, *args, **options):
        raise NotImplementedError(
            f"{cls.__name__}.from_config is not in this page, but in the notebook; here a model is "
            "made of parts"
        )


def is_found(name):
    """Whether a module can be imported, as on a machine that has it."""
    try:
        return name in sys.modules or find_spec(name) is not None
    except ModuleNotFoundError:  # not even its package
        return False


def install(names=None):
    """Put empty modules where imports look for them, for those that are not found."""
    for name in ABSENT if names is None else names:
        if names or not is_found(name):
            sys.modules[name] = Absent(name)
            sys.modules[name].Pretrained = Pretrained
