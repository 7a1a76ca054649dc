"""The weights that a model starts with, or none."""

from contextlib import contextmanager

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

__all__ = ["NoRandomWeights", "no_random_weights", "init_weights"]

RANDOM = (  # what draws the numbers of a weight that is there
    nn.init.uniform_,
    nn.init.normal_,
    nn.init.kaiming_uniform_,
    nn.init.kaiming_normal_,
    torch.Tensor.uniform_,
    torch.Tensor.normal_,
)


class NoRandomWeights(TorchFunctionMode):
    """Within `with`, no weight is given random numbers: a model that is read overwrites them all.

    Memory that nobody writes into takes none. Whatever else a model computes when it is made, such
    as a table of positions, it computes as ever.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in RANDOM and kwargs.get("generator") is None:
            tensor = args[0] if args else kwargs["tensor"]
            if isinstance(tensor, nn.Parameter):
                return tensor
        return func(*args, **kwargs)


@contextmanager
def no_random_weights():
    "Within `with`, a model is made to be read. No random number that a program draws is another."
    with torch.random.fork_rng(devices=[]), NoRandomWeights():
        yield


def init_weights(
    model: nn.Module,  # changed in place
    n_layers: int,  # blocks in the stack
) -> None:
    """Normal(0, 0.02), zeros for biases; layers that write to the stream smaller (GPT-2).

    They start smaller by 1 / √n, where n is their number in the whole stack, so that the stream
    starts with the same size at any depth. The deep dive on deep stacks derives the factor and
    measures what it is worth.
    """
    names = [name for name, _ in model.named_modules()]
    writes = 2  # layers of a block that write to the stream
    if any(name.endswith("cross.w_o") for name in names):
        writes = 3
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            std = 0.02
            if name.endswith(("w_o", "ff.w_out")):
                std = 0.02 / (writes * n_layers) ** 0.5
            nn.init.normal_(module.weight, std=std)
            start = getattr(module, "bias", None)
            if start is not None:
                nn.init.zeros_(start)
