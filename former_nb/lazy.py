"""Names that a package offers and imports only when they are asked for.

So `from former_nb import fit` is short, and `import former_nb` does not wait for PyTorch. Editors
and type checkers read the same names in the `__init__.pyi` beside each such package, which
`python tools/stubs.py` makes.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from types import ModuleType

from .renamed import listen, lost_names, missing


def lazy_names(
    package: str,  # its `__name__`
    modules: dict[str, str],  # of the package -> names that it defines, with spaces between
    packages: tuple[str, ...] = (),  # in it, offered under their own names
):  # `__getattr__`, `__dir__` and `__all__` of the package (PEP 562)
    "What a package's `__init__` needs to offer names that live in its modules, and the modules."
    homes = {}
    for module, names in modules.items():
        for name in names.split():
            homes[name] = module

    def __getattr__(name):
        if name in homes:
            return getattr(import_module(f"{package}.{homes[name]}"), name)
        if (error := missing(package, name)) is not None:
            raise error
        inner = f"{package}.{name}"
        if not name.startswith("_") and find_spec(inner) is not None:
            return import_module(inner)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__():
        return offered

    offered = sorted([*homes, *packages])
    sys.modules[package].__class__ = LazyPackage
    listen()
    return __getattr__, __dir__, offered


class LazyPackage(ModuleType):
    """A package of lazy names: it sees each of its modules when Python has imported it.

    A module that has the name of a function that the package offers can be called as the function,
    since whatever imports the module puts it in the function's place.
    """

    def __setattr__(self, name, value):
        if type(value) in (ModuleType, LazyPackage) and name in getattr(self, "__all__", ()):
            value.__class__ = CallableModule
        elif type(value) is ModuleType and lost_names(value.__name__):
            value.__class__ = Module
        super().__setattr__(name, value)


class Module(ModuleType):
    "A module that says what to write in place of a name that it had once."

    def __getattr__(self, name):
        fault = AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        raise missing(self.__name__, name) or fault


class CallableModule(LazyPackage, Module):
    """A module or a package that can be called as the function that has its name.

    `former_nb.attention` is a folder of modules, and `attention` is also what most people want from
    it. So `from former_nb import attention` gives something that is both, whatever was imported
    before.
    """

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    @property
    def _function(self):
        return getattr(self, self.__name__.rpartition(".")[2])

    @property
    def __doc__(self):  # so in Jupyter `attention?` explains the function
        return self._function.__doc__

    @property
    def __signature__(self):  # what `help` and editors show
        return signature(self._function)

    def __reduce__(self):  # a model that holds it can be copied and pickled
        return import_module, (self.__name__,)
