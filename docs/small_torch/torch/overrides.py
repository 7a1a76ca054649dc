"""Functions in place of PyTorch's own; none is replaced here."""


class TorchFunctionMode:
    """Within `with`, every function as ever."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return False
