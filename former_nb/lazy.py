"""Names that a package offers and imports only when they are asked for.

So `from former_nb import fit` is short, and `import former_nb` does not wait for PyTorch.
"""

from importlib import import_module


def lazy_names(
    package: str,  # its `__name__`
    modules: dict[str, str],  # of the package -> names that it defines, with spaces between
):  # `__getattr__`, `__dir__` and `__all__` of the package (PEP 562)
    "What a package's `__init__` needs to offer names that live in its modules."
    homes = {}
    for module, names in modules.items():
        for name in names.split():
            homes[name] = module

    def __getattr__(name):
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{homes[name]}"), name)

    def __dir__():
        return sorted(homes)

    return __getattr__, __dir__, sorted(homes)
